"""Blocking work that a job does again and again: evaluation, checks for corruption, loading of data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from sim import units
from sim.fields import Duration, Model

__all__ = ["PeriodicWork"]


def _parse_every(value: object) -> str:
    """Read a duration or ``K steps``."""
    if isinstance(value, str):
        words = value.split()
        if len(words) == 2 and words[1] in ("step", "steps"):
            if not words[0].isdecimal() or int(words[0]) == 0:
                message = f"'{value}': the number of steps must be a whole number above zero"
                raise ValueError(message)
            return f"{int(words[0])} steps"
    seconds = units.parse(value, units.DURATION)
    if seconds <= 0:
        message = "must be longer than zero"
        raise ValueError(message)
    return units.show(seconds, units.DURATION)


Every = Annotated[
    str, BeforeValidator(_parse_every), WithJsonSchema({"type": "string", "examples": ["1000 steps", "2 h"]})
]


class PeriodicWork(Model):
    """Work that stops training each time; its time goes to the bucket ``auxiliary``."""

    name: str = Field(min_length=1, description="What it is, for example evaluation.")
    every: Every = Field(description="Stepping between two times: a number of steps, or a time.")
    time: Duration = Field(gt=0, description="How long training stops.")

    @property
    def steps(self) -> int:
        """Steps between two times; 0 where a time is given."""
        return int(self.every.split()[0]) if self.every.endswith("steps") else 0

    @property
    def seconds(self) -> float:
        """Stepping between two times [s]; 0 where steps are given."""
        return 0.0 if self.steps else units.parse(self.every, units.DURATION)
