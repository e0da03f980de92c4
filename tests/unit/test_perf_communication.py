"""What groups of GPUs send: bytes recovered from times where one link is known and everything else is free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sim.steps import Constants, Experts, Link, ModelShape, breakdown, ideal_links
from sim.steps.time import rate
from tests.cases import cases
from tests.step_cases import BARE, CHIP, SHAPE, bare_machine, free_links, workload

if TYPE_CHECKING:
    from sim.steps import Breakdown, Machine, Workload

EXACT = 1e-9
KNOWN = 1e10
"""Bandwidth of the one link that is not free [B/s]."""

GROUPED = replace(SHAPE, kv_heads=4)
MIXED = ModelShape(8, 512, 2048, 8, 8, 0, gated=True, experts=Experts(count=16, active=2, ffn=1024))
T, H, M = 256, 512, 64
"""Tokens of a microbatch, hidden width, and microbatches of the layouts below [-]."""


def moved(work: Workload, kind: str, machine: Machine | None = None) -> float:
    """Return the bytes that one GPU sends in a step for a kind of group [B]."""
    found = breakdown(work, machine or bare_machine(**{kind: Link(KNOWN)}))
    return float(getattr(found, "data" if kind == "expert_data" else kind)) * KNOWN


# ------------------------------------------------------------------------------------------------ kinds of groups


@cases("parallel", [False, True])
@cases(("recompute", "collectives"), [("none", 4), ("selective", 4), ("full", 6)])
def test_tensor_ranks_reduce_twice_a_pass(recompute: str, collectives: int, parallel: bool) -> None:
    """Two all-reduces of 2 (t - 1) / t 2 T h bytes forward, two backward, two more if the layer is computed again.

    Sequence parallelism sends as many bytes, in halves (arXiv 2205.05198, section 4.2.2).
    """
    work = workload(tensor=8, recompute=recompute, sequence_parallel=parallel)
    assert moved(work, "tensor") == pytest.approx(M * 24 * collectives * 2 * 7 / 8 * 2 * T * H, rel=EXACT)
    assert moved(workload(), "tensor") == 0.0


def test_context_ranks_pass_keys_and_values_round() -> None:
    """A ring of c sends keys and values c - 1 times forward and twice that backward: 12 (c - 1) T h k / (a t) bytes."""
    work = workload(GROUPED, context=4, tensor=2)
    assert moved(work, "context") == pytest.approx(M * 24 * 12 * 3 * (T / 4) * H * (4 / 16) / 2, rel=EXACT)


@cases(("recompute", "exchanges"), [("none", 4), ("full", 6)])
def test_tokens_travel_to_experts_and_back(recompute: str, exchanges: int) -> None:
    """Out and back, forward and backward: each 2 T h k (e - 1) / e bytes, shared by t GPUs; all layers have experts."""
    work = workload(MIXED, data=8, expert=8, tensor=2, recompute=recompute)
    assert moved(work, "expert") == pytest.approx(8 * 8 * exchanges * 2 * T * H * 2 * 7 / 8 / 2, rel=EXACT)
    assert moved(replace(work, expert=1), "expert") == 0.0


def test_a_token_crosses_to_each_domain_once() -> None:
    """Of 8 ranks 2 are in each of 4 domains: a token sent to k experts crosses to at most k, 4 or `domains` of them.

    Three quarters of its experts are outside.
    """
    work = workload(MIXED, data=8, expert=8)
    token = 8 * 8 * 4 * 2 * T * H
    through = bare_machine(expert=Link(math.inf, KNOWN, 2))
    assert moved(work, "expert", through) == pytest.approx(token * 2 * 3 / 4, rel=EXACT)
    assert MIXED.experts is not None
    many = replace(MIXED, experts=replace(MIXED.experts, active=8))
    assert moved(replace(work, shape=many), "expert", through) == pytest.approx(token * 4 * 3 / 4, rel=EXACT)
    limited = replace(MIXED, experts=replace(MIXED.experts, active=8, domains=3))
    assert moved(replace(work, shape=limited), "expert", through) == pytest.approx(token * 3 * 3 / 4, rel=EXACT)


@cases("virtual", [1, 3])
def test_stages_hand_over_activations_and_their_gradients(virtual: int) -> None:
    """2 T h bytes each way for each microbatch, in t parts, v times as often (arXiv 2104.04473, section 4.1)."""
    work = workload(pipeline=4, tensor=2, virtual=virtual)
    assert moved(work, "pipeline") == pytest.approx(M * 2 * virtual * 2 * T * H / 2, rel=EXACT)
    # Filling and draining hands over once to each further stage, and once back.
    free, known = (breakdown(work, bare_machine(pipeline=link)) for link in (Link(math.inf), Link(KNOWN)))
    assert (known.bubble - free.bubble) * KNOWN == pytest.approx(3 * 2 * 2 * T * H / 2, rel=EXACT)


@cases(
    ("sharding", "precision", "size"),
    [("none", "bf16", 2 * 2), ("optimizer", "bf16", 4 + 2), ("none", "fp8", 2 * 2), ("optimizer", "fp8", 2 + 1)],
)
def test_replicas_reduce_gradients_and_gather_parameters(sharding: str, precision: str, size: float) -> None:
    """(d - 1) / d P / (t p) times: 16-bit gradients twice, or 32-bit gradients and 16-bit parameters once each.

    With FP8 gradients of 16 and parameters of 8 bits. Ranks of context groups have the same parameters.
    """
    work = workload(tensor=2, pipeline=4, data=8, sharding=sharding, precision=precision)
    assert moved(work, "data") == pytest.approx(7 / 8 * SHAPE.parameters / 8 * size, rel=EXACT)
    both = replace(work, data=4, context=2)
    assert moved(both, "data") == pytest.approx(7 / 8 * SHAPE.parameters / 8 * size, rel=EXACT)


def test_divided_parameters_are_gathered_for_each_microbatch() -> None:
    """FSDP: two gathers and a scatter of 2 B for each parameter, 3 (d - 1) / d 2 P / (t p), every microbatch."""
    work = workload(tensor=2, pipeline=4, data=8, sharding="parameters")
    assert moved(work, "data") == pytest.approx(8 * 3 * 7 / 8 * 2 * SHAPE.parameters / 8, rel=EXACT)


def test_hybrid_shards_are_reduced_once_more_between_groups() -> None:
    """Inside groups of g like FSDP; across d / g groups one all-reduce of the 16-bit gradients of P / g parameters."""
    work = workload(data=16, sharding="parameters", shard_ranks=4)
    inside = 4 * 3 * 3 / 4 * 2 * SHAPE.parameters
    across = 2 * 3 / 4 * 2 * SHAPE.parameters / 4
    assert moved(work, "data") == pytest.approx(inside + across, rel=EXACT)
    # In domains of four, the groups need no NIC: only what is left crosses, one rank of each group to a domain.
    domains = bare_machine(data=Link(math.inf, KNOWN, 4))
    assert moved(work, "data", domains) == pytest.approx(across, rel=EXACT)


def test_experts_are_reduced_among_their_copies() -> None:
    """The same experts are held by d t / e ranks; what is not experts' is reduced among all replicas."""
    work = workload(MIXED, data=8, expert=4, tensor=2, sharding="optimizer")
    copies = 8 * 2 / 4
    each = 8 * 16 * MIXED.expert / 4
    assert moved(work, "expert_data") == pytest.approx((copies - 1) / copies * 6 * each, rel=EXACT)
    assert moved(work, "data") == pytest.approx(7 / 8 * 6 * MIXED.shared_parameters / 2, rel=EXACT)


# ------------------------------------------------------------------------------------------- links, overlap, latency


def test_the_rate_of_a_group_is_that_of_its_domain_or_of_its_nics() -> None:
    """min(W, g X): g ranks in a domain share what it sends among their NICs; efficiencies are those of each."""
    constants = replace(BARE, scale_up=0.7, network=0.85)
    assert rate(Link(450e9), constants) == pytest.approx(0.7 * 450e9)
    assert rate(Link(450e9, 50e9, 4), constants) == pytest.approx(4 * 0.85 * 50e9)
    assert rate(Link(450e9, 50e9, 8), constants) == pytest.approx(0.7 * 450e9)


def test_ideal_links_sit_inside_out() -> None:
    """Tensor, context, replicas, stages: with t = c = 2 a domain of 8 GPUs has four ranks that reduce together.

    Rings and pipelines go through one rank's NIC.
    """
    links = ideal_links(workload(tensor=2, context=2, data=8, pipeline=4), 450e9, 50e9, 8)
    assert links.tensor == links.context == Link(450e9)
    assert links.data == Link(450e9, 50e9, 4)
    assert links.pipeline == Link(450e9, 50e9, 1)
    wide = ideal_links(workload(tensor=8, context=4, data=2), 450e9, 50e9, 8)
    assert wide.tensor == Link(450e9)
    assert wide.context == Link(450e9, 50e9, 1)
    assert wide.data == Link(450e9, 50e9, 1)
    small = ideal_links(workload(tensor=2, data=2), 450e9, 50e9, 8)
    assert set(small) == {Link(450e9)}


def test_copies_of_experts_are_farther_apart_than_the_experts() -> None:
    """Of 8 experts' ranks side by side in a domain of 8, each copy is in another domain."""
    links = ideal_links(workload(MIXED, data=32, expert=8), 450e9, 50e9, 8)
    assert links.expert == Link(450e9)
    assert links.expert_data == Link(450e9, 50e9, 1)
    links = ideal_links(workload(MIXED, data=32, expert=2), 450e9, 50e9, 8)
    assert links.expert_data == Link(450e9, 50e9, 4)


HIDDEN = {
    "tensor": ("tensor_hidden", {"tensor": 2}),
    "context": ("context_hidden", {"context": 2}),
    "expert": ("expert_hidden", {"data": 4, "expert": 4}),
    "pipeline": ("handover_hidden", {"pipeline": 4, "virtual": 2}),
}


@cases("kind", HIDDEN)
def test_what_is_hidden_is_not_waited_for(kind: str) -> None:
    """A share o of the traffic that runs beside computing leaves 1 - o."""
    name, layout = HIDDEN[kind]
    work = workload(MIXED, **layout)
    machine = bare_machine(**{kind: Link(KNOWN)})
    hiding = replace(machine, constants=replace(BARE, **{name: 0.25}))
    assert moved(work, kind, hiding) == pytest.approx(0.75 * moved(work, kind, machine), rel=EXACT)


def test_what_does_not_overlap_is_waited_for_in_full() -> None:
    """Traffic of tensor ranks and of replicas that is not overlapped, and hand-overs of 1F1B, are waited for whole."""
    constants = replace(BARE, tensor_hidden=0.5, handover_hidden=0.5, data_cover=1.0)
    cases = (("tensor", {"tensor": 2, "overlap_tensor": False}), ("pipeline", {"pipeline": 4}))
    for kind, layout in (*cases, ("data", {"data": 4, "overlap_data": False})):
        machine = bare_machine(**{kind: Link(KNOWN)})
        hiding = replace(machine, constants=constants)
        assert moved(workload(**layout), kind, hiding) == moved(workload(**layout), kind, machine), kind


def test_divided_parameters_that_do_not_overlap_are_waited_for_in_full() -> None:
    """`overlap_data: false` holds for gathers and scatters of FSDP too."""
    work = workload(data=4, sharding="parameters", overlap_data=False)
    machine = bare_machine(data=Link(KNOWN))
    hiding = replace(machine, constants=replace(BARE, shard_cover=0.8))
    assert moved(work, "data", hiding) == moved(work, "data", machine)


def test_gradients_hide_behind_a_stage_and_parameters_behind_the_pipeline() -> None:
    """max(floor x, x - cover S): of x = moved / B with S of one microbatch, or of the whole pipeline for FSDP."""
    constants = replace(BARE, data_cover=1.0, data_floor=0.05, shard_cover=0.8, shard_floor=0.2)
    for sharding, cover, floor in (("optimizer", 1 / 16, 0.05), ("parameters", 0.8, 0.2)):
        work = workload(data=4, sharding=sharding)
        computing = _without(breakdown(work, bare_machine()))
        for bandwidth in (1e6, 1e8, 1e14):
            machine = bare_machine(data=Link(bandwidth))
            plain = breakdown(work, machine).data
            found = breakdown(work, replace(machine, constants=constants)).data
            assert found == pytest.approx(max(floor * plain, plain - cover * computing), rel=EXACT), (
                sharding,
                bandwidth,
            )


def _without(found: Breakdown) -> float:
    """Return the time of the microbatches alone [s]."""
    return found.total - found.data - found.optimizer - found.overhead


def test_tokens_may_travel_behind_another_microbatch() -> None:
    """With DualPipe only what takes longer than the products and attention of a layer is waited for."""
    work = workload(MIXED, data=8, expert=8, overlap_expert=True)
    plain = replace(work, overlap_expert=False)
    for bandwidth in (1e8, 1e12):
        machine = bare_machine(expert=Link(bandwidth))
        other = breakdown(plain, machine)
        expected = max(0.0, other.expert - other.gemm - other.attention)
        assert breakdown(work, machine).expert == pytest.approx(expected, rel=EXACT)


def test_collectives_start_with_a_latency() -> None:
    """Each of four collectives of tensor ranks, and each of four exchanges of tokens, starts once a layer."""
    constants: Constants = replace(BARE, latency=1e-5)
    machine = replace(bare_machine(), constants=constants)
    assert breakdown(workload(tensor=2), machine).tensor == pytest.approx(M * 24 * 4 * 1e-5, rel=EXACT)
    assert breakdown(workload(MIXED, data=8, expert=8), machine).expert == pytest.approx(8 * 8 * 4 * 1e-5, rel=EXACT)


def test_narrower_links_are_shares_of_the_whole() -> None:
    """A share of the network leaves the domains alone, and the other way round."""
    links = free_links(data=Link(400e9, 50e9, 4), tensor=Link(400e9))
    narrow = links.with_network(0.5)
    assert narrow.data == Link(400e9, 25e9, 4)
    assert narrow.tensor == Link(400e9)
    slow = links.with_scale_up(0.25)
    assert slow.data == Link(100e9, 50e9, 4)
    assert slow.tensor == Link(100e9)
    assert CHIP.scale_up == math.inf
