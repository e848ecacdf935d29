"""The encoded table: frozen integer arrays, no ids, the same bits whatever the order of its rows was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64, Floats, Integers, Rows


@dataclass(frozen=True)
class Ratings:
    """Ratings by user and by item.

    A user's ratings are sorted by level, then item, then weight; an item's by user. So nothing that is
    computed from them depends on the order in which the table listed them.
    """

    n_users: int
    n_items: int
    n_levels: int
    by_user: Rows
    by_item: Rows
    level_counts: Float64  # (N, L) c_il: summed weight of user i's ratings at a level

    @property
    def n_ratings(self) -> int:
        """Number of rows of the table."""
        return len(self.by_user.indices)

    @property
    def total_weight(self) -> float:
        """Number of ratings, each counted by its weight."""
        return float(self.level_counts.sum())


def build_ratings(
    users: Integers,
    items: Integers,
    levels: Integers,
    weights: Floats | None,
    shape: tuple[int, int, int],
    dtype: np.dtype[Any] | type = np.float32,
) -> Ratings:
    """Sort coded ratings both ways; ``shape`` is (users, items, levels). Weights must be positive.

    Kernels read the codes without looking at bounds, so they are checked here, once.
    """
    n_users, n_items, n_levels = shape
    for name, codes, n in (("user", users, n_users), ("item", items, n_items), ("level", levels, n_levels)):
        if len(codes) and (codes.min() < 0 or codes.max() >= n):
            raise ValueError(f"{name} codes must lie in 0..{n - 1}; found {codes.min()} to {codes.max()}")
    keys: list[NDArray[Any]] = [items, levels, users]
    if weights is not None:
        keys.insert(0, weights)  # copies of a pair at one level may differ in weight
    order = np.lexsort(keys)
    users, items, levels = users[order], items[order], levels[order]
    weight = np.empty(0, dtype) if weights is None else weights[order].astype(dtype)
    by_user = _rows(users, items, levels, weight, n_users)
    turn = np.argsort(items, kind="stable")
    turned = weight[turn] if len(weight) else weight
    by_item = _rows(items[turn], users[turn], levels[turn], turned, n_items)
    counts = np.bincount(
        users.astype(np.int64) * n_levels + levels,
        weights=None if weights is None else weights[order],
        minlength=n_users * n_levels,
    )
    return Ratings(
        n_users,
        n_items,
        n_levels,
        by_user,
        by_item,
        _frozen(counts.astype(np.float64).reshape(n_users, n_levels)),
    )


def pair_codes(users: Integers, items: Integers, n_items: int | None = None) -> NDArray[np.int64]:
    """One number a pair, in the order of users, then items; comparable with others of the same ``n_items``."""
    n = int(items.max(initial=0)) + 1 if n_items is None else n_items
    codes: NDArray[np.int64] = users.astype(np.int64) * n + items
    return codes


def deal_pairs(users: Integers, items: Integers, rng: np.random.Generator) -> tuple[Integers, int]:
    """Deal the distinct pairs like cards: the place of each row's pair in a random order, and how many pairs there are.

    Cards are numbered in the order of ids, so the result does not depend on the order of rows; copies of a pair
    stay together. Who keeps a part out keeps the first places.
    """
    distinct, card = np.unique(pair_codes(users, items), return_inverse=True)
    return rng.permutation(len(distinct))[card], len(distinct)


def _rows(row: Integers, other: Integers, level: Integers, weight: Floats, n: int) -> Rows:
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=n), out=indptr[1:])
    return Rows(_frozen(indptr), _frozen(other.astype(np.int32)), _frozen(level.astype(np.uint8)), _frozen(weight))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
