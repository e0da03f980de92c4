"""The whole calibration of the step model: the fits, what they rest on, and how they do on what they have not seen."""

from __future__ import annotations

import dataclasses
import math
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ettrick.analysis.amounts import percent_text
from ettrick.analysis.validation.published_steps import (
    BENCHMARKS,
    LARGE,
    MEGATRON,
    STRONG,
    WEAK,
    MeasuredStep,
    MeasuredSteps,
    deepseek_row,
    each_record,
    hopper_row,
    large_mape,
    mape,
    read_mixed,
    read_steps,
    recompute_ratios,
    sources,
    utilisation,
)
from ettrick.sim.catalog import accelerators
from ettrick.sim.steps import ModelShape, Workload, breakdown, flop_per_token, memory_use
from ettrick.sim.steps.plan import BAND90
from ettrick.sim.units import HOUR
from tests.calibrate.fit import (
    Ablation,
    Fold,
    GemmBenchmark,
    Key,
    Parameters,
    Prior,
    changed_errors,
    dense_priors,
    errors,
    expert_priors,
    family,
    fit,
    folds,
    held_out,
    predict,
    read_products,
    rounded,
    significant,
    year,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ettrick.analysis.validation.published_steps import Array

SEED = 0
"""Of the five folds."""


class Assumed(NamedTuple):
    """What stands in for numbers that no measured step determines.

    Parameters
    ----------
    matmul
        Fitted efficiencies over best measured matrix products, by generation and precision [-].
    matmul_share
        Their mean [-].
    gemm
        Where a fitted generation has no step at a precision: the 95th percentile of its large products, times what
        generations that have such steps reach of theirs [-].
    gemm_share
        Means of fitted efficiencies by precision, where no product is measured [-].
    attention
        Mean of the fitted ones, for other generations [-].
    """

    matmul: dict[tuple[str, str], float]
    matmul_share: float
    gemm: dict[tuple[str, str], float]
    gemm_share: dict[str, float]
    attention: float


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration.

    Parameters
    ----------
    dense, mixed
        Steps of models without experts, and with.
    numbers
        What is written down: fitted and assumed numbers, rounded.
    five, left, left_free
        Fits to four fifths; without each source in turn; the same with priors that say next to nothing.
    families, generations, newest
        Fits without each family in turn, without each generation of accelerators, without the newest year.
    mixed_left
        The second fit without each model with experts in turn, and models that it never sees; positions are those
        of `mixed_rows`.
    changed
        Errors after each change to the model, fitted again, by name of the change [-].
    """

    dense: MeasuredSteps
    mixed: MeasuredSteps
    products: list[GemmBenchmark]
    numbers: Parameters
    fitted: dict[Key, Prior]
    assumed: Assumed
    five: list[Fold] = dataclasses.field(default_factory=list)
    left: list[Fold] = dataclasses.field(default_factory=list)
    left_free: list[Fold] = dataclasses.field(default_factory=list)
    families: list[Fold] = dataclasses.field(default_factory=list)
    generations: list[Fold] = dataclasses.field(default_factory=list)
    newest: list[Fold] = dataclasses.field(default_factory=list)
    mixed_left: list[Fold] = dataclasses.field(default_factory=list)
    changed: dict[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def dense_errors(self) -> Array:
        """Errors on the steps of models without experts [-]."""
        return errors(self.dense.rows, self.numbers)

    @property
    def mixed_rows(self) -> list[MeasuredStep]:
        """Steps of models with experts, those that are fitted first."""
        return [*self.mixed.rows, *self.mixed.reported]

    @property
    def attending(self) -> list[Fold]:
        """Models with experts that are left out, those with attention alone."""
        return [fold for fold in self.mixed_left if self.mixed_rows[fold.out[0]].work.shape.mixer is None]

    @property
    def hybrid(self) -> list[Fold]:
        """The others: state spaces between layers with attention."""
        return [fold for fold in self.mixed_left if self.mixed_rows[fold.out[0]].work.shape.mixer is not None]

    @property
    def mixed_errors(self) -> Array:
        """Errors on the steps of models with experts [-]."""
        return errors(self.mixed.rows, self.numbers)


def _one_rank(row: MeasuredStep) -> MeasuredStep:
    """Return a row whose domains send gradients through the NICs of one GPU."""
    links = row.links
    return row._replace(
        links=links._replace(data=links.data._replace(ranks=1), expert_data=links.expert_data._replace(ranks=1))
    )


CHANGES = (
    Ablation("gradients through one GPU's NICs", {}, _one_rank),
    Ablation("no element-wise traffic", {"touches": 0.0, "score_touches": 0.0}),
    Ablation("a quarter of the element-wise traffic", {"touches": 0.5, "score_touches": 0.375}),
    Ablation("no launch, no overhead", {"launch": 0.0, "overhead": 0.0}),
    Ablation("tensor-parallel traffic almost hidden", {"tensor_hidden": 0.95}),
)
"""What is taken from the model to see that it is needed."""


def calibrate(folder: Path, tick: Callable[[int, int], None] | None = None) -> CalibrationResult:
    """Return the fit to the tables of a folder, with all checks.

    Raises
    ------
    ValueError
        If a table is not there or not as it should be.
    """
    return check_by_leaving_out(fit_all(folder), tick)


def fit_all(folder: Path) -> CalibrationResult:
    """Return the fit to all rows: models without experts first, then, with those numbers held, models with experts."""
    dense, mixed, products = read_steps(folder), read_mixed(folder), read_products(folder)
    first, second = dense_priors(dense.rows, products), expert_priors()
    numbers = rounded(fit(dense.rows, first, Parameters()), list(first))
    assumed = assume(numbers, products)
    numbers = numbers.updated({("gemm", *kind): share for kind, share in assumed.gemm.items()})
    numbers = rounded(fit(mixed.rows, second, numbers), list(second))
    return CalibrationResult(dense, mixed, products, numbers, first | second, assumed)


def check_by_leaving_out(found: CalibrationResult, tick: Callable[[int, int], None] | None = None) -> CalibrationResult:
    """Return a fit with what cross-validation and changes to the model say about it."""
    rows, start = found.dense.rows, Parameters()
    first = {key: prior for key, prior in found.fitted.items() if key not in expert_priors()}
    free = {key: Prior(prior.median, 10 * prior.deviation) for key, prior in first.items()}
    parts, groups = folds(len(rows), 5, SEED), list(sources(rows).values())
    models = list(sources(found.mixed.rows).values())
    families = list(sources(rows, family).values())
    generations = list(sources(rows, lambda row: row.chip.generation).values())
    last = max(map(year, rows))
    newest = [[place for place, row in enumerate(rows) if year(row) == last]] if last else []
    cells = (parts, groups, groups, models, CHANGES, families, generations, newest)
    total = sum(map(len, cells))
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if tick is not None:
            tick(done, total)

    def changed(change: Ablation) -> Array:
        result = changed_errors(rows, change, first, start)
        one_more()
        return result

    mixed = found.mixed.rows
    family_left = held_out(rows, families, first, start, one_more)
    mixed_left = held_out(mixed, models, expert_priors(), found.numbers, one_more)
    unseen = {name: places for name, places in sources(found.mixed.reported).items() if name not in sources(mixed)}
    seen_by_none = [
        Fold(
            [len(mixed) + place for place in places],
            found.numbers,
            errors([found.mixed.reported[place] for place in places], found.numbers),
        )
        for places in unseen.values()
    ]
    return dataclasses.replace(
        found,
        five=held_out(rows, parts, first, start, one_more),
        left=held_out(rows, groups, first, start, one_more),
        left_free=held_out(rows, groups, free, start, one_more),
        families=family_left,
        generations=held_out(rows, generations, first, start, one_more),
        newest=held_out(rows, newest, first, start, one_more),
        mixed_left=[*mixed_left, *seen_by_none],
        changed={change.name: changed(change) for change in CHANGES},
    )


def assume(numbers: Parameters, products: Sequence[GemmBenchmark]) -> Assumed:
    """Return what stands in for numbers that no measured step determines."""
    best = {kind: _best_product(*kind, products) for kind in _kinds(numbers)}
    matmul = {kind: numbers.gemm[kind] / share for kind, share in best.items() if share and kind in numbers.gemm}
    matmul_share = significant(fmean(matmul.values()))
    large = {kind: share for kind in best if (share := _large_product(*kind, products))}
    reached: dict[str, list[float]] = {}
    for kind in matmul.keys() & large.keys():
        reached.setdefault(kind[1], []).append(numbers.gemm[kind] / large[kind])
    gemm = {
        kind: significant(fmean(sorted(reached[kind[1]])) * large[kind])
        for kind in best
        if kind not in numbers.gemm and kind in large and kind[1] in reached
    }
    attention = significant(fmean(numbers.attention.values()))
    by_precision: dict[str, list[float]] = {}
    for (_, precision), share in sorted(numbers.gemm.items()):
        by_precision.setdefault(precision, []).append(share)
    means = {precision: significant(fmean(shares)) for precision, shares in sorted(by_precision.items())}
    return Assumed(matmul, matmul_share, gemm, means, attention)


def _kinds(numbers: Parameters) -> list[tuple[str, str]]:
    """Return all precisions of generations that are fitted at one."""
    generations = {generation for generation, _ in numbers.gemm}
    chips = [chip for chip in accelerators().values() if chip.generation in generations]
    return sorted({(chip.generation, precision) for chip in chips for precision in chip.peak})


def _best_product(generation: str, precision: str, products: Sequence[GemmBenchmark]) -> float | None:
    """Return the best measured matrix product, of the peak [-]: that of the catalog, or else that of the tables."""
    chips = [chip for chip in accelerators().values() if chip.generation == generation and precision in chip.matmul]
    found = [chip.matmul[precision] / chip.peak[precision] for chip in chips]
    if not found:
        found = [one.best for one in products if (one.generation, one.precision) == (generation, precision)]
    return fmean(found) if found else None


def _large_product(generation: str, precision: str, products: Sequence[GemmBenchmark]) -> float | None:
    """Return the 95th percentile of large measured matrix products, of the peak [-]."""
    found = [one.large for one in products if (one.generation, one.precision) == (generation, precision)]
    return fmean(found) if found else None


# The calibrated numbers as a file of the catalog.

_ELSEWHERE = 0.1
"""Further scatter where an efficiency is not fitted but taken from a kernel benchmark [-] (assumed)."""

_PEAK_ONLY = 0.3
"""Scatter where only the peak is known [-] (assumed)."""

_TITLE = (
    "The numbers of the step model that are fitted to measured steps. Written by `make fit-steps`; do not edit by hand."
)

_HEADER = (
    "{rows} steps of models without experts from {sources} sources: mean absolute error {mape}, {large} from {least:,} "
    "GPUs on; {five} for a fifth that is left out, {left} for a source that is left out. {experts} steps of models "
    "with experts: {expert_mape}. All other numbers of the model are textbook values (sim/steps/hardware.py)."
)

_ASSUMED = (
    "What no step has measured. `matmul_share`: fitted efficiencies over the best measured matrix product ({shares}), "
    "their mean. `gemm`: the 95th percentile of large products, times what fitted generations reach of theirs at that "
    "precision. `gemm_share`: means of the fitted ones by precision. `attention`: mean of the fitted ones."
)

_ERRORS = (
    "(modelled - measured) / measured. `large`: from {least:,} GPUs on. `left_out`: of each source by a fit to the "
    "others, and their mean; of models with experts by model."
)

_SIGMA = (
    "Standard deviations of the logarithm of modelled over measured time. `fitted`, `experts`: a band of 90 % holds "
    "90 % of the steps of families (framework and generation), of models with experts, or of those with state spaces "
    "too (`state spaces`), that the fit has not seen, "
    "each source counted once, for that is what a user's cluster is. `assumed`: with {elsewhere} "
    "more (assumed) for the way from a single product to a whole step. `peak only`: assumed. `calibrated`: what is "
    "left in a source and precision after one factor for it, of models with experts in a model too."
)


def constants_text(found: CalibrationResult) -> str:
    """Return the file: fitted numbers, assumed ones, errors and scatter."""
    assumed, constants = found.assumed, found.numbers.constants
    shares = ", ".join(f"{' '.join(kind)} {share:.2f}" for kind, share in assumed.matmul.items())
    lines = [
        *_comment(_TITLE),
        "#",
        *_comment(_header(found)),
        "gemm:",
        *_by_generation(_fitted_gemm(found)),
        f"attention: {_flow(found.numbers.attention)}",
        f"constants: {_flow({name: getattr(constants, name) for name in _constant_names(found)})}",
        *_comment(_ASSUMED.format(shares=shares)),
        "assumed:",
        f"  gemm: {{{', '.join(line.strip() for line in _by_generation(assumed.gemm))}}}",
        f"  matmul_share: {assumed.matmul_share:g}",
        f"  gemm_share: {_flow(assumed.gemm_share)}",
        f"  attention: {assumed.attention:g}",
        *_comment(_ERRORS.format(least=LARGE)),
        "errors:",
        *_error_lines(found),
        *_comment(_SIGMA.format(elsewhere=_ELSEWHERE)),
        f"sigma: {_flow(_sigma(found))}",
    ]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    """Return a text as lines of a comment."""
    return [f"# {line}" for line in textwrap.wrap(text, 118, break_on_hyphens=False)]


def _header(found: CalibrationResult) -> str:
    """Return how many steps were fitted, and how well."""
    return _HEADER.format(
        rows=len(found.dense_errors),
        sources=len(found.left),
        mape=percent_text(mape(found.dense_errors), 1),
        large=percent_text(large_mape(found.dense.rows, found.dense_errors), 1),
        least=LARGE,
        five=percent_text(mape(np.concatenate([fold.errors for fold in found.five])), 1),
        left=percent_text(left_out_mean(found.left), 1),
        experts=len(found.mixed.rows),
        expert_mape=percent_text(mape(found.mixed_errors), 1),
    )


def _error_lines(found: CalibrationResult) -> list[str]:
    """Return the errors, overall and by source."""
    rows, error = found.dense.rows, found.dense_errors
    left = {rows[fold.out[0]].source: mape(fold.errors) for fold in found.left}
    lines = [
        f"  rows: {len(rows)}",
        f"  mape: {_share(mape(error))}",
        f"  median: {_share(np.median(np.abs(error)))}",
        f"  large: {_share(large_mape(rows, error))}",
        f"  five_fold: {_share(mape(np.concatenate([fold.errors for fold in found.five])))}",
        f"  left_out: {_share(left_out_mean(found.left))}",
        "  sources:",
    ]
    for name, places in sources(rows).items():
        part = error[places]
        parts = {"mape": mape(part), "bias": part.mean(), "left_out": left[name]}
        shares = ", ".join(f"{key}: {_share(value)}" for key, value in parts.items())
        lines.append(f"    {name}: {{rows: {len(places)}, {shares}}}")
    mixed = found.mixed_errors
    parts = {"mape": mape(mixed), "bias": mixed.mean(), "left_out": left_out_mean(found.attending)}
    shares = ", ".join(f"{key}: {_share(value)}" for key, value in parts.items())
    lines.append(f"  experts: {{rows: {len(mixed)}, {shares}}}")
    return lines


def _sigma(found: CalibrationResult) -> dict[str, float]:
    """Return standard deviations of the logarithm of modelled over measured time [-]."""
    fitted = band_sigma(found.families, found.dense.rows)
    experts = band_sigma(found.attending, found.mixed_rows)
    states = band_sigma(found.hybrid, found.mixed_rows) if found.hybrid else _PEAK_ONLY
    values = {
        "fitted": fitted,
        "experts": experts,
        "state spaces": max(experts, states),
        "assumed": math.hypot(fitted, _ELSEWHERE),
        "peak only": _PEAK_ONLY,
        "calibrated": calibrated_scatter(found.dense.rows, found.dense_errors),
        "calibrated experts": min(experts, calibrated_scatter(found.mixed.rows, found.mixed_errors, by_model=True)),
    }
    return {name: significant(value, 3) for name, value in values.items()}


def band_sigma(folds: Sequence[Fold], rows: Sequence[MeasuredStep]) -> float:
    """Return the least sigma whose band of 90 % holds nine tenths of left-out steps, each source counted once [-]."""
    places = [place for fold in folds for place in fold.out]
    away = np.concatenate([np.abs(np.log1p(fold.errors)) for fold in folds])
    counts = Counter(rows[place].source for place in places)
    weights = np.array([1 / (counts[rows[place].source] * len(counts)) for place in places])
    order = np.argsort(away)
    enough = int(np.searchsorted(np.cumsum(weights[order]), 0.9 - 1e-9))
    return float(away[order][enough]) / BAND90


def coverage(folds: Sequence[Fold], sigma: float) -> float:
    """Return the share of left-out steps that are inside the band of 90 % [-]."""
    away = np.concatenate([np.abs(np.log1p(fold.errors)) for fold in folds])
    return float((away <= BAND90 * sigma * (1 + 1e-9)).mean())


def left_out_mean(folds: Sequence[Fold]) -> float:
    """Return the mean over folds of their mean absolute errors [-]."""
    return float(np.mean([mape(fold.errors) for fold in folds]))


def scatter(error: Array) -> float:
    """Return the root mean square of the logarithm of modelled over measured time [-]."""
    return float(np.sqrt(np.mean(np.log1p(error) ** 2)))


def calibrated_scatter(rows: Sequence[MeasuredStep], error: Array, *, by_model: bool = False) -> float:
    """Return the scatter that is left when each source and precision has a factor of its own [-].

    With `by_model` each model and accelerator in them has one; those that stand there once say nothing.
    """
    away = np.log1p(error)
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(rows):
        model = (row.model, row.chip.title) if by_model else ()
        groups.setdefault((row.source, row.work.precision, *model), []).append(place)
    several = [places for places in groups.values() if len(places) > 1]
    squares = sum(float(np.sum((away[places] - away[places].mean()) ** 2)) for places in several)
    return math.sqrt(squares / max(1, sum(len(places) - 1 for places in several)))


def _fitted_gemm(found: CalibrationResult) -> dict[tuple[str, str], float]:
    """Return the fitted efficiencies of matrix products."""
    kinds = [(key[1], key[2]) for key in found.fitted if key[0] == "gemm"]
    return {kind: found.numbers.gemm[kind] for kind in kinds}


def _constant_names(found: CalibrationResult) -> list[str]:
    """Return the names of fitted numbers that hold for all accelerators."""
    return [key[1] for key in found.fitted if key[0] == "constants"]


def _by_generation(values: Mapping[tuple[str, str], float]) -> list[str]:
    """Return one line a generation, with its precisions."""
    found: dict[str, dict[str, float]] = {}
    for (generation, precision), value in values.items():
        found.setdefault(generation, {})[precision] = value
    return [f"  {generation}: {_flow(content)}" for generation, content in found.items()]


def _flow(content: Mapping[str, float]) -> str:
    """Return a mapping on one line."""
    return "{" + ", ".join(f"{name}: {value:g}" for name, value in content.items()) + "}"


def _share(value: float) -> str:
    """Return a share to four digits behind the point."""
    return f"{value:.4f}"


# What the calibration has to reach, and whether it does.

CALCULON = 0.106
"""Error on those 22 of Calculon as it is shipped (github calculon-ai/calculon, a100_80g) [-]."""

EXCEPTIONS = {"mt_nlg": "another stack (DeepSpeed)"}
"""Sources whose bias may be beyond the bound, and why."""

LESS = {"no launch, no overhead": "less, as known"}
"""Parts of the model that are worth less than in an earlier one."""


class Check(NamedTuple):
    """One line: what is measured, what it should be, and whether it is; ``None`` where nothing is asked."""

    what: str
    value: str
    target: str = ""
    good: bool | None = None


class Planned(NamedTuple):
    """What a change to the model did to an earlier one with fewer terms, fitted to the same rows.

    Parameters
    ----------
    overall, large
        Errors after the change, of all rows and of large jobs [-].
    where
        Which of the two has to get worse by as much.
    """

    overall: float
    large: float
    where: Literal["overall", "either"]


BEFORE = Planned(0.085, 0.051, "overall")
"""The earlier model without a change."""

PLANNED = {
    "gradients through one GPU's NICs": Planned(0.101, 0.068, "either"),
    "no element-wise traffic": Planned(0.106, 0.053, "overall"),
    "a quarter of the element-wise traffic": Planned(0.101, 0.051, "overall"),
    "no launch, no overhead": Planned(0.090, 0.058, "overall"),
    "tensor-parallel traffic almost hidden": Planned(0.087, 0.057, "either"),
}


def checks(found: CalibrationResult) -> list[Check]:
    """Return what is asked of the fit to models without experts, and what it reaches."""
    rows, error = found.dense.rows, found.dense_errors
    five = mape(np.concatenate([fold.errors for fold in found.five]))
    left = np.concatenate([fold.errors for fold in found.left])
    order = [position for fold in found.left for position in fold.out]
    places = sources(rows)
    ours = mape(np.concatenate([error[places[name]] for name in MEGATRON]))
    tuned = [place for place in places["korthikanti"] if rows[place].work.gpus < 2000]
    ratios = recompute_ratios(rows, error)
    sigma = _sigma(found)["fitted"]
    unseen = [(found.mixed_rows[fold.out[0]], fold) for fold in found.hybrid]
    cells = {"family": found.families, "generation": found.generations, "newest year": found.newest}
    return [
        _below("mean absolute error", mape(error), 0.067),
        Check("median", percent_text(float(np.median(np.abs(error))), 1)),
        _below(f"from {LARGE:,} GPUs on", large_mape(rows, error), 0.049),
        Check("from 4,096 GPUs on", percent_text(large_mape(rows, error, 4096), 1)),
        _below("a fifth left out", five, 0.095),
        _below("a source left out, mean of sources", left_out_mean(found.left), 0.10),
        Check(
            f"a source left out, from {LARGE:,} GPUs on", percent_text(large_mape([rows[p] for p in order], left), 1)
        ),
        Check("the same with priors ten times as wide", percent_text(left_out_mean(found.left_free), 1)),
        *(line for what, folds in cells.items() if folds for line in _cell_checks(what, folds, rows, sigma)),
        *_bias_checks(rows, error, sigma),
        _below(f"22 steps of Megatron on A100 (Calculon: {percent_text(CALCULON, 1)})", ours, CALCULON),
        _below("8 of them that Calculon was tuned to", mape(error[tuned]), 0.06),
        *_strong_checks([rows[p] for p in places[STRONG]], error[places[STRONG]]),
        _below("full over selective recomputation, worst model", max(abs(away) for away in ratios.values()), 0.12),
        _below("models with experts, a model left out", left_out_mean(found.attending), 0.15),
        *(
            Check(f"{row.model}, never fitted: state spaces", percent_text(mape(fold.errors), 1))
            for row, fold in unseen
        ),
        _speed_check(rows, found.numbers),
    ]


def _cell_checks(what: str, folds: Sequence[Fold], rows: Sequence[MeasuredStep], sigma: float) -> list[Check]:
    """Return the errors on what is left out as a whole, the worst of them, and how much of it the band holds."""
    named = (fold for fold in folds if not {rows[place].source for place in fold.out} <= EXCEPTIONS.keys())
    worst = max((mape(fold.errors) for fold in named), default=0.0)
    held = coverage(folds, sigma)
    return [
        _below(f"a {what} left out, mean", left_out_mean(folds), 0.09),
        _below(f"a {what} left out, worst", worst, 0.15),
        Check(f"a {what} left out, inside the band", percent_text(held, 1), "85 to 95 %", 0.85 <= held <= 0.95),
    ]


_MANY = 20
"""Steps from which the bias of a data set is not chance [-]."""


def _bias_checks(rows: Sequence[MeasuredStep], error: Array, sigma: float) -> list[Check]:
    """Return the largest bias of large data sets, and of small ones beside the band."""
    bias = {name: (len(place), float(error[place].mean())) for name, place in sources(rows).items()}
    limits = {True: 0.06, False: math.expm1(BAND90 * sigma)}
    lines = []
    for is_large, limit in limits.items():
        each = {n: b for n, (count, b) in bias.items() if (count >= _MANY) == is_large and n not in EXCEPTIONS}
        worst = max(each, key=lambda name: abs(each[name]))
        size = f"of {_MANY} steps or more" if is_large else "with fewer steps"
        target = f"within {percent_text(limit, 1)}"
        value = percent_text(each[worst], 1, "+")
        lines.append(Check(f"largest bias of a source {size} ({worst})", value, target, abs(each[worst]) <= limit))
    return lines


def _speed_check(rows: Sequence[MeasuredStep], numbers: Parameters) -> Check:
    """Return how long the model takes for a step: the fastest of some turns, for the machine has other things to do."""
    machines = [(row.work, numbers.machine(row)) for row in rows]
    turns = []
    for _ in range(5):
        begin = time.perf_counter()
        for work, machine in machines:
            breakdown(work, machine)
        turns.append(time.perf_counter() - begin)
    each = min(turns) / len(rows)
    return Check("time of the model for a step", f"{1e6 * each:.0f} µs", "at most 200 µs", each <= 200e-6)


def _strong_checks(rows: Sequence[MeasuredStep], error: Array) -> list[Check]:
    """Return whether the strong scaling of one model is that of the chart."""
    measured = [utilisation(row, row.measured) for row in (rows[0], rows[-1])]
    modelled = [
        utilisation(row, row.measured * (1 + away)) for row, away in ((rows[0], error[0]), (rows[-1], error[-1]))
    ]
    lost, ours = (100 * (first - last) for first, last in (measured, modelled))
    text = f"MFU lost from {rows[0].work.gpus} to {rows[-1].work.gpus:,} GPUs"
    good = abs(ours - lost) <= 2
    return [
        _below("strong scaling, worst point", float(np.abs(error).max()), 0.05),
        Check(text, f"{ours:.1f} percentage points", f"{lost:.1f} within 2", good),
    ]


def change_checks(found: CalibrationResult) -> list[Check]:
    """Return what each part of the model is worth: at least as much as in an earlier model, but for those named."""
    rows, error = found.dense.rows, found.dense_errors
    base, base_large = mape(error), large_mape(rows, error)
    lines = []
    for name, changed in found.changed.items():
        plan = PLANNED[name]
        worse, worse_large = mape(changed) - base, large_mape(rows, changed) - base_large
        asked, asked_large = plan.overall - BEFORE.overall, plan.large - BEFORE.large
        enough = worse >= asked or (plan.where == "either" and worse_large >= asked_large)
        target = f"{100 * asked:+.1f}" + (f" or {100 * asked_large:+.1f}" if plan.where == "either" else "")
        value = f"{percent_text(mape(changed), 1)} ({100 * worse:+.1f}), large {100 * worse_large:+.1f}"
        needed = enough if plan.where == "either" else worse > 0 and worse_large > 0
        if needed and not enough and name in LESS:
            target, enough = f"{target}, {LESS[name]}", True
        lines.append(Check(name, value, target, needed and enough))
    return lines


def _below(what: str, value: float, bound: float) -> Check:
    """Return the line of an error that must not be above a bound."""
    return Check(what, percent_text(value, 1), f"at most {percent_text(bound, 1)}", value <= bound)


# Published results that the fit has not seen, beside what it says of them.


class Anchor(NamedTuple):
    """One published result: what, its size, what is published and what the model says, in the same unit."""

    what: str
    gpus: int
    published: float
    modelled: float
    unit: str = "s"


class RankAgreement(NamedTuple):
    """Pairs of layouts of one model, those in the published order, and the rank correlation of all layouts [-]."""

    pairs: int
    alike: int
    correlation: float


_MLPERF_SIZES = (512, 1536, 3072, 8192, 11616)


# Layers, width, heads and feed-forward width: github huggingface/nanotron, scripts/scaling_benchmarks.py.
_NANOTRON = {
    "1.34B": (16, 2048, 8192, 32),
    "3.57B": (28, 3072, 8192, 32),
    "8.86B": (32, 4096, 14336, 32),
    "80B": (80, 8192, 28672, 64),
}


def anchors(found: CalibrationResult) -> list[Anchor]:
    """Return the published results, with what the model says of them."""
    row = deepseek_row()
    work, (time,) = row.work, predict([row], found.numbers).tolist()
    hours = time * work.gpus * 14.8e12 / (work.sequences * work.sequence) / HOUR
    deepseek = Anchor(row.model, work.gpus, 2.664, hours / 1e6, "million GPU-hours")
    return [*anchors_of(found.numbers), *_mlperf(found), deepseek]


def anchors_of(numbers: Parameters) -> list[Anchor]:
    """Return published steps that no source of the fit has, with what the model says of them."""
    rows = [benchmark.row(gpus) for benchmark in BENCHMARKS for gpus in benchmark.times]
    times = predict(rows, numbers).tolist()
    return [Anchor(row.model, row.work.gpus, row.measured, time) for row, time in zip(rows, times, strict=True)]


def weak_scaling(numbers: Parameters) -> dict[str, list[tuple[int, float, float | None]]]:
    """Return GPUs [-], modelled and published time [s] of benchmarks whose batch grows with the GPUs, by name.

    From one replica to 100,000 GPUs, more than anybody has published, over NICs that are nowhere narrower.
    """
    found = {}
    for benchmark in WEAK:
        least = min(benchmark.times)
        sizes = sorted({*benchmark.times, *(least * 4**more for more in range(9) if least * 4**more < 1.5e5)})
        times = predict([benchmark.row(gpus) for gpus in sizes], numbers).tolist()
        found[benchmark.what] = [
            (gpus, time, benchmark.times.get(gpus)) for gpus, time in zip(sizes, times, strict=True)
        ]
    return found


def memory_peaks(folder: Path) -> Array:
    """Return (counted - published) / published peak memory of the layouts of the nanotron study [-]."""
    counted = each_record(
        folder / "nanotron_best_configs_h100.csv", lambda one: memory_use(_nanotron_row(one).work).total
    )
    published = each_record(folder / "nanotron_best_configs_h100.csv", lambda one: 1e9 * float(one["memory_gb"]))
    found: Array = np.array(counted) / np.array(published) - 1
    return found


def _mlperf(found: CalibrationResult) -> list[Anchor]:
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


def nanotron_order(folder: Path, numbers: Parameters) -> RankAgreement:
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
    return RankAgreement(len(pairs), alike, float(spearmanr(published, modelled).statistic))


def _nanotron_row(record: dict[str, str]) -> MeasuredStep:
    """Return a layout of the study."""
    layers, hidden, ffn, heads = _NANOTRON[record["model"]]
    shape = ModelShape(layers, hidden, ffn, heads, heads, 131072, gated=True, tied=ffn < 10000)
    sizes = [int(record[name]) for name in ("global_batch_seqs", "mbs", "tp", "pp", "dp")]
    sequences, microbatch, tensor, pipeline, data = sizes
    sharding: Any = "optimizer" if record["zero"] == "ZeRO-1" else "none"
    # Element-wise operations one by one, and gathered inputs kept: github huggingface/nanotron, models/llama.py.
    options: Any = {"sharding": sharding, "fused_elementwise": False, "keep_gathered": True}
    work = Workload(shape, 4096, sequences, microbatch, tensor, 1, pipeline, data, **options)
    return hopper_row(record["model"], work, 0.0)


def error_cells(error: Array) -> list[str]:
    """Return number, mean absolute error, bias and worst of errors as text."""
    worst = float(error[np.abs(error).argmax()])
    return [
        str(len(error)),
        percent_text(mape(error), 1),
        percent_text(float(error.mean()), 1, "+"),
        percent_text(worst, 1, "+"),
    ]
