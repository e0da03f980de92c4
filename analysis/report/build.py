"""A folder of results as a report: an opening by the kind of results, and every section that has something to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.explorer import explorer_data
from analysis.report.footer import footer
from analysis.report.material import Material
from analysis.report.model import Report
from analysis.report.openings import OPENINGS
from analysis.report.results import read_results
from analysis.report.sections import SECTIONS
from analysis.report.sections.pairs import variant_labels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["report_of"]

_MOST_NAMED = 4
"""Variants that a title names."""


def report_of(folder: Path, progress: Callable[[int, int | None], None] | None = None) -> Report:
    """Return the report of a folder of results.

    Parameters
    ----------
    folder
        The folder.
    progress
        Called with the number of replications done and the total, while a scenario is played again.

    Raises
    ------
    ReportError
        If it holds none, or they cannot be read.
    """
    material = Material(read_results(folder), progress)
    opening = OPENINGS[material.kind](material)
    made = [make(material) for make in SECTIONS]
    sections = tuple(section for section in made if section is not None)
    return Report(_title(material), opening, sections, explorer_data(material), footer(material))


def _title(material: Material) -> str:
    """Return what the report is about, in a few words."""
    if material.kind == "compare":
        names = list(variant_labels(list(material.main["variants"])).values())
        return f"{', '.join(names[:_MOST_NAMED])}{' and others' if len(names) > _MOST_NAMED else ''} compared"
    if material.kind == "validate":
        return "Validation of Ettrick"
    return str(material.main.get("study") or material.main["scenario"])
