"""The report of a fit: its facts, and one self-contained HTML page."""

from tvdbayes.report._page import covariates, render
from tvdbayes.report._story import INTERVAL, Averages, Story
from tvdbayes.report._tables import expected_rows, listed

__all__ = ["INTERVAL", "Averages", "Story", "covariates", "expected_rows", "listed", "render"]
