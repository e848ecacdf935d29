"""Make the demo data of the package from FiveThirtyEight's "Food World Cup" survey.

Takes the path of a zip that holds ``food-world-cup-data.csv`` as published, one row a respondent, and writes
one row a rating. The same zip gives the same table, and with the same zlib the same bytes::

    python tools/make_demo_data.py food-world-cup.zip
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import zipfile
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "src/cmtrf/datasets/data/food_world_cup.csv.gz"
QUESTION = re.compile(r"how much you like the traditional cuisine of\s(.+?)[.:]?$")


def read_answers(path: Path) -> list[list[str]]:
    """Rows of the survey as published, the questions first."""
    with zipfile.ZipFile(path) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("food-world-cup-data.csv")]
        text = archive.read(name).decode("mac-roman")  # its no-break spaces are 0xCA
    return list(csv.reader(io.StringIO(text)))


def list_ratings(answers: list[list[str]]) -> list[tuple[int, str, int]]:
    """(respondent's row, cuisine, rating) for every answer that is a rating."""
    questions, *respondents = answers
    cuisines = {column: found[1] for column, text in enumerate(questions) if (found := QUESTION.search(text))}
    return [
        (user, cuisine, int(row[column]))
        for user, row in enumerate(respondents, start=1)
        for column, cuisine in cuisines.items()
        if row[column] in {"1", "2", "3", "4", "5"}
    ]


def main() -> None:
    """Write the table to its place in the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("zip", type=Path, help="the survey as published, zipped")
    ratings = list_ratings(read_answers(parser.parse_args().zip))
    lines = ["user,item,rating", *(f"{user},{item},{rating}" for user, item, rating in ratings), ""]
    TARGET.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    print(f"{TARGET.name}: {len(ratings):,} ratings, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
