"""How numbers of the first screen are told: units for people, and as many digits as an interval deserves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from analysis.answers.words import Form, form_of
from analysis.report.openings.traced import Estimate, Places, Traced, total
from analysis.report.words import Number
from sim import units

if TYPE_CHECKING:
    from collections.abc import Iterable

    from analysis.report.words import Words
    from analysis.statistics import Interval

__all__ = [
    "COUNT",
    "GPU_YEARS",
    "OF_HUNDRED",
    "PERCENT",
    "POINTS",
    "Estimate",
    "Places",
    "Traced",
    "gpu_hours_form",
    "money_form",
    "number",
    "people_form",
    "points_form",
    "ranged",
    "time_form",
    "told",
    "total",
]

PERCENT = Form("%", 0.01, 0.0, 1.0, "points")
POINTS = Form("points", 0.01, -1.0, 1.0)
"""Differences of shares."""
OF_HUNDRED = Form("", 0.01, 0.0, 1.0)
"""Shares as so many of a hundred."""
COUNT = Form("")
GPU_YEARS = Form("GPU-years")
"""A mean number of GPUs, as the GPU-years that they make in a year."""

_LARGE = (("billion ", 1e9), ("million ", 1e6), ("", 1.0))
_TOKENS = (("trillion ", 1e12), *_LARGE)
_THOUSAND = 1000.0


def number(found: Traced, form: Form, interval: Interval | None = None, unit: str | None = None) -> Number:
    """Return a number as it is told; an interval [SI] only tells how many digits it has.

    Without one, whole numbers are told to the last digit, others to three; zeros at the end of a number above a
    thousand may be rounded.
    """
    text = form.plain(found.value, interval, unit) if interval is not None else _short(found.value, form, unit)
    return Number(text, found.value, form.size, found.sources, found.formula)


def ranged(low: Traced, high: Traced, form: Form) -> Words:
    """Return an interval as a text, such as ``2.1 to 2.6 points``."""
    ends = (low.value, high.value)
    first, last = number(low, form, ends, ""), number(high, form, ends)
    same = first.text == number(high, form, ends, "").text
    return (last,) if same else (first, " to ", last)


def told(found: Estimate, form: Form) -> Words:
    """Return a mean with its interval, such as ``93.1 % (92.9 to 93.4)``."""
    mean = number(found.mean, form, found.interval)
    if found.low is None or found.high is None:
        return (mean,)
    return (mean, " (", *ranged(found.low, found.high, form._replace(unit="")), ")")


def gpu_hours_form(largest: float) -> Form:
    """Return how GPU-time up to some size [GPU s] is told: in GPU-hours, or millions of them."""
    return _scaled("GPU-hours", largest, units.DURATION.units["h"])


def money_form(largest: float, currency: str) -> Form:
    """Return how amounts of money up to some size are told."""
    return _scaled(currency, largest)


def time_form(largest: float) -> Form:
    """Return how times up to some size [s] are told: in seconds, minutes, hours or days."""
    form = form_of("mtti", [largest])
    words = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
    return form._replace(unit=words[form.unit])


def people_form(metric: str, values: Iterable[float], currency: str = "") -> Form:
    """Return how a metric is told to people, given some of its values [SI]; its unit tells also of what."""
    kept = [abs(value) for value in values if math.isfinite(value)]
    largest = max(kept, default=0.0)
    form = form_of(metric, kept, currency)
    if metric in ("mtti", "mtti_running", "time_to_work"):
        return time_form(largest)
    if metric == "cost":
        return money_form(largest, currency)
    if metric == "cost_per_token":
        return Form(f"{currency} for a million tokens", 1e-6, 0.0)
    if metric == "energy_per_token":
        return form._replace(unit=f"{form.unit} for a million tokens")
    if metric.startswith("tokens_per"):
        name = metric.removeprefix("tokens_per_")
        per = {"day": "a day", "gpu_day": "for each GPU and day", "mw_day": "for each megawatt and day"}[name]
        return _scaled(f"tokens {per}", largest, 1.0, _TOKENS)
    if metric == "steps_per_day":
        return Form("steps a day", 1.0, 0.0)
    return form if form.size != 1.0 or form.unit else COUNT


def points_form(form: Form) -> Form:
    """Return how differences are told of what is told in a form: of percent in points, else alike."""
    return POINTS if form.step == "points" else form._replace(least=-math.inf, most=math.inf)


def _short(value: float, form: Form, unit: str | None) -> str:
    """Return a number of which nobody knows how sure it is."""
    amount = value / form.size
    if abs(amount - round(amount)) <= 1e-9 * max(abs(amount), 1.0):
        text = f"{round(amount):,}"
    elif abs(amount) >= _THOUSAND:
        text = f"{round(amount, 2 - math.floor(math.log10(abs(amount)))):,.0f}"
    elif form.size == PERCENT.size and abs(amount) >= 0.1:
        text = f"{amount:.{2 if abs(amount) < 10 else 1}f}"
    else:
        return form.plain(value, None, unit)
    return f"{text} {form.unit if unit is None else unit}".rstrip()


def _scaled(unit: str, largest: float, size: float = 1.0, words: tuple[tuple[str, float], ...] = _LARGE) -> Form:
    word, factor = next(((word, factor) for word, factor in words if largest >= factor * size), words[-1])
    return Form(f"{word}{unit}", factor * size, 0.0)
