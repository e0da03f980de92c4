"""What the terminal shows: tables and bars."""

from __future__ import annotations

import io
import sys
from typing import IO, TYPE_CHECKING, Any

from analysis.cells import (
    bar_text,
    count_text,
    empty_table,
    label_grid,
    number_of,
    percent_text,
    range_text,
    text_or_dash,
    time_text,
)
from analysis.closed_form_text import compared_text, extrapolated_texts
from analysis.explain_recovery import stores_of
from analysis.headline import print_headline

if TYPE_CHECKING:
    from rich.console import Console

    from sim import Prepared, PreparedJob

__all__ = ["Page", "console", "format_run", "repairs_text"]

_MOST_WINDOWS = 12
_NAMES = {
    "productive": "productive",
    "degraded": "degraded",
    "checkpoint_stall": "checkpoint stall",
    "lost_work": "lost work",
    "detection": "detection",
    "reschedule": "reschedule",
    "initialize": "initialize",
    "restore": "restore",
    "starved": "starved (waits for nodes)",
    "queued": "queued",
    "maintenance": "maintenance",
    "auxiliary": "auxiliary",
}


_WHOSE = {
    "source": "the source's own",
    "entry": "stated for the bundle",
    "scenario": "the scenario's",
    "bundle": "the bundle's",
}
"""Whose repair applies, as `sim.failures.source.RepairFrom` has it."""
_FEW = 4
"""Causes that are named; of more, how many."""


class Page(io.StringIO):
    """Text that is laid out for standard output and written to it later, in one go.

    A console on standard output itself would write to it as soon as it is done, and fail there with a traceback.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether standard output is a terminal, and wants colour."""
        return sys.stdout is not None and sys.stdout.isatty()

    def text(self) -> str:
        """Return what was laid out, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self.getvalue().splitlines())


def console(file: IO[str], *, width: int | None = None) -> Console:
    """Return a console that takes text as it is and honours NO_COLOR, width and pipes."""
    from rich.console import Console

    if width is None and not file.isatty():
        # Without a terminal there is no width to respect; a table that is cut helps nobody.
        width = 120
    return Console(file=file, markup=False, highlight=False, emoji=False, width=width)


def format_run(content: dict[str, Any], prepared: Prepared, *, width: int | None = None) -> str:
    """Return the document of a run (as read back from JSON) as text for standard output.

    Parameters
    ----------
    content
        The document.
    prepared
        The scenario.
    width
        Columns; by default those of the terminal.
    """
    page = Page()
    out = console(page, width=width)
    _print_scenario(out, content, prepared)
    print_headline(out, content)
    _print_jobs(out, content)
    _print_shares(out, content)
    _print_windows(out, content)
    _print_causes(out, content)
    _print_nodes_down(out, content)
    _print_closed_form(out, content)
    for title, lines in (("Assumptions of the scenario", content["assumptions"]), ("Notes", content["notes"])):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"  - {' '.join(line.split())}")
    return page.text()


def _print_scenario(out: Console, content: dict[str, Any], prepared: Prepared) -> None:
    scenario = prepared.scenario
    cluster: Any = scenario.cluster
    kinds = ", ".join(dict.fromkeys(str(pool.accelerator) for pool in cluster.all_pools))
    out.print(scenario.name, style="bold")
    if scenario.description:
        out.print(f"  {scenario.description}")
    rows = [
        (
            "cluster",
            f"{cluster.name}: {prepared.counts['gpu']:,} GPUs ({kinds}) in {prepared.nodes:,} nodes"
            + ("" if cluster.states_nodes else ", those of jobs and spares")
            + (f", {prepared.withheld:,} of them withheld" if prepared.withheld else ""),
        )
    ]
    if not cluster.states_fabric:
        rows.append(("fabric", f"default: {cluster.fabric.title}"))
    for plan, spec in zip(prepared.jobs, scenario.jobs, strict=True):
        layout = spec.parallelism
        text = f"{plan.name}: {plan.gpus:,} GPUs"
        if layout is not None:
            text += (
                f", tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"
            )
        if plan.step_time:
            text += f", step {plan.step_time:.2f} s"
        if plan.plan is not None and not plan.is_measured:
            low, high = plan.plan.band90
            text += f" (modelled: {low:.2f}..{high:.2f})"
        if plan.mfu is not None:
            text += f", MFU {100 * plan.mfu:.1f} %"
        rows.append(("job", text))
    first = prepared.jobs[0]
    expected = f", one interruption in {time_text(first.mtti)} expected" if first.mtti < float("inf") else ""
    rows.append(("failures", number_of(len(prepared.sources), "cause") + expected))
    if repairs_text(prepared):
        rows.append(("repair", repairs_text(prepared)))
    policies = [_copies(first), f"recovery {scenario.recovery.use}", number_of(prepared.spares, "hot spare")]
    rows.append(("policies", (", " if len(stores_of(first)) == 1 else "; ").join(policies)))
    rows.append(
        (
            "run",
            f"{number_of(content['replications'], 'replication')} of {time_text(prepared.horizon)}, "
            f"seed {prepared.seed}, initial state {scenario.initial}",
        )
    )
    out.print(label_grid(rows))


def repairs_text(prepared: Prepared) -> str:
    """Return which causes have whose repair; empty where all have the scenario's."""
    causes: dict[str, list[str]] = {}
    for source in prepared.sources:
        if source.repair_from:
            causes.setdefault(source.repair_from, []).append(source.name)
    if set(causes) <= {"scenario"}:
        return ""
    return "; ".join(
        f"{_WHOSE[whose]}: {', '.join(names[:_FEW])}" + (f" and {len(names) - _FEW} more" if names[_FEW:] else "")
        for whose, names in causes.items()
    )


def _copies(job: PreparedJob) -> str:
    """Return where copies are kept and how often they are made; of a single store, how."""
    stores = stores_of(job)
    if len(stores) > 1:
        rhythms = (f" every {time_text(rung.interval)}" if rung.store != "peer" else "" for rung in stores)
        return "copies: " + ", ".join(rung.store + rhythm for rung, rhythm in zip(stores, rhythms, strict=True))
    (tier,) = stores
    durable = f"durable {time_text(tier.drain)} later" if tier.drain else "then durable"
    return f"checkpoint every {time_text(tier.interval)} (stall {time_text(tier.stall)}, {durable})"


def _print_jobs(out: Console, content: dict[str, Any]) -> None:
    """Print one line a job, if there are several or any that can finish."""
    jobs = content["per_job"]
    ends = any(job["finished"] or job["censored"] for job in jobs.values())
    if len(jobs) == 1 and not ends:
        return
    out.print("\nJobs", style="bold")
    table = empty_table("", "GPUs", "ETTR", "queued", "interruptions", *(["finished"] if ends else []))
    for name, job in jobs.items():
        cells = [
            f"{job['gpus']:,}",
            text_or_dash(job["metrics"]["ettr"]["mean"], percent_text),
            text_or_dash(job["time_shares"]["queued"], percent_text),
            text_or_dash(job["metrics"]["interruptions"]["mean"], count_text),
        ]
        if ends:
            cells.append(f"{job['finished']} of {content['replications']} runs")
        table.add_row(name, *cells)
    out.print(table)


def _print_shares(out: Console, content: dict[str, Any]) -> None:
    shares = content["time_shares"]
    if shares["productive"] is None:
        return
    hours = sum(job["requested_gpu_s"] for job in content["per_job"].values()) / 3600
    out.print("\nWhere every GPU-hour went", style="bold")
    table = empty_table("", "share", "GPU-hours", "", "mostly because of")
    losses = content["loss_gpu_s"]
    for name, share in shares.items():
        if share == 0 and name not in ("productive", "lost_work"):
            continue
        table.add_row(
            _NAMES[name], percent_text(share), f"{share * hours:,.0f}", bar_text(share), _main_cause(losses, name)
        )
    table.add_row("total", percent_text(sum(shares.values())), f"{hours:,.0f}", "", "")
    out.print(table)


def _print_windows(out: Console, content: dict[str, Any]) -> None:
    """Print the rolling view, of many windows an even choice."""
    windows = content["windows"]
    if not windows:
        return
    step = -(-len(windows) // _MOST_WINDOWS)
    chosen = windows[::step]
    left_out = f" ({len(chosen)} of {len(windows)} windows)" if step > 1 else ""
    out.print(f"\nETTR over time{left_out}", style="bold")
    table = empty_table("window", "ETTR", "")
    for window in chosen:
        ettr = window["ettr"]
        table.add_row(
            f"{time_text(window['start_s'])} to {time_text(window['end_s'])}",
            text_or_dash(ettr, percent_text),
            bar_text(ettr or 0),
        )
    out.print(table)


def _print_causes(out: Console, content: dict[str, Any]) -> None:
    causes = {name: row for name, row in content["interruptions_by_cause"].items() if row["mean"]}
    if not causes:
        return
    out.print("\nInterruptions by cause", style="bold")
    table = empty_table("", "mean", "95 % interval", "GPU-hours lost", "")
    total = sum(row["mean"] for row in causes.values())
    for name, row in causes.items():
        lost = sum(content["loss_gpu_s"][name].values()) / 3600
        interval = range_text(row["mean_ci95"], count_text)
        table.add_row(name, count_text(row["mean"]), interval, f"{lost:,.0f}", bar_text(row["mean"] / total))
    out.print(table)


def _print_nodes_down(out: Console, content: dict[str, Any]) -> None:
    """Print how many nodes are missing at once, beside what independent nodes would need."""
    down = content["nodes_down"]
    if not down or not down["max"]:
        return
    out.print("\nNodes down at once", style="bold")
    levels = down["independent"]
    table = empty_table("", "mean", *(f"{name[1:]} % of the time" for name in levels), "most")
    table.add_row("simulation", count_text(down["mean"]), *(f"{down[name]:,}" for name in levels), f"{down['max']:,}")
    table.add_row("independent nodes", count_text(down["mean"]), *(f"{value:,}" for value in levels.values()), "")
    out.print(table)


def _print_closed_form(out: Console, content: dict[str, Any]) -> None:
    formula = content["closed_form"]
    out.print("\nClosed form beside the simulation", style="bold")
    if formula["ettr"] is not None:
        table = empty_table("", "closed form", "simulation")
        simulated = content["time_shares"]
        for name, value in formula["time_shares"].items():
            parts = ("reschedule", "initialize", "restore") if name == "restart" else (name,)
            other = None if simulated[parts[0]] is None else sum(simulated[part] for part in parts)
            table.add_row(
                " + ".join(_NAMES[part] for part in parts), percent_text(value), text_or_dash(other, percent_text)
            )
        out.print(table)
        out.print(f"  form: {formula['form']}")
        out.print(f"  ETTR: {compared_text(formula)}")
    for line in formula["reasons"]:
        out.print(f"  does not apply: {line}")
    for line in extrapolated_texts(formula):
        out.print(f"  extrapolated: {line}")
    for line in formula["assumptions"]:
        out.print(f"  assumes: {line}")


def _main_cause(losses: dict[str, dict[str, float]], bucket: str) -> str:
    """Return the cause that a bucket's time is charged to most, with its part."""
    if bucket == "productive":
        return ""
    amounts = {name: parts[bucket] for name, parts in losses.items()}
    total = sum(amounts.values())
    if total <= 0:
        return ""
    name = max(amounts, key=lambda key: amounts[key])
    label = "no failure" if name == "no_failure" else name
    return f"{label} ({100 * amounts[name] / total:.0f} %)"
