"""A log file: opened, unpacked, cut into lines, and what was not used of it counted."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ettrick.analysis.logs.tables import UnusedError
from ettrick.sim import records
from ettrick.sim.records import NOTHING, LogError, Moments, StrayError, Table, Unpacked
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ettrick.analysis.logs import tables as rows
    from ettrick.analysis.logs.tables import LogFile, Rules, Sort, Tables
    from ettrick.sim.records import HostLists

    Row = TypeVar("Row")

LOOK = 1000
"""Lines that say what kind of log it is."""


@dataclass
class ReaderContext:
    """What readers share: the tables that they fill, the rules, the hosts that they have expanded.

    What takes more than one file to understand waits until all are read.
    """

    tables: Tables
    rules: Rules
    hosts: HostLists
    points: list[rows.StateChange] = field(default_factory=list)
    series: dict[tuple[str, str, str], list[rows.SampleRun]] = field(default_factory=dict)
    """Runs of equal samples, by metric, node and what of it."""
    starts: list[tuple[float, str]] = field(default_factory=list)
    """When jobs started, and their lists of hosts, as the log of the scheduler says."""
    addresses: dict[str, set[str]] = field(default_factory=dict)
    """Of each address, or other name, the nodes that a source says have it."""
    labels: set[tuple[str, ...]] = field(default_factory=set)
    """Names that the labels of one series have for its node, the first one in use."""
    snapshots: list[rows.Snapshot] = field(default_factory=list)
    cycles: list[rows.LoggedAttempt] = field(default_factory=list)
    """What ran between two restarts inside one run of a job."""
    entries: list[rows.SpanEdge] = field(default_factory=list)
    """What training logs say, in any order."""


class LogReader:
    """One file while it is read."""

    def __init__(
        self, source: LogFile, clock: Moments, reading: ReaderContext, stream: io.BufferedReader[Any],
        advance: Callable[[int], None] = lambda _done: None,
    ) -> None:  # fmt: skip
        self.source, self.clock, self.reading = source, clock, reading
        self._utc = Moments(ZoneInfo("UTC"), source.file)
        self._utc.strays = clock.strays
        self.tables, self.rules, self.file = reading.tables, reading.rules, source.file
        self._stream, self._advance = stream, advance
        self._table: Table | None = None
        self.ends = b"", b""
        """First and last line of what was read in pieces: between them the log was written, whatever it says."""

    def drop(self, rule: str, line: int, number: int = 1, sort: Sort = "unusable") -> None:
        """Keep account of lines that are not used."""
        self.tables.drop(self.file, rule, line, number, sort)

    def each(self, rows: Iterable[tuple[int, Row]], read: Callable[[Row, int], None], otherwise: str = "") -> None:
        """Read each row, and count those that cannot be used under the reason.

        Parameters
        ----------
        rows
            Each with its line.
        otherwise
            The reason for a row that has not the form which is read; without one its form is known.
        """
        errors = (ValueError, LookupError, TypeError, AttributeError) if otherwise else (ValueError,)
        for line, row in rows:
            try:
                read(row, line)
            except UnusedError as error:
                self.drop(str(error), line, sort=error.sort)
            except errors as error:
                self.drop(otherwise or str(error), line)

    def first_line(self) -> str:
        """Return the first line, or its beginning, without reading it."""
        return self._stream.peek(1)[:65536].decode("utf-8-sig", errors="replace").splitlines()[0]

    def moment(self, text: str, line: int, empty: float = math.nan, role: str = "") -> float:
        """Return a moment [s], or what an empty one stands for; a number is of the unit that its column states."""
        if text.lower() in NOTHING:
            return empty
        name = self._table.name_of(role) if self._table is not None else ""
        zone = records.end_of(name, records.ZONES)
        clock = self._utc if zone in ("utc", "gmt", "z") else self.clock
        if self._table is not None and (unit := records.unit_of(name)):
            return records.number(self._table.clear(text)) * unit
        try:
            return clock.read(text, line, role if role == "start" else "")
        except StrayError:
            if role != "out":
                raise
            self.clock.strays.pop()  # a node that never leaves
            return empty
        except LogError as error:
            if not zone:
                raise
            raise LogError(f"{error} (the header says '{name}')") from None
        except ValueError as error:
            if "1970" in str(error):
                raise
            raise ValueError(f"'{text}' is no moment such as 2025-02-03T08:11:40") from None

    def duration(self, text: str, role: str) -> float:
        """Return a length of time [s]; a number is of the unit that its column states.

        Raises
        ------
        LogError
            If that states none.
        ValueError
            If it is no length of time, or may be two.
        """
        assert self._table is not None, "lengths are read of a table"
        if re.fullmatch(r"\d+:\d\d", text):
            seconds = records.CLOCKS.get(records.end_of(self._table.name_of(role), records.CLOCKS))
            if seconds is not None:
                return records.duration(text + seconds)
            raise ValueError(f"'{text}', which is hours and minutes, or minutes and seconds: write 01:30:00")
        text = self._table.clear(text)
        try:
            value = records.number(text)
        except ValueError:
            return records.duration(text)
        return value * self.unit(role) if value else 0.0

    def table(
        self,
        *needed: str | tuple[str, ...],
        header: str = "",
        free: str = "",
        export: str = "",
        more: Sequence[str] = (),
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows of a table by role, with their lines; those that cannot be used are counted.

        Parameters
        ----------
        header
            The header of a file that has none.
        free, export
            As of a `Table`.
        more
            Roles whose columns have their names.
        """
        lines = itertools.chain([(0, header)] if header else [], self.lines())
        names = {**self.rules.columns, **{role: [role] for role in more}}
        table = self._table = Table(lines, self.file, names, needed, free, export)
        self.source.columns = table.roles
        for line, row in table.rows():
            if isinstance(row, str):
                self.drop(row, line)
            else:
                yield line, row

    def has(self, role: str) -> bool:
        """Return whether the table that is read has a column of a role."""
        return self._table is not None and role in self._table.columns

    def unit(self, role: str) -> float:
        """Return the unit of the numbers of a column, which its name states [s].

        Raises
        ------
        LogError
            If the name does not state it.
        """
        assert self._table is not None, "units are asked for while a table is read"
        name = self._table.name_of(role)
        if name and not records.unit_of(name):
            raise LogError(
                f"{self.file}:{self._table.line}: column '{name}' does not say its unit; call it {role}_s, {role}_min, "
                f"{role}_h or {role}_days"
            )
        return records.unit_of(name)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines with their numbers; a file that ends early, as a cut gzip file does, ends here too."""
        number, source = 0, self.source
        try:
            for number, raw in enumerate(self._stream, 1):
                try:
                    text = raw.decode("utf-8")
                except UnicodeDecodeError:
                    text = raw.decode("utf-8", errors="replace")
                    source.unreadable += 1
                source.lines = number
                if not number & 0x3FFF:
                    self._report()
                yield number, text.removeprefix("\ufeff").rstrip("\r\n") if number == 1 else text.rstrip("\r\n")
        except (EOFError, OSError, zlib.error) as error:
            self._ends_early(error, number + 1)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield pieces of whole lines, with the number of the first line of each."""
        rest, number = b"", 1
        while True:
            try:
                piece = self._stream.read1(records.CHUNK)
            except (EOFError, OSError, zlib.error) as error:
                self._ends_early(error, number)
                piece = b""
            self._report()
            if not piece:
                if rest:
                    self.source.lines = number
                    yield number, rest
                return
            cut = piece.rfind(b"\n") + 1
            whole, rest = rest + piece[:cut], piece[cut:] if cut else rest + piece
            if not cut:
                continue
            yield number, whole
            number += whole.count(b"\n")
            self.source.lines = number - 1

    def holding(self, texts: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that hold one of some texts, in upper or lower case; all others are only counted."""
        wanted = {text.lower() for text in texts}
        for base, chunk in self.chunks():
            first, _, _ = chunk.partition(b"\n") if base == 1 else (self.ends[0], b"", b"")
            self.ends = first, chunk[chunk.rstrip().rfind(b"\n") + 1 :].rstrip()
            counted, number, done = 0, base, 0
            lower = chunk.lower()
            for at in sorted(at for text in wanted for at in _places(lower, text)):
                if at < done:
                    continue
                start = chunk.rfind(b"\n", 0, at) + 1
                done = chunk.find(b"\n", at)
                done = len(chunk) if done < 0 else done
                number += chunk.count(b"\n", counted, start)
                counted = start
                yield number, chunk[start:done]

    def documents(self) -> Iterator[tuple[int, Any]]:
        """Yield values of JSON with their lines: one a line, or one after the other over several.

        What does not begin with an object in a line is read whole if it can be, else line by line.

        Raises
        ------
        LogError
            If the file holds one value over several lines, and that is no JSON.
        """
        lines = self.lines()
        first = next(((number, text) for number, text in lines if text.strip()), None)
        if first is None:
            return
        if _is_object(first[1]):
            yield from self._objects(itertools.chain([first], lines))
            return
        numbered = [first, *lines]
        try:
            values = list(self._values(numbered))
        except LogError:
            if not any(_is_object(text) for _, text in numbered[:20]):
                raise
            yield from self._objects(numbered)
        else:
            yield from values

    def _objects(self, numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
        """Yield the values of JSON of lines that have one each; the brackets and commas of a list are no values."""
        for line, text in numbered:
            content = text.strip().rstrip(",")
            if content in ("", "[", "]"):
                continue
            try:
                value = json.loads(content)
            except (ValueError, RecursionError):
                self.drop("no JSON", line)
                continue
            yield line, value

    def _values(self, numbered: list[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
        """Yield values of JSON that stand one after the other."""
        text = "\n".join(text for _, text in numbered).lstrip()
        first, at, decoder = numbered[0][0], 0, json.JSONDecoder()
        while at < len(text):
            try:
                value, end = decoder.raw_decode(text, at)
            except RecursionError:
                raise LogError(f"{self.file}:{first + text.count(chr(10), 0, at)}: is nested too deeply") from None
            except json.JSONDecodeError as error:
                raise LogError(
                    f"{self.file}:{first + error.lineno - 1}: is no complete JSON ({error.msg.lower()})"
                ) from None
            yield first + text.count("\n", 0, at), value
            at = end
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1

    def _report(self) -> None:
        raw = self._stream.raw
        self._advance(raw.packed.tell() if isinstance(raw, Unpacked) else raw.tell() if raw.seekable() else 0)

    def _ends_early(self, error: Exception, line: int) -> None:
        self.drop("the file ends early", line)
        self.tables.findings.append(f"{self.file}:{line}: the file is damaged from here on ({error})")


def _places(content: bytes, text: bytes) -> Iterator[int]:
    """Yield the places of a text in some content, one for each line that holds it."""
    at = content.find(text)
    while at >= 0:
        yield at
        end = content.find(b"\n", at)
        at = content.find(text, end) if end >= 0 else -1


def _is_object(text: str) -> bool:
    """Return whether a line is an object of JSON by itself."""
    try:
        content = text.strip().rstrip(",")
        return isinstance(json.loads(content), dict) and len(content) > 2
    except (ValueError, RecursionError):
        return False


def size_of(file: str) -> int | None:
    """Return the bytes of a file; ``None`` of standard input."""
    try:
        return None if file == "-" else os.stat(file).st_size  # noqa: PTH116
    except OSError:
        return 0


def peek(stream: io.BufferedReader[Any], file: str) -> list[str]:
    """Return the first lines of a file without reading them, or refuse what is no text.

    Raises
    ------
    LogError
        If it is packed otherwise than by gzip, of another encoding, or empty.
    """
    try:
        head = stream.peek(records.CHUNK)[: LOOK * 300]
    except (OSError, EOFError, zlib.error) as error:
        raise LogError(f"{file}: cannot be unpacked ({error})") from None
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise LogError(f"{file}:1: is UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8")
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        raise LogError(
            f"{file}:{line}: is no text (it holds a zero byte); unpack it first, or give it on standard input"
        )
    lines = head.decode("utf-8-sig", errors="replace").splitlines()[:LOOK]
    if not any(line.strip() for line in lines):
        raise LogError(f"{file}: is empty")
    return lines


def digest(file: str) -> str:
    """Return a digest of a file, so that one that is given twice does not count twice."""
    if file == "-":
        return ""
    with Path(file).open("rb") as content:
        return hashlib.file_digest(content, "blake2b").hexdigest()


def zone_of(file: str, zones: Sequence[str]) -> ZoneInfo | None:
    """Return the zone of the local times of a file.

    Raises
    ------
    LogError
        If there is no such zone.
    """
    zone = _stated_of(file, zones)
    try:
        return ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones

        raise LogError(f"--timezone {zone}: there is no such zone{suggest(zone, available_timezones())}") from None


def year_of(file: str, years: Sequence[str]) -> int:
    """Return the year in which the dates of a file begin that have none; 0 if it is not stated.

    Raises
    ------
    LogError
        If it is no year.
    """
    year = _stated_of(file, years)
    if year and not re.fullmatch("(19|20)[0-9]{2}", year):
        raise LogError(f"--year {year}: is no year such as 2025")
    return int(year or 0)


def _stated_of(file: str, texts: Sequence[str]) -> str:
    """Return what options such as ``FILE=VALUE``, or ``VALUE`` for all files, state of a file; the last that fits."""
    options = (text.rpartition("=") for text in reversed(texts))
    return next((value for name, equals, value in options if not equals or name in (file, Path(file).name)), "")
