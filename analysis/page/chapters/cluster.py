"""The cluster, and what goes with each of its parts."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.amounts import (
    PERCENT,
    amount_text,
    bar_text,
    empty_table,
    label_grid,
    listed,
    percent_text,
    range_text,
    time_text,
)
from analysis.page.chapters.run import print_explained
from analysis.page.charts.data import Part, Stack
from analysis.page.model import Column, Grid, Picture, Section
from analysis.results.explained import PlannedJob
from analysis.results.step import PARTS, unit_text
from analysis.terminal import Page, console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from analysis.page.report_data import Focus, ReportData
    from analysis.results.explained import (
        Degraded,
        ExplainDocument,
        ExplainedJob,
        Fit,
        Human,
        LayoutFound,
        Phase,
        PhasePart,
        Recovery,
        Rung,
        Store,
        TermShare,
    )
    from analysis.results.models import Step
    from sim import Topology

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


class Blast(NamedTuple):
    """What one failure of a part takes, alone: the class of part, how many there are, fewest and most nodes."""

    part: str
    units: int
    least: int
    most: int

    @property
    def name(self) -> str:
        """What the part is called."""
        return _NAMES.get(self.part, self.part.replace("_", " "))


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None:
        return None
    cluster = focus.scenario.cluster
    topology: Topology = cluster.build()
    rows = blasts(topology)
    causes = Counter(source.part for source in focus.prepared.sources)
    gpus = topology.gpus_per_node
    counts = [f"{topology.counts[part]:,} {name}" for part, name in _SWITCHES.items() if topology.counts.get(part)]
    size = f"{topology.nodes * gpus:,} GPUs in {_nodes(topology.nodes)}"
    alt = f"{topology.name}: {size}" + (f", joined by {listed(counts)}." if counts else ".")
    picture = Picture("the-cluster", topology, alt, "Hosts, switches and cables; of a large cluster its tiers.")
    text = (
        f"{topology.name} has {size}. When a part fails, all nodes that need it are gone at once: the table says how "
        "many. A part that takes no node with it, such as a spine switch, leaves less bandwidth to all others.",
    )
    notes = [f"Of {focus.name}."]
    if any(source.blast is not None for source in focus.prepared.sources):
        notes.append("Causes that strike several nodes at once are counted where they strike, such as in a rack.")
    title = _title(rows, causes, topology)
    return Section("the-cluster", title, text, (picture, _table(rows, causes, gpus)), tuple(notes))


def _nodes(count: int) -> str:
    """Return a number of nodes in words."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def blasts(topology: Topology) -> list[Blast]:
    """Return what one failure of each class of parts takes, those that take most last."""
    found = []
    for part, units in topology.counts.items():
        if units:
            sizes = np.diff(topology.members(part).offsets)
            found.append(Blast(part, units, int(sizes.min()), int(sizes.max())))
    return sorted(found, key=lambda row: row.most)


def _title(rows: Sequence[Blast], causes: Counter[str], topology: Topology) -> str:
    """Return which of the parts that fail takes most with it."""
    failing = [row for row in rows if causes[row.part]]
    if not failing:
        return f"{topology.name}: {topology.nodes * topology.gpus_per_node:,} GPUs in {_nodes(topology.nodes)}"
    worst = failing[-1]
    gpus = f"{worst.most * topology.gpus_per_node:,} GPUs"
    if worst.most == 0:
        return "No part that fails here takes a node with it"
    if worst.most == 1:
        return f"No part that fails here takes more than one node of {gpus} with it"
    return f"Of the parts that fail here, a {worst.name} takes most with it: {worst.most:,} nodes with {gpus}"


def _table(rows: Sequence[Blast], causes: Counter[str], gpus: int) -> Grid:
    """Return for each class of parts what one failure takes."""

    def span(row: Blast, size: int) -> str:
        if not row.most:
            return "none"
        least, most = f"{row.least * size:,}", f"{row.most * size:,}"
        return most if least == most else f"{least} to {most}"

    table = [
        (
            row.name,
            f"{row.units:,}",
            span(row, 1),
            span(row, gpus),
            f"{causes[row.part]}" if causes[row.part] else "none",
        )
        for row in rows
    ]
    heads = ("how many", "nodes that one takes", "GPUs that one takes", "causes that strike it here")
    note = "Each alone, while all else is healthy."
    columns = (Column("part", is_number=False), *map(Column, heads))
    return Grid("What goes with each part of the cluster", columns, table, note=note)


# ----------------------------------------
# The healthy step: what its time is made of, and how well it uses the GPUs.

_HUES = {"computing": 2, "communication": 1, "bubble": 4, "rest": -1}

_PART_NAMES = {
    "computing": "computing",
    "communication": "waiting for communication",
    "bubble": "idle stages of the pipeline",
    "rest": "everything else",
}

_TERMS = {
    "gemm": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise operations",
    "launch": "launches of kernels",
    "logits": "logits of the vocabulary",
    "tensor": "tensor groups",
    "context": "context groups",
    "expert": "expert groups",
    "pipeline": "hand-over between stages",
    "data": "exchange between replicas",
    "bubble": "idle stages of the pipeline",
    "optimizer": "optimizer",
    "overhead": "fixed overhead",
}

_BASES = {
    "measured": "The scenario states the time, and it counts as measured.",
    "calibrated": "The time is that of the model of steps, calibrated by a measured step that the scenario states.",
    "fitted": "The time is that of the model of steps, with efficiencies fitted to measured steps.",
    "assumed": "The time is that of the model of steps, with efficiencies assumed from another precision or from "
    "single matrix products.",
    "peak only": "The time is that of the model of steps, from the peak of the accelerator alone: nobody has published "
    "measured steps of it.",
}


def step_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = report_data.focus
    if focus is None or focus.document.step.time_s is None:
        return None
    step = focus.document.step
    time = time_text(step.time_s or 0.0)
    stack = step_stack(step)
    notes = _notes(focus)
    if stack is None:
        title = f"A healthy step takes {time}"
        text = "What it is made of is not known: the scenario states no model, batch and parallelism to tell it."
        return Section("the-step", title, (f"{_told(step)} {text}",), (), notes)
    shares = _shares(step.breakdown)
    alt = f"One bar of a step of {time}: " + ", ".join(
        f"{_PART_NAMES[part]} {PERCENT.value(share)}" for part, share in shares.items() if share
    )
    caption = "Communication that computing hides takes no time of the step and is not in the bar."
    picture = Picture("the-step", stack, f"{alt}.", caption, _table_of_step(step))
    return Section("the-step", stack.title, (_told(step),), (picture,), notes)


def step_stack(step: Step) -> Stack | None:
    """Return what a step is made of, in milliseconds or seconds; ``None`` without a breakdown.

    Parameters
    ----------
    step
        The entry ``step`` of the document of a run.
    """
    breakdown = step.breakdown
    if not breakdown or step.time_s is None:
        return None
    size, unit = (1.0, "s") if step.time_s >= 1 else (1e-3, "ms")
    parts = [
        Part(_TERMS[term], breakdown[term] / size, _HUES[part])
        for part, terms in PARTS.items()
        for term in sorted(terms, key=lambda term: -breakdown[term])
        if breakdown[term] > 0
    ]
    shares = _shares(breakdown)
    others = [part for part in shares if part != "computing" and shares[part]]
    largest = max(others, key=lambda part: shares[part], default=None)
    title = f"{PERCENT.value(shares['computing'])} of a step of {time_text(step.time_s)} is computing"
    if largest is not None:
        title += f"; {_PART_NAMES[largest]} takes {PERCENT.value(shares[largest])}"
    return Stack(title, unit, tuple(parts))


def _shares(breakdown: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part of a step [-]."""
    total = sum(breakdown.values())
    return {part: sum(breakdown[term] for term in terms) / total for part, terms in PARTS.items()}


def _told(step: Step) -> str:
    """Return what the time of a step rests on, how sure it is, and how well it uses the peak."""
    if step.stated == "mfu":
        parts = ["The time follows from the use of the peak that the scenario states."]
    elif step.basis in _BASES:
        parts = [_BASES[step.basis]]
    else:
        parts = ["The scenario states the time."]
    if step.band90_s is not None:
        low, high = step.band90_s
        parts.append(f"With 90 % confidence it is between {time_text(low)} and {time_text(high)}.")
    if step.model_s is not None and step.stated is not None and step.model_band90_s is not None:
        low, high = step.model_band90_s
        parts.append(
            f"The model of steps alone would say {time_text(step.model_s)} ({time_text(low)} to {time_text(high)} "
            "with 90 % confidence); the parts are scaled to the time that is stated."
        )
    if step.mfu is not None:
        parts.append(
            f"It uses {PERCENT.value(step.mfu)} of the peak of the GPUs (model FLOP utilisation, MFU: "
            f"{step.mfu_convention})."
        )
    return " ".join(parts)


def _table_of_step(step: Step) -> Grid:
    """Return the terms of a step in seconds and in percent."""
    breakdown, total = step.breakdown, sum(step.breakdown.values())
    rows = [
        (_TERMS[term], _PART_NAMES[part], f"{breakdown[term]:.4g}", PERCENT.value(breakdown[term] / total))
        for part, terms in PARTS.items()
        for term in terms
        if breakdown[term] > 0
    ]
    rows.append(("the step", "", f"{total:.4g}", PERCENT.value(1.0)))
    columns = (Column("term", is_number=False), Column("part", is_number=False), Column("seconds"), Column("share"))
    return Grid("What a healthy step is made of", columns, rows)


def _notes(focus: Focus) -> tuple[str, ...]:
    jobs = focus.prepared.jobs
    found = [f"Of {focus.name}; a healthy step, without anything that is lost."]
    if len(jobs) > 1:
        found.append(f"Of the first job, {jobs[0].name}, of {len(jobs)}.")
    return tuple(found)


# ----------------------------------------
# How a job comes back, as text for the terminal; every number in it is in the data.

_LEAST = 0.005

"""Share of a class below which an observer is not named [-]."""

_WHO = {"stated": "as stated", "human": "a human"}

_BASES_EXPLAIN_RECOVERY_TEXT = "P: read in a source, S: quoted by others, D: derived, A: assumed"


def print_recovery(out: Console, jobs: Mapping[str, ExplainedJob], name: str) -> None:
    """Print how a job comes back; what an earlier one has in common with it is not said again."""
    recovery = jobs[name].recovery
    before = list(jobs)[: list(jobs).index(name)]
    out.print("\nHow it comes back", style="bold")
    twin = next((other for other in before if jobs[other].recovery == recovery), None)
    if twin is not None:
        out.print(label_grid([("as", twin)]))
        return
    out.print(label_grid(_strategy(recovery)))
    _print_classes(out, recovery)
    _print_stores(out, recovery.stores)
    if recovery.rungs:
        _print_rungs(out, recovery)
    else:
        _print_phases(out, recovery.phases)
    preset = recovery.preset
    if preset is not None and not before:
        out.print(f"\nWhat the numbers of {preset.name} rest on", style="bold")
        out.print(f"  {_BASES_EXPLAIN_RECOVERY_TEXT}")
        out.print(label_grid([(note.basis, " ".join(note.text.split())) for note in preset.notes]))


def _strategy(recovery: Recovery) -> list[tuple[str, str]]:
    """Return what the strategy is, where its numbers are from, and what the scenario changes in all of them."""
    rows = [("strategy", f"{recovery.strategy}: {recovery.summary}")]
    preset = recovery.preset
    if preset is not None:
        rows.append(("preset", f"{preset.name}: {preset.title} ({preset.source})"))
    scales = [f"all times of {part} x {factor:g}" for part, factor in recovery.scales if factor != 1]
    if scales:
        rows.append(("factors", ", ".join(scales)))
    settings = [_setting(name, value) for name, value in recovery.settings.items()]
    if settings:
        rows.append(("settings", ", ".join(settings)))
    return [*rows, ("times", "means at the size of the job, of faults that take one of its nodes at most")]


def _setting(name: str, value: Any) -> str:
    """Return what the scenario states of a strategy."""
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if isinstance(value, dict):
        return f"{name} ({', '.join(_setting(key, item) for key, item in value.items())})"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _print_classes(out: Console, recovery: Recovery) -> None:
    """Print which classes of faults there are, and who knows of them first."""
    if not recovery.classes:
        return
    table = _worded("Faults", "a day", "known after", "first to know", words=("first to know",))
    for row in recovery.classes:
        name = row.fault if row.stops else f"{row.fault}, steps on"
        table.add_row(name, f"{row.per_day:.3g}", _time(row.known_after_s), _first(row.first))
    table.add_row("all", f"{recovery.interruptions_per_day:.3g}", "", "")
    out.print()
    out.print(table)


def _first(shares: dict[str, float]) -> str:
    """Return who knows of faults first, the most frequent one first."""
    if not shares:
        return "nobody"
    often = sorted(shares.items(), key=lambda item: -round(item[1], 6))
    named = [(_WHO.get(name, name), share) for name, share in often if share >= _LEAST]
    return ", ".join(f"{name} {PERCENT.brief(share)}" for name, share in named)


def _print_stores(out: Console, stores: Sequence[Store]) -> None:
    """Print where copies are kept."""
    in_steps = any(row.steps is not None for row in stores)
    corrupt = any(row.unreadable for row in stores)
    table = _worded(
        *("Copies", "every"),
        *(["steps"] if in_steps else []),
        *("stall", "durable after", "read in", "lost with", "kept"),
        *(["unreadable"] if corrupt else []),
        words=("lost with",),
    )
    for row in stores:
        live = row.interval_s is None
        read = [_time(row.read_in_s), _time(row.fetched_in_s)]
        kept = "last step" if live else "all" if row.retain is None else f"{row.retain}"
        table.add_row(
            row.store,
            "" if live else _time(row.interval_s),
            *([f"{row.steps:,}" if row.steps is not None else ""] if in_steps else []),
            *(("", "") if live else (_time(row.stall_s), _time(row.durable_after_s))),
            read[0] if read[0] == read[1] else f"{read[0]}, own lost {read[1]}",
            _lost_with(row),
            kept,
            *([PERCENT.brief(row.unreadable)] if corrupt else []),
        )
    out.print()
    out.print(table)


def _lost_with(row: Store) -> str:
    """Return what takes a shard of a copy."""
    words = {
        "peer": "last whole replica",
        "host": "reboot or swap",
        "peer-host": f"all {row.clique} of a clique",
        "disk": "swap",
        "remote": "nothing",
    }[row.store]
    return f"{words} in every replica" if row.every_replica else words


def _print_rungs(out: Console, recovery: Recovery) -> None:
    """Print the rungs of a ladder, with their mean times at the size of the job."""
    words = ("keeps", "replacements", "not for")
    table = _worded("Ways back", "keeps", "tries", "replacements", "not for", "stop", "delay", "launch", words=words)
    for rung in recovery.rungs:
        skips = [*rung.not_for, *(["rank 0"] if rung.except_first else [])]
        tries = "" if rung.budget is None else f"{rung.budget}"
        times = [_time(stage.mean_s) for stage in rung.phases.values()]
        table.add_row(rung.name, rung.keeps, tries, _replacements(rung), ", ".join(skips), *times)
    out.print()
    out.print(table)
    more = [(rung.name, f"and {part}") for rung in recovery.rungs for part in _only_after(rung.phases)]
    out.print(label_grid([*more, ("at the end", _human(recovery.human))]))


def _replacements(rung: Rung) -> str:
    """Return where the replacements of a rung come from, and how long it waits for them."""
    if rung.keeps == "nothing":
        return "the queue"
    wait = rung.patience_s
    waits = "" if wait is None else "; if at hand" if wait == 0 else f"; for {_time(wait)}"
    return ", ".join(rung.pools) + waits


def _human(human: Human | None) -> str:
    """Return what happens when no rung is left."""
    if human is None:
        return "nobody is called: some way may always be tried"
    vain = human.no_progress
    when = "no way is left" + (f", or when {vain} restarts in a row bring no new work" if vain is not None else "")
    if _time(human.after_s) == "never":
        return f"the job has failed for good when {when}"
    return f"a human is called when {when}; the job starts again {_time(human.after_s)} later"


def _print_phases(out: Console, stages: dict[str, Phase]) -> None:
    """Print what a strategy takes, with the mean times of its phases at the size of the job."""
    table = _worded("Phases", "mean", "made of", words=("made of",))
    for name, stage in stages.items():
        parts = stage.parts
        if any(part.mean_s for part in parts):
            made_of = [f"{part.name} {_time(part.mean_s)}{_after(part)}" for part in parts]
            table.add_row(name, _time(stage.mean_s), ", ".join(made_of) if len(parts) > 1 else "")
    if table.rows:
        out.print()
        out.print(table)


def _only_after(stages: dict[str, Phase]) -> list[str]:
    """Return the phases that the times of a rung leave out, because they are needed after some faults alone."""
    return [
        f"{part.name} {_time(part.mean_s)}{_after(part)}"
        for stage in stages.values()
        for part in stage.parts
        if part.faults is not None
    ]


def _after(part: PhasePart) -> str:
    """Return after which faults alone a phase is needed."""
    return "" if part.faults is None else f" (only after {', '.join(part.faults)})"


def _worded(*columns: str, words: tuple[str, ...]) -> Table:
    """Return a table with columns of which some hold words, and begin at the left."""
    table = empty_table(*columns)
    for column in table.columns:
        if column.header in words:
            column.justify = "left"
    return table


def _time(seconds: float | None) -> str:
    """Return a time; what is not finite has no number in JSON."""
    return "never" if seconds is None else time_text(round(seconds, 6))


# ----------------------------------------
# The explanation of a scenario's jobs as text for the terminal; every number in it is in the data.

_WIDTH = 100

"""Columns without a terminal [-]."""

_PARTS = {
    "computing": "computing",
    "communication": "communication not hidden",
    "bubble": "pipeline bubble",
    "rest": "rest",
}

_TERMS_EXPLAIN_TEXT = {
    "gemm": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise",
    "launch": "launches",
    "logits": "logits",
    "tensor": "tensor groups",
    "context": "context groups",
    "expert": "expert groups",
    "pipeline": "pipeline hand-over",
    "data": "replicas",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "overhead": "fixed",
}

_GROUPS = {"data": "data and context", "expert_data": "replicas of experts", "shard": "shards of parameters"}

_PASSING = {
    "sequence_parallel": "sequence parallel",
    "fused_attention": "fused attention",
    "overlap_tensor": "tensor traffic overlapped",
    "overlap_data": "data traffic overlapped",
    "overlap_expert": "experts' traffic behind other microbatches",
}


def format_explanation(content: ExplainDocument, *, width: int | None = None) -> str:
    """Return the explanation as text for standard output, `width` columns wide (that of the terminal)."""
    from rich.padding import Padding

    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.print(content.scenario, style="bold")
    if content.description:
        out.print(Padding(content.description, (0, 0, 0, 2)))
    for name, job in content.jobs.items():
        _print_job(out, name, job, content.fit)
        print_recovery(out, content.jobs, name)
    print_explained(out, content.closed_form)
    reason = content.provenance.engine_reason
    engine = f"events: {reason}" if reason else "machine code, where many replications are wanted"
    out.print("\nSimulation", style="bold")
    out.print(label_grid([("engine", engine)]))
    if content.assumptions:
        out.print("\nAssumptions of the scenario", style="bold")
        out.print(label_grid([("-", " ".join(line.split())) for line in content.assumptions]))
    return page.text()


def _print_job(out: Console, name: str, job: ExplainedJob, fit: Fit) -> None:
    """Print all that there is to say about a job."""
    out.print(f"\n{name}", style="bold")
    gpus = f"{job.gpus:,} GPUs in {job.nodes:,} {'node' if job.nodes == 1 else 'nodes'}"
    beside = [*_power(job), _start_up(job)]
    if not isinstance(job, PlannedJob):
        lacking = f"the scenario does not state {job.lacks}" if job.lacks else "it cannot lay the job out like this"
        missing = ("breakdown", f"none by the model of steps: {lacking}")
        out.print(label_grid([("GPUs", gpus), *_time_of_explain_text(job, fit), *_use(job), missing, *beside]))
        return
    out.print(label_grid([*_made_of(job), ("layout", f"{gpus}: {_layout(job.layout)}"), *_how(job)]))
    _print_groups(out, job)
    _print_breakdown(out, job)
    out.print("\nStep", style="bold")
    out.print(label_grid([*_time_of_explain_text(job, fit), *_use(job), _checkpoint(job), *beside]))
    _print_memory(out, job)
    _print_degraded(out, job)


def _made_of(job: PlannedJob) -> list[tuple[str, str]]:
    """Return what the model and the accelerator are."""
    model, chip = job.model, job.accelerator
    active = ""
    if model.has_experts:
        active = f", of which a token meets {amount_text(model.active_parameters)}"
    memory = f"{unit_text(chip.memory_bytes, 'B')} at {unit_text(chip.memory_bytes_per_s, 'B/s')}"
    peak = f"{unit_text(chip.peak_flop_per_s, 'FLOP/s')} at {chip.precision}"
    rows = [
        ("model", f"{model.title}: {amount_text(model.parameters)} parameters{active} ({model.source})"),
        ("accelerator", f"{chip.title}: {peak}, {memory} ({chip.source})"),
    ]
    if len(job.pool_paces) > 1:
        paces = " : ".join(f"{pace:.3g}" for pace in job.pool_paces)
        rows.append(("pools", f"all numbers are those of the first pool of hosts; pace of the job by pool {paces}"))
    return rows


def _layout(layout: LayoutFound) -> str:
    sizes = f"tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"
    experts = f", experts over {layout.expert}" if layout.expert > 1 else ""
    pieces = f", {layout.virtual_pipeline} pieces a stage" if layout.virtual_pipeline > 1 else ""
    return f"{sizes}{experts}{pieces}"


def _how(job: PlannedJob) -> list[tuple[str, str]]:
    """Return what the batch is and how the step is executed."""
    layout, execution = job.layout, job.execution
    count = layout.microbatches
    batch = (
        f"{layout.sequences:,} sequences of {layout.sequence:,} tokens, for each replica {count:,} "
        f"{'microbatch' if count == 1 else 'microbatches'} of {execution['microbatch']}"
    )
    ranks = f" over {execution['shard_ranks']} ranks" if execution["shard_ranks"] else ""
    words = [
        execution["schedule"],
        f"recompute {execution['recompute']}",
        f"sharding {execution['sharding']}{ranks}",
        *(f"{'' if execution[name] else 'not '}{words}" for name, words in _PASSING.items()),
    ]
    return [("batch", batch), ("execution", ", ".join(words))]


def _time_of_explain_text(job: ExplainedJob, fit: Fit) -> list[tuple[str, str]]:
    """Return how long a step takes, and what says so: measured beside modelled."""
    step = job.step
    if step.time_s is None:
        return [("time", "not known")]
    time, band = _seconds(step.time_s), range_text(step.model_band90_s, _seconds)
    if step.stated is not None:
        said = "from the MFU that the scenario states" if step.stated == "mfu" else "as the scenario states"
        rows = [("time", f"{time}, {said}")]
        if step.model_s is None:
            return rows
        ratio = f"measured / modelled {step.scale:.3f}, by which all terms are scaled"
        rows.append(("modelled", f"{_seconds(step.model_s)} ({band} with 90 %); {ratio}"))
        low, high = step.model_band90_s or (0.0, math.inf)
        if not low <= step.time_s <= high:
            rows.append(("", "what was measured is outside of that: perhaps another layout or execution than stated"))
    else:
        rows = [("time", f"{time} by the model of steps, {range_text(step.band90_s, _seconds)} with 90 %")]
    row = job.calibration
    if row is not None:
        told = f"{_seconds(row.measured_s)} measured, {_seconds(row.modelled_s)} modelled"
        rows.append(("calibration", f"{told}: all terms are scaled by {step.scale:.3f}"))
    return [*rows, ("band", _band_text(job, fit))] if isinstance(job, PlannedJob) else rows


def _use(job: ExplainedJob) -> list[tuple[str, str]]:
    """Return the use of the peak in all conventions, and tokens."""
    rows = []
    if isinstance(job, PlannedJob):
        causal, full = job.utilisation["causal"], job.utilisation["full"]
        again = causal.recomputed_flop_per_token
        rows += [
            (
                "MFU",
                f"{percent_text(causal.mfu)} with the causal half of attention, {percent_text(full.mfu)} with "
                f"all of it; of the dense {job.accelerator.precision} peak, without recomputation",
            ),
            (
                "HFU",
                f"{percent_text(causal.hfu)} and {percent_text(full.hfu)}, with recomputation"
                if again
                else f"the same: recompute {job.execution['recompute']} multiplies nothing again",
            ),
            ("work", f"{unit_text(causal.flop_per_token, 'FLOP')} a token (causal)"),
        ]
    elif job.step.mfu is not None:
        rows.append(("MFU", f"{percent_text(job.step.mfu)}: {job.step.mfu_convention}"))
    if job.tokens_per_s is not None and job.tokens_per_day is not None:
        rows.append(("tokens", f"{amount_text(job.tokens_per_s)} a second, {amount_text(job.tokens_per_day)} a day"))
    return rows


def _checkpoint(job: PlannedJob) -> tuple[str, str]:
    saved = job.checkpoint
    size, part = unit_text(saved.bytes, "B"), unit_text(saved.bytes_per_gpu, "B")
    each = f"{saved.bytes_per_parameter:g} B a parameter, as MLPerf Storage counts"
    return "checkpoint", f"{size}, {part} of each GPU if all write as much ({each})"


def _power(job: ExplainedJob) -> list[tuple[str, str]]:
    power = job.power
    if power is None:
        return [("power", "not known: the catalog does not say what a node draws, and the scenario has no power")]
    kind = "measured" if power.measured else "estimate"
    each = f"{unit_text(power.node_training_w, 'W')} a node, {unit_text(power.node_idle_w, 'W')} idle"
    token = f", {power.joules_per_token:.3g} J a token" if power.joules_per_token is not None else ""
    return [("power", f"{unit_text(power.job_w, 'W')} in all nodes{token}: {each} ({kind}: {power.source})")]


def _start_up(job: ExplainedJob) -> tuple[str, str]:
    times = job.start_up
    law = "extrapolated from" if times.communicators_extrapolated else "power law through"
    return "start-up", (
        f"communicators {time_text(round(times.communicators_s, 3))} ({law} points of arXiv 2602.00277); first "
        f"step after {range_text(times.first_step_s, time_text)} (tuned H100 stacks, MLPerf Training v3.1 and v4.0)"
    )


def _print_groups(out: Console, job: PlannedJob) -> None:
    """Print what each kind of group communicates over."""
    if not job.groups:
        return
    table = empty_table("Groups", "GPUs", "through", "bandwidth of a GPU", "NICs together", "collectives reach")
    for kind, row in job.groups.items():
        through = "NICs" if row.through == "nic" else "scale-up links"
        nics = "" if row.nics_together is None else f"{row.nics_together:,}"
        rate, reached = (unit_text(each, "B/s") for each in (row.bytes_per_s, row.reached_bytes_per_s))
        table.add_row(_GROUPS.get(kind, kind), f"{row.ranks:,}", through, rate, nics, reached)
    out.print()
    out.print(table)


def _print_breakdown(out: Console, job: PlannedJob) -> None:
    """Print where the time of a step goes; terms of nothing are left out."""
    scale = job.step.scale
    scaled = f", each term x {scale:.3f}" if scale != 1 else ""
    out.print(f"\nWhere the time of a step goes{scaled}", style="bold")
    table = empty_table("", "time", "share", "", "rests on")
    table.columns[-1].justify = "left"
    for part, row in job.parts.items():
        terms = {name: term for name, term in row.terms.items() if term.time_s > 0}
        if part == "bubble":
            for name, term in terms.items():
                table.add_row(_PARTS[part], *_cells(term), _source_of_term(job, name))
        elif terms:
            table.add_row(_PARTS[part], *_cells(row)[:2], "", "")
            for name, term in terms.items():
                table.add_row(f"  {_TERMS_EXPLAIN_TEXT[name]}", *_cells(term), _source_of_term(job, name))
    table.add_row("total", _seconds(job.step.time_s or 0.0), percent_text(1.0), "", "")
    out.print(table)


def _cells(row: TermShare) -> tuple[str, str, str]:
    return _seconds(row.time_s), percent_text(row.share), bar_text(row.share)


def _print_memory(out: Console, job: PlannedJob) -> None:
    """Print what the fullest GPU holds."""
    held, shares = job.step.memory_bytes or {}, job.memory_shares
    out.print("\nMemory of the fullest GPU", style="bold")
    table = empty_table("", "size", "of the GPU", "")
    labels = {"reserve": "reserve (assumed)", "total": f"total of {unit_text(held['capacity'], 'B')}"}
    for name, share in shares.items():
        bar = "" if name == "total" else bar_text(min(share, 1.0))
        table.add_row(labels.get(name, name), f"{held[name] / 1e9:,.1f} GB", percent_text(share), bar)
    out.print(table)


def _print_degraded(out: Console, job: PlannedJob) -> None:
    """Print what a degraded step costs."""
    out.print("\nWhat a degraded step costs", style="bold")
    table = empty_table("", "time", "pace")
    for name, row in job.degraded.items():
        table.add_row(_degraded_text(job, name, row), _seconds(row.time_s), percent_text(row.pace))
    out.print(table)
    if any(row.basis == "communication" for row in job.degraded.values()):
        out.print("  slow GPUs and NICs as the scenario's communication says, not the model of steps")


def _seconds(value: float) -> str:
    """Return a time in seconds, to the millisecond."""
    return f"{value:,.3f} s"


# What the numbers of a step rest on, in words.


def _source_of_term(job: PlannedJob, term: str) -> str:
    """Return what a term of the breakdown rests on."""
    return _SOURCES[term](job)


def _band_text(job: PlannedJob, fit: Fit) -> str:
    """Return which measured steps the band of a modelled step rests on."""
    chip, basis = job.accelerator, job.efficiencies["gemm"].basis
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
    step = job.step
    sigma = step.model_sigma if step.sigma is None else step.sigma
    return f"{text} (log-normal, sigma {PERCENT.brief(sigma or 0.0)})"


def _degraded_text(job: PlannedJob, name: str, row: Degraded) -> str:
    """Return what is wrong, in words."""
    return {
        "slow_gpu": f"slowest GPU at {PERCENT.brief(row.compute)}",
        "narrow_nics": f"NICs of one node at {PERCENT.brief(row.network)}",
        "replica_missing_keep": f"{row.missing} replica missing, batch kept",
        "replica_missing_shrink": f"{row.missing} replica missing, batch smaller",
        "tensor_rank_missing": f"one replica with {row.tensor} of {job.layout.tensor} tensor ranks",
    }[name]


def _constant(job: PlannedJob, name: str) -> float:
    return job.constants[name].value


def _peak(kind: str) -> Callable[[PlannedJob], str]:
    """Return what tells the share of the peak that a kind of product reaches."""

    def source(job: PlannedJob) -> str:
        found, chip = job.efficiencies[kind], job.accelerator
        peak = chip.peak_flop_per_s if kind == "gemm" else chip.peak_16bit_flop_per_s
        basis = "fitted" if found.basis == "fitted" else "assumed"
        return f"{PERCENT.brief(found.share)} of {unit_text(peak, 'FLOP/s')}, {basis}"

    return source


def _moved(job: PlannedJob) -> str:
    touches = job.constants["touches"]
    rate = unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    return f"{touches.value:.3g} touches at {rate}, {touches.basis}"


def _launches(job: PlannedJob) -> str:
    text = f"{1e3 * _constant(job, 'launch'):.3g} ms a layer and pass"
    if job.model.has_experts:
        text += f" (experts + {1e3 * _constant(job, 'expert_launch'):.3g})"
    return text


def _waits(kind: str, hidden: str, switch: str | None = None) -> Callable[[PlannedJob], str]:
    """Return what tells the rate of a kind of groups, and what computing hides of their traffic."""

    def source(job: PlannedJob) -> str:
        on = switch is None or job.execution[switch]
        part = f"{PERCENT.brief(_constant(job, hidden))} hidden" if on else "nothing hidden"
        return f"{unit_text(job.groups[kind].reached_bytes_per_s, 'B/s')}, {part}"

    return source


def _hand_over(job: PlannedJob) -> str:
    hidden = _constant(job, "handover_hidden") if job.layout.virtual_pipeline > 1 else 0.0
    part = f"{PERCENT.brief(hidden)} hidden" if hidden else "nothing hidden"
    return f"{unit_text(job.groups['pipeline'].reached_bytes_per_s, 'B/s')}, {part}"


def _replicas(job: PlannedJob) -> str:
    kind = "data" if "data" in job.groups else "expert_data"
    rate = unit_text(job.groups[kind].reached_bytes_per_s, "B/s")
    if job.execution["sharding"] == "parameters":
        return f"{rate}, at least {PERCENT.brief(_constant(job, 'shard_floor'))} not hidden"
    if not job.execution["overlap_data"]:
        return f"{rate}, nothing hidden"
    return f"{rate}, at least {PERCENT.brief(_constant(job, 'data_floor'))} not hidden"


def _bubble(job: PlannedJob) -> str:
    layout = job.layout
    pieces = f" of {layout.virtual_pipeline} pieces" if layout.virtual_pipeline > 1 else ""
    return f"{layout.pipeline} stages{pieces}, {layout.microbatches:,} microbatches, {job.execution['schedule']}"


def _update(job: PlannedJob) -> str:
    rate = unit_text(job.accelerator.memory_bytes_per_s, "B/s")
    return f"{_constant(job, 'optimizer'):g} B a parameter, {PERCENT.brief(_constant(job, 'memory'))} of {rate}"


def _per_step(job: PlannedJob) -> str:
    return f"{1e3 * _constant(job, 'overhead'):.3g} ms a step"


_SOURCES: dict[str, Callable[[PlannedJob], str]] = {
    "gemm": _peak("gemm"),
    "attention": _peak("attention"),
    "logits": _peak("logits"),
    "elementwise": _moved,
    "launch": _launches,
    "tensor": _waits("tensor", "tensor_hidden", "overlap_tensor"),
    "context": _waits("context", "context_hidden"),
    "expert": _waits("expert", "expert_hidden"),
    "pipeline": _hand_over,
    "data": _replicas,
    "bubble": _bubble,
    "optimizer": _update,
    "overhead": _per_step,
}
