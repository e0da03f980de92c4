"""Reports of small results, whole: their sentences, tables and pictures are those of files that somebody has read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

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
    report = dataclasses.replace(report, sections=kept, footer=())
    rows = [
        f"    {picture.key}.{field}: {json.dumps(rounded(value), ensure_ascii=False)}"
        for picture in report.pictures.values()
        for field, value in picture.chart._asdict().items()
    ]
    data = "\n".join(["# What its pictures draw", "", *rows, ""])
    golden.compare(f"report-{name}.md", f"{markdown.write(report).decode()}\n{data}")


def rounded(value: Any) -> Any:
    """Return what a picture draws with six digits."""
    if isinstance(value, tuple | list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
