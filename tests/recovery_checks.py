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
    from collections.abc import Callable, Iterable

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
    nothing else; memory is frozen data that nobody writes to. The closed form is told the mean times and the exposures
    that the plans have.
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
            _check_exposures(strategy, plan)
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
        _check_exposures(strategy, start)
        _check_returns(strategy, twice, job)
        _check_absence(strategy, job)


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
        hit = ExpectedFailure(fault, job.gpus, job.nodes, job.nodes_missing)
        paths, doubled = strategy.returns(hit), twice.returns(hit)
        if paths is None:
            assert doubled is None
            assert strategy.elastic or strategy.no_formula, "a strategy says its ways back (`_returns`), or why not"
            continue
        assert sum(path.chance for path in paths) == pytest.approx(1.0)
        for path, other in zip(paths, doubled, strict=True):
            assert other._replace(spans=path.spans) == path
            assert [span.mean for span in other.spans] == [2.0 * span.mean for span in path.spans]
            assert all(span.mean >= 0 for span in path.spans)
        stated = _merged(
            (path.chance, path.keeps, path.exposed, *_split((span.exposed, span.mean) for span in path.spans))
            for path in paths
        )
        assert stated == pytest.approx(_planned(strategy, hit, job), rel=1e-9, abs=1e-9), (
            "`_returns` states other times for the formula than the plan takes"
        )


def _planned(strategy: Any, hit: ExpectedFailure, job: JobView) -> dict[tuple[Any, ...], float]:
    """Return what `_merged` does of the plans after a first failure, with healthy nodes available.

    Of a law the mean is planned: a drawn time less its excess. Rank 0 is as likely to be hit as any other.
    """
    missing = 0 if hit.fault in strategy.narrows_on else hit.takes
    rows = []
    for first_lost, chance in ((False, 1 - hit.takes / hit.nodes), (True, hit.takes / hit.nodes)):
        if not chance:
            continue
        view = FailureView("cause", False, hit.takes, int(hit.takes > 0), job.mark, hit.fault)
        after = _first_hit(job)._replace(nodes_missing=missing, first_lost=first_lost)
        plan, _ = strategy.plan(view, after, ClusterView(hit.nodes, hit.nodes), None)
        if isinstance(plan[-1], Requeue):
            plan += strategy.start(after._replace(nodes_missing=0))
        (restore,) = (step for step in plan if isinstance(step, Restore))
        rows.append((chance, restore.keeps, restore.exposed == "both", *_mean_times_of(plan)))
    return _merged(rows)


def _first_hit(job: JobView) -> JobView:
    """Return the view of a job that was whole and has done nothing before its first failure."""
    return job._replace(replicas_running=job.replicas, attempt=1, work=0.0, narrowed=())


def _mean_times_of(plan: Plan) -> tuple[float, float]:
    """Return the mean times of a plan in which failures cannot, and can, hit all of the job [s]."""
    stalls = ((step.exposed == "both", step.seconds - step.excess) for step in plan if isinstance(step, Stall))
    delays = ((False, step.delay - step.excess) for step in plan if isinstance(step, Requeue))
    return _split(itertools.chain(stalls, delays))


def _split(times: Iterable[tuple[bool, float]]) -> tuple[float, float]:
    """Return the sums of times that are not exposed, and of those that are [s]."""
    rows = list(times)
    return sum(time for exposed, time in rows if not exposed), sum(time for exposed, time in rows if exposed)


def _merged(rows: Iterable[tuple[float, str, bool, float, float]]) -> dict[tuple[Any, ...], float]:
    """Return chance and mean times of ways back, by what they keep and whether failures can hit the restore."""
    merged: dict[tuple[Any, ...], float] = {}
    for chance, keeps, exposed, hidden_time, exposed_time in rows:
        for name, amount in (("chance", 1.0), ("hidden", hidden_time), ("exposed", exposed_time)):
            key = keeps, exposed, name
            merged[key] = merged.get(key, 0.0) + chance * amount
    return merged


def _check_absence(strategy: Any, job: JobView) -> None:
    """Assert that the closed form of replicas that leave alone is told the times that a plan takes."""
    absence = strategy.absence_for(job.gpus, job.nodes, job.replicas)
    if absence is None:
        return
    whole = _first_hit(job)._replace(live=True)
    for missing, time_away in ((1, absence.away), (0, absence.in_place)):
        view = FailureView("cause", False, missing, 1, job.mark, "host", lost=(0,))
        plan, _ = strategy.plan(view, whole._replace(nodes_missing=missing), ClusterView(1, 1), None)
        away = next(step for step in plan if isinstance(step, Background))
        assert sum(_mean_times_of(away.steps)) == pytest.approx(time_away)
        assert sum(_mean_times_of(away.then)) == pytest.approx(absence.rejoin)
        if missing and Restore("live") in plan:
            assert sum(_mean_times_of(plan)) == pytest.approx(absence.stall)
    dead = whole._replace(nodes_missing=1, live=False)
    plan, _ = strategy.plan(view._replace(nodes_lost=1), dead, ClusterView(1, 1), None)
    assert sum(_mean_times_of(plan)) == pytest.approx(absence.restart)


def _check_exposures(strategy: Any, plan: Plan) -> None:
    """Assert that a strategy declares each exposure of its phases but the usual one, by which a formula is refused."""
    for step in plan:
        if isinstance(step, Stall | Restore):
            assert step.exposed in {"both", *strategy.exposures}, "an exposure that `exposures` does not declare"
        for inner in _inner(step):
            _check_exposures(strategy, inner)


def _inner(step: Step) -> tuple[Plan, ...]:
    """Return the plans within a step: its way out, or what goes on in the background and then."""
    if isinstance(step, Background):
        return step.steps, step.then
    return (step.otherwise,) if isinstance(step, Acquire) else ()


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
