"""The rating data that the package ships."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def load_demo() -> pl.DataFrame:
    """Load the Food World Cup: how people in the United States like the cuisines of forty countries.

    The answers were worded; the ratings are their numbers:

    ===  ==================================================
    5    love it, one of the best cuisines in the world
    4    like it, considerably above average
    3    OK with it, about average
    2    dislike it, considerably below average
    1    hate it, one of the worst in the world
    ===  ==================================================

    "Unfamiliar with it" was an answer too; those pairs are not in the table.

    Returns
    -------
    polars.DataFrame
        One row a rating: ``user`` (number of the respondent), ``item`` (name of the country), ``rating``
        (1 to 5); 23,943 ratings by 1,276 respondents.

    Notes
    -----
    Data by FiveThirtyEight (`Food World Cup
    <https://github.com/fivethirtyeight/data/tree/master/food-world-cup>`_), licence `CC BY 4.0
    <https://creativecommons.org/licenses/by/4.0/>`_. Reshaped from one row a respondent to one row a rating;
    "N/A" answers, and all questions that are not about a cuisine, are left out.

    Examples
    --------
    >>> from cmtrf.datasets import load_demo
    >>> load_demo().head(3).rows()
    [(1, 'Argentina', 3), (1, 'Australia', 5), (1, 'Belgium', 4)]
    """
    import polars as pl  # a tenth of a second that `import cmtrf` need not spend

    table = resources.files("cmtrf.datasets") / "data" / "food_world_cup.csv.gz"
    schema = {"user": pl.Int64, "item": pl.String, "rating": pl.Int64}
    return pl.read_csv(table.read_bytes(), schema=schema)
