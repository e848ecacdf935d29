"""Data frame, array or file <-> plain columns; the only room that knows data frames.

What comes in is first a `_Source`: column names, and a way to fetch columns by position. Then the columns
that play a role are found, fetched and checked, once for every kind of source.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import os
import secrets
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from cmtrf.errors import DataError, MissingFileError, ParameterError
from cmtrf.vocabulary import Place, as_ids, is_missing, plain_array, shown

if TYPE_CHECKING:  # polars takes a tenth of a second to import, so it is imported where it is used
    import polars as pl

log = logging.getLogger("cmtrf")

ROW = "row {} of the table".format
ROLES = ("user", "item", "rating", "timestamp")  # also the order of columns that have no names

# Usual names, in lower case and without "_", "-", "." and blanks; one of the first group wins over one of the
# second. Of users and items also the name with "id" behind it.
USUAL = {
    "user": (
        "user uid",
        "username users reviewer rater worker annotator customer judge assessor member reader listener "
        "person participant profile",
    ),
    "item": (
        "item iid",
        "items movie film book product business song track artist album show anime game recipe restaurant "
        "beer place venue article paper joke task question document image gmap asin isbn",
    ),
    "rating": (
        "rating ratings",
        "score scores star stars grade label overall vote response judgment judgement preference userrating "
        "bookrating movierating ratingvalue reviewscore",
    ),
    "timestamp": (
        "timestamp ts",
        "time date datetime unixtime unixreviewtime ratedat createdat ratingdate",
    ),
}


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table that play a role, checked, as plain arrays of equal length."""

    user: NDArray[Any]  # (n,) int64, float64 or object (str)
    item: NDArray[Any]  # (n,) the same
    rating: NDArray[Any] | None  # (n,) float64, or object (str) where ratings are words
    timestamp: NDArray[np.float64] | None  # (n,) NaN where missing; dates are seconds since 1970
    weight: NDArray[np.float64] | None  # (n,) finite, >= 0
    words: tuple[str, ...] | None  # order of an ordered categorical rating column, lowest first
    names: Mapping[str, str]  # role -> the caller's column name
    kind: str | None  # "pandas", "polars", "pyarrow"; None for NumPy, sparse, a path
    source: str  # what the table is called in messages
    where: Place = field(repr=False)  # row -> "row 17 of the table", "line 18 of ratings.csv"
    untyped: bool = False  # the ids were texts in a file: 12 may stand for the id "12"

    def __len__(self) -> int:
        return len(self.user)

    def place(self, role: str, row: int) -> str:
        """Say which cell of the table is meant."""
        return f"column {self.names.get(role, role)!r}, {self.where(row)}"


class _Values(NamedTuple):
    array: NDArray[Any]
    words: tuple[Any, ...] | None = None  # categories of an ordered categorical, lowest first


class _Fetched(NamedTuple):
    values: Mapping[str, _Values]
    where: Place


class _Source(NamedTuple):
    names: tuple[str, ...]
    fetch: Callable[[Mapping[str, int]], _Fetched]  # role -> position of its column
    source: str = "the table"
    kind: str | None = None
    untyped: bool = False
    named: bool = True  # False where columns are known by their place only


# Reading --------------------------------------------------------------------------------------------------


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
) -> Columns:
    """Read a table of ratings, or with ``rated=False`` of pairs, from anything that holds one.

    Parameters
    ----------
    source
        A pandas, polars or Arrow frame (or another that narwhals reads); a path to a CSV, TSV, Parquet or
        MovieLens file; an array of 2 to 4 columns (user, item, rating, timestamp); as many one-dimensional
        arrays in a tuple; a SciPy sparse matrix, every stored entry of which is a rating.
    y, sample_weight
        Ratings and weights that are not columns of the table.
    user, item, rating, timestamp, weight
        Names of columns; those not named are found by their usual names (a weight never is).
    rated
        False for a table of pairs: a rating, a time or a weight is not looked at.
    """
    if rated and weight is not None and sample_weight is not None:
        raise ParameterError("both weight= and sample_weight= are given; pass one of them")
    opened = _open(source)
    asked = {"user": user, "item": item}
    if rated:
        asked |= {"rating": rating, "timestamp": timestamp, "weight": weight}
    at = _find_columns(opened, asked, extra_ratings=y is not None, rated=rated)
    values, where = opened.fetch(at)
    names = {role: opened.names[position] for role, position in at.items()}
    values = dict(values)
    if rated and y is not None:
        values["rating"], names["rating"] = _target(y), "y"
    if rated and sample_weight is not None:
        values["weight"], names["weight"] = _values(sample_weight), "sample_weight"
    _check_lengths(values, names, opened.source)
    if opened.named:
        found = ", ".join(f"{role} = {name!r}" for role, name in names.items())
        log.info("%s: columns %s", opened.source, found)
    checked = _check_columns(values, names, where, named_time=timestamp is not None)
    return Columns(
        **checked, names=names, kind=opened.kind, source=opened.source, where=where, untyped=opened.untyped
    )


def _check_lengths(values: Mapping[str, _Values], names: Mapping[str, str], source: str) -> None:
    n = len(values["user"].array)
    if n == 0:
        raise DataError(f"{source} is empty: it has 0 sample(s) (rows) while a minimum of 1 is required")
    for role, (array, _) in values.items():
        if len(array) != n:
            raise DataError(
                f"{names[role]} has {len(array)} values, but {source} has {n} rows; pass one value a row"
            )


def _check_columns(
    values: Mapping[str, _Values], names: Mapping[str, str], where: Place, *, named_time: bool
) -> dict[str, Any]:
    def place(role: str) -> Place:
        return lambda row: f"column {names[role]!r}, {where(row)}"

    checked: dict[str, Any] = dict.fromkeys(("rating", "timestamp", "weight", "words"))
    checked["user"] = as_ids(values["user"].array, place("user"))
    checked["item"] = as_ids(values["item"].array, place("item"))
    if "rating" in values:
        checked["rating"], checked["words"] = _ratings(values["rating"], place("rating"))
    if "timestamp" in values:
        try:
            checked["timestamp"] = _timestamps(values["timestamp"].array, place("timestamp"))
        except DataError as error:
            if named_time:
                raise
            log.warning("%s; the column was not named, so it is left out", error)
    if "weight" in values:
        checked["weight"] = _weights(values["weight"].array, place("weight"))
    return checked


# Which column is what -------------------------------------------------------------------------------------


def _find_columns(
    opened: _Source, asked: Mapping[str, str | None], *, extra_ratings: bool, rated: bool
) -> dict[str, int]:
    names = opened.names
    at = {role: _named(names, role, name) for role, name in asked.items() if name is not None}
    for role, position in at.items():
        if list(at.values()).count(position) > 1:
            raise ParameterError(f"column {names[position]!r} is named twice, once as {role}=")
    for role in ROLES:
        if role in asked and role not in at:
            at |= _usual(names, role, set(at.values()))
    if not {"user", "item"} & at.keys() and len(names) == 2 and (extra_ratings or not rated):
        at = {"user": 0, "item": 1, **at}  # scikit-learn passes such tables; their columns may have any names
    if extra_ratings and "rating" in at:
        raise DataError(f"both y and a rating column {names[at['rating']]!r} are given; pass one of them")
    for role in ("user", "item"):
        if role not in at:
            there = _say_columns(names)
            raise DataError(f"{opened.source} has no {role} column; {there}; pass {role}='<column>'")
    if rated and not extra_ratings and "rating" not in at:
        raise DataError(
            f"{opened.source} has no rating column; {_say_columns(names)}; pass rating='<column>', or the "
            "ratings as y (fitting requires y to be passed, but the target y is None)"
        )
    return at


def _named(names: Sequence[str], role: str, name: str) -> int:
    matches = [k for k, there in enumerate(names) if there == str(name)]
    matches = matches or [k for k, there in enumerate(names) if there.strip() == str(name).strip()]
    if not matches:
        raise DataError(f"there is no column {name!r}; {_say_columns(names)}; pass one of them as {role}=")
    if len(matches) > 1:
        raise DataError(f"there are {len(matches)} columns {name!r}; give them distinct names")
    return matches[0]


def _usual(names: Sequence[str], role: str, taken: set[int]) -> dict[str, int]:
    endings = ("", "id") if role in ("user", "item") else ("",)
    plain = [name.lower().translate(str.maketrans("", "", "_-. ")) for name in names]
    for group in USUAL[role]:
        usual = {name + ending for name in group.split() for ending in endings}
        found = [k for k, name in enumerate(plain) if name in usual and k not in taken]
        if len(found) > 1:
            which = " or ".join(repr(names[position]) for position in found)
            raise DataError(f"the {role} column could be {which}; pass {role}= to say which it is")
        if found:
            return {role: found[0]}
    return {}


def _say_columns(names: Sequence[str]) -> str:
    return "the columns are " + ", ".join(map(repr, names)) if names else "there are no columns"


# Kinds of sources -----------------------------------------------------------------------------------------


def _open(source: Any) -> _Source:
    if isinstance(source, (str, os.PathLike)):
        return _open_file(Path(source))
    if hasattr(source, "tocoo"):
        return _open_sparse(source.tocoo())
    if isinstance(source, Mapping):
        return _open_arrays({str(name): _values(column) for name, column in source.items()}, named=True)
    if isinstance(source, np.ndarray) and source.dtype.names:
        return _open_arrays({name: _values(source[name]) for name in source.dtype.names}, named=True)
    try:
        frame = nw.from_native(source, pass_through=True)
    except NarwhalsError as error:
        raise DataError(f"the table cannot be used: {error}") from error
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return _open_frame(frame)
    return _open_arrays(dict(zip(ROLES, _split(source), strict=False)), named=False)


def _open_frame(frame: Any) -> _Source:
    """Any narwhals frame; of a lazy one only the columns that are needed are collected."""
    made_by = frame.implementation
    kind = "pandas" if made_by.is_pandas_like() else "polars" if made_by.is_polars() else None
    kind = "pyarrow" if made_by.is_pyarrow() else kind
    names = tuple(str(name) for name in frame.collect_schema().names())

    def fetch(at: Mapping[str, int]) -> _Fetched:
        part = frame.select(nw.nth(*at.values()))
        if isinstance(part, nw.LazyFrame):
            part = part.collect(backend="polars")
        return _Fetched({role: _values(part[:, k]) for k, role in enumerate(at)}, ROW)

    return _Source(names, fetch, kind=kind)


def _open_arrays(columns: Mapping[str, _Values], *, named: bool) -> _Source:
    arrays = list(columns.values())

    def fetch(at: Mapping[str, int]) -> _Fetched:
        return _Fetched({role: arrays[position] for role, position in at.items()}, ROW)

    return _Source(tuple(columns), fetch, named=named)


def _open_sparse(matrix: Any) -> _Source:
    if len(matrix.shape) != 2:
        raise DataError(f"a sparse array of ratings has two dimensions; this one's shape is {matrix.shape}")
    row, column = matrix.row, matrix.col
    values = {"user": _Values(row), "item": _Values(column), "rating": _Values(matrix.data)}

    def where(entry: int) -> str:
        return f"stored entry {entry} of the matrix (row {row[entry]}, column {column[entry]})"

    def fetch(at: Mapping[str, int]) -> _Fetched:
        return _Fetched({role: values[role] for role in at}, where)

    return _Source(("user", "item", "rating"), fetch, source="the matrix", named=False)


def _split(source: Any) -> list[_Values]:
    """Cut an array, a list of rows, or a tuple of columns into columns."""
    if isinstance(source, (list, tuple)) and _holds_columns(source):
        columns = [_values(column) for column in source]
        lengths = [len(column.array) for column in columns]
        if len(set(lengths)) > 1:
            raise DataError(f"the columns have different lengths: {lengths}")
    elif isinstance(source, (list, tuple)):
        columns = _split_rows(source)
    else:
        columns = _split_array(source)
    if not 2 <= len(columns) <= len(ROLES):
        n = len(columns[0].array) if columns else len(source)
        raise DataError(
            f"the table has {len(columns)} feature(s) (shape=({n}, {len(columns)})) while a minimum of 2 is "
            "required, and at most 4: pass the columns user, item, rating and timestamp, in this order"
        )
    return columns


def _holds_columns(source: Sequence[Any]) -> bool:
    """A tuple holds columns, and so does a list of arrays or series; a list of lists holds rows."""
    plain = (str, bytes, int, float, type(None))
    if any(isinstance(part, plain) for part in source):
        raise DataError("Expected 2D array, got 1D array instead: pass rows or columns. Reshape your data")
    return isinstance(source, tuple) or (len(source) > 0 and not isinstance(source[0], (list, tuple)))


def _split_rows(rows: Sequence[Any]) -> list[_Values]:
    width = len(rows[0]) if rows else 2
    for row, entries in enumerate(rows):
        if not isinstance(entries, (list, tuple)) or len(entries) != width:
            raise DataError(f"row {row} of the table is {entries!r}; it must be a list of {width} entries")
    return [_Values(plain_array([entries[k] for entries in rows])) for k in range(width)]


def _split_array(source: Any) -> list[_Values]:
    if not hasattr(source, "__array__"):
        raise DataError(f"cannot read a table from {type(source).__name__}; pass a frame, a path or arrays")
    _refuse_masked(source)
    array = np.asarray(source)
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead: {array.shape}. Reshape your data"
        )
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: complex numbers are neither ids nor ratings")
    return [_Values(array[:, k]) for k in range(array.shape[1])]


def _values(column: Any) -> _Values:
    """Make a plain array of a series of any kind, or of anything like a list."""
    series = nw.from_native(column, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        _refuse_masked(column)
        return _Values(plain_array(column))
    dtype = getattr(series.to_native(), "type", None)  # an Arrow column says here if categories are ordered
    ordered = series.dtype == nw.Enum or getattr(dtype, "ordered", False)
    words = tuple(series.cat.get_categories().to_list()) if ordered else None
    return _Values(series.to_numpy(), words)


def _refuse_masked(array: Any) -> None:
    if np.ma.isMaskedArray(array) and np.ma.is_masked(array):
        raise DataError("the array has masked entries; pass only the rows that are there")


def _target(y: Any) -> _Values:
    if getattr(y, "ndim", 1) != 2:
        return _values(y)
    if y.shape[1] != 1:
        raise DataError(f"y should be a 1d array, got an array of shape {y.shape} instead")
    message = "A column-vector y was passed when a 1d array was expected"
    warnings.warn(message, DataConversionWarning, stacklevel=2)
    return _Values(np.asarray(y).ravel())


# Files ----------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """How a text file is laid out."""

    path: Path
    separator: str
    names: tuple[str, ...]
    header: bool
    skip: int  # empty lines before the first one that is not


def _open_file(path: Path) -> _Source:
    if not path.exists():
        raise MissingFileError(f"there is no file {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; pass a file in it")
    with _reading(path):
        if path.suffix.lower() in (".parquet", ".pq"):
            return _open_parquet(path)
        layout = _recognise(path)

    def fetch(at: Mapping[str, int]) -> _Fetched:
        return _fetch_text(layout, at)

    return _Source(layout.names, fetch, source=path.name, untyped=True, named=layout.header)


def _open_parquet(path: Path) -> _Source:
    import polars as pl

    opened = _open_frame(nw.from_native(pl.scan_parquet(path, glob=False)))

    def fetch(at: Mapping[str, int]) -> _Fetched:
        with _reading(path):
            return _Fetched(opened.fetch(at).values, lambda row: f"row {row} of {path.name}")

    return _Source(opened.names, fetch, source=path.name)


@contextmanager
def _reading(path: Path, layout: _Layout | None = None) -> Iterator[None]:
    """Say which file it was that could not be read, and why."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError, EOFError, UnicodeError, csv.Error, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if layout is not None:
            reason = _say_long_line(layout) or reason
        if "utf-8" in reason:
            reason += "; save it as UTF-8"
        raise DataError(f"{path} cannot be read: {reason}") from error


def _open_bytes(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")


def _recognise(path: Path) -> _Layout:
    """Tell the separator and whether there is a header from the first line: a header has no numbers in it."""
    with _open_bytes(path) as stream:
        head = stream.read(1 << 16)
    if b"\0" in head:
        raise DataError(f"{path} is neither Parquet nor text with a column for user, item and rating")
    lines = [line.rstrip("\r") for line in head.decode("utf-8-sig", errors="replace").split("\n")]
    skip = next((number for number, line in enumerate(lines) if line), None)
    if skip is None:
        raise DataError(f"{path} is empty: it has 0 sample(s) (rows)")
    first = lines[skip]
    preferred = {".csv": ",", ".tsv": "\t"}.get(Path(path.name.lower().removesuffix(".gz")).suffix, "::")
    separator = next((each for each in (preferred, "::", "\t", ",", ";", "|", " ") if each in first), ",")
    fields = first.split("::") if separator == "::" else next(csv.reader([first], delimiter=separator))
    header = not any(_is_number(text) and any(map(str.isdigit, text)) for text in fields)
    if not header and not 2 <= len(fields) <= len(ROLES):
        raise DataError(
            f"{path} has {len(fields)} columns and no header; give it a first line that names them"
        )
    return _Layout(path, separator, tuple(fields) if header else ROLES[: len(fields)], header, skip)


def _scan(layout: _Layout) -> tuple[pl.LazyFrame, list[pl.Expr]]:
    """The file as a lazy frame, and an expression for each of its columns; everything is text."""
    import polars as pl

    width = len(layout.names)
    joint = layout.separator == "::"  # polars separates by one character: read lines, then cut
    scan = pl.scan_csv(
        layout.path,
        separator="\x01" if joint else layout.separator,
        quote_char=None if joint else '"',
        has_header=layout.header,
        skip_lines=layout.skip,
        new_columns=["0"] if joint else [str(k) for k in range(width)],
        infer_schema=False,
        glob=False,
    )
    if not joint:
        return scan, [pl.col(str(k)) for k in range(width)]
    parts = pl.col("0").str.splitn("::", width).struct
    return scan, [parts.field(f"field_{k}") for k in range(width)]


def _fetch_text(layout: _Layout, at: Mapping[str, int]) -> _Fetched:
    """Read columns of texts, as numbers where all of a column are: ids only if no digit would be lost."""
    import polars as pl

    with _reading(layout.path, layout):
        scan, columns = _scan(layout)
        nothing = [columns[position].is_null() for position in at.values()]
        wanted = [pl.all_horizontal(*nothing).alias("empty")]
        for role, position in at.items():
            text = columns[position].str.strip_chars()
            number = text.cast(pl.Int64 if role in ("user", "item") else pl.Float64, strict=False)
            is_id = role in ("user", "item")
            whole = number.cast(pl.String) == text if is_id else number.is_not_null()
            wanted += [number.alias(role), whole.fill_null(False).alias(f"{role} is whole")]
        table = scan.select(wanted).collect()
        kept = _rows_of(table["empty"], layout)
        values = {}
        for role, position in at.items():
            column, whole_rows = table[role][kept], table[f"{role} is whole"][kept]
            if not whole_rows.all():
                column = scan.select(columns[position]).collect().to_series()[kept]
            values[role] = _Values(column.to_numpy())

    def where(row: int) -> str:
        return _say_line(layout, row if isinstance(kept, slice) else int(kept[row]))

    return _Fetched(values, where)


def _rows_of(empty: pl.Series, layout: _Layout) -> slice | NDArray[np.int64]:
    """The rows that are not empty lines; a line of separators only is a row, with its values missing."""
    if not empty.any():
        return slice(None)
    rows = [row for row, (_, record) in enumerate(_records(layout)) if record]
    return np.array(rows, np.int64)


def _records(layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """The rows of the file, empty lines too, each with the number of the line on which it begins."""
    joint = layout.separator == "::"
    with _open_bytes(layout.path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        reader = csv.reader(
            text,
            delimiter="\x01" if joint else layout.separator,
            quoting=csv.QUOTE_NONE if joint else csv.QUOTE_MINIMAL,
        )
        begin = 1
        for number, record in enumerate(reader):
            if number >= layout.skip + layout.header:
                yield begin, record
            begin = reader.line_num + 1


def _say_line(layout: _Layout, row: int) -> str:
    try:
        line, _ = next(islice(_records(layout), row, None))
    except (StopIteration, OSError, csv.Error):
        return f"data row {row} of {layout.path.name}"
    return f"line {line} of {layout.path.name}"


def _say_long_line(layout: _Layout) -> str:
    """What is most often wrong with a file: a line with more fields than there are columns."""
    width = len(layout.names)
    try:
        for line, record in _records(layout):
            if len(record) > width:
                return f"line {line} has {len(record)} fields, but there are {width} columns"
    except (OSError, EOFError, csv.Error, zlib.error):
        pass
    return ""


# Numbers, words and times ---------------------------------------------------------------------------------


def _ratings(values: _Values, place: Place) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Ratings as numbers, or as texts where they are words; the order of the words, if the table has one."""
    array, words = values
    if not _is_text(array):
        return _numbers(array, place, "rating"), None
    texts = array.astype(object)
    for row, text in enumerate(texts.tolist()):
        if is_missing(text) or not text.strip():
            raise DataError(f"{place(row)}: the rating is missing ({shown(text)}); remove the row")
    are_numbers = all(map(_is_number, set(texts.tolist()) if words is None else words))
    if are_numbers and (words is None or bool(np.all(np.diff(list(map(float, words))) > 0))):
        return _numbers(texts, place, "rating"), None
    return texts, words


def _weights(array: NDArray[Any], place: Place) -> NDArray[np.float64]:
    weights = _numbers(array, place, "weight")
    for row in np.flatnonzero(weights < 0)[:1].tolist():
        raise DataError(f"{place(row)}: the weight {weights[row]:g} is negative; weights must be >= 0")
    return weights


def _timestamps(array: NDArray[Any], place: Place) -> NDArray[np.float64]:
    """Times as numbers, dates as seconds since 1970 (UTC); a missing one is NaN."""
    if array.dtype.kind == "M":
        micro = array.astype("datetime64[us]")
        return np.where(np.isnat(micro), np.nan, micro.astype(np.int64) / 1e6)
    times = _floats(array, place, _seconds, "neither a number nor a date such as 2024-05-31 12:00:00")
    for row in np.flatnonzero(np.isinf(times))[:1].tolist():
        raise DataError(f"{place(row)}: the timestamp is not finite ({shown(array[row])}); correct it")
    return times


def _numbers(array: NDArray[Any], place: Place, what: str) -> NDArray[np.float64]:
    """Every value as a finite float, or an error that names the first that is not."""
    numbers = _floats(array, place, _float, "not a number")
    for row in np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
        problem = "missing" if np.isnan(numbers[row]) else "not finite"
        raise DataError(
            f"{place(row)}: the {what} is {problem} ({shown(array[row])}); remove the row or correct it"
        )
    return numbers


def _floats(
    array: NDArray[Any], place: Place, convert: Callable[[Any], float], problem: str
) -> NDArray[np.float64]:
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


def _float(value: Any) -> float:
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return np.nan
    if isinstance(value, str) and "_" in value:  # float() takes 1_0 for ten
        raise ValueError(value)
    if isinstance(value, (str, Real, Decimal)):
        return float(value)
    raise TypeError(value)


def _seconds(value: Any) -> float:
    if isinstance(value, str) and not _is_number(value):
        value = datetime.fromisoformat(value.strip())
    if is_missing(value) or not isinstance(value, date):
        return _float(value)
    when = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _is_number(text: Any) -> bool:
    try:
        _float(text)
    except (TypeError, ValueError):
        return False
    return True


def _is_text(array: NDArray[Any]) -> bool:
    """Whether a column holds texts and nothing else but gaps."""
    if array.dtype.kind != "O":
        return array.dtype.kind == "U"
    kinds = set(map(type, array.tolist()))
    rest = [kind for kind in kinds if not issubclass(kind, str)]
    return len(rest) < len(kinds) and all(
        kind in (type(None), float) or kind.__name__ == "NAType" for kind in rest
    )


# Writing --------------------------------------------------------------------------------------------------


def frame(data: Mapping[str, Any], kind: str | None = None) -> Any:
    """Build a data frame of a kind ("pandas", "polars", "pyarrow"; None: polars); what is missing is null."""
    backend = "polars" if kind is None else kind
    if backend not in ("pandas", "polars", "pyarrow"):
        raise ParameterError(f"kind must be 'pandas', 'polars', 'pyarrow' or None, got {kind!r}")
    return nw.from_dict({name: _series(name, column, backend) for name, column in data.items()}).to_native()


def _series(name: str, column: Any, backend: Any) -> Any:
    array = plain_array(column)
    if array.dtype.kind not in "OUf" or (array.dtype.kind == "f" and not np.isnan(array).any()):
        return nw.new_series(name, array, backend=backend)
    values = [None if is_missing(value) else value for value in array.tolist()]
    dtype = _dtype_of(values)
    if backend == "pandas" and dtype in (nw.Int64, nw.Boolean) and None in values:
        gaps = nw.new_series(name, values, nw.Object(), backend=backend).to_native()
        return nw.from_native(gaps.astype("Int64" if dtype == nw.Int64 else "boolean"), series_only=True)
    return nw.new_series(name, values, dtype, backend=backend)


def _dtype_of(values: Sequence[Any]) -> Any:
    there = [value for value in values if value is not None]
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
    target = path.resolve()  # of a link: the file it points to, so that the link stays
    if not target.parent.is_dir():
        raise MissingFileError(f"there is no folder {target.parent}; create it first")
    table = _as_polars(data)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:  # unlike tempfile's, this file gets the permissions of any new file
            if suffix == ".parquet":
                table.write_parquet(stream)
            else:
                table.write_csv(stream, separator="\t" if suffix == ".tsv" else ",")
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    except BaseException:  # Ctrl-C too
        part.unlink(missing_ok=True)
        raise


def _as_polars(data: Any) -> pl.DataFrame:
    import polars as pl

    table = nw.from_native(data)
    if isinstance(table, nw.LazyFrame):
        table = table.collect(backend="polars")
    if table.implementation.is_polars():
        return cast("pl.DataFrame", table.to_native())
    columns = {name: table[name].to_list() for name in table.columns}
    return pl.DataFrame(
        {name: [None if is_missing(v) else v for v in column] for name, column in columns.items()}
    )
