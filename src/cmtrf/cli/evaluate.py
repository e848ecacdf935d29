"""``cmtrf evaluate``: a table in, models side by side out."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import isfinite
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmtrf.cli.console import Debug, Jobs, Json, align, check_output, print_json, say
from cmtrf.cli.options import (
    Duplicates,
    DuplicatesName,
    Item,
    Levels,
    Rating,
    Timestamp,
    User,
    Weight,
    read_levels,
)

if TYPE_CHECKING:
    from cmtrf.evaluate import Evaluation

WIDTH = 80
COMPARED = {"mse": "squared error", "mse_known": "  of rows not cold", "log_loss": "log loss"}
SPLIT, RUNS = "The split", "The runs"


class SplitName(StrEnum):
    """How a table is split."""

    AUTO = "auto"
    CHRONOLOGICAL = "chronological"
    UNIFORM = "uniform"
    USER = "user"
    PUBLISHED = "published"
    PAPER = "paper"


class Score(StrEnum):
    """Which errors count."""

    ALL = "all"
    PAPER = "paper"


def evaluate(
    ratings: Annotated[
        Path,
        typer.Argument(
            metavar="RATINGS",
            help="CSV, TSV, Parquet or MovieLens file; or the archive or folder of a known set.",
        ),
    ],
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Test part of its own; RATINGS is then all train.", rich_help_panel=SPLIT),
    ] = None,
    split: Annotated[
        SplitName,
        typer.Option(
            help="auto: as a column part says, else by time where there are time stamps, else uniform. user: a share "
            "of everyone's ratings. paper: as the paper split its sets.",
            rich_help_panel=SPLIT,
        ),
    ] = SplitName.AUTO,
    test_share: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the rows that are test.", rich_help_panel=SPLIT)
    ] = 0.2,
    known_set: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME",
            help="Which known set RATINGS is: ml-100k, ml-100k-u, ml-1m, ml-10m, goodbooks, epinions, douban, "
            "flixster, movietweetings.",
            show_default="found by its files",
            rich_help_panel=SPLIT,
        ),
    ] = None,
    models: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="point (CMTRF with its defaults), mf (plain), biased-mf, bias (means only), 1-cmtrf, n-cmtrf, "
            "k-cmtrf (the paper's); the others are compared with the first.",
            rich_help_panel=RUNS,
        ),
    ] = "point,mf,biased-mf,bias",
    seeds: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Fits of each model; more give a spread.", rich_help_panel=RUNS),
    ] = 1,
    score: Annotated[
        Score,
        typer.Option(help="all: every test row. paper: as the paper's program counts.", rich_help_panel=RUNS),
    ] = Score.ALL,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT.json",
            help="Keep results here and predictions beside it; rerunning does only what is missing.",
            show_default="keep nothing",
            rich_help_panel=RUNS,
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, whatever OUT.json holds.", rich_help_panel=RUNS)
    ] = False,
    levels: Levels = None,
    duplicates: Duplicates = DuplicatesName.ERROR,
    user: User = None,
    item: Item = None,
    rating: Rating = None,
    timestamp: Timestamp = None,
    weight: Weight = None,
    jobs: Jobs = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Judge models side by side on a part of the table that they have not seen.

    What has to be chosen for a model is chosen on a part of train. Then it is fitted to all of train.

    Errors are means over all test rows, cold ones included: those whose user or item train lacks.
    """
    check_output(output, (".json",))
    if fresh and output is None:
        raise typer.BadParameter("there is nothing to start over without -o", param_hint="--fresh")
    from cmtrf.evaluate import evaluate as run

    result = run(
        ratings,
        test=test,
        split=split.value,
        test_share=test_share,
        known_set=known_set,
        models=[name.strip() for name in models.split(",") if name.strip()],
        seeds=seeds,
        score=score.value,
        levels=read_levels(levels),
        duplicates=duplicates.value,
        output=output,
        fresh=fresh,
        n_jobs=jobs,
        user=user,
        item=item,
        rating=rating,
        timestamp=timestamp,
        weight=weight,
    )
    print_json(result.as_dict()) if as_json else show(result)
    if output is not None and not as_json:
        say(f"written to {output}, every prediction to {output.with_name(output.stem + '.parts')}")


# For people -------------------------------------------------------------------------------------------------


def show(result: Evaluation) -> None:
    """Print a column a model and a line a measure."""
    from cmtrf.evaluate.measure import MEASURES

    data, summary = result.data, result.summary
    if data["set"]:
        print(f"{data['set']}: {data['release'] or 'not a release that is known by its checksum'}")
        print(f"read: {', '.join(data['files'])}")
    print("columns: " + ", ".join(f"{role} = {name!r}" for role, name in data["columns"].items()))
    print(fill(result.text, WIDTH))
    if result.score == "paper":
        print(
            fill(
                "MSE, RMSE and MAE of the mean as the paper's program counts them: predictions not clipped, users of "
                "one level left out of sums, though not of divisors, for models with several scales",
                WIDTH,
            )
        )
    print()
    lines = {**MEASURES, "seconds": "seconds to fit", "peak_mb": "peak memory, MB"}
    if not data["n_cold"]:
        lines = {name: about for name, about in lines.items() if not name.endswith("_known")}
    for models in _fold(summary, lines):
        rows = [[about, *(_cell(row, name) for row in models)] for name, about in lines.items()]
        for line in align(["", *(row["model"] for row in models)], rows, to_the_right=[False] + [True] * len(models)):
            print(line)
        print()
    show_notes(result)


def _fold(summary: list[dict[str, Any]], lines: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Models that fit side by side on the terminal; in a pipe, all."""
    room = get_terminal_size().columns if sys.stdout.isatty() else 10**6
    left, used = max(map(len, lines.values())), 0
    block: list[dict[str, Any]] = []
    for row in summary:
        width = 2 + max(len(row["model"]), *(len(_cell(row, name)) for name in lines))
        if block and left + used + width > room:
            yield block
            block, used = [], 0
        block.append(row)
        used += width
    yield block


def show_notes(result: Evaluation) -> None:
    """Print what was chosen, differences with their standard errors, and what to be careful about."""
    chosen = {name: found["params"] for name, found in result.tuning.items() if found["params"]}
    if chosen:
        print("chosen on a part of train")
        _print_rows([[name, _word(params)] for name, params in chosen.items()], [False, False])
    if result.paired:
        first = result.paired[0]["against"]
        print(f"\nloss less that of {first} on the same rows; below 0 is better (standard error)")
        rows = [
            [found["model"], COMPARED[found["measure"]], f"{found['difference']:+.4f}", _error(found)]
            for found in result.paired
        ]
        _print_rows(rows, [False, False, True, True])
    for name, found in result.tuning.items():
        weakest = {trial["params"].get("lambda") for trial in found.get("trials", ())} - {None}
        if weakest and found["params"].get("lambda_u") == min(weakest):
            say(
                f"{name}: the weakest lambda that was tried is the best, a weaker one may be better: "
                "cmtrf.tuning.search takes a list of your own"
            )
    unsettled = dict.fromkeys(run["model"] for run in result.runs if run["converged"] is False)
    if unsettled:
        say(f"measured where they stood after max_sweeps, not settled yet: {', '.join(unsettled)}")


def _print_rows(rows: list[list[str]], to_the_right: list[bool]) -> None:
    for line in list(align([""] * len(rows[0]), rows, to_the_right=to_the_right))[1:]:
        print(f"  {line}")


def _cell(row: dict[str, Any], name: str) -> str:
    """Mean, and the spread where it shows in the digits that are printed."""
    value, spread = row[name], row[f"{name}_spread"]
    digits = {"seconds": 2, "peak_mb": 0}.get(name, 4)
    if value is None:
        return "-"
    shown = "" if spread is None else f" ±{spread:.{digits}f}"
    return f"{value:.{digits}f}" + (shown if spread is not None and float(shown[2:]) > 0 else "")


def _error(found: dict[str, Any]) -> str:
    error = found["standard_error"]
    return f"({error:.4f})" if isfinite(error) else "(-, one user)"


def _word(params: dict[str, Any]) -> str:
    """Say parameters as short as can be; lambda_u and lambda_v that are one number are called lambda."""
    shown = dict(params)
    if "lambda_u" in shown and shown.get("lambda_u") == shown.get("lambda_v"):
        shown = {"lambda": shown.pop("lambda_u"), **{k: v for k, v in shown.items() if k != "lambda_v"}}
    return ", ".join(f"{name} {_number(value)}" for name, value in shown.items())


def _number(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " and ".join(_number(each) for each in value)
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
