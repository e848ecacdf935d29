"""Search on a validation part: against fits made one by one, in parallel, interrupted and resumed."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import cmtrf
from cmtrf import CMTRF, metrics, splits, tuning
from cmtrf.datasets import make_clustered
from cmtrf.errors import NotConvergedWarning, ParameterError
from cmtrf.tuning.grids import list_paths

GRID = {"n_scales": [1, "fixed"], "lambda": [4.0, 1.0, 16.0]}
MODEL = CMTRF(rank=2, max_sweeps=6, tol=0, random_state=0, progress=False)


@pytest.fixture(scope="module")
def whole():
    return splits.published(make_clustered(n_users=60, n_items=40, train_share=0.3, test_share=0.1))


@pytest.fixture(scope="module")
def split(whole):
    """What a search fits to, and what it judges by."""
    return whole.validation(0.25)


def scores(found):
    return [(trial.params, trial.score, trial.sweeps) for trial in found.trials]


class MeanRating(RegressorMixin, BaseEstimator):
    """A model that cannot start warm: predicts a mean and a constant; counts its fits."""

    n_fits = 0
    stop_at = None

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, table):
        type(self).n_fits += 1
        if type(self).n_fits == type(self).stop_at:
            raise KeyboardInterrupt
        self.mean_ = table.rating.mean()
        self.levels_ = np.unique(table.rating)
        return self

    def predict(self, pairs):
        return np.full(len(pairs), self.mean_ + self.shift)


@pytest.fixture(autouse=True)
def no_fits():
    MeanRating.n_fits, MeanRating.stop_at = 0, None


@pytest.mark.parametrize("metric", ["mse", "mae"])
def test_it_is_what_fits_made_by_hand_come_to(split, metric):
    """Path by path from the weakest lambda to the strongest, each fit started by the one before it."""
    found = tuning.search(MODEL, split, GRID, metric=metric, n_jobs=1)
    expected = []
    for n_scales in GRID["n_scales"]:
        earlier = None
        for strength in sorted(GRID["lambda"]):
            model = CMTRF(**{**MODEL.get_params(), "n_scales": n_scales, "lambda_u": strength, "lambda_v": strength})
            earlier = model.fit(split.train, start=earlier)
            error = getattr(metrics, metric)(split.test["rating"], model.predict(split.test))
            expected.append(({"n_scales": n_scales, "lambda": strength}, error, 6))
    assert scores(found) == expected
    assert found.best.score == min(error for _, error, _ in expected)
    assert found.best_params.keys() == {"n_scales", "lambda_u", "lambda_v"}
    assert found.best_params["lambda_u"] == found.best_params["lambda_v"] == found.best.params["lambda"]


def test_parallel_paths_come_to_the_same_bits(split):
    one, two = (tuning.search(MODEL, split, GRID, n_jobs=jobs) for jobs in (1, 2))
    assert scores(one) == scores(two)


def test_only_one_lambda_is_a_path(split):
    found = tuning.search(MODEL, split, {"lambda_u": [4.0, 1.0], "lambda_v": [9.0, 2.0]}, n_jobs=1)
    order = [(trial.params["lambda_u"], trial.params["lambda_v"]) for trial in found.trials]
    assert order == [(4.0, 2.0), (4.0, 9.0), (1.0, 2.0), (1.0, 9.0)]


def test_the_grid_of_the_paper():
    expected = [0.01, 10**-1.5, 0.1, 10**-0.5, 1, 10**0.5, 10, 10**1.5, 100]
    assert tuning.PAPER_GRID["lambda_u"] == pytest.approx(expected)
    assert tuning.PAPER_GRID["lambda_v"] == tuning.PAPER_GRID["lambda_u"]
    assert tuning.PAPER_N_SCALES == (2, 3, 5, 10, 20, 30, 50, 75, 100)


def test_a_path_is_left_after_values_that_are_worse(split):
    path = [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0]
    whole = tuning.search(MODEL, split, {"lambda": path}, n_jobs=1)
    errors = [trial.score for trial in whole.trials]
    best = int(np.argmin(errors))
    assert best + 2 < len(path) - 1  # else this says nothing
    left = tuning.search(MODEL, split, {"lambda": path}, patience=2, n_jobs=1)
    assert scores(left) == scores(whole)[: best + 3]


def test_the_test_part_is_not_looked_at(whole):
    """Of a split the train part is searched on, so whatever stands in test, the same is found."""
    test = whole.test.with_columns(rating=pl.lit(5, pl.Int64), item=pl.col("item") + 10_000)
    poisoned = splits.given(whole.train, test)
    found = [tuning.search(MODEL, each, GRID, share=0.2, n_jobs=1) for each in (whole, poisoned)]
    assert scores(found[0]) == scores(found[1])
    inner = whole.validation(0.2)
    assert scores(tuning.search(MODEL, inner, GRID, n_jobs=1)) == scores(found[0])
    pairs = set(whole.test.select("user", "item").rows())
    for part in inner:
        assert not pairs & set(part.select("user", "item").rows())


def test_a_table_is_split_uniformly(whole):
    expected = dataclasses.replace(splits.uniform(whole.train, 0.3), is_validation=True)
    found = tuning.search(MODEL, whole.train, GRID, share=0.3, n_jobs=1)
    assert scores(found) == scores(tuning.search(MODEL, expected, GRID, n_jobs=1))


def test_any_regressor_will_do(split):
    found = tuning.search(MeanRating(), split, {"shift": [-0.5, 0.0, 0.5]}, n_jobs=1)
    spread = np.mean((split.test["rating"].to_numpy() - split.train["rating"].mean()) ** 2)
    assert found.trials[1].score == pytest.approx(spread)
    assert found.trials[1].sweeps is None
    assert MeanRating.n_fits == 3
    assert found.table().columns == ["shift", "mse", "sweeps", "converged", "seconds"]


def test_what_was_found_as_a_table(split):
    found = tuning.search(MODEL, split, {**GRID, "lambda_bias": [(1.0, 2.0)]}, n_jobs=1)
    table = found.table()
    assert table.columns == ["n_scales", "lambda", "lambda_bias", "mse", "sweeps", "converged", "seconds"]
    assert table["n_scales"].to_list() == ["1"] * 3 + ["fixed"] * 3
    assert table["lambda_bias"].unique().to_list() == ["(1.0, 2.0)"]
    assert table["mse"].to_list() == [trial.score for trial in found.trials]
    assert repr(found).startswith("Search(6 trials, best mse 1.")


def test_a_best_value_at_the_end_of_its_list_is_told():
    def found(best, grid):
        trial = tuning.Trial(best, 1.0, 0.1)
        return tuning.Search([trial], "mse", grid).at_end

    assert found({"a": 1}, {"a": [1, 2, 3]}) == ("a",)
    assert found({"a": 2}, {"a": [3, 2, 1]}) == ()
    assert found({"a": 1}, {"a": [1, 2]}) == ()  # too short to have a middle
    assert found({"a": "x", "b": 3.0}, {"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}) == ("b",)
    pairs = [(a, b) for a in (1.0, 2.0, 3.0) for b in (1.0, 2.0, 3.0)]
    assert found({"a": (2.0, 2.0)}, {"a": pairs}) == ()
    assert found({"a": (2.0, 3.0)}, {"a": pairs}) == ("a",)


# Interrupted ------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_was_tried(split):
    MeanRating.stop_at = 3
    with pytest.raises(KeyboardInterrupt) as stopped:
        tuning.search(MeanRating(), split, {"shift": [0.5, 0.0, 1.0, 2.0]}, n_jobs=1)
    found = stopped.value.search
    assert [trial.params for trial in found.trials] == [{"shift": 0.5}, {"shift": 0.0}]
    assert found.best_params == {"shift": 0.0}


@pytest.mark.parametrize("stop_at", [1, 2, 3, 5, 6])
def test_an_interrupted_search_goes_on_to_the_same_bits(split, stop_at, tmp_path, monkeypatch):
    whole = tuning.search(MODEL, split, GRID, n_jobs=1)
    fits = []
    fit = CMTRF.fit

    @functools.wraps(fit)
    def count(self, *arguments, **options):
        fits.append(self)
        if len(fits) == stop_at:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(CMTRF, "fit", count)
    with pytest.raises(tuning.Interrupted):
        tuning.search(MODEL, split, GRID, n_jobs=1, store=tmp_path)
    found = tuning.search(MODEL, split, GRID, n_jobs=1, store=tmp_path)
    assert scores(found) == scores(whole)
    assert len(fits) == 6 + 1  # each once, and the one that was interrupted
    again = tuning.search(MODEL, split, GRID, n_jobs=1, store=tmp_path)
    assert scores(again) == scores(whole)
    assert len(fits) == 7
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}  # finished paths keep no model


def test_a_store_whose_model_is_gone_begins_the_path_again(split, tmp_path, monkeypatch):
    whole = tuning.search(MODEL, split, {"lambda": [1.0, 4.0]}, n_jobs=1, store=tmp_path)
    (file,) = tmp_path.glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text())[:1]))
    assert scores(tuning.search(MODEL, split, {"lambda": [1.0, 4.0]}, n_jobs=1, store=tmp_path)) == scores(whole)


def test_another_search_has_another_memory(split, tmp_path):
    tuning.search(MeanRating(), split, {"shift": [0.5]}, n_jobs=1, store=tmp_path)
    tuning.search(MeanRating(), split, {"shift": [0.5]}, n_jobs=1, store=tmp_path)
    assert MeanRating.n_fits == 1
    tuning.search(MeanRating(), split, {"shift": [0.6]}, n_jobs=1, store=tmp_path)
    tuning.search(MeanRating(), split.validation(), {"shift": [0.5]}, n_jobs=1, store=tmp_path)
    tuning.search(MeanRating(), split, {"shift": [0.5]}, n_jobs=1, store=tmp_path, metric="mae")
    assert MeanRating.n_fits == 4


def test_fits_that_do_not_settle_are_no_news_here(split):
    model = CMTRF(rank=1, max_sweeps=1, random_state=0)
    found = tuning.search(model, split, {"lambda": [1.0, 1e6]}, n_jobs=1)  # a warning would be an error
    assert [trial.converged for trial in found.trials] == [False, False]
    with pytest.warns(NotConvergedWarning):
        model.fit(split.train)


@pytest.mark.parametrize(
    ("grid", "options", "told"),
    [
        ({}, {}, "the grid is empty"),
        ({"lambda": []}, {}, "the grid is empty"),
        ({"lamda": [1]}, {}, "'lamda', which is no parameter of CMTRF"),
        ({"lambda": [1], "lambda_u": [2]}, {}, "pass it, or those two"),
        ({"lambda": [1]}, {"metric": "rmse"}, "metric='rmse'"),
        ({"lambda": [1]}, {"patience": 0}, "patience=0"),
        ({"solver": "joint"}, {}, "solver='joint': pass a list"),
        ({"rank": 3}, {}, "rank=3: pass a list"),
    ],
)
def test_a_grid_that_cannot_be_is_told(split, grid, options, told):
    with pytest.raises(ParameterError, match=told):
        tuning.search(MODEL, split, grid, **options)


def test_an_error_in_one_path_ends_the_others(split, monkeypatch):
    fits = []

    def fail(self, table):
        fits.append(self.shift)
        time.sleep(0.05)
        if self.shift == 0.0:
            raise RuntimeError("broken")
        return fit(self, table)

    fit = MeanRating.fit
    monkeypatch.setattr(MeanRating, "fit", fail)
    with pytest.raises(RuntimeError, match="broken"):
        tuning.search(MeanRating(), split, {"shift": [0.5, 0.0, 1.0, 2.0, 3.0, 4.0]}, n_jobs=2)
    n = len(fits)
    time.sleep(0.3)
    assert len(fits) == n < 6


def test_a_store_that_cannot_be_made_is_told(split, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="is a file, and a folder of that name is needed"):
        tuning.search(MeanRating(), split, {"shift": [0.5]}, store=tmp_path / "file")
    with pytest.raises(OSError, match="there is no folder"):
        tuning.search(MeanRating(), split, {"shift": [0.5]}, store=tmp_path / "no" / "folder")


def test_values_of_several_kinds(split):
    """A word is no place on a path, and no end of a list."""
    assert [[each["lambda"] for each in path] for path in list_paths({"lambda": ["auto", 4.0, 1.0]})] == [
        [1.0, 4.0],
        ["auto"],
    ]
    found = tuning.search(MODEL, split, {"lambda_bias": [(1.0, 2.0), 1.0], "n_scales": ["fixed"], "bias": [True]})
    assert found.at_end == ()


def test_ctrl_c_ends_threads_and_leaves_the_warnings_as_they_were(tmp_path):
    """A real signal in a process of its own, with two paths at once; then the search goes on to the same bits."""
    program = """
import json, os, signal, sys, threading, time, warnings
from cmtrf import CMTRF, splits, tuning
from cmtrf.datasets import make_clustered
split = splits.published(make_clustered(n_users=300, n_items=200, train_share=0.3))
model = CMTRF(rank=10, max_sweeps=40, tol=0, n_scales=4, random_state=0, progress=False)
grid = {"n_scales": [3, 4], "lambda": [1.0, 2.0, 4.0]}
whole = tuning.search(model, split, grid, n_jobs=2)
filters = list(warnings.filters)
def strike():
    while not list(os.scandir("store")):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
os.mkdir("store")
threading.Thread(target=strike).start()
try:
    tuning.search(model, split, grid, n_jobs=2, store="store")
    print("not interrupted")
except tuning.Interrupted as stopped:
    assert 1 <= len(stopped.search.trials) < 6, stopped.search
assert warnings.filters == filters
files = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir("store")}
time.sleep(1)
assert files == {entry.name: entry.stat().st_mtime_ns for entry in os.scandir("store")}
again = tuning.search(model, split, grid, n_jobs=2, store="store")
assert [(t.params, t.score) for t in again.trials] == [(t.params, t.score) for t in whole.trials]
print("done")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(cmtrf.__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
