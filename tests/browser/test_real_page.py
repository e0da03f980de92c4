"""The page of a study that was really played, from the command line to the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ettrick.analysis.amounts import form_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Opened

MEASURES = (Path(__file__).parent / "measures.js").read_text(encoding="utf-8")

_STUDY = """\
name: small
question: How many spares does it take?
scenario: quickstart
set: {horizon: 6 d}
vary:
  spares.hot: {choices: [0, 2, 4]}
  checkpoint.tiers.0.interval: {choices: [15 min, 1 h]}
replications: 12
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


def ettrick(*arguments: str) -> None:
    """Run a command."""
    subprocess.run(
        [sys.executable, "-c", "from ettrick.cli import app; app()", *arguments], check=True, capture_output=True
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play a small study and report it."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.yaml").write_text(_STUDY, encoding="utf-8")
    ettrick("sweep", str(folder / "small.yaml"), "--out", str(folder / "results"))
    ettrick("report", str(folder / "results"))
    return folder / "results"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_real_page_can_be_read(opened: Callable[..., Opened], results: Path, scheme: str) -> None:
    """In the light and in the dark, on a phone and on a desk: type has contrast, and nothing overflows."""
    file = results / "report.html"
    page = opened(width=1200, height=30_000, scheme=scheme, scale=0.25, file=file).page
    assert [entry for entry in page.evaluate(f"{MEASURES}; contrasts()") if entry["ratio"] < 4.5] == []
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    for width in (360, 768, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert page.evaluate(f"{MEASURES}; overflowing()") == []
    found = page.evaluate(f"{MEASURES}; structure()")
    assert found["twice"] == found["nowhere"] == found["unnamed"] == found["unscoped"] == []


def test_the_explorer_says_what_the_results_say(opened: Callable[..., Opened], results: Path) -> None:
    """Going through all marks of all metrics reads out every mean and interval of the study, and no other."""
    content: dict[str, Any] = json.loads((results / "run.json").read_text(encoding="utf-8"))
    page = opened(file=results / "report.html").page
    for metric in content["metrics"]:
        page.select_option("select[name=metric]", value=str(content["metrics"].index(metric)))
        page.focus("#explorer-picture svg")
        said = []
        for _ in content["cells"]:
            said.append(page.inner_text("#explorer-value"))
            page.keyboard.press("ArrowRight")
        form = form_of(metric, [cell["metrics"][metric]["mean"] for cell in content["cells"]])
        for cell in content["cells"]:
            found = cell["metrics"][metric]
            where = [f"{axis['title']} {cell['values'][name]}" for name, axis in content["axes"].items()]
            wanted = (
                form.plain(found["mean"], found["mean_ci95"]),
                form.range(found["mean"], found["mean_ci95"]).strip(),
            )
            assert sum(all(part in text for part in (*where, *wanted)) for text in said) == 1


def test_a_real_page_is_a_few_sheets_of_paper(opened: Callable[..., Opened], results: Path) -> None:
    """Nobody prints more than fifteen pages."""
    if shutil.which("pdfinfo") is None:
        pytest.skip("skipped: no poppler-utils on this machine")
    opened(file=results / "report.html").page.pdf(path=results / "report.pdf", prefer_css_page_size=True)
    said = subprocess.run(["pdfinfo", str(results / "report.pdf")], capture_output=True, text=True, check=True).stdout
    assert int(said.partition("Pages:")[2].split()[0]) <= 15
