"""What a user may describe: frozen models with SI floats inside and text with units outside.

The strategy fields are typed :class:`sim.fields.Strategy` here; ``sim.load`` narrows each to the union of its
registry, so that this layer does not know which strategies exist.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from sim import units
from sim.cost_spec import CostSpec, PowerSpec
from sim.fields import Count, Duration, Model, RuleError, Strategy
from sim.job_spec import JobSpec

__all__ = ["Scenario", "Spares", "StandbyNodes"]

_MOST_WINDOWS = 100_000
"""Windows of the rolling view: each has a table of buckets and causes."""


class StandbyNodes(Model):
    """Nodes outside the allocation that take a while to be of use."""

    nodes: Count = Field(gt=0, description="How many.")
    delay: Duration = Field(description="From being asked for to being ready.")
    one_by_one: bool = Field(False, description="Whether several are got ready one after another, or all at once.")
    refills: bool = Field(True, description="Whether nodes that come back from repair fill it up again.")


class Spares(Model):
    """Nodes kept ready for jobs that lose one; all jobs share them. Nodes that come back fill them in this order."""

    hot: Count = Field(0, description="Healthy nodes in the allocation, of use at once.")
    warm: StandbyNodes | None = Field(None, description="Nodes that are powered, but outside the allocation.")
    cold: StandbyNodes | None = Field(None, description="Nodes that must be provisioned, or freed of other work.")
    unit: str | None = Field(
        None, description="Part that jobs use whole, such as rack: when one of its nodes is out, all are."
    )
    idle: Literal["serve", "withhold"] = Field(
        "serve",
        description="Nodes beyond those of all jobs and these spares: they serve like spares, or nobody gets them.",
    )

    @property
    def total(self) -> int:
        """Nodes that are held back."""
        return self.hot + sum(standby.nodes for standby in (self.warm, self.cold) if standby is not None)


class Scenario(Model):
    """A cluster, its jobs, what fails, and what is done about it."""

    name: str = Field(min_length=1, description="Name of the scenario.")
    description: str = Field("", description="One or two sentences: the question that it answers.")
    cluster: SerializeAsAny[Model] = Field(description="The cluster: a file of topologies/, or its parameters.")
    horizon: Duration = Field(gt=0, description="Time that is simulated after the warm-up.")
    warmup: Duration = Field("0 s", description="Time that the cluster runs before the jobs' time zero.")  # type: ignore[assignment]
    initial: Literal["new", "stationary"] = Field(
        "new", description="Ages of the parts at the start: all new, or as after a long time (repairs in progress too)."
    )
    windows: Duration | None = Field(None, gt=0, description="Width of the windows of the rolling view.")
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of all random numbers.")
    jobs: tuple[JobSpec, ...] = Field(min_length=1, description="The jobs, in order of submission.")
    failures: tuple[SerializeAsAny[Strategy], ...] = Field((), description="Failure sources.")
    checkpoint: SerializeAsAny[Strategy] = Field(description="How progress is made durable.")
    detection: SerializeAsAny[Strategy] = Field(description="When the job knows of a failure.")
    recovery: SerializeAsAny[Strategy] = Field(description="How a job comes back.")
    spares: Spares = Field(default_factory=lambda: Spares.model_validate({}), description="Nodes kept ready.")
    repair: SerializeAsAny[Strategy] | None = Field(
        None, description="How nodes come back; without it every source that takes nodes needs a repair of its own."
    )
    scheduler: SerializeAsAny[Strategy] = Field(description="How queued jobs get nodes.")
    power: PowerSpec | None = Field(None, description="What the cluster draws, where the usual values are not right.")
    cost: CostSpec | None = Field(None, description="What the cluster costs.")
    assumptions: tuple[str, ...] = Field((), description="What this file assumes and why; printed with every result.")

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        first: dict[str, int] = {}
        for index, job in enumerate(self.jobs):
            if job.name in first:
                message = f"'{job.name}' is also the name of jobs.{first[job.name]}; results are told apart by name"
                raise RuleError(("jobs", index, "name"), message)
            first[job.name] = index
        return self

    @model_validator(mode="after")
    def _windows_can_be_kept(self) -> Self:
        if self.windows is not None and self.horizon / self.windows > _MOST_WINDOWS:
            least = units.show(math.ceil(self.horizon / _MOST_WINDOWS), units.DURATION)
            count = self.horizon / self.windows
            rule = f"makes {count:,.0f} windows, and at most {_MOST_WINDOWS:,} are kept; at least {least}"
            raise RuleError(("windows",), rule)
        return self

    def with_job(self, index: int, **changes: Any) -> Self:
        """Return the scenario with other values of one of its jobs."""
        job = self.jobs[index].model_copy(update=changes)
        return self.model_copy(update={"jobs": (*self.jobs[:index], job, *self.jobs[index + 1 :])})

    def dump(self) -> dict[str, Any]:
        """Return plain data that ``sim.load`` reads back to an equal scenario."""
        return self.model_dump(mode="json", exclude_none=True)
