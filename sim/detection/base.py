"""What every kind of detection has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pydantic import Field

from sim.fields import Strategy

if TYPE_CHECKING:
    from sim.noticing import Noticing

__all__ = ["Detection"]


class Detection(Strategy, ABC):
    """From a fault to the moment when somebody notices it. Tested by the harness ``check_detection``."""

    scale: float = Field(1.0, gt=0, description="Multiplies all times of detection.")

    @abstractmethod
    def unscaled(self, fault: str, kind: str) -> Noticing | None:
        """Return `noticing` as it is with a scale of 1."""

    def noticing(self, fault: str, kind: str) -> Noticing | None:
        """Return who notices a fault, and when; ``None`` if nobody ever does, so that the job steps on.

        Parameters
        ----------
        fault
            Class of the fault, one of :data:`sim.contracts.FAULTS`.
        kind
            Kind of its effect: what it does to its nodes.
        """
        found = self.unscaled(fault, kind)
        return found.scaled(self.scale) if found is not None else None
