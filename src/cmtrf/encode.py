"""Checked columns -> `Ratings`: ids become codes and ratings levels; what cannot be is refused by row."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import DataError, ParameterError
from cmtrf.kernels.table import Float64
from cmtrf.models.point import PointModel
from cmtrf.plan import LARGEST
from cmtrf.ratings import Ratings, build_ratings, pair_codes
from cmtrf.solvers.start import Earlier
from cmtrf.tables.columns import Columns
from cmtrf.tables.values import is_number
from cmtrf.vocabulary import MAX_LEVELS, Codes, Grid, Vocabulary, shown

MISSING = {"na", "n/a", "nan", "null", "none", "-", "?"}  # texts that stand for nothing

log = logging.getLogger("cmtrf")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table in codes, and what the codes stand for."""

    ratings: Ratings
    users: Vocabulary
    items: Vocabulary
    grid: Grid


def encode(
    columns: Columns,
    *,
    levels: Any = None,
    duplicates: str = "error",
    dtype: np.dtype[Any] | type = np.float32,
) -> Encoded:
    """Encode a table of ratings.

    Parameters
    ----------
    columns
        What `cmtrf.tables.reading.read` returned.
    levels
        The rating scale, lowest first, where not all of it occurs in the table, or where it is of words.
    duplicates
        What to do with a pair that is there twice: refuse it, keep both, or keep the last or the first by
        time stamp (by row where there are no times, or equal ones).
    dtype
        Type of the weights.
    """
    if columns.rating is None:
        raise DataError(f"{columns.source} has no ratings; name their column with rating=, or pass y")
    rows, (users, user), (items, item) = _settle(columns, duplicates)
    ratings = columns.rating[rows]
    grid = _grid(columns, rows, ratings, levels)
    level = grid.encode(ratings)
    _check_levels(columns, rows, level, grid)
    weights = None if columns.weight is None else columns.weight[rows]
    if weights is not None:
        for row in np.flatnonzero(weights > LARGEST)[:1].tolist():
            raise DataError(
                f"{columns.place('weight', int(rows[row]))}: the weight {weights[row]:g} is too large; divide "
                f"all weights so that none exceeds {LARGEST:g}"
            )
    if weights is not None and bool(np.all(weights == 1)):
        weights = None
    shape = (len(users), len(items), len(grid))
    return Encoded(build_ratings(user, item, level, weights, shape, dtype), users, items, grid)


def encode_pairs(columns: Columns, users: Vocabulary, items: Vocabulary) -> tuple[Codes, Codes]:
    """Return the user's and the item's code of every row, -1 for an unknown one.

    A file has no types. So an id of it that looks like a number is the text it was, where the vocabulary
    holds texts, and a text that is a number is that number, where it holds numbers.
    """

    def codes(vocabulary: Vocabulary, ids: NDArray[Any]) -> Codes:
        if columns.untyped and ids.dtype.kind != vocabulary.ids.dtype.kind:
            ids = vocabulary.parse([str(value) for value in ids.tolist()])
        return vocabulary.codes(ids)

    return codes(users, columns.user), codes(items, columns.item)


def number_ratings(columns: Columns, grid: Grid) -> Float64:
    """Ratings as numbers: words count 1..L in the order of the scale; a number need not be one of its levels."""
    ratings = columns.rating
    assert ratings is not None
    if grid.words is not None:
        levels = grid.encode(ratings)
        for row in np.flatnonzero(levels < 0)[:1].tolist():
            raise DataError(
                f"{columns.place('rating', row)}: {shown(ratings[row])} is not one of the levels "
                f"{', '.join(grid.words)}"
            )
        return grid.values[levels]
    if ratings.dtype.kind == "O":
        raise DataError(
            f"{columns.place('rating', 0)}: {shown(ratings[0])} is a word, but the model's levels are numbers"
        )
    return ratings


def truth_of(model: Any, columns: Columns) -> Float64:
    """Ratings of a table as numbers; where they are words, as the fitted model counts them."""
    return number_ratings(columns, Grid.of_fitted(np.asarray(model.levels_)))


def settle_rows(columns: Columns, duplicates: str) -> NDArray[np.int64]:
    """Rows that a fit to the table would see: of positive weight, each pair once unless ``duplicates`` keeps copies."""
    return rows_that_count(columns) if duplicates == "keep" else _settle(columns, duplicates)[0]


def _settle(
    columns: Columns, duplicates: str
) -> tuple[NDArray[np.int64], tuple[Vocabulary, Codes], tuple[Vocabulary, Codes]]:
    """Rows that count, with the vocabularies of both sides and the codes of those rows."""
    rows = rows_that_count(columns)
    users, user = Vocabulary.of(columns.user[rows])
    items, item = Vocabulary.of(columns.item[rows])
    if duplicates != "keep":
        kept = _one_a_pair(columns, rows, pair_codes(user, item), duplicates)
        rows, user, item = rows[kept], user[kept], item[kept]
    return rows, (users, user), (items, item)


def rows_that_count(columns: Columns) -> NDArray[np.int64]:
    """Rows of positive weight: one of weight 0 is as if it were not there."""
    if columns.weight is None:
        return np.arange(len(columns))
    rows = np.flatnonzero(columns.weight > 0)
    if len(rows) == 0:
        raise DataError(
            f"column {columns.names['weight']!r}: every weight is zero, which leaves n_samples = 0; "
            "give at least one row a positive weight"
        )
    return rows


def _one_a_pair(columns: Columns, rows: NDArray[np.int64], pairs: Codes, duplicates: str) -> NDArray[np.int64]:
    """Positions, in order, of the rows to keep so that each pair is there once."""
    ordered = np.sort(pairs)
    if not bool(np.any(ordered[1:] == ordered[:-1])):
        return np.arange(len(pairs))
    order = np.argsort(pairs, kind="stable")
    same = pairs[order][1:] == pairs[order][:-1]
    if duplicates == "error":
        _refuse_repeats(columns, rows, order, same)
    if columns.timestamp is None and "timestamp" in columns.names:
        raise DataError(
            f"column {columns.names['timestamp']!r} could not be read as times, so that "
            f"duplicates={duplicates!r} cannot choose; give it as numbers or ISO dates, or remove it to go by row"
        )
    if columns.timestamp is not None:
        times = columns.timestamp[rows]
        repeated = np.zeros(len(pairs), np.bool_)
        repeated[order[1:][same]] = repeated[order[:-1][same]] = True
        for t in np.flatnonzero(repeated & np.isnan(times))[:1].tolist():
            raise DataError(
                f"{columns.place('timestamp', rows[t])}: a repeated pair has no timestamp, so that "
                f"duplicates={duplicates!r} cannot choose; fill it in or remove the row"
            )
        order = np.lexsort((times, pairs))  # stable: equal times stay in the order of their rows
    ends = np.append(~same, True) if duplicates == "last" else np.insert(~same, 0, True)
    return np.sort(order[ends])


def _refuse_repeats(
    columns: Columns, rows: NDArray[np.int64], order: NDArray[np.int64], same: NDArray[np.bool_]
) -> None:
    """Name the earliest row that repeats a pair, and the row before it that has the pair."""
    again = order[1:][same]
    at = int(np.argmin(again))
    first, second = int(rows[order[:-1][same][at]]), int(rows[again[at]])
    raise DataError(
        f"user {shown(columns.user[second])} rates item {shown(columns.item[second])} twice: "
        f"{columns.where(first)} and {columns.where(second)} ({len(again)} repeats in all); remove one, "
        "or pass duplicates='last', 'first' or 'keep'"
    )


def _grid(columns: Columns, rows: NDArray[np.int64], ratings: NDArray[Any], levels: Any) -> Grid:
    """The scale: what the caller states, else the order of the words, else the distinct numbers."""
    if levels is not None:
        grid = Grid.of_levels(levels)
        absent = [word for word in columns.words or () if word not in (grid.words or ())]
        if absent:
            raise ParameterError(
                f"column {columns.names['rating']!r} has categories {', '.join(map(repr, absent))} that "
                f"levels={list(levels)!r} lacks; state all of them, lowest first"
            )
        return grid
    if columns.words is not None:
        _check_count(columns, len(columns.words))
        return Grid.of_words(columns.words)
    if ratings.dtype.kind == "O":
        raise DataError(_words_without_order(columns, rows, ratings))
    for row in np.flatnonzero(np.abs(ratings) > LARGEST)[:1].tolist():
        raise DataError(
            f"{columns.place('rating', int(rows[row]))}: {shown(ratings[row])} is too large for a rating; "
            "correct it or remove the row"
        )
    grid = Grid.of_ratings(ratings)
    _check_count(columns, len(grid))
    _tell_of_gap(columns, grid)
    return grid


def _tell_of_gap(columns: Columns, grid: Grid) -> None:
    """A level far from all others, such as 99 beside 1 to 5, may stand for something else than a rating."""
    gaps = np.diff(grid.values)
    if len(gaps) >= 3 and gaps.max() > 10 * np.median(gaps):
        low, high = grid.names[int(gaps.argmax())], grid.names[int(gaps.argmax()) + 1]
        log.warning(
            "column %r: the levels %s and %s lie far apart, next to steps of %g elsewhere; if one of them stands "
            "for something else (no answer, say), remove its rows",
            columns.names["rating"],
            low,
            high,
            np.median(gaps),
        )


def _check_count(columns: Columns, n_levels: int) -> None:
    if n_levels > MAX_LEVELS:
        raise DataError(
            f"column {columns.names['rating']!r} has {n_levels} distinct values, more than "
            f"max_levels = {MAX_LEVELS}: it looks continuous, and is not binned for you; bin it yourself to "
            "the steps that mean something, and pass these as levels="
        )


def _words_without_order(columns: Columns, rows: NDArray[np.int64], ratings: NDArray[Any]) -> str:
    """Say which text is no number, and what to do if it is none on purpose."""
    words = sorted(set(ratings.tolist()))
    if all(re.fullmatch(r"[+-]?\d+,\d+|[+-]?\d+", word) for word in words):
        return (
            f"column {columns.names['rating']!r} has decimal commas, such as {words[0]!r}; write the numbers with "
            "points"
        )
    gap = next((t for t, text in enumerate(ratings.tolist()) if text.strip().lower() in MISSING), None)
    if gap is not None:
        return f"{columns.place('rating', int(rows[gap]))}: the rating is missing ({ratings[gap]!r}); remove the row"
    odd = next(t for t, text in enumerate(ratings.tolist()) if not is_number(text))
    listed = ", ".join(map(repr, words[:10])) + (", ..." if len(words) > 10 else "")
    return (
        f"{columns.place('rating', int(rows[odd]))}: {ratings[odd]!r} is not a number; correct it or, if "
        f"the ratings are words ({listed}), pass levels=[...] with all of them, lowest first"
    )


def _check_levels(columns: Columns, rows: NDArray[np.int64], level: Codes, grid: Grid) -> None:
    assert columns.rating is not None
    stated = ", ".join(str(each) for each in grid.levels.tolist())
    for t in np.flatnonzero(level < 0)[:1].tolist():
        raise DataError(
            f"{columns.place('rating', int(rows[t]))}: {shown(columns.rating[rows[t]])} is not one of "
            f"the levels {stated}; correct it or add it to levels="
        )
    if bool(np.all(level == level[0])):
        raise DataError(
            f"column {columns.names['rating']!r}: all ratings (n_samples = {len(level)}) are "
            f"{shown(columns.rating[rows[0]])}: one distinct level, but learning a scale takes two; add "
            "ratings with other values"
        )


def is_table(values: Any) -> bool:
    """Tell a table of pairs from a sequence of ids."""
    if isinstance(values, (Mapping, os.PathLike)):
        return True
    if isinstance(values, (tuple, list)):
        return len(values) > 0 and all(hasattr(v, "__len__") and not isinstance(v, str) for v in values)
    if getattr(getattr(values, "dtype", None), "names", None):
        return True
    return "columns" in dir(type(values)) or len(getattr(values, "shape", ())) == 2


def is_empty(table: Any) -> bool:
    """Whether a table that is in memory has no rows."""
    if isinstance(table, Mapping):
        return all(len(column) == 0 for column in table.values())
    if isinstance(table, tuple):
        return len(table[0]) == 0
    shape = getattr(table, "shape", None)
    return shape is not None and shape[0] == 0


def match_model(model: PointModel, coded: Encoded, rank: int) -> Earlier:
    """Arrays of an earlier model, with the places of today's users and items in them."""
    if not np.array_equal(model.grid.levels, coded.grid.levels):
        raise ParameterError(
            f"start= has the levels {', '.join(model.grid.names)}, this table {', '.join(coded.grid.names)}: "
            "pass levels= to make them the same"
        )
    if model.user_factors.shape[1] != rank:
        raise ParameterError(f"start= has rank {model.user_factors.shape[1]}, this fit rank {rank}: pass the same rank")
    users, items = model.users.codes(coded.users.ids), model.items.codes(coded.items.ids)
    if (users < 0).all() and (items < 0).all():
        raise ParameterError("start= knows none of the users and items of this table: leave it out")
    return Earlier(
        users=users,
        items=items,
        user_factors=model.user_factors,
        item_factors=model.item_factors,
        user_bias=model.user_bias,
        item_bias=model.item_bias,
        scales=model.scales,
        user_scale=model.user_scale,
        common_scale=model.common_scale,
    )
