"""What commands share: options, those of a fit among them, and messages in one line.

This file imports nothing heavy.
"""

import gc
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from tvdbayes._errors import Interrupted, TVDBayesError, hearing
from tvdbayes.sampling.options import DEFAULTS, OPTIONS

FLAGS = {
    name: f"--{name.removeprefix('n_').replace('_', '-')}"
    for name, option in OPTIONS.items()
    if not option.no_flag
}
"""Options of a fit on the command line."""

_NAME = "|".join(FLAGS)
_ARGUMENT = re.compile(
    rf"\b({_NAME})=(?!tb\.)(?:(['\"])(.*?)\2|(\w(?:[\w.]*\w)?))?|^({_NAME})(?= must| holds|\[)"
)
IN_A_TERMINAL = (
    (r'predictors=\{"(\w+)": "~ (.*?)"\}', r'--predictors "\1 ~ \2"'),
    (
        r"Read it with pandas\.read_csv\(\.\.\., sep=(.*)\) and pass the data frame",
        r"Pass --sep \1",
    ),
    (
        r'Or read the data into a data frame and pass that \(engine="memory" for a single file\)',
        "A single file can be read whole: --engine memory",
    ),
    (r"Read it yourself and pass the data frame", "Save it as one of them"),
    (r"Or pass a data frame", "Or save it as CSV"),
    (r", or read it with its encoding and pass the data frame", ""),
    (r"a number of bins, or a tvdbayes\.Grid", "a number of bins"),
    (
        r"fit all rows as a Dask DataFrame, read a sample into a data frame,",
        "fit a sample of the rows,",
    ),
    (r" ?If they are levels, name all of them: family=tb\.\w+\(.*\.\.\.\)\)\.", ""),
    (r", or name the levels from low to high: family=tb\.Ordinal\([^)]*\)\)", ""),
    (
        r"See rows\(\) and the columns diff of summary\(\)",
        "See the suspicious rows, and the columns diff of the table",
    ),
    (r"`status` says which", "the column status of the draws says which"),
    (r"Save what fit returns, fit\.save\(\)", "Give a file that tvdbayes fit --out has written"),
    (r"; ask for [^;.]*\(\)[^;.]* instead", ""),
)
"""Advice for Python, and its replacement in a terminal."""


def plain(message: object) -> str:
    """The message in one line, with command-line options in place of Python arguments."""
    text = " ".join(str(message).split())
    for advice, instead in IN_A_TERMINAL:
        text = re.sub(advice, instead, text)
    return printable(_ARGUMENT.sub(_as_option, text))


def _as_option(found: re.Match[str]) -> str:
    value = found[3] or found[4]
    flag = FLAGS[found[1] or found[5]]
    return f"{flag} {'none' if value == 'None' else value}" if value else flag


def printable(text: object) -> str:
    """Text from the data without what would move the cursor, colour the terminal or hide itself."""
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
    return "".join(escaped)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Collect what the library warns of; the list is complete when the block ends."""
    notes: list[str] = []
    with hearing() as heard:
        yield notes
    notes += dict.fromkeys(map(plain, heard))


def examples(*lines: str, title: str = "") -> str:
    """Lines below the options that keep their breaks, which is what the first character says."""
    title = title or ("Examples" if len(lines) > 1 else "Example")
    return "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines)])


def value_option(
    flag: str,
    kind: Any,
    metavar: str | None,
    about: str | None,
    *,
    default: Any = None,
    name: str | None = None,
    **more: Any,
) -> Callable[[Any], Any]:
    """An option that takes a value, as a decorator; the help says its default, if it has one."""
    names = (flag,) if name is None else (flag, name)
    if not more.get("required"):
        more |= {"default": default, "show_default": default is not None}
    return click.option(*names, type=kind, metavar=metavar, help=about, **more)


def model_option(name: str) -> Callable[[Any], Any]:
    """An option of a fit as a decorator of a command."""
    option = OPTIONS[name]
    return value_option(
        FLAGS[name],
        click.UNPROCESSED,
        option.metavar,
        option.about,
        default=DEFAULTS[name],
        name=name,
        multiple=option.repeated,
        callback=_value,
        shell_complete=partial(_complete, name),
    )


def _value(ctx: click.Context, param: click.Parameter, text: Any) -> Any:
    """The value of an option, or what Python would say of it."""
    option, name = OPTIONS[str(param.name)], str(param.name)
    if text == DEFAULTS[name]:
        return text
    value = option.read(text)
    if name == "n_draws" and value in (0, 1):
        raise click.UsageError(f"{FLAGS[name]} must be at least 2, for intervals; got {value}.")
    try:
        option.check(name, value)
    except TVDBayesError as error:
        raise click.UsageError(plain(error), ctx) from error
    return value


def _complete(name: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del ctx, param
    from tvdbayes.cli._families import written_names

    option = OPTIONS[name]
    words = [word for word in option.metavar.split("|") if word.islower()]
    names = written_names() if name == "family" else [*words, *option.choices()]
    return [one for one in names if one.startswith(incomplete)]


_YOUNG = 50_000
"""New objects after which Python looks for garbage among them."""

_STOPPED = 130
"""What shells report for a command that Ctrl-C has ended."""


class Commands(click.Group):
    """Commands in the order they are declared, whose errors take one line."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        # Imports make many objects and hardly any garbage: looking for it takes a tenth of the
        # time of a short command.
        gc.set_threshold(_YOUNG)
        _open_closed_streams()
        return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names as they are declared."""
        return list(self.commands)

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the words; the command as it was typed is kept as `obj`."""
        command = shlex.join(["tvdbayes", *args])
        with _in_one_line():
            made = super().make_context(info_name, args, parent, **extra)
        made.obj, made.color = command, _colour()
        return made

    def invoke(self, ctx: click.Context) -> Any:
        """Do what the command says."""
        with _in_one_line():
            return super().invoke(ctx)


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
