"""What a process sees: import time, compilation, fork, threads, wheel-like isolation of the environment."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from cmtrf import CMTRF

FIT = """
    import numpy as np
    from cmtrf import CMTRF
    rng = np.random.default_rng(0)
    pairs = rng.permutation(40 * 30)[:500]
    rows = (pairs // 30, pairs % 30, rng.integers(1, 6, 500))
    begun, wall = time.process_time(), time.perf_counter()
    model = CMTRF(n_scales=2, rank=4, random_state=0, tol=1e-3).fit(rows)
    model.predict(rows[:2])
    print(time.process_time() - begun)
"""


def run(code, **environment):
    """Run code in a fresh interpreter; return stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys, time\n" + textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def seconds_of(code, repeats=3):
    return min(float(run(code)[0][-1]) for _ in range(repeats))


def test_import_is_light():
    """At most 0.15 s more than scikit-learn's base, numba and scipy.sparse, which it stands on."""
    code = """
        begun = time.process_time()
        import sklearn.base, numba, scipy.sparse
        stood_on, before = time.process_time() - begun, set(sys.modules)
        from cmtrf import CMTRF
        print(time.process_time() - begun - stood_on)
        for heavy in ("polars", "pandas", "matplotlib", "rich", "typer", "pyarrow"):
            assert heavy not in set(sys.modules) - before, heavy
    """
    assert seconds_of(code) < 0.15


def test_cold_fit_compiles_once_and_says_so(tmp_path):
    """Under 20 s of one core with nothing on disk; told once; the next process reads what this one left."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    out, err = run(FIT, **cache)
    assert float(out[-1]) < 20
    assert err.count("compiling its kernels") == 1
    out, err = run(FIT, **cache)
    assert "compiling" not in err
    assert float(out[-1]) < 2


def test_a_warm_start_adds_little():
    """Reading the kernels from disk and everything else that a first fit does in a process."""
    again = """
    wall, first = time.perf_counter(), time.perf_counter() - wall
    CMTRF(n_scales=2, rank=4, random_state=0, tol=1e-3).fit(rows).predict(rows[:2])
    print(first - (time.perf_counter() - wall))
"""
    code = FIT + again
    assert seconds_of(code) < 0.5


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    pairs = rng.permutation(900 * 400)[:60_000]
    rows = (pairs // 400, pairs % 400, rng.integers(1, 6, 60_000))
    model = CMTRF(n_scales=2, rank=20, random_state=0, n_jobs=2, max_sweeps=3, tol=0).fit(rows)
    return model, rows


def _in_child(model, rows, expected, queue):
    again = CMTRF(n_scales=2, rank=20, random_state=0, n_jobs=2, max_sweeps=3, tol=0).fit(rows)
    queue.put(np.array_equal(model.predict(rows[:2]), expected) and np.array_equal(again.objective_, model.objective_))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_predicts_and_fits(fitted):
    model, rows = fitted
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(model, rows, model.predict(rows[:2]), queue))
    child.start()
    assert queue.get(timeout=60)
    child.join(timeout=60)
    assert child.exitcode == 0


def test_two_threads_of_the_caller_predict_and_fit_at_once(fitted):
    model, rows = fitted
    expected = model.predict(rows[:2])
    answers = []

    def work():
        for _ in range(5):
            answers.append(np.array_equal(model.predict(rows[:2]), expected))
        again = CMTRF(n_scales=2, rank=20, random_state=0, n_jobs=2, max_sweeps=3, tol=0).fit(rows)
        answers.append(np.array_equal(again.objective_, model.objective_))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 12


def test_one_thread_inside_a_joblib_worker():
    from joblib import Parallel, delayed

    from cmtrf.kernels.choose import count_jobs

    assert Parallel(n_jobs=2)(delayed(count_jobs)(None) for _ in range(2)) == [1, 1]
    assert Parallel(n_jobs=2, backend="threading")(delayed(count_jobs)(None) for _ in range(2)) == [1, 1]
