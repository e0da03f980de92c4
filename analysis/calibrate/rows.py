"""Published training steps as workloads on accelerators of the catalog, and measured matrix products beside them."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from sim.catalog import accelerators, models
from sim.steps import Accelerator, Links, ModelShape, Workload, ideal_links

if TYPE_CHECKING:
    from collections.abc import Callable

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

_GENERATIONS = {
    "a100_sxm": "ampere",
    "h100_sxm": "hopper",
    "h200_sxm": "hopper",
    "b200_sxm": "blackwell",
    "b300_sxm": "blackwell",
    "gb200": "blackwell",
    "gb300": "blackwell",
}

_PRECISIONS = {"bfloat16": "bf16", "fp4": "nvfp4"}

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
}

_SHAPELESS = {
    "Nemotron_3": "layers with state spaces between those with attention: no shape for them",
    "DeepSeekV4": "attention of a new kind: no shape for it",
    "GPT OSS": "attention in a sliding window in every other layer: no shape for it",
}


class Row(NamedTuple):
    """One published step.

    Parameters
    ----------
    source
        The data set, or the model where steps of all models come from one source.
    model, release
        The model as its source calls it, and the release of the software where that is said.
    chip, work, links
        What was done, and on what.
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


class Steps(NamedTuple):
    """Rows to fit, rows to report only, and the rest."""

    rows: list[Row]
    reported: list[Row]
    unused: list[Unused]


class Product(NamedTuple):
    """Measured matrix products of one part and precision: best and 95th percentile of large ones, of the peak [-]."""

    generation: str
    precision: str
    best: float
    large: float


def default_folder() -> Path:
    """Return where the reference tables are: beside the repository."""
    return Path(__file__).resolve().parents[2].parent / "shared" / "data" / "perf"


def read_steps(folder: Path) -> Steps:
    """Return the steps of models without experts.

    Raises
    ------
    ValueError
        If a table is not there, or a row lacks a column or holds no number where one belongs.
    """
    presets = _presets(folder)
    found = Steps([], [], [])
    for row in each_record(folder / "training_steps.csv", lambda record: _step(record, presets)):
        (found.reported if row.source == CAPPED else found.rows).append(row)
    if found.reported:
        reason = "reported, not fitted: their peaks are out of reach under the cap"
        found.unused.append(Unused(len(found.reported), "H100 with 96 GB, boards capped at 500 W", reason))
    return found


def read_mixed(folder: Path) -> Steps:
    """Return the steps of models with experts whose shape the catalog has.

    Raises
    ------
    ValueError
        As `read_steps`.
    """
    presets = _presets(folder)
    found = Steps([], [], [])
    reasons: Counter[tuple[str, str]] = Counter()

    def take(record: Record) -> None:
        reason = _unusable(record)
        if reason:
            reasons[record["model"], reason] += 1
        else:
            found.rows.append(_mixed_step(record, presets))

    each_record(folder / "moe_steps.csv", take)
    found.unused.extend(Unused(count, model, reason) for (model, reason), count in sorted(reasons.items()))
    return found


def read_products(folder: Path) -> list[Product]:
    """Return the measured matrix products of each part and precision.

    Raises
    ------
    ValueError
        As `read_steps`.
    """

    def product(record: Record) -> Product:
        precision = _PRECISIONS.get(record["dtype"], record["dtype"])
        best, large = float(record["eff_max"]), float(record["eff_p95_big"])
        return Product(_GENERATIONS[record["gpu"]], precision, best, large)

    return each_record(folder / "gemm_efficiency_fit.csv", product)


def each_record(path: Path, make: Callable[[Record], _Result]) -> list[_Result]:
    """Return what is made of each row of a table.

    Raises
    ------
    ValueError
        If the table is not there or a row is not as it should be; names the file and the line.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is not in {path.parent}")
    made = []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for record in reader:
            try:
                made.append(make(record))
            except (KeyError, ValueError, TypeError) as error:
                rule = f"there is no {error}" if isinstance(error, KeyError) else str(error)
                raise ValueError(f"{path.name}:{reader.line_num}: {rule}") from None
    return made


def _presets(folder: Path) -> dict[str, Record]:
    """Return the table of hardware by preset."""
    return {record["name"]: record for record in each_record(folder / "hardware_presets.csv", dict)}


def _step(record: Record, presets: dict[str, Record]) -> Row:
    """Return a step of a model without experts."""
    gated = _flag(record, "gated")
    recompute: Any = record["recompute"]
    work = Workload(
        ModelShape(**_whole(record, _SHAPE), gated=gated, tied=not gated),
        **_whole(record, _LAYOUT),
        precision=_PRECISIONS.get(record["prec"], record["prec"]),
        recompute=recompute,
        sharding="parameters" if _flag(record, "fsdp") else "optimizer" if _flag(record, "distopt") else "none",
        sequence_parallel=_flag(record, "sp"),
        fused_attention=_flag(record, "flash"),
        overlap_tensor=_flag(record, "tp_ov"),
        overlap_data=_flag(record, "dp_ov"),
    )
    preset = presets[record["preset"]]
    chip = accelerators()[_PARTS[record["preset"]]]
    source = record["dataset"]
    if record["preset"] == "H100-96-500W":
        chip = dataclasses.replace(chip, memory=96e9, memory_bandwidth=1e12 * float(preset["hbm_tb_s"]))
        source = CAPPED
    network = 1e9 * float(record["nic_gbyte_s_per_gpu"])
    return _row(record, source, record["note"], chip, work, network, preset)


def _mixed_step(record: Record, presets: dict[str, Record]) -> Row:
    """Return a step of a model with experts."""
    shape = models()[_MODELS[record["model"]]]
    if record["variant"] == "w/o MTP":
        shape = dataclasses.replace(shape, depths=0)
    work = Workload(
        shape,
        **_whole(record, {**_LAYOUT, "expert": "ep"}),
        precision=_PRECISIONS.get(record["precision"], record["precision"]),
    )
    preset = presets[record["preset"]]
    network = 1e9 / 8 * float(preset["nic_gbit_s_per_gpu"])
    chip = accelerators()[_PARTS[record["preset"]]]
    return _row(record, record["model"], record["container"], chip, work, network, preset)


def _row(
    record: Record, source: str, release: str, chip: Accelerator, work: Workload, network: float, preset: Record
) -> Row:
    """Return a row with the links of its layout."""
    links = ideal_links(work, chip.scale_up, network, int(preset["scaleup_domain_gpus"]))
    return Row(source, record["model"], release, chip, work, links, float(record["step_s"]))


def _unusable(record: Record) -> str:
    """Return why a step of a model with experts cannot be fitted, or nothing."""
    if record["model"] not in _MODELS:
        known = [reason for start, reason in _SHAPELESS.items() if record["model"].startswith(start)]
        return known[0] if known else "no shape in the catalog"
    if record["variant"] == "tokendrop":
        return "tokens beyond an expert's capacity are dropped, so work is not what the model says"
    if record["ga_printed"] and float(record["ga_printed"]) != float(record["microbatches"]):
        return "the printed number of microbatches contradicts the printed batch"
    return ""


def _whole(record: Record, columns: dict[str, str]) -> dict[str, Any]:
    """Return whole numbers of a row by our names; a cell that says nothing is 1."""
    return {name: int(record[column] or 1) for name, column in columns.items()}


def _flag(record: Record, name: str) -> bool:
    """Return a truth value of a row."""
    return record[name] == "1"
