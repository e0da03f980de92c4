"""The closed form of a job that restarts from copies: each cause with its own detection, ways back and copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.checkpoint.stores import missing, read
from sim.closed_form.detection import Unknown
from sim.closed_form.elastic import repairs_by_cause, success, takes_nodes
from sim.closed_form.starved import Waits, waits_for_nodes
from sim.contracts import NO_FAILURE, OF_ONE_RANK, Damage
from sim.prepare_failures import prior
from sim.recovery.returns import Hit
from sim.theory.classes import FailureClass, Store, shares_of_classes
from sim.theory.expansion import decay, real
from sim.theory.waste import waste_by_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.checkpoint.stores import Rung
    from sim.failures import Source
    from sim.prepared import Prepared, PreparedJob
    from sim.recovery.returns import Return
    from sim.theory.classes import ClassShares
    from sim.theory.expansion import Number

__all__ = ["Renewal"]

_AT_ONCE = 1e-6
"""Interval that stands for the steps of a job whose progress is continuous [s]."""


class _Way(NamedTuple):
    """A way back from a cause, by the place of that among all, and what it is of all failures [-]."""

    source: Source
    cause: int
    share: float
    back: Return


class _Size(NamedTuple):
    """What depends on the size of a job alone: ways back, and how long failures stay unknown."""

    ways: tuple[_Way, ...]
    unknown: Unknown


@dataclass
class Renewal:
    """The closed form for the jobs of a scenario; what depends on the size of a job alone is worked out once."""

    prepared: Prepared
    _sizes: dict[tuple[int, int], _Size | None] = field(default_factory=dict)
    _survivals: dict[tuple[int, int, int, Number], tuple[Number, Number]] = field(default_factory=dict)
    _copies: dict[Any, tuple[int, float]] = field(default_factory=dict)
    _waits: dict[int, Waits | None] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether every failure of the first job has a way back that the form describes."""
        return self._of(self.prepared.jobs[0]) is not None

    @property
    def name(self) -> str:
        """What the form is called."""
        job = self.prepared.jobs[0]
        stores, classes = job.checkpoint.rungs, self._classes(job, 1 / job.mtti)
        words = ["renewal"]
        if len({row._replace(share=1.0) for row in classes}) > 1:
            words.append("classes of failures")
        return ", ".join([*words, *(["several stores"] if len(stores) > 1 else [])])

    def shares(self, job: PreparedJob) -> dict[str, float]:
        """Return the expected shares of the time of a job by bucket [-]."""
        rate = 1 / job.mtti
        found = shares_of_classes(rate, self._classes(job, rate), _stores(job))
        shares = {
            "productive": real(found.productive),
            "checkpoint_stall": real(found.checkpoint_stall),
            "lost_work": sum(map(real, found.lost_work)),
            "detection": sum(map(real, found.detection)),
            "restart": sum(map(real, found.restart)),
        }
        waits = self._waiting(job)
        if not waits.total:
            return shares
        scale, unknown = self._beside_waits(job, found)
        shares = {name: share * (1 - waits.total) * scale for name, share in shares.items()} | {"detection": unknown}
        _add(shares, waits, 1 - unknown)
        return shares

    def waste(self, job: PreparedJob) -> dict[str, dict[str, dict[str, float]]]:
        """Return what is lost of the time of a job, by order, cause and bucket [-].

        What a lack of nodes costs has no orders, and is that of each cause by the nodes that it keeps in repair.
        """
        orders = waste_by_class(1 / job.mtti, lambda rate: self._classes(job, rate), _stores(job))
        tables = {name: self._by_cause(job, found) for name, found in orders.items()}
        waits = self._waiting(job)
        if not waits.total:
            return tables
        scale, unknown = self._beside_waits(job, orders["exact"])
        hits = {way.source.name: waits.unknown(way.source) for way in self._size(job).ways}
        repaired = {name: rate * repair for name, (rate, repair) in (repairs_by_cause(self.prepared) or {}).items()}
        for table in tables.values():
            for name, row in table.items():
                detection = row.get("detection", 0.0) * hits.get(name, 1.0) * scale
                table[name] = {key: share * (1 - waits.total) * scale for key, share in row.items()}
                table[name] |= {"detection": detection} if "detection" in row else {}
            for name, part in repaired.items():
                if part > 0:
                    _add(table.setdefault(name, {}), waits, (1 - unknown) * part / sum(repaired.values()))
        return tables

    def _beside_waits(self, job: PreparedJob, found: ClassShares) -> tuple[float, float]:
        """Return what shares of a job that always finds nodes are multiplied by [-], and the share in detection.

        Nodes fail and are repaired whatever the job does, so the two factors multiply (`sim.theory.starved`). Failures
        have to be detected in both, as far as they can happen there.
        """
        waits = self._waiting(job)
        each = [real(share) for share in found.detection]
        unknown = sum(share * waits.unknown(way.source) for share, way in zip(each, self._size(job).ways, strict=True))
        scale = 1 / (1 - sum(each) + unknown)
        return scale, unknown * scale

    def waits(self, job: PreparedJob) -> Waits | None:
        """Return `waits_for_nodes` of a job, worked out once for each size."""
        if job.nodes not in self._waits:
            self._waits[job.nodes] = waits_for_nodes(self.prepared, job)
        return self._waits[job.nodes]

    def _waiting(self, job: PreparedJob) -> Waits:
        """Return what a lack of nodes costs a job; nothing where it is not known."""
        return self.waits(job) or Waits()

    def _by_cause(self, job: PreparedJob, found: ClassShares) -> dict[str, dict[str, float]]:
        """Return shares of classes as those of their causes; what no failure costs is a cause too."""
        table: dict[str, dict[str, float]] = {NO_FAILURE: {"checkpoint_stall": real(found.checkpoint_stall)}}
        for index, way in enumerate(self._size(job).ways):
            cause = table.setdefault(way.source.name, dict.fromkeys(("lost_work", "detection", "restart"), 0.0))
            cause["lost_work"] += real(found.lost_work[index])
            cause["detection"] += real(found.detection[index])
            cause["restart"] += real(found.restart[index])
        return table

    # ------------------------------------------------------------------------------------------------ classes

    def _of(self, job: PreparedJob) -> _Size | None:
        """Return what jobs as large as this one have in common; ``None`` where the form does not describe them."""
        size = job.gpus, job.nodes
        if size not in self._sizes:
            self._sizes[size] = _size(self.prepared, job)
        return self._sizes[size]

    def _size(self, job: PreparedJob) -> _Size:
        """Return the same of a job that the form describes."""
        found = self._of(job)
        assert found is not None, "the form does not apply"
        return found

    def _classes(self, job: PreparedJob, rate: Number) -> list[FailureClass]:
        """Return the classes of failures of a job at a rate [1/s], one for each way back."""
        rungs = tuple(_rungs(job))
        size, found = self._size(job), []
        downtimes = size.unknown.means(rate)
        for index, way in enumerate(size.ways):
            place, load = self._copy(job, index, way, rungs)
            survival, pause = self._survived(job, index, way.back, rate)
            if way.back.exposed:
                survival = survival * decay(rate * load)
            else:
                pause = pause + survival * load
            found.append(FailureClass(way.share, downtimes[way.cause], survival, pause, place))
        return found

    def _copy(self, job: PreparedJob, index: int, way: _Way, rungs: tuple[Rung, ...]) -> tuple[int, float]:
        """Return which store has the newest copy that a way back can read, and how long it reads [s]."""
        key = job.nodes, job.replicas, index, rungs
        if key not in self._copies:
            self._copies[key] = _copy(way, job, rungs)
        return self._copies[key]

    def _survived(self, job: PreparedJob, index: int, back: Return, rate: Number) -> tuple[Number, Number]:
        """Return the probability that nothing interrupts a way back [-], and its mean pause [s]; no restore."""
        key = job.gpus, job.nodes, index, rate
        if key not in self._survivals:
            survival: Number = 1.0
            pause: Number = 0.0
            for span in back.spans:
                if span.exposed:
                    survival = survival * span.survival(rate)
                else:
                    pause = pause + survival * span.mean
            self._survivals[key] = survival, pause
        return self._survivals[key]


def _add(shares: dict[str, float], waits: Waits, part: float) -> None:
    """Add a part [-] of what a lack of nodes costs to shares."""
    for name in ("starved", "queued", "restart"):
        value: float = getattr(waits, name)
        if value:
            shares[name] = shares.get(name, 0.0) + value * part


def _size(prepared: Prepared, job: PreparedJob) -> _Size | None:
    """Return the ways back of a job from all its causes; ``None`` where one has none that is described."""
    recovery: Any = prepared.recovery
    length = prepared.warmup + prepared.horizon
    rates = [
        1 / prior([source], job.nodes / prepared.nodes, length, success(prepared))[0] for source in prepared.sources
    ]
    total = sum(rates)
    # Without any failure there is nothing to come back from; but whether there could be is asked all the same.
    shares = [rate / total if total > 0 else 1 / len(rates) for rate in rates]
    found = []
    for cause, (source, share) in enumerate(zip(prepared.sources, shares, strict=True)):
        takes = 1 if takes_nodes(source) else 0
        backs = recovery.returns(Hit(source.fault, job.gpus, job.nodes, takes))
        if backs is None:
            return None
        if share > 0:
            found += [_Way(source, cause, share * back.chance, back) for back in backs]
    noticings = [source.noticing if source.effect.stops else None for source in prepared.sources]
    return _Size(tuple(found), Unknown(noticings, shares))


# --------------------------------------------------------------------------------------------------- copies


def _rungs(job: PreparedJob) -> list[Rung]:
    """Return the stores of a job, the one whose copies are newest first."""
    rungs = list(job.checkpoint.rungs)
    return sorted(rungs, key=lambda rung: _interval(rung, job) / 2 + rung.drain)


def _stores(job: PreparedJob) -> list[Store]:
    """Return them as theory knows them."""
    return [Store(_interval(rung, job), rung.stall, rung.drain) for rung in _rungs(job)]


def _interval(rung: Rung, job: PreparedJob) -> float:
    """Return how long a job steps between two copies [s]; a live peer has every step."""
    return rung.period(job.step_time) if rung.store != "peer" else job.step_time or _AT_ONCE


def _copy(way: _Way, job: PreparedJob, rungs: Sequence[Rung]) -> tuple[int, float]:
    """Return which store has the newest copy that a way back can read, and how long it reads [s]."""
    damage = _damage(way, job)
    damaged = damage.lost | damage.rebooted
    for place, rung in enumerate(rungs):
        if rung.store == "peer":
            if damage.live and damage.keeps == "processes":
                return place, rung.load
            continue
        source = missing(rung, damage, job.nodes, job.replicas)
        reading = read([source], damaged if damage.keeps != "stores" else frozenset(), job.nodes) if source else None
        if reading is not None:
            return place, reading.seconds
    message = "a job has a store outside its nodes"
    raise AssertionError(message)


def _damage(way: _Way, job: PreparedJob) -> Damage:
    """Return what has happened to the nodes of a job: those that a cause takes, or that leave with them, come first."""
    source, back = way.source, way.back
    lost = frozenset(range(min(back.joiners, job.nodes)))
    reboots = source.damage == "reboot" and not takes_nodes(source)
    rebooted = frozenset(range(job.nodes if source.part == "job" else 1) if reboots else ())
    stateless = lost | rebooted
    if source.part != "job" and source.fault in OF_ONE_RANK:
        stateless |= {0}
    width = max(job.nodes // job.replicas, 1)
    live = job.replicas > 1 and len({position // width for position in stateless}) < job.replicas
    return Damage(back.keeps, lost, rebooted, live)
