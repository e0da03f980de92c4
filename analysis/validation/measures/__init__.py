"""The functions that compute our value of a row, by the name that rows call it.

A measure is a public function ``measure(lab, replications, **arguments) -> Estimate`` of one of these files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ettrick.analysis.validation.measures import crossover, fleet, jobs, nodes, oracle, recovery, services, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ettrick.analysis.validation.lab import MeasuredQuantity

__all__ = ["MEASURES"]

MEASURES: Mapping[str, Callable[..., MeasuredQuantity]] = {
    name: measure
    for file in (crossover, fleet, jobs, nodes, oracle, recovery, services, steps)
    for name, measure in vars(file).items()
    if not name.startswith("_")
    and getattr(measure, "__module__", "") == file.__name__
    and getattr(measure, "__annotations__", {}).get("return") == "MeasuredQuantity"
}
