"""A row of the table: a value that somebody else has stated, and how near ours must be."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["Conventions", "Estimate", "Row", "Tolerance", "Unchecked"]

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
