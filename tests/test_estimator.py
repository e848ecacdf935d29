"""CMTRF as a user meets it: forms, parameters, fallbacks, predictions, recommendations, warm starts, bits."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import cmtrf
from cmtrf import CMTRF
from cmtrf.errors import (
    DataError,
    DataWarning,
    NotConvergedWarning,
    ParameterError,
    ScaleWarning,
    UnavailableError,
    UnknownIdError,
)
from cmtrf.models.persist import save_model
from cmtrf.solvers.drive import drive
from problems import planted

FORMS = ["fixed", 1, 3, "user"]
QUICK = {"rank": 2, "lambda_u": 1.0, "lambda_v": 1.0, "random_state": 0, "tol": 1e-4, "n_jobs": 1}


@pytest.fixture(scope="module")
def table():
    users, items, levels, _ = planted(np.random.default_rng(1), N=60, M=30)
    return pl.DataFrame({"user": [f"u{i:02}" for i in users], "item": items + 100, "rating": levels + 1})


def fitted(table, **parameters):
    return CMTRF(**{**QUICK, **parameters}).fit(table)


# ---- forms


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("solver", ["alternating", "joint"])
@pytest.mark.parametrize("n_scales", FORMS)
def test_every_form_fits_and_predicts(table, n_scales, solver, biased):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)
        model = fitted(table, n_scales=n_scales, solver=solver, bias=biased)
    K = {"fixed": 1, 1: 1, 3: 3, "user": 60}[n_scales]
    assert model.scales_.shape == (K, 5)
    assert model.user_scale_.shape == (60,)
    assert model.user_factors_.shape == (60, 2)
    assert model.item_factors_.shape == (30, 2)
    assert model.levels_.tolist() == [1, 2, 3, 4, 5]
    assert model.users_[0] == "u00"
    assert model.items_.tolist() == sorted(set(table["item"]))
    assert model.objective_.shape == (model.n_sweeps_,)
    assert (np.diff(model.objective_) <= 1e-6 * model.objective_[:-1]).all()
    assert (model.user_bias_ != 0).any() == biased
    if n_scales != "fixed":
        assert (np.diff(model.scales_) >= 0.5 - 1e-9).all()
    predictions = model.predict(table)
    assert predictions.min() >= 1
    assert predictions.max() <= 5
    assert model.score(table) > 0.5


@pytest.mark.parametrize("rank", [0, 1, 7])
def test_any_rank(table, rank):
    model = fitted(table, n_scales=1, rank=rank, bias=True)
    assert model.user_factors_.shape == (60, rank)
    assert np.isfinite(model.predict(table)).all()
    if rank == 0:
        with pytest.raises(UnavailableError, match="rank=1"):
            model.similar_items(100)


def test_fixed_keeps_the_given_scale(table):
    np.testing.assert_allclose(fitted(table, n_scales="fixed").scales_, [[1, 2, 3, 4, 5]])
    centred = fitted(table, n_scales="fixed", bias=True).scales_
    np.testing.assert_allclose(centred[0], np.arange(1, 6) - table["rating"].mean())


def test_paper_says_what_the_paper_says(table):
    model = CMTRF.paper(2, rank=2, lambda_u=1.0, lambda_v=2.0, random_state=0)
    chosen = model.get_params()
    assert {k: chosen[k] for k in ("n_scales", "bias", "margin", "inverse", "solver")} == {
        "n_scales": 2,
        "bias": False,
        "margin": 0.5,
        "inverse": "linear",
        "solver": "alternating",
    }
    model.fit(table)


def test_defaults_are_those_of_the_docs():
    chosen = CMTRF().get_params()
    assert (chosen["n_scales"], chosen["bias"], chosen["margin"], chosen["inverse"]) == (4, False, None, "linear")


def test_margins_one_a_gap(table):
    gaps = [0.2, 0.9, 0.4, 0.7]
    for solver in ("alternating", "joint"):
        model = fitted(table, n_scales=1, margin=gaps, solver=solver)
        assert (np.diff(model.scales_) >= np.array(gaps) - 1e-9).all()


def test_margin_0_is_allowed_and_warns_that_scales_collapse(table):
    with pytest.warns(ScaleWarning, match="collapse"):
        model = fitted(table, n_scales=1, margin=0, tol=0, max_sweeps=60)
    assert np.ptp(model.scales_) < 0.5
    assert np.isfinite(model.predict(table)).all()


def test_margin_and_biases_warn_that_scales_differ_in_shift_only(table):
    with pytest.warns(ScaleWarning, match="shift only"):
        fitted(table, n_scales=2, bias=True)


def test_shrinkage_pulls_scales_to_the_parent(table):
    spread = [np.ptp(fitted(table, n_scales="user", shrinkage=c).scales_, axis=0).mean() for c in (0.0, 10.0, 1e4)]
    assert spread[0] > spread[1] > 20 * spread[2]


# ---- fallbacks


def test_unused_levels_and_single_levels_fall_back_and_say_so():
    rows = [("all", 0, 1), ("all", 1, 2), ("all", 2, 3), ("one", 0, 3), ("one", 1, 3), ("low", 0, 1), ("low", 2, 2)]
    users, items, ratings = zip(*rows, strict=True)
    model = CMTRF(n_scales="user", rank=1, lambda_u=0.1, lambda_v=0.1, random_state=0).fit((users, items, ratings))
    told = {row["user"]: row for row in model.user_scales().to_dicts()}
    assert told["all"]["fallback"] is None
    assert told["low"]["fallback"] == "unused levels placed by the scale of all users: 3"
    assert told["one"]["fallback"] == "one level used: the scale of all users"
    assert told["one"]["n_ratings"] == 2
    assert (np.diff(model.scales_) >= 0.5 - 1e-9).all()
    one = CMTRF(n_scales=1, rank=1, levels=[0, 1, 2, 3], random_state=0).fit((users, items, ratings))
    assert set(one.user_scales()["fallback"]) == {"unused levels placed by the given levels: 0"}
    pulled = CMTRF(n_scales="user", rank=1, shrinkage=5.0, random_state=0).fit((users, items, ratings))
    assert pulled.user_scales()["fallback"].null_count() == 3


def test_too_many_clusters_name_user(table):
    with pytest.raises(ParameterError, match='n_scales="user"'):
        fitted(table, n_scales=60)
    few = (["a", "a", "b", "b", "c"], [1, 2, 1, 2, 1], [1, 2, 2, 1, 1])
    with pytest.raises(ParameterError, match="has 2"):
        CMTRF(n_scales=2).fit(few)


# ---- weights


def test_a_weight_counts_as_that_many_ratings(table):
    weight = np.random.default_rng(0).integers(0, 4, len(table))
    weighted = CMTRF(**QUICK, n_scales=2, dtype="float64").fit(table, sample_weight=weight)
    repeated = CMTRF(**QUICK, n_scales=2, dtype="float64", duplicates="keep").fit(
        table[np.repeat(np.arange(len(table)), weight).tolist()]
    )
    named = CMTRF(**QUICK, n_scales=2, dtype="float64").fit(
        table.with_columns(pl.Series("times", weight)), weight="times"
    )
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-9)
    np.testing.assert_allclose(weighted.scales_, repeated.scales_, atol=1e-6)
    np.testing.assert_array_equal(weighted.scales_, named.scales_)
    assert weighted.scales()["n_ratings"].to_list() == repeated.scales()["n_ratings"].to_list()
    new = (["u00", "nobody"], [999, 104])
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new))
    twice = table[np.repeat(np.arange(len(table)), weight).tolist()]
    assert weighted.score(table, sample_weight=weight) == pytest.approx(weighted.score(twice), rel=1e-9)


# ---- the same bits


def same_bits(a, b):
    for name in ("scales_", "user_scale_", "user_factors_", "item_factors_", "objective_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.parametrize("n_scales", FORMS)
def test_order_kind_and_threads_do_not_change_a_bit(table, n_scales):
    model = fitted(table, n_scales=n_scales)
    same_bits(model, fitted(table.sample(fraction=1, shuffle=True, seed=3), n_scales=n_scales))
    same_bits(model, fitted(table.to_pandas(), n_scales=n_scales))
    same_bits(model, fitted(table.to_arrow(), n_scales=n_scales))
    same_bits(model, fitted(table, n_scales=n_scales, n_jobs=2))


def test_two_threads_give_the_bits_of_one_where_there_is_work_for_two():
    rng = np.random.default_rng(0)
    pairs = rng.permutation(900 * 500)[:60_000]
    rows = (pairs // 500, pairs % 500, rng.integers(1, 6, 60_000))
    parameters = {"n_scales": 3, "rank": 20, "random_state": 1, "max_sweeps": 3, "tol": 0}
    same_bits(CMTRF(**parameters, n_jobs=1).fit(rows), CMTRF(**parameters, n_jobs=2).fit(rows))


def test_answers_have_the_same_bits_alone_in_a_batch_and_on_two_threads():
    rng = np.random.default_rng(0)
    pairs = rng.permutation(900 * 500)[:40_000]
    rows = (pairs // 500, pairs % 500, rng.integers(1, 6, 40_000))
    model = CMTRF(n_scales=3, rank=20, lambda_u=1.0, lambda_v=1.0, random_state=1, max_sweeps=3, tol=0).fit(rows)
    batch = model.set_params(n_jobs=1).recommend(n=5)
    assert batch.equals(model.set_params(n_jobs=2).recommend(n=5))
    np.testing.assert_array_equal(batch["rating"], model.predict(batch.select("user", "item")))
    for user in (3, 500, 899):
        one = batch.filter(pl.col("user") == user)
        assert model.recommend(user, n=5).equals(one)
        np.testing.assert_array_equal(model.predict(one.select("user", "item")), one["rating"])


def test_seeds_differ_and_repeat(table):
    same_bits(fitted(table, random_state=5), fitted(table, random_state=5))
    assert not np.array_equal(fitted(table, random_state=5).item_factors_, fitted(table).item_factors_)
    fitted(table, random_state=np.random.RandomState(0))
    fitted(table, random_state=np.random.default_rng(0))


# ---- stopping and starting


def test_a_fit_that_did_not_settle_warns_what_to_do(table):
    with pytest.warns(NotConvergedWarning, match=r"larger max_sweeps .* start=model\)? ?.*max_sweeps=2"):
        model = fitted(table, max_sweeps=2, tol=1e-9)
    assert not model.converged_
    assert model.n_sweeps_ == 2
    quiet = fitted(table, max_sweeps=4, tol=0)
    assert quiet.n_sweeps_ == 4


def test_callback_records_the_last_phase(table):
    records = []
    model = CMTRF(**QUICK, n_scales=3).fit(table, callback=records.append)
    assert [r.objective for r in records] == model.objective_.tolist()
    stopped = CMTRF(**QUICK, n_scales=3).fit(table, callback=lambda r: r.sweep == 2)
    assert stopped.n_sweeps_ == 2


def test_an_interrupt_keeps_what_was_reached(table):
    def impatient(record):
        if record.sweep == 3:
            raise KeyboardInterrupt

    model = CMTRF(**QUICK, n_scales=3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table, callback=impatient)
    assert model.n_sweeps_ == 3
    assert len(model.predict(table)) == len(table)


@pytest.mark.parametrize("n_scales", FORMS)
def test_start_goes_on_from_a_model(table, n_scales):
    first = fitted(table, n_scales=n_scales, max_sweeps=3, tol=0, dtype="float64")
    more = CMTRF(**{**QUICK, "max_sweeps": 1, "tol": 0}, n_scales=n_scales, dtype="float64").fit(table, start=first)
    assert more.objective_[0] <= first.objective_[-1] * (1 + 1e-9)
    whole = fitted(table, n_scales=n_scales, max_sweeps=4, tol=0, dtype="float64")
    assert more.objective_[0] == pytest.approx(whole.objective_[-1], rel=1e-6)


def test_start_matches_by_id(table):
    """From a model of a table with other ids before, between and behind these: the same as from one of this table."""
    more = pl.DataFrame({"user": ["a", "u07x", "z"] * 2, "item": [1, 115, 999] * 2, "rating": [1, 2, 3, 4, 5, 1]})
    own = fitted(table, n_scales="user", max_sweeps=3, tol=0)
    wide = fitted(pl.concat([table, more.unique(["user", "item"])]), n_scales="user", max_sweeps=3, tol=0)
    known = np.isin(wide.users_, own.users_), np.isin(wide.items_, own.items_)
    once = {**QUICK, "n_scales": "user", "max_sweeps": 1, "tol": 0}
    first = CMTRF(**once).fit(table, start=wide)
    # the same start, written into a model of this very table
    same = pickle.loads(pickle.dumps(own))
    same._model = replace(
        own._model,
        user_factors=wide.user_factors_[known[0]],
        item_factors=wide.item_factors_[known[1]],
        scales=wide.scales_[known[0]],
        parent_scale=wide._model.parent_scale,
    )
    same_bits(first, CMTRF(**once).fit(table, start=same))
    assert not np.array_equal(first.objective_, CMTRF(**once).fit(table, start=own).objective_)


@pytest.mark.parametrize("form", FORMS)
def test_start_of_any_form_gives_the_scale_of_all_as_parent(form):
    """Not the given levels: a user of a single level has the scale of all, and the objective ends where it should."""
    users, items, levels, _ = planted(np.random.default_rng(0), N=120, M=60)
    users, items, ratings = np.append(users, [120, 120]), np.append(items, [0, 1]), np.append(levels, [4, 4]) + 1
    parameters = {"rank": 2, "lambda_u": 1.0, "lambda_v": 1.0, "random_state": 0}
    fresh = CMTRF(n_scales="user", **parameters).fit((users, items, ratings))
    earlier = CMTRF(n_scales=form, **parameters).fit((users, items, ratings))
    again = CMTRF(n_scales="user", **parameters).fit((users, items, ratings), start=earlier)
    assert again.objective_[-1] == pytest.approx(fresh.objective_[-1], rel=1e-3)
    np.testing.assert_allclose(again.scales_[120], fresh.scales_[120], atol=0.05)


def test_a_larger_margin_holds_from_the_start(table):
    first = fitted(table, n_scales=1)
    wider = CMTRF(**QUICK, n_scales="user", margin=0.8).fit(table, start=first)
    assert np.diff(wider._model.parent_scale).min() >= 0.8 - 1e-9


def test_clusters_start_from_k_means_on_the_scales_of_n_cmtrf(table, monkeypatch):
    """What the last phase is given: centres of the users' scales, each user at the nearest."""
    phases = []

    def spy(problem, solver, state, **named):
        outcome = drive(problem, solver, state, **named)
        phases.append((problem, state, outcome.state))
        return outcome

    monkeypatch.setattr("cmtrf.fitting.drive", spy)
    fitted(table, n_scales=3)
    assert [problem.n_scales for problem, *_ in phases] == [1, "user", 3]
    (_, _, one), (second, begun, each), (_, state, _) = phases
    np.testing.assert_array_equal(second.margin.parent, one.X[0])
    np.testing.assert_array_equal(begun.X, np.tile(one.X, (60, 1)))
    distance = ((each.X[:, None, :] - state.X) ** 2).sum(2)
    np.testing.assert_array_equal(state.z, distance.argmin(1))
    for k in range(3):
        np.testing.assert_allclose(state.X[k], each.X[(state.z == k) & ~second.lone].mean(0), atol=1e-9)
    np.testing.assert_array_equal(state.V, each.V)


def test_start_changes_the_form(table):
    half = table.filter(pl.col("user") < "u40")
    per_user = fitted(half, n_scales="user")
    same = CMTRF(**{**QUICK, "max_sweeps": 1, "tol": 0}, n_scales=3).fit(table, start=per_user)
    cold = CMTRF(**{**QUICK, "max_sweeps": 1, "tol": 0}, n_scales=3).fit(table)
    assert same.scales_.shape == (3, 5)
    assert np.isfinite(same.objective_).all()
    assert np.isfinite(cold.objective_).all()
    for n_scales in FORMS:
        CMTRF(**QUICK, n_scales=n_scales).fit(table, start=same)
    with pytest.raises(ParameterError, match="rank"):
        CMTRF(**{**QUICK, "rank": 3}).fit(table, start=same)
    with pytest.raises(ParameterError, match="levels"):
        CMTRF(**QUICK, levels=[0, 1, 2, 3, 4, 5]).fit(table, start=same)
    with pytest.raises(ParameterError, match=r"cmtrf\.load"):
        CMTRF(**QUICK).fit(table, start="model.cmtrf")
    with pytest.raises(ParameterError, match="knows none"):
        CMTRF(**{**QUICK, "n_scales": 1}, levels=[1, 2, 3, 4, 5]).fit(([1, 2], [1, 2], [1, 2]), start=same)


# ---- answers


def test_predict_is_the_inverse_of_the_score(table):
    model = fitted(table, n_scales=3)
    rows = table.head(50)
    user = np.searchsorted(model.users_.astype(str), rows["user"].to_numpy().astype(str))
    item = np.searchsorted(model.items_, rows["item"])
    scores = (model.user_factors_[user] * model.item_factors_[item]).sum(1)
    expected = [
        np.interp(s, model.scales_[model.user_scale_[u]], model.levels_) for s, u in zip(scores, user, strict=True)
    ]
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-5)


def test_ids_never_seen(table):
    model = fitted(table)
    pairs = (["u00", "nobody", "u00", "nobody"], [100, 100, 999, 999])
    known, new_user, new_item, both = model.predict(pairs)
    rating = table["rating"]
    total, own, other = rating.mean(), rating.filter(table["user"] == "u00"), rating.filter(table["item"] == 100)
    assert known == model.predict((["u00"], [100]))[0]
    assert new_item == pytest.approx((own.sum() + 3 * total) / (len(own) + 3))
    assert new_user == pytest.approx((other.sum() + 3 * total) / (len(other) + 3))
    assert both == pytest.approx(total)
    answer = model.predict_table(pairs)
    assert answer["fallback"].to_list() == [None, "unknown user", "unknown item", "unknown user and item"]
    assert answer.columns == ["user", "item", "prediction", "fallback"]
    nan = clone(model).set_params(unknown="nan").fit(table).predict(pairs)
    assert np.isnan(nan).tolist() == [False, True, True, True]
    with pytest.raises(UnknownIdError, match=r"row 1.*'nobody'"):
        clone(model).set_params(unknown="raise").fit(table).predict(pairs)


def test_frames_come_back_as_they_came(table):
    model = fitted(table)
    frames = {pl.DataFrame: table, pd.DataFrame: table.to_pandas(), type(table.to_arrow()): table.to_arrow()}
    for kind, given in frames.items():
        assert isinstance(model.predict_table(given), kind)
        again = CMTRF(**QUICK).fit(given)
        for answer in (again.recommend(["u00"]), again.scales(), again.user_scales(), again.similar_items(100)):
            assert isinstance(answer, kind)
    arrays = CMTRF(**QUICK).fit((table["user"].to_list(), table["item"].to_numpy(), table["rating"].to_numpy()))
    assert isinstance(arrays.scales(), pl.DataFrame)


def test_recommend(table):
    model = fitted(table)
    best = model.recommend(["u03", "u07"], n=4)
    assert best.columns == ["user", "item", "rank", "rating"]
    assert best["user"].to_list() == ["u03"] * 4 + ["u07"] * 4
    assert best["rank"].to_list() == [1, 2, 3, 4] * 2
    seen = set(table.filter(pl.col("user") == "u03")["item"])
    unseen = [i for i in model.items_.tolist() if i not in seen]
    order = np.argsort(-model.predict((["u03"] * len(unseen), unseen)), kind="stable")
    own = best.filter(pl.col("user") == "u03")
    np.testing.assert_allclose(own["rating"], model.predict((["u03"] * len(unseen), unseen))[order[:4]], atol=1e-5)
    assert not set(own["item"]) & seen
    assert len(model.recommend("u03", n=1000, exclude_seen=False)) == 30
    assert set(model.recommend(["u03"], candidates=unseen[:2])["item"]) == set(unseen[:2])
    first = own["item"][0]
    assert first not in model.recommend(["u03"], exclude=[first])["item"].to_list()
    pairs = model.recommend(["u03", "u07"], n=30, exclude_seen=False, exclude=(["u03"], [first]))
    assert first not in pairs.filter(pl.col("user") == "u03")["item"].to_list()
    assert first in pairs.filter(pl.col("user") == "u07")["item"].to_list()
    assert model.recommend(n=1)["user"].to_list() == model.users_.tolist()
    with pytest.warns(DataWarning, match="1 of 2 candidates.*999"):
        model.recommend(["u03"], candidates=[100, 999])
    for n in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="n="):
            model.recommend(n=n)
        with pytest.raises(ParameterError, match="n="):
            model.similar_items(100, n=n)


def test_recommend_takes_what_a_user_would_pass(table):
    model = fitted(table)
    first = model.recommend("u03", n=1)["item"][0]
    pairs = [
        {"user": ["u03"], "item": [first]},
        [("u03", first)],
        np.array([["u03", first]], dtype=object),
        pd.DataFrame({"user": ["u03"], "item": [first]}),
    ]
    for exclude in ([first], (first,), np.array([first]), *pairs):
        assert first not in model.recommend("u03", n=30, exclude=exclude)["item"].to_list()
    assert first in model.recommend("u07", n=30, exclude_seen=False, exclude=pairs[0])["item"].to_list()
    two = tuple(model.items_[:2])
    assert not set(two) & set(model.recommend("u03", n=30, exclude_seen=False, exclude=two)["item"])
    best = model.recommend("nobody", n=1)["item"][0]
    left = model.recommend(["u03", "nobody"], n=30, exclude=(["nobody"], [best]))
    assert best not in left.filter(pl.col("user") == "nobody")["item"].to_list()
    seen = pl.DataFrame({"user": ["u03"], "item": [first]})
    for exclude in (seen.lazy(), seen.to_pandas().to_records(index=False), (["u03"], [first], [5])):
        assert first not in model.recommend("u03", n=30, exclude=exclude)["item"].to_list()
    for nothing in (seen.head(0), seen.head(0).to_pandas(), ([], []), {"user": [], "item": []}):
        assert model.recommend("u03", exclude=nothing).equals(model.recommend("u03"))
    assert model.recommend([]).schema == model.recommend("u03").schema
    for nothing in ([], np.array([]), pl.Series([], dtype=pl.String)):
        assert model.recommend("u03", exclude=nothing).equals(model.recommend("u03"))
        assert len(model.recommend(nothing)) == len(model.recommend("u03", candidates=nothing)) == 0
    assert model.recommend(["u03", "u07", "u03"], n=2)["user"].to_list() == ["u03", "u03", "u07", "u07"]
    with pytest.raises(ParameterError, match="one item"):
        model.similar_items([100, 101])


def test_recommend_to_someone_new_is_by_mean_rating(table):
    model = fitted(table)
    best = model.recommend(["nobody"], n=30)
    expected = model.predict((["nobody"] * 30, best["item"].to_list()))
    np.testing.assert_allclose(best["rating"], expected)
    assert (np.diff(best["rating"]) <= 0).all()
    with pytest.raises(UnknownIdError, match="nobody"):
        clone(model).set_params(unknown="raise").fit(table).recommend(["nobody"])


def test_similar_items(table):
    model = fitted(table)
    answer = model.similar_items(104, n=5)
    V = model.item_factors_.astype(float)
    cosine = V @ V[4] / np.linalg.norm(V, axis=1) / np.linalg.norm(V[4])
    cosine[4] = -2
    assert answer["item"].to_list() == model.items_[np.argsort(-cosine)[:5]].tolist()
    np.testing.assert_allclose(answer["similarity"], np.sort(cosine)[::-1][:5], atol=1e-6)
    with pytest.raises(UnknownIdError, match="999"):
        model.similar_items(999)


def test_scales_are_tidy(table):
    model = fitted(table, n_scales=3)
    tidy = model.scales()
    assert tidy.columns == ["scale", "level", "position", "low", "high", "n_users", "n_ratings"]
    np.testing.assert_array_equal(tidy["position"].to_numpy().reshape(3, 5), model.scales_)
    assert tidy["low"].null_count() == 15
    assert tidy["low"].dtype == tidy["high"].dtype == pl.Float64
    assert tidy["n_ratings"].sum() == len(table)
    np.testing.assert_array_equal(tidy["n_users"].to_numpy()[::5], np.bincount(model.user_scale_, minlength=3))
    per_user = fitted(table, n_scales="user")
    types = per_user.scales(types=2)
    assert len(types) == 10
    assert types["n_ratings"].sum() == len(table)
    assert types["n_users"].to_numpy()[::5].sum() == 60
    assert (types["low"] <= types["position"] + 1e-9).all()
    assert (types["position"] <= types["high"] + 1e-9).all()
    with pytest.raises(ParameterError, match="types"):
        per_user.scales(types=0)


def test_worded_levels_keep_their_words():
    words = ["poor", "fair", "good"]
    rng = np.random.default_rng(0)
    pairs = rng.permutation(200)[:120]
    users, items, codes = pairs // 20, pairs % 20, rng.integers(0, 3, 120)
    ratings = [words[c] for c in codes]
    model = CMTRF(**QUICK, n_scales=1, levels=words).fit((users, items, ratings))
    assert model.levels_.tolist() == words
    assert model.scales()["level"].to_list() == words
    numbers = CMTRF(**QUICK, n_scales=1).fit((users, items, codes + 1))
    np.testing.assert_array_equal(model.predict((users, items)), numbers.predict((users, items)))
    assert model.score((users, items), ratings) == numbers.score((users, items), codes + 1)


def test_what_is_not_there_yet_says_what_to_pass(table):
    for parameters in ({"inverse": "calibrated"}, {"lambda_u": "auto", "lambda_v": "auto"}, {"divergence": "kl"}):
        with pytest.raises(ParameterError, match=r"not in this version yet: (pass|leave)"):
            fitted(table, **parameters)
    model = fitted(table)
    with pytest.raises(UnavailableError, match='kind="mean"'):
        model.predict(table, kind="median")
    with pytest.raises(UnavailableError, match="use predict"):
        model.predict_table(table, proba=True)
    for name in ("predict_proba", "predict_interval"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"{name} needs inverse"):
            getattr(model, name)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_scales": "all"}, "n_scales='all'.*\"fixed\""),
        ({"n_scales": 0}, "n_scales"),
        ({"n_scales": True}, "n_scales"),
        ({"rank": -1}, "rank"),
        ({"rank": 2.5}, "rank"),
        ({"lambda_u": -1}, "lambda_u"),
        ({"lambda_v": np.nan}, "lambda_v"),
        ({"lambda_bias": (1, 2, 3)}, "lambda_bias"),
        ({"margin": [1, 2]}, "margin"),
        ({"bias": "yes"}, "bias"),
        ({"solver": "newton"}, "solver='newton': pass one of 'auto', 'alternating', 'joint'"),
        ({"duplicates": "sum"}, "duplicates"),
        ({"unknown": "guess"}, "unknown"),
        ({"dtype": "float16"}, "dtype"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"tol": -1}, "tol"),
        ({"shrinkage": "much"}, "shrinkage"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"levels": [3, 2, 1]}, "levels"),
        ({"random_state": "seven"}, "random_state"),
    ],
)
def test_impossible_parameters_are_named(table, parameters, words):
    with pytest.raises(ValueError, match=words):
        CMTRF(**{**QUICK, **parameters}).fit(table)


# ---- as a scikit-learn estimator


def xy(table):
    codes = np.unique(table["user"].to_numpy(), return_inverse=True)[1]
    return np.column_stack([codes, table["item"].to_numpy()]), table["rating"].to_numpy()


def test_promises_of_an_estimator(table):
    X, y = xy(table)
    model = CMTRF(**QUICK)
    assert vars(model) == model.get_params(), "nothing else is set in __init__"
    with pytest.raises(NotFittedError, match="call fit"):
        model.predict(X)
    before = X.copy(), y.copy()
    assert model.fit(X, y) is model
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert model.n_features_in_ == 2
    same_bits(model, clone(model).fit(X, y))
    same_bits(model, model.fit(X, y))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).set_params(rank=5).get_params()["rank"] == 5
    with pytest.raises(DataError):
        model.fit(table, y)


def test_a_frame_of_pairs_and_ratings_beside_it(table):
    X, y = xy(table)
    frame = pd.DataFrame(X, columns=["who", "what"])
    same_bits(CMTRF(**QUICK).fit(X, y), CMTRF(**QUICK).fit(frame, pd.Series(y)))


def test_sparse_and_triples_agree(table):
    X, y = xy(table)
    matrix = sparse.coo_array((y, (X[:, 0], X[:, 1])))
    same_bits(CMTRF(**QUICK).fit(matrix), CMTRF(**QUICK).fit((X[:, 0], X[:, 1], y)))


def test_grid_search_cross_validation_and_pipeline(table):
    users, items, levels, _ = planted(np.random.default_rng(1), N=100, M=60, share=0.5)
    shuffled = np.random.default_rng(0).permutation(len(users))  # folds of whole users would all be new
    X, y = np.column_stack([users, items])[shuffled], levels[shuffled]
    search = GridSearchCV(CMTRF(**QUICK), {"n_scales": [1, 2], "rank": [0, 2]}, cv=3).fit(X, y)
    assert search.best_params_["rank"] == 2
    assert search.best_score_ > 0.3
    assert cross_val_predict(CMTRF(**QUICK), X, y, cv=3).shape == y.shape
    pipeline = Pipeline([("same", FunctionTransformer()), ("model", CMTRF(**QUICK))]).fit(X, y)
    np.testing.assert_array_equal(pipeline.predict(X), CMTRF(**QUICK).fit(X, y).predict(X))
    GridSearchCV(CMTRF(rank=1, random_state=0), {"lambda_u": [1.0, 3.0]}, cv=2, n_jobs=2).fit(X, y)


# ---- files


def test_a_saved_model_answers_as_before(table, tmp_path):
    model = fitted(table, n_scales=3)
    model.save(tmp_path / "model.cmtrf")
    again = cmtrf.load(tmp_path / "model.cmtrf")
    assert again.get_params() == model.get_params()
    same_bits(model, again)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.recommend(["u05"]).equals(model.recommend(["u05"]))
    assert again.user_scales().equals(model.user_scales())
    assert again.converged_ == model.converged_
    assert again.n_sweeps_ == model.n_sweeps_
    model.set_params(unknown="nan").save(tmp_path / "model.cmtrf")
    assert cmtrf.load(tmp_path / "model.cmtrf").unknown == "nan", "the parameters of today"
    same_bits(CMTRF(**QUICK, n_scales=3).fit(table, start=again), CMTRF(**QUICK, n_scales=3).fit(table, start=model))


def test_columns_of_the_training_table_are_found_again(table, tmp_path):
    named = table.rename({"user": "reader", "item": "thing"})
    parameters = {**QUICK, "n_scales": 2}
    model = CMTRF(**parameters).fit(named, user="reader", item="thing")
    assert model.columns_ == {"user": "reader", "item": "thing", "rating": "rating"}
    expected = model.predict((named["reader"], named["thing"]))
    named.write_csv(tmp_path / "named.csv")
    model.save(tmp_path / "model.cmtrf")
    for fit in (model, cmtrf.load(tmp_path / "model.cmtrf")):
        for given in (named, named.to_pandas(), named.to_arrow(), named.lazy(), tmp_path / "named.csv"):
            np.testing.assert_array_equal(fit.predict(given), expected)
    np.testing.assert_array_equal(model.predict(table), expected)
    assert model.score(named) == model.score(table)


def test_impossible_parameters_in_a_file_are_refused(table, tmp_path):
    model = fitted(table).set_params(unknown="guess")
    with pytest.raises(ParameterError, match="unknown='guess'"):
        model.save(tmp_path / "model.cmtrf")
    save_model(model._model, tmp_path / "forged.cmtrf", model.get_params(), {})
    with pytest.raises(cmtrf.errors.ModelFileError, match="unknown='guess'"):
        cmtrf.load(tmp_path / "forged.cmtrf")


def test_a_wrong_value_set_after_the_fit_is_named(table):
    model = fitted(table).set_params(unknown="rasie")
    for answer in (model.predict, lambda rows: model.recommend(["u00"])):
        with pytest.raises(ParameterError, match="unknown='rasie'"):
            answer(table)


def test_score_minds_weights_and_refuses_what_fit_refuses(table):
    model = fitted(table)
    weight = np.random.default_rng(0).uniform(0, 2, len(table))
    X, y = table.select("user", "item"), table["rating"]
    assert model.score(table) == model.score(X, y) != model.score(X, y, sample_weight=weight)
    named = table.with_columns(pl.Series("w", weight))
    assert model.score(named, weight="w") == model.score(X, y, sample_weight=weight)
    with pytest.raises(DataError, match="both y and a rating column"):
        model.score(table, y)
    with pytest.raises(UnavailableError, match='unknown="nan"'):
        clone(model).set_params(unknown="nan").fit(table).score((["u00", "nobody"], [100, 100]), [1, 2])


def test_what_came_beside_the_table_is_no_column_of_it(table):
    X = table.rename({"rating": "y"})
    model = CMTRF(**QUICK).fit(X, X["y"], sample_weight=np.ones(len(X)))
    assert model.columns_ == {"user": "user", "item": "item"}
    weighted = X.with_columns(sample_weight=pl.Series(np.linspace(0, 2, len(X))))
    assert model.score(X, X["y"]) == model.score(weighted, X["y"])


def test_score_looks_at_neither_times_nor_rows_of_weight_0(table):
    model = fitted(table).set_params(unknown="nan")
    timed = table.with_columns(date=pl.lit("2020-01-01"), time=pl.lit(1))
    assert model.score(timed) == model.score(timed, timestamp="time") == model.score(table)
    new = pl.concat([table, pl.DataFrame({"user": ["nobody"], "item": [1], "rating": [5]})])
    assert model.score(new, sample_weight=[1] * len(table) + [0]) == model.score(table)
    with pytest.raises(DataError, match="'good' is a word"):
        model.score(table.with_columns(rating=pl.lit("good")))


def test_strangers_are_told(table, caplog):
    model = fitted(table)
    model.predict(([3], [100]))
    assert "none of the users was in the training table (3 is the first here, 'u00' there)" in caplog.text
    caplog.clear()
    model.predict((["u00", "nobody"], [100, 100]))
    assert caplog.text == ""
    model.recommend("u00", exclude=["100", "101"])
    assert "none of the items was in the training table ('100' is the first here, 100 there)" in caplog.text
    caplog.clear()
    model.recommend(["nobody", "u00"])
    assert "1 of 2 users were not in the training table, the first is 'nobody'" in caplog.text


def test_factors_that_shrank_to_nothing_are_told(table, caplog):
    fitted(table, lambda_u=100.0, lambda_v=100.0)
    assert "factors have shrunk to nothing" in caplog.text
