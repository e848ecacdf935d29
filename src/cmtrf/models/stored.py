"""What a stored model looks like: a header and arrays, made from a model, and made into one again.

Texts are one array of UTF-8 bytes and one of offsets, as in Arrow. Kernels read codes without looking at
bounds: so types, shapes and numbers are all checked before they become a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmtrf.models.point import PointModel
from cmtrf.vocabulary import MAX_LEVELS, Grid, Vocabulary, plain_array

VERSION = 1  # of the format

# The constructor's parameters (one test compares them with the class): others are neither written nor read.
PARAMETERS = {
    "n_scales", "rank", "lambda_u", "lambda_v", "lambda_bias", "margin", "divergence", "bias", "inverse",
    "solver", "max_sweeps", "tol", "shrinkage", "levels", "duplicates", "unknown", "dtype", "random_state",
    "n_jobs", "progress",
}  # fmt: skip

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
    "item_mean": (("<f8",), ("n_items",)),
    "scales": (("<f8",), ("n_scales", "n_levels")),
    "user_scale": (("<i8",), ("n_users",)),
    "parent_scale": (("<f8",), ("n_levels",)),
    "lone": (("|b1",), ("n_scales",)),
    "level_counts": (("<f8",), ("n_users", "n_levels")),
    "seen_indptr": (("<i8",), ("n_users + 1",)),
    "seen_items": (("<i4",), ("n_ratings",)),
    "objective": (("<f8",), ("n_sweeps",)),
}
FIELDS = tuple(name for name in TENSORS if name != "levels")  # of the model, under the same name
NEVER_ZERO = ("n_users", "n_items", "n_levels", "n_scales")
KINDS = {"integer": "<i8", "number": "<f8", "text": "|u1"}  # of ids, and how they are stored


class RefusedError(Exception):
    """Why a file or a model is not taken, and what to do; the path is added where it is known."""

    def __init__(self, reason: str, advice: str = "pass a file that save() of a fitted model wrote") -> None:
        super().__init__(reason)
        self.reason, self.advice = reason, advice


class InvalidError(RefusedError):
    """What a file says is not what a model says."""

    def __init__(self, what: str) -> None:
        super().__init__(f"is not a valid model: {what}")


def package_version() -> str:
    """Version of this package."""
    try:
        return version("cmtrf")
    except PackageNotFoundError:  # run from a source tree
        return "unknown"


# From a model.


def pack_header(model: PointModel, parameters: Mapping[str, Any], columns: Mapping[str, str]) -> Header:
    """Return what is not an array, as JSON can hold it."""
    return {
        "version": VERSION,
        "package": package_version(),
        "users": _kind(model.users.ids),
        "items": _kind(model.items.ids),
        "levels": "number" if model.grid.words is None else "text",
        "converged": bool(model.converged),
        "n_scales": model.n_scales,
        "pulls": bool(model.pulls),
        "parameters": _portable(parameters),
        "columns": dict(columns),
    }


def pack_arrays(model: PointModel) -> Arrays:
    """Return all arrays, each of the type that the format has for it; factors keep the one they have."""
    arrays = {name: getattr(model, name) for name in FIELDS}
    arrays["levels"] = model.grid.values
    arrays |= _pack_ids("users", model.users.ids) | _pack_ids("items", model.items.ids)
    if model.grid.words is not None:
        arrays |= _pack_texts("level_words", model.grid.words)
    return {name: np.ascontiguousarray(a, _stored_as(name, a.dtype)) for name, a in arrays.items()}


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
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(value, method):
            value = getattr(value, method)()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(entry) for entry in value]
    return value


def _stored_as(name: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    dtypes = TENSORS[name][0] if name in TENSORS else ()
    return np.dtype(dtypes[0]) if len(dtypes) == 1 else dtype.newbyteorder("<")


def _pack_ids(name: str, ids: NDArray[Any]) -> Arrays:
    return _pack_texts(name, ids.tolist()) if _kind(ids) == "text" else {name: ids}


def _pack_texts(name: str, texts: Iterable[str]) -> Arrays:
    """One run of UTF-8 and where each text begins; half a surrogate pair is passed as its three bytes."""
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return {name: np.frombuffer(b"".join(pieces), np.uint8), f"{name}_offsets": offsets}


# To a model.


def check_header(header: Any) -> None:
    """Refuse a header that this version would not write; what a newer one writes is refused as such."""
    if not isinstance(header, dict):
        raise InvalidError("its header is not a JSON object")
    number = header.get("version")
    if type(number) is int and number > VERSION:
        raise RefusedError(
            f"has format {str(number)[:20]}, of a newer version of cmtrf; this one reads up to {VERSION}",
            "upgrade: pip install --upgrade cmtrf",
        )
    allowed: dict[str, Any] = {
        "version": lambda value: type(value) is int and value == VERSION,
        "package": lambda value: isinstance(value, str),
        "users": lambda value: isinstance(value, str) and value in KINDS,
        "items": lambda value: isinstance(value, str) and value in KINDS,
        "levels": lambda value: value in ("number", "text"),
        "converged": lambda value: isinstance(value, bool),
        "columns": lambda value: isinstance(value, dict) and all(isinstance(v, str) for v in value.values()),
        "n_scales": lambda value: value in ("fixed", "user") or (type(value) is int and value >= 1),
        "pulls": lambda value: isinstance(value, bool),
        "parameters": lambda value: isinstance(value, dict) and value.keys() <= PARAMETERS,
    }
    if header.keys() != allowed.keys():
        raise InvalidError(f"its header must have the entries {', '.join(allowed)}")
    for name, is_right in allowed.items():
        if not is_right(header[name]):
            raise InvalidError(f"the entry {name!r} of its header is not what this version writes")


def unpack(header: Header, arrays: Arrays) -> PointModel:
    """Build the model of a checked header; arrays that are not a model's are refused."""
    _check_arrays(_specify(header), arrays)
    _check_values(arrays)
    n_users, n_scales = len(arrays["user_factors"]), len(arrays["scales"])
    if n_scales != {"fixed": 1, "user": n_users}.get(header["n_scales"], header["n_scales"]):
        raise InvalidError(f"it has {n_scales} scales, where n_scales is {header['n_scales']}")
    fields = {name: arrays[name] for name in FIELDS}
    return PointModel(
        users=_read_ids(arrays, "users", header["users"], len(arrays["user_factors"])),
        items=_read_ids(arrays, "items", header["items"], len(arrays["item_factors"])),
        grid=_read_grid(arrays, header["levels"]),
        converged=header["converged"],
        n_scales=header["n_scales"],
        pulls=header["pulls"],
        **fields,
    )


def _specify(header: Header) -> Specification:
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
        raise InvalidError(f"it must have the arrays {', '.join(sorted(wanted))}")
    sizes: dict[str, int] = {}
    for name, (dtypes, shape) in wanted.items():
        array = arrays[name]
        if array.dtype.str not in dtypes or array.ndim != len(shape):
            raise InvalidError(f"{name} is {array.dtype} of shape {array.shape}")
        for size, n in zip(shape, array.shape, strict=True):
            if sizes.setdefault(size, n) != n or (n == 0 and size in NEVER_ZERO):
                raise InvalidError(f"{name} of shape {array.shape} does not go with {size} = {sizes[size]}")
    if len({arrays[name].dtype for name, (dtypes, _) in TENSORS.items() if dtypes is FLOATS}) > 1:
        raise InvalidError("factors and biases are not of one type")


def _check_values(arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidError(f"{name} has numbers that are not finite")
    for name in ("scales", "parent_scale"):
        scale = arrays[name]
        slack = 1e-9 * np.abs(scale).max()  # a level placed between two others may pass one by rounding
        with np.errstate(over="ignore"):
            if (scale[..., 1:] < scale[..., :-1] - slack).any():
                raise InvalidError(f"{name} must not fall from level to level")
    if (arrays["level_counts"] < 0).any():
        raise InvalidError("level_counts has numbers below 0")
    if (arrays["lone"].view(np.uint8) > 1).any():
        raise InvalidError("lone has bytes that are neither 0 nor 1")
    _check_codes("user_scale", arrays["user_scale"], len(arrays["scales"]))
    _check_codes("seen_items", arrays["seen_items"], len(arrays["item_factors"]))
    n_users, n_ratings = len(arrays["user_factors"]), len(arrays["seen_items"])
    _check_offsets("seen_indptr", arrays["seen_indptr"], n_users, n_ratings)


def _check_codes(name: str, codes: NDArray[Any], n: int) -> None:
    if len(codes) and not 0 <= codes.min() <= codes.max() < n:
        raise InvalidError(f"{name} has codes outside 0..{n - 1}")


def _check_offsets(name: str, offsets: NDArray[Any], n: int, end: int) -> None:
    if len(offsets) != n + 1 or offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
        raise InvalidError(f"{name} must be {n + 1} numbers that rise from 0 to {end}")


def _read_ids(arrays: Arrays, name: str, kind: str, n: int) -> Vocabulary:
    if kind == "text":
        texts = _read_texts(arrays, name, n)
        ids, is_sorted = plain_array(texts), all(before < after for before, after in pairwise(texts))
    else:
        ids = arrays[name]
        is_sorted = bool((ids[1:] > ids[:-1]).all())
    if not is_sorted or len(ids) != n:
        raise InvalidError(f"{name} must be {n} distinct ids in their order")
    ids.setflags(write=False)
    return Vocabulary(ids)


def _read_texts(arrays: Arrays, name: str, n: int) -> list[str]:
    data, offsets = arrays[name].tobytes(), arrays[f"{name}_offsets"]
    _check_offsets(f"{name}_offsets", offsets, n, len(data))
    try:
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets.tolist())]
    except UnicodeDecodeError:
        raise InvalidError(f"{name} is not UTF-8") from None


def _read_grid(arrays: Arrays, kind: str) -> Grid:
    values = arrays["levels"]
    n = len(values)
    if not 2 <= n <= MAX_LEVELS or (values[1:] <= values[:-1]).any():
        raise InvalidError(f"levels must be 2 to {MAX_LEVELS} numbers that increase")
    values.setflags(write=False)
    if kind == "number":
        return Grid(values)
    words = tuple(_read_texts(arrays, "level_words", n))
    is_counted = bool((values == np.arange(1, n + 1)).all())
    if len(set(words)) < n or not all(map(str.strip, words)) or not is_counted:
        raise InvalidError("worded levels must be distinct words that count 1, 2, ...")
    return Grid(values, words)
