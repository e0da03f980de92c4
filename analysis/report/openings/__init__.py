"""The first screen of a report, by the kind of results: one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.openings import compare, optimize, run, sensitivity, sweep, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.report.material import Material
    from analysis.report.model import Opening

__all__ = ["OPENINGS"]

OPENINGS: dict[str, Callable[[Material], Opening]] = {
    "run": run.opening,
    "compare": compare.opening,
    "sweep": sweep.opening,
    "sensitivity": sensitivity.opening,
    "optimize": optimize.opening,
    "validate": validate.opening,
}
