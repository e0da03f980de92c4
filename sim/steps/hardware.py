"""The hardware of a step: an accelerator by the numbers of its data sheet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from ettrick.sim.steps.workload import ORDER, coordinate_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ettrick.sim.steps.workload import GroupKind, Workload

Precision: TypeAlias = Literal["bf16", "fp8", "mxfp8", "nvfp4"]

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

"""Arithmetic of the matrix products of a step."""


@dataclass(frozen=True, slots=True)
class NodePower:
    """The power of a node: accelerators, hosts, NICs and fans together.

    Parameters
    ----------
    idle, training
        Powered without work, and stepping [W].
    gpus
        Accelerators of that node [-].
    measured
        Whether somebody put a meter on it; else it is an estimate from the boards' power.
    source
        Who says so.
    """

    idle: float
    training: float
    gpus: int
    measured: bool
    source: str


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator.

    Parameters
    ----------
    title, source
        What it is called in full, and where its numbers come from.
    generation
        Whose measured efficiencies it shares.
    peak
        Dense peak by precision [FLOP/s]; a precision that it does not have is not there.
    memory, memory_bandwidth
        Device memory [B], and its bandwidth [B/s].
    scale_up
        Bandwidth of its scale-up links, one direction [B/s].
    host
        Bandwidth to the host's memory, one direction [B/s]: PCIe 5.0 x16 unless it is said.
    power
        Board power [W]; ``None`` where it is not published.
    cap
        What the board may draw where that is less [W].
    node
        What a node of it draws; ``None`` where nothing is published.
    matmul
        Best measured matrix product by precision [FLOP/s], where somebody has measured.
    announced
        Whether its numbers are those of an announcement, or of somebody's thoughts.
    tray, domain
        GPUs of a node as it is sold, and of a scale-up domain, which is a node unless it is said [-].
    """

    title: str
    source: str
    generation: str
    peak: Mapping[str, float] = field(hash=False)
    memory: float
    memory_bandwidth: float
    scale_up: float
    host: float = 63e9
    power: float | None = None
    cap: float | None = None
    node: NodePower | None = None
    matmul: Mapping[str, float] = field(default_factory=dict, hash=False)
    announced: bool = False
    tray: int = 8
    domain: int = 0


# What the groups of a layout communicate over: scale-up links inside a domain, NICs between domains.


class Link(NamedTuple):
    """The link that a GPU of a group has for the traffic of that group.

    Parameters
    ----------
    scale_up
        Bandwidth inside a scale-up domain, one direction [B/s].
    network
        Bandwidth of the GPU's share of NICs at the distance of the group [B/s]; 0 for a group inside one domain.
    ranks
        Ranks of a group in one domain: each sends a part of what the domain sends through its own NIC [-].
    """

    scale_up: float
    network: float = 0.0
    ranks: int = 1

    def of_part(self, ranks: int, copies: int) -> Link:
        """Return the link of groups of some ranks, `copies` of which share this one: inside a domain if they fit."""
        return self._replace(network=0.0) if ranks < copies and ranks <= self.ranks else self


class Links(NamedTuple):
    """The links of each kind of group.

    ``data`` are the ranks that reduce gradients together, ``ulysses`` the context ranks that exchange heads.
    """

    tensor: Link
    context: Link
    expert: Link
    pipeline: Link
    data: Link
    expert_data: Link
    ulysses: Link

    def with_network(self, share: float) -> Links:
        """Return the links with only a share of the NICs' bandwidth left [-]."""
        return Links(*(link._replace(network=link.network * share) for link in self))

    def with_scale_up(self, share: float) -> Links:
        """Return the links with only a share of the scale-up links' bandwidth left [-]."""
        return Links(*(link._replace(scale_up=link.scale_up * share) for link in self))


def ideal_links(
    work: Workload, scale_up: float, network: float, domain: int, order: Sequence[GroupKind] = ORDER
) -> Links:
    """Return the links of ranks that sit side by side in their order, with all bandwidth of their NICs.

    Parameters
    ----------
    scale_up, network
        Bandwidth of one GPU's scale-up links and of its NICs, one direction [B/s].
    domain
        GPUs of a scale-up domain [-].
    order
        The five coordinates of a rank, fastest first; experts are spread over a part of the replicas.
    """
    sizes = coordinate_sizes(work.tensor, work.context, work.pipeline, work.data, work.expert, work.expert_tensor)

    def link(*names: GroupKind) -> Link:
        ranks = stride = group = 1
        for name in order:
            if name in names:
                ranks *= min(sizes[name], max(1, domain // stride))
                group *= sizes[name]
            stride *= sizes[name]
        return Link(scale_up) if ranks == group else Link(scale_up, network, ranks)

    covers, context = work.expert_covers, link("context")
    rest: tuple[GroupKind, ...] = tuple(kind for kind in ("tensor", "context", "data") if kind not in covers)
    experts = link(*covers)
    return Links(
        tensor=link("tensor"),
        context=context._replace(ranks=1),
        expert=experts._replace(ranks=min(experts.ranks, work.expert)),
        pipeline=link("pipeline")._replace(ranks=1),
        data=link("context", "expert", "data"),
        # The ranks that hold the same experts differ in all that experts are not spread over.
        expert_data=link(*rest),
        ulysses=context.of_part(work.ulysses, work.context),
    )


# The numbers of the step model that no data sheet gives: fitted to measured steps, or from textbooks.


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """Shares of the peak that an accelerator reaches at one precision.

    Parameters
    ----------
    gemm
        Matrix products at the precision of the step, of that precision's peak [-].
    logits
        The product with the vocabulary, which stays at 16 bits, of the 16-bit peak [-].
    attention
        The core of attention, which stays at 16 bits, of the 16-bit peak [-].
    sigma
        Standard deviation of the logarithm of predicted over measured step times [-].
    basis
        What they rest on: ``fitted``; ``assumed``, from another precision; ``peak only``, from a data sheet and at most
        a benchmark of matrix products.
    """

    gemm: float
    logits: float
    attention: float
    sigma: float
    basis: str


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of all accelerators.

    Parameters
    ----------
    touches
        Times that each byte of the inventory of activations is read or written per pass [-].
    score_touches
        The same for the scores of attention that is not fused [-].
    weight_reads
        Times that a pass reads the weights of a layer from memory [-].
    launch
        Time of a layer and pass in which the GPU waits for its host [s].
    scale_up, network
        Shares of the links' bandwidth that collectives reach [-].
    latency
        Start of a collective inside a domain [s].
    tensor_hidden, context_hidden, expert_hidden, handover_hidden
        Shares of the traffic that run next to computing [-]; of tensors where that is switched on, of the pipeline
        where it is interleaved.
    data_floor, shard_floor
        Shares of data-parallel traffic that are never hidden: gradients, and sharded parameters [-].
    data_cover, shard_cover
        What it can hide behind: times the work of one microbatch on a stage, share of the whole pipeline [-].
    memory
        Share of the memory's bandwidth that the optimizer and reads of weights reach [-].
    optimizer
        Bytes that the optimizer moves for each parameter [B].
    expert_touches
        Times that each byte of tokens' copies for experts is read or written per pass [-].
    expert_launch
        What experts add to the launch time of a layer and pass: routing, sorting tokens, many small kernels [s].
    overhead
        Time of a step that belongs to no layer [s].
    """

    touches: float = 2.0
    score_touches: float = 1.5
    weight_reads: float = 1.0
    launch: float = 40e-6
    scale_up: float = 0.70
    network: float = 0.85
    latency: float = 15e-6
    tensor_hidden: float = 0.5
    context_hidden: float = 0.9
    expert_hidden: float = 0.5
    handover_hidden: float = 0.5
    data_floor: float = 0.05
    shard_floor: float = 0.2
    data_cover: float = 1.0
    shard_cover: float = 0.8
    memory: float = 0.8
    optimizer: float = 30.0
    expert_touches: float = 6.0
    expert_launch: float = 0.5e-3
    overhead: float = 30e-3
