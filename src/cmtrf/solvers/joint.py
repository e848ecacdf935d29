"""Variable projection for squared loss: user factors eliminated, so scales and users move together (MATH section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmtrf.kernels.table import Kernels
from cmtrf.problem import Problem, State
from cmtrf.scales.margin import Quadratics
from cmtrf.solvers.base import Info, learn_scales, measure, solve_items, solve_users


@dataclass(frozen=True)
class Joint:
    """Assignment and scales by their quadratics, user factors in closed form, then one item step."""

    kernels: Kernels

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Take ``u_i = W_i x - w_i`` at the best x given V, then V."""
        if not problem.learns_scales:
            new = solve_users(problem, self.kernels, state)
        else:
            rows, L = problem.ratings.by_user, problem.ratings.n_levels
            Q, q, W, w = self.kernels.eliminate_rows(rows, L, problem.design(state.V), state.b_item, problem.ridge_user)
            step = Quadratics(problem.ratings.level_counts, Q, q, problem.margin, self.kernels)
            new = learn_scales(problem, step, state)
            positions = new.X[new.z].astype(problem.dtype)
            U, b_user = problem.split(np.einsum("nld,nl->nd", W, positions) - w)
            new = replace(new, U=U, b_user=b_user)
        new = solve_items(problem, self.kernels, new)
        return measure(problem, self.kernels, new), Info(int((new.z != state.z).sum()))
