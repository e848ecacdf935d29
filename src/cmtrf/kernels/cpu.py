"""The kernels on the processor: compiled row loops, called on blocks of rows from ordinary threads.

Rows do not know of each other, so the result has the same bits whatever the number of threads; sums over
rows are left to the caller, who takes them in order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels import monotone, rows as row_kernels
from cmtrf.kernels.compiled import Kernel
from cmtrf.kernels.table import Elimination, Float64, Floats, Integers, Rows

BLOCK = 2_000_000  # least work, in multiplications, that is worth a thread
BLOCKS_A_THREAD = 4  # so that one slow block does not keep the others waiting


class CpuKernels:
    """Threads live as long as the `with` block around it: none is left behind for a fork to trip over."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> CpuKernels:
        """Threads start with the first piece of work that is worth them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Compile every kernel for this type of number, or read it from disk."""
        for module in (row_kernels, monotone):
            for kernel in vars(module).values():
                if isinstance(kernel, Kernel):
                    kernel.ready(dtype if module is row_kernels else np.float64)

    def level_sums(
        self, rows: Rows, n_levels: int, own: Floats, design: Floats, offset: Floats
    ) -> tuple[Float64, Float64]:
        """See `Kernels.level_sums`."""
        n = len(rows.indptr) - 1
        sums, energy = np.zeros((n, n_levels)), np.zeros(n)
        run = row_kernels.level_sums.ready(design.dtype)
        self._each_block(
            lambda lo, hi: run(lo, hi, *rows, own, design, offset, sums, energy), rows.indptr, design.shape[1]
        )
        return sums, energy

    def solve_rows(self, rows: Rows, targets: Floats, design: Floats, offset: Floats, ridge: Floats) -> Floats:
        """See `Kernels.solve_rows`."""
        D = design.shape[1]
        solution = np.empty((len(rows.indptr) - 1, D), design.dtype)
        run = row_kernels.solve_rows.ready(design.dtype)
        self._each_block(
            lambda lo, hi: run(
                lo, hi, rows.indptr, rows.indices, rows.weight, targets, design, offset, ridge, solution
            ),
            rows.indptr,
            D * D,
            D**3 // 3,
        )
        return solution

    def eliminate_rows(self, rows: Rows, n_levels: int, design: Floats, offset: Floats, ridge: Floats) -> Elimination:
        """See `Kernels.eliminate_rows`."""
        n, D, L = len(rows.indptr) - 1, design.shape[1], n_levels
        Q, q = np.zeros((n, L, L)), np.zeros((n, L))  # pages of levels that nobody uses are never touched
        W, w = np.zeros((n, L, D), design.dtype), np.empty((n, D), design.dtype)
        run = row_kernels.eliminate_rows.ready(design.dtype)
        self._each_block(
            lambda lo, hi: run(lo, hi, *rows, design, offset, ridge, Q, q, W, w),
            rows.indptr,
            D * D,
            D**3 // 3 + 2 * L * D * D,
        )
        return Elimination(Q, q, W, w)

    def targets(self, rows: Rows, table: Floats, *, by_row: bool) -> Floats:
        """See `Kernels.targets`."""
        positions = np.empty(len(rows.indices), table.dtype)
        run = row_kernels.targets.ready(table.dtype)
        self._each_block(
            lambda lo, hi: run(lo, hi, rows.indptr, rows.indices, rows.level, table, by_row, positions),
            rows.indptr,
            4,
        )
        return positions

    def isotonic(self, values: Float64, weights: Float64) -> Float64:
        """See `Kernels.isotonic`."""
        fitted = np.empty_like(values)
        run = monotone.isotonic.ready(np.float64)
        self._each_block(lambda lo, hi: run(lo, hi, values, weights, fitted), *_uniform(values))
        return fitted

    def monotone_quadratic(self, Q: Float64, q: Float64, gaps: Float64, used: NDArray[np.bool_]) -> Float64:
        """See `Kernels.monotone_quadratic`."""
        fitted = np.empty_like(q)
        run = monotone.monotone_quadratic.ready(np.float64)
        indptr, work = _uniform(q)
        self._each_block(lambda lo, hi: run(lo, hi, Q, q, gaps, used, fitted), indptr, work * q.shape[1])
        return fitted

    def scores(self, users: Integers, items: Integers, own: Floats, design: Floats, offset: Floats) -> Floats:
        """See `Kernels.scores`."""
        answer = np.empty(len(users), design.dtype)
        run = row_kernels.scores.ready(design.dtype)
        users, items = users.astype(np.int64, copy=False), items.astype(np.int64, copy=False)
        self._each_block(
            lambda lo, hi: run(lo, hi, users, items, own, design, offset, answer),
            np.arange(len(users) + 1),
            design.shape[1] + 8,
        )
        return answer

    def all_scores(self, own: Floats, design: Floats, offset: Floats) -> Floats:
        """See `Kernels.all_scores`."""
        n, m = len(own), len(design)
        answer = np.empty((n, m), design.dtype)
        run = row_kernels.all_scores.ready(design.dtype)
        self._each_block(lambda lo, hi: run(lo, hi, own, design, offset, answer), np.arange(n + 1), m * design.shape[1])
        return answer

    def _each_block(
        self, run: Callable[[int, int], None], indptr: NDArray[Any], per_rating: int, per_row: int = 0
    ) -> None:
        """Call ``run(lo, hi)`` on blocks of rows of about equal work."""
        n = len(indptr) - 1
        total = float(indptr[-1]) * per_rating + float(n) * per_row
        blocks = int(min(self.n_jobs * BLOCKS_A_THREAD, total // BLOCK))
        if self.n_jobs == 1 or blocks <= 1:
            run(0, n)
            return
        done = indptr * float(per_rating) + np.arange(n + 1) * float(per_row)
        edges = np.searchsorted(done, total * np.arange(1, blocks) / blocks).tolist()
        bounds = sorted({0, *edges, n})
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="cmtrf")
        for _ in self._pool.map(run, bounds[:-1], bounds[1:]):
            pass


def _uniform(scales: Float64) -> tuple[NDArray[np.int64], int]:
    """Blocks for kernels whose rows all cost the same: as if each row had one rating."""
    return np.arange(len(scales) + 1), scales.shape[1] * 20
