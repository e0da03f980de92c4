"""What a kind of fabric is: from a few parameters to switches, cables and failure domains of any hosts."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from sim.fields import Bandwidth, Count, Strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sim.topology.model import Edges

__all__ = ["FABRIC_PARTS", "FabricKind", "Hosts", "Ratio", "Some"]

Some = Annotated[Count, Field(ge=1, le=1_000_000_000)]
Ratio = Annotated[float, Field(ge=1, le=1e4)]

FABRIC_PARTS = (
    "nic",
    "transceiver",
    "cable_node_leaf",
    "cable_leaf_spine",
    "cable_spine_core",
    "leaf",
    "spine",
    "core",
)
"""Part classes whose blast radius follows from the cables."""


class Hosts(NamedTuple):
    """What a fabric joins: how many nodes, and GPUs of each [-]."""

    nodes: int
    gpus: int


class FabricKind(Strategy, abc.ABC):
    """Parameters of one kind of fabric, and what can be made of them."""

    rails: Some = Field(8, description="NICs per host, one rail each.")
    nic: Bandwidth = Field("400 Gb/s", gt=0, description="Bandwidth per NIC and direction.")  # type: ignore[assignment]
    reroute: Literal["none", "scale_up"] = Field(
        "none",
        description="Where the traffic of a rail without a path goes: nowhere, and the job on its host crashes, or "
        "through the scale-up links to the other rails, which share it.",
    )
    copper: bool = Field(False, description="Whether the cables from hosts to leaf switches are without transceivers.")

    @property
    def homes(self) -> int:
        """Access cables of each NIC [-]."""
        return 1

    @abc.abstractmethod
    def check(self, hosts: Hosts) -> None:
        """Refuse what cannot be cabled.

        Raises
        ------
        ValueError
            In one line, with the number that is wrong and what would be right.
        """

    @abc.abstractmethod
    def counts(self, hosts: Hosts) -> dict[str, int]:
        """Count the parts of the fabric from the parameters alone: those of ``FABRIC_PARTS``, and pods [-]."""

    @abc.abstractmethod
    def domains(self, hosts: Hosts) -> dict[str, NDArray[np.int32]]:
        """Return the domain of each node, (nodes,) each: ``leaf`` (same leaf switches) and ``pod``."""

    @abc.abstractmethod
    def bandwidth(self, hosts: Hosts) -> dict[str, float]:
        """Return what one NIC gets when all send at once, by how far the traffic goes: leaf, pod, cluster [B/s]."""

    @abc.abstractmethod
    def edges(self, hosts: Hosts) -> Edges:
        """Build the cables."""

    @abc.abstractmethod
    def disjoint_paths(self, hosts: Hosts) -> int:
        """Return a lower bound of the paths between any two leaf switches of one plane that share no other switch.

        As long as fewer spines, cores and cables between switches are out at once, no leaf switch is cut off (Menger).
        0 when nothing is known; every outage is then looked at by itself.
        """

    def nodes_behind(self, part: str, hosts: Hosts) -> int:
        """Return how many nodes one failed unit of a part, alone, cuts off, where its domain is full [-].

        0 for parts of which a single failure cuts nobody off. Only asked of fabrics with two disjoint paths or more;
        of others the cables tell.
        """
        raise NotImplementedError
