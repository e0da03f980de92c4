r"""The break-even of replicas that leave one by one: the reconfiguration time at which a restart in place does as well.

A node fails. A job that *restarts* loses, with all its GPUs, the restart u, the restore r and the work since the last
durable checkpoint: half of an interval tau and of a write b, and the drain w, on average. A job of R *elastic* replicas
loses the one that was hit for its absence a, the others for the time c in which they reconfigure and about one step T,
and all for the stall j when it is back. To first order elasticity pays if

.. math:: \frac{a}{R} + \frac{R - 1}{R} (c + T) + j < u + r + \frac{\tau + b}{2} + w

Detection is the same for both. Below, both sides are exact as far as `ettrick.sim.formulas.goodput` and
`ettrick.sim.formulas.elastic` are, or simulated on the same failures. All times [s].
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick import sim
from ettrick.analysis.validation.lab import MeasuredQuantity, estimate, seconds
from ettrick.sim.formulas.elastic import elastic_shares
from ettrick.sim.formulas.goodput import expected_shares
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.validation.lab import ScenarioRunner

    FloatArray = NDArray[np.float64]


_SPARES = 16
"""Hot spares: with repairs of an hour a node is available whenever one fails."""


@dataclass(frozen=True)
class Rivals:
    """A job on a cluster, run in two ways: its replicas leave one by one, or all of it restarts in place.

    Parameters
    ----------
    replicas
        Replicas that can leave alone, R [-]; at least 2.
    mtti, others
        Mean time between the failures that take a node, and between those that strike all ranks and restart both jobs
        [s].
    detection
        Time until a failure is known [s].
    restart
        Restart of the whole job, its restore left out, u [s]; at most `absence`.
    absence
        Time until a replica with new nodes is ready to join, a [s].
    rejoin
        Stall of the others when it joins, j [s].
    interval, write, drain, restore
        Computing time between saves, tau, blocking time of one, from its end to durability, w, and restore, r [s].
    step
        Time of a step, T [s]; intervals are rounded up to whole steps.
    nodes, gpus_per_node
        Size of the job in the simulation [-]; the formulas do not need it.
    """

    replicas: int
    mtti: float
    others: float
    detection: float
    restart: float
    absence: float
    rejoin: float
    interval: float
    write: float
    drain: float
    restore: float
    step: float
    nodes: int
    gpus_per_node: int = 8

    def __post_init__(self) -> None:
        """Refuse what neither formula nor simulation describes."""
        if self.replicas < 2:
            raise ValueError(
                f"replicas must be at least 2, because a single one leaves none behind, got {self.replicas}"
            )
        if self.absence < self.restart:
            message = f"absence must be at least restart, which is a part of it: {self.absence} s and {self.restart} s"
            raise ValueError(message)

    @property
    def stepping(self) -> float:
        """Computing time between saves, in whole steps [s]."""
        return math.ceil(self.interval / self.step - 1e-9) * self.step if self.step else self.interval

    @property
    def restarted(self) -> float:
        """Expected share of productive time of the job that restarts [-]."""
        rate = 1 / self.mtti + 1 / self.others
        wait = self.restart + self.restore
        return expected_shares(self.stepping, self.write, 1 / rate, wait, self.detection, self.drain)["productive"]

    def elastic(self, reconfigure: float) -> float:
        """Return the expected share of productive time of the elastic job for a reconfiguration time [-]."""
        shares = elastic_shares(
            self.stepping,
            self.write,
            self.mtti,
            self.replicas,
            stall=reconfigure,
            # A replica that is ready before the others go on waits for them.
            absence=max(self.absence, reconfigure),
            rejoin=self.rejoin,
            restart=self.restart + self.restore,
            downtime=self.detection,
            drain=self.drain,
            step=self.step,
            others=self.others,
        )
        return shares["productive"]

    @property
    def restart_cost(self) -> float:
        """The cost of a failure of a node to the job that restarts, to first order and without its detection [s]."""
        return self.restart + self.restore + (self.stepping + self.write) / 2 + self.drain

    def elastic_cost(self, reconfigure: float) -> float:
        """Return what it costs the elastic job, in seconds of all its GPUs, to first order and without detection."""
        victim = max(self.absence, reconfigure) + self.step / 2
        return (victim + (self.replicas - 1) * (reconfigure + self.step)) / self.replicas + self.rejoin

    def gain(self, reconfigure: float) -> float:
        """Return by how much the elastic job's expected share of productive time is above the other's [-]."""
        return self.elastic(reconfigure) - self.restarted

    def prepared(self, horizon: float, seed: int, reconfigure: float | None = None) -> sim.Prepared:
        """Return the job that restarts, or with a reconfiguration time [s] the elastic one, ready to run.

        The elastic job restarts as the other one does, and what its absence takes beyond that is to catch up.
        """
        recovery: dict[str, Any] = {"use": "hot-spare", "initialize": seconds(self.restart)}
        if reconfigure is not None:
            recovery |= {
                "use": "shrink-rejoin",
                "reconfigure": seconds(reconfigure),
                "catch_up": seconds(self.absence - self.restart),
                "rejoin": seconds(self.rejoin),
            }
        return sim.prepare(sim.parse(self._document(horizon, seed) | {"recovery": recovery}))

    def _document(self, horizon: float, seed: int) -> dict[str, Any]:
        """Return the scenario but for its recovery; replicas are whole nodes side by side."""
        width = self.nodes // self.replicas
        job: dict[str, Any] = {"name": "job", "gpus": width * self.replicas * self.gpus_per_node}
        job["parallelism"] = {"tensor": self.gpus_per_node, "pipeline": width, "data": self.replicas}
        if self.step:
            job["step_time"] = seconds(self.step)
        # The rate of a node is that of the nodes which the job has.
        life = {"use": "exponential", "mean": seconds(self.mtti * width * self.replicas)}
        failures: list[dict[str, Any]] = [{"use": "component", "name": "node", "part": "node", "law": life}]
        if math.isfinite(self.others):
            law = {"use": "exponential", "mean": seconds(self.others)}
            # A hang strikes all ranks, for its origin is unknown; an error would send one replica away.
            failures.append({"use": "job", "name": "others", "law": law, "fault": "hang"})
        saves = {"interval": self.stepping, "stall": self.write, "write": self.drain, "restore": self.restore}
        hosts = {"nodes": width * self.replicas + _SPARES, "gpus_per_node": self.gpus_per_node}
        return {
            "name": "crossover",
            "cluster": {"name": "crossover", **hosts, "fabric": {"rails": self.gpus_per_node, "radix": 1024}},
            "horizon": seconds(horizon),
            "jobs": [job],
            "failures": failures,
            "detection": {"time": seconds(self.detection)},
            "checkpoint": {"tiers": [{"mode": "async", **{key: seconds(value) for key, value in saves.items()}}]},
            "spares": {"hot": _SPARES},
            "repair": {"time": "1 h"},
            "seed": seed,
        }


# The crossover of two rivals: by the closed form, and by simulation on the same failures.


def expected_crossover(rivals: Rivals) -> float | None:
    """Return the reconfiguration time at which both jobs are expected to get as much done [s].

    Returns
    -------
    float or None
        Below it elasticity pays; ``None`` if it does not even with a reconfiguration that takes no time.
    """
    return _root(rivals.gain, _first_bracket(rivals), 1e-6)


def _first_bracket(rivals: Rivals) -> float:
    """Return a reconfiguration time of the order of what a restart costs [s], above zero."""
    return rivals.restart + rivals.restore + rivals.interval + rivals.drain + rivals.step


def _root(gain: Callable[[float], float], high: float, tolerance: float) -> float | None:
    """Return the zero of a falling function above zero, or ``None`` if it begins below; `high` is a first guess."""
    from scipy.optimize import brentq

    if gain(0.0) <= 0:
        return None
    while gain(high) > 0:
        high *= 2
    return float(brentq(gain, 0.0, high, xtol=tolerance))


class SimulatedCrossover(NamedTuple):
    """A crossover that was found by simulation, and its standard error [s]."""

    seconds: float
    error: float


def simulated_crossover(
    rivals: Rivals, replications: int = 24, *, horizon: float = 18 * DAY, seed: int = 1
) -> SimulatedCrossover | None:
    """Return the reconfiguration time at which both jobs got as much done on the same failures.

    The root of the mean paired difference D is bracketed to some seconds, and the rest is Newton's step with the slope
    D' found there. By the delta method its standard error is ``s / (sqrt(n) |D'|)``, with s the standard deviation of
    the n differences.

    Parameters
    ----------
    replications, horizon, seed
        How many runs of either, how long each is [s], and their noise.

    Returns
    -------
    Crossing or None
        ``None`` if the elastic job got less done even with a reconfiguration that takes no time.

    References
    ----------
    A. M. Law, "Simulation Modeling and Analysis", 5th ed. (2015), section 11.2 (common random numbers).
    """
    gains = functools.cache(paired_gains(rivals, replications, horizon=horizon, seed=seed))
    width = _first_bracket(rivals) / 20
    root = _root(lambda seconds: float(gains(seconds).mean()), 20 * width, width)
    if root is None:
        return None
    there = gains(root)
    slope = float(gains(root + width).mean() - there.mean()) / width
    error = float(there.std(ddof=1)) / math.sqrt(replications) / abs(slope)
    return SimulatedCrossover(root - float(there.mean()) / slope, error)


def paired_gains(rivals: Rivals, replications: int, *, horizon: float, seed: int = 1) -> Callable[[float], FloatArray]:
    """Return the function from a reconfiguration time to what elasticity gains in each replication [-].

    The failures are drawn once, and the job that restarts is run once; for the parameters see `simulated_crossover`.
    """
    rigid = rivals.prepared(horizon, seed)
    traces = [sim.trace(rigid, number) for number in range(replications)]
    theirs = _productive(rigid, traces)
    return lambda seconds: _productive(rivals.prepared(horizon, seed, seconds), traces) - theirs


def _productive(prepared: sim.Prepared, traces: Sequence[Any]) -> FloatArray:
    """Return the share of productive time in each replication, shape (n,) [-]."""
    jobs = [sim.run(prepared, number, trace).jobs[0] for number, trace in enumerate(traces)]
    return np.array([job.buckets[sim.Bucket.PRODUCTIVE] / job.requested for job in jobs])


# The rows of the table.


def _rivals(replicas: int) -> Rivals:
    """Return two jobs of which a restart costs 860 s, and half an hour without a replica less the more there are."""
    return Rivals(
        replicas=replicas,
        mtti=7200.0,
        others=math.inf,
        detection=60.0,
        restart=200.0,
        absence=1800.0,
        rejoin=30.0,
        interval=1200.0,
        write=10.0,
        drain=0.0,
        restore=60.0,
        step=10.0,
        nodes=48,
        gpus_per_node=1,
    )


def crossover(lab: ScenarioRunner, replications: int, replicas: int) -> MeasuredQuantity:
    """Return the reconfiguration time at which elastic replicas do as well as a restart [s] against the closed form."""
    rivals = _rivals(replicas)
    seen = simulated_crossover(rivals, replications, horizon=10 * DAY, seed=lab.seed)
    if seen is None:
        raise ValueError("elasticity does not pay even if it takes no time")
    return MeasuredQuantity(seen.seconds, seen.error, replications, expected_crossover(rivals))


def elastic_gain(lab: ScenarioRunner, replications: int, replicas: int, reconfigure: float) -> MeasuredQuantity:
    """Return what elasticity gains over a restart [-] at a reconfiguration time [s], compared with the closed form."""
    rivals = _rivals(replicas)
    gains = paired_gains(rivals, replications, horizon=10 * DAY, seed=lab.seed)(reconfigure)
    return estimate(gains, rivals.gain(reconfigure))


def elastic_loss(lab: ScenarioRunner, replications: int, replicas: int, reconfigure: float) -> MeasuredQuantity:
    """Return what elasticity loses against a restart [-]: the gain with the other sign."""
    gain = elastic_gain(lab, replications, replicas, reconfigure)
    return MeasuredQuantity(-gain.value, gain.error, gain.replications, -_rivals(replicas).gain(reconfigure))


class PublishedRun(NamedTuple):
    """A run of 3,000 steps on 8 nodes of 8 GPUs that was hit every 45 to 75 min, in three ways [s].

    Whole times by live migration, with a restart from a checkpoint every 100 steps, and with torchft.
    """

    migration: float = 405 * 60.0
    restart: float = 818 * 60.0
    elastic: float = 930 * 60.0
    between: float = HOUR
    steps: int = 3000
    saves: int = 30


PUBLISHED = PublishedRun()
"""Llama 4 Scout on 64 H200 (clockwork.io, "Keeping distributed training running through failures", 2026)."""


def published_case(replicas: int) -> Rivals:
    """Return the rivals of the published run, with replicas of some of its 8 nodes.

    A step takes what it took with live migration, whose own cost of failures so counts as work. A restart, detection
    and restore included, takes what makes the published time of first-order costs: failures did not come while the job
    restarted. A replica restarts alone in the same time.
    """
    step = PUBLISHED.migration / PUBLISHED.steps
    interval = PUBLISHED.steps / PUBLISHED.saves * step
    restart = PUBLISHED.between * (1 - PUBLISHED.migration / PUBLISHED.restart) - interval / 2
    return Rivals(
        replicas=replicas,
        mtti=PUBLISHED.between,
        others=math.inf,
        detection=0.0,
        restart=restart,
        absence=restart,
        rejoin=0.0,
        interval=interval,
        write=0.0,
        drain=0.0,
        restore=0.0,
        step=step,
        nodes=8,
    )


def published_elastic(_: ScenarioRunner, __: int, replicas: int) -> MeasuredQuantity:
    """Return what failures of 1 min each would make of a published run of 405 min with elastic replicas [min]."""
    rivals = published_case(replicas)
    return MeasuredQuantity(405 / (1 - rivals.elastic_cost(60.0) / rivals.mtti))
