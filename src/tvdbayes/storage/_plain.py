"""Records as plain values: JSON, with arrays put aside under names."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvdbayes._errors import StorageError
from tvdbayes.storage._archive import AnyArray
from tvdbayes.storage._forms import Form

_SCALARS = frozenset({"bool", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True)
class Packer:
    """Turns values into JSON; `arrays` fills up with what JSON cannot hold."""

    forms: Mapping[str, Form]
    arrays: dict[str, AnyArray] = field(default_factory=dict)

    def pack(self, value: Any, name: str) -> Any:
        """The JSON of a value that goes by this name in the file."""
        known = self.forms.get(type(value).__name__)
        if known is not None and known.cls is type(value):
            taken = known.take(value)
            packed = {key: self.pack(part, f"{name}.{key}") for key, part in taken.items()}
            return {"class": type(value).__name__, "fields": packed}
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
            return {"numpy": [value.dtype.name, self.pack(value.item(), name)]}
        if isinstance(value, str):
            return str(value)
        if type(value) in _PACKERS:
            return _PACKERS[type(value)](self, value, name)
        raise StorageError(
            f"{name} is a {type(value).__name__} ({value!r:.80}), which cannot be saved: files "
            "hold numbers, text and parts of this library only. Convert it first (dates and other "
            "levels to text), or keep what made this fit instead."
        )

    def entries(self, values: Iterable[Any], name: str) -> list[Any]:
        """The JSON of several values, which go by the name and their number."""
        return [self.pack(entry, f"{name}.{j}") for j, entry in enumerate(values)]

    def array(self, value: AnyArray, name: str) -> Any:
        """The name of an array that is put aside."""
        if value.dtype.kind not in "biuf":
            raise StorageError(f"{name} is an array of {value.dtype}; only numbers can be saved.")
        self.arrays[f"{name}.npy"] = value
        return {"array": f"{name}.npy"}


_PACKERS: dict[type, Callable[[Packer, Any, str], Any]] = {
    float: lambda _, value, __: value if math.isfinite(value) else {"float": repr(value)},
    list: Packer.entries,
    tuple: lambda packer, value, name: {"tuple": packer.entries(value, name)},
    dict: lambda packer, value, name: {"dict": packer.entries(map(list, value.items()), name)},
    np.ndarray: Packer.array,
}


@dataclass(frozen=True)
class Unpacker:
    """Turns JSON back into values; the objects that it makes are of the given forms only.

    Parameters
    ----------
    forms : mapping
    arrays : mapping
    given : pair, optional
        An object and its JSON: stands wherever that JSON does.
    """

    forms: Mapping[str, Form]
    arrays: Mapping[str, AnyArray]
    given: tuple[Any, Any] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    used: list[object] = field(default_factory=list)

    def unpack(self, node: Any) -> Any:
        """The value that this JSON stands for."""
        if isinstance(node, list):
            return [self.unpack(entry) for entry in node]
        if not isinstance(node, dict):
            return node
        if "class" in node:
            return self._object(node)
        ((tag, inside),) = node.items()
        if tag not in _UNPACKERS:
            raise StorageError(f"its header holds {tag!r}, which is not known here")
        return _UNPACKERS[tag](self, inside)

    def _object(self, node: dict[str, Any]) -> Any:
        if self.given is not None and node == self.given[1]:
            self.used.append(self.given[0])
            return self.given[0]
        if node["class"] not in self.forms:
            raise StorageError(f"it holds a {node['class']!r}, which is not known here")
        form = self.forms[node["class"]]
        fields = {key: self.unpack(part) for key, part in node["fields"].items()}
        made = form.make(fields)
        for key, letters in form.shapes.items():
            parts = fields[key] if isinstance(fields[key], tuple) else (fields[key],)
            for part in parts:
                if part is not None:
                    self._check_shape(f"{node['class']}.{key}", part.shape, letters)
        form.check(made)
        return made

    def _check_shape(self, name: str, shape: tuple[int, ...], letters: str) -> None:
        if len(shape) != len(letters):
            raise StorageError(f"its {name} has the shape {shape}, not {len(letters)} axes")
        for length, letter in zip(shape, letters, strict=True):
            if letter != "*" and self.sizes.setdefault(letter, length) != length:
                raise StorageError(
                    f"its {name} has the shape {shape}, but other parts need {self.sizes[letter]}"
                )


def _known(inside: Any, known: Collection[str], what: str) -> Any:
    if inside not in known:
        raise StorageError(f"its header holds {what} {inside!r}")
    return inside


def _scalar(unpacker: Unpacker, inside: Any) -> Any:
    name, value = inside
    return np.dtype(_known(name, _SCALARS, "a number of the kind")).type(unpacker.unpack(value))


_UNPACKERS: dict[str, Callable[[Unpacker, Any], Any]] = {
    "array": lambda unpacker, name: unpacker.arrays[name],
    "dict": lambda unpacker, pairs: dict(unpacker.unpack(pairs)),
    "float": lambda _, text: float(_known(text, ("nan", "inf", "-inf"), "the number")),
    "numpy": _scalar,
    "tuple": lambda unpacker, entries: tuple(unpacker.unpack(entries)),
}
