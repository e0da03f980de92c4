"""Kernel logs: XIDs and lost links. Most lines are neither, so they are found in large pieces of the file.

References
----------
NVIDIA, XID errors; Linux kernel, Documentation/ABI/testing/dev-kmsg; systemd, journal export.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.logs.tables import Event
from sim.records import LogError

if TYPE_CHECKING:
    from analysis.logs.files import Log
    from analysis.logs.tables import Rules
    from sim.records import Moments

SAME_CODE = 30.0
"""Gap [s] up to which lines of one code and device are one fault: longer than GSP's repeats, shorter than a reset."""

XID = re.compile(rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)(?: GPU-I:\d+)?\): (\d+)")

FORMS = re.compile(
    r"\d+,\d+,(\d+),[^;]*;|\[\s*\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |kern +:\w+ *: "
)
"""How lines of /dev/kmsg and of dmesg begin."""

_SEVERITY = re.compile(rb"\b(?:(non-?fatal)|fatal)\b", re.IGNORECASE)
_FROM_BOOT = "seconds since boot; export with dmesg --time-format iso, or journalctl -o short-iso-precise"
_NO_YEAR = "a date without a year; state it with --year, or export with journalctl -o short-iso-precise"


def read_kernel(log: Log) -> None:
    """Read XIDs and lost links; lines of one node, device and code that follow within 30 s are one fault."""
    tables, rules, source = log.tables, log.rules, log.source
    texts = [b"NVRM: Xid", *(holds for holds, *_ in rules.kernel)]
    alone = _host_of(log.file)
    groups: dict[tuple[str, bytes, int, str, str], list[list[float]]] = {}
    noise: dict[tuple[str, bytes, int], float] = {}
    counts = tables.groups
    of_xid = rules.of_xid
    applications = frozenset(code for code, cause in of_xid.items() if cause == "application")
    stamp = _Stamps(log.clock, alone)
    used = hits = number = 0
    for number, line in log.holding(texts):
        hits += 1
        match = XID.search(line)
        if match is not None:
            device, code, cause = match[1], int(match[2]), of_xid.get(int(match[2]), "gpu_other")
            device = device.split(b".")[0]
        else:
            special = _special(line, rules)
            if special is None:
                log.drop("a line of the driver without a device", number)
                continue
            device, code, cause = special
        try:
            moment, node = stamp.read(line, number)
        except LogError:
            raise
        except (ValueError, KeyError, IndexError) as error:
            log.drop(str(error) if isinstance(error, _NoMomentError) else "no moment that can be read", number)
            continue
        used += 1
        if moment < source.first:
            source.first = moment
        if moment > source.last:
            source.last = moment
        key = (node, device, code)
        tally = counts.setdefault(code, [0, 0])
        tally[0] += 1
        if code in applications:
            last = noise.get(key)
            if last is None or abs(moment - last) > SAME_CODE:
                tally[1] += 1
            noise[key] = moment
            continue
        stated = _SEVERITY.search(line, line.index(b"id (") if b"id (" in line else len(line))
        severity = "info" if (stated[1] if stated else code in rules.harmless) else "fatal"
        mine = groups.setdefault((*key, cause, severity), [])
        if mine and -SAME_CODE <= moment - mine[-1][1] <= SAME_CODE:
            mine[-1][0] = min(mine[-1][0], moment)
            mine[-1][1] = max(mine[-1][1], moment)
            mine[-1][2] += 1
        else:
            mine.append([moment, moment, 1, number])
    source.rows = used
    for line in log.ends:
        with contextlib.suppress(ValueError, KeyError, IndexError):
            source.saw(_Stamps(log.clock, alone).read(line, number)[0])
    if source.lines > hits:
        log.drop("other lines of the kernel", 1, source.lines - hits)
    if stamp.jumps:
        tables.findings.append(f"{log.file}: on {stamp.jumps:,} lines the clock of a host falls by more than a minute")
    for (node, device, code, cause, severity), mine in groups.items():
        for first, last, count, begun in mine:
            tables.events.append(
                Event(
                    "kernel", first, last, node, cause, f"xid {code}" if code else "kernel text", log.file,
                    int(begun), part="nic" if cause == "nic" else "gpu", part_id=device.decode(),
                    severity="info" if severity == "info" else "fatal", raw_count=int(count), is_fault=True,
                )
            )  # fmt: skip


def _special(line: bytes, rules: Rules) -> tuple[bytes, int, str] | None:
    """Return device, code and cause of a line without an XID."""
    text = line.decode("utf-8", errors="replace")
    for holds, pattern, cause, code in rules.kernel:
        if holds in line:
            match = pattern.search(text)
            if match is not None:
                device = match[1].removeprefix("PCI:").rstrip(".").encode()
                return device.split(b".")[0] if code else device, code, cause
    return None


class _NoMomentError(ValueError):
    """A line whose moment or host cannot be known; the message is why."""


_GENERIC = re.compile(r"(dmesg|kern|kernel|messages|syslog|system|journal|console|log)\b.*|-", re.IGNORECASE)


def _host_of(file: str) -> str:
    """Return the host of a file whose lines name none: its name, or its folder's; nothing if neither can be one."""
    path = Path(file)
    return next(
        (name for name in (path.name.partition(".")[0], path.parent.name) if name and not _GENERIC.fullmatch(name)), ""
    )


_ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_LINE = re.compile(
    r"(?:\[pod/[^\]]+\] )?"  # kubectl logs --prefix
    r"(?:(?P<first>[A-Za-z][\w.-]*): (?=[\[\d<k]))?"  # pdsh, clush
    r"(?:<\d+>1 )?(?:kern *: ?\w+ *: )?(?:\d+,\d+,(?=\d+,))?(?P<bracket>\[ *)?"  # RFC 5424, dmesg -x, /dev/kmsg
    rf"(?:(?P<date>{_DATE})|(?P<ctime>[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d+ [\d:]{{8}} \d{{4}})"
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d [\d:]{8})|(?P<boot>\d+[.,]\d+))"
    r"(?(bracket) *\])[,\d\w-]*[;:]? *(?P<host>[A-Za-z0-9](?:[\w.-]*\w)?(?=\s))?"
)
"""What stands before the text of a line: who printed it, the moment in one of four forms, and the host."""

_TEXTS = ("MESSAGE", "log", "message", "textPayload")
_MOMENTS = ("time", "timestamp", "@timestamp", "ts")
_HOSTS = ("_HOSTNAME", "hostname", "host", "node", "node_name")


class _Stamps:
    """Moment and host of a line of a kernel log, in whatever form."""

    def __init__(self, clock: Moments, alone: str) -> None:
        self._clock, self._alone = clock, alone
        self._last: dict[str, float] = {}
        self.jumps = 0

    def read(self, line: bytes, number: int) -> tuple[float, str]:
        """Return the moment [s since 1970] and the host."""
        text = _ANSI.sub("", line.decode("utf-8", errors="replace")).lstrip("\ufeff ")
        moment, node = self._entry(text, number) if text.startswith("{") else self._line(text, number)
        if not (node or self._alone):
            raise _NoMomentError("a line without a host, in a file that is not called after one (gpu001.log)")
        node = node or self._alone
        last = self._last.get(node, moment)
        if moment < last - 60:
            self.jumps += 1
        self._last[node] = moment
        return moment, node

    def _entry(self, text: str, number: int) -> tuple[float, str]:
        """Read a line of JSON: journald's, Docker's, or that of a collector."""
        entry = json.loads(text)
        node = next((str(entry[key]) for key in _HOSTS if entry.get(key)), "")
        if "__REALTIME_TIMESTAMP" in entry:
            return int(entry["__REALTIME_TIMESTAMP"]) / 1e6, node
        with contextlib.suppress(_NoMomentError):  # the line's own moment is nearer to the fault
            moment, host = self._line(next((str(entry[key]) for key in _TEXTS if entry.get(key)), ""), number)
            return moment, host or node
        stamp = next((str(entry[key]) for key in _MOMENTS if entry.get(key)), "")
        return self._clock.read(re.sub(r"(\.\d{6})\d+", r"\1", stamp), number), node

    def _line(self, text: str, number: int) -> tuple[float, str]:
        match = _LINE.match(text)
        if match is None:
            raise _NoMomentError("no moment that can be read")
        host = match["first"] or match["host"] or ""
        if host in ("kernel", "NVRM"):
            host = ""
        if match["date"]:
            stamp = re.sub(r" ?(UTC|Z)$", "Z", match["date"]).replace(",", ".").replace(" ", "T", 1)
            return self._clock.read(re.sub(r" ?([+-]\d\d):?(\d\d)$", r"\1:\2", stamp), number), host
        if match["ctime"]:
            return self._clock.ctime(match["ctime"], number), host
        if match["boot"]:
            raise _NoMomentError(_FROM_BOOT)
        if not self._clock.year:
            raise _NoMomentError(_NO_YEAR)
        return self._clock.syslog(match["syslog"], number), host
