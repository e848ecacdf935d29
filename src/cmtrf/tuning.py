"""Choosing parameters on a validation part of train: grids in parallel, each regularization path from a warm start."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone

from cmtrf.encode import truth_of
from cmtrf.errors import DataError, ModelFileError, NotConvergedWarning, ParameterError, ScaleWarning
from cmtrf.estimators import load
from cmtrf.files import json_text, make_folder, write_whole
from cmtrf.kernels.choose import count_jobs
from cmtrf.metrics import mae, mse
from cmtrf.models.stored import package_version
from cmtrf.plan import whole_number
from cmtrf.progress import Progress
from cmtrf.splits import Split, uniform
from cmtrf.tables.columns import Columns
from cmtrf.tables.writing import frame

log = logging.getLogger("cmtrf")

Grid = Mapping[str, Sequence[Any]]
Metric = Callable[..., float]
METRICS: dict[str, Metric] = {"mse": mse, "mae": mae}
PATHS = ("lambda", "lambda_v", "lambda_u")  # a list of these is walked from weak to strong, one fit starting the next

# What the paper states. (Its best K for ML-100K, 4, is not on its own list; it names no list for the rank.)
_POWERS = tuple(10.0 ** (k / 2) for k in range(-4, 5))
PAPER_GRID: dict[str, tuple[float, ...]] = {"lambda_u": _POWERS, "lambda_v": _POWERS}
PAPER_N_SCALES = (2, 3, 5, 10, 20, 30, 50, 75, 100)

# One number for both sides, which is enough with squared loss: at an optimum only the product counts.
LAMBDAS = tuple(round(10 ** (k / 5), 2) for k in range(1, 11))  # 1.58 .. 100


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    params: dict[str, Any]
    score: float  # error on the validation part
    seconds: float
    sweeps: int | None = None
    converged: bool | None = None


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
        return _constructor(self.best.params)

    @property
    def at_end(self) -> tuple[str, ...]:
        """Names of the numbers whose best value is the first or the last of its list: a wider list may do better."""
        best = self.best.params
        return tuple(name for name, values in self._grid.items() if _is_at_end(best[name], values))

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
    values = {name: _list_values(name, entries) for name, entries in grid.items()}
    _check_grid(model, values)
    split = table if isinstance(table, Split) else uniform(table, share)
    if isinstance(table, Split) and not table.is_validation:
        split = table.validation(share)
    folder = None if store is None else Path(store)
    if folder is not None:
        make_folder(folder)
    paths = list(_paths(values))
    jobs = count_jobs(n_jobs)
    workers = min(jobs, len(paths))
    model = clone(model)
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=max(1, jobs // workers))
    interrupted, active = threading.Event(), set[int]()
    walk = _Walk(model, split.train_columns, split.test_columns, metric, patience, folder, interrupted)
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


# One path ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Walk:
    """How a path is walked: fitted to one part, judged by the other, one setting after the other."""

    model: Any
    train: Columns
    validation: Columns
    metric: str
    patience: int | None
    store: Path | None
    interrupted: threading.Event

    def trials(self, path: list[dict[str, Any]]) -> Iterator[Trial]:
        """Yield one trial after the other, those first that the store has."""
        memory = _Memory.of(self, path)
        trials, last = memory.recall(path, self._is_over)
        yield from trials
        while not self._is_over(trials, path) and not self.interrupted.is_set():
            trial, last = self._try(path[len(trials)], last)
            if self.interrupted.is_set():
                return
            trials.append(trial)
            memory.keep(trials, last)
            yield trial
        if self._is_over(trials, path):
            memory.forget_models()

    def _is_over(self, trials: Sequence[Trial], path: Sequence[Any]) -> bool:
        """Whether nothing is left to try, or the last trials were all worse than the best before them."""
        if self.patience is None or not trials:
            return len(trials) == len(path)
        scores = [trial.score for trial in trials]
        return len(trials) == len(path) or len(scores) - 1 - scores.index(min(scores)) >= self.patience

    def _try(self, params: dict[str, Any], last: Any) -> tuple[Trial, Any]:
        model = clone(self.model).set_params(**_constructor(params))
        options: dict[str, Any] = {}
        if last is not None and _takes(model.fit, "start"):
            options["start"] = last
        if _takes(model.fit, "callback"):
            options["callback"] = lambda _: self.interrupted.is_set()
        begun = time.perf_counter()
        model.fit(self.train, **options)
        predicted = model.predict(self.validation)
        seconds = time.perf_counter() - begun
        truth = truth_of(model, self.validation)
        score = METRICS[self.metric](truth, predicted, self.validation.weight)
        sweeps, converged = getattr(model, "n_sweeps_", None), getattr(model, "converged_", None)
        return Trial(params, score, seconds, sweeps, converged), model


def _takes(method: Any, parameter: str) -> bool:
    return parameter in inspect.signature(method).parameters


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


@dataclass(frozen=True)
class _Memory:
    """The trials of a path and its last model on disk; without a folder, nothing."""

    file: Path | None
    warm: bool = True  # whether a fit starts where the one before it ended

    @classmethod
    def of(cls, walk: _Walk, path: list[dict[str, Any]]) -> _Memory:
        if walk.store is None:
            return cls(None)
        params = {name: value for name, value in walk.model.get_params().items() if name not in ("n_jobs", "progress")}
        key = [package_version(), type(walk.model).__name__, repr(params), path, walk.metric, walk.patience]
        digest = hashlib.sha256(repr([*key, walk.train.digest(), walk.validation.digest()]).encode()).hexdigest()
        return cls(walk.store / f"path-{digest[:16]}.json", _takes(walk.model.fit, "start"))

    def recall(
        self, path: list[dict[str, Any]], is_over: Callable[[Sequence[Trial], Sequence[Any]], bool]
    ) -> tuple[list[Trial], Any]:
        """Trials that are known, and the last one's model if the path goes on; all or nothing of a path."""
        if self.file is None or not self.file.exists():
            return [], None
        try:
            entries = json.loads(self.file.read_text("utf-8"))
            trials = [
                Trial(**{**entry, "params": params, "score": float(entry["score"])})
                for entry, params in zip(entries, path, strict=False)
            ]
            if is_over(trials, path) or not self.warm:
                return trials, None
            return trials, load(self._checkpoint(len(trials)))
        except (ValueError, TypeError, KeyError, DataError, ModelFileError):  # somebody else's, broken or gone: begin again
            return [], None

    def keep(self, trials: list[Trial], model: Any) -> None:
        """Write the model first: trials without it would not be gone on from."""
        if self.file is None:
            return
        if self.warm:
            model.save(self._checkpoint(len(trials)))
        text = json_text([asdict(trial) for trial in trials])
        write_whole(self.file, lambda file: file.write(text.encode()))
        self._checkpoint(len(trials) - 1).unlink(missing_ok=True)

    def forget_models(self) -> None:
        """A path that is over needs no model."""
        if self.file is not None:
            for checkpoint in self.file.parent.glob(f"{self.file.stem}-*.cmtrf"):
                checkpoint.unlink(missing_ok=True)

    def _checkpoint(self, n: int) -> Path:
        assert self.file is not None
        return self.file.with_name(f"{self.file.stem}-{n}.cmtrf")


# The grid ---------------------------------------------------------------------------------------------------


def _check_grid(model: Any, grid: Mapping[str, list[Any]]) -> None:
    if not grid or not all(grid.values()):
        raise ParameterError("the grid is empty: pass at least one parameter with at least one value")
    known = model.get_params()
    for name in grid:
        for each in _constructor({name: None}):
            if each not in known:
                raise ParameterError(
                    f"the grid names {name!r}, which is no parameter of {type(model).__name__}: pass one of "
                    f"{', '.join(known)}"
                )
    if "lambda" in grid and {"lambda_u", "lambda_v"} & grid.keys():
        raise ParameterError('"lambda" stands for lambda_u and lambda_v together: pass it, or those two')


def _paths(grid: Mapping[str, list[Any]]) -> Iterator[list[dict[str, Any]]]:
    """Settings that differ in one lambda only, weakest first: each list is one path."""
    walked = next((name for name in PATHS if name in grid), None)
    others = [name for name in grid if name != walked]
    for values in product(*(grid[name] for name in others)):
        fixed = dict(zip(others, values, strict=True))
        if walked is None:
            yield [fixed]
        else:
            numbers = sorted(value for value in grid[walked] if _is_number(value))
            words = [[value] for value in grid[walked] if not _is_number(value)]  # "auto" is neither weak nor strong
            for run in [numbers, *words]:
                if run:
                    yield [{name: value if name == walked else fixed[name] for name in grid} for value in run]


def _constructor(params: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the constructor takes them: "lambda" is both."""
    return {
        each: value
        for name, value in params.items()
        for each in (("lambda_u", "lambda_v") if name == "lambda" else (name,))
    }


def _is_at_end(best: Any, values: Sequence[Any]) -> bool:
    """Whether a number, or one of a tuple's numbers, is the least or the greatest of more than two."""
    if isinstance(best, tuple):
        tuples = [value for value in values if isinstance(value, tuple)]
        return any(_is_at_end(each, sorted({value[k] for value in tuples})) for k, each in enumerate(best))
    numbers = [value for value in values if _is_number(value)]
    return len(numbers) > 2 and best in (min(numbers), max(numbers))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _list_values(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParameterError(f"the grid has {name}={values!r}: pass a list of values")
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _flat(done: Sequence[Sequence[Trial]]) -> list[Trial]:
    return [trial for trials in done for trial in trials]


def _column(values: list[Any]) -> Any:
    """Values of one parameter: as they are where a frame can hold them, else as texts."""
    plain = all(value is None or isinstance(value, (bool, int, float, str)) for value in values)
    kinds = {type(value) for value in values if value is not None}
    if plain and (len(kinds) <= 1 or kinds <= {int, float}):
        return np.array(values, dtype=object)
    return np.array([str(value) for value in values], dtype=object)
