"""What groups of GPUs send: bytes recovered from times where one link is known and everything else is free."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.sim import catalog
from ettrick.sim.catalog import steps
from ettrick.sim.steps import (
    Breakdown,
    Constants,
    Experts,
    Impairment,
    Link,
    Machine,
    ModelShape,
    StepPlan,
    breakdown,
    flop_per_token,
    ideal_links,
    start_time,
    step_time_from_mfu,
)
from ettrick.sim.steps.time import rate
from tests.cases import cases
from tests.harness import losses, play, scenario, seconds
from tests.reference_tables import rows
from tests.step_cases import (
    BARE,
    CHIP,
    FLAT,
    LLAMA,
    NARROW,
    SHAPE,
    bare_machine,
    described,
    free_links,
    plan_of,
    workload,
)
from tests.typed import present

if TYPE_CHECKING:
    from ettrick.sim.steps import Workload

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


# ----------------------------------------
# What a job's step comes to: time, utilisation, band, scale; and that a plan can be sent and compared.

ROUNDING = 1e-12


def plan(precision: str = "bf16", **changes: float) -> StepPlan:
    """Return Llama 3 70B on 64 H100."""
    chip = catalog.accelerators()["h100"]
    layout = {"tensor": 4, "pipeline": 4, "data": 4, "sequence": 8192, "sequences": 64}
    work = workload(catalog.models()["llama3-70b"], precision=precision, recompute="full", **layout)
    shares = steps.efficiencies(chip, precision)
    machine = Machine(chip, shares, ideal_links(work, chip.scale_up, 50e9, 8), steps.constants())
    return StepPlan(work, machine, **changes)


@cases("precision", ["bf16", "fp8"])
def test_utilisation_and_tokens_follow_from_the_time(precision: str) -> None:
    """MFU = model FLOP / (time x GPUs x dense peak of the precision), half of attention counted; and back again."""
    one = plan(precision)
    shape, peak = one.work.shape, one.machine.chip.peak[precision]
    assert one.flop == 64 * 8192 * flop_per_token(shape, 8192, convention="causal")
    assert one.mfu == pytest.approx(one.flop / (one.time * 64 * peak), rel=ROUNDING)
    assert step_time_from_mfu(one.flop, 64, peak, one.mfu) == pytest.approx(one.time, rel=ROUNDING)
    assert one.tokens_per_second * one.time == pytest.approx(64 * 8192, rel=ROUNDING)


def test_a_machine_without_losses_is_fully_used() -> None:
    """Matrix units alone, one GPU, attention whose other half is skipped and computed once: MFU 1.

    Unfused attention computes the masked half too, which does not count; so without any, that is of one token.
    """
    work = workload(replace(SHAPE, vocabulary=64), sequence=1, sequences=64, fused_attention=False)
    one = StepPlan(work, bare_machine())
    masked = 3 * SHAPE.attention_width * 24 / flop_per_token(work.shape, 1)
    assert one.mfu == pytest.approx(1 / (1 + masked), rel=ROUNDING)


def test_recomputation_is_no_model_flop() -> None:
    """It takes time, and the FLOP of the step stay the same."""
    one = plan()
    other = StepPlan(replace(one.work, recompute="none"), one.machine)
    assert other.flop == one.flop
    assert other.mfu > one.mfu


def test_the_band_holds_nine_tenths_of_a_log_normal() -> None:
    """The ends are the time over and times exp(1.645 sigma): 5 and 95 % of a normal distribution of the logarithm."""
    low, high = plan(sigma=0.1).band90
    for end, share in ((low, 0.05), (high, 0.95)):
        normal = math.log(end / plan().time) / 0.1
        assert 0.5 * (1 + math.erf(normal / math.sqrt(2))) == pytest.approx(share, abs=1e-5)
    assert plan().band90 == (plan().time, plan().time)


def test_a_measured_step_scales_every_term() -> None:
    """Healthy or not: paces stay what they were, and the shares of the terms too."""
    one, double = plan(), plan(scale=2.0)
    assert double.time == pytest.approx(2 * one.time, rel=ROUNDING)
    assert isinstance(double.breakdown, Breakdown)
    assert double.breakdown == pytest.approx(tuple(2 * term for term in one.breakdown), rel=ROUNDING)
    for state in (Impairment(compute=0.5), Impairment(network=0.25), Impairment(missing=1, keeps_batch=True)):
        assert double.pace(state) == pytest.approx(one.pace(state), rel=ROUNDING)
        assert double.impaired(state).total == pytest.approx(2 * one.impaired(state).total, rel=ROUNDING)


@cases(
    ("name", "words"),
    [
        ("compute", {"compute": 0.0}),
        ("network", {"network": 1.5}),
        ("scale_up", {"scale_up": -0.1}),
        ("compute", {"compute": math.nan}),
    ],
)
def test_what_is_left_is_a_share(name: str, words: dict[str, float]) -> None:
    """Above 0 and at most 1, or the impairment is refused."""
    with pytest.raises(ValueError, match=f"{name} is the share that is left, above 0 and at most 1"):
        Impairment(**words)  # type: ignore[arg-type]


def test_there_is_somebody_left() -> None:
    """Not all replicas can be missing, and no more tensor ranks be left than there are."""
    one = plan()
    with pytest.raises(ValueError, match="4 of 4 replicas cannot be missing"):
        one.impaired(Impairment(missing=4))
    with pytest.raises(ValueError, match="of 4 tensor ranks 8 cannot be left"):
        one.impaired(Impairment(tensor=8))


def test_missing_replicas_are_a_staircase() -> None:
    """With the batch kept m' = ceil(G / (b (d - k))): of 64 sequences on 8 replicas, 8, 10, 11, 13, 16, 22, 32, 64.

    On matrix units alone a step takes m' + p - 1 times what a stage takes for a microbatch.
    """
    work = workload(replace(SHAPE, vocabulary=0), data=8, pipeline=4)
    one = StepPlan(work, bare_machine())
    each = one.time / (8 + 3)
    for missing, microbatches in enumerate((8, 10, 11, 13, 16, 22, 32, 64)):
        found = one.impaired(Impairment(missing=missing, keeps_batch=True)).total
        assert found == pytest.approx((microbatches + 3) * each, rel=ROUNDING)
        assert one.impaired(Impairment(missing=missing)).total == pytest.approx(one.time, rel=ROUNDING)


def test_a_slow_gpu_slows_its_stage_and_nothing_that_waits_for_links() -> None:
    """Half the pace doubles what is computed; the other stages fill the pipeline, and links are as wide."""
    one = plan()
    healthy, slow = one.breakdown, one.impaired(Impairment(compute=0.5))
    for name in ("gemm", "attention", "elementwise", "logits", "optimizer"):
        assert getattr(slow, name) == pytest.approx(2 * getattr(healthy, name), rel=ROUNDING), name
    for name in ("launch", "tensor", "pipeline", "bubble", "overhead"):
        assert getattr(slow, name) == pytest.approx(getattr(healthy, name), rel=ROUNDING), name


def test_a_lost_rail_slows_what_crosses_domains() -> None:
    """Half of the NICs' bandwidth doubles hand-overs and not what stays in a domain; the other way round for links."""
    one = plan()
    healthy = one.breakdown
    narrow = one.impaired(Impairment(network=0.5))
    assert narrow.pipeline == pytest.approx(2 * healthy.pipeline, rel=ROUNDING)
    assert narrow[:8] == healthy[:8]
    assert narrow.data >= healthy.data
    slow = one.impaired(Impairment(scale_up=0.5))
    assert slow.tensor > 1.9 * healthy.tensor
    assert (slow.pipeline, slow.gemm) == (healthy.pipeline, healthy.gemm)


def test_fewer_tensor_ranks_do_all_the_work() -> None:
    """A replica that goes on with half of its tensor ranks takes twice as long for what those shared."""
    work = workload(replace(SHAPE, vocabulary=0), tensor=8, pipeline=2, data=2)
    one = StepPlan(work, bare_machine())
    times = [one.impaired(Impairment(tensor=left)) for left in (0, 8, 4, 2, 1)]
    assert times[0] == times[1] == one.breakdown
    for more, less in pairwise(times[1:]):
        assert less.gemm == pytest.approx(2 * more.gemm, rel=ROUNDING)
        assert less.attention == pytest.approx(2 * more.attention, rel=ROUNDING)


def test_a_slow_gpu_does_not_shorten_what_is_exposed() -> None:
    """Where the network is the bottleneck, slower computing leaves as much of the exchange to wait for."""
    one = plan()
    one = replace(one, machine=replace(one.machine, links=one.machine.links.with_network(0.01)))
    assert one.impaired(Impairment(compute=0.5)).data >= one.breakdown.data


# ----------------------------------------
# How long jobs take to start, against published start-up times.


def test_the_ends_of_two_rounds_of_mlperf() -> None:
    """170 and 395 s at 512 and 10,752 GPUs in v3.1, 292 and 824 s at 512 and 11,616 in v4.0: within 1 %.

    MLCommons, training results, GPT-3 175B on H100, medians of NVIDIA's runs.
    """
    for gpus, fast in ((512, 170), (10752, 395)):
        assert start_time(gpus)[0] == pytest.approx(fast, rel=0.01)
    for gpus, slow in ((512, 292), (11616, 824)):
        assert start_time(gpus)[1] == pytest.approx(slow, rel=0.01)


def h100_starts() -> list[tuple[int, float]]:
    """Return GPUs and start-up time [s] of each run on H100 that was submitted once."""
    starts = rows("mlperf_startup_and_jitter.csv")
    starts = [row for row in starts if "H100" in row["accelerator"] and row["duplicate"] == "0"]
    return [(int(row["accelerators"]), float(row["init_to_run_s"])) for row in starts if row["init_to_run_s"]]


def test_every_start_of_h100_is_near_the_range() -> None:
    """No start is faster than 0.7 of the range's lower end, or slower than 1.3 of its upper end.

    Those of v3.1 grow faster than in proportion: a line between its ends lies above what is between.
    """
    starts = h100_starts()
    assert len(starts) >= 40
    for gpus, length in starts:
        low, high = start_time(gpus)
        assert 0.7 * low <= length <= 1.3 * high, gpus


# ----------------------------------------
# What the groups of a job communicate over, from the cables of its cluster, and what that does to its step.


def ideal(plan: StepPlan) -> dict[str, object]:
    """Return the ideal links of the kinds of groups that a job has."""
    work = plan.work
    links = ideal_links(work, plan.machine.chip.scale_up, 50e9, 8)
    sizes = (
        work.tensor,
        work.context,
        work.expert,
        work.pipeline,
        work.data_ranks,
        work.expert > 1 and 2,
        work.ulysses,
    )
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
    chip = catalog.accelerators()["a100"]
    shares = steps.efficiencies(chip, "bf16")
    links = job.plan.machine.links.with_scale_up(chip.scale_up / job.plan.machine.chip.scale_up)
    other = replace(job.plan, machine=replace(job.plan.machine, chip=chip, shares=shares, links=links))
    assert job.pool_paces == pytest.approx((1.0, job.plan.time / other.time), rel=ROUNDING)
    assert not math.isclose(job.pool_paces[1], 312 / 989, rel_tol=0.01)


# ----------------------------------------
# What a hurt cluster does to a job with a modelled step, by hand.
#
# The job steps from 30 s on; of the 870 s from 130 s to the horizon each is worth what the step model says of a
# step
# in that state. Saves are too rare to matter.

NEVER = {"law": {"use": "exponential", "mean": "100000 d"}, "renews": "never"}

RARE_SAVES = {"tiers": [{"interval": "1 d", "mode": "blocking", "write": "10 s", "restore": "20 s"}]}

ELASTIC = {"use": "shrink-rejoin", "reconfigure": "10 s", "initialize": "3000 s"}

WIDE = {"tensor": 8, "data": 8}


def cause(name: str, effect: Any, part: str = "node", **more: Any) -> dict[str, Any]:
    """Return a source that strikes only where a trace says so."""
    return {"use": "component", "name": name, "part": part, **NEVER, "effect": effect, **more}


def slow(factor: float, **more: Any) -> dict[str, Any]:
    """Return a source of slow nodes."""
    return cause("slow", {"use": "slow", "factor": factor, **more})


def narrow(bandwidth: float) -> dict[str, Any]:
    """Return a source of nodes with less bandwidth."""
    return cause("link", {"use": "degrade", "bandwidth": bandwidth})


def case(
    *sources: dict[str, Any], fabric: Any = None, recovery: Any = None, horizon: Any = None, **job: Any
) -> sim.Prepared:
    """Return Llama 3 8B on eight of sixteen nodes, or what is changed of it."""
    data = described(fabric=fabric, **job) | {"failures": list(sources), "checkpoint": RARE_SAVES}
    more = {"recovery": recovery, "horizon": horizon}
    return sim.prepare(sim.parse(data | {name: value for name, value in more.items() if value is not None}))


def paced_plan(one: sim.Prepared) -> StepPlan:
    """Return the plan of the one job."""
    return present(one.jobs[0].plan)


@cases("factor", [0.9, 0.5, 0.1])
def test_a_slow_node_slows_what_is_computed(factor: float) -> None:
    """Computing takes 1 / f as long and the rest as long as before: ETTR = (100 + 870 t / (t + (1 / f - 1) c)) / 1000.

    Half of the pace is more than half of the steps. Gradients hide behind computing, of which there is more.
    """
    one = case(slow(factor))
    found = paced_plan(one).breakdown
    computing = found.gemm + found.attention + found.elementwise + found.logits + found.optimizer
    pace = found.total / (found.total + (1 / factor - 1) * computing)
    assert factor < pace < 1
    result = play(one, [(130, 0, 3)])
    assert result.jobs[0].work == pytest.approx(100 + 870 * pace, rel=EXACT)
    ettr = ratios(one, result)["ettr"]
    assert ettr.amount / ettr.base == pytest.approx((100 + 870 * pace) / 1000, rel=EXACT)
    assert seconds(result)["degraded"] == pytest.approx(870 * (1 - pace), rel=EXACT)
    assert pace == pytest.approx(paced_plan(one).pace(Impairment(compute=factor)), rel=EXACT)


@cases("out", [1, 2, 3])
def test_lost_spines_slow_what_crosses_leaf_switches(out: int) -> None:
    """Of four spines some are out for 200 s: the network has the share of the others, and then all of it again."""
    fabric = FLAT | {"leaf": {"nodes": 4}, "spine": {"switches": 4}}
    one = case(cause("spine", "crash", part="spine", repair="200 s"), fabric=fabric)
    share = 1 - out / 4
    pace = paced_plan(one).pace(Impairment(network=share))
    result = play(one, [(130, 0, spine) for spine in range(out)])
    assert result.jobs[0].work == pytest.approx(770 + 200 * pace, rel=EXACT)
    assert losses(one, result)["degraded", "spine"] == pytest.approx(200 * (1 - pace), rel=EXACT)


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
        found, hurt = (paced_plan(one).breakdown, paced_plan(one).impaired(Impairment(missing=lost, keeps_batch=True)))
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
