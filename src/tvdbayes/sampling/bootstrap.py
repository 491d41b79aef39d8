"""The posterior bootstrap: Algorithm 1 of the paper, for blocks of draws.

For j = 1, ..., B:

    p_j       = random reweighting of the table (`weights`),
    theta_j   = argmin_theta D(p_j, f_theta)                    refine=None, as in the paper
    theta_j   = argmax_theta sum p_j(x, y) v(x, y) log f_theta  refine="trim", with the rows v that
                                                                 the model can explain

Each theta_j stands beside the maximum likelihood fit to all of p_j.

References
----------
Knoblauch, J. and Vomfell, L. (2020). Robust Bayesian inference for discrete outcomes with the total
variation distance. arXiv:2010.13456.
Lyddon, S., Walker, S. and Holmes, C. (2018). Nonparametric learning from Bayesian models with
randomized objective functions. Advances in Neural Information Processing Systems 31.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from tvdbayes import kernel
from tvdbayes._errors import Interrupted, SettingsError
from tvdbayes._validate import is_number, seed_of
from tvdbayes.data.cells import Cells
from tvdbayes.data.sampling_units import SamplingUnits
from tvdbayes.models.model import Model
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.divergences import TVD
from tvdbayes.objective.partitions import AbstractPartition, Auto
from tvdbayes.sampling.execution import AbstractExecutor, executor_for, single_threaded
from tvdbayes.sampling.options import NO_PRIOR_WITH_UNITS, Options
from tvdbayes.sampling.plan import (
    AbstractPlan,
    Solved,
    solve_block,
)
from tvdbayes.sampling.planners import make_plan, planner_of
from tvdbayes.sampling.posterior import Posterior, assemble, check_resumed, joined
from tvdbayes.sampling.setup import Setup, affordable, outcome_bins, refined
from tvdbayes.sampling.statements import warn_of
from tvdbayes.sampling.weights import Prior

_LOG = logging.getLogger("tvdbayes")


@single_threaded()
def posterior_bootstrap(
    model: Model,
    cells: Cells,
    *,
    divergence: AbstractDivergence | None = None,
    partition: AbstractPartition | None = None,
    n_draws: int = 1000,
    seed: int | np.random.Generator = 0,
    prior: Prior | None = None,
    units: SamplingUnits | None = None,
    ridge: float | Literal["auto"] = "auto",
    bins: Sequence[float] | Literal["auto", "none"] = "auto",
    refine: Literal["auto", "trim", "reweight"] | None = "auto",
    n_jobs: int | None = None,
    memory_budget: int = 2 << 30,
    device: str | None = None,
    resume: Posterior | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Posterior:
    """Draw from the posterior: parameters fitted to randomly reweighted tables.

    By default (`refine`) these are fits by maximum likelihood to the rows that a model can explain.

    Parameters
    ----------
    model : Model
        Family and predictor.
    cells : Cells
        The data.
    divergence : AbstractDivergence, optional
        What "closest" means; the total variation distance unless given.
    partition : AbstractPartition, optional
        Which rows are compared together; `Auto` unless given.
    n_draws, seed : int
        Number of posterior draws; 0 gives the point fit alone. The same seed gives the same draws
        bit for bit, and the first of them are the same for every `n_draws`.
    prior : Prior, optional
        Dirichlet-process prior; none is the limit of a weightless one.
    units : SamplingUnits, optional
        What was sampled as one and gets one random weight: clusters of rows, or rows of unequal
        weight, within strata. The rows of the table unless given.
    ridge : float or "auto"
        Penalty on the variance of the linear predictor over the rows: the sum of squared
        standardised slopes, if these columns are uncorrelated. Never on the likelihood fit.
        With "trim" it is beside the mean log-likelihood; "auto" is 1e-6, which is also the least,
        and a warning says if only the penalty holds a draw. Otherwise it is beside a divergence
        such as a TVD in [0, 1]; "auto" is 0 where x repeats, unless an optimum at infinity is met,
        then 1e-4 with a warning; where rows of different x are grouped it is 1e-4 throughout.
    bins : "auto", "none" or numbers
        Counts that are compared together, by the first count of each bin. "auto" joins neighbours
        where they are spread so thin that single counts would say nothing, see `Posterior.bins`.
    refine : "auto", "trim", "reweight" or None
        "auto" is "trim" for a linear predictor and `TVD`, "reweight" for a network whose divergence
        compares groups, and None otherwise. "trim" drops, once and for all draws, rows that are too
        many for the model or that disagree with the others from far out in x, and fits the rest by
        maximum likelihood (`trimming`, benchmarks/results/default.md); draws are widened for
        leverage (HC3) and for few degrees of freedom. None is the closest model itself, the
        posterior of the paper. "reweight" ends every draw with one-step reweighting: mass that the
        closest model cannot explain is taken away, and weighted maximum likelihood fits the rest
        (benchmarks/results/refine.md); `distance` stays that of the closest model.
    n_jobs : int, optional
        Blocks of draws to compute at once, as in `fit`.
    memory_budget : int
        Bytes that the blocks in work may take together; on a cluster, each of them.
    device : str, optional
        Compute the draws with JAX there: "gpu", or "gpu:float32" for half the precision. The same
        random weights and the same steps give the same draws but for rounding. None is NumPy.
    resume : Posterior, optional
        Draws of the same fit that exist already, as in `fit`.
    progress : callable, optional
        Called with the draws done and the draws in all.

    Returns
    -------
    Posterior

    Raises
    ------
    Interrupted
        On Ctrl-C, with the finished draws in `partial`.

    Examples
    --------
    >>> import numpy as np, tvdbayes as tb
    >>> cells = tb.Cells.from_rows(np.ones((1000, 1)), tb.example_data()["visits"])
    >>> tb.posterior_bootstrap(tb.Model(tb.Poisson()), cells, n_draws=100).draws.shape
    (100, 1)
    """
    budget: object = memory_budget
    if not (is_number(budget) and budget > 0):
        raise SettingsError(f"memory_budget must be a number of bytes; got {memory_budget!r}.")
    if prior is not None and units is not None:
        raise SettingsError(NO_PRIOR_WITH_UNITS)
    divergence = TVD() if divergence is None else divergence
    partition = Auto() if partition is None else partition
    asked: dict[str, Any] = {
        "divergence": divergence,
        "partition": partition,
        "seed": seed_of("seed", seed),
        "ridge": ridge,
    }
    options = Options(
        family=model.family,
        n_draws=n_draws,
        bins=bins,
        refine=refine,
        n_jobs=n_jobs,
        device=device,
        **asked,
        **({} if prior is None else vars(prior)),
    )
    done = refined(refine, divergence, model)
    model.check(cells)
    setup = Setup.make(model, cells, prior=prior, units=units, refine=done, **asked)
    _require_enough(setup)
    setup = setup.binned(outcome_bins(options.bins, setup))
    there = planner_of(model).device(device, model, n_jobs)
    setup = replace(setup, device=there)
    # Draws by the kernel leave room for other threads.
    known = device is None and done == "trim" and model.family.compiled is not None
    threads = known and kernel.library() is not None
    executor = executor_for(n_jobs, affordable(setup.block_elements, memory_budget), threads)
    with nullcontext() if there is None else there.here():
        plan, unweighted = make_plan(setup, pilot=n_draws > 0)
        if device is not None and there is not None:
            # The pilot is the same as without a device; blocks are as large as its memory allows.
            size = setup.size_within(there.memory or memory_budget, n_draws)
            plan = replace(plan, setup=replace(plan.setup, size=size))
        record = partial(assemble, plan, unweighted, options.kept())
        made = _draw(plan, record, executor, n_draws=n_draws, resume=resume, progress=progress)
    warn_of(made, plan.rescued, int(unweighted.robust.status[0]))
    return made


def _require_enough(setup: Setup) -> None:
    """Raise where units are too few to vary in every direction that parameters can take."""
    units, model = setup.units, setup.layout.model
    if units is None or not model.predictor.averages:
        return
    d, left = setup.layout.bound.n_params, units.n_units - units.n_strata
    if left < d:
        what = "clusters" if units.clustered else "rows"
        within = f" in {units.n_strata} strata" if units.n_strata > 1 else ""
        raise SettingsError(
            f"{units.n_units:g} {what}{within} are too few for {d} parameters: random weights of "
            f"{what} move {left:g} of them. Use fewer covariates, or fewer strata."
        )


def _draw(
    plan: AbstractPlan,
    record: Callable[..., Posterior],
    executor: AbstractExecutor,
    *,
    n_draws: int,
    resume: Posterior | None,
    progress: Callable[[int, int], None] | None,
) -> Posterior:
    """Solve all blocks of draws that are not known yet; ``record(blocks, n_draws=)`` keeps them."""
    size, cells = plan.size, plan.robust.layout.cells
    made = record([], n_draws=0)
    n_known = 0 if resume is None else check_resumed(resume, made)
    n_blocks, first = -(-n_draws // size), min(n_known, n_draws) // size
    about = "%g rows, %s cells: %s blocks of %s draws"
    _LOG.info(about, cells.n_obs, cells.n_cells, n_blocks - first, size)

    def finished(blocks: list[Solved], n: int) -> Posterior:
        new = record(blocks, n_draws=n - first * size)
        return new if resume is None else joined(resume, new, first * size)

    blocks: list[Solved] = []
    try:
        for block in executor.map(
            partial(solve_block, plan, n_draws=n_draws), range(first, n_blocks)
        ):
            blocks.append(block)
            if progress is not None:
                progress(min((first + len(blocks)) * size, n_draws), n_draws)
    except KeyboardInterrupt as stop:
        n_done = min((first + len(blocks)) * size, n_draws)
        raise Interrupted(
            f"Stopped after {n_done} of {n_draws} draws; they are in the attribute `partial` of "
            "this exception. Call again with resume=partial for the same result.",
            finished(blocks, n_done),
        ) from stop
    return finished(blocks, n_draws)
