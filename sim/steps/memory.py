"""The memory of a GPU: parameters and their state, activations in flight, and the ways to make them fit.

`activations` is the inventory of a layer. Where element-wise operations are not *fused*, queries and keys count before
and after their rotation, and the gate before and after its activation. What goes into a matrix product is kept as the
product reads it, at 8 or 4 bits in narrow steps; attention keeps its own output at 16 bits in addition to that.
Modules that are computed *again* drop the scores (`attention`), what norms return, what goes into the second product
(`activation`), what latent attention expands, tokens sorted by expert (`dispatch`), or all of a feed-forward part but
its input (`mlp`, `shared_experts`, `experts`).

References
----------
V. Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4, for
the plain case; grouped heads, gates and experts by the same count. arXiv 2412.19437, section 3.2.3, and github
NVIDIA/Megatron-LM (``recompute_modules``) for what else is computed again; github NVIDIA/TransformerEngine for what
products keep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.sim.steps.workload import LOSS_BYTES, STATE_BYTES, divisors, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.steps.shape import ModelShape
    from ettrick.sim.steps.workload import Module, Workload


class Activations(NamedTuple):
    """Bytes of one token in one layer, at 16 bits.

    Parameters
    ----------
    whole
        What each tensor rank holds, unless sequence parallelism divides it too [B].
    divided
        What tensor ranks divide among them [B].
    scores
        Scores of attention, which tensor ranks divide; nothing where attention is fused [B].
    copies
        Of what is divided, what is kept of the token's copies for experts [B].
    """

    whole: float
    divided: float
    scores: float
    copies: float


INPUT_BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}
"""Bytes of a value that a matrix product keeps for its backward pass, by the precision of the step [B]."""


def activations(
    shape: ModelShape,
    sequence: int,
    *,
    experts: bool,
    again: Sequence[Module] = (),
    precision: str = "bf16",
    fused: bool = True,
    returned: bool = True,
) -> Activations:
    r"""Return the inventory of a layer, with experts or without.

    .. math:: 10 h, \quad 4 (h + h_k) + 2 \nu f, \quad 5 a s

    In the plain case (h_k = h, f = 4 h, nu = 2 matrices) the second is 24 h. Models with gates are trained without
    dropout, whose masks are 2 h of the 10 h. A token that meets several experts counts once for each, going in and, if
    what they have `returned` counts, coming out: that is moved, but not kept where experts weigh before their second
    product.
    """
    dropped, narrow = set(again), INPUT_BYTES[precision]
    width, copies, inner = 0.0 if "mlp" in dropped else float(shape.ffn), 0, 0.0
    if experts and shape.experts is not None:
        width = 0.0 if "shared_experts" in dropped else float(shape.experts.shared)
        if "experts" not in dropped:
            copies, inner = shape.experts.active, float(shape.experts.active * shape.experts.ffn)
    sorted_tokens = (0.0 if "dispatch" in dropped else narrow) + (2.0 if returned else 0.0)
    apart = 2 if shape.gated and not fused and "activation" not in dropped else 0
    inside = 2 * (shape.matrices - 1) + apart + (0.0 if "activation" in dropped else narrow)
    of_copies = inside * inner + sorted_tokens * copies * shape.expert_hidden
    masks = 0 if shape.gated else 2
    return Activations(
        (4 + masks + (0.0 if "norm" in dropped else 2 * narrow)) * shape.hidden,
        _attention(shape, narrow, is_low="up_projection" in dropped, fused=fused) + inside * width + of_copies,
        0.0 if "attention" in dropped else 5.0 * shape.heads * sequence,
        of_copies,
    )


def _attention(shape: ModelShape, narrow: float, *, is_low: bool, fused: bool) -> float:
    """Return what attention keeps of a token next to the scores [B]; products read values of `narrow` bytes."""
    attention = 2 * (shape.attention_kept_low if is_low else shape.attention_kept)
    attention += shape.attention_output * narrow if narrow < INPUT_BYTES["bf16"] else 0.0
    if not fused and shape.latent is None:
        attention += 2 * (shape.heads + shape.kv_heads) * shape.head_width
    return attention


WEIGHT, MASTER = 2.0, 4.0

"""Bytes per parameter in mixed precision: 16-bit weights, 32-bit master copy [B]."""

CHECKPOINT_BYTES = WEIGHT + MASTER + 2 * STATE_BYTES["fp32"]

"""Bytes per parameter of a checkpoint: all but the gradients, 14 B; published sizes of Llama 3 agree [B]."""

RESERVE = 4e9

"""Runtime, communication buffers and fragments (assumed) [B]."""


class MemoryUse(NamedTuple):
    """Bytes of the fullest GPU [B].

    Parameters
    ----------
    weights, gradients, optimizer
        Parameters and their state, what is divided among replicas counted once.
    activations
        What waits for the backward pass, of all microbatches in flight.
    logits
        The last stage's output, as 32-bit numbers and as gradients.
    reserve
        Runtime, buffers, fragments.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    reserve: float

    @property
    def total(self) -> float:
        """All of it [B]."""
        return sum(self)


def checkpoint_size(shape: ModelShape) -> float:
    """Return the size of a checkpoint that training can go on from, 14 B per parameter that is trained [B].

    References
    ----------
    MLPerf Storage, submission guidelines, table 2: Llama 3 8B, 70B and 405B come to 13.9 to 14.0 B per parameter.
    """
    return CHECKPOINT_BYTES * shape.trained_parameters


class PipelineStage(NamedTuple):
    """A stage of a pipeline: its layers, microbatches in flight, and whether it has embedding and logits."""

    layers: float
    flight: float
    first: bool
    last: bool


def memory_stages(work: Workload) -> list[PipelineStage]:
    r"""Return the stages one of which holds most: the first, the one after it, and the last.

    With 1F1B stage i of p holds p - i microbatches; interleaved with v model chunks the first one holds
    :math:`1 + (p - 1) / (p v)` times as many as p of 1 / v each, and each further stage two model chunks fewer; with
    rounds of more microbatches than stages, v - 1 of the chunks wait for a whole round. Zero bubble H1 holds as many on
    all stages, H2 twice as many, one less on the last.

    References
    ----------
    arXiv 2205.05198, sections 4.2 and 5; arXiv 2401.10241, table 2.
    """
    first, most, last = work.stage_layers
    stages, virtual, count = work.pipeline, work.virtual, work.microbatches

    def flight(place: int) -> float:
        if work.schedule == "zero-bubble-h1":
            return min(stages, count)
        if work.schedule == "zero-bubble-h2":
            return min(2 * stages - (place == stages - 1), count)
        if virtual == 1:
            return min(stages - place, count)
        pieces = (virtual - 1) * work.round + 2 * (stages - 1 - place) + 1
        return min(pieces, count * virtual) / virtual

    if stages == 1:
        return [PipelineStage(first, flight(0), first=True, last=True)]
    ends = [
        PipelineStage(first, flight(0), first=True, last=False),
        PipelineStage(last, flight(stages - 1), first=False, last=True),
    ]
    return [*ends, PipelineStage(most, flight(1), first=False, last=False)] if stages > 2 else ends


def activation_memory(work: Workload, stage: PipelineStage | None = None) -> float:
    """Return the activations in flight on a stage, the first where none is named [B].

    Of layers that are recomputed as a whole the input stays, and the whole of one layer at a time.
    """
    stage = stage or memory_stages(work)[0]
    recomputed = 0.0
    if work.recompute == "full" and stage.layers:
        recomputed = work.tokens * (_mean_layer(work) - 2 * work.shape.hidden / work.split)
    return stage_activations(work, stage.layers) * stage.flight + recomputed


def stage_activations(work: Workload, layers: float | None = None) -> float:
    """Return what the layers of a stage (the largest) keep of one microbatch on a GPU [B].

    Of a layer that is recomputed as a whole its input, 2 h bytes a token. Layers whose activations wait on the host
    leave two on the GPU: the one that is computed and the one on its way.
    """
    layers = work.stage_layers[1] if layers is None else layers
    layer = _mean_layer(work)
    again = min(layers, work.recompute_layers or layers) if work.recompute == "full" else 0.0
    per_token = 2 * work.shape.hidden / work.split * again + layer * (layers - again)
    away = min(work.offload_layers, max(layers - 2, 0.0)) / max(layers, 1.0)
    return work.tokens * per_token * (1 - away)


def _mean_layer(work: Workload) -> float:
    """Return what a layer keeps of a token on one GPU, the mean of those with and without experts [B]."""
    shape = work.shape
    total = 0.0
    for count, experts in ((shape.dense_layers, False), (shape.expert_layers, True)):
        if count:
            options: Any = {"again": work.again, "precision": work.precision, "fused": work.fused_elementwise}
            inventory = activations(shape, work.sequence, experts=experts, returned=False, **options)
            scores = 0.0 if work.fused_attention else inventory.scores
            more = (work.expert_load - 1) * inventory.copies
            total += count * (inventory.whole / work.split + (inventory.divided + scores + more) / work.tensor)
    if work.keep_gathered:
        total += 2 * INPUT_BYTES[work.precision] * shape.hidden * (1 - 1 / work.split) * shape.all_layers
    return total / shape.all_layers


def memory_use(work: Workload) -> MemoryUse:
    """Return what the fullest GPU of a job holds [B]."""
    return max((_of_stage(work, stage) for stage in memory_stages(work)), key=lambda use: use.total)


def _of_stage(work: Workload, stage: PipelineStage) -> MemoryUse:
    """Return what a GPU of one stage holds [B]."""
    shape, share = work.shape, stage.layers / work.shape.all_layers
    tables = 1 if shape.tied and stage.first and stage.last else stage.first + stage.last
    shared = ((shape.shared_parameters - shape.embeddings) * share + tables * shape.embedding) / work.tensor
    experts = shape.expert_parameters * share / (work.expert * work.expert_tensor)
    ranks = work.shard_ranks or work.data_ranks
    copies = min(ranks, work.expert_replicas)
    divided = shared / ranks + experts / copies
    whole = shared + experts
    trained, trained_shard = whole, divided
    if shape.lora:
        trained = shape.adapter_parameters * share / work.tensor
        trained_shard = trained / ranks
    # Of what is divided as a whole two layers at a time are gathered: the one that is computed with and the next.
    two = min(1.0, 2 / max(stage.layers, 1.0))
    if work.sharding == "gradients" and work.virtual > 1:
        two = 1 / work.virtual  # the model chunk of this round
    gathered = (1 - divided / whole) * (whole - tables * shape.embedding / work.tensor) * two
    weights, gradients = WEIGHT * whole, work.gradient_bytes * trained
    if work.sharding == "parameters":
        weights = WEIGHT * (divided + gathered)
    if work.sharding in ("gradients", "parameters"):
        gradients = work.gradient_bytes * (trained_shard if shape.lora else divided + gathered)
    state = 0.0 if work.offload_optimizer else MASTER + 2 * STATE_BYTES[work.moments]
    logits = LOSS_BYTES[work.loss] * work.tokens * shape.vocabulary / work.tensor if stage.last else 0.0
    optimizer = state * (trained if work.sharding == "none" else trained_shard)
    return MemoryUse(weights, gradients, optimizer, activation_memory(work, stage), logits, RESERVE)


def remedies(work: Workload, memory: float, domain: int) -> list[str]:
    """Return the single changes of a layout that make it fit, the cheapest first, in words.

    Parameters
    ----------
    memory, domain
        What a GPU has [B], and GPUs of a scale-up domain: tensor groups stay inside [-].
    """
    return [
        words
        for words, changed in _changes(work)
        if changed.tensor <= max(domain, work.tensor) and not problems(changed) and memory_use(changed).total <= memory
    ]


def _changes(work: Workload) -> Iterator[tuple[str, Workload]]:
    """Yield what one can change about a layout on the same GPUs, in words, in the order of what it costs."""
    experts = 1 if work.shape.experts is None else work.shape.experts.count
    is_whole, is_kept = work.sharding != "parameters", work.recompute != "full"
    rows: list[tuple[bool, dict[str, Any]]] = [
        (work.sharding == "none", {"sharding": "optimizer"}),
        (work.tensor > 1 and not work.sequence_parallel, {"sequence_parallel": True}),
        *((size > work.expert, {"expert": size}) for size in divisors(experts)),
        *((True, {"microbatch": size}) for size in reversed(divisors(work.microbatch)[:-1])),
        (work.gradients is None and work.precision == "bf16", {"gradients": "bf16"}),
        (work.sharding == "optimizer", {"sharding": "gradients"}),
        (work.loss != "fused", {"loss": "fused"}),
        (work.recompute == "none" and (work.shape.gated or not work.fused_attention), {"recompute": "selective"}),
        (is_kept, {"recompute": "full"}),
        *(
            (work.data % times == 0, {name: getattr(work, name) * times, "data": work.data // times})
            for name in ("tensor", "pipeline", "context")
            for times in (2, 4, 8)
        ),
        (is_whole, {"sharding": "parameters"}),
        (is_whole and is_kept, {"sharding": "parameters", "recompute": "full"}),
    ]
    for is_possible, changes in rows:
        if is_possible:
            words = (f"{name}: {str(value).lower()}" for name, value in changes.items())
            yield " with ".join(words), replace(work, **changes)
