"""Names out of what leaves a site: keyed hashes in the tables, and none in bundles, scenarios and reports.

Equal names stay equal in all files that one key made. Times move by whole weeks, so that weekday and hour stay. Free
text is dropped once the rules have read it.

References
----------
Aumasson et al., BLAKE2 (RFC 7693).
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections import Counter
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ettrick.analysis.logs.slurm_conf import SlurmPartition
from ettrick.analysis.logs.tables import Exposure, LoggedAttempt, NodeEvent, TrainingPhase, utc
from ettrick.sim.records import LogError, short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.slurm_conf import SlurmScenario
    from ettrick.analysis.logs.tables import Tables
    from ettrick.analysis.results.fitted import FitDocument
    from ettrick.sim.records import HostLists

WEEK = 7 * 86400.0
_WORD = re.compile(r"[\w.@+-]*\w")

_NET = re.compile(
    r"[\w.+-]+@[\w-]+\.[\w.-]+|\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w.])(?:~|\.{0,2})/[\w.+/-]+"
    r"|\bGPU-[0-9a-fA-F-]{8,}|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
)
"""Mail addresses, IP addresses, paths and UUIDs, wherever they stand."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def key_of(file: Path, folder: Path | None) -> bytes:
    """Return the key of a file, which is made if there is none.

    Raises
    ------
    LogError
        If it lies in the folder that leaves, cannot be used, or is no key.
    """
    if folder is not None and folder.resolve() in file.resolve().parents:
        raise LogError(f"--key {file}: is inside {folder}, and would be shared with it; keep the key elsewhere")
    try:
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        key = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except OSError as error:
        raise LogError(f"--key {file}: cannot be used ({error.strerror})") from None
    except ValueError:
        key = b""
    if not 16 <= len(key) <= 64:
        raise LogError(f"--key {file}: is not a key (32 to 128 hexadecimal digits); name a new file")
    return key


class Pseudonymizer:
    """Gives each name its hash: eight hexadecimal digits behind the kind of thing; more where two would be equal."""

    def __init__(self, key: bytes, *, keep_order: bool = False) -> None:
        self._key, self._keep_order = key, keep_order
        self._known: dict[tuple[str, str], str] = {}
        self._used: set[str] = set()
        self._count: Counter[str] = Counter()
        self.several: frozenset[str] = frozenset()
        """Short names of hosts that are those of several; by them alone a host is not known."""
        self.names: dict[str, str] = {}
        """The substitute of each name, whatever its kind; short words, which sentences use too, are left out."""
        self._sorted, self._long = 0, list[str]()
        self.shift = WEEK * (52 + int.from_bytes(self._hash("weeks", ""), "big") % 520)
        """By how much times move [s]."""

    def _hash(self, kind: str, text: str) -> bytes:
        return hashlib.blake2b(f"{kind}\0{text}".encode(), key=self._key, digest_size=16).digest()

    def name(self, kind: str, text: str) -> str:
        """Return what stands for a name of a kind; nothing for nothing. A node is its short name, in any log."""
        if not text:
            return ""
        if (kind, text) not in self._known:
            stem = short_name(text) if kind == "node" else text
            stem = text if stem in self.several else stem
            if stem != text:
                self.names[text] = self._known[kind, text] = self.name(kind, stem)
                return self.names[text]
            digits, size = self._hash(kind, text).hex(), 8
            order = f"{self._count[kind]:05}-" if self._keep_order else ""
            self._count[kind] += 1
            while f"{kind}-{order}{digits[:size]}" in self._used:
                size += 1
            pseudonym = self._known[kind, text] = f"{kind}-{order}{digits[:size]}"
            self._used.add(pseudonym)
            if kind not in ("text", "cause") and (len(text) > 3 or not text.isalpha()):
                self.names[text] = pseudonym
        return self._known[kind, text]

    def text(self, text: str) -> str:
        """Return a text without the names that are known, addresses, paths, and with its moments moved."""
        if len(self.names) != self._sorted:
            self._sorted = len(self.names)
            self._long = sorted((name for name in self.names if not _WORD.fullmatch(name)), key=len, reverse=True)
        for name in self._long:
            text = text.replace(name, self.names[name])
        text = _MOMENT.sub(lambda match: utc(datetime.fromisoformat(match[0]).timestamp() + self.shift), text)
        return _WORD.sub(self._word, _NET.sub("<address>", text))

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        if word in self.names and not word.isdigit():
            return self.names[word]
        parts = re.split(r"([.@+-])", word)
        return "".join(part if part.isdigit() else self.names.get(part, part) for part in parts)


def of_tables(
    tables: Tables, history: History, hosts: HostLists, causes: Collection[str], hider: Pseudonymizer
) -> None:
    """Put hashes in the place of all names, and move all times; what the history shares with the tables goes with it.

    Parameters
    ----------
    causes
        Names of causes that rules have; others are a column of the site's own.
    """
    shift = hider.shift
    hosts_of = Counter(map(short_name, {*history.nodes, *(event.node for event in tables.events)}))
    hider.several = frozenset(stem for stem, count in hosts_of.items() if count > 1)
    by_node = _namer(hider, "node")
    history.nodes = list(map(by_node, history.nodes))
    for rack in sorted({*history.racks, *(row.rack for row in tables.exposure)}, key=lambda rack: (len(rack), rack)):
        hider.name("rack", rack)  # numbered in their order
    history.racks = list(map(_namer(hider, "rack"), history.racks))
    history.start, history.end = history.start + shift, history.end + shift
    history.enter, history.leave = history.enter + shift, history.leave + shift
    history.planned = {unit: [(a + shift, b + shift) for a, b in spans] for unit, spans in history.planned.items()}
    _hide_files(tables, hider)
    _hide_events(tables, causes, hider)
    _hide_rows(tables, hosts, hider)
    bases = {basis: hider.text(basis) for basis in {event.cause_basis for event in tables.events}}
    for event in tables.events:
        event.cause_basis = bases[event.cause_basis]
    for dropped in tables.dropped:
        dropped.source, dropped.rule = hider.names.get(dropped.source, ""), hider.text(dropped.rule)
    tables.findings[:] = map(hider.text, tables.findings)


_Row: TypeAlias = NodeEvent | Exposure | LoggedAttempt | TrainingPhase

_NAMES: dict[type, dict[str, str]] = {
    NodeEvent: {"node": "node", "job": "job"},
    Exposure: {"unit": "node", "rack": "rack", "batch": "batch", "role": "role"},
    LoggedAttempt: {"blamed_node": "node", "job": "job", "user": "user", "partition": "partition"},
    TrainingPhase: {"job": "job"},
}
"""The fields of the rows of each table that hold names, and the kind of these names."""


def _hide(row: _Row, hider: Pseudonymizer) -> None:
    """Put hashes in the place of the names of a row, and move its times."""
    for name, kind in _NAMES[type(row)].items():
        setattr(row, name, hider.name(kind, getattr(row, name)))
    for name in (field.name for field in fields(row) if field.name.startswith("t")):
        if isinstance(value := getattr(row, name), float):
            setattr(row, name, value + hider.shift)
    row.file = hider.names.get(row.file, "")


def _hide_rows(tables: Tables, hosts: HostLists, hider: Pseudonymizer) -> None:
    """Hide the rows of all tables; those of the exposure lose the order of the inventory."""
    rows: list[_Row] = [*tables.events, *tables.exposure, *tables.attempts, *tables.phases]
    for row in rows:
        _hide(row, hider)
    tables.exposure[:] = [replace(row, line=0) for row in sorted(tables.exposure, key=lambda row: row.unit)]
    lists = {
        text: ",".join(sorted(map(_namer(hider, "node"), _expanded(hosts, text))))
        for text in dict.fromkeys(attempt.nodes for attempt in tables.attempts)
    }
    for attempt in tables.attempts:
        attempt.nodes = lists[attempt.nodes]


def _hide_files(tables: Tables, hider: Pseudonymizer) -> None:
    """Call each file by its kind and a number."""
    kinds: Counter[str] = Counter()
    for source in tables.sources:
        kinds[source.kind] += 1
        hidden = f"{source.kind}-{kinds[source.kind]}"
        for name in (source.file, Path(source.file).name):
            hider.names[name] = hidden
        source.file, source.first, source.last = hidden, source.first + hider.shift, source.last + hider.shift


def _hide_events(tables: Tables, causes: Collection[str], hider: Pseudonymizer) -> None:
    """Hide devices behind slots of their node, texts behind templates, and the causes of the site."""
    slots, devices = dict[tuple[str, str], str](), Counter[str]()
    for part in sorted({(event.node, event.part_id) for event in tables.events if event.part_id}):
        slots[part] = f"slot-{devices[part[0]]}"
        devices[part[0]] += 1
    for event in tables.events:
        event.part_id = slots.get((event.node, event.part_id), "")
        event.text = _template(hider, event.text)
        if event.cause not in causes:
            event.cause = hider.name("cause", event.cause).replace("-", "_")


def of_site(site: SlurmScenario, hider: Pseudonymizer) -> SlurmScenario:
    """Return the files of Slurm with the hashes that their names have in the tables."""
    queues = tuple(
        SlurmPartition(hider.name("partition", part.name), tuple(map(_namer(hider, "node"), part.nodes)), part.settings)
        for part in site.queues
    )
    for name in site.strange:
        hider.name("node", name)
    return site._replace(
        nodes=tuple(map(_namer(hider, "node"), site.nodes)),
        queues=queues,
        priority={hider.name("partition", name): value for name, value in site.priority.items()},
        assumed=[hider.text(line) for line in site.assumed],
    )


def _template(hider: Pseudonymizer, text: str) -> str:
    """Return what stands for a text, in letters alone: texts that differ in numbers count together."""
    return hider.name("text", re.sub(r"[0-9]+", "#", text)[:60]).translate(str.maketrans("0123456789", "ghijklmnop"))


def _namer(hider: Pseudonymizer, kind: str) -> Callable[[str], str]:
    return lambda text: hider.name(kind, text)


def _expanded(hosts: HostLists, text: str) -> tuple[str, ...]:
    """Return the names of a list of hosts; none of one that was cut."""
    with contextlib.suppress(ValueError):
        return hosts.expand(text)
    return ()


def _stand_ins(tables: Tables) -> Pseudonymizer:
    """Return what hides jobs, users and nodes behind words, and files behind their names; times stay."""
    hider = Pseudonymizer(b"")
    hider.shift = 0.0
    of_kind = {
        "<job>": (attempt.job for attempt in tables.attempts),
        "<user>": (attempt.user for attempt in tables.attempts),
        "<node>": (*(event.node for event in tables.events), *(row.unit for row in tables.exposure)),
    }
    for stand_in, names in of_kind.items():
        hider.names.update((name, stand_in) for name in names if len(name) > 3 or (name and not name.isalpha()))
    for name in {source.file for source in tables.sources}:
        hider.names[name] = hider.text(Path(name).name)
    return hider


def of_document(document: FitDocument, tables: Tables) -> FitDocument:
    """Return what may leave the folder: files by their names alone, and no name of a node, a user or a job."""
    hider = _stand_ins(tables)

    def plain(file: str) -> str:
        return hider.names.get(file, "")

    return document.model_copy(update={
        "files": [row.model_copy(update={"file": plain(row.file)}) for row in document.files],
        "dropped": [
            row.model_copy(update={"file": plain(row.file), "rule": hider.text(row.rule)}) for row in document.dropped
        ],
        "causes": [
            row.model_copy(update={"files": sorted({plain(file) for file in row.files})}) for row in document.causes
        ],
        "findings": [hider.text(text) for text in document.findings],
        "unknown_texts": {hider.text(text): number for text, number in document.unknown_texts.items()},
        "provenance": document.provenance.model_copy(update={"command": hider.text(document.provenance.command)}),
    })  # fmt: skip
