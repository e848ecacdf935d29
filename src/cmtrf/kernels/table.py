"""What a device must offer: the list of kernels that models and solvers are written against.

Arrays in, arrays out: no files, no data frames, no printing, no defaults. `reference.py` holds all of
them in plain numpy; every other table must agree with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Float64 = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


class Rows(NamedTuple):
    """The ratings of one side, grouped by row: row ``i`` owns the ratings ``indptr[i]:indptr[i + 1]``."""

    indptr: NDArray[np.int64]  # (n + 1,)
    indices: NDArray[np.int32]  # (ratings,) code of the other side
    level: NDArray[np.uint8]  # (ratings,) 0..L-1, lowest first
    weight: Floats  # (ratings,), or (0,) where every rating counts once


def owners(rows: Rows) -> Integers:
    """Row of each rating."""
    return np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))


def weights(rows: Rows) -> Float64:
    """Weight of each rating, ones where none were given."""
    return rows.weight.astype(np.float64) if len(rows.weight) else np.ones(len(rows.indices))


class Elimination(NamedTuple):
    """Every row's factors eliminated (MATH section 3): what is left is a quadratic in its scale ``x``.

    ``min_u = x'Qx / 2 - q'x + const``, reached at ``u = W x - w``.
    """

    Q: Float64  # (n, L, L)
    q: Float64  # (n, L)
    W: Floats  # (n, L, D), row `level` is the column of W that belongs to it
    w: Floats  # (n, D)


class Kernels(Protocol):
    """The kernels of one device.

    Three arrays describe a side that is held fixed: ``design`` (m, D), its factors with a column of ones
    where there are biases; ``offset`` (m,), its biases (zeros without); ``ridge`` (D,), the diagonal of
    ``Lambda0``, the regularization of the side that is solved for.
    """

    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Get ready for arrays of this type (compile, where there is something to compile)."""

    def level_sums(
        self, rows: Rows, n_levels: int, own: Floats, design: Floats, offset: Floats
    ) -> tuple[Float64, Float64]:
        """Weighted sums of each row's predictions by level, (n, L), and half the sum of their squares, (n,)."""

    def solve_rows(self, rows: Rows, targets: Floats, design: Floats, offset: Floats, ridge: Floats) -> Floats:
        """Ridge regression of each row's ``targets - offset`` on its design rows, (n, D)."""

    def eliminate_rows(self, rows: Rows, n_levels: int, design: Floats, offset: Floats, ridge: Floats) -> Elimination:
        """Each row's quadratic in its scale, its factors eliminated (MATH section 3)."""

    def targets(self, rows: Rows, table: Floats, *, by_row: bool) -> Floats:
        """Position of every rating, ``table[owner, level]``; the owner is its row or the other side's code."""

    def isotonic(self, values: Float64, weights: Float64) -> Float64:
        """Weighted isotonic regression of each row of ``values`` (n, L) by pooling adjacent violators."""

    def monotone_quadratic(self, Q: Float64, q: Float64, gaps: Float64, used: NDArray[np.bool_]) -> Float64:
        """Minimise ``x'Qx / 2 - q'x`` with ``x[l + 1] - x[l] >= gaps[l]`` for each of n programs, (n, L).

        Only levels in ``used`` (n, L) take part; the others are NaN in the answer.
        """

    def scores(self, users: Integers, items: Integers, own: Floats, design: Floats, offset: Floats) -> Floats:
        """``own[users] . design[items] + offset[items]``, one number a pair."""

    def all_scores(self, own: Floats, design: Floats, offset: Floats) -> Floats:
        """Scores of every row with every item, (n, m), each the same as `scores` gives for the pair."""
