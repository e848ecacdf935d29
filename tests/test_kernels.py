"""Compiled kernels agree with plain numpy: random cases, odd sizes, empty rows, weights, both types of number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numba import njit
from scipy.optimize import isotonic_regression, nnls

from cmtrf.kernels.choose import count_jobs
from cmtrf.kernels.compiled import OPTIONS, jit
from cmtrf.kernels.cpu import CpuKernels
from cmtrf.kernels.reference import ReferenceKernels
from problems import random_ratings

REFERENCE = ReferenceKernels()
CPU = CpuKernels()
DTYPES = [np.float32, np.float64]


def case(seed, shape, n, D, weighted, dtype):
    """Ratings and arrays of a random row problem; the ridge makes it well conditioned."""
    rng = np.random.default_rng(seed)
    ratings = random_ratings(rng, shape, n, weighted=weighted, dtype=dtype)
    N, M, _ = shape
    own = rng.standard_normal((N, D)).astype(dtype)
    design = rng.standard_normal((M, D)).astype(dtype)
    offset = rng.standard_normal(M).astype(dtype)
    ridge = rng.uniform(0.5, 2.0, D).astype(dtype)
    return ratings, own, design, offset, ridge


def agree(actual, expected, dtype, condition=1.0):
    """Equal up to rounding, which grows with the condition of the systems that were solved."""
    assert actual.shape == expected.shape
    tolerance = 50 * np.finfo(dtype).eps * condition * (1 + np.abs(expected).max(initial=0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def worst_condition(rows, design, ridge):
    """Bound on the condition of the rows' normal equations: trace over least ridge."""
    weight = rows.weight if len(rows.weight) else np.ones(len(rows.indices))
    squares = weight * (design[rows.indices].astype(float) ** 2).sum(1)
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    trace = np.bincount(row, squares, len(rows.indptr) - 1).max(initial=0)
    return 1 + trace / ridge.min(initial=1)


sizes = {
    "seed": st.integers(0, 2**31),
    "N": st.integers(1, 9),
    "M": st.integers(1, 9),
    "L": st.integers(2, 11),
    "n": st.sampled_from([0, 1, 3, 40, 300]),
    "D": st.sampled_from([0, 1, 2, 3, 5, 8, 15, 16, 17, 21, 33]),
    "weighted": st.booleans(),
    "dtype": st.sampled_from(DTYPES),
}


@settings(max_examples=80, deadline=None)
@given(**sizes)
def test_level_sums(seed, N, M, L, n, D, weighted, dtype):
    ratings, own, design, offset, _ = case(seed, (N, M, L), n, D, weighted, dtype)
    actual = CPU.level_sums(ratings.by_user, L, own, design, offset)
    expected = REFERENCE.level_sums(ratings.by_user, L, own, design, offset)
    for a, e in zip(actual, expected, strict=True):
        agree(a, e, dtype, condition=10)  # up to 300 terms of either sign


@settings(max_examples=80, deadline=None)
@given(**sizes)
def test_row_solves(seed, N, M, L, n, D, weighted, dtype):
    ratings, own, design, offset, ridge = case(seed, (N, M, L), n, D, weighted, dtype)
    for rows, other, b in ((ratings.by_user, design, offset), (ratings.by_item, own, np.zeros(N, dtype))):
        table = np.sort(np.random.default_rng(seed).standard_normal((N, L)), axis=1).astype(dtype)
        by_row = rows is ratings.by_user
        targets = CPU.targets(rows, table, by_row=by_row)
        np.testing.assert_array_equal(targets, REFERENCE.targets(rows, table, by_row=by_row))
        actual = CPU.solve_rows(rows, targets, other, b, ridge)
        expected = REFERENCE.solve_rows(rows, targets, other, b, ridge)
        agree(actual, expected, dtype, worst_condition(rows, other, ridge))


@settings(max_examples=80, deadline=None)
@given(**sizes)
def test_elimination(seed, N, M, L, n, D, weighted, dtype):
    ratings, _, design, offset, ridge = case(seed, (N, M, L), n, D, weighted, dtype)
    actual = CPU.eliminate_rows(ratings.by_user, L, design, offset, ridge)
    expected = REFERENCE.eliminate_rows(ratings.by_user, L, design, offset, ridge)
    condition = worst_condition(ratings.by_user, design, ridge)
    for a, e in zip(actual, expected, strict=True):
        agree(a, e, dtype, condition)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 6), L=st.integers(1, 11))
def test_isotonic(seed, n, L):
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (n, L)) + 0.0  # ties are common
    weights = rng.uniform(0.1, 3, (n, L)) * (rng.random((n, L)) < 0.8)
    actual = CPU.isotonic(values, weights)
    np.testing.assert_allclose(actual, REFERENCE.isotonic(values, weights), atol=1e-12)
    for x, y, w in zip(actual, values, weights, strict=True):
        used = w > 0
        assert np.isnan(x[~used]).all()
        if used.any():
            np.testing.assert_allclose(x[used], isotonic_regression(y[used], weights=w[used]).x, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), n=st.integers(1, 4), L=st.integers(1, 8))
def test_monotone_quadratic(seed, n, L):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, L + 2, L))
    Q = A.transpose(0, 2, 1) @ A
    q = 3 * rng.standard_normal((n, L))
    used = rng.random((n, L)) < 0.8
    gaps = rng.uniform(0, 0.6, max(L - 1, 0)) * (rng.random(max(L - 1, 0)) < 0.8)
    actual = CPU.monotone_quadratic(Q, q, gaps, used)
    expected = REFERENCE.monotone_quadratic(Q, q, gaps, used)
    np.testing.assert_array_equal(np.isnan(actual), ~used)
    for x, y, H, b, u in zip(actual, expected, Q, q, used, strict=True):
        H, b, x, y = H[np.ix_(u, u)], b[u], x[u], y[u]
        assert x @ H @ x / 2 - b @ x <= y @ H @ y / 2 - b @ y + 1e-9
        floor = np.concatenate([[0.0], np.cumsum(gaps)])[u]
        assert (np.diff(x - floor) >= -1e-12).all()


def test_monotone_quadratic_against_scipy_nnls():
    """With the lowest position fixed far away, the program is a non-negative least-squares problem."""
    rng = np.random.default_rng(3)
    for L in (2, 5, 20, 60):
        B = rng.standard_normal((2 * L, L))
        y = rng.standard_normal(2 * L)
        T = np.tril(np.ones((L, L)))
        # the first variable is free: split it into two non-negative ones
        expected, _ = nnls(np.column_stack([B @ T, -(B @ T)[:, 0]]), y)
        x = CPU.monotone_quadratic((B.T @ B)[None], (B.T @ y)[None], np.zeros(L - 1), np.ones((1, L), bool))[0]
        gaps = np.concatenate([[expected[0] - expected[-1]], expected[1:-1]])
        np.testing.assert_allclose(x, np.cumsum(gaps), atol=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_rows_are_solved_as_well_as_can_be(dtype):
    """Without a ridge and with fewer ratings than factors, predictions on the ratings are those of least squares."""
    ratings, _, design, offset, _ = case(1, (6, 8, 5), 12, 7, False, dtype)
    rows, ridge = ratings.by_user, np.zeros(7, dtype)
    targets = np.random.default_rng(2).standard_normal(12).astype(dtype)
    user = np.repeat(np.arange(6), np.diff(rows.indptr))
    fits = [
        (k.solve_rows(rows, targets, design, offset, ridge)[user] * design[rows.indices]).sum(1)
        for k in (CPU, REFERENCE)
    ]
    np.testing.assert_allclose(*fits, atol=1e-9 if dtype == np.float64 else 2e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_bit(dtype):
    """Enough work for many blocks, on two threads and on one."""
    rng = np.random.default_rng(0)
    ratings = random_ratings(rng, (700, 400, 5), 60_000, weighted=True, dtype=dtype)
    V = rng.standard_normal((400, 24)).astype(dtype)
    U = rng.standard_normal((700, 24)).astype(dtype)
    b, ridge = rng.standard_normal(400).astype(dtype), np.ones(24, dtype)
    targets = CPU.targets(ratings.by_user, np.sort(rng.standard_normal((700, 5)), 1).astype(dtype), by_row=True)
    with CpuKernels(2) as two:
        for run in (
            lambda k: k.level_sums(ratings.by_user, 5, U, V, b),
            lambda k: k.eliminate_rows(ratings.by_user, 5, V, b, ridge),
            lambda k: [k.solve_rows(ratings.by_user, targets, V, b, ridge)],
        ):
            for one, other in zip(run(CPU), run(two), strict=True):
                np.testing.assert_array_equal(one, other)
        assert two._pool is not None, "the case is too small to use threads"


def test_rows_are_not_changed_by_kernels():
    ratings, _, design, offset, ridge = case(4, (6, 8, 5), 60, 5, True, np.float64)
    before = [a.copy() for a in (*ratings.by_user, design, offset, ridge)]
    CPU.eliminate_rows(ratings.by_user, 5, design, offset, ridge)
    for a, b in zip((*ratings.by_user, design, offset, ridge), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_codes_out_of_bounds_never_reach_a_kernel():
    rng = np.random.default_rng(0)
    from cmtrf.ratings import build_ratings

    codes = rng.integers(0, 3, 5)
    with pytest.raises(ValueError, match=r"item codes must lie in 0\.\.1"):
        build_ratings(codes, np.array([0, 1, 2, 0, 1]), codes, None, (3, 2, 3))
    with pytest.raises(ValueError, match="user codes"):
        build_ratings(codes - 1, codes, codes, None, (3, 3, 3))


def test_scores():
    rng = np.random.default_rng(0)
    U, V, b = rng.standard_normal((5, 3)), rng.standard_normal((4, 3)), rng.standard_normal(4)
    users, items = rng.integers(0, 5, 20), rng.integers(0, 4, 20)
    np.testing.assert_allclose(CPU.scores(users, items, U, V, b), REFERENCE.scores(users, items, U, V, b))


def test_number_of_threads():
    assert count_jobs(3) == 3
    assert count_jobs(None) >= 1
    assert count_jobs(-1) >= count_jobs(-2) >= 1
    for wrong in (0, True, "2", 1.5):
        with pytest.raises(ValueError, match="n_jobs"):
            count_jobs(wrong)


def test_kernels_compile_where_nothing_can_be_kept_on_disk():
    """As in a container without a writable folder: numba has no place for the files of this function either."""
    there: dict[str, Any] = {}
    exec("def double(x):\n    return 2 * x", there)
    with pytest.raises(RuntimeError, match="cannot cache"):
        njit(**OPTIONS)(there["double"])
    assert jit(there["double"])(3) == 6
