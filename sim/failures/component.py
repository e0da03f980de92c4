"""Parts of the cluster that fail one by one, each with a life of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from sim.failures.cause import Cause
from sim.failures.effects import Effect
from sim.failures.source import Clock, Renews, Residue, Source, slots_per_node
from sim.failures.tempo import Tempo
from sim.failures.variety import Batch, Covariate, Frailty, Variety
from sim.fields import Fraction, Model, RuleError
from sim.laws import Law

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.laws import LawModel

__all__ = ["Component", "Relapse", "Struck"]


class Relapse(Model):
    """A repair may leave the fault in the node; it then strikes again."""

    after: Law = Field(description="From the node's return to the next failure.")
    probability: Fraction | None = Field(
        None, lt=1, description="That a repair leaves the fault; with tiers of repair, those decide."
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if self.after.mean_value == 0:
            raise RuleError(("after",), "must have a mean above zero: a fault that strikes at once does so without end")
        return self

    def build(self) -> Residue:
        """Return the runtime form."""
        return Residue(self.after, self.probability)


class Struck(Cause):
    """What every cause that strikes nodes has; a kind of source says which nodes."""

    clock: Clock = Field("wall", description="Which time wears the part out.")
    idle_hazard: Fraction = Field(
        1.0, description="Hazard of a node on which no process of a job runs, relative to one on which some do."
    )
    defer: bool = Field(
        False, description="Whether a failure waits for the end of a phase that failures cannot hit, or never happens."
    )
    interrupts: Fraction = Field(1.0, description="Probability that a fault becomes a failure.")
    effect: Effect = Field("crash", description="What the fault does: crash, hang, slow, degrade, corrupt.")  # type: ignore[assignment]
    repair: Law | None = Field(None, description="Repair time of this cause, in place of the scenario's.")
    tier: str = Field("", description="Tier of repair that begins, where there are tiers; without it, the first.")
    relapse: Relapse | None = Field(None, description="What follows if a repair leaves the fault in the node.")
    tempo: Tempo | None = Field(None, description="How the hazard of all units changes in time.")

    @model_validator(mode="after")
    def _thinning_is_right(self) -> Self:
        ages = self.law is not None and not self.law.memoryless
        if self.idle_hazard < 1 and self.clock == "wall" and ages:
            raise ValueError(_thinned(self.law))
        if self.tempo is not None and self.clock != "wall":
            raise RuleError(("tempo",), f"needs clock: wall; on clock: {self.clock} there is no date")
        return self

    def common(self, part: str) -> dict[str, Any]:
        """Return what the runtime source of a part takes over as it is."""
        return {
            "name": self.name,
            "clock": self.clock,
            "idle_hazard": self.idle_hazard,
            "defer": self.defer,
            "interrupts": self.interrupts,
            "effect": self.effect,
            "repair": self.repair,
            "residue": self.relapse.build() if self.relapse is not None else None,
            "tier": self.tier,
            "tempo": self.tempo,
            **self.watched(part, self.effect),
        }

    def life(self, part: str, counts: Mapping[str, int]) -> LawModel | None:
        """Return the law of the life of one `part`; ``None`` if nothing ever fails (a rate of zero).

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        if not counts.get(part):
            there = ", ".join(name for name, count in counts.items() if count)
            raise RuleError(("part",), f"the cluster has no part '{part}' (it has {there})")
        of = part if self.rate is None else self.rate.of or part
        if of not in counts:
            raise RuleError(("rate",), f"is per {of}, and the cluster has no part '{of}'")
        return self.lives(counts[of] / counts[part])


def _thinned(law: Any) -> str:
    return (
        f"idle_hazard below 1 thins the failures, which is right only for a constant rate; "
        f"with law '{law.law}' let the life run on clock: busy instead"
    )


class Component(Struck):
    """A class of part of the topology; every part of it has its own life."""

    use: Literal["component"] = "component"
    part: str = Field("node", description="Class of part: gpu, node, nic, leaf, rack, pdu, ...")
    renews: Renews = Field("at_failure", description="When the next life begins.")
    frailty: Frailty | None = Field(None, description="Some nodes are worse than others, nobody knows why.")
    batches: tuple[Batch, ...] = Field((), description="Parts of the fleet with another law or another hazard.")
    covariates: tuple[Covariate, ...] = Field((), description="Known properties that change the hazard.")

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        total = sum(batch.share for batch in self.batches)
        if total > 1 + 1e-12:
            raise RuleError(("batches",), f"the shares add up to {total:g}; together they can be 1 at most")
        for index, batch in enumerate(self.batches):
            if self.idle_hazard < 1 and self.clock == "wall" and batch.law is not None and not batch.law.memoryless:
                raise RuleError(("batches", index, "law"), _thinned(batch.law))
        return self

    def build(self, counts: Mapping[str, int], jobs: int) -> Source:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or the rate is stated for another kind of part.
        """
        del jobs
        part, law = self.part, self.life(self.part, counts)
        variety = Variety(self.frailty, self.batches, self.covariates)
        foldable = self.renews != "never" and not variety.within_node
        if part == "gpu" and law is not None and foldable and all(each.memoryless for each in variety.laws(law)):
            # Memoryless lives of the GPUs of one node are one life of the node at their summed rate: an eighth of
            # the numbers to draw, and no other difference.
            share = counts["node"] / counts["gpu"]
            part, law, variety = "node", law.scaled(share), variety.scaled(share)
        return Source(
            part=part,
            units=counts[part],
            law=law,
            renews=self.renews,
            variety=variety,
            slots_per_node=slots_per_node(part, counts),
            **self.common(self.part),
        )
