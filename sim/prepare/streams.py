"""From streams to jobs: who they are, checked against the cluster, and drawn k by k.

The k-th job of a stream is addressed by seed, replication, name of the stream, purpose and k: more load, a longer
horizon or another scheduler keep each job as it is. Arrivals are those of a process of rate 1 on a clock that runs at
the rate of the stream.

References
----------
D. J. Daley, D. Vere-Jones, "An Introduction to the Theory of Point Processes", 2nd ed., 2003, section 7.4 (random time
change). W. Fischer, K. Meier-Hellstern, "The Markov-modulated Poisson process (MMPP) cookbook", Performance Evaluation
18 (1993).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim import catalog, rng, steps
from sim.engine.prepared import PreparedStream, SavePlan
from sim.failures.replay import TraceError
from sim.input.job_trace import Jobs, read_jobs
from sim.policies.recovery import Ladder
from sim.policies.recovery.phases import Members, mean
from sim.prepare.failures import prior, repair_of
from sim.prepare.placement import Latest
from sim.prepare.step import PlacedJob
from sim.scenario.fields import PathError, RuleError
from sim.scenario.laws import Fixed
from sim.scenario.model import Work
from sim.scenario.streams import (
    OUTCOMES,
    Arrival,
    Backlog,
    Cost,
    Diurnal,
    Generated,
    JobTrace,
    LimitFactor,
    Mmpp,
    Partition,
    Renewal,
    Tenant,
    chances,
)
from sim.units import DAY, DURATION, show
from sim.yamlfile import content_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sim.failures import Source
    from sim.input.scenario import Scenario
    from sim.prepare.placement import Site
    from sim.scenario.law_model import LawModel
    from sim.scenario.model import JobSpec
    from sim.scenario.services import ServiceSpec
    from sim.scenario.streams import AnyArrivals, AnyLimit, AnyStream, Names

    _Path = tuple[str | int, ...]

_FIRST, _MOST = 1 << 10, 1 << 16
"""Jobs that are drawn at once: few at first, for small scenarios [-]."""

_DIURNAL_STEPS = 288
"""Steps of a day in which the rate of a diurnal stream is constant: five minutes [-]."""


class Fleet(NamedTuple):
    """The streams of a scenario, and who shares the cluster."""

    streams: tuple[PreparedStream, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    partitions: tuple[Partition, ...] = ()
    warnings: tuple[str, ...] = ()
    jobs: tuple[tuple[int, int], ...] = ()
    """Tenant and partition of each named job, by position."""

    def events(self, length: float, gpus: int) -> float:
        """Return about how many events jobs have in some time [s]: arrival, start, end, and one more for the queue.

        A backlog has jobs for all GPUs.
        """
        rates = (gpus / stream.mean_work if stream.pending else stream.rate for stream in self.streams)
        return 4 * length * sum(rates)


def prepare_streams(scenario: Scenario, site: Site, sources: Sequence[Source]) -> Fleet:
    """Return the streams, ready to arrive; nothing where there are none.

    Raises
    ------
    PathError
        If a name is unknown, a job could never start, a trace cannot be used, or reservations lack limits.
    """
    has_queue = scenario.streams or scenario.services
    for key in ("templates",) if has_queue else ("tenants", "partitions", "templates"):
        if getattr(scenario, key) and not scenario.streams:
            raise PathError((key,), "are for jobs of streams, and there are no streams")
    if not has_queue:
        for index, job in enumerate(scenario.jobs):
            for key in ("tenant", "partition", "qos"):
                if getattr(job, key):
                    raise PathError(("jobs", index, key), "is for jobs beside streams, and there are no streams")
        return Fleet()
    for index, job in enumerate(scenario.templates):
        for key in ("tenant", "partition", "qos", "priority"):
            if getattr(job, key):
                raise PathError(("templates", index, key), "is for streams to say, each for its own jobs")
    resolver = _Resolver(scenario, site, sources)
    for index, service in enumerate(scenario.services):
        resolver.service(service, ("services", index))
    resolver.warnings += _unmoved(scenario, sources)
    for kind in ("jobs", "streams"):
        for index, each in enumerate(getattr(scenario, kind)):
            if each.qos and scenario.scheduler.preempt.who != "qos":
                raise PathError((kind, index, "qos"), "decides about preemption: needs scheduler.preempt.who: qos")
    streams = tuple(resolver.stream(index, stream) for index, stream in enumerate(scenario.streams))
    jobs = tuple(resolver.named(index, job) for index, job in enumerate(scenario.jobs))
    tenants = [Tenant(name=name) if own is None else own for name, own in resolver.tenants.items()]
    return Fleet(streams, tuple(tenants), resolver.partitions, tuple(resolver.warnings), jobs)


class _Resolver:
    """Turns names into positions and refuses what could never start; tenants are added as streams name them."""

    def __init__(self, scenario: Scenario, site: Site, sources: Sequence[Source]) -> None:
        self.scenario, self.site, self.sources = scenario, site, sources
        self.partitions = scenario.partitions or (Partition(name="all"),)
        self.tenants: dict[str, Tenant | None] = {tenant.name: tenant for tenant in scenario.tenants}
        self.warnings: list[str] = []
        total = site.counts["node"]
        for index, partition in enumerate(scenario.partitions):
            if partition.nodes is not None and partition.nodes[-1][1] >= total:
                rule = f"node {partition.nodes[-1][1]} is not there: the cluster has nodes 0 to {total - 1}"
                raise PathError(("partitions", index, "nodes"), rule)
        guaranteed = sum(tenant.nodes or 0 for tenant in scenario.tenants)
        if guaranteed > total:
            rule = f"{guaranteed} nodes are guaranteed in all, and the cluster has {total}"
            raise PathError(("tenants",), rule)

    def stream(self, index: int, stream: AnyStream) -> PreparedStream:
        """Return one stream."""
        path: _Path = ("streams", index)
        placed = self._template(stream, path)
        if isinstance(stream, JobTrace):
            return self._trace(index, stream, placed)
        arrivals = stream.arrivals
        sizes = self._sizes(stream, placed, path)
        law = self._work(stream, placed, path)
        tenants = self._names(stream.tenant, "tenant", path)
        partitions = self._names(stream.partition, "partition", path)
        for size in sizes:
            self._check_size(size, tenants, partitions, (*path, "gpus") if stream.gpus is not None else path)
        if law is None and (stream.outcome.failed or stream.outcome.cancelled):
            raise PathError((*path, "outcome"), "jobs that never end (work: horizon) have no other outcome")
        saves, restart = self._saves(stream, placed, sizes, path), self._restart(stream, sizes)
        draws = _Draws(
            name=stream.name,
            arrivals=arrivals,
            load=stream.load,
            sizes=_Choice.of(sizes),
            work=law,
            limit=stream.limit,
            outcomes=_Choice.of(dict(enumerate(chances(stream.outcome.model_dump()).values()))),
            tenants=_Choice.of(tenants),
            priorities=_Choice.of(self._priorities(stream, path)),
            partitions=_Choice.of(partitions),
            longest=tuple(partition.limit or math.inf for partition in self.partitions),
            overhead=_Overhead(restart, saves),
            chain=stream.chain.limit if stream.chain is not None else math.inf,
        )
        self._check_limits(stream, stream.limit != "none", (self.partitions[place].limit for place in partitions), path)
        gpus = sum(size * chance for size, chance in sizes.items())
        mean_ends = self._share_worked(stream) * law.mean_value if law is not None else math.inf
        return PreparedStream(
            name=stream.name,
            index=index,
            arrivals=draws,
            saves=saves,
            restart=restart,
            detection=self._prior(max(sizes))[1],
            pending=arrivals.pending if isinstance(arrivals, Backlog) else 0,
            chain=stream.chain,
            exact=stream.limit == "exact",
            qos=stream.qos,
            gpus=sizes,
            rate=mean_rate(arrivals) * stream.load,
            mean_work=gpus * mean_ends,
            mttf=self._mttf(sizes),
        )

    def service(self, service: ServiceSpec, path: _Path) -> None:
        """Check who a service is of and where it queues."""
        if service.partition is not None:
            self._position(service.partition, "partition", (*path, "partition"))
        self._position(service.tenant or "default", "tenant", (*path, "tenant"))

    def named(self, index: int, job: JobSpec) -> tuple[int, int]:
        """Return the tenant and the partition of a named job."""
        path: _Path = ("jobs", index)
        tenants, partitions = (self._names(getattr(job, kind), kind, path) for kind in ("tenant", "partition"))
        self._check_size(job.gpus, tenants, partitions, (*path, "gpus"))
        return next(iter(tenants)), next(iter(partitions))

    def _trace(self, index: int, stream: JobTrace, placed: PlacedJob | None) -> PreparedStream:
        """Return a stream of recorded jobs."""
        path: _Path = ("streams", index)
        try:
            jobs = _READ.get(_key(stream), lambda: read_jobs(stream))
        except RuleError as error:
            raise PathError((*path, *error.at), error.rule) from None
        except TraceError as error:
            raise PathError((*path, "file"), str(error)) from error
        self.warnings += jobs.notes
        values, counts = np.unique(jobs.gpus, return_counts=True)
        sizes = {int(size): int(count) / len(jobs.gpus) for size, count in zip(values, counts, strict=True)}
        tenant = self._positions(jobs, "tenant", stream, path)
        partition = self._positions(jobs, "partition", stream, path)
        largest = int(np.argmax(jobs.gpus))
        for row in {largest} if not self.scenario.tenants and not self.scenario.partitions else self._rows(jobs):
            who, where = {int(tenant[row]): 1.0}, {int(partition[row]): 1.0}
            place = f"{shown_file(stream)}:{jobs.line[row]}: "
            self._check_size(int(jobs.gpus[row]), who, where, (*path, "file"), place)
        work = jobs.run * stream.scale.time
        saves, restart = self._saves(stream, placed, sizes, path), self._restart(stream, sizes)
        overhead = _Overhead(restart, saves)
        limit = jobs.limit * stream.scale.time
        if stream.limit is not None:
            uniform = functools.partial(rng.uniform, rng.stream(self.scenario.seed, 0, "stream", stream.name, "limit"))
            limit = _limits(stream.limit, overhead.of(jobs.gpus, work), lambda: uniform(range(len(work))))
        used = np.unique(partition).tolist()
        self._check_limits(stream, bool(np.isfinite(limit).all()), (self.partitions[at].limit for at in used), path)
        shortest, cycle = int(np.argmin(limit)), self.scenario.scheduler.cycle
        if stream.limit is None and cycle > limit[shortest]:
            job = f"{shown_file(stream)}:{jobs.line[shortest]}; at most: {show(float(limit[shortest]), DURATION)}"
            rule = f"{show(cycle, DURATION)} is longer than the time limit of the job of {job}"
            raise PathError(("scheduler", "cycle"), rule)
        longest = np.array([each.limit or math.inf for each in self.partitions])[partition]
        chain = stream.chain.limit if stream.chain is not None else math.inf
        priority = jobs.priority
        if stream.priority is not None:
            priority = self._drawn(stream, "priority", self._priorities(stream, path), len(work))
        rows = _Rows(
            submit=jobs.submit / stream.scale.load,
            gpus=jobs.gpus,
            work=work,
            limit=np.minimum(np.minimum(limit, longest), chain),
            outcome=jobs.outcome,
            tenant=tenant,
            priority=priority,
            partition=partition,
        )
        length = float(rows.submit[-1])
        return PreparedStream(
            name=stream.name,
            index=index,
            arrivals=rows,
            saves=saves,
            restart=restart,
            detection=self._prior(int(values[-1]))[1],
            chain=stream.chain,
            exact=stream.limit == "exact",
            qos=stream.qos,
            gpus=sizes,
            rate=len(work) / max(length, 1.0),
            mean_work=float((work * jobs.gpus).mean()),
            mttf=self._mttf(sizes),
        )

    def _rows(self, jobs: Jobs) -> list[int]:
        """Return the largest job of each tenant and partition."""
        order = np.lexsort((-jobs.gpus, jobs.partition, jobs.tenant))
        key = jobs.tenant[order] * (len(jobs.partitions) + 1) + jobs.partition[order]
        return [int(row) for row in order[np.unique(key, return_index=True)[1]]]

    # What the jobs of a stream are made of.

    def _template(self, stream: AnyStream, path: _Path) -> PlacedJob | None:
        if stream.template is None:
            return None
        names = [job.name for job in self.scenario.templates]
        if stream.template not in names:
            raise PathError((*path, "template"), catalog.unknown("template", stream.template, names))
        index = names.index(stream.template)
        return PlacedJob(self.site, self.scenario.templates[index], index)

    def _step_time(self, placed: PlacedJob | None) -> float:
        """Return the time of a healthy step of a template [s]; 0 if unknown."""
        if placed is None:
            return 0.0
        try:
            return placed.step(self.scenario.horizon).time
        except PathError as error:
            raise PathError(("templates", *error.path[1:]), error.rule) from None

    def _sizes(self, stream: Generated, placed: PlacedJob | None, path: _Path) -> dict[int, float]:
        """Return the sizes of jobs and their probabilities [-]."""
        if stream.gpus is None:
            if placed is None:
                raise PathError((*path, "gpus"), "is missing: give it, or a template that has it")
            return {placed.spec.gpus: 1.0}
        return {size: chance for size, chance in self._whole(stream.gpus, (*path, "gpus")).items() if chance > 0}

    def _whole(self, choice: Any, path: _Path) -> dict[int, float]:
        """Return whole numbers with their probabilities; as keys of a mapping they are text."""
        if isinstance(choice, dict) and not any(choice.values()):
            raise PathError(path, "give at least one weight above zero")
        found: dict[int, float] = {}
        for text, chance in chances(choice).items():
            try:
                number = int(text)
            except ValueError:
                raise PathError((*path, text), f"'{text}' is not a whole number") from None
            if path[-1] == "gpus" and number <= 0:
                raise PathError((*path, text), f"must be above 0, not {text}")
            found[number] = chance
        return found

    def _priorities(self, stream: AnyStream, path: _Path) -> dict[int, float]:
        return self._whole(0 if stream.priority is None else stream.priority, (*path, "priority"))

    def _work(self, stream: Generated, placed: PlacedJob | None, path: _Path) -> LawModel | None:
        """Return the law of the run times, ``None`` for jobs that never end."""
        if stream.work == "horizon":
            return None
        if stream.work is not None:
            if not math.isfinite(stream.work.mean_value) or stream.work.mean_value <= 0:
                raise PathError((*path, "work"), "needs a mean above zero")
            return stream.work
        work = placed.spec.work if placed is not None else None
        if placed is None or not isinstance(work, Work):
            raise PathError((*path, "work"), "is missing: give it, or a template with a fixed amount of work")
        step = self._step_time(placed)
        if work.time is not None:
            return Fixed.from_seconds(value=work.time)
        count = work.steps if work.steps is not None else _given(work.tokens) / _given(placed.spec.batch).tokens
        return Fixed.from_seconds(value=count * step)

    def _names(self, choice: Names | None, kind: str, path: _Path) -> dict[int, float]:
        """Return positions of tenants or partitions and their probabilities."""
        if choice is None:
            return {self._position("default", kind, (*path, kind)) if kind == "tenant" else 0: 1.0}
        if isinstance(choice, dict) and not any(choice.values()):
            raise PathError((*path, kind), "give at least one weight above zero")
        return {self._position(name, kind, (*path, kind)): chance for name, chance in chances(choice).items()}

    def _position(self, name: str, kind: str, path: _Path, place: str = "") -> int:
        """Return where a tenant or partition stands; who is not stated is added where none is."""
        if kind == "partition":
            known = [partition.name for partition in self.partitions]
            if name not in known:
                raise PathError(path, place + catalog.unknown("partition", name, known))
            return known.index(name)
        stated = [tenant.name for tenant in self.scenario.tenants]
        if stated and name not in stated and name != "default":
            raise PathError(path, place + catalog.unknown("tenant", name, stated))
        self.tenants.setdefault(name, None)
        return list(self.tenants).index(name)

    def _positions(self, jobs: Jobs, kind: str, stream: JobTrace, path: _Path) -> NDArray[np.int64]:
        """Return the position of each job's tenant or partition, shape (n,)."""
        stated = getattr(stream, kind)
        names, column = getattr(jobs, f"{kind}s"), getattr(jobs, kind)
        if stated is not None:
            return self._drawn(stream, kind, self._names(stated, kind, path), len(jobs.submit))
        if kind == "partition" and not self.scenario.partitions:
            return np.zeros(len(jobs.submit), dtype=np.int64)
        found = []
        for number, name in enumerate(names):
            place = f"{shown_file(stream)}:{jobs.line[int(np.argmax(column == number))]}: "
            usual = "default" if kind == "tenant" else self.partitions[0].name
            found.append(self._position(name or usual, kind, (*path, "file"), place) if (column == number).any() else 0)
        return np.asarray(np.array(found, dtype=np.int64)[column])

    def _drawn(self, stream: JobTrace, purpose: str, choice: Mapping[int, float], count: int) -> NDArray[np.int64]:
        """Return what a stream states for its recorded jobs, the same in each replication, shape (n,)."""
        uniform = rng.uniform(rng.stream(self.scenario.seed, 0, "stream", stream.name, purpose), range(count))
        return _Choice.of(choice).pick(uniform)

    # What could never start, and what it would need.

    def _check_size(
        self, gpus: int, tenants: Mapping[int, float], partitions: Mapping[int, float], path: _Path, place: str = ""
    ) -> None:
        """Refuse a job that is larger than the cluster, its partition, the domain that it needs, or its quota."""
        per_node, total = self.site.gpus_per_node, self.site.counts["node"]
        nodes, spares = ceil(gpus / per_node), self.scenario.spares.total
        if nodes > total - spares:
            beside = f" beside {spares} spare nodes" if spares else ""
            most = (total - spares) * per_node
            rule = f"a job of {gpus} GPUs could never start: the cluster has {most} GPUs{beside}; at most: {most}"
            raise PathError(path, place + rule)
        for position in partitions:
            partition = self.partitions[position]
            most = partition.node_count(total) * per_node
            if nodes * per_node > most:
                rule = f"a job of {gpus} GPUs could never start: partition '{partition.name}' has {most} GPUs"
                raise PathError(path, f"{place}{rule}; at most: {most}")
            if self.scenario.scheduler.need == "required" and nodes > self._widest[position]:
                most, pack = self._widest[position] * per_node, self.scenario.scheduler.pack
                rule = f"a job of {gpus} GPUs could never start: a {pack} has room for {most} GPUs"
                raise PathError(path, f"{place}{rule}, and scheduler.need is required; at most: {most}")
        names = list(self.tenants)
        for position in tenants:
            tenant = self.tenants[names[position]]
            if tenant is None or tenant.nodes is None:
                continue
            most = self._quota(tenant) * per_node
            if nodes * per_node > most:
                rule = f"a job of {gpus} GPUs could never start: tenant '{tenant.name}' may use {most} GPUs"
                raise PathError(path, f"{place}{rule}, with all that it may borrow; at most: {most}")

    @functools.cached_property
    def _widest(self) -> list[int]:
        """Nodes of the largest domain of each partition, without hot spares [-]."""
        domain_of = self.site.topology.domains[_given(self.site.pack)]
        serving = np.isin(np.arange(len(domain_of)), self.site.serving(domain_of.tolist()))
        found = []
        for partition in self.partitions:
            count = np.zeros(len(domain_of), dtype=np.int64)
            for first, last in partition.nodes or ((0, len(domain_of) - 1),):
                np.add.at(count, domain_of[first : last + 1], serving[first : last + 1])
            found.append(int(count.max()))
        return found

    def _quota(self, tenant: Tenant) -> int:
        """Return the nodes that a tenant may use at most [-]."""
        others = [each for each in self.scenario.tenants if each is not tenant]
        lent = sum((each.nodes or 0) if each.lend is None else each.lend for each in others)
        own: int = _given(tenant.nodes)
        return own + (lent if tenant.borrow is None else min(tenant.borrow, lent))

    def _check_limits(
        self, stream: AnyStream, has_limits: bool, partitions: Iterable[float | None], path: _Path
    ) -> None:
        """Refuse reservations for jobs that may run for ever, and a cycle beyond a stated limit of all its jobs."""
        scheduler = self.scenario.scheduler
        if scheduler.depth != 0 and not has_limits:
            rule = f"has jobs without a time limit, and scheduler.depth: {scheduler.depth} reserves by limits"
            raise PathError(path, f"{rule}; give them limits, for example limit: exact, or limit: 7 d")
        own = stream.limit.most if isinstance(stream.limit, LimitFactor) else stream.limit
        stated = [own, None if stream.chain is None else stream.chain.limit, *partitions]
        shortest = min((limit for limit in stated if isinstance(limit, float | int)), default=math.inf)
        if scheduler.cycle > shortest:
            rule = f"{show(scheduler.cycle, DURATION)} is longer than the time limit of jobs of {path[0]}.{path[1]}"
            raise PathError(("scheduler", "cycle"), f"{rule}; at most: {show(shortest, DURATION)}")

    # Checkpoints and restarts in closed form.

    def _prior(self, gpus: int, sources: Sequence[Source] | None = None) -> tuple[float, float]:
        """Return the mean time to interrupt of a job of some size, and the mean time of detection [s]."""
        scenario, counts = self.scenario, self.site.counts
        share = ceil(gpus / self.site.gpus_per_node) / counts["node"]
        all_ = self.sources if sources is None else sources
        return prior(all_, share, scenario.warmup + scenario.horizon, repair_of(scenario).success)

    def _mttf(self, sizes: Iterable[int]) -> dict[int, float]:
        """Return the expected time between unplanned failures of jobs by size [s]."""
        unplanned = [source for source in self.sources if not source.planned]
        return {gpus: self._prior(gpus, unplanned)[0] for gpus in sizes}

    def _restart(self, stream: AnyStream, sizes: Mapping[int, float]) -> float:
        """Return the time from nodes to running [s], of the mean job where it depends on its size."""
        if stream.restart is not None:
            return stream.restart
        recovery = self.scenario.recovery
        last = recovery.rungs[-1] if isinstance(recovery, Ladder) else recovery
        start = next(getattr(last, name) for name in ("launch", "initialize", "recovery") if hasattr(last, name))
        gpus = sum(size * chance for size, chance in sizes.items())
        nodes = ceil(gpus / self.site.gpus_per_node)
        return sum(mean(start, Members(gpus, nodes, nodes)))

    def _saves(
        self, stream: AnyStream, placed: PlacedJob | None, sizes: Mapping[int, float], path: _Path
    ) -> dict[int, SavePlan]:
        """Return the checkpoints of jobs by size: as the stream states them, or by the remote store of the scenario."""
        own = stream.checkpoint
        if own is not None:
            plan = SavePlan(own.interval if own.interval is not None else math.inf, own.save, own.restore)
            return dict.fromkeys(sizes, plan)
        step = self._step_time(placed)
        size = steps.checkpoint_size(placed.shape) if placed is not None and placed.shape is not None else None
        found = {}
        for gpus in sizes:
            nodes = ceil(gpus / self.site.gpus_per_node)
            try:
                checkpoint = self.scenario.checkpoint.build(self._prior(gpus)[0], step, nodes=nodes, size=size)
            except RuleError as error:
                rule = f"{error.rule}; for '{stream.name}', or give streams.{path[1]} a checkpoint of its own"
                raise PathError(("checkpoint", *error.at), rule) from None
            rung = next(rung for rung in checkpoint.rungs if rung.store == "remote")
            found[gpus] = SavePlan(
                rung.interval, Cost(rung.stall), Cost(rung.load), rung.drain, rung.transfer, rung.save_share
            )
        return found

    @staticmethod
    def _share_worked(stream: Generated) -> float:
        """Return the mean share of its work that a job does [-]: half of it where it ends early."""
        outcome = stream.outcome
        return 1 - 0.5 * (outcome.failed + outcome.cancelled) / (outcome.completed + outcome.failed + outcome.cancelled)


def _unmoved(scenario: Scenario, sources: Sequence[Source]) -> Iterator[str]:
    """Yield what does less to jobs of streams than to named ones; refuse what does nothing at all here.

    Raises
    ------
    PathError
        If a source is for named jobs, and there are none.
    """
    if len(scenario.checkpoint.tiers) > 1 and any(stream.checkpoint is None for stream in scenario.streams):
        yield "checkpoint: jobs of streams save to the remote store alone (fidelity: count); others are for named jobs"
    recovery = scenario.recovery
    if recovery.use not in ("full-restart", "hot-spare"):
        yield (
            f"recovery: jobs of streams restart in place or queue again (fidelity: count); of '{recovery.use}' they "
            "have the time of a launch and the pools of replacements"
        )
    for source in sources:
        named = [getattr(choice, "name", "") for choice in scenario.failures]
        path: _Path = ("failures", named.index(source.name)) if source.name in named else ("failures",)
        if source.part == "job" and source.law is not None and not source.of_processes:
            rule = f"'{source.name}' strikes named jobs alone, not those of streams"
            if not scenario.jobs:
                raise PathError(path, f"{rule}, and there are no others (jobs); give them failures of use: job")
            yield f"{'.'.join(map(str, path))}: {rule}"
        elif not source.effect.stops and source.part != "job":
            yield (
                f"{'.'.join(map(str, path))}: '{source.name}' does nothing to jobs of streams until it is noticed: no "
                "slower step, no wrong work; then they stop as for any failure"
            )


def _given(value: Any) -> Any:
    assert value is not None, "checked with the model"
    return value


# Recorded jobs.

_READ: Latest[Jobs] = Latest(4)


def shown_file(stream: JobTrace) -> str:
    """Return the file of a trace for messages."""
    return shown(Path(stream.file))


def _key(stream: JobTrace) -> tuple[object, ...]:
    """Return what the jobs of a trace follow from: what is in the file, and how it is read."""
    try:
        digest = hashlib.sha256(content_of(Path(stream.file))).digest()
    except (OSError, ValueError):
        digest = b""  # for the reader to explain
    return digest, stream.file, repr(stream.columns), stream.time_unit, stream.origin, stream.skip_bad_rows


@dataclass(frozen=True)
class _Rows:
    """Recorded jobs: the same in every replication; arrays of shape (n,)."""

    submit: NDArray[np.float64]
    gpus: NDArray[np.int64]
    work: NDArray[np.float64]
    limit: NDArray[np.float64]
    outcome: NDArray[np.int64]
    tenant: NDArray[np.int64]
    priority: NDArray[np.int64]
    partition: NDArray[np.int64]

    def __call__(self, seed: int, replication: int, end: float) -> Iterator[Arrival]:
        del seed, replication
        count = int(np.searchsorted(self.submit, end))
        for first in range(0, count, _MOST):
            part = slice(first, min(first + _MOST, count))
            yield from _arrivals(
                part.start,
                self.submit[part],
                self.gpus[part],
                self.work[part],
                self.limit[part],
                self.work[part],
                self.outcome[part],
                self.tenant[part],
                self.priority[part],
                self.partition[part],
            )


def _arrivals(first: int, *columns: NDArray[Any]) -> Iterator[Arrival]:
    """Return jobs from their columns; that of outcomes has positions."""
    submit, gpus, work, limit, ends, outcome, *rest = (column.tolist() for column in columns)
    words = map(OUTCOMES.__getitem__, outcome)
    return map(Arrival._make, zip(itertools.count(first), submit, gpus, work, limit, ends, words, *rest))


# Jobs by law.


class _Choice(NamedTuple):
    """Whole numbers, shape (m,), and the upper edges of their shares of the unit interval, shape (m,)."""

    values: NDArray[np.int64]
    edges: NDArray[np.float64]

    @classmethod
    def of(cls, choice: Mapping[int, float]) -> _Choice:
        edges = np.cumsum(np.array(list(choice.values()), dtype=np.float64))
        return cls(np.array(list(choice), dtype=np.int64), edges / edges[-1])

    def pick(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what uniform numbers choose, shape (n,)."""
        return self.values[np.minimum(np.searchsorted(self.edges, uniform, side="right"), len(self.values) - 1)]


class _Overhead(NamedTuple):
    """What a run takes beyond its work where nothing fails: a start [s], and saves."""

    restart: float
    saves: Mapping[int, SavePlan]

    def of(self, gpus: NDArray[np.int64], work: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the whole run time [s], shape (n,), of jobs of some size and work [s], shape (n,)."""
        total = work + self.restart
        for size, plan in self.saves.items():
            if math.isinf(plan.interval) or not (plan.save.time or plan.save.share):
                continue
            mine = np.flatnonzero((gpus == size) & np.isfinite(work))
            count = np.maximum(np.ceil(work[mine] / plan.interval) - 1, 0.0)
            total[mine] += count * (plan.save.time + plan.save.share * work[mine])
        return total


def _limits(limit: AnyLimit, run: NDArray[np.float64], uniform: Any) -> NDArray[np.float64]:
    """Return the limits [s], shape (n,), of jobs whose run time is known [s], shape (n,)."""
    if limit == "exact":
        return run
    if not isinstance(limit, LimitFactor):
        return np.full(len(run), math.inf if limit == "none" else limit)
    factor = limit.factor
    if not isinstance(factor, float | int):
        factor = factor.low + (factor.high - factor.low) * uniform()
    return np.asarray(np.clip(factor * run, limit.least, limit.most or math.inf), dtype=np.float64)


@dataclass(frozen=True)
class _Draws:
    """Jobs by law, a pure function of seed and replication."""

    name: str
    arrivals: AnyArrivals
    load: float
    sizes: _Choice
    work: LawModel | None
    limit: AnyLimit
    outcomes: _Choice
    tenants: _Choice
    priorities: _Choice
    partitions: _Choice
    longest: tuple[float, ...]
    overhead: _Overhead
    chain: float

    def __call__(self, seed: int, replication: int, end: float) -> Iterator[Arrival]:
        clock = _clock(self.arrivals, self.load, rng.stream(seed, replication, "stream", self.name, "state"), end)
        keys = {
            purpose: rng.stream(seed, replication, "stream", self.name, purpose)
            for purpose in ("gap", "gpus", "work", "limit", "outcome", "end", "tenant", "priority", "partition")
        }
        first, size, age = 0, _FIRST, 0.0
        longest = np.array(self.longest)
        while True:
            slots = range(first, first + size)
            uniform = {purpose: functools.partial(rng.uniform, key, slots) for purpose, key in keys.items()}
            if isinstance(self.arrivals, Backlog):
                submit = np.zeros(size)
            else:
                ages = np.cumsum(np.concatenate([[age], _gaps(self.arrivals, uniform["gap"]())]))[1:]
                age = float(ages[-1])
                submit = clock.times(ages)
            gpus = self.sizes.pick(uniform["gpus"]())
            work = np.full(size, math.inf) if self.work is None else self.work.ppf(uniform["work"]())
            partition = self.partitions.pick(uniform["partition"]())
            limit = _limits(self.limit, self.overhead.of(gpus, work), uniform["limit"])
            outcome = self.outcomes.pick(uniform["outcome"]())
            ends = np.where(outcome > 0, work * uniform["end"](), work) if len(self.outcomes.values) > 1 else work
            count = int(np.searchsorted(submit, end))
            yield from itertools.islice(
                _arrivals(
                    first,
                    submit,
                    gpus,
                    work,
                    np.minimum(np.minimum(limit, longest[partition]), self.chain),
                    ends,
                    outcome,
                    self.tenants.pick(uniform["tenant"]()),
                    self.priorities.pick(uniform["priority"]()),
                    partition,
                ),
                count,
            )
            if count < size:
                return
            first, size = first + size, min(2 * size, _MOST)


def _gaps(arrivals: AnyArrivals, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times between arrivals of a process of rate 1, shape (n,)."""
    if isinstance(arrivals, Renewal):
        return arrivals.gap.ppf(uniform) / arrivals.gap.mean_value
    return -np.log1p(-uniform)


def mean_rate(arrivals: AnyArrivals) -> float:
    """Return the mean rate of arrivals over a long time [1/s]; 0 of a backlog."""
    if isinstance(arrivals, Backlog):
        return 0.0
    if isinstance(arrivals, Mmpp):
        stay = sum(state.stay for state in arrivals.states)
        return sum(state.rate * state.stay for state in arrivals.states) / stay
    if isinstance(arrivals, Diurnal):
        return (arrivals.peak + arrivals.trough) / 2
    rate = 1 / arrivals.gap.mean_value if isinstance(arrivals, Renewal) else arrivals.rate
    factors = arrivals.profile.factors if arrivals.profile is not None else (1.0,)
    return rate * sum(factors) / len(factors)


class _Clock:
    """A clock whose rate is constant between edges: it shows the integral of the rate, and is read backwards.

    ``edges`` [s] and ``shown`` [-], both of shape (m + 1,), begin with 0; after the last edge all begins anew, or more
    pieces are drawn.
    """

    def __init__(self, edges: NDArray[np.float64], rates: NDArray[np.float64]) -> None:
        self.edges = edges
        self.shown = np.concatenate([[0.0], np.cumsum(np.diff(edges) * rates)])

    def times(self, ages: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when the clock shows so much [s], shape (n,), ages ascending."""
        if len(self.edges) == 2:
            return np.asarray(ages * (self.edges[1] / self.shown[1]))
        rounds = np.floor(ages / self.shown[-1])
        within = np.interp(ages - rounds * self.shown[-1], self.shown, self.edges)
        return np.asarray(rounds * self.edges[-1] + within)


class _RandomClock(_Clock):
    """A clock whose rate follows an environment that goes from state to state in a circle."""

    def __init__(self, arrivals: Mmpp, load: float, key: int, end: float) -> None:
        self._end = end
        self._rates = np.array([state.rate * load for state in arrivals.states])
        self._stays = np.array([state.stay for state in arrivals.states])
        self._key = key
        super().__init__(np.zeros(1), np.zeros(0))

    def times(self, ages: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when the clock shows so much [s], shape (n,), ages ascending; infinite after the end."""
        while self.shown[-1] <= ages[-1] and self.edges[-1] < self._end:
            slots = range(len(self.edges) - 1, 2 * len(self.edges) + 15)
            state = np.arange(slots.start, slots.stop) % len(self._rates)
            stays = -np.log1p(-rng.uniform(self._key, slots)) * self._stays[state]
            self.edges = np.concatenate([self.edges, self.edges[-1] + np.cumsum(stays)])
            self.shown = np.concatenate([self.shown, self.shown[-1] + np.cumsum(stays * self._rates[state])])
        return np.asarray(np.interp(ages, self.shown, self.edges, right=math.inf))


def _clock(arrivals: AnyArrivals, load: float, key: int, end: float) -> _Clock:
    """Return the clock of a stream up to an end [s], whose rate is multiplied by a load [-]."""
    if isinstance(arrivals, Mmpp):
        return _RandomClock(arrivals, load, key, end)
    if isinstance(arrivals, Diurnal):
        edges = np.linspace(0.0, DAY, _DIURNAL_STEPS + 1)
        middle, swing = (arrivals.peak + arrivals.trough) / 2, (arrivals.peak - arrivals.trough) / 2
        # The mean of the sine over each step, so that the rate integrates to that of the sine at every edge.
        sine = np.sin(2 * math.pi * (edges - arrivals.at) / DAY)
        rates = middle + swing * np.diff(sine) / (2 * math.pi / _DIURNAL_STEPS)
        return _Clock(edges, rates * load)
    profile = None if isinstance(arrivals, Backlog) else arrivals.profile
    rate = mean_rate(arrivals if profile is None else arrivals.model_copy(update={"profile": None}))
    if profile is None:
        return _Clock(np.array([0.0, 1.0]), np.array([(rate or 1.0) * load]))
    factors = np.array(profile.factors)
    return _Clock(np.linspace(0.0, profile.every, len(factors) + 1), factors * rate * load)
