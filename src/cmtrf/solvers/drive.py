"""The one loop: step, record, stop. Any solver is driven by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cmtrf.errors import NumericalError
from cmtrf.problem import Problem, State
from cmtrf.progress import Progress, Record
from cmtrf.solvers.base import Ending, Outcome, Solver

Callback = Callable[[Record], object]
ROUNDING = 1e-6  # a relative rise above this is no descent any more


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

    ``tol=0`` runs exactly ``max_sweeps``, unless rounding makes a sweep raise the objective: then the State before
    it is the answer. Ctrl-C raises `Interrupted` with the State of the last whole sweep.
    """
    objective: list[float] = []
    begun = time.perf_counter()
    with (progress or Progress(show=False)).phase(title, max_sweeps) as bar:
        try:
            for sweep in range(1, max_sweeps + 1):
                new, info = solver.step(problem, state)
                value = problem.objective(new)
                if not math.isfinite(value):
                    raise NumericalError(
                        f"the objective is {value} after sweep {sweep}: weights or lambdas are too large or too "
                        "small for the numbers of a machine; scale them, or pass dtype='float64'"
                    )
                fall = _relative_fall(objective[-1], value, problem.rounding(new)) if objective else math.inf
                if fall < -ROUNDING:
                    return Outcome(state, tuple(objective), Ending.ROUNDING)
                state = new
                objective.append(value)
                record = Record(sweep, value, fall, info.moved, time.perf_counter() - begun)
                bar.update(record)
                if callback is not None and callback(record) is True:
                    return Outcome(state, tuple(objective), Ending.STOPPED)
                if tol > 0 and fall < tol:
                    return Outcome(state, tuple(objective), Ending.SETTLED)
        except KeyboardInterrupt:
            raise Interrupted(problem, Outcome(state, tuple(objective), Ending.INTERRUPTED)) from None
    return Outcome(state, tuple(objective), Ending.OUT_OF_SWEEPS)


def _relative_fall(before: float, now: float, rounding: float) -> float:
    """Part of the objective that is gone; none where the difference is rounding, as after a perfect fit."""
    return 0.0 if abs(before - now) <= rounding else (before - now) / before
