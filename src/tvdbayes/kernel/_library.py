"""Find the library, choose an instruction set, and call its functions."""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, Final, Literal, TypeVar

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes.kernel.build import HOME, LEVELS, LIBRARY, fingerprint

Result = TypeVar("Result")

NUMPY: Final = "numpy"
COMPILED: Final = "c"
"""The two ways to compute, as they are named in records."""

_VARIABLE = "TVDBAYES_KERNEL"

_CHOICE: ContextVar[str | None] = ContextVar("kernel", default=None)
"""What a fit has begun with, where that is known; else the variable of the environment says."""
_STOP: ContextVar[Event | None] = ContextVar("stop", default=None)
"""What tells a thread that nobody waits for it any more."""


@dataclass(frozen=True, eq=False)
class Library:
    """The compiled kernel in one instruction set.

    Parameters
    ----------
    level : str
        The instruction set.
    lanes : int
        Draws that are computed side by side: arrays hold a multiple of them. The wider the
        instruction set, the more they are.
    """

    _handle: Any
    level: str
    lanes: int

    def call(self, function: str, *values: object) -> None:
        """Call a function of the kernel by its name in the source.

        A whole number is passed as int64_t, another one as double, None as NULL, and an array,
        which must be dense, as the address of its first entry. The kernel checks nothing: lengths
        are the caller's duty. Other threads run meanwhile.
        """
        stop = _STOP.get()
        if stop is not None and stop.is_set():
            raise KeyboardInterrupt
        getattr(self._handle, f"{function}_{self.level}")(*map(_passed, values))

    def padded(self, n_draws: int) -> int:
        """The next multiple of `lanes`."""
        return -(-n_draws // self.lanes) * self.lanes


def _passed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("The kernel takes dense arrays only.")
        return ctypes.c_void_p(value.ctypes.data)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, int | np.integer):
        return ctypes.c_int64(int(value))
    return ctypes.c_double(value)


@cache
def _open(path: Path) -> tuple[dict[str, Library], str]:
    """What can be used of the library in a file, by instruction set; or why nothing can be."""
    if not path.is_file():
        return {}, "it was not compiled when the package was installed"
    try:
        handle = ctypes.CDLL(str(path))
    except OSError as error:
        return {}, f"its library cannot be opened ({error})"
    handle.kernel_sources.restype = ctypes.c_char_p
    handle.kernel_runs.restype = ctypes.c_int64
    if handle.kernel_sources().decode() != fingerprint():
        return {}, "its library was made of other sources; run `make kernel`"
    found = {}
    for number, level in enumerate(LEVELS):
        if hasattr(handle, f"lanes_{level}") and handle.kernel_runs(ctypes.c_int64(number)):
            lanes = ctypes.c_int64()
            getattr(handle, f"lanes_{level}")(ctypes.byref(lanes))
            found[level] = Library(handle, level, lanes.value)
    return found, ""


def library() -> Library | None:
    """The kernel that is to be used here and now; None for NumPy."""
    asked = os.environ.get(_VARIABLE, "")
    choice = _CHOICE.get()
    _check(asked)
    if NUMPY in (choice, asked if choice is None else ""):
        return None
    found, fault = _open(_path())
    if asked in LEVELS:
        if asked in found:
            return found[asked]
        fault = fault or f"this processor does not know the instructions {asked!r}"
    elif found:
        return list(found.values())[-1]
    if choice == COMPILED:
        raise SettingsError(
            f"This fit is computed by the compiled kernel, which is missing here: {fault}. Install "
            f"the same package everywhere, or set {_VARIABLE}=numpy where the fit is started."
        )
    if asked:
        raise SettingsError(
            f"{_VARIABLE} is {asked!r}, but there is no such kernel: {fault}. "
            "Unset it to compute with NumPy."
        )
    return None


def _path() -> Path:
    """Where the library is; sanitized and scalar ones are named by tests."""
    return Path(os.environ.get("TVDBAYES_KERNEL_LIBRARY", HOME / LIBRARY))


def _check(asked: str) -> None:
    known = ("", NUMPY, COMPILED, *LEVELS)
    if asked not in known:
        raise SettingsError(f"{_VARIABLE} must be one of {', '.join(known[1:])}; got {asked!r}.")


def name() -> Literal["numpy", "c"]:
    """How things are computed here and now, as records name it: "numpy" or "c"."""
    return NUMPY if library() is None else COMPILED


def describe() -> str:
    """The same in words, with the instruction set, or the reason why there is no kernel."""
    found = library()
    if found is not None:
        return f"compiled kernel, {found.level}"
    fault = "" if os.environ.get(_VARIABLE) == NUMPY else _open(_path())[1]
    return f"NumPy, no compiled kernel: {fault}" if fault else "NumPy, as asked"


@contextmanager
def using(choice: str) -> Iterator[None]:
    """Compute by "numpy" or by "c" inside; an error where there is no kernel."""
    token = _CHOICE.set(choice)
    try:
        library()
        yield
    finally:
        _CHOICE.reset(token)


@dataclass(frozen=True)
class _Under:
    choice: str
    work: Callable[..., Any]
    stop: Event | None

    def __call__(self, *args: Any) -> Any:
        token = _STOP.set(self.stop)
        try:
            with using(self.choice):
                return self.work(*args)
        finally:
            _STOP.reset(token)


def under(work: Callable[..., Result], stop: Event | None = None) -> Callable[..., Result]:
    """The same work, done as things are computed here and now wherever it is sent to.

    Once ``stop`` is set, threads of this process end it at the next call of the kernel.
    """
    return _Under(name(), work, stop)
