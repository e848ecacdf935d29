"""The paper's table of data sets beside what its splits come to here.

    python benchmarks/paper_counts.py DIR

DIR holds the published files; a set that is not there is left out. Two lines more: the set that the table calls a
chronological split of ML-1M, split by time.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from cmtrf import datasets, splits
from cmtrf.errors import DataError, DataWarning
from cmtrf.splits import Split
from cmtrf.splits.protocol import PAPER


def count(split: Split) -> str:
    """Users and items of train, train rows, test rows that stay, cold rows."""
    users, items = len(set(split.train_columns.user.tolist())), len(set(split.train_columns.item.tolist()))
    train, test = len(split.train_columns), int((~split.cold).sum())
    cold = split.left_out + int(split.cold.sum())
    return f"{users:>7,}{items:>8,}{train:>11,}{test:>9,}{cold:>9,}{train + test:>11,}{train + test + cold:>11,}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore", DataWarning)  # the two lines side by side say it
    print(f"{'':22}{'users':>7}{'items':>8}{'train':>11}{'test':>9}{'cold':>9}{'warm':>11}{'all':>11}")
    for name, stated in PAPER.items():
        try:
            table = datasets.load(name, folder)
            split = splits.paper(table, name)
        except DataError:
            continue
        n = f"{stated.ratings:,}"
        print(
            f"{name:<10}{'paper':<12}{stated.users:>7,}{stated.items:>8,}"
            + " " * (40 if stated.counts_cold else 29)
            + f"{n:>11}"
        )
        print(f"{'':10}{'here':<12}{count(split)}")
        if name == "ml-1m":
            print(f"{'':10}{'by time':<12}{count(splits.chronological(table, 1 - 800_000 / len(table)))}")
