"""From the layout of a job to its place in the cluster: who leaves together, and what crosses scale-up domains."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim import catalog, steps
from sim.cluster import FABRIC_PARTS
from sim.cluster.placement import Layout, bandwidths, cost_of_crossing, loss_of_host, positions, spans, stranded_gpus
from sim.engine.state_nodes import gather, spread
from sim.policies.recovery import Narrow, RestartSmaller, ShrinkRejoin
from sim.prepare.parts import known_chips, whole_units
from sim.scenario.fields import PathError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sim.cluster import ClusterSpec, Topology
    from sim.cluster.placement import HostLoss, Span
    from sim.engine.state_nodes import Units
    from sim.input.scenario import Scenario
    from sim.scenario.model import JobSpec, Parallelism
    from sim.steps import Accelerator, Link, Links, Workload
    from sim.steps.workload import GroupKind


class Placement(NamedTuple):
    """How a job sits in an empty cluster.

    Attributes
    ----------
    spans : mapping
        How far each kind of group reaches; kinds of single ranks are left out.
    bandwidth : mapping
        What one GPU gets for the traffic of each kind of group [B/s]; empty where the catalog knows no accelerator.
    loss : HostLoss
        What the job loses a part of with its first host.
    cut_off : int
        Nodes of the job that have lost the last path of a rail (all rails, with ``reroute``) [-].
    mates, stranded : int
        Nodes that a domain can lose before the job needs another one, and healthy GPUs that are of no use in it when it
        has lost one more [-]; 0 where nodes are used one by one.
    """

    spans: dict[GroupKind, Span]
    bandwidth: dict[GroupKind, float]
    loss: HostLoss
    cut_off: int
    mates: int
    stranded: int


def seats(scenario: Scenario, index: int, gpus_per_node: int) -> tuple[int, tuple[int, ...]]:
    """Return how many sets of replicas can leave alone, and the position of each host in the order of ranks.

    Positions are empty where they follow the ranks. Replicas that share a host leave together. A job of which nobody
    asks for its replicas has one.

    Raises
    ------
    PathError
        If the job has no layout, or not the one that the recovery is for.
    """
    recovery = scenario.recovery
    checkpoint = scenario.checkpoint
    spec = scenario.jobs[index]
    if not (recovery.elastic or recovery.narrows_on or checkpoint.by_replica):
        return 1, ()
    if spec.parallelism is None:
        store = "a store of checkpoints" if checkpoint.by_replica else f"recovery '{recovery.use}'"
        raise PathError(("jobs", index), f"{store} works by replica: give the job parallelism with its data width")
    if recovery.reroutes and spec.lacks:
        raise PathError(("recovery", "reroute"), f"needs the model of steps, and job '{spec.name}' lacks {spec.lacks}")
    layout = Layout(spec.parallelism, gpus_per_node)
    groups = layout.failure_groups
    if isinstance(recovery, Narrow) and recovery.tensor != spec.parallelism.tensor:
        rule = f"is {recovery.tensor}, but job '{spec.name}' has a tensor width of {spec.parallelism.tensor}"
        raise PathError(("recovery", "tensor"), rule)
    if isinstance(recovery, RestartSmaller | ShrinkRejoin) and recovery.min_replicas > groups:
        has = f"{groups} sets of replicas that can leave alone ({layout.shared} share each host)"
        if groups == spec.parallelism.data:
            has = f"{groups} replicas"
        raise PathError(("recovery", "min_replicas"), f"is {recovery.min_replicas}, but job '{spec.name}' has {has}")
    order = positions(layout)
    is_plain = bool((order == np.arange(layout.hosts)).all())
    return groups, () if is_plain else tuple(order.tolist())


def placement(scenario: Scenario, index: int, failed: Sequence[tuple[str, int]] = ()) -> Placement | None:
    """Return how a job sits in an empty cluster; ``None`` for a job without a layout.

    Parameters
    ----------
    scenario, index
        The job.
    failed
        Parts of the fabric that are out: part class, and number of the unit from 0.

    Raises
    ------
    ValueError
        If there is no such part.
    """
    cluster = scenario.cluster
    counts = cluster.counts()
    for part, unit in failed:
        if part not in FABRIC_PARTS:
            msg = f"{part}:{unit}: {catalog.unknown('part of the fabric', part, FABRIC_PARTS)}"
            raise ValueError(msg)
        if not 0 <= unit < counts[part]:
            has = f"from 0 to {counts[part] - 1:,}" if counts[part] else "none here"
            msg = f"{part}:{unit}: there is no such {part}; they are numbered {has}"
            raise ValueError(msg)
    return _place(scenario, index, whole_units(scenario, counts), failed)


def _place(
    scenario: Scenario, index: int, used: Units | None, failed: Sequence[tuple[str, int]] = ()
) -> Placement | None:
    """Return how a job sits in an empty cluster, of which jobs use some domains whole."""
    spec = scenario.jobs[index]
    cluster = scenario.cluster
    if spec.parallelism is None or spec.gpus % cluster.hosts.gpus:
        return None
    layout = Layout(spec.parallelism, cluster.hosts.gpus)
    topology = cluster.build()
    nodes = _nodes(scenario, topology, layout.hosts, used)
    found = spans(layout, topology.domains, nodes)
    shares, cut_off = _left(topology, nodes, failed)
    fast = _scale_up(cluster)
    per_gpu = cluster.fabric.rails / cluster.hosts.gpus
    seen = bandwidths(found, topology.bandwidth, fast, per_gpu, shares) if fast is not None else {}
    mates = stranded = 0
    if used is not None:
        gpus, each = layout.gpus_per_node, len(used.nodes[0])
        mates = 0 if used.drains else each - used.needed
        need = each if used.drains else used.needed
        stranded = stranded_gpus(np.array([(mates + 1) * gpus]), each * gpus, need * gpus)
    return Placement(found, seen, loss_of_host(layout, 0), cut_off, mates, stranded)


def _left(
    topology: Topology, nodes: NDArray[np.int64], failed: Sequence[tuple[str, int]]
) -> tuple[Mapping[str, float], int]:
    """Return what is left to the node that fares worst [-], by how far it sends, and how many nodes are cut off."""
    if not failed:
        return {}, 0
    from sim.cluster.left import FabricState
    from sim.cluster.switches import Reach

    state = FabricState(topology.paths)
    for part, unit in failed:
        state.fail(part, unit)
    members = set(nodes.tolist())
    presence = np.bincount(topology.paths.class_of_node[nodes], minlength=topology.paths.classes)
    left = {reach.level: state.share(presence, members.__contains__, reach) for reach in Reach}
    return left, sum(map(state.is_cut, members))


def layout_warnings(scenario: Scenario, index: int, used: Units | None) -> tuple[str, ...]:
    """Return what it costs that tensor groups are cut, in one line; refuse groups that the scenario wants whole.

    Raises
    ------
    PathError
        If a kind of groups that must fit into a scale-up domain does not.
    """
    spec = scenario.jobs[index]
    if spec.parallelism is None or not _is_cut(scenario, spec):
        return ()
    place = _place(scenario, index, used)
    if place is None:
        return ()
    cluster = scenario.cluster
    fast = _scale_up(cluster)
    found = []
    for kind, span in place.spans.items():
        if span.level == "scale_up":
            continue
        if kind in spec.parallelism.within_domain:
            rule = (
                f"{kind} groups of {span.size} GPUs do not fit into scale-up domains of {span.domain_gpus}: they would "
                f"span {span.domains}"
            )
            raise PathError(("jobs", index, "parallelism", "within_domain"), rule)
        if kind == "tensor" and fast is not None:
            cost = cost_of_crossing(span, fast, place.bandwidth[kind])
            found += [f"job '{spec.name}': {cost}"] if cost is not None else []
    return tuple(found)


def _is_cut(scenario: Scenario, spec: JobSpec) -> bool:
    """Return whether there is anything to say: a kind that must fit, or tensor groups that may not."""
    assert spec.parallelism is not None
    cluster = scenario.cluster
    gpus = cluster.nodes_per_domain * cluster.hosts.gpus
    first = spec.parallelism.order[0] == "tensor" and gpus % spec.parallelism.tensor == 0
    return bool(spec.parallelism.within_domain) or not first


def _scale_up(cluster: ClusterSpec) -> float | None:
    """Return the scale-up bandwidth of the slowest of the cluster's accelerators [B/s], if the catalog has them."""
    chips = known_chips(cluster)
    return min(chip.scale_up for chip in chips) if chips is not None else None


def _nodes(scenario: Scenario, topology: Topology, hosts: int, used: Units | None) -> NDArray[np.int64]:
    """Return the node of each host of a job that starts on an empty cluster, (hosts,)."""
    scheduler = scenario.scheduler
    if used is not None:
        taken = [node for unit in used.nodes for node in unit[: used.needed]]
    elif scheduler.pack is not None:
        domain_of = topology.domains[scheduler.pack].tolist()
        spares = set(spread(range(topology.nodes), scenario.spares.hot, domain_of))
        taken = gather([node for node in range(topology.nodes) if node not in spares], hosts, domain_of)
    else:
        taken = list(range(hosts))
    return np.asarray(taken[:hosts], dtype=np.int64)


# ----------------------------------------
# From where a job sits to what its groups communicate over.


def links_of_nics(cluster: ClusterSpec, work: Workload, layout: Parallelism, chip: Accelerator) -> Links:
    """Return what groups communicate over where each has all bandwidth of its NICs, whatever the fabric."""
    network = cluster.fabric.nic * cluster.fabric.rails / cluster.hosts.gpus
    domain = cluster.nodes_per_domain * cluster.hosts.gpus
    return steps.ideal_links(work, chip.scale_up, network, domain, layout.order)


def links_elsewhere(scenario: Scenario, index: int, layout: Parallelism, work: Workload, chip: Accelerator) -> Links:
    """Return what the groups of a measured layout communicated over: where it sits here, if the cluster has room."""
    cluster = scenario.cluster
    hosts = cluster.hosts
    if layout.gpus % hosts.gpus == 0 and layout.gpus <= hosts.nodes * hosts.gpus:
        place = placement(scenario.with_job(index, gpus=layout.gpus, parallelism=layout), index)
        if place is not None:
            return links_of(scenario, place, chip)
    return links_of_nics(cluster, work, layout, chip)


def links_of(scenario: Scenario, place: Placement, chip: Accelerator) -> Links:
    """Return what the groups of a job communicate over, where it sits in an empty cluster."""
    cluster = scenario.cluster
    per_gpu = cluster.fabric.rails / cluster.hosts.gpus
    levels: Mapping[str, float] = cluster.fabric.bandwidth(cluster.hosts)

    def link(*kinds: GroupKind) -> Link:
        found = [place.spans[kind] for kind in kinds if kind in place.spans]
        through = [per_gpu * span.network(levels) for span in found if span.level != "scale_up"]
        if not through:
            return steps.Link(chip.scale_up)
        # Groups of ranks that differ in both of two ways: as many in a domain as one way times the other.
        return steps.Link(chip.scale_up, min(through), prod(span.per_domain for span in found))

    data = link("context", "data")
    tensor, inside = (place.spans[kind].per_domain if kind in place.spans else 1 for kind in ("tensor", "expert"))
    return steps.Links(
        tensor=link("tensor"),
        context=link("context")._replace(ranks=1),
        expert=link("expert"),
        pipeline=link("pipeline")._replace(ranks=1),
        data=data,
        # The ranks that hold the same experts: those of a tensor group, and of as many replicas as are left.
        expert_data=data._replace(ranks=tensor * max(1, data.ranks // inside)),
    )
