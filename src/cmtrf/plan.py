"""What the constructor's parameters come to for one table: checked, defaults filled in, in the objective's units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmtrf.errors import ParameterError
from cmtrf.kernels.table import Float64
from cmtrf.ratings import Ratings
from cmtrf.scales.margin import read_margin


@dataclass(frozen=True)
class Plan:
    """Everything that the phases of a fit need besides ratings, kernels and a generator."""

    n_scales: int | str
    rank: int
    bias: bool
    lambda_u: float
    lambda_v: float
    lambda_bias: tuple[float, float]
    gaps: Float64
    shrinkage: float
    max_sweeps: int
    tol: float
    dtype: np.dtype[Any]


CHOICES: dict[str, tuple[str, ...]] = {
    "divergence": ("squared",),
    "inverse": ("linear",),
    "solver": ("auto", "alternating", "joint"),
    "duplicates": ("error", "keep", "last", "first"),
    "unknown": ("fallback", "raise", "nan"),
    "dtype": ("float32", "float64"),
}
NOT_YET = {
    ("inverse", "calibrated"): 'pass inverse="linear"',
    ("lambda_u", "auto"): "pass a number, or leave the default",
    ("lambda_v", "auto"): "pass a number, or leave the default",
    ("lambda_bias", "auto"): "pass a number, a pair (user, item), or leave the default",
    ("divergence", "generalized_i"): 'pass divergence="squared"',
    ("divergence", "kl"): 'pass divergence="squared"',
}


def check_choices(params: Mapping[str, Any]) -> None:
    """Raise a ParameterError for a word that a parameter does not know, or that this version does not offer yet."""
    for (name, value), advice in NOT_YET.items():
        if _is(params[name], value):
            raise ParameterError(f"{name}={value!r} is not in this version yet: {advice}")
    for name, words in CHOICES.items():
        if not any(_is(params[name], word) for word in words):
            raise ParameterError(f"{name}={params[name]!r}: pass one of {', '.join(map(repr, words))}")


def make_plan(params: Mapping[str, Any], ratings: Ratings) -> Plan:
    """Check what is left of the parameters, against the table where they depend on it."""
    bias_ridge = params["lambda_bias"]
    if not isinstance(bias_ridge, (tuple, list)):
        bias_ridge = (bias_ridge, bias_ridge)
    if len(bias_ridge) != 2:
        raise ParameterError(f"lambda_bias={params['lambda_bias']!r}: pass a number or a pair (user, item)")
    shrinkage = params["shrinkage"]
    if not isinstance(params["bias"], (bool, np.bool_)):
        raise ParameterError(f"bias={params['bias']!r}: pass True or False")
    return Plan(
        n_scales=_n_scales(params["n_scales"], ratings),
        rank=_integer(params, "rank", 0),
        bias=bool(params["bias"]),
        lambda_u=_number("lambda_u", params["lambda_u"]),
        lambda_v=_number("lambda_v", params["lambda_v"]),
        lambda_bias=(_number("lambda_bias", bias_ridge[0]), _number("lambda_bias", bias_ridge[1])),
        gaps=read_margin(params["margin"], ratings.n_levels),
        shrinkage=0.0 if _is(shrinkage, "auto") else _number("shrinkage", shrinkage),
        max_sweeps=_integer(params, "max_sweeps", 1),
        tol=_number("tol", params["tol"]),
        dtype=np.dtype(params["dtype"]),
    )


def _n_scales(value: object, ratings: Ratings) -> int | str:
    if _is(value, "fixed") or _is(value, "user"):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1:
        two = int(((ratings.level_counts > 0).sum(1) >= 2).sum())
        if value > 1 and value >= two:
            raise ParameterError(
                f"n_scales={value} needs more than {value} users who gave at least two different ratings; "
                f'this table has {two}: pass a smaller number, or n_scales="user" for a scale a user'
            )
        return int(value)
    raise ParameterError(
        f'n_scales={value!r}: pass "fixed" (the given scale), 1 (one for all), a number of clusters, '
        'or "user" (one a user)'
    )


def _is(value: object, word: str) -> bool:
    return isinstance(value, str) and value == word


def _integer(params: Mapping[str, Any], name: str, least: int) -> int:
    value = params[name]
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name}={value!r}: pass a whole number, {least} or more")
    return int(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        number = float(value)
        if np.isfinite(number) and number >= 0:
            return number
    raise ParameterError(f"{name}={value!r}: pass a finite number, 0 or more")
