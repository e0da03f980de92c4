"""What makes our value of a row, by the name that rows call it.

A measure is a function ``measure(lab, replications, **arguments) -> Estimate``. To add some: one file with a dict
``MEASURES``, and its name below, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.validation.measures import (
    airesim,
    collectives,
    daly,
    infinitehbd,
    inria,
    llama3,
    meta_rsc,
    oracle,
    presets,
    recovery,
    sizes,
    spares,
    steps,
    weaker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.row import Estimate

__all__ = ["MEASURES"]

_FILES: tuple[Mapping[str, Any], ...] = (
    airesim.MEASURES,
    collectives.MEASURES,
    daly.MEASURES,
    infinitehbd.MEASURES,
    inria.MEASURES,
    llama3.MEASURES,
    meta_rsc.MEASURES,
    oracle.MEASURES,
    presets.MEASURES,
    recovery.MEASURES,
    sizes.MEASURES,
    spares.MEASURES,
    steps.MEASURES,
    weaker.MEASURES,
)

MEASURES: Mapping[str, Callable[..., Estimate]] = {name: measure for file in _FILES for name, measure in file.items()}

assert len(MEASURES) == sum(len(file) for file in _FILES), "two measures have one name"
