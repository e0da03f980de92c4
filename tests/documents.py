"""Documents of commands as plain data, and what people are shown of them; apart, since pages take long to import."""

from __future__ import annotations

from ettrick.analysis.contest import compare
from ettrick.analysis.explain import explain
from ettrick.analysis.page.chapters import cluster, run
from ettrick.analysis.page.chapters import compare as chapter_of_compare
from ettrick.analysis.results import run as results
from ettrick.analysis.results.explained import ExplainDocument
from ettrick.analysis.results.models import CompareDocument, RunDocument
from tests.typed import as_plain, of_plain

document = as_plain(results.document)

describe_closed_form = as_plain(results.describe_closed_form)

describe = as_plain(explain.describe)

compare_document = as_plain(compare.compare_document)

format_run = of_plain(run.format_run, RunDocument)

format_comparison = of_plain(chapter_of_compare.format_comparison, CompareDocument)

format_explanation = of_plain(cluster.format_explanation, ExplainDocument)
