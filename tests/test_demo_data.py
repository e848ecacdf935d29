from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import polars as pl
import pytest

from cmtrf.datasets import load_demo

ROOT = Path(__file__).resolve().parent.parent
SURVEY = ROOT.parent / "shared" / "data" / "food-world-cup.zip"


@pytest.fixture(scope="module")
def demo() -> pl.DataFrame:
    return load_demo()


def test_counts(demo):
    assert demo.schema == {"user": pl.Int64, "item": pl.String, "rating": pl.Int64}
    assert demo.height == 23_943
    assert demo["user"].n_unique() == 1_276
    assert demo["item"].n_unique() == 40


def test_nobody_rates_a_cuisine_twice_and_nothing_is_missing(demo):
    assert not demo.select("user", "item").is_duplicated().any()
    assert demo.null_count().sum_horizontal().item() == 0


def test_all_five_levels_occur_with_the_counts_of_the_survey(demo):
    counts = dict(demo.group_by("rating").len().iter_rows())
    assert counts == {1: 521, 2: 2_083, 3: 9_121, 4: 8_149, 5: 4_069}


def test_titles_are_clean(demo):
    assert all(title == title.strip() and title.isascii() for title in demo["item"].unique())
    assert {"Italy", "the Netherlands", "Bosnia and Herzegovina"} <= set(demo["item"])


@pytest.mark.parametrize(
    "text",
    [
        (resources.files("cmtrf.datasets") / "data" / "food_world_cup.NOTICE.md").read_text("utf-8"),
        (ROOT / "NOTICE").read_text("utf-8"),
        load_demo.__doc__,
    ],
    ids=["beside the file", "NOTICE", "docstring"],
)
def test_attribution_licence_and_change_are_told(text):
    assert "FiveThirtyEight" in text
    assert "CC BY 4.0" in text
    assert "https://creativecommons.org/licenses/by/4.0/" in text
    assert "eshaped" in text


@pytest.mark.data
@pytest.mark.skipif(not SURVEY.is_file(), reason="needs ../shared/data/food-world-cup.zip")
def test_the_shipped_file_is_what_its_script_makes(demo):
    program = (
        "import sys, make_demo_data as make; from pathlib import Path\n"
        "print(*make.list_ratings(make.read_answers(Path(sys.argv[1]))), sep='\\n')"
    )
    made = subprocess.run(
        [sys.executable, "-c", program, str(SURVEY)],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert made.stdout.splitlines() == [str(row) for row in demo.iter_rows()]
