"""Grids: those that are known by name, what may stand in one, and the paths through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from cmtrf.errors import ParameterError

Grid = Mapping[str, Sequence[Any]]
PATHS = ("lambda", "lambda_v", "lambda_u")  # a list of these is walked from weak to strong, one fit starting the next

# What the paper states. (Its best K for ML-100K, 4, is not on its own list; it names no list for the rank.)
_POWERS = tuple(10.0 ** (k / 2) for k in range(-4, 5))
PAPER_GRID: dict[str, tuple[float, ...]] = {"lambda_u": _POWERS, "lambda_v": _POWERS}
PAPER_N_SCALES = (2, 3, 5, 10, 20, 30, 50, 75, 100)

# One number for both sides, which is enough with squared loss: at an optimum only the product counts.
LAMBDAS = tuple(round(10 ** (k / 5), 2) for k in range(1, 11))  # 1.58 .. 100


def check_grid(model: Any, grid: Mapping[str, list[Any]]) -> None:
    """Raise a ParameterError for what the model has not, and for an empty grid."""
    if not grid or not all(grid.values()):
        raise ParameterError("the grid is empty: pass at least one parameter with at least one value")
    known = model.get_params()
    for name in grid:
        for each in name_parameters({name: None}):
            if each not in known:
                raise ParameterError(
                    f"the grid names {name!r}, which is no parameter of {type(model).__name__}: pass one of "
                    f"{', '.join(known)}"
                )
    if "lambda" in grid and {"lambda_u", "lambda_v"} & grid.keys():
        raise ParameterError('"lambda" stands for lambda_u and lambda_v together: pass it, or those two')


def list_paths(grid: Mapping[str, list[Any]]) -> Iterator[list[dict[str, Any]]]:
    """Settings that differ in one lambda only, weakest first: each list is one path."""
    walked = next((name for name in PATHS if name in grid), None)
    others = [name for name in grid if name != walked]
    for values in product(*(grid[name] for name in others)):
        fixed = dict(zip(others, values, strict=True))
        if walked is None:
            yield [fixed]
        else:
            numbers = sorted(value for value in grid[walked] if _is_number(value))
            words = [[value] for value in grid[walked] if not _is_number(value)]  # "auto" is neither weak nor strong
            for run in [numbers, *words]:
                if run:
                    yield [{name: value if name == walked else fixed[name] for name in grid} for value in run]


def name_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the constructor takes them: "lambda" is both."""
    return {
        each: value
        for name, value in params.items()
        for each in (("lambda_u", "lambda_v") if name == "lambda" else (name,))
    }


def is_at_end(best: Any, values: Sequence[Any]) -> bool:
    """Whether a number, or one of a tuple's numbers, is the least or the greatest of more than two."""
    if isinstance(best, tuple):
        tuples = [value for value in values if isinstance(value, tuple)]
        return any(is_at_end(each, sorted({value[k] for value in tuples})) for k, each in enumerate(best))
    numbers = [value for value in values if _is_number(value)]
    return len(numbers) > 2 and best in (min(numbers), max(numbers))


def list_values(name: str, values: Any) -> list[Any]:
    """Return the values of one parameter, plain numbers where they are NumPy's."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParameterError(f"the grid has {name}={values!r}: pass a list of values")
    return [_plain(value) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
