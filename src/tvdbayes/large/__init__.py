"""Rows that one machine cannot hold: the fit by sums over parts of them."""
