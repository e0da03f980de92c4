"""One job, run in two ways: its replicas leave one by one, or all of it restarts in place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sim
from sim.theory import expected_shares
from sim.theory.elastic import elastic_shares

__all__ = ["Rivals"]

_SPARES = 16
"""Hot spares: with repairs of an hour a node is at hand whenever one fails."""


@dataclass(frozen=True)
class Rivals:
    """One job on one cluster, run in two ways: its replicas leave one by one, or all of it restarts in place.

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
            message = f"replicas must be at least 2: one alone leaves nobody behind, got {self.replicas}"
            raise ValueError(message)
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
        """What a failure of a node costs the job that restarts, to first order and without its detection [s]."""
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
        recovery: dict[str, Any] = {"use": "hot-spare", "initialize": _text(self.restart)}
        if reconfigure is not None:
            recovery |= {
                "use": "shrink-rejoin",
                "reconfigure": _text(reconfigure),
                "catch_up": _text(self.absence - self.restart),
                "rejoin": _text(self.rejoin),
            }
        return sim.prepare(sim.parse(self._document(horizon, seed) | {"recovery": recovery}))

    def _document(self, horizon: float, seed: int) -> dict[str, Any]:
        """Return the scenario but for its recovery; replicas are whole nodes side by side."""
        width = self.nodes // self.replicas
        job: dict[str, Any] = {"name": "job", "gpus": width * self.replicas * self.gpus_per_node}
        job["parallelism"] = {"tensor": self.gpus_per_node, "pipeline": width, "data": self.replicas}
        if self.step:
            job["step_time"] = _text(self.step)
        # The rate of a node is that of the nodes which the job has.
        life = {"law": "exponential", "mean": _text(self.mtti * width * self.replicas)}
        failures: list[dict[str, Any]] = [{"use": "component", "name": "node", "part": "node", "law": life}]
        if math.isfinite(self.others):
            law = {"law": "exponential", "mean": _text(self.others)}
            # A hang strikes all ranks, for nobody knows whose fault it is; an error would send one replica away.
            failures.append({"use": "job", "name": "others", "law": law, "fault": "hang"})
        saves = {"interval": self.stepping, "stall": self.write, "write": self.drain, "restore": self.restore}
        hosts = {"nodes": width * self.replicas + _SPARES, "gpus_per_node": self.gpus_per_node}
        return {
            "name": "crossover",
            "cluster": {"name": "crossover", **hosts, "fabric": {"rails": self.gpus_per_node, "radix": 1024}},
            "horizon": _text(horizon),
            "jobs": [job],
            "failures": failures,
            "detection": {"time": _text(self.detection)},
            "checkpoint": {"tiers": [{"mode": "async", **{key: _text(value) for key, value in saves.items()}}]},
            "spares": {"hot": _SPARES},
            "repair": {"time": "1 h"},
            "seed": seed,
        }


def _text(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{float(seconds)!r} s"
