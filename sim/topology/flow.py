"""How much the switches let through, kept up to date while parts fail and return."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.topology.capacity import ROUNDING
from sim.topology.rows import sums
from sim.topology.switches import Reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.topology.rows import Span
    from sim.topology.switches import Switches

__all__ = ["Flow", "Touched"]


class Touched(NamedTuple):
    """Leaf switches, and blocks of them, that may pass more or less than before [-].

    Of blocks in `beyond` only what leaves the pod has changed.
    """

    leaves: list[int]
    blocks: list[int]
    beyond: list[int]


class Flow:
    """What the switches of one replication pass; all are whole at the beginning.

    All of it are sums of whole units, so it does not matter in which order parts failed.

    Attributes
    ----------
    capacity : Capacity
        What is left of the switches.
    passed : (switches,) float64
        What each leaf switch and spine passes up.
    ratio : (leaves,) float64
        What each leaf switch passes, relative to that when nothing is out [-].
    sums : (3, blocks) float64
        What the leaf switches and the spines of each block pass, and what the leaf switches that send would pass if
        nothing were out.
    pod_shares : (blocks,) float64
        How much of its healthy traffic beyond the pod each leaf switch of a block may send at most [-].
    """

    __slots__ = ("capacity", "network", "passed", "pod_shares", "ratio", "sums")

    def __init__(self, network: Switches) -> None:
        self.network = network
        self.capacity = network.capacity()
        self.recount(np.zeros(network.leaves + 1, dtype=np.bool_))

    def recount(self, cut: NDArray[np.bool_]) -> None:
        """Work everything out anew; the others take it that no living leaf switch is cut off.

        Parameters
        ----------
        cut : (leaves + 1,) bool
            Leaf switches that are cut off.
        """
        self.passed = self.network.passed(self.capacity, cut)
        self.ratio = self._ratios(slice(0, self.network.leaves))
        self.sums = np.vstack((self.network.tier_sums(self.passed), self.network.wanted(self.passed)))
        self.pod_shares = self.network.pod_shares(self.sums)

    def turn_cable(self, cable: int, *, dead: bool) -> Touched:
        """Take a cable between switches out, or put it back."""
        network = self.network
        network.turn_cable(self.capacity, cable, dead=dead)
        lower = network.lower.item(cable)
        block = network.block.item(lower)
        self._pass(lower, block)
        if cable < network.leaf_cables:
            self._pass(network.upper.item(cable), block)
        return Touched([lower] if lower < network.leaves else [], [], [block] if self._share(block) else [])

    def turn_switch(self, switch: int, *, dead: bool) -> Touched:
        """Take a switch out, or put it back."""
        network, capacity = self.network, self.capacity
        ends = network.turn_switch(capacity, switch, dead=dead)
        passed = np.minimum(capacity.up[ends], capacity.down[ends])
        passed *= capacity.alive[ends]
        self.passed[ends] = passed
        if switch >= network.leaves + network.spines:
            before = self.pod_shares
            first, end = network.leaves, network.leaves + network.spines
            self.sums[1] = sums(network.block[first:end], self.passed[first:end], network.blocks)
            self.pod_shares = network.pod_shares(self.sums)
            beyond: list[int] = np.flatnonzero(self.pod_shares != before).tolist()
            return Touched([], [], beyond)
        block = network.block.item(switch)
        self._pass(switch, block)
        for tier in (0, 1):
            self.sums[tier, block] = np.add.reduce(self.passed[network.spans[tier * network.blocks + block]])
        span = network.spans[block]
        self.sums[2, block] = np.add.reduce(network.ceiling[span] * (self.passed[span] > 0))
        self.ratio[span] = self._ratios(span)
        self._share(block)
        return Touched([], [block], [])

    def lost(self, leaves: Span, cut: NDArray[np.bool_], reach: Reach) -> NDArray[np.float64]:
        """Return what share of its bandwidth each of some leaf switches has lost, for traffic of some reach.

        A leaf switch passes the smaller of what comes from its hosts and what goes up: its ratio is that to what it
        passes when nothing is out. Of what goes beyond the pod its spines may pass less than is offered; those that
        still send share that, and a leaf switch sends the smaller of its part and of what it passes.

        Parameters
        ----------
        leaves : slice or (n,) int64
            Their numbers [-].
        cut : (leaves + 1,) bool
            Leaf switches that are cut off: these lose all.
        reach : Reach
            How far the traffic goes.

        Returns
        -------
        (n,) float64
            From 0 to 1 [-].
        """
        gone = cut[leaves]
        if reach == Reach.LEAF:
            return gone.astype(np.float64)
        ratio = self.ratio[leaves]
        if reach == Reach.CLUSTER:
            block = self.network.block[leaves]
            ratio = np.minimum(ratio / self.network.pod_share[block], self.pod_shares[block])
        lost: NDArray[np.float64] = 1.0 - ratio
        lost *= lost > ROUNDING
        lost[gone] = 1.0
        return lost

    def lost_by(self, leaf: int, reach: Reach) -> float:
        """Return what share of its bandwidth a leaf switch has lost that is not cut off, as :meth:`lost` does [-]."""
        if reach == Reach.LEAF:
            return 0.0
        ratio = self.ratio.item(leaf)
        if reach == Reach.CLUSTER:
            block = self.network.block.item(leaf)
            ratio = min(ratio / self.network.pod_share.item(block), self.pod_shares.item(block))
        lost = 1.0 - ratio
        return lost if lost > ROUNDING else 0.0

    def _pass(self, switch: int, block: int) -> None:
        """Work out what a leaf switch or a spine passes, and what its block does."""
        capacity, tier = self.capacity, int(switch >= self.network.leaves)
        passed = min(capacity.up.item(switch), capacity.down.item(switch)) * capacity.alive.item(switch)
        change = passed - self.passed.item(switch)
        if change:
            self.passed[switch] = passed
            self.sums[tier, block] += change
            if not tier:
                network = self.network
                if not passed or passed == change:
                    self.sums[2, block] += network.ceiling.item(switch) * (1 if passed else -1)
                self.ratio[switch] = max(passed / network.ceiling.item(switch), network.lonely.item(switch))

    def _ratios(self, leaves: Span) -> NDArray[np.float64]:
        """Work out what some leaf switches pass, relative to that when nothing is out."""
        network = self.network
        return np.maximum(self.passed[leaves] / network.ceiling[leaves], network.lonely[leaves])

    def _share(self, block: int) -> bool:
        """Work out how much each leaf switch of a block may send beyond it, and return whether that has changed."""
        network = self.network
        offered, by_spines = self.sums.item(0, block), self.sums.item(1, block)
        limit = by_spines / self.sums.item(2, block) if offered > by_spines else math.inf
        share = max(limit / network.pod_share.item(block), network.level.item(block))
        if share == self.pod_shares.item(block):
            return False
        self.pod_shares[block] = share
        return True
