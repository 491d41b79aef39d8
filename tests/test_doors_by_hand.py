"""What the doors answer for rows with offsets, trials and weights, computed by hand from draws."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from scipy.stats import poisson

import tvdbayes as tb
from tvdbayes.results.checks import calibration, pit_histogram, rootogram
from tvdbayes.results.scores import score

N = 240


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x, g = rng.integers(0, 3, N), rng.choice(["a", "b", "c"], N)
    hours, tries = rng.choice([1.0, 2.0, 5.0], N), rng.integers(2, 9, N)
    eta = 0.3 + 0.2 * x - 0.4 * (g == "b")
    return pd.DataFrame(
        {
            "x": x,
            "g": g,
            "hours": hours,
            "tries": tries,
            "w": rng.integers(1, 4, N),
            "visits": rng.poisson(hours * np.exp(eta)),
            "hits": rng.binomial(tries, expit(eta)),
        }
    )


@pytest.fixture(scope="module")
def visits(frame):
    return tb.fit("visits ~ x + g", frame, exposure="hours", weights="w", n_draws=30)


@pytest.fixture(scope="module")
def hits(frame):
    return tb.fit("hits / tries ~ x + g", frame, family="binomial", weights="w", n_draws=30)


def columns(frame):
    return np.column_stack([np.ones(len(frame)), frame.g == "b", frame.g == "c", frame.x])


def design(fit, frame):
    """Columns in the order of the parameters."""
    names = ["Intercept", "g[T.b]", "g[T.c]", "x"]
    assert sorted(fit.param_names) == sorted(names)
    return columns(frame)[:, [names.index(name) for name in fit.param_names]]


@pytest.mark.parametrize("ordinary", [False, True])
def test_means_of_new_rows_count_exposure_and_trials(frame, visits, hits, ordinary):
    new = frame.iloc[[5, 1, 77, 1, 30]]
    for fit, mean in (
        (visits, lambda eta: new.hours.to_numpy() * np.exp(eta)),
        (hits, lambda eta: new.tries.to_numpy() * expit(eta)),
    ):
        draws = fit.kld_draws if ordinary else fit.draws
        by_draw = mean(draws @ design(fit, new).T)
        for level in (0.5, 0.9):
            found = fit.predict(new, interval=level, ordinary=ordinary)
            assert list(found.index) == [5, 1, 77, 1, 30]
            assert np.allclose(found["mean"], by_draw.mean(0))
            ends = np.quantile(by_draw, [0.5 - level / 2, 0.5 + level / 2], axis=0)
            assert np.allclose(found[["low", "high"]].T, ends)


def test_outcomes_of_new_rows_have_their_median_between_the_ends(frame, visits):
    new = frame.iloc[:6]
    found = visits.predict(new, "outcome", interval=0.8)
    rate = new.hours.to_numpy() * np.exp(visits.draws @ design(visits, new).T)
    cdf = poisson.cdf(np.arange(200)[:, None, None], rate).mean(1)
    for name, share in (("low", 0.1), ("median", 0.5), ("high", 0.9)):
        at = found[name].to_numpy(int)
        assert (cdf[at, range(6)] > share - 0.03).all()
        assert (np.where(at > 0, cdf[at - 1, range(6)], 0) < share + 0.03).all()


def test_the_class_is_the_most_probable_one(frame):
    fit = tb.fit("g ~ x", frame, family="categorical", n_draws=20)
    new = pd.DataFrame({"x": [0, 1, 2]})
    masses, found = fit.predict(new, "pmf"), fit.predict(new, "class")
    assert found["class"].tolist() == masses.idxmax(axis=1).tolist()
    assert np.allclose(found["probability"], masses.max(axis=1))
    assert np.allclose(masses.sum(axis=1), 1)


@pytest.mark.parametrize("ordinary", [False, True])
def test_effects_are_weighted_averages_at_the_rows_exposure(frame, visits, ordinary):
    w = frame.w / frame.w.sum()
    first = visits.kld_draws if ordinary else visits.draws

    def average(draws, **changes):
        eta = draws @ design(visits, frame.assign(**changes)).T
        return (frame.hours.to_numpy() * np.exp(eta)) @ w

    found = visits.contrast("x", 2, 0, ordinary=ordinary)
    assert np.allclose(found.draws[:, 0], average(first, x=2) - average(first, x=0))
    twin = visits.kld_draws
    assert np.allclose(found.kld_draws[:, 0], average(twin, x=2) - average(twin, x=0))
    ratio = visits.contrast("x", 2, 0, ratio=True, ordinary=ordinary)
    assert np.allclose(ratio.draws[:, 0], average(first, x=2) / average(first, x=0))
    levels = visits.effects("g", ordinary=ordinary)
    for column, level in enumerate("bc"):
        gap = average(first, g=level) - average(first, g="a")
        assert np.allclose(levels.draws[:, column], gap)
    slope = visits.effects("x", ordinary=ordinary)
    at = list(visits.param_names).index("x")
    assert np.allclose(slope.draws[:, 0], first[:, at] * average(first), rtol=1e-6)
    table = slope.summary(0.5)
    assert np.allclose(table["low"], np.quantile(slope.draws, 0.25, axis=0))
    held = visits.predictions({"g": "b"}, ordinary=ordinary)
    assert np.allclose(held.draws[:, 0], average(first, g="b"))
    at_minimum = visits.posterior.kld_minimiser if ordinary else visits.posterior.minimiser
    assert np.allclose(held.minimiser, average(at_minimum[None], g="b"))
    other = visits.posterior.kld_minimiser
    assert np.allclose(held.kld_minimiser, average(other[None], g="b"))


def test_scores_of_new_rows_count_their_exposure(frame, visits):
    new = frame.iloc[:50]
    rate = new.hours.to_numpy() * np.exp(visits.draws @ design(visits, new).T)
    log = -np.log(poisson.pmf(new.visits.to_numpy(), rate).mean(0))
    found = visits.score(new)
    assert found.n == new.w.sum()
    assert found.log == pytest.approx(np.average(log, weights=new.w))


def test_rows_have_the_scores_of_their_cells_in_the_order_of_the_input(frame, visits):
    found, cells = visits.rows(n_replicates=20), visits.cells(n_replicates=20)
    assert found["visits"].tolist() == frame.visits.tolist()
    at = visits.cell_of_row
    for name in ("score", "observed", "expected", "surprise", "flag"):
        assert found[name].tolist() == cells[name].to_numpy()[at].tolist()


def test_the_misfit_of_levels_adds_up_to_the_whole(visits):
    """Whole = sum over levels of the weight of each times its share, draw by draw."""
    from tvdbayes.sampling.weights import Stream, reweight

    found = visits.misfit(0.5, by="g", n_replicates=20)
    cells = visits.posterior.cells
    p = reweight(cells, Stream.draws(visits.seed), 30).p
    level = cells.x[cells.x_index][:, [cells.names.index("g[T.b]"), cells.names.index("g[T.c]")]]
    which = level @ [1, 2]
    mass = np.array([p[which == k].sum(0) for k in range(3)])
    shares = np.array([found.by[name].draws for name in "abc"])
    assert np.allclose((mass * shares).sum(0), found.draws)
    assert found.by["b"].interval == 0.5


def expected_mean(posterior):
    """Mean over rows and draws of the expected outcome."""
    cells = posterior.cells
    rate = np.exp(posterior.draws @ cells.x.T + cells.offset)
    return (rate @ cells.x_counts).mean() / cells.n_obs


@pytest.mark.parametrize("ordinary", [False, True])
def test_checks_are_those_of_the_side_that_is_asked_for(visits, ordinary):
    side = visits.posterior.twin if ordinary else visits.posterior
    assert np.array_equal(side.draws, visits.kld_draws if ordinary else visits.draws)
    for mine, own in (
        (visits.calibration(4, ordinary=ordinary), calibration(side, 4)),
        (visits.pit(5, ordinary=ordinary), pit_histogram(side, 5)),
        (visits.score(ordinary=ordinary), score(side)),
    ):
        for name, value in vars(own).items():
            if name != "by_cell":
                assert np.array_equal(getattr(mine, name), value), name
    levels = visits.observed("g", ordinary=ordinary)
    assert np.allclose(levels.n @ levels.expected, levels.n.sum() * expected_mean(side))
    bars = visits.rootogram(0.5, ordinary=ordinary)
    like = rootogram(visits.posterior, 0.5)
    assert np.array_equal(bars.outcomes, like.outcomes)
    assert np.array_equal(bars.high, rootogram(side, 0.5, like=like).high)


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_the_summary_of_a_fit_has_the_level_that_is_asked_for(visits, level):
    table = visits.summary(level)
    assert np.allclose(table["low"], np.quantile(visits.draws, 0.5 - level / 2, axis=0))
    assert np.allclose(table["kld_high"], np.quantile(visits.kld_draws, 0.5 + level / 2, axis=0))


def test_exposure_and_offset_add_up_on_the_log_scale(frame):
    given = frame.assign(o=np.where(frame.x > 0, 0.4, -0.2))
    fit = tb.fit("visits ~ 1", given, exposure="hours", offset="o", divergence="kld", n_draws=0)
    # Maximum likelihood: as many visits as are expected.
    expected = frame.hours * np.exp(given.o + fit.estimate[0])
    assert expected.sum() == pytest.approx(frame.visits.sum(), rel=1e-6)


def test_expected_means_of_levels_are_weighted_by_rows(frame, visits):
    found = visits.observed("g")
    w, hours = frame.w.to_numpy(), frame.hours.to_numpy()
    mean = (hours * np.exp(visits.draws @ design(visits, frame).T)).mean(0)
    for label, n, seen, expected in zip(
        found.labels, found.n, found.observed, found.expected, strict=True
    ):
        mine = (frame.g == label).to_numpy()
        assert n == w[mine].sum()
        assert seen == pytest.approx(w[mine] @ frame.visits[mine] / n)
        assert expected == pytest.approx(w[mine] @ mean[mine] / n)


def test_coefficients_of_estimators_give_their_predictions(frame):
    x = frame[["x", "tries"]].to_numpy(float)
    model = tb.RobustCountRegressor(n_draws=0).fit(x, frame.visits)
    assert np.allclose(model.predict(x), np.exp(x @ model.coef_ + model.intercept_))
    model = tb.RobustClassifier(n_draws=0).fit(x, frame.x > 0)
    assert np.allclose(
        model.predict_proba(x)[:, 1], expit(x @ model.coef_[0] + model.intercept_[0])
    )
    model = tb.RobustClassifier(n_draws=0).fit(x[:, 1:], frame.g)
    assert np.allclose(model.coef_.sum(0), 0)
    assert np.allclose(
        model.predict_proba(x[:, 1:]), softmax(x[:, 1:] @ model.coef_.T + model.intercept_, axis=1)
    )
