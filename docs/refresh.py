"""Run a page of the documentation, put what it prints below its code, and save its pictures.

``python docs/refresh.py docs/guarantees.md``. Variables named ``picture_...`` hold axes; each is
saved beside the page. The tests run the page and compare, so a page cannot be out of date.
"""

import contextlib
import doctest
import io
import sys
import warnings
from pathlib import Path


def refresh(page: Path) -> None:
    """Rewrite a page with what its code prints."""
    text = page.read_text()
    names: dict[str, object] = {}
    out, at = [], 0
    parts = doctest.DocTestParser().parse(text)
    for part in parts:
        if isinstance(part, str):
            out.append(part)
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(part.source, page.name, "single"), names)
        code = part.source.rstrip("\n").split("\n")
        out.append(
            "".join(
                f"{'...' if i else '>>>'} {line}".rstrip() + "\n" for i, line in enumerate(code)
            )
        )
        # A blank line would end the expected output.
        out.append("".join(line.rstrip() + "\n" for line in printed.getvalue().splitlines()))
        at += 1
        print(f"{at} examples", end="\r", file=sys.stderr)
    page.write_text("".join(out))
    for name, axes in names.items():
        if name.startswith("picture_"):
            axes.figure.savefig(page.parent / f"{name}.png", dpi=110)  # type: ignore[attr-defined]


if __name__ == "__main__":
    warnings.simplefilter("error")
    for given in sys.argv[1:]:
        refresh(Path(given))
