"""The fitted point model: one set of factors and scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64, Floats, Integers, Kernels
from cmtrf.problem import Problem
from cmtrf.ratings import Ratings
from cmtrf.scales.inverse import interpolate
from cmtrf.scales.parents import explain_fallback
from cmtrf.solvers.base import Outcome
from cmtrf.vocabulary import Grid, Vocabulary

BLOCK = 4_000_000  # scores held at a time while recommending
PRIOR_RATINGS = 3.0  # pseudo-ratings in the means for new ids (benchmarks/defaults.py compares with other ways)


@dataclass(frozen=True, eq=False)
class PointModel:
    """Immutable arrays in code order. A code of -1 means an id that was not in the training table."""

    users: Vocabulary
    items: Vocabulary
    grid: Grid
    user_factors: Floats  # (n_users, rank)
    item_factors: Floats  # (n_items, rank)
    user_bias: Floats  # (n_users,) zeros without biases
    item_bias: Floats  # (n_items,)
    item_mean: Float64  # (n_items,) mean rating, for users never seen; see `shrink_means`
    scales: Float64  # (n_scales, n_levels)
    user_scale: Integers  # (n_users,)
    parent_scale: Float64  # (n_levels,) where unused levels were placed
    lone: NDArray[np.bool_]  # (n_scales,) scales kept at the parent: their user gave one level only
    level_counts: Float64  # (n_users, n_levels) summed weights
    seen_indptr: NDArray[np.int64]  # (n_users + 1,) which items a user rated, as rows of a sparse matrix
    seen_items: NDArray[np.int32]
    objective: Float64  # one per sweep of the last phase
    converged: bool
    parameters: Mapping[str, Any]  # of the estimator that was fitted, as far as JSON can hold them

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @cached_property
    def _users(self) -> Floats:
        return np.column_stack([self.user_factors, self.user_bias])

    @cached_property
    def _items(self) -> Floats:
        return np.column_stack([self.item_factors, np.ones_like(self.item_bias)])

    @cached_property
    def _mean(self) -> float:
        """Mean rating of the training table."""
        return float(self.level_counts.sum(0) @ self.grid.values / self.level_counts.sum())

    @cached_property
    def _user_mean(self) -> Float64:
        return shrink_means(self.level_counts @ self.grid.values, self.level_counts.sum(1), self._mean)

    def predict(self, users: Integers, items: Integers, kernels: Kernels) -> Float64:
        """Rating of each pair by the inverse of the user's own scale; by what is known of it where an id is new.

        A new item is predicted by the user's mean rating, a new user by the item's, both by the mean of all.
        """
        new_user, new_item = users < 0, items < 0
        own, other = np.maximum(users, 0), np.maximum(items, 0)
        scores = kernels.scores(own, other, self._users, self._items, self.item_bias)
        ratings = self.to_rating(own, scores)
        ratings[new_item] = self._user_mean[own[new_item]]
        ratings[new_user] = self.item_mean[other[new_user]]
        ratings[new_user & new_item] = self._mean
        return ratings

    def to_rating(self, users: Integers, scores: Floats) -> Float64:
        """``Upsilon_i^-1(s)``, clipped to the platform's range."""
        return interpolate(scores, self.scales, self.user_scale[users], self.grid.values)

    def recommend(
        self,
        users: Integers,
        n: int,
        *,
        exclude_seen: bool,
        candidates: Integers,
        exclude: tuple[Integers, Integers],
    ) -> tuple[Integers, Integers, Integers, Float64]:
        """Best ``n`` of the candidate items for each user: place in ``users``, item, rank from 1, rating.

        Ordered by score, which goes on where ratings are clipped; equal scores by the order of ids. A new
        user (-1) gets the items of the highest mean rating.
        ``exclude`` are pairs (user, item) that are left out; user -1 stands for everyone.
        """
        by_user = np.argsort(exclude[0], kind="stable")
        exclude = exclude[0][by_user], exclude[1][by_user]
        out: list[tuple[Integers, Integers, Integers, Float64]] = []
        design, offset, mean = self._items[candidates], self.item_bias[candidates], self.item_mean[candidates]
        place = np.full(len(self.items), -1)
        place[candidates] = np.arange(len(candidates))
        step = max(1, BLOCK // max(len(candidates), 1))
        barred_for_all = place[exclude[1][exclude[0] < 0]]
        for start in range(0, len(users), step):
            block = users[start : start + step]
            scores = (self._users[block] @ design.T + offset).astype(np.float64)
            scores[block < 0] = mean
            scores[:, barred_for_all[barred_for_all >= 0]] = -np.inf
            for row, user in enumerate(block):
                first, last = np.searchsorted(exclude[0], [user, user + 1])
                barred = [exclude[1][first:last]] if user >= 0 else []
                if exclude_seen and user >= 0:
                    barred.append(self.seen_items[self.seen_indptr[user] : self.seen_indptr[user + 1]])
                for items in barred:
                    here = place[items]
                    scores[row, here[here >= 0]] = -np.inf
                best = _largest(scores[row], n)
                rating = mean[best] if user < 0 else self.to_rating(np.full(len(best), user), scores[row, best])
                out.append((np.full(len(best), start + row), candidates[best], np.arange(1, len(best) + 1), rating))
        if not out:
            none = np.empty(0, np.int64)
            return none, none, none, np.empty(0)
        user, item, rank, rating = (np.concatenate(column) for column in zip(*out, strict=True))
        return user, item, rank, rating

    def similar(self, item: int, n: int) -> tuple[Integers, Float64]:
        """The ``n`` items whose factors point the same way as the given one's, and the cosine of the angle."""
        V = self.item_factors.astype(np.float64)
        length = np.sqrt((V**2).sum(1))
        cosine = np.divide(V @ V[item], length * length[item], out=np.zeros(len(V)), where=length * length[item] > 0)
        cosine[item] = -np.inf
        best = _largest(cosine, n)
        return best, cosine[best]

    def scale_counts(self) -> Float64:
        """Summed weight of the ratings at each level of each scale, (n_scales, n_levels)."""
        counts = np.zeros(self.scales.shape)
        np.add.at(counts, self.user_scale, self.level_counts)
        return counts

    def fallbacks(self) -> list[str | None]:
        """Say of each scale why levels of it (or all of it) are the parent's; None where it stands on ratings alone."""
        n_scales = self.parameters.get("n_scales")
        if n_scales == "fixed" or self.shrunk:
            return [None] * len(self.scales)
        parent = "the given levels" if n_scales == 1 else "the scale of all users"
        return explain_fallback(self.scale_counts(), self.lone, self.grid.names, parent)

    @property
    def shrunk(self) -> bool:
        """Whether shrinkage gives every level of every scale some weight."""
        shrinkage = self.parameters.get("shrinkage", "auto")
        return isinstance(shrinkage, (int, float)) and shrinkage > 0


def build_model(
    problem: Problem,
    outcome: Outcome,
    users: Vocabulary,
    items: Vocabulary,
    grid: Grid,
    parameters: Mapping[str, Any],
) -> PointModel:
    """Cross from the paper's letters to whole words, once."""
    state, rows = outcome.state, problem.ratings.by_user
    totals = problem.ratings.level_counts.sum(0)
    counts, sums = item_sums(problem.ratings, grid.values)
    return PointModel(
        users=users,
        items=items,
        grid=grid,
        user_factors=state.U,
        item_factors=state.V,
        user_bias=state.b_user,
        item_bias=state.b_item,
        item_mean=shrink_means(sums, counts, float(totals @ grid.values / totals.sum())),
        scales=state.X,
        user_scale=state.z,
        parent_scale=problem.margin.parent,
        lone=problem.lone,
        level_counts=problem.ratings.level_counts,
        seen_indptr=rows.indptr,
        seen_items=rows.indices,
        objective=np.array(outcome.objective),
        converged=outcome.converged,
        parameters=parameters,
    )


def item_sums(ratings: Ratings, values: Float64) -> tuple[Float64, Float64]:
    """Summed weight of each item's ratings, and the weighted sum of their values."""
    rows = ratings.by_item
    item = np.repeat(np.arange(ratings.n_items), np.diff(rows.indptr))
    weight = rows.weight.astype(np.float64) if len(rows.weight) else np.ones(len(item))
    counts = np.bincount(item, weight, ratings.n_items).astype(np.float64)
    return counts, np.bincount(item, weight * values[rows.level], ratings.n_items).astype(np.float64)


def shrink_means(sums: Float64, counts: Float64, mean: float) -> Float64:
    """Mean ratings, with a few pseudo-ratings at the mean of all."""
    means: Float64 = (sums + PRIOR_RATINGS * mean) / (counts + PRIOR_RATINGS)
    return means


def _largest(scores: Floats, n: int) -> Integers:
    """Places of the n largest finite scores, largest first, equal ones by place."""
    n = min(n, int(np.isfinite(scores).sum()))
    if n == 0:
        return np.empty(0, np.int64)
    least = np.partition(scores, len(scores) - n)[len(scores) - n]
    places = np.flatnonzero(scores >= least)
    return places[np.argsort(-scores[places], kind="stable")][:n]
