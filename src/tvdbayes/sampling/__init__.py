"""Sampling: random weights, and the fit to each reweighted table."""
