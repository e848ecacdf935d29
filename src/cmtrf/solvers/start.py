"""Where a fit begins: random factors, or those of an earlier fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmtrf.kernels.table import Float64, Floats, Integers, Kernels
from cmtrf.problem import Problem, State
from cmtrf.solvers.base import measure


@dataclass(frozen=True)
class Earlier:
    """An earlier fit, matched by id: ``users[i]`` is the old code of today's user i, -1 where it knew none."""

    users: Integers  # (N,)
    items: Integers  # (M,)
    user_factors: Floats
    item_factors: Floats
    user_bias: Floats
    item_bias: Floats
    scales: Float64  # (K, L)
    user_scale: Integers
    common_scale: Float64 | None  # (L,) the scale of all its users; None if it learned none

    def user_scales(self, unknown: Float64) -> Float64:
        """Scale of each of today's users, (N, L); ``unknown`` for those it did not know."""
        X: Float64 = np.where((self.users >= 0)[:, None], self.scales[self.user_scale[self.users]], unknown)
        return X


def random_state(problem: Problem, kernels: Kernels, X: Float64, z: Integers, rng: np.random.Generator) -> State:
    """Small independent normal factors, drawn in the order of ids; no biases yet."""
    return measure(problem, kernels, _draw(problem, X, z, rng))


def _draw(problem: Problem, X: Float64, z: Integers, rng: np.random.Generator) -> State:
    """A State whose predictions are not measured yet."""
    N, M, d = problem.ratings.n_users, problem.ratings.n_items, problem.rank
    spread = 1 / np.sqrt(max(d, 1))
    V = (spread * rng.standard_normal((M, d))).astype(problem.dtype)
    U = (spread * rng.standard_normal((N, d))).astype(problem.dtype)
    zeros = np.zeros(N, problem.dtype), np.zeros(M, problem.dtype)
    return State(U, V, *zeros, X, z, np.empty(0), np.empty(0))


def warm_state(
    problem: Problem,
    kernels: Kernels,
    earlier: Earlier,
    X: Float64,
    z: Integers,
    rng: np.random.Generator,
) -> State:
    """Factors and biases of an earlier fit where it knew the id, random ones elsewhere."""
    state = _draw(problem, X, z, rng)
    U = _taken(earlier.user_factors, earlier.users, state.U)
    V = _taken(earlier.item_factors, earlier.items, state.V)
    state = replace(state, U=U, V=V)
    if problem.bias:
        b_user = _taken(earlier.user_bias, earlier.users, state.b_user)
        b_item = _taken(earlier.item_bias, earlier.items, state.b_item)
        state = replace(state, b_user=b_user, b_item=b_item)
    return measure(problem, kernels, state)


def _taken(old: Floats, place: Integers, fresh: Floats) -> Floats:
    known = place >= 0
    taken = fresh.copy()
    taken[known] = old[place[known]]
    return taken
