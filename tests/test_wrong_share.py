"""The rows that a trimmed fit does not use: the column, the flags, and the share of wrong rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import tvdbayes as tb
from tvdbayes import Bernoulli, Cells, Distinct, Model, Poisson
from tvdbayes.objective import Layout
from tvdbayes.results import replicates
from tvdbayes.results.misfit import Misfit, dropped_rows, wrong_share
from tvdbayes.results.replicates import replicate
from tvdbayes.results.rows import SCORES, cell_scores, layout_of, masses_of, surprise_of_dropped
from tvdbayes.trimming import (
    MANY,
    agreement,
    due_in_tails,
    kept_share,
    kept_shares,
    tail_probability,
)
from tvdbayes.trimming.weighted import weighted_fit

WRONG = 40


def frame(bad=WRONG, n=400, seed=0):
    """Counts at three levels, some of them far too high."""
    rng = np.random.default_rng(seed)
    kept = rng.integers(0, 3, n)
    y = rng.poisson(np.exp(0.7 + 0.3 * kept))
    y[:bad] += 15
    # The covariate has the name of a column of the table of rows.
    return {"y": y, "kept": kept}


@pytest.fixture(scope="module")
def dirty():
    return tb.fit("y ~ kept", frame(), n_draws=20, refine="trim")


# The column


def test_the_share_that_is_used_is_a_column_of_trimmed_fits_alone(dirty):
    rows, cells = dirty.rows(), dirty.cells()
    share = dirty.posterior.kept_rows.share
    np.testing.assert_array_equal(rows["kept"], share[dirty.cell_of_row])
    np.testing.assert_array_equal(cells["kept"], share)
    assert list(rows.columns) == ["y", "data: kept", *SCORES, "flag"]
    np.testing.assert_array_equal(rows["data: kept"], frame()["kept"])
    assert "kept" in dirty.suspicious_rows()
    plain = tb.fit("y ~ kept", frame(), n_draws=2, refine=None).rows(n_replicates=20)
    assert "kept" not in plain
    np.testing.assert_array_equal(plain["data: kept"], frame()["kept"])


# Flags


def test_flagged_rows_are_dropped_ones_and_the_wrong_ones_are_among_them(dirty):
    rows = dirty.rows()
    assert (rows.loc[rows["flag"], "kept"] < 0.5).all()
    assert rows["flag"][:WRONG].all()
    assert rows["flag"].sum() < WRONG + 8
    assert (rows.loc[rows["kept"] >= 0.5, "surprise"] == 0).all()
    everything = rows.sort_values(["surprise", "score"], ascending=False, kind="stable")
    worst = dirty.suspicious_rows()
    assert worst.index[0] == everything.index[0]


def test_a_row_that_only_its_own_law_finds_odd_is_surprising():
    """A count of 14 where the rate is 0.3, in groups that have no more than they should."""
    z = np.linspace(-2, 2, 401)
    y = np.round(np.exp(0.7 + z))
    odd = np.arange(401) == 20
    y[odd] = 14
    cells = Cells.from_rows(np.c_[np.ones(401), z], y)
    layout = Layout(Model(Poisson()), cells, Distinct(), cells)
    theta, p = layout.bound.from_user(np.array([[0.7], [1.0]])), cells.p[:, None]
    masses = masses_of(layout, theta, p)
    masses = replace(masses, data=masses.model)
    (at,) = np.flatnonzero((cells.y == 14) & (cells.x[cells.x_index, 1] < -1))
    dropped = np.where(np.arange(cells.n_cells) == at, 0.0, 1.0)[:, None]
    found = surprise_of_dropped(masses, theta, 401.0, dropped)[:, 0]
    exact = -stats.poisson.logsf(13, np.exp(0.7 + z[20])) / np.log(10)
    assert masses.surprise(401.0).max() == 0
    assert found[at] == pytest.approx(exact, rel=0.1)
    # What is kept does not stand out, whatever it is.
    assert (np.delete(found, at) == 0).all()


def test_the_limit_of_flags_knows_the_tails(dirty):
    """The surprise of a replicate is that of data which are judged at the same parameters."""
    chance = replicate(dirty.posterior, 60)
    posterior = dirty.posterior
    layout = layout_of(posterior)
    least = -np.log10(
        tail_probability(layout, layout.bound.from_user(posterior.minimiser[:, None]))
    )
    dropped = chance.dropped > 0
    assert 0 < dropped.mean() < 0.9
    # A row that is dropped for its tail has a probability of at most 10 to the power of -2.5.
    assert (chance.surprise[dropped] > 2).mean() > 0.8
    assert (chance.surprise[~dropped] == 0).all()
    flagged = cell_scores(posterior).surprise > chance.threshold(0.05)
    assert flagged[least[:, 0] > 8].all()


def test_several_tables_are_judged_as_each_alone(dirty):
    layout, n = layout_of(dirty.posterior), dirty.posterior.cells.n_obs
    theta = layout.bound.from_user(dirty.posterior.minimiser[:, None])
    p = np.random.default_rng(3).dirichlet(dirty.posterior.cells.counts, 2).T
    both = kept_shares(layout, p, np.repeat(theta, 2, axis=1), n)
    for number in range(2):
        due = due_in_tails(layout, p[:, number], theta[:, 0])
        alone = kept_share(layout, p[:, number], theta[:, 0], n)
        given = kept_shares(layout, p[:, [number]], theta, n, due)[:, 0]
        np.testing.assert_array_equal(given, alone)
        assert np.abs(both[:, number] - alone).max() <= 1
        np.testing.assert_allclose(p[:, number] @ both[:, number], p[:, number] @ alone, atol=0.01)


def kept_out(family, z, y, minimiser):
    """The record of a fit that keeps out the rows far out in z as a block, and their cells."""
    cells = Cells.from_rows(np.c_[np.ones(len(z)), z], y)
    fit = tb.posterior_bootstrap(
        Model(family), cells, n_draws=0, partition=Distinct(), refine="trim"
    )
    far = cells.x[:, 1] > 4
    at_far = far[cells.x_index]
    rows = replace(fit.kept_rows, far=far, far_agree=False, share=np.where(at_far, 0.0, 1.0))
    return replace(fit, kept_rows=rows, minimiser=np.array(minimiser)), at_far


def test_far_rows_that_were_kept_out_as_a_block_are_flagged():
    """Far rows are half 0 where the model says one in ten: none of them is odd by itself."""
    rng = np.random.default_rng(2)
    z = np.r_[rng.normal(size=300), rng.normal(6, 0.1, 40)]
    y = (rng.random(340) < expit(0.37 * z)).astype(float)
    y[300:] = np.arange(40) % 2
    record, at_far = kept_out(Bernoulli(), z, y, [0.0, 0.37])
    cells, rows, layout = record.cells, record.kept_rows, layout_of(record)
    theta = layout.bound.from_user(record.minimiser[:, None])[:, 0]
    deviations = agreement(layout, theta, np.ones(cells.n_cells), rows.far)
    assert deviations < -6
    scores = cell_scores(record)
    np.testing.assert_array_equal(scores.surprise > 8.0, at_far)
    np.testing.assert_allclose(scores.surprise[at_far], -stats.norm.logcdf(deviations) / np.log(10))
    # Had they been let in, they would not stand out.
    agreeing = cell_scores(replace(record, kept_rows=replace(rows, far_agree=True)))
    assert agreeing.surprise.max() < 4


@pytest.fixture(scope="module")
def block():
    """Counts far out that are half of what they should be, and one far too many, kept out."""
    rng = np.random.default_rng(3)
    z = np.r_[rng.normal(size=200), rng.normal(6, 0.1, 31)]
    y = rng.poisson(np.exp(0.5 + 0.3 * z)).astype(float)
    y[200:], y[230] = 4, 90
    return kept_out(Poisson(), z, y, [0.5, 0.3])


def test_a_row_of_a_block_is_as_surprising_as_the_block_or_more(block):
    record, at_far = block
    cells, layout = record.cells, layout_of(record)
    theta = layout.bound.from_user(record.minimiser[:, None])[:, 0]
    # What is dropped for its own outcome does not speak for the block.
    kept = kept_share(layout, cells.p, theta, cells.n_obs)
    odd = cells.y == 90
    np.testing.assert_array_equal(kept, ~odd)
    deviations = agreement(layout, theta, kept, record.kept_rows.far)
    of_block = -stats.norm.logcdf(deviations) / np.log(10)
    surprise = cell_scores(record).surprise
    np.testing.assert_allclose(surprise[at_far & ~odd], of_block)
    assert surprise[odd] > 1.2 * of_block > 12


def test_what_was_let_in_of_a_block_is_not_surprising(block):
    record, at_far = block
    dropped = at_far & (np.cumsum(at_far) % 2 == 0)
    rows = replace(record.kept_rows, share=np.where(dropped, 0.0, 1.0))
    surprise = cell_scores(replace(record, kept_rows=rows)).surprise
    np.testing.assert_array_equal(surprise > 0, dropped)


def judged(posterior, layout, counts, theta):
    return replicates._surprise(
        posterior, layout, counts, theta, replicates._due(posterior, layout)
    )


def test_a_data_set_is_judged_by_its_own_rows():
    """Also beside another with rows farther out, which it does not have."""
    cells = Cells.from_rows(
        np.ones((402, 1)), np.r_[np.random.default_rng(0).poisson(3, 400), 14, 40]
    )
    posterior = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=0, refine="trim", bins="none"
    )
    layout = layout_of(posterior)
    counts = np.column_stack([cells.counts, cells.counts, cells.counts])
    counts[cells.y == 14, 1], counts[cells.y == 40, 0] = 0, 0
    counts[cells.y > 12, 2] = 0
    theta = np.repeat(layout.bound.from_user(np.array([[np.log(3.0)]])), 3, axis=1)
    surprise, dropped = judged(posterior, layout, counts, theta)
    for y, at in ((14, 0), (40, 1)):
        p = counts[:, at] / counts[:, at].sum()
        kept = kept_share(layout, p, theta[:, at], 402.0)
        # One row of 401 is dropped, and no other is as far out.
        assert dropped[at] == pytest.approx(p @ (1 - kept))
        assert dropped[at] == pytest.approx(1 / 401, abs=1e-4)
        # It is judged by the fit without it.
        refit = weighted_fit(layout, p * kept, theta[:, at], posterior.ridge)
        tail = tail_probability(layout, refit[:, None])[cells.y == y, 0]
        assert surprise[at] == pytest.approx(-np.log10(tail[0]))
    assert surprise[0] < 0.3 * surprise[1]
    assert (surprise[2], dropped[2]) == (0, 0)


def test_data_sets_with_bins_of_their_own_are_judged_as_each_alone():
    y = np.random.default_rng(1).poisson(400, (2, 60))
    y[1, :12] = 700
    cells = Cells.from_rows(np.ones((60, 1)), y[0])
    posterior = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=0, refine="trim")
    assert posterior.bins is not None
    table = Cells.from_rows(np.ones((120, 1)), y.ravel())
    layout = layout_of(posterior).rebind(table)
    counts = np.array([[(of == value).sum() for value in table.y] for of in y], float).T
    theta = layout.bound.from_user(np.log([[400.0, 415.0]]))
    both = judged(posterior, layout, counts, theta)
    for at in range(2):
        alone = judged(posterior, layout, counts[:, [at]], theta[:, [at]])
        np.testing.assert_array_equal([part[at] for part in both], np.ravel(alone))
    assert both[1][0] < 0.05 < both[1][1]


# The share of wrong rows


@pytest.mark.parametrize("chance", [0.0, 0.01, 0.2])
def test_its_law_is_that_of_a_proportion_less_chance(chance):
    """The laws behind both ends of an exact interval of 7 of 90, solved for the share."""
    at = (np.arange(200) + 0.5) / 200
    share = np.r_[stats.beta.ppf(at, 7, 84), stats.beta.ppf(at, 8, 83)]
    exact = np.sort(np.maximum((share - chance) / (1 - chance), 0))
    np.testing.assert_allclose(wrong_share(7.0, 90.0, np.array([chance])), exact)
    mixed = wrong_share(7.0, 90.0, np.array([chance, 0.0]))
    np.testing.assert_allclose(mixed, np.sort(np.r_[exact, share]))


def test_where_no_row_is_dropped_the_share_is_as_likely_0_as_not():
    found = wrong_share(0.0, 90.0, np.zeros(1))
    assert (found == 0).mean() == 0.5
    assert np.median(found[found > 0]) == pytest.approx(1 - 0.5 ** (1 / 90), rel=1e-2)
    np.testing.assert_allclose(wrong_share(90.0, 90.0, np.zeros(1)), 1 - found[::-1])


def test_rows_are_dropped_for_their_own_outcomes_at_the_estimate(dirty, block):
    for posterior in (dirty.posterior, block[0]):
        cells, layout = posterior.cells, layout_of(posterior)
        theta = layout.bound.from_user(posterior.minimiser[:, None])[:, 0]
        kept = kept_share(layout, cells.p, theta, cells.n_obs)
        assert dropped_rows(posterior) == pytest.approx(cells.counts @ (1 - kept))
    # Not the 20 of the block.
    assert 0 < dropped_rows(block[0]) < 15
    assert abs(dropped_rows(dirty.posterior) - WRONG) < 3


def test_the_share_of_wrong_rows_is_that_which_was_planted(dirty):
    found = dirty.misfit()
    assert found.wrong == pytest.approx(0.1, abs=0.012)
    # Binomial: 40 of 400 rows.
    low, high = stats.beta.ppf([0.05, 0.95], 40.5, 360.5)
    assert found.wrong_low == pytest.approx(low, abs=0.01)
    assert found.wrong_high == pytest.approx(high, abs=0.01)
    said = str(found).splitlines()[2]
    assert said.startswith(f"About {found.wrong:.1%} of the rows are wrong (90% interval ")
    assert said.endswith("rows whose outcomes the model finds usual are not counted.")
    assert found.lower < found.wrong_low


def test_clean_data_may_have_no_wrong_row():
    found = tb.fit("y ~ kept", frame(0, seed=6), n_draws=20, refine="trim").misfit()
    assert found.wrong_low == 0
    assert found.wrong_high < 0.02
    assert "Perhaps no row is wrong" in str(found)


def test_what_is_dropped_by_chance_is_taken_off():
    chance = np.array([0.0, 0.01, 0.02])
    with_chance = wrong_share(50.0, 500.0, chance)
    assert np.isclose(with_chance.mean(), (0.1 - 0.01) / (1 - 0.01), atol=2e-3)
    assert (wrong_share(5.0, 500.0, np.full(3, 0.02)) == 0).mean() > 0.9
    assert wrong_share(500.0, 500.0, np.zeros(1)).min() > 0.98
    assert np.median(wrong_share(500.0, 500.0, np.zeros(1))) > 0.999


def test_where_no_row_is_dropped_it_may_be_that_none_is_wrong():
    found = wrong_share(0.0, 400.0, np.zeros(1))
    assert np.quantile(found, 0.05) == 0 < np.quantile(found, 0.95) < 3 / 400


def test_other_fits_have_no_share_of_wrong_rows_and_say_nothing():
    found = tb.fit("y ~ kept", frame(), n_draws=5, refine=None).misfit(n_replicates=20)
    assert (found.wrong, found.wrong_low, found.wrong_high) == (None, None, None)
    assert len(str(found).splitlines()) == 2


def test_a_fit_to_all_rows_where_many_would_go_gives_no_share(dirty):
    kept = replace(dirty.posterior.kept_rows, route="ordinary")
    fit = replace(dirty, posterior=replace(dirty.posterior, kept_rows=kept))
    found = fit.misfit(n_replicates=20)
    assert found.wrong is None
    assert "The share of wrong rows cannot be estimated" in str(found)


def test_the_sentence_has_a_line_of_its_own_before_the_levels():
    part = Misfit(np.full(5, 0.2), np.full(5, 0.1))
    found = replace(part, by={"a": part}, wrong_draws=np.linspace(0.05, 0.15, 101))
    lines = str(found).splitlines()
    assert lines[2].startswith("About 10.0% of the rows are wrong (90% interval 5.5% to 14.5%)")
    assert lines[3].startswith("  a:")


def test_where_many_rows_are_dropped_the_family_may_be_wrong_instead():
    """To a Poisson law overdispersed counts look like wrong rows."""
    rng = np.random.default_rng(4)
    data = {"y": rng.negative_binomial(1, 1 / 9, 200)}
    fit = tb.fit("y ~ 1", data, n_draws=50)
    found = fit.misfit(n_replicates=20)
    assert found.wrong_low > MANY
    assert "If the family is right for the others, about" in str(found)
    assert fit.summary().note.endswith("These are many: another family may explain them.")


def test_few_wrong_rows_do_not_question_the_family(dirty):
    assert "family" not in str(dirty.misfit(n_replicates=20))
    assert "family" not in dirty.summary().note
