"""Guarantees and plans from a terminal."""

import pytest
from click.testing import CliRunner

from tvdbayes import bounds
from tvdbayes.cli import main


def run(*words):
    return CliRunner().invoke(main, words)


def test_a_bound_is_what_the_library_says():
    found = run("bound", "radius", "--rows", "1000", "--cells", "6")
    assert found.exit_code == 0
    assert found.output.strip() == str(bounds.tvd_radius(1000, 0.05, n_cells=6))
    found = run("bound", "robustness", "--share", "0.1")
    assert "-0.152" in found.output
    assert "+0.100" in found.output


def test_the_printed_bound_is_smaller_and_says_so():
    words = ("bound", "deviation", "--rows", "300", "--x", "30", "--y", "30")
    assert "says nothing" in run(*words).output
    assert "0.550" in run(*words, "--as-printed").output


def test_rows_for_groups_are_planned():
    found = run("plan", "groups", "--parameters", "5")
    assert found.exit_code == 0
    assert "240 rows" in found.output


def test_rows_for_a_width_are_planned():
    found = run("plan", "rows", "--coefficients", "1", "--width", "0.2", "--binary")
    assert found.exit_code == 0
    assert "rows" in found.output


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("bound", "radius", "--rows", "0", "--cells", "6"), 2, "--rows"),
        (("bound", "robustness", "--share", "1.5"), 2, "--share"),
        (("plan", "rows", "--coefficients", "1,a", "--width", "0.2"), 1, "'1,a'"),
        (
            ("plan", "rows", "--coefficients", "1,1", "--width", "1", "--family", "poi"),
            1,
            "poi",
        ),
        (("plan", "groups"), 2, "--parameters"),
    ],
)
def test_bad_questions_take_one_line(words, code, says):
    found = run(*words)
    assert found.exit_code == code
    assert says in found.output
    assert len(found.output.strip().splitlines()) == 1
