"""Evaluation: every number checked by another library, no test row in any fit, nothing run twice, nothing lost."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.metrics as judge
from sklearn.base import BaseEstimator, RegressorMixin

import cmtrf
from cmtrf import CMTRF, metrics, splits, tuning
from cmtrf.cli.evaluate import _cell, show
from cmtrf.cli.main import app
from cmtrf.datasets import make_clustered
from cmtrf.errors import DataError, DataWarning, MissingFileError, OutputError, ParameterError
from cmtrf.evaluate import MODELS, evaluate
from cmtrf.evaluate.measure import MEASURES, measure
from cmtrf.evaluate.memory import peak_memory
from cmtrf.evaluate.models import DEFAULT, Entry
from cmtrf.splits.protocol import PAPER
from problems import shared_data

KNOWN_MODELS = dict(MODELS)
SMALL = {"models": ["small", "bias"], "n_jobs": 1, "progress": False}


@pytest.fixture(autouse=True)
def models(monkeypatch):
    """Quick ones: adding a model is one line."""
    small = functools.partial(CMTRF, n_scales=2, rank=2, max_sweeps=8, tol=0)
    monkeypatch.setitem(MODELS, "small", Entry(small, {"lambda": (1.0, 4.0, 16.0)}))
    bias = functools.partial(CMTRF, n_scales="fixed", rank=0, bias=True)
    monkeypatch.setitem(MODELS, "bias", Entry(bias, {"lambda_bias": ((1.0, 1.0), (3.0, 3.0))}))
    monkeypatch.setitem(MODELS, "levels", Entry(LevelShares))


class LevelShares(RegressorMixin, BaseEstimator):
    """Each item's shares of levels, with one rating of each level added: a model that gives probabilities."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, table):
        self.levels_ = np.unique(table.rating)
        self.items_, item = np.unique(table.item, return_inverse=True)
        self.shares_ = np.ones((len(self.items_) + 1, len(self.levels_)))
        weight = 1 if table.weight is None else table.weight
        np.add.at(self.shares_, (item, np.searchsorted(self.levels_, table.rating)), weight)
        self.shares_ /= self.shares_.sum(1, keepdims=True)
        return self

    def predict_proba(self, table):
        place = np.minimum(np.searchsorted(self.items_, table.item), len(self.items_) - 1)
        return self.shares_[np.where(self.items_[place] == table.item, place, -1)]

    def predict(self, table, kind="mean"):
        proba = self.predict_proba(table)
        if kind == "median":
            return self.levels_[(proba.cumsum(1) < 0.5).sum(1)]
        return proba @ self.levels_

    def predict_interval(self, table, coverage):
        n = len(table.user)
        return np.column_stack([np.full(n, self.levels_[0]), np.full(n, self.levels_[-2])])


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    table = make_clustered(n_users=80, n_items=40, train_share=0.4, test_share=0.1, n_scales=2).drop("part")
    return table.with_columns(timestamp=pl.Series(rng.permutation(table.height)))


def predictions(path: Path, model: str, seed: int = 0) -> pl.DataFrame:
    (file,) = path.with_name(f"{path.stem}.parts").glob(f"{model}-{seed}-*.parquet")
    return pl.read_parquet(file)


# The numbers ------------------------------------------------------------------------------------------------


def slow_ndcg(users, truth, predicted):
    """User by user, those left out whose items are as good in any order."""
    found = []
    for user in np.unique(users):
        r, p = truth[users == user], predicted[users == user]
        weight = np.where(np.arange(len(r)) < 10, 1 / np.log2(np.maximum(np.arange(len(r)) + 1, 2)), 0)
        ideal, least = (weight @ np.sort(r)[::step] for step in (-1, 1))
        by_score = np.sort(p)[::-1]
        shown = sum(gain * weight[by_score == score].mean() for gain, score in zip(r, p, strict=True))
        if least < ideal - 1e-9:
            found.append(shown / ideal)
    assert 0 < len(found) < len(np.unique(users))
    return np.mean(found)


def test_every_number_can_be_checked_from_the_predictions(table, tmp_path):
    path = tmp_path / "out.json"
    result = evaluate(table, output=path, seeds=2, **{**SMALL, "models": ["small", "bias", "levels"]})
    split = splits.chronological(table)
    for run in result.runs:
        rows = predictions(path, run["model"], run["seed"])
        assert rows.select("user", "item", "rating").equals(split.test.select("user", "item", pl.col("rating") * 1.0))
        truth, predicted = rows["rating"].to_numpy(), rows["prediction"].to_numpy()
        mse = judge.mean_squared_error(truth, predicted)
        rounded = [[1, 2, 3, 4, 5][int(np.argmin(np.abs(np.arange(1, 6) - value)))] for value in predicted]
        known = ~split.cold
        expected = {
            "mse": mse,
            "rmse": np.sqrt(mse),
            "mae": judge.mean_absolute_error(truth, predicted),
            "mae_rounded": judge.mean_absolute_error(truth, rounded),
            "ndcg_10": slow_ndcg(rows["user"].to_numpy(), truth, predicted),
            "kendall_tau": metrics.kendall_tau(rows["user"], truth, predicted),
            "mse_known": judge.mean_squared_error(truth[known], predicted[known]),
            "mae_known": judge.mean_absolute_error(truth[known], predicted[known]),
        }
        assert {name: run[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        if run["model"] == "levels":
            assert run["mae_median"] == pytest.approx(judge.mean_absolute_error(truth, rows["median"]))
            model = LevelShares().fit(split.train_columns)
            loss = judge.log_loss(truth, model.predict_proba(split.test_columns), labels=model.levels_)
            assert run["log_loss"] == pytest.approx(loss) == pytest.approx(rows["log_loss"].mean())
            assert run["coverage"] == pytest.approx((truth <= 4).mean())
            assert run["coverage_predicted"] == pytest.approx(
                1 - LevelShares().fit(split.train_columns).predict_proba(split.test_columns)[:, -1].mean()
            )
        else:
            none = ("mae_median", "log_loss", "coverage", "coverage_predicted")
            assert {run[name] for name in none} == {None}


def test_the_runs_are_what_fits_made_by_hand_come_to(table):
    result = evaluate(table, seeds=2, **SMALL)
    split = splits.chronological(table)
    for run in result.runs[:2]:
        model = CMTRF(n_scales=2, rank=2, max_sweeps=8, tol=0, random_state=run["seed"], **run["params"])
        predicted = model.fit(split.train).predict(split.test)
        assert run["mse"] == metrics.mse(split.test["rating"], predicted)
    model = CMTRF(n_scales=2, rank=2, max_sweeps=8, tol=0, random_state=0)
    found = tuning.search(model, split, MODELS["small"].grid, patience=2, n_jobs=1)
    assert scores(result, "small") == (found.best_params, [(trial.params, trial.score) for trial in found.trials])
    assert result.runs[0]["params"] == result.runs[1]["params"] == found.best_params  # chosen once
    assert result.runs[0]["mse"] != result.runs[1]["mse"]
    first, second = (run["mse"] for run in result.runs[:2])
    assert result.summary[0]["mse"] == pytest.approx((first + second) / 2)
    assert result.summary[0]["mse_spread"] == pytest.approx(abs(first - second) / np.sqrt(2))
    assert result.summary[1]["mse_spread"] == 0  # a model without random numbers


def test_differences_are_of_the_same_rows(table, tmp_path):
    path = tmp_path / "out.json"
    result = evaluate(table, output=path, seeds=2, **SMALL)
    (found,) = result.paired
    rows = {
        model: np.mean(
            [((r := predictions(path, model, seed))["rating"] - r["prediction"]) ** 2 for seed in (0, 1)], axis=0
        )
        for model in ("small", "bias")
    }
    users = predictions(path, "bias")["user"]
    expected = metrics.paired_difference(users, rows["bias"], rows["small"])
    assert (found["model"], found["against"], found["measure"]) == ("bias", "small", "mse")
    assert found["difference"] == pytest.approx(expected.difference)
    assert found["standard_error"] == pytest.approx(expected.standard_error)
    means = [row["mse"] for row in result.summary]
    assert found["difference"] == pytest.approx(means[1] - means[0])


def test_differences_of_rows_that_are_not_cold(table):
    late = table.with_columns(user=pl.when(pl.col("timestamp") > 1500).then(pl.col("timestamp")).otherwise("user"))
    result = evaluate(late, **{**SMALL, "models": ["bias", "levels"]})
    found = {each["measure"]: each for each in result.paired}
    assert found.keys() == {"mse", "mse_known"}
    for name, each in found.items():
        first, second = (row[name] for row in result.summary)
        assert each["difference"] == pytest.approx(second - first)
    assert found["mse_known"]["n_users"] < found["mse"]["n_users"]


def test_the_papers_counting(table):
    """Not clipped; rows of users with one level in train add nothing to the sum, and are counted by the divisor."""
    lone = table.filter(pl.col("user") % 4 > 0)
    alike = table.filter(pl.col("user") % 4 == 0).with_columns(rating=pl.lit(5, pl.Int64))
    split = splits.uniform(pl.concat([lone, alike]))
    truth, users = split.test["rating"].to_numpy(), split.test["user"].to_numpy()
    one_level = {user for user, n in split.train.group_by("user").agg(pl.col("rating").n_unique()).rows() if n == 1}
    assert one_level
    for n_scales, leaves_out in (("fixed", False), (1, False), (3, True), ("user", True)):
        model = CMTRF(n_scales=n_scales, rank=2, max_sweeps=5, tol=0, lambda_u=0.1, lambda_v=0.1, random_state=0)
        model.fit(split.train)
        straight = np.array([extrapolated(model, *pair) for pair in split.test.select("user", "item").rows()])
        assert straight.max() > 5.01
        counted = np.array([not (leaves_out and user in one_level) for user in users])
        values, rows = measure(model, split, "paper")
        assert rows["prediction"] == pytest.approx(straight, abs=1e-3)
        assert values["mse"] == pytest.approx((counted * (truth - straight) ** 2).sum() / len(truth), rel=1e-4)
        assert values["mae"] == pytest.approx((counted * np.abs(truth - straight)).sum() / len(truth), rel=1e-4)
        assert values["kendall_tau"] == pytest.approx(metrics.kendall_tau(users, truth, rows["prediction"]))
        clipped, _ = measure(model, split, "all")
        assert clipped["mae_rounded"] == values["mae_rounded"]
        assert clipped["mse"] == pytest.approx(np.mean((truth - np.clip(straight, 1, 5)) ** 2), rel=1e-4)


def extrapolated(model, user, item):
    """Straight lines through the positions of the user's scale, the ends going on."""
    i, j = np.searchsorted(model.users_, user), np.searchsorted(model.items_, item)
    score = float(model.user_factors_[i].astype(float) @ model.item_factors_[j].astype(float))
    x = model.scales_[model.user_scale_[i]]
    k = int(np.clip(np.searchsorted(x, score) - 1, 0, len(x) - 2))
    share = (score - x[k]) / (x[k + 1] - x[k])
    return model.levels_[k] + share * (model.levels_[k + 1] - model.levels_[k])


def test_a_test_rating_at_a_level_that_train_lacks_has_no_log_loss(table, caplog):
    train, test = splits.uniform(table)
    split = splits.given(train.filter(pl.col("rating") > 1), test)
    values, _ = measure(LevelShares().fit(split.train_columns), split)
    assert values["log_loss"] is None
    assert values["mse"] > 0
    n = (test["rating"] == 1).sum()
    assert f"{n} test ratings are at levels that train lacks" in caplog.text
    assert "state the whole scale with levels=" in caplog.text


# No test row in any fit -------------------------------------------------------------------------------------


def test_no_test_row_reaches_a_fit(table, monkeypatch):
    seen = []
    fit = CMTRF.fit

    @functools.wraps(fit)
    def watch(self, X, *arguments, **options):
        seen.append(set(zip(X.user.tolist(), X.item.tolist(), strict=True)))
        return fit(self, X, *arguments, **options)

    monkeypatch.setattr(CMTRF, "fit", watch)
    for way in ("chronological", "uniform", "user"):
        seen.clear()
        evaluate(table, split=way, seeds=2, **SMALL)
        ways = {"chronological": splits.chronological, "uniform": splits.uniform, "user": splits.user_wise}
        test = set(ways[way](table).test.select("user", "item").rows())
        assert len(seen) == 3 + 2 + 2 * 2  # what is tuned, and both seeds of both models
        assert not any(rows & test for rows in seen)


@pytest.mark.parametrize("way", ["chronological", "uniform", "user"])
def test_a_poisoned_test_part_changes_no_prediction(table, way, tmp_path):
    """Ratings of the test part turned upside down, to levels that train does not have: the same bits are predicted."""
    ways = {"chronological": splits.chronological, "uniform": splits.uniform, "user": splits.user_wise}
    test = ways[way](table).test.with_columns(poisoned=pl.lit(True))
    poisoned = table.join(test.select("user", "item", "poisoned"), on=["user", "item"], how="left").with_columns(
        rating=pl.when("poisoned").then(106 - pl.col("rating")).otherwise(pl.col("rating"))
    )
    assert poisoned["rating"].max() > 100
    honest = evaluate(table, split=way, output=tmp_path / "honest.json", **SMALL)
    other = evaluate(poisoned.drop("poisoned"), split=way, output=tmp_path / "poisoned.json", **SMALL)
    for model in SMALL["models"]:
        columns = [predictions(tmp_path / f"{name}.json", model)["prediction"] for name in ("honest", "poisoned")]
        assert columns[0].equals(columns[1])
        assert scores(honest, model) == scores(other, model)
    assert other.runs[0]["mse"] > 1000  # the poison arrived where it should


def scores(result, model):
    found = result.tuning[model]
    return found["params"], [(trial["params"], trial["score"]) for trial in found["trials"]]


@pytest.mark.parametrize("way", ["given", "published", "paper"])
def test_a_poisoned_test_part_changes_nothing_where_the_parts_are_given(table, way, tmp_path, monkeypatch):
    monkeypatch.setitem(PAPER, "ml-100k", PAPER["ml-100k"]._replace(n_train=1200))
    results = {}
    for poisoned in (False, True):
        train, test = splits.chronological(table, 0.25)
        if poisoned:
            test = test.with_columns(rating=106 - pl.col("rating"))
        whole = pl.concat([train.with_columns(part=pl.lit("train")), test.with_columns(part=pl.lit("test"))])
        path = tmp_path / f"{poisoned}.json"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the paper's table has other counts
            if way == "given":
                result = evaluate(train, test=test, output=path, **SMALL)
            elif way == "published":
                result = evaluate(whole, split="published", output=path, **SMALL)
            else:
                result = evaluate(whole, split="paper", known_set="ml-100k", output=path, **SMALL)
        results[poisoned] = [scores(result, name) for name in SMALL["models"]]
        results[poisoned] += [predictions(path, name)["prediction"].to_list() for name in SMALL["models"]]
    assert results[False] == results[True]


def test_a_test_part_that_is_in_train_is_refused(table):
    test = splits.uniform(table).test
    first = f"user {test['user'][0]}, item {test['item'][0]}"
    with pytest.raises(
        DataError, match=rf"320 of 320 test rows have a user and item .* row 0 of the table \({first}\)"
    ):
        evaluate(table, test=test, **SMALL)
    again = pl.concat([table, table.head(3)]).with_columns(part=pl.Series(["train"] * 1600 + ["test"] * 3))
    with pytest.raises(DataError, match="3 of 3 test rows"):
        evaluate(again, split="published", **SMALL)
    assert evaluate(table, test=test, duplicates="keep", **SMALL).data["n_test"] == 320


# Weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["uniform", "published", "given"])
def test_a_weight_counts_as_that_many_rows_everywhere(table, way, tmp_path):
    """Weights 0, 1 and 2 against a table with the rows left out and repeated: choices, measures and differences."""
    table = table.drop("timestamp").with_columns(w=pl.Series(np.random.default_rng(0).integers(0, 3, 1600)))
    part = pl.Series(np.where(np.arange(1600) % 4 == 0, "test", "train"))
    weighted = table.with_columns(part=part)
    repeated = weighted.select(pl.exclude("w").repeat_by("w").explode(empty_as_null=False, keep_nulls=False))
    results = []
    for rows, options in ((weighted, {"weight": "w"}), (repeated, {"duplicates": "keep"})):
        tables = {"table": rows, "split": way}
        if way == "given":
            train, test = (rows.filter(part=name) for name in ("train", "test"))
            tables = {"table": train, "test": test}
        elif way == "uniform":
            tables["table"] = rows.drop("part")
        results.append(evaluate(**tables, **options, **{**SMALL, "models": ["bias", "levels"]}))
    one, other = results
    assert one.data["n_test"] < other.data["n_test"]
    for a, b in zip(one.runs, other.runs, strict=True):
        assert a["params"] == b["params"]
        names = ["mse", "rmse", "mae", "mae_rounded", "mse_known", "mae_known"]
        if a["model"] == "levels":
            names += ["log_loss", "coverage", "mae_median"]
        assert [a[name] for name in names] == pytest.approx([b[name] for name in names], rel=1e-4)
    trials = [[trial["score"] for trial in each.tuning["bias"]["trials"]] for each in results]
    assert trials[0] == pytest.approx(trials[1], rel=1e-4)
    differences = [[each["difference"] for each in result.paired] for result in results]
    assert differences[0] == pytest.approx(differences[1], rel=1e-2, abs=1e-5)


# On disk ----------------------------------------------------------------------------------------------------


@pytest.fixture
def fits(monkeypatch):
    """Parameters of every fit, and at which of them Ctrl-C comes."""
    made = []
    fit = CMTRF.fit

    @functools.wraps(fit)
    def count(self, *arguments, **options):
        made.append(self.get_params())
        if len(made) == made_stop.get("at"):
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    made_stop: dict[str, int] = {}
    monkeypatch.setattr(CMTRF, "fit", count)
    return made, made_stop


def numbers(result):
    """All that does not depend on the clock."""
    return [
        (run["model"], run["seed"], [run[name] for name in MEASURES], np.ravel([*run["params"].values()]).tolist())
        for run in result.runs
    ]


def test_rerunning_does_only_what_is_missing(table, tmp_path, fits):
    path, (made, _) = tmp_path / "out.json", fits
    first = evaluate(table, output=path, **SMALL)
    n = len(made)
    assert n == 3 + 2 + 2
    again = evaluate(table, output=path, **SMALL)
    assert len(made) == n
    assert again.as_dict() == json.loads(path.read_text())
    assert numbers(again) == numbers(first)
    more = evaluate(table, output=path, seeds=3, **SMALL)
    assert len(made) == n + 4  # two more seeds of both; nothing is tuned again
    assert [(run["model"], run["seed"]) for run in more.runs] == [(m, s) for m in ("small", "bias") for s in range(3)]
    evaluate(table, output=path, seeds=3, **{**SMALL, "models": ["levels", "small"]})
    assert len(made) == n + 4
    next(path.with_name("out.parts").glob("bias-1-*.parquet")).unlink()
    evaluate(table, output=path, seeds=3, **SMALL)
    assert len(made) == n + 5
    evaluate(table, output=path, fresh=True, **SMALL)
    assert len(made) == n + 5 + n


@pytest.mark.parametrize("at", range(1, 10))
def test_an_interrupt_loses_nothing(table, tmp_path, fits, at):
    path, (made, stop) = tmp_path / "out.json", fits
    whole = evaluate(table, seeds=2, **SMALL)
    made.clear()
    stop["at"] = at
    with pytest.raises(
        KeyboardInterrupt, match=r"out\.json keeps (what was tuned|\d finished runs?); the same call goes on"
    ):
        evaluate(table, seeds=2, output=path, **SMALL)
    finished = evaluate(table, seeds=2, output=path, **SMALL)
    assert len(made) == 3 + 2 + 4 + 1  # each once, and the one that was interrupted
    assert numbers(finished) == numbers(whole)
    assert [each["difference"] for each in finished.paired] == [each["difference"] for each in whole.paired]
    assert {file.suffix for file in path.with_name("out.parts").iterdir()} == {".json", ".parquet"}


def test_an_interrupt_without_a_file_says_what_is_lost(table, fits):
    _, stop = fits
    stop["at"] = 6
    with pytest.raises(KeyboardInterrupt, match="nothing is kept of what was tuned and of 1 finished run") as stopped:
        evaluate(table, **SMALL)
    assert len(stopped.value.result.runs) == 1


@pytest.mark.parametrize("broken", ["path", "predictions"])
def test_what_is_broken_in_the_folder_is_made_again(table, tmp_path, broken):
    path = tmp_path / "out.json"
    first = evaluate(table, output=path, **SMALL)
    if broken == "path":
        path.unlink()
    pattern = "path-*.json" if broken == "path" else "small-0-*.parquet"
    next(path.with_name("out.parts").glob(pattern)).write_bytes(b"PAR1 no more")
    assert numbers(evaluate(table, output=path, **SMALL)) == numbers(first)


@pytest.mark.parametrize(
    "content", [b"3", b'{"a": 1}', b'[{"x": 1}]', b'[{"params": {}, "score": null, "seconds": 1}]', b"{"]
)
def test_a_search_of_another_form_is_made_again(table, tmp_path, content):
    path = tmp_path / "out.json"
    first = evaluate(table, output=path, **SMALL)
    path.unlink()
    for file in path.with_name("out.parts").glob("path-*.json"):
        file.write_bytes(content)
    assert numbers(evaluate(table, output=path, **SMALL)) == numbers(first)


def test_predictions_of_another_form_are_made_again(table, tmp_path):
    path = tmp_path / "out.json"
    first = evaluate(table, output=path, **SMALL)
    for change in (lambda rows: rows.head(5), lambda rows: rows.drop("prediction")):
        file = next(path.with_name("out.parts").glob("small-0-*.parquet"))
        change(pl.read_parquet(file)).write_parquet(file)
        assert numbers(evaluate(table, output=path, **SMALL)) == numbers(first)
    (path.with_name("out.parts") / "my-own-data.parquet").write_bytes(b"mine")
    evaluate(table, output=path, fresh=True, **SMALL)
    assert (path.with_name("out.parts") / "my-own-data.parquet").read_bytes() == b"mine"


@pytest.mark.parametrize("way", ["published", "given"])
def test_repeated_pairs_are_settled_in_each_part(table, way):
    train, test = splits.uniform(table)
    train, test = (pl.concat([part, part.head(7).with_columns(rating=6 - pl.col("rating"))]) for part in (train, test))
    whole = pl.concat([train.with_columns(part=pl.lit("train")), test.with_columns(part=pl.lit("test"))])
    tables = {"table": train, "test": test} if way == "given" else {"table": whole, "split": "published"}
    tables = {name: each.drop("timestamp") if name != "split" else each for name, each in tables.items()}
    with pytest.raises(DataError, match=r"twice: .* \(7 repeats in all\)"):
        evaluate(**tables, **SMALL)
    found = {each: evaluate(**tables, duplicates=each, **SMALL).data for each in ("first", "last", "keep")}
    assert [(data["n_train"], data["n_test"]) for data in found.values()] == [(1280, 320), (1280, 320), (1287, 327)]


def test_a_third_value_in_part_is_told(table):
    parts = table.with_columns(part=pl.Series(["train", "test", "valid", "train"] * 400))
    with pytest.raises(DataError, match="column 'part' holds 'valid'"):
        evaluate(parts, **SMALL)
    assert evaluate(parts.with_columns(part=pl.lit("wheel")), **SMALL).text.startswith("chronological")


def test_a_model_without_medians_has_none(table, monkeypatch):
    class NoMedian(LevelShares):
        def predict(self, table):
            return super().predict(table)

    split = splits.uniform(table)
    values, rows = measure(NoMedian().fit(split.train_columns), split)
    assert values["mae_median"] is None
    assert "median" not in rows
    assert values["log_loss"] > 0


def test_results_of_something_else_are_not_overwritten(table, tmp_path):
    path = tmp_path / "out.json"
    evaluate(table, output=path, **SMALL)
    before = path.read_bytes()
    for change in ({"split": "uniform"}, {"score": "paper"}, {"test_share": 0.3}):
        with pytest.raises(DataError, match="holds results of another table, split or way of counting"):
            evaluate(table, output=path, **{**SMALL, **change})
    with pytest.raises(DataError, match="another table"):
        evaluate(table.head(500), output=path, **SMALL)
    assert path.read_bytes() == before
    assert evaluate(table, output=path, score="paper", fresh=True, **SMALL).score == "paper"
    path.write_text('{"runs": 3}')
    for fresh in (False, True):
        with pytest.raises(DataError, match="is no result of an evaluation"):
            evaluate(table, output=path, fresh=fresh, **SMALL)
    assert path.read_text() == '{"runs": 3}'
    with pytest.raises(MissingFileError, match="no folder"):
        evaluate(table, output=tmp_path / "no" / "out.json", **SMALL)


def test_what_was_made_with_other_settings_is_not_lost(table, tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    evaluate(table, output=path, **SMALL)
    before = path.read_bytes()
    with pytest.raises(DataError, match="holds results of bias, small with other settings"):
        evaluate(table, output=path, levels=[1, 2, 3, 4, 5, 6], **SMALL)
    monkeypatch.setitem(MODELS, "bias", Entry(MODELS["bias"].make, {"lambda_bias": ((2.0, 2.0),)}))
    with pytest.raises(DataError, match="holds results of bias with other settings"):
        evaluate(table, output=path, **{**SMALL, "models": ["small"]})
    assert path.read_bytes() == before


def test_choices_made_on_another_validation_part_are_not_taken_over(table, tmp_path):
    parts = table.with_columns(part=pl.Series(["train", "train", "test"] * 533 + ["train"]))
    path = tmp_path / "out.json"
    evaluate(splits.published(parts, random_state=1), output=path, **SMALL)
    with pytest.raises(DataError, match="holds results of bias, small with other settings"):
        evaluate(splits.published(parts, random_state=2), output=path, **SMALL)


def test_an_infinite_loss_comes_back(table, tmp_path, monkeypatch):
    class Sure(LevelShares):
        def predict_proba(self, table):
            return np.eye(len(self.levels_))[np.zeros(len(table.user), int)]

    monkeypatch.setitem(MODELS, "sure", Entry(Sure))
    options = {**SMALL, "models": ["sure", "levels"], "output": tmp_path / "out.json"}
    first, again = (evaluate(table, **options) for _ in range(2))
    assert first.runs[0]["log_loss"] == again.runs[0]["log_loss"] == np.inf
    assert [each["measure"] for each in again.paired] == ["mse"]  # a difference from infinity says nothing
    assert first.as_dict() == again.as_dict()


# The table and its split ------------------------------------------------------------------------------------


def test_how_a_table_is_split_where_nothing_is_said(table, tmp_path):
    def text(*arguments, **options):
        return evaluate(*arguments, **{**SMALL, "models": ["bias"]}, **options).text

    assert text(table).startswith("chronological: ")
    assert text(table.drop("timestamp")).startswith("uniform: ")
    train, test = splits.uniform(table)
    assert text(train, test=test).startswith(f"two tables: {train.height:,} train rows, {test.height} test rows")
    assert text(splits.uniform(table, 0.4)).startswith("uniform: 960 train rows, 640")
    parts = table.with_columns(part=pl.Series(["train", "train", "test"] * 533 + ["train"]))
    for way in ("auto", "published"):
        assert text(parts, split=way).startswith("published: 1,067 train rows, 533 test rows")
    repeated = pl.concat([table, table.head(9).with_columns(timestamp=pl.col("timestamp") + 5000)])
    assert text(repeated, duplicates="last", split="uniform").startswith("uniform: 1,280 train rows, 320 test rows")
    with pytest.raises(DataError, match=r"twice: row 0 of the table and row 1600 of the table \(9 repeats"):
        evaluate(repeated, **SMALL)


def test_words_are_judged_as_their_numbers(table):
    words = ["bad", "poor", "fair", "good", "great"]
    worded = table.with_columns(rating=pl.col("rating").map_elements(lambda k: words[k - 1], pl.String))
    plain = evaluate(table, **SMALL, levels=[1, 2, 3, 4, 5])
    told = evaluate(worded, **SMALL, levels=words)
    assert [run["mse"] for run in told.runs] == pytest.approx([run["mse"] for run in plain.runs])


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_a_known_set_is_found_by_its_files(tmp_path, table):
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    table.write_csv(folder / "u.data", separator="\t", include_header=False)
    result = evaluate(folder, **SMALL)
    assert (result.data["set"], result.data["release"]) == ("ml-100k", None)
    assert evaluate(folder / "u.data", known_set="ml-100k", **SMALL).data["set"] == "ml-100k"
    assert evaluate(folder / "u.data", **SMALL).data["set"] is None
    for path in (folder, folder / "u.data"):
        with pytest.raises(DataError, match="80,000 train rows; this table has 1,600"):
            evaluate(path, split="paper", **SMALL)
    assert result.data["files"] == [str(folder / "u.data")]
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="no archive or folder of a set that is known by its files"):
        evaluate(tmp_path / "other", **SMALL)


def test_where_validation_is_all_cold_lambdas_are_chosen_on_a_uniform_part(table, caplog):
    late = table.with_columns(user=pl.when(pl.col("timestamp") > 1100).then(pl.col("timestamp")).otherwise("user"))
    result = evaluate(late, **SMALL)
    assert "cut uniformly, not as the test part was: every row of it is cold" in caplog.text
    assert len(caplog.records) == 1
    assert result.tuning["small"]["validation"].startswith("uniform: ")


def test_where_nobody_has_enough_ratings_for_a_share_the_validation_part_is_uniform(table, caplog):
    few = table.sample(fraction=1, shuffle=True, seed=0).group_by("user", maintain_order=True).head(4)
    result = evaluate(few, split="user", **{**SMALL, "models": ["bias"]})
    assert "cut uniformly, not as the test part was: the user-wise, validation split" in caplog.text
    assert result.tuning["bias"]["validation"].startswith("uniform: ")


def test_levels_that_are_digits_in_another_order(table):
    """5 is the worst, as in school marks: words stay words."""
    marks = table.to_pandas().assign(rating=lambda t: (6 - t["rating"]).astype(str))
    marks["rating"] = marks["rating"].astype(pd.CategoricalDtype(["5", "4", "3", "2", "1"], ordered=True))
    told = evaluate(marks, **SMALL)
    plain = evaluate(table, **SMALL)
    assert [run["mse"] for run in told.runs] == pytest.approx([run["mse"] for run in plain.runs])


def test_ratings_of_the_test_part_are_looked_at_before_any_fit(table, fits, tmp_path):
    train, test = splits.uniform(table)
    with pytest.raises(DataError, match="in the test part, column 'rating', row 0 of the table: 'x' is a word"):
        evaluate(train, test=test.with_columns(rating=pl.lit("x")), **SMALL)
    (tmp_path / "out.parts").write_text("")
    with pytest.raises(OutputError, match="is a file, and a folder of that name is needed"):
        evaluate(table, output=tmp_path / "out.json", **SMALL)
    assert fits[0] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"models": ["nobody"]}, "there is no model 'nobody'; there are point, mf, biased-mf, bias"),
        ({"models": []}, "no model is named"),
        ({"seeds": 0}, "seeds=0"),
        ({"score": "half"}, "score='half'"),
        ({"split": "half"}, "split='half'"),
        ({"split": "paper"}, "say which one the table is"),
        ({"known_set": "netflix"}, "there is no set 'netflix'"),
        ({"fresh": True}, "nothing to start over without output="),
        ({"split": "uniform", "test": "x"}, "a test part of its own: pass one of them"),
    ],
)
def test_what_cannot_be_evaluated_is_told(table, options, told):
    with pytest.raises(ParameterError, match=told):
        evaluate(table, **options)


@pytest.mark.parametrize(
    "options", [{"test": 1}, {"split": "uniform"}, {"known_set": "ml-1m"}, {"user": "reader"}], ids=str
)
def test_a_split_takes_no_more_words_on_how_to_split(table, options):
    with pytest.raises(ParameterError, match="the table is split already"):
        evaluate(splits.uniform(table), **options)


def test_the_models_that_are_known_run(table, monkeypatch):
    """All entries, as they are but for their grids, on little data."""
    for name, entry in KNOWN_MODELS.items():
        grid = {key: values[:1] for key, values in entry.grid.items()}
        monkeypatch.setitem(MODELS, name, Entry(entry.make, grid))
    result = evaluate(table.head(900), models=list(KNOWN_MODELS), score="paper", n_jobs=1)
    assert [run["model"] for run in result.runs] == list(KNOWN_MODELS)
    assert all(0 < run["mse"] < 10 for run in result.runs)
    assert set(DEFAULT) <= KNOWN_MODELS.keys()


def test_peak_memory_is_that_of_the_block():
    with peak_memory() as before:
        pass
    with peak_memory() as inside:
        np.ones(40_000_000)
    with peak_memory() as after:
        pass
    assert inside[0] - before[0] > 250  # 320 MB, less what was free
    if sys.platform == "linux":
        assert inside[0] - after[0] > 250


@pytest.mark.data
def test_the_papers_split_end_to_end():
    archive = shared_data("ml-100k.zip")
    result = evaluate(archive, split="paper", models=["bias"])
    assert result.data["release"] == "MovieLens 100K, u.data"
    assert (result.data["n_train"], result.data["n_test"], result.data["n_left_out"]) == (80_000, 2_863, 17_137)
    assert result.runs[0]["mse"] == result.runs[0]["mse_known"]


# The command ------------------------------------------------------------------------------------------------


@pytest.fixture
def run(capsys):
    def call(*words):
        with pytest.raises(SystemExit) as stopped:
            app([str(word) for word in words])
        return stopped.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def ratings(table, tmp_path):
    table.write_csv(tmp_path / "ratings.csv")
    return tmp_path / "ratings.csv"


def test_the_command_for_people(run, ratings, tmp_path):
    out = tmp_path / "out.json"
    status, text, err = run("evaluate", ratings, "--models", "bias,levels", "--seeds", "2", "-o", out)
    assert status == 0
    lines = text.splitlines()
    assert lines[0] == "columns: user = 'user', item = 'item', rating = 'rating', timestamp = 'timestamp'"
    assert lines[1].startswith("chronological: 1,280 train rows, 320 test rows")
    assert lines[3].split() == ["bias", "levels"]
    cells = {line[:20].strip(): line[20:].split("  ") for line in lines}
    assert "-" in " ".join(cells["log loss"])
    assert "±" not in " ".join(cells["MSE"])  # neither model has random numbers
    assert "loss less that of bias" in text
    assert f"written to {out}" in err
    assert max(map(len, lines[1:])) <= 80
    status, again, _ = run("evaluate", ratings, "--models", "bias,levels", "--seeds", "2", "-o", out)
    assert again == text


def test_the_command_for_machines(run, ratings, tmp_path):
    out = tmp_path / "out.json"
    status, text, err = run("evaluate", ratings, "--models", "bias,small", "--json", "-o", out)
    assert (status, err) == (0, "")
    result = json.loads(text)
    assert result == json.loads(out.read_text())
    assert {"runs", "summary", "versions"} <= result.keys()
    first = result["runs"][0]
    assert {"model", "seed", "mse", "rmse", "mae", "log_loss", "seconds", "peak_mb"} <= first.keys()
    assert first["log_loss"] is None
    assert first["seconds"] > 0
    assert first["peak_mb"] > 50
    assert result["summary"][0]["model"] == "bias"
    assert {"mse", "mse_spread"} <= result["summary"][0].keys()
    assert result["versions"]["cmtrf"] == cmtrf.__version__
    assert len(result["data"]["digest"]) == 128


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["nowhere.csv"], 1, "there is no file nowhere.csv"),
        (["{}", "--models", "nobody"], 1, "there is no model 'nobody'"),
        (["{}", "--split", "paper"], 1, "say which one the table is"),
        (["{}", "--split", "half"], 2, "'half' is not one of"),
        (["{}", "--seeds", "0"], 2, "--seeds"),
        (["{}", "-o", "out.csv"], 2, "must end in .json"),
        (["{}", "--set", "netflix"], 1, "there is no set 'netflix'"),
        (["{}", "--user", "reader"], 1, "there is no column 'reader'; the columns are 'user', 'item', 'rating'"),
        (["{}", "--test-share", "2"], 1, "a share of 2.0 cannot be split off"),
    ],
)
def test_a_wrong_call_is_told_in_one_sentence(run, ratings, words, status, told):
    code, out, err = run("evaluate", *(word.format(ratings) for word in words))
    assert (code, out) == (status, "")
    assert told in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_ctrl_c_in_the_terminal(ratings, tmp_path):
    program = (
        "import signal\nfrom cmtrf.cli.main import main\nfrom cmtrf import CMTRF\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "fit, n = CMTRF.fit, [0]\n"
        "def interrupt(self, *a, **k):\n    n[0] += 1\n    if n[0] == 40: signal.raise_signal(signal.SIGINT)\n"
        "    return fit(self, *a, **k)\n"
        "CMTRF.fit = interrupt\nmain()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cmtrf.__file__).resolve().parent.parent)}
    words = ["evaluate", str(ratings), "--models", "bias,point", "-o", "out.json", "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 128 + signal.SIGINT
    last = done.stderr.splitlines()[-1]
    assert last == "cmtrf: interrupted; out.json keeps 1 finished run; the same call goes on from there"
    assert "Traceback" not in done.stderr
    assert [run["model"] for run in json.loads((tmp_path / "out.json").read_text())["runs"]] == ["bias"]


def test_a_spread_is_printed_where_it_shows():
    row = {"mse": 0.91234, "mse_spread": 0.00012, "mae": 0.5, "mae_spread": 0.00004, "log_loss": None}
    row |= {"log_loss_spread": None, "peak_mb": 300.0, "peak_mb_spread": None, "seconds": 1.0, "seconds_spread": 0.2}
    cells = [_cell(row, name) for name in ("mse", "mae", "log_loss", "peak_mb", "seconds")]
    assert cells == ["0.9123 ±0.0001", "0.5000", "-", "300", "1.00 ±0.20"]


def test_models_that_do_not_fit_side_by_side_go_below(table, monkeypatch, capsys):
    result = evaluate(table, seeds=2, **{**SMALL, "models": ["small", "bias", "levels"]})
    for each in result.runs:
        each |= {"mse": 0.5 + 0.01 * each["seed"], "seconds": 1.0, "peak_mb": 300.0}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for columns, blocks in ((200, [3]), (52, [2, 1]), (20, [1, 1, 1])):
        monkeypatch.setenv("COLUMNS", str(columns))
        show(result)
        out = capsys.readouterr().out
        heads = [line.split() for line in out.splitlines() if set(line.split()) & {"small", "bias", "levels"}]
        assert [len(head) for head in heads[: len(blocks)]] == blocks
        if columns == 52:  # 18 for the names of lines, 2 + 14 for each model
            assert max(len(line) for line in out.splitlines() if line.startswith("MSE")) == 50
