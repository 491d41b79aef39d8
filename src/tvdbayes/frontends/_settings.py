"""Options by name: what a user may write instead of the thing itself."""

from typing import TypeVar

from tvdbayes._errors import SettingsError
from tvdbayes.divergences import (
    KLD,
    TVD,
    AbstractDivergence,
    DensityPower,
    Hellinger,
    PowerDivergence,
)
from tvdbayes.families import AbstractLink, Cloglog, Logit, Probit
from tvdbayes.partitions import AbstractPartition, Auto, Distinct, KMeansGroups, Singletons

__all__ = ["DIVERGENCES", "LINKS", "PARTITIONS", "named"]

Part = TypeVar("Part")

DIVERGENCES: dict[str, AbstractDivergence] = {
    d.name: d for d in (TVD(), KLD(), Hellinger(), PowerDivergence(), DensityPower())
}
PARTITIONS: dict[str, AbstractPartition] = {
    "auto": Auto(),
    "distinct": Distinct(),
    "kmeans": KMeansGroups(),
    "singletons": Singletons(),
}
LINKS: dict[str, AbstractLink] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}


def named(value: str | Part, table: dict[str, Part], what: str, kind: type) -> Part:
    """Translate a name; anything else must already be the thing itself."""
    if isinstance(value, str):
        if value not in table:
            raise SettingsError(f"There is no {what} {value!r}. Choose from {', '.join(table)}.")
        return table[value]
    if not isinstance(value, kind):
        raise SettingsError(f"{what} must be one of {', '.join(table)}; got {value!r}.")
    return value
