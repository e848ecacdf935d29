"""Compiled kernels over the rows of one side. Each takes a range of rows and fills its part of ``out``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cmtrf.kernels.compiled import RANGE, array, inner, kernel, out
from cmtrf.kernels.tile import PANEL, STRIDE, add_gram, backward, factor, forward, padded

RATINGS = (array(types.int64, 1), array(types.int32, 1), array(types.uint8, 1))


@kernel(
    lambda f: (
        *RANGE, *RATINGS, array(f, 1), array(f, 2), array(f, 2), array(f, 1),
        out(types.float64, 2), out(types.float64, 1),
    )
)  # fmt: skip
def level_sums(
    lo: int, hi: int, indptr: Any, indices: Any, level: Any, weight: Any,
    own: Any, design: Any, offset: Any, sums: Any, energy: Any,
) -> None:  # fmt: skip
    """S_il and half the sum of squares of each row's predictions, in double precision."""
    D = design.shape[1]
    weighted = len(weight) > 0
    for i in range(lo, hi):
        u = own[i]
        total = 0.0
        for t in range(indptr[i], indptr[i + 1]):
            j = indices[t]
            v = design[j]
            s = offset[j]
            for c in range(D):
                s += u[c] * v[c]
            w = 1.0
            if weighted:
                w = np.float64(weight[t])
            sums[i, level[t]] += w * s
            total += w * s * s
        energy[i] = total / 2


@inner
def gather(
    lo: int, hi: int, indices: Any, weight: Any, values: Any, design: Any, offset: Any, T: Any, rhs: Any
) -> None:
    """Panel of the design rows of ratings lo..hi, transposed, scaled by sqrt(weight); their right-hand side."""
    D = design.shape[1]
    weighted = len(weight) > 0
    for k in range(hi - lo):
        t = lo + k
        j = indices[t]
        v = design[j]
        y = values[t] - offset[j]
        if weighted:
            root = np.sqrt(weight[t])
            y *= root
            for c in range(D):
                x = root * v[c]
                T[c, k] = x
                rhs[c] += y * x
        else:
            for c in range(D):
                x = v[c]
                T[c, k] = x
                rhs[c] += y * x


@inner
def regularize(A: Any, ridge: Any, floor: Any) -> None:
    """Add the ridge; give padded columns a unit diagonal, and every pivot its relative floor.

    Rounding may leave a singular matrix indefinite by about eps D of its diagonal: so much is added as well.
    """
    D = len(ridge)
    tiny = A.dtype.type(np.finfo(A.dtype).eps * D)
    for r in range(D):
        A[r, r] += ridge[r] + tiny * A[r, r]
        floor[r] = tiny
    for r in range(D, A.shape[0]):
        A[r, r] = 1
        floor[r] = 0


@kernel(
    lambda f: (
        *RANGE,
        *RATINGS[:2],
        array(f, 1),
        array(f, 1),
        array(f, 2),
        array(f, 1),
        array(f, 1),
        out(f, 2),
    )
)
def solve_rows(
    lo: int, hi: int, indptr: Any, indices: Any, weight: Any,
    values: Any, design: Any, offset: Any, ridge: Any, solution: Any,
) -> None:  # fmt: skip
    """Normal equations of each row, gathered in panels, solved by Cholesky."""
    D = design.shape[1]
    n = padded(D)
    A = np.zeros((n, n), design.dtype)
    T = np.zeros((n, STRIDE), design.dtype)
    total = np.zeros(D, np.float64)  # one by one in single precision, a million terms would lose too much
    rhs = np.zeros(D, design.dtype)
    inverse = np.zeros(n, design.dtype)
    floor = np.zeros(n, design.dtype)
    for i in range(lo, hi):
        A[:] = 0
        total[:] = 0
        end = indptr[i + 1]
        for start in range(indptr[i], end, PANEL):
            stop = min(start + PANEL, end)
            gather(start, stop, indices, weight, values, design, offset, T, total)
            add_gram(T, stop - start, D, A)
        regularize(A, ridge, floor)
        factor(A, inverse, floor, D)
        rhs[:] = total
        forward(A, inverse, rhs, D)
        backward(A, inverse, rhs, D)
        solution[i] = rhs


@inner
def gather_levels(
    lo: int, hi: int, indices: Any, level: Any, weight: Any, design: Any, offset: Any,
    T: Any, G: Any, g: Any, h: Any, c: Any,
) -> None:  # fmt: skip
    """Panel as in `gather`, and the level sums of MATH section 2: G, g, h and the counts c."""
    D = design.shape[1]
    weighted = len(weight) > 0
    for k in range(hi - lo):
        t = lo + k
        j = indices[t]
        v = design[j]
        row = G[level[t]]
        w = design.dtype.type(1)
        root = w
        if weighted:
            w = weight[t]
            root = np.sqrt(w)
        b = w * offset[j]
        c[level[t]] += w
        g[level[t]] += b
        for col in range(D):
            x = v[col]
            T[col, k] = root * x
            row[col] += w * x
            h[col] += b * x


@kernel(
    lambda f: (
        *RANGE, *RATINGS, array(f, 1), array(f, 2), array(f, 1), array(f, 1),
        out(types.float64, 3), out(types.float64, 2), out(f, 3), out(f, 2),
    )
)  # fmt: skip
def eliminate_rows(
    lo: int, hi: int, indptr: Any, indices: Any, level: Any, weight: Any,
    design: Any, offset: Any, ridge: Any, Q: Any, q: Any, W: Any, w: Any,
) -> None:  # fmt: skip
    """MATH section 3: with A = R'R, Y = R'^-1 G' and y = R'^-1 h, Q = diag(c) - Y'Y and q = g - Y'y."""
    D = design.shape[1]
    L = Q.shape[1]
    n = padded(D)
    A = np.zeros((n, n), design.dtype)
    T = np.zeros((n, STRIDE), design.dtype)
    G_sum = np.zeros((L, D), np.float64)
    h_sum = np.zeros(D, np.float64)
    G = np.zeros((L, D), design.dtype)
    h = np.zeros(D, design.dtype)
    g = np.zeros(L, np.float64)
    counts = np.zeros(L, np.float64)
    inverse = np.zeros(n, design.dtype)
    floor = np.zeros(n, design.dtype)
    for i in range(lo, hi):
        A[:] = 0
        G_sum[:] = 0
        h_sum[:] = 0
        g[:] = 0
        counts[:] = 0
        end = indptr[i + 1]
        for start in range(indptr[i], end, PANEL):
            stop = min(start + PANEL, end)
            gather_levels(start, stop, indices, level, weight, design, offset, T, G_sum, g, h_sum, counts)
            add_gram(T, stop - start, D, A)
        regularize(A, ridge, floor)
        factor(A, inverse, floor, D)
        G[:] = G_sum
        h[:] = h_sum
        forward(A, inverse, h, D)
        for a in range(L):  # a level that the row does not use has zeros everywhere, as the outputs came
            if counts[a] > 0:
                forward(A, inverse, G[a], D)
        for a in range(L):
            if counts[a] <= 0:
                continue
            dot = 0.0
            for col in range(D):
                dot += np.float64(G[a, col]) * h[col]
            q[i, a] = g[a] - dot
            for b in range(a, L):
                if counts[b] > 0:
                    dot = 0.0
                    for col in range(D):
                        dot += np.float64(G[a, col]) * G[b, col]
                    Q[i, a, b] = -dot
                    Q[i, b, a] = -dot
            Q[i, a, a] += counts[a]
        backward(A, inverse, h, D)
        w[i] = h
        for a in range(L):
            if counts[a] > 0:
                backward(A, inverse, G[a], D)
                W[i, a] = G[a]


@kernel(lambda f: (*RANGE, *RATINGS, array(f, 2), types.boolean, out(f, 1)))
def targets(lo: int, hi: int, indptr: Any, indices: Any, level: Any, table: Any, by_row: bool, positions: Any) -> None:
    """Position of each rating on its owner's scale."""
    for i in range(lo, hi):
        for t in range(indptr[i], indptr[i + 1]):
            owner = i if by_row else np.int64(indices[t])
            positions[t] = table[owner, level[t]]


@inner
def score(u: Any, v: Any, b: Any) -> Any:
    """``u . v + b``; both kernels below call it, so that a pair has one score."""
    s = b
    for c in range(len(v)):
        s += u[c] * v[c]
    return s


@kernel(
    lambda f: (*RANGE, array(types.int64, 1), array(types.int64, 1), array(f, 2), array(f, 2), array(f, 1), out(f, 1))
)
def scores(lo: int, hi: int, users: Any, items: Any, own: Any, design: Any, offset: Any, answer: Any) -> None:
    """Score of each pair."""
    for t in range(lo, hi):
        answer[t] = score(own[users[t]], design[items[t]], offset[items[t]])


@kernel(lambda f: (*RANGE, array(f, 2), array(f, 2), array(f, 1), out(f, 2)))
def all_scores(lo: int, hi: int, own: Any, design: Any, offset: Any, answer: Any) -> None:
    """Score of each row with each item."""
    for i in range(lo, hi):
        for j in range(len(offset)):
            answer[i, j] = score(own[i], design[j], offset[j])
