"""``cmtrf predict``: a model and pairs in, predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cmtrf.cli.console import TABLE_SUFFIXES, Debug, Jobs, Json, check_output, deliver_table

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="File that cmtrf fit wrote.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        help="CSV, TSV or Parquet file to write.",
        show_default="print a table",
    ),
]


def predict(
    model: Model,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="Table with the columns user and item.")],
    output: Output = None,
    proba: Annotated[bool, typer.Option("--proba", hidden=True, help="Not in this version yet.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(metavar="COVERAGE", min=0, max=1, hidden=True, help="Not in this version yet."),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="COLUMN", help="Name of the column of users.")] = None,
    item: Annotated[str | None, typer.Option(metavar="COLUMN", help="Name of the column of items.")] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the rating of each pair of user and item.

    The column fallback says why a mean rating stood in for a user or item that the model does not know.
    """
    check_output(output, TABLE_SUFFIXES)
    from cmtrf.estimators import load

    fitted = load(model).set_params(n_jobs=jobs)
    table = fitted.predict_table(pairs, proba=proba, interval=interval, user=user, item=item)
    deliver_table(table, output, as_json=as_json)
