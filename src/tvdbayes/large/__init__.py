"""Fits to rows that stay with Dask: every sum over rows is computed by chunk and added up."""
