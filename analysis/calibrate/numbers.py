"""The numbers of the step model while they are being fitted, and what is known of them beforehand."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sim.catalog.steps import LOGITS
from sim.perf import Constants, Efficiencies, Machine, breakdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from analysis.calibrate.rows import Product, Row

__all__ = ["Array", "Key", "Numbers", "Prior", "dense_priors", "errors", "expert_priors", "predict"]

Array: TypeAlias = npt.NDArray[np.float64]
Key: TypeAlias = tuple[str, ...]
"""``("gemm", generation, precision)``, ``("attention", generation)`` or ``("constants", name)``."""


class Prior(NamedTuple):
    """What is known of a number beforehand: a log-normal law by its median and its standard deviation of logarithms."""

    median: float
    deviation: float


@dataclass(frozen=True)
class Numbers:
    """Efficiencies by generation (and precision), and what holds for all accelerators."""

    gemm: Mapping[tuple[str, str], float] = field(default_factory=dict)
    attention: Mapping[str, float] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)

    def updated(self, values: Mapping[Key, float]) -> Numbers:
        """Return these numbers with some replaced."""
        gemm, attention = dict(self.gemm), dict(self.attention)
        common = {}
        for (kind, *names), value in values.items():
            if kind == "gemm":
                gemm[names[0], names[1]] = value
            elif kind == "attention":
                attention[names[0]] = value
            else:
                common[names[0]] = value
        return Numbers(gemm, attention, dataclasses.replace(self.constants, **common))

    def value(self, key: Key) -> float:
        """Return one number."""
        kind, *names = key
        if kind == "gemm":
            return self.gemm[names[0], names[1]]
        if kind == "attention":
            return self.attention[names[0]]
        found: float = getattr(self.constants, names[0])
        return found

    def machine(self, row: Row) -> Machine:
        """Return what a step of the table runs on."""
        generation, precision = row.chip.generation, row.work.precision
        shares = Efficiencies(
            gemm=self.gemm[generation, precision],
            logits=self.gemm[generation, "bf16"] if precision == "bf16" else LOGITS,
            attention=self.attention[generation],
            sigma=0.0,
            basis="fitted",
        )
        return Machine(row.chip, shares, row.links, self.constants)


def predict(rows: Iterable[Row], numbers: Numbers) -> Array:
    """Return the modelled times of steps [s]."""
    return np.array([breakdown(row.work, numbers.machine(row)).total for row in rows])


def errors(rows: Sequence[Row], numbers: Numbers) -> Array:
    """Return (modelled - measured) / measured for each step [-]."""
    found: Array = predict(rows, numbers) / np.array([row.measured for row in rows]) - 1
    return found


def dense_priors(rows: Iterable[Row], products: Iterable[Product]) -> dict[Key, Prior]:
    """Return what is known of the numbers that steps without experts determine.

    Matrix products: 0.9 of the 95th percentile of large products, which are measured without the rest of a step; mxfp8
    as fp8. Attention: 0.9 of the 35 % that FlashAttention-2 reaches on H100. Activations: written once and read once.

    References
    ----------
    Products: github ai-dynamo/aiconfigurator, tables of measured kernels. Attention: J. Shah et al.,
    "FlashAttention-3", arXiv 2407.08608, abstract.
    """
    large: dict[tuple[str, str], list[float]] = {}
    for product in products:
        large.setdefault((product.generation, product.precision), []).append(product.large)
    kinds = sorted({(row.chip.generation, row.work.precision) for row in rows})
    measured = [(generation, "fp8" if precision == "mxfp8" else precision) for generation, precision in kinds]
    for generation, precision in measured:
        if (generation, precision) not in large:
            message = f"no measured matrix products of {generation} at {precision}: the fit has no prior for it"
            raise ValueError(message)
    priors: dict[Key, Prior] = {
        ("gemm", *kind): Prior(0.9 * fmean(large[name]), 0.2) for kind, name in zip(kinds, measured, strict=True)
    }
    priors |= {("attention", generation): Prior(0.31, 0.15) for generation in sorted({kind[0] for kind in kinds})}
    priors["constants", "touches"] = Prior(2.0, 0.4)
    return priors


def expert_priors() -> dict[Key, Prior]:
    """Return what is assumed of the numbers that steps with experts determine: smaller products, many small kernels."""
    return {("constants", "expert_gemm"): Prior(0.8, 0.3), ("constants", "expert_launch"): Prior(0.5e-3, 0.3)}
