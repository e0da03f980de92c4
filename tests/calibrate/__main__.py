"""Fit the step model to published steps, print how well it does, write the catalog: ``make fit-steps``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ettrick.analysis.amounts import empty_table, number_of, percent_text
from ettrick.analysis.terminal import ProgressBar, console
from ettrick.analysis.validation.published_steps import STRONG, default_folder, mape, sources, utilisation
from ettrick.sim import catalog
from tests.calibrate.fit import errors, expert_priors, fit
from tests.calibrate.outcome import (
    EXCEPTIONS,
    Check,
    anchors,
    calibrate,
    calibrated_scatter,
    change_checks,
    checks,
    constants_text,
    error_cells,
    memory_peaks,
    nanotron_order,
    scatter,
    weak_scaling,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ettrick.analysis.validation.published_steps import MeasuredStep
    from tests.calibrate.outcome import CalibrationResult

_MARKS = {True: "ok", False: "MISSED", None: ""}

_FEW = 5
"""Rows below which a fit to them alone says nothing [-]."""


def print_outcome(out: Console, found: CalibrationResult, folder: Path) -> bool:
    """Print all tables; return whether every target is reached."""
    results = checks(found)
    needed = change_checks(found)
    _print_numbers(out, found)
    _print_unused(out, found)
    _print_sources(out, found)
    _print_strong(out, found)
    _print_experts(out, found)
    _print_anchors(out, found, folder)
    _print_checks(out, "Parts of the model taken away, fitted again, beside an earlier model's loss", needed)
    _print_checks(out, "Targets", results)
    return all(check.good is not False for check in (*results, *needed))


def _print_numbers(out: Console, found: CalibrationResult) -> None:
    """Print the fitted numbers beside what was known beforehand."""
    out.print("Fitted numbers", style="bold")
    table = empty_table("", "before", "fitted", "of best product")
    for key, prior in found.fitted.items():
        share = found.assumed.matmul.get((key[1], key[2])) if key[0] == "gemm" else None
        name = " ".join(key[1:]) if key[0] != "attention" else f"attention {key[1]}"
        value = f"{found.numbers.value(key):.4g}"
        of_best = "" if share is None else percent_text(share, 1)
        table.add_row(name, f"{prior.median:.3g} x/: {np.exp(prior.deviation):.2f}", value, of_best)
    for (generation, precision), guess in found.assumed.gemm.items():
        table.add_row(f"{generation} {precision} (assumed)", "", f"{guess:.4g}", "")
    out.print(table)


def _print_unused(out: Console, found: CalibrationResult) -> None:
    """Print which rows are not fitted."""
    out.print("\nNot fitted", style="bold")
    for unused in (*found.dense.unused, *found.mixed.unused):
        out.print(f"  {number_of(unused.rows, 'row')} of {unused.what}: {unused.reason}")


def _print_sources(out: Console, found: CalibrationResult) -> None:
    """Print the errors of each source, fitted and left out."""
    rows, error = found.dense.rows, found.dense_errors
    left = {rows[fold.out[0]].source: mape(fold.errors) for fold in found.left}
    out.print("\nModels without experts: errors by source", style="bold")
    table = empty_table("", "rows", "error", "bias", "worst", "left out", "note")
    for name, places in sources(rows).items():
        note = EXCEPTIONS.get(name, "")
        table.add_row(name, *error_cells(error[places]), percent_text(left[name], 1), note)
    reported = errors(found.dense.reported, found.numbers) if found.dense.reported else None
    if reported is not None:
        table.add_row(found.dense.reported[0].source, *error_cells(reported), "", "capped, not fitted")
    table.add_row("all", *error_cells(error), "", "")
    out.print(table)
    factors = (
        ("", scatter(error)),
        (", with a factor for each source and precision", calibrated_scatter(rows, error)),
        (", for each model and part of them too", calibrated_scatter(rows, error, by_model=True)),
        (", of sources left out", scatter(np.concatenate([fold.errors for fold in found.left]))),
    )
    for what, value in factors:
        out.print(f"  scatter{what}: {value:.3f}")


def _print_strong(out: Console, found: CalibrationResult) -> None:
    """Print the strong scaling of one model point by point."""
    places = sources(found.dense.rows)[STRONG]
    out.print("\nStrong scaling of a 177B model on H100 (Megatron-LM README, chart)", style="bold")
    table = empty_table("GPUs", "published", "ours", "delta", "MFU published", "MFU ours")
    for place in places:
        row, away = found.dense.rows[place], float(found.dense_errors[place])
        time = row.measured * (1 + away)
        both = (percent_text(utilisation(row, seconds), 1) for seconds in (row.measured, time))
        table.add_row(f"{row.work.gpus:,}", f"{row.measured:.2f} s", f"{time:.2f} s", percent_text(away, 1, "+"), *both)
    out.print(table)


def _print_experts(out: Console, found: CalibrationResult) -> None:
    """Print the errors of models with experts, by model and by release of the software."""
    rows, error = found.mixed.rows, found.mixed_errors
    left = {found.mixed_rows[fold.out[0]].source: fold.errors for fold in found.mixed_left}
    out.print("\nModels with experts: errors by model and by release of the software", style="bold")
    table = empty_table("", "rows", "error", "bias", "worst", "left out", "fitted to it alone")
    for name, places in sources(rows).items():
        table.add_row(name, *error_cells(error[places]), percent_text(mape(left[name]), 1), "")
    for name, places in sources(found.mixed.reported).items():
        part = errors([found.mixed.reported[place] for place in places], found.numbers)
        table.add_row(f"{name}, not fitted", *error_cells(part), "", "")
    releases: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        releases.setdefault(row.release[:5], []).append(place)
    for release, places in sorted(releases.items()):
        alone = _alone([rows[place] for place in places], found) if len(places) >= _FEW else ""
        table.add_row(f"release {release}", *error_cells(error[places]), "", alone)
    table.add_row("all", *error_cells(error), "", "")
    out.print(table)


def _alone(rows: list[MeasuredStep], found: CalibrationResult) -> str:
    """Return what the second fit to these rows alone gives."""
    numbers = fit(rows, expert_priors(), found.numbers)
    own = numbers.constants
    text = f"expert_touches {own.expert_touches:.2f}, expert_launch {1e3 * own.expert_launch:.2f} ms"
    return f"{text}: {percent_text(mape(errors(rows, numbers)), 1)}"


def _print_anchors(out: Console, found: CalibrationResult, folder: Path) -> None:
    """Print published results that are not fitted."""
    out.print("\nEmergent: published, not fitted", style="bold")
    table = empty_table("", "GPUs", "published", "ours", "delta")
    for anchor in anchors(found):
        numbers = (f"{anchor.published:.3g} {anchor.unit}", f"{anchor.modelled:.3g} {anchor.unit}")
        table.add_row(
            anchor.what, f"{anchor.gpus:,}", *numbers, percent_text(anchor.modelled / anchor.published - 1, 1, "+")
        )
    out.print(table)
    order = nanotron_order(folder, found.numbers)
    text = f"{order.alike} of {order.pairs} pairs of cluster sizes of a model in the published order of MFU"
    out.print(f"  nanotron, 8 to 512 GPUs, {text}; rank correlation of all layouts {order.correlation:.2f}")
    out.print("  (their step has hardly anything to do at 512 GPUs, and falls by more than ours)")
    peaks = memory_peaks(folder)
    text = f"counted over published peak memory {percent_text(float(peaks.mean()), 1, '+')}"
    out.print(f"  {number_of(len(peaks), 'layout')} of nanotron: {text}, mean absolute {percent_text(mape(peaks), 1)}")
    out.print("\nWeak scaling on H100 at bf16: a batch that grows with the GPUs", style="bold")
    table = empty_table("", "GPUs", "published", "ours")
    for what, sizes in weak_scaling(found.numbers).items():
        for place, (gpus, time, known) in enumerate(sizes):
            published = f"{known:.2f} s" if known is not None else ""
            table.add_row("" if place else what, f"{gpus:,}", published, f"{time:.2f} s")
    out.print(table)


def _print_checks(out: Console, title: str, lines: list[Check]) -> None:
    """Print values beside their targets."""
    out.print(f"\n{title}", style="bold")
    table = empty_table("", "ours", "asked", "result")
    for check in lines:
        table.add_row(check.what, check.value, check.target, _MARKS[check.good])
    out.print(table)


def main(arguments: list[str] | None = None) -> int:
    """Fit, print, write; return 0, 1 if a target is missed or 2 if the tables are not as they should be."""
    parser = argparse.ArgumentParser(prog="fit-steps", description="Fit the step model to published steps.")
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="folder of the tables")
    target = Path(catalog.__file__).parent / "step_constants.yaml"
    parser.add_argument("--out", type=Path, default=target, metavar="FILE", help="where to write (the catalog)")
    options = parser.parse_args(arguments)
    try:
        with ProgressBar("fitting", quiet=False) as progress:
            found = calibrate(options.data, progress)
        good = print_outcome(console(sys.stdout), found, options.data)
        options.out.write_text(constants_text(found), encoding="utf-8")
    except (OSError, ValueError) as error:
        console(sys.stderr).print(f"fit-steps: {error}", soft_wrap=True)
        return 2
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
