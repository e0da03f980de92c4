"""Placement of ranks: published layouts, equations worked out by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from ettrick.sim.cluster.placement import (
    GroupLocality,
    RankLayout,
    bandwidths,
    cost_of_crossing,
    loss_of_host,
    spans,
)
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.scenario.model import Parallelism
from tests.cases import cases

NIC, NVLINK = 50e9, 450e9

"""Of an H100 node: 400 Gb/s a GPU outside, 450 GB/s inside [B/s]."""

LEVELS = {"leaf": NIC, "pod": NIC, "cluster": NIC / 7}


def layout(gpus_per_node: int = 8, **sizes: Any) -> RankLayout:
    """Return a layout as a file would describe it."""
    return RankLayout(Parallelism.model_validate(sizes), gpus_per_node)


def domains(nodes: int, scale_up: int = 1, leaf: int = 32, pod: int = 384) -> dict[str, Any]:
    """Return domains of so many nodes each."""
    sizes = {"scale_up": scale_up, "leaf": leaf, "pod": pod}
    return {name: (np.arange(nodes) // size).astype(np.int32) for name, size in sizes.items()}


def reach(of: RankLayout, **sizes: int) -> dict[Any, GroupLocality]:
    """Return the spans of a job that sits on the first nodes, in order."""
    return spans(of, domains(of.hosts, **sizes), np.arange(of.hosts))


def refusal(**sizes: Any) -> RuleError:
    """Return why a layout is refused."""
    with pytest.raises(ValidationError) as caught:
        Parallelism.model_validate(sizes)
    (error,) = caught.value.errors()
    reason = error["ctx"]["error"]
    assert isinstance(reason, RuleError)
    assert "\n" not in reason.rule
    return reason


def test_megatron_order() -> None:
    """16 GPUs, tensor 2 and pipeline 4, are grouped as Megatron-LM documents it (initialize_model_parallel).

    References
    ----------
    NVIDIA, Megatron-LM, ``megatron/core/parallel_state.py``: 8 tensor groups of neighbours, 4 pipeline groups of every
    fourth GPU, 8 data groups of GPUs two apart within a stage.
    """
    of = layout(8, tensor=2, pipeline=4, data=2)
    assert of.members("tensor").tolist() == [[rank, rank + 1] for rank in range(0, 16, 2)]
    assert of.members("pipeline").tolist() == [[rank, rank + 4, rank + 8, rank + 12] for rank in range(4)]
    assert of.members("data").tolist() == [
        [first + rank, first + rank + 2] for first in (0, 4, 8, 12) for rank in (0, 1)
    ]


def test_llama3() -> None:
    """Llama 3 405B on 16,384 GPUs: a host holds one tensor group of one replica, and a rank of eight data groups.

    References
    ----------
    Llama Team, The Llama 3 Herd of Models, 2024, table 4: tensor 8, context 1, pipeline 16, data 128.
    """
    of = layout(8, tensor=8, pipeline=16, data=128)
    assert (of.parallelism.gpus, of.hosts, of.shared, of.failure_groups) == (16_384, 2048, 1, 128)
    for host in (0, 129, 2047):
        loss = loss_of_host(of, host)
        assert loss.replicas == (host % 128,), "data varies faster than pipeline, one tensor group a host"
        assert loss.tensor_groups == (host,)
        assert loss.data_groups == tuple(range(host // 128 * 8, host // 128 * 8 + 8))
        assert len(loss.pipeline_groups) == 8
        assert loss.context_groups == loss.expert_groups == ()
    found = reach(of)
    assert found["tensor"] == GroupLocality("tensor", 8, 2048, "scale_up", 8, 1, 8, 1, 1)
    assert found["data"] == GroupLocality("data", 128, 128, "pod", 1, 128, 8, 4, 1), "128 hosts of a pod of 3,072 GPUs"
    assert (found["pipeline"].level, found["pipeline"].pods) == ("cluster", 6), "three stages a pod, one in the last"
    got = bandwidths(found, LEVELS, NVLINK, 1.0)
    assert got == {"tensor": NVLINK, "data": NIC, "pipeline": pytest.approx(16 / 6 * NIC / 7)}, (
        "one of 16 / 6 stages in a pod sends out"
    )


def test_deepseek_v3() -> None:
    """Experts of DeepSeek-V3 are spread over 64 GPUs, which are eight nodes.

    References
    ----------
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.2: pipeline 16, expert 64 spanning 8 nodes, no tensor
    parallelism, 2,048 GPUs.
    """
    of = layout(8, pipeline=16, data=128, expert=64)
    assert of.parallelism.gpus == 2048
    experts = reach(of)["expert"]
    assert (experts.size, experts.groups, experts.domains, experts.per_domain) == (64, 32, 8, 8)
    assert loss_of_host(of, 9).expert_groups == (1,), "hosts 8 to 15 hold the second group of the first stage"
    assert loss_of_host(of, 9).data_groups == (0,)


def test_replicas_joined_through_others() -> None:
    """Replicas of 3 GPUs on hosts of 4: four of them share three hosts, and no fewer can leave alone."""
    of = layout(4, tensor=3, data=8)
    assert (of.shared, of.failure_groups) == (2, 2)
    assert of.group_of_host.tolist() == [0, 0, 0, 1, 1, 1]


def test_experts_over_context() -> None:
    """Experts whose number does not divide that of the replicas are spread over context groups too."""
    of = layout(8, context=4, data=2, expert=8)
    assert of.parallelism.expert_covers == ("context", "expert")
    assert of.members("expert").tolist() == [list(range(8))]
    inside = layout(8, context=4, data=8, expert=8)
    assert inside.parallelism.expert_covers == ("expert",)
    assert inside.members("expert").tolist() == [list(range(first, 32, 4)) for first in range(4)]


def test_experts_folded_over_tensor_ranks() -> None:
    """Experts beyond replicas and context groups are spread over the ranks of tensor groups too, and never twice."""
    of = layout(8, tensor=2, data=16, expert=32)
    assert of.parallelism.expert_covers == ("tensor", "context", "expert")
    assert of.members("expert").tolist() == [list(range(32))]
    halves = layout(8, tensor=2, context=2, data=4, expert=8)
    assert halves.parallelism.expert_covers == ("context", "expert")
    wide = layout(8, tensor=4, data=6, expert=8)
    assert wide.members("expert").tolist() == [list(range(8 * first, 8 * first + 8)) for first in range(3)]
    apart = layout(8, tensor=4, data=8, expert=16, expert_tensor=2)
    assert apart.sizes["expert"] == 8, "two of four tensor ranks share each expert"


@cases(
    ("sizes", "rule"),
    [
        ({"data": 8, "expert": 3}, "3 GPUs do not divide data 8; nearest: 2 or 4"),
        ({"data": 8, "expert": 16}, "16 GPUs do not divide data 8; nearest: 8"),
        (
            {"data": 2, "context": 16, "expert": 24},
            "24 GPUs do not divide data 2, nor are they context 16 times a divisor of it; nearest: 16 or 32",
        ),
    ],
)
def test_experts_must_divide(sizes: dict[str, int], rule: str) -> None:
    """What does not divide is refused at the number of experts, with the numbers beside it that do."""
    reason = refusal(**sizes)
    assert (reason.at, reason.rule) == (("expert",), rule)
    for near in rule.split("nearest: ")[1].split(" or "):
        Parallelism.model_validate({**sizes, "expert": int(near)})


@cases("order", [["data", "tensor"], ["tensor", "tensor", "context", "expert", "data", "pipeline"]])
def test_order_must_be_whole(order: list[str]) -> None:
    """An order that lacks a kind or repeats one is refused, with one that would do."""
    reason = refusal(order=order)
    assert reason.at == ("order",)
    offered = reason.rule.split("for example [")[1].removesuffix("]").split(", ")
    assert list(Parallelism.model_validate({"order": offered}).order)[:2] == list(dict.fromkeys(order))[:2]


def test_layout_is_written_back() -> None:
    """What a layout dumps is the same layout."""
    full = Parallelism.model_validate(
        {
            "data": 4,
            "expert": 2,
            "order": ["data", "tensor", "expert", "pipeline", "context"],
            "within_domain": ["data"],
        }
    )
    assert Parallelism.model_validate(full.model_dump(mode="json")) == full


def test_hosts_are_whole() -> None:
    """Ranks that leave a host half empty are refused, with the numbers of GPUs that do not."""
    with pytest.raises(ValueError, match=r"^12 GPUs are not a whole number of nodes of 8; nearest: 8 or 16$"):
        layout(8, tensor=4, data=3)
    with pytest.raises(ValueError, match=r"nearest: 8$"):
        layout(8, tensor=4)


@cases("tensor", [1, 2, 4, 8, 16])
def test_hierarchical_data_bandwidth(tensor: int) -> None:
    """A data group has g = max(1, D // t) ranks in a domain of D GPUs, and gets min(W, g·X)."""
    found = reach(layout(8, tensor=tensor, data=64))["data"]
    assert found.per_domain == max(1, 8 // tensor)
    got = bandwidths({"data": found}, {"leaf": NIC, "pod": NIC, "cluster": NIC}, NVLINK, 1.0)["data"]
    assert got == min(NVLINK, max(1, 8 // tensor) * NIC)


def test_bandwidth_by_level() -> None:
    """Groups get what is left at the level that they reach, of as many NICs as their ranks in a domain have."""
    level = {"leaf": 40e9, "pod": 30e9, "cluster": 20e9}
    made = {
        kind: GroupLocality(kind, 16, 4, where, each, 4, 8)  # type: ignore[arg-type]
        for kind, where, each in (("tensor", "leaf", 4), ("context", "leaf", 4), ("data", "pod", 2))
    }
    got = bandwidths({**made, "pipeline": made["data"]._replace(level="cluster")}, level, 100e9, 0.5)
    assert got == {"tensor": 80e9, "context": 20e9, "data": 30e9, "pipeline": 10e9}
    assert bandwidths(made, level, 60e9, 0.5)["tensor"] == 60e9, "no more than inside"


def test_neighbours_share_what_leaves_a_pod() -> None:
    """Of the ranks of a group in a pod one sends out of it: with 4 ranks in a pod an eighth of a NIC becomes a half."""
    level = {"leaf": 40e9, "pod": 40e9, "cluster": 5e9}
    far = GroupLocality("data", 32, 4, "cluster", 1, 32, 8, leaves=32, pods=8)
    assert far.network(level) == 20e9
    assert far._replace(pods=1).network(level) == 40e9, "no more than a NIC"
    assert far._replace(kind="expert").network(level) == 5e9, "tokens go to all ranks"


def test_cost_of_crossing() -> None:
    """Tensor groups of 16 on boards of 8 GPUs have a ninth of the bandwidth between them; whole ones cost nothing."""
    found = reach(layout(8, tensor=16, data=2))["tensor"]
    assert cost_of_crossing(found, NVLINK, NIC) == (
        "tensor groups of 16 span 2 scale-up domains of 8 GPUs: the traffic between them gets 50 GB/s a GPU instead of "
        "450 GB/s, 9.0 times less"
    )
    assert "instead of 1,800 GB/s, 36.0 times" in str(cost_of_crossing(found, 1800e9, NIC))
    assert cost_of_crossing(found, NIC, NIC) is None, "NICs as fast as what they replace"
    assert cost_of_crossing(reach(layout(8, tensor=8, data=2))["tensor"], NVLINK, NIC) is None
