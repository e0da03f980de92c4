"""What an optimisation looked for, for its first screen, and the picture of what it tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.answers.words import capital, listed
from analysis.plots.charts import Curves, Interval, Intervals, Scale, Series
from analysis.report.model import Column, Grid, Picture
from analysis.report.openings.glossary import metric_words
from analysis.report.openings.numbers import COUNT, people_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.answers.words import Form
    from analysis.report.openings.numbers import Estimate, Places

__all__ = ["Sought", "picture_of_tried", "sought_of"]

_MOST_ROWS = 12
_MANY = 3
"""So many settings that may be as good are counted, not named."""


class Sought(NamedTuple):
    """The document, of each metric that is an aim how it is told, and whether the scenario has the answer already."""

    places: Places
    forms: dict[str, Form]
    is_now: bool

    @property
    def aim(self) -> dict[str, Any]:
        """The first aim."""
        found: dict[str, Any] = self.places.get("aims", 0)
        return found

    @property
    def name(self) -> str:
        """Name of the first aim."""
        return str(self.aim["name"])

    def words(self, name: str) -> str:
        """Return what an aim is called, an axis by its title; without an article."""
        axis = self.places.get("axes", name, "title")
        return str(axis) if axis is not None else metric_words(name).removeprefix("the ")

    def value(self, name: str, *trial: str | int) -> Estimate | None:
        """Return what a combination comes to in an aim."""
        return self.places.estimate(*trial, "aims", name, interval="ci95")

    @property
    def as_good(self) -> list[dict[str, str]]:
        """Combinations beside the answer that are as good at this precision, in the order of the document."""
        answer, found = self.places.get("answer"), self.places.get("as_good")
        return [values for values in found["values"] if values != answer["values"]] if found is not None else []

    def setting(self, values: Mapping[str, str]) -> str:
        """Return a combination in words."""
        return listed([f"{self.places.get('axes', axis, 'title')} = {label}" for axis, label in values.items()])


def sought_of(places: Places, currency: str, *, is_now: bool) -> Sought:
    """Return what a document of an optimisation is about."""
    forms = {}
    for aim in places.get("aims"):
        means = [trial["aims"][aim["name"]]["mean"] for trial in places.get("tried") if not trial["trouble"]]
        known = [mean for mean in means if mean is not None]
        forms[aim["name"]] = COUNT if aim["is_axis"] else people_form(aim["name"], known, currency)
    return Sought(places, forms, is_now)


def picture_of_tried(sought: Sought) -> Picture | None:
    """Return what was tried: a curve along one axis of numbers, else the best of it below each other."""
    if sought.aim["is_axis"]:
        return None
    places, form = sought.places, sought.forms[sought.name]
    found = [(place, value) for place, trial in enumerate(places.get("tried"))
             if not trial["trouble"] and (value := sought.value(sought.name, "tried", place)) is not None]  # fmt: skip
    if not found:
        return None
    trials = places.get("tried")
    title = _title(sought)
    cells = [(sought.setting(trials[place]["values"]), form.value(value.mean.value, value.interval))
             for place, value in found]  # fmt: skip
    heads = (Column("setting", is_number=False), Column(sought.words(sought.name)))
    axes = list(places.get("axes"))
    numbers = [trials[place]["numbers"].get(axes[0]) for place, _ in found]
    chart: Curves | Intervals
    if len(axes) == 1 and len(found) > 1 and all(amount is not None for amount in numbers):
        chart = _curve(sought, title, found)
    else:
        sign = 1 if sought.aim["lowest"] else -1
        best = sorted(found, key=lambda entry: sign * entry[1].mean.value)[:_MOST_ROWS]
        rows = [Interval(sought.setting(trials[place]["values"]), value.mean.value / form.size, _ends(value, form.size))
                for place, value in best]  # fmt: skip
        chart = Intervals(title, form.unit, tuple(rows))
    alt = f"What was tried, with the range of each. {title}."
    return Picture("at-a-glance", chart, alt, "Ranges are 95 % intervals of means.", Grid(title, heads, cells))


def _curve(sought: Sought, title: str, found: Sequence[tuple[int, Estimate]]) -> Curves:
    """Return the aim along the one axis."""
    places, form = sought.places, sought.forms[sought.name]
    (axis,) = places.get("axes")
    trials = places.get("tried")
    order = sorted(found, key=lambda entry: float(trials[entry[0]]["numbers"][axis]))
    x = tuple(float(trials[place]["numbers"][axis]) for place, _ in order)
    ticks = tuple((at, str(trials[place]["values"][axis])) for at, (place, _) in zip(x, order, strict=True))
    y = tuple(value.mean.value / form.size for _, value in order)
    ends = tuple(_ends(value, form.size) for _, value in order)
    is_log = x[0] > 0 and x[-1] / x[0] >= 10
    name = sought.words(sought.name)
    return Curves(title, Scale(str(places.get("axes", axis, "title")), is_log=is_log, ticks=ticks),
                  Scale(f"{name} [{form.unit}]"), (Series("", x, y, ends),))  # fmt: skip


def _ends(value: Estimate, size: float) -> tuple[float, float] | None:
    return None if value.interval is None else (value.interval[0] / size, value.interval[1] / size)


def _title(sought: Sought) -> str:
    """Return what the picture says."""
    answer = sought.places.get("answer")
    if answer is None:
        return "No setting meets the conditions"
    others = [sought.setting(values) for values in sought.as_good]
    best = sought.setting(answer["values"])
    if others:
        rivals = listed(others) if len(others) < _MANY else f"{len(others)} others"
        return capital(f"{best} has the best mean; {rivals} may be as good")
    return f"{capital(best)} is the best that was tried"
