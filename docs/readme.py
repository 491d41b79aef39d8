"""Write the parts of README.md that are measured or printed: example, figures, picture.

``python docs/readme.py`` writes them; with ``--picture`` it makes the picture anew too.
The tests compare, so that the README cannot say what the code does not.
"""

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
RESULTS = DOCS.parent / "benchmarks" / "results"


def example() -> str:
    """The first lines of a newcomer, and what they print."""
    code = (DOCS / "first.py").read_text()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "first.py", "exec"), {})
    shown = "\n".join(line.rstrip() for line in printed.getvalue().rstrip().splitlines())
    return f"```python\n{code}```\n\n```\n{shown}\n```"


def figures() -> str:
    """The table of what was measured, from the tables of the benchmarks."""

    def rate(line: str) -> tuple[str, str, str]:
        found = of("refine", f"Poisson(3), n=2,000, {line}")
        return found["TVD"], found["reweighted"], found["ML"]

    speed, theirs = of("speed", "contaminated Poisson, n=400"), "paper's procedure"
    rows = of("rows", "zero-inflated binomial, 10,000,000 rows")
    engine = of("engines", "100,000,000")
    table = [
        ("", "TVD", "reweighted", "ordinary"),
        ("---",) * 4,
        ("error of a log rate: 15 % of 2,000 counts 10 too high", *rate("15 % +10")),
        ("the same, 15 % zeros", *rate("15 % zeros")),
        ("the same, 3 too high: overlaps the model", *rate("15 % +3")),
        ("the same, clean data", *rate("clean")),
    ]
    lines = [f"| {' | '.join(line)} |" for line in table]
    told = (
        f"A thousand draws on 400 counts take {speed['tb.fit']} s, the paper's procedure "
        f"{speed[theirs]} s; with ten million rows behind the same cells "
        f"{rows['ratio']} times as long as with ten thousand; a hundred million rows in Parquet "
        f"files {engine['seconds']} s on two cores."
    )
    return "\n".join(lines) + "\n\n" + wrapped(told)


def of(name: str, line: str) -> dict[str, str]:
    """A line of a benchmark's table, by the text that it begins with."""
    rows = re.findall(r"^\| (.*) \|$", (RESULTS / f"{name}.md").read_text(), flags=re.MULTILINE)
    head, *lines = ([cell.strip() for cell in row.split(" | ")] for row in rows)
    (found,) = (cells for cells in lines if cells[0] == line)
    return dict(zip(head, found, strict=True))


def wrapped(text: str) -> str:
    """Lines as the README has them."""
    from textwrap import fill

    return fill(text, 100, break_on_hyphens=False)


PARTS: dict[str, Callable[[], str]] = {"example": example, "figures": figures}


def written(text: str) -> str:
    """The README with its parts made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}: python docs/readme.py -->\n", f"\n<!-- {name} ends -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        if not after:
            raise SystemExit(f"README.md has no place for {name}.")
        text = before + begin + make() + end + after
    return text


def picture() -> None:
    """The first figure, by the command that anyone can run."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["reproduce", "figure-1", "--mode", "corrected", "--out", folder]
        subprocess.run([sys.executable, "-m", "tvdbayes", *command], check=True)
        shutil.copy(Path(folder) / "figure-1" / "corrected" / "figure.png", DOCS / "figure_1.png")


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
    if "--picture" in sys.argv:
        picture()
