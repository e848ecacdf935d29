"""Ratings made by a known rule: the paper's SD-1 and SD-2, and types of users with planted scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rounding = Literal["nearest", "down", "up"] | None

# Shapes of `make_clustered`: a level's share of the ratings is the mass that a beta distribution has in its bin.
SHAPES = ((1.0, 1.0), (4.0, 1.2), (0.5, 0.5), (3.0, 3.0), (1.2, 4.0))  # even, generous, extreme, cautious, strict
DRAWS = 200_000


@dataclass(frozen=True, eq=False)
class Truth:
    """What the ratings were made of; user and item ids are the row numbers of these arrays."""

    user_factors: Floats  # (n_users, rank)
    item_factors: Floats  # (n_items, rank)
    scales: Floats  # (n_scales, n_levels) positions of levels, or (n_scales, n_levels - 1) thresholds between them
    user_scale: Integers  # (n_users,)

    @property
    def scores(self) -> Floats:
        """Scores without noise, (n_users, n_items)."""
        return self.user_factors @ self.item_factors.T


def make_sd1(
    *,
    n_users: int = 3000,
    n_items: int = 2000,
    n_levels: int = 5,
    rank: int = 5,
    factor_mean: float = 0.8,
    factor_sd: float = 0.6,
    first_mean: float = 1.0,
    first_sd: float = 1.0,
    step_low: float = 0.5,
    step_high: float = 2.0,
    rounding: Rounding = "nearest",
    train_share: float = 0.1,
    test_share: float = 0.05,
    random_state: int = 0,
    return_truth: bool = False,
) -> Any:
    """Make the paper's SD-1: every user has a scale of their own, of straight pieces.

    Scores are ``Z = U V^T``. User i's scale is ``Upsilon_i(1) ~ N(first_mean, first_sd)``, and from each level to
    the next ``Upsilon_i(l + 1) = Upsilon_i(l) + s`` with ``s ~ U(step_low, step_high)`` for l = 1 .. n_levels - 1
    (the text's i = 2 .. 5 counts one step too many and leaves the first one out). Ratings are
    ``Upsilon_i^-1(Z_ij)`` on the straight lines between the levels; scores beyond the first and the last level
    get that level.

    The paper states the size, the five levels and the distribution of the scales. Everything else is a choice of
    ours, and a parameter.

    Parameters
    ----------
    n_users, n_items, n_levels : int
        Size of the matrix, and length of the scale 1 .. n_levels.
    rank : int
        Number of factors (not stated in the paper).
    factor_mean, factor_sd : float
        Factors are independent N(factor_mean, factor_sd) (not stated). With the defaults scores have mean 3.2 and
        standard deviation 1.7, so that they lie where the scales do.
    first_mean, first_sd, step_low, step_high : float
        The users' scales, as stated in the paper.
    rounding : {"nearest", "down", "up", None}
        How a value between two levels becomes a rating (not stated); None keeps real numbers, which no model of
        levels takes.
    train_share, test_share : float
        Shares of all user-item pairs that are in the table, drawn uniformly, as train and as test rows (not
        stated).
    random_state : int
        Seed; the same seed gives the same table.
    return_truth : bool
        Return the pair (table, Truth).

    Returns
    -------
    polars.DataFrame, or (polars.DataFrame, Truth)
        Columns user, item, rating, part (``"train"`` or ``"test"``).

    Examples
    --------
    >>> from cmtrf.datasets import make_sd1
    >>> make_sd1(n_users=200, n_items=100).group_by("part").len().sort("part").rows()
    [('test', 1000), ('train', 2000)]
    """
    rng = np.random.default_rng(random_state)
    U, V = _draw_factors(rng, n_users, n_items, rank, factor_mean, factor_sd)
    steps = rng.uniform(step_low, step_high, (n_users, n_levels - 1))
    scales = np.cumsum(np.column_stack([rng.normal(first_mean, first_sd, n_users), steps]), axis=1)

    def rate(users: Integers, items: Integers) -> Floats:
        scores, X = (U[users] * V[items]).sum(1), scales[users]
        reached = np.clip((scores[:, None] >= X).sum(1), 1, n_levels - 1)  # levels at or below the score
        left, right = X[np.arange(len(X)), reached - 1], X[np.arange(len(X)), reached]
        return np.asarray(reached + np.clip((scores - left) / (right - left), 0, 1))

    table = _rate_pairs(rng, (n_users, n_items, n_levels), rate, rounding, train_share, test_share)
    return (table, Truth(U, V, scales, np.arange(n_users))) if return_truth else table


def make_sd2(
    *,
    n_users: int = 3000,
    n_items: int = 2000,
    n_levels: int = 5,
    rank: int = 5,
    factor_mean: float = 0.0,
    factor_sd: float = 1.0,
    steepness_mean: float = 1.0,
    steepness_sd: float = 0.5,
    negative: Literal["reflect", "redraw", "keep"] = "reflect",
    rounding: Rounding = "nearest",
    train_share: float = 0.1,
    test_share: float = 0.05,
    random_state: int = 0,
    return_truth: bool = False,
) -> Any:
    """Make the paper's SD-2: every user has a logistic scale of their own.

    ``Upsilon_i(x) = -log(-1 + L / (x - 0.5)) / c_i``, so that ratings are ``0.5 + L / (1 + exp(-c_i Z_ij))`` with
    scores ``Z = U V^T`` and L levels.

    The paper draws ``c_i`` from a normal distribution without saying which. A negative one would turn the user's
    scale upside down, against the text's own claim that all transformations increase: see ``negative``.

    Parameters
    ----------
    n_users, n_items, n_levels : int
        Size of the matrix, and length of the scale 1 .. n_levels.
    rank : int
        Number of factors (not stated in the paper).
    factor_mean, factor_sd : float
        Factors are independent N(factor_mean, factor_sd) (not stated).
    steepness_mean, steepness_sd : float
        ``c_i ~ N(steepness_mean, steepness_sd)`` (not stated).
    negative : {"reflect", "redraw", "keep"}
        What becomes of a negative ``c_i``: its absolute value (2% of users with the defaults), another draw (a normal
        distribution cut off at 0), or itself, as the paper's text has it.
    rounding, train_share, test_share, random_state, return_truth
        As for `make_sd1`.

    Returns
    -------
    polars.DataFrame, or (polars.DataFrame, Truth)
        Columns user, item, rating, part (``"train"`` or ``"test"``). The scales in Truth are
        ``Upsilon_i(1), ..., Upsilon_i(L)``.
    """
    from scipy.special import expit  # time that `import cmtrf.datasets` need not spend
    from scipy.stats import truncnorm

    rng = np.random.default_rng(random_state)
    U, V = _draw_factors(rng, n_users, n_items, rank, factor_mean, factor_sd)
    c = rng.normal(steepness_mean, steepness_sd, n_users)
    if negative == "reflect":
        c = np.abs(c)
    elif negative == "redraw":
        if steepness_sd == 0 and steepness_mean <= 0:
            raise ParameterError(f"steepness_mean={steepness_mean!r}, steepness_sd=0: no draw is ever above 0")
        if steepness_sd > 0:
            lowest = -steepness_mean / steepness_sd
            c = truncnorm.rvs(lowest, np.inf, steepness_mean, steepness_sd, size=n_users, random_state=rng)
    elif negative != "keep":
        raise ParameterError(f'negative={negative!r}: pass "reflect", "redraw" or "keep"')

    def rate(users: Integers, items: Integers) -> Floats:
        scores = (U[users] * V[items]).sum(1)
        return np.asarray(0.5 + n_levels * expit(c[users] * scores))

    table = _rate_pairs(rng, (n_users, n_items, n_levels), rate, rounding, train_share, test_share)
    levels = np.arange(1.0, n_levels + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = -np.log(-1 + n_levels / (levels - 0.5)) / c[:, None]
    return (table, Truth(U, V, scales, np.arange(n_users))) if return_truth else table


def make_clustered(
    *,
    n_users: int = 1000,
    n_items: int = 400,
    n_levels: int = 5,
    n_scales: int = 4,
    rank: int = 5,
    noise: float = 0.4,
    train_share: float = 0.1,
    test_share: float = 0.02,
    random_state: int = 0,
    return_truth: bool = False,
) -> Any:
    """Make ratings of a few types of users whose scales differ in shape, not only in shift.

    Scores ``u_i . v_j`` have variance 1; a rating is the level between whose thresholds the score falls after
    noise. The thresholds of a type cut the scores into shares that follow a shape: even, generous (high levels
    are wide), extreme (the ends are wide), cautious (the middle is wide), strict; more types get random shapes.

    Parameters
    ----------
    n_users, n_items, n_levels : int
        Size of the matrix, and length of the scale 1 .. n_levels.
    n_scales : int
        Number of types; each user has one at random.
    rank : int
        Number of factors, which are independent and normal with mean 0.
    noise : float
        Standard deviation of the noise on each score.
    train_share, test_share, random_state, return_truth
        As for `make_sd1`.

    Returns
    -------
    polars.DataFrame, or (polars.DataFrame, Truth)
        Columns user, item, rating, part (``"train"`` or ``"test"``). The scales in Truth are the thresholds of
        the types, (n_scales, n_levels - 1).
    """
    from scipy.stats import beta  # time that `import cmtrf.datasets` need not spend

    if n_scales < 1:
        raise ParameterError(f"n_scales={n_scales!r}: pass 1 or more")
    rng = np.random.default_rng(random_state)
    U, V = _draw_factors(rng, n_users, n_items, rank, 0.0, max(rank, 1) ** -0.25)
    more = np.exp(rng.uniform(np.log(0.4), np.log(4), (max(n_scales - len(SHAPES), 0), 2)))
    a, b = np.vstack([SHAPES, more])[:n_scales].T[:, :, None]
    some = rng.integers(0, (n_users, n_items), (DRAWS, 2))  # pairs whose noisy scores tell how all are distributed
    noisy = (U[some[:, 0]] * V[some[:, 1]]).sum(1) + noise * rng.standard_normal(DRAWS)
    thresholds = np.quantile(noisy, beta.cdf(np.arange(1, n_levels) / n_levels, a, b))
    user_scale = rng.integers(0, n_scales, n_users)

    def rate(users: Integers, items: Integers) -> Floats:
        scores = (U[users] * V[items]).sum(1) + noise * rng.standard_normal(len(users))
        return np.asarray(1.0 + (scores[:, None] > thresholds[user_scale[users]]).sum(1))

    table = _rate_pairs(rng, (n_users, n_items, n_levels), rate, "nearest", train_share, test_share)
    return (table, Truth(U, V, thresholds, user_scale)) if return_truth else table


def _draw_factors(
    rng: np.random.Generator, n_users: int, n_items: int, rank: int, mean: float, sd: float
) -> tuple[Floats, Floats]:
    if min(n_users, n_items, rank) < 1:
        raise ParameterError(f"n_users={n_users}, n_items={n_items}, rank={rank}: each must be 1 or more")
    return rng.normal(mean, sd, (n_users, rank)), rng.normal(mean, sd, (n_items, rank))


def _rate_pairs(
    rng: np.random.Generator,
    shape: tuple[int, int, int],
    rate: Callable[[Integers, Integers], Floats],
    rounding: Rounding,
    train_share: float,
    test_share: float,
) -> pl.DataFrame:
    """Draw pairs uniformly without repeats, rate them, and list them by user and item."""
    import polars as pl

    n_users, n_items, n_levels = shape
    if n_levels < 2:
        raise ParameterError(f"n_levels={n_levels!r}: a scale has 2 or more")
    if train_share <= 0 or test_share < 0 or train_share + test_share > 1 + 1e-9:
        raise ParameterError(
            f"train_share={train_share!r}, test_share={test_share!r}: pass shares of all pairs, together at most 1"
        )
    cells = n_users * n_items
    n_train = round(train_share * cells)
    n_test = min(round(test_share * cells), cells - n_train)
    drawn = rng.choice(cells, n_train + n_test, replace=False)
    is_test = np.zeros(len(drawn), np.bool_)
    is_test[n_train:] = True
    order = np.argsort(drawn)
    users, items = np.divmod(drawn[order], n_items)
    ratings = rate(users, items)
    if rounding is not None:
        ratings = np.clip(_round(ratings, rounding), 1, n_levels).astype(np.int64)
    part = np.where(is_test[order], "test", "train").tolist()
    return pl.DataFrame({"user": users, "item": items, "rating": ratings, "part": part})


def _round(ratings: Floats, rounding: str) -> Floats:
    if rounding == "nearest":
        return np.floor(ratings + 0.5)
    if rounding not in ("down", "up"):
        raise ParameterError(f'rounding={rounding!r}: pass "nearest", "down", "up" or None')
    return np.floor(ratings) if rounding == "down" else np.ceil(ratings)
