"""Units of nodes that jobs use as wholes, with spares inside them: racks and scale-up domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.places import Place
from sim.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.cluster import Cluster
    from sim.job import Group
    from sim.places import Units

__all__ = ["WholeUnits"]

_JOB = int(Place.JOB)
_MATE = int(Place.MATE)
_REPAIR = int(Place.REPAIR)
_STRANDED = int(Place.STRANDED)


class WholeUnits:
    """Keeps each unit in use or broken.

    Of a unit *in use* as many nodes as a job needs are in one pool or at positions of one job; the other healthy ones
    are their mates, and one of them takes the place of a node that leaves. Of a *broken* unit every healthy node is
    stranded, except those that a job holds until it lets them go.
    """

    __slots__ = ("cluster", "drains", "is_broken", "needed", "nodes", "of_node", "torn")

    def __init__(self, units: Units, cluster: Cluster) -> None:
        self.nodes, self.needed, self.drains = units
        self.cluster = cluster
        self.of_node = [0] * cluster.nodes
        for index, unit in enumerate(self.nodes):
            for node in unit:
                self.of_node[node] = index
        self.is_broken = [False] * len(self.nodes)
        self.torn: list[int] = []
        """Broken units of which a job still holds nodes."""
        cluster.units_whole.count = len(self.nodes)

    def seat_mates(self) -> list[int]:
        """Let the last nodes of each unit be mates of the first ones; return the first ones."""
        mates = [node for unit in self.nodes for node in unit[self.needed :]]
        for node in mates:
            self.cluster.place[node] = _MATE
        self.cluster.mates.count = len(mates)
        return [node for unit in self.nodes for node in unit[: self.needed]]

    def rank(self, rank: Callable[[int], Any]) -> Callable[[int], object]:
        """Give the nodes of a unit one key, that of the worst of them: they are picked together."""
        keys: dict[int, object] = {}
        place = self.cluster.place

        def of_unit(node: int) -> object:
            index = self.of_node[node]
            unit = self.nodes[index]
            # The nodes of a unit enter a pool one after another, and the first one brings a new key.
            if index not in keys or all(place[other] != place[node] for other in unit if other != node):
                keys[index] = max(rank(other) for other in unit), index
            return keys[index]

        return of_unit

    # ------------------------------------------------------------------------------------------- out and back

    def lose(self, node: int, group: Group | None, now: float) -> None:
        """Let a mate take the place that a node has left for repair, or break the unit; see :meth:`replace`."""
        if self.drains:
            self.tear(node, now)
        else:
            self.replace(node, group, now)

    def replace(self, node: int, group: Group | None, now: float) -> None:
        """Let a mate take the place that a node has just left, or break the unit.

        Parameters
        ----------
        node
            The node; its entry in ``Cluster.place`` is where it was.
        group
            The group that it was in, if any.
        """
        index = self.of_node[node]
        if self.is_broken[index]:
            return
        cluster = self.cluster
        place = cluster.place[node]
        if place == _MATE:
            return
        mate = next((other for other in self.nodes[index] if cluster.place[other] == _MATE and other != node), -1)
        if mate < 0:
            self.tear(node, now)
            return
        cluster.mates.change(-1, now)
        if group is None:
            pool = cluster.level_at[place]
            assert isinstance(pool, Pool)
            cluster.enter(pool, mate, now)
        else:
            self._sit_in(group, cluster.position[node], mate, now)

    def _sit_in(self, group: Group, position: int, mate: int, now: float) -> None:
        """Put a mate at a position of a job."""
        cluster = self.cluster
        group.missing.remove(position)
        cluster.place[mate] = _JOB
        cluster.seat(group, position, mate)
        if group.job.holding:
            group.replaced.append(position)
        else:
            cluster.idle.change(1, now)
        if cluster.on_join is not None:
            cluster.on_join(mate)

    def tear(self, node: int, now: float) -> None:
        """Break the unit of a node, if it is not broken: its other nodes are stranded, those of jobs when let go."""
        index = self.of_node[node]
        if self.is_broken[index]:
            return
        cluster = self.cluster
        self.is_broken[index] = True
        cluster.units_whole.change(-1, now)
        for other in self.nodes[index]:
            if other == node or cluster.place[other] == _REPAIR:
                continue
            if cluster.where(other) is not Place.JOB:
                self._strand(other, now)
            elif index not in self.torn:
                self.torn.append(index)

    def _strand(self, node: int, now: float) -> None:
        """Put a healthy node aside until its unit is of use."""
        cluster = self.cluster
        if cluster.group[node] is not None and cluster.on_leave is not None:
            cluster.on_leave(node)
        cluster.leave(node, now)
        cluster.place[node] = _STRANDED
        cluster.stranded.change(1, now)

    def take_back(self, node: int, now: float) -> None:
        """Let a healthy node that is nowhere be a mate, or wait until its unit is of use again."""
        cluster = self.cluster
        index = self.of_node[node]
        if self.is_broken[index]:
            cluster.place[node] = _STRANDED
            cluster.stranded.change(1, now)
            self._mend(index, now)
        else:
            cluster.place[node] = _MATE
            cluster.mates.change(1, now)

    def let_go(self, group: Group, now: float) -> None:
        """Strand what a group still holds of units that are broken."""
        cluster = self.cluster
        for index in self.torn.copy():
            if self._mend(index, now):
                continue
            for node in self.nodes[index]:
                if cluster.group[node] is group and not cluster.outages[node]:
                    self._strand(node, now)
            if all(cluster.place[node] != _JOB for node in self.nodes[index]):
                self.torn.remove(index)
                self._mend(index, now)

    def _mend(self, index: int, now: float) -> bool:
        """Make a broken unit one of use if it has what that takes; return whether it had."""
        assert self.is_broken[index]
        cluster = self.cluster
        unit, needed, place = self.nodes[index], self.needed, cluster.place
        waiting = [node for node in unit if place[node] == _STRANDED]
        held = [node for node in unit if place[node] == _JOB]
        if len(waiting) + len(held) < (len(unit) if self.drains else needed):
            return False
        if held and (len(held) != needed or any(cluster.outages[node] for node in held)):
            return False
        self.is_broken[index] = False
        cluster.units_whole.change(1, now)
        cluster.stranded.change(-len(waiting), now)
        if index in self.torn:
            self.torn.remove(index)
        if held:
            # All that a job needs is still there, and so is the rest: the job never noticed.
            mates = waiting
        else:
            pool = cluster.refill(needed)
            for node in waiting[:needed]:
                cluster.enter(pool, node, now)
            mates = waiting[needed:]
        for node in mates:
            place[node] = _MATE
        cluster.mates.change(len(mates), now)
        return True
