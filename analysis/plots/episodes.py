"""What follows on a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.calendar import BUCKETS
from analysis.plots.style import GREY, INK, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Episode", "Stretch", "draw_episodes"]


class Stretch(NamedTuple):
    """A phase of a group: what it does, from when to when [min], and in which row of the picture (0 at the top)."""

    row: int
    name: str
    start: float
    end: float


class Episode(NamedTuple):
    """What follows on one failure.

    Parameters
    ----------
    title
        What fails.
    rows
        Whose phases there are, from the top.
    stretches
        The phases; the failure is at time 0.
    """

    title: str
    rows: Sequence[str]
    stretches: Sequence[Stretch]


_PHASES = {
    "stepping": BUCKETS["productive"][0],
    "stepping, fewer": BUCKETS["degraded"][0],
    **{name: BUCKETS[name][0] for name in ("detection", "reschedule", "initialize", "restore", "starved")},
    "queued": "#c3c7cd",
    "checkpoint_stall": BUCKETS["checkpoint_stall"][0],
}
"""Colours as on a calendar, in the order of the key."""


def draw_episodes(episodes: Sequence[Episode], spans: Sequence[float]) -> Figure:
    """Draw the phases between failures and the next useful step, one panel a failure on a common scale of time.

    Parameters
    ----------
    episodes
        What is drawn side by side.
    spans
        How long after the failure each panel goes on [min].
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    with style():
        rows = max(len(episode.rows) for episode in episodes)
        figure = Figure(figsize=(9.0, 1.5 + 0.42 * rows))
        ratios = {"width_ratios": [span + 1 for span in spans], "wspace": 0.16}
        panels = figure.subplots(1, len(episodes), gridspec_kw=ratios, squeeze=False)[0]
        figure.subplots_adjust(
            left=0.07, right=0.985, top=1 - 0.45 / (1.5 + 0.42 * rows), bottom=0.7 / (1.5 + 0.42 * rows)
        )
        for axes, episode, span in zip(panels, episodes, spans, strict=True):
            _draw_episode(axes, episode, span, rows)
        used = [name for name in _PHASES if any(each.name == name for one in episodes for each in one.stretches)]
        figure.legend(
            handles=[Patch(color=_PHASES[name], label=name) for name in used], loc="lower center", frameon=False,
            ncols=len(used), fontsize=8, labelcolor=INK, handlelength=1.2, columnspacing=1.4,
        )  # fmt: skip
    return figure


def _draw_episode(axes: Axes, episode: Episode, span: float, rows: int) -> None:
    """Draw one panel: a bar for each row, and the failure."""
    axes.set_title(episode.title, loc="left", size=9, weight="bold", color=INK)
    for each in episode.stretches:
        axes.barh(each.row, each.end - each.start, left=each.start, height=0.62, color=_PHASES[each.name], linewidth=0)
    axes.axvline(0.0, color=INK, linewidth=1.0)
    axes.set(xlim=(-1.0, span), ylim=(rows - 0.5, -0.5))
    axes.set_yticks(range(len(episode.rows)), episode.rows)
    axes.set_xlabel("minutes after the failure", size=8, color=INK)
    axes.tick_params(colors=INK, length=0, labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
