"""Incidents in a shared part that take some or all of its nodes: a rack, a cooling loop, a switch, a whole hall."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.component import Struck
from sim.failures.size import Size
from sim.failures.source import Blast, Source
from sim.fields import RuleError
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Incident"]


class Incident(Struck):
    """Something that happens to a domain and takes a random part of its nodes, at once or one after another.

    With ``spread`` it is a cluster process: incidents are the parents, and each node that one takes fails by itself.
    """

    use: Literal["incident"] = "incident"
    part: str = Field("cluster", description="The shared part: cluster, rack, pdu, leaf, pod, ...")
    size: Size | None = Field(None, description="How many nodes it takes; without it, all of the domain.")
    spread: Law | None = Field(
        None, description="Delay of each node, which is then a failure of its own; without it they fail as one."
    )
    repaired: Literal["part", "nodes"] = Field(
        "nodes", description="Whether one repair mends the shared part, or each node has its own."
    )

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        if self.spread is not None and self.repaired == "part":
            raise RuleError(("repaired",), "must be nodes with a spread: each node is then a failure of its own")
        if self.repaired == "part" and self.relapse is not None:
            raise RuleError(("relapse",), "needs repaired: nodes; it is nodes that relapse")
        if self.clock != "wall":
            raise RuleError(("clock",), f"must be wall: a {self.part} serves many jobs, or none")
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        del jobs
        counts = {**counts, "cluster": 1}
        law = self.life(self.part, counts)
        source = Source(part=self.part, units=counts[self.part], law=law, **self.common(self.part))
        return replace(source, blast=Blast(counts["node"], self.size, self.spread, self.repaired))
