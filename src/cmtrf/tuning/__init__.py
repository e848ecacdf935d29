"""Choosing parameters on a validation part of train: grids in parallel, each regularization path from a warm start."""

from cmtrf.tuning.grids import LAMBDAS, PAPER_GRID, PAPER_N_SCALES
from cmtrf.tuning.searching import Interrupted, Search, search
from cmtrf.tuning.walk import Trial

__all__ = ["LAMBDAS", "PAPER_GRID", "PAPER_N_SCALES", "Interrupted", "Search", "Trial", "search"]
