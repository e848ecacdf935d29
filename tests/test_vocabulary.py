"""Ids and levels: codes there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from cmtrf.errors import DataError, ParameterError
from cmtrf.vocabulary import MAX_LEVELS, Grid, Vocabulary, as_ids

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20), min_size=1)


@given(
    INTEGERS | st.lists(st.text(), min_size=1) | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1)
)
def test_ids_come_back_as_they_came(values):
    vocabulary, codes = Vocabulary.of(values)
    assert vocabulary.ids.tolist() == sorted(set(values))
    assert vocabulary.ids[codes].tolist() == values
    assert {type(i) for i in vocabulary.ids.tolist()} == {type(value) for value in values}
    assert vocabulary.codes(values).tolist() == codes.tolist()
    assert codes.dtype == np.int64


@given(INTEGERS, INTEGERS)
def test_codes_of_integers_agree_with_a_dictionary(values, asked):
    vocabulary, _ = Vocabulary.of(np.array(values, np.int64))
    expected = {value: code for code, value in enumerate(sorted(set(values)))}
    assert vocabulary.codes(np.array(asked, np.int64)).tolist() == [expected.get(value, -1) for value in asked]


def test_ids_of_another_kind_are_unknown():
    words, _ = Vocabulary.of(["a", "b", "1"])
    assert words.codes(["b", 1, None, ["x"], "c"]).tolist() == [1 + 1, -1, -1, -1, -1]
    assert words.codes(np.array([1, 2])).tolist() == [-1, -1]
    numbers, _ = Vocabulary.of([1, 5])
    assert numbers.codes(["1", 1, True, 5.0, 5.5, None, float("nan")]).tolist() == [-1, 0, -1, 1, -1, -1, -1]
    assert numbers.codes(np.array(["1", "5"])).tolist() == [-1, -1]
    assert numbers.codes(np.array([True])).tolist() == [-1]
    assert numbers.codes(np.array(["2020-01-01"], "datetime64[D]")).tolist() == [-1]


def test_a_whole_float_is_the_integer_it_equals_and_nothing_beyond():
    integers, _ = Vocabulary.of([3, 2**53, 2**53 + 1])
    assert integers.codes(np.array([3.0, 3.5, np.nan, np.inf, -1e300])).tolist() == [0, -1, -1, -1, -1]
    assert integers.codes(np.array([2.0**54])).tolist() == [-1]
    floats, _ = Vocabulary.of([1.0, 2.5])
    assert floats.ids.dtype == np.float64
    assert floats.codes(np.array([1, 2, 2**53 + 1])).tolist() == [0, -1, -1]


def test_an_empty_vocabulary_knows_nothing():
    vocabulary, codes = Vocabulary.of(np.empty(0, np.int64))
    assert len(vocabulary) == len(codes) == 0
    assert vocabulary.codes([1]).tolist() == vocabulary.codes(np.array([1])).tolist() == [-1]


def test_texts_of_a_command_line_are_parsed_only_where_unambiguous():
    numbers, _ = Vocabulary.of([7, 12])
    assert numbers.codes(numbers.parse(["7", " 12 ", "007", "+7", "7.0", "x", "1_2", "\u0667"])).tolist() == [
        0, 1, -1, -1, -1, -1, -1, -1,
    ]  # fmt: skip
    assert numbers.parse(["7", "12"]).dtype == np.int64
    assert numbers.codes(numbers.parse(["9" * 30, "x"])).tolist() == [-1, -1]
    words, _ = Vocabulary.of(["7", "x"])
    assert words.codes(words.parse(["7", "x"])).tolist() == [0, 1]
    floats, _ = Vocabulary.of([7.0, 2.5])
    assert floats.codes(floats.parse(["7", "2.5", "nan", "x"])).tolist() == [1, 0, -1, -1]


@pytest.mark.parametrize("values", [np.array([3, 1], np.int16), np.array([3, 1], np.uint64), [np.int32(3), 1]])
def test_all_integers_become_int64(values):
    assert as_ids(values).dtype == np.int64
    assert as_ids(values).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], r"row 1: the id is missing \(None\)"),
        ([1, float("nan")], r"row 1: the id is missing \(NaN\)"),
        (np.array([1.0, np.inf]), r"row 1: the id is not finite \(inf\)"),
        (["a", "b", 3], "row 2: 3 is a number among texts.*cast the column to string"),
        ([3, "a"], "row 1: 'a' is a text among numbers.*cast the column to string"),
        ([True, False], r"row 0: True \(bool\) cannot be an id; cast the column to string"),
        (np.array([True]), "row 0: True .*cast the column to string"),
        ([[1], [2]], r"row 0: \[1\] \(list\) cannot be an id; cast the column to string"),
        (np.array(["2020-01-01"], "datetime64[D]"), "row 0: .*2020.*cast the column to string"),
        (np.array([1 + 2j]), "Complex data not supported"),
        ([1, 2**63], "row 1: the id 9223372036854775808 is too large.*cast the column to string"),
        (np.array([1, 2**63], np.uint64), "row 1: the id 9223372036854775808 is too large"),
        ([b"a"], r"row 0: b'a' \(bytes\) cannot be an id"),
        (np.zeros((2, 2)), r"shape \(2, 2\).*Reshape your data"),
        (5, "expected a column of values, got 5"),
    ],
)
def test_what_cannot_be_an_id_is_named(values, message):
    with pytest.raises(DataError, match=message):
        Vocabulary.of(values)


def test_an_id_array_of_the_caller_is_not_changed():
    values = np.array(["b", "a"], object)
    Vocabulary.of(values)
    assert values.tolist() == ["b", "a"]
    assert values.flags.writeable


def test_a_grid_of_numbers():
    grid = Grid.of_levels([1, 2.5, np.float32(4)])
    assert grid.levels.tolist() == [1.0, 2.5, 4.0]
    assert grid.encode(np.array([4.0, 1.0, 2.0, np.nan, 9.0, 2.5])).tolist() == [2, 0, -1, -1, -1, 1]
    assert grid.decode(np.array([2, 0])).tolist() == [4.0, 1.0]
    assert grid.encode(np.array(["1"], object)).tolist() == [-1]
    with pytest.raises(ValueError, match="off the grid"):
        grid.decode(np.array([-1]))


def test_single_precision_is_near_enough_and_nothing_else_is():
    grid = Grid.of_levels([k / 10 for k in range(1, 60)])
    assert grid.encode(np.float32(grid.values)).tolist() == list(range(59))
    assert grid.encode(grid.values + 1e-4).tolist() == [-1] * 59


def test_a_grid_of_words_counts_them_from_one():
    grid = Grid.of_levels(["bad", "fair", "good"])
    assert grid.words == ("bad", "fair", "good")
    assert grid.values.tolist() == [1, 2, 3]
    assert grid.levels.tolist() == ["bad", "fair", "good"]
    assert grid.encode(np.array(["good", "bad", "?", "BAD"], object)).tolist() == [2, 0, -1, -1]
    assert grid.encode(np.array([1.0, 2.0])).tolist() == [-1, -1]
    assert grid.decode(np.array([2, 0])).tolist() == ["good", "bad"]


def test_texts_that_are_numbers_are_numbers_in_a_grid_too():
    assert Grid.of_levels(["1", "2", "10"]).levels.tolist() == [1.0, 2.0, 10.0]
    mixed = Grid.of_levels(["1", "2", "3+"])
    assert mixed.words == ("1", "2", "3+")
    assert mixed.encode(np.array([2.0, 1.0, 3.0])).tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([1, 3, 2], "lowest first; 2 comes after 3"),
        ([1, 1, 2], "distinct; 1 is there twice"),
        (["a", "b", "a"], "distinct, non-empty words"),
        (["a", " "], "distinct, non-empty words"),
        (["a", 1], "'a' is not a finite number"),
        ([1, float("nan")], "nan is not a finite number"),
        ([True, False], "True is not a finite number"),
        ([3], "between 2 and 100 of them; got 1"),
        (range(MAX_LEVELS + 1), "got 101"),
        ({1, 2}, "must be a sequence"),
        ("12345", "must be a sequence"),
        (5, "must be a sequence"),
    ],
)
def test_levels_that_cannot_be_say_why(levels, message):
    with pytest.raises(ParameterError, match=message):
        Grid.of_levels(levels)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60))
def test_the_grid_of_the_data_gives_the_data_back(ratings):
    grid = Grid.of_ratings(np.array(ratings))
    assert grid.decode(grid.encode(np.array(ratings))).tolist() == ratings


def test_strings_of_numpy_s_own_type_are_texts():
    names = np.array(["b", "a", "b"], dtype=np.dtypes.StringDType())
    vocabulary, codes = Vocabulary.of(names)
    assert vocabulary.ids.tolist() == ["a", "b"]
    assert codes.tolist() == vocabulary.codes(names).tolist() == [1, 0, 1]
