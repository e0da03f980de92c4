"""The kernels of a step, as data and as test cases, and compared with measured times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from ettrick import sim
from ettrick.analysis.amounts import percent_text
from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results import explained
from ettrick.analysis.results.files import csv_text
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


COUNTED = ("gemm", "attention", "elementwise", "collective")
"""Kinds of kernels that can be measured by themselves."""

_MICROSECOND = 1e-6  # [s]


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
        if row.kind in COUNTED:
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
    names = [row.id for row in rows if row.kind in COUNTED]
    measured: Measured = {}

    def read(row: Mapping[str, str], _line: int) -> None:
        name, text = row["kernel"], row["measured_us"]
        if text.lower() in records.NOTHING:
            return
        if name not in names:
            raise ValueError(f"kernel: the step has no '{name}'{suggest(name, names)}")
        time = table.value(row, "measured_us", records.number)
        if not time:
            raise ValueError(f"column 'measured_us' holds '{text}', which must be above zero")
        measured.setdefault(name, []).append(time * _MICROSECOND)

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
) -> tuple[explained.KernelsDocument, list[Kernel]]:
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
    roofs = {name: products.get(name, products["bf16"]).best * chip.peak[name] for name in sorted(formats)}
    means = {name: _mean(times) for name, times in measured[-1].items()} if measured else {}
    after = calibrated(rows, means)
    content = explained.KernelsDocument(
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


def _row(row: Kernel, plan: StepPlan) -> explained.KernelRow:
    return explained.KernelRow(
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
    shares, software = plan.machine.shares, {}
    in_step = {"gemm": float(steps.fit()["assumed"]["matmul_share"]), "attention": steps.KERNEL}
    for term, factor in in_step.items():
        before, now = (math.fsum(row.step_time for row in timings if row.term == term) for timings in (rows, after))
        if now != before:
            software[term] = min(getattr(shares, term) / factor * before / now, 1.0)
    return software


def opportunities(rows: Sequence[Kernel], measured: Measured) -> list[explained.MeasuredKernel]:
    """Return the measured kernels, those first that the step would gain most from at the shortest known time.

    A kernel adds as much more to the step as it takes longer by itself, but for what is hidden.
    """
    gains = []
    for row in rows:
        if row.id in measured:
            mean = _mean(measured[row.id])
            gains.append(
                explained.MeasuredKernel(
                    kernel=row.id,
                    measurements=len(measured[row.id]),
                    measured_s=mean,
                    predicted_s=row.alone,
                    saved_s=row.count * (mean - row.best) * row.time / row.alone,
                )
            )
    return sorted(gains, key=lambda gain: -gain.saved_s)


def compared(before: Measured, after: Measured, *, threshold: float, noise: float) -> explained.KernelComparison:
    """Return the changes between two files, the largest increase first.

    The noise of a measurement is the relative standard deviation of repeated ones, pooled over kernels and files, or as
    stated. A change is one if it is larger than `threshold` and its 95 % interval, all kernels together (Bonferroni).
    """
    repeated = [times for measurements in (before, after) for times in measurements.values()]
    degrees = sum(len(times) - 1 for times in repeated)
    if degrees:
        noise = math.sqrt(math.fsum((time / _mean(times) - 1) ** 2 for times in repeated for time in times) / degrees)
    both = before.keys() & after.keys()
    quantile = t_quantile(1 - 0.05 / max(len(both), 1), degrees or math.inf)
    changes = []
    for name in both:
        old, new = _mean(before[name]), _mean(after[name])
        width = quantile * noise * math.sqrt(1 / len(before[name]) + (new / old) ** 2 / len(after[name]))
        change = new / old - 1
        verdict: Literal["slower", "faster", "same"] = "slower" if change > 0 else "faster"
        if abs(change) <= max(threshold, width):
            verdict = "same"
        numbers = {"before_s": old, "after_s": new, "change": change, "noise": width}
        changes.append(explained.KernelChange(kernel=name, verdict=verdict, **numbers))
    return explained.KernelComparison(
        threshold=threshold,
        noise=noise,
        noise_basis="repeated measurements" if degrees else "stated",
        changes=sorted(changes, key=lambda row: (-row.change, row.kernel)),
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


def regressions(content: explained.KernelsDocument) -> list[str]:
    """Return a line for each kernel that has become slower beyond threshold and noise."""
    if content.comparison is None:
        return []
    threshold = f"threshold {percent_text(content.comparison.threshold, 1)}"
    return [
        f"{row.kernel}: slower by {percent_text(row.change, 1)} ({threshold}, noise {percent_text(row.noise, 1)})"
        for row in content.comparison.changes
        if row.verdict == "slower"
    ]
