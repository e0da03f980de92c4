"""Time between interruptions, and goodput, at other sizes, with measured points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.answers.words import form_of
from analysis.cells import time_text
from analysis.plots.charts import Curves, Dot, Scale, Series
from analysis.report.measured import largest_measured, measured_points
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import HOUR
from analysis.report.sections.sizes import at_sizes, simulated_mtti, simulated_shares, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from analysis.report.measured import MeasuredPoint
    from analysis.report.sections.sizes import AtSize, Simulated

    Row = tuple[int, float | None, float | None]
    """A size, what the formula says, and what it says where failures grow faster."""

__all__ = ["section"]

_SHARE = form_of("ettr", [])
_LEAST = 0.001
"""Share of productive time below which no curve is drawn, and no number told [-]."""
_EXTRAPOLATED = "beyond what was measured"
_WORDS = (
    "The curves are a formula: hardware fails in proportion to the number of GPUs, and what comes once a job, whatever "
    "its size, as often at every size. Nodes, spares and replicas grow with the job; the time of a step and of a save "
    "stay. Dots were measured by others, on clusters and with policies of their own: they show what is usual, and "
    "need not lie on the curves."
)


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is no scenario, or no formula for how often it is interrupted."""
    focus = material.focus
    sizes = [] if focus is None else at_sizes(focus.prepared)
    if focus is None or not sizes:
        return None
    here = focus.prepared.jobs[0].gpus
    items = [_interruptions(here, sizes, simulated_mtti(material))]
    shares = simulated_shares(material)
    if any(size.ettr is not None for size in sizes) or shares:
        items.append(_shares(here, sizes, shares))
    measured = [
        _measured("mtti", "Time between interruptions", time_text),
        _measured("ettr", "Productive time", _percent),
    ]
    return Section("scale", items[-1].title, (_WORDS, *_of_spares(focus)), (*items, *measured), _notes(focus, sizes))


def _of_spares(focus: Focus) -> tuple[str, ...]:
    """Return how many spares the curves take for granted, where the formula knows of waits for nodes."""
    away = waiting(focus.prepared)
    if away is None:
        return ()
    text = "At every size, and however fast failures grow, the pool of spares is taken to be large enough that the job "
    if away < _LEAST:
        return (f"{text}hardly ever waits for nodes: for less than 0.1 % of the time.",)
    return (f"{text}waits for nodes as rarely as here by the formula: {_percent(away)} of the time.",)


def _interruptions(here: int, sizes: Sequence[AtSize], simulated: Sequence[Simulated]) -> Picture:
    """Return the picture of the time between interruptions."""
    now, last = next(size for size in sizes if size.gpus == here), sizes[-1]
    title = (
        f"By the formula a job of {here:,} GPUs is interrupted every {time_text(now.mtti)} of running, one of "
        f"{last.gpus:,} GPUs every {time_text(last.mtti)}"
    )
    rows: list[Row] = [(size.gpus, size.mtti, size.mtti_faster) for size in sizes]
    chart = Curves(
        title,
        Scale("GPUs of the job", is_log=True),
        Scale("hours of running between interruptions", is_log=True),
        _series(rows, simulated, HOUR),
        edges=((float(here), "this job"),),
        dots=_dots(measured_points("mtti"), HOUR),
        shaded_from=(float(largest_measured("mtti")), _EXTRAPOLATED),
    )
    known = "; ".join(f"{point.name} {time_text(point.value)}" for point in measured_points("mtti"))
    return Picture(
        "interruptions-by-size",
        chart,
        "Running time between interruptions falls as the job grows, from "
        f"{time_text(sizes[0].mtti)} at {sizes[0].gpus:,} GPUs to {time_text(last.mtti)} at {last.gpus:,}. "
        f"Measured: {known}.",
        "Running time is that in which the job steps or saves; published times may count its stops as well. Both axes "
        "are logarithmic: equal distances are equal ratios.",
        _grid("Running time between interruptions by size of the job", rows, simulated, time_text),
    )


def _shares(here: int, sizes: Sequence[AtSize], simulated: Sequence[Simulated]) -> Picture:
    """Return the picture of the share of productive time."""
    rows: list[Row] = [(size.gpus, size.ettr, size.ettr_faster) for size in sizes if size.ettr is not None]
    title = _told(here, rows, simulated)
    chart = Curves(
        title,
        Scale("GPUs of the job", is_log=True),
        Scale("ETTR, % of requested GPU-time"),
        _series(rows, simulated, 0.01, _LEAST),
        edges=((float(here), "this job"),),
        dots=_dots(measured_points("ettr"), 0.01),
        shaded_from=(float(largest_measured("ettr")), _EXTRAPOLATED),
    )
    return Picture(
        "goodput-by-size",
        chart,
        f"Share of productive time (ETTR) against the size of the job. {title}.",
        "With the same policies at every size. ETTR is the share of the requested GPU-time that becomes progress.",
        _grid("ETTR by size of the job", rows, simulated, _percent),
    )


def _told(here: int, rows: Sequence[Row], simulated: Sequence[Simulated]) -> str:
    """Return what the picture of goodput says: of the sizes that were simulated, or else of the formula."""
    if len(simulated) > 1:
        first, last = simulated[0], simulated[-1]
        return (
            f"With the same policies simulated ETTR goes from {_SHARE.plain(first.mean, first.ci95)} at "
            f"{first.gpus:,} GPUs to {_SHARE.plain(last.mean, last.ci95)} at {last.gpus:,}"
        )
    if not rows:
        only = simulated[0]
        return f"{only.gpus:,} GPUs have an ETTR of {_SHARE.plain(only.mean, only.ci95)}; no formula says more of it"
    (now,) = (row for row in rows if row[0] == here)
    size, share, _ = rows[-1]
    assert now[1] is not None
    assert share is not None
    known = f" (simulated here: {_SHARE.plain(simulated[0].mean, simulated[0].ci95)})" if simulated else ""
    goes = "falls" if share < now[1] else "rises"
    return (
        f"By the formula ETTR {goes} from {_percent(now[1])} at {here:,} GPUs to {_percent(share)} at {size:,}{known}"
    )


def _series(rows: Sequence[Row], simulated: Sequence[Simulated], size: float, least: float = 0.0) -> tuple[Series, ...]:
    """Return the curves of a picture, in units of a size; where they are lower than `least`, they end."""
    rows = [(gpus, _from(usual, least), _from(faster, least)) for gpus, usual, faster in rows]
    found = []
    if rows:
        x = tuple(float(row[0]) for row in rows)
        found.append(Series("formula", x, tuple(_in(row[1], size) for row in rows), look="dashed", hue=0))
    faster = [row for row in rows if row[2] is not None]
    if faster:
        # It begins where failures begin to grow faster: at the last size before.
        start = rows[max(rows.index(faster[0]) - 1, 0)]
        path = [(start[0], start[1]), *((row[0], row[2]) for row in faster)]
        x, y = tuple(float(gpus) for gpus, _ in path), tuple(_in(value, size) for _, value in path)
        found.append(Series("failures grow faster than the job", x, y, look="dashed", hue=-1))
    if simulated:
        means = tuple(one.mean / size for one in simulated)
        ends = tuple(None if one.ci95 is None else (one.ci95[0] / size, one.ci95[1] / size) for one in simulated)
        found.append(Series("simulated", tuple(float(one.gpus) for one in simulated), means, ends, hue=1))
    return tuple(found)


def _from(value: float | None, least: float) -> float | None:
    return None if value is None or value < least else value


def _in(value: float | None, size: float) -> float | None:
    return None if value is None else value / size


def _dots(points: Sequence[MeasuredPoint], size: float) -> tuple[Dot, ...]:
    """Return measured points in units of a size; what is no plain measurement says so in its name."""
    return tuple(
        Dot(
            point.name + (" (more than)" if point.is_bound else " (perhaps projected)" if point.doubt else ""),
            float(point.gpus),
            point.value / size,
            f"{point.source} ({point.remarks})",
        )
        for point in points
    )


def _grid(title: str, rows: Sequence[Row], simulated: Sequence[Simulated], text: Callable[[float], str]) -> Grid:
    """Return the numbers of a picture as a table."""
    by_size = {row[0]: row for row in rows}
    played = {one.gpus: one for one in simulated}
    has_faster = any(row[2] is not None for row in rows)
    lines = []
    for gpus in sorted({*by_size, *played}):
        row, one = by_size.get(gpus, (gpus, None, None)), played.get(gpus)
        line = [f"{gpus:,}", "no formula" if row[1] is None else text(row[1])]
        if has_faster:
            line.append("as counted" if row[2] is None else text(row[2]))
        lines.append([*line, "not simulated" if one is None else _with_range(one, text)])
    heads = ["GPUs", "formula", *(["failures grow faster"] if has_faster else []), "simulated, 95 % interval"]
    return Grid(title, tuple(Column(head) for head in heads), tuple(map(tuple, lines)))


def _with_range(one: Simulated, text: Callable[[float], str]) -> str:
    """Return a simulated mean with its interval."""
    if one.ci95 is None or one.ci95[0] == one.ci95[1]:
        return f"{text(one.mean)}, the same in all runs"
    return f"{text(one.mean)} [{text(one.ci95[0])}, {text(one.ci95[1])}]"


def _measured(quantity: str, title: str, text: Callable[[float], str]) -> Grid:
    """Return the published points as a table."""
    rows = [
        (point.name, f"{point.gpus:,}", _value(point, text), point.remarks, point.source)
        for point in measured_points(quantity)
    ]
    heads = (Column("job", False), Column("GPUs"), Column("value"), Column("how it is known", False))
    return Grid(f"{title}, as published", (*heads, Column("source", False)), tuple(rows))


def _value(point: MeasuredPoint, text: Callable[[float], str]) -> str:
    """Return a published value as its source leaves it."""
    if point.range is not None:
        return f"{text(point.range[0])} to {text(point.range[1])}"
    return f"more than {text(point.value)}" if point.is_bound else text(point.value)


def _percent(value: float) -> str:
    return f"below {100 * _LEAST:g} %" if value < _LEAST else f"{100 * value:.3g} %"


def _notes(focus: Focus, sizes: Sequence[AtSize]) -> tuple[str, ...]:
    """Return what to know of the curves."""
    jobs = focus.prepared.jobs
    notes = [f"The curves are those of {focus.name}."]
    if focus.known is None and len(jobs) == 1:
        notes.append(
            f"The simulated running time between interruptions is of {focus.replications} replications, played again."
        )
    if len(jobs) > 1:
        notes.append(f"Of several jobs the size is that of {jobs[0].name}; all of them grow together.")
    power = max(size.exponent for size in sizes)
    if power:
        notes.append(
            f"Failures that grow faster than the job: with the power {power:g} of its GPUs beyond the largest job on "
            "which they were counted. The power follows from one site (arXiv 2602.00277, from secondary readings)."
        )
    return tuple(notes)
