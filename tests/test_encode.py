"""Columns become codes: the same bits from every kind of table, and errors that name the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from cmtrf.encode import Encoded, encode, encode_pairs
from cmtrf.errors import DataError, ParameterError
from cmtrf.tables.reading import read


def make_table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.choice(20 * 15, n, replace=False)
    return {
        "user": [f"u{pair // 15}" for pair in pairs],
        "item": (pairs % 15 * 3 - 7).tolist(),
        "rating": (rng.integers(1, 6, n) / 2).tolist(),
        "timestamp": rng.integers(0, 10**9, n).tolist(),
    }


def bits(coded: Encoded):
    arrays = (*coded.ratings.by_user, *coded.ratings.by_item, coded.ratings.level_counts, coded.grid.values)
    return (
        [(array.dtype, array.shape, array.tobytes()) for array in arrays],
        coded.users.ids.tolist(),
        coded.items.ids.tolist(),
        coded.grid.words,
    )


def rated(*rows, **columns):
    return pl.DataFrame(list(rows), schema=["user", "item", "rating"], orient="row").with_columns(
        **{name: pl.Series(values) for name, values in columns.items()}
    )


def test_every_kind_of_table_gives_the_same_bits(tmp_path):
    data = make_table()
    table = pl.DataFrame(data)
    table.write_csv(tmp_path / "r.csv")
    table.write_csv(tmp_path / "r.tsv", separator="\t")
    table.write_parquet(tmp_path / "r.parquet")
    lines = ["::".join(map(str, row)) for row in table.rows()]
    (tmp_path / "r.dat").write_text("\n".join(lines))
    categorical = pd.DataFrame(data).astype({"user": "category", "rating": "Float64"})
    frames = [table.lazy(), pd.DataFrame(data), pa.table(data), categorical]
    sources = [*frames, data, tuple(data.values()), table.rows()]
    sources += [tmp_path / f"r.{suffix}" for suffix in ("csv", "tsv", "parquet", "dat")]
    expected = bits(encode(read(table)))
    for source in sources:
        assert bits(encode(read(source))) == expected
    assert bits(encode(read(table[:, :2], y=data["rating"]))) == expected


def test_codes_are_those_of_the_sorted_ids():
    data = make_table()
    coded = encode(read(data))
    assert coded.users.ids.tolist() == sorted(set(data["user"]))
    assert coded.items.ids.tolist() == sorted(set(data["item"]))
    assert coded.grid.levels.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    rows = coded.ratings.by_user
    users = np.repeat(np.arange(coded.ratings.n_users), np.diff(rows.indptr))
    found = zip(coded.users.ids[users], coded.items.ids[rows.indices], coded.grid.decode(rows.level), strict=True)
    assert sorted(found) == sorted(zip(data["user"], data["item"], data["rating"], strict=True))


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["error", "keep"]), st.booleans())
def test_the_order_of_the_rows_does_not_matter(random, duplicates, weighted):
    rows = list(pl.DataFrame(make_table()).rows())
    if duplicates == "keep":
        rows += [(*row[:2], 1.5, 3) for row in rows[:5]]
    weights = [(k % 3) / 2 for k in range(len(rows))] if weighted else [1.0] * len(rows)
    shuffled = list(range(len(rows)))
    random.shuffle(shuffled)
    first = encode(read(rows, sample_weight=weights), duplicates=duplicates)
    again = read([rows[k] for k in shuffled], sample_weight=[weights[k] for k in shuffled])
    assert bits(encode(again, duplicates=duplicates)) == bits(first)


def test_a_weight_of_zero_is_as_if_the_row_were_not_there():
    table = rated(("a", 1, 1.0), ("b", 2, 2.0), ("c", 3, 9.0), ("a", 1, 2.0), w=[1.0, 2.0, 0.0, 0.0])
    coded = encode(read(table, weight="w"), levels=[1, 2])
    assert bits(coded) == bits(encode(read(table[:2], weight="w")))
    assert coded.users.ids.tolist() == ["a", "b"]
    assert coded.ratings.total_weight == 3
    with pytest.raises(DataError, match=r"column 'w': every weight is zero, .*n_samples = 0"):
        encode(read(table[2:], weight="w"))


def test_weights_of_one_are_no_weights():
    table = rated(("a", 1, 1.0), ("b", 2, 2.0), w=[1, 1])
    assert bits(encode(read(table, weight="w"))) == bits(encode(read(table)))
    assert len(encode(read(table, weight="w")).ratings.by_user.weight) == 0
    weighted = encode(read(table, sample_weight=[1, 2]), dtype=np.float64).ratings.by_user.weight
    assert weighted.dtype == np.float64


def test_a_repeated_pair_is_an_error_that_names_both_rows():
    table = rated(("a", 1, 1.0), ("b", 2, 2.0), ("a", 3, 1.0), ("b", 2, 3.0), ("a", 1, 1.0))
    message = (
        r"user 'b' rates item 2 twice: row 1 of the table and row 3 of the table \(2 repeats in all\); .*"
        "duplicates='last', 'first' or 'keep'"
    )
    with pytest.raises(DataError, match=message):
        encode(read(table))


@pytest.mark.parametrize(
    ("duplicates", "times", "kept"),
    [
        ("first", None, [(0, 0)]),
        ("last", None, [(0, 2)]),
        ("first", [5, 0, 4, 4], [(0, 1)]),
        ("last", [5, 0, 4, 5], [(0, 2)]),
        ("keep", None, [(0, 0), (0, 1), (0, 2)]),
    ],
)
def test_of_a_repeated_pair_one_is_kept(duplicates, times, kept):
    table = rated(("a", 1, 1.0), ("b", 2, 4.0), ("a", 1, 2.0), ("a", 1, 3.0))
    if times is not None:
        table = table.with_columns(time=pl.Series(times))
    coded = encode(read(table), levels=[1, 2, 3, 4], duplicates=duplicates)
    rows = coded.ratings.by_user
    assert [(0, level) for level in rows.level[: rows.indptr[1]].tolist()] == kept
    assert rows.level[rows.indptr[1] :].tolist() == [3]


def test_a_repeated_pair_without_a_time_cannot_be_chosen_from():
    table = rated(("a", 1, 1.0), ("b", 2, 3.0), ("a", 1, 2.0), time=[1, None, None])
    with pytest.raises(DataError, match="column 'time', row 2 of the table: a repeated pair has no timestamp"):
        encode(read(table), duplicates="last")
    assert encode(read(table[:2])).ratings.n_ratings == 2


def test_stated_levels_are_the_scale_and_others_are_an_error():
    table = rated(("a", 1, 4.0), ("b", 2, 2.0))
    coded = encode(read(table), levels=[1, 2, 3, 4, 5])
    assert coded.grid.levels.tolist() == [1, 2, 3, 4, 5]
    assert coded.ratings.n_levels == 5
    with pytest.raises(DataError, match=r"column 'rating', row 0 of the table: 4.0 is not one of the levels 1.0, 2.0"):
        encode(read(table), levels=[1, 2])
    with pytest.raises(ParameterError, match="lowest first"):
        encode(read(table), levels=[5, 4, 3, 2, 1])


def test_one_level_is_an_error():
    table = rated(("a", 1, 4.0), ("b", 2, 4.0))
    message = r"column 'rating': all ratings \(n_samples = 2\) are 4.0: one distinct level"
    for levels in (None, [3, 4, 5]):
        with pytest.raises(DataError, match=message):
            encode(read(table), levels=levels)


def test_a_continuous_rating_is_refused_with_advice():
    ratings = np.arange(101) / 7
    with pytest.raises(DataError, match=r"has 101 distinct values, more than max_levels = 100: .*bin it yourself"):
        encode(read((np.arange(101), np.arange(101)), y=ratings))
    assert encode(read((np.arange(100), np.arange(100)), y=ratings[:100])).ratings.n_levels == 100


def test_words_need_an_order():
    table = rated(("a", 1, "good"), ("b", 2, "bad"))
    message = r"column 'rating', row 0 of the table: 'good' is not a number; .*'bad', 'good'.* pass levels=\[...\]"
    with pytest.raises(DataError, match=message):
        encode(read(table))
    coded = encode(read(table), levels=["bad", "fair", "good"])
    assert coded.grid.levels.tolist() == ["bad", "fair", "good"]
    assert coded.grid.values.tolist() == [1, 2, 3]
    assert coded.ratings.by_user.level.tolist() == [2, 0]
    with pytest.raises(DataError, match="row 1 of the table: 'bad' is not one of the levels fair, good"):
        encode(read(table), levels=["fair", "good"])


def test_one_text_among_numbers_is_named(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("user,item,stars\na,1,4\n\nb,2,four\n")
    with pytest.raises(DataError, match=r"column 'stars', line 4 of r\.csv: 'four' is not a number; correct it"):
        encode(read(path))


def test_ordered_categories_bring_their_order():
    order = pl.Enum(["bad", "fair", "good"])
    table = rated(("a", 1, "good"), ("b", 2, "bad")).cast({"rating": order})
    coded = encode(read(table))
    assert coded.grid.words == ("bad", "fair", "good")
    assert bits(coded) == bits(encode(read(table.to_pandas())))
    assert encode(read(table), levels=["awful", "bad", "fair", "good"]).ratings.n_levels == 4
    with pytest.raises(ParameterError, match=r"column 'rating' has categories 'fair' that levels=\['bad', 'good'\]"):
        encode(read(table), levels=["bad", "good"])


def test_texts_that_happen_to_be_numbers_meet_their_words():
    coded = encode(read((["a", "b"], [1, 2], ["1", "2"])), levels=["1", "2", "3+"])
    assert coded.grid.words == ("1", "2", "3+")
    assert coded.ratings.by_user.level.tolist() == [0, 1]


def test_pairs_have_the_codes_of_the_vocabularies(tmp_path):
    coded = encode(read(rated(("a", 1, 1.0), ("b", 2, 2.0))))
    users, items = encode_pairs(read((["b", "x"], [9, 1]), rated=False), coded.users, coded.items)
    assert (users.tolist(), items.tolist()) == ([1, -1], [-1, 0])
    users, items = encode_pairs(read(([1, 2], ["1", "2"]), rated=False), coded.users, coded.items)
    assert (users.tolist(), items.tolist()) == ([-1, -1], [-1, -1])


def test_ids_of_a_file_are_what_the_vocabulary_makes_of_them(tmp_path):
    coded = encode(read(rated(("007", 1, 1.0), ("12", 2, 2.0))))
    path = tmp_path / "pairs.csv"
    path.write_text("user,item\n12,1\n7,x\n")
    users, items = encode_pairs(read(path, rated=False), coded.users, coded.items)
    assert (users.tolist(), items.tolist()) == ([1, -1], [0, -1])


def test_pairs_alone_cannot_be_encoded_as_ratings():
    with pytest.raises(DataError, match="has no ratings"):
        encode(read((["a"], [1]), rated=False))


def test_the_callers_arrays_stay_writable():
    users, items, ratings = np.array(["b", "a"], object), np.array([1, 2]), np.array([1.0, 2.0])
    encode(read((users, items, ratings), sample_weight=np.array([1.0, 2.0])))
    assert users.tolist() == ["b", "a"]
    assert all(array.flags.writeable for array in (users, items, ratings))


def test_a_text_that_only_python_reads_as_a_number_is_named():
    with pytest.raises(DataError, match="'1_0' is not a number"):
        encode(read((["a", "b"], ["x", "y"], ["1_0", "3"])))


def test_decimal_commas_are_named():
    with pytest.raises(DataError, match="decimal commas, such as '3,5'"):
        encode(read((["a", "b"], ["x", "y"], ["3,5", "4"])))


def test_what_no_number_can_hold_is_refused():
    with pytest.raises(DataError, match=r"row 1 .*1e\+300 is too large for a rating"):
        encode(read((["a", "b", "c"], ["x", "y", "x"], [1.0, 1e300, 2.0])))
    with pytest.raises(DataError, match=r"row 2 .*the weight 1e\+300 is too large"):
        encode(read((["a", "b", "c"], ["x", "y", "x"], [1.0, 3.0, 2.0]), sample_weight=[1, 1, 1e300]))


def test_a_level_far_from_the_others_is_told(caplog):
    encode(read((list("abcdef"), ["x"] * 6, [1, 2, 3, 4, 5, 99])))
    assert "the levels 5 and 99 lie far apart" in caplog.text
    caplog.clear()
    encode(read((list("abcdef"), ["x"] * 6, [0.5, 1, 2, 3, 4, 5])))
    assert caplog.text == ""


def test_unreadable_times_cannot_choose_among_duplicates():
    table = pl.DataFrame({"user": ["a", "a", "b"], "item": [1, 1, 2], "rating": [1, 2, 3], "time": ["x", "y", "z"]})
    with pytest.raises(DataError, match="'time' could not be read as times"):
        encode(read(table), duplicates="last")
