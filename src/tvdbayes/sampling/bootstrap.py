"""The posterior bootstrap: Algorithm 1 of the paper, for blocks of draws.

Reweight the table at random; fit; repeat. The fit is maximum likelihood on the rows that the model
can explain, or the closest model itself.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypedDict

import numpy as np

from tvdbayes._array import Device
from tvdbayes._errors import Interrupted, MemoryBudgetError, SettingsError
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.objective import Layout
from tvdbayes.objective.divergences import TVD, AbstractDivergence
from tvdbayes.objective.partitions import (
    AbstractPartition,
    Auto,
    Bins,
    GroupReport,
    learn_bins,
    median_cell,
    report_groups,
)
from tvdbayes.sampling.execution import AbstractExecutor, executor_for, single_threaded
from tvdbayes.sampling.networks import prepare_networks
from tvdbayes.sampling.neural import device_for
from tvdbayes.sampling.option_checks import is_number
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.plan import (
    AUTO_RIDGE,
    AbstractPlan,
    Refine,
    Solved,
    draws_of,
    prepare,
    solve_block,
    solve_tables,
)
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.trimmed import recorded_plan, trimmed_plan
from tvdbayes.sampling.warnings import warn_of
from tvdbayes.sampling.weights import Prior, Stream, block_size
from tvdbayes.solvers import Status

__all__ = [
    "AUTO_RIDGE",
    "AbstractPlan",
    "Solved",
    "draws_of",
    "plan_for_replicates",
    "plan_of",
    "posterior_bootstrap",
    "solve_tables",
]

_LOG = logging.getLogger("tvdbayes")

_ARRAYS = 24
"""Arrays of the size of a block that a solve keeps alive at its peak, measured and rounded up."""

_COPIES = 16
"""The same for a network that is trained, in single precision."""

_NETWORKS = 8
"""Networks of a block on the CPU: they are trained one by one, and their lines need a few."""

_NODES = 16
"""A sum over the support costs a draw so much more time that blocks must be smaller."""


def posterior_bootstrap(
    model: Model,
    cells: Cells,
    *,
    divergence: AbstractDivergence | None = None,
    partition: AbstractPartition | None = None,
    n_draws: int = 1000,
    seed: int = 0,
    prior: Prior | None = None,
    ridge: float | Literal["auto"] = "auto",
    bins: Sequence[float] | Literal["auto", "none"] = "auto",
    refine: Literal["auto", "trim", "reweight"] | None = "auto",
    n_jobs: int | None = None,
    memory_budget: int = 2 << 30,
    device: str | None = None,
    resume: Posterior | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Posterior:
    """Draw from the posterior: parameters fitted to randomly reweighted tables.

    By default (`refine`) these are fits by maximum likelihood to the rows that a model can explain.

    Parameters
    ----------
    model : Model
        Family and predictor.
    cells : Cells
        The data.
    divergence : AbstractDivergence, optional
        What "closest" means; the total variation distance unless given.
    partition : AbstractPartition, optional
        Which rows are compared together; `Auto` unless given.
    n_draws : int
        Number of posterior draws; 0 gives the point fit alone.
    seed : int
        At least 0. The same seed gives the same draws bit for bit, and the first of them are the
        same for every `n_draws`.
    prior : Prior, optional
        Dirichlet-process prior; none is the limit of a weightless one.
    ridge : float or "auto"
        Penalty on the variance of the linear predictor over the rows: the sum of squared
        standardised slopes, if these columns are uncorrelated. Never on the ordinary twin.
        With "trim" it is beside the mean log-likelihood; "auto" is 1e-6, which is also the least,
        and a warning says if only the penalty holds a draw. Otherwise it is beside a divergence
        such as a TVD in [0, 1]; "auto" is 0 where x repeats, unless an optimum at infinity is met,
        then 1e-4 with a warning; where rows of different x are grouped it is 1e-4 throughout.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first count of each bin. "auto" joins neighbours
        where they are spread so thin that single counts would say nothing, see `Posterior.bins`.
    refine : "auto", "trim", "reweight" or None
        "auto" is "trim" for a linear predictor and `TVD`, "reweight" for a network whose divergence
        compares groups, and None otherwise. "trim" drops, once and for all draws, rows that are too
        many for the model or that disagree with the others from far out in x, and fits the rest by
        maximum likelihood (`trimming`, benchmarks/results/default.md); draws are widened for
        leverage (HC3) and for few degrees of freedom. None is the closest model itself, the
        posterior of the paper. "reweight" ends every draw with one-step reweighting: mass that the
        closest model cannot explain is taken away, and weighted maximum likelihood fits the rest
        (benchmarks/results/refine.md); `distance` stays that of the closest model.
    n_jobs : int, optional
        Blocks of draws to compute at once: 1 is this process, -1 is one for each core. Left out, it
        is what a joblib context says (all of a cluster that it names), else 1; docs/clusters.md.
    memory_budget : int
        Bytes that the blocks in work may take together; on a cluster, each of them.
    device : str, optional
        Compute the draws with JAX there: "gpu", or "gpu:float32" for half the precision. The same
        random weights and the same steps give the same draws but for rounding. None is NumPy.
    resume : Posterior, optional
        Draws of the same fit that exist already, such as `Interrupted.partial`; they are not
        computed again, and the result is the same bit for bit.
    progress : callable, optional
        Called with the draws done and the draws in all.

    Returns
    -------
    Posterior

    Raises
    ------
    Interrupted
        On Ctrl-C, with the finished draws in `partial`.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> y = np.random.default_rng(0).poisson(3, 200)
    >>> cells = tb.Cells.from_rows(np.ones((200, 1)), y)
    >>> fit = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=100)
    >>> fit.draws.shape
    (100, 1)
    """
    if not (is_number(memory_budget) and memory_budget > 0):
        raise SettingsError(f"memory_budget must be a number of bytes; got {memory_budget!r}.")
    divergence = TVD() if divergence is None else divergence
    partition = Auto() if partition is None else partition
    options = Options(
        family=model.family,
        divergence=divergence,
        n_draws=n_draws,
        seed=seed,
        partition=partition,
        ridge=ridge,
        bins=bins,
        refine=refine,
        n_jobs=n_jobs,
        device=device,
        **({} if prior is None else vars(prior)),
    )
    refined = _refined(refine, divergence, model)
    model.check(cells)
    setting = _Setting.make(
        model,
        cells,
        divergence=divergence,
        partition=partition,
        prior=prior,
        seed=seed,
        refine=refined,
    )
    setting = setting.binned(_outcome_bins(options.bins, setting, divergence))
    there = model.predictor.fitted_by(
        solving=lambda: None if device is None else _device(device, model, n_jobs),
        training=lambda _: _training_device(device, model, n_jobs),
    )
    executor = executor_for(n_jobs, _affordable(setting.block_elements, memory_budget))
    with nullcontext() if there is None else there.here():
        plan, unweighted = setting.plan(divergence, ridge, seed, n_draws > 0, refined, device=there)
        if device is not None and there is not None:
            # The pilot is the same as without a device; blocks are as large as its memory allows.
            plan = replace(plan, size=setting.size_within(there.memory or memory_budget, n_draws))
        return _draw(
            plan,
            setting,
            unweighted,
            executor,
            options=options.kept(),
            n_draws=n_draws,
            resume=resume,
            progress=progress,
        )


def _draw(
    plan: AbstractPlan,
    setting: "_Setting",
    unweighted: Solved,
    executor: AbstractExecutor,
    *,
    options: Options,
    n_draws: int,
    resume: Posterior | None,
    progress: Callable[[int, int], None] | None,
) -> Posterior:
    """Solve all blocks of draws that are not known yet, and put the record together."""
    size, table = plan.size, setting.layout.cells
    assemble = partial(_assemble, plan, setting, unweighted, options)
    made = assemble([], n_draws=0)
    n_known = 0 if resume is None else _check_resumed(resume, made)
    n_blocks, first = -(-n_draws // size), min(n_known, n_draws) // size
    _LOG.info("%s rows, %s cells: %s blocks of %s draws", *_sizes(table), n_blocks - first, size)

    def finished(blocks: list[Solved], n: int) -> Posterior:
        new = assemble(blocks, n_draws=n - first * size)
        return new if resume is None else _joined(resume, new, first * size)

    blocks: list[Solved] = []
    try:
        for block in executor.map(
            partial(solve_block, plan, n_draws=n_draws), range(first, n_blocks)
        ):
            blocks.append(block)
            if progress is not None:
                progress(min((first + len(blocks)) * size, n_draws), n_draws)
    except KeyboardInterrupt as stop:
        n_done = min((first + len(blocks)) * size, n_draws)
        raise Interrupted(
            f"Stopped after {n_done} of {n_draws} draws; they are in the attribute `partial` of "
            "this exception. Call again with resume=partial for the same result.",
            finished(blocks, n_done),
        ) from stop
    posterior = finished(blocks, n_draws)
    warn_of(posterior, plan.rescued, int(unweighted.robust.status[0]))
    return posterior


def plan_of(posterior: Posterior, device: str | None = None) -> AbstractPlan:
    """The plan behind a record, made again: the same objectives, starts and random numbers.

    What is solved by it (`solve_tables`) is comparable draw by draw with the record. A `device` is
    for networks, which are trained there.
    """
    model = posterior.model
    there = model.predictor.fitted_by(
        solving=lambda: None, training=lambda _: _training_device(device, model, 1)
    )
    setting = _Setting.of(posterior)
    plan, found = setting.plan(
        posterior.divergence,
        posterior.options.ridge,
        posterior.seed,
        True,
        posterior.refine,
        device=there,
    )
    _check_same(posterior, found)
    return plan


def plan_for_replicates(posterior: Posterior) -> AbstractPlan:
    """The plan behind a record, for data sets of the model's own making.

    They are solved from where the model is. A trimmed likelihood needs no more for that than what
    is on record.
    """
    if posterior.kept_rows is None or posterior.prior is not None:
        return plan_of(posterior).for_replicates()
    setting = _Setting.of(posterior)
    with single_threaded():
        size = setting.block_size
        plan, found = recorded_plan(setting.layout, posterior, posterior.kept_rows, size)
    _check_same(posterior, found)
    return plan.for_replicates()


def _check_same(posterior: Posterior, found: Solved) -> None:
    """Raise unless this is the solution on record."""
    same = posterior.model.predictor.fitted_by(
        # An optimum at infinity is wherever the search has ended.
        solving=lambda: (
            np.allclose(found.robust.theta[:, 0], posterior.minimiser, rtol=1e-6, atol=1e-8)
            or found.robust.status[0] == Status.SEPARATED
        ),
        # Another machine rounds otherwise, and training makes much of it.
        training=lambda _: np.allclose(
            found.distance[0], posterior.minimiser_distance, rtol=0.1, atol=0.02
        ),
    )
    if not same:
        raise SettingsError(
            "This fit cannot be run again: its estimate comes out differently, so it was made by "
            "another version or with another prior. Fit the data again first."
        )


@dataclass(frozen=True, eq=False)
class _Setting:
    """A model laid out on a table, with what a plan needs beside it.

    Parameters
    ----------
    cells : Cells
        The data.
    layout : Layout
        On the data and, where there is one, the mass of the prior.
    prior, drawn : Prior or None
        The prior, and the same if its atoms must be drawn.
    report : GroupReport
        Which rows are compared together.
    on_groups, sums : bool
        What is needed of every draw: masses of groups, sums over the support.
    """

    cells: Cells
    layout: Layout
    prior: Prior | None
    drawn: Prior | None
    report: GroupReport
    on_groups: bool
    sums: bool

    @classmethod
    def make(
        cls,
        model: Model,
        cells: Cells,
        *,
        divergence: AbstractDivergence,
        partition: AbstractPartition,
        prior: Prior | None,
        seed: int,
        refine: Refine,
    ) -> "_Setting":
        """Absorb the prior, learn the groups."""
        table = cells
        if prior is not None:
            table = prior.absorb(cells, Stream.generator(seed, Stream.PRIOR))
            model.check(table)
        with single_threaded():
            groups = partition.learn(table, model.complexity(cells), seed)
            fold = divergence.folds and model.family.binary
            layout = Layout(model, table, groups, cells, fold, grouped=groups.group(table))
            report = report_groups(table, groups.name, layout.grouping)
        drawn = prior if prior is not None and prior.drawn else None
        # Draws of a trimmed likelihood look at cells alone.
        on_groups = divergence.on_groups and refine != "trim"
        return cls(cells, layout, prior, drawn, report, on_groups, divergence.sums)

    @classmethod
    def of(cls, posterior: Posterior) -> "_Setting":
        """The setting of a record."""
        return cls.make(
            posterior.model,
            posterior.cells,
            divergence=posterior.divergence,
            partition=posterior.partition,
            prior=posterior.prior,
            seed=posterior.seed,
            refine=posterior.refine,
        ).binned(posterior.bins)

    def binned(self, bins: Bins | None) -> "_Setting":
        """The same with outcomes compared in bins."""
        return replace(self, layout=replace(self.layout, bins=bins))

    @property
    def block_elements(self) -> int:
        """Array elements that a block of draws needs."""
        return self.block_size * (
            self._per_draw + (self.block_size * self.drawn.n_atoms if self.drawn else 0)
        )

    @property
    def block_size(self) -> int:
        """Draws in a block."""
        size = block_size(self._per_draw, self.drawn.n_atoms if self.drawn else 0)
        return self.layout.model.predictor.fitted_by(
            solving=lambda: size, training=lambda _: min(size, _NETWORKS)
        )

    def size_within(self, memory: int, n_draws: int) -> int:
        """Draws in a block that a device with so many bytes can hold: a power of two."""
        nodes = self.layout.model.predictor.fitted_by(
            solving=lambda: 0,
            training=lambda settings: settings.batch_rows * sum(settings.hidden),
        )
        most = memory // (8 * _ARRAYS * (self._per_draw + nodes))
        wanted = 1 << max(min(n_draws, 1024) - 1, 0).bit_length()
        return min(wanted, 1 << max(int(most).bit_length() - 1, 0))

    @property
    def _per_draw(self) -> int:
        layout = self.layout
        return layout.model.predictor.fitted_by(
            solving=lambda: self._elements + layout.bound.n_params**2,
            training=lambda _: layout.cells.n_cells + _COPIES * layout.bound.n_params,
        )

    @property
    def _elements(self) -> int:
        layout = self.layout
        elements = layout.units.n_elements if self.on_groups else layout.cells.n_cells
        return elements * (_NODES if self.sums else 1)

    def plan(
        self,
        divergence: AbstractDivergence,
        ridge: float | Literal["auto"],
        seed: int,
        pilot: bool,
        refine: Refine,
        *,
        device: Device | None = None,
    ) -> tuple[AbstractPlan, Solved]:
        """Solve the unweighted table, and collect what every draw needs."""
        shared: _Shared = {
            "ridge": ridge,
            "cells": self.cells if self.drawn else self.layout.cells,
            "prior": self.drawn,
            "seed": seed,
            "size": self.block_size,
            "pilot": pilot,
            "refine": refine,
        }
        with single_threaded():
            return self.layout.model.predictor.fitted_by(
                solving=lambda: self._solving(divergence, device, shared),
                training=lambda settings: prepare_networks(
                    self.layout,
                    divergence,
                    settings,
                    device or device_for(None, self.layout.family),
                    **shared,
                ),
            )

    def _solving(
        self, divergence: AbstractDivergence, device: Device | None, shared: "_Shared"
    ) -> tuple[AbstractPlan, Solved]:
        if shared["refine"] != "trim":
            return prepare(self.layout, divergence, device=device, **shared)
        closest: _Shared = {**shared, "refine": None, "pilot": False}
        plan, found = prepare(self.layout, divergence, device=device, **closest)
        return trimmed_plan(plan, found, shared["ridge"], shared["pilot"])


class _Shared(TypedDict):
    """What all plans are made of."""

    ridge: float | Literal["auto"]
    cells: Cells
    prior: Prior | None
    seed: int
    size: int
    pilot: bool
    refine: Refine


def _sizes(cells: Cells) -> tuple[str, int]:
    return f"{cells.n_obs:g}", cells.n_cells


_PER_DRAW = (
    *("draws", "distance", "status", "n_iter", "decrement", "residual"),
    *("kld_draws", "kld_distance", "kld_status"),
)


def _joined(old: Posterior, new: Posterior, n_old: int) -> Posterior:
    """The new record, with the first `n_old` draws of the old one put before its own."""
    both: dict[str, Any] = {
        name: np.concatenate([getattr(old, name)[:n_old], getattr(new, name)]) for name in _PER_DRAW
    }
    return replace(new, **both)


def _check_resumed(resume: Posterior, made: Posterior) -> int:
    """The number of draws that can be kept; raise unless they are of this very fit."""
    given: object = resume
    if not isinstance(given, Posterior):
        raise SettingsError(f"resume must be draws of the same fit; got {type(given).__name__}.")
    same = resume.seed == made.seed and all(
        np.array_equal(getattr(resume, name), getattr(made, name))
        for name in ("minimiser", "kld_minimiser", "shift")
    )
    if not same:
        raise SettingsError(
            "resume holds draws of another fit: the data, the model, the settings or the seed "
            "have changed. Leave it out to start anew."
        )
    return resume.n_draws


def _outcome_bins(
    wanted: Sequence[float] | str, setting: _Setting, divergence: AbstractDivergence
) -> Bins | None:
    """The outcomes that are compared together, as asked for or as the table needs it."""
    layout, report = setting.layout, setting.report
    family, cells = layout.family, layout.cells
    applies = divergence.on_groups and family.counts
    if not isinstance(wanted, str):
        if not applies:
            raise SettingsError(
                f"bins= joins counts that are compared by groups; {type(family).__name__} with "
                f"the divergence {divergence.name!r} has none. Leave it out."
            )
        return Bins.starting_at(wanted, float(cells.y.max())).isolating(family.spikes)
    if not applies:
        return None
    # Thin cells pull a free spread in, so a law with one is binned sooner.
    thin = layout.partition.thin * len(family.predictors)
    if wanted == "none" or median_cell(cells, layout.grouping) >= thin:
        return None
    learned = learn_bins(cells, layout.grouping, report.median_size)
    return None if learned is None else learned.isolating(family.spikes)


def _refined(refine: object, divergence: AbstractDivergence, model: Model) -> Refine:
    """What is done to the closest model."""
    if refine is None:
        return None
    if refine == "auto":
        if model.predictor.reweighted:
            return "reweight" if divergence.on_groups else None
        return "trim" if divergence == TVD() else None
    if not divergence.on_groups:
        raise SettingsError(
            f"refine={refine!r} takes away mass that a robust fit cannot explain, and the "
            f'divergence {divergence.name!r} compares row by row. Use divergence="tvd", or leave '
            "refine out."
        )
    if refine == "reweight":
        return "reweight"
    if not model.predictor.averages:
        raise SettingsError('refine="trim" is for linear predictors; networks have "reweight".')
    return "trim"


def _device(name: str, model: Model, n_jobs: int | None) -> Device:
    if n_jobs not in (None, 1):
        raise SettingsError(
            f"device={name!r} computes all draws of a block together; leave n_jobs at 1, got "
            f"{n_jobs}."
        )
    if not model.family.on_device:
        raise SettingsError(
            f"{type(model.family).__name__} is computed with NumPy only. Leave device out."
        )
    return Device.named(name)


def _training_device(name: str | None, model: Model, n_jobs: int | None) -> Device:
    if isinstance(name, str) and ":" not in name:
        # Steps are random, so that double precision buys nothing but for some laws.
        name += ":float32" if model.family.single_precision else ":float64"
    if name is not None:
        return device_for(_device(name, model, n_jobs), model.family)
    if not model.family.on_device:
        raise SettingsError(
            f"{type(model.family).__name__} is computed with NumPy, and networks are trained by "
            "JAX. Choose another family, or a linear predictor."
        )
    return device_for(None, model.family)


def _affordable(elements: int, budget: int) -> int:
    """How many blocks of this many cells x draws may be in work at once on one machine."""
    need = 8 * elements * _ARRAYS
    if need > budget:
        raise MemoryBudgetError(
            f"One block of draws needs about {need / 2**20:,.0f} MiB, above the budget of "
            f"{budget / 2**20:,.0f} MiB. Raise memory_budget, or coarsen the covariates so that "
            "more rows share a cell."
        )
    return int(budget // need)


def _assemble(
    plan: AbstractPlan,
    setting: _Setting,
    unweighted: Solved,
    options: Options,
    blocks: list[Solved],
    *,
    n_draws: int,
) -> Posterior:
    layout, d = plan.robust.layout, unweighted.robust.theta.shape[0]

    def join(arrays: list[np.ndarray], *empty: int) -> np.ndarray:
        return np.concatenate(arrays, axis=-1)[..., :n_draws] if arrays else np.zeros((*empty, 0))

    robust, twin = [b.robust for b in blocks], [b.twin for b in blocks]
    return Posterior(
        model=layout.model,
        cells=setting.cells,
        divergence=plan.robust.divergence,
        partition=layout.partition,
        param_names=layout.model.param_names(setting.cells),
        minimiser=unweighted.robust.theta[:, 0],
        minimiser_distance=float(unweighted.distance[0]),
        kld_minimiser=unweighted.twin.theta[:, 0],
        draws=join([s.theta for s in robust], d).T,
        distance=join([b.distance for b in blocks]),
        status=join([s.status for s in robust]).astype(int),
        n_iter=join([s.n_iter for s in robust]).astype(int),
        decrement=join([s.decrement for s in robust]),
        residual=join([s.residual for s in robust]),
        kld_draws=join([s.theta for s in twin], d).T,
        kld_distance=join([b.twin_distance for b in blocks]),
        kld_status=join([s.status for s in twin]).astype(int),
        ridge=plan.ridge,
        seed=plan.seed,
        shift=layout.bound.to_user(plan.shift[:, None])[:, 0],
        groups=setting.report,
        bins=layout.bins,
        prior=setting.prior,
        refine=plan.refine,
        kept_rows=plan.kept_rows,
        options=options,
    )
