"""Draw how far modelled steps are from published ones: ``python docs/pictures/steps.py FILE``."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.page.charts import SUFFIXES, render, style
from ettrick.analysis.page.charts.sheet import FAINT, GREY, HUES, INK
from ettrick.analysis.terminal import console
from ettrick.analysis.validation.published_steps import as_shipped, default_folder, read_mixed, read_steps
from ettrick.sim.catalog import steps
from ettrick.sim.steps.plan import BAND90

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ettrick.analysis.validation.published_steps import MeasuredStep

_AUTHORS = {
    "megatron_bridge": "Megatron-Bridge",
    "nemo_2407": "NeMo",
    "nemo_longseq": "NeMo",
    "mlperf_gpt3": "MLPerf Training, GPT-3",
    "megatron_h100_weak": "Megatron-LM on H100",
    "megatron_h100_strong": "Megatron-LM on H100",
    "llama3_table4": "Llama 3 report",
    "vtrain_multi": "vTrain",
    "llm_foundry_A100": "LLM Foundry",
    "llm_foundry_A100-40": "LLM Foundry",
    "megatron_sc21": "Megatron-LM on A100",
    "korthikanti": "Megatron-LM on A100",
    "torchtitan": "TorchTitan",
    "mt_nlg": "DeepSpeed (MT-NLG)",
    "DeepSeekV3": "DeepSeek-V3",
    "Kimi_K2": "Kimi K2",
    "Qwen3_235B_a22B": "Qwen3 235B-A22B",
    "Qwen3_30B_a3B": "Qwen3 30B-A3B",
}

"""What sources are called in the legend, in its order; several tables of the same authors are one."""


def panels(folder: Path) -> list[StepErrors]:
    """Return the published steps of a folder next to what the numbers of the catalog give.

    Raises
    ------
    ValueError
        If a table is not there or not as it should be.
    """
    kinds = (
        ("Models without experts", "fitted", read_steps(folder).rows),
        ("Models with experts (Megatron-Bridge)", "experts", read_mixed(folder).rows),
    )
    sigma = steps.fit()["sigma"]
    return [StepErrors(title, _ratios(rows), math.exp(BAND90 * sigma[name])) for title, name, rows in kinds]


def _ratios(rows: Iterable[MeasuredStep]) -> dict[str, list[tuple[int, float]]]:
    """Return GPUs [-] and modelled over measured time [-] of each step, by author."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in _AUTHORS.values()}
    for row in rows:
        found[_AUTHORS[row.source]].append((row.work.gpus, as_shipped(row) / row.measured))
    return {name: ratios for name, ratios in found.items() if ratios}


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
    marks = ((color, mark) for mark, color in itertools.product("o^s", HUES))
    for number, ((name, points), (color, mark)) in enumerate(zip(panel.groups.items(), marks, strict=False)):
        # Jobs of the same size stand side by side, so that no source hides another.
        aside = 2 ** (0.08 * (number - (len(panel.groups) - 1) / 2))
        sizes, ratios = zip(*points, strict=True)
        axes.scatter(
            [size * aside for size in sizes], ratios, s=12, color=color, marker=mark, alpha=0.8, linewidths=0,
            label=f"{name} ({len(points)})", zorder=3,
        )  # fmt: skip
    axes.text(
        0.99, 1.01 * panel.band, "the stated band of 90 %", transform=axes.get_yaxis_transform(), ha="right",
        va="bottom", size=7.5, color=GREY,
    )  # fmt: skip
    axes.set_xlabel("GPUs", color=INK)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False, fontsize=8, handletextpad=0.1,
        columnspacing=1.2, labelcolor=INK,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Draw; return 0, or 2 if the tables are not as they should be or the picture cannot be written."""
    parser = argparse.ArgumentParser(prog="step-errors", description="Draw modelled and published steps.")
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the picture: {', '.join(SUFFIXES)}")
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="folder of the tables")
    options = parser.parse_args(arguments)
    if options.file.suffix not in SUFFIXES:
        parser.error(f"{options.file.name} has to end in {', '.join(SUFFIXES)}")
    try:
        options.file.write_bytes(render(draw_step_errors(panels(options.data)), options.file.suffix))
    except (OSError, ValueError) as error:
        console(sys.stderr).print(f"step-errors: {error}", soft_wrap=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
