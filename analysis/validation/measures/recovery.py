"""What is published of detection and recovery, out of failures that are simulated one by one."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import numpy as np

import sim
from analysis.validation.lab import estimate
from analysis.validation.measures.by_hand import HOST, SOFTWARE, failures_at, phases, small
from analysis.validation.row import Estimate
from sim.units import MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from analysis.validation.lab import Lab
    from sim import Prepared, Result

_APART = 10_000.0

"""Time between two failures that have nothing to do with each other [s]."""

_FAILURES = 300

"""Of a replication in which they come one by one [-]."""


def slurm(lab: Lab, replications: int, bucket: str, statistic: str) -> Estimate:
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
    found = waits.min() if statistic == "least" else waits.max()
    return Estimate(float(found), 0.0, replications)


@functools.lru_cache(maxsize=1)
def _slurm_waits(lab: Lab, replications: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return waits by bucket, shape (replications, failures) [s]; there is no node but the one that was lost."""
    prepared = lab.scenario(small("slurm-requeue", _APART * (_FAILURES + 1), nodes=4))
    rows = failures_at(prepared, [(_APART * (number + 1), HOST, 0) for number in range(_FAILURES)])
    found: dict[str, list[list[float]]] = {"detection": [], "reschedule": []}
    for replication in range(replications):
        seen = phases(sim.run(prepared, replication, rows, keeps_timeline=True))
        for bucket, waits in found.items():
            waits.append([phase.end - phase.start for phase in seen if phase.bucket == bucket])
    found["reschedule"] = [[wait - 30 for wait in waits] for waits in found["reschedule"]]
    return {bucket: np.array(waits) for bucket, waits in found.items()}


def eviction(lab: Lab, replications: int, statistic: str) -> Estimate:
    """Return after how long a host that died is known on Kubernetes [s]: ``least``, ``most`` or ``mean``."""
    waits = _eviction_waits(lab, replications)
    if statistic == "mean":
        return estimate(waits.mean(axis=1))
    return Estimate(float(waits.min() if statistic == "least" else waits.max()), 0.0, replications)


@functools.lru_cache(maxsize=1)
def _eviction_waits(lab: Lab, replications: int) -> npt.NDArray[np.float64]:
    """Return times until it is known, shape (replications, failures) [s]; nobody else watches."""
    only = [{"observer": "kubernetes", "renew": "10 s", "grace": "50 s", "monitor": "5 s", "toleration": "300 s"}]
    watch = {"use": "observers", "observers": only}
    prepared = lab.scenario(small("k8s-jobset", _APART * (_FAILURES + 1), nodes=8, detection=watch))
    rows = failures_at(prepared, [(_APART * (number + 1), HOST, 0) for number in range(_FAILURES)])
    return np.array([_waits(sim.run(prepared, number, rows, keeps_timeline=True)) for number in range(replications)])


def _waits(result: Result) -> list[float]:
    """Return how long each detection took [s]."""
    return [phase.end - phase.start for phase in phases(result) if phase.bucket == "detection"]


def known_after(lab: Lab, _: int, preset: str, fault: str) -> Estimate:
    """Return after how long a fault of one class is known [s], of a node that fails once."""
    life = {"law": {"law": "exponential", "mean": "1000000 d"}, "renews": "never"}
    source = {"use": "component", "name": fault, "part": "node", "fault": fault, **life}
    prepared = lab.scenario(small(preset, 5000.0, failures=[source], spares={"hot": 1}))
    (wait,) = _waits(sim.run(prepared, 0, failures_at(prepared, [(1000.0, 0, 0)]), keeps_timeline=True))
    return Estimate(wait)


def minutes_between_failures(lab: Lab, replications: int) -> Estimate:
    """Return the mean time between failures of 12,500 servers at 2.3 per 1,000 and day [min].

    Without replications it is what a scenario is told to expect; with, days over counted interruptions, by the delta
    method.
    """
    fabric = {"rails": 1, "radix": 128, "leaf": {"nodes": 50}, "spine": {"leaf_groups": 20}, "core": {}}
    prepared = lab.scenario(
        {
            "name": "servers",
            "cluster": {"nodes": 12_501, "gpus_per_node": 8, "fabric": fabric},
            "horizon": "60 d",
            "jobs": [{"name": "job", "gpus": 100_000}],
            "failures": [{"use": "component", "name": "server", "part": "node", "rate": "2.3 per 1000 node-day"}],
            "detection": {"time": "0 s"},
            "checkpoint": {"tiers": [{"interval": "10 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
            "recovery": {"use": "hot-spare", "initialize": "0 s"},
            "spares": {"hot": 1},
            "repair": {"time": "1 min"},
        }
    )
    if not replications:
        return Estimate(prepared.jobs[0].mtti / MINUTE)
    count = estimate(sum(result.jobs[0].interruptions.values()) for result in lab.results(prepared, replications))
    mean = prepared.horizon / MINUTE / count.value
    return Estimate(mean, mean * count.error / count.value, replications)


def pairs_in_memory(lab: Lab, _: int, machines: int) -> Estimate:
    """Return of how many of all pairs of machines the last step is still in memory when both are lost [-]."""
    prepared = lab.scenario(small("gemini-in-memory", 2000.0, replicas=machines, nodes=machines))
    stores: list[str] = []
    for pair in itertools.combinations(range(machines), 2):
        result = sim.run(prepared, 0, failures_at(prepared, [(1000.0, HOST, node) for node in pair]))
        stores += list(result.jobs[0].restores)
    assert len(stores) == machines * (machines - 1) // 2, "each pair is restored once"
    return Estimate(stores.count("peer-host") / len(stores))


def groups_in_memory(lab: Lab, replications: int, machines: int, lost: int) -> Estimate:
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


def wasted(lab: Lab, _: int, save: float, load: float, interval: float, points: int = 42) -> Estimate:
    """Return what a failure wastes when copies take `save` to become durable and `load` to read [s].

    It is the mean over failures that are spread evenly over the time between two saves, `interval` [s] of stepping.
    """
    tier = {"interval": f"{interval!r} s", "mode": "async", "write": f"{save!r} s", "restore": f"{load!r} s"}
    stores = {"tiers": [tier]}
    prepared = lab.scenario(small("gemini-in-memory", 12 * interval + 20 * save + load + 5000.0, checkpoint=stores))
    begin = phases(sim.run(prepared, 0, failures_at(prepared, []), keeps_timeline=True))[0].end
    found = []
    for part in range(points):
        time = begin + (10 + (part + 0.5) / points) * interval
        job = sim.run(prepared, 0, failures_at(prepared, [(time, SOFTWARE, 0)])).jobs[0]
        found.append((job.buckets[sim.Bucket.LOST_WORK] + job.buckets[sim.Bucket.RESTORE]) / job.gpus)
    return Estimate(float(np.mean(found)))


def wasted_minutes(lab: Lab, replications: int, save: float, load: float, interval: float) -> Estimate:
    """Return the same in minutes, of times in minutes."""
    seconds = wasted(lab, replications, save * MINUTE, load * MINUTE, interval * MINUTE)
    return Estimate(seconds.value / MINUTE)


def torchrun(lab: Lab, replications: int, of: str) -> Estimate:
    """Return the time until a torchrun job steps again [s] after a ``process`` or a ``node``, or the mean ratio [-]."""
    prepared = lab.scenario(small("torchrun-elastic", 5000.0))
    lost = {
        source: [_stands(prepared, number, source) for number in range(replications)] for source in (HOST, SOFTWARE)
    }
    if of != "ratio":
        return estimate(lost[HOST if of == "node" else SOFTWARE])
    node, process = estimate(lost[HOST]), estimate(lost[SOFTWARE])
    ratio = node.value / process.value
    error = ratio * float(np.hypot(node.error / node.value, process.error / process.value))
    return Estimate(ratio, error, replications)


def _stands(prepared: Prepared, replication: int, source: int) -> float:
    """Return how long nobody steps after a failure of a source [s]."""
    rows = failures_at(prepared, [(1000.0, source, 2 if source == HOST else 0)])
    found = phases(sim.run(prepared, replication, rows, keeps_timeline=True))
    return (
        next(phase.start for phase in found if phase.start > 1000 and phase.bucket in ("productive", "smaller")) - 1000
    )


def back_off(lab: Lab, _: int, attempt: int) -> Estimate:
    """Return how long a gang waits that Kueue evicts for the n-th time [s]; it steps an hour in between."""
    rung = {"name": "kueue", "keeps": "nothing", "backoff": {"first": "60 s", "most": "3600 s"}}
    prepared = lab.scenario(small("k8s-jobset", _APART * (attempt + 1), recovery={"rungs": [rung]}))
    rows = failures_at(prepared, [(_APART * (number + 1), SOFTWARE, 0) for number in range(attempt)])
    found = phases(sim.run(prepared, 0, rows, keeps_timeline=True))
    waits = [phase.end - phase.start for phase in found if phase.bucket == "reschedule"]
    return Estimate(waits[attempt - 1])


def jobset_restarts(lab: Lab, _: int, budget: int | None = None) -> Estimate:
    """Return how often a JobSet is restarted by three failures [-], with maxRestarts of `budget` or without."""
    data = sim.parse(small("k8s-jobset", 10_000.0, recovery={"gives_up": True})).dump()
    if budget is not None:
        data["recovery"]["rungs"][0]["budget"] = budget
    prepared = lab.scenario(data)
    rows = failures_at(prepared, [(1000.0 * number, SOFTWARE, 0) for number in (1, 2, 3)])
    return Estimate(sum(sim.run(prepared, 0, rows).jobs[0].restores.values()))


def quorums(lab: Lab, _: int, majority: bool) -> Estimate:
    """Return the share of cases in which those that are left step on [-]: majorities of 2 to 8 replicas, or others."""
    found = [stepped for stepped, most in _quorums(lab) if most is majority]
    return Estimate(sum(found) / len(found))


def _quorums(lab: Lab) -> Iterator[tuple[bool, bool]]:
    """Yield, for each number of replicas and of those lost, whether some step on and whether they are a majority."""
    for replicas in (2, 3, 4, 5, 8):
        repair, heard_of = {"time": "1 d"}, {"majority": True}
        data = small("torchft-hsdp", 5000.0, replicas, replicas, repair=repair, recovery=heard_of)
        prepared = lab.scenario(data)
        for lost in range(1, replicas + 1):
            rows = failures_at(prepared, [(1000.0, HOST, node) for node in range(lost)])
            found = phases(sim.run(prepared, 0, rows, keeps_timeline=True))
            yield any(phase.bucket == "smaller" for phase in found), replicas - lost > replicas / 2


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "back_off": back_off,
    "eviction": eviction,
    "groups_in_memory": groups_in_memory,
    "jobset_restarts": jobset_restarts,
    "known_after": known_after,
    "minutes_between_failures": minutes_between_failures,
    "pairs_in_memory": pairs_in_memory,
    "quorums": quorums,
    "slurm": slurm,
    "torchrun": torchrun,
    "wasted": wasted,
    "wasted_minutes": wasted_minutes,
}
