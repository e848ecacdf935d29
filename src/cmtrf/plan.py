"""What the constructor's parameters come to for one table: checked, defaults filled in, in the objective's units."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmtrf.errors import ParameterError, ScaleWarning
from cmtrf.kernels.choose import count_jobs
from cmtrf.kernels.table import Float64
from cmtrf.ratings import Ratings


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


MARGIN = 0.5  # the paper's, where margin is None
LARGEST = 1e15  # of lambdas, margins, ratings and weights: their products stay within single precision

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


def check_parameters(params: Mapping[str, Any]) -> None:
    """Raise a ParameterError for what cannot be with any table; said before one is read."""
    check_choices(params)
    for name, least in (("rank", 0), ("max_sweeps", 1)):
        whole_number(name, params[name], least)
    for name in ("lambda_u", "lambda_v", "tol"):
        _number(name, params[name])
    _pair("lambda_bias", params["lambda_bias"])
    _shrinkage(params["shrinkage"])
    _form(params["n_scales"])
    if not isinstance(params["bias"], (bool, np.bool_)):
        raise ParameterError(f"bias={params['bias']!r}: pass True or False")
    count_jobs(params["n_jobs"])
    check_seed(params["random_state"])


def check_choices(params: Mapping[str, Any]) -> None:
    """Raise a ParameterError for a word that a parameter does not know, or that this version does not offer yet."""
    for (name, value), advice in NOT_YET.items():
        if is_word(params[name], value):
            raise ParameterError(f"{name}={value!r} is not in this version yet: {advice}")
    for name, words in CHOICES.items():
        if not any(is_word(params[name], word) for word in words):
            raise ParameterError(f"{name}={params[name]!r}: pass one of {', '.join(map(repr, words))}")


def make_plan(params: Mapping[str, Any], ratings: Ratings) -> Plan:
    """Put checked parameters together, and check what depends on the table."""
    return Plan(
        n_scales=_check_clusters(_form(params["n_scales"]), ratings),
        rank=int(params["rank"]),
        bias=bool(params["bias"]),
        lambda_u=_number("lambda_u", params["lambda_u"]),
        lambda_v=_number("lambda_v", params["lambda_v"]),
        lambda_bias=_pair("lambda_bias", params["lambda_bias"]),
        gaps=_gaps(params["margin"], ratings.n_levels),
        shrinkage=_shrinkage(params["shrinkage"]),
        max_sweeps=int(params["max_sweeps"]),
        tol=_number("tol", params["tol"]),
        dtype=np.dtype(params["dtype"]),
    )


def warn_of_scales(plan: Plan, stacklevel: int) -> None:
    """Warn where scales cannot say what one may hope for (MATH section 6)."""
    if plan.n_scales == "fixed":
        return
    if not plan.gaps.any():
        warnings.warn(
            "margin=0 with squared loss: the objective falls by shrinking every scale, and scales collapse to a "
            "point; pass a margin above 0",
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )
    elif plan.bias and plan.n_scales != 1:
        warnings.warn(
            "with a margin and biases, scales differ in shift only, and a user's bias says the same: pass "
            'bias=False, or n_scales="fixed" or 1',
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )


def _form(value: object) -> int | str:
    if is_word(value, "fixed") or is_word(value, "user"):
        return str(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1:
        return int(value)
    raise ParameterError(
        f'n_scales={value!r}: pass "fixed" (the given scale), 1 (one for all), a number of clusters, '
        'or "user" (one a user)'
    )


def _check_clusters(n_scales: int | str, ratings: Ratings) -> int | str:
    if isinstance(n_scales, int) and n_scales > 1:
        two = int(((ratings.level_counts > 0).sum(1) >= 2).sum())
        if n_scales >= two:
            raise ParameterError(
                f"n_scales={n_scales} needs more than {n_scales} users who gave at least two different ratings; "
                f'this table has {two}: pass a smaller number, or n_scales="user" for a scale a user'
            )
    return n_scales


def _gaps(margin: object, n_levels: int) -> Float64:
    """Return the L-1 gaps that ``margin`` (None, a number, or L-1 numbers, lowest gap first) stands for."""
    advice = f"pass None, a number, or {n_levels - 1} numbers (one a gap, lowest first) for {n_levels} levels"
    try:
        gaps = np.asarray(MARGIN if margin is None else margin)
        gaps = gaps.astype(np.float64) if gaps.dtype.kind in "iuf" else np.array(np.nan)
    except (TypeError, ValueError):  # a ragged list
        gaps = np.array(np.nan)
    if gaps.ndim > 1 or (gaps.ndim == 1 and len(gaps) != n_levels - 1):
        raise ParameterError(f"margin has shape {gaps.shape}; {advice}")
    if not (np.isfinite(gaps) & (gaps >= 0) & (gaps <= LARGEST)).all():
        raise ParameterError(f"margin={margin!r}: gaps must be finite and not negative; {advice}")
    return np.broadcast_to(gaps, (n_levels - 1,)).copy()


def _shrinkage(value: object) -> float:
    return 0.0 if is_word(value, "auto") else _number("shrinkage", value)


def _pair(name: str, value: object) -> tuple[float, float]:
    if not isinstance(value, (tuple, list, np.ndarray)) or np.ndim(value) == 0:
        value = value.item() if isinstance(value, np.ndarray) else value
        return _number(name, value), _number(name, value)
    if len(value) != 2:
        raise ParameterError(f"{name}={value!r}: pass a number or a pair (user, item)")
    return _number(name, value[0]), _number(name, value[1])


def is_word(value: object, word: str) -> bool:
    """Whether a parameter is this word; an array would compare element by element."""
    return isinstance(value, str) and value == word


def whole_number(name: str, value: object, least: int) -> int:
    """Return a whole number of at least ``least``, or raise a ParameterError that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(f"{name}={value!r}: pass a whole number, {least} or more")
    return int(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        number = float(value)
        if 0 <= number <= LARGEST:
            return number
    raise ParameterError(f"{name}={value!r}: pass a number from 0 to {LARGEST:g}")


def check_seed(random_state: object) -> None:
    """Refuse what no generator can be made of."""
    if random_state is None or isinstance(random_state, (np.random.Generator, np.random.RandomState)):
        return
    whole_number("random_state", random_state, 0)
