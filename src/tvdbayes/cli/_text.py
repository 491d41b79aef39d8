"""Tables and paragraphs for a terminal of any width, or a file."""

import json
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.cells import cell_len, set_cell_size

from tvdbayes.cli._commands import printable

_WIDEST = 120
"""Longer lines are hard to read, however wide the terminal is."""
_NARROWEST_NAME = 12
"""Names are cut to no less than this."""


@dataclass(frozen=True)
class Column:
    """A column of a table, as text; where there is no room, needed ones are cut, others dropped."""

    head: str
    cells: Sequence[str]
    left: bool = False  # Where text begins; numbers end at the right.
    needed: bool = True

    @property
    def width(self) -> int:
        """Places that the longest cell takes."""
        return max(cell_len(self.head), *(cell_len(cell) for cell in self.cells), 0)


def width() -> int:
    """Characters in a line: those of the terminal, or 80 where there is none."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 40), _WIDEST)


def table(columns: Sequence[Column], *, bold: bool = False) -> str:
    """The columns side by side: those that fit, from left to right, and all that are needed.

    ``bold`` heads stand out.
    """
    made = [
        Column(printable(c.head), [*map(printable, c.cells)], c.left, c.needed) for c in columns
    ]
    room = width() - sum(c.width + 2 for c in made if c.needed) + 2
    kept = []
    for column in made:
        if not column.needed:
            if column.width + 2 > room:
                continue
            room -= column.width + 2
        kept.append(column)
    # If needed columns are still too wide, names are cut.
    widths = [c.width for c in kept]
    for i, column in enumerate(kept):
        if room < 0 and column.left:
            cut = max(min(widths[i], _NARROWEST_NAME), widths[i] + room)
            room += widths[i] - cut
            widths[i] = cut
    placed = [
        [_placed(cell, size, column.left) for cell in (column.head, *column.cells)]
        for column, size in zip(kept, widths, strict=True)
    ]
    head, *lines = ("  ".join(line).rstrip() for line in zip(*placed, strict=True))
    return "\n".join([heading(head) if bold else head, *lines])


def _placed(cell: str, size: int, left: bool) -> str:
    """A cell in its place, cut where it is too long."""
    if cell_len(cell) > size:
        return set_cell_size(cell, size - 2) + ".."
    blank = " " * (size - cell_len(cell))
    return cell + blank if left else blank + cell


def paragraph(text: str, indent: str = "") -> str:
    """Text in lines that fit; those after the first are indented."""
    lines = text.split("\n")
    return "\n".join(
        textwrap.fill(line, width(), subsequent_indent=indent, break_on_hyphens=False)
        for line in lines
    )


def echo_notes(notes: Iterable[str]) -> None:
    """Print warnings in lines that fit."""
    for text in notes:
        said = paragraph(f"note: {text}", "  ")
        click.echo(said.replace("note:", click.style("note:", fg="yellow"), 1))


def echo_json(told: dict[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(told, indent=2, allow_nan=False))


def heading(text: str) -> str:
    """A line that stands out where the terminal can show it."""
    return click.style(text, bold=True)


def joined(names: Sequence[str], most: int = 10) -> str:
    """Names in a line, the first of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def in_words(seconds: float) -> str:
    """A time that is an estimate, rounded as one.

    Examples
    --------
    >>> from tvdbayes.cli._text import in_words
    >>> [in_words(s) for s in (0.3, 4.4, 95, 8000)]
    ['less than a second', 'about 4 s', 'about 2 min', 'about 2 h 13 min']
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"about {minutes} min"
    return f"about {minutes // 60} h {minutes % 60} min"
