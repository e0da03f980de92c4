"""Every way to lay a step out on a number of GPUs: the sizes of the groups, and what the memory has room for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from sim.perf.memory import memory_use
from sim.perf.ranks import divisors, expert_sizes
from sim.perf.workload import even_pieces, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sim.perf.workload import Recompute, Sharding, Workload

__all__ = ["Bounds", "groupings", "layouts", "smallest"]


_FEWEST_TOKENS = 4096
"""Tokens of a sequence that a context rank keeps: with fewer, products get smaller than the model knows of."""


class Bounds(NamedTuple):
    """What layouts are looked at.

    Parameters
    ----------
    gpus
        GPUs that a layout has to use, all of them [-].
    memory
        What the fullest GPU may hold [B].
    tensor
        Most GPUs that share a layer [-]: those of a scale-up domain, as a rule.
    shardings
        What replicas may divide among them.
    """

    gpus: int
    memory: float
    tensor: int
    shardings: Sequence[Sharding] = ("optimizer",)


def layouts(base: Workload, bounds: Bounds) -> Iterator[Workload]:
    """Yield the layouts of a step that are possible and fit, each once and always in the same order.

    Tried are all sizes of tensor, context, pipeline, data and expert groups, virtual stages, microbatches, and what the
    backward pass computes again. Model, batch, precision, schedule and overlaps are those of `base`.

    Notes
    -----
    What a GPU holds never falls when a microbatch grows, so that the first one that does not fit ends its row.
    """
    for group in groupings(base, bounds):
        for sharding, recompute in product(bounds.shardings, _recomputes(base)):
            start = replace(group, sharding=sharding, shard_ranks=_ranks(base, sharding), recompute=recompute)
            for virtual in _virtuals(start):
                for microbatch in divisors(start.sequences // start.data):
                    work = replace(start, virtual=virtual, microbatch=microbatch)
                    if problems(work):
                        continue
                    if memory_use(work).total > bounds.memory:
                        break
                    yield work


def groupings(base: Workload, bounds: Bounds) -> Iterator[Workload]:
    """Yield the sizes of groups that divide what they must.

    Microbatches are of one sequence, and nothing is computed again. Experts are spread over replicas, or over those and
    the whole of their context groups.
    """
    shape = base.shape
    for tensor in divisors(gcd(bounds.gpus, shape.heads)):
        if tensor > bounds.tensor:
            break
        for context in divisors(bounds.gpus // tensor):
            if context > 1 and (base.sequence % (2 * context) or base.sequence < context * _FEWEST_TOKENS):
                continue
            rest = bounds.gpus // tensor // context
            for data in reversed(divisors(gcd(rest, base.sequences))):
                pipeline = rest // data
                if pipeline > shape.layers:
                    break
                for expert in _experts(base, context, data):
                    yield replace(
                        base,
                        tensor=tensor,
                        context=context,
                        pipeline=pipeline,
                        data=data,
                        expert=expert,
                        virtual=1,
                        microbatch=1,
                        recompute="none",
                    )


def smallest(base: Workload, bounds: Bounds) -> Workload | None:
    """Return the layout whose fullest GPU holds least, whether it fits or not; ``None`` if no sizes divide."""
    found = [
        replace(group, sharding=sharding, shard_ranks=_ranks(base, sharding), recompute="full")
        for group in groupings(base, bounds)
        for sharding in bounds.shardings
    ]
    return min((work for work in found if not problems(work)), key=lambda work: memory_use(work).total, default=None)


def _recomputes(base: Workload) -> tuple[Recompute, ...]:
    """Return what can be computed again: selectively only where that drops anything."""
    return ("none", "selective", "full") if base.shape.gated or not base.fused_attention else ("none", "full")


def _ranks(base: Workload, sharding: Sharding) -> int:
    """Return how many ranks divide parameters [-]: as many as now, where they do."""
    return base.shard_ranks if sharding == "parameters" else 0


def _experts(base: Workload, context: int, data: int) -> list[int]:
    """Return the numbers of GPUs that can share the experts of a layer."""
    experts = base.shape.experts
    if experts is None:
        return [1]
    return [size for size in expert_sizes(data, context) if experts.count % size == 0]


def _virtuals(work: Workload) -> list[int]:
    """Return the numbers of pieces that a stage can hold."""
    if work.pipeline == 1 or work.schedule != "1f1b":
        return [1]
    return sorted({1, *even_pieces(work.shape.layers, work.pipeline)})
