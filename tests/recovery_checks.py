"""What every recovery strategy owes: plans that hold together, and clusters that fail often and still add up."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim import rng
from ettrick.sim.engine.prepared import SparePool
from ettrick.sim.policies.contracts import (
    FAULTS,
    Acquire,
    Background,
    ClusterView,
    Evict,
    FailureView,
    JobView,
    Requeue,
    Restore,
    Run,
    Stall,
)
from ettrick.sim.policies.recovery.base import ExpectedFailure, check_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ettrick.sim.policies.contracts import Plan, Step


def check_recovery(parameters: dict[str, Any], replications: int = 12, **changes: Any) -> None:
    """Assert what every recovery strategy owes: `check_plans`, and this on small clusters that fail often.

    It never takes a node that is down; each node is in one place after every event; the ledger closes (the engine
    raises if not); a job does no more work than without failures; without failures it does exactly that.
    """
    from tests.harness import _Watched, prepared, seconds, trace

    case = prepared(**(_cluster_that_fails_often(parameters) | changes))
    check_plans(case.recovery)
    hits = 0
    for spares, replication in itertools.product((0, 2), range(replications)):
        one = replace(case, reserves={"spare": SparePool(spares)})
        quiet = _Watched(one, replication, trace(())).run()
        noisy = _Watched(one, replication, sim.trace(one, replication)).run()
        assert seconds(quiet).keys() <= {"productive", "checkpoint_stall", "queued"} | _buckets_of_start(case)
        for with_failures, without in zip(noisy.jobs, quiet.jobs, strict=True):
            assert with_failures.work <= without.work * (1 + 1e-9)
            hits += sum(with_failures.interruptions.values())
    assert hits > 20 * replications / 12, "too quiet to show anything"


def _cluster_that_fails_often(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario in which nodes, racks, GPUs and software fail again and again, also during recoveries."""
    return {
        "cluster": {"nodes": 12, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        "horizon": "5000 s",
        "jobs": [{"name": "job", "gpus": 8, "step_time": "3 s", "parallelism": {"data": 4, "tensor": 2}}],
        "failures": [
            {"use": "component", "name": "node", "part": "node", "rate": "1 per node-h"},
            {"use": "component", "name": "gpu", "part": "gpu", "rate": "1 per gpu-h", "repair": "400 s"},
            {"use": "component", "name": "rack", "part": "rack", "rate": "4 per rack-d", "repair": "50 s"},
            {"use": "component", "name": "hang", "rate": "4 per node-d", "part": "node", "fault": "hang"},
            {"use": "job", "name": "software", "rate": "1 per job-h"},
        ],
        "detection": {"time": {"use": "exponential", "mean": "5 s"}},
        "repair": {"time": {"use": "exponential", "mean": "300 s"}},
        "spares": {"hot": 2},
        "recovery": parameters,
    }


def _buckets_of_start(case: sim.Prepared) -> set[str]:
    """Return the buckets that a start of a job fills."""
    view = JobView("job", 0.0, 8, 0, 4, 4, live=False, attempt=0, mark=lambda purpose: 0.5, gpus=8)
    start = case.recovery.start(view)
    slow = {"degraded"} if isinstance(start[-1], Run) and start[-1].fraction < 1 else set()
    return slow | {step.bucket.name.lower() for step in start if isinstance(step, Stall)}


def check_plans(strategy: Any, jobs: int = 60, failures: int = 12) -> None:
    """Assert what a strategy answers to anything that it may see.

    Plans end in a step that runs or gives up, restore before they run, and take nodes before that if some are missing;
    times are not negative; the same view gets the same answer; a scale multiplies every time exactly and changes
    nothing else; memory is frozen data that nobody writes to.
    """
    twice = strategy.model_copy(update={"scale": 2.0 * strategy.scale})
    for number in range(jobs):
        generator = np.random.default_rng(number)
        shape = _shape(strategy, generator)
        memory: Any = None
        work = 0.0
        for attempt_of in range(failures):
            failure, job, cluster = _views(shape, generator, work, number * failures + attempt_of)
            before = pickle.dumps(memory)
            plan, after = strategy.plan(failure, job, cluster, memory)
            assert pickle.dumps(memory) == before, "memory was written to"
            assert strategy.plan(failure, job, cluster, memory) == (plan, after), "an answer depends on what is seen"
            assert hash(after) == hash(pickle.loads(pickle.dumps(after)))
            assert pickle.loads(pickle.dumps(after)) == after, "memory is frozen data"
            _check_plan(plan, job)
            scaled, same = twice.plan(failure, job, cluster, memory)
            assert times_of(scaled) == [2.0 * time for time in times_of(plan)]
            assert excesses_of(scaled) == [2.0 * excess for excess in excesses_of(plan)]
            other = failure._replace(mark=_other_luck(number * failures + attempt_of))
            _check_excesses(plan, strategy.plan(other, job, cluster, memory)[0])
            assert (_timeless(scaled), same) == (_timeless(plan), after)
            memory = after
            work += float(generator.choice([0.0, 0.0, 100.0]))
        start = strategy.start(job._replace(nodes_missing=0))
        assert isinstance(start[-1], Run)
        assert [step.keeps for step in start if isinstance(step, Restore)] == ["stores"]
        assert times_of(twice.start(job)) == [2.0 * time for time in times_of(strategy.start(job))]
        _check_returns(strategy, twice, job)


def mean_times(strategy: Any, gpus: int, nodes: int, fault: str = "process", takes: int = 1) -> Any:
    """Return what the closed form is told of the only way back: mean times [s] without and with failures, or None."""
    found = strategy.returns(ExpectedFailure(fault, gpus, nodes, takes))
    if found is None:
        return None
    (way,) = found
    hidden, exposed = (sum(span.mean for span in way.spans if span.exposed is kind) for kind in (False, True))
    return hidden, exposed


def _check_returns(strategy: Any, twice: Any, job: JobView) -> None:
    """Assert that the closed form is told of every way back, or why there is none; with the factor of the times."""
    for fault in FAULTS:
        hit = ExpectedFailure(fault, job.gpus, job.nodes, 1)
        found, doubled = strategy.returns(hit), twice.returns(hit)
        if found is None:
            assert doubled is None
            assert strategy.elastic or strategy.no_formula, "a strategy says its ways back (`_returns`), or why not"
            continue
        assert sum(way.chance for way in found) == pytest.approx(1.0)
        for way, other in zip(found, doubled, strict=True):
            assert other._replace(spans=way.spans) == way
            assert [span.mean for span in other.spans] == [2.0 * span.mean for span in way.spans]
            assert all(span.mean >= 0 for span in way.spans)


def _other_luck(number: int) -> Callable[[str], float]:
    """Return other numbers for a failure."""
    return lambda purpose: rng.uniform_one(rng.stream(8, 0, "mark", purpose), number)


def _check_excesses(plan: Plan, other: Plan) -> None:
    """A time less what it is above its mean is that mean, whatever the numbers of the failure are."""
    assert len(plan) == len(other)
    for mine, theirs in zip(plan, other, strict=True):
        if isinstance(mine, Stall):
            assert isinstance(theirs, Stall)
            assert mine.seconds - mine.excess == pytest.approx(theirs.seconds - theirs.excess, rel=1e-9, abs=1e-9)
        elif isinstance(mine, Requeue):
            assert isinstance(theirs, Requeue)
            usual = pytest.approx(theirs.delay - theirs.excess, rel=1e-9, abs=1e-9)
            assert mine.delay == theirs.delay or mine.delay - mine.excess == usual


def excesses_of(plan: Plan) -> list[float]:
    """Return by how much each drawn time of a plan is above its mean [s]."""
    return [step.excess for step in plan if isinstance(step, Stall | Requeue)]


def _shape(strategy: Any, generator: np.random.Generator) -> dict[str, int]:
    """Return the size of a job that the strategy could run: replicas of some nodes, of 8 GPUs or whole domains."""
    replicas = int(generator.integers(2 if strategy.elastic else 1, 9))
    width = int(generator.integers(1, 5))
    return {
        "replicas": replicas,
        "width": width,
        "gpus_per_node": int(getattr(strategy, "tensor", 8)),
        "narrows": int(bool(strategy.narrows_on)),
    }


def _views(
    shape: dict[str, int], generator: np.random.Generator, work: float, number: int
) -> tuple[FailureView, JobView, ClusterView]:
    """Return views that fit together: of a failure that took some nodes, or none, of the replicas that are there."""
    replicas, width = shape["replicas"], shape["width"]
    running = int(generator.integers(1, replicas + 1))
    positions = generator.permutation(running * width)[: int(generator.choice([0, 1, 1, 2, running * width]))]
    missing = len(positions)
    lost = len({int(position) // width for position in positions}) if replicas > 1 else int(missing > 0)
    domains = generator.permutation(replicas * width)[: int(generator.integers(0, 4)) * shape["narrows"]]

    def mark(purpose: str) -> float:
        return rng.uniform_one(rng.stream(7, 0, "mark", purpose), number)

    fault = str(generator.choice(list(FAULTS)))
    failure = FailureView("cause", False, int(generator.integers(0, missing + 1)), lost, mark, fault)
    job = JobView(
        "job",
        100.0 * number,
        replicas * width,
        missing,
        replicas,
        running,
        live=bool(generator.random() < 0.7),
        attempt=int(generator.choice([1, 1, 2, 3])),
        mark=mark,
        gpus=replicas * width * shape["gpus_per_node"],
        work=work,
        first_lost=bool(0 in positions),
        narrowed=tuple((int(domain), 1) for domain in sorted(domains)),
    )
    return failure, job, ClusterView(int(generator.integers(0, 3)), int(generator.integers(0, 3)))


def _check_plan(plan: Plan, job: JobView) -> None:
    """A plan can be followed, and does not read stores for a job whose nodes are still there."""
    check_plan(plan, job)
    assert "stores" not in _restores(plan), "the nodes are still there"


def _restores(plan: Plan) -> list[str]:
    """Return what is left for each restore of a plan, with those of ways out and of replicas that rejoin."""
    found: list[str] = []
    for step in plan:
        inner = step.then if isinstance(step, Background) else step.otherwise if isinstance(step, Acquire) else ()
        found += [step.keeps] if isinstance(step, Restore) else _restores(inner)
    return found


def times_of(plan: Plan) -> list[float]:
    """Return every time in a plan [s], in order, with those of ways out and of replicas that are away."""
    found: list[float] = []
    for step in plan:
        if isinstance(step, Stall | Evict):
            found.append(step.seconds)
        elif isinstance(step, Requeue):
            found.append(step.delay)
        elif isinstance(step, Acquire):
            found += [step.timeout, *times_of(step.otherwise)]
        elif isinstance(step, Background):
            found += [*times_of(step.steps), *times_of(step.then)]
    return found


def _timeless(plan: Plan) -> list[Any]:
    """Return a plan without its times."""
    return [_timeless_step(step) for step in plan]


def _timeless_step(step: Step) -> Any:
    if isinstance(step, Evict):
        return step._replace(seconds=0.0)
    if isinstance(step, Stall):
        return step._replace(seconds=0.0, excess=0.0)
    if isinstance(step, Requeue):
        return "requeue"
    if isinstance(step, Acquire):
        return step._replace(timeout=0.0, otherwise=()), _timeless(step.otherwise)
    if isinstance(step, Background):
        return _timeless(step.steps), _timeless(step.then)
    return step
