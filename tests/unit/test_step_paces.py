"""What a hurt cluster does to a job with a modelled step, by hand.

The job steps from 30 s on; of the 870 s from 130 s to the horizon each is worth what the model of steps says of a step
in that state. Saves are too rare to matter.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import sim
from analysis.metrics import ratios
from sim.steps import Impairment, StepPlan
from tests.cases import cases
from tests.harness import losses, play, seconds
from tests.step_jobs import FLAT, LLAMA, NARROW, described

EXACT = 1e-9
NEVER = {"law": {"law": "exponential", "mean": "100000 d"}, "renews": "never"}
RARE_SAVES = {"tiers": [{"interval": "1 d", "mode": "blocking", "write": "10 s", "restore": "20 s"}]}
ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "3000 s"}
WIDE = {"tensor": 8, "data": 8}


def cause(name: str, effect: Any, part: str = "node", **more: Any) -> dict[str, Any]:
    """Return a source that strikes only where a trace says so."""
    return {"use": "component", "name": name, "part": part, **NEVER, "effect": effect, **more}


def slow(factor: float, **more: Any) -> dict[str, Any]:
    """Return a source of slow nodes."""
    return cause("slow", {"kind": "slow", "factor": factor, **more})


def narrow(bandwidth: float) -> dict[str, Any]:
    """Return a source of nodes with less bandwidth."""
    return cause("link", {"kind": "degrade", "bandwidth": bandwidth})


def case(
    *sources: dict[str, Any], fabric: Any = None, recovery: Any = None, horizon: Any = None, **job: Any
) -> sim.Prepared:
    """Return Llama 3 8B on eight of sixteen nodes, or what is changed of it."""
    data = described(fabric=fabric, **job) | {"failures": list(sources), "checkpoint": RARE_SAVES}
    more = {"recovery": recovery, "horizon": horizon}
    return sim.prepare(sim.parse(data | {name: value for name, value in more.items() if value is not None}))


def plan_of(one: sim.Prepared) -> StepPlan:
    """Return the plan of the one job."""
    plan = one.jobs[0].plan
    assert plan is not None
    return plan


# ------------------------------------------------------------------------------------------------ slow and narrow


@cases("factor", [0.9, 0.5, 0.1])
def test_a_slow_node_slows_what_is_computed(factor: float) -> None:
    """Computing takes 1 / f as long and the rest as long as before: ETTR = (100 + 870 t / (t + (1 / f - 1) c)) / 1000.

    Half of the pace is more than half of the steps. Gradients hide behind computing, of which there is more.
    """
    one = case(slow(factor))
    found = plan_of(one).breakdown
    computing = found.gemm + found.attention + found.elementwise + found.logits + found.optimizer
    pace = found.total / (found.total + (1 / factor - 1) * computing)
    assert factor < pace < 1
    result = play(one, [(130, 0, 3)])
    assert result.jobs[0].work == pytest.approx(100 + 870 * pace, rel=EXACT)
    ettr = ratios(one, result)["ettr"]
    assert ettr.amount / ettr.base == pytest.approx((100 + 870 * pace) / 1000, rel=EXACT)
    assert seconds(result)["degraded"] == pytest.approx(870 * (1 - pace), rel=EXACT)
    assert pace == pytest.approx(plan_of(one).pace(Impairment(compute=factor)), rel=EXACT)


@cases("left", [0.9, 0.5, 0.05])
def test_lost_bandwidth_slows_what_crosses_nodes(left: float) -> None:
    """Two stages hand over, and eight replicas reduce, at the bandwidth of the narrowest node."""
    one = case(narrow(left))
    pace = plan_of(one).pace(Impairment(network=left))
    assert left < pace < 1
    assert play(one, [(130, 0, 3)]).jobs[0].work == pytest.approx(100 + 870 * pace, rel=EXACT)
    assert play(one, [(130, 0, 12)]).jobs[0].work == pytest.approx(970, rel=EXACT), "a node of nobody"


def test_what_heals_is_healthy_again() -> None:
    """For 100 s at the lower pace, and then as before."""
    one = case(slow(0.5, heals="100 s"))
    pace = plan_of(one).pace(Impairment(compute=0.5))
    result = play(one, [(130, 0, 3), (430, 0, 5)])
    assert result.jobs[0].work == pytest.approx(770 + 200 * pace, rel=EXACT)


def test_the_slowest_of_two_nodes_counts() -> None:
    """A slow node and a narrow one are in the same step, which waits for the one or the other."""
    one = case(slow(0.8), narrow(0.05))
    plan = plan_of(one)
    states = (Impairment(compute=0.8), Impairment(network=0.05))
    pace = min(map(plan.pace, states))
    assert play(one, [(130, 0, 3), (130, 1, 5)]).jobs[0].work == pytest.approx(100 + 870 * pace, rel=EXACT)


@cases("out", [1, 2, 3])
def test_lost_spines_slow_what_crosses_leaf_switches(out: int) -> None:
    """Of four spines some are out for 200 s: the network has the share of the others, and then all of it again."""
    fabric = FLAT | {"leaf": {"nodes": 4}, "spine": {"switches": 4}}
    one = case(cause("spine", "crash", part="spine", repair="200 s"), fabric=fabric)
    share = 1 - out / 4
    pace = plan_of(one).pace(Impairment(network=share))
    result = play(one, [(130, 0, spine) for spine in range(out)])
    assert result.jobs[0].work == pytest.approx(770 + 200 * pace, rel=EXACT)
    assert losses(one, result)["degraded", "spine"] == pytest.approx(200 * (1 - pace), rel=EXACT)


def test_a_replacement_behind_other_switches_slows_what_goes_there() -> None:
    """Four nodes behind the same leaf switches lose one at 400 s, and the next is elsewhere: a quarter is left.

    Nothing was saved, and nodes are ready after 30 s: that leaves 570 s.
    """
    layout: dict[str, Any] = {"gpus": 32, "parallelism": {"tensor": 4, "pipeline": 2, "data": 4}}
    one = case(cause("node", "crash"), fabric=NARROW, **layout)
    pace = plan_of(one).pace(Impairment(network=0.25))
    result = play(one, [(400, 0, 1)])
    assert 0.25 < pace < 1
    assert result.jobs[0].work == pytest.approx(570 * pace, rel=EXACT)
    assert seconds(result)["degraded"] == pytest.approx(570 * (1 - pace), rel=EXACT)


def test_a_job_inside_one_domain_waits_for_no_network() -> None:
    """Eight tensor ranks in one node send nothing through NICs, however little is left of them."""
    layout: dict[str, Any] = {"gpus": 8, "parallelism": {"tensor": 8}}
    one = case(narrow(0.01), **layout)
    assert not plan_of(one).uses_network
    assert play(one, [(130, 0, 0)]).jobs[0].work == pytest.approx(970, rel=EXACT)
    slowed = case(slow(0.5), **layout)
    assert play(slowed, [(130, 0, 0)]).jobs[0].work < 900


@cases("share", [0.1, 0.3, 1.0])
def test_a_stated_share_of_communication_overrides_the_model(share: float) -> None:
    """A step takes 1 - c + c / b of its time with a share b of the bandwidth, a slow node slows it in proportion."""
    for source, pace in ((narrow(0.5), 1 / (1 + share)), (slow(0.5), 0.5)):
        one = case(source, communication=share)
        assert one.jobs[0].plan is not None
        assert play(one, [(130, 0, 3)]).jobs[0].work == pytest.approx(100 + 870 * pace, rel=EXACT)


@cases("source", [slow(0.5), narrow(0.1)], ids=["slow", "narrow"])
def test_a_measured_step_has_the_paces_of_its_model(source: dict[str, Any]) -> None:
    """Terms that are scaled to what was measured have the same shares, and so the same paces."""
    modelled, measured = case(source), case(source, step_time="9 s")
    assert measured.jobs[0].step_time == 9.0
    found = [play(one, [(130, 0, 3)]).jobs[0].work for one in (modelled, measured)]
    assert found[0] == pytest.approx(found[1], rel=EXACT)
    assert found[0] < 970


# ---------------------------------------------------------------------------------------------------- elastic jobs


@cases("lost", [1, 2, 3])
@cases("on_loss", ["keep", "shrink"])
def test_elastic_jobs_take_the_staircase_or_lose_tokens(on_loss: str, lost: int) -> None:
    """128 sequences on 8 - k replicas are 19, 22 or 26 microbatches where they were 16; or k / 8 of them are left out.

    The job steps from 3000 s on. At 4000 s nodes of k replicas fail; after 10 s the others go on, from 7000 s on all of
    them. Each failure and each return costs a step in flight at most.
    """
    batch = LLAMA["batch"] | {"on_loss": on_loss}
    one = case(cause("node", "crash"), recovery=ELASTIC, horizon="10000 s", parallelism=WIDE, batch=batch)
    share = (8 - lost) / 8
    if on_loss == "keep":
        found, hurt = plan_of(one).breakdown, plan_of(one).impaired(Impairment(missing=lost, keeps_batch=True))
        stairs = math.ceil(128 / (8 - lost)) / 16
        of_microbatches = found.total - found.data - found.optimizer - found.overhead
        together = hurt.data + hurt.optimizer + hurt.overhead
        planned = found.total / (stairs * of_microbatches + together)
        assert planned < share, "replicas wait for those with a microbatch more"
        share = planned
    result = play(one, [(4000, 0, node) for node in range(lost)])
    missing = 1000 + 2990 * share + 3000 - result.jobs[0].work
    assert 0 <= missing <= 2 * lost * one.jobs[0].step_time < 30
    assert sum(seconds(result).values()) == pytest.approx(10_000, rel=EXACT)


def test_a_stair_is_flat() -> None:
    """Where each of 8 replicas has one microbatch of 16 sequences, the loss of one and that of four make it two.

    Within a few per cent, for what replicas reduce together; five lost replicas make it three.
    """
    batch = LLAMA["batch"] | {"on_loss": "keep"}
    execution = {"microbatch": 16, "recompute": "full"}
    one = case(
        cause("node", "crash"), recovery=ELASTIC, horizon="10000 s", parallelism=WIDE, batch=batch, execution=execution
    )
    assert plan_of(one).work.microbatches == 1
    found = [play(one, [(4000, 0, node) for node in range(lost)]).jobs[0].work for lost in (0, 1, 4, 5)]
    assert found[0] == pytest.approx(7000)
    for work, pace in zip(found[1:], (1 / 2, 1 / 2, 1 / 3), strict=True):
        assert work == pytest.approx(4000 + 2990 * pace, rel=0.02)


# ----------------------------------------------------------------------------------------------------- how it is asked


def test_the_model_is_asked_once_for_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often nodes become slow and well again, and however many steps there are."""
    asked: list[Impairment] = []
    pace = StepPlan.pace

    def noted(plan: StepPlan, state: Impairment) -> float:
        asked.append(state)
        return pace(plan, state)

    one = case(slow(0.5, heals="5 s"), slow(0.8) | {"name": "slower"})
    monkeypatch.setattr(StepPlan, "pace", noted)
    rows = [(100 + 8 * turn, 0, turn % 8) for turn in range(50)] + [(520 + turn, 1, turn % 16) for turn in range(16)]
    result = play(one, rows)
    assert result.jobs[0].work / one.jobs[0].step_time > 100, "many steps"
    assert asked == [Impairment(compute=0.5), Impairment(compute=0.8)]


def test_a_healthy_job_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps cost what was planned; the model is not evaluated while a simulation runs."""
    one = case(slow(0.5))
    monkeypatch.setattr(StepPlan, "pace", lambda plan, state: pytest.fail(f"asked for {state}"))
    assert play(one).jobs[0].work == pytest.approx(970, rel=EXACT)
