"""Tidy tables of a model's scales: columns by name, ready to become anybody's data frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from cmtrf.kernels.table import Float64, Integers
from cmtrf.models.point import PointModel
from cmtrf.scales.clusters import cluster_scales
from cmtrf.scales.margin import sum_groups


def scale_table(model: PointModel, types: int | None = None) -> dict[str, Any]:
    """One row a scale and level. With ``types``, the users' own scales are grouped by k-means first."""
    if types is None:
        return _tidy(model, model.scales, model.user_scale, None, None)
    centres, group = _types(model, types)
    own = model.scales[model.user_scale]
    low = np.array([own[group == k].min(0) for k in range(len(centres))])
    high = np.array([own[group == k].max(0) for k in range(len(centres))])
    return _tidy(model, centres, group, low, high)


def user_table(model: PointModel) -> dict[str, Any]:
    """One row a user: the scale they use, how sure that is, and why a parent scale stood in, if one did."""
    fallbacks = model.fallbacks()
    return {
        "user": model.users.ids,
        "scale": model.user_scale,
        "probability": np.ones(len(model.users)),
        "n_ratings": _whole(model.level_counts.sum(1)),
        "fallback": [fallbacks[k] for k in model.user_scale],
    }


def _types(model: PointModel, types: int) -> tuple[Float64, Integers]:
    """Group users by their scale; users kept at the parent scale join the nearest type afterwards."""
    own = model.scales[model.user_scale]
    lone = model.lone[model.user_scale]
    shaped = own[~lone] if (~lone).any() else own
    distinct = len(np.unique(shaped, axis=0))
    centres, _ = cluster_scales(shaped, min(types, distinct), np.random.default_rng(0))
    distance = ((own[:, None, :] - centres) ** 2).sum(2)
    group = distance.argmin(1)
    filled = np.unique(group)
    return centres[filled], np.searchsorted(filled, group)


def _tidy(model: PointModel, X: Float64, group: Integers, low: Float64 | None, high: Float64 | None) -> dict[str, Any]:
    K, L = X.shape
    counts = sum_groups(model.level_counts, group, K)
    nothing = np.full(K * L, np.nan)
    return {
        "scale": np.repeat(np.arange(K), L),
        "level": np.tile(model.grid.levels, K),
        "position": X.ravel(),
        "low": nothing if low is None else low.ravel(),
        "high": nothing if high is None else high.ravel(),
        "n_users": np.repeat(np.bincount(group, minlength=K), L),
        "n_ratings": _whole(counts.ravel()),
    }


def _whole(counts: Float64) -> Any:
    """Whole numbers where all are: weights may be fractions."""
    return counts.astype(np.int64) if (counts == np.round(counts)).all() else counts
