"""Commands whose errors take one line."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tvdbayes._errors import Interrupted, TVDBayesError
from tvdbayes.cli._words import plain

_STOPPED = 130
"""What shells report for a command that Ctrl-C has ended."""


class Commands(click.Group):
    """Commands in the order they are declared, whose errors take one line."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
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
