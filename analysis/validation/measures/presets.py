"""Recovery presets beside one another: without failures, on the same failures, and where elasticity begins to pay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import sim
from analysis.pictures.crossover import Rivals, expected_crossover, paired_gains, published_case, simulated_crossover
from analysis.validation.lab import estimate
from analysis.validation.measures.by_hand import phases
from analysis.validation.row import Estimate
from sim import units
from sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.lab import Lab
    from sim import Prepared


_STEP = 6.0


def without_failures(lab: Lab, _: int, preset: str) -> Estimate:
    """Return the share of time that 32 nodes train which never fail [-], beside a count of steps and saves."""
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
    one = result.jobs[0]
    ours = float(one.buckets[sim.Bucket.PRODUCTIVE]) / one.requested
    assert start.bucket == "initialize", "a job starts, and then nothing interrupts it"
    return Estimate(ours, expected=_counted(prepared, stepping.end - stepping.start) / prepared.horizon)


def _counted(prepared: Prepared, seconds: float) -> float:
    """Return how much of some seconds of stepping and saves is stepping [s], by a count of one step at a time."""
    checkpoint = prepared.scenario.checkpoint
    saves = []
    for tier in checkpoint.tiers:
        write = tier.write or 0.0
        interval = units.parse(tier.interval, units.DURATION)
        # The next save waits until the last one is through.
        longest = max(interval, write if tier.mode == "async" else 0.0)
        saves.append((math.ceil(longest / _STEP - 1e-9), write if tier.mode == "blocking" else tier.stall))
    spent = productive = 0.0
    steps = 0
    while spent < seconds:
        spent += sum(stall for period, stall in saves if steps and steps % period == 0)
        part = min(_STEP, max(seconds - spent, 0.0))
        productive += part
        spent += part
        steps += 1
    return productive


def ahead(lab: Lab, replications: int, better: str, worse: str) -> Estimate:
    """Return by how much the ETTR of one preset is above that of another on the same failures [-].

    16,384 GPUs in 128 replicas with the failures of Llama 3; detection and copies in memory are those of the presets.
    """
    first, second = (_ettr(lab, replications, preset) for preset in (better, worse))
    return estimate(one - other for one, other in zip(first, second, strict=True))


def _ettr(lab: Lab, replications: int, preset: str) -> list[float]:
    """Return the ETTR of each replication [-]."""
    changes = (f"recovery.use={preset}", "detection={}", "checkpoint.from_preset=true")
    prepared = lab.shipped("llama3-405b-54d", changes)
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return [float(job.buckets[sim.Bucket.PRODUCTIVE]) / job.requested for job in jobs]


def _rivals(replicas: int) -> Rivals:
    """Return two jobs of which a restart costs 860 s, and half an hour without a replica less the more there are."""
    return Rivals(
        replicas=replicas,
        mtti=7200.0,
        others=math.inf,
        detection=60.0,
        restart=200.0,
        absence=1800.0,
        rejoin=30.0,
        interval=1200.0,
        write=10.0,
        drain=0.0,
        restore=60.0,
        step=10.0,
        nodes=48,
        gpus_per_node=1,
    )


def crossover(lab: Lab, replications: int, replicas: int) -> Estimate:
    """Return the reconfiguration time at which elastic replicas do as well as a restart [s], beside the closed form."""
    rivals = _rivals(replicas)
    seen = simulated_crossover(rivals, replications, horizon=10 * DAY, seed=lab.seed)
    assert seen is not None, "elasticity pays if it takes no time"
    return Estimate(seen.seconds, seen.error, replications, expected_crossover(rivals))


def elastic_gain(lab: Lab, replications: int, replicas: int, reconfigure: float) -> Estimate:
    """Return what elasticity gains over a restart [-] at a reconfiguration time [s], beside the closed form."""
    rivals = _rivals(replicas)
    gains = paired_gains(rivals, replications, horizon=10 * DAY, seed=lab.seed)(reconfigure)
    return estimate(gains, rivals.gain(reconfigure))


def elastic_loss(lab: Lab, replications: int, replicas: int, reconfigure: float) -> Estimate:
    """Return what elasticity loses against a restart [-]: the gain with the other sign."""
    gain = elastic_gain(lab, replications, replicas, reconfigure)
    assert gain.expected is not None
    return Estimate(-gain.value, gain.error, gain.replications, -gain.expected)


def published_elastic(_: Lab, __: int, replicas: int) -> Estimate:
    """Return what failures of 1 min each would make of a published run of 405 min with elastic replicas [min]."""
    rivals = published_case(replicas)
    return Estimate(405 / (1 - rivals.elastic_cost(60.0) / rivals.mtti))


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "ahead": ahead,
    "crossover": crossover,
    "elastic_gain": elastic_gain,
    "elastic_loss": elastic_loss,
    "published_elastic": published_elastic,
    "without_failures": without_failures,
}
