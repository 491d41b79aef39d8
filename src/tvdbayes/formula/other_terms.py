"""Terms of a formula as other packages write them: offsets, and what to use in place of others."""

import re

from tvdbayes._errors import FormulaError
from tvdbayes._validate import did_you_mean
from tvdbayes.formula.matrix import mask

_NAME = r"\s*(?:`((?:[^`]|``)*)`|([^\W\d](?:[\w.])*))\s*"
_LOG = re.compile(rf"\s*(?:(?:np|numpy)\s*\.\s*)?log\s*\({_NAME}\)\s*", re.DOTALL)

_SMOOTHS = ("s", "te", "ti", "t2", "cc", "smooth", "gam", "hsgp", "gp", "lo", "pb")
_SMOOTH = (
    "Penalised smooths are not fitted. Use a spline of fixed size: bs(x, df=5), or cr(x, df=5), "
    "which is linear beyond the data."
)
_NATURAL = "Natural splines are cr(x, df=4)."
_CATEGORY = "Write C(x) for a column whose values are categories."
_INSTEAD = {
    **dict.fromkeys(_SMOOTHS, _SMOOTH),
    **dict.fromkeys(("ns", "cs", "rcs"), _NATURAL),
    **dict.fromkeys(("factor", "categorical", "as_factor", "i"), _CATEGORY),
    **dict.fromkeys(
        ("mo", "mono", "monotonic", "iso"),
        "Monotone effects are not fitted. Use C(x), a coefficient for each level, or poly(x, 2).",
    ),
    **dict.fromkeys(
        ("re", "random", "ar", "me"),
        "Effects that vary by group, in time or with errors of measurement are not fitted.",
    ),
    **dict.fromkeys(("abs", "power", "square", "cbrt"), "Compute the column beforehand."),
}
"""Functions of other packages, and what to use in their place."""


def take_offsets(right: str) -> tuple[str, str | None, str | None]:
    """The terms without ``offset(...)``, and the columns of offset and exposure that these name.

    ``offset(x)`` is the column x itself, ``offset(log(x))`` the exposure x.

    Examples
    --------
    >>> from tvdbayes.formula.other_terms import take_offsets
    >>> take_offsets("age + offset(log(years)) + region")
    ('age + region', None, 'years')
    """
    offset = exposure = None
    while (start := re.search(r"(?<![\w.])offset\s*\(", mask(right))) is not None:
        end = _closing(mask(right), start.end(), right)
        inside = right[start.end() : end]
        before, after = right[: start.start()].rstrip(), right[end + 1 :].strip()
        if (before and not before.endswith("+")) or (after and after[0] not in "+-"):
            raise FormulaError(
                f"'offset({inside})' is added to the other terms, as in y ~ x + offset(log(t)). "
                "Write it behind a + of its own."
            )
        logged, plain = _LOG.fullmatch(inside), re.fullmatch(_NAME, inside, re.DOTALL)
        if logged is None and plain is None:
            raise FormulaError(
                f"'offset({inside})' must be a column or its logarithm: offset(x) or "
                "offset(log(x)). Compute the column beforehand."
            )
        if (exposure if logged else offset) is not None:
            raise FormulaError(
                "The formula has two offsets of one kind. Add them up, or multiply exposures, "
                "beforehand."
            )
        if logged:
            exposure = _column(logged)
        elif plain:
            offset = _column(plain)
        rest = before.removesuffix("+").rstrip()
        right = f"{rest} {after}" if rest else after.removeprefix("+")
        right = right.strip() or "1"
    return right, offset, exposure


def _closing(masked: str, start: int, right: str) -> int:
    """Where the bracket closes that was opened before this place."""
    depth = 1
    for place in range(start, len(masked)):
        depth += {"(": 1, ")": -1}.get(masked[place], 0)
        if not depth:
            return place
    raise FormulaError(f"The terms {right.strip()!r} cannot be read: a bracket is not closed.")


def _column(found: "re.Match[str]") -> str:
    return found[2] if found[1] is None else found[1].replace("``", "`")


def bars(right: str) -> FormulaError:
    """The message for terms with a bar: effects that vary by group, or a second formula."""
    group = re.search(r"\(([^()|]*)\|\|?([^()]*)\)", right)
    if group is not None:
        name = group[2].strip()
        return FormulaError(
            f"Effects that vary by group, as in {group[0]!r}, are not fitted. For intervals that "
            f'allow for rows which belong together, give clusters="{name}"; for a coefficient of '
            f"each group, write C({name})."
        )
    return FormulaError(
        f"A formula has no bar; got {right.strip()!r}. Covariates of inflation, of zeros or of "
        'the dispersion are given by name: predictors={"inflation": "~ x"}.'
    )


def unknown_call(expression: str, called: str, known: list[str]) -> FormulaError:
    """The message for a function that formulas do not have."""
    name = called.rpartition(".")[2]
    instead = _INSTEAD.get(name.lower())
    if instead is not None:
        return FormulaError(f"{expression!r}: formulas have no function {called!r}. {instead}")
    near = did_you_mean(name, known) or " Compute the column beforehand."
    return FormulaError(
        f"{expression!r} calls {called!r}, which is not a formula function.{near} "
        f"These are: {', '.join(known)}."
    )
