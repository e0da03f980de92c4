"""What a service costs: its times by term, batches, tails, availability; and layouts of its replicas."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.explained import (
    ExplainedService,
    PrefillSummary,
    ServiceAmounts,
    ServiceLayoutRow,
    ServiceLayoutsDocument,
    ServiceTail,
    SpareRow,
)
from ettrick.analysis.results.files import csv_text
from ettrick.sim.scenario.services import ServingLayout
from ettrick.sim.steps.serving import (
    cache_room,
    decode,
    handover,
    power,
    prefill,
    reading_rate,
    speculated,
    time_per_token,
    time_to_first_token,
)
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.sim import PreparedService
    from ettrick.sim.steps.serving import DisaggregatedPools

Sort = Literal["gpu", "power", "money"]

SORTS: dict[str, Sort] = {"gpu": "gpu", "power": "power", "money": "money"}
"""What may be weighed against tokens/s of a user."""

_BAND90 = 1.6448536269514722
"""Standard deviations that hold 90 % of a normal law [-]."""


def describe_service(found: PreparedService, price: float | None) -> ExplainedService:
    """Return what there is to say about a service; `price` is that of a GPU-hour.

    Raises
    ------
    sim.engine.requests.RequestError
        If one request alone exceeds the room for keys and values.
    """
    spec, made, requests = found.spec, found.replica, found.requests
    tail, curve = _tail(found), list(found.attainment)
    basis, sigma = _basis(found)
    slo_load = _load_within(curve, spec.slo.attainment)
    capacity = found.capacity * spec.replicas
    fail, restart, repair, load, _ = found.failing
    terms = decode(made, found.within, requests.context)._asdict()
    total = float(time_per_token(made, found.within, requests))
    return ExplainedService(
        model=made.shape.title,
        accelerator=made.chip.title,
        engine=f"{made.engine.title} {made.engine.release}",
        engine_source=made.engine.source,
        replicas=spec.replicas,
        tensor=made.tensor,
        data=made.data,
        pipeline=made.pipeline,
        basis=basis,
        sigma=sigma,
        weight_bytes=made.weight_bytes,
        cache_room_bytes=cache_room(made),
        cache_bytes_per_token=float(made.cache_bytes(requests.context)) / requests.context,
        admission=made.engine.admission,
        readers=None if found.pools is None else _readers(found.pools, found),
        speculated_tokens=speculated(made.draft, made.accept),
        prefill_s=float(prefill(found.reader or made, found.asked.input, found.asked.hit)),
        input_tokens=requests.input,
        output_tokens=requests.output,
        tpot_terms_s={
            **{name: float(value) for name, value in terms.items()},
            "prefills": total - sum(map(float, terms.values())),
        },
        largest=_amounts(found, found.fed, price),
        within_slo=_amounts(found, found.within, price),
        at_demand=_amounts(found, found.in_flight, price) if math.isfinite(found.in_flight) else None,
        demand_per_s=found.rate,
        load=found.load,
        tail=tail,
        attainment=[*curve],
        slo_load=slo_load,
        slo_goodput_per_s=None if slo_load is None else min(slo_load * found.carried * spec.replicas, capacity),
        capacity_per_s=capacity,
        failures_per_day=(fail + restart) * found.groups * DAY,
        down_s=load,
        repair_s=repair if fail > 0 else None,
        spares=[_spares(found, spares) for spares in sorted({found.spares, 0, 1, 2, 3, 4})],
    )


def _readers(pools: DisaggregatedPools, found: PreparedService) -> PrefillSummary:
    made, asked = pools.readers, found.asked
    carried = float(pools.reading * reading_rate(made, asked))
    return PrefillSummary(
        replicas=int(pools.reading),
        tensor=made.tensor,
        data=made.data,
        pipeline=made.pipeline,
        prompts_per_s=carried,
        busy=found.rate / carried,
        balance=carried / (found.spec.replicas * found.unfed),
        handover_s=float(handover(pools, asked)),
    )


def _basis(found: PreparedService) -> tuple[str, float]:
    """Return what the times rest on, and the standard deviation of their logarithm [-].

    Rows that were fitted are of an engine, a kind of model and an accelerator: constants of one engine are no evidence
    for another, nor those of its dense models for its models with experts.
    """
    constants, chip, spec, engine = found.replica.constants, found.replica.chip, found.spec, found.replica.engine
    sigma, fitted = constants.sigma, constants.fitted
    if spec.calibration is not None:
        return "calibrated", sigma["calibrated"]
    kind = "experts" if found.replica.shape.experts is not None else "dense"
    rows = [row.split()[-1] for row in fitted["pairs"] if row.split()[:2] == [spec.engine, kind]]
    pair = f"{engine.title}, {'models with experts' if kind == 'experts' else 'dense models'}"
    if not rows:
        return f"never fitted for this pair: {pair}", sigma["pair"]
    known = [(f"fitted to {pair} on {' and '.join(rows)}", sigma["experts" if kind == "experts" else "fitted"])]
    if chip.generation not in fitted["generations"] or chip.announced:
        known.append(("to no accelerator like this", sigma["accelerator"]))
    if engine.is_eager:
        known.append(("to one model", sigma["model"]))
    if spec.model not in fitted["models"]:
        known.append(("not to this model", sigma["model"]))
    return ", ".join(text for text, _ in known), max(spread for _, spread in known)


def _amounts(found: PreparedService, batch: float, price: float | None) -> ServiceAmounts:
    """Return what a replica does at a batch."""
    made, output = found.replica, found.requests.output
    gpus = found.gpus / found.spec.replicas
    time = float(time_per_token(made, batch, found.requests))
    rate = batch / time / gpus
    spread = math.exp(_BAND90 * _basis(found)[1])
    drawn = _drawn(found, batch, batch / (time * output))
    facility = None if drawn is None or found.host is None else (drawn + found.host) * found.pue
    return ServiceAmounts(
        batch=batch,
        tpot_s=time,
        tpot_s_band90=(time / spread, time * spread),
        ttft_s=None if found.reader is not None else float(time_to_first_token(made, batch, found.requests)),
        tokens_per_gpu_s=rate,
        tokens_per_s_user=1 / time,
        requests_per_s=rate * gpus / output,
        gpu_w=drawn,
        joules_per_million_tokens=None if drawn is None else 1e6 * drawn / rate,
        facility_joules_per_million_tokens=None if facility is None else 1e6 * facility / rate,
        money_per_million_tokens=None if price is None else 1e6 * price / HOUR / rate,
    )


def _drawn(found: PreparedService, batch: float, rate: float) -> float | None:
    """Return what a GPU draws when a replica serves `rate` requests a second [W], readers of prompts among them."""
    made, pools = found.replica, found.pools
    try:
        drawn = float(power(made, batch, found.requests))
    except ValueError:
        return None
    if pools is None or made.chip.power is None:
        return drawn
    # A prefill draws the power of the board; a reader without work the intercept of the law.
    least = made.by_generation(made.constants.power)[0]
    busy = min(rate * float(pools.decoding) / float(pools.reading * reading_rate(pools.readers, found.asked)), 1.0)
    reader = made.chip.power * (least + (1 - least) * busy)
    readers = found.gpus - found.spec.replicas * made.gpus
    return drawn + (reader - drawn) * readers / found.gpus


def _tail(found: PreparedService) -> ServiceTail:
    served = found.settled(found.load)
    ttft, tpot = (np.percentile(times, [50, 99]).tolist() for times in (served.ttft, served.tpot))
    return ServiceTail(
        requests=len(served.arrival),
        ttft_mean_s=float(served.ttft.mean()),
        ttft_p50_s=ttft[0],
        ttft_p99_s=ttft[1],
        tpot_p50_s=tpot[0],
        tpot_p99_s=tpot[1],
        slo_attainment=served.attainment(found.spec.slo.ttft, found.spec.slo.tpot),
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


def _spares(found: PreparedService, spares: int) -> SpareRow:
    standing = found.standing(spares)
    return SpareRow(
        spares=spares,
        capacity_share=standing.share,
        all_up=float(standing.pmf[-1]),
        capacity_availability=found.capacity_availability(spares),
        served_share=found.served_share(spares),
    )


# Layouts of the replicas.

_RANKS = (1, 2, 4, 8, 16, 32, 64, 128)


def describe_service_layouts(
    scenario: str, found: PreparedService, price: float | None, sort: Sort, top: int
) -> ServiceLayoutsDocument:
    """Return the layouts and batches of replicas that no other beats in both tokens/s of a user and those of `sort`.

    Of each layout that the GPUs of the service are enough for, batches of powers of the square root of two.
    """
    gpus, slo = found.gpus, found.spec.slo
    rows, fitting = [], 0
    for other in _sized(found, gpus):
        fitting += 1
        share, pools, layout = other.standing().share, other.pools, other.spec.parallelism
        most = other.fed if pools is not None else other.largest
        for batch in {*np.geomspace(1, most, max(2, 1 + round(2 * math.log2(max(most, 2)))))}:
            amounts = _amounts(other, float(batch), price)
            joules = amounts.facility_joules_per_million_tokens
            rows.append(
                ServiceLayoutRow(
                    tensor=layout.tensor,
                    data=layout.data,
                    pipeline=layout.pipeline,
                    replicas=other.spec.replicas,
                    prefill_replicas=None if pools is None else int(pools.reading),
                    prefill_gpus=None if pools is None else pools.readers.gpus,
                    is_own=layout == found.spec.parallelism and other.spec.prefill == found.spec.prefill,
                    is_within_slo=amounts.tpot_s <= slo.tpot and (amounts.ttft_s or 0.0) <= slo.ttft,
                    amounts=amounts,
                    tokens_per_mw_s=None if joules is None else 1e12 / joules,
                    serving_share=share,
                    tokens_per_gpu_s_after_failures=amounts.tokens_per_gpu_s * share,
                )
            )
    best: list[ServiceLayoutRow] = []
    reached = 0.0
    for row in sorted(rows, key=lambda row: (-row.amounts.tokens_per_s_user, -_yield(row, sort))):
        if _yield(row, sort) > reached:
            reached = _yield(row, sort)
            best.append(row)
    keep = {round(place) for place in np.linspace(0, len(best) - 1, min(top, len(best)))}
    return ServiceLayoutsDocument(
        format=FORMAT,
        scenario=scenario,
        service=found.spec.name,
        gpus=gpus,
        accelerator=found.replica.chip.title,
        basis=_basis(found)[0],
        found=fitting,
        sort=sort,
        layouts=[row for place, row in enumerate(best) if place in keep],
    )


def _sized(found: PreparedService, gpus: int) -> Iterator[PreparedService]:
    """Yield the service in every layout that fits; one with readers also with others, and without.

    Of readers the layout counts whose GPUs read most prompts while a mean one meets the TTFT of the SLO, and their
    number is what balances decoders at a batch of the SLO, at half of that and at a quarter.
    """
    fitting = [
        other for each in _layouts(found, gpus) if (other := found.with_layout(each, gpus // each.gpus)).largest >= 1
    ]
    yield from fitting
    if found.pools is None:
        return
    asked = found.asked

    def read(one: PreparedService) -> float:
        alone = float(prefill(one.replica, asked.input, asked.hit)) / one.replica.data
        return float(reading_rate(one.replica, asked)) / one.replica.gpus if alone < found.spec.slo.ttft else 0.0

    readers = max(fitting, key=read)
    each = readers.spec.parallelism
    for other in fitting:
        decodes = other.with_layout(other.spec.parallelism, 1, (each, 1))
        for part in (1.0, 0.5, 0.25):
            batch = part * decodes.unfed_batch
            if batch < 1:
                continue
            rate = batch / float(asked.output * time_per_token(decodes.replica, batch, decodes.requests))
            ratio = rate / float(reading_rate(readers.replica, asked))
            count = int(gpus / (other.replica.gpus + ratio * each.gpus))
            reading = max((gpus - count * other.replica.gpus) // each.gpus, 0)
            if count and reading:
                yield found.with_layout(other.spec.parallelism, count, (each, reading))


def _layouts(found: PreparedService, gpus: int) -> Iterator[ServingLayout]:
    """Yield layouts of whole nodes or even parts of one; data ranks only where they share experts."""
    each = found.gpus_per_node
    for tensor in _RANKS:
        if tensor > max(found.replica.domain, 1) or tensor > found.replica.shape.heads:
            continue
        for data in _RANKS if found.replica.shape.experts is not None else (1,):
            for pipeline in (1, 2, 4):
                size = tensor * data * pipeline
                if size <= gpus and not (size % each and each % size):
                    yield ServingLayout(tensor=tensor, data=data, pipeline=pipeline)


def _yield(row: ServiceLayoutRow, sort: Sort) -> float:
    """Return what is weighed against tokens/s of a user, failures counted."""
    if sort == "power":
        return (row.tokens_per_mw_s or 0.0) * row.serving_share
    if sort == "money":
        return row.serving_share / (row.amounts.money_per_million_tokens or math.inf)
    return row.tokens_per_gpu_s_after_failures


def service_layouts_csv(content: ServiceLayoutsDocument) -> str:
    """Return layouts of a service as CSV, with the names of the document; units are in the names."""
    rows = []
    for row in content.layouts:
        own = row.model_dump()
        flat = {**{name: value for name, value in own.items() if name != "amounts"}, **own["amounts"]}
        low, high = flat.pop("tpot_s_band90")
        rows.append(flat | {"tpot_s_low": low, "tpot_s_high": high})
    return csv_text([*rows[:1], *(row.values() for row in rows)])
