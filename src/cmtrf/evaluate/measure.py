"""One fitted model on the test rows of a split -> numbers, and the columns that they can be checked by."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cmtrf import metrics
from cmtrf.encode import truth_of
from cmtrf.errors import UnavailableError
from cmtrf.kernels.table import Float64
from cmtrf.splits import Split
from cmtrf.tables.columns import Columns
from cmtrf.tuning.searching import quiet
from cmtrf.tuning.walk import takes
from cmtrf.vocabulary import Grid, Vocabulary

log = logging.getLogger("cmtrf")

COVERAGE = 0.9  # of the intervals that are judged
LENGTH = 10  # of the lists that NDCG judges

# Name in the record -> what people read.
MEASURES = {
    "mse": "MSE",
    "rmse": "RMSE",
    "mae": "MAE of the mean",
    "mae_rounded": "MAE, rounded",
    "mae_median": "MAE of the median",
    "log_loss": "log loss",
    "coverage": f"{COVERAGE:.0%} interval: hits",
    "coverage_predicted": f"{COVERAGE:.0%} interval: mass",
    "ndcg_10": f"NDCG@{LENGTH}",
    "kendall_tau": "Kendall's tau",
    "mse_known": "MSE, rows not cold",
    "mae_known": "MAE, rows not cold",
}

Measures = dict[str, float | None]
Rows = dict[str, Float64]


def measure(model: Any, split: Split, score: str = "all") -> tuple[Measures, Rows]:
    """Measure a fitted model on every test row.

    Parameters
    ----------
    model
        Fitted to ``split.train``. One without ``predict_proba`` gets None where probabilities are needed.
    split
        The split.
    score
        ``"all"``: every row. ``"paper"``: MSE, RMSE and MAE of the mean as the paper's program counts them:
        predictions are not clipped; for a scale a user, or one a cluster, rows of users with a single level in train
        are left out of the sum, while the divisor counts them. All else counts every row.

    Returns
    -------
    measures
        One number for each of `MEASURES`, None where there is none.
    rows
        Columns of the test rows: rating, prediction, and, where the model has them, median and log_loss;
        ``counted`` is 0 where the paper's counting leaves an error out.
    """
    test, known = split.test_columns, ~split.cold
    grid = Grid.of_fitted(np.asarray(model.levels_))
    truth, weight, users = truth_of(model, test), test.weight, test.user
    clipped = _predict(model, test)
    rows: Rows = {"rating": truth, "prediction": clipped}
    if score == "paper":
        rows["prediction"] = _predict(model, test, clip=False)
        rows["counted"] = _counted(model, split)
    squared = losses(rows)["mse"]
    absolute = np.abs(truth - rows["prediction"]) * rows.get("counted", 1.0)
    mse = metrics.weighted_mean(squared, weight)
    values: Measures = dict.fromkeys(MEASURES)
    values |= {
        "mse": mse,
        "rmse": float(np.sqrt(mse)),
        "mae": metrics.weighted_mean(absolute, weight),
        "mae_rounded": metrics.mae(truth, metrics.round_to_level(clipped, grid.values), weight),
        "ndcg_10": _or_none(_ndcg, users, truth, rows["prediction"]),
        "kendall_tau": _or_none(metrics.kendall_tau, users, truth, rows["prediction"]),
    }
    if known.any():
        part = None if weight is None else weight[known]
        values["mse_known"] = metrics.weighted_mean(squared[known], part)
        values["mae_known"] = metrics.weighted_mean(absolute[known], part)
    if hasattr(model, "predict_proba"):
        values |= _measure_probabilities(model, test, truth, grid, rows)
    return values, rows


def losses(rows: Rows) -> Rows:
    """Losses of the test rows, by the measure whose mean they make."""
    found = {"mse": metrics.squared_errors(rows["rating"], rows["prediction"]) * rows.get("counted", 1.0)}
    if "log_loss" in rows:
        found["log_loss"] = rows["log_loss"]
    return found


def _measure_probabilities(model: Any, test: Columns, truth: Float64, grid: Grid, rows: Rows) -> Mapping[str, float]:
    """What only a model that gives probabilities can be judged by."""
    weight, proba = test.weight, np.asarray(model.predict_proba(test))
    low, high = np.asarray(model.predict_interval(test, coverage=COVERAGE)).T
    values = {
        "coverage": metrics.coverage(truth, low, high, weight),
        "coverage_predicted": metrics.interval_mass(proba, grid.values, low, high, weight),
    }
    if takes(model.predict, "kind"):
        rows["median"] = _predict(model, test, kind="median")
        values["mae_median"] = metrics.mae(truth, rows["median"], weight)
    level = grid.encode(truth)
    if (level < 0).any():
        first = int((level < 0).argmax())
        log.warning(
            "%d test ratings are at levels that train lacks (the first: %s, %g), so there is no log loss; state the "
            "whole scale with levels=",
            (level < 0).sum(),
            test.where(first),
            truth[first],
        )
    else:
        rows["log_loss"] = metrics.log_losses(grid.values[level], proba, grid.values)
        values["log_loss"] = metrics.weighted_mean(rows["log_loss"], weight)
    return values


def _predict(model: Any, test: Columns, **options: Any) -> Float64:
    """Predictions of all rows; a model that has not the option ``clip`` does not clip."""
    if not takes(model.predict, "clip"):
        options.pop("clip", None)
    with quiet():
        predicted: Float64 = np.asarray(model.predict(test, **options), dtype=np.float64)
    return predicted


def _counted(model: Any, split: Split) -> Float64:
    """1 for the rows whose error the paper's program adds up, 0 for those that only its divisor counts."""
    train, user_of_row = split.train_columns, split.test_codes[0]
    if getattr(model, "n_scales", "fixed") in ("fixed", 1):
        return np.ones(len(user_of_row))
    assert train.rating is not None
    users, user = Vocabulary.of(train.user)
    level = np.unique(train.rating, return_inverse=True)[1]
    used = np.zeros((len(users), int(level.max()) + 1), np.bool_)
    used[user, level] = True
    lone = used.sum(1) == 1
    return np.where((user_of_row >= 0) & lone[user_of_row], 0.0, 1.0)


def _ndcg(users: Any, truth: Float64, predicted: Float64) -> float:
    return metrics.ndcg(users, truth, predicted, LENGTH, only_where_order_matters=True)


def _or_none(function: Callable[..., float], *arguments: Any) -> float | None:
    """The measure, None where these ratings have none (no user with two of them, say)."""
    try:
        return function(*arguments)
    except UnavailableError:
        return None
