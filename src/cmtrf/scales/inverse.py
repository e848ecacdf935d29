"""Score -> rating: the paper's inverse of a scale, straight lines between its positions."""

from __future__ import annotations

import numpy as np

from cmtrf.kernels.table import Float64, Floats, Integers


def interpolate(scores: Floats, X: Float64, z: Integers, values: Float64, *, clip: bool = True) -> Float64:
    """``Upsilon^-1(s)``: the value at s on the line through (X[z], values), clipped to the platform's range.

    Without ``clip`` the first and the last piece go on straight, as in the authors' program. Levels that share one
    position (a scale that collapsed, with margin 0) have no inverse there: a score below it meets the lowest of
    them, one at or above it the highest.
    """
    s = np.asarray(scores, dtype=np.float64)
    L = X.shape[1]
    below = np.zeros(len(s), dtype=np.int64)  # number of levels at or below the score
    for level in range(L):
        below += X[z, level] <= s
    low = np.clip(below - 1, 0, L - 2)
    left, right = X[z, low], X[z, low + 1]
    width = right - left
    share = np.where(s >= right, 1.0, 0.0)
    np.divide(s - left, width, out=share, where=width > 0)
    if clip:
        share = np.clip(share, 0.0, 1.0)
    ratings: Float64 = values[low] + share * (values[low + 1] - values[low])
    return ratings
