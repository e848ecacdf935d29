"""Rules that split a table: each says which rows are test, where that is to be a given share of them.

A rule is used twice: for the test part, and for the validation part of what is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import DataError
from cmtrf.kernels.table import Float64, Integers
from cmtrf.ratings import deal_pairs, pair_codes
from cmtrf.tables.columns import Columns
from cmtrf.vocabulary import Codes, Vocabulary

log = logging.getLogger("cmtrf")

Bools = NDArray[np.bool_]
Rule = Callable[[Columns, float], Bools]


def _last(order: Integers, share: float) -> Bools:
    """The last rows in an order."""
    is_test = np.zeros(len(order), np.bool_)
    n_test = round(share * len(order))
    is_test[order[len(order) - n_test :]] = True
    return is_test


def by_time(columns: Columns, share: float) -> Bools:
    """Take the last rows by time, then user, then item."""
    users, items = codes(columns)
    times = _times(columns)
    is_test = _last(np.lexsort((items, users, times)), share)
    if is_test.any() and not is_test.all():
        tied = int((times == times[is_test].min()).sum()) if times[~is_test].max() == times[is_test].min() else 0
        if tied > max(10, 0.01 * len(times)):
            log.warning(
                "%s: %d of %d rows have the one time at which train ends and test begins; among them users decide, in "
                "the order of their ids, which is no order in time",
                columns.source,
                tied,
                len(times),
            )
    return is_test


def _times(columns: Columns) -> Float64:
    if columns.timestamp is None and "timestamp" in columns.names:
        raise DataError(
            f"column {columns.names['timestamp']!r} could not be read as times, so there is nothing to split by; give "
            "it as numbers or ISO dates, or split uniformly"
        )
    if columns.timestamp is None:
        raise DataError(
            f"{columns.source} has no time stamps to split by: name their column with timestamp=, or split uniformly"
        )
    for row in np.flatnonzero(np.isnan(columns.timestamp))[:1].tolist():
        raise DataError(
            f"{columns.place('timestamp', row)}: the time stamp is missing, so that the row can be neither before nor "
            "after the others; fill it in, remove the row, or split uniformly"
        )
    return columns.timestamp


def by_text(columns: Columns, share: float) -> Bools:
    """Order the lines "timestamp user item rating" as text: a blank sorts before every digit, so field by field."""
    fields = [columns.rating, columns.item, columns.user, _times(columns)]
    return _last(np.lexsort([_rank_as_text(each) for each in fields]), share)


def _rank_as_text(values: Any) -> Integers:
    distinct, code = np.unique(values, return_inverse=True)
    texts = [_as_text(value) for value in distinct.tolist()]
    rank = np.empty(len(texts), np.int64)
    rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return rank[code]


def _as_text(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value % 1 == 0 else str(value)


def by_row(columns: Columns, share: float) -> Bools:
    """Take the last rows of the table."""
    return _last(np.arange(len(columns)), share)


def at_random(random_state: int) -> Rule:
    """Draw pairs, each as likely as any other."""

    def rule(columns: Columns, share: float) -> Bools:
        place, n = deal_pairs(*codes(columns), np.random.default_rng(random_state))
        return place < round(share * n)

    return rule


def at_random_of_users(random_state: int) -> Rule:
    """Draw pairs of each user."""

    def rule(columns: Columns, share: float) -> Bools:
        users, items = codes(columns)
        place, _ = deal_pairs(users, items, np.random.default_rng(random_state))
        return _first_of_each(users, place, share)

    return rule


def last_of_users(columns: Columns, share: float) -> Bools:
    """Take the last rows of each user by time, then item."""
    users, items = codes(columns)
    order = np.lexsort((items, users, _times(columns)))
    place = np.empty(len(order), np.int64)
    place[order[::-1]] = np.arange(len(order))
    return _first_of_each(users, place, share)


def _first_of_each(users: Integers, place: Integers, share: float) -> Bools:
    """Rows whose place is among the first ``share`` of their user's; copies of a pair have one place."""
    order = np.lexsort((place, users))
    who, where = users[order], place[order]
    new_user = np.r_[True, who[1:] != who[:-1]]
    new_pair = new_user | np.r_[True, where[1:] != where[:-1]]
    pair = np.cumsum(new_pair) - 1
    first_pair = pair[new_user][np.cumsum(new_user) - 1]  # of each row's user
    n_pairs = np.bincount(who[new_pair])[who]
    wanted = np.minimum(np.floor(share * n_pairs + 0.5), n_pairs - 1)
    is_test = np.zeros(len(users), np.bool_)
    is_test[order] = pair - first_pair < wanted
    return is_test


def first_of_pairs(columns: Columns) -> Integers:
    """Rows that are the first of their pair."""
    users, items = codes(columns)
    return np.sort(np.unique(pair_codes(users, items), return_index=True)[1])


def codes(columns: Columns) -> tuple[Codes, Codes]:
    """Users and items of all rows, as places in the order of their ids."""
    return Vocabulary.of(columns.user)[1], Vocabulary.of(columns.item)[1]
