"""Observers that watch nothing or too late, and classes of faults that there are not."""

from __future__ import annotations

from tests.unit.bad_input import Bad, bad


def watching(name: str, entry: str, *fragments: str) -> Bad:
    """Return a scenario whose one observer is wrong."""
    return bad(name, {8: f"detection: {{use: observers, observers: [{entry}]}}"}, *fragments)


CASES = [
    watching(
        "observer unknown",
        "{use: §slrum}",
        "detection.observers.0.use: 'slrum' is not a choice; did you mean 'slurm'?",
    ),
    watching("observer without a name", "§{timeout: 1 min}", "detection.observers.0: needs 'use'", "slurm"),
    watching(
        "observer twice",
        "{use: slurm}, {use: in-band}, §{use: slurm}",
        "detection.observers.2: 'slurm' is there twice; each kind of observer watches once",
    ),
    watching(
        "class unknown",
        "{use: slurm, covers: {hosts: §1}}",
        "detection.observers.0.covers.hosts: unknown class of faults 'hosts'; did you mean 'host'?",
    ),
    watching(
        "time of an unknown class",
        "{use: node-agent, latency: {nics: §1 s}}",
        "detection.observers.0.latency.nics: unknown class of faults 'nics'; did you mean 'nic'?",
    ),
    watching(
        "coverage above 1",
        "{use: slurm, covers: {host: §120 %}}",
        "detection.observers.0.covers.host: '120 %' is above 1",
    ),
    watching(
        "coverage without a time",
        "{use: node-agent, covers: {hang: §1}}",
        "detection.observers.0.covers.hang: needs a time: latency.hang",
    ),
    watching(
        "heartbeat too seldom",
        "{use: heartbeat, timeout: 1 min, period: §2 min}",
        "detection.observers.0.period: must not be longer than the timeout",
    ),
    watching(
        "killed before interrupted",
        "{use: nvrx, hard: §50 s}",
        "detection.observers.0.hard: must be longer than soft",
    ),
    watching(
        "lease renewed too seldom",
        "{use: kubernetes, renew: §1 min}",
        "detection.observers.0.renew: must be shorter than grace",
    ),
    watching(
        "no confirmation",
        "{use: straggler, confirmations: §0}",
        "detection.observers.0.confirmations: must be at least 1, not 0",
    ),
    watching(
        "key of another observer",
        "{use: slurm, §dump: 1 s}",
        "detection.observers.0.dump: unknown key 'dump'",
        "timeout",
    ),
    bad("scale of detection", {8: "detection: {time: 5 min, scale: §0}"}, "detection.scale: must be above 0, not 0"),
    bad(
        "fault unknown",
        {7: "  - {use: component, name: node, rate: 1 per node-day, fault: §gpus}"},
        "failures.0.fault: 'gpus' is not a choice; did you mean 'gpu'?",
    ),
    bad(
        "slow crash",
        {7: "  - {use: component, name: node, rate: 1 per node-day, fault: §slow}"},
        "failures.0.fault: 'node': a fault of class slow does not stop a job, and effect crash does",
    ),
    bad(
        "damage unknown",
        {7: "  - {use: component, name: node, rate: 1 per node-day, damage: §restart}"},
        "failures.0.damage: 'restart' is not a choice",
        "process, reboot",
    ),
]
