"""Networks as predictors: how they are trained, by JAX.

The maths of a network is in `predictors`, that of families and divergences where it always is. This
room cuts a table into steps, and takes them for many draws at once.
"""
