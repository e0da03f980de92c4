r"""The fit of the step model's numbers to measured steps, and how well it does on steps that it has not seen.

Least squares with a soft L1 loss, so that a few odd rows do not decide:

.. math:: \min_x \sum_i w_i\, 2 \left(\sqrt{1 + z_i^2} - 1\right) + \sum_k \left(\frac{x_k - \mu_k}{\sigma_k}\right)^2,
   \quad z_i = \frac{\ln(T_i(e^x) / t_i)}{0.1}

over the logarithms x of the numbers. Rows of one source share hardware, software and authors: n of them weigh
w = n^(-1/2) each, so a source counts as n^(1/2) independent measurements. Each prior counts as one more. Where a source
is the only one that knows a number, leaving it out leaves the prior, which is why that ends well.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ettrick.analysis.validation.published_steps import PRECISIONS, each_record
from ettrick.sim.catalog import steps
from ettrick.sim.steps import Constants, Efficiencies, Machine, breakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.validation.published_steps import Array, MeasuredStep, Record

# The numbers of the step model while they are being fitted, and what is known of them beforehand.

Key: TypeAlias = tuple[str, ...]
"""``("gemm", generation, precision)``, ``("attention", generation)`` or ``("constants", name)``."""


class Prior(NamedTuple):
    """What is known of a number beforehand: a log-normal law by its median and its standard deviation of logarithms."""

    median: float
    deviation: float


@dataclass(frozen=True)
class Parameters:
    """Efficiencies by generation (and precision), and what holds for all accelerators."""

    gemm: Mapping[tuple[str, str], float] = field(default_factory=dict)
    attention: Mapping[str, float] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)

    def updated(self, values: Mapping[Key, float]) -> Parameters:
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
        return Parameters(gemm, attention, dataclasses.replace(self.constants, **common))

    def value(self, key: Key) -> float:
        """Return one number."""
        kind, *names = key
        if kind == "gemm":
            return self.gemm[names[0], names[1]]
        if kind == "attention":
            return self.attention[names[0]]
        found: float = getattr(self.constants, names[0])
        return found

    def machine(self, row: MeasuredStep) -> Machine:
        """Return what a step of the table runs on."""
        generation, precision = row.chip.generation, row.work.precision
        shares = Efficiencies(
            gemm=self.gemm[generation, precision],
            logits=self.gemm[generation, "bf16"] if precision == "bf16" else steps.LOGITS,
            attention=self.attention[generation],
            sigma=0.0,
            basis="fitted",
        )
        return Machine(row.chip, shares, row.links, self.constants)


def predict(rows: Iterable[MeasuredStep], numbers: Parameters) -> Array:
    """Return the modelled times of steps [s]."""
    return np.array([breakdown(row.work, numbers.machine(row)).total for row in rows])


def errors(rows: Sequence[MeasuredStep], numbers: Parameters) -> Array:
    """Return (modelled - measured) / measured for each step [-]."""
    found: Array = predict(rows, numbers) / np.array([row.measured for row in rows]) - 1
    return found


def dense_priors(rows: Iterable[MeasuredStep], products: Iterable[GemmBenchmark]) -> dict[Key, Prior]:
    """Return what is known of the numbers that steps without experts determine.

    Matrix products: 0.9 of the 95th percentile of large products, which are measured without the rest of a step; mxfp8
    as fp8. Attention: 0.9 of the 35 % that FlashAttention-2 reaches on H100. Activations: written once and read once.

    Blackwell Ultra takes exponentials twice as fast, which bound the forward pass: once and a half that, with a wider
    law that holds no gain and all of it.

    References
    ----------
    Products: github ai-dynamo/aiconfigurator, tables of measured kernels. Attention: J. Shah et al.,
    "FlashAttention-3", arXiv 2407.08608, abstract. NVIDIA, "Inside NVIDIA Blackwell Ultra" (technical blog, 2025).
    """
    large: dict[tuple[str, str], list[float]] = {}
    for product in products:
        large.setdefault((product.generation, product.precision), []).append(product.large)
    kinds = sorted({(row.chip.generation, row.work.precision) for row in rows})
    measured = [(generation, "fp8" if precision == "mxfp8" else precision) for generation, precision in kinds]
    for generation, precision in measured:
        if (generation, precision) not in large:
            raise ValueError(f"no measured matrix products of {generation} at {precision}: the fit has no prior for it")
    priors: dict[Key, Prior] = {
        ("gemm", *kind): Prior(0.9 * fmean(large[name]), 0.2) for kind, name in zip(kinds, measured, strict=True)
    }
    for generation in sorted({kind[0] for kind in kinds}):
        ultra = generation == "blackwell-ultra"
        priors["attention", generation] = Prior(0.47, 0.2) if ultra else Prior(0.31, 0.15)
    priors["constants", "touches"] = Prior(2.0, 0.4)
    return priors


def expert_priors() -> dict[Key, Prior]:
    """Return what is assumed of the numbers that steps with experts determine: more passes, many small kernels.

    Tokens are sorted by expert on both ends of their way: twice as many touches as others' bytes have.
    """
    return {("constants", "expert_touches"): Prior(6.0, 0.4), ("constants", "expert_launch"): Prior(0.5e-3, 0.3)}


def significant(value: float, digits: int = 4) -> float:
    """Return a number to significant digits."""
    return float(f"{value:.{digits}g}")


SCALE = 0.1
"""Error beyond which the loss grows with the error, not with its square [-]."""


class Fold(NamedTuple):
    """A fit without some rows: which ones, the numbers, and the errors on those rows, shape (n,) [-]."""

    out: list[int]
    numbers: Parameters
    errors: Array


class Ablation(NamedTuple):
    """A change to the model, to see what a part of it is worth."""

    name: str
    constants: Mapping[str, float] = {}
    links: Callable[[MeasuredStep], MeasuredStep] | None = None


def fit(rows: Sequence[MeasuredStep], priors: Mapping[Key, Prior], start: Parameters) -> Parameters:
    """Return the numbers that fit rows best: those with a prior are fitted, the others stay as they start.

    Parameters
    ----------
    start
        All numbers; those that are fitted begin at the medians of their priors.
    """
    from scipy.optimize import least_squares

    keys = list(priors)
    centre = np.log([priors[key].median for key in keys])
    spread = np.array([priors[key].deviation for key in keys])
    measured = np.log([row.measured for row in rows])
    counts = Counter(row.source for row in rows)
    root_weights = np.array([counts[row.source] ** -0.25 for row in rows])

    def numbers(position: Array) -> Parameters:
        return start.updated(dict(zip(keys, np.exp(position).tolist(), strict=True)))

    def residuals(position: Array) -> Array:
        away = (np.log(predict(rows, numbers(position))) - measured) / SCALE
        soft = np.sign(away) * np.sqrt(2 * (np.sqrt(1 + away**2) - 1))
        return np.concatenate([root_weights * soft, (position - centre) / spread])

    found = least_squares(residuals, centre, diff_step=[1e-4], xtol=1e-9, ftol=1e-9, gtol=1e-9)
    return numbers(found.x)


def rounded(numbers: Parameters, keys: Sequence[Key]) -> Parameters:
    """Return numbers with some of them rounded to significant digits, as they are written down."""
    return numbers.updated({key: significant(numbers.value(key)) for key in keys})


def folds(count: int, parts: int, seed: int) -> list[list[int]]:
    """Return the positions 0 to `count` - 1, shuffled and dealt into parts."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    return [sorted(order[part::parts]) for part in range(parts)]


def held_out(
    rows: Sequence[MeasuredStep],
    groups: Sequence[list[int]],
    priors: Mapping[Key, Prior],
    start: Parameters,
    tick: Callable[[], None] = lambda: None,
) -> list[Fold]:
    """Return, for each group of positions, the fit to all other rows and its errors on the group."""
    found = []
    for out in groups:
        left = set(out)
        numbers = fit([row for position, row in enumerate(rows) if position not in left], priors, start)
        found.append(Fold(out, numbers, errors([rows[position] for position in out], numbers)))
        tick()
    return found


def changed_errors(
    rows: Sequence[MeasuredStep], change: Ablation, priors: Mapping[Key, Prior], start: Parameters
) -> Array:
    """Return the errors of the model after a change, fitted again [-]."""
    fixed: dict[Key, float] = {("constants", name): value for name, value in change.constants.items()}
    free = {key: prior for key, prior in priors.items() if key not in fixed}
    if change.links is not None:
        rows = [change.links(row) for row in rows]
    return errors(rows, fit(rows, free, start.updated(fixed)))


# Families of steps, and measured matrix products.

_FRAMEWORKS = {
    "megatron_sc21": "Megatron-LM",
    "korthikanti": "Megatron-LM",
    "megatron_h100_strong": "Megatron-LM",
    "megatron_h100_weak": "Megatron-LM",
    "mt_nlg": "DeepSpeed",
    "vtrain_multi": "vTrain",
    "llm_foundry_A100": "llm-foundry",
    "llm_foundry_A100-40": "llm-foundry",
    "llama3_table4": "Llama 3",
    "nemo_2407": "NeMo",
    "nemo_longseq": "NeMo",
    "mlperf_gpt3": "NeMo",
    "megatron_bridge": "NeMo",
}
"""The framework of each data set that shares one with others."""


def family(row: MeasuredStep) -> str:
    """Return the framework and the generation of accelerators of a step: what steps of one family share."""
    return f"{_FRAMEWORKS.get(row.source, row.source)} on {row.chip.generation}"


def year(row: MeasuredStep) -> int:
    """Return the year of the software's release [-]; 0 where none is said."""
    found = re.search(r"container (\d\d)\.", row.release)
    return 2000 + int(found[1]) if found else 0


class GemmBenchmark(NamedTuple):
    """Measured matrix products of one part and precision: best and 95th percentile of large ones, of the peak [-]."""

    generation: str
    precision: str
    best: float
    large: float


_GENERATIONS = {
    "a100_sxm": "ampere",
    "h100_sxm": "hopper",
    "h200_sxm": "hopper",
    "b200_sxm": "blackwell",
    "b300_sxm": "blackwell-ultra",
    "gb200": "blackwell",
    "gb300": "blackwell-ultra",
}


def read_products(folder: Path) -> list[GemmBenchmark]:
    """Return the measured matrix products of each part and precision."""

    def product(record: Record) -> GemmBenchmark:
        precision = PRECISIONS.get(record["dtype"], record["dtype"])
        best, large = float(record["eff_max"]), float(record["eff_p95_big"])
        return GemmBenchmark(_GENERATIONS[record["gpu"]], precision, best, large)

    return each_record(folder / "gemm_efficiency_fit.csv", product)
