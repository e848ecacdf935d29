"""Where the default regularization and rank come from: a validation part of the training part of open data sets.

    python benchmarks/defaults.py DIR [--set u1 ...]

DIR holds the published files (docs: data sets). Where a set has a test part of its own (ML-100K u1, Douban) it
is never read; of ML-100K by time the last fifth is not. A tenth of what is left is held out, the rest is fitted.
Three tables of mean squared errors: by lambda and rank; by the ridge of biases; and, for ids that were never
seen, of a mean rating and of the average row of factors.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cmtrf import CMTRF
from cmtrf.datasets import load, load_demo
from cmtrf.errors import NotConvergedWarning

RIDGES = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0)
LAMBDAS = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 14.0)
Triples = NDArray[np.int64]  # user, item, rating


def read_sets(folder: Path) -> dict[str, Triples]:
    """Return the training part of each set, as (user, item, rating)."""
    by_time = load("ml-100k", folder).sort("timestamp", "user", "item").head(80_000)
    tables = {
        "u1": load("ml-100k-u", folder).filter(part="train"),
        "by time": by_time,
        "Goodbooks": load("goodbooks", folder),
        "Food": load_demo().with_columns(pl.col("item").rank("dense")),
        "MovieTweetings": load("movietweetings", folder).with_columns(pl.col("item").cast(pl.Int64)),
        "Douban": load("douban", folder).filter(part="train"),
    }
    return {name: table.select("user", "item", "rating").to_numpy().astype(np.int64) for name, table in tables.items()}


def columns(table: Triples) -> tuple[NDArray[np.int64], ...]:
    """Return the columns of a table of triples."""
    return tuple(table.T.copy())


def held_out_error(table: Triples, **parameters: object) -> float:
    """Mean squared error on a tenth of the rows."""
    out = np.random.default_rng(99).random(len(table)) < 0.1
    model = CMTRF(random_state=0, n_jobs=1, progress=False, **parameters).fit(columns(table[~out]))
    user, item, rating = columns(table[out])
    return float(((model.predict((user, item)) - rating) ** 2).mean())


def regularization(name: str, table: Triples) -> None:
    """Print one line for each form and rank: the error at each lambda, the best one starred."""
    for n_scales, rank in ((4, 5), (4, 10), (4, 20), (1, 10), ("user", 10), ("fixed", 10)):
        errors = [held_out_error(table, n_scales=n_scales, rank=rank, lambda_u=x, lambda_v=x) for x in LAMBDAS]
        cells = [f"{e:.4f}" + ("*" if e == min(errors) else " ") for e in errors]
        print(f"{name:15} {n_scales!s:6} {rank:4}  " + " ".join(cells), flush=True)


def biases(name: str, table: Triples) -> None:
    """Print the error of the biased forms at each ridge of the biases, the best one starred."""
    for n_scales in ("fixed", 1):
        errors = [held_out_error(table, n_scales=n_scales, bias=True, lambda_bias=x) for x in RIDGES]
        cells = [f"{e:.4f}" + ("*" if e == min(errors) else " ") for e in errors]
        print(f"{name:15} {n_scales!s:6}  " + " ".join(cells), flush=True)


def unseen(name: str, table: Triples) -> None:
    """Print the error for new items and for new users: the package's answer, and the average factors'."""
    rng = np.random.default_rng(5)
    new_user = rng.random(table[:, 0].max() + 1)[table[:, 0]] < 0.1
    new_item = rng.random(table[:, 1].max() + 1)[table[:, 1]] < 0.1
    model = CMTRF(random_state=0, n_jobs=1, progress=False).fit(columns(table[~new_user & ~new_item]))
    line = f"{name:15}"
    for what, rows in (("new item", new_item & ~new_user), ("new user", new_user & ~new_item)):
        user, item, rating = columns(table[rows])
        answers = model.predict((user, item)), average_row(model, user, item)
        line += f"  {what} " + " / ".join(f"{((answer - rating) ** 2).mean():.3f}" for answer in answers)
    print(line, flush=True)


def average_row(model: CMTRF, user: NDArray[np.int64], item: NDArray[np.int64]) -> NDArray[np.float64]:
    """Predict with the mean of all users' factors and scales, or of all items' factors, in place of the unknown."""
    at = {side: np.searchsorted(ids, x) for side, ids, x in (("u", model.users_, user), ("i", model.items_, item))}
    U = np.vstack([model.user_factors_, model.user_factors_.mean(0)])
    V = np.vstack([model.item_factors_, model.item_factors_.mean(0)])
    X = np.vstack([model.scales_[model.user_scale_], model.scales_[model.user_scale_].mean(0)])
    known_u = np.isin(user, model.users_)
    known_i = np.isin(item, model.items_)
    u = np.where(known_u, at["u"], len(U) - 1)
    i = np.where(known_i, at["i"], len(V) - 1)
    scores = (U[u] * V[i]).sum(1)
    return np.array([np.interp(s, X[k], model.levels_) for s, k in zip(scores, u, strict=True)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NotConvergedWarning)  # weak ridges on small tables settle slowly
    tables = {k: v for k, v in read_sets(arguments.folder).items() if not arguments.set or k in arguments.set}
    print(f"{'set':15} {'scales':6} {'rank':>4}  " + " ".join(f"{x:6g} " for x in LAMBDAS))
    for name, table in tables.items():
        regularization(name, table)
    print(f"\n{'set':15} {'biased':6}  " + " ".join(f"{x:6g} " for x in RIDGES))
    for name, table in tables.items():
        biases(name, table)
    print("\nnever seen: a mean rating / the average row")
    for name, table in tables.items():
        unseen(name, table)
