"""Random reweightings of a table: the Bayesian bootstrap and the Dirichlet-process prior.

A draw gives the rows the weights w ~ Dirichlet(1, ..., 1). Added up by cell,

    p(x, y) = G(x, y) / sum G    with independent G(x, y) ~ Gamma(count of the cell).

With a Dirichlet process of mass alpha around a base measure H the posterior is again one, of mass
n + alpha around (n * data + alpha * H) / (n + alpha). If H is a table, p ~ Dirichlet(counts +
alpha H) exactly; if it can only be sampled, each draw adds T atoms from H with weights
Gamma(alpha / T), as in Algorithm 1 of the paper.

Where rows belong together, or stand for more or fewer of the population, sampling units u
(clusters) take the place of rows: with S(x, y; u) the rows that a unit stands for,

    p(x, y) = sum_u G(u) S(x, y; u) / sum of the same over all x and y.

Every draw has a stretch of random numbers of its own, so draw j
depends on (seed, j) and the table only, whatever the model, the number of draws, workers or the
memory: draws of two fits to the same table are paired.

References
----------
Field, C. A. and Welsh, A. H. (2007). Bootstrapping clustered data. Journal of the Royal Statistical
Society B 69, 369-390.
Rubin, D. B. (1981). The Bayesian bootstrap. Annals of Statistics 9, 130-134.
Ferguson, T. S. (1973). A Bayesian analysis of some nonparametric problems. Annals of Statistics 1,
209-230.
The others are in `bootstrap`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from numbers import Real

import numpy as np

from tvdbayes._array import in_parts
from tvdbayes._errors import DataError, SettingsError
from tvdbayes._typing import Array, IntArray
from tvdbayes._validate import whole_number
from tvdbayes.data.cells import Cells
from tvdbayes.data.sampling_units import SamplingUnits

BaseMeasure = Callable[[np.random.Generator, int], tuple[Array, Array]]
"""Draws atoms: (rng, size) to x (size, p) and y (size,)."""

_BLOCK_ELEMENTS = 1 << 19
"""Cells x draws of a block: 4 MiB in float64, so that a pass over it stays near the cache."""


_FEW = 16
"""Draws up to which a block may leave the cache: matrix products of fewer columns are slow."""
_MOST_ELEMENTS = 9 << 20
"""Blocks of few draws may leave the cache, for the sake of matrix products, up to 72 MiB."""

_STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Random numbers between two draws, modulo the period of 2**128: its golden section, which spreads
the draws evenly. A power of two would leave the lower bits of all of them the same."""

_TOGETHER, _WEIGHTS = 8, 1 << 13
"""Draws of weights for each task of a thread, chosen by trial: so many, or, where a draw has few
weights, as many as have this many together."""
_SAMPLE = 256
"""Atoms, at least, that stand for a sampled base measure where the unweighted table is solved."""
_MOST_ATOMS = 1_000_000
"""More atoms than this would not fit into memory for a block of draws."""


class Stream:
    """Names of the independent streams of random numbers behind one seed."""

    DRAWS = 0
    PILOT = 1
    STARTS = 2
    PRIOR = 3
    OUTCOMES = 4
    REPLICATES = 5
    REPLICATE_WEIGHTS = 6
    LEFT_OUT = 7
    FOLDS = 8
    TRAINING = 9
    ROWS = 10
    REPLICATE_PRIOR = 11

    @staticmethod
    def generator(seed: int, stream: int, block: int = 0) -> np.random.Generator:
        """The generator of a block of a stream."""
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, block)))

    @staticmethod
    def draws(seed: int, stream: int = DRAWS, first: int = 0) -> "Draws":
        """The generators of draws `first`, `first + 1`, ..."""
        return Draws(seed, stream, first)


@dataclass(frozen=True)
class Draws:
    """The generators of draws `first`, `first + 1`, ...; each must be used before the next.

    They are one generator, set to places far apart: a new one for each draw would cost more than
    the draw.
    """

    seed: int
    stream: int
    first: int

    def __iter__(self) -> Iterator[np.random.Generator]:
        bits = np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(self.stream,)))
        start, rng = bits.state, np.random.Generator(bits)
        for draw in count(self.first):
            bits.state = start
            bits.advance(draw * _STRIDE % (1 << 128))
            yield rng

    def after(self, n: int) -> "Draws":
        """The same without the first n."""
        return replace(self, first=self.first + n)


def block_size(per_draw: int, n_atoms: int = 0) -> int:
    """Draws in a block: a power of two that depends on the problem alone.

    ``per_draw`` are the array elements that a draw needs; with atoms of its own, each draw adds
    that many cells to the table of all draws of the block.
    """
    size = 1024
    while size > 1:
        elements = size * (per_draw + size * n_atoms)
        if elements <= (_BLOCK_ELEMENTS if size > _FEW else _MOST_ELEMENTS):
            break
        size //= 2
    return size


@dataclass(frozen=True)
class Prior:
    """A Dirichlet process around a base measure, worth `alpha` rows.

    Parameters
    ----------
    alpha : float
        How many rows the prior counts for, above 0.
    base_measure : Cells or callable
        A table of the observed columns (its counts are normalised): the posterior is then exactly
        Dirichlet(counts + alpha * base). Or a function (rng, size) to (x, y): each draw then sees
        `n_atoms` fresh atoms, each of weight Gamma(alpha / n_atoms), as in the paper's Algorithm 1.
    n_atoms : int
        Used with a function only.

    Examples
    --------
    A quarter of twenty answers is yes. A prior worth twenty more, half of them yes, moves the share
    to the middle between them:

    >>> import numpy as np, tvdbayes as tb
    >>> cells = tb.Cells.from_counts([[1.0], [1.0]], [0, 1], [15, 5])
    >>> prior = tb.Prior(20.0, tb.Cells.from_counts([[1.0], [1.0]], [0, 1], [0.5, 0.5]))
    >>> model = tb.Model(tb.Bernoulli())
    >>> fit = tb.posterior_bootstrap(model, cells, prior=prior, refine=None, n_draws=200)
    >>> np.mean(1 / (1 + np.exp(-fit.draws))).round(2)
    np.float64(0.38)
    """

    alpha: float
    base_measure: Cells | BaseMeasure
    n_atoms: int = 100

    def __post_init__(self) -> None:
        if not (isinstance(self.alpha, Real) and np.isfinite(self.alpha) and self.alpha > 0):
            raise SettingsError(
                f"alpha must be a positive number of rows; got {self.alpha!r}. "
                "Leave the prior out for alpha = 0."
            )
        whole_number("n_atoms", self.n_atoms, 1, _MOST_ATOMS)
        if not (callable(self.base_measure) or isinstance(self.base_measure, Cells)):
            raise SettingsError(
                "base_measure must be a table (Cells) or a function (rng, size) to (x, y); "
                f"got {type(self.base_measure).__name__}."
            )

    @property
    def drawn(self) -> bool:
        """Whether the atoms must be drawn, because the base measure is a function."""
        return callable(self.base_measure)

    def rows(self, cells: Cells, rng: np.random.Generator) -> Cells:
        """What the prior counts for: `alpha` rows, exactly, or a sample if it must be drawn."""
        base = self.base_measure
        if callable(base):
            x, y = _draw_atoms(base, rng, max(self.n_atoms, _SAMPLE), cells)
            base = Cells.from_rows(x, y, names=cells.names)
        return replace(base, counts=base.p * self.alpha)

    def absorb(self, cells: Cells, rng: np.random.Generator) -> Cells:
        """The table with the rows of the prior added."""
        return cells.merge(self.rows(cells, rng))


def _draw_atoms(
    base: BaseMeasure, rng: np.random.Generator, size: int, cells: Cells
) -> tuple[Array, Array]:
    """Call a base measure and check what it returns against the columns of a table."""
    if cells.offset.any() or (cells.trials != 1).any():
        raise SettingsError(
            "A base measure that is a function draws x and y only, so it cannot be used with "
            "offsets or trials. Give it as a table (Cells) with these columns."
        )
    wanted = f"x of shape ({size}, {cells.x.shape[1]}) and y of shape ({size},)"
    advice = "It is called as base_measure(rng, size)."
    drawn: object = base(rng, size)
    if not (isinstance(drawn, tuple | list) and len(drawn) == 2):
        raise DataError(
            f"The base measure must return {wanted}; got {type(drawn).__name__}. {advice}"
        )
    try:
        x, y = (np.asarray(part) for part in drawn)
    except ValueError as error:
        raise DataError(f"The base measure must return {wanted}: {error}. {advice}") from error
    if x.shape != (size, cells.x.shape[1]) or y.shape != (size,):
        raise DataError(
            f"The base measure must return {wanted}; got {x.shape} and {y.shape}. {advice}"
        )
    # Compressing refuses whatever is not a finite number.
    Cells.from_rows(x, y, names=cells.names)
    return x.astype(float), y.astype(float)


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Tables of a block of draws: common cells, and the mass p (m, B) that each draw gives them."""

    cells: Cells
    p: Array


def reweight(cells: Cells, rngs: Draws, n_draws: int, prior: Prior | None = None) -> Reweighted:
    """Draw random tables, each by its own generator; a `prior` adds fresh atoms to every draw."""
    if prior is None and cells.counts.min() >= 1:
        mass = np.empty((n_draws, cells.n_cells))
        alone = bool((cells.counts == 1).all())
        together = max(_TOGETHER, _WEIGHTS // cells.n_cells)

        def some(start: int) -> None:
            rows = mass[start : start + together]
            for row, rng in zip(rows, rngs.after(start), strict=False):
                if alone:
                    # The same numbers as Gamma(1), in a third of the time.
                    rng.standard_exponential(out=row)
                else:
                    rng.standard_gamma(cells.counts, out=row)
            rows /= rows.sum(1, keepdims=True)

        in_parts(some, range(0, n_draws, together))
        return Reweighted(cells, mass.T)
    each = islice(rngs, n_draws)
    if prior is None:
        log_mass = np.array([_log_gammas(rng, cells.counts) for rng in each])
        mass = np.exp(log_mass - log_mass.max(1, keepdims=True))
        mass /= mass.sum(1, keepdims=True)
        return Reweighted(cells, np.ascontiguousarray(mass.T))
    base = prior.base_measure
    if not callable(base):
        raise SettingsError("A finite base measure is absorbed into the table, not drawn.")
    shape = np.full(prior.n_atoms, prior.alpha / prior.n_atoms)
    drawn = []
    for rng in each:
        own = _log_gammas(rng, cells.counts)
        drawn.append((own, _log_gammas(rng, shape), *_draw_atoms(base, rng, prior.n_atoms, cells)))
    mass, atom_mass, x, y = (np.stack(parts) for parts in zip(*drawn, strict=True))
    return _with_atoms(cells, mass, np.concatenate(x), y.ravel(), atom_mass)


@dataclass(frozen=True, eq=False)
class RandomWeights:
    """How a table is reweighted at random.

    Parameters
    ----------
    cells : Cells
        The table that is reweighted.
    units : SamplingUnits or None
        What is exchangeable; None: the rows.
    prior : Prior or None
        A prior whose atoms are drawn.
    """

    cells: Cells
    units: SamplingUnits | None = None
    prior: Prior | None = None

    @property
    def counts(self) -> Array:
        """How many units there are of each kind, (u,); the cells are the kinds of rows."""
        return self.cells.counts if self.units is None else self.units.counts

    def draw(self, rngs: Draws, n_draws: int) -> Reweighted:
        """A block of random tables, each by its own generator (see `Stream.draws`)."""
        if self.units is None:
            return reweight(self.cells, rngs, n_draws, self.prior)
        return Reweighted(self.cells, _of_units(self.units, rngs, n_draws))

    def rows_of(self, numbers: Array | IntArray) -> Array:
        """How many rows so many units (u,) of each kind stand for in each cell, (m,)."""
        rows = np.asarray(numbers, float)
        return rows if self.units is None else np.asarray(self.units.by_cell @ rows, float)

    def draw_without(
        self, seed: int, removed: Array | IntArray, n_draws: int
    ) -> tuple[Array, IntArray]:
        """The draws of a seed without so many units (u,) of each kind, and the cells left in them.

        A share Beta(k - r, r) of a Gamma(k) is a Gamma(k - r): what r of k equal units leave of
        their weight. So draws with and without them are paired. Masses are of the cells left.
        """
        left, rngs = self.counts - removed, Stream.draws(seed)
        shares = np.ones((n_draws, len(left)))
        for kind in np.flatnonzero(removed):
            rng = Stream.generator(seed, Stream.LEFT_OUT, int(kind))
            own = rng.beta(left[kind], removed[kind], n_draws) if left[kind] else 0.0
            shares[:, kind] = own
        if self.units is None:
            p = np.ascontiguousarray(reweight(self.cells, rngs, n_draws).p)
            p *= shares.T
            p /= p.sum(0)
        else:
            p = _of_units(self.units, rngs, n_draws, left, shares)
        kept = np.flatnonzero(self.rows_of((left > 0).astype(float)))
        return (p if kept.size == len(p) else np.ascontiguousarray(p[kept])), kept


def _of_units(
    units: SamplingUnits,
    rngs: Draws,
    n_draws: int,
    left: Array | None = None,
    shares: Array | None = None,
) -> Array:
    """Masses (m, B) of the cells; of the units so many are ``left`` (u,), with these shares
    (B, u) of their weights.
    """
    counts, starts = units.counts, units.strata_starts
    number = np.add.reduceat(counts if left is None else left, starts)
    p = np.empty((n_draws, units.n_cells))
    several = np.flatnonzero(counts != 1)

    def some(start: int) -> None:
        part = slice(start, min(start + _TOGETHER, n_draws))
        each = islice(rngs.after(start), part.stop - part.start)
        if counts.min() >= 1:
            weight = np.empty((part.stop - part.start, len(counts)))
            for row, rng in zip(weight, each, strict=True):
                # Gamma(1) is the exponential law, which is drawn much faster.
                rng.standard_exponential(out=row)
                row[several] = rng.standard_gamma(counts[several])
        else:
            log = np.stack([_log_gammas(rng, counts) for rng in each])
            # Weights of a stratum are scaled together, so that its largest may be 1.
            weight = np.exp(log - np.maximum.reduceat(log, starts, axis=1)[:, units.stratum])
        if shares is not None:
            weight *= shares[part]
        p[part] = units.masses(weight, number)

    in_parts(some, range(0, n_draws, _TOGETHER))
    return p.T


def _with_atoms(cells: Cells, mass: Array, x: Array, y: Array, atom_mass: Array) -> Reweighted:
    """Add each draw's atoms to the common cells."""
    n_draws, n_atoms = atom_mass.shape
    joint = cells.merge(Cells.from_rows(x, y, names=cells.names))
    of_data = _locate(joint, cells.x[cells.x_index], cells.y)
    of_atoms = _locate(joint, x, y).reshape(n_draws, n_atoms)
    peak = np.maximum(mass.max(1), atom_mass.max(1))[:, None]
    p = np.zeros((n_draws, joint.n_cells))
    p[:, of_data] = np.exp(mass - peak)
    np.add.at(p, (np.arange(n_draws)[:, None], of_atoms), np.exp(atom_mass - peak))
    p /= p.sum(1, keepdims=True)
    return Reweighted(joint, np.ascontiguousarray(p.T))


def _locate(cells: Cells, x: Array, y: Array) -> IntArray:
    """The cell of each (x, y), all of which are in the table."""
    known = np.concatenate([np.c_[cells.x[cells.x_index], cells.y], np.c_[x, y]])
    _, index = np.unique(known, axis=0, return_inverse=True)
    index = index.ravel()
    cell_of = np.empty(cells.n_cells, np.intp)
    cell_of[index[: cells.n_cells]] = np.arange(cells.n_cells)
    return cell_of[index[cells.n_cells :]]


def _log_gammas(rng: np.random.Generator, shape: Array) -> Array:
    """Logarithms of Gamma(shape), which for small shapes are far below what floats can hold."""
    small = shape < 1
    draws = np.log(rng.standard_gamma(shape + small))
    if small.any():
        # Gamma(a) = Gamma(a + 1) * U ** (1 / a).
        draws += np.where(small, -rng.standard_exponential(shape.shape) / shape, 0.0)
    return draws
