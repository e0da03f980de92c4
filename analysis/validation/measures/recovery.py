"""Detection and recovery as published, and presets against one another, out of failures that are written by hand."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import MeasuredQuantity, bare, estimate
from ettrick.sim import units
from ettrick.sim.units import DAY, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.sim import Prepared, Result


# Small scenarios, failures written by hand, and the phases that the simulator makes of them.


_NEVER: dict[str, Any] = {"law": {"use": "exponential", "mean": "1000000 d"}, "renews": "never"}

HOST, SOFTWARE = 0, 1
"""Indices of the two sources of a small scenario: a node that dies, and a process that ends."""


class GroupPhase(NamedTuple):
    """A phase of a group, without regard to why: its bucket by name, and its time [s]; `smaller` with replicas away."""

    bucket: str
    start: float
    end: float


def small(preset: str, horizon: float, replicas: int = 4, nodes: int = 6, **changes: Any) -> dict[str, Any]:
    """Return replicas of one GPU each as plain data, with a recovery preset and all that it brings along.

    Its two sources never strike by themselves: failures come from :func:`failures_at`.
    """
    store = {"interval": "500 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    return {
        "name": "by hand",
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": f"{horizon!r} s",
        "jobs": [{"name": "job", "gpus": replicas, "parallelism": {"data": replicas}}],
        "failures": [
            {"use": "component", "name": "host", "part": "node", **_NEVER},
            {"use": "job", "name": "software", "rate": "1 per 1000000 job-days"},
        ],
        "checkpoint": {"tiers": [store], "from_preset": True},
        "repair": {"time": "200 s"},
        **changes,
        "recovery": {"use": preset, **changes.get("recovery", {})},
    }


def failures_at(prepared: Prepared, rows: Iterable[tuple[float, int, int]]) -> Any:
    """Return failures for ``sim.run``, from rows of time [s], index of the source, and the unit that is struck."""
    rows = sorted(rows)
    return replace(
        sim.trace(prepared, 0),
        time=np.array([row[0] for row in rows], dtype=np.float64),
        source=np.array([row[1] for row in rows], dtype=np.int64),
        slot=np.array([row[2] for row in rows], dtype=np.int64),
        round=np.arange(len(rows), dtype=np.int64),
        until=np.full(len(rows), np.nan),
    )


def phases(result: Result) -> list[GroupPhase]:
    """Return the phases of the replicas that step together, in order of time; the run must have kept its timeline."""
    phases: list[GroupPhase] = []
    for span in result.timeline.spans if result.timeline is not None else ():
        if span.group != 0:
            continue
        bucket, start = "smaller" if span.name else sim.Bucket(span.bucket).name.lower(), span.start
        if phases and phases[-1].bucket == bucket and phases[-1].end == start:
            start = phases.pop().start
        phases.append(GroupPhase(bucket, start, span.end))
    return phases


# Detection: after how long a failure is known.


_APART = 10_000.0
"""Time between two failures that have nothing to do with each other [s]."""

_FAILURES = 300
"""The failures of a replication in which they come one by one [-]."""


def slurm(lab: ScenarioRunner, replications: int, bucket: str, statistic: str) -> MeasuredQuantity:
    """Return what waits of one bucket are like after hosts that die in silence under Slurm [s].

    Parameters
    ----------
    bucket, statistic
        ``detection``, or ``reschedule`` without the 30 s in which processes are ended; ``mean``, ``least`` or ``most``,
        or ``early``: the share of waits in the first quarter of 300 to 500 s [-].
    """
    waits = _slurm_waits(lab, replications)[bucket]
    if statistic == "mean":
        return estimate(waits.mean(axis=1))
    if statistic == "early":
        return estimate((waits < 350).mean(axis=1))
    extreme = waits.min() if statistic == "least" else waits.max()
    return MeasuredQuantity(float(extreme), 0.0, replications)


@functools.lru_cache(maxsize=1)
def _slurm_waits(lab: ScenarioRunner, replications: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return waits by bucket, shape (replications, failures) [s]; there is no node but the one that was lost."""
    prepared = lab.scenario(small("slurm-requeue", _APART * (_FAILURES + 1), nodes=4))
    rows = failures_at(prepared, [(_APART * (number + 1), HOST, 0) for number in range(_FAILURES)])
    by_bucket: dict[str, list[list[float]]] = {"detection": [], "reschedule": []}
    for replication in range(replications):
        seen = phases(sim.run(prepared, replication, rows, keeps_timeline=True))
        for bucket, waits in by_bucket.items():
            waits.append([phase.end - phase.start for phase in seen if phase.bucket == bucket])
    by_bucket["reschedule"] = [[wait - 30 for wait in waits] for waits in by_bucket["reschedule"]]
    return {bucket: np.array(waits) for bucket, waits in by_bucket.items()}


def eviction(lab: ScenarioRunner, replications: int, statistic: str) -> MeasuredQuantity:
    """Return after how long a host that died is known on Kubernetes [s]: ``least``, ``most`` or ``mean``."""
    waits = _eviction_waits(lab, replications)
    if statistic == "mean":
        return estimate(waits.mean(axis=1))
    return MeasuredQuantity(float(waits.min() if statistic == "least" else waits.max()), 0.0, replications)


@functools.lru_cache(maxsize=1)
def _eviction_waits(lab: ScenarioRunner, replications: int) -> npt.NDArray[np.float64]:
    """Return times until it is known, shape (replications, failures) [s]; no other observer."""
    only = [{"use": "kubernetes", "renew": "10 s", "grace": "50 s", "monitor": "5 s", "toleration": "300 s"}]
    watch = {"use": "observers", "observers": only}
    prepared = lab.scenario(small("k8s-jobset", _APART * (_FAILURES + 1), nodes=8, detection=watch))
    rows = failures_at(prepared, [(_APART * (number + 1), HOST, 0) for number in range(_FAILURES)])
    return np.array([_waits(sim.run(prepared, number, rows, keeps_timeline=True)) for number in range(replications)])


def _waits(result: Result) -> list[float]:
    """Return how long each detection took [s]."""
    return [phase.end - phase.start for phase in phases(result) if phase.bucket == "detection"]


def known_after(lab: ScenarioRunner, _: int, preset: str, fault: str) -> MeasuredQuantity:
    """Return after how long a fault of one class is known [s], of a node that fails once."""
    life = {"law": {"use": "exponential", "mean": "1000000 d"}, "renews": "never"}
    source = {"use": "component", "name": fault, "part": "node", "fault": fault, **life}
    prepared = lab.scenario(small(preset, 5000.0, failures=[source], spares={"hot": 1}))
    (wait,) = _waits(sim.run(prepared, 0, failures_at(prepared, [(1000.0, 0, 0)]), keeps_timeline=True))
    return MeasuredQuantity(wait)


def minutes_between_failures(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return the mean time between failures of 12,500 servers at 2.3 per 1,000 and day [min].

    Without replications it is what a scenario expects; with, days over counted interruptions, by the delta
    method.
    """
    fabric = {"rails": 1, "radix": 128, "leaf": {"nodes": 50}, "spine": {"leaf_groups": 20}, "core": {}}
    prepared = lab.scenario(
        bare(
            "servers",
            cluster={"nodes": 12_501, "gpus_per_node": 8, "fabric": fabric},
            horizon="60 d",
            jobs=[{"name": "job", "gpus": 100_000}],
            failures=[{"use": "component", "name": "server", "part": "node", "rate": "2.3 per 1000 node-days"}],
            spares={"hot": 1},
            repair={"time": "1 min"},
        )
    )
    if not replications:
        return MeasuredQuantity(prepared.jobs[0].mtti / MINUTE)
    count = estimate(sum(result.jobs[0].interruptions.values()) for result in lab.results(prepared, replications))
    mean = prepared.horizon / MINUTE / count.value
    return MeasuredQuantity(mean, mean * count.error / count.value, replications)


# Checkpoints in memory.


def pairs_in_memory(lab: ScenarioRunner, _: int, machines: int) -> MeasuredQuantity:
    """Return of how many of all pairs of machines the last step is still in memory when both are lost [-]."""
    prepared = lab.scenario(small("gemini-in-memory", 2000.0, replicas=machines, nodes=machines))
    stores: list[str] = []
    for pair in itertools.combinations(range(machines), 2):
        result = sim.run(prepared, 0, failures_at(prepared, [(1000.0, HOST, node) for node in pair]))
        stores += list(result.jobs[0].restores)
    assert len(stores) == machines * (machines - 1) // 2, "each pair is restored once"
    return MeasuredQuantity(stores.count("peer-host") / len(stores))


def groups_in_memory(lab: ScenarioRunner, replications: int, machines: int, lost: int) -> MeasuredQuantity:
    """Return the share of losses of several machines at once that are restored from memory [-]; who, is drawn.

    The remote copies come every 3 h: with many of them one is now and then newer than the last one in memory.
    """
    store = {"interval": "3 h", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    horizon = _APART * (_FAILURES + 1)
    stores = {"tiers": [store], "from_preset": True}
    data = small("gemini-in-memory", horizon, replicas=machines, nodes=machines, checkpoint=stores)
    prepared = lab.scenario(data)
    shares = []
    for replication in range(replications):
        generator = np.random.default_rng([lab.seed, replication])
        rows = [
            (_APART * (number + 1), HOST, int(node))
            for number in range(_FAILURES)
            for node in generator.choice(machines, lost, replace=False)
        ]
        restores = sim.run(prepared, replication, failures_at(prepared, rows)).jobs[0].restores
        shares.append(restores["peer-host"] / sum(restores.values()))
    return estimate(shares)


def wasted(
    lab: ScenarioRunner, _: int, save: float, load: float, interval: float, points: int = 42
) -> MeasuredQuantity:
    """Return what a failure wastes when copies take `save` to become durable and `load` to read [s].

    It is the mean over failures that are spread evenly over the time between two saves, `interval` [s] of stepping.
    """
    tier = {"interval": f"{interval!r} s", "mode": "async", "write": f"{save!r} s", "restore": f"{load!r} s"}
    stores = {"tiers": [tier]}
    prepared = lab.scenario(small("gemini-in-memory", 12 * interval + 20 * save + load + 5000.0, checkpoint=stores))
    begin = phases(sim.run(prepared, 0, failures_at(prepared, []), keeps_timeline=True))[0].end
    costs = []
    for part in range(points):
        time = begin + (10 + (part + 0.5) / points) * interval
        job = sim.run(prepared, 0, failures_at(prepared, [(time, SOFTWARE, 0)])).jobs[0]
        costs.append((job.buckets[sim.Bucket.LOST_WORK] + job.buckets[sim.Bucket.RESTORE]) / job.gpus)
    return MeasuredQuantity(float(np.mean(costs)))


def wasted_minutes(
    lab: ScenarioRunner, replications: int, save: float, load: float, interval: float
) -> MeasuredQuantity:
    """Return the same in minutes, of times in minutes."""
    seconds = wasted(lab, replications, save * MINUTE, load * MINUTE, interval * MINUTE)
    return MeasuredQuantity(seconds.value / MINUTE)


def second_level(lab: ScenarioRunner, replications: int, copies: float = 1.0) -> MeasuredQuantity:
    """Return what copies in the hosts' memory gain over a remote store alone, on the same failures of processes [-].

    Parameters
    ----------
    copies
        What a copy blocks, every 2 min [s].
    """
    remote = {"interval": "30 min", "mode": "blocking", "write": "200 s", "restore": "200 s"}
    near = {"store": "host", "interval": "2 min", "stall": f"{copies!r} s", "write": f"{copies!r} s", "restore": "5 s"}
    ettrs = []
    for tiers in ([remote, near], [remote]):
        data = small("slurm-requeue", 20 * DAY, checkpoint={"tiers": tiers}, detection={"time": "0 s"})
        data |= {"failures": [{"use": "job", "name": "software", "rate": "0.5 per job-h"}]}
        rung = {"name": "restart", "keeps": "hosts", "launch": [{"name": "start", "time": "60 s"}]}
        data |= {"recovery": {"use": "ladder", "rungs": [rung]}}
        ettrs.append(lab.ettr(lab.scenario(data), replications))
    return estimate(both - alone for both, alone in zip(*ettrs, strict=True))


# How long a job stands, and who goes on.


def torchrun(lab: ScenarioRunner, replications: int, of: str) -> MeasuredQuantity:
    """Return the time until a torchrun job steps again [s] after a ``process`` or a ``node``, or the mean ratio [-]."""
    prepared = lab.scenario(small("torchrun-elastic", 5000.0))
    lost = {
        source: [_standing(prepared, number, source) for number in range(replications)] for source in (HOST, SOFTWARE)
    }
    if of != "ratio":
        return estimate(lost[HOST if of == "node" else SOFTWARE])
    node, process = estimate(lost[HOST]), estimate(lost[SOFTWARE])
    ratio = node.value / process.value
    error = ratio * float(np.hypot(node.error / node.value, process.error / process.value))
    return MeasuredQuantity(ratio, error, replications)


def _standing(prepared: Prepared, replication: int, source: int) -> float:
    """Return how long no replica steps after a failure of a source at 1000 s [s]."""
    rows = failures_at(prepared, [(1000.0, source, 2 if source == HOST else 0)])
    timeline = phases(sim.run(prepared, replication, rows, keeps_timeline=True))
    again = (phase.start for phase in timeline if phase.start > 1000 and phase.bucket in ("productive", "smaller"))
    return next(again) - 1000


def back_off(lab: ScenarioRunner, _: int, attempt: int) -> MeasuredQuantity:
    """Return how long a gang waits that Kueue evicts for the n-th time [s]; it steps an hour in between."""
    rung = {"name": "kueue", "keeps": "nothing", "backoff": {"first": "60 s", "most": "3600 s"}}
    prepared = lab.scenario(small("k8s-jobset", _APART * (attempt + 1), recovery={"rungs": [rung]}))
    rows = failures_at(prepared, [(_APART * (number + 1), SOFTWARE, 0) for number in range(attempt)])
    timeline = phases(sim.run(prepared, 0, rows, keeps_timeline=True))
    waits = [phase.end - phase.start for phase in timeline if phase.bucket == "reschedule"]
    return MeasuredQuantity(waits[attempt - 1])


def jobset_restarts(lab: ScenarioRunner, _: int, budget: int | None = None) -> MeasuredQuantity:
    """Return how often a JobSet is restarted by three failures [-], with maxRestarts of `budget` or without."""
    data = sim.parse(small("k8s-jobset", 10_000.0, recovery={"gives_up": True})).dump()
    if budget is not None:
        data["recovery"]["rungs"][0]["budget"] = budget
    prepared = lab.scenario(data)
    rows = failures_at(prepared, [(1000.0 * number, SOFTWARE, 0) for number in (1, 2, 3)])
    return MeasuredQuantity(sum(sim.run(prepared, 0, rows).jobs[0].restores.values()))


def quorums(lab: ScenarioRunner, _: int, majority: bool) -> MeasuredQuantity:
    """Return the share of cases in which those that are left step on [-]: majorities of 2 to 8 replicas, or others."""
    outcomes = [stepped for stepped, most in _quorums(lab) if most is majority]
    return MeasuredQuantity(sum(outcomes) / len(outcomes))


def _quorums(lab: ScenarioRunner) -> Iterator[tuple[bool, bool]]:
    """Yield, for each number of replicas and of those lost, whether some step on and whether they are a majority."""
    for replicas in (2, 3, 4, 5, 8):
        repair, heard_of = {"time": "1 d"}, {"majority": True}
        data = small("torchft-hsdp", 5000.0, replicas, replicas, repair=repair, recovery=heard_of)
        prepared = lab.scenario(data)
        for lost in range(1, replicas + 1):
            rows = failures_at(prepared, [(1000.0, HOST, node) for node in range(lost)])
            timeline = phases(sim.run(prepared, 0, rows, keeps_timeline=True))
            yield any(phase.bucket == "smaller" for phase in timeline), replicas - lost > replicas / 2


def periodic_failures(
    lab: ScenarioRunner, _: int, every: float, stall: float, replicas: int = 1, away: float = 0.0
) -> MeasuredQuantity:
    """Return the share of useful time when a failure comes every so many minutes, to the minute [-].

    Parameters
    ----------
    every, stall
        From failure to failure, and what all stand for each [min].
    replicas, away
        With more than one, the others go on after the stall, and that which failed is away for so long more [min].

    Work is durable every second and rolled back by no more.
    """
    cycles = 50
    tier = {"interval": "1 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    recovery: dict[str, Any] = {"use": "hot-spare", "initialize": f"{stall!r} min"}
    if replicas > 1:
        recovery |= {"use": "shrink-rejoin", "reconfigure": f"{stall!r} min", "initialize": f"{stall + away!r} min"}
    data = small("hot-spare", 60.0 * every * (cycles + 1) + 60 * stall, replicas, replicas + 1, spares={"hot": 1})
    data |= {"checkpoint": {"tiers": [tier]}, "detection": {"time": "0 s"}, "recovery": recovery}
    prepared = lab.scenario({**data, "repair": {"time": "1 s"}})
    return MeasuredQuantity(_useful(prepared, cycles, every * MINUTE))


def _useful(prepared: Any, cycles: int, every: float) -> float:
    """Return the useful share of the cycles from the first failure to the last [-]."""
    start = prepared.horizon - every * (cycles + 1)
    done = []
    for count in (0, cycles):
        # The first node and the spare take each other's place.
        nodes = [0, prepared.nodes - 1]
        rows = failures_at(
            prepared, [(start + every * (number + 1), HOST, nodes[number % 2]) for number in range(count)]
        )
        (job,) = sim.run(prepared, 0, rows).jobs
        done.append(float(job.buckets[sim.Bucket.PRODUCTIVE]) / job.gpus)
    return 1 - (done[0] - done[1]) / (cycles * every)


def stall_of_others(lab: ScenarioRunner, _: int, gpus: int, replicas: int, step: float) -> MeasuredQuantity:
    """Return for how long the other replicas stand with torchft when one loses a node [s], and do a step again."""
    data = small("torchft-hsdp", 4000.0, spares={"hot": 1})
    data |= {
        "cluster": {"nodes": gpus // 8 + 1, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 32768}},
        "jobs": [
            {
                "name": "job",
                "gpus": gpus,
                "step_time": f"{step!r} s",
                "parallelism": {"tensor": 8, "pipeline": gpus // 8 // replicas, "data": replicas},
            }
        ],
    }
    prepared = lab.scenario(data)
    failure = 3000.0
    timeline = phases(sim.run(prepared, 0, failures_at(prepared, [(failure, HOST, 9)]), keeps_timeline=True))
    again = next(phase.start for phase in timeline if phase.start > failure and phase.bucket == "smaller")
    return MeasuredQuantity(again - failure + step)


def back_after(lab: ScenarioRunner, replications: int, preset: str) -> MeasuredQuantity:
    """Return after how long the others step again when a node is lost with a preset [s]."""
    prepared = lab.scenario(small(preset, 5000.0))
    return estimate(_standing(prepared, number, HOST) for number in range(replications))


# Presets without failures, and on the same failures.


_STEP = 6.0


def without_failures(lab: ScenarioRunner, _: int, preset: str) -> MeasuredQuantity:
    """Return the share of time that 32 nodes train which never fail [-], compared with a count of steps and saves."""
    job = {"name": "job", "gpus": 256, "step_time": f"{_STEP} s", "parallelism": {"tensor": 8, "data": 32}}
    store = {"interval": "13 min", "mode": "async", "stall": "3 s", "write": "50 s", "restore": "9 s"}
    prepared = lab.scenario(
        {
            "name": "quiet",
            "cluster": {"nodes": 34, "gpus_per_node": 8, "fabric": {"rails": 1}},
            "horizon": "200000 s",
            "jobs": [job],
            "failures": [],
            "checkpoint": {"tiers": [store], "from_preset": True},
            "spares": {"hot": 1},
            "repair": {"time": "1 h"},
            "recovery": {"use": preset},
        }
    )
    result = sim.run(prepared, 0, keeps_timeline=True)
    start, stepping = phases(result)
    trained = result.jobs[0]
    ours = float(trained.buckets[sim.Bucket.PRODUCTIVE]) / trained.requested
    assert start.bucket == "initialize", "a job starts, and then nothing interrupts it"
    return MeasuredQuantity(ours, expected=_counted(prepared, stepping.end - stepping.start) / prepared.horizon)


def _counted(prepared: Prepared, seconds: float) -> float:
    """Return how much of some seconds of stepping and saves is stepping [s], by a count of one step at a time."""
    checkpoint: Any = prepared.scenario.checkpoint
    saves = []
    for tier in checkpoint.tiers:
        interval = units.parse(tier.interval, units.DURATION)
        # The next save waits until the last one is through.
        longest = max(interval, tier.write if tier.mode == "async" else 0.0)
        saves.append((math.ceil(longest / _STEP - 1e-9), tier.write if tier.mode == "blocking" else tier.stall))
    spent = productive = 0.0
    steps = 0
    while spent < seconds:
        spent += sum(stall for period, stall in saves if steps and steps % period == 0)
        part = min(_STEP, max(seconds - spent, 0.0))
        productive += part
        spent += part
        steps += 1
    return productive


def ahead(lab: ScenarioRunner, replications: int, better: str, worse: str) -> MeasuredQuantity:
    """Return by how much the ETTR of one preset is above that of another on the same failures [-].

    16,384 GPUs in 128 replicas with the failures of Llama 3; detection and checkpoints in memory are those of the
    presets.
    """
    first, second = (_ettr(lab, replications, preset) for preset in (better, worse))
    return estimate(left - right for left, right in zip(first, second, strict=True))


def _ettr(lab: ScenarioRunner, replications: int, preset: str) -> list[float]:
    """Return the ETTR of each replication [-]."""
    changes = (f"recovery.use={preset}", "detection={}", "checkpoint.from_preset=true")
    return lab.ettr(lab.shipped("llama3-405b-54d", changes), replications)
