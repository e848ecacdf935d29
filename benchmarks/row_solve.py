"""One exact sweep over MovieLens 1M, users and items: CPU milliseconds on one thread, and the share of sgemm.

    python benchmarks/row_solve.py ml-1m.zip [--prototype FILE]

The flops counted are the Gram matrices (a triangle of each) and the Cholesky factors; what sgemm reaches is
measured in the same process. ``--prototype`` takes a Python file with ``make_half`` and ``bounds`` that does the
same sweep, and is timed in the same run. Last, a sweep of K-CMTRF and of N-CMTRF beside one of plain factorization.
Set OPENBLAS_CORETYPE=SkylakeX where OpenBLAS takes an AVX-512 machine for a Haswell.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import zipfile
from collections.abc import Callable
from statistics import median
from typing import Any

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"))

import numpy as np

from cmtrf.kernels.cpu import CpuKernels
from cmtrf.problem import Problem
from cmtrf.ratings import Ratings, build_ratings
from cmtrf.scales.margin import Margin
from cmtrf.scales.parents import given_scale
from cmtrf.solvers.joint import Joint
from cmtrf.solvers.start import random_state

RANKS = (16, 20, 32, 64, 128)


def cpu_ms(run: Callable[[], Any], repeats: int = 7) -> float:
    """Return the median CPU time in milliseconds."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return 1e3 * median(times)


def read_movielens(path: str) -> Ratings:
    """Encode ml-1m.zip."""
    raw = zipfile.ZipFile(path).read("ml-1m/ratings.dat").replace(b"::", b" ")
    table = np.array(raw.split(), dtype=np.int64).reshape(-1, 4)
    users, items = (np.unique(table[:, side], return_inverse=True)[1] for side in (0, 1))
    return build_ratings(users, items, table[:, 2] - 1, None, (users.max() + 1, items.max() + 1, 5))


def sgemm_gflops(n: int = 1024) -> float:
    """Return what sgemm reaches on one thread."""
    a = np.random.default_rng(0).standard_normal((n, n)).astype(np.float32)
    return 2 * n**3 / cpu_ms(lambda: a @ a) / 1e6


def sweep(ratings: Ratings, kernels: CpuKernels, d: int) -> Callable[[], None]:
    """Return a function that solves all users, then all items."""
    rng = np.random.default_rng(0)
    V = (0.1 * rng.standard_normal((ratings.n_items, d))).astype(np.float32)
    table = np.tile(np.linspace(-1, 1, 5, dtype=np.float32), (ratings.n_users, 1))
    ridge, none = np.full(d, 5, np.float32), np.zeros(max(ratings.n_users, ratings.n_items), np.float32)

    def run() -> None:
        targets = kernels.targets(ratings.by_user, table, by_row=True)
        U = kernels.solve_rows(ratings.by_user, targets, V, none[: ratings.n_items], ridge)
        targets = kernels.targets(ratings.by_item, table, by_row=False)
        kernels.solve_rows(ratings.by_item, targets, U, none[: ratings.n_users], ridge)

    return run


def prototype_sweep(module: Any, ratings: Ratings, d: int) -> Callable[[], None]:
    """Return the same sweep by another implementation (see above)."""
    half = module.make_half("ir")
    rows, columns = ratings.by_user, ratings.by_item
    X, z = np.tile(np.linspace(-1, 1, 5, dtype=np.float32), (4, 1)), np.zeros(ratings.n_users, np.int64)
    V = (0.1 * np.random.default_rng(0).standard_normal((ratings.n_items, d))).astype(np.float32)
    U, out = np.zeros((ratings.n_users, d), np.float32), np.zeros_like(V)
    arrays = [
        (module.bounds(r.indptr, d, 16), r.indptr.copy(), r.indices.copy(), r.level.astype(np.int32))
        for r in (rows, columns)
    ]

    def run() -> None:
        half(*arrays[0], V, X, z, z, False, np.float32(5), U, 3)
        half(*arrays[1], U, X, z, z, True, np.float32(5), out, 2)

    return run


def form(ratings: Ratings, kernels: CpuKernels, n_scales: int | str, d: int) -> Callable[[], None]:
    """Return one sweep of the joint solver."""
    gaps = np.full(4, 0.5)
    parent = given_scale(np.arange(1.0, 6.0), gaps, ratings.level_counts.sum(0))
    margin = Margin(gaps, parent, np.zeros(5))
    problem = Problem(ratings, margin, n_scales, d, False, 5.0, 5.0, (1.0, 1.0), np.dtype(np.float32))
    rng, solver = np.random.default_rng(0), Joint(kernels)
    X = np.tile(parent, (problem.K, 1)) + 0.1 * rng.standard_normal((problem.K, 1))
    z = np.arange(ratings.n_users) if n_scales == "user" else rng.integers(0, problem.K, ratings.n_users)
    state = random_state(problem, kernels, X, z, rng)
    state, _ = solver.step(problem, state)
    return lambda: solver.step(problem, state)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("movielens")
    parser.add_argument("--prototype")
    arguments = parser.parse_args()
    ratings, kernels = read_movielens(arguments.movielens), CpuKernels(1)
    kernels.prepare(np.dtype(np.float32))
    module = None
    if arguments.prototype:
        spec = importlib.util.spec_from_file_location("prototype", arguments.prototype)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    peak = sgemm_gflops()
    print(f"sgemm {peak:.0f} GFLOP/s on one thread")
    for d in RANKS:
        rows = ratings.n_users + ratings.n_items
        flops = 2 * ratings.n_ratings * d * (d + 1) + rows * d**3 / 3
        ms = cpu_ms(sweep(ratings, kernels, d))
        line = f"d={d:<4} {ms:7.1f} ms  {flops / ms / 1e6 / peak:4.0%} of sgemm"
        if module is not None and d % 16 == 0:
            run = prototype_sweep(module, ratings, d)
            run()
            other = cpu_ms(run)
            line += f"   prototype {other:7.1f} ms   ratio {ms / other:.2f}"
        print(line, flush=True)
    for d in (10, 32):
        plain = cpu_ms(form(ratings, kernels, "fixed", d))
        others = [(name, cpu_ms(form(ratings, kernels, name, d))) for name in (1, 4, "user")]
        print(f"d={d:<4} a sweep: plain {plain:.1f} ms", *(f"{n} {t:.1f} ms ({t / plain:.2f})" for n, t in others))


if __name__ == "__main__":
    main()
