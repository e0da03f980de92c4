"""Kernel logs: codes of GPUs and switches, lost links. Few lines are faults, so they are searched in large pieces.

A line is split into its header (who printed it, when, on which host) and its message (`_Headers`); the message is read
by the rules of `rules.yaml` (`_fault_of`); lines of one fault are joined (`_Faults`).

References
----------
NVIDIA, XID errors; Linux kernel, Documentation/ABI/testing/dev-kmsg; systemd, journal export; RFC 5424, RFC 3164.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.logs.tables import NodeEvent
from ettrick.sim.moments import EPOCH, StrayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ettrick.analysis.logs.tables import LogReader, Rules

SAME_CODE = 30.0
"""Gap [s] up to which lines of one code and device are one fault: longer than GSP's repeats, shorter than a reset."""

NAMED = 5.0
"""A line without a device is about the GPU that the same host named within this [s]: one message over several lines."""

XID = re.compile(r"\bXid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)")
_NAMES, _GPU = "the nvidia gpu", re.compile(r"The NVIDIA GPU (?:at )?\(?(?:PCI:)?([0-9a-fA-F:.]{7,})")
_SEVERITY = re.compile(r"\b(?:(non[- ]?fatal)|fatal)\b", re.IGNORECASE)

FORMS = re.compile(
    r"\d+,\d+,(\d+),[^;]*;|\[\s*\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |kern +:\w+ *: "
)
"""The beginnings of lines of /dev/kmsg and of dmesg."""

_EXPORT = "export with journalctl -k -o short-iso-precise, or dmesg --time-format iso"
_FROM_BOOT = f"seconds since boot, which are no moment; {_EXPORT}"
_NO_YEAR = f"a date without a year; state it with --year, or {_EXPORT}"
_NO_ZONE = f"a zone by letters that several zones have; {_EXPORT}"
_NO_MOMENT = f"no moment that can be read; {_EXPORT}"
_NO_HOST = "no host in the line, and none in the name of the file; call the file after it, as in gpu001.log"
_SEVERAL = (
    "no host that can be read, in a file of several hosts; export one file for each, as gpu001.log, or with pdsh or "
    "journalctl -o short-iso-precise"
)


class Fault(NamedTuple):
    """The fault in a message: the device, its name (``xid 79``), its cause, and the severity if stated.

    Without a name it only says which device the next message is about.
    """

    device: str
    basis: str
    cause: str
    severity: str


def read_kernel(log: LogReader) -> None:
    """Read codes and lost links; lines of one node, device and code that follow within 30 s are one fault."""
    rules, source = log.rules, log.source
    headers, faults, unnamed = _Headers(log), _Faults(log), _Faults(log)
    words = [*dict.fromkeys((_NAMES, *(rule.holds for rule in rules.kernel), *rules.fault_words))]
    rest = 0
    for number, text in _candidates(log, words):
        rest -= 1
        header, message = headers.split(text)
        fault = _fault_of(message, rules)
        if fault is None:
            word = _word_in(message, words)
            if word or _word_in(text, words):
                log.drop(f"a fault that no rule reads: {word or 'outside the message'}", number, sort="unread")
            else:
                rest += 1
            continue
        try:
            moment, node = headers.read(header, number)
        except (ValueError, KeyError, IndexError) as error:
            reason = str(error) if isinstance(error, _NoMomentError | StrayError) else _NO_MOMENT
            log.drop(rules.foreign_to("line", text) or reason, number)
            continue
        rest += not (faults if node else unnamed).add(node or headers.alone, moment, fault, number)
    source.saw(*headers.span(log.ends))
    if headers.are_several(log.ends[0]):
        unnamed.leave_out(_SEVERAL)
    rest += source.lines
    if rest > 0:
        log.drop("other lines of the kernel", 1, rest, sort="normal")
    log.tables.events += [*faults.events(), *unnamed.events()]
    log.tables.findings += headers.findings(source.rows)


def _candidates(log: LogReader, words: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that may be a fault; of JSON over several lines, each entry as one."""
    words = (*words, *_BYTES)
    if not re.match(r"\s*([{\[]\s*$|\[\s*\{|\{\s*\"events\")", log.first_line()):
        for number, line in log.holding(word.encode() for word in words):
            yield number, line.decode("utf-8", errors="replace")
        return
    for number, value in log.documents():
        entries = value.get("events", value) if isinstance(value, dict) else value  # of CloudWatch
        for entry in entries if isinstance(entries, list) else [value]:
            text = json.dumps(entry, ensure_ascii=False)
            if _word_in(text, words):
                yield number, text


def _word_in(text: str, words: Iterable[str]) -> str:
    """Return the first of some words, in lower case, that a text holds; nothing if it holds none."""
    lower = text.lower()
    return next((word for word in words if word in lower), "")


def _fault_of(message: str, rules: Rules) -> Fault | None:
    """Return the fault that a message is; ``None`` if it is none."""
    match = XID.search(message)
    if match is not None:
        cause = rules.of_xid.get(int(match[2]), "gpu_other")
        return Fault(match[1].split(".")[0], f"xid {int(match[2])}", cause, _severity(message[match.end() :]))
    lower = message.lower()
    for rule in rules.kernel:
        if rule.holds in lower and (match := rule.match.search(message)) is not None:
            device, code = (match[1] or "").removeprefix("PCI:").rstrip(".:"), match.groupdict().get("code")
            basis = f"sxid {code}" if code else f"xid {rule.code}" if rule.code else "kernel text"
            severity = _severity(message[match.end() :])
            return Fault(device.split(".")[0] if rule.code else device, basis, rule.cause, severity)
    match = _GPU.search(message)
    return None if match is None else Fault(match[1].split(".")[0], "", "", "")


def _severity(text: str) -> str:
    """Return the severity that a text states; nothing if it states none."""
    match = _SEVERITY.search(text) if "fatal" in text.lower() else None
    return "" if match is None else "info" if match[1] else "fatal"


class _Faults:
    """Faults as their lines come: lines of one node, device and code within 30 s are one."""

    def __init__(self, log: LogReader) -> None:
        self._log, self._numbers = log, list[int]()
        self._tallies: dict[str, list[int]] = {}
        self._noise: dict[tuple[str, str, str], float] = {}
        self._gpus: dict[str, tuple[float, str]] = {}
        self._groups: dict[tuple[str, str, str], list[NodeEvent]] = {}

    def add(self, node: str, moment: float, fault: Fault, number: int) -> bool:
        """Add a line to its fault, or as a new one, and return whether it is one; programs' errors are only counted."""
        if not fault.basis:
            self._gpus[node] = moment, fault.device
            return False
        if not fault.device and abs(moment - self._gpus.get(node, (0.0, ""))[0]) <= NAMED:
            fault = fault._replace(device=self._gpus[node][1])
        self._numbers.append(number)
        self._log.source.use(moment)
        key = node, fault.device, fault.basis
        tally = self._tallies.setdefault(fault.basis, [0, 0])
        tally[0] += 1
        if fault.cause == "application":
            last = self._noise.get(key)
            tally[1] += last is None or abs(moment - last) > SAME_CODE
            self._noise[key] = moment
            return True
        group = self._groups.setdefault(key, [])
        if group and group[-1].t - SAME_CODE <= moment <= group[-1].t_end + SAME_CODE:
            event = group[-1]
            event.t, event.t_end = min(event.t, moment), max(event.t_end, moment)
            event.raw_count += 1
        else:
            event = NodeEvent(
                "kernel", moment, moment, node, fault.cause, fault.basis, self._log.file, number,
                part="nic" if fault.cause == "nic" else "gpu", part_id=fault.device, severity="degraded", is_fault=True,
            )  # fmt: skip
            group.append(event)
        if fault.severity and event.severity != "fatal":
            event.severity = "info" if fault.severity == "info" else "fatal"
        return True

    def leave_out(self, reason: str) -> None:
        """Count all lines under a reason for which they cannot be used."""
        for number in self._numbers:
            self._log.drop(reason, number)
        self._log.source.rows -= len(self._numbers)
        self._groups, self._tallies, self._numbers = {}, {}, []

    def events(self) -> Iterator[NodeEvent]:
        """Yield the faults, and count lines by code; a fault whose lines state no severity has that of its code."""
        for basis, (lines, groups) in self._tallies.items():
            tally = self._log.tables.groups.setdefault(_xid(basis), [0, 0])
            tally[0], tally[1] = tally[0] + lines, tally[1] + groups
        for group in self._groups.values():
            for event in group:
                if event.severity == "degraded":
                    event.severity = "info" if _xid(event.cause_basis) in self._log.rules.harmless else "fatal"
                yield event


def _xid(basis: str) -> int:
    """Return the XID that a basis names; 0 if it names none."""
    return int(basis.removeprefix("xid ")) if basis.startswith("xid ") else 0


# Headers of lines.


class _NoMomentError(ValueError):
    """A line whose moment or host cannot be known; the message is why."""


_ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_LINE = re.compile(
    r"(?:\[pod/[^\]]+\] )?"  # kubectl logs --prefix
    r"(?:(?P<first>[A-Za-z][\w.-]*): (?=[\[\d<k]|[A-Z][a-z]{2} ))?"  # pdsh, clush
    r"(?:<\d+>(?:1 )?)?(?:kern *: ?\w+ *: )?(?:\d+,\d+,(?=\d+,))?(?P<bracket>\[ *)?"  # syslog, dmesg -x, /dev/kmsg
    rf"(?:(?:[A-Z][a-z]{{2}} )?(?P<date>{_DATE})|(?P<ctime>[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d+ [\d:]{{8}} \d{{4}})"
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]?\d [\d:]{8}(?:\.\d+)?)|(?P<number>\d+[.,](?:\d+|-)))"
    r"(?(bracket) *\])[,\d\w-]*[;:]?(?P<letters> [A-Z]{3,5}(?= (?!kern|NVRM|nvidia|mlx)))?"
    r"(?: +(?P<host>[A-Za-z0-9](?:[\w.-]*\w)?)"
    r"(?= +(?:kern|NVRM|nvidia|mlx\d|\S+: NVRM|\S+\[\d+\]:|\[ *\d+\.\d|\S+ - - )))?"
)
"""The header of a message: the program, the moment in one of four forms, and the host, which the rest of the line must
confirm: in the lines of dmesg the name of a driver stands there.
"""

_TEXTS = (
    "MESSAGE", "log", "message", "textPayload", "jsonPayload.message", "jsonPayload.MESSAGE", "line", "result._raw",
)  # fmt: skip
_MOMENTS = ("time", "timestamp", "@timestamp", "ts", "date", "receiveTimestamp", "result._time")
_HOSTS = (
    "_HOSTNAME", "kubernetes.host", "kubernetes.node_name", *(
        f"{where}{name}" for where in ("", "labels.", "stream.", "fields.", "result.")
        for name in ("hostname", "host", "host.name", "host.hostname", "node", "node_name", "nodename")
    ), "resource.labels.node_name", "jsonPayload._HOSTNAME", "jsonPayload.hostname",
)  # fmt: skip
"""The fields of collectors of logs (journald, Docker, Fluent Bit, Elastic, Google Cloud, Loki, Splunk) for the line,
its moment, its host.
"""

_BYTES = ('"message":[', '"message": [', '"message" : [')
"""The beginning of a message of journald that is no plain text: a list of bytes."""

_LEAD = re.compile(r"(.*?)(?:NVRM|nvidia)")
_WORD = re.compile(r"\b(?:[A-Za-z][\w.-]*\d[\w.-]*|\d+(?:\.\d+){3})\b")
_PLACE = re.compile("host|node|instance|machine|pod_?name|logstream", re.IGNORECASE)
_SECTION = re.compile(r"(?=\W|.*\d)\W*([\w./-]*?)\W*(?:\| \w+.* >>)?\s*")
"""Places that may name a host: words before a message, fields of JSON, a line of its own before those of each host."""


class _Header(NamedTuple):
    """The header of a message, and the fields of the JSON around it."""

    match: re.Match[str] | None
    entry: Mapping[str, Any]


class _Headers:
    """Moments and hosts of the lines of one log, in whatever form."""

    def __init__(self, log: LogReader) -> None:
        self._clock, self._file, self.alone = log.clock, log.file, _host_of(log.file)
        self._rules = log.rules
        self._leads: set[str] = set()
        self._last: dict[str, float] = {}
        self._jumps = self._unnamed = 0

    def split(self, text: str) -> tuple[_Header, str]:
        """Return the header of a line, and its message."""
        text = (_ANSI.sub("", text) if "\x1b" in text else text).lstrip("\ufeff ").replace("\t", " ")
        entry: dict[str, Any] = {}
        if text.startswith("{"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = dict(_flat(json.loads(text)))
                text = _ANSI.sub("", _first(entry, _TEXTS))
        match = _LINE.match(text)
        return _Header(match, entry), text[match.end() :] if match else text

    def read(self, header: _Header, number: int) -> tuple[float, str]:
        """Return the moment [s since 1970] and the host."""
        printer, stated = (header.match["first"], header.match["host"]) if header.match else ("", "")
        moment = self._moment(header, number, printer or "")
        hosts = (printer, stated, _first(header.entry, _HOSTS))
        host = next((host for host in hosts if host and host.partition(".")[0] != "localhost"), "")
        if not host:
            self._note_unnamed(header)
        last = self._last.get(host, moment)
        self._jumps += moment < last - 60
        self._last[host] = moment
        return moment, host

    def _note_unnamed(self, header: _Header) -> None:
        """Keep what may name the host of a line; refuse a line that has a second header, or whose file names none."""
        text = header.match.string if header.match else ""
        reason = self._rules.foreign_to("line", text) or ("" if self.alone else _NO_HOST)
        if reason:
            raise _NoMomentError(reason)
        lead = _LEAD.match(text)
        words = _WORD.findall(re.sub(r"\[[^\]/]*\]", " ", lead[1])) if lead else []
        words += [str(value) for key, value in header.entry.items() if _PLACE.search(key)]
        self._leads |= {" ".join(words)} - {""}
        self._unnamed += 1

    def are_several(self, first: bytes) -> bool:
        """Return whether the lines without a host, after a first line of the log, are not of the file's host alone."""
        section = _SECTION.fullmatch(first.decode("utf-8", errors="replace").strip())
        is_section = section is not None and first.strip() != b"" and section[1] != self.alone
        hosts = {host.partition(".")[0] for host in self._last} - {"", self.alone}
        return self._unnamed > 0 and (is_section or len(self._leads) > 1 or bool(hosts))

    def span(self, ends: tuple[bytes, bytes]) -> Iterator[float]:
        """Yield the moments of the first and the last line of the log, where they state one."""
        for line, column in zip(ends, ("first line", ""), strict=True):
            with contextlib.suppress(ValueError, KeyError, IndexError):
                yield self._moment(self.split(line.decode("utf-8", errors="replace"))[0], 0, column)

    def _moment(self, header: _Header, number: int, column: str) -> float:
        entry = header.entry
        if "__REALTIME_TIMESTAMP" in entry:
            return self._clock.read(f"{int(entry['__REALTIME_TIMESTAMP']) / 1e6}", number)
        try:
            return self._own_moment(header.match, number, column)
        except _NoMomentError:
            stamp = _first(entry, _MOMENTS)  # the line's own moment is nearer to the fault
            if "ingestionTime" in entry:  # CloudWatch counts milliseconds
                stamp = f"{int(stamp) / 1e3}"
            if not stamp or ("-" in stamp and ":" not in stamp):  # a date alone
                raise
        return self._clock.read(stamp, number)

    def _own_moment(self, match: re.Match[str] | None, number: int, column: str) -> float:
        """Return the moment that a line states itself; dates without a year go on within their column."""
        if match is None:
            raise _NoMomentError(_NO_MOMENT)
        if match["letters"]:
            raise _NoMomentError(_NO_ZONE)
        if match["date"]:
            time = match["date"][11:].replace(",", ".").replace(" ", "")
            if time.endswith(("UTC", "GMT")):
                time = f"{time[:-3]}Z"
            return self._clock.read(f"{match['date'][:10]}T{time}", number)
        if match["ctime"]:
            return self._clock.ctime(match["ctime"], number)
        if match["number"]:
            value = match["number"].rstrip(",-").replace(",", ".")
            if float(value) < EPOCH[0] or match["bracket"] or match["number"].endswith("-"):
                raise _NoMomentError(_FROM_BOOT)
            return self._clock.read(value, number)  # journalctl -o short-unix
        if not self._clock.year:
            raise _NoMomentError(_NO_YEAR)
        try:
            return self._clock.syslog(match["syslog"], number, column)
        except ValueError as error:
            raise _NoMomentError(str(error)) from None

    def findings(self, rows: int) -> Iterator[str]:
        """Yield what is to be known of the hosts and clocks of this log."""
        if self._jumps:
            yield f"{self._file}: on {self._jumps:,} lines the clock of a host falls by more than a minute"
        if rows and self._unnamed and not self.are_several(b""):
            yield f"{self._file}: its lines name no host; they count for one node, called after the file or its folder"


def _flat(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested objects by their keys, joined by dots."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif path:
        yield path, value


def _first(entry: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """Return the value of the first of some keys that has one, as text."""
    value = next((entry[key] for key in keys if entry.get(key)), "")
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value).decode("utf-8", errors="replace")
    return str(value)


_NO_NAME = re.compile(
    r"(?:^|[-_. ])(?:dmesg|kern|kernel|messages|syslog|system|journal|journalctl|console|var|logs?|xids?|nvrm|nvidia|"
    r"errors?|faults?|gpus|all|raw|data|tmp|downloads?|export|nodes|hosts|home|\d{4}-?\d\d-?\d\d)(?=$|[-_. ])",
    re.IGNORECASE,
)
"""Words in the name of a file or folder that name no host."""


def _host_of(file: str) -> str:
    """Return the host of a file whose lines name none: its name, or its folder's; nothing if neither can be one."""
    path = Path(file)
    names = (_NO_NAME.sub("", name).strip("-_. ") for name in (path.name.partition(".")[0], path.parent.name))
    return next((name for name in names if re.search("[A-Za-z]", name)), "")
