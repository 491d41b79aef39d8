"""Records as plain values: JSON with arrays put aside under names, and what each class holds.

The table `FORMS` is the only way from a name in a file to a class: no other name is taken.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from tvdbayes._errors import SettingsError, StorageError
from tvdbayes._typing import AnyArray, Array
from tvdbayes.data.cells import Cells
from tvdbayes.data.grid import Grid
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.models.families import ALL_FAMILIES, ALL_LINKS, CustomFamily
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP, Linear
from tvdbayes.objective.partitions import Bins, Cluster, GroupReport, LearnedGroups
from tvdbayes.sampling.closest import PreparedSearch
from tvdbayes.sampling.named import DIVERGENCES, PARTITIONS
from tvdbayes.sampling.options import OPTIONS, Connection, Options
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.trimmed import PreparedTrim, Recentred
from tvdbayes.sampling.weights import Prior
from tvdbayes.trimming import KeptRows

Fields = dict[str, Any]


def _nothing(_: Any) -> None:
    """No further condition."""


@dataclass(frozen=True)
class Form:
    """How objects of one class are written and read back.

    `take` gives the fields of an object: plain values, arrays, and objects of other known classes.
    `make` makes an object of such fields, or raises if they do not fit; `check` raises if an object
    contradicts itself. `shapes` has a letter for each axis of the array fields: the same letter is
    the same length everywhere in a file; ``*`` is any length.
    """

    cls: type
    take: Callable[[Any], Fields]
    make: Callable[[Fields], Any]
    shapes: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Any], None] = _nothing


def form_of(cls: type, check: Callable[[Any], None] = _nothing, **shapes: str) -> Form:
    """The form of a dataclass: all its fields, each of which must be of its declared type."""

    def take(value: Any) -> Fields:
        return {f.name: getattr(value, f.name) for f in fields(cls)}

    def make(given: Fields) -> Any:
        wrong = sorted({f.name for f in fields(cls)} ^ set(given))
        if wrong:
            raise StorageError(f"its {cls.__name__} lacks, or should not have, {', '.join(wrong)}")
        for name, value in given.items():
            if not _fits(value, _hints(cls)[name]):
                raise StorageError(
                    f"its {cls.__name__}.{name} is a {type(value).__name__}, which does not belong "
                    "there"
                )
        return cls(**given)

    return Form(cls, take, make, shapes, check)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field declares."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if hint in (int, float):
        number = Integral if hint is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, origin or hint) and _fits_inside(value, origin, args)


def _fits_inside(value: Any, origin: Any, args: tuple[Any, ...]) -> bool:
    """Whether the entries of a container are of the type that it declares."""
    if origin is tuple:
        return all(_fits(entry, args[0]) for entry in value)
    if origin is dict:
        return all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    if origin is np.ndarray:
        (scalar,) = get_args(args[1])
        return bool(value.dtype == np.dtype(scalar))
    return True


def _describe(law: CustomFamily) -> Fields:
    """What can be said of a law that is made of functions."""
    described = {"name": law.label, "low": law.low, "high": law.high}
    return {**described, "parameters": dict(law.scales), "start": dict(law.start)}


def _ask_for(described: Fields) -> CustomFamily:
    raise StorageError(
        f"it holds a CustomFamily, {described['name']!r}, whose functions are never written to a "
        "file; pass the same family again: load(path, family=...)"
    )


def _take_prior(prior: Prior) -> Fields:
    """A prior; of a base measure that is a function, only that there was one."""
    base, about = prior.base_measure, {"alpha": prior.alpha, "n_atoms": prior.n_atoms}
    if callable(base):
        return about
    rows = base.x_index
    columns = (base.x[rows], base.y, base.counts, base.offset[rows], base.trials[rows])
    return about | dict(zip(_BASE, columns, strict=True)) | {"names": list(base.names)}


def _make_prior(taken: Fields) -> Prior:
    if "x" not in taken:
        return Prior(taken["alpha"], _forgotten, taken["n_atoms"])
    x, y, counts, offset, trials = (taken[name] for name in _BASE)
    names = tuple(taken["names"])
    table = Cells.from_counts(x, y, counts, offset=offset, trials=trials, names=names)
    return Prior(taken["alpha"], table, taken["n_atoms"])


def _take_options(options: Options) -> Fields:
    """The options on which draws depend; the prior holds the base measure."""
    taken = {name: getattr(options, name) for name, option in OPTIONS.items() if option.draws}
    return {**taken, "base_measure": options.prior or options.base_measure}


def _make_options(taken: Fields) -> Options:
    base = taken.get("base_measure")
    return Options(**{**taken, "base_measure": getattr(base, "base_measure", base)})


_BASE = ("x", "y", "counts", "offset", "trials")


def _forgotten(_: np.random.Generator, __: int) -> tuple[Array, Array]:
    """Placeholder for a base measure that was a function."""
    raise SettingsError(
        "The prior of this fit was a function, which is never written to a file, so the fit cannot "
        "be run again. Fit the data again with it."
    )


def _check_cells(cells: Cells) -> None:
    if cells.x_index.size and not (0 <= cells.x_index.min() <= cells.x_index.max() < cells.n_x):
        raise StorageError("its cells point to covariate rows that are not there")
    if len(cells.names) != cells.x.shape[1]:
        raise StorageError("its columns and their names differ in number")


def _check_units(units: SamplingUnits) -> None:
    n, n_cells = len(units.counts), units.n_cells
    numbers = n > 0 and np.array_equal(np.unique(units.unit), np.arange(n))
    strata = np.array_equal(np.unique(units.stratum), np.arange(units.stratum.max(initial=-1) + 1))
    ordered = (np.diff(units.unit) >= 0).all() and (np.diff(units.stratum) >= 0).all()
    inside = (units.cell >= 0).all() and (units.cell < n_cells).all()
    amounts = (units.rows, units.mass, units.counts)
    positive = all((np.isfinite(amount) & (amount > 0)).all() for amount in amounts)
    if not (numbers and strata and ordered and inside and positive):
        raise StorageError("its sampling units do not fit together")


def _check_groups(groups: LearnedGroups) -> None:
    n_features = groups.common.shape[1] + 2
    within = all(0 <= j < n_features for j in groups.columns)
    fits = len(groups.origin) == len(groups.columns) and len(groups.maps) == len(groups.centres)
    pairs = zip(groups.maps, groups.centres, strict=False)
    fits = fits and all(a.shape[1] == b.shape[1] for a, b in pairs)
    cells = list(zip(groups.middles, groups.reach, strict=False))
    searched = len(groups.middles) == len(groups.reach) and len(cells) in (0, len(groups.maps))
    searched = searched and all(
        (len(a), a.shape[1]) == (len(b), c.shape[1])
        for (a, b), c in zip(cells, groups.centres, strict=False)
    )
    if not (within and fits and searched):
        raise StorageError("its groups do not belong to its covariates")


def _check_linear(linear: Linear) -> None:
    if any(j < -1 for block in linear.columns or () for j in block):
        raise StorageError("its predictors use columns of negative number")


def _check_posterior(posterior: Posterior) -> None:
    cells, model = posterior.cells, posterior.model
    # One row is enough to see that the predictor finds its columns.
    first = Cells(
        *(cells.x[:1], cells.offset[:1], cells.trials[:1], cells.x_index[:1] * 0),
        *(cells.y[:1], cells.counts[:1], cells.names),
    )
    # The number comes first: a stranger's network may have more names than memory could hold.
    if model.bind(first, first).n_params != len(posterior.minimiser):
        raise StorageError("its parameters and those of its model differ in number")
    if posterior.param_names != model.param_names(cells):
        raise StorageError("its parameters are not those of its model")
    units = posterior.units
    if units is not None and (
        units.n_cells != cells.n_cells
        or not np.allclose(units.by_cell @ units.counts, cells.counts, rtol=1e-6)
    ):
        raise StorageError("its sampling units are not those of its cells")


def _plain(*classes: type) -> Iterable[Form]:
    return (form_of(cls) for cls in dict.fromkeys(classes))


_ALL = (
    *_plain(*(type(one) for one in (*ALL_FAMILIES, *ALL_LINKS))),
    *_plain(*(type(one) for one in (*DIVERGENCES.values(), *PARTITIONS.values()))),
    Form(CustomFamily, _describe, _ask_for),
    Form(Prior, _take_prior, _make_prior),
    Form(Options, _take_options, _make_options),
    *_plain(Cluster, GroupReport, Model, MLP, Grid, Connection),
    form_of(Linear, _check_linear),
    form_of(
        LearnedGroups,
        _check_groups,
        **{"origin": "q", "maps": "q*", "centres": "**"},
        **{"common": "cp", "common_offset": "c", "common_trials": "c"},
        **{"middles": "**", "reach": "*"},
    ),
    form_of(Bins, lows="b", highs="b"),
    form_of(PreparedSearch, reference="s", likelihood_fit="s", pool="s*", shift="s"),
    form_of(PreparedTrim, reference="s", likelihood_fit="s", closest="s"),
    form_of(Recentred, estimate="s", shift="s", stretch="ss"),
    form_of(KeptRows, share="m", far="n", without_far="d", second="d"),
    form_of(Cells, _check_cells, x="np", offset="n", trials="n", x_index="m", y="m", counts="m"),
    form_of(
        SamplingUnits,
        _check_units,
        **dict.fromkeys(("unit", "cell", "rows", "mass"), "e"),
        **dict.fromkeys(("counts", "stratum"), "u"),
    ),
    form_of(
        Posterior,
        _check_posterior,
        **dict.fromkeys(("minimiser", "kld_minimiser", "shift"), "d"),
        **dict.fromkeys(("draws", "kld_draws"), "Bd"),
        **dict.fromkeys(("distance", "status", "n_iter", "decrement", "residual"), "B"),
        **dict.fromkeys(("kld_distance", "kld_status"), "B"),
    ),
)

FORMS: Mapping[str, Form] = {form.cls.__name__: form for form in _ALL}
"""Every class that a file may name, by that name."""


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
        """The value that was written as this JSON."""
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
