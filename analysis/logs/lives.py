"""Lives of parts, such as GPUs by serial number: which law they follow, by batch, and whether it fits at all.

A life counts from the age at which the part was first seen (late entry) to its failure, or to when it was last seen
(right censoring). A Weibull law that ignores late entry sees wear-out where there is none. Ages are in days.

References
----------
J. Klein, M. Moeschberger, "Survival Analysis" (2003): the product-limit estimator with late entry, and residuals. W.
Nelson, Technometrics 14 (1972), and "Recurrent Events Data Analysis" (2003): the mean cumulative function; E. Kaplan,
P. Meier, J. Am. Stat. Assoc. 53 (1958).
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick import sim
from ettrick.analysis.logs.estimate import BETTER, CHI2, FEW, SOME, Estimate, rate, root, two_lognormals
from ettrick.analysis.logs.fit import curve, dropped_rows, duration, estimated, file_read, lognormal_law
from ettrick.analysis.logs.tables import Dropped, NoModelError, as_csv
from ettrick.analysis.results.fitted import AgeSummary, BatchSummary, LawOfLives, LivesDocument
from ettrick.sim.units import DAY
from ettrick.sim.units import YEAR as CALENDAR_YEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ettrick.analysis.logs.tables import PartLife, Tables
    from ettrick.analysis.results.models import Provenance

    Array = NDArray[np.float64]

YEAR = 365.0
"""Days of a year, as the sources of lives have it."""

DRAWS = 100
"""Simulated sets of lives, for the fit of a law and the band around it."""

LEVEL = 0.05
"""Probability below which a law is rejected."""


@dataclass(frozen=True)
class SurvivalData:
    """Lives of units: age at failure or when last seen, whether it failed, and age at entry; shape (n,) each."""

    age: Array
    failed: NDArray[np.bool_]
    entry: Array

    @staticmethod
    def of(age: ArrayLike, failed: ArrayLike | None = None, entry: ArrayLike | None = None) -> SurvivalData:
        """Return lives; without `failed` all of them ended, without `entry` all were seen from the start."""
        ages = np.asarray(age, dtype=np.float64)
        return SurvivalData(
            ages,
            np.ones(len(ages), dtype=np.bool_) if failed is None else np.asarray(failed, dtype=np.bool_),
            np.zeros(len(ages)) if entry is None else np.asarray(entry, dtype=np.float64),
        )

    def steps(self) -> tuple[Array, Array, Array]:
        """Return the ages at which any failed, how many did, and how many were seen alive just before."""
        ages, number = np.unique(self.age[self.failed], return_counts=True)
        entered = np.searchsorted(np.sort(self.entry), ages, side="left")
        left = np.searchsorted(np.sort(self.age), ages, side="left")
        return ages, number.astype(np.float64), (entered - left).astype(np.float64)


def survival(lives: SurvivalData, at: ArrayLike) -> Array:
    """Return the share that lives longer than each age, by the product-limit estimator (Kaplan-Meier)."""
    ages, number, at_risk = lives.steps()
    product = np.concatenate(([1.0], np.cumprod(1 - number / at_risk)))
    return np.asarray(product[np.searchsorted(ages, np.asarray(at, dtype=np.float64), side="right")])


def cumulative_hazard(lives: SurvivalData, at: ArrayLike) -> Array:
    """Return the cumulative hazard up to each age: steps d over those at risk (Nelson-Aalen)."""
    ages, number, at_risk = lives.steps()
    total = np.concatenate(([0.0], np.cumsum(number / at_risk)))
    return np.asarray(total[np.searchsorted(ages, np.asarray(at, dtype=np.float64), side="right")])


def mean_cumulative(time: ArrayLike, edges: Array, exposure: Array) -> Array:
    """Return the mean number of events of a unit up to each edge: Nelson-Aalen steps d over the units at risk.

    Parameters
    ----------
    time
        Of each event, shape (n,).
    edges
        Moments, in order, shape (m + 1,).
    exposure
        Time in which units were watched between them, shape (m,).
    """
    events = np.histogram(np.asarray(time, dtype=np.float64), edges)[0]
    at_risk = exposure / np.diff(edges)
    steps = np.divide(events, at_risk, out=np.zeros(len(events)), where=at_risk > 0)
    return np.concatenate(([0.0], np.cumsum(steps)))


# Laws.


@dataclass(frozen=True)
class Law:
    """A fitted law: its name as in a scenario, parameters, log-likelihood, and the parameters' number.

    ``hazard`` is the cumulative one, a function of ages of shape (n,).
    """

    use: str
    parameters: Mapping[str, Estimate]
    log_likelihood: float
    free: int
    hazard: Callable[[Array], Array]

    @property
    def aic(self) -> float:
        """2 (parameters - log-likelihood)."""
        return 2 * (self.free - self.log_likelihood)


def exponential(lives: SurvivalData) -> Law:
    """Return the constant hazard: failures over time lived."""
    events, time = int(lives.failed.sum()), float((lives.age - lives.entry).sum())
    hazard = rate(events, time)
    mean = Estimate(*(1 / x if x > 0 else math.inf for x in (hazard.value, hazard.high, hazard.low)))
    fit = events * math.log(hazard.value) - events if events else 0.0
    return Law("exponential", {"mean": mean}, fit, 1, lambda x: hazard.value * x)


def weibull(lives: SurvivalData, *, intervals: bool = True) -> Law:
    """Return the Weibull law, with profile intervals of its shape and scale.

    With late entry v the log-likelihood is sum d (ln k + (k - 1) ln t - k ln s) - (t/s)^k + (v/s)^k.
    """
    age, entry, failed = lives.age, lives.entry, lives.failed
    events = int(failed.sum())
    unit = float(age.max())
    with np.errstate(divide="ignore"):
        log_age, log_ratio = np.log(age / unit), np.log(entry / age)
    of_failed = float(log_age[failed].sum())

    def sums(shape: float) -> float:
        return max(-float(np.exp(shape * log_age) @ np.expm1(shape * log_ratio)), 1e-300)

    def profile(shape: float) -> float:
        # At its best the scale is (sums / events)^(1/shape).
        return events * (math.log(shape) - math.log(sums(shape) / events) - 1) + (shape - 1) * of_failed

    shape = _best(profile, *SHAPES)
    top = profile(shape)
    centre = math.log(sums(shape) / events) / shape

    def of_scale(log_scale: float) -> float:
        def at(k: float) -> float:
            return events * (math.log(k) - k * log_scale) + (k - 1) * of_failed - math.exp(-k * log_scale) * sums(k)

        return at(_best(at, shape / 4, shape * 4))

    limits, ends = (math.nan, math.nan), (math.nan, math.nan)
    if intervals:
        limits = _limits(profile, shape, top, *SHAPES)
        ends = _limits(of_scale, centre, top, centre - 8, centre + 8)
    return Law(
        "weibull",
        {"shape": Estimate(shape, *limits), "scale": Estimate(*(unit * math.exp(x) for x in (centre, *ends)))},
        top - events * math.log(unit), 2, lambda x: (x / unit / math.exp(centre)) ** shape,
    )  # fmt: skip


SHAPES = (0.05, 60.0)
"""Between which the shape of a Weibull law lies [-]."""


def lognormal(lives: SurvivalData) -> Law:
    """Return the log-normal law with intervals from the curvature of the likelihood."""
    from scipy.special import log_ndtr

    part = two_lognormals(lives.age, lives.failed, parts=1, entry=lives.entry)
    (_, median, sigma), errors = part.parts[0], part.errors

    def hazard(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return -np.asarray(log_ndtr((math.log(median) - np.log(x)) / sigma))

    width = 1.959963984540054
    parameters = {
        "median": Estimate(median, *(median * math.exp(sign * width * errors[0]) for sign in (-1, 1))),
        "sigma": Estimate(sigma, *(sigma * math.exp(sign * width * errors[1]) for sign in (-1, 1))),
    }
    return Law("lognormal", parameters, part.log_likelihood, 2, hazard)


def piecewise(lives: SurvivalData, edges: Sequence[float]) -> Law:
    """Return constant hazards between ages: failures over the time lived there; `edges` begin with 0."""
    starts, ends = np.asarray(edges, dtype=np.float64), np.append(np.asarray(edges[1:], dtype=np.float64), np.inf)
    lived = np.array([
        float(np.clip(np.minimum(lives.age, b) - np.maximum(lives.entry, a), 0, None).sum())
        for a, b in zip(starts, ends, strict=True)
    ])  # fmt: skip
    events = np.histogram(lives.age[lives.failed], np.append(starts, np.inf))[0]
    estimates = [rate(int(n), t) if t > 0 else Estimate(0.0) for n, t in zip(events, lived, strict=True)]
    hazards = np.array([estimate.value for estimate in estimates])
    fit = float(sum(n * math.log(h) - n for n, h in zip(events, hazards, strict=True) if n))

    def hazard(x: Array) -> Array:
        lived = np.clip(np.minimum(x, ends[:, None]) - starts[:, None], 0, None)
        return np.asarray(np.sum(hazards[:, None] * lived, axis=0))

    parameters = {f"from {a:g}": estimate for a, estimate in zip(starts, estimates, strict=True)}
    return Law("piecewise", parameters, fit, len(edges), hazard)


def best_law(laws: Sequence[Law]) -> Law:
    """Return the law to use: the first, unless a later one has an AIC lower by more than `BETTER`."""
    best = laws[0]
    for law in laws[1:]:
        if law.aic < best.aic - BETTER:
            best = law
    return best


def misfit(
    law: Law, lives: SurvivalData, refit: Callable[[SurvivalData], Law], draws: int = DRAWS, seed: int = 0
) -> float:
    """Return the probability of a fit no better than this one if the law were true (parametric bootstrap) [-].

    Of a true law the failures are a Poisson process in the number that it expects up to their age, of all lives that
    were seen then. The statistic is T. Anderson's and D. Darling's (J. Am. Stat. Assoc. 49, 1954) of how evenly they
    lie, which weighs the ends: infant mortality and wear-out.
    """
    observed, generator = _distance(law, lives), np.random.default_rng(seed)
    sets = (simulated(law, lives, generator) for _ in range(draws))
    worse = sum(_distance(refit(drawn), drawn) >= observed for drawn in sets if drawn.failed.any())
    return (worse + 1) / (draws + 1)


def simulated(law: Law, lives: SurvivalData, generator: np.random.Generator) -> SurvivalData:
    """Return lives of a law that are met and censored as others are.

    Until when one that failed would have been watched is drawn from those that were still alive at its age.
    """
    edge = float(lives.age.max())
    censored = np.sort(lives.age[~lives.failed])
    later = np.searchsorted(censored, lives.age)
    chosen = later + (generator.random(len(later)) * (len(censored) - later)).astype(np.int64)
    until = np.append(censored, edge)[np.minimum(chosen, len(censored))]
    until = np.where(lives.failed, until, lives.age)
    grid = np.linspace(0, edge, 2000)
    hazards = np.concatenate(([0.0], law.hazard(grid[1:])))
    target = law.hazard(np.maximum(lives.entry, 1e-9)) + generator.exponential(size=len(until))
    age = np.interp(target, hazards, grid, right=np.inf)
    return SurvivalData(np.maximum(np.minimum(age, until), lives.entry + 1e-9), age <= until, lives.entry)


def _distance(law: Law, lives: SurvivalData) -> float:
    seen, entry = law.hazard(lives.age), law.hazard(np.maximum(lives.entry, 1e-9))
    at, hazard = lives.age[lives.failed], seen[lives.failed]
    expected = _reached(lives.age, seen, at, hazard) - _reached(lives.entry, entry, at, hazard)
    share = np.clip(np.sort(expected) / max(float((seen - entry).sum()), 1e-300), 1e-12, 1 - 1e-12)
    odd = 2 * np.arange(1, len(share) + 1) - 1
    return float(-len(share) - odd @ (np.log(share) + np.log1p(-share[::-1])) / max(len(share), 1))


def _reached(ages: Array, hazards: Array, at: Array, hazard: Array) -> Array:
    """Return the sum of the hazards that were reached at each of some ages, of those with this `hazard`."""
    order = np.argsort(ages)
    total = np.concatenate(([0.0], np.cumsum(hazards[order])))
    before = np.searchsorted(ages[order], at)
    return np.asarray(total[before] + hazard * (len(ages) - before))


def _best(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function of one positive number is largest."""
    from scipy.optimize import minimize_scalar

    best = minimize_scalar(lambda x: -function(math.exp(x)), bounds=(math.log(low), math.log(high)), method="bounded",
                            options={"xatol": 1e-8})  # fmt: skip
    return math.exp(best.x)


def _limits(profile: Callable[[float], float], best: float, top: float, low: float, high: float) -> tuple[float, float]:
    """Return where a profile likelihood has fallen by half of the chi-squared quantile on both sides."""

    def above(x: float) -> float:
        return profile(x) - top + CHI2 / 2

    return root(above, low, best), root(above, best, high)


# From the table to a document.


def fit(tables: Tables, name: str, window: tuple[float, float] | None, provenance: Provenance) -> LivesDocument:
    """Return which law the lives of each batch follow."""
    rows = _in_window(tables, window)
    if not any(row.failed for row, *_ in rows):
        raise NoModelError(f"no law of lifetimes: none of {len(rows):,} parts failed")
    batches = [
        _batch_of(batch, [life for life in rows if life[0].batch == batch])
        for batch, _ in Counter(row.batch for row, *_ in rows).most_common()
    ]
    return LivesDocument(
        format=1, name=name, files=[file_read(source) for source in tables.sources], dropped=dropped_rows(tables),
        batches=batches,
        findings=[*tables.findings, *(text for batch in batches for text in _findings(batch))],
        not_known=[
            "parts that were never in the table", "why a part failed, where the table has no cause",
            "ages above the oldest part: the last hazard is taken to last",
        ],
        provenance=provenance,
    )  # fmt: skip


def _batch_of(name: str, lives: Sequence[tuple[PartLife, float, float]]) -> BatchSummary:
    """Return which law the lives of a batch follow, of rows with the ages at which they were met and left [d]."""
    data = SurvivalData.of(
        [age for *_, age in lives], [row.failed for row, *_ in lives], [entry for _, entry, _ in lives]
    )
    return _batch(name, data, Counter(row.cause for row, *_ in lives if row.failed))


def _in_window(tables: Tables, window: tuple[float, float] | None) -> list[tuple[PartLife, float, float]]:
    """Return the lives with the ages at which they were met and left [d]; what fell before the window is dropped."""
    dated = [moment for row in tables.lives for moment in (row.born, row.born + row.age) if not math.isnan(moment)]
    begin, end = window or (-math.inf, max(dated, default=math.inf))
    result = []
    for row in tables.lives:
        entry, age, failed = row.entry, row.age, row.failed
        if not math.isnan(row.born):
            entry = max(entry, begin - row.born, 0.0)
            if math.isnan(age) or row.born + age > end:
                age, failed = end - row.born, False
        if age <= entry:
            tables.drop(row.file, "a life that ended before it was met", row.line)
        else:
            result.append((dataclasses.replace(row, failed=failed), entry / DAY, age / DAY))
    return result


def _laws(lives: SurvivalData) -> tuple[list[Law], Law, float | None]:
    """Return the laws of lives, the one to write, and the probability of so bad a fit if that one were true.

    It is the one with the lowest AIC, unless that does not fit and hazards by age do.
    """
    first = exponential(lives)
    if int(lives.failed.sum()) < SOME:
        return [first], first, None
    edges = _edges(lives)
    refits: dict[str, Callable[[SurvivalData], Law]] = {
        "exponential": exponential,
        "weibull": partial(weibull, intervals=False),
        "lognormal": lognormal,
        "piecewise": partial(piecewise, edges=edges),
    }
    laws = [first, weibull(lives), lognormal(lives), piecewise(lives, edges)]
    chosen, by_age = best_law(laws), laws[-1]
    p = misfit(chosen, lives, refits[chosen.use])
    if p < LEVEL and chosen is not by_age:
        of_ages = misfit(by_age, lives, refits["piecewise"])
        if of_ages >= LEVEL:
            return laws, by_age, of_ages
    return laws, chosen, p


def _batch(name: str, lives: SurvivalData, causes: Counter[str]) -> BatchSummary:
    failures = int(lives.failed.sum())
    years = float((lives.age - lives.entry).sum()) / YEAR
    laws, chosen, p = _laws(lives)
    ages = np.linspace(0, float(lives.age.max()), 61)
    generator = np.random.default_rng(1)
    sets = [simulated(chosen, lives, generator) for _ in range(DRAWS)] if failures else [lives]
    functions = {"survival": survival, "hazard": cumulative_hazard}
    curves = {name: curve(ages, partial(function, at=ages), lives, sets) for name, function in functions.items()}
    hazards = laws[3] if len(laws) > 3 else piecewise(lives, [0.0])
    starts = [float(key.removeprefix("from ")) for key in hazards.parameters]
    return BatchSummary(
        name=name, parts=len(lives.age), failures=failures, years=years, late=int((lives.entry > 0).sum()),
        causes=dict(causes.most_common()), rate=estimated(rate(failures, years)),
        laws=[
            LawOfLives(use=law.use, parameters={key: estimated(x) for key, x in law.parameters.items()}, aic=law.aic)
            for law in laws if law.use != "piecewise" or len(law.parameters) > 1
        ],
        chosen=chosen.use, law=_as_stated(chosen, lives), misfit=p, curves=curves,
        hazards=[
            AgeSummary(from_days=a, to_days=b, rate=estimated(Estimate(*(YEAR * x for x in hazard))))
            for a, b, hazard in zip(starts, [*starts[1:], None], hazards.parameters.values(), strict=True)
        ],
    )  # fmt: skip


def _edges(lives: SurvivalData) -> list[float]:
    """Return ages that divide lives into a dozen stretches or fewer, each with `FEW` failures [d]."""
    oldest = float(lives.age.max())
    width = next((step for step in (1 / 24, 0.25, 1, 7, 30, YEAR / 4, YEAR / 2) if oldest <= 13 * step), YEAR)
    edges, ages = [0.0], lives.age[lives.failed]
    for edge in width * np.arange(1, math.ceil(oldest / width)):
        if np.sum((ages >= edges[-1]) & (ages < edge)) >= FEW <= np.sum(ages >= edge):
            edges.append(float(edge))
    return edges


def _as_stated(law: Law, lives: SurvivalData) -> dict[str, Any]:
    """Return a law as a scenario states it."""
    at = {key: parameter.value for key, parameter in law.parameters.items()}
    if law.use == "exponential":
        # Without a failure the mean of the posterior of the rate, 1/2 over the time lived.
        mean = at["mean"] if math.isfinite(at["mean"]) else 2 * float((lives.age - lives.entry).sum())
        return {"use": "exponential", "mean": duration(mean * DAY)}
    if law.use == "weibull":
        return {"use": "weibull", "shape": float(f"{at['shape']:.4g}"), "scale": duration(at["scale"] * DAY)}
    if law.use == "lognormal":
        return lognormal_law(at["median"] * DAY, at["sigma"])
    starts = [float(key.removeprefix("from ")) for key in at]
    pieces = [{"until": duration(a * DAY)} for a in starts[1:]] + [{}]
    rates = [float(f"{hazard * CALENDAR_YEAR / DAY:.4g}") for hazard in at.values()]
    return {
        "use": "piecewise",
        "hazards": [{**piece, "rate": f"{rate:g} per year"} for piece, rate in zip(pieces, rates, strict=True)],
    }


def _findings(batch: BatchSummary) -> list[str]:
    whose = f"{batch.name}: " if batch.name else ""
    if batch.failures < SOME:
        return [f"{whose}{batch.failures} failures: a constant rate only; other laws need {SOME}"]
    smooth = min((law for law in batch.laws if law.use != "piecewise"), key=lambda law: law.aic).use
    if batch.misfit is not None and batch.misfit < LEVEL:
        return [f"{whose}no law fits; {batch.chosen}, which is written, is the best of them (p = {batch.misfit:.2g})"]
    if batch.chosen == "piecewise":
        return [f"{whose}no smooth law fits, {smooth} the best of them: read the hazards by age"]
    return []


def files(document: LivesDocument, tables: Tables) -> dict[str, str]:
    """Return the files of the folder: a failure source whose batches have their laws, and what was dropped."""
    first, *later = document.batches
    parts = sum(batch.parts for batch in document.batches)
    entry: dict[str, Any] = {"use": "component", "name": "part", "part": "gpu", "law": first.law}
    if later:
        entry["batches"] = [{"share": float(f"{b.parts / parts:.4g}"), "law": b.law} for b in later]
    entry["source"] = "; ".join(
        f"{batch.name or 'all'}: {batch.failures} failures of {batch.parts} parts in {batch.years:,.0f} part-years, "
        f"{batch.chosen}" for batch in document.batches
    )  # fmt: skip
    head = (
        "# Fitted by ettrick fit to lives of parts. All parts are new when a run begins; 'part' is the class of part:\n"
        "# gpu, nic, leaf, ...\n"
    )
    return {"failures.yaml": head + sim.dump({"failures": [entry]}), "dropped.csv": as_csv(tables.dropped, Dropped)}
