"""Model files: what is saved comes back bit for bit, and nothing else is ever taken for a model."""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import pickle
import stat
import struct
import tarfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from safetensors import safe_open
from safetensors.numpy import save

from cmtrf.errors import CmtrfError, ModelFileError, OutputError
from cmtrf.estimators import CMTRF
from cmtrf.files import write_whole
from cmtrf.models import persist, stored
from cmtrf.models.point import PointModel
from cmtrf.vocabulary import Grid, Vocabulary

N, M, L, K, RANK = 4, 3, 5, 2, 2
DIGEST = persist.DIGEST
PARAMETERS = {"n_scales": 2, "margin": 0.5, "random_state": None}
COLUMNS = {"user": "who", "item": "what"}


def save_model(model: PointModel, path: Any, parameters: Any = PARAMETERS) -> None:
    persist.save_model(model, path, parameters, COLUMNS)


def load_model(path: Any) -> PointModel:
    return persist.load_model(path)[0]


def make_vocabulary(ids: Any) -> Vocabulary:
    return Vocabulary.of(ids)[0]


def make_model(dtype: Any = np.float32, rank: int = RANK, **changes: Any) -> PointModel:
    rng = np.random.default_rng(0)
    whole = {
        "users": make_vocabulary(np.array([3, 8, -5, 2**62])),
        "items": make_vocabulary(["tea", "rye", "fig"]),
        "grid": Grid.of_levels([1, 2, 3, 4, 5]),
        "user_factors": rng.standard_normal((N, rank)).astype(dtype),
        "item_factors": rng.standard_normal((M, rank)).astype(dtype),
        "user_bias": rng.standard_normal(N).astype(dtype),
        "item_bias": rng.standard_normal(M).astype(dtype),
        "item_mean": rng.uniform(1, 5, M),
        "scales": np.sort(rng.standard_normal((K, L)), axis=1),
        "user_scale": np.array([0, 1, 1, 0]),
        "parent_scale": np.arange(L) / 3,
        "lone": np.array([False, True]),
        "level_counts": rng.integers(0, 3, (N, L)).astype(float),
        "seen_indptr": np.array([0, 2, 3, 3, 6]),
        "seen_items": np.array([0, 2, 1, 0, 1, 2], np.int32),
        "objective": np.array([3.5, 2.25, 1 / 3]),
        "converged": True,
        "n_scales": 2,
        "pulls": False,
    }
    return PointModel(**{**whole, **changes})


def assert_same(one: PointModel, other: PointModel) -> None:
    for field in fields(PointModel):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if isinstance(before, Vocabulary):
            assert_same_array(before.ids, after.ids)
        elif isinstance(before, Grid):
            assert_same_array(before.values, after.values)
            assert before.words == after.words
        elif isinstance(before, np.ndarray):
            assert_same_array(before, after)
        else:
            assert before == after
            assert type(before) is type(after)


def assert_same_array(before: Any, after: Any) -> None:
    assert after.dtype == before.dtype
    assert after.shape == before.shape
    assert not after.flags.writeable
    assert after.flags.c_contiguous
    assert after.flags.aligned
    if before.dtype == object:
        assert after.tolist() == before.tolist()
        assert set(map(type, after.tolist())) == {str}
    else:
        assert after.tobytes() == before.tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.cmtrf"


def round_trip(model: PointModel, path: Path) -> PointModel:
    save_model(model, path)
    return load_model(path)


# What is saved comes back.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [0, 1, 7])
def test_every_field_comes_back_bit_for_bit(path, dtype, rank):
    model = make_model(dtype, rank)
    assert_same(model, round_trip(model, path))


@pytest.mark.parametrize(
    "ids",
    [
        np.array([-(2**63), -1, 0, 2**63 - 1]),
        np.array([-1e308, -0.0, 5e-324, 1.5]),
        ["", "\0", "a\0b", "a\0"],
        ["\ud800", "\udfff", "\ud83d\ude00", "😀"],
        ["ä", "ß", "\N{COMBINING DIAERESIS}a", "漢字" * 100],
    ],
)
def test_ids_of_every_kind_come_back(path, ids):
    model = make_model(users=make_vocabulary(ids))
    loaded = round_trip(model, path)
    assert_same(model, loaded)
    assert loaded.users.codes(ids).tolist() == model.users.codes(ids).tolist()


@settings(max_examples=60, deadline=None)
@given(ids=st.sets(st.text(st.characters(exclude_categories=())), min_size=M, max_size=M))
@example(ids={"", chr(0xD83D) + chr(0xDE00), chr(0xDE00) + chr(0xD83D)})
def test_any_text_can_be_an_id(tmp_path_factory, ids):
    model = make_model(items=make_vocabulary(sorted(ids)))
    assert_same(model, round_trip(model, tmp_path_factory.getbasetemp() / "text.cmtrf"))


@pytest.mark.parametrize(
    "words",
    [("awful", "bad", "so-so", "good", "great"), ("\ud83d\ude00", "😀", "\udc00", "\0", '"}{\\')],
)
def test_worded_levels_come_back(path, words):
    model = make_model(grid=Grid.of_words(words))
    assert_same(model, round_trip(model, path))


@pytest.mark.parametrize("values", [[0.1, 0.2, 0.30000000000000004, 1e9, 1e300], [-2, -1, 0, 1, 2]])
def test_the_numbers_of_the_levels_come_back(path, values):
    model = make_model(grid=Grid.of_levels(values))
    assert_same(model, round_trip(model, path))


def test_a_model_without_ratings_and_sweeps_comes_back(path):
    model = make_model(seen_indptr=np.zeros(N + 1, np.int64), seen_items=np.empty(0, np.int32), objective=np.empty(0))
    assert_same(model, round_trip(model, path))


def test_arrays_of_any_layout_can_be_saved(path):
    model = make_model()
    odd = replace(
        model,
        user_factors=np.asfortranarray(model.user_factors),
        user_scale=model.user_scale.astype(np.int32),
    )
    assert_same(model, round_trip(odd, path))


def test_parameters_are_kept_as_far_as_json_holds_them(path):
    given = {
        "n_scales": np.int64(4),
        "tol": np.float32(0.5),
        "lambda_bias": (1.0, np.float64(2)),
        "margin": np.array([0.1, 0.2]),
        "levels": range(1, 4),
        "bias": np.True_,
        "unknown": "\ud800",
        "random_state": np.random.RandomState(0),
        "lambda_u": float("inf"),
        "divergence": object(),
        "progress": None,
        "dtype": {1: 2},
        "no_such_parameter": 1,
    }
    save_model(make_model(), path, given)
    _, kept, columns = persist.load_model(path)
    assert columns == COLUMNS
    assert kept == {
        "n_scales": 4,
        "tol": 0.5,
        "lambda_bias": [1.0, 2.0],
        "margin": [0.1, 0.2],
        "levels": [1, 2, 3],
        "bias": True,
        "unknown": "\ud800",
        "progress": None,
    }
    assert kept["bias"] is True
    assert type(kept["n_scales"]) is int


def test_the_parameters_are_those_of_the_class():
    named = set(inspect.signature(CMTRF.__init__).parameters) - {"self"}
    assert named == stored.PARAMETERS


def test_every_field_of_a_model_has_its_place():
    placed = {"users", "items", "grid", "converged", "n_scales", "pulls"} | set(stored.FIELDS)
    assert {field.name for field in fields(PointModel)} == placed


@pytest.mark.parametrize("n_scales", ["fixed", 1, 2, "user"])
def test_a_fitted_estimator_comes_back(path, n_scales):
    rng = np.random.default_rng(1)
    pairs = np.array([(u, i) for u in range(20) for i in range(10)])
    ratings = rng.integers(1, 6, len(pairs)).astype(float)
    fitted = CMTRF(n_scales=n_scales, rank=2, max_sweeps=3, tol=0, random_state=0).fit(pairs, ratings)
    assert_same(fitted._model, round_trip(fitted._model, path))


def test_the_same_model_gives_the_same_bytes(path):
    save_model(make_model(), path)
    first = path.read_bytes()
    save_model(make_model(), path)
    assert path.read_bytes() == first


def test_other_programs_can_read_the_arrays(path):
    model = make_model(grid=Grid.of_words(["a", "b", "c", "d", "e"]))
    save_model(model, path)
    with safe_open(path, "np") as file:
        metadata = file.metadata()
        header = json.loads(metadata["header"])
        assert metadata["format"] == "cmtrf model"
        assert header["version"] == 1
        assert header["parameters"] == PARAMETERS
        assert np.array_equal(file.get_tensor("user_factors"), model.user_factors)
        texts, offsets = file.get_tensor("items").tobytes(), file.get_tensor("items_offsets")
        assert [texts[a:b].decode() for a, b in pairwise(offsets)] == [
            "fig", "rye", "tea"
        ]  # fmt: skip
    data = path.read_bytes()
    blank = data[: DIGEST.start] + b"0" * 64 + data[DIGEST.stop :]
    assert hashlib.sha256(blank).hexdigest() == metadata["sha256"]


# Anything else is refused.


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "model.cmtrf"
    save_model(make_model(rank=1), path)
    return path.read_bytes()


def assert_refused(path: Path, said: str = ".") -> None:
    with pytest.raises(ModelFileError, match=said) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert "; " in str(caught.value)  # and what to do


@pytest.mark.parametrize("change", [0x01, 0x20, 0x80, 0xFF])
def test_a_change_of_any_byte_is_found(path, whole, change):
    path.write_bytes(whole)
    with open(path, "r+b", buffering=0) as file:
        for place, byte in enumerate(whole):
            os.pwrite(file.fileno(), bytes([byte ^ change]), place)
            assert_refused(path)
            os.pwrite(file.fileno(), bytes([byte]), place)
    load_model(path)


def test_a_file_cut_anywhere_is_found(path, whole):
    path.write_bytes(whole)
    for length in reversed(range(len(whole))):
        os.truncate(path, length)
        assert_refused(path)


@pytest.mark.parametrize("more", [b"\0", b" ", b"\n", b"0" * 64, "itself"])
def test_a_file_with_something_behind_is_found(path, whole, more):
    path.write_bytes(whole + (whole if more == "itself" else more))
    assert_refused(path, "damaged")


class Exploit:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("data.pkl", pickle.dumps(Exploit()))
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        file.addfile(tarfile.TarInfo("../../outside"))
    return out.getvalue()


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([Exploit()], dtype=object), allow_pickle=True)
    return out.getvalue()


FOREIGN: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "text": lambda: b"user,item,rating\n1,2,3\n",
    "zeros": lambda: bytes(1000),
    "ones": lambda: b"\xff" * 1000,
    "pickle": lambda: pickle.dumps(Exploit()),
    "zip": zipped,
    "tar": tarred,
    "npy": npy,
    "json": lambda: b'{"version": 1}',
    "safetensors": lambda: save({"weight": np.zeros(3)}),
    "safetensors with metadata": lambda: save({"weight": np.zeros(3)}, {"format": "pt"}),
    "nested": lambda: struct.pack("<Q", 10**6) + b"[" * 10**6,
    "huge header": lambda: struct.pack("<Q", 2**63) + b"{}",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(path, kind, monkeypatch):
    monkeypatch.chdir(path.parent)
    path.write_bytes(FOREIGN[kind]())
    assert_refused(path, "is empty; pass a file" if kind == "nothing" else "is not a model of cmtrf; pass a file")
    assert os.listdir() == [path.name]


def test_a_folder_a_pipe_and_odd_paths_are_refused(tmp_path):
    assert_refused(tmp_path, "is a folder")
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "not a regular file")
    assert_refused(Path("/dev/zero"), "not a regular file")
    (tmp_path / "file").touch()
    assert_refused(tmp_path / "file" / "model", "cannot be read")
    assert_refused(Path("a\0b"), "cannot be read")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(path, whole):
    path.write_bytes(whole)
    path.chmod(0)
    assert_refused(path, "Permission denied")


def test_a_missing_file_is_said_to_be_missing(path):
    with pytest.raises(FileNotFoundError, match="there is no such file") as caught:
        load_model(path)
    assert isinstance(caught.value, CmtrfError)
    assert str(path) in str(caught.value)


# Hostile files, whose checksum is right.


Attack = Callable[[dict[str, Any], dict[str, list[Any]]], Any]


def forge(whole: bytes, attack: Attack) -> bytes:
    """Change header and arrays of a file, and sign what came out; header["RAW"] is written as it is."""
    size = struct.unpack("<Q", whole[:8])[0]
    outer, body = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    metadata = outer.pop("__metadata__")
    header = json.loads(metadata["header"])
    arrays = {name: [a["dtype"], a["shape"], body[slice(*a["data_offsets"])]] for name, a in outer.items()}
    attack(header, arrays)
    outer, body = {"__metadata__": {**metadata, "header": header.pop("RAW", None) or json.dumps(header)}}, b""
    for name, (dtype, shape, data) in arrays.items():
        place = [len(body), len(body) + len(data)]
        outer[name] = {"dtype": dtype, "shape": shape, "data_offsets": place}
        body += data
    return sign(json.dumps(outer, separators=(",", ":")).encode(), body)


def sign(text: bytes, body: bytes) -> bytes:
    text += b" " * (-len(text) % 8)
    return sign_again(bytearray(struct.pack("<Q", len(text)) + text + body))


def sign_again(data: bytearray) -> bytes:
    data[DIGEST] = b"0" * 64
    data[DIGEST] = hashlib.sha256(data).hexdigest().encode()
    return bytes(data)


def put(name: str, values: Any, dtype: str | None = None) -> Attack:
    """An attack: these values in the place of an array."""
    array = np.asarray(values)
    entry = [dtype or persist.NAMES[array.dtype.str], list(array.shape), array.tobytes()]
    return lambda header, arrays: arrays.update({name: entry})


def edit(**entries: Any) -> Attack:
    return lambda header, arrays: header.update(entries)


def reshape(name: str, *shape: int) -> Attack:
    return lambda header, arrays: arrays[name].__setitem__(1, list(shape))


def retype(name: str, dtype: str) -> Attack:
    return lambda header, arrays: arrays[name].__setitem__(0, dtype)


def i32(*values: int) -> Any:
    return np.array(values, np.int32)


def u8(*values: int) -> Any:
    return np.array(values, np.uint8)


ATTACKS: dict[str, tuple[Attack, str]] = {
    # codes that would be read outside an array
    "scale code too large": (put("user_scale", [0, 1, 2, 0]), "user_scale has codes outside 0..1"),
    "scale code below 0": (put("user_scale", [0, 1, -1, 0]), "user_scale has codes outside"),
    "scale code huge": (put("user_scale", [0, 1, 2**62, 0]), "user_scale has codes outside"),
    "item code too large": (put("seen_items", i32(0, 2, 1, 0, 1, 3)), "seen_items has codes outside 0..2"),
    "item code below 0": (put("seen_items", i32(0, 2, 1, 0, 1, -1)), "seen_items has codes outside"),
    "pointers fall": (put("seen_indptr", [0, 5, 3, 3, 6]), "seen_indptr must be 5 numbers"),
    "pointers end late": (put("seen_indptr", [0, 2, 3, 3, 7]), "seen_indptr"),
    "pointers end early": (put("seen_indptr", [0, 2, 3, 3, 5]), "seen_indptr"),
    "pointers begin late": (put("seen_indptr", [1, 2, 3, 3, 6]), "seen_indptr"),
    "pointers wrap": (put("seen_indptr", [0, 2**63 - 1, -(2**63), 3, 6]), "seen_indptr"),
    "too few pointers": (put("seen_indptr", [0, 3, 3, 6]), "seen_indptr"),
    "no pointers": (put("seen_indptr", np.empty(0, np.int64)), "seen_indptr"),
    # sizes
    "fewer users": (put("user_factors", np.zeros((3, 1), np.float32)), "user_bias of shape"),
    "other rank": (put("item_factors", np.zeros((3, 2), np.float32)), "item_factors of shape"),
    "fewer biases": (put("item_bias", np.zeros(2, np.float32)), "item_bias of shape"),
    "fewer means": (put("item_mean", np.zeros(2)), "item_mean of shape"),
    "more levels": (put("scales", np.zeros((2, 6))), "scales of shape"),
    "no scales": (put("scales", np.zeros((0, 5))), "scales of shape"),
    "fewer flags": (put("lone", [True]), "lone of shape"),
    "a level less": (put("parent_scale", np.arange(4.0)), "parent_scale of shape"),
    "counts turned": (reshape("level_counts", 5, 4), "level_counts of shape"),
    "flat factors": (reshape("user_factors", 4), "user_factors is float32 of shape"),
    "deep factors": (reshape("user_factors", 2, 2, 1), "user_factors is float32 of shape"),
    "huge shape": (reshape("user_factors", 2**40, 2**40), "no safetensors file"),
    "huge empty shape": (
        lambda h, a: a.update(user_factors=["F32", [0, 2**62], b""], item_factors=["F32", [0, 2**62], b""]),
        "not a valid model",
    ),
    "shape beyond 64 bits": (reshape("user_factors", 2**64), "no safetensors file"),
    "negative shape": (reshape("user_factors", -4, -1), "no safetensors file"),
    # types
    "scales of integers": (put("scales", np.zeros((2, 5), np.int64)), "scales is int64"),
    "codes of floats": (put("user_scale", np.zeros(4)), "user_scale is float64"),
    "unsigned codes": (retype("user_scale", "U64"), "user_scale is uint64"),
    "wide items": (put("seen_items", [0, 2, 1, 0, 1, 2]), "seen_items is int64"),
    "mixed factors": (put("item_factors", np.zeros((3, 1))), "not of one type"),
    "half factors": (put("user_factors", np.zeros((4, 1), np.float16), "F16"), "user_factors is float16"),
    "unknown type": (retype("user_scale", "F8_E4M3"), "not a valid model"),
    "bfloat": (put("user_factors", np.zeros((4, 1), np.uint16), "BF16"), "not a valid model"),
    "flag of 2": (put("lone", u8(0, 2), "BOOL"), "lone has bytes"),
    # numbers
    "NaN scale": (put("scales", [[0, 1, 2, 3, np.nan], [0, 1, 2, 3, 4]]), "scales has numbers"),
    "infinite factor": (put("user_factors", np.full((4, 1), np.inf, np.float32)), "user_factors has numbers"),
    "NaN bias": (put("user_bias", np.full(4, np.nan, np.float32)), "user_bias has numbers"),
    "NaN parent": (put("parent_scale", [0, 1, 2, 3, np.nan]), "parent_scale has numbers"),
    "NaN mean": (put("item_mean", [0, 1, np.nan]), "item_mean has numbers"),
    "infinite objective": (put("objective", [np.inf]), "objective has numbers"),
    "falling scale": (put("scales", [[0, 1, 2, 4, 3.0], [0, 1, 2, 3, 4]]), "scales must not fall"),
    "vast falling scale": (put("scales", [[0, 1, 2, 1.7e308, -1.7e308]] * 2), "scales must not fall"),
    "falling parent": (put("parent_scale", [0, 1, 2, 4, 3.0]), "parent_scale must not fall"),
    "negative count": (put("level_counts", np.full((4, 5), -1.0)), "level_counts has numbers below 0"),
    # levels and ids
    "levels that fall": (put("levels", [1, 2, 4, 3, 5.0]), "levels must be"),
    "equal levels": (put("levels", [1, 2, 2, 3, 5.0]), "levels must be"),
    "NaN level": (put("levels", [1, 2, 3, 4, np.nan]), "levels has numbers"),
    "unsorted users": (put("users", [8, 3, 9, 10]), "users must be 4 distinct ids"),
    "repeated users": (put("users", [3, 3, 9, 10]), "users must be"),
    "more users": (put("users", [1, 2, 3, 4, 5]), "users must be"),
    "float users": (put("users", [1.0, 2, 3, 4]), "users is float64"),
    "unsorted items": (put("items", u8(*b"ryefigtea")), "items must be"),
    "repeated items": (put("items", u8(*b"figfigtea")), "items must be"),
    "broken text": (put("items", u8(*b"fig\xff\xffatea")), "items is not UTF-8"),
    "text cut in a character": (put("items", u8(*b"fi\xc3\xa4rytea")), "items is not UTF-8"),
    "text too short": (put("items", u8(*b"figrye")), "items_offsets must be"),
    "offsets fall": (put("items_offsets", [0, 6, 3, 9]), "items_offsets must be"),
    "offsets below 0": (put("items_offsets", [0, -3, 6, 9]), "items_offsets must be"),
    "too few offsets": (put("items_offsets", [0, 3, 9]), "items_offsets must be"),
    "text as integers": (edit(items="integer"), "must have the arrays"),
    "integers as text": (edit(users="text"), "must have the arrays"),
    "words missing": (edit(levels="text"), "must have the arrays"),
    # names
    "array missing": (lambda h, a: a.pop("scales"), "must have the arrays"),
    "array too many": (put("extra", [1.0]), "must have the arrays"),
    "no arrays": (lambda h, a: a.clear(), "must have the arrays"),
    # the header
    "from the future": (edit(version=2), "newer version of cmtrf.*upgrade"),
    "from the far future": (edit(version=10**4000), "newer version of cmtrf.*upgrade"),
    "version 0": (edit(version=0), "entry 'version'"),
    "version as text": (edit(version="1"), "entry 'version'"),
    "version as float": (edit(version=1.0), "entry 'version'"),
    "version as bool": (edit(version=True), "entry 'version'"),
    "package of no text": (edit(package=1), "entry 'package'"),
    "unknown kind": (edit(users="object"), "entry 'users'"),
    "kind of no text": (edit(users=[]), "entry 'users'"),
    "kind of levels": (edit(levels={}), "entry 'levels'"),
    "converged as number": (edit(converged=1), "entry 'converged'"),
    "form that is none": (edit(n_scales="many"), "entry 'n_scales'"),
    "form with other scales": (edit(n_scales=3), "has 2 scales, where n_scales is 3"),
    "a scale for each user": (edit(n_scales="user"), "has 2 scales, where n_scales is user"),
    "pulls as number": (edit(pulls=1), "entry 'pulls'"),
    "columns as list": (edit(columns=["user"]), "entry 'columns'"),
    "unknown parameter": (edit(parameters={"__class__": "os.system"}), "entry 'parameters'"),
    "parameters as list": (edit(parameters=["rank"]), "entry 'parameters'"),
    "NaN parameter": (edit(parameters={"tol": float("nan")}), "header cannot be read"),
    "infinite parameter": (edit(RAW='{"version":1,"parameters":{"tol":1e999}}'), "header cannot be read"),
    "entry too many": (edit(more=1), "must have the entries"),
    "entry missing": (lambda h, a: h.pop("converged"), "must have the entries"),
    "header no JSON": (edit(RAW="cos\nsystem\n(S'id'\ntR."), "header cannot be read"),
    "header a list": (edit(RAW="[]"), "not a JSON object"),
    "header nested": (edit(RAW="[" * 100_000), "header cannot be read"),
    "header long number": (edit(RAW='{"version":' + "9" * 100_000 + "}"), "header cannot be read"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_right_checksum_does_not_help(path, whole, attack):
    change, said = ATTACKS[attack]
    path.write_bytes(forge(whole, change))
    assert_refused(path, said)


def test_the_attacks_fail_for_their_change_alone(path, whole):
    path.write_bytes(forge(whole, lambda header, arrays: None))
    assert_same(make_model(rank=1), load_model(path))


@pytest.mark.parametrize("words", [b"abcdd", b"abcd ", b"abcd\xff"], ids=["twice the same", "empty", "no UTF-8"])
def test_forged_words_are_refused(path, words):
    save_model(make_model(grid=Grid.of_words("abcde")), path)
    path.write_bytes(forge(path.read_bytes(), put("level_words", u8(*words))))
    assert_refused(path, "level")


def test_forged_values_of_words_are_refused(path):
    save_model(make_model(grid=Grid.of_words("abcde")), path)
    path.write_bytes(forge(path.read_bytes(), put("levels", [1, 2, 3, 4, 6.0])))
    assert_refused(path, "worded levels must be")


OUTER = [
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s"}}',
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s","header":7}}',
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s","header":"{}"},"levels":7}',
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s","header":"{}"},"levels":' + b"[" * 100_000,
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s","header":"\xff"}}',
    b'{"__metadata__":{"format":"cmtrf model","sha256":"%s"',
]


@pytest.mark.parametrize("text", OUTER, ids=range(len(OUTER)))
@pytest.mark.parametrize("size", [None, 0, 7, 10**6, 2**63, 2**64 - 1])
def test_a_broken_frame_is_refused(path, text, size):
    data = bytearray(sign(text.replace(b"%s", b"0" * 64), b""))
    if size is not None:
        data[:8] = struct.pack("<Q", size)
    path.write_bytes(sign_again(data))
    assert_refused(path)


def test_random_changes_with_a_right_checksum_never_raise_anything_else(path, whole):
    rng = np.random.default_rng(0)
    for _ in range(800):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(256)
        path.write_bytes(sign_again(data))
        try:
            model = load_model(path)
        except ModelFileError:
            continue
        assert model.user_scale.max() < len(model.scales)
        assert model.seen_items.max() < len(model.items)


# Saving.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user_factors": np.full((N, RANK), np.nan, np.float32)}, "user_factors has numbers"),
        ({"user_scale": np.full(N, K)}, "user_scale has codes"),
        ({"item_factors": np.zeros((M, RANK), np.float16)}, "item_factors is float16"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(path, changes, said):
    with pytest.raises(ModelFileError, match=f"nothing was written.*{said}"):
        save_model(make_model(**changes), path)
    assert not path.exists()


def test_a_header_that_is_too_long_is_not_saved(path, monkeypatch):
    monkeypatch.setattr(persist, "LONGEST_HEADER", 1000)
    with pytest.raises(ModelFileError, match="too long"):
        save_model(make_model(), path)


def test_saving_into_no_folder_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*; create it first") as caught:
        save_model(make_model(), tmp_path / "no" / "model.cmtrf")
    assert f"{tmp_path / 'no'} for model.cmtrf" in str(caught.value)
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save_model(make_model(), tmp_path / "file" / "model.cmtrf")


def test_a_folder_or_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target, said in ((tmp_path, "is a folder"), (tmp_path / "pipe", "not a regular file")):
        with pytest.raises(OutputError, match=said):
            save_model(make_model(), target)
    assert os.listdir(tmp_path) == ["pipe"]


class BrokenError(Exception):
    pass


@pytest.mark.parametrize("place", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, BrokenError])
def test_an_interrupted_save_leaves_the_old_file_alone(path, monkeypatch, place, error):
    save_model(make_model(), path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, place, fail)
    with pytest.raises(error):
        save_model(make_model(converged=False), path)
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before


def test_a_save_that_breaks_while_writing_leaves_nothing(path):
    def write(file: Any) -> None:
        file.write(b"begun")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, write)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
def test_a_new_file_has_the_usual_permissions(path, mask):
    old = os.umask(mask)
    try:
        save_model(make_model(), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(path):
    save_model(make_model(), path)
    path.chmod(0o600)
    link = path.with_name("link")
    link.symlink_to(path.name)
    save_model(make_model(converged=False), link)
    assert link.is_symlink()
    assert not load_model(path).converged
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_paths_may_be_text_and_relative(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    save_model(make_model(), path.name)
    assert_same(make_model(), load_model(path.name))


def test_readers_see_whole_files_while_they_are_replaced(path):
    models = [make_model(), make_model(rank=300)]
    save_model(models[0], path)
    done, seen, wrong = threading.Event(), set(), []

    def read() -> None:
        while not done.is_set():
            try:
                seen.add(load_model(path).user_factors.shape[1])
            except Exception as error:
                wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(60):
        save_model(models[turn % 2], path)
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert seen
    assert seen <= {RANK, 300}
    assert os.listdir(path.parent) == [path.name]
