"""How a kernel is compiled: on first use, once for each type of number, and kept on disk."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numba import njit, types

# Sums may be reassociated, so that they vectorise; NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
    "error_model": "numpy",
}
RANGE = (types.int64, types.int64)  # of rows, the first two arguments of every kernel
_Function = TypeVar("_Function", bound=Callable[..., Any])

_lock = threading.Lock()


def _digest() -> str:
    """Digest of all kernel sources.

    What numba keeps on disk is renewed when the kernel's own file changes, not when a file does whose
    functions it calls. So the digest is part of a kernel's name there.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]


_SOURCES = _digest()


def jit(function: Callable[..., Any]) -> Any:
    """Compile with our options; where no folder can be written to, without keeping the result on disk."""
    try:
        return njit(**OPTIONS)(function)
    except RuntimeError:  # numba finds no place for its files
        return njit(**{**OPTIONS, "cache": False})(function)


def inner(function: _Function) -> _Function:
    """Compile a function that only kernels call."""
    compiled: _Function = jit(function)
    return compiled


def array(scalar: Any, ndim: int) -> Any:
    """Type of an input array: contiguous, never written to (a writable one may be handed in)."""
    return types.Array(scalar, ndim, "C", readonly=True)


def out(scalar: Any, ndim: int) -> Any:
    """Type of an output array."""
    return types.Array(scalar, ndim, "C")


class Kernel:
    """A compiled function with one signature a type of number, and no other.

    Left alone, numba compiles anew for every mix of read-only and writable arrays.
    """

    def __init__(self, function: Callable[..., Any], signature: Callable[[Any], tuple[Any, ...]]) -> None:
        function.__qualname__ = f"{function.__qualname__}_{_SOURCES}"
        self._dispatcher = jit(function)
        self._signature = signature
        self._ready: dict[np.dtype[Any], Any] = {}
        self.__doc__ = function.__doc__

    def ready(self, dtype: np.dtype[Any] | type) -> Any:
        """Return the function, compiled (or read from disk) for this type of number."""
        dtype = np.dtype(dtype)
        if dtype not in self._ready:
            with _lock:
                self._dispatcher.disable_compile(False)
                self._dispatcher.compile(self._signature(types.float32 if dtype == np.float32 else types.float64))
                self._dispatcher.disable_compile()
                self._ready[dtype] = self._dispatcher
        return self._ready[dtype]


def kernel(signature: Callable[[Any], tuple[Any, ...]]) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel; ``signature`` gives its argument types for one type of number."""
    return lambda function: Kernel(function, signature)
