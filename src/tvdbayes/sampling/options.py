"""The options of a fit: the default, the check and the meaning of each, and its form as text.

`tvdbayes.fit` and the command line offer these options, and a fit keeps them as they were given.
What the data made of them is in the other fields of its `Posterior`: "auto" chooses by the rows, a
family by name learns its levels from them, groups and bins are learned on them.

The help of the command line reads this module, so it imports nothing heavy.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from tvdbayes._errors import SettingsError
from tvdbayes.sampling import option_checks as check
from tvdbayes.sampling import option_text as read

if TYPE_CHECKING:
    from tvdbayes.data.cells import Cells
    from tvdbayes.data.sources import Grid, Missing
    from tvdbayes.models.families import AbstractFamily
    from tvdbayes.models.predictors import MLP
    from tvdbayes.objective.divergences import AbstractDivergence
    from tvdbayes.objective.partitions import AbstractPartition
    from tvdbayes.sampling.weights import BaseMeasure, Prior

__all__ = ["DEFAULTS", "OPTIONS", "Connection", "Option", "Options"]


@dataclass(frozen=True)
class Connection:
    """Stands for an Ibis connection, which no file can hold, by the name of its kind."""

    kind: str

    @classmethod
    def of(cls, engine: Any) -> "str | Connection | None":
        """What is kept of ``engine=``."""
        known = engine is None or isinstance(engine, str | Connection)
        return engine if known else cls(str(engine.name))


@dataclass(frozen=True)
class Option:
    """What is known of an option.

    Parameters
    ----------
    about : str
        What it means, in a sentence.
    check : callable
        From its name and a value to the value that is kept.
    metavar : str
        What stands for its text in the help of the command line; lower case is meant literally.
    read : callable
        From that text to a value.
    repeated : bool
        Whether the command line takes it several times.
    choices : callable
        Names that it takes, where the metavar does not list them.
    no_flag : str
        Why the command line does not have it, if so.
    draws : bool
        Whether draws depend on it.
    """

    about: str
    check: check.Check
    metavar: str = ""
    read: Callable[[Any], Any] = str
    repeated: bool = False
    choices: Callable[[], Iterable[str]] = tuple
    no_flag: str = ""
    draws: bool = True


def _names(name: str) -> Callable[[], Iterable[str]]:
    """The names in the table `NAMES`, looked up when they are needed."""

    def names() -> Iterable[str]:
        from tvdbayes.sampling.named import NAMES

        return NAMES[name]

    return names


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Options:
    """The options of `tvdbayes.fit`, checked; `OPTIONS` says what each means.

    Names of divergences and partitions, and sizes of layers, are kept as what they stand for.
    """

    family: Annotated[
        "str | AbstractFamily",
        Option("Law of the outcome; `tvdbayes families` lists them.", check.family, "NAME"),
    ] = "poisson"
    link: Annotated[
        str | None,
        Option(
            "log for counts; otherwise logit, which is the default, probit or cloglog.",
            *(check.name_in_table, "NAME"),
            choices=_names("link"),
        ),
    ] = None
    divergence: Annotated[
        "AbstractDivergence",
        Option(
            "What closest means: tvd, kld (the likelihood fit), hellinger, power, density_power.",
            *(check.thing_by_name, "NAME"),
            choices=_names("divergence"),
        ),
    ] = "tvd"  # type: ignore[assignment]
    n_draws: Annotated[
        int, Option("Posterior draws.", check.whole(0, 10_000_000), "N", read=read.whole)
    ] = 1000
    seed: Annotated[
        int, Option("The same seed gives the same draws.", check.whole(0), "N", read=read.whole)
    ] = 0
    offset: Annotated[
        str | None, Option("Added to the linear predictor.", check.column, "COLUMN")
    ] = None
    exposure: Annotated[
        str | None, Option("Its logarithm is added to it.", check.column, "COLUMN")
    ] = None
    trials: Annotated[
        str | float | None,
        Option(
            "Trials of binomial outcomes: a column, or a number for all rows.",
            *(check.number_or_column, "COLUMN|N"),
            read=read.column_or_whole,
        ),
    ] = None
    weights: Annotated[
        str | None, Option("How many rows each row stands for.", check.column, "COLUMN")
    ] = None
    partition: Annotated[
        "AbstractPartition",
        Option(
            "Which rows are compared together: auto, distinct, kmeans or singletons.",
            *(check.thing_by_name, "NAME"),
            choices=_names("partition"),
        ),
    ] = "auto"  # type: ignore[assignment]
    alpha: Annotated[
        float,
        Option(
            "How many rows a Dirichlet-process prior counts for; 0 is no prior.",
            *(check.must_be("a number of at least 0", check.is_number), "NUMBER"),
            read=read.number,
        ),
    ] = 0.0
    base_measure: Annotated[
        "Cells | BaseMeasure | None",
        Option(
            "What the prior expects to see: a file of rows with the columns of the data.",
            *(check.anything, "FILE"),
        ),
    ] = None
    n_atoms: Annotated[
        int,
        Option(
            "Atoms of each draw from a prior whose base measure is a function.",
            check.whole(1, 1_000_000),
            no_flag="It is for a base measure that is a function, which text cannot hold.",
        ),
    ] = 100
    ridge: Annotated[
        float | Literal["auto"],
        Option(
            "Penalty on the variance of the linear predictor.",
            check.must_be(
                '"auto" or a number of at least 0',
                lambda v: v == "auto" if isinstance(v, str) else check.is_number(v),
            ),
            "auto|NUMBER",
            read=read.number,
        ),
    ] = "auto"
    bins: Annotated[
        Sequence[float] | Literal["auto", "none"],
        Option(
            "Counts that are compared together, by the first of each bin; auto where they are "
            "thin.",
            *(check.bin_starts, "auto|none|N,N,..."),
            read=read.numbers,
        ),
    ] = "auto"
    predictors: Annotated[
        dict[str, str] | None,
        Option(
            'Covariates of a further predictor, as in "inflation ~ child"; may be repeated.',
            *(check.terms_by_name, "FORMULA"),
            read=read.formulas,
            repeated=True,
        ),
    ] = None
    network: Annotated[
        "MLP | None",
        Option(
            "A network in place of a linear predictor: the nodes of each hidden layer.",
            *(check.layers, "N,N,..."),
            read=read.wholes,
        ),
    ] = None
    refine: Annotated[
        Literal["auto", "trim", "reweight"] | None,
        Option(
            "What is done with rows that the model cannot explain; none: the paper's posterior.",
            *(check.one_of("auto", "trim", "reweight", None), "auto|trim|reweight|none"),
            read=lambda text: None if text == "none" else text,
        ),
    ] = "auto"
    missing: Annotated[
        "Missing",
        Option("What to do with rows that have gaps.", check.one_of("error", "drop"), "error|drop"),
    ] = "error"
    collinear: Annotated[
        Literal["error", "drop"],
        Option(
            "What to do with columns that others determine.",
            *(check.one_of("error", "drop"), "error|drop"),
        ),
    ] = "error"
    n_jobs: Annotated[
        int | None,
        Option(
            "Processes, 1 unless given; -1 is one for each core.",
            check.must_be(
                "at least 1, or -1 for all cores",
                lambda v: v is None or (check.is_whole(v) and (v == -1 or v >= 1)),
            ),
            "N",
            read=read.whole,
            draws=False,
        ),
    ] = None
    device: Annotated[
        str | None,
        Option(
            "Where JAX computes the draws: gpu, or gpu:float32. NumPy computes them unless given.",
            check.must_be('a name such as "gpu", or None', lambda v: isinstance(v, str | None)),
            "NAME",
        ),
    ] = None
    engine: Annotated[
        Any,
        Option(
            "memory reads every row; duckdb groups them first, as it does by itself for several "
            "files, folders, and files over 256 MiB.",
            check.must_be(
                '"memory", "duckdb" or an Ibis connection',
                lambda v: not isinstance(v, str) or v in ("memory", "duckdb"),
            ),
            "memory|duckdb",
        ),
    ] = None
    grid: Annotated[
        "Grid | int | None",
        Option(
            "Let the engine round continuous columns to N values each.",
            *(check.grid, "N"),
            read=read.whole,
        ),
    ] = None
    max_cells: Annotated[
        int,
        Option("Distinct rows that an engine may give back.", check.whole(1), "N", read=read.whole),
    ] = 1_000_000
    resume: Annotated[
        Any,
        Option(
            "A saved fit with fewer draws, else the same: they are not computed again.",
            *(check.anything, "FIT"),
            draws=False,
        ),
    ] = None
    progress: Annotated[
        bool | None,
        Option(
            "Whether to show a progress bar.",
            check.anything,
            no_flag="A terminal shows a bar; --quiet hides it.",
            draws=False,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, option.check(name, getattr(self, name)))
        if self.base_measure is not None and not self.alpha:
            raise SettingsError("base_measure= needs alpha= above 0: how many rows it counts for.")
        if self.base_measure is None and self.alpha:
            raise SettingsError(
                f"alpha={self.alpha} asks for a prior, so base_measure= must be given: what the "
                "prior expects to see."
            )

    @property
    def prior(self) -> "Prior | None":
        """The Dirichlet-process prior, if any."""
        from tvdbayes.sampling.weights import Prior

        base = self.base_measure
        return None if base is None else Prior(self.alpha, base, self.n_atoms)

    @property
    def of_draws(self) -> dict[str, Any]:
        """Those that `posterior_bootstrap` takes, as its arguments."""
        return {
            "divergence": self.divergence,
            "partition": self.partition,
            "n_draws": self.n_draws,
            "seed": self.seed,
            "prior": self.prior,
            "ridge": self.ridge,
            "bins": self.bins,
            "refine": self.refine,
            "n_jobs": self.n_jobs,
            "device": self.device,
        }

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
