"""Published times, throughput and power of inference, and how far the model with the shipped numbers is off them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ettrick.analysis.validation.published_steps import each_record
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
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ettrick.analysis.validation.published_steps import Array, Record
    from ettrick.sim.steps.hardware import Precision
    from ettrick.sim.yamlfile import Table

MODELS = {
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
    unused: Counter[str] = Counter()
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for row in each_record(path, dict):
        reason = _reason(row)
        if reason:
            unused[reason] += 1
            continue
        ranks = min(int(row["attention_dp_size"] or 1), int(row["gpus"]))
        key = (row["model"], row["gpu"], row["precision"], row["backend"], row["gpus"], str(ranks))
        groups[key].append(row)
    steps = []
    for (model, gpu, precision, engine, gpus, data), rows in groups.items():
        replica = _replica(model, gpu, engine, _PRECISIONS[precision], int(gpus) // int(data), int(data))
        scale = np.array([_FILLED if row["source"] == "inferencex" else 1.0 for row in rows])
        batch, measured = _column(rows, "concurrency"), _column(rows, "tpot_ms") / 1e3
        requests = Requests(_column(rows, "isl") * scale, _column(rows, "osl") * scale)
        # Weights that are met, keys and values pass once, at the full bandwidth.
        possible = traffic(replica, batch, requests)[0] / replica.chip.memory_bandwidth <= measured
        unused["faster than its bytes can be read"] += int((~possible).sum())
        requests = Requests(requests.input[possible], requests.output[possible])
        name = f"{model} {gpu} {precision or 'bf16'} {engine}"
        steps.append(ServingSteps(name, MODELS[model], replica, batch[possible], requests, measured[possible]))
    return [group for group in steps if group.batch.size], unused


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
        catalog.models()[MODELS[model]],
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


Key: TypeAlias = tuple[str, str]
"""The name of a fitted number: of an engine, of a table of the constants, or of the constants (first part empty)."""


def with_numbers(replica: Replica, numbers: Mapping[Key, float]) -> Replica:
    """Return a replica with other constants."""
    name = next(name for name, engine in catalog.engines().items() if engine.title == replica.engine.title)
    engine_numbers: Table = {key: value for (of, key), value in numbers.items() if of == name}
    constants: Table = {key: value for (of, key), value in numbers.items() if of == ""}
    for of in ("memory", "gemm", "dispatch"):
        table: Mapping[str, float] = getattr(replica.constants, of)
        constants[of] = {**table, **{key: value for (group, key), value in numbers.items() if group == of}}
    return dataclasses.replace(
        replica,
        engine=dataclasses.replace(replica.engine, **engine_numbers),
        constants=dataclasses.replace(replica.constants, **constants),
    )


def errors(groups: Iterable[ServingSteps], numbers: Mapping[Key, float]) -> Array:
    """Return modelled over measured times, less one, of all rows [-]."""
    parts = [
        time_per_token(with_numbers(group.replica, numbers), group.batch, group.requests) / group.measured - 1
        for group in groups
    ]
    return np.concatenate(parts)


def soft(logarithms: Array) -> Array:
    """Return residuals whose squares grow as the square of small errors and linearly with large ones [-]."""
    scaled = logarithms / _SCALE
    return np.asarray(np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1)))


def offline(data: Path, numbers: Mapping[Key, float]) -> dict[str, Array]:
    """Return the errors of offline throughput of whole answers with TensorRT-LLM, not fitted, by model and GPU [-]."""
    deviations: dict[str, list[float]] = defaultdict(list)
    for row in each_record(data / "trtllm_offline.csv", dict):
        chip = catalog.accelerators().get(row["gpu"].lower())
        precision = _PRECISIONS.get(row["precision"])
        if (
            row["model"] not in MODELS
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
        deviations[f"{row['model']} {row['gpu']}"].append(rate / float(row["output_tokens_per_s"]) - 1)
    return {name: np.array(values) for name, values in deviations.items()}


def disaggregated(data: Path) -> tuple[Array, int]:
    """Return the errors of times per token with prompts read elsewhere, by the catalog [-], and the rows not used.

    No row of them is fitted. Where a row does not say how many workers there are, nothing is known of the batch.
    """
    deviations, rows = [], each_record(data / "served_disagg.csv", dict)
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
        deviations.append(
            float(decode(pools.decoders, batch, requests.context).total) / float(row["tpot_ms"]) * 1e3 - 1
        )
    return np.array(deviations), len(rows) - len(deviations)


class MlperfSystem(NamedTuple):
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


def mlperf(data: Path) -> list[MlperfSystem]:
    """Return systems of one node whose GPUs are fitted, without a limit of power; runs that are there twice count once.

    How replicas were laid out is not in the table: the tensor ranks are those with most tokens a second offline. They
    admit by the tokens that there are (batch_scheduler_policy max_util in the configurations of the submissions).
    """
    systems: dict[tuple[str, ...], dict[str, Record]] = defaultdict(dict)
    for row in each_record(data / "mlperf_inference_llm.csv", dict):
        model = row["model"].removesuffix("-99.9").removesuffix("-99")
        if row["accelerator"] in _MLPERF and row["nodes"] == "1" and model in _QUESTIONS and row["tokens_per_s"]:
            if row["system"].endswith("MaxQ"):
                continue
            key = (row["release"], row["submitter"], row["system"], row["accelerator"], model)
            systems[key].setdefault(row["scenario"], row)
    return [
        _mlperf_system(release, _MLPERF[accelerator], model, rows)
        for (release, _, _, accelerator, model), rows in systems.items()
        if "Offline" in rows
    ]


def _mlperf_system(release: str, gpu: str, model: str, rows: dict[str, Record]) -> MlperfSystem:
    """Return a system by its rows of each scenario, with the replica that does most offline."""
    rates = {scenario: float(row["tokens_per_s"]) for scenario, row in rows.items()}
    answer = rates["Offline"] / float(rows["Offline"]["samples_per_s"])
    requests = Requests(_QUESTIONS[model], answer, spread=SPREAD, whole=1 + SPREAD**2)
    gpus = int(rows["Offline"]["accelerators"])
    weights: Precision = "nvfp4" if gpu == "B200" else "fp8"
    plain = _replica(model, gpu, "trtllm", weights, 1, streams=False)
    plain = dataclasses.replace(plain, engine=dataclasses.replace(plain.engine, admission="on-demand"))
    sizes = [dataclasses.replace(plain, tensor=ranks) for ranks in (1, 2, 4, 8) if ranks <= gpus]
    best = max((size for size in sizes if largest_batch(size, requests) >= 1), key=lambda size: _most(size, requests))
    tpot, ttft = (
        {scenario: float(row[f"{name}_mean_s"]) for scenario, row in rows.items() if row[f"{name}_mean_s"]}
        for name in ("tpot", "ttft")
    )
    return MlperfSystem(gpu, release, model, best, requests, gpus / best.gpus, rates, tpot, ttft)


def _most(replica: Replica, requests: Requests) -> float:
    """Return the output tokens a second of a GPU at the largest batch [1/s]."""
    return largest_rate(replica, requests) * float(requests.output) / replica.gpus


def mlperf_errors(systems: Iterable[MlperfSystem]) -> Array:
    """Return the errors of offline throughput; the stacks of these systems are tuned, and newer by release [-]."""
    rates = [
        (_most(system.replica, system.requests) * system.replica.gpus * system.replicas, system) for system in systems
    ]
    return np.array([rate / system.tokens_per_s["Offline"] - 1 for rate, system in rates])


def first_tokens(systems: Iterable[MlperfSystem]) -> Array:
    """Return the errors of the mean TTFT of Server and Interactive, at their requests in flight and their TPOT [-].

    By Little's law tokens a second times TPOT are in flight. That point calibrates the speed; waits are left.
    """
    deviations = []
    for system in systems:
        for scenario, measured in system.ttft_s.items():
            batch = system.tokens_per_s[scenario] * system.tpot_s[scenario] / system.replicas
            factor = system.tpot_s[scenario] / float(time_per_token(system.replica, batch, system.requests))
            replica = dataclasses.replace(system.replica, factor=factor)
            deviations.append(float(time_to_first_token(replica, batch, system.requests)) / measured - 1)
    return np.array(deviations)


_PAIRS = 270.0
"""Mean pairs of a query of MLPerf's recommender, of 100 to 700; assumed [-]."""


def recommended(data: Path) -> dict[str, Array]:
    """Return the errors of offline queries a second of DLRM-v2, which no fit has seen, by what was asked [-].

    Every GPU has all tables at 8 bits; for 99.9 % of the accuracy cross layers are at 16 bits (configuration as below).
    """
    deviations: dict[str, list[float]] = defaultdict(list)
    model, constants = catalog.recommenders()["dlrm-v2"], catalog.serving_constants()
    for row in each_record(data / "mlperf_inference_dlrm.csv", dict):
        if row["accelerator"] in _MLPERF and row["scenario"] == "Offline" and not row["system"].endswith("MaxQ"):
            chip = catalog.accelerators()[_MLPERF[row["accelerator"]].lower()]
            cross: Precision = "bf16" if row["model"].endswith("99.9") else "fp8"
            seconds = float(recommend(model, chip, constants, _PAIRS, interaction=cross).total)
            rate = float(row["samples_per_s"]) / int(row["accelerators"])
            deviations[f"{row['model']} {_MLPERF[row['accelerator']]}"].append(1 / seconds / rate - 1)
    return {name: np.array(values) for name, values in deviations.items()}


_LIMIT = 500.0
"""Limit of a GPU in the metered runs: github mlcommons/inference_results_v4.1 a2f5d66, closed/NVIDIA/configs [W]."""


def node_powers(data: Path) -> Array:
    """Return the errors of metered power of a node of eight H200 with limited GPUs, at its throughput [-]."""
    deviations = []
    chip = catalog.accelerators()["h200"]
    if chip.node is None or chip.power is None:
        raise ValueError(f"the catalog has no power of {chip.title}")
    for row in each_record(data / "mlperf_inference_power.csv", dict):
        model = row["model"].removesuffix("-99")
        if model not in _QUESTIONS:
            continue
        replica = _replica(model, "H200", "trtllm", "fp8", 1)
        requests = Requests(_QUESTIONS[model], _QUESTIONS[model])
        batch = largest_batch(replica, requests)
        moved, done = traffic(replica, batch, requests)
        seconds = batch * int(row["accelerators"]) / float(row["tokens_per_s"])
        gpu_power = min(float(power_share(replica, moved / seconds, done / seconds)) * chip.power, _LIMIT)
        drawn = chip.node.idle + chip.node.gpus * (gpu_power - IDLE_GPU * chip.power)
        deviations.append(drawn / float(row["mean_node_W"]) - 1)
    return np.array(deviations)


def phases(data: Path) -> tuple[dict[Key, float], Array]:
    """Return the numbers of a stack without captured graphs, and the errors on its prefills and steps [-], (rows, 2).

    Numbers are one factor of the release, and times of the host for a sequence, and for a layer by generation [s].
    Prompts that are read faster than the peak of the GPUs are left out: the batch did not fit, and was read in parts.
    """
    from scipy.optimize import least_squares

    cases: list[tuple[Replica, float, Requests]] = []
    measured: list[tuple[float, float]] = []
    engine, constants = catalog.engines()["vllm-eager"], catalog.serving_constants()
    for row in each_record(data / "splitwise_phases.csv", dict):
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
        seconds_of_both = []
        for plain, batch, requests in cases:
            replica = with_numbers(plain, numbers)
            alone = max(batch * float(prefill(replica, requests.input)), least_prefill(replica))
            seconds_of_both.append((alone, float(decode(replica, batch, requests.context).total)))
        return np.array(seconds_of_both)

    def residuals(x: Array) -> Array:
        return soft(np.log(modelled(x) / measured)).ravel()

    best = least_squares(residuals, np.log([1.7, 2e-4, 3e-4, 2e-4])).x
    return dict(zip(keys, np.exp(best).tolist(), strict=True)), modelled(best) / measured - 1
