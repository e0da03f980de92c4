"""The fit of the step model: it finds numbers that are there, and what is left out is really left out."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from analysis.calibrate.__main__ import main
from analysis.calibrate.fit import (
    SCALE,
    Fold,
    Key,
    Numbers,
    Prior,
    dense_priors,
    errors,
    expert_priors,
    fit,
    folds,
    held_out,
    predict,
    rounded,
    sources,
)
from analysis.calibrate.outcome import Outcome, assume, calibrated_scatter, constants_text, scatter
from analysis.calibrate.rows import CAPPED, Product, Row, Steps, read_mixed, read_products, read_steps
from sim.catalog import accelerators, models, steps
from sim.steps import Constants, Machine, ModelShape, Workload, breakdown, ideal_links
from sim.yamlfile import load

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = Numbers(
    gemm={("ampere", "bf16"): 0.71, ("hopper", "bf16"): 0.66, ("hopper", "fp8"): 0.57},
    attention={"ampere": 0.29, "hopper": 0.36},
    constants=Constants(touches=2.7),
)
SMALL = ModelShape(24, 2048, 8192, 16, 16, 51200, gated=False, tied=True)
LARGE = ModelShape(32, 8192, 28672, 64, 8, 128256, gated=True)


def row(chip: str, work: Workload, source: str, measured: float = 1.0) -> Row:
    """Return a step on nodes of eight with 400 Gb/s a GPU."""
    part = accelerators()[chip]
    return Row(source, "model", "", part, work, ideal_links(work, part.scale_up, 50e9, 8), measured)


def measured(rows: list[Row], numbers: Numbers) -> list[Row]:
    """Return rows that took as long as the model says with these numbers."""
    times = predict(rows, numbers).tolist()
    return [each._replace(measured=time) for each, time in zip(rows, times, strict=True)]


def known_rows() -> list[Row]:
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
    products = [Product(*kind, 0.95, 0.85) for kind in TRUTH.gemm]
    return dense_priors(known_rows(), products)


def test_numbers_that_made_the_steps_are_found() -> None:
    """Steps computed from known numbers give the numbers back to 1e-4, from medians that are 8 to 35 % off."""
    priors = wide(priors_of_truth())
    found = fit(known_rows(), priors, Numbers())
    for key, prior in priors.items():
        assert abs(prior.median / TRUTH.value(key) - 1) > 0.05
        assert found.value(key) == pytest.approx(TRUTH.value(key), rel=1e-4)


def test_numbers_of_experts_are_found() -> None:
    """The second fit moves two numbers, finds them, and leaves the others where they are."""
    shape = models()["qwen3-30b-a3b"]
    truth = TRUTH.updated({("constants", "expert_gemm"): 0.6, ("constants", "expert_launch"): 0.9e-3})
    works = [Workload(shape, 4096, 64 * size, size, 1, 1, 1, 8, 8, precision="fp8") for size in (1, 2, 8)]
    rows = measured([row("h100", work, f"{work.microbatch}") for work in works], truth)
    found = fit(rows, wide(expert_priors()), TRUTH)
    assert found.constants.expert_gemm == pytest.approx(0.6, rel=1e-4)
    assert found.constants.expert_launch == pytest.approx(0.9e-3, rel=1e-4)
    assert found.updated({key: TRUTH.value(key) for key in expert_priors()}) == TRUTH


def test_what_no_row_knows_stays_as_it_was_known_before() -> None:
    """Without steps at fp8 the number of fp8 is the median of its prior: 0.9 of the large products."""
    rows = [each for each in known_rows() if each.work.precision != "fp8"]
    assert fit(rows, priors_of_truth(), Numbers()).gemm["hopper", "fp8"] == pytest.approx(0.9 * 0.85)


def test_priors_are_where_they_are_said_to_be() -> None:
    """Products: 0.9 x the mean over parts of the 95th percentile, mxfp8 as fp8; a missing product is one line."""
    work = Workload(LARGE, 4096, 8, precision="mxfp8")
    products = [Product("blackwell", "fp8", 0.9, 0.6), Product("blackwell", "fp8", 0.9, 0.7)]
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
    clean = held_out(rows, groups, priors_of_truth(), Numbers())
    dirty = held_out(other, groups, priors_of_truth(), Numbers())
    same = [one.numbers == two.numbers for one, two in zip(clean, dirty, strict=True)]
    assert same == [False, True, False, False]
    assert [fold.out for fold in dirty] == groups
    assert dirty[1].errors[0] == pytest.approx((1 + clean[1].errors[0]) / 100 - 1)


def test_folds_hold_each_row_once() -> None:
    """Five folds of 23 rows: every row in one, sizes that differ by one at most; another seed deals differently."""
    dealt = folds(23, 5, seed=0)
    assert sorted(place for part in dealt for place in part) == list(range(23))
    assert {len(part) for part in dealt} == {4, 5}
    assert folds(23, 5, seed=0) == dealt
    assert folds(23, 5, seed=1) != dealt


def test_what_stands_in_for_what_nobody_measured() -> None:
    """The share of best products is a mean; Blackwell bf16 is that share of the best product the catalog has."""
    numbers = Numbers({("hopper", "fp8"): 0.55, ("blackwell", "fp8"): 0.60}, {"hopper": 0.3, "blackwell": 0.4})
    chips = accelerators()
    best = {
        kind: np.mean([c.matmul[kind[1]] / c.peak[kind[1]] for c in chips.values() if fits(c, kind)])
        for kind in (("hopper", "fp8"), ("blackwell", "fp8"), ("blackwell", "bf16"))
    }
    share = np.mean([numbers.gemm[kind] / best[kind] for kind in numbers.gemm])
    found = assume(numbers, [Product("blackwell", "nvfp4", 0.5, 0.4)])
    assert found.matmul_share == pytest.approx(share, rel=1e-3)
    assert found.gemm["blackwell", "bf16"] == pytest.approx(share * best["blackwell", "bf16"], rel=1e-3)
    assert found.gemm["blackwell", "nvfp4"] == pytest.approx(share * 0.5, rel=1e-3)
    assert ("blackwell", "mxfp8") not in found.gemm
    assert found.gemm_share == {"fp8": pytest.approx(0.575)}
    assert found.attention == pytest.approx(0.35)


def fits(chip: object, kind: tuple[str, str]) -> bool:
    """Tell whether a chip is of a generation and has a measured product at a precision."""
    return getattr(chip, "generation", "") == kind[0] and kind[1] in getattr(chip, "matmul", {})


def outcome() -> Outcome:
    """Return a calibration of known rows."""
    dense = known_rows()
    priors = priors_of_truth()
    numbers = rounded(fit(dense, priors, Numbers()), list(priors))
    products = [Product(*kind, 0.95, 0.85) for kind in TRUTH.gemm]
    assumed = assume(numbers, products)
    work = Workload(models()["qwen3-30b-a3b"], 4096, 512, 8, 1, 1, 1, 8, 8, precision="fp8")
    mixed = measured([row("h100", work, "experts")], numbers)
    left = held_out(dense, list(sources(dense).values()), priors, Numbers())
    own = [Fold([0], numbers, errors(mixed, numbers))]
    steps_of = [Steps(rows, [], []) for rows in (dense, mixed)]
    return Outcome(*steps_of, products, numbers, priors | expert_priors(), assumed, left, left, left, own)


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
    assert set(content["sigma"]) == {"fitted", "experts", "assumed", "peak only", "calibrated", "calibrated experts"}
    guess = steps.efficiencies(accelerators()["mi300x"], "bf16")
    assert guess.basis == "peak only"
    assert guess.gemm == pytest.approx(found.assumed.matmul_share * 668 / 1307)


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
    **record("dataset model preset L h ffn heads kv vocab", "made 7B H100-SXM-80 32 4096 11008 32 8 32000"),
    **record("gated seq gbs mbs tp pp cp dp vpp prec recompute sp", "1 4096 512 2 2 4 1 8 2 fp4 full 0"),
    **record("flash tp_ov dp_ov distopt fsdp nic_gbyte_s_per_gpu step_s note", "1 0 1 1 0 25 3.5 -"),
}
MIXED = {
    **record("model preset container precision gbs mbs seq", "DeepSeekV3 H100-SXM-80 26.04 fp8 512 1 4096"),
    **record("tp pp cp vpp ep dp microbatches ga_printed step_s", "2 8 1 - 64 64 8.0 8 5.0"),
    "variant": "w/o MTP",
}
PRESETS = [
    {"name": name, "hbm_tb_s": 2.4, "scaleup_domain_gpus": 8, "nic_gbit_s_per_gpu": 400}
    for name in ("H100-SXM-80", "H100-96-500W")
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
    write(tmp_path, "training_steps.csv", [STEP, {**STEP, "preset": "H100-96-500W"}, {**STEP, "gated": 0}])
    found = read_steps(tmp_path)
    first, plain = found.rows
    shape = ModelShape(32, 4096, 11008, 32, 8, 32000, gated=True, tied=False)
    work = Workload(shape, 4096, 512, 2, 2, 1, 4, 8, virtual=2, precision="nvfp4", recompute="full")
    assert first.work == replace(work, sequence_parallel=False, overlap_tensor=False)
    assert first.links == ideal_links(work, 450e9, 25e9, 8)
    assert (first.source, first.model, first.chip, first.measured) == ("made", "7B", accelerators()["h100"], 3.5)
    assert plain.work.shape.tied
    (capped,) = found.reported
    assert (capped.source, capped.chip.memory_bandwidth, found.unused[0].rows) == (CAPPED, 2.4e12, 1)


def test_rows_with_experts_that_cannot_be_fitted_are_named(tmp_path: Path) -> None:
    """Dropped tokens, a contradiction and unknown shapes are set aside with a reason; the rest has its experts."""
    write(tmp_path, "hardware_presets.csv", PRESETS)
    others = [{"variant": "tokendrop"}, {"ga_printed": "4"}, {"model": "GPT OSS 120B"}, {"model": "New"}]
    write(tmp_path, "moe_steps.csv", [MIXED, *({**MIXED, **other} for other in others)])
    found = read_mixed(tmp_path)
    (good,) = found.rows
    assert good.work.shape == replace(models()["deepseek-v3"], depths=0)
    assert (good.work.expert, good.work.virtual, good.source, good.release) == (64, 1, "DeepSeekV3", "26.04")
    reasons = sorted((unused.what, unused.reason.split()[0]) for unused in found.unused)
    assert reasons == [("DeepSeekV3", "the"), ("DeepSeekV3", "tokens"), ("GPT OSS 120B", "attention"), ("New", "no")]


def test_products_are_read(tmp_path: Path) -> None:
    """Parts become generations, and data types precisions."""
    write(
        tmp_path,
        "gemm_efficiency_fit.csv",
        [{"gpu": "h200_sxm", "dtype": "bfloat16", "eff_max": 0.9, "eff_p95_big": 0.8}],
    )
    assert read_products(tmp_path) == [Product("hopper", "bf16", 0.9, 0.8)]


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


def test_without_tables_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty folder is one line on standard error and status 2."""
    assert main(["--data", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"fit-steps: hardware_presets.csv is not in {tmp_path}\n"
    assert captured.out == ""
