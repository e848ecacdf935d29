"""Ratings, weights and times: arrays of anything -> floats or words, or an error that names the first bad value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import DataError
from cmtrf.vocabulary import Place, is_missing, shown


class Values(NamedTuple):
    """A column as it was found: a plain array, not yet checked."""

    array: NDArray[Any]
    words: tuple[Any, ...] | None = None  # categories of an ordered categorical, lowest first


def as_ratings(values: Values, place: Place) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return ratings as numbers, or as texts where they are words; and the order of the words, if there is one."""
    array, words = values
    if not _is_text(array):
        return _as_numbers(array, place, "rating"), None
    texts = array.astype(object)
    for row, text in enumerate(texts.tolist()):
        if is_missing(text) or not text.strip():
            raise DataError(f"{place(row)}: the rating is missing ({shown(text)}); remove the row")
    are_numbers = all(map(is_number, set(texts.tolist()) if words is None else words))
    if are_numbers and (words is None or bool(np.all(np.diff(list(map(float, words))) > 0))):
        return _as_numbers(texts, place, "rating"), None
    return texts, words


def as_weights(array: NDArray[Any], place: Place) -> NDArray[np.float64]:
    """Return weights, which are finite and not negative."""
    weights = _as_numbers(array, place, "weight")
    for row in np.flatnonzero(weights < 0)[:1].tolist():
        raise DataError(f"{place(row)}: the weight {weights[row]:g} is negative; weights must be >= 0")
    return weights


def as_timestamps(array: NDArray[Any], place: Place) -> NDArray[np.float64]:
    """Return times as numbers, dates as seconds since 1970 (UTC); a missing one is NaN."""
    if array.dtype.kind == "M":
        micro = array.astype("datetime64[us]")
        return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
    times = _as_floats(array, place, _as_seconds, "neither a number nor a date such as 2024-05-31 12:00:00")
    for row in np.flatnonzero(np.isinf(times))[:1].tolist():
        raise DataError(f"{place(row)}: the timestamp is not finite ({shown(array[row])}); correct it")
    return times


def is_number(text: Any) -> bool:
    """Whether a text is a number; a blank one counts as a missing number."""
    try:
        _as_float(text)
    except (TypeError, ValueError):
        return False
    return True


def _as_numbers(array: NDArray[Any], place: Place, what: str) -> NDArray[np.float64]:
    """Every value as a finite float, or an error that names the first that is not."""
    numbers = _as_floats(array, place, _as_float, "not a number")
    for row in np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
        problem = "missing" if np.isnan(numbers[row]) else "not finite"
        raise DataError(f"{place(row)}: the {what} is {problem} ({shown(array[row])}); remove the row or correct it")
    return numbers


def _as_floats(array: NDArray[Any], place: Place, convert: Callable[[Any], float], problem: str) -> NDArray[np.float64]:
    """Numbers, and what ``convert`` makes a number of, as floats; NaN where missing."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "c":
        raise DataError(f"{place(0)}: Complex data not supported: {shown(array[0])} is {problem}")
    if array.dtype.kind not in "OU":
        raise DataError(f"{place(0)}: {shown(array[0])} ({array.dtype}) is {problem}; cast the column")
    known: dict[Any, float] = {}  # a rating occurs again and again
    numbers = np.empty(len(array))
    for row, value in enumerate(array.tolist()):
        try:
            numbers[row] = known[value] if value in known else known.setdefault(value, convert(value))
        except (TypeError, ValueError, OverflowError) as error:
            text = f"{place(row)}: {value!r} ({type(value).__name__}) is {problem}; correct it: "
            raise DataError(text + "the argument must be a string or a number") from error
    return numbers


def _as_float(value: Any) -> float:
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return np.nan
    if isinstance(value, str) and "_" in value:  # float() takes 1_0 for ten
        raise ValueError(value)
    if isinstance(value, (str, Real, Decimal)):
        return float(value)
    raise TypeError(value)


def _as_seconds(value: Any) -> float:
    if isinstance(value, str) and not is_number(value):
        value = datetime.fromisoformat(value.strip())
    if is_missing(value) or not isinstance(value, date):
        return _as_float(value)
    when = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _is_text(array: NDArray[Any]) -> bool:
    """Whether a column holds texts and nothing else but gaps."""
    if array.dtype.kind != "O":
        return array.dtype.kind == "U"
    kinds = set(map(type, array.tolist()))
    rest = [kind for kind in kinds if not issubclass(kind, str)]
    return len(rest) < len(kinds) and all(kind in (type(None), float) or kind.__name__ == "NAType" for kind in rest)
