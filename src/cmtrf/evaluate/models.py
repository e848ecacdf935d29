"""The models that `cmtrf evaluate` knows by name; to add one is to add its entry here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

from cmtrf.estimators import CMTRF
from cmtrf.tuning import LAMBDAS


@dataclass(frozen=True)
class Entry:
    """A model, and what of it is chosen on the validation part."""

    make: Callable[[], Any]  # a new estimator; the seed, `n_jobs`, `levels`, `duplicates` are set where it has them
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # empty: nothing is to be chosen


RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

MODELS: dict[str, Entry] = {
    # CMTRF with its defaults
    "point": Entry(CMTRF, {"lambda": LAMBDAS}),
    # the paper's MF: the given scale, neither biases nor a mean
    "mf": Entry(partial(CMTRF.paper, "fixed"), {"lambda": LAMBDAS}),
    # the given scale, user and item biases
    "biased-mf": Entry(
        partial(CMTRF, n_scales="fixed", bias=True), {"lambda": LAMBDAS, "lambda_bias": (1.0, 3.0, 9.0, 27.0)}
    ),
    # the mean of all, a bias of the user and one of the item
    "bias": Entry(partial(CMTRF, n_scales="fixed", rank=0, bias=True), {"lambda_bias": tuple(product(RIDGES, RIDGES))}),
    # the paper's own
    "1-cmtrf": Entry(partial(CMTRF.paper, 1), {"lambda": LAMBDAS}),
    "n-cmtrf": Entry(partial(CMTRF.paper, "user"), {"lambda": LAMBDAS}),
    "k-cmtrf": Entry(partial(CMTRF.paper, 2), {"lambda": LAMBDAS, "n_scales": (2, 5, 10)}),
}
DEFAULT = ("point", "mf", "biased-mf", "bias")
