"""The index of messages lists what the package says."""

import re
import runpy
from pathlib import Path

import pytest

import tvdbayes as tb

DOCS = Path(__file__).parent.parent / "docs"
INDEX = runpy.run_path(str(DOCS / "messages.py"))
COUNTS = {"y": [0, 1, 2, 3] * 10, "x": [0, 1] * 20}


def provoked():
    """Calls that end in an error, each of another stage."""
    fit = tb.fit("y ~ x", COUNTS, n_draws=0)
    return {
        "family": lambda: tb.fit("y ~ x", COUNTS, family="poison"),
        "column": lambda: tb.fit("y ~ z", COUNTS),
        "outcome": lambda: tb.fit("y ~ x", {**COUNTS, "y": [-1, 1, 2, 3] * 10}),
        "draws": lambda: tb.fit("y ~ x", COUNTS, n_draws=-1),
        "file": lambda: tb.load("no such file"),
        "divergence": lambda: tb.fit("y ~ x", COUNTS, divergence="tvdd"),
        "no rows": lambda: tb.fit("y ~ x", {"y": [], "x": []}),
        "no draws": fit.misfit,
        "sensitivity": lambda: fit.sensitivity("z"),
    }


@pytest.mark.parametrize("stage", list(provoked()))
def test_what_is_said_is_in_the_index(stage):
    with pytest.raises(tb.TVDBayesError) as caught:
        provoked()[stage]()
    said, kind = " ".join(str(caught.value).split()), type(caught.value).__name__
    patterns = (
        ".*".join(map(re.escape, one.text.split(INDEX["OPEN"])))
        for one in INDEX["messages"]()
        if one.kind == kind
    )
    assert any(re.fullmatch(pattern, said) for pattern in patterns), said


def test_a_new_message_is_listed(tmp_path):
    (tmp_path / "_errors.py").write_text("class OddError(ValueError):\n    pass\n")
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "one.py").write_text(
        'raise OddError(f"{n} rows are odd, " + ("all of them." if n else "none of them."))\n'
        "raise OddError(text)\n"
    )
    found = INDEX["messages"](tmp_path)
    said = [
        "\N{HORIZONTAL ELLIPSIS} rows are odd, " + end for end in ("all of them.", "none of them.")
    ]
    assert [one.text for one in found] == said
    assert {one.section for one in found} == {"The command line"}


def test_every_message_is_on_the_page():
    page = INDEX["page"]()
    assert page.count("\n- ") == len(INDEX["messages"]())
