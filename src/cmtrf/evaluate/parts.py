"""What a table is and how it is split, from what the caller says of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cmtrf import splits
from cmtrf.datasets.known import KNOWN, open_known, recognize
from cmtrf.encode import encode, number_ratings, settle_rows
from cmtrf.errors import DataError, MissingFileError, ParameterError
from cmtrf.splits import Split
from cmtrf.splits.protocol import PAPER
from cmtrf.tables.columns import ColumnNames
from cmtrf.tables.reading import column_names, read, read_column

log = logging.getLogger("cmtrf")

SPLITS = ("auto", "chronological", "uniform", "user", "published", "paper")


def open_table(table: Any, known_set: str | None, split: str) -> tuple[Any, dict[str, Any]]:
    """Return the table, and what is known of it: the name of the set, its release, the files that were read.

    An archive or a folder of a known set is loaded; what has a path and is neither is a file of the caller's own.
    """
    if known_set is not None and known_set not in KNOWN:
        raise ParameterError(f"there is no set {known_set!r}; there are {', '.join(KNOWN)}")
    if not isinstance(table, (str, Path)):
        return table, {"set": known_set, "release": None, "files": []}
    path = Path(table)
    if not path.exists():
        raise MissingFileError(f"there is no file {path}")
    holds_files = path.is_dir() or path.suffix.lower() == ".zip"
    if known_set is None and (holds_files or split == "paper"):  # that split is only of known sets, under any name
        known_set = recognize(path)
        if known_set is None and holds_files:
            raise DataError(
                f"{path} is no archive or folder of a set that is known by its files; pass the file of ratings in it, "
                "or say which set it is"
            )
    if known_set is None:
        return table, {"set": None, "release": None, "files": [str(path)]}
    opened = open_known(known_set, path)
    return opened.table, {"set": opened.name, "release": opened.release, "files": list(opened.files)}


def split_table(
    table: Any,
    test: Any,
    split: str,
    test_share: float,
    known_set: str | None,
    duplicates: str,
    names: ColumnNames,
) -> Split:
    """Split a table, repeated pairs settled before; in the paper's own sets its rules settle them."""
    if split not in SPLITS:
        raise ParameterError(f"split={split!r}: pass one of {', '.join(map(repr, SPLITS))}")
    if test is not None:
        if split != "auto":
            raise ParameterError(f"split={split!r} and a test part of its own: pass one of them")
        return splits.given(table, test, duplicates=duplicates, **names)
    if split == "paper":
        if known_set is None:
            raise ParameterError(
                f"the paper's split is that of its own sets ({', '.join(PAPER)}): say which one the table is, or pass "
                "another split"
            )
        return splits.paper(table, known_set)
    if split == "published" or (split == "auto" and _has_parts(table)):
        return splits.published(table, duplicates=duplicates, **names)
    columns = read(table, **names)
    columns = columns.keep(settle_rows(columns, duplicates))
    if split == "auto":
        split = "uniform" if columns.timestamp is None else "chronological"
    if split == "uniform":
        return splits.uniform(columns, test_share)
    return (splits.chronological if split == "chronological" else splits.user_wise)(columns, test_share)


def _has_parts(table: Any) -> bool:
    """Whether there is a column ``part`` that speaks of train and test."""
    return "part" in column_names(table) and {"train", "test"} <= set(read_column(table, "part").tolist())


def validation_of(split: Split) -> Split:
    """The part of train that choices are made on, cut as the test part was; uniformly where that leaves nothing."""
    try:
        validation = split.validation()
    except DataError as error:  # nobody has enough ratings for a share of them, or all that is left is cold
        reason = str(error)
    else:
        if not validation.cold.all():
            return validation
        reason = "every row of it is cold, so that it cannot tell one setting from another"
    log.warning("the validation part is cut uniformly, not as the test part was: %s", reason)
    try:
        return replace(splits.uniform(split.train_columns, 0.1), is_validation=True)
    except DataError:
        raise DataError(
            f"{len(split.train_columns)} train rows are too few to choose anything on a tenth of them; judge on more"
        ) from None


def check_ratings(split: Split, levels: Any, duplicates: str) -> None:
    """Refuse ratings that no model could be fitted to or judged by, before time is spent on it."""
    grid = encode(split.train_columns, levels=levels, duplicates=duplicates).grid
    try:
        number_ratings(split.test_columns, grid)
    except DataError as error:
        raise DataError(f"in the test part, {error}") from None


def describe(split: Split, origin: Mapping[str, Any]) -> dict[str, Any]:
    """What was split and how, for the record."""
    train, test = split.train_columns, split.test_columns
    return {
        **origin,
        "columns": dict(train.names),
        "train_users": len(np.unique(train.user)),
        "train_items": len(np.unique(train.item)),
        "split": split.name,
        "n_train": len(train),
        "n_test": len(test),
        "n_cold": int(split.cold.sum()),
        "n_left_out": split.left_out,
        "digest": f"{train.digest()}{test.digest()}",
    }
