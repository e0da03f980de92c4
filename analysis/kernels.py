"""What a step is made of: kernels as data, as text, as a roofline, as test cases, and beside measured times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from ettrick import sim
from ettrick.analysis.amounts import percent_text
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Dot, Series
from ettrick.analysis.page.first_screen import first_screen
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Figure, Report, Section, table_of
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.explained import (
    KernelChange,
    KernelComparison,
    KernelRow,
    KernelsDocument,
    MeasuredKernel,
)
from ettrick.analysis.results.files import csv_text
from ettrick.analysis.results.step import unit_text
from ettrick.analysis.statistics.estimates import t_quantile
from ettrick.sim import records
from ettrick.sim.catalog import steps
from ettrick.sim.steps.kernels import calibrated, kernels
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ettrick.sim import Prepared
    from ettrick.sim.steps import StepPlan
    from ettrick.sim.steps.kernels import Benchmarks, Kernel

Measured = dict[str, list[float]]
"""Measured times of kernels by themselves, by name [s]."""

COLUMNS = (
    "kernel", "kind", "format", "m", "n", "k", "groups", "bytes", "ranks", "calls", "predicted_us", "measured_us",
)  # fmt: skip
"""Columns of test cases: a measured file needs the first and the last one."""

_COUNTED = ("gemm", "attention", "elementwise", "collective")
_SIZE = {"T": 1e12, "us": 1e-6}


class MeasuredError(ValueError):
    """A file of measured times that cannot be used; the message names file and line."""


def _kernels_of(prepared: Prepared, job: str | None) -> tuple[int, StepPlan, list[Kernel]]:
    """Return the number of a job, its step and the kernels of that."""
    index = sim.job_index(prepared.scenario, job)
    plan = prepared.jobs[index].plan
    if plan is None:
        raise ValueError(
            f"job '{prepared.scenario.jobs[index].name}': the step model needs its model, batch and parallelism"
        )
    return index, plan, kernels(plan, steps.benchmarks(plan.machine.chip, plan.machine.shares))


def shapes_csv(rows: Sequence[Kernel]) -> str:
    """Return the shapes as CSV, a line for each kernel that can be measured; times in microseconds."""
    lines: list[Sequence[object]] = [COLUMNS]
    for row in _by_share(rows):
        if row.kind in _COUNTED:
            sizes = (f"{size:.10g}" for size in (row.m, row.n, row.k, row.groups, row.size))
            times = (f"{row.count:.10g}", f"{row.alone * 1e6:.6g}", "")
            lines.append([row.id, row.kind, row.precision, *sizes, row.ranks, *times])
    return csv_text(lines)


def read_measured(path: Path, rows: Sequence[Kernel]) -> Measured:
    """Return the times of a file; several lines of a kernel are repeated measurements, empty times none.

    Raises
    ------
    MeasuredError
        If the file cannot be read, or a line names no kernel of the step or has no time above zero.
    """
    known = [row.id for row in rows if row.kind in _COUNTED]
    measured: Measured = {}

    def read(row: Mapping[str, str], _line: int) -> None:
        name, text = row["kernel"], row["measured_us"]
        if text.lower() in records.NOTHING:
            return
        if name not in known:
            raise ValueError(f"kernel: the step has no '{name}'{suggest(name, known)}")
        time = table.value(row, "measured_us", records.number)
        if not time:
            raise ValueError(f"column 'measured_us' holds '{text}', which must be above zero")
        measured.setdefault(name, []).append(time * _SIZE["us"])

    try:
        columns = ("kernel", "measured_us")
        numbered = records.lines(str(path), may_be_pipe=True)
        table = records.Table(numbered, str(path), {name: (name,) for name in columns}, columns)
        for _ in table.read(read):
            pass
    except records.LogError as error:
        raise MeasuredError(str(error)) from None
    if not measured:
        raise MeasuredError(f"{path}: measured_us: is empty in all lines")
    return measured


def describe_kernels(
    prepared: Prepared, job: str | None, files: Sequence[Path] = (), threshold: float = 0.05, noise: float = 0.02
) -> tuple[KernelsDocument, list[Kernel]]:
    """Return the kernels of a step as a document, and as they are.

    Parameters
    ----------
    prepared, job
        The scenario, and the name of a job; without one, the first.
    files
        Measured times: of one file, or of two that are compared, of which the second one counts.
    threshold
        Relative change between two files that counts at least [-].
    noise
        Relative standard deviation of one measurement [-], where no kernel was measured more than once.

    Raises
    ------
    ValueError
        If the job has no such step, or a file cannot be used.
    """
    index, plan, rows = _kernels_of(prepared, job)
    chip = plan.machine.chip
    benchmarks = steps.benchmarks(chip, plan.machine.shares)
    measured = [read_measured(path, rows) for path in files]
    formats = {row.precision for row in rows if row.kind in ("gemm", "attention")}
    products = benchmarks.products
    roofs = {each: products.get(each, products["bf16"]).best * chip.peak[each] for each in sorted(formats)}
    means = {name: _mean(times) for name, times in measured[-1].items()} if measured else {}
    after = calibrated(rows, means)
    content = KernelsDocument(
        format=FORMAT,
        scenario=prepared.scenario.name,
        job=prepared.scenario.jobs[index].name,
        job_index=index,
        accelerator=chip.title,
        benchmarks=benchmarks.source,
        step_s=plan.time,
        step_s_band90=plan.band90 if plan.sigma else None,
        breakdown_s=plan.breakdown._asdict(),
        roofs=roofs,
        memory_bytes_per_s=chip.memory_bandwidth,
        kernels=[_row(row, plan) for row in _by_share(rows)],
        measured=opportunities(rows, measured[-1]) if measured else [],
        calibrated_step_s=math.fsum(row.step_time for row in after) if means else None,
        software=_software(plan, rows, after) if means and plan.scale == 1.0 else {},
        comparison=compared(*measured, threshold=threshold, noise=noise) if len(measured) > 1 else None,
        notes=list(_notes(plan, benchmarks, means)),
    )
    return content, rows


def _by_share(rows: Sequence[Kernel]) -> list[Kernel]:
    return sorted(rows, key=lambda row: -row.step_time)


def _row(row: Kernel, plan: StepPlan) -> KernelRow:
    return KernelRow(
        kernel=row.id,
        kind=row.kind,
        term=row.term,
        format=row.precision,
        m=row.m,
        n=row.n,
        k=row.k,
        groups=row.groups,
        ranks=row.ranks,
        calls=row.count,
        flop=row.flop,
        bytes=row.size,
        flop_per_byte=row.intensity,
        bound=row.bound,
        waves=row.waves,
        alone_s=row.alone,
        best_s=row.best or None,
        call_s=row.time,
        step_s=row.step_time,
        share=row.step_time / plan.time,
        reached=row.reached,
    )


def _software(plan: StepPlan, rows: Sequence[Kernel], after: Sequence[Kernel]) -> dict[str, float]:
    """Return the shares of the peak with which the step model has the measured times: keys of ``software``."""
    shares, found = plan.machine.shares, {}
    in_step = {"gemm": float(steps.fit()["assumed"]["matmul_share"]), "attention": steps.KERNEL}
    for term, factor in in_step.items():
        before, now = (math.fsum(row.step_time for row in each if row.term == term) for each in (rows, after))
        if now != before:
            found[term] = min(getattr(shares, term) / factor * before / now, 1.0)
    return found


def opportunities(rows: Sequence[Kernel], measured: Measured) -> list[MeasuredKernel]:
    """Return the measured kernels, those first that the step would gain most from at the shortest known time.

    A kernel adds as much more to the step as it takes longer by itself, but for what is hidden.
    """
    found = []
    for row in rows:
        if row.id in measured:
            mean = _mean(measured[row.id])
            found.append(
                MeasuredKernel(
                    kernel=row.id,
                    measurements=len(measured[row.id]),
                    measured_s=mean,
                    predicted_s=row.alone,
                    saved_s=row.count * (mean - row.best) * row.time / row.alone,
                )
            )
    return sorted(found, key=lambda one: -one.saved_s)


def compared(before: Measured, after: Measured, *, threshold: float, noise: float) -> KernelComparison:
    """Return the changes between two files, the largest increase first.

    The noise of a measurement is the relative standard deviation of repeated ones, pooled over kernels and files, or as
    stated. A change is one if it is larger than `threshold` and its 95 % interval, all kernels together (Bonferroni).
    """
    repeated = [times for each in (before, after) for times in each.values()]
    degrees = sum(len(times) - 1 for times in repeated)
    if degrees:
        noise = math.sqrt(math.fsum((time / _mean(times) - 1) ** 2 for times in repeated for time in times) / degrees)
    both = before.keys() & after.keys()
    quantile = t_quantile(1 - 0.05 / max(len(both), 1), degrees or math.inf)
    found = []
    for name in both:
        old, new = _mean(before[name]), _mean(after[name])
        width = quantile * noise * math.sqrt(1 / len(before[name]) + (new / old) ** 2 / len(after[name]))
        change = new / old - 1
        verdict: Literal["slower", "faster", "same"] = "slower" if change > 0 else "faster"
        if abs(change) <= max(threshold, width):
            verdict = "same"
        found.append(KernelChange(kernel=name, before_s=old, after_s=new, change=change, noise=width, verdict=verdict))
    return KernelComparison(
        threshold=threshold,
        noise=noise,
        noise_basis="repeated measurements" if degrees else "stated",
        changes=sorted(found, key=lambda one: (-one.change, one.kernel)),
        not_in_both=sorted(before.keys() ^ after.keys()),
    )


def _mean(times: Sequence[float]) -> float:
    return math.fsum(times) / len(times)


def _notes(plan: StepPlan, benchmarks: Benchmarks, means: Mapping[str, float]) -> Iterator[str]:
    if benchmarks.source:
        error = benchmarks.products.get(plan.work.precision, benchmarks.products["bf16"]).error
        yield (
            f"matrix products depend on their size as those of {benchmarks.source} measured by themselves (fitted, "
            f"mean error {percent_text(error, 1)}); their sum is that of the step model, fitted to whole steps; that "
            "fit has no term of partly filled waves, which are counted here in tiles of 128 x 256"
        )
    else:
        yield (
            "no measurements of matrix products by size are published for this generation: all reach the same share of "
            "the peak, and are given no waves"
        )
    yield "kernels are those of the slowest stage, on one GPU; of collectives, time in the step is what is not hidden"
    if plan.scale != 1.0:
        yield f"times in the step are the model's x {plan.scale:.3f}, measured over modelled step of the scenario"
    if means:
        yield "measured times are of kernels by themselves; a kernel takes as much longer in the step as before"
        if plan.scale != 1.0:
            yield "the scenario states a measured step, so no shares for its software are derived from kernels"


def regressions(content: KernelsDocument) -> list[str]:
    """Return a line for each kernel that has become slower beyond threshold and noise."""
    found = content.comparison
    return [
        f"{one.kernel}: slower by {percent_text(one.change, 1)} (threshold {percent_text(found.threshold, 1)}, "
        f"noise {percent_text(one.noise, 1)})"
        for one in (found.changes if found is not None else ())
        if found is not None and one.verdict == "slower"
    ]


# Kernels in the terminal, and on a page.

_NAMED = 8
"""Kernels that a picture names."""

_ACROSS, _UP = 72, 16
"""Letters of a roofline in the terminal."""


def sections(content: KernelsDocument, top: int | None = None) -> list[Section]:
    """Return the kernels as tables, the `top` ones with the largest share of the step."""
    shown = content.kernels[:top]
    columns: tuple[Column[KernelRow], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("m x n x k, or size", _sizes, is_number=False),
        Column("format", lambda row: row.format, is_number=False),
        Column("calls", lambda row: f"{row.calls:,.4g}"),
        Column("FLOP/B", lambda row: "" if row.flop_per_byte is None else f"{row.flop_per_byte:,.0f}"),
        Column("bound", lambda row: row.bound or "", is_number=False),
        Column("waves", lambda row: "" if row.waves is None else percent_text(row.waves, 0)),
        Column("alone [us]", lambda row: _us(row.alone_s) if row.kind in _COUNTED else ""),
        Column("step [ms]", lambda row: f"{row.step_s * 1e3:,.4g}"),
        Column("of step", lambda row: percent_text(row.share, 1)),
        Column("of benchmark", lambda row: "" if row.reached is None else percent_text(row.reached, 0)),
    )
    rest = content.kernels[len(shown) :]
    left = math.fsum(row.share for row in rest)
    text = [f"step {_step_text(content)} on {content.accelerator}, by kernel of the slowest stage"]
    text += [f"{len(rest)} others: {percent_text(left, 1)} of the step"] if rest else []
    title = f"{content.scenario}, job {content.job}"
    found = [Section("kernels", title, tuple(text), (table_of("", shown, columns),), tuple(content.notes))]
    if content.measured:
        found.append(_measured_section(content))
    if content.comparison is not None:
        found.append(_comparison_section(content.comparison))
    return found


def _step_text(content: KernelsDocument) -> str:
    """Return the time of the step with its band, or that it is measured."""
    band = content.step_s_band90
    return f"{content.step_s:,.4g} s " + (
        "(measured)" if band is None else f"(90 %: {band[0]:,.4g} to {band[1]:,.4g} s)"
    )


def _sizes(row: KernelRow) -> str:
    if row.m:
        groups = f"{row.groups:,.4g} x " if row.groups != 1 else ""
        return groups + " x ".join(f"{size:.6g}" for size in (row.m, row.n, row.k))
    if not row.bytes:
        return ""
    return unit_text(row.bytes, "B") + (f", {row.ranks:,} GPUs" if row.ranks else "")


def _us(seconds: float) -> str:
    time = seconds / _SIZE["us"]
    return f"{time:,.0f}" if time >= 1000 else f"{time:.4g}"


def _measured_section(content: KernelsDocument) -> Section:
    columns: tuple[Column[MeasuredKernel], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("measurements", lambda row: f"{row.measurements:,}"),
        Column("measured [us]", lambda row: _us(row.measured_s)),
        Column("predicted [us]", lambda row: _us(row.predicted_s)),
        Column("difference", lambda row: percent_text(row.measured_s / row.predicted_s - 1, 1, "+")),
        Column("step shorter by [ms]", lambda row: f"{row.saved_s * 1e3:,.4g}"),
    )
    assert content.calibrated_step_s is not None
    notes = [f"with these kernels a step takes {content.calibrated_step_s:,.4g} s; as modelled {content.step_s:,.4g} s"]
    if content.software:
        stated = ", ".join(f"{name}: {share:.4g}" for name, share in content.software.items())
        notes.append(f"to simulate with them: --set jobs.{content.job_index}.software='{{{stated}}}'")
    title = "Measured kernels, by what the step would gain at the shortest known time"
    return Section("measured", title, (), (table_of("", content.measured, columns),), tuple(notes))


def _comparison_section(found: KernelComparison) -> Section:
    columns: tuple[Column[KernelChange], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("before [us]", lambda row: _us(row.before_s)),
        Column("after [us]", lambda row: _us(row.after_s)),
        Column("change", lambda row: percent_text(row.change, 1, "+")),
        Column("noise", lambda row: percent_text(row.noise, 1)),
        Column("verdict", lambda row: row.verdict, is_number=False),
    )
    slower = sum(one.verdict == "slower" for one in found.changes)
    title = f"{slower} of {len(found.changes)} kernels are slower than in the first file"
    text = (
        f"threshold {percent_text(found.threshold, 1)}; a measurement scatters by {percent_text(found.noise, 2)} "
        f"({found.noise_basis}); noise is half the 95 % interval of a change, all kernels together"
    )
    notes = [f"in one file alone: {', '.join(found.not_in_both)}"] if found.not_in_both else []
    return Section("comparison", title, (text,), (table_of("", found.changes, columns),), tuple(notes))


def format_kernels(content: KernelsDocument, top: int | None = None) -> str:
    """Return kernels and their roofline as text for standard output."""
    first, *others = sections(content, top)
    text = [terminal.write([first]), _plotted(content), *([terminal.write(others)] if others else [])]
    return "\n\n".join(part for part in text if part)


def _points(content: KernelsDocument) -> list[tuple[KernelRow, float, float]]:
    """Return the kernels that compute, the largest share first, with intensity [FLOP/B] and rate in the step [TFLOP/s].

    Of products that differ in the pass alone, one: they lie on each other.
    """
    found: dict[tuple[float, ...], tuple[KernelRow, float, float]] = {}
    for row in content.kernels:
        if row.flop_per_byte is not None and row.call_s:
            rate = row.flop / row.call_s / _SIZE["T"]
            key = (float(f"{row.flop_per_byte:.3g}"), float(f"{rate:.3g}"))
            found.setdefault(key, (row, row.flop_per_byte, rate))
    return list(found.values())


def roofline(content: KernelsDocument) -> Curves:
    """Return the roofline: what memory and matrix units allow by arithmetic intensity, and where the kernels are."""
    points = _points(content)
    bandwidth = content.memory_bytes_per_s / _SIZE["T"]
    roofs = {name: rate / _SIZE["T"] for name, rate in content.roofs.items() if rate is not None}
    knees = [rate / bandwidth for rate in roofs.values()]
    low, high = min([x for _, x, _ in points] + knees) / 3, max([x for _, x, _ in points] + knees) * 3
    series = []
    for number, (name, rate) in enumerate(roofs.items()):
        knee = rate / bandwidth
        heights = (low * bandwidth, rate, rate)
        series.append(Series(f"{name}, benchmark", (low, knee, high), heights, look="dashed", hue=number))
    first = points[0][0]
    return Curves(
        f"{first.kernel} is {percent_text(first.share, 1)} of the step, at {percent_text(first.reached or 0.0, 0)} of "
        "the benchmark",
        ChartAxis("arithmetic intensity [FLOP/B]", is_log=True),
        ChartAxis("rate in the step [TFLOP/s]", is_log=True),
        tuple(series),
        dots=tuple(Dot(row.kernel if at < _NAMED else "", x, y) for at, (row, x, y) in enumerate(points)),
    )


def _plotted(content: KernelsDocument) -> str:
    """Return the roofline in letters: a capital for each of the kernels with the largest share of the step."""
    chart = roofline(content)
    points = [*((dot.x, dot.y) for dot in chart.dots), *_ends_of(chart)]
    xs, ys = zip(*points, strict=True)
    left, right, low, high = (math.log(end) for end in (min(xs), max(xs), min(ys), max(ys)))
    named = [dot for dot in chart.dots if dot.name]
    letters = [chr(ord("A") + number) for number in range(len(named))]
    signs = [*_roofs(chart, content.memory_bytes_per_s / _SIZE["T"], (left, right), min(ys))]
    signs += [(dot.x, dot.y, letter) for letter, dot in zip(letters, named, strict=True)]
    signs += [(dot.x, dot.y, ".") for dot in chart.dots[len(named) :]]
    cells = [[" "] * _ACROSS for _ in range(_UP)]
    for x, y, sign in signs:
        column = round((math.log(x) - left) / (right - left) * (_ACROSS - 1))
        row = round((high - math.log(y)) / (high - low) * (_UP - 1))
        if cells[row][column] in " -.":
            cells[row][column] = sign
    scale = [f"{math.exp(high):,.0f}", *[""] * (_UP - 2), f"{math.exp(low):,.0f}"]
    lines = [f"  roofline: {chart.y.title} over {chart.x.title}, both logarithmic; - benchmark"]
    lines += [f"  {mark:>7} |{''.join(row).rstrip()}" for mark, row in zip(scale, cells, strict=True)]
    first, last = f"{math.exp(left):,.3g}", f"{math.exp(right):,.3g}"
    lines += [f"  {'':7} +{'-' * _ACROSS}", f"  {'':8} {first}{last:>{_ACROSS - len(first)}}"]
    lines += [f"  {letter} {dot.name}" for letter, dot in zip(letters, named, strict=True)]
    return "\n".join(lines)


def _ends_of(chart: Curves) -> Iterator[tuple[float, float]]:
    """Yield the points that the curves of a chart join."""
    for series in chart.series:
        yield from ((x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None)


def _roofs(
    chart: Curves, bandwidth: float, ends: tuple[float, float], lowest: float
) -> Iterator[tuple[float, float, str]]:
    """Yield where the dashes of the benchmarks are, between two logarithms of the intensity."""
    for column in range(_ACROSS):
        x = math.exp(ends[0] + (ends[1] - ends[0]) * column / (_ACROSS - 1))
        for series in chart.series:
            roof = series.y[-1]
            assert roof is not None
            yield x, min(roof, max(x * bandwidth, lowest)), "-"


def report(content: KernelsDocument, command: str) -> Report:
    """Return a page about the kernels of a step."""
    chart = roofline(content)
    first = content.kernels[0]
    alt = f"Roofline of {len(chart.dots)} kernels. {chart.title}."
    bound: dict[str, float] = {}
    for row in content.kernels:
        name = row.bound or "waiting"
        bound[name] = bound.get(name, 0.0) + row.share
    largest = sorted(bound.items(), key=lambda pair: -pair[1])[:3]
    opening = first_screen(
        "What is a step made of?",
        (f"{first.kernel} is {percent_text(first.share, 1)} of it, the largest share.",),
        ((f"Kernels are predicted, not measured; the step is {_step_text(content)}.",),),
        Figure("roofline", chart, alt, "Both axes are logarithmic; dashed: what was measured at best."),
        [(f"bound by {name}: {percent_text(share, 1)} of the step",) for name, share in largest],
        (("Other stages than the slowest one.",),),
    )
    return Report(f"{content.scenario}: kernels", opening, tuple(sections(content)), footer=(command,))
