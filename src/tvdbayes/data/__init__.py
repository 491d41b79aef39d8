"""Data: rows from anywhere, as a table of distinct rows with counts."""
