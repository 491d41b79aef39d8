"""What is told about a fit, and one self-contained page of it."""

from tvdbayes.report._page import covariates, render
from tvdbayes.report._story import INTERVAL, Averages, Story
from tvdbayes.report._tables import listed

__all__ = ["INTERVAL", "Averages", "Story", "covariates", "listed", "render"]
