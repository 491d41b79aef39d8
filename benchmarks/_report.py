"""Tables that say how they were made."""

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy

import tvdbayes

RESULTS = Path(__file__).parent / "results"


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

    def publish(self) -> None:
        """Print, and keep beside the code."""
        made = (
            f"Made by `python -m benchmarks {self.benchmark}`, tvdbayes {tvdbayes.__version__}, "
            f"NumPy {np.__version__}, SciPy {scipy.__version__}, Python "
            f"{platform.python_version()}, {platform.machine()}, {self.made_on}. Seeds are fixed; "
            "times vary by about a fifth from run to run."
        )
        page = f"# {self.name}\n\n{self.says}\n\n{self.text()}\n\n{made}\n"
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.md").write_text(page)
        print(page, flush=True)


def _show(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)
