"""Published training steps as workloads on accelerators of the catalog, and how far the step model is off them."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ettrick import sim
from ettrick.analysis.validation.lab import bare
from ettrick.sim.catalog import accelerators, models, steps
from ettrick.sim.scenario.fields import PathError
from ettrick.sim.steps import Accelerator, Links, Machine, Workload, breakdown, flop_per_token, ideal_links

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.sim import Prepared
    from ettrick.sim.steps import StepPlan
Array: TypeAlias = npt.NDArray[np.float64]

Record: TypeAlias = dict[str, str]

_Result = TypeVar("_Result")

CAPPED = "torchtitan, 500 W"
"""Source of the steps on boards whose power was capped: nominal peaks are out of their reach."""

_PARTS = {
    "A100-SXM-80": "a100",
    "A100-SXM-40": "a100-40gb",
    "H100-SXM-80": "h100",
    "H100-96-500W": "h100",
    "B200-SXM": "b200",
    "B300-SXM": "b300",
    "GB200-NVL72": "gb200",
    "GB300-NVL72": "gb300",
}
"""Accelerators of the catalog by name of the preset."""

PRECISIONS = {"bfloat16": "bf16", "fp4": "nvfp4"}

_SHAPE = {"layers": "L", "hidden": "h", "ffn": "ffn", "heads": "heads", "kv_heads": "kv", "vocabulary": "vocab"}

_LAYOUT = {
    "sequence": "seq",
    "sequences": "gbs",
    "microbatch": "mbs",
    "tensor": "tp",
    "context": "cp",
    "pipeline": "pp",
    "data": "dp",
    "virtual": "vpp",
}
"""Columns by our names."""

_MODELS = {
    "DeepSeekV3": "deepseek-v3",
    "Kimi_K2": "kimi-k2",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "GPT OSS 120B": "gpt-oss-120b",
    "Nemotron_3_Nano": "nemotron-3-nano-30b-a3b",
    "Nemotron_3_Super": "nemotron-3-super-120b-a12b",
}

_DOUBTFUL = "as printed it does not fit into memory, and differs from the releases before and after"

_REPORTED = {
    "GPT OSS 120B": "biases in all products, attention sinks and a clamped activation, which nothing here counts",
    "Nemotron_3_Nano": "state spaces, of which the fit has no other step",
    "Nemotron_3_Super": "state spaces, of which the fit has no other step",
    "tokendrop": "dropped tokens, precision not printed",
}
"""Steps of models with experts that are reported and not fitted."""

_SHAPELESS = {"Nemotron_3": "no published shape", "DeepSeekV4": "attention of a new kind: no shape for it"}


class MeasuredStep(NamedTuple):
    """A published step.

    Parameters
    ----------
    source
        The data set, or the model where steps of all models come from one source.
    model, release
        The model as its source calls it, and the release of the software where that is said.
    measured
        Time of the step [s].
    """

    source: str
    model: str
    release: str
    chip: Accelerator
    work: Workload
    links: Links
    measured: float


class Unused(NamedTuple):
    """Rows of a table that are not fitted, and why."""

    rows: int
    what: str
    reason: str


class MeasuredSteps(NamedTuple):
    """Rows to fit, rows to report only, and the rest."""

    rows: list[MeasuredStep]
    reported: list[MeasuredStep]
    unused: list[Unused]


def default_folder() -> Path:
    """Return where the reference tables are: next to the repository."""
    return Path(__file__).resolve().parents[2].parent / "shared" / "data" / "perf"


def read_steps(folder: Path) -> MeasuredSteps:
    """Return the steps of models without experts; raises what `each_record` raises."""
    presets = _presets(folder)
    table = MeasuredSteps([], [], [])

    def take(record: Record) -> None:
        if "doubtful" in record["note"]:
            table.unused.append(Unused(1, f"{record['model']} on {record['preset']}", _DOUBTFUL))
            return
        row = _step(record, presets)
        (table.reported if row.source == CAPPED else table.rows).append(row)

    each_record(folder / "training_steps.csv", take)
    if table.reported:
        reason = "reported, not fitted: their peaks are out of reach under the cap"
        table.unused.append(Unused(len(table.reported), "H100 with 96 GB, boards capped at 500 W", reason))
    return table


def read_mixed(folder: Path) -> MeasuredSteps:
    """Return the steps of models with experts whose shape the catalog has."""
    presets = _presets(folder)
    table = MeasuredSteps([], [], [])
    reasons: Counter[tuple[str, str]] = Counter()

    def take(record: Record) -> None:
        reason = _unusable(record)
        if reason:
            reasons[record["model"], reason] += 1
            return
        row = _mixed_step(record, presets)
        why = next((name for name in (record["variant"], record["model"]) if name in _REPORTED), "")
        if why:
            reasons[record["model"], f"reported, not fitted: {_REPORTED[why]}"] += 1
        (table.reported if why else table.rows).append(row)

    each_record(folder / "moe_steps.csv", take)
    table.unused.extend(Unused(count, model, reason) for (model, reason), count in sorted(reasons.items()))
    return table


def each_record(path: Path, make: Callable[[Record], _Result]) -> list[_Result]:
    """Return what is made of each row of a table.

    Raises
    ------
    FileNotFoundError
        If the table is not there.
    ValueError
        If a row lacks a column or holds no number where one belongs; names the file and the line.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is not in {path.parent}")
    results = []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for record in reader:
            try:
                results.append(make(record))
            except (KeyError, ValueError, TypeError) as error:
                rule = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"{path.name}:{reader.line_num}: {rule}") from None
    return results


def _presets(folder: Path) -> dict[str, Record]:
    """Return the table of hardware by preset."""
    return {record["name"]: record for record in each_record(folder / "hardware_presets.csv", dict)}


def _step(record: Record, presets: dict[str, Record]) -> MeasuredStep:
    """Return a step of a model without experts."""
    gated, preset = _flag(record, "gated"), presets[record["preset"]]
    shape: dict[str, Any] = {**_whole(record, _SHAPE), "gated": gated, "tied": not gated}
    execution: dict[str, Any] = {
        "recompute": record["recompute"],
        "sharding": "parameters" if _flag(record, "fsdp") else "optimizer" if _flag(record, "distopt") else "none",
        "sequence_parallel": _flag(record, "sp"),
        "fused_attention": _flag(record, "flash"),
        "overlap_tensor": _flag(record, "tp_ov"),
        "overlap_data": _flag(record, "dp_ov"),
    }
    chip: Any = _PARTS[record["preset"]]
    source = record["dataset"]
    if record["preset"] == "H100-96-500W":
        chip = {"like": chip, "memory": "96 GB", "memory_bandwidth": f"{preset['hbm_tb_s']} TB/s"}
        source = CAPPED
    if execution["sharding"] == "parameters" and source == "megatron_bridge":
        execution |= _OFFLOADED.get((record["model"], record["gpu"]), {})
    network = 1e9 * float(record["nic_gbyte_s_per_gpu"])
    return _row(record, source, record["note"], chip, shape, execution | _STATED.get(source, {}), network, preset)


# What published steps were executed with compared with what the tables say.
_STATED: dict[str, dict[str, Any]] = {
    # "FSDP ... shards optimizer states and gradients": arXiv 2407.21783, section 3.3.2.
    "llama3_table4": {"sharding": "gradients"},
    # loss_fn: fused_crossentropy, in the yamls of github mosaicml/llm-foundry, scripts/train/benchmarking.
    "llm_foundry_A100": {"loss": "fused"},
    "llm_foundry_A100-40": {"loss": "fused"},
}


# github NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs: cpu_offloading_num_layers of steps with FSDP.
_OFFLOADED = {
    ("llama3-70b", "GB200"): {"offload_layers": 40},
    ("llama3-70b", "GB300"): {"offload_layers": 20},
    ("llama3.1-405b", "GB200"): {"offload_layers": 92},
}


def _mixed_step(record: Record, presets: dict[str, Record]) -> MeasuredStep:
    """Return a step of a model with experts."""
    name = _MODELS[record["model"]]
    shape: Any = name
    if record["variant"] == "w/o MTP":
        plain = dataclasses.asdict(dataclasses.replace(models()[name], depths=0))
        shape = {key: value for key, value in plain.items() if key not in ("title", "source") and value}
    preset = presets[record["preset"]]
    network = 1e9 / 8 * float(preset["nic_gbit_s_per_gpu"])
    chip, execution = _PARTS[record["preset"]], _executed(record)
    return _row(record, record["model"], record["container"], chip, shape, execution, network, preset)


def _executed(record: Record) -> dict[str, Any]:
    """Return how steps of models with experts were executed.

    Gradients are reduced in 16 bits. What is computed again: of latent attention what it expands, of gpt-oss norms and
    activations where memory is short. Releases from 26.06 on at mxfp8: the whole iteration as a CUDA graph, tokens on
    their way next to the computing of another microbatch, attention at FP8. Before: graphs of attention and routing on
    most Blackwell parts, and such overlap on H100.

    References
    ----------
    github NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs of each release, and pull requests 4249 and 4606.
    """
    model, gpu = record["model"], record["gpu"]
    execution: dict[str, Any] = {"gradients": "bf16"} if record["precision"] == "bf16" else {}
    modules = _modules(record)
    if modules:
        execution["recompute"] = modules
    if record["variant"] == "tokendrop":
        execution["expert_capacity"] = 1.0
    if _is_late(record):
        whole = (model, gpu) != ("GPT OSS 120B", "B300")
        return execution | {"cuda_graphs": whole or "partial", "overlap_expert": True, "attention": "fp8"}
    retuned = (model, gpu, record["ep"]) == ("DeepSeekV3", "B200", "32")
    if retuned or _has_graphs(record):
        execution["cuda_graphs"] = "partial"
    piped = record["vpp"] not in ("", "1")
    if retuned or (piped and (gpu == "H100" or (model, gpu, record["pp"]) == ("Qwen3_235B_a22B", "B300", "8"))):
        execution["overlap_expert"] = True
    return execution


def _is_late(record: Record) -> bool:
    """Return whether a step was executed as releases from 26.06 on do it."""
    model, is_new = record["model"], record["container"] >= "26.06" and record["precision"] == "mxfp8"
    return is_new and not model.startswith(("Nemotron", "Kimi")) and (model, record["gpu"]) != ("DeepSeekV3", "B300")


def _has_graphs(record: Record) -> bool:
    """Return whether attention and routing were CUDA graphs before these releases."""
    if (record["model"], record["gpu"]) == ("DeepSeekV3", "GB300"):
        return record["container"] == "25.11" or record["precision"] == "bf16"
    return record["gpu"] in _GRAPHS.get(record["model"], ())


_GRAPHS = {
    "Qwen3_30B_a3B": ("GB200", "GB300", "B200", "B300"),
    "Qwen3_235B_a22B": ("GB200", "GB300"),
    "DeepSeekV3": ("GB200",),
    "GPT OSS 120B": ("GB300", "B300"),
    "Nemotron_3_Nano": ("GB200", "GB300", "B200", "B300"),
    "Nemotron_3_Super": ("GB200", "GB300", "B300"),
}
"""The place of attention and routing in CUDA graphs, by model."""


def _modules(record: Record) -> list[str]:
    """Return what is computed again."""
    model, gpu, narrow = record["model"], record["gpu"], record["precision"] != "bf16"
    if model == "Nemotron_3_Super" and gpu in ("GB200", "B200"):
        return ["norm", "activation", "attention"] + ["experts"] * (gpu == "GB200")
    if model == "Nemotron_3_Nano" and gpu == "H100":
        return ["norm", "activation", "attention", "experts"]
    if model == "GPT OSS 120B":
        return [] if narrow or gpu in ("GB300", "B300") else ["norm", "activation"]
    if model not in ("DeepSeekV3", "Kimi_K2") or (
        gpu == "GB300" and record["mbs"] == "1" and record["pp"] == "2" and narrow
    ):
        return []
    return ["up_projection"] + ["mlp"] * (gpu == "H100" or (gpu == "B200" and record["ep"] == "32"))


def _row(
    record: Record,
    source: str,
    release: str,
    chip: Any,
    shape: Any,
    execution: dict[str, Any],
    network: float,
    preset: Record,
) -> MeasuredStep:
    """Return a row as a user's scenario describes it, with the links of its layout."""
    sizes = _whole(record, _LAYOUT)
    gpus = sizes["tensor"] * sizes["context"] * sizes["pipeline"] * sizes["data"]
    layout: dict[str, Any] = {name: sizes[name] for name in ("tensor", "context", "pipeline", "data")}
    layout |= {"virtual_pipeline": sizes["virtual"], "expert": int(record.get("ep") or 1)}
    per_node = gcd(gpus, 8)
    job = {
        "name": "step",
        "gpus": gpus,
        "model": shape,
        "batch": {"tokens": sizes["sequences"] * sizes["sequence"], "sequence": sizes["sequence"]},
        "parallelism": layout,
        "execution": {"microbatch": sizes["microbatch"], **execution},
        "precision": PRECISIONS.get(name := record.get("prec") or record["precision"], name),
    }
    fabric = {"rails": per_node, "nic": f"{network} B/s", "radix": 4096, "leaf": {"nodes": gpus // per_node}}
    cluster = {"nodes": gpus // per_node, "gpus_per_node": per_node, "accelerator": chip, "fabric": fabric}
    scenario = bare("fit-steps", cluster=cluster, jobs=[job], horizon="1 d", failures=[])
    try:
        plan = modelled_step(sim.prepare(sim.parse(scenario)))
    except PathError as error:
        raise ValueError(f"{source}, {record['model']}: {error}") from None
    domain = int(preset["scaleup_domain_gpus"])
    links = ideal_links(plan.work, plan.machine.chip.scale_up, network, domain)
    return MeasuredStep(source, record["model"], release, plan.machine.chip, plan.work, links, float(record["step_s"]))


def modelled_step(prepared: Prepared) -> StepPlan:
    """Return the step of the one job of a scenario, which states all that the step model needs."""
    (plan,) = [job.plan for job in prepared.jobs if job.plan is not None]
    return plan


def _unusable(record: Record) -> str:
    """Return why a step of a model with experts cannot be fitted, or nothing."""
    if record["model"] not in _MODELS:
        reasons = [reason for start, reason in _SHAPELESS.items() if record["model"].startswith(start)]
        return reasons[0] if reasons else "no shape in the catalog"
    if record["model"] == "GPT OSS 120B" and record["container"] == "26.06.01":
        return "a known regression of that release"
    if int(record["ep"]) > int(record["dp"]) * int(record["tp"]) * int(record["cp"] or 1):
        return "more expert ranks than the printed layout has"
    if record["ga_printed"] and float(record["ga_printed"]) != float(record["microbatches"]):
        return "the printed number of microbatches contradicts the printed batch"
    return ""


def _whole(record: Record, columns: dict[str, str]) -> dict[str, Any]:
    """Return whole numbers of a row by our names; a cell that says nothing is 1."""
    return {name: int(record[column] or 1) for name, column in columns.items()}


def _flag(record: Record, name: str) -> bool:
    """Return a truth value of a row."""
    return record[name] == "1"


# Published steps that are not fitted, in no table.


class Benchmark(NamedTuple):
    """A published step at one or several sizes, the batch growing with the GPUs.

    Parameters
    ----------
    what, model, chip, precision
        Name, shape and accelerator of the catalog, and arithmetic.
    sequence, per_gpu
        Tokens of a sequence, and sequences of the batch for each GPU [-].
    layout
        Tensor, context and pipeline ranks, and model chunks of a stage [-].
    times
        Published times by GPUs [s].
    lora
        Rank of adapters; 0 where all weights are trained [-].
    """

    what: str
    model: str
    chip: str
    precision: str
    sequence: int
    per_gpu: float
    layout: tuple[int, int, int, int]
    times: Mapping[int, float]
    lora: int = 0

    def row(self, gpus: int) -> MeasuredStep:
        """Return the step on some GPUs, with all bandwidth of 400 Gb/s a GPU."""
        tensor, context, pipeline, virtual = self.layout
        shape = dataclasses.replace(models()[self.model], lora=self.lora)
        work = Workload(
            shape,
            *(self.sequence, round(gpus * self.per_gpu), 1, tensor, context, pipeline),
            gpus // (tensor * context * pipeline),
            virtual=virtual,
            precision=self.precision,
        )
        name = f"{self.what}, {self.precision}"
        chip = accelerators()[self.chip]
        links = ideal_links(work, chip.scale_up, 50e9, 72 if self.chip == "gb200" else 8)
        return MeasuredStep(name, name, "", chip, work, links, self.times.get(gpus, 0.0))


WEAK = (
    Benchmark(
        *("Llama 3.1 8B benchmark", "llama3-8b", "h100", "bf16", 8192, 16.0, (1, 2, 1, 1)),
        {8: 12.91, 16: 13.00, 32: 13.05, 64: 13.08, 128: 13.10},
    ),
    Benchmark(
        *("Nemotron-4 340B benchmark", "nemotron-4-340b", "h100", "bf16", 4096, 0.25, (8, 1, 8, 12)),
        {128: 4.61, 256: 4.67, 512: 4.70, 1024: 4.73, 2048: 4.84},
    ),
    Benchmark(
        *("Llama 3.1 405B benchmark", "llama3-405b", "h100", "bf16", 8192, 252 / 576, (8, 2, 9, 7)),
        {576: 17.20, 1152: 17.52, 2304: 17.62},
    ),
)
"""At bf16, from as many GPUs as hold a replica: weak scaling."""

BENCHMARKS = (
    *WEAK,
    WEAK[0]._replace(precision="fp8", times={8: 9.67, 16: 9.73, 32: 9.75, 64: 9.80, 128: 9.82}),
    WEAK[1]._replace(precision="fp8", times={128: 3.16, 256: 3.21, 512: 3.26, 1024: 3.34, 2048: 3.49}),
    WEAK[2]._replace(precision="fp8", times={576: 11.24, 1152: 11.31, 2304: 12.35}),
    Benchmark(
        *("Llama 3.1 405B benchmark on GB200", "llama3-405b", "gb200", "bf16", 8192, 0.5, (4, 2, 8, 8)),
        {128: 9.347, 256: 9.479},
    ),
    Benchmark(
        *("Nemotron-4 340B training", "nemotron-4-340b", "h100", "bf16", 4096, 0.375, (8, 1, 12, 8)), {6144: 8.0}
    ),
    Benchmark(
        *("MLPerf Llama 3.1 405B on GB200", "llama3-405b", "gb200", "fp8", 8192, 1.75, (4, 2, 8, 8)), {512: 19.69}
    ),
    Benchmark(*("MLPerf Llama 3.1 405B", "llama3-405b", "h100", "fp8", 8192, 2.25, (8, 2, 8, 8)), {512: 55.18}),
    Benchmark(*("LoRA of Llama 2 7B", "llama2-7b", "h100", "fp8", 4096, 4.0, (1, 1, 1, 1)), {8: 0.660}, 16),
    Benchmark(*("LoRA of Llama 2 13B", "llama2-13b", "h100", "fp8", 4096, 4.0, (1, 1, 1, 1)), {8: 1.120}, 16),
    Benchmark(*("LoRA of Llama 2 70B", "llama2-70b", "h100", "fp8", 4096, 4.0, (2, 1, 4, 1)), {8: 6.251}, 16),
)
"""Benchmarks: github NVIDIA/dgxc-benchmarking, Nemotron4 340B (24.11), llama3.1 (24.09; GB200: its README). Training:
arXiv 2406.11704, section 2 (8 tensor x 12 pipeline, interleaved; one sequence and one layer a piece are assumed).
MLPerf: github mlcommons, training v5.0, NVIDIA tyche_ngpu512 and eos-dfw_n64, medians of the
logs' train_step_time. LoRA: docs.nvidia.com, NeMo 24.12, performance summary, from tokens a second (rank 16 of
attention is assumed)."""


def hopper_row(name: str, work: Workload, measured: float, **changes: Any) -> MeasuredStep:
    """Return a step on nodes of eight H100, 400 Gb/s each, or of something like them."""
    chip = dataclasses.replace(accelerators()["h100"], **changes)
    return MeasuredStep(name, name, "", chip, work, ideal_links(work, chip.scale_up, 50e9, 8), measured)


def deepseek_row() -> MeasuredStep:
    """Return a step of the pre-training of DeepSeek-V3 on 2,048 H800.

    H800 is an H100 with 400 GB/s of NVLink both ways. The authors' own stack sends tokens to experts while another
    microbatch computes (DualPipe), and has kernels of its own.

    References
    ----------
    arXiv 2412.19437, sections 3.2, 4.2 and table 1: 2.664 million GPU-hours for 14.8e12 tokens.
    """
    shape = models()["deepseek-v3"]
    work = Workload(
        shape,
        *(4096, 15360, 1, 1, 1, 16, 128, 64),
        precision="fp8",
        schedule="zero-bubble-h1",
        recompute="selective",
        overlap_expert=True,
    )
    return hopper_row("DeepSeek-V3 pre-training, fp8, another stack", work, 0.0, scale_up=200e9)


# Errors of the model on them.


def as_shipped(row: MeasuredStep) -> float:
    """Return the modelled time of a step with the numbers of the catalog, as a user's scenario gets them [s]."""
    shares = steps.efficiencies(row.chip, row.work.precision, experts=row.work.shape.experts is not None)
    return breakdown(row.work, Machine(row.chip, shares, row.links, steps.constants())).total


LARGE = 1024
"""GPUs from which a job counts as large [-]."""


def mape(error: Array) -> float:
    """Return the mean absolute error [-]."""
    return float(np.abs(error).mean())


def large_mape(rows: Sequence[MeasuredStep], error: Array, least: int = LARGE) -> float:
    """Return the mean absolute error of jobs of so many GPUs or more [-]."""
    return mape(error[np.array([row.work.gpus >= least for row in rows])])


def sources(
    rows: Sequence[MeasuredStep], of: Callable[[MeasuredStep], str] = lambda row: row.source
) -> dict[str, list[int]]:
    """Return the positions of rows by source, or by what else they have in common."""
    positions: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        positions.setdefault(of(row), []).append(position)
    return dict(sorted(positions.items()))


MEGATRON = ("megatron_sc21", "korthikanti", "mt_nlg")
"""Sources of the 22 steps of Megatron models on A100."""

STRONG = "megatron_h100_strong"
"""The source with one model on 96 to 4,608 GPUs."""


def utilisation(row: MeasuredStep, time: float) -> float:
    """Return the MFU of a step, all of attention counted as Megatron does [-]."""
    work = row.work
    flop = work.sequences * work.sequence * flop_per_token(work.shape, work.sequence, convention="full")
    return flop / (time * work.gpus * row.chip.peak[work.precision])


def recompute_ratios(rows: Sequence[MeasuredStep], error: Array) -> dict[str, float]:
    """Return how far full over selective recomputation is off, by model of Korthikanti et al. [-]."""
    ratios = {}
    for index in sources(rows)["korthikanti"]:
        if rows[index].work.recompute == "full":
            twin = rows[index + 1]
            assert twin.model == rows[index].model, "each model stands twice: full, then selective"
            ratios[twin.model] = float((1 + error[index]) / (1 + error[index + 1]) - 1)
    return ratios
