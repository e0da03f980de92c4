"""What a fault does to its nodes until it is found: stop them, hang them, slow them, or make them compute wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from ettrick.sim.scenario.fields import Completed, Duration, Fraction, Model, OneOf, default, named
from ettrick.sim.scenario.laws import Law

if TYPE_CHECKING:
    from ettrick.sim.scenario.law_model import LawModel

Fault: TypeAlias = Literal[
    "process",
    "gpu",
    "driver",
    "host",
    "nic",
    "switch",
    "hang",
    "slow",
    "corrupt",
    "spike",
    "storage",
    "planned",
]

"""The keys of :data:`ettrick.sim.policies.contracts.FAULTS`, as a type."""

Aftermath: TypeAlias = Literal["process", "reboot"]

"""What a failure does to the nodes that stay in their job: ends their processes, or starts them anew."""

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


def fault_of(part: str, effect: EffectModel, *, planned: bool = False) -> Fault:
    """Return the class of the faults of a part, where it is not stated: by the effect, else by the part.

    Nodes, and what only they share (racks, power, cooling), are of the class ``host``.
    """
    return "planned" if planned else _OF_EFFECT.get(effect.use) or _OF_PART.get(part, "host")


class EffectModel(Model):
    """What every effect has."""

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
    def heal(self) -> LawModel | None:
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
    """The nodes stop, and nothing reports it: a time-out has to find out."""

    use: Literal["hang"] = "hang"
    stops = True


class Slow(EffectModel):
    """The nodes step on more slowly, and a synchronous job with them."""

    use: Literal["slow"] = "slow"
    saves = True
    factor: Fraction = Field(gt=0, description="Pace relative to a healthy node [-].")
    heals: Law | None = Field(None, description="Time after which it goes away by itself; without it, never.")

    @property
    def speed(self) -> float:
        """Pace of the node."""
        return self.factor

    @property
    def heal(self) -> LawModel | None:
        """Law of the time after which it heals."""
        return self.heals


class Degrade(EffectModel):
    """The nodes lost bandwidth; the part of a step that waits for communication (``jobs.communication``) grows."""

    use: Literal["degrade"] = "degrade"
    saves = True
    bandwidth: Fraction = Field(gt=0, description="Bandwidth that is left [-].")
    heals: Law | None = Field(None, description="Time after which it goes away by itself; without it, never.")

    @property
    def bandwidth_left(self) -> float:
        """Bandwidth of the nodes."""
        return self.bandwidth

    @property
    def heal(self) -> LawModel | None:
        """Law of the time after which it heals."""
        return self.heals


class Corrupt(EffectModel):
    """The nodes compute wrongly and say nothing: every step since then is worthless once it is found."""

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
