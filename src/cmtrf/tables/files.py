"""Text and Parquet files as a `Source`; a message names the line of a file."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import NarwhalsError
from numpy.typing import NDArray

from cmtrf.errors import DataError, MissingFileError
from cmtrf.tables.sources import ROLES, Source, open_frame
from cmtrf.tables.values import Values, is_number

if TYPE_CHECKING:  # polars takes a tenth of a second to import, so it is imported where it is used
    import polars as pl


def open_file(path: Path) -> Source:
    """Open a file: Parquet by its suffix, else text, by whatever it is separated."""
    if not path.exists():
        raise MissingFileError(f"there is no file {path}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; pass a file in it")
    with _reading(path):
        return _open_parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _open_text(path)


@contextmanager
def _reading(path: Path, layout: _Layout | None = None) -> Iterator[None]:
    """Say which file it was that could not be read, and why."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, NarwhalsError, OSError, EOFError, csv.Error, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if layout is not None:
            reason = _say_long_line(layout) or reason
        if "utf-8" in reason:
            reason += "; save it as UTF-8"
        raise DataError(f"{path} cannot be read: {reason}") from error


def _open_parquet(path: Path) -> Source:
    import polars as pl

    opened = open_frame(nw.from_native(pl.scan_parquet(path, glob=False)))

    def fetch(at: Mapping[str, int]) -> dict[str, Values]:
        with _reading(path):
            return opened.fetch(at)

    return Source(opened.names, fetch, path.name, where=lambda row: f"row {row} of {path.name}")


# Text -----------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """How a text file is laid out."""

    path: Path
    separator: str
    names: tuple[str, ...]
    header: bool
    skip: int  # empty lines before the first one that is not


def _open_text(path: Path) -> Source:
    layout = _recognise(path)

    def fetch(at: Mapping[str, int]) -> dict[str, Values]:
        with _reading(path, layout):
            return _fetch(layout, at)

    def where(row: int) -> str:
        return _say_line(layout, row)

    return Source(layout.names, fetch, path.name, where=where, untyped=True, named=layout.header)


def _open_bytes(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")


def _recognise(path: Path) -> _Layout:
    """Tell the separator and whether there is a header from the first line: a header has no numbers in it."""
    with _open_bytes(path) as stream:
        head = stream.read(1 << 16)
    if head.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise DataError(f"{path} is an archive or a spreadsheet; unpack it, or save the table as CSV in UTF-8")
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
    header = not any(is_number(text) and any(map(str.isdigit, text)) for text in fields)
    if not header and not 2 <= len(fields) <= len(ROLES):
        raise DataError(f"{path} has {len(fields)} columns and no header; give it a first line that names them")
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


def _fetch(layout: _Layout, at: Mapping[str, int]) -> dict[str, Values]:
    """Read columns of texts, as numbers where all of a column are: ids only if no digit would be lost."""
    import polars as pl

    scan, columns = _scan(layout)
    nothing = [columns[position].is_null() for position in at.values()]
    wanted = [pl.all_horizontal(*nothing).alias("empty")]
    for role, position in at.items():
        text = columns[position].str.strip_chars()
        is_id = role in ("user", "item")
        number = text.cast(pl.Int64 if is_id else pl.Float64, strict=False)
        whole = number.cast(pl.String) == text if is_id else number.is_not_null()
        wanted += [number.alias(role), whole.fill_null(False).alias(f"{role} is whole")]
    table = scan.select(wanted).collect()
    kept = _rows_of(table["empty"], layout)
    values = {}
    for role, position in at.items():
        column = table[role][kept]
        if not table[f"{role} is whole"][kept].all():
            column = scan.select(columns[position]).collect().to_series()[kept]
        values[role] = Values(column.to_numpy())
    return values


def _rows_of(empty: pl.Series, layout: _Layout) -> slice | NDArray[np.int64]:
    """The rows that are not empty lines; a line of separators only is a row, with its values missing."""
    if not empty.any():
        return slice(None)
    return np.array([row for row, (_, record) in enumerate(_records(layout)) if record], np.int64)


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
    lines = (line for line, record in _records(layout) if record)
    try:
        return f"line {next(islice(lines, row, None))} of {layout.path.name}"
    except (StopIteration, OSError, csv.Error):
        return f"data row {row} of {layout.path.name}"


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
