r"""The time of one optimizer step: layers on stages, stages in a pipeline, gradients over replicas, the optimizer.

.. math:: T = m (S + u) + F + x + t_o + \tau_0

with m microbatches, the slowest stage's time S for one, what it waits to hand it over u, the fill and drain of the
pipeline F, exposed data-parallel traffic x, the optimizer t_o, and a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from ettrick.sim.steps.memory import activations, stage_activations
from ettrick.sim.steps.workload import CHEAP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.steps.hardware import Accelerator, Constants, Efficiencies, Link, Links
    from ettrick.sim.steps.workload import Module, Workload

# The time of one layer and one microbatch on one GPU, forward and backward together, term by term.
#
# Symbols: T tokens of a microbatch and context rank, h hidden width, s sequence, t tensor ranks, n passes (3, or 4 with
# full recomputation: the backward pass counts two), r collectives of tensor ranks (4, or 6 with full recomputation).

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}

"""Bytes of a weight as the matrix units read it [B]."""


class LayerTimes(NamedTuple):
    """Seconds of a layer and microbatch [s]."""

    gemm: float
    attention: float
    elementwise: float
    launch: float
    tensor: float
    context: float
    expert: float


def rate(link: Link, constants: Constants) -> float:
    r"""Return the bandwidth that a collective of a group reaches [B/s].

    .. math:: B = \eta_W W \text{ inside a domain, else } \min(\eta_W W, g \eta_X X)

    Of what a domain sends, each of its g ranks of the group takes a g-th through its own NICs.
    """
    local = constants.scale_up * link.scale_up
    return min(local, link.ranks * constants.network * link.network) if link.network else local


def layer_times(
    work: Workload, chip: Accelerator, links: Links, shares: Efficiencies, constants: Constants
) -> LayerTimes:
    """Return the times of a layer [s]; means over its layers where only some have experts."""
    dense, mixed = work.shape.dense_layers, work.shape.expert_layers
    common = (
        _attention(work, chip, shares),
        launch_time(work, constants, mixed / (dense + mixed)),
        _tensor(work, links, constants),
        _context(work, links, constants),
    )
    kinds = [(count / (dense + mixed), experts) for count, experts in ((dense, False), (mixed, True)) if count]
    gemm = sum(share * _gemm(work, chip, shares, constants, experts=experts) for share, experts in kinds)
    elementwise = sum(share * _elementwise(work, chip, constants, experts=experts) for share, experts in kinds)
    attention, launch, tensor, context = common
    expert = _expert(work, links, constants) * mixed / (dense + mixed)
    # Behind the computing of another microbatch, or in part behind what else the layer does.
    expert = max(0.0, expert - gemm - attention) if work.overlap_expert else expert * (1 - constants.expert_hidden)
    return LayerTimes(gemm, attention, elementwise, launch, tensor, context, expert)


def launch_time(work: Workload, constants: Constants, mixed: float) -> float:
    """Return the time that kernels of a layer wait for their host [s]; `mixed` is the share of layers with experts.

    A graph of the whole iteration leaves nothing of it, partial graphs a half of what experts add (assumed).
    """
    if work.cuda_graphs is True:
        return 0.0
    if work.cuda_graphs == "partial":
        return passes(work) * 0.5 * constants.expert_launch * mixed
    return passes(work) * (constants.launch + constants.expert_launch * mixed)


def logits_time(work: Workload, chip: Accelerator, shares: Efficiencies) -> float:
    """Return the time of the product with the vocabulary, 6 T h V / t over what 16-bit products reach [s]."""
    shape = work.shape
    flop = (4 if shape.lora else 6) * work.tokens * shape.hidden * shape.vocabulary / work.tensor
    return (1 + shape.depths) * flop / (shares.logits * chip.peak["bf16"])


def passes(work: Workload) -> float:
    """Return the work of forward and backward pass, in forward passes: 3, and 1 for layers computed again [-].

    Frozen weights have no gradients, and what their products would read is not read: 2.
    """
    return 3.0 + work.whole_again - (1.0 if work.shape.lora else 0.0)


def _gemm(work: Workload, chip: Accelerator, shares: Efficiencies, constants: Constants, *, experts: bool) -> float:
    r"""Return the time of the matrix products with weights [s].

    .. math:: n \left(\frac{2 T P_\ell}{t\, e\, \Pi} + \frac{P_\ell \beta_q}{t\, \eta_H H}\right)

    with the parameters of a layer P, the peak and the efficiency e of the precision q. The second part is the reading
    of the weights, which matters when a microbatch has few tokens. Experts' products are smaller and reach less.
    Modules that are computed again have their products once more.
    """
    shape = work.shape
    peak = shares.gemm * chip.peak[work.precision]
    reading = constants.weight_reads * WEIGHT_BYTES[work.precision] / (constants.memory * chip.memory_bandwidth)
    common = shape.common_layer if experts else shape.dense_layer
    one_pass = common / work.tensor * (2 * work.tokens / peak + reading)
    wide, width = "mlp", shape.ffn
    if experts and shape.experts is not None:
        met = work.tokens / work.tensor * shape.experts.active
        local_experts = shape.experts.count / (work.expert * work.expert_tensor)
        mixed = shape.expert * (2 * met * work.expert_load / peak + local_experts * reading)
        one_pass, wide, width = one_pass + mixed, "shared_experts", shape.experts.shared
    again = 0.0
    if "up_projection" in work.again:
        again += shape.expanding / work.tensor * (2 * work.tokens / peak + reading)
    if wide in work.again:
        again += shape.matrices * shape.hidden * width / work.tensor * (2 * work.tokens / peak + reading)
    if experts and "experts" in work.again:
        again += mixed
    if shape.lora:
        # Adapters are small products at 16 bits, forward and for both gradients.
        adapters = 2 * work.tokens * shape.adapters(experts=experts) / work.tensor
        again += (1 + passes(work)) * adapters / (shares.logits * chip.peak["bf16"])
    return passes(work) * one_pass + again


def _attention(work: Workload, chip: Accelerator, shares: Efficiencies) -> float:
    r"""Return the time of the core of attention, n_a 4 T s h phi / t over a share of the 16-bit peak [s].

    phi is a half where the masked half is skipped, which fused attention does; its backward pass computes the scores
    again, half a pass more. Selective recomputation of what is not fused is one pass more.
    """
    count = 3.0 + attention_again(work) + (0.5 if work.fused_attention else 0.0)
    return count * attention_flop(work) / (shares.attention * chip.peak[work.attention])


def attention_again(work: Workload) -> float:
    """Return the forward passes of the core of attention that the backward pass adds [-]."""
    return work.whole_again + ("attention" in work.again and not work.fused_attention)


def attention_flop(work: Workload) -> float:
    """Return the FLOP of the core of attention, forward, on one GPU [FLOP]."""
    shape, half = work.shape, 0.5 if work.fused_attention else 1.0
    flop: float = 2 * work.tokens * shape.scored(work.sequence) * shape.attention_width * half / work.tensor
    return flop + work.tokens * shape.scan_flop / work.tensor


def _elementwise(work: Workload, chip: Accelerator, constants: Constants, *, experts: bool) -> float:
    """Return the time of what only moves memory: the inventory of activations, touched a few times per pass [s].

    What is kept of a token's copies, one for each of its experts, is touched more often: sorted and padded on both ends
    of their way, and weighed.

    To have all again that costs little is a pass through half of it; of some modules, through as much less as they drop
    less.
    """
    inventory = activations(work.shape, work.sequence, experts=experts, fused=work.fused_elementwise)
    moved = constants.touches * (inventory.whole / work.split + (inventory.divided - inventory.copies) / work.tensor)
    moved += constants.expert_touches * work.expert_load * inventory.copies / work.tensor
    if not work.fused_attention:
        moved += constants.score_touches * inventory.scores / work.tensor
    return (passes(work) + cheap_again(work, experts=experts)) * work.tokens * moved / chip.memory_bandwidth


def cheap_again(work: Workload, *, experts: bool) -> float:
    """Return the passes through the inventory that modules which are computed again add [-]."""
    if not work.shape.gated or not work.again:
        return 0.0

    def stored(again: Sequence[Module]) -> float:
        inventory = activations(work.shape, work.sequence, experts=experts, again=again)
        return inventory.whole / work.split + inventory.divided / work.tensor

    cheap = tuple(module for module in work.again if module in CHEAP)
    return 0.5 * (stored(()) - stored(cheap)) / (stored(()) - stored(CHEAP))


def _tensor(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that tensor ranks wait for each other [s].

    .. math:: r \left(\frac{2 (t - 1)}{t} \frac{2 T h}{B} + \alpha\right) (1 - o)

    An all-reduce, or a reduce-scatter and an all-gather of the same bytes, after attention and feed-forward part. What
    runs next to computing writes to the memory of other GPUs, so nothing is hidden between scale-up domains.

    References
    ----------
    github NVIDIA/TransformerEngine, ``initialize_ub``: overlap by user buffers is inside an NVLink domain.
    """
    ranks = work.tensor
    if ranks == 1:
        return 0.0
    moved = 2 * (ranks - 1) / ranks * 2 * work.tokens * work.shape.hidden
    collective = moved / rate(links.tensor, constants) + constants.latency
    collectives = 4 + 2 * work.whole_again
    hides = work.overlap_tensor and not links.tensor.network
    return collectives * collective * (1 - constants.tensor_hidden if hides else 1.0)


def _context(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that context ranks wait for keys and values: of a ring, 12 (c - 1) T h_k / t bytes over B [s].

    Forward each rank sends keys and values (2 T h_k values of 2 B) on c - 1 times; backward twice as much. With full
    recomputation they go forward twice. Where u of them exchange heads the ring has c / u ranks; before and after
    attention an all-to-all, forward and backward, that nothing hides.

    References
    ----------
    "DeepSpeed Ulysses", arXiv 2309.14509, section 3; hierarchical context parallelism: github NVIDIA/Megatron-LM
    (``hierarchical_context_parallel_sizes``).
    """
    if work.context == 1:
        return 0.0
    rounds = 6 + 2 * work.whole_again
    moved = rounds * (work.context // work.ulysses - 1) * work.tokens * work.shape.kv_width / work.tensor
    ring = moved * work.copied_heads / rate(links.context, constants) * (1 - constants.context_hidden)
    if work.ulysses == 1:
        return ring
    exchange = heads_exchange(work, links, constants) + constants.latency
    return ring + 2 * (2 + work.whole_again) * exchange


def heads_exchange(work: Workload, links: Links, constants: Constants) -> float:
    """Return the time of one of two all-to-alls of a pass of attention, without its start [s].

    Each moves half of the values, of 2 B; the slower of the ways inside a domain and out of it counts.
    """
    ranks, link = work.ulysses, links.ulysses
    sent = work.tokens * work.head_values
    inside = sent * (ranks - 1) / ranks / (constants.scale_up * link.scale_up)
    if not link.network:
        return inside
    return max(inside, sent * (1 - link.ranks / ranks) / (constants.network * link.network))


def _expert(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that tokens are on their way to experts and back, hidden or not [s].

    Four exchanges, with full recomputation six. Tensor ranks that share an expert gather each other's tokens, and sum
    what comes out.
    """
    experts = work.shape.experts
    if experts is None:
        return 0.0
    seconds = 0.0
    if work.expert > 1:
        seconds = all_to_all(work, links, constants) + constants.latency
    if work.expert_tensor > 1:
        token = 2 * work.tokens * work.shape.expert_hidden / work.tensor
        gathered = token * experts.active * work.expert_load * (work.expert_tensor - 1)
        seconds += gathered / rate(links.tensor, constants) + constants.latency
    exchanges = 4 + 2 * max(work.whole_again, "experts" in work.again)
    return exchanges * seconds


def all_to_all(work: Workload, links: Links, constants: Constants) -> float:
    """Return the time of one exchange between expert ranks, without its start [s].

    Each sends 2 T h k / t bytes, the busiest one more, of which a share (e - 1) / e leaves the GPU. Between domains a
    token goes once to each domain in which it has experts, through the GPU's own NIC; the slower of the two ways
    counts.
    """
    experts, ranks = work.shape.experts, work.expert
    if experts is None:
        return 0.0
    token = 2 * work.tokens * work.expert_load * work.shape.expert_hidden / work.tensor
    local, network, inside = links.expert
    seconds = token * experts.active * (ranks - 1) / ranks / (constants.scale_up * local)
    if network:
        outside = 1 - inside / ranks
        copies = outside * min(experts.active, experts.domains or ranks, ranks / inside)
        seconds = max(seconds, token * copies / (constants.network * network))
    return seconds


@dataclass(frozen=True)
class Machine:
    """The machine of a step.

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
    """The parts of the time of a step on its critical path [s]; the sum is the step.

    Parameters
    ----------
    gemm, attention, elementwise, launch, logits
        Computing, and moving memory, on the slowest stage.
    tensor, context, expert, pipeline, data
        Communication that computing does not hide, by kind of group.
    bubble
        Filling and draining the pipeline.
    offload
        What the host's memory keeps, on its way out and back, and the update of parameters where the host does it.
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
    offload: float
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
    slowest, mean
        The slowest stage, and the mean of all.
    weights
        The part of a stage that computes gradients of weights.
    """

    layer: LayerTimes
    logits: float
    layers: float
    slowest: float
    mean: float
    weights: float


def stages(work: Workload, machine: Machine) -> Stages:
    """Return the times of the stages of a pipeline; the last one also has the logits."""
    layer = layer_times(work, machine.chip, machine.links, machine.shares, machine.constants)
    logits = logits_time(work, machine.chip, machine.shares)
    layer_time = sum(layer)
    _, most, last = work.stage_layers
    is_last = last * layer_time + logits >= most * layer_time
    layers, head = (last, logits) if is_last else (most, 0.0)
    # Of n passes one is for the gradients of weights, and it has matrix products alone.
    mean = work.shape.all_layers / work.pipeline
    weights = 0.0 if work.shape.lora else layer.gemm / passes(work) * mean
    mean_stage = mean * layer_time + logits / work.pipeline
    if work.overlap_expert:
        # Behind tokens on their way the passes take equally long, whatever they compute.
        weights = mean_stage / 3
    return Stages(layer, head, layers, layers * layer_time + head, mean_stage, weights)


def breakdown(work: Workload, machine: Machine) -> Breakdown:
    """Return where the time of one step goes [s]."""
    constants = machine.constants
    stage_times = stages(work, machine)
    count = work.microbatches
    handover = bubble = 0.0
    if work.pipeline > 1:
        # Tensor ranks each send a part of the activations and gather them on the other side (arXiv 2104.04473, 4.1).
        send = 2 * work.tokens * work.shape.hidden / work.tensor / rate(machine.links.pipeline, constants)
        hidden = constants.handover_hidden if work.virtual > 1 else 0.0
        handover = count * 2 * work.virtual * send * (1 - hidden)
        bubble = (work.pipeline - 1) * (_fill(work, stage_times) + 2 * send)
    pipeline = count * stage_times.slowest + handover + bubble
    # Gradients and parameters go along while a stage waits for the host's memory, too.
    waits = _offload(work, machine, stage_times.slowest)
    layer = LayerTimes(*(count * stage_times.layers * term for term in stage_times.layer))
    return Breakdown(
        gemm=layer.gemm,
        attention=layer.attention,
        elementwise=layer.elementwise,
        launch=layer.launch,
        logits=count * stage_times.logits,
        tensor=layer.tensor,
        context=layer.context,
        expert=layer.expert,
        pipeline=handover,
        bubble=bubble,
        data=_exposed(work, machine, stage_times.slowest + waits / count, pipeline + waits),
        offload=waits,
        optimizer=_optimizer(work, machine),
        overhead=constants.overhead,
    )


def _fill(work: Workload, stage_times: Stages) -> float:
    """Return what each further stage adds to filling and draining the pipeline [s].

    1F1B: a stage's time for a microbatch, over its model chunks. Zero bubble puts gradients of weights into the
    gap: once (H1), or twice with more microbatches in flight (H2).

    References
    ----------
    arXiv 2104.04473, section 2.2; P. Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241, table 2.
    """
    if work.schedule == "1f1b":
        return stage_times.mean / work.virtual
    return max(0.0, stage_times.mean - (2 if work.schedule == "zero-bubble-h1" else 3) * stage_times.weights)


def parameters_per_gpu(work: Workload) -> tuple[float, float]:
    """Return the parameters that a GPU holds where replicas divide none [-]: shared ones, and those of experts."""
    shape = work.shape
    return (
        shape.shared_parameters / (work.tensor * work.pipeline),
        shape.expert_parameters / (work.expert * work.expert_tensor * work.pipeline),
    )


def trained_per_gpu(work: Workload) -> tuple[float, float]:
    """Return those of them that have gradients [-]: all, or adapters."""
    if work.shape.lora:
        return work.shape.adapter_parameters / (work.tensor * work.pipeline), 0.0
    return parameters_per_gpu(work)


def _exposed(work: Workload, machine: Machine, stage: float, pipeline: float) -> float:
    r"""Return the data-parallel traffic that computing does not hide [s].

    Gradients, and parameters if the optimizer's state is divided: (n - 1) / n P beta / B, hidden behind the work of a
    stage for a microbatch. Divided parameters are gathered twice and their gradients scattered for each microbatch,
    divided gradients for each round.
    """
    constants, reduced = machine.constants, work.reduced_bytes
    # What goes along with the work of the whole pipeline, and what only after the last microbatch of a stage.
    early = late = 0.0
    if work.sharding == "parameters":
        early = work.reductions * (_reduced(work, machine, reduced, gathered=4.0) + _starts(work, machine, 3))
        if 0 < work.shard_ranks < work.data_ranks:
            early += _between_copies(work, machine)
    elif work.sharding == "none":
        late = _reduced(work, machine, 2 * reduced) + _starts(work, machine, 1)
    else:
        # Parameters return at 16 bits, or as the matrix units read them.
        late = _reduced(work, machine, reduced + WEIGHT_BYTES[work.precision]) + _starts(work, machine, 2)
        if work.reductions > 1:
            early = (work.reductions - 1) * (_reduced(work, machine, reduced) + _starts(work, machine, 1))
    if not work.overlap_data:
        return early + late
    # What goes with the last microbatch hides behind that one, and what went before behind the others.
    cover = pipeline - stage if late else pipeline
    hidden = max(constants.shard_floor * early, early - constants.shard_cover * cover)
    return hidden + max(constants.data_floor * late, late - constants.data_cover * stage)


def _reduced(work: Workload, machine: Machine, size: float, gathered: float = 0.0) -> float:
    """Return the time to move bytes of each parameter through the groups that share it [s].

    `size` of those that are trained, `gathered` of frozen ones too.
    """
    constants, total = machine.constants, 0.0
    trained = trained_per_gpu(work)
    for of_kind, (parameters, ranks, copies, link) in zip(trained, _shared(work, machine.links), strict=False):
        part_link = link.of_part(ranks, copies)
        moved = (size + gathered) * parameters
        if work.shape.lora:
            moved = size * of_kind + gathered * parameters
        total += (ranks - 1) / ranks * moved / rate(part_link, constants)
    return total


def _starts(work: Workload, machine: Machine, collectives: int) -> float:
    """Return the time that collectives of data-parallel ranks take to start, so many for each layer of a stage [s].

    A tree of ranks is as deep as the logarithm of their number.
    """
    deep = sum(math.log2(ranks) for _, ranks, _, _ in _shared(work, machine.links) if ranks > 1)
    return collectives * work.stage_layers[1] * machine.constants.latency * deep


def _between_copies(work: Workload, machine: Machine) -> float:
    """Return the time of the all-reduce between groups that hold replicas of divided parameters [s]."""
    total = 0.0
    trained = trained_per_gpu(work)
    for parameters, (_, ranks, copies, link) in zip(trained, _shared(work, machine.links), strict=False):
        groups = copies // ranks
        group_link = link._replace(ranks=max(1, link.ranks // ranks)) if link.network else link
        moved = 2 * (groups - 1) / groups * work.reduced_bytes * parameters / ranks
        total += moved / rate(group_link, machine.constants)
    return total


def _shared(work: Workload, links: Links) -> list[tuple[float, int, int, Link]]:
    """Return, for shared parameters and experts: how many, ranks that divide and ranks that hold them, and the link."""
    shared, experts = parameters_per_gpu(work)
    ranks = work.shard_ranks if work.sharding == "parameters" and work.shard_ranks else work.data_ranks
    groups = [(shared, ranks, work.data_ranks, links.data)]
    if experts:
        copies = work.expert_replicas
        groups.append((experts, min(ranks, copies), copies, links.expert_data))
    return groups


def _optimizer(work: Workload, machine: Machine) -> float:
    """Return the time of the update: what the optimizer moves in memory for the parameters that are a GPU's own [s]."""
    if work.offload_optimizer:
        return 0.0
    constants = machine.constants
    return constants.optimizer * _own_parameters(work) / (constants.memory * machine.chip.memory_bandwidth)


def _own_parameters(work: Workload) -> float:
    """Return the parameters that a GPU updates [-]."""
    shared, experts = trained_per_gpu(work)
    if work.sharding != "none":
        ranks = work.shard_ranks or work.data_ranks
        shared, experts = shared / ranks, experts / min(ranks, work.expert_replicas)
    return shared + experts


def _offload(work: Workload, machine: Machine, stage: float) -> float:
    """Return the time that a GPU waits for the host's memory [s].

    Activations go out next to the forward pass, a third of a stage's time, and return next to the backward pass. An
    optimizer on the host gets gradients, moves its state at the speed of the link (assumed) and returns parameters.
    """
    host = machine.constants.memory * machine.chip.host
    wait = 0.0
    if work.offload_layers:
        resident = replace(work, offload_layers=0)
        away = (stage_activations(resident) - stage_activations(work)) / host
        wait = work.microbatches * (max(0.0, away - stage / 3) + max(0.0, away - 2 * stage / 3))
    if work.offload_optimizer:
        moved = machine.constants.optimizer + work.gradient_bytes + WEIGHT_BYTES["bf16"]
        wait += moved * _own_parameters(work) / host
    return wait


# The time of a step when something is slow, narrow or missing, to first order.
#
# A synchronous step waits for its slowest member: a slow GPU holds up its tensor group, that one its stage, the stage
# its pipeline, and the pipeline all replicas; a collective runs at the bandwidth of its narrowest member.

_EXCHANGES = ("tensor", "context", "expert", "pipeline", "data")


@dataclass(frozen=True, slots=True)
class Impairment:
    """The impairment of a job.

    Parameters
    ----------
    compute
        Pace of its slowest GPU, computing and memory alike, relative to a healthy one [-].
    network
        Share of the NICs' bandwidth that its narrowest member has left [-].
    scale_up
        The same of scale-up links [-].
    missing
        Replicas that are gone [-].
    keeps_batch
        Whether the others take over the missing replicas' share of the batch.
    tensor
        Tensor ranks that one replica has left [-]; 0 for all of them.
    """

    compute: float = 1.0
    network: float = 1.0
    scale_up: float = 1.0
    missing: int = 0
    keeps_batch: bool = False
    tensor: int = 0

    def __post_init__(self) -> None:
        """Refuse what no job can step with."""
        for name in ("compute", "network", "scale_up"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is the share that is left, above 0 and at most 1, not {getattr(self, name)}")


def impaired(work: Workload, machine: Machine, state: Impairment) -> Breakdown:
    """Return where the time of a step goes in an impaired job [s].

    Raises
    ------
    ValueError
        If no replica is left, or more tensor ranks than there are.

    Notes
    -----
    With the batch kept, m' = ceil(G / (b (d - k))) microbatches: the cost of a missing replica is a staircase. With a
    smaller batch the step takes as long as before, and trains on (d - k) / d of the samples.
    """
    if not 0 <= state.missing < work.data:
        raise ValueError(f"{state.missing} of {work.data} replicas cannot be missing")
    if not 0 <= state.tensor <= work.tensor:
        raise ValueError(f"of {work.tensor} tensor ranks {state.tensor} cannot be left")
    left = work.data - state.missing
    sequences = work.sequences if state.keeps_batch else ceil(work.sequences * left / work.data)
    links = machine.links.with_network(state.network).with_scale_up(state.scale_up)
    narrow = replace(machine, links=links)
    fewer = replace(work, data=left, sequences=sequences) if state.missing else work
    healthy = breakdown(fewer, narrow)
    if links != machine.links:
        # What waits longer inside a microbatch hides no more of what follows it.
        healthy = _no_faster(healthy, breakdown(fewer, machine))
    if state.compute == 1.0 and state.tensor in (0, work.tensor):
        return healthy
    chip = machine.chip
    slow = replace(
        chip,
        peak={name: peak * state.compute for name, peak in chip.peak.items()},
        memory_bandwidth=chip.memory_bandwidth * state.compute,
    )
    hurt = replace(fewer, tensor=state.tensor or work.tensor)
    slowed = breakdown(hurt, replace(narrow, chip=slow))
    # Every microbatch waits for the one slow stage; the others fill and drain the pipeline at their own pace.
    # What the others exchange takes no less time than before.
    return _no_faster(slowed, healthy)._replace(bubble=healthy.bubble)


def _no_faster(slowed: Breakdown, healthy: Breakdown) -> Breakdown:
    """Return a breakdown in which no exchange takes less time than in a healthy one."""
    return slowed._replace(**{name: max(getattr(healthy, name), getattr(slowed, name)) for name in _EXCHANGES})


def stated_pace(share: float, bandwidth: float, speed: float = 1.0) -> float:
    """Return the pace of a job that says what share c of a step waits for the network [-]: 1 / (1 - c + c / b).

    With a share b of its bandwidth left; or that of its slowest node, if that is less.
    """
    return min(speed, 1 / (1 - share + share / bandwidth))


def rerouted_pace(microbatches: int, stages: int, replicas: int, missing: int) -> float:
    r"""Return the pace of a job whose other replicas do the work of lost stages too, relative to the whole job [-].

    .. math:: \frac{m + p - 1}{\max(m\, d / (d - k),\ m + p - 1)}

    With k of d peers of a stage lost, the other d - k do its m microbatches of each replica; what fits into the bubbles
    of a pipeline of p stages costs nothing. All losses are taken to be in one stage, which is the slowest case.

    Parameters
    ----------
    microbatches, stages
        Of one replica [-].
    replicas, missing
        Pipelines of the whole job, and those that have lost a stage [-].

    Raises
    ------
    ValueError
        If no peer is left.

    References
    ----------
    "ReCycle: resilient training of large DNNs using pipeline adaptation", arXiv 2405.14009: work goes to peers of the
    same stage, in bubbles where the backward pass is split. The formula is ours, an approximation.
    """
    if not 0 <= missing < replicas:
        raise ValueError(f"{missing} of {replicas} replicas cannot be missing")
    whole = microbatches + stages - 1
    return float(whole / max(microbatches * replicas / (replicas - missing), whole))
