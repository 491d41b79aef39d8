"""What `check` states is true, and is stated on clean data as seldom as promised."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import tvdbayes as tb
from tvdbayes import Status
from tvdbayes.fitting.story import RULES
from tvdbayes.large import fit as large
from tvdbayes.results import replicates
from tvdbayes.results.findings import flat_ranges
from tvdbayes.results.rows import cell_scores, layout_of, masses_of
from tvdbayes.sampling.statements import differing, far_draws, few_groups, warn_of

N = 20_000


def line(fit, about):
    """The findings about something."""
    return [f for f in fit.check(misfit=False).findings if f.about == about]


def changed(fit, **fields):
    """A fit whose record is changed."""
    return replace(fit, posterior=replace(fit.posterior, **fields))


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, 2, 240) for name in "abcd"}
    data["y"] = rng.binomial(1, 0.4, 240)
    return tb.fit("y ~ a + b + c + d", data, family="bernoulli", n_draws=20)


# Robust and likelihood fit differ


def independent(d, seed=0):
    """Draws of differences with a mean of exactly 0 and a deviation of exactly 1."""
    z = np.random.default_rng(seed).normal(size=(N, d))
    return (z - z.mean(0)) / z.std(0, ddof=1)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_a_difference_is_judged_beside_all_coefficients(d):
    # Independent normal differences: Sidak's simultaneous 95 % limit.
    limit = stats.norm.ppf((1 + 0.95 ** (1 / d)) / 2)
    z = independent(d)
    below, above = ((np.arange(d) == 0) * limit * factor for factor in (0.97, 1.03))
    assert not differing(z + below, np.zeros((N, d))).any()
    assert np.array_equal(np.flatnonzero(differing(z - above, np.zeros((N, d)))), [0])


def test_coefficients_that_move_together_count_as_one():
    z = np.repeat(independent(1), 40, axis=1)
    assert not differing(z + 1.93, np.zeros_like(z)).any()
    assert differing(z + 1.99, np.zeros_like(z)).all()


def test_units_do_not_matter_for_a_difference():
    z = independent(3) + np.array([1.0, 2.5, 4.0])
    found = differing(z, np.zeros_like(z))
    assert found.any()
    assert not found.all()
    assert np.array_equal(differing(z * [1e-9, 1e9, -1.0], np.zeros_like(z)), found)


def test_equal_fits_do_not_differ_and_few_draws_do_not_tell():
    z = independent(2)
    assert not differing(z, z).any()
    apart = np.random.default_rng(1).normal(50, 1, (19, 2))
    assert differing(apart, np.zeros((19, 2))).all()
    assert not differing(apart[:18], np.zeros((18, 2))).any()


def test_the_check_names_coefficients_by_the_joint_rule(linear):
    # 1.8 deviations are beyond a 90 % interval of one coefficient, and within that of five.
    z = independent(5)[:400]
    kld = np.zeros_like(z)
    shift = 1.8 * (np.arange(5) == 2)
    (said,) = line(changed(linear, draws=z + shift, kld_draws=kld), "likelihood fit")
    assert said.level == "good"
    (said,) = line(changed(linear, draws=z + 3 * shift, kld_draws=kld), "likelihood fit")
    assert said.level == "note"
    assert "differ in b (5% level, all coefficients together)" in said.text


# Ties


def test_clean_binned_counts_have_no_ties():
    rng = np.random.default_rng(20)
    x = rng.normal(size=200)
    data = {"x": x, "y": rng.poisson(np.exp(2 + 0.5 * x))}
    fit = tb.fit("y ~ x", data, n_draws=50, refine=None)
    assert fit.bins is not None
    (said,) = line(fit, "ties")
    assert (said.level, said.text) == (
        "good",
        "The data determine all coefficients.",
    )


def with_far_rows(share, n=6000):
    """Counts whose shares are those of Poisson(3), and far-off rows."""
    y = np.arange(12)
    counts = np.append((1 - share) * n * stats.poisson.pmf(y, 3), share * n)
    data = {"y": np.append(y, 90), "w": np.round(counts) + 1.0}
    return tb.fit("y ~ 1", data, weights="w", n_draws=200, refine=None)


@pytest.fixture(scope="module")
def loose():
    return with_far_rows(0.2)


def test_a_flat_range_is_where_the_model_covers_the_good_rows(loose):
    # The distance stays the far-off share while the pmf is above the data everywhere else.
    flat = flat_ranges(loose.posterior)
    assert flat.wide[0]
    cells = loose.posterior.cells
    layout = layout_of(loose.posterior)
    ends = np.array([[flat.low[0], flat.high[0], loose.posterior.minimiser[0]]])
    p = np.repeat(cells.p[:, None], 3, axis=1)
    distance = (p * masses_of(layout, layout.bound.from_user(ends), p).score).sum(0)
    assert (np.abs(distance - distance[2]) < 0.02 * loose.posterior.distance.std()).all()
    assert distance[2] == pytest.approx(0.2, abs=2e-3)
    seen = (cells.y < 90) & (cells.counts > 20)
    covered = [
        (stats.poisson.pmf(cells.y[seen], np.exp(end)) > 0.99 * cells.p[seen]).all()
        for end in ends[0]
    ]
    assert all(covered)


def test_a_tie_says_from_where_to_where_and_how_many_draws_it_holds(loose):
    flat = flat_ranges(loose.posterior)
    (said,) = line(loose, "ties")
    draws = loose.draws[:, 0]
    held = ((draws >= flat.low[0]) & (draws <= flat.high[0])).mean()
    assert 0 < held < 1
    ends = f"Intercept from {flat.low[0]:.4g} to {flat.high[0]:.4g}"
    assert f"{ends} (which holds {held:.0%} of the draws)" in said.text
    assert "wrong rows" not in said.text
    elsewhere = changed(loose, draws=loose.draws + 10 * loose.draws.std())
    (said,) = line(elsewhere, "ties")
    assert "holds 0% of the draws" in said.text


# Rules that the warnings and the check share


def of_network(fit, n_groups):
    """The record as if it were that of a network, with so many pooled groups."""
    model = replace(fit.posterior.model, predictor=tb.MLP(hidden=(3,)))
    return changed(fit, model=model, groups=replace(fit.posterior.groups, n_groups=n_groups))


@pytest.fixture(scope="module")
def pooled():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 2))
    data = {"x": x[:, 0], "z": x[:, 1], "y": rng.integers(0, 2, 300)}
    return tb.fit("y ~ x + z", data, family="bernoulli", n_draws=2, refine=None)


def warned(posterior):
    """The classes of the warnings of a record."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warn_of(posterior, False, int(Status.CONVERGED))
    return [w.category for w in heard]


@pytest.mark.parametrize(("n_groups", "few"), [(6.0, False), (5.9, True)])
def test_warning_and_check_count_the_parameters_of_networks_alike(pooled, n_groups, few):
    # Two covariates that vary, and one: the constant column is none of them.
    fit = of_network(pooled, n_groups)
    assert fit.posterior.model.complexity(fit.posterior.cells) == 3
    assert few_groups(fit.posterior) is few
    assert (tb.TooFewRowsWarning in warned(fit.posterior)) is few
    assert any("for 3 parameters are few" in f.text for f in line(fit, "groups")) is few


@pytest.mark.parametrize(("number", "many"), [(2, False), (3, True)])
def test_warning_check_and_cluster_share_the_limit_of_one_percent(linear, number, many):
    status = np.where(np.arange(200) < number, int(Status.STALLED), int(Status.CONVERGED))
    fit = changed(linear, status=status)
    assert (tb.ConvergenceWarning in warned(fit.posterior)) is many
    (said,) = line(fit, "search")
    assert said.level == ("problem" if many else "note")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        large._warn_of(SimpleNamespace(status=status, kld_status=status * 0))
    assert bool(heard) is many


def test_small_groups_are_no_concern_of_a_fit_by_rows(pooled):
    small = replace(pooled.posterior.groups, median_size=2.0, n_groups=1.0)
    by_rows = changed(pooled, groups=small, divergence=tb.DensityPower())
    assert warned(by_rows.posterior) == []
    assert line(by_rows, "groups") == []
    by_groups = changed(pooled, groups=small)
    assert set(warned(by_groups.posterior)) == {tb.SmallGroupsWarning, tb.TooFewRowsWarning}
    assert [f.level for f in line(by_groups, "groups")] == ["problem", "problem"]


def test_far_draws_are_told_by_their_number(linear):
    draws = independent(5)[:400]
    assert far_draws(draws) == 0
    draws[:4, 1] += 20
    fit = changed(linear, draws=draws, kld_draws=draws)
    assert not any("second mode" in f.text for f in line(fit, "draws"))
    draws[:5, 1] += 20
    said = line(changed(linear, draws=draws, kld_draws=draws), "draws")
    assert said[-1].text.startswith("1.2% of the draws lie more than 6 deviations")


def test_every_line_of_the_check_has_a_rule(linear, loose, pooled):
    known = {rule.about for rule in RULES}
    for fit in (linear, loose, pooled, of_network(pooled, 3.0)):
        assert {f.about for f in fit.check(misfit=fit is linear).findings} <= known
    assert len(known) == len(RULES)


# Flags


def test_a_replicate_is_judged_as_data_are_by_bins_of_its_own():
    rng = np.random.default_rng(3)
    x = rng.normal(size=150)
    data = {"x": x, "y": rng.poisson(np.exp(2 + 0.5 * x))}
    posterior = tb.fit("y ~ x", data, n_draws=0, refine=None).posterior
    layout = layout_of(posterior)
    table, counts = replicates._simulate(posterior, layout.bound.eta, range(3))
    theta = layout.bound.from_user(np.repeat(posterior.minimiser[:, None], 3, axis=1))
    found, dropped = replicates._surprise(posterior, layout.rebind(table), counts, theta)
    assert not dropped.any()
    for number in range(3):
        held = counts[:, number] > 0
        cells = tb.Cells.from_counts(
            table.x[table.x_index[held]], table.y[held], counts[held, number], names=table.names
        )
        again = tb.posterior_bootstrap(posterior.model, cells, n_draws=0, refine=None)
        assert again.bins is not None
        judged = cell_scores(replace(again, minimiser=posterior.minimiser))
        assert found[number] == pytest.approx(judged.surprise.max())


def test_bins_that_were_asked_for_stay_in_replicates():
    rng = np.random.default_rng(4)
    x = rng.normal(size=150)
    data = {"x": x, "y": rng.poisson(np.exp(2 + 0.5 * x))}
    bins = [0, 3, 6, 9, 12, 20]
    posterior = tb.fit("y ~ x", data, n_draws=0, bins=bins, refine=None).posterior
    layout = replicates._filled(layout_of(posterior))
    table, counts = replicates._simulate(posterior, layout.bound.eta, range(8))
    here = layout.rebind(table)
    theta = np.repeat(here.bound.from_user(posterior.minimiser[:, None]), 8, axis=1)
    masses = masses_of(here, theta, counts / counts.sum(0))
    by_hand = np.where(counts > 0, masses.surprise(posterior.cells.n_obs), 0.0).max(0)
    found, _ = replicates._surprise(posterior, here, counts, theta)
    np.testing.assert_allclose(found, by_hand)
