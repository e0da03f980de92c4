"""Draw how far modelled steps are from published ones: ``python docs/pictures/steps.py FILE``."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.calibrate.fit import as_shipped
from analysis.calibrate.rows import default_folder, read_mixed, read_steps
from analysis.page.charts import SUFFIXES, StepErrors, draw_step_errors, render
from analysis.terminal import console
from sim.catalog import steps
from sim.steps.plan import BAND90

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.calibrate.rows import Row

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
    """Return the published steps of a folder beside what the numbers of the catalog give.

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


def _ratios(rows: Iterable[Row]) -> dict[str, list[tuple[int, float]]]:
    """Return GPUs [-] and modelled over measured time [-] of each step, by author."""
    found: dict[str, list[tuple[int, float]]] = {name: [] for name in _AUTHORS.values()}
    for row in rows:
        found[_AUTHORS[row.source]].append((row.work.gpus, as_shipped(row) / row.measured))
    return {name: ratios for name, ratios in found.items() if ratios}


def main(arguments: list[str] | None = None) -> int:
    """Draw; return 0, or 2 if the tables are not as they should be or the picture cannot be written."""
    parser = argparse.ArgumentParser(prog="step-errors", description="Draw modelled beside published steps.")
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
