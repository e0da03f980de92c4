"""Where labels go so that none covers another: in a column, in lanes above the axes, and beside points."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Box", "beside", "lanes", "pushed_apart"]

_DOT = 0.05
"""Half the size of a point, which labels stay away from [in]."""
_ANGLES = (0, 180, 45, -45, 135, -135, 90, -90, 22, -22, 158, -158, 68, -68, 112, -112)
"""Directions in which a label may be, the best first [deg]."""


class Box(NamedTuple):
    """A rectangle [in]."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles have an inside in common."""
        return bool(_overlap(np.array([self]), np.array([other]))[0, 0])


def pushed_apart(places: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return middles of labels in a column, near their places, in the same order, none on another.

    Neighbours that would touch form a block whose middle is the mean of where they want to be: no other places without
    overlap have a smaller sum of squared moves, weighted by size. A block is then moved inside the column.

    Parameters
    ----------
    places, sizes
        Where each wants its middle, and how much of the column it takes [in].
    low, high
        Ends of the column. If they do not fit, they go on above it.
    """
    order = sorted(range(len(places)), key=lambda number: (places[number], number))
    blocks: list[tuple[float, float, list[int]]] = []  # where it begins, how long it is, who is in it
    for number in order:
        size = sizes[number]
        block = (places[number] - size / 2, size, [number])
        while blocks and blocks[-1][0] + blocks[-1][1] > block[0]:
            start, length, members = blocks.pop()
            total = length + block[1]
            wish = (start * length + (block[0] - length) * block[1]) / total
            block = (wish, total, members + block[2])
        blocks.append(block)
    found = [0.0] * len(places)
    starts = _inside(blocks, low, high)
    for (_, _, members), start in zip(blocks, starts, strict=True):
        below = start
        for number in members:
            found[number] = below + sizes[number] / 2
            below += sizes[number]
    return found


def _inside(blocks: Sequence[tuple[float, float, list[int]]], low: float, high: float) -> list[float]:
    """Return where blocks begin when none may stand out of the column."""
    starts = [start for start, _, _ in blocks]
    for number in reversed(range(len(blocks))):
        starts[number] = min(starts[number], high - blocks[number][1])
        high = starts[number]
    for number, (_, length, _) in enumerate(blocks):
        starts[number] = max(starts[number], low)
        low = starts[number] + length
    return starts


def lanes(stems: Sequence[float], widths: Sequence[float], high: float) -> list[tuple[float, int]]:
    """Return for each label above the axes where it begins and its lane, so that none covers another or its stem.

    A label stands at the right of its stem like a flag, in the lane above those whose stems it passes; where the room
    ends, at the left of it.

    Parameters
    ----------
    stems, widths
        The place that each names, and how wide it is [in].
    high
        Where the room ends; it begins at 0.
    """
    found: dict[int, tuple[float, int]] = {}
    order = sorted(range(len(stems)), key=lambda number: (-stems[number], number))
    at_right = [number for number in order if stems[number] + widths[number] <= high]
    for number in [*at_right, *(number for number in order if number not in at_right)]:
        width = widths[number]
        start = stems[number] if number in at_right else max(min(stems[number], high) - width, 0.0)
        passed = [
            lane
            for other, (begin, lane) in found.items()
            if start <= stems[other] <= start + width or (begin < start + width and start < begin + widths[other])
        ]
        found[number] = (start, max(passed, default=-1) + 1)
    return [found[number] for number in range(len(stems))]


def beside(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    room: Box,
    filled: Sequence[Box],
) -> list[Box | None]:
    """Return where the label of each point goes, or ``None`` where nothing near it is free.

    The places are tried from the nearest on, on the right first: a label is never on another one, on a point, or on
    what is filled.

    Parameters
    ----------
    points, sizes
        Where each is, and how wide and high its label is [in].
    room
        Where labels may be.
    filled
        Where they may not be.
    """
    dots = [Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in points]
    taken = np.array([*filled, *dots], dtype=float).reshape(-1, 4)
    found: list[Box | None] = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        tries = _tries(x, y, width, height, room)
        free = tries[~_overlap(tries, taken).any(axis=1)]
        found.append(Box(*free[0].tolist()) if len(free) else None)
        taken = np.concatenate([taken, free[:1]])
    return found


def _overlap(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which rectangles have an inside in common, (n, m)."""
    below = one[:, None, :2] < other[None, :, 2:]
    above = one[:, None, 2:] > other[None, :, :2]
    return np.asarray((below & above).all(axis=2))


def _tries(x: float, y: float, width: float, height: float, room: Box) -> NDArray[np.float64]:
    """Return where a label could be, the best place first, (n, 4)."""
    away = _DOT + 0.04 + 0.16 * np.arange(9.0)[:, None]
    across, up = np.cos(np.radians(_ANGLES)), np.sin(np.radians(_ANGLES))
    middle_x = (x + across * (away + width / 2)).ravel()
    middle_y = (y + up * (away + height / 2)).ravel()
    boxes = np.stack(
        [middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2], axis=1
    )  # fmt: skip
    inside = (boxes[:, :2] >= room[:2]).all(axis=1) & (boxes[:, 2:] <= room[2:]).all(axis=1)
    return np.asarray(boxes[inside])
