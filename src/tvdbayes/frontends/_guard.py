"""Read a formula without running what it says.

formulaic evaluates Python, with the caller's variables in reach. Here a formula is parsed only, and
every factor must be a column, or a call of a known function on columns and plain numbers.
"""

import ast
import math
import re
from collections.abc import Collection

from formulaic import Formula

from tvdbayes._errors import FormulaError

__all__ = ["FUNCTIONS", "read_formula"]

FUNCTIONS = frozenset(
    {"C", "I", "bs", "center", "cr", "exp", "log", "log10", "log1p", "log2", "poly", "scale"}
    | {"sqrt", "standardize", "Treatment", "Sum", "Helmert", "Diff", "Poly"}
)
_LONGEST = 2000
_HIGHEST_POWER = 6
_ALLOWED = (
    ast.Expression,
    ast.Call,
    ast.keyword,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Pow,
    ast.USub,
    ast.UAdd,
    ast.List,
    ast.Tuple,
)


def read_formula(formula: str, columns: Collection[str]) -> tuple[str, Formula]:
    """Split into the outcome's column and the parsed right side, or raise `FormulaError`."""
    if not isinstance(formula, str):
        raise FormulaError(f'The formula must be text such as "y ~ x"; got {formula!r}.')
    if len(formula) > _LONGEST:
        raise FormulaError(
            f"The formula has {len(formula)} characters; at most {_LONGEST} are read. "
            "Build the columns beforehand."
        )
    left, tilde, right = formula.partition("~")
    outcome = left.strip().strip("`")
    if not tilde or not outcome or not right.strip() or "~" in right:
        raise FormulaError(f'The formula must read "outcome ~ terms"; got {formula!r}.')
    _require_column(outcome, columns, "outcome")
    powers = [int(n) for n in re.findall(r"(?:\*\*|\^)\s*(\d+)", right)]
    if math.prod(powers) > _HIGHEST_POWER:
        raise FormulaError(
            f"Powers in a formula may multiply to at most {_HIGHEST_POWER}; got {powers}. "
            "Write the interactions out."
        )
    try:
        parsed = Formula(right)
        factors = {factor for term in parsed for factor in term.factors}
    except Exception as error:
        # formulaic's parser raises many kinds of its own; all mean that the text cannot be read.
        raise FormulaError(f"The formula {formula!r} cannot be read: {error}") from error
    for factor in factors:
        method = factor.eval_method.value
        if method == "lookup":
            _require_column(factor.expr, columns, "formula")
        elif method == "python":
            _check_expression(factor.expr, columns)
    return outcome, parsed


def _require_column(name: str, columns: Collection[str], where: str) -> None:
    if name not in columns:
        raise FormulaError(
            f"The {where} names {name!r}, which is no column of the data. "
            f"Columns: {', '.join(map(str, columns))}."
        )


def _check_expression(expression: str, columns: Collection[str]) -> None:
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise FormulaError(f"{expression!r} in the formula cannot be read: {error}") from error
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise FormulaError(
                f"{expression!r} uses {type(node).__name__}, which formulas here do not allow. "
                "Compute the column beforehand."
            )
        if id(node) in called and not (isinstance(node, ast.Name) and node.id in FUNCTIONS):
            raise FormulaError(
                f"{expression!r} calls something that is not a formula function. "
                f"These are: {', '.join(sorted(FUNCTIONS))}."
            )
        if isinstance(node, ast.Name) and id(node) not in called:
            _require_column(node.id, columns, "formula")
        value = node.value if isinstance(node, ast.Constant) else 0
        if isinstance(value, int | float) and abs(value) > 1e12:
            raise FormulaError(f"{value} in {expression!r} is too large for a formula.")
