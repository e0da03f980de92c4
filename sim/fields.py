"""Base model and quantity fields shared by everything a user may describe.

A field typed ``Duration`` takes text with a unit (``"30 min"``) and holds an SI float. It is written back
as text, so that ``load(dump(x)) == x``.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from sim import units

__all__ = ["Bandwidth", "Count", "Duration", "Flops", "Fraction", "Model", "Power", "Rate", "Size", "Strategy"]


class Model(BaseModel):
    """Frozen, closed (unknown keys are errors) and free of NaN; defaults are validated like input."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, strict=False, str_strip_whitespace=True
    )


class Strategy(Model):
    """A named choice with its parameters; ``use`` picks the entry of a registry."""

    use: str


def _quantity(dimension: units.Dimension) -> tuple[Any, ...]:
    """Return the pydantic annotations of a quantity of `dimension`."""

    def parse(value: object) -> float:
        return units.parse(value, dimension)

    def show(value: float) -> str:
        return units.show(value, dimension)

    schema = {"type": "string", "description": f"a {dimension.name}", "examples": [dimension.example]}
    return (BeforeValidator(parse), PlainSerializer(show), WithJsonSchema(schema))


def _parse_rate(value: object) -> units.Rate:
    return value if isinstance(value, units.Rate) else units.parse_rate(value)


Duration = Annotated[float, *_quantity(units.DURATION)]
Size = Annotated[float, *_quantity(units.SIZE)]
Bandwidth = Annotated[float, *_quantity(units.BANDWIDTH)]
Flops = Annotated[float, *_quantity(units.FLOPS)]
Power = Annotated[float, *_quantity(units.POWER)]
Fraction = Annotated[float, *_quantity(units.FRACTION), Field(ge=0, le=1)]
Count = Annotated[
    int,
    BeforeValidator(units.parse_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "examples": [16384, "16 Mi"]}),
]
Rate = Annotated[
    Any,
    BeforeValidator(_parse_rate),
    PlainSerializer(units.show_rate),
    WithJsonSchema({"type": "string", "description": "a rate", "examples": ["6.5 per 1000 node-day"]}),
]
