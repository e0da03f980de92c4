"""A change that is brought to the nodes one after another, such as a new driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.source import KNOWN, Source
from sim.fields import Duration, Model, RuleError, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Canary", "Rollout"]


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
    start: Duration = Field("0 s", description="When it begins, from the start of the simulation.")  # type: ignore[assignment]
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

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If it has more canaries than the cluster has nodes.
        """
        del jobs
        if self.canary is not None and self.canary.nodes > counts["node"]:
            rule = f"{self.canary.nodes} go first, but the cluster has {counts['node']} nodes"
            raise RuleError(("canary", "nodes"), rule)
        return Source(
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
