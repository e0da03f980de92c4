"""The cluster as jobs are placed on it: accelerators, units used whole, who leaves together, what crosses domains."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from math import ceil, prod
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ettrick.sim import catalog, steps
from ettrick.sim.cluster import FABRIC_PARTS, ClusterSpec
from ettrick.sim.cluster.placement import (
    RankLayout,
    bandwidths,
    cost_of_crossing,
    loss_of_host,
    positions,
    spans,
    stranded_gpus,
)
from ettrick.sim.engine.nodes import gather, spread
from ettrick.sim.engine.prepared import AllocationUnits, FabricView
from ettrick.sim.policies.recovery import Narrow, Redundant, RestartSmaller, ShrinkRejoin
from ettrick.sim.scenario.fields import PathError, RuleError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.cluster import Topology
    from ettrick.sim.cluster.placement import GroupLocality, HostLoss
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.input.scenario import AnyCheckpoint, AnyRecovery, Scenario
    from ettrick.sim.scenario.model import AnyAccelerator, JobSpec, Parallelism
    from ettrick.sim.steps import Accelerator, Link, Links, Workload
    from ettrick.sim.steps.workload import GroupKind

# What scenarios that differ in a few values have in common is kept: points of a study come one after another.

_Value = TypeVar("_Value")

NodeRanges: TypeAlias = "tuple[tuple[int, int], ...]"

"""First and last numbers of nodes."""


class LruCache(Generic[_Value]):
    """The values that were asked for last, by key."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, _Value] = OrderedDict()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._known)

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key, made if it is not there."""
        if key not in self._known:
            self.keep(key, make())
        self._known.move_to_end(key)
        return self._known[key]

    def known(self, key: Hashable) -> _Value | None:
        """Return the value of a key, if it is there."""
        return self._known.get(key)

    def keep(self, key: Hashable, value: _Value) -> None:
        """Keep the value of a key, as the one that was asked for last."""
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > self.most:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()


_TOPOLOGIES: LruCache[Topology] = LruCache(4)

_PLACEMENTS: LruCache[Placement] = LruCache(64)

_SITES: LruCache[EmptyCluster] = LruCache(4)


def topology_of(cluster: ClusterSpec) -> Topology:
    """Return the topology of a cluster; those asked for last are kept."""
    return _TOPOLOGIES.get(_key_of(cluster), cluster.build)


def _key_of(cluster: ClusterSpec) -> Hashable:
    """Return what a topology follows from: the description, and the time and size of the file of a fabric."""
    file, stamp = getattr(cluster.fabric, "file", None), None
    if file is not None:
        try:
            status = Path(file).stat()
            stamp = status.st_mtime_ns, status.st_size
        except (OSError, ValueError):  # for those to say who read it
            pass
    return repr(cluster), stamp


layout_of = lru_cache(maxsize=8)(RankLayout)

"""The ranks of a layout on nodes of so many GPUs; those asked for last are kept."""


# From a cluster to its accelerators.


def chip_of(cluster: ClusterSpec, pool: int, precision: str, job: int | None = None) -> Accelerator:
    """Return the accelerator of a pool of hosts, which has to have a peak at a precision.

    Without it the job's precision is to blame if a job is named, else the pool's accelerator.

    Raises
    ------
    PathError
        If the catalog does not have it, or it does not have the precision.
    """
    accelerator = cluster.all_pools[pool].accelerator
    path: tuple[str | int, ...] = ("cluster", *(("pools", pool) if cluster.pools else ()), "accelerator")
    chip = _resolved(accelerator)
    name = accelerator if isinstance(accelerator, str) else accelerator.like
    if chip is None:
        at = path if isinstance(accelerator, str) else (*path, "like")
        raise PathError(at, catalog.unknown("accelerator", name, catalog.accelerators()))
    if precision not in chip.peak:
        rule = f"the catalog has no {precision} peak of {name} (it has {', '.join(chip.peak)})"
        raise PathError(path if job is None else ("jobs", job, "precision"), rule)
    return chip


def known_chips(cluster: ClusterSpec) -> list[Accelerator] | None:
    """Return the accelerator of each pool of hosts; ``None`` if the catalog does not have all of them."""
    chips = [_resolved(pool.accelerator) for pool in cluster.all_pools]
    return None if None in chips else [chip for chip in chips if chip is not None]


def _resolved(accelerator: AnyAccelerator) -> Accelerator | None:
    """Return an accelerator by name or description, if the catalog has it or what it is like."""
    parts = catalog.accelerators()
    if isinstance(accelerator, str):
        return parts.get(accelerator)
    base = parts.get(accelerator.like)
    return accelerator.changed(base) if base is not None else None


def _seats_in_order(scenario: Scenario, counts: Mapping[str, int]) -> dict[tuple[str, int], tuple[NodeRanges, int]]:
    """Return the nodes that each job and service may use, and how many of these others take before it.

    All take the first nodes that are free: by priority, then as they arrive, services first. Who finds too few waits,
    and has the first nodes then.
    """
    gpus, total = counts["gpu"] // counts["node"], counts["node"]
    rows: list[tuple[tuple[float, float], str, int, str | None, int]] = [
        ((-row.priority, 0.0), "services", index, row.partition, row.nodes(gpus))
        for index, row in enumerate(scenario.services)
    ]
    rows += [
        ((-row.priority, row.arrival), "jobs", index, row.partition, -(-row.gpus // gpus))
        for index, row in enumerate(scenario.jobs)
    ]
    whole: NodeRanges = ((0, total - 1),)
    ranges: dict[str, NodeRanges] = {row.name: tuple(row.nodes or whole) for row in scenario.partitions}
    occupied: dict[NodeRanges, int] = {}
    seats = {}
    for _, kind, index, partition, nodes in sorted(rows, key=lambda row: row[0]):
        within = ranges[partition] if partition in ranges else next(iter(ranges.values()), whole)
        before = occupied.get(within, 0)
        size = sum(last - first + 1 for first, last in within)
        seats[kind, index] = within, before if before + nodes <= size else 0
        occupied[within] = before + nodes
    return seats


def pool_warnings(scenario: Scenario, site: EmptyCluster) -> Iterator[str]:
    """Yield on which of several pools of hosts each job and service starts that may start on any of them."""
    pools = site.cluster.pools
    for kind, index in sorted(site.seats):
        names = {pool: _name_of(pools[pool].accelerator) for pool in site.reach(kind, index)}
        if len(set(names.values())) > 1:
            name, home = getattr(scenario, kind)[index].name, site.home(kind, index)
            yield (
                f"{kind}.{index}: '{name}' may start on {' or '.join(dict.fromkeys(names.values()))} and is given "
                f"{names[home]} (pools.{home}): step time, memory and power are those of that pool; a partition says "
                "where it may start"
            )


def _name_of(accelerator: AnyAccelerator) -> str:
    return accelerator if isinstance(accelerator, str) else accelerator.like


# The racks or scale-up domains that jobs use as wholes.


def sized(scenario: Scenario) -> Scenario:
    """Return a scenario whose cluster has as many nodes as its jobs and spares need, where it states none.

    These are rounded up to whole scale-up domains, and to whole units where jobs use those.

    Raises
    ------
    PathError
        If such a cluster cannot be built.
    """
    cluster = scenario.cluster
    if cluster.nodes is not None or cluster.pools:
        return scenario
    if scenario.streams:
        raise PathError(("cluster",), "needs nodes: streams of jobs do not say how many there are")
    unit, scale_up = scenario.spares.unit, cluster.scale_up
    per_node, unit_nodes = cluster.gpus_of_a_node, max(cluster.nodes_per_domain, 1)
    needed = sum(ceil(job.gpus / per_node) for job in scenario.jobs) + scenario.spares.total
    needed += sum(service.nodes(per_node) for service in scenario.services)
    used = unit_nodes if scale_up is None or scale_up.swap_unit == "tray" else max(scale_up.used // per_node, 1)
    nodes = ceil(needed / used) * unit_nodes
    try:
        resized = cluster.with_nodes(nodes)
        domains = {} if unit in (None, "node") else topology_of(resized).domains
        if unit is not None and unit in domains:
            size = resized.domain_nodes.get(unit) or int(np.bincount(domains[unit]).max())
            resized = cluster.with_nodes(ceil(nodes / size) * size)
    except RuleError as error:
        raise PathError(("cluster", *error.at), error.rule) from None
    return scenario.model_copy(update={"cluster": resized})


def surplus_nodes(scenario: Scenario, counts: Mapping[str, int], units: AllocationUnits | None) -> int:
    """Return the nodes beyond those of all jobs, whenever they arrive, and spares [-]; whole units of what is whole.

    Streams use all of them.
    """
    if scenario.streams:
        return 0
    per_node = counts["gpu"] // counts["node"]
    needed = sum(nodes for _, nodes in _amounts(scenario, per_node))
    needed += sum(service.nodes(per_node) for service in scenario.services)
    if units is not None:
        needed = ceil(needed / units.needed) * len(units.nodes[0])
    return max(counts["node"] - needed, 0)


def whole_units(scenario: Scenario, counts: Mapping[str, int]) -> AllocationUnits | None:
    """Return what jobs use as wholes, if anything; refuse jobs and spares that are not whole units.

    Raises
    ------
    PathError
        At the first amount that does not fit.
    """
    cluster, unit, scale_up = scenario.cluster, scenario.spares.unit, scenario.cluster.scale_up
    per_node = counts["gpu"] // counts["node"]
    if scale_up is not None and scale_up.swap_unit != "tray" and cluster.nodes_per_domain > 1:
        if unit not in (None, *counts):
            raise PathError(("spares", "unit"), catalog.unknown("part", str(unit), counts))
        if unit not in (None, "scale_up"):
            rule = f"is {unit}, but the cluster's scale-up domains are swapped whole (cluster.scale_up.swap_unit)"
            raise PathError(("spares", "unit"), rule)
        units = AllocationUnits(_units(cluster, "scale_up"), scale_up.used // per_node, scale_up.drains)
        _check_amounts(scenario, units, per_node, "scale-up domain")
        return units
    if unit is None:
        return None
    if unit not in counts:
        raise PathError(("spares", "unit"), catalog.unknown("part", unit, counts))
    nodes = _units(cluster, unit)
    size = len(nodes[0])
    if any(len(members) != size for members in nodes):
        rule = f"{counts['node']} nodes do not fill {len(nodes)} units of {unit}; whole units are needed"
        raise PathError(("spares", "unit"), rule)
    units = AllocationUnits(nodes, size)
    _check_amounts(scenario, units, per_node, unit)
    return units


def _units(cluster: ClusterSpec, unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each unit that is used whole."""
    return _UNITS.get((_key_of(cluster), unit), lambda: _units_of(topology_of(cluster), unit))


_UNITS: LruCache[tuple[tuple[int, ...], ...]] = LruCache(8)


def _units_of(topology: Topology, unit: str) -> tuple[tuple[int, ...], ...]:
    """Return the nodes of each unit of a topology that is used whole."""
    if unit == "node":
        return tuple((node,) for node in range(topology.nodes))
    members: dict[int, list[int]] = {}
    for node, domain in enumerate(topology.domains[unit].tolist() if unit in topology.domains else ()):
        members.setdefault(domain, []).append(node)
    if not members or any(nodes[-1] - nodes[0] + 1 != len(nodes) for nodes in members.values()):
        raise PathError(("spares", "unit"), f"a {unit} has no nodes of its own, so it cannot be used as a whole")
    return tuple(map(tuple, members.values()))


def _amounts(scenario: Scenario, per_node: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield path and number of nodes of everything that takes nodes."""
    spares = scenario.spares
    yield ("spares", "hot"), spares.hot
    for index, job in enumerate(scenario.jobs):
        yield ("jobs", index, "gpus"), job.gpus // per_node
    for name, standby in (("warm", spares.warm), ("cold", spares.cold)):
        if standby is not None:
            yield ("spares", name, "nodes"), standby.nodes


def _check_amounts(scenario: Scenario, units: AllocationUnits, per_node: int, unit: str) -> None:
    """Refuse jobs, spares and replicas that are not whole units, and jobs that too few units are there for."""
    size, total = units.needed, len(units.nodes[0])
    has = f"a {unit} has {size} nodes" if size == total else f"of the {total} nodes of a {unit} a job takes {size}"
    for path, nodes in _amounts(scenario, per_node):
        if nodes % size:
            below = nodes - nodes % size
            near = [f"{count * (per_node if path[-1] == 'gpus' else 1):,}" for count in (below, below + size) if count]
            raise PathError(path, f"{nodes} nodes are not a whole number of units: {has}; nearest: {' or '.join(near)}")
    capacity = len(units.nodes) * size
    for index, job in enumerate(scenario.jobs):
        nodes = job.gpus // per_node
        if nodes + scenario.spares.total > capacity:
            raise PathError(
                ("jobs", index, "gpus"),
                f"needs {nodes} nodes and {scenario.spares.total} spares, but {has}: the cluster gives {capacity} "
                "in all, so it can never start",
            )
        # Replicas that share a unit, where one may leave without the other; half nodes are for others to refuse.
        if scenario.recovery.elastic and job.parallelism is not None and not job.gpus % per_node:
            layout = layout_of(job.parallelism, per_node)
            stages = layout.stage_of_host.reshape(-1, size)
            if isinstance(scenario.recovery, Redundant) and (stages != stages[:, :1]).any():
                raise PathError(
                    ("recovery", "use"),
                    f"stages of job '{job.name}' share units of {size} nodes, and with recovery "
                    f"'{scenario.recovery.use}' they leave one by one; nearest: torchft-hsdp, by which replicas leave",
                )
            groups = layout.group_of_host.reshape(-1, size)
            if (groups != groups[:, :1]).any():
                raise PathError(
                    ("jobs", index, "parallelism"),
                    f"replicas of {nodes / job.parallelism.data:g} nodes share units of {size}, and with recovery "
                    f"'{scenario.recovery.use}' they leave one by one; make replicas whole units, and neighbours in "
                    "rank (order)",
                )


# From the layout of a job to its place in the cluster.


class Placement(NamedTuple):
    """The placement of a job in an empty cluster.

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

    spans: dict[GroupKind, GroupLocality]
    bandwidth: dict[GroupKind, float]
    loss: HostLoss
    cut_off: int
    mates: int
    stranded: int


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
    counts = scenario.cluster.counts()
    for part, unit in failed:
        if part not in FABRIC_PARTS:
            raise ValueError(f"{part}:{unit}: {catalog.unknown('part of the fabric', part, FABRIC_PARTS)}")
        if not 0 <= unit < counts[part]:
            has = f"from 0 to {counts[part] - 1:,}" if counts[part] else "none here"
            raise ValueError(f"{part}:{unit}: there is no such {part}; they are numbered {has}")
    return EmptyCluster.of(scenario, counts, whole_units(scenario, counts)).place(
        scenario.jobs[index].parallelism, failed
    )


@dataclass(frozen=True)
class EmptyCluster:
    """An empty cluster, as jobs are placed on it.

    Parameters
    ----------
    cluster, counts
        The cluster, and the units of each part of it.
    units
        What jobs use as wholes, if anything.
    spares, pack
        Hot spares [-], which are spread over the domains that jobs are packed into, if they are; else they may be 0.
    seats
        By kind (``jobs``, ``services``) and index: the nodes that a job or service may use (those of its partition),
        and how many of these others take before it.
    """

    cluster: ClusterSpec
    counts: Mapping[str, int]
    units: AllocationUnits | None
    spares: int
    pack: str | None
    seats: Mapping[tuple[str, int], tuple[NodeRanges, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, counts: Mapping[str, int], units: AllocationUnits | None) -> EmptyCluster:
        """Return the site of a scenario; points of a study share that of nodes which are alike and used one by one."""
        cluster, pack = scenario.cluster, scenario.scheduler.pack
        if cluster.pools or units is not None or pack is not None or hasattr(cluster.fabric, "file"):
            seats = _seats_in_order(scenario, counts) if cluster.pools else {}
            return cls(cluster, counts, units, scenario.spares.hot, pack, seats)
        return _SITES.get(id(cluster), lambda: cls(cluster, counts, None, 0, None))

    def home(self, kind: str, index: int) -> int:
        """Return the pool of hosts on which a job or service starts: that of the first node that is left for it."""
        pools = self.reach(kind, index)
        ranges, before = self.seats.get((kind, index), ((), 0))
        for first, last in ranges:
            if before <= last - first:
                return self._pool(first + before)
            before -= last - first + 1
        return pools[0]

    def reach(self, kind: str, index: int) -> list[int]:
        """Return the pools of hosts that have nodes for a job or service."""
        ranges, _ = self.seats.get((kind, index), ((), 0))
        if not ranges:
            return list(range(len(self.cluster.all_pools)))
        return sorted({pool for first, last in ranges for pool in range(self._pool(first), self._pool(last) + 1)})

    def held(self, scenario: Scenario) -> list[int]:
        """Return the nodes of each pool of hosts that jobs and services have at the start [-]; all of unknown ones."""
        counts = [pool.count for pool in self.cluster.all_pools]
        if scenario.streams or not self.seats:
            return counts
        ends, nodes = np.cumsum([0, *counts]), np.zeros(self.counts["node"], dtype=bool)
        for (kind, index), (ranges, before) in self.seats.items():
            row = getattr(scenario, kind)[index]
            size = row.nodes(self.gpus_per_node) if kind == "services" else row.gpus // self.gpus_per_node
            within = np.concatenate([np.arange(first, last + 1) for first, last in ranges])
            nodes[within[before : before + size]] = True
        return [int(nodes[first:last].sum()) for first, last in pairwise(ends)]

    def _pool(self, node: int) -> int:
        ends = np.cumsum([pool.count for pool in self.cluster.pools])
        return int(np.searchsorted(ends, node, side="right"))

    @property
    def gpus_per_node(self) -> int:
        """Return the counted GPUs over the counted nodes [-]."""
        return self.counts["gpu"] // self.counts["node"]

    @property
    def domain(self) -> int:
        """GPUs of a scale-up domain [-]."""
        return self.cluster.nodes_per_domain * self.gpus_per_node

    @property
    def nics_per_gpu(self) -> float:
        """NICs of a node over its GPUs [-]."""
        return self.cluster.fabric.rails / self.gpus_per_node

    @cached_property
    def chips(self) -> list[Accelerator] | None:
        """The accelerator of each pool of hosts; ``None`` if the catalog does not have all of them."""
        return known_chips(self.cluster)

    @cached_property
    def levels(self) -> Mapping[str, float]:
        """The bandwidth of a NIC when all send at once, by the reach of the traffic [B/s]."""
        return self.cluster.fabric.bandwidth(self.cluster.hosts)

    @cached_property
    def topology(self) -> Topology:
        """The failure domains; cables wait until they are asked for."""
        return topology_of(self.cluster)

    def serving(self, domain_of: Sequence[int]) -> list[int]:
        """Return the nodes that are not hot spares at the start, where jobs are packed into domains."""
        nodes = range(self.counts["node"])
        return sorted(set(nodes).difference(spread(nodes, self.spares, domain_of)))

    @property
    def room(self) -> int:
        """Nodes that one job could have [-]."""
        return self.counts["node"] if self.units is None else len(self.units.nodes) * self.units.needed

    @cached_property
    def _key(self) -> Hashable:
        whole = None if self.units is None else (len(self.units.nodes[0]), self.units.needed, self.units.drains)
        return _key_of(self.cluster), whole, self.spares if self.pack is not None else 0, self.pack

    def place(self, layout: Parallelism | None, failed: Sequence[tuple[str, int]] = ()) -> Placement | None:
        """Return how a job of a layout sits here; ``None`` without one, or where it does not fill whole nodes."""
        if layout is None or layout.gpus % self.gpus_per_node:
            return None
        return _PLACEMENTS.get((self._key, layout, tuple(failed)), lambda: self._place(layout, failed))

    def _place(self, parallelism: Parallelism, failed: Sequence[tuple[str, int]]) -> Placement:
        layout, used = layout_of(parallelism, self.gpus_per_node), self.units
        nodes = self._nodes(layout.hosts)
        localities = spans(layout, self.topology.domains, nodes)
        shares, cut_off = _left(self.topology, nodes, failed)
        seen = {}
        if self.chips is not None:
            fast = min(chip.scale_up for chip in self.chips)
            seen = bandwidths(localities, self.topology.bandwidth, fast, self.nics_per_gpu, shares)
        mates = stranded = 0
        if used is not None:
            gpus, unit_nodes = layout.gpus_per_node, len(used.nodes[0])
            mates = 0 if used.drains else unit_nodes - used.needed
            need = unit_nodes if used.drains else used.needed
            stranded = stranded_gpus(np.array([(mates + 1) * gpus]), unit_nodes * gpus, need * gpus)
        return Placement(localities, seen, loss_of_host(layout, 0), cut_off, mates, stranded)

    def _nodes(self, hosts: int) -> NDArray[np.int64]:
        """Return the node of each host of a job that starts here, (hosts,)."""
        if self.units is not None:
            chosen = [node for unit in self.units.nodes for node in unit[: self.units.needed]]
        elif self.pack is not None:
            domain_of = self.topology.domains[self.pack].tolist()
            chosen = gather(self.serving(domain_of), hosts, domain_of)
        else:
            chosen = list(range(hosts))
        return np.asarray(chosen[:hosts], dtype=np.int64)

    def links(self, place: Placement, chip: Accelerator, ulysses: int = 1) -> Links:
        """Return what the groups of a job that sits here communicate over; `ulysses` context ranks exchange heads."""

        def link(*kinds: GroupKind) -> Link:
            localities = [place.spans[kind] for kind in kinds if kind in place.spans]
            through = [self.nics_per_gpu * span.network(self.levels) for span in localities if span.level != "scale_up"]
            if not through:
                return steps.Link(chip.scale_up)
            # Groups of ranks that differ in both of two ways: as many in a domain as one way times the other.
            return steps.Link(chip.scale_up, min(through), prod(span.per_domain for span in localities))

        data, context = link("context", "data"), link("context")
        tensor, inside = (place.spans[kind].per_domain if kind in place.spans else 1 for kind in ("tensor", "expert"))
        return steps.Links(
            tensor=link("tensor"),
            context=context._replace(ranks=1),
            expert=link("expert"),
            pipeline=link("pipeline")._replace(ranks=1),
            data=data,
            # The ranks that hold the same experts: those of a tensor group, and of as many replicas as are left.
            expert_data=data._replace(ranks=max(1, tensor * data.ranks // inside)),
            ulysses=context._replace(network=0.0) if ulysses <= context.ranks else context,
        )

    def ideal_links(self, work: Workload, layout: Parallelism, chip: Accelerator) -> Links:
        """Return what groups communicate over where each has all bandwidth of its NICs, whatever the fabric."""
        network = self.cluster.fabric.nic * self.cluster.fabric.rails / self.gpus_per_node
        return steps.ideal_links(work, chip.scale_up, network, self.domain, layout.order)

    def planned_bandwidth(self, nodes: int) -> float:
        """Return what a NIC of a job gets when it sits as closely together as it can [B/s]."""
        for level in ("leaf", "pod"):
            if nodes <= np.bincount(self.topology.domains[level]).max():
                return self.levels[level]
        return self.levels["cluster"]

    def needs_network(self, jobs: Sequence[JobSpec], sources: Sequence[FailureSource]) -> bool:
        """Return whether it makes a difference where in the network jobs sit."""
        if any(source.of_fabric for source in sources) or len(self.cluster.all_pools) > 1:
            return True
        worst = min(self.levels.values())
        return any(job.may_wait and worst < self.planned_bandwidth(job.gpus // self.gpus_per_node) for job in jobs)

    def network(self, sources: Sequence[FailureSource]) -> FabricView:
        """Return what the engine knows of the fabric; the cables only if one of its parts can fail."""
        topology, pools = self.topology, self.cluster.all_pools
        paths = topology.paths if any(source.of_fabric for source in sources) else None
        classes = topology.domains["leaf"] if paths is None else paths.class_of_node
        pods = np.zeros(int(classes.max()) + 1, dtype=np.int32)
        pods[classes] = topology.domains["pod"]
        pool_of_node = np.repeat(np.arange(len(pools)), [pool.count for pool in pools])
        return FabricView(classes.tolist(), pods, pool_of_node.tolist(), dict(topology.bandwidth), paths)


def _left(
    topology: Topology, nodes: NDArray[np.int64], failed: Sequence[tuple[str, int]]
) -> tuple[Mapping[str, float], int]:
    """Return what is left to the node that fares worst [-], by how far it sends, and how many nodes are cut off."""
    if not failed:
        return {}, 0
    from ettrick.sim.cluster.degraded import FabricState
    from ettrick.sim.cluster.switches import Reach

    state = FabricState(topology.paths)
    for part, unit in failed:
        state.fail(part, unit)
    members = set(nodes.tolist())
    presence = np.bincount(topology.paths.class_of_node[nodes], minlength=topology.paths.classes)
    left = {reach.level: state.share(presence, members.__contains__, reach) for reach in Reach}
    return left, sum(map(state.is_cut, members))


def layout_warnings(site: EmptyCluster, index: int, spec: JobSpec) -> tuple[str, ...]:
    """Return what it costs that tensor groups are cut, in one line; refuse groups that the scenario wants whole.

    Raises
    ------
    PathError
        If a kind of groups that must fit into a scale-up domain does not.
    """
    layout = spec.parallelism
    # Only a kind that must fit, or tensor groups that may not, are worth a look at all ranks.
    if layout is None or not (layout.within_domain or layout.order[0] != "tensor" or site.domain % layout.tensor):
        return ()
    place = site.place(layout)
    warnings = []
    for kind, span in place.spans.items() if place is not None else ():
        if span.level == "scale_up":
            continue
        if kind in layout.within_domain:
            raise PathError(
                ("jobs", index, "parallelism", "within_domain"),
                f"{kind} groups of {span.size} GPUs do not fit into scale-up domains of {span.domain_gpus}: they would "
                f"span {span.domains}",
            )
        if kind == "tensor" and place is not None and site.chips is not None:
            cost = cost_of_crossing(span, min(chip.scale_up for chip in site.chips), place.bandwidth[kind])
            warnings += [f"job '{spec.name}': {cost}"] if cost is not None else []
    return tuple(warnings)


def seats(
    spec: JobSpec, index: int, recovery: AnyRecovery, checkpoint: AnyCheckpoint, gpus_per_node: int
) -> tuple[int, int, tuple[int, ...]]:
    """Return how many sets of replicas can leave alone, their stages that can, and each host's position, by rank.

    Positions are empty where they follow the ranks. Replicas that share a host leave together. A job of which no one
    asks for its replicas has one.

    Raises
    ------
    PathError
        If the job has no layout, or not the one that the recovery is for.
    """
    if not (recovery.elastic or recovery.narrows_on or checkpoint.by_replica):
        return 1, 1, ()
    if spec.parallelism is None:
        store = "a store of checkpoints" if checkpoint.by_replica else f"recovery '{recovery.use}'"
        raise PathError(("jobs", index), f"{store} works by replica: give the job parallelism with its data width")
    if recovery.reroutes and spec.lacks:
        raise PathError(("recovery", "reroute"), f"needs the step-time model, and job '{spec.name}' lacks {spec.lacks}")
    layout = layout_of(spec.parallelism, gpus_per_node)
    groups = layout.failure_groups
    _check_widths(spec.name, spec.parallelism, layout, recovery)
    stages, order = 1, positions(layout)
    if isinstance(recovery, Redundant):
        counts = np.unique(np.stack((layout.group_of_host, layout.stage_of_host)), axis=1, return_counts=True)[1]
        stages, order = len(counts) // groups, positions(layout, by_stage=True)
        lacking = recovery.lacks(groups, stages)
        if (counts != counts[0]).any():
            lacking = "stages on as many nodes each; nearest: an order with pipeline last"
        if lacking:
            raise PathError(("recovery", "redundancy"), f"{recovery.redundancy} needs {lacking} (job '{spec.name}')")
    is_plain = bool((order == np.arange(layout.hosts)).all())
    return groups, stages, () if is_plain else tuple(order.tolist())


def _check_widths(name: str, parallelism: Parallelism, layout: RankLayout, recovery: AnyRecovery) -> None:
    """Refuse a recovery for another tensor width, or for more replicas than a job has."""
    groups = layout.failure_groups
    if isinstance(recovery, Narrow) and recovery.tensor != parallelism.tensor:
        rule = f"is {recovery.tensor}, but job '{name}' has a tensor width of {parallelism.tensor}"
        raise PathError(("recovery", "tensor"), rule)
    if isinstance(recovery, RestartSmaller | ShrinkRejoin) and recovery.min_replicas > groups:
        has = f"{groups} sets of replicas that can leave on their own ({layout.shared} share each host)"
        if groups == parallelism.data:
            has = f"{groups} replicas"
        raise PathError(("recovery", "min_replicas"), f"is {recovery.min_replicas}, but job '{name}' has {has}")
