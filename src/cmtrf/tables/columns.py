"""Which column of a table is what: named by the caller, or found by a usual name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from cmtrf.errors import DataError, ParameterError
from cmtrf.tables.sources import ROLES, Source
from cmtrf.vocabulary import Place

# Usual names, in lower case and without "_", "-", "." and blanks; one of the first group wins over one of the
# second. Of users and items also the name with "id" behind it.
USUAL = {
    "user": (
        "user uid",
        "username users reviewer rater worker annotator customer judge assessor member reader listener "
        "person participant profile",
    ),
    "item": (
        "item iid",
        "items movie film book product business song track artist album show anime game recipe restaurant "
        "beer place venue article paper joke task question document image gmap asin isbn",
    ),
    "rating": (
        "rating ratings",
        "score scores star stars grade label overall vote response judgment judgement preference userrating "
        "bookrating movierating ratingvalue reviewscore",
    ),
    "timestamp": (
        "timestamp ts",
        "time date datetime unixtime unixreviewtime ratedat createdat ratingdate",
    ),
}


class ColumnNames(TypedDict, total=False):
    """Names of columns, where they are not the usual ones: what every function that reads a table takes."""

    user: str | None
    item: str | None
    rating: str | None
    timestamp: str | None
    weight: str | None


def check_names(names: Mapping[str, object]) -> None:
    """Refuse a keyword that is no role of a column."""
    for name in names:
        if name not in ColumnNames.__annotations__:
            known = ", ".join(ColumnNames.__annotations__)
            raise TypeError(f"unexpected argument {name!r}; columns are named by {known}")


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table that play a role, checked, as plain arrays of equal length."""

    user: NDArray[Any]  # (n,) int64, float64 or object (str)
    item: NDArray[Any]  # (n,) the same
    rating: NDArray[Any] | None  # (n,) float64, or object (str) where ratings are words
    timestamp: NDArray[np.float64] | None  # (n,) NaN where missing; dates are seconds since 1970
    weight: NDArray[np.float64] | None  # (n,) finite, >= 0
    words: tuple[str, ...] | None  # order of an ordered categorical rating column, lowest first
    names: Mapping[str, str]  # role -> the caller's column name
    kind: str | None  # "pandas", "polars", "pyarrow"; None for NumPy, sparse, a path
    source: str  # what the table is called in messages
    where: Place = field(repr=False)  # row -> "row 17 of the table", "line 18 of ratings.csv"
    beside: frozenset[str] = frozenset()  # roles whose values came beside the table, as y or sample_weight
    untyped: bool = False  # the ids were texts in a file: 12 may stand for the id "12"

    def __len__(self) -> int:
        return len(self.user)

    def keep(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows; messages still number them as the table does."""
        number = np.arange(len(self))[rows]
        parts = {role: getattr(self, role) for role in ("user", "item", "rating", "timestamp", "weight")}
        kept: dict[str, Any] = {role: None if part is None else part[number] for role, part in parts.items()}
        return replace(self, **kept, where=lambda row: self.where(int(number[row])))

    def digest(self) -> str:
        """Digest of everything that a fit sees, to tell whether two tables are the same."""
        total = hashlib.sha256()
        for role in ("user", "item", "rating", "timestamp", "weight"):
            part = getattr(self, role)
            total.update(f"{role} {None if part is None else part.dtype.kind} ".encode())
            if part is not None:
                total.update(
                    "\0".join(part).encode() if part.dtype.kind == "O" else np.ascontiguousarray(part).tobytes()
                )
        total.update(repr(self.words).encode())
        return total.hexdigest()

    def place(self, role: str, row: int) -> str:
        """Say which cell of the table is meant."""
        return f"column {self.names[role]!r}, {self.where(row)}"


def find_columns(
    source: Source,
    asked: Mapping[str, str | None],
    hints: Mapping[str, str],
    *,
    extra_ratings: bool,
    rated: bool,
) -> dict[str, int]:
    """Return role -> position of its column; what cannot be told is an error that says what to pass."""
    names = source.names
    at = {role: find_named(names, role, name) for role, name in asked.items() if name is not None}
    for role, name in hints.items():
        if role in asked and role not in at and name in names and names.index(name) not in at.values():
            at[role] = names.index(name)
    for role, position in at.items():
        if list(at.values()).count(position) > 1:
            raise ParameterError(f"column {names[position]!r} is named twice, once as {role}=")
    for role in ROLES:
        if role in asked and role not in at:
            at |= _usual(names, role, set(at.values()))
    if not {"user", "item"} & at.keys() and len(names) == 2 and (extra_ratings or not rated):
        at = {"user": 0, "item": 1, **at}  # scikit-learn passes such tables; their columns may have any names
    if extra_ratings and "rating" in at:
        raise DataError(f"both y and a rating column {names[at['rating']]!r} are given; pass one of them")
    for role in ("user", "item"):
        if role not in at:
            there = _say_columns(names)
            taken = [f"{name!r} is named as the {other}" for other, name in asked.items() if name is not None]
            there += f" ({', '.join(taken)})" if taken else ""
            raise DataError(f"{source.title} has no {role} column; {there}; pass {role}='<column>'")
    if rated and not extra_ratings and "rating" not in at:
        raise DataError(
            f"{source.title} has no rating column; {_say_columns(names)}; pass rating='<column>', or the "
            "ratings as y (fitting requires y to be passed, but the target y is None)"
        )
    return at


def find_named(names: Sequence[str], role: str, name: str) -> int:
    """Return the position of the column that the caller named."""
    matches = [k for k, there in enumerate(names) if there == str(name)]
    matches = matches or [k for k, there in enumerate(names) if there.strip() == str(name).strip()]
    if not matches:
        raise DataError(f"there is no column {name!r}; {_say_columns(names)}; pass one of them as {role}=")
    if len(matches) > 1:
        raise DataError(f"there are {len(matches)} columns {name!r}; give them distinct names")
    return matches[0]


def _usual(names: Sequence[str], role: str, taken: set[int]) -> dict[str, int]:
    endings = ("", "id") if role in ("user", "item") else ("",)
    plain = [name.lower().translate(str.maketrans("", "", "_-. ")) for name in names]
    for group in USUAL[role]:
        usual = {name + ending for name in group.split() for ending in endings}
        found = [k for k, name in enumerate(plain) if name in usual and k not in taken]
        if len(found) > 1:
            which = " or ".join(repr(names[position]) for position in found)
            raise DataError(f"the {role} column could be {which}; pass {role}= to say which it is")
        if found:
            return {role: found[0]}
    return {}


def _say_columns(names: Sequence[str]) -> str:
    return "the columns are " + ", ".join(map(repr, names)) if names else "there are no columns"
