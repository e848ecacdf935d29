"""The inside of a row solve: Gram matrix of a panel of design rows, Cholesky, triangular solves.

Written so that LLVM forms vectors by itself (measured: rank-4 updates on slices reach 14 GFLOP/s, the
same with unsigned flat indices 39, blocks of dot products on a transposed panel 124).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmtrf.kernels.compiled import inner

PANEL = 128  # ratings gathered at a time: a panel of 64 factors stays in the first cache
STRIDE = PANEL + 16  # a power of two would put a panel's rows on the same cache lines
ALIGN = 16  # matrices are padded to this many columns; padded ones get a unit diagonal


@inner
def padded(D: int) -> int:
    """Return the width of the scratch matrices for D design columns."""
    return max(1, (D + ALIGN - 1) // ALIGN) * ALIGN


@inner
def add_gram(T: Any, n: int, D: int, A: Any) -> None:
    """Add ``T T'`` of the panel's first n ratings to the upper triangle of A, in blocks of 2 x 4 dot products."""
    for r in range(0, D, 2):
        a = T[r, :n]
        b = T[r + 1, :n]
        for c in range(r // 4 * 4, D, 4):
            w = T[c, :n]
            x = T[c + 1, :n]
            y = T[c + 2, :n]
            z = T[c + 3, :n]
            a0 = A[r, c]
            a1 = A[r, c + 1]
            a2 = A[r, c + 2]
            a3 = A[r, c + 3]
            b0 = A[r + 1, c]
            b1 = A[r + 1, c + 1]
            b2 = A[r + 1, c + 2]
            b3 = A[r + 1, c + 3]
            for k in range(n):
                a0 += a[k] * w[k]
                a1 += a[k] * x[k]
                a2 += a[k] * y[k]
                a3 += a[k] * z[k]
                b0 += b[k] * w[k]
                b1 += b[k] * x[k]
                b2 += b[k] * y[k]
                b3 += b[k] * z[k]
            A[r, c] = a0
            A[r, c + 1] = a1
            A[r, c + 2] = a2
            A[r, c + 3] = a3
            A[r + 1, c] = b0
            A[r + 1, c + 1] = b1
            A[r + 1, c + 2] = b2
            A[r + 1, c + 3] = b3


@inner
def factor(A: Any, inverse: Any, floor: Any, D: int) -> None:
    """Cholesky ``A = R'R`` on the upper triangle, four rows at a time; ``inverse`` receives 1 / diagonal.

    A pivot at or below its ``floor`` (rounding error of a singular matrix) takes its direction out: the
    solution has a zero there. Vectors start at a multiple of ALIGN and so touch the lower triangle, whose
    content means nothing.
    """
    a = A.reshape(-1)
    n = np.uint64(A.shape[0])
    one = np.uint64(1)
    four = np.uint64(4)
    align = np.uint64(ALIGN)
    zero = a[0] * 0
    for j in range(D):
        floor[j] = A[j, j] * floor[j]
    r = np.uint64(0)
    while r < n:
        for j in range(r, r + four):
            row = j * n
            start = j // align * align
            for p in range(r, j):
                f = a[p * n + j]
                for c in range(start, n):
                    a[row + c] -= f * a[p * n + c]
            pivot = a[row + j]
            scale = zero
            if pivot > floor[j]:
                scale = 1 / np.sqrt(pivot)
            inverse[j] = scale
            for c in range(start, n):
                a[row + c] *= scale
        r0 = r * n
        r1 = r0 + n
        r2 = r1 + n
        r3 = r2 + n
        for q in range(r + four, n):
            f0 = a[r0 + q]
            f1 = a[r1 + q]
            f2 = a[r2 + q]
            f3 = a[r3 + q]
            row = q * n
            for c in range(q // align * align, n):
                a[row + c] -= f0 * a[r0 + c] + f1 * a[r1 + c] + f2 * a[r2 + c] + f3 * a[r3 + c]
        r += four


@inner
def forward(R: Any, inverse: Any, b: Any, D: int) -> None:
    """Solve ``R' y = b`` in place."""
    for r in range(D):
        t = b[r] * inverse[r]
        b[r] = t
        row = R[r]
        for c in range(r + 1, D):
            b[c] -= t * row[c]


@inner
def backward(R: Any, inverse: Any, b: Any, D: int) -> None:
    """Solve ``R u = y`` in place."""
    for r in range(D - 1, -1, -1):
        t = b[r] * 0
        row = R[r]
        for c in range(r + 1, D):
            t += row[c] * b[c]
        b[r] = (b[r] - t) * inverse[r]
