"""Splits: what goes where, what is cold, and the paper's own counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cmtrf import CMTRF, datasets, splits
from cmtrf.errors import DataError, DataWarning, ParameterError
from cmtrf.splits.protocol import PAPER
from cmtrf.splits.split import without_cold
from problems import shared_data


def make_table(n=300, seed=0, users=40, items=30):
    """Distinct pairs with times, many of them equal."""
    rng = np.random.default_rng(seed)
    pairs = rng.choice(users * items, n, replace=False)
    return pl.DataFrame(
        {
            "user": pairs // items,
            "item": [f"i{item}" for item in pairs % items],
            "rating": rng.integers(1, 6, n),
            "timestamp": rng.integers(0, 60, n),
        }
    )


WAYS = {
    "chronological": splits.chronological,
    "uniform": splits.uniform,
    "user-wise": splits.user_wise,
    "user-wise, last": lambda table, share=0.2, **names: splits.user_wise(table, share, last=True, **names),
    "fold": lambda table, share=0.2, **names: splits.k_fold(table, round(1 / share), **names)[1],
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def rows_of(frame):
    return sorted(frame.select("user", "item", "rating", "timestamp").rows())


@ways
def test_every_row_is_in_one_part(way):
    table = make_table()
    train, test = split = way(table)
    assert rows_of(pl.concat([train, test])) == rows_of(table)
    assert split.left_out == 0
    assert train.columns == table.columns
    if split.name[:4] != "user":  # rounded for each user
        assert test.height == 60


@ways
def test_the_order_of_rows_does_not_matter(way):
    table = make_table()
    shuffled = table.sample(fraction=1, shuffle=True, seed=1)
    assert rows_of(way(table).test) == rows_of(way(shuffled).test)


@ways
def test_cold_rows_are_counted_and_said(way):
    table = make_table(150, users=60, items=50)
    split = way(table)
    train, test = split
    users, items = set(train["user"].to_list()), set(train["item"].to_list())
    cold = [user not in users or item not in items for user, item in test.select("user", "item").rows()]
    assert split.cold.tolist() == cold
    assert any(cold)
    assert f"{sum(cold)} test rows are cold ({np.mean(cold):.1%})" in str(split)
    assert f"{sum(user not in users for user in test['user'])} have a user" in str(split)
    assert f"{sum(item not in items for item in test['item'])} an item that train lacks" in str(split)


def test_a_split_without_cold_rows_says_so():
    table = pl.DataFrame({"user": [1, 1, 2, 2] * 5, "item": range(20), "rating": [1, 2] * 10})
    table = pl.concat([table, table.with_columns(user=3 - table["user"])])
    assert str(splits.uniform(table, 0.1)) == "uniform: 36 train rows, 4 test rows, none of them cold"


def test_test_comes_after_train():
    train, test = splits.chronological(make_table(), 0.3)
    assert test.height == 90
    assert train["timestamp"].max() <= test["timestamp"].min()
    same = train["timestamp"].max()  # the cut goes through rows of one time: by user, then item
    assert same == test["timestamp"].min()
    before, after = (rows_of(part.filter(pl.col("timestamp") == same)) for part in (train, test))
    assert before
    assert max(before) < min(after)


def test_a_cut_through_rows_of_one_time_is_told(caplog):
    splits.chronological(make_table())
    assert caplog.text == ""
    splits.chronological(make_table().with_columns(timestamp=pl.col("timestamp") // 30))
    assert "rows have the one time at which train ends and test begins; among them users decide" in caplog.text


def test_nobody_is_cold_where_each_users_ratings_are_split():
    for last in (False, True):
        train, test = split = splits.user_wise(make_table(), 0.3, last=last)
        assert not split.cold_users.any()
        n = make_table()["user"].value_counts().rows()
        held = dict(test["user"].value_counts().rows())
        assert {user: held.get(user, 0) for user, _ in n} == {
            user: min(int(np.floor(0.3 * count + 0.5)), count - 1) for user, count in n
        }
        if last:
            late = train.group_by("user").agg(pl.col("timestamp").max())
            early = test.group_by("user").agg(pl.col("timestamp").min().alias("first"))
            both = late.join(early, on="user")
            assert (both["timestamp"] <= both["first"]).all()


def test_folds_are_a_partition():
    table = make_table(303)
    folds = splits.k_fold(table, 5)
    assert [fold.test.height for fold in folds] == [61, 61, 60, 61, 60]
    assert rows_of(pl.concat([fold.test for fold in folds])) == rows_of(table)


def test_copies_of_a_pair_stay_together():
    table = make_table(100)
    twice = pl.concat([table, table.with_columns(rating=6 - table["rating"])])
    for way in (splits.uniform, splits.user_wise, WAYS["fold"]):
        train, test = way(twice)
        assert test.height > 0
        assert not set(train.select("user", "item").rows()) & set(test.select("user", "item").rows())


def test_every_pair_is_as_likely_to_be_test():
    table = make_table(60)
    share = np.zeros(60)
    for seed in range(400):
        test = splits.uniform(table, 0.25, random_state=seed)
        share[test.source[2]] += 1 / 400
    assert share.mean() == pytest.approx(0.25)
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 400)


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow", "tuple", "path", "array"])
def test_parts_are_of_the_kind_that_was_given(kind, tmp_path):
    table = make_table().with_columns(item=pl.int_range(300) % 7, title=pl.lit("x"))
    path = tmp_path / "ratings.csv"
    table.write_csv(path)
    given = {
        "pandas": table.to_pandas().set_index(np.arange(300) + 1000),
        "polars": table,
        "lazy": table.lazy(),
        "arrow": table.to_arrow(),
        "tuple": tuple(table[name].to_numpy() for name in table.columns[:4]),
        "path": path,
        "array": table.to_numpy()[:, :4].astype(float),
    }[kind]
    train, test = splits.chronological(given)
    expected = {"pandas": pd.DataFrame, "arrow": pa.Table}.get(kind, pl.DataFrame)
    assert isinstance(train, expected)
    assert isinstance(test, expected)
    reference = splits.chronological(table).test["rating"].to_list()
    assert list(map(int, np.asarray(test["rating"]))) == reference
    if kind in ("pandas", "polars", "lazy", "arrow"):
        assert list(test.columns if kind != "arrow" else test.column_names) == table.columns
    if kind == "pandas":
        assert test.index.min() >= 1000
    CMTRF(rank=1, max_sweeps=2, tol=0, n_scales=1, duplicates="keep").fit(train).predict(test)


def test_columns_are_named_as_everywhere():
    table = make_table().rename({"user": "reader", "timestamp": "at"})
    train, test = splits.chronological(table, user="reader", timestamp="at")
    assert train["at"].max() <= test["at"].min()
    with pytest.raises(TypeError, match="unexpected argument 'usr'"):
        splits.uniform(table, usr="reader")


# The validation part ----------------------------------------------------------------------------------------


@ways
def test_the_validation_part_is_cut_from_train_by_the_same_rule(way):
    split = way(make_table())
    inner = split.validation(0.25)
    assert rows_of(pl.concat([inner.train, inner.test])) == rows_of(split.train)
    assert inner.name == f"{split.name}, validation"
    if "chronological" in split.name:
        assert inner.train["timestamp"].max() <= inner.test["timestamp"].min()
        assert inner.test["timestamp"].max() <= split.test["timestamp"].min()
    if "user" in split.name:
        assert not inner.cold_users.any()
    if split.name == "user-wise, last":
        late = inner.train.group_by("user").agg(pl.col("timestamp").max())
        first = inner.test.group_by("user").agg(pl.col("timestamp").min().alias("first"))
        assert late.join(first, on="user").select((pl.col("timestamp") <= pl.col("first")).all()).item()


def test_two_files_are_told_apart_by_time():
    table = make_table()
    train, test = splits.chronological(table)
    split = splits.given(train, test.filter(pl.col("timestamp") > train["timestamp"].max()))
    inner = split.validation()
    assert inner.train["timestamp"].max() <= inner.test["timestamp"].min()
    train, test = splits.uniform(table)
    inner = splits.given(train, test).validation()
    assert inner.train["timestamp"].max() > inner.test["timestamp"].min()
    gap = table.with_columns(timestamp=pl.when(pl.int_range(300) == 7).then(None).otherwise("timestamp"))
    inner = splits.given(gap, table.with_columns(user=pl.col("user") + 1000, timestamp=pl.lit(99))).validation()
    assert inner.test.height == 30


def test_parts_that_the_table_names():
    table = make_table().with_columns(part=pl.Series(["train", "train", "test"] * 100))
    train, test = splits.published(table)
    assert rows_of(test) == rows_of(table.filter(pl.col("part") == "test"))
    assert train["part"].unique().to_list() == ["train"]
    with pytest.raises(DataError, match="column 'part' holds 'valid'; each row must say"):
        splits.published(table.with_columns(part=pl.Series(["train", "valid", "test"] * 100)))
    with pytest.raises(DataError, match="no column 'split'; the columns are 'user', 'item'"):
        splits.published(table, part="split")


def test_a_row_of_weight_0_is_as_if_it_were_not_there():
    table = make_table().with_columns(w=pl.Series([0, 1, 2] * 100))
    counted = table.filter(pl.col("w") > 0)
    for way in (splits.chronological, splits.uniform, splits.user_wise):
        whole, part = way(table, weight="w"), way(counted, weight="w")
        assert rows_of(whole.test) == rows_of(part.test)
        assert rows_of(whole.train) == rows_of(part.train)
        assert rows_of(whole.validation().test) == rows_of(part.validation().test)
    parts = table.with_columns(part=pl.Series(["train"] * 200 + ["test"] * 100))
    assert splits.published(parts, weight="w").test["w"].to_list() == [w for w in table["w"][200:] if w]


def test_a_pair_in_both_parts_is_told():
    table = make_table()
    both = table.with_columns(part=pl.Series(["train"] * 200 + ["test"] * 100))
    repeated = pl.concat([both, both.head(2).with_columns(part=pl.lit("test"))])
    with pytest.raises(DataError, match="2 of 102 test rows have a user and item that train has together, too"):
        splits.published(repeated)
    assert splits.published(repeated, duplicates="keep").test.height == 102
    texts = table.with_columns(pl.col("user").cast(pl.String))
    with pytest.raises(DataError, match="300 of 300 test rows"):
        splits.given(texts, texts)


def test_words_keep_their_order(tmp_path):
    words = ["bad", "fair", "good"]
    table = make_table().with_columns(rating=pl.Series([words[k % 3] for k in range(300)], dtype=pl.Enum(words)))
    table.write_parquet(tmp_path / "ratings.parquet")
    train, test = splits.uniform(tmp_path / "ratings.parquet")
    model = CMTRF(n_scales=1, rank=1, max_sweeps=2, tol=0).fit(train)
    assert model.levels_.tolist() == words
    assert model.score(test) <= 1


# The paper --------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "archive", "users", "items", "ratings", "n_test"),
    [
        ("ml-100k", "ml-100k.zip", 751, 1616, 82_863, 2_863),
        ("ml-100k-u", "ml-100k.zip", 943, 1650, 100_000, 19_968),
        ("ml-1m", "ml-1m.zip", 5301, 3682, 901_851, 101_851),
        ("douban", "douban-monti.zip", 2999, 3000, 136_891, 13_689),
    ],
)
def test_the_papers_table_of_data_sets(name, archive, users, items, ratings, n_test):
    """Table 2 of the paper, digit by digit; the warning that another count would give is an error in tests."""
    table = datasets.load(name, shared_data(archive))
    train, test = split = splits.paper(table, name)
    assert (train["user"].n_unique(), train["item"].n_unique()) == (users, items)
    whole = train.height + test.height + (split.left_out if name == "ml-100k-u" else 0)
    assert (whole, test.height) == (ratings, n_test)
    assert not split.cold.any()
    assert train.height + test.height + split.left_out == table.height
    if name == "ml-1m":  # the paper's split is not chronological, see docs/datasets.md
        assert train["timestamp"].max() > test["timestamp"].min()


@pytest.mark.data
def test_the_true_chronological_split_of_movielens_1m():
    split = splits.chronological(datasets.load("ml-1m", shared_data("ml-1m.zip")), 200_209 / 1_000_209)
    train, _ = split
    assert train.height == 800_000
    known = (train["user"].n_unique(), train["item"].n_unique(), 800_000 + int((~split.cold).sum()))
    assert known == (5399, 3662, 904_439)


@pytest.fixture
def small_paper(monkeypatch):
    """The paper's rules at the size of a small table."""
    for name, spec in PAPER.items():
        if spec.n_train is not None:
            monkeypatch.setitem(PAPER, name, spec._replace(n_train=200))


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_lines_sorted_as_text(small_paper):
    """Against sorting the lines themselves; times have four and five digits, so that text is not time."""
    rng = np.random.default_rng(5)
    table = make_table().with_columns(
        timestamp=pl.Series(rng.integers(9_990, 10_020, 300)), rating=pl.Series(rng.choice([0.5, 1.0, 4.5, 5.0], 300))
    )
    lines = sorted(f"{t} {user} {item} {rating:g}" for user, item, rating, t in table.rows())
    split = splits.paper(table, "ml-10m")
    train = sorted(f"{t} {user} {item} {rating:g}" for user, item, rating, t in split.train.rows())
    assert train == lines[:200]
    assert split.left_out + split.test.height == 100
    inner = split.validation(0.1)
    assert sorted(f"{t} {u} {i} {r:g}" for u, i, r, t in inner.train.rows()) == lines[:180]


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_the_order_of_the_file_and_the_first_of_a_pair(small_paper):
    table = make_table().drop("timestamp")
    split = splits.paper(table, "goodbooks")
    assert split.train.rows() == table.rows()[:200]
    repeated = pl.concat([table, table.head(50).with_columns(rating=pl.lit(1, pl.Int64))])
    split = splits.paper(repeated, "epinions")
    assert split.train.rows() == table.rows()[:200]
    assert split.left_out + split.test.height == 100


def test_other_counts_than_the_papers_are_told(small_paper):
    with pytest.warns(DataWarning, match=r"goodbooks: 40 users, 30 items, .* where the paper's table has 42,813 users"):
        splits.paper(make_table(), "goodbooks")
    with pytest.warns(DataWarning, match="only hinted at in its authors' scripts"):
        splits.paper(make_table(), "ml-10m")


def test_a_validation_part_leaves_cold_rows_out_even_where_test_had_none(small_paper):
    """As the paper's Douban, whose test rows are all of known users and items."""
    parts = make_table(150, users=60, items=50).with_columns(part=pl.Series(["train"] * 140 + ["test"] * 10))
    known = splits.published(parts)
    kept = parts.filter(pl.Series([True] * 140 + (~known.cold).tolist()))
    with pytest.warns(DataWarning):
        split = splits.paper(kept, "douban")
    assert split.left_out == 0
    inner = split.validation(0.3)
    assert inner.left_out > 0
    assert not inner.cold.any()


def test_cold_rows_that_the_paper_drops_are_counted(small_paper):
    table = make_table(250, users=80, items=60)
    with pytest.warns(DataWarning):
        split = splits.paper(table, "ml-100k")
    dropped = int(splits.chronological(table, 0.2).cold.sum())
    assert split.left_out == dropped > 0
    assert str(split).endswith(f"; {dropped} more were cold and are left out")
    inner = split.validation(0.2)
    assert not inner.cold.any()
    assert inner.left_out > 0
    assert inner.train.height + inner.test.height + inner.left_out == split.train.height


# What is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda t: splits.chronological(t.drop("timestamp")), DataError, "no time stamps to split by"),
        (
            lambda t: splits.chronological(t.with_columns(timestamp=pl.Series([None, *range(299)]))),
            DataError,
            "column 'timestamp', row 0 of the table: the time stamp is missing",
        ),
        (
            lambda t: splits.chronological(t.with_columns(timestamp=pl.lit("soon"))),
            DataError,
            "column 'timestamp' could not be read as times",
        ),
        (lambda t: splits.uniform(t, 1.0), ParameterError, "a share of 1.0"),
        (lambda t: splits.uniform(t, True), ParameterError, "a share of True"),
        (lambda t: splits.uniform(t.head(2), 0.1), DataError, "2 rows leaves no test row"),
        (lambda t: splits.k_fold(t, 1), ParameterError, "k=1"),
        (lambda t: splits.k_fold(t.head(3), 4), ParameterError, "k=4 folds of 3 pairs"),
        (lambda t: splits.paper(t, "netflix"), ParameterError, "the paper has no set 'netflix'; it has ml-100k"),
        (lambda t: splits.paper(t, "ml-1m"), DataError, "800,000 train rows; this table has 300 rows"),
        (lambda t: splits.uniform(t).validation(0), ParameterError, "a share of 0"),
    ],
)
def test_what_cannot_be_split_is_told(call, error, told):
    with pytest.raises(error, match=told):
        call(make_table())


def test_where_all_of_test_is_cold_the_papers_rule_has_nothing_left():
    table = make_table(40).with_columns(user=pl.int_range(40))
    with pytest.raises(DataError, match="every test row of the chronological split is cold"):
        without_cold(splits.chronological(table))
