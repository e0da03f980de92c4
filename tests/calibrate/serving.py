"""Fit the model of inference to published steps, and compare it with what was not fitted: ``make fit-serving``."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ettrick.analysis.amounts import empty_table, percent_text
from ettrick.analysis.terminal import console
from ettrick.analysis.validation.published_serving import (
    MODELS,
    disaggregated,
    errors,
    first_tokens,
    kinds,
    mlperf,
    mlperf_errors,
    node_powers,
    offline,
    phases,
    read,
    recommended,
    soft,
)
from ettrick.analysis.validation.published_steps import default_folder, each_record, mape
from ettrick.sim import catalog
from ettrick.sim.steps.serving import Replica, Requests, traffic
from tests.calibrate.outcome import error_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from ettrick.analysis.validation.published_serving import Key, ServingSteps
    from ettrick.analysis.validation.published_steps import Array
    from ettrick.sim.steps.hardware import Precision


Priors: TypeAlias = "Mapping[Key, tuple[float, float]]"

_DENSE: Priors = {
    ("memory", "hopper"): (0.92, 0.1),
    ("memory", "blackwell"): (0.89, 0.1),
    ("gemm", "bf16"): (0.75, 0.3),
    ("gemm", "fp8"): (0.5, 0.3),
    ("gemm", "nvfp4"): (0.4, 0.3),
    ("", "attention"): (0.4, 0.3),
    ("", "collective"): (6e-6, 0.3),
    ("", "step"): (0.5e-3, 1.0),
    ("", "touches"): (50.0, 1.0),
    ("trt-llm", "launch"): (40e-6, 0.7),
    ("trt-llm", "sequence"): (25e-6, 0.7),
    ("vllm", "launch"): (40e-6, 0.7),
    ("vllm", "sequence"): (25e-6, 0.7),
}
"""Numbers that dense models determine: centre of the prior, and the standard deviation of its logarithm.

Centres are what kernels reach alone (memory, products), all-reduce inside a captured graph, and launches of a few
microseconds for about ten kernels of a layer.
"""

_SHARES = ("memory", "gemm", "attention", "latent", "expert_read")
"""What is a share, of which no more than all is reached."""

_EXPERTS: Priors = {
    ("", "expert_read"): (0.8, 0.4),
    ("", "expert_width"): (2000.0, 0.7),
    ("", "expert_launch"): (30e-6, 0.7),
    ("", "latent"): (0.3, 0.5),
    ("sglang", "launch"): (40e-6, 0.7),
    ("sglang", "sequence"): (25e-6, 0.7),
}
"""The same of models with experts; only these were measured with SGLang."""


def fit(groups: Sequence[ServingSteps], priors: Priors, known: Mapping[Key, float]) -> dict[Key, float]:
    """Return the numbers with the least robust error of the logarithm of times, given priors on their logarithms."""
    from scipy.optimize import least_squares

    keys = list(priors)
    start, widths = np.array([*priors.values()]).T
    most = np.where([of in _SHARES or name in _SHARES for of, name in keys], -np.log(start), np.inf)

    def values(x: Array) -> dict[Key, float]:
        return {**known, **dict(zip(keys, (start * np.exp(x)).tolist(), strict=True))}

    def residuals(x: Array) -> Array:
        return np.concatenate([soft(np.log1p(errors(groups, values(x)))), x / widths])

    return values(least_squares(residuals, np.zeros(len(keys)), bounds=(-np.inf, most)).x)


def left_out(
    groups: Sequence[ServingSteps], of: Callable[[ServingSteps], str], priors: Priors, known: Mapping[Key, float]
) -> dict[str, Array]:
    """Return the errors of each set of groups after a fit to all others [-]."""
    names = dict.fromkeys(of(group) for group in groups)
    found = {}
    for name in names:
        numbers = fit([group for group in groups if of(group) != name], priors, known)
        found[name] = errors([group for group in groups if of(group) == name], numbers)
    return found


def one_factor(found: Mapping[str, Array]) -> Array:
    """Return what is left of errors by model and GPU when each GPU has a factor, the median of its rows [-]."""
    by_gpu: dict[str, list[Array]] = defaultdict(list)
    for name, errors_ in found.items():
        by_gpu[name.rpartition(" ")[2]].append(1 + errors_)
    ratios = [np.concatenate(parts) for parts in by_gpu.values()]
    return np.concatenate([each / np.median(each) - 1 for each in ratios])


def powers(data: Path) -> tuple[dict[str, tuple[float, float, float]], dict[str, Array]]:
    """Return the fitted power of GPUs by generation and of all (``other``), and the errors of rows of dense models [-].

    P / TDP = a + b (share of bandwidth) + c (share of peak), of measured throughput and batch.
    """
    from scipy.optimize import nnls

    points: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    engine, constants = catalog.engines()["vllm"], catalog.serving_constants()
    for row in each_record(data / "mlenergy_llm.csv", dict):
        model = MODELS.get(row["model"].removesuffix("-Instruct"))
        chip = catalog.accelerators()[row["gpu"].lower()]
        if model is None or row["architecture"] != "Dense Transformer" or chip.power is None:
            continue
        weights: Precision = "fp8" if row["weights"] == "fp8" else "bf16"
        replica = Replica(catalog.models()[model], chip, engine, constants, weights, "bf16", tensor=int(row["tp"]))
        batch = float(row["mean_batch"])
        output = float(row["mean_output_tokens"])
        seconds = batch / float(row["output_tokens_per_s"])
        moved, done = traffic(replica, batch, Requests(0.0, output))
        share = float(row["gpu_power_W"]) / (int(row["gpus"]) * chip.power)
        peak = chip.peak[replica.products]
        for generation in (chip.generation, "other"):
            points[generation].append((share, moved / seconds / chip.memory_bandwidth, done / seconds / peak))
    fitted, found = {}, {}
    for generation, rows in points.items():
        table = np.array(rows)
        inputs = np.column_stack([np.ones(len(table)), table[:, 1:]])
        solution = nnls(inputs / table[:, :1], np.ones(len(table)))[0]
        fitted[generation] = (float(solution[0]), float(solution[1]), float(solution[2]))
        found[generation] = np.minimum(inputs @ solution, 1) / table[:, 0] - 1
    return fitted, found


def main(arguments: list[str] | None = None) -> int:
    """Fit and print; return 0, 1 if a target is missed or 2 if the tables are not there."""
    parser = argparse.ArgumentParser(prog="fit-serving", description="Fit the model of inference to published steps.")
    folder = default_folder().parent / "serving"
    parser.add_argument("--data", type=Path, default=folder, metavar="DIR", help="folder of the tables")
    data = parser.parse_args(arguments).data
    try:
        groups, unused = read(data / "served_agg.csv")
        return 0 if _print_fit(console(sys.stdout), groups, unused, data) else 1
    except OSError as error:
        console(sys.stderr).print(f"fit-serving: {error}", soft_wrap=True)
        return 2


def _print_fit(out: Console, groups: Sequence[ServingSteps], unused: Counter[str], data: Path) -> bool:
    """Print the fitted numbers, errors by group, and what comes of the targets; return whether all are reached."""
    for reason, count in unused.items():
        out.print(f"not fitted: {count} rows: {reason}")
    dense, experts = kinds(groups)
    numbers = fit(dense, _DENSE, {})
    everything = fit(experts, _EXPERTS, numbers)
    fitted, drawn = powers(data)
    table = empty_table("", "fitted")
    for (of, name), value in everything.items():
        table.add_row(f"{of or 'constants'} {name}", f"{value:.4g}")
    for name, values in fitted.items():
        table.add_row(f"power {name}", ", ".join(f"{value:.3g}" for value in values))
    hosts, apart = phases(data)
    for (of, name), value in hosts.items():
        table.add_row(f"{of} {name}", f"{value:.4g}")
    out.print(table)
    table = empty_table("fitted together", "rows", "mean error", "bias", "worst")
    by_name: dict[str, list[ServingSteps]] = defaultdict(list)
    for group in (*dense, *experts):
        by_name[group.name].append(group)
    for name, parts in by_name.items():
        table.add_row(name, *error_cells(errors(parts, everything)))
    out.print(table)
    unseen = left_out(dense, lambda group: group.name, _DENSE, {})
    foreign = left_out(dense, lambda group: f"dense models, {group.replica.chip.generation}", _DENSE, {})
    unmet = left_out(experts, lambda group: group.family, _EXPERTS, numbers)
    throughput = offline(data, everything)
    pooled, unknown = disaggregated(data)
    out.print(f"disaggregated, not used: {unknown} rows: they do not say how many workers there are")
    table = empty_table("not shown to the fit", "rows", "mean error", "bias", "worst")
    for name, found in (*unseen.items(), *foreign.items(), *unmet.items()):
        table.add_row(name, *error_cells(found))
    systems = mlperf(data)
    for kind in sorted({(each.model, each.accelerator, each.release) for each in systems}):
        same = [each for each in systems if (each.model, each.accelerator, each.release) == kind]
        table.add_row(f"MLPerf {' '.join(kind)}, offline tokens/s", *error_cells(mlperf_errors(same)))
    for name, found in throughput.items():
        table.add_row(f"{name}, offline tokens/s", *error_cells(found))
    for name, found in recommended(data).items():
        table.add_row(f"MLPerf {name}, offline queries/s", *error_cells(found))
    out.print(table)
    checks = [
        ("TPOT, dense models, fitted", errors(dense, everything), 0.09),
        ("TPOT, dense models, group left out", np.concatenate(list(unseen.values())), 0.18),
        ("TPOT, experts, fitted", errors(experts, everything), 0.25),
        ("TPOT, experts, worst model left out", max(unmet.values(), key=mape), 0.35),
        ("offline tokens/s, TensorRT-LLM", np.concatenate(list(throughput.values())), 0.15),
        ("offline tokens/s, one factor a GPU", one_factor(throughput), 0.10),
        ("TPOT, disaggregated, not fitted", pooled, 0.30),
        ("TTFT, MLPerf Server and Interactive, at their TPOT", first_tokens(systems), 0.25),
        ("prefill, Splitwise, one factor", apart[:, 0], 0.20),
        ("decode, Splitwise, one factor", apart[:, 1], 0.20),
        ("power of GPUs, fitted", np.concatenate([drawn[name] for name in drawn if name != "other"]), 0.09),
        ("power of a node, not fitted", node_powers(data), 0.12),
    ]
    table = empty_table("mean error", "ours", "asked", "result")
    for what, found, target in checks:
        good = mape(found) <= target
        table.add_row(what, percent_text(mape(found), 1), percent_text(target, 0), "ok" if good else "MISSED")
    out.print(table)
    return all(mape(found) <= target for _, found, target in checks)


if __name__ == "__main__":
    sys.exit(main())
