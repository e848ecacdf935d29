"""The one loop: step, record, stop. Any solver is driven by it."""

from __future__ import annotations

import time
from collections.abc import Callable

from cmtrf.problem import Problem, State
from cmtrf.progress import Progress, Record
from cmtrf.solvers.base import Outcome, Solver

Callback = Callable[[Record], object]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; carries what was reached, so that nothing is lost."""

    def __init__(self, problem: Problem, outcome: Outcome) -> None:
        super().__init__("interrupted")
        self.problem = problem
        self.outcome = outcome


def drive(
    problem: Problem,
    solver: Solver,
    state: State,
    *,
    max_sweeps: int,
    tol: float,
    callback: Callback | None = None,
    progress: Progress | None = None,
    title: str = "fit",
) -> Outcome:
    """Sweep until the objective falls by less than ``tol`` of itself, the callback says stop, or sweeps run out.

    ``tol=0`` runs exactly ``max_sweeps``. Ctrl-C raises `Interrupted` with the State of the last whole sweep.
    """
    objective: list[float] = []
    begun = time.perf_counter()

    def ended(converged: bool, reason: str) -> Outcome:
        return Outcome(state, tuple(objective), converged, reason)

    with (progress or Progress(show=False)).phase(title, max_sweeps) as bar:
        try:
            for sweep in range(1, max_sweeps + 1):
                state, info = solver.step(problem, state)
                objective.append(problem.objective(state))
                fall = _relative_fall(objective)
                record = Record(sweep, objective[-1], fall, info.moved, time.perf_counter() - begun)
                bar.update(record)
                if callback is not None and callback(record) is True:
                    return ended(False, f"the callback stopped it after sweep {sweep}")
                if tol > 0 and fall < tol:
                    return ended(True, f"the objective settled after {sweep} sweeps")
        except KeyboardInterrupt:
            raise Interrupted(problem, ended(False, f"interrupted after {len(objective)} whole sweeps")) from None
    return ended(False, f"max_sweeps={max_sweeps} were taken")


def _relative_fall(objective: list[float]) -> float:
    if len(objective) < 2:
        return float("inf")
    before, now = objective[-2:]
    return (before - now) / max(abs(before), 1e-300)
