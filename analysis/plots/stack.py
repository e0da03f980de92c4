"""One bar that is made of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.plots.charts import Scale
from analysis.plots.numbers import decimals_of, told, with_unit
from analysis.plots.scales import scale_x
from analysis.plots.sheet import Entry, Margins, open_sheet
from analysis.plots.style import GREY, hue, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from analysis.plots.charts import Part, Stack

__all__ = ["draw_stack"]

_FADED = (1.0, 0.7, 0.45, 0.3)
"""Opacities of parts of one hue, one after another."""


def draw_stack(chart: Stack) -> Figure:
    """Draw the parts side by side from 0 on, negative ones at its left, and name each with its size above."""
    decimals = decimals_of([part.amount for part in chart.parts])
    fades = _fades(chart.parts)
    unit = "" if chart.unit == "%" else f" {chart.unit}"
    key = [
        Entry(f"{part.name} {with_unit(told(part.amount, decimals), chart.unit)}{unit}", hue(part.hue), fade)
        for part, fade in zip(chart.parts, fades, strict=True)
    ]
    high = sum(part.amount for part in chart.parts if part.amount > 0)
    low = sum(part.amount for part in chart.parts if part.amount < 0)
    with style():
        figure, axes = open_sheet(chart.title, 0.5, Margins(0.25, 0.35, 0.05, 0.5 if unit else 0.34), key=key)
        scale_x(axes, Scale(unit.strip()), (low, high) if low < high else (0.0, 1.0), chart.unit)
        axes.set(ylim=(-0.5, 0.5), yticks=[])
        right, left = 0.0, 0.0
        for part, fade in zip(chart.parts, fades, strict=True):
            start = right if part.amount >= 0 else left
            axes.barh(
                0.0, part.amount, left=start, height=0.8, color=hue(part.hue), alpha=fade, edgecolor="white",
                linewidth=0.8,
            )  # fmt: skip
            right, left = (start + part.amount, left) if part.amount >= 0 else (right, start + part.amount)
        axes.axvline(0.0, color=GREY, linewidth=0.8)
    return figure


def _fades(parts: Sequence[Part]) -> list[float]:
    """Return the opacity of each part: later parts of a hue are lighter, so that neighbours can be told apart."""
    seen: dict[int, int] = {}
    found = []
    for part in parts:
        number = seen.get(part.hue, 0)
        seen[part.hue] = number + 1
        found.append(_FADED[number % len(_FADED)])
    return found
