"""The problem that a solver is to solve: ratings, a model and its penalties; it can score a State, not move it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cmtrf.kernels.table import Float64, Floats, Integers
from cmtrf.ratings import Ratings
from cmtrf.scales.margin import Margin


@dataclass(frozen=True)
class State:
    """Where a fit stands. One scale, K, or one a user are one path: X has K rows, and z names the row."""

    U: Floats  # (N, d)
    V: Floats  # (M, d)
    b_user: Floats  # (N,) zeros without biases
    b_item: Floats  # (M,)
    X: Float64  # (K, L) positions of the levels on each scale
    z: Integers  # (N,) scale of each user
    S: Float64  # (N, L) predictions of these factors, summed by level
    energy: Float64  # (N,) half the sum of their squares


@dataclass(frozen=True)
class Problem:
    """The paper's objective (eq. os_final, ns_final, ks_final) with optional biases and shrinkage."""

    ratings: Ratings
    margin: Margin
    n_scales: int | str  # "fixed", "user", or a number
    rank: int
    bias: bool
    lambda_u: float
    lambda_v: float
    lambda_bias: tuple[float, float]  # (user, item)
    dtype: np.dtype[Any]

    @property
    def K(self) -> int:
        """Number of scales."""
        if self.n_scales == "user":
            return self.ratings.n_users
        return 1 if isinstance(self.n_scales, str) else self.n_scales

    @property
    def learns_scales(self) -> bool:
        """False where the given scale is kept."""
        return self.n_scales != "fixed"

    @property
    def assigns_users(self) -> bool:
        """Whether users choose among the scales."""
        return self.n_scales != "user" and self.K > 1

    @cached_property
    def lone(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Scales that are kept at the parent: those of users with a single level, unless shrinkage shapes them."""
        if self.n_scales != "user" or self.margin.pulls:
            return np.zeros(self.K, dtype=bool)
        lone: np.ndarray[Any, np.dtype[np.bool_]] = (self.ratings.level_counts > 0).sum(1) < 2
        return lone

    @property
    def ridge_user(self) -> Floats:
        """Diagonal of Lambda0 for users, (D,)."""
        return self._ridge(self.lambda_u, self.lambda_bias[0])

    @property
    def ridge_item(self) -> Floats:
        """Diagonal of Lambda0 for items, (D,)."""
        return self._ridge(self.lambda_v, self.lambda_bias[1])

    def _ridge(self, factors: float, bias: float) -> Floats:
        return np.array([factors] * self.rank + [bias] * self.bias, dtype=self.dtype)

    def design(self, factors: Floats) -> Floats:
        """Rows that the other side is regressed on: the factors, with a column of ones for its bias."""
        if not self.bias:
            return factors
        return np.column_stack([factors, np.ones(len(factors), self.dtype)])

    def join(self, factors: Floats, bias: Floats) -> Floats:
        """Factors and bias of one side as one array (n, D), as its row solve returns them."""
        return np.column_stack([factors, bias]) if self.bias else factors

    def split(self, solution: Floats) -> tuple[Floats, Floats]:
        """Undo `join`; biases are zeros where the model has none."""
        if not self.bias:
            return solution, np.zeros(len(solution), self.dtype)
        return np.ascontiguousarray(solution[:, :-1]), np.ascontiguousarray(solution[:, -1])

    def rounding(self, state: State) -> float:
        """How much of the objective may be rounding: it is a difference of sums of this size."""
        squares = (self.ratings.level_counts * state.X[state.z] ** 2).sum() / 2 + state.energy.sum()
        return 1e-13 * float(squares)

    def objective(self, state: State) -> float:
        """Squared loss of transformed ratings and the penalties, in double precision.

        ``sum_t w_t (x_t - s_t)^2 / 2`` is taken from level sums: ``sum c x^2 / 2 - x S + energy``.
        """
        x, c = state.X[state.z], self.ratings.level_counts
        loss = max(float((c * x**2 / 2 - x * state.S).sum() + state.energy.sum()), 0.0)
        pairs = (
            (self.lambda_u, state.U),
            (self.lambda_v, state.V),
            (self.lambda_bias[0], state.b_user),
            (self.lambda_bias[1], state.b_item),
        )
        ridge = sum(weight / 2 * float(np.square(a, dtype=np.float64).sum()) for weight, a in pairs)
        pull = float(self.margin.penalty(state.X).sum()) if self.learns_scales else 0.0
        return loss + ridge + pull
