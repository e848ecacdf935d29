"""The two parts of a table of ratings, and the ways to split it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from cmtrf.encode import encode_pairs, rows_that_count, settle_rows
from cmtrf.errors import DataError, ParameterError
from cmtrf.kernels.table import Integers
from cmtrf.plan import whole_number
from cmtrf.ratings import deal_pairs, pair_codes
from cmtrf.splits.rules import Bools, Rule, at_random, at_random_of_users, by_time, codes, last_of_users
from cmtrf.tables.columns import ColumnNames, Columns, check_names
from cmtrf.tables.reading import read, read_column
from cmtrf.tables.writing import as_frame, take_rows
from cmtrf.vocabulary import Vocabulary, shown


@dataclass(frozen=True, eq=False)
class Split:
    """Two parts of a table. Unpacks as ``train, test = split``; printed, it says what is in them.

    Attributes
    ----------
    name : str
        How the table was split.
    train, test : frame
        The parts, as the kind of frame that was split (polars where it was none).
    cold : ndarray of bool
        Of each test row, whether its user or item is not in train.
    left_out : int
        Cold rows that the rule itself leaves out of test (`paper` does); 0 for all others.
    """

    name: str
    train_columns: Columns
    test_columns: Columns
    rule: Rule  # the same rule, for a validation part of train
    leaves_out_cold: bool = False  # whether the rule leaves cold rows out of test,
    left_out: int = 0  # and how many it left out
    is_validation: bool = False  # made of the train part of another split
    source: tuple[Any, Integers, Integers] | None = None  # the table that was split, and the rows of both parts

    def __iter__(self) -> Iterator[Any]:
        """Yield train, then test."""
        yield self.train
        yield self.test

    @cached_property
    def train(self) -> Any:
        """The training part, as a frame."""
        return self._frame(0)

    @cached_property
    def test(self) -> Any:
        """The test part, as a frame."""
        return self._frame(1)

    @property
    def cold(self) -> Bools:
        """Of each test row, whether its user or item is not in train."""
        return self.cold_users | self.cold_items

    @property
    def cold_users(self) -> Bools:
        """Of each test row, whether its user is not in train."""
        return self.test_codes[0] < 0

    @property
    def cold_items(self) -> Bools:
        """Of each test row, whether its item is not in train."""
        return self.test_codes[1] < 0

    @cached_property
    def test_codes(self) -> tuple[Integers, Integers]:
        """User and item of each test row, as places in the order of train's ids; -1 where train lacks them."""
        users, items = Vocabulary.of(self.train_columns.user)[0], Vocabulary.of(self.train_columns.item)[0]
        return encode_pairs(self.test_columns, users, items)

    def validation(self, share: float = 0.1) -> Split:
        """Split train once more by the same rule: what choices are made on, test being kept for the end.

        Where the rule leaves cold rows out of test, it leaves them out here, too.
        """
        _check_share(share)
        is_test = self.rule(self.train_columns, share)
        split = make_split(f"{self.name}, validation", self.train_columns, is_test, self.rule)
        if self.source is not None:
            table, train, _ = self.source
            split = replace(split, source=(table, train[~is_test], train[is_test]))
        return replace(without_cold(split) if self.leaves_out_cold else split, is_validation=True)

    def __str__(self) -> str:
        """Say how many rows are where."""
        n, cold = len(self.test_columns), int(self.cold.sum())
        lines = f"{self.name}: {len(self.train_columns):,} train rows, {n:,} test rows"
        if cold:
            lines += (
                f"; {cold:,} test rows are cold ({cold / n:.1%}): {int(self.cold_users.sum()):,} have a user, "
                f"{int(self.cold_items.sum()):,} an item that train lacks"
            )
        elif not self.left_out:  # else that says it
            lines += ", none of them cold"
        if self.left_out:
            lines += f"; {self.left_out:,} more were cold and are left out"
        return lines

    __repr__ = __str__

    def _frame(self, part: int) -> Any:
        columns = (self.train_columns, self.test_columns)[part]
        return as_frame(columns) if self.source is None else take_rows(self.source[0], self.source[1 + part], columns)


def chronological(table: Any, test_share: float = 0.2, **names: Unpack[ColumnNames]) -> Split:
    """Split by time: the last ``test_share`` of all rows are test, as a system in use meets them.

    Rows of the same time are ordered by user, then item, so that the split does not depend on the order of rows.
    Most test rows are then often cold: that is how it is, and they are said and kept.

    Parameters
    ----------
    table : table
        Anything that `CMTRF.fit` takes, with time stamps.
    test_share : float
        Share of the rows that are test.
    **names : str
        ``user=``, ``item=``, ``rating=``, ``timestamp=``, ``weight=``: names of columns, where they are not the
        usual ones.

    Returns
    -------
    Split
    """
    return _split("chronological", table, by_time, test_share, names)


def uniform(table: Any, test_share: float = 0.2, random_state: int = 0, **names: Unpack[ColumnNames]) -> Split:
    """Split at random: every user-item pair is as likely to be test as any other; copies of a pair stay together.

    Parameters are those of `chronological`, and the seed. Pairs are drawn in the order of their ids, so the split
    does not depend on the order of rows.
    """
    return _split("uniform", table, at_random(random_state), test_share, names)


def user_wise(
    table: Any, test_share: float = 0.2, random_state: int = 0, *, last: bool = False, **names: Unpack[ColumnNames]
) -> Split:
    """Split each user's ratings: a share of them is test, drawn at random or (``last=True``) the last by time.

    The number is rounded; at least one rating of everyone stays in train, so that no user is cold. Parameters are
    those of `chronological`, and the seed.
    """
    rule = last_of_users if last else at_random_of_users(random_state)
    return _split("user-wise, last" if last else "user-wise", table, rule, test_share, names)


def k_fold(table: Any, k: int = 5, random_state: int = 0, **names: Unpack[ColumnNames]) -> list[Split]:
    """Split k times, so that every row is test once: pairs dealt at random to k folds of (nearly) equal size.

    Returns a list of k `Split`. The other parameters are those of `chronological`, and the seed.
    """
    k = whole_number("k", k, 2)
    columns, rows = _read(table, names)
    place, n = deal_pairs(*codes(columns), np.random.default_rng(random_state))
    if k > n:
        raise ParameterError(f"k={k} folds of {n} pairs: pass a smaller k")
    fold = place * k // n
    rule = at_random(random_state)
    return [make_split(f"fold {i + 1} of {k}", columns, fold == i, rule, table, rows) for i in range(k)]


def published(
    table: Any,
    part: str = "part",
    random_state: int = 0,
    *,
    duplicates: str = "error",
    **names: Unpack[ColumnNames],
) -> Split:
    """Split as the table itself says: the column ``part`` holds ``"train"`` or ``"test"``.

    `cmtrf.datasets.load` adds that column to sets that come with a split, the makers of synthetic data too.
    A validation part of train is cut uniformly, as these splits are. A pair that is in both parts is an error, which
    ``duplicates="keep"`` allows; within a part ``duplicates`` says what becomes of repeated pairs, as for `CMTRF`.
    """
    columns, rows = _read(table, names)
    split = make_split("published", columns, read_part(table, part)[rows], at_random(random_state), table, rows)
    return _settle_parts(split, duplicates)


def given(
    train: Any,
    test: Any,
    random_state: int = 0,
    *,
    duplicates: str = "error",
    **names: Unpack[ColumnNames],
) -> Split:
    """Take two tables as the two parts.

    A validation part of train is cut by time where both have time stamps in every row and no test row is earlier than
    one of train, else uniformly. A pair that is in both parts is an error, since it is mostly a test part that was not
    taken out of train; ``duplicates="keep"`` allows it.
    """
    (before, _), (after, _) = _read(train, names), _read(test, names)
    timed = False
    if before.timestamp is not None and after.timestamp is not None:
        timed = bool(np.min(after.timestamp) >= np.max(before.timestamp))  # not if one is missing: NaN
    split = Split("two tables", before, after, by_time if timed else at_random(random_state))
    return _settle_parts(split, duplicates)


# Making a split ---------------------------------------------------------------------------------------------


def _read(table: Any, names: ColumnNames) -> tuple[Columns, Integers]:
    """Read the rows that count (one of weight 0 is as if it were not there), and say which they are."""
    check_names(names)
    columns = read(table, **names)
    rows = rows_that_count(columns)
    return (columns if len(rows) == len(columns) else columns.keep(rows)), rows


def _split(name: str, table: Any, rule: Rule, test_share: float, names: ColumnNames) -> Split:
    _check_share(test_share)
    columns, rows = _read(table, names)
    return make_split(name, columns, rule(columns, test_share), rule, table, rows)


def make_split(
    name: str, columns: Columns, is_test: Bools, rule: Rule, table: Any = None, rows: Integers | None = None
) -> Split:
    """Put the rows into their parts; neither may be empty. ``rows`` are those of the table that the columns hold."""
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    if len(train) == 0 or len(test) == 0:
        empty = "train" if len(train) == 0 else "test"
        raise DataError(f"the {name} split of {len(columns)} rows leaves no {empty} row; pass another share or split")
    source = None
    if rows is not None and not isinstance(table, Columns):
        source = (table, rows[train], rows[test])
    return Split(name, columns.keep(train), columns.keep(test), rule, source=source)


def _settle_parts(split: Split, duplicates: str) -> Split:
    """Settle repeated pairs in each part of a split that came from outside; none may be in both."""
    train = settle_rows(split.train_columns, duplicates)
    test = settle_rows(split.test_columns, duplicates)
    source = split.source
    if source is not None:
        source = (source[0], source[1][train], source[2][test])
    settled = replace(
        split,
        train_columns=split.train_columns.keep(train),
        test_columns=split.test_columns.keep(test),
        source=source,
    )
    if duplicates != "keep":
        _check_disjoint(settled)
    return settled


def _check_disjoint(split: Split) -> None:
    """Refuse a pair that is in both parts: it would be tested on what was fitted."""
    users, items = codes(split.train_columns)
    test_users, test_items = split.test_codes
    n = int(items.max()) + 1
    both = np.flatnonzero(~split.cold & np.isin(pair_codes(test_users, test_items, n), pair_codes(users, items, n)))
    if len(both):
        test, row = split.test_columns, int(both[0])
        raise DataError(
            f"{len(both)} of {len(test)} test rows have a user and item that train has together, too; the first is "
            f"{test.where(row)} (user {shown(test.user[row])}, item {shown(test.item[row])}): take the test rows out "
            'of train, or pass duplicates="keep" if these users rated again'
        )


def without_cold(split: Split) -> Split:
    """Leave cold rows out of test, and keep their number."""
    warm = np.flatnonzero(~split.cold)
    if len(warm) == 0:
        raise DataError(f"every test row of the {split.name} split is cold: users or items of test are not in train")
    source = split.source
    if source is not None:
        source = (source[0], source[1], source[2][warm])
    return replace(
        split,
        test_columns=split.test_columns.keep(warm),
        leaves_out_cold=True,
        left_out=len(split.test_columns) - len(warm),
        source=source,
    )


def _check_share(share: float) -> None:
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1:
        raise ParameterError(f"a share of {share!r} cannot be split off: pass a number between 0 and 1, such as 0.2")


def read_part(table: Any, part: str) -> Bools:
    """Which rows the table itself calls test."""
    parts = read_column(table, part)
    other = sorted({str(value) for value in parts.tolist()} - {"train", "test"})
    if other:
        raise DataError(f'column {part!r} holds {", ".join(map(repr, other[:5]))}; each row must say "train" or "test"')
    return np.asarray(parts == "test", dtype=np.bool_)
