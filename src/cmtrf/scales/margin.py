"""The scale step under the paper's margin: every gap at least epsilon (the set R_{L,eps} of the paper).

Two forms of one step. `LevelSums` holds the factors fixed and pools adjacent violators (the paper's
eq. x, xN and x1). `Quadratics` has the user factors eliminated and solves a small convex program (MATH section 3).
Both see users only through sums a level, so they serve one scale, K, and one a user alike, and any
regressor can stand behind the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cmtrf.kernels.table import Float64, Integers, Kernels
from cmtrf.scales.parents import place_unused


@dataclass(frozen=True)
class Margin:
    """What every scale obeys, and where it rests."""

    gaps: Float64  # (L-1,) least distance of neighbours, lowest gap first
    parent: Float64  # (L,) frozen; obeys the gaps
    pull: Float64  # (L,) pseudo-ratings at the parent, c0 pi; zeros without shrinkage

    @property
    def pulls(self) -> bool:
        """Whether scales are drawn to the parent."""
        return bool(self.pull.any())

    def penalty(self, X: Float64) -> Float64:
        """``sum_l pull_l (x_l - parent_l)^2 / 2`` of each scale, once a scale (MATH section 4)."""
        penalty: Float64 = ((X - self.parent) ** 2 * (self.pull / 2)).sum(1)
        return penalty


class ScaleStep(Protocol):
    """The users' costs as functions of a scale, and the best scale of any group of users."""

    @property
    def counts(self) -> Float64:
        """Summed weight of each user's ratings at each level, (N, L)."""

    def costs(self, X: Float64) -> Float64:
        """Cost of each user on each scale, up to a constant a user, (N, K)."""

    def costs_each(self, X: Float64) -> Float64:
        """Cost of each user on a scale of their own, row i for user i, (N,)."""

    def fit(self, z: Integers, K: int) -> Float64:
        """Best scale of each group of users, (K, L); a group without users gets the parent."""

    def fit_each(self) -> Float64:
        """Best scale of each user alone, (N, L)."""


@dataclass(frozen=True)
class LevelSums:
    """Factors held fixed: cost of user i on scale x is ``sum_l c_il x_l^2 / 2 - x_l S_il`` (MATH section 2)."""

    counts: Float64  # (N, L) c_il
    sums: Float64  # (N, L) S_il, predictions summed by level
    margin: Margin
    kernels: Kernels

    def costs(self, X: Float64) -> Float64:
        """See `ScaleStep.costs`."""
        costs: Float64 = np.einsum("nl,kl->nk", self.counts, X**2 / 2) - np.einsum("nl,kl->nk", self.sums, X)
        return costs

    def costs_each(self, X: Float64) -> Float64:
        """See `ScaleStep.costs_each`."""
        costs: Float64 = (self.counts * X**2 / 2 - X * self.sums).sum(1)
        return costs

    def fit(self, z: Integers, K: int) -> Float64:
        """See `ScaleStep.fit`."""
        return self._isotonic(sum_groups(self.counts, z, K), sum_groups(self.sums, z, K))

    def fit_each(self) -> Float64:
        """See `ScaleStep.fit_each`."""
        return self._isotonic(self.counts, self.sums)

    def _isotonic(self, counts: Float64, sums: Float64) -> Float64:
        """Isotonic regression of the means of the levels (MATH section 4)."""
        counts = counts + self.margin.pull
        sums = sums + self.margin.pull * self.margin.parent
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        X = nearest_scales(means, counts, self.margin.gaps, self.kernels)
        return place_unused(X, self.margin.parent, self.margin.gaps)


@dataclass(frozen=True)
class Quadratics:
    """User factors eliminated: cost of user i on scale x is ``x'Q_i x / 2 - q_i'x`` (MATH section 3)."""

    counts: Float64  # (N, L) c_il
    Q: Float64  # (N, L, L)
    q: Float64  # (N, L)
    margin: Margin
    kernels: Kernels

    def costs(self, X: Float64) -> Float64:
        """See `ScaleStep.costs`."""
        n, K = len(self.q), len(X)
        squares = (X[:, :, None] * X[:, None, :]).reshape(K, -1) / 2
        costs: Float64 = np.einsum("na,ka->nk", self.Q.reshape(n, -1), squares)
        costs -= np.einsum("nl,kl->nk", self.q, X)
        return costs

    def costs_each(self, X: Float64) -> Float64:
        """See `ScaleStep.costs_each`."""
        costs: Float64 = np.einsum("nl,nlm,nm->n", X, self.Q, X) / 2 - (self.q * X).sum(1)
        return costs

    def fit(self, z: Integers, K: int) -> Float64:
        """See `ScaleStep.fit`."""
        return self._minimum(*(sum_groups(a, z, K) for a in (self.counts, self.Q, self.q)))

    def fit_each(self) -> Float64:
        """See `ScaleStep.fit_each`."""
        return self._minimum(self.counts, self.Q, self.q)

    def _minimum(self, counts: Float64, Q: Float64, q: Float64) -> Float64:
        used = counts + self.margin.pull > 0
        if self.margin.pulls:
            Q = Q + np.diag(self.margin.pull)
            q = q + self.margin.pull * self.margin.parent
        X = self.kernels.monotone_quadratic(Q, q, self.margin.gaps, used)
        return place_unused(X, self.margin.parent, self.margin.gaps)


def nearest_scales(values: Float64, weights: Float64, gaps: Float64, kernels: Kernels) -> Float64:
    """Weighted isotonic regression of each row under margins: PAVA on the values less the margins below them."""
    shift = np.concatenate([[0.0], np.cumsum(gaps)])
    X: Float64 = kernels.isotonic(values - shift, weights) + shift
    return X


def sum_groups(values: Float64, z: Integers, K: int) -> Float64:
    """Sum the users' rows of each group, in order; with a group for each user there is nothing to add."""
    if len(z) == K and np.array_equal(z, np.arange(K)):
        return values
    if K == 1:
        total: Float64 = values.sum(0, keepdims=True)
        return total
    sums = np.zeros((K, *values.shape[1:]))
    for k in range(K):
        sums[k] = values[z == k].sum(0)
    return sums
