"""Hidden faults: what a repair left in a node, or what it had from the beginning, until a repair removes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim import rng
from sim.engine.kernel import Order
from sim.engine.lives import Life
from sim.failures.trace import PARTS
from sim.failures.victims import hidden_at_start

if TYPE_CHECKING:
    from sim.engine.failure import Failure, SourceInfo
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation

__all__ = ["Defects"]

ONSET = 1 << 30
"""Between the numbers of the first lives of hidden faults that a node catches one after another."""

RELAPSE = 1 << 50
"""Added to the number of a failure for each relapse: far above the number of any life or incident."""


class Defects:
    """Keeps the lives of hidden faults, on the wall clock or on the busy clock of their node."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.open: dict[int, list[Life]] = {}
        """Hidden faults of each node."""
        self.parked: dict[int, list[Life]] = {}
        """Those that came due while their node was down."""

    def start(self, info: SourceInfo, node: int, seconds: float, number: int = 0) -> None:
        """Give a node a hidden fault that strikes after `seconds`, at the start or when it catches one."""
        self._begin(Life(node, info.index, node, number, seconds), seconds, self.kernel.now)

    def start_onsets(self) -> None:
        """Arrange when nodes without a hidden fault catch it, once the faults of the trace have been handed over."""
        for info in self.simulation.sources.infos:
            hidden = info.source.hidden
            if hidden is None:
                continue
            self._keep_dormant(info)
            if hidden.onset is None:
                continue
            key = rng.stream(*info.prefix, "onset", info.source.name)
            reach = float(hidden.onset.cdf(np.asarray([self.simulation.end]))[0])
            nodes, numbers = rng.below(key, info.source.units, 0, reach)
            for node, number in zip(nodes.tolist(), numbers.tolist(), strict=True):
                self._at_onset(info, node, 0, hidden.onset.ppf_one(number))

    def _keep_dormant(self, info: SourceInfo) -> None:
        """Remember the hidden faults that would strike after the end; nodes that have one cannot catch another."""
        for node in np.flatnonzero(hidden_at_start(info.source, *info.prefix)).tolist():
            mine = self.open.setdefault(node, [])
            if not any(life.source == info.index for life in mine):
                mine.append(Life(node, info.index, node, 0, math.inf))

    def _at_onset(self, info: SourceInfo, node: int, number: int, time: float) -> None:
        if time < self.simulation.end:
            self.kernel.at(time, Order.FAILURE, self._on_onset, (info, node, number))

    def _on_onset(self, call: Call) -> None:
        info, node, number = call.argument
        if not any(life.source == info.index for life in self.open.get(node, ())):
            first = (number + 1) * ONSET
            self.start(info, node, self.simulation.sources.life(info.index, node, first), first)
        key = rng.stream(*info.prefix, "onset", info.source.name)
        law = info.source.hidden.onset
        self._at_onset(info, node, number + 1, self.kernel.now + law.ppf_one(rng.uniform_one(key, node, number + 1)))

    # ------------------------------------------------------------------------------------------------- lives

    def remain(self, node: int, failure: Failure, now: float) -> None:
        """Leave the fault behind a failure in its node: it strikes again."""
        residue = failure.info.source.residue
        if residue is None:
            return
        slot, number = failure.slot, failure.round
        if not failure.info.divisor and number < RELAPSE:
            # One of the nodes that an incident took: it strikes again alone, and its slot is the node.
            slot, number = node, number * PARTS + slot
        number += RELAPSE
        after = self._after(failure.info, slot, number)
        self._begin(Life(node, failure.info.index, slot, number, after), after, now)

    def _after(self, info: SourceInfo, slot: int, number: int) -> float:
        """Return how long a fault that a repair left takes to strike again [s]."""
        residue = info.source.residue
        assert residue is not None
        numbers = info.numbers.get("relapse after") or info.numbers_for("relapse after")
        return residue.after.ppf_one(numbers.get(slot, number))

    def _begin(self, life: Life, seconds: float, now: float) -> None:
        """Let a hidden fault strike after `seconds` of its clock."""
        self.open.setdefault(life.node, []).append(life)
        info = self.simulation.sources.infos[life.source]
        if info.source.clock == "busy":
            self.simulation.lives.begin(life, seconds, now)
        elif now + seconds < self.simulation.end:
            self.kernel.at(now + seconds, Order.FAILURE, self._on_due, (life, life.token))

    def _on_due(self, call: Call) -> None:
        life, token = call.argument
        if life.token == token:
            self.strike(life)

    def strike(self, life: Life) -> None:
        """Let a hidden fault make its node fail."""
        now = self.kernel.now
        simulation = self.simulation
        node = life.node
        if simulation.cluster.outages[node]:
            self.parked.setdefault(node, []).append(life)
            return
        info = simulation.sources.infos[life.source]
        mine = self.open[node]
        mine.remove(life)
        if life.round >= RELAPSE:
            simulation.faults.counts.relapses += 1
            simulation.faults.occur(info, life.slot, life.round)
            return
        following = Life(node, life.source, life.slot, life.round + 1, 0.0)
        self._begin(following, simulation.sources.life(life.source, life.slot, life.round + 1), now)
        simulation.faults.occur(info, life.slot, life.round)

    def resume(self, node: int, now: float) -> None:
        """Let hidden faults that came due while their node was down strike some time after its return."""
        for life in self.parked.pop(node, ()):
            if life in self.open.get(node, ()):
                self.open[node].remove(life)
                info = self.simulation.sources.infos[life.source]
                if life.round >= RELAPSE:
                    number = life.round + RELAPSE
                    seconds = self._after(info, life.slot, number)
                else:
                    number = life.round + 1
                    seconds = self.simulation.sources.life(life.source, life.slot, number)
                self._begin(Life(node, life.source, life.slot, number, 0.0), seconds, now)

    def clear(self, node: int) -> None:
        """Forget the hidden faults of a node that has been repaired."""
        for life in self.open.pop(node, ()):
            self.simulation.lives.void(life)
