"""Draws as an `xarray.DataTree`, which ArviZ opens."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from tvdbayes import __version__
from tvdbayes._errors import DataError, MemoryBudgetError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.posterior._record import Posterior

__all__ = ["to_tree"]

Variables = dict[str, tuple[tuple[str, ...], Any]]
"""The dimensions and values of each variable of a group."""

_MOST_BYTES = 2 << 30
_CHUNK = 1 << 20
"""Entries of cells x draws x predictors that are worked on at a time."""


def to_tree(
    posterior: Posterior,
    *,
    cell_of_row: IntArray | None = None,
    log_likelihood: bool = True,
    attrs: Mapping[str, str] | None = None,
) -> Any:
    """Label the draws of a fit for ArviZ.

    ArviZ 1.x takes the tree as it is; for ArviZ 0.23 pass it through ``arviz.from_datatree``.

    Parameters
    ----------
    posterior : Posterior
    cell_of_row : (n,), optional
        The cell of each row, -1 for rows of weight zero, which are left out. Log-likelihood and
        data are then given by row, as leave-one-out needs them. Otherwise they are given by cell,
        the distinct (x, y): ``constant_data.counts`` says how many rows each stands for.
    log_likelihood : bool
        Whether to include the log-likelihood, draws x units.
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
    >>> from tvdbayes.posterior.tree import to_tree
    >>> cells = tb.Cells.from_counts([[1], [1], [1]], [0, 1, 2], [40, 30, 10])
    >>> posterior = tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=8)
    >>> tree = to_tree(posterior)
    >>> dict(tree["posterior"].sizes)
    {'chain': 1, 'draw': 8, 'parameter': 1}
    """
    xarray = _xarray()
    unit, cells = _units(posterior, cell_of_row)
    groups: dict[str, Variables] = {
        "posterior": {
            "beta": (("draw", "parameter"), posterior.draws),
            "beta_kld": (("draw", "parameter"), posterior.kld_draws),
        },
        "sample_stats": _sample_stats(posterior),
        "log_likelihood": {"y": (("draw", unit), _log_likelihood(posterior, cells))}
        if log_likelihood
        else {},
        "observed_data": {"y": ((unit,), posterior.cells.y[cells])},
        "constant_data": _constant_data(posterior, unit, cells),
    }
    about = {**_attributes(posterior), **(attrs or {})}
    labels = {
        "draw": np.arange(posterior.n_draws),
        "parameter": list(posterior.param_names),
        "column": list(posterior.cells.names),
        unit: np.arange(len(cells)) if cell_of_row is None else np.flatnonzero(cell_of_row >= 0),
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


def _units(posterior: Posterior, cell_of_row: IntArray | None) -> tuple[str, IntArray]:
    """What the data are given by, and the cell of each of these."""
    m = posterior.cells.n_cells
    if cell_of_row is None:
        return "cell", np.arange(m)
    rows = np.asarray(cell_of_row)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or not ((rows >= -1) & (rows < m)).all():
        raise DataError(
            f"cell_of_row must hold one number from -1 to {m - 1} for each row; got "
            f"{rows.dtype} of shape {rows.shape}. Pass fit.cell_of_row."
        )
    return "row", rows[rows >= 0]


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
    """Log-probability of each unit's outcome under each draw, (B, n)."""
    family, cells = posterior.model.family, posterior.cells
    n_draws = posterior.n_draws
    need = 8 * n_draws * max(len(index), cells.n_cells)
    if need > _MOST_BYTES:
        raise MemoryBudgetError(
            f"The log-likelihood of {n_draws:,} draws at {len(index):,} units takes "
            f"{need / 2**30:.1f} GiB; at most {_MOST_BYTES / 2**30:.0f} GiB are made. Leave it out "
            "with log_likelihood=False, or give it by cell."
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
