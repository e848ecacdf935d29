"""The fitted point model: one set of factors and scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64, Floats, Integers, Kernels, owners, weights
from cmtrf.problem import Problem
from cmtrf.ratings import Ratings
from cmtrf.scales.inverse import interpolate
from cmtrf.scales.margin import sum_groups
from cmtrf.scales.parents import explain_fallback
from cmtrf.solvers.base import Ending, Outcome
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
    n_scales: int | str  # "fixed", "user" or a number, as it was asked for
    pulls: bool  # whether shrinkage gave every level of every scale some weight

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

    def predict(self, users: Integers, items: Integers, kernels: Kernels, *, clip: bool = True) -> Float64:
        """Rating of each pair by the inverse of the user's own scale; by what is known of it where an id is new.

        A new item is predicted by the user's mean rating, a new user by the item's, both by the mean of all.
        """
        new_user, new_item = users < 0, items < 0
        own, other = np.maximum(users, 0), np.maximum(items, 0)
        scores = kernels.scores(own, other, self._users, self._items, self.item_bias)
        ratings = self.to_rating(own, scores, clip=clip)
        ratings[new_item] = self._user_mean[own[new_item]]
        ratings[new_user] = self.item_mean[other[new_user]]
        ratings[new_user & new_item] = self._mean
        return ratings

    def to_rating(self, users: Integers, scores: Floats, *, clip: bool = True) -> Float64:
        """``Upsilon_i^-1(s)``, clipped to the platform's range unless told otherwise."""
        return interpolate(scores, self.scales, self.user_scale[users], self.grid.values, clip=clip)

    def recommend(
        self,
        users: Integers,
        n: int,
        kernels: Kernels,
        *,
        exclude_seen: bool,
        candidates: Integers,
        exclude: tuple[Integers, Integers],
    ) -> tuple[Integers, Integers, Integers, Float64]:
        """Best ``n`` of the candidate items for each user: place in ``users``, item, rank from 1, rating.

        Ordered by score, which goes on where ratings are clipped; equal scores by the order of ids. A new
        user (-1) gets the items of the highest mean rating. ``exclude`` are pairs (place in ``users``, item)
        that are left out; place -1 stands for everyone.
        """
        by_place = np.argsort(exclude[0], kind="stable")
        places, barred = exclude[0][by_place], exclude[1][by_place]
        column = np.full(len(self.items), -1)  # of each item among the candidates
        column[candidates] = np.arange(len(candidates))
        design, offset, mean = self._items[candidates], self.item_bias[candidates], self.item_mean[candidates]
        step = max(1, BLOCK // max(len(candidates), 1))
        out: list[tuple[Integers, Integers, Integers, Float64]] = []
        for start in range(0, len(users), step):
            scores = kernels.all_scores(self._users[users[start : start + step]], design, offset)
            for place, row in enumerate(scores, start):
                user = users[place]
                values = mean.copy() if user < 0 else row.astype(np.float64)
                left_out = [self._seen(user)] if exclude_seen and user >= 0 else []
                for key in (-1, place):
                    first, last = np.searchsorted(places, [key, key + 1])
                    left_out.append(barred[first:last])
                for items in left_out:
                    here = column[items]
                    values[here[here >= 0]] = -np.inf
                best = _largest(values, n)
                rating = mean[best] if user < 0 else self.to_rating(np.full(len(best), user), row[best])
                out.append((np.full(len(best), place), candidates[best], np.arange(1, len(best) + 1), rating))
        if not out:
            none = np.empty(0, np.int64)
            return none, none, none, np.empty(0)
        place_, item, rank, rating = (np.concatenate(part) for part in zip(*out, strict=True))
        return place_, item, rank, rating

    def _seen(self, user: int) -> Integers:
        return self.seen_items[self.seen_indptr[user] : self.seen_indptr[user + 1]]

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
        return sum_groups(self.level_counts, self.user_scale, len(self.scales))

    def fallbacks(self) -> list[str | None]:
        """Say of each scale why levels of it (or all of it) are the parent's; None where it stands on ratings alone."""
        if self.n_scales == "fixed" or self.pulls:
            return [None] * len(self.scales)
        parent = "the given levels" if self.n_scales == 1 else "the scale of all users"
        return explain_fallback(self.scale_counts(), self.lone, self.grid.names, parent)

    @property
    def has_no_factors(self) -> bool:
        """Whether no product of factors is worth a hundredth of a scale."""
        U, V = (np.sqrt(np.square(F, dtype=np.float64).sum(1).max()) for F in (self.user_factors, self.item_factors))
        return bool(self.user_factors.shape[1] > 0 and 0.01 * np.ptp(self.parent_scale) > U * V)

    @property
    def common_scale(self) -> Float64 | None:
        """The scale of all users, (n_levels,); None where none was learned."""
        if self.n_scales == "fixed":
            return None
        return self.scales[0] if self.n_scales == 1 else self.parent_scale


def from_outcome(
    problem: Problem,
    outcome: Outcome,
    users: Vocabulary,
    items: Vocabulary,
    grid: Grid,
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
        converged=outcome.ending is Ending.SETTLED,
        n_scales=problem.n_scales,
        pulls=problem.margin.pulls,
    )


def item_sums(ratings: Ratings, values: Float64) -> tuple[Float64, Float64]:
    """Summed weight of each item's ratings, and the weighted sum of their values."""
    rows = ratings.by_item
    item, weight = owners(rows), weights(rows)
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
