import numpy as np
import pytest
from scipy import stats

from tvdbayes import FamilyError
from tvdbayes.models.families import (
    ALL_FAMILIES,
    ALL_LINKS,
    AbstractFamily,
    AbstractLink,
    Bernoulli,
    BetaBinomial,
    Binomial,
    Cloglog,
    CustomFamily,
    Geometric,
    Logit,
    NegativeBinomial,
    Poisson,
    Probit,
    ZeroInflated,
    ZeroTruncated,
    once_per_outcome,
)

families = pytest.mark.parametrize("family", ALL_FAMILIES, ids=repr)
TRIALS = 7.0


def support(family):
    """All outcomes that matter at the predictors used here."""
    y = np.arange(4000.0)
    return y[family.possible(y, np.full_like(y, TRIALS))]


def predictors(family):
    """Main predictors from -2 to 2; further ones (tails!) vary less, in another order."""
    eta = np.tile(np.linspace(-2, 2, 9), (len(family.predictors), 1))[:, None, :]
    eta[family.n_main :] = 0.3 * eta[family.n_main :, :, ::-1]
    return eta


def leaves(kind):
    """The classes of this kind that can be made."""
    found = {c for c in kind.__subclasses__() if not c.__name__.startswith(("_", "Abstract"))}
    inner = (leaves(c) for c in kind.__subclasses__())
    return {c for c in found.union(*inner) if c.__module__.startswith("tvdbayes")}


def test_every_family_and_link_is_in_the_law_tests():
    # A law of the user's own has its tests in test_custom.
    assert {type(f) for f in ALL_FAMILIES} == leaves(AbstractFamily) - {CustomFamily}
    assert {type(link) for link in ALL_LINKS} == leaves(AbstractLink)


@families
def test_pmf_sums_to_one(family):
    y = support(family)[:, None]
    total = family.pmf(y, predictors(family), np.array(TRIALS)).sum(0)
    assert np.allclose(total, 1, atol=1e-12)


@families
def test_score_and_curvature_equal_finite_differences(family):
    y, eta, trials, h = support(family)[:12, None], predictors(family), np.array(TRIALS), 1e-5
    for k in range(len(family.predictors)):
        step = np.zeros((len(family.predictors), 1, 1))
        step[k] = h
        up, down = (family.log_pmf(y, eta + s * step, trials) for s in (1, -1))
        slope = (up - down) / (2 * h)
        assert np.allclose(family.score(y, eta, trials)[k], slope, atol=1e-7, rtol=1e-7)
        up, down = (family.score(y, eta + s * step, trials) for s in (1, -1))
        slope = (up - down) / (2 * h)
        assert np.allclose(family.curvature(y, eta, trials)[:, k], slope, atol=1e-6, rtol=1e-7)


@families
def test_jet_is_the_pmf_with_its_derivatives(family):
    y, eta, trials = support(family)[:12, None], predictors(family), np.array(TRIALS)
    pmf, first, second = family.jet(y, eta, trials)
    score = family.score(y, eta, trials)
    assert np.allclose(pmf, family.pmf(y, eta, trials), rtol=1e-12)
    assert np.allclose(first, pmf * score, atol=1e-13)
    expected = pmf * (score[:, None] * score + family.curvature(y, eta, trials))
    assert np.allclose(second, expected, atol=1e-12)
    value, slopes = family.slopes(y, eta, trials)
    assert np.allclose(value, pmf, atol=1e-13)
    assert np.allclose(slopes, first, atol=1e-12)


@families
def test_power_sum_is_the_sum_over_the_support(family):
    y, eta, trials, h = support(family)[:, None], predictors(family)[:, 0], np.array([TRIALS]), 1e-5
    for power in (1.0, 1.5, 2.0):
        total, first, second = family.power_sum(eta, power, trials)
        dense = (family.pmf(y, eta[:, None], trials) ** power).sum(0)
        assert np.allclose(total, dense, rtol=1e-12)
        for k in range(len(eta)):
            step = np.zeros((len(eta), 1))
            step[k] = h
            (up, up1, _), (down, down1, _) = (
                family.power_sum(eta + s * step, power, trials) for s in (1, -1)
            )
            assert np.allclose(first[k], (up - down) / (2 * h), atol=1e-8)
            assert np.allclose(second[:, k], (up1 - down1) / (2 * h), atol=1e-8)


TABULATED = [Poisson(), Geometric(), ZeroTruncated(Poisson()), ZeroTruncated(Geometric())]


@pytest.mark.parametrize("family", TABULATED)
@pytest.mark.parametrize("power", [1.1, 1.5, 2.0])
def test_sums_from_the_table_are_those_of_the_support(family, power):
    eta = np.random.default_rng(0).uniform(-32, 12, (1, 4, 500))
    plain = AbstractFamily.power_sum(family, eta, power, np.ones((4, 500)))
    found = family.power_sum(eta, power, np.ones((4, 500)))
    for one, other, accuracy in zip(found, plain, (1e-12, 1e-9, 1e-7), strict=True):
        assert one.shape == other.shape
        assert (np.abs(one - other) <= accuracy * plain[0]).all()


@pytest.mark.parametrize("family", TABULATED)
def test_sums_from_the_table_are_right_at_its_points_and_ends(family):
    """Families and powers have tables of their own."""
    ends = np.array([-30.0, np.nextafter(-30, 0), np.nextafter(10, 0), 10.0])
    eta = np.r_[ends, np.arange(-3, 4) / 64, 0.5 / 64][None]
    for power in (1.25, 1.75):
        plain = AbstractFamily.power_sum(family, eta, power, np.ones(12))
        for part in (slice(None), slice(0, 1), slice(1, 2), slice(4, 5)):
            found = family.power_sum(eta[:, part], power, np.ones(12)[part])
            for one, other in zip(found, plain, strict=True):
                np.testing.assert_allclose(one, other[..., part], rtol=1e-7, atol=1e-10)


def test_power_sum_of_large_rates_matches_the_bessel_form():
    # For power 2 the sum is exp(-2 rate) I0(2 rate).
    from scipy.special import ive

    rate = np.array([3.0, 50.0, 1e3, 1e5, 1e7])
    total = Poisson().power_sum(np.log(rate)[None], 2.0, np.ones(5))[0]
    # Above 1e5 the pmf itself has fewer digits: it is a difference of numbers of the rate's size.
    assert np.allclose(total, ive(0, 2 * rate), rtol=1e-8)


@families
def test_sampler_follows_the_pmf(family):
    rng = np.random.default_rng(7)
    eta = np.full((len(family.predictors), 20_000), 0.4)
    trials = np.full(20_000, TRIALS)
    drawn = family.sample(rng, eta, trials)
    y = support(family)
    expected = family.pmf(y, np.full((len(family.predictors), y.size), 0.4), np.array(TRIALS))
    often = expected * drawn.size > 10
    common = y[often]
    seen = np.array([(drawn == v).sum() for v in common] + [(~np.isin(drawn, common)).sum()])
    wanted = drawn.size * np.append(expected[often], 1 - expected[often].sum())
    # The last bin, all rare outcomes, is dropped where there are none to speak of.
    used = wanted > 1
    chi2 = ((seen - wanted)[used] ** 2 / wanted[used]).sum()
    assert seen[~used].sum() < 10
    assert chi2 < stats.chi2.ppf(0.9999, used.sum() - 1)


@families
def test_mean_is_the_mean_of_the_pmf(family):
    y, eta, trials = support(family)[:, None], predictors(family), np.array(TRIALS)
    dense = (y * family.pmf(y, eta, trials)).sum(0)
    assert np.allclose(family.mean(eta, trials)[0], dense, rtol=1e-10)


@families
def test_saturated_predictor_makes_the_outcome_likely(family):
    """Likelier than under the start of any outcome a few away."""
    y = support(family)[:6]
    trials = np.full_like(y, TRIALS)
    eta = family.saturated(y, trials)
    assert eta.shape == (len(family.predictors), y.size)
    assert np.isfinite(eta).all()
    own = family.pmf(y, eta, trials)
    for i, outcome in enumerate(y):
        elsewhere = family.pmf(np.full_like(y, outcome), eta, trials)
        assert (own[i] > elsewhere[np.abs(y - outcome) >= 3]).all()


@pytest.mark.parametrize(
    ("link", "cdf"),
    [
        (Logit(), stats.logistic.cdf),
        (Probit(), stats.norm.cdf),
        (Cloglog(), lambda t: -np.expm1(-np.exp(t))),
    ],
    ids=["logit", "probit", "cloglog"],
)
def test_links_keep_their_digits_in_both_tails(link, cdf):
    eta = np.array([-30.0, -8.0, -1.0, 0.0, 1.0, 3.0])
    (log_prob, *_), (log_rest, *_) = link.log_tails(eta)
    assert np.allclose(np.exp(log_prob), cdf(eta), rtol=1e-12)
    assert np.allclose(np.exp(log_prob) + np.exp(log_rest), 1, atol=1e-14)
    assert np.allclose(link.tail(np.array(True), eta)[0], cdf(eta), rtol=1e-12)
    inner = eta[2:]
    assert np.allclose(link.link(cdf(inner)), inner, atol=1e-9)
    for extreme in (-1e4, 1e4):
        tails = link.log_tails(np.array([extreme]))
        assert np.isfinite(tails).all()


def test_poisson_and_binomial_agree_with_scipy(rng):
    eta = rng.normal(size=(1, 50))
    y = rng.integers(0, 8, 50).astype(float)
    ones = np.ones(50)
    expected = stats.poisson.pmf(y, np.exp(eta[0]))
    assert np.allclose(Poisson().pmf(y, eta, ones), expected, rtol=1e-12)
    trials = y + rng.integers(1, 5, 50)
    expected = stats.binom.pmf(y, trials, 1 / (1 + np.exp(-eta[0])))
    assert np.allclose(Binomial().pmf(y, eta, trials), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("name", "y", "trials", "words"),
    [
        ("poisson", [0, 2, -1], [1, 1, 1], ["at least 0", "1 of 3 is not", "-1.0 in row 2"]),
        ("poisson", [0.5, 1, 1.5], [1, 1, 1], ["whole", "2 of 3 are not", "0.5 in row 0"]),
        ("bernoulli", [0, 1, 2], [1, 1, 1], ["0 or 1", "2.0 in row 2"]),
        ("binomial", [3, 9], [8, 8], ["between 0 and their trials", "9.0 in row 1"]),
        ("binomial", [0, 0], [8, 0], ["at least 1", "0.0 in row 1"]),
        ("binomial", [0, 1], [8, 1.5], ["whole", "1.5 in row 1"]),
    ],
)
def test_impossible_outcomes_are_named(name, y, trials, words):
    family = next(f for f in ALL_FAMILIES if f.name == name)
    with pytest.raises(FamilyError) as error:
        family.check_outcomes(np.array(y, float), np.array(trials, float))
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("count", [20.0, 1e3, 1e6, 1e9])
def test_large_counts_keep_their_digits(count):
    """Against exact arithmetic at 60 digits."""
    import mpmath

    mpmath.mp.dps = 60
    for shift in (-2, 0, 3):
        rate = count + shift * np.sqrt(count)
        eta = np.log(rate)
        y, ones = np.array([count]), np.ones(1)
        exact_rate = mpmath.exp(mpmath.mpf(float(eta)))
        exact = mpmath.exp(
            mpmath.mpf(count) * mpmath.log(exact_rate) - exact_rate - mpmath.loggamma(count + 1)
        )
        found = Poisson().pmf(y, np.array([[eta]]), ones)[0]
        assert abs(found / float(exact) - 1) < 1e-9
        trials = np.array([3 * count])
        logit = float(np.log(rate / (3 * count - rate)))
        prob = 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))
        exact = mpmath.exp(
            mpmath.loggamma(3 * count + 1)
            - mpmath.loggamma(count + 1)
            - mpmath.loggamma(2 * count + 1)
            + mpmath.mpf(count) * mpmath.log(prob)
            + mpmath.mpf(2 * count) * mpmath.log(1 - prob)
        )
        found = Binomial().pmf(y, np.array([[logit]]), trials)[0]
        assert abs(found / float(exact) - 1) < 1e-9


@families
def test_extreme_predictors_give_finite_derivatives(family):
    trials = np.array(1e5 if family.needs_trials else 1.0)
    for eta in (-1e4, -700.0, -40.0, 40.0, 700.0, 1e4):
        for y in (y for y in (0.0, 1.0) if family.possible(np.array(y), trials)):
            predictor = np.full((len(family.predictors), 1), eta)
            for part in family.jet(np.array([y]), predictor, trials):
                assert np.isfinite(part).all(), (eta, y)


def test_probit_curvature_tends_to_minus_one_in_its_tail():
    second = Probit().log_tails(np.array([-10.0, -49.0, -51.0, -1e4, -1e6]))[0][2]
    assert np.all(np.diff(second) <= 1e-9)
    assert np.allclose(second[1:], -1, atol=1e-3)


def test_laws_that_are_nearly_one_point_are_seen_on_both_sides():
    one = np.ones(1)
    for eta, certain in ((-30.0, True), (-2.0, False), (2.0, False), (30.0, True)):
        at = np.array([[eta]])
        assert Bernoulli().degenerate(at, one)[0] == certain
        assert Binomial().degenerate(at, 5 * one)[0] == certain
    # A rare success is no rarity in many trials.
    rare = np.array([[-16.0]])
    assert Binomial().degenerate(rare, one)[0]
    assert not Binomial().degenerate(rare, 1e4 * one)[0]


@pytest.mark.parametrize(
    "family", [f for f in ALL_FAMILIES if f.canonical], ids=lambda family: family.name
)
def test_a_canonical_law_is_given_by_its_cumulant(family):
    rng = np.random.default_rng(0)
    trials = np.full((40, 1), 9.0 if family.needs_trials else 1.0)
    eta = rng.normal(size=(1, 40, 3))
    y = family.sample(rng, eta[..., :1], trials)
    value, mean, variance = family.cumulant(eta, trials)
    log_pmf, score, curvature = family.log_jet(y, eta, trials)
    constant = log_pmf - (y * eta[0] - value)
    np.testing.assert_allclose(
        constant, np.broadcast_to(constant[:, :1], constant.shape), atol=1e-12
    )
    np.testing.assert_allclose(score[0], y - mean, atol=1e-12)
    np.testing.assert_allclose(
        curvature[0, 0], np.broadcast_to(-variance, log_pmf.shape), atol=1e-12
    )


@pytest.mark.parametrize(
    "family",
    [NegativeBinomial(), BetaBinomial(), ZeroInflated(NegativeBinomial())],
    ids=["negativebinomial", "betabinomial", "zero_inflated"],
)
@pytest.mark.parametrize("dispersion", [0.5, 1e-9])
def test_tables_of_outcomes_change_no_bit(family, dispersion, rng):
    """A part of the outcomes, with and without tables of all of them."""
    y = rng.integers(0, 8, (60, 1)).astype(float)
    trials = np.full((60, 1), 9.0)
    k = len(family.predictors)
    eta = rng.normal(size=(k, 60, 5))
    eta[1] = np.log(dispersion) + 0.1 * rng.normal(size=5)
    for law in (family.slopes, family.jet, family.log_jet):
        alone = law(y[:30], eta[:, :30], trials[:30])
        with once_per_outcome(np.unique(y)):
            tabled = [
                law(y[part], eta[:, part], trials[part]) for part in (slice(30), slice(30, 60))
            ]
        for one, other in zip(alone, tabled[0], strict=True):
            assert np.array_equal(one, other)


def test_tables_of_outcomes_are_not_used_for_others(rng):
    eta = rng.normal(size=(2, 4, 3))
    eta[1] = eta[1, :1]
    y, trials = np.array([[0.0], [3.0], [5.0], [9.0]]), np.ones((4, 1))
    wanted = NegativeBinomial().log_jet(y, eta, trials)
    with once_per_outcome(np.array([0.0, 3.0, 5.0])):
        found = NegativeBinomial().log_jet(y, eta, trials)
    assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True))
