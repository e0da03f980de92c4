"""The cluster with what one failure of each part takes down; the healthy step; a scenario explained; its layouts."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from ettrick.analysis.amounts import PERCENT, amount_text, listed, percent_text, range_text, text_or_dash, time_text
from ettrick.analysis.explain.cluster import blasts
from ettrick.analysis.explain.layouts import ROOMY
from ettrick.analysis.page.account import of_focus
from ettrick.analysis.page.chapters.formula import explained_formula
from ettrick.analysis.page.chapters.run import layout_text
from ettrick.analysis.page.chapters.services import service_sections
from ettrick.analysis.page.charts.data import Stack, StackPart
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Figure, Section, grid, labels, lists, table_of
from ettrick.analysis.results import explained
from ettrick.analysis.results.run import PARTS, unit_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ettrick.analysis.explain.cluster import BlastRadiusRow
    from ettrick.analysis.explain.layouts import Sort
    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReplayedScenario
    from ettrick.analysis.results.models import StepSummary
    from ettrick.sim import Topology

    Rows = list[tuple[str, str]]

_NAMES = {
    "gpu": "GPU",
    "nic": "network card",
    "pdu": "power distribution unit",
    "cooling": "cooling unit",
    "leaf": "leaf switch",
    "spine": "spine switch",
    "core": "core switch",
    "cable_node_leaf": "cable from a node to a leaf switch",
    "cable_leaf_spine": "cable from a leaf to a spine switch",
    "cable_spine_core": "cable from a spine to a core switch",
    "scale_up": "scale-up domain",
    "switch_tray": "switch tray of a scale-up domain",
}

_SWITCHES = {"leaf": "leaf switches", "spine": "spine switches", "core": "core switches"}


def _name(part: str) -> str:
    """Return what a part is called."""
    return _NAMES.get(part, part.replace("_", " "))


@of_focus
def section(focus: ReplayedScenario) -> Section:
    """Return the cluster with the blast radius of each class of its parts."""
    topology: Topology = focus.scenario.cluster.build()
    rows, gpus = sorted(blasts(topology), key=lambda row: row.most), topology.gpus_per_node
    causes = Counter(source.part for source in focus.prepared.sources)
    counts = [f"{topology.counts[part]:,} {name}" for part, name in _SWITCHES.items() if topology.counts.get(part)]
    size = f"{topology.nodes * gpus:,} GPUs in {_nodes(topology.nodes)}"
    alt = f"{topology.name}: {size}" + (f", joined by {listed(counts)}." if counts else ".")
    picture = Figure("the-cluster", topology, alt, "Hosts, switches and cables; of a large cluster its tiers.")
    text = (
        f"{topology.name} has {size}. When a part fails, all nodes that need it are gone at once: the table says how "
        "many. A part that takes no node with it, such as a spine switch, leaves less bandwidth to all others."
    )
    note = f"For {focus.name}."
    if any(source.blast is not None for source in focus.prepared.sources):
        note += " Causes that strike several nodes at once are counted where they strike, such as in a rack."
    table = [
        (_name(row.part), f"{row.units:,}", _span(row, 1), _span(row, gpus), f"{causes[row.part] or 'none'}")
        for row in rows
    ]
    heads = ("part", "how many", "nodes that one takes", "GPUs that one takes", "causes that strike it here")
    parts = grid("Blast radius of each part", heads, table, note="Each part on its own, while all others are healthy.")
    failing = [row for row in rows if causes[row.part]]
    title = f"{topology.name}: {size}"
    if failing:
        most = failing[-1].most
        title = f"Of the parts that fail here, a {_name(failing[-1].part)} takes most with it: {_nodes(most)} with "
        title += f"{most * gpus:,} GPUs"
        if most < 2:
            with_it = f"more than one node of {gpus:,} GPUs" if most else "a node"
            title = f"No part that fails here takes {with_it} with it"
    return Section("the-cluster", title, (text,), (picture, parts), (note,))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def _span(row: BlastRadiusRow, size: int) -> str:
    """Return from how many to how many one failure takes, in things of which a node has `size`."""
    least, most = f"{row.least * size:,}", f"{row.most * size:,}"
    return "none" if not row.most else most if least == most else f"{least} to {most}"


# ----------------------------------------
# The healthy step: what its time is made of, and how well it uses the GPUs.

_HUES = {"computing": 2, "communication": 1, "bubble": 4, "rest": -1}

_PARTS = {
    "computing": "computing",
    "communication": "communication not hidden",
    "bubble": "pipeline bubble",
    "rest": "rest",
}

_TERMS = {
    "gemm": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise",
    "launch": "kernel launches",
    "logits": "logits",
    "tensor": "tensor groups",
    "context": "context groups",
    "expert": "expert groups",
    "pipeline": "P2P send/receive",
    "data": "replicas",
    "offload": "host memory",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "overhead": "fixed",
}

_BASES = {
    "measured": "measured",
    "calibrated": "the step model, calibrated by a measured step that the scenario states",
    "fitted": "the step model, with efficiencies fitted to measured steps",
    "assumed": "the step model, with efficiencies assumed from another precision or single matrix products",
    "peak only": "the step model, from only the peak of the accelerator: no measured steps of it are published",
}


@of_focus
def step_section(focus: ReplayedScenario) -> Section | None:
    """Return the section; ``None`` where the time of a step is not known."""
    step, jobs = focus.document.step, focus.prepared.jobs
    if step.time_s is None:
        return None
    of_first = f" Only the first of {len(jobs)} jobs, {jobs[0].name}." if len(jobs) > 1 else ""
    note = f"For {focus.name}: a healthy step, without any losses.{of_first}"
    rows = step_rows(step)
    if step.basis in _BASES and step.stated != "mfu":
        rows.append(("basis", _BASES[str(step.basis)]))
    if step.mfu is not None:
        rows.append(("MFU", f"{PERCENT.value(step.mfu)} of the peak of the GPUs: {step.mfu_convention}"))
    facts = grid("Known values of the step", ("number", "value"), rows, (0, 1))
    stack = step_stack(step)
    if stack is None:
        title = f"A healthy step takes {time_text(step.time_s)}"
        text = "Its parts are not known: the scenario states no model, batch and parallelism."
        return Section("the-step", title, (text,), (facts,), (note,))
    shares = ", ".join(f"{_PARTS[part]} {PERCENT.value(share)}" for part, share in _shares(step).items() if share)
    caption = "Communication that computing hides takes no time of the step and is not in the bar."
    total = sum(step.breakdown.values())
    terms = [
        (_TERMS[term], _PARTS[part], f"{time:.4g}", PERCENT.value(time / total))
        for part, names in PARTS.items()
        for term in names
        if (time := step.breakdown.get(term, 0.0)) > 0
    ]
    terms.append(("the step", "", f"{total:.4g}", PERCENT.value(1.0)))
    table = grid("Parts of a healthy step", ("term", "part", "seconds", "share"), terms, (0, 1))
    alt = f"One bar of a step of {time_text(step.time_s)}: {shares}."
    return Section("the-step", stack.title, (), (Figure("the-step", stack, alt, caption, table), facts), (note,))


def step_stack(step: StepSummary) -> Stack | None:
    """Return what a step is made of, in milliseconds or seconds; ``None`` without a breakdown."""
    breakdown = step.breakdown
    if not breakdown or step.time_s is None:
        return None
    size, unit = (1.0, "s") if step.time_s >= 1 else (1e-3, "ms")
    parts = [
        StackPart(_TERMS[term], breakdown[term] / size, _HUES[part])
        for part, terms in PARTS.items()
        for term in sorted(terms, key=lambda term: -breakdown.get(term, 0.0))
        if breakdown.get(term, 0.0) > 0
    ]
    shares = _shares(step)
    overheads = [part for part in shares if part != "computing" and shares[part]]
    largest = max(overheads, key=lambda part: shares[part], default=None)
    title = f"{PERCENT.value(shares['computing'])} of a step of {time_text(step.time_s)} is computing"
    if largest is not None:
        title += f"; {_PARTS[largest]} takes {PERCENT.value(shares[largest])}"
    return Stack(title, unit, tuple(parts))


def _shares(step: StepSummary) -> dict[str, float]:
    total = sum(step.breakdown.values())
    return {part: sum(step.breakdown.get(term, 0.0) for term in terms) / total for part, terms in PARTS.items()}


def step_rows(step: StepSummary) -> Rows:
    """Return how long a step takes, and what says so: stated compared with modelled."""
    if step.time_s is None:
        return [("time", "not known")]
    time = _seconds(step.time_s)
    if step.stated is None:
        return [("time", f"{time} by the step model, {range_text(step.band90_s, _seconds)} with 90 %")]
    rows = [("time", f"{time}, {'from the MFU that' if step.stated == 'mfu' else 'as'} the scenario states")]
    if step.model_s is not None:
        modelled = f"{_seconds(step.model_s)} ({range_text(step.model_band90_s, _seconds)} with 90 %)"
        rows.append(("modelled", f"{modelled}; stated / modelled {step.scale:.3f}, by which all terms are scaled"))
        low, high = step.model_band90_s or (0.0, math.inf)
        if not low <= step.time_s <= high:
            rows.append(("", "what is stated is outside of that: perhaps another layout or execution"))
    return rows


def _seconds(value: float) -> str:
    return f"{value:,.3f} s"


# ----------------------------------------
# A scenario explained, for the terminal: each job with its step and its recovery, and the closed form.

_WIDTH = 100  # columns without a terminal [-]
_GROUPS = {"data": "data and context", "expert_data": "replicas of experts", "shard": "shards of parameters"}

_EXECUTION = {
    "sequence_parallel": "sequence parallelism",
    "fused_attention": "fused attention",
    "overlap_tensor": "overlap of tensor traffic",
    "overlap_data": "overlap of data traffic",
    "overlap_expert": "overlap of expert traffic",
}


def format_explanation(content: explained.ExplainDocument, *, width: int | None = None) -> str:
    """Return the explanation as text for standard output, `width` columns wide (that of the terminal)."""
    return terminal.write(_explained(content), width=width, otherwise=_WIDTH)


def _explained(content: explained.ExplainDocument) -> Iterator[Section]:
    yield Section("scenario", content.scenario, (content.description,) if content.description else ())
    for at, (name, job) in enumerate(content.jobs.items()):
        yield from _job(name, job, content.fit)
        before = list(content.jobs.items())[:at]
        twin = next((earlier for earlier, earlier_job in before if earlier_job.recovery == job.recovery), None)
        if twin is None:
            yield from _recovery(job.recovery, is_first=not before)
        else:
            yield labels("Recovery", ("as", twin))
    if content.fleet:
        yield from _fleet(content.fleet)
    for name, service in content.services.items():
        yield from service_sections(name, service)
    if content.jobs or content.fleet:
        yield from explained_formula(content.closed_form)
        reason = content.provenance.engine_reason
        engine = f"events: {reason}" if reason else "machine code, where many replications are wanted"
        yield labels("Simulation", ("engine", engine))
    yield from lists(("Assumptions of the scenario", content.assumptions))


def _fleet(fleet: explained.ExplainedFleet) -> Iterator[Section]:
    heads = ("Streams", "jobs a day", "GPUs", "GPU-hours of a job", "offered load", "start", "saves every")
    rows = []
    for name, stream in fleet.streams.items():
        sizes, spacing = [*map(int, stream.gpus)], dict.fromkeys(stream.save_interval_s)
        rows.append(
            (
                name,
                text_or_dash(stream.jobs_per_day, amount_text),
                f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}, mean {stream.mean_gpus:.3g}",
                text_or_dash(stream.mean_gpu_hours, amount_text),
                text_or_dash(stream.offered_load, percent_text),
                time_text(stream.restart_s),
                " to ".join(text_or_dash(interval, time_text) for interval in spacing),
            )
        )
    yield Section("streams", "", (), (grid("", heads, rows),))
    total = text_or_dash(fleet.offered_load, percent_text)
    beside = [("offered load", f"{total} of the GPUs without spares; saves, restarts and lost work come on top")]
    if fleet.saturation is not None:
        most = percent_text(fleet.saturation)
        beside.append(
            ("saturation", f"{most}: more the cluster cannot hold, as gangs wait for the last of those before")
        )
    yield labels("Load", *beside)


def _job(name: str, job: explained.ExplainedJob, fit: explained.Fit) -> Iterator[Section]:
    gpus = f"{job.gpus:,} GPUs in {_nodes(job.nodes)}"
    beside = _power(job)
    if not isinstance(job, explained.PlannedJob):
        lacking = f"the scenario does not state {job.lacks}" if job.lacks else "it cannot lay the job out like this"
        missing = ("breakdown", f"none by the step model: {lacking}")
        yield labels(name, ("GPUs", gpus), *step_rows(job.step), *_use(job), missing, *beside)
        return
    yield labels(name, *_made_of(job), ("layout", f"{gpus}: {_layout(job.layout)}"), *_how(job))
    if job.groups:
        yield Section("groups", "", (), (_groups(job),))
    yield _breakdown(job)
    yield labels("Step", *_on_step(job, fit), *_use(job), _checkpoint(job), *beside)
    yield Section("memory", "Memory of the fullest GPU", (), (_memory(job),))
    slower = [
        (_degraded(job, kind), _seconds(row.time_s), percent_text(row.pace)) for kind, row in job.degraded.items()
    ]
    stated = "Slow GPUs and NICs as the scenario's communication says, not the step model."
    note = stated if any(row.basis == "communication" for row in job.degraded.values()) else ""
    yield Section("degraded", "Cost of a degraded step", (), (grid("", ("", "time", "pace"), slower, note=note),))


def _groups(job: explained.PlannedJob) -> TableBlock:
    columns: tuple[Column[tuple[str, explained.GroupLink]], ...] = (
        Column("Groups", lambda row: _GROUPS.get(row[0], row[0])),
        Column("GPUs", lambda row: f"{row[1].ranks:,}"),
        Column("through", lambda row: "NICs" if row[1].through == "nic" else "scale-up links"),
        Column("bandwidth of a GPU", lambda row: unit_text(row[1].bytes_per_s, "B/s")),
        Column("NICs together", lambda row: "" if row[1].nics_together is None else f"{row[1].nics_together:,}"),
        Column("collectives reach", lambda row: unit_text(row[1].reached_bytes_per_s, "B/s")),
    )
    return table_of("", list(job.groups.items()), columns)


def _on_step(job: explained.PlannedJob, fit: explained.Fit) -> Rows:
    """Return the time of a step, how it was calibrated, and its band."""
    step, calibration, rows = job.step, job.calibration, [*step_rows(job.step)]
    if calibration is not None:
        text = f"{_seconds(calibration.measured_s)} measured, {_seconds(calibration.modelled_s)} modelled"
        rows.append(("calibration", f"{text}: all terms are scaled by {step.scale:.3f}"))
    if step.stated is None or step.model_s is not None:
        rows.append(("band", _band(job, fit)))
    return rows


def _memory(job: explained.PlannedJob) -> TableBlock:
    sizes, names = job.step.memory_bytes or {}, {"reserve": "reserve (assumed)"}
    names["total"] = f"total of {unit_text(sizes['capacity'], 'B')}"
    columns: tuple[Column[tuple[str, float]], ...] = (
        Column("", lambda row: names.get(row[0], row[0])),
        Column("size", lambda row: f"{sizes[row[0]] / 1e9:,.1f} GB"),
        Column(
            "of the GPU", lambda row: percent_text(row[1]),
            shade=lambda row: 0.0 if row[0] == "total" else min(row[1], 1.0),
        ),
    )  # fmt: skip
    return table_of("", list(job.memory_shares.items()), columns)


def _made_of(job: explained.PlannedJob) -> Rows:
    model, chip = job.model, job.accelerator
    active = f", of which a token meets {amount_text(model.active_parameters)}" if model.has_experts else ""
    memory = f"{unit_text(chip.memory_bytes, 'B')} at {unit_text(chip.memory_bytes_per_s, 'B/s')}"
    peak = f"{unit_text(chip.peak_flop_per_s, 'FLOP/s')} at {chip.precision}"
    rows = [
        ("model", f"{model.title}: {amount_text(model.parameters)} parameters{active} ({model.source})"),
        ("accelerator", f"{chip.title}: {peak}, {memory} ({chip.source})"),
    ]
    if len(job.pool_paces) > 1:
        paces = " : ".join(f"{pace:.3g}" for pace in job.pool_paces)
        rows.append(("pools", f"all numbers are those of the pool of hosts on which it starts; pace by pool {paces}"))
    return rows


def _layout(layout: explained.LayoutSummary) -> str:
    experts = f", experts over {layout.expert}" if layout.expert > 1 else ""
    chunks = f", {layout.virtual_pipeline} model chunks a stage" if layout.virtual_pipeline > 1 else ""
    return f"{layout_text(layout)}{experts}{chunks}"


def _how(job: explained.PlannedJob) -> Rows:
    layout, execution = job.layout, job.execution
    ranks = f" over {execution['shard_ranks']} ranks" if execution["shard_ranks"] else ""
    words = [
        execution["schedule"],
        f"recompute {execution['recompute']}",
        f"sharding {execution['sharding']}{ranks}",
        *(f"{'' if execution[name] else 'no '}{words}" for name, words in _EXECUTION.items()),
        *(f"{name}: {value}" for name, value in execution["options"].items()),
    ]
    batch = f"{layout.sequences:,} sequences of {layout.sequence:,} tokens, for each replica "
    batch += f"{layout.microbatches:,} {'microbatch' if layout.microbatches == 1 else 'microbatches'}"
    return [("batch", f"{batch} of {execution['microbatch']}"), ("execution", ", ".join(words))]


def _use(job: explained.ExplainedJob) -> Rows:
    rows: Rows = []
    if isinstance(job, explained.PlannedJob):
        causal, full = job.utilisation["causal"], job.utilisation["full"]
        hfu = f"the same: with recompute {job.execution['recompute']}, no matrix product is repeated"
        if causal.recomputed_flop_per_token:
            hfu = f"{percent_text(causal.hfu)} and {percent_text(full.hfu)}, with recomputation"
        mfu = f"{percent_text(causal.mfu)} with the causal half of attention, {percent_text(full.mfu)} with all of it"
        rows += [
            ("MFU", f"{mfu}; of the dense {job.accelerator.precision} peak, without recomputation"),
            ("HFU", hfu),
            ("work", f"{unit_text(causal.flop_per_token, 'FLOP')} a token (causal)"),
        ]
    elif job.step.mfu is not None:
        rows.append(("MFU", f"{percent_text(job.step.mfu)}: {job.step.mfu_convention}"))
    if job.tokens_per_s is not None and job.tokens_per_day is not None:
        rows.append(("tokens", f"{amount_text(job.tokens_per_s)} a second, {amount_text(job.tokens_per_day)} a day"))
    return rows


def _checkpoint(job: explained.PlannedJob) -> tuple[str, str]:
    saved = job.checkpoint
    size, part = unit_text(saved.bytes, "B"), unit_text(saved.bytes_per_gpu, "B")
    per_parameter = f"{saved.bytes_per_parameter:g} B a parameter, as MLPerf Storage counts"
    return "checkpoint", f"{size}, {part} of each GPU if all write as much ({per_parameter})"


def _power(job: explained.ExplainedJob) -> Rows:
    power = job.power
    if power is None:
        return [("power", "not known: the catalog does not say what a node draws, and the scenario has no power")]
    kind = "measured" if power.measured else "estimate"
    per_node = f"{unit_text(power.node_training_w, 'W')} a node, {unit_text(power.node_idle_w, 'W')} idle"
    token = f", {power.joules_per_token:.3g} J a token" if power.joules_per_token is not None else ""
    return [("power", f"{unit_text(power.job_w, 'W')} in all nodes{token}: {per_node} ({kind}: {power.source})")]


def _breakdown(job: explained.PlannedJob) -> Section:
    """Return where the time of a step goes; terms of nothing are left out."""
    rows: list[tuple[str, ...]] = []
    shades: list[tuple[float | None, ...]] = []

    def add(label: str, row: explained.TermShare, rests_on: str, *, has_bar: bool = True) -> None:
        rows.append((label, _seconds(row.time_s), percent_text(row.share), rests_on))
        shades.append((None, None, row.share if has_bar else 0.0, None))

    for part, row in job.parts.items():
        terms = {name: term for name, term in row.terms.items() if term.time_s > 0}
        if terms and part != "bubble":
            add(_PARTS[part], row, "", has_bar=False)
        for name, term in terms.items():
            add(_PARTS[part] if part == "bubble" else f"  {_TERMS[name]}", term, _SOURCES[name](job))
    rows.append(("total", _seconds(job.step.time_s or 0.0), percent_text(1.0), ""))
    shades.append((None, None, 0.0, None))
    scaled = f", each term x {job.step.scale:.3f}" if job.step.scale != 1 else ""
    table = grid("", ("", "time", "share", "basis"), rows, (0, 3), shades=shades)
    return Section("breakdown", f"Where the time of a step goes{scaled}", (), (table,))


# What the numbers of a step rest on.


def _band(job: explained.PlannedJob, fit: explained.Fit) -> str:
    chip, basis, step = job.accelerator, job.efficiencies["gemm"].basis, job.step
    of = f"{chip.generation} at {chip.precision}"
    text = f"{fit.steps} measured steps, "
    if job.calibration is not None:
        text += "each source of them with a factor of its own"
    elif basis == "fitted":
        seen, unseen = PERCENT.brief(fit.mean_error), PERCENT.brief(fit.unseen_source_error)
        text += f"{of} among them: mean error {seen}, of a source left out {unseen}"
    elif chip.announced:
        text += f"but none of {of} with the announced or stated numbers of this accelerator"
    elif basis == "assumed":
        text += f"but none of {of}: by steps at other precisions, or by single matrix products"
    else:
        text += f"but none of {of}: by a usual share of its peak, or of its best matrix product"
    if job.model.has_experts and job.calibration is None:
        text += "; models with experts scatter more"
    sigma = step.model_sigma if step.sigma is None else step.sigma
    return f"{text} (log-normal, sigma {PERCENT.brief(sigma or 0.0)})"


def _degraded(job: explained.PlannedJob, name: str) -> str:
    row = job.degraded[name]
    return {
        "slow_gpu": f"slowest GPU at {PERCENT.brief(row.compute)}",
        "narrow_nics": f"NICs of one node at {PERCENT.brief(row.network)}",
        "replica_missing_keep": f"{row.missing} replica missing, batch kept",
        "replica_missing_shrink": f"{row.missing} replica missing, batch smaller",
        "tensor_rank_missing": f"one replica with {row.tensor} of {job.layout.tensor} tensor ranks",
    }[name]


def _constant(job: explained.PlannedJob, name: str) -> float:
    return job.constants[name].value


def _peak(kind: str) -> Callable[[explained.PlannedJob], str]:
    """Return the text of the share of the peak that a kind of product reaches."""

    def source(job: explained.PlannedJob) -> str:
        efficiency, chip = job.efficiencies[kind], job.accelerator
        narrow = (
            kind == "attention" and job.execution["options"].get("attention") == "fp8" and chip.precision != "nvfp4"
        )
        peak = chip.peak_flop_per_s if kind == "gemm" or narrow else chip.peak_16bit_flop_per_s
        basis = "fitted" if efficiency.basis == "fitted" else "assumed"
        return f"{PERCENT.brief(efficiency.share)} of {unit_text(peak, 'FLOP/s')}, {basis}"

    return source


def _hidden(job: explained.PlannedJob, kind: str, hidden: float) -> str:
    part = f"{PERCENT.brief(hidden)} hidden" if hidden else "nothing hidden"
    return f"{unit_text(job.groups[kind].reached_bytes_per_s, 'B/s')}, {part}"


def _inside(job: explained.PlannedJob) -> bool:
    return "tensor" in job.groups and job.groups["tensor"].through == "scale_up"


def _memory_bound(job: explained.PlannedJob) -> str:
    passes, rate = job.constants["touches"], unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    copies = f" ({_constant(job, 'expert_touches'):.3g} of experts' copies)" if job.model.has_experts else ""
    return f"{passes.value:.3g} memory passes{copies} at {rate}, {passes.basis}"


def _launches(job: explained.PlannedJob) -> str:
    if job.execution["options"].get("cuda_graphs") == "partial":
        return f"half of {1e3 * _constant(job, 'expert_launch'):.3g} ms a layer with experts and pass"
    experts = f" (experts + {1e3 * _constant(job, 'expert_launch'):.3g})" if job.model.has_experts else ""
    return f"{1e3 * _constant(job, 'launch'):.3g} ms a layer and pass{experts}"


def _replicas(job: explained.PlannedJob) -> str:
    kind = "data" if "data" in job.groups else "expert_data"
    floor = "shard_floor" if job.execution["sharding"] == "parameters" else "data_floor"
    if floor == "data_floor" and not job.execution["overlap_data"]:
        return _hidden(job, kind, 0.0)
    rate = unit_text(job.groups[kind].reached_bytes_per_s, "B/s")
    return f"{rate}, at least {PERCENT.brief(_constant(job, floor))} not hidden"


def _bubble(job: explained.PlannedJob) -> str:
    layout = job.layout
    chunks = f" of {layout.virtual_pipeline} model chunks" if layout.virtual_pipeline > 1 else ""
    return f"{layout.pipeline} stages{chunks}, {layout.microbatches:,} microbatches, {job.execution['schedule']}"


def _update(job: explained.PlannedJob) -> str:
    rate = unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    return f"{_constant(job, 'optimizer'):g} B a parameter, {PERCENT.brief(_constant(job, 'memory'))} of {rate}"


# By term of the breakdown: what it rests on.
_SOURCES: dict[str, Callable[[explained.PlannedJob], str]] = {
    "gemm": _peak("gemm"),
    "attention": _peak("attention"),
    "logits": _peak("logits"),
    "elementwise": _memory_bound,
    "launch": _launches,
    "tensor": lambda job: _hidden(
        job, "tensor", _constant(job, "tensor_hidden") if job.execution["overlap_tensor"] and _inside(job) else 0.0
    ),
    "context": lambda job: _hidden(job, "context", _constant(job, "context_hidden")),
    "expert": lambda job: _hidden(
        job, "expert", 1.0 if job.execution["overlap_expert"] else _constant(job, "expert_hidden")
    ),
    "pipeline": lambda job: _hidden(
        job, "pipeline", _constant(job, "handover_hidden") if job.layout.virtual_pipeline > 1 else 0.0
    ),
    "data": _replicas,
    "offload": lambda job: f"{unit_text(job.accelerator.host_bytes_per_s, 'B/s')} to the host's memory",
    "bubble": _bubble,
    "optimizer": _update,
    "overhead": lambda job: f"{1e3 * _constant(job, 'overhead'):.3g} ms a step",
}


# ----------------------------------------
# The recovery of a job; every number of it is in the data.

_LEAST = 0.005  # share of a class below which an observer is not named [-]
_OBSERVERS = {"stated": "as stated", "human": "operator"}


def _recovery(recovery: explained.Recovery, *, is_first: bool) -> Iterator[Section]:
    preset = recovery.preset
    yield labels("Recovery", *_on_strategy(recovery))
    for table in (_classes(recovery), _stores(recovery.stores)):
        if table.rows:
            yield Section("table", "", (), (table,))
    if recovery.rungs:
        yield Section("rungs", "", (), (_rungs(recovery.rungs), grid("", ("", ""), _at_the_end(recovery))))
    else:
        phases = [
            (name, _time(phase.mean_s), ", ".join(map(_part, phase.parts)) if len(phase.parts) > 1 else "")
            for name, phase in recovery.phases.items()
            if any(part.mean_s for part in phase.parts)
        ]
        if phases:
            yield Section("phases", "", (), (grid("", ("Phases", "mean", "made of"), phases, (0, 2)),))
    if preset is not None and is_first:
        letters = "P: read in a source, S: quoted by others, D: derived, A: assumed"
        notes = [(note.basis, " ".join(note.text.split())) for note in preset.notes]
        title = f"Sources of the numbers of {preset.name}"
        yield Section("preset", title, (letters,), (grid("", ("", ""), notes),))


def _on_strategy(recovery: explained.Recovery) -> Rows:
    preset, rows = recovery.preset, [("strategy", f"{recovery.strategy}: {recovery.summary}")]
    if preset is not None:
        rows.append(("preset", f"{preset.name}: {preset.title} ({preset.source})"))
    scales = [f"all times of {part} x {factor:g}" for part, factor in recovery.scales if factor != 1]
    settings = [_setting(name, value) for name, value in recovery.settings.items()]
    rows += [(label, ", ".join(texts)) for label, texts in (("factors", scales), ("settings", settings)) if texts]
    return [*rows, ("times", "means at the size of the job, of faults that take one of its nodes at most")]


def _setting(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, dict):
        return f"{name} ({', '.join(_setting(key, item) for key, item in value.items())})"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _classes(recovery: explained.Recovery) -> TableBlock:
    rows = []
    for row in recovery.classes:
        often = sorted(row.first.items(), key=lambda item: -round(item[1], 6))
        named = [f"{_OBSERVERS.get(name, name)} {PERCENT.brief(share)}" for name, share in often if share >= _LEAST]
        name = row.fault if row.stops else f"{row.fault}, steps on"
        rows.append((name, f"{row.per_day:.3g}", _time(row.known_after_s), ", ".join(named) or "undetected"))
    if rows:
        rows.append(("all", f"{recovery.interruptions_per_day:.3g}", "", ""))
    return grid("", ("Faults", "a day", "detection latency", "first detector"), rows, (0, 3))


def _stores(stores: Sequence[explained.StoreSummary]) -> TableBlock:
    columns: tuple[Column[explained.StoreSummary], ...] = (
        Column("Checkpoints", lambda row: row.store),
        Column("every", lambda row: "" if row.interval_s is None else _time(row.interval_s)),
        Column(
            "steps", lambda row: "" if row.steps is None else f"{row.steps:,}",
            any(row.steps is not None for row in stores),
        ),
        Column("stall", lambda row: "" if row.interval_s is None else _time(row.stall_s)),
        Column("durable after", lambda row: "" if row.interval_s is None else _time(row.durable_after_s)),
        Column("read in", _read_in),
        Column("lost with", _lost_with, is_number=False),
        Column("kept", _retained),
        Column("unreadable", lambda row: PERCENT.brief(row.unreadable), any(row.unreadable for row in stores)),
    )  # fmt: skip
    return table_of("", stores, columns)


def _read_in(row: explained.StoreSummary) -> str:
    read, fetched = _time(row.read_in_s), _time(row.fetched_in_s)
    return read if read == fetched else f"{read}, own lost {fetched}"


def _retained(row: explained.StoreSummary) -> str:
    if row.interval_s is None:
        return "last step"
    return "all" if row.retain is None else f"{row.retain}"


def _lost_with(row: explained.StoreSummary) -> str:
    words = {
        "peer": "last whole replica",
        "host": "reboot or swap",
        "peer-host": f"all {row.clique} of a clique",
        "disk": "swap",
        "remote": "nothing",
    }[row.store]
    return f"{words} in every replica" if row.every_replica else words


def _rungs(rungs: Sequence[explained.RungSummary]) -> TableBlock:
    rows = []
    for rung in rungs:
        skips = ", ".join([*rung.not_for, *(["rank 0"] if rung.except_first else [])])
        wait = rung.patience_s
        waits = "" if wait is None else "; if available" if wait == 0 else f"; for {_time(wait)}"
        pools = "the queue" if rung.keeps == "nothing" else ", ".join(rung.pools) + waits
        attempts = "" if rung.budget is None else f"{rung.budget}"
        rows.append((rung.name, rung.keeps, attempts, pools, skips, *(_time(p.mean_s) for p in rung.phases.values())))
    heads = ("Rungs", "keeps", "attempts", "replacements", "not for", "stop", "delay", "launch")
    return grid("", heads, rows, (0, 1, 3, 4))


def _at_the_end(recovery: explained.Recovery) -> Rows:
    only = [
        (rung.name, f"and {_part(part)}")
        for rung in recovery.rungs
        for phase in rung.phases.values()
        for part in phase.parts
        if part.faults is not None
    ]
    return [*only, ("at the end", _escalation(recovery.human))]


def _escalation(operator: explained.OperatorEscalation | None) -> str:
    if operator is None:
        return "no operator escalation: some rung may always be attempted"
    vain = operator.no_progress
    when = "no rung is left" + (f", or when {vain} restarts in a row bring no new work" if vain is not None else "")
    if _time(operator.after_s) == "never":
        return f"the job has failed for good when {when}"
    return f"operator escalation when {when}; the job starts again {_time(operator.after_s)} later"


def _part(part: explained.PhasePart) -> str:
    only = "" if part.faults is None else f" (only after {', '.join(part.faults)})"
    return f"{part.name} {_time(part.mean_s)}{only}"


def _time(seconds: float | None) -> str:
    """Return a time; what is not finite has no number in JSON."""
    return "never" if seconds is None else time_text(round(seconds, 6))


# ----------------------------------------
# What `ettrick layouts` says of a job.


def format_layouts(content: explained.LayoutsDocument) -> str:
    """Return ranked layouts as text for standard output."""
    rows = [*content.layouts]
    if content.own is not None and not any(row.is_own for row in rows):
        rows.append(content.own)
    rows.sort(key=lambda row: row.memory_share > ROOMY)
    kinds = "tensor x context x pipeline x data" + (" (expert)" if any(row.expert > 1 for row in rows) else "")
    text = f"{content.gpus:,} GPUs ({content.accelerator}): {content.found:,} layouts that fit; {kinds}"
    marks = {
        f"+ may not fit: more than {percent_text(ROOMY, 0)} of the memory by our count": rows[-1].memory_share > ROOMY,
        "* the scenario's own layout": content.own is not None,
    }
    note = "; ".join(mark for mark, is_shown in marks.items() if is_shown)
    notes: list[str] = []
    for head, lines in (
        ("note", content.notes),
        ("ETTR: the closed form does not apply", content.reasons),
        ("assumes", content.assumptions),
    ):
        notes += [f"{head}: {line}" for line in lines]
    title = f"{content.scenario}, job {content.job}"
    section = Section("layouts", title, (text,), (_layouts_table(rows, content.sort, note),), tuple(notes))
    return terminal.write([section], otherwise=120)


def _layouts_table(rows: Sequence[explained.LayoutRow], sort: Sort, note: str) -> TableBlock:
    """Return the rows of layouts with their ranks, step, memory and goodput."""

    def differs(name: str) -> bool:
        return len({getattr(row, name) for row in rows}) > 1

    def size(row: explained.LayoutRow) -> str:
        experts = f" ({row.expert})" if row.expert > 1 else ""
        return f"{row.tensor} x {row.context} x {row.pipeline} x {row.data}{experts}"

    mark = f"{terminal.KEPT}*"
    columns: tuple[Column[explained.LayoutRow], ...] = (
        Column("rank", lambda row: f"{row.rank_step if sort == 'step' else row.rank_goodput:,}{mark * row.is_own}"),
        Column("by\nstep", lambda row: f"{row.rank_step:,}", sort == "goodput"),
        Column("by\ngoodput", lambda row: text_or_dash(row.rank_goodput, "{:,}".format), sort == "step"),
        Column("layout", size),
        Column("virtual", lambda row: str(row.virtual_pipeline)),
        Column("micro\nbatch", lambda row: str(row.microbatch)),
        Column("schedule", lambda row: row.schedule, differs("schedule")),
        Column("sharding", lambda row: row.sharding, differs("sharding")),
        Column("recompute", lambda row: row.recompute),
        Column("step", lambda row: f"{row.step_s:,.4g} s"),
        Column("MFU", lambda row: percent_text(row.mfu, 1)),
        Column("memory", lambda row: f"{row.memory_bytes / 1e9:,.0f} GB{' +' * (row.memory_share > ROOMY)}"),
        Column("bubble", lambda row: percent_text(row.bubble_share, 1)),
        Column("ETTR", lambda row: text_or_dash(row.ettr, percent_text)),
        Column("tokens\na day", lambda row: text_or_dash(row.tokens_per_day, amount_text)),
    )
    return table_of("", rows, columns, note=note)
