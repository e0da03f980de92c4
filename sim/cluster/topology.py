"""The interconnect as the rest of the simulator sees it: counts, failure domains, and edges when asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.cluster.switches import FABRIC_PARTS, VERTEX_PARTS, Edges, UnitMembers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from ettrick.sim.cluster.paths import Paths


class Hosts(NamedTuple):
    """The hosts that a fabric joins: nodes, and GPUs of each [-]."""

    nodes: int
    gpus: int


@dataclass(frozen=True, eq=False)
class Topology:
    """A cluster's interconnect, read-only and cheap: the edges are built only on request.

    Attributes
    ----------
    name : str
        As described by the user.
    nodes, gpus_per_node, rails : int
        Hosts, GPUs of each, and NICs of each [-].
    counts : mapping of str to int
        Units of each part class.
    domains : mapping of str to (nodes,) int32
        Domain of each node: leaf (the group of nodes behind the same leaf switches), pod, rack, pdu, cooling, scale_up.
    bandwidth : mapping of str to float
        What one NIC gets when all send at once, by how far the traffic goes: leaf, pod, cluster [B/s].
    disjoint_paths : int
        Lower bound of the paths between two leaf switches that share no other switch [-].
    optical : tuple of int
        Tiers whose cables have a transceiver at each end.
    reroute : bool
        Whether the traffic of a rail without a path takes the other rails.
    make_edges : callable
        Builds the edges; picklable.
    """

    name: str
    nodes: int
    gpus_per_node: int
    rails: int
    counts: Mapping[str, int]
    domains: Mapping[str, NDArray[np.int32]]
    bandwidth: Mapping[str, float]
    disjoint_paths: int
    optical: tuple[int, ...]
    reroute: bool
    make_edges: Callable[[], Edges]

    def __post_init__(self) -> None:
        """Make mappings and arrays read-only: replications share them."""
        for ids in self.domains.values():
            ids.setflags(write=False)
        for name in ("counts", "domains", "bandwidth"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[type[Topology], tuple[object, ...]]:
        """Pickle through the constructor, so that a copy in another process is read-only too."""
        values = (getattr(self, field.name) for field in fields(self))
        return Topology, tuple(dict(value) if isinstance(value, MappingProxyType) else value for value in values)

    def vertices(self, part: str) -> range:
        """Return the vertex numbers of a part class: hosts first, then leaves, spines and cores.

        Raises
        ------
        ValueError
            If the units of `part` are not vertices.
        """
        if part not in VERTEX_PARTS:
            raise ValueError(f"{part!r} is not a vertex of the graph; vertices are: {', '.join(VERTEX_PARTS)}")
        sizes = [self.counts[name] for name in VERTEX_PARTS]
        place = VERTEX_PARTS.index(part)
        first = sum(sizes[:place])
        return range(first, first + sizes[place])

    @cached_property
    def paths(self) -> Paths:
        """The cables, reduced to who is cut off and how much bandwidth is left."""
        from ettrick.sim.cluster.paths import paths

        return paths(
            edges(self),
            self.counts,
            self.domains["pod"],
            rails=self.rails,
            reroute=self.reroute,
            optical=self.optical,
            disjoint_paths=self.disjoint_paths,
        )

    def members(self, part: str) -> UnitMembers:
        """Return the nodes that lose service when a unit of `part`, alone, fails.

        Parts of the fabric take the nodes of which they cut off a rail (with ``reroute``: every rail); parts that
        nodes share, such as racks, take all that share them.

        Parameters
        ----------
        part : str
            A key of `counts`.

        Returns
        -------
        Members
            One row per unit of `part`, nodes ascending within a row.

        Raises
        ------
        ValueError
            If the topology has no such part class.
        """
        if part not in self.counts:
            raise ValueError(f"topology {self.name!r} has no part {part!r}; it has: {', '.join(self.counts)}")
        count = self.counts[part]
        if part in ("node", "gpu"):
            units = count // self.nodes
            return UnitMembers(
                np.arange(count + 1, dtype=np.int64), np.arange(count, dtype=np.int32) // np.int32(units)
            )
        if part in FABRIC_PARTS:
            return self.paths.cut(part)
        domain = self.domains["scale_up" if part == "switch_tray" else part]
        domains = int(domain.max()) + 1
        return _rows_by_domain(domain, domains, count // domains)


def _rows_by_domain(ids: NDArray[np.int32], domains: int, units: int) -> UnitMembers:
    """Return one row for each of the `units` units of each domain, holding the domain's nodes."""
    sizes = np.bincount(ids, minlength=domains)
    order = np.argsort(ids, kind="stable").astype(np.int32)
    starts = np.repeat(np.cumsum(sizes) - sizes, units)
    lengths = np.repeat(sizes, units)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return UnitMembers(offsets, order[np.repeat(starts, lengths) + within])


def edges(topology: Topology) -> Edges:
    """Build the cables of `topology`; about 19 bytes each, so not kept."""
    return topology.make_edges()
