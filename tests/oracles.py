"""General solvers as judges: slow, from other libraries, and knowing nothing of our derivations."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize

from cmtrf.problem import Problem, State

Array = np.ndarray[Any, Any]


def triples(problem: Problem) -> tuple[Array, Array, Array, Array]:
    """User, item, level and weight of every rating."""
    rows = problem.ratings.by_user
    user = np.repeat(np.arange(problem.ratings.n_users), np.diff(rows.indptr))
    weight = rows.weight if len(rows.weight) else np.ones(len(rows.indices))
    return user, rows.indices, rows.level, weight.astype(float)


def objective(problem: Problem, state: State) -> float:
    """The objective, written down from the paper rating by rating."""
    user, item, level, weight = triples(problem)
    total = 0.0
    for i, j, given, w in zip(user, item, level, weight, strict=True):
        x = state.X[state.z[i], given]
        total += w * (x - state.U[i] @ state.V[j] - state.b_user[i] - state.b_item[j]) ** 2 / 2
    total += problem.lambda_u / 2 * (state.U**2).sum() + problem.lambda_v / 2 * (state.V**2).sum()
    total += problem.lambda_bias[0] / 2 * (state.b_user**2).sum()
    total += problem.lambda_bias[1] / 2 * (state.b_item**2).sum()
    margin = problem.margin
    total += sum((margin.pull / 2 * (x - margin.parent) ** 2).sum() for x in state.X)
    return float(total)


def best_scale(problem: Problem, users: Array, predict: Array) -> Array:
    """Best scale of a group of users for given predictions, one a rating, by a convex solver (cvxpy)."""
    user, _, level, weight = triples(problem)
    here = np.isin(user, users)
    x = cp.Variable(problem.ratings.n_levels)
    loss = cp.sum(cp.multiply(weight[here] / 2, cp.square(x[level[here]] - predict[here])))
    loss += cp.sum(cp.multiply(problem.margin.pull / 2, cp.square(x - problem.margin.parent)))
    cp.Problem(cp.Minimize(loss), [cp.diff(x) >= problem.margin.gaps]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return np.asarray(x.value)


def best_scale_and_users(problem: Problem, state: State, users: Array) -> tuple[float, Array]:
    """Least objective over one scale and all factors of its users, items held fixed, by SLSQP in all variables."""
    user, item, level, weight = triples(problem)
    here = np.isin(user, users)
    place = np.searchsorted(users, user[here])
    V, b = state.V[item[here]], state.b_item[item[here]]
    L, d = problem.ratings.n_levels, problem.rank
    margin, (ridge_b, _) = problem.margin, problem.lambda_bias

    def parts(variables: Array) -> tuple[Array, Array, Array]:
        x, rest = variables[:L], variables[L:]
        return x, rest[: len(users) * d].reshape(-1, d), rest[len(users) * d :]

    def value(variables: Array) -> tuple[float, Array]:
        x, U, bias = parts(variables)
        own = bias[place] if problem.bias else 0.0
        error = x[level[here]] - (U[place] * V).sum(1) - own - b
        w = weight[here]
        f = (w * error**2).sum() / 2 + problem.lambda_u / 2 * (U**2).sum() + ridge_b / 2 * (bias**2).sum()
        f += (margin.pull / 2 * (x - margin.parent) ** 2).sum()
        gx = np.bincount(level[here], w * error, L) + margin.pull * (x - margin.parent)
        gU = problem.lambda_u * U
        np.add.at(gU, place, -(w * error)[:, None] * V)
        gb = ridge_b * bias - (np.bincount(place, w * error, len(bias)) if problem.bias else 0.0)
        return float(f), np.concatenate([gx, gU.ravel(), gb])

    n_bias = len(users) if problem.bias else 0
    begin = np.concatenate([margin.parent, np.zeros(len(users) * d + n_bias)])
    gaps = np.zeros((L - 1, len(begin)))
    gaps[np.arange(L - 1), np.arange(L - 1)], gaps[np.arange(L - 1), np.arange(1, L)] = -1, 1
    answer = minimize(
        value,
        begin,
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: gaps @ v - margin.gaps, "jac": lambda _: gaps},
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    return float(answer.fun), answer.x[:L]
