"""From lives to candidates: whose life ended, and when the next one of its slot begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sim.engine.defects import RELAPSE
from sim.engine.failure import Renewal, SourceInfo
from sim.engine.kernel import Order
from sim.engine.lives import Life
from sim.engine.numbers import Numbers
from sim.failures.trace import life_key
from sim.failures.variety import fleet_of

if TYPE_CHECKING:
    from sim.engine.failure import Failure
    from sim.engine.kernel import Call
    from sim.engine.simulation import Simulation
    from sim.failures.trace import FailureTrace

__all__ = ["Sources"]


class Sources:
    """Plays the trace and adds the candidates that follow from what happens."""

    def __init__(self, simulation: Simulation, trace: FailureTrace) -> None:
        self.simulation = simulation
        self.kernel = simulation.kernel
        self.infos = [SourceInfo(source, index, simulation) for index, source in enumerate(simulation.prepared.sources)]
        self.lives: dict[int, Numbers] = {}
        """Lives of the slots of those sources whose lives are not all in the trace [s]."""
        self.row = 0
        self.time: list[float] = trace.time.tolist()
        self.source: list[int] = trace.source.tolist()
        self.slot: list[int] = trace.slot.tolist()
        self.round: list[int] = trace.round.tolist()
        self.until: list[float] = trace.until.tolist()

    def start(self, trace: FailureTrace) -> None:
        """Hand out what is not a plain row of the trace, and begin to play."""
        self._start_lives()
        for outage in trace.initial:
            self.simulation.faults.start_outage(self.infos[outage.source], outage.slot, outage.remaining)
        if self.time:
            self.kernel.at(self.time[0], Order.FAILURE, self._on_row)

    def life(self, index: int, slot: int, number: int) -> float:
        """Return life `number` of a slot [s]."""
        lives = self.lives.get(index)
        if lives is None:
            lives = self.lives[index] = _lives_of(self.infos[index])
        return lives.get(slot, number)

    # -------------------------------------------------------------------------------------------- candidates

    def _start_lives(self) -> None:
        """Hand the lives over that are not in the trace's time: those on the clock busy, and hidden faults."""
        apart = {index for index, info in enumerate(self.infos) if info.source.clock == "busy" or info.source.hidden}
        if not apart:
            return
        keep = []
        for row, index in enumerate(self.source):
            if index not in apart:
                keep.append(row)
                continue
            info = self.infos[index]
            slot = self.slot[row]
            if info.source.hidden is not None:
                self.simulation.defects.start(info, slot, self.time[row])
            elif info.of_job:
                life = Life(-1, index, slot, self.round[row], self.time[row])
                group = self.simulation.jobs[slot].main
                # Who takes the nodes of a job does not ask whether processes run on them.
                clock = group.held if info.source.away is not None else group.processes
                self.simulation.lives.add_group_life(clock, life)
            else:
                life = Life(slot // info.divisor, index, slot, self.round[row], self.time[row])
                self.simulation.lives.add_node_life(life)
        for name in ("time", "source", "slot", "round", "until"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])

    def _on_row(self, call: Call) -> None:
        del call
        row = self.row
        self.row = row + 1
        if row + 1 < len(self.time):
            self.kernel.at(self.time[row + 1], Order.FAILURE, self._on_row)
        info = self.infos[self.source[row]]
        if info.in_service or info.source.renews == "never":
            self._candidate(info.index, self.slot[row], self.round[row], self.until[row])
        else:
            self.simulation.faults.occur(info, self.slot[row], self.round[row], self.until[row])

    def on_candidate(self, call: Call) -> None:
        """Let a candidate that is not in the trace come due."""
        self._candidate(*call.argument)

    def _candidate(self, index: int, slot: int, number: int, until: float, due: float | None = None) -> None:
        """Deal with a life that ends now, unless its clock stood still meanwhile or its node is gone."""
        now = self.kernel.now
        info = self.infos[index]
        faults = self.simulation.faults
        if info.source.renews == "never" and info.divisor and self._is_gone(slot // info.divisor, number):
            return
        if info.in_service:
            node = slot // info.divisor
            due = now if due is None else due
            outages = self.simulation.outages
            if outages.is_early(node, due, now):
                outages.schedule(node, index, slot, number, due)
                return
            faults.occur(info, slot, number, until)
            if info.source.renews != "never":
                # The clock stands still while the node is down, so both renewals begin at the same reading.
                outages.schedule(node, index, slot, number + 1, due + self.life(index, slot, number + 1))
            return
        faults.occur(info, slot, number, until)

    def _is_gone(self, node: int, number: int) -> bool:
        """Return whether a life belonged to a node that has been replaced; each new node begins the next one."""
        replaced = self.simulation.lifecycle.generation
        return bool(replaced) and number < replaced.get(node, 0)

    def occur_busy(self, life: Life) -> Life | None:
        """Let a life on the clock busy end; return the next one of its slot."""
        info = self.infos[life.source]
        if info.source.hidden is not None or life.round >= RELAPSE:
            self.simulation.defects.strike(life)
            return None
        self.simulation.faults.occur(info, life.slot, life.round)
        if info.source.renews == "never":
            return None
        due = life.due + self.life(life.source, life.slot, life.round + 1)
        return Life(life.node, life.source, life.slot, life.round + 1, due)

    # ---------------------------------------------------------------------------------------------- renewals

    def renew(self, failure: Failure, node: int = -1) -> None:
        """Begin the next life of a slot that renews at return: now, or when its node, which is down, is back."""
        info = failure.info
        if not info.returns:
            return
        renewal = Renewal(info.index, failure.slot, failure.round + 1)
        if node >= 0:
            self.simulation.outages.renewals.setdefault(node, []).append(renewal)
        else:
            self.begin_life(renewal)

    def begin_life(self, renewal: Renewal) -> None:
        """Begin a life on the wall clock now; what a repair left behind belongs to a life that has been followed."""
        index, slot, number = renewal
        if number > RELAPSE:
            return
        now = self.kernel.now
        life = self.life(index, slot, number)
        tempo = self.infos[index].tempo
        end = now + life if tempo is None else tempo.moment(tempo.elapsed(now) + life)
        if end < self.simulation.end:
            self.kernel.at(end, Order.FAILURE, self.on_candidate, (index, slot, number, math.nan))

    def replace(self, node: int) -> None:
        """Begin the lives of a new node, of those sources whose units are not renewed otherwise.

        The lives of the old node end with it; those on the wall clock are known by their number.
        """
        generation = self.simulation.lifecycle.generation[node]
        lives = self.simulation.lives
        for info in self.infos:
            if info.source.renews != "never" or not info.divisor or info.source.law is None:
                continue
            for slot in range(node * info.divisor, (node + 1) * info.divisor):
                if info.source.clock == "wall":
                    self.begin_life(Renewal(info.index, slot, generation))
                    continue
                seconds = self.life(info.index, slot, generation)
                if info.in_service:
                    self.simulation.outages.schedule_from_now(node, info.index, slot, generation, seconds)
                else:
                    lives.void_slot(node, info.index, slot)
                    lives.begin(Life(node, info.index, slot, generation, 0.0), seconds, self.kernel.now)


def _lives_of(info: SourceInfo) -> Numbers:
    """Return the lives of a source's slots [s]."""
    fleet = fleet_of(info.source, *info.prefix)
    slots = np.arange(info.source.units, dtype=np.int64)
    return Numbers(
        life_key(info.source, *info.prefix), info.source.units, lambda numbers: fleet.lives(slots, numbers), fleet.life
    )
