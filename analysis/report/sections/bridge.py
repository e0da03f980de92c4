"""From one scenario to another, bucket by bucket: what changed, and what that was worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import capital, form_of
from analysis.cells import number_of
from analysis.metrics import ratios, time_shares
from analysis.paired import Difference, difference
from analysis.plots.charts import Change, Waterfall
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import GLOSSES, phase_name
from analysis.report.sections.amounts import hours_of
from analysis.report.sections.pairs import in_common, names_of
from sim import JOB_BUCKETS, Ratio, units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.focus import Focus
    from analysis.report.material import Material
    from sim import Result

__all__ = ["Step", "bridge_of", "section"]

_PREFIX = "time_shares."
_PRODUCTIVE = f"{_PREFIX}productive"
_SMALLEST = 1e-9
"""Change of a share that is rounding [-]."""
_SEEN = 0.01
"""Part of the largest step below which a step is put together with others."""

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


class Step(NamedTuple):
    """What a bucket contributes to the change of ETTR.

    Parameters
    ----------
    bucket
        Its key.
    before, after
        Its share of the requested GPU-time in either scenario [-].
    found
        By how much it is smaller in the second one, which is a gain; ``None`` from a single replication.
    """

    bucket: str
    before: float
    after: float
    found: Difference | None

    @property
    def name(self) -> str:
        """What it is called."""
        return phase_name(self.bucket)

    @property
    def gain(self) -> float:
        """What ETTR gains by it [-]."""
        return self.before - self.after


class _Bridge(NamedTuple):
    """From one ETTR to another.

    Parameters
    ----------
    before, after
        ETTR of either scenario [-].
    steps
        One for each bucket that changes, the largest gain first.
    drawn
        The same, with those that nobody would see put together.
    whole
        The difference of the two ETTR; ``None`` from a single replication.
    """

    before: float
    after: float
    steps: tuple[Step, ...]
    drawn: tuple[Step, ...]
    whole: Difference | None


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
    title = _title(found, names)
    # Names of variants are those that somebody gave them.
    title = title if material.kind == "compare" else capital(title)
    if not found.steps:
        alike = f"ETTR is {_SHARE.plain(found.after)} with both, and every bucket has the same share."
        return Section("bridge", title, (alike,), (), tuple(_notes(material, before, after, count)))
    text = [_lead(found, names, hours, count)]
    if hours is None:
        text.append(
            "The jobs of the two are not of the same size, so the change is told in points and not in GPU-hours."
        )
    text += _program(before, after, names, count)
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


def bridge_of(before: Sequence[Result], after: Sequence[Result]) -> _Bridge | None:
    """Return how the shares of time lead from one scenario to another; ``None`` if a job never asked for anything.

    All buckets but ``productive`` are losses, and both scenarios' shares sum to one, so that what the losses fall by is
    what ETTR gains: ``sum(before - after) = ETTR(after) - ETTR(before)``.

    Parameters
    ----------
    before, after
        The same replications of both, in the same order, so that differences are paired.
    """
    ours, theirs = [time_shares(result) for result in after], [time_shares(result) for result in before]
    names = [f"{_PREFIX}{bucket}" for bucket in JOB_BUCKETS]
    first, second = _means(theirs, names), _means(ours, names)
    if first is None or second is None:
        return None
    steps = [
        Step(
            name.removeprefix(_PREFIX),
            first[name],
            second[name],
            difference([row[name] for row in theirs], [row[name] for row in ours]),
        )
        for name in names
        if name != _PRODUCTIVE and abs(second[name] - first[name]) > _SMALLEST
    ]
    steps.sort(key=lambda step: -step.gain)
    whole = difference([row[_PRODUCTIVE] for row in ours], [row[_PRODUCTIVE] for row in theirs])
    return _Bridge(first[_PRODUCTIVE], second[_PRODUCTIVE], tuple(steps), _drawn(steps, theirs, ours), whole)


def _drawn(
    steps: Sequence[Step], before: Sequence[dict[str, Ratio]], after: Sequence[dict[str, Ratio]]
) -> tuple[Step, ...]:
    """Return the steps of the picture: the small ones, if there are several, as one with an interval of its own."""
    largest = max((abs(step.gain) for step in steps), default=0.0)
    small = [step for step in steps if abs(step.gain) < _SEEN * largest]
    if len(small) < 2:
        return tuple(steps)
    names = [f"{_PREFIX}{step.bucket}" for step in small]
    both = [
        [Ratio(sum(row[name].amount for name in names), row[_PRODUCTIVE].base) for row in rows]
        for rows in (before, after)
    ]
    found = difference(both[0], both[1])
    rest = Step("others", sum(step.before for step in small), sum(step.after for step in small), found)
    return (*(step for step in steps if step not in small), rest)


def _means(rows: Sequence[dict[str, Ratio]], names: Sequence[str]) -> dict[str, float] | None:
    """Return the shares over all replications, each a ratio of sums."""
    base = sum(row[_PRODUCTIVE].base for row in rows)
    return {name: sum(row[name].amount for row in rows) / base for name in names} if base else None


def _hours_a_year(before: Focus, after: Focus) -> float | None:
    """Return the GPU-hours that the jobs request in a year; ``None`` if those of the two are not of one size."""
    sizes = [sorted(job.gpus for job in focus.prepared.jobs) for focus in (before, after)]
    return sum(sizes[0]) * _HOURS_OF_A_YEAR if sizes[0] == sizes[1] else None


def _title(found: _Bridge, names: tuple[str, str]) -> str:
    """Return what the bridge says."""
    whole, gain = found.whole, found.after - found.before
    before, after = names
    if not found.steps:
        return f"{after} and {before} spend their time alike"
    if whole is None or whole.resolved:
        word = "gains" if gain >= 0 else "loses"
        told = f"{after} {word} {_SHARE.distance(gain, None if whole is None else _ends(whole))} over {before}"
        main = max(found.steps, key=lambda step: step.gain if gain >= 0 else -step.gain)
        of = _LESS_OF.get(main.bucket, main.name)
        return f"{told}, mostly by {'less' if main.gain >= 0 else 'more'} {of}"
    told = _SHARE.change(whole.mean, _ends(whole))
    return f"{after} and {before} cannot be told apart in ETTR: {told}"


def _lead(found: _Bridge, names: tuple[str, str], hours: float | None, count: int) -> str:
    """Return the change in a sentence, in points and in GPU-hours a year."""
    gain, whole = found.after - found.before, found.whole
    ends = None if whole is None else _ends(whole)
    told = _SHARE.change(gain, ends)
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


def _program(before: Focus, after: Focus, names: tuple[str, str], count: int) -> list[str]:
    """Return a sentence where the healthy speeds differ too: then ETTR is not the whole change."""
    rows: list[Any] = [
        [ratios(focus.prepared, result) for result in focus.ensemble.results[:count]] for focus in (before, after)
    ]
    if not all("program_goodput" in row for each in rows for row in each):
        return []
    means = []
    for each in rows:
        base = sum(row["program_goodput"].base for row in each)
        means.append(sum(row["program_goodput"].amount for row in each) / base if base else None)
    first, second = means
    if first is None or second is None or abs(first - second) <= _SMALLEST:
        return []
    return [
        "This is about time alone. While they train, the two do not use their GPUs equally well: "
        f"{_SHARE.plain(first)} of the peak with {names[0]}, {_SHARE.plain(second)} with {names[1]}."
    ]


def _table(found: _Bridge, names: tuple[str, str], hours: float | None) -> Grid:
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
