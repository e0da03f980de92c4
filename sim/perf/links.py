"""What the groups of a layout communicate over: scale-up links inside a domain, NICs between domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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


def ideal_links(work: Workload, scale_up: float, network: float, domain: int) -> Links:
    """Return the links of ranks that sit in order: tensor, context, data, pipeline from inside out.

    Parameters
    ----------
    scale_up, network
        Bandwidth of one GPU's scale-up links and of its NICs, one direction [B/s].
    domain
        GPUs of a scale-up domain [-].
    """

    def link(stride: int, size: int) -> Link:
        if stride * size <= domain:
            return Link(scale_up)
        return Link(scale_up, network, max(1, min(size, domain // stride)))

    tensor, context, experts = work.tensor, work.context, work.expert
    # Experts take in the ranks of tensor groups where they are more than the replicas' ranks.
    outer = tensor if experts <= work.data_ranks else 1
    return Links(
        tensor=link(1, tensor),
        context=link(tensor, context)._replace(ranks=1),
        expert=link(outer, experts),
        pipeline=link(tensor * context * work.data, work.pipeline)._replace(ranks=1),
        data=link(tensor, work.data_ranks),
        expert_data=link(outer * experts, work.expert_replicas),
    )
