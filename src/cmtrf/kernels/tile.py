"""The inside of a row solve: Gram matrix of a panel of design rows, Cholesky, triangular solves.

Written so that LLVM forms vectors by itself (measured: rank-4 updates on slices reach 14 GFLOP/s, the
same with unsigned flat indices 39, blocks of dot products on a transposed panel 124).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmtrf.kernels.compiled import inner

PANEL = 256  # ratings gathered at a time: most rows are one panel, and 8 of its rows stay in the first cache
STRIDE = PANEL + 16  # a power of two would put a panel's rows on the same cache lines
ALIGN = 16  # matrices are padded to this many columns; padded ones get a unit diagonal


@inner
def padded(D: int) -> int:
    """Return the width of the scratch matrices for D design columns."""
    return max(1, (D + ALIGN - 1) // ALIGN) * ALIGN


@inner
def add_gram(T: Any, n: int, D: int, A: Any) -> None:
    """Add ``T T'`` of the panel's first n ratings to the upper triangle of A, in blocks of 4 x 4 dot products."""
    zero = T.dtype.type(0)  # (a plain 0 would widen the sums to double precision)
    for r in range(0, D, 4):
        a0 = T[r, :n]
        a1 = T[r + 1, :n]
        a2 = T[r + 2, :n]
        a3 = T[r + 3, :n]
        for c in range(r, D, 4):
            b0 = T[c, :n]
            b1 = T[c + 1, :n]
            b2 = T[c + 2, :n]
            b3 = T[c + 3, :n]
            s00 = s01 = s02 = s03 = zero
            s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = zero
            s30 = s31 = s32 = s33 = zero
            for k in range(n):
                x0, y0 = a0[k], b0[k]
                x1, y1 = a1[k], b1[k]
                x2, y2 = a2[k], b2[k]
                x3, y3 = a3[k], b3[k]
                s00 += x0 * y0
                s01 += x0 * y1
                s02 += x0 * y2
                s03 += x0 * y3
                s10 += x1 * y0
                s11 += x1 * y1
                s12 += x1 * y2
                s13 += x1 * y3
                s20 += x2 * y0
                s21 += x2 * y1
                s22 += x2 * y2
                s23 += x2 * y3
                s30 += x3 * y0
                s31 += x3 * y1
                s32 += x3 * y2
                s33 += x3 * y3
            A[r, c] += s00
            A[r, c + 1] += s01
            A[r, c + 2] += s02
            A[r, c + 3] += s03
            A[r + 1, c] += s10
            A[r + 1, c + 1] += s11
            A[r + 1, c + 2] += s12
            A[r + 1, c + 3] += s13
            A[r + 2, c] += s20
            A[r + 2, c + 1] += s21
            A[r + 2, c + 2] += s22
            A[r + 2, c + 3] += s23
            A[r + 3, c] += s30
            A[r + 3, c + 1] += s31
            A[r + 3, c + 2] += s32
            A[r + 3, c + 3] += s33


@inner
def factor(A: Any, inverse: Any, floor: Any, D: int) -> None:
    """Cholesky ``A = R'R`` on the upper triangle, four rows at a time; ``inverse`` receives 1 / diagonal.

    A pivot at or below its ``floor`` (rounding error of a singular matrix) takes its direction out: the
    solution has a zero there. Vectors start at a multiple of ALIGN and so touch the lower triangle, whose
    content means nothing.
    """
    a = A.reshape(-1)
    n = np.uint64(A.shape[0])
    four = np.uint64(4)
    align = np.uint64(ALIGN)
    zero = A.dtype.type(0)
    unit = A.dtype.type(1)
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
                scale = unit / np.sqrt(pivot)
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
        t = b.dtype.type(0)
        row = R[r]
        for c in range(r + 1, D):
            t += row[c] * b[c]
        b[r] = (b[r] - t) * inverse[r]
