"""Anything that holds a table -> `Columns`: open it, find its columns, fetch them, check them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cmtrf.errors import DataError, ParameterError
from cmtrf.tables.columns import Columns, find_columns, find_named
from cmtrf.tables.files import open_file
from cmtrf.tables.sources import Source, as_target, as_values, open_object
from cmtrf.tables.values import Values, as_ratings, as_timestamps, as_weights
from cmtrf.vocabulary import Place, as_ids

log = logging.getLogger("cmtrf")


def read(
    source: Any,
    *,
    y: Any = None,
    sample_weight: Any = None,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    timestamp: str | None = None,
    weight: str | None = None,
    rated: bool = True,
    timed: bool = True,
    hints: Mapping[str, str] | None = None,
) -> Columns:
    """Read a table of ratings, or with ``rated=False`` of pairs, from anything that holds one.

    Parameters
    ----------
    source
        A pandas, polars or Arrow frame (or another that narwhals reads); a path to a CSV, TSV, Parquet or
        MovieLens file; an array of 2 to 4 columns (user, item, rating, timestamp); as many one-dimensional
        arrays in a tuple; a SciPy sparse matrix, every stored entry of which is a rating. What was read before
        is returned as it is.
    y, sample_weight
        Ratings and weights that are not columns of the table.
    user, item, rating, timestamp, weight
        Names of columns; those not named are found by their usual names (a weight never is).
    rated
        False for a table of pairs: a rating, a time or a weight is not looked at.
    timed
        False where times are not looked at.
    hints
        Role -> name of a column that is taken if it is there and no other was named.
    """
    if isinstance(source, Columns) and y is None and sample_weight is None:
        return source
    if rated and weight is not None and sample_weight is not None:
        raise ParameterError("both weight= and sample_weight= are given; pass one of them")
    opened = _open(source)
    asked = {"user": user, "item": item}
    if rated:
        asked |= {"rating": rating, "timestamp": timestamp, "weight": weight}
    if not timed:
        asked.pop("timestamp", None)
    at = find_columns(opened, asked, hints or {}, extra_ratings=y is not None, rated=rated)
    values = opened.fetch(at)
    names = {role: opened.names[position] for role, position in at.items()}
    if rated and y is not None:
        values["rating"], names["rating"] = as_target(y), "y"
    if rated and sample_weight is not None:
        values["weight"], names["weight"] = as_values(sample_weight), "sample_weight"
    _check_lengths(values, names, opened.title)
    if opened.named:
        found = ", ".join(f"{role} = {name!r}" for role, name in names.items())
        log.info("%s: columns %s", opened.title, found)
    checked = _check_columns(values, names, opened.where, named_time=timestamp is not None)
    return Columns(
        **checked,
        names=names,
        kind=opened.kind,
        source=opened.title,
        where=opened.where,
        beside=frozenset(role for role, value in (("rating", y), ("weight", sample_weight)) if value is not None),
        untyped=opened.untyped,
    )


def read_column(source: Any, name: str, role: str = "part") -> NDArray[Any]:
    """Return one more column of a table, as it is; a message calls it by its role."""
    opened = _open(source)
    return opened.fetch({role: find_named(opened.names, role, name)})[role].array


def column_names(source: Any) -> tuple[str, ...]:
    """Names of all columns of a table; none where they are known by their place only."""
    opened = _open(source)
    return opened.names if opened.named else ()


def _open(source: Any) -> Source:
    return open_file(Path(source)) if isinstance(source, (str, os.PathLike)) else open_object(source)


def _check_lengths(values: Mapping[str, Values], names: Mapping[str, str], title: str) -> None:
    n = len(values["user"].array)
    if n == 0:
        raise DataError(f"{title} is empty: it has 0 sample(s) (rows) while a minimum of 1 is required")
    for role, (array, _) in values.items():
        if len(array) != n:
            raise DataError(f"{names[role]} has {len(array)} values, but {title} has {n} rows; pass one value a row")


def _check_columns(
    values: Mapping[str, Values], names: Mapping[str, str], where: Place, *, named_time: bool
) -> dict[str, Any]:
    def place(role: str) -> Place:
        return lambda row: f"column {names[role]!r}, {where(row)}"

    checked: dict[str, Any] = dict.fromkeys(("rating", "timestamp", "weight", "words"))
    checked["user"] = as_ids(values["user"].array, place("user"))
    checked["item"] = as_ids(values["item"].array, place("item"))
    if "rating" in values:
        checked["rating"], checked["words"] = as_ratings(values["rating"], place("rating"))
    if "timestamp" in values:
        try:
            checked["timestamp"] = as_timestamps(values["timestamp"].array, place("timestamp"))
        except DataError as error:
            if named_time:
                raise
            log.warning("%s; the column was not named, so it is left out", error)
    if "weight" in values:
        checked["weight"] = as_weights(values["weight"].array, place("weight"))
    return checked
