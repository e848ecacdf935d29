"""How far predictions are from ratings: arrays in, one number out; a row without a prediction is an error.

Errors of single rows (`mse`, `mae`, `log_loss`, `coverage`) are means over rows, a weight counting as that many
equal rows. Measures of an order (`ndcg`, `kendall_tau`) are means over users.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmtrf.errors import DataError, ParameterError, UnavailableError
from cmtrf.kernels.table import Float64, Integers

Bools = NDArray[np.bool_]
BLOCK = 2_000_000  # counts of drawn users that are held at a time


def mse(truth: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Mean squared error, ``mean (r - p)^2``."""
    return weighted_mean(squared_errors(truth, predicted), weight)


def rmse(truth: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(mse(truth, predicted, weight)))


def mae(truth: ArrayLike, predicted: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Mean absolute error, ``mean |r - p|``: of a mean, of a rounded mean or of a median, whatever is passed."""
    return weighted_mean(np.abs(_errors(truth, predicted)), weight)


def log_loss(truth: ArrayLike, proba: ArrayLike, levels: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Mean of ``-log p(rating given)``, natural logarithm; infinite where a rating given had probability 0.

    Parameters
    ----------
    truth : array-like of shape (n,)
        Ratings, each one of ``levels``.
    proba : array-like of shape (n, n_levels)
        Probability of each level, columns in the order of ``levels``.
    levels : array-like of shape (n_levels,)
        The rating scale, lowest first.
    weight : array-like of shape (n,), optional
        Weight of each row.
    """
    return weighted_mean(log_losses(truth, proba, levels), weight)


def squared_errors(truth: ArrayLike, predicted: ArrayLike) -> Float64:
    """``(r - p)^2`` of each row."""
    return _errors(truth, predicted) ** 2


def log_losses(truth: ArrayLike, proba: ArrayLike, levels: ArrayLike) -> Float64:
    """``-log p(rating given)`` of each row."""
    levels, ratings = _numbers("levels", levels), _numbers("truth", truth)
    probabilities = _probabilities(proba, len(ratings), len(levels))
    place = np.minimum(np.searchsorted(levels, ratings), len(levels) - 1)
    for row in np.flatnonzero(levels[place] != ratings)[:1].tolist():
        raise DataError(f"row {row}: the rating {ratings[row]:g} is not one of the levels, so it has no probability")
    with np.errstate(divide="ignore"):
        losses: Float64 = -np.log(probabilities[np.arange(len(ratings)), place])
    return losses


def round_to_level(predicted: ArrayLike, levels: ArrayLike) -> Float64:
    """Return the level nearest to each prediction, the lower of two that are equally near."""
    predictions, levels = np.asarray(predicted, dtype=np.float64), _numbers("levels", levels)
    if (np.diff(levels) <= 0).any():
        raise ParameterError(f"levels must increase, lowest first; got {levels.tolist()}")
    _check_predicted(predictions)
    nearest: Float64 = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, predictions)]
    return nearest


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Share of ratings within ``low <= r <= high``; to be held against `interval_mass`."""
    ratings, below, above = _numbers("truth", truth), np.asarray(low, float), np.asarray(high, float)
    _check_lengths(truth=ratings, low=below, high=above)
    _check_predicted(below + above)
    return weighted_mean(((below <= ratings) & (ratings <= above)).astype(np.float64), weight)


def interval_mass(
    proba: ArrayLike, levels: ArrayLike, low: ArrayLike, high: ArrayLike, weight: ArrayLike | None = None
) -> float:
    """Mean probability that the model itself gives its intervals: what `coverage` should come to."""
    levels = _numbers("levels", levels)
    below, above = np.asarray(low, float), np.asarray(high, float)
    probabilities = _probabilities(proba, len(below), len(levels))
    _check_lengths(low=below, high=above)
    _check_predicted(below + above)
    inside = (below[:, None] <= levels) & (levels <= above[:, None])
    return weighted_mean((probabilities * inside).sum(1), weight)


def ndcg(
    user: ArrayLike,
    truth: ArrayLike,
    predicted: ArrayLike,
    k: int | None = 10,
    *,
    only_where_order_matters: bool = False,
) -> float:
    """Normalized discounted cumulative gain of each user's rated items in the order predicted, mean over users.

    The gain of an item is its rating, its weight at rank n ``1 / log2(max(n, 2))`` (Järvelin and Kekäläinen, as in
    LensKit), none beyond rank ``k``. Items predicted alike share the mean weight of their ranks: that is the mean
    over all orders they could be listed in, so that a model which predicts one number for everything is not judged
    by the order of the rows. A user whose ratings are all zero has no ideal and is left out; with negative ratings
    there is no such gain, which is an error.

    A user with one item, or two (k above 1), or the same rating for all, scores 1 in any order; where most have few
    items, so does any model. ``only_where_order_matters`` leaves these users out.
    """
    if k is not None and k < 1:
        raise ParameterError(f"k={k!r}: pass 1 or more, or None for the whole list")
    who, gain, score = _by_user(user, truth, predicted)
    if (gain < 0).any():
        raise UnavailableError(f"NDCG needs ratings of 0 or more as gains; the lowest here is {gain.min():g}")
    shown = _discounted(who, gain, score, k)
    ideal = _discounted(who, gain, gain, k)
    counted = ideal > 0
    if only_where_order_matters:
        counted &= _discounted(who, gain, -gain, k) < ideal * (1 - 1e-12)
    if not counted.any():
        matter = (
            " whose items could be listed better or worse" if only_where_order_matters else " with a rating above 0"
        )
        raise UnavailableError(f"NDCG needs a user{matter}")
    return float((shown[counted] / ideal[counted]).mean())


def kendall_tau(user: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> float:
    """Kendall's tau-b between a user's ratings and their predictions, mean over users.

    A user with fewer than two different ratings has no order to predict and is left out. One whose predictions
    are all the same counts 0: nothing was said about the order.
    """
    from scipy.stats import kendalltau  # half a second that `import cmtrf.metrics` need not spend

    who, ratings, scores = _by_user(user, truth, predicted)
    taus = []
    for first, last in _groups(who):
        r, s = ratings[first:last], scores[first:last]
        if r.min() < r.max():
            taus.append(float(kendalltau(r, s).statistic) if s.min() < s.max() else 0.0)
    if not taus:
        raise UnavailableError("Kendall's tau needs a user with two different ratings")
    return float(np.mean(taus))


class PairedDifference(NamedTuple):
    """How much one model's mean loss is above another's on the same rows."""

    difference: float
    standard_error: float  # over users
    n_users: int


def paired_difference(
    user: ArrayLike,
    loss: ArrayLike,
    other: ArrayLike,
    weight: ArrayLike | None = None,
    n_boot: int = 2000,
    random_state: int = 0,
) -> PairedDifference:
    """Mean of ``loss - other`` over rows, with its standard error by a bootstrap over users.

    Users are drawn with replacement, each with all of their rows: the errors of one person's ratings go together,
    and rows drawn one by one would make the difference look surer than it is.
    """
    own, against, people = _numbers("loss", loss), _numbers("other", other), np.asarray(user)
    weights = np.ones(len(own)) if weight is None else _weights(weight, len(own))
    _check_lengths(user=people, loss=own, other=against)
    counted = weights > 0
    people, weights, gaps = people[counted], weights[counted], (own - against)[counted]
    who = np.unique(people, return_inverse=True)[1]
    sums, counts = np.bincount(who, weights * gaps), np.bincount(who, weights)
    n = len(sums)
    rng = np.random.default_rng(random_state)
    means: list[Float64] = []
    step = max(1, BLOCK // n)
    for start in range(0, n_boot, step):
        draws = rng.multinomial(n, np.full(n, 1 / n), size=min(step, n_boot - start))
        means.append((draws @ sums) / (draws @ counts))
    spread = float(np.concatenate(means).std(ddof=1)) if n > 1 else float("nan")
    return PairedDifference(float(sums.sum() / counts.sum()), spread, n)


# What they share --------------------------------------------------------------------------------------------


def _errors(truth: ArrayLike, predicted: ArrayLike) -> Float64:
    ratings, predictions = _numbers("truth", truth), np.asarray(predicted, dtype=np.float64)
    _check_lengths(truth=ratings, predicted=predictions)
    _check_predicted(predictions)
    return ratings - predictions


def _check_predicted(predictions: Float64) -> None:
    """Nothing that a model left out is dropped: leaving out what is hard would make any model look good."""
    missing = np.flatnonzero(~np.isfinite(predictions))
    if len(missing):
        raise DataError(
            f"{len(missing)} of {len(predictions)} rows have no prediction, the first is row {missing[0]}; predict "
            "every row (unknown='fallback' does), or leave these rows out yourself and say so"
        )


def _numbers(name: str, values: ArrayLike) -> Float64:
    try:
        array: Float64 = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"{name} must hold numbers: {error}; words count 1..L, in the order of the levels"
        ) from None
    if array.ndim != 1 or len(array) == 0:
        raise ParameterError(f"{name} has shape {array.shape}; pass one value a row, at least one row")
    if not np.isfinite(array).all():
        raise DataError(f"{name} has a value that is not finite, in row {int((~np.isfinite(array)).argmax())}")
    return array


def _probabilities(proba: ArrayLike, n: int, n_levels: int) -> Float64:
    array: Float64 = np.asarray(proba, dtype=np.float64)
    if array.shape != (n, n_levels):
        raise ParameterError(
            f"proba has shape {array.shape}; it must be {(n, n_levels)}: a row a rating, a column a level"
        )
    _check_predicted(array.sum(1))
    odd = np.flatnonzero((array < 0).any(1) | (np.abs(array.sum(1) - 1) > 1e-3))
    if len(odd):
        raise DataError(f"proba, row {odd[0]}: {array[odd[0]].tolist()} are no probabilities; they must sum to 1")
    return array


def weighted_mean(values: Float64, weight: ArrayLike | None) -> float:
    """Mean over rows, each counted by its weight."""
    if weight is None:
        return float(values.mean())
    weights = _weights(weight, len(values))
    return float(weights @ values / weights.sum())


def _weights(weight: ArrayLike, n: int) -> Float64:
    weights = _numbers("weight", weight)
    if len(weights) != n or (weights < 0).any() or not weights.any():
        raise ParameterError(f"weight must hold {n} numbers of 0 or more, not all of them 0")
    return weights


def _check_lengths(**columns: NDArray[Any]) -> None:
    if len({column.shape for column in columns.values()}) > 1:
        shapes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise ParameterError(f"shapes differ: {shapes}; pass one value a row")


def _by_user(user: ArrayLike, truth: ArrayLike, predicted: ArrayLike) -> tuple[Integers, Float64, Float64]:
    """Rows sorted by user; of each user as they came."""
    people, ratings, predictions = np.asarray(user), _numbers("truth", truth), np.asarray(predicted, dtype=np.float64)
    _check_lengths(user=people, truth=ratings, predicted=predictions)
    _check_predicted(predictions)
    who = np.unique(people, return_inverse=True)[1]
    order = np.argsort(who, kind="stable")
    return who[order], ratings[order], predictions[order]


def _groups(who: Integers) -> list[tuple[int, int]]:
    """First row and end of each run of equal codes."""
    starts = np.flatnonzero(np.r_[True, who[1:] != who[:-1]])
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(who)], strict=True))


def _discounted(who: Integers, gain: Float64, score: Float64, k: int | None) -> Float64:
    """Discounted gain of each user's items, highest score first; equal scores share the mean of their weights."""
    order = np.lexsort((-score, who))
    who, gain, score = who[order], gain[order], score[order]
    new_user: Bools = np.r_[True, who[1:] != who[:-1]]
    starts = np.flatnonzero(new_user)
    rank = np.arange(len(who)) - np.repeat(starts, np.diff(np.r_[starts, len(who)])) + 1
    weight = 1 / np.log2(np.maximum(rank, 2))
    if k is not None:
        weight[rank > k] = 0
    tie = np.cumsum(new_user | np.r_[True, score[1:] != score[:-1]]) - 1
    shared = np.bincount(tie, weight) / np.bincount(tie)
    result: Any = np.add.reduceat(gain * shared[tie], starts)
    return np.asarray(result, dtype=np.float64)
