"""Planned maintenance: windows with a date."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.failures.source import KNOWN, Recorded, Source, slots_per_node
from sim.fields import Duration, Model, RuleError, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Maintenance", "Window"]


class Window(Model):
    """Some units of a part are out of service for a time."""

    start: Duration = Field(description="From the start of the simulation, warm-up included.")
    duration: Duration = Field(gt=0, description="How long.")
    first: int = Field(0, ge=0, description="First unit.")
    units: int = Field(1, ge=1, description="How many units, one after another by number.")

    @property
    def end(self) -> float:
        """When it is over [s]."""
        return self.start + self.duration


class Maintenance(Strategy):
    """Windows in which nodes are taken out of service on purpose; jobs know beforehand and save."""

    use: Literal["maintenance"] = "maintenance"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    part: str = Field("node", description="Class of part that the windows count: node, rack, pdu, leaf, ...")
    windows: tuple[Window, ...] = Field(min_length=1, description="The windows.")
    saves: bool = Field(True, description="Whether jobs save before they stop.")
    notice: Duration | None = Field(
        None,
        description="Time between being told and being stopped: a job saves only if a save takes no longer. Without "
        "it, there is time enough.",
    )

    @model_validator(mode="after")
    def _windows_are_apart(self) -> Self:
        rows = sorted((window.start, index) for index, window in enumerate(self.windows))
        for position, (_, index) in enumerate(rows):
            mine = self.windows[index]
            for start, other in rows[position + 1 :]:
                theirs = self.windows[other]
                if start >= mine.end:
                    break
                if mine.first < theirs.first + theirs.units and theirs.first < mine.first + mine.units:
                    message = f"overlaps windows.{index} in time and in the units that it takes"
                    raise RuleError(("windows", other, "start"), message)
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or not so many.
        """
        del jobs
        counts = {**counts, "cluster": 1}
        if self.part not in counts:
            message = f"the cluster has no part '{self.part}'"
            raise ValueError(message)
        for index, window in enumerate(self.windows):
            last = window.first + window.units
            if last > counts[self.part]:
                rule = f"goes up to {self.part} {last - 1}, counted from 0, but there are {counts[self.part]}"
                raise RuleError(("windows", index), rule)
        rows = sorted(
            (window.start, unit, window.end)
            for window in self.windows
            for unit in range(window.first, window.first + window.units)
        )
        recorded = Recorded(
            unit=np.array([row[1] for row in rows], dtype=np.int64),
            start=np.array([row[0] for row in rows], dtype=np.float64),
            end=np.array([row[2] for row in rows], dtype=np.float64),
            span=max(window.end for window in self.windows),
        )
        return Source(
            name=self.name,
            part=self.part,
            units=counts[self.part],
            law=None,
            recorded=recorded,
            detection=KNOWN,
            planned=True,
            fault="planned",
            defer=True,
            saves=self.saves,
            notice=math.inf if self.notice is None else self.notice,
            slots_per_node=slots_per_node(self.part, counts),
        )
