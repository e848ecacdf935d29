"""Rating data to try things on: shipped, made by a rule, or read from what others publish."""

from cmtrf.datasets.demo import load_demo
from cmtrf.datasets.known import load
from cmtrf.datasets.synthetic import make_clustered, make_sd1, make_sd2

__all__ = ["load", "load_demo", "make_clustered", "make_sd1", "make_sd2"]
