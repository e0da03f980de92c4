"""Fit the model of inference to published steps, and compare it with what was not fitted: ``make fit-serving``."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ettrick.analysis.amounts import empty_table, percent_text
from ettrick.analysis.calibrate.fit import mape
from ettrick.analysis.calibrate.outcome import error_cells
from ettrick.analysis.calibrate.rows import default_folder
from ettrick.analysis.terminal import console
from ettrick.sim import catalog
from ettrick.sim.steps.recommender import recommend
from ettrick.sim.steps.serving import (
    IDLE_GPU,
    DisaggregatedPools,
    Replica,
    Requests,
    decode,
    largest_batch,
    largest_rate,
    least_prefill,
    pooled_in_flight,
    power_share,
    prefill,
    time_per_token,
    time_to_first_token,
    traffic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from ettrick.sim.steps.hardware import Precision
    from ettrick.sim.yamlfile import Table

Array: TypeAlias = "NDArray[np.float64]"
Record: TypeAlias = dict[str, str]

_MODELS = {
    "Llama-3.1-8B": "llama3-8b",
    "Llama-3.1-70B": "llama3-70b",
    "Llama-3.3-70B": "llama3-70b",
    "Llama-3.1-405B": "llama3-405b",
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-32B": "qwen3-32b",
    "DeepSeek-V3": "deepseek-v3",
    "DeepSeek-V3.1": "deepseek-v3",
    "DeepSeek-R1": "deepseek-v3",
    "MiniMax-M2.5": "minimax-m2",
    "gpt-oss-120b": "gpt-oss-120b",
    "Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "llama2-70b": "llama2-70b",
    "mixtral-8x7b": "mixtral-8x7b",
}
_ENGINES = {"trtllm": "trt-llm", "vllm": "vllm", "sglang": "sglang"}
_PRECISIONS: Mapping[str, Precision] = {"": "bf16", "bf16": "bf16", "fp8": "fp8", "fp4": "nvfp4"}

_SCALE = 0.1
"""Logarithmic error from which on a row counts linearly, not squared [-]."""

_FILLED = 0.9
"""Mean length of prompts and answers of InferenceX over the nominal one: uniform on 0.8 to 1 of it [-]."""


class ServingSteps(NamedTuple):
    """Steps of one replica at several batches and lengths; arrays of shape (rows,), times in seconds."""

    name: str
    family: str
    replica: Replica
    batch: Array
    requests: Requests
    measured: Array


def read(path: Path) -> tuple[list[ServingSteps], Counter[str]]:
    """Return the measured times per token by replica, and why rows are left out."""
    left: Counter[str] = Counter()
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for row in _records(path):
        reason = _reason(row)
        if reason:
            left[reason] += 1
            continue
        own = min(int(row["attention_dp_size"] or 1), int(row["gpus"]))
        key = (row["model"], row["gpu"], row["precision"], row["backend"], row["gpus"], str(own))
        groups[key].append(row)
    found = []
    for (model, gpu, precision, engine, gpus, own_), rows in groups.items():
        replica = _replica(model, gpu, engine, _PRECISIONS[precision], int(gpus) // int(own_), int(own_))
        scale = np.array([_FILLED if row["source"] == "inferencex" else 1.0 for row in rows])
        batch, measured = _column(rows, "concurrency"), _column(rows, "tpot_ms") / 1e3
        asked = Requests(_column(rows, "isl") * scale, _column(rows, "osl") * scale)
        # Weights that are met, keys and values pass once, at the full bandwidth.
        possible = traffic(replica, batch, asked)[0] / replica.chip.memory_bandwidth <= measured
        left["faster than its bytes can be read"] += int((~possible).sum())
        asked = Requests(asked.input[possible], asked.output[possible])
        name = f"{model} {gpu} {precision or 'bf16'} {engine}"
        found.append(ServingSteps(name, _MODELS[model], replica, batch[possible], asked, measured[possible]))
    return [group for group in found if group.batch.size], left


def kinds(groups: Iterable[ServingSteps]) -> tuple[list[ServingSteps], list[ServingSteps]]:
    """Return groups of dense models, and of models with experts; SGLang was measured with experts for the most part."""
    dense = [
        group for group in groups if group.replica.shape.experts is None and group.replica.engine.title != "SGLang"
    ]
    return dense, [group for group in groups if group.replica.shape.experts is not None]


def _replica(
    model: str, gpu: str, engine: str, weights: Precision, tensor: int, data: int = 1, *, streams: bool = True
) -> Replica:
    """Return a replica by the names of the tables."""
    stack = catalog.engines()[_ENGINES[engine]]
    return Replica(
        catalog.models()[_MODELS[model]],
        catalog.accelerators()[gpu.lower()],
        stack,
        catalog.serving_constants(),
        weights,
        "fp8" if stack.narrow_cache and weights != "bf16" else "bf16",
        tensor=tensor,
        data=data,
        domain=72 if gpu.startswith("GB") else 8,
        streams=streams,
    )


def _reason(row: Record) -> str:
    """Return why a row is not used; empty if it is."""
    if row["suspect"] == "1":
        return "its label cannot be right, by the table's own mark"
    if row["gpus_corrected"] == "2":
        return "its layout is not known"
    if row["gpus_corrected"] == "1" and int(row["gpus"]) < 4:
        return "its layout is not known"
    return ""


def _column(rows: Iterable[Record], name: str) -> Array:
    return np.array([float(row[name]) for row in rows])


# The fit.

Key: TypeAlias = tuple[str, str]
"""What is fitted: a number of an engine, of a table of the constants, or of the constants (first part empty)."""

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


def with_numbers(replica: Replica, numbers: Mapping[Key, float]) -> Replica:
    """Return a replica with other constants."""
    name = next(name for name, engine in catalog.engines().items() if engine.title == replica.engine.title)
    own: Table = {key: value for (of, key), value in numbers.items() if of == name}
    common: Table = {key: value for (of, key), value in numbers.items() if of == ""}
    for of in ("memory", "gemm", "dispatch"):
        table: Mapping[str, float] = getattr(replica.constants, of)
        common[of] = {**table, **{key: value for (group, key), value in numbers.items() if group == of}}
    return dataclasses.replace(
        replica,
        engine=dataclasses.replace(replica.engine, **own),
        constants=dataclasses.replace(replica.constants, **common),
    )


def errors(groups: Iterable[ServingSteps], numbers: Mapping[Key, float]) -> Array:
    """Return modelled over measured times, less one, of all rows [-]."""
    parts = [
        time_per_token(with_numbers(group.replica, numbers), group.batch, group.requests) / group.measured - 1
        for group in groups
    ]
    return np.concatenate(parts)


def fit(groups: Sequence[ServingSteps], priors: Priors, known: Mapping[Key, float]) -> dict[Key, float]:
    """Return the numbers with the least robust error of the logarithm of times, given priors on their logarithms."""
    from scipy.optimize import least_squares

    keys = list(priors)
    start, widths = np.array([*priors.values()]).T
    most = np.where([of in _SHARES or name in _SHARES for of, name in keys], -np.log(start), np.inf)

    def values(x: Array) -> dict[Key, float]:
        return {**known, **dict(zip(keys, (start * np.exp(x)).tolist(), strict=True))}

    def residuals(x: Array) -> Array:
        return np.concatenate([_soft(np.log1p(errors(groups, values(x)))), x / widths])

    return values(least_squares(residuals, np.zeros(len(keys)), bounds=(-np.inf, most)).x)


def _soft(logarithms: Array) -> Array:
    """Return residuals whose squares grow as the square of small errors and linearly with large ones [-]."""
    scaled = logarithms / _SCALE
    return np.asarray(np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1)))


# What comes of it.


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


def offline(data: Path, numbers: Mapping[Key, float]) -> dict[str, Array]:
    """Return the errors of offline throughput of whole answers with TensorRT-LLM, not fitted, by model and GPU [-]."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in _records(data / "trtllm_offline.csv"):
        chip = catalog.accelerators().get(row["gpu"].lower())
        precision = _PRECISIONS.get(row["precision"])
        if (
            row["model"] not in _MODELS
            or chip is None
            or precision is None
            or precision not in chip.peak
            or "PP" in row["layout"].replace("PP1", "")
        ):
            continue
        replica = _replica(row["model"], row["gpu"], "trtllm", precision, int(row["gpus"]), streams=False)
        replica = with_numbers(replica, numbers)
        requests = Requests(float(row["isl"]), float(row["osl"]))
        rate = _most(replica, requests) * replica.gpus
        if not rate:
            continue
        found[f"{row['model']} {row['gpu']}"].append(rate / float(row["output_tokens_per_s"]) - 1)
    return {name: np.array(values) for name, values in found.items()}


def one_factor(found: Mapping[str, Array]) -> Array:
    """Return what is left of errors by model and GPU when each GPU has a factor, the median of its rows [-]."""
    by_gpu: dict[str, list[Array]] = defaultdict(list)
    for name, errors_ in found.items():
        by_gpu[name.rpartition(" ")[2]].append(1 + errors_)
    ratios = [np.concatenate(parts) for parts in by_gpu.values()]
    return np.concatenate([each / np.median(each) - 1 for each in ratios])


def disaggregated(data: Path) -> tuple[Array, int]:
    """Return the errors of times per token with prompts read elsewhere, by the catalog [-], and the rows not used.

    No row of them is fitted. Where a row does not say how many workers there are, nothing is known of the batch.
    """
    found, rows = [], _records(data / "served_disagg.csv")
    for row in rows:
        if row["suspect"] == "1" or not row["decode_num_workers"] or not row["concurrency"]:
            continue
        sides = []
        for side in ("prefill", "decode"):
            ranks = int(row[f"{side}_tp_size"]), int(row[f"{side}_attention_dp_size"])
            sides.append(_replica(row["model"], row["gpu"], row["backend"], _PRECISIONS[row["precision"]], *ranks))
        pools = DisaggregatedPools(
            sides[0], sides[1], float(row["prefill_num_workers"]), float(row["decode_num_workers"])
        )
        filled = _FILLED if row["source"] == "inferencex" else 1.0
        requests = Requests(float(row["isl"]) * filled, float(row["osl"]) * filled)
        batch = pooled_in_flight(pools, requests, float(row["concurrency"]))
        found.append(float(decode(pools.decoders, batch, requests.context).total) / float(row["tpot_ms"]) * 1e3 - 1)
    return np.array(found), len(rows) - len(found)


class Measured(NamedTuple):
    """A system of MLPerf Inference: a replica as we think that it ran, and its tokens a second by scenario."""

    accelerator: str
    release: str
    model: str
    replica: Replica
    requests: Requests
    replicas: float
    tokens_per_s: dict[str, float]
    tpot_s: dict[str, float]
    ttft_s: dict[str, float]


_MLPERF = {"H100-SXM-80GB": "H100", "H200-SXM-141GB": "H200", "B200-SXM-180GB": "B200"}

_QUESTIONS = {"llama2-70b": 294.0, "mixtral-8x7b": 350.0}
"""Mean tokens of a prompt of MLPerf's chat models; not in its logs: assumed [-].

A third of Mixtral's are of GSM8K, with five examples and so about 650 tokens (the first one has 657, says
preprocess_data.py in github mlcommons/inference_results_v4.1), a third of OpenOrca, and a third of MBXP.
"""

SPREAD = 0.8
"""Standard deviation over mean of the lengths of MLPerf's chat requests; assumed [-]."""


def mlperf(data: Path) -> list[Measured]:
    """Return systems of one node whose GPUs are fitted, without a limit of power; runs that are there twice count once.

    How replicas were laid out is not in the table: the tensor ranks are those with most tokens a second offline. They
    admit by the tokens that there are (batch_scheduler_policy max_util in the configurations of the submissions).
    """
    systems: dict[tuple[str, ...], dict[str, Record]] = defaultdict(dict)
    for row in _records(data / "mlperf_inference_llm.csv"):
        model = row["model"].removesuffix("-99.9").removesuffix("-99")
        if row["accelerator"] in _MLPERF and row["nodes"] == "1" and model in _QUESTIONS and row["tokens_per_s"]:
            if row["system"].endswith("MaxQ"):
                continue
            key = (row["release"], row["submitter"], row["system"], row["accelerator"], model)
            systems[key].setdefault(row["scenario"], row)
    found = []
    for (release, _, _, accelerator, model), rows in systems.items():
        if "Offline" not in rows:
            continue
        offline_row, gpu = rows["Offline"], _MLPERF[accelerator]
        rates = {scenario: float(row["tokens_per_s"]) for scenario, row in rows.items()}
        answer = rates["Offline"] / float(offline_row["samples_per_s"])
        requests = Requests(_QUESTIONS[model], answer, spread=SPREAD, whole=1 + SPREAD**2)
        gpus = int(offline_row["accelerators"])
        weights: Precision = "nvfp4" if gpu == "B200" else "fp8"
        plain = _replica(model, gpu, "trtllm", weights, 1, streams=False)
        plain = dataclasses.replace(plain, engine=dataclasses.replace(plain.engine, admission="on-demand"))
        sizes = [dataclasses.replace(plain, tensor=ranks) for ranks in (1, 2, 4, 8) if ranks <= gpus]
        best = max(
            (each for each in sizes if largest_batch(each, requests) >= 1), key=lambda each: _most(each, requests)
        )
        tpot, ttft = (
            {scenario: float(row[f"{name}_mean_s"]) for scenario, row in rows.items() if row[f"{name}_mean_s"]}
            for name in ("tpot", "ttft")
        )
        found.append(Measured(gpu, release, model, best, requests, gpus / best.gpus, rates, tpot, ttft))
    return found


def _most(replica: Replica, requests: Requests) -> float:
    """Return the output tokens a second of a GPU at the largest batch [1/s]."""
    return largest_rate(replica, requests) * float(requests.output) / replica.gpus


def mlperf_errors(systems: Iterable[Measured]) -> Array:
    """Return the errors of offline throughput; the stacks of these systems are tuned, and newer by release [-]."""
    rates = [(_most(each.replica, each.requests) * each.replica.gpus * each.replicas, each) for each in systems]
    return np.array([rate / each.tokens_per_s["Offline"] - 1 for rate, each in rates])


def first_tokens(systems: Iterable[Measured]) -> Array:
    """Return the errors of the mean TTFT of Server and Interactive, at their requests in flight and their TPOT [-].

    By Little's law tokens a second times TPOT are in flight. That point calibrates the speed; waits are left.
    """
    found = []
    for each in systems:
        for scenario, measured in each.ttft_s.items():
            batch = each.tokens_per_s[scenario] * each.tpot_s[scenario] / each.replicas
            factor = each.tpot_s[scenario] / float(time_per_token(each.replica, batch, each.requests))
            replica = dataclasses.replace(each.replica, factor=factor)
            found.append(float(time_to_first_token(replica, batch, each.requests)) / measured - 1)
    return np.array(found)


_PAIRS = 270.0
"""Mean pairs of a query of MLPerf's recommender, of 100 to 700; assumed [-]."""


def recommended(data: Path) -> dict[str, Array]:
    """Return the errors of offline queries a second of DLRM-v2, which no fit has seen, by what was asked [-].

    Every GPU has all tables at 8 bits; for 99.9 % of the accuracy cross layers are at 16 bits (configuration as below).
    """
    found: dict[str, list[float]] = defaultdict(list)
    model, constants = catalog.recommenders()["dlrm-v2"], catalog.serving_constants()
    for row in _records(data / "mlperf_inference_dlrm.csv"):
        if row["accelerator"] in _MLPERF and row["scenario"] == "Offline" and not row["system"].endswith("MaxQ"):
            chip = catalog.accelerators()[_MLPERF[row["accelerator"]].lower()]
            cross: Precision = "bf16" if row["model"].endswith("99.9") else "fp8"
            seconds = float(recommend(model, chip, constants, _PAIRS, interaction=cross).total)
            rate = float(row["samples_per_s"]) / int(row["accelerators"])
            found[f"{row['model']} {_MLPERF[row['accelerator']]}"].append(1 / seconds / rate - 1)
    return {name: np.array(values) for name, values in found.items()}


_LIMIT = 500.0
"""Limit of a GPU in the metered runs: github mlcommons/inference_results_v4.1 a2f5d66, closed/NVIDIA/configs [W]."""


def node_powers(data: Path) -> Array:
    """Return the errors of metered power of a node of eight H200 with limited GPUs, at its throughput [-]."""
    found = []
    chip = catalog.accelerators()["h200"]
    assert chip.node is not None
    assert chip.power is not None
    for row in _records(data / "mlperf_inference_power.csv"):
        model = row["model"].removesuffix("-99")
        if model not in _QUESTIONS:
            continue
        replica = _replica(model, "H200", "trtllm", "fp8", 1)
        requests = Requests(_QUESTIONS[model], _QUESTIONS[model])
        batch = largest_batch(replica, requests)
        moved, done = traffic(replica, batch, requests)
        seconds = batch * int(row["accelerators"]) / float(row["tokens_per_s"])
        each = min(float(power_share(replica, moved / seconds, done / seconds)) * chip.power, _LIMIT)
        drawn = chip.node.idle + chip.node.gpus * (each - IDLE_GPU * chip.power)
        found.append(drawn / float(row["mean_node_W"]) - 1)
    return np.array(found)


def phases(data: Path) -> tuple[dict[Key, float], Array]:
    """Return the numbers of a stack without captured graphs, and the errors on its prefills and steps [-], (rows, 2).

    Numbers are one factor of the release, and times of the host for a sequence, and for a layer by generation [s].
    Prompts that are read faster than the peak of the GPUs are left out: the batch did not fit, and was read in parts.
    """
    from scipy.optimize import least_squares

    cases: list[tuple[Replica, float, Requests]] = []
    measured: list[tuple[float, float]] = []
    engine, constants = catalog.engines()["vllm-eager"], catalog.serving_constants()
    for row in _records(data / "splitwise_phases.csv"):
        shape, chip = catalog.models()[row["model"]], catalog.accelerators()[row["hardware"].removesuffix("-80gb")]
        replica = Replica(shape, chip, engine, constants, "bf16", "bf16", tensor=int(row["tp"]))
        batch, requests = float(row["batch"]), Requests(float(row["prompt_tokens"]), float(row["output_tokens"]))
        seconds = float(row["prefill_ms"]) / 1e3
        work = 2 * shape.layers * (shape.attention_parameters + replica.plain_layer) * batch * requests.input
        if work / replica.gpus / chip.peak["bf16"] <= seconds:
            cases.append((replica, batch, requests))
            measured.append((seconds, float(row["decode_ms_per_token"]) / 1e3))
    keys: list[Key] = [("vllm-eager", "factor"), ("vllm-eager", "sequence")]
    keys += [("dispatch", name) for name in ("ampere", "hopper")]

    def modelled(x: Array) -> Array:
        numbers = dict(zip(keys, np.exp(x).tolist(), strict=True))
        found = []
        for plain, batch, requests in cases:
            replica = with_numbers(plain, numbers)
            alone = max(batch * float(prefill(replica, requests.input)), least_prefill(replica))
            found.append((alone, float(decode(replica, batch, requests.context).total)))
        return np.array(found)

    def residuals(x: Array) -> Array:
        return _soft(np.log(modelled(x) / measured)).ravel()

    best = least_squares(residuals, np.log([1.7, 2e-4, 3e-4, 2e-4])).x
    return dict(zip(keys, np.exp(best).tolist(), strict=True)), modelled(best) / measured - 1


def _records(path: Path) -> list[Record]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def powers(data: Path) -> tuple[dict[str, tuple[float, float, float]], dict[str, Array]]:
    """Return the fitted power of GPUs by generation and of all (``other``), and the errors of rows of dense models [-].

    P / TDP = a + b (share of bandwidth) + c (share of peak), of measured throughput and batch.
    """
    from scipy.optimize import nnls

    points: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    engine, constants = catalog.engines()["vllm"], catalog.serving_constants()
    for row in _records(data / "mlenergy_llm.csv"):
        model = _MODELS.get(row["model"].removesuffix("-Instruct"))
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
