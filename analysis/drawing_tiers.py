"""The picture of a large cluster: tiers as boxes with counts, cables as bands, a few of many pods."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from analysis.drawing import PLAIN, Band, Box, Drawing, Text, fitting, link_words, of_each, planes
from sim import edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim import Topology

__all__ = ["draw_tiers"]

_LEFT, _INNER, _RIGHT = 1.75, 7.0, 1.85  # margins for words, and what is between them [in]
_HOSTS, _STEP, _HEIGHT = 1.5, 1.2, 0.55  # height of the lowest row, from row to row, of a box [in]
_MOST_COLUMNS, _MOST_PLANES = 4, 4
_NAMES = ("host", "leaf switch", "spine", "core switch")
_Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class _Tally:
    """Switches and cables by pod and plane.

    Attributes
    ----------
    switches : list of (pods, planes) int64
        Leaf switches and spines [-].
    cores : (planes,) int64
        Core switches [-].
    cables : list of (pods, planes) int64
        Cables of each tier; those to cores by the pod of their spine [-].
    bandwidth : list of (pods, planes) float64
        Their bandwidth [B/s].
    """

    switches: list[NDArray[np.int64]]
    cores: NDArray[np.int64]
    cables: list[NDArray[np.int64]]
    bandwidth: list[NDArray[np.float64]]


def draw_tiers(topology: Topology) -> Drawing:
    """Draw the tiers of a cluster, and of more than four pods the first two and the last.

    Parameters
    ----------
    topology
        The cluster.
    """
    cables = edges(topology)
    tally = _tally(topology, cables)
    tiers = [tier for tier in range(3) if (cables.tier == tier).any()]
    rows = [_HOSTS + _STEP * level + (0.4 if level == 3 else 0.0) for level in range(len(tiers) + 1)]
    drawing = Drawing(_LEFT + _INNER + _RIGHT, rows[-1] + 1.35)
    columns = _columns(topology)
    for place, (pod, x, width) in enumerate(columns):
        if pod is None:
            more = topology.counts["pod"] - len(columns) + 1
            drawing.texts.append(Text(x, rows[min(1, len(rows) - 1)], f"…\n{more:,} more\npods", "center", 9.0))
        else:
            _draw_pod(drawing, topology, tally, pod, x, width, rows)
            if len(rows) > 3:
                _draw_trunks(drawing, tally, columns, place, rows)
    if len(rows) > 3:
        _draw_cores(drawing, tally, rows[3])
    _draw_margins(drawing, topology, cables, rows)
    drawing.title(topology, cables)
    return drawing


def _tally(topology: Topology, cables: Any) -> _Tally:
    """Count what each pod has of each plane; many planes are counted as one."""
    first, leaves, spines = topology.nodes, topology.counts["leaf"], topology.counts["spine"]
    plane = planes(topology).astype(np.int64)
    if plane.max() + 1 > _MOST_PLANES:
        plane = np.zeros_like(plane)
    shape = (int(topology.domains["pod"].max()) + 1, int(plane.max()) + 1)
    pod = np.zeros(plane.size, dtype=np.int64)
    for tier in (0, 1):
        here = cables.tier == tier
        low = cables.lower[here]
        pod[cables.upper[here] - first] = topology.domains["pod"][low] if tier == 0 else pod[low - first]
    cell = pod * shape[1] + plane

    def table(keys: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> NDArray[Any]:
        return np.bincount(keys, weights, minlength=shape[0] * shape[1]).reshape(shape)

    counted, speeds = [], []
    for tier in range(3):
        here = cables.tier == tier
        # Cables are counted where their lower switch is, those of hosts where their leaf switch is.
        keys = cell[(cables.upper if tier == 0 else cables.lower)[here] - first]
        counted.append(table(keys))
        speeds.append(table(keys, cables.bandwidth[here]))
    switches = [table(cell[:leaves]), table(cell[leaves : leaves + spines])]
    return _Tally(switches, np.bincount(plane[leaves + spines :], minlength=shape[1]), counted, speeds)


def _columns(topology: Topology) -> list[tuple[int | None, float, float]]:
    """Return pod, middle and width of each column; None stands for the pods that are left out."""
    pods = int(topology.domains["pod"].max()) + 1
    shown: list[int | None] = list(range(pods)) if pods <= _MOST_COLUMNS else [0, 1, None, pods - 1]
    widths = [0.45 if pod is None else 1.0 for pod in shown]
    unit = _INNER / sum(widths)
    middles = np.cumsum(widths) - np.array(widths) / 2
    return [
        (pod, _LEFT + unit * middle, unit * width - 0.2)
        for pod, middle, width in zip(shown, middles.tolist(), widths, strict=True)
    ]


def _draw_pod(
    drawing: Drawing, topology: Topology, tally: _Tally, pod: int, x: float, width: float, rows: list[float]
) -> None:
    """Draw hosts, leaf switches and spines of one pod, and the cables between them."""
    top = min(len(rows), 3) - 1
    foot, head = rows[0] - _HEIGHT / 2 - 0.12, rows[top] + _HEIGHT / 2 + 0.12
    if topology.counts["pod"] > 1:
        drawing.boxes.append(Box(x, (foot + head) / 2, width, head - foot, frame=True))
        drawing.texts.append(Text(x, foot - 0.14, f"pod {pod}", "center", 8.5, bold=True))
    here = topology.domains["pod"] == pod
    hosts, groups = int(here.sum()), np.unique(topology.domains["leaf"][here]).size
    gpus = f"{hosts:,} host{'s' if hosts > 1 else ''}, {hosts * topology.gpus_per_node:,} GPUs"
    words = [f"{gpus}\nin {groups:,} leaf group{'s' if groups > 1 else ''}", gpus.replace(", ", "\n")]
    text, size = fitting(words, width - 0.24, (8.5, 7.5, 6.5))
    drawing.boxes.append(Box(x, rows[0], width - 0.24, _HEIGHT, text, PLAIN, size))
    for plane, middle, part in _halves(tally, x, width - 0.24):
        for tier in range(top):
            _draw_switches(drawing, tally, tier, (pod, plane), (middle, rows[tier + 1]), part)
            ends = ((middle, rows[tier] + _HEIGHT / 2), (middle, rows[tier + 1] - _HEIGHT / 2))
            _draw_cables(drawing, tally, tier, (pod, plane), ends, part)


def _halves(tally: _Tally, x: float, width: float) -> list[tuple[int, float, float]]:
    """Return plane, middle and width of the share that each plane has of a column."""
    number = tally.cores.size
    part = (width - 0.1 * (number - 1)) / number
    return [(plane, x - width / 2 + part / 2 + plane * (part + 0.1), part) for plane in range(number)]


def _hue(tally: _Tally, plane: int) -> int:
    return plane if tally.cores.size > 1 else 0


def _draw_switches(drawing: Drawing, tally: _Tally, tier: int, cell: tuple[int, int], at: _Point, width: float) -> None:
    """Draw the leaf switches, or the spines, that a pod has in a plane."""
    count, plane = int(tally.switches[tier][cell]), cell[1]
    if not count:
        return
    short = ("leaf", "leaves") if tier == 0 else ("spine", "spines")
    long = ("leaf switch", "leaf switches") if tier == 0 else short
    words = [f"{count:,} {long[count != 1]}", f"{count:,} {short[count != 1]}", f"{count:,}\n{short[count != 1]}"]
    if tally.cores.size > 1:
        words = [f"plane {plane}\n{word}" for word in words[:2]] + words[1:]
    text, size = fitting(words, width, (8.5, 7.5, 6.5))
    drawing.boxes.append(Box(*at, width, _HEIGHT, text, _hue(tally, plane), size))


def _draw_cables(
    drawing: Drawing, tally: _Tally, tier: int, cell: tuple[int, int], ends: tuple[_Point, _Point], room: float
) -> None:
    """Draw the cables of a tier that a pod has in a plane: as wide as their bandwidth, beside that of the hosts."""
    number = int(tally.cables[tier][cell])
    if not number:
        return
    (low, foot), (high, head) = ends
    width = max(0.72 * room * min(1.0, tally.bandwidth[tier][cell] / tally.bandwidth[0][cell]), 0.03)
    half, hue = width / 2, _hue(tally, cell[1])
    drawing.bands.append(Band(((low - half, foot), (low + half, foot), (high + half, head), (high - half, head)), hue))
    words, size = fitting([f"{number:,} cables", f"{number:,}"], max(width, room / 2), (8.0, 7.0))
    # Slanted bands cross further up.
    part = 0.5 if low == high else 0.17
    x, y = low + part * (high - low), foot + part * (head - foot)
    if fitting([words], width, (size,))[0]:
        drawing.texts.append(Text(x, y, words, "center", size, opaque=True))
    else:
        drawing.texts.append(Text(x + half + 0.06, y, words, "left", size))


def _draw_trunks(drawing: Drawing, tally: _Tally, columns: list[Any], place: int, rows: list[float]) -> None:
    """Draw the cables from the spines of a pod to the cores."""
    pod, x, width = columns[place]
    low, high = rows[2] + _HEIGHT / 2, rows[3] - _HEIGHT / 2
    cores = {plane: (middle, part) for plane, middle, part in _halves(tally, _LEFT + _INNER / 2, _INNER - 0.2)}
    for plane, middle, part in _halves(tally, x, width - 0.24):
        # One plane of cores lies above all pods; of several each pod has its place below each.
        end = middle
        if tally.cores.size > 1:
            core, span = cores[plane]
            end = core + span * ((place + 0.5) / len(columns) - 0.5)
        _draw_cables(drawing, tally, 2, (pod, plane), ((middle, low), (end, high)), part)


def _draw_cores(drawing: Drawing, tally: _Tally, y: float) -> None:
    for plane, middle, part in _halves(tally, _LEFT + _INNER / 2, _INNER - 0.2):
        count = int(tally.cores[plane])
        if not count:
            continue
        words = f"{count:,} core switch{'es' if count > 1 else ''}"
        if tally.cores.size > 1:
            words = f"plane {plane}: {words}"
        drawing.boxes.append(Box(middle, y, part, _HEIGHT, words, _hue(tally, plane), 9.0))


def _draw_margins(drawing: Drawing, topology: Topology, cables: Any, rows: list[float]) -> None:
    """Write the totals of the tiers at the left, of the cables at the right, and what hosts share below."""
    counts = [topology.counts[part] for part in ("node", "leaf", "spine", "core")]
    for y, name, count in zip(rows, _NAMES, counts, strict=False):
        plural = "" if count == 1 else "es" if name.endswith("ch") else "s"
        drawing.texts.append(Text(0.25, y, f"{count:,} {name}{plural}", bold=True))
    for tier, (low, high) in enumerate(pairwise(rows)):
        x = drawing.width - _RIGHT + 0.1
        drawing.texts.append(Text(x, (low + high) / 2, link_words(topology, tier, cables), size=8.5))
    several = int(planes(topology).max()) + 1
    notes = [f"{several:,} planes"] if several > _MOST_PLANES else []
    for name, title in (("leaf", "leaf group"), ("rack", "rack"), ("pdu", "pdu"), ("cooling", "cooling unit")):
        ids = topology.domains[name]
        notes.append(f"{int(ids.max()) + 1:,} {title}{'s' if ids.max() else ''} of {of_each(ids)}")
    domain = topology.domains["scale_up"]
    size = int(np.bincount(domain).max())
    gpus = f"{size * topology.gpus_per_node} GPUs"
    notes.append(
        f"{int(domain.max()) + 1:,} scale-up domains of {gpus}"
        if size > 1
        else f"each host is a scale-up domain of {gpus}"
    )
    notes.append("a band is as wide as its bandwidth")
    drawing.texts.append(Text(0.25, 0.5, "   ·   ".join(notes[: len(notes) // 2 + 1]), size=8.5))
    drawing.texts.append(Text(0.25, 0.27, "   ·   ".join(notes[len(notes) // 2 + 1 :]), size=8.5))
