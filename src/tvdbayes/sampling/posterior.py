"""The record of a fit, and how it is put together from its blocks of draws."""

from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np

from tvdbayes import kernel
from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes.data.cells import Cells
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.models.model import Model
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.divergences import KLD
from tvdbayes.objective.partitions import AbstractPartition, Bins, Distinct, GroupReport
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.plan import AbstractPlan, AbstractPrepared, Solved
from tvdbayes.sampling.statements import headline, how_it_went, rows_used, sampled
from tvdbayes.sampling.summary import IntervalKind, Summary, summarise
from tvdbayes.sampling.tables import html_table
from tvdbayes.sampling.weights import Prior, RandomWeights
from tvdbayes.solvers import Status
from tvdbayes.trimming import KeptRows


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior draws beside those of the likelihood fit, and provenance.

    Parameters
    ----------
    model : Model
        Family and predictor.
    cells : Cells
        The data.
    divergence : AbstractDivergence
        What "closest" means.
    partition : AbstractPartition
        The rule by which rows are compared together, as learned on the data.
    param_names : tuple of str
        Names of the d parameters.
    draws, kld_draws : (B, d)
        Draws under the divergence asked for, and weighted maximum likelihood on the same weights:
        their differences are paired.
    minimiser, kld_minimiser : (d,)
        The same for the unweighted data.
    minimiser_distance : float
        Divergence between the unweighted data and the model at `minimiser`.
    distance, kld_distance : (B,)
        Divergence reached by each draw, penalties excluded.
    status, kld_status : (B,)
        Codes of `Status`, one for each draw.
    n_iter : (B,)
        Evaluations that the search of each draw took.
    decrement, residual : (B,)
        How near to a minimum it ended: the decrease that its last step still promised, twice, and
        the largest entry of the gradient.
    ridge : float
        Penalty on the variance of the linear predictor (intercepts are free).
    seed : int
        The seed that gives these draws again.
    shift : (d,)
        What was added to every draw. Not 0 where rows are compared in small groups: random weights
        push the draws outwards there, and the shift brings their centre back to the minimiser. The
        minimisers themselves are ``draws - shift``; `distance` and `status` are theirs.
    groups : GroupReport
        Which rows were compared together, and what that does to the answer.
    bins : Bins or None
        Which outcomes were compared together, if any.
    options : Options
        Options as they were given, where the other fields hold what the data made of them. Whoever
        fits other rows in the same way, half of them say, must let groups and bins be learned anew.
    prior : Prior or None
        The Dirichlet-process prior, if any.
    units : SamplingUnits or None
        What is exchangeable: clusters of rows, or rows of unequal weight, within strata. None: the
        rows.
    refine : str or None
        "reweight" where draws end with one-step reweighting; `distance` and `status` are those of
        the closest model before that. "trim" for the trimmed likelihood; `distance` is then that of
        the draws themselves.
    kept_rows : KeptRows or None
        The rows that a trimmed likelihood keeps.
    prepared : AbstractPrepared or None
        Starts of the draws, with which other tables are solved in the same way without solving
        this one again. None where there are no draws, or a prior and a trimmed likelihood.
    kernel : "c" or "numpy"
        How it was computed: by the compiled kernel where that knows the law, or by NumPy alone. The
        draws are the same to eight digits.

    Examples
    --------
    >>> import tvdbayes as tb
    >>> posterior = tb.fit("visits ~ age", tb.example_data(wrong=0.1), n_draws=50).posterior
    >>> posterior
    <Poisson fit by tvd: 50 draws of 2 parameters, 1000 rows in 59 cells, 100.0% certified minima>
    >>> posterior.estimate.round(1), posterior.kld_minimiser.round(1)
    (array([-0.3,  0.3]), array([0.8, 0.2]))
    """

    model: Model
    cells: Cells
    divergence: AbstractDivergence
    partition: AbstractPartition
    param_names: tuple[str, ...]
    minimiser: Array
    minimiser_distance: float
    kld_minimiser: Array
    draws: Array
    distance: Array
    status: IntArray
    n_iter: IntArray
    decrement: Array
    residual: Array
    kld_draws: Array
    kld_distance: Array
    kld_status: IntArray
    ridge: float
    seed: int
    shift: Array
    groups: GroupReport
    bins: Bins | None
    options: Options
    prior: Prior | None = None
    units: SamplingUnits | None = None
    refine: Literal["reweight", "trim"] | None = None
    kept_rows: KeptRows | None = None
    prepared: AbstractPrepared | None = None
    kernel: Literal["c", "numpy"] = "numpy"

    @property
    def weights(self) -> RandomWeights:
        """How the data are reweighted at random, those of a prior aside."""
        return RandomWeights(self.cells, self.units)

    @property
    def worth(self) -> float:
        """How many independent rows a row counts for where chance is judged, at most 1."""
        if self.kept_rows is not None:
            return self.kept_rows.worth
        return 1.0 if self.units is None else 1 / self.units.kish

    @property
    def n_draws(self) -> int:
        """Number of draws, B."""
        return len(self.draws)

    @property
    def method(self) -> str:
        """The divergence, and what was done after it, in a few words.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> tb.fit("visits ~ age", tb.example_data(), n_draws=0).posterior.method
        'tvd, trimmed'
        """
        done = {None: "", "reweight": ", reweighted", "trim": ", trimmed"}[self.refine]
        return f"{self.divergence.name}{done}"

    @property
    def estimate(self) -> Array:
        """Point estimate (d,), the minimiser, or unrefined where x repeats the posterior mean.

        The mean of the weights of networks is no network of any use: theirs is the minimiser.
        """
        averages = self.model.predictor.averages and not self.partition.pools_rows
        if self.n_draws and averages and self.refine is None:
            mean: Array = self.draws.mean(0)
            return mean
        return self.minimiser

    @property
    def twin(self) -> "Posterior":
        """The likelihood fit on the same random weights, as a record of its own.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> tb.fit("visits ~ age", tb.example_data(), n_draws=0).posterior.twin.divergence
        KLD()
        """
        return replace(
            self,
            divergence=KLD(),
            partition=Distinct(),
            minimiser=self.kld_minimiser,
            minimiser_distance=float("nan"),
            draws=self.kld_draws,
            distance=self.kld_distance,
            status=self.kld_status,
            shift=np.zeros_like(self.shift),
            ridge=0.0,
            bins=None,
            refine=None,
            kept_rows=None,
            prepared=None,
            options=Options(divergence=KLD(), partition=Distinct(), ridge=0.0, bins="none"),
        )

    def summary(
        self,
        interval: float = 0.9,
        *,
        kind: IntervalKind = "equal",
        rope: tuple[float, float] | None = None,
        exponentiate: bool = False,
    ) -> Summary:
        """Coefficients beside those of the likelihood fit; `Fit.summary` has the arguments.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> posterior = tb.fit("visits ~ age", tb.example_data(), n_draws=50).posterior
        >>> list(posterior.summary(0.95, kind="hdi", rope=(-0.1, 0.1)).columns)[:6]
        ['mean', 'sd', 'low', 'high', 'direction', 'rope']
        """
        self.require_coefficients("to summarise", "predictions and effects")
        found = summarise(
            self.param_names, self.draws, self.kld_draws, interval, kind=kind, rope=rope
        )
        tails = "equal tails" if kind == "equal" else "shortest"
        about = f"{100 * interval:.4g}% intervals ({tails}); {how_it_went(self)}"
        notes = self.model.family.yes_in_words, self.note
        note, header = "\n".join(filter(None, notes)), f"{headline(self)}\n{about}"
        found = replace(found, note=note, header=header)
        return found.exponentiated(self._ratios()) if exponentiate else found

    def _ratios(self) -> tuple[str, ...]:
        """What exp of each parameter is called; raise where no coefficient has a ratio."""
        ratios, family = self.model.ratios(self.cells), self.model.family
        if not any(ratios):
            logit = ' Or fit with link="logit", for odds ratios.'
            instead = logit if family.link_name in ("probit", "cloglog") else ""
            raise SettingsError(
                f"There are no ratios: exp of a coefficient of {family.name!r} with "
                f"{family.link_name or 'this'} link is not one. Ask effects() for differences, or "
                f"contrast(..., ratio=True) for ratios of averages.{instead}"
            )
        return ratios

    @property
    def note(self) -> str:
        """Which rows the draws are made of, and what was reweighted, in a few sentences."""
        return f"{rows_used(self) or ''} {sampled(self)}".strip()

    def require_coefficients(self, wanted: str, instead: str) -> None:
        """Raise where parameters mean nothing one by one: what is wanted of them, what else to ask.

        The words complete "A network has no coefficients ...; ask for ... instead."

        Examples
        --------
        A linear predictor has coefficients, so nothing is raised:

        >>> import tvdbayes as tb
        >>> posterior = tb.fit("visits ~ age", tb.example_data(), n_draws=0).posterior
        >>> posterior.require_coefficients("to print", "predictions")
        """
        self.model.predictor.require_coefficients(wanted, instead)

    def _repr_html_(self) -> str:
        below = ""
        if not self.model.predictor.averages:
            below = self._training() if self.n_draws else ""
        elif self.n_draws > 1:
            below = self.summary()._repr_html_()
        return f"<p>{escape(repr(self))}</p>{below}"

    def _training(self) -> str:
        """A table of how close networks came, and how their training ended."""
        sides = (self, self.twin)
        lines = [["distance", *(side._closeness for side in sides)]]
        for status in Status:
            numbers = [int((side.status == status).sum()) for side in sides]
            if any(numbers):
                lines.append([status.name.lower().replace("_", " "), *map(str, numbers)])
        return html_table("Training", ["", "robust", "likelihood"], lines)

    @property
    def _closeness(self) -> str:
        name = self.divergence.name
        if self.n_draws:
            return f"mean {name} {self.distance.mean():.3g}"
        return f"{name} {self.minimiser_distance:.3g}"

    def __repr__(self) -> str:
        predictor = self.model.predictor
        well = np.isin(self.status, [Status.CONVERGED, Status.TRAINED, Status.BOUNDARY])
        share = f"{well.mean() if self.n_draws else 1.0:.1%}"
        close = "" if predictor.averages else f"{self._closeness}, "
        return (
            f"<{type(self.model.family).__name__}{predictor.label} fit by {self.divergence.name}: "
            f"{self.n_draws} draws of {len(self.param_names)} parameters, {self.cells.n_obs:g} "
            f"rows in {self.cells.n_cells} cells, {close}{share} {predictor.ends.found}>"
        )


def assemble(
    plan: AbstractPlan, unweighted: Solved, options: Options, blocks: list[Solved], *, n_draws: int
) -> Posterior:
    """The record of `n_draws` draws, which are the first of these blocks.

    Without draws there was no pilot, so that the plan is not kept.
    """
    setup, layout = plan.setup, plan.robust.layout
    return Posterior(
        model=layout.model,
        cells=setup.cells,
        divergence=plan.robust.divergence,
        partition=layout.partition,
        param_names=layout.model.param_names(setup.cells),
        **solutions(unweighted, blocks, n_draws),
        ridge=plan.ridge,
        seed=setup.seed,
        shift=layout.bound.to_user(plan.shift[:, None])[:, 0],
        groups=setup.report,
        bins=layout.bins,
        prior=setup.prior,
        units=setup.units,
        refine=setup.refine,
        kept_rows=plan.kept_rows,
        options=options,
        prepared=plan.prepared if n_draws else None,
        kernel=kernel.name(),
    )


def solutions(unweighted: Solved, blocks: list[Solved], n_draws: int) -> dict[str, Any]:
    """The fields of a record that say where the unweighted data and the draws were solved."""
    d = unweighted.robust.theta.shape[0]

    def join(arrays: list[np.ndarray], *empty: int) -> np.ndarray:
        return np.concatenate(arrays, axis=-1)[..., :n_draws] if arrays else np.zeros((*empty, 0))

    robust, likelihood = [b.robust for b in blocks], [b.likelihood for b in blocks]
    return {
        "minimiser": unweighted.robust.theta[:, 0],
        "minimiser_distance": float(unweighted.distance[0]),
        "kld_minimiser": unweighted.likelihood.theta[:, 0],
        "draws": join([s.theta for s in robust], d).T,
        "distance": join([b.distance for b in blocks]),
        "status": join([s.status for s in robust]).astype(int),
        "n_iter": join([s.n_iter for s in robust]).astype(int),
        "decrement": join([s.decrement for s in robust]),
        "residual": join([s.residual for s in robust]),
        "kld_draws": join([s.theta for s in likelihood], d).T,
        "kld_distance": join([b.likelihood_distance for b in blocks]),
        "kld_status": join([s.status for s in likelihood]).astype(int),
    }


_PER_DRAW = (
    *("draws", "distance", "status", "n_iter", "decrement", "residual"),
    *("kld_draws", "kld_distance", "kld_status"),
)


def joined(old: Posterior, new: Posterior, n_old: int) -> Posterior:
    """The new record, with the first `n_old` draws of the old one put before its own."""
    both: dict[str, Any] = {
        name: np.concatenate([getattr(old, name)[:n_old], getattr(new, name)]) for name in _PER_DRAW
    }
    return replace(new, **both)


def check_resumed(resume: Posterior, made: Posterior) -> int:
    """The number of draws that can be kept; raise unless they are of this very fit."""
    given: object = resume
    if not isinstance(given, Posterior):
        raise SettingsError(f"resume must be draws of the same fit; got {type(given).__name__}.")
    same = resume.seed == made.seed and all(
        np.array_equal(getattr(resume, name), getattr(made, name))
        for name in ("minimiser", "kld_minimiser", "shift")
    )
    if not same:
        raise SettingsError(
            "resume holds draws of another fit: the data, the model, the settings or the seed "
            "have changed. Leave it out to start anew."
        )
    return resume.n_draws
