"""What a service costs: its times by term, batches, tails, availability; and layouts of its replicas. Data and text."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from analysis.amounts import amount_text, empty_table, range_text, text_or_dash
from analysis.results.explained import (
    ExplainedService,
    ServiceAmounts,
    ServiceLayoutRow,
    ServiceLayoutsDocument,
    ServiceTail,
    SpareRow,
)
from analysis.results.models import FORMAT
from analysis.terminal import Page, console
from sim.scenario.services import ServingLayout
from sim.steps.serving import cache_room, decode, power, prefill, time_per_token
from sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim import PreparedService

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
    slo_load = _load_within(curve, spec.slo.attainment)
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
        basis="fitted" if spec.calibration is None else "calibrated",
        sigma=_sigma(found),
        weight_bytes=made.weight_bytes,
        cache_room_bytes=cache_room(made),
        cache_bytes_per_token=float(made.cache_bytes(requests.context)) / requests.context,
        admission=made.engine.admission,
        prefill_s=float(prefill(made, requests.input, requests.hit)),
        input_tokens=requests.input,
        output_tokens=requests.output,
        tpot_terms_s={
            **{name: float(value) for name, value in terms.items()},
            "prefills": total - sum(map(float, terms.values())),
        },
        largest=_amounts(found, found.largest, price),
        within_slo=_amounts(found, found.within, price),
        at_demand=_amounts(found, found.in_flight, price) if math.isfinite(found.in_flight) else None,
        demand_per_s=found.rate,
        load=found.load,
        tail=tail,
        attainment=[*curve],
        slo_load=slo_load,
        slo_goodput_per_s=None if slo_load is None else slo_load * found.carried * spec.replicas,
        failures_per_day=(fail + restart) * found.groups * DAY,
        down_s=load,
        repair_s=repair if fail > 0 else None,
        spares=[_spares(found, spares) for spares in sorted({found.spares, 0, 1, 2, 3, 4})],
    )


def _sigma(found: PreparedService) -> float:
    """Return the standard deviation of the logarithm of times [-]."""
    sigma = found.replica.constants.sigma
    if found.spec.calibration is not None:
        return sigma["calibrated"]
    return sigma["experts" if found.replica.shape.experts is not None else "fitted"]


def _amounts(found: PreparedService, batch: float, price: float | None) -> ServiceAmounts:
    """Return what a replica does at a batch."""
    made = found.replica
    time = float(time_per_token(made, batch, found.requests))
    rate = batch / time / made.gpus
    spread = math.exp(_BAND90 * _sigma(found))
    try:
        drawn: float | None = float(power(made, batch, found.requests))
    except ValueError:
        drawn = None
    return ServiceAmounts(
        batch=batch,
        tpot_s=time,
        tpot_s_band90=(time / spread, time * spread),
        tokens_per_gpu_s=rate,
        tokens_per_s_user=1 / time,
        requests_per_s=rate * made.gpus / found.requests.output,
        gpu_w=drawn,
        joules_per_million_tokens=None if drawn is None else 1e6 * drawn / rate,
        money_per_million_tokens=None if price is None else 1e6 * price / HOUR / rate,
    )


def _tail(found: PreparedService) -> ServiceTail:
    served = found.settled(found.load)
    ttft, tpot = (np.percentile(times, [50, 99]).tolist() for times in (served.ttft, served.tpot))
    return ServiceTail(
        requests=len(served.arrival),
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
    gpus = found.spec.replicas * found.replica.gpus
    rows, fitting = [], 0
    for layout in _layouts(found, gpus):
        replicas = gpus // layout.gpus
        other = found.with_layout(layout, replicas)
        if other.largest < 1:
            continue
        fitting += 1
        share = other.standing().share
        for batch in {*np.geomspace(1, other.largest, max(2, 1 + round(2 * math.log2(max(other.largest, 2)))))}:
            amounts = _amounts(other, float(batch), price)
            rows.append(
                ServiceLayoutRow(
                    tensor=layout.tensor,
                    data=layout.data,
                    pipeline=layout.pipeline,
                    replicas=replicas,
                    is_own=layout == found.spec.parallelism,
                    is_within_slo=amounts.tpot_s <= found.spec.slo.tpot,
                    amounts=amounts,
                    tokens_per_mw_s=None if amounts.gpu_w is None else amounts.tokens_per_gpu_s / amounts.gpu_w * 1e6,
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
        found=fitting,
        sort=sort,
        layouts=[row for place, row in enumerate(best) if place in keep],
    )


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


def format_service_layouts(content: ServiceLayoutsDocument, *, width: int | None = None) -> str:
    """Return layouts of a service as text for standard output, `width` columns wide (that of the terminal)."""
    page = Page()
    out = console(page, width=width)
    out.print(f"{content.scenario}, service {content.service}", style="bold", highlight=False)
    out.print(
        f"  {content.gpus:,} GPUs ({content.accelerator}): {content.found:,} layouts fit; tensor x data x pipeline",
        highlight=False,
    )
    table = empty_table("layout", "replicas", "in\nflight", "TPOT\nms", "90 %", "tokens/s\na user", "tokens/s\na GPU",
                        "after\nfailures", "tokens/s\na MW", "money per\nM tokens")  # fmt: skip
    for row in content.layouts:
        each = row.amounts
        table.add_row(
            f"{row.tensor} x {row.data} x {row.pipeline}{' *' if row.is_own else ''}",
            f"{row.replicas:,}",
            f"{each.batch:,.0f}",
            f"{each.tpot_s * 1e3:,.1f}{'' if row.is_within_slo else ' +'}",
            range_text(each.tpot_s_band90, lambda end: f"{1e3 * end:,.0f}"),
            f"{each.tokens_per_s_user:,.0f}",
            f"{each.tokens_per_gpu_s:,.0f}",
            f"{row.tokens_per_gpu_s_after_failures:,.0f}",
            text_or_dash(row.tokens_per_mw_s, amount_text),
            text_or_dash(each.money_per_million_tokens, "{:,.2f}".format),
        )
    out.print()
    out.print(table)
    out.print("  * the scenario's own layout; + beyond the TPOT of the SLO", highlight=False)
    return page.text().rstrip()
