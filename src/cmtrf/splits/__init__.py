"""Train and test parts of a table of ratings; each says how many test rows are cold, and none is dropped in silence.

A test row is cold if its user or its item has no row in train: then nothing but a mean rating can be predicted.
"""

from cmtrf.splits.protocol import paper
from cmtrf.splits.split import Split, chronological, given, k_fold, published, uniform, user_wise

__all__ = ["Split", "chronological", "given", "k_fold", "paper", "published", "uniform", "user_wise"]
