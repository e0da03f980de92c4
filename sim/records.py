"""Text from outside by one set of rules: files, lines, tables with a header, durations, counts, yes and no, hosts.

A file is opened and unpacked as a stream (`opened`) and cut into lines (`lines`). A `Table` finds the columns by their
names and yields the fields of each row by role. The values of fields are read by `duration`, `number`, `count` and
`flag`, which refuse what they would have to guess; each raises a ValueError whose message says why. Moments have a
file of their own, `ettrick.sim.moments`.

References
----------
RFC 4180 (quoted fields); ISO 8601 (durations); SchedMD Slurm, manual page of sacct (durations, states), and host
lists. Q. Weng et al., "MLaaS in the Wild", NSDI 2022 (states of Alibaba's traces).
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gc
import heapq
import io
import itertools
import math
import operator
import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from ettrick.sim.units import DURATION, parse
from ettrick.sim.yamlfile import check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from _typeshed import WriteableBuffer
    from numpy.typing import NDArray

    Row = dict[str, str]

CHUNK = 1 << 22
"""Bytes that are read at once."""

MIN_UNPACKED, MAX_UNPACKED = 1 << 28, 1 << 33
"""Bytes to which any packed file may unpack, and the largest one; between them it is 200 times its size."""

NOTHING = frozenset(("", "unknown", "none", "null", "(null)", "nan", "nat", "n/a", "na", "-"))
"""The words for a missing value, in lower case; `unknown` is Slurm's."""


Value = TypeVar("Value")


class LogError(Exception):
    """A file that cannot be read; the message, one line, names file and line, the rule, and what helps.

    It is no ValueError: that is raised for one value or one row, which a reader may leave out and count.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else "\ufffd" for letter in message))


# Files and lines.


@contextlib.contextmanager
def paused_collection() -> Iterator[None]:
    """Read files without the collector of garbage, which would look through all rows again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def opened(file: str) -> io.BufferedReader:
    """Return a file, unpacked if it is gzip; ``-`` is standard input.

    Raises
    ------
    LogError
        If it cannot be read.
    """
    if file == "-":
        return io.BufferedReader(io.FileIO(0, closefd=False), CHUNK)
    try:
        raw = io.FileIO(file)
        is_packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogError(f"{file}: cannot be read ({reason[:1].lower()}{reason[1:]})") from None
    return io.BufferedReader(Unpacked(raw) if is_packed else raw, CHUNK)


class Unpacked(io.RawIOBase):
    """A gzip file that gives all that it holds before it says that it ends early, which `gzip.open` does not."""

    def __init__(self, packed: io.FileIO) -> None:
        self.packed, self._rest, self._size = packed, b"", 0
        self._unpack = zlib.decompressobj(31)
        self._most = max(min(200 * os.fstat(packed.fileno()).st_size, MAX_UNPACKED), MIN_UNPACKED)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer, and return how much is in it.

        Raises
        ------
        EOFError
            If the file ends before what is packed in it does.
        LogError
            If it holds far more than a log does.
        zlib.error
            If it is damaged.
        """
        room = memoryview(buffer)
        while True:
            packed = self._rest or self.packed.read(1 << 16)
            if not packed:
                if self._unpack.eof:
                    return 0
                raise EOFError("the packed file was cut")
            if self._unpack.eof:  # another member
                self._unpack = zlib.decompressobj(31)
            content = self._unpack.decompress(packed, len(room))
            self._rest = self._unpack.unconsumed_tail or self._unpack.unused_data
            self._size += len(content)
            if self._size > self._most:
                size = f"{self._most >> 20:,} MB"
                raise LogError(f"{self.packed.name} cannot be read: it unpacks to more than {size}, as no log does")
            if content:
                room[: len(content)] = content
                return len(content)

    def close(self) -> None:
        """Close the packed file too."""
        self.packed.close()
        super().close()


def lines(file: str, *, may_be_pipe: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, all of which have to be readable.

    What a scenario names is read again and again, so it may be no pipe.

    Raises
    ------
    LogError
        If the file cannot be read or unpacked, or is not UTF-8 text.
    """
    try:
        if not may_be_pipe:
            check_kind(Path(file))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise LogError(f"{file} cannot be read: {reason[:1].lower()}{reason[1:]}") from None
    with opened(file) as stream:
        number = 0
        try:
            for number, raw in enumerate(stream, 1):
                text = raw.decode("utf-8" if number > 1 else "utf-8-sig")
                if "\0" in text:
                    raise LogError(f"{file}:{number}: is not text (it contains a zero byte)")
                if number == 1 and "\r" in text and not text.endswith("\n"):  # no line ends otherwise
                    yield from enumerate(text.split("\r"), 1)
                else:
                    yield number, text
        except UnicodeDecodeError as error:
            is_utf16 = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
            hint = "; convert it with iconv -f UTF-16 -t UTF-8" if is_utf16 else ""
            wrong = error.object[error.start]
            raise LogError(f"{file}:{number}: is not UTF-8 text (byte 0x{wrong:02x}){hint}") from None
        except (OSError, EOFError, zlib.error) as error:
            raise LogError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None


# Tables with a header.

_MAX_JOINED = 50
"""Lines that one quoted field may span."""

BLOCK = 1000
"""Lines of a table that are taken at once; the first ones say whether it has decimal commas."""


class Block(NamedTuple):
    """Some rows of a table: their lines, their fields by role, and line and reason of those that cannot be used."""

    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]
    wrong: list[tuple[int, str]]

    def texts(self, role: str, rows: NDArray[np.int64] | None = None) -> Sequence[str]:
        """Return the fields of a role, of all rows or of some; empty ones if there is no such column."""
        count = len(self.lines) if rows is None else len(rows)
        column = self.columns.get(role)
        if column is None:
            return [""] * count
        return column if rows is None or count == len(column) else [column[row] for row in rows.tolist()]

    def row(self, index: int) -> Row:
        """Return the fields of a row by role."""
        return {role: column[index] for role, column in self.columns.items()}

    def rows(self) -> Iterator[tuple[int, Row | str]]:
        """Return the line of each row and its fields by role; instead of them, why a row cannot be used."""
        rows = map(dict, map(zip, itertools.repeat(tuple(self.columns)), zip(*self.columns.values(), strict=True)))
        numbered: Iterable[tuple[int, Row | str]] = zip(self.lines, rows, strict=True)
        return heapq.merge(numbered, self.wrong, key=operator.itemgetter(0)) if self.wrong else iter(numbered)


class Table:
    """The rows of a table with a header, by the roles of its columns.

    Parameters
    ----------
    numbered
        Lines with their numbers, the header first.
    file
        What messages call the file.
    names
        Of each role the names that its column may have, the plainest first; without regard to case, and with blanks
        and brackets for underscores. Behind a name that ends with one a unit or a zone may stand. ``None`` if each
        column has the role of its name.
    needed
        Roles without which the table is of no use; of several in a tuple, one has to be there.
    free
        The role whose fields may hold the delimiter, as a reason that people write.
    export
        The command that writes such a table, for the message about a column that is missing.
    advice
        What helps there without one, with the role and the usual name of the column.

    Raises
    ------
    LogError
        If there is no header, a column is there twice, or one that is needed is missing.
    """

    has_commas = False

    def __init__(
        self,
        numbered: Iterable[tuple[int, str]],
        file: str,
        names: Mapping[str, Sequence[str]] | None,
        needed: Iterable[str | tuple[str, ...]],
        free: str = "",
        export: str = "",
        advice: str = "call it {name}",
    ) -> None:
        self.file, self._lines, self._free, is_mapped = file, iter(numbered), free, names is not None
        self._again: list[tuple[int, str]] = []  # lines to read again, the last one first
        self._advice = f"export it with {export}" if export else advice
        self.notes: list[str] = []
        self.line, first = next(((line, text) for line, text in self._lines if text.strip()), (1, ""))
        if first.lstrip().startswith(("{", "[{")):
            raise LogError(f"{file}:{self.line}: is JSON, and this is read from a table: CSV with a header; convert it")
        self.delimiter = max(",;\t|", key=first.count)
        self.has_commas = self.delimiter == ";"
        self.header = self._header(first)
        names = {name: (name,) for name in self.header} if names is None else names
        columns = {role: column_of(self.header, choices) for role, choices in names.items()}
        self.columns = {role: index for role, index in columns.items() if index >= 0}
        self._refuse_twins(_key if is_mapped else str.lower)
        for need in needed:
            roles = (need,) if isinstance(need, str) else need
            if not self.columns.keys() & set(roles):
                self.refuse(roles, names[roles[0]][0].rstrip("_"))

    def _header(self, first: str) -> list[str]:
        """Return the names of the columns, of which the first line has some."""
        header = [" ".join(name.split()) for name in _fields(first, self.delimiter) or []]
        while len(header) > 1 and not header[-1]:  # a delimiter ends each line
            header.pop()
        if not any(header):
            raise LogError(f"{self.file}:{self.line}: has no header; the first line names the columns")
        return header

    def _refuse_twins(self, key: Callable[[str], str]) -> None:
        """Refuse a table that has the column of a role twice."""
        keys = list(map(key, self.header))
        for index in self.columns.values():
            if keys.count(keys[index]) > 1:
                raise LogError(f"{self.file}:{self.line}: column '{self.header[index]}' is there twice")

    def refuse(self, roles: Sequence[str], name: str) -> NoReturn:
        """Refuse a table that lacks a column."""
        raise LogError(
            f"{self.file}:{self.line}: has no column for the {' or '.join(roles)} (the header has: "
            f"{', '.join(self.header)}); " + self._advice.replace("{role}", roles[0]).replace("{name}", name)
        )

    @property
    def roles(self) -> str:
        """The columns and their roles, and the unused ones, for the screen."""
        sources = ", ".join(
            role if self.header[index].lower() == role else f"{role} from '{self.header[index]}'"
            for role, index in self.columns.items()
        )
        return sources + (f"; not used: {', '.join(self.unused)}" if self.unused else "")

    @property
    def unused(self) -> list[str]:
        """Names of the columns that have no role."""
        return [name for index, name in enumerate(self.header) if index not in self.columns.values()]

    def name_of(self, role: str) -> str:
        """Return the name of the column that has a role; nothing if none has it."""
        return self.header[self.columns[role]] if role in self.columns else ""

    def rows(self) -> Iterator[tuple[int, Row | str]]:
        """Yield the line of each row and its fields by role; instead of them, why a row cannot be used."""
        for block in self.blocks():
            yield from block.rows()

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, some at a time."""
        ahead = list(itertools.islice(self._lines, BLOCK))
        self.has_commas = self.has_commas or any(_COMMA.search(text) for _, text in ahead)
        while ahead:
            texts = [text for _, text in ahead]
            rows = [text.split(self.delimiter) for text in texts]
            if set(map(len, rows)) == {len(self.header)} != {1} and '"' not in "".join(texts):
                yield self._block([line for line, _ in ahead], rows, [])
            else:
                self._again += reversed(ahead)
                yield self._fitted_block()
            ahead = list(itertools.islice(self._lines, BLOCK))

    def _block(self, lines: list[int], rows: list[list[str]], wrong: list[tuple[int, str]]) -> Block:
        """Return a block of rows, each with a field for each name of the header, and of those that are wrong."""
        fields = list(zip(*rows, strict=True)) or [()] * len(self.header)
        columns: dict[str, Sequence[str]] = {
            role: list(map(str.strip, fields[index])) for role, index in self.columns.items()
        }
        return Block(lines, columns, wrong)

    def _fitted_block(self) -> Block:
        """Return the rows of the lines that are to be read again, which may have quotes or too many fields."""
        lines, rows, wrong, width = [], [], [], len(self.header)
        while self._again:
            line, text = self._again.pop()
            joined: list[tuple[int, str]] = []
            fields = self._quoted(text, joined) if '"' in text else text.rstrip("\r\n").split(self.delimiter)
            if len(fields) != width:
                fields = self._fitted(fields, width)
            if len(fields) == width and (width > 1 or fields[0].strip()):
                lines.append(line)
                rows.append(fields)
            elif text.strip():
                self._again += reversed(joined)
                reason = f"has {len(fields)} fields, and the header {width}"
                wrong.append((line, reason if fields else "a quoted field does not end, or is too long"))
        return self._block(lines, rows, wrong)

    def _fitted(self, fields: list[str], width: int) -> list[str]:
        """Return the fields of a row without empty ones at its end, those of the free column joined."""
        while len(fields) > width and not fields[-1].strip():
            fields.pop()
        surplus, first = len(fields) - width, self.columns.get(self._free)
        if surplus > 0 and first is not None:
            last = first + surplus + 1
            fields[first:last] = [self.delimiter.join(fields[first:last])]
        return fields

    def read(self, read: Callable[[dict[str, str], int], Value]) -> Iterator[Value]:
        """Yield what is read of each row and its line.

        Raises
        ------
        LogError
            If a row cannot be used: it names the line and why.
        """
        for line, row in self.rows():
            if isinstance(row, str):
                raise LogError(f"{self.file}:{line}: {row}")
            try:
                yield read(row, line)
            except ValueError as error:
                raise LogError(f"{self.file}:{line}: {error}") from None

    def value(self, row: Mapping[str, str], role: str, read: Callable[..., float], *units: float) -> float:
        """Return what the field of a role holds, as it is read; a ValueError names the column."""
        try:
            return read(self.clear(row.get(role, "")), *units)
        except ValueError as error:
            name = self.name_of(role) or role
            raise ValueError(f"column '{name}' {f'holds {error}' if row.get(role) else 'is empty'}") from None

    def clear(self, text: str) -> str:
        """Return the text of a number whose point is no thousands separator, as it may be in some countries' tables.

        Raises
        ------
        ValueError
            If the table has decimal commas, or semicolons as their spreadsheets write, and the number may be two.
        """
        if self.has_commas and _POINT.fullmatch(text):
            raise ValueError(f"'{text}', which has {_mark(text)}")
        return text

    def _next(self) -> tuple[int, str] | None:
        """Return the next line and its number; ``None`` at the end."""
        return self._again.pop() if self._again else next(self._lines, None)

    def _quoted(self, text: str, joined: list[tuple[int, str]]) -> list[str]:
        """Return the fields of a row with quotes, none if one is open; further lines of it go into `joined`."""
        fields = _fields(text, self.delimiter)
        while fields is None and len(joined) < _MAX_JOINED and (more := self._next()) is not None:
            joined.append(more)
            text += more[1] if text.endswith("\n") else f"\n{more[1]}"
            fields = _fields(text, self.delimiter, is_joined=True)
        return fields or []


def _fields(text: str, delimiter: str, *, is_joined: bool = False) -> list[str] | None:
    """Return the fields of a line; ``None`` if a quoted one does not end in it. Slurm's pipes know no quotes.

    A quote is one only where a field begins; one that ends before the delimiter is taken as written, in one line.
    """
    if '"' not in text or delimiter == "|":
        return text.rstrip("\r\n").split(delimiter)
    for is_strict in (True, False):
        try:
            return next(csv.reader([text], delimiter=delimiter, strict=is_strict), [])
        except csv.Error as error:
            if "end of data" in str(error):
                return None
            if is_joined:
                break
    return []


def _key(name: str) -> str:
    """Return a column's name in lower case, with underscores for blanks and brackets."""
    return "_".join(re.findall(r"[^\W_]+", name.lower()))


def column_of(header: Sequence[str], choices: Sequence[str]) -> int:
    """Return the place of the column that has one of some names, the first of these first; -1 if none has."""
    lower, keys = [name.lower() for name in header], [_key(name) for name in header]
    for name in choices:
        for names, wanted in ((lower, name.lower()), (keys, _key(name))):
            if wanted in names:
                return names.index(wanted)
    stems = (name for name in choices if name.endswith("_"))
    long = ((stem, index) for stem in stems for index, key in enumerate(keys) if key.startswith(stem))
    return next((index for stem, index in long if keys[index].removeprefix(stem) in _ALL_ENDS), -1)


# Values.

_COMMA = re.compile(r'(?:^|[\t;|"])-?\d+,\d+(?:[\t;|"]|\s*$)')
"""A field that holds a number with a comma, in a table that has another delimiter or quotes it."""

_POINT = re.compile(r"-?[1-9]\d{0,2}\.\d{3}")
"""A number whose point may be a thousands separator."""


def _mark(text: str) -> str:
    """Return what the commas and points of a number are, and how it is to be written."""
    head, tail = re.fullmatch(r"(.*)[.,](.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    marks = re.findall("[.,]", text)
    whole, parts = f"'{re.sub('[.,]', '', text)}'", f"'{float(re.sub('[.,]', '', head) + '.' + tail)!r}'"
    if len(set(marks)) == 1 and len(marks) > 1:
        return f"thousands separators: write {whole}"
    if len(marks) == 1 and len(tail) == 3:
        return f"a thousands separator or a decimal one: write {whole} or {parts}"
    return f"a decimal comma: write {parts}" if marks[-1] == "," else f"a thousands separator: write {parts}"


def number(text: str, least: float = 0.0) -> float:
    """Return a finite number that is not below another."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < least:
        if math.isnan(value) and re.fullmatch(r"-?\d+(?:[.,]\d{3})*[.,]\d+", text):
            raise ValueError(f"'{text}', which has {_mark(text)}")
        kind = "a number" if math.isinf(least) else "a number of zero or more" if not least else f"at least {least:g}"
        raise ValueError(f"'{text}', which is not {kind}" if text else "is empty")
    return value


_TYPE = (
    r"(?=\w)(?!\d+(?:[\sx×]|$))(?=[^a-z]*[a-z])(?!.*\d\s*[x×]\s*\d.*[x×])"
    r"(?:(?!node|host|server|core|cpu|\b(?:of|or|to|and|per)\b)[\w. -]){2,}"
)
_COUNT = re.compile(
    rf"(\d+)(?:\.0*)?(?:(?:\s*[x×]\s*|\s+(?![x×]\b))(?!.*(?<=[\d\s])[x×]\s*\d+$){_TYPE})?"
    rf"|{_TYPE}(?<=[\d\s])[x×]\s*(\d+)",
    re.IGNORECASE,
)
_TRES = re.compile(r"[\w/]+(?::[\w.-]+)?=[\w.]+(?:,[\w/]+(?::[\w.-]+)?=[\w.]+)*")
_OTHER = re.compile(r"gpus?\b|(?:^|,)\d+=")
MOST = 10**9
"""Things that no cluster has more of; Slurm writes far greater numbers for what is not known."""


def count(text: str) -> int:
    """Return a whole number of things: ``8.0``, ``8x H100``, ``H100 x 8``, ``4 GPUs``, or GPUs as Slurm writes them."""
    match = _COUNT.fullmatch(text) if len(text) <= 200 else None
    gpus = {} if match else gres_gpus(text)
    if match is None and not gpus and not _TRES.fullmatch(text):
        raise ValueError(f"'{text}', which is no whole number")
    if match is None and not gpus and _OTHER.search(text.lower()):
        raise ValueError(f"'{text}', which does not say the GPUs as gres/gpu=NUMBER; export it with sacct")
    whole = sum(number for kind, number in gpus.items() if not MIG.search(kind))  # a job of processors alone has none
    value = int(match[1] or match[2]) if match else whole
    if value > MOST:
        raise ValueError(f"'{text}', which is larger than any cluster")
    return value


MIG = re.compile(r"\d+g\.\d+gb", re.IGNORECASE)
"""Types of slices of a GPU, `1g.10gb` or `a100_3g.20gb`: they are no whole GPU, though totals of Slurm count them."""

MAX_GPUS = 256
"""GPUs, or instances of GPUs, that a node can have."""


_GPU = re.compile(r"(?:gres/)?gpu|(?:n|num_|nvidia[._]com[/_])?gpus?")


def gres_gpus(text: str) -> dict[str, int]:
    """Return the GPUs in a list of resources of Slurm by type, in lower case; "" for those without a type.

    They are ``gpu``, ``gpu:8``, ``gpu:h100:8(S:0-1)`` and ``gpu:2080ti:no_consume:8`` in Gres, and ``gres/gpu:h100=8``
    in TRES, where the number of a type is also in the total, ``gres/gpu=8``.

    Raises
    ------
    ValueError
        If an item of GPUs has another form.
    """
    gpus: dict[str, int] = {}
    for item in map(str.strip, re.sub(r"\([^)]*\)", "", text).split(",")):
        name, *words = re.split("[:=]", item.lower())
        if _GPU.fullmatch(name):
            kind, size = _gres_item(item, words)
            gpus[kind] = gpus.get(kind, 0) + size
    if "gres/gpu=" in text.lower() and len(gpus) > 1:
        return {"": gpus[""] - sum(number for kind, number in gpus.items() if MIG.search(kind))}
    return gpus


def _gres_item(item: str, words: Sequence[str]) -> tuple[str, int]:
    """Return the type and the number of GPUs of an item, whose words stand behind its name."""
    if "=" in item and not words[-1].isdecimal():
        raise ValueError(f"'{item}', which is no whole number of GPUs; sacct --noconvert writes it in full")
    *kinds, last = ["", *(word for word in words if word != "no_consume")]
    kinds, size = (kinds, int(last)) if kinds and last.isdecimal() else ([*kinds, last], 1)
    if len(kinds) > 2 or "" in kinds[1:]:
        raise ValueError(f"'{item}' is not of the form gpu:TYPE:NUMBER")
    if size > MAX_GPUS and "=" not in item:
        raise ValueError(f"'{item}' states {size:,} GPUs in one node; a type needs a number: gpu:TYPE:NUMBER")
    return kinds[-1], size


_FLAGS = {
    **dict.fromkeys(
        ("1", "1.0", "true", "t", "yes", "y", "failed", "failure", "dead", "planned", "scheduled", "x"), True
    ),
    **dict.fromkeys(("0", "0.0", "false", "f", "no", "n", "ok", "alive", "unplanned", "unscheduled"), False),
    **dict.fromkeys(("censored", "running", *NOTHING), False),
}


def flag(text: str) -> bool:
    """Return what a word for yes or no says; another word is refused, never taken for no."""
    value = _FLAGS.get(text.lower())
    if value is None:
        raise ValueError(f"'{text}', which is neither yes nor no")
    return value


# States of jobs.

NOT_OVER = "not over"

STATES = {
    word: meaning
    for meaning, words in {
        "completed": "completed complete done finished pass passed success successful succeeded terminated",
        "failed": "failed failure error exit out_of_memory oom oomkilled launch_failed",
        "cancelled": "cancelled canceled killed timeout deadline node_fail boot_fail preempted requeued revoked "
        "evicted interrupted reconfig_fail",
        NOT_OVER: "running pending waiting queued requeue_hold suspended completing configuring special_exit stopped "
        "resizing",
    }.items()
    for word in words.split()
}
"""The states of Slurm, Kubernetes and Alibaba and their meaning, in lower case: ended from outside is cancelled.

A job of Alibaba that is done is Terminated.
"""


def full_state(word: str, states: Mapping[str, str]) -> str:
    """Return the state that a word is, or is the beginning of (`OUT_OF_ME+`, as sacct cuts long ones).

    Nothing if there is none, or several that mean different things.
    """
    if word in states:
        return word
    stem = word.removesuffix("+")
    meanings = {states[state]: state for state in states if stem != word and state.startswith(stem)}
    return meanings.popitem()[1] if len(stem) > 2 and len(meanings) == 1 else ""


def state_of(text: str, states: Mapping[str, str]) -> str:
    """Return what a state means: how a job ended, or that it is not over; another word is refused."""
    if text in states:
        return states[text]
    word = text.lower().partition(" by ")[0].replace(" ", "_")  # Slurm: CANCELLED by 1000
    if state := full_state(word, states):
        return states[state]
    raise ValueError(
        f"unknown state '{text}'; say what it means, for example states: {{{word or repr(word)}: completed}} "
        f"({', '.join(dict.fromkeys(states.values()))})"
    )


_LENGTHS = [
    re.compile(pattern)
    for pattern in (
        r"(?:(?P<d>\d+)(?:-| days?,? ))?(?P<h>\d+):(?P<min>\d\d):(?P<s>\d\d(?:\.\d+)?)",
        r"(?P<min>\d+):(?P<s>\d\d(?:\.\d+)?)",
        r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<min>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    )
]
"""Lengths of time as Slurm, Python and pandas write them, Slurm's without hours, and those of ISO 8601."""


LONGEST = 1e12
"""Length of time that nothing has [s]; what Slurm writes for no limit, 2**32 minutes, is below it."""


def duration(text: str, second: float = 1.0) -> float:
    """Return a length of time [s]: ``1-02:00:00``, ``1 day, 2:00:00``, ``PT26H``, ``26 h``, or a number of units."""
    if ":" not in text and not text[-1:].isalpha():
        value = number(text) * second
        if value > LONGEST:
            raise ValueError(f"'{text}', which is longer than any job")
        return value
    match = next((match for pattern in _LENGTHS if (match := pattern.fullmatch(text))), None)
    if match is None:
        return parse(text, DURATION)
    return sum(float(value or 0) * DURATION.units[unit] for unit, value in match.groupdict().items())


# What the name of a column says of its unit.

UNITS = {
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "timelimitraw"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "elapsedraw"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "micros", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"), 1e-9),
}
"""The units [s] by the last words of a column's name; the names of sacct state them too."""


@functools.lru_cache(1000)
def _ends(column: str) -> tuple[str, ...]:
    """Return what the name of a column ends with, the longest end, which is all of it, first."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", column)]
    return tuple("_".join(words[start:]) for start in range(len(words)))


def unit_of(column: str) -> float:
    """Return the unit that the name of a column states [s]; 0 if it states none."""
    ends = (end.replace("_", "") for end in _ends(column))
    return next((UNITS[end] for end in ends if end in UNITS), 0.0)


def end_of(column: str, ends: Container[str]) -> str:
    """Return with which of some ends the name of a column ends, which is more than that; nothing if it has none."""
    return next((end for end in _ends(column)[1:] if end in ends), "")


CLOCKS = {"hh_mm": ":00", "h_mm": ":00", "mm_ss": "", "m_ss": "", "hh_mm_ss": None, "h_mm_ss": None}
"""The missing part of lengths of time such as 1:30, by the end of the column's name; ``None`` if that is unclear."""

_FAR = (
    "local local_time cet cest eet eest wet west bst ist msk est edt cst cdt mst mdt pst pdt jst kst sgt hkt aest aedt"
)
ZONES = frozenset(("utc", "gmt", "z", *_FAR.split()))
"""The zone of moments by the end of the column's name."""

_ALL_ENDS = frozenset(f"{word}{end}" for word in ("", "in_") for end in (*UNITS, *CLOCKS, *ZONES))


# Lists of hosts: gpu[001-010,012],login1 and r[1-2]n[01-16].

MOST_HOSTS = 1 << 20


class HostLists:
    """Expands lists of hosts, and remembers those that it has seen."""

    def __init__(self) -> None:
        self.expand = functools.lru_cache(100_000)(_expanded)


def _expanded(text: str) -> tuple[str, ...]:
    """Return the names of a list of hosts.

    Raises
    ------
    ValueError
        If brackets do not close, a range falls, or the list was cut.
    """
    if text.rstrip().endswith(("...", "…", "+")):
        raise ValueError(f"the list of hosts '{text}' was cut")
    names: list[str] = []
    depth, start = 0, 0
    for index, letter in enumerate(text + ","):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            part = text[start:index].strip()
            start = index + 1
            names += _product(part) if part else ()
    if depth:
        raise ValueError(f"the list of hosts '{text}' has a bracket that does not close")
    return tuple(names)


def _product(text: str) -> list[str]:
    names = [""]
    for at, piece in enumerate(re.split(r"\[([^\[\]]*)\]", text)):
        choices = _range(piece) if at % 2 else [piece]
        if len(names) * len(choices) > MOST_HOSTS:
            raise ValueError(f"the list of hosts '{text[:40]}' names more than {MOST_HOSTS:,} hosts")
        names = [name + choice for name in names for choice in choices]
    return names


def _range(text: str) -> list[str]:
    names: list[str] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not dash:
            names.append(low)
            continue
        if not (low.isdigit() and high.isdigit()) or int(high) < int(low):
            raise ValueError(f"'{part}' is no range of hosts")
        if int(high) - int(low) >= MOST_HOSTS:
            raise ValueError(f"'{part}' names more than {MOST_HOSTS:,} hosts")
        names += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
    return names


# Names of one host: short or full, in any case.

ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F:]*:[0-9a-fA-F:]*")


def short_name(name: str) -> str:
    """Return the first part of the name of a host, in lower case; an address as it is."""
    return name if ADDRESS.fullmatch(name) else name.partition(".")[0].lower()


def same_hosts(names: Iterable[str], stated: Container[str] = ()) -> tuple[dict[str, str], list[list[str]]]:
    """Return the name that stands for each other one of the same host, and groups that may be one host or several.

    It is one that is `stated`, or the shortest: a short name is the long one that begins with it, unless several do.
    """
    forms: dict[str, list[str]] = {}
    for name in sorted(names):
        if name and not ADDRESS.fullmatch(name):
            forms.setdefault(short_name(name), []).append(name)
    same: dict[str, str] = {}
    unclear: list[list[str]] = []
    for group in forms.values():
        longest = max(group, key=len)
        if all(f"{longest}.".lower().startswith(f"{name}.".lower()) for name in group):
            best = min(group, key=lambda name: (name not in stated, len(name), name))
            same |= {name: best for name in group if name != best}
        elif any("." not in name for name in group):
            unclear.append(group)
    return same, unclear
