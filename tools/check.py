"""Run the project's checks: the one place that says how they are run.

Continuous integration, the pre-commit hooks, README and CONTRIBUTING all call this file::

    python tools/check.py            # everything, in this order
    python tools/check.py tests      # one or several by name
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A test may be skipped where its reason holds these words and this is so; any other that is skipped has failed.
EXCUSES = {
    "shared/data": not (ROOT.parent / "shared" / "data").is_dir(),
    "the extra peers": importlib.util.find_spec("lenskit") is None,
    "root may read everything": getattr(os, "geteuid", lambda: 1)() == 0,
}
WORKERS = min(os.cpu_count() or 1, 8)

# Tests draw without a screen. Without the second, one of scikit-learn's estimator checks is skipped.
SETTINGS = {"pytest": {"MPLBACKEND": "Agg", "SCIPY_ARRAY_API": "1"}}

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "tests": ["pytest", f"--numprocesses={WORKERS}"],
    "docs": [
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--show-traceback",
        "--quiet",
        "docs",
        "docs/_build/html",
    ],
}


def run_module(command: list[str]) -> bool:
    """Run ``python -m command`` in the repository's root and say whether it succeeded."""
    print(f"== python -m {' '.join(command)}", flush=True)
    environment = {**os.environ, **SETTINGS.get(command[0], {})}
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment).returncode == 0


def find_skipped(record: Path) -> list[str]:
    """Tests that were skipped without an excuse."""
    skipped = []
    for case in ET.parse(record).iter("testcase"):
        for reason in case.iter("skipped"):
            if reason.get("type") == "pytest.xfail":
                continue
            message = reason.get("message", "")
            if not any(words in message and is_so for words, is_so in EXCUSES.items()):
                skipped.append(f"{case.get('classname')}.{case.get('name')}: {message}")
    return skipped


def run_tests(command: list[str]) -> bool:
    """Run the tests; one that could have run and was skipped counts as failed."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "tests.xml"
        if not run_module([*command, f"--junitxml={record}"]):
            return False
        skipped = find_skipped(record)
    if skipped:
        print("These tests were skipped although they could have run:", *skipped, sep="\n  ")
    return not skipped


def main() -> int:
    """Run the named checks, all of them even where one fails; 1 if any did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="CHECK", help=f"one or more of: {', '.join(CHECKS)}")
    names = parser.parse_args().names or list(CHECKS)
    if unknown := [name for name in names if name not in CHECKS]:
        parser.error(f"there is no check called {', '.join(unknown)}; there are: {', '.join(CHECKS)}")
    failed = []
    for name in names:
        start = time.monotonic()
        succeeded = (run_tests if name == "tests" else run_module)(CHECKS[name])
        print(f"== {name}: {'passed' if succeeded else 'FAILED'}, {time.monotonic() - start:.0f} s", flush=True)
        if not succeeded:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
