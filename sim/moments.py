"""Moments of text from outside: with an offset, in a stated zone, or as numbers.

`Moments` reads those of a log, which are dates or seconds since 1970. `TimestampParser` reads those that count from the
start of a log or a trace. Both refuse what they would have to guess.

References
----------
ISO 8601; RFC 3164 (dates of syslog).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from ettrick.sim.records import LogError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from numpy.typing import NDArray

EPOCH = (631152000.0, 4102444800.0)
"""Seconds since 1970 of the years 1990 to 2100, between which the moments of a log lie [s]."""

_SPREADSHEET = (32874.0, 73051.0)
"""Days since 1900, as spreadsheets count them, of the years 1990 to 2100."""


def likely_unit(value: float) -> str:
    """Return what a number that is no second since 1970 looks like; nothing if it looks like nothing known."""
    low, high = EPOCH
    named = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
    if _SPREADSHEET[0] <= value <= _SPREADSHEET[1]:
        return "these look like the days of a spreadsheet"
    return next(
        (f"these look like {name} since 1970" for size, name in named.items() if low <= value / size <= high), ""
    )


def since_1970(text: str) -> float:
    """Return a number of seconds since 1970; what can only be another unit is refused with its name."""
    value = float(text)
    if EPOCH[0] <= value <= EPOCH[1]:
        return value
    raise ValueError(
        f"'{text}' is no second since 1970 of the years 1990 to 2100; {likely_unit(value) or 'a number needs a unit'}: "
        "write dates, or state the unit in the name of the column (_s, _min, _h, _days)"
    )


_MONTHS = {
    name: at
    for at, name in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1)
}


class StrayError(ValueError):
    """A moment that a log cannot have: it lies before 1990 or after 2100."""


class Moments:
    """Reads the moments of one file.

    Local times need a `zone`. What lies before 1990, or after `latest` [s since 1970], is refused. Dates without a year
    begin in a stated one, `year`; a month that falls by half a year is one of the next year, whose line `new_years`
    keeps. An hour that occurs twice, when summer time ends, is resolved by the order of the file: a column whose
    moments do not fall takes the first that is not before the last one.
    """

    def __init__(self, zone: ZoneInfo | None, file: str, year: int = 0, latest: float = EPOCH[1]) -> None:
        self._zone, self._file, self.year, self.latest = zone, file, year, latest
        self._months: dict[str, tuple[int, int]] = {}
        self.new_years: list[int] = []
        self._offsets: dict[str, tuple[float, float]] = {}
        self._hours: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self.twice = self.skipped = 0
        """Moments of an hour that occurs twice, and of one that does not occur."""
        self.strays: list[tuple[int, str]] = []
        """Line and text of each moment that was refused as too early or too late."""

    def read(self, text: str, line: int, column: str = "") -> float:
        """Return a moment [s since 1970].

        Parameters
        ----------
        text
            A date of ISO 8601, with or without an offset, or a number of seconds.
        column
            Whose moments do not fall, where an hour occurs twice.

        Raises
        ------
        LogError
            If it is a local time and no zone was stated.
        ValueError
            If it is no moment.
        """
        hour = self._hours.get(text[:13])
        if hour is not None and text[14:15] < "6" > text[17:18] and text[17:].replace(".", "", 1).isdigit():
            return hour + 60 * int(text[14:16]) + float(text[17:])
        if "-" not in text:
            return self.plausible(since_1970(text), text, line)
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return self.plausible(moment.timestamp(), text, line)
        return self._local(moment, text, line, column)

    def plausible(self, value: float, text: str, line: int) -> float:
        """Return a moment [s since 1970] that a log can have.

        Raises
        ------
        StrayError
            If it lies before 1990, or after the latest one, of 2100.
        """
        if EPOCH[0] <= value <= self.latest:
            return value
        self.strays.append((line, text))
        raise StrayError("a moment before 1990 or after 2100")

    def ctime(self, text: str, line: int) -> float:
        """Return a moment [s since 1970] such as ``Mon Mar  3 10:02:11 2025``."""
        _, month, day, time, year = text.split()
        iso = f"{year}-{_MONTHS[month]:02}-{int(day):02}T{time}"
        return self._local(datetime.fromisoformat(iso), iso, line, "")

    def syslog(self, text: str, line: int, column: str = "") -> float:
        """Return a moment [s since 1970] such as ``Mar  3 10:02:11``, of the year that was stated for the first one.

        Raises
        ------
        ValueError
            If it is none, or the months leap forward by more than half a year: then nothing says of which year it is.
        """
        name, day, time = text.split()
        month = _MONTHS[name]
        year, last = self._months.get(column, (self.year, month))
        if month > last + 6 and year == self.year:
            raise ValueError(f"a date without a year that leaps from month {last} to {month}; give each year by itself")
        if month < last - 5:
            self.new_years.append(line)
        year += (month < last - 5) - (month > last + 6)
        self._months[column] = year, month
        iso = f"{year}-{month:02}-{int(day):02}T{time}"
        return self._local(datetime.fromisoformat(iso), iso, line, "")

    def _local(self, moment: datetime, text: str, line: int, column: str) -> float:
        key = text[:15]  # zones change at whole ten minutes
        offsets = self._offsets.get(key)
        if offsets is None:
            if self._zone is None:
                raise LogError(
                    f"{self._file}:{line}: '{text}' has no offset from UTC; say where it was written, for example "
                    f"--timezone America/Chicago"
                )
            both = (moment.replace(tzinfo=self._zone, fold=fold) for fold in (0, 1))
            first, second = (local.utcoffset() or timedelta() for local in both)
            offsets = self._offsets[key] = first.total_seconds(), second.total_seconds()
        plain = moment.replace(tzinfo=UTC).timestamp()
        value = self.plausible(plain - offsets[0], text, line)
        if offsets[0] > offsets[1]:  # twice; a skipped hour has them the other way round
            self.twice += 1
            if value < self._last.get(column, -math.inf) - 1:
                value = plain - offsets[1]
        elif offsets[0] < offsets[1]:
            self.skipped += 1
        elif text[13:14] == ":" and moment.replace(minute=59, tzinfo=self._zone).utcoffset() == (
            moment.replace(minute=0, tzinfo=self._zone).utcoffset()
        ):
            # An hour in which no zone changes: the others of its moments need no calendar.
            self._hours[text[:13]] = value - 60 * moment.minute - moment.second - moment.microsecond / 1e6
        if column:
            self._last[column] = max(value, self._last.get(column, -math.inf))
        return value


MAX_SPAN = 20 * 365.25 * 86400.0
"""Time that the moments of one log lie apart at most [s]."""


def _is_day(value: float) -> bool:
    """Return whether a number is a day of the years 1990 to 2100 without its dashes, such as 20261120."""
    try:
        return 1990 <= datetime.strptime(f"{value:.0f}", "%Y%m%d").replace(tzinfo=UTC).year <= 2100
    except ValueError:
        return False


_NUMBERS, _DATES, _LOCAL = "numbers", "dates with an offset from UTC", "dates without an offset from UTC"

_NEVER = 1e9
"""Multiples of this, up to a hundred, stand for a time that never comes [s]."""


class TimestampParser:
    """Reads moments that count from the start of a log or a trace, all of which have one form.

    Numbers may count from anywhere, and dates without an offset are of a zone that keeps no summer time.
    """

    def __init__(self, *, has_unit: bool = False) -> None:
        self.form, self.has_unit = "", has_unit
        self._low, self._high, self._is_whole = math.inf, -math.inf, True

    def read(self, text: str, second: float = 1.0) -> float:
        """Return a moment [s]: a number of some unit, or a date since 1970.

        Raises
        ------
        ValueError
            If it is none, of another form than those before, or of another unit.
        """
        form, value = self._moment(text, second)
        if form is not self.form:
            if self.form:
                raise ValueError(f"'{text}', but the moments above it are {self.form}")
            self.form = form
        if form is _NUMBERS:
            if value >= _NEVER and self._is_never(text, value, second):
                return value
            if self._is_whole and value % 1.0:
                self._is_whole = False
        if value < self._low:
            self._low = value
        if value > self._high:
            self._high = value
        return value

    def read_all(self, texts: Sequence[str], second: float = 1.0) -> NDArray[np.float64]:
        """Return the moments [s], shape (n,), that `read` returns one by one.

        Raises
        ------
        ValueError
            If it refuses one of them; it says which, and why.
        """
        form, values = self._moments(texts, second)
        if form and self.form not in ("", form):
            raise ValueError(f"are {form}")
        counted = values
        if form is _NUMBERS:
            counted = values[(values < _NEVER) | (values >= 100 * _NEVER) | (values % _NEVER != 0)]
            if counted.max(initial=0.0) > EPOCH[1]:
                raise ValueError("are after the year 2100")
            self._is_whole = self._is_whole and not (counted % 1.0).any()
        self.form = form or self.form
        self._low = min(self._low, float(counted.min(initial=math.inf)))
        self._high = max(self._high, float(counted.max(initial=-math.inf)))
        return values

    def _moments(self, texts: Sequence[str], second: float) -> tuple[str, NDArray[np.float64]]:
        """Return the form of moments, empty if there are none, and their values [s], shape (n,)."""
        try:
            values = np.fromiter(map(float, texts), np.float64, len(texts)) * second
        except ValueError:
            moments = [self._moment(text, second) for text in texts]
            if len({form for form, _ in moments}) > 1:
                raise ValueError("are of several forms") from None
            return moments[0][0], np.array([value for _, value in moments])
        if not ((values >= 0) & (values < math.inf)).all():
            raise ValueError("are no numbers of zero or more")
        return _NUMBERS if len(texts) else "", values

    @staticmethod
    def _is_never(text: str, value: float, second: float) -> bool:
        """Return whether a number stands for a time that never comes; one after the year 2100 is refused."""
        if value < 100 * _NEVER and not value % _NEVER:
            return True
        if value > EPOCH[1]:
            guess = likely_unit(value / second) or "that is after the year 2100"
            raise ValueError(f"'{text}'; {guess}: write dates, or state the unit in the name of the column (_ms)")
        return False

    @staticmethod
    def _moment(text: str, second: float) -> tuple[str, float]:
        """Return the form of a moment and its value [s]."""
        if text[4:5] != "-" or text[7:8] != "-":
            try:
                value = float(text) * second
            except ValueError:
                value = -1.0
            if 0 <= value < math.inf:
                return _NUMBERS, value
        try:
            date = datetime.fromisoformat(text)
        except ValueError:
            wanted = "neither a number of zero or more nor a date such as 2026-11-20T14:05:00Z"
            raise ValueError(f"'{text}', which is {wanted}") from None
        if not 1900 <= date.year <= 2200:
            raise ValueError(f"'{text}', which is no date of the years 1900 to 2200")
        if date.tzinfo is None:
            return _LOCAL, date.replace(tzinfo=UTC).timestamp()
        return _DATES, date.timestamp()

    def begin(self, origin: float | str | None, first: float, second: float = 1.0) -> float:
        """Return the moment at which the simulation starts [s]: one that is stated, 0, or the first date.

        Raises
        ------
        ValueError
            If that is no moment as those that were read, or these cannot all be right.
        """
        self._check()
        if origin is None:
            return 0.0 if self.form == _NUMBERS else first
        form, value = self._moment(str(origin), second)
        if form != self.form:
            raise ValueError(f"'{origin}' does not go with the moments of the log, which are {self.form}")
        return value

    def _check(self) -> None:
        """Refuse moments that are likely in another unit, or too far from one another."""
        is_number = self.form == _NUMBERS
        problem = ""
        if self._high - self._low > MAX_SPAN:
            problem = "more than 20 years; one of them is wrong, or not from the same beginning"
        elif is_number and not self.has_unit:
            problem = self._other_unit()
        if problem:
            low, high = ((f"{end:.10g}" if is_number else self.text(end)) for end in (self._low, self._high))
            raise LogError(f"the moments go from {low} to {high}; {problem}")

    def _other_unit(self) -> str:
        """Return what numbers without a stated unit look like, if that is another one than the usual one."""
        if _SPREADSHEET[0] <= self._low <= self._high <= _SPREADSHEET[1] and not self._is_whole:
            return f"{likely_unit(self._low)}: write dates, or state their unit (time_unit)"
        if self._low < self._high and all(map(_is_day, (self._low, self._high))):
            return "these look like dates: write them as 2026-11-20, or state their unit (time_unit)"
        return ""

    def text(self, moment: float) -> str:
        """Return a moment of a log with dates as text, in UTC where it has offsets."""
        return datetime.fromtimestamp(moment, UTC).replace(tzinfo=None).isoformat() + "Z" * (self.form == _DATES)
