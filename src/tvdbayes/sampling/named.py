"""Divergences, partitions and links by name."""

from collections.abc import Mapping
from typing import Any

from tvdbayes.models.model import LINKS
from tvdbayes.objective._kinds import AbstractDivergence
from tvdbayes.objective.divergences import ALL_DIVERGENCES
from tvdbayes.objective.partitions import (
    AbstractPartition,
    Auto,
    Distinct,
    KMeansGroups,
    Singletons,
)

DIVERGENCES: dict[str, AbstractDivergence] = {d.name: d for d in ALL_DIVERGENCES}
PARTITIONS: dict[str, AbstractPartition] = {
    p.name: p for p in (Auto(), Distinct(), KMeansGroups(), Singletons())
}
NAMES: Mapping[str, Mapping[str, Any]] = {
    "divergence": DIVERGENCES,
    "partition": PARTITIONS,
    "link": {"log": None, **LINKS},
}
"""For options of a fit that take a name: every name, and what it stands for."""

KINDS: Mapping[str, type] = {"divergence": AbstractDivergence, "partition": AbstractPartition}
"""The class of what may be given in place of a name."""
