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
from tvdbayes.sampling.posterior import Posterior

__all__ = ["for_arviz", "to_tree"]

Variables = dict[str, tuple[tuple[str, ...], Any]]
"""The dimensions and values of each variable of a group."""

_MOST_BYTES, _USUAL_BYTES = 2 << 30, 256 << 20
"""The largest log-likelihood that is made, and that is made without being asked for."""
_CHUNK = 1 << 20
"""Entries of cells x draws x predictors that are worked on at a time."""


def to_tree(
    posterior: Posterior,
    *,
    by_row: bool | None = None,
    cell_of_row: IntArray | None = None,
    log_likelihood: bool = True,
    attrs: Mapping[str, str] | None = None,
) -> Any:
    """Label the draws of a fit for ArviZ.

    ArviZ 1.x takes the tree as it is, 0.23 what `for_arviz` makes of it.

    Parameters
    ----------
    posterior : Posterior
    by_row : bool, optional
        Whether data and log-likelihood have an entry for each row; a row of weight 2 is two rows.
        Otherwise the data have one for each cell, the distinct (x, y), ``constant_data.counts``
        says how many rows each stands for, and there is no log-likelihood: ArviZ would take a
        cell for one observation. Unless given it is by row, where weights are whole numbers and
        the log-likelihood takes at most 256 MiB.
    cell_of_row : (n,), optional
        The cell of each row, -1 for rows of weight zero, which are left out: rows of weight 1 are
        then given in this order. Otherwise rows are in the order of their cells.
    log_likelihood : bool
        Whether to include the log-likelihood, draws x rows.
    attrs : mapping, optional
        Further attributes of the tree.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` (``beta``, and ``beta_kld``, the ordinary twin on the same random
        weights, both by parameter), ``sample_stats`` (how each draw was found; ``status`` are
        codes of `Status`), ``log_likelihood``, ``observed_data`` and ``constant_data``. Draws are
        independent, so there is one chain.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> from tvdbayes.results.tree import to_tree
    >>> cells = tb.Cells.from_counts([[1], [1], [1]], [0, 1, 2], [40, 30, 10])
    >>> posterior = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=8)
    >>> tree = to_tree(posterior)
    >>> dict(tree["posterior"].sizes)
    {'chain': 1, 'draw': 8, 'parameter': 1}
    """
    xarray = _xarray()
    if by_row is None:
        by_row = _whole(posterior) and _bytes_by_row(posterior) <= _USUAL_BYTES
    index = _index(posterior, cell_of_row)
    unit = "row" if by_row else "cell"
    cells, numbers = (
        _rows(posterior, index) if by_row else (np.arange(posterior.cells.n_cells),) * 2
    )
    groups: dict[str, Variables] = {
        "posterior": {
            "beta": (("draw", "parameter"), posterior.draws),
            "beta_kld": (("draw", "parameter"), posterior.kld_draws),
        },
        "sample_stats": _sample_stats(posterior),
        "log_likelihood": {"y": (("draw", unit), _log_likelihood(posterior, cells))}
        if log_likelihood and by_row
        else {},
        "observed_data": {"y": ((unit,), posterior.cells.y[cells])},
        "constant_data": _constant_data(posterior, unit, cells),
    }
    about = {**_attributes(posterior), **(attrs or {})}
    labels = {
        "draw": np.arange(posterior.n_draws),
        "parameter": list(posterior.param_names),
        "column": list(posterior.cells.names),
        unit: numbers,
    }
    made = {
        name: _dataset(xarray, variables, labels, about)
        for name, variables in groups.items()
        if variables
    }
    return xarray.DataTree.from_dict({"/": xarray.Dataset(attrs=about), **made})


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


def _whole(posterior: Posterior) -> bool:
    counts = posterior.cells.counts
    return bool((counts == np.round(counts)).all())


def _bytes_by_row(posterior: Posterior) -> float:
    """Memory that the log-likelihood of all rows takes, or of all cells where these are more."""
    cells = posterior.cells
    return 8.0 * posterior.n_draws * max(cells.n_obs, cells.n_cells)


def _index(posterior: Posterior, cell_of_row: IntArray | None) -> IntArray | None:
    """The cell of each row, checked."""
    if cell_of_row is None:
        return None
    m, rows = posterior.cells.n_cells, np.asarray(cell_of_row)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= -1) & (rows < m)).all():
        raise DataError(
            f"cell_of_row must hold one number from -1 to {m - 1} for each row; got "
            f"{rows.dtype} of shape {rows.shape}. Pass fit.cell_of_row."
        )
    return rows


def _rows(posterior: Posterior, cell_of_row: IntArray | None) -> tuple[IntArray, IntArray]:
    """The cell and the number of each row, a row of weight 2 taken as two rows."""
    counts = posterior.cells.counts
    if not _whole(posterior):
        raise DataError(
            "Some weights of this fit are no whole numbers, so there are no rows that each count "
            "once, as ArviZ needs them. Leave by_row= out to have the data by cell."
        )
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
    """A group: what is by draw gets its chain, and every dimension its labels."""
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


def _sample_stats(posterior: Posterior) -> Variables:
    names = ("status", "n_iter", "decrement", "residual", "distance", "kld_distance", "kld_status")
    return {name: (("draw",), getattr(posterior, name)) for name in names}


def _constant_data(posterior: Posterior, unit: str, index: IntArray) -> Variables:
    cells = posterior.cells
    x_rows = cells.x_index[index]
    # Rows of a cell share its weight, which is known for the cell alone.
    own = ("counts", cells.counts[index]) if unit == "cell" else ("cell", index)
    return {
        "x": ((unit, "column"), cells.x[x_rows]),
        "offset": ((unit,), cells.offset[x_rows]),
        "trials": ((unit,), cells.trials[x_rows]),
        own[0]: ((unit,), own[1]),
    }


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


def _log_likelihood(posterior: Posterior, index: IntArray) -> Array:
    """Log-probability of each row's outcome under each draw, (B, n)."""
    family, cells = posterior.model.family, posterior.cells
    n_draws = posterior.n_draws
    need = _bytes_by_row(posterior)
    if need > _MOST_BYTES:
        raise MemoryBudgetError(
            f"The log-likelihood of {n_draws:,} draws at {len(index):,} rows takes "
            f"{need / 2**30:.1f} GiB; at most {_MOST_BYTES / 2**30:.0f} GiB are made. Leave it out "
            "with log_likelihood=False."
        )
    bound = posterior.model.bind(cells, cells)
    trials = cells.trials[cells.x_index, None]
    found = np.empty((n_draws, len(index)))
    size = max(1, _CHUNK // (cells.n_cells * len(family.predictors)))
    for start in range(0, n_draws, size):
        part = slice(start, start + size)
        eta = bound.eta(bound.from_user(posterior.draws[part].T))[:, cells.x_index]
        found[part] = family.log_pmf(cells.y[:, None], eta, trials).T[:, index]
    return found
