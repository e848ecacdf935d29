"""The paper's own splits of its eight sets, held against its table of data sets."""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cmtrf.errors import DataError, DataWarning, ParameterError
from cmtrf.splits.rules import by_row, by_text, by_time, first_of_pairs
from cmtrf.splits.split import Split, make_split, published, without_cold
from cmtrf.tables.reading import read
from cmtrf.tables.writing import take_rows
from cmtrf.vocabulary import Vocabulary

log = logging.getLogger("cmtrf")


class PaperSplit(NamedTuple):
    """How the paper split one of its sets, and the size that its table of data sets states."""

    order: str  # "time", "text" (lines sorted as text), "file" (rows as they are), "published"
    n_train: int | None  # the first so many rows in that order
    users: int
    items: int
    ratings: int
    counts_cold: bool = False  # whether the table's number of ratings counts the rows that are left out
    first_of_pair: bool = False  # of repeated pairs only the first is used
    is_hint: bool = False  # from the authors' scripts alone: their copy of the data is not to be had


PAPER: dict[str, PaperSplit] = {
    "ml-100k": PaperSplit("time", 80_000, 751, 1616, 82_863),
    "ml-100k-u": PaperSplit("published", None, 943, 1650, 100_000, counts_cold=True),
    "ml-1m": PaperSplit("text", 800_000, 5301, 3682, 901_851),
    "ml-10m": PaperSplit("text", 6_400_000, 62_007, 10_586, 6_950_602, is_hint=True),
    "goodbooks": PaperSplit("file", 4_000_000, 42_813, 9403, 4_729_637),
    "epinions": PaperSplit("file", 760_000, 77_264, 150_497, 808_690, first_of_pair=True, is_hint=True),
    "douban": PaperSplit("published", None, 2999, 3000, 136_891),
    "flixster": PaperSplit("published", None, 2307, 2945, 26_173, counts_cold=True),
}


def paper(table: Any, name: str) -> Split:
    """Split a known set as the paper did: train is the first part in its order, cold test rows are left out.

    The order is by time for ML-100K; for ML-1M and ML-10M that of the lines "timestamp user item rating" sorted as
    text, which puts ten-digit times before nine-digit ones and is not chronological; for Goodbooks and Epinions that
    of the file; the others come with a split. The size is held against the paper's table of data sets.

    Parameters
    ----------
    table : table
        What ``cmtrf.datasets.load(name, path)`` returned.
    name : {"ml-100k", "ml-100k-u", "ml-1m", "ml-10m", "goodbooks", "epinions", "douban", "flixster"}
        Which set.

    Returns
    -------
    Split
        With ``left_out`` cold rows less in test.

    Warns
    -----
    DataWarning
        If users, items or ratings are not as many as in the paper's table.
    """
    if name not in PAPER:
        raise ParameterError(f"the paper has no set {name!r}; it has {', '.join(PAPER)}: pass another split for yours")
    spec = PAPER[name]
    columns = read(table)
    if spec.first_of_pair:
        kept = first_of_pairs(columns)
        columns, table = columns.keep(kept), take_rows(table, kept, columns.keep(kept))
    if spec.order == "published":
        split = published(table)
    else:
        rule = {"time": by_time, "text": by_text, "file": by_row}[spec.order]
        assert spec.n_train is not None
        if len(columns) <= spec.n_train:
            raise DataError(
                f"the paper's split of {name} has {spec.n_train:,} train rows; this table has {len(columns):,} rows "
                "in all: it is not the set that the paper used"
            )
        is_test = rule(columns, 1 - spec.n_train / len(columns))
        split = make_split("paper", columns, is_test, rule, table, np.arange(len(columns)))
    split = without_cold(replace(split, name="paper"))
    _hold_against_table(split, name, spec)
    return split


def _hold_against_table(split: Split, name: str, spec: PaperSplit) -> None:
    """Compare with the paper's table: users and items of train, ratings of train and of the test rows that stay."""
    ratings = len(split.train_columns) + len(split.test_columns) + split.left_out * spec.counts_cold
    found = (len(Vocabulary.of(split.train_columns.user)[0]), len(Vocabulary.of(split.train_columns.item)[0]), ratings)
    told = "{:,} users, {:,} items, {:,} ratings"
    stated = (spec.users, spec.items, spec.ratings)
    if found == stated:
        log.info("%s: as in the paper's table, %s", name, told.format(*found))
        return
    why = "; what the paper used is only hinted at in its authors' scripts" if spec.is_hint else ""
    warnings.warn(
        f"{name}: {told.format(*found)}, where the paper's table has {told.format(*stated)}{why}",
        DataWarning,
        stacklevel=3,
    )
