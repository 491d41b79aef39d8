"""What the draws say: the record of a fit, and functions on it."""

from tvdbayes.posterior._record import Posterior
from tvdbayes.posterior.summary import Summary, summarise

__all__ = ["Posterior", "Summary", "summarise"]
