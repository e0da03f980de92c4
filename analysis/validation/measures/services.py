"""Inference: published steps and throughput against closed form and replay, replicas that fail against exact laws."""

from __future__ import annotations

import functools
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ettrick import sim
from ettrick.analysis.explain.services import describe_service
from ettrick.analysis.validation import published_serving as serving
from ettrick.analysis.validation.lab import MeasuredQuantity, estimate
from ettrick.analysis.validation.published_steps import default_folder, mape
from ettrick.sim import Request, RequestRates, replay
from ettrick.sim.formulas.arrays import enough_probability
from ettrick.sim.formulas.nodes import missing_nodes_pmf, steady_unavailability
from ettrick.sim.steps.serving import Requests, batch_of_load, largest_batch, largest_rate

if TYPE_CHECKING:
    from ettrick.analysis.validation.lab import ScenarioRunner
    from ettrick.analysis.validation.published_serving import MlperfSystem
    from ettrick.sim import Prepared

_REPLAYED = 6000
"""Requests of a replay, a tenth of them before it counts [-]."""

_LIMITS = {"Server": (2.0, 0.2), "Interactive": (0.45, 0.04)}
"""Limits of TTFT and TPOT that 99 % of the requests for Llama-2-70B meet, MLPerf Inference rules [s]."""


def _folder() -> Path:
    return default_folder().parent / "serving"


@functools.cache
def _systems(model: str = "llama2-70b") -> list[MlperfSystem]:
    return [system for system in serving.mlperf(_folder()) if system.model == model]


def serving_error(_: ScenarioRunner, __: int, of: str, model: str = "llama2-70b") -> MeasuredQuantity:
    """Return the mean absolute error on published times, throughput or power of inference; nodes: the largest [-]."""
    data = _folder()
    if of in ("dense", "experts"):
        groups, _unused = serving.read(data / "served_agg.csv")
        return MeasuredQuantity(mape(serving.errors(serving.kinds(groups)[of == "experts"], {})))
    if of == "phases":
        return MeasuredQuantity(float(np.abs(serving.phases(data)[1]).mean(axis=0).max()))
    if of in ("offline", "dlrm"):
        parts = serving.offline(data, {}) if of == "offline" else serving.recommended(data)
        return MeasuredQuantity(mape(np.concatenate(list(parts.values()))))
    if of == "disaggregated":
        return MeasuredQuantity(mape(serving.disaggregated(data)[0]))
    if of == "node":
        return MeasuredQuantity(float(np.abs(serving.node_powers(data)).max()))
    return MeasuredQuantity(
        mape(serving.first_tokens(serving.mlperf(data)) if of == "ttft" else serving.mlperf_errors(_systems(model)))
    )


def serving_kept(
    lab: ScenarioRunner, replications: int, scenario: Literal["Server", "Interactive"]
) -> MeasuredQuantity:
    """Return what a limit of latency leaves of offline throughput, less what MLPerf measured, mean of systems [-].

    Ours is the largest load of Poisson arrivals at which 99 % of the requests of a replay meet both limits.
    """
    systems = [system for system in _systems() if scenario in system.tokens_per_s]
    measured = np.array([system.tokens_per_s[scenario] / system.tokens_per_s["Offline"] for system in systems])
    # Systems of the same kind differ by a few tokens of an answer: one of each is replayed.
    kinds = {(system.accelerator, system.release): system for system in systems}
    fractions = [
        [_load_within(system, *_LIMITS[scenario], lab.seed + seed) for system in kinds.values()]
        for seed in range(replications)
    ]
    weights = [sum((system.accelerator, system.release) == kind for system in systems) for kind in kinds]
    return estimate(np.average(fractions, axis=1, weights=weights) - measured.mean())


def _load_within(system: MlperfSystem, ttft: float, tpot: float, seed: int) -> float:
    """Return the largest load at which 99 % of the requests are within the limits, by bisection [-]."""
    mean, rate = system.requests, largest_rate(system.replica, system.requests)
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(1.0, _REPLAYED)
    sigma = np.sqrt(np.log1p(serving.SPREAD**2))
    sizes = [
        np.clip(np.rint(tokens * np.exp(sigma * rng.standard_normal(_REPLAYED) - sigma**2 / 2)), 1, 1024).astype(int)
        for tokens in (float(mean.input), float(mean.output))
    ]
    low, high = 0.0, 1.0
    for _ in range(6):
        load = (low + high) / 2
        times = np.cumsum(gaps) / (load * rate)
        served = replay(system.replica, map(Request, times.tolist(), sizes[0].tolist(), sizes[1].tolist()))
        counted = slice(_REPLAYED // 10, None)
        met = np.mean((served.ttft[counted] <= ttft) & (served.tpot[counted] <= tpot))
        low, high = (load, high) if met >= 0.99 else (low, load)
    return low


def serving_run(
    lab: ScenarioRunner,
    _: int,
    scenario: Literal["Offline", "Server"],
    cluster: dict[str, Any],
    service: dict[str, Any],
) -> MeasuredQuantity:
    """Return the tokens a second of a service in a run of MLPerf Inference [1/s].

    Offline: at the batch that there is room for. Server: at the largest load of which 99 % is in SLO.
    """
    service = {"engine": "trt-llm", "overload": {"use": "reject"}, **service}
    service["demand"] = {"rate": "0.1 per s", **service["demand"]}
    prepared = lab.scenario(_replicas(service["replicas"], Cluster={"fabric": {"rails": 4}, **cluster}, **service))
    service_plan = sim.services_of(sim.examine(prepared.scenario))[0]
    if scenario == "Offline":
        rate = largest_rate(service_plan.replica, service_plan.requests) * service_plan.spec.replicas
    else:
        rate = describe_service(service_plan, None).slo_goodput_per_s or 0.0
    return MeasuredQuantity(rate * float(service_plan.requests.output))


def serving_in_flight(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return the largest ratio of sequences in flight, by Little's law from a log, to those with room [-].

    The room is that of the ranks with most of it: the table does not say how replicas were laid out.
    """
    ratios = []
    for system in _systems():
        gpus = system.replicas * system.replica.gpus
        sizes = [replace(system.replica, tensor=ranks) for ranks in (1, 2, 4, 8) if ranks <= gpus]
        room = max(largest_batch(size, Requests(*system.requests[:2])) * gpus / size.gpus for size in sizes)
        ratios += [system.tokens_per_s[name] * seconds / room for name, seconds in system.tpot_s.items()]
    return MeasuredQuantity(max(ratios))


def serving_teeth(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return by how much the error on times per token of dense models grows where prompts take no steps [-].

    Each replica has a factor of its own, the best for it, with prompts and without: what is left is the shape.
    """
    dense = serving.kinds(serving.read(_folder() / "served_agg.csv")[0])[0]
    errors = []
    for hit in (1.0, 0.0):
        logs = [
            np.log1p(serving.errors([group._replace(requests=group.requests._replace(hit=hit))], {})) for group in dense
        ]
        errors.append(mape(np.concatenate([np.expm1(parts - np.median(parts)) for parts in logs])))
    return MeasuredQuantity(errors[0] - errors[1])


# Replicas that fail against exact laws. Those of 24 nodes are the ones of the chain: a GPU fails every 20,000 h, starts
# take 5 min, repairs 24 h.


def _replicas(nodes: int, spares: int = 0, **changes: Any) -> dict[str, Any]:
    """Return replicas of a node each, with spare nodes; changes of the service by name, of the scenario by capital."""
    service: dict[str, Any] = {
        "name": "chat",
        "model": "llama3-70b",
        "replicas": nodes,
        "parallelism": {"tensor": 8},
        "demand": {"rate": "100 per s", "input": {"mean": 1155}, "output": {"mean": 211}},
        "slo": {"ttft": "2 s", "tpot": "50 ms"},
        "recovery": {"bandwidth": "1e6 GB/s", "start": "5 min"},
    }
    whole = {key.lower(): value for key, value in changes.items() if key[0].isupper()}
    fabric = {"rails": 8, "radix": 512}
    data: dict[str, Any] = {
        "name": "serving",
        "cluster": {"nodes": nodes + spares, "gpus_per_node": 8, "accelerator": "h100", "fabric": fabric},
        "horizon": "1200 d",
        "warmup": "10 d",
        "failures": [
            {"use": "component", "name": "gpu", "part": "node", "rate": "9.6 per 1000 node-days", "idle_hazard": 0.0}
        ],
        "repair": {"time": {"use": "exponential", "mean": "1 d"}},
        "spares": {"hot": spares, "idle": "withhold"},
        "detection": {"time": "0 s"},
        "services": [service | {key: value for key, value in changes.items() if key[0].islower()}],
    }
    return data | whole


def _asked(prepared: Prepared, rate: float, **changes: Any) -> Prepared:
    """Return a scenario whose service is asked at a rate [1/s], with other changes of its plan."""
    plan = replace(prepared.services[0], rates=RequestRates(rate, 1e12), **changes)
    return replace(prepared, services=(plan,), engine="events")


def _share(lab: ScenarioRunner, prepared: Prepared, replications: int, amount: str, base: str) -> list[float]:
    """Return a sum over the requests over another one, by replication [-]."""
    fleets = [result.fleet for result in lab.results(prepared, replications)]
    return [float(fleet.service_sum(0, amount).sum() / fleet.service_sum(0, base).sum()) for fleet in fleets if fleet]


def serving_chain(
    lab: ScenarioRunner, replications: int, spares: int, of: Literal["replicas", "full"]
) -> MeasuredQuantity:
    """Return the share of 24 replicas that serve, or of the time in which all do, with some spares [-]."""
    prepared = lab.scenario(_replicas(24, spares))
    return estimate(_share(lab, prepared, replications, of, {"replicas": "wanted", "full": "seconds"}[of]))


def serving_enough(lab: ScenarioRunner, replications: int, needed: int) -> MeasuredQuantity:
    """Return the share of time in which so many of 24 replicas without spares serve against the binomial law [-].

    They start at once: each is down for its repair alone.
    """
    recovery = {"bandwidth": "1e6 GB/s", "start": "0 s"}
    prepared = lab.scenario(_replicas(24, recovery=recovery))
    prepared = _asked(prepared, (needed - 0.5) * prepared.services[0].capacity)
    below = _share(lab, prepared, replications, "below", "seconds")
    law = missing_nodes_pmf(24, steady_unavailability(1 / 9.6e-3, 1.0))
    return estimate((1 - share for share in below), enough_probability(law, 24 - needed))


def serving_backlog(lab: ScenarioRunner, _: int) -> MeasuredQuantity:
    """Return for how long requests wait in all while one of ten replicas is out for 300 s, and until that is made up.

    Each serves 5 a second and 47 are asked: 600 wait at most, and 200 s drain them [request s].
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        log.write_text("unit,start,end\n3,100,400\n")
        failures = [{"use": "replay", "file": str(log)}]
        prepared = lab.scenario(_replicas(10, failover="restore", Failures=failures, Horizon="1000 s", Warmup="0 s"))
    none = {"load": 0.0, "start": 0.0, "batch": (0.0,) * 51}
    result = sim.run(_asked(prepared, 47.0, capacity=5.0, patience=1e6, **none), 0)
    return MeasuredQuantity(float(result.fleet.service_sum(0, "waited").sum()))


def serving_lost_tokens(lab: ScenarioRunner, replications: int, cv: float) -> MeasuredQuantity:
    """Return the tokens that a replay has made for requests in flight, mean over time, over what a failure takes [-].

    A failure takes half of the answers in flight, which are longer than others by 1 + cv².
    """
    demand = {"rate": "5 per s", "input": {"mean": 1155}, "output": {"mean": 211, "cv": cv}}
    prepared = lab.scenario(_replicas(1, demand=demand))
    plan, replica = prepared.services[0], sim.services_of(sim.examine(prepared.scenario))[0].replica
    sigma, ratios = math.sqrt(math.log1p(cv**2)), []
    for seed in range(replications):
        rng = np.random.default_rng([lab.seed, seed])
        sizes = np.maximum(np.rint(211 * np.exp(sigma * rng.standard_normal(_REPLAYED) - sigma**2 / 2)), 1).astype(int)
        times = np.cumsum(rng.exponential(0.2, _REPLAYED))
        served = replay(replica, [Request(float(at), 1155, int(size)) for at, size in zip(times, sizes, strict=True)])
        # Tokens grow evenly from the first one to the last: half of them is the mean while they do.
        tokens = float((served.output / 2 * (served.last - served.first)).sum() / times[-1])
        mean = Requests(1155.0, float(sizes.mean()))
        batch = batch_of_load(replica, mean, _REPLAYED / float(times[-1]))
        ratios.append(tokens / (batch * plan.whole * mean.output / 2))
    return estimate(ratios)


def serving_mean_time(lab: ScenarioRunner, replications: int, load: float) -> MeasuredQuantity:
    """Return the time per token of a replay at a load of what it carries, over that of the fluid [-]."""
    prepared = lab.scenario(_replicas(1, demand={"rate": "5 per s", "input": {"mean": 1155}, "output": {"mean": 211}}))
    service = sim.services_of(sim.examine(prepared.scenario))[0]
    rate, ratios = load * service.carried, []
    for seed in range(replications):
        times = np.cumsum(np.random.default_rng([lab.seed, seed]).exponential(1 / rate, _REPLAYED))
        served = replay(service.replica, [Request(at, 1155, 211) for at in times.tolist()])
        expected = batch_of_load(service.replica, service.requests, rate) / (rate * 211)
        ratios.append(float(served.tpot[_REPLAYED // 10 :].mean()) / expected)
    return estimate(ratios)


def serving_stability(_: ScenarioRunner, __: int) -> MeasuredQuantity:
    """Return how many requests a second a replica ends that always has more than it can hold, over the closed form [-].

    Admission keeps room for whole answers: what on-demand admission pays for evictions is not in the closed form.
    """
    demand = {"rate": "1 per s", "input": {"mean": 2000}, "output": {"mean": 500}}
    system = _replicas(1, engine="trt-llm", batch={"longest": 500}, demand=demand, parallelism={"tensor": 4})
    service = sim.services_of(sim.examine(sim.parse(system | {"seed": 1})))[0]
    served = replay(service.replica, [Request(0.0, 2000, 500)] * 3000, longest=500)
    ends = np.sort(served.last)
    rate = 1500 / float(ends[2249] - ends[749])
    return MeasuredQuantity(rate / float(largest_rate(service.replica, service.requests)))


def serving_hardware(lab: ScenarioRunner, replications: int) -> MeasuredQuantity:
    """Return the share of requests that are answered at 95 % of what forty admit, with a spare in twenty nodes [-].

    Nodes fail as in 54 days of Llama 3 405B: 419 interruptions of 16,384 GPUs.
    """
    failures = [{"use": "component", "name": "node", "part": "node", "rate": "3.79 per 1000 node-days"}]
    prepared = lab.scenario(
        _replicas(40, 2, Failures=failures, Horizon="365 d", Repair={"time": "1 d"}, Detection={"time": "1 min"})
    )
    prepared = _asked(prepared, 0.95 * 40 * prepared.services[0].capacity)
    rejected, failed = (_share(lab, prepared, replications, name, "offered") for name in ("rejected", "failed"))
    return estimate(1 - turned - lost for turned, lost in zip(rejected, failed, strict=True))
