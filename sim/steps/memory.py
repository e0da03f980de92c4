"""What a GPU has to hold: parameters and their state, activations in flight, and what makes them fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sim.steps.workload import divisors, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.steps.shape import ModelShape
    from sim.steps.workload import Workload


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
    """

    whole: float
    divided: float
    scores: float


def activations(shape: ModelShape, sequence: int, *, experts: bool, selective: bool = False) -> Activations:
    r"""Return the inventory of a layer, with experts or without.

    .. math:: 10 h, \quad 4 (h + h_k) + 2 \nu f, \quad 5 a s

    In the plain case (h_k = h, f = 4 h, nu = 2 matrices) the second is 24 h. Models with gates are trained without
    dropout, whose masks are 2 h of the 10 h. A token that meets several experts is kept once for each, going in and
    coming out.

    Selective recomputation drops the scores. Of models with gates it also drops what costs little to have again: what
    norms return (4 h), the product with the gate (2 f), tokens sorted by expert, and what latent attention expands.

    References
    ----------
    V. Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198, section 4,
    for the plain case; grouped heads, gates and experts by the same count. arXiv 2412.19437, section 3.2.3, for what
    else is computed again.
    """
    width, copies = float(shape.ffn), 0
    if experts:
        assert shape.experts is not None, "only a model with experts has layers with experts"
        width = shape.experts.shared + shape.experts.active * shape.experts.ffn
        copies = shape.experts.active
    scores = 0.0 if selective else 5.0 * shape.heads * sequence
    if not shape.gated:
        return Activations(
            10 * shape.hidden, 2 * (shape.attention_kept + 2 * width + 2 * copies * shape.hidden), scores
        )
    if selective:
        kept = shape.attention_kept_low + 2 * width + copies * shape.hidden
        return Activations(4 * shape.hidden, 2 * kept, scores)
    kept = shape.attention_kept + 3 * width + 2 * copies * shape.hidden
    return Activations(8 * shape.hidden, 2 * kept, scores)


WEIGHT, GRADIENT, OPTIMIZER = 2.0, 4.0, 12.0

"""Bytes per parameter in mixed precision: 16-bit weights, 32-bit gradients, 32-bit master copy and two moments [B]."""

CHECKPOINT_BYTES = WEIGHT + OPTIMIZER

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
    """Return the size of a checkpoint that training can go on from, 14 B per parameter [B].

    References
    ----------
    MLPerf Storage, submission guidelines, table 2: Llama 3 8B, 70B and 405B come to 13.9 to 14.0 B per parameter.
    """
    return CHECKPOINT_BYTES * shape.parameters


def activation_memory(work: Workload, *, last: bool = False) -> float:
    r"""Return the activations in flight on the first stage, which holds most of them, or on the last one [B].

    With 1F1B the first stage holds p microbatches of L / p layers, as much as one of all layers; interleaving makes it
    :math:`1 + (p - 1) / (p v)` times as much, and zero bubble H2 twice. The last stage holds one microbatch; p of all
    model chunks but one, and one of that, when interleaved; with zero bubble, as much as the first, less one with H2.
    Of layers that are recomputed in full their input stays, 2 h bytes a token, and
    the whole of one layer at a time.

    References
    ----------
    arXiv 2205.05198, sections 4.2 and 5; arXiv 2401.10241, table 2.
    """
    shape, stages, virtual = work.shape, work.pipeline, work.virtual
    layer = _mean_layer(work)
    one = 0.0
    if work.recompute == "full":
        kept = 2 * shape.hidden / work.split
        one, layer = layer - kept, kept
    # Model chunks of microbatches that a stage has begun and not finished, in the steady state.
    if work.schedule == "1f1b":
        first = virtual * stages + (stages - 1 if virtual > 1 else 0)
        pieces = (virtual - 1) * stages + 1 if last else first
    elif work.schedule == "zero-bubble-h1":
        pieces = stages
    else:
        pieces = 2 * stages - last
    layers = work.stage_layers[2 if last else 1]
    flight = min(pieces, work.microbatches * virtual) / virtual
    return work.tokens * (layer * layers * flight + (one if layers else 0.0))


def _mean_layer(work: Workload) -> float:
    """Return what a layer keeps of a token on one GPU, the mean of those with and without experts [B]."""
    shape = work.shape
    total = 0.0
    for count, experts in ((shape.dense_layers, False), (shape.expert_layers, True)):
        if count:
            kept = activations(shape, work.sequence, experts=experts, selective=work.recompute == "selective")
            scores = 0.0 if work.fused_attention else kept.scores
            total += count * (kept.whole / work.split + (kept.divided + scores) / work.tensor)
    return total / shape.all_layers


def memory_use(work: Workload) -> MemoryUse:
    """Return what the fullest GPU holds: of the first stage or of the last one [B]."""
    _, most, last = work.stage_layers
    deep = work.shape.all_layers
    logits = 6 * work.tokens * work.shape.vocabulary / work.tensor
    if work.pipeline == 1:
        return _of_stage(work, 1.0, 1 if work.shape.tied else 2, activation_memory(work), logits)
    ends = (
        _of_stage(work, most / deep, 1, activation_memory(work), 0.0),
        _of_stage(work, last / deep, 1, activation_memory(work, last=True), logits),
    )
    return max(ends, key=lambda use: use.total)


def _of_stage(work: Workload, share: float, tables: int, kept: float, logits: float) -> MemoryUse:
    """Return what a GPU of one stage holds: a share of the layers, and some tables of embeddings [B]."""
    shape = work.shape
    shared = ((shape.shared_parameters - shape.embeddings) * share + tables * shape.embedding) / work.tensor
    experts = shape.expert_parameters * share / work.expert
    ranks = work.shard_ranks or work.data_ranks
    copies = min(ranks, work.expert_replicas)
    divided = shared / ranks + experts / copies
    whole = shared + experts
    if work.sharding == "parameters":
        # Two layers at a time are gathered: the one that is computed with and the next.
        layers = share * shape.all_layers
        others = (1 - divided / whole) * (whole - tables * shape.embedding / work.tensor)
        gathered = (WEIGHT + GRADIENT) * others * min(1.0, 2 / max(layers, 1.0))
        return MemoryUse(WEIGHT * divided + gathered, GRADIENT * divided, OPTIMIZER * divided, kept, logits, RESERVE)
    state = divided if work.sharding == "optimizer" else whole
    return MemoryUse(WEIGHT * whole, GRADIENT * whole, OPTIMIZER * state, kept, logits, RESERVE)


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
    """Return what one can change about a layout on the same GPUs, in the order of what it costs."""
    if work.sharding == "none":
        yield "sharding: optimizer", replace(work, sharding="optimizer")
    if work.tensor > 1 and not work.sequence_parallel:
        yield "sequence_parallel: true", replace(work, sequence_parallel=True)
    if work.shape.experts is not None:
        for size in (size for size in divisors(work.shape.experts.count) if size > work.expert):
            yield f"expert: {size}", replace(work, expert=size)
    for size in reversed(divisors(work.microbatch)[:-1]):
        yield f"microbatch: {size}", replace(work, microbatch=size)
    if work.recompute == "none" and (work.shape.gated or not work.fused_attention):
        yield "recompute: selective", replace(work, recompute="selective")
    if work.recompute != "full":
        yield "recompute: full", replace(work, recompute="full")
    for name in ("tensor", "pipeline", "context"):
        for times in (2, 4, 8):
            if work.data % times == 0:
                size = getattr(work, name) * times
                changed = replace(work, data=work.data // times, **{name: size})
                yield f"{name}: {size} with data: {changed.data}", changed
    if work.sharding != "parameters":
        yield "sharding: parameters", replace(work, sharding="parameters")
    if work.sharding != "parameters" and work.recompute != "full":
        yield "sharding: parameters with recompute: full", replace(work, sharding="parameters", recompute="full")
