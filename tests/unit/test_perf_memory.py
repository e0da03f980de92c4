"""What a GPU has to hold, against the formulas of Korthikanti et al. (arXiv 2205.05198) and published sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim import catalog
from sim.steps import Experts, MemoryUse, ModelShape, Workload, breakdown, checkpoint_size, memory_use
from sim.steps.memory import activation_memory, activations
from tests.cases import cases
from tests.step_cases import BARE, CHIP, SHAPE, bare_machine, workload

GIB = 2.0**30
EXACT = 1e-12
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


def test_fused_attention_keeps_no_scores() -> None:
    """Fused attention holds what selective recomputation of the unfused one does: scores are what both leave out."""
    plain = megatron("megatron-22b", 8, 1, 1, 4)
    assert activation_memory(replace(plain, fused_attention=True)) == activation_memory(
        replace(plain, recompute="selective")
    )


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
    assert kept == pytest.approx((8 * h, 2 * (h + h / 4 + h / 4 + h) + 2 * 3 * f, 5 * 32 * s), rel=EXACT)
    mixed = activations(catalog.models()["mixtral-8x7b"], s, experts=True)
    assert mixed.divided == pytest.approx(2 * 2.5 * h + 2 * (2 * 3 * f) + 2 * 2 * 2 * h, rel=EXACT)


def test_selective_recomputation_of_gated_models_drops_what_is_cheap() -> None:
    """What both norms return (4 h), and the product with the gate (2 f): no large product gives it again.

    Of latent attention the expanded queries, keys and values too (arXiv 2412.19437, section 3.2.3): of what attention
    keeps there are left the narrow waists and its output.
    """
    h, f, s = 4096, 14336, 8192
    shape = catalog.models()["llama3-8b"]
    plain, less = (activations(shape, s, experts=False, selective=selective) for selective in (False, True))
    assert plain.whole - less.whole == 4 * h
    assert plain.divided - less.divided == 2 * f
    assert less.scores == 0.0
    shape = catalog.models()["deepseek-v3"]
    plain, less = (activations(shape, s, experts=False, selective=selective) for selective in (False, True))
    expanded = 2 * 128 * (192 + 192 + 128) - 2 * (1536 + 512 + 64)
    assert plain.divided - less.divided == pytest.approx(expanded + 2 * 18432, rel=EXACT)


def test_latent_attention_keeps_its_own_widths() -> None:
    """DeepSeek-V3's heads have queries and keys of 192 and values of 128, and put out 128 (arXiv 2412.19437, 4.2)."""
    shape = catalog.models()["deepseek-v3"]
    assert shape.experts is not None
    experts = 2 * 3 * (2048 + 8 * 2048) + 2 * 2 * 8 * 7168
    kept = activations(shape, 4096, experts=True)
    assert kept.divided - experts == pytest.approx(2 * 128 * (192 + 192 + 128 + 128), rel=EXACT)


# ------------------------------------------------------------------------------------------------ parameters, state


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


def test_the_update_of_hybrid_shards_moves_what_memory_holds() -> None:
    """Of parameters that are divided among 4 of 16 ranks, each updates a quarter."""
    chip = replace(CHIP, memory_bandwidth=2e12)
    machine = replace(bare_machine(chip), constants=replace(BARE, optimizer=30.0))
    work = workload(replace(SHAPE, vocabulary=0), data=16, sharding="parameters", shard_ranks=4)
    assert breakdown(work, machine).optimizer == pytest.approx(30 * memory_use(work).optimizer / 12 / 2e12, rel=EXACT)


@cases(("name", "size"), [("llama3-8b", 105), ("llama3-70b", 912), ("llama3-405b", 5290)])
def test_checkpoints_are_as_large_as_published(name: str, size: int) -> None:
    """MLPerf Storage prints 105 GB, 912 GB and 5.29 TB: 14 B a parameter if GiB and thousands of them are meant."""
    shape = catalog.models()[name]
    assert checkpoint_size(shape) == 14 * shape.parameters
    assert checkpoint_size(shape) == pytest.approx(size * GIB, rel=0.01)
