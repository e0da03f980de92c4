"""The folder of a study: what it is, what came of it, and never another study's."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ettrick import sim
from ettrick.analysis.results.files import (
    ELSEWHERE,
    is_unfinished,
    made_folder,
    not_to_be_used,
    whole_files,
    write_file,
)
from ettrick.analysis.study.amounts import label_of
from ettrick.analysis.study.inputs import file_digest, with_files
from ettrick.analysis.study.load import RESOLVED
from ettrick.analysis.sweep.journal import Journal
from ettrick.analysis.sweep.results import has_parquet, write_parquet, write_tables
from ettrick.analysis.sweep.task import model_digest
from ettrick.sim import yamlfile
from ettrick.sim.yamlfile import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from ettrick.analysis.study.amounts import Point
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.sweep.campaign import Campaign
    from ettrick.sim.yamlfile import Keys, YamlDocument

# A study as it is simulated, in files that can go anywhere: with its options, its scenario, and what that reads.

STUDY_RESOLVED = "study.resolved.yaml"
"""The study, with its options; next to it lies its scenario."""

INPUT = r"input-[0-9a-f]{12}(\.\w+)*"
"""Pattern of the names of files that the scenario reads, at any point."""


def resolved(loaded: LoadedStudy) -> tuple[dict[str, str], dict[str, Path]]:
    """Return the files that say what a study is, and copies that go with them: by name the content, and the source.

    The study that is read from them has the same keys, and its values have the same labels.
    """
    data, inputs = _portable(loaded.template)
    content = loaded.content()
    _bring_along(content, inputs)
    return {RESOLVED: sim.dump(data), STUDY_RESOLVED: sim.dump(content)}, inputs


def _portable(template: sim.Template) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return a scenario as one document with the same content, and the files that it reads, by their new names."""
    document, content = template.document, template.content
    data = copy.deepcopy(document.data)
    for path in document.stale:
        # A leftover of a choice that was replaced would look as if it had been written for this one.
        holder, effective = _at(data, path[:-1]), _at(content, path[:-1])
        if isinstance(holder, dict) and path[-1] in holder and holder[path[-1]] != (effective or {}).get(path[-1]):
            del holder[path[-1]]
    inputs: dict[str, Path] = {}
    for place in yamlfile.readers(data):
        holder, effective = _at(data, place), _at(content, place)
        for key in yamlfile.FILE_KEYS if isinstance(holder, dict) else ():
            if not isinstance(holder.get(key), str):
                continue
            path = _folder(document, (*place, key), template.folder) / holder[key]
            with contextlib.suppress(OSError):
                digest = hashlib.sha256(content_of(path)).hexdigest()
                if effective[key] == digest:
                    holder[key] = _copy_of(path, digest)
                    inputs[holder[key]] = path
    return data, inputs


def _copy_of(path: Path, digest: str) -> str:
    """Return the name of a copy of a file, given SHA-256 of what is in it."""
    return f"input-{digest[:12]}{path.suffix}"


def _bring_along(content: dict[str, Any], inputs: dict[str, Path]) -> None:
    """Name copies instead of the files that a study names under ``set`` and ``vary``, and add them to the inputs."""

    def copied(name: str) -> str:
        digest = file_digest(name)
        if digest is None:
            return name
        inputs[_copy_of(Path(name), digest)] = Path(name)
        return _copy_of(Path(name), digest)

    content |= {"set": with_files("", content["set"], copied)} if "set" in content else {}
    for name, axis in content["vary"].items():
        choices = axis.get("choices")
        path, *_ = axis.get("paths") or [axis.get("path") or name]
        if isinstance(choices, list):
            changed = [with_files(path, choice, copied) for choice in choices]
            if changed != choices:
                axis |= {"choices": dict(zip(map(label_of, choices), changed, strict=True))} | (
                    {} if "paths" in axis else {"path": path}
                )
        elif isinstance(choices, dict):
            is_linked = not (axis.get("path") or axis.get("paths"))
            axis["choices"] = {
                label: with_files("" if is_linked else path, choice, copied) for label, choice in choices.items()
            }


def _at(data: Any, path: Keys) -> Any:
    """Return what plain data have at a path; ``None`` if there is nothing."""
    for key in path:
        try:
            data = data[key]
        except (LookupError, TypeError):
            return None
    return data


def _folder(document: YamlDocument, path: Keys, folder: Path) -> Path:
    """Return the folder from which a file is meant that a document names at a path."""
    mark = yamlfile.nearest_mark(document, path)
    return Path(mark.file).parent if mark.line else folder


STUDY = "study.json"
"""The file that says which study a folder holds."""

JOURNAL = "journal.jsonl"
"""The journal of its outcomes."""

_TABLES = ("results.csv", "points.csv")
_PARQUET = ("results.parquet", "points.parquet")
_RUN = "run.json"
_DOCUMENTS = (_RUN, "sensitivity.json", "optimize.json")
_OURS = frozenset({STUDY, JOURNAL, STUDY_RESOLVED, RESOLVED, *_TABLES, *_PARQUET, *_DOCUMENTS})


class FolderError(ValueError):
    """The folder cannot be used; the message is one line without the place."""


class StudyFolder:
    """A folder that is ready for a study, and says from now on which one it holds.

    A folder belongs to the name of a study. Whoever changes what varies, what is reported or what is asked goes on
    with the outcomes that are there; those of another scenario, seed or version of the simulator have other keys and
    do not count. ``study.resolved.yaml`` and what lies next to it are the study as it is simulated: it can be simulated
    again from there, on any machine, with the same keys.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    shard
        The part of it that is simulated here, such as ``3/16``; ``None`` for all of it.
    overwrite
        Whether to throw away what a study has left here; no other files are touched.

    Raises
    ------
    FolderError, JournalError
        If it holds something else, is in use, or cannot be written. What was there before is still there.
    """

    def __init__(self, path: Path, loaded: LoadedStudy, *, shard: str | None = None, overwrite: bool = False) -> None:
        self.path = path
        identity = {
            "name": loaded.study.name,
            "digest": loaded.digest,
            "model": model_digest(loaded.packages),
            "shard": shard,
        }
        self._refuse_others(identity, overwrite=overwrite)
        self._new = [new for new in (path, *path.parents) if not new.exists()]
        contents, inputs = resolved(loaded)
        try:
            contents[STUDY] = json.dumps(identity, indent=2) + "\n"
            with made_folder(path), contextlib.ExitStack() as stack:
                is_new = not (path / JOURNAL).exists()
                self.journal = stack.enter_context(Journal(path / JOURNAL))
                # Once more, now that no other program can change it.
                earlier = self._refuse_others(identity, overwrite=overwrite)
                if is_new and not (path / JOURNAL).stat().st_size:
                    # Only one without outcomes: another program may have made it, and filled it, before we had it.
                    stack.callback((path / JOURNAL).unlink)
                self._begin(contents, inputs, overwrite=overwrite)
                stack.pop_all()
        except OSError as error:
            raise FolderError(_unwritable(error)) from None
        self.notes = tuple(_notes(earlier, identity, self.journal))

    def _refuse_others(self, identity: dict[str, Any], *, overwrite: bool) -> dict[str, Any]:
        """Return what the folder says that it holds, after refusing anything but the study."""
        complaint = not_to_be_used(self.path)
        stored: dict[str, Any] = {}
        if complaint is None and not overwrite and self.path.is_dir():
            try:
                stored, complaint = _identity_in(self.path), None
            except OSError as error:
                complaint = f"cannot be read ({error.strerror})"
            except ValueError as error:
                complaint = f"{error}; {ELSEWHERE}"
            else:
                complaint = _difference(stored, identity)
        if complaint is not None:
            raise FolderError(complaint)
        return stored

    def _begin(self, contents: dict[str, str], inputs: dict[str, Path], *, overwrite: bool) -> None:
        """Write what the study is."""
        missing = {name: path for name, path in inputs.items() if not (self.path / name).exists()}
        with whole_files(self.path, [*missing, *contents]) as unfinished:
            for name, path in missing.items():
                shutil.copyfile(path, unfinished[name])
            for name, content in contents.items():
                unfinished[name].write_text(content, encoding="utf-8")
            if overwrite:
                self.journal.clear()
                for path in _left_behind(self.path):
                    if path not in unfinished.values() and path.name not in inputs:
                        path.unlink()

    def write(self, text: str, campaign: Campaign, count: Callable[[Point], int], metrics: Sequence[str]) -> list[str]:
        """Return the names of the files with the results of a study, which are written: all of them, or none.

        Parameters
        ----------
        text
            Content of ``run.json``.
        campaign, count, metrics
            See `ettrick.analysis.sweep.results.write_tables`.
        """
        parquet = _PARQUET if has_parquet() else ()
        names = [*_TABLES, *parquet, _RUN]
        try:
            with whole_files(self.path, names) as unfinished:
                tables = [unfinished[name] for name in _TABLES]
                columns = write_tables(campaign, count, metrics, *tables)
                for name, table, table_columns in zip(parquet, tables, columns, strict=False):
                    write_parquet(table, table_columns, unfinished[name])
                unfinished[_RUN].write_text(text + "\n", encoding="utf-8")
            for name in set(_PARQUET) - set(parquet):
                (self.path / name).unlink(missing_ok=True)  # of an earlier run
        except OSError as error:
            raise FolderError(_unwritable(error)) from None
        return names

    def keep(self, name: str, text: str) -> None:
        """Write a document about a study: ``sensitivity.json`` or ``optimize.json``."""
        assert name in _DOCUMENTS, name
        complaint = write_file(self.path / name, f"{text}\n".encode())
        if complaint is not None:
            raise FolderError(complaint)

    def __enter__(self) -> Self:
        """Return the folder, to be closed afterwards."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Leave the folder to others; a new one in which nothing was simulated before an error goes away again."""
        is_vain = error is not None and self._new and not len(self.journal)
        self.journal.close()
        if is_vain:
            with contextlib.suppress(OSError):
                for file in (*_left_behind(self.path), self.path / JOURNAL):
                    file.unlink(missing_ok=True)
                for path in self._new:
                    path.rmdir()


def _identity_in(path: Path) -> dict[str, Any]:
    """Return what a folder says that it holds; empty for an empty folder."""
    names = sorted(file.name for file in path.iterdir() if not is_unfinished(file))
    if STUDY in names:
        with contextlib.suppress(ValueError):
            study = json.loads((path / STUDY).read_bytes())
            if isinstance(study, dict) and isinstance(study.get("name"), str):
                return study
        raise ValueError(f"contains a {STUDY} that cannot be read")
    if [name for name in names if name != JOURNAL or (path / JOURNAL).stat().st_size]:
        listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise ValueError(f"contains something else than a study ({listed})")
    return {}


def _difference(stored: dict[str, Any], identity: dict[str, Any]) -> str | None:
    """Return why a folder cannot take a study, given what both say of themselves."""
    if not stored:
        return None
    if stored["name"] != identity["name"]:
        return f"contains the study '{stored['name']}', not '{identity['name']}'; {ELSEWHERE}"
    shard = stored.get("shard")
    if shard and identity["shard"] and shard != identity["shard"]:
        return f"contains shard {shard}; each shard needs a folder of its own"
    return None


def _notes(earlier: dict[str, Any], identity: dict[str, Any], journal: Journal) -> Iterator[str]:
    """Yield what the user should know of what was there."""
    if len(journal):
        for key, what in (("digest", "scenario or seed"), ("model", "version of the simulator")):
            if earlier.get(key) != identity[key]:
                yield f"the outcomes of another {what} in {JOURNAL} are kept, and do not count"
    if journal.torn:
        lines = "1 line" if journal.torn == 1 else f"{journal.torn} lines"
        yield f"{lines} of {JOURNAL} cannot be read: passed over, and simulated again"


def _left_behind(path: Path) -> list[Path]:
    """Return the files that a study has left in a folder, but for its journal."""
    files = []
    for file in path.iterdir():
        name = file.name.removeprefix(".").removesuffix(".unfinished") if is_unfinished(file) else file.name
        if file.is_file() and name != JOURNAL and (name in _OURS or re.fullmatch(INPUT, name)):
            files.append(file)
    return files


def _unwritable(error: OSError) -> str:
    return f"cannot be written ({error.strerror})"
