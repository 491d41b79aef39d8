"""Questions that need the fit run again: on data of its own making, without some rows, or held."""

from tvdbayes.refits.comparison import Comparison, compare_posteriors
from tvdbayes.refits.left_out import HeldOut, cross_validate, leave_one_out
from tvdbayes.refits.neighbours import BetterFamily, better_family
from tvdbayes.refits.replicates import Replicates, replicate
from tvdbayes.refits.sensitivity import DropWorst, Sensitivity, drop_worst, sensitivity
from tvdbayes.refits.unexplained import share_of_data

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
