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

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["report_of"]


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
    title = str(material.main.get("study") or material.main.get("scenario") or material.kind)
    return Report(title, opening, sections, explorer_data(material), footer(material))
