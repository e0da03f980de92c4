"""What a GPU has to hold, against the formulas of Korthikanti et al. (arXiv 2205.05198) and published sizes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ettrick.sim import catalog
from ettrick.sim.steps import (
    Experts,
    LayoutViolation,
    Link,
    MemoryUse,
    ModelShape,
    Workload,
    breakdown,
    checkpoint_size,
    flop_per_token,
    ideal_links,
    memory_use,
    problems,
    rerouted_pace,
)
from ettrick.sim.steps.memory import activation_memory, activations
from ettrick.sim.steps.workload import CHEAP
from tests.cases import cases
from tests.step_cases import BARE, CHIP, SHAPE, bare_machine, workload

# ----------------------------------------
# Parameters and floating-point operations, against the formulas of Megatron and published totals.

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


GIB = 2.0**30

# Figure 1 of the paper as github calculon-ai/calculon prints it in calculon/llm/validation.py [GiB]: model, tensor and
# pipeline ranks, pieces of a stage, microbatch; parameters and their state, activations as they are and as they become
# with sequence parallelism and selective recomputation.
FIGURE_1 = [
    ("megatron-22b", 8, 1, 1, 4, 45.5625, 59.25, 9.5625),
    ("megatron-175b", 8, 8, 3, 1, 45.5625, 66.84375, 12.3515625),
    ("megatron-530b", 8, 35, 3, 1, 31.640625, 114.0234375, 23.076171875),
    ("megatron-1t", 8, 64, 1, 1, 32.958984375, 131.25, 26.5625),
]


def megatron(name: str, tensor: int, pipeline: int, virtual: int, microbatch: int, **changes: object) -> Workload:
    """Return a configuration of the paper, with layers only: its state leaves the embeddings out."""
    plain = Workload(
        shape=replace(catalog.models()[name], vocabulary=0),
        sequence=2048,
        sequences=4 * pipeline * microbatch,
        microbatch=microbatch,
        tensor=tensor,
        pipeline=pipeline,
        virtual=virtual,
        sharding="none",
        sequence_parallel=False,
        fused_attention=False,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def state(use: MemoryUse) -> float:
    """Return the bytes of parameters, gradients and optimizer [B]."""
    return use.weights + use.gradients + use.optimizer


@cases("row", FIGURE_1, ids=lambda row: row[0])
def test_figure_1_of_korthikanti_to_the_last_digit(row: tuple[str, int, int, int, int, float, float, float]) -> None:
    """18 B for each parameter of a GPU's layers, and what 34 + 5 a s / h bytes come to: both columns, eight numbers."""
    name, tensor, pipeline, virtual, microbatch, states, plain, selective = row
    one = megatron(name, tensor, pipeline, virtual, microbatch)
    other = replace(one, sequence_parallel=True, recompute="selective")
    assert state(memory_use(one)) / GIB == pytest.approx(states, rel=EXACT)
    assert state(memory_use(other)) / GIB == pytest.approx(states, rel=EXACT)
    assert memory_use(one).activations / GIB == pytest.approx(plain, rel=EXACT)
    assert memory_use(other).activations / GIB == pytest.approx(selective, rel=EXACT)


@cases(
    ("parallel", "recompute", "terms"),
    [
        (False, "none", (10, 24, 1)),
        (True, "none", (0, 34, 1)),
        (False, "selective", (10, 24, 0)),
        (True, "selective", (0, 34, 0)),
    ],
)
def test_table_2_of_korthikanti(parallel: bool, recompute: str, terms: tuple[int, int, int]) -> None:
    """Activations of a layer are s b h (x + y / t + z 5 a s / (h t)), with x, y and z as in the table."""
    shape, t = catalog.models()["megatron-22b"], 8
    work = megatron("megatron-22b", t, 1, 1, 4, sequence_parallel=parallel, recompute=recompute)
    whole, divided, scores = terms
    score = 5 * shape.heads * 2048 / shape.hidden
    expected = 2048 * 4 * shape.hidden * (whole + divided / t + scores * score / t) * shape.layers
    assert activation_memory(work) == pytest.approx(expected, rel=EXACT)


@cases("parallel", [False, True])
def test_full_recomputation_keeps_the_input_of_layers(parallel: bool) -> None:
    """2 s b h bytes of each layer, divided by t with sequence parallelism; of one layer all that is kept otherwise."""
    plain = megatron("megatron-22b", 8, 1, 1, 4, sequence_parallel=parallel)
    shape = plain.shape
    kept = activation_memory(replace(plain, recompute="full")) - activation_memory(plain) / shape.layers
    assert kept == pytest.approx(2 * 2048 * 4 * shape.hidden * (shape.layers - 1) / (8 if parallel else 1), rel=EXACT)


@cases(("microbatches", "held"), [(1, 1), (3, 3), (8, 8), (32, 8)])
def test_the_first_stage_holds_as_many_microbatches_as_there_are_stages(microbatches: int, held: int) -> None:
    """Of L / p layers each, and no more than there are in a step (arXiv 2205.05198, section 4.2)."""
    work = workload(pipeline=8, sequences=microbatches)
    kept = activations(work.shape, work.sequence, experts=False)
    layer = work.tokens * (kept.whole + kept.divided)
    assert activation_memory(work) == pytest.approx(held * 24 / 8 * layer, rel=EXACT)


@cases("virtual", [2, 3])
def test_interleaving_and_zero_bubble_hold_more(virtual: int) -> None:
    """1 + (p - 1) / (p v) times as much interleaved (section 4.2), twice with H2 (arXiv 2401.10241); H1 as 1F1B."""
    plain = workload(pipeline=4)
    one = activation_memory(plain)
    assert activation_memory(replace(plain, virtual=virtual)) == pytest.approx((1 + 3 / (4 * virtual)) * one, rel=EXACT)
    assert activation_memory(replace(plain, schedule="zero-bubble-h1")) == pytest.approx(one, rel=EXACT)
    assert activation_memory(replace(plain, schedule="zero-bubble-h2")) == pytest.approx(2 * one, rel=EXACT)


def test_grouped_heads_gates_and_experts_keep_what_they_multiply() -> None:
    """Inputs of all matrix products at 16 bits: of keys and values h k / a, of a gate one more, of experts k copies.

    Without dropout the two masks of a byte are gone: 2 h of the 10 h.
    """
    h, f, s = 4096, 14336, 8192
    kept = activations(catalog.models()["llama3-8b"], s, experts=False)
    # Queries, keys, values and the core's output; the gate, what it gates, and the product of both.
    assert kept == pytest.approx((8 * h, 2 * (h + h / 4 + h / 4 + h) + 2 * 3 * f, 5 * 32 * s, 0), rel=EXACT)
    mixed = activations(catalog.models()["mixtral-8x7b"], s, experts=True)
    assert mixed.copies == pytest.approx(2 * (2 * 3 * f) + 2 * 2 * 2 * h, rel=EXACT)
    assert mixed.divided == pytest.approx(2 * 2.5 * h + mixed.copies, rel=EXACT)


def test_selective_recomputation_of_gated_models_drops_what_is_cheap() -> None:
    """What both norms return (4 h), and the product with the gate (2 f): no large product is needed to have it again.

    Of latent attention the expanded queries, keys and values too (arXiv 2412.19437, section 3.2.3): of what attention
    keeps there are left the narrow waists and its output.
    """
    h, f, s = 4096, 14336, 8192
    shape = catalog.models()["llama3-8b"]
    plain, less = (activations(shape, s, experts=False, again=again) for again in ((), CHEAP))
    assert plain.whole - less.whole == 4 * h
    assert plain.divided - less.divided == 2 * f
    assert less.scores == 0.0
    shape = catalog.models()["deepseek-v3"]
    plain, less = (activations(shape, s, experts=False, again=again) for again in ((), CHEAP))
    expanded = 2 * 128 * (192 + 192 + 128) - 2 * (1536 + 512 + 64)
    assert plain.divided - less.divided == pytest.approx(expanded + 2 * 18432, rel=EXACT)


def test_latent_attention_keeps_its_own_widths() -> None:
    """DeepSeek-V3's heads have queries and keys of 192 and values of 128, and put out 128 (arXiv 2412.19437, 4.2)."""
    shape = catalog.models()["deepseek-v3"]
    assert shape.experts is not None
    experts = 2 * 3 * (2048 + 8 * 2048) + 2 * 2 * 8 * 7168
    kept = activations(shape, 4096, experts=True)
    assert kept.divided - experts == pytest.approx(2 * 128 * (192 + 192 + 128 + 128), rel=EXACT)


@cases(("sharding", "each"), [("none", 18.0), ("optimizer", 6 + 12 / 16), ("parameters", 18 / 16)], ids=str)
def test_zero_divides_18_bytes(sharding: str, each: float) -> None:
    """18 B for a parameter; 6 + 12 / d with the optimizer divided, 18 / d with all (arXiv 1910.02054, figure 1).

    That figure has 16-bit gradients, 16 B; ours are 32-bit. Beside divided parameters two layers are whole at a time:
    what the other 15 ranks hold of them is gathered.
    """
    work = workload(tensor=4, data=16, sharding=sharding)
    held = work.shape.parameters / 4
    gathered = 15 / 16 * 2 * 6 * work.shape.dense_layer / 4 if sharding == "parameters" else 0.0
    assert state(memory_use(work)) == pytest.approx(each * held + gathered, rel=EXACT)


def test_context_ranks_divide_too_and_hybrid_groups_less() -> None:
    """Replicas and context groups reduce together; parameters divided among 4 of 16 ranks are held by 4 groups."""
    plain = workload(data=16, sharding="parameters")
    assert memory_use(workload(data=8, context=2, sharding="parameters")).weights == memory_use(plain).weights
    hybrid = memory_use(replace(plain, shard_ranks=4))
    assert hybrid.optimizer == pytest.approx(4 * memory_use(plain).optimizer, rel=EXACT)


def test_experts_are_spread_over_expert_ranks_and_their_copies() -> None:
    """A GPU holds count / e experts of its layers, and the state of one copy in d t / e of them."""
    shape = ModelShape(8, 512, 2048, 8, 8, 0, gated=True, experts=Experts(count=16, active=2, ffn=1024))
    none = workload(shape, tensor=2, data=16, expert=8, sharding="none")
    expert = 3 * 512 * 1024
    common = shape.attention_parameters + 512 * 16
    assert state(memory_use(none)) == pytest.approx(18 * 8 * (common / 2 + 16 / 8 * expert), rel=EXACT)
    divided = memory_use(replace(none, sharding="optimizer"))
    assert divided.optimizer == pytest.approx(12 * 8 * (common / 2 / 16 + 16 / 8 * expert / 4), rel=EXACT)


def test_the_ends_of_a_pipeline_hold_the_tables() -> None:
    """One table of embeddings at each end, tied or not; a pipeline of one stage holds one if tied, else two."""
    untied = replace(SHAPE, tied=False)
    for shape, tables in ((SHAPE, 1), (untied, 2)):
        layers = 24 * shape.dense_layer
        one = memory_use(workload(shape, sharding="none"))
        assert one.weights == pytest.approx(2 * (layers + tables * shape.embedding), rel=EXACT)
        two = memory_use(workload(shape, pipeline=2, sharding="none"))
        assert two.weights == pytest.approx(2 * (layers / 2 + shape.embedding), rel=EXACT)


def test_logits_wait_on_the_last_stage() -> None:
    """32-bit logits and their 16-bit gradients are 6 B for each token and entry, on the stage that has them."""
    work = workload(microbatch=4, tensor=2)
    assert memory_use(work).logits == pytest.approx(6 * 4 * 256 * 1000 / 2, rel=EXACT)
    many = workload(replace(SHAPE, vocabulary=10**7), pipeline=2)
    assert memory_use(many).logits == pytest.approx(6 * 256 * 1e7, rel=EXACT)
    few = workload(replace(SHAPE, vocabulary=10), pipeline=2)
    assert memory_use(few).logits == 0.0


def test_the_last_stage_of_an_interleaved_pipeline_holds_most_of_its_pieces() -> None:
    """It begins v - 1 pieces of p microbatches before its first backward pass: (v - 1) p + 1 are in flight."""
    stages, virtual = 4, 3
    work = workload(replace(SHAPE, vocabulary=10**7), pipeline=stages, virtual=virtual)
    kept = activations(work.shape, work.sequence, experts=False)
    piece = work.tokens * (kept.whole + kept.divided) * 24 / (stages * virtual)
    found = memory_use(work)
    assert found.logits > 0, "it is the last stage that is fullest"
    assert found.activations == pytest.approx(((virtual - 1) * stages + 1) * piece, rel=EXACT)


@cases(("schedule", "held"), [("zero-bubble-h1", 4), ("zero-bubble-h2", 7)])
def test_the_last_stage_without_a_bubble_holds_as_many_as_the_first(schedule: str, held: int) -> None:
    """Passes for weights are put off until all stages have as many microbatches in flight (arXiv 2401.10241, 2.3)."""
    work = workload(replace(SHAPE, vocabulary=10**7), pipeline=4, schedule=schedule)
    kept = activations(work.shape, work.sequence, experts=False)
    found = memory_use(work)
    assert found.logits > 0, "it is the last stage that is fullest"
    assert found.activations >= held * work.tokens * (kept.whole + kept.divided) * 24 / 4 * (1 - EXACT)


def test_the_update_moves_what_memory_holds() -> None:
    """The optimizer's time is 30 B for each parameter whose state a GPU holds, 12 B each, however that is divided."""
    chip = replace(CHIP, memory_bandwidth=2e12)
    machine = replace(bare_machine(chip), constants=replace(BARE, optimizer=30.0))
    shape = replace(SHAPE, vocabulary=0)
    for sharding in ("none", "optimizer", "parameters"):
        work = workload(shape, tensor=2, pipeline=4, data=8, sharding=sharding)
        expected = 30 * memory_use(work).optimizer / 12 / 2e12
        assert breakdown(work, machine).optimizer == pytest.approx(expected, rel=EXACT), sharding


@cases(("name", "size"), [("llama3-8b", 105), ("llama3-70b", 912), ("llama3-405b", 5290)])
def test_checkpoints_are_as_large_as_published(name: str, size: int) -> None:
    """MLPerf Storage prints 105 GB, 912 GB and 5.29 TB: 14 B a parameter if GiB and thousands of them are meant."""
    shape = catalog.models()[name]
    assert checkpoint_size(shape) == 14 * shape.parameters
    assert checkpoint_size(shape) == pytest.approx(size * GIB, rel=0.01)


# ----------------------------------------
# Layouts that cannot be: which rule is broken, and what would keep it.

MIXED = replace(SHAPE, gated=True, experts=Experts(count=16, active=2, ffn=1024))

# What is asked for, which size is wrong, and the nearest values that are right: divisors of what has to be divided.
WRONG = [
    ({"tensor": 3}, "tensor", (2, 4)),
    ({"tensor": 32}, "tensor", (16,)),
    ({"data": 48}, "data", (32, 64)),
    ({"data": 4, "microbatch": 3}, "microbatch", (2, 4)),
    ({"data": 4, "microbatch": 20}, "microbatch", (16,)),
    ({"context": 3}, "context", (2, 4)),
    ({"context": 256}, "context", (128,)),
    ({"pipeline": 4, "virtual": 7}, "virtual", (6,)),
    ({"pipeline": 4, "first_layers": 22}, "first_layers", (21,)),
    ({"pipeline": 2, "first_layers": 20, "last_layers": 5}, "first_layers", (19,)),
    ({"data": 12, "sequences": 48, "shard_ranks": 5, "sharding": "parameters"}, "shard_ranks", (4, 6)),
    ({"data": 16, "expert": 3}, "expert", (2, 4)),
    ({"data": 16, "expert": 32}, "expert", (16,)),
]


@cases(("layout", "size", "near"), WRONG, ids=lambda value: str(value))
def test_a_wrong_size_is_told_with_the_nearest_right_ones(
    layout: dict[str, Any], size: str, near: tuple[int, ...]
) -> None:
    """One problem for the size that is wrong; the divisors next to it are named, and each of them is right."""
    work = workload(MIXED, **layout)
    (problem,) = problems(work)
    assert problem.size == size
    assert nearest(problem) == near
    for value in near:
        right: dict[str, Any] = {size: value}
        assert problems(replace(work, **right)) == []


def nearest(problem: LayoutViolation) -> tuple[int, ...]:
    """Return the values that a problem names as right."""
    _, _, hint = problem.rule.partition("; nearest: ")
    return tuple(int(word) for word in re.findall(r"\d+", hint))


@cases("layers", [24, 22])
def test_embedding_and_logits_may_count_as_layers(layers: int) -> None:
    """Pieces are even if layers divide, or layers and two more, where both ends have a layer less (GPT, Llama 3)."""
    shape = replace(SHAPE, layers=layers)
    work = workload(shape, pipeline=4, virtual=3 if layers == 22 else 2)
    assert problems(work) == []
    ends = 6 if layers == 24 else 5
    assert work.stage_layers == (ends, 6, ends)


def test_stated_ends_leave_the_rest_to_the_others() -> None:
    """61 layers of which the first stage has 16 and the last 13 leave 16 to each of two more (Megatron's options)."""
    work = workload(replace(SHAPE, layers=61), pipeline=4, first_layers=16, last_layers=13)
    assert problems(work) == []
    assert work.stage_layers == (16, 16, 13)
    assert problems(replace(work, virtual=4)) == [], "61 layers in 16 uneven pieces"


@cases("stages", [2, 4, 7, 16])
@cases("logits", [0, 1, 2.5])
def test_stages_hold_all_layers_and_the_logits_count(stages: int, logits: float) -> None:
    """Where layers do not divide, no stage takes a layer longer than its share of layers and logits together."""
    plain = replace(SHAPE, layers=23, vocabulary=0)
    shape = replace(plain, vocabulary=int(logits * plain.dense_layer / plain.hidden))
    first, most, last = workload(shape, pipeline=stages).stage_layers
    assert first * (stages - 1) + last >= 23, "all layers are somewhere"
    assert most == max(first, last)
    slowest = max(most, last + logits)
    assert (23 + logits) / stages <= slowest < (23 + logits) / stages + 1


@cases(("missing", "pace"), [(0, 1.0), (1, 1.0), (3, 11 / 12.8), (7, 11 / 64)])
def test_work_of_lost_stages_fills_the_bubbles_first(missing: int, pace: float) -> None:
    """8 microbatches through 4 stages take 11 slots; peers of a stage have 64 / (8 - missing) to do."""
    assert rerouted_pace(8, 4, 8, missing) == pytest.approx(pace)


# ----------------------------------------
# Options of a step: what each saves of memory, and what it costs.


def kept(**options: Any) -> tuple[float, float]:
    """Return what a layer of Llama 3 8B keeps of a token: undivided, and divided by tensor ranks [B]."""
    found = activations(catalog.models()["llama3-8b"], 8192, experts=False, **options)
    return found.whole, found.divided


def test_narrow_steps_keep_narrow_inputs() -> None:
    """At FP8 what goes into products takes a byte: norms' outputs, the product with the gate; attention's output both.

    github NVIDIA/TransformerEngine: its modules keep their input as it was multiplied.
    """
    h, f = 4096, 14336
    whole, divided = kept()
    narrow = kept(precision="fp8")
    assert (whole - narrow[0], divided - narrow[1]) == (2 * h, f - h)
    assert kept(precision="nvfp4")[0] == 4 * h + h


@cases(
    ("module", "whole", "divided"),
    [
        ("norm", 4 * 4096, 0),
        ("activation", 0, 2 * 14336),
        ("mlp", 0, 6 * 14336),
        ("attention", 0, 0),
        ("dispatch", 0, 0),
    ],
)
def test_each_module_drops_its_own(module: str, whole: float, divided: float) -> None:
    """Norms 4 h, the activation 2 f, the whole feed-forward part 6 f of a layer with a gate; scores count apart."""
    plain, less = kept(), kept(again=(module,))
    assert (plain[0] - less[0], plain[1] - less[1]) == (whole, divided)


def test_products_that_are_computed_again_take_one_forward_pass() -> None:
    """The feed-forward part is 3 h f products of a third of the work; a layer of four recomputed is a quarter pass."""
    shape = catalog.models()["llama3-8b"]
    plain = breakdown(workload(shape), bare_machine()).gemm
    again = breakdown(workload(shape, recompute="selective", modules=("mlp",)), bare_machine()).gemm
    assert again - plain == pytest.approx(2 * 64 * 256 * 32 * 3 * 4096 * 14336 / 1e15, rel=1e-9)
    some = breakdown(workload(shape, recompute="full", recompute_layers=8), bare_machine()).gemm
    assert some / plain == pytest.approx(3.25 / 3, rel=EXACT)
    one, all_ = (activation_memory(workload(shape, recompute="full", recompute_layers=size)) for size in (8, 0))
    assert all_ < one < activation_memory(workload(shape))


@cases(("moments", "each"), [("fp32", 12), ("bf16", 8), ("fp8", 6)])
def test_moments_of_the_optimizer(moments: str, each: float) -> None:
    """A master copy of 4 B and two moments of 4, 2 or 1 B a parameter; none of it where the host keeps it."""
    work = workload(moments=moments, sharding="none")
    assert memory_use(work).optimizer == pytest.approx(each * SHAPE.parameters, rel=EXACT)
    assert memory_use(replace(work, offload_optimizer=True)).optimizer == 0.0


def test_divided_gradients_are_reduced_once_a_round() -> None:
    """ZeRO-2: gradients of one model chunk are whole, 1 / v; each round of p microbatches has a reduction of its own.

    Without interleaving each microbatch has, beside the two layers that are whole at a time.
    """
    work = workload(pipeline=4, virtual=3, data=4, sharding="gradients")
    assert (work.microbatches, work.round, work.reductions) == (16, 4, 4)
    assert replace(work, virtual=1).reductions == 16
    assert replace(work, sharding="optimizer").reductions == 1
    held = 4 * (6 * SHAPE.dense_layer + SHAPE.embedding)
    whole = 3 / 4 * 4 * 6 * SHAPE.dense_layer / 3
    assert memory_use(work).gradients == pytest.approx(held / 4 + whole, rel=0.05)
    machine = bare_machine(data=Link(1e9, 1e9, 1))
    once = breakdown(replace(work, sharding="optimizer", overlap_data=False), machine).data
    often = breakdown(replace(work, overlap_data=False), machine).data
    assert often / once == pytest.approx((4 * 4 + 2) / 6, rel=1e-9)


def test_interleaving_takes_uneven_rounds() -> None:
    """Ten microbatches on four stages go in rounds of five, eleven of six with a rest of five: no round is short."""
    assert [workload(pipeline=4, sequences=count).round for count in (8, 9, 10, 11, 4)] == [4, 5, 5, 6, 4]


def test_activations_wait_on_the_host() -> None:
    """All layers but two leave; they go out beside the forward pass, a third of the stage, and back beside the rest."""
    work = workload(offload_layers=40)
    layer = activation_memory(workload()) / 24
    assert activation_memory(work) == pytest.approx(2 * layer, rel=EXACT)
    fast, slow = (bare_machine(replace(CHIP, host=rate)) for rate in (1e15, 1e9))
    assert breakdown(work, fast).offload == 0.0
    stage = breakdown(work, fast).total / 64
    away = 22 * layer / 1e9
    assert breakdown(work, slow).offload == pytest.approx(64 * (2 * away - stage), rel=1e-9)


def test_an_optimizer_on_the_host_moves_over_its_link() -> None:
    """Gradients go (4 B), the state moves (30 B) and parameters come back (2 B) for each parameter that is its own."""
    machine = replace(bare_machine(replace(CHIP, host=1e9)), constants=replace(BARE, optimizer=30.0))
    found = breakdown(workload(data=8, offload_optimizer=True), machine)
    assert found.optimizer == 0.0
    assert found.offload == pytest.approx(36 * SHAPE.parameters / 8 / 1e9, rel=EXACT)


@cases(("loss", "each"), [("fused", 2), ("vocab-parallel", 6), ("eager", 14)])
def test_what_the_loss_keeps_of_a_logit(loss: str, each: float) -> None:
    """In place at 16 bits; a copy of 32 bits more; copies of logits, of their logarithms and of the gradient."""
    assert memory_use(workload(loss=loss)).logits == pytest.approx(each * 256 * 1000, rel=EXACT)


def test_recorded_iterations_do_not_wait_and_narrow_attention_is_faster() -> None:
    """With CUDA graphs of whole iterations no kernel waits for the host; at FP8 attention has twice the peak."""
    machine = replace(bare_machine(), constants=replace(BARE, launch=1e-4))
    plain, graphs = (breakdown(workload(cuda_graphs=each), machine) for each in (False, True))
    assert graphs == plain._replace(launch=0.0)
    assert breakdown(workload(attention="fp8"), machine).attention == pytest.approx(plain.attention / 2, rel=EXACT)


def test_copies_for_experts_move_more_and_the_busiest_rank_counts() -> None:
    """4 h + 6 f bytes of each copy, touched as often as is said; all that is of copies grows with the busiest rank."""
    shape = catalog.models()["mixtral-8x7b"]
    chip = replace(CHIP, memory_bandwidth=1e12)
    machine = bare_machine(chip, expert=Link(1e9))
    often = replace(machine, constants=replace(BARE, expert_touches=6.0, weight_reads=0.0))
    once = replace(often, constants=replace(often.constants, expert_touches=1.0))
    work = workload(shape, data=8, expert=8)
    copies = 2 * (4 * 4096 + 6 * 14336) * 3 * 8 * 32 * 256
    plain = breakdown(work, often)
    assert plain.elementwise - breakdown(work, once).elementwise == pytest.approx(5 * copies / 1e12, rel=1e-9)
    busy = breakdown(replace(work, expert_load=1.5), often)
    assert busy.elementwise - plain.elementwise == pytest.approx(3 * copies / 1e12, rel=1e-9)
    products = 2 * 3 * 2 * 3 * 4096 * 14336 * 8 * 32 * 256 / 1e15
    assert busy.gemm - plain.gemm == pytest.approx(products / 2, rel=1e-9)
    assert busy.expert == pytest.approx(1.5 * plain.expert, rel=1e-9)
    assert memory_use(replace(work, expert_load=1.5)).activations > memory_use(work).activations
    assert [problem.size for problem in problems(workload(expert_load=1.5))] == ["expert_load"]


def test_partial_graphs_leave_half_of_what_experts_add() -> None:
    """Attention and routing wait for no host; experts are started one by one (a half, assumed)."""
    shape = catalog.models()["deepseek-v3"]
    machine = replace(bare_machine(), constants=replace(BARE, launch=1e-4, expert_launch=1e-3))
    waits = [breakdown(workload(shape, cuda_graphs=how), machine).launch for how in (False, "partial", True)]
    assert waits == pytest.approx([3 * 64 * (62 * 1e-4 + 59 * 1e-3), 3 * 64 * 59 * 0.5e-3, 0.0], rel=1e-9)


def test_frozen_weights_have_no_gradients() -> None:
    """Rank 16 on the attention of Llama 2 70B is 44.6 M parameters; products are 4 of 6, state that of adapters alone.

    MLPerf Training v4.0 trains as many (github mlcommons/training, llama2_70b_lora).
    """
    plain = catalog.models()["llama2-70b"]
    shape = replace(plain, lora=16)
    assert shape.adapter_parameters == 80 * 16 * (8192 + 10240 + 8192 + 8192)
    everywhere = replace(shape, lora_everywhere=True).adapter_parameters - shape.adapter_parameters
    assert everywhere == 80 * 16 * (8192 + 2 * 28672 + 28672 + 8192)
    whole, tuned = (workload(each, data=8, sharding="none") for each in (plain, shape))
    one, other = (breakdown(work, bare_machine(data=Link(1e9))) for work in (whole, tuned))
    tokens, adapters = 8 * 256, shape.adapter_parameters
    assert one.gemm - other.gemm == pytest.approx(2 * tokens * (plain.dense_layer * 80 - 3 * adapters) / 1e15, rel=1e-9)
    assert other.logits == pytest.approx(2 / 3 * one.logits, rel=EXACT)
    assert other.attention == one.attention
    assert other.data / one.data == pytest.approx(adapters / plain.parameters, rel=1e-9)
    held, less = memory_use(whole), memory_use(tuned)
    assert (less.weights, less.gradients) == (held.weights, pytest.approx(4 * adapters, rel=EXACT))
    assert less.optimizer == pytest.approx(12 * adapters, rel=EXACT)
    assert checkpoint_size(shape) == 14 * adapters
    frozen = flop_per_token(shape, 0) - 6 * adapters
    assert frozen == pytest.approx(2 / 3 * flop_per_token(plain, 0), rel=EXACT)
    # Divided weights are gathered all the same, and scattered are gradients of adapters.
    gathered = breakdown(replace(tuned, sharding="parameters"), bare_machine(data=Link(1e9))).data
    moved = 7 / 8 * 8 * (4 * plain.parameters + 2 * adapters)
    assert gathered == pytest.approx(moved / 1e9, rel=1e-9)


def test_heads_in_exchange_for_tokens() -> None:
    """Ulysses: 2 T (2 h + 2 h_k) / t bytes in and out of attention, of which (u - 1) / u leave; forward and backward.

    With eight of sixteen ranks the ring has two; key heads are copied where fewer than ranks attend with them.
    """
    shape = replace(SHAPE, kv_heads=8)
    ring = workload(shape, context=8, data=2)
    width = 2 * (512 + 256)
    machine = bare_machine(ulysses=Link(1e9), context=Link(1e9))
    steps, layers = 32, 24
    found = breakdown(replace(ring, ulysses=8), machine).context
    assert found == pytest.approx(steps * layers * 4 * 32 * width * 7 / 8 / 1e9, rel=1e-9)
    alone = breakdown(ring, machine).context
    assert alone == pytest.approx(steps * layers * 12 * 7 * 32 * 256 / 1e9, rel=1e-9)
    both = breakdown(replace(ring, ulysses=4), machine).context
    assert both == pytest.approx(steps * layers * (4 * 32 * width * 3 / 4 + 12 * 32 * 256) / 1e9, rel=1e-9)
    copied = replace(ring, ulysses=16, context=16, data=1)
    assert (copied.copied_heads, copied.head_values) == (2.0, 2 * (512 + 512))
    # Over two domains of four each, half of what is sent goes through the GPU's own NICs.
    links = ideal_links(replace(ring, ulysses=8), 1e12, 1e9, 4)
    assert links.ulysses == Link(1e12, 1e9, 4)
    assert ideal_links(replace(ring, ulysses=4), 1e12, 1e9, 4).ulysses == Link(1e12, 0.0, 4)
    wide = breakdown(replace(ring, ulysses=8), replace(machine, links=links._replace(context=Link(1e12)))).context
    assert wide == pytest.approx(steps * layers * 4 * 32 * width / 2 / 1e9, rel=1e-9)
    assert [p.size for p in problems(replace(ring, ulysses=3))] == ["ulysses", "ulysses"]


def test_state_spaces_stand_between_layers_with_attention() -> None:
    """Nemotron 3 Nano: 23 of 29 layers have h (3 d + 2 g N + heads) parameters and 7 d N FLOP a token in between.

    The source's own count of a token is 22.3 GFLOP, all of attention counted (github NVIDIA-NeMo/Megatron-Bridge).
    """
    shape = catalog.models()["nemotron-3-nano-30b-a3b"]
    state, attention = 2688 * (3 * 4096 + 2 * 8 * 128 + 64), 2 * 2688 * (32 + 2) * 128
    assert 29 * shape.attention_parameters == pytest.approx(23 * state + 6 * attention, rel=EXACT)
    assert shape.scored(8192) == pytest.approx(8192 * 6 / 29, rel=EXACT)
    scan = 23 * 7 * 4096 * 128
    assert flop_per_token(shape, 8192, convention="full") == pytest.approx(22.3e9, rel=0.02)
    plain = replace(shape, mixer=replace(shape.mixer, state=0) if shape.mixer else None)
    work, other = (workload(each, data=8) for each in (shape, plain))
    more = breakdown(work, bare_machine()).attention - breakdown(other, bare_machine()).attention
    assert more == pytest.approx(3.5 * 8 * 256 * scan / 1e15, rel=1e-9)


def test_experts_may_work_at_a_narrower_width() -> None:
    """Tokens go to experts and back at the latent width: their products and bytes shrink, two projections are added."""
    plain = ModelShape(8, 512, 2048, 8, 8, 0, gated=True, experts=Experts(count=16, active=2, ffn=1024))
    shape = replace(plain, experts=Experts(count=16, active=2, ffn=1024, latent=128))
    assert (shape.expert, shape.common_layer - plain.common_layer) == (3 * 128 * 1024, 2 * 512 * 128)
    machine = bare_machine(expert=Link(1e9))
    wide, narrow = (breakdown(workload(each, data=8, expert=8), machine).expert for each in (plain, shape))
    assert narrow == pytest.approx(wide / 4, rel=1e-9)


def test_tensor_traffic_between_domains_is_not_hidden() -> None:
    """Half of it is inside a domain (here), for what overlaps writes to other GPUs' memory; between two nothing is."""
    constants = replace(BARE, tensor_hidden=0.5)
    inside, across = (
        breakdown(workload(tensor=16), replace(bare_machine(tensor=link), constants=constants)).tensor
        for link in (Link(1e9), Link(1e9, 1e9, 8))
    )
    assert across == pytest.approx(2 * inside, rel=EXACT)


def test_tensor_ranks_share_experts() -> None:
    """With t ranks for each expert a GPU holds a t-th of e times as many; its tokens are gathered and summed."""
    shape = ModelShape(8, 512, 2048, 8, 8, 0, gated=True, experts=Experts(count=16, active=2, ffn=1024))
    whole = workload(shape, tensor=4, data=8, expert=8, sharding="none")
    shared = replace(whole, expert_tensor=4)
    assert problems(shared) == []
    expert = 3 * 512 * 1024
    less = state(memory_use(whole)) - state(memory_use(shared))
    assert less == pytest.approx(18 * 8 * 16 / 8 * expert * (1 - 1 / 4), rel=EXACT)
    machine = bare_machine(tensor=Link(1e9))
    moved = 4 * 2 * 256 * 512 / 4 * 2 * 3
    found = breakdown(shared, machine).expert - breakdown(whole, machine).expert
    assert found == pytest.approx(8 * 8 * moved / 1e9, rel=1e-9)


def test_the_layout_of_llama_3_fits() -> None:
    """Plain TP8 PP16 DP128 on GPUs of 80 GB: gradients divided, all activations kept (arXiv 2407.21783, 3.3.2)."""
    shape = catalog.models()["llama3-405b"]
    work = Workload(shape, 8192, 2048, 1, 8, 1, 16, 128, virtual=8)
    assert memory_use(work).total > 1.1 * 80e9
    assert memory_use(replace(work, sharding="gradients")).total < 1.1 * 80e9
