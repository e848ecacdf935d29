"""CMTRF: parameters, ``fit(table)`` -> model, and answers by id. Glue only: what has a room is not written here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from cmtrf.encode import Encoded, encode, encode_pairs
from cmtrf.errors import (
    DataError,
    DataWarning,
    ModelFileError,
    NotConvergedWarning,
    ParameterError,
    ScaleWarning,
    UnavailableError,
    UnknownIdError,
)
from cmtrf.fitting import Fitter
from cmtrf.kernels.choose import choose_kernels
from cmtrf.kernels.table import Integers, Kernels
from cmtrf.models.describe import scale_table, user_table
from cmtrf.models.persist import load_model, save_model
from cmtrf.models.point import PointModel, build_model
from cmtrf.plan import Plan, check_choices, make_plan
from cmtrf.problem import Problem
from cmtrf.progress import Progress
from cmtrf.solvers.alternating import Alternating
from cmtrf.solvers.base import Outcome, Solver
from cmtrf.solvers.drive import Callback, Interrupted
from cmtrf.solvers.joint import Joint
from cmtrf.solvers.start import Earlier
from cmtrf.tables.columns import Columns
from cmtrf.tables.reading import read
from cmtrf.tables.writing import frame
from cmtrf.vocabulary import plain_array

COMPILING = "cmtrf: compiling its kernels for this machine, once; this takes about ten seconds."


class CMTRF(RegressorMixin, BaseEstimator):
    """Matrix factorization of ratings that learns each rater's own scale along with their taste.

    Minimises, over factors, scales and who uses which scale,

        sum_ij w_ij (x_{z_i}[r_ij] - u_i . v_j - b_i - b_j)^2 / 2 + ridge penalties,

    where ``x_k`` is the increasing position of the rating levels on scale k, with neighbours at least
    ``margin`` apart: K-CMTRF of "Clustered Monotone Transforms for Rating Factorization", its two ends
    1-CMTRF and N-CMTRF, and plain matrix factorization on the given scale.

    Parameters
    ----------
    n_scales : {"fixed", "user"} or int, default=4
        ``"fixed"`` keeps the given scale, 1 learns one for all, K >= 2 one for each of K clusters of users,
        ``"user"`` one for each user.
    rank : int, default=20
        Number of factors; 0 leaves only biases and scales.
    lambda_u, lambda_v : float, default=6.0
        Ridge of user and item factors, as in the objective. The default suits the default margin, where
        learned positions lie about half a unit apart.
    lambda_bias : float or (float, float), default=3.0
        Ridge of the biases; a pair is (user, item).
    margin : float, sequence of L-1 floats, or None, default=None
        Least distance of neighbouring levels, one for all or one a gap, lowest first. None means 0.5.
    divergence : {"squared"}, default="squared"
        The loss.
    bias : bool, default=False
        Whether users and items have offsets. With a margin, learned scales then differ in shift only.
    inverse : {"linear"}, default="linear"
        From score to rating: straight lines between the positions of the user's scale, clipped.
    solver : {"auto", "alternating", "joint"}, default="auto"
        ``"alternating"`` is the paper to the letter; ``"joint"`` eliminates the user factors and needs
        fewer sweeps; ``"auto"`` is ``"joint"``.
    max_sweeps, tol : int, float, default=100, 1e-5
        Stop on the relative fall of the objective; ``tol=0`` runs exactly ``max_sweeps``.
    shrinkage : float or "auto", default="auto"
        Pseudo-ratings that pull each scale to the scale of all; ``"auto"`` is 0 with a margin.
    levels : sequence or None, default=None
        The rating scale, lowest first, where not all of it occurs in the data; words are allowed.
    duplicates : {"error", "keep", "last", "first"}, default="error"
        What to do where a user rated an item twice.
    unknown : {"fallback", "raise", "nan"}, default="fallback"
        What to predict for users and items never seen: the mean rating of the side that is known, an error,
        or NaN.
    dtype : {"float32", "float64"}, default="float32"
        Type of the kernels' numbers; objectives are summed in double precision.
    random_state : int, numpy Generator, RandomState or None, default=None
        Draws the first factors and clusters. The same seed gives the same bits, whatever ``n_jobs`` and
        the order of the rows.
    n_jobs : int or None, default=None
        Threads; None is all cores the process may use, one inside a joblib worker.
    progress : bool or None, default=None
        A bar on stderr; None: only on a terminal.

    Attributes
    ----------
    levels_ : ndarray of shape (n_levels,)
        The rating scale, lowest first.
    scales_ : ndarray of shape (n_scales, n_levels)
        Position of each level on each scale.
    user_scale_ : ndarray of shape (n_users,)
        Which scale each user has.
    user_factors_, item_factors_ : ndarray
        Factors, in the order of ``users_`` and ``items_``.
    user_bias_, item_bias_ : ndarray
        Offsets; zeros without biases.
    users_, items_ : ndarray
        The ids, sorted.
    objective_ : ndarray of shape (n_sweeps,)
        The objective after each sweep of the last phase.
    n_sweeps_ : int
        Sweeps of the last phase.
    converged_ : bool
        Whether the objective settled.
    columns_ : dict
        Which column of the training table was taken as what; empty for a loaded model.
    n_features_in_ : int
        2: user and item.

    Examples
    --------
    >>> import numpy as np
    >>> from cmtrf import CMTRF
    >>> users = ["ann", "ann", "ann", "bob", "bob", "eve", "eve", "eve"]
    >>> items = ["tea", "rye", "fig", "tea", "rye", "tea", "rye", "fig"]
    >>> model = CMTRF(n_scales=1, rank=1, random_state=0).fit((users, items, [5, 3, 4, 4, 2, 5, 2, 4]))
    >>> model.levels_
    array([2., 3., 4., 5.])
    >>> bool(model.predict((["bob"], ["fig"]))[0] > 2)
    True
    """

    def __init__(
        self,
        *,
        n_scales: int | str = 4,
        rank: int = 20,
        lambda_u: float | str = 6.0,
        lambda_v: float | str = 6.0,
        lambda_bias: float | tuple[float, float] | str = 3.0,
        margin: Any = None,
        divergence: str = "squared",
        bias: bool = False,
        inverse: str = "linear",
        solver: str = "auto",
        max_sweeps: int = 100,
        tol: float = 1e-5,
        shrinkage: float | str = "auto",
        levels: Any = None,
        duplicates: str = "error",
        unknown: str = "fallback",
        dtype: str = "float32",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.n_scales = n_scales
        self.rank = rank
        self.lambda_u = lambda_u
        self.lambda_v = lambda_v
        self.lambda_bias = lambda_bias
        self.margin = margin
        self.divergence = divergence
        self.bias = bias
        self.inverse = inverse
        self.solver = solver
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.shrinkage = shrinkage
        self.levels = levels
        self.duplicates = duplicates
        self.unknown = unknown
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    @classmethod
    def paper(cls, n_scales: int | str, **parameters: Any) -> CMTRF:
        """Return the paper to the letter: no biases, margin 0.5, its inverse, its alternation."""
        fixed = {"bias": False, "margin": 0.5, "inverse": "linear", "solver": "alternating"}
        return cls(n_scales=n_scales, **{**fixed, **parameters})

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        timestamp: str | None = None,
        weight: str | None = None,
        start: CMTRF | None = None,
        callback: Callback | None = None,
    ) -> CMTRF:
        """Fit to a table of ratings.

        Parameters
        ----------
        X : table
            A data frame, a path, arrays (users, items, ratings), a sparse matrix; or two columns (user,
            item) with the ratings in ``y``.
        y : array-like, optional
            Ratings, where ``X`` has none.
        sample_weight : array-like, optional
            Weight of each row; a weight counts as that many equal ratings.
        user, item, rating, timestamp, weight : str, optional
            Names of the columns, where they are not the usual ones.
        start : CMTRF, optional
            A fitted model to begin from; users and items are matched by id.
        callback : callable, optional
            Called with a record after each sweep; returning True stops the fit.

        Returns
        -------
        CMTRF
            The estimator itself. If Ctrl-C interrupts the last phase, the estimator keeps what the last
            whole sweep reached, and the interrupt goes on.
        """
        parameters = self._parameters()
        check_choices(parameters)
        columns = read(
            X, y=y, sample_weight=sample_weight,
            user=user, item=item, rating=rating, timestamp=timestamp, weight=weight,
        )  # fmt: skip
        coded = encode(columns, levels=self.levels, duplicates=self.duplicates, dtype=np.dtype(self.dtype))
        plan = make_plan(parameters, coded.ratings)
        _warn_of_scales(plan)
        rng, progress = _generator(self.random_state), Progress(self.progress)
        earlier = None if start is None else _match(start, coded, plan)
        with choose_kernels(self.n_jobs) as kernels:
            with progress.slow(COMPILING):
                kernels.prepare(plan.dtype)
            fitter = Fitter(
                plan,
                coded.ratings,
                coded.grid.values,
                kernels,
                self._make_solver(kernels),
                rng,
                progress,
                callback,
            )
            try:
                problem, outcome = fitter.fit(earlier)
            except Interrupted as interrupt:
                if interrupt.outcome.objective:
                    self._keep(interrupt.problem, interrupt.outcome, coded, columns)
                raise
        self._keep(problem, outcome, coded, columns)
        if not outcome.converged and self.tol > 0 and len(outcome.objective) == plan.max_sweeps:
            warnings.warn(
                f"the objective was still falling after max_sweeps={plan.max_sweeps}: pass a larger max_sweeps "
                f"or a larger tol (now {self.tol:g}), or go on from here with fit(..., start=model)",
                NotConvergedWarning,
                stacklevel=2,
            )
        return self

    def _parameters(self) -> dict[str, Any]:
        """Parameters of this class, also where a subclass shows fewer of them."""
        return {name: getattr(self, name) for name in CMTRF._get_param_names()}

    def _make_solver(self, kernels: Kernels) -> Solver:
        return Alternating(kernels) if self.solver == "alternating" else Joint(kernels)

    def _keep(self, problem: Problem, outcome: Outcome, coded: Encoded, columns: Columns) -> None:
        model = build_model(problem, outcome, coded.users, coded.items, coded.grid, self._parameters())
        self._adopt(model, columns.kind, columns.names)

    def _adopt(self, model: PointModel, kind: str | None, names: Mapping[str, str]) -> None:
        """Show a model's arrays under the names that scikit-learn's users expect."""
        self._model = model
        self._kind = kind
        self.columns_ = dict(names)
        self.levels_ = model.grid.levels
        self.scales_ = model.scales
        self.user_scale_ = model.user_scale
        self.user_factors_ = model.user_factors
        self.item_factors_ = model.item_factors
        self.user_bias_ = model.user_bias
        self.item_bias_ = model.item_bias
        self.users_ = model.users.ids
        self.items_ = model.items.ids
        self.objective_ = model.objective
        self.n_sweeps_ = len(model.objective)
        self.converged_ = model.converged
        self.n_features_in_ = 2

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether there is a model."""
        return hasattr(self, "_model")

    @property
    def _fitted(self) -> PointModel:
        if not hasattr(self, "_model"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit with a table of ratings first"
            )
        return self._model

    def predict(
        self, pairs: Any, kind: str = "mean", *, user: str | None = None, item: str | None = None
    ) -> NDArray[np.float64]:
        """Predict the rating of each pair (user, item), within the platform's range; words count 1..L."""
        model = self._fitted
        if kind == "median":
            raise UnavailableError(
                'kind="median" needs inverse="calibrated", which is not in this version yet: pass kind="mean"'
            )
        if kind != "mean":
            raise ParameterError(f'kind={kind!r}: pass "mean"')
        columns = self._read_pairs(pairs, user, item)
        return self._predict(columns, *encode_pairs(columns, model.users, model.items))

    def _predict(self, columns: Columns, users: Integers, items: Integers) -> NDArray[np.float64]:
        """Ratings of coded pairs, minding ``unknown``."""
        model = self._fitted
        missing = (users < 0) | (items < 0)
        if self.unknown == "raise" and missing.any():
            row = int(missing.argmax())
            side, ids = ("user", columns.user) if users[row] < 0 else ("item", columns.item)
            raise UnknownIdError(
                f'{columns.where(row)}: the {side} {ids[row]!r} was not in the training table; unknown="fallback" '
                'predicts a mean rating, unknown="nan" leaves it out'
            )
        with choose_kernels(self.n_jobs) as kernels:
            ratings = model.predict(users, items, kernels)
        if self.unknown == "nan":
            ratings[missing] = np.nan
        return ratings

    def predict_table(
        self,
        pairs: Any,
        proba: bool = False,
        interval: float | None = None,
        *,
        user: str | None = None,
        item: str | None = None,
    ) -> Any:
        """Predictions as a frame of the caller's kind: user, item, prediction, fallback.

        ``fallback`` says why a mean rating stood in, and is null where both were known.
        """
        model = self._fitted
        if proba or interval is not None:
            raise UnavailableError(_NO_PROBABILITIES.format("proba=True" if proba else "interval"))
        columns = self._read_pairs(pairs, user, item)
        users, items = encode_pairs(columns, model.users, model.items)
        reasons = np.array([None, "unknown user", "unknown item", "unknown user and item"], dtype=object)
        table = {
            "user": columns.user,
            "item": columns.item,
            "prediction": self._predict(columns, users, items),
            "fallback": reasons[(users < 0) * 1 + (items < 0) * 2],
        }
        return frame(table, columns.kind or self._kind)

    @property
    def predict_proba(self) -> Any:
        """Probabilities of the levels; not available with ``inverse="linear"``."""
        raise AttributeError(_NO_PROBABILITIES.format("predict_proba"))

    @property
    def predict_interval(self) -> Any:
        """Interval of levels; not available with ``inverse="linear"``."""
        raise AttributeError(_NO_PROBABILITIES.format("predict_interval"))

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        weight: str | None = None,
    ) -> float:
        """R^2 of the predictions for a rated table, or for pairs ``X`` and ratings ``y``."""
        from sklearn.metrics import r2_score  # half a second that a fit does not need

        if y is None:
            names = self._pair_names(X, user, item)
            columns = read(X, sample_weight=sample_weight, rating=rating, weight=weight, **names)
            X, y, sample_weight = columns, columns.rating, columns.weight
        predicted = self.predict(X, **{k: v for k, v in (("user", user), ("item", item)) if v is not None})
        return float(r2_score(self._to_numbers(y), predicted, sample_weight=sample_weight))

    def _to_numbers(self, ratings: Any) -> Any:
        """Ratings as numbers: words count 1..L."""
        grid = self._fitted.grid
        if grid.words is None:
            return ratings
        levels = grid.encode(ratings)
        if (levels < 0).any():
            wrong = plain_array(ratings)[int((levels < 0).argmax())]
            raise DataError(f"the rating {wrong!r} is not one of the levels {list(grid.words)}")
        return grid.values[levels]

    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
    ) -> Any:
        """Best items for each user, as a frame: user, item, rank, rating.

        Parameters
        ----------
        users : id, sequence of ids, or None
            None: everyone in the training table.
        n : int
            How many; fewer where fewer are left.
        exclude_seen : bool
            Leave out what the user rated in the training table.
        candidates : sequence of ids, optional
            Recommend only these items.
        exclude : sequence of item ids, or a table of pairs (user, item), optional
            Leave these out, for everyone or for those users.
        """
        model = self._fitted
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ParameterError(f"n={n!r}: pass a whole number, 1 or more")
        names = model.users.ids if users is None else _ids(users)
        codes = model.users.codes(names)
        if self.unknown != "fallback" and (codes < 0).any():
            missing = names[int((codes < 0).argmax())]
            raise UnknownIdError(f"the user {missing!r} was not in the training table")
        user, item, rank, rating = model.recommend(
            codes,
            int(n),
            exclude_seen=exclude_seen,
            candidates=self._candidates(candidates),
            exclude=self._excluded(exclude),
        )
        table = {"user": names[user], "item": model.items.ids[item], "rank": rank, "rating": rating}
        return frame(table, self._kind)

    def _candidates(self, candidates: Any) -> Integers:
        items = self._fitted.items
        if candidates is None:
            return np.arange(len(items))
        codes = items.codes(_ids(candidates))
        if (codes < 0).any():
            missing = _ids(candidates)[codes < 0]
            warnings.warn(
                f"{len(missing)} of {len(codes)} candidates were not in the training table and are left out, "
                f"the first is {missing[0]!r}",
                DataWarning,
                stacklevel=3,
            )
        return np.unique(codes[codes >= 0])

    def _excluded(self, exclude: Any) -> tuple[Integers, Integers]:
        """Pairs of codes; user -1 stands for everyone. Ids that the model does not know cannot be recommended."""
        model = self._fitted
        if exclude is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if _is_table(exclude):
            columns = self._read_pairs(exclude, None, None)
            users, items = encode_pairs(columns, model.users, model.items)
            known = (users >= 0) & (items >= 0)
            return users[known], items[known]
        items = model.items.codes(_ids(exclude))
        return np.full((items >= 0).sum(), -1), items[items >= 0]

    def similar_items(self, item: Any, n: int = 10) -> Any:
        """Items whose factors point the same way, as a frame: item, rank, similarity (a cosine)."""
        model = self._fitted
        code = int(model.items.codes(_ids(item))[0])
        if code < 0:
            raise UnknownIdError(f"the item {item!r} was not in the training table")
        if model.item_factors.shape[1] == 0:
            raise UnavailableError("a model of rank 0 has no factors to compare: fit with rank=1 or more")
        items, cosine = model.similar(code, n)
        table = {"item": model.items.ids[items], "rank": np.arange(1, len(items) + 1), "similarity": cosine}
        return frame(table, self._kind)

    def scales(self, types: int | None = None) -> Any:
        """Positions of the levels as a tidy frame: scale, level, position, low, high, n_users, n_ratings.

        ``types`` groups the users' own scales by k-means first; ``low`` and ``high`` are then the range of
        positions within a group, and null where a row is one scale.
        """
        return frame(scale_table(self._fitted, types), self._kind)

    def user_scales(self) -> Any:
        """Which scale each user has, as a tidy frame: user, scale, probability, n_ratings, fallback."""
        return frame(user_table(self._fitted), self._kind)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `cmtrf.load` reads it."""
        save_model(self._fitted, path)

    def _read_pairs(self, pairs: Any, user: str | None, item: str | None) -> Columns:
        if isinstance(pairs, Columns):
            return pairs
        return read(pairs, rated=False, **self._pair_names(pairs, user, item))

    def _pair_names(self, pairs: Any, user: str | None, item: str | None) -> PairNames:
        """Column names for a table of pairs: as given, else those that `fit` used if the table has them."""
        have = set(map(str, getattr(pairs, "columns", ())) if hasattr(pairs, "columns") else ())
        known = {role: name for role, name in getattr(self, "columns_", {}).items() if name in have}
        return PairNames(user=user or known.get("user"), item=item or known.get("item"))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that ids may be strings."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def load(path: str | os.PathLike[str]) -> CMTRF:
    """Read a model that `CMTRF.save` wrote; what is not one raises `cmtrf.errors.ModelFileError`."""
    model = load_model(Path(path))
    estimator = CMTRF(**model.parameters)
    try:
        check_choices(estimator._parameters())
    except ParameterError as error:
        raise ModelFileError(f"{path} holds parameters that cannot be: {error}") from None
    estimator._adopt(model, None, {})
    return estimator


class PairNames(TypedDict):
    """Names of the two columns of a table of pairs."""

    user: str | None
    item: str | None


_NO_PROBABILITIES = '{} needs inverse="calibrated", which is not in this version yet: use predict, the mean rating'


def _warn_of_scales(plan: Plan) -> None:
    if plan.n_scales == "fixed":
        return
    if not plan.gaps.any():
        warnings.warn(
            "margin=0 with squared loss: the objective falls by shrinking every scale, and scales collapse to a "
            "point; pass a margin above 0",
            ScaleWarning,
            stacklevel=3,
        )
    elif plan.bias and plan.n_scales != 1:
        warnings.warn(
            "with a margin and biases, scales differ in shift only, and a user's bias says the same: pass "
            'bias=False, or n_scales="fixed" or 1',
            ScaleWarning,
            stacklevel=3,
        )


def _generator(random_state: Any) -> np.random.Generator:
    """Return a Generator from anything that scikit-learn takes for a random state, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def _match(start: CMTRF, coded: Encoded, plan: Plan) -> Earlier:
    """Arrays of an earlier model, with the places of today's users and items in them."""
    model = start._fitted
    if not np.array_equal(model.grid.levels, coded.grid.levels):
        raise ParameterError(
            f"start= has the levels {list(model.grid.levels)}, this table {list(coded.grid.levels)}: "
            "pass levels= to make them the same"
        )
    if model.user_factors.shape[1] != plan.rank:
        raise ParameterError(f"start= has rank {model.user_factors.shape[1]}, this fit rank {plan.rank}")
    return Earlier(
        users=model.users.codes(coded.users.ids),
        items=model.items.codes(coded.items.ids),
        user_factors=model.user_factors,
        item_factors=model.item_factors,
        user_bias=model.user_bias,
        item_bias=model.item_bias,
        scales=model.scales,
        user_scale=model.user_scale,
        parent_scale=model.parent_scale,
    )


def _ids(values: Any) -> NDArray[Any]:
    """One id, or a sequence of them, as an array."""
    if isinstance(values, (str, int, float, np.generic)):
        values = [values]
    return read((values, values), rated=False).user


def _is_table(values: Any) -> bool:
    """Tell a table of pairs from a sequence of ids."""
    if isinstance(values, tuple):
        return len(values) == 2 and not any(isinstance(column, (str, int, float)) for column in values)
    return hasattr(values, "columns") or len(getattr(values, "shape", ())) == 2
