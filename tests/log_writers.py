"""Writers of logs for tests: the outages of a cluster in each format that `ettrick fit` reads."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from ettrick import sim
from ettrick.analysis.logs import pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.logs.events import History
    from ettrick.analysis.logs.pipeline import FitOptions
    from ettrick.analysis.logs.tables import Tables

START = datetime(2025, 1, 6, tzinfo=UTC).timestamp()

CODES = {"gpu_memory": 48, "gpu_off_bus": 79, "gpu_firmware": 119, "nvlink": 74}

REASONS = {
    "gpu_memory": "GPU3 uncorrectable ECC XID48",
    "gpu_off_bus": "XID79 GPU1 fallen off the bus",
    "gpu_firmware": "GSP timeout GPU2 xid 119",
    "nvlink": "NVLink error GPU0 XID74",
    "nic": "IB link down mlx5_4",
    "not_responding": "Not responding",
}


def read_logs(request: FitOptions) -> tuple[Tables, History]:
    """Return the tables and the history of the files of a request."""
    tables, reading = pipeline.read(request)
    return tables, pipeline.history_of(request, tables, reading)


class Fault(NamedTuple):
    """An outage: node, start and end [s since 1970], NaN while it lasts, and its cause."""

    node: str
    start: float
    end: float
    cause: str


def name(number: int) -> str:
    """Return the name of a node."""
    return f"gpu{number:03}"


def drawn(
    seed: int,
    nodes: int = 64,
    days: float = 180.0,
    rates: dict[str, float] | None = None,
    relapse: tuple[float, float, float] = (0.0, 1.0, 1.0),
    cv2: float = 0.0,
    repair: tuple[float, float] = (2.0, 1.0),
) -> list[Fault]:
    """Draw outages, written without Ettrick: background rates per 1000 node-days up, relapse, frailty, repair [h]."""
    generator = np.random.default_rng(seed)
    rates = rates or {"gpu_memory": 4.0, "nic": 2.0, "not_responding": 4.0}
    total = sum(rates.values()) / 1000
    probability, median, sigma = relapse
    found = []
    for node in range(nodes):
        ratio = generator.gamma(1 / cv2) * cv2 if cv2 else 1.0
        now, last = 0.0, ""
        while True:
            life = generator.exponential(1 / (total * ratio))
            cause = str(generator.choice(list(rates), p=np.array(list(rates.values())) / sum(rates.values())))
            if last and generator.random() < probability:
                again = median * math.exp(sigma * generator.standard_normal())
                life, cause = (again, last) if again < life else (life, cause)
            now += life
            if now >= days:
                break
            away = repair[0] / 24 * math.exp(repair[1] * generator.standard_normal())
            end = now + away
            found.append(Fault(name(node), _at(now), _at(end) if end < days else math.nan, cause))
            now, last = end, cause
            if now >= days:
                break
    return sorted(found, key=lambda fault: fault.start)


def _at(day: float) -> float:
    """Return a moment to the second, as Slurm writes it."""
    return float(round(START + day * 86400))


def local(moment: float, zone: str = "UTC") -> str:
    """Return a moment as local text without an offset."""
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).replace(tzinfo=None).isoformat()


def inventory(nodes: int, racks: int = 8, zone: str = "UTC") -> str:
    """Return the inventory of a cluster that is complete from the start."""
    rows = [f"{name(at)},8,r{at // racks:02},{local(START, zone)}," for at in range(nodes)]
    return "\n".join(["node,gpus,rack,in_service,out_of_service", *rows]) + "\n"


def node_events(faults: Sequence[Fault], zone: str = "UTC") -> str:
    """Return what ``sacctmgr -P list event`` writes."""
    rows = [
        f"c1|{f.node}|{local(f.start, zone)}|{'Unknown' if math.isnan(f.end) else local(f.end, zone)}|"
        f"{'DOWN*' if f.cause == 'not_responding' else 'DRAIN'}|{REASONS[f.cause]}|root(0)"
        for f in faults
    ]
    return "\n".join(["Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User", *rows]) + "\n"


def outages(faults: Sequence[Fault]) -> str:
    """Return a CSV of outages with days since the origin, as InfiniteHBD's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["node_id", "start", "end", "class"])
    for fault in faults:
        writer.writerow([fault.node, fault.start, "" if math.isnan(fault.end) else fault.end, fault.cause])
    return text.getvalue()


def simulated_jobs(
    nodes: int, days: float, streams: Mapping[str, tuple[int, float, float, float]], scheduler: dict[str, Any],
    seed: int,
) -> list[dict[str, object]]:  # fmt: skip
    """Return the jobs of a simulated cluster without failures of nodes, of which a tenth fails, for `sacct`.

    A stream has GPUs of a job, submissions a day, and median [min] and sigma of the work.
    """
    entries = [
        {
            "name": stream, "arrivals": {"rate": f"{rate} per day"}, "gpus": gpus, "restart": "0 s",
            "work": {"use": "lognormal", "median": f"{median} min", "sigma": sigma}, "limit": {"factor": 2},
            "outcome": {"completed": 0.9, "failed": 0.1}, "checkpoint": {"save": "0 s"},
        }
        for stream, (gpus, rate, median, sigma) in streams.items()
    ]  # fmt: skip
    content = {
        "name": "truth", "cluster": {"nodes": nodes, "gpus_per_node": 8}, "horizon": f"{days} d", "streams": entries,
        "scheduler": scheduler, "failures": [], "detection": {"time": "0 s"}, "repair": {"time": "1 d"}, "seed": seed,
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "1 s", "restore": "1 s"}]},
        "recovery": {"use": "full-restart", "initialize": "0 s"},
    }  # fmt: skip
    attempts = sim.run(sim.prepare(sim.parse(content)), 0, keeps_log=True).attempts
    states = {"completed": "COMPLETED", "failed": "FAILED", "timeout": "TIMEOUT"}
    return [
        {
            "id": number, "user": "u1", "partition": "main", "state": states[attempt.state], "gpus": attempt.gpus,
            "count": attempt.gpus // 8, "nodes": "", "submit": START + attempt.submit, "start": START + attempt.start,
            "end": START + attempt.end, "limit": math.ceil(2 * (attempt.end - attempt.start) / 60),
        }
        for number, attempt in enumerate(attempts)
        if attempt.state in states
    ]  # fmt: skip


def sacct(jobs: Sequence[dict[str, object]], zone: str = "UTC", delimiter: str = "|") -> str:
    """Return what ``sacct -D -P`` writes of jobs: id, state, start, end, nodes, gpus, and what else is stated."""
    head = (
        "JobIDRaw JobID User Partition State Submit Start End ElapsedRaw NNodes AllocTRES NodeList Restarts FailedNode "
        "TimelimitRaw"
    )
    rows = [head.replace(" ", delimiter)]
    for job in jobs:
        start, end = (float(job[key]) for key in ("start", "end"))  # type: ignore[arg-type]
        cells = [
            job["id"], job["id"], job.get("user", "u1"), "main", job["state"],
            local(float(job.get("submit", start - 60)), zone),  # type: ignore[arg-type]
            local(start, zone),
            "Unknown" if math.isnan(end) else local(end, zone), 0 if math.isnan(end) else int(end - start),
            job.get("count", 1), f"cpu=8,gres/gpu={job.get('gpus', 8)},gres/gpu:h100={job.get('gpus', 8)},node=1",
            job["nodes"], job.get("restarts", 0), job.get("failed", ""), job.get("limit", ""),
        ]  # fmt: skip
        rows.append(delimiter.join(map(str, cells)))
    return "\n".join(rows) + "\n"


def sacct_json(jobs: Sequence[dict[str, object]]) -> str:
    """Return the same as ``sacct --json``, numbers wrapped."""
    entries = []
    for job in jobs:
        start, end = (float(job[key]) for key in ("start", "end"))  # type: ignore[arg-type]
        until = 0 if math.isnan(end) else int(end)
        entries.append({
            "job_id": job["id"], "user": job.get("user", "u1"), "partition": "main",
            "state": {"current": [job["state"]], "reason": "None"}, "nodes": job["nodes"],
            "allocation_nodes": job.get("count", 1), "failed_node": job.get("failed", ""),
            "restart_cnt": job.get("restarts", 0),
            "time": {
                "submission": int(start) - 60, "eligible": int(start) - 60, "start": int(start), "end": until,
                "elapsed": until - int(start) if until else 0, "limit": {"set": False, "infinite": True, "number": 0},
            },
            "tres": {"allocated": [
                {"type": "gres", "name": "gpu", "count": {"set": True, "number": job.get("gpus", 8)}},
                {"type": "gres", "name": "gpu:h100", "count": job.get("gpus", 8)},
            ]},
        })  # fmt: skip
    return json.dumps({"jobs": entries, "meta": {}})


def xid(fault: Fault, offset: float = -40.0) -> tuple[float, str, str]:
    """Return moment, host and text of a line of the driver for a fault."""
    return fault.start + offset, fault.node, f"NVRM: Xid (PCI:0000:9b:00): {CODES[fault.cause]}, pid='<unknown>', text"


def kernel(lines: Sequence[tuple[float, str, str]], form: str, zone: str = "UTC") -> str:
    """Return lines of a kernel log: ``iso``, ``short-iso`` or ``local`` of one zone, and as others print them.

    Others are ``journald`` and ``docker`` (JSON), ``rfc5424``, ``syslog`` of one zone (without a year), and ``pdsh``,
    which prints what ``dmesg -T`` says on each host.
    """
    rows = []
    for moment, host, text in lines:
        at = datetime.fromtimestamp(moment, UTC)
        clock = at.astimezone(ZoneInfo(zone))
        if form == "docker":
            entry = {
                "log": f"[ 812.5] {text}\n",
                "stream": "stdout",
                "time": f"{at.isoformat()}",
                "host": {"name": host},
            }
            rows.append(json.dumps(entry))
            continue
        if form in ("rfc5424", "syslog", "pdsh"):
            stamp = {
                "rfc5424": f"<4>1 {at.isoformat()} {host} kernel - - - ",
                "syslog": f"{clock:%b} {clock.day:2} {clock:%H:%M:%S} {host} kernel: [  812.501] ",
                "pdsh": f"{host}: [{clock:%a %b} {clock.day:2} {clock:%H:%M:%S %Y}] ",
            }[form]
            rows.append(stamp + text)
            continue
        if form == "journald":
            rows.append(
                json.dumps({"__REALTIME_TIMESTAMP": str(round(moment * 1e6)), "_HOSTNAME": host, "MESSAGE": text})
            )
        elif form == "short-iso":
            rows.append(f"{at.strftime('%Y-%m-%dT%H:%M:%S.%f')}+0000 {host} kernel: {text}")
        elif form == "local":
            rows.append(f"{local(moment, zone)} {host} kernel: {text}")
        else:
            rows.append(f"{at.isoformat(timespec='microseconds')} {host} kernel: {text}")
    return "\n".join(rows) + "\n"


def slurmctld(faults: Sequence[Fault], zone: str = "") -> str:
    """Return what slurmctld logs of the same outages; with a zone, local times without an offset."""

    def stamp(moment: float) -> str:
        return f"[{local(moment, zone)}.000]" if zone else f"[{utc(moment)[:-1]}.000+00:00]"

    rows = []
    for f in faults:
        if f.cause == "not_responding":
            rows.append((f.start, f"error: Nodes {f.node} not responding, setting DOWN"))
            ends = [f"Node {f.node} now responding", f"node {f.node} returned to service"]
        else:
            rows.append((f.start, f"update_node: node {f.node} reason set to: {REASONS[f.cause]}"))
            rows.append((f.start, f"update_node: node {f.node} state set to DRAINED"))
            ends = [f"update_node: node {f.node} state set to IDLE"]
        rows += ((f.end, text) for text in ends if not math.isnan(f.end))
    rows += [(moment + 1, "sched: Allocate JobId=7 NodeList=gpu[000-003] #CPUs=8 Partition=main") for moment, _ in rows]
    return "\n".join(f"{stamp(moment)} {text}" for moment, text in sorted(rows, key=lambda row: row[0])) + "\n"


def utc(moment: float) -> str:
    """Return a moment as Kubernetes writes it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def kubernetes(faults: Sequence[Fault], form: str = "core") -> str:
    """Return events of the same outages: ``core`` in a list, ``events.k8s.io`` one a line, and one of a pod."""
    rows = [(f.start, "NodeNotReady", f.node) for f in faults]
    rows += [(f.end, "NodeReady", f.node) for f in faults if not math.isnan(f.end)]
    items: list[dict[str, object]] = []
    for moment, reason, node in sorted(rows):
        about = {"kind": "Node", "name": node}
        if form == "core":
            items.append({"kind": "Event", "reason": reason, "count": 1, "firstTimestamp": utc(moment),
                          "lastTimestamp": utc(moment), "involvedObject": about})  # fmt: skip
        else:
            items.append({"kind": "Event", "reason": reason, "eventTime": utc(moment).replace("Z", ".000000Z"),
                          "deprecatedFirstTimestamp": None, "regarding": about})  # fmt: skip
    items.append({**items[-1], "involvedObject": {"kind": "Pod", "name": "p"}, "regarding": {"kind": "Pod"}})
    if form == "core":
        return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=1)
    if form == "eventrouter":
        items = [{"verb": "ADDED", "event": {**item, "involvedObject": item["regarding"]}} for item in items]
    return "\n".join(map(json.dumps, items)) + "\n"


def snapshots(faults: Sequence[Fault], nodes: int, moments: Sequence[float]) -> list[str]:
    """Return what ``kubectl get nodes -o json`` says at each moment."""
    texts = []
    for now in moments:
        items = []
        for at in range(nodes):
            mine = [f for f in faults if f.node == name(at) and f.start <= now]
            changes = [START, *(t for f in mine for t in (f.start, f.end) if t <= now)]
            is_out = any(not f.end <= now for f in mine)
            ready = {"type": "Ready", "status": "Unknown" if is_out else "True",
                     "lastHeartbeatTime": utc(now), "lastTransitionTime": utc(max(changes))}  # fmt: skip
            items.append({
                "kind": "Node", "metadata": {"name": name(at), "creationTimestamp": utc(START)}, "spec": {},
                "status": {"capacity": {"nvidia.com/gpu": "8"}, "conditions": [ready]},
            })  # fmt: skip
        texts.append(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}))
    return texts


def nvsentinel(faults: Sequence[Fault], form: str = "plain") -> str:
    """Return health events of the same outages, as NVSentinel prints them or as its store has them."""
    rows = []
    for f in faults:
        code = [str(CODES[f.cause])] if f.cause in CODES else []
        check = "SysLogsXIDError" if code else "InfiniBandErrorCheck" if f.cause == "nic" else "NodeHeartbeat"
        event = {"nodeName": f.node, "checkName": check, "isFatal": True, "isHealthy": False, "errorCode": code,
                 "recommendedAction": 24, "message": "" if f.cause != "not_responding" else "node not responding",
                 "entitiesImpacted": [{"entityType": "PCI", "entityValue": "0000:9b:00"}]}  # fmt: skip
        rows.append((f.start, event))
        if not math.isnan(f.end):
            rows.append((f.end, {**event, "isFatal": False, "isHealthy": True, "entitiesImpacted": []}))
    entries = [{**event, "generatedTimestamp": utc(moment)} for moment, event in sorted(rows, key=lambda row: row[0])]
    if form == "store":
        entries = [
            {"_id": 7, "healthevent": {key.lower(): value for key, value in entry.items()}, "healtheventstatus": {}}
            for entry in entries
        ]
    return "\n".join(map(json.dumps, entries)) + "\n"


def prometheus(
    faults: Sequence[Fault], nodes: int, begin: float, end: float, step: float = 60.0, metric: str = "up"
) -> str:
    """Return an answer of query_range: whether each node is up, or the last code of its GPU."""
    times = np.arange(begin, end, step)
    result = []
    for at in range(nodes):
        mine = [f for f in faults if f.node == name(at)]
        value = np.full(len(times), 1 if metric == "up" else 0)
        for f in mine:
            if metric == "up":
                value[(times >= f.start) & ~(times >= f.end)] = 0
            elif f.cause in CODES:
                value[times >= f.start - 40] = CODES[f.cause]
        labels = {"__name__": metric, "instance": f"{name(at)}:9100", "job": "node"}
        if metric != "up":
            labels |= {"Hostname": name(at), "gpu": "3"}
        pairs = [[float(t), str(v)] for t, v in zip(times, value, strict=True)]
        result.append({"metric": labels, "values": pairs})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def goodput(runs: Sequence[tuple[float, int, int]]) -> str:
    """Return what ml-goodput-measurement logs of a job: of each run its start [s], first step, and steps of 10 s."""
    entries: list[dict[str, object]] = []
    for begin, first, count in runs:
        moment = START + begin
        entries += [{"job_start_time": moment}, {"tpu_init_start_time": moment + 5}, {"tpu_init_end_time": moment + 65}]
        entries += [{"step_start_time": moment + 120 + 10 * at, "step_count": first + at} for at in range(count)]
        entries.append({"job_end_time": moment + 120 + 10 * count})
    return "".join(f"{json.dumps({'job_name': 'run', **entry})}\n" for entry in entries)


def torchrun(moment: float, host: str, code: int) -> str:
    """Return what an agent prints at the end of a job, after lines of its own."""
    return f"""step 7 loss 2.31
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : {local(moment).replace("T", "_")}
  host      : {host}
  rank      : 139 (local_rank: 3)
  exitcode  : {code} (pid: 7712)
  error_file: <N/A>
============================================================
"""


def nvrx(cycle: int, begin: float) -> str:
    """Return what ft_launcher prints of a restart of two nodes that takes 90 s after 30 s to stop."""
    steps = {"failure_detected": 0.0, "worker_terminated": 30.0, "rendezvous_started": 31.0}
    steps |= {"rendezvous_completed": 60.0, "worker_start_started": 61.0, "worker_start_completed": 120.0}
    rows = []
    for event, after in steps.items():
        for at in (0, 1):
            text = local(begin + after + at).replace("T", " ")
            rows.append(
                f"{text},000 [INFO] [{name(at)}] [workload:1(1) infra:1(0)] profiling.py:88   - Cycle: {cycle} "
                f"Event: {event} Node: {name(at)}_4242_0 Rank: 1 Time: {text}.000 UTC"
            )
    return "\n".join(rows) + "\n"


def write(folder: Path, **texts: str) -> list[str]:
    """Write files and return their paths; ``events_txt`` is written to events.txt."""
    paths = []
    for key, text in texts.items():
        path = folder / key.replace("_", ".", 1)
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return paths
