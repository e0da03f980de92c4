"""Draw how a job recovers with each recovery preset: ``python docs/pictures/recovery.py FOLDER``.

A process that ends with an error, a GPU that is lost and a node that is lost strike the job of the scenario
``recovery-16k``, hours apart; what follows is simulated, and drawn as it was. A table of the times goes next to the
pictures, as ``recovery-times.txt``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.metrics import BUCKETS
from ettrick.analysis.page.charts import render, style
from ettrick.analysis.page.charts.sheet import GREY, INK, hue
from ettrick.analysis.terminal import console
from ettrick.sim import Bucket
from ettrick.sim.units import HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.sim import PhaseSpan, Timeline

SPANS = (6.5, 8.5, 15.0)

"""How long after the failures the panels go on [min]."""


_NODE, _GPUS = 700, 8


class _Strike(NamedTuple):
    """A failure: what it is called, the source that has it, the unit that it strikes, and when [h]."""

    title: str
    source: str
    unit: int
    time: float


_STRIKES = (
    _Strike("Process error", "{use: component, name: a, part: node, rate: 0, fault: process, repair: 0 s}", 10, 3.05),
    _Strike("GPU lost", "{use: component, name: b, part: gpu, rate: 0, repair: 1 d}", _NODE * _GPUS, 6.08),
    _Strike("Node lost", "{use: component, name: c, part: node, rate: 0, repair: 1 d}", 2 * _NODE, 9.11),
)

_END, _SEED = 10.0, 3


def episodes(preset: str) -> list[Episode]:
    """Return what follows on each of the failures with a preset."""
    timeline = _simulated(preset)
    return [_episode(strike, timeline, span) for strike, span in zip(_STRIKES, SPANS, strict=True)]


def times(presets: Iterable[str]) -> str:
    """Return a table of the time to the next useful step and of the work undone, by preset and failure."""
    rows = [f"| preset | {' | '.join(strike.title.lower() for strike in _STRIKES)} |", "|---|---|---|---|"]
    for preset in presets:
        timeline = _simulated(preset)
        rows.append(f"| `{preset}` | {' | '.join(_words(strike, timeline) for strike in _STRIKES)} |")
    return "\n".join(rows) + "\n"


def _words(strike: _Strike, timeline: Timeline) -> str:
    """Return how long the job stood after a failure, and how much work was undone, in words."""
    zero = strike.time * HOUR
    steps = (Bucket.PRODUCTIVE, Bucket.DEGRADED)
    again = min(each.start for each in timeline.spans if not each.group and each.bucket in steps and each.start > zero)
    return f"{(again - zero) / MINUTE:.1f} + {_lost(timeline, zero - MINUTE, again):.1f} min"


def _simulated(preset: str) -> Timeline:
    """Return what happens to the job with a preset."""
    sources = ", ".join(strike.source for strike in _STRIKES)
    changes = [f"recovery.use={preset}", f"failures=[{sources}]", f"horizon={_END} h", f"seed={_SEED}"]
    prepared = sim.prepare(sim.load(sim.find("recovery-16k"), changes))
    count = len(_STRIKES)
    struck = replace(
        sim.trace(prepared, 0),
        time=np.array([strike.time * HOUR for strike in _STRIKES]),
        source=np.arange(count),
        slot=np.array([strike.unit for strike in _STRIKES]),
        round=np.zeros(count, dtype=np.int64),
        until=np.full(count, np.nan),
    )
    timeline = sim.run(prepared, 0, struck, keeps_timeline=True).timeline
    assert timeline is not None, "asked for"
    return timeline


def _episode(strike: _Strike, timeline: Timeline, span: float) -> Episode:
    """Return the phases around a failure, the group of the job first."""
    zero = strike.time * HOUR
    first, last = zero - MINUTE, zero + span * MINUTE
    inside = [each for each in timeline.spans if each.end > first and each.start < last]
    groups = sorted({each.group for each in inside})
    stretches = []
    for each in inside:
        start, end = ((min(max(time, first), last) - zero) / MINUTE for time in (each.start, each.end))
        stretches.append(Stretch(groups.index(each.group), _name(each), start, end))
    rows = ["job", *(f"replica {group - 1}" for group in groups[1:])]
    return Episode(f"{strike.title}\n{_lost(timeline, first, last):.1f} min of work undone", rows, stretches)


def _lost(timeline: Timeline, first: float, last: float) -> float:
    """Return how much work is taken back between two times [min]."""
    works = [each.work for each in timeline.milestones if first <= each.time <= last]
    return sum(max(before - after, 0.0) for before, after in itertools.pairwise(works)) / MINUTE


def _name(span: PhaseSpan) -> str:
    """Return what a group does, in words."""
    if span.bucket in (Bucket.PRODUCTIVE, Bucket.DEGRADED):
        return "stepping, fewer" if span.name or span.bucket == Bucket.DEGRADED else "stepping"
    return Bucket(span.bucket).name.lower()


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
    "stepping": hue(BUCKETS["productive"].hue),
    "stepping, fewer": hue(BUCKETS["degraded"].hue),
    **{name: hue(BUCKETS[name].hue) for name in ("detection", "reschedule", "initialize", "restore", "starved")},
    "queued": "#c3c7cd",
    "checkpoint_stall": hue(BUCKETS["checkpoint_stall"].hue),
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


def main(arguments: list[str] | None = None) -> int:
    """Draw every preset; return 0, or 2 if a picture cannot be written."""
    parser = argparse.ArgumentParser(prog="recovery-pictures", description="Draw how a job recovers, by preset.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the pictures go")
    options = parser.parse_args(arguments)
    presets = list(sim.inventory()["recovery presets (recovery.use)"])
    files = {f"recovery-{preset}.svg": render(draw_episodes(episodes(preset), SPANS), ".svg") for preset in presets}
    files["recovery-times.txt"] = times(presets).encode()
    try:
        for name, content in files.items():
            (options.folder / name).write_bytes(content)
    except OSError as error:
        console(sys.stderr).print(f"{options.folder}: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
