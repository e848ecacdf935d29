"""CMTRF: parameters, ``fit(table)`` -> model, and answers by id. Glue only: what has a room is not written here."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from cmtrf.encode import Encoded, encode, encode_pairs, is_empty, is_table, match_model, number_ratings
from cmtrf.errors import (
    DataWarning,
    ModelFileError,
    NotConvergedWarning,
    ParameterError,
    UnavailableError,
    UnknownIdError,
)
from cmtrf.fitting import Fitter
from cmtrf.kernels.choose import choose_kernels
from cmtrf.kernels.table import Integers, Kernels
from cmtrf.models.describe import scale_table, user_table
from cmtrf.models.persist import load_model, save_model
from cmtrf.models.point import PointModel, from_outcome
from cmtrf.plan import check_choices, check_parameters, is_word, make_plan, warn_of_scales, whole_number
from cmtrf.problem import Problem
from cmtrf.progress import Progress
from cmtrf.solvers.alternating import Alternating
from cmtrf.solvers.base import Ending, Outcome, Solver
from cmtrf.solvers.drive import Callback, Interrupted
from cmtrf.solvers.joint import Joint
from cmtrf.tables.columns import Columns
from cmtrf.tables.reading import read
from cmtrf.tables.writing import frame
from cmtrf.vocabulary import Vocabulary, as_asked, shown

log = logging.getLogger("cmtrf")
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
        Number of factors; 0 leaves only biases and scales (nothing, with the given scale and no biases).
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
        Stop on the relative fall of the objective; ``tol=0`` runs exactly ``max_sweeps``, as long as rounding lets
        the objective fall.
    shrinkage : float or "auto", default="auto"
        Pseudo-ratings that pull each scale to the scale of all; ``"auto"`` is 0 with a margin.
    levels : sequence or None, default=None
        The rating scale, lowest first, where not all of it occurs in the data; words are allowed.
    duplicates : {"error", "keep", "last", "first"}, default="error"
        What to do where a user rated an item twice.
    unknown : {"fallback", "raise", "nan"}, default="fallback"
        What to predict for users and items never seen: the mean rating of the side that is known, an error,
        or NaN (`recommend` raises then, too).
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
        Which column of the training table was taken as what.
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
            Names of the columns, where they are not the usual ones. Weights are used only if named.
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
        check_parameters(parameters)
        if start is not None and not isinstance(start, CMTRF):
            raise ParameterError(f"start={start!r}: pass a fitted model, such as cmtrf.load(path)")
        columns = read(
            X, y=y, sample_weight=sample_weight,
            user=user, item=item, rating=rating, timestamp=timestamp, weight=weight,
        )  # fmt: skip
        coded = encode(columns, levels=self.levels, duplicates=self.duplicates, dtype=np.dtype(self.dtype))
        plan = make_plan(parameters, coded.ratings)
        warn_of_scales(plan, stacklevel=2)
        rng, progress = _generator(self.random_state), Progress(self.progress)
        earlier = None if start is None else match_model(start._fitted, coded, plan.rank)
        with choose_kernels(self.n_jobs) as kernels:
            with progress.slow(COMPILING):
                kernels.prepare(plan.dtype)
            fitter = Fitter(
                plan, coded.ratings, coded.grid.values, kernels, self._make_solver(kernels), rng, progress, callback
            )
            try:
                problem, outcome = fitter.fit(earlier)
            except Interrupted as interrupt:
                if interrupt.outcome.objective:
                    self._keep(interrupt.problem, interrupt.outcome, coded, columns)
                raise
        self._keep(problem, outcome, coded, columns)
        self._warn_of_outcome(outcome)
        return self

    def _warn_of_outcome(self, outcome: Outcome) -> None:
        unsettled = outcome.ending is Ending.OUT_OF_SWEEPS and self.tol > 0  # tol=0 asks for all sweeps
        if unsettled or outcome.ending is Ending.ROUNDING:
            warnings.warn(
                f"{outcome.ending.value} (max_sweeps={self.max_sweeps}, tol={self.tol:g})",
                NotConvergedWarning,
                stacklevel=3,
            )
        if self._model.has_no_factors:
            log.warning(
                "the factors have shrunk to nothing: ratings are predicted without regard to who rates what; pass "
                "smaller lambda_u and lambda_v (now %g and %g) or a larger margin",
                self.lambda_u,
                self.lambda_v,
            )

    def _parameters(self) -> dict[str, Any]:
        """Parameters of this class, also where a subclass shows fewer of them."""
        return {name: getattr(self, name) for name in CMTRF._get_param_names()}

    def _make_solver(self, kernels: Kernels) -> Solver:
        return Alternating(kernels) if self.solver == "alternating" else Joint(kernels)

    def _keep(self, problem: Problem, outcome: Outcome, coded: Encoded, columns: Columns) -> None:
        used = {
            role: name
            for role, name in columns.names.items()
            if getattr(columns, role) is not None and role not in columns.beside
        }
        self._adopt(from_outcome(problem, outcome, coded.users, coded.items, coded.grid), columns.kind, used)

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
        self,
        pairs: Any,
        kind: str = "mean",
        *,
        clip: bool = True,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        timestamp: str | None = None,
        weight: str | None = None,
    ) -> NDArray[np.float64]:
        """Predict the rating of each pair (user, item), within the platform's range; words count 1..L.

        With ``clip=False`` scores beyond a scale's ends go on along its first and last piece, as in the program of
        the paper's authors. The names of the other columns may be given, as everywhere, and are not looked at.
        """
        if is_word(kind, "median"):
            raise UnavailableError(
                'kind="median" needs inverse="calibrated", which is not in this version yet: pass kind="mean"'
            )
        if not is_word(kind, "mean"):
            raise ParameterError(f'kind={kind!r}: pass "mean"')
        model = self._fitted
        columns = self._read_pairs(pairs, user, item)
        return self._predict(columns, *encode_pairs(columns, model.users, model.items), clip=clip)

    def _predict(self, columns: Columns, users: Integers, items: Integers, *, clip: bool = True) -> NDArray[np.float64]:
        """Ratings of coded pairs, minding ``unknown``."""
        check_choices(self._parameters())
        model = self._fitted
        missing = (users < 0) | (items < 0)
        if self.unknown == "raise" and missing.any():
            row = int(missing.argmax())
            side, ids = ("user", columns.user) if users[row] < 0 else ("item", columns.item)
            raise UnknownIdError(
                f"{columns.where(row)}: the {side} {shown(ids[row])} was not in the training table; "
                'unknown="fallback" predicts a mean rating, unknown="nan" leaves it out'
            )
        _tell_of_strangers("user", users, columns.user, model.users)
        _tell_of_strangers("item", items, columns.item, model.items)
        with choose_kernels(self.n_jobs) as kernels:
            ratings = model.predict(users, items, kernels, clip=clip)
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
        rating: str | None = None,
        timestamp: str | None = None,
        weight: str | None = None,
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
        timestamp: str | None = None,
        weight: str | None = None,
    ) -> float:
        """R^2 of the predictions for a rated table, or for pairs ``X`` and ratings ``y``; times are not looked at."""
        if type(self).predict is not CMTRF.predict and y is not None:
            return float(super().score(X, y, sample_weight))  # a subclass for tables of another form

        from sklearn.metrics import r2_score  # half a second that a fit does not need

        model = self._fitted
        columns = read(
            X, y=y, sample_weight=sample_weight,
            user=user, item=item, rating=rating, weight=weight, timed=False,
            hints={role: name for role, name in self.columns_.items() if role != "weight"},
        )  # fmt: skip
        if columns.weight is not None:
            columns = columns.keep(columns.weight > 0)
        truth = number_ratings(columns, model.grid)
        predicted = self.predict(columns)
        if np.isnan(predicted).any():
            raise UnavailableError(
                f"{np.isnan(predicted).sum()} rows have users or items that were not in the training table, and "
                'unknown="nan": leave these rows out, or pass unknown="fallback"'
            )
        return float(r2_score(truth, predicted, sample_weight=columns.weight))

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
        check_choices(self._parameters())
        model, n = self._fitted, whole_number("n", n, 1)
        names = model.users.ids if users is None else as_asked(users)
        names = names if len(names) else model.users.ids[:0]
        asked, place = Vocabulary.of(names)
        names = names[np.sort(np.unique(place, return_index=True)[1])]  # one asked for twice is answered once
        codes = model.users.codes(names)
        if (codes < 0).any():
            self._refuse_strangers(names, codes)
        place = asked.codes(names)
        with choose_kernels(self.n_jobs) as kernels:
            row, item, rank, rating = model.recommend(
                codes,
                n,
                kernels,
                exclude_seen=exclude_seen,
                candidates=self._candidates(candidates),
                exclude=self._excluded(exclude, asked, np.argsort(place)),
            )
        table = {"user": names[row], "item": model.items.ids[item], "rank": rank, "rating": rating}
        return frame(table, self._kind)

    def _refuse_strangers(self, names: NDArray[Any], codes: Integers) -> None:
        """Tell of users never seen, or raise where ``unknown`` says so: a list has no place for a NaN."""
        first = shown(names[int((codes < 0).argmax())])
        told = f"{(codes < 0).sum()} of {len(codes)} users were not in the training table, the first is {first}"
        if self.unknown != "fallback":
            raise UnknownIdError(f'{told}; leave them out, or pass unknown="fallback"')
        log.warning("%s; they get the items of the highest mean rating", told)

    def _candidates(self, candidates: Any) -> Integers:
        items = self._fitted.items
        if candidates is None:
            return np.arange(len(items))
        names = as_asked(candidates)
        codes = items.codes(names)
        if (codes < 0).any():
            warnings.warn(
                f"{(codes < 0).sum()} of {len(codes)} candidates were not in the training table and are left out, "
                f"the first is {shown(names[codes < 0][0])}",
                DataWarning,
                stacklevel=3,
            )
        return np.unique(codes[codes >= 0])

    def _excluded(self, exclude: Any, asked: Vocabulary, row: Integers) -> tuple[Integers, Integers]:
        """Pairs (place among the users asked for, item); -1 is everyone. A new item cannot be recommended anyway."""
        model = self._fitted
        none = np.empty(0, np.int64)
        if exclude is None:
            return none, none
        if not is_table(exclude):
            names = as_asked(exclude)
            items = model.items.codes(names)
            _tell_of_strangers("item", items, names, model.items, "nothing is left out for them")
            return np.full((items >= 0).sum(), -1), items[items >= 0]
        if is_empty(exclude):
            return none, none
        columns = self._read_pairs(exclude, None, None)
        users, items = encode_pairs(columns, asked, model.items)
        _tell_of_strangers("item", items, columns.item, model.items, "nothing is left out for them")
        if columns.user.dtype.kind != asked.ids.dtype.kind:
            _tell_of_strangers("user", users, columns.user, asked, "nothing is left out for them")
        known = (users >= 0) & (items >= 0)
        return row[users[known]], items[known]

    def similar_items(self, item: Any, n: int = 10) -> Any:
        """Items whose factors point the same way, as a frame: item, rank, similarity (a cosine)."""
        model, n, names = self._fitted, whole_number("n", n, 1), as_asked(item)
        if len(names) != 1:
            raise ParameterError(f"similar_items takes one item, got {len(names)}")
        code = int(model.items.codes(names)[0])
        if code < 0:
            raise UnknownIdError(f"the item {shown(names[0])} was not in the training table; pass one of items_")
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
        model = self._fitted
        types = None if types is None else whole_number("types", types, 1)
        return frame(scale_table(model, types), self._kind)

    def user_scales(self) -> Any:
        """Which scale each user has, as a tidy frame: user, scale, probability, n_ratings, fallback."""
        return frame(user_table(self._fitted), self._kind)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `cmtrf.load` reads it."""
        check_parameters(self._parameters())
        save_model(self._fitted, path, self._parameters(), self.columns_)

    def _read_pairs(self, pairs: Any, user: str | None, item: str | None) -> Columns:
        return read(pairs, rated=False, user=user, item=item, hints=self.columns_)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that ids may be strings."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def load(path: str | os.PathLike[str]) -> CMTRF:
    """Read a model that `CMTRF.save` wrote; what is not one raises `cmtrf.errors.ModelFileError`."""
    model, parameters, columns = load_model(Path(path))
    estimator = CMTRF(**parameters)
    try:
        check_parameters(estimator._parameters())
    except ParameterError as error:
        raise ModelFileError(f"{path} holds parameters that cannot be: {error}") from None
    estimator._adopt(model, None, columns)
    return estimator


_NO_PROBABILITIES = '{} needs inverse="calibrated", which is not in this version yet: use predict, the mean rating'
FEW = 10  # this many rows may all be strangers without a word


def _tell_of_strangers(
    side: str, codes: Integers, ids: NDArray[Any], known: Vocabulary, result: str = "mean ratings are predicted"
) -> None:
    """Tell where no id is known: mostly ids of another kind, or a split that keeps whole users apart."""
    if len(codes) == 0 or (codes >= 0).any():
        return
    if ids.dtype.kind != known.ids.dtype.kind or len(codes) >= FEW:
        log.warning(
            "none of the %ss was in the training table (%s is the first here, %s there), so %s",
            side,
            shown(ids[0]),
            shown(known.ids[0]),
            result,
        )


def _generator(random_state: Any) -> np.random.Generator:
    """Return a Generator from anything that scikit-learn takes for a random state, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, (int, np.integer)):
        return np.random.default_rng(int(random_state))
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
