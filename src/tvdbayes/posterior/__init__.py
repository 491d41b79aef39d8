"""What the draws say: the record of a fit, and functions on it."""

from tvdbayes.posterior._record import Options, Posterior
from tvdbayes.posterior.summary import Summary, summarise

__all__ = ["Options", "Posterior", "Summary", "summarise"]
