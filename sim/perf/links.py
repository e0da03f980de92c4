"""What the groups of a layout communicate over: scale-up links inside a domain, NICs between domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim.perf.ranks import ORDER, coordinate_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.perf.ranks import GroupKind
    from sim.perf.workload import Workload

__all__ = ["Link", "Links", "ideal_links"]


class Link(NamedTuple):
    """What one GPU of a group has for the traffic of that group.

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
    """The links of each kind of group; ``data`` are the ranks that reduce gradients together."""

    tensor: Link
    context: Link
    expert: Link
    pipeline: Link
    data: Link
    expert_data: Link

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
    sizes = coordinate_sizes(work.tensor, work.context, work.pipeline, work.data, work.expert)

    def link(*names: GroupKind) -> Link:
        ranks = stride = group = 1
        for name in order:
            if name in names:
                ranks *= min(sizes[name], max(1, domain // stride))
                group *= sizes[name]
            stride *= sizes[name]
        return Link(scale_up) if ranks == group else Link(scale_up, network, ranks)

    wide = work.expert > work.data_ranks
    spread: tuple[GroupKind, ...] = ("context", "expert") if work.experts_cover_context else ("expert",)
    rest: tuple[GroupKind, ...] = ("tensor", "data") if work.experts_cover_context else ("tensor", "context", "data")
    experts = link("tensor", "context", "expert", "data") if wide else link(*spread)
    return Links(
        tensor=link("tensor"),
        context=link("context")._replace(ranks=1),
        expert=experts._replace(ranks=min(experts.ranks, work.expert)),
        pipeline=link("pipeline")._replace(ranks=1),
        data=link("context", "expert", "data"),
        # The ranks that hold the same experts differ in all that experts are not spread over.
        expert_data=experts._replace(ranks=1) if wide else link(*rest),
    )
