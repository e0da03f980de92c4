"""The catalog of accelerators and models, against data sheets, papers and the presets collected from them."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from ettrick import sim
from ettrick.sim import catalog
from ettrick.sim.scenario.model import ModelSpec
from ettrick.sim.steps.shape import flop_per_token
from tests.cases import cases
from tests.reference_tables import rows

HERE = Path(catalog.__file__).parent

NAMES = {
    "a100": "A100-SXM-80",
    "a100-40gb": "A100-SXM-40",
    "h100": "H100-SXM-80",
    "h200": "H200-SXM-141",
    "b200": "B200-SXM",
    "b300": "B300-SXM",
    "gb200": "GB200-NVL72",
    "gb300": "GB300-NVL72",
    "rubin": "Rubin (VR NVL72/144)",
    "mi300x": "MI300X",
    "mi325x": "MI325X",
    "mi355x": "MI355X",
}

# The presets enter the rate of BF16 as FP8 where FP8 is not native, and MI355X's MXFP4 as FP4.
NOT_NATIVE = {("mi355x", "nvfp4")}

# Between what and what sources differ [B, B/s, FLOP/s]. All else is as in the presets.
RANGES = {
    ("a100", "memory_bandwidth"): (2.0e12, 2.039e12),
    ("b200", "memory"): (180e9, 192e9),
    ("b200", "memory_bandwidth"): (7.7e12, 8e12),
    ("b300", "memory"): (270e9, 288e9),
    ("b300", "memory_bandwidth"): (7.7e12, 8e12),
    ("b300", "nvfp4"): (12.6e15, 15e15),
    ("gb300", "memory"): (279e9, 288e9),
    ("gb300", "nvfp4"): (13.5e15, 15e15),
}


@cases("name", NAMES)
def test_accelerators_are_those_of_the_presets(name: str) -> None:
    """Peaks, memory, scale-up bandwidth and power are printed ones, and what is not printed is not there."""
    entry = catalog.accelerators()[name]
    row = {row["name"]: row for row in rows("hardware_presets.csv")}[NAMES[name]]
    printed = {precision: f"{precision.removeprefix('nv')}_dense_tflops" for precision in ("bf16", "fp8", "nvfp4")}
    expected = {key: 1e12 * float(row[column]) for key, column in printed.items() if row[column]}
    expected = {key: value for key, value in expected.items() if (name, key) not in NOT_NATIVE}
    assert set(entry.peak) - {"mxfp8"} == set(expected)
    expected |= {
        "memory": 1e9 * float(row["hbm_gb"]),
        "memory_bandwidth": 1e12 * float(row["hbm_tb_s"]),
        "scale_up": 1e9 * float(row["scaleup_uni_gb_s_per_gpu"]),
    }
    found = {**entry.peak, "memory": entry.memory, "memory_bandwidth": entry.memory_bandwidth}
    found["scale_up"] = entry.scale_up
    for key, value in expected.items():
        low, high = RANGES.get((name, key), (value, value))
        assert low * (1 - 1e-9) <= found[key] <= high * (1 + 1e-9), key
        assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9), key
    assert entry.power == (float(row["power_w"]) if row["power_w"] else None)
    if entry.node is not None:
        assert entry.node.gpus == int(row["gpus_per_node"])


# Both directions together, as vendors print them [B/s].


@cases("name", NAMES)
def test_peaks_double_with_half_the_bits(name: str) -> None:
    """Matrix units do twice as much at half the width; Blackwell Ultra does three times as much at FP4 as at FP8.

    Rubin was announced with more than four times as much at FP8 as at BF16.
    """
    peak = catalog.accelerators()[name].peak
    if "fp8" in peak:
        assert peak["fp8"] == pytest.approx((4.375 if name == "rubin" else 2) * peak["bf16"], rel=0.001)
    if "nvfp4" in peak:
        assert peak["nvfp4"] == pytest.approx((3 if "b300" in name else 2) * peak["fp8"], rel=0.001)


def test_generations() -> None:
    """Accelerators of one architecture share a generation, and no other does; Blackwell Ultra is Blackwell."""
    found: dict[str, set[str]] = {}
    for name, entry in catalog.accelerators().items():
        found.setdefault(entry.generation, set()).add(name)
    assert found == {
        "ampere": {"a100", "a100-40gb"},
        "hopper": {"h100", "h200"},
        "blackwell": {"b200", "gb200"},
        "blackwell-ultra": {"b300", "gb300"},
        "rubin": {"rubin"},
        "cdna3": {"mi300x", "mi325x"},
        "cdna4": {"mi355x"},
    }


@cases("name", NAMES)
def test_measured_products_stay_below_the_peak(name: str) -> None:
    """The best matrix product is slower than the peak, but not by half."""
    entry = catalog.accelerators()[name]
    for precision, rate in entry.matmul.items():
        assert 0.5 < rate / entry.peak[precision] < 1, precision


def test_metered_nodes_are_those_of_the_power_logs() -> None:
    """Nodes of H100 and B200 draw in training what MLPerf's power logs have; no other node is said to be metered."""
    accelerators = catalog.accelerators()
    metered = {name for name, entry in accelerators.items() if entry.node is not None and entry.node.measured}
    assert metered == {"h100", "b200"}
    logs = rows("mlperf_training_power.csv")
    for name, maker in (("h100", "Dell"), ("b200", "Lenovo")):
        medians = [float(row["median_node_w"]) for row in logs if row["submitter"] == maker]
        node = accelerators[name].node
        assert 0.99 * min(medians) <= node.training <= 1.01 * max(medians)


def test_estimated_nodes_of_eight_follow_the_metered_ones() -> None:
    """Training over boards' power lies on the line between H100 and B200, level outside; idle over training too."""
    accelerators = catalog.accelerators()
    metered = [accelerators[name] for name in ("h100", "b200")]
    boards = [8 * (entry.power or 0) for entry in metered]
    ratios = [entry.node.training / power for entry, power in zip(metered, boards, strict=True) if entry.node]
    shares = [entry.node.idle / entry.node.training for entry in metered if entry.node]
    for name, entry in accelerators.items():
        node, power = entry.node, entry.power
        if node is not None and node.gpus == 8:
            assert node.training == pytest.approx(8 * power * np.interp(8 * power, boards, ratios), abs=60), name
            assert min(shares) - 0.01 <= node.idle / node.training <= max(shares) + 0.01, name
            assert "boards" in node.source or node.measured


@cases(("name", "board"), [("gb200", 1.2e3), ("gb300", 1.4e3)])
def test_trays_are_those_of_the_rack_budget(name: str, board: float) -> None:
    """A tray draws 0.9 kW without work, and in training 76 % of that, its boards and 1 kW; 18 of GB300 are 135 kW.

    The share is that of heavy training on nodes of H100, of their rating (arXiv 2506.14551, abstract).
    """
    entry = catalog.accelerators()[name]
    assert entry.power == board
    assert entry.node.idle == 0.9e3
    assert entry.node.training == pytest.approx(0.76 * (0.9e3 + 4 * board + 1e3), rel=0.01)
    if name == "gb300":
        assert 18 * entry.node.training == pytest.approx(0.76 * 135e3, rel=0.01)


# Published parameters [-], and how far ours may be off [-]: norms, biases and the last printed digit.
PUBLISHED = {
    "llama2-7b": (6.74e9, 0.001),
    "llama2-13b": (13.02e9, 0.001),
    "llama2-70b": (68.98e9, 0.001),
    "llama3-8b": (8.03e9, 0.001),
    "llama3-70b": (70.55e9, 0.001),
    "llama3-405b": (405.85e9, 0.001),
    # Table D.1 of the paper, which counts 2,048 position embeddings and rounds to 10 M.
    "gpt3-1.3b": (1.32e9, 0.01),
    "gpt3-2.7b": (2.65e9, 0.003),
    "gpt3-6.7b": (6.66e9, 0.003),
    "gpt3-13b": (12.85e9, 0.001),
    "gpt3-175b": (174.6e9, 0.001),
    # Whole billions in arXiv 2205.05198; the others as in arXiv 2104.04473.
    "megatron-22b": (22e9, 0.005),
    "megatron-175b": (174.6e9, 0.001),
    "megatron-530b": (529.6e9, 0.001),
    "megatron-1t": (1008e9, 0.001),
    "mixtral-8x7b": (46.7e9, 0.001),
    "mixtral-8x22b": (140.6e9, 0.001),
    "deepseek-v3": (671e9, 0.001),
    # 1.04 T in the paper; its weights are 1.03 T.
    "kimi-k2": (1.04e12, 0.015),
    "qwen3-30b-a3b": (30.5e9, 0.002),
    "qwen3-235b-a22b": (235e9, 0.001),
    "nemotron-3-nano-30b-a3b": (31.6e9, 0.001),
    "nemotron-3-super-120b-a12b": (120e9, 0.006),
    # 12.5 B, and 3.2 B of embeddings.
    "nemotron-4-15b": (15.7e9, 0.006),
    # 331.6 B, and 9.4 B of embeddings.
    "nemotron-4-340b": (341e9, 0.001),
    "qwen3-8b": (8.19e9, 0.001),
    "qwen3-32b": (32.76e9, 0.001),
    # 116.8 B in table 1 of arXiv 2508.10925.
    "gpt-oss-120b": (116.83e9, 0.001),
    # Whole billions.
    "minimax-m2": (229e9, 0.005),
    "qwen3.5-397b-a17b": (397e9, 0.002),
}

# Parameters that a token meets, as published [-], the digit that they are rounded to [-], and the tables of embeddings
# that publishers count: input and output, the output alone, or none.
ACTIVE = {
    "mixtral-8x7b": (12.9e9, 0.1e9, 2),
    "mixtral-8x22b": (39e9, 1e9, 2),
    "deepseek-v3": (37e9, 1e9, 2),
    "kimi-k2": (32.6e9, 0.1e9, 2),
    "qwen3-30b-a3b": (3.3e9, 0.1e9, 2),
    "qwen3-235b-a22b": (22e9, 1e9, 2),
    "gpt-oss-120b": (5.13e9, 0.01e9, 1),
    "minimax-m2": (10e9, 1e9, 0),
    "qwen3.5-397b-a17b": (17e9, 1e9, 2),
    "nemotron-3-nano-30b-a3b": (3.6e9, 0.1e9, 2),
    "nemotron-3-super-120b-a12b": (12e9, 1e9, 1),
}


@cases(("name", "published", "tolerance"), [(name, *row) for name, row in PUBLISHED.items()])
def test_parameters_are_those_published(name: str, published: float, tolerance: float) -> None:
    """The shape gives the published parameters; modules for further tokens are not in the published count."""
    shape = replace(catalog.models()[name], depths=0)
    assert shape.parameters == pytest.approx(published, rel=tolerance)


def test_every_model_is_checked_against_what_is_published() -> None:
    """All models have their total, within 2 %, and those with experts what a token meets."""
    models = catalog.models()
    assert models.keys() == PUBLISHED.keys()
    assert max(tolerance for _, tolerance in PUBLISHED.values()) <= 0.02
    assert {name for name, shape in models.items() if shape.experts is not None} == ACTIVE.keys()


@cases(("name", "published", "digit", "tables"), [(name, *row) for name, row in ACTIVE.items()])
def test_active_parameters_are_those_published(name: str, published: float, digit: float, tables: int) -> None:
    """A token meets the published parameters, within 2 % or what publishers round: an expert is 3 % or more.

    Some leave out the routers too: DeepSeek-V3's 37 B is 36.6 B without the input's table and 37.6 B with it.
    """
    shape = replace(catalog.models()[name], depths=0)
    active = shape.active_parameters - shape.embeddings + min(tables * shape.embedding, shape.embeddings)
    assert abs(active - published) <= max(0.02 * published, digit / 2)


@cases(
    ("linear", "full", "keys"),
    [
        # Sizes of the matrices in config.json: 4096 x (2 x 2048 + 2 x 8192 + 2 x 64) + 8192 x 4096, and with a query
        # twice as wide, 4096 x (2 x 8192 + 2 x 512) + 8192 x 4096.
        (117_964_800, 104_857_600, "qwen3.5-397b-a17b"),
    ],
)
def test_layers_of_gated_deltanet(linear: int, full: int, keys: str) -> None:
    """Linear attention has its own matrices, and full attention beside it an output gate."""
    shape = catalog.models()[keys]
    assert shape.mixer.parameters(shape.hidden) == linear
    assert replace(shape, recurrent=0, mixer=None).attention_parameters == full
    assert shape.mixer.inner * shape.mixer.state == shape.state
    assert flop_per_token(shape, 8192) == pytest.approx(104.0e9 + 3 * 7 * 45 * shape.state, rel=0.001)


@cases("name", PUBLISHED)
def test_a_scenario_can_say_what_the_catalog_says(name: str) -> None:
    """Each shape of the catalog can be written in a scenario: layers without a feed-forward part, gates, DeltaNet."""
    shape = catalog.models()[name]
    content = {
        key: value for key, value in asdict(shape).items() if key in ModelSpec.model_fields and value is not None
    }
    content["head"] = shape.head or None
    again = ModelSpec.model_validate({key: value for key, value in content.items() if value is not None}).shape()
    assert again == replace(shape, title=again.title, source=again.source)


def test_qwen3_next_can_be_described() -> None:
    """80 B in all and 3 B for a token without the tables of embeddings (model card of Qwen3-Next-80B-A3B)."""
    spec = ModelSpec.model_validate({
        "layers": 48, "hidden": 2048, "ffn": 0, "heads": 16, "kv_heads": 2, "head": 256, "vocabulary": 151936,
        "experts": {"count": 512, "active": 10, "ffn": 512, "shared": 512},
        "recurrent": 36, "state": 32 * 128 * 128, "output_gate": True,
        "mixer": {"inner": 4096, "state": 128, "groups": 16, "heads": 32, "per_head": 2},
    })  # fmt: skip
    shape = spec.shape()
    assert shape.parameters == pytest.approx(80e9, rel=0.005)
    assert abs(shape.active_parameters - shape.embeddings - 3e9) < 0.5e9


@cases("mixer", [None, {"inner": 4096, "state": 128, "groups": 16, "heads": 32, "per_head": 2}])
def test_linear_attention_without_its_matrices_is_said(mixer: dict[str, int] | None) -> None:
    """Linear layers that nothing is said of count with the matrices of attention, and a warning names them."""
    model = {"layers": 8, "hidden": 2048, "ffn": 8192, "heads": 16, "vocabulary": 32000, "recurrent": 6, "state": 1000}
    job = {"name": "job", "gpus": 8, "batch": {"tokens": "1 Mi", "sequence": 8192}, "parallelism": {"data": 8}}
    content = sim.load(sim.find("quickstart")).dump()
    content |= {"jobs": [job | {"model": model | ({} if mixer is None else {"mixer": mixer})}]}
    content["spares"] = {"hot": 1}
    warnings = sim.prepare(sim.parse(content)).warnings
    assert any("6 layers with linear attention have" in text for text in warnings) == (mixer is None)


@cases(
    ("changes", "rule"),
    [
        ({"ffn": 0}, "is 0, which only suits layers next to experts or state spaces"),
        (
            {"output_gate": True, "latent": {"query_rank": 8, "kv_rank": 8, "head": 8, "rotary": 8, "value": 8}},
            "is of attention with keys and values of its own",
        ),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, object], rule: str) -> None:
    """A layer is refused where what it says has no matrix."""
    content = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 4, "vocabulary": 1000} | changes
    with pytest.raises(ValueError, match=rule):
        ModelSpec.model_validate(content)


def test_deepseek_was_trained_with_a_module_for_one_more_token() -> None:
    """The module has 11.5 B parameters of its own (README_WEIGHTS of deepseek-ai/DeepSeek-V3); one other has two."""
    models = catalog.models()
    assert {name: shape.depths for name, shape in models.items() if shape.depths} == {
        "deepseek-v3": 1,
        "nemotron-3-super-120b-a12b": 2,
    }
    shape = models["deepseek-v3"]
    assert shape.parameters - replace(shape, depths=0).parameters == pytest.approx(11.5e9, rel=0.015)


@cases("name", ["nemotron-4-15b", "nemotron-4-340b"])
def test_nemotron_has_two_tables_of_embeddings_and_no_gate(name: str) -> None:
    """12.5 B of 15 B and 331.6 B of 340 B are no embeddings (arXiv 2402.16819 and 2406.11704, table 1)."""
    shape = catalog.models()[name]
    published = {"nemotron-4-15b": 12.5e9, "nemotron-4-340b": 331.6e9}[name]
    assert shape.parameters - 2 * shape.embedding == pytest.approx(published, rel=0.002)


@cases("name", PUBLISHED)
def test_heads_make_up_the_width(name: str) -> None:
    """Groups of heads share keys and values evenly, and heads make up the width unless their width is given."""
    shape = catalog.models()[name]
    assert shape.heads % shape.kv_heads == 0
    assert shape.head or shape.latent or shape.hidden % shape.heads == 0
    if name.startswith(("gpt3", "megatron")):
        assert shape.tied
        assert not shape.gated
        assert shape.ffn == 4 * shape.hidden


def test_each_entry_has_a_title_and_a_source_on_its_line() -> None:
    """`ettrick list` shows title and source of each in one line, and says what is only announced."""
    listing = sim.inventory()
    shown = [
        (listing["models (jobs.model)"], catalog.models()),
        (listing["accelerators (cluster.accelerator)"], catalog.accelerators()),
        (listing["engines (services.engine)"], catalog.engines()),
        (listing["recommenders"], catalog.recommenders()),
    ]
    for lines, entries in shown:
        assert list(lines) == list(entries)
        for name, entry in entries.items():
            assert entry.title
            assert entry.source
            assert lines[name].startswith(entry.title)
            assert lines[name].endswith(f"({entry.source})")
            assert "\n" not in lines[name]
    announced = {name for name, line in shown[1][0].items() if "announced (" in line}
    assert announced == {"rubin"} == {name for name, entry in catalog.accelerators().items() if entry.announced}


BROKEN = [
    ("models", "layers: 32", "layer: 32", "llama2-7b: unknown key 'layer'; did you mean 'layers'?"),
    ("models", "  layers: 32\n", "", "llama2-7b: key 'layers' is missing"),
    ("models", "gated: true", "gated: true\n  rotary: 64", "llama2-7b: unknown key 'rotary'"),
    ("models", "  title: Llama 2 7B\n", "", "llama2-7b: key 'title' is missing"),
    ("models", "hidden: 4096", "hidden: '4096'", "llama2-7b: hidden: is '4096', not of the kind int"),
    ("models", "{count: 8, ", "{", "mixtral-8x7b: experts: key 'count' is missing"),
    ("models", "rotary: 64, ", "rotary: 64, rope: 1, ", "deepseek-v3: latent: unknown key 'rope'"),
    ("models", "{count: 8, active: 2, ffn: 14336}", "8", "mixtral-8x7b: experts: must be a mapping"),
    ("accelerators", "memory: 80 GB", "memory: 80 GB/s", "a100: memory: 'GB/s' is a unit of bandwidth"),
    ("accelerators", "  memory: 80 GB\n", "", "a100: key 'memory' is missing"),
    ("accelerators", "bf16: 312", "fp16: 312", "a100: peak: unknown precision 'fp16'"),
    ("accelerators", "power: 400 W", "powr: 400 W", "a100: unknown key 'powr'; did you mean 'power'?"),
    ("accelerators", "gpus: 8, ", "", "a100: node: key 'gpus' is missing"),
    ("accelerators", "measured: false", "measured: 0", "a100: node: measured: is 0, not of the kind bool"),
    ("accelerators", "{bf16: 271 TFLOP/s}", "271 TFLOP/s", "a100: matmul: must be a mapping"),
]


@pytest.mark.parametrize(("file", "old", "new", "message"), BROKEN)
def test_a_wrong_key_or_value_names_the_file(
    file: str, old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown key, a missing one and a value of another kind are refused with the file's name, entry and key."""
    text = (HERE / f"{file}.yaml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / f"{file}.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(catalog, "_HERE", tmp_path)
    monkeypatch.setattr(catalog, "file_table", catalog.file_table.__wrapped__)
    with pytest.raises(ValueError, match=re.escape(f"{file}.yaml: {message}")):
        getattr(catalog, file).__wrapped__()
