"""What a long run shows: a bar on a terminal, a record after each sweep for a callback, a notice when it must wait."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """What is known after a sweep. Fields are also reached like a mapping's, ``record["objective"]``."""

    sweep: int  # 1, 2, ...
    objective: float
    relative_fall: float  # of the objective, against the sweep before; inf after the first
    moved: int  # users that changed scale
    seconds: float  # since the phase began

    def __getitem__(self, name: str) -> Any:
        """Return a field by its name."""
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


class Progress:
    """A bar for each phase of what takes long on stderr, or nothing."""

    def __init__(self, show: bool | None = None) -> None:
        self.quiet = show is not None and not show
        self.shown = sys.stderr.isatty() if show is None else bool(show)

    @contextmanager
    def phase(self, title: str, total: int) -> Iterator[Bar]:
        """Show one phase of at most ``total`` steps."""
        if not self.shown:
            yield Bar()
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as RichProgress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (
            TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"), TimeElapsedColumn(),
        )  # fmt: skip
        with RichProgress(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(title, total=total, note="")
            bar = Bar(bars, task)
            yield bar
            bars.update(task, total=bars.tasks[task].completed)  # settled before the last sweep allowed

    @contextmanager
    def slow(self, message: str, after: float = 1.0) -> Iterator[None]:
        """Tell the user why they wait, once, if the block takes longer than ``after`` seconds.

        Said on stderr whatever ``progress`` is, unless it was switched off: a silent pause of ten seconds
        looks like a fault.
        """
        if self.quiet:
            yield
            return
        timer = threading.Timer(after, _say_once, [message])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


_said: set[str] = set()


def _say_once(message: str) -> None:
    if message not in _said:
        _said.add(message)
        print(message, file=sys.stderr, flush=True)


class Bar:
    """One phase, as it is drawn; nothing is where there are no bars."""

    def __init__(self, bars: Any = None, task: Any = None) -> None:
        self._bars, self._task = bars, task

    def update(self, record: Record) -> None:
        """Draw a sweep."""
        self.show(record.sweep, f"objective {record.objective:.6g}")

    def show(self, completed: int, note: str) -> None:
        """Draw how many steps are done, and one more thing that is known."""
        if self._bars is not None:
            self._bars.update(self._task, completed=completed, note=note)
