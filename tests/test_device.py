"""The same objective and solvers on arrays of JAX: on the CPU here, on a GPU where there is one."""

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import SettingsError
from tvdbayes._array import Device, Ones, Segments, compiled, in_parts, known, on_device, to_host
from tvdbayes.models.families import ALL_FAMILIES, BetaBinomial, Cloglog, Probit

jax = pytest.importorskip("jax")

CPU = Device("cpu")
# Compiling the beta-binomial takes a minute for each link; the binomial has all three.
ON_DEVICE = [
    family
    for family in ALL_FAMILIES
    if family.on_device and family not in (BetaBinomial(Probit()), BetaBinomial(Cloglog()))
]


def outcomes(family):
    """Some outcomes that the family can make, (n, 1), and their trials."""
    trials = np.full((4, 1), 6.0)
    y = np.array([[0.0], [1.0], [2.0], [1.0]])
    return np.where(family.possible(y, trials), y, 1.0), trials


@pytest.mark.parametrize("family", ON_DEVICE, ids=repr)
def test_formulas_give_the_same_numbers_on_either_library(family):
    y, trials = outcomes(family)
    eta = np.random.default_rng(0).normal(size=(len(family.predictors), 4, 3))
    with CPU.here():
        there = [CPU.put(part) for part in (y, eta, trials)]
        for law in (family.log_jet, family.slopes, family.jet):
            found = compiled(law)(*there)
            for one, two in zip(law(y, eta, trials), found, strict=True):
                # Second derivatives of a hurdle are differences of large numbers.
                np.testing.assert_allclose(to_host(two), one, rtol=1e-9, atol=1e-9)


def test_sums_are_the_same_on_either_library():
    rng = np.random.default_rng(1)
    place = np.repeat(np.arange(5), 3)
    entry = np.concatenate([rng.choice(7, 3, replace=False) for _ in range(5)])
    values = rng.normal(size=(7, 4))
    pieces = Segments(np.array([0, 0, 1, 3, 3, 3, 4]), 5)
    for ones in (Ones.at(place, entry, (5, 7)), Ones.at(entry, place, (7, 5)).T):
        with CPU.here():
            assert on_device(CPU.put(values))
            np.testing.assert_allclose(to_host(ones @ CPU.put(values)), ones @ values)
            total = to_host(pieces.total(CPU.put(values)))
            spread = to_host(pieces.spread(CPU.put(values[:5])))
    np.testing.assert_allclose(total, pieces.total(values))
    np.testing.assert_array_equal(spread, pieces.spread(values[:5]))


def test_a_transposed_view_arrives_as_it_is():
    values = np.arange(12.0).reshape(3, 4)
    with CPU.here():
        np.testing.assert_array_equal(to_host(CPU.put(values.T)), values.T)
        np.testing.assert_array_equal(to_host(CPU.put(values)), values)


def test_nothing_is_known_while_a_function_is_compiled():
    seen = []
    compiled_law = jax.jit(lambda x: seen.append(known(x.max() > 0, False)) or x)
    compiled_law(np.ones(2))
    assert seen == [False]
    assert known(np.ones(2).max() > 0, False)


def test_helpers_keep_the_order_of_the_parts():
    with CPU.here():
        assert in_parts(lambda part: part * part, range(20)) == [i * i for i in range(20)]


def continuous(n=150):
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = rng.binomial(1, 1 / (1 + np.exp(-x @ [0.3, 0.8, -0.5])))
    return tb.Model(tb.Bernoulli()), tb.Cells.from_rows(x, y)


def discrete(n=300):
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(n), rng.integers(0, 2, n)])
    y = rng.poisson(np.exp(x @ [0.4, 0.5]))
    y[:20] += 15
    return tb.Model(tb.Poisson()), tb.Cells.from_rows(x, y)


@pytest.mark.filterwarnings("ignore::tvdbayes.TVDBayesWarning")
@pytest.mark.parametrize(
    ("data", "divergence"),
    [(continuous, tb.TVD()), (discrete, tb.TVD()), (discrete, tb.DensityPower())],
)
def test_draws_on_a_device_are_the_draws(data, divergence):
    model, cells = data()
    here = tb.posterior_bootstrap(model, cells, n_draws=6, divergence=divergence)
    there = tb.posterior_bootstrap(model, cells, n_draws=6, divergence=divergence, device="cpu")
    np.testing.assert_allclose(there.distance, here.distance, atol=1e-9)
    np.testing.assert_allclose(there.draws, here.draws, atol=1e-6)
    np.testing.assert_allclose(there.kld_draws, here.kld_draws, atol=1e-9)
    assert np.array_equal(there.status, here.status)


def test_the_precision_of_jax_is_left_as_it_was():
    before = jax.config.jax_enable_x64
    with CPU.here():
        assert jax.numpy.ones(1).dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    with Device("cpu", "float32").here():
        assert jax.numpy.ones(1).dtype == np.float32


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("abacus", "There is no device 'abacus'"),
        ("cpu:float16", "precision is"),
        (3, "must be a name"),
    ],
)
def test_a_device_that_cannot_be_used_is_refused(device, said):
    model, cells = discrete(40)
    with pytest.raises(SettingsError, match=said):
        tb.posterior_bootstrap(model, cells, n_draws=2, device=device)


def test_processes_and_families_that_a_device_cannot_use_are_refused():
    model, cells = discrete(40)
    with pytest.raises(SettingsError, match="leave n_jobs at 1"):
        tb.posterior_bootstrap(model, cells, n_draws=2, device="cpu", n_jobs=2)
    censored = tb.Model(tb.Censored(tb.Poisson(), 30))
    with pytest.raises(SettingsError, match="NumPy only"):
        tb.posterior_bootstrap(censored, cells, n_draws=2, device="cpu")


def test_without_jax_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(SettingsError, match=r"tvdbayes\[jax\]"):
        Device.named("gpu")
