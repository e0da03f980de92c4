"""The class of a fault: what those who watch can see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from sim.failures.effects import EffectModel

__all__ = ["Aftermath", "Fault", "fault_of"]

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
"""The keys of :data:`sim.contracts.FAULTS`, as a type."""

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
    """Return the class of the faults of a part, where nobody has stated it: by the effect, else by the part.

    Nodes, and what only they share (racks, power, cooling), are of the class ``host``.
    """
    return "planned" if planned else _OF_EFFECT.get(effect.kind) or _OF_PART.get(part, "host")
