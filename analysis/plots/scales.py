"""Axes: where they are labelled and how, on equal distances or equal ratios."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from analysis.plots.numbers import decimals_of, told, with_unit
from analysis.plots.style import INK, QUIET
from analysis.plots.texts import LINE, TEXT, cut, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes

    from analysis.plots.charts import Scale

__all__ = ["extent", "scale_x", "scale_y", "share", "steps", "ticks_of"]

Tick = tuple[float, str]


def extent(values: Iterable[float | None], is_log: bool = False, pad: float = 0.05) -> tuple[float, float]:
    """Return the ends of an axis for values, with some room at either side; something where there are none.

    Values that are not finite, and on an axis of ratios those that are not positive, do not count.
    """
    found = [value for value in values if value is not None and math.isfinite(value) and (value > 0 or not is_log)]
    if not found:
        return (1.0, 10.0) if is_log else (0.0, 1.0)
    low, high = min(found), max(found)
    if is_log:
        factor = max((high / low) ** pad, 1.1)
        return low / factor, high * factor
    room = (high - low) * pad
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(high) or 1.0
    return low - room, high + room


def steps(low: float, high: float, count: int) -> list[float]:
    """Return round numbers from one end to the other, at most so many."""
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 25.0, 50.0):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= count:
            return [number * step for number in range(first, last + 1)]
    return []


def _ratios(low: float, high: float, count: int) -> list[float]:
    """Return round numbers at about equal ratios, at most so many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        found = [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(found) <= count:
            return found if len(found) >= 2 else steps(low, high, count)
    return found[:: math.ceil(len(found) / count)]


def ticks_of(scale: Scale, low: float, high: float, count: int, unit: str = "") -> list[Tick]:
    """Return the places of an axis that are labelled, and their labels: those that are wanted, or round ones."""
    if scale.ticks:
        return [(value, text) for value, text in scale.ticks if low <= value <= high]
    values = _ratios(low, high, count) if scale.is_log else steps(low, high, count)
    if scale.is_log:
        return [(value, with_unit(told(value, _digits(value)), unit)) for value in values]
    apart = [right - left for left, right in itertools.pairwise(values)]
    decimals = max((_digits(each) for each in apart), default=decimals_of(values))
    return [(value, with_unit(told(value, decimals), unit)) for value in values]


def _digits(value: float) -> int:
    """Return the decimals that a round number needs."""
    return next((places for places in range(12) if abs(round(value, places) - value) <= 1e-6 * abs(value)), 12)


def scale_x(axes: Axes, scale: Scale, ends: tuple[float, float], unit: str = "") -> None:
    """Give the horizontal axis its ends, its title, and as many labels as there is room for."""
    left, across, right = _inches(axes, 0)

    def room(tick: Tick) -> tuple[float, float]:
        middle = across * share(tick[0], ends, scale.is_log)
        return middle - width_of(tick[1]) / 2 - 0.04, middle + width_of(tick[1]) / 2 + 0.04

    def inside(tick: Tick) -> bool:
        return -left < room(tick)[0] and room(tick)[1] < across + right

    ticks = _fitting(lambda count: [tick for tick in ticks_of(scale, *ends, count, unit) if inside(tick)], 8, room)
    axes.set(xscale="log" if scale.is_log else "linear", xlim=ends)
    axes.set_xticks([value for value, _ in ticks], [text for _, text in ticks])
    axes.set_xticks([], minor=True)
    if scale.title:
        axes.set_xlabel(cut(scale.title, across + left), size=TEXT, color=INK, alpha=QUIET, labelpad=3)


def scale_y(axes: Axes, scale: Scale, ends: tuple[float, float], unit: str = "") -> None:
    """Give the vertical axis its ends and labels; its title belongs above it, where it can be read."""
    _, up, _ = _inches(axes, 1)

    def room(tick: Tick) -> tuple[float, float]:
        middle = up * share(tick[0], ends, scale.is_log)
        return middle - LINE * TEXT / 144, middle + LINE * TEXT / 144

    ticks = _fitting(lambda count: ticks_of(scale, *ends, count, unit), 7, room)
    axes.set(yscale="log" if scale.is_log else "linear", ylim=ends)
    axes.set_yticks([value for value, _ in ticks], [text for _, text in ticks])
    axes.set_yticks([], minor=True)


def share(value: float, ends: tuple[float, float], is_log: bool) -> float:
    """Return where a value is on an axis: 0 at its lower end, 1 at its upper one; on ratios nothing is below 0."""
    if is_log:
        return math.log(max(value, ends[0]) / ends[0]) / math.log(ends[1] / ends[0])
    return (value - ends[0]) / (ends[1] - ends[0])


def _inches(axes: Axes, side: int) -> tuple[float, float, float]:
    """Return the room before the axes, their length, and the room behind them [in]."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    size = float(figure.get_size_inches()[side])
    place = axes.get_position()
    start, end = (place.x0, place.x1) if side == 0 else (place.y0, place.y1)
    return size * start, size * (end - start), size * (1 - end)


def _fitting(
    ticks_at_most: Callable[[int], list[Tick]], most: int, room: Callable[[Tick], tuple[float, float]]
) -> list[Tick]:
    """Return as many labels as there is room for: round numbers further apart, or else every second, third, ... one."""
    tries = [ticks_at_most(count) for count in range(most, 1, -1)]
    tries += [tries[0][::stride] for stride in range(1, len(tries[0]) + 1)]
    return next((ticks for ticks in tries if _are_apart(ticks, room)), [])


def _are_apart(ticks: list[Tick], room: Callable[[Tick], tuple[float, float]]) -> bool:
    return all(room(one)[1] <= room(other)[0] for one, other in itertools.pairwise(ticks))
