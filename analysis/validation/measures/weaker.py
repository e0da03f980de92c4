"""Weaker references: published statements of which this program has the inputs, mostly inequalities and identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sim
from analysis.validation.lab import estimate
from analysis.validation.measures.by_hand import HOST, failures_at, phases, small
from analysis.validation.row import Estimate
from sim.formulas import efficiency, optimal_interval, young_interval
from sim.units import DAY, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.lab import Lab


def young_minutes(_: Lab, __: int, write: float, mtti: float) -> Estimate:
    """Return the interval with the least lost time, to first order [min], of times in minutes."""
    return Estimate(young_interval(write, mtti))


def near_best(_: Lab, __: int, period: float, write: float, mtti: float, restart: float) -> Estimate:
    """Return what is gained with a period between saves, the save included, over what is with the best one [-]."""
    best = optimal_interval(write, mtti)
    return Estimate(efficiency(period - write, write, mtti, restart) / efficiency(best, write, mtti, restart))


def saves_alone(lab: Lab, _: int, steps: int, step: float, write: float) -> Estimate:
    """Return the share of time that blocking saves take after every so many steps [-], without failures."""
    tier = {"interval": f"{steps * step!r} s", "mode": "blocking", "write": f"{write!r} s", "restore": "0 s"}
    cycles = 20
    prepared = lab.scenario(
        {
            "name": "saves",
            "cluster": {"nodes": 1, "gpus_per_node": 1, "fabric": {"rails": 1}},
            "horizon": f"{cycles * (steps * step + write)!r} s",
            "jobs": [{"name": "job", "gpus": 1, "step_time": f"{step!r} s"}],
            "failures": [],
            "detection": {"time": "0 s"},
            "checkpoint": {"tiers": [tier]},
            "repair": {"time": "1 h"},
            "recovery": {"use": "hot-spare", "initialize": "0 s"},
        }
    )
    (job,) = sim.run(prepared, 0).jobs
    return Estimate(float(job.buckets[sim.Bucket.CHECKPOINT_STALL]) / job.requested)


def effective_time(lab: Lab, replications: int, days: float, restarts: float, minutes: tuple[float, float]) -> Estimate:
    """Return the share of useful time [-] of a job that restarts so often in so many days.

    Parameters
    ----------
    minutes
        What detection and diagnosis take, and what catching up takes at most: a restart of 5 min, and the rest as the
        interval between saves [min].
    """
    detection, catch_up = minutes
    law = {"law": "exponential", "mean": f"{days / restarts!r} d"}
    prepared = lab.scenario(
        {
            "name": "restarts",
            "cluster": {"nodes": 1280, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 4096}},
            "horizon": f"{days!r} d",
            "jobs": [{"name": "job", "gpus": 10240}],
            "failures": [{"use": "job", "name": "any", "law": law}],
            "detection": {"time": f"{detection!r} min"},
            "checkpoint": {
                "tiers": [{"interval": f"{catch_up - 5!r} min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]
            },
            "repair": {"time": "1 h"},
            "recovery": {"use": "hot-spare", "initialize": "5 min"},
        }
    )
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return estimate(float(job.buckets[sim.Bucket.PRODUCTIVE]) / job.requested for job in jobs)


def periodic_failures(lab: Lab, _: int, every: float, stall: float, replicas: int = 1, away: float = 0.0) -> Estimate:
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
    return Estimate(_useful(prepared, cycles, every * MINUTE))


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


def second_level(lab: Lab, replications: int, copies: float = 1.0) -> Estimate:
    """Return what copies in the hosts' memory gain over a remote store alone, on the same failures of processes [-].

    Parameters
    ----------
    copies
        What a copy blocks, every 2 min [s].
    """
    remote = {"interval": "30 min", "mode": "blocking", "write": "200 s", "restore": "200 s"}
    near = {"store": "host", "interval": "2 min", "stall": f"{copies!r} s", "write": f"{copies!r} s", "restore": "5 s"}
    found = []
    for tiers in ([remote, near], [remote]):
        data = small("slurm-requeue", 20 * DAY, checkpoint={"tiers": tiers}, detection={"time": "0 s"})
        data |= {"failures": [{"use": "job", "name": "software", "rate": "0.5 per job-h"}]}
        rung = {"name": "restart", "keeps": "hosts", "launch": [{"name": "start", "time": "60 s"}]}
        data |= {"recovery": {"use": "ladder", "rungs": [rung]}}
        jobs = [result.jobs[0] for result in lab.results(lab.scenario(data), replications)]
        found.append([float(job.buckets[sim.Bucket.PRODUCTIVE]) / job.requested for job in jobs])
    return estimate(both - one for both, one in zip(*found, strict=True))


def stall_of_others(lab: Lab, _: int, gpus: int, replicas: int, step: float) -> Estimate:
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
    found = phases(sim.run(prepared, 0, failures_at(prepared, [(failure, HOST, 9)]), keeps_timeline=True))
    again = next(phase.start for phase in found if phase.start > failure and phase.bucket == "smaller")
    return Estimate(again - failure + step)


def back_after(lab: Lab, replications: int, preset: str) -> Estimate:
    """Return after how long the others step again when a node is lost with a preset [s]."""
    prepared = lab.scenario(small(preset, 5000.0))
    rows = failures_at(prepared, [(1000.0, HOST, 2)])
    found = []
    for number in range(replications):
        seen = phases(sim.run(prepared, number, rows, keeps_timeline=True))
        stepping = (phase.start for phase in seen if phase.start > 1000 and phase.bucket in ("smaller", "productive"))
        found.append(next(stepping) - 1000)
    return estimate(found)


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "back_after": back_after,
    "effective_time": effective_time,
    "near_best": near_best,
    "periodic_failures": periodic_failures,
    "saves_alone": saves_alone,
    "second_level": second_level,
    "stall_of_others": stall_of_others,
    "young_minutes": young_minutes,
}
