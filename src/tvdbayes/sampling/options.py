"""The options of a fit: the default, the check and the meaning of each, and its form as text.

`tvdbayes.fit` and the command line offer these options, and a fit keeps them as they were given.
What the data made of them is in the other fields of its `Posterior`: "auto" chooses by the rows, a
family by name learns its levels from them, groups and bins are learned on them.

The help of the command line reads this module, so it imports nothing heavy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from tvdbayes._errors import SettingsError
from tvdbayes._validate import is_whole, seed_of
from tvdbayes.sampling import option_kinds as kind
from tvdbayes.sampling.option_kinds import Option

if TYPE_CHECKING:
    from tvdbayes.data.cells import Cells
    from tvdbayes.data.grid import Grid
    from tvdbayes.data.table import Missing
    from tvdbayes.models.families import AbstractFamily
    from tvdbayes.models.predictors import MLP
    from tvdbayes.objective._kinds import AbstractDivergence
    from tvdbayes.objective.partitions import AbstractPartition
    from tvdbayes.sampling.weights import BaseMeasure, Prior


@dataclass(frozen=True)
class Connection:
    """Stands for an Ibis connection, which no file can hold, by the name of its kind."""

    kind: str

    @classmethod
    def of(cls, engine: Any) -> "str | Connection | None":
        """What is kept of ``engine=``."""
        known = engine is None or isinstance(engine, str | Connection)
        return engine if known else cls(str(engine.name))


NO_PRIOR_WITH_UNITS = (
    "A Dirichlet-process prior (alpha=) counts in rows that are exchangeable, so it cannot be used "
    "with clusters=, strata= or sampling_weights=. Leave it out."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Options:
    """The options of `tvdbayes.fit`, checked; `OPTIONS` says what each means.

    Names of divergences and partitions, and sizes of layers, are kept as what they stand for.
    """

    family: Annotated[
        "str | AbstractFamily",
        Option("Law of the outcome; `tvdbayes families` lists them.", kind.family, "NAME"),
    ] = "poisson"
    link: Annotated[
        str | None,
        kind.named(
            "log for counts; otherwise logit, which is the default, probit or cloglog.",
            *("link", kind.link),
        ),
    ] = None
    success: Annotated[
        str | None,
        Option(
            "The answer of a yes/no outcome that counts as 1; the second in order unless given.",
            *(kind.answer, "ANSWER"),
        ),
    ] = None
    divergence: Annotated[
        "AbstractDivergence",
        kind.named(
            "What closest means: tvd, kld (the likelihood fit), hellinger, power, density_power.",
            *("divergence", kind.thing_by_name),
        ),
    ] = "tvd"  # type: ignore[assignment]
    n_draws: Annotated[int, kind.whole("Posterior draws.", 0, 10_000_000)] = 1000
    seed: Annotated[
        int, Option("The same seed gives the same draws.", seed_of, "N", convert=int)
    ] = 0
    rng: Annotated[
        Any,
        Option(
            "The seed, as newer libraries call it: a number, or a generator that gives one.",
            kind.seed_or_none,
            no_flag="A terminal has --seed.",
            # It becomes the seed, which is kept.
            draws=False,
        ),
    ] = None
    offset: Annotated[str | None, kind.column("Added to the linear predictor.")] = None
    exposure: Annotated[str | None, kind.column("Its logarithm is added to it.")] = None
    trials: Annotated[
        str | float | None,
        Option(
            "Trials of binomial outcomes: a column, or a number for all rows.",
            *(kind.number_or_column, "COLUMN|N", kind.column_or_whole),
        ),
    ] = None
    weights: Annotated[str | None, kind.column("How many rows each row stands for.")] = None
    clusters: Annotated[
        str | None,
        kind.column("Labels of rows that belong together: repeated measures, schools, households."),
    ] = None
    strata: Annotated[
        str | None, kind.column("Labels of strata from which rows, or clusters, were drawn.")
    ] = None
    sampling_weights: Annotated[
        str | None, kind.column("How many of the population each row of a survey stands for.")
    ] = None
    partition: Annotated[
        "AbstractPartition",
        kind.named(
            "Which rows are compared together: auto, distinct, kmeans or singletons.",
            *("partition", kind.thing_by_name),
        ),
    ] = "auto"  # type: ignore[assignment]
    alpha: Annotated[
        float,
        kind.must_be(
            "How many rows a Dirichlet-process prior counts for; 0 is no prior.",
            *("a number of at least 0", kind.at_least_0, "NUMBER"),
            convert=float,
        ),
    ] = 0.0
    base_measure: Annotated[
        "Cells | BaseMeasure | dict[str, tuple[Any, ...]] | Literal['fit'] | None",
        Option(
            "What the prior expects to see: fit, the likelihood fit, which is the default; or a "
            "file of rows with the columns of the data.",
            *(kind.base_measure, "fit|FILE"),
        ),
    ] = None
    n_atoms: Annotated[
        int,
        kind.whole(
            "Atoms of each draw from a prior whose base measure is a function.",
            *(1, 1_000_000),
            no_flag="It is for a base measure that is a function, which text cannot hold.",
        ),
    ] = 100
    ridge: Annotated[
        float | Literal["auto"],
        kind.must_be(
            "Penalty on the variance of the linear predictor.",
            '"auto" or a number of at least 0',
            lambda v: v == "auto" if isinstance(v, str) else kind.at_least_0(v),
            "auto|NUMBER",
            convert=float,
        ),
    ] = "auto"
    bins: Annotated[
        Sequence[float] | Literal["auto", "none"],
        Option(
            "Counts that are compared together, by the first of each bin; auto where they are "
            "thin.",
            *(kind.bin_starts, "auto|none|N,N,...", kind.list_of(float)),
        ),
    ] = "auto"
    predictors: Annotated[
        dict[str, str] | None,
        Option(
            'Covariates of a further predictor, as in "inflation ~ child"; may be repeated.',
            *(kind.terms_by_name, "FORMULA", kind.formulas),
            repeated=True,
        ),
    ] = None
    network: Annotated[
        "MLP | None",
        Option(
            "A network in place of a linear predictor: the nodes of each hidden layer.",
            *(kind.layers, "N,N,...", kind.list_of(int)),
        ),
    ] = None
    refine: Annotated[
        Literal["auto", "trim", "reweight"] | None,
        kind.one_of(
            "What is done with rows that the model cannot explain; none: the paper's posterior.",
            *("auto", "trim", "reweight", None),
        ),
    ] = "auto"
    missing: Annotated[
        "Missing", kind.one_of("What to do with rows that have gaps.", "error", "drop")
    ] = "error"
    zero_exposure: Annotated[
        "Missing",
        kind.one_of(
            "What to do with rows whose exposure is 0, or whose offset is minus infinity.",
            *("error", "drop"),
        ),
    ] = "error"
    collinear: Annotated[
        Literal["error", "drop"],
        kind.one_of("What to do with columns that others determine.", "error", "drop"),
    ] = "error"
    n_jobs: Annotated[
        int | None,
        kind.must_be(
            "Processes, 1 unless given; -1 is one for each core.",
            "at least 1, or -1 for all cores",
            lambda v: v is None or (is_whole(v) and (v == -1 or v >= 1)),
            "N",
            convert=int,
            draws=False,
        ),
    ] = None
    device: Annotated[
        str | None,
        kind.must_be(
            "Where JAX computes the draws: gpu, or gpu:float32. NumPy computes them unless given.",
            'a name such as "gpu", or None',
            lambda v: isinstance(v, str | None),
            "NAME",
        ),
    ] = None
    engine: Annotated[
        Any,
        kind.must_be(
            "memory reads every row; duckdb groups them first, as it does by itself for several "
            "files, folders, and files over 256 MiB.",
            '"memory", "duckdb" or an Ibis connection',
            lambda v: not isinstance(v, str) or v in ("memory", "duckdb"),
            "memory|duckdb",
        ),
    ] = None
    grid: Annotated[
        "Grid | int | None",
        Option(
            "Let the engine round continuous columns to N values each.",
            *(kind.grid, "N", int),
        ),
    ] = None
    max_cells: Annotated[int, kind.whole("Distinct rows that an engine may give back.", 1)] = (
        1_000_000
    )
    resume: Annotated[
        Any,
        Option(
            "A saved fit with fewer draws, else the same: they are not computed again.",
            metavar="FIT",
            draws=False,
        ),
    ] = None
    progress: Annotated[
        bool | None,
        Option(
            "Whether to show a progress bar.",
            no_flag="A terminal shows a bar; --quiet hides it.",
            draws=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, option.check(name, getattr(self, name)))
        if self.rng is not None:
            if self.seed != DEFAULTS["seed"]:
                raise SettingsError("seed= and rng= are two names of one thing. Give one of them.")
            object.__setattr__(self, "seed", self.rng)
            object.__setattr__(self, "rng", None)
        if self.base_measure is not None and not self.alpha:
            raise SettingsError("base_measure= needs alpha= above 0: how many rows it counts for.")
        if self.base_measure is None and self.alpha:
            object.__setattr__(self, "base_measure", "fit")
        if self.alpha and self.grouped:
            raise SettingsError(NO_PRIOR_WITH_UNITS)

    @property
    def grouped(self) -> tuple[str, ...]:
        """The columns that say which rows belong together and what they stand for."""
        given = (self.clusters, self.strata, self.sampling_weights)
        return tuple(name for name in given if name is not None)

    @property
    def prior(self) -> "Prior | None":
        """The Dirichlet-process prior, if there is one that needs no further data."""
        from tvdbayes.sampling.weights import Prior

        base = self.base_measure
        if base is None or isinstance(base, str | dict):
            return None
        return Prior(self.alpha, base, self.n_atoms)

    @property
    def of_draws(self) -> dict[str, Any]:
        """Those that `posterior_bootstrap` takes, as its arguments."""
        names = ("divergence", "partition", "n_draws", "seed", "prior", "ridge", "bins", "refine")
        return {name: getattr(self, name) for name in (*names, "n_jobs", "device")}

    def kept(self, **changes: Any) -> Self:
        """What a record keeps: the options on which draws depend, with these changes."""
        others = {name: DEFAULTS[name] for name, option in OPTIONS.items() if not option.draws}
        return replace(self, **others, engine=Connection.of(self.engine), **changes)

    def changed(self) -> dict[str, Any]:
        """The options on which draws depend that differ from their defaults; names where there are.

        Examples
        --------
        >>> import tvdbayes as tb
        >>> from tvdbayes.sampling.options import Options
        >>> Options(partition=tb.Auto(), divergence=tb.Hellinger(), ridge=0.1, n_jobs=2).changed()
        {'divergence': 'hellinger', 'ridge': 0.1}
        """
        given = {name: _name(name, getattr(self, name)) for name in OPTIONS if OPTIONS[name].draws}
        return {name: value for name, value in given.items() if value != DEFAULTS[name]}

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{k}={v!r}' for k, v in self.changed().items())})"


def _name(option: str, value: Any) -> Any:
    """The name that stands for a value, or else the value."""
    from tvdbayes.sampling.named import KINDS, NAMES

    names = NAMES[option] if option in KINDS else {}
    return next((name for name, meant in names.items() if meant == value), value)


OPTIONS: dict[str, Option] = {f.name: f.type.__metadata__[0] for f in fields(Options)}  # type: ignore[union-attr]
"""Every option of `tvdbayes.fit` by its name, in the order of its signature."""

DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Options)}
"""The default of each, as in the signature."""
