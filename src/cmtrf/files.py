"""A file appears whole or not at all; JSON is valid JSON."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite, isnan
from pathlib import Path
from typing import Any, BinaryIO

from cmtrf.errors import MissingFileError, OutputError


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write beside the target and move into its place: readers see the old file or the new one.

    A link stays a link; a file that is replaced keeps its permissions, a new one gets the usual ones. Nothing
    is left behind by an error or an interrupt.
    """
    target = path.resolve()
    mode = _mode_of(path, target)
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _mode_of(path: Path, target: Path) -> int | None:
    """Permissions of the file that is replaced, None where there is none yet."""
    if not target.parent.is_dir():
        raise MissingFileError(f"there is no folder {target.parent} for {path.name}; create it first")
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise OutputError(f"{path} is {what}; pass the name of a file to write")
    return stat.S_IMODE(mode)


def make_folder(folder: Path) -> None:
    """Make a folder in one that is there, unless it is there already."""
    if not folder.parent.is_dir():
        raise MissingFileError(f"there is no folder {folder.parent} for {folder.name}; create it first")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, and a folder of that name is needed; pass another name")
    folder.mkdir(exist_ok=True)


def json_text(value: Any) -> str:
    """Write valid JSON: NaN becomes null, infinity the text "inf", what JSON does not know its ``repr``."""
    return json.dumps(_plain(value), indent=2, allow_nan=False, default=repr)


def _plain(value: Any) -> Any:
    if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:  # a number of NumPy's
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value
