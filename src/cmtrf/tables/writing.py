"""Plain columns -> a data frame of a kind, and a frame -> a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import narwhals.stable.v2 as nw
import numpy as np

from cmtrf.errors import ParameterError
from cmtrf.files import write_whole
from cmtrf.kernels.table import Integers
from cmtrf.tables.columns import Columns
from cmtrf.vocabulary import is_missing, plain_array

if TYPE_CHECKING:  # polars takes a tenth of a second to import, so it is imported where it is used
    import polars as pl


def frame(data: Mapping[str, Any], kind: str | None = None) -> Any:
    """Build a data frame of a kind ("pandas", "polars", "pyarrow"; None: polars); what is missing is null."""
    backend = "polars" if kind is None else kind
    if backend not in ("pandas", "polars", "pyarrow"):
        raise ParameterError(f"kind must be 'pandas', 'polars', 'pyarrow' or None, got {kind!r}")
    columns = {name: _series(name, column, backend) for name, column in data.items()}
    return nw.from_dict(columns).to_native()


def take_rows(table: Any, rows: Integers, columns: Columns) -> Any:
    """Rows of a frame, with all of its columns; of any other table the ``columns`` that were read of them."""
    native = nw.from_native(table, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect(backend="polars")
    return native[rows.tolist()].to_native() if isinstance(native, nw.DataFrame) else as_frame(columns)


def as_frame(columns: Columns) -> Any:
    """Columns under the names that they had, as a frame of the kind that they were read from."""
    there = [role for role in ("user", "item", "rating", "timestamp", "weight") if getattr(columns, role) is not None]
    table = {columns.names.get(role, role): getattr(columns, role) for role in there}
    if columns.words is not None:
        backend: Any = columns.kind or "polars"
        order = nw.new_series("", columns.rating, nw.Enum(columns.words), backend=backend)
        table[columns.names.get("rating", "rating")] = order
    return frame(table, columns.kind)


def _series(name: str, column: Any, backend: Any) -> Any:
    if isinstance(column, nw.Series):
        return column.alias(name)
    array = plain_array(column)
    if array.dtype.kind not in "OUf" or (array.dtype.kind == "f" and not np.isnan(array).any()):
        return nw.new_series(name, array, backend=backend)
    values = array.tolist()
    dtype = _dtype_of(values)
    values = [None if is_missing(value) else value for value in values]
    if backend == "pandas" and dtype in (nw.Int64, nw.Boolean) and None in values:
        gaps = nw.new_series(name, values, nw.Object(), backend=backend).to_native()
        return nw.from_native(gaps.astype("Int64" if dtype == nw.Int64 else "boolean"), series_only=True)
    return nw.new_series(name, values, dtype, backend=backend)


def _dtype_of(values: Sequence[Any]) -> Any:
    """The type of what is there; where nothing is, NaN still says that there could be numbers."""
    there = [value for value in values if not is_missing(value)]
    there = there or [value for value in values if isinstance(value, (float, np.floating))]
    if all(isinstance(value, str) for value in there):
        return nw.String()
    if all(isinstance(value, (bool, np.bool_)) for value in there):
        return nw.Boolean()
    if all(isinstance(value, (int, np.integer)) for value in there):
        return nw.Int64()
    return nw.Float64()


def write_file(data: Any, path: str | os.PathLike[str]) -> None:
    """Write a frame as CSV, TSV or Parquet, by the suffix; the file appears whole or not at all."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet"):
        raise ParameterError(f"cannot tell how to write {path}; its name must end in .csv, .tsv or .parquet")
    table = _as_polars(data)
    if suffix == ".parquet":
        write_whole(path, table.write_parquet)
    else:
        write_whole(path, lambda file: table.write_csv(file, separator="\t" if suffix == ".tsv" else ","))


def _as_polars(data: Any) -> pl.DataFrame:
    import polars as pl

    table = nw.from_native(data)
    if isinstance(table, nw.LazyFrame):
        table = table.collect(backend="polars")
    if table.implementation.is_polars():
        return cast("pl.DataFrame", table.to_native())
    columns = {name: [None if is_missing(v) else v for v in table[name].to_list()] for name in table.columns}
    floats = {name: pl.Float64 for name, dtype in table.schema.items() if dtype.is_float()}
    return pl.DataFrame(columns, schema_overrides=floats)  # a column of gaps only stays one of numbers
