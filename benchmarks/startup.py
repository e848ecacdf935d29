"""What a user waits for at the start, CPU seconds, medians of fresh processes: import, first fit cold and warm, demo.

python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

IMPORT = """
import time
begun = time.process_time()
import sklearn.base, numba, scipy.sparse
stood_on = time.process_time() - begun
from cmtrf import CMTRF
print(time.process_time() - begun - stood_on)
"""
FIT = """
import time
import numpy as np
from cmtrf import CMTRF
rng = np.random.default_rng(0)
pairs = rng.permutation(40 * 30)[:500]
rows = (pairs // 30, pairs % 30, rng.integers(1, 6, 500))
begun = time.process_time()
CMTRF(n_scales=2, rank=4, random_state=0, tol=1e-3).fit(rows).predict(rows[:2])
print(time.process_time() - begun)
"""
DEMO = """
import contextlib, io, time
begun = time.process_time()
from cmtrf.cli.main import app
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    app(["demo"])
print(time.process_time() - begun)
"""


def seconds(code: str, repeats: int = 3, **environment: str) -> float:
    """Return the median of what a fresh process prints."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
        )
        for _ in range(repeats)
    ]
    return median(float(run.stdout.split()[-1]) for run in runs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(f"first fit, nothing on disk  {seconds(FIT, 1, NUMBA_CACHE_DIR=folder):6.2f}")
    print(f"import, beyond sklearn.base, numba and scipy.sparse  {seconds(IMPORT):6.2f}")
    print(f"first fit in a process, kernels on disk  {seconds(FIT):6.2f}")
    print(f"demo, imports included  {seconds(DEMO):6.2f}")
