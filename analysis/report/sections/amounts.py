"""Metrics in the units that readers see, as numbers for pictures and as texts for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import capital, form_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from analysis.answers.words import Form

__all__ = ["Shown", "band_text", "cell_mean", "ends_of", "has_bands", "hours_of", "shown", "shown_of_cells", "verb"]

_WORDS = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "M": "million",
    "G": "billion",
    "T": "trillion",
}

_PLURAL = ("interruptions", "disruptions", "tokens", "steps", "planned", "unplanned")
"""First words of the names of metrics that stand in the plural."""


class Shown(NamedTuple):
    """How a metric is shown.

    Parameters
    ----------
    metric, name
        Its key, and what it is called in a sentence.
    form
        How its values are told.
    """

    metric: str
    name: str
    form: Form

    @property
    def unit(self) -> str:
        """What one of its numbers is in; never empty."""
        return self.form.unit or self.name

    @property
    def step(self) -> str:
        """What a difference of two of them is in: points of shares."""
        return self.form.step or self.unit

    @property
    def head(self) -> str:
        """Its name with its unit, for an axis or the head of a column."""
        name = capital(self.name)
        return f"{name} [{self.form.unit}]" if self.form.unit else name

    def of(self, value: float | None) -> float | None:
        """Return a value [SI] in the unit that is shown."""
        return None if value is None else value / self.form.size

    def ends(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the ends of an interval [SI] in the unit that is shown."""
        found = ends_of(interval)
        return None if found is None else (found[0] / self.form.size, found[1] / self.form.size)

    def told(self, found: Mapping[str, Any], interval: str = "mean_ci95") -> str:
        """Return a mean with its interval, such as ``93.1 % [92.8, 93.4]``; empty without a mean."""
        return "" if found.get("mean") is None else self.form.value(found["mean"], ends_of(found.get(interval)))

    def mean(self, found: Mapping[str, Any], interval: str = "mean_ci95") -> str:
        """Return a mean with the digits that its interval deserves; empty without a mean."""
        return "" if found.get("mean") is None else self.form.plain(found["mean"], ends_of(found.get(interval)))

    def gap(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the interval of a difference [SI]: two shares are never more than 100 points apart."""
        ends = ends_of(interval)
        if ends is None or self.form.step != "points":
            return ends
        return max(ends[0], -1.0), min(ends[1], 1.0)

    def gaps(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the same in the unit that is shown."""
        return self.ends(self.gap(interval))

    def change(self, found: Mapping[str, Any]) -> str:
        """Return a difference with its sign and interval, such as ``+1.2 points [0.4, 2.0]``."""
        return self.form.change(found["mean"], self.gap(found.get("ci95")))

    def distance(self, mean: float, interval: Sequence[float | None] | None) -> str:
        """Return the size of a difference with its interval, such as ``1.2 points [0.4, 2.0]``."""
        return self.form.distance(mean, self.gap(interval))

    def range(self, interval: Sequence[float | None] | None) -> str:
        """Return an interval, such as ``92.8 to 93.4 %``; empty without one."""
        ends = ends_of(interval)
        if ends is None:
            return ""
        return f"{self.form.plain(ends[0], ends, unit='')} to {self.form.plain(ends[1], ends)}"


def ends_of(interval: Sequence[float | None] | None) -> tuple[float, float] | None:
    """Return the ends of an interval; ``None`` without both, or where it has no width.

    Runs that were all equal say nothing about others.
    """
    if interval is None or interval[0] is None or interval[1] is None:
        return None
    low, high = interval[0], interval[1]
    return None if high - low <= 1e-9 * max(abs(low), abs(high)) else (low, high)


def shown(metric: str, values: Iterable[float | None], currency: str | None = None) -> Shown:
    """Return how a metric is shown, given some of its values [SI]."""
    form = form_of(metric, [value for value in values if value is not None], currency or "")
    first, _, rest = form.unit.partition(" ")
    unit = " ".join(part for part in (_WORDS.get(first, first), rest) if part)
    return Shown(metric, name_of(metric), form._replace(unit=unit))


def shown_of_cells(cells: Iterable[Mapping[str, Any]], metric: str, currency: str | None = None) -> Shown:
    """Return how a metric of cells of a study, or of variants of a comparison, is shown."""
    return shown(metric, [cell["metrics"].get(metric, {}).get("mean") for cell in cells], currency)


def cell_mean(cell: Mapping[str, Any], metric: Shown) -> str:
    """Return the mean of a cell with the digits that its interval deserves; empty without one."""
    return metric.mean(cell["metrics"][metric.metric])


def has_bands(cells: Iterable[Mapping[str, Any]], metric: str) -> bool:
    """Return whether any cell has a band of what the unknown inputs may be."""
    return any(cell["metrics"].get(metric, {}).get("band90") for cell in cells)


def band_text(cell: Mapping[str, Any], metric: Shown) -> str:
    """Return the band of what the unknown inputs of a cell may be, or why there is none."""
    band = cell["metrics"].get(metric.metric, {}).get("band90")
    if band is not None and None not in band:
        return metric.range(band) or "does not move"
    return "unfinished in some draws" if metric.metric == "time_to_work" else "not known for all draws"


def verb(name: str, one: str, many: str) -> str:
    """Return the form of a verb that goes with the name of a metric: ETTR *is*, tokens per day *are*."""
    return many if name.split(" ")[0] in _PLURAL else one


def hours_of(amount: float, interval: tuple[float, float] | None = None) -> str:
    """Return GPU-hours with a sign, in digits that people read: ``+1.2 million GPU-hours``."""
    largest = max(abs(amount), *(abs(end) for end in interval or (0.0,)))
    word, size = next(((word, size) for word, size in (("million ", 1e6), ("", 1.0)) if largest >= size or size == 1))
    form = form_of("interruptions", [])._replace(unit=f"{word}GPU-hours", size=size)
    return form.change(amount, interval)
