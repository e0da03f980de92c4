"""The journal of a study: every outcome in a line, written as it comes, found again by its key."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from ettrick.analysis.results.files import claim, not_to_be_replaced
from ettrick.analysis.sweep.task import RESULTS, Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

_FIELDS = frozenset(Record._fields)

_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}$')
"""End of a line: CRC-32 of what the line would be without it."""


class JournalError(ValueError):
    """The journal cannot be read or written; the message is one line without the place."""


class Journal:
    """Outcomes by key, in a file to which lines are only added, by one program at a time.

    Of what is in it only the places are kept in memory. A line that was torn when the program was killed, or is not as
    it was written (each has a checksum), is passed over, and what is written next begins on a line of its own. Of
    several lines with a key the last counts.

    Parameters
    ----------
    path
        The file; made if it is not there.
    to_read
        Whether nothing is to be added: the file must be there, may be write-protected, and several programs may read
        it at once, while none writes to it.

    Raises
    ------
    JournalError
        If it cannot be read or written, or another program has it open. How it was is how it is.
    """

    def __init__(self, path: Path, *, to_read: bool = False) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int, str]] = {}
        self._end = 0
        self.torn = 0
        """Lines that could not be read."""
        self._writer = _opened(path, to_read=to_read)
        try:
            _claim(self._writer.fileno(), shared=to_read)
            self._reader = self._read()
        except BaseException:
            self._writer.close()
            raise

    def _read(self) -> BinaryIO:
        """Find the lines that are whole; return the file, to be read from again."""
        place = 0
        try:
            reader = self.path.open("rb")
            for line in reader:
                self._enter(line, place)
                place += len(line)
                if line.endswith(b"\n"):
                    self._end = place
        except OSError as error:
            raise _unreadable(error) from None
        return reader

    def clear(self) -> None:
        """Throw away all outcomes."""
        try:
            self._writer.truncate(0)
        except OSError as error:
            raise _unwritable(error) from None
        self._reader.close()
        self._places.clear()
        self._end = self.torn = 0
        self._reader = self._read()

    def _enter(self, line: bytes, place: int) -> None:
        record = _record(line)
        if record is not None:
            self._places[record.key] = place, len(line), sys.intern(record.status)
        else:
            self.torn += bool(line.strip())

    def __enter__(self) -> Self:
        """Return the journal, to be closed afterwards."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; others may write to it then."""
        self._reader.close()
        self._writer.close()

    def __contains__(self, key: str) -> bool:
        """Return whether there is an outcome with a key."""
        return key in self._places

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return len(self._places)

    def __iter__(self) -> Iterator[Record]:
        """Yield all outcomes, in the order in which they were first written."""
        return map(self.get, tuple(self._places))

    def has_result(self, key: str) -> bool:
        """Return whether a task need not be simulated; what went wrong is repeated."""
        return self.status(key) in RESULTS

    def status(self, key: str) -> str | None:
        """Return the status of an outcome, ``None`` if it is not there."""
        return self._places[key][2] if key in self._places else None

    def get(self, key: str) -> Record:
        """Return an outcome.

        Raises
        ------
        KeyError
            If there is none with this key.
        JournalError
            If it cannot be read any more.
        """
        place, length, _ = self._places[key]
        try:
            self._reader.seek(place)
            record = _record(self._reader.read(length))
        except OSError as error:
            raise _unreadable(error) from None
        if record is not None and record.key == key:
            return record
        raise JournalError("was changed by somebody while it was in use")

    def add(self, record: Record) -> None:
        """Write an outcome; when this returns it outlives the end of the program.

        Raises
        ------
        JournalError
            If it cannot be written: what was there before is still there.
        """
        line = json.dumps(record._asdict(), separators=(",", ":"), allow_nan=False).encode()
        line = line[:-1] + b',"crc32":"%08x"}\n' % zlib.crc32(line)
        try:
            size = os.fstat(self._writer.fileno()).st_size
            # A piece without an end would swallow the beginning of this line.
            begin = b"" if size == self._end else b"\n"
            self._write(begin + line, size)
        except OSError as error:
            raise _unwritable(error) from None
        place = size + len(begin)
        self._places[record.key] = place, len(line), sys.intern(record.status)
        self._end = place + len(line)

    def _write(self, content: bytes, size: int) -> None:
        """Add to the file, all of it or nothing."""
        # Without a buffer: it would keep what a full disk has refused, and try again at the worst moment.
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[self._writer.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._writer.truncate(size)
            raise


def _record(line: bytes) -> Record | None:
    """Return the outcome in a line; ``None`` if there is none, or it is not as it was written."""
    text = line.rstrip()
    checksum = _CHECKSUM.search(text)
    if checksum is None:
        return None
    text = text[: checksum.start()] + b"}"
    if zlib.crc32(text) != int(checksum[1], 16):
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return Record(**content) if isinstance(content, dict) and content.keys() == _FIELDS else None


def _opened(path: Path, *, to_read: bool) -> Any:
    """Return a file that is read, or to which bytes can be added; when a call returns they are there."""
    complaint = not_to_be_replaced(path)
    if complaint is not None:
        raise JournalError(complaint)
    try:
        return path.open("rb" if to_read else "ab", buffering=0)
    except OSError as error:
        raise (_unreadable if to_read else _unwritable)(error) from None


def _claim(descriptor: int, *, shared: bool) -> None:
    """Keep other programs from writing to a file until it is closed, if only by the end of this program."""
    try:
        claim(descriptor, shared=shared)
    except BlockingIOError as error:
        raise JournalError(f"is in use: {error.strerror}") from None


def _unreadable(error: OSError) -> JournalError:
    return JournalError(f"cannot be read ({error.strerror})")


def _unwritable(error: OSError) -> JournalError:
    return JournalError(f"cannot be written ({error.strerror})")
