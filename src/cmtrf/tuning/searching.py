"""A search: paths side by side, and what was found."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from cmtrf.errors import NotConvergedWarning, ParameterError, ScaleWarning
from cmtrf.files import make_folder
from cmtrf.kernels.choose import count_jobs
from cmtrf.plan import whole_number
from cmtrf.progress import Progress
from cmtrf.splits import Split, uniform
from cmtrf.tables.writing import frame
from cmtrf.tuning.grids import Grid, check_grid, is_at_end, list_paths, list_values, name_parameters
from cmtrf.tuning.walk import METRICS, Trial, Walk

log = logging.getLogger("cmtrf")


class Search:
    """What a search has found: every trial in the order of the grid, and the best of them."""

    def __init__(self, trials: Sequence[Trial], metric: str, grid: Grid) -> None:
        self.trials = tuple(trials)
        self.metric = metric
        self._grid = grid

    @property
    def best(self) -> Trial:
        """The trial of the lowest error, the first of equals."""
        if not self.trials:
            raise ParameterError("nothing has been tried yet")
        return min(self.trials, key=lambda trial: trial.score)

    @property
    def best_params(self) -> dict[str, Any]:
        """Its parameters, as the model's constructor takes them."""
        return name_parameters(self.best.params)

    @property
    def at_end(self) -> tuple[str, ...]:
        """Names of the numbers whose best value is the first or the last of its list: a wider list may do better."""
        best = self.best.params
        return tuple(name for name, values in self._grid.items() if is_at_end(best[name], values))

    def table(self) -> Any:
        """Trials as a polars frame: a column a parameter, the error, sweeps, whether it converged, seconds."""
        names = list(self._grid)
        columns = {name: _column([trial.params[name] for trial in self.trials]) for name in names}
        columns[self.metric] = np.array([trial.score for trial in self.trials])
        for name in ("sweeps", "converged", "seconds"):
            columns[name] = _column([getattr(trial, name) for trial in self.trials])
        return frame(columns)

    def __repr__(self) -> str:
        if not self.trials:
            return "Search(no trial)"
        return f"Search({len(self.trials)} trials, best {self.metric} {self.best.score:.4f} at {self.best.params})"


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a search; ``search`` holds what was tried until then."""

    def __init__(self, search: Search) -> None:
        super().__init__(f"interrupted after {len(search.trials)} trials")
        self.search = search


def search(
    model: Any,
    table: Any,
    grid: Grid,
    *,
    share: float = 0.1,
    metric: str = "mse",
    patience: int | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    title: str = "tuning",
    store: str | os.PathLike[str] | None = None,
) -> Search:
    """Fit every setting of a grid to one part of train, and judge it by the rest, the validation part.

    Parameters
    ----------
    model : estimator
        `cmtrf.CMTRF`, or anything with ``set_params``, ``fit(table)`` and ``predict(pairs)``.
    table : Split or table
        What train is. Of a `Split` only its train part is looked at, and the validation part is cut from that by the
        split's own rule (``split.validation(share)`` may be passed as well); of a table it is cut uniformly.
    grid : mapping of str to sequence
        Values of each parameter; all combinations are tried. The name ``"lambda"`` stands for ``lambda_u`` and
        ``lambda_v`` together. One list of lambdas is a path: it is walked from the weakest to the strongest, each fit
        starting where the one before it ended, where the model can do that.
    share : float
        Share of the validation part.
    metric : {"mse", "mae"}
        What is to be low.
    patience : int, optional
        Leave a path after so many values in a row that were worse than the best before them. By default all
        values are tried.
    n_jobs : int, optional
        Paths at a time, each in a thread of its own; None is all cores.
    progress : bool, optional
        A bar on stderr; None: only on a terminal.
    title : str
        What the bar is called.
    store : path, optional
        A folder that keeps every trial and the last fit of each unfinished path: the same search started again
        with it goes on where it was interrupted, to the same result.

    Returns
    -------
    Search

    Raises
    ------
    Interrupted
        On Ctrl-C: a KeyboardInterrupt with what was tried until then in its attribute ``search``.

    Examples
    --------
    >>> from cmtrf import CMTRF, splits, tuning
    >>> from cmtrf.datasets import load_demo
    >>> split = splits.uniform(load_demo())
    >>> model = CMTRF(rank=3, random_state=0)
    >>> found = tuning.search(model, split, {"lambda": [1, 2, 4, 8]}, n_jobs=1)
    >>> found.best_params
    {'lambda_u': 2, 'lambda_v': 2}
    >>> model = model.set_params(**found.best_params).fit(split.train)
    """
    if metric not in METRICS:
        raise ParameterError(f"metric={metric!r}: pass one of {', '.join(map(repr, METRICS))}")
    if patience is not None:
        whole_number("patience", patience, 1)
    values = {name: list_values(name, entries) for name, entries in grid.items()}
    check_grid(model, values)
    split = table if isinstance(table, Split) else uniform(table, share)
    if isinstance(table, Split) and not table.is_validation:
        split = table.validation(share)
    folder = None if store is None else Path(store)
    if folder is not None:
        make_folder(folder)
    paths = list(list_paths(values))
    jobs = count_jobs(n_jobs)
    workers = min(jobs, len(paths))
    model = clone(model)
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=max(1, jobs // workers))
    interrupted, active = threading.Event(), set[int]()
    walk = Walk(model, split.train_columns, split.test_columns, metric, patience, folder, interrupted)
    done: list[list[Trial]] = [[] for _ in paths]
    with quiet(), Progress(progress).phase(title, sum(map(len, paths))) as bar:

        def walk_path(path: list[dict[str, Any]], trials: list[Trial]) -> None:
            active.add(id(trials))
            try:
                for trial in walk.trials(path):
                    trials.append(trial)
                    best = min(each.score for each in _flat(done))
                    bar.show(len(_flat(done)), f"best {metric} {best:.4f}")
            finally:
                active.discard(id(trials))

        try:
            # Kernels let go of the interpreter, and threads share the table: no process has to be started or fed.
            run = joblib.Parallel(workers, backend="threading")
            run(joblib.delayed(walk_path)(path, trials) for path, trials in zip(paths, done, strict=True))
        except BaseException as error:
            interrupted.set()
            while active:  # a thread cannot be stopped from outside: it ends with its sweep
                time.sleep(0.01)
            if not isinstance(error, KeyboardInterrupt):
                raise
            raise Interrupted(Search(_flat(done), metric, values)) from None
    return Search(_flat(done), metric, values)


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of what is usual where models are judged: fits that do not settle, ids that are not in train."""
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (NotConvergedWarning, ScaleWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        log.setLevel(level)


def _flat(done: Sequence[Sequence[Trial]]) -> list[Trial]:
    return [trial for trials in done for trial in trials]


def _column(values: list[Any]) -> Any:
    """Values of one parameter: as they are where a frame can hold them, else as texts."""
    plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in values)
    kinds = {type(value) for value in values if value is not None}
    if plain and (len(kinds) <= 1 or kinds <= {int, float}):
        return np.array(values, dtype=object)
    return np.array([str(value) for value in values], dtype=object)
