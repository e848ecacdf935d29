"""Options that several verbs have: what a table is, and which of its columns are which."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

TABLE = "The table"


class DuplicatesName(StrEnum):
    """What to do where a user rated an item twice."""

    ERROR = "error"
    KEEP = "keep"
    LAST = "last"
    FIRST = "first"


Levels = Annotated[
    str | None,
    typer.Option(
        metavar="LEVEL,...",
        help="The rating scale, lowest first: numbers or words.",
        show_default="those that occur where a model is fitted",
        rich_help_panel=TABLE,
    ),
]
Duplicates = Annotated[DuplicatesName, typer.Option(help="A user rated an item twice.", rich_help_panel=TABLE)]
User = Annotated[str | None, typer.Option(metavar="COLUMN", help="Users.", rich_help_panel=TABLE)]
Item = Annotated[str | None, typer.Option(metavar="COLUMN", help="Items.", rich_help_panel=TABLE)]
Rating = Annotated[str | None, typer.Option(metavar="COLUMN", help="Ratings.", rich_help_panel=TABLE)]
Timestamp = Annotated[str | None, typer.Option(metavar="COLUMN", help="Times.", rich_help_panel=TABLE)]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="Weights.", rich_help_panel=TABLE)]


def read_levels(text: str | None) -> list[str] | None:
    """Read ``--levels``: texts with commas between them, lowest first."""
    return None if text is None else [level.strip() for level in text.split(",")]
