"""What the groups of a job communicate over, from the cables of its cluster, and what that does to its step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import sim
from sim import catalog
from sim.catalog import steps
from sim.steps import ideal_links
from tests.cases import cases
from tests.harness import scenario
from tests.step_jobs import FLAT, LLAMA, MIXTRAL, NARROW, plan_of

if TYPE_CHECKING:
    from sim.steps import StepPlan

EXACT = 1e-12


def ideal(plan: StepPlan) -> dict[str, object]:
    """Return the ideal links of the kinds of groups that a job has."""
    work = plan.work
    links = ideal_links(work, plan.machine.chip.scale_up, 50e9, 8)
    sizes = (work.tensor, work.context, work.expert, work.pipeline, work.data_ranks, work.expert > 1 and 2)
    return {name: link for (name, link), size in zip(links._asdict().items(), sizes, strict=True) if size > 1}


@cases(
    "layout",
    [
        {"tensor": 8, "data": 8},
        {"tensor": 4, "pipeline": 2, "data": 8},
        {"tensor": 2, "context": 2, "pipeline": 4, "data": 4},
        {"tensor": 2, "pipeline": 8, "data": 4},
        {"context": 16, "pipeline": 4},
    ],
    ids=str,
)
def test_links_of_a_flat_fabric_are_ideal(layout: dict[str, int]) -> None:
    """Where every NIC gets its whole bandwidth however far it sends, groups sit inside out in scale-up domains."""
    found = plan_of(parallelism=layout, execution={"recompute": "full"})
    expected = ideal(found)
    assert expected
    assert {name: getattr(found.machine.links, name) for name in expected} == expected


def test_links_of_experts_are_ideal() -> None:
    """Eight experts' ranks fill a domain: the copies of an expert are one to a domain, with one NIC each."""
    found = plan_of(**MIXTRAL)
    expected = ideal(found)
    assert {name: getattr(found.machine.links, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("order", "handed_over", "reduced"),
    [
        (["tensor", "context", "expert", "data", "pipeline"], 4, 1),
        (["tensor", "pipeline", "context", "expert", "data"], 1, 2),
    ],
)
def test_an_oversubscribed_fabric_slows_what_crosses_it(order: list[str], handed_over: float, reduced: float) -> None:
    """Stages behind other leaf switches hand over a quarter as fast; computing and tensor ranks know nothing of it.

    Of a ring of replicas one of n ranks behind the same switches has its neighbour elsewhere, and gets n times as much
    as when all send: all of its NIC with four nodes of one stage, half of it with two.
    """
    layout = {"tensor": 8, "pipeline": 2, "data": 4, "order": order}
    flat, slow = plan_of(parallelism=layout), plan_of(fabric=NARROW, parallelism=layout)
    for name in ("gemm", "attention", "elementwise", "launch", "logits", "tensor", "optimizer"):
        assert getattr(slow.breakdown, name) == getattr(flat.breakdown, name), name
    assert slow.machine.links.tensor == flat.machine.links.tensor
    assert slow.breakdown.pipeline == pytest.approx(handed_over * flat.breakdown.pipeline, rel=1e-9)
    assert slow.machine.links.data.network == pytest.approx(flat.machine.links.data.network / reduced, rel=1e-9)
    assert slow.time > flat.time


def test_gpus_share_the_nics_of_their_node() -> None:
    """Four rails of 50 GB/s for eight GPUs are 25 GB/s each, and twice as many twice as much."""
    layout = {"tensor": 8, "data": 8}
    for rails, each in ((4, 25e9), (8, 50e9), (16, 100e9)):
        links = plan_of(fabric=FLAT | {"rails": rails}, parallelism=layout).machine.links
        assert links.data.network == pytest.approx(each)


def test_who_reduces_together_is_as_slow_as_the_slower_way() -> None:
    """Four context ranks are behind the same leaf switches, two replicas are not: what both reduce goes both ways.

    A domain has one rank of each group, with one NIC of 50 GB/s for it; between leaf switches it gets a quarter.
    """
    links = plan_of(fabric=NARROW, parallelism={"tensor": 8, "context": 4, "data": 2}).machine.links
    assert links.context.network == pytest.approx(50e9)
    assert links.data.network == pytest.approx(50e9 / 4)
    assert links.data.ranks == 1


def test_pools_step_as_the_model_says_of_each() -> None:
    """Of a job with a plan the pace on slower nodes is the ratio of modelled steps, not that of peaks."""
    pools = [{"count": 8, "accelerator": "h100"}, {"count": 8, "accelerator": "a100"}]
    mixed = sim.parse(scenario(cluster={"pools": pools, "fabric": FLAT}, jobs=[LLAMA | {"gpus": 64}]))
    (job,) = sim.examine(mixed).jobs
    assert job.plan is not None
    chip = catalog.accelerators()["a100"]
    shares = steps.efficiencies(chip, "bf16")
    links = job.plan.machine.links.with_scale_up(chip.scale_up / job.plan.machine.chip.scale_up)
    other = replace(job.plan, machine=replace(job.plan.machine, chip=chip, shares=shares, links=links))
    assert job.pool_paces == pytest.approx((1.0, job.plan.time / other.time), rel=EXACT)
    assert not math.isclose(job.pool_paces[1], 312 / 989, rel_tol=0.01)
