"""What a path of lambdas from warm starts costs and finds, beside fits from the start.

    python benchmarks/tuning.py DIR [--set u1 ...]

DIR holds the published files. The validation part of each set's split is used, its test part is not read. Left of
each pair: every lambda fitted from the start; right: as `cmtrf.tuning.search` walks them. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from cmtrf import CMTRF, datasets, splits, tuning
from cmtrf.splits import Split

FORMS = {
    "4 scales": {"n_scales": 4},
    "a scale a user": {"n_scales": "user"},
    "one, biases": {"n_scales": 1, "bias": True},
    "given, biases": {"n_scales": "fixed", "bias": True},
}


def read_splits(folder: Path) -> dict[str, Callable[[], Split]]:
    """How each set is split."""
    return {
        "u1": lambda: splits.published(datasets.load("ml-100k-u", folder)),
        "Goodbooks": lambda: splits.uniform(datasets.load("goodbooks", folder)),
        "Food": lambda: splits.uniform(datasets.load_demo()),
        "MovieTweetings": lambda: splits.chronological(datasets.load("movietweetings", folder)),
        "Douban": lambda: splits.published(datasets.load("douban", folder)),
    }


def walk(split: Split, form: dict[str, object], *, warm: bool) -> tuple[float, float, float]:
    """Best error, the lambda it is at, and CPU seconds."""
    model = CMTRF(random_state=0, n_jobs=1, progress=False, **form)
    grids = [tuning.LAMBDAS] if warm else [(strength,) for strength in tuning.LAMBDAS]
    begun = time.process_time()
    found = [tuning.search(model, split, {"lambda": grid}, n_jobs=1, progress=False).best for grid in grids]
    best = min(found, key=lambda trial: trial.score)
    return best.score, best.params["lambda"], time.process_time() - begun


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", nargs="*")
    arguments = parser.parse_args()
    print(f"{'set':15} {'form':15} {'best error':>17} {'at lambda':>15} {'CPU seconds':>15}")
    for name, make in read_splits(arguments.folder).items():
        if arguments.set and name not in arguments.set:
            continue
        validation = make().validation()
        for form, parameters in FORMS.items():
            cold, warm = (walk(validation, parameters, warm=warm) for warm in (False, True))
            cells = [
                f"{a:.4f} / {b:.4f}" if k == 0 else f"{a:5.1f} / {b:5.1f}"
                for k, (a, b) in enumerate(zip(cold, warm, strict=True))
            ]
            print(f"{name:15} {form:15} {cells[0]:>17} {cells[1]:>15} {cells[2]:>15}", flush=True)
