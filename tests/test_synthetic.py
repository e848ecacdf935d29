"""Makers of synthetic ratings: the rule they state is the rule they follow, checked by another way to compute it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

from cmtrf import CMTRF, metrics, splits
from cmtrf.datasets import make_clustered, make_sd1, make_sd2
from cmtrf.datasets.synthetic import SHAPES
from cmtrf.errors import ParameterError

MAKERS = [make_sd1, make_sd2, make_clustered]
SMALL = {"n_users": 60, "n_items": 50, "train_share": 0.6, "test_share": 0.3}
makers = pytest.mark.parametrize("make", MAKERS)


@makers
def test_size_shares_and_seed(make):
    table = make(**SMALL)
    assert table.columns == ["user", "item", "rating", "part"]
    assert dict(table["part"].value_counts().rows()) == {"train": 1800, "test": 900}
    assert table.select("user", "item").is_duplicated().sum() == 0
    assert set(table["rating"]) <= {1, 2, 3, 4, 5}
    assert make(**SMALL).equals(table)
    assert not make(**SMALL, random_state=1).equals(table)
    assert make(**SMALL, n_levels=3)["rating"].max() == 3
    train, test = splits.published(table)
    assert (train.height, test.height) == (1800, 900)


@pytest.mark.parametrize(("make", "n_users", "n_items"), [(make_sd1, 3000, 2000), (make_sd2, 3000, 2000)])
def test_the_papers_size_is_the_default(make, n_users, n_items):
    table, truth = make(return_truth=True)
    assert truth.user_factors.shape == (n_users, 5)
    assert truth.item_factors.shape == (n_items, 5)
    assert truth.scales.shape == (n_users, 5)
    assert table.height == 900_000
    assert sorted(table["rating"].unique()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("rounding", "rounded"),
    [("nearest", lambda x: np.floor(x + 0.5)), ("down", np.floor), ("up", np.ceil), (None, lambda x: x)],
)
def test_sd1_is_the_inverse_of_each_users_scale(rounding, rounded):
    table, truth = make_sd1(**SMALL, rounding=rounding, return_truth=True)
    assert np.diff(truth.scales).min() >= 0.5  # the margin that the paper's text promises
    assert np.diff(truth.scales).max() <= 2.0
    scores = truth.scores
    for user, item, rating, _ in table.rows():
        value = np.interp(scores[user, item], truth.scales[user], [1, 2, 3, 4, 5])  # clipped at both ends
        assert rating == pytest.approx(rounded(value), abs=1e-9)


def test_sd1_draws_scales_as_the_paper_states():
    _, truth = make_sd1(n_users=4000, n_items=10, return_truth=True)
    assert truth.scales[:, 0].mean() == pytest.approx(1, abs=0.06)
    assert truth.scales[:, 0].std() == pytest.approx(1, abs=0.04)
    steps = np.diff(truth.scales)
    assert steps.mean(0) == pytest.approx(np.full(4, 1.25), abs=0.03)
    assert steps.var(0) == pytest.approx(np.full(4, 1.5**2 / 12), rel=0.06)


@pytest.mark.parametrize("negative", ["reflect", "redraw", "keep"])
def test_sd2_is_the_logistic_of_the_paper(negative):
    table, truth = make_sd2(**SMALL, rounding=None, steepness_sd=1.0, negative=negative, return_truth=True)
    rising = np.diff(truth.scales).min(1) > 0
    if negative == "keep":
        assert 0 < rising.mean() < 1  # scales upside down, as the paper's text has them
    else:
        assert rising.all()
    scores = truth.scores
    c = np.log(9) / truth.scales[:, 4]  # Upsilon(5) = -log(-1 + 5 / 4.5) / c
    for user, item, rating, _ in table.rows():
        assert -np.log(-1 + 5 / (rating - 0.5)) / c[user] == pytest.approx(scores[user, item], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("rank", [1, 5, 50])
def test_types_have_scales_of_their_shape(rank):
    """Each type's shares of levels are those of its shape, whatever distribution the scores have.

    The users of a type have different factors, so that a few hundred of them come near its shares, not closer.
    """
    table, truth = make_clustered(
        n_users=2000, n_items=2000, n_scales=6, rank=rank, train_share=0.005, test_share=0.001, return_truth=True
    )
    assert truth.scales.shape == (6, 4)
    assert np.diff(truth.scales).min() > 0
    assert len(np.unique(np.round(truth.scales, 3), axis=0)) == 6
    types = pl.Series(truth.user_scale[table["user"].to_numpy()])
    for scale in range(6):
        ratings = table.filter(types == scale)["rating"]
        counts = np.bincount(ratings, minlength=6)[1:]
        share = np.diff(beta.cdf(np.linspace(0, 1, 6), *SHAPES[scale])) if scale < 5 else counts / counts.sum()
        assert np.abs(counts / counts.sum() - share).max() < (0.03 if rank == 1 else 0.02)
        assert ratings.n_unique() == 5


def test_scales_that_were_planted_pay():
    """A model that learns a scale a user predicts SD-1 better than one on the given scale, both without biases."""
    split = splits.published(make_sd1(n_users=300, n_items=200, train_share=0.3, random_state=2))
    errors = {}
    for n_scales in ("fixed", "user"):
        model = CMTRF(n_scales=n_scales, rank=5, lambda_u=0.1, lambda_v=0.1, random_state=0, max_sweeps=60, tol=0)
        errors[n_scales] = metrics.mse(split.test["rating"], model.fit(split.train).predict(split.test))
    assert errors["user"] < 0.85 * errors["fixed"]


@pytest.mark.parametrize(
    ("make", "choices", "told"),
    [
        (make_sd1, {"rounding": "half"}, "rounding='half'"),
        (make_sd1, {"n_levels": 1}, "n_levels=1"),
        (make_sd1, {"train_share": 0.8, "test_share": 0.3}, "together at most 1"),
        (make_sd2, {"negative": "drop"}, "negative='drop'"),
        (make_sd2, {"negative": "redraw", "steepness_mean": -1.0, "steepness_sd": 0.0}, "no draw is ever above 0"),
        (make_clustered, {"n_scales": 0}, "n_scales=0"),
        (make_clustered, {"rank": 0}, "rank=0"),
    ],
)
def test_what_cannot_be_made_is_told(make, choices, told):
    with pytest.raises(ParameterError, match=told):
        make(**choices)
