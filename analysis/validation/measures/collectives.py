"""Start-up, rates of collectives, and the switches and cables of published clusters."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import sim
from analysis.calibrate.rows import default_folder
from analysis.validation.lab import estimate
from analysis.validation.row import Estimate
from sim.catalog import accelerators, models, steps
from sim.steps import Link, Links, Machine, Workload, breakdown, communicator_time, start_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.lab import Lab

_K = 1024


def communicators(_: Lab, __: int, thousands: float) -> Estimate:
    """Return the time to set up the collectives of so many times 1,024 GPUs [s]."""
    return Estimate(communicator_time(thousands * _K))


def start_range(_: Lab, __: int, gpus: float, end: str) -> Estimate:
    """Return the ``low`` or the ``high`` end of the time from a job's start to its first step [s]."""
    low, high = start_time(gpus)
    return Estimate(low if end == "low" else high)


def starts_in_range(_: Lab, __: int, slack: float) -> Estimate:
    """Return the share of published starts on H100 that are in the range, made wider by `slack` on both sides [-]."""
    path = default_folder() / "mlperf_startup_and_jitter.csv"
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if "H100" in row["accelerator"] and row["duplicate"] == "0"]
    found = []
    for row in rows:
        if row["init_to_run_s"]:
            low, high = start_time(int(row["accelerators"]))
            found.append((1 - slack) * low <= float(row["init_to_run_s"]) <= (1 + slack) * high)
    return Estimate(sum(found) / len(found))


def preset_start(lab: Lab, replications: int, preset: str, gpus: int) -> Estimate:
    """Return the time from a job's nodes to its first step with a recovery preset, without the restore [s]."""
    prepared = lab.scenario(
        {
            "name": "start",
            "cluster": {"nodes": gpus // 8, "gpus_per_node": 8, "fabric": {"rails": 1, "radix": 32768}},
            "horizon": "1 h",
            "jobs": [{"name": "job", "gpus": gpus, "parallelism": {"tensor": 8, "data": gpus // 8}}],
            "failures": [],
            "checkpoint": {"tiers": [{"interval": "10 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
            "repair": {"time": "1 h"},
            "recovery": {"use": preset},
        }
    )
    jobs = [result.jobs[0] for result in lab.results(prepared, replications)]
    return estimate(float(job.buckets[sim.Bucket.INITIALIZE]) / job.gpus for job in jobs)


def bus_bandwidth(_: Lab, __: int, accelerator: str) -> Estimate:
    """Return what collectives of the GPUs of one scale-up domain reach [GB/s].

    Worked out from the waits of a step with tensor-parallel GPUs: bytes that one GPU sends over the time that takes.
    """
    chip = accelerators()[accelerator]
    shape = replace(models()["megatron-22b"], vocabulary=0)
    work = Workload(shape, 2048, 1, tensor=8, overlap_tensor=False)
    links = Links(Link(chip.scale_up), *[Link(math.inf)] * 5)
    constants = replace(steps.constants(), latency=0.0)
    wait = breakdown(work, Machine(chip, steps.efficiencies(chip, "bf16"), links, constants)).tensor
    # Two all-reduces forward and two backward in each layer.
    sent = shape.layers * 4 * 2 * 7 / 8 * 2 * 2048 * shape.hidden
    return Estimate(sent / wait / 1e9)


def fabric_count(_: Lab, __: int, topology: str, part: str) -> Estimate:
    """Return how many switches or cables of one tier a shipped cluster comes to [-]."""
    return Estimate(sim.load_cluster(sim.find_cluster(topology)).counts()[part])


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "bus_bandwidth": bus_bandwidth,
    "communicators": communicators,
    "fabric_count": fabric_count,
    "preset_start": preset_start,
    "start_range": start_range,
    "starts_in_range": starts_in_range,
}
