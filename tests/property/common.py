"""What the property tests share: how many examples they try, and how a scenario is played with an eye on its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from ettrick import sim
from ettrick.sim.engine.simulation import Simulation
from tests.harness import check_books
from tests.pace import IS_FULL, SEED, budget

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

Scenario = dict[str, Any]

MOST_EVENTS = 200_000

"""Far more than a drawn scenario can need: who plays longer goes round in circles."""


def examples(count: int, on_push: int | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the settings of a property: one example in sixteen (or `on_push`), always the same, or all for a seed.

    There is no stopwatch, and a failing example is shown as it was drawn: to make it smaller takes minutes. Add
    ``Phase.shrink`` by hand.
    """
    given = settings(
        max_examples=budget(count) if on_push is None or IS_FULL else on_push,
        derandomize=not IS_FULL,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    return (lambda test: seed(SEED)(given(test))) if IS_FULL else given


def prepare(data: Scenario) -> sim.Prepared:
    """Return a scenario, ready to run."""
    return sim.prepare(sim.parse(data))


def is_even(prepared: sim.Prepared) -> bool:
    """Return whether all nodes are equally fast, and equally near one another, while nothing is out."""
    if prepared.network is None:
        return True
    levels = set(prepared.network.bandwidth.values())
    return len(set(prepared.network.pool_of_node)) == len(levels) == 1


def at_its_best(data: Scenario) -> Scenario:
    """Return a scenario whose nodes are all like those of the first pool, and with a network that slows no job."""
    cluster = {key: value for key, value in data["cluster"].items() if key != "pools"}
    if "pools" in data["cluster"]:
        cluster["nodes"] = sum(pool["count"] for pool in data["cluster"]["pools"])
    jobs = [{key: value for key, value in job.items() if key != "communication"} for job in data["jobs"]]
    return data | {"cluster": cluster, "jobs": jobs}


def larger(cluster: Scenario) -> Scenario:
    """Return a cluster with twice the nodes, of which the first are those of the old one."""
    if "pools" not in cluster:
        return cluster | {"nodes": 2 * cluster["nodes"]}
    *first, last = cluster["pools"]
    total = sum(pool["count"] for pool in cluster["pools"])
    return cluster | {"pools": [*first, last | {"count": last["count"] + total}]}


class _Finite(Simulation):
    """A simulation that has to end."""

    slowest = 1.0
    """The lowest pace of the nodes and the network of any job that is seen [-]."""

    def run(self) -> sim.Result:
        """Play like the simulation itself, but not for ever."""
        while self.is_open:
            self.kernel.step()
            self.events += 1
            self.slowest = min(self.slowest, *(job.speed for job in self.jobs.all))
            assert self.events < MOST_EVENTS, f"{self.events} events, and it is {self.kernel.now} of {self.end} s"
        result = self._result()
        check_books(result)
        return result


def play(prepared: sim.Prepared, replication: int = 0, *, keeps_log: bool = False) -> sim.Result:
    """Return the result of a replication."""
    return _Finite(prepared, replication, sim.trace(prepared, replication), keeps_log=keeps_log).run()


def slowest(prepared: sim.Prepared) -> tuple[sim.Result, float]:
    """Return the result of the first replication, and the lowest pace of a job in it [-]."""
    simulation = _Finite(prepared, 0, sim.trace(prepared, 0))
    return simulation.run(), simulation.slowest


def drawn(strategy: SearchStrategy[Scenario], number: int) -> Scenario:
    """Return the example of a strategy that belongs to a number, independent of those of other numbers."""
    found: list[Scenario] = []
    given_number = settings(
        max_examples=2,  # the first is always the simplest
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def keep(data: Scenario) -> None:
        found.append(data)

    seed(number)(given_number(given(strategy)(keep)))()
    return found[-1]
