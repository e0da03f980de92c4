"""The page about step time: its tables are those of the catalog, and its picture shows every step where it belongs."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import sim
from analysis.calibrate.rows import default_folder
from analysis.page import charts
from analysis.page.charts import StepErrors
from docs.pictures.steps import main, panels
from sim.catalog import steps

FOLDER = default_folder()
DOCS = Path(sim.__file__).parents[1] / "docs"
PAGE = DOCS / "explanation" / "step-time.md"
PICTURE = DOCS / "howto" / "images" / "step-errors.svg"
INVENTED = [
    StepErrors("one", {"first": [(8, 1.0), (1024, 0.9)], "second": [(4, 0.44)]}, 1.2),
    StepErrors("two", {"third": [(64, 1.5)]}, 1.5),
]


def rows_of(heading: str) -> list[list[str]]:
    """Return the cells of all tables below a heading of the page, up to the next one."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]


def shares(text: str) -> list[float]:
    """Return the percentages in a text [-]."""
    return [float(found) / 100 for found in re.findall(r"([-+]?[\d.]+) %", text.replace("−", "-"))]


def printed(*values: float) -> list[Any]:
    """Return what shares may be printed as, with one digit behind the point; the catalog has four of the share."""
    return [pytest.approx(value, abs=5.5e-4) for value in values]


def test_page_has_the_error_of_every_source() -> None:
    """Steps, error, bias and error left out of each source are those that the fit wrote down; none is missing."""
    said = steps.fit()["errors"]["sources"]
    found = {}
    for cells in rows_of("How wrong it is"):
        name = re.search(r"`([\w-]+)`", cells[0])
        if name is not None and len(cells) == 5:
            found[name[1]] = (int(cells[1]), shares(" ".join(cells[2:])))
    assert found == {
        name: (row["rows"], printed(row["mape"], row["bias"], row["left_out"])) for name, row in said.items()
    }


def test_page_has_the_errors_of_all_steps() -> None:
    """The errors of all steps, of large jobs, of what is left out and of experts are those that the fit wrote down."""
    said = steps.fit()["errors"]
    table = {cells[0]: shares(cells[1]) for cells in rows_of("How wrong it is") if len(cells) == 2}
    assert table[f"{said['rows']} steps, 4 to 16,384 GPUs"] == printed(said["mape"], said["median"])
    assert table["from 1,024 GPUs on"][:1] == printed(said["large"])
    assert table["a fifth left out"] == printed(said["five_fold"])
    assert table["a source left out, mean of sources"][:1] == printed(said["left_out"])
    experts = said["experts"]
    text = PAGE.read_text(encoding="utf-8").split("### Models with experts\n")[1].lstrip()
    assert text.startswith(f"{experts['rows']} steps of Megatron-Bridge")
    assert shares(text)[:2] == printed(experts["mape"], experts["left_out"])


def test_page_has_every_fitted_number() -> None:
    """Efficiencies and constants are those of the catalog, to three digits."""
    said = steps.fit()
    names = {"ampere": "A100", "hopper": "Hopper", "blackwell": "Blackwell"}
    table = {cells[0]: cells[2] for cells in rows_of("What is fitted")}
    for generation, shares in said["gemm"].items():
        for precision, share in shares.items():
            assert table[f"e, {names[generation]} {precision}"] == f"{share:.3f}"
    attention = " / ".join(f"{said['attention'][generation]:.3f}" for generation in names)
    assert table["a, A100 / Hopper / Blackwell"] == attention
    constants = said["constants"]
    assert table["κ, touches of a byte"] == f"{constants['touches']:.2f}"
    assert table["products of experts, relative to others"] == f"{constants['expert_gemm']:.3f}"
    assert table["launches of a layer with experts"] == f"{1e3 * constants['expert_launch']:.2f} ms"
    assert sum(map(len, said["gemm"].values())) + len(said["attention"]) + len(constants) == 12


def test_page_has_every_band() -> None:
    """Each band is that of the catalog: its scatter, and the factor that holds 90 % of a log-normal law."""
    table = {cells[0]: cells[1:3] for cells in rows_of("The band")}
    for name, sigma in steps.fit()["sigma"].items():
        assert table[name] == [f"{sigma:g}", f"×/÷ {math.exp(1.6449 * sigma):.2f}"]


def test_each_step_is_a_dot_where_it_belongs() -> None:
    """Dots of all groups have their ratio, and their size but for a step aside of less than half; none is outside."""
    figure = charts.draw_step_errors(INVENTED)
    for axes, panel in zip(figure.axes, INVENTED, strict=True):
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        for drawn, (name, wanted) in zip(axes.collections, panel.groups.items(), strict=True):
            assert drawn.get_label() == f"{name} ({len(wanted)})"
            places = np.asarray(drawn.get_offsets(), dtype=float)
            assert places[:, 1] == pytest.approx([ratio for _, ratio in wanted])
            assert np.abs(np.log2(places[:, 0] / [size for size, _ in wanted])).max() < 0.5
            assert ((left < places[:, 0]) & (places[:, 0] < right)).all()
            assert ((low < places[:, 1]) & (places[:, 1] < high)).all()


def test_bands_are_as_wide_as_stated() -> None:
    """The band of a panel lies between 1 / its factor and its factor."""
    figure = charts.draw_step_errors(INVENTED)
    for axes, panel in zip(figure.axes, INVENTED, strict=True):
        (band,) = axes.patches
        extent = band.get_extents().transformed(axes.transData.inverted())
        assert (extent.y0, extent.y1) == (pytest.approx(1 / panel.band), pytest.approx(panel.band))


def test_groups_are_told_apart() -> None:
    """Ten groups have ten pairs of colour and mark."""
    many = [StepErrors("many", {str(number): [(8, 1.0)] for number in range(10)}, 1.2)]
    (axes,) = charts.draw_step_errors(many).axes
    looks = {(str(np.asarray(drawn.get_facecolor())), str(drawn.get_paths()[0].vertices)) for drawn in axes.collections}
    assert len(looks) == 10


def test_nothing_is_cut_off() -> None:
    """Titles, legends and labels are inside the picture."""
    figure = charts.draw_step_errors(INVENTED)
    with charts.style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        extent = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert extent.x0 >= 0
    assert extent.y0 >= 0
    assert extent.x1 <= width
    assert extent.y1 <= height


def test_the_same_picture_is_the_same_bytes() -> None:
    """Two figures of the same steps are the same file, without a date; other steps are another file."""
    first, second = (charts.render(charts.draw_step_errors(INVENTED), ".svg") for _ in range(2))
    assert first == second
    assert first != charts.render(charts.draw_step_errors(INVENTED[:1]), ".svg")
    assert not re.search(rb"dc:date|20\d\d-\d\d-\d\d", first)


def test_tables_that_are_not_there_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the published steps the command says which table is missing, and writes nothing."""
    target = tmp_path / "picture.svg"
    assert main([str(target), "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"step-errors: hardware_presets.csv is not in {tmp_path}\n"
    assert not target.exists()


def test_a_kind_of_file_that_cannot_be_drawn_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of the file's name says the kind; of others the valid ones are named."""
    with pytest.raises(SystemExit):
        main([str(tmp_path / "picture.jpeg")])
    assert "picture.jpeg has to end in .svg, .png, .pdf" in capsys.readouterr().err


@pytest.mark.skipif(not (FOLDER / "training_steps.csv").exists(), reason="skipped: reference data not present")
def test_picture_of_the_page_is_current(tmp_path: Path) -> None:
    """The page shows every fitted step, in the bands that the catalog states, and would be drawn alike now."""
    dense, mixed = panels(FOLDER)
    said = steps.fit()
    assert sum(map(len, dense.groups.values())) == said["errors"]["rows"]
    assert sum(map(len, mixed.groups.values())) == said["errors"]["experts"]["rows"]
    assert math.log(dense.band) == pytest.approx(1.6449 * said["sigma"]["fitted"])
    assert math.log(mixed.band) == pytest.approx(1.6449 * said["sigma"]["experts"])
    near = np.abs([ratio - 1 for each in dense.groups.values() for _, ratio in each])
    within = (round(100 * float((near <= bound).mean())) for bound in (0.1, 0.2))
    assert "{} % of the steps without experts are within 10 %, and {} % within 20 %".format(*within) in PAGE.read_text(
        encoding="utf-8"
    )
    again = tmp_path / "again.svg"
    assert main([str(again)]) == 0
    now, written = (path.read_text(encoding="utf-8") for path in (again, PICTURE))
    assert re.findall(">([^<>]+)</text>", written) == re.findall(">([^<>]+)</text>", now) != []
    dots = [re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', text) for text in (written, now)]
    assert len(dots[0]) >= said["errors"]["rows"]
    assert np.array(dots[0], dtype=float) == pytest.approx(np.array(dots[1], dtype=float), abs=0.1)
