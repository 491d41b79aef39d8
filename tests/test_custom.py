"""A family of the user's own: ten lines that fit like a built-in, and mistakes that are named."""

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import Cells, CustomFamily, DiscreteWeibull, Model, Poisson


def weibull_by_jax():
    jnp = pytest.importorskip("jax.numpy")

    def hazard(y, scale, shape):
        return jnp.exp(shape * (jnp.log(jnp.maximum(y, 1e-300)) - jnp.log(scale)))

    def log_pmf(y, scale, shape):
        low, high = hazard(y, scale, shape), hazard(y + 1, scale, shape)
        return -low + jnp.log(-jnp.expm1(low - high))

    return CustomFamily(log_pmf, (0, None), {"scale": "log", "shape": "log"}, name="weibull")


def poisson_by_hand(**options):
    from scipy.special import gammaln

    return CustomFamily(
        **{
            "log_pmf": lambda y, rate: y * np.log(rate) - rate - gammaln(y + 1),
            "score": lambda y, rate: [y / rate - 1],
            "curvature": lambda y, rate: [[-y / rate**2]],
            "support": (0, None),
            "parameters": {"rate": "log"},
            **options,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "built_in"),
    [(weibull_by_jax, DiscreteWeibull()), (poisson_by_hand, Poisson())],
    ids=["by JAX", "by hand"],
)
def test_laws_equal_those_of_the_built_in_family(own, built_in):
    family, rng, ones = own(), np.random.default_rng(3), np.ones(1)
    eta = rng.uniform(-1, 1.5, (len(built_in.predictors), 1, 6))
    y = np.arange(8.0)[:, None]
    for mine, theirs in zip(family.jet(y, eta, ones), built_in.jet(y, eta, ones), strict=True):
        assert np.allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert np.allclose(family.mean(eta, ones), built_in.mean(eta, ones), rtol=1e-9)
    assert np.allclose(
        family.power_sum(eta[:, 0], 1.5, ones)[0],
        built_in.power_sum(eta[:, 0], 1.5, ones)[0],
        rtol=1e-9,
    )
    drawn = family.sample(rng, np.repeat(eta[:, 0, :1], 20_000, axis=1), ones)
    assert abs(drawn.mean() / family.mean(eta[:, :, :1], ones).item() - 1) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [False, True], ids=["repeated x", "continuous x"])
def test_a_weibull_in_ten_lines_is_the_built_in_one(continuous):
    family, rng, n = weibull_by_jax(), np.random.default_rng(4), 400
    x = rng.normal(size=n) if continuous else rng.integers(0, 3, n)
    eta = np.stack([1 + 0.4 * x, np.full(n, 0.3)])
    y = DiscreteWeibull().sample(rng, eta, np.ones(n))
    y[:40] = 60
    frame = {"y": y, "x": x}
    own, built_in = (
        tb.fit("y ~ x", frame, family=f, n_draws=8) for f in (family, DiscreteWeibull())
    )
    assert own.param_names == built_in.param_names == ("Intercept", "x", "shape:Intercept")
    if continuous:
        # Where rows are pooled a search ends within 1e-6 of the optimum, not at 1e-13.
        assert np.allclose(own.estimate, built_in.estimate, atol=1e-4)
        assert np.allclose(own.distance, built_in.distance, atol=1e-6)
    else:
        assert np.allclose(own.estimate, built_in.estimate, atol=1e-8)
        assert np.allclose(own.draws, built_in.draws, atol=1e-8)
    assert str(own.summary()).count("shape:Intercept") == 1


def test_a_bounded_law_and_a_start():
    law = CustomFamily(
        log_pmf=lambda y, a: np.where(y == 0, np.log1p(-a), np.log(a / 2)),
        score=lambda y, a: [np.where(y == 0, -1 / (1 - a), 1 / a)],
        curvature=lambda y, a: [[np.where(y == 0, -1 / (1 - a) ** 2, -1 / a**2)]],
        support=(0, 2),
        parameters={"a": "logit"},
        start={"a": 0.3},
    )
    cells = Cells.from_counts(np.ones((3, 1)), [0, 1, 2], [60, 20, 20])
    fit = tb.posterior_bootstrap(Model(law), cells, n_draws=0)
    assert abs(1 / (1 + np.exp(-fit.minimiser[0])) - 0.4) < 1e-6
    assert not law.possible(np.array([3.0]), np.ones(1))[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_pmf": lambda y, rate: -2 - y - rate}, "add up to 1"),
        ({"log_pmf": lambda y, rate: np.sum(y * rate)}, "one value for each element"),
        ({"log_pmf": lambda y, rate: np.log(rate * 0 - 1 - y)}, "logarithm of a probability"),
        ({"log_pmf": lambda y, rate: y + rate}, "logarithm of a probability"),
        ({"support": (1, None)}, "add up to 1"),
        ({"support": (0, 0)}, "two whole numbers"),
        ({"support": 3}, "smallest, largest"),
        ({"parameters": {"rate": "square"}}, "scales are"),
        ({"parameters": {}}, "must name each parameter"),
        ({"start": {"rat": 1.0}}, "not parameters"),
        ({"start": {"rate": -1.0}}, "inside its scale"),
        ({"score": lambda y, rate: [y - rate]}, "derivatives in the parameters"),
        ({"curvature": lambda y, rate: [[-y * rate]]}, "curvature does not agree"),
        ({"score": None}, "or neither"),
        ({"score": lambda y, rate: [y / rate - 1, rate]}, "1 part"),
        ({"log_pmf": lambda y: y}, "TypeError"),
        ({"log_pmf": lambda y, rate: {}[y.size, rate.size]}, "KeyError"),
        ({"log_pmf": lambda y, rate: np.full((y * rate).shape, "a")}, "must return numbers"),
        ({"start": {"rate": "a"}}, "must give a number"),
        ({"support": (0, 10**10)}, "outcomes"),
    ],
)
def test_mistakes_are_found_and_named(options, words):
    with np.errstate(all="ignore"), pytest.raises(tb.TVDBayesError, match=words):
        poisson_by_hand(**options)


def test_numpy_instead_of_jax_numpy_is_named():
    pytest.importorskip("jax")
    with pytest.raises(tb.FamilyError, match=r"written with jax.numpy"):
        poisson_by_hand(score=None, curvature=None)


def test_derivatives_that_are_not_finite_are_named():
    jnp = pytest.importorskip("jax.numpy")

    def log_pmf(y, scale, shape):
        return jnp.log(jnp.exp(-((y / scale) ** shape)) - jnp.exp(-(((y + 1) / scale) ** shape)))

    with pytest.raises(tb.FamilyError, match="logarithms of 0"):
        CustomFamily(log_pmf, (0, None), {"scale": "log", "shape": "log"})


def test_without_jax_it_says_what_to_install(monkeypatch):
    import builtins

    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.split(".")[0] == "jax":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tb.SettingsError, match=r"pip install 'tvdbayes\[jax\]'"):
        poisson_by_hand(score=None, curvature=None)
