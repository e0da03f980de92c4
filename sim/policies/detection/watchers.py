"""Observers in the job itself: errors, heartbeats, timeouts of collectives and of steps.

(P) is read in the source that is named, (S) reported by another, (A) assumed.
"""

# Annotations are not postponed: pydantic would compile each at the start.
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from ettrick.sim import catalog
from ettrick.sim.policies.contracts import FAULTS
from ettrick.sim.policies.detection.race import Detector
from ettrick.sim.scenario.fields import Duration, Fraction, Model, RuleError, default
from ettrick.sim.scenario.laws import Empirical, Fixed, Law, Uniform

if TYPE_CHECKING:
    from pydantic import ValidationInfo

    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel
    from ettrick.sim.yamlfile import Data, Table

# What every observer has: the classes of faults that it covers, and a law of its time for each.

SILENT = {"slow": "slow", "degrade": "slow", "corrupt": "corrupt", "spike": "spike"}

"""Class of a fault that does not stop the job, by the kind of its effect."""

ALL_THAT_STOP = ("process", "gpu", "driver", "host", "nic", "switch", "hang", "storage")

"""Classes of faults that stop a job sooner or later, whatever else they do."""


def _known(values: "Table") -> "Table":
    """Return values by class of faults, if these are classes."""
    for name in values:
        if name not in FAULTS:
            raise RuleError((name,), catalog.unknown("class of faults", name, FAULTS))
    return values


ByClass = AfterValidator(_known)

"""Annotation of a mapping by class of faults."""

Shares = Annotated[dict[str, Fraction], ByClass]


def covered(which: str, *classes: str, usually: str = "", **parts: str) -> Any:
    """Return the field of the share of faults that an observer covers: `classes` in whole, others in part.

    `which` are these faults, and `usually` is how the default is said.
    """
    values = {**dict.fromkeys(classes, "100 %"), **parts}
    names = (" and " if len(classes) == 2 else ", ").join(classes)
    usual = ", ".join(
        [*([f"100 % of {names}"] if names else []), *(f"{part} of {name}" for name, part in parts.items())]
    )
    return default(values, description=f"Share of the faults {which}, by class; by default {usually or usual}.")


class Watcher(Model, ABC):
    """Somebody who watches, and by whom some classes of faults are noticed.

    What is stated by class replaces the default of that class alone.
    """

    use: str
    covers: Shares
    _needs_stop: ClassVar[bool] = True
    """Whether it is the job that it watches, and sees nothing of a fault in a part while the job steps on."""

    @field_validator("covers", "latency", mode="before", check_fields=False)
    @classmethod
    def _over_the_defaults(cls, value: "Data", info: "ValidationInfo") -> "Data":
        assert info.field_name is not None
        default = cls.model_fields[info.field_name].default
        return {**default, **value} if isinstance(value, dict) and isinstance(default, dict) else value

    def sees(self, fault: str, kind: str) -> Detector | None:
        """Return how it notices faults of a class whose effect is of some `kind`; ``None`` if it never does.

        A fault that does not stop the job is of the class that its effect has, for all who look at the job alone.
        """
        silent = SILENT.get(kind)
        if silent is not None and (self._needs_stop or not self.covers.get(fault)):
            fault = silent
        share = self.covers.get(fault, 0.0)
        return Detector(self.use, share, self.law_of(fault)) if share else None

    @abstractmethod
    def law_of(self, fault: str) -> "LawModel":
        """Return the law of the time until it notices a fault of a class that it covers."""


class InBand(Watcher):
    """A process fails with an error, and its launcher tells the others; or the loop of the job checks its own numbers.

    A launcher looks after its processes every 0.1 s, and the others learn of it within 0.1 to 5 s (P: PyTorch
    elastic, ``monitor_interval`` and the cache of the rendezvous). That a lost GPU shows as an error half of the times
    is an assumption (A): without agents it is found at once, or after the timeout of a collective (S: arXiv 2509.16293
    has 10 min). A rule in the loop that watches the loss covers the class spike.
    """

    use: Literal["in-band"] = "in-band"
    latency: Law = default("2 s", description="From the error to the moment when all know.")
    covers: Shares = covered("that show as an error", "process", "storage", gpu="50 %")

    def law_of(self, fault: str) -> "LawModel":
        """Return the same law for all classes."""
        return self.latency


class Heartbeat(Watcher):
    """Ranks report progress every `period`, and somebody misses the reports after `timeout`.

    A fault falls anywhere between two reports: the time is ``timeout - U(0, period)``. The timeout is Megatron-Bridge's
    for a job that has warmed up, 300 s (P: its fault-tolerance plugin); a report every 10 s is assumed (A).
    """

    use: Literal["heartbeat"] = "heartbeat"
    timeout: Duration = default("5 min", gt=0, description="Time without a report that is too long.")
    period: Duration = default("10 s", gt=0, description="Time between two reports.")
    covers: Shares = covered("after which reports are missing", *ALL_THAT_STOP)

    def _broken_rules(self) -> "BrokenRules":
        if self.period > self.timeout:
            yield ("period",), "must not be longer than the timeout: a healthy job would miss it"

    def law_of(self, fault: str) -> "LawModel":
        """Return ``timeout - U(0, period)``."""
        return Uniform.from_seconds(low=self.timeout - self.period, high=self.timeout)


class CollectiveTimeout(Watcher):
    """A collective that does not end is given up after `timeout`; the process ends when it has written its state down.

    600 s and 15 s are the defaults of PyTorch (P: ``ProcessGroupNCCL.hpp``, ``kProcessGroupNCCLDefaultTimeout`` and
    ``TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC``). The dump is taken to need all of its time.
    """

    use: Literal["collective-timeout"] = "collective-timeout"
    timeout: Duration = default("10 min", gt=0, description="Time after which a collective is given up.")
    dump: Duration = default("15 s", description="Time for writing down what hangs.")
    covers: Shares = covered("that leave a collective waiting", *ALL_THAT_STOP)

    def law_of(self, fault: str) -> "LawModel":
        """Return ``timeout + dump``."""
        return Fixed.from_seconds(value=self.timeout + self.dump)


class Nvrx(Watcher):
    """In-process watchdogs of the NVIDIA Resiliency Extension.

    A step that makes no progress is interrupted after `soft`; a process that cannot be interrupted is killed after
    `hard`; the others miss a dead one after `missing`. 60, 90 and 30 s are its defaults (P: nvidia-resiliency-ext,
    ``inprocess/wrap.py``; Megatron-LM sets 60 s for the last). That a hanging driver or a lost GPU holds its process,
    and nothing else does, is an assumption (A).
    """

    use: Literal["nvrx"] = "nvrx"
    soft: Duration = default("60 s", gt=0, description="Time without progress after which a hang is interrupted.")
    hard: Duration = default(
        "90 s", description="The same for gpu and driver: a process that cannot be interrupted is killed."
    )
    missing: Duration = default(
        "30 s", gt=0, description="The same for process and host: time without a sign of life of a rank."
    )
    covers: Shares = covered("that end the progress of a rank", *ALL_THAT_STOP)

    def _broken_rules(self) -> "BrokenRules":
        if self.hard <= self.soft:
            yield ("hard",), "must be longer than soft: who can be interrupted is not killed"

    def law_of(self, fault: str) -> "LawModel":
        """Return the watchdog that a class of faults trips."""
        value = self.hard if fault in ("gpu", "driver") else self.missing if fault in ("process", "host") else self.soft
        return Fixed.from_seconds(value=value)


# Observers of nodes: agents on them, and the managers of a cluster that miss them.
#
# (P) is read in the source that is named, (S) reported by another, (D) derived from it.

_VALUES = 100


class NodeAgent(Watcher):
    """An agent on every node inspects its parts.

    The times are those of ByteRobust with inspections (S: arXiv 2509.16293): a NIC that is down after 30 s, a switch
    after 60 s, a hanging driver or a lost GPU after 10 s, a fault of the kernel after 2 s.
    """

    use: Literal["node-agent"] = "node-agent"
    latency: Annotated[dict[str, Law], ByClass] = default(
        {"gpu": "10 s", "driver": "10 s", "nic": "30 s", "switch": "60 s", "host": "2 s"},
        description="Time until a fault is found, by class; by default 10 s for gpu and driver, 30 s for nic, 60 s for "
        "switch, 2 s for host.",
    )
    covers: Shares = covered(
        "that inspections find", "gpu", "driver", "nic", "switch", "host", usually="100 % of those with a time"
    )
    _needs_stop = False

    def _broken_rules(self) -> "BrokenRules":
        for fault, share in self.covers.items():
            if share and fault not in self.latency:
                yield ("covers", fault), f"needs a time: latency.{fault}"

    def law_of(self, fault: str) -> "LawModel":
        """Return the law of the class."""
        return self.latency[fault]


class Slurm(Watcher):
    """Slurm marks a node that does not answer as down, and ends its jobs.

    It looks every third of ``SlurmdTimeout`` whether a node has last answered longer ago than that before the previous
    look (P: ``ping_nodes.c``, ``controller.c``, ``slurm.conf.5``, default 300 s). The time from the fault is therefore
    uniform between one and five thirds of the timeout (D).
    """

    use: Literal["slurm"] = "slurm"
    timeout: Duration = default("300 s", gt=0, description="SlurmdTimeout.")
    covers: Shares = covered("after which a node does not answer", "host")

    def law_of(self, fault: str) -> "LawModel":
        """Return ``U(timeout, 5/3 timeout)``."""
        return Uniform.from_seconds(low=self.timeout, high=self.timeout * 5 / 3)


class Kubernetes(Watcher):
    """Kubernetes misses the lease of a node, and evicts what runs on it.

    The time is ``grace - U(0, renew) + U(0, monitor) + toleration`` (D): the last renewal before the fault, the next
    look of the controller, and the toleration that every pod has by default (P: kubernetes.io, "Nodes", "Taints and
    Tolerations"; grace 40 s up to version 1.31). The place in the queue of evictions, 0.1 nodes/s, is left out.
    """

    use: Literal["kubernetes"] = "kubernetes"
    renew: Duration = default("10 s", description="Time between two renewals of a lease.")
    grace: Duration = default("50 s", gt=0, description="node-monitor-grace-period.")
    monitor: Duration = default("5 s", description="node-monitor-period.")
    toleration: Duration = default("300 s", description="tolerationSeconds of not-ready and unreachable nodes.")
    covers: Shares = covered("after which a node renews nothing", "host")

    def _broken_rules(self) -> "BrokenRules":
        if self.renew >= self.grace:
            yield ("renew",), "must be shorter than grace: a healthy node would be missed"

    def law_of(self, fault: str) -> "LawModel":
        """Return the middles of a hundred equal parts of the distribution: there is no law of two uniform times.

        The mean is exact; a single time is off by 0.8 s at most with the default periods.
        """
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


# Observers of what a job makes: who finds nodes that step slowly or compute wrongly while the job goes on.
#
# (P) is read in the source that is named, (S) reported by another, (A) assumed.


class Straggler(Watcher):
    """Reports compare the speed of ranks; a node that is behind in some of them in a row is slow.

    It begins somewhere between two reports: with k confirmations the time is ``U(k - 1, k)`` periods. A report every
    300 s is the default of the NVIDIA Resiliency Extension (P); three in a row are assumed (A). It calls slow what has
    less than 0.7 to 0.75 of the speed of others: where slow nodes are faster than that, `covers` is less than 1.
    """

    use: Literal["straggler"] = "straggler"
    period: Duration = default("300 s", gt=0, description="Time between two reports.")
    confirmations: int = Field(3, ge=1, description="How many reports in a row it takes.")
    covers: Shares = covered("that reports show", "slow")
    _needs_stop = False

    def law_of(self, fault: str) -> "LawModel":
        """Return ``U(k - 1, k)`` periods."""
        return Uniform.from_seconds(low=self.period * (self.confirmations - 1), high=self.period * self.confirmations)


class SdcCheck(Watcher):
    """Checks for silent data corruption: the same work twice, or with a known result.

    Tests of a GPU find some 70 % of those that compute wrongly, and checks of a running job need up to an hour (S: both
    as reported of AEGIS and SDCHunter).
    """

    use: Literal["sdc-check"] = "sdc-check"
    latency: Law = default("1 h", description="From the first wrong result to the find.")
    covers: Shares = covered("that are ever found", corrupt="70 %")
    _needs_stop = False

    def law_of(self, fault: str) -> "LawModel":
        """Return the same law for all classes."""
        return self.latency
