"""What stands at the foot of every page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report.material import Material

__all__ = ["footer"]


def footer(material: Material) -> tuple[str, ...]:
    """Return what made the report, in lines."""
    return ()
