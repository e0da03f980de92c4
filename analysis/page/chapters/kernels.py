"""Kernels of a step: tables and a roofline for the terminal, and a page, for `ettrick kernels`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ettrick.analysis.amounts import percent_text
from ettrick.analysis.explain.kernels import COUNTED
from ettrick.analysis.page.charts.data import ChartAxis, Curves, Dot, Series
from ettrick.analysis.page.first_screen import first_screen
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Figure, Report, Section, table_of
from ettrick.analysis.results.run import unit_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ettrick.analysis.results import explained


_TERA, _MICROSECOND = 1e12, 1e-6

_NAMED = 8
"""Kernels that a picture names."""

_ACROSS, _UP = 72, 16
"""Letters of a roofline in the terminal."""


def sections(content: explained.KernelsDocument, top: int | None = None) -> list[Section]:
    """Return the kernels as tables, the `top` ones with the largest share of the step."""
    shown = content.kernels[:top]
    columns: tuple[Column[explained.KernelRow], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("m x n x k, or size", _sizes, is_number=False),
        Column("format", lambda row: row.format, is_number=False),
        Column("calls", lambda row: f"{row.calls:,.4g}"),
        Column("FLOP/B", lambda row: "" if row.flop_per_byte is None else f"{row.flop_per_byte:,.0f}"),
        Column("bound", lambda row: row.bound or "", is_number=False),
        Column("waves", lambda row: "" if row.waves is None else percent_text(row.waves, 0)),
        Column("on its own [us]", lambda row: _us(row.alone_s) if row.kind in COUNTED else ""),
        Column("step [ms]", lambda row: f"{row.step_s * 1e3:,.4g}"),
        Column("of step", lambda row: percent_text(row.share, 1)),
        Column("of benchmark", lambda row: "" if row.reached is None else percent_text(row.reached, 0)),
    )
    rest = content.kernels[len(shown) :]
    left = math.fsum(row.share for row in rest)
    text = [f"step {_step_text(content)} on {content.accelerator}, by kernel of the slowest stage"]
    text += [f"{len(rest)} others: {percent_text(left, 1)} of the step"] if rest else []
    title = f"{content.scenario}, job {content.job}"
    parts = [Section("kernels", title, tuple(text), (table_of("", shown, columns),), tuple(content.notes))]
    if content.calibrated_step_s is not None:
        parts.append(_measured_section(content, content.calibrated_step_s))
    if content.comparison is not None:
        parts.append(_comparison_section(content.comparison))
    return parts


def _step_text(content: explained.KernelsDocument) -> str:
    """Return the time of the step with its band, or that it is measured."""
    band = content.step_s_band90
    return f"{content.step_s:,.4g} s " + (
        "(measured)" if band is None else f"(90 %: {band[0]:,.4g} to {band[1]:,.4g} s)"
    )


def _sizes(row: explained.KernelRow) -> str:
    if row.m:
        groups = f"{row.groups:,.4g} x " if row.groups != 1 else ""
        return groups + " x ".join(f"{size:.6g}" for size in (row.m, row.n, row.k))
    if not row.bytes:
        return ""
    return unit_text(row.bytes, "B") + (f", {row.ranks:,} GPUs" if row.ranks else "")


def _us(seconds: float) -> str:
    time = seconds / _MICROSECOND
    return f"{time:,.0f}" if time >= 1000 else f"{time:.4g}"


def _measured_section(content: explained.KernelsDocument, step: float) -> Section:
    columns: tuple[Column[explained.MeasuredKernel], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("measurements", lambda row: f"{row.measurements:,}"),
        Column("measured [us]", lambda row: _us(row.measured_s)),
        Column("predicted [us]", lambda row: _us(row.predicted_s)),
        Column("difference", lambda row: percent_text(row.measured_s / row.predicted_s - 1, 1, "+")),
        Column("step shorter by [ms]", lambda row: f"{row.saved_s * 1e3:,.4g}"),
    )
    notes = [f"with these kernels a step takes {step:,.4g} s; as modelled {content.step_s:,.4g} s"]
    if content.software:
        stated = ", ".join(f"{name}: {share:.4g}" for name, share in content.software.items())
        notes.append(f"to simulate with them: --set jobs.{content.job_index}.software='{{{stated}}}'")
    title = "Measured kernels, by what the step would gain at the shortest known time"
    return Section("measured", title, (), (table_of("", content.measured, columns),), tuple(notes))


def _comparison_section(comparison: explained.KernelComparison) -> Section:
    columns: tuple[Column[explained.KernelChange], ...] = (
        Column("kernel", lambda row: row.kernel),
        Column("before [us]", lambda row: _us(row.before_s)),
        Column("after [us]", lambda row: _us(row.after_s)),
        Column("change", lambda row: percent_text(row.change, 1, "+")),
        Column("noise", lambda row: percent_text(row.noise, 1)),
        Column("verdict", lambda row: row.verdict, is_number=False),
    )
    slower = sum(change.verdict == "slower" for change in comparison.changes)
    title = f"{slower} of {len(comparison.changes)} kernels are slower than in the first file"
    text = (
        f"threshold {percent_text(comparison.threshold, 1)}; a measurement scatters by "
        f"{percent_text(comparison.noise, 2)} ({comparison.noise_basis}); noise is half the 95 % interval of a change, "
        "all kernels together"
    )
    notes = [f"in only one file: {', '.join(comparison.not_in_both)}"] if comparison.not_in_both else []
    return Section("comparison", title, (text,), (table_of("", comparison.changes, columns),), tuple(notes))


def format_kernels(content: explained.KernelsDocument, top: int | None = None) -> str:
    """Return kernels and their roofline as text for standard output."""
    first, *rest = sections(content, top)
    text = [terminal.write([first]), _plotted(content), *([terminal.write(rest)] if rest else [])]
    return "\n\n".join(part for part in text if part)


def _points(content: explained.KernelsDocument) -> list[tuple[explained.KernelRow, float, float]]:
    """Return the kernels that compute, the largest share first, with intensity [FLOP/B] and rate in the step [TFLOP/s].

    Of products that differ in the pass alone, one: they lie on each other.
    """
    points: dict[tuple[float, ...], tuple[explained.KernelRow, float, float]] = {}
    for row in content.kernels:
        if row.flop_per_byte is not None and row.call_s:
            rate = row.flop / row.call_s / _TERA
            key = (float(f"{row.flop_per_byte:.3g}"), float(f"{rate:.3g}"))
            points.setdefault(key, (row, row.flop_per_byte, rate))
    return list(points.values())


def roofline(content: explained.KernelsDocument) -> Curves:
    """Return the roofline: what memory and matrix units allow by arithmetic intensity, and where the kernels are."""
    points = _points(content)
    bandwidth = content.memory_bytes_per_s / _TERA
    roofs = {name: rate / _TERA for name, rate in content.roofs.items() if rate is not None}
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


def _plotted(content: explained.KernelsDocument) -> str:
    """Return the roofline in letters: a capital for each of the kernels with the largest share of the step."""
    chart = roofline(content)
    points = [*((dot.x, dot.y) for dot in chart.dots), *_ends_of(chart)]
    xs, ys = zip(*points, strict=True)
    left, right, low, high = (math.log(end) for end in (min(xs), max(xs), min(ys), max(ys)))
    named = [dot for dot in chart.dots if dot.name]
    letters = [chr(ord("A") + number) for number in range(len(named))]
    signs = [*_roofs(chart, content.memory_bytes_per_s / _TERA, (left, right), min(ys))]
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
    roofs = [roof for series in chart.series if (roof := series.y[-1]) is not None]
    for column in range(_ACROSS):
        x = math.exp(ends[0] + (ends[1] - ends[0]) * column / (_ACROSS - 1))
        for roof in roofs:
            yield x, min(roof, max(x * bandwidth, lowest)), "-"


def report(content: explained.KernelsDocument, command: str) -> Report:
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
