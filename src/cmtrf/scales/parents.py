"""Where a scale rests when ratings do not say: the given scale, unused levels, shrinkage (MATH section 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64


def given_scale(values: Float64, gaps: Float64, level_counts: Float64) -> Float64:
    """Stretch the platform's values until every gap meets its margin; the mean rating lies at 0.

    With equal steps and one margin this is margin times level number. Without any margin the stretch
    gives the ratings a variance of 1.
    """
    centred = centre(values, level_counts)
    if gaps.max() > 0:
        scale: Float64 = centred * (gaps / np.diff(values)).max()
    else:
        share = level_counts / level_counts.sum()
        scale = centred / np.sqrt(share @ centred**2)
    return scale


def centre(values: Float64, level_counts: Float64) -> Float64:
    """Shift the values so that the mean rating lies at 0."""
    share = level_counts / level_counts.sum()
    centred: Float64 = values - share @ values
    return centred


def place_unused(X: Float64, parent: Float64, gaps: Float64) -> Float64:
    """Fill the NaN of each row by the parent's gaps: outside the used levels as they are, inside in proportion.

    What is distributed inside is the room above the margins, so that every gap keeps its margin.
    """
    L = X.shape[1]
    used = ~np.isnan(X)
    known = used.any(axis=1, keepdims=True)
    X = np.where(known, X, parent)
    if used.all():
        return X
    tight = np.concatenate([[0.0], np.cumsum(gaps)])  # positions with the least gaps,
    above_margin = np.diff(parent) - gaps
    above_margin[above_margin <= 1e-9 * np.abs(parent).max()] = 0  # a straight parent has rounding there, not room
    room = np.concatenate([[0.0], np.cumsum(above_margin)])
    wide = tight + room  # and with the parent's
    level = np.arange(L)
    below = np.maximum.accumulate(np.where(used, level, -1), axis=1)  # nearest used level, -1 where there is none
    above = np.minimum.accumulate(np.where(used, level, L)[:, ::-1], axis=1)[:, ::-1]  # L where there is none
    row, here = np.nonzero(~used & known)
    a, b = np.maximum(below[row, here], 0), np.minimum(above[row, here], L - 1)
    low, high = X[row, a], X[row, b]
    spare = np.maximum(high - low - (tight[b] - tight[a]), 0)
    share = (here - a) / np.maximum(b - a, 1)  # evenly, where the parent has no room either
    np.divide(room[here] - room[a], room[b] - room[a], out=share, where=room[b] > room[a])
    X[row, here] = np.select(
        [below[row, here] < 0, above[row, here] == L],
        [high - (wide[b] - wide[here]), low + (wide[here] - wide[a])],
        low + (tight[here] - tight[a]) + spare * share,
    )
    return X


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
