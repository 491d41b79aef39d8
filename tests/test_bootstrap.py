import warnings

import numpy as np
import pytest

import tvdbayes as tb
from tvdbayes import KLD, TVD, Bernoulli, Binomial, Cells, DensityPower, Hellinger, Model, Poisson
from tvdbayes.sampling.plan import AUTO_RIDGE
from tvdbayes.sampling.statements import rows_used
from tvdbayes.sampling.weights import block_size
from tvdbayes.solvers import Status


def bits(posterior):
    return [posterior.draws.tobytes(), posterior.kld_draws.tobytes(), posterior.distance.tobytes()]


def many_cells(rng, n=6000):
    """A table so wide that 200 draws take several blocks."""
    x = np.column_stack([np.ones(n), rng.integers(0, 40, n) / 20, rng.integers(0, 10, n) / 10])
    return Cells.from_rows(x, rng.poisson(np.exp(x @ [1, 0.3, -0.4])))


def test_same_seed_same_bits_and_first_draws_are_prefixes(count_cells):
    fits = [
        tb.posterior_bootstrap(Model(Poisson()), count_cells, n_draws=n, seed=3)
        for n in (50, 50, 130)
    ]
    assert bits(fits[0]) == bits(fits[1])
    assert np.array_equal(fits[0].draws, fits[2].draws[:50])
    other = tb.posterior_bootstrap(Model(Poisson()), count_cells, n_draws=50, seed=4)
    assert not np.array_equal(fits[0].draws, other.draws)


@pytest.mark.slow
def test_workers_and_memory_do_not_change_a_bit(rng):
    cells, model = many_cells(rng), Model(Poisson())
    assert block_size(cells.n_cells) < 136
    alone = tb.posterior_bootstrap(model, cells, n_draws=136)
    spread = tb.posterior_bootstrap(model, cells, n_draws=136, n_jobs=2)
    tight = tb.posterior_bootstrap(model, cells, n_draws=136, n_jobs=2, memory_budget=1 << 28)
    assert bits(alone) == bits(spread) == bits(tight)


def test_row_order_and_weights_do_not_change_a_bit(rng):
    n = 200
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n)])
    y, weights, order = rng.poisson(2, n), rng.integers(0, 3, n), rng.permutation(n)
    tables = [
        Cells.from_rows(x, y, weights=weights),
        Cells.from_rows(x[order], y[order], weights=weights[order]),
        Cells.from_rows(np.repeat(x, weights, axis=0), np.repeat(y, weights)),
    ]
    first, *others = (tb.posterior_bootstrap(Model(Poisson()), c, n_draws=40) for c in tables)
    assert all(bits(first) == bits(other) for other in others)


def test_too_little_memory_is_refused_with_the_number(rng):
    with pytest.raises(tb.MemoryBudgetError, match="MiB"):
        tb.posterior_bootstrap(Model(Poisson()), many_cells(rng), memory_budget=1 << 20)


@pytest.mark.parametrize("refine", ["auto", None])
def test_draws_resist_outliers_and_the_twin_does_not(rng, refine):
    y = rng.poisson(3, 500)
    y[:50] += 15
    cells = Cells.from_rows(np.ones((500, 1)), y)
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, refine=refine)
    low, high = np.quantile(np.exp(fit.draws[:, 0]), [0.05, 0.95])
    assert low < y[50:].mean() < high
    assert np.exp(fit.kld_draws[:, 0]).min() > 3.5
    assert 0.08 < fit.distance.mean() < 0.2


def test_the_twin_is_weighted_maximum_likelihood(rng):
    """Without covariates the weighted mean is the maximum, so the draws are known exactly."""
    cells = Cells.from_rows(np.ones((80, 1)), rng.poisson(2, 80))
    fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=30, seed=11, refine=None)
    from tvdbayes.sampling.weights import Stream, block_size, reweight

    p = reweight(cells, Stream.draws(11), block_size(cells.n_cells)).p
    assert np.allclose(np.exp(fit.kld_draws[:, 0]), cells.y @ p[:, :30], rtol=1e-7)
    assert np.isclose(np.exp(fit.kld_minimiser[0]), cells.y @ cells.p, rtol=1e-9)


@pytest.mark.parametrize("divergence", [TVD(), KLD(), Hellinger(), DensityPower()], ids=repr)
def test_every_divergence_recovers_clean_data(divergence, rng):
    n = 4000
    x = np.column_stack([np.ones(n), rng.integers(0, 3, n)])
    y = rng.binomial(6, 1 / (1 + np.exp(-(x @ [-0.6, 0.5]))))
    cells = Cells.from_rows(x, y, trials=np.full(n, 6))
    fit = tb.posterior_bootstrap(Model(Binomial()), cells, divergence=divergence, n_draws=100)
    assert np.allclose(fit.estimate, [-0.6, 0.5], atol=0.1)
    assert (fit.status == Status.CONVERGED).all()


def test_kld_as_divergence_is_its_own_twin(count_cells):
    fit = tb.posterior_bootstrap(Model(Poisson()), count_cells, divergence=KLD(), n_draws=20)
    assert np.array_equal(fit.draws, fit.kld_draws)


def test_no_draws_give_the_point_fit_alone(count_cells):
    fit = tb.posterior_bootstrap(Model(Poisson()), count_cells, n_draws=0)
    assert fit.draws.shape == (0, 3)
    assert np.array_equal(fit.estimate, fit.minimiser)
    with pytest.raises(tb.SettingsError, match="2 draws"):
        fit.summary()


def test_separation_is_bounded_flagged_and_penalised():
    cells = Cells.from_counts(
        [[1, 0], [1, 0], [1, 1]], [0, 1, 1], [20, 20, 40], names=("Intercept", "x")
    )
    with pytest.warns(tb.SeparationWarning) as caught:
        fit = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=50, refine=None)
    assert any("ridge of 0.0001" in str(w.message) for w in caught)
    assert any("likelihood (KLD)" in str(w.message) for w in caught)
    assert fit.ridge == AUTO_RIDGE
    assert np.isfinite(fit.draws).all()
    assert fit.draws[:, 1].min() > 1
    assert (fit.kld_status == Status.SEPARATED).all()
    with pytest.warns(tb.SeparationWarning):
        bare = tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=50, ridge=0.0, refine=None)
    assert (bare.status == Status.SEPARATED).all()
    assert np.abs(bare.draws).max() < 1e4


def test_all_zero_counts_end_at_the_lower_bound_with_a_warning():
    cells = Cells.from_rows(np.ones((40, 1)), np.zeros(40))
    with pytest.warns(tb.SeparationWarning, match="rate"):
        fit = tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=20)
    assert np.isfinite(fit.draws).all()
    assert np.exp(fit.draws).max() < 1e-3
    assert (fit.status == Status.SEPARATED).all()


def test_clean_data_are_not_called_separated(rng):
    x = np.column_stack([np.ones(600), rng.integers(-3, 4, 600)])
    y = rng.random(600) < 1 / (1 + np.exp(-3 * x[:, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tb.SeparationWarning)
        fit = tb.posterior_bootstrap(
            Model(Bernoulli()), Cells.from_rows(x, y), n_draws=60, refine=None
        )
    assert fit.ridge == 0


def test_a_gross_count_of_a_billion_is_harmless(rng):
    y = np.append(rng.poisson(3, 300), [10**9, 3 * 10**8]).astype(float)
    fit = tb.posterior_bootstrap(Model(Poisson()), Cells.from_rows(np.ones((302, 1)), y))
    assert abs(np.exp(fit.estimate[0]) - 3) < 0.4


def test_units_of_x_do_not_matter(rng):
    n = 300
    level = rng.integers(0, 3, n).astype(float)
    y = rng.poisson(np.exp(0.5 + 0.4 * level))
    fits = [
        tb.posterior_bootstrap(
            Model(Poisson()),
            Cells.from_rows(np.column_stack([np.ones(n), scale * level + shift]), y),
            n_draws=60,
        )
        for scale, shift in ((1, 0), (1e12, 0), (1e-9, 0.5))
    ]
    slopes = [fit.draws[:, 1] * scale for fit, scale in zip(fits, (1, 1e12, 1e-9), strict=True)]
    assert np.allclose(slopes[0], slopes[1], atol=1e-6)
    assert np.allclose(slopes[0], slopes[2], atol=1e-5)


def test_a_prior_table_pulls_and_a_heavy_one_decides(rng):
    y = rng.poisson(3, 100)
    cells = Cells.from_rows(np.ones((100, 1)), y)
    base = Cells.from_rows(np.ones((2000, 1)), rng.poisson(8, 2000))
    rates = [
        np.exp(
            tb.posterior_bootstrap(
                Model(Poisson()),
                cells,
                n_draws=100,
                prior=None if alpha == 0 else tb.Prior(alpha, base),
            ).kld_draws
        ).mean()
        for alpha in (0, 50, 10_000)
    ]
    assert rates[0] < rates[1] < rates[2]
    assert abs(rates[2] - 8) < 0.3


def test_a_prior_function_gives_what_its_table_gives(rng):
    """The same base measure as a function with many atoms and as a table: the same posterior."""
    cells = Cells.from_rows(np.ones((60, 1)), rng.poisson(3, 60))
    support = np.arange(3.0)
    table = Cells.from_counts(np.ones((3, 1)), support, np.ones(3))

    def function(rng, size):
        return np.ones((size, 1)), rng.integers(0, 3, size).astype(float)

    exact, drawn = (
        tb.posterior_bootstrap(
            Model(Poisson()), cells, n_draws=1000, prior=tb.Prior(40.0, base, n_atoms=400)
        )
        for base in (table, function)
    )
    gap = exact.kld_draws.mean() - drawn.kld_draws.mean()
    error = np.sqrt((exact.kld_draws.var() + drawn.kld_draws.var()) / 1000)
    assert abs(gap) < 4 * error
    assert np.isclose(exact.kld_draws.std(), drawn.kld_draws.std(), rtol=0.15)


def test_progress_is_reported(count_cells):
    seen = []
    tb.posterior_bootstrap(
        Model(Poisson()), count_cells, n_draws=70, progress=lambda *args: seen.append(args)
    )
    assert seen[-1] == (70, 70)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_draws": -1}, "n_draws.*-1"),
        ({"n_draws": 2.5}, "n_draws.*2.5"),
        ({"seed": -3}, "seed.*-3"),
        ({"seed": None}, "seed.*None"),
        ({"ridge": -0.1}, "ridge.*-0.1"),
        ({"ridge": "strong"}, "ridge.*strong"),
        ({"n_jobs": 0}, "n_jobs.*0"),
    ],
)
def test_settings_out_of_range_are_named(options, words, count_cells):
    with pytest.raises(tb.SettingsError, match=words):
        tb.posterior_bootstrap(Model(Poisson()), count_cells, **options)


def test_impossible_outcomes_are_refused_before_any_work():
    cells = Cells.from_rows(np.ones((3, 1)), [0, 1, 2])
    with pytest.raises(tb.FamilyError, match="cell 2"):
        tb.posterior_bootstrap(Model(Bernoulli()), cells)


def test_summary_sets_robust_beside_ordinary(count_cells):
    fit = tb.posterior_bootstrap(Model(Poisson()), count_cells, n_draws=200)
    table = fit.summary(0.8)
    low, high = np.quantile(fit.draws, [0.1, 0.9], axis=0)
    assert np.allclose(table["low"], low)
    assert np.allclose(table["high"], high)
    assert np.allclose(table["diff"], (fit.draws - fit.kld_draws).mean(0))
    assert "kld_mean" in str(table)
    _, _, *lines, note = str(table).splitlines()
    assert len(lines) == 4
    assert note == str(rows_used(fit))
    assert next(iter(table.to_dict())) == "parameter"
    with pytest.raises(tb.SettingsError, match="between 0 and 1"):
        fit.summary(90)


def test_a_prior_far_from_the_data_decides_when_heavy(rng):
    """Atoms that are drawn must be found by the search as surely as the data are."""
    cells = Cells.from_rows(np.ones((30, 1)), rng.poisson(3, 30))

    def base(rng, size):
        return np.ones((size, 1)), rng.poisson(1000, size).astype(float)

    fit = tb.posterior_bootstrap(
        Model(Poisson()), cells, n_draws=32, prior=tb.Prior(200.0, base), divergence=Hellinger()
    )
    assert np.abs(np.exp(fit.draws) - 1000).max() < 60
    assert abs(np.exp(fit.minimiser[0]) - 1000) < 60


@pytest.mark.parametrize("base", ["table", "function"])
def test_a_prior_outside_the_support_is_refused(base, rng):
    cells = Cells.from_rows(np.ones((30, 1)), rng.integers(0, 2, 30))
    table = Cells.from_counts([[1.0]], [2], [1])

    def function(_, size):
        return np.ones((size, 1)), np.full(size, 2.0)

    prior = tb.Prior(5.0, table if base == "table" else function)
    with pytest.raises(tb.FamilyError, match="0 or 1"):
        tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=5, prior=prior)


@pytest.mark.parametrize("rubbish", [None, np.ones(3), (1, 2, 3), ([[1.0], [2.0, 3.0]], [1])])
def test_a_base_measure_that_returns_rubbish_is_named(rubbish, rng):
    cells = Cells.from_rows(np.ones((30, 1)), rng.poisson(3, 30))
    prior = tb.Prior(5.0, lambda _rng, _size: rubbish)
    with pytest.raises(tb.DataError, match=r"base_measure\(rng, size\)"):
        tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=5, prior=prior)


def test_a_column_of_zeros_is_named():
    cells = Cells.from_rows(np.zeros((5, 1)), [0, 1, 2, 3, 1], names=("empty",))
    with pytest.raises(tb.DataError, match="'empty' is 0 in every row"):
        tb.posterior_bootstrap(Model(Poisson()), cells)


def test_blas_threads_do_not_change_a_bit(rng):
    from threadpoolctl import threadpool_limits

    cells = many_cells(rng, 3000)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(bits(tb.posterior_bootstrap(Model(Poisson()), cells, n_draws=20)))
    assert results[0] == results[1]


@pytest.mark.parametrize("size", [1e155, 1e-200])
def test_covariates_whose_squares_cannot_be_computed_are_refused(size):
    x = np.column_stack([np.ones(6), size * np.arange(6.0)])
    cells = Cells.from_rows(x, np.arange(6) % 2)
    with pytest.raises(tb.DataError, match="Use other units"):
        tb.posterior_bootstrap(Model(Bernoulli()), cells, n_draws=2)


@pytest.mark.parametrize("refine", ["trim", None])
def test_draws_without_overdispersion_are_said_to_lie_at_the_boundary(refine, rng):
    x = np.column_stack([np.ones(300), rng.normal(size=300)])
    y = rng.binomial(12, 1 / (1 + np.exp(2 - x[:, 1])))
    cells, model = tb.Cells.from_rows(x, y), tb.Model(tb.NegativeBinomial())
    with pytest.warns(tb.TVDBayesWarning):
        fit = tb.posterior_bootstrap(model, cells, n_draws=60, refine=refine)
    for draws, status in ((fit.draws, fit.status), (fit.kld_draws, fit.kld_status)):
        edge = draws[:, -1] < -12
        assert edge.mean() > 0.8
        np.testing.assert_array_equal(status == Status.BOUNDARY, edge)
        # How far out the others are says nothing of the rest: no draw is moved by that.
        assert draws[:, -1].max() < 0
        assert np.abs(draws[:, :-1] - draws[:, :-1].mean(0)).max() < 1
