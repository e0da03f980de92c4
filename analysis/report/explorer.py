"""The data of the explorer: all cells of a sweep, as small as they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.report.material import Material

__all__ = ["explorer_data"]


def explorer_data(material: Material) -> dict[str, Any] | None:
    """Return the data of the explorer, ready for JSON; ``None`` where there is nothing to explore."""
    return None
