"""Ratings in, predictions and each rater's own scale out."""

from __future__ import annotations

import importlib
from typing import Any

from cmtrf.estimators import CMTRF, load

__version__ = "0.1.0"
__all__ = ["CMTRF", "__version__", "load"]
_ROOMS = ("datasets", "errors", "plots")


def __getattr__(name: str) -> Any:
    """Reach the other public rooms without loading them at import."""
    if name in _ROOMS:
        return importlib.import_module(f"cmtrf.{name}")
    raise AttributeError(f"module 'cmtrf' has no attribute {name!r}")
