"""`ettrick init`: whatever is asked for by name and fits becomes a scenario that runs; the rest is told in a line."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.commands.scenarios import init
from ettrick.analysis.commands.starter import InitOptions, StarterError, quoted, starter
from ettrick.sim import catalog, yamlfile
from tests.cases import mistake_lines
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
