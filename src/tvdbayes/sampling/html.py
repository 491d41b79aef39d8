"""Small tables for notebooks. Everything that comes from data is escaped; nothing is loaded."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


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
