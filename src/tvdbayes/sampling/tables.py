"""Small tables, as text and for notebooks. Everything that comes from data is escaped there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import ClassVar

from tvdbayes._typing import Array


@dataclass(frozen=True, eq=False)
class AbstractTable:
    """Columns of numbers, with a line for each name; prints itself.

    Parameters
    ----------
    names : tuple of str
    columns : dict of (d,)
    note : str
        Printed below the table.
    """

    names: tuple[str, ...]
    columns: dict[str, Array]
    note: str = ""

    first: ClassVar[str]
    """What the names are called."""
    caption: ClassVar[str]
    unprinted: ClassVar[tuple[str, ...]] = ()
    """Columns for those who ask: with them a line is too long for most screens."""

    def to_dict(self) -> dict[str, object]:
        """Columns by name, ready for a data frame."""
        return {self.first: list(self.names), **self.columns}

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def _lines(self) -> list[list[str]]:
        """What is printed: a header, and a line for each name."""
        shown = {name: c for name, c in self.columns.items() if name not in self.unprinted}
        return [[self.first, *shown]] + [
            [name, *(f"{column[i]:.4g}" for column in shown.values())]
            for i, name in enumerate(self.names)
        ]

    def __str__(self) -> str:
        return "\n".join([text_table(self._lines()), *([self.note] if self.note else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *lines = self._lines()
        below = f"<p>{escape(self.note)}</p>" if self.note else ""
        return html_table(self.caption, head, lines) + below


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first of them to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [first.ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        )
        for first, *rest in lines
    )


def html_table(caption: str, headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table whose first column names the lines."""
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in headers)
    body = "".join(
        f'<tr><th scope="row" style="text-align: left">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in lines
    )
    return (
        f'<table><caption style="text-align: left">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
