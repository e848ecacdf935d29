"""The phases of a fit in their order: parent scale, N-CMTRF start of K-CMTRF, the last phase."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmtrf.kernels.table import Float64, Integers, Kernels
from cmtrf.plan import Plan
from cmtrf.problem import Problem, State
from cmtrf.progress import Progress
from cmtrf.ratings import Ratings
from cmtrf.scales.clusters import cluster_scales
from cmtrf.scales.margin import Margin, nearest_scales
from cmtrf.scales.parents import centre, given_scale, pull_weights
from cmtrf.solvers.base import Outcome, Solver
from cmtrf.solvers.drive import Callback, Interrupted, drive
from cmtrf.solvers.start import Earlier, random_state, warm_state

EARLY_SWEEPS, EARLY_TOL = 30, 1e-4  # of the phases before the last: they only make a start


@dataclass(frozen=True)
class Fitter:
    """One fit. Phases hand each other a State; `max_sweeps`, `tol` and the callback govern the last one only."""

    plan: Plan
    ratings: Ratings
    values: Float64  # (L,) the platform's numbers, lowest first
    kernels: Kernels
    solver: Solver
    rng: np.random.Generator
    progress: Progress
    callback: Callback | None = None

    def fit(self, earlier: Earlier | None = None) -> tuple[Problem, Outcome]:
        """Return the problem of the last phase and how its run ended."""
        n_scales = self.plan.n_scales
        if n_scales in ("fixed", 1):
            problem, state = self._single(n_scales, earlier)
        elif n_scales == "user":
            problem, state = self._one_a_user(earlier)
        else:
            problem, state = self._clusters(earlier)
        outcome = drive(
            problem,
            self.solver,
            state,
            max_sweeps=self.plan.max_sweeps,
            tol=self.plan.tol,
            callback=self.callback,
            progress=self.progress,
            title=_title(n_scales),
        )
        return problem, outcome

    def _single(self, n_scales: int | str, earlier: Earlier | None) -> tuple[Problem, State]:
        """The given scale, or one for all that starts from it."""
        total = self.ratings.level_counts.sum(0)
        if n_scales == "fixed":
            # Biases have a ridge: they should not have to carry the mean. Without them, plain MF as in the paper.
            parent = centre(self.values, total) if self.plan.bias else self.values
        else:
            parent = given_scale(self.values, self.plan.gaps, total)
        problem = self._problem(n_scales, parent)
        X = parent
        if n_scales == 1 and earlier is not None and earlier.common_scale is not None:
            X = self._feasible(earlier.user_scales(earlier.common_scale).mean(0))
        return problem, self._start(problem, earlier, X[None, :], np.zeros(self.ratings.n_users, np.int64))

    def _one_a_user(self, earlier: Earlier | None) -> tuple[Problem, State]:
        """N-CMTRF: everyone starts from the scale of all, which stays the parent."""
        each = np.arange(self.ratings.n_users)
        if earlier is not None and earlier.common_scale is not None:
            parent = self._feasible(earlier.common_scale)
            problem = self._problem("user", parent)
            return problem, self._start(problem, earlier, earlier.user_scales(parent), each)
        shared, state = self._single(1, earlier)  # 1-CMTRF of the same data, also a start for the factors
        state = self._early(shared, state, "one scale for all")
        parent = state.X[0]
        return self._problem("user", parent), replace(state, X=np.tile(parent, (len(each), 1)), z=each)

    def _clusters(self, earlier: Earlier | None) -> tuple[Problem, State]:
        """K-CMTRF: N-CMTRF, then k-means on the users' scales (the paper, section 5.3)."""
        K = int(self.plan.n_scales)
        if earlier is not None and earlier.common_scale is not None and len(earlier.scales) == K:
            problem = self._problem(K, self._feasible(earlier.common_scale))
            usual = np.bincount(earlier.user_scale, minlength=K).argmax()
            z = np.where(earlier.users >= 0, earlier.user_scale[earlier.users], usual)
            return problem, self._start(problem, earlier, earlier.scales, z)
        first, state = self._one_a_user(earlier)
        if len(np.unique(state.X, axis=0)) < K:  # else an earlier fit gave everyone a scale
            state = self._early(first, state, "a scale for each user")
        centres, z = _cluster_users(state.X, first.lone, K, self.rng)
        return self._problem(K, first.margin.parent), replace(state, X=centres, z=z)

    def _early(self, problem: Problem, state: State, title: str) -> State:
        try:
            outcome = drive(
                problem,
                self.solver,
                state,
                max_sweeps=EARLY_SWEEPS,
                tol=EARLY_TOL,
                progress=self.progress,
                title=title,
            )
        except Interrupted:
            raise KeyboardInterrupt from None  # what it reached is not the model that was asked for
        return outcome.state

    def _problem(self, n_scales: int | str, parent: Float64) -> Problem:
        plan, total = self.plan, self.ratings.level_counts.sum(0)
        margin = Margin(plan.gaps, parent, pull_weights(plan.shrinkage, total))
        return Problem(
            self.ratings, margin, n_scales, plan.rank, plan.bias,
            plan.lambda_u, plan.lambda_v, plan.lambda_bias, plan.dtype,
        )  # fmt: skip

    def _start(self, problem: Problem, earlier: Earlier | None, X: Float64, z: Integers) -> State:
        if earlier is None:
            return random_state(problem, self.kernels, X, z, self.rng)
        return warm_state(problem, self.kernels, earlier, X, z, self.rng)

    def _feasible(self, scale: Float64) -> Float64:
        """Nearest scale that keeps today's margins."""
        row = scale[None, :]
        nearest: Float64 = nearest_scales(row, np.ones_like(row), self.plan.gaps, self.kernels)[0]
        return nearest


def _cluster_users(X: Float64, lone: NDArray[np.bool_], K: int, rng: np.random.Generator) -> tuple[Float64, Integers]:
    """K-means on the scales that were learned; users who have none of their own join the nearest centre."""
    centres, labels = cluster_scales(X[~lone], K, rng)
    z = np.empty(len(X), np.int64)
    z[~lone] = labels
    if lone.any():
        z[lone] = ((X[lone][:1] - centres) ** 2).sum(1).argmin()  # nearly always the parent's, all of them
    return centres, z


def _title(n_scales: int | str) -> str:
    titles: dict[int | str, str] = {
        "fixed": "the given scale",
        1: "one scale for all",
        "user": "a scale for each user",
    }
    return titles.get(n_scales, f"{n_scales} scales")
