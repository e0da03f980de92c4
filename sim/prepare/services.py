"""From a scenario to what its services are: replicas with their batch, load, availability, and requests to replay."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ettrick.sim import catalog, records, rng
from ettrick.sim.engine.prepared import PreparedStream, RequestRates, SavePlan, ServicePlan
from ettrick.sim.engine.requests import Request, RequestError, RequestTable, cached_curve, replay, room_and_needs
from ettrick.sim.engine.result import window_width
from ettrick.sim.formulas.nodes import groups_with_spares, with_interruptions
from ettrick.sim.moments import TimestampParser
from ettrick.sim.prepare.failures import FailureRates
from ettrick.sim.prepare.placement import EmptyCluster, LruCache, chip_of
from ettrick.sim.prepare.step import DoesNotFitError, shape_of
from ettrick.sim.scenario.fields import PathError
from ettrick.sim.scenario.services import PromptPool
from ettrick.sim.scenario.streams import JobOverhead
from ettrick.sim.steps.serving import (
    BYTES,
    IDLE_GPU,
    DisaggregatedPools,
    Replica,
    Requests,
    batch_of_load,
    batch_within,
    cache_room,
    decode,
    handover,
    largest_batch,
    pace_under_cap,
    prefill,
    reading_rate,
    time_per_token,
)
from ettrick.sim.units import DAY, MINUTE, YEAR
from ettrick.sim.yamlfile import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.sim.engine.prepared import Prepared
    from ettrick.sim.engine.requests import Served
    from ettrick.sim.formulas.nodes import Standing
    from ettrick.sim.scenario.services import Lengths, ServiceSpec, ServingLayout
    from ettrick.sim.scenario.streams import Arrival
    from ettrick.sim.steps.hardware import Precision
    from ettrick.sim.yamlfile import Keys

_COLUMNS = {
    "t_s": ("t_s", "timestamp"),
    "input_tokens": ("input_tokens", "ContextTokens", "Request tokens"),
    "output_tokens": ("output_tokens", "GeneratedTokens", "Response tokens"),
}
"""Columns of a trace of requests, and what they are called in those of Azure and of BurstGPT."""

_REPLAYED = 20_000
"""Requests of a replay [-]."""

LOADS = (0.4, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Loads at which attainment is replayed [-]."""

_STEPS = 50
"""Steps of the use of a replica in which the fluid looks up what depends on it [-]."""

_SLOTS = 20_000
"""Pieces of a trace in a run, about; none is shorter than a minute [-]."""

_CURVES: LruCache[tuple[tuple[float, float, float], ...]] = LruCache(32)
"""Attainment and its doubt by load of the replicas that were looked at last."""

_WARMED = 0.1
"""Share of the requests of a replay that come before it is as full as it will be [-]."""

REPLAYED = round((1 - _WARMED) * _REPLAYED)
"""Requests of a replay that count [-]."""


class FailureRate(NamedTuple):
    """The rate of stops of a group of GPUs that fail as one.

    Parameters
    ----------
    fail, restart
        Rates of failures that take a node, and of those that leave all [1/s].
    repair, load
        Mean time of a repair, and until a group with all its nodes serves again [s].
    weights
        Of `load`, the time in which weights are read [s].
    """

    fail: float
    restart: float
    repair: float
    load: float
    weights: float


@dataclass(frozen=True)
class PreparedService:
    """A service with everything worked out.

    Parameters
    ----------
    spec
        The description.
    replica
        A replica.
    requests
        Mean request of such a replica: with readers its prompts are all in the cache.
    mean_request
        Mean request of the service.
    reader
        A replica that reads prompts, where others than `replica` do.
    rate
        Requests of the whole service [1/s].
    trace
        Requests of a trace, empty without one.
    gpus_per_node
        GPUs of a node [-].
    spares
        Nodes that stand in for failed ones [-].
    failing
        What stops a group of GPUs that fail as one.
    horizon, window
        Time that is simulated, and the width of the windows of its results [s].
    host
        What the host of a node draws, by GPU [W]; ``None`` where the power of a node is not known.
    pue
        Power of the facility over that of nodes [-].
    seed
        Of the requests that are replayed.
    """

    spec: ServiceSpec
    replica: Replica
    requests: Requests
    mean_request: Requests
    reader: Replica | None
    rate: float
    trace: tuple[Request, ...]
    gpus_per_node: int
    spares: int
    failing: FailureRate
    horizon: float
    window: float
    host: float | None
    pue: float
    seed: int

    @property
    def groups(self) -> int:
        """Replicas, or nodes full of them, that fail as one [-]."""
        return self.spec.groups(self.gpus_per_node)

    @cached_property
    def largest(self) -> float:
        """Sequences in flight that a replica has room for [-]."""
        return largest_batch(self.replica, self.requests)

    @cached_property
    def within(self) -> float:
        """Sequences in flight at which the mean time per token is that of the SLO; 0 where not even one is [-].

        Readers may feed fewer.
        """
        return min(self.unfed_batch, self.fed)

    @cached_property
    def unfed_batch(self) -> float:
        """The value of :attr:`within` where readers feed any number [-]."""
        return batch_within(self.replica, self.requests, self.spec.slo.tpot)

    @property
    def unfed(self) -> float:
        """Requests that a replica carries at that batch [1/s]."""
        return self._rate(self.unfed_batch)

    @property
    def fed(self) -> float:
        """Sequences in flight of a replica when all readers are busy, at most those with room [-]."""
        pools = self.pools
        if pools is None:
            return self.largest
        rate = float(reading_rate(pools.readers, self.mean_request) * pools.reading / pools.decoding)
        return min(batch_of_load(self.replica, self.requests, rate), self.largest)

    @property
    def pools(self) -> DisaggregatedPools | None:
        """Readers and decoders; ``None`` where replicas read their own prompts."""
        if self.reader is None or self.spec.prefill is None:
            return None
        return DisaggregatedPools(self.reader, self.replica, self.spec.prefill.replicas, self.spec.replicas)

    @property
    def gpus(self) -> int:
        """GPUs of all replicas [-]."""
        pools = self.pools
        readers = 0 if pools is None else int(pools.reading) * pools.readers.gpus
        return self.spec.replicas * self.replica.gpus + readers

    @cached_property
    def carried(self) -> float:
        """Requests that a replica carries at the batch that the SLO allows [1/s]."""
        return self._rate(self.within)

    def _rate(self, batch: float) -> float:
        return batch / float(self.requests.output * time_per_token(self.replica, batch, self.requests))

    def batch_at(self, use: float) -> float:
        """Return the sequences in flight of a replica at a share of what it carries [-]."""
        # At all of it rounding may put the load above what the room carries.
        return min(batch_of_load(self.replica, self.requests, use * self.carried), self.within)

    def time_at(self, batch: float) -> float:
        """Return the mean time per token at a batch [s]."""
        return float(time_per_token(self.replica, max(batch, 1e-9), self.requests))

    def again(self) -> float:
        """Return the time of a replica to read prompt and tokens so far of a request in flight [s]."""
        reader, pools = self.reader or self.replica, self.pools
        time = float(prefill(reader, self.mean_request.context)) / reader.data
        # Readers do it: of the service it takes as much as if decoders stood still for this time.
        return time if pools is None else time * float(pools.decoding) / float(pools.reading)

    @cached_property
    def in_flight(self) -> float:
        """Sequences in flight of a replica at the stated demand [-]; infinite where it is overloaded."""
        return batch_of_load(self.replica, self.requests, self.rate / self.spec.replicas)

    @cached_property
    def load(self) -> float:
        """Stated demand over what all replicas carry within the SLO [-]."""
        return self.rate / (self.spec.replicas * self.carried)

    @cached_property
    def curve(self) -> tuple[tuple[float, float, float], ...]:
        """Load, share of requests in SLO and how far that may be off at 95 %, by replay at `LOADS` [-]."""
        spec, slo = self.spec, self.spec.slo
        demand = (spec.demand.file, self.load) if self.trace else (spec.demand.input, spec.demand.output)
        inputs = (demand, spec.name, spec.batch, spec.hit, slo, spec.in_turn, self.reader, spec.prefill, self.seed)
        key = (repr(self.replica), _REPLAYED, *map(repr, inputs))

        def replays() -> Iterator[tuple[float, float, float]]:
            for load in LOADS:
                served = self.settled(load)
                yield load, served.attainment(slo.ttft, slo.tpot), served.doubt(slo.ttft, slo.tpot)

        content = repr((key, self.rate)).encode() + np.array(self.trace).tobytes() if self.trace else repr(key).encode()
        return _CURVES.get(key, lambda: cached_curve(content, LOADS, replays))

    @property
    def attainment(self) -> tuple[tuple[float, float], ...]:
        """Load and share of requests in SLO, by replay at `LOADS` [-]."""
        return tuple((load, share) for load, share, _ in self.curve)

    def doubt(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far `attained` may be off at some loads, at 95 % [-], shape (n,)."""
        knots, _, doubts = zip(*self.curve, strict=True)
        return np.asarray(np.interp(loads, knots, doubts), dtype=np.float64)

    @cached_property
    def admitted(self) -> float:
        """Load at which most requests are in SLO: a replica admits no more [-]."""
        loads = np.linspace(0.2, 1.0, 161)
        return float(loads[int(np.argmax(loads * self.attained(loads)))])

    def attained(self, loads: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of requests in SLO at some loads [-], shape (n,).

        Between those replayed the logarithm of the others is straight; half a request of the replay is none.
        """
        knots, shares = zip((0.0, 1.0), *self.attainment, strict=True)
        half = 0.5 / _REPLAYED
        missed = np.interp(loads, knots, np.log(1 - np.array(shares) + half))
        return np.asarray(1 + half - np.exp(missed), dtype=np.float64)

    @cached_property
    def capacity(self) -> float:
        """Requests that a replica admits [1/s]: with readers, of all that the smaller pool does its part."""
        pools = self.pools
        if pools is None:
            return self.carried * self.admitted * (1 - float(self.failover["overhead"]))
        decoders, readers = _parts(self, pools)
        return min(decoders.capacity, readers.capacity * float(pools.reading / pools.decoding))

    @property
    def failover(self) -> dict[str, Any]:
        """The fate of requests in flight, as the catalog knows it."""
        row: dict[str, Any] = catalog.serving_recovery()["failovers"][self.spec.failover.use]
        return row

    @property
    def method(self) -> dict[str, Any]:
        """The recovery of a replica, as the catalog knows it."""
        row: dict[str, Any] = catalog.serving_recovery()["methods"][self.spec.recovery.use]
        return row

    @property
    def interruption(self) -> float:
        """Time until a standby, or what is left, serves [s]."""
        stated = self.spec.recovery.interruption
        return float(self.method.get("interruption", 0.0)) if stated is None else stated

    def standing(self, spares: int | None = None) -> Standing:
        """Return how many groups, or nodes of those that go on without some, serve in the long run.

        As the recovery has it: a standby takes over where no node is lost; of groups that go on with the nodes that are
        left, all stop for an interruption when one is lost, and when another joins.
        """
        spares = self.spares if spares is None else spares
        fail, restart, repair, load, weights = self.failing
        if fail == restart == 0:
            return groups_with_spares(self.groups, 0, 1e-30, 0.0, 1.0, 1.0)
        noticed = load - weights - self.spec.recovery.start
        if self.nodes > 1 and self.method["keeps"] != "nothing":
            stopped = fail * (noticed + 2 * self.interruption) + restart * load
            away = load - noticed  # of the others each stops until that is over
            chain = groups_with_spares(self.groups * self.nodes, spares, fail / self.nodes, 0.0, away, repair)
            return with_interruptions(chain, self.groups, stopped)
        if "interruption" in self.method and self.method["keeps"] == "nothing":
            chain = groups_with_spares(self.groups, spares, fail, 0.0, load, repair)
            return with_interruptions(chain, self.groups, restart * (noticed + self.interruption))
        return groups_with_spares(self.groups, spares, fail, restart, load, repair)

    @property
    def nodes(self) -> int:
        """Nodes of a group [-]."""
        return -(-self.replica.gpus // self.gpus_per_node)

    def capacity_availability(self, spares: int | None = None) -> float:
        """Return the share of time in which the groups that serve admit the stated demand [-]."""
        pmf = self.standing(spares).pmf
        needed = math.ceil((len(pmf) - 1) * min(self.rate / (self.spec.replicas * self.capacity), 1.0) - 1e-9)
        return float(pmf[needed:].sum())

    def served_share(self, spares: int | None = None) -> float:
        """Return the share of requests that are admitted, the rest turned away at once [-]."""
        pmf = self.standing(spares).pmf
        shares = np.arange(len(pmf)) / (len(pmf) - 1)
        return float(pmf @ np.minimum(shares * self.spec.replicas * self.capacity / self.rate, 1.0))

    def asked_of_one(self, load: float) -> RequestTable:
        """Return the requests of one replica at a load [-]."""
        replicas = self.spec.in_turn
        if self.trace:
            table, scale = RequestTable.of(self.trace[::replicas]), self.rate / (replicas * self.carried * load)
            return table._replace(arrival=table.arrival * scale)
        _, prompts, answers = self.spec.demand.by_law
        table = _drawn(self.seed, self.spec.name, replicas, prompts, answers)
        return table._replace(arrival=table.arrival / (load * self.carried))

    def replayed(self, load: float) -> Served:
        """Return requests of one replica, served one by one, at a load [-]: another one stretches time.

        Raises
        ------
        RequestError
            If a request alone exceeds the room for keys and values.
        """
        requests = self.asked_of_one(load)
        served = replay(self.replica, requests, self.spec.batch.longest, float(self.requests.hit))
        pools = self.pools
        if pools is None:
            return served
        # One reader has another share of the same requests: in the same order, with time stretched to its own rate.
        scale = float(pools.reading / pools.decoding)
        prompts = requests.prompts._replace(arrival=requests.arrival * scale)
        read = replay(pools.readers, prompts, hit=self.spec.hit).ttft + float(handover(pools, self.mean_request))
        return replace(served, first=served.first + read, last=served.last + read)

    def settled(self, load: float) -> Served:
        """Return what :meth:`replayed` does at a load [-], without the requests that fill the replica first."""
        served = self.replayed(load)
        first = int(_WARMED * len(served.arrival))
        columns = {name: getattr(served, name)[first:] for name in ("arrival", "output", "first", "last")}
        return replace(served, **columns)

    def with_layout(
        self, layout: ServingLayout, replicas: int, readers: tuple[ServingLayout, int] | None = None
    ) -> PreparedService:
        """Return the service with replicas of other sizes, as many as GPUs allow, and with readers or without."""
        pool = None if readers is None else PromptPool(replicas=readers[1], parallelism=readers[0])
        spec = self.spec.model_copy(update={"parallelism": layout, "replicas": replicas, "prefill": pool})
        replica = _sized(self.replica, layout)
        ratio = -(-layout.gpus // self.gpus_per_node) / self.nodes
        weights = _weights_time(spec, replica, self.gpus_per_node)
        failing = self.failing._replace(
            fail=self.failing.fail * ratio,
            restart=self.failing.restart * ratio,
            load=self.failing.load - self.failing.weights + weights,
            weights=weights,
        )
        reader = None if readers is None else _sized(self.replica, readers[0])
        requests = self.mean_request if reader is None else self.mean_request._replace(hit=1.0)
        return replace(self, spec=spec, replica=replica, requests=requests, reader=reader, failing=failing)


class _Readers(PreparedService):
    """The readers of a service as one of their own, whose answers have one token."""

    @cached_property
    def carried(self) -> float:
        """Prompts that a reader reads [1/s]."""
        return float(reading_rate(self.replica, self.mean_request))

    def batch_at(self, use: float) -> float:
        """Return the prompts that a reader has: those of M/D/1 at each of its ranks [-]."""
        busy = min(use, 0.99)
        return self.replica.data * self.replica.pipeline * (busy + busy**2 / (2 * (1 - busy)))

    def time_at(self, batch: float) -> float:
        """Return 0: prompts have no time per token [s]."""
        del batch
        return 0.0

    def again(self) -> float:
        """Return the time to read a prompt [s]."""
        return 1 / self.carried


def _parts(service: PreparedService, pools: DisaggregatedPools) -> tuple[PreparedService, _Readers]:
    """Return decoders and readers of a disaggregated service, each as a service of its own."""
    spec = service.spec
    assert spec.prefill is not None, "the pool of the readers"
    decoders = replace(service, spec=spec.model_copy(update={"prefill": None}), reader=None)
    # What is left of TTFT: keys and values pass, and the first token waits for half a step and takes one.
    after = float(handover(pools, service.mean_request))
    after += 1.5 * float(decode(service.replica, service.within, service.requests.context).total)
    demand = spec.demand
    if demand.output is not None:
        demand = demand.model_copy(update={"output": demand.output.model_copy(update={"mean": 1.0, "cv": 0.0})})
    changes = {
        "demand": demand,
        "parallelism": spec.prefill.parallelism,
        "replicas": spec.prefill.replicas,
        "prefill": None,
        "slo": spec.slo.model_copy(update={"ttft": max(spec.slo.ttft - after, 1e-9)}),
    }
    prompts = service.mean_request._replace(output=1.0, whole=1.0)
    weights = _weights_time(spec, pools.readers, service.gpus_per_node)
    parts = {field.name: getattr(service, field.name) for field in fields(service)} | {
        "spec": spec.model_copy(update=changes),
        "replica": pools.readers,
        "requests": prompts,
        "mean_request": prompts,
        "reader": None,
        "trace": tuple(request._replace(output=1) for request in service.trace),
        "failing": service.failing._replace(weights=weights),
    }
    return decoders, _Readers(**parts)


def _sized(replica: Replica, layout: ServingLayout) -> Replica:
    return replace(replica, tensor=layout.tensor, data=layout.data, pipeline=layout.pipeline)


@lru_cache(maxsize=32)
def _drawn(seed: int, name: str, replicas: int, input_: Lengths, output: Lengths) -> RequestTable:
    """Return the requests of one of some replicas that get Poisson arrivals in turn, one a second, log-normal lengths.

    So gaps are the sums of as many exponential ones (Erlang).
    """
    from scipy.special import gammaincinv, ndtri

    def uniform(purpose: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return rng.uniform(rng.stream(seed, 0, "requests", name, purpose), range(_REPLAYED))

    def lengths(law: Lengths, purpose: str) -> NDArray[np.int64]:
        sigma = math.sqrt(math.log1p(law.cv**2))
        drawn = law.mean * np.exp(sigma * ndtri(uniform(purpose)) - sigma**2 / 2)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)

    arrivals = np.cumsum(gammaincinv(replicas, uniform("arrival"))) / replicas
    return RequestTable(arrivals, lengths(input_, "input"), lengths(output, "output"))


_last: tuple[Prepared, tuple[PreparedService, ...]] | None = None
"""The services of the scenario that was examined last: loading asks for them, then preparing, 30 to 40 ms each time."""


def services_of(prepared: Prepared) -> tuple[PreparedService, ...]:
    """Return the services of a scenario.

    Raises
    ------
    PathError
        If the catalog does not have something, a model does not fit, no batch meets an SLO, demand is beyond capacity
        without a rule for that, or a trace cannot be used.
    """
    global _last
    if _last is None or _last[0] is not prepared:
        _last = prepared, tuple(_service(prepared, index) for index in range(len(prepared.scenario.services)))
    return _last[1]


def _service(prepared: Prepared, index: int) -> PreparedService:
    scenario, spec = prepared.scenario, prepared.scenario.services[index]
    path: Keys = ("services", index)
    trace = _trace(spec.demand.file, (*path, "demand", "file")) if spec.demand.file is not None else ()
    requests, rate = _asked(spec, trace)
    site = EmptyCluster.of(scenario, prepared.counts, prepared.units)
    replica = _calibrated(_replica(site, spec, path), spec, requests)
    _check_recovery(prepared, spec, replica, path)
    reader_path = (*path, "prefill", "parallelism")
    spares = _spares(prepared, path)
    reader = None if spec.prefill is None else _reader(site, replica, spec.prefill.parallelism, reader_path)
    service = PreparedService(
        spec,
        replica,
        requests if reader is None else requests._replace(hit=1.0),
        requests,
        reader,
        rate,
        trace,
        site.gpus_per_node,
        spares,
        _failing(prepared, spec, replica),
        prepared.warmup + prepared.horizon,
        window_width(prepared.horizon, prepared.windows),
        _host(prepared, replica),
        prepared.upkeep.facility.pue if prepared.upkeep.facility is not None else 1.0,
        prepared.seed,
    )
    _check(service, path)
    return service


def _calibrated(replica: Replica, spec: ServiceSpec, requests: Requests) -> Replica:
    """Return a replica as fast as it was measured; what was measured under a cap is as slow as it was."""
    point = spec.calibration
    if point is None:
        return replace(replica, factor=replica.factor / pace_under_cap(replica, requests))
    return replace(replica, factor=point.tpot / float(time_per_token(replica, point.batch, requests)))


def _check_recovery(prepared: Prepared, spec: ServiceSpec, replica: Replica, path: Keys) -> None:
    """Refuse a recovery that goes on with a part of a replica of which no failure leaves a part."""
    keeps = catalog.serving_recovery()["methods"][spec.recovery.use]["keeps"]
    shrinks = keeps == "gpus" and _most_lost(replica) > 0 and any(source.fault == "gpu" for source in prepared.sources)
    if keeps != "nothing" and replica.gpus <= prepared.gpus_per_node and not shrinks:
        rule = f"{spec.recovery.use} has nothing to go on with: no failure leaves a part of these replicas; take reload"
        raise PathError((*path, "recovery", "use"), rule)


def _spares(prepared: Prepared, path: Keys) -> int:
    """Return the nodes that stand in for failed ones; refuse more replicas than there are nodes for."""
    scenario = prepared.scenario
    needed = sum(service.nodes(prepared.gpus_per_node) for service in scenario.services)
    needed += sum(job.nodes for job in prepared.jobs) + scenario.spares.total
    if needed > prepared.nodes:
        rule = f"the services, jobs and spares need {needed:,} nodes; the cluster has {prepared.nodes:,}"
        raise PathError((*path, "replicas"), rule)
    return scenario.spares.hot + (prepared.nodes - needed if scenario.spares.idle == "serve" else 0)


def _reader(site: EmptyCluster, replica: Replica, layout: ServingLayout, path: Keys) -> Replica:
    """Return a replica that reads prompts; refuse one whose weights do not fit."""
    _check_size(site, layout, path)
    reader = _sized(replica, layout)
    if cache_room(reader) <= 0:
        rule = f"does not fit: {reader.weight_bytes / 1e9:,.0f} GB of weights a GPU; more tensor ranks would help"
        raise DoesNotFitError(path, rule)
    return reader


def _host(prepared: Prepared, replica: Replica) -> float | None:
    """Return what a host draws, by GPU: a node without work less its GPUs, at a tenth of their power each [W]."""
    facility = prepared.upkeep.facility
    if facility is None or replica.chip.power is None:
        return None
    return max(facility.node.idle / facility.node.gpus - IDLE_GPU * replica.chip.power, 0.0)


def _replica(site: EmptyCluster, spec: ServiceSpec, path: Keys) -> Replica:
    shape, engines = shape_of(spec.model, (*path, "model")), catalog.engines()
    if spec.engine not in engines:
        raise PathError((*path, "engine"), catalog.unknown("engine", spec.engine, engines))
    engine, layout = engines[spec.engine], spec.parallelism
    chip = chip_of(site.cluster, site.home("services", int(path[1])), "bf16")
    constants = catalog.serving_constants()
    keys = ("sequences", "chunk", "memory", "admission")
    limits = {name: value for name in keys if (value := getattr(spec.batch, name)) is not None}
    engine = replace(engine, **limits)
    weights = spec.precision
    _check_size(site, layout, (*path, "parallelism"))
    speculate = spec.speculate
    default: Precision = "fp8" if engine.narrow_cache and BYTES[weights] < BYTES["bf16"] else "bf16"
    return Replica(
        shape,
        chip,
        engine,
        constants,
        weights,
        spec.kv or default,
        layout.tensor,
        layout.data,
        layout.pipeline,
        domain=max(site.domain, 1),
        network=max(site.levels.values()) * site.nics_per_gpu,
        streams=spec.stream,
        draft=0 if speculate is None else speculate.tokens,
        accept=0.0 if speculate is None else speculate.accept,
        draft_cost=0.0 if speculate is None else speculate.cost,
    )


def _check_size(site: EmptyCluster, layout: ServingLayout, path: Keys) -> None:
    if site.gpus_per_node % layout.gpus and layout.gpus % site.gpus_per_node:
        rule = f"a replica of {layout.gpus} GPUs neither fills nodes of {site.gpus_per_node} nor divides one"
        raise PathError(path, rule)


def _asked(spec: ServiceSpec, trace: Sequence[Request]) -> tuple[Requests, float]:
    """Return the mean request and the rate of the whole service [1/s]."""
    if trace:
        table = np.array(trace)
        rate = (len(trace) - 1) / (table[-1, 0] - table[0, 0])
        mean_input, mean_output = float(table[:, 1].mean()), float(table[:, 2].mean())
        spread = float(table[:, 1].std()) / mean_input
        whole, gaps = float((table[:, 2] ** 2).mean()) / mean_output**2, 1.0
    else:
        rate, prompts, answers = spec.demand.by_law
        factors = (1.0,) if spec.demand.profile is None else spec.demand.profile.factors
        rate = rate * sum(factors) / len(factors)
        mean_input, mean_output, spread = prompts.mean, answers.mean, prompts.cv
        whole, gaps = 1 + answers.cv**2, 1 / spec.in_turn
    longest = float(spec.batch.longest)
    return Requests(mean_input, mean_output, longest, spec.hit, spread, whole, gaps), float(rate)


def _trace(name: str, path: Keys) -> tuple[Request, ...]:
    """Return the requests of a file in order of time."""
    times = TimestampParser()

    def read(row: Mapping[str, str], _line: int) -> Request:
        return Request(
            table.value(row, "t_s", times.read),
            *(int(table.value(row, role, _tokens)) for role in ("input_tokens", "output_tokens")),
        )

    try:
        file = shown(Path(name))
        table = records.Table(records.lines(file), file, _COLUMNS, _COLUMNS)
        requests = sorted(table.read(read), key=lambda request: request.arrival)
        begin = times.begin(None, requests[0].arrival) if requests else 0.0
    except records.LogError as error:
        raise PathError(path, str(error)) from error
    if len(requests) < 2 or requests[-1].arrival == requests[0].arrival:
        raise PathError(path, "needs at least two requests at different times")
    return tuple(request._replace(arrival=request.arrival - begin) for request in requests)


def _tokens(text: str) -> int:
    """Return a number of tokens above zero."""
    tokens = records.count(text)
    if not tokens:
        raise ValueError(f"'{text}', which must be above zero")
    return tokens


def _failing(prepared: Prepared, spec: ServiceSpec, replica: Replica) -> FailureRate:
    """Return what stops a group; of failures the sources say rates, detection and repairs."""
    nodes = -(-replica.gpus // prepared.gpus_per_node)
    of_sources = FailureRates.of(prepared)
    rates = {True: 0.0, False: 0.0}
    repairs = 0.0
    for source in prepared.sources:
        rates[False] += source.rate_of_processes
        if source.part == "job" or not source.effect.stops:
            continue
        mtti, _ = of_sources.interrupts([source], nodes)
        mean = source.repair.mean_value if source.repair is not None else 0.0
        rates[mean > 0] += 1 / mtti
        repairs += mean / mtti
    _, detection = of_sources.interrupts([source for source in prepared.sources if source.part != "job"], nodes)
    weights = _weights_time(spec, replica, prepared.gpus_per_node)
    repair = repairs / rates[True] if rates[True] > 0 else 1.0
    return FailureRate(rates[True], rates[False], repair, detection + weights + spec.recovery.start, weights)


def _weights_time(spec: ServiceSpec, replica: Replica, gpus_per_node: int) -> float:
    """Return the time in which the nodes of a group read all its weights [s]."""
    recovery = spec.recovery
    source = catalog.serving_recovery()["sources"][recovery.source]
    bandwidth = recovery.bandwidth
    if bandwidth is None:
        throughput = source["share"] * replica.network if source["of"] == "nic" else source["bandwidth"]
        bandwidth = throughput if source["of"] == "node" else throughput * gpus_per_node
    return float(replica.weight_bytes * gpus_per_node / bandwidth)


# What the engine needs of a service.


def plans_of(prepared: Prepared) -> tuple[ServicePlan, ...]:
    """Return the services of a scenario, ready to serve."""
    return tuple(_plan_of(service, index, prepared) for index, service in enumerate(services_of(prepared)))


def _plan_of(service: PreparedService, index: int, prepared: Prepared) -> ServicePlan:
    """Return a service, ready to serve; attainment is that of a replay, with readers of prompts of one for each."""
    pools = service.pools
    if pools is None:
        return _plan(service, index, prepared)
    decoders, readers = (_plan(part, index, prepared) for part in _parts(service, pools))
    again = service.again() if decoders.recompute else 0.0
    return replace(decoders, readers=readers, slack=min(decoders.slack, readers.slack), recompute=again)


def _plan(service: PreparedService, index: int, prepared: Prepared) -> ServicePlan:
    """Return replicas of one kind, ready to serve."""
    tenants, partitions = ([entry.name for entry in entries] for entries in (prepared.tenants, prepared.partitions))
    spec, replica, requests, overload = service.spec, service.replica, service.requests, service.spec.overload
    uses = np.linspace(0.0, service.admitted, _STEPS + 1)
    batches = [service.batch_at(use) for use in uses.tolist()]
    together = spec.together(service.gpus_per_node)
    waits = overload is not None and overload.use == "queue"
    alone = float(prefill(replica, requests.input, spec.hit)) / replica.data
    alone += 1.5 * float(decode(replica, 1.0, requests.context).total)
    plan = ServicePlan(
        name=spec.name,
        index=index,
        replicas=spec.replicas,
        together=together,
        stream=_gangs(spec.name, index, replica.gpus, together, prepared),
        nodes=service.nodes,
        gpus=replica.gpus,
        priority=spec.priority,
        tenant=tenants.index(spec.tenant or "default"),
        partition=0 if spec.partition is None else partitions.index(spec.partition),
        capacity=service.capacity,
        batch=tuple(batches),
        tpot=tuple(service.time_at(batch) for batch in batches),
        attainment=tuple(service.attained(uses).tolist()),
        doubt=tuple(service.doubt(uses).tolist()),
        output=requests.output,
        whole=float(service.mean_request.whole),
        slack=max(spec.slo.ttft - alone, 0.0),
        limit=spec.slo.tpot,
        rates=_rates(service),
        patience=overload.patience * (1 + overload.retries * overload.cancel) if overload and waits else 0.0,
        asks=1 + overload.retries if overload and not overload.cancel else 0,
        scale=None if spec.scale is None else (spec.scale.target, spec.scale.min, spec.scale.max, spec.scale.window),
        upgrade=None if spec.upgrade is None else (spec.upgrade.every, spec.upgrade.batch),
    )
    return _recovering(plan, service)


def _gangs(name: str, index: int, gpus: int, together: int, prepared: Prepared) -> PreparedStream:
    """Return what replicas of some GPUs, several on a node, are to the queue: jobs without an end."""
    detections = [source.detection.mean_value for source in prepared.sources if source.detection is not None]
    return PreparedStream(
        name=name,
        index=index,
        arrivals=_none,
        saves={gpus * count: SavePlan(math.inf, JobOverhead(), JobOverhead()) for count in range(1, together + 1)},
        detection=float(np.mean(detections)) if detections else 0.0,
        gpus={gpus * together: 1.0},
    )


def _recovering(plan: ServicePlan, service: PreparedService) -> ServicePlan:
    """Return replicas with what they do, and what becomes of their requests, when one of them fails."""
    recovery, method, failover = service.spec.recovery, service.method, service.failover
    reads = isinstance(service, _Readers)
    return replace(
        plan,
        load=service.failing.weights,
        start=recovery.start,
        interruption=service.interruption,
        keeps_nodes=method["keeps"] != "nothing",
        most_lost=_most_lost(service.replica) if method["keeps"] == "gpus" else 0,
        has_standby="interruption" in method,
        warm_time=recovery.warm.time,
        warm_speed=recovery.warm.speed,
        loses=service.spec.failover.use == "fail",
        begins_anew=not failover["tokens"] or reads,
        recompute=service.again() if failover["prefill"] or reads else 0.0,
    )


def _most_lost(replica: Replica) -> int:
    """Return the GPUs without which a replica still holds all weights [-]."""
    room = cache_room(replica)
    return math.ceil(replica.gpus * room / (room + replica.weight_bytes)) - 1


def _none(seed: int, replication: int, end: float) -> Iterator[Arrival]:
    """Return no jobs: the gangs of a service are there from the start."""
    del seed, replication, end
    return iter(())


def _rates(service: PreparedService) -> RequestRates:
    """Return what is asked over time; the rate of a trace is that of its minutes, or of longer pieces of it."""
    demand = service.spec.demand
    if not service.trace:
        profile = demand.profile
        step = min(service.window, DAY)
        every, factors = (step, (1.0,)) if profile is None else (profile.every, profile.factors)
        return RequestRates(demand.by_law[0], every, factors, demand.growth, step)
    times = np.array([request.arrival for request in service.trace])
    length = float(times[-1] - times[0])
    pieces = max(round(length / max(MINUTE, service.horizon / _SLOTS)), 1)
    counts, _ = np.histogram(times, pieces)
    return RequestRates(service.rate, length, tuple((counts / counts.mean()).tolist()), demand.growth)


def _check(service: PreparedService, path: Keys) -> None:
    """Refuse a model that does not fit, an SLO that no batch meets, and demand beyond capacity."""
    _check_memory(service, path)
    _check_slo(service, path)
    _check_room(service, path)
    if service.spec.overload is None:
        _check_demand(service, path)


def _check_memory(service: PreparedService, path: Keys) -> None:
    """Refuse a model that does not fit, or leaves no room for a request."""
    replica = service.replica
    if service.largest >= 1:
        return
    need = service.requests.input + max(service.requests.longest, service.requests.output)
    room = cache_room(replica)
    if room <= 0:
        rule = (
            f"does not fit: {replica.weight_bytes / 1e9:,.0f} GB of weights a GPU, and "
            f"{(replica.engine.memory * replica.chip.memory - replica.engine.reserved) / 1e9:,.0f} GB for them; "
            "more tensor ranks or a narrower precision would help"
        )
    else:
        rule = (
            f"leaves {room / 1e9:.1f} GB a GPU for keys and values, too little for {need:,.0f} tokens; "
            "more tensor ranks or kv: fp8 would help"
        )
    raise DoesNotFitError((*path, "parallelism"), rule)


def _check_slo(service: PreparedService, path: Keys) -> None:
    """Refuse an SLO that no batch, or no load, meets."""
    spec, replica = service.spec, service.replica
    if service.within < 1:
        best = float(time_per_token(replica, 1.0, service.requests))
        rule = f"no batch meets it: a single sequence takes {best * 1e3:.1f} ms a token; more tensor ranks would help"
        raise PathError((*path, "slo", "tpot"), rule)
    # Of several ranks of data-parallel attention, all help with a prompt that is alone.
    reader, pools = service.reader or replica, service.pools
    alone = float(prefill(reader, service.mean_request.input, spec.hit)) / reader.data
    alone += float(decode(replica, 1.0, service.requests.context).total)
    alone += 0.0 if pools is None else float(handover(pools, service.mean_request))
    if alone > spec.slo.ttft:
        rule = f"no load meets it: a mean prompt on its own takes {alone * 1e3:,.0f} ms; more tensor ranks would help"
        raise PathError((*path, "slo", "ttft"), rule)


def _check_demand(service: PreparedService, path: Keys) -> None:
    """Refuse demand beyond what replicas admit."""
    spec, pools, rates = service.spec, service.pools, _rates(service)
    most = spec.replicas if spec.scale is None else max(spec.replicas, spec.scale.max)
    peak = rates.rate * max(rates.factors) * (1 + max(rates.growth, 0.0)) ** (service.horizon / YEAR)
    if service.trace:
        peak = rates.rate  # its bursts are for the replay
    capacity = service.capacity
    if peak <= most * capacity:
        return
    rule = f"{peak:,.4g} requests per s are more than the {most * capacity:,.4g} that {most:,} replicas admit"
    rule += f"; {math.ceil(peak / capacity):,} would, or say overload: reject or queue"
    if pools is not None and capacity < _parts(service, pools)[0].capacity:
        enough = math.ceil(peak * float(pools.reading) / (most * capacity))
        rule = (
            f"{peak:,.4g} requests per s are more than the {most * capacity:,.4g} whose prompts "
            f"{pools.reading:,} prefill replicas read; {enough:,} would, or say overload: reject or queue"
        )
    raise PathError((*path, "demand"), rule)


def _check_room(service: PreparedService, path: Keys) -> None:
    """Refuse requests of which one alone exceeds the room for keys and values."""
    requests, pools = service.asked_of_one(1.0), service.pools
    try:
        room_and_needs(service.replica, requests, service.spec.batch.longest)
        if pools is not None:
            room_and_needs(pools.readers, requests.prompts, 0)
    except RequestError as error:
        key = "file" if service.trace else "input"
        rule = f"{error} for keys and values; shorter requests, more tensor ranks or kv: fp8 would help"
        raise PathError((*path, "demand", key), rule) from error
