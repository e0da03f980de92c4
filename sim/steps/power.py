"""The power of a cluster: from the activity of its GPUs to nodes, switches and the whole facility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ettrick.sim.steps.hardware import NodePower


class PowerState(NamedTuple):
    """The activity of a node.

    Attributes
    ----------
    utilisation
        Where its power is between idle (0) and training (1) [-]; ``None`` when it is off.
    measured
        Whether a meter stands behind that number; else it is an assumption.
    basis
        What the number rests on.
    """

    utilisation: float | None
    measured: bool
    basis: str


STATES: Mapping[str, PowerState] = {
    "stepping": PowerState(1.0, True, "the training power is that of stepping"),
    "waiting": PowerState(0.65, False, "GPUs that spin in a collective; anything from 50 to 80 % is likely"),
    "saving": PowerState(0.0, False, "memory is copied and the matrix units rest"),
    "loading": PowerState(0.0, False, "nodes load near their floor; warm-up steps at the end would add to it"),
    "evaluation": PowerState(0.75, False, "5.8 of 7.0 kW of a node, MLPerf power logs; its floor is another's"),
    "idle": PowerState(0.0, True, "the idle power is that of a node without work"),
    "stress": PowerState(1.0, False, "tests of a repaired node load it as training does"),
    "off": PowerState(None, False, "a node in repair is unplugged, while it waits for a crew too"),
}

"""States of a node by name.

References
----------
MLCommons, training results v4.0 and v4.1: power logs of 64 and of 8 nodes of 8 H100.
"""

STATE_OF_BUCKET: Mapping[str, str] = {
    "productive": "stepping",
    "degraded": "stepping",
    "checkpoint_stall": "saving",
    "lost_work": "stepping",
    "detection": "waiting",
    "reschedule": "loading",
    "initialize": "loading",
    "restore": "loading",
    "starved": "idle",
    "queued": "idle",
    "maintenance": "idle",
    "auxiliary": "evaluation",
    "wrong_work": "stepping",
    "given_up": "idle",
    "spare_idle": "idle",
    "repair": "off",
    "qualification": "stress",
    "stranded": "idle",
    "unallocated": "idle",
    "headroom": "idle",
}

"""State of the nodes whose time is in a bucket of the ledger."""


@dataclass(frozen=True, slots=True)
class Facility:
    """The consumers of power of a facility.

    Parameters
    ----------
    node
        A node.
    switches, switch
        Switches of the fabric [-], and what one draws whatever passes [W].
    storage
        What all storage draws [W].
    pue
        Power of the facility over that of what computes, switches and stores [-].
    """

    node: NodePower
    switches: int
    switch: float
    storage: float
    pue: float

    @property
    def network(self) -> float:
        """The power of all switches [W]."""
        return self.switches * self.switch

    def provisioned(self, nodes: int) -> float:
        """Return what the site has to be built for, so that so many nodes may all train at once [W]."""
        return facility_energy(nodes * self.node.training, self.network, self.storage, self.pue).total


class FacilityEnergy(NamedTuple):
    """Energy by what took it [J]; `overhead` is that of cooling and of losses on the way."""

    nodes: float
    network: float
    storage: float
    overhead: float

    @property
    def total(self) -> float:
        """All of it [J]."""
        return sum(self)


def node_power(node: NodePower, utilisation: float | None) -> float:
    """Return what a node draws at a utilisation, or off if that is ``None`` [W].

    ``P = P_idle + u (P_training - P_idle)``.

    Parameters
    ----------
    node
        Its power idle and in training [W].
    utilisation
        From 0, idle, to 1, training [-].

    References
    ----------
    The line between two measured ends is the usual model of a host: X. Fan, W.-D. Weber, L. A. Barroso, "Power
    provisioning for a warehouse-sized computer", ISCA 2007.
    """
    if utilisation is None:
        return 0.0
    assert 0 <= utilisation <= 1
    return node.idle + utilisation * (node.training - node.idle)


def energy_by_bucket(gpu_seconds: Mapping[str, float], node: NodePower, share: float = 1.0) -> dict[str, float]:
    """Return the energy of the nodes by bucket of the ledger [J].

    ``E_b = t_b / g x P(min(u_b, x))``.

    Parameters
    ----------
    gpu_seconds
        Time t of the GPUs by bucket [GPU s].
    node
        A node of g GPUs; of a node with fewer a GPU has as large a part in the power of the host.
    share
        Utilisation x that a cap leaves [-].
    """
    energy = {}
    for bucket, seconds in gpu_seconds.items():
        used = STATES[STATE_OF_BUCKET[bucket]].utilisation
        energy[bucket] = seconds / node.gpus * node_power(node, used if used is None else min(used, share))
    return energy


def capped_share(cap: float, node: NodePower, stepping: float, idle: float = 0.0, outside: float = 0.0) -> float:
    """Return the utilisation that a cap leaves each of the nodes that step [-]; at most 1, below 0 if none can be idle.

    ``x = (P_cap - P_other - (n + m) P_idle) / (n (P_training - P_idle))``.

    Parameters
    ----------
    cap, other
        The cap, and what draws next to the nodes below it [W].
    node
        A node.
    stepping, idle
        Nodes n that step, and m that do not [-].
    """
    room = stepping * (node.training - node.idle)
    left = cap - outside - (stepping + idle) * node.idle
    if room <= 0:
        return 1.0 if left >= 0 else -1.0
    return min(left / room, 1.0)


IDLE_BOARD = 75 / 700

"""The power of a board without work, over its full power [-]."""

_CAPPED = (0.0, 0.2, 0.52, 0.84, 1.0), (0.0, 0.320, 0.821, 0.966, 1.0)

"""Shares of the range of power from idle to training that a cap leaves, and the pace of training there [-].

Boards of H100 under 200, 400 and 600 of 700 W, 75 W without work, in training of LLaMA-3 8B.

References
----------
M. Mayr et al., arXiv:2603.16164, table 4.
"""


def capped_pace(share: float, exponent: float | None = None) -> float:
    """Return the pace at which a job steps whose boards may use a share of their range of power [-].

    As measured, on the line between two caps; or the share to the power `exponent`, where that is stated.
    """
    if exponent is not None:
        return float(share**exponent)
    shares, paces = _CAPPED
    return float(np.interp(share, shares, paces))


def board_share(cap: float, power: float) -> float:
    """Return the share of the range of power that a cap leaves a board that would draw `power` [W] [-]."""
    return min(max((cap / power - IDLE_BOARD) / (1 - IDLE_BOARD), 0.0), 1.0)


def facility_energy(nodes: float, network: float, storage: float, pue: float) -> FacilityEnergy:
    """Return the energy of a facility by part, from that of what stands in it [J].

    ``E = (E_nodes + E_network + E_storage) x PUE``; the overhead is what PUE adds.

    Parameters
    ----------
    nodes, network, storage
        Energy of the nodes, the switches and the storage [J].
    pue
        Power usage effectiveness, 1 or more [-].

    References
    ----------
    ISO/IEC 30134-2 (power usage effectiveness).
    """
    assert pue >= 1
    return FacilityEnergy(nodes, network, storage, (nodes + network + storage) * (pue - 1))
