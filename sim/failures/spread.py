"""Which nodes of a domain one incident takes, and how many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ettrick.sim import rng
from ettrick.sim.scenario.fields import Fraction, Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.law_model import LawModel


class IncidentSize(Model):
    """Law of the number of nodes: exactly one of nodes, mean, share, and values."""

    nodes: int | None = Field(None, ge=1, description="Always as many.")
    mean: float | None = Field(None, ge=1, description="Mean of a geometric law that begins at `least`.")
    share: Fraction | None = Field(None, gt=0, description="Each node of the domain with this probability.")
    values: tuple[int, ...] | None = Field(None, min_length=1, description="Numbers of nodes that were observed.")
    weights: tuple[float, ...] | None = Field(None, description="How often each of `values` was; without it, equally.")
    least: int = Field(1, ge=1, description="Fewest nodes, with mean or share.")

    def _broken_rules(self) -> BrokenRules:
        given = [name for name in ("nodes", "mean", "share", "values") if getattr(self, name) is not None]
        if len(given) != 1:
            yield (), f"give exactly one of nodes, mean, share and values (given: {', '.join(given) or 'none'})"
        if self.mean is not None and self.mean < self.least:
            yield ("mean",), f"{self.mean:g} nodes are below the least of {self.least}"
        if self.least > 1 and self.mean is None and self.share is None:
            yield ("least",), "goes with mean or share; nodes and values say themselves how few they are"
        if self.values is not None and min(self.values) < 1:
            yield ("values",), f"an incident takes at least one node, not {min(self.values)}"
        if self.weights is not None and not self._weighs_values(self.weights):
            yield ("weights",), "needs one number for each of values, none below zero and one above"

    def _weighs_values(self, weights: tuple[float, ...]) -> bool:
        return len(weights) == len(self.values or ()) > 0 and min(weights) >= 0 and sum(weights) > 0

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
            assert self.values is not None
            cumulative = np.cumsum(self.weights or (1.0,) * len(self.values))
            size = self.values[int(np.searchsorted(cumulative, number * cumulative[-1], side="right"))]
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
        assert self.values is not None
        weights = np.asarray(self.weights or (1.0,) * len(self.values))
        return float(np.minimum(self.values, members) @ weights / weights.sum())


# Which nodes an incident takes.


class Domains(NamedTuple):
    """Nodes behind each unit of a part: those of unit i are ``nodes[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.signedinteger]
    nodes: NDArray[np.signedinteger]


@dataclass(frozen=True)
class BlastRadius:
    """What one failure of a shared part takes.

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
    spread: LawModel | None = None
    repair: Literal["part", "nodes"] = "part"
    domains: Domains | None = None

    @property
    def mean_size(self) -> float:
        """Mean number of nodes that are taken [-]."""
        return float(self.members) if self.size is None else self.size.mean_of(self.members)


class Victims:
    """Which nodes an incident takes: a look-up by unit and number of the incident."""

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
        taken: set[int] = set()
        for position in range(members - size, members):
            chosen = int(rng.uniform_one(self._victim_key, part, (number << 24) + position) * (position + 1))
            taken.add(position if chosen in taken else chosen)
        return tuple(self._nodes[first + index] for index in sorted(taken))
