"""Tables that say how they were made."""

import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import scipy

import tvdbayes

RESULTS = Path(__file__).parent / "results"
_KEPT = ContextVar("kept", default=True)


@contextmanager
def only_printed() -> Iterator[None]:
    """Let tables that are published inside be printed, and not kept."""
    token = _KEPT.set(False)
    try:
        yield
    finally:
        _KEPT.reset(token)


@cache
def commit() -> str:
    """The commit that the code is at, marked if the code was changed since; asked once."""
    root = RESULTS.parent.parent
    if shutil.which("git") is None or not (root / ".git").exists():
        return "unknown"

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command], cwd=root, check=True, capture_output=True, text=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


@dataclass(frozen=True)
class Table:
    """Lines of a result, what they show, and how to get them again."""

    name: str
    benchmark: str
    says: str
    columns: tuple[str, ...]
    lines: list[tuple[object, ...]]
    made_on: str = "one core"

    def text(self) -> str:
        rows = [self.columns, *(tuple(_show(v) for v in line) for line in self.lines)]
        widths = [max(len(str(row[i])) for row in rows) for i in range(len(self.columns))]
        body = [
            "| " + " | ".join(str(v).ljust(w) for v, w in zip(row, widths, strict=True)) + " |"
            for row in rows
        ]
        body.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
        return "\n".join(body)

    def page(self) -> str:
        made = (
            f"Made by `python -m benchmarks {self.benchmark}`, at commit {commit()} on "
            f"{datetime.now(UTC):%Y-%m-%d}, tvdbayes {tvdbayes.__version__}, "
            f"NumPy {np.__version__}, SciPy {scipy.__version__}, Python "
            f"{platform.python_version()}, {platform.machine()}, {self.made_on}. Seeds are fixed; "
            "times vary by about a fifth from run to run."
        )
        return f"# {self.name}\n\n{self.says}\n\n{self.text()}\n\n{made}\n"

    def publish(self) -> None:
        """Print, and keep beside the code unless this is a quick run."""
        page = self.page()
        print(page, flush=True)
        if _KEPT.get():
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{self.name}.md").write_text(page)


def _show(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)
