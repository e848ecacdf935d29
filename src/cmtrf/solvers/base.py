"""What a solver is: one step from a State to a better one. The loop around it is in `drive.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import numpy as np

from cmtrf.kernels.table import Floats, Kernels
from cmtrf.problem import Problem, State
from cmtrf.scales.clusters import assign_users, refill_empty
from cmtrf.scales.margin import ScaleStep


@dataclass(frozen=True)
class Info:
    """What a step tells besides its State."""

    moved: int  # users that changed scale


class Ending(Enum):
    """Why a run ended, and what to do where that is not what one wants."""

    SETTLED = "the objective fell by less than tol"
    STOPPED = "the callback asked for it"
    INTERRUPTED = "it was interrupted"
    OUT_OF_SWEEPS = (
        "the objective was still falling after max_sweeps: pass a larger max_sweeps or a larger tol, or go on "
        "from here with fit(..., start=model)"
    )
    ROUNDING = (
        "a sweep raised the objective, so the precision of the numbers is used up, and the state before it was "
        'kept: pass larger lambdas, or dtype="float64" if that is not so yet'
    )


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    state: State
    objective: tuple[float, ...]  # one a sweep
    ending: Ending


class Solver(Protocol):
    """One method of minimising a Problem. It is built with one table of kernels and keeps no state of its own."""

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """One sweep; the objective must not rise."""


def learn_scales(problem: Problem, step: ScaleStep, state: State) -> State:
    """Assignment where users choose, then the scale step: the first half of every sweep of every solver."""
    if not problem.learns_scales:
        return state
    X, z = state.X, state.z
    if problem.assigns_users:
        z = assign_users(step, X, z)
        X, z = refill_empty(step, X, z, problem.margin)
    X = step.fit(z, problem.K)
    lone = problem.lone
    if lone.any():
        X = np.where(lone[:, None], problem.margin.parent, X)
    return replace(state, X=X, z=z)


def solve_users(problem: Problem, kernels: Kernels, state: State) -> State:
    """Best user factors and biases, all else held fixed."""
    rows = problem.ratings.by_user
    targets = kernels.targets(rows, _positions(problem, state), by_row=True)
    design = problem.design(state.V)
    solution = kernels.solve_rows(rows, targets, design, state.b_item, problem.ridge_user)
    U, b_user = problem.split(solution)
    return replace(state, U=U, b_user=b_user)


def solve_items(problem: Problem, kernels: Kernels, state: State) -> State:
    """Best item factors and biases, all else held fixed."""
    rows = problem.ratings.by_item
    targets = kernels.targets(rows, _positions(problem, state), by_row=False)
    design = problem.design(state.U)
    solution = kernels.solve_rows(rows, targets, design, state.b_user, problem.ridge_item)
    V, b_item = problem.split(solution)
    return replace(state, V=V, b_item=b_item)


def measure(problem: Problem, kernels: Kernels, state: State) -> State:
    """Renew what a State knows of its predictions: their sums by level and half their sum of squares."""
    own = problem.join(state.U, state.b_user)
    S, energy = kernels.level_sums(
        problem.ratings.by_user, problem.ratings.n_levels, own, problem.design(state.V), state.b_item
    )
    return replace(state, S=S, energy=energy)


def _positions(problem: Problem, state: State) -> Floats:
    """Scale of each user, (N, L), in the kernels' type."""
    return state.X[state.z].astype(problem.dtype)
