"""Fits to rows on several workers: every sum over rows is computed by chunk and added up."""

from tvdbayes.large.cluster._chunks import Chunk, Rules, spread_of
from tvdbayes.large.cluster._dask import dask_module, give_memory_back
from tvdbayes.large.cluster._rows import AbstractRows, DaskRows, HeldRows, joined, result_of
from tvdbayes.large.cluster._solve import solve_rows
from tvdbayes.large.cluster._sums import DataMasses, Gradient, Likelihood, Loss, ModelMasses
from tvdbayes.large.cluster._weights import RowWeights

__all__ = [
    "AbstractRows",
    "Chunk",
    "DaskRows",
    "DataMasses",
    "Gradient",
    "HeldRows",
    "Likelihood",
    "Loss",
    "ModelMasses",
    "RowWeights",
    "Rules",
    "dask_module",
    "give_memory_back",
    "joined",
    "result_of",
    "solve_rows",
    "spread_of",
]
