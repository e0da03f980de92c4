"""The currency of what is paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report.material import Material

__all__ = ["currency_of"]


def currency_of(material: Material) -> str:
    """Return the currency of the prices of a study or a scenario; empty without prices."""
    if material.sweep is not None:
        return str(material.sweep["currency"] or "")
    if material.study is not None:
        cost = material.study.template.scenario(material.study.common).cost
    else:
        cost = None if material.focus is None else material.focus.scenario.cost
    return "" if cost is None else str(cost.currency)
