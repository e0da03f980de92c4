"""What every kind of strategy must satisfy, and the small scenarios that the tests play by hand.

One ``check_`` function per kind: a new strategy calls the one of its kind and adds a case worked out by hand.
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim import rng
from ettrick.sim.engine.nodes import POOLS, NodeState
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.failures import FailureTrace
from ettrick.sim.policies.contracts import NO_FAILURE, Bucket, NodeView
from ettrick.sim.policies.repair import REPAIRS
from ettrick.sim.run import with_engine
from tests.intervals import Z

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.policies.contracts import Memory, RepairPlan
    from ettrick.sim.policies.repair import LemonPolicy


def scenario(**changes: Any) -> dict[str, Any]:
    """Return plain data of a tiny scenario: one GPU a node, so that GPU-seconds are node-seconds.

    Its one source never draws a failure in a test: failures come from :func:`trace`.
    """
    cause = {"use": "component", "part": "node", "law": {"use": "exponential", "mean": "1000 d"}, "renews": "never"}
    base: dict[str, Any] = {
        "name": "case",
        "cluster": {"nodes": 4, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": "1000 s",
        "jobs": [{"name": "job", "gpus": 2}],
        "failures": [{**cause, "name": "first"}, {**cause, "name": "second"}],
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "30 s"},
        "repair": {"time": "200 s"},
        "scheduler": {"use": "fifo"},
    }
    return base | changes


def prepared(**changes: Any) -> sim.Prepared:
    """Return :func:`scenario` with changes, prepared."""
    return sim.prepare(sim.parse(scenario(**changes)))


def trace(rows: Sequence[tuple[float, ...]]) -> FailureTrace:
    """Return failures written by hand: rows of (time, source, slot) or (time, source, slot, end of the outage)."""
    rows = sorted(rows)
    return FailureTrace(
        time=np.array([row[0] for row in rows], dtype=np.float64),
        source=np.array([row[1] for row in rows], dtype=np.int64),
        slot=np.array([row[2] for row in rows], dtype=np.int64),
        round=np.arange(len(rows), dtype=np.int64),
        until=np.array([row[3] if len(row) > 3 else math.nan for row in rows], dtype=np.float64),
    )


def play(
    case: sim.Prepared, rows: Sequence[tuple[float, ...]] = (), recovery: Any = None, replication: int = 0
) -> sim.Result:
    """Run a case on failures written by hand, with another recovery strategy if one is given."""
    if recovery is not None:
        case = replace(case, recovery=recovery)
    return sim.run(case, replication, trace(rows))


def results_of(case: sim.Prepared, count: int, *, keeps_log: bool = False) -> Iterator[sim.Result]:
    """Yield the first replications of a case, from machine code if that knows the case: it gives the same bits."""
    quick = with_engine(case, 10**6)
    for number in range(count):
        yield sim.run(quick, number, keeps_log=keeps_log)


def bucket_shares(case: sim.Prepared, count: int) -> np.ndarray[Any, Any]:
    """Return the share of each bucket in what the first job asked for, shape (count, buckets)."""
    jobs = (result.jobs[0] for result in results_of(case, count))
    return np.array([job.buckets / job.requested for job in jobs])


def seconds(result: sim.Result, job: int = 0) -> dict[str, float]:
    """Return the seconds of the whole gang by bucket, without the empty ones."""
    one = result.jobs[job]
    return {sim.JOB_BUCKETS[index]: amount / one.gpus for index, amount in enumerate(one.buckets) if abs(amount) > 1e-9}


def exact(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{seconds!r} s"


def exactly(**amounts: float) -> Any:
    """Return amounts for a comparison that leaves room for rounding alone."""
    return pytest.approx(amounts, abs=1e-9)


def losses(case: sim.Prepared, result: sim.Result, job: int = 0) -> dict[tuple[str, str], float]:
    """Return the seconds of the whole gang by bucket and cause, without the productive and the empty ones."""
    names = [NO_FAILURE, *(source.name for source in case.sources)]
    one = result.jobs[job]
    table = one.totals.sum(axis=0) / one.gpus
    return {
        (Bucket(bucket).name.lower(), names[cause]): float(table[bucket, cause])
        for bucket, cause in zip(*np.nonzero(np.abs(table) > 1e-9), strict=True)
        if bucket != Bucket.PRODUCTIVE
    }


def check_books(result: sim.Result) -> None:
    """Assert that ledgers close: the cluster's with all that is owned, a job's with all that it asked for.

    Nothing is negative in either, and what was productive is the work that is left.
    """
    assert result.cluster.sum() == pytest.approx(result.owned, rel=1e-9)
    assert result.cluster.min() >= -1e-6
    for job in result.jobs:
        rounding = 1e-6 * max(job.requested, 1.0)
        assert job.buckets.sum() == pytest.approx(job.requested, rel=1e-9, abs=1e-6)
        assert job.buckets.min() >= -rounding
        assert job.buckets[Bucket.PRODUCTIVE] == pytest.approx(job.work * job.gpus, rel=1e-9, abs=rounding)
        assert -rounding <= job.at_risk <= job.work + rounding
        assert sum(job.interruptions.values()) == sum(job.disruptions.values()) + job.merged


class _Watched(Simulation):
    """A simulation that looks at every node after every event, and into the books at the end."""

    def __init__(self, case: sim.Prepared, replication: int, failures: FailureTrace) -> None:
        super().__init__(case, replication, failures)
        self.held: set[int] = set()

    def run(self) -> sim.Result:
        """Play like the simulation itself, with a look after every event."""
        while self.is_open:
            self.kernel.step()
            self.events += 1
            self.look()
        result = self._result()
        check_books(result)
        return result

    def look(self) -> None:
        """Assert that each node is in exactly one place, and that the places agree with the counts."""
        cluster = self.cluster
        places = [cluster.where(node) for node in range(cluster.nodes)]
        for name, place in POOLS.items():
            pool = cluster.pools.get(name)
            assert places.count(place) == (pool.count if pool is not None else 0), name
        assert places.count(NodeState.STRANDED) == cluster.stranded.count
        assert {node for node, place in enumerate(places) if place is NodeState.REPAIR} == set(cluster.repairing)
        withheld = {node for node, place in enumerate(places) if place is NodeState.WITHHELD}
        assert withheld == set(range(self.prepared.serving, cluster.nodes)), "who is withheld never changes"
        down = {node for node, open_ in enumerate(cluster.outages) if open_}
        assert len(down - withheld) == cluster.down.count
        assert withheld <= down, "nobody may find a withheld node up"
        held: list[int] = []
        for job in self.jobs.all:
            mine = [node for node in job.nodes if node >= 0]
            if job.holding:
                held += mine
            missing = [position for group in (job.main, *job.away) for position in group.missing]
            assert sorted(missing) == [position for position, node in enumerate(job.nodes) if node < 0]
            assert job.main.replicas + sum(group.replicas for group in job.away) == job.replicas
            assert job.state.at_risk >= -1e-6
        assert len(held) == len(set(held)), "a node has two jobs"
        assert set(held) == {node for node, place in enumerate(places) if place is NodeState.JOB}
        for node in set(held) - self.held:
            assert cluster.outages[node] == 0, f"node {node} is down and was given to a job"
        self.held = set(held)
        for node, place in enumerate(places):
            group = cluster.group[node]
            assert group is None or group.job.nodes[cluster.position[node]] == node
            clock = self.failures.lives.nodes.get(node)
            assert clock is None or clock.group is (group and group.busy), f"the lives of node {node} run elsewhere"
            if place not in (NodeState.JOB, NodeState.REPAIR, NodeState.WITHHELD):
                assert cluster.outages[node] == 0, f"node {node} is down and waits for work"
            if place is NodeState.REPAIR:
                assert cluster.outages[node] > 0, f"node {node} is up and in repair"
        for unit in cluster.units.nodes if cluster.units is not None else ():
            found = {places[node] for node in unit} - {NodeState.REPAIR}
            assert len(found - {NodeState.MATE}) <= 1 or found == {NodeState.JOB, NodeState.STRANDED}, (
                f"unit {unit}: {found}"
            )
        assert places.count(NodeState.MATE) == cluster.mates.count


def ended(case: sim.Prepared, rows: Sequence[tuple[float, ...]]) -> Simulation:
    """Return a simulation on failures written by hand, looked at after every event, after its end."""
    simulation = _Watched(case, 0, trace(rows))
    simulation.run()
    return simulation


def nodes_at(simulation: Simulation, place: NodeState) -> list[int]:
    """Return the nodes at a place."""
    return [node for node in range(simulation.cluster.nodes) if simulation.cluster.where(node) is place]


def check_repair(parameters: dict[str, Any], draws: int = 3000, replications: int = 4) -> None:
    """Assert what every repair strategy owes.

    Courses are pure and end, with times that are not negative and tiers that exist; chances are those stated, by
    binomial intervals over marks; memory is frozen data. On small clusters that fail often each node is in one place
    after every event, the ledger closes (the engine raises if not) and every node comes back or is retired.
    """
    strategy = _repair(parameters)
    courses = [_course(strategy, _node_view(number), None)[0] for number in range(draws)]
    memory: Memory = None
    for number in range(30):
        _, memory = _course(strategy, _node_view(number), memory)
        assert math.isfinite(strategy.score(memory))
    _check_chances(strategy, [course for course in courses if not course.retires])
    _check_diagnoses(strategy, draws)
    for replication in range(replications):
        _check_no_node_is_lost(parameters, replication)
        _check_faults_that_stay(parameters, replication)


def _repair(parameters: dict[str, Any]) -> Any:
    """Validate a strategy as a file would be."""
    kind: Any = REPAIRS[parameters["use"]]
    return kind.model_validate(parameters)


def _node_view(number: int) -> NodeView:
    """Return a view of a node that is blamed for failure `number`, once every hour."""

    def mark(purpose: str) -> float:
        return rng.uniform_one(rng.stream(7, 0, "mark", purpose), number)

    return NodeView(3600.0 * number, "fault", "", 3000.0, mark)


def _course(strategy: Any, view: NodeView, memory: Memory) -> tuple[RepairPlan, Memory]:
    """Return a course that keeps the rules of every course."""
    course, after = strategy.course(view, memory)
    assert strategy.course(view, memory) == (course, after), "a course depends on what it sees and nothing else"
    assert 1 <= len(course.visits) < 10_000 or (course.retires and not course.visits)
    for visit in course.visits:
        assert -1 <= visit.tier < len(strategy.crews)
        assert 0 <= visit.seconds < math.inf
    assert hash(after) == hash(pickle.loads(pickle.dumps(after))), "memory is frozen data"
    assert pickle.loads(pickle.dumps(after)) == after
    return course, after


def _check_share(count: int, trials: int, probability: float, what: str) -> None:
    """A count lies in its binomial interval."""
    spread = math.sqrt(trials * probability * (1 - probability))
    assert abs(count - trials * probability) <= Z * spread + 1e-9 * trials, f"{what}: {count} of {trials}"


def _check_chances(strategy: Any, courses: Sequence[RepairPlan]) -> None:
    """Escalations, finds and successes are as frequent as the tiers say; stays are as long as their laws say."""
    if not hasattr(strategy, "tiers"):
        assert all(course.fixed for course in courses)
        times = [course.visits[0].seconds for course in courses]
        _check_mean(times, strategy.single_time.mean_value, "repair")
        return
    tiers, tests = strategy.tiers, strategy.qualification
    stays: list[list[float]] = [[] for _ in tiers]
    escalated, tested, found = ([0] * len(tiers) for _ in range(3))
    for course in courses:
        for here, following in itertools.pairwise((*course.visits, None)):
            assert here is not None
            if here.tier >= 0:
                tier = here.tier
                stays[tier].append(here.seconds)
                escalated[tier] += following is not None and following.tier >= 0
            else:
                tested[tier] += 1
                found[tier] += following is not None
    fixed = 0.0
    finds = tests.finds if tests is not None else 0.0
    for index, tier in reversed(list(enumerate(tiers))):
        _check_share(escalated[index], len(stays[index]), tier.escalates, f"'{tier.name}' escalates")
        _check_share(found[index], tested[index], (1 - tier.fixes) * finds, f"found after '{tier.name}'")
        _check_mean(stays[index], tier.time.mean_value, f"time of '{tier.name}'")
        again = (1 - tier.fixes) * finds
        # The last tier is its own next one.
        done = tier.fixes / (1 - again) if index == len(tiers) - 1 else tier.fixes + again * fixed
        fixed = tier.escalates * fixed + (1 - tier.escalates) * done
    if courses:
        _check_share(sum(course.fixed for course in courses), len(courses), fixed, "fixed")


def _check_mean(times: Sequence[float], mean: float, what: str) -> None:
    """The mean of drawn times lies within its standard error of that of the law."""
    if len(times) > 30:
        error = float(np.std(times, ddof=1)) / math.sqrt(len(times))
        assert abs(float(np.mean(times)) - mean) <= Z * error + 1e-9 * mean, what


def _check_diagnoses(strategy: Any, draws: int) -> None:
    """The right node, another one and none are blamed as often as the diagnosis says."""
    marks = [_node_view(number).mark for number in range(draws)]
    verdicts = [strategy.diagnose(mark) for mark in marks]
    assert verdicts == [strategy.diagnose(mark) for mark in marks]
    assert set(verdicts) <= {"right", "other", "none"}
    diagnosis = getattr(strategy, "diagnosis", None)
    finds, other = (diagnosis.finds, diagnosis.blames_other) if diagnosis is not None else (1.0, 0.0)
    _check_share(verdicts.count("none"), draws, 1 - finds, "nobody blamed")
    _check_share(verdicts.count("other"), draws, finds * other, "another node blamed")


def _check_no_node_is_lost(parameters: dict[str, Any], replication: int) -> None:
    """Long after the last failure every node has come back, but for those that were retired for good."""
    case = prepared(
        cluster={"nodes": 12, "gpus_per_node": 1, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 6}],
        horizon="10000 d",
        detection={"time": {"use": "exponential", "mean": "5 s"}},
        spares={"hot": 2},
        repair=parameters,
    )
    generator = np.random.default_rng(replication)
    rows = [
        (float(time), int(generator.integers(2)), int(generator.integers(12)))
        for time in generator.uniform(100.0, 4000.0, size=40)
    ]
    watched = _Watched(case, replication, trace(rows))
    counts = watched.run().counts
    out = [node for node in range(12) if watched.cluster.where(node) is NodeState.REPAIR]
    assert len(out) == (counts["retired"] if case.repair.replacement is None else 0)
    assert len(watched.cluster.repairing) == len(out)
    if case.repair.single_time is None:
        failed = counts["failures"] - counts["masked"] - counts["unblamed"]
        assert counts["repairs"] + counts["retired"] == failed, "each blame has one course"


def _check_faults_that_stay(parameters: dict[str, Any], replication: int) -> None:
    """The ledger closes with parts that fail often and faults that come back."""
    relapse: dict[str, Any] = {"after": {"use": "exponential", "mean": "200 s"}}
    if _repair(parameters).single_time is not None:
        relapse["probability"] = 0.3
    cause = {"use": "component", "part": "node", "relapse": relapse}
    case = prepared(
        cluster={"nodes": 12, "gpus_per_node": 1, "rack": {"nodes": 3}, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 6}],
        horizon="20000 s",
        windows="3000 s",
        failures=[
            {**cause, "name": "wall", "rate": "0.2 per node-h", "renews": "at_return"},
            {**cause, "name": "busy", "rate": "0.4 per node-h", "clock": "busy"},
            {"use": "component", "name": "rack", "part": "rack", "rate": "2 per rack-d", "repair": "100 s"},
        ],
        detection={"time": {"use": "exponential", "mean": "5 s"}},
        spares={"hot": 2},
        repair=parameters,
    )
    result = _Watched(case, replication, sim.trace(case, replication)).run()
    counts = result.counts
    assert counts["failures"] == counts["masked"] + counts["outside"] + counts["hits"]
    assert counts["hits"] + counts["outside"] > 5, "too quiet to show anything"


def check_lemons(policy: LemonPolicy, seed: int = 1) -> None:
    """Assert what every lemon policy owes.

    Its answers are pure and its memory frozen data, which does not grow with blames that are far apart; a node without
    blames looks best; blames at once make a lemon in the end; the same blames further apart never make one sooner.
    """
    generator = np.random.default_rng(seed)
    clean = policy.score(None)
    for _ in range(40):
        gaps = generator.exponential(float(generator.choice([600.0, 86400.0, 864000.0])), size=50)
        first = _first_lemon(policy, gaps.tolist())
        for stretch in (1.5, 4.0):
            assert _first_lemon(policy, (gaps * stretch).tolist()) >= first, "more time between blames looks worse"
    assert _first_lemon(policy, [1e-3] * 10_000) < 10_000, "nobody is ever a lemon"
    memory: Memory = None
    sizes = []
    for number in range(1, 400):
        memory, _ = policy.blame(memory, 1e8 * number, 1e8)
        sizes.append(len(pickle.dumps(memory)))
        assert policy.score(memory) <= clean
    assert max(sizes[100:]) <= max(sizes[:100]), "a memory that only grows"


def _first_lemon(policy: LemonPolicy, gaps: Sequence[float]) -> int:
    """Return which blame makes a lemon, counted from zero; the number of blames if none does."""
    memory: Memory = None
    time = 0.0
    for number, gap in enumerate(gaps):
        time += gap
        before = memory
        memory, lemon = policy.blame(before, time, gap)
        assert policy.blame(before, time, gap) == (memory, lemon), "a decision depends on what it sees"
        assert hash(memory) == hash(pickle.loads(pickle.dumps(memory))), "memory is frozen data"
        assert policy.score(memory) <= policy.score(None)
        if lemon:
            return number
    return len(gaps)
