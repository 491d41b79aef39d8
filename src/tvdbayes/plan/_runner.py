"""Simulated data sets for each of several numbers of rows, with the checks that plans share."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvdbayes._errors import SettingsError
from tvdbayes._typing import IntArray
from tvdbayes._validate import probability, whole_number
from tvdbayes.plan._simulation import Progress, Scenario, Simulated, simulate

__all__ = ["Runner", "assumed", "check_options", "sizes_of"]


@dataclass(frozen=True, eq=False)
class Runner:
    """Simulates data sets of any size, and says how far it is."""

    scenario: Scenario
    n_sets: int
    n_draws: int
    interval: float
    seed: int
    progress: Progress | None

    def each(self, sizes: Sequence[int]) -> list[Simulated]:
        return [self.one(n, i, len(sizes)) for i, n in enumerate(sizes)]

    def one(self, n: int, number: int, n_sizes: int) -> Simulated:
        def done(sets: int) -> None:
            if self.progress is not None:
                self.progress(number * self.n_sets + sets, n_sizes * self.n_sets)

        return simulate(
            self.scenario,
            n,
            n_sets=self.n_sets,
            n_draws=self.n_draws,
            interval=self.interval,
            seed=self.seed,
            progress=done,
        )


def sizes_of(rows: Sequence[int] | IntArray) -> list[int]:
    sizes = sorted(rows)
    if not sizes or any(n < 2 or n % 1 for n in sizes):
        raise SettingsError(f"rows must be whole numbers of at least 2; got {rows!r}.")
    return [int(n) for n in sizes]


def check_options(interval: float, n_sets: int, n_draws: int) -> None:
    probability("interval", interval, 0.9)
    for name, value in (("n_sets", n_sets), ("n_draws", n_draws)):
        whole_number(name, value, 2)


def assumed(coefficient: str, truth: float, n_sets: int) -> tuple[str, ...]:
    return (
        f"{coefficient} is {truth:g} for good rows",
        "covariates and wrong rows are as simulated",
        f"{n_sets} data sets of each size, so the last digits are noise",
    )
