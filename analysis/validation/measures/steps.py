"""Published steps beside the model of steps with the numbers that Ettrick ships."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.calibrate.fit import Array, Numbers, large_mape, mape, sources
from analysis.calibrate.outcome import MEGATRON, STRONG, anchors_of, recompute_ratios, utilisation
from analysis.calibrate.rows import Steps, default_folder, read_mixed, read_steps
from analysis.validation.row import Estimate
from sim.catalog import accelerators, models, steps
from sim.steps import Link, Links, Machine, Workload, breakdown, ideal_links, rerouted_pace
from sim.units import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.calibrate.outcome import Anchor
    from analysis.calibrate.rows import Row
    from analysis.validation.lab import Lab


def _table(name: str) -> None:
    """Raise FileNotFoundError if a reference table is not there."""
    path = default_folder() / name
    if not path.exists():
        raise FileNotFoundError(path)


@functools.cache
def _dense() -> tuple[Steps, Array]:
    """Return the published steps of models without experts, and our errors on them [-]."""
    _table("training_steps.csv")
    found = read_steps(default_folder())
    return found, _errors(tuple(found.rows))


def forget() -> None:
    """Forget the tables that were read, and the errors on them."""
    _dense.cache_clear()
    _anchors.cache_clear()


def _errors(rows: tuple[Row, ...]) -> Array:
    """Return (modelled - measured) / measured with the numbers of the catalog, as a user's scenario gets them [-]."""
    found = []
    for row in rows:
        has_experts = row.work.shape.experts is not None
        shares = steps.efficiencies(row.chip, row.work.precision, experts=has_experts)
        time = breakdown(row.work, Machine(row.chip, shares, row.links, steps.constants())).total
        found.append(time / row.measured - 1)
    return np.array(found)


def steps_error(_: Lab, __: int, of: Literal["all", "large", "megatron", "tuned", "experts"]) -> Estimate:
    """Return the mean absolute error on published steps [-].

    Parameters
    ----------
    of
        ``all`` models without experts; ``large`` jobs of them, from 1,024 GPUs on; those of ``megatron`` on A100, or of
        these the ones that Calculon was ``tuned`` to; or those with ``experts``.
    """
    if of == "experts":
        _table("moe_steps.csv")
        return Estimate(mape(_errors(tuple(read_mixed(default_folder()).rows))))
    dense, error = _dense()
    if of == "large":
        return Estimate(large_mape(dense.rows, error))
    places = sources(dense.rows)
    if of == "megatron":
        error = error[[place for name in MEGATRON for place in places[name]]]
    elif of == "tuned":
        error = error[[place for place in places["korthikanti"] if dense.rows[place].work.gpus < 2000]]
    return Estimate(mape(error))


def steps_bias(_: Lab, __: int, source: str) -> Estimate:
    """Return the mean error on the published steps of one source [-]."""
    dense, error = _dense()
    return Estimate(float(error[sources(dense.rows)[source]].mean()))


def strong_scaling(_: Lab, __: int, gpus: int) -> Estimate:
    """Return modelled over published time of a step of 177B at a fixed batch, by the number of GPUs [-]."""
    dense, error = _dense()
    (place,) = (place for place in sources(dense.rows)[STRONG] if dense.rows[place].work.gpus == gpus)
    return Estimate(1 + float(error[place]))


def strong_loss(_: Lab, __: int) -> Estimate:
    """Return the MFU that the same model loses from 96 to 4,608 GPUs [points]."""
    dense, error = _dense()
    places = sources(dense.rows)[STRONG]
    first, last = (
        utilisation(dense.rows[place], dense.rows[place].measured * (1 + error[place]))
        for place in (places[0], places[-1])
    )
    return Estimate(100 * (first - last))


def recomputed(_: Lab, __: int, model: str, published: float) -> Estimate:
    """Return the time of a step with full recomputation over that with selective one [-]."""
    dense, error = _dense()
    return Estimate(published * (1 + recompute_ratios(dense.rows, error)[model]))


@functools.cache
def _anchors() -> tuple[Anchor, ...]:
    """Return the steps of Nemotron-4 340B, which is in no source of the fit."""
    chip = accelerators()["h100"]
    shares = {precision: steps.efficiencies(chip, precision) for precision in ("bf16", "fp8")}
    gemm = {("hopper", precision): share.gemm for precision, share in shares.items()}
    return tuple(anchors_of(Numbers(gemm, {"hopper": shares["bf16"].attention}, steps.constants())))


def nemotron(_: Lab, __: int, gpus: int, precision: str = "") -> Estimate:
    """Return the time of a step of Nemotron-4 340B [s]: of the benchmark at a precision, or of the training itself."""
    kind = f"benchmark, {precision}" if precision else "training"
    (found,) = (anchor for anchor in _anchors() if anchor.gpus == gpus and kind in anchor.what)
    return Estimate(found.modelled)


def nemotron_bias(_: Lab, __: int) -> Estimate:
    """Return the mean error on all steps of Nemotron-4 340B [-]."""
    return Estimate(fmean(anchor.modelled / anchor.published - 1 for anchor in _anchors()))


def llama3_mfu(lab: Lab, _: int, gpus: int) -> Estimate:
    """Return the MFU of Llama 3 405B on its cluster as the model of steps has it [%], half of attention counted."""
    data = lab.shipped("llama3-405b-54d").scenario.dump()
    (job,) = data["jobs"]
    # With a measured MFU the model would be scaled to it.
    del job["mfu"]
    job |= {"gpus": gpus, "parallelism": {**job["parallelism"], "data": gpus // 128}}
    plan = lab.scenario(data).jobs[0].plan
    assert plan is not None
    return Estimate(100 * plan.mfu)


def deepseek_hours(_: Lab, __: int) -> Estimate:
    """Return the GPU-hours of the pre-training of DeepSeek-V3 on 2,048 H800 [million].

    H800 is an H100 with 400 GB/s of NVLink both ways; tokens travel to experts while another microbatch computes.
    """
    chip = replace(accelerators()["h100"], scale_up=200e9)
    work = Workload(
        models()["deepseek-v3"],
        4096,
        15360,
        pipeline=16,
        data=128,
        expert=64,
        precision="fp8",
        schedule="zero-bubble-h1",
        recompute="selective",
        overlap_expert=True,
    )
    links = ideal_links(work, chip.scale_up, 50e9, 8)
    machine = Machine(chip, steps.efficiencies(chip, "fp8", experts=True), links, steps.constants())
    rate = work.sequences * work.sequence / breakdown(work, machine).total
    return Estimate(14.8e12 / rate * work.gpus / HOUR / 1e6)


def bubble(_: Lab, __: int, stages: int, microbatches: int, virtual: int = 1, schedule: Any = "1f1b") -> Estimate:
    """Return the time to fill and drain a pipeline over that of its microbatches [-], where links take no time.

    Of a model without a vocabulary, so that stages are alike, and without attention, so that all passes of zero bubble
    take equally long.
    """
    shape = replace(models()["megatron-22b"], vocabulary=0)
    work = Workload(shape, 2048, microbatches, pipeline=stages, virtual=virtual, schedule=schedule)
    chip = replace(accelerators()["a100"], memory_bandwidth=math.inf)
    shares = replace(steps.efficiencies(chip, "bf16"), attention=math.inf)
    constants = replace(steps.constants(), launch=0.0, overhead=0.0)
    found = breakdown(work, Machine(chip, shares, Links(*[Link(math.inf)] * 6), constants))
    return Estimate(found.bubble / (found.total - found.bubble))


def rerouted(_: Lab, __: int, microbatches: int, stages: int, replicas: int, missing: int) -> Estimate:
    """Return how much longer a step takes when peers do the work of a lost worker too [-]."""
    return Estimate(1 / rerouted_pace(microbatches, stages, replicas, missing))


MEASURES: Mapping[str, Callable[..., Estimate]] = {
    "bubble": bubble,
    "deepseek_hours": deepseek_hours,
    "llama3_mfu": llama3_mfu,
    "nemotron": nemotron,
    "nemotron_bias": nemotron_bias,
    "recomputed": recomputed,
    "rerouted": rerouted,
    "steps_bias": steps_bias,
    "steps_error": steps_error,
    "strong_loss": strong_loss,
    "strong_scaling": strong_scaling,
}
