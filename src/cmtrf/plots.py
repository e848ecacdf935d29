"""Pictures of fitted models, with the extra ``plot``; every picture has a tidy table behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cmtrf.estimators import CMTRF

if TYPE_CHECKING:  # matplotlib is an extra, so it is imported where a picture is drawn
    from matplotlib.axes import Axes

MOST_CURVES = 12  # a model with more scales is drawn by types
TYPES = 4
MOST_INSIDE = 5  # curves whose legend fits into the picture
MOST_TICKS = 12  # more levels than this, and only some are labelled

# Okabe and Ito's colours, without the yellow that is faint on white. Markers and dashes work in grey too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":")


def scales(model: CMTRF, types: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw where the rating levels lie on a model's scales: one curve a scale.

    Across are the levels as they are given, upwards their learned positions. The legend says how many
    users have each scale, in the order in which the curves end on the right.

    Parameters
    ----------
    model : CMTRF
        A fitted model.
    types : int, optional
        Group the users' own scales by k-means first, and draw the centres of so many types with a band
        from the lowest to the highest position within each. A model with more than 12 scales is drawn
        with ``types=4`` unless told otherwise.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new pyplot figure if not given, which ``plt.show()`` and ``plt.savefig(path)`` know.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn into.

    See Also
    --------
    cmtrf.CMTRF.scales : the table behind this picture, with the same ``types``.

    Examples
    --------
    >>> from cmtrf import CMTRF, plots
    >>> from cmtrf.datasets import load_demo
    >>> model = CMTRF(n_scales=3, rank=2, random_state=0).fit(load_demo())
    >>> axes = plots.scales(model)
    >>> axes.get_xlabel(), len(axes.get_lines())
    ('rating', 3)
    """
    check_is_fitted(model)
    if types is None and len(model.scales_) > MOST_CURVES:
        types = TYPES
    table = model.scales(types)
    columns = {name: np.asarray(table[name]) for name in ("scale", "level", "position", "low", "high", "n_users")}
    axes = _new_axes() if ax is None else ax
    levels = columns["level"][columns["scale"] == columns["scale"][0]]
    worded = levels.dtype.kind not in "iuf"
    across = np.arange(1.0, len(levels) + 1) if worded else levels.astype(np.float64)
    for scale in np.unique(columns["scale"]).tolist():
        rows = columns["scale"] == scale
        _draw_curve(axes, scale, across, {name: column[rows] for name, column in columns.items()}, types)
    _label(axes, across, levels, worded)
    return axes


def _draw_curve(
    axes: Axes, scale: int, across: NDArray[np.float64], curve: dict[str, NDArray[Any]], types: int | None
) -> None:
    n = int(curve["n_users"][0])
    colour, turn = COLOURS[scale % len(COLOURS)], scale // len(COLOURS)
    axes.plot(
        across,
        curve["position"],
        color=colour,
        marker=MARKERS[scale % len(MARKERS)],
        linestyle=DASHES[turn % len(DASHES)],
        linewidth=1.8,
        markersize=5,
        label=f"{'scale' if types is None else 'type'} {scale}: {n:,} user{'' if n == 1 else 's'}",
    )
    if types is not None:
        axes.fill_between(across, curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)


def _label(axes: Axes, across: NDArray[np.float64], levels: NDArray[Any], worded: bool) -> None:
    axes.set_xlabel("rating")
    axes.set_ylabel("position on the scale")
    if worded:
        tilted = sum(len(str(level)) for level in levels) > 40
        turn: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
        axes.set_xticks(across, [str(level) for level in levels], **turn)
    elif len(levels) <= MOST_TICKS:
        axes.set_xticks(across, [f"{level:g}" for level in levels])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    _name_curves(axes)


def _name_curves(axes: Axes) -> None:
    """Legend, inside where there is room for it, else above."""
    named = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    named.sort(key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    inside: dict[str, Any] = {"loc": "best"}
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 3, "fontsize": "small"}
    axes.legend(
        handles=named,
        frameon=False,
        **(inside if len(named) <= MOST_INSIDE else above),
    )


def _new_axes() -> Axes:
    """Axes in a figure of their own, small enough for its letters to be read on a telephone."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('pictures need matplotlib, which is not installed: pip install "cmtrf[plot]"') from error
    _, axes = plt.subplots(figsize=(5.0, 3.8), dpi=150, layout="constrained")
    return axes
