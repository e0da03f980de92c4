"""The picture of a cluster: every host, switch and cable of a small one; of a large one tiers, bands and a few pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ettrick.analysis.amounts import gigabits
from ettrick.analysis.page.charts.sheet import INK, hue
from ettrick.sim import Topology, edges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


# ----------------------------------------
# What a picture consists of: boxes, lines, bands and words at places in inches. Nothing here knows how to paint.

PLAIN = -1  # hue of what belongs to no plane or rail in particular
_WIDTH_OF_LETTER, _WIDTH_OF_BOLD = 0.58, 0.75  # of a letter of the sans-serif face, relative to its size [-]


class LabelledBox(NamedTuple):
    """A rectangle around (x, y), with words inside; a frame lies behind everything else."""

    x: float
    y: float
    width: float
    height: float
    words: str = ""
    hue: int = PLAIN
    size: float = 8.0
    frame: bool = False


class Stroke(NamedTuple):
    """A stroke between two points, its weight in points."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    hue: int
    weight: float


class Band(NamedTuple):
    """Many cables as one area."""

    corners: tuple[tuple[float, float], ...]
    hue: int


class Text(NamedTuple):
    """Words next to or on the rest; opaque ones cover what is behind them."""

    x: float
    y: float
    words: str
    align: str = "left"
    size: float = 9.0
    hue: int | None = None
    bold: bool = False
    opaque: bool = False


@dataclass
class Canvas:
    """A picture of `width` x `height` inches, the origin at the lower left."""

    topology: Topology
    width: float
    height: float
    opacity: float = 1.0
    boxes: list[LabelledBox] = field(default_factory=list)
    lines: list[Stroke] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def write(self, x: float, y: float, words: str, **look: Any) -> None:
        """Put words at a place."""
        self.texts.append(Text(x, y, words, **look))

    def title(self, cables: Any) -> None:
        """Put the name of the cluster and its size at the top."""
        topology = self.topology
        nic = float(cables.bandwidth[cables.tier == 0].sum()) / topology.counts["nic"]
        rails = f"{_count(topology.rails, 'rail')} of {gigabits(nic)}"
        size = f"{topology.counts['gpu']:,} GPUs in {topology.nodes:,} hosts with {rails}"
        name, letters = " ".join(topology.name.split()), int(72 * (self.width - 0.5) / (14 * _WIDTH_OF_BOLD))
        self.write(
            0.25, self.height - 0.3, name if len(name) <= letters else f"{name[: letters - 1]}…", size=14.0, bold=True
        )
        self.write(0.25, self.height - 0.58, size, size=10.0)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('ch') else 's'}"


def fitting(choices: Sequence[str], width: float, sizes: Sequence[float] = (8.0, 6.5)) -> tuple[str, float]:
    """Return the first of some words that fits into a width [in], and its size [pt]; no words if none does."""
    for words in choices:
        letters = max(len(line) for line in words.split("\n"))
        for size in sizes:
            if letters * size * _WIDTH_OF_LETTER <= 72 * width - 3:
                return words, size
    return "", sizes[-1]


def planes(topology: Topology) -> NDArray[np.int32]:
    """Return the plane of each leaf switch, spine and core: what hangs together without the hosts, (switches,)."""
    return topology.paths.switches.plane


def link_words(topology: Topology, tier: int, cables: Any) -> str:
    """Return how many cables a tier has, how fast they are, and what they hold back when all hosts send."""
    here = cables.bandwidth[cables.tier == tier]
    speeds = " and ".join(gigabits(speed) for speed in np.unique(here).tolist())
    words = f"{here.size:,} cables\nof {speeds}"
    if tier == 0:
        return words
    below, above = (("leaf", "pod"), ("pod", "cluster"))[tier - 1]
    return f"{words}\noversubscription {topology.bandwidth[below] / topology.bandwidth[above]:.3g} : 1"


def of_each(ids: NDArray[np.int32]) -> str:
    """Return how many nodes the domains have."""
    sizes = np.bincount(ids)
    least, most = int(sizes.min()), int(sizes.max())
    return _count(most, "host") if least == most else f"{least:,}-{_count(most, 'host')}"


# ----------------------------------------
# The picture of a small cluster: every host, switch and cable, tiers as rows.

_MOST_VERTICES, _MOST_CABLES, _MOST_HUES = 400, 3000, 8
_LEFT, _RIGHT = 1.9, 1.75  # margins for words [in]
_PARTS = {"node": "host", "leaf": "leaf switch", "spine": "spine", "core": "core"}

_DOMAINS = {
    "leaf": "leaf group", "pod": "pod", "rack": "rack", "scale_up": "scale-up domain", "pdu": "pdu",
    "cooling": "cooling",
}  # fmt: skip


class _TierRow(NamedTuple):
    """A tier: the places of its vertices, in the order of their numbers [in]."""

    x: NDArray[np.float64]
    y: float
    width: float
    height: float


def is_small(topology: Topology) -> bool:
    """Tell whether every part of a cluster can be drawn and still be seen."""
    vertices = sum(topology.counts[part] for part in _PARTS)
    cables = sum(count for part, count in topology.counts.items() if part.startswith("cable"))
    return vertices <= _MOST_VERTICES and cables <= _MOST_CABLES


def draw_parts(topology: Topology) -> Canvas:
    """Draw every host, switch and cable."""
    cables = edges(topology)
    parts = [part for part in _PARTS if topology.counts[part]]
    shared = _shared(topology)
    inner = float(np.clip(0.62 * max(topology.counts[part] for part in parts), 6.5, 13.0))
    bottom = 0.55 + 0.3 * len(shared)
    hue, by_plane, rail = _hues(topology, cables)
    drawing = Canvas(topology, _LEFT + inner + _RIGHT, bottom + 1.75 * (len(parts) - 1) + (1.4 if by_plane else 1.2))
    drawing.opacity = 0.8 if cables.lower.size <= 600 else 0.5
    rows = _rows(topology, parts, hue if by_plane else None, inner, bottom)
    for part, row in rows.items():
        _draw_row(drawing, part, row, hue, rail)
    _draw_cables(drawing, cables, rows, hue)
    if by_plane:
        _name_planes(drawing, rows, hue)
    for place, (names, ids) in enumerate(shared):
        _draw_domains(drawing, rows["node"], names, ids, bottom - 0.42 - 0.3 * place)
    drawing.title(cables)
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
) -> dict[str, _TierRow]:
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
        rows[part] = _TierRow(x, bottom + 1.75 * level, width, 0.42 if part == "leaf" else 0.32)
    return rows


def _draw_row(drawing: Canvas, part: str, row: _TierRow, hue: NDArray[np.int64], rail: NDArray[np.int64]) -> None:
    topology = drawing.topology
    first = topology.vertices(part).start - topology.nodes
    forms = [[f"{_PARTS[part]} {index}" for index in range(row.x.size)], [f"{index}" for index in range(row.x.size)]]
    if part == "leaf" and (rail >= 0).all():
        forms[:1] = [[f"{index}\n{word}{of}" for index, of in enumerate(rail.tolist())] for word in ("rail ", "r")]
    # All boxes of a row say the same kind of thing: what fits into the last one, whose number is the longest.
    last, size = fitting([form[-1] for form in forms], row.width)
    words = next((form for form in forms if form[-1] == last), [""] * row.x.size)
    for index, (x, text) in enumerate(zip(row.x.tolist(), words, strict=True)):
        color = PLAIN if part == "node" else int(hue[first + index])
        drawing.boxes.append(LabelledBox(x, row.y, row.width, row.height, text, color, size))
    label = _count(topology.counts[part], _PARTS[part])
    if part == "node":
        label += f"\nof {_count(topology.gpus_per_node, 'GPU')}"
    elif "\nr" in last and "rail" not in last:
        label += "\n(r: rail)"
    drawing.write(0.25, row.y, label, bold=True)


def _draw_cables(drawing: Canvas, cables: Any, rows: dict[str, _TierRow], hue: NDArray[np.int64]) -> None:
    topology = drawing.topology
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
        for lower_x, upper_x, color in zip(start.tolist(), end.tolist(), hue[switch].tolist(), strict=True):
            drawing.lines.append(Stroke(((lower_x, top), (upper_x, foot)), color, weight))
        drawing.write(drawing.width - _RIGHT + 0.15, (top + foot) / 2, link_words(topology, tier, cables))


def _ports(ends: NDArray[np.int64], far_ends: NDArray[np.float64], row: _TierRow) -> NDArray[np.float64]:
    """Return where on its box each cable ends: side by side in the order of the other ends, (cables,) [in]."""
    order = np.lexsort((far_ends, ends))
    sizes = np.bincount(ends)
    rank = np.empty(ends.size)
    rank[order] = np.arange(ends.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ports: NDArray[np.float64] = row.x[ends] + row.width * 0.86 * ((rank + 0.5) / sizes[ends] - 0.5)
    return ports


def _name_planes(drawing: Canvas, rows: dict[str, _TierRow], hue: NDArray[np.int64]) -> None:
    for plane in range(int(hue.max()) + 1):
        for part in reversed([part for part in rows if part != "node"]):
            here = np.flatnonzero(hue[np.array(drawing.topology.vertices(part)) - drawing.topology.nodes] == plane)
            if here.size:
                x, y = float(rows[part].x[here].mean()), rows[part].y + rows[part].height / 2 + 0.16
                drawing.write(x, y, f"plane {plane}", align="center", hue=plane, bold=True)
                break


def _shared(topology: Topology) -> list[tuple[list[str], NDArray[np.int32]]]:
    """Return what several hosts share, by name; what the same hosts share is named once."""
    shared: list[tuple[list[str], NDArray[np.int32]]] = []
    for name, title in _DOMAINS.items():
        ids = topology.domains[name]
        if np.bincount(ids).max() == 1 or (name == "pod" and ids.max() == 0):
            continue
        same = next((place for place, (_, shared_ids) in enumerate(shared) if (shared_ids == ids).all()), None)
        if same is None:
            shared.append(([title], ids))
        else:
            shared[same][0].append(title)
    return shared


def _draw_domains(drawing: Canvas, hosts: _TierRow, names: list[str], ids: NDArray[np.int32], y: float) -> None:
    half = (len(names) + 1) // 2
    every, sizes = ", ".join(names), of_each(ids)
    two_lines = f"{', '.join(names[:half])},\n{', '.join(names[half:])}"
    words, size = fitting([f"{every}: {sizes}", f"{every}\n{sizes}", two_lines], _LEFT - 0.25, (8.0, 7.0, 6.0))
    drawing.write(0.25, y, words, size=size)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ids) != 0)))
    for first, after in zip(starts.tolist(), [*starts[1:].tolist(), ids.size], strict=True):
        left, right = hosts.x[first] - hosts.width / 2, hosts.x[after - 1] + hosts.width / 2
        drawing.lines.append(Stroke(((float(left), y), (float(right), y)), PLAIN, 1.6))
        text, size = fitting([str(ids[first])], float(right - left), (7.5,))
        if text:
            drawing.write(float(left + right) / 2, y, text, align="center", size=size, opaque=True)


# ----------------------------------------
# The picture of a large cluster: tiers as boxes with counts, cables as bands, a few of many pods.

_BEFORE, _INNER, _BEHIND = 1.75, 7.0, 1.85  # margins for words, and what is between them [in]
_HOSTS, _STEP, _HEIGHT = 1.5, 1.2, 0.55  # height of the lowest row, from row to row, of a box [in]
_MOST_COLUMNS, _MOST_PLANES = 4, 4
_Point: TypeAlias = tuple[float, float]


class _Tally(NamedTuple):
    """Switches and cables by pod and plane, each an array of (pods, planes); cores by plane alone."""

    switches: list[NDArray[np.int64]]  # leaf switches and spines [-]
    cores: NDArray[np.int64]  # core switches [-], (planes,)
    cables: list[NDArray[np.int64]]  # of each tier [-]; those to cores by the pod of their spine
    bandwidth: list[NDArray[np.float64]]  # theirs [B/s]


def draw_tiers(topology: Topology) -> Canvas:
    """Draw the tiers of a cluster, and of more than four pods the first two and the last."""
    cables = edges(topology)
    tally = _tally(topology, cables)
    tiers = [tier for tier in range(3) if (cables.tier == tier).any()]
    rows = [_HOSTS + _STEP * level + (0.4 if level == 3 else 0.0) for level in range(len(tiers) + 1)]
    drawing = Canvas(topology, _BEFORE + _INNER + _BEHIND, rows[-1] + 1.35)
    pods = int(topology.domains["pod"].max()) + 1
    shown: list[int | None] = list(range(pods)) if pods <= _MOST_COLUMNS else [0, 1, None, pods - 1]
    widths = np.array([0.45 if pod is None else 1.0 for pod in shown])  # None stands for those that are left out
    widths *= _INNER / widths.sum()
    middles = _BEFORE + np.cumsum(widths) - widths / 2
    for place, (pod, x, width) in enumerate(zip(shown, middles.tolist(), (widths - 0.2).tolist(), strict=True)):
        if pod is None:
            drawing.write(x, rows[min(1, len(rows) - 1)], f"…\n{pods - 3:,} more\npods", align="center")
            continue
        _draw_pod(drawing, tally, pod, x, width, rows)
        if len(rows) > 3:
            _draw_trunks(drawing, tally, pod, (x, width), (place + 0.5) / len(shown) - 0.5, rows)
    for plane, middle, part in _cores(tally) if len(rows) > 3 else []:
        count = _count(int(tally.cores[plane]), "core switch")
        words = f"plane {plane}: {count}" if tally.cores.size > 1 else count
        if tally.cores[plane]:
            drawing.boxes.append(LabelledBox(middle, rows[3], part, _HEIGHT, words, plane, 9.0))
    _draw_margins(drawing, cables, rows)
    drawing.title(cables)
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


def _draw_pod(drawing: Canvas, tally: _Tally, pod: int, x: float, width: float, rows: list[float]) -> None:
    topology, inner = drawing.topology, width - 0.24
    top = min(len(rows), 3) - 1
    foot, head = rows[0] - _HEIGHT / 2 - 0.12, rows[top] + _HEIGHT / 2 + 0.12
    if topology.counts["pod"] > 1:
        drawing.boxes.append(LabelledBox(x, (foot + head) / 2, width, head - foot, frame=True))
        drawing.write(x, foot - 0.14, f"pod {pod}", align="center", size=8.5, bold=True)
    here = topology.domains["pod"] == pod
    hosts, groups = int(here.sum()), np.unique(topology.domains["leaf"][here]).size
    gpus = f"{_count(hosts, 'host')}, {hosts * topology.gpus_per_node:,} GPUs"
    words = [f"{gpus}\nin {_count(groups, 'leaf group')}", gpus.replace(", ", "\n")]
    text, size = fitting(words, inner, (8.5, 7.5, 6.5))
    drawing.boxes.append(LabelledBox(x, rows[0], inner, _HEIGHT, text, PLAIN, size))
    for plane, middle, part in _halves(tally, x, inner):
        for tier in range(top):
            _draw_switches(drawing, tally, tier, (pod, plane), (middle, rows[tier + 1]), part)
            ends = ((middle, rows[tier] + _HEIGHT / 2), (middle, rows[tier + 1] - _HEIGHT / 2))
            _draw_band(drawing, tally, tier, (pod, plane), ends, part)


def _halves(tally: _Tally, x: float, width: float) -> list[tuple[int, float, float]]:
    """Return plane, middle and width of the share that each plane has of a column."""
    number = tally.cores.size
    part = (width - 0.1 * (number - 1)) / number
    return [(plane, x - width / 2 + part / 2 + plane * (part + 0.1), part) for plane in range(number)]


def _cores(tally: _Tally) -> list[tuple[int, float, float]]:
    return _halves(tally, _BEFORE + _INNER / 2, _INNER - 0.2)


def _draw_switches(drawing: Canvas, tally: _Tally, tier: int, cell: tuple[int, int], at: _Point, width: float) -> None:
    count = int(tally.switches[tier][cell])
    if not count:
        return
    noun = ("leaf" if count == 1 else "leaves") if tier == 0 else "spine" if count == 1 else "spines"
    words = [_count(count, "leaf switch" if tier == 0 else "spine"), f"{count:,} {noun}", f"{count:,}\n{noun}"]
    if tally.cores.size > 1:
        words = [f"plane {cell[1]}\n{word}" for word in words[:2]] + words[1:]
    text, size = fitting(words, width, (8.5, 7.5, 6.5))
    drawing.boxes.append(LabelledBox(*at, width, _HEIGHT, text, cell[1], size))


def _draw_band(
    drawing: Canvas, tally: _Tally, tier: int, cell: tuple[int, int], ends: tuple[_Point, _Point], room: float
) -> None:
    """Draw the cables of a tier that a pod has in a plane: as wide as their bandwidth, next to that of the hosts."""
    number = int(tally.cables[tier][cell])
    if not number:
        return
    (low, foot), (high, head) = ends
    width = max(0.72 * room * min(1.0, tally.bandwidth[tier][cell] / tally.bandwidth[0][cell]), 0.03)
    half = width / 2
    corners = ((low - half, foot), (low + half, foot), (high + half, head), (high - half, head))
    drawing.bands.append(Band(corners, cell[1]))
    words, size = fitting([f"{number:,} cables", f"{number:,}"], max(width, room / 2), (8.0, 7.0))
    # Slanted bands cross further up.
    part = 0.5 if low == high else 0.17
    x, y = low + part * (high - low), foot + part * (head - foot)
    if fitting([words], width, (size,))[0]:
        drawing.write(x, y, words, align="center", size=size, opaque=True)
    else:
        drawing.write(x + half + 0.06, y, words, size=size)


def _draw_trunks(
    drawing: Canvas, tally: _Tally, pod: int, column: tuple[float, float], aside: float, rows: list[float]
) -> None:
    """Draw the cables from the spines of a pod to the cores, which are aside from the middle of theirs by a share."""
    x, width = column
    low, high = rows[2] + _HEIGHT / 2, rows[3] - _HEIGHT / 2
    for (plane, middle, part), (_, core, span) in zip(_halves(tally, x, width - 0.24), _cores(tally), strict=True):
        # One plane of cores lies above all pods; of several each pod has its place below each.
        end = core + span * aside if tally.cores.size > 1 else middle
        _draw_band(drawing, tally, 2, (pod, plane), ((middle, low), (end, high)), part)


def _draw_margins(drawing: Canvas, cables: Any, rows: list[float]) -> None:
    topology = drawing.topology
    names = {"node": "host", "leaf": "leaf switch", "spine": "spine", "core": "core switch"}
    for y, (part, name) in zip(rows, names.items(), strict=False):
        drawing.write(0.25, y, _count(topology.counts[part], name), bold=True)
    for tier, (low, high) in enumerate(pairwise(rows)):
        words = link_words(topology, tier, cables)
        drawing.write(drawing.width - _BEHIND + 0.1, (low + high) / 2, words, size=8.5)
    several = int(planes(topology).max()) + 1
    notes = [f"{several:,} planes"] if several > _MOST_PLANES else []
    for name, title in (("leaf", "leaf group"), ("rack", "rack"), ("pdu", "pdu"), ("cooling", "cooling unit")):
        ids = topology.domains[name]
        notes.append(f"{_count(int(ids.max()) + 1, title)} of {of_each(ids)}")
    domain = topology.domains["scale_up"]
    size = int(np.bincount(domain).max())
    domains = f"{int(domain.max()) + 1:,} scale-up domains of" if size > 1 else "each host is a scale-up domain of"
    notes += [f"{domains} {size * topology.gpus_per_node} GPUs", "a band is as wide as its bandwidth"]
    for y, line in ((0.5, notes[: len(notes) // 2 + 1]), (0.27, notes[len(notes) // 2 + 1 :])):
        drawing.write(0.25, y, "   ·   ".join(line), size=8.5)


# ----------------------------------------
# The picture of a cluster.


def draw_topology(topology: Topology) -> Figure:
    """Draw a cluster: every host, switch and cable of a small one, the tiers of a large one."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure

    drawing = draw_parts(topology) if is_small(topology) else draw_tiers(topology)
    figure = Figure(figsize=(drawing.width, drawing.height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set(xlim=(0.0, drawing.width), ylim=(0.0, drawing.height))
    corners, hues = [band.corners for band in drawing.bands], [hue(band.hue) for band in drawing.bands]
    axes.add_collection(PolyCollection(corners, facecolors=hues, alpha=0.28, zorder=1))
    look: Any = {"colors": [hue(line.hue) for line in drawing.lines], "alpha": drawing.opacity, "zorder": 2}
    weights = [line.weight for line in drawing.lines]
    axes.add_collection(LineCollection([line.ends for line in drawing.lines], linewidths=weights, **look))
    for box in drawing.boxes:
        _draw_box(axes, box)
    for text in drawing.texts:
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.2} if text.opaque else None
        color = INK if text.hue is None else hue(text.hue)
        axes.text(
            text.x, text.y, text.words, ha=text.align, va="center", size=text.size, color=color, linespacing=1.35,
            weight="bold" if text.bold else "normal", zorder=6, bbox=ground,
        )  # fmt: skip
    return figure


def _draw_box(axes: Axes, box: LabelledBox) -> None:
    from matplotlib.patches import FancyBboxPatch

    round_by = min(0.04, box.width / 4, box.height / 4)
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2 + round_by, box.y - box.height / 2 + round_by),
            box.width - 2 * round_by, box.height - 2 * round_by, boxstyle=f"round,pad={round_by}",
            facecolor="#f6f7f8" if box.frame else "white", edgecolor="#d5d8dc" if box.frame else hue(box.hue),
            linewidth=0.8 if box.frame else 1.1, zorder=0 if box.frame else 4,
        )
    )  # fmt: skip
    if box.words:
        look: Any = {"ha": "center", "va": "center", "size": box.size, "color": INK, "linespacing": 1.35, "zorder": 5}
        axes.text(box.x, box.y, box.words, **look)
