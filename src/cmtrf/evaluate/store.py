"""An evaluation on disk: a JSON file, and beside it a folder with every prediction and with unfinished searches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmtrf.errors import DataError
from cmtrf.evaluate.measure import MEASURES, Rows
from cmtrf.evaluate.result import COSTS, Evaluation, Run
from cmtrf.files import json_text, make_folder, write_whole
from cmtrf.splits import Split
from cmtrf.tables.reading import column_names, read_column
from cmtrf.tables.writing import frame, write_file

OURS = re.compile(r"path-[0-9a-f]{16}(-\d+)?\.(json|cmtrf)|.+-\d+-[0-9a-f]{8}\.parquet")  # names in the folder


@dataclass(frozen=True)
class Store:
    """Where an evaluation is kept; without a path nowhere."""

    path: Path | None
    folder: Path | None

    @classmethod
    def at(cls, path: Path | None, *, fresh: bool) -> Store:
        """Make the folder beside the file; a fresh start removes what an evaluation has left in both."""
        if path is None:
            return cls(None, None)
        folder = path.with_name(f"{path.stem}.parts")
        make_folder(folder)
        store = cls(path, folder)
        if fresh and path.exists():
            store._read()  # what is no result is not ours to remove
        if fresh:
            for old in [path, *(file for file in folder.iterdir() if OURS.fullmatch(file.name))]:
                old.unlink(missing_ok=True)
        return store

    def recall(self, result: Evaluation, key: Callable[[str, int | None], str]) -> list[tuple[Run, Rows]]:
        """Take over choices; return runs with their predictions. What is there of something else is refused."""
        if self.path is None or not self.path.exists():
            return []
        old = self._read()
        runs, tuning = old["runs"], old["tuning"]
        same = old["data"]["digest"] == result.data["digest"] and old["score"] == result.score
        stale = {run["model"] for run in runs if run["key"] != key(run["model"], run["seed"])}
        stale |= {name for name, found in tuning.items() if found["key"] != key(name, None)}
        advice = "name another file, or start over with fresh=True (--fresh)"
        if not same:
            raise DataError(f"{self.path} holds results of another table, split or way of counting errors; {advice}")
        if stale:
            raise DataError(
                f"{self.path} holds results of {', '.join(sorted(stale))} with other settings (levels, duplicates, "
                f"what was searched) or by another version of the package; {advice}"
            )
        for run in runs:
            run |= {name: float(run[name]) for name in MEASURES if isinstance(run[name], str)}  # "inf"
        result.tuning |= tuning
        return [(run, rows) for run in runs if (rows := self._rows(run, result)) is not None]

    def _read(self) -> dict[str, Any]:
        """The file as it is; one that is no result is refused."""
        assert self.path is not None
        try:
            old: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
            needed = [old["data"]["digest"], old["score"], *(found["key"] for found in old["tuning"].values())]
            needed += [run[name] for run in old["runs"] for name in ("model", "seed", "key", *MEASURES, *COSTS)]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{self.path} is there and is no result of an evaluation; name another file") from None
        return old

    def keep(self, run: Run, rows: Rows, split: Split) -> None:
        """Write the predictions of a run; it counts as done once it is in the JSON file, too."""
        if self.folder is None:
            return
        test = split.test_columns
        weight = {} if test.weight is None else {"weight": test.weight}
        write_file(frame({"user": test.user, "item": test.item, **weight, **rows}), self._predictions(run))

    def _rows(self, run: Run, result: Evaluation) -> Rows | None:
        """Read the predictions of a run; where they are gone or broken it is to be run again."""
        path = self._predictions(run)
        try:
            names = [name for name in column_names(path) if name not in ("user", "item", "weight")]
            rows = {name: np.asarray(read_column(path, name), dtype=np.float64) for name in names}
        except DataError:
            return None
        whole = {"rating", "prediction"} <= rows.keys() and len(rows["rating"]) == result.data["n_test"]
        return rows if whole else None

    def write(self, result: Evaluation) -> None:
        """Write the JSON file, whole."""
        if self.path is None:
            return
        text = json_text(result.as_dict()) + "\n"
        write_whole(self.path, lambda file: file.write(text.encode()))

    def _predictions(self, run: Run) -> Path:
        assert self.folder is not None
        return self.folder / f"{run['model']}-{run['seed']}-{str(run.get('key'))[:8]}.parquet"
