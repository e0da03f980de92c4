"""Time between interruptions, and goodput, at other sizes, with measured points."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import PERCENT, NumberFormat, ends_of, time_text
from ettrick.analysis.page.cells import running, summary_of
from ettrick.analysis.page.chapters.formula import TOO_FAR, distance
from ettrick.analysis.page.charts.data import LABELS_OF_HOURS, ChartAxis, Curves, Dot, Series
from ettrick.analysis.page.model import Figure, Section, grid
from ettrick.analysis.page.report_data import at_rate, at_size, interruption_rates, shares_of, with_nodes_at_hand
from ettrick.sim import units
from ettrick.sim.units import HOUR
from ettrick.sim.yamlfile import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.analysis.page.charts.data import Range
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import InterruptionRates, ReplayedScenario, ReportData
    from ettrick.analysis.results.studies import CellSummary, SweepDocument
    from ettrick.sim import Prepared, PreparedJob

# ----------------------------------------
# The scenario of a report at other sizes: what a formula says there, and what was simulated.

_DOWN, _UP = 4, 3  # how many times the job is halved and doubled: what is far from it rests on nothing
_LEAST, _MOST = 1024, 131_072  # sizes between which it is halved and doubled [GPUs]; once in any case
_GPUS = "jobs.0.gpus"


class AtSize(NamedTuple):
    """The closed form at a size; ``None`` where it says nothing."""

    gpus: int  # GPUs of the first job [-]
    # mtti, mtti_faster: running time between interruptions [s], with hardware failures in proportion to the GPUs, and
    # growing faster
    mtti: float
    mtti_faster: float | None
    # ettr, ettr_faster: share of productive time [-], likewise; of a job that restarts as a whole, with spares enough
    # to wait for nodes as rarely as at its own size
    ettr: float | None
    ettr_faster: float | None
    exponent: float  # the power of the number of GPUs with which failures grow that grow faster [-]; 0 where none do


class SimulatedSize(NamedTuple):
    """A size that was simulated: mean and 95 % interval; ``None`` where all replications come to the same."""

    gpus: int
    mean: float
    ci95: Range | None


def at_sizes(prepared: Prepared) -> list[AtSize]:
    """Return what formulas say of the size of the first job, doubled and halved; empty where they say nothing.

    A pool of spares in proportion to the job would be too small for a small job, and too large for a large one; so the
    part of its productive time that waits for nodes leave is held as it is.
    """
    rates = interruption_rates(prepared)
    if rates is None or not math.isfinite(prepared.jobs[0].mtti):
        return []
    down = min(max(math.floor(math.log2(rates.gpus / _LEAST)), 1), _DOWN)
    up = min(max(math.floor(math.log2(_MOST / rates.gpus)), 1), _UP)
    base = prepared if waiting(prepared) is None else with_nodes_at_hand(prepared)
    now, at_hand = (shares["productive"] if (shares := shares_of(variant)) else 0.0 for variant in (prepared, base))
    served = now / at_hand if at_hand > 0 else 1.0
    scaled = [at_size(base, rates.gpus * 2.0**power) for power in range(-down, up + 1)]
    sizes = [_at(variant, prepared, rates, served) for variant in scaled if variant is not None]
    if sim.job_shares(prepared) is None:
        # Other sizes of a job that it says nothing of are none of its business.
        sizes = [size._replace(ettr=None, ettr_faster=None) for size in sizes]
    return list({size.gpus: size for size in sizes}.values())


def waiting(prepared: Prepared) -> float | None:
    """Return for which share of the time the job waits for nodes, detection left out [-], as a formula says.

    0 where the formula does not know; ``None`` where replicas wait one by one, which is no share of a job's time.
    """
    recovery = prepared.recovery
    shares = shares_of(prepared)
    if recovery.elastic or shares is None:
        return None
    away = sum(shares.get(name, 0.0) for name in ("starved", "queued"))
    return min(away / (1 - shares["detection"]), 1.0)


def simulated_shares(report_data: ReportData, focus: ReplayedScenario) -> list[SimulatedSize]:
    """Return the ETTR of the scenario that is looked at, and of all sizes of it that a sweep has simulated [-]."""
    sweep, study = report_data.sweep, report_data.study
    ettr = focus.document.metrics["ettr"]
    alone = _simulated(focus.prepared.jobs[0].gpus, ettr.mean, ettr.mean_ci95)
    chosen = None if study is None else report_data.chosen
    if chosen is None or sweep is None or study is None:
        return alone
    cells = _cells_of_sizes(sweep, chosen[0])
    points = {point.number: point for point in study.points()}
    sizes = [study.scenario(points[cell.point]).jobs[0].gpus for cell in cells]
    # Where sizes come twice, what varies is not the size: it only comes with it.
    if len(sizes) < 2 or len(set(sizes)) < len(sizes) or any("ettr" not in cell.metrics for cell in cells):
        return alone
    summaries = ((gpus, summary_of(cell, "ettr")) for gpus, cell in zip(sizes, cells, strict=True))
    return sorted(size for gpus, row in summaries for size in _simulated(gpus, row.mean, row.mean_ci95))


def _cells_of_sizes(sweep: SweepDocument, chosen: int) -> list[CellSummary]:
    """Return the cells that differ from the chosen one in nothing but the axis that sets the GPUs of the job."""
    axes = [name for name, axis in sweep.axes.items() if _GPUS in axis.paths]
    here = sweep.cells[chosen].values
    fixed = [axis for axis in here if axis not in axes]
    return [cell for cell in running(sweep) if all(cell.values[axis] == here[axis] for axis in fixed)] if axes else []


def _simulated(gpus: int, mean: float | None, interval: Sequence[float | None] | None) -> list[SimulatedSize]:
    return [] if mean is None else [SimulatedSize(gpus, mean, ends_of(interval))]


def _at(scaled: Prepared, prepared: Prepared, rates: InterruptionRates, served: float) -> AtSize:
    """Return what formulas say of a scenario at a size, with the rates of the scenario as it is.

    Waits for nodes leave the part `served` of its productive time [-].
    """
    form, gpus = sim.closed_form(scaled), scaled.jobs[0].gpus
    mtti, more, shares = rates.mtti(gpus), 0.0, []
    for row in form.extrapolated:
        counted = interruption_rates(prepared, row.bundle)
        if row.ettr_superlinear is not None and counted is not None:
            shares.append(row.ettr_superlinear)
            more += counted.growing * gpus / rates.gpus * ((gpus / row.counted_on_gpus[1]) ** (row.exponent - 1) - 1)
    # A rounding error is not below nothing.
    usual, faster = (
        None if ettr is None else max(served * ettr, 0.0) for ettr in (form.ettr, min(shares, default=None))
    )
    exponent = max((row.exponent for row in form.extrapolated), default=0.0) if more > 0 else 0.0
    return AtSize(gpus, mtti, 1 / (1 / mtti + more) if more > 0 else None, usual, faster, exponent)


# ----------------------------------------
# What a closed form says of a scenario whose failures are less frequent, and which recovers faster.

FACTORS = tuple(2.0 ** (step / 4) for step in range(-8, 17, 3))  # how many times as long between failures [-]
_HALF = 0.5  # times of a faster detection and recovery, relative to those of the scenario [-]
LEVELS = (0.90, 0.95, 0.97)  # shares of productive time that are asked for [-]
_NEVER = 1e4  # a factor at which failures are so rare that they cost nothing but in proportion to their rate [-]
_NEAR = 5e-4  # how far from a level a factor may lead that is taken for the one that leads there [-]


@dataclass(frozen=True)
class Requirement:
    """The share of productive time over the failure rate and the time to recover, by closed form."""

    prepared: Prepared

    @functools.cached_property
    def values(self) -> tuple[float, ...]:
        """ETTR by `FACTORS` [-]."""
        return tuple(_shares(at_rate(self.prepared, factor))["productive"] for factor in FACTORS)

    @functools.cached_property
    def rare(self) -> dict[str, float]:
        """Shares of time where hardly anything fails [-]."""
        return _shares(at_rate(self.prepared, _NEVER))

    @property
    def pause(self) -> float:
        """Mean time from a failure to stepping again [s]; of failures that do not meet."""
        mtti = _NEVER * self.prepared.jobs[0].mtti
        return (self.rare.get("detection", 0.0) + self.rare.get("restart", 0.0)) * mtti

    def factor_for(self, level: float) -> float | None:
        """Return how many times as long it has to be between failures for a share of productive time [-].

        0 if the first of `FACTORS` is enough, infinite if the last is not, ``None`` if none could be.
        """
        from scipy.optimize import brentq

        if self.rare["productive"] <= level:
            return None
        if self.values[0] >= level:
            return 0.0
        if self.values[-1] < level:
            return math.inf
        place = next(index for index, value in enumerate(self.values) if value >= level)
        ends = math.log(FACTORS[place - 1]), math.log(FACTORS[place])
        logs = [math.log(factor) for factor in FACTORS]
        guess = float(brentq(lambda log: float(_smooth(logs, self.values, log)) - level, *ends))

        def above(log: float) -> float:
            return _shares(at_rate(self.prepared, math.exp(log)))["productive"] - level

        return math.exp(guess if abs(above(guess)) <= _NEAR else float(brentq(above, *ends, xtol=1e-3)))


def _smooth(places: Any, shares: Any, at: Any) -> Any:
    """Return shares between places, each column by itself: as smooth as can be without a new high or low.

    What is interpolated is the logit, in which shares are nearly straight lines at both ends (F. N. Fritsch and
    J. Butland, SIAM J. Sci. Stat. Comput. 5, 1984).
    """
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    clipped = np.clip(np.asarray(shares), 1e-9, 1 - 1e-9)
    return 1 / (1 + np.exp(-PchipInterpolator(places, np.log(clipped / (1 - clipped)), axis=0)(at)))


def half_recovery(prepared: Prepared) -> Prepared:
    """Return the scenario with half the times of detection and recovery."""
    parts = {name: getattr(prepared.scenario, name) for name in ("detection", "recovery")}
    changes = {name: part.model_copy(update={"scale": _HALF * part.scale}) for name, part in parts.items()}
    return sim.prepare(prepared.scenario.model_copy(update=changes))


def _shares(prepared: Prepared) -> dict[str, float]:
    shares = shares_of(prepared)
    assert shares is not None, "a closed form describes it"
    return shares


# ----------------------------------------
# How reliable and how fast to recover: what it takes for 90, 95 and 97 %.

_LONGEST = 70  # letters of a name that fits into a title

_WORDS = (
    "How much higher the MTBF would have to be, or how much faster the job would have to recover, for a given share of "
    "productive time. All causes become less frequent by one factor. All times of detection and recovery become "
    "shorter by the same factor. Intervals between saves that a rule chooses "
    "are chosen again, and others stay."
)


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where nothing fails or has to recover, or no formula describes the scenario.

    A formula that is far from what was simulated describes nothing.
    """
    focus = report_data.focus
    if focus is None or not math.isfinite(focus.prepared.jobs[0].mtti):
        return None
    formula = focus.document.closed_form
    now, off = formula.ettr, distance(formula)
    today = Requirement(focus.prepared)
    if now is None or abs(off) > TOO_FAR:
        return None
    faster = Requirement(half_recovery(focus.prepared))
    if not today.pause > faster.pause > 0:
        return None
    target = asked_level(report_data.sweep)
    levels = tuple(sorted({*LEVELS, *([] if target is None else [target])}))
    factors = {level: today.factor_for(level) for level in levels}
    is_named = report_data.sweep is not None and len(focus.name) <= _LONGEST
    by = "By the formula" if not off else f"By the formula, which is {100 * abs(off):.1g} percentage points off here"
    title = f"{by}, {_requirement(now, factors, target, f'with {focus.name}' if is_named else 'here')}"
    table = _factors(focus, today, faster, factors)
    notes = ["A formula for the long run, not a simulation."]
    ettr, seen = focus.document.metrics["ettr"], formula.simulated
    if ettr.mean is not None:
        text = f"For the scenario it says {PERCENT.plain(now)} where the simulation says "
        notes.append(f"{text}{PERCENT.value(ettr.mean, ends_of(ettr.mean_ci95))}.")
        if seen is not None and seen.replications < focus.wanted:
            notes.append(f"The simulation is of {seen.replications} replications, simulated again.")
    if formula.assumptions:
        notes.append(f"The formula assumes: {'; '.join(formula.assumptions)}.")
    return Section("frontier", title, (f"All of it is of {focus.name}. {_WORDS}",), (table,), tuple(notes))


def asked_level(sweep: SweepDocument | None) -> float | None:
    """Return the share of productive time that a study asks to reach [-], if it asks for one."""
    for answer in () if sweep is None else sweep.answers:
        level = answer.data.get("at_least")
        if answer.use == "threshold" and answer.data.get("metric") == "ettr" and isinstance(level, float):
            return level if 0 < level < 1 else None
    return None


def _requirement(now: float, factors: dict[float, float | None], target: float | None, where: str) -> str:
    """Return what the level that is asked for, or the lowest one missed, takes; or how far failures may increase."""
    missed = [level for level in (LEVELS if target is None else (target,)) if now < level]
    level = missed[0] if missed else LEVELS[-1] if target is None else target
    factor, share = factors[level], PERCENT.exact(level)
    if not missed:
        times = _times(1 / factor) if factor else f"more than {1 / FACTORS[0]:g} times"
        return f"failures could be {times} as frequent as {where} before productive time falls below {share}"
    if factor is None:
        return f"{share} of productive time is out of reach {where}, however rare failures are"
    times = f"more than {FACTORS[-1]:g} times" if math.isinf(factor) else _times(factor)
    return f"{share} of productive time takes failures {times} as rare as {where}"


def _factors(
    focus: ReplayedScenario, today: Requirement, faster: Requirement, factors: dict[float, float | None]
) -> TableBlock:
    job = focus.prepared.jobs[0]
    now, half = time_text(today.pause), time_text(faster.pause)
    rows = [
        (PERCENT.exact(level), *(_needed(needed, job) for needed in (factor, faster.factor_for(level))))
        for level, factor in factors.items()
    ]
    heads = ("productive time", f"recovery in {now}, as here", f"recovery in {half}")
    note = f"By the formula the job of {focus.name} is interrupted every {time_text(job.mtti)} of running: "
    note += f"{_mtbf(job.mtti, job)}."
    return grid("How long it must run between interruptions", heads, rows, (1, 2), note=note)


def _needed(factor: float | None, job: PreparedJob) -> str:
    if factor is None:
        return "out of reach: saves on their own cost more"
    bound, words = (FACTORS[-1], "more than ") if math.isinf(factor) else (FACTORS[0], "less than ")
    if factor and math.isfinite(factor):
        return f"{_times(factor)} ({_reliability(factor * job.mtti, job)})"
    return f"{words}{bound:g} times ({_reliability(bound * job.mtti, job)})"


def _reliability(mtti: float, job: PreparedJob) -> str:
    return f"MTTI {time_text(mtti)}, {_mtbf(mtti, job)}"


def _mtbf(mtti: float, job: PreparedJob) -> str:
    """Return the MTBF of a GPU and of a node that a running time between interruptions of the job [s] takes."""
    hours = NumberFormat("h", HOUR)
    return f"MTBF {hours.brief(mtti * job.gpus)} per GPU, {hours.brief(mtti * job.nodes)} per node"


def _times(factor: float) -> str:
    """Return a factor in words; near 1 with a digit more."""
    return f"{factor:.2f} times" if 0.9 < factor < 1.1 else f"{factor:.2g} times"


# ----------------------------------------
# What was measured of large jobs, and by whom: points to lay over curves.

# How the points are known, in words.
BASES = {
    "primary": "read in the source",
    "derived": "computed from figures of the source",
    "secondary": "quoted by others",
}

_DATA = Path(__file__).parents[1] / "measured.yaml"


class PublishedPoint(NamedTuple):
    """A published value."""

    name: str  # whose job it was
    gpus: int  # its size [-]
    value: float  # time between interruptions [s], or share of productive time [-]
    basis: str  # how it is known: a key of `BASES`
    source: str  # who says so
    is_bound: bool = False  # whether the true value is above it
    # Ends of what the source leaves open, in the unit of the value; ``None`` where it states one number.
    range: tuple[float, float] | None = None
    note: str = ""  # what else is in it, or is not
    doubt: str = ""  # why it may be no measurement; empty where nobody doubts that

    @property
    def remarks(self) -> str:
        """The source of the value, and remarks on it."""
        return "; ".join(filter(None, (BASES[self.basis], self.note, self.doubt)))


def measured_points(quantity: str) -> tuple[PublishedPoint, ...]:
    """Return what was published of a quantity, ``mtti`` or ``ettr``, the smallest jobs first."""
    return _points()[quantity]


def largest_measured(quantity: str) -> int:
    """Return the size of the largest job of which a quantity was measured beyond doubt [GPUs]."""
    return max(point.gpus for point in measured_points(quantity) if not point.doubt)


@functools.cache
def _points() -> dict[str, tuple[PublishedPoint, ...]]:
    content: dict[str, Any] = load(_DATA).data
    return {name: tuple(sorted(map(_point, content[name]), key=lambda point: point.gpus)) for name in ("mtti", "ettr")}


def _point(entry: Mapping[str, Any]) -> PublishedPoint:
    """Return a time between interruptions, as it is stated or time over count [s], or a share of productive time."""
    if "ettr" in entry:
        value = units.parse(entry["ettr"], units.FRACTION)
    else:
        value = units.parse(entry.get("mtti", entry.get("time")), units.DURATION) / entry.get("count", 1)
    ends = [units.parse(end, units.FRACTION) for end in entry.get("range", ())]
    return PublishedPoint(
        *(entry["name"], entry["gpus"], value, entry["basis"], entry["source"]),
        is_bound=entry.get("bound") == "above",
        range=(ends[0], ends[1]) if ends else None,
        note=entry.get("note", ""),
        doubt=entry.get("doubt", ""),
    )


_LEAST_SCALE = 0.001  # share of productive time below which no curve is drawn, and no number given [-]

_WORDS_SCALE = (
    "The curves are a formula: hardware fails in proportion to the number of GPUs, and what comes once a job, whatever "
    "its size, as often at every size. Nodes, spares and replicas grow with the job; the time of a step and of a save "
    "stay. Dots were measured by others, on clusters and with policies of their own: they show what is usual, and "
    "need not lie on the curves."
)


def scale_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is no scenario, or no formula for how often it is interrupted."""
    focus = report_data.focus
    sizes = [] if focus is None else at_sizes(focus.prepared)
    if focus is None or not sizes:
        return None
    here = focus.prepared.jobs[0].gpus
    shares = simulated_shares(report_data, focus)
    items = [_interruptions_by_size(focus, sizes)]
    ettr = {size.gpus: size.ettr for size in sizes if size.ettr is not None}
    if ettr or shares:
        title = _goodput_title(here, ettr, shares)
        rows = [(size.gpus, size.ettr, size.ettr_faster) for size in sizes if size.gpus in ettr]
        series = _series(rows, shares, 0.01, _LEAST_SCALE)
        chart = _curves("ettr", title, ChartAxis("ETTR, % of requested GPU-time"), series, here)
        alt = f"Share of productive time (ETTR) against the size of the job. {title}."
        caption = (
            "With the same policies at every size. ETTR is the share of the requested GPU-time that becomes progress."
        )
        items.append(Figure("goodput-by-size", chart, alt, caption))
    tables = _measured("mtti", "Time between interruptions", time_text), _measured("ettr", "Productive time", _percent)
    texts = (_WORDS_SCALE, *_on_waiting(focus))
    return Section("scale", items[-1].title, texts, (*items, *tables), tuple(_notes_of_scale(focus, sizes)))


def _interruptions_by_size(focus: ReplayedScenario, sizes: Sequence[AtSize]) -> Figure:
    """Return the time between interruptions against the size of the job."""
    jobs, last, mtti = focus.prepared.jobs, sizes[-1], focus.document.metrics["mtti_running"]
    here = jobs[0].gpus
    now = next(size for size in sizes if size.gpus == here)
    # Several jobs are not interrupted equally often.
    between = _simulated(here, mtti.mean, mtti.mean_ci95) if len(jobs) == 1 else []
    title = (
        f"By the formula a job of {here:,} GPUs is interrupted every {time_text(now.mtti)} of running, one of "
        f"{last.gpus:,} GPUs every {time_text(last.mtti)}"
    )
    y = ChartAxis("running time between interruptions", is_log=True, ticks=LABELS_OF_HOURS)
    series = _series([(size.gpus, size.mtti, size.mtti_faster) for size in sizes], between, HOUR)
    alt = (
        f"Running time between interruptions falls as the job grows, from {time_text(sizes[0].mtti)} at "
        f"{sizes[0].gpus:,} GPUs to {time_text(last.mtti)} at {last.gpus:,}."
    )
    caption = (
        "Running time is that in which the job steps or saves; published times may count its stops as well. Both axes "
        "are logarithmic: equal distances are equal ratios."
    )
    return Figure("interruptions-by-size", _curves("mtti", title, y, series, here), alt, caption)


def _on_waiting(focus: ReplayedScenario) -> Iterator[str]:
    """Yield how long the job waits for nodes at every size."""
    away = waiting(focus.prepared)
    if away is not None:
        text = "At every size, and however fast failures grow, the pool of spares is taken to be large enough that the "
        rarely = f"as rarely as here by the formula: {_percent(away)} of the time"
        if away < _LEAST_SCALE:
            rarely = "hardly ever: for less than 0.1 % of the time"
        yield f"{text}job waits for nodes {rarely}."


def _notes_of_scale(focus: ReplayedScenario, sizes: Sequence[AtSize]) -> Iterator[str]:
    jobs, power = focus.prepared.jobs, max(size.exponent for size in sizes)
    yield f"The curves are those of {focus.name}."
    if focus.stored_document is None and len(jobs) == 1:
        of = f"is of {focus.replications} replications, simulated again."
        yield f"The simulated running time between interruptions {of}"
    if len(jobs) > 1:
        yield f"Of several jobs the size is that of {jobs[0].name}; all of them grow together."
    if power:
        yield (
            f"Failures that grow faster than the job: with the power {power:g} of its GPUs beyond the largest job on "
            "which they were counted. The power follows from one site (arXiv 2602.00277, from secondary readings)."
        )


def _curves(quantity: str, title: str, y: ChartAxis, series: tuple[Series, ...], here: int) -> Curves:
    size, points = HOUR if quantity == "mtti" else 0.01, measured_points(quantity)
    dots = tuple(
        Dot(
            # What is no plain measurement says so in its name.
            point.name + (" (more than)" if point.is_bound else " (perhaps projected)" if point.doubt else ""),
            float(point.gpus),
            point.value / size,
            f"{point.source} ({point.remarks})",
        )
        for point in points
    )
    shaded, edges = (float(largest_measured(quantity)), "beyond what was measured"), ((float(here), "this job"),)
    x = ChartAxis("GPUs of the job", is_log=True)
    return Curves(title, x, y, series, edges=edges, dots=dots, shaded_from=shaded)


def _goodput_title(here: int, sizes: Mapping[int, float], simulated: Sequence[SimulatedSize]) -> str:
    """Return how ETTR changes with the size: over the sizes that were simulated, or else by the formula."""
    means = [f"{PERCENT.plain(size.mean, size.ci95)} at {size.gpus:,}" for size in simulated]
    if len(means) > 1:
        return f"With the same policies simulated ETTR goes from {means[0]} GPUs to {means[-1]}"
    if not sizes:
        return f"Simulated ETTR is {means[0]} GPUs; no formula says more of it"
    now, (largest, last) = sizes[here], list(sizes.items())[-1]
    simulated_here = f" (simulated here: {PERCENT.plain(simulated[0].mean, simulated[0].ci95)})" if simulated else ""
    way = f"{'falls' if last < now else 'rises'} from {_percent(now)} at {here:,} GPUs to {_percent(last)}"
    return f"By the formula ETTR {way} at {largest:,}{simulated_here}"


def _series(
    rows: Sequence[tuple[int, float | None, float | None]],
    simulated: Sequence[SimulatedSize],
    size: float,
    least: float = 0.0,
) -> tuple[Series, ...]:
    """Return the curves of a picture, in units of a size; where they are lower than `least`, they end.

    Rows are a size, what the formula says, and what it says where failures grow faster.
    """

    def cut(value: float | None) -> float | None:
        return None if value is None or value < least else value / size

    series = []
    if rows:
        x = tuple(float(row[0]) for row in rows)
        series.append(Series("formula", x, tuple(cut(row[1]) for row in rows), look="dashed", hue=0))
    faster = [index for index, row in enumerate(rows) if cut(row[2]) is not None]
    if faster:
        # It begins where failures begin to grow faster: at the last size before.
        start = rows[max(faster[0] - 1, 0)]
        path = [(start[0], cut(start[1])), *((rows[index][0], cut(rows[index][2])) for index in faster)]
        x, y = tuple(float(gpus) for gpus, _ in path), tuple(value for _, value in path)
        series.append(Series("failures grow faster than the job", x, y, look="dashed", hue=-1))
    if simulated:
        series.append(_simulated_series(simulated, size))
    return tuple(series)


def _simulated_series(sizes: Sequence[SimulatedSize], unit: float) -> Series:
    x, means = tuple(float(size.gpus) for size in sizes), tuple(size.mean / unit for size in sizes)
    ends = tuple(size.ci95 and (size.ci95[0] / unit, size.ci95[1] / unit) for size in sizes)
    return Series("simulated", x, means, ends, hue=1)


def _measured(quantity: str, title: str, text: Callable[[float], str]) -> TableBlock:
    """Return the published points as a table, each value as its source leaves it."""
    rows = []
    for point in measured_points(quantity):
        value = f"more than {text(point.value)}" if point.is_bound else text(point.value)
        value = value if point.range is None else f"{text(point.range[0])} to {text(point.range[1])}"
        rows.append((point.name, f"{point.gpus:,}", value, point.remarks, point.source))
    return grid(f"{title}, as published", ("job", "GPUs", "value", "how it is known", "source"), rows, (0, 3, 4))


def _percent(value: float) -> str:
    return f"below {PERCENT.exact(_LEAST_SCALE)}" if value < _LEAST_SCALE else PERCENT.brief(value)
