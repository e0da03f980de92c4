"""What a kind of fabric is: from a few parameters to switches, cables and failure domains of any hosts."""

from __future__ import annotations

import abc
from math import ceil, floor
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from sim.scenario.fields import Bandwidth, Count, Strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sim.cluster.topology import Edges

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


# ----------------------------------------
# Port arithmetic of folded Clos networks, shared by the kinds that have tiers of switches.


def uplinks(down: int, oversubscription: float) -> int:
    """Return the links up [-] of a switch with `down` links down: the quotient, rounded up to whole cables."""
    # The small number keeps a whole quotient whole when the division is off in its last digit.
    return max(ceil(down / oversubscription - 1e-9), 1)


def downlinks(radix: int, oversubscription: float | None) -> int:
    """Return the most links down [-] of a switch whose links up must fit too (None: top tier, no links up)."""
    if oversubscription is None:
        return radix
    return floor(radix * oversubscription / (1 + oversubscription) + 1e-9)


def fewest_switches(links: int, uplinks_each: int, ports: int) -> int:
    """Return how many switches of `ports` take `links` from lower switches of `uplinks_each`.

    Published designs give a lower switch as many links to one upper switch as to any other, so the number is the next
    divisor of `uplinks_each`. If that would more than double the switches (because `uplinks_each` is prime, say),
    it is the plain quotient and the links are spread as evenly as they go.

    The result may exceed `uplinks_each`; a lower switch then cannot reach every upper one, which is for the caller to
    judge.

    Examples
    --------
    Three scalable units of the DGX SuperPOD have 768 links from leaves of 32 uplinks; 12 spines of 64 ports would do.

    >>> fewest_switches(768, 32, 64)
    16
    """
    needed = ceil(links / ports)
    even = next((number for number in range(needed, uplinks_each + 1) if uplinks_each % number == 0), needed)
    return even if even <= 2 * needed else needed


def spine_tier(
    leaves: int, leaf_up: int, radix: int, above: float | None, switches: int | None, what: tuple[str, str]
) -> tuple[int, int]:
    """Return the spines that join leaf switches, and uplinks of each [-].

    Parameters
    ----------
    leaves, leaf_up
        Leaf switches of a pod (and plane), and uplinks of each [-].
    radix
        Ports of a spine at the speed of these links [-].
    above
        Links down over links up of a spine; None for the top tier.
    switches
        How many spines there shall be; None for the fewest.
    what
        What the leaf switches are counted by, and the key that makes them fewer; for the message.

    Raises
    ------
    ValueError
        If the ports do not suffice, or a leaf switch cannot reach every spine.
    """
    ports = downlinks(radix, above)
    if ports < 1:
        msg = f"spine radix {radix} leaves no port for a leaf switch"
        raise ValueError(msg)
    links = leaves * leaf_up
    spines = switches or fewest_switches(links, leaf_up, ports)
    down = ceil(links / spines)
    if spines > leaf_up or down > ports:
        msg = (
            f"spine radix {radix} is too small: {leaves} leaf switches per {what[0]} of {leaf_up} uplinks each on "
            f"{spines} spines need {down} links down of {ports} possible, and at most {leaf_up} spines: "
            f"lower {what[1]} or raise radix"
        )
        raise ValueError(msg)
    return spines, uplinks(down, above) if above else 0


def core_tier(pods: int, spines: int, spine_up: int, radix: int, switches: int | None) -> tuple[int, int]:
    """Return groups of spines that share cores, and the cores of each group [-].

    Fewer groups mean more paths between two spines, so the first number that can be cabled is taken. `switches` is how
    many cores there shall be in all; None for the fewest.

    Raises
    ------
    ValueError
        If no number of groups can be cabled.
    """
    for groups in (number for number in range(1, spines + 1) if radix and spines % number == 0):
        links = pods * (spines // groups) * spine_up
        if switches is None:
            cores = fewest_switches(links, spine_up, radix)
        elif switches % groups == 0:
            cores = switches // groups
        else:
            continue
        if cores <= spine_up and ceil(links / cores) <= radix:
            return groups, cores
    wanted = f"core.switches = {switches}" if switches else "any number of core switches"
    some = "pod" if pods == 1 else "pods"
    msg = (
        f"core radix {radix} is too small for {pods} {some} of {spines} spines of {spine_up} uplinks each with {wanted}"
    )
    raise ValueError(msg)
