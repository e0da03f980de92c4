"""The first screen about a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.model import Opening

if TYPE_CHECKING:
    from analysis.report.material import Material

__all__ = ["opening"]


def opening(material: Material) -> Opening:
    """Return the first screen."""
    return Opening(str(material.main.get("question", "")), (), (), None, (), ())
