r"""The time of one layer and one microbatch on one GPU, forward and backward together, term by term.

Symbols: T tokens of a microbatch and context rank, h hidden width, s sequence, t tensor ranks, n passes (3, or 4 with
full recomputation: the backward pass counts two), r collectives of tensor ranks (4, or 6 with full recomputation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.perf.activations import activations

if TYPE_CHECKING:
    from sim.perf.constants import Constants, Efficiencies
    from sim.perf.hardware import Accelerator
    from sim.perf.links import Link, Links
    from sim.perf.workload import Workload

__all__ = ["WEIGHT_BYTES", "LayerTimes", "layer_times", "logits_time", "passes", "rate"]

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
        passes(work) * (constants.launch + constants.expert_launch * mixed / (dense + mixed)),
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


def logits_time(work: Workload, chip: Accelerator, shares: Efficiencies) -> float:
    """Return the time of the product with the vocabulary, 6 T h V / t over what 16-bit products reach [s]."""
    shape = work.shape
    flop = 6 * work.tokens * shape.hidden * shape.vocabulary / work.tensor
    return (1 + shape.depths) * flop / (shares.logits * chip.peak["bf16"])


def passes(work: Workload) -> float:
    """Return the work of forward and backward pass, in forward passes [-]."""
    return 4.0 if work.recompute == "full" else 3.0


def _gemm(work: Workload, chip: Accelerator, shares: Efficiencies, constants: Constants, *, experts: bool) -> float:
    r"""Return the time of the matrix products with weights [s].

    .. math:: n \left(\frac{2 T P_\ell}{t\, e\, \Pi} + \frac{P_\ell \beta_q}{t\, \eta_H H}\right)

    with the parameters of a layer P, the peak and the efficiency e of the precision q. The second part is the reading
    of the weights, which matters when a microbatch has few tokens. Experts' products are smaller and reach less.
    Selective recomputation expands what latent attention has compressed once more.
    """
    shape = work.shape
    peak = shares.gemm * chip.peak[work.precision]
    reading = constants.weight_reads * WEIGHT_BYTES[work.precision] / (constants.memory * chip.memory_bandwidth)
    common = shape.common_layer if experts else shape.dense_layer
    found = common / work.tensor * (2 * work.tokens / peak + reading)
    if experts:
        assert shape.experts is not None, "only a model with experts has layers with experts"
        met = work.tokens / work.tensor * shape.experts.active
        held = shape.experts.count / work.expert
        found += shape.expert * (2 * met / (constants.expert_gemm * peak) + held * reading)
    again = 0.0
    if work.recompute == "selective":
        again = shape.expanding / work.tensor * (2 * work.tokens / peak + reading)
    return passes(work) * found + again


def _attention(work: Workload, chip: Accelerator, shares: Efficiencies) -> float:
    r"""Return the time of the core of attention, n_a 4 T s h phi / t over a share of the 16-bit peak [s].

    phi is a half where the masked half is skipped, which fused attention does; its backward pass computes the scores
    again, half a pass more. Selective recomputation of what is not fused is one pass more.
    """
    shape = work.shape
    again = work.recompute == "full" or (work.recompute == "selective" and not work.fused_attention)
    count = 3.0 + again + (0.5 if work.fused_attention else 0.0)
    half = 0.5 if work.fused_attention else 1.0
    flop = 2 * work.tokens * work.sequence * shape.attention_width * half / work.tensor
    return count * flop / (shares.attention * chip.peak["bf16"])


def _elementwise(work: Workload, chip: Accelerator, constants: Constants, *, experts: bool) -> float:
    """Return the time of what only moves memory: the inventory of activations, touched a few times per pass [s].

    Selective recomputation of what is not attention's core adds a pass through half of it.
    """
    kept = activations(work.shape, work.sequence, experts=experts)
    moved = constants.touches * (kept.whole / work.split + kept.divided / work.tensor)
    if not work.fused_attention:
        moved += constants.score_touches * kept.scores / work.tensor
    count = passes(work) + (0.5 if work.recompute == "selective" and work.shape.gated else 0.0)
    return count * work.tokens * moved / chip.memory_bandwidth


def _tensor(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that tensor ranks wait for each other [s].

    .. math:: r \left(\frac{2 (t - 1)}{t} \frac{2 T h}{B} + \alpha\right) (1 - o)

    An all-reduce, or a reduce-scatter and an all-gather of the same bytes, after attention and feed-forward part.
    """
    ranks = work.tensor
    if ranks == 1:
        return 0.0
    moved = 2 * (ranks - 1) / ranks * 2 * work.tokens * work.shape.hidden
    each = moved / rate(links.tensor, constants) + constants.latency
    collectives = 6 if work.recompute == "full" else 4
    return collectives * each * (1 - constants.tensor_hidden if work.overlap_tensor else 1.0)


def _context(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that context ranks wait for keys and values: of a ring, 12 (c - 1) T h_k / t bytes over B [s].

    Forward each rank sends keys and values (2 T h_k values of 2 B) on c - 1 times; backward twice as much. With full
    recomputation they go forward twice.
    """
    if work.context == 1:
        return 0.0
    rounds = 8 if work.recompute == "full" else 6
    moved = rounds * (work.context - 1) * work.tokens * work.shape.kv_width / work.tensor
    return moved / rate(links.context, constants) * (1 - constants.context_hidden)


def _expert(work: Workload, links: Links, constants: Constants) -> float:
    r"""Return the time that tokens are on their way to experts and back, hidden or not [s].

    Four exchanges, with full recomputation six. Each sends 2 T h k / t bytes, of which a share (e - 1) / e leaves the
    GPU. Between domains a token goes once to each domain in which it has experts, through the GPU's own NIC; the slower
    of the two ways counts.
    """
    ranks, experts = work.expert, work.shape.experts
    if ranks == 1 or experts is None:
        return 0.0
    token = 2 * work.tokens * work.shape.hidden / work.tensor
    local, network, inside = links.expert
    seconds = token * experts.active * (ranks - 1) / ranks / (constants.scale_up * local)
    if network:
        outside = 1 - inside / ranks
        copies = outside * min(experts.active, experts.domains or ranks, ranks / inside)
        seconds = max(seconds, token * copies / (constants.network * network))
    exchanges = 6 if work.recompute == "full" else 4
    return exchanges * (seconds + constants.latency)
