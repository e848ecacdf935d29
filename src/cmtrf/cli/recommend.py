"""``cmtrf recommend``: a model in, the best items for its users out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmtrf.cli.console import TABLE_SUFFIXES, Debug, Json, check_output, deliver_table, say
from cmtrf.cli.predict import Model, Output

if TYPE_CHECKING:
    from cmtrf.estimators import CMTRF


def recommend(
    model: Model,
    more: Annotated[list[str] | None, typer.Argument(metavar="ID", help="More users.")] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Whom to recommend to; may be repeated.", show_default="everyone"),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many for each user.")] = 10,
    output: Output = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what the user has rated.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Recommend items that a user has not rated, best first."""
    check_output(output, TABLE_SUFFIXES)
    from cmtrf.estimators import load

    fitted = load(model)
    wanted = [*(user or []), *(more or [])]
    users = find_users(fitted, wanted, model) if wanted else None
    table = fitted.recommend(users, n=n, exclude_seen=not include_seen)
    if users is not None:
        for left in sorted(set(users.tolist()) - set(table["user"].to_list())):
            say(f"user {left} has rated every item of the model; --include-seen recommends those too")
    deliver_table(table, output, as_json=as_json)


def find_users(fitted: CMTRF, texts: Sequence[str], path: Path) -> Any:
    """Turn texts into ids of the model's kind; one that it does not know is an error."""
    from cmtrf.errors import UnknownIdError
    from cmtrf.vocabulary import Vocabulary

    vocabulary = Vocabulary(fitted.users_)
    texts = list(dict.fromkeys(texts))
    ids = vocabulary.parse(texts)
    unknown = [text for text, code in zip(texts, vocabulary.codes(ids), strict=True) if code < 0]
    if unknown:
        known = ", ".join(map(str, fitted.users_[:3].tolist()))
        raise UnknownIdError(
            f"{path} does not know the user{'s' if len(unknown) > 1 else ''} "
            f"{', '.join(map(repr, unknown))}; "
            f"its {len(vocabulary):,} users begin with {known}"
        )
    return ids
