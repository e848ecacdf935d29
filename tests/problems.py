"""Small cases that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cmtrf.kernels.cpu import CpuKernels
from cmtrf.kernels.table import Kernels
from cmtrf.problem import Problem, State
from cmtrf.ratings import Ratings, build_ratings
from cmtrf.scales.margin import Margin
from cmtrf.scales.parents import given_scale, pull_weights
from cmtrf.solvers.start import random_state

DATA = Path(__file__).parents[2] / "shared" / "data"


def random_ratings(
    rng: np.random.Generator,
    shape: tuple[int, int, int] = (12, 15, 5),
    n: int = 120,
    *,
    weighted: bool = False,
    dtype: Any = np.float64,
) -> Ratings:
    """Ratings without structure; pairs may repeat, and the last user and item have none."""
    N, M, L = shape
    return build_ratings(
        rng.integers(0, max(N - 1, 1), n),
        rng.integers(0, max(M - 1, 1), n),
        rng.integers(0, L, n),
        rng.uniform(0.2, 3.0, n) if weighted else None,
        shape,
        dtype,
    )


def planted(
    rng: np.random.Generator, N: int = 150, M: int = 80, d: int = 2, share: float = 0.3, noise: float = 0.1
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ratings like the paper's SD-1: a low rank, and each user a monotone scale of their own.

    The thresholds of user i start at N(-1.5, 0.7) and rise by steps from U(0.5, 1.5), in units of a score's
    standard deviation. Returns users, items, levels 0..4 and the planted thresholds (N, 4).
    """
    Z = rng.standard_normal((N, d)) @ rng.standard_normal((d, M)) / np.sqrt(d)
    Z = Z + noise * rng.standard_normal(Z.shape)
    thresholds = rng.normal(-1.5, 0.7, (N, 1)) + np.cumsum(
        np.column_stack([np.zeros(N), rng.uniform(0.5, 1.5, (N, 3))]), axis=1
    )
    levels = (Z[:, :, None] > thresholds[:, None, :]).sum(2)
    users, items = np.nonzero(rng.random((N, M)) < share)
    return users, items, levels[users, items], thresholds


def make_problem(ratings: Ratings, n_scales: int | str = 4, **changes: Any) -> Problem:
    """A problem with ordinary parameters; ``changes`` are fields of Problem, or ``gaps`` and ``shrinkage``."""
    L = ratings.n_levels
    gaps = np.broadcast_to(np.asarray(changes.pop("gaps", 0.5), dtype=float), (L - 1,)).copy()
    total = ratings.level_counts.sum(0)
    parent = given_scale(np.arange(1.0, L + 1), gaps, total)
    margin = Margin(gaps, parent, pull_weights(changes.pop("shrinkage", 0.0), total))
    problem = Problem(ratings, margin, n_scales, 3, False, 0.8, 1.3, (0.5, 0.9), np.dtype(np.float64))
    return replace(problem, **changes)


def start(problem: Problem, kernels: Kernels, seed: int = 0) -> State:
    """Random factors, scales spread around the given one, users assigned at random."""
    rng = np.random.default_rng(seed)
    N, K = problem.ratings.n_users, problem.K
    X = np.tile(problem.margin.parent, (K, 1))
    if problem.assigns_users:
        X = X + np.linspace(-0.5, 0.5, K)[:, None]
    z = np.arange(N) if problem.n_scales == "user" else rng.integers(0, K, N)
    return random_state(problem, kernels, X, z, rng)


@contextmanager
def cpu(n_jobs: int = 1) -> Iterator[CpuKernels]:
    """Compiled kernels."""
    with CpuKernels(n_jobs) as kernels:
        yield kernels


def shared_data(name: str) -> Path:
    """Path of a data set that may not be shipped; the test is skipped where it is not there."""
    path = DATA / name
    if not path.exists():
        pytest.skip(
            f"needs {name}, whose licence does not allow shipping it, in a folder shared/data beside the repository"
        )
    return path


def movielens(member: str) -> tuple[np.ndarray[Any, Any], ...]:
    """Users, items, levels and times of a file of ML-100K, ids as codes."""
    import zipfile

    raw = zipfile.ZipFile(shared_data("ml-100k.zip")).read(f"ml-100k/{member}").decode()
    table = np.array([line.split() for line in raw.splitlines()], dtype=np.int64)
    users, items = (np.unique(table[:, side], return_inverse=True)[1] for side in (0, 1))
    return users, items, table[:, 2] - 1, table[:, 3]
