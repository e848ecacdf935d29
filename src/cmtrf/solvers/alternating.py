"""The paper to the letter: (assignment,) scale, factors, in the order of its three figures.

The figures ask for the minimum over U and V between two scale steps, by any factorization method. One U
and one V step, as the authors' program takes, is our reading; ``inner`` takes more of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cmtrf.kernels.table import Kernels
from cmtrf.problem import Problem, State
from cmtrf.scales.margin import LevelSums
from cmtrf.solvers.base import Info, learn_scales, measure, solve_items, solve_users


@dataclass(frozen=True)
class Alternating:
    """Isotonic regression on the level means of predictions, then ``inner`` times U and V."""

    kernels: Kernels
    inner: int = 1

    def step(self, problem: Problem, state: State) -> tuple[State, Info]:
        """Take eq. clust (if users choose), x, mf of the paper (xN, mfN and x1, mf1 are the same with other groups)."""
        sums = LevelSums(problem.ratings.level_counts, state.S, problem.margin, self.kernels)
        new = learn_scales(problem, sums, state)
        for _ in range(self.inner):
            new = solve_users(problem, self.kernels, new)
            new = solve_items(problem, self.kernels, new)
        return measure(problem, self.kernels, new), Info(int((new.z != state.z).sum()))
