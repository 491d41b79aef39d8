"""Fits to rows on several workers: every sum over rows is computed by chunk and added up."""
