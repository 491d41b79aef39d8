"""What `fit` returns: the posterior, how the data were encoded, answers from both; and its files.

Files hold what `storage` cannot know: the data, and how a formula encodes their columns. Of a
formulaic spec the terms are written as text, and read back through the guard; beside them stands
what was learned from the data: levels, means, knots, and the columns of each term.
"""

import ast
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from formulaic import Formula, ModelSpec
from formulaic.materializers.base import EncodedTermStructure
from formulaic.materializers.types import EvaluatedFactor, ScopedFactor, ScopedTerm
from formulaic.parser.types import Factor, Term
from formulaic.utils.variables import Variable

from tvdbayes._typing import AnyArray
from tvdbayes.data.fit_data import Column, FitData
from tvdbayes.fitting.methods import MethodsAnswers
from tvdbayes.fitting.plot import PlotAnswers
from tvdbayes.fitting.predictions import PredictionAnswers
from tvdbayes.fitting.story import ReportAnswers
from tvdbayes.fitting.update import UpdateAnswers
from tvdbayes.formula.design import columns_of
from tvdbayes.formula.guard import read_formula
from tvdbayes.formula.matrix import as_written, column_of, quoted, readable
from tvdbayes.models.families import AbstractFamily
from tvdbayes.results.base import Rounded
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import IntervalKind, Summary
from tvdbayes.storage import FORMS, Form, StorageError, form_of, read_record, write_record


@dataclass(frozen=True, eq=False, repr=False)
class Fit(PlotAnswers, ReportAnswers, PredictionAnswers, MethodsAnswers, UpdateAnswers):
    """A fitted model: estimates and draws, robust beside likelihood fit.

    Parameters
    ----------
    posterior : Posterior
        The record of the fit.
    formula : str
        As given.
    encoding : formulaic.ModelSpec
        How columns became covariates; replayed on new data.
    cell_of_row : (n,)
        The cell of each input row, -1 for rows of weight zero.
    data : FitData
        The distinct rows of the columns in use.
    more_encodings : dict of formulaic.ModelSpec
        The same for further predictors that have covariates.
    left_out : tuple of str
        Columns that others determine, left out by ``collinear="drop"``.
    rounded : Rounded or None
        What rounding continuous columns in an engine has done, where that was asked for.
    sample_fit : Fit or None
        Where all rows stayed with Dask: the fit of the sample of them that was read. Draws are then
        those of all rows, and cells and data those of the sample; answers that look at every row
        are asked of the sample.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> fit = tb.fit("visits ~ age + region", tb.example_data(), n_draws=50)
    >>> new = {"age": [2, 5], "region": ["south", "north"]}
    >>> fit.predict(new)["mean"].round().tolist()  # the truth: 1.1 and 4.5
    [1.0, 4.0]
    """

    sample_fit: "Fit | None" = None

    def summary(
        self,
        interval: float = 0.9,
        *,
        kind: IntervalKind = "equal",
        rope: tuple[float, float] | None = None,
        exponentiate: bool = False,
    ) -> Summary:
        """Coefficients with intervals, robust beside likelihood fit, and their paired difference.

        Parameters
        ----------
        interval : float
            Probability inside the intervals.
        kind : "equal" or "hdi"
            Equal tails, or the shortest interval.
        rope : (float, float), optional
            Region of practical equivalence; the share of draws in it becomes a column.
        exponentiate : bool
            Whether to show ratios of rates (counts), odds (logit) or hazards (cloglog): exp of the
            mean of the draws and of the ends of its interval, as in R and Stata.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=50)
        >>> fit.summary(exponentiate=True)["rate ratio"].round(2)  # of age: so much more a year
        array([0.95, 1.37, 0.58])
        """
        found = self.posterior.summary(interval, kind=kind, rope=rope, exponentiate=exponentiate)
        found = replace(found, library=self.data.library)
        if self.sample_fit is None or not found.note:
            return found
        counted = f"Of {len(self.cell_of_row):,} rows that were read, of {self.n_rows:,}:"
        return replace(found, note=f"{counted} {found.note}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, which `tvdbayes.load` reads; it holds no code and no pickle.

        Examples
        --------
        >>> import tempfile, tvdbayes as tb
        >>> fit = tb.fit("visits ~ age", tb.example_data(), n_draws=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(f"{folder}/fit.tvd")
        ...     again = tb.load(f"{folder}/fit.tvd")
        >>> bool((again.draws == fit.draws).all())
        True
        """
        write_record(self, path, _forms())

    def __repr__(self) -> str:
        of = "" if self.sample_fit is None else f"\nfitted to {self.n_rows:,} rows, of which these"
        return f"{self.formula}\n{self.posterior!r}{of and of + ' were read'}"

    def _repr_html_(self) -> str:
        return f"<p><code>{escape(self.formula)}</code></p>{self.posterior._repr_html_()}"


def load(path: str | os.PathLike[str], *, family: AbstractFamily | None = None) -> Fit | Posterior:
    """Read what `Fit.save` has written, bit for bit.

    Parameters
    ----------
    path : str or path
        A stranger's file can be opened: it holds no code, and nothing in it is run. A file that
        was cut, altered, or written by a later version raises `StorageError`.
    family : AbstractFamily, optional
        The law that the fit was made with, where that is a `CustomFamily`: functions are not
        written to files.

    Returns
    -------
    Fit or Posterior
        The latter where `tvdbayes.storage.save` has written one.

    Examples
    --------
    >>> import tempfile, tvdbayes as tb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tb.fit("visits ~ age", tb.example_data(), n_draws=8).save(f"{folder}/fit.tvd")
    ...     tb.load(f"{folder}/fit.tvd").param_names
    ('Intercept', 'age')
    """
    record: Fit | Posterior = read_record(path, _forms(), family=family)
    return record


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
    uses = (data.outcome, data.offset, data.exposure, data.trials, *data.sampling)
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


def _check_fit(fit: Fit) -> None:
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


def _forms() -> Mapping[str, Form]:
    """What a file may hold: the forms of `storage`, and those of a fit and its parts."""
    return {
        **FORMS,
        "Rounded": form_of(Rounded, _check_rounded, moved="d", deviations="d"),
        "Fit": form_of(Fit, _check_fit, cell_of_row="i"),
        "FitData": form_of(FitData, _check_data, counts="r", cell="r", row="i"),
        "Column": form_of(Column, _check_column, values="r"),
        "ModelSpec": Form(ModelSpec, _take_spec, _make_spec),
    }
