"""Markdown, with pictures in a folder beside it or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report.model import Report

__all__ = ["write"]


def write(report: Report) -> bytes:
    """Return the content of the file."""
    return report.title.encode()
