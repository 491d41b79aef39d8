"""Draws as an `xarray.DataTree`, which ArviZ opens."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from tvdbayes import __version__
from tvdbayes._errors import DataError, MemoryBudgetError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.results.prediction import NewRows, sample_outcomes
from tvdbayes.results.rows import check_rows
from tvdbayes.sampling.posterior import Posterior

Variables = dict[str, tuple[tuple[str, ...], Any]]
"""The dimensions and values of each variable of a group."""

_MOST_BYTES, _USUAL_BYTES = 2 << 30, 256 << 20
"""The largest log-likelihood that is made, and that is made without being asked for."""
_STATISTICS = (
    *("status", "n_iter", "decrement", "residual", "distance"),
    *("kld_distance", "kld_status"),
)
_CHUNK = 1 << 20
"""Entries of cells x draws x predictors that are worked on at a time."""


def to_tree(
    posterior: Posterior,
    *,
    by_row: bool | None = None,
    cell_of_row: IntArray | None = None,
    log_likelihood: bool = True,
    posterior_predictive: bool = True,
    attrs: Mapping[str, str] | None = None,
) -> Any:
    """Label the draws of a fit for ArviZ 1.x; see `Fit.to_arviz`.

    ``cell_of_row`` (n,) is the cell of each row, -1 for rows of weight zero, which are left out:
    rows of weight 1 are then given in this order, otherwise in the order of their cells. ``attrs``
    are further attributes of the tree. Draws are independent, so there is one chain.
    """
    xarray = _xarray()
    cells = posterior.cells
    by_row = _has_rows(posterior, by_row)
    if cell_of_row is not None:
        cell_of_row = check_rows(posterior, cell_of_row)
    unit = "row" if by_row else "cell"
    index = numbers = np.arange(cells.n_cells)
    if by_row:
        index, numbers = _rows(cells.counts, cell_of_row)
    groups = _fitted(posterior) | _data(posterior, unit, index)
    outcomes = ("draw", unit)
    if log_likelihood and by_row:
        groups["log_likelihood"] = {"y": (outcomes, _log_likelihood(posterior, index))}
    if posterior_predictive and by_row and posterior.n_draws:
        groups["posterior_predictive"] = {"y": (outcomes, _new_outcomes(posterior, index))}
    about = {**_attributes(posterior), **(attrs or {})}
    labels = {
        "draw": np.arange(posterior.n_draws),
        "parameter": list(posterior.param_names),
        "column": list(cells.names),
        unit: numbers,
    }
    made = {name: _dataset(xarray, group, labels, about) for name, group in groups.items()}
    return xarray.DataTree.from_dict({"/": xarray.Dataset(attrs=about), **made})


def _has_rows(posterior: Posterior, by_row: bool | None) -> bool:
    """Whether data are given by row: as asked, or where rows count once and are not too many."""
    counts = posterior.cells.counts
    whole = bool((counts == np.round(counts)).all())
    if by_row and not whole:
        raise DataError(
            "ArviZ needs rows that each count once, and some weights of this fit are not whole "
            "numbers. Leave by_row= out to have the data by cell."
        )
    return whole and _bytes_by_row(posterior) <= _USUAL_BYTES if by_row is None else by_row


def _fitted(posterior: Posterior) -> dict[str, Variables]:
    """The draws, those of the likelihood fit on the same random weights, and how each was found."""
    parameter = ("draw", "parameter")
    return {
        "posterior": {"beta": (parameter, posterior.draws)},
        "likelihood_fit": {"beta": (parameter, posterior.kld_draws)},
        "sample_stats": {name: (("draw",), getattr(posterior, name)) for name in _STATISTICS},
    }


def _data(posterior: Posterior, unit: str, index: IntArray) -> dict[str, Variables]:
    """Outcomes and covariates of these cells."""
    cells = posterior.cells
    x_rows = cells.x_index[index]
    # Rows of a cell share its weight, which is known for the cell alone.
    weight = index if unit == "row" else cells.counts
    return {
        "observed_data": {"y": ((unit,), _discrete(cells.y[index]))},
        "constant_data": {
            "x": ((unit, "column"), cells.x[x_rows]),
            "offset": ((unit,), cells.offset[x_rows]),
            "trials": ((unit,), cells.trials[x_rows]),
            "cell" if unit == "row" else "counts": ((unit,), weight),
        },
    }


def _discrete(outcomes: Array) -> Array | IntArray:
    """Whole outcomes as integers, by which ArviZ chooses pictures of discrete data."""
    whole = outcomes.astype(np.int64)
    return whole if np.array_equal(whole, outcomes) else outcomes


def _xarray() -> Any:
    try:
        return import_module("xarray")
    except ImportError as error:
        raise SettingsError(
            "ArviZ needs labelled arrays, and xarray is not installed. "
            "Run: pip install 'tvdbayes[arviz]'"
        ) from error


def for_arviz(tree: Any) -> Any:
    """What the installed ArviZ takes: the tree itself from 1.0 on, before that its own class."""
    if find_spec("arviz") is None:
        return tree
    with warnings.catch_warnings():
        # ArviZ 0.23 announces its successor whenever it is imported.
        warnings.simplefilter("ignore", FutureWarning)
        arviz = import_module("arviz")
    convert = getattr(arviz, "from_datatree", None)
    return tree if convert is None else convert(tree)


def _attributes(posterior: Posterior) -> dict[str, Any]:
    return {
        "inference_library": "tvdbayes",
        "inference_library_version": __version__,
        "seed": posterior.seed,
        "family": repr(posterior.model.family),
        "divergence": repr(posterior.divergence),
        "partition": str(posterior.groups),
        "ridge": float(posterior.ridge),
        "levels": list(posterior.model.family.levels),
    }


def _bytes_by_row(posterior: Posterior) -> float:
    """Memory that the log-likelihood of all rows takes, or of all cells where these are more."""
    return 8.0 * posterior.n_draws * max(posterior.cells.n_obs, posterior.cells.n_cells)


def _rows(counts: Array, cell_of_row: IntArray | None) -> tuple[IntArray, IntArray]:
    """The cell and the number of each row, a row of weight 2 taken as two rows."""
    if cell_of_row is not None:
        numbers = np.flatnonzero(cell_of_row >= 0)
        cells = cell_of_row[numbers]
        if np.array_equal(np.bincount(cells, minlength=len(counts)), counts):
            return cells, numbers
    cells = np.repeat(np.arange(len(counts)), counts.astype(np.int64))
    return cells, np.arange(len(cells))


def _dataset(
    xarray: Any,
    variables: Variables,
    labels: Mapping[str, Any],
    attrs: Mapping[str, Any],
) -> Any:
    """A group: variables by draw get a chain dimension, and every dimension its labels."""
    by_draw = any("draw" in dims for dims, _ in variables.values())
    used = {dim for dims, _ in variables.values() for dim in dims}
    coords = {"chain": [0]} if by_draw else {}
    return xarray.Dataset(
        {
            name: (("chain", *dims), values[None]) if by_draw else (dims, values)
            for name, (dims, values) in variables.items()
        },
        coords={**coords, **{dim: labels[dim] for dim in labels if dim in used}},
        attrs=dict(attrs),
    )


def _new_outcomes(posterior: Posterior, index: IntArray) -> Array | IntArray:
    """A new outcome of each row under each draw, (B, n)."""
    _require_memory(posterior, "New outcomes", "posterior_predictive", len(index))
    rows = NewRows(posterior.cells, posterior.cells.x_index[index])
    try:
        return _discrete(sample_outcomes(posterior, rows))
    except DataError as error:
        raise DataError(
            f"{error} Or leave new outcomes out with posterior_predictive=False."
        ) from error


def _require_memory(posterior: Posterior, what: str, option: str, n_rows: int) -> None:
    need = _bytes_by_row(posterior)
    if need > _MOST_BYTES:
        raise MemoryBudgetError(
            f"{what} of {posterior.n_draws:,} draws at {n_rows:,} rows take {need / 2**30:.1f} "
            f"GiB; at most {_MOST_BYTES / 2**30:.0f} GiB are made. Leave them out with "
            f"{option}=False."
        )


def _log_likelihood(posterior: Posterior, index: IntArray) -> Array:
    """Log-probability of each row's outcome under each draw, (B, n)."""
    _require_memory(posterior, "Log-likelihoods", "log_likelihood", len(index))
    family, cells, n_draws = posterior.model.family, posterior.cells, posterior.n_draws
    bound = posterior.model.bind(cells, cells)
    trials = cells.trials[cells.x_index, None]
    found = np.empty((n_draws, len(index)))
    size = max(1, _CHUNK // (cells.n_cells * len(family.predictors)))
    for start in range(0, n_draws, size):
        part = slice(start, start + size)
        eta = bound.eta(bound.from_user(posterior.draws[part].T))[:, cells.x_index]
        found[part] = family.log_pmf(cells.y[:, None], eta, trials).T[:, index]
    return found
