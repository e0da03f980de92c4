"""Files and folders of results: whole or not there, and never another run's."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.results.models import CompareDocument, JobSummary
    from ettrick.sim import Result

ELSEWHERE = "choose another folder or add --overwrite"  # what helps where a folder holds something else
_UNFINISHED = ".unfinished"


def refusal(folder: Path, name: str, same: Callable[[Any], object], *, overwrite: bool) -> str | None:
    """Return why a folder cannot take results: not to be made, or it holds something else.

    What is the same is decided by `same`, given the document; it may fail on any other.
    """
    complaint = not_to_be_used(folder)
    if complaint is not None or overwrite or not folder.exists() or not any(folder.iterdir()):
        return complaint
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        if same(json.loads((folder / name).read_bytes())) is True:
            return None
    return f"contains other results; {ELSEWHERE}"


def not_to_be_used(folder: Path) -> str | None:
    """Return why nothing can be written into a folder that is there or is to be made: a file, no permission."""
    import tempfile

    dangling = next((path for path in (folder, *folder.parents) if path.is_symlink() and not path.exists()), None)
    if dangling is not None:
        return f"{dangling} is a link that leads nowhere"
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not nearest.is_dir():
            return f"{nearest} is a file, not a folder"
        if not os.access(nearest, os.W_OK):
            return f"cannot be written (no permission for {nearest})"
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\n")
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return None


@contextlib.contextmanager
def reserved(folder: Path) -> Iterator[None]:
    """Make a folder, and keep out other programs that reserve it; a new one goes away again if it stays empty.

    Raises
    ------
    OSError
        If it cannot be made, or is reserved by another program.
    """
    with made_folder(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            claim(descriptor)
            yield
        finally:
            os.close(descriptor)


def claim(descriptor: int, *, shared: bool = False) -> None:
    """Keep other programs from claiming a file or folder until it is closed, if only by the end of this program.

    Raises
    ------
    BlockingIOError
        If another program has claimed it.
    """
    try:
        import fcntl
    except ImportError:  # a system that has nothing of the kind
        return
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise BlockingIOError(error.errno, "another program is writing to it") from None


def write_folder(folder: Path, contents: Mapping[str, str]) -> str | None:
    """Write files into a folder, each complete or not at all, the last one last; return what went wrong."""
    try:
        with made_folder(folder), whole_files(folder, contents) as unfinished:
            for name, content in contents.items():
                unfinished[name].write_text(content, encoding="utf-8")
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return None


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder and those around it; those that are new go away again if they stay empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with contextlib.suppress(OSError):
            for path in new:
                path.rmdir()


@contextlib.contextmanager
def whole_files(folder: Path, names: Iterable[str]) -> Iterator[dict[str, Path]]:
    """Yield where the files of a folder are written, by name; they take their places when all of them are complete.

    If anything fails, none of them is left, and those that were there before are still there. The last one takes its
    place last.
    """
    unfinished = {name: _beside(folder / name) for name in names}
    try:
        yield unfinished
        for name, path in unfinished.items():
            path.replace(folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            for path in unfinished.values():
                path.unlink(missing_ok=True)
        raise


def is_unfinished(path: Path) -> bool:
    """Return whether a file was never completed, because the program that wrote it was killed."""
    return path.name.startswith(".") and path.name.endswith(_UNFINISHED)


def not_to_be_replaced(path: Path) -> str | None:
    """Return why no file can be written in the place of what is there, if anything is: a folder, a device, a pipe."""
    try:
        if path.is_dir():
            return "is a folder, not a file"
        is_circle = _end_of_links(path).is_symlink()
        if is_circle or (path.exists() and not path.is_file()):
            return "is not a regular file"
    except OSError as error:  # a name that no file can have
        return f"cannot be written ({error.strerror})"
    return None


def not_to_be_written(path: Path, *, overwrite: bool = False) -> str | None:
    """Return why no file can be written at a place.

    It is there and is not to be overwritten, it is as `not_to_be_replaced` says, or nothing can be added to its folder.
    """
    folder = _end_of_links(path).parent
    complaint = not_to_be_replaced(path)
    if complaint is None and not overwrite and path.exists():
        return "already exists; choose another file or add --overwrite"
    if complaint is None and not folder.is_dir():
        return (
            f"cannot be written ({os.strerror(errno.ENOENT)})"
            if not folder.exists()
            else f"{folder} is a file, not a folder"
        )
    return complaint or not_to_be_used(folder)


def write_file(path: Path, content: bytes) -> str | None:
    """Write a file, complete or not at all; return what went wrong. Of a link, the file that it leads to is written."""
    complaint = not_to_be_replaced(path)
    if complaint is not None:
        return complaint
    target = _end_of_links(path)
    try:
        with whole_files(target.parent, [target.name]) as unfinished:
            unfinished[target.name].write_bytes(content)
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return None


def _end_of_links(path: Path) -> Path:
    """Return the file that links lead to, or one of them if they lead in a circle."""
    return Path(os.path.realpath(path))  # unlike Path.resolve, without an exception on any version


def _beside(path: Path) -> Path:
    """Return the name that a file has until it is complete."""
    return path.with_name(f".{path.name}{_UNFINISHED}")


# ----------------------------------------
# Why the answer of a run or a comparison is no, in lines.


def against_run(
    jobs: Mapping[str, JobSummary], replications: int, precision: str | None, *, precise: bool | None
) -> list[str]:
    """Return one line for each job that no replication could start, and one for a precision that was not reached."""
    lines = []
    for name, job in jobs.items():
        if job.never_arrived == replications:
            lines.append(f"job '{name}' can never start: it arrives when the horizon is over")
        elif job.never_started == replications:
            lines.append(
                f"job '{name}' can never start: no replication had enough free nodes for it before the horizon"
            )
    if precise is False:
        lines.append(f"--precision {precision}: not reached in {replications} replications")
    return lines


def against_comparison(content: CompareDocument, precision: str | None) -> list[str]:
    """Return the same for a comparison, and one line about variants that cannot run."""
    count = content.replications
    lines = [
        f"{name}: {line}"
        for name, variant in content.variants.items()
        for line in against_run(variant.per_job, count, None, precise=None)
    ]
    missing = len(content.cannot_run)
    if missing:
        lines.append(f"{missing} of {missing + len(content.variants)} variants cannot run")
    return lines + against_run({}, count, precision, precise=content.precise)


def in_lines(content: Any, depth: int = 2) -> str:
    """Return JSON with a line for each entry down to a depth, and what is deeper in the line of its entry.

    Large generated documents stay short and their differences readable: a definition or a row is a line.
    """
    if not depth or not content or not isinstance(content, dict | list):
        return json.dumps(content, ensure_ascii=False)
    if isinstance(content, list):
        entries, (start, end) = [in_lines(item, depth - 1) for item in content], "[]"
    else:
        entries = [f"{json.dumps(key)}: {in_lines(value, depth - 1)}" for key, value in content.items()]
        start, end = "{}"
    return "\n".join([start, ",\n".join(entries), end])


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV, the first one its header."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(safe_cells, rows))
    return text.getvalue()


_FORMULA = frozenset("=+-@\t\r")
"""The beginnings of a cell that a spreadsheet computes."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def is_number(text: str) -> bool:
    """Return whether a text is a plain number, without a unit."""
    return _NUMBER.fullmatch(text) is not None


def safe_cells(row: Iterable[object]) -> list[object]:
    """Return the cells of a row of CSV; a text that a spreadsheet would take for a formula begins with an apostrophe.

    References
    ----------
    OWASP, "CSV Injection".
    """
    return [
        f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA and cell[1:] and not is_number(cell) else cell
        for cell in row
    ]


def log_csv(results: Iterable[Result], causes: Sequence[str]) -> str:
    """Return a CSV file of all stretches in which a node was down; times [s] after the warm-up."""
    rows = (
        (result.replication, outage.node, outage.start, outage.end, causes[outage.cause - 1])
        for result in results
        for outage in result.outages
    )
    return csv_text([("replication", "node", "start", "end", "cause"), *rows])
