"""The effects of a fault on its nodes until it is found, and the nodes of an incident.

An effect stops nodes, hangs them, slows them, or makes them compute wrongly (`Effect`). A failure of a shared part has
a blast radius: how many nodes of a domain (`IncidentSize`), and which of them (`Victims`).
"""

# Annotations are not postponed: pydantic would compile each at the start.
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from ettrick.sim import rng
from ettrick.sim.scenario.fields import Completed, Duration, Fraction, Model, OneOf, default, named
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel

Fault: TypeAlias = Literal[
    "process", "gpu", "driver", "host", "nic", "switch", "hang", "slow", "corrupt", "spike", "storage", "planned"
]

"""The keys of :data:`ettrick.sim.policies.contracts.FAULTS`, as a type."""

Aftermath: TypeAlias = Literal["process", "reboot"]

"""The aftermath of a failure on the nodes that stay in their job: ends their processes, or starts them again."""

_OF_PART: dict[str, Fault] = {
    "job": "process",
    "gpu": "gpu",
    "nic": "nic",
    "transceiver": "nic",
    "cable_node_leaf": "nic",
    "cable_leaf_spine": "switch",
    "cable_spine_core": "switch",
    "leaf": "switch",
    "spine": "switch",
    "core": "switch",
    "switch_tray": "switch",
}

_OF_EFFECT: dict[str, Fault] = {
    "hang": "hang",
    "slow": "slow",
    "degrade": "slow",
    "corrupt": "corrupt",
    "spike": "spike",
}


def fault_of(part: str, effect: "EffectModel", *, planned: bool = False) -> Fault:
    """Return the class of the faults of a part, where it is not stated: by the effect, else by the part.

    Nodes, and what only they share (racks, power, cooling), are of the class ``host``.
    """
    return "planned" if planned else _OF_EFFECT.get(effect.use) or _OF_PART.get(part, "host")


class EffectModel(Model):
    """The common part of effects."""

    use: str

    stops: ClassVar[bool] = False
    """Whether the nodes stop at once; if not, the job steps on until the fault is noticed."""

    saves: ClassVar[bool] = False
    """Whether a job that notices it can save before its nodes are taken away: it steps, and its state is sound."""

    @property
    def speed(self) -> float:
        """Pace of a node that has this fault, relative to a healthy one [-]."""
        return 1.0

    @property
    def bandwidth_left(self) -> float:
        """Bandwidth of a node that has this fault, relative to a healthy one [-]."""
        return 1.0

    @property
    def heal(self) -> "LawModel | None":
        """Law of the time after which the fault goes away by itself, if it does."""
        return None

    @property
    def undone(self) -> float:
        """Work before the fault that is given up too [s]."""
        return 0.0


class Crash(EffectModel):
    """The nodes stop, and something reports an error."""

    use: Literal["crash"] = "crash"
    stops = True


class Hang(EffectModel):
    """The nodes stop, and nothing reports it: only a time-out detects it."""

    use: Literal["hang"] = "hang"
    stops = True


class Slow(EffectModel):
    """The nodes keep stepping, but slowly, and slow a synchronous job down."""

    use: Literal["slow"] = "slow"
    saves = True
    factor: Fraction = Field(gt=0, description="Pace relative to a healthy node [-].")
    heals: Law | None = Field(None, description="Time after which the fault heals by itself. [default: never]")

    @property
    def speed(self) -> float:
        """Pace of the node."""
        return self.factor

    @property
    def heal(self) -> "LawModel | None":
        """Law of the time after which it heals."""
        return self.heals


class Degrade(EffectModel):
    """The nodes lost bandwidth; the part of a step that waits for communication (``jobs.communication``) grows."""

    use: Literal["degrade"] = "degrade"
    saves = True
    bandwidth: Fraction = Field(gt=0, description="Share of the bandwidth that remains [-].")
    heals: Law | None = Field(None, description="Time after which the fault heals by itself. [default: never]")

    @property
    def bandwidth_left(self) -> float:
        """Bandwidth of the nodes."""
        return self.bandwidth

    @property
    def heal(self) -> "LawModel | None":
        """Law of the time after which it heals."""
        return self.heals


class Corrupt(EffectModel):
    """The nodes compute wrong results silently; on detection, every step since the fault is discarded."""

    use: Literal["corrupt"] = "corrupt"


class Spike(EffectModel):
    """The loss of a job leaves its course: what it does from then on is worthless once somebody notices.

    Only the source ``loss-spike`` has it: no node is at fault.
    """

    use: Literal["spike"] = "spike"
    rewind: Duration = default("0 s", description="Work before it that is given up too.")

    @property
    def undone(self) -> float:
        """Work before the spike that is given up too."""
        return self.rewind


AnyEffect: TypeAlias = Crash | Hang | Slow | Degrade | Corrupt

_NAMES = Completed(named, lambda effects, _: {"anyOf": [{"enum": ["crash", "hang", "corrupt"]}, effects]})
Effect = Annotated[AnyEffect, OneOf("use"), _NAMES]
"""An effect; plain text is one without parameters."""

CRASH = Crash()


# How many nodes of a domain one incident takes.


class IncidentSize(Model):
    """Law of the number of nodes: exactly one of nodes, mean, share, and values."""

    nodes: int | None = Field(None, ge=1, description="Fixed number of nodes.")
    mean: float | None = Field(None, ge=1, description="Mean of a geometric law that begins at `least`.")
    share: Fraction | None = Field(None, gt=0, description="Probability that a node of the domain is taken down.")
    values: tuple[int, ...] | None = Field(None, min_length=1, description="Numbers of nodes that were observed.")
    weights: tuple[float, ...] | None = Field(
        None, description="How often each of `values` was observed. [default: equally often]"
    )
    least: int = Field(1, ge=1, description="Fewest nodes, with mean or share.")

    def _broken_rules(self) -> "BrokenRules":
        laws = [name for name in ("nodes", "mean", "share", "values") if getattr(self, name) is not None]
        if len(laws) != 1:
            yield (), f"give exactly one of nodes, mean, share and values (given: {', '.join(laws) or 'none'})"
        if self.mean is not None and self.mean < self.least:
            yield ("mean",), f"{self.mean:g} nodes are below the least of {self.least}"
        if self.least > 1 and self.mean is None and self.share is None:
            yield ("least",), "goes with mean or share; nodes and values say themselves how few they are"
        if self.values is not None and min(self.values) < 1:
            yield ("values",), f"an incident takes at least one node, not {min(self.values)}"
        if self.weights is not None and not self._weighs_values(self.weights):
            yield ("weights",), "needs one number for each of values, none below zero and one above"

    @property
    def _sample(self) -> tuple[int, ...]:
        """Numbers of nodes that were observed [-]; none under a law."""
        return self.values or ()

    def _weighs_values(self, weights: tuple[float, ...]) -> bool:
        return len(weights) == len(self._sample) > 0 and min(weights) >= 0 and sum(weights) > 0

    def draw(self, number: float, members: int) -> int:
        """Return the number of nodes that a uniform number gives in a domain of `members` nodes."""
        if self.nodes is not None:
            size = self.nodes
        elif self.mean is not None:
            more = 1 - 1 / (self.mean - self.least + 1)
            size = self.least + (math.floor(math.log1p(-number) / math.log(more)) if more > 0 else 0)
        elif self.share is not None:
            from scipy.special import bdtr, bdtrik

            size = max(math.ceil(bdtrik(number, members, self.share)), 0)
            # The inverse is worked out by iteration; the number itself must be the smallest that reaches it.
            if size > 0 and bdtr(size - 1, members, self.share) >= number:
                size -= 1
            size = max(size, self.least)
        else:
            cumulative = np.cumsum(self.weights or (1.0,) * len(self._sample))
            size = self._sample[int(np.searchsorted(cumulative, number * cumulative[-1], side="right"))]
        return min(size, members)

    def mean_of(self, members: int) -> float:
        """Return the mean number of nodes in a domain of `members` nodes [-]."""
        if self.nodes is not None:
            return float(min(self.nodes, members))
        if self.mean is not None:
            more = 1 - 1 / (self.mean - self.least + 1)
            if members <= self.least:
                return float(members)
            return self.least + (more * (1 - more ** (members - self.least)) / (1 - more) if more > 0 else 0.0)
        if self.share is not None:
            from scipy.special import bdtrc

            least = min(self.least, members)
            return least + float(np.sum(bdtrc(np.arange(least, members), members, self.share)))
        weights = np.asarray(self.weights or (1.0,) * len(self._sample))
        return float(np.minimum(self._sample, members) @ weights / weights.sum())


# Which nodes an incident takes.


class Domains(NamedTuple):
    """Nodes behind each unit of a part: those of unit i are ``nodes[offsets[i]:offsets[i + 1]]``."""

    offsets: "NDArray[np.signedinteger]"
    nodes: "NDArray[np.signedinteger]"


@dataclass(frozen=True)
class BlastRadius:
    """The nodes that a failure of a shared part takes.

    Parameters
    ----------
    members
        Nodes of one domain; those of the whole cluster until the topology has been asked.
    domains
        Which they are; ``None`` until the topology is built.
    size
        Law of the number of nodes; ``None`` takes all.
    spread
        Law of each node's delay, each then being a failure of its own; ``None`` takes them at once, as one failure.
    repair
        Whether the shared part is repaired, or each node by itself.
    """

    members: int
    size: IncidentSize | None = None
    spread: "LawModel | None" = None
    repair: Literal["part", "nodes"] = "part"
    domains: Domains | None = None

    @property
    def mean_size(self) -> float:
        """Mean number of nodes that are taken [-]."""
        return float(self.members) if self.size is None else self.size.mean_of(self.members)


class Victims:
    """The nodes of an incident: a look-up by unit and number of the incident."""

    __slots__ = ("_nodes", "_offsets", "_size", "_size_key", "_victim_key")

    def __init__(self, blast: BlastRadius, name: str, seed: int, replication: int) -> None:
        assert blast.domains is not None
        self._size = blast.size
        self._offsets: list[int] = blast.domains.offsets.tolist()
        self._nodes: list[int] = blast.domains.nodes.tolist()
        self._size_key = rng.stream(seed, replication, "mark", name, "size")
        self._victim_key = rng.stream(seed, replication, "mark", name, "victim")

    def nodes(self, part: int, number: int) -> tuple[int, ...]:
        """Return the nodes; each subset of the drawn size is equally likely, at a cost that follows its size."""
        first, stop = self._offsets[part], self._offsets[part + 1]
        members = stop - first
        size = members
        if self._size is not None and members:
            size = self._size.draw(rng.uniform_one(self._size_key, part, number), members)
        if size == members:
            return tuple(self._nodes[first:stop])
        # Floyd's sampling without replacement: one number for each victim.
        victims: set[int] = set()
        for position in range(members - size, members):
            chosen = int(rng.uniform_one(self._victim_key, part, (number << 24) + position) * (position + 1))
            victims.add(position if chosen in victims else chosen)
        return tuple(self._nodes[first + index] for index in sorted(victims))
