"""Fits in files: what `storage` cannot know, the data and how a formula encodes their columns.

Of a formulaic spec the terms are written as text, and read back through the guard; beside them
stands what was learned from the data: levels, means, knots, and the columns of each term.
"""

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np
from formulaic import Formula, ModelSpec
from formulaic.materializers.base import EncodedTermStructure
from formulaic.materializers.types import EvaluatedFactor, ScopedFactor, ScopedTerm
from formulaic.parser.types import Factor, Term
from formulaic.utils.variables import Variable

from tvdbayes.data.fit_data import Column, FitData
from tvdbayes.formula.design import columns_of
from tvdbayes.formula.guard import read_formula
from tvdbayes.formula.matrix import as_written, column_of, quoted, readable
from tvdbayes.results.base import AbstractFit, Rounded
from tvdbayes.storage import FORMS, Form, StorageError, form_of

AnyArray = np.ndarray[Any, Any]

_SETTINGS = {
    "materializer": ("pandas", "narwhals"),
    "output": ("numpy", "pandas"),
    "na_action": ("ignore", "raise", "drop"),
    "cluster_by": ("none", "numerical_factors"),
}


def _take_spec(spec: ModelSpec) -> dict[str, Any]:
    """What encodes new data as these were encoded, in plain values."""
    taken = {
        **{name: _word(getattr(spec, name)) for name in _SETTINGS},
        "ensure_full_rank": spec.ensure_full_rank,
        "columns": sorted(columns_of(spec)),
        "terms": [_text(term) for term in spec.formula],
        "structure": [_take_structure(entry) for entry in spec.structure],
        "transforms": spec.transform_state,
        # formulaic keeps the contrasts for people to look at, and makes them anew from the levels.
        "levels": {
            expr: [kind.value, {k: v for k, v in state.items() if k != "contrasts"}]
            for expr, (kind, state) in spec.encoder_state.items()
        },
    }
    if list(map(repr, _read_terms(taken["terms"], taken["columns"]))) != list(
        map(repr, spec.formula)
    ):
        raise StorageError(
            f"The terms {', '.join(taken['terms'])} do not read back as they were. Rename columns "
            "with quotes or brackets in their names and fit again."
        )
    return taken


def _make_spec(taken: dict[str, Any]) -> ModelSpec:
    for name, allowed in _SETTINGS.items():
        if taken[name] not in allowed:
            raise StorageError(f"its encoding has the {name} {taken[name]!r}, which is not known")
    terms = _read_terms(taken["terms"], taken["columns"])
    factors = {factor.expr: factor for term in terms for factor in term.factors}
    return ModelSpec(
        formula=Formula(terms),
        **{name: taken[name] for name in _SETTINGS},
        materializer_params={},
        ensure_full_rank=taken["ensure_full_rank"],
        structure=[
            _make_structure(term, entry, factors)
            for term, entry in zip(terms, taken["structure"], strict=True)
        ],
        transform_state=taken["transforms"],
        encoder_state={
            expr: (Factor.Kind(kind), state) for expr, (kind, state) in taken["levels"].items()
        },
    )


def _word(setting: Any) -> str:
    """A setting of formulaic's, which may be an enum, as text."""
    return str(getattr(setting, "value", setting))


def _text(term: Term) -> str:
    """A term as it can be read again, by itself."""
    return ":".join(_factor_text(factor) for factor in term.factors)


def _factor_text(factor: Factor) -> str:
    if factor.eval_method is Factor.EvalMethod.LOOKUP:
        return quoted(column_of(factor.expr))
    if factor.eval_method is Factor.EvalMethod.LITERAL:
        return str(factor.expr)
    call = isinstance(ast.parse(factor.expr, mode="eval").body, ast.Call)
    text = as_written(factor.expr)
    return text if call else f"{{{text}}}"


def _read_terms(texts: list[str], columns: list[str]) -> list[Term]:
    """The terms, each read by the guard, which lets nothing pass but known functions of columns."""
    # The guard asks for an outcome: here it is a name that no column has.
    outcome = "outcome" + "_" * max(map(len, columns), default=0)
    found: list[Term] = []
    for text in texts:
        alone = "1" if text == "1" else f"0 + {text}"
        found += read_formula(f"{outcome} ~ {alone}", [outcome, *columns]).terms
    if len(found) != len(texts):
        raise StorageError(f"its {len(texts)} terms read as {len(found)}")
    return found


def _take_structure(entry: Any) -> dict[str, Any]:
    return {
        "columns": list(entry.columns),
        "scoped": [
            {"scale": scoped.scale, "factors": [_take_factor(f) for f in scoped.factors]}
            for scoped in entry.scoped_terms
        ],
    }


def _take_factor(scoped: ScopedFactor) -> dict[str, Any]:
    variables = sorted(scoped.factor.variables or (), key=str)
    return {
        "expr": scoped.factor.expr,
        "reduced": bool(scoped.reduced),
        "variables": [[str(v), sorted(map(_word, v.roles)), v.source] for v in variables],
    }


def _make_structure(
    term: Term, entry: dict[str, Any], factors: Mapping[str, Factor]
) -> EncodedTermStructure:
    scoped_terms = [
        ScopedTerm([_make_factor(f, factors) for f in scoped["factors"]], scale=scoped["scale"])
        for scoped in entry["scoped"]
    ]
    return EncodedTermStructure(term, scoped_terms, entry["columns"])


def _make_factor(taken: dict[str, Any], factors: Mapping[str, Factor]) -> ScopedFactor:
    variables = {
        Variable(name, roles=roles, source=source) for name, roles, source in taken["variables"]
    }
    evaluated = EvaluatedFactor(factors[taken["expr"]], values=None, variables=variables)
    return ScopedFactor(evaluated, reduced=taken["reduced"])


def _check_column(column: Column) -> None:
    by_level = column.kind not in ("number", "boolean")
    kind = {"number": "if", "boolean": "b"}.get(column.kind, "i")
    plain = all(isinstance(level, str | int | float) for level in column.levels)
    if by_level != bool(column.levels) or column.values.dtype.kind not in kind or not plain:
        raise StorageError(f"its data hold a column of {column.kind}s that is none")
    if len(set(column.levels)) < len(column.levels) or not np.isfinite(column.values).all():
        raise StorageError("its data have repeated levels, or numbers that are not finite")
    if by_level and not _within(column.values, 0, len(column.levels)):
        raise StorageError("its data point to levels that are not there")


def _check_data(data: FitData) -> None:
    uses = (data.outcome, data.offset, data.exposure, data.trials)
    if not {use for use in uses if isinstance(use, str)} <= set(data.columns):
        raise StorageError("its data lack a column that was used")
    if not (np.isfinite(data.counts) & (data.counts > 0)).all():
        raise StorageError("its data have rows whose weight is not above 0")
    if not _within(data.row, -1, len(data.counts)):
        raise StorageError("its input rows point to rows that are not there")


def _check_rounded(rounded: Rounded) -> None:
    for values in (rounded.moved, rounded.deviations):
        if values is not None and values.shape != (len(rounded.param_names),):
            raise StorageError("its rounding is not told for every parameter")


def _check_fit(fit: AbstractFit) -> None:
    n_cells = fit.posterior.cells.n_cells
    if not _within(fit.cell_of_row, -1, n_cells):
        raise StorageError("its rows point to cells that are not there")
    if not _within(fit.data.cell, 0, n_cells):
        raise StorageError("its data point to cells that are not there")
    left_out = fit.data.row < 0
    if not np.array_equal(fit.cell_of_row, np.where(left_out, -1, fit.data.cell[fit.data.row])):
        raise StorageError("its data and its rows point to different cells")
    if not set(fit.design.columns) <= set(fit.data.columns):
        raise StorageError("its data lack a column of its formula")
    made = {readable(str(name)) for spec in fit.design.encodings for name in spec.column_names}
    if not set(fit.posterior.cells.names) <= made:
        raise StorageError("its covariates are not those of its formula")


def _within(index: AnyArray, low: int, end: int) -> bool:
    return not index.size or bool(low <= index.min() <= index.max() < end)


def forms_of(fit: type[AbstractFit]) -> Mapping[str, Form]:
    """What a file may hold: the forms of `storage`, and those of a fit and its parts."""
    return {
        **FORMS,
        "Rounded": form_of(Rounded, _check_rounded, moved="d", deviations="d"),
        "Fit": form_of(fit, _check_fit, cell_of_row="i"),
        "FitData": form_of(FitData, _check_data, counts="r", cell="r", row="i"),
        "Column": form_of(Column, _check_column, values="r"),
        "ModelSpec": Form(ModelSpec, _take_spec, _make_spec),
    }
