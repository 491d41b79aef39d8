"""The trimmed likelihood: rows that are too many lose weight, the likelihood fits the rest."""

from tvdbayes.trimming.far import far_rows
from tvdbayes.trimming.rule import RIDGE, KeptRows, Route, trimmed_fit
from tvdbayes.trimming.sandwich import widening

__all__ = ["RIDGE", "KeptRows", "Route", "far_rows", "trimmed_fit", "widening"]
