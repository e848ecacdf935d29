"""Which user has which scale: first clusters by k-means, assignment, refilling a cluster that ran empty."""

from __future__ import annotations

import threading
import warnings

import numpy as np
from scipy.cluster.vq import kmeans2

from cmtrf.kernels.table import Float64, Integers
from cmtrf.scales.margin import Margin, ScaleStep

_filters = threading.Lock()  # the filters of warnings belong to the whole process, and fits may run side by side


def cluster_scales(X: Float64, K: int, rng: np.random.Generator) -> tuple[Float64, Integers]:
    """K-means on scales (the paper's start of K-CMTRF): centres (K, L), and the centre of each scale.

    Centres are means of scales, so they obey every margin that the scales obey. Several starts; the best is taken.
    """
    best: tuple[float, Float64, Integers] | None = None
    for _ in range(8):
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster: judged by its distance like any other start
            centres, labels = kmeans2(X, K, iter=100, minit="++", rng=rng)
        spread = float(((X - centres[labels]) ** 2).sum())
        if best is None or spread < best[0]:
            best = (spread, centres, labels.astype(np.int64))
    assert best is not None
    order = np.argsort(best[1].mean(1), kind="stable")  # lowest positions first
    place = np.empty(K, np.int64)
    place[order] = np.arange(K)
    return best[1][order], place[best[2]]


def assign_users(step: ScaleStep, X: Float64, z: Integers) -> Integers:
    """Scale of least cost for each user (the paper's eq. clust); who gains nothing stays."""
    costs = step.costs(X)
    users = np.arange(len(z))
    best = costs.argmin(1)
    return np.where(costs[users, best] < costs[users, z], best, z)


def refill_empty(step: ScaleStep, X: Float64, z: Integers, margin: Margin) -> tuple[Float64, Integers]:
    """Give each scale without users to whoever gains most from a scale of their own, and those who follow.

    Only where the objective falls by it: a user's gain must exceed what the scale's pull then costs.
    """
    empty = np.flatnonzero(np.bincount(z, minlength=len(X)) == 0)
    if len(empty) == 0:
        return X, z
    X, z = X.copy(), z.copy()
    users = np.arange(len(z))
    own = step.fit_each()
    single = (step.counts > 0).sum(1) < 2  # their own scale would explain anything
    own_cost = step.costs_each(own) + margin.penalty(own)
    current = step.costs(X)[users, z]
    for k in empty:
        gain = current - own_cost + margin.penalty(X[k : k + 1])[0]
        gain[single | (np.bincount(z, minlength=len(X))[z] < 2)] = 0
        chosen = int(gain.argmax())
        if gain[chosen] <= 1e-12 * abs(current).max():
            break
        X[k] = own[chosen]
        cost = step.costs(X[k : k + 1])[:, 0]
        cost[chosen] = min(cost[chosen], own_cost[chosen])
        moved = cost < current
        moved[chosen] = True
        z[moved], current[moved] = k, cost[moved]
    return X, z
