"""After every event each node is in exactly one place, and everything that points at something else is right."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.sim.cluster.placement import RankLayout, loss_of_host, positions, spans, stranded_gpus
from ettrick.sim.engine.nodes import NodeState, PackedPool
from ettrick.sim.engine.prepared import AllocationUnits
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.scenario.model import Parallelism
from tests import harness
from tests.cases import cases
from tests.harness import _Watched
from tests.property.common import MOST_EVENTS, Scenario, examples, play, prepare
from tests.strategies import scenarios
from tests.typed import present

if TYPE_CHECKING:
    from ettrick.sim.engine.holders import Job, ReplicaGroup

# ----------------------------------------
# Placement of ranks against a walk over all of them in plain Python, for layouts of any order.

KINDS = ("tensor", "context", "expert", "data", "pipeline")

LEVELS = ("scale_up", "leaf", "pod")

Ranks = tuple[int, ...]


class Walk(NamedTuple):
    """What a walk over all ranks finds: replicas in the order in which they are met, and groups of each kind."""

    replica: list[int]
    groups: dict[str, list[Ranks]]


def walk(shape: Parallelism) -> Walk:
    """Walk over all ranks, the last kind of the order in the outermost loop."""
    expert = shape.expert
    wide = shape.data % expert != 0
    if wide:
        expert //= shape.context
    sizes = {**shape.model_dump(include={"tensor", "context", "pipeline"}), "expert": expert}
    sizes["data"] = shape.data // expert
    slowest_first = shape.order[::-1]
    met: dict[tuple[int, int], int] = {}
    replica = []
    rows: dict[str, dict[Ranks, list[int]]] = {kind: {} for kind in KINDS}
    for rank, values in enumerate(itertools.product(*(range(sizes[kind]) for kind in slowest_first))):
        at = dict(zip(slowest_first, values, strict=True))
        replica.append(met.setdefault((at["expert"], at["data"]), len(met)))
        for kind in KINDS:
            same = set(KINDS) - {kind}
            same -= {"expert"} if kind == "data" else {"context"} if kind == "expert" and wide else set()
            rows[kind].setdefault(tuple(at[name] for name in sorted(same)), []).append(rank)
    return Walk(replica, {kind: [tuple(ranks) for ranks in found.values()] for kind, found in rows.items()})


def failure_groups(replica: list[int], each: int) -> list[set[int]]:
    """Return sets of hosts that leave together, by merging sets until nothing is shared."""
    merged: list[tuple[set[int], set[int]]] = []
    for host in range(len(replica) // each):
        hosts, replicas = {host}, set(replica[host * each : (host + 1) * each])
        for other in [one for one in merged if one[1] & replicas]:
            merged.remove(other)
            hosts |= other[0]
            replicas |= other[1]
        merged.append((hosts, replicas))
    return sorted((hosts for hosts, _ in merged), key=min)


@st.composite
def layouts(draw: st.DrawFn) -> RankLayout:
    """Draw a small layout, with hosts that its ranks fill."""
    data, context = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    parts = [part for part in range(1, data + 1) if data % part == 0]
    shape = Parallelism.model_validate(
        {
            "tensor": draw(st.integers(1, 6)),
            "context": context,
            "pipeline": draw(st.integers(1, 4)),
            "data": data,
            "expert": draw(st.sampled_from([*parts, *(context * part for part in parts)])),
            "order": draw(st.permutations(KINDS)),
        }
    )
    each = draw(st.sampled_from([each for each in range(1, 17) if shape.gpus % each == 0]))
    return RankLayout(shape, each)


@examples(200)
@given(layouts())
def test_groups(layout: RankLayout) -> None:
    """Groups join the ranks that the walk joins, in the order in which it meets them; each rank is told its own."""
    found = walk(layout.parallelism)
    ranks = np.arange(layout.parallelism.gpus)
    for kind in layout.sizes:
        assert [tuple(row) for row in layout.members(kind).tolist()] == found.groups[kind]
        own = layout.group(kind, ranks)
        assert all(rank in found.groups[kind][own[rank]] for rank in ranks)
        assert layout.size(kind) == len(found.groups[kind][0])
    assert layout.replica_of_rank.tolist() == found.replica
    at = layout.coordinates(ranks)
    assert len(set(zip(*(values.tolist() for values in at.values()), strict=True))) == len(ranks)


@examples(200)
@given(layouts())
def test_what_leaves_together(layout: RankLayout) -> None:
    """Failure groups are what the merging of hosts and replicas ends with; they are alike, and stand side by side."""
    replica, each = walk(layout.parallelism).replica, layout.gpus_per_node
    expected = failure_groups(replica, each)
    assert layout.failure_groups == len(expected)
    assert [set(np.flatnonzero(layout.group_of_host == number).tolist()) for number in range(len(expected))] == expected
    assert len({len(hosts) for hosts in expected}) == 1
    place = positions(layout).tolist()
    assert sorted(range(layout.hosts), key=place.__getitem__) == [host for hosts in expected for host in sorted(hosts)]
    assert layout.shared == max(len(set(replica[first : first + each])) for first in range(0, len(replica), each))


@examples(100)
@given(layouts(), st.data())
def test_loss_of_a_host(layout: RankLayout, data: st.DataObject) -> None:
    """A lost host takes a rank of exactly the groups and replicas that have one there."""
    host = data.draw(st.integers(0, layout.hosts - 1))
    found = walk(layout.parallelism)
    lost = set(range(host * layout.gpus_per_node, (host + 1) * layout.gpus_per_node))
    loss = loss_of_host(layout, host)
    assert loss.replicas == tuple(sorted({found.replica[rank] for rank in lost}))
    for kind, groups in found.groups.items():
        expected = tuple(number for number, ranks in enumerate(groups) if lost & set(ranks) and len(ranks) > 1)
        assert getattr(loss, f"{kind}_groups") == expected


@examples(200)
@given(layouts(), st.data())
def test_spans(layout: RankLayout, data: st.DataObject) -> None:
    """Spans are those of the worst group, on any nodes, whether or not domains nest."""
    count = layout.hosts + data.draw(st.integers(0, 3))
    ids: dict[str, Any] = {}
    for level in LEVELS:
        most = data.draw(st.integers(0, 3))
        ids[level] = np.array(data.draw(st.lists(st.integers(0, most), min_size=count, max_size=count)), np.int32)
    nodes = data.draw(st.permutations(range(count)))[: layout.hosts]
    got = spans(layout, ids, np.array(nodes))
    groups = {kind: rows for kind, rows in walk(layout.parallelism).groups.items() if len(rows[0]) > 1}
    assert set(got) == set(groups)
    for kind, span in got.items():
        on = [[nodes[rank // layout.gpus_per_node] for rank in ranks] for ranks in groups[kind]]
        reached = [
            next((place for place, level in enumerate(LEVELS) if len({ids[level][node] for node in row}) == 1), 3)
            for row in on
        ]
        assert span.level == (*LEVELS, "cluster")[max(reached)]
        inside = [[ids["scale_up"][node] for node in row] for row in on]
        assert span.per_domain == min(row.count(domain) for row in inside for domain in row)
        assert span.domains == max(len(set(row)) for row in inside)
        assert (span.size, span.groups) == (len(on[0]), len(on))
        assert span.domain_gpus == max(np.bincount(ids["scale_up"])) * layout.gpus_per_node


@examples(50)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=10), st.integers(1, 12))
def test_stranded(lost: list[int], use: int) -> None:
    """Healthy GPUs are stranded one by one in domains that have too few of them."""
    expected = sum(1 for failed in lost for gpu in range(12) if gpu >= failed and 12 - failed < use)
    assert stranded_gpus(np.array(lost), 12, use) == expected


WAITS = (NodeState.IDLE, NodeState.SPARE, NodeState.WARM, NodeState.COLD, NodeState.STRANDED, NodeState.MATE)


class _Recounted(_Watched):
    """A simulation that recounts what it keeps beside the places of nodes, after every event."""

    def look(self) -> None:
        """Look at every node and every job."""
        super().look()
        _check_nodes(self)
        _check_pools(self)
        _check_units(self)
        _check_faults(self)
        for job in self.jobs.all:
            _check_job(job, self.kernel.now)
        assert self.events < MOST_EVENTS, f"{self.events} events, and it is {self.kernel.now} of {self.end} s"


def _check_nodes(simulation: Simulation) -> None:
    """Nodes, positions, groups and clocks point at each other."""
    cluster = simulation.cluster
    for node in range(cluster.nodes):
        place, group = cluster.where(node), cluster.group[node]
        if place in WAITS:
            assert cluster.outages[node] == 0
        elif place in (NodeState.REPAIR, NodeState.WITHHELD):
            assert cluster.outages[node] > 0
            assert group is None
        else:
            assert cluster.outages[node] == 0 or node in [suspect for suspect, _ in present(group).suspects]
        if group is not None:
            assert place in (NodeState.JOB, NodeState.IDLE)
            assert group.job.nodes[cluster.position[node]] == node
            assert cluster.position[node] in _positions(group)
        clock = simulation.failures.lives.nodes.get(node)
        assert clock is None or clock.group is (group.busy if group is not None else None)
    seated = [node for job in simulation.jobs.all for node in job.nodes if node >= 0]
    assert len(seated) == len(set(seated))


def _check_pools(simulation: Simulation) -> None:
    """A pool that is filled up holds no more than it should, and gives out every node that is in it."""
    cluster = simulation.cluster
    for name, pool in cluster.pools.items():
        assert name == "idle" or pool.count <= pool.target
        if isinstance(pool, PackedPool):
            entries = {node for heap in pool.heaps.values() for node in heap}
        else:
            entries = {entry if pool.rank is None else entry[1] for entry in pool.entries}
            entries.update(pool.run[pool.passed :])
        assert {node for node in range(cluster.nodes) if cluster.place[node] == pool.place} <= entries
    assert all(crews.free >= 0 and not (crews.free and crews.waiting) for crews in simulation.repair.crews.values())


def _check_units(simulation: Simulation) -> None:
    """A unit is in use, with as many nodes as are needed in one pool or at places of one job, or it is broken."""
    cluster = simulation.cluster
    units = cluster.units
    if units is None:
        return
    assert cluster.units_whole.count == units.is_broken.count(False)
    for index, unit in enumerate(units.nodes):
        places = [cluster.where(node) for node in unit]
        if units.is_broken[index]:
            held = [node for node, place in zip(unit, places, strict=True) if place is NodeState.JOB]
            assert bool(held) == (index in units.torn)
            assert set(places) <= {NodeState.REPAIR, NodeState.STRANDED} | ({NodeState.JOB} if held else set())
            waiting = places.count(NodeState.STRANDED)
            assert held or waiting < (len(unit) if units.drains else units.needed), f"unit {unit} could be used"
            # A job lets go of what is broken when it knows of a failure: only a domain that drains breaks under it.
            assert units.drains or not held
            continue
        active = [
            node for node, place in zip(unit, places, strict=True) if place not in (NodeState.REPAIR, NodeState.MATE)
        ]
        assert len(active) == units.needed, f"unit {unit}: {places}"
        assert len({(cluster.place[node], cluster.group[node]) for node in active}) == 1, f"unit {unit}: {places}"
        assert NodeState.STRANDED not in places
        assert not units.drains or NodeState.REPAIR not in places


def _check_faults(simulation: Simulation) -> None:
    """What is open on a node is open, and names the node; hidden faults are those of their node."""
    for node, faults in simulation.failures.silent.of_node.items():
        assert faults
        assert all(fault.is_open and node in fault.nodes for fault in faults)
    for node, lives in simulation.failures.hidden.open.items():
        assert all(life.node == node for life in lives)
        hidden = [life.source for life in lives if simulation.failures.infos[life.source].source.hidden is not None]
        assert len(hidden) == len(set(hidden)), "a node has one hidden fault of a kind"


def _positions(group: ReplicaGroup) -> list[int]:
    """Return the positions of the job that belong to a group."""
    job = group.job
    width = job.nodes_per_replica
    if group is not job.main:
        return list(range(group.first, group.first + width))
    away = {replica.first // width for replica in job.away}
    return [position for position in range(job.nodes_needed) if position // width not in away]


def _check_job(job: Job, now: float) -> None:
    """A job, its groups and their positions fit together."""
    groups = [job.main, *job.away]
    assert sum(group.replicas for group in groups) == job.replicas
    for group in groups:
        empty = [position for position in _positions(group) if job.nodes[position] < 0]
        assert sorted(group.missing) == empty
        assert group.since <= now or not job.arrival <= now
        assert job.holding or group.exposed == "none"
        assert not (group.running and group.acquisition)
        assert not (group.exposed in ("both", "nodes") and group.deferred)
    if job.main.is_running(now):
        assert not any(taint.is_known for taint in job.taints), "a job steps on from what it knows to be wrong"
        assert job.holding or job.finished
        assert not job.main.missing or job.finished
        assert not job.main.replaced, "a replica that lost its state steps on"
    assert not job.away or job.holding
    assert 0 < job.speed <= 1
    assert job.state.committed >= 0
    assert all(taint.sound <= job.work * (1 + 1e-9) for taint in job.taints)


def _watch(data: Scenario) -> sim.Result:
    prepared = prepare(data)
    return _Recounted(prepared, 0, sim.trace(prepared, 0)).run()


@examples(100)
@given(scenarios(fewest_sources=1))
def test_each_node_is_in_exactly_one_place(data: Scenario) -> None:
    """After every event the counts equal a recount, and nodes, positions, groups and clocks point at each other."""
    _watch(data)


@examples(100)
@given(scenarios(fewest_sources=2, recoveries=("full-restart",)))
def test_jobs_that_take_turns_leave_each_node_in_one_place(data: Scenario) -> None:
    """The same for jobs that give their nodes back at every failure and take those of others."""
    _watch(data)


@examples(100)
@given(scenarios(fewest_sources=2, most_jobs=2))
def test_nobody_gets_withheld_nodes(data: Scenario) -> None:
    """The same where all beyond jobs and spares is withheld: it stays where it is, and the ledger closes."""
    _watch(data | {"spares": data["spares"] | {"idle": "withhold"}})


def _with_mates(data: Scenario, extra: int, *, drains: bool) -> sim.Prepared:
    """Return a scenario whose units have `extra` nodes (of each rack) more than its jobs and spares need of them."""
    data = copy.deepcopy(data)
    cluster = data["cluster"]
    rack = cluster["rack"]["nodes"]
    unit = data["spares"].pop("unit", None)
    racks = {None: 0, "node": 0, "rack": 1}.get(unit, 2)
    needed = racks * rack or 1
    size = needed + extra * max(racks, 1)
    if racks:
        cluster["rack"]["nodes"] = rack + extra
    count = cluster["nodes"] = cluster["nodes"] // needed * size
    prepared = prepare(data)
    nodes = tuple(tuple(range(first, first + size)) for first in range(0, count, size))
    return replace(prepared, units=AllocationUnits(nodes, needed, drains))


@examples(90)
@given(scenarios(fewest_sources=2, alike=True), st.integers(0, 3), st.booleans())
def test_units_are_in_use_or_broken(data: Scenario, extra: int, drains: bool) -> None:
    """After every event, whatever fails, alone or by the rack, and whoever holds the unit."""
    prepared = _with_mates(data, extra, drains=drains)
    _Recounted(prepared, 0, sim.trace(prepared, 0)).run()


@pytest.mark.parametrize("recovery", ["hot-spare", "full-restart"])
@pytest.mark.parametrize("clock", ["wall", "in_service", "busy"])
def test_the_queue_of_events_does_not_grow_with_time(clock: str, recovery: str) -> None:
    """Four times the horizon has four times the events and no more of them waiting: what is void does not pile up."""
    rare = {"use": "component", "name": "rare", "part": "nic", "clock": clock, "rate": "1 per 10000 nic-day"}
    data = {
        "name": "long",
        "cluster": {"nodes": 40},
        "jobs": [{"name": "job", "gpus": 304, "work": {"time": "100000 d"}}],
        "failures": [
            {"use": "component", "name": "node", "rate": "1 per node-day"},
            {"use": "job", "name": "software", "rate": "1 per 300 job-day"},
            rare,
        ],
        "detection": {"time": "1 min"},
        "checkpoint": {"tiers": [{"interval": "10 min", "write": "1 min", "restore": "1 min"}]},
        "recovery": {"use": recovery, "initialize": "2 min"},
        "repair": {"time": "30 min"},
        "spares": {"hot": 2},
    }
    most, events = {}, {}
    for days in (10, 40):
        prepared = prepare(data | {"horizon": f"{days} d"})
        simulation = Simulation(prepared, 0, sim.trace(prepared, 0))
        most[days] = events[days] = 0
        while simulation.is_open:
            simulation.kernel.step()
            events[days] += 1
            most[days] = max(most[days], simulation.kernel.waiting)
    assert events[40] > 3 * events[10] > 3_000
    assert most[40] < most[10] + 10


def test_lives_that_are_due_at_the_same_time_are_told_apart() -> None:
    """Two jobs that take turns on nodes whose busy lives all last 600 s: equal readings of a clock have an order."""
    data = {
        "name": "turns",
        "cluster": {"nodes": 3, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": "12000 s",
        "jobs": [{"name": "small", "gpus": 1}, {"name": "large", "gpus": 3}],
        "failures": [
            {"use": "component", "name": "node", "clock": "busy", "law": {"use": "fixed", "value": "600 s"}},
            {"use": "job", "name": "software", "law": {"use": "exponential", "mean": "1200 s"}},
        ],
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "30 s", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "full-restart", "initialize": "0 s", "delay": "1 s"},
        "repair": {"time": "0 s"},
    }
    for seed in range(5):
        _watch(data | {"seed": seed})


@pytest.mark.parametrize("every", [1, 7])
def test_a_job_that_ends_where_a_save_begins_does_not_wait_for_it(every: int) -> None:
    """Work of k whole intervals takes k intervals and k - 1 saves, whatever the rounding of k times a step."""
    data: Scenario = {
        "name": "whole",
        "cluster": {"nodes": 2},
        "horizon": "1 d",
        "detection": {"time": "0 s"},
        "checkpoint": {
            "tiers": [{"interval": f"every {every} steps", "mode": "blocking", "write": "3 s", "restore": "0 s"}]
        },
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
        "repair": {"time": "0 s"},
    }
    for saves in range(150):
        steps = every * (saves + 1)
        job = {"name": "job", "gpus": 16, "step_time": "1.029 s", "work": {"steps": steps}}
        assert play(prepare(data | {"jobs": [job]})).jobs[0].end == pytest.approx(1.029 * steps + 3 * saves, rel=1e-9)


@cases(("diagnosis", "repair"), [({"finds": 0.0}, 0.0), ({"blames_other": 1.0}, 20.0)], ids=["nobody", "another"])
def test_who_is_not_blamed_and_down_for_something_else_is_repaired(diagnosis: dict[str, float], repair: float) -> None:
    """Node 0 fails at 300 s and is not blamed at 350 s; its rack, down since 320 s, is back at 450 s."""
    causes = [{"part": "node"}, {"part": "rack", "repair": "100 s"}]
    law = {"use": "exponential", "mean": "1000 d"}
    case = harness.prepared(
        cluster={"nodes": 8, "gpus_per_node": 1, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 3}],
        failures=[{"use": "component", "name": cause["part"], "law": law, **cause} for cause in causes],
        repair={"use": "tiers", "tiers": [{"name": "reset", "time": "20 s"}], "diagnosis": diagnosis},
        detection={"time": "50 s"},
    )
    result = _Recounted(case, 0, harness.trace([(300.0, 0, 0), (320.0, 1, 0)])).run()
    assert result.counts["hits"] == 2
    assert result.down_node_seconds == pytest.approx((450 - 300) + (450 - 320) + repair)
