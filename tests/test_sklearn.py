"""scikit-learn's own checks, on a subclass that turns their data into ratings."""

from __future__ import annotations

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from cmtrf import CMTRF

EXCUSED = {
    "check_regressors_train": "its y is a linear function of ten columns; two ids cannot give R^2 > 0.5",
    "check_regressor_data_not_an_array": "its rounded y has 108 levels; more than 100 are refused as continuous",
}


class AnyTable(CMTRF):
    """CMTRF for tables that are not (user, item): the first two columns as ids, y rounded to levels.

    Their pairs repeat and their y is continuous; one column, or one level, is refused as CMTRF refuses it.
    """

    def __init__(
        self,
        *,
        n_scales=1,
        rank=1,
        bias=True,
        dtype="float64",
        max_sweeps=200,
        tol=1e-10,
        duplicates="keep",
        random_state=0,
        n_jobs=1,
    ):
        super().__init__(
            n_scales=n_scales,
            rank=rank,
            bias=bias,
            dtype=dtype,
            max_sweeps=max_sweeps,
            tol=tol,
            duplicates=duplicates,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def fit(self, X, y=None, sample_weight=None):
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_features=2)
        n_features = self.n_features_in_
        super().fit(X[:, :2], np.round(y), sample_weight)
        self.n_features_in_ = n_features
        return self

    def predict(self, X):
        check_is_fitted(self)
        return super().predict(validate_data(self, X, reset=False)[:, :2])


@parametrize_with_checks([AnyTable()], expected_failed_checks=lambda _: EXCUSED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
