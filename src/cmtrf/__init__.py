"""Ratings in, predictions and each rater's own scale out."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cmtrf.estimators import CMTRF, load

__version__ = "0.1.0"
__all__ = ["CMTRF", "__version__", "load"]
_ROOMS = ("datasets", "errors", "evaluate", "metrics", "plots", "splits", "tuning")


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, so that ``cmtrf --help`` need not wait for numba."""
    if name in _ROOMS:
        return importlib.import_module(f"cmtrf.{name}")
    if name in __all__:
        return getattr(importlib.import_module("cmtrf.estimators"), name)
    raise AttributeError(f"module 'cmtrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
