"""What is said of the rows of a trimmed fit: where they are far out, and what they change."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Cells, Model, Poisson
from tvdbayes.sampling.statements import rows_used
from tvdbayes.trimming.far import farthest_column, where

CENTRE = np.random.default_rng(0).normal(size=(99, 4))
CENTRE = (CENTRE - np.median(CENTRE, 0)) / (
    1.4826 * np.median(np.abs(CENTRE - np.median(CENTRE, 0)), 0)
)
"""Rows whose columns have median 0 and deviation 1."""


def table(far, names, centre=CENTRE, weights=None):
    """A table of central rows and others, and which x rows these are."""
    far = np.atleast_2d(np.asarray(far, float))
    k = far.shape[1]
    z = np.r_[centre[:, :k], far]
    of_rows = np.r_[np.ones(len(centre)), np.ones(len(far)) if weights is None else weights]
    x = np.column_stack([np.ones(len(z)), z])
    cells = Cells.from_rows(x, np.zeros(len(z)), weights=of_rows, names=("one", *names))
    among = {tuple(row) for row in far}
    return cells, np.array([tuple(row) in among for row in cells.x[:, 1:]])


# Where they are far out


@pytest.mark.parametrize(
    ("far", "said"),
    [
        ([[9.0]], "1 row with income of 9 or more"),
        ([[9.0], [7.5], [8.0]], "3 rows with income of 7.5 or more"),
        ([[-9.0], [-7.5]], "2 rows with income of -7.5 or less"),
        ([[-9.0], [-7.5], [6.0], [7.0]], "4 rows with income of 6 or more or -7.5 or less"),
    ],
)
def test_a_range_holds_all_rows_that_lie_beyond_the_others(far, said):
    assert where(*table(far, ["income"])) == said


@pytest.mark.parametrize(
    ("each", "said"), [(3, "18 rows"), (0.1, "0.6 rows"), (1 / 6, "1 row"), (1 / 3, "2 rows")]
)
def test_weights_are_rows_whole_or_not(each, said):
    far = 7.5 + np.arange(6.0)[:, None]
    weights = np.full(6, each)
    assert where(*table(far, ["income"], weights=weights)) == f"{said} with income of 7.5 or more"
    far[1::2] *= -1
    held = "with income of 7.5 or more or -8.5 or less"
    assert where(*table(far, ["income"], weights=weights)) == f"{said} {held}"


def test_a_range_is_said_if_it_holds_more_than_half_of_the_far_rows():
    def said(n_beyond, weight=1.0):
        far = [[7.5 + k, 0.0, 0.0] for k in range(n_beyond)] + [[2.0, 3.0, -3.0], [2.0, -3.0, 3.0]]
        weights = np.r_[np.full(n_beyond, weight), 1, 1]
        return where(*table(far, ["income", "age", "size"], weights=weights))

    assert said(3) == "5 rows far out, 3 of them with income of 7.5 or more,"
    assert said(2) == "4 rows far out in income, age and size together"
    assert said(2, 2.0) == "6 rows far out, 4 of them with income of 7.5 or more,"


def test_the_column_of_most_rows_is_named_not_that_of_the_row_that_is_farthest_out():
    """Other rows lie as far out in age, on either side."""
    centre = CENTRE.clip(-2.5, 2.5)
    centre[:2, 1] = -9, 9
    far = np.array([[2.9, 4.0], [2.8, 4.1], [2.7, 3.9], [0.0, 9.5]])
    cells, at = table(far, ["income", "age"], centre)
    assert cells.names[farthest_column(cells, at)] == "income"
    cells, at = table(far, ["income", "age"], centre, weights=[1, 1, 1, 4])
    assert cells.names[farthest_column(cells, at)] == "age"


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_of_columns_that_hold_as_many_the_usual_distance_decides(order):
    """One row very far out must not name the column of all."""
    far = np.array([[4.5, 3.5], [4.6, 3.4], [4.7, 3.6], [4.8, 900.0]])
    names = ["income", "age"]
    cells, at = table(far[:, order], [names[j] for j in order], CENTRE[:, order])
    assert cells.names[farthest_column(cells, at)] == "income"


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_columns_are_named_from_the_farthest_on_if_the_rows_are_out_in_them(order):
    centre = np.r_[CENTRE, np.full((1, 4), 9.0), np.full((1, 4), -9.0)]
    names = np.array(["a", "b", "c", "d"])

    def said(far):
        far = np.array(far)[:, order]
        return where(*table(far, names[order], centre[:, order]))

    far = [[2.0, -3.0, 1.4, 2.5], [2.1, -3.1, 1.5, 2.6]]
    assert said(far) == "2 rows far out in b, d and a together"
    far = [[2.0, -3.0, 0.2, 0.5], [2.1, -3.1, -0.1, 0.4]]
    assert said(far) == "2 rows far out in b and a together"


# What they change


def record(*, far_agree=True, judged=True, bend=None, without=None, n_draws=200, unit=1.0):
    """A fit whose three coefficients have deviation 0.1, 0.2 and 0.3 times a unit; rows far out
    in income have moved ordinary draws by 2, 3 and 1 deviations.
    """
    rng = np.random.default_rng(0)
    z = np.r_[CENTRE[:, :2], [[9.0, 0.0], [8.0, 0.0]]]
    x, y = np.column_stack([np.ones(101), z]), rng.poisson(3, 101)
    cells = Cells.from_rows(x, y, names=("one", "income", "age"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tb.TVDBayesWarning)
        fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=2)
    scale = unit * np.array([0.1, 0.2, 0.3])
    noise, more = rng.normal(size=(2, n_draws, 3))
    noise, more = noise - noise.mean(0), more - more.mean(0)
    away = np.array([2.0, 3.0, 1.0])
    far = cells.x[:, 1] > 5
    share = np.where(far_agree | ~far[cells.x_index], 1.0, 0.0)
    kept = replace(
        fit.kept_rows,
        share=share,
        route="central",
        far=far,
        far_agree=far_agree,
        far_judged=judged,
        bend=bend,
        without_far=without,
    )
    return replace(
        fit,
        draws=scale * noise,
        minimiser=0.01 * scale,
        kld_draws=scale * (noise + away + 0.2 * more),
        kld_minimiser=scale * (0.02 + away),
        kept_rows=kept,
    )


def ends(draws):
    low, high = np.quantile(draws, (0.05, 0.95))
    return f"[{low:.3g}, {high:.3g}]"


@pytest.mark.parametrize("unit", [1.0, np.array([1.0, 1.0, 1000.0])])
def test_rows_that_contradict_are_told_with_the_coefficient_that_they_move_most(unit):
    """In its own deviations, whatever the units."""
    fit = record(far_agree=False, unit=unit)
    used = rows_used(fit)
    assert used.doubtful
    assert "were dropped" in used.caveat
    without = (
        f"The coefficient of income is {fit.draws[:, 1].mean():.3g} {ends(fit.draws[:, 1])} without"
    )
    every = (
        f"and {fit.kld_draws[:, 1].mean():.3g} {ends(fit.kld_draws[:, 1])} in the likelihood fit of"
    )
    assert without in used.far
    assert every in used.far
    assert "bs(income) in the formula" in used.far


def test_rows_that_take_part_though_too_few_are_told_if_they_decide():
    without = np.array([0.0, 0.0, 3.0])
    fit = record(judged=False, without=without)
    used = rows_used(fit)
    shown = (
        f"The coefficient of age is {fit.draws[:, 2].mean():.3g} {ends(fit.draws[:, 2])} with them"
    )
    assert shown in used.far
    assert "and 3 without them" in used.far
    # A spline in what they are far out in.
    assert "bs(income)" in used.far
    assert used.doubtful
    assert "need not be right" in used.caveat
    hardly = rows_used(record(judged=False, without=np.array([0.0, 0.0, 0.1])))
    assert "coefficient" not in hardly.far
    assert not hardly.doubtful
    # Those that were judged agree: there is nothing to tell.
    judged = rows_used(record(judged=True, without=without))
    assert "coefficient" not in judged.far
    assert not judged.doubtful
    assert not judged.caveat


def test_a_bend_is_doubtful_and_its_own_column_has_the_spline():
    used = rows_used(record(bend=2, without=np.array([0.0, 3.0, 0.0])))
    assert used.doubtful
    assert "need not be right" in used.caveat
    assert "The coefficient of income is" in used.far
    assert "bs(age)" in used.far
    # It stays doubtful if it changes nothing.
    assert rows_used(record(bend=2, without=np.zeros(3))).doubtful


def test_a_fit_with_few_draws_has_no_second_answer_and_other_fits_none_at_all():
    fit = record(far_agree=False)
    for n in (0, 1):
        few = replace(fit, draws=fit.draws[:n], kld_draws=fit.kld_draws[:n])
        assert "coefficient" not in rows_used(few).far
    assert rows_used(replace(fit, kept_rows=None)) is None
