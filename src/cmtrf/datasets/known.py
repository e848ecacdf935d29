"""Rating data that others publish: read from the files as they are published, told what they should hold."""

from __future__ import annotations

import bz2
import hashlib
import io
import logging
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cmtrf.errors import DataError, DataWarning, MissingFileError, ParameterError

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger("cmtrf")


class Counts(NamedTuple):
    """Size of a table of ratings."""

    users: int
    items: int
    ratings: int

    def __str__(self) -> str:
        return f"{self.ratings:,} ratings by {self.users:,} users of {self.items:,} items"


@dataclass(frozen=True)
class Known:
    """One published set: where it is, what it may be used for, which of its files are read and how."""

    files: tuple[str, ...]  # names of the files that are read, without folders; any one of "a|b"
    hint: str  # in the path of such a file where its name alone does not tell the set
    read: Callable[[list[bytes]], pl.DataFrame]
    where: str
    licence: str
    counts: Counts
    releases: dict[str, str] = field(default_factory=dict)  # SHA-256 of the files read -> what they are


def load(name: str, path: str | os.PathLike[str], *, drop_constant_users: bool = False) -> pl.DataFrame:
    """Load a known set of ratings from the files as they were published.

    Nothing is downloaded: the licences of most sets ask that everyone fetch their own copy. Where a file is
    missing, the error says where it is published, and under which licence.

    Parameters
    ----------
    name : {"ml-100k", "ml-100k-u", "ml-1m", "ml-10m", "goodbooks", "epinions", "douban", "flixster", \
"movietweetings"}
        Which set. ``"ml-100k-u"`` is MovieLens 100K with its own split u1. ``"douban"`` and ``"flixster"`` are the
        cuts that Monti and others published as MATLAB files; reading these needs the extra ``datasets``.
    path : path
        The published archive, a folder that holds it or its files, or the file itself.
    drop_constant_users : bool
        Leave out users whose ratings are all the same, as the paper says it did (the counts in its table of data
        sets are without that step).

    Returns
    -------
    polars.DataFrame
        Columns user, item, rating, timestamp where there is one (seconds since 1970), and part (``"train"`` or
        ``"test"``) where the publisher splits the set; rows in the order of the file. `cmtrf.splits.published`
        splits by that column.

    Warns
    -----
    DataWarning
        If the table does not have the size that its publisher states.

    Examples
    --------
    >>> from cmtrf import datasets, splits
    >>> table = datasets.load("ml-100k", "ml-100k.zip")  # doctest: +SKIP
    >>> train, test = splits.paper(table, "ml-100k")  # doctest: +SKIP
    """
    return open_known(name, path, drop_constant_users=drop_constant_users).table


class Opened(NamedTuple):
    """A set that was loaded, and what is known of the files it came from."""

    name: str
    table: pl.DataFrame
    release: str | None  # None: these bytes are not known
    files: tuple[str, ...]  # what was read


def open_known(name: str, path: str | os.PathLike[str], *, drop_constant_users: bool = False) -> Opened:
    """Load a set, and tell its release by the checksum of what was read."""
    if name not in KNOWN:
        raise ParameterError(f"there is no set {name!r}; there are {', '.join(KNOWN)}")
    known, path = KNOWN[name], Path(path)
    files = [_find_file(names, path, known, name) for names in known.files]
    contents = [_read_bytes(file) for file in files]
    digest = hashlib.sha256(b"".join(contents)).hexdigest()
    release = known.releases.get(digest)
    try:
        table = known.read(contents)
    except _unreadable() as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"{path} does not hold {name} as it is published ({known.where}): {reason or type(error).__name__}"
        ) from error
    found = Counts(table["user"].n_unique(), table["item"].n_unique(), table.height)
    log.info("%s: %s; %s", name, found, release or "not a release that is known by its checksum")
    if release is None and found != known.counts:
        warnings.warn(
            f"{path} has {found}; {name} was published with {known.counts}: it is a part of it or another release, "
            "or was not fetched whole",
            DataWarning,
            stacklevel=3,
        )
    if drop_constant_users:
        table = _drop_constant(table)
    return Opened(name, table, release, tuple(map(str, files)))


def recognize(path: str | os.PathLike[str]) -> str | None:
    """Name of the known set that an archive or a folder holds, None if it holds none; several are an error."""
    files = list(_list(Path(path)))
    found = [
        name
        for name, known in KNOWN.items()
        if all(any(_matches(file, names, known.hint) for file in files) for names in known.files)
    ]
    if len(found) > 1 and found != ["ml-100k", "ml-100k-u"]:  # the same archive, and the first is the whole of it
        raise ParameterError(f"{path} holds {' and '.join(found)}: say which of them is meant")
    return found[0] if found else None


def _drop_constant(table: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    kept = table.filter(pl.col("rating").n_unique().over("user") > 1)
    left_out = table["user"].n_unique() - kept["user"].n_unique()
    log.info("%d users whose ratings are all the same are left out, with %d rows", left_out, table.height - kept.height)
    return kept


# Finding the files ------------------------------------------------------------------------------------------


class File(NamedTuple):
    """A file, or an entry of an archive."""

    place: Path  # the folder or the archive that holds it
    inside: str  # its path below that, beginning with the name of the place

    @property
    def name(self) -> str:
        """Its name without folders."""
        return self.inside.rpartition("/")[2]

    def __str__(self) -> str:
        return str(self.place / self.inside.partition("/")[2])


def _list(path: Path) -> Iterator[File]:
    """Files inside an archive or a folder; a file itself."""
    name = path.name if path.name not in ("", "..") else path.resolve().name
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield File(path, f"{name}/{file.relative_to(path).as_posix()}")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.namelist():
                yield File(path, f"{name}/{entry}")
    elif path.is_file():
        yield File(path.parent, f"{Path(os.path.abspath(path)).parent.name}/{name}")


def _matches(file: File, names: str, hint: str) -> bool:
    return file.name in names.split("|") and hint in file.inside.lower()


def _find_file(names: str, path: Path, known: Known, name: str) -> File:
    """Find the file, in the path itself or in an archive that lies in the folder.

    A file that lies in the folder or is the path itself need not have the set's name above it, as long as it has not
    another set's.
    """
    if not path.exists():
        raise MissingFileError(f"there is no file or folder {path}; {_say_where(name, known)}")
    archives = sorted(path.glob("*.zip")) if path.is_dir() else []
    for file in (each for place in (path, *archives) for each in _list(place)):
        if _matches(file, names, known.hint):
            return file
    others = [other.hint for other in KNOWN.values() if other.hint not in ("", known.hint)]
    for file in _list(path):
        nearby = not zipfile.is_zipfile(path) and file.inside.count("/") == 1
        if nearby and _matches(file, names, "") and not any(hint in file.inside.lower() for hint in others):
            return file
    wanted = " or ".join(names.split("|"))
    below = f" with {known.hint!r} in its path" if known.hint else ""
    raise MissingFileError(f"{path} holds no file {wanted}{below}; {_say_where(name, known)}")


def _read_bytes(file: File) -> bytes:
    below = file.inside.partition("/")[2]
    try:
        if file.place.is_dir():
            raw = (file.place / below).read_bytes()
        else:
            with zipfile.ZipFile(file.place) as archive:
                raw = archive.read(below)
        return bz2.decompress(raw) if file.name.endswith(".bz2") else raw
    except (OSError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{file} cannot be read: {error}; fetch it again") from error


def _say_where(name: str, known: Known) -> str:
    return f"{name} is published at {known.where} ({known.licence}); pass the archive, or the folder it was unpacked to"


# Reading them -----------------------------------------------------------------------------------------------

FOUR = ("user", "item", "rating", "timestamp")


def _unreadable() -> tuple[type[Exception], ...]:
    import polars as pl

    return (pl.exceptions.PolarsError, KeyError, OSError, ValueError)


def _read_text(raw: bytes, separator: str, names: tuple[str, ...], **types: Any) -> pl.DataFrame:
    import polars as pl

    if separator == "::":
        raw, separator = raw.replace(b"::", b"\t"), "\t"
    types = {"rating": pl.Float64, **types}  # half stars may come late
    table = pl.read_csv(
        io.BytesIO(raw), separator=separator, has_header=False, new_columns=list(names), schema_overrides=types
    )
    return _tidy(table, names)


def _tidy(table: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """No gaps; whole ratings as whole numbers."""
    import polars as pl

    gaps = table.select(pl.any_horizontal(pl.all().is_null()).arg_true()).to_series()
    if len(gaps):
        raise ValueError(f"row {gaps[0]} has fewer than {len(names)} values")
    rating = table["rating"]
    if bool((rating % 1 == 0).all()):
        table = table.with_columns(rating.cast(pl.Int64))
    return table


def _read_movielens_100k(contents: list[bytes]) -> pl.DataFrame:
    return _read_text(contents[0], "\t", FOUR)


def _read_u1(contents: list[bytes]) -> pl.DataFrame:
    import polars as pl

    parts = zip(contents, ("train", "test"), strict=True)
    return pl.concat([_read_text(raw, "\t", FOUR).with_columns(part=pl.lit(part)) for raw, part in parts])


def _read_colons(contents: list[bytes]) -> pl.DataFrame:
    return _read_text(contents[0], "::", FOUR)


def _read_movietweetings(contents: list[bytes]) -> pl.DataFrame:
    import polars as pl

    return _read_text(contents[0], "::", FOUR, item=pl.String)  # 0104257 is not 104257


def _read_goodbooks(contents: list[bytes]) -> pl.DataFrame:
    import polars as pl

    table = pl.read_csv(io.BytesIO(contents[0]), schema_overrides={"rating": pl.Float64})
    table = table.select(pl.col("user_id").alias("user"), pl.col("book_id").alias("item"), "rating")
    return _tidy(table, FOUR[:3])


def _read_epinions(contents: list[bytes]) -> pl.DataFrame:
    lines = [b" ".join(line.split()) for line in contents[0].splitlines() if line.strip()]  # blanks may be several
    return _read_text(b"\n".join(lines), " ", FOUR[:3])


def _read_monti(contents: list[bytes]) -> pl.DataFrame:
    """Read ``M``, ``Otraining`` and ``Otest`` of a MATLAB v7.3 file (HDF5); stored transposed, users become rows.

    Users and items have no ids in it: they are numbered from 1, as rows and columns in MATLAB.
    """
    import polars as pl

    try:
        import h5py
    except ImportError as error:
        raise ImportError('MATLAB files need h5py, which is not installed: pip install "cmtrf[datasets]"') from error
    with h5py.File(io.BytesIO(contents[0])) as file:
        M, train, test = (np.asarray(file[name][()]).T for name in ("M", "Otraining", "Otest"))
    if not M.shape == train.shape == test.shape:
        raise ValueError(f"M, Otraining and Otest have shapes {M.shape}, {train.shape} and {test.shape}")
    if ((train != 0) & (test != 0)).any():
        raise ValueError("the masks Otraining and Otest overlap")
    users, items = np.nonzero((train != 0) | (test != 0))
    ratings: Any = M[users, items]
    if (ratings % 1 == 0).all():
        ratings = ratings.astype(np.int64)
    part = np.where(train[users, items] != 0, "train", "test").tolist()
    return pl.DataFrame({"user": users + 1, "item": items + 1, "rating": ratings, "part": part})


# What is known of them --------------------------------------------------------------------------------------

GROUPLENS = "for research, not for commercial use, and not to be redistributed without permission"
MONTI = "no licence is stated for the data"

KNOWN: dict[str, Known] = {
    "ml-100k": Known(
        ("u.data",), "", _read_movielens_100k, "grouplens.org/datasets/movielens/100k", GROUPLENS,
        Counts(943, 1682, 100_000),
        {"06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490": "MovieLens 100K, u.data"},
    ),
    "ml-100k-u": Known(
        ("u1.base", "u1.test"), "", _read_u1, "grouplens.org/datasets/movielens/100k", GROUPLENS,
        Counts(943, 1682, 100_000),
        {"b1aa4307df4f4e85f734a36e44cd8960a244d587fa1782589d33fbb55ef0508f": "MovieLens 100K, u1.base and u1.test"},
    ),
    "ml-1m": Known(
        ("ratings.dat",), "ml-1m", _read_colons, "grouplens.org/datasets/movielens/1m", GROUPLENS,
        Counts(6040, 3706, 1_000_209),
        {"506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f": "MovieLens 1M, ratings.dat"},
    ),
    "ml-10m": Known(
        ("ratings.dat",), "ml-10m", _read_colons, "grouplens.org/datasets/movielens/10m", GROUPLENS,
        Counts(69_878, 10_677, 10_000_054),
    ),
    "goodbooks": Known(
        ("ratings.csv",), "goodbooks", _read_goodbooks, "github.com/zygmuntz/goodbooks-10k", "CC BY-SA 4.0",
        Counts(53_424, 10_000, 5_976_479),
        {
            "43cadb63be762b025fda90a6bcd5fd1e03858ca7b1e3b9b90056f7569db3f4d8":
                "a cut of goodbooks-10k: all ratings of 5% of its users",
        },
    ),
    "epinions": Known(
        ("ratings_data.txt|ratings_data.txt.bz2",), "", _read_epinions, "trustlet.org (downloaded Epinions)",
        "cite Massa and Avesani; see the terms there", Counts(40_163, 139_738, 664_824),
    ),
    "douban": Known(
        ("training_test_dataset.mat",), "douban", _read_monti, "github.com/fmonti/mgcnn, Data/douban", MONTI,
        Counts(2999, 3000, 136_891),
        {"1f4476321cbfe0f606e7e35d0695ca15447a1b0b2c811df130109b6cb9a067ae": "Douban as cut by Monti and others"},
    ),
    "flixster": Known(
        ("training_test_dataset_10_NNs.mat|training_test_dataset.mat",), "flixster", _read_monti,
        "github.com/fmonti/mgcnn, Data/flixster", MONTI, Counts(2341, 2956, 26_173),
    ),
    "movietweetings": Known(
        ("ratings.dat",), "movietweetings", _read_movietweetings, "github.com/sidooms/MovieTweetings (snapshots/100K)",
        "MIT licence", Counts(16_554, 10_506, 100_000),
        {"c0dd868c2632d10002ebc928ddc5345f33adeaa59eca52c2941c26a2c5e36fd6": "MovieTweetings, snapshot 100K"},
    ),
}  # fmt: skip
