"""Phases of a recovery: what has to happen one after another, and how long it takes for so many GPUs and nodes.

A phase that every node goes through by itself is over when the slowest node is. Of n independent times of a law F the
longest has the law F^n, so one number gives it: ``F^-1(u^(1/n))`` (the distribution of the largest order statistic; H.
A. David, H. N. Nagaraja, *Order Statistics*, 3rd edition, Wiley, 2003, section 2.1).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from ettrick.sim.policies.contracts import FAULTS, Exposure, PoolName, Requeue, Stall
from ettrick.sim.scenario.fields import Duration, Model, RuleError
from ettrick.sim.scenario.law_model import LawModel
from ettrick.sim.scenario.laws import Fixed, Law

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ettrick.sim.policies.contracts import Bucket
    from ettrick.sim.scenario.fields import BrokenRules

if TYPE_CHECKING:
    Fault: TypeAlias = str
else:
    Fault = Literal[tuple(FAULTS)]

MOST = 1 - 2.0**-53

"""The largest number below 1 that a float can hold."""


def _from_truth(value: object) -> object:
    """Return what `true` and `false` stand for."""
    return {True: "both", False: "none"}[value] if isinstance(value, bool) else value


Exposed = Annotated[
    Exposure,
    BeforeValidator(_from_truth),
    WithJsonSchema({"anyOf": [{"enum": list(get_args(Exposure))}, {"type": "boolean"}]}),
]

"""The parts that can fail in a phase; ``true`` is `both`, ``false`` is `none`."""


Pools = Annotated[
    tuple[PoolName, ...], Field(min_length=1, description="Where replacements may come from, in this order.")
]


class Participants(NamedTuple):
    """The participants of phases: so many GPUs on so many nodes, of which some join only now [-]."""

    gpus: float
    nodes: int
    joiners: int = 0


class RecoveryPhase(Model):
    """A phase that must end before a job steps again."""

    name: str = Field(min_length=1, description="Name: teardown, container, imports, collectives, ...")
    time: Law = Field(description="How long it takes.")
    each: Literal["job", "node"] = Field(
        "job", description="Whether the time is that of the job, or of each node: then the slowest one decides."
    )
    joiners: bool = Field(
        False, description="Whether only nodes that join go through it; where none joins it is left out."
    )
    at_start: bool = Field(True, description="Whether a start of the job, where all nodes join, goes through it too.")
    faults: tuple[Fault, ...] | None = Field(
        None, min_length=1, description="Classes of faults after which it is needed; without them, after all."
    )
    exponent: float = Field(0.0, ge=0, le=4, description="The time grows as this power of the number of GPUs.")
    at: int | None = Field(None, ge=1, description="Number of GPUs at which the time is as stated.")
    floor: Duration = Field(
        0.0, description="At no size the time is shorter, on the mean: a law of growth is not followed to nothing."
    )
    exposed: Exposed = Field(
        "both",
        description="Who can fail meanwhile: the job's processes, its nodes (hit like idle ones, because no process "
        "runs), both (true) or none (false).",
    )

    def _broken_rules(self) -> BrokenRules:
        if self.exponent > 0 and self.at is None:
            yield ("exponent",), "needs 'at', the number of GPUs at which the time is as stated"
        if self.at is not None and self.exponent == 0:
            yield ("at",), "needs an 'exponent' above 0: without it the time is the same at every size"
        if self.floor and self.at is None:
            yield ("floor",), "needs 'at' and an 'exponent': without them the time is the same at every size"

    def takes_part(self, members: Participants, fault: str) -> bool:
        """Return whether the phase is needed after a fault of some class."""
        return (not self.joiners or members.joiners > 0) and (self.faults is None or fault in self.faults)

    def is_due(self, members: Participants, fault: str) -> bool:
        """Return the same where no fault is a start of the job."""
        return self.takes_part(members, fault) and (self.at_start or fault != "")

    def seconds(self, members: Participants, mark: Callable[[str], float], purpose: str) -> float:
        """Return how long a phase that takes part takes [s], by the number that belongs to a purpose."""
        law: LawModel = self.time
        if isinstance(law, Fixed):
            time = law.value
        elif self.each == "job":
            time = law.ppf_one(mark(purpose))
        else:
            time = law.ppf_one(min(mark(purpose) ** (1 / self.count(members)), MOST))
        return time * self.factor(members)

    def mean_seconds(self, members: Participants) -> float:
        """Return the mean over draws; of several participants, that of the slowest."""
        count = self.count(members)
        # The mean of one time is available; that of the longest of several is looked up, which costs more.
        usual = self.time.mean_value if count == 1 else longest(self.time, count)
        return usual * self.factor(members)

    def count(self, members: Participants) -> int:
        """Return how many draw the time [-], of whom the slowest decides."""
        return max(members.joiners if self.joiners else members.nodes, 1) if self.each == "node" else 1

    def factor(self, members: Participants) -> float:
        """Return what the time is multiplied by at the size of its members [-]."""
        if self.at is None:
            return 1.0
        power = float((members.gpus / self.at) ** self.exponent)
        return max(power, self.floor / self.time.mean_value) if self.floor and self.time.mean_value else power


def _once_each(phases: tuple[RecoveryPhase, ...]) -> tuple[RecoveryPhase, ...]:
    """Refuse two phases of one name: they would share their random numbers."""
    names = [phase.name for phase in phases]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise RuleError((index, "name"), f"'{name}' is also the name of an earlier phase")
    return phases


def _form(value: object) -> str:
    """Return which of the two forms a value has; these words are no keys of either."""
    return "several phases" if isinstance(value, list | tuple) else "one time"


Phases = Annotated[
    Annotated[Law, Tag("one time")]
    | Annotated[tuple[RecoveryPhase, ...], AfterValidator(_once_each), Tag("several phases")],
    Discriminator(_form),
]

"""A time, or a law of it, is one phase of the whole job; else phases one after another."""

Held: TypeAlias = LawModel | tuple[RecoveryPhase, ...]

"""The value of a field of the type `Phases`."""


@functools.lru_cache(maxsize=4096)
def longest(law: LawModel, count: int) -> float:
    r"""Return the mean of the longest of some independent times of one law [s].

    .. math:: E \max X_i = \int_0^1 F^{-1}(v)\, n v^{n - 1}\, dv
        = \int_0^\infty F^{-1}(1 - e^{-y})\, n (1 - e^{-y})^{n - 1} e^{-y}\, dy

    In y, the cumulative hazard, the weight is a bump about one wide near ln n, so that a composite Gauss rule between
    the kinks of the law gives at least six digits. The integral ends where floats do, at 1 - 2^-53, as draws do.

    Parameters
    ----------
    law
        Law of one time.
    count
        How many there are, n [-], at least 1.
    """
    if isinstance(law, Fixed):
        return law.value
    if count == 1:
        return law.mean_value
    times, weights = rule_of_longest(law, count)
    return float((times * weights).sum())


@functools.lru_cache(maxsize=4096)
def rule_of_longest(law: LawModel, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times [s] and weights [-], shape (n,), that integrate over the law of `longest`; not to be written to."""
    end = 53 * math.log(2)
    kinks = (law.cumulative_hazard_one(time) for time in law.breaks)
    edges = sorted({0.0, *np.linspace(0.0, end, 257).tolist(), *(kink for kink in kinks if 0 < kink < end)})
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    hazard = (np.array(edges[:-1])[:, None] + half + half * nodes).ravel()
    below = np.minimum(-np.expm1(-hazard), MOST)
    density = count * np.exp((count - 1) * np.log(below) - hazard)
    return law.ppf(below), density * (half * weights).ravel()


@functools.lru_cache(maxsize=4096)
def _alone(law: Any) -> tuple[RecoveryPhase]:
    """Return a time as a phase of the whole job."""
    return (RecoveryPhase.model_construct(name="", time=law),)


def each_phase(phases: Held) -> tuple[RecoveryPhase, ...]:
    """Return phases, as a field holds them, one by one."""
    return phases if isinstance(phases, tuple) else _alone(phases)


def back_to_queue(
    phases: Held, members: Participants, mark: Callable[[str], float], purpose: str, fault: str = "", more: float = 0.0
) -> Requeue:
    """Return the step that gives every node back until phases, and then some `more` seconds [s], are over."""
    due = [phase for phase in each_phase(phases) if phase.is_due(members, fault)]
    delay = sum(phase.seconds(members, mark, f"{purpose} {phase.name}".strip()) for phase in due)
    return Requeue(delay + more, delay - sum(phase.mean_seconds(members) for phase in due))


def steps(
    phases: Held, bucket: Bucket, members: Participants, mark: Callable[[str], float], purpose: str, fault: str = ""
) -> tuple[Stall, ...]:
    """Return phases as steps of a plan that charge one bucket.

    Parameters
    ----------
    phases
        The phases, as a field holds them.
    bucket
        Where their time goes.
    members
        Who goes through them.
    mark
        Numbers of the failure, or of the start; each phase asks for one by purpose and name.
    purpose
        What the phases are for.
    fault
        Class of the fault; nothing at a start.
    """
    stalls: list[Stall] = []
    for phase in each_phase(phases):
        if not phase.is_due(members, fault):
            continue
        seconds = phase.seconds(members, mark, f"{purpose} {phase.name}".strip())
        above = 0.0 if isinstance(phase.time, Fixed) else seconds - phase.mean_seconds(members)
        if stalls and stalls[-1].exposed == phase.exposed:
            last = stalls[-1]
            stalls[-1] = Stall(bucket, last.seconds + seconds, phase.exposed, last.excess + above)
        elif seconds > 0 or above:
            stalls.append(Stall(bucket, seconds, phase.exposed, above))
    return tuple(stalls)


def mean(phases: Held, members: Participants) -> tuple[float, float]:
    """Return the mean times of phases in which failures cannot and can hit the job [s], if no fault decides."""
    needed = [phase for phase in each_phase(phases) if phase.takes_part(members, "")]
    hidden = sum(phase.mean_seconds(members) for phase in needed if phase.exposed == "none")
    return hidden, sum(phase.mean_seconds(members) for phase in needed if phase.exposed != "none")


def exposures(*fields: Held | None) -> frozenset[Exposure]:
    """Return how phases are exposed, as far as they say so."""
    return frozenset(phase.exposed for phases in fields if isinstance(phases, tuple) for phase in phases)


def some(phases: Held, is_such: Callable[[RecoveryPhase], bool]) -> bool:
    """Return whether some phase is such; a plain time has no phase that is anything special."""
    return not isinstance(phases, LawModel) and any(map(is_such, phases))


def is_fixed(phases: Held) -> bool:
    """Return whether no time of phases is random."""
    return all(isinstance(phase.time, Fixed) for phase in each_phase(phases))
