"""The work of a step: a model, a batch, and how both are spread over GPUs."""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, prod
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.steps.shape import ModelShape

# How the ranks of a layout are numbered and divided: coordinates, divisors, and what divides next to what does not.

GroupKind: TypeAlias = Literal["tensor", "context", "expert", "data", "pipeline"]

"""Kinds of groups, and the coordinates of a rank."""

ORDER: tuple[GroupKind, ...] = get_args(GroupKind)

"""Coordinates of ranks as most stacks order them, from the fastest-varying to the slowest."""


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, ascending."""
    small = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    return small + [number // part for part in reversed(small) if part * part != number]


def near(valid: Sequence[int], size: int) -> str:
    """Return the valid sizes (ascending) next to one, in words."""
    place = bisect(valid, size)
    return " or ".join(str(part) for part in valid[max(place - 1, 0) : place + 1])


def near_divisors(whole: int, size: int) -> str:
    """Return the divisors of a whole next to a size, in words."""
    return near(divisors(whole), size)


def expert_covers(context: int, data: int, expert: int) -> tuple[GroupKind, ...]:
    """Return the coordinates in which the ranks of an expert group differ: replicas, or whole groups of others too.

    Experts are folded over context ranks, and over tensor ranks, where their number does not divide that of the
    replicas.
    """
    if data % expert == 0:
        return ("expert",)
    if expert % context == 0 and data % (expert // context) == 0:
        return ("context", "expert")
    return ("tensor", "context", "expert")


def expert_sizes(tensor: int, context: int, data: int) -> list[int]:
    """Return how many ranks experts can be spread over, ascending: a part of the replicas, or of those whole groups."""
    parts = divisors(data)
    return sorted({times * part for times in (1, context, tensor * context) for part in parts})


def coordinate_sizes(
    tensor: int, context: int, pipeline: int, data: int, expert: int, expert_tensor: int = 1
) -> dict[GroupKind, int]:
    """Return the number of values of each coordinate of a rank [-].

    Replicas have two: the one among those that experts are spread over, and which of such sets.
    """
    apart = tensor // expert_tensor
    covered = {"tensor": apart, "context": context}
    among = expert // prod(covered.get(kind, 1) for kind in expert_covers(context, data, expert))
    return {"tensor": tensor, "context": context, "expert": among, "data": data // among, "pipeline": pipeline}


Recompute: TypeAlias = Literal["none", "selective", "full"]

Module: TypeAlias = Literal[
    "attention", "norm", "activation", "up_projection", "dispatch", "mlp", "shared_experts", "experts"
]

MODULES: tuple[Module, ...] = get_args(Module)

"""The modules that the backward pass can compute again by themselves: the core of attention, what norms return, the
activation of the feed-forward part, what latent attention expands, tokens sorted by expert; the whole feed-forward part
of layers without experts, of the shared experts, of the others.
"""

CHEAP: tuple[Module, ...] = ("attention", "norm", "activation", "up_projection", "dispatch")

"""Modules that cost little to have again: those of selective recomputation in models with gates."""

Schedule: TypeAlias = Literal["1f1b", "zero-bubble-h1", "zero-bubble-h2"]

Sharding: TypeAlias = Literal["none", "optimizer", "gradients", "parameters"]

Loss: TypeAlias = Literal["fused", "vocab-parallel", "eager"]

LOSS_BYTES: dict[str, float] = {"fused": 2.0, "vocab-parallel": 6.0, "eager": 14.0}

"""Bytes of a logit until its gradient is there [B]: at 16 bits in place; a copy in 32 bits next to it; copies in 32
bits of logits, of their logarithms and of the gradient."""

State: TypeAlias = Literal["fp32", "bf16", "fp8"]

STATE_BYTES: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0}

"""Bytes of a gradient, or of a moment of the optimizer [B]."""


@dataclass(frozen=True)
class Workload:
    """An optimizer step of a job.

    Parameters
    ----------
    shape
        The model.
    sequence, sequences
        Tokens of a sequence, and sequences of the global batch [-].
    microbatch
        Sequences that a replica works on at once [-].
    tensor, context, pipeline, data, expert
        Sizes of the groups [-]; GPUs = tensor x context x pipeline x data, experts are spread over others' GPUs.
    virtual
        Model chunks of each pipeline stage; above 1 they are interleaved [-].
    precision
        Arithmetic of the matrix products; logits stay at 16 bits, and attention unless it is said.
    schedule
        Order of the pipeline's passes.
    ulysses
        Context ranks that exchange tokens for heads, so that each attends to whole sequences with a part of the heads;
        more than these pass keys and values on in a ring [-].
    expert_tensor
        Ranks of a tensor group that share each expert [-].
    expert_load
        Tokens of the busiest expert rank over the mean [-]; with dropped tokens, the capacity of an expert over it.
    first_layers, last_layers
        Layers of the first and of the last stage where they are stated [-]; 0 for an even split.
    recompute
        What the backward pass computes again: nothing, some modules of each layer, or whole layers.
    modules
        Which ones, where they are stated; else those that cost little, of models without gates the core of attention.
    recompute_layers
        Layers of each stage that are computed again as a whole [-]; 0 for all of them.
    sharding
        What data-parallel ranks divide among them: nothing, the optimizer's state, gradients too, or parameters too.
    shard_ranks
        Ranks that parameters are divided among [-]; 0 for all of a data-parallel group. With fewer, several groups
        hold replicas of each other.
    gradients, moments
        What gradients are kept and reduced in, and what the moments of the optimizer are kept in; gradients that are
        not stated are reduced in 32 bits in steps at 16 bits, in 16 bits in narrower ones.
    offload_optimizer, offload_layers
        Whether the host keeps and updates the optimizer's state, and of how many layers of a stage it keeps the
        activations [-].
    loss
        How the loss follows from the logits: in one kernel and in place, over tensor ranks, or operation by operation.
    fused_elementwise
        Whether chains of element-wise operations are one kernel; else what each returns is kept.
    keep_gathered
        Whether tensor ranks keep what they have gathered for a product, instead of gathering it again backward.
    sequence_parallel
        Whether tensor-parallel GPUs also share what is between the matrix products.
    fused_attention
        Whether attention keeps no scores in memory and skips the masked half.
    attention
        Arithmetic of the core of attention.
    cuda_graphs
        Whether a whole iteration is recorded once and started as one, so that no kernel waits for the host; or partial
        ones, of attention and routing.
    overlap_tensor, overlap_data, overlap_expert
        Whether tensor-parallel traffic, data-parallel traffic, and that of tokens on their way to experts and back run
        next to computing; the last in addition to that of another microbatch, as DualPipe does.
    """

    shape: ModelShape
    sequence: int
    sequences: int
    microbatch: int = 1
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    virtual: int = 1
    precision: str = "bf16"
    schedule: Schedule = "1f1b"
    recompute: Recompute = "none"
    sharding: Sharding = "optimizer"
    shard_ranks: int = 0
    ulysses: int = 1
    expert_tensor: int = 1
    expert_load: float = 1.0
    first_layers: int = 0
    last_layers: int = 0
    modules: tuple[Module, ...] = ()
    recompute_layers: int = 0
    gradients: State | None = None
    moments: State = "fp32"
    offload_optimizer: bool = False
    offload_layers: int = 0
    loss: Loss = "vocab-parallel"
    fused_elementwise: bool = True
    keep_gathered: bool = False
    sequence_parallel: bool = True
    fused_attention: bool = True
    attention: Literal["bf16", "fp8"] = "bf16"
    cuda_graphs: bool | Literal["partial"] = False
    overlap_tensor: bool = True
    overlap_data: bool = True
    overlap_expert: bool = False

    @cached_property
    def gpus(self) -> int:
        """GPUs of the job [-]."""
        return self.tensor * self.context * self.pipeline * self.data

    @cached_property
    def microbatches(self) -> int:
        """Microbatches that each replica works through in a step, the busiest one where they differ [-]."""
        return max(1, ceil(self.sequences / (self.data * self.microbatch)))

    @cached_property
    def tokens(self) -> float:
        """Tokens of a microbatch on one rank of a context group, T = b s / c [-]."""
        return self.microbatch * self.sequence / self.context

    @cached_property
    def copied_heads(self) -> float:
        """The number of copies of each key head, because more ranks attend with it than there are key heads [-]."""
        return max(1.0, self.tensor * self.ulysses / self.shape.kv_heads) if self.ulysses > 1 else 1.0

    @cached_property
    def head_values(self) -> float:
        """Values of a token that a rank exchanges for heads, queries, keys and values in and attention's output out."""
        shape, low = self.shape, self.shape.latent
        if low is not None:
            return shape.heads * (2 * (low.head + low.rotary) + 2 * low.value) / self.tensor
        return 2 * (shape.heads + shape.kv_heads * self.copied_heads) * shape.head_width / self.tensor

    @cached_property
    def data_ranks(self) -> int:
        """Ranks that reduce gradients together: those of replicas and of context groups [-]."""
        return self.data * self.context

    @cached_property
    def expert_covers(self) -> tuple[GroupKind, ...]:
        """The coordinates in which the ranks of an expert group differ."""
        return expert_covers(self.context, self.data, self.expert)

    @cached_property
    def expert_replicas(self) -> int:
        """Ranks that hold the same part of the same experts [-]."""
        return max(1, self.data * self.context * self.tensor // (self.expert * self.expert_tensor))

    @cached_property
    def again(self) -> tuple[Module, ...]:
        """Modules of each layer that the backward pass computes again."""
        if self.recompute != "selective":
            return ()
        return self.modules or (CHEAP if self.shape.gated else ("attention",))

    @cached_property
    def whole_again(self) -> float:
        """Share of the layers that the backward pass computes again as a whole [-]."""
        if self.recompute != "full":
            return 0.0
        return min(1.0, (self.recompute_layers or math.inf) / max(self.stage_layers[1], 1.0))

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of a gradient as it is kept [B]."""
        return STATE_BYTES[self.gradients or ("fp32" if self.precision == "bf16" else "bf16")]

    @cached_property
    def reduced_bytes(self) -> float:
        """Bytes of a gradient as it is reduced [B]: at 16 bits where nothing, or all, is divided and nothing stated."""
        divides_state = self.sharding in ("optimizer", "gradients")
        return self.gradient_bytes if self.gradients is not None or divides_state else STATE_BYTES["bf16"]

    @cached_property
    def round(self) -> int:
        """Microbatches that an interleaved pipeline takes through one model chunk before the next one [-].

        As many as there are stages; more where the last round would have fewer than that.
        """
        count, least = self.microbatches, self.pipeline
        sizes = (size for size in range(least, count) if not 0 < count % size < least)
        return next(sizes, max(count, least))

    @cached_property
    def reductions(self) -> int:
        """Times that a step reduces its gradients [-].

        Gradients that stay divided are reduced before the next ones are added: with interleaved stages once for each
        round of microbatches, as a model chunk computes those of a round one after another; else for each microbatch.
        """
        if self.sharding not in ("gradients", "parameters"):
            return 1
        if self.sharding == "gradients" and self.virtual > 1:
            return ceil(self.microbatches / self.round)
        return self.microbatches

    @cached_property
    def split(self) -> int:
        """Parts into which what lies between matrix products is divided: t with sequence parallelism [-]."""
        return self.tensor if self.sequence_parallel else 1

    @cached_property
    def stage_layers(self) -> tuple[float, float, float]:
        """Layers of the first stage, of the largest, and of the last [-].

        As stated; else even where layers divide. Where layers and two more, for embedding and logits, divide, both ends
        have a layer less. Else, and with modules for tokens further ahead, the last stage has as many fewer as makes
        the slowest one fastest, by parameters.
        """
        layers, stages, depths = self.shape.layers, self.pipeline, self.shape.depths
        total, logits = self.shape.all_layers, self.shape.logits_in_layers
        if self.first_layers or self.last_layers:
            stated = [count for count in (self.first_layers, self.last_layers) if count]
            rest = (total - sum(stated)) / max(stages - len(stated), 1)
            first, last = self.first_layers or rest, self.last_layers or rest
            return first, max(first, last, math.ceil(rest) if stages > len(stated) else 0), last
        if stages == 1 or (layers % stages == 0 and not depths):
            return total / stages, total / stages, total / stages
        if (layers + 2) % stages == 0 and not depths:
            most = (layers + 2) / stages
            return most - 1, most, most - 1
        splits = ((ceil((total - last) / (stages - 1)), last) for last in range(ceil(total / stages) + 1))
        most, last = min(splits, key=lambda split: (max(split[0], split[1] + logits), -split[1]))
        return most, max(most, last), last


class LayoutViolation(NamedTuple):
    """An impossible layout: the size of the workload that is wrong, and the rule with the nearest valid values."""

    size: str
    rule: str


def problems(work: Workload) -> list[LayoutViolation]:
    """Return what is impossible about a layout, one problem for each size that is wrong."""
    shape = work.shape
    rules = (
        _undivided(work.tensor, shape.heads, "tensor", "attention heads"),
        _undivided(work.ulysses, work.context, "ulysses", "context ranks"),
        _undivided(work.ulysses, shape.heads // work.tensor, "ulysses", "attention heads of a tensor rank"),
        _undivided(work.shard_ranks or 1, work.data_ranks, "shard_ranks", "ranks that reduce gradients together"),
        _replica_problems(work),
        _pipeline_problems(work),
        _expert_problems(work),
    )
    return [LayoutViolation(size, rule) for broken in rules for size, rule in broken]


def _replica_problems(work: Workload) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the shares of the batch and of a sequence."""
    share, rest = divmod(work.sequences, work.data)
    if rest:
        nearest = near_divisors(work.sequences, work.data)
        yield "data", f"{work.sequences} sequences do not divide by {work.data} replicas; nearest: {nearest}"
    elif share % work.microbatch:
        nearest = near_divisors(share, work.microbatch)
        rule = f"{share} sequences of a replica do not divide into microbatches of {work.microbatch}"
        yield "microbatch", f"{rule}; nearest: {nearest}"
    # A causal ring gives each rank one piece from the front and one from the back.
    if work.context > 1 and work.sequence % (2 * work.context):
        nearest = near_divisors(work.sequence // 2, work.context) if work.sequence % 2 == 0 else "1"
        rule = f"sequences of {work.sequence} tokens do not divide into 2 x {work.context} chunks"
        yield "context", f"{rule}; nearest: {nearest}"


def _pipeline_problems(work: Workload) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the stages."""
    layers, stages, virtual = work.shape.layers, work.pipeline, work.virtual
    if stages > layers:
        yield "pipeline", f"{stages} stages are more than the {layers} layers of the model; nearest: {layers}"
        return
    yield from _stated_stages(work)
    if virtual == 1:
        return
    if stages == 1:
        yield "virtual", "a pipeline of one stage has nothing to interleave"
    elif work.schedule != "1f1b":
        yield "virtual", f"schedule {work.schedule} does not interleave; use 1f1b, or 1 model chunk a stage"
    elif stages * virtual > layers + 2:
        rule = f"{layers} layers, embedding and logits are fewer than {stages} stages x {virtual}"
        yield "virtual", f"{rule}; nearest: {max((layers + 2) // stages, 1)}"
    elif work.microbatches < stages:
        rule = f"interleaving takes rounds of {stages} microbatches or more, and a replica has {work.microbatches}"
        yield "virtual", rule


def _stated_stages(work: Workload) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the layers of the first and the last stage, where they are stated."""
    total, stages, both = work.shape.all_layers, work.pipeline, work.first_layers + work.last_layers
    stated = [name for name in ("first_layers", "last_layers") if getattr(work, name)]
    if not stated:
        return
    between = stages - len(stated)
    most = max(total - between - sum(getattr(work, name) for name in stated[1:]), 1)
    if stages == 1:
        yield stated[0], "a pipeline of one stage has no other stage; leave it out"
    elif both > total - between:
        rule = f"leaves fewer than {between} of {total} layers to the other {between} stages; nearest: {most}"
        yield stated[0], rule
    elif not between and both != total:
        yield stated[0], f"the two stages have {total} layers together; nearest: {most}"


def _expert_problems(work: Workload) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the spread of experts."""
    experts, share = work.shape.experts, work.expert_tensor
    if experts is None:
        sizes = [name for name in ("expert", "expert_tensor", "expert_load") if getattr(work, name) != 1]
        yield from ((name, "the model has no experts to spread") for name in sizes)
        return
    if work.tensor % share:
        nearest = near_divisors(work.tensor, share)
        yield "expert_tensor", f"{work.tensor} tensor ranks do not divide by {share}; nearest: {nearest}"
        return
    sizes_of = expert_sizes(work.tensor // share, work.context, work.data)
    valid = [size for size in sizes_of if experts.count % size == 0]
    if work.expert not in valid:
        rule = undivided_experts(work.tensor // share, work.context, work.data, work.expert)
        if experts.count % work.expert:
            rule = f"{experts.count} experts of a layer do not divide by {work.expert}"
        yield "expert", f"{rule}; nearest: {near(valid, work.expert)}"


def undivided_experts(tensor: int, context: int, data: int, expert: int) -> str:
    """Return what a number of expert ranks does not divide, in words."""
    wider = [f"context {context}"] * (context > 1) + [f"tensor x context {tensor * context}"] * (tensor > 1)
    folded = f", nor are they {' or '.join(wider)} times a divisor of it" if wider else ""
    return f"{expert} GPUs do not divide data {data}{folded}"


def even_pieces(layers: int, stages: int) -> list[int]:
    """Return the numbers of model chunks per stage that divide a model evenly, its ends being two layers or none."""
    wholes = (whole // stages for whole in (layers, layers + 2) if whole % stages == 0)
    return sorted({part for whole in wholes for part in divisors(whole)})


def _undivided(size: int, whole: int, name: str, what: str) -> Iterator[tuple[str, str]]:
    """Yield the problem of a size that does not divide what it has to."""
    if whole % size:
        yield name, f"{whole} {what} do not divide by {size}; nearest: {near_divisors(whole, size)}"
