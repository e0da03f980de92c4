"""The fit of the step model: it finds numbers that are there, and what is left out is really left out."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

from docs.pictures.steps import StepErrors, draw_step_errors, panels
from docs.pictures.steps import main as main_
from ettrick import cli, sim
from ettrick.analysis.page import charts
from ettrick.analysis.ratios import ratios
from ettrick.analysis.validation.published_steps import (
    CAPPED,
    MeasuredStep,
    MeasuredSteps,
    default_folder,
    read_mixed,
    read_steps,
    sources,
)
from ettrick.sim import catalog
from ettrick.sim.catalog import accelerators, models, steps
from ettrick.sim.steps import Constants, Machine, ModelShape, Workload, breakdown, flop_per_token, ideal_links
from ettrick.sim.steps.plan import BAND90
from ettrick.sim.yamlfile import load
from tests.calibrate.__main__ import main
from tests.calibrate.fit import (
    SCALE,
    Fold,
    GemmBenchmark,
    Key,
    Parameters,
    Prior,
    dense_priors,
    errors,
    expert_priors,
    fit,
    folds,
    held_out,
    predict,
    rounded,
)
from tests.calibrate.outcome import (
    CalibrationResult,
    assume,
    band_sigma,
    calibrated_scatter,
    constants_text,
    coverage,
    scatter,
)
from tests.cases import cases
from tests.harness import play, prepared
from tests.step_cases import FLAT, LLAMA, MIXTRAL, NARROW, described, examined, job_of, plan_of
from tests.typed import present

TRUTH = Parameters(
    gemm={("ampere", "bf16"): 0.71, ("hopper", "bf16"): 0.66, ("hopper", "fp8"): 0.57},
    attention={"ampere": 0.29, "hopper": 0.36},
    constants=Constants(touches=2.7),
)

SMALL = ModelShape(24, 2048, 8192, 16, 16, 51200, gated=False, tied=True)

LARGE = ModelShape(32, 8192, 28672, 64, 8, 128256, gated=True)


def row(chip: str, work: Workload, source: str, measured: float = 1.0) -> MeasuredStep:
    """Return a step on nodes of eight with 400 Gb/s a GPU."""
    part = accelerators()[chip]
    return MeasuredStep(source, "model", "", part, work, ideal_links(work, part.scale_up, 50e9, 8), measured)


def measured(rows: list[MeasuredStep], numbers: Parameters) -> list[MeasuredStep]:
    """Return rows that took as long as the model says with these numbers."""
    times = predict(rows, numbers).tolist()
    return [each._replace(measured=time) for each, time in zip(rows, times, strict=True)]


def known_rows() -> list[MeasuredStep]:
    """Return steps that tell the numbers apart: long and short sequences, wide and narrow models."""
    found = []
    for chip, precision in (("a100", "bf16"), ("h100", "bf16"), ("h100", "fp8")):
        for shape in (SMALL, LARGE):
            for sequence in (2048, 32768):
                for tensor, data in ((8, 4), (4, 256)):
                    work = Workload(shape, sequence, 2 * data, 1, tensor, 1, 1, data, precision=precision)
                    found.append(row(chip, work, f"{chip} {sequence}"))
    return measured(found, TRUTH)


def wide(priors: dict[Key, Prior]) -> dict[Key, Prior]:
    """Return priors that say next to nothing."""
    return {key: prior._replace(deviation=100.0) for key, prior in priors.items()}


def priors_of_truth() -> dict[Key, Prior]:
    """Return priors beside the truth, as wide as those of the real fit."""
    products = [GemmBenchmark(*kind, 0.95, 0.85) for kind in TRUTH.gemm]
    return dense_priors(known_rows(), products)


def test_numbers_that_made_the_steps_are_found() -> None:
    """Steps computed from known numbers give the numbers back to 1e-4, from medians that are 8 to 35 % off."""
    priors = wide(priors_of_truth())
    found = fit(known_rows(), priors, Parameters())
    for key, prior in priors.items():
        assert abs(prior.median / TRUTH.value(key) - 1) > 0.05
        assert found.value(key) == pytest.approx(TRUTH.value(key), rel=1e-4)


def test_numbers_of_experts_are_found() -> None:
    """The second fit moves two numbers, finds them, and leaves the others where they are."""
    shape = models()["qwen3-30b-a3b"]
    truth = TRUTH.updated({("constants", "expert_touches"): 5.0, ("constants", "expert_launch"): 0.9e-3})
    works = [Workload(shape, 4096, 64 * size, size, 1, 1, 1, 8, 8, precision="fp8") for size in (1, 2, 8)]
    rows = measured([row("h100", work, f"{work.microbatch}") for work in works], truth)
    found = fit(rows, wide(expert_priors()), TRUTH)
    assert found.constants.expert_touches == pytest.approx(5.0, rel=1e-4)
    assert found.constants.expert_launch == pytest.approx(0.9e-3, rel=1e-4)
    assert found.updated({key: TRUTH.value(key) for key in expert_priors()}) == TRUTH


def test_priors_are_where_they_are_said_to_be() -> None:
    """Products: 0.9 x the mean over parts of the 95th percentile, mxfp8 as fp8; a missing product is one line."""
    work = Workload(LARGE, 4096, 8, precision="mxfp8")
    products = [GemmBenchmark("blackwell", "fp8", 0.9, 0.6), GemmBenchmark("blackwell", "fp8", 0.9, 0.7)]
    priors = dense_priors([row("b200", work, "x")], products)
    assert priors["gemm", "blackwell", "mxfp8"] == (pytest.approx(0.9 * 0.65), 0.2)
    assert priors["attention", "blackwell"] == (0.31, 0.15)
    assert priors["constants", "touches"] == (2.0, 0.4)
    with pytest.raises(ValueError, match="no measured matrix products of blackwell at fp8"):
        dense_priors([row("b200", work, "x")], [])


def test_a_source_counts_as_the_root_of_its_rows() -> None:
    """Sixteen rows of one source against one of another: the pulls balance at 16 x 16^(-1/2) to 1."""
    work = Workload(LARGE, 4096, 8, tensor=8)
    one = measured([row("h100", work, "one")], TRUTH)[0]
    many = [one._replace(source="many", measured=one.measured * 1.1)] * 16
    found = fit([one, *many], {("gemm", "hopper", "bf16"): Prior(0.7, 100.0)}, TRUTH)
    away = np.log1p(errors([one, many[0]], found)) / SCALE
    pull = away / np.sqrt(1 + away**2)
    assert away[0] > 0 > away[1]
    assert pull[0] == pytest.approx(-4 * pull[1], rel=1e-3)


def test_left_out_rows_are_not_seen() -> None:
    """A left-out step that took 100 times as long moves no number of its own fold, and those of all others."""
    rows = known_rows()
    groups = folds(len(rows), 4, seed=3)
    poisoned = groups[1][0]
    other = [
        each if place != poisoned else each._replace(measured=100 * each.measured) for place, each in enumerate(rows)
    ]
    clean = held_out(rows, groups, priors_of_truth(), Parameters())
    dirty = held_out(other, groups, priors_of_truth(), Parameters())
    same = [one.numbers == two.numbers for one, two in zip(clean, dirty, strict=True)]
    assert same == [False, True, False, False]
    assert [fold.out for fold in dirty] == groups
    assert dirty[1].errors[0] == pytest.approx((1 + clean[1].errors[0]) / 100 - 1)


def test_what_stands_in_for_what_nobody_measured() -> None:
    """The share of best products is a mean; what a generation lacks is its large products, as far as others reach."""
    gemm = {("hopper", "fp8"): 0.55, ("blackwell", "fp8"): 0.60, ("hopper", "bf16"): 0.66}
    numbers = Parameters(gemm, {"hopper": 0.3, "blackwell": 0.4})
    chips = accelerators()
    best = {
        kind: np.mean([c.matmul[kind[1]] / c.peak[kind[1]] for c in chips.values() if fits(c, kind)]) for kind in gemm
    }
    large = [GemmBenchmark("hopper", "bf16", 0.9, 0.8), GemmBenchmark("blackwell", "bf16", 0.75, 0.7)]
    found = assume(numbers, [*large, GemmBenchmark("blackwell", "nvfp4", 0.5, 0.4)])
    assert found.matmul_share == pytest.approx(np.mean([gemm[kind] / best[kind] for kind in gemm]), rel=1e-3)
    assert found.gemm == {("blackwell", "bf16"): pytest.approx(0.7 * 0.66 / 0.8, rel=1e-3)}
    assert found.gemm_share == {"bf16": pytest.approx(0.66), "fp8": pytest.approx(0.575)}
    assert found.attention == pytest.approx(0.35)


def fits(chip: object, kind: tuple[str, str]) -> bool:
    """Tell whether a chip is of a generation and has a measured product at a precision."""
    return getattr(chip, "generation", "") == kind[0] and kind[1] in getattr(chip, "matmul", {})


def outcome() -> CalibrationResult:
    """Return a calibration of known rows."""
    dense = known_rows()
    priors = priors_of_truth()
    numbers = rounded(fit(dense, priors, Parameters()), list(priors))
    products = [GemmBenchmark(*kind, 0.95, 0.85) for kind in TRUTH.gemm]
    assumed = assume(numbers, products)
    work = Workload(models()["qwen3-30b-a3b"], 4096, 512, 8, 1, 1, 1, 8, 8, precision="fp8")
    mixed = measured([row("h100", work, "experts")], numbers)
    left = held_out(dense, list(sources(dense).values()), priors, Parameters())
    own = [Fold([0], numbers, errors(mixed, numbers))]
    steps_of = [MeasuredSteps(rows, [], []) for rows in (dense, mixed)]
    found = CalibrationResult(*steps_of, products, numbers, priors | expert_priors(), assumed)
    return replace(found, five=left, left=left, left_free=left, families=left, mixed_left=own)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios are written to a folder of the test."""
    monkeypatch.chdir(tmp_path)


def test_what_is_written_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, read as the catalog reads it, predicts the times of the fit; writing twice gives the same bytes."""
    found = outcome()
    path = tmp_path / "constants.yaml"
    path.write_text(constants_text(found), encoding="utf-8")
    assert constants_text(outcome()) == path.read_text(encoding="utf-8")
    content = load(path).data
    monkeypatch.setattr(steps, "fit", lambda: content)
    read = steps.constants.__wrapped__()
    for each, time in zip(found.dense.rows, predict(found.dense.rows, found.numbers), strict=True):
        shares = steps.efficiencies(each.chip, each.work.precision)
        assert shares.basis == "fitted"
        assert breakdown(each.work, Machine(each.chip, shares, each.links, read)).total == time
    assert content["errors"]["rows"] == len(found.dense.rows)
    assert content["errors"]["mape"] == pytest.approx(np.abs(found.dense_errors).mean(), abs=5e-5)
    kinds = {"fitted", "experts", "state spaces", "assumed", "peak only", "calibrated", "calibrated experts"}
    assert set(content["sigma"]) == kinds
    guess = steps.efficiencies(accelerators()["mi300x"], "bf16")
    assert guess.basis == "peak only"
    assert guess.gemm == pytest.approx(found.assumed.matmul_share * 668 / 1307)


def test_the_band_holds_nine_tenths_of_left_out_steps() -> None:
    """Each source counts once: of two, nine tenths of both together, however many steps one of them has."""
    rows = known_rows()[:2] + [replace_source(each) for each in known_rows()[:2] * 20]
    away = np.linspace(0.01, 0.4, 40)
    folds_ = [Fold([0, 1], TRUTH, np.expm1([0.01, 0.02])), Fold(list(range(2, 42)), TRUTH, np.expm1(away))]
    sigma = band_sigma(folds_, rows)
    held = np.abs(away) <= BAND90 * sigma * (1 + 1e-9)
    assert 0.5 + 0.5 * held.mean() == pytest.approx(0.9, abs=0.5 / 40)
    assert coverage(folds_, sigma) == pytest.approx((2 + held.sum()) / 42)


def replace_source(each: MeasuredStep) -> MeasuredStep:
    """Return a step of another source."""
    return each._replace(source="other")


def test_scatter_of_sources_that_are_off_by_a_factor() -> None:
    """Sources off by a factor leave nothing with a factor for each; rows up and down in turn leave everything."""
    rows = known_rows()
    names = sorted(sources(rows))
    away = np.array([0.1 * names.index(each.source) for each in rows])
    assert scatter(np.expm1(away)) == pytest.approx(math.sqrt(np.mean(away**2)))
    groups = {(each.source, each.work.precision) for each in rows}
    assert calibrated_scatter(rows, np.expm1(away)) == pytest.approx(0.0, abs=1e-12)
    mixed = np.where(np.arange(len(rows)) % 2 == 0, 0.1, -0.1)
    expected = math.sqrt(0.01 * len(rows) / (len(rows) - len(groups)))
    assert calibrated_scatter(rows, np.expm1(mixed)) == pytest.approx(expected)


def record(names: str, values: str) -> dict[str, object]:
    """Return a row of a table; a dash is an empty cell."""
    pairs = zip(names.split(), values.split(), strict=True)
    return {name: "" if value == "-" else value for name, value in pairs}


STEP = {
    **record("dataset model preset L h ffn heads kv vocab", "made 7B B200-SXM 32 4096 11008 32 8 32000"),
    **record("gated seq gbs mbs tp pp cp dp vpp prec recompute sp", "1 4096 512 2 2 4 1 8 2 fp4 full 0"),
    **record("flash tp_ov dp_ov distopt fsdp nic_gbyte_s_per_gpu step_s note", "1 0 1 1 0 25 3.5 -"),
}

MIXED = {
    **record("model gpu preset container precision gbs mbs seq", "DeepSeekV3 B200 B200-SXM 26.04 fp8 512 1 4096"),
    **record("tp pp cp vpp ep dp microbatches ga_printed step_s", "2 8 1 - 64 64 8.0 8 5.0"),
    "variant": "w/o MTP",
}

PRESETS = [
    {"name": name, "hbm_tb_s": 2.4, "scaleup_domain_gpus": 8, "nic_gbit_s_per_gpu": 400}
    for name in ("B200-SXM", "H100-96-500W")
]


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    """Write a table."""
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_rows_are_read_as_they_are_meant(tmp_path: Path) -> None:
    """A row becomes the workload, the chip and the links that its columns say; capped boards are set aside."""
    write(tmp_path, "hardware_presets.csv", PRESETS)
    write(
        tmp_path, "training_steps.csv", [STEP, {**STEP, "preset": "H100-96-500W", "prec": "fp8"}, {**STEP, "gated": 0}]
    )
    found = read_steps(tmp_path)
    first, plain = found.rows
    shape = ModelShape(32, 4096, 11008, 32, 8, 32000, gated=True, tied=False)
    work = Workload(shape, 4096, 512, 2, 2, 1, 4, 8, virtual=2, precision="nvfp4", recompute="full")
    assert first.work == replace(work, shape=first.work.shape, sequence_parallel=False, overlap_tensor=False)
    assert replace(first.work.shape, title="", source="") == shape
    assert first.links == ideal_links(work, 900e9, 25e9, 8)
    assert (first.source, first.model, first.chip, first.measured) == ("made", "7B", accelerators()["b200"], 3.5)
    assert plain.work.shape.tied
    (capped,) = found.reported
    assert (capped.source, capped.chip.memory_bandwidth, found.unused[0].rows) == (CAPPED, 2.4e12, 1)


def test_a_row_that_a_scenario_could_not_have_fails_the_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too large for its GPUs, or not divided: the line of `ettrick check`, with the file and the line of the row."""
    write(tmp_path, "hardware_presets.csv", PRESETS)
    for change, rule in (({"mbs": 64, "gbs": 4096, "recompute": "none"}, "does not fit"), ({"tp": 3}, "do not divide")):
        write(tmp_path, "training_steps.csv", [{**STEP, **change}])
        with pytest.raises(ValueError, match=rf"^training_steps.csv:2: .*jobs\.0\.parallelism.*{rule}"):
            read_steps(tmp_path)
        assert main(["--data", str(tmp_path), "--out", str(tmp_path / "out.yaml")]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    doubtful = {**STEP, "mbs": 64, "recompute": "none", "note": "container 26.02; doubtful: does not fit"}
    write(tmp_path, "training_steps.csv", [STEP, doubtful])
    found = read_steps(tmp_path)
    assert (len(found.rows), [unused.rows for unused in found.unused]) == (1, [1])


def test_rows_with_experts_that_cannot_be_fitted_are_named(tmp_path: Path) -> None:
    """Contradictions and unknown shapes are set aside with a reason, dropped tokens reported; the rest is fitted.

    gpt-oss is reported too, with the gradients and recomputation of its configs.
    """
    write(tmp_path, "hardware_presets.csv", PRESETS)
    dense = {
        "model": "GPT OSS 120B",
        "variant": "",
        "precision": "bf16",
        "mbs": "1",
        "tp": "1",
        "pp": "4",
        "ep": "8",
        "dp": "64",
    }
    others = [{"variant": "tokendrop"}, {"ga_printed": "4"}, {**dense, "ga_printed": "8"}, {"model": "New"}]
    others.append({"ep": "256"})
    write(tmp_path, "moe_steps.csv", [MIXED, *({**MIXED, **other} for other in others)])
    found = read_mixed(tmp_path)
    (good,) = found.rows
    plain = replace(models()["deepseek-v3"], depths=0)
    assert replace(good.work.shape, title=plain.title, source=plain.source) == plain
    assert (good.work.expert, good.work.virtual, good.source, good.release) == (64, 1, "DeepSeekV3", "26.04")
    reasons = sorted((unused.what, unused.reason.split()[0]) for unused in found.unused)
    assert reasons == [
        *(("DeepSeekV3", word) for word in ("more", "reported,", "the")),
        ("GPT OSS 120B", "reported,"),
        ("New", "no"),
    ]
    dropped, oss = found.reported
    assert (dropped.work.expert_load, good.work.expert_load) == (1.0, 1.0)
    assert (oss.work.gradients, oss.work.modules, oss.work.shape.windowed) == ("bf16", ("norm", "activation"), 18)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"gbs": "many"}, r"training_steps.csv:2: invalid literal for int\(\) with base 10: 'many'"),
        ({"preset": "Z80"}, "training_steps.csv:2: there is no 'Z80'"),
    ],
)
def test_rows_that_are_wrong_are_one_line(
    tmp_path: Path, change: dict[str, object], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word for a number and an unknown part name file and line, and the command ends with 2."""
    write(tmp_path, "hardware_presets.csv", PRESETS)
    write(tmp_path, "training_steps.csv", [{**STEP, **change}])
    with pytest.raises(ValueError, match=line):
        read_steps(tmp_path)
    assert main(["--data", str(tmp_path), "--out", str(tmp_path / "out.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out.yaml").exists()


# ----------------------------------------
# Whether a modelled job fits into the memory of its GPUs, and what is said where it does not.


def crowded(share: float) -> dict[str, Any]:
    """Return an H100 with so little memory that the job takes `share` of it."""
    return {"like": "h100", "memory": f"{plan_of().memory.total / share / 1e9!r} GB"}


@cases(("share", "lines"), [(0.99, 0), (1.01, 1), (1.09, 1)])
def test_a_layout_that_hardly_fits_is_warned_of(share: float, lines: int) -> None:
    """From 100 to 110 % of the memory: counts are some per cent off."""
    case = examined(crowded(share))
    found = [line for line in case.warnings if "it may not fit" in line]
    assert len(found) == lines
    for line in found:
        assert f"by our count it needs {plan_of().memory.total / 1e9:,.1f} GB on GPUs of" in line


def answer(data: dict[str, Any], command: str = "check") -> tuple[int, str, str]:
    """Return exit code and what the command line prints for a scenario."""
    Path("s.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    found = CliRunner().invoke(cli.app, [command, "s.yaml"], prog_name="ettrick")
    return found.exit_code, found.stdout, found.stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_layout_that_does_not_fit_is_an_answer(command: str) -> None:
    """Above 110 % the answer is no, exit code 1: one line with the place, what is needed, and what would help."""
    code, printed, line = answer(described(crowded(1.11)), command)
    assert code == 1
    assert printed == ""
    assert re.match(r"s\.yaml:\d+:\d+: jobs\.0\.parallelism: job 'train' does not fit: [\d.]+ GB on GPUs of", line)
    assert line.count("\n") == 1
    code, _, line = answer(described(crowded(1.3), step_time="3 s"))
    assert code == 0, "a measured step has fitted, by its word"
    assert line.startswith("warning: job 'train': the stated step_time is kept for a layout that the step-time")


def test_what_is_offered_fits() -> None:
    """Each of the changes in the line, made to the scenario, is one that passes without a warning."""
    short = crowded(1.3)
    _, _, line = answer(described(short))
    offers = line.strip().partition("; it would with ")[2].split(" or ")
    assert 1 <= len(offers) <= 3
    for offer in offers:
        change = {name: yaml.safe_load(value) for name, value in (part.split(": ") for part in offer.split(" with "))}
        sizes = {name: size for name, size in change.items() if name in ("tensor", "context", "pipeline", "data")}
        layout = LLAMA["parallelism"] | sizes
        rest = {name: value for name, value in change.items() if name not in sizes}
        case = examined(short, parallelism=layout, execution=rest)
        assert not any("fit" in warning for warning in case.warnings), offer


# ----------------------------------------
# The page about step time: its tables are those of the catalog, and its picture shows every step where it belongs.

FOLDER = default_folder()

DOCS = Path(sim.__file__).parents[2] / "docs"

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
    assert f" {experts['rows']} steps of Megatron-Bridge" in text.partition("\n")[0]
    assert shares(text)[:2] == printed(experts["mape"], experts["left_out"])


def test_each_step_is_a_dot_where_it_belongs() -> None:
    """Dots of all groups have their ratio, and their size but for a step aside of less than half; none is outside."""
    figure = draw_step_errors(INVENTED)
    for axes, panel in zip(figure.axes, INVENTED, strict=True):
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        for drawn, (name, wanted) in zip(axes.collections, panel.groups.items(), strict=True):
            assert drawn.get_label() == f"{name} ({len(wanted)})"
            places = np.asarray(drawn.get_offsets(), dtype=float)
            assert places[:, 1] == pytest.approx([ratio for _, ratio in wanted])
            assert np.abs(np.log2(places[:, 0] / [size for size, _ in wanted])).max() < 0.5
            assert ((left < places[:, 0]) & (places[:, 0] < right)).all()
            assert ((low < places[:, 1]) & (places[:, 1] < high)).all()


def test_nothing_is_cut_off() -> None:
    """Titles, legends and labels are inside the picture."""
    figure = draw_step_errors(INVENTED)
    with charts.style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        extent = figure.get_tightbbox(canvas.get_renderer())
    width, height = figure.get_size_inches()
    assert extent.x0 >= 0
    assert extent.y0 >= 0
    assert extent.x1 <= width
    assert extent.y1 <= height


@pytest.mark.skipif(not (FOLDER / "training_steps.csv").exists(), reason="skipped: reference data not present")
@pytest.mark.nightly  # the numbers of the page are compared with every push
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
    assert main_([str(again)]) == 0
    now, written = (path.read_text(encoding="utf-8") for path in (again, PICTURE))
    assert re.findall(">([^<>]+)</text>", written) == re.findall(">([^<>]+)</text>", now) != []
    dots = [re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', text) for text in (written, now)]
    assert len(dots[0]) >= said["errors"]["rows"]
    assert np.array(dots[0], dtype=float) == pytest.approx(np.array(dots[1], dtype=float), abs=0.1)


# ----------------------------------------
# From a scenario to the step of a job: modelled, measured or calibrated, and what is said about it.

EXACT = 1e-12

SLOW: dict[str, Any] = {"use": "component", "name": "throttled", "part": "gpu", "rate": "1 per 1000 gpu-day"}


def test_a_job_without_a_measured_step_gets_the_model_s() -> None:
    """Model, batch and layout give time, utilisation and tokens of a step; a run reports them."""
    case = sim.prepare(sim.parse(described()))
    (job,) = case.jobs
    assert not job.is_measured
    assert job.step_time == job.plan.time == job.plan.breakdown.total > 0
    assert job.plan.scale == 1.0
    assert job.mfu == job.plan.mfu
    peak = catalog.accelerators()["h100"].peak["bf16"]
    flop = job.tokens * flop_per_token(catalog.models()["llama3-8b"], 8192)
    assert job.mfu == pytest.approx(flop / (job.step_time * 64 * peak), rel=EXACT)
    found = ratios(case, play(case))
    assert found["program_goodput"].amount / found["program_goodput"].base == pytest.approx(job.mfu, rel=EXACT)
    tokens = found["tokens_per_day"].amount / found["tokens_per_day"].base
    healthy = 86_400 * 128 * 8192 / job.step_time
    assert tokens == pytest.approx(healthy * found["ettr"].amount / found["ettr"].base, rel=1e-9)


@cases(("work", "steps_of_it"), [({"steps": 500}, 500), ({"tokens": 128 * 8192 * 250}, 250)])
def test_work_in_steps_and_tokens_takes_as_long_as_modelled_steps(work: dict[str, Any], steps_of_it: int) -> None:
    """Work is healthy seconds: steps times the modelled time of one."""
    job = job_of(work=work)
    assert job.target == pytest.approx(steps_of_it * job.step_time, rel=EXACT)


def test_saves_every_so_many_steps_wait_for_modelled_steps() -> None:
    """An interval in steps is that many times the modelled time."""
    tier = {"interval": "every 100 steps", "mode": "blocking", "write": "10 s", "restore": "20 s"}
    case = prepared(**{**described(), "checkpoint": {"tiers": [tier]}})
    assert case.jobs[0].checkpoint.interval == pytest.approx(100 * case.jobs[0].step_time, rel=EXACT)


def test_a_measured_step_overrides_the_model() -> None:
    """Its time is the stated one and the MFU follows; the model's terms are scaled to it and have no error left."""
    job = job_of(step_time="7 s")
    plain = plan_of()
    assert job.is_measured
    assert job.step_time == 7.0
    assert job.plan.time == pytest.approx(7.0, rel=EXACT)
    assert job.plan.breakdown == pytest.approx(tuple(7 / plain.time * term for term in plain.breakdown), rel=EXACT)
    assert job.plan.sigma == 0.0
    assert job.mfu == pytest.approx(plain.mfu * plain.time / 7, rel=EXACT)


def test_a_published_utilisation_overrides_the_model() -> None:
    """Time = FLOP / (GPUs x peak x MFU), half of attention counted; at FP8 of the FP8 peak."""
    flop = 128 * 8192 * flop_per_token(catalog.models()["llama3-8b"], 8192)
    for precision, peak in (("bf16", 989e12), ("fp8", 1979e12)):
        job = job_of(mfu=0.4, precision=precision)
        assert job.is_measured
        assert job.mfu == 0.4
        assert job.step_time == pytest.approx(flop / (64 * peak * 0.4), rel=EXACT)
        assert present(job.plan).mfu == pytest.approx(0.4, rel=EXACT)


def test_a_measured_step_needs_no_layout_that_the_model_knows() -> None:
    """What the model refuses may have been measured: then there is a time and no plan."""
    layout = {"tensor": 4, "pipeline": 2, "data": 8, "virtual_pipeline": 20}
    job = job_of(parallelism=layout, step_time="7 s")
    assert job.step_time == 7.0
    assert job.plan is None
    with pytest.raises(sim.ScenarioError, match=re.escape("jobs.0.parallelism.virtual_pipeline: ")):
        job_of(parallelism=layout)


@cases(
    "case",
    [
        pytest.param({"fabric": NARROW}, id="oversubscribed"),
        pytest.param(MIXTRAL, id="experts"),
    ],
)
def test_calibration_with_the_job_itself_is_exact_on_any_fabric(case: dict[str, Any]) -> None:
    """Whatever the fabric and the model, a measured step of this very configuration is the step."""
    assert job_of(**case, calibration={"step_time": "3 s"}).step_time == pytest.approx(3.0, rel=EXACT)


@pytest.mark.parametrize(
    ("fabric", "gpus", "layout"),
    [(FLAT, 128, {"tensor": 4, "pipeline": 2, "data": 16}), (NARROW, 16, {"tensor": 4, "pipeline": 2, "data": 2})],
    ids=["larger", "behind fewer switches"],
)
def test_calibration_with_another_size_scales_by_the_same_ratio(
    fabric: dict[str, Any], gpus: int, layout: dict[str, int]
) -> None:
    """Measured on other GPUs with another batch and microbatch: the job's step is off by as much as that one's.

    Sixteen GPUs sit behind the same leaf switches, the job's 64 do not.
    """
    batch = {"tokens": 256 * 8192, "sequence": 8192}
    other = {"parallelism": layout, "batch": batch, "execution": {"microbatch": 2, "recompute": "full"}}
    modelled, plain = plan_of(fabric=fabric, gpus=gpus, **other), plan_of(fabric=fabric)
    job = job_of(fabric=fabric, calibration={"step_time": f"{1.25 * modelled.time!r} s", **other})
    assert job.step_time == pytest.approx(1.25 * plain.time, rel=1e-9)
    assert present(job.plan).breakdown == pytest.approx(tuple(1.25 * term for term in plain.breakdown), rel=1e-9)


def test_a_described_model_is_the_catalog_s_with_the_same_numbers() -> None:
    """A shape that is written out gives the same step and the same memory."""
    names = ("layers", "hidden", "ffn", "heads", "kv_heads", "vocabulary", "gated", "tied")
    for name in ("llama3-8b", "gpt3-6.7b"):
        shape = catalog.models()[name]
        written = plan_of(model={key: getattr(shape, key) for key in names})
        assert written.breakdown == plan_of(model=name).breakdown
        assert written.memory == plan_of(model=name).memory
    shape = catalog.models()["mixtral-8x7b"]
    experts = {key: getattr(present(shape.experts), key) for key in ("count", "active", "ffn")}
    written = plan_of(**MIXTRAL | {"model": {key: getattr(shape, key) for key in names} | {"experts": experts}})
    assert written.breakdown == plan_of(**MIXTRAL).breakdown


EXECUTION = {
    "microbatch": 2,
    "schedule": "zero-bubble-h2",
    "recompute": "full",
    "sharding": "none",
    "sequence_parallel": False,
    "fused_attention": False,
    "overlap_tensor": False,
    "overlap_data": False,
    "overlap_expert": True,
}


@cases("name", EXECUTION)
def test_every_setting_of_an_execution_reaches_the_model(name: str) -> None:
    """What the scenario says is what the step-time model is asked about."""
    large = {"like": "h100", "memory": "4 TB"}
    assert getattr(plan_of(large).work, name) != EXECUTION[name]
    assert getattr(plan_of(large, execution={name: EXECUTION[name]}).work, name) == EXECUTION[name]


def test_adapters_and_uneven_experts_reach_the_model() -> None:
    """A capacity is what every expert gets, an imbalance what the busiest does; adapters are part of the shape."""
    for stated, most in (({"expert_capacity": 1.25}, 1.25), ({"expert_imbalance": 1.5}, 1.5), ({}, 1.0)):
        assert plan_of(**MIXTRAL | {"execution": MIXTRAL["execution"] | stated}).work.expert_load == most
    shape = plan_of(lora={"rank": 8, "modules": "all"}).work.shape
    assert (shape.lora, shape.lora_everywhere) == (8, True)


def test_steps_of_experts_are_less_certain() -> None:
    """The fit's own errors: models with experts are predicted less well, calibrated ones better."""
    assert plan_of(**MIXTRAL).sigma > plan_of().sigma > 0
    assert plan_of(**MIXTRAL, calibration={"step_time": "3 s"}).sigma <= plan_of(**MIXTRAL).sigma


@cases(
    ("accelerator", "precision", "says"),
    [
        ("mi300x", "bf16", "rests on data sheets and assumptions"),
        ("rubin", "fp8", "rests on announced"),
        ("b200", "bf16", "(assumed)"),
        ("h100", "bf16", ""),
        ("gb200", "nvfp4", ""),
    ],
)
def test_what_nobody_has_measured_is_said_with_its_band(accelerator: str, precision: str, says: str) -> None:
    """One line with the interval that holds the step with 90 %; none of measured steps, or with a calibration."""

    def lines(**changes: Any) -> list[str]:
        warnings = examined(accelerator, precision=precision, **changes).warnings
        return [line for line in warnings if "MFU" not in line and "follow from the accelerator" not in line]

    plan = present(examined(accelerator, precision=precision).jobs[0].plan)
    if not says:
        assert lines() == []
        return
    (line,) = lines()
    low, high = plan.band90
    assert says in line
    assert f"at {precision} have not been measured" in line
    assert line.endswith(f"may take {low:,.3g} to {high:,.3g} s")
    assert low < plan.time < high
    measured = {"step_time": f"{plan.time} s"}
    assert lines(calibration=measured) == lines(step_time="3 s") == []


@pytest.mark.parametrize("stated", [{"mfu": 0.4}, {"step_time": "3 s"}])
def test_a_stated_time_of_a_layout_that_cannot_be_is_said(stated: dict[str, Any]) -> None:
    """A statement stays as it is, and a line says what the step-time model says of its layout, if that cannot be."""
    (name,) = stated

    small = {"like": "h100", "memory": "12 GB"}

    def lines(accelerator: Any = "h100", **changes: Any) -> list[str]:
        return [line for line in examined(accelerator, **stated, **changes).warnings if "rules out" in line]

    start = f"job 'train': the stated {name} is kept for a layout that the step-time model rules out: "
    assert lines() == []
    (line,) = lines(small)
    memory = r"it does not fit: [\d.]+ GB on GPUs of 12 GB \(.*\); it would with .*"
    assert re.fullmatch(re.escape(start) + memory, line), line
    (line,) = lines(parallelism={"pipeline": 64})
    assert line == f"{start}64 stages are more than the 32 layers of the model; nearest: 32"
    both = lines(small, parallelism={"tensor": 8, "data": 8, "virtual_pipeline": 2})
    assert [text.removeprefix(start)[:11] for text in both] == ["a pipeline ", "it does not"]
    assert examined(small, **stated).jobs[0].step_time == examined(**stated).jobs[0].step_time


def test_a_low_mfu_is_said() -> None:
    """Below 15 % a line says so: of a modelled step with what a GPU has to do, of a stated one with the model's."""

    def lines(**changes: Any) -> list[str]:
        return [line for line in examined(**changes).warnings if " is low" in line]

    assert lines() == []
    modelled = plan_of().mfu
    for stated, worded in ((0.16, False), (0.14, True)):
        assert (
            lines(mfu=stated)
            == [f"job 'train': an MFU of {100 * stated:.2g} % is low; the step-time model says {100 * modelled:.2g} %"]
            * worded
        )
    little: dict[str, Any] = {
        "batch": {"tokens": 8 * 8192, "sequence": 8192},
        "parallelism": {"pipeline": 8, "data": 8},
    }
    (line,) = lines(**little)
    plan = plan_of(**little)
    share = 100 * plan.breakdown.bubble / plan.time
    assert line == (
        f"job 'train': an MFU of {100 * plan.mfu:.2g} % is low: a GPU has 1,024 tokens of a step, and {share:.0f} % of "
        "the time is bubble (ettrick explain)"
    )


def test_slow_nodes_in_a_measured_step_count_twice() -> None:
    """A measured step has waited for slow nodes; a modelled one is healthy. Faults that stop nodes are no matter."""
    slow = SLOW | {"effect": {"use": "slow", "factor": 0.5}}
    for measured in ({"step_time": "3 s"}, {"mfu": 0.4}):
        (line,) = examined(failure=slow, **measured).warnings
        assert line.startswith(f"job 'train': a measured {next(iter(measured))} holds what slow nodes cost; throttled")
        assert examined(failure=SLOW, **measured).warnings == ()
    assert examined(failure=slow).warnings == ()


@cases(
    ("absent", "lacks"),
    [(("batch",), "batch"), (("parallelism",), "parallelism"), (("batch", "parallelism"), "batch and")],
)
def test_what_the_model_lacks_is_said(absent: tuple[str, ...], lacks: str) -> None:
    """A job with a model and nothing that gives a step is told what to add; it has no time of a step."""
    case = examined(**dict.fromkeys(absent))
    (line,) = case.warnings
    assert f"lacks {lacks}" in line
    assert case.jobs[0].step_time == 0.0


# ----------------------------------------
# The age of the software, and jobs beyond what was measured.


def test_software_is_what_its_kernels_reach() -> None:
    """A step reaches 0.9 of an attention kernel's share, and of the best product what fitted steps do of theirs."""
    shares = plan_of(software={"gemm": 0.8, "attention": 0.5}).machine.shares
    assert shares.attention == pytest.approx(0.9 * 0.5)
    assert shares.gemm == shares.logits == pytest.approx(steps.fit()["assumed"]["matmul_share"] * 0.8)
    assert (shares.basis, shares.sigma) == ("assumed", steps.fit()["sigma"]["assumed"])
    named, fitted = plan_of(software="flash-attention-2"), plan_of()
    assert named.machine.shares.attention == pytest.approx(0.9 * 0.35)
    assert named.machine.shares.gemm == fitted.machine.shares.gemm
    # The prior of the fit is this kernel: Hopper's steps moved it by less than its deviation.
    assert abs(math.log(named.machine.shares.attention / fitted.machine.shares.attention)) < 0.15
    assert plan_of(software="flash-attention-3").time < named.time


def test_software_is_said_by_name_or_by_shares() -> None:
    """Each name of the catalog has a source, and shares between nothing and all."""
    for name, entry in catalog.software().items():
        assert entry["source"], name
        assert all(0 < share < 1 for share in entry["attention"].values())
    with pytest.raises(sim.ScenarioError, match="unknown software 'flash-attention-9'; did you mean"):
        job_of(software="flash-attention-9")


def test_the_band_widens_beyond_what_was_measured() -> None:
    """2 % more for each doubling beyond 16,384 GPUs, in squares; nothing below."""
    assert steps.widened(0.1, 16_384) == 0.1
    assert steps.widened(0.1, 8) == 0.1
    assert steps.widened(0.1, 65_536) == pytest.approx(math.hypot(0.1, 0.04))
