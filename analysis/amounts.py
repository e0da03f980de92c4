"""Numbers of answers in words: units for people, and the digits that an interval deserves."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick.analysis.metrics import METRICS
from ettrick.sim import units
from ettrick.sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.table import Table

    from ettrick.analysis.statistics.estimates import Interval
    from ettrick.sim.units import Dimension

_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))
_TIMES = (("d", DAY, 2.0), ("h", HOUR, 1.0), ("min", MINUTE, 1.0), ("s", 1.0, 0.0))
_FIXED = {"J": ("MWh", 3.6e9), "J per token": ("kWh", 3.6e6), "kg": ("t", 1e3), "kg per token": ("kg", 1.0)}
"""Units that energy and CO2 have whatever their size, so that runs can be laid side by side; of a million tokens."""

_DIGITS = 3
"""Digits of a number without an interval."""

_MOST = 6
"""Digits of any number at most."""


class NumberFormat(NamedTuple):
    """The format of numbers of a kind.

    Parameters
    ----------
    unit
        What stands behind a number; may be empty.
    size
        One unit, in SI.
    least, most
        Ends of what is possible: an interval does not pass them.
    step
        What stands behind a difference, where that is another word.
    """

    unit: str
    size: float = 1.0
    least: float = -math.inf
    most: float = math.inf
    step: str = ""
    is_whole: bool = False

    def plain(self, value: float, interval: Interval | None = None, unit: str | None = None) -> str:
        """Return a number with its unit; an interval only gives the number of digits."""
        text = self._number(value, self._decimals(value, interval))
        return f"{text} {self.unit if unit is None else unit}".rstrip()

    def brief(self, value: float, unit: str | None = None) -> str:
        """Return a number without an interval: whole numbers as they are, others to three digits."""
        amount = value / self.size
        if abs(amount - round(amount)) <= 1e-9 * max(abs(amount), 1.0):
            text = f"{round(amount):,}"
        elif abs(amount) >= 1000:
            text = f"{round(amount, 2 - math.floor(math.log10(abs(amount)))):,.0f}"
        elif self.size == PERCENT.size and abs(amount) >= 0.1:
            text = f"{amount:.{2 if abs(amount) < 10 else 1}f}"
        else:
            return self.plain(value, None, unit)
        return f"{text} {self.unit if unit is None else unit}".rstrip()

    def value(self, value: float, interval: Interval | None = None) -> str:
        """Return a number with its unit and its interval, such as ``96 % (90 to 99)``."""
        return self.plain(value, interval) + self.range(value, interval)

    def margin(self, value: float, interval: Interval | None = None) -> str:
        """Return a number with what may be more or less of it, such as ``96.1 % ± 0.3``.

        An interval that is not the same on both sides has its ends in words.
        """
        if interval is None:
            return self.plain(value)
        decimals = self._decimals(value, interval)
        low, high = (min(max(end, self.least), self.most) for end in interval)
        less, more = (self._number(side, decimals) for side in (value - low, high - value))
        if not more.strip("0."):
            return self.plain(value)
        return f"{self.plain(value, interval)} ± {more}" if less == more else self.value(value, interval)

    def change(self, value: float, interval: Interval | None = None) -> str:
        """Return a difference with its sign, its unit and its interval, such as ``+0.12 (0.04 to 0.20)``."""
        free = self._replace(least=-math.inf, most=math.inf)
        text = free.plain(value, interval, self.step or self.unit)
        sign = "+" if text.strip("0.,")[:1].isdigit() else ""
        return f"{sign}{text}{free.range(value, interval)}"

    def distance(self, value: float, interval: Interval | None = None) -> str:
        """Return the size of a difference, with its interval."""
        if value < 0:
            value, interval = -value, None if interval is None else (-interval[1], -interval[0])
        return self.change(value, interval).removeprefix("+")

    def range(self, value: float, interval: Interval | None) -> str:
        """Return an interval in parentheses, with a blank in front; nothing without one."""
        if interval is None:
            return ""
        decimals = self._decimals(value, interval)
        ends = [self._number(min(max(end, self.least), self.most), decimals) for end in interval]
        return between(*ends)

    def exact(self, value: float) -> str:
        """Return a number that somebody wrote, as it was written."""
        return f"{value / self.size:.12g} {self.unit}".rstrip()

    def _number(self, value: float, decimals: int) -> str:
        text = f"{round(value / self.size, decimals):,.{max(decimals, 0)}f}"
        return text.replace("-", "−") if text.strip("-0.,") else text.removeprefix("-")

    def _decimals(self, value: float, interval: Interval | None) -> int:
        """Return decimals: two digits of the half-width of an interval if they are below 30, one above."""
        if self.is_whole:
            return 0
        half = 0.0 if interval is None else (interval[1] - interval[0]) / 2 / self.size
        size = float(f"{abs(value) / self.size:.6g}")
        # A share is never written to more than a millionth, and of other things six digits are enough.
        most = _MOST - 1 - math.floor(math.log10(max(size, half, 1e-12))) if math.isinf(self.most) else 4
        if not (math.isfinite(half) and half > 1e-9 * size):
            return min(max(_DIGITS - 1 - math.floor(math.log10(size)), 0), most) if size > 1e-12 else 1
        place = math.floor(math.log10(half))
        return min((1 if half < 3 * 10.0**place else 0) - place, most)


def between(low: str, high: str) -> str:
    """Return the ends of an interval in parentheses, as they stand behind a number in every text."""
    return f" ({low} to {high})"


PERCENT = NumberFormat("%", 0.01, 0.0, 1.0, "percentage points")

POINTS = NumberFormat("percentage points", 0.01, -1.0, 1.0)
"""Differences of shares."""

OF_HUNDRED = NumberFormat("", 0.01, 0.0, 1.0)
"""Shares as so many of a hundred."""

COUNT = NumberFormat("")

GPU_YEARS = NumberFormat("GPU-years")
"""A mean number of GPUs, as the GPU-years that they make in a year."""

_LARGE_WORDS = (("billion ", 1e9), ("million ", 1e6), ("", 1.0))
_TOKEN_WORDS = (("trillion ", 1e12), *_LARGE_WORDS)


def name_of(metric: str) -> str:
    """Return what a metric is called in a sentence."""
    return METRICS[metric].label if metric in METRICS else metric.replace("_", " ")


def capital(text: str) -> str:
    """Return a text as it begins a sentence; a key or a setting at its beginning stays as it is written."""
    return text if re.match(r"\w+[._=]\w", text) else text[:1].upper() + text[1:]


def listed(words: Sequence[str]) -> str:
    """Return words as a list of a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


_LINE = 68  # letters behind a label on a terminal


def first_clauses(texts: Sequence[str], room: int) -> str:
    """Return how many texts there are and their first clauses, as many of them as some lines hold."""
    for end in (r"[:;] ", r"[:;] |, "):
        names = [re.split(end, text)[0] for text in texts]
        shown = len(names)
        while shown and len("; ".join(names[:shown])) > room * _LINE - 12:
            shown -= 1
        if shown == len(names):
            break
    if names and not shown:  # the first is named in any case
        names[0], shown = textwrap.shorten(names[0], room * _LINE - 22, placeholder=" …"), 1
    more = [f"{len(names) - shown} more"] if shown < len(names) else []
    return f"{len(names)}: {'; '.join([*names[:shown], *more])}"


def unit_of(metric: str) -> str:
    """Return what a metric is in; what is none is counted."""
    return METRICS[metric].unit if metric in METRICS else "count"


def dimension_of(metric: str) -> Dimension | None:
    """Return what an amount of a metric is written in; ``None`` for a plain number."""
    unit = unit_of(metric)
    return {"share": units.FRACTION, "s": units.DURATION, "J": units.ENERGY}.get(unit)


def form_of(metric: str, values: Iterable[float | None], currency: str = "") -> NumberFormat:
    """Return how a metric is written, given some of its values [SI]."""
    unit = unit_of(metric)
    if unit == "share":
        return PERCENT
    size = 1e-6 if unit.endswith("per token") else 1.0
    largest = max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0) / size
    if unit in _FIXED:
        name, amount = _FIXED[unit]
        return NumberFormat(name, amount * size, 0.0)
    if unit.startswith("s"):
        return duration_form(largest)._replace(least=0.0)
    prefix, factor = next(((prefix, factor) for prefix, factor in _LARGE if largest >= factor), ("", 1.0))
    money = currency if unit.startswith("currency") else ""
    return NumberFormat(f"{prefix} {money}".strip(), factor * size, 0.0)


def duration_form(largest: float) -> NumberFormat:
    """Return how times up to some size are written."""
    return NumberFormat(*next((unit, size) for unit, size, least in _TIMES if largest >= least * size or unit == "s"))


def people_form(metric: str, values: Iterable[float | None], currency: str = "") -> NumberFormat:
    """Return how a metric is written for people, given some of its values [SI]; its unit also says of what."""
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value)]
    form, largest = form_of(metric, sizes, currency), max(sizes, default=0.0)
    unit = unit_of(metric)
    if unit == "s":
        return time_form(largest)
    if unit == "currency":
        return money_form(largest, currency)
    if unit == "currency per token":
        return NumberFormat(f"{currency} for a million tokens", 1e-6, 0.0)
    if unit in ("J per token", "kg per token"):
        return form._replace(unit=f"{form.unit} for a million tokens")
    if unit in ("1/d", "1/s"):
        return _scaled(METRICS[metric].counted, largest, 1.0, _TOKEN_WORDS)
    return form if form.size != 1.0 or form.unit else COUNT


def gpu_hours_form(largest: float) -> NumberFormat:
    """Return how GPU-time up to some size [GPU s] is written: in GPU-hours, or millions of them."""
    return _scaled("GPU-hours", largest, HOUR)


def money_form(largest: float, currency: str) -> NumberFormat:
    """Return how amounts of money up to some size are written."""
    return _scaled(currency, largest)


def time_form(largest: float) -> NumberFormat:
    """Return how times up to some size [s] are written: in seconds, minutes, hours or days."""
    form = form_of("mtti", [largest])
    words = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
    return form._replace(unit=words[form.unit])


def points_form(form: NumberFormat) -> NumberFormat:
    """Return how differences are written of what is written in a form: of percent in points, else alike."""
    return POINTS if form.step == "percentage points" else form._replace(least=-math.inf, most=math.inf)


def _scaled(
    unit: str, largest: float, size: float = 1.0, words: tuple[tuple[str, float], ...] = _LARGE_WORDS
) -> NumberFormat:
    word, factor = next(((word, factor) for word, factor in words if largest >= factor * size), words[-1])
    return NumberFormat(f"{word}{unit}", factor * size, 0.0)


_WORDS = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds", "M": "million", "G": "billion", "T": "trillion"}


class MetricFormat(NamedTuple):
    """The format of a metric: its unit, digits and words."""

    metric: str
    name: str
    form: NumberFormat

    @property
    def unit(self) -> str:
        """The unit of a value; never empty."""
        return self.form.unit or self.name

    @property
    def step(self) -> str:
        """The unit of a difference of two values: percentage points for shares."""
        return self.form.step or self.unit

    @property
    def head(self) -> str:
        """The name with the unit, for an axis or the head of a column."""
        name = capital(self.name)
        return f"{name} [{self.form.unit}]" if self.form.unit else name

    def of(self, value: float | None) -> float | None:
        """Return a value [SI] in the unit that is shown."""
        return None if value is None else value / self.form.size

    def ends(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the ends of an interval [SI] in the unit that is shown."""
        ends = ends_of(interval)
        return None if ends is None else (ends[0] / self.form.size, ends[1] / self.form.size)

    def worded(self, estimate: Any) -> str:
        """Return a mean with its interval, such as ``93.1 % (92.8 to 93.4)``; empty without a mean."""
        mean = _part(estimate, "mean")
        return "" if mean is None else self.form.value(mean, ends_of(_part(estimate, "mean_ci95")))

    def mean(self, estimate: Any) -> str:
        """Return a mean with the digits that its interval deserves; empty without a mean."""
        mean = _part(estimate, "mean")
        return "" if mean is None else self.form.plain(mean, ends_of(_part(estimate, "mean_ci95")))

    def gap(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the interval of a difference [SI]: two shares are never more than 100 points apart."""
        ends = ends_of(interval)
        if ends is None or self.form.step != "percentage points":
            return ends
        return max(ends[0], -1.0), min(ends[1], 1.0)

    def gaps(self, interval: Sequence[float | None] | None) -> tuple[float, float] | None:
        """Return the same in the unit that is shown."""
        return self.ends(self.gap(interval))

    def change(self, estimate: Any) -> str:
        """Return a difference with its sign and interval, such as ``+0.12 (0.04 to 0.20)``."""
        return self.form.change(_part(estimate, "mean"), self.gap(_part(estimate, "ci95")))

    def distance(self, mean: float, interval: Sequence[float | None] | None) -> str:
        """Return the size of a difference with its interval, such as ``0.12 (0.04 to 0.20)``."""
        return self.form.distance(mean, self.gap(interval))

    def range(self, interval: Sequence[float | None] | None) -> str:
        """Return an interval, such as ``92.8 to 93.4 %``; empty without one."""
        ends = ends_of(interval)
        if ends is None:
            return ""
        return f"{self.form.plain(ends[0], ends, unit='')} to {self.form.plain(ends[1], ends)}"


def _part(result: Any, name: str) -> Any:
    """Return a part of a result, or of an answer's data; ``None`` without it."""
    return (result or {}).get(name) if result is None or isinstance(result, Mapping) else getattr(result, name, None)


def ends_of(interval: Sequence[float | None] | None) -> tuple[float, float] | None:
    """Return the ends of an interval; ``None`` without both, or where it has no width.

    Runs that were all equal say nothing about others.
    """
    if interval is None or interval[0] is None or interval[1] is None:
        return None
    low, high = interval[0], interval[1]
    return None if high - low <= 1e-9 * max(abs(low), abs(high)) else (low, high)


WIDE = 0.5
"""Width of the interval of a share from which on it says nothing [-]."""


def is_wide(interval: Sequence[float | None] | None) -> bool:
    """Return whether the interval of a share holds so much that the share is not known."""
    ends = ends_of(interval)
    return ends is not None and ends[1] - ends[0] >= WIDE


def shown(metric: str, values: Iterable[float | None], currency: str | None = None) -> MetricFormat:
    """Return how a metric is shown, given some of its values [SI]."""
    form = form_of(metric, values, currency or "")
    first, _, rest = form.unit.partition(" ")
    unit = " ".join(part for part in (_WORDS.get(first, first), rest) if part)
    return MetricFormat(metric, name_of(metric), form._replace(unit=unit))


def verb(metric: str, singular: str, plural: str) -> str:
    """Return the form of a verb that goes with the name of a metric: ETTR *is*, tokens per day *are*."""
    return plural if metric in METRICS and METRICS[metric].is_plural else singular


# GPU-time, money and shares.


def hours(seconds: float) -> str:
    """Return GPU-time [GPU s] in GPU-hours for a table, without the unit."""
    return NumberFormat("", HOUR).plain(seconds) if seconds else "0"


def gpu_hours(seconds: float) -> str:
    """Return GPU-time [GPU s] in GPU-hours for a sentence: to three digits."""
    return gpu_hours_form(abs(seconds)).brief(seconds)


def money(amount: float, currency: str) -> str:
    """Return an amount of money."""
    return form_of("cost", [amount], currency)._replace(least=-math.inf).plain(amount)


def compact(seconds: float) -> str:
    """Return GPU-time [GPU s] in GPU-hours as it fits into a small cell: ``12.3 k``."""
    amount = seconds / HOUR
    for prefix, size in (("M", 1e6), ("k", 1e3)):
        if abs(amount) >= 0.9995 * size:
            return f"{amount / size:.3g} {prefix}" if abs(amount) < 999.5 * size else f"{amount / size:,.0f} {prefix}"
    return _unsigned_zero(f"{amount:.3g}" if abs(amount) >= 1 else f"{amount:.1g}")


def hours_of(amount: float, interval: tuple[float, float] | None = None) -> str:
    """Return a change of GPU-hours, in digits that people read: ``+1.2 million GPU-hours``."""
    form = gpu_hours_form(HOUR * max(abs(amount), *map(abs, interval or (0.0,))))
    return form._replace(size=form.size / HOUR).change(amount, interval)


# Numbers as pictures write them: the digits that distinguish them, and no more.

NOTHING = "no value"
"""The text of a value that the data do not give."""


def decimals_of(values: Iterable[float | None]) -> int:
    """Return the decimals that numbers next to each other are written with: three digits of the largest, one of all.

    Whole numbers have none, and a number that is much smaller than the others gets one more than the largest.
    """
    sizes = [abs(value) for value in values if value is not None and math.isfinite(value) and value]
    if all(size == round(size) for size in sizes):
        return 0
    wanted = 2 - _place(max(sizes))
    least = -_place(min(sizes))
    return min(max(wanted, min(least, wanted + 1), 0), _MOST)


def _place(size: float) -> int:
    return math.floor(math.log10(float(f"{size:.6g}")))


def number_text(value: float | None, decimals: int) -> str:
    """Return a number in words: with separators of thousands, a true minus, and a prefix from a million on."""
    if value is None or not math.isfinite(value):
        return NOTHING
    size = abs(value)
    sign = "−" if value < 0 else ""
    if size >= 1e15:
        mantissa, exponent = f"{size:.2e}".split("e")
        return f"{sign}{mantissa}×10^{int(exponent)}"
    for prefix, unit in _LARGE:
        if size >= unit:
            return f"{sign}{_plain(size / unit)} {prefix}"
    text = f"{size:,.{decimals}f}"
    if size and not text.strip("0.,"):
        text = f"{size:.{-_place(size)}f}" if size >= 10.0**-_MOST else f"{size:.0e}"
    return f"{sign}{text}" if text.strip("0.,") else text


def _plain(size: float) -> str:
    """Return three digits, without zeros at the end."""
    text = f"{size:.{max(2 - _place(size), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def signed_number(value: float, decimals: int) -> str:
    """Return a change in words: it always has its sign, unless it is none."""
    text = number_text(value, decimals)
    return f"+{text}" if value > 0 else text


def with_unit(text: str, unit: str) -> str:
    """Return a number with the percent sign, if it is a share; other units stand once next to the picture."""
    return f"{text} %" if unit.startswith("%") and text != NOTHING else text


# Numbers and tables as text: what the terminal shows in one cell.

_BAR = 16


def empty_table(*columns: str, has_rule: bool = True) -> Table:
    """Return a table with these columns, the first for labels; its heads may have a rule below them."""
    from rich import box
    from rich.table import Table

    padding = (0, 1) if has_rule else (0, 2, 0, 0)
    table = Table(box=box.SIMPLE_HEAD if has_rule else None, padding=padding, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        right = position > 0 and column != "" and column != "mostly because of"
        table.add_column(column, justify="right" if right else "left", no_wrap=position == 0)
    return table


def label_grid(rows: Sequence[Sequence[str]]) -> Table:
    """Return labels with texts in addition to them, one or more of both in a row."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for _ in rows[0][::2]:
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
    for label, *cells in rows:
        grid.add_row(f"  {label}", *cells)
    return grid


def text_or_dash(value: float | None, form: Callable[[float], str]) -> str:
    """Return a number as text; a dash where the data do not support one."""
    return "-" if value is None else form(value)


def range_text(ends: Sequence[float | None] | None, form: Callable[[float], str]) -> str:
    """Return two numbers as text; a dash where the data do not support both."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    low, high = form(ends[0]), form(ends[1])
    if low == high:
        return "-" if ends[0] == ends[1] else "within the last digit"
    number, _, unit = low.partition(" ")
    # A unit that both have is said once.
    return f"{number if unit == high.partition(' ')[2] else low} to {high}"


def interval_text(estimate: Any, form: Callable[[float], str], interval: str = "mean_ci95") -> str:
    """Return the interval of a summary or difference; ``exact`` where the number is, a dash where nothing is known.

    What goes with a modelled step has no sampling error, and is not exact.
    """
    is_exact = _part(estimate, "exact") or _part(estimate, "method") == "exact"
    ends = _part(estimate, interval)
    if ends is not None or not is_exact:
        return range_text(ends, form)
    return "exact" if _part(estimate, "band90") is None else "no sampling error"


def percent_text(value: float, digits: int = 2, sign: str = "") -> str:
    """Return a share in percent."""
    return f"{_unsigned_zero(f'{100 * value:{sign},.{digits}f}')} %"


def nines_text(share: float) -> str:
    """Return a share in percent, with as many digits as two of what it lacks to nothing or to all take."""
    lacks = min(abs(share), abs(1 - share))
    digits = 2 if lacks == 0 else max(2, min(math.ceil(-math.log10(lacks)) - 1, 9))
    return percent_text(share, digits)


def points_text(change: float, sign: str = "+") -> str:
    """Return a difference of shares in percentage points."""
    return f"{_unsigned_zero(f'{100 * change:{sign}.2f}')} pt"


def count_text(value: float) -> str:
    """Return a number of events."""
    return _unsigned_zero(f"{value:,.1f}")


def amount_text(value: float) -> str:
    """Return a large number with its prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}"
    return _unsigned_zero(f"{value:,.0f}")


def gigabits(bandwidth: float) -> str:
    """Return a bandwidth [B/s] in the unit of data sheets."""
    return f"{bandwidth * 8 / 1e9:.4g} Gb/s"


def short_text(value: float) -> str:
    """Return a number to four digits or more."""
    return amount_text(value) if value >= 1000 else f"-{short_text(-value)}" if value < 0 else f"{abs(value):.4g}"


def signed_text(value: float, form: Callable[[float], str] = short_text) -> str:
    """Return a number with its sign."""
    return _unsigned_zero(f"{'-' if value < 0 else '+'}{form(abs(value))}") if value else "0"


def _unsigned_zero(text: str) -> str:
    """Return a number, which may have a unit, without the sign of a zero."""
    return text if text.partition(" ")[0].strip("+-0.,") else text.lstrip("+-")


class CellForms(NamedTuple):
    """The texts of a metric in cells: values, changes, spread."""

    value: Callable[[float], str]
    change: Callable[[float], str]
    spread: Callable[[float], str]


def cell_forms(metric: str, currency: str = "") -> CellForms:
    """Return how a metric, or what is none, is written on the terminal."""
    unit = METRICS[metric].unit if metric in METRICS else ""
    if unit == "share":
        return CellForms(percent_text, points_text, lambda spread: points_text(spread, ""))
    size = 1e-6 if unit.endswith("per token") else 1.0

    def energy(value: float) -> str:
        name, amount = _FIXED[unit]
        return f"{short_text(value / (amount * size))} {name}"

    def money(value: float) -> str:
        return f"{short_text(value / size)} {currency}".rstrip()

    forms = {"": short_text, "count": count_text, "s": time_text, "1/d": short_text, "1/s": short_text}
    form = forms.get(unit) or (money if unit.startswith("currency") else energy)
    return CellForms(form, lambda change: signed_text(change, form), form)


def bar_text(share: float) -> str:
    """Return a bar as long as a share."""
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def number_of(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def time_text(seconds: float) -> str:
    """Return a time as people say it, to three digits."""
    if seconds == float("inf"):
        return "never"
    form = duration_form(seconds)
    return _unsigned_zero(f"{seconds / form.size:.3g} {form.unit}")


# Where a combination is among the axes of a study, in words: ``48 hot spares, median repair 44 h``.

_LONG = re.compile(r"(?<![\w.,-])\d{4,}(?![\w.,])")


def label_text(label: str) -> str:
    """Return the label of a value as it is read: large whole numbers have separators."""
    return _LONG.sub(lambda match: f"{int(match[0]):,}", label)


def phrase(title: str, label: str, noun: str = "") -> str:
    """Return a value of an axis in words: ``48 hot spares``, ``median repair 44 h``, ``recovery “torchft-hsdp”``.

    Parameters
    ----------
    noun
        What its values count; empty where they count nothing.
    """
    if not label[:1].isdigit():
        return f"{title} “{label_text(label)}”"
    return f"{label_text(label)} {noun}" if noun else f"{title} {label_text(label)}"


def phrases(values: Mapping[str, str], names: Iterable[str], axes: Mapping[str, Any]) -> str:
    """Return values of some axes of a study in words."""
    return ", ".join(phrase(axes[name].title, values[name], axes[name].noun) for name in names)


def ranges(numbers: Sequence[int], name: Callable[[int], str] = str) -> str:
    """Return ascending numbers of nodes as a scenario states them, ``0-31,64``, or in digits of their own."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(f"{name(run[0])}-{name(run[-1])}" if len(run) > 1 else name(run[0]))
    return ",".join(parts)
