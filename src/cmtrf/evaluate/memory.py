"""How much memory a piece of work took, at its highest."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Fill a list with one number: the highest memory of this process in the block, in MB, libraries and data included.

    Linux can forget an earlier peak; elsewhere the number is the highest since the process began.
    """
    peak: list[float] = []
    _give_back()
    with suppress(OSError):
        RESET.write_text("5")
    try:
        yield peak
    finally:
        peak.append(_peak())


def _give_back() -> None:
    """Hand memory that is free inside this process back, so that what ran before does not count; glibc only."""
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _peak() -> float:
    try:
        lines = STATUS.read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024**2 if sys.platform == "darwin" else 1024)
