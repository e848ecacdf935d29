"""One path of a grid: fit after fit, each starting where the one before it ended, kept on disk if wanted."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.base import clone

from cmtrf.encode import truth_of
from cmtrf.errors import DataError, ModelFileError
from cmtrf.estimators import load
from cmtrf.files import json_text, write_whole
from cmtrf.metrics import mae, mse
from cmtrf.models.stored import package_version
from cmtrf.tables.columns import Columns
from cmtrf.tuning.grids import name_parameters

# What reading a file raises that is not ours, or not whole.
BROKEN = (ValueError, TypeError, KeyError, DataError, ModelFileError)
METRICS: dict[str, Callable[..., float]] = {"mse": mse, "mae": mae}


@dataclass(frozen=True)
class Trial:
    """One setting that was tried."""

    params: dict[str, Any]
    score: float  # error on the validation part
    seconds: float
    sweeps: int | None = None
    converged: bool | None = None


@dataclass(frozen=True)
class Walk:
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
        model = clone(self.model).set_params(**name_parameters(params))
        options: dict[str, Any] = {}
        if last is not None and takes(model.fit, "start"):
            options["start"] = last
        if takes(model.fit, "callback"):
            options["callback"] = lambda _: self.interrupted.is_set()
        begun = time.perf_counter()
        model.fit(self.train, **options)
        predicted = model.predict(self.validation)
        seconds = time.perf_counter() - begun
        truth = truth_of(model, self.validation)
        score = METRICS[self.metric](truth, predicted, self.validation.weight)
        sweeps, converged = getattr(model, "n_sweeps_", None), getattr(model, "converged_", None)
        return Trial(params, score, seconds, sweeps, converged), model


def takes(method: Any, parameter: str) -> bool:
    """Whether a method of a model has this parameter."""
    return parameter in inspect.signature(method).parameters


@dataclass(frozen=True)
class _Memory:
    """The trials of a path and its last model on disk; without a folder, nothing."""

    file: Path | None
    warm: bool = True  # whether a fit starts where the one before it ended

    @classmethod
    def of(cls, walk: Walk, path: list[dict[str, Any]]) -> _Memory:
        if walk.store is None:
            return cls(None)
        params = {name: value for name, value in walk.model.get_params().items() if name not in ("n_jobs", "progress")}
        key = [package_version(), type(walk.model).__name__, repr(params), path, walk.metric, walk.patience]
        digest = hashlib.sha256(repr([*key, walk.train.digest(), walk.validation.digest()]).encode()).hexdigest()
        return cls(walk.store / f"path-{digest[:16]}.json", takes(walk.model.fit, "start"))

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
        except BROKEN:  # somebody else's, cut short or gone: begin again
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
