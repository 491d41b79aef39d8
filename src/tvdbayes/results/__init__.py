"""Questions that need the fit run again: on data of its own making, without some rows, or held."""

from tvdbayes.results.comparison import Comparison, compare_posteriors
from tvdbayes.results.left_out import HeldOut, cross_validate, leave_one_out
from tvdbayes.results.neighbours import BetterFamily, better_family
from tvdbayes.results.replicates import Replicates, replicate
from tvdbayes.results.sensitivity import DropWorst, Sensitivity, drop_worst, sensitivity
from tvdbayes.results.unexplained import share_of_data

__all__ = [
    "BetterFamily",
    "Comparison",
    "DropWorst",
    "HeldOut",
    "Replicates",
    "Sensitivity",
    "better_family",
    "compare_posteriors",
    "cross_validate",
    "drop_worst",
    "leave_one_out",
    "replicate",
    "sensitivity",
    "share_of_data",
]
