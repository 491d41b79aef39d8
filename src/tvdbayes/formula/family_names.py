"""Family names of other packages, and messages for names that are unknown.

Capitals, blanks, dots, hyphens and underscores make no difference: "Negative Binomial" is
"negativebinomial".
"""

import re

from tvdbayes._errors import FamilyError
from tvdbayes._validate import did_you_mean
from tvdbayes.models.families import INSIDE, WRAPPERS

_OTHER_NAMES: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("pois", "poissonregression"), ("poisson", None)),
    **dict.fromkeys(("nb", "nb2", "negbin", "negbinomial", "nbinom"), ("negativebinomial", None)),
    **dict.fromkeys(("nbinom2", "negativebinomial2"), ("negativebinomial", None)),
    **dict.fromkeys(("geom", "geometrical"), ("geometric", None)),
    "dweibull": ("discreteweibull", None),
    **dict.fromkeys(("conwaymaxwellpoisson", "conwaymaxwell", "cmp", "comp"), ("compoisson", None)),
    **dict.fromkeys(("genpoisson", "genpois", "gp", "gp1"), ("generalizedpoisson", None)),
    **dict.fromkeys(("generalisedpoisson", "genpoisson1"), ("generalizedpoisson", None)),
    **dict.fromkeys(("binary", "bern", "yesno"), ("bernoulli", None)),
    **dict.fromkeys(("logit", "logistic", "logisticregression"), ("bernoulli", "logit")),
    "probit": ("bernoulli", "probit"),
    **dict.fromkeys(("cloglog", "complementaryloglog"), ("bernoulli", "cloglog")),
    "binom": ("binomial", None),
    **dict.fromkeys(("bb", "betabinom"), ("betabinomial", None)),
    **dict.fromkeys(("multinomial", "multinom", "mnlogit", "mlogit"), ("categorical", None)),
    **dict.fromkeys(("multinomiallogit", "softmax"), ("categorical", None)),
    **dict.fromkeys(("ordered", "cumulative", "rating"), ("ordinal", None)),
    **dict.fromkeys(("ologit", "orderedlogit", "polr"), ("ordinal", "logit")),
    **dict.fromkeys(("proportionalodds", "ordinallogit"), ("ordinal", "logit")),
    **dict.fromkeys(("oprobit", "orderedprobit", "ordinalprobit"), ("ordinal", "probit")),
}
"""What other packages call a family, and the link that the name implies."""

_BEFORE = {
    "zero_inflated": ("zeroinflated", "zi"),
    "hurdle": ("hurdle",),
    "truncated": ("zerotruncated", "truncated", "zt"),
}
"""Words that come before the name of a family of counts."""

_INITIALS = 2
"""Letters of a short form, as in ZIP and ZTP."""

_AFTER_INITIALS = {"p": "poisson", "b": "binomial"}
"""What initials such as ZIP and ZTP end with."""

_CONTINUOUS = (
    *("gaussian", "normal", "lognormal", "gamma", "inversegaussian", "beta", "student", "t"),
    *("studentt", "tweedie", "exponential", "laplace", "skewnormal", "asymmetriclaplace"),
)
_NOT_HERE = {
    **dict.fromkeys(
        _CONTINUOUS,
        "Its outcomes are not discrete. Every family here is for counts, yes/no answers, "
        "proportions, categories or ratings.",
    ),
    **dict.fromkeys(
        ("nb1", "nbinom1", "negativebinomial1"),
        'Only the negative binomial of variance mean + mean**2 / size is fitted. Use "negative'
        'binomial".',
    ),
    **dict.fromkeys(
        ("quasipoisson", "quasibinomial", "quasi"),
        "A quasi-likelihood has no probabilities to compare with the data. The intervals of every "
        'fit allow for more spread than the family has: use "poisson" or "binomial", or, for the '
        'spread itself, "negativebinomial" or "betabinomial".',
    ),
}
"""Families that are asked for and that are not here: why, and what to use."""


def other_name(name: str, known: tuple[str, ...]) -> tuple[str, str | None]:
    """The name here of a family, and the link that a foreign name implies; or an error.

    `known` are the names that the error lists.

    Examples
    --------
    >>> from tvdbayes.formula.family_names import other_name
    >>> other_name("Negative_Binomial", ()), other_name("ZINB", ()), other_name("probit", ())
    (('negativebinomial', None), ('zero_inflated_negativebinomial', None), ('bernoulli', 'probit'))
    """
    key = re.sub(r"[\W_]", "", name).lower()
    found = _by_key(key)
    if found is not None:
        return found
    if key in _NOT_HERE:
        raise FamilyError(f"There is no family {name!r}. {_NOT_HERE[key]}")
    for wrapper, words in _BEFORE.items():
        if key.startswith(tuple(word for word in words if len(word) > _INITIALS)):
            raise FamilyError(
                f"There is no family {name!r}: what follows {wrapper!r} is not a plain family of "
                f"counts. After {wrapper + '_'!r} comes one of {', '.join(INSIDE)}."
            )
    inside = [f"{wrapper.name}_{law}" for wrapper in WRAPPERS for law in INSIDE]
    names = [*(one for one in known if not one.endswith("_X")), *inside, *_OTHER_NAMES]
    raise FamilyError(
        f"There is no family {name!r}.{did_you_mean(name, names)} Choose from {', '.join(known)}."
    )


def _by_key(key: str) -> tuple[str, str | None] | None:
    """The family of a name in small letters without blanks."""
    if key in _OTHER_NAMES:
        return _OTHER_NAMES[key]
    if key in (*INSIDE, "bernoulli", "betabinomial", "categorical", "ordinal"):
        return key, None
    for wrapper, words in _BEFORE.items():
        for word in words:
            if not key.startswith(word):
                continue
            rest = key.removeprefix(word)
            law = _AFTER_INITIALS.get(rest) or (_by_key(rest) or ("",))[0]
            if law in INSIDE:
                return f"{wrapper}_{law}", None
    return None
