"""Slow tests: `make test` leaves them out, `make test-all` runs them.

A single slow test in a file of fast ones carries the mark ``slow`` itself.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent

SLOW = (
    # Pages that are run from top to bottom.
    "docs",
    # Clusters, servers and compilers that take seconds to start.
    "src/tvdbayes/estimators/networks.py",
    "tests/test_cluster.py",
    "tests/test_contributing.py",
    "tests/test_dask.py",
    "tests/test_dask_frames.py",
    "tests/test_device.py",
    "tests/test_networks_door.py",
    "tests/test_postgres.py",
    # Whole experiments.
    "tests/test_atlas.py",
    "tests/test_bayes.py",
    "tests/test_experiments.py",
    "tests/test_network_experiment.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of slow files and folders."""
    slow = [ROOT / name for name in SLOW]
    for item in items:
        if any(item.path.is_relative_to(place) for place in slow):
            item.add_marker(pytest.mark.slow)
