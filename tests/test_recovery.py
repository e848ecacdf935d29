"""Planted truth comes back: a low rank, and each user a monotone scale of their own (the paper's SD-1)."""

from __future__ import annotations

import numpy as np
import pytest

from cmtrf import CMTRF
from problems import planted


@pytest.fixture(scope="module")
def world():
    users, items, levels, thresholds = planted(np.random.default_rng(0), N=300, M=150, d=2, share=0.4)
    held_out = np.random.default_rng(1).random(len(users)) < 0.2
    return users, items, levels + 1, thresholds, held_out


def fit(world, n_scales, **parameters):
    users, items, ratings, _, held_out = world
    model = CMTRF(
        n_scales=n_scales, rank=2, random_state=0, lambda_u=1.0, lambda_v=1.0, tol=1e-4, max_sweeps=200, **parameters
    )
    model.fit((users[~held_out], items[~held_out], ratings[~held_out]))
    predictions = model.predict((users[held_out], items[held_out]))
    return model, float(((predictions - ratings[held_out]) ** 2).mean())


def test_a_scale_each_beats_the_given_scale_clearly(world):
    """Much of it is where a user's scale lies: plain factorization with biases gains as much here."""
    _, plain = fit(world, "fixed")
    _, own = fit(world, "user")
    assert own < 0.5 * plain


def test_four_scales_lie_between_one_and_a_scale_each(world):
    _, one = fit(world, 1)
    _, four = fit(world, 4)
    _, own = fit(world, "user")
    assert own < four < one


def test_learned_scales_correlate_with_the_planted_ones(world):
    """Up to the model's invariances: where a scale lies, relative to others, is what a margin leaves to learn.

    A user whose thresholds lie low gives high levels easily; their levels must lie low as well.
    """
    thresholds = world[3]
    model, _ = fit(world, "user")
    learned = model.scales_.mean(1)
    planted_place = thresholds.mean(1)[model.users_]
    assert np.corrcoef(learned, planted_place)[0, 1] > 0.85
