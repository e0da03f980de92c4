"""From one scenario to another, bucket by bucket: what changed, and what that was worth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, form_of
from analysis.cells import number_of
from analysis.metrics import ratios
from analysis.paired import Difference
from analysis.plots.charts import Change, Waterfall
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import GLOSSES
from analysis.report.sections.amounts import hours_of
from analysis.report.sections.bridge_steps import bridge_of
from analysis.report.sections.pairs import in_common, names_of, shortly
from sim import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from analysis.report.sections.bridge_steps import Bridge, Step

__all__ = ["section", "title_of"]

_SMALLEST = 1e-9
"""Relative change that is rounding [-]."""

_LESS_OF = {
    "degraded": "slow training",
    "starved": "waiting for nodes",
    "queued": "queueing",
    "reschedule": "rescheduling",
    "initialize": "initialising",
    "restore": "restoring",
}
"""What a bucket is more or less of, where its name does not say it."""

_SHARE = form_of("ettr", [])
_HOURS_OF_A_YEAR = units.DURATION.units["year"] / units.DURATION.units["h"]


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    after, before = material.focus, material.against
    if before is None or after is None:
        return None
    count = min(before.replications, after.replications)
    found = bridge_of(before.ensemble.results[:count], after.ensemble.results[:count])
    if found is None:
        return None
    names = names_of(material, before, after)
    hours = _hours_a_year(before, after)
    whole = _documented(material, before.name, after.name)
    speeds = _speeds(before, after, count)
    title = title_of(found, (shortly(material, names[0]), names[1]), _place(material), whole, speeds)
    if not found.steps:
        alike = f"ETTR is {_SHARE.plain(found.after)} with both, and every bucket has the same share."
        return Section("bridge", title, (alike,), (), tuple(_notes(material, before, after, count)))
    text = [_lead(found, names, hours, count)]
    if whole is not None and count < before.wanted:
        text.append(
            f"Over all {before.wanted:,} replications it is {_SHARE.change(whole.mean, _ends(whole))}, which is what "
            "decides."
        )
    if hours is None:
        text.append(
            "The jobs of the two are not of the same size, so the change is told in points and not in GPU-hours."
        )
    if speeds is not None:
        text.append(
            "This is about time alone. While they train, the two do not use their GPUs equally well: "
            f"{_SHARE.plain(speeds[0])} of the peak with {names[0]}, {_SHARE.plain(speeds[1])} with {names[1]}."
        )
    changes = tuple(Change(step.name, 100 * step.gain, _points(step.found)) for step in found.drawn)
    chart = Waterfall(title, "%", (names[0], 100 * found.before), changes, (names[1], 100 * found.after))
    table = _table(found, names, hours)
    told = "; ".join(f"{step.name} {_SHARE.change(step.gain)}" for step in found.steps[:6])
    alt = f"From {_SHARE.plain(found.before)} of {names[0]} to {_SHARE.plain(found.after)} of {names[1]}: {told}."
    caption = (
        "ETTR is the share of the requested GPU-time that became training. A loss that falls is a gain, in points."
    )
    picture = Picture("bridge", chart, alt, caption, table)
    return Section("bridge", title, tuple(text), (picture,), tuple(_notes(material, before, after, count)))


def _hours_a_year(before: Focus, after: Focus) -> float | None:
    """Return the GPU-hours that the jobs request in a year; ``None`` if those of the two are not of one size."""
    sizes = [sorted(job.gpus for job in focus.prepared.jobs) for focus in (before, after)]
    return sum(sizes[0]) * _HOURS_OF_A_YEAR if sizes[0] == sizes[1] else None


def _documented(material: Material, before: str, after: str) -> Difference | None:
    """Return the difference in ETTR over all replications that a comparison has; ``None`` where none is known."""
    if material.kind != "compare":
        return None
    first, variants = material.main["first"], material.main["variants"]
    found = variants[after if before == first else before]["difference"].get("ettr")
    if found is None or first not in (before, after):
        return None
    mean, (low, high) = found["mean"], found["ci95"]
    if after == first:
        mean, low, high = -mean, -high, -low
    return Difference(mean, (low, high), found["resolved"], found["replications_to_resolve"])


def _place(material: Material) -> str:
    """Return what both have in common of what was chosen, as it stands in a title; empty without any."""
    content = material.sweep
    same = in_common(content) if content is not None and material.kind == "sweep" else ""
    return f" (both: {same})" if same else ""


def _speeds(before: Focus, after: Focus, count: int) -> tuple[float, float] | None:
    """Return the program goodput of both, if the healthy speeds differ: then ETTR is not the whole change."""
    means = []
    for focus in (before, after):
        rows: list[Any] = [ratios(focus.prepared, result) for result in focus.ensemble.results[:count]]
        if not all("program_goodput" in row for row in rows):
            return None
        base = sum(row["program_goodput"].base for row in rows)
        means.append(sum(row["program_goodput"].amount for row in rows) / base if base else 0.0)
    first, second = means
    return (first, second) if min(means) > 0 and abs(first - second) > _SMALLEST * first else None


def title_of(
    found: Bridge,
    names: tuple[str, str],
    place: str,
    documented: Difference | None,
    speeds: tuple[float, float] | None,
) -> str:
    """Return what the bridge says; what all replications tell has the last word on whether there is a difference."""
    before, after = names
    if not found.steps:
        return f"Time is spent alike with {after} and with {before}"
    whole = documented or found.whole
    gain = found.after - found.before if documented is None else documented.mean
    if speeds is not None and _is_mostly_speed(found, speeds):
        return (
            f"Time is not what {after} and {before} differ in most{place}: ETTR is {_SHARE.plain(found.after)} and "
            f"{_SHARE.plain(found.before)}, but training uses {_SHARE.plain(speeds[1])} and "
            f"{_SHARE.plain(speeds[0])} of the peak"
        )
    ends = None if whole is None else _ends(whole)
    if whole is not None and not whole.resolved:
        told = _SHARE.change(gain, ends)
        return f"ETTR with {after} and with {before} cannot be told apart{place}: {told} of ETTR"
    way = "higher" if gain >= 0 else "lower"
    told = f"With {after} instead of {before}, ETTR is {_SHARE.distance(gain, ends)} {way}{place}"
    return f"{told}, {_mainly(found.steps, gain)}"


def _is_mostly_speed(found: Bridge, speeds: tuple[float, float]) -> bool:
    """Return whether the healthy speed changes by a larger factor than the time that is spent training."""
    if min(found.before, found.after) <= 0:
        return False
    return abs(math.log(speeds[1] / speeds[0])) > abs(math.log(found.after / found.before))


def _mainly(steps: Sequence[Step], gain: float) -> str:
    """Return what makes most of a change: mostly is more than half of all steps in its direction."""
    sign = 1.0 if gain >= 0 else -1.0
    main = max(steps, key=lambda step: sign * step.gain)
    total = sum(max(sign * step.gain, 0.0) for step in steps)
    how_much = "mostly by" if 2 * sign * main.gain > total else "the largest part by"
    return f"{how_much} {'less' if main.gain >= 0 else 'more'} {_LESS_OF.get(main.bucket, main.name)}"


def _lead(found: Bridge, names: tuple[str, str], hours: float | None, count: int) -> str:
    """Return the change in a sentence, in points and in GPU-hours a year."""
    gain, whole = found.after - found.before, found.whole
    ends = None if whole is None else _ends(whole)
    told = f"{_SHARE.change(gain, ends)} of ETTR"
    text = (
        f"ETTR goes from {_SHARE.plain(found.before)} with {names[0]} to {_SHARE.plain(found.after)} with {names[1]}: "
        f"{told}"
    )
    if hours is not None:
        ends = None if ends is None else (ends[0] * hours, ends[1] * hours)
        text += f", which is {hours_of(gain * hours, ends)} of training in a year of requested GPU-time"
    sure = (
        ""
        if whole is None or whole.resolved or not found.steps
        else f"; with {count} replications this is not resolved"
    )
    return f"{text}{sure}."


def _table(found: Bridge, names: tuple[str, str], hours: float | None) -> Grid:
    """Return the bridge in numbers."""
    rows = []
    for step in found.steps:
        ends = None if step.found is None else _ends(step.found)
        row = [capital(step.name), _SHARE.plain(step.before), _SHARE.plain(step.after)]
        row += [_SHARE.change(step.gain, ends)]
        if hours is not None:
            row.append(hours_of(step.gain * hours, None if ends is None else (ends[0] * hours, ends[1] * hours)))
        rows.append([*row, GLOSSES.get(step.bucket, "")])
    whole = None if found.whole is None else _ends(found.whole)
    gain = found.after - found.before
    total = ["ETTR", _SHARE.plain(found.before), _SHARE.plain(found.after), _SHARE.change(gain, whole)]
    if hours is not None:
        total.append(hours_of(gain * hours, None if whole is None else (whole[0] * hours, whole[1] * hours)))
    rows.append([*total, "the share of the requested GPU-time that became training"])
    columns = [Column("Bucket", is_number=False), Column(names[0]), Column(names[1]), Column("Gain, 95 % interval")]
    columns += [Column("Gain in a year")] if hours is not None else []
    columns.append(Column("What it is", is_number=False))
    note = "Shares of the requested GPU-time. The gains of all buckets add up to that of ETTR."
    return Grid(f"From {names[0]} to {names[1]}", columns, rows, note=note)


def _notes(material: Material, before: Focus, after: Focus, count: int) -> list[str]:
    """Return what to know of the numbers."""
    notes = [
        f"Both were played again, {number_of(count, 'replication')} of each with the same failures; intervals are 95 % "
        "of the paired differences."
    ]
    if max(before.wanted, after.wanted) > count:
        notes.append(
            f"The results have {max(before.wanted, after.wanted):,} replications: their means may differ a little."
        )
    content = material.sweep
    if content is not None and material.kind == "sweep" and (same := in_common(content)):
        notes.append(f"Both have {same}.")
    if content is not None and any(axis["unknown"] for axis in content["axes"].values()):
        notes.append("Unknown inputs are at their central values.")
    return notes


def _ends(found: Difference) -> tuple[float, float] | None:
    """Return an interval within what is possible; ``None`` without width: all replications differ by as much."""
    low, high = found.ci95
    return (max(low, -1.0), min(high, 1.0)) if low < high else None


def _points(found: Difference | None) -> tuple[float, float] | None:
    """Return an interval in points."""
    ends = None if found is None else _ends(found)
    return None if ends is None else (100 * ends[0], 100 * ends[1])
