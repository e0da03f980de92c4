"""What the property tests share: how many examples they try, and how a scenario is played with an eye on its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, settings

import sim
from sim.engine import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_EVENTS", "Scenario", "examples", "play", "prepare"]

Scenario = dict[str, Any]

MOST_EVENTS = 200_000
"""Far more than a drawn scenario can need: who plays longer goes round in circles."""


def examples(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the settings of a property: always the same examples, and no stopwatch.

    A failing example is shown as it was drawn: to make it smaller takes minutes. Add ``Phase.shrink`` by hand.
    """
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def prepare(data: Scenario) -> sim.Prepared:
    """Return a scenario, ready to run."""
    return sim.prepare(sim.parse(data))


class _Finite(Simulation):
    """A simulation that has to end."""

    def run(self) -> sim.Result:
        """Play like the simulation itself, but not for ever."""
        while self.is_open:
            self.kernel.step()
            self.events += 1
            assert self.events < MOST_EVENTS, f"{self.events} events, and it is {self.kernel.now} of {self.end} s"
        return self._result()


def play(prepared: sim.Prepared, replication: int = 0, *, keeps_log: bool = False) -> sim.Result:
    """Return the result of a replication."""
    return _Finite(prepared, replication, sim.trace(prepared, replication), keeps_log=keeps_log).run()
