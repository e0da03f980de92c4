"""What the terminal shows: tables and bars."""

from __future__ import annotations

import io
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.table import Table

    from sim import Prepared

__all__ = ["console", "format_run"]

_BAR = 16
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


class _Page(io.StringIO):
    """Text that is laid out for standard output and written to it later, in one go."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return whether standard output is a terminal, and wants colour."""
        return sys.stdout is not None and sys.stdout.isatty()


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
    page = _Page()
    out = console(page, width=width)
    _print_scenario(out, content, prepared)
    _print_headline(out, content)
    _print_jobs(out, content)
    _print_shares(out, content)
    _print_windows(out, content)
    _print_causes(out, content)
    _print_closed_form(out, content)
    for title, lines in (("Assumptions of the scenario", content["assumptions"]), ("Notes", content["notes"])):
        if lines:
            out.print(f"\n{title}", style="bold")
            for line in lines:
                out.print(f"  - {' '.join(line.split())}")
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


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
    rows.append(("failures", _number(len(prepared.sources), "cause") + expected))
    tier = first.checkpoint
    rows.append(
        (
            "policies",
            f"checkpoint every {_time(tier.interval)} ({_saving(tier)}), recovery {scenario.recovery.use}, "
            f"{_number(prepared.spares, 'hot spare')}",
        )
    )
    rows.append(
        (
            "run",
            f"{_number(content['replications'], 'replication')} of {_time(prepared.horizon)}, seed {prepared.seed}, "
            f"initial state {scenario.initial}",
        )
    )
    out.print(_grid(rows))


def _saving(tier: Any) -> str:
    return f"stall {_time(tier.stall)}, " + (f"durable {_time(tier.drain)} later" if tier.drain else "then durable")


def _print_headline(out: Console, content: dict[str, Any]) -> None:
    metrics = content["metrics"]
    rows: list[tuple[str, str, Callable[[float], str]]] = [
        ("ettr", "ETTR (productive / requested)", _percent),
        ("scheduling_goodput", "  scheduling goodput", _percent),
        ("runtime_goodput", "  x runtime goodput", _percent),
        ("program_goodput", "  x program goodput (MFU)", _percent),
        ("goodput", "  = goodput (effective MFU)", _percent),
        ("cluster_goodput", "cluster goodput (all owned)", _percent),
        ("tokens_per_day", "tokens per day", _amount),
        ("time_to_work", "time to finish", _time),
        ("p_finish_by", "P(finish by the deadline)", _percent),
        ("mtti", "MTTI", _time),
        ("interruptions", "interruptions", _count),
    ]
    rows = [row for row in rows if row[0] in metrics]
    # Quantiles need many replications; a column of dashes says nothing.
    quantiles = any(metrics[name]["p05"] is not None and metrics[name]["p95"] is not None for name, _, _ in rows)
    out.print("\nGoodput", style="bold")
    table = _table("", "mean", "95 % interval", "sd of a run", *(["5 %..95 % of runs"] if quantiles else []))
    for name, label, form in rows:
        metric = metrics[name]
        bound = metric.get("lower_bound95")
        cells = [
            f"> {form(bound)}" if bound is not None else _cell(metric["mean"], form),
            _range(metric["mean_ci95"], form),
            _cell(metric["std"], form),
        ]
        if quantiles:
            cells.append(_range((metric["p05"], metric["p95"]), form))
        table.add_row(label, *cells)
    out.print(table)
    band = metrics["ettr"]["band90"]
    if band is not None:
        out.print(f"  failure rates known only from their counts: ETTR {_range(band, _percent)} (90 %)")


def _print_jobs(out: Console, content: dict[str, Any]) -> None:
    """Print one line a job, if there are several or any that can finish."""
    jobs = content["per_job"]
    ends = any(job["finished"] or job["censored"] for job in jobs.values())
    if len(jobs) == 1 and not ends:
        return
    out.print("\nJobs", style="bold")
    table = _table("", "GPUs", "ETTR", "queued", "interruptions", *(["finished"] if ends else []))
    for name, job in jobs.items():
        cells = [
            f"{job['gpus']:,}",
            _cell(job["metrics"]["ettr"]["mean"], _percent),
            _cell(job["time_shares"]["queued"], _percent),
            _cell(job["metrics"]["interruptions"]["mean"], _count),
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
    table = _table("", "share", "GPU-hours", "", "mostly because of")
    losses = content["loss_gpu_s"]
    for name, share in shares.items():
        if share == 0 and name not in ("productive", "lost_work"):
            continue
        table.add_row(_NAMES[name], _percent(share), f"{share * hours:,.0f}", _bar(share), _main_cause(losses, name))
    table.add_row("total", _percent(sum(shares.values())), f"{hours:,.0f}", "", "")
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
    table = _table("window", "ETTR", "")
    for window in chosen:
        ettr = window["ettr"]
        table.add_row(f"{_time(window['start_s'])} to {_time(window['end_s'])}", _cell(ettr, _percent), _bar(ettr or 0))
    out.print(table)


def _print_causes(out: Console, content: dict[str, Any]) -> None:
    causes = {name: row for name, row in content["interruptions_by_cause"].items() if row["mean"]}
    if not causes:
        return
    out.print("\nInterruptions by cause", style="bold")
    table = _table("", "mean", "95 % interval", "GPU-hours lost", "")
    total = sum(row["mean"] for row in causes.values())
    for name, row in causes.items():
        lost = sum(content["loss_gpu_s"][name].values()) / 3600
        interval = _range(row["mean_ci95"], _count)
        table.add_row(name, _count(row["mean"]), interval, f"{lost:,.0f}", _bar(row["mean"] / total))
    out.print(table)


def _print_closed_form(out: Console, content: dict[str, Any]) -> None:
    formula = content["closed_form"]
    out.print("\nClosed form beside the simulation", style="bold")
    if formula["ettr"] is not None:
        table = _table("", "closed form", "simulation")
        simulated = content["time_shares"]
        for name, value in formula["time_shares"].items():
            parts = ("reschedule", "initialize", "restore") if name == "restart" else (name,)
            other = None if simulated[parts[0]] is None else sum(simulated[part] for part in parts)
            table.add_row(" + ".join(_NAMES[part] for part in parts), _percent(value), _cell(other, _percent))
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


def _cell(value: float | None, form: Callable[[float], str]) -> str:
    """Return a number as text; a dash where the data do not support one."""
    return "-" if value is None else form(value)


def _range(ends: Sequence[float | None] | None, form: Callable[[float], str]) -> str:
    """Return two numbers as text; a dash where the data do not support both."""
    if ends is None or ends[0] is None or ends[1] is None:
        return "-"
    low, high = form(ends[0]), form(ends[1])
    number, _, unit = low.partition(" ")
    # A unit that both have is said once.
    return f"{number if unit == high.partition(' ')[2] else low}..{high}"


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _count(value: float) -> str:
    return f"{value:,.1f}"


def _amount(value: float) -> str:
    """Return a large number with its prefix, to four digits."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:,.4g} {prefix}"
    return f"{value:,.0f}"


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


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
