"""Save and load a point model as one file: arrays and a JSON header, nothing that could be executed.

The file is a safetensors file, so that other languages can read it. Its metadata hold the name of the
format, a checksum over the whole file (the SHA-256 of its bytes, with zeros in the checksum's own place)
and the header. Texts are one array of UTF-8 bytes and one of offsets, as in Arrow. A right checksum
proves no good will, and kernels read codes without looking at bounds: so everything is checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from cmtrf.errors import MissingFileError, ModelFileError
from cmtrf.models.point import PointModel
from cmtrf.vocabulary import MAX_LEVELS, Grid, Vocabulary, plain_array

VERSION = 1  # of the format; the bytes up to the checksum stay as they are in all versions

# What an estimator may be given; other names are neither written nor read.
PARAMETERS = frozenset(
    "n_scales rank lambda_u lambda_v lambda_bias margin divergence bias implicit lambda_links inverse solver "
    "max_sweeps tol shrinkage levels duplicates unknown dtype random_state n_jobs progress".split()
)

START = b'{"__metadata__":{"format":"cmtrf model","sha256":"'  # every header begins so, at byte 8
BLANK = b"0" * 64
DIGEST = slice(8 + len(START), 8 + len(START) + len(BLANK))
LONGEST_HEADER = 100_000_000  # what safetensors reads

Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]

Specification = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]

FLOATS = ("<f4", "<f8")
# Types and shape of each array; a size has one value, wherever it stands.
TENSORS: Specification = {
    "levels": (("<f8",), ("n_levels",)),
    "user_factors": (FLOATS, ("n_users", "rank")),
    "item_factors": (FLOATS, ("n_items", "rank")),
    "user_bias": (FLOATS, ("n_users",)),
    "item_bias": (FLOATS, ("n_items",)),
    "scales": (("<f8",), ("n_scales", "n_levels")),
    "user_scale": (("<i8",), ("n_users",)),
    "parent_scale": (("<f8",), ("n_levels",)),
    "lone": (("|b1",), ("n_scales",)),
    "level_counts": (("<f8",), ("n_users", "n_levels")),
    "seen_indptr": (("<i8",), ("n_users + 1",)),
    "seen_items": (("<i4",), ("n_ratings",)),
    "objective": (("<f8",), ("n_sweeps",)),
}
NEVER_ZERO = ("n_users", "n_items", "n_levels", "n_scales")
KINDS = {"integer": "<i8", "number": "<f8", "text": "|u1"}  # of ids, and how they are stored
NAMES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}
DTYPES = {name: np.dtype(code) for code, name in NAMES.items()}


class _RefusedError(Exception):
    """Why a file or a model is not taken, and what to do; the path is added where it is known."""

    def __init__(self, reason: str, advice: str = "pass a file that save() of a fitted model wrote") -> None:
        super().__init__(reason)
        self.reason, self.advice = reason, advice


def save_model(model: PointModel, path: str | os.PathLike[str]) -> None:
    """Write a model to a file, which appears whole or not at all.

    Parameters
    ----------
    model : PointModel
        What to save. Of its parameters those that JSON can hold are kept, tuples and arrays as lists.
    path : path
        A file in a folder that exists; a file that is already there is replaced.

    Raises
    ------
    MissingFileError
        The folder does not exist.
    ModelFileError
        The path is a folder or a device, or the model holds what could not be loaded again.
    """
    target = Path(os.fsdecode(path))
    try:
        header, arrays = _header(model), _pack(model)
        _build(header, arrays)  # what could not be loaded again is not written
        chunks = _serialize(header, arrays)
    except _RefusedError as refused:
        raise ModelFileError(
            f"{target}: nothing was written, because load would refuse it: it {refused.reason}; "
            "fit again with other parameters"
        ) from None
    _write(target, chunks)


def load_model(path: str | os.PathLike[str]) -> PointModel:
    """Read a model that `save_model` wrote; its arrays are read-only.

    Parameters
    ----------
    path : path
        The file. It may come from anywhere: nothing in it is executed, everything is checked.

    Returns
    -------
    PointModel
        The model as it was saved, bit for bit.

    Raises
    ------
    MissingFileError
        There is no such file (this is also a ``FileNotFoundError``).
    ModelFileError
        The file is not a model, was cut or changed, or comes from a newer version.
    """
    source = Path(os.fsdecode(path))
    try:
        return _build(*_parse(_read(source)))
    except _RefusedError as refused:
        raise ModelFileError(f"{source}: {refused.reason}; {refused.advice}") from None


# From a model to bytes.


def _header(model: PointModel) -> Header:
    try:
        package = version("cmtrf")
    except PackageNotFoundError:  # run from a source tree
        package = "unknown"
    return {
        "version": VERSION,
        "package": package,
        "users": _kind(model.users.ids),
        "items": _kind(model.items.ids),
        "levels": "number" if model.grid.words is None else "text",
        "converged": bool(model.converged),
        "parameters": _portable(model.parameters),
    }


def _kind(ids: NDArray[Any]) -> str:
    return {"i": "integer", "f": "number"}.get(ids.dtype.kind, "text")


def _portable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that come back from JSON as they went in; a RandomState, say, is left out."""
    kept = {}
    for name in sorted(PARAMETERS & parameters.keys()):
        with suppress(TypeError, ValueError, RecursionError):
            value = _plain(parameters[name])
            if json.loads(json.dumps(value, allow_nan=False)) == value:
                kept[name] = value
    return kept


def _plain(value: Any) -> Any:
    """Scalars, arrays and series of NumPy and pandas, tuples and ranges as what JSON has."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(entry) for entry in value]
    return value


def _pack(model: PointModel) -> Arrays:
    arrays = {name: getattr(model, name) for name in TENSORS if name != "levels"}
    arrays["levels"] = model.grid.values
    arrays |= _pack_ids("users", model.users.ids) | _pack_ids("items", model.items.ids)
    if model.grid.words is not None:
        arrays |= _pack_texts("level_words", model.grid.words)
    return {name: np.ascontiguousarray(array, _stored_as(name, array.dtype)) for name, array in arrays.items()}


def _stored_as(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The one type that the format has for an array; factors keep the one they have."""
    dtypes = TENSORS[name][0] if name in TENSORS else ()
    return np.dtype(dtypes[0]) if len(dtypes) == 1 else dtype.newbyteorder("<")


def _pack_ids(name: str, ids: NDArray[Any]) -> Arrays:
    return _pack_texts(name, ids.tolist()) if _kind(ids) == "text" else {name: ids}


def _pack_texts(name: str, texts: Iterable[str]) -> Arrays:
    """One run of UTF-8 and where each text begins; half a surrogate pair is passed as its three bytes."""
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return {name: np.frombuffer(b"".join(pieces), np.uint8), f"{name}_offsets": offsets}


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
        raise _RefusedError("has parameters that are too long for a header")
    head = len(text).to_bytes(8, "little") + text
    tail = [arrays[name].reshape(-1).view(np.uint8) for name in names]
    digest = _digest([head, *tail])
    return [head[: DIGEST.start], digest, head[DIGEST.stop :], *tail]


def _digest(pieces: Iterable[Any]) -> bytes:
    sha = hashlib.sha256()
    for piece in pieces:
        sha.update(piece)
    return sha.hexdigest().encode("ascii")


def _write(path: Path, pieces: Iterable[Any]) -> None:
    """Write beside the target and move into its place, so that readers see the old file or the new one."""
    target = path.resolve()  # a link stays a link
    mode = _mode_of(path, target)
    temporary = target.with_name(f".cmtrf-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode_of(path: Path, target: Path) -> int | None:
    """Permissions of the file that is replaced, None where there is none yet."""
    if not target.parent.is_dir():
        raise MissingFileError(f"{path}: the folder {target.parent} does not exist; make it first")
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise ModelFileError(f"{path}: is {what}; pass the name of a file to write")
    return stat.S_IMODE(mode)


# From bytes to a model.


def _read(path: Path) -> bytes:
    """All bytes of the file, if its first ones are those of a model; a device or a pipe is not opened."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise _RefusedError("is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
        with open(path, "rb") as file:
            head = file.read(DIGEST.stop)
            if not head:
                raise _RefusedError("is empty")
            if head[8 : DIGEST.start] != START[: len(head) - 8]:
                raise _RefusedError("is not a model of cmtrf")
            file.seek(0)
            return file.read()
    except FileNotFoundError:
        raise MissingFileError(f"{path}: there is no such file; check the path") from None
    except (OSError, ValueError) as error:  # no permission, a part of the path is a file, a NUL in it
        raise _RefusedError(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None


def _parse(data: bytes) -> tuple[Header, Arrays]:
    rest = memoryview(data)
    if data[DIGEST] != _digest([rest[: DIGEST.start], BLANK, rest[DIGEST.stop :]]):
        raise _RefusedError(
            "is damaged: it was cut or changed after it was saved",
            "copy it again from where it came, or fit and save anew",
        )
    return _read_header(data), _read_arrays(data)


def _read_arrays(data: bytes) -> Arrays:
    try:
        tensors = deserialize(data)
    except SafetensorError as error:
        raise _RefusedError(f"is not a safetensors file ({error})") from None
    arrays = {}
    for name, tensor in tensors:
        shape, dtype = tensor["shape"], DTYPES.get(tensor["dtype"])
        if dtype is None or len(shape) > 2 or max(shape, default=0) > len(data):
            raise _invalid(f"{name} is {tensor['dtype']} of shape {shape}")
        arrays[name] = np.ndarray(tuple(shape), dtype, tensor["data"])
    return arrays


def _read_header(data: bytes) -> Header:
    size = int.from_bytes(data[:8], "little")
    try:
        text = json.loads(data[8 : 8 + size])["__metadata__"]["header"]
        header = json.loads(text, parse_constant=_no_constant)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _invalid(f"its header cannot be read ({type(error).__name__})") from None
    if not isinstance(header, dict):
        raise _invalid("its header is not a JSON object")
    number = header.get("version")
    if type(number) is int and number > VERSION:
        raise _RefusedError(
            f"has format {str(number)[:20]}, of a newer version of cmtrf; this one reads up to {VERSION}",
            "upgrade: pip install --upgrade cmtrf",
        )
    _check_header(header)
    return header


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _check_header(header: Header) -> None:
    allowed: dict[str, Any] = {
        "version": lambda value: type(value) is int and value == VERSION,
        "package": lambda value: isinstance(value, str),
        "users": lambda value: isinstance(value, str) and value in KINDS,
        "items": lambda value: isinstance(value, str) and value in KINDS,
        "levels": lambda value: value in ("number", "text"),
        "converged": lambda value: isinstance(value, bool),
        "parameters": lambda value: isinstance(value, dict) and value.keys() <= PARAMETERS,
    }
    if header.keys() != allowed.keys():
        raise _invalid(f"its header must have the entries {', '.join(allowed)}")
    for name, is_right in allowed.items():
        if not is_right(header[name]):
            raise _invalid(f"the entry {name!r} of its header is not what this version writes")


def _build(header: Header, arrays: Arrays) -> PointModel:
    _check_arrays(_specification(header), arrays)
    _check_values(arrays)
    fields = {name: arrays[name] for name in TENSORS if name != "levels"}
    return PointModel(
        users=_read_ids(arrays, "users", header["users"], len(arrays["user_factors"])),
        items=_read_ids(arrays, "items", header["items"], len(arrays["item_factors"])),
        grid=_read_grid(arrays, header["levels"]),
        converged=header["converged"],
        parameters=header["parameters"],
        **fields,
    )


def _specification(header: Header) -> Specification:
    """Types and shapes of all arrays that a file with this header must have."""
    wanted = dict(TENSORS)
    texts = ["level_words"] * (header["levels"] == "text")
    for side in ("users", "items"):
        wanted[side] = (KINDS[header[side]],), (f"size of {side}",)
        texts += [side] * (header[side] == "text")
    for name in texts:
        wanted[name] = (KINDS["text"],), (f"size of {name}",)
        wanted[f"{name}_offsets"] = ("<i8",), (f"{name} + 1",)
    return wanted


def _check_arrays(wanted: Specification, arrays: Arrays) -> None:
    """Names, types and shapes, the shapes against each other."""
    if arrays.keys() != wanted.keys():
        raise _invalid(f"it must have the arrays {', '.join(sorted(wanted))}")
    sizes: dict[str, int] = {}
    for name, (dtypes, shape) in wanted.items():
        array = arrays[name]
        if array.dtype.str not in dtypes or array.ndim != len(shape):
            raise _invalid(f"{name} is {array.dtype} of shape {array.shape}")
        for size, n in zip(shape, array.shape, strict=True):
            if sizes.setdefault(size, n) != n or (n == 0 and size in NEVER_ZERO):
                raise _invalid(f"{name} has the shape {array.shape}, but {size} is {sizes[size] or 'never 0'}")
    if len({arrays[name].dtype for name, (dtypes, _) in TENSORS.items() if dtypes is FLOATS}) > 1:
        raise _invalid("factors and biases are not of one type")


def _check_values(arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise _invalid(f"{name} has numbers that are not finite")
    for name in ("scales", "parent_scale"):
        # Solvers may leave a gap of 0 below 0 by a rounding error.
        if (np.diff(arrays[name]) < -1e-6 * np.maximum(1.0, np.abs(arrays[name]).max())).any():
            raise _invalid(f"{name} must not fall from level to level")
    if (arrays["level_counts"] < 0).any():
        raise _invalid("level_counts has numbers below 0")
    if (arrays["lone"].view(np.uint8) > 1).any():
        raise _invalid("lone has bytes that are neither 0 nor 1")
    _check_codes("user_scale", arrays["user_scale"], len(arrays["scales"]))
    _check_codes("seen_items", arrays["seen_items"], len(arrays["item_factors"]))
    _check_offsets("seen_indptr", arrays["seen_indptr"], len(arrays["user_factors"]), len(arrays["seen_items"]))


def _check_codes(name: str, codes: NDArray[Any], n: int) -> None:
    if len(codes) and not 0 <= codes.min() <= codes.max() < n:
        raise _invalid(f"{name} has codes outside 0..{n - 1}")


def _check_offsets(name: str, offsets: NDArray[Any], n: int, end: int) -> None:
    if len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
        raise _invalid(f"{name} must be {n + 1} numbers that rise from 0 to {end}")


def _read_ids(arrays: Arrays, name: str, kind: str, n: int) -> Vocabulary:
    if kind == "text":
        texts = _read_texts(arrays, name, n)
        ids, is_sorted = plain_array(texts), all(before < after for before, after in pairwise(texts))
    else:
        ids = arrays[name]
        is_sorted = bool((ids[1:] > ids[:-1]).all())
    if not is_sorted or len(ids) != n:
        raise _invalid(f"{name} must be {n} distinct ids in their order")
    ids.setflags(write=False)
    return Vocabulary(ids)


def _read_texts(arrays: Arrays, name: str, n: int) -> list[str]:
    data, offsets = arrays[name].tobytes(), arrays[f"{name}_offsets"]
    _check_offsets(f"{name}_offsets", offsets, n, len(data))
    try:
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError:
        raise _invalid(f"{name} is not UTF-8") from None


def _read_grid(arrays: Arrays, kind: str) -> Grid:
    values = arrays["levels"]
    n = len(values)
    if not 2 <= n <= MAX_LEVELS or (values[1:] <= values[:-1]).any():
        raise _invalid(f"levels must be 2 to {MAX_LEVELS} numbers that increase")
    values.setflags(write=False)
    if kind == "number":
        return Grid(values)
    words = tuple(_read_texts(arrays, "level_words", n))
    if len(set(words)) < n or not all(word.strip() for word in words) or (values != np.arange(1, n + 1)).any():
        raise _invalid("worded levels must be distinct words that count 1, 2, ...")
    return Grid(values, words)


def _invalid(what: str) -> _RefusedError:
    return _RefusedError(f"is not a valid model: {what}")
