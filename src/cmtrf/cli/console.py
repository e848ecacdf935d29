"""What the verbs share: options, where output may go, how results and messages are printed.

Messages are printed plainly, one line each, so that a path or an id in them is neither wrapped nor cut.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

MODEL_SUFFIXES = (".cmtrf", ".safetensors")
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Threads.", show_default="all cores")]


class FailedError(Exception):
    """What was asked for cannot be done; the message says why."""


# Before the work --------------------------------------------------------------------------------------------


def check_output(path: Path | None, suffixes: Sequence[str]) -> None:
    """Refuse a path that could not be written, before time is spent on what should go there."""
    if path is None:
        return
    if path.is_dir():
        raise FailedError(f"{path} is a folder; name a file in it")
    if path.suffix.lower() not in suffixes:
        known = " or ".join(filter(None, [", ".join(suffixes[:-1]), suffixes[-1]]))
        raise typer.BadParameter(f"the name of {path} must end in {known}", param_hint="-o")
    folder = path.parent
    if not folder.is_dir():
        raise FailedError(f"there is no folder {folder} for {path.name}; create it first")
    if not os.access(folder, os.W_OK):
        raise FailedError(f"the folder {folder} cannot be written to")


# Results ----------------------------------------------------------------------------------------------------


def deliver_table(table: Any, output: Path | None, *, as_json: bool) -> None:
    """Write a polars frame to a file, or print it: for people on a terminal, as CSV in a pipe."""
    if output is not None:
        from cmtrf.tables.writing import write_file

        write_file(table, output)
        written = {"output": str(output), "rows": table.height}
        print_json(written) if as_json else print(f"{table.height:,} rows written to {output}")
    elif as_json:
        print_json(table.rows(named=True))
    elif sys.stdout.isatty():
        for line in align(table.columns, table.rows()):
            print(line)
    else:
        sys.stdout.write(table.write_csv())


def print_json(result: Any) -> None:
    """Print valid JSON; what is missing is null."""
    from cmtrf.files import json_text

    print(json_text(result))


def print_pairs(pairs: Mapping[str, str]) -> None:
    """Print names and values, one a line."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        print(f"{name:<{width}}  {value}")


def align(
    names: Sequence[str], rows: Sequence[Sequence[Any]], *, to_the_right: Sequence[bool] | None = None
) -> Iterator[str]:
    """Lines of a table: numbers to the right, texts to the left unless told otherwise, nothing cut."""
    from rich.cells import cell_len

    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([cell_len(name), *(cell_len(row[k]) for row in cells)]) for k, name in enumerate(names)]
    numeric = to_the_right or [all(isinstance(row[k], (int, float)) for row in rows) for k in range(len(names))]
    for line in [list(names), *cells]:
        padded = [
            " " * (width - cell_len(text)) + text if right else text + " " * (width - cell_len(text))
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def printable(text: str) -> str:
    """One line, in which control characters are spelled out."""
    text = re.sub(r"\s*[\r\n]\s*", " ", text.strip())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else printable(str(value))


# Messages ---------------------------------------------------------------------------------------------------


def say(message: str) -> None:
    """Print one line on stderr."""
    print(f"cmtrf: {printable(message)}", file=sys.stderr)


class _OneLine(logging.Handler):
    """Says what the log says."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"warning: {record.getMessage()}")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings, also those of the log, as one line, without the place in the source."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"warning: {message}")

    log, handler = logging.getLogger("cmtrf"), _OneLine(logging.WARNING)
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        log.removeHandler(handler)


def report(error: Exception, *, debug: bool) -> int:
    """Say in one sentence what went wrong, and return the exit status: 2 for a wrong call, else 1."""
    if debug:
        traceback.print_exception(error)
    if hasattr(error, "format_message"):  # of the parser, whichever library typer has it from
        context = getattr(error, "ctx", None)
        verb = context.command_path if context else "cmtrf"
        say(f"{error.format_message().strip().rstrip('.')} (see {verb} --help)")
        return int(getattr(error, "exit_code", 2))
    say(_as_options(_explain(error)))
    return 1


def _as_options(message: str) -> str:
    """Name options as they are typed where a message names arguments: at its start, after words such as "pass"."""
    names = (
        "user|item|rating|timestamp|weight|levels|duplicates|split|n_scales|models|score|seeds|test_share|test|fresh"
    )
    value = r"\[[^]]*\]|'[^']*'|\"[^\"]*\"|[\w.]*"

    def option(match: re.Match[str]) -> str:
        name = {"n_scales": "scales"}.get(match[2], match[2].replace("_", "-"))
        entries = re.sub(r"['\"\[\] ]", "", match[3])
        told = {"...": "LEVEL,...", "True": ""}.get(entries, entries)
        return f"{match[1]}--{name} {told}".rstrip()

    return re.sub(rf"(^|: |\b(?:pass|or|with|by|and|without) )({names})=({value})", option, message)


def _explain(error: Exception) -> str:
    if isinstance(error, FailedError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    from cmtrf.errors import CmtrfError

    if isinstance(error, CmtrfError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (with --debug it says where)"
