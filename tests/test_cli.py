from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

import cmtrf
from cmtrf import CMTRF
from cmtrf.cli import console
from cmtrf.cli.demo import show
from cmtrf.cli.fit import fit, word_levels, word_scales
from cmtrf.cli.main import app

SOURCE = Path(cmtrf.__file__).resolve().parent.parent
WEAK = ["--lambda-u", "0.5", "--lambda-v", "0.5"]  # so that factors stand up on a small table
PARAMETERS = {"scales": "n_scales", "seed": "random_state", "jobs": "n_jobs"}  # named otherwise in Python


class Answer(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    def call(*words: object) -> Answer:
        with pytest.raises(SystemExit) as stopped:
            app([str(word) for word in words])
        return Answer(stopped.value.code, *capsys.readouterr())

    return call


def run_apart(program: str, *words: object, folder: Path) -> Answer:
    """A process of its own, for what concerns a whole process."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Ratings of 12 users (1 to 12) and 8 items; user 12 has rated all; and a model of them."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    lines = [
        f"{user},item {item},{rng.integers(1, 6)}"
        for user in range(1, 13)
        for item in range(8)
        if user == 12 or (user + item) % 4
    ]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]))
    (folder / "pairs.csv").write_text("user,item\n1,item 0\n99,item 1\n")
    with pytest.raises(SystemExit):
        app(["fit", str(folder / "ratings.csv"), "-o", str(folder / "model.cmtrf"), "--scales", "2", "--rank", "2"])
    return folder


# Help and version -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["demo", "fit", "predict", "recommend"])
def test_help_has_an_example(run, verb):
    status, out, err = run(verb, "--help")
    assert (status, err) == (0, "")
    assert f"Example: cmtrf {verb}" in " ".join(out.split())
    assert "--debug" in out
    assert "--json" in out


def test_help_of_all_names_the_verbs(run):
    for words, expected in (["--help"], 0), ([], 2):
        status, out, _ = run(*words)
        assert status == expected
        assert all(verb in out for verb in ("demo", "fit", "predict", "recommend"))
        assert "completion" not in out


def test_version(run):
    assert run("--version") == (0, f"cmtrf {cmtrf.__version__}\n", "")


def test_help_loads_nothing_heavy(tmp_path):
    program = (
        "import sys\nfrom cmtrf.cli.main import main\n"
        "try: main()\n"
        "finally: print({'numba', 'numpy', 'polars', 'scipy', 'sklearn'} & set(sys.modules), file=sys.stderr)"
    )
    status, out, err = run_apart(program, "fit", "--help", folder=tmp_path)
    assert (status, err) == (0, "set()\n")
    assert "--scales" in out


def test_defaults_are_those_of_python():
    ours = {name: parameter.default for name, parameter in inspect.signature(fit).parameters.items()}
    theirs = CMTRF().get_params() | {"n_scales": str(CMTRF().n_scales), "random_state": 0}
    shared = {name for name in ours if PARAMETERS.get(name, name) in theirs}
    assert {"rank", "lambda_u", "margin", "duplicates", "scales"} <= shared
    assert {name: ours[name] for name in shared} == {name: theirs[PARAMETERS.get(name, name)] for name in shared}


# What the verbs do ------------------------------------------------------------------------------------------


def test_fit_says_what_it_fitted(run, folder, tmp_path):
    model = tmp_path / "model.cmtrf"
    status, out, err = run("fit", folder / "ratings.csv", "-o", model, "--scales", "user", "--rank", "2", *WEAK)
    assert (status, err) == (0, "")
    said = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert said["ratings"] == "74 by 12 users of 8 items"
    assert said["levels"] == "1 2 3 4 5"
    assert said["columns"] == "user = 'user', item = 'item', rating = 'rating'"
    assert said["scales"] == "one for each user"
    assert said["sweeps"].endswith(", converged")
    assert said["written"] == str(model)
    assert model.is_file()


def test_fit_passes_its_options_on(run, tmp_path):
    table = tmp_path / "marks.tsv"
    lines = [f"{p}\t{e}\t{['bad', 'ok', 'good'][(p + e) % 3]}\t1" for p in range(6) for e in range(5)]
    table.write_text("\n".join(["pupil\tessay\tmark\tcount", *lines, lines[0]]))
    model = tmp_path / "model.cmtrf"
    columns = ["--user", "pupil", "--item", "essay", "--rating", "mark", "--weight", "count"]
    options = ["--scales", "1", "--rank", "1", "--margin", "0.2,0.4", "--levels", "bad, ok,good", "--tol", "1e-3"]
    words = ["fit", table, "-o", model, *columns, *options, "--duplicates", "last", "--seed", "3", "--jobs", "1"]
    status, out, _ = run(*words, "--lambda-u", "2", "--lambda-v", "3", "--json")
    assert status == 0
    summary = json.loads(out)
    assert summary["levels"] == ["bad", "ok", "good"]
    assert summary["columns"]["weight"] == "count"
    assert summary["users_by_scale"] == [6]
    fitted = cmtrf.load(model)
    assert (np.diff(fitted.scales_[0]) >= np.array([0.2, 0.4]) - 1e-6).all()
    assert (fitted.lambda_u, fitted.lambda_v, fitted.n_scales, fitted.rank) == (2, 3, 1, 1)


def test_predict_writes_what_python_predicts(run, folder, tmp_path):
    expected = cmtrf.load(folder / "model.cmtrf").predict_table(str(folder / "pairs.csv"))
    for name, read in ("out.csv", pl.read_csv), ("out.parquet", pl.read_parquet):
        status, out, _ = run("predict", folder / "model.cmtrf", folder / "pairs.csv", "-o", tmp_path / name)
        assert (status, out) == (0, f"2 rows written to {tmp_path / name}\n")
        assert read(tmp_path / name).equals(expected)
    status, out, _ = run("predict", folder / "model.cmtrf", folder / "pairs.csv")
    assert (status, out) == (0, expected.write_csv())
    assert out.splitlines()[2].endswith(",unknown user")
    status, out, _ = run("predict", folder / "model.cmtrf", folder / "pairs.csv", "--json")
    assert json.loads(out) == expected.rows(named=True)


@pytest.mark.parametrize("users", [["--user", 3, "--user", 7], ["--user", 3, 7], ["--user", 3, "--user", 7, 3]])
def test_recommend_to_some(run, folder, users):
    status, out, _ = run("recommend", folder / "model.cmtrf", *users, "-n", 2, "--json")
    assert status == 0
    expected = cmtrf.load(folder / "model.cmtrf").recommend([3, 7], n=2)
    assert json.loads(out) == expected.rows(named=True)


def test_recommend_to_everyone(run, folder, tmp_path):
    status, out, _ = run("recommend", folder / "model.cmtrf", "-n", "1", "-o", tmp_path / "top.csv", "--json")
    assert (status, json.loads(out)) == (0, {"output": str(tmp_path / "top.csv"), "rows": 11})
    assert pl.read_csv(tmp_path / "top.csv").columns == ["user", "item", "rank", "rating"]


def test_recommend_says_whom_it_has_nothing_for(run, folder):
    status, out, err = run("recommend", folder / "model.cmtrf", "--user", "12")
    assert (status, out) == (0, "user,item,rank,rating\n")
    assert err == "cmtrf: user 12 has rated every item of the model; --include-seen recommends those too\n"
    assert len(run("recommend", folder / "model.cmtrf", "--user", "12", "--include-seen").out.splitlines()) == 9


def test_demo(run):
    status, out, err = run("demo")
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "FiveThirtyEight, CC BY 4.0" in out
    assert "person " in out
    assert "\x1b" not in out
    result = json.loads(run("demo", "--json").out)
    assert sum(scale["users"] for scale in result["scales"]) == result["users"] == 1276
    # What the text claims: straight lines, and a generous scale against a strict one.
    assert np.allclose(np.diff([scale["positions"] for scale in result["scales"]]), 0.5, atol=0.01)
    assert np.all(np.diff([scale["mean_rating"] for scale in result["scales"]]) < 0)
    assert len({person["scale"] for person in result["people"]}) == 3
    assert all(len(person["recommended"]) == 4 for person in result["people"])


@pytest.mark.parametrize("width", [20, 40, 57, 200])
def test_demo_fits_the_terminal(run, capsys, monkeypatch, width):
    result = json.loads(run("demo", "--json").out)
    monkeypatch.setenv("COLUMNS", str(width))
    show(result)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= max(40, min(width, 80))


# Errors -----------------------------------------------------------------------------------------------------


def assert_one_sentence(answer: Answer, status: int, *parts: object) -> None:
    assert answer.status == status
    assert answer.out == ""
    assert answer.err.startswith("cmtrf: ")
    assert answer.err.count("\n") == 1
    assert answer.err.endswith("\n")
    for part in parts:
        assert str(part) in answer.err


def test_a_wrong_call(run, folder, tmp_path):
    ratings, model = folder / "ratings.csv", tmp_path / "m.cmtrf"
    assert_one_sentence(run("nonsense"), 2, "nonsense", "cmtrf --help")
    assert_one_sentence(run("fit", ratings), 2, "-o", "cmtrf fit --help")
    assert_one_sentence(run("fit", ratings, "-o", model, "--nonsense"), 2, "--nonsense")
    assert_one_sentence(run("fit", ratings, "-o", model, "--scales", "few"), 2, "--scales", "'few'")
    assert_one_sentence(run("fit", ratings, "-o", model, "--scales", "0"), 2, "--scales", "'0'")
    assert_one_sentence(run("fit", ratings, "-o", model, "--margin", "a"), 2, "--margin", "'a'")
    assert_one_sentence(run("fit", ratings, "-o", model, "--rank", "-1"), 2, "--rank")
    assert_one_sentence(run("fit", ratings, "-o", model, "--duplicates", "maybe"), 2, "--duplicates", "'first'")
    assert_one_sentence(run("recommend", folder / "model.cmtrf", "-n", "0"), 2, "-n")
    assert list(tmp_path.iterdir()) == []


def test_output_is_looked_at_before_the_fit(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(CMTRF, "fit", lambda *_, **__: pytest.fail("fitted first"))
    ratings = folder / "ratings.csv"
    assert_one_sentence(run("fit", ratings, "-o", tmp_path / "m.csv"), 2, tmp_path / "m.csv", ".cmtrf")
    assert_one_sentence(run("fit", ratings, "-o", tmp_path / "no" / "m.cmtrf"), 1, tmp_path / "no", "folder")
    assert_one_sentence(run("fit", ratings, "-o", tmp_path), 1, tmp_path, "folder")
    model, pairs = folder / "model.cmtrf", folder / "pairs.csv"
    assert_one_sentence(run("predict", model, pairs, "-o", tmp_path / "out.doc"), 2, "out.doc", ".parquet")
    assert_one_sentence(run("recommend", model, "-o", tmp_path / "no" / "out.csv"), 1, tmp_path / "no")


def test_what_fails(run, folder, tmp_path):
    ratings, model, pairs = folder / "ratings.csv", folder / "model.cmtrf", folder / "pairs.csv"
    out = tmp_path / "out.csv"
    column = run("fit", ratings, "-o", tmp_path / "m.cmtrf", "--user", "reader")
    assert_one_sentence(column, 1, "'reader'", "'user', 'item', 'rating'")
    assert_one_sentence(run("predict", model, pairs, "-o", out, "--item", "book"), 1, "'book'")
    assert_one_sentence(run("predict", model, pairs, "-o", out, "--proba"), 1, "proba")
    assert_one_sentence(run("predict", model, pairs, "-o", out, "--interval", "0.9"), 1, "interval")
    assert_one_sentence(run("predict", ratings, pairs, "-o", out), 1, ratings)
    assert_one_sentence(run("recommend", model, "--user", "1", "--user", "x"), 1, model, "the user 'x'")
    assert_one_sentence(run("recommend", model, "--user", "01"), 1, "the user '01'", "1, 2, 3")
    assert list(tmp_path.iterdir()) == []


def test_a_long_path_is_not_cut(run, tmp_path, folder):
    path = tmp_path / ("a folder" * 20) / ("file" * 40 + ".csv")
    assert_one_sentence(run("fit", path, "-o", tmp_path / "m.cmtrf"), 1, path)
    assert_one_sentence(run("predict", path, path), 1, path)
    assert_one_sentence(run("fit", folder / "ratings.csv", "-o", path), 2, path)
    assert_one_sentence(run("recommend", folder / "model.cmtrf", "--user", "u" * 300), 1, "u" * 300)


def test_debug_shows_where_before_and_after_the_verb(run, tmp_path):
    call = ["fit", tmp_path / "no.csv", "-o", tmp_path / "m.cmtrf"]
    for words in (["--debug", *call], [*call, "--debug"]):
        status, out, err = run(*words)
        assert (status, out) == (1, "")
        assert "Traceback" in err
        assert err.splitlines()[-1].startswith("cmtrf: ")


def test_a_fault_of_our_own_is_one_sentence_too(run, folder, tmp_path, monkeypatch):
    def break_down(*_: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(CMTRF, "save", break_down)
    answer = run("fit", folder / "ratings.csv", "-o", tmp_path / "m.cmtrf", "--scales", "1", *WEAK)
    assert_one_sentence(answer, 1, "RuntimeError: two lines", "--debug")
    monkeypatch.setattr(CMTRF, "save", lambda self, path: Path(path).parent.joinpath("no", "m").write_bytes(b""))
    answer = run("fit", folder / "ratings.csv", "-o", tmp_path / "m.cmtrf", "--scales", "1", *WEAK)
    assert_one_sentence(answer, 1, tmp_path / "no" / "m")


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(run, folder, tmp_path):
    words = ["fit", folder / "ratings.csv", "-o", tmp_path / "m.cmtrf", "--scales", "1", "--max-sweeps", "1"]
    status, out, err = run(*words, "--json")
    assert (status, json.loads(out)["converged"]) == (0, False)
    assert err.startswith("cmtrf: warning: the objective was still falling")
    assert err.count("\n") == 1


def test_ctrl_c_leaves_nothing(folder, tmp_path):
    program = (
        "import signal\nfrom cmtrf.cli.main import main\nimport cmtrf.progress as progress\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def interrupt(bar, record):\n    if record.sweep == 5: signal.raise_signal(signal.SIGINT)\n"
        "progress.Bar.update = interrupt\nmain()"
    )
    words = ["fit", folder / "ratings.csv", "-o", "m.cmtrf", "--scales", "1", "--tol", "0"]
    status, out, err = run_apart(program, *words, folder=tmp_path)
    assert status == 128 + signal.SIGINT
    assert out == ""
    assert err.splitlines()[-1] == "cmtrf: interrupted; no file was written"
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


# Pieces -----------------------------------------------------------------------------------------------------


def test_a_table_for_people():
    rows = [(1, "日本", 4.25, None), (12, "a\nb\x1b[31m", 3.0, "unknown user")]
    assert list(console.align(["user", "item", "rating", "fallback"], rows)) == [
        "user  item         rating  fallback",
        "   1  日本          4.250",
        "  12  a b\\x1b[31m   3.000  unknown user",
    ]


def test_a_table_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console.deliver_table(pl.DataFrame({"user": [1], "rating": [4.5]}), None, as_json=False)
    assert capsys.readouterr().out == "user  rating\n   1   4.500\n"


def test_json_has_no_nan(capsys):
    console.print_json({"a": [float("nan"), 1.5], "b": ({"c": float("nan")},)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5], "b": [{"c": None}]}


def test_words_of_the_summary():
    assert word_levels([float(level) for level in range(20)]) == "0 1 2 ... 19 (20 levels)"
    assert word_levels([0.5, 1.0]) == "0.5 1"
    assert word_levels(["so so", "good"]) == "'so so', 'good'"
    assert word_scales("fixed", [9]) == "the levels as they are numbered"
    assert word_scales(1, [9]) == "one for all users"
    assert word_scales(3, [5, 1000, 2]) == "3, used by 5, 1,000 and 2 users"
    assert word_scales(20, [1] * 20) == "20"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("pass levels=[...] with all of them", "pass --levels LEVEL,... with all of them"),
        ("or pass duplicates='last', 'first' or 'keep'", "or pass --duplicates last, 'first' or 'keep'"),
        ("pass user='<column>'", "pass --user <column>"),
        ("name their column with timestamp=, or", "name their column with --timestamp, or"),
        ("n_scales=4 needs more, or seeds=4, say", "--scales 4 needs more, or --seeds 4, say"),
        ("point: n_scales=4 needs more", "point: --scales 4 needs more"),
        ("column 'x' has what levels=['1', '2'] lacks", "column 'x' has what levels=['1', '2'] lacks"),
        ("pass levels=['1', '2'] as a list", "pass --levels 1,2 as a list"),
        ("the user 'item=3' is not there", "the user 'item=3' is not there"),
        ("see --levels=3 and /a/user=b/c", "see --levels=3 and /a/user=b/c"),
        ("there is no file x=1.csv", "there is no file x=1.csv"),
    ],
)
def test_errors_name_options_as_they_are_typed(message, told):
    assert console._as_options(message) == told
