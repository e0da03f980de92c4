"""Numbers of answers in words: units for people, and the digits that an interval deserves."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.metrics import METRICS
from sim import units
from sim.units import DAY, HOUR, MINUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.table import Table

    from analysis.statistics.estimates import Interval
    from sim.units import Dimension

_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))

_TIMES = (("d", DAY, 2.0), ("h", HOUR, 1.0), ("min", MINUTE, 1.0), ("s", 1.0, 0.0))

_ENERGIES = (("GWh", 3.6e12), ("MWh", 3.6e9), ("kWh", 3.6e6), ("J", 1.0))

_DIGITS = 3

"""Digits of a number of which nobody knows how sure it is."""

_MOST = 6

"""Digits of any number at most."""


class Form(NamedTuple):
    """How numbers of one kind are told.

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
    is_whole
        Whether only whole numbers make sense.
    """

    unit: str
    size: float = 1.0
    least: float = -math.inf
    most: float = math.inf
    step: str = ""
    is_whole: bool = False

    def plain(self, value: float, interval: Interval | None = None, unit: str | None = None) -> str:
        """Return a number with its unit; an interval only tells how many digits it has."""
        text = self._number(value, self._decimals(value, interval))
        return f"{text} {self.unit if unit is None else unit}".rstrip()

    def value(self, value: float, interval: Interval | None = None) -> str:
        """Return a number with its unit and its interval, such as ``96 % [90, 99]``."""
        return self.plain(value, interval) + self.range(value, interval)

    def change(self, value: float, interval: Interval | None = None) -> str:
        """Return a difference with its sign, its unit and its interval, such as ``+1.2 points [0.4, 2.0]``."""
        free = self._replace(least=-math.inf, most=math.inf)
        text = free.plain(value, interval, self.step or self.unit)
        sign = "" if text.startswith("-") else "+"
        return f"{sign}{text}{free.range(value, interval)}"

    def distance(self, value: float, interval: Interval | None = None) -> str:
        """Return the size of a difference, with its interval."""
        if value < 0:
            value, interval = -value, None if interval is None else (-interval[1], -interval[0])
        return self.change(value, interval).removeprefix("+")

    def range(self, value: float, interval: Interval | None) -> str:
        """Return an interval in brackets, with a blank in front; nothing without one."""
        if interval is None:
            return ""
        decimals = self._decimals(value, interval)
        ends = [self._number(min(max(end, self.least), self.most), decimals) for end in interval]
        # A comma between numbers that have commas would not be seen.
        return f" [{(' to ' if any(',' in end for end in ends) else ', ').join(ends)}]"

    def exact(self, value: float) -> str:
        """Return a number that somebody wrote, as it was written."""
        return f"{value / self.size:.12g} {self.unit}".rstrip()

    def _number(self, value: float, decimals: int) -> str:
        text = f"{round(value / self.size, decimals):,.{max(decimals, 0)}f}"
        return text.removeprefix("-") if not text.strip("-0.,") else text

    def _decimals(self, value: float, interval: Interval | None) -> int:
        """Return decimals: two digits of the half-width of an interval if they are below 30, one above."""
        if self.is_whole:
            return 0
        half = 0.0 if interval is None else (interval[1] - interval[0]) / 2 / self.size
        size = float(f"{abs(value) / self.size:.6g}")
        # A share is never told to more than a millionth, and of other things six digits are enough.
        most = _MOST - 1 - math.floor(math.log10(max(size, half, 1e-12))) if math.isinf(self.most) else 4
        if not (math.isfinite(half) and half > 1e-9 * size):
            return min(max(_DIGITS - 1 - math.floor(math.log10(size)), 0), most) if size > 1e-12 else 1
        place = math.floor(math.log10(half))
        return min((1 if half < 3 * 10.0**place else 0) - place, most)


PERCENT = Form("%", 0.01, 0.0, 1.0, "points")


def name_of(metric: str) -> str:
    """Return what a metric is called in a sentence."""
    return METRICS[metric].label if metric in METRICS else metric.replace("_", " ")


def capital(text: str) -> str:
    """Return a text as it begins a sentence."""
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str]) -> str:
    """Return words as a list of a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def is_share(metric: str) -> bool:
    """Return whether a metric is a share of something."""
    return metric in METRICS and METRICS[metric].is_share


def dimension_of(metric: str) -> Dimension | None:
    """Return what an amount of a metric is written in; ``None`` for a plain number."""
    unit = METRICS[metric].unit if metric in METRICS else "count"
    return {"share": units.FRACTION, "s": units.DURATION, "J": units.ENERGY}.get(unit)


def form_of(metric: str, values: Iterable[float], currency: str = "") -> Form:
    """Return how a metric is told, given some of its values [SI]."""
    unit = METRICS[metric].unit if metric in METRICS else "count"
    if unit == "share":
        return PERCENT
    size = 1e-6 if unit.endswith("per token") else 1.0
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0) / size
    if unit.startswith(("s", "J")):
        return scaled_form(units.DURATION if unit == "s" else units.ENERGY, largest, size)._replace(least=0.0)
    prefix, factor = next(((prefix, factor) for prefix, factor in _LARGE if largest >= factor), ("", 1.0))
    money = currency if unit.startswith("currency") else ""
    return Form(f"{prefix} {money}".strip(), factor * size, 0.0)


def scaled_form(dimension: Dimension, largest: float, scale: float = 1.0) -> Form:
    """Return how times or energies up to some size are told; `scale` is what one SI unit of them stands for."""
    if dimension is units.DURATION:
        unit, size = next((unit, size) for unit, size, least in _TIMES if largest >= least * size or unit == "s")
    else:
        unit, size = next((unit, size) for unit, size in _ENERGIES if largest >= size or unit == "J")
    return Form(unit, size * scale)


# ----------------------------------------
# Numbers and tables as text: what the terminal shows in one cell.

_BAR = 16


def empty_table(*columns: str) -> Table:
    """Return a table with these columns, the first for labels."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        right = position > 0 and column != "" and column != "mostly because of"
        table.add_column(column, justify="right" if right else "left", no_wrap=position == 0)
    return table


def label_grid(rows: list[tuple[str, str]]) -> Table:
    """Return labels with texts beside them."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(f"  {label}", text)
    return grid


def text_or_dash(value: float | None, form: Callable[[float], str]) -> str:
    """Return a number as text; a dash where the data do not support one."""
    return "-" if value is None else form(value)


def range_text(ends: Sequence[float | None] | None, form: Callable[[float], str]) -> str:
    """Return two numbers as text; a dash where the data do not support both."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    low, high = form(ends[0]), form(ends[1])
    number, _, unit = low.partition(" ")
    # A unit that both have is said once.
    return f"{number if unit == high.partition(' ')[2] else low}..{high}"


def percent_text(value: float, digits: int = 2) -> str:
    """Return a share in percent."""
    return f"{_unsigned_zero(f'{100 * value:,.{digits}f}')} %"


def points_text(change: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{_unsigned_zero(f'{100 * change:+.2f}')} pt"


def count_text(value: float) -> str:
    """Return a number of events."""
    return _unsigned_zero(f"{value:,.1f}")


def amount_text(value: float) -> str:
    """Return a large number with its prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}"
    return f"{value:,.0f}"


def short_text(value: float) -> str:
    """Return a positive number to four digits or more."""
    return amount_text(value) if value >= 1000 else f"{value:.4g}"


def signed_text(value: float, form: Callable[[float], str] = short_text) -> str:
    """Return a number with its sign."""
    return f"{'-' if value < 0 else '+'}{form(abs(value))}" if value else "0"


def _unsigned_zero(text: str) -> str:
    """Return a number without the sign of a zero."""
    return text if text.strip("+-0.,") else text.lstrip("+-")


class CellForms(NamedTuple):
    """How values of a metric, changes of it, and its spread are told in cells."""

    value: Callable[[float], str]
    change: Callable[[float], str]
    spread: Callable[[float], str]


def cell_forms(metric: str, currency: str = "") -> CellForms:
    """Return how a metric is told on the terminal."""
    unit = METRICS[metric].unit
    if unit == "share":
        return CellForms(percent_text, points_text, lambda spread: points_text(spread).removeprefix("+"))
    size = 1e-6 if unit.endswith("per token") else 1.0

    def energy(value: float) -> str:
        form = scaled_form(units.ENERGY, abs(value) / size, size)
        return f"{short_text(value / form.size)} {form.unit}"

    def money(value: float) -> str:
        return f"{short_text(value / size)} {currency}"

    forms = {"count": count_text, "s": time_text, "1/d": amount_text}
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
    form = scaled_form(units.DURATION, seconds)
    return f"{seconds / form.size:.3g} {form.unit}"


# ----------------------------------------
# Where a combination is among the axes of a study, in words: ``48 hot spares, median repair of 44 h``.

_LONG = re.compile(r"(?<![\w.,-])\d{4,}(?![\w.,])")

_WHOLE = re.compile(r"\d[\d,]*")

_WORDS = {"M": "million", "G": "billion", "T": "trillion"}

_HEAD = re.compile(r" (?:of|per|for|in|and|with) ")

_PLAINLY = (
    (re.compile(r"for sure \(95 % for all together\)"), "with 95 % confidence for all together"),
    (re.compile(r"\bFor sure\b"), "With 95 % confidence"),
    (re.compile(r"\bfor sure\b"), "with 95 % confidence"),
    *((re.compile(rf"(?<=\d) {short}(?![\w])"), f" {word}") for short, word in _WORDS.items()),
)

"""What answers say in short, and as it is read."""


def label_text(label: str) -> str:
    """Return the label of a value as it is read: large whole numbers have separators."""
    return _LONG.sub(lambda match: f"{int(match[0]):,}", label)


def phrase(title: str, label: str, labels: Iterable[str]) -> str:
    """Return a value of an axis in words: ``48 hot spares``, ``median repair of 44 h``, ``recovery “torchft-hsdp”``.

    Parameters
    ----------
    title
        What the axis is called.
    label
        The value.
    labels
        All values of the axis: something is counted where all are whole numbers and the title stands in the plural.
    """
    told = label_text(label)
    if not label[:1].isdigit():
        return f"{title} “{told}”"
    is_plural = re.search(r"[^s]s$", _HEAD.split(title)[0]) is not None
    return f"{told} {title}" if is_plural and all(map(_WHOLE.fullmatch, (label, *labels))) else f"{title} of {told}"


def phrases(values: Mapping[str, str], names: Iterable[str], content: Mapping[str, Any]) -> str:
    """Return values of some axes of a study in words.

    Parameters
    ----------
    values
        Label of each axis.
    names
        The axes that are told, in order.
    content
        The document of the study.
    """
    axes = content["axes"]
    return ", ".join(
        phrase(str(axes[name]["title"]), values[name], [each["label"] for each in axes[name].get("values", ())])
        for name in names
    )


def in_words(sentence: str, content: Mapping[str, Any]) -> str:
    """Return a sentence of an answer with its values in words: ``hot spares = 48`` is ``48 hot spares``."""
    for entry in content["axes"].values():
        title, labels = str(entry["title"]), [value["label"] for value in entry["values"]]
        texts = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))

        def told(match: re.Match[str], title: str = title, labels: list[str] = labels) -> str:
            text = phrase(title, match[2], labels)
            return capital(text) if match[1] != title else text

        # A place between two values is a number that is no label.
        pattern = rf"(?<!\w)({re.escape(title)}|{re.escape(capital(title))}) = ({texts}|[\d.,]*\d)(?![\w.]*\w)"
        sentence = re.sub(pattern, told, sentence)
    for short, told_as in _PLAINLY:
        sentence = short.sub(told_as, sentence)
    return label_text(sentence)
