"""A row of the table: a value that somebody else has stated, and how near ours must be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.results.models import ValidateDocument, ValidationRow

Kind: TypeAlias = Literal["printed", "relative", "absolute", "sampling", "at_least", "at_most", "interval", "must_miss"]


class Estimate(NamedTuple):
    """What we make of a quantity.

    Parameters
    ----------
    value
        Ours, in the unit of the row.
    error
        Standard error of the mean [unit of the row]; 0 for what no luck is in.
    replications
        Independent replications behind it; 0 for what no luck is in.
    expected
        What theory says, where the row leaves its value to be computed.
    """

    value: float
    error: float = 0.0
    replications: int = 0
    expected: float | None = None


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True)


class Tolerance(_Stated):
    """How near ours must be, and why so near.

    ``luck`` below is the half-width that the error rate of the whole table leaves to a row.
    """

    kind: Kind = Field(
        description=(
            "`printed`: as printed, within half a digit (`size`). `relative`, `absolute`: within `size`. `interval`: "
            "between `low` and `high`. To these four luck is added, and must not be larger than the tolerance. "
            "`sampling`: equal but for luck, and an edge of `size`; luck at most `most_luck`. `at_least`, `at_most`: "
            "an inequality that luck does not explain. `must_miss`: a model that is known to be wrong is off by more "
            "than `size` and luck."
        )
    )
    size: float = Field(0.0, ge=0, description="How much [unit of the row; of the value for `relative`].")
    low: float | None = None
    high: float | None = None
    most_luck: float = Field(
        0.1,
        gt=0,
        description="Largest luck of `sampling` [of the expected value; where that is 0, unit of the row].",
    )
    why: str = Field(min_length=1, description="Why so much and not less.")

    @model_validator(mode="after")
    def _has_its_numbers(self) -> Self:
        if (self.kind == "interval") != (self.low is not None and self.high is not None):
            message = "low and high belong to kind: interval, and it needs both"
            raise ValueError(message)
        if self.low is not None and self.high is not None and self.low > self.high:
            message = "low is above high"
            raise ValueError(message)
        if self.kind in ("printed", "relative", "absolute", "must_miss") and not self.size:
            message = f"kind: {self.kind} needs a size"
            raise ValueError(message)
        if self.kind != "sampling" and "most_luck" in self.model_fields_set:
            message = "most_luck belongs to kind: sampling; elsewhere luck is at most the tolerance"
            raise ValueError(message)
        return self


class Conventions(_Stated):
    """What has to be said before two numbers are compared; - where it does not matter."""

    failures_in_restart: Literal["yes", "no", "-"] = "-"
    downtime_in_mtbf: Literal["yes", "no", "-"] = "-"
    queue_in_denominator: Literal["yes", "no", "-"] = "-"
    write_in_interval: Literal["yes", "no", "-"] = "-"
    start: Literal["cold", "warmed up", "stationary", "-"] = "-"


class Row(_Stated):
    """One value and what ours must be.

    Parameters
    ----------
    id
        Name, unique in the table: ``daly-wallclock-15min``.
    group
        Which part of the table it belongs to; the name of its file.
    quantity
        What it is, in words.
    paper, where
        Who states it, and in which figure, table or section.
    provenance
        ``primary``: read in the source. ``secondary``: quoted by somebody else. ``derived``: worked out from stated
        figures. ``theory``: a closed form. ``program``: what another program printed.
    inputs
        What it rests on, in words.
    value
        The stated value; ``None`` where the measure works out what theory expects.
    label
        ``calibrated``: it, or what it follows from, was an input. ``emergent``: it comes out of the mechanism from
        other inputs. ``sanity``: an identity, an inequality, a limit, an order.
    measure, arguments
        Name of the function that makes ours, and what it is called with.
    replications
        How many it simulates; 0 for a formula.
    independent
        Whether no other row rests on the same replications, so that its p-value counts in the combined one.
    needs_data
        Whether it needs reference data that are not part of the project.
    only_reads
        Whether it reads these data alone, and so checks the reading of them, not the simulator.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9.]+)*$")
    group: str
    quantity: str
    paper: str
    where: str
    provenance: Literal["primary", "secondary", "derived", "theory", "program"]
    inputs: str
    value: float | None = None
    unit: str
    tolerance: Tolerance
    label: Literal["calibrated", "emergent", "sanity"]
    conventions: Conventions = Conventions()
    measure: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    replications: int = Field(0, ge=0)
    independent: bool = False
    needs_data: bool = False
    only_reads: bool = False

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        kind = self.tolerance.kind
        if self.replications == 1 or (kind == "sampling" and not self.replications):
            message = "needs two replications or more: one does not say how much luck is in it"
            raise ValueError(message)
        if self.independent and kind != "sampling":
            message = "independent belongs to kind: sampling, of which alone there is a p-value"
            raise ValueError(message)
        if self.only_reads and not (self.needs_data and self.label == "sanity" and not self.replications):
            message = "only_reads belongs to a row that needs data, simulates nothing and is labelled sanity"
            raise ValueError(message)
        return self

    @property
    def is_stochastic(self) -> bool:
        """Whether luck is in it."""
        return self.replications > 0


class Unchecked(_Stated):
    """A published value that is not compared, and why not."""

    paper: str
    what: str
    why: str


# ----------------------------------------
# What one cell of the table shows: numbers with their units, limits, conventions in words.

HEADS = ("published", "ours", "delta", "limit", "verdict", "label", "replications", "conventions")

"""Columns beside the name of the row."""

VERDICTS = {"pass": "pass", "fail": "FAIL", "skipped": "skipped"}

LABELS = {
    "calibrated": "it, or what it follows from, was an input",
    "emergent": "it comes out of the mechanism from other inputs",
    "sanity": "an identity, an inequality, a limit or an order",
}

"""Labels, and what they mean."""

_CONVENTIONS = {
    "failures_in_restart": {"yes": "failures interrupt restarts", "no": "no failures in restarts"},
    "downtime_in_mtbf": {"yes": "MTBF counts downtime", "no": "MTBF without downtime"},
    "queue_in_denominator": {"yes": "queueing counts", "no": "queueing left out"},
    "write_in_interval": {"yes": "interval with its save", "no": "interval without its save"},
    "start": {"cold": "cold start", "warmed up": "warmed up", "stationary": "stationary start"},
}


def cells_of(row: ValidationRow) -> list[str]:
    """Return the cells of a row of the document, in the order of `HEADS`."""
    return [
        _published(row),
        _value(row.ours, row.unit),
        _delta(row),
        _limit(row),
        VERDICTS[row.verdict],
        row.label,
        f"{row.replications:,}" if row.replications else "–",
        conventions(row.conventions),
    ]


def conventions(stated: Mapping[str, str]) -> str:
    """Return the conventions of a row in words; those that do not matter are left out."""
    return ", ".join(words[stated[name]] for name, words in _CONVENTIONS.items() if stated[name] != "-")


def together_in_words(content: ValidateDocument) -> str:
    """Return the combined p-value of a document in a sentence; nothing if there is none."""
    together = content.together
    if together is None:
        return ""
    verdict = "pass" if together.holds else "FAIL"
    return (
        f"Independent rows together ({together.rows}): {verdict}; p = {together.p_value:.3g} by Fisher's method, "
        f"edges taken off before; it passes from {together.least:g} on."
    )


def in_words(content: ValidateDocument) -> list[str]:
    """Return sentences on all rows of a document together."""
    counts = content.counts
    why = " (reference data not present)" if counts["skipped"] else ""
    lines = [
        f"{counts['pass']} of {sum(counts.values())} rows pass; failed: {counts['fail']}; "
        f"skipped: {counts['skipped']}{why}.",
        f"Seed {content.seed}; probability of a false alarm in the whole table: {content.family_wise_error:g}; "
        f"rows with luck in them: {content.stochastic_rows}.",
    ]
    reading = sum(row.only_reads for group in content.groups for row in group.rows)
    if reading:
        lines.insert(
            1, f"Of these rows {reading} read the reference data alone and check the reading, not the simulator."
        )
    return [line for line in (*lines, together_in_words(content)) if line]


def _unit(row: ValidationRow) -> str:
    """Return the unit as it follows a number; nothing for a plain one."""
    return "" if row.unit in ("-", "") else f" {row.unit}"


def _typed(value: float) -> str:
    """Return a number with the digits that it was typed in with: a zero more would claim that it is known."""
    return f"{value:,.12g}".replace("-", "−", 1) if value < 0 else f"{value:,.12g}"


def _number(value: float) -> str:
    """Return a number to five digits; whole ones below a million as they are."""
    if value < 0:
        return f"−{_number(-value)}"
    if value == int(value) and value < 1e6:
        return f"{int(value):,}"
    if value < 1e-3:
        return f"{value:.4g}"
    return f"{value:,.{max(0, 4 - math.floor(math.log10(value)))}f}"


def _value(value: float | None, unit: str) -> str:
    """Return a number with its unit; a dash where there is none."""
    if value is None:
        return "–"
    return _number(value) + ("" if unit in ("-", "") else f" {unit}")


def _published(row: ValidationRow) -> str:
    """Return what is published: a number, a bound or an interval."""
    tolerance = row.tolerance
    kind = tolerance["kind"]
    if kind == "interval":
        return f"{_typed(tolerance['low'])}..{_typed(tolerance['high'])}{_unit(row)}"
    sign = {"at_least": "≥ ", "at_most": "≤ "}.get(kind, "")
    if row.value is not None:
        return f"{sign}{_typed(row.value)}{_unit(row)}"
    return sign + _value(row.published, row.unit)


def _small(value: float) -> str:
    """Return a difference to two digits."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def _delta(row: ValidationRow) -> str:
    """Return ours less what is published; of a relative tolerance, in percent of it."""
    delta = row.delta
    if delta is None:
        return "–"
    # What is left of the last digit of a float is no difference.
    if abs(delta) <= 1e-9 * (row.limit or 0.0):
        return "0"
    value, unit = _relative(row, delta)
    return ("+" if value > 0 else "−") + _small(abs(value)) + unit


def _limit(row: ValidationRow) -> str:
    """Return how far ours may be, or must be, from what is published."""
    if row.limit is None:
        return "–"
    value, unit = _relative(row, row.limit)
    kind = row.tolerance["kind"]
    sign = {"at_least": "≥ ", "at_most": "≤ −", "must_miss": "beyond ± "}.get(kind, "± ")
    return (sign.removesuffix("−") if value == 0 else sign) + _small(value) + unit


def _relative(row: ValidationRow, amount: float) -> tuple[float, str]:
    """Return an amount in the unit of the row, or in percent of what is published for a relative tolerance."""
    if row.tolerance["kind"] == "relative" and row.published:
        return 100.0 * amount / abs(row.published), " %"
    return amount, _unit(row)
