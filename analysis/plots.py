"""Pictures: one function a figure, which takes plain data and returns a matplotlib figure."""

from __future__ import annotations

import contextlib
import io
import warnings
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.drawing_parts import draw_parts, is_small
from analysis.drawing_tiers import draw_tiers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.drawing import Box, Text
    from sim import Topology

__all__ = [
    "SUFFIXES",
    "Episode",
    "StepErrors",
    "Stretch",
    "draw_episodes",
    "draw_step_errors",
    "draw_topology",
    "render",
    "style",
]

SUFFIXES = (".svg", ".png", ".pdf")
"""Formats of pictures, by the end of the file's name."""

_HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#8C6D1F")
"""Colours that the colour-blind tell apart, after Okabe and Ito; the last two replace black and yellow."""

_GREY, _INK = "#8a8f98", "#22262b"


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Set the one style of all pictures: plain type on white, and the same bytes from the same data."""
    import matplotlib as mpl

    settings: Any = {
        "figure.facecolor": "white",
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "text.color": _INK,
        "savefig.dpi": 200,
        "svg.hashsalt": "ettrick",
        "path.simplify": False,
        "text.parse_math": False,  # a dollar in a name is a dollar
    }
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # not those of the person who draws
        mpl.rcParams.update(settings)
        # A letter that the face lacks is shown as a box; that is all there is to say.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        yield


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as the content of a file: the same bytes each time.

    Parameters
    ----------
    figure
        The picture.
    suffix
        One of ``SUFFIXES``.
    """
    without_dates: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "Ettrick"},
        ".png": {"Software": "Ettrick"},
        ".pdf": {"CreationDate": None, "Creator": "Ettrick"},
    }
    content = io.BytesIO()
    with style():
        figure.savefig(content, format=suffix.removeprefix("."), metadata=without_dates[suffix])
    return content.getvalue()


def draw_topology(topology: Topology) -> Figure:
    """Draw a cluster: every host, switch and cable of a small one, the tiers of a large one.

    Parameters
    ----------
    topology
        The cluster.
    """
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure

    drawing = draw_parts(topology) if is_small(topology) else draw_tiers(topology)
    with style():
        figure = Figure(figsize=(drawing.width, drawing.height))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set(xlim=(0.0, drawing.width), ylim=(0.0, drawing.height))
        bands = drawing.bands
        axes.add_collection(
            PolyCollection(
                [band.corners for band in bands], facecolors=[_hue(band.hue) for band in bands], alpha=0.28, zorder=1
            )
        )
        lines = drawing.lines
        axes.add_collection(
            LineCollection(
                [line.ends for line in lines],
                colors=[_hue(line.hue) for line in lines],
                linewidths=[line.weight for line in lines],
                alpha=drawing.opacity,
                zorder=2,
            )
        )
        for box in drawing.boxes:
            _draw_box(axes, box)
        for text in drawing.texts:
            _draw_text(axes, text)
    return figure


def _hue(number: int) -> str:
    """Return a colour; grey for what belongs to nothing in particular."""
    return _HUES[number % len(_HUES)] if number >= 0 else _GREY


def _draw_box(axes: Axes, box: Box) -> None:
    from matplotlib.patches import FancyBboxPatch

    color = _hue(box.hue)
    rounding = min(0.04, box.width / 4, box.height / 4)
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2 + rounding, box.y - box.height / 2 + rounding),
            box.width - 2 * rounding,
            box.height - 2 * rounding,
            boxstyle=f"round,pad={rounding}",
            facecolor="#f6f7f8" if box.frame else "white",
            edgecolor="#d5d8dc" if box.frame else color,
            linewidth=0.8 if box.frame else 1.1,
            zorder=0 if box.frame else 4,
        )
    )
    if not box.frame and box.words:
        axes.text(
            box.x, box.y, box.words, ha="center", va="center", size=box.size, color=_INK, linespacing=1.35, zorder=5
        )


def _draw_text(axes: Axes, text: Text) -> None:
    axes.text(
        text.x,
        text.y,
        text.words,
        ha=text.align,
        va="center",
        size=text.size,
        color=_hue(text.hue) if text.hue is not None else _INK,
        weight="bold" if text.bold else "normal",
        linespacing=1.35,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2} if text.opaque else None,
    )


# ------------------------------------------------------------------------------------- modelled beside measured


class StepErrors(NamedTuple):
    """How far modelled steps are from measured ones.

    Parameters
    ----------
    title
        What steps.
    groups
        GPUs [-] and modelled over measured time [-] of each step, by the name of who measured.
    band
        Factor on either side that holds 90 % of such steps, by what is stated [-].
    """

    title: str
    groups: Mapping[str, Sequence[tuple[int, float]]]
    band: float


def draw_step_errors(panels: Sequence[StepErrors]) -> Figure:
    """Draw modelled over measured times of steps against the size of their jobs, one dot a step.

    Parameters
    ----------
    panels
        What is drawn side by side, on common axes.
    """
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(9.0, 5.2))
        axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.085, right=0.985, top=0.93, bottom=0.29, wspace=0.05)
        for each, panel in zip(axes, panels, strict=True):
            _draw_panel(each, panel)
        _scale_panels(axes[0])
        axes[0].set_ylabel("modelled over measured time of a step", color=_INK)
    return figure


def _scale_panels(axes: Axes) -> None:
    """Give common axes their scales: powers of two for GPUs, differences in percent for times."""
    from matplotlib.ticker import NullLocator

    sizes = [8, 64, 512, 4096, 16384]
    away = [-50, -25, -10, 0, 10, 25, 50]
    axes.set(xscale="log", yscale="log", xlim=(3, 32000), ylim=(0.42, 1.68))
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_yticks(
        [1 + each / 100 for each in away], [f"{each:+d} %".replace("-", "−") if each else "0" for each in away]
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _draw_panel(axes: Axes, panel: StepErrors) -> None:
    """Draw the steps of one panel, its band and its legend."""
    axes.set_title(panel.title, loc="left", size=10, weight="bold", color=_INK)
    axes.axhspan(1 / panel.band, panel.band, color=_GREY, alpha=0.14, linewidth=0)
    axes.axhline(1.0, color=_GREY, linewidth=0.8)
    marks = ((color, mark) for mark, color in product("o^s", _HUES))
    for number, ((name, steps), (color, mark)) in enumerate(zip(panel.groups.items(), marks, strict=False)):
        # Jobs of the same size stand side by side, so that no source hides another.
        aside = 2 ** (0.08 * (number - (len(panel.groups) - 1) / 2))
        sizes, ratios = zip(*steps, strict=True)
        axes.scatter(
            [size * aside for size in sizes], ratios, s=12, color=color, marker=mark, alpha=0.8, linewidths=0,
            label=f"{name} ({len(steps)})", zorder=3,
        )  # fmt: skip
    axes.text(
        0.99, 1.01 * panel.band, "the stated band of 90 %", transform=axes.get_yaxis_transform(), ha="right",
        va="bottom", size=7.5, color=_GREY,
    )  # fmt: skip
    axes.set_xlabel("GPUs", color=_INK)
    axes.tick_params(colors=_INK, length=0)
    axes.grid(axis="y", color="#e6e8eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_GREY)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False, fontsize=8, handletextpad=0.1,
        columnspacing=1.2, labelcolor=_INK,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- how a job comes back


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
    "stepping": "#0072B2",
    "stepping, fewer": "#56B4E9",
    "detection": "#D55E00",
    "reschedule": "#E69F00",
    "initialize": "#009E73",
    "restore": "#CC79A7",
    "starved": "#8a8f98",
    "queued": "#c3c7cd",
    "checkpoint_stall": "#7A5195",
}


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
            ncols=len(used), fontsize=8, labelcolor=_INK, handlelength=1.2, columnspacing=1.4,
        )  # fmt: skip
    return figure


def _draw_episode(axes: Axes, episode: Episode, span: float, rows: int) -> None:
    """Draw one panel: a bar for each row, and the failure."""
    axes.set_title(episode.title, loc="left", size=9, weight="bold", color=_INK)
    for each in episode.stretches:
        axes.barh(each.row, each.end - each.start, left=each.start, height=0.62, color=_PHASES[each.name], linewidth=0)
    axes.axvline(0.0, color=_INK, linewidth=1.0)
    axes.set(xlim=(-1.0, span), ylim=(rows - 0.5, -0.5))
    axes.set_yticks(range(len(episode.rows)), episode.rows)
    axes.set_xlabel("minutes after the failure", size=8, color=_INK)
    axes.tick_params(colors=_INK, length=0, labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_GREY)
