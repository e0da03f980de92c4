"""Kernels of a step: they add up to it, their shapes are those of the model, and measured times change it."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.explain.kernels import (
    compared,
    describe_kernels,
    opportunities,
    regressions,
    shapes_csv,
)
from ettrick.analysis.page.chapters.kernels import format_kernels, roofline
from ettrick.sim import catalog
from ettrick.sim.catalog import steps
from ettrick.sim.steps import StepPlan, Workload, ideal_links, problems
from ettrick.sim.steps.kernels import Benchmarks, GemmCurve, Kernel, calibrated, kernels
from ettrick.sim.steps.time import Machine
from tests.cases import cases
from tests.intervals import Z
from tests.reference_tables import rows as reference_rows
from tests.step_cases import MIXTRAL, SHAPE, bare_machine, described, workload
from tests.strategies import machines, workloads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from click.testing import Result

DONE, NO, WRONG = 0, 1, 2

MODELS = catalog.models()

CHIP = catalog.accelerators()["h100"]


def plan(work: Workload, accelerator: str = "h100", scale: float = 1.0) -> StepPlan:
    """Return a step on ranks that sit side by side in nodes of eight."""
    chip = catalog.accelerators()[accelerator]
    shares = steps.efficiencies(chip, work.precision, experts=work.shape.experts is not None)
    return StepPlan(work, Machine(chip, shares, ideal_links(work, chip.scale_up, 50e9, 8), steps.constants()), scale)


def kernels_of(one: StepPlan) -> list[Kernel]:
    """Return the kernels of a step with the benchmarks of its accelerator."""
    return kernels(one, steps.benchmarks(one.machine.chip, one.machine.shares))


def invoke(*arguments: object) -> Result:
    """Return what a command does."""
    return CliRunner().invoke(cli.app, ["kernels", *map(str, arguments)])


LARGE = Workload(MODELS["llama3-405b"], 8192, 2048, tensor=8, pipeline=16, data=128)

MIXED = Workload(
    MODELS["deepseek-v3"], 4096, 15360, pipeline=16, data=128, expert=64, precision="fp8", recompute="selective"
)

LAYOUTS: dict[str, Workload] = {
    "dense": LARGE,
    "one GPU": Workload(MODELS["llama3-8b"], 8192, 4),
    "context": Workload(MODELS["llama3-405b"], 131072, 16, tensor=8, context=16, pipeline=16, data=8),
    "fsdp": Workload(MODELS["llama3-70b"], 8192, 512, data=512, sharding="parameters", recompute="full"),
    "hsdp": Workload(MODELS["llama3-70b"], 8192, 512, data=512, sharding="parameters", shard_ranks=8),
    "replicated": Workload(MODELS["llama3-8b"], 8192, 64, tensor=2, data=32, sharding="none", overlap_data=False),
    "some layers again": Workload(
        MODELS["llama3-70b"], 8192, 64, tensor=8, pipeline=4, data=4, virtual=5, recompute="full", recompute_layers=6
    ),
    "not fused": replace(
        LARGE, fused_attention=False, fused_elementwise=False, sequence_parallel=False, recompute="selective"
    ),
    "latent": MIXED,
    "modules": replace(MIXED, modules=("mlp", "experts", "shared_experts", "up_projection"), overlap_expert=True),
    "experts": Workload(MODELS["mixtral-8x7b"], 4096, 256, tensor=2, pipeline=4, data=16, expert=8, recompute="full"),
    "expert tensor": Workload(MODELS["mixtral-8x7b"], 4096, 256, tensor=4, data=8, expert=4, expert_tensor=2),
    "recorded": replace(LARGE, cuda_graphs=True, offload_optimizer=True),
    "uneven experts": replace(MIXED, expert_load=1.5, cuda_graphs="partial", overlap_expert=True),
    "adapters": Workload(replace(MODELS["llama2-70b"], lora=16, lora_everywhere=True), 8192, 8, tensor=4, data=2),
    "adapters, divided weights": Workload(
        replace(MODELS["deepseek-v3"], lora=8), 4096, 64, data=64, expert=64, sharding="parameters", shard_ranks=8
    ),
    "heads": Workload(MODELS["llama3-405b"], 131072, 16, tensor=8, context=16, ulysses=4, pipeline=8, data=2),
    "state spaces": Workload(MODELS["nemotron-3-super-120b-a12b"], 8192, 64, tensor=2, data=32, expert=64),
    "windows": Workload(MODELS["gpt-oss-120b"], 8192, 64, data=64, expert=64),
}


@cases("name", list(LAYOUTS))
def test_kernels_add_up_to_the_step(name: str) -> None:
    """The kernels of each term of the breakdown add up to it, whatever the layout, the hardware and the calibration."""
    work = LAYOUTS[name]
    assert problems(work) == []
    for accelerator, scale in (("h100", 1.0), ("b200", 1.3), ("mi300x", 1.0)):
        one = plan(work, accelerator, scale)
        found = kernels_of(one)
        for term, time in one.breakdown._asdict().items():
            assert sum(row.step_time for row in found if row.term == term) == pytest.approx(time, rel=1e-9), term
        assert len({row.id for row in found}) == len(found)
        assert all(row.time >= 0 and row.count > 0 for row in found)


@given(workloads().flatmap(lambda work: st.tuples(st.just(work), machines(work))))
def test_kernels_add_up_on_any_machine(drawn: tuple[Workload, Machine]) -> None:
    """The same of any layout and execution, links of any width, and constants of any size."""
    one = StepPlan(*drawn)
    found = kernels_of(one)
    for term, time in one.breakdown._asdict().items():
        assert sum(row.step_time for row in found if row.term == term) == pytest.approx(time, rel=1e-9, abs=1e-15)


@cases("name", list(LAYOUTS))
def test_elementwise_passes_are_those_of_the_model(name: str) -> None:
    """The bytes of the element-wise kernels over the bandwidth of the memory are the term of the model, unscaled."""
    one = plan(LAYOUTS[name])
    found = [row for row in kernels_of(one) if row.term == "elementwise"]
    assert sum(row.count * row.size for row in found) / CHIP.memory_bandwidth == pytest.approx(
        one.breakdown.elementwise, rel=1e-9
    )


@cases("name", list(LAYOUTS))
def test_attention_and_recomputation_are_those_of_the_model(name: str) -> None:
    """Attention takes by itself what it takes in the step times a known share; whole layers again are a pass more."""
    one = plan(LAYOUTS[name])
    found = kernels_of(one)
    assert sum(row.count * row.alone for row in found if row.kind == "attention") == pytest.approx(
        steps.KERNEL * one.breakdown.attention, rel=1e-9
    )
    flop = dict.fromkeys(("forward", "recompute"), 0.0)
    for row in found:
        if row.kind == "gemm" and row.term == "gemm" and row.direction in flop:
            flop[row.direction] += row.count * row.flop
    if one.work.recompute == "full":
        assert flop["recompute"] == pytest.approx(one.work.whole_again * flop["forward"], rel=1e-9)


@cases("name", [name for name in LAYOUTS if name not in ("latent", "modules")])
def test_collectives_take_what_the_model_says(name: str) -> None:
    """Where nothing is hidden and no start takes time, collectives take by themselves what they take in the step."""
    work = replace(LAYOUTS[name], overlap_tensor=False, overlap_data=False, overlap_expert=False)
    one = plan(work)
    bare = dict.fromkeys(("latency", "context_hidden", "expert_hidden", "handover_hidden"), 0.0)
    one = replace(one, machine=replace(one.machine, constants=replace(one.machine.constants, **bare)))
    found = [row for row in kernels_of(one) if row.kind == "collective"]
    assert {row.term for row in found} == {
        term for term in ("tensor", "context", "expert", "pipeline", "data") if getattr(one.breakdown, term)
    }
    for row in found:
        assert row.alone == pytest.approx(row.time, rel=1e-9), row.id


@cases("name", ["dense", "latent", "experts", "expert tensor", "context"])
def test_products_have_the_flop_of_the_model(name: str) -> None:
    """Without recomputation the products of a layer are 6 FLOP per parameter that a token meets, over all ranks."""
    work = replace(LAYOUTS[name], recompute="none")
    shape = work.shape
    found = [row for row in kernels_of(plan(work)) if row.term == "gemm"]
    layers = {False: shape.dense_layers, True: shape.expert_layers}
    for experts, layer in ((False, "dense"), (True, "experts")):
        rows = [row for row in found if row.layer == layer]
        if not layers[experts]:
            assert rows == []
            continue
        active = 0 if shape.experts is None else shape.experts.active
        parameters = shape.common_layer + active * shape.expert if experts else shape.dense_layer
        assert sum(row.flop for row in rows) == pytest.approx(6 * work.tokens * parameters / work.tensor, rel=1e-12)


def test_shapes_of_llama_3() -> None:
    """Products of Llama 3 405B on eight tensor ranks, by hand: arXiv 2407.21783, table 3."""
    found = {row.id: row for row in kernels_of(plan(LARGE))}
    shapes = {
        "dense/forward/qkv": (8192, (128 + 2 * 8) * 128 // 8, 16384),
        "dense/forward/proj": (8192, 16384, 16384 // 8),
        "dense/forward/fc1": (8192, 2 * 53248 // 8, 16384),
        "dense/forward/fc2": (8192, 16384, 53248 // 8),
        "dense/input-gradient/fc2": (8192, 53248 // 8, 16384),
        "dense/weight-gradient/fc2": (16384, 53248 // 8, 8192),
        "dense/forward/attention": (8192, 8192, 128),
    }
    assert {name: (found[name].m, found[name].n, found[name].k) for name in shapes} == shapes
    # Of a row of the result, 8192 x 16384 values of two bytes gathered by eight ranks.
    gathered = found["dense/forward/all-gather"]
    assert (gathered.size, gathered.ranks) == (2 * 8192 * 16384, 8)
    assert gathered.count == 2 * found["dense/forward/qkv"].count == 2 * 16 * 8
    # A square product of n has an intensity of n / 3 at 16 bits: 2 n^3 FLOP over three matrices of 2 n^2 bytes.
    square = Kernel("", "", "", "gemm", "gemm", 1, "bf16", 4096, 4096, 4096)
    assert square.intensity is None
    proj = found["dense/forward/proj"]
    assert proj.intensity == pytest.approx(1 / (1 / proj.m + 1 / proj.n + 1 / proj.k))


def test_small_products_reach_less() -> None:
    """With fewer tokens a product takes less time by itself, but more per FLOP, up to several times as much."""
    rates = []
    for sequence in (64, 512, 4096):
        found = kernels_of(plan(Workload(MODELS["llama3-8b"], sequence, 64, tensor=8, data=8)))
        row = next(row for row in found if row.id == "dense/forward/qkv")
        rates.append(row.flop / row.alone)
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] / 2
    bounds = {row.bound for row in found if row.kind == "gemm"}
    assert bounds <= {"compute", "waves", "latency", "memory"}
    tiny = kernels_of(plan(Workload(MODELS["llama3-8b"], 64, 64, tensor=8, data=8)))
    assert {row.bound for row in tiny if row.term == "gemm"} & {"latency", "memory", "waves"}


@cases(("tiles", "share"), [(132, 1.0), (133, 133 / 264), (1, 1 / 132), (264, 1.0)])
def test_waves(tiles: int, share: float) -> None:
    """Tiles in the last wave occupy as many multiprocessors as there are tiles: by hand, of 132."""
    shape = replace(SHAPE, vocabulary=256 * tiles)
    one = StepPlan(workload(shape, sequence=128, sequences=1), bare_machine())
    known = Benchmarks({"bf16": GemmCurve(1.0, 1.0, 0.0, 1.0)}, 132)
    row = next(row for row in kernels(one, known) if row.id == "logits/forward/output")
    assert row.waves == pytest.approx(share)
    assert row.bound == ("waves" if share < 0.5 else "compute")


def test_benchmarks_are_the_measured_ones() -> None:
    """Each number of the catalog is that of the tables, and each row of the tables is in the catalog."""
    names = {f"{name}_sxm": name for name in ("a100", "h100", "h200", "b200", "b300")} | {
        name: name for name in ("gb200", "gb300")
    }
    formats = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4"}
    found = {name: steps.benchmarks(chip := catalog.accelerators()[name], steps.efficiencies(chip, "bf16"))
             for name in names.values()}  # fmt: skip
    for row in reference_rows("gemm_efficiency_fit.csv"):
        product = found[names[row["gpu"]]].products[formats[row["dtype"]]]
        wanted = [float(row[key]) for key in ("fit_e_gemm", "fit_e_mem", "fit_t0_us", "eff_max")]
        assert [product.compute, product.memory, product.start * 1e6, product.best] == pytest.approx(wanted)
        assert product.error == pytest.approx(float(row["mape_pct"]) / 100)
    for row in reference_rows("nccl_nvlink_fit.csv"):
        kind = {"alltoall": "all-to-all"}.get(row["op"], row["op"].replace("_", "-"))
        rate = found[names[row["gpu"]]].collectives[kind][int(row["gpus"])]
        assert rate == pytest.approx(1e9 * float(row["busbw_gb_s"]))


def test_no_measurements_no_dependence() -> None:
    """Where nobody has measured products by size, all of them reach the same share by FLOP and bytes, and no waves."""
    one = plan(LARGE, "mi300x")
    known = steps.benchmarks(one.machine.chip, one.machine.shares)
    assert known.source == ""
    assert {row.waves for row in kernels_of(one)} == {None}
    assert steps.benchmarks(catalog.accelerators()["a100-40gb"], one.machine.shares).source == "NVIDIA A100 SXM 80 GB"


# ----------------------------------------
# Measured times.


def test_measured_kernels_calibrate_the_step() -> None:
    """Measured as predicted the step stays; products that take a fifth more make it longer by a fifth of theirs."""
    one = plan(LARGE)
    rows = kernels_of(one)
    same = calibrated(rows, {row.id: row.alone for row in rows if row.kind == "gemm"})
    assert sum(row.step_time for row in same) == pytest.approx(one.time, rel=1e-12)
    # One measured product stands for those that were not measured.
    slower = calibrated(rows, {"dense/forward/fc1": 1.2 * next(r.alone for r in rows if r.id == "dense/forward/fc1")})
    assert sum(row.step_time for row in slower) - one.time == pytest.approx(0.2 * one.breakdown.gemm, rel=1e-9)


def test_opportunities_are_in_step_time() -> None:
    """The first is what the step gains most from, not what is furthest off; what is hidden gains only its rest."""
    rows = kernels_of(plan(LARGE))
    by_name = {row.id: row for row in rows}
    measured = {
        "dense/forward/proj": 2 * by_name["dense/forward/proj"].best,
        "dense/weight-gradient/fc1": 1.5 * by_name["dense/weight-gradient/fc1"].best,
        "step/update/reduce-scatter-gradients": 1.1 * by_name["step/update/reduce-scatter-gradients"].alone,
    }
    found = opportunities(rows, {name: [time] for name, time in measured.items()})
    assert found[0].kernel == "dense/weight-gradient/fc1"
    assert [one.saved_s for one in found] == sorted((one.saved_s for one in found), reverse=True)
    hidden = by_name["step/update/reduce-scatter-gradients"]
    saved = next(one.saved_s for one in found if one.kernel == hidden.id)
    assert saved < 0.5 * hidden.count * (measured[hidden.id] - hidden.best)


def _measurements(rng: np.random.Generator, mean: float, count: int = 5, noise: float = 0.02) -> list[float]:
    return list(mean * (1 + noise * rng.standard_normal(count)))


def test_noise_is_no_regression() -> None:
    """Of 400 comparisons of the same 20 kernels, without a threshold, at most one in twenty finds a change."""
    rng = np.random.default_rng(7)
    trials, found = 400, 0
    for _ in range(trials):
        files = [{f"k{at}": _measurements(rng, 1e-3) for at in range(20)} for _ in range(2)]
        rows = compared(*files, threshold=0.0, noise=math.nan).changes
        found += any(row.verdict != "same" for row in rows)
    assert found / trials <= 0.05 + Z * math.sqrt(0.05 * 0.95 / trials)
    assert found > 0


def test_a_slower_kernel_is_found_beyond_threshold_and_noise() -> None:
    """A tenth slower is found at a threshold of 5 %, and not at one of 20 %, nor in noise of that size."""
    for threshold, noise, wanted in ((0.05, 0.02, "slower"), (0.2, 0.02, "same"), (0.05, 0.2, "same")):
        found = compared({"a": [1.0], "b": [1.0]}, {"a": [1.1], "b": [1.0]}, threshold=threshold, noise=noise)
        assert [row.verdict for row in found.changes] == [wanted, "same"]
        assert found.noise_basis == "stated"
    back = compared({"a": [1.1] * 9, "b": [1.0]}, {"a": [1.0] * 9, "c": [1.0]}, threshold=0.05, noise=0.02)
    assert [(row.verdict, row.kernel) for row in back.changes] == [("faster", "a")]
    assert back.not_in_both == ["b", "c"]
    rng = np.random.default_rng(3)
    files = [{name: _measurements(rng, 1e-3) for name in "ab"} for _ in range(2)]
    found = compared(*files, threshold=0.05, noise=math.nan)
    assert found.noise == pytest.approx(0.02, rel=Z / math.sqrt(2 * 16))


# ----------------------------------------
# The command.


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Return the file of a job on 64 H100 whose step is modelled."""
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(described()))
    return path


def _file(path: Path, rows: Sequence[Kernel], **factors: float) -> Path:
    """Write measured times, twice each: those predicted, times a factor by name of the product."""
    lines = [f"{row.id},{row.alone * factors.get(row.name, 1.0) * wobble * 1e6!r}"
             for row in rows if row.kind == "gemm" for wobble in (0.999, 1.001)]  # fmt: skip
    path.write_text("\n".join(["kernel,measured_us", *lines, ""]))
    return path


def test_what_the_command_writes(scenario: Path, tmp_path: Path) -> None:
    """JSON, table and test cases have the same kernels, and page and pictures are written."""
    content = json.loads(invoke(scenario, "--json", "--csv", tmp_path / "cases.csv").stdout)
    assert math.fsum(row["step_s"] for row in content["kernels"]) == pytest.approx(content["step_s"])
    assert math.fsum(content["breakdown_s"].values()) == pytest.approx(content["step_s"])
    with (tmp_path / "cases.csv").open() as file:
        shapes = list(csv.DictReader(file))
    assert [row["kernel"] for row in shapes] == [row["kernel"] for row in content["kernels"] if row["kind"] != "wait"]
    for ending, begin in ((".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF"), (".html", b"<!doctype html>")):
        path = tmp_path / f"page{ending}"
        assert invoke(scenario, "--out", path).exit_code == DONE
        assert path.read_bytes()[:15].lower().startswith(begin.lower())
    text = invoke(scenario, "--top", 3).stdout
    assert "dense/forward/fc1" in text
    assert "roofline" in text
    assert f"{len(content['kernels']) - 3} others" in text


def test_the_roofline_is_above_the_products() -> None:
    """Each product and attention lies below the roof of its format; the knee is where memory and matrix units meet."""
    content, _ = describe_kernels(sim.examine(sim.parse(described())), None)
    chart = roofline(content)
    roof = chart.series[0]
    knee = roof.x[1]
    assert roof.y[1] == pytest.approx(knee * 3.35)
    for dot in chart.dots:
        assert dot.y <= min(roof.y[-1] or 0.0, dot.x * 3.35)


def test_measured_files(scenario: Path, tmp_path: Path) -> None:
    """A slower product of the second file ends with 1 and is named; two equal files end with 0."""
    rows = _rows(scenario)
    old = _file(tmp_path / "old.csv", rows)
    new = _file(tmp_path / "new.csv", rows, fc2=1.2)
    assert invoke(scenario, "--measured", old, "--measured", old).exit_code == DONE
    found = invoke(scenario, "--measured", old, "--measured", new)
    assert found.exit_code == NO
    assert found.stderr.count("slower by 20.0 %") == 3
    assert invoke(scenario, "--measured", old, "--measured", new, "--threshold", 0.3).exit_code == DONE


def test_measured_times_become_software(scenario: Path, tmp_path: Path) -> None:
    """The scenario with the printed shares steps as the calibrated kernels do, as far as reading weights goes."""
    measured = _file(tmp_path / "new.csv", _rows(scenario), **dict.fromkeys(("qkv", "proj", "fc1", "fc2"), 1.2))
    content = json.loads(invoke(scenario, "--json", "--measured", measured).stdout)
    stated = ", ".join(f"{name}: {share}" for name, share in content["software"].items())
    after = json.loads(invoke(scenario, "--json", "--set", f"jobs.0.software={{{stated}}}").stdout)
    assert content["calibrated_step_s"] > content["step_s"]
    assert after["breakdown_s"]["gemm"] == pytest.approx(1.2 * content["breakdown_s"]["gemm"], rel=0.02)


def _rows(scenario: Path) -> list[Kernel]:
    return describe_kernels(sim.examine(sim.load(scenario)), None)[1]


BAD: list[tuple[str, str]] = [
    ("kernel,time\n", "measured.csv:1: has no column for the measured_us (the header has: kernel, time)"),
    ("kernel,measured_us\ndense/forward/fc3,1\n", "measured.csv:2: kernel: the step has no 'dense/forward/fc3'; did"),
    (
        "kernel,measured_us\n\ndense/forward/fc1,x\n",
        "measured.csv:3: column 'measured_us' holds 'x', which is not a number",
    ),
    (
        "kernel,measured_us\ndense/forward/fc1,-1\n",
        "measured.csv:2: column 'measured_us' holds '-1', which is not a number of",
    ),
    ("kernel,measured_us\ndense/forward/fc1,\n", "measured.csv: measured_us: is empty in all lines"),
    (
        "kernel,measured_us\ndense/forward/fc1,0\n",
        "measured.csv:2: column 'measured_us' holds '0', which must be above",
    ),
    ("kernel,measured_us,kernel\n", "measured.csv:1: column 'kernel' is there twice"),
    ("", "measured.csv:1: has no header"),
]


@pytest.mark.parametrize(("text", "line"), BAD)
def test_bad_measured_files(scenario: Path, tmp_path: Path, text: str, line: str) -> None:
    """A mistake of a measured file is one line with its place, status 2, and nothing is written."""
    path = tmp_path / "measured.csv"
    path.write_text(text)
    found = invoke(scenario, "--measured", path, "--csv", tmp_path / "cases.csv")
    _refused(found, line)
    assert not (tmp_path / "cases.csv").exists()


def test_bad_options(scenario: Path, tmp_path: Path) -> None:
    """Wrong options are one line each."""
    _refused(invoke(scenario, "--out", tmp_path / "x.txt"), "must end in .html, .svg, .png or .pdf")
    _refused(invoke(scenario, "--measured", tmp_path), "cannot be read (is a directory)")
    _refused(invoke(scenario, *["--measured", tmp_path / "x"] * 3), "--measured: 3 files; give one, or two to compare")
    _refused(invoke(scenario, "--job", "trian"), "unknown job 'trian'; did you mean 'train'?")
    _refused(invoke("quickstart"), "the step model needs its model, batch and parallelism")


def _refused(found: Result, line: str) -> None:
    lines = [each for each in found.stderr.splitlines() if not each.startswith("warning:")]
    assert found.exit_code == WRONG
    assert len(lines) == 1
    assert line in lines[0]
    assert found.stdout == ""


def test_notes_say_what_the_numbers_rest_on() -> None:
    """Of experts too: what was measured, and what a stated step scales."""
    job: dict[str, Any] = described(**MIXTRAL)
    content, rows = describe_kernels(sim.examine(sim.parse(job)), "train")
    assert any("NVIDIA H100" in note for note in content.notes)
    assert "expert fc1" in {row.name for row in rows}
    assert next(csv.reader(io.StringIO(shapes_csv(rows))))[0] == "kernel"
    measured, _ = describe_kernels(sim.examine(sim.parse(described(step_time="9 s"))), None)
    assert measured.step_s == pytest.approx(9.0)
    assert any("measured over modelled" in note for note in measured.notes)
    assert regressions(measured) == []


def test_a_step_may_be_faster_than_the_benchmark() -> None:
    """Collectives of GB200 are, at the 70 % of all links; the column is called by what it is over, not by a limit."""
    content, rows = describe_kernels(sim.prepare(sim.load(sim.find("llama3-405b-gb200"))), None)
    assert max(row.reached or 0.0 for row in rows) > 1
    assert "of benchmark" in format_kernels(content, 3)
