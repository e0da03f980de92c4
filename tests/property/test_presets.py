"""Every recovery preset under hundreds of random failures: the books close, and each node is in one place.

Failures come so often that many fall into the recovery from another one, with every class of fault, with few and many
spares, short and long repairs, with and without periodic work, and with more stores than the preset has.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import poisson

from ettrick import sim
from ettrick.sim import catalog
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.policies.contracts import Bucket
from tests import harness
from tests.pace import SEED, budget, one_in
from tests.property.common import MOST_EVENTS

if TYPE_CHECKING:
    from ettrick.sim.engine.holders import ReplicaGroup
    from ettrick.sim.engine.lives import FailureEvent
    from ettrick.sim.failures import FailureTrace

PRESETS = list(catalog.recoveries())

CASES, REPLICATIONS = 8, budget(25)

"""Scenarios of a preset, and random traces of each."""

NODES, REPLICAS, WIDTH = 14, 4, 2

PER_NODE = 0.6 / 3600

"""Crashes of one node, wherever it is [1/s]; other causes come on top."""

FAILURES: list[dict[str, Any]] = [
    {"use": "component", "name": "node", "part": "node", "rate": f"{PER_NODE!r} per node-s"},
    {"use": "component", "name": "gpu", "part": "gpu", "rate": "0.05 per gpu-h"},
    {"use": "component", "name": "nic", "part": "nic", "rate": "0.02 per nic-h"},
    {"use": "component", "name": "rack", "part": "rack", "rate": "0.1 per rack-h", "damage": "reboot"},
    {"use": "component", "name": "switch", "part": "node", "fault": "switch", "rate": "0.04 per node-h"},
    {
        "use": "component",
        "name": "slow",
        "part": "node",
        "effect": {"use": "slow", "factor": 0.6},
        "rate": "1 per node-d",
    },
    {"use": "component", "name": "wrong", "part": "gpu", "effect": "corrupt", "rate": "0.1 per gpu-d"},
    {"use": "job", "name": "software", "rate": "2 per job-h"},
    {"use": "job", "name": "hang", "effect": "hang", "rate": "0.5 per job-h"},
    {"use": "job", "name": "storage", "fault": "storage", "store_out": "90 s", "rate": "0.3 per job-h"},
    {"use": "loss-spike", "name": "spike", "rate": "0.1 per job-h", "rewind": "100 s"},
    {"use": "preemption", "name": "preempted", "rate": "0.8 per job-h", "notice": "30 s", "away": "200 s"},
]

PERIODIC: list[dict[str, Any]] = [
    {"name": "evaluation", "every": "40 steps", "time": "30 s"},
    {"name": "loading of data", "every": "4 min", "time": "3 s"},
]

REMOTE: dict[str, Any] = {"interval": "5 min", "stall": "2 s", "write": "20 s", "restore": "15 s"}

MORE_STORES: list[dict[str, Any]] = [
    {**REMOTE, "retain": 2, "corrupt": "10 %"},
    {"store": "disk", "interval": "100 s", "mode": "blocking", "write": "4 s", "restore": "8 s", "when_busy": "skip"},
    {"store": "peer", "restore": "3 s"},
]


def _scale(number: int) -> float:
    """Return how often what fails in a scenario fails, relative to the rates above."""
    return 0.5 + 1.5 * (number % 3)


def _scenario(name: str, number: int) -> dict[str, Any]:
    """Return one of the scenarios of a preset: every combination of three choices."""
    few, short, plain = (bool(number & bit) for bit in (1, 2, 4))
    layout = {"tensor": 8, "pipeline": WIDTH, "data": REPLICAS}
    job = {"name": "job", "gpus": 8 * WIDTH * REPLICAS, "step_time": "3 s", "parallelism": layout}
    data = harness.scenario(
        seed=8 * (SEED - 1) + number,
        cluster={"nodes": NODES, "gpus_per_node": 8, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        horizon="12000 s",
        jobs=[job if plain else {**job, "periodic": PERIODIC}],
        failures=[{**failure, "scale": _scale(number)} for failure in FAILURES],
        checkpoint={"tiers": [REMOTE] if plain else MORE_STORES, "from_preset": True},
        recovery={"use": name},
        spares={"hot": 1 if few else 3},
        repair={"time": {"use": "exponential", "mean": "3 min" if short else "20 min"}},
    )
    del data["detection"]
    return data


class _Looked(Simulation):
    """A simulation that looks at nodes and jobs after every event, and notes what failures interrupt.

    It also notes for how long nodes that were up were held in each phase [node s].
    """

    def __init__(self, case: sim.Prepared, replication: int, failures: FailureTrace) -> None:
        super().__init__(case, replication, failures, keeps_timeline=True)
        self.interrupted: Counter[tuple[str, str]] = Counter()
        self.held: dict[tuple[str, str], float] = defaultdict(float)
        self.interrupt = self.failures.interrupt
        self.failures.interrupt = self._note

    def _note(self, groups: list[ReplicaGroup], failure: FailureEvent, now: float, latency: float) -> None:
        for group in groups:
            self.jobs.settle(group, now)
            (phase, _), *_ = _ahead(group, now)
            self.interrupted[_who(group), phase] += 1
        self.interrupt(groups, failure, now, latency)

    def run(self) -> sim.Result:
        """Play like the simulation itself, with a look after every event."""
        while self.is_open:
            ahead, time = self._held_ahead(), self.kernel.now
            self.kernel.step()
            for who, nodes, phases in ahead:
                since = time
                for phase, end in phases:
                    until = min(end, self.kernel.now)
                    self.held[who, phase] += nodes * (until - since)
                    since = until
            self.events += 1
            self._look()
            assert self.events < MOST_EVENTS
        return self._result()

    def _held_ahead(self) -> list[tuple[str, int, list[tuple[str, float]]]]:
        """Return of each group that holds nodes how many of them are up, and what it does until the next event."""
        (job,) = self.jobs.all
        up = Counter(group for node, group in enumerate(self.cluster.group) if not self.cluster.outages[node])
        groups = (job.main, *job.away) if job.holding else ()
        return [(_who(group), up[group], _ahead(group, self.kernel.now)) for group in groups if up[group]]

    def _look(self) -> None:
        """Assert that no node is in two places, and that what is at risk is a part of the work."""
        cluster, (job,) = self.cluster, self.jobs.all
        places = [cluster.where(node) for node in range(cluster.nodes)]
        held = [node for node in job.nodes if node >= 0]
        assert len(held) == len(set(held)), "a node has two positions"
        if job.holding:
            assert set(held) == {node for node, place in enumerate(places) if place is NodeState.JOB}
        missing = [position for group in (job.main, *job.away) for position in group.missing]
        assert sorted(missing) == [position for position, node in enumerate(job.nodes) if node < 0]
        assert job.main.replicas + sum(group.replicas for group in job.away) == job.replicas
        for node, place in enumerate(places):
            assert place in (NodeState.JOB, NodeState.REPAIR) or not cluster.outages[node], (
                "a node is down and waits for work"
            )
            assert place is not NodeState.REPAIR or cluster.outages[node], "a node is up and in repair"
        assert -1e-6 <= job.state.at_risk <= job.work + 1e-6
        assert job.work >= -1e-6


def _who(group: ReplicaGroup) -> str:
    """Return whether a group steps with the others or is away."""
    return "main" if group is group.job.main else "away"


def _ahead(group: ReplicaGroup, now: float) -> list[tuple[str, float]]:
    """Return what a group does from now on if nothing happens: phases and their ends."""
    if group.is_running(now):
        return [("stepping", math.inf)]
    ahead = [(Bucket(bucket).name.lower(), end) for bucket, end in group.segments if end > now]
    return [*ahead, ("stepping" if group.run_at < math.inf else "between", math.inf)]


@pytest.mark.parametrize("name", one_in(5, PRESETS))
def test_random_failures(name: str) -> None:
    """Ledgers close, nodes are in one place, no work comes from nowhere, and no phase is spared.

    A job does not do more work than one without failures that need not start up. Whatever a group does with its nodes,
    those that are up crash at their rate. A group without one is not hit: it waits for nodes, or its last one crashed
    and nobody knows yet.
    """
    interrupted: Counter[tuple[str, str]] = Counter()
    expected: dict[tuple[str, str], float] = defaultdict(float)
    merged = 0
    for number in range(CASES):
        case = sim.prepare(sim.parse(_scenario(name, number)))
        quiet = sim.run(case, 0, harness.trace([])).jobs[0]
        most = quiet.work + quiet.buckets[Bucket.INITIALIZE] / quiet.gpus
        for replication in range(REPLICATIONS):
            simulation = _Looked(case, replication, sim.trace(case, replication))
            result = simulation.run()
            interrupted += simulation.interrupted
            for phase, held in simulation.held.items():
                expected[phase] += held * PER_NODE * _scale(number)
            (job,) = result.jobs
            merged += job.merged
            assert 0 <= job.work <= most * (1 + 1e-9)
            harness.check_books(result)
        again = _Looked(case, REPLICATIONS - 1, sim.trace(case, REPLICATIONS - 1)).run()
        assert again.timeline == result.timeline
        assert np.array_equal(again.jobs[0].totals, job.totals)
    print(name, dict(interrupted), dict(expected))  # noqa: T201
    assert merged > 4 * REPLICATIONS, "hardly any failure falls into the recovery from another one"
    for phase, crashes in expected.items():
        assert interrupted[phase] >= poisson.ppf(1e-9, crashes), f"few failures in {phase}"
