"""Several folders of one study, such as its shards, made into one that the study can go on from."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ettrick.analysis.amounts import number_of
from ettrick.analysis.results.files import made_folder, not_to_be_used, whole_files
from ettrick.analysis.sweep.folder import JOURNAL, STUDY
from ettrick.analysis.sweep.journal import Journal, JournalError
from ettrick.analysis.sweep.task import Shard

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.sweep.task import Record

_RESOLVED = "study.resolved.yaml"
_COPIED = (_RESOLVED, "scenario.resolved.yaml", "input-*")

_RANK = {"ok": 3, "infeasible": 2, "failed": 1, "crashed": 0}
"""The rank of outcomes of a task: the higher counts, because it got further."""


class MergeError(ValueError):
    """Folders cannot be merged; the message is one line."""


@dataclass(frozen=True)
class Merged:
    """The content of a merged folder.

    Parameters
    ----------
    tasks
        How many the study has; ``None`` where that is unknown, because this is another version of the simulator.
    missing
        How many of them sweep would still simulate; ``None`` likewise.
    shards
        The numbers of those that no folder holds, and of how many; ``None`` if the folders are not shards of one kind.
    torn
        Lines of their journals that cannot be read.
    """

    folders: int
    statuses: Mapping[str, int]
    tasks: int | None
    missing: int | None
    shards: tuple[tuple[int, ...], int] | None
    torn: int = 0

    def lines(self) -> list[str]:
        """Return it in words, a line for each thing to be known."""
        counts = ", ".join(f"{self.statuses[status]:,} {status}" for status in _RANK if self.statuses.get(status))
        count = number_of(sum(self.statuses.values()), "outcome")
        lines = [f"{count} from {number_of(self.folders, 'folder')}: {counts or 'none'}"]
        if self.shards is not None and self.shards[0]:
            absent, of = self.shards
            names = ", ".join(map(str, absent[:8])) + (", ..." if len(absent) > 8 else "")
            lines.append(f"not among the folders: {number_of(len(absent), 'shard')} of {of}: {names}")
        if self.torn:
            lines.append(f"passed over: {number_of(self.torn, 'line')} of journals that cannot be read")
        if self.missing:
            lines.append(f"without a result: {number_of(self.missing, 'task')} of {self.tasks:,}; sweep simulates them")
        return lines


def merge(folders: Sequence[Path], out: Path) -> Merged:
    """Return what a new folder has, with the outcomes of others: each once, the best that there is.

    A folder in which the same study was merged before keeps what it has, so that merging again only adds.

    Raises
    ------
    MergeError
        If they are not of one study, contradict each other, are in use, or `out` cannot be written; `out` is then as
        it was.
    """
    if not folders:
        raise MergeError("name the folders to merge")
    studies = {folder: _identity(folder) for folder in folders}
    _refuse_strangers(studies)
    study = studies[folders[0]]
    sources = list(dict.fromkeys(folder.resolve() for folder in folders))
    if _earlier(out, study) and out.resolve() not in sources:
        sources.insert(0, out.resolve())
    try:
        with made_folder(out):
            statuses, torn = _write(folders[0], sources, out, study)
    except OSError as error:
        raise MergeError(f"{out}: cannot be written ({error.strerror})") from None
    tasks, missing = _coverage(out, study)
    return Merged(len(studies), statuses, tasks, missing, _absent(studies.values()), torn)


def _identity(folder: Path) -> dict[str, Any]:
    """Return what a folder says that it holds."""
    try:
        study = json.loads((folder / STUDY).read_bytes())
    except FileNotFoundError:
        raise MergeError(
            f"{folder}: is not a study folder (no {STUDY})" if folder.is_dir() else f"{folder}: no such folder"
        ) from None
    except OSError as error:
        raise MergeError(f"{folder}: cannot be read ({error.strerror})") from None
    except ValueError:
        study = None
    if not isinstance(study, dict) or not all(isinstance(study.get(key), str) for key in ("name", "digest", "model")):
        raise MergeError(f"{folder}: {STUDY} does not say which study it holds")
    return study


def _refuse_strangers(studies: Mapping[Path, dict[str, Any]]) -> None:
    """Raise an error unless all folders hold the same study."""
    first = next(iter(studies))
    text = _resolved(first)
    for folder, study in studies.items():
        difference = _difference(studies[first], study)
        if difference is None and _resolved(folder) != text:
            difference = f"its {_RESOLVED} is another one"
        if difference is not None:
            raise MergeError(f"{folder}: not the same study as {first}: {difference}")


def _difference(study: dict[str, Any], candidate: dict[str, Any]) -> str | None:
    """Return in which way two folders hold different studies."""
    if candidate["name"] != study["name"]:
        return f"it holds '{candidate['name']}', not '{study['name']}'"
    if candidate["model"] != study["model"]:
        return "it was simulated by another version of the simulator"
    return None if candidate["digest"] == study["digest"] else "it has another scenario or seed"


def _resolved(folder: Path) -> bytes:
    try:
        return (folder / _RESOLVED).read_bytes()
    except OSError as error:
        raise MergeError(f"{folder / _RESOLVED}: cannot be read ({error.strerror})") from None


def _earlier(out: Path, study: dict[str, Any]) -> bool:
    """Return whether the study was merged into a folder before."""
    complaint = not_to_be_used(out)
    if complaint is None and out.is_dir() and any(out.iterdir()):
        earlier = _identity(out) if (out / STUDY).exists() else None
        if earlier is None:
            complaint = "contains something else than a study; choose another folder"
        elif earlier.get("shard"):
            complaint = f"contains shard {earlier['shard']}; choose another folder"
        else:
            difference = _difference(study, earlier)
            complaint = difference and f"is not for this study: {difference}; choose another folder"
    if complaint:
        raise MergeError(f"{out}: {complaint}")
    return (out / JOURNAL).exists()


def _write(first: Path, sources: Sequence[Path], out: Path, study: dict[str, Any]) -> tuple[Counter[str], int]:
    """Write the files of a merged folder; return the number of outcomes by status, and of lines passed over."""
    copied = [path for pattern in _COPIED for path in sorted(first.glob(pattern)) if path.is_file()]
    with whole_files(out, [*(path.name for path in copied), STUDY, JOURNAL]) as unfinished:
        for path in copied:
            shutil.copyfile(path, unfinished[path.name])
        unfinished[STUDY].write_text(json.dumps({**study, "shard": None}, indent=2) + "\n", encoding="utf-8")
        unfinished[JOURNAL].unlink(missing_ok=True)  # of a merge that was killed
        with Journal(unfinished[JOURNAL]) as journal:
            torn = sum(_take(source, journal) for source in sources)
            return Counter(record.status for record in journal), torn


def _take(source: Path, journal: Journal) -> int:
    """Add the outcomes of a folder to a journal, if they are better than what is there; return the lines without."""
    path = source / JOURNAL
    if not path.exists():
        return 0  # of a shard that was stopped before its first outcome
    try:
        with Journal(path, to_read=True) as source_journal:
            for record in source_journal:
                if _is_better(record, journal, source):
                    _add(journal, record)
            return source_journal.torn
    except JournalError as error:
        raise MergeError(f"{path}: {error}") from None


def _add(journal: Journal, record: Record) -> None:
    try:
        journal.add(record)
    except JournalError as error:
        raise MergeError(f"{journal.path.parent}: {error}") from None


def _is_better(record: Record, journal: Journal, source: Path) -> bool:
    """Return whether an outcome is to replace what there is of its task."""
    status = journal.status(record.key)
    if status is None:
        return True
    if status == record.status == "ok":
        outcome = journal.get(record.key)
        if (outcome.rows, outcome.notes) != (record.rows, record.notes):
            raise MergeError(
                f"{source}: contradicts another folder about replications {record.first} to "
                f"{record.first + record.replications - 1} of point {record.point}, which are the same everywhere"
            )
    return _RANK.get(record.status, -1) > _RANK.get(status, -1)


def _absent(studies: Any) -> tuple[tuple[int, ...], int] | None:
    """Return the numbers of the shards that no folder holds, and of how many they are."""
    shards = set()
    for study in studies:
        with contextlib.suppress(ValueError, TypeError):
            shards.add(Shard.parse(study.get("shard") or ""))
    counts = {shard.count for shard in shards}
    if len(counts) != 1 or len(shards) != len({study.get("shard") for study in studies}):
        return None
    (count,) = counts
    return tuple(sorted({*range(1, count + 1)} - {shard.number for shard in shards})), count


def _coverage(out: Path, study: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the number of tasks of a study, and of those that are still to be simulated."""
    from ettrick import sim
    from ettrick.analysis.study.load import load_study
    from ettrick.analysis.sweep.campaign import Campaign
    from ettrick.analysis.sweep.sweep import replications_of
    from ettrick.analysis.sweep.task import model_digest
    from ettrick.analysis.sweep.workers import Serial, WorkerPool

    try:
        loaded = load_study(out / _RESOLVED)
    except sim.ScenarioError:
        return None, None
    if loaded.digest != study["digest"] or model_digest(loaded.packages) != study["model"]:
        return None, None
    with Journal(out / JOURNAL) as journal:
        campaign = Campaign(loaded, journal, WorkerPool(Serial()))
        count = replications_of(loaded.study)
        keys = {task.key for point in loaded.points() for task in campaign.tasks(point, count)}
        return len(keys), sum(not journal.has_result(key) for key in keys)
