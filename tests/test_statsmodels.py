"""Ordinary mode equals maximum likelihood as statsmodels finds it, on data that it ships."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import gammaln

import tvdbayes as tb

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::tvdbayes.SmallGroupsWarning"
)


def ordinary(formula, frame, **options):
    fit = tb.fit(formula, frame, divergence="kld", n_draws=0, **options)
    return np.asarray(fit.estimate)


def test_spector_logit_and_probit():
    data = sm.datasets.spector.load_pandas()
    x = sm.add_constant(data.exog)
    formula = "GRADE ~ GPA + TUCE + PSI"
    logit = sm.Logit(data.endog, x).fit(disp=0, tol=1e-12)
    assert np.allclose(ordinary(formula, data.data, family="bernoulli"), logit.params, atol=1e-6)
    probit = sm.Probit(data.endog, x).fit(disp=0, tol=1e-12)
    found = ordinary(formula, data.data, family="bernoulli", link="probit")
    assert np.allclose(found, probit.params, atol=1e-6)


def test_spector_cloglog():
    data = sm.datasets.spector.load_pandas()
    family = sm.families.Binomial(sm.families.links.CLogLog())
    glm = sm.GLM(data.endog, sm.add_constant(data.exog), family=family).fit(tol=1e-13, maxiter=200)
    found = ordinary("GRADE ~ GPA + TUCE + PSI", data.data, family="bernoulli", link="cloglog")
    assert np.allclose(found, glm.params, atol=1e-6)


def test_randhie_poisson():
    data = sm.datasets.randhie.load_pandas()
    names = list(data.exog.columns)
    poisson = sm.Poisson(data.endog, sm.add_constant(data.exog)).fit(
        disp=0, method="newton", tol=1e-12
    )
    found = ordinary("mdvis ~ " + " + ".join(names), data.data)
    assert np.allclose(found, poisson.params, atol=1e-6)


def test_generalized_poisson(rng):
    x = rng.integers(0, 3, 600).astype(float)
    eta = np.stack([0.3 + 0.4 * x, np.full(600, -0.5)])
    y = tb.GeneralizedPoisson().sample(rng, eta, np.ones(600))
    design = sm.add_constant(x)
    model = sm.GeneralizedPoisson(y, design, p=1)
    best = model.fit(disp=0, method="bfgs", gtol=1e-9, maxiter=500).params
    found = ordinary("y ~ x", {"y": y, "x": x}, family="genpoisson")
    assert np.allclose([*found[:2], np.exp(found[2])], best, atol=1e-5)


def test_com_poisson_has_the_moments_of_the_data(rng):
    """Its likelihood is that of an exponential family in y and log y!."""
    y = rng.binomial(12, 0.4, 500).astype(float)
    eta = ordinary("y ~ 1", {"y": y}, family="compoisson")
    assert eta[1] < 0
    k = np.arange(200.0)
    pmf = tb.ComPoisson().pmf(k, np.asarray(eta)[:, None], np.ones(1))
    for of in (lambda v: v, lambda v: gammaln(v + 1)):
        assert np.isclose(pmf @ of(k), of(y).mean(), rtol=1e-6)


def test_star98_binomial_with_trials():
    data = sm.datasets.star98.load_pandas()
    frame = data.data.copy()
    names = ["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PCTCHRT"]
    frame["successes"] = data.endog.iloc[:, 0]
    frame["total"] = data.endog.sum(axis=1)
    glm = sm.GLM(data.endog, sm.add_constant(frame[names]), family=sm.families.Binomial()).fit(
        tol=1e-13
    )
    found = ordinary("successes ~ " + " + ".join(names), frame, family="binomial", trials="total")
    assert np.allclose(found, glm.params, atol=1e-6)


def test_cpunish_poisson():
    data = sm.datasets.cpunish.load_pandas()
    frame = data.data.copy()
    frame["LOGPOP"] = np.log(frame["POPULATION"] if "POPULATION" in frame else np.arange(1, 18))
    names = ["INCOME", "PERPOVERTY", "PERBLACK", "VC100k96", "SOUTH", "DEGREE"]
    glm = sm.GLM(
        frame["EXECUTIONS"], sm.add_constant(frame[names]), family=sm.families.Poisson()
    ).fit(tol=1e-13, maxiter=200)
    found = ordinary("EXECUTIONS ~ " + " + ".join(names), frame)
    # INCOME is in the tens of thousands: its coefficient is compared on its own scale.
    scale = frame[names].std().to_numpy()
    assert np.allclose(found[1:] * scale, glm.params[1:] * scale, atol=1e-6)
    assert np.isclose(found[0], glm.params.iloc[0], atol=1e-5)


RANDHIE = ["lncoins", "fmde", "physlm", "disea"]


@pytest.fixture(scope="module")
def visits():
    """Every fourth row of the RAND experiment: doctor visits, with an intercept column."""
    frame = sm.datasets.randhie.load_pandas().data.iloc[::4].reset_index(drop=True)
    return frame, sm.add_constant(frame[RANDHIE])


def test_randhie_negative_binomial(visits):
    frame, x = visits
    fit = sm.NegativeBinomial(frame.mdvis, x).fit(disp=0, method="newton", maxiter=500, tol=1e-12)
    expected = [*fit.params[:-1], np.log(fit.params.iloc[-1])]
    found = ordinary("mdvis ~ " + " + ".join(RANDHIE), frame, family="negativebinomial")
    assert np.allclose(found, expected, atol=1e-5)


def test_randhie_zero_inflated_poisson_with_covariates_of_the_inflation(visits):
    frame, x = visits
    inflation = sm.add_constant(frame[["physlm"]])
    fit = sm.ZeroInflatedPoisson(frame.mdvis, x, exog_infl=inflation).fit(
        disp=0, method="newton", maxiter=500, tol=1e-12
    )
    found = tb.fit(
        "mdvis ~ " + " + ".join(RANDHIE),
        frame,
        family="zero_inflated_poisson",
        predictors={"inflation": "~ physlm"},
        divergence="kld",
        n_draws=0,
    )
    assert found.param_names[-2:] == ("inflation:Intercept", "inflation:physlm")
    assert np.allclose(found.estimate, [*fit.params[2:], *fit.params[:2]], atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_randhie_zero_inflated_negative_binomial_has_the_same_likelihood(visits):
    """The inflation tends to 0 here: its log odds mean nothing, the likelihood does."""
    frame, x = visits
    fit = sm.ZeroInflatedNegativeBinomialP(frame.mdvis, x).fit(
        disp=0, method="bfgs", maxiter=2000, gtol=1e-9
    )
    family = tb.ZeroInflated(tb.NegativeBinomial())
    found = tb.fit(
        "mdvis ~ " + " + ".join(RANDHIE), frame, family=family, divergence="kld", n_draws=0
    )
    posterior = found.posterior
    pmf = posterior.model.pmf(posterior.cells, found.estimate[:, None])[:, 0]
    likelihood = posterior.cells.counts @ np.log(pmf)
    assert abs(likelihood / fit.llf - 1) < 1e-8 or likelihood > fit.llf


def test_randhie_truncated_and_hurdle(visits):
    from statsmodels.discrete.truncated_model import TruncatedLFPoisson

    frame, x = visits
    seen = frame.mdvis > 0
    model = TruncatedLFPoisson(frame.mdvis[seen], x[seen])
    positive = ordinary("mdvis ~ " + " + ".join(RANDHIE), frame[seen], family="truncated_poisson")
    # Its optimiser stops early; at our parameters its own likelihood is stationary and higher.
    assert np.abs(model.score(positive)).max() < 1e-5 * seen.sum()
    hurdle = ordinary("mdvis ~ " + " + ".join(RANDHIE), frame, family="hurdle_poisson")
    assert np.allclose(hurdle[:-1], positive, atol=1e-6)
    assert abs(1 / (1 + np.exp(-hurdle[-1])) - 1 + seen.mean()) < 1e-9


def test_anes96_multinomial_logit():
    frame = sm.datasets.anes96.load_pandas().data
    names = ["logpopul", "selfLR", "age", "educ"]
    fit = sm.MNLogit(frame.PID, sm.add_constant(frame[names])).fit(disp=0, maxiter=200, tol=1e-12)
    found = ordinary("PID ~ " + " + ".join(names), frame, family="categorical")
    assert np.allclose(found, fit.params.to_numpy().T.ravel(), atol=1e-5)


# Its optimiser asks for more than rounding allows, and says so.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_anes96_ordered(link):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    frame = sm.datasets.anes96.load_pandas().data
    names = ["logpopul", "selfLR", "age", "educ"]
    fit = OrderedModel(frame.PID.astype(int), frame[names], distr=link).fit(
        disp=0, method="bfgs", maxiter=2000, gtol=1e-9
    )
    found = ordinary("PID ~ " + " + ".join(names), frame, family="ordinal", link=link)
    # Ours: an intercept, minus the first threshold; both keep the logarithms of the gaps.
    first, *gaps = fit.params[len(names) :]
    assert np.allclose(found, [-first, *fit.params[: len(names)], *gaps], atol=1e-5)
