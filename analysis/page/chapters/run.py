"""A run: its first screen, which says what becomes training and what does not, and its text for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import (
    COUNT,
    GPU_YEARS,
    OF_HUNDRED,
    PERCENT,
    POINTS,
    NumberFormat,
    capital,
    count_text,
    gpu_hours_form,
    interval_text,
    money_form,
    number_of,
    people_form,
    percent_text,
    short_text,
    text_or_dash,
    time_form,
    time_text,
)  # fmt: skip
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.page.account import at_a_glance, jobs_table, requested_share
from ettrick.analysis.page.chapters import screen
from ettrick.analysis.page.chapters.capacity import down_at_once, more_than, nodes_down_title
from ettrick.analysis.page.chapters.formula import beside_simulation
from ettrick.analysis.page.chapters.losses import OFF, goodput, modelled, where_of_jobs
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.glossary import bucket_words, cause_words
from ettrick.analysis.page.model import Figure, Section, grid, in_full, joined, lists, plain
from ettrick.analysis.page.sourced import (
    RUN,
    SourcedEstimate,
    SourcedNumber,
    SourceDocument,
    number,
    ranged,
    total,
    worded,
)
from ettrick.analysis.results.models import NodesDown
from ettrick.analysis.results.run import stores_of
from ettrick.analysis.terminal import repairs_text
from ettrick.sim import NO_FAILURE
from ettrick.sim.units import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ettrick.analysis.page.model import FirstScreen, Number, TableBlock, Words
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.results.explained import LayoutSummary
    from ettrick.analysis.results.models import RunDocument
    from ettrick.sim import Prepared, PreparedJob
    from ettrick.sim.scenario.model import Parallelism


# ----------------------------------------
# The first screen.

_LEAST_SHARE = 5e-5
_MOST_JOBS = 20  # jobs whose numbers are added up in a formula that somebody may still want to follow
_FEW = 4  # replications below which an interval does not say how many digits a mean deserves
_SAME = 5e-4  # a difference of shares that rounds to nothing
_NEXT = 0.1  # the second largest loss is named where it is at least this part of the largest
_NORMAL = 1.96  # half the width of a 95 % interval of a normal distribution, in standard deviations


class _Run(NamedTuple):
    """A run: its numbers with their sources, its document, its ETTR, and what time was lost to, the most first."""

    places: SourceDocument
    document: RunDocument
    ettr: SourcedEstimate | None
    losses: list[tuple[str, SourcedNumber]]

    @classmethod
    def of(cls, document: RunDocument) -> _Run:
        """Return what is said of a document."""
        places = SourceDocument(RUN, document)
        shares = [(name, places.at("time_shares", name)) for name in document.time_shares if name != "productive"]
        losses = [(name, share) for name, share in shares if share is not None and share.value >= _LEAST_SHARE]
        losses.sort(key=lambda loss: -loss[1].value)
        return cls(places, document, places.estimate("metrics", "ettr"), losses)

    @property
    def has_one_main_loss(self) -> bool:
        """Whether the largest loss is more than all others together."""
        return self.losses[0][1].value > sum(share.value for _, share in self.losses[1:])

    @property
    def named(self) -> list[tuple[str, SourcedNumber]]:
        """The largest loss, and the second one where it is worth a word."""
        most = self.losses[0][1].value
        return [self.losses[0], *(loss for loss in self.losses[1:2] if loss[1].value >= _NEXT * most)]

    @property
    def main_loss(self) -> str:
        """The largest loss, as the start of a sentence."""
        where = bucket_words(self.losses[0][0])
        return f"Most of what is lost goes to {where}" if self.has_one_main_loss else f"The largest loss is {where}"

    @property
    def requested(self) -> SourcedNumber | None:
        """GPU-time that all jobs ask for [GPU s]; ``None`` where too many would have to be added up."""
        jobs = list(self.document.per_job)
        parts = (self.places.at("per_job", name, "requested_gpu_s") for name in jobs[:_MOST_JOBS])
        return total(part for part in parts if part is not None) if len(jobs) <= _MOST_JOBS else None

    def of_job(self, key: str) -> SourcedNumber | None:
        """Return a number of the only job; ``None`` where there are several."""
        jobs = list(self.document.per_job)
        return self.places.at("per_job", jobs[0], key) if len(jobs) == 1 else None

    def mean(self, estimate: SourcedEstimate, form: NumberFormat) -> Number:
        """Return a mean with the digits that its interval deserves, where that comes from enough replications."""
        return number(estimate.mean, form, None if self.document.replications < _FEW else estimate.interval)


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: how much of the time becomes training, or what streams or services come to."""
    # Of reports: a run in a terminal does not wait for what reads studies.
    from ettrick.analysis.page.chapters import fleet, services
    from ettrick.analysis.page.first_screen import chance, not_known, screen_of_run, stated, variability

    if not report_data.run.fleet.is_empty:
        return fleet.opening(report_data)
    if not report_data.run.per_job:
        return services.opening(report_data)
    run = _Run.of(report_data.run)
    document, places = run.document, run.places
    what, otherwise = (
        "the share of the time that becomes training",
        stated(report_data.scenario, priced=document.cost is not None),
    )
    doubt = (
        not_known(places, "metrics", "ettr", form=PERCENT, what=what, otherwise=otherwise),
        chance(places.at("replications"), run.ettr),
        variability(places, "metrics", "ettr", form=PERCENT),
        _off(run),
        _beyond(run),
    )
    drivers = (_finish(places), _largest(run), _interruptions(run), _formula(run), _costliest(run))
    return screen_of_run(
        document,
        report_data.scenario,
        _answer(run),
        doubt if run.ettr is not None else (),
        _glance(run) if run.ettr is not None and run.losses else None,
        drivers,
        about="how much of the time becomes training",
    )


def answer_of(document: RunDocument) -> str:
    """Return the answer of a run in a sentence or two: that of the first screen of its page."""
    if document.per_job and document.fleet.is_empty:
        return plain(_answer(_Run.of(document)))
    from ettrick.analysis.page.chapters import fleet, services

    return plain((services if document.fleet.is_empty else fleet).answer(SourceDocument(RUN, document), document))


def _answer(run: _Run) -> Words:
    ettr = run.ettr
    if ettr is None:
        return ("No job got to run, so no time was asked for that could become training.",)
    asks = "the job asks for" if len(run.document.per_job) == 1 else "the jobs ask for"
    share = (run.mean(ettr, OF_HUNDRED), *worded(ettr, OF_HUNDRED)[1:])
    start: Words = (f"Of every hundred GPU-hours that {asks}, ", *share, " become productive training")
    if not run.losses:
        return (*start, "; nothing is lost.")
    lost = ettr.changed(lambda share: 1 - share)
    goes = "mostly to" if run.has_one_main_loss else "first of all to"
    where = ", then to ".join(bucket_words(bucket) for bucket, _ in run.named)
    return (*start, "; the rest", *_in_gpu_time(run, lost), *_in_money(run, lost), f", goes {goes} {where}.")


def _off(run: _Run) -> Words:
    """Return the second interval of what goes with the time of a step, where that is modelled."""
    currency = "" if run.document.cost is None else run.document.cost.currency
    parts: list[Words] = []
    for name in modelled(run.document):
        estimate, band = run.places.estimate("metrics", name), run.places.ends("metrics", name, "band90")
        if estimate is not None and band is not None:
            form = people_form(name, [estimate.mean.value], currency)
            parts.append((f"{METRICS[name].label} ", *worded(estimate, form), " by sampling, ", *ranged(*band, form)))
    return (f"{OFF}, the second range holds with 90 %: ", *joined(parts, "; "), ".") if parts else ()


def _beyond(run: _Run) -> Words:
    """Return the other ETTR where failures were counted on smaller jobs, with the source of how they grow."""
    for place, row in enumerate(run.document.closed_form.extrapolated):
        at = "closed_form", "extrapolated", place
        usual, faster = run.places.at(*at, "ettr"), run.places.at(*at, "ettr_superlinear")
        if usual is not None and faster is not None:
            start = f"Failures were counted on at most {row.counted_on_gpus[-1]:,} GPUs. If beyond they grow "
            how = f"with the power {row.exponent:g} ({row.exponent_source}), the closed form gives "
            return (start, how, number(faster, PERCENT), " instead of ", number(usual, PERCENT), ".")
    return ()


def _in_gpu_time(run: _Run, lost: SourcedEstimate) -> Words:
    """Return what is lost, as GPU-time: a year of one job, or a whole run of several."""
    gpus, requested = run.of_job("gpus"), run.requested
    if gpus is not None:
        years = lost.changed(lambda share: share * gpus)
        return (", about ", run.mean(years, GPU_YEARS), " a year on ", number(gpus, COUNT), " GPUs")
    if requested is None:
        return ()
    amount = lost.changed(lambda share: share * requested)
    return (", about ", run.mean(amount, gpu_hours_form(amount.mean.value)), " of the run")


def _in_money(run: _Run, lost: SourcedEstimate) -> Words:
    """Return what the lost time costs at the price of all GPU-time that is owned; nothing without prices."""
    cost, *shares = (
        run.places.at(*keys)
        for keys in (("cost", "total"), ("time_shares", "productive"), ("cluster_shares", "productive"))
    )
    of_requested, of_owned = shares
    if cost is None or cost.value <= 0 or of_requested is None or of_owned is None or of_requested.value <= 0:
        return ()
    amount = lost.changed(lambda share: share * requested_share(of_requested, of_owned) * cost)
    form = money_form(cost.value, run.places.get("cost", "currency"))
    return (" or ", run.mean(amount, form), " of the ", number(cost, form), " that the cluster costs per run")


def _finish(places: SourceDocument) -> Words:
    done, in_time = places.estimate("metrics", "time_to_work"), places.estimate("metrics", "p_finish_by")
    parts: list[Words] = []
    if done is not None:
        parts.append(("the work is done after ", *worded(done, time_form(done.mean.value))))
    if in_time is not None:
        parts.append(("the probability to finish in time is ", *worded(in_time, PERCENT)))
    words = joined(parts, "; ")
    return (capital(str(words[0])), *words[1:], ".") if words else ()


def _largest(run: _Run) -> Words:
    if not run.losses:
        return ()
    (_, first), *smaller = run.named
    amount: Words = ()
    if run.requested is not None:
        lost = first * run.requested
        amount = (" of the time, ", number(lost, gpu_hours_form(lost.value)), " of a run")
    rest = [(f"; next comes {bucket_words(name)}: ", number(share, PERCENT)) for name, share in smaller]
    return (f"{run.main_loss}: ", number(first, PERCENT), *amount, *joined(rest), ".")


def _interruptions(run: _Run) -> Words:
    places, jobs = run.places, len(run.document.per_job)
    count, between = places.estimate("metrics", "interruptions"), places.estimate("metrics", "mtti")
    if count is None:
        return ()
    # From arrival to end; several jobs end at different times.
    requested, gpus = run.of_job("requested_gpu_s"), run.of_job("gpus")
    span: Words = (" in a run",)
    if requested is not None and gpus is not None and gpus.value:
        length = requested / gpus
        span = (" in a run of ", number(length, time_form(length.value)))
    if count.mean.value == 0:
        return ("Nothing interrupts training", *span, ".")
    every = () if between is None else (" every ", *_by_counts(run, between, time_form(between.mean.value)), ":")
    causes = list(run.document.interruptions_by_cause)
    most = places.at("interruptions_by_cause", causes[0], "mean") if len(causes) > 1 else None
    often: Words = () if most is None else (f"; the most frequent is {cause_words(causes[0])}, ", number(most, COUNT))
    who, of_all = ("training", "") if jobs == 1 else ("a job", ", all jobs together")
    times = _by_counts(run, SourcedEstimate(count.mean), COUNT)
    return (f"A failure interrupts {who}", *every, " ", *times, " times", *span, of_all, *often, ".")


def _by_counts(run: _Run, estimate: SourcedEstimate, form: NumberFormat) -> Words:
    """Return a mean of interruptions or of times between them, with an interval where there are enough replications.

    Elsewhere it has as many digits as the interruptions counted in all replications deserve: their variance is taken to
    be their mean, as for a Poisson process.
    """
    runs, mean = run.document.replications, estimate.mean
    if runs >= _FEW and estimate.low is not None and estimate.low.value > 0:
        return worded(estimate, form)
    half = _NORMAL * mean.value / math.sqrt(runs * (run.document.metrics["interruptions"].mean or math.inf))
    return (number(mean, form, (mean.value - half, mean.value + half)),)


def _formula(run: _Run) -> Words:
    formula, ettr = run.places.at("closed_form", "ettr"), run.ettr
    if formula is None or ettr is None:
        return ()
    start: Words = ("A closed-form estimate gives ", number(formula, PERCENT), " without simulating")
    away, outside = ettr.mean - formula, run.places.at("closed_form", "simulated", "outside_ci95")
    if abs(away.value) < _SAME or (outside is not None and outside.value == 0):
        return (*start, ": the two agree within the sampling error.")
    side = "above" if away.value > 0 else "below"
    why = "." if outside is None else ", which is more than chance: the closed form leaves something out."
    return (*start, "; the simulation is ", number(abs(away), POINTS), f" {side} it{why}")


def _costliest(run: _Run) -> Words:
    costs = []
    for cause, buckets in run.document.loss_gpu_s.items():
        parts = [run.places.at("loss_gpu_s", cause, name) for name, amount in buckets.items() if amount]
        lost = total(part for part in parts if part is not None)
        if lost is not None and cause != NO_FAILURE:
            costs.append((cause, lost))
    if not costs:
        return ()
    cause, most = max(costs, key=lambda entry: entry[1].value)
    amount = number(most, gpu_hours_form(most.value))
    return (f"Of all failures, {cause_words(cause)} costs most: ", amount, " of a run.")


def _glance(run: _Run) -> Figure:
    shares = ((bucket_words(name), share.value) for name, share in run.losses)
    return at_a_glance(run.main_loss, "% of the time", "the lost time", shares)


# ----------------------------------------
# What the terminal shows.

_MOST_WINDOWS = 12
_MOST_LINES = 25  # of one screen


def format_run(
    document: RunDocument, prepared: Prepared, *, width: int | None = None, full: bool = True, name: str = ""
) -> str:
    """Return the document of a run as text for standard output, `width` columns wide (those of the terminal).

    Unless it is `full`, it fits on one screen; `name` is that of its scenario, as it was typed.
    """
    answer, text = Section("answer", answer_of(document)), ""
    for most, room in ((3, 2), (3, 1), (2, 2), (2, 1)):
        screened = screen.sections(document, prepared, name or document.scenario, most, room)
        chapters = [answer, *screened, *in_full(_chapters(document, prepared))]
        text = terminal.write(chapters, width=width, otherwise=120, full=full)
        if full or text.count("\n") < _MOST_LINES:
            break
    return text


def _chapters(document: RunDocument, prepared: Prepared) -> Iterator[Section]:
    described = prepared.scenario.description
    setup = grid("", ("", ""), list(_setup(document, prepared)))
    yield Section("scenario", document.scenario, (described,) if described else (), (setup,))
    for table in _tables(document):
        if table is not None:
            yield Section("table", table.title, (), (table,))
    is_fleet = not document.fleet.is_empty
    for what, down in (("nodes", document.nodes_down), ("domains", document.domains_down)):
        if isinstance(down, NodesDown) and down.max and not is_fleet:
            table = down_at_once(down, what=what)
            texts = (f"{nodes_down_title(down, prepared)}.",) if what == "nodes" else ()
            yield Section(f"missing-{what}", table.title, texts, (table,), tuple(more_than(down, what)))
    formula = beside_simulation(document) if document.per_job and not is_fleet else None
    if formula is not None:
        yield formula
    yield from lists(("Assumptions of the scenario", document.assumptions), ("Notes", document.notes))


def _tables(document: RunDocument) -> Iterator[TableBlock | None]:
    """Yield the tables of each kind of owner: streams, services, named jobs."""
    is_fleet = not document.fleet.is_empty
    has_jobs = bool(document.per_job) and not is_fleet
    if is_fleet:
        from ettrick.analysis.page.chapters import fleet

        yield from fleet.terminal_tables(document)
    if document.per_service or document.per_target:
        from ettrick.analysis.page.chapters import services

        yield from services.terminal_tables(document) if document.per_service else ()
        yield goodput(document) if has_jobs else None
        yield services.targets_table(document)
    elif has_jobs:
        yield goodput(document)
    if has_jobs:
        yield jobs_table(document)
        yield None if document.time_shares["productive"] is None else where_of_jobs(document)
        yield _windows(document)
    if not is_fleet:
        yield _causes(document)


def _setup(document: RunDocument, prepared: Prepared) -> Iterator[tuple[str, str]]:
    """Yield what was simulated: the cluster, the jobs, what fails, and what is done about it."""
    yield from _cluster_rows(prepared)
    yield from _owner_rows(prepared)
    first = prepared.jobs[0] if prepared.jobs else None
    expected = ""
    if first is not None and first.mtti < math.inf:
        expected = f", one interruption in {time_text(first.mtti)} of running expected in the long run"
    causes = sum(not source.is_condition for source in prepared.sources)
    yield "failures", number_of(causes, "cause") + expected
    yield from _policy_rows(prepared)
    runs = f"{number_of(document.replications, 'replication')} of {time_text(prepared.horizon)}"
    yield "run", f"{runs}, seed {prepared.seed}, initial state {prepared.scenario.initial}"


def _cluster_rows(prepared: Prepared) -> Iterator[tuple[str, str]]:
    cluster = prepared.scenario.cluster
    kinds = ", ".join(dict.fromkeys(str(pool.accelerator) for pool in cluster.all_pools))
    whose = "" if cluster.states_nodes else ", those of jobs and spares"
    withheld = f", {prepared.withheld:,} of them withheld" if prepared.withheld else ""
    gpus = f"{prepared.counts['gpu']:,} GPUs ({kinds}) in {prepared.nodes:,} nodes"
    yield "cluster", f"{cluster.name}: {gpus}{whose}{withheld}"
    if not cluster.states_fabric:
        yield "fabric", f"default: {getattr(cluster.fabric, 'title', cluster.fabric.use)}"


def _owner_rows(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """Yield the jobs, streams and services."""
    for plan, spec in zip(prepared.jobs, prepared.scenario.jobs, strict=True):
        layout = "" if spec.parallelism is None else f", {layout_text(spec.parallelism)}"
        step = f", step {plan.step_time:.2f} s" if plan.step_time else ""
        if plan.plan is not None and not plan.is_measured:
            low, high = plan.plan.band90
            step += f" (modelled: {low:.2f} to {high:.2f})"
        mfu = f", MFU {percent_text(plan.mfu, 1)}" if plan.mfu is not None else ""
        yield "job", f"{plan.name}: {plan.gpus:,} GPUs{layout}{step}{mfu}"
    for stream in prepared.streams:
        rate = f", {short_text(stream.rate * DAY)} jobs a day" if stream.rate else ""
        if stream.last < math.inf:
            rate = f", {round(stream.rate * (prepared.warmup + prepared.horizon)):,} recorded jobs"
        yield "stream", f"{stream.name}: {_sizes(stream.gpus)}{rate}"
    for service, spec_of_service in zip(prepared.services, prepared.scenario.services, strict=True):
        demand = f"{service.rates.rate:,.4g} requests/s asked, {service.admitted:,.4g} admitted at most"
        answers = f"recovery {spec_of_service.recovery.use}, failover {spec_of_service.failover.use}"
        size = f"{service.replicas:,} replicas of {number_of(service.gpus, 'GPU')}"
        yield "service", f"{service.name}: {size}, {demand}; {answers}"


def _policy_rows(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """Yield repair, health checks, parts, power, and the policies of jobs."""
    scenario = prepared.scenario
    if repairs_text(prepared):
        yield "repair", repairs_text(prepared)
    if scenario.health is not None:
        yield "health", ", ".join(key for key, part in scenario.health if part is not None)
    if prepared.parts:
        yield "parts", ", ".join(f"{plan.stock.stock} of {name}" for name, plan in prepared.parts.items()) + " in stock"
    if not prepared.upkeep.is_steady and (prepared.streams or prepared.services):
        yield "power", "jobs of streams and services keep full clocks: caps, heat and ramps are for named jobs"
    stores = [_checkpoints(job) for job in prepared.jobs[:1]]
    recovery = [f"recovery {scenario.recovery.use}"] if prepared.jobs or prepared.streams else []
    has_stores = bool(stores) and len(stores_of(prepared.jobs[0])) > 1
    yield "policies", ("; " if has_stores else ", ").join([*stores, *recovery, number_of(prepared.spares, "hot spare")])


def layout_text(layout: Parallelism | LayoutSummary) -> str:
    """Return how a job is laid out: the sizes of its groups."""
    return f"tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"


def _sizes(gpus: Mapping[int, float]) -> str:
    low, high = min(gpus, default=0), max(gpus, default=0)
    return f"{low:,} to {high:,} GPUs" if low < high else number_of(low, "GPU")


def _checkpoints(job: PreparedJob) -> str:
    stores = stores_of(job)
    if len(stores) > 1:
        every = ("peer" if row.store == "peer" else f"{row.store} every {time_text(row.interval)}" for row in stores)
        return f"checkpoints: {', '.join(every)}"
    (tier,) = stores
    durable = f"durable {time_text(tier.drain)} later" if tier.drain else "then durable"
    return f"checkpoint every {time_text(tier.interval)} (stall {time_text(tier.stall)}, {durable})"


def _windows(document: RunDocument) -> TableBlock | None:
    step = -(-len(document.windows) // _MOST_WINDOWS)
    chosen = document.windows[:: step or 1]
    left_out = f" ({len(chosen)} of {len(document.windows)} windows)" if step > 1 else ""
    rows = [
        (f"{time_text(row.start_s)} to {time_text(row.end_s)}", text_or_dash(row.ettr, percent_text)) for row in chosen
    ]
    shades = [(None, row.ettr or 0.0) for row in chosen]
    return grid(f"ETTR over time{left_out}", ("window", "ETTR"), rows, shades=shades) if rows else None


def _causes(document: RunDocument) -> TableBlock | None:
    causes = {name: row for name, row in document.interruptions_by_cause.items() if row.mean}
    lost = {name: sum(document.loss_gpu_s[name].values()) / HOUR for name in causes}
    rows = [
        (name, count_text(row.mean), interval_text(row, count_text), f"{lost[name]:,.0f}")
        for name, row in causes.items()
    ]
    most = sum(max(amount, 0.0) for amount in lost.values()) or 1.0
    shades = [(None, None, None, max(amount, 0.0) / most) for amount in lost.values()]
    heads = ("", "mean", "95 % interval", "GPU-hours lost")
    return grid("Interruptions by cause", heads, rows, shades=shades) if rows else None
