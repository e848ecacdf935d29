"""Readers of published sets: small files in the same layout, and the real ones where they are at hand."""

from __future__ import annotations

import bz2
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import polars as pl
import pytest

from cmtrf import CMTRF, datasets, splits
from cmtrf.datasets.known import KNOWN, open_known, recognize
from cmtrf.errors import DataError, DataWarning, MissingFileError, ParameterError
from problems import shared_data

ROWS = [(7, 300, 5, 978300760), (3, 12, 4, 978300761), (7, 12, 1, 978300762), (9, 300, 3, 978300763)]
SMALL = "has 4 ratings by 3 users of 2 items; .* was published with"


def text(rows, separator, header=""):
    return (header + "\n".join(separator.join(map(str, row)) for row in rows) + "\n").encode()


def write_matlab(path, rated=((1, 0, 4.0), (0, 2, 0.5), (2, 1, 5.0)), test=((2, 1),)):
    """A MATLAB v7.3 file is HDF5 that stores matrices transposed; here users are rows, before that."""
    M, training, apart = (np.zeros((3, 4)) for _ in range(3))
    for user, item, rating in rated:
        M[user, item] = rating
        (apart if (user, item) in test else training)[user, item] = 1
    with h5py.File(path, "w") as file:
        for name, matrix in (("M", M), ("Otraining", training), ("Otest", apart), ("W_users", np.eye(3))):
            file[name] = matrix.T


def write_layouts(folder: Path) -> dict[str, Path]:
    """Each set as a folder in the layout of its publisher."""
    halves = [(7, 300, 0.5, 1), (3, 12, 4, 2), (7, 12, 4.5, 3), (9, 300, 5, 4)]
    files = {
        "ml-100k/ml-100k/u.data": text(ROWS, "\t"),
        "ml-100k-u/ml-100k/u1.base": text(ROWS[:3], "\t"),
        "ml-100k-u/ml-100k/u1.test": text(ROWS[3:], "\t"),
        "ml-1m/ml-1m/ratings.dat": text(ROWS, "::"),
        "ml-10m/ml-10M100K/ratings.dat": text(halves, "::"),
        "goodbooks/goodbooks-10k/ratings.csv": text([row[:3] for row in ROWS], ",", "user_id,book_id,rating\n"),
        "epinions/ratings_data.txt.bz2": bz2.compress(b"7 300 5\n3  12 4\n7 12 1 \n9 300 3\n"),
        "movietweetings/MovieTweetings/snapshots/100K/ratings.dat": text(
            [(7, "0300", 10, 1), (3, "0012", 4, 2), (7, "0012", 0, 3), (9, "0300", 3, 4)], "::"
        ),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, file in (("douban", "training_test_dataset.mat"), ("flixster", "training_test_dataset_10_NNs.mat")):
        (folder / name / name).mkdir(parents=True)
        write_matlab(folder / name / name / file)
    return {name: folder / name for name in KNOWN}


EXPECTED = dict.fromkeys(("ml-100k", "ml-100k-u", "ml-1m", "goodbooks", "epinions"), ROWS) | {
    "ml-10m": [(7, 300, 0.5, 1), (3, 12, 4.0, 2), (7, 12, 4.5, 3), (9, 300, 5.0, 4)],
    "movietweetings": [(7, "0300", 10, 1), (3, "0012", 4, 2), (7, "0012", 0, 3), (9, "0300", 3, 4)],
    "douban": [(1, 3, 0.5), (2, 1, 4.0), (3, 2, 5.0)],
    "flixster": [(1, 3, 0.5), (2, 1, 4.0), (3, 2, 5.0)],
}  # fmt: skip


def zipped(folder: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                file.write(path, path.relative_to(folder))
    return archive


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
@pytest.mark.parametrize("form", ["folder", "archive", "folder with the archive"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_set_in_its_published_layout(name, form, tmp_path):
    path = write_layouts(tmp_path / "files")[name]
    if form != "folder":
        (tmp_path / "archives").mkdir()
        archive = zipped(path, tmp_path / "archives" / f"{name}.zip")
        path = archive if form == "archive" else archive.parent
    table = datasets.load(name, path)
    found = table.select([column for column in ("user", "item", "rating", "timestamp") if column in table.columns])
    expected = [row[: found.width] for row in EXPECTED[name]]
    assert found.rows() == expected
    assert table["rating"].dtype == (pl.Float64 if name in ("ml-10m", "douban", "flixster") else pl.Int64)
    if name == "ml-100k-u":
        assert table["part"].to_list() == ["train"] * 3 + ["test"]
    if name in ("douban", "flixster"):
        assert table["part"].to_list() == ["train", "train", "test"]
        assert splits.published(table).test["user"].to_list() == [3]
    if form != "folder with the archive":
        assert recognize(path) == ("ml-100k" if name == "ml-100k" else name)
    CMTRF(n_scales="fixed", rank=1, max_sweeps=1, tol=0).fit(table)


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_the_file_itself_will_do_under_any_folder(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_bytes(text(ROWS, "::"))
    assert datasets.load("ml-1m", path).rows() == ROWS
    assert datasets.load("ml-1m", tmp_path).rows() == ROWS
    write_matlab(tmp_path / "training_test_dataset.mat")
    assert datasets.load("douban", tmp_path).height == 3
    (tmp_path / "ratings_data.txt").write_bytes(b"1 2 3\n4 5 6\n")
    assert datasets.load("epinions", tmp_path).rows() == [(1, 2, 3), (4, 5, 6)]


def test_a_part_of_a_set_is_told(tmp_path):
    path = write_layouts(tmp_path)["ml-1m"]
    with pytest.warns(DataWarning, match=SMALL):
        datasets.load("ml-1m", path)


def test_what_is_not_there_is_told_with_where_to_get_it(tmp_path):
    for path in (tmp_path / "nowhere.zip", tmp_path):
        with pytest.raises(MissingFileError, match=r"grouplens.org/datasets/movielens/1m \(for research, not for comm"):
            datasets.load("ml-1m", path)
    with pytest.raises(MissingFileError, match=r"no file ratings_data\.txt or ratings_data\.txt\.bz2; epin"):
        datasets.load("epinions", tmp_path)
    with pytest.raises(ParameterError, match="there is no set 'netflix'; there are ml-100k, ml-100k-u"):
        datasets.load("netflix", tmp_path)
    assert all(known.where and known.licence for known in KNOWN.values())
    assert recognize(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("ml-1m", "ratings.dat", b"1::2::three::4\n"),
        ("ml-1m", "ratings.dat", b"1::2::3::4\n5::6::7\n"),
        ("ml-1m", "ratings.dat", b"1::2::3::4\n5::6::7::8::9\n"),
        ("ml-100k", "u.data", b"\x00\x01\x02"),
        ("goodbooks", "ratings.csv", b""),
        ("epinions", "ratings_data.txt.bz2", b"not compressed"),
        ("douban", "training_test_dataset.mat", b"MATLAB 5.0 MAT-file"),
    ],
)
def test_a_file_of_another_form_is_told(name, file, content, tmp_path):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path)):
        datasets.load(name, tmp_path / file)


def test_a_broken_archive_is_told(tmp_path):
    path = write_layouts(tmp_path)["ml-100k"]
    archive = zipped(path, tmp_path / "ml-100k.zip")
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(DataError, match=r"ml-100k.zip"):
        datasets.load("ml-100k", archive)


def test_matrices_that_do_not_fit_are_told(tmp_path):
    path = tmp_path / "training_test_dataset.mat"
    write_matlab(path)
    with h5py.File(path, "a") as file:
        file["Otest"][0, 1] = 1
        file["Otraining"][0, 1] = 1
    with pytest.raises(DataError, match="the masks Otraining and Otest overlap"):
        datasets.load("douban", path)
    with h5py.File(path, "a") as file:
        del file["Otest"]
    with pytest.raises(DataError, match="does not hold douban as it is published"):
        datasets.load("douban", path)


def test_matlab_files_need_an_extra(tmp_path, monkeypatch):
    write_matlab(tmp_path / "training_test_dataset.mat")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r'pip install "cmtrf\[datasets\]"'):
        datasets.load("douban", tmp_path)


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_users_of_one_value_are_left_out_where_that_is_asked_for(tmp_path):
    path = write_layouts(tmp_path)["ml-100k"]
    assert datasets.load("ml-100k", path, drop_constant_users=True).rows() == [ROWS[0], ROWS[2]]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "archive", "release"),
    [
        ("ml-100k", "ml-100k.zip", "MovieLens 100K, u.data"),
        ("ml-100k-u", "ml-100k.zip", "MovieLens 100K, u1.base and u1.test"),
        ("ml-1m", "ml-1m.zip", "MovieLens 1M, ratings.dat"),
        ("goodbooks", "goodbooks-10k-users5pct.zip", "a cut of goodbooks-10k: all ratings of 5% of its users"),
        ("douban", "douban-monti.zip", "Douban as cut by Monti and others"),
        ("movietweetings", "movietweetings-100k.zip", "MovieTweetings, snapshot 100K"),
    ],
)
def test_releases_are_known_by_their_checksum(name, archive, release):
    """And by their sizes: of a whole release they are those that its publisher states."""
    opened = open_known(name, shared_data(archive))
    assert opened.release == release
    counts = KNOWN[name].counts
    if counts is not None and name != "goodbooks":
        found = (opened.table["user"].n_unique(), opened.table["item"].n_unique(), opened.table.height)
        assert found == counts
    assert opened.table.null_count().sum_horizontal().item() == 0


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_one_set_is_not_read_as_another(tmp_path):
    layouts = write_layouts(tmp_path / "ml-1m and others")
    for name, other in (("ml-1m", "movietweetings"), ("ml-10m", "ml-1m"), ("movietweetings", "ml-10m")):
        archive = zipped(layouts[name], tmp_path / f"{name}.zip")
        assert recognize(layouts[name]) == recognize(archive) == name
        with pytest.raises(MissingFileError, match=r"with '.*' in its path"):
            datasets.load(other, archive)
    with pytest.raises(ParameterError, match=r"holds ml-100k and .* say which of them"):
        recognize(tmp_path / "ml-1m and others")
    (tmp_path / "ratings.csv").write_text("rating,user,book\n3,4,5\n")
    with pytest.raises(DataError, match="does not hold goodbooks as it is published"):
        datasets.load("goodbooks", tmp_path / "ratings.csv")


@pytest.mark.filterwarnings("ignore::cmtrf.errors.DataWarning")
def test_half_stars_that_come_late(tmp_path):
    rows = [(user, 1, 4, 7) for user in range(300)] + [(300, 1, 3.5, 7)]
    (tmp_path / "ratings.dat").write_bytes(text(rows, "::"))
    assert datasets.load("ml-10m", tmp_path / "ratings.dat")["rating"][-1] == 3.5
