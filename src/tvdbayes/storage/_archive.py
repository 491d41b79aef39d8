"""One file of plain arrays and a header: written whole or not at all, read only if intact.

A file is an ordinary zip of ``.npy`` arrays and ``header.json``, so other tools can open it. Three
things make it safe to read a stranger's file. Its last bytes are the SHA-256 of all bytes before
them, so that nothing is interpreted unless every byte is as written. Its members are not
compressed, so they cannot hold more than the file itself does. And arrays hold numbers only: there
is no pickle, and nothing is evaluated.
"""

import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from tvdbayes import __version__
from tvdbayes._errors import StorageError, TVDBayesError, first_line
from tvdbayes._typing import AnyArray
from tvdbayes.models.families import AbstractFamily
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.storage._packed import FORMS, Form, Packer, Unpacker

FORMAT_VERSION = 1
"""Grows with every change of what a file holds."""

_FORMAT = "tvdbayes fit"
_HEADER = "header.json"
_SEAL = b"tvdbayes sha256 "
_DIGEST = 64
"""Characters of a SHA-256 in hexadecimal."""
_CHUNK = 1 << 20
"""Bytes that are hashed at a time."""
_LARGEST_HEADER = 1 << 24
_LARGEST_FILE = 1 << 36
"""16 MiB and 64 GiB: what claims to be more is not a fit, and is not read into memory."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest date of a zip file, so that equal fits are equal files."""
# What zip, JSON and NumPy raise for bytes that are not what they should be.
_UNREADABLE = (
    *(BadZipFile, EOFError, struct.error, ValueError, TypeError, KeyError, IndexError),
    *(OverflowError, RuntimeError, AttributeError, OSError),
)


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


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, object], arrays: Mapping[str, AnyArray]
) -> None:
    """Write a header and arrays; if that fails, an existing file is left unchanged."""
    with replacing(path) as file:
        with ZipFile(file, "w", ZIP_STORED) as archive:
            for name, array in arrays.items():
                _write_array(archive, name, array)
            text = json.dumps(header, allow_nan=False).encode()
            if len(text) > _LARGEST_HEADER:
                raise StorageError(
                    f"The names and settings of this fit take {len(text):,} bytes; at most "
                    f"{_LARGEST_HEADER:,} can be saved. Use shorter names or fewer levels."
                )
            with archive.open(ZipInfo(_HEADER, _EPOCH), "w") as member:
                member.write(text)
            archive.comment = _SEAL + b"0" * _DIGEST
        digest = _digest(file)
        file.seek(-_DIGEST, os.SEEK_END)
        file.write(digest)


def read_archive(
    path: str | os.PathLike[str], name: str, version: int
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The header and arrays of a file of this format, or `StorageError`."""
    path = _as_path(path)
    with _opened(path) as file, refusing(path):
        _check_seal(file)
        with ZipFile(file) as archive:
            members = _members(archive, os.fstat(file.fileno()).st_size)
            header = _read_header(archive, members)
            _check_version(header, name, version)
            del members[_HEADER]
            return header, {key: _read_array(archive, info) for key, info in members.items()}


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn all errors of reading into a `StorageError` about the file."""
    try:
        yield
    except _UNREADABLE as error:
        text, kind = str(error).rstrip("."), type(error).__name__
        said = text if isinstance(error, TVDBayesError) else f"{kind}, {text or kind}"
        raise StorageError(f"{os.fspath(path)!r} cannot be loaded: {said}.") from error


def _as_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file. Numbers are refused: `open` would take them for files already open."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise StorageError(
            f"The name of a file must be text (or a path) without zero bytes; got {path!r:.80}."
        )
    return Path(text)


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise StorageError(
            f"There is no file {str(path)!r}. Check the name and the working directory."
        ) from error
    except (OSError, UnicodeEncodeError) as error:
        raise StorageError(f"{str(path)!r:.200} cannot be opened: {first_line(error)}.") from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of the old one once it is complete and on the disk."""
    path = _as_path(path)
    try:
        # The target of a symbolic link is replaced, not the link.
        target = Path(os.path.realpath(path))
        if target.is_dir() or not target.parent.is_dir():
            what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
            raise StorageError(f"{str(path)!r} {what}. Give the name of a file.")
        if target.exists() and not target.is_file():
            raise StorageError(f"{str(path)!r} is a device, not a file. Give the name of a file.")
        temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb+") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
    except (OSError, UnicodeEncodeError) as error:
        raise StorageError(
            f"{str(path)!r:.200} could not be written: {first_line(error)}. No part of it is left. "
            "Free some space, or choose another place."
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_array(archive: ZipFile, name: str, array: AnyArray) -> None:
    # Sums depend on the order in memory in their last bit, so that order is kept.
    array = array if array.flags.forc else array.copy(order="K")
    info = ZipInfo(name, _EPOCH)
    with archive.open(info, "w", force_zip64=array.nbytes > 1 << 30) as member:
        npy.write_array(member, array, allow_pickle=False)


def _digest(file: BinaryIO) -> bytes:
    """SHA-256 of everything but the last bytes, where it is kept."""
    left = file.seek(0, os.SEEK_END) - _DIGEST
    file.seek(0)
    found = hashlib.sha256()
    while chunk := file.read(min(_CHUNK, left)):
        found.update(chunk)
        left -= len(chunk)
    return found.hexdigest().encode()


def _check_seal(file: BinaryIO) -> None:
    size = os.fstat(file.fileno()).st_size
    if size > _LARGEST_FILE:
        raise StorageError(f"it has {size:,} bytes, and at most {_LARGEST_FILE:,} are read")
    length = len(_SEAL) + _DIGEST
    file.seek(-min(size, length), os.SEEK_END)
    seal = file.read(length)
    if not seal.startswith(_SEAL) or len(seal) != length:
        raise StorageError(
            "it was not written by tvdbayes, or is cut short (it does not end in a seal); save the "
            "fit again, or copy the file again"
        )
    if seal[len(_SEAL) :] != _digest(file):
        raise StorageError(
            "it was altered or damaged after it was written (its bytes do not match its seal); "
            "copy the file again, or fit again with the same seed"
        )


def _members(archive: ZipFile, size: int) -> dict[str, ZipInfo]:
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if len(members) != len(infos):
        raise StorageError("two of its parts have the same name")
    for name, info in members.items():
        if info.compress_type != ZIP_STORED or info.file_size != info.compress_size:
            raise StorageError(f"its part {name!r} is compressed, which files of ours never are")
    declared = sum(info.file_size for info in infos)
    if declared > size:
        raise StorageError(f"its parts declare {declared:,} bytes, but the file has {size:,}")
    if _HEADER not in members or members[_HEADER].file_size > _LARGEST_HEADER:
        raise StorageError("it has no header, or too large a one")
    return members


def _read_header(archive: ZipFile, members: Mapping[str, ZipInfo]) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise StorageError(f"its header holds the number {constant}")

    header = json.loads(archive.read(members[_HEADER]), parse_constant=refuse)
    if not isinstance(header, dict):
        raise StorageError("its header is not one of ours")
    return header


def _check_version(header: Mapping[str, Any], name: str, version: int) -> None:
    if header.get("format") != name:
        raise StorageError(f"its format is {header.get('format')!r}, not {name!r}")
    given = header.get("version")
    if type(given) is not int or given < 1:
        raise StorageError(f"its format version is {given!r}, which is no version")
    if given > version:
        raise StorageError(
            f"it was written by a later version of tvdbayes ({header.get('library')}, format "
            f"{given}; this one reads up to {version}); upgrade tvdbayes to read it"
        )


def _read_array(archive: ZipFile, info: ZipInfo) -> AnyArray:
    """An array of numbers that fills its part of the file."""
    # The declared size has been checked against the file, so this much can be held.
    raw = bytearray(info.file_size)
    filled = 0
    with archive.open(info) as opened:
        member = cast("BufferedIOBase", opened)
        while got := member.readinto(memoryview(raw)[filled : filled + _CHUNK]):
            filled += got
    if filled != len(raw):
        raise StorageError(f"its part {info.filename!r} is cut short")
    stream = BytesIO(bytes(raw[: 1 << 14]))
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, fortran, dtype = readers[npy.read_magic(stream)](stream)
    if dtype.kind not in "biuf" or dtype.hasobject:
        raise StorageError(
            f"its part {info.filename!r} holds {dtype} rather than numbers; objects are never read"
        )
    # Python's integers cannot overflow: a shape from a file may be of any size.
    start = stream.tell()
    if start + math.prod(shape, start=dtype.itemsize) != len(raw):
        raise StorageError(f"its part {info.filename!r} is longer or shorter than its shape")
    flat = np.frombuffer(raw, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")
