"""Ordinary mode equals maximum likelihood as statsmodels finds it, on data that it ships."""

import numpy as np
import pytest
import statsmodels.api as sm

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
