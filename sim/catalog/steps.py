"""The constants of the step model compared with data sheets: fitted to measured steps, and substitutes for others."""

from __future__ import annotations

import functools
import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from ettrick.sim.catalog import accelerators, file_table
from ettrick.sim.steps.hardware import Constants, Efficiencies
from ettrick.sim.units import DURATION, parse

if TYPE_CHECKING:
    from ettrick.sim.steps.hardware import Accelerator
    from ettrick.sim.steps.kernels import Benchmarks
    from ettrick.sim.yamlfile import Table

LOGITS = 0.7

"""Share of the 16-bit peak in the product with the vocabulary, in steps whose other products are narrower (assumed)."""


def fit() -> Table:
    """Return the fitted numbers as they are written: see the file's comments."""
    return file_table("step_constants.yaml")


@functools.cache
def constants() -> Constants:
    """Return the numbers of the step model that hold for all accelerators."""
    numbers = fit()["constants"]
    assert numbers.keys() <= {entry.name for entry in fields(Constants)}, "the file names constants of the model"
    return Constants(**numbers)


def efficiencies(chip: Accelerator, precision: str, *, experts: bool = False, states: bool = False) -> Efficiencies:
    """Return what an accelerator reaches of its peak, and how sure that is.

    Fitted to measured steps where there are any. Else the share that fitted accelerators reach of their best measured
    matrix product, of this one's; and where none is measured, a share of the peak.

    Parameters
    ----------
    chip, precision
        The accelerator, and one of the precisions that it has.
    experts, states
        Whether the model has experts, or state spaces: those steps are predicted less well.
    """
    content = fit()
    assumed = content["assumed"]
    fitted = content["gemm"].get(chip.generation, {})
    guessed = assumed["gemm"].get(chip.generation, {})
    basis = "assumed" if precision in guessed or fitted else "peak only"
    if precision in fitted and not chip.announced:
        basis = "fitted"

    def share(name: str) -> float:
        if name in fitted or name in guessed:
            return float(fitted.get(name) or guessed.get(name))
        if name in chip.matmul:
            return float(assumed["matmul_share"] * chip.matmul[name] / chip.peak[name])
        return float(assumed["gemm_share"][name])

    sigma = content["sigma"][basis]
    if experts:
        sigma = max(sigma, content["sigma"]["experts"])
    if states:
        sigma = max(sigma, content["sigma"]["state spaces"])
    return Efficiencies(
        gemm=share(precision),
        logits=share("bf16") if precision == "bf16" else LOGITS,
        attention=float(content["attention"].get(chip.generation, assumed["attention"])),
        sigma=float(sigma),
        basis=basis,
    )


KERNEL = 0.9

"""Share that a kernel reaches in a step of what it reaches alone (assumed; the median of the fit's priors)."""


def of_software(shares: Efficiencies, precision: str, gemm: float | None, attention: float | None) -> Efficiencies:
    """Return efficiencies with what kernels are said to reach of the peak by themselves.

    Parameters
    ----------
    shares, precision
        What steps reach with the software that was fitted, and their precision.
    gemm, attention
        Shares that the best large matrix product, and the core of attention, reach alone [-]; ``None`` where unsaid.
    """
    content = fit()
    if gemm is not None:
        gemm = float(content["assumed"]["matmul_share"] * gemm)
        shares = replace(shares, gemm=gemm, logits=gemm if precision == "bf16" else shares.logits)
    if attention is not None:
        shares = replace(shares, attention=KERNEL * attention)
    return replace(shares, sigma=max(shares.sigma, float(content["sigma"]["assumed"])), basis="assumed")


FARTHEST = 16384

"""GPUs of the largest fitted step [-]."""


def widened(sigma: float, gpus: int) -> float:
    """Return the scatter of steps on more GPUs than were measured: 2 % more for each doubling (assumed)."""
    return math.hypot(sigma, 0.02 * math.log2(max(gpus / FARTHEST, 1.0)))


def calibrated_sigma(shares: Efficiencies, *, experts: bool) -> float:
    """Return the scatter that is left once a measured step of the same model and hardware scales the times [-].

    What steps show that were fitted. Where none were, half of the scatter before, at least as much (assumed).
    """
    sigma = fit()["sigma"]
    calibrated = float(sigma["calibrated experts" if experts else "calibrated"])
    return calibrated if shares.basis == "fitted" else max(calibrated, shares.sigma / 2)


def benchmarks(chip: Accelerator, shares: Efficiencies) -> Benchmarks:
    """Return what kernels of an accelerator reach by themselves, given what steps reach on it.

    Where nobody has published measurements of its generation, matrix products of all sizes reach the same share.
    """
    from ettrick.sim.steps.kernels import Benchmarks, GemmCurve  # what few commands need

    entries, chips = file_table("kernels.yaml"), accelerators()
    names = [name for name, entry in chips.items() if entry.title == chip.title and name in entries]
    names += [name for name in entries if chips[name].generation == chip.generation]
    if not names:
        share = shares.gemm / fit()["assumed"]["matmul_share"]
        products = dict.fromkeys(chip.peak, GemmCurve(share, constants().memory, 0.0, share))
        return Benchmarks(products, in_step=KERNEL)
    entry = entries[names[0]]
    products = {
        name: GemmCurve(row["compute"], row["memory"], parse(row["start"], DURATION), row["best"], row["error"])
        for name, row in entry["gemm"].items()
    }
    if "fp8" in products:
        products["mxfp8"] = products["fp8"]
    collectives = {
        name: {int(ranks): 1e9 * rate for ranks, rate in row.items()}
        for name, row in entry.get("collectives", {}).items()
    }
    return Benchmarks(products, entry["sms"], collectives, KERNEL, chips[names[0]].title)
