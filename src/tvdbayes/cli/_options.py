"""Options of the command line, and among them those of a fit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from tvdbayes._errors import TVDBayesError
from tvdbayes.cli._words import FLAGS, plain
from tvdbayes.sampling.options import DEFAULTS, OPTIONS


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
