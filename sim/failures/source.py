"""The runtime form of a failure source: how many units, which law, when a life begins; and sources that are planned."""

# Annotations are not postponed: pydantic would compile each at the start.
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from pydantic import Field

from ettrick.sim import rng
from ettrick.sim.failures.effects import CRASH
from ettrick.sim.failures.variety import Variety
from ettrick.sim.policies.contracts import Bucket
from ettrick.sim.scenario.fields import Duration, Model, RuleError, Strategy, default
from ettrick.sim.scenario.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ettrick.sim.failures.effects import Aftermath, BlastRadius, EffectModel, Fault
    from ettrick.sim.failures.variety import HazardModulation
    from ettrick.sim.policies.detection.race import DetectionRace
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel

Renews: TypeAlias = Literal["at_failure", "at_return", "never"]

Clock: TypeAlias = Literal["wall", "in_service", "busy"]

RepairFrom: TypeAlias = Literal["", "source", "entry", "scenario", "bundle"]

OF_ONE_NODE = ("node", "gpu", "nic")

"""Parts of which each unit belongs to one node."""

KNOWN = Fixed.from_seconds(value=0.0)

"""Detection of what is planned: everybody knows beforehand."""


def slots_per_node(part: str, counts: "Mapping[str, int]") -> int:
    """Return how many units of a part one node has; 0 for parts that belong to no single node."""
    return counts.get(part, 0) // counts["node"] if part in OF_ONE_NODE else 0


@dataclass(frozen=True)
class OutageLog:
    """Outages of one cause in a log: unit, start and end [s] by row, each of shape (n,), sorted by start.

    ``span`` [s] is how long the whole log is, from zero to its last start. With ``spread`` the units are no nodes yet:
    they are placed at random over so many, by the seed alone or, if ``is_drawn_anew``, in each replication. ``notes``
    say what was assumed in reading the log.
    """

    unit: "NDArray[np.int64]"
    start: "NDArray[np.float64]"
    end: "NDArray[np.float64]"
    span: float
    spread: int = 0
    is_drawn_anew: bool = False
    notes: tuple[str, ...] = ()

    def placed(self, seed: int, replication: int) -> "NDArray[np.int64]":
        """Return the unit of each row, in its place, shape (n,); two logs that are spread have the same places."""
        if not self.spread:
            return self.unit
        key = rng.stream(seed, replication if self.is_drawn_anew else 0, "places of a log")
        places: NDArray[np.int64] = np.argsort(rng.uniform(key, range(self.spread)))
        return places[self.unit]


@dataclass(frozen=True)
class ImperfectRepair:
    """The rest of a fault that a repair did not remove: it strikes again `after` a while.

    ``probability`` [-] is that of a repair which leaves it; ``None`` when the tiers of repair decide.
    """

    after: "LawModel"
    probability: float | None = None


@dataclass(frozen=True)
class HiddenFault:
    """A fault that only some nodes have, and that a repair can remove.

    Parameters
    ----------
    share
        Share of the nodes that have it at the start [-].
    exact
        Whether it is exactly that share, rounded down, rather than each node with that probability.
    onset
        Law of the time in which a node without it catches it; ``None`` for never.
    """

    share: float
    exact: bool = False
    onset: "LawModel | None" = None


CONTENTION, CAP, HEAT = "store-contention", "power-cap", "heat"

"""Causes of lost time that are no failures: saves of several jobs at once, caps of power, lower clocks on hot days."""


@dataclass(frozen=True)
class FailureSource:
    """A population of units that fail for one cause.

    Parameters
    ----------
    name
        Cause; unique in a scenario and the name of the source's random streams.
    part
        Class of part in the topology, or ``job``.
    units
        Number of units.
    law
        Law of a life, ``None`` for a recorded log.
    renews
        When the next life begins: at the failure, when the node is back, or never.
    clock
        What a life counts: all time, time in which the node is not down, or time in which it serves a running job.
    idle_hazard
        Hazard of a node on which no process of a job runs, relative to one on which some do [-].
    interrupts
        Probability that a fault becomes a failure [-].
    repair, detection
        Laws that replace the scenario's for this source.
    repair_from
        Whose repair applies: that of the ``source`` itself (rows of a log, windows and rollouts say themselves when a
        unit is back), of the ``entry`` of ``failures`` that uses a bundle, of the ``scenario``, or of the ``bundle``.
        Empty where no node is away.
    detection_race
        Who notices a fault, and when; ``None`` if it stays undetected. Worked out from the scenario's detection, or
        `detection`. fault
        Class of its faults, one of :data:`ettrick.sim.policies.contracts.FAULTS`.
    damage
        What a failure does to the nodes that it does not take out of their job.
    planned
        Whether its interruptions count as planned.
    variety, tempo
        How its units differ, and how the hazard of all changes in time.
    slots_per_node
        Units of one node; 0 for parts that belong to none.
    ages
        For each pool of hosts, its number of nodes and how long their parts have run at the start [s]; empty when new.
    effect
        What a fault does to its nodes.
    blast
        What a failure of a shared part takes, if it is not simply all its nodes.
    residue
        What is left of a fault after a repair that did not remove it.
    hidden
        For a fault that only some nodes have.
    defer
        Whether a failure that falls into a phase which failures cannot hit waits for its end, or never happens.
    saves
        Whether a job that it hits knows beforehand and saves its state.
    notice
        Time between notice and stop [s]: a job saves only if a save takes no longer.
    away
        Law of the time for which a job is not eligible for nodes again; ``None`` where it is at once.
    store_out
        Law of the time for which the stores outside the nodes cannot be read; ``None`` where they always can.
    fix
        Law of the time to mend a bug of a job's software that strikes again at the same step; ``None`` for no bug.
    rollout
        The change that is brought to the nodes one after another.
    of_fabric
        Whether the cables decide whom a failure strikes: nodes without a path crash, others lose bandwidth.
    cuts
        Share of the units of a part of the fabric whose failure, alone, cuts nodes off [-].
    tier
        Tier of repair that begins, by name; the first without one.
    ceiling, thinned
        Hazard at which candidates are drawn, relative to the stated one [-], and whether some of them are dropped.
    recorded
        Rows of a log.
    recall, lead
        Share of its failures whose signs are seen [-], and the law of the time from there to the failure.
    checked
        Share of its hidden faults that checks find [-], and the time between two checks [s].
    preflight
        Share of its hidden and silent faults that a check before a job finds [-].
    alarm
        Whether its failures are none: healthy nodes that are drained.
    events
        Number of observed events on which the rate rests; the width of its uncertainty follows from it.
    """

    name: str
    part: str
    units: int
    law: "LawModel | None"
    renews: Renews = "at_failure"
    clock: Clock = "wall"
    idle_hazard: float = 1.0
    interrupts: float = 1.0
    repair: "LawModel | None" = None
    repair_from: RepairFrom = ""
    detection: "LawModel | None" = None
    detection_race: "DetectionRace | None" = None
    fault: "Fault" = "process"
    damage: "Aftermath" = "process"
    planned: bool = False
    variety: Variety = field(default_factory=Variety)
    tempo: "HazardModulation | None" = None
    slots_per_node: int = 0
    ages: tuple[tuple[int, float], ...] = ()
    effect: "EffectModel" = CRASH
    blast: "BlastRadius | None" = None
    residue: ImperfectRepair | None = None
    hidden: HiddenFault | None = None
    defer: bool = False
    saves: bool = False
    notice: float = math.inf
    away: "LawModel | None" = None
    store_out: "LawModel | None" = None
    fix: "LawModel | None" = None
    rollout: "Rollout | None" = None
    of_fabric: bool = False
    cuts: float = 1.0
    tier: str = ""
    ceiling: float = 1.0
    thinned: bool = False
    recorded: OutageLog | None = None
    recall: float = 0.0
    lead: "LawModel | None" = None
    checked: tuple[float, float] = (0.0, 0.0)
    preflight: float = 0.0
    alarm: bool = False
    events: int | None = None

    @property
    def is_condition(self) -> bool:
        """Whether it never fails anything, and time is charged to it all the same."""
        return self.law is None and self.name in (CONTENTION, CAP, HEAT)

    @property
    def of_processes(self) -> bool:
        """Whether it makes the processes of jobs fail, of those of streams too; a bug or a spike does not."""
        return self.part == "job" and self.law is not None and self.effect.stops and self.fix is None and not self.away

    @property
    def rate_of_processes(self) -> float:
        """Rate at which it makes the processes of a job of a stream fail [1/s]."""
        return 1 / self.law.mean_value if self.law is not None and self.of_processes else 0.0

    @cached_property
    def rate(self) -> float:
        """Rate of all units together [1/s], of failures that a repair left behind too; of a log, rows over its span."""
        if self.recorded is not None:
            span = self.recorded.span
            return len(self.recorded.start) / span if span > 0 else 0.0
        if self.law is None:
            return 0.0
        rate = self.units * self.variety.mean_rate(self.law)
        if self.hidden is not None:
            rate *= self.hidden.share
        if self.residue is not None and self.residue.probability:
            rate /= 1 - self.residue.probability
        return rate / self.ceiling

    @property
    def outages_join(self) -> bool:
        """Whether a life of it may end while its node is down, and then takes a repair of its own."""
        return self.repair is not None and self.clock == "wall" and self.renews == "at_failure"

    @property
    def is_watched(self) -> bool:
        """Whether somebody may take its nodes out before they stop."""
        return self.effect.stops and max(self.recall, self.checked[0], self.preflight) > 0

    @property
    def down_bucket(self) -> Bucket:
        """The bucket of the time of a node outside jobs that this cause has taken down."""
        return Bucket.MAINTENANCE if self.planned else Bucket.QUALIFICATION if self.alarm else Bucket.REPAIR

    @property
    def all_known_ahead(self) -> bool:
        """Whether every candidate time follows from the lives alone, whatever the policies do."""
        if self.recorded is not None:
            return True
        return self.clock == "wall" and self.renews != "at_return" and self.hidden is None and self.fix is None


def condition(name: str) -> FailureSource:
    """Return a cause that never fails anything, and that time is charged to all the same, such as `CONTENTION`."""
    return FailureSource(name, "job", 0, None, planned=True, fault="planned")


# What is planned: windows with a date, and a change that is brought to the nodes one after another.


class MaintenanceWindow(Model):
    """Some units of a part are out of service for a time."""

    start: Duration = Field(description="Start of the window, from the start of the simulation, warm-up included.")
    duration: Duration = Field(gt=0, description="Length of the window.")
    first: int = Field(0, ge=0, description="First unit.")
    units: int = Field(1, ge=1, description="Number of units, in consecutive order.")

    @property
    def end(self) -> float:
        """The end of it [s]."""
        return self.start + self.duration


class Maintenance(Strategy):
    """Planned windows in which nodes are out of service; jobs know their dates and save."""

    use: Literal["maintenance"] = "maintenance"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    part: str = Field("node", description="Class of part that the windows count: node, rack, pdu, leaf, ...")
    windows: tuple[MaintenanceWindow, ...] = Field(min_length=1, description="The windows.")
    saves: bool = Field(True, description="Whether jobs save before they stop.")
    notice: Duration | None = Field(
        None,
        description="Time between notice and stop: a job saves only if a save takes no longer. By "
        "default there is always enough time.",
    )

    def _broken_rules(self) -> "BrokenRules":
        rows = sorted((window.start, index) for index, window in enumerate(self.windows))
        for position, (_, index) in enumerate(rows):
            earlier = self.windows[index]
            for start, later_index in rows[position + 1 :]:
                later = self.windows[later_index]
                if start >= earlier.end:
                    break
                if earlier.first < later.first + later.units and later.first < earlier.first + earlier.units:
                    message = f"overlaps windows.{index} in time and in the units that it takes"
                    yield ("windows", later_index, "start"), message

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If the topology has no such part, or not so many.
        """
        counts = {**counts, "cluster": 1}
        if self.part not in counts:
            raise ValueError(f"the cluster has no part '{self.part}'")
        for index, window in enumerate(self.windows):
            last = window.first + window.units
            if last > counts[self.part]:
                rule = f"goes up to {self.part} {last - 1}, counted from 0, but there are {counts[self.part]}"
                raise RuleError(("windows", index), rule)
        return FailureSource(
            name=self.name,
            part=self.part,
            units=counts[self.part],
            law=None,
            recorded=self._outages(),
            detection=KNOWN,
            planned=True,
            fault="planned",
            defer=True,
            saves=self.saves,
            notice=math.inf if self.notice is None else self.notice,
            slots_per_node=slots_per_node(self.part, counts),
        )

    def _outages(self) -> OutageLog:
        """Return the windows as a log: an outage of each unit."""
        rows = sorted(
            (window.start, unit, window.end)
            for window in self.windows
            for unit in range(window.first, window.first + window.units)
        )
        start, unit, end = (np.array(column) for column in zip(*rows, strict=True))
        return OutageLog(unit, start, end, span=max(window.end for window in self.windows))


class Canary(Model):
    """A few nodes are changed first; if too many of them fail, the change is rolled back."""

    nodes: int = Field(gt=0, description="Number of nodes that are changed first.")
    soak: Duration = Field(gt=0, description="Observation time before the other nodes follow.")
    tolerates: int = Field(
        0, ge=0, description="Tolerated number of failures of these nodes in that time, of the causes in hazard."
    )


class Rollout(Strategy):
    """A change of every node: each is out of service once and has a different hazard afterwards."""

    use: Literal["rollout"] = "rollout"
    name: str = Field(min_length=1, description="The cause, as it appears in the results.")
    start: Duration = default("0 s", description="Start of the rollout, from the start of the simulation.")
    nodes_per_day: float = Field(gt=0, description="Number of nodes changed per day.")
    batch: int = Field(1, ge=1, description="Number of nodes changed at once.")
    duration: Duration = Field(gt=0, description="Time that a node is out of service.")
    mode: Literal["drain", "at_interruption"] = Field(
        "drain",
        description="drain takes nodes out of running jobs, which save first; at_interruption waits until a job is "
        "interrupted by something else, and then changes all its nodes that are due together.",
    )
    hazard: dict[str, float] = Field(
        default_factory=dict, description="Hazard of a changed node relative to an unchanged node, by cause."
    )
    canary: Canary | None = Field(None, description="Nodes that are changed first, as a test.")

    def _broken_rules(self) -> "BrokenRules":
        for cause, ratio in self.hazard.items():
            if ratio < 0:
                yield ("hazard", cause), f"must not be negative, not {ratio:g}"
        if self.canary is not None and not self.hazard:
            yield ("canary",), "needs hazard: without a changed hazard there is nothing to watch"

    def build(self, counts: "Mapping[str, int]", jobs: int) -> FailureSource:
        """Return the runtime source for a topology with `counts` of parts.

        Raises
        ------
        ValueError
            If it has more canaries than the cluster has nodes.
        """
        if self.canary is not None and self.canary.nodes > counts["node"]:
            rule = f"{self.canary.nodes} go first, but the cluster has {counts['node']} nodes"
            raise RuleError(("canary", "nodes"), rule)
        return FailureSource(
            name=self.name,
            part="node",
            units=counts["node"],
            law=None,
            detection=KNOWN,
            planned=True,
            fault="planned",
            saves=True,
            rollout=self,
            slots_per_node=1,
        )
