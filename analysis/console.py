"""What the terminal shows: tables, bars and progress."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sim import Prepared

__all__ = ["Progress", "console", "print_run"]

_BAR = 16
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


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes text as it is and honours NO_COLOR, width and pipes."""
    from rich.console import Console

    # Without a terminal there is no width to respect; a table that is cut helps nobody.
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else 120
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


class Progress:
    """A bar on standard error, on a terminal only, for what takes more than a second."""

    def __init__(self, *, quiet: bool) -> None:
        self.enabled = not quiet and sys.stderr.isatty()
        self.start = time.perf_counter()
        self.bar: Any = None
        self.task: Any = None

    def __call__(self, done: int, total: int | None) -> None:
        """Show that `done` of `total` replications are there."""
        if not self.enabled or time.perf_counter() - self.start < 1.0:
            return
        if self.bar is None:
            from rich import progress

            self.bar = progress.Progress(
                progress.TextColumn("replications"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                console=console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task("", total=total)
            self.bar.start()
        self.bar.update(self.task, completed=done)

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()


def print_run(content: dict[str, Any], prepared: Prepared) -> None:
    """Print the document of a run for a person."""
    out = console()
    _print_scenario(out, content, prepared)
    _print_headline(out, content)
    _print_shares(out, content)
    _print_causes(out, content)
    _print_closed_form(out, content)
    for title, lines in (("Assumptions of the scenario", content["assumptions"]), ("Notes", content["notes"])):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"  - {' '.join(line.split())}")


def _print_scenario(out: Console, content: dict[str, Any], prepared: Prepared) -> None:
    scenario = prepared.scenario
    cluster: Any = scenario.cluster
    out.print(scenario.name, style="bold")
    if scenario.description:
        out.print(f"  {scenario.description}")
    rows = [
        (
            "cluster",
            f"{cluster.name}: {prepared.counts['gpu']:,} GPUs ({cluster.accelerator}) in {prepared.nodes:,} nodes",
        )
    ]
    for plan, spec in zip(prepared.jobs, scenario.jobs, strict=True):
        layout = spec.parallelism
        text = f"{plan.name}: {plan.gpus:,} GPUs"
        if layout is not None:
            text += (
                f", tensor {layout.tensor} x context {layout.context} x pipeline {layout.pipeline} x data {layout.data}"
            )
        if plan.step_time:
            text += f", step {plan.step_time:.2f} s"
        if plan.mfu is not None:
            text += f", MFU {100 * plan.mfu:.1f} %"
        rows.append(("job", text))
    first = prepared.jobs[0]
    expected = f", one interruption in {_time(first.mtti)} expected" if first.mtti < float("inf") else ""
    causes = "1 cause" if len(prepared.sources) == 1 else f"{len(prepared.sources)} causes"
    rows.append(("failures", causes + expected))
    tier = first.checkpoint
    rows.append(
        (
            "policies",
            f"checkpoint every {_time(tier.interval)} ({_saving(tier)}), recovery {scenario.recovery.use}, "
            f"{prepared.spares} hot spares",
        )
    )
    rows.append(
        (
            "run",
            f"{content['replications']} replications of {_time(prepared.horizon)}, seed {prepared.seed}, "
            f"initial state {scenario.initial}",
        )
    )
    out.print(_grid(rows))


def _saving(tier: Any) -> str:
    return f"stall {_time(tier.stall)}, " + (f"durable {_time(tier.drain)} later" if tier.drain else "then durable")


def _print_headline(out: Console, content: dict[str, Any]) -> None:
    metrics = content["metrics"]
    out.print("\nGoodput", style="bold")
    table = _table("", "mean", "95 % interval", "5 %..95 % of runs")
    chain = (
        ("ettr", "ETTR (productive / requested)"),
        ("scheduling_goodput", "  scheduling goodput"),
        ("runtime_goodput", "  x runtime goodput"),
        ("program_goodput", "  x program goodput (MFU)"),
        ("goodput", "  = goodput (effective MFU)"),
        ("cluster_goodput", "cluster goodput (all owned)"),
        ("p_finish_by", "P(finish by the deadline)"),
    )
    for name, label in chain:
        if name in metrics:
            table.add_row(label, *_cells(metrics[name], lambda value: f"{100 * value:.2f} %"))
    if "tokens_per_day" in metrics:
        table.add_row("tokens per day", *_cells(metrics["tokens_per_day"], lambda value: f"{value / 1e9:,.1f} G"))
    if "time_to_work" in metrics:
        table.add_row("time to finish", *_cells(metrics["time_to_work"], lambda value: _time(value)))
    table.add_row("MTTI", *_cells(metrics["mtti"], lambda value: _time(value)))
    table.add_row("interruptions", *_cells(metrics["interruptions"], lambda value: f"{value:,.1f}"))
    out.print(table)
    if any(metric["band90"] for metric in metrics.values()):
        band = metrics["ettr"]["band90"]
        if band:
            out.print(
                f"  failure rates known only from their counts: ETTR {_percent(band[0])} to {_percent(band[1])} (90 %)"
            )


def _print_shares(out: Console, content: dict[str, Any]) -> None:
    shares = content["time_shares"]
    if shares["productive"] is None:
        return
    hours = sum(_requested(content))
    out.print("\nWhere every GPU-hour went", style="bold")
    table = _table("", "share", "GPU-hours", "", "mostly because of")
    losses = content["loss_gpu_s"]
    for name, share in shares.items():
        if share == 0 and name not in ("productive", "lost_work"):
            continue
        table.add_row(_NAMES[name], _percent(share), f"{share * hours:,.0f}", _bar(share), _main_cause(losses, name))
    table.add_row("total", _percent(sum(shares.values())), f"{hours:,.0f}", "", "")
    out.print(table)


def _print_causes(out: Console, content: dict[str, Any]) -> None:
    causes = {name: row for name, row in content["interruptions_by_cause"].items() if row["mean"]}
    if not causes:
        return
    out.print("\nInterruptions by cause", style="bold")
    table = _table("", "mean", "95 % interval", "GPU-hours lost", "")
    total = sum(row["mean"] for row in causes.values())
    for name, row in causes.items():
        interval = row["mean_ci95"]
        lost = sum(content["loss_gpu_s"][name].values()) / 3600
        text = f"{interval[0]:,.1f}..{interval[1]:,.1f}" if interval else ""
        table.add_row(name, f"{row['mean']:,.1f}", text, f"{lost:,.0f}", _bar(row["mean"] / total))
    out.print(table)


def _print_closed_form(out: Console, content: dict[str, Any]) -> None:
    formula = content["closed_form"]
    out.print("\nClosed form beside the simulation", style="bold")
    if formula["ettr"] is not None:
        table = _table("", "closed form", "simulation")
        for name, value in formula["time_shares"].items():
            simulated = content["time_shares"]
            if name == "restart":
                label, other = (
                    "reschedule + initialize + restore",
                    sum(simulated[part] for part in ("reschedule", "initialize", "restore")),
                )
            else:
                label, other = _NAMES[name], simulated[name]
            table.add_row(label, _percent(value), _percent(other))
        out.print(table)
    for line in formula["assumptions"]:
        out.print(f"  assumes: {line}")


# ------------------------------------------------------------------------------------------------- cells


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        right = position > 0 and column != "" and column != "mostly because of"
        table.add_column(column, justify="right" if right else "left", no_wrap=position == 0)
    return table


def _grid(rows: list[tuple[str, str]]) -> Table:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in rows:
        grid.add_row(f"  {label}", text)
    return grid


def _cells(metric: dict[str, Any], form: Any) -> tuple[str, str, str]:
    """Return mean, interval and spread of a metric; a dash where the data do not support one."""
    interval, low, high = metric["mean_ci95"], metric["p05"], metric["p95"]
    return (
        form(metric["mean"]) if metric["mean"] is not None else "-",
        f"{form(interval[0])}..{form(interval[1])}" if interval and metric["mean"] is not None else "-",
        f"{form(low)}..{form(high)}" if low is not None and high is not None else "-",
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _time(seconds: float) -> str:
    """Return a time as people say it, to three digits."""
    if seconds == float("inf"):
        return "never"
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= (2 if unit == "d" else 1) * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


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


def _requested(content: dict[str, Any]) -> list[float]:
    """Return the mean GPU-hours that each job asked for in a replication."""
    return [job["requested_gpu_s"] / 3600 for job in content["per_job"].values()]
