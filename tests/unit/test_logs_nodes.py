"""Which nodes logs speak of: one name for each, a node where a source says one, and moments that agree."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.analysis.logs import pipeline
from ettrick.analysis.logs.anonymise import Pseudonymizer
from ettrick.analysis.logs.pipeline import FitOptions
from ettrick.sim.records import LogError
from tests.cases import cases
from tests.log_writers import START, read_logs, utc, write

if TYPE_CHECKING:
    from pathlib import Path

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.tables import Tables

HOUR = 3600.0


def read(files: list[str], **more: Any) -> tuple[Tables, History]:
    """Return the tables and the history of files."""
    return read_logs(FitOptions(files, zones=["UTC"], **more))


def spans(history: History) -> list[tuple[str, float, float]]:
    """Return the outages: node, start and end [h since the beginning]."""
    return [(e.node, (e.t - START) / HOUR, (e.t_end - START) / HOUR) for e in history.outages]


def answer(*series: tuple[dict[str, str], str]) -> str:
    """Return an answer of query_range: labels, and a sample each ten minutes."""
    result = [
        {"metric": labels, "values": [[START + 600 * at, value] for at, value in enumerate(values.split())]}
        for labels, values in series
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


UP, DOWN = "1 1 1 1 1 1 1 1", "1 1 0 0 0 1 1 1"


def up(job: str, instance: str, values: str, **labels: str) -> tuple[dict[str, str], str]:
    """Return a series of whether a target could be scraped."""
    return {"__name__": "up", "job": job, "instance": instance, **labels}, values


def xid(node: str, instance: str) -> tuple[dict[str, str], str]:
    """Return a series of the last code of a GPU."""
    labels = {"__name__": "DCGM_FI_DEV_XID_ERRORS", "Hostname": node, "instance": instance, "gpu": "0", "job": "dcgm"}
    return labels, "0 0 0 0 0 0 0 0"


@cases(
    ("job", "instance", "is_node"),
    [
        ("node-exporter", "h:9100", True), ("integrations/node_exporter", "h", True), ("kubelet", "h:10250", True),
        ("dcgm-exporter", "h:9400", True), ("compute", "h:9100", True), ("kubernetes-nodes", "h", True),
        ("gpu-metrics", "h:9400", True), ("vllm", "10.244.1.7:8000", False), ("nodejs-shop", "h:3000", False),
        ("prometheus", "h:9090", False), ("slurmrestd", "h:6820", False), ("pushgateway", "h:9091", False),
    ],
)  # fmt: skip
def test_targets_that_are_nodes(job: str, instance: str, is_node: bool, tmp_path: Path) -> None:
    """Only what scrapes a host is a node; a program is left out by the name of its job, and that is said."""
    files = write(tmp_path, up_json=answer(up("node", "first:9100", UP), up(job, instance, DOWN)))
    tables, history = read(files)
    assert len(history.nodes) == 1 + is_node
    assert len(history.outages) == is_node
    assert [row.rule for row in tables.dropped if f"job {job}" in row.rule] == (
        [] if is_node else [f"series of up that are no nodes: job {job}"]
    )


def test_one_host_by_address_and_by_name(tmp_path: Path) -> None:
    """An address is the host that a series, or the list of nodes, gives it; one of several hosts is nobody's."""
    series = [
        up("node-exporter", "10.0.0.1:9100", DOWN), xid("gpu001", "10.0.0.1:9400"),
        up("node-exporter", "[fd00::2]:9100", UP),
        ({"__name__": "node_uname_info", "nodename": "gpu002", "instance": "[fd00::2]:9100"}, UP),
        up("dcgm", "10.244.0.9:9400", UP, pod="dcgm-x", Hostname="dcgm-x", node="gpu002"),
    ]  # fmt: skip
    tables, history = read(write(tmp_path, up_json=answer(*series)))
    assert (sorted(history.nodes), spans(history)) == (["gpu001", "gpu002"], [("gpu001", 1 / 3, 5 / 6)])
    assert not [text for text in tables.findings if "only by an address" in text]
    unclear = [up("node", "10.0.0.3:9100", UP), xid("gpu003", "10.0.0.3:9400"), xid("gpu004", "10.0.0.3:9401")]
    tables, history = read(write(tmp_path, up_json=answer(*unclear)))
    assert sorted(history.nodes) == ["10.0.0.3", "gpu003", "gpu004"]
    assert [text for text in tables.findings if "1 node of 3 is known only by an address" in text]


@cases(
    ("labels", "node"),
    [
        ({"Hostname": "dcgm-exporter-x1", "node": "gpu002"}, "gpu002"),
        ({"Hostname": "nvidia-smi-x7kq9", "exported_node": "gpu009", "node": "control"}, "gpu009"),
        ({"Hostname": "gpu-a100-00001", "node": "production"}, "gpu-a100-00001"),
        ({"Hostname": "collector", "kubernetes_node": "gpu002"}, "gpu002"),
        ({"Hostname": "gpu002", "node": "production"}, "gpu002"),
        ({"Hostname": "collector", "node": "gpu002.corp"}, "gpu002"),
        ({"instance": "https://gpu004.corp:9400/metrics"}, "gpu004.corp"), ({"instance": "fd00::2"}, "fd00::2"),
    ],
)  # fmt: skip
def test_labels_that_name_the_node(labels: dict[str, str], node: str, tmp_path: Path) -> None:
    """Of several labels the node is that which other series name, and otherwise one that is no pod."""
    series = {"__name__": "DCGM_FI_DEV_XID_ERRORS", "gpu": "0", "instance": "10.0.0.9:9400", **labels}
    files = write(tmp_path, up_json=answer(up("node", "gpu002:9100", UP), (series, "0 0 79 79 79 79 79 79")))
    _, history = read(files)
    assert sorted(history.nodes) == sorted({"gpu002", node})
    assert [event.node for event in history.outages] == [node]


@cases(
    ("option", "nodes", "text"),
    [
        ({}, 3, ""), ({"nodes": 3}, 3, ""), ({"nodes": 5}, 3, "2 nodes have no time series"),
        ({"inventory": "node,gpus\nn[1-12],8\n"}, 3, "has 12 nodes: the logs name 3 of them and 0 others"),
    ],
)  # fmt: skip
def test_nodes_that_never_failed(option: dict[str, Any], nodes: int, text: str, tmp_path: Path) -> None:
    """A node with time series counts while it was sampled, however many nodes are stated."""
    more = {**option, **({"inventory": write(tmp_path, i_csv=option["inventory"])[0]} if "inventory" in option else {})}
    series = [up("node", f"n{at}:9100", DOWN if at == 1 else UP) for at in (1, 2, 3)]
    tables, history = read(write(tmp_path, up_json=answer(*series)), **more)
    assert len(history.nodes) == nodes
    assert history.in_service == pytest.approx(3 * (7 * 600 + 1), abs=2)
    assert not text or [finding for finding in tables.findings if text in finding]


def test_metrics_without_their_name(tmp_path: Path) -> None:
    """A series that lost the name of its metric says so."""
    with pytest.raises(LogError, match="the name of the metric was aggregated away"):
        read(write(tmp_path, up_json=answer(({"job": "node", "instance": "n1:9100"}, UP))))


FULL = "gpu001.corp.example.com"


@cases("stated", ["gpu001", FULL, "GPU001"])
def test_short_and_full_names(stated: str, tmp_path: Path) -> None:
    """A short name and the only full one that begins with it are one node, named as the inventory does."""
    events = f"node,start,end\n{FULL},{utc(START)},{utc(START + HOUR)}\n"
    jobs = (
        "JobIDRaw|State|Start|End|ElapsedRaw|NodeList|NNodes\n"
        f"7|NODE_FAIL|{utc(START - HOUR)}|{utc(START)}|3600|gpu[001-002]|2\n"
    )
    files = write(tmp_path, out_csv=events, jobs_txt=jobs)
    (inventory,) = write(tmp_path, nodes_csv=f"node,gpus\n{stated},8\ngpu002,8\n")
    request = FitOptions(files, inventory, zones=["UTC"])
    tables, reading = pipeline.read(request)
    history = pipeline.history_of(request, tables, reading)
    assert (history.nodes, spans(history)) == ([stated, "gpu002"], [(stated, 0, 1)])
    assert sorted(reading.hosts.expand(tables.attempts[0].nodes)) == sorted([stated, "gpu002"])
    assert any("joined" in text for text in tables.findings)
    assert any("has 2 nodes: the logs name 2 of them and 0 others" in text for text in tables.findings)


def test_short_names_of_several_hosts(tmp_path: Path) -> None:
    """A short name that may be two hosts is neither, and is reported; two full names alone are two hosts."""
    hosts = ["a1.x.org", "a1.y.org", "a1", "b2.x.org", "b2.y.org"]
    rows = [f"{host},{utc(START + HOUR * at)},{utc(START + HOUR * at + 60)}" for at, host in enumerate(hosts)]
    tables, history = read(write(tmp_path, out_csv="\n".join(["node,start,end", *rows])), nodes=5)
    assert sorted(history.nodes) == sorted(hosts)
    assert [text for text in tables.findings if text.startswith("1 short name of hosts may stand for one of several")]


def test_hashes_of_names_agree() -> None:
    """A host has one hash by its short and its full name, in any log; two hosts of one short name have two."""
    key = b"k" * 16
    hashes = {Pseudonymizer(key).name("node", name) for name in ("gpu001", FULL, "GPU001")}
    assert len(hashes) == 1
    assert Pseudonymizer(key).name("user", "a.b") != Pseudonymizer(key).name("user", "a")
    hider = Pseudonymizer(key)
    hider.several = frozenset(("gpu001",))
    assert hider.name("node", FULL) != hider.name("node", "gpu001.other.org")
    assert Pseudonymizer(key).name("node", "10.0.0.1") != Pseudonymizer(key).name("node", "10.0.0.2")
    assert hider.text(f"fault of {FULL} there") == f"fault of {hider.name('node', FULL)} there"


# Slurm: words of states, and lines of the controller.


RECORDS = "JobIDRaw|State|Start|End|{limit}|NodeList|NNodes|AllocTRES"


@cases(
    ("word", "state"),
    [
        ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("CANCELLED by 1001", "CANCELLED"), ("CANCELLED+", "CANCELLED"),
        ("NODE_FAIL+", "NODE_FAIL"), ("node_fail", "NODE_FAIL"), ("BOOT_FA+", "BOOT_FAIL"), ("RE+", ""), ("R+", ""),
        ("OUT_OF_ME", ""), ("EVICTED", ""),
    ],
)  # fmt: skip
def test_words_of_ended_jobs(word: str, state: str, tmp_path: Path) -> None:
    """A word that was cut is the one that begins so; one that no rule has, or may be several, is shown and left out."""
    rows = (
        f"{job}|{text}|{utc(START)}|{utc(START + 60)}|30|a|1|gres/gpu=8" for job, text in enumerate(("COMPLETED", word))
    )
    text = "\n".join([RECORDS.format(limit="TimelimitRaw"), *rows])
    tables, _ = pipeline.read(FitOptions(write(tmp_path, jobs_txt=text)))
    assert [attempt.end_state for attempt in tables.attempts] == ["COMPLETED", *([state] if state else [])]
    assert [row.rule for row in tables.dropped] == ([] if state else [f"an unknown state: {word}"])


@cases(
    ("column", "limit", "seconds"),
    [
        ("TimelimitRaw", "30", 1800.0), ("Timelimit", "00:30:00", 1800.0), ("Timelimit", "2-00:00:00", 172800.0),
        ("Timelimit", "UNLIMITED", -1.0), ("TimelimitRaw", "", -1.0), ("Timelimit", "Partition_Limit", -1.0),
        ("Timelimit", "soon", -2.0),
    ],
)  # fmt: skip
def test_limits_in_either_form(column: str, limit: str, seconds: float, tmp_path: Path) -> None:
    """A limit is minutes or a duration, by what it looks like; another one is shown."""
    text = f"{RECORDS.format(limit=column)}\n1|COMPLETED|{utc(START)}|{utc(START + 60)}|{limit}|a|1|gres/gpu=8\n"
    tables, _ = pipeline.read(FitOptions(write(tmp_path, jobs_txt=text)))
    (attempt,) = tables.attempts
    assert attempt.limit == seconds or (seconds < 0 and attempt.limit != attempt.limit)
    assert any("limit that is none" in text for text in tables.findings) is (seconds == -2)


@cases(
    ("tres", "gpus", "has_slices"),
    [
        ("billing=1,gres/gpu:1g.10gb=2,gres/gpu=2,gres/shard=4", 0, True), ("gres/gpu=8,gres/gpu:h100=8", 8, False),
        ("gres/gpu=5,gres/gpu:a100_3g.20gb=1,gres/gpu:a100=4", 4, True), ("gpu:1g.10gb:7,gpu:h100:7", 7, True),
        ("gpu:8", 8, False), ("cpu=4,node=2", 0, False),
    ],
)  # fmt: skip
def test_slices_of_gpus(tres: str, gpus: int, has_slices: bool, tmp_path: Path) -> None:
    """Slices of GPUs are no GPUs: in records of jobs, which say so, and in inventories."""
    text = f"{RECORDS.format(limit='Timelimit')}\n1|COMPLETED|{utc(START)}|{utc(START + 60)}||a|1|{tres}\n"
    (inventory,) = write(tmp_path, nodes_csv=f'node,gres\na,"{tres}"\n')
    tables, _ = pipeline.read(FitOptions(write(tmp_path, jobs_txt=text), inventory))
    assert (tables.attempts[0].gpus, tables.exposure[0].gpus) == (gpus, gpus)
    assert any("slices of GPUs" in finding for finding in tables.findings) is has_slices


@cases("form", ["raw", "named", "json"])
def test_components_of_one_job(form: str, tmp_path: Path) -> None:
    """Components of a heterogeneous job are one job with the nodes and GPUs of all, which ends as its worst one."""
    rows = [("200", 0, "COMPLETED", 0), ("201", 1, "NODE_FAIL", 0), ("200", 0, "COMPLETED", 9), ("201", 1, "FAILED", 9)]
    if form == "json":
        jobs = [
            {
                "job_id": int(raw), "het": {"job_id": 200, "job_offset": {"set": True, "number": at}},
                "nodes": f"n{at}", "allocation_nodes": 1, "restart_cnt": round(hour / 9), "state": {"current": [state]},
                "time": {name: START + HOUR * (hour + (name == "end")) for name in ("submission", "start", "end")},
                "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 8}]},
            }
            for raw, at, state, hour in rows
        ]  # fmt: skip
        text = json.dumps({"jobs": jobs})
    else:
        head = "JobIDRaw|JobID|State|Submit|Start|End|NNodes|AllocTRES|NodeList|Restarts"
        cells = (
            f"{raw if form == 'raw' else ''}|200+{at}|{state}|{utc(START + HOUR * hour)}|{utc(START + HOUR * hour)}|"
            f"{utc(START + HOUR * (hour + 1))}|1|gres/gpu=8|n{at}|{round(hour / 9)}"
            for raw, at, state, hour in (*rows, rows[-1])
        )
        text = "\n".join([head, *cells])
    tables, _ = pipeline.read(FitOptions(write(tmp_path, jobs_txt=text)))
    assert [(a.job, a.attempt, a.nodes, a.node_count, a.gpus, a.end_state) for a in tables.attempts] == [
        ("200", 0, "n0,n1", 2, 16, "NODE_FAIL"), ("200", 1, "n0,n1", 2, 16, "FAILED"),
    ]  # fmt: skip


@cases(
    ("state", "is_planned", "is_shown"),
    [
        ("DOWN*", False, False), ("DRAIN$", True, False), ("DOWN+DRAIN", False, False), ("drng", False, False),
        ("MAINT*+DRAIN", True, False), ("IDLE+PLANNED", True, False), ("IDLE", False, True), ("BROKEN?", False, True),
        ("FUTURE", True, False), ("REBOOT^", True, False),
    ],
)  # fmt: skip
def test_words_of_node_states(state: str, is_planned: bool, is_shown: bool, tmp_path: Path) -> None:
    """Signs behind a state mean nothing; a row whose state is none of a node that is out is read, and shown."""
    reason = "planned work" if state == "DRAIN$" else 'a | of 5.25" | and more'
    rows = f"c|n[1-2]|{utc(START)}|{utc(START + HOUR)}|{state}|{reason}|root(0)|\n"
    header = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User|\n"
    tables, _ = pipeline.read(FitOptions(write(tmp_path, events_txt=header + rows)))
    assert [(e.node, e.planned, e.text) for e in tables.events] == [(n, is_planned, reason) for n in ("n1", "n2")]
    assert any("none of a node out of service" in text for text in tables.findings) is is_shown


@cases(
    ("reason", "is_planned"),
    [
        ("scheduled maintenance", True), ("OS reimage", True), ("Nvidia driver update 570", True),
        ("GPU firmware update", True), ("BIOS update + DIMM check", True), ("nvme fw patching", True),
        ("RMA GPU3 return, burn-in", True), ("kernel upgrade", True), ("security patches", True),
        ("vbios flash", True), ("flash new fw", True), ("fw reflash of HCA", True), ("updating OFED", True),
        ("switch upgrade failed, leaf 3 dead", False), ("cable inspection, not scheduled maintenance", False),
        ("cpu upgrade unplanned", False), ("unplanned maintenance", False), ("emergency maint", False),
        ("Xid 79, fw update", False), ("patch panel port 3", False), ("waiting for update of vendor", False),
        ("vendor BIOS update", True), ("BIOS mismatch", False), ("burn-in failed", False),
        ("RMA GPU3", False), ("update ticket 7", False),
    ],
)  # fmt: skip
def test_reasons_of_planned_work(reason: str, is_planned: bool, tmp_path: Path) -> None:
    """A change of software or firmware is planned, unless a fault is named beside it or the plan is denied."""
    rows = f"NodeName|TimeStart|TimeEnd|State|Reason\nn1|{utc(START)}|{utc(START + HOUR)}|DRAIN|{reason}\n"
    tables, _ = pipeline.read(FitOptions(write(tmp_path, events_txt=rows)))
    assert [event.planned for event in tables.events] == [is_planned]


def test_lines_of_the_controller(tmp_path: Path) -> None:
    """A node that registers with less than it should is out; a fault that no rule knows is shown without its node."""
    day = "[2025-01-06T"
    text = f"""{day}01:00:00.000] error: Setting node gpu001 state to INVAL with reason:gres/gpu count too low (7 < 8)
{day}01:00:00.001] drain_nodes: node gpu001 state set to DRAIN
{day}01:00:00.002] error: _slurm_rpc_node_registration node=gpu001: Invalid argument
{day}02:00:00.000] error: Nodes gpu[002-003] not responding
{day}03:00:00.000] Node gpu001 returned to service
{day}04:00:00.000] error: Node gpu002 has low real_memory size (500000 < 515000)
{day}04:10:00.000] error: Node gpu003 has low real_memory size (500000 < 515000)
{day}05:00:00.000] update_node: node gpu003 state set to HALF_BROKEN
{day}06:00:00.000] update_node: node gpu003 state set to DRAINED*
{day}07:00:00.000] update_node: node gpu003 state set to IDLE
{day}07:30:00.000] error: slurmd error running JobId=5 on node(s)=gpu002: Kill task failed
{day}07:30:00.001] drain_nodes: node gpu002 state set to DRAIN
{day}07:40:00.000] update_node: node gpu002 state set to RESUME
{day}08:00:00.000] sched: Allocate JobId=120 NodeList=gpu001 #CPUs=96 Partition=batch
"""
    tables, history = read(write(tmp_path, slurmctld_log=text), nodes=3)
    assert [row[0] for row in spans(history)] == ["gpu001", "gpu003", "gpu002"]
    assert spans(history)[:2] == [("gpu001", 1, 3), ("gpu003", 6, 7)]
    assert [outage.cause for outage in history.outages] == ["gpu_off_bus", "unknown", "kill_task"]
    unread = [(row.rule.partition(": ")[2], row.number) for row in tables.dropped if row.sort == "unread"]
    assert unread == [
        ("error: Node NODE has low real_memory size (# < #)", 2),
        ("update_node: node NODE state set to HALF_BROKEN", 1),
    ]


# Logs that contradict each other, or themselves.


def outages(*rows: tuple[str, float, float | str]) -> str:
    """Return a table of outages: node, start and end [h since the beginning], or text as it is."""
    cells = (f"{node},{utc(START + HOUR * at)},{end if isinstance(end, str) else utc(START + HOUR * end)}"
             for node, at, end in rows)  # fmt: skip
    return "\n".join(["node,start,end", *cells]) + "\n"


def records(*rows: tuple[str, float, float]) -> str:
    """Return job records: nodes, start and end [h since the beginning]."""
    cells = (
        f"{job}|COMPLETED|{utc(START + HOUR * at)}|{utc(START + HOUR * end)}|{round(HOUR * (end - at))}|{nodes}|1"
        for job, (nodes, at, end) in enumerate(rows, 1)
    )
    return "\n".join(["JobIDRaw|State|Start|End|ElapsedRaw|NodeList|NNodes", *cells]) + "\n"


def controller(*rows: tuple[float, str]) -> str:
    """Return a log of slurmctld: moments [h since the beginning] and lines."""
    return "".join(f"[{utc(START + HOUR * at)}] {text}\n" for at, text in rows)


DOWN_AGAIN = "error: Nodes n1 not responding, setting DOWN"


def test_returns_that_a_rotated_log_lacks(tmp_path: Path) -> None:
    """A job that starts on a node ends its outage; the next one is another, and the count is said."""
    log = controller((1, DOWN_AGAIN), (90, DOWN_AGAIN), (92, "Node n1 returned to service"),
                     (200, DOWN_AGAIN), (300, "error: Nodes n2 not responding, setting DOWN"))  # fmt: skip
    jobs = records(("n[1-2]", -5, 1), ("n1", 3, 80), ("n[1,3]", 210, 220), ("n1", 230, 240), ("n3", 310, 311))
    files = write(tmp_path, slurmctld_log=log, sacct_txt=jobs)
    tables, history = read(files)
    ends = [(e.node, (e.t - START) / HOUR, (history.until(e) - START) / HOUR) for e in history.outages]
    assert ends[:3] == [("n1", 1, 3), ("n1", 90, 92), ("n1", 200, 210)]
    assert [e.node for e in history.outages if e.t_end != e.t_end] == ["n2"], "nothing ran there again"
    assert [text for text in tables.findings if "2 outages without a return in the log end with the next job" in text]
    tables, history = read(write(tmp_path, slurmctld_log=log), nodes=3)
    assert spans(history)[0] == ("n1", 1, 92), "nothing else says when it returned"
    assert [text for text in tables.findings if "1 lines take a node down that was down for more than a day" in text]
    line = "backfill: Started JobId=7 in p on n[1,3]"
    (path,) = write(tmp_path, slurmctld_log=controller((1, DOWN_AGAIN), (3, line), (90, DOWN_AGAIN), (95, line)))
    _, history = read([path], nodes=3)
    assert spans(history) == [("n1", 1, 3), ("n1", 90, 95)], "the log itself says when jobs start"
    (inventory,) = write(tmp_path, nodes_csv="node\nn1.x.org\nn2.x.org\n")
    _, history = read([path], inventory=inventory)
    assert spans(history) == [("n1.x.org", 1, 3), ("n1.x.org", 90, 95)]
    again = controller((1, DOWN_AGAIN), (3, line), (9, "Node n1 returned to service"))
    tables, _ = read(write(tmp_path, slurmctld_log=again), nodes=3)
    assert [text for text in tables.findings if "of these 1 have a return later" in text]


def test_ends_that_jobs_deny(tmp_path: Path) -> None:
    """An open row ends with the next job on its node; a job inside an outage that has an end is said."""
    files = write(
        tmp_path, out_csv=outages(("n1", 1, ""), ("n2", 2, 9), ("n3", 3, 4), ("n4", 5, "")),
        sacct_txt=records(("n[1-4]", -2, 1), ("n1", 30, 31), ("n2", 5, 6), ("n3", 4, 5)),
    )  # fmt: skip
    tables, history = read(files)
    assert spans(history)[:3] == [("n1", 1, 30), ("n2", 2, 9), ("n3", 3, 4)]
    assert [e.node for e in history.outages if e.t_end != e.t_end] == ["n4"]
    assert [text for text in tables.findings if "1 outage without an end last until the next job" in text]
    assert [text for text in tables.findings if "in 1 outage of 4 a job started on the node before its end" in text]


def test_ends_of_two_sources(tmp_path: Path) -> None:
    """An end that one source states ends what another leaves open; of ends that differ the later one counts."""
    events = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n" + "".join(
        f"c|{node}|{utc(START + HOUR * at)}|{utc(START + HOUR * end)}|DOWN|x|r\n"
        for node, at, end in (("n1", 1, 3), ("n2", 1, 3), ("n3", 1, 3))
    )
    log = controller((1.01, DOWN_AGAIN), (1.01, DOWN_AGAIN.replace("n1", "n2")), (5, "Node n2 returned to service"))
    tables, history = read(write(tmp_path, events_txt=events, slurmctld_log=log), nodes=3)
    assert spans(history) == [("n1", 1, 3), ("n2", 1, 5), ("n3", 1, 3)]
    assert [text for text in tables.findings if "1 outage have ends in two sources that differ" in text]


def test_samples_in_another_unit(tmp_path: Path) -> None:
    """Samples in milliseconds are of no year, and are left out; the other series count."""
    series = json.loads(answer(up("node", "n1:9100", DOWN), up("node", "n2:9100", DOWN)))
    for sample in series["data"]["result"][1]["values"]:
        sample[0] *= 1000
    tables, history = read(write(tmp_path, up_json=json.dumps(series)))
    assert history.nodes == ["n1"]
    assert "moments lie before 1990 or after 2100" in tables.findings[0]


@cases("wrong", ["2126-03-01T00:00:00Z", "1970-01-01T00:00:13Z", "2014-02-01T00:00:00Z"])
def test_a_year_that_is_none(wrong: str, tmp_path: Path) -> None:
    """A moment of another century, or years from all others of its file, is left out, and said first."""
    good = outages(*((f"n{at % 4}", 30 * at, 30 * at + 5) for at in range(40)))
    table = f"{good}n1,{wrong},{wrong.replace('00:00:', '01:00:')}\n"
    tables, history = read(write(tmp_path, out_csv=table), nodes=4)
    _, without = read(write(tmp_path, good_csv=good), nodes=4)
    assert (history.start, history.end, spans(history)) == (without.start, without.end, spans(without))
    assert "line 42" in tables.findings[0]
    assert sum(row.number for row in tables.dropped) == 1
    log = controller(*((30 * at, f"{DOWN_AGAIN}") for at in range(40)))
    (path,) = write(tmp_path, slurmctld_log=f"[{wrong}] {DOWN_AGAIN}\n{log}")
    tables, history = read([path], nodes=4)
    assert history.start == START
    assert "line 1:" in tables.findings[0]


def test_rare_failures_are_no_mistakes(tmp_path: Path) -> None:
    """Rows years apart that chance brings there stay."""
    rare = [("n1", 24 * 365 * at, 24 * 365 * at + 5.0) for at in (-9.0, -7.5, -3.0, -1.5, 0.0)]
    tables, history = read(write(tmp_path, out_csv=outages(*rare)), nodes=4)
    assert len(history.outages) == 5
    assert not tables.dropped


def test_ends_that_are_expected(tmp_path: Path) -> None:
    """An end within a year from now is a plan: the outage lasts; a node may leave the inventory years from now."""
    soon, late = (utc(time.time() + 86400 * days) for days in (30, 900))
    files = write(tmp_path, out_csv=outages(("n1", 1, soon), ("n2", 2, late), ("n3", 3, 4)))
    (inventory,) = write(tmp_path, nodes_csv=f"node,out_of_service\nn1,{late}\nn2,\nn3,\n")
    tables, history = read(files, inventory=inventory)
    assert [(e.node, e.t_end != e.t_end) for e in history.outages] == [("n1", True), ("n3", False)]
    assert "1 row dated after today, or years from all others" in tables.findings[0]


def test_times_that_were_moved(tmp_path: Path) -> None:
    """A file most of which lies after today was moved, as --anonymise does, or simulated: said, and read as it is."""
    hours = (time.time() - START) / HOUR + 9000
    rows = [(f"n{at % 4}", hours + 30 * at, hours + 30 * at + 5) for at in range(40)]
    tables, history = read(write(tmp_path, out_csv=outages(*rows)), nodes=4)
    assert len(history.outages) == 40
    assert "most rows lie after today" in tables.findings[0]


def test_jobs_that_may_start_next_year(tmp_path: Path) -> None:
    """A job that waits for a moment to come is no mistake."""
    later = utc(time.time() + 86400 * 200)
    text = f"JobIDRaw|State|Submit|Eligible|Start|End\n1|PENDING|{utc(START)}|{later}|Unknown|Unknown\n"
    tables, _ = pipeline.read(FitOptions(write(tmp_path, jobs_txt=text)))
    assert len(tables.attempts) == 1
    assert not tables.findings


def test_years_that_do_not_meet(tmp_path: Path) -> None:
    """Kinds of logs of different years are refused; files of one kind are told what lies between them."""
    early = outages(*(("n1", 30.0 * at, 30.0 * at + 5) for at in range(9)))
    late = records(*(("n1", at - 20000.0, at - 19999.5) for at in range(9)))
    with pytest.raises(LogError, match="of different years cannot be combined"):
        read(write(tmp_path, out_csv=early, sacct_txt=late))
    later = outages(*(("n2", 30 * at - 12000.0, 30 * at - 11995.0) for at in range(9)))
    tables, _ = read(write(tmp_path, a_csv=early, b_csv=later), nodes=3)
    assert "--without" in tables.findings[0]


# Kubernetes: faults of devices as agents of clouds call them.


def event(reason: str, at: float, message: str = "", kind: str = "Warning", node: str = "n1") -> dict[str, Any]:
    """Return an event of a node, at a moment [h since the beginning]."""
    about = {"kind": "Node", "name": node}
    moment = utc(START + HOUR * at)
    return {"reason": reason, "message": message, "type": kind, "firstTimestamp": moment, "involvedObject": about}


@cases(
    ("reason", "message", "basis", "severity"),
    [
        ("NvidiaXID79Error", "", "gpu_off_bus: xid 79", "fatal"),  # EKS
        ("NvidiaXID63Error", "", "gpu_memory: xid 63", "info"),
        ("NvidiaXID31Warning", "", "", ""),
        ("NvidiaDoubleBitError", "", "gpu_memory: NvidiaDoubleBitError", "fatal"),
        ("NvidiaDeviceCountMismatch", "7 of 8", "gpu_off_bus: NvidiaDeviceCountMismatch", "fatal"),
        ("NvidiaNVLinkError", "", "nvlink: NvidiaNVLinkError", "fatal"),
        ("DCGMHealthCode12", "", "gpu_other: DCGMHealthCode12", "fatal"),
        ("GPUMissing", "expected 8, found 7", "gpu_off_bus: GPUMissing", "fatal"),  # AKS
        ("NVLinkStatusInactive", "", "nvlink: NVLinkStatusInactive", "fatal"),
        ("XIDErrorsDetected", "XID errors found: 119", "gpu_firmware: xid 119", "fatal"),
        ("IBLinkFlapping", "", "nic: IBLinkFlapping", "fatal"),
        ("XidCriticalError", "NVRM: Xid (PCI:0000:04:00): 48, DBE", "gpu_memory: xid 48", "fatal"),  # GKE
        ("SysLogsXIDErrorIsNotHealthy", "ErrorCode:79 PCI:0000:9b:00 XID 79", "gpu_off_bus: xid 79", "fatal"),
        ("GpuThermalWatchIsNotHealthy", "", "cooling: GpuThermalWatchIsNotHealthy", "fatal"),  # NVSentinel
    ],
)  # fmt: skip
def test_faults_of_devices_in_events(reason: str, message: str, basis: str, severity: str, tmp_path: Path) -> None:
    """A reason that a rule knows is a fault, an XID in its text names the cause, and one that is over is none."""
    rows = [
        event("NodeNotReady", 1),
        event("NodeReady", 2),
        event(reason, 0.95, message),
        event(reason, 5, message, "Normal"),
    ]
    tables, history = read(write(tmp_path, events_json=json.dumps({"items": rows})), nodes=2)
    faults = [(f"{fault.cause}: {fault.cause_basis}", fault.severity) for fault in history.faults]
    assert faults == ([(basis, severity)] if basis else [])
    assert [e.cause for e in history.outages] == [basis.partition(":")[0] or "not_responding"]
    assert any(row.rule == "codes that programs cause" for row in tables.dropped) is not bool(basis)


def test_reasons_that_no_rule_knows(tmp_path: Path) -> None:
    """A reason that names a device or a fault is shown with its count; what kubelet says every day is not."""
    rows = [event("GPUTurnedBlue", at, f"GPU 3 of n1 is at {at}") for at in range(3)]
    rows += [event("ImageGCFailed", 1, "failed"), event("NoGPUMissing", 1, "GPU count is as expected", "Normal")]
    rows += [event("NodeNotReady", 1), event("NodeReady", 2)]
    tables, _ = read(write(tmp_path, events_json="\n".join(map(json.dumps, rows))), nodes=2)
    unread = [(row.rule, row.number) for row in tables.dropped if row.sort == "unread"]
    assert unread == [("a fault that no rule reads: an event of a node, GPUTurnedBlue", 3)]


@cases(
    ("condition", "status", "reason", "cause"),
    [
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error", "gpu_off_bus"),
        ("AcceleratedHardwareReady", "False", "NvidiaPageRetirement", "gpu_memory"),
        ("AcceleratedHardwareReady", "True", "NvidiaAcceleratedHardwareIsReady", ""),
        ("GPUMissing", "True", "GPUMissing", "gpu_off_bus"), ("GPUMissing", "False", "NoGPUMissing", ""),
        ("IBLinkFlapping", "True", "IBLinkFlapping", "nic"),
        ("GpuMemWatch", "True", "GpuMemWatchIsNotHealthy", "gpu_memory"),
        ("NvmeHealthy", "False", "NvmeFailed", "shown"), ("MemoryPressure", "True", "KubeletHasInsufficientMemory", ""),
    ],
)  # fmt: skip
def test_faults_of_devices_in_conditions(condition: str, status: str, reason: str, cause: str, tmp_path: Path) -> None:
    """A condition is bad with the status that its rule says, and the reason names the cause; an unknown is shown.

    A node whose creation is not stated counts from the first snapshot.
    """

    def node(at: float, *more: dict[str, str]) -> dict[str, Any]:
        ready = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": utc(START),
            "lastHeartbeatTime": utc(START + HOUR * at),
        }
        status = {"conditions": [ready, *more], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
        return {"kind": "Node", "metadata": {"name": "n1"}, "status": status}

    bad = {"type": condition, "status": status, "reason": reason, "lastTransitionTime": utc(START + 1.5 * HOUR)}
    text = "\n".join(json.dumps({"kind": "NodeList", "items": [row]}) for row in (node(1), node(2, bad)))
    tables, _ = pipeline.read(FitOptions(write(tmp_path, nodes_json=text)))
    assert [(e.cause, e.t) for e in tables.events] == (
        [(cause, START + 1.5 * HOUR)] if cause not in ("", "shown") else []
    )
    unread = [row.rule for row in tables.dropped if row.sort == "unread"]
    assert unread == ([f"a fault that no rule reads: a condition of a node, {condition}"] if cause == "shown" else [])
