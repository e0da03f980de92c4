"""Every repair succeeds after a time drawn from one law."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sim.contracts import Course, Visit
from sim.fields import Strategy
from sim.laws import Fixed, Law, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts import Memory, NodeView
    from sim.laws import LawModel

__all__ = ["Simple"]


class Simple(Strategy):
    """A failed node is repaired at once, by as many crews as it takes, and is then healthy.

    A time of zero means that the node never leaves: the failure interrupts the job and nothing has to be replaced.
    """

    use: Literal["simple"] = "simple"
    time: Law | None = Field(
        None,
        description="From the moment when the failure is known to the node's return. Without it, that of each cause.",
    )
    scale: float = Field(1.0, gt=0, description="Multiplies all times of repair, those of causes included.")

    @functools.cached_property
    def single_time(self) -> LawModel:
        """The law: there is nothing else to it. Without one every cause has its own."""
        return Fixed.from_seconds(value=0.0) if self.time is None else self.time.scaled(self.scale)

    @property
    def is_stated(self) -> bool:
        """Whether it says how long repairs take, and not only their scale."""
        return self.time is not None

    @property
    def success(self) -> float:
        """Every repair succeeds, unless its cause says otherwise."""
        return 1.0

    @property
    def crews(self) -> tuple[int | None, ...]:
        """As many as it takes."""
        return (None,)

    @property
    def replacement(self) -> LawModel | None:
        """Nothing is retired."""
        return None

    def diagnose(self, mark: Callable[[str], float]) -> Literal["right", "other", "none"]:
        """Blame the node that failed."""
        del mark
        return "right"

    def course(self, node: NodeView, memory: Memory) -> tuple[Course, Memory]:
        """Repair once."""
        return Course((Visit(0, draw(self.single_time, node.mark, "repair")),), fixed=True), memory

    def score(self, memory: Memory) -> float:
        """Nothing is remembered."""
        del memory
        return 0.0
