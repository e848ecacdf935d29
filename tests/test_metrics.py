"""Metrics against scikit-learn, SciPy, LensKit, slow twins and numbers worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn.metrics as judge

from cmtrf import metrics
from cmtrf.errors import DataError, ParameterError, UnavailableError

LEVELS = np.array([0.5, 1.0, 2.0, 4.0])


@pytest.fixture
def case():
    """Ratings, predictions, weights, users and probabilities without structure."""
    rng = np.random.default_rng(3)
    n = 400
    proba = rng.dirichlet(np.ones(len(LEVELS)), n)
    return {
        "truth": rng.choice(LEVELS, n),
        "predicted": rng.uniform(0, 5, n),
        "weight": rng.uniform(0.1, 3, n),
        "user": rng.integers(0, 40, n),
        "proba": proba,
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_scikit_learns(case, weighted):
    weight = case["weight"] if weighted else None
    pairs = [
        (metrics.mse, judge.mean_squared_error),
        (metrics.rmse, judge.root_mean_squared_error),
        (metrics.mae, judge.mean_absolute_error),
    ]
    for ours, theirs in pairs:
        expected = theirs(case["truth"], case["predicted"], sample_weight=weight)
        assert ours(case["truth"], case["predicted"], weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss_is_scikit_learns(case, weighted):
    weight = case["weight"] if weighted else None
    level = np.searchsorted(LEVELS, case["truth"])
    expected = judge.log_loss(level, case["proba"], sample_weight=weight, labels=range(len(LEVELS)))
    assert metrics.log_loss(case["truth"], case["proba"], LEVELS, weight) == pytest.approx(expected, rel=1e-12)


def test_what_was_held_impossible_costs_infinitely_much():
    assert metrics.log_loss([1.0], [[0.0, 1.0]], [1.0, 2.0]) == np.inf


def test_a_weight_counts_as_that_many_rows(case):
    weight = np.arange(len(case["truth"])) % 3 + 1
    twice = {name: np.repeat(case[name], weight, axis=0) for name in ("truth", "predicted", "proba")}
    assert metrics.mse(case["truth"], case["predicted"], weight) == pytest.approx(
        metrics.mse(twice["truth"], twice["predicted"])
    )
    assert metrics.log_loss(case["truth"], case["proba"], LEVELS, weight) == pytest.approx(
        metrics.log_loss(twice["truth"], twice["proba"], LEVELS)
    )


def test_rounding_takes_the_nearest_level_and_of_two_the_lower():
    rounded = metrics.round_to_level([-3, 0.74, 0.75, 0.76, 1.5, 1.51, 2.9, 3.1, 9], LEVELS)
    assert rounded.tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]


def test_coverage_and_what_the_model_says_of_it():
    low, high = [0.5, 1.0, 2.0], [1.0, 1.0, 4.0]
    proba = [[0.5, 0.4, 0.1, 0.0], [0.2, 0.7, 0.1, 0.0], [0.0, 0.1, 0.3, 0.6]]
    assert metrics.coverage([1.0, 2.0, 4.0], low, high) == pytest.approx(2 / 3)
    assert metrics.coverage([1.0, 2.0, 4.0], low, high, [1, 3, 1]) == pytest.approx(2 / 5)
    assert metrics.interval_mass(proba, LEVELS, low, high) == pytest.approx((0.9 + 0.7 + 0.9) / 3)


# Orders -----------------------------------------------------------------------------------------------------


def slow_dcg(gains, k):
    return sum(gain / np.log2(max(rank, 2)) for rank, gain in enumerate(gains[:k], 1))


def slow_ndcg(truth, predicted, k):
    """Mean over all orders that ties leave open."""
    truth = np.asarray(truth)
    found = [
        slow_dcg(truth[list(order)], k)
        for order in itertools.permutations(range(len(truth)))
        if all(predicted[a] >= predicted[b] for a, b in itertools.pairwise(order))
    ]
    return np.mean(found) / slow_dcg(sorted(truth, reverse=True), k)


@pytest.mark.parametrize("k", [1, 2, 3, 10, None])
def test_ndcg_is_the_mean_over_all_orders_of_ties(k):
    rng = np.random.default_rng(0)
    users, truth, predicted, expected = [], [], [], []
    for user in range(12):
        n = int(rng.integers(1, 7))
        t, p = rng.integers(0, 5, n).astype(float), rng.integers(0, 3, n).astype(float)
        t[0] = max(t[0], 1)
        users += [user] * n
        truth += t.tolist()
        predicted += p.tolist()
        expected.append(slow_ndcg(t, p, k))
    order = rng.permutation(len(users))
    users, truth, predicted = (np.array(column)[order] for column in (users, truth, predicted))
    assert metrics.ndcg(users, truth, predicted, k) == pytest.approx(np.mean(expected), rel=1e-12)


def test_ndcg_by_hand():
    # Shown: 1, 3, 2. 1 + 3 + 2 / log2(3), where the best order has 3 + 2 + 1 / log2(3).
    expected = (4 + 2 / np.log2(3)) / (5 + 1 / np.log2(3))
    assert metrics.ndcg([7, 7, 7], [3, 2, 1], [0.5, 0.1, 0.9]) == pytest.approx(expected)


def test_ndcg_leaves_out_whom_nothing_pleases_and_refuses_negative_gains():
    assert metrics.ndcg(["a", "a", "b"], [0, 0, 5], [1, 2, 3]) == 1
    with pytest.raises(UnavailableError, match="above 0"):
        metrics.ndcg([1, 1], [0, 0], [1, 2])
    with pytest.raises(UnavailableError, match="lowest here is -2"):
        metrics.ndcg([1, 1], [-2, 0], [1, 2])


def test_ndcg_of_users_for_whom_the_order_matters():
    """Of one item, of two (their ranks weigh the same), of items rated alike, every order is the best."""
    users = [1, 2, 2, 3, 3, 3, 4, 4, 4]
    truth = [5, 5, 1, 3, 3, 3, 3, 2, 1]
    predicted = [1, 1, 2, 1, 2, 3, 1, 2, 3]
    last = (1 + 2 + 3 / np.log2(3)) / (3 + 2 + 1 / np.log2(3))
    assert metrics.ndcg(users, truth, predicted) == pytest.approx((3 + last) / 4)
    assert metrics.ndcg(users, truth, predicted, only_where_order_matters=True) == pytest.approx(last)
    assert metrics.ndcg(users, truth, predicted, 1, only_where_order_matters=True) == pytest.approx((1 / 5 + 1 / 3) / 2)
    with pytest.raises(UnavailableError, match="whose items could be listed better or worse"):
        metrics.ndcg(users[:6], truth[:6], predicted[:6], only_where_order_matters=True)


@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_is_lenskits(case, k):
    pytest.importorskip("lenskit", reason="lenskit is not installed: it comes with the extra peers")
    from lenskit.data import ItemList
    from lenskit.metrics import NDCG

    theirs = []
    for user in np.unique(case["user"]):
        rows = np.flatnonzero(case["user"] == user)
        best = rows[np.argsort(-case["predicted"][rows], kind="stable")]
        shown = ItemList(item_ids=best, ordered=True)
        theirs.append(NDCG(k, gain="rating").measure_list(shown, ItemList(item_ids=rows, rating=case["truth"][rows])))
    ours = metrics.ndcg(case["user"], case["truth"], case["predicted"], k)
    assert ours == pytest.approx(np.mean(theirs), rel=1e-9)


@pytest.mark.parametrize("metric", ["rmse", "mae"])
def test_errors_are_lenskits(case, metric):
    pytest.importorskip("lenskit", reason="lenskit is not installed: it comes with the extra peers")
    from lenskit.data import ItemList
    from lenskit.metrics import MAE, RMSE

    ids = np.arange(len(case["truth"]))
    theirs = {"rmse": RMSE, "mae": MAE}[metric]().measure_list(
        ItemList(item_ids=ids, scores=case["predicted"]), ItemList(item_ids=ids, rating=case["truth"])
    )
    assert getattr(metrics, metric)(case["truth"], case["predicted"]) == pytest.approx(theirs, rel=1e-6)


def slow_tau(r, s):
    """Kendall's tau-b from its definition, pair by pair."""
    agree = tied_r = tied_s = n = 0
    for a, b in itertools.combinations(range(len(r)), 2):
        n += 1
        agree += np.sign(r[a] - r[b]) * np.sign(s[a] - s[b])
        tied_r += r[a] == r[b]
        tied_s += s[a] == s[b]
    return agree / np.sqrt((n - tied_r) * (n - tied_s))


def test_kendalls_tau_is_its_definition(case):
    scores = np.round(case["predicted"])  # ties
    expected = [
        slow_tau(case["truth"][case["user"] == user], scores[case["user"] == user]) for user in np.unique(case["user"])
    ]
    assert metrics.kendall_tau(case["user"], case["truth"], scores) == pytest.approx(np.mean(expected), rel=1e-12)


def test_kendalls_tau_of_users_who_say_nothing_or_of_whom_nothing_is_said():
    # The first user rates all alike and is left out; the second's predictions are all alike and count 0.
    users = [1, 1, 2, 2, 3, 3]
    assert metrics.kendall_tau(users, [3, 3, 1, 2, 1, 2], [1, 2, 5, 5, 1, 2]) == pytest.approx(0.5)
    with pytest.raises(UnavailableError, match="two different ratings"):
        metrics.kendall_tau([1, 1], [3, 3], [1, 2])


# Differences ------------------------------------------------------------------------------------------------


def test_the_standard_error_is_that_of_a_ratio_over_users():
    """Against the delta method: var(sum d / sum n) ~ N var(d - mean n) / (sum n)^2, over N users."""
    rng = np.random.default_rng(1)
    user = rng.choice(500, 8000, p=rng.dirichlet(np.full(500, 2.0)))
    shift = rng.normal(0, 1, 500)[user]  # what one person's rows have in common
    loss = 0.1 + shift + rng.normal(0, 1, len(user))
    found = metrics.paired_difference(user, loss, np.zeros(len(user)), n_boot=4000)
    who = np.unique(user, return_inverse=True)[1]
    sums, counts = np.bincount(who, loss), np.bincount(who)
    rest = sums - loss.mean() * counts
    expected = np.sqrt(len(sums) * rest.var(ddof=1)) / counts.sum()
    assert found.difference == pytest.approx(loss.mean())
    assert found.n_users == len(sums)
    assert found.standard_error == pytest.approx(expected, rel=0.05)
    assert found.standard_error > 2 * loss.std() / np.sqrt(len(loss))  # rows of a person go together


def test_the_standard_error_is_what_repetitions_show():
    rng = np.random.default_rng(2)
    differences, errors = [], []
    for _ in range(200):
        user = np.repeat(np.arange(60), rng.integers(1, 9, 60))
        loss = rng.normal(0, 1, 60)[user] + rng.normal(0, 1, len(user))
        found = metrics.paired_difference(user, loss, np.zeros(len(user)), n_boot=200)
        differences.append(found.difference)
        errors.append(found.standard_error)
    assert np.mean(errors) == pytest.approx(np.std(differences), rel=0.12)


def test_a_difference_is_the_same_for_the_same_seed_whatever_the_users_are_called():
    rng = np.random.default_rng(0)
    user, own, other = rng.integers(0, 9, 50), rng.random(50), rng.random(50)
    first = metrics.paired_difference(user, own, other, random_state=4)
    names = np.array(list("abcdefghi"))[user]
    assert metrics.paired_difference(names, own, other, random_state=4) == first
    assert metrics.paired_difference(user, other, own, random_state=4).difference == pytest.approx(-first.difference)
    assert metrics.paired_difference(user, own, own).standard_error == 0
    assert metrics.paired_difference(user, own, other, n_boot=50, random_state=5) != first


def test_a_weighted_difference_counts_rows_by_their_weight():
    user, own, weight = [1, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 1]
    found = metrics.paired_difference(user, own, np.zeros(4), weight)
    assert found.difference == pytest.approx(np.average(own, weights=weight))
    whole = np.repeat(np.arange(4), weight)
    same = metrics.paired_difference(np.array(user)[whole], np.array(own)[whole], np.zeros(7))
    assert found == pytest.approx(same)
    nothing = metrics.paired_difference([*user, 4], [*own, 9.0], np.zeros(5), [*weight, 0])
    assert nothing == pytest.approx(found)


# What is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda p: metrics.mse([1, 2, 3], p),
        lambda p: metrics.mae([1, 2, 3], p),
        lambda p: metrics.round_to_level(p, LEVELS),
        lambda p: metrics.ndcg([1, 1, 1], [1, 2, 3], p),
        lambda p: metrics.kendall_tau([1, 1, 1], [1, 2, 3], p),
        lambda p: metrics.coverage([1, 2, 3], p, p),
        lambda p: metrics.log_loss([1, 2, 1], np.column_stack([p, p]), [1, 2]),
    ],
)
@pytest.mark.parametrize("missing", [np.nan, np.inf])
def test_a_row_without_a_prediction_is_an_error(call, missing):
    with pytest.raises(DataError, match="1 of 3 rows have no prediction, the first is row 1"):
        call([0.5, missing, 0.25])


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: metrics.mse([1, 2], [1]), ParameterError, r"shapes differ: truth \(2,\), predicted \(1,\)"),
        (lambda: metrics.mse([], []), ParameterError, "at least one row"),
        (lambda: metrics.mse([1, np.nan], [1, 2]), DataError, "truth has a value that is not finite, in row 1"),
        (lambda: metrics.log_loss([1, 2], [[0.5, 0.5]], [1, 2]), ParameterError, "a row a rating"),
        (lambda: metrics.log_loss([3], [[0.5, 0.5]], [1, 2]), DataError, "row 0: the rating 3 is not one"),
        (lambda: metrics.coverage([1, 2], [1], [2]), ParameterError, r"truth \(2,\), low \(1,\), high \(1,\)"),
        (lambda: metrics.ndcg([1], [1], [1], k=0), ParameterError, "k=0"),
        (lambda: metrics.ndcg([1, 1], [5, 1, 3], [1, 2, 3]), ParameterError, r"user \(2,\), truth \(3,\)"),
        (lambda: metrics.kendall_tau([1, 1, 1, 1], [5, 1, 3], [1, 2, 3]), ParameterError, r"user \(4,\)"),
        (lambda: metrics.paired_difference([1, 2], [1, 2], [1]), ParameterError, r"other \(1,\)"),
        (lambda: metrics.interval_mass([[0.5, 0.5]], [1, 2], [1, 1], [2, 2]), ParameterError, "a row a rating"),
        (lambda: metrics.log_loss([1], [[3, -2]], [1, 2]), DataError, r"row 0: \[3.0, -2.0\] are no probabilities"),
        (lambda: metrics.mse(["good"], [1]), ParameterError, r"truth must hold numbers: .*; words count 1\.\.L"),
        (lambda: metrics.round_to_level([1], [2, 1]), ParameterError, "levels must increase"),
        (lambda: metrics.mse([1, 2], [1, 2], [1, -1]), ParameterError, "2 numbers of 0 or more"),
        (lambda: metrics.mse([1, 2], [1, 2], [0, 0]), ParameterError, "not all of them 0"),
        (lambda: metrics.mse([1, 2], [1, 2], [1, 1, 1]), ParameterError, "2 numbers"),
    ],
)
def test_what_cannot_be_measured_is_told(call, error, told):
    with pytest.raises(error, match=told):
        call()
