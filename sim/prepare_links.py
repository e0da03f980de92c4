"""From where a job sits to what its groups communicate over."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from sim import perf
from sim.prepare_layout import placement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.job_spec import Parallelism
    from sim.perf import Accelerator, Link, Links, Workload
    from sim.perf.ranks import GroupKind
    from sim.prepare_layout import Placement
    from sim.scenario import Scenario

__all__ = ["links_elsewhere", "links_of", "links_of_nics"]


def links_of_nics(cluster: Any, work: Workload, layout: Parallelism, chip: Accelerator) -> Links:
    """Return what groups communicate over where each has all bandwidth of its NICs, whatever the fabric."""
    network = cluster.fabric.nic * cluster.fabric.rails / cluster.hosts.gpus
    domain = cluster.nodes_per_domain * cluster.hosts.gpus
    return perf.ideal_links(work, chip.scale_up, network, domain, layout.order)


def links_elsewhere(scenario: Scenario, index: int, layout: Parallelism, work: Workload, chip: Accelerator) -> Links:
    """Return what the groups of a measured layout communicated over: where it sits here, if the cluster has room."""
    cluster: Any = scenario.cluster
    hosts = cluster.hosts
    if layout.gpus % hosts.gpus == 0 and layout.gpus <= hosts.nodes * hosts.gpus:
        place = placement(scenario.with_job(index, gpus=layout.gpus, parallelism=layout), index)
        if place is not None:
            return links_of(scenario, place, chip)
    return links_of_nics(cluster, work, layout, chip)


def links_of(scenario: Scenario, place: Placement, chip: Accelerator) -> Links:
    """Return what the groups of a job communicate over, where it sits in an empty cluster."""
    cluster: Any = scenario.cluster
    per_gpu = cluster.fabric.rails / cluster.hosts.gpus
    levels: Mapping[str, float] = cluster.fabric.bandwidth(cluster.hosts)

    def link(*kinds: GroupKind) -> Link:
        found = [place.spans[kind] for kind in kinds if kind in place.spans]
        through = [per_gpu * span.network(levels) for span in found if span.level != "scale_up"]
        if not through:
            return perf.Link(chip.scale_up)
        # Groups of ranks that differ in both of two ways: as many in a domain as one way times the other.
        return perf.Link(chip.scale_up, min(through), prod(span.per_domain for span in found))

    data = link("context", "data")
    tensor, inside = (place.spans[kind].per_domain if kind in place.spans else 1 for kind in ("tensor", "expert"))
    return perf.Links(
        tensor=link("tensor"),
        context=link("context")._replace(ranks=1),
        expert=link("expert"),
        pipeline=link("pipeline")._replace(ranks=1),
        data=data,
        # The ranks that hold the same experts: those of a tensor group, and of as many replicas as are left.
        expert_data=data._replace(ranks=tensor * max(1, data.ranks // inside)),
    )
