"""The calibrated numbers as a file of the catalog."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from analysis.calibrate.fit import Fold, sources
from analysis.calibrate.measures import LARGE, large_mape, mape, percent, significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.calibrate.numbers import Array
    from analysis.calibrate.outcome import Outcome
    from analysis.calibrate.rows import Row

__all__ = ["calibrated_scatter", "constants_text", "left_out_mean", "scatter"]

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
    "with experts: {expert_mape}. All other numbers of the model are textbook values (sim/perf/constants.py)."
)
_ASSUMED = (
    "What no step has measured. `matmul_share`: fitted efficiencies over the best measured matrix product ({shares}), "
    "their mean. `gemm`: that share of the best measured product. `gemm_share`: means of the fitted ones "
    "by precision. `attention`: mean of the fitted ones."
)
_ERRORS = (
    "(modelled - measured) / measured. `large`: from {least:,} GPUs on. `left_out`: of each source by a fit to the "
    "others, and their mean; of models with experts by model."
)
_SIGMA = (
    "Standard deviations of the logarithm of modelled over measured time. `fitted`, `experts`: on sources, and on "
    "models with experts, that the fit has not seen, for that is what a user's cluster is. `assumed`: with {elsewhere} "
    "more (assumed) for the way from a single product to a whole step. `peak only`: assumed. `calibrated`: what is "
    "left in a source and precision after one factor for it, of models with experts in a model too."
)


def constants_text(found: Outcome) -> str:
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


def _header(found: Outcome) -> str:
    """Return how many steps were fitted, and how well."""
    return _HEADER.format(
        rows=len(found.dense_errors),
        sources=len(found.left),
        mape=percent(mape(found.dense_errors)),
        large=percent(large_mape(found.dense.rows, found.dense_errors)),
        least=LARGE,
        five=percent(mape(np.concatenate([fold.errors for fold in found.five]))),
        left=percent(left_out_mean(found.left)),
        experts=len(found.mixed.rows),
        expert_mape=percent(mape(found.mixed_errors)),
    )


def _error_lines(found: Outcome) -> list[str]:
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
    parts = {"mape": mape(mixed), "bias": mixed.mean(), "left_out": left_out_mean(found.mixed_left)}
    shares = ", ".join(f"{key}: {_share(value)}" for key, value in parts.items())
    lines.append(f"  experts: {{rows: {len(mixed)}, {shares}}}")
    return lines


def _sigma(found: Outcome) -> dict[str, float]:
    """Return standard deviations of the logarithm of modelled over measured time [-]."""
    fitted = scatter(np.concatenate([fold.errors for fold in found.left]))
    values = {
        "fitted": fitted,
        "experts": scatter(np.concatenate([fold.errors for fold in found.mixed_left])),
        "assumed": math.hypot(fitted, _ELSEWHERE),
        "peak only": _PEAK_ONLY,
        "calibrated": calibrated_scatter(found.dense.rows, found.dense_errors),
        "calibrated experts": calibrated_scatter(found.mixed.rows, found.mixed_errors, by_model=True),
    }
    return {name: significant(value, 3) for name, value in values.items()}


def left_out_mean(folds: Sequence[Fold]) -> float:
    """Return the mean over folds of their mean absolute errors [-]."""
    return float(np.mean([mape(fold.errors) for fold in folds]))


def scatter(error: Array) -> float:
    """Return the root mean square of the logarithm of modelled over measured time [-]."""
    return float(np.sqrt(np.mean(np.log1p(error) ** 2)))


def calibrated_scatter(rows: Sequence[Row], error: Array, *, by_model: bool = False) -> float:
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


def _fitted_gemm(found: Outcome) -> dict[tuple[str, str], float]:
    """Return the fitted efficiencies of matrix products."""
    kinds = [(key[1], key[2]) for key in found.fitted if key[0] == "gemm"]
    return {kind: found.numbers.gemm[kind] for kind in kinds}


def _constant_names(found: Outcome) -> list[str]:
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
