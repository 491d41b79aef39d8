"""Messages in a terminal give no advice for Python: every text of the package is looked at."""

import ast
import re
from pathlib import Path

import pytest

import tvdbayes as tb
from tvdbayes.cli._commands import IN_A_TERMINAL, plain

SOURCE = Path(tb.__file__).parent

PYTHON = re.compile(
    r"\btb\.|\btvdbayes\.(?!fish)\w|pandas|data frame\b|\bfit\.(?!tvd)\w|\w\(\)|\w\(\.\.\."
    r"|\b[a-z_]{3,}=(?!=)|\bNone\b|\bdict\b|`status`"
)
"""Words of Python users."""

ELSEWHERE = {
    **dict.fromkeys(("estimators", "large", "plots", "kernel"), "no command"),
    **dict.fromkeys(("bounds/misfit.py", "bounds/parameter_set.py"), "no command"),
    "_autodiff.py": "functions of users",
    "data/cells.py": "arrays",
    "data/dask.py": "Dask",
    "data/fit_data.py": "columns set to a value",
    "data/grid.py": "fields of a grid; the number of bins is tried below",
    "data/rounding.py": "fields of a grid",
    "fitting/compare_fits.py": "the kind of the argument",
    "fitting/effects.py": "questions of Python users",
    "fitting/goodness.py": "questions of Python users",
    "fitting/keywords.py": "arguments of Python functions",
    "fitting/predictions.py": "questions of Python users",
    "models/families/_wrapper.py": "instances of families",
    "models/families/custom.py": "functions of users",
    "models/families/links.py": "instances of links",
    "objective/divergences.py": "instances of divergences",
    "results": "questions of Python users",
    "report": "the page shows the call in Python",
    "sampling/networks.py": "instances of predictors",
    "sampling/option_kinds.py": "values that are not text",
    "storage/_archive.py": "objects",
}
"""Files, or rooms, whose messages for Python users no command shows, and why."""

SAID = {
    "_commands.py": "the rules themselves",
    "fitting/clusters.py": "no command asks about clusters",
    "by= ": "labels of rows",
    "labels that are numbers or text": "labels of rows",
    "misfit(), rows() and effects()": "ends a sentence that is tried below",
    "rows(), and for the predictions": "ends a sentence that is tried below",
    "check(), misfit(), effects()": "ends a sentence that is tried below",
    "rows() says which outcomes": "labels of rows",
    "Ask fit.predictions or": "on the page",
    "such as Poisson(); got": "values that are not text",
    "The data must be a data frame": "data that are not a file",
    "An Ibis table is only grouped": "tables of Ibis",
    "A Dask DataFrame is only grouped": "tables of Dask",
    "data/parts.py": "tables of Dask",
    "fitting/methods.py": "no command asks for the words of a paper",
    "There are no ratios": "--ratios says so in words of its own",
    "Excel files need openpyxl": "no command writes Excel files",
    "not among levels=": "an argument in a formula",
    "of this exception. Call again": "is cut before its second half",
    'a name such as "gpu", or None': "values that are not text",
    "rng= are two names": "has no flag",
    " | None": "a type",
    "import tvdbayes as tb": "the page",
    "<th": "a notebook",
    "<table": "a notebook",
}
"""What other messages contain, and why no command shows them."""


def texts():
    """Every text of the package that is a sentence, with X for what is filled in."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        inside = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside |= {id(part) for part in node.values}
        for node in ast.walk(tree):
            if id(node) in inside or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            said = "".join(
                str(getattr(part, "value", "X")) if isinstance(part, ast.Constant) else "X"
                for part in parts
            )
            if len(said) > 20 and " " in said:
                yield path.relative_to(SOURCE).as_posix(), said


def is_elsewhere(file):
    return any(file == one or file.startswith(f"{one}/") for one in ELSEWHERE)


def test_no_message_of_a_command_speaks_of_python():
    found = [
        (file, plain(said))
        for file, said in texts()
        if not is_elsewhere(file) and PYTHON.search(plain(said))
    ]
    shown = [
        (file, said)
        for file, said in found
        if not any(part in said or file.endswith(part) for part in SAID)
    ]
    assert not shown, (
        "Say these in the words of a terminal, or by a rule in IN_A_TERMINAL, or say in SAID why "
        f"no command shows them: {shown}"
    )


@pytest.mark.parametrize("rule", IN_A_TERMINAL, ids=lambda rule: rule[0][:20])
def test_every_rule_is_about_a_message_that_exists(rule):
    advice, _ = rule
    joined = "\n".join(said for _, said in texts())
    needle = "; ask for X instead" if advice.startswith("; ask for") else None
    known = joined + '\npredictors={"inflation": "~ x"}' * ("predictors={" in joined)
    assert needle in known if needle else re.search(advice, known)


@pytest.mark.parametrize(
    ("python", "terminal"),
    [
        ("raise max_cells=.", "raise --max-cells."),
        ("Use divergence='tvd' with refine=None.", "Use --divergence tvd with --refine none."),
        (
            "A network has no coefficients for a report to be about; ask for check(), misfit(), "
            "effects() and the pictures of plot instead.",
            "A network has no coefficients for a report to be about.",
        ),
        (
            "1 of 9 is not (first: x in row 3). Repair these cells. If they are levels, name all "
            "of them: family=tb.Categorical((1, 'a', ...)).",
            "1 of 9 is not (first: x in row 3). Repair these cells.",
        ),
        (
            "Make it an ordered categorical or numbers, or name the levels from low to high: "
            'family=tb.Ordinal(("low", "middle", "high")).',
            "Make it an ordered categorical or numbers.",
        ),
        (
            "grid takes a number of bins, or a tvdbayes.Grid; got 1.",
            "grid takes a number of bins; got 1.",
        ),
    ],
)
def test_advice_is_for_who_reads_it(python, terminal):
    assert plain(python) == terminal
