"""Observers of nodes: agents on them, and the managers of a cluster that miss them.

(P) is read in the source that is named, (S) reported by another, (D) derived from it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.detection.watcher import ByClass, Shares, Watcher, shares
from sim.fields import Duration, RuleError
from sim.laws import Empirical, Law, Uniform

if TYPE_CHECKING:
    from sim.laws import LawModel

__all__ = ["Kubernetes", "NodeAgent", "Slurm"]

_VALUES = 100


class NodeAgent(Watcher):
    """An agent on every node inspects its parts.

    The times are those of ByteRobust with inspections (S: arXiv 2509.16293): a NIC that is down after 30 s, a switch
    after 60 s, a hanging driver or a lost GPU after 10 s, a fault of the kernel after 2 s.
    """

    observer: Literal["node-agent"] = "node-agent"
    latency: Annotated[dict[str, Law], ByClass] = Field(
        {"gpu": "10 s", "driver": "10 s", "nic": "30 s", "switch": "60 s", "host": "2 s"},  # type: ignore[dict-item]
        description="Time until a fault is found, by class; by default 10 s for gpu and driver, 30 s for nic, 60 s for "
        "switch, 2 s for host.",
    )
    covers: Shares = Field(
        shares("gpu", "driver", "nic", "switch", "host"),  # type: ignore[arg-type]
        description="Share of the faults that inspections find, by class; by default 100 % of those with a time.",
    )
    _needs_stop = False

    @model_validator(mode="after")
    def _every_class_has_a_time(self) -> Self:
        for fault, share in self.covers.items():
            if share and fault not in self.latency:
                raise RuleError(("covers", fault), f"needs a time: latency.{fault}")
        return self

    def law_of(self, fault: str) -> LawModel:
        """Return the law of the class."""
        return self.latency[fault]


class Slurm(Watcher):
    """Slurm marks a node that does not answer as down, and ends its jobs.

    It looks every third of ``SlurmdTimeout`` whether a node has last answered longer ago than that before the previous
    look (P: ``ping_nodes.c``, ``controller.c``, ``slurm.conf.5``, default 300 s). The time from the fault is therefore
    uniform between one and five thirds of the timeout (D).
    """

    observer: Literal["slurm"] = "slurm"
    timeout: Duration = Field("300 s", gt=0, description="SlurmdTimeout.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares("host"),  # type: ignore[arg-type]
        description="Share of the faults after which a node does not answer, by class; by default 100 % of host.",
    )

    def law_of(self, fault: str) -> LawModel:
        """Return ``U(timeout, 5/3 timeout)``."""
        del fault
        return Uniform.from_seconds(low=self.timeout, high=self.timeout * 5 / 3)


class Kubernetes(Watcher):
    """Kubernetes misses the lease of a node, and evicts what runs on it.

    The time is ``grace - U(0, renew) + U(0, monitor) + toleration`` (D): the last renewal before the fault, the next
    look of the controller, and the toleration that every pod has by default (P: kubernetes.io, "Nodes", "Taints and
    Tolerations"; grace 40 s up to version 1.31). The place in the queue of evictions, 0.1 nodes/s, is left out.
    """

    observer: Literal["kubernetes"] = "kubernetes"
    renew: Duration = Field("10 s", description="Time between two renewals of a lease.")  # type: ignore[assignment]
    grace: Duration = Field("50 s", gt=0, description="node-monitor-grace-period.")  # type: ignore[assignment]
    monitor: Duration = Field("5 s", description="node-monitor-period.")  # type: ignore[assignment]
    toleration: Duration = Field("300 s", description="tolerationSeconds of not-ready and unreachable nodes.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares("host"),  # type: ignore[arg-type]
        description="Share of the faults after which a node renews nothing, by class; by default 100 % of host.",
    )

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.renew >= self.grace:
            raise RuleError(("renew",), "must be shorter than grace: a healthy node would be missed")
        return self

    def law_of(self, fault: str) -> LawModel:
        """Return the middles of a hundred equal parts of the distribution: there is no law of two uniform times.

        The mean is exact; a single time is off by 0.8 s at most with the default periods.
        """
        del fault
        start = self.grace - self.renew + self.toleration
        middles = ((index + 0.5) / _VALUES for index in range(_VALUES))
        return Empirical.from_seconds(values=tuple(start + _sum_of_two(u, self.renew, self.monitor) for u in middles))


def _sum_of_two(u: float, first: float, second: float) -> float:
    """Return the quantile `u` of the sum of two independent times, uniform from 0 to `first` and to `second` [s]."""
    short, long = sorted((first, second))
    if u > 0.5:  # the density is symmetric
        return short + long - _sum_of_two(1 - u, first, second)
    if 2 * long * u <= short:
        return math.sqrt(2 * short * long * u)
    return long * u + short / 2
