"""Steps, sizes, start-up and networks as published, compared with the models with the numbers that Ettrick ships."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import MeasuredQuantity, bare, estimate
from ettrick.analysis.validation.published_steps import (
    BENCHMARKS,
    MEGATRON,
    STRONG,
    Array,
    MeasuredSteps,
    as_shipped,
    deepseek_row,
    default_folder,
    each_record,
    large_mape,
    mape,
    modelled_step,
    read_mixed,
    read_steps,
    recompute_ratios,
    sources,
    utilisation,
)
from ettrick.sim.catalog import accelerators, models, steps
from ettrick.sim.steps import (
    Link,
    Links,
    Machine,
    Workload,
    breakdown,
    checkpoint_size,
    communicator_time,
    flop_per_token,
    memory_use,
    rerouted_pace,
    start_time,
)
from ettrick.sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.analysis.validation.published_steps import MeasuredStep


@functools.cache
def _dense() -> tuple[MeasuredSteps, Array]:
    """Return the published steps of models without experts, and our errors on them [-]."""
    table = read_steps(default_folder())
    return table, _errors(table.rows)


def forget() -> None:
    """Forget the tables that were read, and the errors on them."""
    _dense.cache_clear()


def _errors(rows: Sequence[MeasuredStep]) -> Array:
    """Return (modelled - measured) / measured with the numbers of the catalog [-]."""
    return np.array([as_shipped(row) / row.measured - 1 for row in rows])


def steps_error(
    _: ScenarioRunner, __: int, of: Literal["all", "large", "megatron", "tuned", "experts"]
) -> MeasuredQuantity:
    """Return the mean absolute error on published steps [-].

    Parameters
    ----------
    of
        ``all`` models without experts; ``large`` jobs of them, from 1,024 GPUs on; those of ``megatron`` on A100, or of
        these the ones that Calculon was ``tuned`` to; or those with ``experts``.
    """
    if of == "experts":
        return MeasuredQuantity(mape(_errors(read_mixed(default_folder()).rows)))
    dense, error = _dense()
    if of == "large":
        return MeasuredQuantity(large_mape(dense.rows, error))
    indices = sources(dense.rows)
    if of == "megatron":
        error = error[[index for name in MEGATRON for index in indices[name]]]
    elif of == "tuned":
        error = error[[index for index in indices["korthikanti"] if dense.rows[index].work.gpus < 2000]]
    return MeasuredQuantity(mape(error))


def steps_bias(_: ScenarioRunner, __: int, source: str) -> MeasuredQuantity:
    """Return the mean error on the published steps of one source [-]."""
    dense, error = _dense()
    return MeasuredQuantity(float(error[sources(dense.rows)[source]].mean()))


def strong_scaling(_: ScenarioRunner, __: int, gpus: int) -> MeasuredQuantity:
    """Return modelled over published time of a step of 177B at a fixed batch, by the number of GPUs [-]."""
    dense, error = _dense()
    (index,) = (index for index in sources(dense.rows)[STRONG] if dense.rows[index].work.gpus == gpus)
    return MeasuredQuantity(1 + float(error[index]))


def strong_loss(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return the MFU that the same model loses from 96 to 4,608 GPUs [points]."""
    dense, error = _dense()
    indices = sources(dense.rows)[STRONG]
    first, last = (
        utilisation(dense.rows[index], dense.rows[index].measured * (1 + error[index]))
        for index in (indices[0], indices[-1])
    )
    return MeasuredQuantity(100 * (first - last))


def recomputed(_: ScenarioRunner, __: int, model: str, published: float) -> MeasuredQuantity:
    """Return the time of a step with full recomputation over that with selective one [-]."""
    dense, error = _dense()
    return MeasuredQuantity(published * (1 + recompute_ratios(dense.rows, error)[model]))


def published_step(_: ScenarioRunner, __: int, what: str, gpus: int) -> MeasuredQuantity:
    """Return the modelled time of a published step that is in no source of the fit [s]."""
    (benchmark,) = (
        benchmark
        for benchmark in BENCHMARKS
        if gpus in benchmark.times and f"{benchmark.what}, {benchmark.precision}" == what
    )
    return MeasuredQuantity(as_shipped(benchmark.row(gpus)))


def nemotron(lab: ScenarioRunner, replications: int, gpus: int, precision: str = "") -> MeasuredQuantity:
    """Return the time of a step of Nemotron-4 340B [s]: of the benchmark at a precision, or of the training itself."""
    kind = f"benchmark, {precision}" if precision else "training, bf16"
    return published_step(lab, replications, f"Nemotron-4 340B {kind}", gpus)


def nemotron_bias(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return the mean error on all steps of Nemotron-4 340B [-]."""
    rows = [b.row(gpus) for b in BENCHMARKS if b.what.startswith("Nemotron") for gpus in b.times]
    return MeasuredQuantity(fmean(_errors(rows).tolist()))


def llama3_mfu(lab: ScenarioRunner, _: int, gpus: int) -> MeasuredQuantity:
    """Return the MFU of Llama 3 405B on its cluster as the step model has it [%], half of attention counted."""
    data = lab.shipped("llama3-405b-54d").scenario.dump()
    (job,) = data["jobs"]
    # With a measured MFU the model would be scaled to it.
    del job["mfu"]
    job |= {"gpus": gpus, "parallelism": {**job["parallelism"], "data": gpus // 128}}
    return MeasuredQuantity(100 * modelled_step(lab.scenario(data)).mfu)


def deepseek_hours(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return the GPU-hours of the pre-training of DeepSeek-V3 on 2,048 H800 [million]."""
    row = deepseek_row()
    rate = row.work.sequences * row.work.sequence / as_shipped(row)
    return MeasuredQuantity(14.8e12 / rate * row.work.gpus / HOUR / 1e6)


def bubble(
    _: ScenarioRunner, __: int, stages: int, microbatches: int, virtual: int = 1, schedule: Any = "1f1b"
) -> MeasuredQuantity:
    """Return the time to fill and drain a pipeline over that of its microbatches [-], where links take no time.

    Of a model without a vocabulary, so that stages are alike, and without attention, so that all passes of zero bubble
    take equally long.
    """
    shape = replace(models()["megatron-22b"], vocabulary=0)
    work = Workload(shape, 2048, microbatches, pipeline=stages, virtual=virtual, schedule=schedule)
    chip = replace(accelerators()["a100"], memory_bandwidth=math.inf)
    shares = replace(steps.efficiencies(chip, "bf16"), attention=math.inf)
    constants = replace(steps.constants(), launch=0.0, overhead=0.0)
    step = breakdown(work, Machine(chip, shares, Links(*[Link(math.inf)] * 7), constants))
    return MeasuredQuantity(step.bubble / (step.total - step.bubble))


def rerouted(
    _: ScenarioRunner, __: int, microbatches: int, stages: int, replicas: int, missing: int
) -> MeasuredQuantity:
    """Return how much longer a step takes when peers do the work of a lost worker too [-]."""
    return MeasuredQuantity(1 / rerouted_pace(microbatches, stages, replicas, missing))


# Parameters, operation counts, and what a GPU and a checkpoint hold, compared with what publishers print.


_GIB = 2.0**30


def token_flop(_: ScenarioRunner, __: int, model: str, depths: int = 0) -> MeasuredQuantity:
    """Return the FLOP of a token of a model with experts at 4,096 tokens [GFLOP], half of attention counted."""
    return MeasuredQuantity(flop_per_token(replace(models()[model], depths=depths), 4096) / 1e9)


def training_flop(_: ScenarioRunner, __: int, model: str, tokens: float) -> MeasuredQuantity:
    """Return the FLOP of a whole training, attention left out, as publishers count them [FLOP]."""
    return MeasuredQuantity(tokens * flop_per_token(models()[model], 0))


def parameters(_: ScenarioRunner, __: int, model: str, active: bool = False) -> MeasuredQuantity:
    """Return the parameters of a model, or those that a token meets [10^9]; without modules for further tokens."""
    shape = replace(models()[model], depths=0)
    return MeasuredQuantity((shape.active_parameters if active else shape.parameters) / 1e9)


def checkpoint_gib(_: ScenarioRunner, __: int, model: str) -> MeasuredQuantity:
    """Return the size of a checkpoint [GiB]."""
    return MeasuredQuantity(checkpoint_size(models()[model]) / _GIB)


def gpu_memory(
    _: ScenarioRunner,
    __: int,
    model: str,
    layout: tuple[int, int, int, int],
    part: Literal["state", "activations"],
    saves: bool,
) -> MeasuredQuantity:
    """Return what a GPU holds of a Megatron model [GiB], its layers only.

    Parameters
    ----------
    layout
        Tensor and pipeline ranks, pieces of a stage, and sequences of a microbatch.
    part, saves
        Parameters with gradients and optimizer, or activations; with sequence parallelism and selective recomputation,
        or without both.
    """
    tensor, pipeline, virtual, microbatch = layout
    use = memory_use(
        Workload(
            shape=replace(models()[model], vocabulary=0),
            sequence=2048,
            sequences=4 * pipeline * microbatch,
            microbatch=microbatch,
            tensor=tensor,
            pipeline=pipeline,
            virtual=virtual,
            sharding="none",
            recompute="selective" if saves else "none",
            sequence_parallel=saves,
            fused_attention=False,
        )
    )
    size = use.activations if part == "activations" else use.weights + use.gradients + use.optimizer
    return MeasuredQuantity(size / _GIB)


# Start-up, rates of collectives, and the switches and cables of published clusters.


def communicators(_: ScenarioRunner, __: int, thousands: float) -> MeasuredQuantity:
    """Return the time to set up the collectives of so many times 1,024 GPUs [s]."""
    return MeasuredQuantity(communicator_time(thousands * 1024))


def start_range(_: ScenarioRunner, __: int, gpus: float, end: str) -> MeasuredQuantity:
    """Return the ``low`` or the ``high`` end of the time from a job's start to its first step [s]."""
    low, high = start_time(gpus)
    return MeasuredQuantity(low if end == "low" else high)


def starts_in_range(_: ScenarioRunner, __: int, slack: float) -> MeasuredQuantity:
    """Return the share of published starts on H100 that are in the range, made wider by `slack` on both sides [-]."""
    is_in_range = []
    for row in each_record(default_folder() / "mlperf_startup_and_jitter.csv", dict):
        if "H100" in row["accelerator"] and row["duplicate"] == "0" and row["init_to_run_s"]:
            low, high = start_time(int(row["accelerators"]))
            is_in_range.append((1 - slack) * low <= float(row["init_to_run_s"]) <= (1 + slack) * high)
    return MeasuredQuantity(fmean(is_in_range))


def preset_start(lab: ScenarioRunner, replications: int, preset: str, gpus: int) -> MeasuredQuantity:
    """Return the time from a job's nodes to its first step with a recovery preset, without the restore [s]."""
    prepared = lab.scenario(
        bare(
            "start",
            cluster={"nodes": gpus // 8, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 32768}},
            horizon="1 h",
            jobs=[{"name": "job", "gpus": gpus, "parallelism": {"tensor": 8, "data": gpus // 8}}],
            failures=[],
            recovery={"use": preset},
        )
    )
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return estimate(float(job.buckets[sim.Bucket.INITIALIZE]) / job.gpus for job in jobs)


def bus_bandwidth(_: ScenarioRunner, __: int, accelerator: str) -> MeasuredQuantity:
    """Return what collectives of the GPUs of one scale-up domain reach [GB/s].

    Worked out from the waits of a step with tensor-parallel GPUs: bytes that one GPU sends over the time that takes.
    """
    chip = accelerators()[accelerator]
    shape = replace(models()["megatron-22b"], vocabulary=0)
    work = Workload(shape, 2048, 1, tensor=8, overlap_tensor=False)
    links = Links(Link(chip.scale_up), *[Link(math.inf)] * 6)
    constants = replace(steps.constants(), latency=0.0)
    wait = breakdown(work, Machine(chip, steps.efficiencies(chip, "bf16"), links, constants)).tensor
    # Two all-reduces forward and two backward in each layer.
    sent = shape.layers * 4 * 2 * 7 / 8 * 2 * 2048 * shape.hidden
    return MeasuredQuantity(sent / wait / 1e9)


def fabric_count(_: ScenarioRunner, __: int, topology: str, part: str) -> MeasuredQuantity:
    """Return how many switches or cables of one tier a shipped cluster comes to [-]."""
    return MeasuredQuantity(sim.load_cluster(sim.find_cluster(topology)).counts()[part])
