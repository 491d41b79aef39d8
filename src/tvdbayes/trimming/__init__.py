"""The trimmed likelihood: rows that are too many lose weight, the likelihood fits the rest."""

from tvdbayes.trimming.far import far_rows
from tvdbayes.trimming.rule import RIDGE, KeptRows, Route, trimmed_fit
from tvdbayes.trimming.sandwich import widening
from tvdbayes.trimming.surplus import good_share

__all__ = ["RIDGE", "KeptRows", "Route", "far_rows", "good_share", "trimmed_fit", "widening"]
