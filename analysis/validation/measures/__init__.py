"""What makes our value of a row, by the name that rows call it.

A measure is a function ``measure(lab, replications, **arguments) -> Estimate``. To add some: one file with a dict
``MEASURES``, one line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from analysis.validation.row import Estimate

__all__ = ["MEASURES"]

MEASURES: Mapping[str, Callable[..., Estimate]] = {}
