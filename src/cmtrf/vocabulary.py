"""Ids to codes 0..n-1 and rating values to levels 0..L-1, both ways; an unknown one has the code -1.

The paper lists the highest level first. Here, and everywhere else in the package, the lowest is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import DataError, ParameterError

MAX_LEVELS = 100  # more distinct ratings than this is a continuous scale, which is refused

Codes = NDArray[np.int64]
Place = Callable[[int], str]  # says where a row is, for messages


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The distinct ids of one side; the code of an id is its place in their order."""

    ids: NDArray[Any]  # (n,) sorted: int64, float64 or object (str)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, values: Any) -> tuple[Vocabulary, Codes]:
        """Return the vocabulary of a column and the code of each of its values."""
        values = as_ids(values)
        ids: NDArray[Any]
        if values.dtype.kind == "O":
            names = sorted(set(values.tolist()))
            index = {name: code for code, name in enumerate(names)}
            ids = plain_array(names)
            codes = np.fromiter(map(index.__getitem__, values.tolist()), np.int64, len(values))
        elif values.dtype.kind == "i" and _is_modest(values, len(values)):
            low = int(values.min())
            seen = np.zeros(int(values.max()) - low + 1, np.bool_)
            seen[values - low] = True
            ids = np.flatnonzero(seen) + low
            codes = (np.cumsum(seen) - 1)[values - low]
        else:
            ids, codes = np.unique(values, return_inverse=True)
        ids.setflags(write=False)
        return cls(ids), codes.astype(np.int64, copy=False)

    def codes(self, values: Any) -> Codes:
        """Return the code of each value, -1 where it is unknown; an id of another kind is unknown too."""
        array = plain_array(values)
        if array.dtype.kind in "OUT":
            return self._look_up(array.tolist())
        if array.dtype.kind not in "iuf" or self.ids.dtype.kind == "O" or len(self) == 0:
            return np.full(len(array), -1, np.int64)
        if array.dtype.kind == "i" and self.ids.dtype.kind == "i":
            return _integer_codes(self.ids, array.astype(np.int64, copy=False))
        return _number_codes(self.ids, array)

    def parse(self, texts: Iterable[str]) -> NDArray[Any]:
        """Turn texts (a command line, a file without types) into ids of this vocabulary's kind.

        A text becomes a whole number only if it is how that number is written: ``"007"`` stays a text,
        and is unknown.
        """
        if self.ids.dtype.kind == "O":
            return plain_array(list(texts))
        parse = _as_integer if self.ids.dtype.kind == "i" else _as_float
        values = plain_array([parse(text) for text in texts])
        if any(isinstance(value, str) for value in values):
            return values
        return _narrow(values)

    @cached_property
    def _index(self) -> dict[Any, int]:
        return {value: code for code, value in enumerate(self.ids.tolist())}

    def _look_up(self, values: list[Any]) -> Codes:
        wanted = "text" if self.ids.dtype.kind == "O" else "number"
        index = self._index
        found = (index.get(value, -1) if _kind_of(value) == wanted else -1 for value in values)
        return np.fromiter(found, np.int64, len(values))


@dataclass(frozen=True, eq=False)
class Grid:
    """The rating scale: the values a rating may have, lowest first."""

    values: NDArray[np.float64]  # (L,) increasing; 1..L where the levels are words
    words: tuple[str, ...] | None = None  # the levels as words, lowest first

    def __len__(self) -> int:
        return len(self.values)

    @property
    def levels(self) -> NDArray[Any]:
        """The levels as their owner wrote them: numbers, or words."""
        return self.values if self.words is None else plain_array(list(self.words))

    @property
    def names(self) -> list[str]:
        """The levels as texts, numbers as short as they can be written."""
        return list(self.words) if self.words is not None else [f"{value:g}" for value in self.values]

    @classmethod
    def of_levels(cls, levels: Any) -> Grid:
        """Build the scale that the caller states: increasing numbers, or distinct words, lowest first."""
        wanted = "levels must be a sequence of increasing numbers, or of distinct words, lowest first"
        if isinstance(levels, (str, bytes, set, frozenset, dict)) or not isinstance(levels, Iterable):
            raise ParameterError(f"{wanted}; got {levels!r}")
        entries = [entry.item() if isinstance(entry, np.generic) else entry for entry in levels]
        if not 2 <= len(entries) <= MAX_LEVELS:
            raise ParameterError(f"{wanted}, between 2 and {MAX_LEVELS} of them; got {len(entries)}")
        if all(isinstance(entry, str) for entry in entries):
            return cls._of_texts(entries)
        for entry in entries:
            if isinstance(entry, bool) or not isinstance(entry, (int, float)) or not np.isfinite(entry):
                raise ParameterError(f"{wanted}; {entry!r} is not a finite number")
        return cls._of_numbers([float(entry) for entry in entries])

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Grid:
        """Build a scale of words, lowest first; numbers count them 1..L."""
        if len(set(words)) < len(words) or not all(word.strip() for word in words):
            raise ParameterError(f"levels must be distinct, non-empty words; got {list(words)!r}")
        return cls(_frozen(np.arange(1.0, len(words) + 1)), tuple(words))

    @classmethod
    def of_fitted(cls, levels: NDArray[Any]) -> Grid:
        """Return the scale whose `levels` these are; words stay words, even if all of them are digits."""
        return cls.of_words(levels.tolist()) if levels.dtype.kind in "OU" else cls.of_ratings(levels)

    @classmethod
    def of_ratings(cls, ratings: NDArray[np.float64]) -> Grid:
        """Take the distinct values of the data as the scale, however many they are."""
        return cls(_frozen(np.unique(ratings)))

    @classmethod
    def _of_texts(cls, texts: list[str]) -> Grid:
        numbers = [_as_float(text) for text in texts]
        if any(isinstance(number, str) for number in numbers):
            return cls.of_words(texts)
        return cls._of_numbers([float(number) for number in numbers])  # as texts of ratings are

    @classmethod
    def _of_numbers(cls, numbers: list[float]) -> Grid:
        for before, after in pairwise(numbers):
            if after == before:
                raise ParameterError(f"levels must be distinct; {after:g} is there twice")
            if after < before:
                raise ParameterError(f"levels must increase, lowest first; {after:g} comes after {before:g}")
        return cls(_frozen(np.array(numbers)))

    def encode(self, ratings: NDArray[Any]) -> Codes:
        """Return the level of each rating, -1 where it is off the grid.

        A number may differ from its level by what single precision rounds away, no more.
        """
        ratings = plain_array(ratings)
        if self.words is not None:
            index: dict[Any, int] = {word: level for level, word in enumerate(self.words)}
            # A scale such as "1", ..., "5+" may meet a table in which all texts happen to be numbers.
            index |= {
                _as_float(word): level for level, word in enumerate(self.words) if not isinstance(_as_float(word), str)
            }
            return np.fromiter((index.get(value, -1) for value in ratings.tolist()), np.int64, len(ratings))
        if ratings.dtype.kind not in "biuf":
            return np.full(len(ratings), -1, np.int64)
        numbers = ratings.astype(np.float64, copy=False)
        middles = (self.values[1:] + self.values[:-1]) / 2
        nearest = np.searchsorted(middles, numbers)
        gap = np.diff(self.values).min(initial=np.inf)
        allowed = np.minimum(gap / 4, 1e-6 * np.maximum(np.abs(self.values), 1e-3))
        return np.where(np.abs(numbers - self.values[nearest]) <= allowed[nearest], nearest, -1)

    def decode(self, codes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return the level, as its owner wrote it, of each code."""
        if len(codes) and codes.min() < 0:
            raise ValueError("the code -1 stands for a rating off the grid and has no level")
        return np.take(self.levels, codes)


def as_ids(values: Any, place: Place = "row {}".format) -> NDArray[Any]:
    """Return ids as int64, float64 or an object array of str; what cannot be an id is a DataError."""
    array = plain_array(values)
    kind = array.dtype.kind
    if kind == "O":
        return _object_ids(array, place)
    if kind in "UT":
        return plain_array(array.tolist())
    if kind == "f":
        for row in np.flatnonzero(~np.isfinite(array))[:1].tolist():
            raise DataError(_missing_id(place(row), array[row]))
        return array.astype(np.float64, copy=False)
    if kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
        row = int(array.argmax())
        raise DataError(f"{place(row)}: the id {array[row]} is too large; cast the column to string")
    if kind in "iu":
        return array.astype(np.int64, copy=False)
    row, value = 0, array[0].item() if len(array) else None
    if kind == "c":
        raise DataError(f"{place(row)}: Complex data not supported: {value!r} cannot be an id")
    raise DataError(f"{place(row)}: {value!r} ({array.dtype}) cannot be an id; cast the column to string")


def plain_array(values: Any) -> NDArray[Any]:
    """Return a one-dimensional array; what has no type of its own (a list) becomes an object array."""
    if not isinstance(values, np.ndarray) and not hasattr(values, "__array__"):
        if not isinstance(values, Iterable):
            raise DataError(f"expected a column of values, got {values!r}. Reshape your data")
        values = list(values)
        return np.fromiter(values, dtype=object, count=len(values))
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(f"expected one column, got an array of shape {array.shape}. Reshape your data")
    return array


def as_asked(values: Any) -> NDArray[Any]:
    """Return one id, or a sequence of them, as an array of ids; none is none."""
    if hasattr(values, "as_py"):  # an Arrow scalar
        values = values.as_py()
    if isinstance(values, (str, int, float)) or (hasattr(values, "dtype") and getattr(values, "ndim", 1) == 0):
        values = [values.item() if hasattr(values, "item") else values]
    array = plain_array(values)
    return array if len(array) == 0 else as_ids(array, "place {}".format)


def is_missing(value: Any) -> bool:
    """Whether a single value stands for nothing: None, a NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def shown(value: Any) -> str:
    """How a message shows a value of the table."""
    value = value.item() if isinstance(value, np.generic) else value
    return "NaN" if isinstance(value, float) and value != value else repr(value)


def _object_ids(array: NDArray[Any], place: Place) -> NDArray[Any]:
    kinds = set(map(type, array.tolist()))
    if kinds == {str}:
        return array
    first = ""
    for row, value in enumerate(array.tolist()):
        kind = _kind_of(value)
        if kind == "missing":
            raise DataError(_missing_id(place(row), value))
        if kind == "other":
            raise DataError(
                f"{place(row)}: {value!r} ({type(value).__name__}) cannot be an id; cast the column to string"
            )
        first = first or kind
        if kind != first:
            raise DataError(
                f"{place(row)}: {value!r} is a {kind} among {first}s; ids of one column must be of one kind, "
                "cast the column to string"
            )
    if first == "text":
        return plain_array([str(value) for value in array])
    return as_ids(_narrow(array, place), place)


def _kind_of(value: Any) -> str:
    if is_missing(value):
        return "missing"
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return "number"
    return "other"


def _missing_id(place: str, value: Any) -> str:
    what = "the id is missing" if is_missing(value) else "the id is not finite"
    return f"{place}: {what} ({shown(value)}); remove the row or fill in its id"


def _narrow(numbers: NDArray[Any], place: Place = "row {}".format) -> NDArray[Any]:
    """Numbers of an object array as int64, or as float64 where one of them is a float."""
    if any(isinstance(number, (float, np.floating)) for number in numbers):
        return numbers.astype(np.float64)
    for row, number in enumerate(numbers.tolist()):
        if not -(2**63) <= int(number) < 2**63:
            raise DataError(
                f"{place(row)}: the id {number} is too large for a 64-bit integer; cast the column to string"
            )
    return numbers.astype(np.int64)


def _is_modest(ids: NDArray[np.int64], n: int) -> bool:
    """Whether a table over the whole range of these integers costs little beside the n values themselves."""
    return len(ids) > 0 and int(ids.max()) - int(ids.min()) <= 4 * n + 1024


def _integer_codes(ids: NDArray[np.int64], values: NDArray[np.int64]) -> Codes:
    low, high = ids[0], ids[-1]
    if not _is_modest(ids[[0, -1]], len(values)):
        at = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
        return np.where(ids[at] == values, at, -1)
    table = np.full(int(high) - int(low) + 1, -1, np.int64)
    table[ids - low] = np.arange(len(ids))
    inside = (values >= low) & (values <= high)
    return np.where(inside, table[np.where(inside, values, low) - low], -1)


def _number_codes(ids: NDArray[Any], values: NDArray[Any]) -> Codes:
    """Integers among floats or floats among integers; beyond 2^53 a float may stand for several integers."""
    as_floats = values.astype(np.float64)
    exact = np.isfinite(as_floats)
    if ids.dtype.kind != values.dtype.kind:
        exact &= np.abs(as_floats) <= 2.0**53
    numbers = ids.astype(np.float64)
    at = np.minimum(np.searchsorted(numbers, np.where(exact, as_floats, 0.0)), len(ids) - 1)
    return np.where(exact & (numbers[at] == as_floats), at, -1)


def _as_integer(text: str) -> int | str:
    digits = text.strip()
    if digits.removeprefix("-").isdecimal() and digits.isascii() and str(int(digits)) == digits:
        return int(digits)
    return text


def _as_float(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if np.isfinite(number) and "_" not in text else text


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.setflags(write=False)
    return array
