"""Options of a fit as options of the command line."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from tvdbayes._errors import TVDBayesError
from tvdbayes.cli._words import FLAGS, plain
from tvdbayes.sampling.options import DEFAULTS, OPTIONS

__all__ = ["model_option"]


def model_option(name: str) -> Callable[[Any], Any]:
    """An option as a decorator of a command."""
    option, default = OPTIONS[name], DEFAULTS[name]
    return click.option(
        FLAGS[name],
        name,
        type=click.UNPROCESSED,
        multiple=option.repeated,
        default=default,
        show_default=default is not None,
        metavar=option.metavar,
        help=option.about,
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
