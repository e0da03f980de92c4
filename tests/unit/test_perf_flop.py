"""Parameters and floating-point operations, against the formulas of Megatron and published totals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim import catalog
from sim.steps import Experts, ModelShape, breakdown, flop_per_token
from tests.cases import cases
from tests.step_cases import BARE, CHIP, SHAPE, WHOLE, bare_machine, workload

EXACT = 1e-12
MEGATRON = ("megatron-22b", "megatron-175b", "megatron-530b", "megatron-1t")


@cases("name", MEGATRON)
def test_parameters_are_those_of_megatron(name: str) -> None:
    """P = 12 L h^2 (1 + V / (12 L h)) without biases, norms and positions (arXiv 2104.04473, section 5.1).

    With them it is 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)), less than a thousandth more.
    """
    shape = catalog.models()[name]
    layers, h, vocabulary, s = shape.layers, shape.hidden, shape.vocabulary, 2048
    plain = 12 * layers * h**2
    assert shape.parameters == pytest.approx(plain * (1 + vocabulary / (12 * layers * h)), rel=EXACT)
    full = plain * (1 + 13 / (12 * h) + (vocabulary + s) / (12 * layers * h))
    assert 0 < full / shape.parameters - 1 < 1e-3


@cases("name", MEGATRON)
def test_model_flop_are_those_of_megatron(name: str) -> None:
    """72 B s L h^2 (1 + s / (6 h) + V / (12 L h)) a step, all of attention counted (arXiv 2205.05198, equation 7)."""
    shape, s = catalog.models()[name], 2048
    layers, h, vocabulary = shape.layers, shape.hidden, shape.vocabulary
    expected = 72 * layers * h**2 * (1 + s / (6 * h) + vocabulary / (12 * layers * h))
    assert flop_per_token(shape, s, convention="full") == pytest.approx(expected, rel=EXACT)
    causal = 72 * layers * h**2 * (1 + s / (12 * h) + vocabulary / (12 * layers * h))
    assert flop_per_token(shape, s) == pytest.approx(causal, rel=EXACT)


@cases(("recompute", "per_layer", "of_logits"), [("none", 72, 12), ("full", 96, 16)])
def test_a_step_executes_the_flop_of_megatron(recompute: str, per_layer: int, of_logits: int) -> None:
    """Times on matrix units alone are 96 B s L h^2 (1 + s / (6 h) + V / (16 L h)) with full recomputation.

    That is equation 3 of arXiv 2104.04473; without recomputation it is the model's FLOP. Of unfused attention, which
    skips nothing.
    """
    shape, t, p = replace(SHAPE, vocabulary=4096), 2, 4
    work = workload(shape, tensor=t, pipeline=p, recompute=recompute, fused_attention=False)
    layers, h, s = shape.layers, shape.hidden, work.sequence
    expected = per_layer * 64 * s * layers * h**2 * (1 + s / (6 * h) + 4096 / (of_logits * layers * h))
    found = breakdown(workload(shape, recompute=recompute, fused_attention=False), bare_machine())
    assert found.total * 1e15 == pytest.approx(expected, rel=EXACT)
    # The slowest stage has a quarter of the layers, and half of each; the bubble is not executed.
    stage = breakdown(work, bare_machine())
    layered = per_layer * 64 * s * layers * h**2 * (1 + s / (6 * h)) / (t * p)
    assert (stage.gemm + stage.attention) * 1e15 == pytest.approx(layered, rel=EXACT)


def test_selective_recomputation_runs_the_core_of_attention_once_more() -> None:
    """A forward pass of attention, 4 s h for each token and layer: 1 + s / (18 h) of three passes' FLOP at V = 0."""
    shape = replace(SHAPE, vocabulary=0)
    plain, more = (
        breakdown(workload(shape, recompute=recompute, fused_attention=False), bare_machine())
        for recompute in ("none", "selective")
    )
    s, h = 256, shape.hidden
    again = (more.total - plain.total) / (72 * 64 * s * 24 * h**2 / 1e15)
    assert again == pytest.approx(s / (18 * h), rel=1e-9)


@cases("recompute", ["none", "full"])
def test_fused_attention_skips_half_and_computes_the_scores_again(recompute: str) -> None:
    """Its backward pass is 2.5 times the forward one, and half of both is masked (arXiv 2307.08691, section 4.1)."""
    plain, fused = (
        breakdown(workload(recompute=recompute, fused_attention=fused), bare_machine()).attention
        for fused in (False, True)
    )
    passes = 3 + (recompute == "full")
    assert fused / plain == pytest.approx((passes + 0.5) / 2 / passes, rel=EXACT)


@cases(
    ("name", "tokens", "published"),
    [("gpt3-175b", 300e9, 3.14e23), ("gpt3-13b", 300e9, 2.31e22), ("llama3-405b", 15.6e12, 3.8e25)],
)
def test_six_flop_for_each_parameter(name: str, tokens: float, published: float) -> None:
    """Of a short sequence 6 P a token, lookups of embeddings apart: as published for whole trainings.

    GPT-3: arXiv 2005.14165, table D.1. Llama 3 405B: arXiv 2407.21783, section 1.
    """
    shape = catalog.models()[name]
    lookups = 0 if shape.tied else shape.embedding
    each = flop_per_token(shape, 0)
    assert each == pytest.approx(6 * (shape.parameters - lookups), rel=EXACT)
    assert tokens * each == pytest.approx(published, rel=0.01)


def test_experts_that_a_token_does_not_meet_cost_nothing() -> None:
    """Mixtral 8x7B computes with 12.9 of its 46.7 billion parameters."""
    shape = catalog.models()["mixtral-8x7b"]
    assert flop_per_token(shape, 0) == pytest.approx(6 * (shape.active_parameters - shape.embedding), rel=EXACT)


@cases(
    ("name", "depths", "published"),
    [
        ("deepseek-v3", 1, 260.0e9),
        ("deepseek-v3", 0, 249.6e9),
        ("kimi-k2", 0, 204.4e9),
        ("qwen3-235b-a22b", 0, 148.0e9),
        ("qwen3-30b-a3b", 0, 23.0e9),
    ],
)
def test_models_with_experts_have_the_flop_of_their_benchmarks(name: str, depths: int, published: float) -> None:
    """TFLOP/s over tokens/s at 4,096 tokens, half of attention counted; all of it would be 8 to 20 % more.

    github NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, containers 25.09 to 26.08.
    """
    shape = replace(catalog.models()[name], depths=depths)
    assert flop_per_token(shape, 4096) == pytest.approx(published, rel=0.006)
    assert flop_per_token(shape, 4096, convention="full") > 1.07 * published


def test_a_further_depth_is_a_layer_and_a_joining_matrix() -> None:
    """DeepSeek-V3's module for one more token shares both tables: one layer, and 2 h x h (arXiv 2412.19437, 2.2)."""
    shape = catalog.models()["deepseek-v3"]
    more = shape.parameters - replace(shape, depths=0).parameters
    assert more == shape.common_layer + 256 * shape.expert + 2 * 7168**2
    flop = flop_per_token(shape, 0) - flop_per_token(replace(shape, depths=0), 0)
    met = shape.common_layer + 8 * shape.expert + 2 * 7168**2
    assert flop == pytest.approx(6 * (met + shape.embedding), rel=1e-9)


def test_one_expert_is_a_plain_layer_and_a_router() -> None:
    """A layer with one expert, which every token meets, has the parameters and the FLOP of one without, and h more."""
    plain = replace(SHAPE, gated=True)
    one = replace(plain, experts=Experts(count=1, active=1, ffn=plain.ffn))
    routers = plain.layers * plain.hidden
    assert one.parameters == plain.parameters + routers
    assert flop_per_token(one, 256) == pytest.approx(flop_per_token(plain, 256) + 6 * routers, rel=EXACT)
    times = [breakdown(workload(shape), bare_machine()).gemm for shape in (plain, one)]
    assert times[1] - times[0] == pytest.approx(6 * 64 * 256 * routers / 1e15, rel=1e-9)


@cases("name", ["llama3-8b", "mixtral-8x7b", "deepseek-v3", "kimi-k2", "gpt3-13b"])
@cases("tensor", [1, 4])
def test_a_step_takes_as_long_as_its_flop(name: str, tensor: int) -> None:
    """On matrix units alone: products with weights, the logits of each depth, attention with 3.5 passes instead of 3.

    Layers with experts and without count each; only the small joining matrices of further depths are left out.
    """
    shape = catalog.models()[name]
    tables = (1 if shape.tied else 2) * shape.embedding
    found = breakdown(workload(shape, tensor=tensor), bare_machine())
    flop = 64 * 256 / tensor / 1e15
    products = shape.active_parameters - tables - shape.depths * 2 * shape.hidden**2
    assert found.gemm == pytest.approx(6 * products * flop, rel=EXACT)
    assert found.logits == pytest.approx(6 * (1 + shape.depths) * shape.embedding * flop, rel=EXACT)
    half = 256 * shape.attention_width * (shape.layers + shape.depths)
    assert found.attention == pytest.approx(3.5 * half * flop, rel=EXACT)
    total = flop_per_token(shape, 256) + 0.5 * half
    assert found.total == pytest.approx(total * flop, rel=0.005)


@cases("expert", [1, 2, 8])
def test_experts_are_spread_and_their_work_is_not(expert: int) -> None:
    """However experts are spread, a GPU computes for as many tokens; it reads fewer weights."""
    shape = ModelShape(8, 512, 2048, 8, 8, 0, gated=True, experts=Experts(count=16, active=2, ffn=1024))
    work = workload(shape, data=8, expert=expert)
    compute = breakdown(work, bare_machine()).gemm
    assert compute == pytest.approx(breakdown(replace(work, expert=1), bare_machine()).gemm, rel=EXACT)
    slow = bare_machine(replace(CHIP, memory_bandwidth=1e12))
    held = shape.attention_parameters + 512 * 16 + 16 / expert * shape.expert
    read = breakdown(work, slow).gemm - compute
    assert read == pytest.approx(8 * 3 * 8 * held * 2 / 1e12, rel=1e-9)


@cases(("precision", "width"), [("bf16", 2.0), ("fp8", 1.0)])
def test_products_run_at_their_precision_and_the_rest_at_16_bits(precision: str, width: float) -> None:
    """At FP8 products with weights take half the time, and half the bytes; attention and logits stay at 16 bits."""
    found = breakdown(workload(precision=precision), bare_machine())
    assert found.gemm == pytest.approx(3 * 64 * 256 * 2 * 24 * SHAPE.dense_layer / (2 / width * 1e15), rel=EXACT)
    plain = breakdown(workload(), bare_machine())
    assert (found.attention, found.logits) == (plain.attention, plain.logits)
    read = (
        breakdown(workload(precision=precision), bare_machine(replace(CHIP, memory_bandwidth=1e12))).gemm - found.gemm
    )
    assert read == pytest.approx(64 * 3 * 24 * SHAPE.dense_layer * width / 1e12, rel=1e-9)


def test_efficiencies_are_shares_of_the_peak() -> None:
    """A product that reaches half of the peak takes twice the time: each of the three has its own share."""
    machine = bare_machine()
    whole = breakdown(workload(), machine)
    shares = replace(WHOLE, gemm=0.5, attention=0.25, logits=0.2)
    found = breakdown(workload(), replace(machine, shares=shares))
    assert found.gemm == pytest.approx(2 * whole.gemm, rel=EXACT)
    assert found.attention == pytest.approx(4 * whole.attention, rel=EXACT)
    assert found.logits == pytest.approx(5 * whole.logits, rel=EXACT)


@cases("recompute", ["none", "full"])
def test_what_is_between_the_products_moves_the_inventory_of_activations(recompute: str) -> None:
    """34 s b h bytes of each layer, once in each pass at one touch (arXiv 2205.05198, section 4.1)."""
    machine = bare_machine(replace(CHIP, memory_bandwidth=1e12))
    found = breakdown(workload(tensor=4, recompute=recompute), machine).elementwise
    passes = 4 if recompute == "full" else 3
    assert found == pytest.approx(passes * 64 * 256 * 512 * 34 / 4 * 24 / 1e12, rel=1e-9)
    scored = breakdown(workload(tensor=4, recompute=recompute, fused_attention=False), machine).elementwise
    assert scored - found == pytest.approx(passes * 64 * 256 * 5 * 16 * 256 / 4 * 24 / 1e12, rel=1e-9)


def test_launches_and_overheads_are_counted_once_a_pass_and_once_a_step() -> None:
    """Three passes of each layer and microbatch wait for the host, and the step has a constant of its own."""
    constants = replace(BARE, launch=1e-4, overhead=0.5)
    found = breakdown(workload(microbatch=2, pipeline=2), replace(bare_machine(), constants=constants))
    assert found.launch == pytest.approx(3 * 12 * 32 * 1e-4, rel=EXACT)
    assert found.overhead == 0.5
    # Three of the 61 layers of DeepSeek-V3 have no experts, the module for one more token has.
    more = breakdown(
        workload(catalog.models()["deepseek-v3"]), replace(bare_machine(), constants=replace(BARE, expert_launch=1e-3))
    )
    assert more.launch == pytest.approx(3 * 59 * 64 * 1e-3, rel=EXACT)
