"""Laws of a prior: base measures in the columns of the data, and answers of fits with a prior."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import tvdbayes as tb
from tvdbayes.results.base_measure import fitted_base, likelihood_fit

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n)
    years = rng.choice([0.5, 1.0, 2.0], n)
    trials = rng.integers(2, 5, n)
    return pd.DataFrame(
        {
            "y": rng.poisson(2 * years * np.where(group == "a", 1.0, 1.5)),
            "yes": rng.binomial(trials, 0.4),
            "answer": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
            "group": group,
            "years": years,
            "trials": trials,
            "w": rng.integers(1, 3, n),
        }
    )


BASE = rows(9, seed=1)
WAYS = {
    "text": ("y ~ group", {}),
    "exposure": ("y ~ group", {"exposure": "years"}),
    "trials": ("yes ~ group", {"trials": "trials", "family": "binomial"}),
    "a spline": ("y ~ poly(years, 2)", {}),
    "weights": ("y ~ group", {"weights": "w"}),
    "answers": ("answer ~ group", {"family": "bernoulli"}),
}


def same(one, other):
    return np.array_equal(one.draws, other.draws) and np.array_equal(one.kld_draws, other.kld_draws)


def fitted(formula, data=None, n_draws=20, **options):
    return tb.fit(formula, rows() if data is None else data, n_draws=n_draws, **options)


def encoded(formula, options):
    """The base measure by hand: its lines of the table of data and base measure together."""
    both = fitted(formula, pd.concat([rows(), BASE]), 0, **options)
    posterior, at = both.posterior, both.cell_of_row[len(rows()) :]
    cells = posterior.cells
    of = cells.x_index[at]
    weights = BASE["w"].to_numpy(float) if "weights" in options else None
    given = {"offset": cells.offset[of], "trials": cells.trials[of], "names": cells.names}
    return tb.Cells.from_rows(cells.x[of], cells.y[at], weights=weights, **given)


@pytest.mark.parametrize("way", [name for name in WAYS if name != "a spline"])
def test_rows_in_the_columns_of_the_data_are_those_encoded_by_hand(way):
    formula, options = WAYS[way]
    by_hand = fitted(formula, alpha=7.0, base_measure=encoded(formula, options), **options)
    assert same(fitted(formula, alpha=7.0, base_measure=BASE, **options), by_hand)


def test_a_frame_a_dict_and_a_file_are_the_same(tmp_path):
    BASE.to_csv(tmp_path / "base.csv", index=False)
    ways = (BASE, BASE.to_dict("list"), str(tmp_path / "base.csv"), tmp_path / "base.csv")
    fits = [fitted("y ~ group", alpha=7, base_measure=base) for base in ways]
    assert all(same(fits[0], other) for other in fits[1:])


def test_alpha_alone_is_centred_at_the_likelihood_fit():
    assert same(fitted("y ~ group", alpha=7), fitted("y ~ group", alpha=7, base_measure="fit"))
    assert fitted("y ~ group", alpha=7).options.base_measure == "fit"


def test_the_fit_as_base_measure_has_the_law_of_the_likelihood_fit():
    """Its masses are p(x) f(y | x), offsets and trials included."""
    plain = fitted("yes ~ group", n_draws=0, family="binomial", trials="trials")
    cells = plain.posterior.cells
    base = fitted_base(likelihood_fit(plain.posterior.model, cells), 0)
    assert base.counts.sum() == pytest.approx(1)
    share = expit(base.x @ plain.posterior.kld_minimiser)
    mean = np.bincount(base.x_index, base.counts * base.y) / base.x_counts
    np.testing.assert_allclose(mean, share * base.trials, rtol=1e-6)
    np.testing.assert_allclose(base.x_counts, cells.x_counts / cells.n_obs)


def test_many_distinct_rows_are_represented_by_a_sample():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    data = {"y": rng.poisson(np.exp(1 + 0.5 * x)), "x": x}
    posterior = likelihood_fit(*_model_of("y ~ x", data))
    base = fitted_base(posterior, 3)
    assert base.n_obs == pytest.approx(1)
    assert base.n_cells <= 5000
    again = likelihood_fit(posterior.model, base)
    np.testing.assert_allclose(again.kld_minimiser, posterior.kld_minimiser, atol=0.04)


def _model_of(formula, data):
    posterior = tb.fit(formula, data, n_draws=0).posterior
    return posterior.model, posterior.cells


def test_draws_with_the_fit_as_base_measure_have_the_beta_law():
    """One yes/no answer: shares are Beta((n + alpha) p, (n + alpha) (1 - p))."""
    data, alpha = {"y": [0] * 70 + [1] * 30}, 50.0
    fit = tb.fit("y ~ 1", data, family="bernoulli", alpha=alpha, refine=None, n_draws=4000)
    share = expit(fit.kld_draws[:, 0])
    total = 100 + alpha
    assert share.mean() == pytest.approx(0.3, abs=4 * share.std() / np.sqrt(4000))
    assert share.var() == pytest.approx(0.21 / (total + 1), rel=0.1)


def test_a_prior_of_no_weight_changes_no_answer():
    data = rows()
    data.loc[:9, "y"] += 12
    without = fitted("y ~ group", data)
    almost = fitted("y ~ group", data, alpha=1e-7, base_measure=data.sample(20, random_state=0))
    for one, other in (
        (without.chance.distance, almost.chance.distance),
        (without.chance.unfitted, almost.chance.unfitted),
        (without.chance.surprise, almost.chance.surprise),
        (without.drop_worst().robust, almost.drop_worst().robust),
    ):
        np.testing.assert_allclose(other, one, atol=1e-4)
    assert (without.rows()["flag"] == almost.rows()["flag"]).all()
    for one, other in zip(without.sensitivity(), almost.sensitivity(), strict=True):
        assert other.sign_holds_to == pytest.approx(one.sign_holds_to, abs=0.02)
    one, other = (fit.leave_one_out(n_draws=200).robust for fit in (without, almost))
    assert other.log == pytest.approx(one.log, rel=0.02)


@pytest.mark.parametrize("ask", ["cross_validate", "leave_one_out"])
def test_held_out_rows_are_predicted_by_a_heavy_prior(ask):
    """Half of its answers are yes: every held-out row has the log score log 2."""
    base = {"answer": ["no", "yes"]}
    fit = fitted("answer ~ 1", family="bernoulli", alpha=1e7, base_measure=base)
    found = getattr(fit, ask)(n_draws=5)
    np.testing.assert_allclose(found.robust.log, np.log(2), rtol=1e-3)


def test_replicates_are_fitted_with_the_prior():
    """What a heavy prior far from the data leaves of data sets of its own model is not refitted."""
    fit = fitted(
        "answer ~ 1", family="bernoulli", alpha=1e7, base_measure={"answer": ["no", "yes"]}
    )
    np.testing.assert_allclose(fit.chance.even, fit.chance.unfitted, atol=1e-4)


def test_rows_are_dropped_from_beside_a_prior():
    """The first cell is dropped from the data, not from the prior: shares by hand."""
    data = {"y": [0] * 90 + [1] * 10}
    base = {"y": [0, 1]}
    fit = tb.fit(
        "y ~ 1", data, family="bernoulli", alpha=100, base_measure=base, refine=None, n_draws=5
    )
    found = expit(fit.drop_worst([0.0, 0.05]).ordinary[:, 0])
    worst = fit.posterior.cells.y[0] if fit.rows()["surprise"].max() == 0 else 1
    left = (60 - 5 * worst) / 195
    np.testing.assert_allclose(found, [0.3, left], atol=1e-4)


def test_a_heavy_prior_holds_what_is_left_when_rows_are_dropped():
    base = {"answer": ["no", "yes"]}
    fit = fitted("answer ~ 1", family="bernoulli", alpha=1e6, base_measure=base, refine=None)
    np.testing.assert_allclose(fit.drop_worst([0, 0.1]).ordinary, 0.0, atol=1e-3)


def drawn(rng, size):
    return np.c_[np.ones(size), rng.integers(0, 2, (size, 2))], rng.poisson(2, size)


@pytest.mark.parametrize("base", ["fit", "rows", "function"])
def test_flags_and_misfit_find_wrong_rows_beside_a_prior(base):
    data = rows(300)
    given = {"fit": "fit", "rows": BASE, "function": drawn}[base]
    data["y"] = np.random.default_rng(5).poisson(2 + (data["group"] != "a")) + 25 * (
        data.index < 30
    )
    fit = fitted("y ~ group", data, alpha=10.0, base_measure=given)
    flags = fit.rows()["flag"]
    assert flags[:30].all()
    assert flags[30:].sum() <= 1
    assert fit.misfit().wrong == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("base", ["fit", "rows"])
@pytest.mark.parametrize("way", ["exposure", "a spline"])
def test_a_saved_fit_and_an_updated_one_have_the_same_prior(base, way, tmp_path):
    """What is learned from all rows, such as the knots of a spline, is learned anew."""
    formula, options = WAYS[way]
    options = {**options, "alpha": 5.0, "base_measure": "fit" if base == "fit" else BASE}
    data = rows()
    whole, first = fitted(formula, data, **options), fitted(formula, data[:140], **options)
    assert same(first.update(data[140:]), whole)
    first.save(tmp_path / "fit.tvd")
    loaded = tb.load(tmp_path / "fit.tvd")
    assert same(loaded, first)
    assert same(loaded.update(data[140:]), whole)
    np.testing.assert_array_equal(loaded.misfit().floor_draws, first.misfit().floor_draws)


def test_estimators_take_a_prior():
    """Pairs (X, y), labels as they are, or the likelihood fit."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 200)
    y = rng.poisson(1 + x)
    pair = (x[:20, None], y[:20])
    by_hand = tb.fit(
        "y ~ x", {"y": y, "x": x}, alpha=9, base_measure={"y": y[:20], "x": x[:20]}, ridge=1e-4
    )
    model = tb.RobustCountRegressor(n_draws=1000, alpha=9, base_measure=pair)
    assert np.array_equal(model.fit(x[:, None], y).posterior_.draws, by_hand.draws)
    labels = np.where(rng.random(200) < 0.7, "no", "yes")
    heavy = tb.RobustClassifier(
        alpha=1e6, base_measure=([[0.0], [0.0], [2.0], [2.0]], ["no", "yes"] * 2)
    )
    np.testing.assert_allclose(heavy.fit(x[:, None], labels).predict_proba([[1.0]]), 0.5, atol=0.01)
    centred = tb.RobustClassifier(alpha=1e7, refine=None).fit(x[:, None], labels)
    assert centred.posterior_.kld_draws.std(0).max() < 0.01
    with pytest.raises(tb.DataError, match="no row of y has"):
        tb.RobustClassifier(alpha=1, base_measure=([[0.0]], ["maybe"])).fit(x[:, None], labels)


def test_a_base_measure_that_makes_no_sense_is_refused_in_words():
    with pytest.raises(tb.DataError, match="no column"):
        fitted("y ~ group", alpha=5, base_measure=BASE[["y"]])
    with pytest.raises(tb.TVDBayesError, match="base_measure"):
        fitted("y ~ group", alpha=5, base_measure=3.5)
    with pytest.raises(tb.TVDBayesError):
        fitted("y ~ group", alpha=5, base_measure=BASE.assign(group="z"))
