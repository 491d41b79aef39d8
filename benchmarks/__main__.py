"""Run the benchmarks named on the command line, or all of them."""

import sys

from benchmarks import (
    accuracy,
    bounds,
    clusters,
    comparison,
    continuous,
    cost,
    coverage,
    engines,
    families,
    gpu,
    large,
    misfit,
    networks,
    real,
    refine,
    speed,
    statements,
)

ALL = {
    "accuracy": accuracy.run,
    "speed": speed.run,
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
    "misfit": misfit.run,
    "statements": statements.run,
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
}
NEEDS_A_GPU = ("gpu", "gpu_large", "gpu_networks")
NEEDS_A_CLUSTER = ("clusters", "large")
LONG = ("engines",)
ONLY_BY_NAME = NEEDS_A_GPU + NEEDS_A_CLUSTER + LONG

for name in sys.argv[1:] or [name for name in ALL if name not in ONLY_BY_NAME]:
    if name not in ALL:
        sys.exit(f"There is no benchmark {name!r}. Choose from {', '.join(ALL)}.")
    ALL[name]()
