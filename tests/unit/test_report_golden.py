"""Reports of small results, whole: their sentences, tables and pictures are those of files that somebody has read."""

from __future__ import annotations

import dataclasses

import pytest

from ettrick.analysis.page import build
from ettrick.analysis.page.formats import markdown
from tests import golden
from tests.report_folders import results

COMMON = {"reproduce", "inputs", "basis", "validation", "scale", "frontier", "the-cluster"}

OF_A_RUN = {"where-the-time-goes", "losses", "missing-nodes", "the-step", "closed-form"}


@pytest.mark.parametrize(
    "name", ["study", "single", "infeasible", "spares", "run", "calm", "three", "sensitivity", "optimize"]
)
def test_golden_reports(name: str) -> None:
    """All but what made it, its inputs, sizes and sources; and what every report says of one scenario stands once."""
    left = set() if name == "run" else OF_A_RUN
    report = build.report_of(results(name))
    kept = tuple(section for section in report.sections if section.key not in COMMON | left)
    text = markdown.write(dataclasses.replace(report, sections=kept, footer=())).decode()
    golden.compare(f"report-{name}.md", text)
