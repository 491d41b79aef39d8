"""Read a formula without running what it says.

formulaic evaluates Python, with the caller's variables in reach, and expands powers and crossings
of any size. Here a formula is first read as text: its terms are counted, and every factor must be
a column, or a call of a known function on columns and plain numbers.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from formulaic import Formula
from formulaic.parser.types import Factor

from tvdbayes._errors import FormulaError, SettingsError
from tvdbayes._validate import no_column
from tvdbayes.formula.matrix import alias_of, as_written, column_of, mask, rewrite
from tvdbayes.formula.other_terms import bars, take_offsets, unknown_call

_SPLINE = ("knots", "lower_bound", "upper_bound", "extrapolation")
_SCALE = ("center", "scale", "ddof")
FUNCTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("I", "center", "exp", "log", "log10", "log1p", "log2", "sqrt"), ((), ())),
    "C": (("contrasts",), ("levels", "spans_intercept")),
    "bs": (("df",), (*_SPLINE, "degree", "include_intercept")),
    "cr": (("df",), (*_SPLINE, "constraints")),
    "poly": (("degree", "raw"), ()),
    "scale": (_SCALE, ()),
    "standardize": (_SCALE, ()),
    "Treatment": (("reference",), ()),
    "Sum": ((), ()),
    "Helmert": ((), ("reverse", "scale")),
    "Diff": ((), ("backward",)),
    "Poly": ((), ("scores",)),
}
"""What a formula may call, with the options of each: those that may go without their name, which
come after the column, and those that may not."""

_CONTRASTS = frozenset({"Treatment", "Sum", "Helmert", "Diff", "Poly"})
"""Functions that make contrasts, as arguments of C."""

_KEEP_TEXT = frozenset({"C", "I"})
"""Functions that accept text; all others need numbers."""

_LONGEST = 2000
"""Characters of a formula: parsing takes time that grows with its length."""

_MOST_TERMS = 500
"""Terms that a formula may expand to; formulaic builds every one of them."""

_LARGEST_POWER = 10
"""Powers of columns above this overflow or lose all digits for ordinary data."""

_DEEPEST = 100
"""Nesting of an expression; Python evaluates deeper ones by recursion, which may run out."""

_LARGEST_OPTION = 100
"""Largest number of basis functions and largest degree: memory grows with them."""

_SIZES = frozenset({"df", "degree"})
"""Options that set the number of columns."""

_NODES: tuple[type[ast.AST], ...] = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.BinOp),
    *(ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd),
    *(ast.List, ast.Tuple),
)
_SIDE = r"\s*(?:`((?:[^`]|``)*)`|([^`/]*?))\s*"


@dataclass(frozen=True)
class Reading:
    """A formula that may be evaluated: outcome, terms, the columns that the terms use, the column
    of trials where the outcome is written as successes / total, and those of ``offset(...)``.

    In the terms, columns have their aliases (`alias_of`); all other names are those of the data.
    """

    outcome: str
    terms: Formula
    columns: tuple[str, ...]
    trials: str | None = None
    offset: str | None = None
    exposure: str | None = None

    def once(self, option: str, given: Any) -> Any:
        """The column of trials, offset or exposure, which an option may name instead."""
        named = getattr(self, option)
        if given is not None and named is not None:
            raise SettingsError(
                f"The formula names the {option} ({named!r}), and so does {option}={given!r}. "
                "Give one of them."
            )
        return named if given is None else given


def read_formula(formula: str, columns: Collection[str]) -> Reading:
    """Parse and check a formula, or raise `FormulaError`."""
    if not isinstance(formula, str):
        raise FormulaError(f'The formula must be text such as "y ~ x"; got {formula!r}.')
    if len(formula) > _LONGEST:
        raise FormulaError(
            f"The formula has {len(formula)} characters; at most {_LONGEST} are read. "
            "Build the columns beforehand."
        )
    try:
        return _read(formula, columns)
    except RecursionError as error:
        raise FormulaError(
            f"The formula {formula!r:.80} is nested too deeply: signs or brackets one in another. "
            "Write it with fewer of them, or compute the column beforehand."
        ) from error


def _read(formula: str, columns: Collection[str]) -> Reading:
    parts = mask(formula).split("~")
    left, right = formula[: len(parts[0])], formula[len(parts[0]) + 1 :]
    outcome, trials = _outcome(left, columns)
    if len(parts) != 2 or outcome is None or not right.strip():
        raise FormulaError(f'The formula must read "outcome ~ terms"; got {formula!r}.')
    _require_column(outcome, columns, "outcome")
    offset = exposure = None
    if re.search(r"(?<![\w.])offset\s*\(", mask(right)):
        right, offset, exposure = take_offsets(right)
    for name in filter(None, (offset, exposure)):
        _require_column(name, columns, "formula")
    if "|" in mask(right):
        raise bars(right)
    terms = rewrite(
        right, columns, FUNCTIONS, lambda name: _require_column(name, columns, "formula")
    )
    n_terms = _count_terms(terms)
    if n_terms > _MOST_TERMS:
        raise FormulaError(
            f"The formula {formula!r} makes up to {n_terms:,} terms; at most {_MOST_TERMS} are "
            "read. Write fewer crossings or lower powers."
        )
    try:
        parsed = Formula(terms)
        factors = _factors(parsed)
    except Exception as error:
        # formulaic's parser raises many kinds of its own; all mean that the text cannot be read.
        raise FormulaError(f"The formula {formula!r} cannot be read.") from error
    used: set[str] = set()
    for factor in factors:
        method = factor.eval_method.value
        if method == "lookup":
            used.add(_known(factor.expr, columns))
        elif method == "python":
            used |= _check_expression(factor.expr, columns)
    if outcome in used:
        raise FormulaError(
            f"The outcome {outcome!r} also stands among the terms. Leave it out there."
        )

    def place(column: str) -> int:
        found = re.search(rf"\b{re.escape(alias_of(column))}\b", terms)
        return 0 if found is None else found.start()

    # In the order of the formula, so that names decide nothing.
    return Reading(outcome, parsed, tuple(sorted(used, key=place)), trials, offset, exposure)


def _outcome(left: str, columns: Collection[str]) -> tuple[str | None, str | None]:
    """The outcome's column, and that of the trials behind a slash."""
    found = re.fullmatch(f"{_SIDE}(?:/{_SIDE})?", left, re.DOTALL)
    if found is None:
        return left.strip() or None, None
    sides = [
        plain or None if in_quotes is None else in_quotes.replace("``", "`")
        for in_quotes, plain in (found.groups()[:2], found.groups()[2:])
    ]
    if "/" not in mask(left):
        return sides[0], None
    if sides[1] is None:
        return None, None
    _require_column(sides[1], columns, "outcome")
    return sides[0], sides[1]


def _require_column(name: str, columns: Collection[str], where: str) -> None:
    if name not in columns:
        raise FormulaError(no_column(name, columns, f", which the {where} names"))


def _known(alias: str, columns: Collection[str]) -> str:
    """The column with this alias in the terms."""
    name = column_of(alias)
    if alias_of(name) != alias and name in columns:
        raise FormulaError(
            f"In a formula, {name} does not stand for the column {name!r}. Write `{name}`, in "
            "backticks."
        )
    _require_column(name, columns, "formula")
    return name


def _factors(terms: Formula) -> set[Factor]:
    """What terms are products of."""
    return {factor for term in terms for factor in term.factors}


def _trees(terms: Formula) -> Iterator[tuple[str, ast.expr]]:
    """The factors that are Python: their text, and their tree."""
    for factor in sorted(_factors(terms)):
        if factor.eval_method is Factor.EvalMethod.PYTHON:
            yield factor.expr, ast.parse(factor.expr, mode="eval").body


def _columns_in(tree: ast.AST) -> set[str]:
    """Names in an expression that are not those of functions."""
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {column_of(name) for name in names if name not in FUNCTIONS}


def _called(node: ast.AST) -> str | None:
    """The function that a node calls."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return None


def calculated_with(terms: Formula) -> dict[str, str]:
    """The columns that terms calculate with, which must hold numbers, and where that is."""
    found: dict[str, str] = {}
    for text, tree in _trees(terms):
        for node in ast.walk(tree):
            called = _called(node)
            calculates = called is not None and called not in _KEEP_TEXT
            if calculates or isinstance(node, ast.BinOp | ast.UnaryOp):
                for name in _columns_in(node):
                    found.setdefault(name, as_written(text))
    return found


def not_by_category(terms: Formula) -> frozenset[str]:
    """The columns that terms use in some other way than by C."""
    plain = (f for f in _factors(terms) if f.eval_method is Factor.EvalMethod.LOOKUP)
    trees = [tree for _, tree in _trees(terms) if _called(tree) != "C"]
    return frozenset({column_of(f.expr) for f in plain}.union(*map(_columns_in, trees)))


def _count_terms(text: str) -> int:
    """An upper bound of the terms that a right-hand side expands to, from its text alone."""
    plain = mask(text)
    # Calls and quoted Python count as one term each: take them out, innermost brackets first.
    for _ in range(_LONGEST):
        shorter = re.sub(r"[A-Za-z_][\w.]*\s*\([^()]*\)|\{[^{}]*\}", "q", plain)
        if shorter == plain:
            # Brackets that are not a call may contain one: take them out, to find the outer call.
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
        raise FormulaError(f"The terms {as_written(text).strip()!r} cannot be read.") from error
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
    text = as_written(expression)
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise FormulaError(f"{text!r} in the formula cannot be read: {error}") from error
    if _depth(tree) > _DEEPEST:
        raise FormulaError(f"{text!r:.80} is nested too deeply. Compute the column beforehand.")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {id(call.func): call for call in calls}
    options = {id(option) for call in calls for option in call.args[1:]}
    options |= {id(keyword.value) for call in calls for keyword in call.keywords}
    used = set()
    for node in ast.walk(tree):
        if id(node) in called:
            _check_call(text, called[id(node)])
        elif not isinstance(node, _NODES):
            raise FormulaError(
                f"{text!r} uses {type(node).__name__}, which formulas here do not allow. "
                "Compute the column beforehand."
            )
        elif isinstance(node, ast.Name) and id(node) in options and node.id in FUNCTIONS:
            continue
        elif isinstance(node, ast.Name):
            used.add(_known(node.id, columns))
        elif isinstance(node, ast.BinOp):
            _check_arithmetic(text, node)
        elif isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, int | float) and abs(value) > 1e12:
                raise FormulaError(f"{value} in {text!r} is too large for a formula.")
    if not used:
        raise FormulaError(f"{text!r} in the formula uses no column. Leave it out.")
    return used


def _depth(tree: ast.AST) -> int:
    """Depth of a tree."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [n for node in level for n in ast.iter_child_nodes(node)]
    return depth


def _check_call(expression: str, call: ast.Call) -> None:
    if not (isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS):
        raise unknown_call(expression, as_written(ast.unparse(call.func)), sorted(FUNCTIONS))
    name = call.func.id
    by_place, by_name = FUNCTIONS[name]
    args = call.args if name in _CONTRASTS else call.args[1:]
    if len(args) > len(by_place):
        raise FormulaError(
            f"{expression!r}: {name} has {len(by_place) or 'no'} options without a name; "
            f"got {len(args)}."
        )
    given = [*zip(by_place, args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    for option, value in given:
        if option not in (*by_place, *by_name):
            known = ", ".join((*by_place, *by_name))
            raise FormulaError(
                f"{expression!r}: {name} has no option {option!r}. It has: {known or 'none'}."
            )
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id not in FUNCTIONS:
                raise FormulaError(
                    f"{expression!r}: only the first argument of {name} may be a column."
                )
            number = node.value if isinstance(node, ast.Constant) else 0
            if option in _SIZES and isinstance(number, int) and abs(number) > _LARGEST_OPTION:
                raise FormulaError(
                    f"{number} in {expression!r} is too large; at most {_LARGEST_OPTION}."
                )


def _check_arithmetic(expression: str, node: ast.BinOp) -> None:
    for side in (node.left, node.right):
        text = isinstance(side, ast.Constant) and not isinstance(side.value, int | float)
        if text or isinstance(side, ast.List | ast.Tuple):
            raise FormulaError(f"{expression!r} calculates with something that is not a number.")
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
