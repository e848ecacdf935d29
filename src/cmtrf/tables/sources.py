"""Frames, arrays and sparse matrices as a `Source`: the names of the columns, and a way to fetch some of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError
from sklearn.exceptions import DataConversionWarning

from cmtrf.errors import DataError
from cmtrf.tables.values import Values
from cmtrf.vocabulary import Place, plain_array

ROLES = ("user", "item", "rating", "timestamp")  # also the order of columns that have no names


class Source(NamedTuple):
    """A table of any kind, of which only the columns that are asked for are read."""

    names: tuple[str, ...]
    fetch: Callable[[Mapping[str, int]], dict[str, Values]]  # role -> position of its column
    title: str = "the table"  # what it is called in messages
    where: Place = "row {} of the table".format
    kind: str | None = None  # "pandas", "polars", "pyarrow"
    untyped: bool = False  # everything in it is text
    named: bool = True  # False where columns are known by their place only


def open_object(table: Any) -> Source:
    """Open a table that is in memory, or a lazy frame."""
    if hasattr(table, "tocoo"):
        return _open_sparse(table.tocoo())
    if isinstance(table, Mapping):
        return _open_arrays({str(name): as_values(column) for name, column in table.items()})
    if isinstance(table, np.ndarray) and table.dtype.names:
        return _open_arrays({name: as_values(table[name]) for name in table.dtype.names})
    try:
        frame = nw.from_native(table, pass_through=True)
    except NarwhalsError as error:
        raise DataError(f"the table cannot be used: {error}") from error
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return open_frame(frame)
    return _open_arrays(dict(zip(ROLES, _split(table), strict=False)))._replace(named=False)


def open_frame(frame: Any) -> Source:
    """Open any narwhals frame; of a lazy one only the columns that are needed are collected."""
    made_by = frame.implementation
    kinds = {"pandas": made_by.is_pandas_like(), "polars": made_by.is_polars(), "pyarrow": made_by.is_pyarrow()}
    names = tuple(str(name) for name in frame.collect_schema().names())

    def fetch(at: Mapping[str, int]) -> dict[str, Values]:
        part = frame.select(nw.nth(*at.values()))
        if isinstance(part, nw.LazyFrame):
            part = part.collect(backend="polars")
        return {role: as_values(part[:, k]) for k, role in enumerate(at)}

    return Source(names, fetch, kind=next((kind for kind, is_it in kinds.items() if is_it), None))


def _open_arrays(columns: Mapping[str, Values]) -> Source:
    arrays = list(columns.values())
    return Source(tuple(columns), lambda at: {role: arrays[position] for role, position in at.items()})


def _open_sparse(matrix: Any) -> Source:
    if len(matrix.shape) != 2:
        raise DataError(f"a sparse array of ratings has two dimensions; this one's shape is {matrix.shape}")
    row, column = matrix.row, matrix.col

    def where(entry: int) -> str:
        return f"stored entry {entry} of the matrix (row {row[entry]}, column {column[entry]})"

    opened = _open_arrays({"user": Values(row), "item": Values(column), "rating": Values(matrix.data)})
    return opened._replace(title="the matrix", where=where, named=False)


def _split(table: Any) -> list[Values]:
    """Cut an array, a list of rows, or a tuple of columns into columns."""
    if isinstance(table, (list, tuple)) and _holds_columns(table):
        columns = [as_values(column) for column in table]
        lengths = [len(column.array) for column in columns]
        if len(set(lengths)) > 1:
            raise DataError(f"the columns have different lengths: {lengths}")
    elif isinstance(table, (list, tuple)):
        columns = _split_rows(table)
    else:
        columns = _split_array(table)
    if not 2 <= len(columns) <= len(ROLES):
        n = len(columns[0].array) if columns else len(table)
        raise DataError(
            f"the table has {len(columns)} feature(s) (shape=({n}, {len(columns)})) while a minimum of 2 is "
            "required, and at most 4: pass the columns user, item, rating and timestamp, in this order"
        )
    return columns


def _holds_columns(table: Sequence[Any]) -> bool:
    """A tuple holds columns, and so does a list of arrays or series; a list of lists holds rows."""
    plain = (str, bytes, int, float, type(None))
    if any(isinstance(part, plain) for part in table):
        raise DataError("Expected 2D array, got 1D array instead: pass rows or columns. Reshape your data")
    return isinstance(table, tuple) or (len(table) > 0 and not isinstance(table[0], (list, tuple)))


def _split_rows(rows: Sequence[Any]) -> list[Values]:
    if not rows:
        raise DataError("the table is empty: it has 0 sample(s) (rows) while a minimum of 1 is required")
    width = len(rows[0])
    for row, entries in enumerate(rows):
        if not isinstance(entries, (list, tuple)) or len(entries) != width:
            raise DataError(f"row {row} of the table is {entries!r}; it must be a list of {width} entries")
    return [Values(plain_array(column)) for column in zip(*rows, strict=True)]


def _split_array(table: Any) -> list[Values]:
    if not hasattr(table, "__array__"):
        raise DataError(f"cannot read a table from {type(table).__name__}; pass a frame, a path or arrays")
    _refuse_masked(table)
    array = np.asarray(table)
    if array.ndim != 2:
        raise DataError(f"Expected 2D array, got {array.ndim}D array instead: {array.shape}. Reshape your data")
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: complex numbers are neither ids nor ratings")
    return [Values(column) for column in array.T]


def as_values(column: Any) -> Values:
    """Make a plain array of a series of any kind, or of anything like a list."""
    series = nw.from_native(column, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        _refuse_masked(column)
        return Values(plain_array(column))
    dtype = getattr(series.to_native(), "type", None)  # an Arrow column says here if categories are ordered
    ordered = series.dtype == nw.Enum or getattr(dtype, "ordered", False)
    words = tuple(series.cat.get_categories().to_list()) if ordered else None
    return Values(series.to_numpy(), words)


def as_target(y: Any) -> Values:
    """Take ratings passed beside the table; of a single column scikit-learn wants a warning."""
    if getattr(y, "ndim", 1) != 2:
        return as_values(y)
    if y.shape[1] != 1:
        raise DataError(f"y should be a 1d array, got an array of shape {y.shape} instead")
    message = "A column-vector y was passed when a 1d array was expected"
    warnings.warn(message, DataConversionWarning, stacklevel=2)
    return Values(np.asarray(y).ravel())


def _refuse_masked(array: Any) -> None:
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise DataError("the array has masked entries; pass only the rows that are there")
