"""What was looked at in a fit, and what was found, in plain words."""

from dataclasses import dataclass
from typing import Literal

from tvdbayes.sampling.summary import html_table

__all__ = ["Check", "Finding", "Level"]

Level = Literal["good", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True)
class Check:
    """Findings about a fit; prints as a list."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Problems to resolve before the fit is used."""
        return tuple(f for f in self.findings if f.level == "problem")

    def __str__(self) -> str:
        width = max(len(f.about) for f in self.findings)
        return "\n".join(f"{f.level:<8} {f.about:<{width}}  {f.text}" for f in self.findings)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines = ([f.about, f.level, f.text] for f in self.findings)
        return html_table("Check", ["", "", ""], lines)
