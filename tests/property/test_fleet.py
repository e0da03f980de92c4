"""What is true of every fleet: the ledger closes over the cluster, nodes are not given twice, attempts do not overlap.

The ledger itself is checked by each run, which raises if it does not close.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.fleet import fleet_ratios
from ettrick.analysis.metrics import is_share
from ettrick.analysis.ratios import target_result
from ettrick.sim.engine.fleet import ClusterQueue
from ettrick.sim.engine.prepared import TargetPlan
from ettrick.sim.engine.result import JOB_SUMS, NAMED, FleetResult, LedgerKey
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.scenario.streams import Arrival, Chain
from tests.harness import scenario
from tests.pace import IS_FULL, SEED
from tests.unit.test_fleet import INF, arrival, stream

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

HORIZON = 1500.0
ALL = slice(None)


def test_random_fleets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any scheduler, failures on any clock, preemption, quotas, spares, drains and pieces of work.

    After a pass the scheduler has nothing left to do at that instant.
    """

    def settle(fleet: ClusterQueue, now: float) -> None:
        decide(fleet, now)
        assert fleet.planner.wake(now) > now

    decide = ClusterQueue._pass
    monkeypatch.setattr(ClusterQueue, "_pass", settle)
    for number in range(300 if IS_FULL else 12):
        draw = random.Random(SEED * 10_000 + number)
        nodes, gpus = draw.choice([4, 9, 16]), draw.choice([1, 4, 8])
        rows = _rows(draw, nodes, gpus)
        case = scenario(
            cluster={"nodes": nodes, "gpus_per_node": gpus, "fabric": {"rails": 1}},
            streams=[{"name": "stream", "arrivals": {"rate": "1 per h"}, "gpus": 1, "work": "horizon"}],
            horizon=f"{HORIZON} s",
            seed=number + 1,
            scheduler=_scheduler(draw),
            failures=_causes(draw),
            detection={"time": draw.choice(["0 s", "15 s"])},
            **_others(draw, nodes, gpus),
        )
        setup: dict[str, Any] = {
            "interval": draw.choice([INF, 20.0, 50.0]),
            "save": draw.choice([0.0, 1.0, 3.0]),
            "restore": draw.choice([0.0, 2.0]),
            "restart": draw.choice([0.0, 5.0]),
        }
        if setup["interval"] < INF and setup["save"] and draw.random() < 0.5:
            setup |= {"drain": draw.choice([0.0, 6.0]), "save_share": draw.choice([0.5, 1.0])}
        if draw.random() < 0.15:
            setup["chain"] = Chain.model_validate({"limit": "100 s", "notice": "2 s"})
        prepared = replace(sim.prepare(sim.parse(case)), streams=(stream(rows, **setup),))
        result = sim.run(prepared, 0, keeps_log=True)
        _check(result, nodes, gpus)
        _check_account(result)
        _check_windows(prepared, result, gpus)
        if draw.random() < 0.2:
            _check_ratios(prepared, result, draw.randrange(1, len(result.edges)))
            _check_sums(result, sim.run(replace(prepared, windows=draw.choice([HORIZON, 217.0])), 0))
        if not prepared.warmup:  # of an attempt before it the ledger has only a part
            _check_lost_work(result, gpus)


def _rows(draw: random.Random, nodes: int, gpus: int) -> list[Arrival]:
    """Return jobs of all sizes, that end early, late, never, or at their limit."""
    rows = []
    time = 0.0
    for number in range(draw.randint(20, 120)):
        time += draw.expovariate(1 / draw.choice([5, 20, 60])) if draw.random() < 0.8 else 0.0
        size = draw.choice([1, 1, 2, gpus, gpus, 2 * gpus, gpus * nodes // 2, gpus * (nodes - 3), gpus - 1, gpus + 1])
        size = min(max(size, 1), gpus * (nodes - 3))
        work = draw.choice([draw.expovariate(0.01), 50.0, 1e9, 0.5])
        limit = draw.choice([work, INF, 2 * work, 60.0])
        outcome = draw.choice(["completed", "completed", "failed"])
        ends = work if outcome == "completed" else work * draw.random()
        more = {"priority": draw.choice([0, 0, 1, 2]), "tenant": draw.choice([0, 1])}
        rows.append(arrival(number, time, size, work, limit, ends=ends, outcome=outcome, **more))
    return rows


def _scheduler(draw: random.Random) -> dict[str, Any]:
    """Return a preset with some of its keys changed."""
    keys: dict[str, Any] = {
        "use": draw.choice(["fifo", "sjf", "easy", "conservative", "slurm", "kueue"]),
        "replacement": draw.choice(["first", "queue", "never"]),
        "requeue": {
            "delay": draw.choice(["0 s", "7 s"]),
            "age": draw.choice(["keep", "reset"]),
            "holds_nodes": draw.random() < 0.3,
        },
        "share_nodes": draw.choice(["best-fit", "spread"]),
    }
    if draw.random() < 0.6:
        keys["preempt"] = {
            "mode": draw.choice(["requeue", "cancel"]),
            "exempt": draw.choice(["0 s", "30 s"]),
            "grace": draw.choice(["0 s", "5 s", "30 s"]),
            "order": draw.choice(["youngest", "oldest", "smallest"]),
            "victims": draw.choice(["minimal", "reorder"]),
        }
    if draw.random() < 0.2:
        keys["pack"] = "leaf"
    return keys


def _causes(draw: random.Random) -> list[dict[str, Any]]:
    """Return failures of nodes on any clock, and perhaps of GPUs, windows of maintenance and a rollout."""
    clock = draw.choice(["wall", "busy", "in_service"])
    law = {"use": "exponential", "mean": f"{draw.choice([300, 2000])} s"}
    renews = draw.choice(["at_failure", "at_return"]) if clock == "wall" else "at_failure"
    causes = [{"use": "component", "part": "node", "name": "n", "clock": clock, "law": law, "renews": renews}]
    if draw.random() < 0.5:
        law = {"use": "exponential", "mean": "4000 s"}
        more = {"interrupts": "50 %", "idle_hazard": 0.2}
        causes.append({"use": "component", "part": "gpu", "name": "g", "law": law, **more})
    if draw.random() < 0.3:
        window = {"start": "300 s", "duration": "100 s", "first": 1, "units": 2}
        causes.append({"use": "maintenance", "name": "work", "windows": [window]})
    if draw.random() < 0.2:
        mode = draw.choice(["drain", "at_interruption"])
        causes.append({"use": "rollout", "name": "roll", "nodes_per_day": 5000, "duration": "20 s", "mode": mode})
    return causes


def _others(draw: random.Random, nodes: int, gpus: int) -> dict[str, Any]:
    """Return windows, a warm-up, spares, a named job and quotas."""
    keys: dict[str, Any] = {"jobs": [], "tenants": [{"name": "a"}, {"name": "b"}]}
    if draw.random() < 0.4:
        keys["windows"] = "333 s"
    if draw.random() < 0.4:
        keys["warmup"] = "200 s"
    if draw.random() < 0.5:
        warm = {"nodes": 1, "delay": "20 s"}
        keys["spares"] = draw.choice([{"hot": 1}, {"hot": 2}, {"hot": 0, "warm": warm}])
    if draw.random() < 0.4:
        keys["jobs"] = [{"name": "big", "gpus": 2 * gpus, "priority": draw.choice([0, 1, 3]), "arrival": "50 s"}]
    if draw.random() < 0.3:
        keys["tenants"] = [{"name": "a", "nodes": nodes // 2}, {"name": "b", "nodes": nodes - nodes // 2}]
    return keys


def _check(result: sim.Result, nodes: int, gpus: int) -> None:
    """Check who had nodes when."""
    last: dict[int, float] = {}
    changes = []
    for each in sorted(result.attempts, key=lambda attempt: (attempt.start, attempt.end)):
        assert each.start >= max(each.submit, last.get(each.job, -math.inf)), each
        assert each.end >= each.start
        last[each.job] = each.end
        held = _held(each, gpus)
        changes += [(each.start, held), (each.end, -held)]
    held = 0
    for _, change in sorted(changes):
        held += change
        assert held <= nodes * gpus


def _check_account(result: sim.Result) -> None:
    """Check that jobs hold no more than works, and that named jobs are in the ledger as in their own accounts."""
    fleet = result.fleet
    for part, whole in ((fleet.allocated, fleet.healthy), (fleet.healthy, fleet.owned)):
        assert (part <= whole * (1 + 1e-9) + 1e-6).all()
    assert fleet.cluster == pytest.approx(result.cluster)
    assert fleet.cluster.sum() == pytest.approx(result.owned)
    for index, job in enumerate(result.jobs):
        for bucket in (Bucket.PRODUCTIVE, Bucket.LOST_WORK, Bucket.QUEUED):
            row, expected = _row(fleet, NAMED + index, bucket), job.totals[:, bucket].sum(axis=1)
            assert row[: len(expected)] == pytest.approx(expected, rel=1e-9, abs=1e-6)


def _row(fleet: FleetResult, stream: int, bucket: Bucket) -> npt.NDArray[np.float64]:
    rows = [row for key, row in fleet.ledger.items() if (key.account.stream, key.bucket) == (stream, bucket)]
    return sum(rows, 0.0 * fleet.seconds)


def _check_windows(prepared: sim.Prepared, result: sim.Result, gpus: int) -> None:
    """In each window no row is negative, rows add up to the window, and jobs and targets to what they are parts of.

    Work that is lost is taken from the windows in which it was done, however much later the failure comes.
    """
    fleet = result.fleet
    tiny = 1e-9 * fleet.gpus * HORIZON
    assert min(float(row.min()) for row in fleet.ledger.values()) >= -tiny
    assert _rows_of(fleet, lambda _: True) == pytest.approx(fleet.owned, abs=tiny)
    most = sum((_held(each, gpus) * _passed(fleet, each.start, each.end) for each in result.attempts), 0.0)
    held = _rows_of(fleet, lambda key: 0 <= key.account.stream < NAMED)
    assert (held <= most + tiny).all()
    if all(len(each.nodes) == 1 for each in result.attempts):  # nobody went on without a node that it had lost
        assert held == pytest.approx(most, abs=tiny)
    for job in result.jobs:
        assert job.totals.min(initial=0.0) >= -tiny
        asked = job.gpus * _passed(fleet, job.arrival, job.end)
        assert job.totals.sum(axis=(1, 2)) == pytest.approx(asked[: len(job.totals)], abs=tiny)
    for kind, metric in itertools.product(("streams", "jobs"), ("ettr", "scheduling_goodput", "runtime_goodput")):
        if kind == "streams" or result.jobs:
            found = target_result(prepared, TargetPlan("promise", "it", kind, 0, metric, 0.9, 1), result)
            assert (found.amounts >= -tiny).all()
            assert (found.amounts <= found.bases + tiny).all()
    for sums in fleet.jobs.values():
        run = dict(zip(JOB_SUMS, sums.T, strict=True))
        assert (run["useful"] + run["queued"] <= run["requested"] + tiny).all()
        assert (run["useful"] >= -tiny).all()


def _check_ratios(prepared: sim.Prepared, result: sim.Result, cut: int) -> None:
    """Check that shares of two parts of a run are from 0 to 1, and that amounts and bases add up to its own."""
    first, second, run = (fleet_ratios(prepared, result.fleet, part) for part in (slice(cut), slice(cut, None), ALL))
    for name, whole in run.items():
        parts = [ratios[name] for ratios in (first, second) if name in ratios]
        if is_share(name):
            for amount, base, _ in parts:
                assert -1e-6 <= amount <= base * (1 + 1e-9) + 1e-6, name
        if name != "fairness":
            assert sum(part.amount for part in parts) == pytest.approx(whole.amount, rel=1e-6, abs=1e-6), name
            assert sum(part.base for part in parts) == pytest.approx(whole.base, rel=1e-6, abs=1e-6), name


def _check_sums(first: sim.Result, second: sim.Result) -> None:
    """Check that other windows have the same sums."""
    assert first.cluster == pytest.approx(second.cluster)
    tables: list[tuple[Any, Any]] = [(first.fleet.ledger, second.fleet.ledger), (first.fleet.jobs, second.fleet.jobs)]
    for one, other in tables:
        assert one.keys() == other.keys()
        for key, row in one.items():
            assert row.sum(axis=0) == pytest.approx(other[key].sum(axis=0), rel=1e-6, abs=1e-6), key
    for job, same in zip(first.jobs, second.jobs, strict=True):
        assert job.totals.sum(axis=0) == pytest.approx(same.totals.sum(axis=0), rel=1e-6, abs=1e-6)


def _held(attempt: sim.Attempt, gpus: int) -> int:
    """Return the GPUs of the nodes that an attempt has [-]."""
    return attempt.gpus if attempt.gpus < gpus else -(-attempt.gpus // gpus) * gpus


def _passed(fleet: FleetResult, start: float, end: float) -> npt.NDArray[np.float64]:
    """Return how much of each window lies between two times [s]."""
    return np.clip(np.minimum(fleet.edges[1:], end) - np.maximum(fleet.edges[:-1], start), 0.0, None)


def _rows_of(fleet: FleetResult, is_such: Callable[[LedgerKey], bool]) -> npt.NDArray[np.float64]:
    """Return GPU-seconds that were there, of some rows, by window [GPU s]."""
    rows = (row for key, row in fleet.ledger.items() if key.bucket != Bucket.QUEUED and is_such(key))
    return sum(rows, 0.0 * fleet.seconds)


def _check_lost_work(result: sim.Result, gpus: int) -> None:
    """Check that stops have lost what the ledger has by cause, and attempts the same in all [GPU s]."""
    fleet = result.fleet
    lost: dict[tuple[int, int], float] = {}
    for key, row in fleet.ledger.items():
        if key.bucket == Bucket.LOST_WORK and key.account.stream < NAMED:
            lost[key.cause, key.via] = lost.get((key.cause, key.via), 0.0) + float(row.sum())
    of_stops = dict.fromkeys(lost, 0.0)
    for stop, rows in fleet.stops.items():
        if stop.account.stream < NAMED and (stop.cause, stop.via) in lost:
            of_stops[stop.cause, stop.via] += float(rows[:, 2].sum())
    assert of_stops == pytest.approx(lost)
    held = (_held(each, gpus) * each.lost for each in result.attempts)
    assert math.fsum(held) == pytest.approx(sum(lost.values()))
