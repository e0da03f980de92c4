"""What a picture consists of: boxes, lines, bands and words at places in inches. Nothing here knows how to paint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from sim import Topology

__all__ = ["PLAIN", "Band", "Box", "Drawing", "Line", "Text", "fitting", "gigabits", "link_words", "of_each", "planes"]

PLAIN = -1
"""Hue of what belongs to no plane or rail in particular."""

_WIDTH_OF_LETTER, _WIDTH_OF_BOLD = 0.58, 0.75
"""Of a letter of the sans-serif face, relative to its size [-]."""


class Box(NamedTuple):
    """A rectangle around (x, y), with words inside; a frame lies behind everything else."""

    x: float
    y: float
    width: float
    height: float
    words: str = ""
    hue: int = PLAIN
    size: float = 8.0
    frame: bool = False


class Line(NamedTuple):
    """A stroke between two points, its weight in points."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    hue: int
    weight: float


class Band(NamedTuple):
    """Many cables as one area."""

    corners: tuple[tuple[float, float], ...]
    hue: int


class Text(NamedTuple):
    """Words beside or on the rest; opaque ones cover what is behind them."""

    x: float
    y: float
    words: str
    align: str = "left"
    size: float = 9.0
    hue: int | None = None
    bold: bool = False
    opaque: bool = False


@dataclass
class Drawing:
    """A picture of `width` x `height` inches, the origin at the lower left."""

    width: float
    height: float
    opacity: float = 1.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def title(self, topology: Topology, cables: Any) -> None:
        """Put the name of the cluster and its size at the top."""
        nic = float(cables.bandwidth[cables.tier == 0].sum()) / topology.counts["nic"]
        rails = f"{topology.rails} rail{'s' if topology.rails > 1 else ''} of {gigabits(nic)}"
        size = f"{topology.counts['gpu']:,} GPUs in {topology.nodes:,} hosts with {rails}"
        name, letters = " ".join(topology.name.split()), int(72 * (self.width - 0.5) / (14 * _WIDTH_OF_BOLD))
        name = name if len(name) <= letters else f"{name[: letters - 1]}…"
        self.texts.append(Text(0.25, self.height - 0.3, name, size=14.0, bold=True))
        self.texts.append(Text(0.25, self.height - 0.58, size, size=10.0))


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
    number = f"{most:,}" if least == most else f"{least:,}-{most:,}"
    return f"{number} host{'' if most == 1 else 's'}"


def gigabits(bandwidth: float) -> str:
    """Return a bandwidth [B/s] in the unit of data sheets."""
    return f"{bandwidth * 8 / 1e9:.4g} Gb/s"
