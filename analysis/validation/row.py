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

    kind: Kind = Field(default_factory=dict)
    replications: int = Field(0, ge=0)
    independent: bool = False
    needs_data: bool = False

    @property
    def is_stochastic(self) -> bool:
        """Whether luck is in it."""
        return self.replications > 0


class Unchecked(_Stated):
    """A published value that is not compared, and why not."""

    paper: str
    what: str
    why: str
