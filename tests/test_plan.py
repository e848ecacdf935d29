"""Parameters: what they come to, and what is refused before a table is read."""

from __future__ import annotations

import numpy as np
import pytest

from cmtrf import CMTRF
from cmtrf.errors import ParameterError
from cmtrf.plan import check_parameters, make_plan
from problems import random_ratings


def plan(**parameters):
    every = {**CMTRF().get_params(), **parameters}
    check_parameters(every)
    return make_plan(every, random_ratings(np.random.default_rng(0), (12, 9, 4)))


def test_margins_are_one_or_one_a_gap_lowest_first():
    np.testing.assert_array_equal(plan().gaps, [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(plan(margin=2).gaps, [2, 2, 2])
    np.testing.assert_array_equal(plan(margin=[1, 2, 3]).gaps, [1, 2, 3])


@pytest.mark.parametrize("margin", [-1, [1, 2], np.nan, "wide", "0.5", True, [[1.0]], [0.5, -0.1, 1], [1, [2], 3]])
def test_margins_that_cannot_be(margin):
    with pytest.raises(ParameterError, match="margin"):
        plan(margin=margin)


def test_a_pair_of_bias_ridges_is_user_then_item():
    assert plan(lambda_bias=(1, 2)).lambda_bias == (1.0, 2.0)
    assert plan(lambda_bias=3).lambda_bias == plan(lambda_bias=np.array(3.0)).lambda_bias == (3.0, 3.0)


def test_words_and_numbers_of_numpy_are_taken():
    made = plan(rank=np.int64(3), lambda_u=np.float32(2), shrinkage=np.float32(3), n_scales=np.int64(2))
    assert (made.rank, made.lambda_u, made.shrinkage, made.n_scales) == (3, 2.0, 3.0, 2)
    assert plan(shrinkage="auto").shrinkage == 0


def test_impossible_parameters_are_told_before_the_table_is_read():
    for parameters in ({"rank": -1}, {"n_jobs": 0}, {"lambda_u": 1e39}, {"random_state": -1}, {"tol": "small"}):
        with pytest.raises(ParameterError, match=next(iter(parameters))):
            CMTRF(**parameters).fit("no such file.csv")
