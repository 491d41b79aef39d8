"""The trimmed likelihood: rows that are too many lose weight, the likelihood fits the rest."""

from tvdbayes.trimming.dependence import (
    correlation,
    independent_share,
    outcome_scores,
    rarity_scores,
)
from tvdbayes.trimming.far import far_rows, farthest_column
from tvdbayes.trimming.kept import MANY, KeptRows, Route
from tvdbayes.trimming.rule import RIDGE, agreement, trimmed_fit
from tvdbayes.trimming.surplus import (
    due_in_tails,
    good_share,
    kept_share,
    kept_shares,
    tail_levels,
    tail_probability,
    unit_masses,
)
from tvdbayes.trimming.weighted import weighted_fits, widening

__all__ = [
    "MANY",
    "RIDGE",
    "KeptRows",
    "Route",
    "agreement",
    "correlation",
    "due_in_tails",
    "far_rows",
    "farthest_column",
    "good_share",
    "independent_share",
    "kept_share",
    "kept_shares",
    "outcome_scores",
    "rarity_scores",
    "tail_levels",
    "tail_probability",
    "trimmed_fit",
    "unit_masses",
    "weighted_fits",
    "widening",
]
