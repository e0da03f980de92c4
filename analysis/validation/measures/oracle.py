"""Cases in which theory is exact, simulated: the shares of a job, nodes that are down, ages, counts, independence.

Each case has causes of its own name, and with them failures of its own: rows of different cases are independent.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import bare, estimate, seconds
from ettrick.sim import Bucket
from ettrick.sim.formulas.elastic import elastic_shares, replicated_mtti
from ettrick.sim.formulas.goodput import expected_shares, predicted_efficiency
from ettrick.sim.formulas.nodes import missing_nodes_pmf, steady_unavailability
from ettrick.sim.formulas.queues import base_stock
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ettrick.analysis.validation.lab import MeasuredQuantity, ScenarioRunner


_BUCKETS = {
    "productive": (Bucket.PRODUCTIVE,),
    "degraded": (Bucket.DEGRADED,),
    "checkpoint_stall": (Bucket.CHECKPOINT_STALL,),
    "lost_work": (Bucket.LOST_WORK,),
    "detection": (Bucket.DETECTION,),
    "restart": (Bucket.RESCHEDULE, Bucket.INITIALIZE, Bucket.RESTORE),
    "waiting": (Bucket.QUEUED, Bucket.STARVED),
}


def _nodes(name: str, nodes: int, **law: Any) -> dict[str, Any]:
    """Return what a cluster of nodes that fail by a law changes; its job has all of them, and no randomness."""
    cause = {"use": "component", "name": f"{name} node", "part": "node", **law}
    return {"cluster": {"nodes": nodes, "gpus_per_node": 1, "fabric": {"rails": 1}}, "failures": [cause]}


def _job(case: str, horizon: float, mtti: float, interval: float, write: float, restart: float) -> dict[str, Any]:
    """Return a job that fails as a whole at a constant rate, and whose saves block it; times in seconds."""
    tier = {"interval": seconds(interval), "mode": "blocking", "write": seconds(write), "restore": "0 s"}
    return bare(
        case,
        horizon=seconds(horizon),
        failures=[{"use": "job", "name": f"{case} job", "law": {"use": "exponential", "mean": seconds(mtti)}}],
        checkpoint={"tiers": [tier]},
        recovery={"use": "hot-spare", "initialize": seconds(restart)},
    )


def job_share(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    share: str,
    mtti: float,
    interval: float,
    write: float,
    restart: float,
    detection: float = 0.0,
    drain: float = 0.0,
    failures: float = 300.0,
) -> MeasuredQuantity:
    """Return a share of the time of a job that fails as a whole, and that of renewal theory.

    Times in seconds; ``failures`` mean times to interrupt are simulated. With a drain, saves go on next to the steps.
    """
    data = _job(case, failures * mtti, mtti, interval, write, restart) | {"detection": {"time": seconds(detection)}}
    if drain:
        data["checkpoint"]["tiers"][0] |= {"mode": "async", "stall": seconds(write), "write": seconds(drain)}
    theory = expected_shares(interval, write, mtti, restart, detection, drain)
    return estimate(_shares(lab.results(lab.scenario(data), replications), share), theory[share])


def shared_save_share(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    share: str,
    jobs: int,
    mtti: float,
    interval: float,
    restart: float,
) -> MeasuredQuantity:
    """Return a share of up to four jobs that save 1 TB each to a store of 100 GB/s, and that of renewal theory.

    Their rack fails, so that they start again and save together: each of n saves takes n times as long. In seconds.
    """
    write = 10.0
    tier = {"interval": seconds(interval), "mode": "blocking", "aggregate": "100 GB/s", "shares": "all"}
    data = bare(
        case,
        horizon=seconds(300 * mtti),
        **_nodes(case, jobs, law={"use": "exponential", "mean": seconds(mtti)}),
        jobs=[{"name": f"{case} {number}", "gpus": 1} for number in range(jobs)],
        checkpoint={"size": "1 TB", "tiers": [tier]},
        recovery={"use": "hot-spare", "initialize": seconds(restart)},
    )
    data["failures"][0] |= {"part": "rack", "repair": "0 s"}
    theory = expected_shares(interval, jobs * write, mtti, restart + jobs * write)
    return estimate(_shares(lab.results(lab.scenario(data), replications), share), theory[share])


def mean_pace(
    lab: ScenarioRunner, replications: int, *, case: str, mtti: float, interval: float, write: float, restart: float
) -> MeasuredQuantity:
    """Return the productive share of a job whose clocks fall on hot days, and that of theory at the mean pace.

    Failures do not care for the pace, and the time between saves is time. Times in seconds.
    """
    hot = {"every": "7 h", "factors": [1.0, 1.5, 2.0]}
    data = _job(case, 300 * mtti, mtti, interval, write, restart)
    data["power"] = {"ambient": {"temperature": 20, "day": hot, "above": 25, "slope": "1 %"}}
    pace = float(np.mean([1.0, 0.95, 0.85]))  # at 20, 30 and 40 degrees
    theory = expected_shares(interval, write, mtti, restart)["productive"] * pace
    return estimate(_shares(lab.results(lab.scenario(data), replications), "productive"), theory)


def elastic_share(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    share: str,
    groups: int,
    width: int,
    rate: float,
    stall: float,
    away: float,
    rejoin: float,
    detection: float,
) -> MeasuredQuantity:
    """Return a share of a job whose replicas leave and return one by one, and that of theory.

    Failures of a node a day, times in seconds; other nodes are always available.
    """
    interval, write, drain, step = 1200.0, 10.0, 60.0, 10.0
    nodes = groups * width
    data = bare(case, horizon="60 d", **_nodes(case, nodes + 40, rate=f"{rate!r} per node-day"))
    layout = {"data": groups, "tensor": width}
    tier = {"mode": "async", "interval": seconds(interval), "stall": seconds(write), "write": seconds(drain)}
    data |= {
        "jobs": [{"name": f"{case} job", "gpus": nodes, "parallelism": layout, "step_time": seconds(step)}],
        "detection": {"time": seconds(detection)},
        "checkpoint": {"tiers": [tier | {"restore": "0 s"}]},
        "recovery": {
            "use": "shrink-rejoin",
            "reconfigure": seconds(stall),
            "initialize": seconds(away),
            "rejoin": seconds(rejoin),
        },
        "repair": {"time": "1 h"},
    }
    theory = elastic_shares(
        interval, write, DAY / (rate * nodes), groups, stall=stall, absence=away, rejoin=rejoin, downtime=detection,
        drain=drain, step=step,
    )  # fmt: skip
    return estimate(_shares(lab.results(lab.scenario(data), replications), share), theory[share])


def redundant_share(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    share: str,
    replicas: int,
    stages: int,
    rate: float,
    away: float,
    redundancy: str,
    overhead: float,
    slowdown: float = 1.0,
) -> MeasuredQuantity:
    """Return a share of a job whose redundant stages leave and return one by one, and that of theory.

    Failures of a node a day, times in seconds; other nodes are always available.
    """
    nodes = replicas * stages
    data = bare(case, horizon="60 d", **_nodes(case, nodes + 40, rate=f"{rate!r} per node-day"))
    layout = {"data": replicas, "pipeline": stages}
    recovery = {"use": "redundant", "redundancy": redundancy, "overhead": overhead, "slowdown": slowdown}
    data |= {
        "jobs": [{"name": f"{case} job", "gpus": nodes, "parallelism": layout, "step_time": "10 s"}],
        "detection": {"time": "60 s"},
        "checkpoint": {"tiers": [{"interval": "20 min", "stall": "10 s", "write": "60 s", "restore": "60 s"}]},
        "recovery": recovery | {"reconfigure": "60 s", "initialize": seconds(away), "rejoin": "30 s"},
        "repair": {"time": "1 h"},
    }
    prepared = lab.scenario(data)
    theory = sim.closed_form(prepared).shares[share]
    return estimate(_shares(lab.results(prepared, replications), share), theory)


def pairs_last(lab: ScenarioRunner, replications: int, *, case: str, pairs: int, days: float) -> MeasuredQuantity:
    """Return how long a job lasts whose nodes are there twice and never replaced, over the MTBF of a node."""
    data = bare(case, horizon=seconds(days * DAY), **_nodes(case, 2 * pairs, rate="1 per node-day"))
    data |= {
        "jobs": [{"name": f"{case} job", "gpus": 2 * pairs, "parallelism": {"data": 2 * pairs}}],
        "checkpoint": {"tiers": [{"interval": "1 s", "write": "0 s", "restore": "0 s"}]},
        "recovery": {
            "use": "redundant",
            "redundancy": "pairs",
            "overhead": 0.5,
            "reconfigure": "0 s",
            "initialize": "0 s",
        },
        "repair": {"time": "1000 d"},
    }
    # At half of the pace all the time.
    works = [2 * result.jobs[0].work / DAY for result in lab.results(lab.scenario(data), replications)]
    return estimate(works, replicated_mtti(pairs, 1.0))


def waiting_share(
    lab: ScenarioRunner, replications: int, *, case: str, needed: int, spares: int, life: float, repair: float
) -> MeasuredQuantity:
    """Return the share of time in which a job waits for nodes, and the probability that more are down than are spare.

    Lives and repairs are exponential, times in hours; a failure costs nothing but the node. No node is down at the
    start: a job that is queued would not be given the spares.
    """
    nodes = needed + spares
    law = {"use": "exponential", "mean": seconds(life * HOUR)}
    cause = _nodes(case, nodes, law=law, renews="at_return")
    data = bare(case, horizon=seconds(100 * life * HOUR), **cause)
    data |= {
        "jobs": [{"name": f"{case} job", "gpus": needed}],
        "spares": {"hot": spares},
        "repair": {"time": {"use": "exponential", "mean": seconds(repair * HOUR)}},
    }
    down = missing_nodes_pmf(nodes, steady_unavailability(life, repair))
    expected = float(down[spares + 1 :].sum())
    return estimate(_shares(lab.results(lab.scenario(data), replications), "waiting"), expected)


def predicted_share(
    lab: ScenarioRunner, replications: int, *, case: str, recall: float, precision: float, interval: float, write: float
) -> MeasuredQuantity:
    """Return the productive share of a job of ten nodes with predictions, and that of theory.

    A failure in 3 h, restarts of 5 min; times in seconds.
    """
    rate, restart = 1 / (3 * HOUR), 300.0
    data = bare(case, horizon="30 d", **_nodes(case, 12, rate=f"{rate * DAY / 10!r} per node-day"))
    data |= {
        "jobs": [{"name": f"{case} job", "gpus": 10}],
        "spares": {"hot": 2},
        "checkpoint": {
            "tiers": [{"interval": seconds(interval), "mode": "blocking", "write": seconds(write), "restore": "0 s"}]
        },
        "recovery": {"use": "hot-spare", "initialize": seconds(restart)},
        "health": {"prediction": {"recall": recall, "precision": precision, "lead": "10 min"}, "test": "1 s"},
    }
    expected = predicted_efficiency(interval, write, (1 - recall) * rate, recall * rate / precision, restart)
    return estimate(_shares(lab.results(lab.scenario(data), replications), "productive"), expected)


def fill_rate(
    lab: ScenarioRunner, replications: int, *, case: str, demand: float, lead: float, stock: int
) -> MeasuredQuantity:
    """Return the share of repairs that find their part on the shelf, and that of Palm's theorem.

    Parts are asked for `demand` times a day, and ordered one by one with an exponential lead time [days].
    """
    nodes = 1024
    data = bare(case, horizon="200 d", warmup="50 d", **_nodes(case, nodes, rate=f"{demand / nodes!r} per node-day"))
    law = {"use": "exponential", "mean": seconds(lead * DAY)}
    data |= {"repair": {"time": "1 h"}, "parts": {"node": {"stock": stock, "lead": law}}}
    uses = [result.parts["node"] for result in lab.results(lab.scenario(data), replications)]
    return estimate([1 - use.waited / use.asked for use in uses], base_stock(demand, lead, stock).fill_rate)


def nodes_down(
    lab: ScenarioRunner, replications: int, *, case: str, nodes: int, life: float, repair: float, moment: int
) -> MeasuredQuantity:
    """Return a central moment of the number of nodes that are down, over time, and that of the binomial law.

    Moment 1 is the mean. Lives are exponential and repairs of a fixed length, both in hours.
    """
    law = {"use": "exponential", "mean": seconds(life * HOUR)}
    cause = _nodes(case, nodes, law=law, renews="at_return")
    data = bare(case, horizon=seconds(20 * life * HOUR), initial="stationary", **cause)
    data["repair"] = {"time": seconds(repair * HOUR)}
    mean = nodes * steady_unavailability(life, repair)
    values = []
    for result in lab.results(lab.scenario(data), replications):
        number = np.array(list(result.down_times), dtype=np.float64)
        time = np.array(list(result.down_times.values()))
        values.append(float((number if moment == 1 else (number - mean) ** moment) @ time / time.sum()))
    counts = np.arange(nodes + 1)
    law_down = missing_nodes_pmf(nodes, mean / nodes)
    return estimate(values, mean if moment == 1 else float(law_down @ (counts - mean) ** moment))


def aged_failures(
    lab: ScenarioRunner,
    replications: int,
    *,
    case: str,
    nodes: int,
    shape: float,
    scale: float,
    age: float,
    days: float,
) -> MeasuredQuantity:
    """Return how many nodes of a known age fail for the first time, and N (1 - S(a + t) / S(a)); times in days."""
    cluster = {
        "pools": [{"count": nodes, "accelerator": "h100", "age": seconds(age * DAY)}],
        "gpus_per_node": 1,
        "fabric": {"rails": 1},
    }
    law = {"use": "weibull", "shape": shape, "scale": seconds(scale * DAY)}
    data = bare(case, horizon=seconds(days * DAY), **_nodes(case, nodes, law=law, renews="never"))
    data["cluster"] = cluster
    spent = ((age + days) / scale) ** shape - (age / scale) ** shape
    return estimate(_counts(lab, data, replications), nodes * -math.expm1(-spent))


def stationary_failures(
    lab: ScenarioRunner, replications: int, *, case: str, nodes: int, shape: float, scale: float, days: float
) -> MeasuredQuantity:
    """Return how many parts fail that have run for ever, N t / E[X] whatever the law; times in days."""
    law = {"use": "weibull", "shape": shape, "scale": seconds(scale * DAY)}
    data = bare(case, horizon=seconds(days * DAY), initial="stationary", **_nodes(case, nodes, law=law))
    return estimate(_counts(lab, data, replications), nodes * days / (scale * math.gamma(1.0 + 1.0 / shape)))


def poisson_counts(
    lab: ScenarioRunner, replications: int, *, case: str, nodes: int, mean: float, of: str
) -> MeasuredQuantity:
    """Return what failures of a constant rate in a replication come to: their ``mean``, or a second moment over it.

    ``dispersion`` is E(n - mean)^2 / mean, 1; ``replications`` pairs each replication with the next one,
    E(n - mean)(n' - mean) / mean, 0 if they are independent of each other.
    """
    data = bare(case, horizon="100 d", **_nodes(case, nodes, rate=f"{mean / nodes / 100.0!r} per node-day"))
    off = (np.array(_counts(lab, data, replications)) - mean) / math.sqrt(mean)
    if of == "mean":
        return estimate(mean + off * math.sqrt(mean), mean)
    return estimate(off**2, 1.0) if of == "dispersion" else estimate(off[0::2] * off[1::2], 0.0)


def two_causes(lab: ScenarioRunner, replications: int, *, case: str, nodes: int, mean: float) -> MeasuredQuantity:
    """Return E(n - mean)(n' - mean) / mean of the counts of two causes with one law, 0 if they are independent."""
    data = bare(case, horizon="100 d", **_nodes(case, nodes))
    rate = f"{mean / nodes / 100.0!r} per node-day"
    cause = {"use": "component", "part": "node", "rate": rate}
    data["failures"] = [cause | {"name": f"{case} {number}"} for number in ("one", "two")]
    prepared = lab.scenario(data)
    counts = [np.bincount(sim.trace(prepared, number).source, minlength=2) for number in range(replications)]
    off = np.array(counts) - mean
    return estimate(off[:, 0] * off[:, 1] / mean, 0.0)


def _counts(lab: ScenarioRunner, data: dict[str, Any], replications: int) -> list[float]:
    """Return the number of failures that a replication draws; nothing has to be simulated for that."""
    prepared = lab.scenario(data)
    return [float(len(sim.trace(prepared, number).time)) for number in range(replications)]


def _shares(results: Iterable[sim.Result], share: str) -> list[float]:
    """Return a share of the requested time of the first job, by replication."""
    return [float(result.jobs[0].buckets[[*_BUCKETS[share]]].sum() / result.jobs[0].requested) for result in results]
