"""The tiered network that a graph file describes, reduced to arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim.topology.description import Understood, all_or_none, understand
from sim.topology.formats import Name, quoted, read_graph, refuse
from sim.topology.model import VERTEX_PARTS, Edges
from sim.topology.switches import components

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Network", "read_network"]


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
    """Read, check and number the network that a file describes.

    Parameters
    ----------
    path : str
        The file.
    stamp : tuple of int
        Time of its last change and its size: a file that changes is read again.
    rails : int
        NICs per host [-].
    nic : float
        Bandwidth of a NIC, for edges that do not say theirs [B/s].

    Returns
    -------
    Network
        Read-only; shared by all who ask for the same.

    Raises
    ------
    RuleError
        In one line that names the file and the vertex or edge.
    """
    understood = understand(path, read_graph(path))
    names, hosts = understood.names, sum(tier == 0 for tier in understood.tiers.values())
    homes = _homes(path, understood, hosts, rails)
    edges = _edges(path, understood, rails, np.array([nic / homes, nic, nic]))
    plane = _joined(edges, len(names), (1, 2))
    edges = _with_rails(path, edges, names, (hosts, rails, homes), plane)
    _check_reach(path, edges, names, (hosts, rails, homes), plane)
    block = _joined(edges, len(names), (1,))
    pod = _pods(path, understood, edges, hosts, block)
    behind = np.sort(edges.upper[edges.tier == 0].reshape(hosts, rails, -1), axis=2).reshape(hosts, -1)
    _, leaf = np.unique(behind, axis=0, return_inverse=True)
    network = Network(
        sizes=tuple(list(understood.tiers.values()).count(tier) for tier in range(len(VERTEX_PARTS))),
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


def _homes(path: str, understood: Understood, hosts: int, rails: int) -> int:
    """Return the access cables of each NIC; refuse hosts that differ."""
    each = dict.fromkeys(understood.names[:hosts], 0)
    for join in understood.joins:
        for name in (join.one, join.other):
            if name in each:
                each[name] += join.cables
    (first, number), *_ = each.items()
    for name, other in each.items():
        if other != number:
            rule = "hosts must have the same number of rails"
            refuse(path, f"host {name!r} has {other} access cables, host {first!r} has {number}: {rule}")
    if number % rails:
        refuse(path, f"hosts have {number} access cables each, which do not divide over rails = {rails}")
    return number // rails


def _edges(path: str, understood: Understood, rails: int, usual: NDArray[np.float64]) -> Edges:
    """Return the cables by tier and lower end, with rails as given (-1 where not); `usual` is a cable's bandwidth."""
    number = {name: place for place, name in enumerate(understood.names)}
    for join in understood.joins:
        is_access = 0 in (understood.tiers[join.one], understood.tiers[join.other])
        if join.rail is not None and not is_access:
            refuse(path, f"{join.title}: has a rail, which is for the cables of hosts alone")
        if join.rail is not None and not 0 <= join.rail < rails:
            refuse(path, f"{join.title}: rail = {quoted(join.rail)} must be from 0 to {rails - 1} (rails = {rails})")
    joins = understood.joins
    ends = np.sort(np.array([(number[join.one], number[join.other]) for join in joins], dtype=np.int32), axis=1)
    tier = np.array([min(understood.tiers[join.one], understood.tiers[join.other]) for join in joins], dtype=np.int8)
    many = np.array([join.cables for join in joins])
    total = np.array([np.nan if join.bandwidth is None else join.bandwidth for join in joins])
    each = np.where(np.isnan(total), usual[tier], total / many)
    rail = np.array([-1 if join.rail is None else join.rail for join in joins], dtype=np.int16)
    by_tier = np.lexsort((ends[:, 0], tier))
    order = np.repeat(by_tier, many[by_tier])
    return Edges(ends[order, 0], ends[order, 1], tier[order], rail[order], each[order])


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


def _pods(path: str, understood: Understood, edges: Edges, hosts: int, block: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the pod of each host, (hosts,): as given, else those that are joined without a core."""
    said = all_or_none(path, "pod", understood.pods)
    if not said:
        return _by_first(_joined(edges, len(understood.names), (0, 1))[:hosts])
    numbers: dict[object, int] = {}
    pod = [numbers.setdefault(said[name], len(numbers)) for name in understood.names[:hosts]]
    first: dict[int, int] = {}
    access = edges.tier == 0
    for host, below in zip(edges.lower[access].tolist(), block[edges.upper[access]].tolist(), strict=True):
        other = first.setdefault(below, host)
        if pod[other] != pod[host]:
            one, two = understood.names[other], understood.names[host]
            pods = f"of the pods {quoted(said[one])} and {quoted(said[two])}"
            refuse(path, f"hosts {one!r} and {two!r}, {pods}, are joined by leaves and spines without a core")
    return np.array(pod, dtype=np.int32)
