"""Scale steps against general solvers; fallbacks, clusters and the inverse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from cmtrf.kernels.reference import ReferenceKernels
from cmtrf.scales.clusters import assign_users, cluster_scales, refill_empty
from cmtrf.scales.inverse import interpolate
from cmtrf.scales.margin import LevelSums, Quadratics, sum_groups
from cmtrf.scales.parents import explain_fallback, given_scale, place_unused, pull_weights
from oracles import best_scale, best_scale_and_users, objective, triples
from problems import cpu, make_problem, random_ratings, start

KERNELS = ReferenceKernels()
GAPS = [0.5, 0.0, [0.2, 0.9, 0.0, 0.4]]


def level_sums(problem, state):
    return LevelSums(problem.ratings.level_counts, state.S, problem.margin, KERNELS)


def quadratics(problem, state):
    L = problem.ratings.n_levels
    Q, q, _, _ = KERNELS.eliminate_rows(
        problem.ratings.by_user, L, problem.design(state.V), state.b_item, problem.ridge_user
    )
    return Quadratics(problem.ratings.level_counts, Q, q, problem.margin, KERNELS)


def case(seed, n_scales, *, biased=False, **changes):
    """A problem and a state whose biases are not zero where it has any."""
    rng = np.random.default_rng(seed)
    problem = make_problem(random_ratings(rng, weighted=bool(seed % 2)), n_scales, bias=biased, **changes)
    state = start(problem, KERNELS, seed)
    if biased:
        b_user, b_item = rng.standard_normal(12), rng.standard_normal(15)
        state = replace(state, b_user=b_user, b_item=b_item)
        S, energy = KERNELS.level_sums(
            problem.ratings.by_user, 5, problem.join(state.U, b_user), problem.design(state.V), b_item
        )
        state = replace(state, S=S, energy=energy)
    return problem, state


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shrinkage", [0.0, 4.0])
@pytest.mark.parametrize("gaps", GAPS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_isotonic_step_is_the_convex_optimum(seed, gaps, shrinkage, biased):
    problem, state = case(seed, 3, biased=biased, gaps=gaps, shrinkage=shrinkage)
    user, item, _, _ = triples(problem)
    predictions = (state.U[user] * state.V[item]).sum(1) + state.b_user[user] + state.b_item[item]
    X = level_sums(problem, state).fit(state.z, 3)
    for k in range(3):
        np.testing.assert_allclose(X[k], best_scale(problem, np.flatnonzero(state.z == k), predictions), atol=1e-5)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shrinkage", [0.0, 4.0])
@pytest.mark.parametrize("gaps", GAPS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_joint_step_is_the_optimum_over_scale_and_users(seed, gaps, shrinkage, biased):
    """The program with users eliminated ends where SLSQP ends over scale, factors and biases together."""
    problem, state = case(seed, 2, biased=biased, gaps=gaps, shrinkage=shrinkage)
    step = quadratics(problem, state)
    users = np.flatnonzero((state.z == 0) & (problem.ratings.level_counts.sum(1) > 0))
    x = step.fit(np.where(state.z == 0, 0, 1), 2)[0]
    least, x_slsqp = best_scale_and_users(problem, state, users)
    np.testing.assert_allclose(x, x_slsqp, atol=2e-4)

    # our value: the quadratics, plus their constant, which is the cost at x = 0
    user, item, _, weight = triples(problem)
    here = np.isin(user, users)
    b = state.b_item[item[here]]
    constant = float((weight[here] * b**2).sum() / 2)
    design = problem.design(state.V)[item[here]]
    for i in users:
        of_i = user[here] == i
        h = design[of_i].T @ (weight[here][of_i] * b[of_i])
        A = (design[of_i].T * weight[here][of_i]) @ design[of_i] + np.diag(problem.ridge_user)
        constant -= h @ np.linalg.solve(A, h) / 2
    ours = step.costs(x[None])[users, 0].sum() + constant + problem.margin.penalty(x[None])[0]
    assert ours == pytest.approx(least, rel=1e-7)


def test_objective_is_the_paper_s():
    for n_scales, biased in (("fixed", True), (1, False), (3, True), ("user", False)):
        problem, state = case(5, n_scales, biased=biased, shrinkage=2.0)
        expected = objective(problem, state)
        if n_scales == "fixed":
            expected -= float(problem.margin.penalty(state.X).sum())  # the given scale pays no pull
        assert problem.objective(state) == pytest.approx(expected, rel=1e-12)


def test_costs_differ_between_scales_as_the_objective_does():
    """Moving one user from scale to scale changes the objective by the difference of their costs."""
    problem, state = case(2, 3)
    costs = level_sums(problem, state).costs(state.X)
    for i in range(problem.ratings.n_users):
        values = []
        for k in range(3):
            z = state.z.copy()
            z[i] = k
            values.append(problem.objective(replace(state, z=z)))
        np.testing.assert_allclose(np.diff(values), np.diff(costs[i]), atol=1e-10)


@pytest.mark.parametrize("make", [level_sums, quadratics])
@pytest.mark.parametrize("shrinkage", [0.0, 4.0])
def test_refilling_an_empty_cluster_never_raises_the_objective(make, shrinkage):
    refilled = 0
    for seed in range(12):
        problem, state = case(seed, 4, shrinkage=shrinkage)
        step = make(problem, state)
        z = np.where(state.z == 2, 0, state.z)  # cluster 2 ran empty
        before = costs_of(step, problem, state.X, z)
        X, after = refill_empty(step, state.X, z, problem.margin)
        assert costs_of(step, problem, X, after) <= before + 1e-9 * abs(before)
        refilled += (after == 2).any()
        X = step.fit(after, 4)
        assert (np.diff(X) >= problem.margin.gaps - 1e-12).all()
    assert refilled > 0


def costs_of(step, problem, X, z):
    return step.costs(X)[np.arange(len(z)), z].sum() + problem.margin.penalty(X).sum()


@pytest.mark.parametrize("make", [level_sums, quadratics])
def test_users_move_to_the_scale_of_least_cost(make):
    problem, state = case(1, 4)
    step = make(problem, state)
    z = assign_users(step, state.X, state.z)
    np.testing.assert_array_equal(
        z, np.where(problem.ratings.level_counts.sum(1) > 0, step.costs(state.X).argmin(1), state.z)
    )
    assert (z != state.z).any()


def test_the_pull_is_half_by_frequency_and_half_even():
    np.testing.assert_allclose(pull_weights(8.0, np.array([1.0, 2.0, 1.0])), [1 + 8 / 6, 2 + 8 / 6, 1 + 8 / 6])


def kkt_violation(Q, q, gaps, x):
    """How far x is from the optimum of its program: sum and tails of the slope, and slack where a gap is free."""
    scale = np.abs(Q) @ np.abs(x) + np.abs(q) + 1e-300
    slope = (Q @ x - q) / scale.max()
    tails = slope[::-1].cumsum()[::-1]  # the derivative by the lowest position, then by each gap
    room = np.diff(x) - gaps
    free = room > 1e-9 * (1 + np.abs(x).max())
    return max(abs(tails[0]), *np.maximum(-tails[1:], 0), *np.abs(tails[1:][free]), 0.0)


@pytest.mark.parametrize("L", [2, 5, 30, 100])
@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("spread", [0, 3])
def test_compiled_program_meets_the_conditions_of_an_optimum(L, singular, spread):
    """Karush, Kuhn and Tucker as judges, whatever the way to the answer; also where a shift costs nothing."""
    rng = np.random.default_rng(L)
    with cpu() as kernels:
        for _ in range(20):
            size = 10.0 ** rng.uniform(-spread, spread, L)
            A = rng.standard_normal((L + 3, L)) * np.sqrt(size)
            Q, q = A.T @ A, A.T @ rng.standard_normal(L + 3)
            if singular:
                Q = np.diag(size) - np.outer(size, size) / size.sum()  # ones are in its null space
                q = size * rng.standard_normal(L)
                q -= size * q.sum() / size.sum()
            gaps = rng.uniform(0, 0.3, L - 1)
            x = kernels.monotone_quadratic(Q[None], q[None], gaps, np.ones((1, L), bool))[0]
            assert (np.diff(x) >= gaps - 1e-12 * (1 + np.abs(x).max())).all()
            assert kkt_violation(Q, q, gaps, x) < 1e-9


def test_users_stay_where_nothing_is_gained():
    problem, state = case(0, 3)
    X = np.tile(state.X[:1], (3, 1))
    z = assign_users(level_sums(problem, state), X, state.z)
    np.testing.assert_array_equal(z, state.z)


def test_clusters_of_planted_scales_are_found():
    rng = np.random.default_rng(0)
    kinds = np.array([[-2.0, -1, 0, 1, 2], [-1, -0.5, 0, 0.5, 1], [0, 0.5, 1, 2, 4]])
    label = rng.integers(0, 3, 60)
    X = kinds[label] + 0.02 * rng.standard_normal((60, 5))
    centres, found = cluster_scales(X, 3, rng)
    assert len(np.unique(found)) == 3
    for k in range(3):
        assert len(np.unique(label[found == k])) == 1
        np.testing.assert_allclose(centres[k], X[found == k].mean(0))


def test_sums_of_groups():
    values = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(sum_groups(values, np.arange(4), 4), values)
    np.testing.assert_array_equal(sum_groups(values, np.zeros(4, int), 1), [[18, 22, 26]])
    np.testing.assert_array_equal(sum_groups(values, np.array([1, 1, 0, 1]), 3), [[6, 7, 8], [12, 15, 18], [0, 0, 0]])


PARENT = np.array([-2.0, -1.0, 0.0, 2.0, 2.5])
HALF = np.full(4, 0.5)


def test_unused_levels_outside_keep_the_parent_s_gaps():
    nan = np.nan
    X = place_unused(np.array([[nan, nan, 1.0, 1.7, nan]]), PARENT, HALF)
    np.testing.assert_allclose(X, [[-1.0, 0.0, 1.0, 1.7, 2.2]])


def test_unused_levels_inside_share_the_room_above_the_margins():
    """Between 0 and 3 the margins take 1.5; the parent's rooms are 0.5, 0.5 and 1.5 of 2.5 above them."""
    nan = np.nan
    X = place_unused(np.array([[0.0, nan, nan, 3.0, 4.0]]), PARENT, HALF)
    np.testing.assert_allclose(X, [[0.0, 0.5 + 1.5 * 0.2, 1.0 + 1.5 * 0.4, 3.0, 4.0]])


@pytest.mark.parametrize("margin", [0.1, 0.3, 0.5])
def test_a_straight_parent_places_levels_inside_evenly(margin):
    """Its gaps equal the margin up to rounding, which is no room to share by."""
    for shift in np.random.default_rng(0).standard_normal(50):
        parent = shift + np.cumsum(np.full(9, margin))
        X = place_unused(np.array([[0.0, *[np.nan] * 7, 80 * margin]]), parent, np.full(8, margin))
        np.testing.assert_allclose(np.diff(X[0]), 10 * margin)


def test_a_scale_that_nobody_uses_is_the_parent():
    np.testing.assert_array_equal(place_unused(np.full((1, 5), np.nan), PARENT, HALF), [PARENT])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**31), L=st.integers(2, 9))
def test_placed_levels_keep_every_margin(seed, L):
    rng = np.random.default_rng(seed)
    gaps = rng.uniform(0, 1, L - 1)
    parent = np.cumsum(np.concatenate([[0], gaps + rng.uniform(0, 1, L - 1) * (rng.random(L - 1) < 0.7)]))
    X = np.cumsum(np.column_stack([rng.normal(size=6), gaps + rng.uniform(0, 1, (6, L - 1))]), axis=1)
    holes = np.where(rng.random((6, L)) < 0.5, np.nan, X)
    filled = place_unused(holes, parent, gaps)
    assert (np.diff(filled) >= gaps - 1e-12).all()
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], X[known])


def test_reasons_for_a_fallback():
    words = ["1", "2", "3"]
    counts = np.array([[1.0, 1, 1], [0, 2, 1], [0, 0, 4]])
    reasons = explain_fallback(counts, np.array([False, False, True]), words, "the scale of all users")
    assert reasons[0] is None
    assert reasons[1] == "unused levels placed by the scale of all users: 1"
    assert reasons[2] == "one level used: the scale of all users"


def test_given_scale_meets_uneven_margins_and_has_mean_zero():
    values, counts = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])
    x = given_scale(values, np.array([0.5, 0.1, 0.4]), counts)
    assert (np.diff(x) >= [0.5, 0.1, 0.4]).all()
    assert counts @ x == pytest.approx(0)
    np.testing.assert_allclose(np.diff(x), 0.5 * np.diff(values))
    x = given_scale(values, np.zeros(3), counts)
    assert counts @ x**2 == pytest.approx(counts.sum())


def test_inverse_interpolates_and_clips():
    X = np.array([[0.0, 1.0, 3.0], [-1.0, 0.0, 0.5]])
    values = np.array([1.0, 2.0, 5.0])
    scores = np.array([-7.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0])
    np.testing.assert_allclose(interpolate(scores, X, np.zeros(7, int), values), [1, 1, 1.5, 2, 3.5, 5, 5])
    for k in (0, 1):
        s = np.linspace(-2, 4, 50)
        np.testing.assert_allclose(interpolate(s, X, np.full(50, k), values), np.interp(s, X[k], values))


def test_inverse_of_a_collapsed_scale_has_no_nan():
    X = np.array([[1.0, 1.0, 1.0]])
    ratings = interpolate(np.array([0.0, 1.0, 2.0]), X, np.zeros(3, int), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(ratings, [1, 3, 3])
