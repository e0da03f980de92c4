"""What AIReSim prints of its default run, from the scenario that comes with the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.validation.lab import estimate
from sim import Bucket
from sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.validation.lab import Lab
    from analysis.validation.row import Estimate
    from sim import Result


WORK = 256 * DAY

SELECTION, PREEMPTION = 3 * MINUTE, 20 * MINUTE

AUTOMATIC, MANUAL = 120 * MINUTE, 2880 * MINUTE

RANDOM_FAILURES = 4096 * 0.01 * 256

"""Nodes that compute, failures a day of each, days of computing: what theory expects."""


def airesim(lab: Lab, replications: int, *, output: str) -> Estimate:
    """Return an output of the default run, by its name in the tables below."""
    results = lab.results(lab.shipped("airesim-defaults"), replications)
    expected = RANDOM_FAILURES if output == "random failures" else None
    return estimate((_OUTPUTS[output](result) for result in results), expected)


def _seconds(result: Result, bucket: Bucket) -> float:
    """Return the time of the whole job in a bucket [s]."""
    job = result.jobs[0]
    return float(job.buckets[bucket]) / job.gpus


def _failures(result: Result) -> int:
    """Return how many failures hit the job."""
    return sum(result.jobs[0].interruptions.values())


def _systematic(result: Result) -> int:
    """Return how many of them were of bad nodes for their own reason."""
    return result.jobs[0].interruptions.get(2, 0)


def _selections(result: Result) -> float:
    """Return how often hosts were selected anew."""
    return _seconds(result, Bucket.RESCHEDULE) / SELECTION


def _preemptions(result: Result) -> float:
    """Return how many spares were waited for; not a whole number if the job ever waited for a repair."""
    return _seconds(result, Bucket.STARVED) / PREEMPTION


def _begun(result: Result) -> int:
    """Return how many repairs began; each begins with the automatic one."""
    return sum(result.repairs.values())


def _escalated(result: Result) -> float:
    """Return how many repairs needed the manual one, from the time that nodes were down.

    Those under way at the end are nearly all in the manual tier, whose time is exponential: what is left of it is, on
    average, a whole one.
    """
    under_way = _begun(result) - result.counts["repairs"]
    return (result.down_node_seconds + under_way * MANUAL - _begun(result) * AUTOMATIC) / MANUAL


def _stalls(result: Result) -> float:
    """Return how far the time without nodes is from a whole number of waits for a spare [waits]."""
    return abs(_preemptions(result) - round(_preemptions(result)))


_OUTPUTS: dict[str, Callable[[Result], float]] = {
    "training time": lambda result: (result.jobs[0].end - result.jobs[0].arrival) / HOUR,
    "effective training ratio": lambda result: result.jobs[0].buckets[Bucket.PRODUCTIVE] / result.jobs[0].requested,
    "failures": _failures,
    "random failures": lambda result: _failures(result) - _systematic(result),
    "systematic failures": _systematic,
    "run between failures": lambda result: WORK / _failures(result) / MINUTE,
    "computing": lambda result: _seconds(result, Bucket.PRODUCTIVE) / HOUR,
    "recovery": lambda result: _seconds(result, Bucket.INITIALIZE) / HOUR,
    "host selection": lambda result: _seconds(result, Bucket.RESCHEDULE) / HOUR,
    "host selections": _selections,
    "spare wait": lambda result: _seconds(result, Bucket.STARVED) / HOUR,
    "spare preemptions": _preemptions,
    "automatic repairs": _begun,
    "escalated repairs": _escalated,
    "successful repairs": lambda result: result.counts["repairs"] - result.counts["false_repairs"],
    "failed repairs": lambda result: result.counts["false_repairs"],
    "share of failed repairs": lambda result: result.counts["false_repairs"] / result.counts["repairs"],
    "stalls": _stalls,
    "retirements": lambda result: result.counts["retired"],
}

MEASURES = {"airesim": airesim}
