"""Tables of every kind become the same columns; what is wrong with one is said by column, row and value."""

from __future__ import annotations

import datetime
import gzip
import logging
import os
import stat

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning

from cmtrf.errors import DataError, MissingFileError, ParameterError
from cmtrf.tables.reading import read
from cmtrf.tables.writing import frame, write_file

DATA = {"userId": ["b", "a", "b"], "movieId": [10, 10, 7], "rating": [4.0, 2.5, 1.0], "timestamp": [9, 8, 7]}
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "lazy": pl.LazyFrame,
    "dict": dict,
}


def write(path, text):
    path.write_bytes(text.encode())
    return path


def check(columns):
    assert columns.user.tolist() == DATA["userId"]
    assert columns.item.tolist() == DATA["movieId"]
    assert columns.rating.tolist() == DATA["rating"]
    assert columns.timestamp.tolist() == DATA["timestamp"]
    assert columns.user.dtype == object
    assert columns.item.dtype == np.int64
    assert columns.rating.dtype == columns.timestamp.dtype == np.float64
    assert columns.weight is None


# Kinds of tables


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_any_kind_is_read(kind):
    columns = read(KINDS[kind](DATA))
    check(columns)
    assert columns.kind == {"lazy": "polars", "dict": None}.get(kind, kind)
    assert columns.names == {
        "user": "userId",
        "item": "movieId",
        "rating": "rating",
        "timestamp": "timestamp",
    }
    assert columns.where(17) == "row 17 of the table"
    assert columns.place("user", 2) == "column 'userId', row 2 of the table"


@pytest.mark.parametrize(
    "table",
    [
        tuple(DATA.values()),
        [np.array(values) for values in DATA.values()],
        tuple(pd.Series(values) for values in DATA.values()),
        tuple(pl.Series(values) for values in DATA.values()),
        [list(row) for row in zip(*DATA.values(), strict=True)],
        list(zip(*DATA.values(), strict=True)),
        np.array(list(zip(*DATA.values(), strict=True)), object),
    ],
)
def test_arrays_and_lists_are_read(table):
    columns = read(table)
    check(columns)
    assert columns.kind is None


def test_plain_arrays_keep_the_type_of_their_ids():
    columns = read(np.array([[1, 2, 3], [4, 5, 6]]))
    assert columns.user.dtype == np.int64
    columns = read(np.array([[1, 2, 3.5], [4, 5, 6]]))
    assert columns.user.dtype == np.float64
    columns = read(np.array([["1", "x", "3.5"], ["4", "y", "6"]]))
    assert columns.user.tolist() == ["1", "4"]
    assert columns.rating.tolist() == [3.5, 6.0]


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.csc_array, sp.lil_array, sp.dok_array])
def test_every_stored_entry_of_a_sparse_matrix_is_a_rating(make):
    columns = read(make(np.array([[5.0, 0.0], [0.0, 3.0]])))
    assert sorted(zip(columns.user.tolist(), columns.item.tolist(), columns.rating.tolist(), strict=True)) == [
        (0, 0, 5.0),
        (1, 1, 3.0),
    ]


def test_stored_zeros_are_ratings_and_entries_say_where_they_are():
    columns = read(sp.coo_array(([0.0, 5.0], ([0, 1], [3, 2])), shape=(2, 4)))
    assert columns.rating.tolist() == [0.0, 5.0]
    with pytest.raises(DataError, match=r"stored entry 1 of the matrix \(row 1, column 2\): the rating is missing"):
        read(sp.coo_array(([0.0, np.nan], ([0, 1], [3, 2]))))
    with pytest.raises(DataError, match="Complex data not supported"):
        read(sp.coo_array(([1j], ([0], [0]))))


def test_columns_of_a_sparse_matrix_may_be_named():
    matrix = sp.coo_array(([4.0, 5.0], ([0, 1], [3, 2])))
    turned = read(matrix, user="item", item="user")
    assert (turned.user.tolist(), turned.item.tolist()) == ([3, 2], [0, 1])
    assert read(matrix, weight="rating", y=[1, 2]).weight.tolist() == [4, 5]


TEXT = {
    "a.csv": "userId,movieId,rating,timestamp\nb,10,4.0,9\na,10,2.5,8\nb,7,1.0,7\n",
    "b.tsv": "userId\tmovieId\trating\ttimestamp\nb\t10\t4\t9\na\t10\t2.5\t8\nb\t7\t1\t7\n",
    "ratings.dat": "b::10::4::9\na::10::2.5::8\nb::7::1::7\n",
    "u.data": "b\t10\t4\t9\na\t10\t2.5\t8\nb\t7\t1\t7\n",
    "semicolon.csv": '"User-ID";"ISBN";"Book-Rating";"ts"\n"b";10;4;9\n"a";10;"2.5";8\nb;7;1;7\n',
    "windows.csv": "\ufeffuserId,movieId,rating,timestamp\r\nb,10,4.0,9\r\na,10,2.5,8\r\nb,7,1.0,7",
    "blank.csv": "\nuserId,movieId,rating,timestamp\n\nb,10,4.0,9\na,10,2.5,8\n\n\nb,7,1.0,7\n\n",
    "blank.dat": "\n\nb::10::4::9\n\na::10::2.5::8\nb::7::1::7\n\n",
    "spaces.txt": "b 10 4 9\na 10 2.5 8\nb 7 1 7\n",
    "padded.csv": "userId, movieId, rating, timestamp\nb, 10, 4, 9\na, 10, 2.5, 8\nb, 7, 1, 7\n",
    "header.dat": "UserID::MovieID::Rating::Timestamp\nb::10::4::9\na::10::2.5::8\nb::7::1::7\n",
    "[odd]*.csv": "userId,movieId,rating,timestamp\nb,10,4.0,9\na,10,2.5,8\nb,7,1.0,7\n",
}


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("packed", [False, True])
def test_a_text_file_of_any_layout_is_read(tmp_path, name, packed):
    path = write(tmp_path / name, TEXT[name])
    if packed:
        packed_path = tmp_path / (name + ".gz")
        packed_path.write_bytes(gzip.compress(path.read_bytes()))
        path = packed_path
    columns = read(path)
    check(columns)
    check(read(str(path)))
    assert (columns.kind, columns.untyped, columns.source) == (None, True, path.name)
    expected = [n for n, line in enumerate(TEXT[name].split("\n"), 1) if line.lstrip('"')[:1] in ("b", "a")]
    assert [columns.where(row) for row in range(3)] == [f"line {n} of {path.name}" for n in expected]


def test_parquet_is_read_and_only_the_columns_needed(tmp_path):
    pl.DataFrame(DATA | {"more": [[1], [2], [3]]}).write_parquet(tmp_path / "r.parquet")
    columns = read(tmp_path / "r.parquet")
    check(columns)
    assert columns.kind is None
    assert columns.where(1) == "row 1 of r.parquet"


def test_ids_in_a_text_file_lose_no_digit(tmp_path):
    columns = read(write(tmp_path / "r.csv", "user,isbn,rating\n1,007,4\n2,12,5\n"))
    assert columns.user.tolist() == [1, 2]
    assert columns.item.tolist() == ["007", "12"]
    columns = read(write(tmp_path / "r.csv", 'user,item,rating\n99999999999999999999,"a,""b",4\n2,NA,5\n'))
    assert columns.user.tolist() == ["99999999999999999999", "2"]
    assert columns.item.tolist() == ['a,"b', "NA"]


def test_a_line_number_minds_quoted_line_ends(tmp_path):
    text = 'user,item,rating\n"a\nb",x,4\n\nc,"y\n\n",5\nd,z,oops\ne,z,4\n'
    columns = read(write(tmp_path / "r.csv", text), rated=False)
    assert [columns.where(row) for row in range(4)] == [f"line {n} of r.csv" for n in (2, 5, 8, 9)]
    columns = read(write(tmp_path / "r.csv", text))
    assert columns.rating.tolist() == ["4", "5", "oops", "4"]


# Which column is what


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["User ID", "ITEM-ID", "Rating"], ["User ID", "ITEM-ID", "Rating"]),
        (["rater", "essay", "score", "Movie_Id"], ["rater", "Movie_Id", "score"]),
        (["worker_id", "task", "label"], ["worker_id", "task", "label"]),
        (["user", "reviewer", "asin", "item", "stars", "rating"], ["user", "item", "rating"]),
        (["User-ID", "ISBN", "Book-Rating"], ["User-ID", "ISBN", "Book-Rating"]),
        (["user_id", "business_id", "stars", "review_id"], ["user_id", "business_id", "stars"]),
    ],
)
def test_columns_are_found_by_their_usual_names_and_said(names, found, caplog):
    table = pl.DataFrame({name: [k, k + 1] for k, name in enumerate(names)})
    with caplog.at_level(logging.INFO, logger="cmtrf"):
        columns = read(table)
    assert [columns.names[role] for role in ("user", "item", "rating")] == found
    assert f"user = {found[0]!r}, item = {found[1]!r}, rating = {found[2]!r}" in caplog.text


def test_named_columns_are_taken_and_a_weight_only_if_named():
    table = pl.DataFrame({"user": [1, 2], "who": [3, 4], "item": [5, 6], "x": [1, 2], "weight": [1, 0], "t": [7, 8]})
    columns = read(table, user="who", rating="x", timestamp="t")
    assert columns.user.tolist() == [3, 4]
    assert columns.timestamp.tolist() == [7, 8]
    assert columns.weight is None
    assert read(table, rating="x", weight="weight").weight.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("names", "arguments", "message"),
    [
        (["user", "movie", "book", "rating"], {}, "item column could be 'movie' or 'book'; pass item="),
        (["user", "user_id", "item", "rating"], {}, "user column could be 'user' or 'user_id'; pass user="),
        (
            ["a", "item", "rating"],
            {},
            "no user column; the columns are 'a', 'item', 'rating'; pass user='<column>'",
        ),
        (["user", "item", "r"], {}, "no rating column; the columns are 'user', 'item', 'r'; pass rating="),
        (
            ["user", "item", "r"],
            {"rating": "R"},
            "no column 'R'; the columns are 'user', 'item', 'r'.*rating=",
        ),
        (["user", "item", "r"], {"rating": "r", "y": [1, 2]}, "both y and a rating column 'r'"),
        (["user", "item", "rating"], {"y": [1, 2]}, "both y and a rating column 'rating'"),
        (["user", "item", "rating"], {"item": "user"}, "column 'user' is named twice|no user column"),
        (["user", "item"], {"y": [1, 2, 3]}, "y has 3 values, but the table has 2 rows"),
        (["user", "item", "rating"], {"sample_weight": [1]}, "sample_weight has 1 values"),
        (
            ["user", "item", "w", "rating"],
            {"sample_weight": [1, 1], "weight": "w"},
            "both weight= and sample_w",
        ),
        (["a", "b"], {}, "no user column; the columns are 'a', 'b'"),
    ],
)
def test_columns_that_cannot_be_told_are_an_error(names, arguments, message):
    table = pd.DataFrame({name: [k, k + 1] for k, name in enumerate(names)})
    with pytest.raises((DataError, ParameterError), match=message):
        read(table, **arguments)


def test_two_columns_of_any_names_are_user_and_item_beside_y_and_in_prediction():
    table = pd.DataFrame([["u", 1], ["v", 2]])
    for columns in (read(table, y=pd.Series([3, 4], index=[8, 9])), read(table, rated=False)):
        assert columns.user.tolist() == ["u", "v"]
        assert columns.item.tolist() == [1, 2]
    assert read(np.array([[1, 2], [3, 4]]), y=[5, 6]).rating.tolist() == [5, 6]


def test_prediction_does_not_look_at_ratings():
    columns = read(pl.DataFrame({"user": [1], "item": [2], "rating": [None], "date": ["?"]}), rated=False)
    assert columns.rating is None
    assert columns.timestamp is None
    assert read(sp.coo_array(([np.nan], ([4], [2]))), rated=False).user.tolist() == [4]


def test_a_column_vector_of_ratings_is_taken_with_scikit_learns_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert read(np.array([[1, 2], [3, 4]]), y=np.array([[1], [2]])).rating.tolist() == [1, 2]


def test_duplicate_column_names_are_an_error(tmp_path):
    with pytest.raises(DataError, match="unique column names"):
        read(pd.DataFrame([[1, 2, 3]], columns=["user", "user", "rating"]))
    with pytest.raises(DataError, match="user column could be 'user' or 'user'"):
        read(write(tmp_path / "r.csv", "user,user,item,rating\n1,2,3,4\n"))


# Values

BASE = {"user": ["a", "b", "c"], "item": [1, 2, 3], "rating": [1.0, 2.0, 3.0], "w": [1.0, 1.0, 1.0]}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"user": ["a", None, "c"]}, "column 'user', row 1 of the table: the id is missing"),
        ({"item": [1, None, 3]}, "column 'item', row 1 of the table: the id is missing"),
        ({"item": [1.0, 2.0, np.inf]}, r"column 'item', row 2 of the table: the id is not finite \(inf\)"),
        ({"rating": [1.0, None, 3.0]}, "column 'rating', row 1 of the table: the rating is missing"),
        ({"rating": [1.0, float("nan"), 3.0]}, r"row 1 of the table: the rating is missing \(NaN\)"),
        ({"rating": [1.0, 2.0, -np.inf]}, r"row 2 of the table: the rating is not finite \(-inf\)"),
        ({"rating": ["good", None, "bad"]}, "column 'rating', row 1 of the table: the rating is missing"),
        ({"rating": ["4", "", "5"]}, r"row 1 of the table: the rating is missing \(''\)"),
        ({"w": [1.0, -2.0, 1.0]}, "column 'w', row 1 of the table: the weight -2 is negative"),
        ({"w": [1.0, 1.0, None]}, "column 'w', row 2 of the table: the weight is missing"),
        ({"w": [1.0, np.inf, 1.0]}, "column 'w', row 1 of the table: the weight is not finite"),
        ({"w": ["1", "x", "1"]}, "column 'w', row 1 of the table: 'x' .*is not a number"),
        (
            {"user": [True, False, True]},
            "column 'user', row 0 of the table: .*True.* cast the column to string",
        ),
        (
            {"item": [datetime.date(2020, 1, 1)] * 3},
            "column 'item', row 0 of the table: .*cast the column to string",
        ),
        ({"item": [[1], [2], [3]]}, "column 'item', row 0 of the table: .*cast the column to string"),
        ({name: [] for name in BASE}, "the table is empty"),
    ],
)
def test_a_bad_value_is_named_by_column_row_and_value(kind, change, message):
    table = KINDS[kind](BASE | change)
    with pytest.raises(DataError, match=message):
        read(table, weight="w")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,rating\na,1,4\n\nb,,5\n", "column 'item', line 4 of r.csv: the id is missing"),
        ("user,item,rating\na,1,4\n\nb,2,\n", "column 'rating', line 4 of r.csv: the rating is missing"),
        ("user,item,rating\na,1,4\n,,\n", "column 'user', line 3 of r.csv: the id is missing"),
        ("user,item,rating\na,1,4\nb,2,inf\n", "column 'rating', line 3 of r.csv: the rating is not finite"),
        ("a,1,4\n\nb,2,nan\n", r"column 'rating', line 3 of r.csv: the rating is missing \(NaN\)"),
        ("user,item,rating\na,1,4\nb,2,5,6\n", "r.csv cannot be read: line 3 has 4 fields, but there are 3"),
        ('user,item,rating\na,1,4\n"b,2,5\n', "r.csv cannot be read: "),
        ("user,item,rating\n", "r.csv is empty"),
        ("\n\n", "r.csv is empty"),
        ("", "r.csv is empty"),
        ("PK\0\0", "r.csv is neither Parquet nor text"),
        ("1,2,3,4,5\n", "has 5 columns and no header"),
    ],
)
def test_a_bad_file_is_named_by_path_and_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(write(tmp_path / "r.csv", text))


def test_a_file_that_is_no_table_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.csv"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(MissingFileError):
        read("nowhere.parquet")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(DataError, match=r"r.parquet cannot be read: "):
        read(write(tmp_path / "r.parquet", "user,item,rating\n1,2,3\n"))
    (tmp_path / "latin.csv").write_bytes("user,item,rating\né,1,2\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.csv cannot be read: .*utf-8.*save it as UTF-8"):
        read(tmp_path / "latin.csv")
    whole = gzip.compress(b"user,item,rating\n" + os.urandom(2000).hex().encode())
    (tmp_path / "cut.csv.gz").write_bytes(whole[:200])
    with pytest.raises(DataError, match=r"cut.csv.gz cannot be read: "):
        read(tmp_path / "cut.csv.gz")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "cannot read a table from NoneType"),
        (5, "cannot read a table from int"),
        (np.arange(3), "Expected 2D array, got 1D array instead.*Reshape your data"),
        ([1, 2, 3], "Expected 2D array, got 1D array instead"),
        (("a", "b"), "Expected 2D array, got 1D array instead"),
        (np.zeros((3, 1)), r"1 feature\(s\) \(shape=\(3, 1\)\) while a minimum of 2 is required"),
        (np.zeros((15, 0)), r"0 feature\(s\) \(shape=\(15, 0\)\) while a minimum of 2 is required"),
        (np.zeros((3, 5)), r"5 feature\(s\)"),
        (np.zeros((0, 3)), r"the table is empty: it has 0 sample\(s\)"),
        ([], "empty"),
        (np.zeros((2, 3)) * 1j, "Complex data not supported"),
        (([1, 2], [1, 2, 3]), r"different lengths: \[2, 3\]"),
        ([[1, 2, 3], [1, 2]], r"row 1 of the table is \[1, 2\]; it must be a list of 3 entries"),
        (np.ma.array(np.ones((2, 3)), mask=np.eye(2, 3)), "masked entries"),
        (pd.Series([1, 2]), "Expected 2D array"),
        (np.array([[1, 2]]), "requires y to be passed, but the target y is None"),
        (([1, "a"], [1, 2], [3, 4]), "column 'user', row 1 of the table: 'a' is a text among numbers"),
        (
            ([1, 2], [1, 2], [3, {"a": 1}]),
            r"column 'rating', row 1 of the table: \{'a': 1\} \(dict\) is not a number",
        ),
    ],
)
def test_what_is_no_table_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        read(source)


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.Series([1, 2, 3], dtype=object),
        pd.Series([1, 2, 3], dtype="int64[pyarrow]"),
        pd.Series([1, 2, 3], dtype="category"),
        pd.Series([1, 2, 3], dtype="uint8"),
    ],
)
def test_integers_of_pandas_are_integers(ids):
    columns = read(pd.DataFrame({"user": ids, "item": ids, "rating": ids}))
    assert columns.user.dtype == np.int64
    assert columns.item.tolist() == [1, 2, 3]
    assert columns.rating.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series(["b", "a"], dtype="category"),
        pd.Series(["b", "a"], dtype="string"),
        pd.Series(["b", "a"], dtype=object),
        pl.Series(["b", "a"], dtype=pl.Categorical),
        pl.Series(["b", "a"], dtype=pl.Enum(["b", "a"])),
        pa.chunked_array([pa.array(["b", "a"]).dictionary_encode()]),
        np.array(["b", "a"]),
    ],
)
def test_texts_of_any_kind_are_ids(ids):
    columns = read((ids, [1, 2]), y=[1, 2])
    assert columns.user.tolist() == ["b", "a"]
    assert {type(value) for value in columns.user} == {str}


@pytest.mark.parametrize(
    "ratings",
    [
        pd.Series(pd.Categorical(["good", "bad"], ["bad", "fair", "good"], ordered=True)),
        pl.Series(["good", "bad"], dtype=pl.Enum(["bad", "fair", "good"])),
        pa.chunked_array([pa.DictionaryArray.from_arrays([2, 0], ["bad", "fair", "good"], ordered=True)]),
    ],
)
def test_the_order_of_categories_is_the_order_of_words(ratings):
    for columns in (read((["a", "b"], [1, 2], ratings)), read((["a", "b"], [1, 2]), y=ratings)):
        assert columns.words == ("bad", "fair", "good")
        assert columns.rating.tolist() == ["good", "bad"]


def test_ratings_that_are_texts_of_numbers_are_numbers():
    users = (["a", "b"], [1, 2])
    assert read((*users, ["4", " 3.5"])).rating.tolist() == [4, 3.5]
    assert read((*users, pd.Series(["4", "10"], dtype="category"))).rating.tolist() == [4, 10]
    increasing = read((*users, pl.Series(["10", "4"], dtype=pl.Enum(["4", "10"]))))
    assert (increasing.rating.tolist(), increasing.words) == ([10, 4], None)
    turned = read((*users, pl.Series(["10", "4"], dtype=pl.Enum(["10", "4"]))))
    assert (turned.rating.tolist(), turned.words) == (["10", "4"], ("10", "4"))
    assert read((*users, [True, False])).rating.tolist() == [1, 0]
    assert read((*users, pl.Series(["4", "3"]).cast(pl.Decimal(5, 2)))).rating.tolist() == [4, 3]
    with pytest.raises(DataError, match=r"row 1 of the table: 'good' .*is not a number"):
        read((*users, [4, "good"]))


def test_dates_become_seconds():
    second = 1_577_836_800.0  # 2020-01-01
    day = datetime.datetime(2020, 1, 1)
    for times in (
        pd.to_datetime(pd.Series(["2020-01-01", None])),
        pd.to_datetime(pd.Series(["2020-01-01T01:00:00+01:00", None]), utc=True),
        pl.Series([day, None]),
        pl.Series([day.date(), None]),
        [day, None],
        [pd.Timestamp(day), pd.NaT],
        ["2020-01-01", None],
        ["2020-01-01T01:00:00+01:00", ""],
        ["1577836800", None],
    ):
        columns = read({"user": [1, 2], "item": [1, 2], "rating": [1, 2], "date": times})
        np.testing.assert_array_equal(columns.timestamp, [second, np.nan])


def test_a_time_that_is_none_is_an_error_only_if_it_was_named(caplog):
    table = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [1, 2], "time": ["1", "late"]})
    assert read(table).timestamp is None
    assert "column 'time', row 1 of the table: 'late'" in caplog.text
    with pytest.raises(DataError, match=r"column 'time', row 1 of the table: 'late' \(str\) is neither a number"):
        read(table, timestamp="time")


def test_input_is_never_changed_nor_frozen():
    table = pd.DataFrame({"user": ["a", "b"], "item": [1, 2], "rating": [1.0, 2.0]})
    before = table.copy(deep=True)
    read(table)
    pd.testing.assert_frame_equal(table, before)
    ratings = np.array([[1, 2, 3.0]])
    read(ratings)
    assert ratings.flags.writeable


# Writing


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", None])
def test_a_frame_has_the_kind_and_the_types_asked_for(kind):
    data = {
        "user": np.array(["a", None], object),
        "rank": np.array([1, 2]),
        "rating": np.array([1.5, np.nan]),
        "count": np.array([3, None], object),
        "name": np.array(["x", "y"]),
    }
    made = frame(data, kind)
    assert isinstance(made, {"pandas": pd.DataFrame, "pyarrow": pa.Table}.get(kind, pl.DataFrame))
    as_polars = made if isinstance(made, pl.DataFrame) else pl.DataFrame(made)
    assert as_polars.dtypes == [pl.String, pl.Int64, pl.Float64, pl.Int64, pl.String]
    if kind != "pandas":
        assert as_polars.rows() == [("a", 1, 1.5, 3, "x"), (None, 2, None, None, "y")]
    else:
        assert made.isna().to_numpy().tolist() == [[False] * 5, [True, False, True, True, False]]


@pytest.mark.parametrize("nothing", [np.full(2, np.nan), [float("nan"), None], np.full(2, np.nan, object)])
def test_numbers_of_which_none_is_there_stay_numbers(tmp_path, nothing):
    made = {kind: frame({"rating": nothing}, kind) for kind in ("pandas", "polars", "pyarrow")}
    assert made["pandas"]["rating"].dtype == np.float64
    assert made["pandas"]["rating"].isna().all()
    assert made["pyarrow"].schema == pa.schema({"rating": pa.float64()})
    assert made["pyarrow"]["rating"].null_count == 2
    for table in made.values():
        write_file(table, tmp_path / "out.parquet")
        assert pl.read_parquet(tmp_path / "out.parquet").equals(made["polars"])
    assert made["polars"].equals(pl.DataFrame({"rating": [None, None]}, schema={"rating": pl.Float64}))
    assert made["polars"].schema == {"rating": pl.Float64}


def test_a_frame_of_an_unknown_kind_is_refused():
    with pytest.raises(ParameterError, match="kind must be 'pandas', 'polars', 'pyarrow' or None, got 'xls'"):
        frame({"a": [1]}, "xls")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_written_file_reads_back(tmp_path, kind, suffix):
    data = {"user": ["a", 'b "x", y'], "item": [1, 2], "rating": [1.5, 2.0]}
    path = tmp_path / f"out{suffix}"
    write_file(frame(data, kind), path)
    columns = read(path)
    assert columns.user.tolist() == data["user"]
    assert columns.item.tolist() == [1, 2]
    assert columns.rating.tolist() == [1.5, 2.0]
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    path.write_text("before")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            write_file(frame({"a": [1]}), path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_file_has_the_permissions_of_any_file(tmp_path):
    plain, ours = tmp_path / "plain.csv", tmp_path / "ours.csv"
    plain.write_text("")
    write_file(frame({"a": [1]}), ours)
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    ours.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(ours)
    write_file(frame({"a": [2]}), link)
    assert link.is_symlink()
    assert stat.S_IMODE(ours.stat().st_mode) == 0o640
    assert ours.read_text() == "a\n2\n"


def test_where_a_file_cannot_be_written_is_said(tmp_path):
    with pytest.raises(ParameterError, match=r"out.xlsx; its name must end in .csv, .tsv or .parquet"):
        write_file(frame({"a": [1]}), tmp_path / "out.xlsx")
    with pytest.raises(MissingFileError, match=r"there is no folder .*nowhere for out\.csv; create it first"):
        write_file(frame({"a": [1]}), tmp_path / "nowhere" / "out.csv")


def test_a_digest_tells_every_column_apart():
    table = {"user": [1, 2], "item": ["a", "b"], "rating": [3, 4], "timestamp": [5, 6], "w": [1, 2]}
    digest = read(table, weight="w").digest()
    assert read(dict(table), weight="w").digest() == digest
    others = [{**table, name: values[::-1]} for name, values in table.items()]
    others += [{**table, "item": ["a\0b", ""]}, {**table, "user": ["1", "2"]}]
    digests = {read(other, weight="w").digest() for other in others} | {digest, read(table).digest()}
    assert len(digests) == len(others) + 2
