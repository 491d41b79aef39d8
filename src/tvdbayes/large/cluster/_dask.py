"""The only place that imports Dask."""

from importlib import import_module
from typing import Any

from tvdbayes._errors import SettingsError

__all__ = ["dask_module"]


def dask_module(name: str) -> Any:
    """The module "dask" or "distributed", or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError(
            "Rows on a cluster need Dask. Run: pip install 'tvdbayes[dask]'"
        ) from error
