"""Hypothesis strategies: small clusters of every kind, as plain data, and what the rest of a scenario must fit to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from pydantic import ValidationError

from sim.cluster import ClusterSpec
from tests.strategies_laws import maybe, seconds

if TYPE_CHECKING:
    from tests.strategies_laws import Draw


PACKS = ("leaf", "pod", "rack", "pdu", "cooling", "scale_up")
GROWTH = (1, 2, 4)
"""A drawn cluster can be cabled with so many times its nodes too: tests let clusters grow."""


@dataclass(frozen=True)
class Fleet:
    """A cluster as data, and how its nodes are used.

    Parameters
    ----------
    cluster
        The cluster.
    unit
        What is used as a whole (``spares.unit``), if it is not said in the cluster.
    """

    cluster: dict[str, Any]
    unit: str | None = None

    @cached_property
    def spec(self) -> ClusterSpec:
        """The cluster, validated."""
        return ClusterSpec.model_validate(self.cluster)

    @property
    def gpus(self) -> int:
        """GPUs of a node [-]."""
        return self.spec.hosts.gpus

    @property
    def by_domain(self) -> bool:
        """Whether jobs use scale-up domains whole."""
        return self.spec.scale_up is not None and self.spec.scale_up.swap_unit == "domain"

    @property
    def whole(self) -> int:
        """Nodes that are used as one [-]."""
        if self.by_domain:
            assert self.spec.scale_up is not None
            return self.spec.scale_up.used // self.gpus
        rack = self.spec.rack.nodes
        return {None: 1, "node": 1, "rack": rack, "pdu": rack * self.spec.pdu.racks}[self.unit]

    @property
    def room(self) -> int:
        """Nodes that jobs and spares can have together [-]."""
        each = self.spec.nodes_per_domain if self.by_domain else self.whole
        return self.spec.hosts.nodes // each * self.whole

    @cached_property
    def units(self) -> dict[str, int]:
        """Number of units of each part that there is."""
        return {**{part: count for part, count in self.spec.counts().items() if count}, "cluster": 1}

    @cached_property
    def behind(self) -> dict[str, int]:
        """Nodes that one failed unit of a part takes alone, of the parts that take any."""
        return {part: self.spec.nodes_behind(part) for part in self.spec.stopping_parts}


@st.composite
def fleets(draw: Draw, *, new: bool, alike: bool) -> Fleet:
    """Return small clusters; parts have an age only where all is `new` otherwise.

    With `alike` all nodes are of one kind and stand in racks, not in scale-up domains.
    """
    unit = draw(st.sampled_from((None, None, None, None, "node", "rack", "pdu", *(() if alike else ("domain",)))))
    gpus = draw(st.sampled_from((1, 2, 8)))
    rack = draw(st.sampled_from((2, 4)))
    cluster: dict[str, Any] = {"gpus_per_node": gpus, "rack": {"nodes": rack}, "pdu": {"racks": 2}}
    cluster["cooling"] = {"racks": draw(st.sampled_from((1, 3)))}
    each, size = {None: 1, "node": 1, "rack": rack, "pdu": 2 * rack, "domain": 1}[unit], 1
    if unit == "domain" or not (alike or draw(st.integers(0, 4))):
        cluster["scale_up"], size = draw(_domains(gpus, whole=unit == "domain"))
        each = math.lcm(each, size)
    nodes = max(draw(st.integers(4, 40)) // each, 2) * each
    cluster["nodes"] = nodes
    cluster["fabric"] = draw(_fabrics(cluster))
    if not alike and maybe(draw, 4):
        del cluster["nodes"]
        cluster["pools"] = draw(_pools(nodes, size, new=new))
    return Fleet(cluster, None if unit == "domain" else unit)


@st.composite
def _domains(draw: Draw, gpus: int, *, whole: bool) -> tuple[dict[str, Any], int]:
    """Return scale-up domains of a few nodes, used whole or not, and their number of nodes."""
    nodes = draw(st.integers(2, 4))
    domain: dict[str, Any] = {"gpus": nodes * gpus, "switch_trays": draw(st.sampled_from((0, 2)))}
    if not whole:
        return domain | {"swap_unit": "tray"}, nodes
    # Jobs that need one node of each domain are no wholes of several, but have mates as well.
    domain["use"] = draw(st.integers(1, nodes)) * gpus
    domain["drain_unit"] = draw(st.sampled_from(("tray", "tray", "domain")))
    return domain, nodes


@st.composite
def _pools(draw: Draw, nodes: int, size: int, *, new: bool) -> list[dict[str, Any]]:
    """Return two kinds of nodes, either of them first, each with whole domains of `size` nodes."""
    first = size * draw(st.integers(1, nodes // size - 1))
    names = draw(st.permutations(("h100", "b200")))
    pools: list[dict[str, Any]] = [
        {"count": count, "accelerator": name} for count, name in zip((first, nodes - first), names, strict=True)
    ]
    for pool in pools:
        if new and draw(st.booleans()):
            pool["age"] = draw(seconds(100, 50_000))
    return pools


@st.composite
def _fabrics(draw: Draw, cluster: dict[str, Any]) -> dict[str, Any]:
    """Return fabrics of two or three tiers, one plane or two, with one spine or several."""
    gpus = cluster["gpus_per_node"]
    kind = draw(st.sampled_from(("fat-tree", "fat-tree", "dual-plane")))
    group, groups = ("segment", "segments") if kind == "dual-plane" else ("leaf", "leaf_groups")
    fabric: dict[str, Any] = {"use": kind, "radix": 1024}
    fabric["rails"] = draw(st.sampled_from(sorted({1, min(gpus, 2), gpus}, reverse=True)))
    fabric[group] = {"nodes": draw(st.sampled_from((2, 4, 8)))}
    if kind == "fat-tree" and maybe(draw, 4):
        fabric["leaf"]["switches"] = 1
    if fabric["rails"] > 1 and maybe(draw, 3):
        fabric["reroute"] = "scale_up"
    fabric["copper"] = maybe(draw, 3)
    fabric["spine"] = {"oversubscription": draw(st.sampled_from((1.0, 1.0, 2.0)))}
    switches = [fabric["spine"]]
    if maybe(draw, 3):
        fabric["spine"][groups] = draw(st.integers(1, 2))
        fabric["core"] = {"oversubscription": draw(st.sampled_from((1.0, 2.0)))}
        switches.append(fabric["core"])
    for tier in switches:
        number = draw(st.sampled_from((None, 2, 2, 4)))
        if number is not None:
            tier["switches"] = number
            if not _can_be_cabled(cluster, fabric):
                del tier["switches"]
    return fabric


def _can_be_cabled(cluster: dict[str, Any], fabric: dict[str, Any]) -> bool:
    """Return whether so many switches have links enough, for a larger cluster too."""
    try:
        for factor in GROWTH:
            ClusterSpec.model_validate({**cluster, "nodes": factor * cluster["nodes"], "fabric": fabric})
    except ValidationError:
        return False
    return True
