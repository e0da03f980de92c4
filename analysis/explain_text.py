"""The explanation of a scenario's jobs as text for the terminal; every number in it is in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import amount_text, bar_text, empty_table, label_grid, percent_text, range_text, time_text
from analysis.closed_form_text import print_explained
from analysis.console import Page, console
from analysis.explain_recovery_text import print_recovery
from analysis.explain_terms import band_text, degraded_text, source_of_term, unit_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["format_explanation"]

_WIDTH = 100
"""Columns without a terminal [-]."""
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


def format_explanation(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the explanation as text for standard output, `width` columns wide (that of the terminal)."""
    from rich.padding import Padding

    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.print(content["scenario"], style="bold")
    if content["description"]:
        out.print(Padding(content["description"], (0, 0, 0, 2)))
    for name, job in content["jobs"].items():
        _print_job(out, name, job, content["fit"])
        print_recovery(out, content["jobs"], name)
    print_explained(out, content["closed_form"])
    if content["assumptions"]:
        out.print("\nAssumptions of the scenario", style="bold")
        out.print(label_grid([("-", " ".join(line.split())) for line in content["assumptions"]]))
    return page.text()


def _print_job(out: Console, name: str, job: dict[str, Any], fit: dict[str, Any]) -> None:
    """Print all that there is to say about a job."""
    out.print(f"\n{name}", style="bold")
    gpus = f"{job['gpus']:,} GPUs in {job['nodes']:,} {'node' if job['nodes'] == 1 else 'nodes'}"
    beside = [*_power(job), _start_up(job)]
    if job["parts"] is None:
        lacking = (
            f"the scenario does not state {job['lacks']}" if job["lacks"] else "it cannot lay the job out like this"
        )
        missing = ("breakdown", f"none by the model of steps: {lacking}")
        out.print(label_grid([("GPUs", gpus), *_time(job, fit), *_use(job), missing, *beside]))
        return
    out.print(label_grid([*_made_of(job), ("layout", f"{gpus}: {_layout(job['layout'])}"), *_how(job)]))
    _print_groups(out, job)
    _print_breakdown(out, job)
    out.print("\nStep", style="bold")
    out.print(label_grid([*_time(job, fit), *_use(job), _checkpoint(job), *beside]))
    _print_memory(out, job)
    _print_degraded(out, job)


# ------------------------------------------------------------------------------------------------ in lines


def _made_of(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the model and the accelerator are."""
    model, chip = job["model"], job["accelerator"]
    active = ""
    if model["has_experts"]:
        active = f", of which a token meets {amount_text(model['active_parameters'])}"
    memory = f"{unit_text(chip['memory_bytes'], 'B')} at {unit_text(chip['memory_bytes_per_s'], 'B/s')}"
    peak = f"{unit_text(chip['peak_flop_per_s'], 'FLOP/s')} at {chip['precision']}"
    rows = [
        ("model", f"{model['title']}: {amount_text(model['parameters'])} parameters{active} ({model['source']})"),
        ("accelerator", f"{chip['title']}: {peak}, {memory} ({chip['source']})"),
    ]
    if len(job["pool_paces"]) > 1:
        paces = " : ".join(f"{pace:.3g}" for pace in job["pool_paces"])
        rows.append(("pools", f"all numbers are those of the first pool of hosts; pace of the job by pool {paces}"))
    return rows


def _layout(layout: dict[str, Any]) -> str:
    sizes = " x ".join(f"{name} {layout[name]}" for name in ("tensor", "context", "pipeline", "data"))
    experts = f", experts over {layout['expert']}" if layout["expert"] > 1 else ""
    pieces = f", {layout['virtual_pipeline']} pieces a stage" if layout["virtual_pipeline"] > 1 else ""
    return f"{sizes}{experts}{pieces}"


def _how(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the batch is and how the step is executed."""
    layout, execution = job["layout"], job["execution"]
    count = layout["microbatches"]
    batch = (
        f"{layout['sequences']:,} sequences of {layout['sequence']:,} tokens, for each replica {count:,} "
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


def _time(job: dict[str, Any], fit: dict[str, Any]) -> list[tuple[str, str]]:
    """Return how long a step takes, and what says so: measured beside modelled."""
    step = job["step"]
    if step["time_s"] is None:
        return [("time", "not known")]
    time, band = _seconds(step["time_s"]), range_text(step["model_band90_s"], _seconds)
    if step["stated"] is not None:
        said = "from the MFU that the scenario states" if step["stated"] == "mfu" else "as the scenario states"
        rows = [("time", f"{time}, {said}")]
        if step["model_s"] is None:
            return rows
        ratio = f"measured / modelled {step['scale']:.3f}, by which all terms are scaled"
        rows.append(("modelled", f"{_seconds(step['model_s'])} ({band} with 90 %); {ratio}"))
        low, high = step["model_band90_s"]
        if not low <= step["time_s"] <= high:
            rows.append(("", "what was measured is outside of that: perhaps another layout or execution than stated"))
    else:
        rows = [("time", f"{time} by the model of steps, {range_text(step['band90_s'], _seconds)} with 90 %")]
    row = job["calibration"]
    if row is not None:
        told = f"{_seconds(row['measured_s'])} measured, {_seconds(row['modelled_s'])} modelled"
        rows.append(("calibration", f"{told}: all terms are scaled by {step['scale']:.3f}"))
    return [*rows, ("band", band_text(job, fit))]


def _use(job: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the use of the peak in all conventions, and tokens."""
    rows = []
    if job["utilisation"] is not None:
        causal, full = job["utilisation"]["causal"], job["utilisation"]["full"]
        again = causal["recomputed_flop_per_token"]
        rows += [
            (
                "MFU",
                f"{percent_text(causal['mfu'])} with the causal half of attention, {percent_text(full['mfu'])} with "
                f"all of it; of the dense {job['accelerator']['precision']} peak, without recomputation",
            ),
            (
                "HFU",
                f"{percent_text(causal['hfu'])} and {percent_text(full['hfu'])}, with recomputation"
                if again
                else f"the same: recompute {job['execution']['recompute']} multiplies nothing again",
            ),
            ("work", f"{unit_text(causal['flop_per_token'], 'FLOP')} a token (causal)"),
        ]
    elif job["step"]["mfu"] is not None:
        rows.append(("MFU", f"{percent_text(job['step']['mfu'])}: {job['step']['mfu_convention']}"))
    if job["tokens_per_s"] is not None:
        rows.append(
            ("tokens", f"{amount_text(job['tokens_per_s'])} a second, {amount_text(job['tokens_per_day'])} a day")
        )
    return rows


def _checkpoint(job: dict[str, Any]) -> tuple[str, str]:
    saved = job["checkpoint"]
    size, part = unit_text(saved["bytes"], "B"), unit_text(saved["bytes_per_gpu"], "B")
    each = f"{saved['bytes_per_parameter']:g} B a parameter, as MLPerf Storage counts"
    return "checkpoint", f"{size}, {part} of each GPU if all write as much ({each})"


def _power(job: dict[str, Any]) -> list[tuple[str, str]]:
    power = job["power"]
    if power is None:
        return [("power", "not known: the catalog does not say what a node draws, and the scenario has no power")]
    kind = "measured" if power["measured"] else "estimate"
    each = f"{unit_text(power['node_training_w'], 'W')} a node, {unit_text(power['node_idle_w'], 'W')} idle"
    token = f", {power['joules_per_token']:.3g} J a token" if power["joules_per_token"] is not None else ""
    return [("power", f"{unit_text(power['job_w'], 'W')} in all nodes{token}: {each} ({kind}: {power['source']})")]


def _start_up(job: dict[str, Any]) -> tuple[str, str]:
    times = job["start_up"]
    law = "extrapolated from" if times["communicators_extrapolated"] else "power law through"
    return "start-up", (
        f"communicators {time_text(round(times['communicators_s'], 3))} ({law} points of arXiv 2602.00277); first "
        f"step after {range_text(times['first_step_s'], time_text)} (tuned H100 stacks, MLPerf Training v3.1 and v4.0)"
    )


# ------------------------------------------------------------------------------------------------ in tables


def _print_groups(out: Console, job: dict[str, Any]) -> None:
    """Print what each kind of group communicates over."""
    if not job["groups"]:
        return
    table = empty_table("Groups", "GPUs", "through", "bandwidth of a GPU", "NICs together", "collectives reach")
    for kind, row in job["groups"].items():
        through = "NICs" if row["through"] == "nic" else "scale-up links"
        nics = "" if row["nics_together"] is None else f"{row['nics_together']:,}"
        rate, reached = (unit_text(row[name], "B/s") for name in ("bytes_per_s", "reached_bytes_per_s"))
        table.add_row(_GROUPS.get(kind, kind), f"{row['ranks']:,}", through, rate, nics, reached)
    out.print()
    out.print(table)


def _print_breakdown(out: Console, job: dict[str, Any]) -> None:
    """Print where the time of a step goes; terms of nothing are left out."""
    scale = job["step"]["scale"]
    scaled = f", each term x {scale:.3f}" if scale != 1 else ""
    out.print(f"\nWhere the time of a step goes{scaled}", style="bold")
    table = empty_table("", "time", "share", "", "rests on")
    table.columns[-1].justify = "left"
    for part, row in job["parts"].items():
        terms = {name: term for name, term in row["terms"].items() if term["time_s"] > 0}
        if part == "bubble":
            for name, term in terms.items():
                table.add_row(_PARTS[part], *_cells(term), source_of_term(job, name))
        elif terms:
            table.add_row(_PARTS[part], *_cells(row)[:2], "", "")
            for name, term in terms.items():
                table.add_row(f"  {_TERMS[name]}", *_cells(term), source_of_term(job, name))
    table.add_row("total", _seconds(job["step"]["time_s"]), percent_text(1.0), "", "")
    out.print(table)


def _cells(row: dict[str, float]) -> tuple[str, str, str]:
    return _seconds(row["time_s"]), percent_text(row["share"]), bar_text(row["share"])


def _print_memory(out: Console, job: dict[str, Any]) -> None:
    """Print what the fullest GPU holds."""
    held, shares = job["step"]["memory_bytes"], job["memory_shares"]
    out.print("\nMemory of the fullest GPU", style="bold")
    table = empty_table("", "size", "of the GPU", "")
    labels = {"reserve": "reserve (assumed)", "total": f"total of {unit_text(held['capacity'], 'B')}"}
    for name, share in shares.items():
        bar = "" if name == "total" else bar_text(min(share, 1.0))
        table.add_row(labels.get(name, name), f"{held[name] / 1e9:,.1f} GB", percent_text(share), bar)
    out.print(table)


def _print_degraded(out: Console, job: dict[str, Any]) -> None:
    """Print what a degraded step costs."""
    out.print("\nWhat a degraded step costs", style="bold")
    table = empty_table("", "time", "pace")
    for name, row in job["degraded"].items():
        table.add_row(degraded_text(job, name, row), _seconds(row["time_s"]), percent_text(row["pace"]))
    out.print(table)
    if any(row["basis"] == "communication" for row in job["degraded"].values()):
        out.print("  slow GPUs and NICs as the scenario's communication says, not the model of steps")


def _seconds(value: float) -> str:
    """Return a time in seconds, to the millisecond."""
    return f"{value:,.3f} s"
