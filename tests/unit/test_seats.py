"""Where ranks sit and who leaves together: what a lost rack takes from a job, by the order of its parallelism."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from sim.cluster.placement import Layout
from sim.policies.recovery.full_restart import FullRestart
from tests.cases import cases
from tests.harness import _Watched, play, prepared, seconds, trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.engine.simulation import Simulation
    from sim.policies.contracts import ClusterView, FailureView, JobView, Memory, Plan

RARE_SAVES = {"tiers": [{"interval": "10 d", "mode": "blocking", "write": "0 s", "restore": "0 s"}]}
ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "60 s", "catch_up": "5 s"}
NEVER = {"law": {"law": "exponential", "mean": "1000 d"}, "renews": "never"}
RACK = {"use": "component", "name": "rack", "part": "rack", "repair": "100 s", **NEVER}
NODE = {"use": "component", "name": "node", "part": "node", **NEVER}

USUAL = ["tensor", "context", "expert", "data", "pipeline"]
"""The order where none is given: a stage of the pipeline is a block of hosts."""
DATA_LAST = ["tensor", "context", "expert", "pipeline", "data"]
"""A replica is a block of hosts."""
SHAPE = {"tensor": 8, "pipeline": 4, "data": 4}


def case(
    parallelism: dict[str, Any], order: Sequence[str] | None = None, each: int = 8, spare: int = 0, **more: Any
) -> sim.Prepared:
    """Return an elastic job on the first hosts of a cluster in racks of four, and some more nodes."""
    layout = {**parallelism, **({"order": list(order)} if order is not None else {})}
    gpus = prod(parallelism.get(name, 1) for name in ("tensor", "context", "pipeline", "data"))
    cluster = {"nodes": gpus // each + spare, "gpus_per_node": each, "rack": {"nodes": 4}, "fabric": {"rails": each}}
    return prepared(
        **{
            "cluster": cluster,
            "jobs": [{"name": "job", "gpus": gpus, "parallelism": layout}],
            "failures": [NODE, RACK],
            "checkpoint": RARE_SAVES,
            "recovery": ELASTIC,
            **more,
        }
    )


class Told:
    """A recovery strategy that keeps how many nodes and replicas it was told are lost."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.losses: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.strategy, name)

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Answer as the strategy does."""
        self.losses.append((failure.nodes_lost, failure.replicas_lost))
        plan: tuple[Plan, Memory] = self.strategy.plan(failure, job, cluster, memory)
        return plan


def told(one: sim.Prepared, rows: list[tuple[float, ...]]) -> list[tuple[int, int]]:
    """Return nodes and replicas lost at each failure."""
    recorder = Told(one.recovery)
    play(one, rows, recovery=recorder)
    return recorder.losses


def ended(one: sim.Prepared, rows: list[tuple[float, ...]] | None = None) -> Simulation:
    """Return a simulation after its end, looked at after every event."""
    simulation = _Watched(one, 0, trace(rows or []))
    simulation.run()
    return simulation


def sets_of_hosts(shape: dict[str, int], order: Sequence[str], each: int) -> list[set[int]]:
    """Return the hosts of each set of replicas that share hosts, first hosts first; ranks are counted one by one."""
    replicas: dict[int, set[int]] = {}
    names = list(reversed(order))
    values = itertools.product(*(range(shape.get(name, 1)) for name in names))
    for rank, coordinates in enumerate(values):
        where = dict(zip(names, coordinates, strict=True))
        replicas.setdefault(where["data"], set()).add(rank // each)
    found: list[set[int]] = []
    for hosts in replicas.values():
        touching = [known for known in found if known & hosts]
        found = [known for known in found if not known & hosts] + [hosts.union(*touching)]
    return sorted(found, key=min)


# -------------------------------------------------------------------------------------- what a lost rack takes


def test_the_usual_order_spreads_replicas_over_racks() -> None:
    """Tensor groups are hosts; host i has stage i // 4 of replica i % 4, so that a rack is one stage of all four."""
    assert told(case(SHAPE), [(300.0, 1, 0)]) == [(4, 4)]
    assert told(case(SHAPE, USUAL), [(300.0, 1, 2)]) == [(4, 4)]


def test_with_data_last_a_rack_is_a_replica() -> None:
    """Host i has stage i % 4 of replica i // 4."""
    assert told(case(SHAPE, DATA_LAST), [(300.0, 1, 0)]) == [(4, 1)]
    assert told(case(SHAPE, DATA_LAST), [(300.0, 1, 2), (310.0, 1, 0)]) == [(4, 1), (4, 1)]


def test_one_replica_away_by_hand() -> None:
    """The others pause for 10 s and go on with three quarters; rack 1 is back at 400 s, its replica at 465 s."""
    found = seconds(play(case(SHAPE, DATA_LAST), [(300.0, 1, 1)]))
    assert found == pytest.approx(
        {
            "initialize": 60 + 60 / 4,
            "reschedule": 10 * 3 / 4,
            "starved": 100 / 4,
            "restore": 5 / 4,
            "productive": 240 + 155 * 3 / 4 + 535,
        },
        rel=1e-9,
    )


def test_all_replicas_away_by_hand() -> None:
    """None is left to go on: all are whole again at 465 s, and then the job starts anew from nothing at 525 s."""
    found = seconds(play(case(SHAPE), [(300.0, 1, 1)]))
    assert found == pytest.approx(
        {"initialize": 180, "starved": 100, "restore": 5, "lost_work": 240, "productive": 475}
    )


SHAPES: list[tuple[dict[str, int], list[str], int]] = [
    (SHAPE, USUAL, 8),
    (SHAPE, DATA_LAST, 8),
    ({"tensor": 4, "pipeline": 4, "data": 8}, USUAL, 8),
    ({"tensor": 4, "pipeline": 4, "data": 8}, DATA_LAST, 8),
    ({"tensor": 4, "context": 2, "pipeline": 2, "data": 8}, USUAL, 8),
    ({"tensor": 2, "context": 4, "pipeline": 4, "data": 6}, ["tensor", "data", "context", "expert", "pipeline"], 8),
    ({"tensor": 2, "pipeline": 8, "data": 8}, ["tensor", "pipeline", "data", "context", "expert"], 8),
    ({"tensor": 16, "pipeline": 2, "data": 4}, ["tensor", "context", "expert", "data", "pipeline"], 8),
    ({"tensor": 16, "pipeline": 2, "data": 4}, ["data", "tensor", "context", "expert", "pipeline"], 8),
    ({"tensor": 1, "pipeline": 4, "data": 8}, ["pipeline", "tensor", "context", "expert", "data"], 2),
    ({"tensor": 3, "pipeline": 4, "data": 4}, DATA_LAST, 4),
]


@cases("number", range(len(SHAPES)))
def test_who_leaves_is_who_has_a_rank_there(number: int) -> None:
    """Each rack takes the sets of replicas with a host in it, by counting all ranks one by one."""
    shape, order, each = SHAPES[number]
    one = case(shape, order, each)
    sets = sets_of_hosts(shape, order, each)
    assert one.jobs[0].replicas == len(sets)
    for rack in range(one.counts["rack"]):
        hosts = set(range(4 * rack, min(4 * rack + 4, one.jobs[0].nodes)))
        lost = sum(bool(hosts & mine) for mine in sets)
        assert told(one, [(300.0, 1, rack)]) == [(len(hosts), lost)]


# ------------------------------------------------------------------------------- replicas that share their hosts


def test_replicas_that_share_a_host_leave_together() -> None:
    """Tensor 2 on hosts of eight GPUs, eight replicas: four on each of two hosts, so that half of them go at once."""
    one = case({"tensor": 2, "data": 8})
    assert (one.jobs[0].replicas, one.jobs[0].nodes) == (2, 2)
    assert told(one, [(300.0, 0, 1)]) == [(1, 1)]
    # Until 310 s nobody steps, then half until the node is back at 500 s and its replicas rejoin at 565 s.
    found = seconds(play(one, [(300.0, 0, 1)]))
    assert found["productive"] == pytest.approx(240 + 255 / 2 + 435)


def test_min_replicas_counts_what_can_leave_alone() -> None:
    """Of two sets of four replicas both may be asked for, three not."""
    shape = {"tensor": 2, "data": 8}
    assert case(shape, recovery={**ELASTIC, "min_replicas": 2}).jobs[0].replicas == 2
    rule = (
        r"recovery\.min_replicas: is 3, but job 'job' has 2 sets of replicas that can leave alone \(4 share each host\)"
    )
    with pytest.raises(sim.ScenarioError, match=rule):
        case(shape, recovery={**ELASTIC, "min_replicas": 3})
    with pytest.raises(sim.ScenarioError, match=r"recovery\.min_replicas: is 5, but job 'job' has 4 replicas"):
        case(SHAPE, recovery={**ELASTIC, "min_replicas": 5})


def test_with_all_sets_asked_for_one_loss_stops_the_job() -> None:
    """Four sets of which three must be there: one loss lets the others go on, two do not."""
    one = case(SHAPE, DATA_LAST, recovery={**ELASTIC, "min_replicas": 3})
    assert "lost_work" not in seconds(play(one, [(300.0, 0, 0)]))
    assert seconds(play(one, [(300.0, 0, 0), (320.0, 0, 4)]))["lost_work"] > 0


# ------------------------------------------------------------------------------------------------- the seats


def by_host(one: sim.Prepared, simulation: Simulation) -> list[int]:
    """Return the node of each host, in the order of ranks."""
    nodes = simulation.jobs.all[0].nodes
    return [nodes[position] for position in (one.jobs[0].seats or range(len(nodes)))]


@cases("number", range(len(SHAPES)))
def test_node_i_of_an_empty_cluster_is_host_i(number: int) -> None:
    """Neighbours in rank are neighbours in the cluster, and the positions of one set follow one another."""
    shape, order, each = SHAPES[number]
    one = case(shape, order, each, spare=4)
    simulation = ended(one)
    assert by_host(one, simulation) == list(range(one.jobs[0].nodes))
    width = one.jobs[0].nodes // one.jobs[0].replicas
    nodes = simulation.jobs.all[0].nodes
    blocks = [set(nodes[first : first + width]) for first in range(0, len(nodes), width)]
    assert blocks == sets_of_hosts(shape, order, each)


def test_a_replacement_sits_where_the_lost_node_sat() -> None:
    """Node 5 is host 5, stage 1 of replica 1; the spare node 16 takes its rank, and nobody else moves."""
    one = case(SHAPE, spare=1, spares={"hot": 1})
    expected = list(range(16))
    expected[5] = 16
    assert by_host(one, ended(one, [(300.0, 0, 5)])) == expected
    # The replica that waits for it is that of nodes 1, 5, 9 and 13.
    assert sim.prepare(one.scenario).jobs[0].seats[1:16:4] == (4, 5, 6, 7)


def test_a_rigid_job_has_no_seats() -> None:
    """It leaves as a whole: position and rank are the same."""
    one = case(SHAPE, recovery={"use": "hot-spare", "initialize": "30 s"})
    assert (one.jobs[0].replicas, one.jobs[0].seats) == (1, ())
    assert by_host(one, ended(one)) == list(range(16))


def queued(one: sim.Prepared) -> sim.Prepared:
    """Return a case whose jobs go back to the queue for 100 s, with the seats that they have."""
    restart = FullRestart.model_validate({"use": "full-restart", "delay": "100 s", "initialize": "10 s"})
    return replace(one, recovery=restart)


@cases("recovery", [ELASTIC, {"use": "hot-spare", "initialize": "30 s"}], ids=["seats", "no seats"])
def test_back_from_the_queue_each_rank_has_its_node_again(recovery: dict[str, Any]) -> None:
    """Node 5 fails at 300 s, and at 400 s the job has its 15 other nodes where they were, and node 16 as host 5."""
    one = queued(case(SHAPE, spare=2, recovery=recovery))
    expected = list(range(16))
    expected[5] = 16
    assert by_host(one, ended(one, [(300.0, 0, 5)])) == expected


@cases("recovery", [ELASTIC, {"use": "hot-spare", "initialize": "30 s"}], ids=["seats", "no seats"])
def test_nodes_that_somebody_else_took_are_seated_anew(recovery: dict[str, Any]) -> None:
    """While the first job waits from 300 to 400 s, another one takes three nodes, of which only one is not the first's.

    It is done at 560 s, and node 5 is back since 500 s: the first job has its ranks on nodes 0 to 15 again.
    """
    first = {"name": "first", "gpus": 128, "parallelism": SHAPE}
    layout = {"tensor": 8, "data": 3}
    second = {"name": "second", "gpus": 24, "parallelism": layout, "arrival": "350 s", "work": {"time": "200 s"}}
    one = queued(case(SHAPE, spare=1, jobs=[first, second], recovery=recovery))
    simulation = ended(one, [(300.0, 0, 5)])
    assert simulation.jobs.all[1].end == pytest.approx(560)
    assert simulation.jobs.all[0].starts == 2
    assert by_host(one, simulation) == list(range(16))


def test_layout_and_engine_agree_on_the_hosts_of_a_replica() -> None:
    """What ``Layout`` calls a failure group is a block of positions."""
    one = case(SHAPE, USUAL)
    spec = one.scenario.jobs[0].parallelism
    assert spec is not None
    group = Layout(spec, 8).group_of_host
    assert np.array_equal(group, np.asarray(one.jobs[0].seats) // 4)
    assert group.tolist() == [0, 1, 2, 3] * 4
