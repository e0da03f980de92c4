"""`ettrick init`: all names and sizes that fit become a scenario that runs; one line explains each refusal."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.commands.config_json import ConfigError, model_of
from ettrick.analysis.commands.scenarios import init
from ettrick.analysis.commands.starter import InitOptions, StarterError, quoted, starter
from ettrick.sim import catalog, yamlfile
from tests.cases import cases, mistake_lines
from tests.pace import one_in
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

NIGHTLY = pytest.mark.nightly

WISHES = InitOptions("first", 1024, "h100", "llama3-70b", "llama3-table5", "slurm-requeue", "30 d")


def loaded(wishes: InitOptions, folder: Path) -> sim.Scenario:
    """Return the scenario that is written."""
    path = folder / "starter.yaml"
    path.write_text(starter(wishes), encoding="utf-8")
    return sim.load(path)


def test_the_file_says_what_was_asked_for(tmp_path: Path) -> None:
    """Name, GPUs, accelerator, model, failures and horizon are those of the options, and it runs."""
    made = loaded(WISHES._replace(horizon="10 d", model="llama3-405b"), tmp_path)
    cluster, job = made.cluster, made.jobs[0]
    assert (made.name, made.horizon) == ("first", 10 * 86400)
    assert (job.gpus, job.model) == (1024, "llama3-405b")
    assert str(cluster.all_pools[0].accelerator) == "h100"
    text = (tmp_path / "starter.yaml").read_text(encoding="utf-8")
    assert "- {use: llama3-table5}" in text
    assert "recovery: {use: slurm-requeue}" in text
    prepared = sim.prepare(made)
    assert prepared.sources
    assert sim.run(prepared, 0).jobs


@pytest.mark.parametrize(
    ("accelerator", "model", "recovery", "gpus"),
    [
        ("h100", "llama3-405b", "torchft-hsdp", 1984),
        ("h100", "megatron-1t", "ntp", 100_000),
        ("gb200", "megatron-1t", "torchrun-elastic", 256),
        ("a100", "gpt3-1.3b", "gemini-in-memory", 8),
        *(pytest.param(name, "gpt3-1.3b", "nvrx-in-job", 64, marks=NIGHTLY) for name in catalog.accelerators()),
        *(pytest.param("h100", "llama3-405b", name, 992, marks=NIGHTLY) for name in catalog.recoveries()),
        *(pytest.param("gb200", "llama3-405b", name, 256, marks=NIGHTLY) for name in catalog.recoveries()),
        *(pytest.param("h200", name, "k8s-jobset", 2048, marks=NIGHTLY) for name in catalog.models()),
    ],
)
def test_every_choice_makes_a_scenario_that_can_be_prepared(
    accelerator: str, model: str, recovery: str, gpus: int, tmp_path: Path
) -> None:
    """Each accelerator, each recovery and several models and sizes fit into memory, with some of it left."""
    wishes = WISHES._replace(accelerator=accelerator, model=model, recovery=recovery, gpus=gpus)
    prepared = sim.prepare(loaded(wishes, tmp_path))
    job = prepared.jobs[0]
    assert job.gpus == gpus
    assert present(job.plan).crowding <= 1.0
    assert prepared.spares > 0
    assert sim.run(prepared, 0).jobs


@pytest.mark.parametrize(
    "bundle", [pytest.param(name, marks=() if name == "infinitehbd" else NIGHTLY) for name in catalog.bundles()]
)
def test_every_bundle_can_be_asked_for(bundle: str, tmp_path: Path) -> None:
    """Each failure bundle strikes the cluster of a starter."""
    prepared = sim.prepare(loaded(WISHES._replace(failures=bundle, model="llama3-405b", gpus=256), tmp_path))
    assert prepared.sources
    assert prepared.jobs[0].mtti < float("inf")


@pytest.mark.parametrize(
    ("accelerator", "model", "gpus", "tokens"),
    one_in(
        4,
        [
            ("h100", "deepseek-v3", 2048, 30_720),
            ("gb200", "kimi-k2", 32_768, 30_720),
            ("h100", "gpt3-175b", 32_768, 1024),
            ("h100", "llama3-405b", 16_384, 1024),
        ],
    ),
)
def test_the_batch_grows_with_the_job(accelerator: str, model: str, gpus: int, tokens: int, tmp_path: Path) -> None:
    """Each GPU has about as many tokens as in a published run, so that the job is not all overhead, and says which."""
    wishes = WISHES._replace(accelerator=accelerator, model=model, gpus=gpus)
    (job,) = sim.prepare(loaded(wishes, tmp_path)).jobs
    assert job.tokens / gpus == pytest.approx(tokens, rel=0.5)
    assert present(job.mfu) > 0.15
    text = (tmp_path / "starter.yaml").read_text(encoding="utf-8")
    assert f"(published: {tokens:,}, " in " ".join(text.replace("#", " ").split())
    assert ("the largest that is known has 128 M" in text) == (job.tokens > 128e6)


def test_a_small_job_keeps_the_batch_of_its_model(tmp_path: Path) -> None:
    """Few GPUs do not make the batch smaller: it is that of the training, and they need longer for it."""
    for gpus in (256, 2048):
        (job,) = loaded(WISHES._replace(model="llama3-405b", gpus=gpus), tmp_path).jobs
        assert present(job.batch).tokens == 2048 * 8192


def test_stores_of_the_recovery_are_stated(tmp_path: Path) -> None:
    """A recovery that keeps checkpoints in memory has its stores in a line that can be struck out; others have none."""
    wishes = WISHES._replace(recovery="nvrx-in-job", model="llama3-405b", gpus=256)
    checkpoint: Any = loaded(wishes, tmp_path).checkpoint
    assert [tier.store for tier in checkpoint.tiers] == ["remote", "peer-host"]
    assert "  from_preset: true" in (tmp_path / "starter.yaml").read_text(encoding="utf-8")
    assert "from_preset" not in starter(wishes._replace(recovery="slurm-requeue"))


def test_each_value_has_a_comment_and_each_name_its_source() -> None:
    """Values are explained on their line or above it; names of the catalog come with the source of their entry."""
    text = starter(WISHES._replace(accelerator="gb200", recovery="ntp", model="megatron-1t", gpus=256))
    for entry in (catalog.accelerators()["gb200"], catalog.models()["megatron-1t"]):
        assert entry.source in " ".join(text.replace("#", " ").split())
    lines = text.split("\n")
    plain = {"mode: async", "assumptions:", "tiers:"}
    for before, line in itertools.pairwise(lines):
        content = line.strip().removeprefix("- ")
        if not content or content.startswith(("#", '"', "description")) or content in plain or "#" in line:
            continue
        assert before.lstrip().startswith("#"), line
    assert max(map(len, lines)) <= 120
    assert re.search(r"recovery: \{use: ntp, tensor: \d+\}", text)


def test_switch_trays_of_racks_fail_at_an_assumed_rate(tmp_path: Path) -> None:
    """A starter of NVL72 racks has a source for each tray of NVLink switches, which no bundle has; others have none."""
    prepared = sim.examine(loaded(WISHES._replace(accelerator="gb200", model="megatron-1t", gpus=256), tmp_path))
    (source,) = (source for source in prepared.sources if source.part == "switch_tray")
    racks = prepared.counts["scale_up"]
    assert racks == 5  # four of the job, one of spares
    assert source.rate == pytest.approx(9 * racks * 0.1 / 1000 / 86_400, rel=1e-12)
    assert any("switch trays" in line and "no rate is published" in line for line in prepared.scenario.assumptions)
    assert not any("switch trays" in line for line in prepared.warnings)
    assert "switch_tray" not in starter(WISHES._replace(model="llama3-405b", gpus=256))


@pytest.mark.parametrize(("accelerator", "gpus"), [("h100", 256), ("gb200", 288)])
def test_a_fleet_asks_for_a_share_of_its_gpus(accelerator: str, gpus: int, tmp_path: Path) -> None:
    """The jobs of a fleet ask for 70 % of all GPUs in the long run, none for more than a quarter, and they run."""
    made = loaded(WISHES._replace(kind="fleet", accelerator=accelerator, gpus=gpus, horizon="2 d"), tmp_path)
    prepared = sim.prepare(made)
    assert made.cluster.hosts == (gpus // made.cluster.gpus_per_node, made.cluster.gpus_per_node)
    text = (tmp_path / "starter.yaml").read_text(encoding="utf-8")
    (rate,) = re.findall(r"rate: ([\d.]+) per day", text)
    sizes = {int(size): float(share) for size, share in re.findall(r"(\d+): ([\d.]+)[,}]", text.split("gpus: {")[1])}
    assert max(sizes) <= gpus / 4 < 2 * max(sizes)
    mean = sum(size * share for size, share in sizes.items()) / sum(sizes.values())
    hours = 2 * math.exp(1.2**2 / 2)
    assert float(rate) * mean * hours / 24 / gpus == pytest.approx(0.7, rel=0.01)
    assert sim.run(prepared, 0).fleet.seconds.sum() > 0
    assert "model:" not in text


@pytest.mark.parametrize(
    ("accelerator", "gpus", "model", "ranks"),
    [("h100", 64, "llama3-70b", 2), ("h100", 32, "deepseek-v3", 16), ("gb200", 72, "qwen3-8b", 1)],
)
def test_a_service_has_the_smallest_replicas_that_fit(
    accelerator: str, gpus: int, model: str, ranks: int, tmp_path: Path
) -> None:
    """Replicas use all GPUs, half as large ones do not fit, and demand is 60 % of what they carry; and it runs."""
    wishes = WISHES._replace(kind="service", accelerator=accelerator, gpus=gpus, model=model, horizon="1 d")
    prepared = sim.prepare(loaded(wishes, tmp_path))
    (service,) = sim.services_of(prepared)
    assert (service.replica.gpus, service.gpus) == (ranks, gpus)
    assert service.load == pytest.approx(0.6, rel=0.05)
    assert prepared.spares > 0
    assert sim.run(prepared, 0).fleet.services


CONFIGS: dict[str, dict[str, Any]] = {
    "llama3-70b": {
        "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64,
        "num_hidden_layers": 80, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
    },
    "deepseek-v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
        "first_k_dense_replace": 3, "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 61,
        "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "tie_word_embeddings": False,
    },
    "qwen3-30b-a3b": {
        "model_type": "qwen3_moe", "decoder_sparse_step": 1, "mlp_only_layers": [], "head_dim": 128,
        "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32,
        "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
        "sliding_window": None, "use_sliding_window": False, "tie_word_embeddings": False, "vocab_size": 151936,
    },
    "gpt-oss-120b": {
        "model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880,
        "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 36, "num_local_experts": 128,
        "experts_per_token": 4, "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 18,
        "vocab_size": 201088, "tie_word_embeddings": False,
    },
    "qwen3.5-397b-a17b": {
        "model_type": "qwen3_5_moe",
        "text_config": {
            "model_type": "qwen3_5_moe_text", "head_dim": 256, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 2, "num_hidden_layers": 60, "num_experts": 512, "num_experts_per_tok": 10,
            "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024, "vocab_size": 248320,
            "layer_types": [*["linear_attention"] * 3, "full_attention"] * 15, "linear_num_value_heads": 64,
            "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "tie_word_embeddings": False,
        },
    },
}  # fmt: skip
"""The sizes in config.json of huggingface.co, by the model of the catalog with the same architecture."""


@cases("name", list(CONFIGS))
def test_a_config_json_is_the_model_of_the_catalog(name: str, tmp_path: Path) -> None:
    """The shape of a config.json is that of the catalog, but for widths that no layer has."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    shape, known = model_of(path)[1].shape(), catalog.models()[name]
    assert shape.parameters == known.parameters
    free = {"title", "source", *(["ffn"] if known.experts is not None and not known.experts.dense_layers else [])}
    for field in dataclasses.fields(shape):
        assert field.name in free or getattr(shape, field.name) == getattr(known, field.name), field.name


def test_a_config_json_becomes_a_scenario_that_runs(tmp_path: Path) -> None:
    """A training job and a service have the model of the file, key by key."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["gpt-oss-120b"]), encoding="utf-8")
    wishes = WISHES._replace(hf=str(path), gpus=128, horizon="1 d")
    trained = sim.prepare(loaded(wishes, tmp_path))
    served = sim.prepare(loaded(wishes._replace(kind="service"), tmp_path))
    model = sim.services_of(served)[0].spec.model
    assert trained.scenario.jobs[0].model == model
    assert not isinstance(model, str)
    assert model.shape().parameters == catalog.models()["gpt-oss-120b"].parameters
    assert sim.run(trained, 0).jobs
    assert sim.run(served, 0).fleet.services


@cases(
    "content, words",
    [
        ("{", "is not JSON (Expecting property name"),
        ("[]", "is no mapping of settings"),
        ("{}", "states no num_hidden_layers; give the config.json of a decoder-only transformer"),
        ('{"model_type": "t5", "is_encoder_decoder": true}', "'t5' has an encoder"),
        ('{"model_type": "mamba", "state_size": 16}', "'mamba' has state-space layers"),
        ({"hidden_size": "wide"}, "hidden: 'wide' is not a count"),
        ({"num_attention_heads": 63}, "63 heads do not share 8 of keys and values evenly"),
        ({"intermediate_size": None}, "states no intermediate_size"),
        ({"kv_lora_rank": 512}, "states kv_lora_rank without q_lora_rank"),
        ({"num_local_experts": 8}, "experts: active: "),
        ({"num_hidden_layers": [80]}, "layers: must be a whole number"),
        (
            {"layer_types": ["linear_attention"] * 80},
            "has a setting that no known model has ('linear_num_value_heads')",
        ),
    ],
)
def test_a_file_that_is_no_model_is_refused_in_a_line(
    content: str | dict[str, Any], words: str, tmp_path: Path
) -> None:
    """One line says what is missing or cannot be simulated."""
    path = tmp_path / "config.json"
    text = content if isinstance(content, str) else json.dumps(CONFIGS["llama3-70b"] | content)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        model_of(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accelerator": "h10"}, r"--accelerator: unknown accelerator 'h10'; did you mean 'h100'\?"),
        ({"model": "llama3-70"}, r"--model: unknown model 'llama3-70'.*did you mean 'llama3-70b'\?"),
        ({"failures": "meta-rsc"}, r"--failures: unknown failure bundle 'meta-rsc'.*did you mean"),
        ({"recovery": "hot-spare"}, r"--recovery: unknown recovery preset 'hot-spare'"),
        ({"horizon": "30"}, r"--horizon: '30' needs a unit"),
        ({"horizon": "0 d"}, r"--horizon: must be more than 0"),
        ({"gpus": 1001}, r"--gpus 1001: is not a whole number of nodes of 8; nearest: 1,000 or 1,008"),
        ({"gpus": 100, "accelerator": "gb200"}, r"--gpus 100: is not a whole number of racks.*nearest: 64 or 128"),
        (
            {"gpus": 64, "accelerator": "gb200", "kind": "fleet"},
            r"--gpus 64: is not a whole number of racks.*nearest: 72",
        ),
        (
            {"gpus": 8, "model": "deepseek-v3", "kind": "service"},
            r"--gpus 8 --model deepseek-v3: .*does not fit: 84 GB",
        ),
        ({"hf": "nowhere.json"}, r"--hf nowhere\.json: cannot be read \(No such file or directory\)"),
        ({"gpus": 8, "model": "llama3-405b"}, r"--gpus 8 --model llama3-405b: no layout of 8 GPUs fits: .*GB"),
        ({"gpus": 10**7}, r"--gpus 10,000,000: too many for a fat tree"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(change: dict[str, object], message: str) -> None:
    """The option is named, with the rule and what is nearest."""
    with pytest.raises(StarterError, match=message) as caught:
        starter(WISHES._replace(**change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_number_of_gpus_that_is_called_enough_is(tmp_path: Path) -> None:
    """Where a model does not fit, the suggested number of GPUs makes a scenario, and half of it does not."""
    small = WISHES._replace(gpus=8, model="llama3-405b")
    with pytest.raises(StarterError) as caught:
        starter(small)
    found = present(re.search(r"--gpus (\d+) is enough", str(caught.value)))
    enough = int(found[1])
    assert loaded(small._replace(gpus=enough), tmp_path).jobs[0].gpus == enough
    with pytest.raises(StarterError):
        starter(small._replace(gpus=enough // 2))


def test_any_name_comes_back_as_it_is(tmp_path: Path) -> None:
    """A name that YAML could take for something else is put in quotes."""
    for name in ("plain-name", "no", "two words", 'with "quotes"', "1e3", "ünï", "a: b # c", "null", "-", "{x}"):
        path = tmp_path / "name.yaml"
        path.write_text(f"name: {quoted(name)} # a comment", encoding="utf-8")
        assert yamlfile.load(path).data == {"name": name}
    wishes = WISHES._replace(name='a: "b" # c', model="megatron-1t", gpus=256)
    assert loaded(wishes, tmp_path).name == wishes.name


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `init` with some words in an empty folder."""
    app = typer.Typer()
    app.command()(init)
    monkeypatch.chdir(tmp_path)
    small = ("--model", "llama3-405b", "--gpus", "256")
    return lambda *words: CliRunner().invoke(app, [*words, *small])


def test_a_file_is_never_replaced_unasked(run: Callable[..., Result]) -> None:
    """The name gives the file; a file that is there stays as it is, until --overwrite."""
    assert run("--name", "mine").exit_code == 0
    path = Path("mine.yaml")
    assert sim.load(path).name == "mine"
    path.write_text("precious", encoding="utf-8")
    refused = run("mine.yaml")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert mistake_lines(refused.stderr) == ["mine.yaml: already exists; choose another file or add --overwrite"]
    assert path.read_text(encoding="utf-8") == "precious"
    assert run("mine.yaml", "--overwrite").exit_code == 0
    assert sim.load(path).jobs[0].gpus == 256


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("file.txt",), "file.txt: must end in .yaml or .yml"),
        (("--name", " "), "--name: must not be empty"),
        (("nowhere/file.yaml",), "nowhere/file.yaml: cannot be written (No such file or directory)"),
        (("--horizon", "30 parsecs"), "--horizon: "),
        (("--kind", "fleet"), "--model: has no effect with --kind fleet: jobs of a fleet have no model\n"),
        (("--kind", "service", "--recovery", "ntp"), "--recovery: has no effect with --kind service: "),
        (("--hf", "config.json"), "--model: has no effect with --hf: the file describes the model\n"),
    ],
)
def test_what_is_wrong_is_told_in_a_line_with_status_2(
    run: Callable[..., Result], words: tuple[str, ...], line: str
) -> None:
    """Nothing is written, and one line says why."""
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith(line)
    assert len(mistake_lines(result.stderr)) == 1
    assert not list(Path().iterdir())
