"""The cluster, and what goes with each of its parts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.answers.words import listed
from analysis.report.model import Column, Grid, Picture, Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.material import Material
    from sim import Topology

__all__ = ["Blast", "blasts", "section"]

_NAMES = {
    "gpu": "GPU",
    "nic": "network card",
    "pdu": "power distribution unit",
    "cooling": "cooling unit",
    "leaf": "leaf switch",
    "spine": "spine switch",
    "core": "core switch",
    "cable_node_leaf": "cable from a node to a leaf switch",
    "cable_leaf_spine": "cable from a leaf to a spine switch",
    "cable_spine_core": "cable from a spine to a core switch",
    "scale_up": "scale-up domain",
    "switch_tray": "switch tray of a scale-up domain",
}
_SWITCHES = {"leaf": "leaf switches", "spine": "spine switches", "core": "core switches"}


class Blast(NamedTuple):
    """What one failure of a part takes, alone: the class of part, how many there are, fewest and most nodes."""

    part: str
    units: int
    least: int
    most: int

    @property
    def name(self) -> str:
        """What the part is called."""
        return _NAMES.get(self.part, self.part.replace("_", " "))


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None:
        return None
    cluster: Any = focus.scenario.cluster
    topology: Topology = cluster.build()
    rows = blasts(topology)
    causes = Counter(source.part for source in focus.prepared.sources)
    gpus = topology.gpus_per_node
    counts = [f"{topology.counts[part]:,} {name}" for part, name in _SWITCHES.items() if topology.counts.get(part)]
    size = f"{topology.nodes * gpus:,} GPUs in {_nodes(topology.nodes)}"
    alt = f"{topology.name}: {size}" + (f", joined by {listed(counts)}." if counts else ".")
    picture = Picture("the-cluster", topology, alt, "Hosts, switches and cables; of a large cluster its tiers.")
    text = (
        f"{topology.name} has {size}. When a part fails, all nodes that need it are gone at once: the table says how "
        "many. A part that takes no node with it, such as a spine switch, leaves less bandwidth to all others.",
    )
    notes = [f"Of {focus.name}."]
    if any(source.blast is not None for source in focus.prepared.sources):
        notes.append("Causes that strike several nodes at once are counted where they strike, such as in a rack.")
    title = _title(rows, causes, topology)
    return Section("the-cluster", title, text, (picture, _table(rows, causes, gpus)), tuple(notes))


def _nodes(count: int) -> str:
    """Return a number of nodes in words."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def blasts(topology: Topology) -> list[Blast]:
    """Return what one failure of each class of parts takes, those that take most last."""
    found = []
    for part, units in topology.counts.items():
        if units:
            sizes = np.diff(topology.members(part).offsets)
            found.append(Blast(part, units, int(sizes.min()), int(sizes.max())))
    return sorted(found, key=lambda row: row.most)


def _title(rows: Sequence[Blast], causes: Counter[str], topology: Topology) -> str:
    """Return which of the parts that fail takes most with it."""
    failing = [row for row in rows if causes[row.part]]
    if not failing:
        return f"{topology.name}: {topology.nodes * topology.gpus_per_node:,} GPUs in {_nodes(topology.nodes)}"
    worst = failing[-1]
    gpus = f"{worst.most * topology.gpus_per_node:,} GPUs"
    if worst.most == 0:
        return "No part that fails here takes a node with it"
    if worst.most == 1:
        return f"No part that fails here takes more than one node of {gpus} with it"
    return f"Of the parts that fail here, a {worst.name} takes most with it: {worst.most:,} nodes with {gpus}"


def _table(rows: Sequence[Blast], causes: Counter[str], gpus: int) -> Grid:
    """Return for each class of parts what one failure takes."""

    def span(row: Blast, size: int) -> str:
        if not row.most:
            return "none"
        least, most = f"{row.least * size:,}", f"{row.most * size:,}"
        return most if least == most else f"{least} to {most}"

    table = [
        (
            row.name,
            f"{row.units:,}",
            span(row, 1),
            span(row, gpus),
            f"{causes[row.part]}" if causes[row.part] else "none",
        )
        for row in rows
    ]
    heads = ("how many", "nodes that one takes", "GPUs that one takes", "causes that strike it here")
    note = "Each alone, while all else is healthy."
    columns = (Column("part", is_number=False), *map(Column, heads))
    return Grid("What goes with each part of the cluster", columns, table, note=note)
