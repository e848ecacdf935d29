"""Save and load a point model as one file: arrays and a JSON header, nothing that could be executed.

The file is a safetensors file, so that other languages can read it. Its metadata hold the name of the
format, a checksum over the whole file (the SHA-256 of its bytes, with zeros in the checksum's own place)
and the header. A right checksum proves no good will: `stored.py` looks at what is inside.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from cmtrf.errors import MissingFileError, ModelFileError
from cmtrf.files import write_whole
from cmtrf.models.point import PointModel
from cmtrf.models.stored import (
    Arrays,
    Header,
    InvalidError,
    RefusedError,
    check_header,
    pack_arrays,
    pack_header,
    unpack,
)

START = b'{"__metadata__":{"format":"cmtrf model","sha256":"'  # in all versions, at byte 8
BLANK = b"0" * 64
DIGEST = slice(8 + len(START), 8 + len(START) + len(BLANK))
LONGEST_HEADER = 100_000_000  # what safetensors reads
NAMES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}


def save_model(
    model: PointModel, path: str | os.PathLike[str], parameters: Mapping[str, Any], columns: Mapping[str, str]
) -> None:
    """Write a model to a file, which appears whole or not at all.

    Parameters
    ----------
    model : PointModel
        What to save.
    path : path
        A file in a folder that exists; a file that is already there is replaced.
    parameters : mapping
        Of the estimator; those that JSON can hold are kept, tuples and arrays as lists.
    columns : mapping
        Which column of the training table was what.

    Raises
    ------
    MissingFileError
        The folder does not exist.
    ModelFileError
        The path is a folder or a device, or the model holds what could not be loaded again.
    """
    target = Path(os.fsdecode(path))
    try:
        header, arrays = pack_header(model, parameters, columns), pack_arrays(model)
        unpack(header, arrays)  # what could not be loaded again is not written
        pieces = _serialize(header, arrays)
    except RefusedError as refused:
        raise ModelFileError(
            f"{target}: nothing was written, because load would refuse it: it {refused.reason}; "
            "fit again with other parameters"
        ) from None
    write_whole(target, lambda file: file.writelines(pieces))


def load_model(path: str | os.PathLike[str]) -> tuple[PointModel, dict[str, Any], dict[str, str]]:
    """Read a model that `save_model` wrote with its parameters and columns; the arrays are read-only.

    Parameters
    ----------
    path : path
        The file. It may come from anywhere: nothing in it is executed, everything is checked.

    Returns
    -------
    PointModel, dict, dict
        The model as it was saved, bit for bit, its estimator's parameters and its columns.

    Raises
    ------
    MissingFileError
        There is no such file (this is also a ``FileNotFoundError``).
    ModelFileError
        The file is not a model, was cut or changed, or comes from a newer version.
    """
    source = Path(os.fsdecode(path))
    try:
        data = _read(source)
        _check_digest(data)
        header = _read_header(data)
        return unpack(header, _read_arrays(data)), header["parameters"], header["columns"]
    except RefusedError as refused:
        raise ModelFileError(f"{source} {refused.reason}; {refused.advice}") from None


# Writing.


def _serialize(header: Header, arrays: Arrays) -> list[Any]:
    """Pieces of the file in their order: the checksum is known before the first is written."""
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # so that each is aligned
    description: dict[str, Any] = {
        "__metadata__": {"format": "cmtrf model", "sha256": BLANK.decode(), "header": json.dumps(header)}
    }
    end = 0
    for name in names:
        array, begin, end = arrays[name], end, end + arrays[name].nbytes
        description[name] = {
            "dtype": NAMES[array.dtype.str], "shape": array.shape, "data_offsets": [begin, end],
        }  # fmt: skip
    text = json.dumps(description, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise RefusedError("has parameters that are too long for a header")
    head = len(text).to_bytes(8, "little") + text
    tail = [arrays[name].reshape(-1).view(np.uint8) for name in names]
    digest = _digest([head, *tail])
    return [head[: DIGEST.start], digest, head[DIGEST.stop :], *tail]


def _digest(pieces: Iterable[Any]) -> bytes:
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    return sha.hexdigest().encode("ascii")


# Reading.


def _read(path: Path) -> bytes:
    """All bytes of the file, if its first ones are those of a model; a device or a pipe is not opened."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise RefusedError("is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
        with open(path, "rb") as file:
            head = file.read(DIGEST.stop)
            if not head:
                raise RefusedError("is empty")
            if head[8 : DIGEST.start] != START[: len(head) - 8]:
                raise RefusedError("is not a model of cmtrf")
            file.seek(0)
            return file.read()
    except FileNotFoundError:
        raise MissingFileError(f"{path}: there is no such file; check the path") from None
    except (OSError, ValueError) as error:  # no permission, a part of the path is a file, a NUL in it
        raise RefusedError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _check_digest(data: bytes) -> None:
    rest = memoryview(data)
    if data[DIGEST] != _digest([rest[: DIGEST.start], BLANK, rest[DIGEST.stop :]]):
        raise RefusedError(
            "is damaged: it was cut or changed after it was saved",
            "copy it again from where it came, or fit and save anew",
        )


def _read_header(data: bytes) -> Header:
    size = int.from_bytes(data[:8], "little")
    try:
        text = json.loads(data[8 : 8 + size])["__metadata__"]["header"]
        header: Header = json.loads(text)
        json.dumps(header, allow_nan=False)  # Python also reads NaN, Infinity and 1e999
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidError(f"its header cannot be read ({type(error).__name__})") from None
    check_header(header)
    return header


def _read_arrays(data: bytes) -> Arrays:
    try:
        return load(data)
    except (SafetensorError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidError(f"it is no safetensors file of numbers ({error})") from None
