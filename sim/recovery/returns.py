"""Ways back after a failure, as a closed form has to know them: by the laws of their times, and from which copies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.laws import Fixed
from sim.recovery.phases import Phase, longest, rule_of_longest
from sim.theory.expansion import Expansion, decay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.contracts import Keeps
    from sim.laws import LawModel
    from sim.recovery.phases import Crew, Held
    from sim.theory.expansion import Number

__all__ = ["QUEUE", "Hit", "Return", "Span", "Wait", "spans"]


class Hit(NamedTuple):
    """A failure as a closed form knows it: its class, and what it takes of a job.

    Parameters
    ----------
    fault
        Class of the fault.
    gpus, nodes
        Size of the job [-].
    takes
        Nodes that leave the job for a while [-].
    """

    fault: str
    gpus: int
    nodes: int
    takes: int


class Wait(NamedTuple):
    """How a job waits for nodes that are not there, as a closed form knows it.

    Parameters
    ----------
    pools
        Where it takes nodes.
    before
        Mean time from the failure being known to the job asking for nodes [s].
    patience
        How long it waits with the nodes that are left before it gives all back to the queue [s].
    delay
        Mean time from then on in which it is not eligible [s].
    more
        By how much its restart is longer after the queue, mean [s].
    exposed
        Whether failures can hit its other nodes while it waits.
    fills
        Whether it fills hot spares up from other pools when it takes nodes.
    """

    pools: tuple[str, ...]
    before: float = 0.0
    patience: float = math.inf
    delay: float = 0.0
    more: float = 0.0
    exposed: bool = True
    fills: bool = False

    def scaled(self, factor: float) -> Wait:
        """Return the same with all its times multiplied by a factor [-]."""
        times = {name: getattr(self, name) * factor for name in ("before", "patience", "delay", "more")}
        return self._replace(**times)


QUEUE = ("idle", "spare")
"""Where a job that was requeued takes nodes."""


class Span(NamedTuple):
    """One of the times that make a restart.

    Parameters
    ----------
    law
        Law of the time.
    factor
        What it is multiplied by [-].
    draws
        How many draw it [-]; the longest counts.
    exposed
        Whether failures can hit the job meanwhile.
    """

    law: LawModel
    factor: float = 1.0
    draws: int = 1
    exposed: bool = True

    @property
    def mean(self) -> float:
        """Mean of the time [s]."""
        return self.factor * longest(self.law, self.draws)

    def survival(self, rate: Number) -> Number:
        r"""Return the probability that no failure strikes meanwhile, ``E exp(-rate X)`` [-]: the Laplace transform.

        Of an expansion it is ``1 - rate E X + rate^2 E X^2 / 2``.

        Parameters
        ----------
        rate
            Failures of the job [1/s].
        """
        if isinstance(self.law, Fixed):
            return decay(rate * (self.factor * self.law.value))
        times, weights = rule_of_longest(self.law, self.draws)
        if isinstance(rate, Expansion):
            square = self.factor**2 * float(weights @ times**2)
            return 1.0 - rate * self.mean + rate * rate * (square / 2)
        return float(weights @ np.exp(-rate * self.factor * times))


class Return(NamedTuple):
    """One way back.

    Parameters
    ----------
    keeps
        What is left of the job for its restore.
    spans
        Times between the failure being known and the restore, in their order.
    joiners
        Nodes that join [-].
    chance
        Probability that a failure of the kind is come back from like this [-].
    exposed
        Whether failures can hit the restore.
    """

    keeps: Keeps
    spans: tuple[Span, ...]
    joiners: int = 0
    chance: float = 1.0
    exposed: bool = True

    def scaled(self, factor: float) -> Return:
        """Return the same with all its times multiplied by a factor [-]."""
        return self._replace(spans=tuple(span._replace(factor=span.factor * factor) for span in self.spans))


def spans(phases: Held, crew: Crew, fault: str = "", *, exposed: bool = True) -> Iterator[Span]:
    """Yield the times of phases that are due; `exposed` tells whether failures can hit those that do not say.

    Parameters
    ----------
    phases
        The phases, as a field holds them.
    crew
        Who goes through them.
    fault
        Class of the fault; nothing at a start.
    """
    if not isinstance(phases, tuple):
        yield Span(phases, exposed=exposed)
        return
    for phase in phases:
        if phase.is_due(crew, fault):
            yield _of(phase, crew, exposed=exposed and phase.exposed == "both")


def _of(phase: Phase, crew: Crew, *, exposed: bool) -> Span:
    """Return the time of a phase."""
    return Span(phase.time, phase.factor(crew), phase.count(crew), exposed)
