"""Save and load fits: one file of plain arrays and a header, no pickle and no code.

`save` and `load` here know posteriors; the doors add what a formula needs (`tvdbayes.load`).
"""

import os
from collections.abc import Mapping
from typing import Any

from tvdbayes import __version__
from tvdbayes._errors import StorageError
from tvdbayes.models.families import AbstractFamily
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.storage._archive import read_archive, refusing, replacing, write_archive
from tvdbayes.storage._forms import FORMS, Form, form_of
from tvdbayes.storage._plain import Packer, Unpacker

__all__ = [
    "FORMAT_VERSION",
    "FORMS",
    "Form",
    "StorageError",
    "form_of",
    "load",
    "read_archive",
    "read_record",
    "replacing",
    "save",
    "write_archive",
    "write_record",
]

FORMAT_VERSION = 1
"""Grows with every change of what a file holds."""

_FORMAT = "tvdbayes fit"


def save(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to a file, which is replaced only once the new one is complete.

    The same posterior gives the same bytes; ``fit.tvd`` is the usual name. The functions of a
    `CustomFamily` are not written.

    Examples
    --------
    >>> import tempfile, tvdbayes as tb
    >>> from tvdbayes import storage
    >>> cells = tb.Cells.from_counts([[1], [1], [1]], [0, 1, 2], [40, 30, 10])
    >>> posterior = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage.save(posterior, f"{folder}/fit.tvd")
    ...     again = storage.load(f"{folder}/fit.tvd")
    >>> bool((again.draws == posterior.draws).all())
    True
    """
    write_record(posterior, path, FORMS)


def load(path: str | os.PathLike[str], *, family: AbstractFamily | None = None) -> Posterior:
    """Read a posterior back, bit for bit, as `tvdbayes.load` does."""
    record = read_record(path, FORMS, family=family)
    if not isinstance(record, Posterior):
        raise StorageError(f"{os.fspath(path)!r} holds a {type(record).__name__}, not a posterior.")
    return record


def write_record(record: object, path: str | os.PathLike[str], forms: Mapping[str, Form]) -> None:
    """Write an object of one of these forms."""
    packer = Packer(forms)
    packed = packer.pack(record, type(record).__name__.lower())
    header = {"format": _FORMAT, "version": FORMAT_VERSION, "library": __version__}
    write_archive(path, {**header, "record": packed}, packer.arrays)


def read_record(
    path: str | os.PathLike[str],
    forms: Mapping[str, Form],
    *,
    family: AbstractFamily | None = None,
) -> Any:
    """Read an object of one of these forms."""
    given = None if family is None else (family, Packer(forms).pack(family, "family"))
    header, arrays = read_archive(path, _FORMAT, FORMAT_VERSION)
    unpacker = Unpacker(forms, arrays, given)
    with refusing(path):
        record = unpacker.unpack(header["record"])
        if given is not None and not unpacker.used:
            raise StorageError(
                f"it was not made with the family that was given, {family!r}: name, support, "
                "parameters and start must be those of the fit"
            )
    return record
