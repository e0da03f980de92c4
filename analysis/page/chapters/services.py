"""Services in `ettrick explain`: replicas, batches, times by term, tails, spares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.amounts import amount_text, percent_text, range_text, short_text, text_or_dash, time_text
from analysis.page.model import Section, grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.results.explained import ExplainedService


def service_sections(name: str, service: ExplainedService) -> Iterator[Section]:
    """Yield all that there is to say about a service."""

    def labels(title: str, rows: list[tuple[str, str]]) -> Section:
        return Section("labels", title, (), (grid("", ("", ""), rows),))

    layout = f"tensor {service.tensor} x data {service.data} x pipeline {service.pipeline}"
    band = range_text(service.within_slo.tpot_s_band90, time_text)
    yield labels(
        f"Service {name}",
        [
            ("replicas", f"{service.replicas:,} of {layout} ({service.accelerator})"),
            ("model", service.model),
            ("engine", f"{service.engine}: constants {service.basis}, log error {service.sigma:g}"),
            ("weights", f"{service.weight_bytes / 1e9:,.1f} GB a GPU; room for keys and values "
             f"{service.cache_room_bytes / 1e9:,.1f} GB, {service.cache_bytes_per_token / 1e3:,.1f} kB a token"),
            ("mean request", f"{service.input_tokens:,.0f} tokens in, {service.output_tokens:,.0f} out; prefill "
             f"{time_text(service.prefill_s)}"),
            ("demand", f"{short_text(service.demand_per_s)} requests/s, {percent_text(service.load, 0)} of what all "
             "replicas carry at the mean TPOT of the SLO"),
            ("TPOT at the SLO", f"{time_text(service.within_slo.tpot_s)} ({band} with 90 %)"),
        ],
    )  # fmt: skip
    rows = [
        (label, f"{each.batch:,.0f}", f"{each.tpot_s * 1e3:,.1f}", f"{each.tokens_per_s_user:,.0f}",
         f"{each.tokens_per_gpu_s:,.0f}", text_or_dash(each.gpu_w, "{:,.0f}".format),
         text_or_dash(each.joules_per_million_tokens, amount_text),
         text_or_dash(each.money_per_million_tokens, "{:,.2f}".format))
        for label, each in (
            ("largest, by room", service.largest), ("within the SLO", service.within_slo),
            ("at the demand", service.at_demand),
        )
        if each is not None
    ]  # fmt: skip
    heads = ("batch", "requests\nin flight", "TPOT\nms", "tokens/s\na user", "tokens/s\na GPU", "GPU\nW",
             "J per\nM tokens", "money per\nM tokens")  # fmt: skip
    yield Section("batches", "Batches of a replica", (), (grid("", heads, rows),))
    total = sum(service.tpot_terms_s.values())
    rows_of_terms = [
        (term, f"{(time or 0.0) * 1e3:,.2f}", percent_text((time or 0.0) / total, 0))
        for term, time in service.tpot_terms_s.items()
    ]
    terms = grid("", ("term", "ms", "share"), rows_of_terms)
    yield Section("terms", "Time per token within the SLO", (), (terms,))
    tail = service.tail
    curve = ", ".join(
        f"{percent_text(at, 0)}: {percent_text(share, 1)}" for at, share in filter(None, service.attainment)
    )
    met = "never" if service.slo_load is None else (
        f"up to {percent_text(service.slo_load, 0)} of that, {short_text(service.slo_goodput_per_s or 0.0)} requests/s"
    )  # fmt: skip
    yield labels(
        "Requests one by one, without failures",
        [
            ("TTFT", f"P50 {time_text(tail.ttft_p50_s)}, P99 {time_text(tail.ttft_p99_s)}"),
            ("TPOT", f"P50 {tail.tpot_p50_s * 1e3:,.1f} ms, P99 {tail.tpot_p99_s * 1e3:,.1f} ms"),
            ("in SLO", f"{percent_text(tail.slo_attainment)} of {tail.requests:,} requests at the demand"),
            ("by load", curve),
            ("SLO is met", met),
            *(
                [("note", "data ranks share prompts evenly here: TTFT of long ones is a lower bound")]
                * (service.data > 1)
            ),
        ],
    )
    rows_of_spares = [
        (f"{row.spares}", percent_text(row.capacity_share, 4), percent_text(row.all_up, 3),
         percent_text(row.capacity_availability, 4), percent_text(row.served_share, 5))
        for row in service.spares
    ]  # fmt: skip
    of_spares = (
        "spare\nnodes",
        "replicas\nthat serve",
        "all of\nthem",
        "demand is\ncarried",
        "requests that\nfind capacity",
    )
    text = (
        f"{short_text(service.failures_per_day)} failures a day stop a replica; it is back after "
        f"{time_text(service.down_s)} where a spare is at hand, else after a repair. Hardware alone; all times "
        "exponential, a crew for every repair."
    )
    yield Section("spares", "Spare nodes", (text,), (grid("", of_spares, rows_of_spares),))
