"""Tables that print themselves, and turn into frames, LaTeX, Markdown, HTML and files of Excel.

In HTML everything that comes from data is escaped.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any, ClassVar

from tvdbayes._errors import SettingsError
from tvdbayes._typing import Array, Library


@dataclass(frozen=True, eq=False)
class AbstractTable:
    """Columns of numbers, with a line for each name; prints itself.

    Parameters
    ----------
    names : tuple of str
    columns : dict of (d,)
    note : str
        Printed below the table.
    header : str
        Printed above it.
    library : Library
        Whose data frames `to_frame` makes, such as "pandas" or "polars".
    """

    names: tuple[str, ...]
    columns: dict[str, Array]
    note: str = ""
    header: str = ""
    library: Library = "pandas"

    first: ClassVar[str]
    """What the names are called."""
    caption: ClassVar[str]
    unprinted: ClassVar[tuple[str, ...]] = ()
    """Columns for those who ask: with them a line is too long for most screens."""

    def heading(self, column: str) -> str:
        """What stands above a column where it is printed."""
        return column

    def text(self, column: str, line: int) -> str:
        """A number of a column as it is printed."""
        return f"{self.columns[column][line]:.4g}"

    def to_dict(self) -> dict[str, object]:
        """Columns by name, to all digits."""
        return {self.first: list(self.names), **self.columns}

    def to_frame(self) -> Any:
        """All columns as a data frame, of the library that the data of the fit came in.

        pandas, where the data were no frame, or where that library is not installed.
        """
        # Whoever makes no frame needs no pandas.
        import pandas as pd

        from tvdbayes.data.sources import native_frame

        return native_frame(pd.DataFrame(self.to_dict()), self.library)

    def to_markdown(self) -> str:
        """What is printed, as a table of Markdown."""
        escaped = ([_MARKDOWN.sub(r"\\\g<0>", cell) for cell in line] for line in self._lines())
        head, *lines = escaped
        ruler = [":--", *("--:" for _ in head[1:])]
        table = "\n".join(f"| {' | '.join(line)} |" for line in (head, ruler, *lines))
        return self._between(table, "\n\n")

    def to_latex(self) -> str:
        """What is printed, as a LaTeX ``tabular`` with the rules of the package booktabs.

        Header and note are comments above it.
        """
        head, *lines = (" & ".join(map(_latex, line)) + r" \\" for line in self._lines())
        about = [f"% {line}" for line in self._between("").splitlines() if line]
        columns = f"l{'r' * (len(self._lines()[0]) - 1)}"
        begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
        ruled = [begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", end]
        return "\n".join([*about, *ruled])

    def to_html(self) -> str:
        """What is printed, as HTML; text is escaped."""
        head, *lines = self._lines()
        above, below = (f"<p>{escape(text)}</p>" if text else "" for text in self._around)
        return f"{above}{html_table(self.caption, head, lines)}{below}"

    def to_excel(self, path: str | os.PathLike[str]) -> None:
        """Write all columns to a file of Excel; it needs ``pip install openpyxl``.

        Names that a spreadsheet would run as formulas are quoted.
        """
        if find_spec("openpyxl") is None:
            raise SettingsError(
                "Excel files need openpyxl, which is not installed. Run: pip install openpyxl. "
                "Or write CSV, by to_frame()."
            )
        import pandas as pd

        from tvdbayes.data.sources import harmless

        frame = pd.DataFrame(self.to_dict())
        frame[self.first] = frame[self.first].map(harmless)
        frame.to_excel(path, index=False)

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    @property
    def _around(self) -> tuple[str, str]:
        return self.header, self.note

    def _between(self, table: str, gap: str = "\n") -> str:
        """A table with its header above and its note below."""
        return gap.join(text for text in (self.header, table, self.note) if text)

    def _lines(self) -> list[list[str]]:
        """What is printed: a header, and a line for each name."""
        shown = [name for name in self.columns if name not in self.unprinted]
        return [[self.first, *map(self.heading, shown)]] + [
            [name, *(self.text(column, i) for column in shown)] for i, name in enumerate(self.names)
        ]

    def __str__(self) -> str:
        return self._between(text_table(self._lines()))

    __repr__ = __str__

    _repr_html_ = to_html


_MARKDOWN = re.compile(r"[\\|*_`<>\[\]]")
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _latex(cell: str) -> str:
    """Text with its special characters written out, and a minus before a number."""
    text = "".join(_LATEX.get(character, character) for character in cell)
    return re.sub(r"^-(?=[\d.]|inf)", "$-$", text)


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
