"""Rating data to try things on."""

from cmtrf.datasets.demo import load_demo

__all__ = ["load_demo"]
