"""Formulas: how columns of the data become covariates and an outcome."""
