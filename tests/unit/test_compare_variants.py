"""What --vary means, how variants are called, and whose mistake it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim
from analysis.compare import Recipe, Variation, load_variants, prepared, recipes, split, warnings
from analysis.runs import RequestError
from tests import small
from tests.cases import cases


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the small scenario into an empty working folder; return its name."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(small.YAML)
    return "small.yaml"


@cases(
    ("text", "parts"),
    [
        ("a,b", ("a", "b")),
        ("a", ("a",)),
        (" 10 min , 1 h ", ("10 min", "1 h")),
        ("[1, 2],[3]", ("[1, 2]", "[3]")),
        ("{use: a, time: [1, 2]}, {use: b}", ("{use: a, time: [1, 2]}", "{use: b}")),
        ("'a,b',\"c,d\"", ("'a,b'", '"c,d"')),
        ("{name: 'a, }'},b", ("{name: 'a, }'}", "b")),
        ("it's,that's", ("it's", "that's")),
        ("a,,b", ("a", "", "b")),
    ],
)
def test_values_are_split_at_commas_outside_of_brackets_and_quotes(text: str, parts: tuple[str, ...]) -> None:
    """A comma in brackets, braces or quotes belongs to its value; an apostrophe in a word is none of these."""
    assert split(text) == parts


@cases(
    ("text", "rule"),
    [
        ("spares.hot", "--vary spares.hot: needs path=value,value"),
        ("=1,2", "--vary =1,2: needs path=value,value"),
        ("a=1,,2", "--vary a=1,,2: a value is empty"),
        ("a=", "--vary a=: a value is empty"),
        ("a=1,2,1", "--vary a=1,2,1: has 1 twice"),
        ("a=[1,2", "--vary a=[1,2: has no closing ]"),
        ("a='1,2", "--vary a='1,2: has no closing '"),
    ],
)
def test_a_mistake_of_vary_is_one_line(text: str, rule: str) -> None:
    """What is not a path with values is refused in one line."""
    with pytest.raises(RequestError) as caught:
        Variation.parse(text)
    assert str(caught.value).startswith(rule)


def test_all_combinations_in_order() -> None:
    """Scenarios first, then the first path, then the last one fastest; a name holds what varies."""
    names = [recipe.name for recipe in recipes(["x", "y"], ["a=1,2", "b=3,4"])]
    combinations = ["a=1, b=3", "a=1, b=4", "a=2, b=3", "a=2, b=4"]
    assert names == [f"{scenario}, {text}" for scenario in "xy" for text in combinations]
    assert recipes(["x"], ["a=1,2"], ["c=5"])[1] == Recipe("a=2", "x", ("c=5",), ("a=2",))
    assert [recipe.name for recipe in recipes(["x", "y"], [])] == ["x", "y"]


@cases(
    ("scenarios", "varied", "rule"),
    [
        (["x"], [], "nothing to compare with"),
        (["x"], ["a=1"], "nothing to compare with"),
        (["x", "x"], [], "x: is there twice"),
        (["x"], ["a=1,2", "a=3,4"], "--vary a: is there twice"),
        (["x"], [f"{name}=1,2,3,4,5,6,7,8,9" for name in "abcdefgh"], "--vary: makes more than 200 variants"),
    ],
)
def test_what_makes_no_comparison_is_refused(scenarios: list[str], varied: list[str], rule: str) -> None:
    """One variant, the same twice, or far too many: one line."""
    with pytest.raises(RequestError, match=rule):
        recipes(scenarios, varied)


def test_variants_are_loaded_with_their_values(scenario: str) -> None:
    """Each variant has its own value, and what is common to all."""
    loaded = load_variants(recipes([scenario], ["spares.hot=0,1"], ["horizon=1 d"]))
    assert [of.spares.hot for of in loaded.scenarios.values()] == [0, 1]
    assert {of.horizon for of in loaded.scenarios.values()} == {86400.0}
    assert not loaded.cannot_run


def test_a_common_value_reaches_the_variants_that_know_it(scenario: str) -> None:
    """A parameter set for all is kept by the strategies that have it: full restart keeps the time to initialize."""
    loaded = load_variants(recipes([scenario], ["recovery.use=full-restart,hot-spare"], ["recovery.initialize=7 min"]))
    recoveries: list[Any] = [of.recovery for of in loaded.scenarios.values()]
    assert [recovery.use for recovery in recoveries] == ["full-restart", "hot-spare"]
    assert [recovery.initialize.value for recovery in recoveries] == [420.0, 420.0]


@pytest.mark.parametrize(
    ("varied", "common"),
    [
        ("recovery.use=slurm-requeue,nvrx-in-job", "recovery.rungs.0.stop.0.time=1 h"),
        ("recovery.rungs.0.stop.0.time=1 h,2 h", "recovery.use=nvrx-in-job"),
        ("recovery={use: slurm-requeue},{use: nvrx-in-job}", "recovery.rungs.0.stop.0.time=1 h"),
        ("detection={time: 1 min},{time: 3 min}", "detection.scale=2"),
        ("recovery.scale=2,3", "recovery={use: full-restart, initialize: 1 min}"),
    ],
)
def test_what_is_set_reaches_every_variant(scenario: str, varied: str, common: str) -> None:
    """A value for all is in each variant, whichever of it and what varies is the choice, or inside the other."""
    path, _, text = varied.partition("=")
    loaded = load_variants(recipes([scenario], [varied], [common]))
    for value, found in zip(split(text), loaded.scenarios.values(), strict=True):
        chooses = path.endswith("use") or value.startswith("{")
        alone, added = f"{path}={value}", common
        assert found == sim.load(scenario, [alone, added] if chooses else [added, alone])
        assert found not in (sim.load(scenario, [alone]) if "rungs" not in path else None, sim.load(scenario))
    assert len(set(map(repr, loaded.scenarios.values()))) == 2


@cases("path", ["spares.hot", "recovery.use", "seed"])
def test_a_path_is_not_set_and_varied(path: str) -> None:
    """What is varied cannot be set too, nor can the choice inside of a mapping that varies: one line."""
    with pytest.raises(RequestError, match=rf"^--set {path} = 5: is varied too, by --vary {path}; say it once$"):
        recipes(["x"], [f"{path}=1,2"], ["horizon=1 d", f"{path} = 5"])
    with pytest.raises(RequestError, match=r"^--set a\.use=b: is varied too, by --vary a; say it once$"):
        recipes(["x"], ["a={use: c},{use: d}"], ["a.use=b"])
    assert recipes(["x"], ["a.use=c,d"], ["a={use: b}", "a.b=1", "a.user=2"])


def refusal(*arguments: list[str]) -> list[str]:
    """Return the lines in which the variants are refused."""
    with pytest.raises(sim.ScenarioError) as caught:
        load_variants(recipes(*arguments))
    assert not caught.value.is_answer
    return list(caught.value.lines)


def test_a_mistake_of_all_variants_is_said_once(scenario: str) -> None:
    """An unknown key is one line for any number of variants, with their names and the nearest one of the key."""
    for values, names in (
        ("0,1", "'spares.hot=0' and 'spares.hot=1'"),
        ("0,1,2", "'spares.hot=0', 'spares.hot=1' and 'spares.hot=2'"),
        ("0,1,2,3,4", "'spares.hot=0', 'spares.hot=1', 'spares.hot=2' and 2 more"),
    ):
        (line,) = refusal([scenario], [f"spares.hot={values}"], ["horizn=1 d"])
        assert line.startswith(f"variants {names}: --set horizn=1 d: horizn: unknown key")
    (line,) = refusal([scenario], ["recovry.use=full-restart,hot-spare"])[:1]
    assert line.startswith("--vary recovry.use=full-restart: recovry: unknown key")
    assert "did you mean 'recovery'?" in line


def test_a_mistake_of_one_variant_names_it(scenario: str) -> None:
    """A wrong value is shown with --vary; what follows from it elsewhere names the variant."""
    (line,) = refusal([scenario], ["recovery.use=hot-spare,hot-spair"])
    assert line.startswith("--vary recovery.use=hot-spair: recovery.use:")
    assert "hot-spare" in line
    (line,) = refusal([scenario], ["cluster.nodes=16,8"])
    assert line.startswith("variant cluster.nodes=8: ")
    assert "asks for 112 GPUs" in line


def test_a_mistake_always_names_variants(scenario: str) -> None:
    """What is wrong elsewhere because of what varies names it, for some variants and for all."""
    lacks = Path(scenario).read_text().replace("detection:", "windows: 1 d\nx:").replace("x:\n  time: 2 min\n", "")
    Path("lacks.yaml").write_text(lacks)
    (line,) = refusal(["lacks.yaml"], ["recovery.use=hot-spare,slurm-requeue"], ["recovery.scale=1"])
    assert line.startswith("variant recovery.use=hot-spare: lacks.yaml:1:1: detection: is missing")
    (line,) = refusal(["lacks.yaml"], ["recovery.use=hot-spare,full-restart"])
    assert line.startswith("variants 'recovery.use=hot-spare' and 'recovery.use=full-restart': lacks.yaml:1:1: ")
    (line,) = refusal([scenario], ["recovery.use=full-restart,hot-spare"], ["recovery.patience=1 h"])
    assert line.startswith("variant recovery.use=full-restart: --set recovery.patience=1 h: recovery.patience: unknown")


def test_a_mistake_of_a_value_is_told_once_for_its_combinations(scenario: str) -> None:
    """A wrong value is one line however many variants have it; one that is wrong only with another names both."""
    line = "--vary spares.hot=-1: spares.hot: must not be negative"
    assert refusal([scenario], ["spares.hot=-1,-2", "horizon=1 d,2 d,3 d"]) == [line, line.replace("-1", "-2")]
    (line,) = load_variants(recipes([scenario], ["jobs.0.gpus=64,128", "spares.hot=0,1"])).reasons
    assert line.startswith("variant jobs.0.gpus=128, spares.hot=1: --vary jobs.0.gpus=128: jobs.0.gpus: needs 16 nodes")


def test_warnings_are_one_line_each(scenario: str) -> None:
    """A warning of all variants is plain; one of some names them, in one line."""
    presets = "recovery.use=k8s-jobset,slurm-requeue"
    loaded = load_variants(recipes([scenario], [presets, "spares.hot=1,2"], ["spares.idle=serve"]))
    for name, line in zip(("k8s-jobset", "slurm-requeue"), warnings(prepared(loaded)), strict=True):
        of = " and ".join(f"'recovery.use={name}, spares.hot={hot}'" for hot in (1, 2))
        told = f"recovery '{name}' brings observers; the scenario's own detection is used instead"
        assert line == f"variants {of}: {told}"
    same = load_variants(recipes([scenario], ["spares.hot=1,2"], ["recovery.use=k8s-jobset", "spares.idle=serve"]))
    assert warnings(prepared(same)) == [told.replace("slurm-requeue", "k8s-jobset")]


def test_two_that_can_run_are_compared(scenario: str) -> None:
    """Mistakes leave variants out as long as two remain, each with its reason, and once for all of its combinations."""
    line = "--vary spares.hot=-1: spares.hot: must not be negative"
    loaded = load_variants(recipes([scenario], ["spares.hot=-1,1", "horizon=1 d,2 d,3 d"]))
    assert list(loaded.scenarios) == [f"spares.hot=1, horizon={days} d" for days in (1, 2, 3)]
    assert loaded.cannot_run == {f"spares.hot=-1, horizon={days} d": line for days in (1, 2, 3)}
    assert loaded.reasons == [line]
    assert refusal([scenario], ["spares.hot=-1,1"]) == [line]


def test_stores_of_presets_are_split_off(scenario: str) -> None:
    """Each variant with stores of its preset is followed by itself without these, whatever was changed in them."""
    change = ["checkpoint.from_preset=true", "checkpoint.tiers.1.clique=4"]
    wanted = recipes([scenario], ["recovery.use=nvrx-in-job,nvrx-in-process"], change)
    loaded = load_variants(wanted, split_stores=True)
    names = [f"recovery.use={name}" for name in ("nvrx-in-job", "nvrx-in-process")]
    assert loaded.without_stores == {name: f"{name} without its stores" for name in names}
    assert list(loaded.scenarios) == [each for pair in loaded.without_stores.items() for each in pair]
    tiers: list[Any] = [of.checkpoint for of in loaded.scenarios.values()]
    assert [[tier.store for tier in of.tiers] for of in tiers] == [["remote", "peer-host"], ["remote"]] * 2
    for name, bare in loaded.without_stores.items():
        assert loaded.scenarios[bare].recovery == loaded.scenarios[name].recovery
    assert load_variants(wanted).without_stores == {}
    with pytest.raises(RequestError, match=r"^--split: no variant has stores"):
        load_variants(recipes([scenario], ["recovery.use=nvrx-in-job,slurm-requeue"]), split_stores=True)


def test_what_does_not_fit_is_an_answer(scenario: str) -> None:
    """A job that does not fit into memory is no mistake: its variant cannot run, the other one can."""
    job = "{name: big, gpus: 112, model: llama3-70b, batch: {tokens: 7 Mi, sequence: 8192}}"
    parallelism = "jobs.0.parallelism={tensor: 8, pipeline: 2, data: 7},{data: 112}"
    loaded = load_variants(recipes([scenario], [parallelism], [f"jobs=[{job}]"]))
    assert [name.partition("=")[2] for name in loaded.scenarios] == ["{tensor: 8, pipeline: 2, data: 7}"]
    assert [name.partition("=")[2] for name in loaded.cannot_run] == ["{data: 112}"]
    assert "does not fit" in loaded.cannot_run["jobs.0.parallelism={data: 112}"]
