"""Logs in: each format is read as it was written, nothing is dropped in silence, and events follow the stated rules."""

from __future__ import annotations

import contextlib
import copy
import csv
import gzip
import itertools
import json
import math
import random
import re
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import cli
from ettrick.analysis.logs import check, pipeline
from ettrick.analysis.logs.anonymise import Pseudonymizer
from ettrick.analysis.logs.events import blame, incidents
from ettrick.analysis.logs.fit import spells_of
from ettrick.analysis.logs.formats import READERS
from ettrick.analysis.logs.kernel import XID
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.analysis.logs.tables import NoModelError
from ettrick.sim.moments import Moments
from ettrick.sim.records import HostLists, LogError
from tests import log_writers
from tests.cases import cases
from tests.log_writers import START, Fault, drawn, kubernetes, name, nvsentinel, read_logs, slurmctld, utc, write
from tests.pace import SEED, budget
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.tables import Tables

DAY = 86400.0

HEAD = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "logs"

needs_data = pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")


def read(folder: Path, *files: str, nodes: int = 64, **more: Any) -> tuple[Tables, History]:
    """Return the tables and the history of files, with the inventory of `nodes` nodes."""
    (folder / "nodes.csv").write_text(log_writers.inventory(nodes), encoding="utf-8")
    more.setdefault("zones", ["UTC"])
    return read_logs(FitOptions(list(files), str(folder / "nodes.csv"), **more))


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


STATES = {
    "slurmctld": slurmctld, "kubernetes": kubernetes, "nvsentinel": nvsentinel,
}  # fmt: skip


@cases(
    ("kind", "form"),
    [
        ("slurmctld", ""), ("slurmctld", "America/Chicago"), ("kubernetes", "core"), ("kubernetes", "events.k8s.io"),
        ("kubernetes", "eventrouter"),
        ("nvsentinel", "plain"), ("nvsentinel", "store"),
    ],
)  # fmt: skip
def test_states_in_each_format(kind: str, form: str, tmp_path: Path) -> None:
    """Start, end and node of every outage come out as they went in, split, reversed and repeated; causes where told."""
    faults = drawn(1)
    text = STATES[kind](faults, form)
    zones = [form if "/" in form else "UTC"]
    (path,) = write(tmp_path, log_txt=text)
    tables, history = read(tmp_path, path, zones=["UTC", *(f"log.txt={zone}" for zone in zones)])
    assert tables.sources[1].kind == kind
    told = [row if kind != "kubernetes" else (*row[:3], "not_responding") for row in expected(faults)]
    assert found(history) == told
    # slurmctld writes on after the last outage, and that says that nothing failed.
    assert tables.sources[1].last >= max(row[1] for row in told) + (kind == "slurmctld")
    assert tables.sources[1].lines == text.count("\n") + (form == "core")
    if form == "core":
        return
    rows = text.splitlines(keepends=True)
    middle = len(rows) // 2
    parts = write(tmp_path, a_txt="".join(rows[:middle]), b_txt="".join(rows[middle - 9 :]), c_txt=text)
    zones += [f"{part}={zones[0]}" for part in ("a.txt", "b.txt", "c.txt")]
    _, again = read(tmp_path, *reversed(parts), zones=["UTC", *zones[1:]])
    assert found(again) == told


def test_a_controller_that_contradicts_itself(tmp_path: Path) -> None:
    """An answer alone may end an outage; one that an operator ends later did not, nor one before a reboot is seen."""
    day = "[2025-01-07T"
    text = f"""{day}08:16:40.002] error: Nodes gpu[017-018] not responding, setting DOWN
{day}08:16:40.003] requeue job JobId=90211 due to failure of node gpu017
{day}08:40:12.881] Node gpu017 now responding
{day}08:40:12.900] validate_node_specs: Node gpu017 unexpectedly rebooted boot_time=1736239100 last response=1736237000
{day}08:50:00.000] Node gpu018 now responding
{day}09:02:10.118] update_node: node gpu017 reason set to: RMA ticket 4471
{day}09:02:10.118] update_node: node gpu017 state set to DRAINED
{day}12:00:00.000] update_node: node gpu018 state set to IDLE
{day}13:00:00.000] drain_nodes: node gpu020 state set to DRAIN
{day}13:00:00.000] update_node: node gpu021 reason set to: scheduled maintenance
{day}13:00:00.000] update_node: node gpu021 state set to DRAINED
{day}14:00:00.000] error: Nodes gpu[022- not responding, setting DOWN
{day}15:00:00.000] update_node: node gpu017 state set to RESUME
{day}15:00:00.000] update_node: node gpu020 state set to RESUME
"""
    (path,) = write(tmp_path, slurmctld_log=text)
    tables, history = read(tmp_path, path)
    hour = START + DAY
    assert [(e.node, round(e.t - hour), e.t_end - hour, e.repair_kind) for e in history.outages] == [
        ("gpu017", 8 * 3600 + 1000, 15 * 3600, "swap"),
        ("gpu018", 8 * 3600 + 1000, 12 * 3600, ""),
        ("gpu020", 13 * 3600, 15 * 3600, ""),
    ]
    assert [e.node for e in tables.events if e.planned] == ["gpu021"]
    assert tables.blamed == {"90211": [(pytest.approx(hour + 8 * 3600 + 1000, abs=1), "gpu017")]}
    assert [(row.rule, row.number) for row in tables.dropped] == [("a list of hosts that was cut", 1)]


def test_nodes_seen_now_and_then(tmp_path: Path) -> None:
    """Snapshots of nodes, a file each, give exposure, outages that last, and the end of those in between."""
    hour = 3600.0
    faults = [
        Fault(name(0), START + 2.5 * hour, START + 5.5 * hour, "nic"),
        Fault(name(1), START + 3.2 * hour, START + 3.6 * hour, "nic"),
        Fault(name(2), START + 8.1 * hour, math.nan, "nic"),
        Fault(name(3), START - hour, START + 4.5 * hour, "nic"),
    ]
    texts = log_writers.snapshots(faults, 16, [START + at * hour for at in range(11)])
    files = write(tmp_path, **{f"n{at}_json": text for at, text in enumerate(texts)})
    tables, history = read_logs(FitOptions(list(reversed(files))))
    assert {source.kind for source in tables.sources} == {"nodes"}
    assert (len(history.nodes), history.gpus.tolist(), history.basis) == (16, [8] * 16, "inventory")
    spans = [(e.node, (e.t - START) / hour, (history.until(e) - START) / hour) for e in history.outages]
    assert spans == [
        ("gpu000", 2.5, 5.5), ("gpu001", pytest.approx(3.3), 3.6), ("gpu002", 8.1, pytest.approx(10, abs=1e-3)),
    ]  # fmt: skip
    assert [e.node for e in tables.events if e.planned] == ["gpu003"], "out before anybody looked is no failure"


def test_cordons(tmp_path: Path) -> None:
    """A cordon alone is planned; one of a node that is out lasts with it; a burst is two moments, not many."""
    rows = [
        ("NodeNotSchedulable", "a", 1, 1), ("NodeSchedulable", "a", 5, 5), ("NodeNotReady", "b", 2, 2),
        ("NodeNotSchedulable", "b", 3, 3), ("NodeReady", "b", 4, 4), ("NodeSchedulable", "b", 6, 6),
        ("NodeNotReady", "c", 1, 7), ("NodeReady", "c", 2, 8), ("KernelOops", "c", 7, 7), ("OOMKilling", "c", 7, 7),
    ]  # fmt: skip
    items = [
        {"reason": reason, "count": 9, "involvedObject": {"kind": "Node", "name": node},
         "firstTimestamp": utc(START + 3600 * first), "lastTimestamp": utc(START + 3600 * last)}
        for reason, node, first, last in rows
    ]  # fmt: skip
    (path,) = write(tmp_path, events_json="\n".join(map(json.dumps, items)))
    tables, history = read_logs(FitOptions([path], nodes=3))
    assert [(e.node, (e.t - START) / 3600, (e.t_end - START) / 3600, e.cause) for e in history.outages] == [
        ("c", 1, 2, "not_responding"), ("b", 2, 6, "not_responding"), ("c", 7, 8, "reboot"),
    ]  # fmt: skip
    assert [e.node for e in tables.events if e.planned] == ["a"]
    assert [row.rule for row in tables.dropped] == ["events of nodes that do not describe an outage: OOMKilling"]


def test_health_events_of_each_kind(tmp_path: Path) -> None:
    """Fatal ones take a node out until the same check of the same part is healthy; others are evidence alone."""
    part = [{"entityType": "PCI", "entityValue": "0000:9b:00"}]
    other = [{"entityType": "PCI", "entityValue": "0000:18:00"}]
    xid = {"nodeName": "a", "checkName": "SysLogsXIDError", "isFatal": True, "entitiesImpacted": part}
    rows: list[dict[str, Any]] = [
        {**xid, "errorCode": ["79"], "recommendedAction": "RESTART_BM"},
        {**xid, "errorCode": ["79"], "entitiesImpacted": other, "recommendedAction": 25},
        {**xid, "isHealthy": True, "isFatal": False},
        {**xid, "isHealthy": True, "isFatal": False, "entitiesImpacted": other},
        {**xid, "nodeName": "b", "errorCode": ["48"], "processingStrategy": "STORE_ONLY"},
        {**xid, "nodeName": "c", "errorCode": ["43"]},
        {**xid, "nodeName": "d", "checkName": "GpuThermalWatch", "isFatal": False},
        {**xid, "nodeName": ""},
    ]
    texts = (json.dumps({**row, "generatedTimestamp": utc(START + 3600 * at)}) for at, row in enumerate(rows))
    tables, history = read_logs(FitOptions(write(tmp_path, health_json="\n".join(texts)), nodes=4))
    assert [(e.node, (e.t - START) / 3600, (e.t_end - START) / 3600, e.repair_kind) for e in history.outages] == [
        ("a", 0, 3, "swap")
    ]
    assert [(e.node, e.cause, e.severity) for e in history.faults] == [
        ("b", "gpu_memory", "fatal"),
        ("d", "cooling", "info"),
    ]
    assert {row.rule: row.number for row in tables.dropped} == {
        "codes that programs cause": 1, "a health event without node, check or moment": 1,
    }  # fmt: skip


def test_samples_of_time_series(tmp_path: Path) -> None:
    """Outages come out to a sample, codes when they change; parts of a series are one; gaps are not watched."""
    faults = [fault for fault in drawn(7, nodes=16, days=12.0) if fault.start > START + 900]
    begin, end = START, START + 12 * DAY
    before = Fault(name(16), START - DAY, START + DAY, "nic")
    whole = write(tmp_path, up_json=log_writers.prometheus([*faults, before], 17, begin, end, 300.0))
    tables, one = read_logs(FitOptions(whole))
    seen = [f for f in faults if math.isnan(f.end) or math.ceil(f.start / 300) < math.ceil(f.end / 300)]
    assert [e.node for e in one.outages] == [
        f.node for f in sorted(seen, key=lambda f: (math.ceil(f.start / 300), f.node))
    ]
    for event in one.outages:
        assert any(event.t_lo <= f.start <= event.t for f in faults if f.node == event.node)
        assert event.t - event.t_lo == 300
    assert [e.node for e in tables.events if e.planned] == [name(16)], "out before anybody looked is no failure"
    assert len(one.nodes) == 17
    cuts = [begin, begin + 3 * DAY, begin + 7 * DAY, end]
    parts = write(tmp_path, **{
        f"p{at}_json": log_writers.prometheus([*faults, before], 17, low, high, 300.0)
        for at, (low, high) in enumerate(itertools.pairwise(cuts))
    })  # fmt: skip
    _, together = read_logs(FitOptions([*reversed(parts), *whole]))
    assert found(together) == found(one)
    _, without = read_logs(FitOptions([parts[0], parts[2]]))
    assert one.in_service - without.in_service == pytest.approx(17 * 4 * DAY, rel=0.01)
    codes = log_writers.prometheus(faults, 16, begin, end, 300.0, "DCGM_FI_DEV_XID_ERRORS")
    _, history = read_logs(FitOptions([*whole, *write(tmp_path, codes_json=codes)]))
    first = {}
    for fault in faults:
        if fault.cause in log_writers.CODES:
            first.setdefault(fault.node, fault)  # the same code again shows no change
    assert [(e.node, e.cause) for e in history.faults] == [
        (f.node, f.cause) for f in sorted(first.values(), key=lambda f: (math.ceil((f.start - 40) / 300), f.node))
    ]


def test_counters_and_codes_of_time_series(tmp_path: Path) -> None:
    """A counter that falls began again, what stood before is no fault, and codes of programs are none."""
    values = {
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", ""): [2, 2, 3, 0, 1],
        ("DCGM_FI_DEV_XID_ERRORS", ""): [79, 79, 13, 48, 0],
        ("DCGM_EXP_XID_ERRORS_COUNT", "119"): [0, 0, 0, 0, 1],
        ("DCGM_FI_DEV_GPU_TEMP", ""): [50, 60, 70, "NaN", 50],
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", ""): [0, "NaN", 0, 0, 0],
    }
    result = [
        {"metric": {"__name__": metric, "Hostname": f"n{at}", "gpu": "0", **({"xid": xid} if xid else {})},
         "values": [[START + 600 * number, str(value)] for number, value in enumerate(row)]}
        for at, ((metric, xid), row) in enumerate(values.items())
    ]  # fmt: skip
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    tables, _ = pipeline.read(FitOptions(write(tmp_path, dcgm_json=text)))
    assert sorted((e.node, (e.t - START) / 600, e.cause_basis) for e in tables.events) == [
        ("n0", 2, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"), ("n0", 4, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
        ("n1", 3, "xid 48"), ("n2", 4, "xid 119"),
    ]  # fmt: skip
    assert {row.rule: row.number for row in tables.dropped} == {
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS: what stood before the first sample": 1,
        "DCGM_FI_DEV_XID_ERRORS: what stood before the first sample": 1,
        "DCGM_FI_DEV_XID_ERRORS: codes that programs cause": 1,
        "series that no rule uses: DCGM_FI_DEV_GPU_TEMP": 1,
        "samples that are no number": 1,
    }


def test_first_failures_of_torchrun(tmp_path: Path) -> None:
    """A signal names the node of a job's end, an error of the program does not, and the earliest report counts."""
    at = START + 10 * DAY
    rows = [{**jobs()[0], "id": number, "end": at + 3600 * number} for number in range(4)]
    reports = [(0, 20, "gpu017", -9), (1, 20, "gpu017", -15), (1, 30, "gpu018.example.org", -6), (2, 10, "gpu019", 1),
               (2, 20, "gpu020", -6), (3, 9000, "gpu021", -9)]  # fmt: skip
    text = "".join(log_writers.torchrun(at + 3600 * job - 60 + late, host, code) for job, late, host, code in reports)
    faults = [Fault(name(60), START + DAY, START + 2 * DAY, "nic")]
    text = "noise\n" * 2000 + text + "Root Cause (first observed failure):"
    files = write(
        tmp_path, sacct_txt=log_writers.sacct(rows), train_log=text,
        events_txt=log_writers.node_events(faults),
    )  # fmt: skip
    request = FitOptions(files, nodes=64, zones=["UTC"])
    tables, reading = pipeline.read(request)
    history = pipeline.history_of(request, tables, reading)
    blame(tables, history, reading.rules, reading.hosts)
    assert [a.blamed_node for a in tables.attempts] == ["gpu017", "gpu018", "", ""]
    assert not history.faults
    assert {row.rule: row.number for row in tables.dropped if "train" in row.source} == {
        "a report of torchrun that was cut": 1, "other lines of training": 2000 + 7 * len(reports),
    }  # fmt: skip


def test_restarts_inside_a_job(tmp_path: Path) -> None:
    """Cycles stand in the place of the run that they divide, and the phases of a restart are those of all its nodes."""
    begin = START + 5 * DAY
    cycles = [
        {"job_id": 7, "attempt_index": 0, "cycle_number": at, "cycle_start_time": utc(begin + at * DAY)[:-1],
         "cycle_end_time": utc(begin + (at + 1) * DAY - 60) if at < 2 else None, "active_nodes": "gpu[000-031]",
         "standby_nodes": "gpu[032-033]", "active_ranks": 256}
        for at in range(3)
    ]  # fmt: skip
    job = {**jobs()[0], "start": begin, "end": begin + 2.5 * DAY, "state": "TIMEOUT"}
    files = write(
        tmp_path, cycle_info="\n".join(map(json.dumps, cycles)), sacct_txt=log_writers.sacct([job, *jobs()[1:]]),
        launcher_log="starting\n" + log_writers.nvrx(4, begin) + log_writers.nvrx(5, begin + DAY),
    )  # fmt: skip
    tables, _ = pipeline.read(FitOptions(files, zones=["UTC"]))
    assert [(a.attempt, a.end_state, a.gpus, a.user) for a in tables.attempts if a.job == "7"] == [
        (0, "FAILED", 256, "u1"), (1, "FAILED", 256, "u1"), (2, "TIMEOUT", 256, "u1"),
    ]  # fmt: skip
    assert len(tables.attempts) == 5
    assert [(p.attempt, p.phase, p.t1 - p.t0) for p in tables.phases] == [
        (4, "teardown", 31), (4, "initialize", 90), (5, "teardown", 31), (5, "initialize", 90),
    ]  # fmt: skip


@cases(
    ("line", "code", "device"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', GPU has fallen off the bus.", "xid 79", "0000:9b:00"),
        ("NVRM: Xid (0000:9b:00): 119, pid=7, name=python3, Timeout after 6s", "xid 119", "0000:9b:00"),
        ("NVRM: Xid (PCI:0000:9b:00.0): 74", "xid 74", "0000:9b:00"),
        ("NVRM: Xid (PCI:0004:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link -1 (0x0)", "xid 149", "0004:01:00"),
        ("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.", "xid 79", "0000:18:00"),
        ("NVRM: The NVIDIA GPU 0000:18:00.0 (PCI ID: 10de:2330) has fallen off the bus and", "xid 79", "0000:18:00"),
        ("NVRM: Xid (PCI:0000:1b:00 GPU-I:05): 94, pid=42, name=python, Contained", "xid 94", "0000:1b:00"),
        ("NVRM: Xid (PCI:0000:1b:00 GPU-I:05 GPU-CI:00): 94, Contained", "xid 94", "0000:1b:00"),
        ("\x1b[31mNVRM: Xid\x1b[0m (PCI:0000:1b:00): \x1b[1m79\x1b[0m, pid=42", "xid 79", "0000:1b:00"),
        ("NVRM: GPU has fallen off the bus.", "xid 79", ""),
        ("mlx5_core 0000:1f:00.0 ibp5: Link down", "kernel text", "mlx5_core 0000:1f:00.0"),
        ("mlx5_core 0000:1f:00.0 ibp5: Link DOWN", "kernel text", "mlx5_core 0000:1f:00.0"),
        ("infiniband mlx5_3: port 1 link DOWN", "kernel text", "mlx5_3"),
        ("IB: Link DOWN on port 1 of mlx5_3", "kernel text", "mlx5_3"),
        ("bnxt_en 0000:1f:00.0 ens1f0np0: NIC Link is Down", "kernel text", "bnxt_en 0000:1f:00.0"),
        ("nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 07", "sxid 20034", "0000:00:00.0"),
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


@cases(
    ("line", "reason"),
    [
        ("[ 8123.400112] {}", "seconds since boot"),
        ("[ 8123.400112] gpu007 kernel: {}", "seconds since boot"),
        ("4,812,206764307,-;{}", "seconds since boot"),
        ("kern  :err   : [ 8123.400112] {}", "seconds since boot"),
        ("Jan  6 12:00:00 gpu007 kernel: {}", "a date without a year; state it with --year"),
        ("2025-01-06 gpu007 kernel: {}", "no moment"),
        ("gpu007 kernel: {}", "no moment"),
        ("2025-01-06 12:00:00 EST gpu007 kernel: {}", "a zone by letters"),
        ("Mon 2025-01-06 12:00:00 CET gpu007 kernel: {}", "a zone by letters"),
        ("2025-01-06T12:00:00Z kernel: {}", "no host"),
        ("2025-01-06T12:00:00Z {}", "no host"),
        ("[Mon Jan  6 12:00:00 2025] {}", "no host"),
        ('{{"log": "[ 8123.4] {}", "stream": "stdout"}}', "seconds since boot"),
    ],
)
def test_lines_without_a_moment_or_a_host(line: str, reason: str, tmp_path: Path) -> None:
    """A log of whose faults nobody can know when or where they were is refused with the reason and what helps."""
    lines = [line.format(f"NVRM: Xid (PCI:0000:{at:02}:00): 79, lost") for at in range(6)]
    path = tmp_path / "logs" / "kern.log"
    path.parent.mkdir()
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(LogError, match=r"kern[.]log:1: no line .* can be used; of 6 lines, 6: ") as caught:
        read(tmp_path, str(path))
    assert reason in str(caught.value)
    assert "export with" in str(caught.value) or "call the file after it" in str(caught.value)


@cases(
    "stamp",
    [
        "2025-01-06T12:00:00Z gpu007 kernel: ", "2025-01-06 12:00:00 gpu007 kernel: ",
        "2025-01-06 12:00:00+00:00 gpu007 kernel: ", "2025-01-06T14:00:00.123456+0200 gpu007 kernel: ",
        "2025-01-06 12:00:00,123 UTC gpu007 kernel: ", "Mon 2025-01-06 12:00:00 UTC gpu007 kernel: ",
        "<4>1 2025-01-06T12:00:00.003Z gpu007 kernel - - - ", "<4>Jan  6 12:00:00 gpu007 kernel: ",
        "Jan  6 12:00:00 gpu007 kernel: [ 8123.400112] ", "Jan 06 12:00:00.123456 gpu007 kernel: ",
        "gpu007: [Mon Jan  6 12:00:00 2025] ", "gpu007: kern  :err   : [Mon Jan  6 12:00:00 2025] ",
        "gpu007: 2025-01-06T12:00:00,123456+00:00 ", "gpu007: Jan  6 12:00:00 gpu007 kernel: ",
        "2025-01-06T12:00:00Z gpu007 node-problem-detector: ", "2025-01-06 12:00:00 gpu007 kern.err kernel: ",
        "1736164800.123456 gpu007 kernel: ", "2025-01-06T12:00:00Z gpu007 dcgm[812]: ",
        "[pod/npd-x7/npd] 2025-01-06T12:00:00.123456789Z gpu007 kernel: ",
        "\x1b[32m2025-01-06T12:00:00Z\x1b[0m gpu007 kernel: ",
        '{"log": "2025-01-06T12:00:00Z gpu007 kernel: %s\\n", "time": "2025-01-06T12:00:03.123456789Z"}',
        '{"log": "%s", "kubernetes": {"host": "gpu007"}, "time": "2025-01-06T12:00:00Z"}',
        '{"@timestamp": "2025-01-06T12:00:00.000Z", "host": {"name": "gpu007"}, "message": "[ 8123.4] %s"}',
        '{"MESSAGE": "%s", "_HOSTNAME": "gpu007", "__REALTIME_TIMESTAMP": "1736164800000000"}',
        '[{\n"MESSAGE": "%s",\n"_HOSTNAME": "gpu007",\n"__REALTIME_TIMESTAMP": "1736164800000000"\n}\n]',
        "2025-01-06T12:00:00Z\tgpu007\tkern.err\tkernel\t", "2025-01-06T12:00:00Z\tgpu007 kernel: ",
        '{"labels": {"host": "gpu007"}, "line": "%s", "timestamp": "2025-01-06T12:00:00Z"}',
        '{"host": "collector", "kubernetes": {"host": "gpu007"}, "log": "%s", "time": "2025-01-06T12:00:00Z"}',
        '{"preview": false, "result": {"_raw": "%s", "host": "gpu007", "_time": "2025-01-06T12:00:00.000+00:00"}}',
        '{"events": [{\n"message": "2025-01-06T12:00:00Z gpu007 kernel: %s",\n"timestamp": 1736164803000}]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_headers_of_lines(stamp: str, zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever prints a line, its moment and its host are read as they are, whatever the zone of this machine."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    text = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    path = tmp_path / "kern.log"
    path.write_text(f"{stamp % text if '%s' in stamp else stamp + text}\n", encoding="utf-8")
    try:
        _, history = read(tmp_path, str(path), years=["2025"])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [(e.node, int(e.t), e.part_id) for e in history.faults] == [("gpu007", START + DAY / 2, "0000:9b:00")]


def test_messages_that_are_bytes(tmp_path: Path) -> None:
    """A message that journald writes as a list of bytes is read as its text; one without a fault is of the others."""
    entry = {"_HOSTNAME": "gpu007", "__REALTIME_TIMESTAMP": "1736164800000000"}
    texts = (b"usb 1-1: new device\xff", b"NVRM: Xid (PCI:0000:9b:00): 79, lost\xff")
    lines = "".join(f"{json.dumps({**entry, 'MESSAGE': list(text)})}\n" for text in texts)
    tables, history = read(tmp_path, *write(tmp_path, journal_json=lines))
    assert [(e.node, e.cause_basis) for e in history.faults] == [("gpu007", "xid 79")]
    assert [(row.rule, row.number) for row in tables.dropped] == [("other lines of the kernel", 1)]


@cases(
    "form",
    [
        "2025-01-06T12:00:0{0}Z loghost 2025-01-06T12:00:00Z gpu00{0} kernel: ",
        "Jan  6 12:00:0{0} 10.0.0.{0} Jan  6 12:00:00 gpu00{0} kernel: [ 12.5] ",
        '2025-01-06 12:00:0{0}.000,"Jan  6 12:00:00 gpu00{0} kernel: ',
        "[pod/dmesg-{0}/dmesg] 2025-01-06T12:00:00.000Z [ 123.4] ",
        "2025-01-06T12:00:0{0}Z gpu00{0}/kern.log: ",
        "----------\ngpu00{0}\n----------\n2025-01-06T12:00:00,1+00:00 ",
        "=== gpu00{0} ===\n2025-01-06T12:00:0{0}Z ",
        "gpu00{0} | CHANGED | rc=0 >>\n[Mon Jan  6 12:00:00 2025] ",
        "==> gpu00{0}/kern.log <==\n2025-01-06T12:00:00Z localhost kernel: ",
        '{{"instance_id": "i-0{0}", "time": "2025-01-06T12:00:00Z", "log": "NVRM: Xid (PCI:0000:9b:00): 79, lost"}}\n',
    ],
)
def test_lines_of_several_hosts(form: str, tmp_path: Path) -> None:
    """What is of several hosts, whose names cannot be read, is never of the one that the file may be called after."""
    path = tmp_path / "rack7.log"
    text = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    path.write_text("".join(form.format(at) + text * (form[0] != "{") for at in (1, 2)), encoding="utf-8")
    with pytest.raises(LogError, match=r"one file for each|the lines themselves"):
        read(tmp_path, str(path), years=["2025"])


def test_lines_without_a_host_among_others(tmp_path: Path) -> None:
    """In a file in which lines name another host than the file does, those that name none are left out."""
    text = "NVRM: Xid (PCI:0000:9b:00): 79, lost\n"
    (tmp_path / "gpu007.log").write_text(
        f"2025-01-06T12:00:00Z gpu001 kernel: {text}2025-01-06T12:00:09Z {text}", encoding="utf-8"
    )
    tables, history = read(tmp_path, str(tmp_path / "gpu007.log"))
    assert [e.node for e in history.faults] == ["gpu001"]
    assert [row.rule.partition(";")[0] for row in tables.dropped] == [
        "no host that can be read, in a file of several hosts"
    ]
    assert not any("name no host" in text for text in tables.findings)


def test_drivers_are_no_hosts(tmp_path: Path) -> None:
    """What stands after the moment of a line of dmesg is the name of a driver: the host is that of the file."""
    text = "2025-01-06T12:00:00,1+00:00 mlx5_core 0000:1f:00.0 ibp5: Link down\n"
    (tmp_path / "dmesg-gpu007.log").write_text(text, encoding="utf-8")
    _, history = read(tmp_path, str(tmp_path / "dmesg-gpu007.log"))
    assert [(e.node, e.cause) for e in history.faults] == [("gpu007", "nic")]


def test_files_of_one_name(tmp_path: Path) -> None:
    """A file that is called as on every host is of the host that its folder is called after, and that is said."""
    for at in (1, 2):
        (tmp_path / name(at)).mkdir()
        line = f"[Mon Jan  6 1{at}:00:00 2025] NVRM: Xid (PCI:0000:9b:00): 79, lost\n"
        (tmp_path / name(at) / "dmesg.log").write_text(line, encoding="utf-8")
    tables, history = read(tmp_path, *(str(tmp_path / name(at) / "dmesg.log") for at in (1, 2)))
    assert [e.node for e in history.outages] == [name(1), name(2)]
    assert sum("name no host" in text for text in tables.findings) == 2


def test_a_message_of_several_lines(tmp_path: Path) -> None:
    """The driver names the GPU in one line and says in the third that it is lost; each node has its own GPU."""
    parts = [
        "NVRM: The NVIDIA GPU 0000:{:02}:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    ]  # fmt: skip
    lines = [(START + DAY, name(node), part.format(node)) for part in parts for node in (1, 2)]
    tables, history = read(tmp_path, *write(tmp_path, kernel_log=log_writers.kernel(lines, "iso")))
    assert [(e.node, e.part_id, e.cause_basis) for e in history.outages] == [
        (name(node), f"0000:{node:02}:00", "xid 79") for node in (1, 2)
    ]
    assert len(tables.events) == 2, "a fault that stands for an outage is there once"
    assert [(row.rule, row.number) for row in tables.dropped] == [("other lines of the kernel", 4)]


@cases(
    ("lines", "severity"),
    [
        (["NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03"], "info"),
        (["NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT Fatal XC0 i0 Link 03"], "fatal"),
        (["NVRM: Xid (PCI:0018:01:00): 149, NETIR_BER_EVENT"], "fatal"),
        (["NVRM: Xid (PCI:0018:01:00): 63, Row Remapper: New row marked for remapping"], "info"),
        (["NVRM: Xid (PCI:0018:01:00): 63, Fatal, no row left"], "fatal"),
        (["nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress",
          "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32"], "info"),
        (["nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Severity 0 Engine instance 32",
          "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress"], "info"),
        (["nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress",
          "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Fatal, Link 32 egress"], "fatal"),
    ],
)  # fmt: skip
def test_severities(lines: list[str], severity: str, tmp_path: Path) -> None:
    """The severity that lines state wins over that of their code; the most severe of one fault holds."""
    text = log_writers.kernel([(START + DAY + at, name(1), line) for at, line in enumerate(lines)], "iso")
    _, history = read(tmp_path, *write(tmp_path, kernel_log=text))
    assert [(e.severity, e.raw_count) for e in history.faults] == [(severity, len(lines))]
    assert len(history.outages) == (severity == "fatal")


def test_faults_that_no_rule_reads(tmp_path: Path) -> None:
    """A line with a word of a fault that no rule reads is counted with its word, apart from the noise of a kernel."""
    texts = [
        "mce: [Hardware Error]: Machine check events logged", "mce: [Hardware Error]: CPU 3: Machine Check: 0",
        "eth0: Link is Down", "usb 1-1: new device", "NVRM: Xid (PCI:0000:9b:00): 79, lost",
        "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!", "amdgpu 0000:c1:00.0: amdgpu: device lost from bus!",
        "amdgpu 0000:c1:00.0: amdgpu: Fatal error during GPU init", "amdgpu 0000:c1:00.0: amdgpu: XGMI: link error",
    ]  # fmt: skip
    tables, _ = read(
        tmp_path,
        *write(tmp_path, kernel_log=log_writers.kernel([(START + DAY, name(1), text) for text in texts], "iso")),
    )
    assert [(row.rule, row.number, row.sort) for row in tables.dropped] == [
        ("a fault that no rule reads: hardware error", 2, "unread"),
        ("a fault that no rule reads: link is down", 1, "unread"),
        *(
            (f"a fault that no rule reads: {word}", 1, "unread")
            for word in (
                "gpu reset begin",
                "device lost from bus",
                "fatal error during gpu",
                "xgmi: link error",
            )
        ),
        ("other lines of the kernel", 1, "normal"),
    ]


@cases("form", ["", "gpu007: "])
def test_dates_without_a_year(form: str, tmp_path: Path) -> None:
    """A stated year goes on over New Year, which is said; with pdsh each host begins again; a leap back is refused."""
    host = "gpu007" if not form else "gpu008"
    lines = [("gpu007", "Dec 30"), ("gpu007", "Jan  2"), (host, "Dec 31"), (host, "Jan  1"), ("gpu007", "Feb  1")]
    text = "".join(
        f"{form and f'{node}: '}{date} 12:00:00 {node} kernel: NVRM: Xid (PCI:0000:9b:00): 79, x\n"
        for node, date in lines
    )
    files = write(tmp_path, kernel_log=text)
    tables, _ = pipeline.read(FitOptions(files, zones=["UTC"], years=["2023", "kernel.log=2024"]))
    days = ["2024-12-30", "2024-12-31", "2025-01-01", "2025-01-02", "2025-02-01"]
    assert sorted(utc(e.t)[:10] for e in tables.events) == days
    assert any("read as New Year" in text for text in tables.findings)
    lines = "".join(
        f"{date} 12:00:00 gpu007 kernel: NVRM: Xid (PCI:0000:9b:00): 79, x\n" for date in ("Jan  2", "Dec 30", "Nov  1")
    )
    files = write(tmp_path, kernel_log=lines)
    tables, _ = pipeline.read(FitOptions(files, zones=["UTC"], years=["2025"]))
    assert [utc(e.t)[:10] for e in tables.events] == ["2025-01-02"], "newest first: nothing says of which year they are"
    assert [row.rule.partition(";")[0] for row in tables.dropped] == [
        "a date without a year that leaps from month 1 to 12", "a date without a year that leaps from month 1 to 11",
    ]  # fmt: skip
    text = "Jan  7 12:00:00 ctl slurmctld[12]: error: Nodes gpu[001-002] not responding, setting DOWN\n"
    text += "Jan  8 12:00:00 ctl slurmctld[12]: node gpu001 returned to service\n"
    files = write(tmp_path, slurmctld_log=text)
    _, history = read(tmp_path, *files, years=["2025"])
    assert sorted((e.node, e.t_end - e.t) for e in history.outages)[0] == ("gpu001", DAY), "the controller by syslog"
    with pytest.raises(LogError, match="2: a date without a year; state it"):
        pipeline.read(FitOptions(files, zones=["UTC"]))
    with pytest.raises(LogError, match="--year 25: is not a year"):
        pipeline.read(FitOptions(files, zones=["UTC"], years=["25"]))


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
    request = FitOptions(files, nodes=64, zones=["UTC"])
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
    request = FitOptions([str(tmp_path / "sacct.txt")], zones=["UTC"])
    tables, _ = pipeline.read(request)
    assert [a.job for a in tables.attempts] == ["7", "8", "9"]
    assert [(row.rule, row.number) for row in tables.dropped] == [("a record that was cut", 1)]
    assert any("no UTF-8" in text for text in tables.findings)


def test_restarts_without_their_records(tmp_path: Path) -> None:
    """An export without -D lacks the failures of requeued jobs, and is said to."""
    rows = jobs()
    rows[0]["restarts"] = 2
    (path,) = write(tmp_path, sacct_txt=log_writers.sacct(rows))
    tables, _ = pipeline.read(FitOptions([path], zones=["UTC"]))
    assert any("sacct -D" in text for text in tables.findings)
    runs = [{**rows[0], "start": START + (day - 1) * DAY, "end": START + day * DAY} for day in (2, 3, 4)]
    (path,) = write(tmp_path, sacct_txt=log_writers.sacct(runs))
    tables, _ = pipeline.read(FitOptions([path], zones=["UTC"]))
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
    clock = Moments(zone, "log")
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
        (b"abc\nd\0e\n", ":2: is not text"),
        (b"nothing that anybody knows\n", "name its kind"),
        (b"Cluster|NodeName|TimeStart|State|Reason\n", "has no column for the end"),
        (HEAD.encode() + b"c|gpu000|2025-01-07T00:00:00|Unknown|DOWN|x|y\n", "--timezone"),
        (HEAD.encode() + b"c|tpu0|2025-01-07T00:00:00Z|Unknown|DOWN|x|y\n", ":2: 'tpu0' is not a node"),
        (b'{"jobs": [', "is not complete JSON"),
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


@cases(
    ("text", "rule"),
    [
        ("NodeName=gpu001 Arch=x86_64 CoresPerSocket=56\n   State=DOWN+DRAIN Reason=Xid_79\n", "sacctmgr -P"),
        ("REASON        USER   TIMESTAMP           NODELIST\nxid 79  root  2025-03-01T04:10:00 gpu001\n", "sacctmgr"),
        ("Sat Mar  1 04:10:00 2025\nNODELIST   NODES PARTITION  STATE\ngpu001  1  gpu*  down*\n", "sacctmgr"),
        ('{"nodes": [{"architecture": "x86_64", "name": "gpu001", "slurmd_start_time": 7}]}', "sacctmgr"),
        ("LAST SEEN   TYPE     REASON        OBJECT       MESSAGE\n5m   Warning  Xid   node/gpu001  NVRM: Xid 79\n",
         "kubectl get events -A -o json"),
        ("NAME   STATUS   ROLES    AGE   VERSION\ngpu001   NotReady   <none>   12d   v1.30.1\n", "get nodes -o json"),
        ('# HELP DCGM_FI_DEV_XID_ERRORS Last\nDCGM_FI_DEV_XID_ERRORS{Hostname="gpu001"} 79\n', "query_range"),
        ("JobID           JobName  Partition  State\n--------- -------\n12 bash gpu FAILED\n", "sacct -a -D -P"),
        (" [2025-03-01 04:10:00] iteration  100/  5000 | consumed samples:  512 |\n", "is a log of Megatron"),
        (':::MLLOG {"time_ms": 1740802200123, "key": "run_start"}\n', "is a log of MLPerf"),
        ('{"_step": 1, "_runtime": 12.3, "_timestamp": 1740802200.1, "loss": 3.2}\n', "Weights & Biases"),
        ("INFO 03-01 04:10:00 metrics.py:455] Avg prompt throughput: 1204.3 tokens/s\n", "is a log of vLLM"),
        ("2025-03-01T04:10:00 INFO torchft.manager: reconfiguring for quorum_id 3\n", "is a log of torchft"),
        ("System,machine type,nodes,node install,Prob Started,Prob Fixed\n2,cluster,49,5-Apr,6/21/2005,6/22/2005\n",
         "Computer Failure Data Repository; write a CSV with the columns node, start, end, cause"),
        ("hello world\n", "name its kind with --as log.txt=KIND"),
        ('{"status": "success", "data": {"resultType": "streams", "result": [{"stream": {"host": "gpu003"}, "values": '
         '[["1772338200000000000", "NVRM: Xid (PCI:0000:3b:00): 79, x"]]}]}}', "API of Loki; export it with logcli"),
        ("Outages of 2026\n\nnode,start,end,cause\ngpu001,2026-01-03 04:10,2026-01-04 09:00,gpu\n",
         "log.txt:1: is not a header; the header is in line 3"),
        ("slurmctld: error: Nodes gpu001, gpu002 not responding, setting DOWN\n", "set LogTimeFormat"),
        ("machine;opened;closed\ngpu001;2026-01-03 04:10;x\n", "whose columns are (closed, machine, opened)"),
        ("time=2026-03-01T04:10:00Z level=error host=gpu001 msg=\"NVRM: Xid (PCI:0000:3b:00): 79, x\"\n", "of logfmt"),
        ("logs/gpu003/kern.log:Mar  1 04:10:00 gpu003 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x\n", "as of grep"),
        ("Sun 2026-03-01 04:10:00 UTC [s=a]\n    _HOSTNAME=gpu003\n    MESSAGE=NVRM: Xid (PCI:0000:3b:00): 79, x\n",
         "a field of journalctl -o verbose or -o export"),
        ('"_time",host,"_raw"\n"2026-03-01T05:10:00Z",gpu003,"kernel: NVRM: Xid (PCI:0000:3b:00): 79, x"\n',
         "a row of a table"),
    ],
)  # fmt: skip
def test_what_is_not_read(text: str, rule: str, tmp_path: Path) -> None:
    """Tables for eyes and logs of other families are named, with what to export; none is called a log of the kernel."""
    (path,) = write(tmp_path, log_txt=text)
    with pytest.raises(LogError) as caught:
        pipeline.read(FitOptions([path], zones=["UTC"]))
    assert rule in str(caught.value)
    assert "=kernel" not in str(caught.value)


@cases("form", ["a list", "pretty", "commas", "commas and brackets", "lines", "cut"])
def test_forms_of_json(form: str, tmp_path: Path) -> None:
    """Events are read whole however their JSON is laid out; a list that was cut costs its last entry alone."""
    events = [
        {
            "involvedObject": {"kind": "Node", "name": name(1)},
            "reason": why,
            "firstTimestamp": f"2025-01-08T0{at}:00:00Z",
        }
        for at, why in enumerate(("NodeNotReady", "NodeReady", "NodeNotReady", "NodeReady", "KernelOops"))
    ]
    lines = [json.dumps(event) for event in events]
    text = {
        "a list": json.dumps(events), "pretty": json.dumps(events, indent=2), "commas": ",\n".join(lines),
        "commas and brackets": "[\n" + ",\n".join(lines) + "\n]", "lines": "\n".join(lines),
        "cut": "[\n" + ",\n".join(lines)[:-9],
    }[form]  # fmt: skip
    tables, history = read(tmp_path, *write(tmp_path, events_json=text))
    assert [(e.node, e.t_end - e.t) for e in history.outages] == [(name(1), 3600)] * 2
    assert len(history.faults) == (form != "cut")
    assert [row.rule for row in tables.dropped] == ["no JSON"] * (form == "cut")


def test_what_was_left_out_comes_first(tmp_path: Path) -> None:
    """The screen begins with what was not used, by reason, with count and example, and with the columns of tables."""
    lines = ["hostname,start,end,cause,ticket", "gpu001,2025-01-07T00:00:00,2025-01-08T00:00:00,ecc,7"]
    lines += ["gpu002,yesterday,2025-01-08T00:00:00,ecc,8"] * 2
    kernel = "".join(
        f"{utc(START + DAY * at)} gpu001 kernel: {text}\n"
        for at, text in enumerate(("mce: [Hardware Error]: CPU 3", "usb 1-1: new device", "usb 1-2: new device"), 1)
    )
    files = write(tmp_path, outages_csv="\n".join(lines), kernel_log=kernel)
    result = CliRunner().invoke(cli.app, ["fit", *files, "--nodes", "4", "--timezone", "UTC", "--full"])
    assert result.exit_code == 0, result.output
    first = " ".join(result.output.split("\n\n")[1].split())
    assert first.startswith("3 lines could not be used")
    for text in (
        "outages.csv: columns node from 'hostname', start, end, cause; not used: ticket.",
        "'yesterday' is not a time such as 2025-02-03T08:11:40", "outages.csv:3", "hardware error", "kernel.log:1",
    ):  # fmt: skip
        assert text in first
    assert "other lines" not in first
    assert "NoModel" not in result.output


def test_clocks_that_jump_and_zones_that_mix(tmp_path: Path) -> None:
    """A clock that is set back is a finding and costs no line; offsets of one file may differ; a cut end is counted."""
    text = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
    stamps = ["2025-01-08T06:00:00-06:00", "2025-01-08T13:00:00+00:00", "2025-01-08T12:30:00+00:00", "2025-01-08T1"]
    log = "\n".join(f"{stamp} {name(at)} kernel: {text}" for at, stamp in zip((1, 1, 1, 2), stamps, strict=True))
    control = "".join(
        f"[2025-01-{day:02}T00:00:00.000+00:00] error: Nodes gpu{day:03} not responding, setting DOWN\n"
        for day in (9, 8, 10)
    )
    tables, history = read(tmp_path, *write(tmp_path, kernel_log=log, slurmctld_log=control))
    assert [round((e.t - START) / 1800) for e in history.faults] == [120, 121, 122]
    assert [e.node for e in history.outages] == ["gpu008", "gpu009", "gpu010"]
    jumps = [text.partition(": ")[2] for text in tables.findings if "clock" in text]
    assert jumps == [f"on 1 lines the clock {of}falls by more than a minute" for of in ("of a host ", "")]
    assert [(row.rule.partition(";")[0], row.number) for row in tables.dropped] == [("no moment that can be read", 1)]


def test_files_that_end_early(tmp_path: Path) -> None:
    """A packed file that was cut is read as far as it goes, and said to be damaged."""
    faults = drawn(1, nodes=64)
    packed = gzip.compress(log_writers.node_events(faults).encode())
    (tmp_path / "events.gz").write_bytes(packed[: len(packed) // 2])
    tables, history = read(tmp_path, str(tmp_path / "events.gz"))
    assert 0 < len(history.outages) < len(faults)
    assert any("damaged" in text for text in tables.findings)
    assert any(row.rule == "the file ends early" for row in tables.dropped)


def good_logs() -> dict[str, str]:
    """Return a small log of each kind; real fragments too, where they are present."""
    faults = drawn(1, nodes=8, days=60.0)
    texts = {
        "inventory": log_writers.inventory(8),
        "node-events": log_writers.node_events(faults),
        "outages": log_writers.outages(faults),
        "sacct": log_writers.sacct(jobs() * 3),
        "lives": "serial,start,end,cause\n" + "a,2025-01-07T00:00:00,2025-02-07T00:00:00,dbe\n" * 9,
        "sacct-json": log_writers.sacct_json(jobs()),
        "kernel": log_writers.kernel([log_writers.xid(f) for f in drawn(1) if f.cause in log_writers.CODES], "iso"),
        "goodput": '{"job_name": "t", "job_start_time": 1736143800.0}\n'
        '{"job_name": "t", "step_count": 0, "step_start_time": 1736143900.0}\n',
        "slurmctld": slurmctld(faults),
        "kubernetes": kubernetes(faults, "lines"),
        "nodes": log_writers.snapshots(faults, 4, [START + DAY])[0],
        "nvsentinel": nvsentinel(faults),
        "prometheus": log_writers.prometheus(faults, 2, START, START + DAY, 3600.0),
        "torchrun": log_writers.torchrun(START, "gpu001", -9) * 3,
        "nvrx": log_writers.nvrx(1, START),
        "cycles": '{"job_id": 7, "cycle_number": 1, "cycle_start_time": "2025-02-03T14:11:40", "cycle_end_time": null, '
        '"active_nodes": "gpu[000-003]"}\n' * 2,
    }
    real = sorted((DATA / "real").glob("*")) if DATA.exists() else []
    return texts | {each.name: each.read_text(encoding="utf-8", errors="replace") for each in real}


def damaged(text: str, generator: random.Random) -> bytes:
    """Return a log with values of another type, other bytes, lines that are lost or moved, or without its end."""
    how = generator.randrange(5)
    if how == 0 and text.lstrip().startswith("{"):
        rows = [json.loads(row) for row in (text.splitlines() if '"items"' not in text else [text])]
        rows = [copy.deepcopy(generator.choice(rows)) for _ in range(3)] if len(rows) > 1 else rows
        other = [None, [], {}, "x", "", -1, 1e300, True, [[7]], {"a": 1}, "2025-01-07"]
        for _ in range(3):
            place: Any = rows
            while isinstance(place, (dict, list)) and place:
                key = generator.choice(list(place) if isinstance(place, dict) else range(len(place)))
                if not isinstance(place[key], (dict, list)) or generator.random() < 0.1:
                    place[key] = copy.deepcopy(generator.choice(other))
                    break
                place = place[key]
        return "\n".join(map(json.dumps, rows)).encode()
    content = bytearray(text.encode())
    if how == 1:
        lines = content.splitlines(keepends=True)
        generator.shuffle(lines)
        return b"".join(lines[generator.randrange(len(lines)) :])
    if how == 2:
        return bytes(content[: generator.randrange(1, len(content))])
    if how == 3:
        return bytes(content.replace(b"\n", generator.choice([b"\r\n", b"\n\n", b" \n", b"\xe9\n"])))
    for _ in range(5):
        at = generator.randrange(len(content))
        content[at : at + generator.randrange(3)] = generator.randbytes(generator.randrange(3)).replace(b"\0", b"x")
    return bytes(content)


@pytest.mark.parametrize("kind", good_logs())
def test_any_bytes(kind: str, tmp_path: Path) -> None:
    """Damaged lines of any format are dropped with their number, or the file is refused in one line; none is lost."""
    text, generator, path = good_logs()[kind], random.Random(SEED), tmp_path / "log"
    for number in range(budget(100)):
        path.write_bytes(damaged(text, generator))
        kinds = {str(path): kind} if number % 2 and kind in READERS else {}
        request = FitOptions([str(path)], zones=["UTC"], kinds=kinds, nodes=200)
        try:
            tables, reading = pipeline.read(request)
            (source,) = tables.sources
            used = source.rows + sum(row.number for row in tables.dropped)
            if source.kind not in ("sacct", "sacct-json", "prometheus", "nodes", "torchrun", "goodput"):
                # The header of a table is the only line that is neither.
                assert used >= source.lines - path.read_bytes().count(b"\n\n") - 2, (kind, number, tables.dropped)
            pipeline.history_of(request, tables, reading)
        except (LogError, NoModelError) as error:
            lines = str(error).splitlines()
            if len(lines) != 1:
                pytest.fail(f"{kind}: {lines}")


@cases(
    ("content", "more", "status", "rule"),
    [
        (b"\xff\xfeC\0l\0", (), 2, "log.txt:1: is UTF-16 text"),
        (b"\xfd7zXZ\0\0", (), 2, "log.txt:1: is not text"),
        (b"\x1f\x8bnonsense", (), 2, "log.txt: cannot be unpacked"),
        (b'{"items": [{"kind": "Event", "involvedObject": {', (), 2, "log.txt:1: is not complete JSON"),
        (b'{"status": "error", "error": "timed out", "resultType": "matrix"}', (), 2, "the query failed: timed out"),
        (b'{"data": {"resultType": "vector", "result": []}}', (), 2, "is not an answer of query_range (vector)"),
        (b"[2025-02-03T08:11:40.123] Nodes gpu001 not responding, setting DOWN\n", (), 2, "log.txt:1: '2025-02-03"),
        (HEAD.encode() + b"c|a|2025-01-07T00:00:00Z|2025-01-08T00:00:00Z|DOWN|x|y\n", (), 1, "give --inventory FILE"),
        (
            HEAD.encode() + b"c|gpu001|2025-01-07T00:00:00Z|2025-01-08T00:00:00Z|DOWN|x|y\n",
            ("--inventory", "nodes.csv", "--timezone", "UTC", "--window", "2024-01-01T00:00:00Z/2024-02-01T00:00:00Z"),
            1, "no node of the inventory was in service between 2024-01-01T00:00:00Z and 2024-02-01T00:00:00Z",
        ),
        (log_writers.snapshots([], 4, [START])[0].encode(), (), 1, "have the same time"),
        (
            log_writers.prometheus([], 10, START, START + 30 * DAY, 86400.0).encode(), (), 1,
            "no unplanned outage in 290 node-days; the rate is below 10 per 1000 node-days (95 %)",
        ),
        (b"x", ("--rules", "wrong.yaml"), 2, "wrong.yaml: is not of the form of rules: ValueError does: jump"),
        (b"x", ("--rules", "typo.yaml"), 2, "typo.yaml: is not of the form of rules: ValueError unknown key 'metric'"),
    ],
)  # fmt: skip
def test_status_of_bad_input(content: bytes, more: tuple[str, ...], status: int, rule: str, tmp_path: Path) -> None:
    """Wrong input is one line and status 2, logs without a model are one line and status 1; nothing is written."""
    (tmp_path / "log.txt").write_bytes(content)
    write(
        tmp_path, nodes_csv=log_writers.inventory(4), wrong_yaml="slurmctld: [{holds: x, match: y, does: jump}]\n",
        typo_yaml="prometheus: {metric: {x: {does: state}}}\n",
    )  # fmt: skip
    with contextlib.chdir(tmp_path):
        result = CliRunner().invoke(cli.app, ["fit", "log.txt", *more, "--out", "out"])
    assert result.exit_code == status, result.output
    assert rule in result.output.replace("\n", " ")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not (tmp_path / "out").exists()


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
    request = FitOptions(write(tmp_path, **files))
    tables, reading = pipeline.read(request)
    with pytest.raises(NoModelError, match=rule):
        pipeline.history_of(request, tables, reading)


# Names that leave a site, and names that do not.


SECRET = {
    "host": "kfz-alpha", "user": "mustermann", "rack": "Keller3", "partition": "geheimqueue", "job": "7712345",
    "device": "9b:00", "mail": "ops@firma.example", "address": "10.17.3.9", "path": "/scratch/mustermann/train.sh",
    "ticket": "4471", "file": "sitelog", "word": "Wasserschaden", "year": "2025-",
}  # fmt: skip


def secret_files(folder: Path) -> list[str]:
    """Write logs full of names: 64 nodes, outages with free text, codes of one of them, and a job."""
    faults = drawn(1, days=60.0)

    def renamed(text: str) -> str:
        return text.replace("gpu0", f"{SECRET['host']}0").replace("gpu[0", f"{SECRET['host']}[0")

    free = "{word}, ask {user} {mail} at {address} for {path} ticket {ticket}".format(**SECRET)
    events = renamed(log_writers.node_events(faults)).replace("Not responding", free)
    codes = [log_writers.xid(f) for f in faults if f.cause in log_writers.CODES]
    inventory = renamed(log_writers.inventory(64)).replace(",r0", f",{SECRET['rack']}-")
    rows = [
        {**job, "user": SECRET["user"], "id": f"{SECRET['job']}{at}{job['id']}"} for at in range(12) for job in jobs()
    ]
    rows[0]["failed"] = name(5)
    stranger = f"c|stranger-{SECRET['host']}|2025-02-03T00:00:00|Unknown|DOWN|x|y\n"
    return write(
        folder, nodes_csv=inventory, sitelog_txt=events + stranger,
        kfz_log=renamed(log_writers.kernel(codes, "iso")),
        sitelog2_txt=renamed(log_writers.sacct(rows)).replace("|main|", f"|{SECRET['partition']}|"),
    )  # fmt: skip


def fitted(files: list[str], out: Path, *more: str) -> dict[str, str]:
    """Return what `ettrick fit` writes and prints, by file."""
    command = ["fit", *files[1:], "--inventory", files[0], "--timezone", "UTC", "--full", "--out", str(out), *more]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    printed = result.output.replace(str(out), "")
    return {"printed": printed} | {each.name: each.read_text(encoding="utf-8") for each in out.iterdir()}


def test_no_name_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --anonymise no file has a token of the logs; without it only tables have; the model is the same."""
    simulated = check.simulated
    monkeypatch.setattr(check, "simulated", lambda fit, entries, _, progress: simulated(fit, entries, 4, progress))
    monkeypatch.setattr(pipeline, "COSTS", 1)
    monkeypatch.setattr("ettrick.analysis.logs.fit.DRAWS", 5)
    monkeypatch.setattr("ettrick.analysis.logs.workload.REPLICATIONS", 2)
    files = secret_files(tmp_path)
    host, partition = SECRET["host"], SECRET["partition"]
    (slurm := tmp_path / "slurm.conf").write_text(
        f"ClusterName=x\nGresTypes=gpu\nNodeName={host}[000-063] Gres=gpu:h100:8 CPUs=96\n"
        f"PartitionName={partition} Nodes={host}[000-063] Default=YES MaxTime=7-0 PriorityTier=2 State=UP\n",
        encoding="utf-8",
    )
    key = str(tmp_path / "site.key")
    hidden = fitted(files, tmp_path / "hidden", "--anonymise", "--key", key, "--slurm-conf", str(slurm))
    assert re.search(r"name: partition-[0-9a-f]{8}", hidden["fleet.yaml"])
    for file, text in hidden.items():
        for kind, token in SECRET.items():
            assert token.lower() not in text.lower(), f"{file} has the {kind} {token}"
    assert (tmp_path / "site.key").stat().st_mode & 0o077 == 0
    plain = fitted(files, tmp_path / "plain")
    tables = {"events.csv", "exposure.csv", "attempts.csv", "dropped.csv", "outages.csv", "nodes.csv", "jobs.csv"}
    for file in plain.keys() - tables:
        for kind in ("host", "user", "job", "mail", "address", "path"):
            assert SECRET[kind] not in plain[file], f"{file} has the {kind}"
    assert SECRET["host"] in plain["outages.csv"]
    rates = [re.findall(r"rate: (.*)", each["failures.yaml"]) for each in (hidden, plain)]
    assert rates[0] == rates[1] != []
    nodes, exposed, out = (
        set(re.findall(r"node-[0-9a-f]{8}", hidden[each])) for each in ("nodes.csv", "exposure.csv", "outages.csv")
    )
    assert len(nodes) == 64
    assert out <= nodes == exposed
    starts = [datetime.fromisoformat(each["outages.csv"].split(",")[4]) for each in (hidden, plain)]
    assert (starts[0] - starts[1]).total_seconds() % (7 * DAY) == 0
    in_order = [line.split(",")[0] for line in plain["exposure.csv"].split()[1:]]
    ordered, plainly = (Pseudonymizer(bytes(range(32)), keep_order=each) for each in (True, False))
    assert [ordered.name("node", each) for each in in_order] == [
        plainly.name("node", each).replace("-", f"-{at:05}-") for at, each in enumerate(in_order)
    ]


@cases(
    ("more", "rule"),
    [
        (("--key", "out/k"), "is inside out"),
        (("--key", "nodes.csv"), "is not a key"),
        (("--key", "no/where/k"), "cannot be used (No such file"),
    ],
)
def test_keys_that_are_none(more: tuple[str, ...], rule: str, tmp_path: Path) -> None:
    """A key that would leave with the folder, or is none, is refused before anything is read."""
    files = secret_files(tmp_path)
    command = ["fit", *files, "--anonymise", "--out", "out", *more]
    with contextlib.chdir(tmp_path):
        result = CliRunner().invoke(cli.app, command)
    assert (result.exit_code, rule in result.output) == (2, True), result.output
    assert not (tmp_path / "out").exists()


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


@cases("kind", ["node-events", "outages", "slurmctld", "kubernetes", "nvsentinel", "prometheus", "kernel"])
def test_names_and_clocks(kind: str, tmp_path: Path) -> None:
    """In every format other names, other weeks and summer time give the same outages, under these names, then."""
    week = 7 * DAY
    faults = [f for f in drawn(9, nodes=8, days=120.0, rates={"nvlink": 20.0, "gpu_memory": 20.0}) if f.end == f.end]
    zone = "America/Chicago" if kind in ("node-events", "slurmctld", "kernel") else "UTC"
    forms: dict[str, Callable[[list[Fault]], str]] = {
        "node-events": lambda each: log_writers.node_events(each, zone),
        "outages": log_writers.outages,
        "slurmctld": lambda each: slurmctld(each, zone),
        "kubernetes": kubernetes,
        "nvsentinel": nvsentinel,
        "prometheus": lambda each: log_writers.prometheus(each, 8, START, START + 150 * DAY, 1800.0),
        "kernel": lambda each: log_writers.kernel([log_writers.xid(f) for f in each], "local", zone),
    }
    other = {name(at): f"zx{7 - at}" for at in range(8)}

    def outages(each: list[Fault], rename: bool = False) -> list[tuple[str, float, float | None, str]]:
        text = forms[kind](sorted(each, key=lambda fault: fault.start))
        for old, new in other.items() if rename else ():
            text = text.replace(old, new)
        (path,) = write(tmp_path, log_txt=text)
        return found(read_logs(FitOptions([path], zones=[zone], nodes=8))[1])

    plain = outages(faults)
    assert len(plain) > 20
    assert sorted(outages(faults, rename=True)) == sorted((other[node], *rest) for node, *rest in plain)
    # Four weeks later summer time, which begins on 9 March, lies elsewhere among them.
    later = [f._replace(start=f.start + 4 * week, end=f.end + 4 * week) for f in faults]
    moved = [
        (node, t - 4 * week, None if end is None else end - 4 * week, cause) for node, t, end, cause in outages(later)
    ]
    assert moved == plain


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
    (together,) = incidents(history)
    assert (together.part, together.domains) == ("rack", 8)
    assert [len(group) for group in together.groups] == [3]
    assert [event.incident for event in history.outages] == [0, 0, 0, -1]


def test_incidents_of_the_cluster(tmp_path: Path) -> None:
    """Outages in many racks within five minutes are one incident of the cluster, and none of a rack."""
    single = drawn(4, rates={"nic": 2.0})
    moments = [START + at * DAY for at in (40, 90)]
    wide = [Fault(name(n), at + n, at + DAY, "not_responding") for at in moments for n in range(0, 40, 2)]
    rack = [Fault(name(n), START + 60 * DAY + n, START + 61 * DAY, "nic") for n in range(8, 12)]
    apart = [f for f in single if all(abs(f.start - at) > DAY for at in (*moments, START + 60 * DAY))]
    _, history = read(tmp_path, *write(tmp_path, events_txt=log_writers.node_events([*apart, *wide, *rack])))
    racks, cluster = incidents(history)
    assert [(each.part, len(each.groups)) for each in (racks, cluster)] == [("rack", 1), ("cluster", 2)]
    assert [len(group) for group in (*cluster.groups, *racks.groups)] == [20, 20, 4]
    assert sum(event.incident >= 0 for event in history.outages) == 44
    assert cluster.by_chance < 0.01
    # Where outages are frequent some come together by chance.
    _, busy = read(tmp_path, *write(tmp_path, events_txt=log_writers.node_events(drawn(5, rates={"nic": 200.0}))))
    assert len(incidents(busy)) == 1


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
    request = FitOptions(files[1:], files[0], zones=["UTC"], window=window)
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
    request = FitOptions([str(folder / each) for each in names], str(folder / "inventory.csv.gz"), ["America/Chicago"])
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
    (together,) = incidents(history)
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
        tables, _ = pipeline.read(FitOptions([str(DATA / "synthetic_A" / "sacct.txt.gz")], zones=[zone]))
        rows = [a for a in tables.attempts if not math.isnan(a.t_end)]
        wrong[zone] = rows
    naive = sum(
        abs((b.t_end - b.t_start) - (a.t_end - a.t_start)) > 1
        for a, b in zip(*(wrong[zone] for zone in ("America/Chicago", "Etc/GMT+6")), strict=True)
    )
    assert all(abs(a.t_end - a.t_start - a.elapsed) <= 1 for a in wrong["America/Chicago"])
    assert naive in (0, 2), "an end without its summer time is put right by the elapsed time"


@needs_data
@cases(
    ("file", "kind", "rows", "dropped"),
    [
        ("dmesg_decode_iso_xid13_burst.log", "kernel", 17, {"other lines of the kernel": 7}),
        ("kmsg_raw.log", "kernel", 0, {"other lines of the kernel": 47}),
        ("sacct_multiline_names.txt", "sacct", 2, {"steps of jobs": 2, "a record that is repeated": 2}),
        ("sinfo_wide.txt", "inventory", 3, {"a node that line 2 has too": 1}),
    ],
)
def test_real_fragments(file: str, kind: str, rows: int, dropped: dict[str, int]) -> None:
    """Real fragments are recognised, and every line of them is used or accounted for."""
    path = DATA / "real" / file
    tables, _ = pipeline.read(FitOptions([str(path)], zones=["UTC"]))
    (source,) = tables.sources
    assert (source.kind, source.rows, {row.rule: row.number for row in tables.dropped}) == (kind, rows, dropped)
    if file.startswith("dmesg"):
        assert tables.groups == {13: [16, 1], 43: [1, 1]}
        assert not tables.events
    if file.startswith("sinfo"):
        assert [(row.unit, row.gpus) for row in tables.exposure] == [("node0201", 8), ("node1537", 8), ("node4180", 2)]


@needs_data
@cases(
    ("file", "words"),
    [
        ("xid_nvlink5_lines.csv", ":2: no line of this log (kernel) can be used; of 36 lines, 35: a row of a table"),
        ("sacct_cut_lines.txt", ":2: no line of this log (sacct) can be used; of 2 lines, 1: a record that was cut"),
    ],
)
def test_real_fragments_without_use(file: str, words: str) -> None:
    """A fragment of which no line is used is refused with the commonest reason; its codes are in the form of ours."""
    path = DATA / "real" / file
    with pytest.raises(LogError) as caught:
        pipeline.read(FitOptions([str(path)], zones=["UTC"]))
    assert words in str(caught.value)
    if file.startswith("xid"):
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
            match = present(XID.search(row["line"]))
            assert (match[1], match[2]) == (row["bus"], row["xid"])
