"""Every kernel in plain numpy: read this first; the compiled ones must agree with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cmtrf.kernels.table import Elimination, Float64, Floats, Integers, Rows, owners, weights


class ReferenceKernels:
    """Slow and readable. Sums in double precision, whatever the type of its arguments."""

    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Nothing to compile."""

    def level_sums(
        self, rows: Rows, n_levels: int, own: Floats, design: Floats, offset: Floats
    ) -> tuple[Float64, Float64]:
        """S_il = sum of w s over the ratings of row i at level l; sum of w s^2 / 2 over all of them."""
        n = len(rows.indptr) - 1
        row, weight = owners(rows), weights(rows)
        s = (own[row].astype(np.float64) * design[rows.indices]).sum(1) + offset[rows.indices]
        cell = row * n_levels + rows.level
        sums = np.bincount(cell, weights=weight * s, minlength=n * n_levels)
        energy = np.bincount(row, weights=weight * s**2 / 2, minlength=n)
        return sums.reshape(n, n_levels).astype(np.float64), energy.astype(np.float64)

    def solve_rows(self, rows: Rows, targets: Floats, design: Floats, offset: Floats, ridge: Floats) -> Floats:
        """u = A^+ V'w(t - offset), A = V'wV + diag(ridge); a singular A gets the smallest solution."""
        solution = np.zeros((len(rows.indptr) - 1, design.shape[1]), design.dtype)
        for i, V, weight, here in each_row(rows, design):
            A = (V.T * weight) @ V + np.diag(ridge)
            solution[i] = np.linalg.pinv(A) @ (V.T @ (weight * (targets[here] - offset[rows.indices[here]])))
        return solution

    def eliminate_rows(self, rows: Rows, n_levels: int, design: Floats, offset: Floats, ridge: Floats) -> Elimination:
        """MATH section 3, with E the one-hot matrix of levels: G = E'wV, g = E'wb, h = V'wb, c = E'w."""
        n, D = len(rows.indptr) - 1, design.shape[1]
        Q, q = np.zeros((n, n_levels, n_levels)), np.zeros((n, n_levels))
        W, w = np.zeros((n, n_levels, D), design.dtype), np.zeros((n, D), design.dtype)
        for i, V, weight, here in each_row(rows, design):
            E = np.eye(n_levels)[rows.level[here]]
            b = offset[rows.indices[here]].astype(np.float64)
            inverse = np.linalg.pinv((V.T * weight) @ V + np.diag(ridge))
            G, h = (E.T * weight) @ V, V.T @ (weight * b)
            Q[i] = np.diag(E.T @ weight) - G @ inverse @ G.T
            q[i] = E.T @ (weight * b) - G @ inverse @ h
            W[i], w[i] = G @ inverse, inverse @ h
        return Elimination(Q, q, W, w)

    def targets(self, rows: Rows, table: Floats, *, by_row: bool) -> Floats:
        """Position of each rating on its owner's scale."""
        return table[owners(rows) if by_row else rows.indices, rows.level]

    def isotonic(self, values: Float64, weights: Float64) -> Float64:
        """Min-max formula: the fit at a level is the largest, over starts, of the smallest mean to an end."""
        fitted = np.full(values.shape, np.nan)
        for x, y, w in zip(fitted, values, weights, strict=True):
            used = np.flatnonzero(w > 0)
            y, w = y[used], w[used]
            x[used] = [
                max(
                    min(np.average(y[a : b + 1], weights=w[a : b + 1]) for b in range(level, len(used)))
                    for a in range(level + 1)
                )
                for level in range(len(used))
            ]
        return fitted

    def monotone_quadratic(self, Q: Float64, q: Float64, gaps: Float64, used: Any) -> Float64:
        """Projected coordinate descent on the gaps, each coordinate in closed form, until nothing moves."""
        fitted = np.full(q.shape, np.nan)
        for i in range(len(q)):
            index = np.flatnonzero(used[i])
            if len(index) == 0:
                continue
            shift = np.concatenate([[0.0], np.cumsum(gaps)])[index]
            shift -= shift[0]
            T = np.tril(np.ones((len(index), len(index))))
            H = T.T @ Q[i][np.ix_(index, index)] @ T
            f = T.T @ (q[i][index] - Q[i][np.ix_(index, index)] @ shift)
            y = np.zeros(len(index))
            for _ in range(200_000):
                before = y.copy()
                for a in range(len(y)):
                    if H[a, a] > 1e-13 * H.max():
                        y[a] += (f[a] - H[a] @ y) / H[a, a]
                    if a > 0:
                        y[a] = max(y[a], 0.0)
                if np.abs(y - before).max() <= 1e-15 * (1 + np.abs(y).max()):
                    break
            fitted[i, index] = T @ y + shift
        return fitted

    def scores(self, users: Integers, items: Integers, own: Floats, design: Floats, offset: Floats) -> Floats:
        """Score of each pair."""
        score: Floats = (own[users].astype(np.float64) * design[items]).sum(1) + offset[items]
        return score.astype(own.dtype)

    def all_scores(self, own: Floats, design: Floats, offset: Floats) -> Floats:
        """Scores of all pairs."""
        score: Floats = own.astype(np.float64) @ design.T + offset
        return score.astype(own.dtype)


def each_row(rows: Rows, design: Floats) -> Any:
    """Yield each row's number, design rows, weights and the slice of its ratings."""
    for i in range(len(rows.indptr) - 1):
        here = slice(rows.indptr[i], rows.indptr[i + 1])
        yield i, design[rows.indices[here]].astype(np.float64), weights(rows)[here], here
