"""What every kind of strategy must satisfy, and the small scenarios that the tests play by hand.

One ``check_`` function per kind: a new strategy calls the one of its kind and adds a case worked out by hand.
"""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

import sim
from sim.cluster import Place, Reserve
from sim.contracts import NO_FAILURE, Bucket, CheckpointState, Pace, QueuedJob
from sim.engine import Simulation
from sim.failures import FailureTrace, draw_trace
from sim.failures.trace import life_key
from sim.topology import edges, to_networkx
from sim.topology.model import VERTEX_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sim.checkpoint import Periodic
    from sim.contracts import SchedulerStrategy
    from sim.failures import Source
    from sim.topology import Topology

__all__ = [
    "Z",
    "check_checkpoint",
    "check_recovery",
    "check_scheduler",
    "check_source",
    "check_topology",
    "losses",
    "play",
    "prepared",
    "scenario",
    "seconds",
    "step_by_step",
    "trace",
]

Z = 4.0
"""Half width of a tolerance in standard errors: one false alarm in 16,000 checks."""

# ------------------------------------------------------------------------------------------ cases by hand


def scenario(**changes: Any) -> dict[str, Any]:
    """Return plain data of a tiny scenario: one GPU a node, so that GPU-seconds are node-seconds.

    Its one source never draws a failure in a test: failures come from :func:`trace`.
    """
    cause = {"use": "component", "part": "node", "law": {"law": "exponential", "mean": "1000 d"}, "renews": "never"}
    base: dict[str, Any] = {
        "name": "case",
        "cluster": {"use": "fat-tree", "nodes": 4, "gpus_per_node": 1, "rails": 1},
        "horizon": "1000 s",
        "jobs": [{"name": "job", "gpus": 2}],
        "failures": [{**cause, "name": "first"}, {**cause, "name": "second"}],
        "detection": {"time": "0 s"},
        "checkpoint": {
            "tiers": [{"interval": "100 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}],
        },
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


def seconds(result: sim.Result, job: int = 0) -> dict[str, float]:
    """Return the seconds of the whole gang by bucket, without the empty ones."""
    one = result.jobs[job]
    return {sim.JOB_BUCKETS[index]: amount / one.gpus for index, amount in enumerate(one.buckets) if abs(amount) > 1e-9}


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


# -------------------------------------------------------------------------------------------- checkpoints


@dataclass
class _Stepper:
    """Progress one save at a time, with nothing clever: the rival of the closed form."""

    periodic: Periodic
    pace: Pace
    committed: float = 0.0
    at_risk: float = 0.0
    position: float = 0.0
    draining: float = 0.0
    drain_left: float = 0.0
    stepped: float = 0.0

    def advance(self, span: float) -> None:
        """Live through `span` seconds."""
        interval = max(self.periodic.interval, self.periodic.drain)
        if self.pace.step > 0:
            interval = math.ceil(interval / self.pace.step - 1e-9) * self.pace.step
        cycle = interval + self.periodic.stall
        left = span
        while left > 0:
            stepping = self.position < interval
            part = min(left, (interval if stepping else cycle) - self.position)
            if self.draining:
                part = min(part, self.drain_left)
            self.position += part
            left -= part
            if stepping:
                self.at_risk += part * self.pace.rate
                self.stepped += part
            if self.draining:
                self.drain_left -= part
                if self.drain_left <= 1e-12 * cycle:
                    self._commit()
            # Rounding must not leave a sliver of a phase.
            if abs(self.position - interval) <= 1e-12 * cycle:
                self.position = interval
            if self.position >= cycle * (1 - 1e-12):
                self.position = 0.0
                self.draining, self.drain_left = self.at_risk, self.periodic.drain
                if self.periodic.drain == 0:
                    self._commit()

    def _commit(self) -> None:
        self.committed += self.draining
        self.at_risk -= self.draining
        self.draining = self.drain_left = 0.0


def step_by_step(periodic: Periodic, pace: Pace, spans: Iterable[float]) -> tuple[float, float, float]:
    """Return committed work, work at risk and time spent stepping [s] after `spans`, one save at a time."""
    stepper = _Stepper(periodic, pace)
    for span in spans:
        stepper.advance(span)
    return stepper.committed, stepper.at_risk, stepper.stepped


def check_checkpoint(periodic: Periodic, step: float = 0.0, seed: int = 1) -> None:
    """Assert that a closed form of progress is one: conserved, monotone, additive, equal to single saves."""
    generator = np.random.default_rng(seed)
    cycle = periodic.stepping(Pace(1.0, step)) + periodic.stall
    for rate in (1.0, 0.5):
        pace = Pace(rate, step)
        for _ in range(40):
            spans = generator.exponential(generator.choice([0.05, 0.5, 3.0]) * cycle, size=6)
            _check_spans(periodic, pace, spans.tolist())
            _check_time_to(periodic, pace, spans.tolist())
    _check_roll_back(periodic, Pace(1.0, step), generator)
    _check_change_of_pace(periodic, step, generator)


def _check_spans(periodic: Periodic, pace: Pace, spans: list[float]) -> None:
    """Additive over splits, conserved and monotone; equal to stepping through the same spans."""
    state = CheckpointState()
    stepped = 0.0
    for span in spans:
        after, part = periodic.advance(state, pace, span)
        scale = max(sum(spans), 1.0)
        assert -1e-9 * scale <= part <= span + 1e-9 * scale
        assert after.committed >= state.committed
        assert after.committed + after.at_risk >= state.committed + state.at_risk - 1e-9 * scale
        assert 0 <= after.draining <= after.at_risk + 1e-9 * scale
        state, stepped = after, stepped + part
        assert state.committed + state.at_risk == pytest.approx(stepped * pace.rate, rel=1e-9)
    # With the rate of a healthy job, every second is committed, at risk, or was a stall.
    elapsed = sum(spans)
    once, stepped_once = periodic.advance(CheckpointState(), pace, elapsed)
    tolerance = 1e-9 * max(elapsed, 1.0)
    assert (once.committed + once.at_risk) / pace.rate + (elapsed - stepped_once) == pytest.approx(elapsed, rel=1e-9)
    assert tuple(once) == pytest.approx(tuple(state), abs=tolerance)
    assert stepped_once == pytest.approx(stepped, abs=tolerance)
    plain = step_by_step(periodic, pace, spans)
    assert (once.committed, once.at_risk, stepped_once) == pytest.approx(plain, abs=tolerance)


def _check_time_to(periodic: Periodic, pace: Pace, spans: list[float]) -> None:
    """The announced time does the work, and no shorter time does."""
    state, _ = periodic.advance(CheckpointState(), pace, spans[0])
    for work in (spans[1], spans[1] + spans[2]):
        needed = periodic.time_to(state, pace, work)
        after, stepped = periodic.advance(state, pace, needed)
        assert stepped * pace.rate == pytest.approx(work, rel=1e-9)
        assert after.committed + after.at_risk == pytest.approx(state.committed + state.at_risk + work, rel=1e-9)
        sooner = needed - 1e-3 * work / pace.rate
        if sooner > 0:
            assert periodic.advance(state, pace, sooner)[1] * pace.rate < work
    assert periodic.time_to(CheckpointState(), pace, 0.0) == 0.0


def _check_roll_back(periodic: Periodic, pace: Pace, generator: np.random.Generator) -> None:
    """``stored`` keeps what is durable and nothing else; ``peer`` loses less than a step; drains are void."""
    interval = periodic.stepping(pace)
    for span in generator.uniform(0, 4 * (interval + periodic.stall), size=60):
        state, _ = periodic.advance(CheckpointState(), pace, float(span))
        assert periodic.roll_back(state, "stored", pace) == CheckpointState(committed=state.committed)
        assert periodic.restore_time(state, "stored") == (periodic.restore if state.committed else 0.0)
        peer = periodic.roll_back(state, "peer", pace)
        assert peer.committed == state.committed
        assert peer.draining == 0.0
        lost = state.at_risk - peer.at_risk
        assert 0 <= lost <= max(pace.step, 0.0)
        if pace.step > 0:
            whole = (peer.committed + peer.at_risk) / pace.step
            assert whole == pytest.approx(round(whole), abs=1e-6), "what is left is whole steps"
        else:
            assert lost == 0.0
        assert periodic.restore_time(state, "peer") == 0.0
        # A save that was under way is gone: nothing becomes durable before the next save is complete.
        later, _ = periodic.advance(peer, pace, 0.999 * max(interval - peer.position, 0.0))
        assert later.committed == peer.committed


def _check_change_of_pace(periodic: Periodic, step: float, generator: np.random.Generator) -> None:
    """A slower or faster pace in the middle keeps every second in its place."""
    for _ in range(40):
        state = CheckpointState()
        work = 0.0
        for span in generator.exponential(periodic.interval, size=8):
            slow = float(generator.choice([0.25, 0.5, 0.75, 1.0]))
            pace = Pace(slow, step / slow)
            after, stepped = periodic.advance(state, pace, float(span))
            assert -1e-9 * span <= stepped <= span * (1 + 1e-9), "no more stepping than there was time"
            assert after.committed >= state.committed
            work += stepped * slow
            state = after
            assert state.committed + state.at_risk == pytest.approx(work, rel=1e-9, abs=1e-9)


# ------------------------------------------------------------------------------------------------ sources


def check_source(source: Source, horizon: float, seed: int = 1) -> None:
    """Assert that a source draws what it says, and that no draw depends on anything but its address."""
    _check_law(source, seed)
    _check_counts(source, horizon, seed)
    _check_prefixes(source, horizon, seed)
    _check_names(source, horizon, seed)


def _candidates(
    sources: Sequence[Source], horizon: float, seed: int, replication: int = 0, index: int = 0
) -> list[tuple[float, int, int]]:
    """Return (time, slot, round) of the candidates of one source."""
    drawn = draw_trace(sources, horizon, seed, replication)
    mine = drawn.source == index
    return list(
        zip(drawn.time[mine].tolist(), drawn.slot[mine].tolist(), drawn.round[mine].tolist(), strict=True),
    )


def _check_law(source: Source, seed: int) -> None:
    """First lives follow the law (Kolmogorov-Smirnov), one per unit."""
    from scipy.stats import kstest

    assert source.law is not None
    many = replace(source, units=max(source.units, 4000), renews="never")
    drawn = draw_trace([many], math.inf, seed, 0)
    assert np.array_equal(np.sort(drawn.slot), np.arange(many.units))
    # Uniform numbers are easier on the test's interface than a CDF of arrays.
    assert kstest(source.law.cdf(drawn.time), "uniform").pvalue > 1e-4
    assert np.isnan(drawn.until).all()


def _check_counts(source: Source, horizon: float, seed: int) -> None:
    """The mean number of candidates lies in the interval of its theory.

    A first life ends inside the horizon with probability F(horizon); a unit that renews at failure counts like a
    renewal process, sampled here with another generator.
    """
    assert source.law is not None
    replications = 40
    counts = [len(_candidates([source], horizon, seed, number)) for number in range(replications)]
    if source.all_known_ahead and source.renews == "at_failure":
        expected, spread = _renewal_counts(source, horizon, replications)
    else:
        share = float(source.law.cdf(np.asarray([horizon]))[0])
        expected, spread = source.units * share, math.sqrt(source.units * share * (1 - share) / replications)
    assert abs(float(np.mean(counts)) - expected) <= Z * spread + 1e-9


def _renewal_counts(source: Source, horizon: float, replications: int) -> tuple[float, float]:
    """Return mean count of a population and the standard error of the difference of two means of `replications`."""
    assert source.law is not None
    generator = np.random.default_rng(2024)
    age = np.zeros((replications, source.units))
    counts = np.zeros(replications)
    while True:
        age += source.law.ppf(generator.random(age.size)).reshape(age.shape)
        inside = (age < horizon).sum(axis=1)
        if not inside.any():
            return float(counts.mean()), float(counts.std(ddof=1)) * math.sqrt(2 / replications)
        counts += inside


def _check_prefixes(source: Source, horizon: float, seed: int) -> None:
    """A longer horizon and a larger population keep every earlier candidate to the last bit."""
    short = _candidates([source], horizon, seed)
    assert short, "an empty trace shows nothing"
    longer = _candidates([source], 2.5 * horizon, seed)
    assert [row for row in longer if row[0] < horizon] == short
    assert len(longer) > len(short) or len(short) == source.units
    larger = _candidates([replace(source, units=2 * source.units + 1)], horizon, seed)
    assert sorted(row for row in larger if row[1] < source.units) == sorted(short)
    assert len(larger) > len(short)


def _check_names(source: Source, horizon: float, seed: int) -> None:
    """Lives belong to a name, a seed and a replication, not to a place in a list; each address draws its own."""
    alone = _candidates([source], horizon, seed)
    other = replace(source, name=f"not {source.name}")
    assert _candidates([other, source], horizon, seed, index=1) == alone
    assert _candidates([source, other], horizon, seed, index=0) == alone
    assert _candidates([source], horizon, seed) == alone
    times = {row[0] for row in alone}
    for rival in (
        _candidates([other], horizon, seed),
        _candidates([source], horizon, seed + 1),
        _candidates([source], horizon, seed, 1),
    ):
        assert times.isdisjoint(row[0] for row in rival)
    assert life_key(source, seed, 0) != life_key(other, seed, 0)


# ------------------------------------------------------------------------------------- recovery, scheduler


class _Watched(Simulation):
    """A simulation that looks at every node after every event."""

    def __init__(self, case: sim.Prepared, replication: int, failures: FailureTrace) -> None:
        super().__init__(case, replication, failures)
        self.held: set[int] = set()

    def run(self) -> sim.Result:
        """Play like the simulation itself, with a look after every event."""
        while self.is_open:
            self.kernel.step()
            self.events += 1
            self.look()
        return self._result()

    def look(self) -> None:
        """Assert that each node is in exactly one place, and that the places agree with the counts."""
        cluster = self.cluster
        places = [cluster.where(node) for node in range(cluster.nodes)]
        assert places.count(Place.IDLE) == cluster.idle.count
        assert places.count(Place.SPARE) == cluster.spare.count
        assert {node for node, place in enumerate(places) if place is Place.REPAIR} == set(cluster.repairing)
        assert sum(1 for open_ in cluster.outages if open_) == cluster.down.count
        held: list[int] = []
        for job in self.jobs:
            mine = [node for node in job.nodes if node >= 0]
            if job.holding:
                held += mine
            missing = [position for group in (job.main, *job.away) for position in group.missing]
            assert sorted(missing) == [position for position, node in enumerate(job.nodes) if node < 0]
            assert job.main.replicas + sum(group.replicas for group in job.away) == job.replicas
            assert job.state.at_risk >= -1e-6
        assert len(held) == len(set(held)), "a node has two jobs"
        assert set(held) == {node for node, place in enumerate(places) if place is Place.JOB}
        for node in set(held) - self.held:
            assert cluster.outages[node] == 0, f"node {node} is down and was given to a job"
        self.held = set(held)
        for node, place in enumerate(places):
            if place in (Place.IDLE, Place.SPARE):
                assert cluster.outages[node] == 0, f"node {node} is down and waits for work"


def check_recovery(parameters: dict[str, Any], replications: int = 12, **changes: Any) -> None:
    """Assert what every recovery strategy owes, on small clusters that fail often.

    It never takes a node that is down; each node is in one place after every event; the ledger closes (the engine
    raises if not); a job does no more work than without failures; without failures it does exactly that.
    """
    failures = [
        {
            "use": "component",
            "name": "node",
            "part": "node",
            "rate": "1 per node-h",
        },
        {"use": "component", "name": "rack", "part": "rack", "rate": "4 per rack-d", "repair": "50 s"},
        {"use": "job", "name": "software", "rate": "1 per job-h"},
    ]
    common: dict[str, Any] = {
        "cluster": {"use": "fat-tree", "nodes": 12, "gpus_per_node": 1, "rails": 1, "rack": {"nodes": 2}},
        "horizon": "5000 s",
        "jobs": [{"name": "job", "gpus": 8, "step_time": "3 s", "parallelism": {"data": 4, "tensor": 2}}],
        "failures": failures,
        "detection": {"time": {"law": "exponential", "mean": "5 s"}},
        "repair": {"time": {"law": "exponential", "mean": "300 s"}},
        "spares": {"hot": 2},
        "recovery": parameters,
    }
    case = prepared(**(common | changes))
    hits = 0
    for spares, replication in itertools.product((0, 2), range(replications)):
        one = replace(case, reserves={"spare": Reserve(spares)})
        quiet = _Watched(one, replication, trace(())).run()
        noisy = _Watched(one, replication, sim.trace(one, replication)).run()
        assert seconds(quiet).keys() <= {"productive", "checkpoint_stall", "initialize", "queued"}
        for with_failures, without in zip(noisy.jobs, quiet.jobs, strict=True):
            assert with_failures.work <= without.work * (1 + 1e-9)
            assert with_failures.buckets[Bucket.PRODUCTIVE] == pytest.approx(with_failures.work * with_failures.gpus)
            hits += sum(with_failures.interruptions.values())
            assert sum(with_failures.interruptions.values()) == (
                sum(with_failures.disruptions.values()) + with_failures.merged
            )
        assert noisy.cluster.sum() == pytest.approx(noisy.owned, rel=1e-9)
        assert (noisy.cluster >= -1e-6).all()
    assert hits > 20 * replications / 12, "too quiet to show anything"


def check_scheduler(scheduler: SchedulerStrategy, *, work_conserving: bool, seed: int = 1) -> None:
    """Assert that a scheduler starts whole gangs, each once, and never gives a node away twice.

    `work_conserving` says that the scheduler claims to start the first job that fits whenever one does.
    """
    generator = np.random.default_rng(seed)
    for _ in range(300):
        sizes = generator.integers(1, 20, size=int(generator.integers(0, 8))).tolist()
        queue = tuple(QueuedJob(f"job {index}", size, float(index)) for index, size in enumerate(sizes))
        free = int(generator.integers(0, 40))
        chosen = scheduler.select(queue, free)
        assert chosen == scheduler.select(queue, free), "a decision depends on what it sees and nothing else"
        assert len(set(chosen)) == len(chosen), "a job starts once"
        assert set(chosen) <= set(range(len(queue)))
        used = sum(sizes[position] for position in chosen)
        assert used <= free, "a node was given away twice"
        left = [size for position, size in enumerate(sizes) if position not in chosen]
        if work_conserving:
            assert all(size > free - used for size in left), "a job that fits was left waiting"
        elif left:
            assert chosen or sizes[0] > free, "the first in the queue fits and does not start"


# --------------------------------------------------------------------------------------------- topologies

PARTS = ("gpu", "node", "nic", *VERTEX_PARTS[1:], "pod", "rack", "power")
DOMAINS = ("leaf", "pod", "rack", "power")


def check_topology(topology: Topology) -> None:
    """Assert what the rest of the simulator relies on."""
    _check_counts_and_domains(topology)
    _check_members(topology)
    _check_edges(topology)
    _check_copy(topology)
    if topology.nodes <= 600:
        graph = to_networkx(topology)
        assert nx.is_connected(graph)
        switches = graph.subgraph(range(topology.nodes, len(graph)))
        assert nx.is_connected(switches), "hosts must not be needed to carry transit"


def _check_counts_and_domains(topology: Topology) -> None:
    assert set(PARTS) <= set(topology.counts)
    assert all(count >= 0 for count in topology.counts.values())
    assert topology.counts["gpu"] == topology.nodes * topology.gpus_per_node
    assert topology.counts["node"] == topology.nodes
    assert topology.counts["nic"] == topology.nodes * topology.rails
    assert set(DOMAINS) <= set(topology.domains)
    for domain, ids in topology.domains.items():
        assert ids.shape == (topology.nodes,), domain
        assert ids.dtype == np.int32, domain
        assert not ids.flags.writeable, domain
        assert np.array_equal(np.unique(ids), np.arange(ids.max() + 1)), f"{domain}: an id without a node"
    for domain in ("pod", "rack", "power"):
        assert topology.domains[domain].max() + 1 == topology.counts[domain], domain
    assert topology.bandwidth["leaf"] >= topology.bandwidth["pod"] >= topology.bandwidth["cluster"] > 0
    with pytest.raises(TypeError):
        topology.counts["gpu"] = 0  # type: ignore[index]


def _check_members(topology: Topology) -> None:
    for part, count in topology.counts.items():
        offsets, nodes = topology.members(part)
        assert offsets.shape == (count + 1,), part
        assert offsets[0] == 0, part
        assert offsets[-1] == nodes.size, part
        assert np.all(np.diff(offsets) >= 0), part
        assert nodes.dtype == np.int32, part
        assert nodes.size == 0 or (nodes.min() >= 0 and nodes.max() < topology.nodes), part
    for part in ("pod", "rack", "power"):
        offsets, nodes = topology.members(part)
        assert np.array_equal(np.sort(nodes), np.arange(topology.nodes)), f"{part}: not a partition of the nodes"
        units = np.repeat(np.arange(topology.counts[part]), np.diff(offsets))
        assert np.array_equal(topology.domains[part][nodes], units), part
    for part, each in (("gpu", topology.gpus_per_node), ("nic", topology.rails), ("node", 1)):
        assert np.array_equal(topology.members(part).nodes, np.repeat(np.arange(topology.nodes), each)), part
    with pytest.raises(ValueError, match="no part"):
        topology.members("flux capacitor")


def _check_edges(topology: Topology) -> None:
    cables = edges(topology)
    tiers = [topology.counts[name] for name in ("cable_node_leaf", "cable_leaf_spine", "cable_spine_core")]
    assert np.bincount(cables.tier, minlength=3).tolist() == tiers
    for tier in range(3):
        here = cables.tier == tier
        for ends, part in ((cables.lower, VERTEX_PARTS[tier]), (cables.upper, VERTEX_PARTS[tier + 1])):
            assert np.isin(ends[here], np.asarray(topology.vertices(part))).all(), f"tier {tier} does not end on {part}"
    assert np.all(cables.bandwidth > 0)
    access = cables.tier == 0
    endpoints = cables.lower[access].astype(np.int64) * topology.rails + cables.rail[access]
    assert np.array_equal(np.sort(endpoints), np.arange(topology.counts["nic"])), "every NIC has its cable"
    assert np.all(cables.rail[~access] == -1)
    # The leaf switches that the cables reach from a node are those whose failure takes it.
    offsets, nodes = topology.members("leaf")
    leaf = np.repeat(np.asarray(topology.vertices("leaf")), np.diff(offsets))
    by_members = np.unique(np.stack((nodes, leaf)), axis=1)
    by_cables = np.unique(np.stack((cables.lower[access], cables.upper[access])), axis=1)
    assert np.array_equal(by_members, by_cables)


def _check_copy(topology: Topology) -> None:
    copy = pickle.loads(pickle.dumps(topology))
    assert copy.counts == topology.counts
    for domain, ids in topology.domains.items():
        assert np.array_equal(copy.domains[domain], ids)
        assert not copy.domains[domain].flags.writeable
    assert np.array_equal(edges(copy).upper, edges(topology).upper)
