"""``tvdbayes bound`` and ``tvdbayes plan``: guarantees, and how many rows a study needs."""

from typing import Any

import click

from tvdbayes._errors import SettingsError

__all__ = ["bound", "plan"]

_ROWS = click.option("--rows", type=click.IntRange(1), required=True, metavar="N", help="Rows.")
_DELTA = click.option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    metavar="P",
    help="Probability that the bound fails.",
)
_SHARE = click.option(
    "--share",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    metavar="P",
    help="Share of wrong rows.",
)


@click.group()
def bound() -> None:
    """Print a guarantee that holds at any number of rows."""


@bound.command()
@_ROWS
@click.option("--cells", type=click.IntRange(2), required=True, metavar="N", help="Outcomes.")
@_DELTA
def radius(rows: int, cells: int, delta: float) -> None:
    """How far a table of ROWS rows can be from the law behind it."""
    from tvdbayes.bounds import tvd_radius

    click.echo(str(tvd_radius(rows, delta, n_cells=cells)))


@bound.command()
@_ROWS
@click.option("--x", "n_x", type=click.IntRange(1), required=True, metavar="N", help="Covariates.")
@click.option("--y", "n_y", type=click.IntRange(2), required=True, metavar="N", help="Outcomes.")
@_DELTA
@click.option("--as-printed", is_flag=True, help="The paper's own bound, which is false.")
def deviation(rows: int, n_x: int, n_y: int, delta: float, as_printed: bool) -> None:
    """How far the distance of any model can be off, over all parameters at once."""
    from tvdbayes import bounds

    click.echo(str(bounds.deviation(rows, delta, n_x=n_x, n_y=n_y, as_printed=as_printed)))


@bound.command()
@_SHARE
@click.option("--x-untouched", is_flag=True, help="Wrong rows have the covariates of good ones.")
def robustness(share: float, x_untouched: bool) -> None:
    """How far a share of wrong rows can move the distance."""
    from tvdbayes.bounds import robustness_radius

    click.echo(str(robustness_radius(share, contaminated_x=not x_untouched)))


@click.group()
def plan() -> None:
    """How many rows a study needs."""


@plan.command()
@click.option("--parameters", type=click.IntRange(1), required=True, metavar="N", help="In all.")
def groups(parameters: int) -> None:
    """Rows needed for continuous covariates, which are compared in groups."""
    from tvdbayes.plan import groups as plan_groups

    click.echo(str(plan_groups(parameters)))


@plan.command(
    epilog="\b\nExample:\n  tvdbayes plan rows --coefficients 1,0.5 --width 0.2 --share 0.1"
)
@click.option("--family", default="poisson", show_default=True, metavar="NAME", help="The law.")
@click.option(
    "--coefficients",
    required=True,
    metavar="A,B,...",
    help="Expected intercept and slopes; the width is that of the last.",
)
@click.option(
    "--width",
    type=click.FloatRange(0, min_open=True),
    required=True,
    metavar="W",
    help="Width of its 90 % interval that is wanted.",
)
@click.option("--binary", is_flag=True, help="Covariates are 0 or 1, not standard normal.")
@_SHARE
@click.option(
    "--shift", type=float, default=20.0, show_default=True, metavar="N", help="Of wrong outcomes."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N")
def rows(coefficients: str, width: float, **scenario: Any) -> None:
    """Rows until the interval of a coefficient is so narrow, by simulation."""
    import numpy as np

    from tvdbayes.fitting.progress import progress_bar
    from tvdbayes.formula.family import family_by_name
    from tvdbayes.models.model import Model
    from tvdbayes.plan import sample_size, shifted_by

    try:
        theta = np.array([float(word) for word in coefficients.split(",")])
    except ValueError as error:
        raise SettingsError(
            f"--coefficients takes numbers with commas, such as 1,0.5; got {coefficients!r}."
        ) from error
    model = Model(family_by_name(scenario["family"], None))

    def design(rng: np.random.Generator, n: int) -> Any:
        shape = (n, len(theta) - 1)
        x = rng.integers(0, 2, shape) if scenario["binary"] else rng.normal(size=shape)
        return np.column_stack([np.ones(n), x])

    with progress_bar(None, "simulated data sets") as report:
        found = sample_size(
            model,
            design,
            theta,
            coefficient=len(theta) - 1,
            width=width,
            share=scenario["share"],
            contaminant=shifted_by(scenario["shift"]) if scenario["share"] else None,
            seed=scenario["seed"],
            progress=report,
        )
    click.echo(str(found))
