"""What an evaluation has found: its runs, their summary, differences between models, as a table and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from cmtrf.evaluate.measure import MEASURES, Rows, losses
from cmtrf.metrics import paired_difference
from cmtrf.models.stored import package_version
from cmtrf.splits import Split
from cmtrf.tables.writing import frame

COSTS = ("seconds", "predict_seconds", "peak_mb")
LIBRARIES = ("numpy", "scipy", "numba", "polars", "scikit-learn")

Run = dict[str, Any]


@dataclass(repr=False)
class Evaluation:
    """What was run, and what came out; grows with each run.

    Attributes
    ----------
    data : dict
        The table, the split, how many rows are train, test, and cold.
    text : str
        The split in a sentence.
    score : str
        How errors are counted.
    runs : list of dict
        One record a model and seed.
    tuning : dict
        By model, what was chosen, and every trial behind it.
    paired : list of dict
        Differences of models from the first one on the same rows, with their standard errors over users.
    versions : dict
        Of what the result depends on.
    """

    data: dict[str, Any]
    text: str
    score: str
    runs: list[Run] = field(default_factory=list)
    tuning: dict[str, dict[str, Any]] = field(default_factory=dict)
    paired: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Mean of each measure over the seeds of a model, and as ``<measure>_spread`` its standard deviation."""
        models = dict.fromkeys(run["model"] for run in self.runs)
        return [average(model, [run for run in self.runs if run["model"] == model]) for model in models]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as it is written to JSON."""
        return {
            "data": self.data,
            "split": self.text,
            "score": self.score,
            "runs": self.runs,
            "summary": self.summary,
            "paired": self.paired,
            "tuning": self.tuning,
            "versions": self.versions,
        }

    def table(self) -> Any:
        """Summary as a polars frame: one row a model."""
        summary = self.summary
        texts = {name: np.array([row[name] for row in summary], dtype=object) for name in ("model", "n_runs")}
        numbers = list(summary[0])[2:] if summary else []
        return frame(texts | {name: np.array([row[name] for row in summary], dtype=np.float64) for name in numbers})

    def __repr__(self) -> str:
        """Say what was run; `table` has the numbers."""
        models = ", ".join(f"{row['model']} ({row['n_runs']})" for row in self.summary)
        return f"Evaluation({models or 'no run'}; {self.text})"


def average(model: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Mean and spread of each number over runs; None where one of them has none."""
    row: dict[str, Any] = {"model": model, "n_runs": len(runs)}
    for name in (*MEASURES, *COSTS):
        values = [run[name] for run in runs]
        complete = all(value is not None for value in values)
        row[name] = float(np.mean(values)) if complete else None
        row[f"{name}_spread"] = float(np.std(values, ddof=1)) if complete and len(values) > 1 else None
    return row


def compare(rows: Mapping[str, Sequence[Rows]], first: str, split: Split) -> Iterable[dict[str, Any]]:
    """Differences of each model from the first on the same rows, the seeds of a model averaged row by row.

    Where some rows are cold, the squared error is compared on the others alone, too (``mse_known``).
    """
    test, known = split.test_columns, ~split.cold
    mean = {name: _mean_losses(each) for name, each in rows.items()}
    for name in rows:
        for measure in [each for each in mean[first] if each in mean[name] and name != first]:
            own, other = mean[name][measure], mean[first][measure]
            if np.isfinite(own).all() and np.isfinite(other).all():
                parts: dict[str, Any] = {measure: slice(None)}
                if measure == "mse" and 0 < known.mean() < 1:
                    parts["mse_known"] = known
                for label, part in parts.items():
                    weight = None if test.weight is None else test.weight[part]
                    found = paired_difference(test.user[part], own[part], other[part], weight)
                    yield {"model": name, "against": first, "measure": label, **found._asdict()}


def _mean_losses(seeds: Sequence[Rows]) -> Rows:
    each = [losses(rows) for rows in seeds]
    return {name: np.mean([found[name] for found in each], axis=0) for name in each[0]}


def list_versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    ours = {"cmtrf": package_version(), "python": platform.python_version(), "machine": platform.machine()}
    return ours | {name: metadata.version(name) for name in LIBRARIES}
