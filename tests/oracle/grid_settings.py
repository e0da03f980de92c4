"""A grid of jobs whose shares theory knows: families of one kind of waste each, from nearly none to four fifths of all.

A family says how the times of a job grow with one number, its *severity*. The severity of each setting is solved for,
so that the productive share in theory is what the grid asks for: that is how the grid covers all regimes by design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim.formulas.arrays import real
from sim.formulas.goodput import FailureClass, Store, expected_shares, first_order_efficiency, shares_of_classes
from tests.harness import prepared
from tests.oracle.grid_job import MTTI, NODES, SEED, Setting, Shares, differing, ends, exact, severity
from tests.oracle.grid_nodes import Elastic, Starved

if TYPE_CHECKING:
    from collections.abc import Callable

    import sim


REGIMES = (0.98, 0.95, 0.86, 0.75, 0.65, 0.55, 0.45, 0.35, 0.2)
"""Productive shares of the settings of a rigid job, in theory [-]."""


class Times(NamedTuple):
    """Times of a rigid job, in mean times to interrupt [-]; the pause is not exposed to failures."""

    interval: float
    write: float
    restart: float = 0.0
    detection: float = 0.0
    pause: float = 0.0
    drain: float = 0.0


@dataclass(frozen=True)
class Rigid:
    """A family of jobs that restart as one.

    Parameters
    ----------
    times
        From the severity to the times of a job.
    recovery
        The strategy.
    by_node
        Whether nodes fail, and not the job as a whole.
    law
        Law of pauses and restarts, from its mean. Times of detection are fixed: of random ones the earliest counts.
    transform
        ``E exp(-U)`` of a restart of that law, from its mean [-].
    """

    times: Callable[[float], Times]
    recovery: str = "hot-spare"
    by_node: bool = False
    law: Callable[[float], Any] = exact
    transform: Callable[[float], float] = lambda mean: math.exp(-mean)

    def theory(self, times: Times, mtti: float = 1.0) -> Shares:
        """Return the shares in theory [-]; with restarts of one length they are those of `expected_shares`."""
        downtime = times.detection + times.pause
        if self.law is exact:
            return expected_shares(times.interval, times.write, mtti, times.restart, downtime, times.drain)
        # A pause that nothing can hit is to theory what a detection is.
        failure = FailureClass(1.0, downtime, self.transform(times.restart / mtti))
        found = shares_of_classes(1 / mtti, [failure], [Store(times.interval, times.write, times.drain)])
        return {
            "productive": real(found.productive),
            "checkpoint_stall": real(found.checkpoint_stall),
            "lost_work": real(found.lost_work[0]),
            "detection": real(found.detection[0]),
            "restart": real(found.restart[0]),
        }

    def wrong(self, times: Times) -> dict[str, Shares]:
        """Return theories that leave something out."""
        first = first_order_efficiency(
            times.interval, times.write, 1.0, times.restart + times.detection + times.pause + times.drain
        )
        found = {
            "twice the rate": self.theory(times, 0.5),
            "first order": {"productive": float(first)},
            "free saves": self.theory(times._replace(write=0.0)),
            "no downtime": self.theory(times._replace(detection=0.0, pause=0.0)),
            "no drain": self.theory(times._replace(drain=0.0)),
            "restarts of mean length": Rigid(self.times).theory(times),
        }
        return differing(found, self.theory(times))

    def at(self, productive: float) -> Setting:
        """Return the setting with a productive share in theory."""
        times = self.times(severity(lambda number: self.theory(self.times(number)), productive))
        return Setting(
            f"{productive:.2f}",
            self.theory(times),
            self.wrong(times),
            partial(self.job, times),
            ends(
                (times.interval + times.write + times.drain) * MTTI,
                (times.restart + times.detection + times.pause) * MTTI,
            ),
        )

    def job(self, times: Times, failures: float) -> sim.Prepared:
        """Return the scenario, long enough for a number of failures on average."""
        interval, write, restart, detection, pause, drain = (MTTI * each for each in times)
        saves = {"interval": exact(interval), "restore": "0 s"}
        saves |= (
            {"stall": exact(write), "write": exact(drain)} if drain else {"mode": "blocking", "write": exact(write)}
        )
        node = {"use": "component", "name": "node", "part": "node", "rate": f"{86400 / MTTI / NODES!r} per node-day"}
        whole = {"use": "job", "name": "failure", "law": {"law": "exponential", "mean": exact(MTTI)}}
        pauses = {
            "hot-spare": {"reschedule": self.law(pause), "exposed": False},
            "full-restart": {"delay": exact(pause)},
        }
        return prepared(
            cluster={"nodes": NODES + 4, "gpus_per_node": 1, "fabric": {"rails": 1}},
            horizon=exact(failures * (MTTI + detection + pause)),
            jobs=[{"name": "job", "gpus": NODES}],
            failures=[node if self.by_node else whole],
            detection={"time": exact(detection)},
            checkpoint={"tiers": [saves]},
            recovery={"use": self.recovery, "initialize": self.law(restart), **pauses[self.recovery]},
            repair={"time": "0 s"},
            seed=SEED,
        )


REPLICAS = {2: (0.98, 0.95, 0.9, 0.85), 8: (0.95, 0.75, 0.55, 0.35), 64: (0.95, 0.75, 0.55, 0.35)}
"""Numbers of replicas, and productive shares of their settings in theory [-]: of two, both are often away beyond."""

SPREAD = (0.2, 0.2, 0.4, 0.8, 3.4)
"""Restarts of a table, as parts of their mean: a few take most of the time."""


def exponential(mean: float) -> Any:
    """Return the exponential law."""
    return {"law": "exponential", "mean": exact(mean)} if mean else exact(0.0)


def table(mean: float) -> Any:
    """Return the law of a table."""
    return {"law": "empirical", "values": [exact(mean * part) for part in SPREAD]} if mean else exact(0.0)


RIGID = {
    "saves": Rigid(lambda s: Times(s, s**2 / 2)),
    "long intervals": Rigid(lambda s: Times(s, 0.0)),
    "restarts": Rigid(lambda s: Times(s / 4, s**2 / 32, restart=s)),
    "drains": Rigid(lambda s: Times(s, s**2 / 50, restart=s / 5, drain=0.8 * s)),
    "detection": Rigid(lambda s: Times(s / 4, s**2 / 32, restart=s / 4, detection=s), by_node=True),
    "queues": Rigid(lambda s: Times(s / 4, s**2 / 32, restart=s / 4, pause=s), "full-restart", by_node=True),
    "random restarts": Rigid(
        lambda s: Times(s / 4, s**2 / 32, restart=s, pause=s / 4, detection=s / 4),
        by_node=True,
        law=exponential,
        transform=lambda mean: 1 / (1 + mean),
    ),
    "restarts of a table": Rigid(
        lambda s: Times(s / 4, s**2 / 32, restart=s, detection=s / 4),
        law=table,
        transform=lambda mean: float(np.mean(np.exp(-mean * np.array(SPREAD)))),
    ),
    "everything": Rigid(lambda s: Times(s / 2, s**2 / 20, s / 3, detection=s / 5, pause=s / 3, drain=s / 4)),
}

FAMILIES: dict[str, list[Setting]] = {
    **{name: [family.at(productive) for productive in REGIMES] for name, family in RIGID.items()},
    **{f"{number} replicas": [Elastic(number).at(share) for share in shares] for number, shares in REPLICAS.items()},
    **{f"{number} spares": [Starved(number).at(share) for share in (0.8, 0.6, 0.4, 0.2)] for number in (0, 1, 3)},
}
GRID = [setting for settings in FAMILIES.values() for setting in settings]
