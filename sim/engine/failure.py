"""One failure, what is known of its source, and what becomes of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sim import rng
from sim.engine.numbers import Numbers
from sim.failures.victims import Victims
from sim.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.engine.simulation import Simulation
    from sim.failures.source import Source
    from sim.laws import LawModel

__all__ = ["Counts", "Failure", "Renewal", "SourceInfo"]


class Counts:
    """Events by what became of them; ``docs/reference/metrics.md`` says how they add up."""

    __slots__ = (
        "candidates",
        "degraded",
        "evicted",
        "failures",
        "false_repairs",
        "faults",
        "harmless",
        "healed",
        "hits",
        "masked",
        "outside",
        "relapses",
        "repairs",
        "retired",
        "suppressed",
        "unblamed",
        "wrong_blames",
    )

    def __init__(self) -> None:
        self.candidates = 0
        self.suppressed = 0
        self.faults = 0
        self.harmless = 0
        self.degraded = 0
        self.healed = 0
        self.failures = 0
        self.masked = 0
        self.outside = 0
        self.hits = 0
        self.relapses = 0
        self.repairs = 0
        self.false_repairs = 0
        self.unblamed = 0
        self.evicted = 0
        self.wrong_blames = 0
        self.retired = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


class Failure:
    """One failure and the random numbers that belong to it."""

    __slots__ = ("info", "round", "slot")

    def __init__(self, info: SourceInfo, slot: int, number: int) -> None:
        self.info = info
        self.slot = slot
        self.round = number

    def mark(self, purpose: str) -> float:
        """Return the uniform number of this failure for `purpose`."""
        numbers = self.info.numbers.get(purpose)
        if numbers is None:
            numbers = self.info.numbers_for(purpose)
        return numbers.get(self.slot, self.round)

    def mark_at(self, node: int, purpose: str) -> float:
        """Return the uniform number for one of its nodes; where each is repaired by itself, each has its own."""
        if not self.info.apart:
            return self.mark(purpose)
        key = rng.stream(*self.info.prefix, "mark", self.info.source.name, purpose, self.slot, self.round)
        return rng.uniform_one(key, node)


class Renewal(NamedTuple):
    """A life that begins when a node returns."""

    source: int
    slot: int
    round: int


class SourceInfo:
    """A source with what the hot path needs at hand."""

    __slots__ = (
        "always",
        "apart",
        "blast",
        "bucket",
        "by_course",
        "cause",
        "detection",
        "divisor",
        "in_service",
        "index",
        "keeps",
        "numbers",
        "of_fabric",
        "of_job",
        "prefix",
        "reboots",
        "repair",
        "returns",
        "saves",
        "slots",
        "source",
        "stops",
        "tempo",
        "victims",
    )

    def __init__(self, source: Source, index: int, simulation: Simulation) -> None:
        prepared = simulation.prepared
        self.source = source
        self.index = index
        self.cause = index + 1
        self.prefix = (prepared.seed, simulation.replication)
        self.numbers: dict[str, Numbers] = {}
        noticing = source.noticing
        fixed = noticing.fixed if noticing is not None else 0.0
        self.detection = noticing.draw if noticing is not None and fixed is None else fixed or 0.0
        """Time from a failure to its detection [s], or a function of the failure's marks."""
        self.repair = _sampler(source.repair) if source.repair is not None else 0.0
        self.returns = source.renews == "at_return" and source.clock == "wall"
        self.in_service = source.clock == "in_service"
        self.of_job = source.part == "job"
        self.of_fabric = source.of_fabric
        """Whether the cables decide whom its failures strike."""
        self.bucket = source.down_bucket
        self.stops = source.effect.stops
        self.saves = source.saves or source.effect.saves
        self.always = source.interrupts >= 1 and source.idle_hazard >= 1 and not source.thinned
        blast = source.blast
        scattered = blast is not None and blast.spread is not None
        self.slots = prepared.nodes if scattered else source.units
        """How many slots its failures can have; those of scattered nodes have their node."""
        self.divisor = 1 if scattered else 0 if self.of_fabric else prepared.slots_per_node.get(source.part, 0)
        self.blast = prepared.blast.get(source.part)
        self.apart = blast is not None and blast.repair == "nodes" and not scattered
        """Whether the nodes of one failure are repaired each by itself."""
        self.by_course = (
            source.repair is None and source.recorded is None and source.rollout is None and not self.of_job
        )
        """Whether the tiers of repair decide what becomes of a node."""
        self.keeps = source.fault in prepared.recovery.narrows_on and not self.by_course
        """Whether a node that it strikes may stay in its job with fewer GPUs; by the class of the fault, because the
        lives of the GPUs of a node may have been put together to one."""
        self.reboots = source.damage == "reboot"
        drawn = blast is not None and blast.size is not None and not scattered
        self.victims = Victims(blast, source.name, *self.prefix) if drawn and blast is not None else None
        # A life that renews at failure is in the trace, at its own time.
        later = source.tempo is not None and source.renews != "at_failure"
        self.tempo = source.tempo.realise(simulation.end, *self.prefix) if later and source.tempo is not None else None

    def numbers_for(self, purpose: str) -> Numbers:
        """Return the marks for a purpose."""
        key = rng.stream(*self.prefix, "mark", self.source.name, purpose)
        found = self.numbers[purpose] = Numbers(key, self.slots)
        return found


def _sampler(law: LawModel) -> float | Callable[[float], float]:
    """Return a constant time [s], or the inverse CDF of a law."""
    return law.value if isinstance(law, Fixed) else law.ppf_one
