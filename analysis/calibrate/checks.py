"""What the calibration has to reach, and whether it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from analysis.calibrate.document import left_out_mean
from analysis.calibrate.fit import sources
from analysis.calibrate.measures import LARGE, large_mape, mape, percent
from sim.perf import flop_per_token

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.calibrate.numbers import Array
    from analysis.calibrate.outcome import Outcome
    from analysis.calibrate.rows import Row

__all__ = [
    "CALCULON",
    "EXCEPTIONS",
    "MEGATRON",
    "PLANNED",
    "STRONG",
    "Check",
    "Planned",
    "change_checks",
    "checks",
    "recompute_ratios",
    "utilisation",
]

MEGATRON = ("megatron_sc21", "korthikanti", "mt_nlg")
"""Sources of the 22 steps of Megatron models on A100."""
CALCULON = 0.106
"""Error on those 22 of Calculon as it is shipped (github calculon-ai/calculon, a100_80g) [-]."""
EXCEPTIONS = {"mt_nlg": "another stack (DeepSpeed)"}
"""Sources whose bias may be beyond the bound, and why."""
LESS = {"no launch, no overhead": "less, as known"}
"""Parts of the model that are worth less than in an earlier one."""
STRONG = "megatron_h100_strong"
"""The source with one model on 96 to 4,608 GPUs."""


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


def checks(found: Outcome) -> list[Check]:
    """Return what is asked of the fit to models without experts, and what it reaches."""
    rows, error = found.dense.rows, found.dense_errors
    five = mape(np.concatenate([fold.errors for fold in found.five]))
    left = np.concatenate([fold.errors for fold in found.left])
    order = [position for fold in found.left for position in fold.out]
    places = sources(rows)
    ours = mape(np.concatenate([error[places[name]] for name in MEGATRON]))
    worst = max((name for name in places if name not in EXCEPTIONS), key=lambda name: abs(error[places[name]].mean()))
    bias = float(error[places[worst]].mean())
    tuned = [place for place in places["korthikanti"] if rows[place].work.gpus < 2000]
    ratios = recompute_ratios(rows, error)
    return [
        _below("mean absolute error", mape(error), 0.09),
        Check("median", percent(float(np.median(np.abs(error))))),
        _below(f"from {LARGE:,} GPUs on", large_mape(rows, error), 0.06),
        Check("from 4,096 GPUs on", percent(large_mape(rows, error, 4096))),
        _below("a fifth left out", five, 0.095),
        _below("a source left out, mean of sources", left_out_mean(found.left), 0.10),
        Check(f"a source left out, from {LARGE:,} GPUs on", percent(large_mape([rows[p] for p in order], left))),
        Check("the same with priors ten times as wide", percent(left_out_mean(found.left_free))),
        Check(f"largest bias of a source ({worst})", percent(bias, "+"), "within 10.0 %", abs(bias) <= 0.10),
        _below(f"22 steps of Megatron on A100 (Calculon: {percent(CALCULON)})", ours, CALCULON),
        _below("8 of them that Calculon was tuned to", mape(error[tuned]), 0.06),
        *_strong_checks([rows[p] for p in places[STRONG]], error[places[STRONG]]),
        _below("full over selective recomputation, worst model", max(abs(away) for away in ratios.values()), 0.12),
    ]


def _strong_checks(rows: Sequence[Row], error: Array) -> list[Check]:
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
        Check(text, f"{ours:.1f} points", f"{lost:.1f} within 2", good),
    ]


def utilisation(row: Row, time: float) -> float:
    """Return the MFU of a step, all of attention counted as Megatron does [-]."""
    work = row.work
    flop = work.sequences * work.sequence * flop_per_token(work.shape, work.sequence, convention="full")
    return flop / (time * work.gpus * row.chip.peak[work.precision])


def recompute_ratios(rows: Sequence[Row], error: Array) -> dict[str, float]:
    """Return how far full over selective recomputation is off, by model of Korthikanti et al. [-]."""
    found = {}
    for place in sources(rows)["korthikanti"]:
        if rows[place].work.recompute == "full":
            twin = rows[place + 1]
            assert twin.model == rows[place].model, "each model stands twice: full, then selective"
            found[twin.model] = float((1 + error[place]) / (1 + error[place + 1]) - 1)
    return found


def change_checks(found: Outcome) -> list[Check]:
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
        value = f"{percent(mape(changed))} ({100 * worse:+.1f}), large {100 * worse_large:+.1f}"
        needed = worse > 0 and worse_large > 0
        if needed and not enough and name in LESS:
            target, enough = f"{target}, {LESS[name]}", True
        lines.append(Check(name, value, target, needed and enough))
    return lines


def _below(what: str, value: float, bound: float) -> Check:
    """Return the line of an error that must not be above a bound."""
    return Check(what, percent(value), f"at most {percent(bound)}", value <= bound)
