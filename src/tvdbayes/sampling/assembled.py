"""The record of a fit, put together from its blocks of draws."""

from dataclasses import replace
from typing import Any

import numpy as np

from tvdbayes import kernel
from tvdbayes._errors import SettingsError
from tvdbayes.sampling.options import Options
from tvdbayes.sampling.plan import AbstractPlan, Solved
from tvdbayes.sampling.posterior import Posterior


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
