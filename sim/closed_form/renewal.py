"""The closed form of a job that restarts from checkpoints: each cause with its own detection, recovery and store."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.sim.closed_form.elastic import (
    Waits,
    elastic_form,
    narrow_form,
    repairs_by_cause,
    takes_nodes,
    waits_for_nodes,
)
from ettrick.sim.closed_form.limits import Extrapolation, broken_assumptions, extrapolated, why_not
from ettrick.sim.closed_form.strikes import weighted
from ettrick.sim.formulas.arrays import Expansion, decay, real
from ettrick.sim.formulas.goodput import CheckpointStore, FailureClass, shares_of_classes, waste_by_class
from ettrick.sim.policies.checkpoint.stores import missing, read
from ettrick.sim.policies.contracts import NO_FAILURE, OF_ONE_RANK, Damage
from ettrick.sim.policies.recovery.base import ExpectedFailure
from ettrick.sim.prepare.failures import FailureRates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ettrick.sim.engine.prepared import Prepared, PreparedJob
    from ettrick.sim.failures import FailureSource
    from ettrick.sim.formulas.arrays import FloatArray, Number
    from ettrick.sim.formulas.goodput import ClassShares
    from ettrick.sim.policies.checkpoint.stores import StorePlan
    from ettrick.sim.policies.detection.race import DetectionRace
    from ettrick.sim.policies.recovery.base import RecoveryPath

# How long a failure stays unknown when others may follow: whatever is found first ends the wait for all of them.
#
# With S_c(t) the probability that a failure of cause c is still unknown t after it, and F the probability that one of
# any cause is known by then, failures at the rate lambda in the meantime leave
#
# .. math:: d_c = \int_0^\infty S_c(t) \exp\Bigl(-\lambda \int_0^t F(s)\, ds\Bigr) dt
#
# of the mean ``int S_c``: of those that came s before t a share F(s) is known, and the number of points of a Poisson
# process with a mark is Poisson. Where every failure is found after one fixed time, F is zero until then: no change.

# Times between these quantiles of each law are steps of the integral, as are the places where laws jump.
_STEPS = 600

_TAIL = np.array([1e-9, 1e-6, 1e-4, 1e-3])

_QUANTILES = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 50), 1 - _TAIL])


class Unknown:
    """Failures of several causes, until they are known.

    Parameters
    ----------
    races
        Who notices each cause; ``None`` where the job steps on until it is known, or it is unknown.
    shares
        Share of each cause of all failures [-].
    """

    def __init__(self, races: Sequence[DetectionRace | None], shares: Sequence[float]) -> None:
        edges = _edges([race for race in races if race is not None])
        self._steps = np.diff(edges)
        middles = edges[:-1] + self._steps / 2
        each_once = {race: _survival(race, middles) for race in dict.fromkeys(races) if race is not None}
        self._unknown = [None if race is None else each_once[race] for race in races]
        detected: FloatArray = np.zeros(len(middles))
        for unknown, share in zip(self._unknown, shares, strict=True):
            # What stops the job only when it is known is known at once.
            detected += share * (1.0 if unknown is None else 1.0 - unknown)
        pieces = detected * self._steps
        self._ended = np.cumsum(pieces) - pieces / 2
        self._means = [0.0 if race is None else race.mean_value for race in races]

    def means(self, rate: Number) -> list[Number]:
        """Return the mean time until a failure of each cause is known [s].

        Parameters
        ----------
        rate
            Failures of the job [1/s].
        """
        # Beside the mean, which is known, the integral has only to say what is missing of it.
        if isinstance(rate, Expansion):
            lacking = [0.0 if alive is None else float((alive * self._steps) @ self._ended) for alive in self._unknown]
            return [mean - rate * lack for mean, lack in zip(self._means, lacking, strict=True)]
        gone = -np.expm1(-rate * self._ended) * self._steps
        return [
            mean - (0.0 if alive is None else float(alive @ gone))
            for mean, alive in zip(self._means, self._unknown, strict=True)
        ]


def _edges(races: Sequence[DetectionRace]) -> FloatArray:
    """Return times between which all laws of detection are smooth [s], from zero to where nothing is left of them."""
    laws = {observer.law for detection_race in races for observer in detection_race.observers if observer.coverage > 0}
    laws |= {detection_race.human for detection_race in races if detection_race.human is not None}
    # `numpy.unique` would import masked arrays.
    bends = sorted({0.0, *(time for law in laws for time in (*law.breaks, *law.ppf(_QUANTILES).tolist()))})
    parts = max(_STEPS // len(bends), 2)
    return np.asarray(np.interp(np.arange((len(bends) - 1) * parts + 1) / parts, np.arange(len(bends)), bends))


def _survival(detection_race: DetectionRace, times: FloatArray) -> FloatArray:
    """Return the probability that a fault which somebody notices is unknown at `times` [s] [-], shape (n,)."""
    missed, unknown = 1.0, np.ones(len(times))
    for observer in detection_race.observers:
        missed *= 1.0 - observer.coverage
        unknown = unknown * (1.0 - observer.coverage * observer.law.cdf(times))
    late: FloatArray | float = 0.0
    if detection_race.human is not None:
        late = missed * (1.0 - detection_race.human.cdf(times))
    return np.asarray((unknown - missed + late) / detection_race.certain, dtype=np.float64)


_AT_ONCE = 1e-6

"""Interval that stands for the steps of a job whose progress is continuous [s]."""


class _Recovery(NamedTuple):
    """A recovery from a cause, by the place of that among all, and what it is of all failures [-].

    Of failures that are `foreseen` nothing has to be detected; where that is in time the job has `saved`.
    """

    source: FailureSource
    cause: int
    share: float
    back: RecoveryPath
    foreseen: bool
    saved: bool


class _SizeTerms(NamedTuple):
    """The terms that depend on the size of a job alone: recoveries, and the time until failures are known."""

    recoveries: tuple[_Recovery, ...]
    unknown: Unknown

    @property
    def saves(self) -> bool:
        """Whether a job saves before some failures."""
        return any(path.saved for path in self.recoveries)


@dataclass
class RenewalForm:
    """The closed form for the jobs of a scenario; what depends on the size of a job alone is worked out once."""

    prepared: Prepared
    _sizes: dict[tuple[int, int, float], _SizeTerms | None] = field(default_factory=dict)
    _survivals: dict[tuple[int, int, int, float, Number], tuple[Number, Number]] = field(default_factory=dict)
    _newest: dict[tuple[int, int, int, tuple[StorePlan, ...]], tuple[int, float]] = field(default_factory=dict)
    _waits: dict[int, Waits | None] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether every failure of the first job has a recovery that the form describes."""
        return self._known_size(self.prepared.jobs[0]) is not None

    @property
    def name(self) -> str:
        """The name of the form."""
        job = self.prepared.jobs[0]
        stores, classes = job.checkpoint.rungs, self._classes(job, 1 / job.mtti)
        words = ["renewal"]
        if len({row._replace(share=1.0) for row in classes}) > 1:
            words.append("classes of failures")
        return ", ".join([*words, *(["several stores"] if len(stores) > 1 else [])])

    def shares(self, job: PreparedJob) -> dict[str, float]:
        """Return the expected shares of the time of a job by bucket [-]."""
        rate = 1 / job.mtti
        class_shares = shares_of_classes(rate, self._classes(job, rate), self._stores(job))
        shares = {
            "productive": real(class_shares.productive),
            "checkpoint_stall": real(class_shares.checkpoint_stall),
            "lost_work": sum(map(real, class_shares.lost_work)),
            "detection": sum(map(real, class_shares.detection)),
            "restart": sum(map(real, class_shares.restart)),
        }
        waits = self._waiting(job)
        if not waits.total:
            return shares
        scale, unknown = self._beside_waits(job, class_shares)
        shares = {name: share * (1 - waits.total) * scale for name, share in shares.items()} | {"detection": unknown}
        _add(shares, waits, 1 - unknown)
        return shares

    def waste(self, job: PreparedJob) -> dict[str, dict[str, dict[str, float]]]:
        """Return what is lost of the time of a job, by order, cause and bucket [-].

        What a lack of nodes costs has no orders, and is that of each cause by the nodes that it keeps in repair.
        """
        orders = waste_by_class(1 / job.mtti, lambda rate: self._classes(job, rate), self._stores(job))
        tables = {name: self._by_cause(job, class_shares) for name, class_shares in orders.items()}
        waits = self._waiting(job)
        if not waits.total:
            return tables
        scale, unknown = self._beside_waits(job, orders["exact"])
        hits = {path.source.name: waits.unknown(path.source) for path in self._size(job).recoveries}
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

    def _beside_waits(self, job: PreparedJob, class_shares: ClassShares) -> tuple[float, float]:
        """Return what shares of a job that always finds nodes are multiplied by [-], and the share in detection.

        Nodes fail and are repaired whatever the job does, so the two factors multiply (`ettrick.sim.formulas.nodes`).
        Failures have to be detected in both, as far as they can happen there.
        """
        waits = self._waiting(job)
        shares = [real(share) for share in class_shares.detection]
        unknown = sum(
            share * waits.unknown(path.source) for share, path in zip(shares, self._size(job).recoveries, strict=True)
        )
        scale = 1 / (1 - sum(shares) + unknown)
        return scale, unknown * scale

    def waits(self, job: PreparedJob) -> Waits | None:
        """Return `waits_for_nodes` of a job, worked out once for each size."""
        if job.nodes not in self._waits:
            self._waits[job.nodes] = waits_for_nodes(self.prepared, job)
        return self._waits[job.nodes]

    def _waiting(self, job: PreparedJob) -> Waits:
        """Return what a lack of nodes costs a job; nothing where it is not known."""
        return self.waits(job) or Waits()

    def _by_cause(self, job: PreparedJob, class_shares: ClassShares) -> dict[str, dict[str, float]]:
        """Return shares of classes as those of their causes; what no failure costs is a cause too."""
        table: dict[str, dict[str, float]] = {NO_FAILURE: {"checkpoint_stall": real(class_shares.checkpoint_stall)}}
        for index, path in enumerate(self._size(job).recoveries):
            cause = table.setdefault(path.source.name, dict.fromkeys(("lost_work", "detection", "restart"), 0.0))
            cause["lost_work"] += real(class_shares.lost_work[index])
            cause["detection"] += real(class_shares.detection[index])
            cause["restart"] += real(class_shares.restart[index])
        return table

    def _known_size(self, job: PreparedJob) -> _SizeTerms | None:
        """Return what jobs as large as this one have in common; ``None`` where the form does not describe them."""
        size = job.gpus, job.nodes, job.checkpoint.save_time()
        if size not in self._sizes:
            self._sizes[size] = _size(self.prepared, job)
        return self._sizes[size]

    def _size(self, job: PreparedJob) -> _SizeTerms:
        """Return the same of a job that the form describes."""
        terms = self._known_size(job)
        assert terms is not None, "the form does not apply"
        return terms

    def _classes(self, job: PreparedJob, rate: Number) -> list[FailureClass]:
        """Return the classes of failures of a job at a rate [1/s], one for each recovery."""
        rungs = tuple(_rungs(job))
        size, classes = self._size(job), []
        downtimes, saves = size.unknown.means(rate), size.saves
        for index, path in enumerate(size.recoveries):
            place, load = self._newest_of(job, index, path, rungs)
            survival, pause = self._survived(job, index, path.back, rate)
            if path.saved:
                # It goes on where it was: as from a store that has every moment, and is the first then.
                # The rhythm of saves begins again, which leaves out half of one on average.
                place, pause = -1, pause + job.checkpoint.save_time() - job.checkpoint.stall / 2
            place += saves
            if path.back.exposed:
                survival = survival * decay(rate * load)
            else:
                pause = pause + survival * load
            classes.append(
                FailureClass(path.share, 0.0 if path.foreseen else downtimes[path.cause], survival, pause, place)
            )
        return classes

    def _stores(self, job: PreparedJob) -> list[CheckpointStore]:
        """Return the stores of a job as theory knows them, the one whose checkpoints are newest first."""
        stores = [
            CheckpointStore(
                _interval(rung, job), rung.stall, rung.drain, rung.period(job.step_time) - rung.start(job.step_time)
            )
            for rung in _rungs(job)
        ]
        return [CheckpointStore(_AT_ONCE, 0.0, 0.0), *stores] if self._size(job).saves else stores

    def _newest_of(
        self, job: PreparedJob, index: int, path: _Recovery, rungs: tuple[StorePlan, ...]
    ) -> tuple[int, float]:
        """Return which store has the newest checkpoint that a recovery can read, and how long it reads [s]."""
        key = job.nodes, job.replicas, index, rungs
        if key not in self._newest:
            self._newest[key] = _newest_of(path, job, rungs)
        return self._newest[key]

    def _survived(self, job: PreparedJob, index: int, back: RecoveryPath, rate: Number) -> tuple[Number, Number]:
        """Return the probability that nothing interrupts a recovery [-], and its mean pause [s]; no restore."""
        key = job.gpus, job.nodes, index, job.checkpoint.save_time(), rate
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


def _size(prepared: Prepared, job: PreparedJob) -> _SizeTerms | None:
    """Return the recoveries of a job from all its causes; ``None`` where one has none that is described."""
    returns, failure_rates = functools.cache(prepared.recovery.returns), FailureRates.of(prepared)
    rates = [failure_rates.rate(source, job.nodes) for source in prepared.sources]
    total = sum(rates)
    # Without any failure there is nothing to recover from; but whether there could be is asked all the same.
    shares = [rate / total if total > 0 else 1 / len(rates) for rate in rates]
    recoveries = []
    for cause, (source, share) in enumerate(zip(prepared.sources, shares, strict=True)):
        takes = 1 if takes_nodes(source) else 0
        backs = returns(ExpectedFailure(source.fault, job.gpus, job.nodes, takes))
        if backs is None:
            return None
        if share > 0:
            recoveries += [
                _Recovery(source, cause, share * part * back.chance, back, foreseen, saved)
                for part, foreseen, saved in _notices(source, job)
                for back in backs
            ]
    races = [source.detection_race if source.effect.stops else None for source in prepared.sources]
    return _SizeTerms(tuple(recoveries), Unknown(races, shares))


def _notices(source: FailureSource, job: PreparedJob) -> Iterator[tuple[float, bool, bool]]:
    """Yield shares of the failures of a cause [-], whether they are known before, and whether the job can save then."""
    need, recall = job.checkpoint.save_time(), 1.0 if source.saves else source.recall
    late = 0.0 if source.lead is None else float(source.lead.cdf(np.array([need]))[0])
    if source.saves:
        late = float(source.notice < need)
    for part, *rest in ((1 - recall, False, False), (recall * late, True, False), (recall * (1 - late), True, True)):
        if part > 0:
            yield part, rest[0], rest[1]


def _rungs(job: PreparedJob) -> list[StorePlan]:
    """Return the stores of a job, the one whose checkpoints are newest first."""
    rungs = list(job.checkpoint.rungs)
    return sorted(rungs, key=lambda rung: _interval(rung, job) / 2 + rung.drain)


def _interval(rung: StorePlan, job: PreparedJob) -> float:
    """Return how long a job steps between two checkpoints [s]; a live peer has every step."""
    return rung.period(job.step_time) if rung.store != "peer" else job.step_time or _AT_ONCE


def _newest_of(path: _Recovery, job: PreparedJob, rungs: Sequence[StorePlan]) -> tuple[int, float]:
    """Return which store has the newest checkpoint that a recovery can read, and how long it reads [s]."""
    damage = _damage(path, job)
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
    raise AssertionError("a job has a store outside its nodes")


def _damage(path: _Recovery, job: PreparedJob) -> Damage:
    """Return what has happened to the nodes of a job: those that a cause takes, or that leave with them, come first."""
    source, back = path.source, path.back
    lost = frozenset(range(min(back.joiners, job.nodes)))
    reboots = source.damage == "reboot" and not takes_nodes(source)
    rebooted = frozenset(range(job.nodes if source.part == "job" else 1) if reboots else ())
    stateless = lost | rebooted
    if source.part != "job" and source.fault in OF_ONE_RANK:
        stateless |= {0}
    width = max(job.nodes // job.replicas, 1)
    live = job.replicas > 1 and len({position // width for position in stateless}) < job.replicas
    return Damage(back.keeps, lost, rebooted, live)


# The closed form that stands next to a simulation: which one applies, what it assumes, what it says of each cause.

_ELASTIC = "elastic replicas"

_NARROW = ", narrow domains"


@dataclass(frozen=True)
class ClosedForm:
    """Expected shares of a job's time in the long run; what explains them is worked out when it is asked for.

    Parameters
    ----------
    shares
        Expected share by bucket [-]; empty when no formula applies.
    reasons
        Why none applies, a line each; empty where one does.
    renewal
        The formula; ``None`` when none applies.
    """

    shares: dict[str, float]
    reasons: tuple[str, ...] = ()
    renewal: RenewalForm | None = field(default=None, repr=False, compare=False)

    @property
    def ettr(self) -> float | None:
        """Expected share of productive time [-]; ``None`` when no formula applies."""
        return self.shares.get("productive")

    @property
    def form(self) -> str:
        """Name of the formula; nothing when none applies."""
        if self.renewal is None:
            return ""
        narrow = _NARROW if self.renewal.prepared.recovery.narrows_on else ""
        return self.renewal.name + narrow if self.renewal.applies else _ELASTIC

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the formula that this scenario breaks."""
        return () if self.renewal is None else tuple(broken_assumptions(self.renewal.prepared, self.renewal.waits))

    @cached_property
    def waste(self) -> Mapping[str, Mapping[str, Mapping[str, float]]] | None:
        """Shares that are not productive [-] by order of the failure rate, cause and bucket.

        Orders are those of `ettrick.sim.formulas.goodput.ORDERS`; ``None`` where it does not tell causes apart.
        """
        renewal = self.renewal
        if renewal is None or not renewal.applies or renewal.prepared.recovery.narrows_on:
            return None
        return _waste(renewal.prepared, renewal)

    @cached_property
    def extrapolated(self) -> tuple[Extrapolation, ...]:
        """Bundles of the catalog whose rates were counted on jobs of other sizes."""
        return () if self.renewal is None else extrapolated(self.renewal.prepared, _ettr)


def closed_form(prepared: Prepared) -> ClosedForm:
    """Return the expected ETTR of the jobs of a scenario, weighted by their GPUs, and what is lost to each cause."""
    if prepared.streams:
        return ClosedForm({}, ("no closed form for jobs of streams: they wait for one another",))
    if prepared.services or not prepared.jobs:
        return ClosedForm({}, ("services have their own closed form; jobs that share the cluster with them have none",))
    renewal = RenewalForm(prepared)
    formula = _formula(prepared, renewal)
    if formula is None:
        recovery = prepared.recovery
        why = f": {recovery.no_formula}" if recovery.no_formula else ""
        return ClosedForm({}, (f"no closed form for recovery '{recovery.use}'{why}",))
    by_job = [formula(job) for job in prepared.jobs]
    reasons = why_not(prepared, by_job, renewal.waits)
    if reasons:
        return ClosedForm({}, reasons)
    return ClosedForm(weighted(prepared.jobs, (of_job.items() for of_job in by_job)), (), renewal)


def job_shares(
    prepared: Prepared, *, only_where_it_applies: bool = True
) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the function from a job to its expected shares [-], which asks the scenario only once.

    A job may differ from those of the scenario in its step, checkpoint, number of replicas and plan. ``None`` if no
    formula applies to the scenario.

    Parameters
    ----------
    prepared
        The scenario.
    only_where_it_applies
        Whether that is asked. It need not be of variants of a scenario to which it applies, for curves of the formula.
    """
    renewal = RenewalForm(prepared)
    formula = _formula(prepared, renewal)
    if formula is None or not only_where_it_applies:
        return formula
    return None if why_not(prepared, [formula(job) for job in prepared.jobs], renewal.waits) else formula


def _formula(prepared: Prepared, renewal: RenewalForm) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the formula that describes the recovery, if one does, at the mean pace that power allows."""
    formula = _at_full_clocks(prepared, renewal)
    pace = prepared.upkeep.mean(lambda level: level.pace, prepared.horizon) if prepared.upkeep.levels else 1.0
    if formula is None or pace == 1.0:
        return formula

    def slower(job: PreparedJob) -> dict[str, float]:
        shares = formula(job)
        lost = shares["productive"] * (1 - pace)
        return {**shares, "productive": shares["productive"] - lost, "degraded": shares.get("degraded", 0.0) + lost}

    return slower


def _at_full_clocks(prepared: Prepared, renewal: RenewalForm) -> Callable[[PreparedJob], dict[str, float]] | None:
    """Return the formula that describes the recovery, if one does, of jobs that nothing slows."""
    if renewal.applies:
        return narrow_form(prepared, renewal.shares) if prepared.recovery.narrows_on else renewal.shares
    job = prepared.jobs[0]
    absence = prepared.recovery.absence_for(job.gpus, job.nodes, job.parts)
    return None if absence is None else elastic_form(prepared)


def _ettr(prepared: Prepared) -> float:
    """Return the expected ETTR of a scenario that is known to have a formula [-]."""
    formula = _formula(prepared, RenewalForm(prepared))
    assert formula is not None
    return weighted(prepared.jobs, (formula(job).items() for job in prepared.jobs))["productive"]


def _waste(prepared: Prepared, renewal: RenewalForm) -> dict[str, dict[str, dict[str, float]]]:
    """Return the shares that are not productive by order, cause and bucket, weighted by the GPUs of the jobs."""
    rows = (
        (
            ((order, cause, bucket), share)
            for order, causes in renewal.waste(job).items()
            for cause, buckets in causes.items()
            for bucket, share in buckets.items()
        )
        for job in prepared.jobs
    )
    table: dict[str, dict[str, dict[str, float]]] = {}
    for (order, cause, bucket), share in weighted(prepared.jobs, rows).items():
        table.setdefault(order, {}).setdefault(cause, {})[bucket] = share
    return table
