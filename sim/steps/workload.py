"""What one step is asked to do: a model, a batch, and how both are spread over GPUs."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.steps.shape import ModelShape

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


def experts_cover_context(data: int, expert: int) -> bool:
    """Return whether experts are spread over whole context groups too, and not over replicas alone."""
    return data % expert != 0


def expert_sizes(data: int, context: int) -> list[int]:
    """Return how many ranks experts can be spread over, ascending: a part of the replicas, or of those whole groups."""
    parts = divisors(data)
    return sorted({*parts, *(context * part for part in parts)})


def coordinate_sizes(tensor: int, context: int, pipeline: int, data: int, expert: int) -> dict[GroupKind, int]:
    """Return the number of values of each coordinate of a rank [-].

    Replicas have two: the one among those that experts are spread over, and which of such sets. Experts that are more
    than replicas take tensor ranks in, and leave one set.
    """
    among = min(expert // context if experts_cover_context(data, expert) else expert, data)
    return {"tensor": tensor, "context": context, "expert": among, "data": max(1, data // among), "pipeline": pipeline}


Recompute: TypeAlias = Literal["none", "selective", "full"]

Schedule: TypeAlias = Literal["1f1b", "zero-bubble-h1", "zero-bubble-h2"]

Sharding: TypeAlias = Literal["none", "optimizer", "parameters"]


@dataclass(frozen=True)
class Workload:
    """One optimizer step of one job.

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
        Arithmetic of the matrix products; attention and logits stay at 16 bits.
    schedule
        Order of the pipeline's passes.
    recompute
        What the backward pass computes again: nothing, the core of attention, or whole layers.
    sharding
        What data-parallel ranks divide among them: nothing, the optimizer's state, or parameters and gradients too.
    shard_ranks
        Ranks that parameters are divided among [-]; 0 for all of a data-parallel group. With fewer, several groups
        hold replicas of each other.
    sequence_parallel
        Whether tensor-parallel GPUs also share what is between the matrix products.
    fused_attention
        Whether attention keeps no scores in memory and skips the masked half.
    overlap_tensor, overlap_data, overlap_expert
        Whether tensor-parallel traffic, data-parallel traffic, and that of tokens on their way to experts and back run
        beside computing; the last beside that of another microbatch, as DualPipe does.
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
    sequence_parallel: bool = True
    fused_attention: bool = True
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
    def data_ranks(self) -> int:
        """Ranks that reduce gradients together: those of replicas and of context groups [-]."""
        return self.data * self.context

    @cached_property
    def experts_cover_context(self) -> bool:
        """Whether experts are spread over whole context groups too."""
        return experts_cover_context(self.data, self.expert)

    @cached_property
    def expert_replicas(self) -> int:
        """Ranks that hold the same experts [-]."""
        return max(1, self.data * self.context * self.tensor // self.expert)

    @cached_property
    def split(self) -> int:
        """Parts into which what lies between matrix products is divided: t with sequence parallelism [-]."""
        return self.tensor if self.sequence_parallel else 1

    @cached_property
    def stage_layers(self) -> tuple[float, float, float]:
        """Layers of the first stage, of the largest, and of the last [-].

        Even where layers divide. Where layers and two more, for embedding and logits, divide, both ends have a layer
        less. Else, and with modules for tokens further ahead, the last stage has as many fewer as makes the slowest one
        fastest, by parameters.
        """
        layers, stages, depths = self.shape.layers, self.pipeline, self.shape.depths
        total, logits = self.shape.all_layers, self.shape.logits_in_layers
        if stages == 1 or (layers % stages == 0 and not depths):
            return total / stages, total / stages, total / stages
        if (layers + 2) % stages == 0 and not depths:
            most = (layers + 2) / stages
            return most - 1, most, most - 1
        splits = ((ceil((total - last) / (stages - 1)), last) for last in range(ceil(total / stages) + 1))
        most, last = min(splits, key=lambda split: (max(split[0], split[1] + logits), -split[1]))
        return most, max(most, last), last


class Problem(NamedTuple):
    """Why a layout cannot be: which of the workload's sizes is wrong, and the rule with the nearest valid values."""

    size: str
    rule: str


def problems(work: Workload) -> list[Problem]:
    """Return what is impossible about a layout, one problem for each size that is wrong."""
    shape = work.shape
    return [
        *_undivided(work.tensor, shape.heads, "tensor", "attention heads"),
        *_undivided(work.shard_ranks or 1, work.data_ranks, "shard_ranks", "ranks that reduce gradients together"),
        *_replica_problems(work),
        *_pipeline_problems(work),
        *_expert_problems(work),
    ]


def _replica_problems(work: Workload) -> list[Problem]:
    """Return what is wrong with the shares of the batch and of a sequence."""
    found = []
    each, rest = divmod(work.sequences, work.data)
    if rest:
        nearest = near_divisors(work.sequences, work.data)
        found.append(
            Problem("data", f"{work.sequences} sequences do not divide by {work.data} replicas; nearest: {nearest}")
        )
    elif each % work.microbatch:
        nearest = near_divisors(each, work.microbatch)
        rule = f"{each} sequences of a replica do not divide into microbatches of {work.microbatch}; nearest: {nearest}"
        found.append(Problem("microbatch", rule))
    # A causal ring gives each rank one piece from the front and one from the back.
    if work.context > 1 and work.sequence % (2 * work.context):
        nearest = near_divisors(work.sequence // 2, work.context) if work.sequence % 2 == 0 else "1"
        rule = f"sequences of {work.sequence} tokens do not divide into 2 x {work.context} chunks; nearest: {nearest}"
        found.append(Problem("context", rule))
    return found


def _pipeline_problems(work: Workload) -> list[Problem]:
    """Return what is wrong with the stages."""
    layers, stages, virtual = work.shape.layers, work.pipeline, work.virtual
    if stages > layers:
        return [
            Problem("pipeline", f"{stages} stages are more than the {layers} layers of the model; nearest: {layers}")
        ]
    if virtual == 1:
        return []
    if stages == 1:
        return [Problem("virtual", "a pipeline of one stage has nothing to interleave")]
    if work.schedule != "1f1b":
        return [Problem("virtual", f"schedule {work.schedule} does not interleave; use 1f1b, or 1 model chunk a stage")]
    if layers % (stages * virtual) and (layers + 2) % (stages * virtual):
        ends = f"{layers} layers (or {layers + 2} with embedding and logits)"
        rule = f"{ends} do not divide into {stages} stages x {virtual}; nearest: {_even(layers, stages, virtual)}"
        return [Problem("virtual", rule)]
    if work.microbatches % stages:
        rule = f"interleaving takes microbatches in rounds of {stages}, and a replica has {work.microbatches}"
        return [Problem("virtual", rule)]
    return []


def _expert_problems(work: Workload) -> list[Problem]:
    """Return what is wrong with the spread of experts."""
    experts = work.shape.experts
    if experts is None:
        return [Problem("expert", "the model has no experts to spread")] if work.expert > 1 else []
    valid = [size for size in expert_sizes(work.data, work.context) if experts.count % size == 0]
    if work.expert in valid:
        return []
    nearest = near(valid, work.expert)
    if experts.count % work.expert:
        return [
            Problem("expert", f"{experts.count} experts of a layer do not divide by {work.expert}; nearest: {nearest}")
        ]
    replicas = f"{work.data} replicas" + (f" of {work.context} context ranks" if work.context > 1 else "")
    return [Problem("expert", f"{work.expert} ranks do not divide {replicas}; nearest: {nearest}")]


def even_pieces(layers: int, stages: int) -> list[int]:
    """Return the numbers of model chunks per stage that divide a model evenly, its ends being two layers or none."""
    wholes = (whole // stages for whole in (layers, layers + 2) if whole % stages == 0)
    return sorted({part for whole in wholes for part in divisors(whole)})


def _even(layers: int, stages: int, virtual: int) -> str:
    """Return the numbers of model chunks per stage that divide a model evenly, next to one, in words."""
    nearest = sorted(even_pieces(layers, stages) or [1], key=lambda each: (abs(each - virtual), each))[:2]
    return " or ".join(str(each) for each in sorted(nearest))


def _undivided(size: int, whole: int, name: str, what: str) -> list[Problem]:
    """Return the problem of a size that does not divide what it has to."""
    if whole % size == 0:
        return []
    return [Problem(name, f"{whole} {what} do not divide by {size}; nearest: {near_divisors(whole, size)}")]
