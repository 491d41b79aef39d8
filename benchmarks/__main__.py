"""Run the benchmarks named on the command line, or all of them."""

import sys
from importlib import import_module

NAMES = ("accuracy", "speed", "coverage")

for name in sys.argv[1:] or NAMES:
    if name not in NAMES:
        sys.exit(f"There is no benchmark {name!r}. Choose from {', '.join(NAMES)}.")
    import_module(f"benchmarks.{name}").run()
