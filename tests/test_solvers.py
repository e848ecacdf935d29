"""Solvers: every step lowers the objective, both end at the same value, the loop stops as it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cmtrf.errors import NumericalError
from cmtrf.kernels.reference import ReferenceKernels
from cmtrf.kernels.table import Rows
from cmtrf.ratings import build_ratings
from cmtrf.solvers.alternating import Alternating
from cmtrf.solvers.base import Ending
from cmtrf.solvers.drive import Interrupted, drive
from cmtrf.solvers.joint import Joint
from oracles import objective
from problems import cpu, make_problem, movielens, random_ratings, start

SOLVERS = {
    "alternating": Alternating,
    "alternating, 5 inner": lambda k: Alternating(k, inner=5),
    "joint": Joint,
}
FORMS = ["fixed", 1, 4, "user"]
UNRIDGED = {"lambda_u": 0.0, "lambda_v": 0.0, "lambda_bias": (0.0, 0.0)}  # rows are singular


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("n_scales", FORMS)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "changes", [{}, {"gaps": [0.1, 0.7, 0.3, 0.2], "shrinkage": 3.0}, {"rank": 0}, UNRIDGED], ids=str
)
def test_every_sweep_lowers_the_objective(name, n_scales, biased, changes):
    for seed in range(3):
        ratings = random_ratings(np.random.default_rng(seed), weighted=seed == 2)
        problem = make_problem(ratings, n_scales, bias=biased, **changes)
        with cpu() as kernels:
            state = start(problem, kernels, seed)
            before = problem.objective(state)
            for _ in range(25):
                state, _ = SOLVERS[name](kernels).step(problem, state)
                after = problem.objective(state)
                assert after <= before * (1 + 1e-12)
                before = after
        if n_scales != "fixed":
            assert after == pytest.approx(objective(problem, state), rel=1e-10)
            assert (np.diff(state.X) >= problem.margin.gaps - 1e-9).all()


@pytest.mark.parametrize("n_scales", FORMS)
def test_compiled_and_plain_kernels_take_the_same_path(n_scales):
    problem = make_problem(random_ratings(np.random.default_rng(3)), n_scales, bias=True)
    runs = []
    plain = ReferenceKernels()
    runs.append(drive(problem, Joint(plain), start(problem, plain), max_sweeps=15, tol=0))
    with cpu() as kernels:
        runs.append(drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=15, tol=0))
    np.testing.assert_allclose(runs[0].objective, runs[1].objective, rtol=1e-9)
    np.testing.assert_array_equal(runs[0].state.z, runs[1].state.z)


def test_users_with_one_level_keep_the_parent_scale():
    ratings = build_ratings(
        np.array([0, 0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 0, 1, 1, 2]), np.array([0, 1, 2, 1, 1, 0, 2]),
        None, (3, 3, 3), np.float64,
    )  # fmt: skip
    problem = make_problem(ratings, "user", rank=1)
    np.testing.assert_array_equal(problem.lone, [False, True, False])
    with cpu() as kernels:
        for make in SOLVERS.values():
            state = start(problem, kernels)
            state, _ = make(kernels).step(problem, state)
            np.testing.assert_array_equal(state.X[1], problem.margin.parent)
            assert not np.array_equal(state.X[0], problem.margin.parent)
    assert not make_problem(ratings, "user", shrinkage=1.0).lone.any()


def test_tol_0_takes_every_sweep_and_tol_stops_on_the_relative_fall():
    problem = make_problem(random_ratings(np.random.default_rng(0)), 1)
    with cpu() as kernels:
        every = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=40, tol=0)
        stopped = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=40, tol=1e-4)
    assert len(every.objective) == 40
    assert every.ending is Ending.OUT_OF_SWEEPS
    falls = -np.diff(every.objective) / np.abs(every.objective[:-1])
    first = int((falls < 1e-4).argmax())
    assert stopped.ending is Ending.SETTLED
    assert len(stopped.objective) == first + 2
    assert stopped.objective == every.objective[: first + 2]


def test_callback_sees_each_sweep_and_stops_on_true():
    problem = make_problem(random_ratings(np.random.default_rng(0)), 1)
    seen = []

    def callback(record):
        seen.append(record)
        return record.sweep == 4

    with cpu() as kernels:
        outcome = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=40, tol=0, callback=callback)
    assert [record.sweep for record in seen] == [1, 2, 3, 4]
    assert tuple(record["objective"] for record in seen) == outcome.objective
    assert outcome.ending is Ending.STOPPED
    with pytest.raises(KeyError):
        seen[0]["colour"]


def test_an_interrupt_carries_the_last_whole_sweep():
    problem = make_problem(random_ratings(np.random.default_rng(0)), 1)

    class Impatient:
        def __init__(self, kernels):
            self.kernels, self.steps = kernels, 0

        def step(self, problem, state):
            self.steps += 1
            if self.steps == 4:
                raise KeyboardInterrupt
            return Joint(self.kernels).step(problem, state)

    with cpu() as kernels:
        with pytest.raises(Interrupted) as caught:
            drive(problem, Impatient(kernels), start(problem, kernels), max_sweeps=40, tol=0)
        whole = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=3, tol=0)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.outcome.objective == whole.objective
    np.testing.assert_array_equal(caught.value.outcome.state.V, whole.state.V)


class Recorder:
    """Kernels that write down what they are asked."""

    def __init__(self, kernels):
        self.kernels, self.calls = kernels, []

    def __getattr__(self, name):
        def call(*arguments, **named):
            side = "" if not arguments or not isinstance(arguments[0], Rows) else f" {len(arguments[0].indptr) - 1}"
            self.calls.append(name + side)
            return getattr(self.kernels, name)(*arguments, **named)

        return call


def test_alternating_takes_the_figures_steps_in_their_order():
    """Scale, then users (12 rows), then items (15 rows), as often as `inner` says; level sums for the next scale."""
    problem = make_problem(random_ratings(np.random.default_rng(0)), 4)
    for inner in (1, 3):
        recorder = Recorder(ReferenceKernels())
        Alternating(recorder, inner=inner).step(problem, start(problem, ReferenceKernels()))
        factors = ["targets 12", "solve_rows 12", "targets 15", "solve_rows 15"] * inner
        assert recorder.calls == ["isotonic", *factors, "level_sums 12"]


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_reassign_users_refill_clusters_and_count_who_moved(name):
    problem = make_problem(random_ratings(np.random.default_rng(4), n=200), 4)
    with cpu() as kernels:
        before = start(problem, kernels)
        before = replace(before, z=np.where(before.z == 2, 0, before.z))
        after, info = SOLVERS[name](kernels).step(problem, before)
    assert (after.z == 2).any()
    assert info.moved == (after.z != before.z).sum() > 0


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n_scales", FORMS)
@pytest.mark.parametrize("changes", [UNRIDGED, {"lambda_u": 6.0, "lambda_v": 0.0, "rank": 30}], ids=str)
def test_single_precision_without_a_ridge_never_ends_above_its_least(name, n_scales, changes):
    """Rows are singular, so rounding decides; a sweep that raises the objective is taken back, and told."""
    rng = np.random.default_rng(7)
    pairs = rng.choice(100 * 60, 1500, replace=False)
    ratings = build_ratings(pairs // 60, pairs % 60, rng.integers(0, 5, 1500), None, (100, 60, 5), np.float32)
    problem = make_problem(ratings, n_scales, dtype=np.dtype(np.float32), **changes)
    with cpu() as kernels:
        outcome = drive(problem, SOLVERS[name](kernels), start(problem, kernels), max_sweeps=30, tol=1e-5)
    assert np.isfinite(outcome.objective).all()
    assert outcome.objective[-1] <= min(outcome.objective) * (1 + 1e-4)
    assert problem.objective(outcome.state) == outcome.objective[-1]


def test_a_sweep_that_raises_the_objective_is_taken_back():
    problem = make_problem(random_ratings(np.random.default_rng(0)), 1)

    class Clumsy:
        """Goes well twice, then loses its factors."""

        def __init__(self, kernels):
            self.kernels, self.steps = kernels, 0

        def step(self, problem, state):
            self.steps += 1
            state, info = Joint(self.kernels).step(problem, state)
            return (replace(state, U=100 * state.U) if self.steps == 3 else state), info

    with cpu() as kernels:
        outcome = drive(problem, Clumsy(kernels), start(problem, kernels), max_sweeps=9, tol=0)
        two = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=2, tol=0)
    assert outcome.ending is Ending.ROUNDING
    assert outcome.objective == two.objective
    np.testing.assert_array_equal(outcome.state.U, two.state.U)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n_scales", FORMS)
def test_a_perfect_fit_settles(name, n_scales):
    """Its objective is rounding, of either sign; that is no fall and no rise."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 1)) @ rng.standard_normal((1, 20))
    users, items = np.nonzero(np.ones((30, 20)))
    ratings = build_ratings(users, items, np.searchsorted([-0.5, 0.5], Z)[users, items], None, (30, 20, 3), np.float64)
    problem = make_problem(ratings, n_scales, rank=20, lambda_u=0.0, lambda_v=0.0)
    with cpu() as kernels:
        outcome = drive(problem, SOLVERS[name](kernels), start(problem, kernels), max_sweeps=100, tol=1e-5)
    assert outcome.ending is Ending.SETTLED
    assert 0 <= outcome.objective[-1] < 1e-6


def test_an_objective_that_is_no_number_is_an_error():
    problem = make_problem(random_ratings(np.random.default_rng(0)), 1)
    with cpu() as kernels:
        state = start(problem, kernels)
        with pytest.raises(NumericalError, match="after sweep 1"):
            drive(problem, Joint(kernels), replace(state, V=state.V * np.nan), max_sweeps=3, tol=0)


# ---- on MovieLens 100K


def one_scale_problem(biased):
    users, items, levels, _ = movielens("u1.base")
    shape = (users.max() + 1, items.max() + 1, 5)
    ratings = build_ratings(users, items, levels, None, shape, np.float64)
    changes = {"rank": 5, "lambda_u": 1.0, "lambda_v": 10.0, "lambda_bias": (3.0, 3.0)}
    return make_problem(ratings, 1, bias=biased, **changes)


def final_objective(problem, make, sweeps):
    with cpu(2) as kernels:
        outcome = drive(problem, make(kernels), start(problem, kernels), max_sweeps=sweeps, tol=1e-7)
    return outcome.objective[-1]


@pytest.mark.data
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("n_scales", [1, "user"])
def test_solvers_agree_on_movielens(n_scales, biased):
    problem = replace(one_scale_problem(biased), n_scales=n_scales)
    joint = final_objective(problem, Joint, 300)
    alternating = final_objective(problem, Alternating, 300)
    assert alternating == pytest.approx(joint, rel=1e-3)


@pytest.mark.data
def test_one_and_twenty_inner_sweeps_end_at_the_same_objective():
    problem = one_scale_problem(False)
    one = final_objective(problem, Alternating, 300)
    twenty = final_objective(problem, lambda k: Alternating(k, inner=20), 100)
    assert twenty != one, "the argument is not heeded"
    assert twenty == pytest.approx(one, rel=1e-3)


@pytest.mark.data
@pytest.mark.parametrize("n_scales", FORMS)
def test_float32_hardly_rises_and_ends_where_float64_does(n_scales):
    users, items, levels, _ = movielens("u1.base")
    shape = (users.max() + 1, items.max() + 1, 5)
    final = {}
    for dtype in (np.float32, np.float64):
        ratings = build_ratings(users, items, levels, None, shape, dtype)
        problem = make_problem(ratings, n_scales, dtype=np.dtype(dtype), rank=10, lambda_u=5.0, lambda_v=5.0)
        with cpu(2) as kernels:
            outcome = drive(problem, Joint(kernels), start(problem, kernels), max_sweeps=60, tol=0)
        rise = np.diff(outcome.objective) / np.abs(outcome.objective[:-1])
        assert rise.max() <= (1e-6 if dtype == np.float32 else 1e-12)
        final[dtype] = outcome.objective[-1]
    assert final[np.float32] == pytest.approx(final[np.float64], rel=1e-4 if n_scales != 4 else 1e-2)
