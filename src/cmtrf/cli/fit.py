"""``cmtrf fit``: a table of ratings in, a model file out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmtrf.cli.console import MODEL_SUFFIXES, Debug, Jobs, Json, check_output, print_json, print_pairs
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
    from cmtrf.estimators import CMTRF

MODEL, RUN = "The model", "The run"
MANY = 12  # more levels or scales than this are not listed in the summary


class SolverName(StrEnum):
    """How the objective is minimised."""

    AUTO = "auto"
    ALTERNATING = "alternating"
    JOINT = "joint"


def fit(
    ratings: Annotated[Path, typer.Argument(metavar="RATINGS", help="CSV, TSV, Parquet or MovieLens file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL", help="File to write, such as model.cmtrf.")
    ],
    scales: Annotated[
        str,
        typer.Option(
            metavar="user|4|1|fixed",
            help="A scale for each user, for each of 4 (2, 3, ...) types of users, one for all, "
            "or the levels as they are numbered.",
            rich_help_panel=MODEL,
        ),
    ] = "4",
    rank: Annotated[int, typer.Option(metavar="N", min=0, help="Number of factors.", rich_help_panel=MODEL)] = 20,
    lambda_u: Annotated[
        float,
        typer.Option("--lambda-u", metavar="NUMBER", min=0, help="Ridge of the user factors.", rich_help_panel=MODEL),
    ] = 6.0,
    lambda_v: Annotated[
        float,
        typer.Option("--lambda-v", metavar="NUMBER", min=0, help="Ridge of the item factors.", rich_help_panel=MODEL),
    ] = 6.0,
    lambda_bias: Annotated[
        float,
        typer.Option("--lambda-bias", metavar="NUMBER", min=0, help="Ridge of the offsets.", rich_help_panel=MODEL),
    ] = 3.0,
    bias: Annotated[
        bool, typer.Option("--bias/--no-bias", help="Offsets of users and items.", rich_help_panel=MODEL)
    ] = False,
    margin: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER,...",
            help="Least distance of neighbouring levels: one for all, or one a gap, lowest first.",
            show_default="0.5",
            rich_help_panel=MODEL,
        ),
    ] = None,
    levels: Levels = None,
    duplicates: Duplicates = DuplicatesName.ERROR,
    user: User = None,
    item: Item = None,
    rating: Rating = None,
    timestamp: Timestamp = None,
    weight: Weight = None,
    solver: Annotated[SolverName, typer.Option(help="How it is minimised.", rich_help_panel=RUN)] = SolverName.AUTO,
    max_sweeps: Annotated[int, typer.Option(metavar="N", min=1, help="Most sweeps.", rich_help_panel=RUN)] = 100,
    tol: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            min=0,
            help="Stop when the objective falls by less than this part.",
            rich_help_panel=RUN,
        ),
    ] = 1e-5,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Same seed, same model.", rich_help_panel=RUN)] = 0,
    jobs: Jobs = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table of ratings.

    Columns with usual names (user, item, rating, ...) are found; others are named.
    """
    parameters: dict[str, Any] = {
        "n_scales": read_scales(scales),
        "rank": rank,
        "lambda_u": lambda_u,
        "lambda_v": lambda_v,
        "lambda_bias": lambda_bias,
        "bias": bias,
        "margin": read_margin(margin),
        "levels": read_levels(levels),
        "duplicates": duplicates.value,
        "solver": solver.value,
        "max_sweeps": max_sweeps,
        "tol": tol,
        "random_state": seed,
        "n_jobs": jobs,
    }
    check_output(output, MODEL_SUFFIXES)
    from cmtrf.estimators import CMTRF

    model = CMTRF(**parameters)
    model.fit(ratings, user=user, item=item, rating=rating, timestamp=timestamp, weight=weight)
    model.save(output)
    summary = summarize(model, output)
    print_json(summary) if as_json else print_pairs(word(summary))


def read_scales(text: str) -> int | str:
    """Read ``--scales``: user, fixed, or how many."""
    if text in ("user", "fixed"):
        return text
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text)
    raise typer.BadParameter(f"{text!r} is neither user, fixed nor a whole number from 1 on", param_hint="--scales")


def read_margin(text: str | None) -> float | list[float] | None:
    """Read ``--margin``: a number, or one a gap."""
    if text is None:
        return None
    try:
        gaps = [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number or numbers with commas", param_hint="--margin") from None
    return gaps[0] if len(gaps) == 1 else gaps


def summarize(model: CMTRF, output: Path) -> dict[str, Any]:
    """Say what was fitted, for machines."""
    table = model.scales()
    n_levels = len(model.levels_)
    n_ratings = table["n_ratings"].sum()
    return {
        "ratings": n_ratings,
        "users": len(model.users_),
        "items": len(model.items_),
        "levels": model.levels_.tolist(),
        "columns": model.columns_,
        "scales": model.n_scales,
        "users_by_scale": None if model.n_scales == "user" else table["n_users"].to_list()[::n_levels],
        "sweeps": model.n_sweeps_,
        "objective": float(model.objective_[-1]),
        "converged": bool(model.converged_),
        "model": str(output),
    }


def word(summary: dict[str, Any]) -> dict[str, str]:
    """Say the same for people."""
    return {
        "ratings": f"{summary['ratings']:,} by {summary['users']:,} users of {summary['items']:,} items",
        "levels": word_levels(summary["levels"]),
        "columns": ", ".join(f"{role} = {name!r}" for role, name in summary["columns"].items()),
        "scales": word_scales(summary["scales"], summary["users_by_scale"]),
        "sweeps": f"{summary['sweeps']}, {'converged' if summary['converged'] else 'not converged'}",
        "objective": f"{summary['objective']:.6g}",
        "written": summary["model"],
    }


def word_levels(levels: list[float] | list[str]) -> str:
    """List the levels, or where they are many the first and the last."""
    names = [f"{level:g}" if isinstance(level, float) else repr(level) for level in levels]
    few = names if len(names) <= MANY else [*names[:3], "...", names[-1], f"({len(names)} levels)"]
    return (" " if isinstance(levels[0], float) else ", ").join(few)


def word_scales(scales: int | str, users: list[int] | None) -> str:
    """Say how many scales there are and who uses them."""
    if scales == "fixed":
        return "the levels as they are numbered"
    if users is None:
        return "one for each user"
    if len(users) == 1:
        return "one for all users"
    if len(users) > MANY:
        return str(len(users))
    counts = [f"{count:,}" for count in users]
    return f"{len(users)}, used by {', '.join(counts[:-1])} and {counts[-1]} users"
