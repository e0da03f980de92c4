"""Modelled beside measured times of steps."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from analysis.plots.style import GREY, HUES, INK, style

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["StepErrors", "draw_step_errors"]


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
        axes[0].set_ylabel("modelled over measured time of a step", color=INK)
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
    axes.set_title(panel.title, loc="left", size=10, weight="bold", color=INK)
    axes.axhspan(1 / panel.band, panel.band, color=GREY, alpha=0.14, linewidth=0)
    axes.axhline(1.0, color=GREY, linewidth=0.8)
    marks = ((color, mark) for mark, color in product("o^s", HUES))
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
        va="bottom", size=7.5, color=GREY,
    )  # fmt: skip
    axes.set_xlabel("GPUs", color=INK)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis="y", color="#e6e8eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False, fontsize=8, handletextpad=0.1,
        columnspacing=1.2, labelcolor=INK,
    )  # fmt: skip
