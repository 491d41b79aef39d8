"""Run the benchmarks named on the command line, or all that need no special machine.

``--quick`` runs all of them with little data, prints, and keeps nothing: it shows that they work.
"""

import argparse
import os
import time
from collections.abc import Callable

from benchmarks import (
    accuracy,
    bounds,
    clusters,
    comparison,
    continuous,
    cost,
    coverage,
    default,
    default_speed,
    draws,
    engines,
    families,
    gpu,
    grouped_rows,
    large,
    misfit,
    networks,
    performance,
    performance_peers,
    real,
    refine,
    speed,
    statements,
    textbook,
    wrong_share,
)
from benchmarks._report import only_printed

ALL: dict[str, Callable[..., None]] = {
    "accuracy": accuracy.run,
    "speed": speed.run,
    "default_speed": default_speed.run,
    "performance": performance.run,
    "performance_peers": performance_peers.run,
    "coverage": coverage.run,
    "continuous": continuous.point_estimates,
    "settings": continuous.settings,
    "stress": continuous.stresses,
    "real": real.run,
    "coverage_continuous": coverage.continuous,
    "families": families.run,
    "bins": families.bins,
    "refine": refine.run,
    "refine_families": refine.families,
    "refine_continuous": refine.more,
    "default": default.run,
    "default_glmrob": default.beside_r,
    "default_families": default.families,
    "default_coverage": default.coverage,
    "default_real": default.on_real_data,
    "default_draws": draws.run,
    "misfit": misfit.run,
    "wrong_share": wrong_share.run,
    "statements": statements.run,
    "grouped_rows": grouped_rows.coverage,
    "grouped_rows_surveys": grouped_rows.surveys,
    "grouped_rows_flags": grouped_rows.flags,
    "grouped_rows_cost": grouped_rows.cost,
    "grouped_rows_best": grouped_rows.best,
    "bounds": bounds.run,
    "cost": cost.run,
    "million": cost.million,
    "networks": networks.run,
    "gpu": gpu.run,
    "gpu_large": gpu.large,
    "gpu_networks": networks.on_gpu,
    "clusters": clusters.run,
    "large": large.run,
    "engines": engines.run,
    "comparison": comparison.run,
    "textbook": textbook.run,
}
"""Each takes ``quick``, whether to run on little data."""
NEEDS_A_GPU = ("gpu", "gpu_large", "gpu_networks")
NEEDS_A_CLUSTER = ("clusters", "large")
LONG = ("engines",)
ONLY_BY_NAME = NEEDS_A_GPU + NEEDS_A_CLUSTER + LONG


def run_quickly(names: list[str]) -> None:
    """Little data, no table kept; graphics cards are replaced by JAX on the processor."""
    for name in names or ALL:
        started = time.perf_counter()
        with only_printed():
            ALL[name](quick=True)
        print(f"{name}: {time.perf_counter() - started:.1f} s\n", flush=True)


def run(names: list[str]) -> None:
    for name in names or [name for name in ALL if name not in ONLY_BY_NAME]:
        ALL[name]()


def main(arguments: list[str] | None = None) -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    asked.add_argument("--quick", action="store_true", help="little data, nothing is kept")
    asked.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ALL))
    given = asked.parse_args(arguments)
    unknown = sorted(set(given.names) - set(ALL))
    if unknown:
        asked.error(f"there is no benchmark {unknown[0]!r}. Choose from {', '.join(ALL)}.")
    if given.quick:
        # Optimising code would take longer than running it.
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    (run_quickly if given.quick else run)(given.names)


if __name__ == "__main__":
    main()
