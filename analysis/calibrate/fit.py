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
import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ettrick.sim.catalog import steps
from ettrick.sim.steps import Constants, Efficiencies, Machine, breakdown
from ettrick.sim.steps.kernels import products_of
from ettrick.sim.steps.memory import INPUT_BYTES
from ettrick.sim.steps.time import all_to_all, passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ettrick.analysis.calibrate.rows import GemmBenchmark, MeasuredStep
    from ettrick.sim.steps.time import Breakdown

# The numbers of the step model while they are being fitted, and what is known of them beforehand.

Array: TypeAlias = npt.NDArray[np.float64]

Key: TypeAlias = tuple[str, ...]
"""``("gemm", generation, precision)``, ``("attention", generation)``, ``("constants", name)`` or ``("trial",)``."""


class Prior(NamedTuple):
    """What is known of a number beforehand: a log-normal law by its median and its standard deviation of logarithms."""

    median: float
    deviation: float


@dataclass(frozen=True)
class Parameters:
    """Efficiencies by generation (and precision), what holds for all accelerators, and the number of a trial."""

    gemm: Mapping[tuple[str, str], float] = field(default_factory=dict)
    attention: Mapping[str, float] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)
    trial: float = 0.0

    def updated(self, values: Mapping[Key, float]) -> Parameters:
        """Return these numbers with some replaced."""
        gemm, attention, trial = dict(self.gemm), dict(self.attention), self.trial
        common = {}
        for (kind, *names), value in values.items():
            if kind == "gemm":
                gemm[names[0], names[1]] = value
            elif kind == "attention":
                attention[names[0]] = value
            elif kind == "trial":
                trial = value
            else:
                common[names[0]] = value
        return Parameters(gemm, attention, dataclasses.replace(self.constants, **common), trial)

    def value(self, key: Key) -> float:
        """Return one number."""
        kind, *names = key
        if kind == "gemm":
            return self.gemm[names[0], names[1]]
        if kind == "attention":
            return self.attention[names[0]]
        if kind == "trial":
            return self.trial
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
    times = []
    for row in rows:
        found = breakdown(row.work, numbers.machine(row))
        more = row.trial(row, found) if row.trial is not None else 0.0
        times.append(found.total + numbers.trial * more)
    return np.array(times)


def as_shipped(row: MeasuredStep) -> float:
    """Return the modelled time of a step with the numbers of the catalog, as a user's scenario gets them [s]."""
    shares = steps.efficiencies(row.chip, row.work.precision, experts=row.work.shape.experts is not None)
    return breakdown(row.work, Machine(row.chip, shares, row.links, steps.constants())).total


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


# Errors of a fit as numbers and as text.

LARGE = 1024
"""GPUs from which a job counts as large [-]."""


def mape(error: Array) -> float:
    """Return the mean absolute error [-]."""
    return float(np.abs(error).mean())


def large_mape(rows: Sequence[MeasuredStep], error: Array, least: int = LARGE) -> float:
    """Return the mean absolute error of jobs of so many GPUs or more [-]."""
    return mape(error[np.array([row.work.gpus >= least for row in rows])])


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


def sources(
    rows: Sequence[MeasuredStep], of: Callable[[MeasuredStep], str] = lambda row: row.source
) -> dict[str, list[int]]:
    """Return the positions of rows by source, or by what else they have in common."""
    found: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        found.setdefault(of(row), []).append(position)
    return dict(sorted(found.items()))


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
    """Return the errors of the model after a change, fitted anew [-]."""
    fixed: dict[Key, float] = {("constants", name): value for name, value in change.constants.items()}
    free = {key: prior for key, prior in priors.items() if key not in fixed}
    if change.links is not None:
        rows = [change.links(row) for row in rows]
    return errors(rows, fit(rows, free, start.updated(fixed)))


# What a number more is worth, and whether steps that it has not seen are nearer.


class TermTrial(NamedTuple):
    """A term that the model lacks, or a distinction that it makes.

    Parameters
    ----------
    prior
        What is known of its number beforehand; ``None`` where something is taken away instead.
    seconds
        What one of that number adds to a step [s].
    """

    name: str
    prior: Prior | None = None
    seconds: Callable[[MeasuredStep, Breakdown], float] | None = None
    rows: Callable[[MeasuredStep], MeasuredStep] = lambda row: row
    constants: Mapping[str, float] = {}


class Gain(NamedTuple):
    """By how much the error of left-out data sets falls, its standard error, and the number, ``nan`` if none [-]."""

    gain: float
    error: float
    number: float


def left_out_gain(
    rows: Sequence[MeasuredStep],
    groups: Sequence[list[int]],
    before: Sequence[Fold],
    trial: TermTrial,
    priors: Mapping[Key, Prior],
    start: Parameters,
) -> Gain:
    """Return what a trial does to steps that the fit has not seen: groups of positions in turn.

    Each data set counts once; its standard error is that of 2,000 draws of data sets with replacement.
    """
    changed = [trial.rows(row)._replace(trial=trial.seconds) for row in rows]
    fixed: dict[Key, float] = {
        ("constants", name): start.constants.touches if math.isnan(value) else value
        for name, value in trial.constants.items()
    }
    kept = {key: prior for key, prior in priors.items() if key not in fixed}
    kinds = {(row.chip.generation, row.work.precision) for row in changed}
    generations = {kind[0] for kind in kinds}
    kept = {
        key: prior
        for key, prior in kept.items()
        if (key[0] != "gemm" or key[1:] in kinds) and (key[0] != "attention" or key[1] in generations)
    }
    if trial.prior is not None:
        kept["trial",] = trial.prior
    start = start.updated(fixed)
    after = held_out(changed, groups, kept, start)
    names = sources(rows)
    each = np.array([_of_source(before, places) - _of_source(after, places) for places in names.values()])
    draws = np.random.default_rng(0).integers(len(each), size=(2000, len(each)))
    number = fit(changed, kept, start).trial if trial.prior is not None else float("nan")
    return Gain(float(each.mean()), float(each[draws].mean(axis=1).std()), number)


def _of_source(found: Sequence[Fold], places: Sequence[int]) -> float:
    """Return the mean absolute error of left-out steps at some positions [-]."""
    known = {place: error for fold in found for place, error in zip(fold.out, fold.errors.tolist(), strict=True)}
    return fmean(abs(known[place]) for place in places)


def _experts_products(row: MeasuredStep) -> float:
    """Return the time of experts' products in a step at the peak of their precision [s]."""
    work = row.work
    flop = 2 * work.tokens / work.tensor * work.shape.expert * (work.shape.experts.active if work.shape.experts else 0)
    layers = work.microbatches * work.stage_layers[1] * work.shape.expert_layers / work.shape.all_layers
    return passes(work) * layers * flop / row.chip.peak[work.precision]


def _products_bytes(row: MeasuredStep) -> float:
    """Return the time to read and write what goes into products and comes out, at the memory's bandwidth [s]."""
    work, narrow = row.work, INPUT_BYTES[row.work.precision]
    size = sum(
        one.count * one.groups * one.m * (narrow * one.k + 2 * one.n) for one in products_of(work, experts=False)
    )
    return passes(work) * work.microbatches * work.stage_layers[1] * size / row.chip.memory_bandwidth


def _hidden_exchanges(row: MeasuredStep) -> float:
    """Return the time of all-to-all behind computing in a step [s]."""
    work = row.work
    if not work.overlap_expert:
        return 0.0
    layers = work.microbatches * work.stage_layers[1] * work.shape.expert_layers / work.shape.all_layers
    return 4 * layers * all_to_all(work, row.links, Constants())


def _pooled(row: MeasuredStep) -> MeasuredStep:
    """Return a row whose chip shares the efficiencies of the generation before."""
    chip = row.chip
    older = chip.generation.removesuffix("-ultra")
    return row._replace(chip=dataclasses.replace(chip, generation=older))


TRIALS = (
    TermTrial("Blackwell Ultra as Blackwell", rows=_pooled),
    TermTrial(
        "the slowest of N ranks, log2(N / 8) of a step",
        Prior(0.0015, 0.7),
        lambda row, found: max(0.0, np.log2(row.work.gpus / 8)) * found.total,
    ),
    TermTrial("what products read and write", Prior(0.4, 0.7), lambda row, _: _products_bytes(row)),
    TermTrial(
        "attention with heads below 128",
        Prior(0.3, 0.7),
        lambda row, found: found.attention if row.work.shape.head_width < 128 else 0.0,
    ),
)
"""For models without experts, families left out. Priors: p95 over median of MLPerf GPT-3 v3.1 per doubling of GPUs; the
coefficient of products by themselves (ai-dynamo/aiconfigurator); exponentials that do not depend on the width."""

EXPERT_TRIALS = (
    TermTrial("Blackwell Ultra as Blackwell, with experts", rows=_pooled),
    TermTrial(
        "products of experts reach less, their bytes are touched as others",
        Prior(0.25, 0.7),
        lambda row, _: _experts_products(row),
        constants={"expert_touches": math.nan},
    ),
    TermTrial("products of experts reach less", Prior(0.25, 0.7), lambda row, _: _experts_products(row)),
    TermTrial(
        "products of experts by tokens M of one, 1 + x / M",
        Prior(256.0, 0.7),
        lambda row, _: _experts_products(row) / _tokens_of_an_expert(row),
    ),
    TermTrial("multiprocessors that hidden all-to-all takes", Prior(0.15, 0.5), lambda row, _: _hidden_exchanges(row)),
)
"""For models with experts, a model left out; of a constant that is not a number the touches of other bytes are meant.
Priors: guesses, and 20 of 132 multiprocessors (arXiv 2412.19437, section 3.2.2)."""


def _tokens_of_an_expert(row: MeasuredStep) -> float:
    """Return the tokens that an expert meets in a microbatch [-]."""
    experts, work = row.work.shape.experts, row.work
    assert experts is not None, "a trial of experts is of models with experts"
    return work.tokens / work.tensor * work.expert * experts.active / experts.count
