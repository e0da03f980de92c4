"""The journal of a study: every outcome in a line, written as it comes, found again by its key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

from analysis.sweep.task import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

__all__ = ["Journal", "JournalError"]


class JournalError(ValueError):
    """The journal cannot be read or written; the message is one line without the place."""


class Journal:
    """Outcomes by key, in a file to which lines are only added.

    Of what is in it only the places are kept in memory. A line that was torn when the program was killed is passed
    over, and what is written next begins on a line of its own. Of several lines with a key the last counts.

    Parameters
    ----------
    path
        The file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int, str]] = {}
        self.torn = 0
        """Lines that could not be read."""
        try:
            self._file = path.open("a+b")
            self._read()
        except OSError as error:
            message = f"cannot be written ({error.strerror})"
            raise JournalError(message) from None

    def _read(self) -> None:
        """Find the lines that are whole, and begin a new one if the last is not."""
        self._file.seek(0)
        place = 0
        for line in self._file:
            self._enter(line, place)
            place += len(line)
        if place and not line.endswith(b"\n"):
            self._file.write(b"\n")
            self._file.flush()

    def _enter(self, line: bytes, place: int) -> None:
        try:
            content = json.loads(line)
            self._places[content["key"]] = place, len(line), content["status"]
        except (ValueError, LookupError, TypeError):
            self.torn += bool(line.strip())

    def __enter__(self) -> Self:
        """Return the journal, to be closed afterwards."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __contains__(self, key: str) -> bool:
        """Return whether there is an outcome with a key."""
        return key in self._places

    def __len__(self) -> int:
        """Return the number of outcomes."""
        return len(self._places)

    def __iter__(self) -> Iterator[Record]:
        """Yield all outcomes, in the order in which they were first written."""
        return map(self.get, tuple(self._places))

    def status(self, key: str) -> str | None:
        """Return the status of an outcome, ``None`` if it is not there."""
        return self._places[key][2] if key in self._places else None

    def get(self, key: str) -> Record:
        """Return an outcome.

        Raises
        ------
        KeyError
            If there is none with this key.
        """
        place, length, _ = self._places[key]
        self._file.seek(place)
        return Record(**json.loads(self._file.read(length)))

    def add(self, record: Record) -> None:
        """Write an outcome; when this returns it outlives the end of the program.

        Raises
        ------
        JournalError
            If it cannot be written: what was there before is still there.
        """
        line = json.dumps(record._asdict(), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        place = self._file.seek(0, 2)
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            message = f"cannot be written ({error.strerror})"
            raise JournalError(message) from None
        self._places[record.key] = place, len(line), record.status
