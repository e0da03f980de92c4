"""What the commands about studies do between reading a study and printing: open the folder, simulate, write."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import number_of
from ettrick.analysis.results.run import render
from ettrick.analysis.statistics.precision import ReplicationsError
from ettrick.analysis.sweep.campaign import Campaign
from ettrick.analysis.sweep.document import sweep_document
from ettrick.analysis.sweep.folder import JOURNAL, FolderError, StudyFolder
from ettrick.analysis.sweep.journal import Journal, JournalError
from ettrick.analysis.sweep.sweep import kept_metrics, simulate, table_of
from ettrick.analysis.sweep.task import VersionError
from ettrick.analysis.sweep.workers import WorkerError, worker_pool_at
from ettrick.sim import WorkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.analysis.parts import Document
    from ettrick.analysis.results.models import SweepDocument
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.sweep.task import Shard
    from ettrick.analysis.sweep.workers import ExecutorOptions

TROUBLE = (ReplicationsError, WorkError, JournalError, FolderError, WorkerError, VersionError)
"""What may be wrong with an order to simulate a study, in one line."""


class StudyRun(NamedTuple):
    """A study ready to be simulated, and the folder in which it is kept, if it is."""

    campaign: Campaign
    folder: StudyFolder | None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of what was in the folder."""
        return () if self.folder is None else self.folder.notes


@contextlib.contextmanager
def workplace(
    loaded: LoadedStudy,
    where: ExecutorOptions,
    progress: Callable[[int, int | None], None],
    *,
    out: Path | None = None,
    overwrite: bool = False,
    shard: Shard | None = None,
) -> Iterator[StudyRun]:
    """Yield a study ready to be simulated: kept in a folder, or nowhere.

    Raises
    ------
    RequestError
        If a shard is asked for a precision.
    FolderError, JournalError, WorkerError
        If the folder cannot take the study, or there is no worker.
    """
    if shard is not None and loaded.study.precision is not None:
        raise ReplicationsError(
            "precision: is not for shards: how many replications a point needs follows from outcomes that other shards "
            "have; give replications, or simulate the study in one piece"
        )
    with contextlib.ExitStack() as stack:
        folder = None
        if out is None:
            passing = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ettrick-")))
            journal = stack.enter_context(Journal(passing / JOURNAL))
        else:
            name = None if shard is None else str(shard)
            folder = stack.enter_context(StudyFolder(out, loaded, shard=name, overwrite=overwrite))
            journal = folder.journal
        worker_pool = stack.enter_context(worker_pool_at(where))
        campaign = Campaign(loaded, journal, worker_pool, progress)
        if shard is not None:
            campaign = Campaign(loaded, journal, worker_pool, progress, shard.mine)
        yield StudyRun(campaign, folder)


def run_sweep(
    place: StudyRun, command: str, sentences: Callable[[SweepDocument], list[list[str]]]
) -> tuple[SweepDocument, list[str]]:
    """Return the document of a study whose points are all simulated, and the files that were written."""
    campaign = place.campaign
    metrics = kept_metrics(campaign.loaded)
    how_far = simulate(campaign)
    table = table_of(campaign, how_far)
    for name in metrics:
        if table.running and not any(name in cell.stated.metrics for cell in table.running):
            raise ReplicationsError(f"no point has a {name}")
    content = sweep_document(campaign.loaded, table, command=command)
    worded = [
        answer.model_copy(update={"sentences": words})
        for answer, words in zip(content.answers, sentences(content), strict=True)
    ]
    content = content.model_copy(update={"answers": worded})
    files: list[str] = []
    if place.folder is not None:
        files = place.folder.write(render(content), campaign, lambda point: how_far(point)[0], metrics)
    return content, files


def run_shard(place: StudyRun) -> dict[str, int]:
    """Simulate the tasks of a shard, and return how many outcomes there are of each status."""
    simulate(place.campaign)
    counts: dict[str, int] = {}
    for record in place.campaign.journal:
        counts[record.status] = counts.get(record.status, 0) + 1
    return counts


def keep(place: StudyRun, content: Document, name: str) -> list[str]:
    """Write the document of a sensitivity or an optimisation into the folder, if there is one; return the files."""
    if place.folder is None:
        return []
    place.folder.keep(name, render(content))
    return [name]


def format_shard(counts: dict[str, int], shard: Shard) -> str:
    """Return what a shard has simulated, in words."""
    listed = ", ".join(f"{number:,} {status}" for status, number in sorted(counts.items())) or "none"
    return f"shard {shard.number} of {shard.count}: {number_of(sum(counts.values()), 'outcome')} ({listed})"


def against_shard(counts: dict[str, int]) -> list[str]:
    """Return why a shard is not done, in a line: tasks that failed or crashed."""
    bad = [f"{counts[status]:,} {status}" for status in ("failed", "crashed") if counts.get(status)]
    return [f"tasks that went wrong: {', '.join(bad)}; the same command tries them again"] if bad else []
