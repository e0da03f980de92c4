"""Logs in: each format is read as it was written, nothing is dropped in silence, and events follow the stated rules."""

from __future__ import annotations

import gzip
import math
import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from analysis.logs import pipeline
from analysis.logs.events import blame, incidents
from analysis.logs.fit import spells_of
from analysis.logs.formats import READERS
from analysis.logs.pipeline import Request
from analysis.logs.tables import Clock, HostLists, LogError, NoModelError
from tests import log_writers
from tests.cases import cases
from tests.log_writers import START, Fault, drawn, name, write

if TYPE_CHECKING:
    from analysis.logs.events import History
    from analysis.logs.tables import Tables

DAY = 86400.0

HEAD = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")


def read(folder: Path, *files: str, nodes: int = 64, **more: Any) -> tuple[Tables, History]:
    """Return the tables and the history of files, with the inventory of `nodes` nodes."""
    (folder / "nodes.csv").write_text(log_writers.inventory(nodes), encoding="utf-8")
    more.setdefault("zones", ["UTC"])
    request = Request(list(files), str(folder / "nodes.csv"), **more)
    tables, reading = pipeline.read(request)
    return tables, pipeline.history_of(request, tables, reading)


def found(history: History) -> list[tuple[str, float, float | None, str]]:
    """Return the outages of a history, comparable."""
    return [(e.node, e.t, None if math.isnan(e.t_end) else e.t_end, e.cause) for e in history.outages]


def expected(faults: list[Fault]) -> list[tuple[str, float, float | None, str]]:
    """Return the same of what was drawn."""
    return sorted(
        ((f.node, f.start, None if math.isnan(f.end) else f.end, f.cause) for f in faults),
        key=lambda row: (row[1], row[0]),
    )


# Formats.


@cases("form", ["node-events", "outages", "gzip", "no header", "another zone"])
def test_outages_in_each_format(form: str, tmp_path: Path) -> None:
    """Start, end, node and cause of every outage come out as they went in."""
    faults = drawn(1)
    text = log_writers.node_events(faults)
    zones = ["UTC"]
    if form == "outages":
        text = log_writers.outages(faults)
    elif form == "no header":
        text = text.partition("\n")[2]
    elif form == "another zone":
        text, zones = log_writers.node_events(faults, "Asia/Kolkata"), ["UTC", "events.txt=Asia/Kolkata"]
    path = tmp_path / "events.txt"
    path.write_bytes(gzip.compress(text.encode()) if form == "gzip" else text.encode())
    _, history = read(tmp_path, str(path), zones=zones)
    assert found(history) == expected(faults)


@cases("form", ["iso", "journald", "short-iso", "local"])
def test_codes_in_each_form(form: str, tmp_path: Path) -> None:
    """Lines of the driver give the same faults whatever wrote them; three lines within 30 s are one."""
    faults = [fault for fault in drawn(2) if fault.cause in log_writers.CODES]
    lines = sorted(
        (moment + more, host, text) for moment, host, text in map(log_writers.xid, faults) for more in (0.0, 6.0, 12.0)
    )
    text = log_writers.kernel([(moment - 1, host, "audit: nothing") for moment, host, _ in lines] + lines, form)
    (path,) = write(tmp_path, kernel_log=text)
    events = write(tmp_path, events_txt=log_writers.node_events(drawn(2)))
    tables, history = read(tmp_path, path, *events)
    assert [(e.node, round(e.t), e.cause, e.raw_count) for e in history.faults] == [
        (f.node, round(f.start - 40), f.cause, 3) for f in faults
    ]
    assert tables.groups == {48: [3 * len(faults), len(faults)]}
    assert sum(row.number for row in tables.dropped if row.rule == "other lines of the kernel") == len(lines)


@cases(
    ("line", "code", "device"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', GPU has fallen off the bus.", "xid 79", "0000:9b:00"),
        ("NVRM: Xid (0000:9b:00): 119, pid=7, name=python3, Timeout after 6s", "xid 119", "0000:9b:00"),
        ("NVRM: Xid (PCI:0000:9b:00.0): 74", "xid 74", "0000:9b:00"),
        ("NVRM: Xid (PCI:0004:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x0)", "xid 149", "0004:01:00"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "xid 79", "0000:18:00"),
        ("NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2330) has fallen off the bus and", "xid 79", "0000:18:00"),
        ("mlx5_core 0000:1f:00.0 ibp5: Link down", "kernel text", "mlx5_core 0000:1f:00.0"),
        ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 07", "kernel text", "0000:00:00.0"),
    ],
)  # fmt: skip
def test_lines_of_the_driver(line: str, code: str, device: str, tmp_path: Path) -> None:
    """All forms of a line of the driver are read."""
    faults = [Fault(name(3), START + DAY, START + 2 * DAY, "not_responding")]
    files = write(
        tmp_path, kernel_log=log_writers.kernel([(START + DAY - 30, name(3), line)], "iso"),
        events_txt=log_writers.node_events(faults),
    )  # fmt: skip
    _, history = read(tmp_path, *files)
    (fault,) = history.faults
    assert (fault.cause_basis, fault.part_id) == (code, device)
    assert history.outages[0].cause == fault.cause, "a node that does not respond fails by what its kernel says"


@cases("stamp", ["[Mon Jan  6 12:00:00 2025] ", "kern  :warn  : 2025-01-06T12:00:00,000000+00:00 "])
def test_stamps_without_a_host(stamp: str, tmp_path: Path) -> None:
    """A log of one host has its name in that of the file."""
    path = tmp_path / "gpu007.dmesg.log"
    path.write_text(f"{stamp}NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n", encoding="utf-8")
    _, history = read(tmp_path, str(path))
    assert [(e.node, e.t) for e in history.faults] == [("gpu007", START + DAY / 2)]


@cases("line", ["[ 8123.400112] {}", "4,812,206764307,-;{}", "Jan  6 12:00:00 gpu007 kernel: {}"])
def test_lines_without_a_moment(line: str, tmp_path: Path) -> None:
    """Lines whose moment nobody can know are counted, and the reason says what helps."""
    files = write(
        tmp_path, kernel_log=line.format("NVRM: Xid (PCI:0000:9b:00): 79, lost") + "\n",
        events_txt=log_writers.node_events(drawn(1)),
    )  # fmt: skip
    tables, history = read(tmp_path, *files)
    assert not history.faults
    (row,) = (
        row for row in tables.dropped if row.source.endswith("kernel.log") and row.rule != "other lines of the kernel"
    )
    assert "export with" in row.rule


def jobs() -> list[dict[str, object]]:
    """Return jobs: one that a node ended, one that ended by itself, one that runs on."""
    at = START + 10 * DAY
    size = {"count": 32, "gpus": 256}
    return [
        {"id": 7, "state": "FAILED", "start": START + DAY, "end": at, "nodes": "gpu[000-031]", **size},
        {"id": 8, "state": "FAILED", "start": at, "end": at + DAY, "nodes": "gpu[032-063]", **size},
        {"id": 9, "state": "RUNNING", "start": at, "end": math.nan, "nodes": "gpu[000-031]", **size},
    ]  # fmt: skip


@cases("form", ["text", "json", "delimiter"])
def test_job_records(form: str, tmp_path: Path) -> None:
    """Records say the same as text and as JSON; GPUs of a type are not counted twice, and an open end is open."""
    text = {"text": log_writers.sacct(jobs()), "json": log_writers.sacct_json(jobs())}.get(
        form, log_writers.sacct(jobs(), delimiter="|#")
    )
    faults = [Fault(name(5), START + 10 * DAY + 120, START + 11 * DAY, "gpu_memory")]
    files = write(tmp_path, sacct_txt=text, events_txt=log_writers.node_events(faults))
    request = Request(files, nodes=64, zones=["UTC"])
    tables, reading = pipeline.read(request)
    history = pipeline.history_of(request, tables, reading)
    blamed = blame(tables, history, reading.rules, reading.hosts)
    assert [(a.job, a.end_state, a.gpus, a.node_count) for a in tables.attempts] == [
        ("7", "FAILED", 256, 32), ("8", "FAILED", 256, 32), ("9", "RUNNING", 256, 32),
    ]  # fmt: skip
    assert [a.blamed_node for a in tables.attempts] == ["gpu005", "", ""]
    assert [math.isnan(a.t_end) for a in tables.attempts] == [False, False, True]
    assert (blamed.ended, blamed.attributed, blamed.faults, blamed.hit) == (2, 1, 1, 1)


def test_records_over_several_lines(tmp_path: Path) -> None:
    """Job names with line breaks and bytes that are no UTF-8 cost no record; a record that was cut costs itself."""
    text = log_writers.sacct(jobs()).encode().splitlines()
    text[1] = text[1].replace(b"u1", b"a\nname \xff")
    text.insert(2, b"11|11|u1|main")
    (tmp_path / "sacct.txt").write_bytes(b"\n".join(text) + b"\n")
    request = Request([str(tmp_path / "sacct.txt")], zones=["UTC"])
    tables, _ = pipeline.read(request)
    assert [a.job for a in tables.attempts] == ["7", "8", "9"]
    assert [(row.rule, row.number) for row in tables.dropped] == [("a record that was cut", 1)]
    assert any("no UTF-8" in text for text in tables.findings)


def test_restarts_without_their_records(tmp_path: Path) -> None:
    """An export without -D lacks the failures of requeued jobs, and is said to."""
    rows = jobs()
    rows[0]["restarts"] = 2
    (path,) = write(tmp_path, sacct_txt=log_writers.sacct(rows))
    tables, _ = pipeline.read(Request([path], zones=["UTC"]))
    assert any("sacct -D" in text for text in tables.findings)
    runs = [{**rows[0], "start": START + (day - 1) * DAY, "end": START + day * DAY} for day in (2, 3, 4)]
    (path,) = write(tmp_path, sacct_txt=log_writers.sacct(runs))
    tables, _ = pipeline.read(Request([path], zones=["UTC"]))
    assert not tables.findings


@cases(
    ("text", "names"),
    [
        ("gpu[001-003,012],login1", ["gpu001", "gpu002", "gpu003", "gpu012", "login1"]),
        ("r[1-2]n[09-10]", ["r1n09", "r1n10", "r2n09", "r2n10"]),
        ("a", ["a"]),
        ("", []),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    """Ranges keep leading zeros, and brackets multiply."""
    assert list(HostLists().expand(text)) == names


@cases("text", ["gpu[001-", "gpu[5-2]", "gpu[001-003]...", "gpu[0-9999999]", "a[1-2000]b[1-2000]"])
def test_lists_of_hosts_that_are_none(text: str) -> None:
    """A list that was cut, falls or explodes is refused."""
    with pytest.raises(ValueError):
        HostLists().expand(text)


def test_hours_that_occur_twice() -> None:
    """The order of a file says which of two hours is meant, and the hour that is skipped costs nothing."""
    zone = ZoneInfo("America/Chicago")
    clock = Clock(zone, "log")
    moments = [
        clock.read(f"2025-11-02T{time}", 1, "start")
        for time in ("00:59:00", "01:30:00", "01:50:00", "01:10:00", "02:10:00")
    ]
    assert np.diff(moments).tolist() == [31 * 60, 20 * 60, 20 * 60, 60 * 60]
    assert clock.twice == 3
    assert clock.read("2025-03-09T03:00:00", 1) - clock.read("2025-03-09T01:59:59", 1) == 1
    for moment in random.Random(1).sample(range(1_700_000_000, 1_760_000_000), 2000):
        text = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        if text.replace(tzinfo=zone, fold=0).utcoffset() == text.replace(tzinfo=zone, fold=1).utcoffset():
            assert clock.read(text.isoformat(), 1) == moment


# Wrong input.


@cases(
    ("content", "rule"),
    [
        (b"", "is empty"),
        (b"\xff\xfeC\0l\0", "UTF-16"),
        (b"abc\nd\0e\n", ":2: is no text"),
        (b"nothing that anybody knows\n", "say what it is"),
        (b"Cluster|NodeName|TimeStart|State|Reason\n", "lacks the column timeend"),
        (HEAD.encode() + b"c|gpu000|2025-01-07T00:00:00|Unknown|DOWN|x|y\n", "--timezone"),
        (HEAD.encode() + b"c|tpu0|2025-01-07T00:00:00Z|Unknown|DOWN|x|y\n", ":2: 'tpu0' is no node"),
        (b'{"jobs": [', "is no complete JSON"),
        (b'{"jobs": 7}', "no list of jobs"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)  # fmt: skip
def test_files_that_cannot_be_used(content: bytes, rule: str, tmp_path: Path) -> None:
    """A file that cannot be used is one line with file and line; never another exception."""
    path = tmp_path / "log.txt"
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"log[.]txt") as caught:
        read(tmp_path, str(path), zones=["nodes.csv=UTC"])
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_end_early(tmp_path: Path) -> None:
    """A packed file that was cut is read as far as it goes, and said to be damaged."""
    faults = drawn(1, nodes=64)
    packed = gzip.compress(log_writers.node_events(faults).encode())
    (tmp_path / "events.gz").write_bytes(packed[: len(packed) // 2])
    tables, history = read(tmp_path, str(tmp_path / "events.gz"))
    assert 0 < len(history.outages) < len(faults)
    assert any("damaged" in text for text in tables.findings)
    assert any(row.rule == "the file ends early" for row in tables.dropped)


@pytest.mark.parametrize("kind", sorted(set(READERS) - {"inventory"}))
def test_any_bytes(kind: str, tmp_path: Path) -> None:
    """Damaged lines of any format are dropped with their number, or refused in one line."""
    texts = {
        "node-events": log_writers.node_events(drawn(1)),
        "outages": log_writers.outages(drawn(1)),
        "lives": "serial,start,end,cause\n" + "a,2025-01-07T00:00:00,2025-02-07T00:00:00,dbe\n" * 9,
        "sacct": log_writers.sacct(jobs() * 5),
        "sacct-json": log_writers.sacct_json(jobs()),
        "kernel": log_writers.kernel([log_writers.xid(f) for f in drawn(1) if f.cause in log_writers.CODES], "iso"),
        "goodput": '{"job_name": "t", "job_start_time": 1736143800.0}\n'
        '{"job_name": "t", "step_count": 0, "step_start_time": 1736143900.0}\n',
    }
    generator = random.Random(3)
    for _ in range(40):
        content = bytearray(texts[kind].encode())
        for _ in range(5):
            at = generator.randrange(len(content))
            content[at : at + generator.randrange(3)] = generator.randbytes(generator.randrange(3)).replace(b"\0", b"x")
        path = tmp_path / "log"
        path.write_bytes(bytes(content))
        request = Request([str(path)], zones=["UTC"], kinds={str(path): kind}, nodes=2000)
        try:
            tables, reading = pipeline.read(request)
            pipeline.history_of(request, tables, reading)
        except (LogError, NoModelError) as error:
            lines = str(error).splitlines()
            if len(lines) != 1:
                pytest.fail(f"{kind}: {lines}")


@cases(
    ("files", "rule"),
    [
        ({"events_txt": HEAD + "c|a|2025-01-07T00:00:00Z|Unknown|DOWN|x|y\n"}, "--inventory"),
        ({"sacct_txt": "JobIDRaw|State|Start|End\n1|FAILED|2025-01-07T00:00:00Z|Unknown\n"}, "name no nodes"),
    ],
    ids=["no exposure", "no nodes"],
)  # fmt: skip
def test_no_model(files: dict[str, str], rule: str, tmp_path: Path) -> None:
    """Without exposure, or without names of nodes, there is no model, and the reason is given."""
    request = Request(write(tmp_path, **files))
    tables, reading = pipeline.read(request)
    with pytest.raises(NoModelError, match=rule):
        pipeline.history_of(request, tables, reading)


# What does not change the result.


def test_order_names_and_copies(tmp_path: Path) -> None:
    """A file that is split in two, or given twice, permuted names and shifted clocks change nothing else."""
    faults = drawn(4)
    text = log_writers.node_events(faults)
    head, *rows = text.splitlines(keepends=True)
    (whole,) = write(tmp_path, events_txt=text)
    _, one = read(tmp_path, whole)
    parts = write(tmp_path, a_txt=head + "".join(rows[:70]), b_txt=head + "".join(rows[60:]))
    tables, split = read(tmp_path, *reversed(parts))
    assert found(split) == found(one)
    assert [row.number for row in tables.dropped if row.rule == "a row that is repeated"] in ([10], [])
    _, twice = read(tmp_path, whole, *write(tmp_path, copy_txt=text))
    assert found(twice) == found(one)
    assert one.in_service == twice.in_service
    shifted = [fault._replace(start=fault.start + 7 * DAY, end=fault.end + 7 * DAY) for fault in faults]
    window = (START + 7 * DAY, one.end + 7 * DAY)
    _, later = read(tmp_path, *write(tmp_path, later_txt=log_writers.node_events(shifted)), window=window)
    assert spells_of(later).time.tolist() == pytest.approx(spells_of(one).time.tolist(), abs=8)
    swap = {name(at): name(63 - at) for at in range(64)}
    named = [fault._replace(node=swap[fault.node]) for fault in faults]
    _, other = read(tmp_path, *write(tmp_path, named_txt=log_writers.node_events(named)))
    assert sorted(spells_of(other).time.tolist()) == sorted(spells_of(one).time.tolist())


def test_rows_that_touch(tmp_path: Path) -> None:
    """DRAIN, then DOWN with a ticket, is one outage with the cause of the first and the repair of the last row."""
    text = (
        "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
        "c|gpu001|2025-01-07T00:00:00|2025-01-07T01:00:00|DRAIN|GPU3 uncorrectable ECC XID48|root(0)\n"
        "c|gpu001|2025-01-07T01:00:00|2025-01-08T00:00:00|DOWN|RMA ticket 4471|ops(1)\n"
        "c|gpu001|2025-01-20T00:00:00|2025-01-20T02:00:00|MAINT|firmware window|root(0)\n"
        "c|gpu002|2025-01-09T00:00:00|Unknown|DOWN*|Not responding|slurm(1)\n"
        "c|gpu003|2025-02-09T00:00:00|2025-02-09T00:10:00|DOWN|a | b|ops(1)\n"
    )
    tables, history = read(tmp_path, *write(tmp_path, events_txt=text))
    assert [(e.node, e.cause, e.repair_kind, e.raw_count) for e in history.outages] == [
        ("gpu001", "gpu_memory", "swap", 2), ("gpu002", "not_responding", "", 1), ("gpu003", "unknown", "", 1),
    ]  # fmt: skip
    assert math.isnan(history.outages[1].t_end)
    assert history.outages[2].text == "a | b"
    assert [e.cause for e in tables.events if e.planned] == ["unknown"]
    up = spells_of(history)
    down = DAY + (history.end - (START + 3 * DAY)) + 600 + 2 * 3600
    assert up.time.sum() * DAY == pytest.approx(history.in_service - down)


def test_incidents_of_racks(tmp_path: Path) -> None:
    """Nodes of one rack that fail within five minutes are one incident; those of two racks are none."""
    at = START + 5 * DAY
    faults = [Fault(name(n), at + n, at + DAY, "not_responding") for n in (0, 3, 5, 9)]
    _, history = read(tmp_path, *write(tmp_path, events_txt=log_writers.node_events(faults)))
    together = incidents(history)
    assert (together.part, together.domains) == ("rack", 8)
    assert [len(group) for group in together.groups] == [3]
    assert [event.incident for event in history.outages] == [0, 0, 0, -1]


def test_exposure_counts_what_was_watched(tmp_path: Path) -> None:
    """Nodes that enter late or leave early count for their time, and what happens outside of it is dropped."""
    inventory = (
        "node,gpus,rack,in_service,out_of_service\na,8,,2025-01-06T00:00:00,\n"
        "b,8,,2025-01-16T00:00:00,\nc,8,,2025-01-06T00:00:00,2025-01-11T00:00:00\n"
    )
    text = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n" + "".join(
        f"c|{node}|2025-01-{day:02}T00:00:00|2025-01-{day:02}T12:00:00|DOWN|x|y\n"
        for node, day in (("a", 8), ("b", 10), ("b", 20), ("c", 10), ("c", 15))
    )
    files = write(tmp_path, nodes_csv=inventory, events_txt=text)
    window = (START, START + 20 * DAY)
    request = Request(files[1:], files[0], zones=["UTC"], window=window)
    tables, reading = pipeline.read(request)
    history = pipeline.history_of(request, tables, reading)
    assert history.in_service == (20 + 10 + 5) * DAY
    assert [(e.node, (e.t - START) / DAY) for e in history.outages] == [("a", 2), ("c", 4), ("b", 14)]
    assert sum(row.number for row in tables.dropped) == 2
    tables, reading = pipeline.read(request)
    gap = request._replace(without=[(START + 2 * DAY, START + 4 * DAY)])
    assert pipeline.history_of(gap, tables, reading).in_service == (18 + 10 + 3) * DAY


# A set of logs that an independent program wrote, with what it knows of them, and real fragments.


@pytest.fixture(scope="module")
def synthetic() -> tuple[Tables, History, Any, Any]:
    """Return the tables, the history, the reading and the blame of the independent set."""
    folder = DATA / "synthetic_A"
    names = ("sacct.txt.gz", "node_events.txt.gz", "kernel.log.gz", "train.jsonl.gz")
    request = Request([str(folder / each) for each in names], str(folder / "inventory.csv.gz"), ["America/Chicago"])
    tables, reading = pipeline.read(request)
    history = pipeline.history_of(request, tables, reading)
    return tables, history, reading, blame(tables, history, reading.rules, reading.hosts)


@needs_data
def test_counts_of_an_independent_set(synthetic: tuple[Tables, History, Any, Any]) -> None:
    """Rows, outages, causes, groups of codes and blame are those of the program that wrote the logs."""
    tables, history, _, blamed = synthetic
    rows = {source.kind: source.rows for source in tables.sources}
    assert rows["node-events"] == 448
    assert sum(event.planned for event in tables.events) == 256
    assert len(history.outages) == 192
    assert sum(math.isnan(event.t_end) for event in history.outages) == 3
    assert Counter(event.cause for event in history.outages) == {
        "gpu_memory": 25, "nic": 18, "gpu_off_bus": 17, "gpu_firmware": 17, "nvlink": 14, "not_responding": 101,
    }  # fmt: skip
    together = incidents(history)
    assert [len(group) for group in together.groups] == [8] * 8
    assert spells_of(history).time.sum() == pytest.approx(45_900, rel=1e-3)
    groups = {code: tables.groups[code] for code in (74, 79, 119, 13, 31)}
    assert groups == {74: [43, 14], 79: [37, 17], 119: [89, 17], 13: [176, 16], 31: [195, 16]}
    assert tables.groups[45][0] == 11_136
    assert not [event for event in history.faults if event.cause == "application"]
    training = [a for a in tables.attempts if a.user == "trainer"]
    assert Counter(a.end_state for a in training) == {"FAILED": 101, "NODE_FAIL": 26, "RUNNING": 1}
    assert len({a.job for a in training}) == 102
    evidence = Counter(a.cause_basis for a in training if a.end_state == "FAILED")
    assert evidence["outage"] == 54
    # Codes of the kernel find the four drains that began too late; the program says 58 of the 101 are of nodes.
    assert 101 - evidence["none"] == 58
    assert blamed.by_chance < 1


@needs_data
def test_summer_time_of_an_independent_set() -> None:
    """Read without summer time, two job records run an hour too long; read in their zone, none does."""
    wrong = {}
    for zone in ("America/Chicago", "Etc/GMT+6"):
        tables, _ = pipeline.read(Request([str(DATA / "synthetic_A" / "sacct.txt.gz")], zones=[zone]))
        rows = [a for a in tables.attempts if not math.isnan(a.t_end)]
        wrong[zone] = rows
    naive = sum(
        abs((b.t_end - b.t_start) - (a.t_end - a.t_start)) > 1
        for a, b in zip(*(wrong[zone] for zone in ("America/Chicago", "Etc/GMT+6")), strict=True)
    )
    assert all(abs(a.t_end - a.t_start - a.elapsed) <= 1 for a in wrong["America/Chicago"])
    assert naive in (0, 2), "an end without its summer time is put right by the elapsed time"


@needs_data
@pytest.mark.parametrize(
    ("file", "kind", "rows"),
    [
        ("dmesg_decode_iso_xid13_burst.log", "kernel", 17),
        ("kmsg_raw.log", "kernel", 0),
        ("xid_nvlink5_lines.csv", "kernel", 0),
        ("sacct_multiline_names.txt", "sacct", 6),
        ("sacct_cut_lines.txt", "sacct", 0),
    ],
)
def test_real_fragments(file: str, kind: str, rows: int) -> None:
    """Every line of a real fragment is used or accounted for."""
    path = str(DATA / "real" / file)
    request = Request([path], zones=["UTC"], kinds={path: kind})
    tables, _ = pipeline.read(request)
    (source,) = tables.sources
    dropped = sum(row.number for row in tables.dropped)
    assert source.rows + dropped > 0
    if kind == "kernel":
        assert source.rows == rows
        lines = Path(path).read_text().count("\n")
        assert source.rows + dropped >= lines - 1
    if file == "dmesg_decode_iso_xid13_burst.log":
        assert tables.groups == {13: [16, 1], 43: [1, 1]}
        assert not tables.events
