"""How tables are solved when the predictor is a network: by training, from linear fits.

A network can bend around wrong rows, and one that maximum likelihood has bent does not come back:
little is left that it cannot explain. So the robust network begins at the robust *linear* fit of
the same draw, which the wrong rows have not moved, and its layers add what a line cannot say.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array
from tvdbayes.data.cells import Cells
from tvdbayes.models.model import Model
from tvdbayes.models.predictors import MLP
from tvdbayes.objective import Layout, Objective
from tvdbayes.objective.divergences import KLD
from tvdbayes.sampling.neural.trainer import (
    Masses,
    Trainer,
    bound_network,
    device_for,
    held_out_share,
)
from tvdbayes.sampling.plan import AUTO_RIDGE, AbstractPlan, AbstractPrepared, Solved
from tvdbayes.sampling.reweighting import explained
from tvdbayes.sampling.setup import Setup
from tvdbayes.sampling.weights import Stream
from tvdbayes.solvers import Status, newton

_BEND = 0.1
"""If the network of the likelihood fit explains so much more of the mass, the truth is bent, not
the data: the robust network then begins at that one. Up to about a tenth of wrong rows, all of one
kind, are resisted."""


def network_of(model: Model) -> MLP:
    """The network that is the predictor of a model."""
    network = model.predictor.network
    if network is None:
        raise SettingsError("Only networks are trained. Give this predictor solver='newton'.")
    return network


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkPlan(AbstractPlan):
    """Training of two networks for each table, by likelihood and robust.

    The linear fits that they begin at are found by the plan `line`; None begins at random.
    """

    line: AbstractPlan | None
    settings: MLP

    @classmethod
    def starting(
        cls, setup: Setup, fit_lines: Callable[[Setup], AbstractPlan] | None
    ) -> "NetworkPlan":
        """The plan whose networks begin at lines; given is what makes their plan, if any."""
        layout, settings = setup.layout, network_of(setup.layout.model)
        line = None
        if settings.direct and fit_lines is not None:
            # A linear predictor of the same columns.
            linear = Model(layout.family, bound_network(settings, layout).line)
            layout_of_lines = replace(layout, model=linear)
            line = fit_lines(replace(setup, layout=layout_of_lines, refine=None, device=None))
            # Where classes are separated a line without a ridge would be certain everywhere.
            line = replace(line, likelihood=replace(line.likelihood, ridge=AUTO_RIDGE))
        return cls(
            setup=setup,
            # The ridge is that of the lines; weights have their decay.
            robust=Objective(layout, setup.divergence, 0.0 if line is None else line.robust.ridge),
            likelihood=Objective(layout, KLD()),
            line=line,
            settings=settings,
        )

    def unweighted(self) -> Solved:
        """Networks for the unweighted table."""
        cells = self.robust.layout.cells
        p, rng = cells.p[:, None], Stream.generator(self.setup.seed, Stream.TRAINING)
        lines = _Lines.fit(self.line, cells, p)
        # A single network is trained as fast here, and comes out the same for every device.
        setup = replace(self.setup, device=device_for(None, self.robust.layout.family))
        here = replace(self, setup=setup)
        return here.train(self.robust, self.likelihood, p, lines, [rng])

    @property
    def prepared(self) -> AbstractPrepared | None:
        """See `AbstractPlan`; that of the lines."""
        return None if self.line is None else self.line.prepared

    @property
    def minimiser(self) -> None:
        """See `AbstractPlan`; a network is known only once it has been trained."""

    def solve(
        self,
        robust: Objective,
        likelihood: Objective,
        p: Array,
        first: int = 0,
        wanted: int | None = None,
        /,
    ) -> Solved:
        """Train networks for tables p (m, B), with the random numbers of these draws."""
        # Lines are fitted to whole blocks: the last digits of a matrix product depend on its size.
        lines = _Lines.fit(self.line, robust.layout.cells, p, wanted)
        rngs = Stream.draws(self.setup.seed, Stream.TRAINING, first)
        return self.train(robust, likelihood, p[:, :wanted], lines, rngs)

    def train(
        self,
        robust: Objective,
        likelihood: Objective,
        p: Array,
        lines: "_Lines | None",
        rngs: Iterable[np.random.Generator],
    ) -> Solved:
        """Train networks for tables p (m, B) from lines, each with a generator of its own."""
        layout = robust.layout
        trainer = self.trainer if layout is self.robust.layout else self._trainer_on(layout)
        bound, counts, second_rate = trainer.bound, layout.cells.counts, self.settings.second_rate
        made = [
            (bound.layers.start(rng), held_out_share(counts, self.settings.hold_out, rng))
            for rng in islice(rngs, p.shape[1])
        ]
        random, held_out = (np.stack(parts, axis=1) for parts in zip(*made, strict=True))
        masses = Masses.split(p, held_out)
        start = random if lines is None else bound.with_line(random, lines.likelihood)
        likelihood_fit = trainer.train(KLD(), masses, start)
        found = likelihood_fit
        if robust.divergence != KLD():
            start = likelihood_fit.theta if lines is None else bound.with_line(random, lines.robust)
            found = trainer.train(robust.divergence, masses, start, second_rate)
        problem = robust.on(p)
        distance = problem.distance(found.theta)
        bent = np.flatnonzero(distance > problem.distance(likelihood_fit.theta) + _BEND)
        if bent.size and lines is not None and robust.divergence.on_groups:
            start = likelihood_fit.theta[:, bent]
            again = trainer.train(robust.divergence, masses.take(bent), start, second_rate)
            found = found.replaced_by(again, bent)
            distance = problem.distance(found.theta)
        if self.setup.refine is not None:
            n_obs = self.setup.reweighted.n_obs
            share = explained(replace(layout, fold=False), p, found.theta, n_obs)
            start = random if lines is None else bound.with_line(random, lines.on(p * share))
            last = trainer.train(KLD(), masses.kept(share), start)
            # A phase that did not end well is not forgotten for a last one that did.
            well = found.status == Status.TRAINED
            found = replace(last, status=np.where(well, last.status, found.status))
        return Solved(
            replace(found, theta=bound.to_user(found.theta), value=distance),
            distance,
            replace(likelihood_fit, theta=bound.to_user(likelihood_fit.theta)),
            likelihood.on(p).distance(likelihood_fit.theta),
        )

    @cached_property
    def trainer(self) -> Trainer:
        """What trains on the table of the fit."""
        return self._trainer_on(self.robust.layout)

    def _trainer_on(self, layout: Layout) -> Trainer:
        device = self.setup.device or device_for(None, layout.family)
        return Trainer(self.settings, layout, device, self.setup.seed)


@dataclass(frozen=True, eq=False)
class _Lines:
    """Coefficients (d, B) of linear fits to the same tables, in the user's coordinates.

    They were fitted in a `block` of tables, of which some may have been left out since.
    """

    objective: Objective
    robust: Array
    likelihood: Array
    block: int

    @classmethod
    def fit(
        cls, plan: AbstractPlan | None, cells: Cells, p: Array, wanted: int | None = None
    ) -> "_Lines | None":
        """The first `wanted` of the lines of tables p (m, B); None without a plan of lines."""
        if plan is None:
            return None
        robust, likelihood = plan.on(cells)
        found = plan.solve(robust, likelihood, p)
        lines = (found.robust.theta[:, :wanted], found.likelihood.theta[:, :wanted])
        return cls(likelihood, *lines, p.shape[1])

    def on(self, p: Array) -> Array:
        """Maximum likelihood on other masses (m, B) of the same cells."""
        bound, n = self.objective.layout.bound, p.shape[1]

        def whole(values: Array) -> Array:
            return np.pad(values, ((0, 0), (0, self.block - n)), mode="edge")

        start = bound.from_user(whole(self.robust))
        found = newton(self.objective.on(whole(p / p.sum(0))), start)
        return bound.to_user(found.theta)[:, :n]
