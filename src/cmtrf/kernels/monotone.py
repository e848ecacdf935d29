"""Compiled kernels over scales, each a program of its own in a handful of numbers; double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cmtrf.kernels.compiled import RANGE, array, inner, kernel, out

F = types.float64


@kernel(lambda _: (*RANGE, array(F, 2), array(F, 2), out(F, 2)))
def isotonic(lo: int, hi: int, values: Any, weights: Any, fitted: Any) -> None:
    """Pool adjacent violators. A level of weight 0 is left out, its place in ``fitted`` NaN."""
    L = values.shape[1]
    mean = np.empty(L)
    weight = np.empty(L)
    last = np.empty(L, np.int64)  # the last level of each block
    for i in range(lo, hi):
        blocks = 0
        for level in range(L):
            if weights[i, level] <= 0:
                continue
            mean[blocks] = values[i, level]
            weight[blocks] = weights[i, level]
            last[blocks] = level
            blocks += 1
            while blocks > 1 and mean[blocks - 2] >= mean[blocks - 1]:
                total = weight[blocks - 2] + weight[blocks - 1]
                step = (mean[blocks - 1] - mean[blocks - 2]) * (weight[blocks - 1] / total)
                mean[blocks - 2] += step
                weight[blocks - 2] = total
                last[blocks - 2] = level
                blocks -= 1
        block = 0
        for level in range(L):
            if weights[i, level] <= 0:
                fitted[i, level] = np.nan
                continue
            while last[block] < level:
                block += 1
            fitted[i, level] = mean[block]


@inner
def solve_free(H: Any, f: Any, free: Any, m: int, R: Any, s: Any) -> None:
    """Solve ``H s = f`` over the free variables by Cholesky; s is 0 elsewhere and in singular directions."""
    for a in range(m):
        s[a] = 0.0
        if not free[a]:
            continue
        for b in range(a + 1):
            if not free[b]:
                continue
            t = H[a, b]
            for k in range(b):
                if free[k]:
                    t -= R[a, k] * R[b, k]
            if a != b:
                R[a, b] = t / R[b, b] if R[b, b] > 0 else 0.0
            else:
                R[a, a] = np.sqrt(t) if t > 1e-13 * m * H[a, a] else 0.0
        t = f[a]
        for k in range(a):
            if free[k]:
                t -= R[a, k] * s[k]
        s[a] = t / R[a, a] if R[a, a] > 0 else 0.0
    for a in range(m - 1, -1, -1):
        if not free[a]:
            continue
        t = s[a]
        for k in range(a + 1, m):
            if free[k]:
                t -= R[k, a] * s[k]
        s[a] = t / R[a, a] if R[a, a] > 0 else 0.0


@inner
def nonnegative(H: Any, f: Any, m: int, y: Any, free: Any, R: Any, s: Any) -> None:
    """Minimise ``y'Hy / 2 - f'y`` with all but the first of y at least 0 (Lawson and Hanson's active set)."""
    for a in range(m):
        y[a] = 0.0
        free[a] = a == 0
    solve_free(H, f, free, m, R, s)
    y[0] = s[0]
    for _ in range(3 * m + 10):
        best = -1
        steepest = 1e-12  # relative to the terms of each slope: weights may differ by many powers of ten
        for a in range(1, m):
            if free[a]:
                continue
            slope = f[a]
            terms = abs(f[a])
            for b in range(m):
                slope -= H[a, b] * y[b]
                terms += abs(H[a, b] * y[b])
            if slope > steepest * terms:
                best = a
                steepest = slope / terms
        if best < 0:
            return
        free[best] = True
        for inner_step in range(m + 1):
            solve_free(H, f, free, m, R, s)
            if inner_step == 0 and s[best] <= 0:  # rounding: the slope was noise
                free[best] = False
                return
            step = 1.0
            for a in range(1, m):
                if free[a] and s[a] <= 0:
                    step = min(step, y[a] / (y[a] - s[a]))
            done = step >= 1.0
            for a in range(m):
                y[a] += step * (s[a] - y[a])
                if a > 0 and free[a] and (y[a] <= 0 or (s[a] <= 0 and y[a] <= 1e-14 * abs(s[a]))):
                    y[a] = 0.0
                    free[a] = False
                    done = False
            if done:
                break


@kernel(lambda _: (*RANGE, array(F, 3), array(F, 2), array(F, 1), array(types.boolean, 2), out(F, 2)))
def monotone_quadratic(lo: int, hi: int, Q: Any, q: Any, gaps: Any, used: Any, fitted: Any) -> None:
    """Minimise ``x'Qx / 2 - q'x`` over the used levels, their gaps at least the sum of ``gaps`` between them.

    Written in the lowest position and the room of each gap above its minimum, ``x = T y + shift`` with T
    lower triangular of ones: a quadratic with bounds. Levels not used are NaN in ``fitted``.
    """
    L = Q.shape[1]
    H = np.empty((L, L))
    R = np.zeros((L, L))
    f = np.empty(L)
    s = np.empty(L)
    y = np.empty(L)
    shift = np.empty(L)
    free = np.empty(L, np.bool_)
    index = np.empty(L, np.int64)
    for i in range(lo, hi):
        m = 0
        total = 0.0
        for level in range(L):
            fitted[i, level] = np.nan
            if level > 0 and m > 0:
                total += gaps[level - 1]
            if used[i, level]:
                index[m] = level
                shift[m] = total
                m += 1
        if m == 0:
            continue
        for a in range(m - 1, -1, -1):  # H = T'QT and f = T'(q - Q shift), by sums from the far corner
            f[a] = q[i, index[a]]
            for b in range(m):
                f[a] -= Q[i, index[a], index[b]] * shift[b]
            if a + 1 < m:
                f[a] += f[a + 1]
            for b in range(m - 1, -1, -1):
                H[a, b] = Q[i, index[a], index[b]]
                if a + 1 < m:
                    H[a, b] += H[a + 1, b]
                if b + 1 < m:
                    H[a, b] += H[a, b + 1]
                if a + 1 < m and b + 1 < m:
                    H[a, b] -= H[a + 1, b + 1]
        nonnegative(H, f, m, y, free, R, s)
        x = 0.0
        for a in range(m):
            x += y[a]
            fitted[i, index[a]] = x + shift[a]
