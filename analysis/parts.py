"""The parts of documents that computations return: summaries of metrics, and differences.

`ettrick.analysis.results.models` has the documents. Times are in seconds, shares between 0 and 1; what the data do not
support is null.
"""

# Annotations are not postponed: pydantic would compile each at the start, a fifth of what these models cost.
import math
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

FORMAT = 1  # format of the documents; those of before it have no number


def _number(value: Any) -> float | None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    kind = "float_type"
    raise PydanticCustomError(kind, "must be a number")


def _finite(value: Any) -> float:
    number = _number(value)
    if number is None:
        kind = "float_type"
        raise PydanticCustomError(kind, "must be a number")
    return number


def _whole(value: Any) -> int:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or not isinstance(number, int):
        kind = "int_type"
        raise PydanticCustomError(kind, "must be a whole number")
    return number


def _pair(value: Any) -> tuple[float | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        kind = "list_type"
        raise PydanticCustomError(kind, "must be a list")
    if len(value) != 2:
        kind, rule = "pair", f"list should have {'at least' if len(value) < 2 else 'at most'} 2 items, not {len(value)}"
        raise PydanticCustomError(kind, rule)
    return _number(value[0]), _number(value[1])


_NUMBER = {"type": ["number", "null"]}

# A number, null where the data do not support one or it is not finite.
Number: TypeAlias = Annotated[float | None, PlainValidator(_number), WithJsonSchema(_NUMBER)]
Real: TypeAlias = Annotated[float, PlainValidator(_finite), WithJsonSchema({"type": "number"})]
Whole: TypeAlias = Annotated[int, PlainValidator(_whole), WithJsonSchema({"type": "integer"})]
Count: TypeAlias = Annotated[Whole, Field(ge=0)]

# Both ends of an interval; an end that is not finite is null.
Pair: TypeAlias = Annotated[
    tuple[float, float] | None,
    PlainValidator(_pair),
    WithJsonSchema({"type": ["array", "null"], "items": _NUMBER, "minItems": 2, "maxItems": 2}),
]

# As `Pair`, where an end may lie beyond what is known.
OpenPair: TypeAlias = Annotated[
    tuple[float | None, float | None] | None,
    PlainValidator(_pair),
    WithJsonSchema({"type": ["array", "null"], "items": _NUMBER, "minItems": 2, "maxItems": 2}),
]

# As `Pair`, of what always has an interval in documents that this version writes.
Ends: TypeAlias = Annotated[
    tuple[float, float],
    PlainValidator(_pair),
    WithJsonSchema({"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}),
]

Texts: TypeAlias = list[str]

# Numbers by name; all of them are null where there is nothing that they are shares of.
Numbers: TypeAlias = dict[str, Annotated[float, PlainValidator(_number), WithJsonSchema(_NUMBER)]]
Labels: TypeAlias = dict[str, str]


class Part(BaseModel):
    """A JSON object."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        from_attributes=True,
        validate_by_name=True,
        validate_by_alias=True,
        protected_namespaces=(),
        defer_build=True,
    )


class Document(Part):
    """The document that a command prints with ``--json``, and writes into its folder."""

    format: Annotated[int, Field(ge=0, le=FORMAT)] = Field(0, description="Format of the document: 1; 0 before it.")


class ControlledSummary(Part):
    """A mean with the variability of the failures taken out."""

    mean: Number = Field(description="The mean.")
    mean_ci95: Pair = Field(description="Its 95 % interval.")
    worth: Number = Field(None, description="How many times the replications as narrow an interval takes without.")


class MetricSummary(Part):
    """A summary of a metric over replications; [how sure](metrics.md#how-sure) says what each number means."""

    mean: Number = Field(description="Ratio of sums over all replications.")
    mean_ci95: Pair = Field(
        description="Its 95 % interval; of `p_finish_by` the exact one. Null where all replications are equal."
    )
    std: Number = Field(None, description="Standard deviation between replications.")
    p05: Number = Field(None, description="5 % quantile of single replications; null where there are too few.")
    p50: Number = Field(None, description="Median of single replications; null where there are too few.")
    p95: Number = Field(None, description="95 % quantile of single replications; null where there are too few.")
    p05_ci95: Pair = Field(None, description="Bounds of the 5 % quantile.")
    p50_ci95: Pair = Field(None, description="Bounds of the median.")
    p95_ci95: Pair = Field(None, description="Bounds of the 95 % quantile.")
    band90: Pair = Field(
        None,
        description="Where the mean is with 90 %, as far as failure rates are not known exactly (with `--band`) and "
        "steps are modelled and not measured; chance is in `mean_ci95`.",
    )
    method: str | None = Field(
        None,
        description="Interval of `mean_ci95`: `t` (Student's), `batch means`, `gamma`, `exact`, or null. Where "
        "`mean_ci95` is null and this is `exact`, the number itself is: nothing that it depends on is random.",
    )
    controlled: ControlledSummary | None = Field(
        None, description="With a [control](metrics.md#control-variates); null where none is known, or it has no use."
    )
    lower_bound95: Number = Field(
        None, description="Of `mtti`, `mtti_running` and `mttf` only: what it is longer than, if nothing happened."
    )


class EventCount(Part):
    """A number of events in a replication."""

    mean: Real = Field(description="Mean over replications.")
    mean_ci95: Pair = Field(description="Its 95 % interval.")
    std: Number = Field(None, description="Standard deviation between replications.")


class ControlledDifference(Part):
    """A difference with the variability of the failures that both meet taken out."""

    mean: Real = Field(description="The difference.")
    ci95: Ends = Field(description="Its 95 % interval.")
    worth: Number = Field(None, description="How many times the replications as narrow an interval takes without.")


class DifferenceSummary(Part):
    """By how much a metric is above that of another variant, on the same failures."""

    mean: Real = Field(description="The difference.")
    ci95: Pair = Field(description="Its 95 % interval; null where it is the same in all replications.")
    resolved: bool = Field(
        description="Whether zero is outside of the interval. Without one: whether there is a difference, and one "
        "that is larger than what unmet runs may take from it where all replications of a variant are equal too."
    )
    replications_to_resolve: Whole | None = Field(description="Null: more than 10,000, or no difference at all.")
    controlled: ControlledDifference | None = Field(None, description="With a control, or null.")
    exact: bool = Field(False, description="Whether nothing is random in both, so that one replication tells all.")


class CellMetric(Part):
    """Mean, interval and quantiles over the replications of a cell."""

    mean: Number = Field(description="Ratio of sums over all replications.")
    mean_ci95: Pair = Field(description="Its 95 % interval.")
    method: str | None = Field(description="Which [interval](../explanation/how-sure.md).")
    std: Number = Field(description="Standard deviation of one run.")
    p05: Number = Field(description="Quantile of one run.")
    p50: Number = Field(description="Median of one run.")
    p95: Number = Field(description="Quantile of one run.")
    band90: Pair = Field(description="Of the unknown inputs.")
    replications: Count = Field(description="How many have the metric.")
    censored: Count = Field(description="How many were not finished.")
    never_started: Count = Field(description="How many never got their nodes.")
