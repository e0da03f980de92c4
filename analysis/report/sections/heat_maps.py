"""Two axes of a study against each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.model import Section

__all__ = ["section"]


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    return None
