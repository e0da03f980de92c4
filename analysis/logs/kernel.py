"""Kernel logs: XIDs and lost links. Most lines are neither, so they are found in large pieces of the file.

References
----------
NVIDIA, XID errors; Linux kernel, Documentation/ABI/testing/dev-kmsg; systemd, journal export.
"""

from __future__ import annotations

import contextlib
import json
import re
from datetime import datetime
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

XID = re.compile(rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")

FORMS = re.compile(
    r"\d+,\d+,(\d+),[^;]*;|\[\s*\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] |kern +:\w+ *: "
)
"""How lines of /dev/kmsg and of dmesg begin."""

_FROM_BOOT = "seconds since boot; export with dmesg --time-format iso, or journalctl -o short-iso-precise"


def read_kernel(log: Log) -> None:
    """Read XIDs and lost links; lines of one node, device and code that follow within 30 s are one fault."""
    tables, rules, source = log.tables, log.rules, log.source
    texts = [b"NVRM: Xid", *(holds for holds, *_ in rules.kernel)]
    alone = re.sub(r"[.].*", "", Path(log.file).name)  # a file without names of hosts is that of one host
    groups: dict[tuple[str, bytes, int, str], list[list[float]]] = {}
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
        mine = groups.setdefault((*key, cause), [])
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
    for (node, device, code, cause), mine in groups.items():
        for first, last, count, begun in mine:
            tables.events.append(
                Event(
                    "kernel", first, last, node, cause, f"xid {code}" if code else "kernel text", log.file,
                    int(begun), part="nic" if cause == "nic" else "gpu", part_id=device.decode(),
                    severity="info" if code in rules.harmless else "fatal", raw_count=int(count),
                    is_fault=True,
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
    """A line whose moment cannot be known; the message is why."""


class _Stamps:
    """Moment and host of a line of a kernel log, in whatever form."""

    def __init__(self, clock: Moments, alone: str) -> None:
        self._clock, self._alone = clock, alone
        self._last: dict[str, float] = {}
        self.jumps = 0

    def read(self, line: bytes, number: int) -> tuple[float, str]:
        """Return the moment [s since 1970] and the host."""
        moment, node = self._read(line, number)
        last = self._last.get(node, moment)
        if moment < last - 60:
            self.jumps += 1
        self._last[node] = moment
        return moment, node

    def _read(self, line: bytes, number: int) -> tuple[float, str]:
        if 48 <= line[0] <= 57:
            stamp, _, rest = line.partition(b" ")
            if b"-" in stamp and b";" not in stamp:
                text = stamp.decode()
                node = rest.split(b" ", 1)[0].decode("utf-8", errors="replace")
                if node == "kernel:" or node.startswith("NVRM"):
                    node = self._alone
                # Journald writes the offset without a colon.
                if text[-5] in "+-" and text[-3] != ":":
                    text = f"{text[:-2]}:{text[-2:]}"
                if text[-6] in "+-" or text[-1] == "Z":
                    return datetime.fromisoformat(text).timestamp(), node
                return self._clock.read(text, number), node
            raise _NoMomentError(_FROM_BOOT)  # /dev/kmsg
        if line[:1] == b"{":
            entry = json.loads(line)
            return int(entry["__REALTIME_TIMESTAMP"]) / 1e6, str(entry.get("_HOSTNAME") or self._alone)
        if line[:1] == b"[":
            stamp = line[1 : line.index(b"]")].strip()
            if stamp[:1].isdigit():
                if b"-" in stamp:
                    return self._clock.read(stamp.decode().replace(",", "."), number), self._alone
                raise _NoMomentError(_FROM_BOOT)
            return self._clock.ctime(stamp.decode(), number), self._alone
        if line[:4] == b"kern":
            words = line.decode("utf-8", errors="replace").split(":", 2)[2].split()
            return self._clock.read(words[0].replace(",", "."), number), self._alone
        if re.match(rb"[A-Z][a-z]{2} [ \d]\d [\d:]{8} ", line):
            raise _NoMomentError("a date without a year; export with journalctl -o short-iso-precise")
        raise _NoMomentError("no moment that can be read")
