"""One failure, what is known of its source, and what becomes of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim import rng
from sim.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.simulation import Simulation
    from sim.engine.sources import Sources
    from sim.failures.source import Source
    from sim.laws import LawModel

__all__ = ["Counts", "Failure", "Renewal", "SourceInfo"]


class Counts:
    """Events by what became of them; ``docs/reference/metrics.md`` says how they add up."""

    __slots__ = ("candidates", "failures", "faults", "harmless", "hits", "masked", "outside", "suppressed")

    def __init__(self) -> None:
        self.candidates = 0
        self.suppressed = 0
        self.faults = 0
        self.harmless = 0
        self.failures = 0
        self.masked = 0
        self.outside = 0
        self.hits = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


class Failure:
    """One failure and the random numbers that belong to it."""

    __slots__ = ("index", "round", "slot", "sources")

    def __init__(self, sources: Sources, index: int, slot: int, number: int) -> None:
        self.sources = sources
        self.index = index
        self.slot = slot
        self.round = number

    def mark(self, purpose: str) -> float:
        """Return the uniform number of this failure for `purpose`."""
        return rng.uniform_one(self.sources.mark_key(self.index, purpose), self.slot, self.round)


class Renewal(NamedTuple):
    """A life that begins when a node returns."""

    source: int
    slot: int
    round: int


class SourceInfo:
    """A source with what the hot path needs at hand."""

    __slots__ = (
        "always",
        "blast",
        "detection",
        "divisor",
        "in_service",
        "life",
        "of_job",
        "repair",
        "repair_key",
        "returns",
        "source",
    )

    def __init__(self, source: Source, simulation: Simulation) -> None:
        self.source = source
        prepared = simulation.prepared
        self.detection = _sampler(source.detection or prepared.detection)
        self.repair = _sampler(source.repair or prepared.repair)
        self.repair_key = 0
        self.life = source.law.ppf_one if source.law is not None else None
        self.returns = source.renews == "at_return" and source.clock == "wall"
        self.in_service = source.clock == "in_service"
        self.of_job = source.part == "job"
        self.always = source.interrupts >= 1 and source.idle_hazard >= 1
        self.divisor = prepared.slots_per_node.get(source.part, 0)
        self.blast = prepared.blast.get(source.part)


def _sampler(law: LawModel) -> float | Callable[[float], float]:
    """Return a constant time [s], or the inverse CDF of a law."""
    return law.value if isinstance(law, Fixed) else law.ppf_one
