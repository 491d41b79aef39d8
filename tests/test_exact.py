"""Every law against exact arithmetic at 60 digits, in extreme regions too."""

from functools import cache
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from tvdbayes.models.families import (
    Bernoulli,
    BetaBinomial,
    Binomial,
    Categorical,
    Censored,
    Cloglog,
    ComPoisson,
    DiscreteWeibull,
    GeneralizedPoisson,
    Geometric,
    Hurdle,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
    ZeroInflated,
    ZeroTruncated,
)

RATES = (1e-8, 0.3, 40.0, 1e4, 1e8, 1e9)
DISPERSIONS = (1e-8, 0.02, 1.0, 50.0)
SHARES = (1e-12, 1e-3, 0.4, 0.999, 1 - 1e-12)


def exp(value):
    return mp.exp(mp.mpf(float(value)))


def poisson(y, eta, _):
    rate = exp(eta[0])
    return y * mp.log(rate) - rate - mp.loggamma(y + 1)


def negbin(y, eta, _):
    mean, size = exp(eta[0]), exp(-eta[1])
    return (
        mp.loggamma(y + size)
        - mp.loggamma(size)
        - mp.loggamma(y + 1)
        + size * mp.log(size / (size + mean))
        + y * mp.log(mean / (size + mean))
    )


def geometric(y, eta, _):
    return negbin(y, [eta[0], 0.0], None)


def weibull(y, eta, _):
    scale, shape = exp(eta[0]), exp(eta[1])
    return mp.log(mp.exp(-((y / scale) ** shape)) - mp.exp(-(((y + 1) / scale) ** shape)))


def generalized_poisson(y, eta, _):
    mean, alpha = exp(eta[0]), exp(eta[1])
    total = mean + alpha * y
    return (
        mp.log(mean)
        + (y - 1) * mp.log(total)
        - y * mp.log(1 + alpha)
        - total / (1 + alpha)
        - mp.loggamma(y + 1)
    )


@cache
def com_total(log_centre, log_dispersion):
    """The sum over all counts, term by term, until terms are 1e-40 of the largest."""
    centre, power = exp(log_centre), exp(-log_dispersion)
    term, total, k = mp.mpf(1), mp.mpf(1), 0
    while k <= centre or term > total * mp.mpf(10) ** -40:
        k += 1
        term *= (centre / k) ** power
        total += term
    return mp.log(total)


def com_poisson(y, eta, _):
    term = y * mp.mpf(float(eta[0])) - mp.loggamma(y + 1)
    return term * exp(-eta[1]) - com_total(*map(float, eta))


CDF = {
    "logit": lambda t: 1 / (1 + mp.exp(-t)),
    "probit": mp.ncdf,
    "cloglog": lambda t: -mp.expm1(-mp.exp(t)),
}


def choose(n, y):
    return mp.loggamma(n + 1) - mp.loggamma(y + 1) - mp.loggamma(n - y + 1)


def binomial(link):
    def law(y, eta, n):
        t = mp.mpf(float(eta[0]))
        prob, rest = CDF[link.name](t), SURVIVAL[link.name](t)
        return choose(n, y) + y * mp.log(prob) + (n - y) * mp.log(rest)

    return law


def beta_binomial(y, eta, n):
    prob, size = CDF["logit"](mp.mpf(float(eta[0]))), exp(-eta[1])
    a, b = prob * size, (1 - prob) * size

    def log_beta(u, v):
        return mp.loggamma(u) + mp.loggamma(v) - mp.loggamma(u + v)

    return choose(n, y) + log_beta(y + a, n - y + b) - log_beta(a, b)


SURVIVAL = {
    "logit": lambda t: 1 / (1 + mp.exp(t)),
    "probit": lambda t: mp.ncdf(-t),
    "cloglog": lambda t: mp.exp(-mp.exp(t)),
}


def ordinal(link):
    @mp.workdps(500)
    def law(y, eta, _):
        at = [-mp.mpf(float(eta[0]))]
        for gap in eta[1:]:
            at.append(at[-1] + exp(gap))
        above = [mp.mpf(1), *(SURVIVAL[link.name](t) for t in at), mp.mpf(0)]
        return mp.log(above[int(y)] - above[int(y) + 1])

    return law


def inflated(base):
    def law(y, eta, n):
        zero = CDF["logit"](mp.mpf(float(eta[-1])))
        inside = (1 - zero) * mp.exp(base(y, eta[:-1], n))
        return mp.log(inside + (zero if y == 0 else 0))

    return law


def truncated(base):
    return lambda y, eta, n: base(y, eta, n) - mp.log(-mp.expm1(base(mp.mpf(0), eta, n)))


def hurdle(base):
    def law(y, eta, n):
        zero = CDF["logit"](mp.mpf(float(eta[-1])))
        return mp.log(zero) if y == 0 else mp.log(1 - zero) + truncated(base)(y, eta[:-1], n)

    return law


def censored_poisson(upper):
    def law(y, eta, n):
        if y < upper:
            return poisson(y, eta, n)
        return mp.log(mp.gammainc(upper, 0, exp(eta[0]), regularized=True))

    return law


def near(rate, spread):
    """Outcomes in the middle and in both tails, and the smallest ones."""
    around = [np.round(rate + z * spread) for z in (-3, 0, 4)]
    return sorted({0.0, 1.0, 3.0, *(float(y) for y in around if y >= 0)})


def count_cases():
    for rate in RATES:
        eta = np.log(rate)
        for y in near(rate, np.sqrt(rate)):
            yield Poisson(), poisson, y, [eta], 1
            yield Censored(Poisson(), 5), censored_poisson(5), min(y, 5.0), [eta], 1
            yield ZeroInflated(Poisson()), inflated(poisson), y, [eta, -0.4], 1
            if y > 0:
                yield ZeroTruncated(Poisson()), truncated(poisson), y, [eta], 1
                yield Hurdle(Poisson()), hurdle(poisson), y, [eta, 1.0], 1
        for y in near(rate, rate):
            yield Geometric(), geometric, y, [eta], 1
            yield ComPoisson(), poisson, y, [eta, 0.0], 1
            for shape in (0.3, 1.0, 2.5):
                yield DiscreteWeibull(), weibull, y, [eta, np.log(shape)], 1
        for dispersion in DISPERSIONS:
            for y in near(rate, np.sqrt(rate + dispersion * rate**2)):
                both = [eta, np.log(dispersion)]
                yield NegativeBinomial(), negbin, y, both, 1
                yield ZeroInflated(NegativeBinomial()), inflated(negbin), y, [*both, 1.0], 1
                if y > 0:
                    yield ZeroTruncated(NegativeBinomial()), truncated(negbin), y, both, 1

        for dispersion in DISPERSIONS:
            for y in near(rate, np.sqrt(rate) * (1 + dispersion)):
                both = [eta, np.log(dispersion)]
                yield GeneralizedPoisson(), generalized_poisson, y, both, 1
    for rate, dispersion in product((1e-8, 0.3, 40.0), (0.01, 0.3, 2.0, 30.0)):
        for y in near(rate, np.sqrt(dispersion * rate)):
            yield ComPoisson(), com_poisson, y, [np.log(rate), np.log(dispersion)], 1


def bounded_cases():
    for n in (1, 7, 300, 10**6, 10**9):
        for share in SHARES:
            eta = np.log(share) - np.log1p(-share)
            for y in near(n * share, np.sqrt(n * share * (1 - share))):
                if y > n:
                    continue
                yield Binomial(), binomial(Logit()), y, [eta], n
                for dispersion in DISPERSIONS:
                    yield BetaBinomial(), beta_binomial, y, [eta, np.log(dispersion)], n
    for eta in (-27.0, -6.0, 0.3, 3.0, 5.0):
        for link in (Logit(), Probit(), Cloglog()):
            for y in (0.0, 1.0):
                yield Bernoulli(link), binomial(link), y, [eta], 1
                yield Binomial(link), binomial(link), 40 * y + 3, [min(eta, 3.0)], 60
            for gaps in ([0.0, 0.0], [-14.0, 2.0], [1.5, -3.0]):
                for y in range(4):
                    yield Ordinal(("a", "b", "c", "d"), link), ordinal(link), y, [eta, *gaps], 1
    for eta in ([27.0, -5.0], [0.0, 1.0], [-27.0, -26.0]):
        for y in range(3):
            yield Categorical(("a", "b", "c")), softmax, y, eta, 1


def softmax(y, eta, _):
    terms = [mp.mpf(1), *(exp(e) for e in eta)]
    return mp.log(terms[int(y)] / sum(terms))


@pytest.mark.parametrize("cases", [count_cases, bounded_cases])
def test_pmf_agrees_with_exact_arithmetic(cases):
    mp.mp.dps = 60
    wrong, n_cases = [], 0
    for family, law, y, eta, n in cases():
        exact = law(mp.mpf(y), eta, mp.mpf(n))
        found = family.log_pmf(np.array([y]), np.array(eta)[:, None], np.array([float(n)]))[0]
        # A relative error of the pmf is an absolute one of its logarithm; where the pmf is beyond
        # what floats can hold, the logarithm is what counts.
        error = abs(mp.mpf(float(found)) - exact)
        limit = 1e-10 if exact > -700 else 1e-10 * abs(exact)
        n_cases += 1
        if not error < limit:
            wrong.append((family, y, eta, n, float(exact), float(found)))
    assert n_cases > 200
    assert not wrong, f"{len(wrong)} of {n_cases}, first: {wrong[:5]}"
