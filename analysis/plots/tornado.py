"""Tornadoes: what each input alone does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.numbers import decimals_of, signed, told, with_unit
from analysis.plots.rows import open_rows
from analysis.plots.sheet import Entry
from analysis.plots.style import BLUE, GREY, INK, ORANGE, style
from analysis.plots.texts import TEXT, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.charts import Range, Swing, Tornado

    End = tuple[str, float, Range | None]

__all__ = ["draw_tornado"]

_FULL = 0.64
_LOW, _HIGH = "low end of the input", "high end of the input"
_LABEL = 1.1
"""Width of the label of an end at most [in]."""


class _Arm(NamedTuple):
    """A bar to one side: its row, how high it is, its end, its colour, and where its label begins."""

    place: float
    height: float
    end: End
    color: str
    edge: float

    @property
    def is_left(self) -> bool:
        """Whether it goes to the left."""
        return self.end[1] < 0


def draw_tornado(chart: Tornado) -> Figure:
    """Draw a bar to either side for the two ends of each input, labelled with the end and what it changes."""
    arms = [arm for row, swing in enumerate(chart.swings) for arm in _arms(row, swing)]
    decimals = decimals_of([arm.end[1] for arm in arms])
    texts = [_label(arm.end, decimals, chart.unit) for arm in arms]
    ends = (min((arm.edge for arm in arms), default=0.0), max((arm.edge for arm in arms), default=0.0))
    ends = (min(ends[0], 0.0), max(ends[1], 0.0))
    center = with_unit(told(chart.center[1], decimals), chart.unit)
    sided = [(arm.is_left, text) for arm, text in zip(arms, texts, strict=True)]
    with style():
        figure, axes = open_rows(
            chart.title, [swing.name for swing in chart.swings], ends if ends[0] < ends[1] else (-1.0, 1.0),
            chart.unit, row=0.36 if any(arm.height < _FULL for arm in arms) else 0.28,
            before=[text for is_left, text in sided if is_left],
            behind=[text for is_left, text in sided if not is_left],
            note=f"Change from {chart.center[0]}: {center}", key=[Entry(_LOW, BLUE), Entry(_HIGH, ORANGE)],
        )  # fmt: skip
        for arm, text in zip(arms, texts, strict=True):
            _draw_arm(axes, arm, text)
        axes.axvline(0.0, color=GREY, linewidth=1.0)
    return figure


def _arms(row: int, swing: Swing) -> list[_Arm]:
    """Return the bars of an input: on one line if they go to different sides, else one above the other."""
    low, high = swing.low, swing.high
    spots = [[end[1], *(end[2] or ())] for end in (low, high)]
    if low[1] * high[1] < 0:
        both = [*spots[0], *spots[1]]
        return [
            _Arm(row, _FULL, end, color, min(both) if end[1] < 0 else max(both))
            for end, color in ((low, BLUE), (high, ORANGE))
        ]
    return [
        _Arm(row + shift, _FULL / 2, end, color, min(*spot, 0.0) if end[1] < 0 else max(*spot, 0.0))
        for end, color, shift, spot in ((low, BLUE, -0.2, spots[0]), (high, ORANGE, 0.2, spots[1]))
    ]


def _label(end: End, decimals: int, unit: str) -> str:
    return f"{cut(end[0], _LABEL)}: {with_unit(signed(end[1], decimals), unit)}"


def _draw_arm(axes: Axes, arm: _Arm, text: str) -> None:
    axes.barh(arm.place, arm.end[1], height=arm.height, color=arm.color, linewidth=0)
    if arm.end[2] is not None:
        axes.plot(arm.end[2], [arm.place, arm.place], color=INK, linewidth=1.4, solid_capstyle="butt")
    axes.annotate(
        text, (arm.edge, arm.place), (-4 if arm.is_left else 4, 0), textcoords="offset points", size=TEXT, color=INK,
        ha="right" if arm.is_left else "left", va="center_baseline",
    )  # fmt: skip
