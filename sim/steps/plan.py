"""The result of the step model: time and its parts, memory, model FLOP utilisation, and uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.steps.memory import MemoryUse, memory_use
from ettrick.sim.steps.shape import flop_per_token
from ettrick.sim.steps.time import Breakdown, Impairment, breakdown, impaired
from ettrick.sim.steps.workload import divisors, even_pieces, expert_sizes, problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ettrick.sim.steps.time import Machine
    from ettrick.sim.steps.workload import Module, Recompute, Schedule, Sharding, Workload

BAND90 = 1.6449

"""Standard deviations on either side that hold 90 % of a normal distribution [-]."""

_FAR = 3.0

"""Standard deviations beyond which it is not the model that errs [-]."""


@dataclass(frozen=True)
class StepPlan:
    """A step of a job, healthy or not.

    Parameters
    ----------
    work, machine
        What is done, and on what.
    scale
        Measured over modelled time, where a measured step is known [-]; the model's terms are all scaled by it.
    sigma
        Standard deviation of the logarithm of true over stated time [-].
    """

    work: Workload
    machine: Machine
    scale: float = 1.0
    sigma: float = 0.0

    @cached_property
    def breakdown(self) -> Breakdown:
        """The parts of the time of a healthy step [s]."""
        return self._scaled(breakdown(self.work, self.machine))

    @cached_property
    def time(self) -> float:
        """Time of a healthy step [s]."""
        return self.breakdown.total

    @property
    def band90(self) -> tuple[float, float]:
        """Interval that holds the time of a healthy step with 90 % [s]: log-normal."""
        spread = math.exp(BAND90 * self.sigma)
        return self.time / spread, self.time * spread

    @property
    def uses_network(self) -> bool:
        """Whether a kind of group communicates between scale-up domains."""
        return any(link.network for link in self.machine.links)

    @property
    def is_far(self) -> bool:
        """Whether the measured step is so far from the modelled one that it must be that of something else."""
        return abs(math.log(self.scale)) > _FAR * self.machine.shares.sigma

    @cached_property
    def flop(self) -> float:
        """Model FLOP of a step, without recomputation [FLOP]."""
        return self.work.sequences * self.work.sequence * flop_per_token(self.work.shape, self.work.sequence)

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation at the precision of the step, half of attention counted (causal) [-]."""
        return self.flop / (self.time * self.work.gpus * self.machine.chip.peak[self.work.precision])

    @property
    def tokens_per_second(self) -> float:
        """Tokens of a healthy second, of the whole job [1/s]."""
        return self.work.sequences * self.work.sequence / self.time

    @cached_property
    def memory(self) -> MemoryUse:
        """The memory of the fullest GPU [B]."""
        return memory_use(self.work)

    @property
    def crowding(self) -> float:
        """The memory of the fullest GPU over its capacity [-]."""
        return self.memory.total / self.machine.chip.memory

    def impaired(self, state: Impairment) -> Breakdown:
        """Return where the time of a step goes when something is slow, narrow or missing [s]."""
        return self._scaled(impaired(self.work, self.machine, state))

    def pace(self, state: Impairment) -> float:
        """Return the pace of an impaired job relative to the healthy one [-]: healthy over impaired time of a step."""
        return self.time / self.impaired(state).total

    def _scaled(self, breakdown: Breakdown) -> Breakdown:
        """Return a breakdown with every term scaled as measured."""
        return breakdown if self.scale == 1.0 else Breakdown(*(self.scale * term for term in breakdown))


# How long it takes until a job steps, as a function of its size.


def communicator_time(gpus: float) -> float:
    r"""Return the time to set up the collectives of a job [s].

    .. math:: t = 17\,\mathrm{s}\, (N / 16{,}384)^{1.36}

    A power law through 17, 30, 100 and 200 s at 16, 22, 64 and 98 thousand GPUs, as published for one stack; those of
    other stacks that set up lazily are several times faster. Used below 16,384 GPUs it is extrapolated.

    References
    ----------
    "Training LLMs with fault tolerant HSDP on 100,000 GPUs", arXiv 2602.00277: the four points; the law is ours.
    """
    return float(17.0 * (gpus / 16384) ** 1.36)


def start_time(gpus: float) -> tuple[float, float]:
    """Return the range of the time from a job's start to its first step [s].

    170 to 290 s up to 512 GPUs, and 22 to 48 s for each 1,000 more: collectives, checkpoint, compilation and warm-up
    of a tuned stack on H100; neither queue nor pulling of images.

    References
    ----------
    MLCommons, training results v3.1 and v4.0, GPT-3 175B: ``init_start`` to ``run_start`` at 512 to 11,616 H100.
    """
    more = max(0.0, gpus - 512.0)
    return 170.0 + 22e-3 * more, 290.0 + 48e-3 * more


# Every way to lay a step out on a number of GPUs: the sizes of the groups, and what the memory has room for.

_FEWEST_TOKENS = 4096

"""Tokens of a sequence that a context rank keeps: with fewer, products get smaller than the model knows of."""


_MODULES: tuple[tuple[Module, ...], ...] = (("norm",), ("activation",))

"""Modules that are recomputed by themselves where options are looked at."""


class Bounds(NamedTuple):
    """The bounds of the search for layouts.

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
    options
        Whether zero-bubble schedules and recomputation of single modules are looked at too.
    """

    gpus: int
    memory: float
    tensor: int
    shardings: Sequence[Sharding] = ("optimizer",)
    options: bool = False


def layouts(base: Workload, bounds: Bounds) -> Iterator[Workload]:
    """Yield the layouts of a step that are possible and fit, each once and always in the same order.

    Evaluated are all sizes of tensor, context, pipeline, data and expert groups, virtual stages, microbatches, and what
    the backward pass computes again; with options, schedules too. Model, batch, precision and overlaps are those of
    `base`.

    Notes
    -----
    What a GPU holds never falls when a microbatch grows, so that the first one that does not fit ends its row.
    """
    for group in groupings(base, bounds):
        yield from variants(group, base, bounds)


def variants(group: Workload, base: Workload, bounds: Bounds, *, least: bool = False) -> Iterator[Workload]:
    """Yield the layouts of some sizes of groups that are possible and fit.

    With `least`, of those that differ only in what they compute again just the one that computes least: it is fastest.
    """
    fitting: set[object] = set()
    schedules: tuple[Schedule, ...] = (base.schedule,)
    if bounds.options and group.pipeline > 1:
        schedules = tuple(dict.fromkeys((base.schedule, "1f1b", "zero-bubble-h1")))
    for sharding, (recompute, modules), schedule in product(bounds.shardings, _again(base, bounds), schedules):
        start = replace(
            group,
            sharding=sharding,
            shard_ranks=_ranks(base, sharding),
            recompute=recompute,
            modules=modules,
            recompute_layers=0,
            schedule=schedule,
        )
        for virtual in _virtuals(start):
            for microbatch in divisors(start.sequences // start.data):
                if least and (sharding, schedule, virtual, microbatch) in fitting:
                    continue
                work = replace(start, virtual=virtual, microbatch=microbatch)
                if problems(work):
                    continue
                if memory_use(work).total > bounds.memory:
                    break
                fitting.add((sharding, schedule, virtual, microbatch))
                yield work


def _again(base: Workload, bounds: Bounds) -> list[tuple[Recompute, tuple[Module, ...]]]:
    """Return the parts and modules of a layer that a layout may compute again, the least first."""
    recomputes: tuple[Recompute, ...] = ("none", "selective", "full")
    if base.fused_attention and not base.shape.gated:  # where selective recomputation drops nothing
        recomputes = ("none", "full")
    again: list[tuple[Recompute, tuple[Module, ...]]] = [(recompute, ()) for recompute in recomputes]
    if bounds.options and base.shape.gated:
        again += [("selective", modules) for modules in _MODULES]
    return again


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
                yield from grouped(base, tensor, context, pipeline, data)


def grouped(base: Workload, tensor: int, context: int, pipeline: int, data: int) -> Iterator[Workload]:
    """Yield the groups of these sizes, with each number of GPUs that can share the experts of a layer."""
    for expert in _experts(base, tensor // base.expert_tensor, context, data):
        yield replace(
            base,
            tensor=tensor,
            context=context,
            ulysses=gcd(base.ulysses, context),
            pipeline=pipeline,
            data=data,
            expert=expert,
            virtual=1,
            microbatch=1,
            recompute="none",
            modules=(),
            recompute_layers=0,
            first_layers=0,
            last_layers=0,
        )


def smallest(base: Workload, bounds: Bounds) -> Workload | None:
    """Return the layout whose fullest GPU holds least, whether it fits or not; ``None`` if no sizes divide."""
    works = [
        replace(group, sharding=sharding, shard_ranks=_ranks(base, sharding), recompute="full")
        for group in groupings(base, bounds)
        for sharding in bounds.shardings
    ]
    return min((work for work in works if not problems(work)), key=lambda work: memory_use(work).total, default=None)


def _ranks(base: Workload, sharding: Sharding) -> int:
    """Return how many ranks divide parameters [-]: as many as now, where they do."""
    return base.shard_ranks if sharding == "parameters" else 0


def _experts(base: Workload, tensor: int, context: int, data: int) -> list[int]:
    """Return the numbers of GPUs that can share the experts of a layer."""
    experts = base.shape.experts
    if experts is None:
        return [1]
    return [size for size in expert_sizes(tensor, context, data) if experts.count % size == 0]


def _virtuals(work: Workload) -> list[int]:
    """Return the numbers of model chunks that a stage can hold."""
    if work.pipeline == 1 or work.schedule != "1f1b":
        return [1]
    even = even_pieces(work.shape.layers, work.pipeline)
    uneven = [pieces for pieces in (2, 4, 8) if not even and pieces * work.pipeline <= work.shape.layers + 2]
    return sorted({1, *even, *uneven})
