"""A bar that moves while replications are simulated."""

from __future__ import annotations

import sys
import time
from typing import Any, Self

from analysis.console import console

__all__ = ["Progress"]


class Progress:
    """A bar on standard error, on a terminal only, for what takes more than a second."""

    def __init__(self, what: str, *, quiet: bool) -> None:
        self.what = what
        self.enabled = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.start = time.perf_counter()
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, done: int, total: int | None) -> None:
        """Show that `done` of `total` replications are there."""
        if not self.enabled or time.perf_counter() - self.start < 1.0:
            return
        if self.bar is None:
            from rich import progress

            self.bar = progress.Progress(
                progress.TextColumn(self.what, markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                console=console(sys.stderr),
                transient=True,
            )
            self.task = self.bar.add_task("", total=total)
            self.bar.start()
        self.bar.update(self.task, completed=done)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
