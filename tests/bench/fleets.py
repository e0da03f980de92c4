"""Print what streams of jobs cost: a log through the whole engine, months of a research cluster, long queues."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import simpy

from ettrick import sim
from ettrick.sim.prepare.services import LOADS, REPLAYED
from ettrick.sim.steps.serving import time_per_token
from tests.bench import COMMAND, cost_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

LOG = Path(__file__).resolve().parents[3] / "shared" / "data" / "swf" / "lublin_256_synthetic.swf.gz"
"""2,993 jobs on 256 processors."""

NO_FAILURES: dict[str, Any] = {
    "detection": {"time": "0 s"},
    "checkpoint": {"tiers": [{"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
    "recovery": {"use": "full-restart", "initialize": "0 s"},
}


_PREPARED = """\
import time
from ettrick import sim
scenario, start = sim.load("serve-and-train"), time.process_time()
sim.prepare(scenario)
print(time.process_time() - start)
"""
"""The CPU time of preparing a service [s], in a process of its own."""


def timeouts_per_second() -> float:
    """Return how many bare SimPy timeouts this machine plays in a second."""
    env = simpy.Environment()

    def tick() -> Generator[simpy.Event]:
        while True:
            yield env.timeout(1.0)

    env.process(tick())
    start = time.process_time()
    env.run(until=100_000)
    return 100_000 / (time.process_time() - start)


def fleet_rows() -> list[str]:
    """Return the cost of each, and what it may be on a machine of a million bare SimPy timeouts a second."""
    log, week = (*_log_rows(), *_command_rows()), _fleet_64_rows()
    return [*log, "", *week, "", *_research_rows(), "", *_queue_rows(), "", *_service_rows()]


def _service_rows() -> Iterable[str]:
    """Simulate a year of 10,000 replicas of a node each at Llama 3's failure rate."""
    content = {
        "name": "services",
        "cluster": {"nodes": 10_200, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8, "radix": 16384}},
        "horizon": "365 d",
        "services": [
            {
                "name": "chat",
                "model": "llama3-70b",
                "replicas": 10_000,
                "parallelism": {"tensor": 8},
                "demand": {"rate": "100000 per s", "input": {"mean": 1155}, "output": {"mean": 211}},
                "slo": {"ttft": "2 s", "tpot": "50 ms"},
            }
        ],
        "failures": [{"use": "component", "name": "node", "part": "node", "rate": "3.79 per 1000 node-days"}],
        "detection": {"time": "1 min"},
        "spares": {"hot": 200, "idle": "withhold"},
        "repair": {"time": "1 d"},
    }
    start = time.process_time()
    prepared = sim.prepare(sim.parse(content))
    ready = time.process_time() - start
    seconds = []
    for replication in range(3):
        start = time.process_time()
        sim.run(prepared, replication)
        seconds.append(time.process_time() - start)
    took = statistics.median(seconds)
    (service,) = sim.services_of(prepared)
    start = time.process_time()
    for batch in range(1, 1001):
        time_per_token(service.replica, float(batch), service.requests)
    point = (time.process_time() - start) / 1000
    yield f"a point of the closed form: {1e6 * point:.0f} us (<= 300)"
    yield from _replay_rows()
    yield f"10,000 replicas, a year: {took:.2f} s (target <= 1 s); prepared in {ready:.2f} s (target <= 2 s)"


def _replay_rows() -> Iterable[str]:
    """Prepare a service with nothing in the user's cache, with its replays, and with machine code alone."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder}

        def printed(program: str) -> str:
            command = [sys.executable, "-c", program]
            return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

        first, again = float(printed(_PREPARED)), float(printed(_PREPARED))
        shutil.rmtree(Path(folder, "ettrick", "replays"))
        printed("from ettrick.sim.engine import native; native.make()")
        compiled = float(printed(_PREPARED))
    rate = len(LOADS) * REPLAYED / 0.9 / (first - again)
    yield (
        f"first replays of a service: {rate:,.0f} requests/s in Python (>= 100,000); "
        f"by machine code {(compiled - again) / (first - again):.2f} of that time (<= 0.4)"
    )
    yield f"preparation of a service that was replayed before over the first: {again / first:.3f} (<= 0.05)"


PEERS = {
    "fifo": ("AccaSim 1.1.3", 6.5, 665_166.4),
    "easy": ("CQSim 53b52fa", 3.4, 28_951.6),
    "conservative": ("CQSim 53b52fa", 5.1, 32_102.6),
}
"""What another simulator took for the same file [s of CPU], once on a busy machine, and its mean wait [s]."""


def _log_content(use: str, limit: object) -> dict[str, Any]:
    """Return a scenario that replays the log."""
    stream = {"name": "log", "use": "trace", "file": str(LOG), "restart": "0 s", "checkpoint": {}, "limit": limit}
    return {
        "name": use,
        "cluster": {"nodes": 256, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": "100 d",
        "streams": [stream],
        "scheduler": {"use": use},
        **NO_FAILURES,
    }


def _log_rows() -> Iterable[str]:
    """Replay a log with each policy, beside what others took; the mean wait says that it is the policy."""
    if not LOG.exists():
        yield f"{LOG.name}: reference data not present"
        return
    yield f"{'log of 2,993 jobs':34} {'seconds':>8} {'jobs/s':>8} {'mean wait s':>12}  target"
    for use, factor, target in (
        ("fifo", 1, "<= 0.5 s"),
        ("sjf", 1, "<= 0.5 s"),
        ("easy", 1, "<= 0.5 s"),
        ("conservative", 1, "<= 0.5 s"),
        ("conservative", 2, "<= 1.5 s"),
    ):
        limit = "exact" if factor == 1 else {"factor": factor}
        prepared = sim.prepare(sim.parse(_log_content(use, limit)))
        results = [_timed(prepared) for _ in range(3)]
        fleet = results[0][0].fleet
        wait = fleet.job_sum("wait_first_job").sum() / fleet.job_sum("started_job").sum()
        seconds = statistics.median(each for _, each in results)
        yield f"{f'{use}, limits x {factor}':34} {seconds:8.3f} {2993 / seconds:8,.0f} {wait:12.1f}  {target}"
        if use in PEERS and factor == 1:
            name, took, theirs = PEERS[use]
            times = f"x {took / seconds:.0f}"
            yield f"{f'  {name}, as recorded':34} {took:8.3f} {2993 / took:8,.0f} {theirs:12.1f}  {times}"


COMMAND_PEERS = (("AccaSim 1.1.3", 6.5, 5.0), ("FleetSim 0.8", 34.8, 5.0))
"""What the processes of others took for the log, first come first served [s of CPU], and the ratio wanted.

Each was measured once on a busy machine.
"""


def _command_rows() -> Iterable[str]:
    """Run the command on the log, first come first served, as a whole: what starting it costs is part of it."""
    if not LOG.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "log.json"
        scenario.write_text(json.dumps(_log_content("fifo", "exact")), encoding="utf-8")
        seconds = [cost_of(*COMMAND, "run", str(scenario), "-n", "1", "--quiet").cpu for _ in range(6)]
        took = statistics.median(seconds[1:])  # the first writes bytecode
    for name, recorded, target in COMMAND_PEERS:
        times = f"{recorded / took:.1f} times ours (target >= {target:g})"
        yield f"ettrick run, whole process: {took:.2f} s; {name}, as recorded: {recorded} s, {times}"


def _fleet_64_rows() -> Iterable[str]:
    """Play a week of 64 nodes by events, in bare SimPy timeouts: load and machine cancel."""
    prepared = replace(sim.prepare(sim.load(sim.find("fleet-64-nodes"))), engine="events")
    ratios = [_timed(prepared)[1] * timeouts_per_second() for _ in range(5)]
    ratio = statistics.median(ratios) / 1e6
    yield f"fleet-64-nodes, a replication by events: {ratio:.2f} million bare timeouts (target <= 1.75; was 2.50)"


def _research_rows() -> Iterable[str]:
    """Play a tenth of 180 days of the research cluster of 2,048 nodes, with its failures."""
    yield f"{'2,048 nodes, 7,200 jobs a day':34} {'jobs':>8} {'us/job':>8} {'1.3 M jobs s':>12}  target"
    for name, keys, target in (
        ("strict priority", {"use": "fifo"}, "<= 45 s; was 78"),
        ("EASY, 100 tested", {"use": "easy", "tested": 100}, "<= 60 s; was 95"),
    ):
        scenario = sim.load(sim.find("fleet-rsc1"), ["horizon=11 d"])
        scheduler = type(scenario.scheduler).model_validate(keys)
        prepared = sim.prepare(scenario.model_copy(update={"scheduler": scheduler}))
        result, seconds = _timed(prepared)
        days = (prepared.warmup + prepared.horizon) / prepared.horizon
        jobs = result.fleet.job_sum("submitted_job").sum() * days
        yield f"{name:34} {jobs:8,.0f} {1e6 * seconds / jobs:8.1f} {1.3e6 * seconds / jobs:12.0f}  {target}"


def _queue_rows() -> Iterable[str]:
    """Start jobs from queues of four lengths: time per job may grow like their logarithm."""
    yield f"{'jobs in the queue':34} {'fifo us':>8} {'easy us':>8}"
    for pending in (100, 1_000, 10_000, 100_000):
        costs = []
        for use in ("fifo", "easy"):
            stream = {
                "name": "jobs",
                "arrivals": {"use": "backlog", "pending": pending},
                "gpus": {"1": 0.8, "4": 0.2},
                "work": {"use": "exponential", "mean": "1 h"},
                "restart": "0 s",
                "checkpoint": {},
            }
            tested = {"tested": 100} if use == "easy" else {}
            content = {
                "name": "queue",
                "cluster": {"nodes": 64, "gpus_per_node": 1, "fabric": {"rails": 1}},
                "streams": [stream],
                "scheduler": {"use": use, **tested},
                **NO_FAILURES,
            }
            short, long = (_timed(sim.prepare(sim.parse({**content, "horizon": span}))) for span in ("1 h", "801 h"))
            costs.append(1e6 * (long[1] - short[1]) / ((long[0].events - short[0].events) or 1))
        yield f"{pending:<34,} {costs[0]:8.1f} {costs[1]:8.1f}"


def _timed(prepared: sim.Prepared) -> tuple[sim.Result, float]:
    """Return a replication and its CPU time [s]."""
    start = time.process_time()
    result = sim.run(prepared, 0, most_events=1e12)
    return result, time.process_time() - start
