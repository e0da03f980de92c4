"""Observers that watch nothing or too late, and classes of faults that there are not."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad


def watching(entry: str, *fragments: str) -> Bad:
    """Return a scenario whose one observer is wrong."""
    return bad({8: f"detection: {{use: observers, observers: [{entry}]}}"}, *fragments)


CASES = [
    watching("{use: §slrum}", "detection.observers.0.use: 'slrum' is not a choice; did you mean 'slurm'?"),
    watching("§{timeout: 1 min}", "detection.observers.0: needs 'use'", "slurm"),
    watching(
        "{use: slurm}, {use: in-band}, §{use: slurm}",
        "detection.observers.2: 'slurm' is there twice; each kind of observer watches once",
    ),
    watching(
        "{use: slurm, covers: {hosts: §1}}",
        "detection.observers.0.covers.hosts: unknown class of faults 'hosts'; did you mean 'host'?",
    ),
    watching(
        "{use: node-agent, latency: {nics: §1 s}}",
        "detection.observers.0.latency.nics: unknown class of faults 'nics'; did you mean 'nic'?",
    ),
    watching("{use: slurm, covers: {host: §120 %}}", "detection.observers.0.covers.host: '120 %' is above 1"),
    watching("{use: node-agent, covers: {hang: §1}}", "detection.observers.0.covers.hang: needs a time: latency.hang"),
    watching(
        "{use: heartbeat, timeout: 1 min, period: §2 min}",
        "detection.observers.0.period: must not be longer than the timeout",
    ),
    watching("{use: nvrx, hard: §50 s}", "detection.observers.0.hard: must be longer than soft"),
    watching("{use: kubernetes, renew: §1 min}", "detection.observers.0.renew: must be shorter than grace"),
    watching("{use: straggler, confirmations: §0}", "detection.observers.0.confirmations: must be at least 1, not 0"),
    watching("{use: slurm, §dump: 1 s}", "detection.observers.0.dump: unknown key 'dump'", "timeout"),
    bad({8: "detection: {time: 5 min, scale: §0}"}, "detection.scale: must be above 0, not 0"),
    bad(
        {7: "  - {use: component, name: node, rate: 1 per node-day, fault: §gpus}"},
        "failures.0.fault: 'gpus' is not a choice; did you mean 'gpu'?",
    ),
    bad(
        {7: "  - {use: component, name: node, rate: 1 per node-day, fault: §slow}"},
        "failures.0.fault: 'node': a fault of class slow does not stop a job, and effect crash does",
    ),
    bad(
        {7: "  - {use: component, name: node, rate: 1 per node-day, damage: §restart}"},
        "failures.0.damage: 'restart' is not a choice",
        "process, reboot",
    ),
]
