"""Published results that the fit has not seen, beside what it says of them."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.calibrate.numbers import predict
from analysis.calibrate.rows import Row, each_record
from sim.catalog import accelerators, models
from sim.perf import ModelShape, Workload, flop_per_token, ideal_links

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.calibrate.numbers import Numbers
    from analysis.calibrate.outcome import Outcome

__all__ = ["Anchor", "Order", "anchors", "anchors_of", "nanotron_order"]


class Anchor(NamedTuple):
    """One published result: what, its size, what is published and what the model says, in the same unit."""

    what: str
    gpus: int
    published: float
    modelled: float
    unit: str = "s"


class Order(NamedTuple):
    """Pairs of layouts of one model, those in the published order, and the rank correlation of all layouts [-]."""

    pairs: int
    alike: int
    correlation: float


# github NVIDIA/dgxc-benchmarking, Nemotron4 340B, 24.11: steps of replicas of 64 H100 with 16 microbatches of one
# sequence each, by precision and number of GPUs [s].
_NEMOTRON_BENCHMARK = {
    "bf16": {128: 4.61, 256: 4.67, 512: 4.70, 1024: 4.73, 2048: 4.84},
    "fp8": {128: 3.16, 256: 3.21, 512: 3.26, 1024: 3.34, 2048: 3.49},
}
_MLPERF_SIZES = (512, 1536, 3072, 8192, 11616)

# Layers, width, heads and feed-forward width: github huggingface/nanotron, scripts/scaling_benchmarks.py.
_NANOTRON = {
    "1.34B": (16, 2048, 8192, 32),
    "3.57B": (28, 3072, 8192, 32),
    "8.86B": (32, 4096, 14336, 32),
    "80B": (80, 8192, 28672, 64),
}


def anchors(found: Outcome) -> list[Anchor]:
    """Return the published results, with what the model says of them."""
    return [*anchors_of(found.numbers), *_mlperf(found), _deepseek(found.numbers)]


def _hopper_row(name: str, work: Workload, measured: float, **changes: Any) -> Row:
    """Return a step on nodes of eight H100, 400 Gb/s each, or of something like them."""
    chip = dataclasses.replace(accelerators()["h100"], **changes)
    return Row(name, name, "", chip, work, ideal_links(work, chip.scale_up, 50e9, 8), measured)


def anchors_of(numbers: Numbers) -> list[Anchor]:
    """Return steps of Nemotron-4 340B, which no source of the fit has: a benchmark, and the training itself.

    The training: arXiv 2406.11704, section 2 (8 tensor x 12 pipeline, interleaved; microbatch of one sequence and one
    layer a piece are assumed).
    """
    shape = models()["nemotron-4-340b"]
    rows = []
    for precision, times in _NEMOTRON_BENCHMARK.items():
        for gpus, measured in times.items():
            data = gpus // 64
            work = Workload(shape, 4096, 16 * data, 1, 8, 1, 8, data, virtual=12, precision=precision)
            rows.append(_hopper_row(f"Nemotron-4 340B benchmark, {precision}", work, measured))
    work = Workload(shape, 4096, 2304, 1, 8, 1, 12, 64, virtual=8)
    rows.append(_hopper_row("Nemotron-4 340B training, bf16", work, 8.0))
    times = predict(rows, numbers).tolist()
    return [Anchor(row.model, row.work.gpus, row.measured, time) for row, time in zip(rows, times, strict=True)]


def _mlperf(found: Outcome) -> list[Anchor]:
    """Return the strong scaling of MLPerf GPT-3 on H100, by the fit that has not seen that source."""
    rows = found.dense.rows
    (fold,) = [fold for fold in found.left if rows[fold.out[0]].source == "mlperf_gpt3"]
    name = "MLPerf GPT-3 175B, fp8, source left out"
    known: dict[int, Anchor] = {}
    for position, error in zip(fold.out, fold.errors.tolist(), strict=True):
        row = rows[position]
        gpus, measured = row.work.gpus, row.measured
        # Of several rounds at one size the fastest.
        beaten = gpus in known and known[gpus].published <= measured
        if gpus in _MLPERF_SIZES and row.chip.generation == "hopper" and not beaten:
            known[gpus] = Anchor(name, gpus, measured, measured * (1 + error))
    return [known[gpus] for gpus in sorted(known)]


def _deepseek(numbers: Numbers) -> Anchor:
    """Return the GPU-hours of the pre-training of DeepSeek-V3 on 2,048 H800.

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
    row = _hopper_row("DeepSeek-V3 pre-training, fp8, another stack", work, 0.0, scale_up=200e9)
    (time,) = predict([row], numbers).tolist()
    hours = time * work.gpus * 14.8e12 / (work.sequences * work.sequence) / 3600
    return Anchor(row.model, work.gpus, 2.664, hours / 1e6, "million GPU-hours")


def nanotron_order(folder: Path, numbers: Numbers) -> Order:
    """Return how alike the model and a strong-scaling study order layouts by MFU.

    About a million tokens a step on 8 to 512 H100, down to a sequence or two for each GPU, in a stack that is not
    fitted: for its order alone.

    References
    ----------
    github huggingface/nanotron, docs/benchmark_summary.svg.
    """
    from scipy.stats import spearmanr

    rows = each_record(folder / "nanotron_best_configs_h100.csv", _nanotron_row)
    published = each_record(folder / "nanotron_best_configs_h100.csv", lambda record: float(record["mfu_pct"]))
    flop = [row.work.sequences * row.work.sequence * flop_per_token(row.work.shape, row.work.sequence) for row in rows]
    times = predict(rows, numbers).tolist()
    modelled = [work / (time * row.work.gpus) for work, time, row in zip(flop, times, rows, strict=True)]
    pairs = [(i, j) for i, j in combinations(range(len(rows)), 2) if rows[i].model == rows[j].model]
    alike = sum((published[i] > published[j]) == (modelled[i] > modelled[j]) for i, j in pairs)
    return Order(len(pairs), alike, float(spearmanr(published, modelled).statistic))


def _nanotron_row(record: dict[str, str]) -> Row:
    """Return a layout of the study."""
    layers, hidden, ffn, heads = _NANOTRON[record["model"]]
    shape = ModelShape(layers, hidden, ffn, heads, heads, 131072, gated=True, tied=ffn < 10000)
    sizes = [int(record[name]) for name in ("global_batch_seqs", "mbs", "tp", "pp", "dp")]
    sequences, microbatch, tensor, pipeline, data = sizes
    sharding: Any = "optimizer" if record["zero"] == "ZeRO-1" else "none"
    work = Workload(shape, 4096, sequences, microbatch, tensor, 1, pipeline, data, sharding=sharding)
    return _hopper_row(record["model"], work, 0.0)
