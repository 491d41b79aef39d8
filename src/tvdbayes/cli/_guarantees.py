"""``tvdbayes bound`` and ``tvdbayes plan``: guarantees, and how many rows a study needs."""

from typing import Any

import click

from tvdbayes._errors import SettingsError
from tvdbayes.cli._commands import examples, plain, value_option

_ROWS = value_option("--rows", click.IntRange(1), "N", "Rows.", required=True)
_DELTA = value_option(
    "--delta",
    click.FloatRange(0, 1, min_open=True, max_open=True),
    "P",
    "Probability that the bound fails.",
    default=0.05,
)
_SHARE = value_option(
    "--share", click.FloatRange(0, 1, max_open=True), "P", "Share of wrong rows.", default=0.0
)


def _help_alone(ctx: click.Context) -> None:
    """Show the help where no command follows."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.group(invoke_without_command=True, subcommand_metavar="COMMAND ...")
@click.pass_context
def bound(ctx: click.Context) -> None:
    """Print a guarantee that holds at any number of rows."""
    _help_alone(ctx)


@bound.command()
@_ROWS
@value_option("--cells", click.IntRange(2), "N", "Outcomes.", required=True)
@_DELTA
def radius(rows: int, cells: int, delta: float) -> None:
    """How far a table of ROWS rows can be from the law behind it."""
    from tvdbayes.bounds import tvd_radius

    click.echo(plain(tvd_radius(rows, delta, n_cells=cells)))


@bound.command()
@_ROWS
@value_option("--x", click.IntRange(1), "N", "Covariates.", name="n_x", required=True)
@value_option("--y", click.IntRange(2), "N", "Outcomes.", name="n_y", required=True)
@_DELTA
@click.option("--as-printed", is_flag=True, help="The paper's own bound, which is false.")
def deviation(rows: int, delta: float, **given: Any) -> None:
    """How far the distance of any model can be off, over all parameters at once."""
    from tvdbayes import bounds

    click.echo(plain(bounds.deviation(rows, delta, **given)))


@bound.command()
@_SHARE
@click.option("--x-untouched", is_flag=True, help="Wrong rows have the covariates of good ones.")
def robustness(share: float, x_untouched: bool) -> None:
    """How far a share of wrong rows can move the distance."""
    from tvdbayes.bounds import robustness_radius

    click.echo(plain(robustness_radius(share, contaminated_x=not x_untouched)))


@click.group(invoke_without_command=True, subcommand_metavar="COMMAND ...")
@click.pass_context
def plan(ctx: click.Context) -> None:
    """How many rows a study needs."""
    _help_alone(ctx)


@plan.command()
@value_option("--parameters", click.IntRange(1), "N", "In all.", required=True)
def groups(parameters: int) -> None:
    """Rows needed for continuous covariates, which are compared in groups."""
    from tvdbayes.plan import groups as plan_groups

    click.echo(plain(plan_groups(parameters)))


@plan.command(epilog=examples("tvdbayes plan rows --coefficients 1,0.5 --width 0.2 --share 0.1"))
@value_option("--family", str, "NAME", "The law.", default="poisson")
@value_option(
    "--coefficients",
    str,
    "A,B,...",
    "Expected intercept and slopes; the width is that of the last.",
    required=True,
)
@value_option(
    "--width",
    click.FloatRange(0, min_open=True),
    "W",
    "Width of its 90 % interval that is wanted.",
    required=True,
)
@click.option("--binary", is_flag=True, help="Covariates are 0 or 1, not standard normal.")
@_SHARE
@value_option("--shift", float, "N", "Of wrong outcomes.", default=20.0)
@value_option("--seed", click.IntRange(0), "N", None, default=0)
def rows(
    *,
    family: str,
    coefficients: str,
    width: float,
    binary: bool,
    share: float,
    shift: float,
    seed: int,
) -> None:
    """Rows until the interval of a coefficient is so narrow, by simulation."""
    import numpy as np

    from tvdbayes.formula.columns import family_by_name
    from tvdbayes.models.model import Model
    from tvdbayes.plan import sample_size, shifted_by
    from tvdbayes.sampling.execution import progress_bar

    try:
        theta = np.array([float(word) for word in coefficients.split(",")])
    except ValueError as error:
        raise SettingsError(
            f"--coefficients takes numbers with commas, such as 1,0.5; got {coefficients!r}."
        ) from error
    model = Model(family_by_name(family, None))

    def design(rng: np.random.Generator, n: int) -> Any:
        shape = (n, len(theta) - 1)
        x = rng.integers(0, 2, shape) if binary else rng.normal(size=shape)
        return np.column_stack([np.ones(n), x])

    with progress_bar(None, "simulated data sets") as report:
        found = sample_size(
            model,
            design,
            theta,
            coefficient=len(theta) - 1,
            width=width,
            share=share,
            contaminant=shifted_by(shift) if share else None,
            seed=seed,
            progress=report,
        )
    click.echo(plain(found))
