"""The whole calibration of the step model: the fits, what they rest on, and how they do on what they have not seen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from analysis.calibrate.fit import Change, Fold, changed_errors, fit, folds, held_out, rounded, sources
from analysis.calibrate.measures import significant
from analysis.calibrate.numbers import Array, Key, Numbers, Prior, dense_priors, errors, expert_priors
from analysis.calibrate.rows import Product, Row, Steps, read_mixed, read_products, read_steps
from sim.catalog import accelerators

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["CHANGES", "Assumed", "Outcome", "assume", "calibrate", "check_by_leaving_out", "fit_all"]

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
        That mean of the best measured product, where a fitted generation has no step at a precision [-].
    gemm_share
        Means of fitted efficiencies by precision, where nobody has measured a product [-].
    attention
        Mean of the fitted ones, for other generations [-].
    """

    matmul: dict[tuple[str, str], float]
    matmul_share: float
    gemm: dict[tuple[str, str], float]
    gemm_share: dict[str, float]
    attention: float


@dataclass(frozen=True)
class Outcome:
    """A calibration.

    Parameters
    ----------
    dense, mixed
        Steps of models without experts, and with.
    products
        Measured matrix products.
    numbers
        What is written down: fitted and assumed numbers, rounded.
    fitted
        Which of them are fitted, with their priors.
    assumed
        What stands in for the others.
    five, left, left_free
        Fits to four fifths; without each source in turn; the same with priors that say next to nothing.
    mixed_left
        The second fit without each model with experts in turn.
    changed
        Errors after each change to the model, fitted anew, by name of the change [-].
    """

    dense: Steps
    mixed: Steps
    products: list[Product]
    numbers: Numbers
    fitted: dict[Key, Prior]
    assumed: Assumed
    five: list[Fold] = dataclasses.field(default_factory=list)
    left: list[Fold] = dataclasses.field(default_factory=list)
    left_free: list[Fold] = dataclasses.field(default_factory=list)
    mixed_left: list[Fold] = dataclasses.field(default_factory=list)
    changed: dict[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def dense_errors(self) -> Array:
        """Errors on the steps of models without experts [-]."""
        return errors(self.dense.rows, self.numbers)

    @property
    def mixed_errors(self) -> Array:
        """Errors on the steps of models with experts [-]."""
        return errors(self.mixed.rows, self.numbers)


def _one_rank(row: Row) -> Row:
    """Return a row whose domains send gradients through the NICs of one GPU."""
    links = row.links
    return row._replace(
        links=links._replace(data=links.data._replace(ranks=1), expert_data=links.expert_data._replace(ranks=1))
    )


CHANGES = (
    Change("gradients through one GPU's NICs", {}, _one_rank),
    Change("no element-wise traffic", {"touches": 0.0, "score_touches": 0.0}),
    Change("a quarter of the element-wise traffic", {"touches": 0.5, "score_touches": 0.375}),
    Change("no launch, no overhead", {"launch": 0.0, "overhead": 0.0}),
    Change("tensor-parallel traffic almost hidden", {"tensor_hidden": 0.95}),
)
"""What is taken from the model to see that it is needed."""


def calibrate(folder: Path, tick: Callable[[int, int], None] | None = None) -> Outcome:
    """Return the fit to the tables of a folder, with all checks.

    Parameters
    ----------
    folder
        Where the tables are.
    tick
        Is told how many fits are done, and of how many.

    Raises
    ------
    ValueError
        If a table is not there or not as it should be.
    """
    return check_by_leaving_out(fit_all(folder), tick)


def fit_all(folder: Path) -> Outcome:
    """Return the fit to all rows: models without experts first, then, with those numbers held, models with experts.

    Raises
    ------
    ValueError
        If a table is not there or not as it should be.
    """
    dense, mixed, products = read_steps(folder), read_mixed(folder), read_products(folder)
    first, second = dense_priors(dense.rows, products), expert_priors()
    numbers = rounded(fit(dense.rows, first, Numbers()), list(first))
    assumed = assume(numbers, products)
    numbers = numbers.updated({("gemm", *kind): share for kind, share in assumed.gemm.items()})
    numbers = rounded(fit(mixed.rows, second, numbers), list(second))
    return Outcome(dense, mixed, products, numbers, first | second, assumed)


def check_by_leaving_out(found: Outcome, tick: Callable[[int, int], None] | None = None) -> Outcome:
    """Return a fit with what cross-validation and changes to the model say about it."""
    rows, start = found.dense.rows, Numbers()
    first = {key: prior for key, prior in found.fitted.items() if key not in expert_priors()}
    free = {key: Prior(prior.median, 10 * prior.deviation) for key, prior in first.items()}
    parts, groups = folds(len(rows), 5, SEED), list(sources(rows).values())
    models = list(sources(found.mixed.rows).values())
    total = len(parts) + 2 * len(groups) + len(models) + len(CHANGES)
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if tick is not None:
            tick(done, total)

    def changed(change: Change) -> Array:
        result = changed_errors(rows, change, first, start)
        one_more()
        return result

    return dataclasses.replace(
        found,
        five=held_out(rows, parts, first, start, one_more),
        left=held_out(rows, groups, first, start, one_more),
        left_free=held_out(rows, groups, free, start, one_more),
        mixed_left=held_out(found.mixed.rows, models, expert_priors(), found.numbers, one_more),
        changed={change.name: changed(change) for change in CHANGES},
    )


def assume(numbers: Numbers, products: Sequence[Product]) -> Assumed:
    """Return what stands in for numbers that no measured step determines."""
    best = {kind: _best_product(*kind, products) for kind in _kinds(numbers)}
    matmul = {kind: numbers.gemm[kind] / share for kind, share in best.items() if share and kind in numbers.gemm}
    matmul_share = significant(fmean(matmul.values()))
    gemm = {kind: significant(matmul_share * share) for kind, share in best.items() if share and kind not in matmul}
    attention = significant(fmean(numbers.attention.values()))
    by_precision: dict[str, list[float]] = {}
    for (_, precision), share in sorted(numbers.gemm.items()):
        by_precision.setdefault(precision, []).append(share)
    means = {precision: significant(fmean(shares)) for precision, shares in sorted(by_precision.items())}
    return Assumed(matmul, matmul_share, gemm, means, attention)


def _kinds(numbers: Numbers) -> list[tuple[str, str]]:
    """Return all precisions of generations that are fitted at one."""
    generations = {generation for generation, _ in numbers.gemm}
    chips = [chip for chip in accelerators().values() if chip.generation in generations]
    return sorted({(chip.generation, precision) for chip in chips for precision in chip.peak})


def _best_product(generation: str, precision: str, products: Sequence[Product]) -> float | None:
    """Return the best measured matrix product, of the peak [-]: that of the catalog, or else that of the tables."""
    chips = [chip for chip in accelerators().values() if chip.generation == generation and precision in chip.matmul]
    found = [chip.matmul[precision] / chip.peak[precision] for chip in chips]
    if not found:
        found = [one.best for one in products if (one.generation, one.precision) == (generation, precision)]
    return fmean(found) if found else None
