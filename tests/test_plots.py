from __future__ import annotations

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from cmtrf import CMTRF, plots
from cmtrf.datasets import load_demo


def fit(n_scales: int | str, kind: str = "polars", **parameters: object) -> CMTRF:
    table = load_demo().filter(load_demo()["user"] <= 150)
    if kind != "polars":
        table = table.to_pandas() if kind == "pandas" else table.to_arrow()
    return CMTRF(n_scales=n_scales, rank=2, random_state=0, tol=1e-3, **parameters).fit(table)


@pytest.fixture(scope="module")
def three() -> CMTRF:
    return fit(3)


def find_names(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_curve_a_scale(three):
    axes = plots.scales(three)
    assert len(axes.get_lines()) == 3
    for line, positions in zip(axes.get_lines(), three.scales_, strict=True):
        assert np.array_equal(line.get_xdata(), three.levels_)
        assert np.array_equal(line.get_ydata(), positions)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3", "4", "5"]
    assert not axes.collections  # no bands


def test_the_legend_counts_users_in_the_order_of_the_curves(three):
    counts = np.bincount(three.user_scale_)
    order = np.argsort(-three.scales_[:, -1])
    assert find_names(plots.scales(three)) == [f"scale {k}: {counts[k]} users" for k in order]


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_a_model_with_many_scales_is_drawn_by_types(kind):
    model = fit("user", kind)
    axes = plots.scales(model)
    assert len(axes.get_lines()) == len(axes.collections) == 4
    table = model.scales(types=4)
    assert np.array_equal(np.concatenate([line.get_ydata() for line in axes.get_lines()]), table["position"])
    assert sum(int(name.split()[2]) for name in find_names(axes)) == len(model.users_)
    assert all(name.startswith("type ") for name in find_names(axes))
    assert len(plots.scales(model, types=2).get_lines()) == 2


def test_twelve_scales_are_drawn_and_told_apart():
    model = fit(12)
    lines = plots.scales(model).get_lines()
    assert len(lines) == 12
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


def test_one_scale_and_one_user():
    one = fit(1)
    assert find_names(plots.scales(one)) == [f"scale 0: {len(one.users_)} users"]
    users = ["ann"] * 4
    model = CMTRF(n_scales=1, rank=0).fit((users, ["a", "b", "c", "d"], [1, 2, 3, 3]))
    assert find_names(plots.scales(model)) == ["scale 0: 1 user"]


def test_words_are_tick_labels():
    words = ["bad", "not bad", "good"]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"user": np.repeat(range(20), 6), "item": np.tile(range(6), 20)})
    table["rating"] = [words[level] for level in rng.integers(0, 3, len(table))]
    axes = plots.scales(CMTRF(n_scales=1, rank=1, levels=words, random_state=0).fit(table))
    assert [text.get_text() for text in axes.get_xticklabels()] == words
    assert np.array_equal(axes.get_lines()[0].get_xdata(), [1, 2, 3])


def test_given_axes_are_drawn_into(three):
    figure = Figure()
    ours = figure.subplots()
    ours.plot([1, 5], [-1, 1], label="mine")
    axes = plots.scales(three, ax=ours)
    assert axes is ours
    assert len(axes.get_lines()) == 4
    assert "mine" in find_names(axes)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_pyplot_knows_the_new_figure_and_no_setting_is_touched(three, tmp_path):
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    axes = plots.scales(three)
    assert plt.gca() is axes
    assert len(plt.get_fignums()) == len(figures) + 1
    plt.savefig(tmp_path / "scales.png")
    assert (tmp_path / "scales.png").stat().st_size > 10_000, "a blank picture is smaller"
    assert dict(mpl.rcParams) == settings


def test_not_fitted():
    with pytest.raises(NotFittedError, match="not fitted"):
        plots.scales(CMTRF())


def test_without_matplotlib(three, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "cmtrf\[plot\]"'):
        plots.scales(three)
