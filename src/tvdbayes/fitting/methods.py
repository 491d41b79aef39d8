"""Sentences about a fit for the methods and the results of a paper, with what to cite."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from tvdbayes import __version__
from tvdbayes.data.cells import amount
from tvdbayes.models.model import name_of
from tvdbayes.report import covariates, listed
from tvdbayes.results.base import AbstractFit
from tvdbayes.sampling.posterior import Posterior
from tvdbayes.sampling.summary import Summary
from tvdbayes.trimming import RIDGE

_PAPER = (
    "Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes with "
    "the total variation distance. arXiv:2010.13456."
)
_BOOTSTRAP = "Rubin, D. B. (1981). The Bayesian bootstrap. Annals of Statistics 9, 130-134."
_OF_CLUSTERS = (
    "Field, C. A. and Welsh, A. H. (2007). Bootstrapping clustered data. Journal of the Royal "
    "Statistical Society B 69, 369-390."
)
_PRIOR = (
    "Lyddon, S., Walker, S. and Holmes, C. (2018). Nonparametric learning from Bayesian models "
    "with randomized objective functions. NeurIPS 31."
)
_OF_DIVERGENCE = {
    "tvd": ("the total variation distance (Knoblauch and Vomfell 2020)", _PAPER),
    "hellinger": (
        "the Hellinger distance (Simpson 1987)",
        "Simpson, D. G. (1987). Minimum Hellinger distance estimation for the analysis of count "
        "data. Journal of the American Statistical Association 82, 802-807.",
    ),
    "power": (
        "a power divergence (Cressie and Read 1984)",
        "Cressie, N. and Read, T. R. C. (1984). Multinomial goodness-of-fit tests. Journal of the "
        "Royal Statistical Society B 46, 440-464.",
    ),
    "density_power": (
        "the density power divergence (Basu et al. 1998)",
        "Basu, A., Harris, I. R., Hjort, N. L. and Jones, M. C. (1998). Robust and efficient "
        "estimation by minimising a density power divergence. Biometrika 85, 549-559.",
    ),
}
_MOST = 6
"""Coefficients that one sentence holds."""


@dataclass(frozen=True)
class Methods:
    """What a paper says of a fit; prints as paragraphs.

    Parameters
    ----------
    methods : tuple of str
        Three sentences: the model, how it was fitted, and how uncertainty was found.
    results : str
        One sentence: rows that were dropped, and the coefficients.
    references : tuple of str
        What these cite, the software last.
    """

    methods: tuple[str, ...]
    results: str
    references: tuple[str, ...]

    def __str__(self) -> str:
        return "\n\n".join([" ".join(self.methods), self.results, "\n".join(self.references)])

    __repr__ = __str__


class MethodsAnswers(AbstractFit):
    """Methods of `Fit` that put it into words for a paper."""

    def methods(self, interval: float = 0.9) -> Methods:
        """Three sentences for the methods of a paper, one for its results, and what to cite.

        They say what was done in this fit: family, method, rows left out and dropped, weights,
        prior, draws, seed and versions. Tables of a report and a paper that were made by other
        options need sentences of their own.

        Parameters
        ----------
        interval : float
            Probability inside the intervals.

        Examples
        --------
        >>> from textwrap import fill
        >>> import tvdbayes as tb
        >>> fit = tb.fit("visits ~ age + region", tb.example_data(wrong=0.1), n_draws=200)
        >>> said = fit.methods()
        >>> print(fill(said.methods[0], 80))
        visits was modelled as Poisson with a log link, given age and region (visits ~
        age + region; 1,000 rows).
        >>> print(fill(said.results, 80))
        100 of 1,000 rows were dropped, and the rate ratio was 1.369 (90% interval 1.329
        to 1.417) for age and 0.576 (0.543 to 0.620) for region[T.south]; maximum
        likelihood on all rows gave 1.189 (90% interval 1.114 to 1.274) for age and
        0.690 (0.596 to 0.806) for region[T.south].
        """
        self.posterior.require_coefficients("to write of", "check() and predictions")
        sentences = (_model(self), _method(self.posterior), _uncertainty(self.posterior, interval))
        return Methods(sentences, _results(self, interval), tuple(_references(self.posterior)))


def _model(fit: AbstractFit) -> str:
    data, family = fit.data, fit.posterior.model.family
    link = f" with {_article(family.link_name)} link" if family.link_name else ""
    columns = covariates(data, fit.formula)
    on = f", given {listed(columns, 20)}" if columns else ""
    uses = {"offset": data.offset, "exposure": data.exposure, "number of trials": data.trials}
    named = [f"{name} as {use}" for use, name in uses.items() if isinstance(name, str)]
    if data.weights is not None:
        named.append(f"{data.weights} as weights")
    further = f", with {listed(named)}" if named else ""
    n_used = fit.n_rows - fit.n_left_out
    out = ""
    if fit.n_left_out:
        out = f"; {fit.n_left_out:,} more were left out for {fit.why_left_out}"
    return (
        f"{data.outcome} was modelled as {name_of(family)}{link}{on}{further} "
        f"({fit.formula}; {n_used:,} rows{out})."
    )


def _method(posterior: Posterior) -> str:
    name = posterior.divergence.name
    ridge = ""
    if posterior.ridge > RIDGE:
        ridge = f", with a ridge penalty of {posterior.ridge:g} on the linear predictor"
    if name == "kld":
        return f"Coefficients were estimated by maximum likelihood{ridge}."
    distance = _OF_DIVERGENCE[name][0]
    if posterior.refine == "trim":
        return (
            "Coefficients were estimated by a trimmed likelihood: rows that the model cannot "
            f"explain, by {distance}, were dropped, and maximum likelihood was fitted to the "
            f"others{ridge}."
        )
    compared = f"; rows were compared within groups ({posterior.groups.made})"
    groups = compared if posterior.partition.pools_rows else ""
    bins = "" if posterior.bins is None else f"; counts were compared in bins ({posterior.bins})"
    closest = f"minimising {distance} between the model and the data{ridge}{groups}{bins}"
    if posterior.refine == "reweight":
        return (
            "Coefficients were estimated by likelihood equations whose rows were weighted once, by "
            f"how well a first fit explains them, which was found by {closest}."
        )
    return f"Coefficients were estimated by {closest}."


def _uncertainty(posterior: Posterior, interval: float) -> str:
    software = f"tvdbayes {__version__} (NumPy {np.__version__}, SciPy {scipy.__version__})"
    if posterior.n_draws < 2:
        return f"Estimates are without intervals; they were computed by {software}."
    prior = ""
    if posterior.prior is not None:
        alpha = posterior.prior.alpha
        prior = (
            f" with a Dirichlet-process prior that counts for {alpha:g} rows (Lyddon et al. 2018)"
        )
    beside = ""
    if posterior.divergence.name != "kld":
        beside = "; maximum likelihood on all rows, with the same random weights, stands beside it"
    return (
        f"Intervals hold the central {100 * interval:.4g}% of {posterior.n_draws:,} draws of a "
        f"Bayesian bootstrap {_of_units(posterior)}{prior}, from the seed {posterior.seed}, "
        f"computed by {software}{beside}."
    )


def _of_units(posterior: Posterior) -> str:
    units, options = posterior.units, posterior.options
    if units is None:
        return "(Rubin 1981)"
    of = f"of {amount(units.n_units)} {'clusters' if units.clustered else 'rows'}"
    if options.strata is not None:
        of += " within strata"
    if options.sampling_weights is not None:
        of += ", with sampling weights,"
    return f"{of} ({'Field and Welsh 2007' if units.clustered else 'Rubin 1981'})"


def _results(fit: AbstractFit, interval: float) -> str:
    posterior = fit.posterior
    dropped = ""
    if posterior.kept_rows is not None:
        cells = posterior.cells
        n = float(cells.counts @ (1 - posterior.kept_rows.share))
        # Less than a row counts as one, as in `summary`; rounding errors count as none.
        n = max(n, 1.0) if n > 1e-9 * cells.n_obs else 0.0
        dropped = f"{n:,.0f} of {amount(cells.n_obs)} rows were dropped, and "
    if posterior.n_draws < 2:
        pairs = zip(posterior.param_names, posterior.estimate, strict=True)
        told = listed([f"{value:.3g} for {name}" for name, value in pairs], _MOST)
        return _sentence(f"{dropped}the estimate was {told}")
    table, what = posterior.summary(interval), "coefficient"
    ratios = posterior.model.ratios(posterior.cells)
    if len(set(ratios)) == 1 and ratios[0]:
        table = table.exponentiated(ratios)
        what = table.ratio
    named = [j for j, name in enumerate(table.names) if name.rsplit(":", 1)[-1] != "Intercept"]
    lines = (named or list(range(len(table.names))))[:_MOST]
    first = "mean" if what == "coefficient" else "ratio"
    own = _told(table, lines, first, "", interval)
    text = f"{dropped}the {what} was {listed(own, _MOST)}"
    if len(named) > _MOST:
        text += f" (the first {_MOST} of {len(named)})"
    if posterior.divergence.name != "kld":
        others = _told(table, lines, f"kld_{first}", "kld_", interval)
        text += f"; maximum likelihood on all rows gave {listed(others, _MOST)}"
    return _sentence(text)


def _told(
    table: Summary, lines: Sequence[int], estimate: str, ends: str, interval: float
) -> list[str]:
    """Estimates with intervals; the first says of what level."""
    level = f"{100 * interval:.4g}% interval "
    return [
        f"{table.text(estimate, j)} ({level if i == 0 else ''}{table.text(f'{ends}low', j)} to "
        f"{table.text(f'{ends}high', j)}) for {table.names[j]}"
        for i, j in enumerate(lines)
    ]


def _references(posterior: Posterior) -> Iterator[str]:
    if posterior.divergence.name != "kld":
        yield _OF_DIVERGENCE[posterior.divergence.name][1]
    if posterior.n_draws > 1:
        clustered = posterior.units is not None and posterior.units.clustered
        yield _OF_CLUSTERS if clustered else _BOOTSTRAP
    if posterior.prior is not None and posterior.n_draws > 1:
        yield _PRIOR
    yield (
        "The tvdbayes developers. tvdbayes: robust Bayesian inference for discrete outcomes, "
        f"version {__version__}."
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
