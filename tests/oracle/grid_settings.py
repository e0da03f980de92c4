"""A grid of jobs whose shares theory knows: families of one kind of waste each, from nearly none to four fifths of all.

A family says how the times of a job grow with one number, its *severity*. The severity of each setting is solved for,
so that the productive share in theory is what the grid asks for: that is how the grid covers all regimes by design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ettrick.sim.formulas.arrays import real
from ettrick.sim.formulas.elastic import elastic_shares, share_in_place
from ettrick.sim.formulas.goodput import (
    CheckpointStore,
    FailureClass,
    expected_shares,
    first_order_efficiency,
    shares_of_classes,
)
from ettrick.sim.policies.contracts import Bucket
from tests.harness import exact, prepared
from tests.oracle.theory.nodes import starved_shares
from tests.pace import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ettrick import sim

# ----------------------------------------
# A job of a grid, what theory says of it, and how far a simulation of it may be away whatever the number of draws.

MTTI = 3600.0

"""Mean time to interrupt of every job of the grid [s]; only ratios to it matter."""

NODES = 16

BUCKETS = {
    "productive": (Bucket.PRODUCTIVE,),
    "checkpoint_stall": (Bucket.CHECKPOINT_STALL,),
    "lost_work": (Bucket.LOST_WORK,),
    "detection": (Bucket.DETECTION, Bucket.RESCHEDULE, Bucket.QUEUED),
    "restart": (Bucket.INITIALIZE, Bucket.RESTORE),
    "starved": (Bucket.STARVED,),
}

"""What theory calls a share, and where the ledger has it; pauses that nothing can interrupt are downtime."""

Shares = dict[str, float]


@dataclass(frozen=True)
class Setting:
    """A job, what theory says of it, and what it would say if it were wrong.

    Parameters
    ----------
    theory
        Share by name [-].
    wrong
        Shares of theories that leave something out, by what they leave out.
    job
        The scenario with a given number of failures.
    edge
        What the two ends of a run can hold [s].
    known
        Error that the theory states of itself, by share [-]; none where it is exact.
    buckets
        Where the ledger has a share.
    """

    name: str
    theory: Shares
    wrong: dict[str, Shares]
    job: Callable[[float], sim.Prepared]
    edge: float
    known: Mapping[str, float] = field(default_factory=dict)
    buckets: Mapping[str, tuple[Bucket, ...]] = field(default_factory=lambda: BUCKETS)


def ends(at_risk: float, others: float) -> float:
    """Return what the ends of a run can hold [s].

    The job begins as after a failure. Its time since the last one is then the shorter of its age and the exponential
    one of the long run, which differ for a mean time to interrupt: shares of that time are off by no more than one
    cycle of other phases. At the end, work that is not durable counts as productive.
    """
    return min(others + at_risk, MTTI) + min(at_risk, MTTI)


def severity(theory: Callable[[float], Shares], productive: float) -> float:
    """Return the severity at which theory has a productive share."""

    def excess(logarithm: float) -> float:
        return theory(math.exp(logarithm))["productive"] - productive

    return math.exp(brentq(excess, -9.0, 3.0, xtol=1e-12))


def differing(wrong: dict[str, Shares], right: Shares) -> dict[str, Shares]:
    """Return those wrong theories that do not happen to be right."""
    return {name: shares for name, shares in wrong.items() if any(right[each] != shares[each] for each in shares)}


# ----------------------------------------
# Families of jobs of a grid that depend on numbers of nodes: replicas that leave one by one, and few spares.


@dataclass(frozen=True)
class Elastic:
    """A family of jobs of replicas of one node each that leave one by one."""

    replicas: int

    def theory(self, severity: float, mtti: float = 1.0, *, stalls: bool = True, absence: bool = True) -> Shares:
        """Return the shares in theory [-]."""
        interval, write, detection, stall, rejoin, restart, away = self.times(severity)
        return elastic_shares(
            interval,
            write,
            mtti,
            self.replicas,
            stall=stall if stalls else 0.0,
            rejoin=rejoin if stalls else 0.0,
            absence=away if absence else 0.0,
            downtime=detection,
            restart=restart,
        )

    def times(self, severity: float) -> tuple[float, float, float, float, float, float, float]:
        """Return interval, write, detection, stall, rejoin, restart and absence, in mean times to interrupt [-].

        Writes stay short: one that a failure cuts off is made again, which theory leaves out.
        """
        s = severity
        return s / 4, min(s**2 / 32, 0.02), s / 20, s / 10, s / 20, s / 20, s * math.sqrt(self.replicas) / 2

    def at(self, productive: float) -> Setting:
        """Return the setting with a productive share in theory."""
        number = severity(self.theory, productive)
        times = self.times(number)
        wrong = {
            "twice the rate": self.theory(number, 0.5),
            "no stalls": self.theory(number, stalls=False),
            "no absences": self.theory(number, absence=False),
            "a rigid job": expected_shares(times[0], times[1], 1.0, times[-2], times[2]) | {"starved": 0.0},
        }
        right = self.theory(number)
        # At the start no replica is away, and the job has to start.
        begin = times[-1] * (1 - share_in_place(1 / self.replicas, times[-1], times[2])) + times[-2]
        return Setting(
            f"{productive:.2f}",
            right,
            differing(wrong, right),
            partial(self.job, times),
            begin * MTTI + ends((times[0] + times[1]) * MTTI, sum(times[2:5]) * MTTI),
            self.left_out(times, right),
            BUCKETS | {"detection": (Bucket.DETECTION,), "restart": (Bucket.RESCHEDULE, *BUCKETS["restart"])},
        )

    def left_out(self, times: tuple[float, ...], right: Shares) -> Shares:
        """Return by how much theory may be off, because failures of the others are Poisson to it, whoever is away [-].

        That errs by the square of what stalls take. And when the last replica fails too, what is lost was done by that
        one alone; theory counts it as if by all of them.
        """
        stalls = 0.02 * sum(times[2:5]) ** 2
        return dict.fromkeys(right, stalls) | {"lost_work": stalls + right["lost_work"] * (1 - 1 / self.replicas)}

    def job(self, times: tuple[float, ...], failures: float) -> sim.Prepared:
        """Return the scenario; a repair is short against an absence, and other nodes are always there."""
        interval, write, detection, stall, rejoin, restart, away = (MTTI * each for each in times)
        rate = f"{86400 / MTTI / self.replicas!r} per node-day"
        return prepared(
            cluster={"nodes": self.replicas + 12, "gpus_per_node": 1, "fabric": {"rails": 1}},
            horizon=exact(failures * MTTI),
            jobs=[{"name": "job", "gpus": self.replicas, "parallelism": {"data": self.replicas}}],
            failures=[{"use": "component", "name": "node", "part": "node", "rate": rate, "idle_hazard": "0 %"}],
            detection={"time": exact(detection)},
            checkpoint={
                "tiers": [{"interval": exact(interval), "mode": "blocking", "write": exact(write), "restore": "0 s"}]
            },
            recovery={
                "use": "shrink-rejoin",
                "reconfigure": exact(stall),
                "initialize": exact(restart),
                "catch_up": exact(away - restart),
                "rejoin": exact(rejoin),
            },
            repair={"time": exact(MTTI / 10)},
            seed=SEED,
        )


@dataclass(frozen=True)
class Starved:
    """A family of rigid jobs with a few spares, which wait for a repair when there is none."""

    spares: int

    def theory(self, severity: float, mtti: float = 1.0, spares: int | None = None) -> Shares:
        """Return the shares in theory [-]."""
        interval, write, restart, repair = self.times(severity)
        extra = self.spares if spares is None else spares
        return starved_shares(interval, write, NODES * mtti, repair, NODES, extra, restart=restart)

    def times(self, severity: float) -> tuple[float, float, float, float]:
        """Return interval, write, restart and repair, in mean times to interrupt [-]."""
        return severity / 4, severity**2 / 32, severity / 10, severity + self.spares / 4

    def at(self, productive: float) -> Setting:
        """Return the setting with a productive share in theory."""
        number = severity(self.theory, productive)
        times = self.times(number)
        plenty = expected_shares(times[0], times[1], 1.0, times[2])
        wrong = {
            "twice the rate": self.theory(number, 0.5),
            "one more spare": self.theory(number, spares=self.spares + 1),
            "spares without end": plenty | {"starved": 0.0},
        }
        right = self.theory(number)
        return Setting(
            f"{productive:.2f}",
            right,
            differing(wrong, right),
            partial(self.job, times),
            ends((times[0] + times[1]) * MTTI, (times[2] + times[3]) * MTTI),
        )

    def job(self, times: tuple[float, ...], failures: float) -> sim.Prepared:
        """Return the scenario, which begins as after a long time."""
        interval, write, restart, repair = (MTTI * each for each in times)
        rate = f"{86400 / MTTI / NODES!r} per node-day"
        running = 1 - self.theory_of(times)["starved"]
        return prepared(
            cluster={"nodes": NODES + self.spares, "gpus_per_node": 1, "fabric": {"rails": 1}},
            horizon=exact(failures * MTTI / running),
            initial="stationary",
            jobs=[{"name": "job", "gpus": NODES}],
            failures=[{"use": "component", "name": "node", "part": "node", "rate": rate, "renews": "at_return"}],
            checkpoint={
                "tiers": [{"interval": exact(interval), "mode": "blocking", "write": exact(write), "restore": "0 s"}]
            },
            recovery={"use": "hot-spare", "initialize": exact(restart)},
            spares={"hot": self.spares},
            repair={"time": exact(repair)},
            seed=SEED,
        )

    def theory_of(self, times: tuple[float, ...]) -> Shares:
        """Return the shares of given times in theory [-]."""
        return starved_shares(times[0], times[1], NODES, times[3], NODES, self.spares, restart=times[2])


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
        found = shares_of_classes(1 / mtti, [failure], [CheckpointStore(times.interval, times.write, times.drain)])
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
        whole = {"use": "job", "name": "failure", "law": {"use": "exponential", "mean": exact(MTTI)}}
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
    return {"use": "exponential", "mean": exact(mean)} if mean else exact(0.0)


def table(mean: float) -> Any:
    """Return the law of a table."""
    return {"use": "empirical", "values": [exact(mean * part) for part in SPREAD]} if mean else exact(0.0)


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
