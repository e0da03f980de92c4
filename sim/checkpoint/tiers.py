"""Checkpoints to a ladder of stores, as a user describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.checkpoint.ladder import Ladder
from sim.checkpoint.periodic import Periodic
from sim.checkpoint.tier import Tier
from sim.fields import RuleError, Size, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.checkpoint.ladder import Pause
    from sim.checkpoint.stores import Rung

__all__ = ["Tier", "Tiers"]


class Tiers(Strategy):
    """Checkpoints to a ladder of stores, each with a rhythm of its own."""

    use: Literal["tiers"] = "tiers"
    tiers: tuple[Tier, ...] = Field(
        min_length=1,
        description="The stores, each at most once; one of them is remote: the only one that nodes need not. "
        "A recovery preset adds its own to these, with from_preset: true.",
    )
    size: Size | None = Field(
        None, gt=0, description="Size of a checkpoint, for times from bandwidths; without it, that of the job's model."
    )
    from_preset: bool = Field(False, description="Whether the stores of the recovery preset are added to these.")

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        seen: set[str] = set()
        for index, tier in enumerate(self.tiers):
            if tier.store in seen:
                raise RuleError(("tiers", index, "store"), f"'{tier.store}' is there already: give each store once")
            seen.add(tier.store)
        if "remote" not in seen:
            rule = "has no 'store: remote': what nodes hold goes with them, and a job must have something to start from"
            raise RuleError(("tiers",), rule)
        return self

    @property
    def by_replica(self) -> bool:
        """Whether it matters which replica has lost what."""
        return any(tier.store == "peer" or tier.every_replica for tier in self.tiers)

    def build(
        self,
        mtti: float,
        step: float,
        *,
        nodes: int = 1,
        replicas: int = 1,
        size: float | None = None,
        periodic: Sequence[Pause] = (),
    ) -> Periodic | Ladder:
        """Return the closed form for a job.

        Parameters
        ----------
        mtti
            Mean time to interrupt that the scenario states before any simulation [s]; used by the rules.
        step
            Time of a healthy step [s]; 0 for continuous progress.
        nodes, replicas
            Of the job [-].
        size
            Of a checkpoint of its model [B], if that is known.
        periodic
            Work that stops the job beside the saves.

        Raises
        ------
        RuleError
            If something that a time or an interval follows from is not known.
        """
        rungs = tuple(self._rung(index, mtti, step, nodes, replicas, size) for index in range(len(self.tiers)))
        first = rungs[0]
        is_plain = len(rungs) == 1 and first.retain is None and not first.corrupt and not first.skips and not periodic
        if is_plain:
            return Periodic(first.interval, first.stall, first.drain, first.load, first.transfer)
        return Ladder(rungs, tuple(periodic), nodes, replicas)

    def _rung(self, index: int, mtti: float, step: float, nodes: int, replicas: int, size: float | None) -> Rung:
        """Return one of the stores in numbers."""
        try:
            return self.tiers[index].rung(mtti, step, nodes, replicas, self.size if self.size is not None else size)
        except RuleError as error:
            raise RuleError(("tiers", index, *error.at), error.rule) from None
