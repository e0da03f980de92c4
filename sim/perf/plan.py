"""What a job's step comes to: its time and where it goes, memory, model FLOP utilisation, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sim.perf.flop import flop_per_token
from sim.perf.impaired import Impairment, impaired
from sim.perf.memory import MemoryUse, memory_use
from sim.perf.step import Breakdown, breakdown

if TYPE_CHECKING:
    from sim.perf.step import Machine
    from sim.perf.workload import Workload

__all__ = ["BAND90", "StepPlan"]

BAND90 = 1.6449
"""Standard deviations on either side that hold 90 % of a normal distribution [-]."""


_FAR = 3.0
"""Standard deviations beyond which it is not the model that errs [-]."""


@dataclass(frozen=True)
class StepPlan:
    """One step of one job, healthy or not.

    Parameters
    ----------
    work, machine
        What is done, and on what.
    scale
        Measured over modelled time, where a measured step is known [-]; the model's terms are all scaled by it.
    sigma
        Standard deviation of the logarithm of true over stated time [-].
    """

    work: Workload
    machine: Machine
    scale: float = 1.0
    sigma: float = 0.0

    @cached_property
    def breakdown(self) -> Breakdown:
        """Where the time of a healthy step goes [s]."""
        return self._scaled(breakdown(self.work, self.machine))

    @cached_property
    def time(self) -> float:
        """Time of a healthy step [s]."""
        return self.breakdown.total

    @property
    def band90(self) -> tuple[float, float]:
        """Interval that holds the time of a healthy step with 90 % [s]: log-normal."""
        spread = math.exp(BAND90 * self.sigma)
        return self.time / spread, self.time * spread

    @property
    def uses_network(self) -> bool:
        """Whether a kind of group communicates between scale-up domains."""
        return any(link.network for link in self.machine.links)

    @property
    def is_far(self) -> bool:
        """Whether the measured step is so far from the modelled one that it must be that of something else."""
        return abs(math.log(self.scale)) > _FAR * self.machine.shares.sigma

    @cached_property
    def flop(self) -> float:
        """Model FLOP of a step, without recomputation [FLOP]."""
        return self.work.sequences * self.work.sequence * flop_per_token(self.work.shape, self.work.sequence)

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation at the precision of the step, half of attention counted (causal) [-]."""
        return self.flop / (self.time * self.work.gpus * self.machine.chip.peak[self.work.precision])

    @property
    def tokens_per_second(self) -> float:
        """Tokens of a healthy second, of the whole job [1/s]."""
        return self.work.sequences * self.work.sequence / self.time

    @cached_property
    def memory(self) -> MemoryUse:
        """What the fullest GPU holds [B]."""
        return memory_use(self.work)

    @property
    def crowding(self) -> float:
        """What the fullest GPU holds over what it has [-]."""
        return self.memory.total / self.machine.chip.memory

    def impaired(self, state: Impairment) -> Breakdown:
        """Return where the time of a step goes when something is slow, narrow or missing [s]."""
        return self._scaled(impaired(self.work, self.machine, state))

    def pace(self, state: Impairment) -> float:
        """Return the pace of an impaired job relative to the healthy one [-]: healthy over impaired time of a step."""
        return self.time / self.impaired(state).total

    def _scaled(self, found: Breakdown) -> Breakdown:
        """Return a breakdown with every term scaled as measured."""
        return found if self.scale == 1.0 else Breakdown(*(self.scale * term for term in found))
