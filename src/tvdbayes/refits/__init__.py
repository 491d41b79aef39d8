"""Questions that need the fit run again: on data of its own making, without some rows, or held."""

from tvdbayes.refits.replicates import Replicates, replicate
from tvdbayes.refits.unexplained import share_of_data

__all__ = ["Replicates", "replicate", "share_of_data"]
