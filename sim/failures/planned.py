"""Planned maintenance: windows with a date."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ettrick.sim.failures.source import KNOWN, FailureSource, OutageLog, slots_per_node
from ettrick.sim.scenario.fields import Duration, Model, RuleError, Strategy, default

if TYPE_CHECKING:
    from collections.abc import Mapping


class MaintenanceWindow(Model):
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
    windows: tuple[MaintenanceWindow, ...] = Field(min_length=1, description="The windows.")
    saves: bool = Field(True, description="Whether jobs save before they stop.")
    notice: Duration | None = Field(
        None,
        description="Time between notice and stop: a job saves only if a save takes no longer. Without "
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

    def build(self, counts: Mapping[str, int], jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or not so many.
        """
        counts = {**counts, "cluster": 1}
        if self.part not in counts:
            raise ValueError(f"the cluster has no part '{self.part}'")
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
        recorded = OutageLog(
            unit=np.array([row[1] for row in rows], dtype=np.int64),
            start=np.array([row[0] for row in rows], dtype=np.float64),
            end=np.array([row[2] for row in rows], dtype=np.float64),
            span=max(window.end for window in self.windows),
        )
        return FailureSource(
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


# A change that is brought to the nodes one after another, such as a new driver.


class Canary(Model):
    """A few nodes go first; too many failures of theirs and the change is taken back."""

    nodes: int = Field(gt=0, description="How many nodes go first.")
    soak: Duration = Field(gt=0, description="How long they are watched before the others follow.")
    tolerates: int = Field(
        0, ge=0, description="Failures of theirs meanwhile, for the causes in hazard, that are let pass."
    )


class Rollout(Strategy):
    """Every node is out of service once, for a while, and has another hazard afterwards."""

    use: Literal["rollout"] = "rollout"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    start: Duration = default("0 s", description="When it begins, from the start of the simulation.")
    nodes_per_day: float = Field(gt=0, description="How many nodes a day.")
    batch: int = Field(1, ge=1, description="How many nodes at once.")
    duration: Duration = Field(gt=0, description="How long a node is out of service.")
    mode: Literal["drain", "at_interruption"] = Field(
        "drain",
        description="drain takes nodes out of running jobs, which save first; at_interruption waits until a job is "
        "interrupted by something else, and then all its nodes that are due are changed together.",
    )
    hazard: dict[str, float] = Field(
        default_factory=dict, description="Hazard of a changed node relative to before, by cause."
    )
    canary: Canary | None = Field(None, description="Nodes that go first.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for cause, ratio in self.hazard.items():
            if ratio < 0:
                raise RuleError(("hazard", cause), f"must not be negative, not {ratio:g}")
        if self.canary is not None and not self.hazard:
            raise RuleError(("canary",), "needs hazard: without a changed hazard there is nothing to watch")
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If it has more canaries than the cluster has nodes.
        """
        if self.canary is not None and self.canary.nodes > counts["node"]:
            rule = f"{self.canary.nodes} go first, but the cluster has {counts['node']} nodes"
            raise RuleError(("canary", "nodes"), rule)
        return FailureSource(
            name=self.name,
            part="node",
            units=counts["node"],
            law=None,
            detection=KNOWN,
            planned=True,
            fault="planned",
            saves=True,
            rollout=self,
            slots_per_node=1,
        )
