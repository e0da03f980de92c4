"""What the commands about studies do between reading a study and printing: open the folder, play, write."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.sweep.campaign import Campaign
from analysis.sweep.executors import crew_at
from analysis.sweep.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from analysis.study.load import LoadedStudy
    from analysis.sweep.executors import Where

__all__ = ["campaign_of"]


@contextlib.contextmanager
def campaign_of(
    loaded: LoadedStudy,
    out: Path | None,
    where: Where,
    progress: Callable[[int, int | None], None],
) -> Iterator[Campaign]:
    """Yield a study ready to be played, with its journal in a folder: one that goes away if none is named."""
    with contextlib.ExitStack() as stack:
        folder = out if out is not None else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        journal = stack.enter_context(Journal(folder / "journal.jsonl"))
        crew = stack.enter_context(crew_at(where))
        yield Campaign(loaded, journal, crew, progress)
