"""Models on one split, one after the other: tuned on a part of train, fitted to all of it, measured on test."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from cmtrf.errors import ParameterError
from cmtrf.evaluate.measure import Rows, measure
from cmtrf.evaluate.memory import peak_memory
from cmtrf.evaluate.models import DEFAULT, MODELS, Entry
from cmtrf.evaluate.parts import check_ratings, describe, open_table, split_table, validation_of
from cmtrf.evaluate.result import Evaluation, Run, compare, list_versions
from cmtrf.evaluate.store import Store
from cmtrf.models.stored import package_version
from cmtrf.plan import whole_number
from cmtrf.splits import Split
from cmtrf.tables.columns import ColumnNames, check_names
from cmtrf.tuning.searching import quiet, search

log = logging.getLogger("cmtrf")

PATIENCE = 2  # worse lambdas in a row after which a path is left


class Stopped(KeyboardInterrupt):
    """Ctrl-C during an evaluation; ``kept`` says what is not lost, ``result`` holds the runs that were done."""

    def __init__(self, result: Evaluation, path: Path | None) -> None:
        n = len(result.runs)
        done = f"{n} finished run{'' if n == 1 else 's'}"
        self.result = result
        if path is None:
            self.kept = f"nothing is kept of what was tuned and of {done}; with a file to write (-o) it would have been"
        else:
            where = f"{path} keeps {done}" if n else f"the folder beside {path} keeps what was tuned"
            self.kept = f"{where}; the same call goes on from there"
        super().__init__(f"interrupted; {self.kept}")


def evaluate(
    table: Any,
    *,
    test: Any = None,
    split: str = "auto",
    test_share: float = 0.2,
    known_set: str | None = None,
    models: Sequence[str] = DEFAULT,
    seeds: int = 1,
    score: str = "all",
    levels: Any = None,
    duplicates: str = "error",
    output: str | Path | None = None,
    fresh: bool = False,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **names: Unpack[ColumnNames],
) -> Evaluation:
    """Judge models side by side on one split of a table.

    What has to be chosen for a model (lambdas, so far) is chosen on a validation part of train, cut the way the test
    part was; then the model is fitted to all of train, once a seed, and measured on test. No test row reaches a fit
    or a choice.

    Parameters
    ----------
    table : table, path or Split
        Anything that `CMTRF.fit` takes, an archive or folder of a known set, or a `cmtrf.splits.Split`.
    test : table, optional
        A test part of its own; ``table`` is then the train part.
    split : {"auto", "chronological", "uniform", "user", "published", "paper"}
        How to split. ``"auto"``: as a column ``part`` says where there is one, else by time where there are time
        stamps, else uniformly.
    test_share : float
        Share of the rows that are test, where the split leaves that open.
    known_set : str, optional
        Name of the set (see `cmtrf.datasets.load`); archives and folders are mostly recognized without.
    models : sequence of str
        Names in ``cmtrf.evaluate.MODELS``; differences are taken from the first.
    seeds : int
        Number of fits of each model, with ``random_state`` 0, 1, ...; the split and what was chosen stay the same.
    score : {"all", "paper"}
        Count the errors of all test rows, or as the paper's program did (`cmtrf.evaluate.measure.measure`).
    levels, duplicates
        As for `CMTRF`; repeated pairs are settled before the table is split. A pair that both parts of a split that
        is given or published have is an error, unless ``duplicates="keep"``.
    output : path, optional
        JSON file, written after every run. Beside it the folder ``<name>.parts`` keeps every prediction, one Parquet
        file a run, and unfinished searches: calling again does only what is missing.
    fresh : bool
        Start over, whatever the file holds.
    n_jobs, progress
        As for `CMTRF`.
    **names : str
        Names of columns, as for `CMTRF.fit`.

    Returns
    -------
    Evaluation

    Raises
    ------
    Stopped
        On Ctrl-C: a KeyboardInterrupt that says what is kept.

    Examples
    --------
    >>> from cmtrf.datasets import load_demo
    >>> from cmtrf.evaluate import evaluate
    >>> result = evaluate(load_demo().head(2000), models=["bias"])
    >>> print(result.text)
    uniform: 1,600 train rows, 400 test rows, none of them cold
    >>> round(result.summary[0]["mse"], 2)
    0.61
    """
    models = models.split(",") if isinstance(models, str) else models
    entries = _check(models, seeds, score)
    check_names(names)
    if fresh and output is None:
        raise ParameterError("fresh=True has nothing to start over without output=")
    origin: dict[str, Any] = {"set": None, "release": None, "files": []}
    if isinstance(table, Split):
        if test is not None or split != "auto" or known_set is not None or names:
            raise ParameterError("the table is split already: pass neither test, split, known_set nor names of columns")
    else:
        table, origin = open_table(table, known_set, split)
        table = split_table(table, test, split, test_share, origin["set"], duplicates, names)
    check_ratings(table, levels, duplicates)
    job = _Job(table, {"levels": levels, "duplicates": duplicates, "n_jobs": n_jobs, "progress": progress}, score)
    result = Evaluation(describe(table, origin), str(table), score, versions=list_versions())
    store = Store.at(None if output is None else Path(output), fresh=fresh)
    rows: dict[tuple[str, int], Rows] = {}

    def add(run: Run, predictions: Rows) -> None:
        result.runs.append(run)
        rows[run["model"], run["seed"]] = predictions
        order = list(dict.fromkeys([*models, *(each["model"] for each in result.runs)]))  # those asked for first
        result.runs.sort(key=lambda each: (order.index(each["model"]), each["seed"]))

    for run, predictions in store.recall(result, job.key):
        add(run, predictions)
    try:
        for name, entry in entries.items():
            for seed in range(seeds):
                if (name, seed) in rows:
                    continue
                try:
                    if name not in result.tuning:
                        result.tuning[name] = job.tune(name, entry, store.folder)
                    run, predictions = job.run(name, entry, seed, result.tuning[name]["params"])
                except ParameterError as error:
                    raise ParameterError(f"{name}: {error}; or leave this model out of models=") from None
                store.keep(run, predictions, table)
                add(run, predictions)
                store.write(result)
        by_model: dict[str, list[Rows]] = {}
        for run in result.runs:
            by_model.setdefault(run["model"], []).append(rows[run["model"], run["seed"]])
        result.paired = list(compare(by_model, models[0], table))
        store.write(result)
    except KeyboardInterrupt:
        raise Stopped(result, store.path) from None
    return result


def _check(models: Sequence[str], seeds: int, score: str) -> dict[str, Entry]:
    whole_number("seeds", seeds, 1)
    unknown = [name for name in models if name not in MODELS]
    if unknown or not models:
        what = f"there is no model {', '.join(map(repr, unknown))}" if unknown else "no model is named"
        raise ParameterError(f"{what}; there are {', '.join(MODELS)}")
    if score not in ("all", "paper"):
        raise ParameterError(f'score={score!r}: pass "all" or "paper"')
    return {name: MODELS[name] for name in models}


class _Job:
    """What all runs of an evaluation share."""

    def __init__(self, split: Split, settings: Mapping[str, Any], score: str) -> None:
        self.split, self.settings, self.score = split, settings, score

    def key(self, name: str, seed: int | None = None) -> str:
        """Digest of everything that a run, or without a seed what is chosen for a model, depends on."""
        entry = MODELS.get(name)
        told = None if entry is None else (repr(sorted(entry.make().get_params().items())), repr(dict(entry.grid)))
        options = (repr(self.settings["levels"]), self.settings["duplicates"], PATIENCE, self.split.leaves_out_cold)
        parts = (package_version(), name, told, options, self.score, seed, self._digests)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @cached_property
    def _digests(self) -> list[str]:
        """Of what is fitted, tested and chosen on."""
        return [
            part.digest()
            for split in (self.split, self.validation)
            for part in (split.train_columns, split.test_columns)
        ]

    @cached_property
    def validation(self) -> Split:
        """Where choices are made."""
        return validation_of(self.split)

    def make(self, entry: Entry, **parameters: Any) -> Any:
        """Make a model with these parameters, as far as it has them."""
        model = entry.make()
        known = model.get_params()
        wanted = {**self.settings, **parameters}
        return model.set_params(**{name: value for name, value in wanted.items() if name in known})

    def tune(self, name: str, entry: Entry, folder: Path | None) -> dict[str, Any]:
        """Choose parameters on the validation part, by the first seed."""
        if not entry.grid:
            return {"key": self.key(name), "params": {}}
        begun = time.perf_counter()
        found = search(
            self.make(entry, random_state=0, progress=False),
            self.validation,
            entry.grid,
            patience=PATIENCE,
            n_jobs=self.settings["n_jobs"],
            progress=self.settings["progress"],
            title=f"{name}: tuning",
            store=folder,
        )
        return {
            "key": self.key(name),
            "params": found.best_params,
            found.metric: found.best.score,
            "at_end": list(found.at_end),
            "validation": str(self.validation),
            "seconds": time.perf_counter() - begun,
            "trials": [asdict(trial) for trial in found.trials],
        }

    def run(self, name: str, entry: Entry, seed: int, chosen: Mapping[str, Any]) -> tuple[Run, Rows]:
        """Fit to all of train, and measure on test."""
        model = self.make(entry, random_state=seed, **chosen)
        with peak_memory() as peak, quiet():  # whether it settled is in the record, who is cold in the text
            begun = time.perf_counter()
            model.fit(self.split.train_columns)
            fitted = time.perf_counter()
            model.predict(self.split.test_columns)
            done = time.perf_counter()
        values, rows = measure(model, self.split, self.score)
        costs = {"seconds": fitted - begun, "predict_seconds": done - fitted, "peak_mb": peak[0]}
        ended = {"sweeps": getattr(model, "n_sweeps_", None), "converged": getattr(model, "converged_", None)}
        run = {"model": name, "seed": seed, **values, **costs, **ended, "params": dict(chosen)}
        return {**run, "versions": list_versions(), "key": self.key(name, seed)}, rows
