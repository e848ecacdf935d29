"""Where a scale rests when ratings do not say: the given scale, unused levels, shrinkage (MATH section 4)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64


def given_scale(values: Float64, gaps: Float64, level_counts: Float64) -> Float64:
    """Stretch the platform's values until every gap meets its margin; the mean rating lies at 0.

    With equal steps and one margin this is margin times level number. Without any margin the stretch
    gives the ratings a variance of 1.
    """
    share = level_counts / level_counts.sum()
    centred = values - share @ values
    if gaps.max() > 0:
        scale: Float64 = centred * (gaps / np.diff(values)).max()
    else:
        scale = centred / np.sqrt(share @ centred**2)
    return scale


def place_unused(X: Float64, parent: Float64, gaps: Float64) -> Float64:
    """Fill the NaN of each row by the parent's gaps: outside the used levels as they are, inside in proportion.

    What is distributed inside is the room above the margins, so that every gap keeps its margin.
    """
    X = X.copy()
    L = X.shape[1]
    room = np.maximum(np.diff(parent) - gaps, 0)
    used = ~np.isnan(X)
    X[~used.any(1)] = parent
    rest = np.flatnonzero(~used.all(1) & used.any(1))
    if len(rest) == 0:
        return X
    first, last = used[rest].argmax(1), L - 1 - used[rest][:, ::-1].argmax(1)
    for level in range(L - 2, -1, -1):
        low = rest[level < first]
        X[low, level] = X[low, level + 1] - (gaps[level] + room[level])
    for level in range(1, L):
        high = rest[level > last]
        X[high, level] = X[high, level - 1] + gaps[level - 1] + room[level - 1]
    for i in rest[np.isnan(X[rest]).any(1)]:
        _fill_inside(X[i], gaps, room)
    return X


def _fill_inside(x: NDArray[np.float64], gaps: Float64, room: Float64) -> None:
    known = np.flatnonzero(~np.isnan(x))
    for a, b in pairwise(known):
        if b == a + 1:
            continue
        spare = max(x[b] - x[a] - gaps[a:b].sum(), 0.0)
        share = room[a:b] / room[a:b].sum() if room[a:b].sum() > 0 else np.full(b - a, 1 / (b - a))
        x[a + 1 : b] = x[a] + np.cumsum(gaps[a:b] + spare * share)[:-1]


def pull_weights(shrinkage: float, level_counts: Float64) -> Float64:
    """``c0 pi``: pseudo-ratings at the parent scale, half by how often a level is given and half evenly."""
    share = level_counts / level_counts.sum()
    weights: Float64 = shrinkage * (share + 1 / len(share)) / 2
    return weights


def explain_fallback(scale_counts: Float64, lone: NDArray[np.bool_], words: list[str], parent: str) -> list[str | None]:
    """Say for each scale which of its levels stand where the parent scale puts them, and why; None where none do.

    ``scale_counts`` (K, L) are the ratings that shaped each scale, ``lone`` (K,) marks the scales of users
    with a single level, which are the parent scale itself; ``parent`` says which scale that is.
    """
    reasons: list[str | None] = []
    for counts, alone in zip(scale_counts, lone, strict=True):
        unused = [word for word, count in zip(words, counts, strict=True) if count <= 0]
        if alone:
            reasons.append(f"one level used: {parent}")
        elif unused:
            reasons.append(f"unused levels placed by {parent}: {', '.join(unused)}")
        else:
            reasons.append(None)
    return reasons
