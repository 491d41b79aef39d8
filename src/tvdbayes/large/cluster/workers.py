"""The only place that imports Dask, and the memory that its workers give back."""

import ctypes
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from tvdbayes._errors import SettingsError


def dask_module(name: str) -> Any:
    """The module "dask" or "distributed", or an error that says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SettingsError(
            "Rows on a cluster need Dask. Run: pip install 'tvdbayes[dask]'"
        ) from error


def give_memory_back() -> None:
    """Return to the system what was used and freed, which allocators would keep.

    Rows stay while temporary arrays come and go between them, so that the holes never reach the
    end of the heap. Measured: with twenty chunks, half a gigabyte of a worker, which Dask then
    made up for by putting rows on disk.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):
        # Only glibc has this function; other systems do nothing.
        ctypes.CDLL(None).malloc_trim(0)
