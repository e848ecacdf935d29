"""Device name -> kernels; the only place that asks what hardware there is."""

from __future__ import annotations

import multiprocessing

import joblib

from cmtrf.errors import ParameterError
from cmtrf.kernels.cpu import CpuKernels


def choose_kernels(n_jobs: int | None = None) -> CpuKernels:
    """Kernels of the processor with ``n_jobs`` threads (see `count_jobs`); to be used in a ``with`` block."""
    return CpuKernels(count_jobs(n_jobs))


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads: None is all cores the process may use, one inside a joblib worker.

    Negative numbers count from the end, as in scikit-learn: -1 is all cores, -2 all but one.
    """
    if n_jobs is None:
        return 1 if _is_worker() else int(joblib.cpu_count())
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or n_jobs == 0:
        raise ParameterError(f"n_jobs={n_jobs!r}: pass None, a positive number of threads, or -1 for all cores")
    jobs = int(n_jobs)
    return jobs if jobs > 0 else max(1, int(joblib.cpu_count()) + 1 + jobs)


def _is_worker() -> bool:
    """Say whether joblib runs this piece of work beside others, in a process or in a thread."""
    backend, _ = joblib.parallel.get_active_backend()
    nested = (getattr(backend, "nesting_level", 0) or 0) > 0
    return nested or multiprocessing.parent_process() is not None
