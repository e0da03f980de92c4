"""A service explained: its times by term, batches, tails, availability; and layouts of its replicas."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results import explained
from ettrick.analysis.results.files import csv_text
from ettrick.sim.scenario.services import ServingLayout
from ettrick.sim.steps import serving
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.sim import PreparedService
    from ettrick.sim.scenario.services import ServiceSpec

Sort = Literal["gpu", "power", "money"]

SORTS: dict[str, Sort] = {"gpu": "gpu", "power": "power", "money": "money"}
"""The amounts to weigh against tokens/s of a user."""

_BAND90 = 1.6448536269514722
"""Standard deviations that hold 90 % of a normal law [-]."""


def describe_service(service: PreparedService, price: float | None) -> explained.ExplainedService:
    """Return what there is to say about a service; `price` is that of a GPU-hour.

    Raises
    ------
    sim.engine.requests.RequestError
        If one request alone exceeds the room for keys and values.
    """
    spec, replica, requests, prompt = service.spec, service.replica, service.requests, service.mean_request
    tail, curve = _tail(service), list(service.attainment)
    basis, sigma = _basis(service)
    slo_load = _load_within(curve, spec.slo.attainment)
    capacity = service.capacity * spec.replicas
    fail, restart, repair, load, _ = service.failing
    terms = serving.decode(replica, service.within, requests.context)._asdict()
    total = float(serving.time_per_token(replica, service.within, requests))
    return explained.ExplainedService(
        model=replica.shape.title,
        accelerator=replica.chip.title,
        engine=f"{replica.engine.title} {replica.engine.release}",
        engine_source=replica.engine.source,
        replicas=spec.replicas,
        tensor=replica.tensor,
        data=replica.data,
        pipeline=replica.pipeline,
        basis=basis,
        sigma=sigma,
        weight_bytes=replica.weight_bytes,
        cache_room_bytes=serving.cache_room(replica),
        cache_bytes_per_token=float(replica.cache_bytes(requests.context)) / requests.context,
        admission=replica.engine.admission,
        readers=None if service.pools is None else _readers(service.pools, service),
        speculated_tokens=serving.speculated(replica.draft, replica.accept),
        prefill_s=float(serving.prefill(service.reader or replica, prompt.input, prompt.hit)),
        input_tokens=requests.input,
        output_tokens=requests.output,
        tpot_terms_s={
            **{name: float(value) for name, value in terms.items()},
            "prefills": total - sum(map(float, terms.values())),
        },
        largest=_amounts(service, service.fed, price),
        within_slo=_amounts(service, service.within, price),
        at_demand=_amounts(service, service.in_flight, price) if math.isfinite(service.in_flight) else None,
        demand_per_s=service.rate,
        load=service.load,
        tail=tail,
        attainment=[*curve],
        slo_load=slo_load,
        slo_goodput_per_s=None if slo_load is None else min(slo_load * service.carried * spec.replicas, capacity),
        capacity_per_s=capacity,
        failures_per_day=(fail + restart) * service.groups * DAY,
        down_s=load,
        repair_s=repair if fail > 0 else None,
        spares=[_spares(service, spares) for spares in sorted({service.spares, 0, 1, 2, 3, 4})],
    )


def _readers(pools: serving.DisaggregatedPools, service: PreparedService) -> explained.PrefillSummary:
    reader, request = pools.readers, service.mean_request
    carried = float(pools.reading * serving.reading_rate(reader, request))
    return explained.PrefillSummary(
        replicas=int(pools.reading),
        tensor=reader.tensor,
        data=reader.data,
        pipeline=reader.pipeline,
        prompts_per_s=carried,
        busy=service.rate / carried,
        balance=carried / (service.spec.replicas * service.unfed),
        handover_s=float(serving.handover(pools, request)),
    )


def _basis(service: PreparedService) -> tuple[str, float]:
    """Return what the times rest on, and the standard deviation of their logarithm [-].

    Rows that were fitted are of an engine, a kind of model and an accelerator: constants of one engine are no evidence
    for another, nor those of its dense models for its models with experts.
    """
    spec, replica = service.spec, service.replica
    chip, engine, sigma, fitted = replica.chip, replica.engine, replica.constants.sigma, replica.constants.fitted
    if spec.calibration is not None:
        return "calibrated", sigma["calibrated"]
    kind = "experts" if replica.shape.experts is not None else "dense"
    rows = [row.split()[-1] for row in fitted["pairs"] if row.split()[:2] == [spec.engine, kind]]
    pair = f"{engine.title}, {'models with experts' if kind == 'experts' else 'dense models'}"
    if not rows:
        return f"never fitted for this pair: {pair}", sigma["pair"]
    reasons = [(f"fitted to {pair} on {' and '.join(rows)}", sigma["experts" if kind == "experts" else "fitted"])]
    if chip.generation not in fitted["generations"] or chip.announced:
        reasons.append(("to no accelerator like this", sigma["accelerator"]))
    if engine.is_eager:
        reasons.append(("to one model", sigma["model"]))
    if spec.model not in fitted["models"]:
        reasons.append(("not to this model", sigma["model"]))
    return ", ".join(text for text, _ in reasons), max(spread for _, spread in reasons)


def _amounts(service: PreparedService, batch: float, price: float | None) -> explained.ServiceAmounts:
    """Return what a replica does at a batch."""
    replica, requests, output = service.replica, service.requests, service.requests.output
    gpus = service.gpus / service.spec.replicas
    time = float(serving.time_per_token(replica, batch, service.requests))
    rate = batch / time / gpus
    spread = math.exp(_BAND90 * _basis(service)[1])
    drawn = _drawn(service, batch, batch / (time * output))
    facility = None if drawn is None or service.host is None else (drawn + service.host) * service.pue
    return explained.ServiceAmounts(
        batch=batch,
        tpot_s=time,
        tpot_s_band90=(time / spread, time * spread),
        ttft_s=None if service.reader is not None else float(serving.time_to_first_token(replica, batch, requests)),
        tokens_per_gpu_s=rate,
        tokens_per_s_user=1 / time,
        requests_per_s=rate * gpus / output,
        gpu_w=drawn,
        joules_per_million_tokens=None if drawn is None else 1e6 * drawn / rate,
        facility_joules_per_million_tokens=None if facility is None else 1e6 * facility / rate,
        money_per_million_tokens=None if price is None else 1e6 * price / HOUR / rate,
    )


def _drawn(service: PreparedService, batch: float, rate: float) -> float | None:
    """Return what a GPU draws when a replica serves `rate` requests a second [W], readers of prompts among them."""
    replica, pools = service.replica, service.pools
    try:
        drawn = float(serving.power(replica, batch, service.requests))
    except ValueError:
        return None
    if pools is None or replica.chip.power is None:
        return drawn
    # A prefill draws the power of the board; a reader without work the intercept of the law.
    least = replica.by_generation(replica.constants.power)[0]
    reading = pools.reading * serving.reading_rate(pools.readers, service.mean_request)
    busy = min(rate * float(pools.decoding) / float(reading), 1.0)
    reader = replica.chip.power * (least + (1 - least) * busy)
    readers = service.gpus - service.spec.replicas * replica.gpus
    return drawn + (reader - drawn) * readers / service.gpus


def _tail(service: PreparedService) -> explained.ServiceTail:
    served = service.settled(service.load)
    ttft, tpot = (np.percentile(times, [50, 99]).tolist() for times in (served.ttft, served.tpot))
    return explained.ServiceTail(
        requests=len(served.arrival),
        ttft_mean_s=float(served.ttft.mean()),
        ttft_p50_s=ttft[0],
        ttft_p99_s=ttft[1],
        tpot_p50_s=tpot[0],
        tpot_p99_s=tpot[1],
        slo_attainment=served.attainment(service.spec.slo.ttft, service.spec.slo.tpot),
        evictions=served.evictions,
    )


def _load_within(curve: list[tuple[float, float]], attainment: float) -> float | None:
    """Return the load at which a curve, straight between its points, falls below an attainment [-]."""
    if curve[0][1] < attainment:
        return None
    for (before, high), (after, low) in pairwise(curve):
        if low < attainment:
            return before + (after - before) * (high - attainment) / (high - low)
    return curve[-1][0]


def _spares(service: PreparedService, spares: int) -> explained.SpareRow:
    standing = service.standing(spares)
    return explained.SpareRow(
        spares=spares,
        capacity_share=standing.share,
        all_up=float(standing.pmf[-1]),
        capacity_availability=service.capacity_availability(spares),
        served_share=service.served_share(spares),
    )


# Layouts of the replicas.

_RANKS = (1, 2, 4, 8, 16, 32, 64, 128)


def describe_service_layouts(
    scenario: str, service: PreparedService, price: float | None, sort: Sort, top: int
) -> explained.ServiceLayoutsDocument:
    """Return the layouts and batches of replicas that no other beats in both tokens/s of a user and those of `sort`.

    Of each layout that the GPUs of the service are enough for, batches of powers of the square root of two.
    """
    candidates = list(_sized(service, service.gpus))
    rows = [row for candidate in candidates for row in _rows(candidate, service.spec, price)]
    best: list[explained.ServiceLayoutRow] = []
    reached = 0.0
    for row in sorted(rows, key=lambda row: (-row.amounts.tokens_per_s_user, -_yield(row, sort))):
        if _yield(row, sort) > reached:
            reached = _yield(row, sort)
            best.append(row)
    keep = {round(place) for place in np.linspace(0, len(best) - 1, min(top, len(best)))}
    return explained.ServiceLayoutsDocument(
        format=FORMAT,
        scenario=scenario,
        service=service.spec.name,
        gpus=service.gpus,
        accelerator=service.replica.chip.title,
        basis=_basis(service)[0],
        found=len(candidates),
        sort=sort,
        layouts=[row for place, row in enumerate(best) if place in keep],
    )


def _rows(service: PreparedService, stated: ServiceSpec, price: float | None) -> Iterator[explained.ServiceLayoutRow]:
    """Yield a layout with each batch."""
    share, pools, layout = service.standing().share, service.pools, service.spec.parallelism
    most = service.fed if pools is not None else service.largest
    for batch in {*np.geomspace(1, most, max(2, 1 + round(2 * math.log2(max(most, 2)))))}:
        amounts = _amounts(service, float(batch), price)
        joules = amounts.facility_joules_per_million_tokens
        yield explained.ServiceLayoutRow(
            tensor=layout.tensor,
            data=layout.data,
            pipeline=layout.pipeline,
            replicas=service.spec.replicas,
            prefill_replicas=None if pools is None else int(pools.reading),
            prefill_gpus=None if pools is None else pools.readers.gpus,
            is_own=layout == stated.parallelism and service.spec.prefill == stated.prefill,
            is_within_slo=amounts.tpot_s <= stated.slo.tpot and (amounts.ttft_s or 0.0) <= stated.slo.ttft,
            amounts=amounts,
            tokens_per_mw_s=None if joules is None else 1e12 / joules,
            serving_share=share,
            tokens_per_gpu_s_after_failures=amounts.tokens_per_gpu_s * share,
        )


def _sized(service: PreparedService, gpus: int) -> Iterator[PreparedService]:
    """Yield the service in every layout that fits; one with readers also with others, and without.

    Of readers the layout counts whose GPUs read most prompts while a mean one meets the TTFT of the SLO, and their
    number is what balances decoders at a batch of the SLO, at half of that and at a quarter.
    """
    sized = (service.with_layout(layout, gpus // layout.gpus) for layout in _layouts(service, gpus))
    fitting = [candidate for candidate in sized if candidate.largest >= 1]
    yield from fitting
    if service.pools is None:
        return
    request = service.mean_request

    def read(reader: PreparedService) -> float:
        alone = float(serving.prefill(reader.replica, request.input, request.hit)) / reader.replica.data
        rate = float(serving.reading_rate(reader.replica, request)) / reader.replica.gpus
        return rate if alone < service.spec.slo.ttft else 0.0

    readers = max(fitting, key=read)
    layout = readers.spec.parallelism
    for candidate in fitting:
        decodes = candidate.with_layout(candidate.spec.parallelism, 1, (layout, 1))
        for part in (1.0, 0.5, 0.25):
            batch = part * decodes.unfed_batch
            if batch < 1:
                continue
            rate = batch / float(request.output * serving.time_per_token(decodes.replica, batch, decodes.requests))
            ratio = rate / float(serving.reading_rate(readers.replica, request))
            count = int(gpus / (candidate.replica.gpus + ratio * layout.gpus))
            reading = max((gpus - count * candidate.replica.gpus) // layout.gpus, 0)
            if count and reading:
                yield service.with_layout(candidate.spec.parallelism, count, (layout, reading))


def _layouts(service: PreparedService, gpus: int) -> Iterator[ServingLayout]:
    """Yield layouts of whole nodes or even parts of one; data ranks only where they share experts."""
    node_gpus = service.gpus_per_node
    for tensor in _RANKS:
        if tensor > max(service.replica.domain, 1) or tensor > service.replica.shape.heads:
            continue
        for data in _RANKS if service.replica.shape.experts is not None else (1,):
            for pipeline in (1, 2, 4):
                size = tensor * data * pipeline
                if size <= gpus and not (size % node_gpus and node_gpus % size):
                    yield ServingLayout(tensor=tensor, data=data, pipeline=pipeline)


def _yield(row: explained.ServiceLayoutRow, sort: Sort) -> float:
    """Return what is weighed against tokens/s of a user, failures counted."""
    if sort == "power":
        return (row.tokens_per_mw_s or 0.0) * row.serving_share
    if sort == "money":
        return row.serving_share / (row.amounts.money_per_million_tokens or math.inf)
    return row.tokens_per_gpu_s_after_failures


def service_layouts_csv(content: explained.ServiceLayoutsDocument) -> str:
    """Return layouts of a service as CSV, with the names of the document; units are in the names."""
    rows = []
    for row in content.layouts:
        columns = row.model_dump()
        flat = {**{name: value for name, value in columns.items() if name != "amounts"}, **columns["amounts"]}
        low, high = flat.pop("tpot_s_band90")
        rows.append(flat | {"tpot_s_low": low, "tpot_s_high": high})
    return csv_text([*rows[:1], *(row.values() for row in rows)])
