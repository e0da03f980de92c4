"""Hidden faults: some nodes have them, fail again and again, and are healthy once a repair has found them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.failures.component import Struck
from sim.failures.source import Hidden, Source
from sim.fields import Fraction, Rate, RuleError
from sim.laws import Exponential

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Defect"]


class Defect(Struck):
    """A fault that a share of the nodes has. It strikes by its own law until a repair removes it.

    Any successful repair of the node removes it, whatever it was for.
    """

    use: Literal["defect"] = "defect"
    share: Fraction = Field(description="Share of the nodes that have it at the start.")
    exact: bool = Field(
        False, description="Whether exactly this share has it (rounded down), not each node with this probability."
    )
    onset: Rate | None = Field(None, description="Rate at which nodes without it catch it.")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.relapse is not None:
            raise RuleError(("relapse",), "a hidden fault that a repair leaves strikes again by its own law")
        if self.clock == "in_service":
            raise RuleError(("clock",), "must be wall or busy")
        if self.tempo is not None:
            raise RuleError(("tempo",), "a hidden fault strikes by its law alone")
        if self.onset is not None and self.onset.of not in ("", "node"):
            raise RuleError(("onset",), f"is per node, not per {self.onset.of}")
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the rate is stated for another kind of part.
        """
        del jobs
        onset = None
        if self.onset is not None and self.onset.per_second > 0:
            onset = Exponential.from_seconds(mean=1 / self.onset.per_second)
        source = Source(
            part="node", units=counts["node"], law=self.life("node", counts), slots_per_node=1, **self.common("node")
        )
        return replace(source, hidden=Hidden(self.share, self.exact, onset))
