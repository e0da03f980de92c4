"""Networks in files, GraphML and node-link JSON: read as a fabric of any tiered shape, and written."""

from __future__ import annotations

import difflib
import functools
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from ettrick.sim import units
from ettrick.sim.cluster.fabric import FabricKind, check_rails
from ettrick.sim.cluster.switches import CABLES, VERTEX_PARTS, Edges, components
from ettrick.sim.cluster.topology import Hosts, Topology, edges
from ettrick.sim.scenario.fields import RuleError
from ettrick.sim.yamlfile import content_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from xml.etree import ElementTree

    import networkx as nx
    from numpy.typing import NDArray

Name: TypeAlias = str | int

Attributes: TypeAlias = dict[str, object]
"""The attributes of a vertex or an edge."""

VERTEX_NAMES = frozenset(
    ("part", "index", "name", "label", "pod", "leaf", "rack", "pdu", "cooling", "scale_up", "power", "accelerator")
)

EDGE_NAMES = frozenset(("bandwidth", "cables", "tier", "rail", "id", "key"))
SUFFIXES = (".graphml", ".xml", ".json")


class GraphFile(FabricKind):
    """Tiered network described by a file.

    Vertices have a ``part``: ``node`` for hosts, ``leaf``, ``spine`` or ``core``; switches that do not say it have
    their distance from the hosts. Optional: ``index`` (number within the part, else the order of the file) and, for
    hosts, ``pod``. Edges may have ``bandwidth`` per direction (a number [B/s] or text with a unit; else that of a NIC,
    which the access cables of a NIC share), ``cables`` (how many parallel ones share that bandwidth; else 1) and, at
    hosts, ``rail``. Other domains of a host, such as its rack, are not taken from the file. The two directions of a
    directed graph, and of one with ``multigraph: false``, are one cable.
    """

    use: Literal["graph-file"] = "graph-file"
    file: str = Field(min_length=1, description="GraphML (.graphml, .xml) or node-link JSON (.json).")

    @property
    def homes(self) -> int:
        """Access cables of each NIC [-]."""
        return self._network().homes

    def check(self, hosts: Hosts) -> None:
        """Refuse a file that is not a tiered network of these hosts."""
        check_rails(hosts, self.rails)
        nodes = self._network().sizes[0]
        if nodes != hosts.nodes:
            refuse(self.file, f"has {nodes} hosts, but the cluster has nodes = {hosts.nodes}")

    def counts(self, hosts: Hosts) -> dict[str, int]:
        """Count the parts that the file describes [-]."""
        network = self._network()
        cables = np.bincount(network.edges.tier, minlength=3).tolist()
        return {
            "nic": network.sizes[0] * network.rails,
            **dict(zip(VERTEX_PARTS[1:], network.sizes[1:], strict=True)),
            "pod": int(network.pod.max()) + 1,
            **dict(zip(CABLES, cables, strict=True)),
        }

    def domains(self, hosts: Hosts) -> dict[str, NDArray[np.int32]]:
        """Return the hosts behind the same leaf switches, and the pod of each, (nodes,) each."""
        network = self._network()
        return {"leaf": network.leaf, "pod": network.pod}

    def bandwidth(self, hosts: Hosts) -> dict[str, float]:
        """Return what the NIC that fares worst gets when all send at once [B/s].

        A leaf switch passes the smaller of its bandwidths down and up, and a block of leaves and spines the smaller of
        what its leaves and what its spines pass. Where nothing lies beyond a tier, it slows no node.
        """
        network = self._network()
        edges, vertices = network.edges, network.plane.size
        access = edges.tier == 0
        down, up = _bandwidth(network, 0, edges.upper), _bandwidth(network, 1, edges.lower)
        leaf = np.ones(vertices)
        if network.leaf.any():
            alone = np.bincount(network.plane)[network.plane] == 1
            np.divide(np.minimum(down, up), down, out=leaf, where=(down > 0) & ~alone)
        block = np.ones(vertices)
        if network.pod.any():
            leaves = np.bincount(network.block, weights=np.minimum(down, up))
            below, above = _bandwidth(network, 1, edges.upper), _bandwidth(network, 2, edges.lower)
            spines = np.bincount(network.block, weights=np.minimum(below, above))
            ratio = np.ones(leaves.size)
            np.divide(np.minimum(leaves, spines), leaves, out=ratio, where=leaves > 0)
            block = ratio[network.block]
        switch = edges.upper[access]
        endpoint = edges.lower[access] * network.rails + edges.rail[access]
        shares = {"leaf": np.ones(vertices), "pod": leaf, "cluster": leaf * block}
        return {
            level: float(np.bincount(endpoint, weights=edges.bandwidth[access] * share[switch]).min())
            for level, share in shares.items()
        }

    def disjoint_paths(self, hosts: Hosts) -> int:
        """Return 0: nothing is known of a network of any shape, every outage is looked at by itself."""
        return 0

    def edges(self, hosts: Hosts) -> Edges:
        """Return the cables."""
        return self._network().edges

    def _network(self) -> Network:
        """Return what the file describes, read once as long as it does not change."""
        try:
            status = Path(self.file).stat()
        except (OSError, ValueError) as error:
            unreadable(self.file, error)
        return read_network(self.file, (status.st_mtime_ns, status.st_size), self.rails, self.nic)


def _bandwidth(network: Network, tier: int, ends: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the bandwidth that each vertex has in cables of a tier, by their lower or their upper ends [B/s]."""
    here = network.edges.tier == tier
    total = np.bincount(ends[here], weights=network.edges.bandwidth[here], minlength=network.plane.size)
    return np.asarray(total, dtype=np.float64)


# The tiered network that a file describes, reduced to arrays.


@dataclass(frozen=True, eq=False)
class Network:
    """A network of up to three tiers of switches; vertices are hosts, leaves, spines and cores, in this order.

    Attributes
    ----------
    sizes : (4,) tuple of int
        Hosts, leaves, spines and cores [-].
    rails, homes : int
        NICs per host, and access cables of each [-].
    edges : Edges
        The cables, by tier and lower end; those of a host by rail.
    leaf, pod : (hosts,) int32
        Hosts with the same leaf switches rail by rail, and pod of each host [-].
    plane, block : (vertices,) int32
        Component of switches alone, and of leaves and spines alone, that each vertex is in [-].
    """

    sizes: tuple[int, ...]
    rails: int
    homes: int
    edges: Edges
    leaf: NDArray[np.int32]
    pod: NDArray[np.int32]
    plane: NDArray[np.int32]
    block: NDArray[np.int32]


@functools.lru_cache(maxsize=8)
def read_network(path: str, stamp: tuple[int, int], rails: int, nic: float) -> Network:
    """Return the network that a file describes, checked and numbered; it is shared, and cannot be written to.

    Parameters
    ----------
    stamp : tuple of int
        Time of its last change and its size: a file that changes is read again.
    rails, nic
        NICs per host [-], and bandwidth of one, for edges that do not say theirs [B/s].

    Raises
    ------
    RuleError
        In one line that names the file and the vertex or edge.
    """
    graph = understand(path, read_graph(path))
    names, hosts = graph.names, sum(tier == 0 for tier in graph.tiers.values())
    homes = _homes(path, graph, hosts, rails)
    edges = _edges(path, graph, rails, np.array([nic / homes, nic, nic]))
    plane = _joined(edges, len(names), (1, 2))
    edges = _with_rails(path, edges, names, (hosts, rails, homes), plane)
    _check_reach(path, edges, names, (hosts, rails, homes), plane)
    block = _joined(edges, len(names), (1,))
    pod = _pods(path, graph, edges, hosts, block)
    behind = np.sort(edges.upper[edges.tier == 0].reshape(hosts, rails, -1), axis=2).reshape(hosts, -1)
    _, leaf = np.unique(behind, axis=0, return_inverse=True)
    network = Network(
        sizes=tuple(list(graph.tiers.values()).count(tier) for tier in range(len(VERTEX_PARTS))),
        rails=rails,
        homes=homes,
        edges=edges,
        leaf=_by_first(leaf.ravel().astype(np.int32)),
        pod=pod,
        plane=plane,
        block=block,
    )
    for column in (*edges, network.leaf, pod, plane, block):
        column.setflags(write=False)
    return network


def _joined(edges: Edges, vertices: int, tiers: tuple[int, ...]) -> NDArray[np.int32]:
    """Return the component of each vertex when only the cables of some tiers are there, (vertices,)."""
    here = np.isin(edges.tier, tiers)
    return components(edges.lower[here], edges.upper[here], vertices)


def _by_first(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return labels renumbered in the order in which they first appear, (n,)."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse]


def _homes(path: str, graph: ParsedGraph, hosts: int, rails: int) -> int:
    """Return the access cables of each NIC; refuse hosts that differ."""
    cables = dict.fromkeys(graph.names[:hosts], 0)
    for join in graph.joins:
        for name in (join.source, join.target):
            if name in cables:
                cables[name] += join.cables
    (first, number), *_ = cables.items()
    for name, count in cables.items():
        if count != number:
            rule = "hosts must have the same number of rails"
            refuse(path, f"host {name!r} has {count} access cables, host {first!r} has {number}: {rule}")
    if number % rails:
        refuse(path, f"hosts have {number} access cables each, which do not divide over rails = {rails}")
    return number // rails


def _edges(path: str, graph: ParsedGraph, rails: int, usual: NDArray[np.float64]) -> Edges:
    """Return the cables by tier and lower end, with rails as given (-1 where not); `usual` is a cable's bandwidth."""
    number, joins = {name: index for index, name in enumerate(graph.names)}, graph.joins
    _check_rails(path, graph, rails)
    ends = np.sort(np.array([(number[join.source], number[join.target]) for join in joins], dtype=np.int32), axis=1)
    tier = np.array([min(graph.tiers[join.source], graph.tiers[join.target]) for join in joins], dtype=np.int8)
    many = np.array([join.cables for join in joins])
    total = np.array([np.nan if join.bandwidth is None else join.bandwidth for join in joins])
    bandwidth = np.where(np.isnan(total), usual[tier], total / many)
    for place in np.flatnonzero((tier == 0) & (bandwidth > usual[1] * (1 + 1e-6)))[:1].tolist():
        speed, nic = (f"{value * 8 / 1e9:.4g} Gb/s" for value in (bandwidth[place], usual[1]))
        refuse(path, f"{_title(joins[place])}: has {speed}, but the NIC at its end {nic} (nic); a number is of B/s")
    rail = np.array([-1 if join.rail is None else join.rail for join in joins], dtype=np.int16)
    by_tier = np.lexsort((ends[:, 0], tier))
    order = np.repeat(by_tier, many[by_tier])
    return Edges(ends[order, 0], ends[order, 1], tier[order], rail[order], bandwidth[order])


def _check_rails(path: str, graph: ParsedGraph, rails: int) -> None:
    """Refuse rails that no host has, or that are not of a host."""
    for join in graph.joins:
        if join.rail is None:
            continue
        if 0 not in (graph.tiers[join.source], graph.tiers[join.target]):
            refuse(path, f"{_title(join)}: has a rail, but only the cables of hosts have one")
        if not 0 <= join.rail < rails:
            refuse(path, f"{_title(join)}: rail = {quoted(join.rail)} must be from 0 to {rails - 1} (rails = {rails})")


def _with_rails(
    path: str, edges: Edges, names: tuple[Name, ...], shape: tuple[int, int, int], plane: NDArray[np.int32]
) -> Edges:
    """Return the cables with those of each host by rail; `shape` is hosts, rails and homes.

    Cables without a rail take the rails that are left, in the order of the file: rail by rail, unless the host has one
    plane for each home of a NIC, with a cable for each rail; then the order within the plane counts.
    """
    hosts, rails, homes = shape
    access = hosts * rails * homes
    rail = edges.rail[:access].reshape(hosts, rails * homes).copy()
    planes = plane[edges.upper[:access]].reshape(hosts, rails * homes)
    by_plane = np.argsort(planes, axis=1, kind="stable")
    blocks = np.take_along_axis(planes, by_plane, axis=1).reshape(hosts, homes, rails)
    whole = (blocks == blocks[:, :, :1]).all(axis=(1, 2)) & (np.diff(blocks[:, :, 0], axis=1) > 0).all(axis=1)
    by_order = np.empty_like(rail)
    np.put_along_axis(by_order, by_plane, np.tile(np.arange(rails, dtype=np.int16), homes)[None, :], axis=1)
    free = whole & (rail < 0).all(axis=1)
    rail[free] = by_order[free]

    endpoint = np.arange(hosts)[:, None] * rails + rail
    left = homes - np.bincount(endpoint[rail >= 0], minlength=hosts * rails)
    for place in np.flatnonzero(left < 0)[:1].tolist():
        has = f"host {names[place // rails]!r} has {homes - left[place]} cables on rail {place % rails}"
        refuse(path, f"{has}: it can have {homes} on each of rails = {rails}")
    rail[rail < 0] = np.repeat(np.tile(np.arange(rails, dtype=np.int16), hosts), left)
    order = np.arange(edges.lower.size)
    order[:access] = np.lexsort((rail.ravel(), edges.lower[:access]))
    every = edges.rail.copy()
    every[:access] = rail.ravel()
    return Edges(edges.lower[order], edges.upper[order], edges.tier[order], every[order], edges.bandwidth[order])


def _check_reach(
    path: str, edges: Edges, names: tuple[Name, ...], shape: tuple[int, int, int], plane: NDArray[np.int32]
) -> None:
    """Refuse hosts that are not in the planes of the first host, rail by rail."""
    planes = plane[edges.upper[: shape[0] * shape[1] * shape[2]]].reshape(shape)
    shared = planes[:, :, :, None] == planes[0, :, None, :]
    ours, theirs = shared.any(axis=3), shared.any(axis=2)
    same = ours.all(axis=2) & theirs.all(axis=2)
    for host, rail in np.argwhere(~same)[:1].tolist():
        if ours[host, rail].any():
            refuse(path, f"hosts {names[host]!r} and {names[0]!r} are not in the same planes on rail {rail}")
        refuse(path, f"host {names[host]!r} cannot reach host {names[0]!r} on rail {rail}: no switches join them")


def _pods(path: str, graph: ParsedGraph, edges: Edges, hosts: int, block: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the pod of each host, (hosts,): as given, else those that are joined without a core."""
    stated = all_or_none(path, "pod", graph.pods)
    if not stated:
        return _by_first(_joined(edges, len(graph.names), (0, 1))[:hosts])
    numbers: dict[object, int] = {}
    pod = [numbers.setdefault(stated[name], len(numbers)) for name in graph.names[:hosts]]
    first: dict[int, int] = {}
    access = edges.tier == 0
    for host, below in zip(edges.lower[access].tolist(), block[edges.upper[access]].tolist(), strict=True):
        neighbour = first.setdefault(below, host)
        if pod[neighbour] != pod[host]:
            first_name, name = graph.names[neighbour], graph.names[host]
            pods = f"of the pods {quoted(stated[first_name])} and {quoted(stated[name])}"
            refuse(path, f"hosts {first_name!r} and {name!r}, {pods}, are joined by leaves and spines without a core")
    return np.array(pod, dtype=np.int32)


# What a file says, graph: which tier and number each vertex has, and what each edge is.

MOST_CABLES = 65536
TIERED = "only tiered Clos networks can be imported"
_T = TypeVar("_T")


class ParsedEdge(NamedTuple):
    """An edge as graph: its vertices, its cables, their summed bandwidth [B/s] and their rail, if given."""

    source: Name
    target: Name
    cables: int
    bandwidth: float | None
    rail: int | None


class ParsedGraph(NamedTuple):
    """Vertices in the order of their numbers, the tier of each (0 for hosts), edges, and pods as given."""

    names: tuple[Name, ...]
    tiers: dict[Name, int]
    joins: list[ParsedEdge]
    pods: Mapping[Name, object]


def understand(path: str, description: Description) -> ParsedGraph:
    """Check what a file says and give each vertex its tier and number."""
    joins = [_join(path, link) for link in description.links]
    if description.directed or description.multigraph is False:
        joins = _without_reverse(path, joins)
    _check_parallels(path, description, joins)
    tiers = _tiers(path, description, joins)
    for join in joins:
        low, high = sorted((tiers[join.source], tiers[join.target]))
        if high == 0:
            refuse(path, f"{_title(join)}: joins two hosts, and hosts carry no traffic of others: {TIERED}")
        if high == low:
            refuse(path, f"{_title(join)}: joins two switches of the same tier ({VERTEX_PARTS[low]}): {TIERED}")
        if high > low + 1:
            refuse(path, f"{_title(join)}: skips a tier, from {VERTEX_PARTS[low]} to {VERTEX_PARTS[high]}: {TIERED}")
    pods = {name: _pod(path, name, attributes) for name, attributes in description.vertices.items() if tiers[name] == 0}
    return ParsedGraph(_numbered(path, description, tiers), tiers, joins, pods)


def _check_parallels(path: str, description: Description, joins: list[ParsedEdge]) -> None:
    """Refuse parallel edges where the file forbids them, or where they may be the two directions of one cable."""
    pairs = Counter(frozenset((join.source, join.target)) for join in joins)
    if description.multigraph is False:
        for join in joins:
            if pairs[frozenset((join.source, join.target))] > 1:
                rule = "which multigraph: false forbids; state cables: 2, or multigraph: true"
                refuse(path, f"{_title(join)}: is there twice, {rule}")
    elif not description.directed and description.multigraph is None:
        there = Counter((join.source, join.target) for join in joins)
        both = [join for join in joins if (join.target, join.source) in there]
        if both and max(there.values()) == 1:
            rule = "say directed or multigraph: false for one cable, cables: 2 or multigraph: true for two"
            refuse(path, f"{_title(both[0])}: is there in both directions, and no edge twice in one; {rule}")


def all_or_none(path: str, what: str, values: Mapping[Name, _T | None]) -> dict[Name, _T]:
    """Return what vertices say, empty if none does; refuse what some say and others do not."""
    stated = {name: value for name, value in values.items() if value is not None}
    if stated and len(stated) < len(values):
        name, first = next(name for name in values if name not in stated), next(iter(stated))
        refuse(path, f"vertex {name!r} has no {what}, but vertex {first!r} has one: give it to all or none")
    return stated


def _join(path: str, link: RawEdge) -> ParsedEdge:
    """Return an edge with its values checked."""
    attributes, title = link.attributes, _title(link)
    if link.source == link.target:
        refuse(path, f"{title}: joins a vertex to itself")
    cables = _whole(path, title, attributes, "cables")
    if cables is not None and not 1 <= cables <= MOST_CABLES:
        refuse(path, f"{title}: cables = {quoted(cables)} must be from 1 to {MOST_CABLES}")
    rail = _whole(path, title, attributes, "rail")
    return ParsedEdge(link.source, link.target, 1 if cables is None else cables, _stated_bandwidth(path, link), rail)


PLAUSIBLE = (1e9 / 8, 2.4e12 / 8)
"""Bandwidths that a cable of a file may have where its number has no unit [B/s]: 1 to 2,400 Gb/s."""


def _stated_bandwidth(path: str, link: RawEdge) -> float | None:
    """Return the bandwidth of an edge, None if it is not given [B/s]."""
    value = link.attributes.get("bandwidth")
    if value is None:
        return None
    is_bare = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        bandwidth = float(value) if is_bare else units.parse(value, units.BANDWIDTH)  # type: ignore[arg-type]
    except (ValueError, OverflowError) as error:
        refuse(path, f"{_title(link)}: bandwidth = {quoted(value)}: {error}")
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        refuse(path, f"{_title(link)}: bandwidth = {quoted(value)} must be a positive number")
    cables = link.attributes.get("cables")
    speed = bandwidth / cables if isinstance(cables, int) and cables > 0 else bandwidth
    if is_bare and not PLAUSIBLE[0] <= speed <= PLAUSIBLE[1]:
        text = f"bandwidth = {quoted(value)} has no unit, hence is of B/s, and no cable has {speed * 8 / 1e9:.3g} Gb/s"
        refuse(path, f"{_title(link)}: {text}; write a unit, as in '800 Gb/s'")
    return bandwidth


def _whole(path: str, title: str, attributes: Attributes, name: str) -> int | None:
    """Return a whole number among attributes, None if it is not there."""
    value = attributes.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        refuse(path, f"{title}: {name} = {quoted(value)} must be a whole number")
    return int(value)


def _pod(path: str, name: Name, attributes: Attributes) -> str | int | float | None:
    """Return what a host says about its pod."""
    pod = attributes.get("pod")
    if pod is not None and not isinstance(pod, str | int | float):
        refuse(path, f"vertex {name!r}: pod = {quoted(pod)} must be a number or text")
    return pod


def _without_reverse(path: str, joins: list[ParsedEdge]) -> list[ParsedEdge]:
    """Return the edges of a directed graph with one entry for each cable whose two directions are both given."""
    ways: dict[tuple[Name, Name], list[ParsedEdge]] = {}
    for join in joins:
        ways.setdefault((join.source, join.target), []).append(join)
    merged: dict[tuple[Name, Name], list[ParsedEdge]] = {}
    for (source, target), there in ways.items():
        back = merged.get((target, source))
        if back is None:
            merged[source, target] = there
        elif Counter(join[2:] for join in there) != Counter(join[2:] for join in back):
            refuse(path, f"{_title(there[0])}: differs from {_title(back[0])}, the other direction of the same cables")
    return [join for some in merged.values() for join in some]


def _tiers(path: str, description: Description, joins: list[ParsedEdge]) -> dict[Name, int]:
    """Return the tier of each vertex; one that does not say it has its distance from the nearest host."""
    import networkx as nx

    stated = {name: _part(path, name, vertex.get("part")) for name, vertex in description.vertices.items()}
    if 0 not in stated.values():
        refuse(path, "has no host: hosts are the vertices with part = node")
    graph: nx.Graph[Name] = nx.Graph()
    graph.add_nodes_from(stated)
    graph.add_edges_from(join[:2] for join in joins)
    for name in nx.isolates(graph):
        refuse(path, f"{'host' if stated[name] == 0 else 'vertex'} {name!r} has no cable")
    hosts = {name for name, tier in stated.items() if tier == 0}
    lengths = nx.multi_source_dijkstra_path_length(graph, hosts)
    distance = {name: int(length) for name, length in lengths.items()}
    for name, tier in stated.items():
        if tier is None and distance.get(name, len(VERTEX_PARTS)) >= len(VERTEX_PARTS):
            how = f"is {distance[name]} cables away from the nearest host" if name in distance else "reaches no host"
            refuse(path, f"vertex {name!r} {how}: {TIERED}, with up to three tiers of switches")
    return {name: distance[name] if tier is None else tier for name, tier in stated.items()}


def _part(path: str, name: Name, part: object) -> int | None:
    """Return the tier of a part, None if it is not given."""
    if part is None:
        return None
    if not isinstance(part, str) or part not in VERTEX_PARTS:
        offer = nearest(part, VERTEX_PARTS) or f"; choose from {', '.join(VERTEX_PARTS)}"
        refuse(path, f"vertex {name!r}: unknown part {quoted(part)}{offer}")
    return VERTEX_PARTS.index(part)


def _numbered(path: str, description: Description, tiers: dict[Name, int]) -> tuple[Name, ...]:
    """Return the vertices in the order of their numbers: by tier, then by index, else in the order of the file."""
    names: list[Name] = []
    for tier, part in enumerate(VERTEX_PARTS):
        here = [name for name, of in tiers.items() if of == tier]
        stated = {name: _whole(path, f"vertex {name!r}", description.vertices[name], "index") for name in here}
        by_index: dict[int, Name] = {}
        for name, index in all_or_none(path, "index", stated).items():
            if not 0 <= index < len(here) or index in by_index:
                rule = f"must be from 0 to {len(here) - 1}, each once among the vertices of part {part}"
                refuse(path, f"vertex {name!r}: index = {quoted(index)} {rule}")
            by_index[index] = name
        names += [by_index[index] for index in range(len(here))] if by_index else here
    return tuple(names)


# Reading: GraphML, and JSON with a list of nodes and one of edges (node-link).


class RawEdge(NamedTuple):
    """An edge as written: the vertices that it joins, and what is said about it."""

    source: Name
    target: Name
    attributes: Attributes


def _title(edge: RawEdge | ParsedEdge) -> str:
    """Return what messages call an edge."""
    return f"edge {edge.source!r} - {edge.target!r}"


class Description(NamedTuple):
    """A graph as written.

    Parameters
    ----------
    vertices
        By name, with what is said about them.
    directed
        Whether edges have a direction.
    multigraph
        Whether there may be parallel edges; ``None`` if the file does not say it.
    """

    vertices: dict[Name, Attributes]
    links: list[RawEdge]
    directed: bool
    multigraph: bool | None = None


def read_graph(path: str) -> Description:
    """Read a graph from GraphML (``.graphml``, ``.xml``) or node-link JSON (``.json``).

    Attributes without a value are left out. Names of attributes are checked, their values are not.

    Returns
    -------
    Description
        Vertices and edges in the order of the file.

    Raises
    ------
    RuleError
        In one line that names the file and what in it is wrong.

    References
    ----------
    The GraphML file format, http://graphml.graphdrawing.org. Of it are read: keys with their types and defaults, nodes,
    edges and their data. Hyperedges and nested graphs are refused, ports and the graphics of editors are passed over.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        refuse(path, f"the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    try:
        content = content_of(Path(path))
    except (OSError, ValueError) as error:
        unreadable(path, error)
    description = _from_json(path, content) if suffix == ".json" else _from_graphml(path, content)
    for name, attributes in description.vertices.items():
        _check_names(path, f"vertex {name!r}", attributes, VERTEX_NAMES)
    for link in description.links:
        _check_names(path, _title(link), link.attributes, EDGE_NAMES)
        for name in (link.source, link.target):
            if name not in description.vertices:
                refuse(path, f"{_title(link)}: there is no vertex {name!r}{nearest(name, description.vertices)}")
    return description


def refuse(path: str, rule: str) -> NoReturn:
    """Refuse a file in one line."""
    raise RuleError(("file",), " ".join(f"{path}: {rule}".splitlines()))


def unreadable(path: str, error: Exception) -> NoReturn:
    """Refuse a file that cannot be read, with the reason that the system gives."""
    reason = getattr(error, "strerror", None) or str(error)
    refuse(path, f"cannot be read: {reason[:1].lower()}{reason[1:]}")


def quoted(value: object) -> str:
    """Return a value as messages show it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(word: object, choices: Iterable[object]) -> str:
    """Return an offer of the choice that is written most like `word`, if one is."""
    near = difflib.get_close_matches(str(word), sorted({str(choice) for choice in choices}), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _check_names(path: str, title: str, attributes: Attributes, valid_names: frozenset[str]) -> None:
    """Refuse attributes that nothing reads: they may be a misspelt name."""
    for name in attributes:
        if name not in valid_names:
            offer = nearest(name, valid_names) or f"; known are {', '.join(sorted(valid_names))}"
            refuse(path, f"{title}: unknown attribute {quoted(name)}{offer}")


def _from_json(path: str, content: bytes) -> Description:
    """Read node-link JSON."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        refuse(path, f"is not JSON: {error}")
    document = document if isinstance(document, dict) else {}
    if document.get("edges") and document.get("links"):
        refuse(path, "has both 'edges' and 'links', of which a file has one")
    links_key = "links" if document.get("links") or "edges" not in document else "edges"
    if not all(isinstance(document.get(key), list) for key in ("nodes", links_key)):
        refuse(path, "is not node-link JSON: it must be a mapping with a list of 'nodes' and a list of 'edges'")
    vertices = _json_vertices(path, document["nodes"])
    links = []
    for number, entry in enumerate(document[links_key]):
        ends = [_json_name(path, f"{links_key}[{number}]", entry, key) for key in ("source", "target")]
        links.append(RawEdge(ends[0], ends[1], _given(entry, ("source", "target"))))
    kinds = {key: document.get(key) for key in ("directed", "multigraph")}
    for key, value in kinds.items():
        if value is not None and not isinstance(value, bool):
            refuse(path, f"{key} = {quoted(value)} must be true or false")
    return Description(vertices, links, kinds["directed"] is True, kinds["multigraph"])


def _json_vertices(path: str, entries: list[Attributes]) -> dict[Name, Attributes]:
    """Return what a file says of each vertex."""
    vertices: dict[Name, Attributes] = {}
    for number, entry in enumerate(entries):
        name = _json_name(path, f"nodes[{number}]", entry, "id")
        if name in vertices:
            refuse(path, f"vertex {name!r} is described twice")
        vertices[name] = _given(entry, ("id",))
    return vertices


def _json_name(path: str, place: str, entry: object, key: str) -> Name:
    """Return the name of a vertex that an entry holds under a key."""
    name = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(name, str | int) or isinstance(name, bool):
        refuse(path, f"{place} must be a mapping with text or a whole number as {key!r}")
    return name


def _given(entry: Attributes, without: tuple[str, ...]) -> Attributes:
    """Return what an entry says, without some keys and without what has no value."""
    return {key: value for key, value in entry.items() if key not in without and value is not None and value != ""}


def _from_graphml(path: str, content: bytes) -> Description:
    """Read GraphML, without a document type: that can declare entities which grow without bound."""
    root = _parsed(path, content)
    if root.tag != "graphml":
        refuse(path, f"is not GraphML: its first element is <{root.tag}>")
    if next(root.iter("hyperedge"), None) is not None:
        refuse(path, "has a hyperedge: a cable has two ends")
    graphs = list(root.iter("graph"))
    if len(graphs) > 1:
        refuse(path, "has several graphs, or one inside another: only a single graph can be read")
    if not graphs:
        refuse(path, "is GraphML without a graph")
    (graph,) = graphs
    keys = {key.get("id", ""): key for key in root.iter("key")}
    _attributes(path, "the graph", graph, keys)
    of_node, of_edge = (_defaults(path, owner, keys) for owner in ("node", "edge"))
    vertices: dict[Name, Attributes] = {}
    for element in graph.iter("node"):
        name = element.get("id")
        if name is None:
            refuse(path, f"node number {len(vertices)} has no id")
        if name in vertices:
            refuse(path, f"vertex {name!r} is described twice")
        vertices[name] = of_node | _attributes(path, f"vertex {name!r}", element, keys)
    directed = graph.get("edgedefault") == "directed"
    links: list[RawEdge] = []
    for element in graph.iter("edge"):
        source, target = element.get("source"), element.get("target")
        if source is None or target is None:
            refuse(path, f"edge number {len(links)} needs a source and a target")
        link = RawEdge(source, target, dict(of_edge))
        if element.get("directed", str(directed).lower()) != str(directed).lower():
            refuse(path, f"{_title(link)}: a file must not mix directed and undirected edges")
        link.attributes.update(_attributes(path, _title(link), element, keys))
        links.append(link)
    return Description(vertices, links, directed)


def _parsed(path: str, content: bytes) -> ElementTree.Element:
    """Return the first element of XML; names are without their namespaces."""
    from xml.etree import ElementTree  # a third of what the rest of the package takes to import

    class Builder(ElementTree.TreeBuilder):
        def doctype(self, *_: object) -> None:
            refuse(path, "has a document type (<!DOCTYPE ...>), which may declare entities: remove it")

        def start(self, tag: str, attributes: dict[str, str], /) -> ElementTree.Element:
            return super().start(tag.rpartition("}")[2], attributes)

    parser = ElementTree.XMLParser(target=Builder())
    try:
        parser.feed(content)
        root: ElementTree.Element = parser.close()
    except RuleError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        refuse(path, f"is not XML: {error}")
    return root


_Keys: TypeAlias = "dict[str, ElementTree.Element]"
"""The keys that a GraphML file declares; those without a name are an editor's own."""


def _attributes(path: str, title: str, element: ElementTree.Element, keys: _Keys) -> Attributes:
    """Return the attributes of an element, in the types that the file declares for them."""
    attributes: Attributes = {}
    for data in element.iterfind("data"):
        key = data.get("key", "")
        if key not in keys:
            refuse(path, f"{title}: data with the key {key!r}, which is not declared")
        attributes.update(_value(path, title, data, keys[key]))
    return attributes


def _defaults(path: str, owner: str, keys: _Keys) -> Attributes:
    """Return the attributes that every node, or every edge, has unless it says otherwise."""
    attributes: Attributes = {}
    for key in keys.values():
        for default in key.iterfind("default") if key.get("for", "all") in (owner, "all") else ():
            attributes.update(_value(path, "a default", default, key))
    return attributes


def _value(path: str, title: str, data: ElementTree.Element, key: ElementTree.Element) -> Attributes:
    """Return an attribute with its value, but for what editors put inside; nothing without a name, or if empty."""
    text = "".join((data.text or "", *(inner.tail or "" for inner in data))).strip()
    name, kind = key.get("attr.name"), key.get("attr.type", "string")
    if name is None or not text:
        return {}
    try:
        return {name: int(text) if kind in ("int", "long") else float(text) if kind in ("float", "double") else text}
    except ValueError:
        refuse(path, f"{title}: {name} = {quoted(text)} is not of type {kind}")


# Writing, as a networkx graph and as text: for files, pictures and checks, never for a simulation.


def to_networkx(topology: Topology) -> nx.Graph[int]:
    """Return hosts and switches as an undirected graph.

    Vertices carry ``part`` and ``index``, hosts also their domains. Parallel cables become one edge with their number
    ``cables``, their summed ``bandwidth`` [B/s per direction] and their ``tier``; where they are all of one rail of a
    host, also its ``rail``.

    Notes
    -----
    Hosts do not forward traffic: a path search over this graph must not pass *through* a vertex whose part is
    ``node``.
    """
    import networkx as nx

    graph: nx.Graph[int] = nx.Graph(name=topology.name)
    for part in VERTEX_PARTS:
        for index, vertex in enumerate(topology.vertices(part)):
            graph.add_node(vertex, part=part, index=index)
    for domain, ids in topology.domains.items():
        nx.set_node_attributes(graph, dict(enumerate(ids.tolist())), domain)

    cables = edges(topology)
    order = np.lexsort((cables.rail, cables.upper, cables.lower))
    lower, upper, rail = cables.lower[order], cables.upper[order], cables.rail[order]
    new = np.ones(lower.size, dtype=bool)
    new[1:] = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    first = np.flatnonzero(new)
    last = np.append(first[1:], lower.size) - 1
    bandwidth = np.add.reduceat(cables.bandwidth[order], first)
    one_rail = np.where(rail[first] == rail[last], rail[first], -1)
    columns = (lower[first], upper[first], last - first + 1, bandwidth, cables.tier[order][first], one_rail)
    for low, high, many, total, tier, of in zip(*(column.tolist() for column in columns), strict=True):
        graph.add_edge(low, high, cables=many, bandwidth=total, tier=tier, **({"rail": of} if of >= 0 else {}))
    return graph


def to_graphml(topology: Topology) -> str:
    """Return the graph as GraphML."""
    import networkx as nx

    return "\n".join([*nx.generate_graphml(to_networkx(topology), named_key_ids=True), ""])


def to_node_link(topology: Topology) -> str:
    """Return the graph as JSON with a list of ``nodes`` and one of ``edges``, an entry a line."""
    graph = to_networkx(topology)
    nodes = ",\n".join(json.dumps({"id": vertex, **data}) for vertex, data in graph.nodes.data())
    links = ",\n".join(json.dumps({"source": low, "target": high, **data}) for low, high, data in graph.edges.data())
    head = json.dumps({"directed": False, "multigraph": False, "graph": {"name": topology.name}})[:-1]
    return f'{head}, "nodes": [\n{nodes}\n], "edges": [\n{links}\n]}}\n'


GRAPH_FORMATS: dict[str, Callable[[Topology], str]] = {"graphml": to_graphml, "json": to_node_link}
"""The writer of a graph, by the name of the format."""
