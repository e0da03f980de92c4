"""Families of jobs of a grid that depend on numbers of nodes: replicas that leave one by one, and few spares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sim.formulas.elastic import elastic_shares, share_in_place
from sim.formulas.goodput import expected_shares
from sim.policies.contracts import Bucket
from tests.harness import prepared
from tests.oracle.grid_job import BUCKETS, MTTI, NODES, SEED, Setting, Shares, differing, ends, exact, severity
from tests.oracle.theory.nodes import starved_shares

if TYPE_CHECKING:
    import sim


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
            failures=[{"use": "component", "name": "node", "part": "node", "rate": rate}],
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
