"""Read a formula without running what it says.

formulaic evaluates Python, with the caller's variables in reach, and expands powers and crossings
of any size. Here a formula is first read as text: its terms are counted, and every factor must be
a column, or a call of a known function on columns and plain numbers.
"""

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from formulaic import Formula

from tvdbayes._errors import FormulaError

__all__ = ["FUNCTIONS", "Reading", "read_formula"]

FUNCTIONS = frozenset(
    {"C", "I", "bs", "center", "cr", "exp", "log", "log10", "log1p", "log2", "poly", "scale"}
    | {"sqrt", "standardize", "Treatment", "Sum", "Helmert", "Diff", "Poly"}
)
_LONGEST = 2000
_MOST_TERMS = 500
_LARGEST_POWER = 10
_LARGEST_OPTION = 100
_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.BinOp),
    *(ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
    *(ast.List, ast.Tuple),
)


@dataclass(frozen=True)
class Reading:
    """A formula that may be evaluated: outcome, terms, the columns that the terms use, and the
    column of trials where the outcome is written as successes / total.
    """

    outcome: str
    terms: Formula
    columns: tuple[str, ...]
    trials: str | None = None


def read_formula(formula: str, columns: Collection[str]) -> Reading:
    """Parse and check a formula, or raise `FormulaError`."""
    if not isinstance(formula, str):
        raise FormulaError(f'The formula must be text such as "y ~ x"; got {formula!r}.')
    if len(formula) > _LONGEST:
        raise FormulaError(
            f"The formula has {len(formula)} characters; at most {_LONGEST} are read. "
            "Build the columns beforehand."
        )
    left, tilde, right = formula.partition("~")
    outcome, trials = _outcome(left, columns)
    if not tilde or not outcome or not right.strip() or "~" in right:
        raise FormulaError(f'The formula must read "outcome ~ terms"; got {formula!r}.')
    _require_column(outcome, columns, "outcome")
    n_terms = _count_terms(right)
    if n_terms > _MOST_TERMS:
        raise FormulaError(
            f"The formula {formula!r} makes up to {n_terms:,} terms; at most {_MOST_TERMS} are "
            "read. Write fewer crossings or lower powers."
        )
    try:
        parsed = Formula(right)
        factors = {factor for term in parsed for factor in term.factors}
    except Exception as error:
        # formulaic's parser raises many kinds of its own; all mean that the text cannot be read.
        raise FormulaError(f"The formula {formula!r} cannot be read.") from error
    used: set[str] = set()
    for factor in factors:
        method = factor.eval_method.value
        if method == "lookup":
            _require_column(factor.expr, columns, "formula")
            used.add(factor.expr)
        elif method == "python":
            used |= _check_expression(factor.expr, columns)
    if outcome in used:
        raise FormulaError(
            f"The outcome {outcome!r} also stands among the terms. Leave it out there."
        )
    return Reading(outcome, parsed, tuple(sorted(used)), trials)


def _outcome(left: str, columns: Collection[str]) -> tuple[str, str | None]:
    """The outcome's column, and that of the trials behind a slash."""
    quoted = re.fullmatch(r"\s*(`[^`]*`|[^`/]*)\s*(?:/\s*(`[^`]*`|[^`/]*)\s*)?", left)
    if quoted is None:
        return left.strip(), None
    outcome, trials = (
        None if part is None else part.strip().strip("`") for part in quoted.groups()
    )
    if trials is not None:
        _require_column(trials, columns, "outcome")
    return outcome or "", trials


def _require_column(name: str, columns: Collection[str], where: str) -> None:
    if name not in columns:
        raise FormulaError(
            f"The {where} names {name!r}, which is no column of the data. "
            f"Columns: {', '.join(map(str, columns))}."
        )


def _count_terms(text: str) -> int:
    """An upper bound of the terms that a right-hand side expands to, from its text alone."""
    plain = re.sub(r"`[^`]*`", "q", text)
    # Calls and quoted Python count as one term each: take them out, innermost brackets first.
    for _ in range(_LONGEST):
        shorter = re.sub(r"[A-Za-z_][\w.]*\s*\([^()]*\)|\{[^{}]*\}", "q", plain)
        if shorter == plain:
            # A bracket that is no call may hide one: mark it so that the call around it shows.
            shorter = re.sub(
                r"([A-Za-z_][\w.]*\s*\([^()]*)\(([^()]*)\)", lambda m: f"{m[1]}{m[2]}", plain
            )
        if shorter == plain:
            break
        plain = shorter
    plain = plain.replace(":", "@").replace("^", "**")
    try:
        tree = ast.parse(plain.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"The terms {text.strip()!r} cannot be read.") from error
    return _size(tree.body)


def _size(node: ast.expr) -> int:
    if isinstance(node, ast.Name | ast.Constant):
        return 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _size(node.operand)
    if isinstance(node, ast.BinOp):
        a = _size(node.left)
        if isinstance(node.op, ast.Pow):
            power = node.right
            if not (isinstance(power, ast.Constant) and isinstance(power.value, int)):
                raise FormulaError("A power in a formula must be a whole number, as in (a + b)**2.")
            return int(min((a + 1) ** min(max(power.value, 0), 64), 10**9))
        b = _size(node.right)
        sizes: dict[type[ast.operator], int] = {
            ast.Add: a + b,
            ast.Sub: a + b,
            ast.MatMult: a * b,
            ast.Mult: a + b + a * b,
            ast.Div: a + b + a * b,
        }
        if type(node.op) in sizes:
            return min(sizes[type(node.op)], 10**9)
    raise FormulaError(
        "Terms are joined by + - * : / and **; the formula uses something else. "
        "Compute the column beforehand."
    )


def _check_expression(expression: str, columns: Collection[str]) -> set[str]:
    """Check a factor that is Python, and name the columns that it uses."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise FormulaError(f"{expression!r} in the formula cannot be read: {error}") from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {id(node.func): node for node in calls}
    options = {id(option) for call in calls for option in call.args[1:]}
    used = set()
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise FormulaError(
                f"{expression!r} uses {type(node).__name__}, which formulas here do not allow. "
                "Compute the column beforehand."
            )
        if id(node) in called:
            _check_call(expression, called[id(node)])
        elif isinstance(node, ast.Name) and id(node) in options and node.id in FUNCTIONS:
            continue
        elif isinstance(node, ast.Name):
            _require_column(node.id, columns, "formula")
            used.add(node.id)
        elif isinstance(node, ast.BinOp):
            _check_arithmetic(expression, node)
        elif isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, int | float) and abs(value) > 1e12:
                raise FormulaError(f"{value} in {expression!r} is too large for a formula.")
    if not used:
        raise FormulaError(f"{expression!r} in the formula uses no column. Leave it out.")
    return used


def _check_call(expression: str, call: ast.Call) -> None:
    if not (isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS):
        raise FormulaError(
            f"{expression!r} calls something that is not a formula function. "
            f"These are: {', '.join(sorted(FUNCTIONS))}."
        )
    options = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    for option in options:
        for node in ast.walk(option):
            if isinstance(node, ast.Name) and node.id not in FUNCTIONS:
                raise FormulaError(
                    f"{expression!r}: only the first argument of {call.func.id} may be a column."
                )
            value = node.value if isinstance(node, ast.Constant) else 0
            if isinstance(value, int) and abs(value) > _LARGEST_OPTION:
                raise FormulaError(
                    f"{value} in {expression!r} is too large; at most {_LARGEST_OPTION}."
                )


def _check_arithmetic(expression: str, node: ast.BinOp) -> None:
    for side in (node.left, node.right):
        text = isinstance(side, ast.Constant) and not isinstance(side.value, int | float)
        if text or isinstance(side, ast.List | ast.Tuple):
            raise FormulaError(f"{expression!r} calculates with something that is no number.")
    if isinstance(node.op, ast.Pow):
        power = node.right
        if isinstance(power, ast.UnaryOp):
            power = power.operand
        number = power.value if isinstance(power, ast.Constant) else None
        small = isinstance(number, int | float) and abs(number) <= _LARGEST_POWER
        if not small or isinstance(node.left, ast.Constant):
            raise FormulaError(
                f"A power in {expression!r} must raise a column to a number of at most "
                f"{_LARGEST_POWER}."
            )
