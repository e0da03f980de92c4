"""What a report can be written as: one file each, a function from the report to the content of a file.

A new format is a file with a function ``write(report) -> bytes``, and a line in `FORMATS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.formats import html, markdown, slides

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.report.model import Report

__all__ = ["FORMATS"]

FORMATS: dict[str, Callable[[Report], bytes]] = {"html": html.write, "md": markdown.write, "pptx": slides.write}
"""By the ending of the file."""
