"""Fits to rows that no single machine can hold."""
