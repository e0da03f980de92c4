"""The picture of a small cluster: every host, switch and cable, tiers as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.drawing import PLAIN, Box, Drawing, Line, Text, fitting, link_words, of_each, planes
from sim import edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim import Topology

__all__ = ["draw_parts", "is_small"]

_MOST_VERTICES, _MOST_CABLES, _MOST_HUES = 400, 3000, 8
_LEFT, _RIGHT = 1.9, 1.75  # margins for words [in]
_PARTS = {"node": "host", "leaf": "leaf switch", "spine": "spine", "core": "core"}
_DOMAINS = {"leaf": "leaf group", "pod": "pod", "rack": "rack", "scale_up": "scale-up domain", "pdu": "pdu"}
_DOMAINS |= {"cooling": "cooling"}


class _Row(NamedTuple):
    """One tier: where its vertices are, in the order of their numbers [in]."""

    x: NDArray[np.float64]
    y: float
    width: float
    height: float


def is_small(topology: Topology) -> bool:
    """Tell whether every part of a cluster can be drawn and still be seen."""
    vertices = sum(topology.counts[part] for part in _PARTS)
    cables = sum(count for part, count in topology.counts.items() if part.startswith("cable"))
    return vertices <= _MOST_VERTICES and cables <= _MOST_CABLES


def draw_parts(topology: Topology) -> Drawing:
    """Draw every host, switch and cable.

    Parameters
    ----------
    topology
        A cluster for which `is_small` holds.
    """
    cables = edges(topology)
    parts = [part for part in _PARTS if topology.counts[part]]
    shared = _shared(topology)
    inner = float(np.clip(0.62 * max(topology.counts[part] for part in parts), 6.5, 13.0))
    bottom = 0.55 + 0.3 * len(shared)
    hue, by_plane, rail = _hues(topology, cables)
    drawing = Drawing(_LEFT + inner + _RIGHT, bottom + 1.75 * (len(parts) - 1) + (1.4 if by_plane else 1.2))
    drawing.opacity = 0.8 if cables.lower.size <= 600 else 0.5
    rows = _rows(topology, parts, hue if by_plane else None, inner, bottom)
    for part, row in rows.items():
        _draw_row(drawing, topology, part, row, hue, rail)
    _draw_cables(drawing, topology, cables, rows, hue)
    if by_plane:
        _name_planes(drawing, topology, rows, hue)
    for place, (names, ids) in enumerate(shared):
        _draw_domains(drawing, rows["node"], names, ids, bottom - 0.42 - 0.3 * place)
    drawing.title(topology, cables)
    return drawing


def _hues(topology: Topology, cables: Any) -> tuple[NDArray[np.int64], bool, NDArray[np.int64]]:
    """Return the hue of each switch, whether that is its plane, and the rail of each leaf (-1: several)."""
    access = cables.tier == 0
    leaf = cables.upper[access] - topology.nodes
    rail, last = np.full(topology.counts["leaf"], -1), np.full(topology.counts["leaf"], -1)
    rail[leaf] = cables.rail[access]
    # Written in the other order, what several rails share keeps another one.
    last[leaf[::-1]] = cables.rail[access][::-1]
    rail[rail != last] = -1
    plane = planes(topology).astype(np.int64)
    if 1 < plane.max() + 1 <= _MOST_HUES:
        return plane, True, rail
    hue = np.full(plane.size, PLAIN)
    if topology.rails <= _MOST_HUES and (rail >= 0).all():
        hue[: rail.size] = rail
    return hue, False, rail


def _rows(
    topology: Topology, parts: list[str], plane: NDArray[np.int64] | None, inner: float, bottom: float
) -> dict[str, _Row]:
    """Place the tiers from the hosts up; planes lie side by side, and groups of hosts apart."""
    rows = {}
    for level, part in enumerate(parts):
        numbers = np.array(topology.vertices(part))
        group = topology.domains["leaf"] if part == "node" else np.zeros(numbers.size, dtype=np.int64)
        if part != "node" and plane is not None:
            group = plane[numbers - topology.nodes]
        order = np.argsort(group, kind="stable")
        steps = 1.0 + 0.7 * (np.diff(group[order]) != 0)
        place = np.concatenate(([0.0], np.cumsum(steps)))
        pitch = inner / (place[-1] + 1)
        x = np.empty(numbers.size)
        x[order] = _LEFT + pitch * (place + 0.5)
        width = min(0.74 * pitch, 0.9 if part == "leaf" else 0.75)
        rows[part] = _Row(x, bottom + 1.75 * level, width, 0.42 if part == "leaf" else 0.32)
    return rows


def _draw_row(
    drawing: Drawing, topology: Topology, part: str, row: _Row, hue: NDArray[np.int64], rail: NDArray[np.int64]
) -> None:
    """Draw the boxes of one tier, and what it is at its left."""
    first = topology.vertices(part).start - topology.nodes
    forms = [[f"{_PARTS[part]} {index}" for index in range(row.x.size)], [f"{index}" for index in range(row.x.size)]]
    if part == "leaf" and (rail >= 0).all():
        forms[:1] = [[f"{index}\n{word}{of}" for index, of in enumerate(rail.tolist())] for word in ("rail ", "r")]
    # All boxes of a row say the same kind of thing: what fits into the last one, whose number is the longest.
    last, size = fitting([form[-1] for form in forms], row.width)
    words = next((form for form in forms if form[-1] == last), [""] * row.x.size)
    for index, (x, text) in enumerate(zip(row.x.tolist(), words, strict=True)):
        color = PLAIN if part == "node" else int(hue[first + index])
        drawing.boxes.append(Box(x, row.y, row.width, row.height, text, color, size))
    count = topology.counts[part]
    plural = "es" if part == "leaf" else "s"
    label = f"{count:,} {_PARTS[part]}{plural if count > 1 else ''}"
    if part == "node":
        label += f"\nof {topology.gpus_per_node} GPU{'s' if topology.gpus_per_node > 1 else ''}"
    elif "\nr" in last and "rail" not in last:
        label += "\n(r: rail)"
    drawing.texts.append(Text(0.25, row.y, label, bold=True))


def _draw_cables(
    drawing: Drawing, topology: Topology, cables: Any, rows: dict[str, _Row], hue: NDArray[np.int64]
) -> None:
    """Draw every cable from a place of its own on one box to a place of its own on the other."""
    weight = 0.9 if cables.lower.size <= 600 else 0.5
    names = list(_PARTS)
    for tier in range(int(cables.tier.max()) + 1):
        below, above = rows[names[tier]], rows[names[tier + 1]]
        here = cables.tier == tier
        lower = cables.lower[here] - topology.vertices(names[tier]).start
        upper = cables.upper[here] - topology.vertices(names[tier + 1]).start
        start = _ports(lower, above.x[upper], below)
        end = _ports(upper, start, above)
        # A cable has the hue of its leaf switch, or of the plane that both its ends are in.
        switch = (cables.upper if tier == 0 else cables.lower)[here] - topology.nodes
        top, foot = below.y + below.height / 2, above.y - above.height / 2
        for one, other, color in zip(start.tolist(), end.tolist(), hue[switch].tolist(), strict=True):
            drawing.lines.append(Line(((one, top), (other, foot)), color, weight))
        words = link_words(topology, tier, cables)
        drawing.texts.append(Text(drawing.width - _RIGHT + 0.15, (top + foot) / 2, words))


def _ports(ends: NDArray[np.int64], other: NDArray[np.float64], row: _Row) -> NDArray[np.float64]:
    """Return where on its box each cable ends: side by side in the order of the other ends, (cables,) [in]."""
    order = np.lexsort((other, ends))
    sizes = np.bincount(ends)
    rank = np.empty(ends.size)
    rank[order] = np.arange(ends.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ports: NDArray[np.float64] = row.x[ends] + row.width * 0.86 * ((rank + 0.5) / sizes[ends] - 0.5)
    return ports


def _name_planes(drawing: Drawing, topology: Topology, rows: dict[str, _Row], hue: NDArray[np.int64]) -> None:
    """Write the name of each plane above its highest switches."""
    for plane in range(int(hue.max()) + 1):
        for part in reversed(rows):
            numbers = [vertex - topology.nodes for vertex in topology.vertices(part)] if part != "node" else []
            here = [place for place, number in enumerate(numbers) if hue[number] == plane]
            if here:
                row = rows[part]
                x = float(row.x[here].mean())
                drawing.texts.append(
                    Text(x, row.y + row.height / 2 + 0.16, f"plane {plane}", "center", 9.0, plane, True)
                )
                break


def _shared(topology: Topology) -> list[tuple[list[str], NDArray[np.int32]]]:
    """Return what several hosts share, by name; what the same hosts share is named once."""
    found: list[tuple[list[str], NDArray[np.int32]]] = []
    for name, title in _DOMAINS.items():
        ids = topology.domains[name]
        if np.bincount(ids).max() == 1 or (name == "pod" and ids.max() == 0):
            continue
        same = next((place for place, (_, other) in enumerate(found) if (other == ids).all()), None)
        if same is None:
            found.append(([title], ids))
        else:
            found[same][0].append(title)
    return found


def _draw_domains(drawing: Drawing, hosts: _Row, names: list[str], ids: NDArray[np.int32], y: float) -> None:
    """Underline the hosts of each domain and number it."""
    half = (len(names) + 1) // 2
    every, each = ", ".join(names), of_each(ids)
    two_lines = f"{', '.join(names[:half])},\n{', '.join(names[half:])}"
    words, size = fitting([f"{every}: {each}", f"{every}\n{each}", two_lines], _LEFT - 0.25, (8.0, 7.0, 6.0))
    drawing.texts.append(Text(0.25, y, words, size=size))
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ids) != 0)))
    for first, after in zip(starts.tolist(), [*starts[1:].tolist(), ids.size], strict=True):
        left, right = hosts.x[first] - hosts.width / 2, hosts.x[after - 1] + hosts.width / 2
        drawing.lines.append(Line(((float(left), y), (float(right), y)), PLAIN, 1.6))
        text, size = fitting([str(ids[first])], float(right - left), (7.5,))
        if text:
            drawing.texts.append(Text(float(left + right) / 2, y, text, "center", size, opaque=True))
