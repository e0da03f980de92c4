r"""The time of one optimizer step: layers on stages, stages in a pipeline, gradients over replicas, the optimizer.

.. math:: T = m (S + u) + F + x + t_o + \tau_0

with m microbatches, the slowest stage's time S for one, what it waits to hand it over u, the fill and drain of the
pipeline F, exposed data-parallel traffic x, the optimizer t_o, and a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sim.perf.layer import WEIGHT_BYTES, LayerTimes, layer_times, logits_time, passes, rate

if TYPE_CHECKING:
    from sim.perf.constants import Constants, Efficiencies
    from sim.perf.hardware import Accelerator
    from sim.perf.links import Link, Links
    from sim.perf.workload import Workload

__all__ = ["Breakdown", "Machine", "Stages", "breakdown", "parameters_per_gpu", "stages"]


@dataclass(frozen=True)
class Machine:
    """What a step runs on.

    Parameters
    ----------
    chip, shares
        The accelerator, and what it reaches at the precision of the step.
    links
        What each kind of group communicates over.
    constants
        The rest of the model's numbers.
    """

    chip: Accelerator
    shares: Efficiencies
    links: Links
    constants: Constants


class Breakdown(NamedTuple):
    """Where the time of a step goes on its critical path [s]; the sum is the step.

    Parameters
    ----------
    gemm, attention, elementwise, launch, logits
        Computing, and moving memory, on the slowest stage.
    tensor, context, expert, pipeline, data
        Communication that computing does not hide, by kind of group.
    bubble
        Filling and draining the pipeline.
    optimizer, overhead
        The update of the parameters, and what belongs to no layer.
    """

    gemm: float
    attention: float
    elementwise: float
    launch: float
    logits: float
    tensor: float
    context: float
    expert: float
    pipeline: float
    bubble: float
    data: float
    optimizer: float
    overhead: float

    @property
    def total(self) -> float:
        """Time of the step [s]."""
        return sum(self)


class Stages(NamedTuple):
    """Times of pipeline stages for one microbatch, forward and backward [s].

    Parameters
    ----------
    layer
        One layer.
    logits
        Time of the logits that the slowest stage has.
    layers
        Layers of the slowest stage, means where they are uneven over ranks [-].
    slowest, other
        The slowest stage, and the mean of all.
    weights
        The part of a stage that computes gradients of weights.
    """

    layer: LayerTimes
    logits: float
    layers: float
    slowest: float
    other: float
    weights: float


def stages(work: Workload, machine: Machine) -> Stages:
    """Return the times of the stages of a pipeline; the last one also has the logits."""
    layer = layer_times(work, machine.chip, machine.links, machine.shares, machine.constants)
    logits = logits_time(work, machine.chip, machine.shares)
    each = sum(layer)
    _, most, last = work.stage_layers
    is_last = last * each + logits >= most * each
    layers, head = (last, logits) if is_last else (most, 0.0)
    # Of n passes one is for the gradients of weights, and it has matrix products alone.
    mean = work.shape.all_layers / work.pipeline
    weights = layer.gemm / passes(work) * mean
    other = mean * each + logits / work.pipeline
    if work.overlap_expert:
        # Behind tokens on their way the passes take equally long, whatever they compute.
        weights = other / 3
    return Stages(layer, head, layers, layers * each + head, other, weights)


def breakdown(work: Workload, machine: Machine) -> Breakdown:
    """Return where the time of one step goes [s]."""
    constants = machine.constants
    found = stages(work, machine)
    count = work.microbatches
    handover = bubble = 0.0
    if work.pipeline > 1:
        # Tensor ranks each send a part of the activations and gather them on the other side (arXiv 2104.04473, 4.1).
        send = 2 * work.tokens * work.shape.hidden / work.tensor / rate(machine.links.pipeline, constants)
        hidden = constants.handover_hidden if work.virtual > 1 else 0.0
        handover = count * 2 * work.virtual * send * (1 - hidden)
        bubble = (work.pipeline - 1) * (_fill(work, found) + 2 * send)
    pipeline = count * found.slowest + handover + bubble
    layer = LayerTimes(*(count * found.layers * term for term in found.layer))
    return Breakdown(
        gemm=layer.gemm,
        attention=layer.attention,
        elementwise=layer.elementwise,
        launch=layer.launch,
        logits=count * found.logits,
        tensor=layer.tensor,
        context=layer.context,
        expert=layer.expert,
        pipeline=handover,
        bubble=bubble,
        data=_exposed(work, machine, found.slowest, pipeline),
        optimizer=_optimizer(work, machine),
        overhead=constants.overhead,
    )


def _fill(work: Workload, found: Stages) -> float:
    """Return what each further stage adds to filling and draining the pipeline [s].

    1F1B: a stage's time for a microbatch, over the interleaved pieces. Zero bubble puts gradients of weights into the
    gap: once (H1), or twice with more microbatches in flight (H2).

    References
    ----------
    arXiv 2104.04473, section 2.2; P. Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241, table 2.
    """
    if work.schedule == "1f1b":
        return found.other / work.virtual
    return max(0.0, found.other - (2 if work.schedule == "zero-bubble-h1" else 3) * found.weights)


def parameters_per_gpu(work: Workload) -> tuple[float, float]:
    """Return the parameters that a GPU holds where replicas divide none [-]: shared ones, and those of experts."""
    shape = work.shape
    return (
        shape.shared_parameters / (work.tensor * work.pipeline),
        shape.expert_parameters / (work.expert * work.pipeline),
    )


def _exposed(work: Workload, machine: Machine, stage: float, pipeline: float) -> float:
    r"""Return the data-parallel traffic that computing does not hide [s].

    Gradients, and parameters if the optimizer's state is divided: (n - 1) / n P beta / B, hidden behind the work of a
    stage for a microbatch. Divided parameters are gathered twice and their gradients scattered for each microbatch.
    """
    constants = machine.constants
    if work.sharding == "parameters":
        moved = work.microbatches * _reduced(work, machine, 6.0)
        if 0 < work.shard_ranks < work.data_ranks:
            moved += _between_copies(work, machine)
        if not work.overlap_data:
            return moved
        return max(constants.shard_floor * moved, moved - constants.shard_cover * pipeline)
    # 32-bit gradients and 16-bit parameters, or 16-bit gradients and parameters as the matrix units read them;
    # undivided, 16-bit gradients go twice.
    narrow = 2.0 + WEIGHT_BYTES[work.precision]
    size = 4.0 if work.sharding == "none" else 6.0 if work.precision == "bf16" else narrow
    moved = _reduced(work, machine, size)
    if not work.overlap_data:
        return moved
    return max(constants.data_floor * moved, moved - constants.data_cover * stage)


def _reduced(work: Workload, machine: Machine, size: float) -> float:
    """Return the time to move `size` bytes of each parameter through the groups that share it [s]."""
    links = machine.links
    return sum(
        (ranks - 1) / ranks * size * parameters / rate(link.of_part(ranks, copies), machine.constants)
        for parameters, ranks, copies, link in _shared(work, links)
    )


def _between_copies(work: Workload, machine: Machine) -> float:
    """Return the time of the all-reduce between groups that hold copies of divided parameters [s]."""
    found = 0.0
    for parameters, ranks, copies, link in _shared(work, machine.links):
        groups = copies // ranks
        own = link._replace(ranks=max(1, link.ranks // ranks)) if link.network else link
        found += 2 * (groups - 1) / groups * 2 * parameters / ranks / rate(own, machine.constants)
    return found


def _shared(work: Workload, links: Links) -> list[tuple[float, int, int, Link]]:
    """Return, for shared parameters and experts: how many, ranks that divide and ranks that hold them, and the link."""
    shared, experts = parameters_per_gpu(work)
    ranks = work.shard_ranks if work.sharding == "parameters" and work.shard_ranks else work.data_ranks
    found = [(shared, ranks, work.data_ranks, links.data)]
    if experts:
        copies = work.expert_replicas
        found.append((experts, min(ranks, copies), copies, links.expert_data))
    return found


def _optimizer(work: Workload, machine: Machine) -> float:
    """Return the time of the update: what the optimizer moves in memory for the parameters that are a GPU's own [s]."""
    shared, experts = parameters_per_gpu(work)
    if work.sharding != "none":
        ranks = work.shard_ranks or work.data_ranks
        shared, experts = shared / ranks, experts / min(ranks, work.expert_replicas)
    constants = machine.constants
    return constants.optimizer * (shared + experts) / (constants.memory * machine.chip.memory_bandwidth)
