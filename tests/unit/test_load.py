"""Loading scenarios: inheritance, ``--set``, replaced strategies, files beside files, and what is written back."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ettrick import sim
from ettrick.sim import yamlfile
from ettrick.sim.load import choices_first
from tests.cases import cases
from tests.pace import one_in
from tests.typed import present
from tests.unit.bad_input import BASE

DAY = 86400.0

SHIPPED = sim.shipped("scenarios")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of its own that holds the file base.yaml."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE, encoding="utf-8")
    return tmp_path


def load(text: str, *overrides: str) -> Any:
    """Return the scenario of a text; strategy fields are seen as what they are, not as what the type says."""
    Path("s.yaml").write_text(text, encoding="utf-8")
    return sim.load("s.yaml", overrides)


def over(*overrides: str) -> Any:
    """Return the base scenario with values set."""
    return sim.load("base.yaml", overrides)


def refused(text: str, *overrides: str) -> tuple[str, ...]:
    """Return what is wrong with a text."""
    with pytest.raises(sim.ScenarioError) as caught:
        load(text, *overrides)
    return caught.value.lines


def test_scenarios_share_the_parts_that_say_the_same() -> None:
    """They are the same objects, and so are the causes; what is wrong in another part is told as ever."""
    template = sim.template("base.yaml")
    ours, theirs = (template.scenario([f"checkpoint.tiers.0.interval={minutes} min"]) for minutes in (20, 30))
    assert ours.cluster is theirs.cluster
    assert ours.jobs[0] is theirs.jobs[0]
    assert ours.checkpoint != theirs.checkpoint
    assert theirs == sim.parse(theirs.dump())
    first, second = sim.prepare(ours), sim.prepare(theirs)
    assert all(source is other for source, other in zip(first.sources, second.sources, strict=True))
    moved = sim.prepare(template.scenario(["repair.time=77 h"]))
    assert moved.sources[0].repair != first.sources[0].repair
    for _ in range(2):
        with pytest.raises(sim.ScenarioError, match="spares"):
            template.scenario(["spares.hot=-1"])


def test_extends_merges_mappings() -> None:
    """What a file leaves out comes from the one that it extends, key by key."""
    scenario = load("extends: base.yaml\nname: mine\nrecovery: {initialize: 9 min}\nspares: {hot: 3}\n")
    assert scenario.name == "mine"
    assert scenario.horizon == 30 * DAY
    assert scenario.recovery.use == "hot-spare"
    assert scenario.recovery.initialize.value == 540
    assert scenario.spares.hot == 3


def test_a_new_strategy_drops_what_only_the_old_one_knew() -> None:
    """Below a replaced ``use``, parameters that both know stay, and those of the old one alone go."""
    base = "extends: base.yaml\nrecovery: {patience: 1 h, pools: [idle], initialize: 7 min}\n"
    Path("patient.yaml").write_text(base, encoding="utf-8")
    scenario = load("extends: patient.yaml\nrecovery: {use: full-restart, delay: 2 min}\n")
    assert scenario.recovery.use == "full-restart"
    assert scenario.recovery.delay == 120
    assert scenario.recovery.initialize.value == 420
    assert sim.load("patient.yaml", ["recovery.use=full-restart"]).recovery.use == "full-restart"


def test_a_new_law_drops_the_parameters_of_the_old_one() -> None:
    """The same holds for the parameters of a law, in a file and in ``--set``."""
    Path("law.yaml").write_text(
        "extends: base.yaml\nrepair: {time: {use: lognormal, mean: 22 h, sigma: 1.5}}\n", encoding="utf-8"
    )
    scenario = load("extends: law.yaml\nrepair: {time: {use: exponential}}\n")
    assert scenario.repair.time.use == "exponential"
    assert scenario.repair.time.mean == 22 * 3600
    assert sim.load("law.yaml", ["repair.time.use=exponential"]).repair == scenario.repair


def test_former_words_for_use_are_read_with_one_hint(caplog: pytest.LogCaptureFixture) -> None:
    """`law`, `kind` and `observer` name a choice as `use` does: in a file, below others, in options, in data."""
    part = "failures: [{use: component, name: slow, rate: 1 per node-year, effect: {KIND: slow, factor: 0.5}}]\n"
    part += "detection: {use: observers, observers: [{OBSERVER: slurm, timeout: 9 min}]}\n"
    part += (
        "repair: {time: {LAW: mixture, parts: [{weight: 0.5, law: 2 h}, {weight: 0.5, law: {LAW: fixed, value: 1 h}}]}}"
    )
    new = load("extends: base.yaml\n" + re.sub("KIND|OBSERVER|LAW", "use", part))
    assert not caplog.records
    former = part.replace("KIND", "kind").replace("OBSERVER", "observer").replace("LAW", "law")
    Path("former.yaml").write_text("extends: base.yaml\n" + former, encoding="utf-8")
    assert sim.load("former.yaml") == sim.load("former.yaml") == new
    (record,) = caplog.records
    assert re.match("former.yaml:2:.*: 'kind: slow' is now written 'use: slow'", record.message)
    assert sim.parse(json.loads(json.dumps(new.dump()).replace('"use": "slurm"', '"observer": "slurm"'))) == new
    below = load("extends: former.yaml\nrepair: {time: {use: exponential, mean: 2 h}}\n")
    assert sim.load("former.yaml", ["repair.time={law: exponential, mean: 2 h}"]) == below
    assert sim.load("former.yaml", ["repair.time.mean=2 h", "repair.time.law=exponential"]) == below


def test_own_mistakes_below_a_new_strategy_are_told() -> None:
    """What the file itself writes below its ``use`` is not dropped, nor is a name that no strategy knows."""
    own = "extends: base.yaml\nrecovery: {use: full-restart, patience: 1 h}\n"
    assert refused(own) == (
        "s.yaml:2:31: recovery.patience: unknown key 'patience' (choose from use, scale, delay, initialize)",
    )
    Path("typo.yaml").write_text("extends: base.yaml\nrecovery: {patiense: 1 h}\n", encoding="utf-8")
    (line,) = refused("extends: typo.yaml\nrecovery: {use: full-restart}\n")
    assert line.startswith("typo.yaml:2:12: recovery.patiense: unknown key 'patiense'")
    (line,) = refused(BASE, "recovery.use=full-restart", "recovery.patience=1 h")
    assert line.startswith("--set recovery.patience=1 h: recovery.patience: unknown key 'patience'")


def test_a_key_added_to_an_inherited_strategy_is_told() -> None:
    """A parameter of another strategy below an inherited ``use`` is a mistake of the file that writes it."""
    Path("full.yaml").write_text("extends: base.yaml\nrecovery: {use: full-restart}\n", encoding="utf-8")
    (line,) = refused("extends: full.yaml\nrecovery: {patience: 1 h}\n")
    assert line.startswith("s.yaml:2:12: recovery.patience: unknown key 'patience'")


def test_set_reaches_through() -> None:
    """A path leads into mappings, lists by number, and clusters that are another file."""
    topology = sim.shipped("topologies")["small-1k"]
    scenario = load(
        BASE.replace("{nodes: 16, fabric: {leaf: {nodes: 4}}}", str(topology)),
        *("cluster.nodes=64", "cluster.fabric.leaf.nodes=16", "jobs.0.gpus=128", "checkpoint.tiers.0.interval=1 h"),
    )
    assert (scenario.cluster.nodes, scenario.cluster.fabric.leaf.nodes, scenario.cluster.rack.nodes) == (64, 16, 4)
    assert scenario.jobs[0].gpus == 128
    assert scenario.jobs[0].step_time == 10
    assert sim.prepare(scenario).jobs[0].checkpoint.interval == 3600


def test_set_replaces_the_cluster() -> None:
    """``--set cluster=FILE`` replaces the whole cluster; the file is meant from the working directory."""
    Path("elsewhere").mkdir()
    Path("elsewhere/mine.yaml").write_text("nodes: 32\nfabric: {leaf: {nodes: 8}}\nname: mine\n", encoding="utf-8")
    cluster = over("cluster.rack.nodes=8", "cluster=elsewhere/mine.yaml").cluster
    assert (cluster.name, cluster.nodes, cluster.fabric.leaf.nodes, cluster.rack.nodes) == ("mine", 32, 8, 4)


@cases(
    ("first", "second"),
    [
        ("recovery.use=full-restart", "recovery.delay=2 min"),
        ("recovery={use: full-restart, initialize: 1 min}", "recovery.delay=2 min"),
        ("recovery={use: full-restart, initialize: 1 min}", "recovery.initialize={use: exponential, mean: 3 h}"),
        ("repair={time: {use: fixed, value: 5 h}}", "repair.time={use: exponential, mean: 3 h}"),
        ("repair.time={use: exponential, mean: 1 h}", "repair.time.mean=3 h"),
        ("failures.0={use: llama3-table5}", "failures.0.scale=3"),
    ],
)
def test_what_is_chosen_comes_before_what_it_is_chosen_for(first: str, second: str) -> None:
    """A strategy or a law, and the whole around it, may be named after what is changed in it: both count."""
    both = over(first, second)
    assert over(second, first) == both
    assert both not in (over(), over(first))


def test_the_rest_keeps_its_order() -> None:
    """Two choices for the same thing, and two values of it, count as they stand; only what is around a choice moves."""
    names = ["recovery.use=hot-spare", "recovery={use: full-restart}", "repair.time.use=exponential"]
    values = ["spares.hot=1", "cluster={nodes: 4}", "cluster.nodes=8", "repair.time", "=", "horizon={use"]
    assert choices_first([*values[:3], *names[:2], *values[3:], names[2]]) == [
        *names[:2],
        "repair.time",
        names[2],
        *values[:3],
        *values[4:],
    ]
    assert over("recovery.use=full-restart", "recovery.use=hot-spare") == over()


def test_bundle_scale() -> None:
    """A bundle's rates can be scaled together, or cause by cause."""

    def rates(choice: str) -> dict[str, float]:
        prepared = sim.prepare(over(f"failures=[{choice}]"))
        return {source.name: source.rate for source in prepared.sources}

    once, twice = rates("{use: llama3-table5}"), rates("{use: llama3-table5, scale: 2}")
    some = rates("{use: llama3-table5, scale: {cpu: 3, software_bug: 0.5}}")
    assert len(once) == 18
    for cause, rate in once.items():
        assert twice[cause] == pytest.approx(2 * rate)
        assert some[cause] == pytest.approx({"cpu": 3, "software_bug": 0.5}.get(cause, 1) * rate)


def test_logs_lie_beside_the_file_that_names_them() -> None:
    """A log is meant from the file that says so, wherever the scenario is, and from here in ``--set``."""
    Path("logs").mkdir()
    Path("logs/a.csv").write_text("unit,start,end\nn0,1,2\nn0,5,7\n", encoding="utf-8")
    Path("logs/part.yaml").write_text(
        "extends: ../base.yaml\nfailures: [{use: replay, file: a.csv}]\n", encoding="utf-8"
    )
    for scenario in (
        sim.load("logs/part.yaml"),
        load("extends: logs/part.yaml\n"),
        over("failures=[{use: replay, file: logs/a.csv}]"),
        sim.parse({**over().dump(), "failures": [{"use": "replay", "file": "a.csv"}]}, folder=Path("logs")),
    ):
        assert Path(scenario.failures[0].file).is_absolute()  # so that a copy elsewhere finds it
        (source,) = sim.prepare(scenario).sources
        assert present(source.recorded).start.tolist() == [1, 5]


def test_a_strategy_may_be_left_to_its_default() -> None:
    """Where one strategy is the usual one, ``use`` may be left out; the scheduler may be left out altogether."""
    scenario = over()
    chosen = (scenario.cluster.fabric, scenario.checkpoint, scenario.detection, scenario.repair, scenario.scheduler)
    assert [part.use for part in chosen] == ["fat-tree", "tiers", "latency", "simple", "fifo"]


def test_find_by_name() -> None:
    """A bare name is a file here, or else a scenario that comes with the program; a path is left as it is."""
    assert sim.find("quickstart") == SHIPPED["quickstart"]
    assert sim.find("base.yaml") == Path("base.yaml")
    assert sim.find("some/where.yaml") == Path("some/where.yaml")
    Path("quickstart").write_text(BASE, encoding="utf-8")
    assert sim.find("quickstart") == Path("quickstart")
    with pytest.raises(sim.ScenarioError, match=r"^quikstart: .* did you mean 'quickstart'"):
        sim.find("quikstart")


def test_what_comes_with_the_program_goes_by_its_name_everywhere(folder: Path) -> None:
    """From any folder: to load, to extend, as a cluster in a file or an option."""
    assert sim.load("quickstart") == sim.load(SHIPPED["quickstart"])
    assert sim.load_cluster("h100-100k") == sim.load_cluster(sim.find_cluster("h100-100k"))
    Path("mine.yaml").write_text("extends: quickstart\nname: mine\ncluster: dgx-b200-superpod-4su\n")
    mine = sim.load("mine.yaml")
    assert (mine.name, mine.horizon) == ("mine", sim.load("quickstart").horizon)
    assert mine.cluster == sim.load_cluster("dgx-b200-superpod-4su")
    assert sim.load("quickstart", ["cluster=dgx-b200-superpod-4su"]).cluster == mine.cluster
    Path("mine.yaml").write_text("extends: quikstart\n")
    with pytest.raises(sim.ScenarioError, match=r"^mine.yaml:1:10: extends: quikstart: .* did you mean 'quickstart'\?"):
        sim.load("mine.yaml")
    with pytest.raises(sim.ScenarioError, match=r"^--set .*: did you mean 'h100-100k'\?|; did you mean 'h100-100k'\?"):
        sim.load("quickstart", ["cluster=h100-10k"])


def test_null_takes_a_key_away() -> None:
    """What has a default falls back to it; what must be there is missing, with the usual line."""
    assert sim.load("quickstart").spares.hot == 4
    assert sim.load("quickstart", ["spares.hot=null"]).spares.hot == 0
    with pytest.raises(sim.ScenarioError, match=r"quickstart.yaml:\d+:\d+: detection: is missing \("):
        sim.load("quickstart", ["detection=null"])
    with pytest.raises(sim.ScenarioError, match=r"^--set recovery.rungs=null: .* is brought by preset nvrx-in-job"):
        sim.load("recovery-16k", ["recovery.use=nvrx-in-job", "recovery.rungs=null"])


@pytest.mark.parametrize("name", one_in(5, SHIPPED))
def test_what_is_written_reads_back(folder: Path, name: str) -> None:
    """A shipped scenario, written to another folder as resolved, is the same scenario."""
    scenario = sim.load(SHIPPED[name])
    (folder / "deep").mkdir()
    copy = folder / "deep" / "copy.yaml"
    copy.write_text(sim.dump(scenario.dump()), encoding="utf-8")
    assert sim.load(copy) == scenario
    assert sim.parse(scenario.dump()) == scenario
    assert "extends" not in yamlfile.load(copy).data


def test_loading_is_light() -> None:
    """Reading a scenario, by name or with mistakes, imports none of the slow packages."""
    program = (
        "import sys\nfrom ettrick import sim\n"
        "sim.load(sim.find('quickstart'))\n"
        "sim.load(sim.find('llama3-405b-54d'))\n"
        "sim.schema()\n"
        "try: sim.load(sim.find('quickstart'), ['horizn=3'])\n"
        "except sim.ScenarioError: pass\n"
        "print(*sorted({'scipy', 'matplotlib', 'networkx', 'pandas'} & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(sim.__file__).parents[2]
    )
    assert done.stdout.strip() == ""


def loaded_after(program: str) -> str:
    """Return what a program prints at its end, in a process that has imported nothing yet."""
    folder = Path(sim.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.strip()


def test_the_package_imports_nothing_by_itself() -> None:
    """To import the package imports no module of it but the one that imports others on use, and no library."""
    program = (
        "import sys\nfrom ettrick import sim\n"
        "print(*sorted(name for name in sys.modules if name.startswith('ettrick')))\n"
        "print(*{'numpy', 'pydantic', 'yaml', 'simpy', 'typer'} & set(sys.modules))"
    )
    assert loaded_after(program) == "ettrick ettrick.sim ettrick.sim.lazy"


@pytest.mark.parametrize("package", ["ettrick", "ettrick.sim", "ettrick.sim.steps"])
def test_every_public_name_is_imported_on_use(package: str) -> None:
    """What a package that imports on use promises to have is there, also where a module has the name of a function."""
    program = (
        f"import importlib, types; package = importlib.import_module('{package}')\n"
        f"assert set(package._homes) <= set(dir(package))\n"
        "print(*(name for name in package._homes if isinstance(getattr(package, name), types.ModuleType)))\n"
        f"modules = [importlib.import_module(f'{package}.{{home}}') for home in set(package._homes.values())]\n"
        "print(*(name for name in package._homes if isinstance(getattr(package, name), types.ModuleType)))"
    )
    assert loaded_after(program) == ""


def test_only_the_kinds_of_a_scenario_are_built() -> None:
    """The validators made for a scenario are of the kinds that it names; the engine and the step model stay away."""
    program = (
        "import sys\nfrom ettrick import sim\n"
        "sim.load(sim.find('quickstart'))\n"
        "from ettrick.sim.scenario.fields import Model\n"
        "def walk(part):\n"
        "    if isinstance(part, dict):\n"
        "        built.add(part['cls']) if part.get('type') == 'model' else None\n"
        "        part = list(part.values())\n"
        "    for item in part if isinstance(part, list) else ():\n"
        "        walk(item)\n"
        "kinds, every, built = [Model], set(), set()\n"
        "while kinds:\n"
        "    kind = kinds.pop()\n"
        "    every.add(kind)\n"
        "    kinds += kind.__subclasses__()\n"
        "    walk(kind.__pydantic_core_schema__) if kind.__pydantic_complete__ else None\n"
        "from ettrick.sim.failures import SOURCES\n"
        "from ettrick.sim.policies.recovery import RECOVERIES\n"
        "names = {kind.__name__ for kind in built}\n"
        "print(*(name for name, kind in {**SOURCES, **RECOVERIES}.items() if kind.__name__ in names))\n"
        "print(len(built) < len(every) / 2)\n"
        "heavy = {'ettrick.sim.engine.simulation', 'ettrick.sim.closed_form', 'ettrick.sim.steps.time',"
        " 'ettrick.sim.cluster.paths', 'simpy'}\n"
        "print(*heavy & set(sys.modules))"
    )
    assert loaded_after(program) == "component hot-spare\nTrue"


def test_what_was_unpickled_can_be_written() -> None:
    """In a process that has validated nothing, the parts of a scenario that were sent to it are written as here."""
    scenario = sim.load(sim.find("recovery-16k"))
    parts = [scenario.cluster, scenario.checkpoint, scenario.detection, scenario.recovery, scenario.repair]
    program = f"import pickle; print([part.model_dump(mode='json') for part in pickle.loads({pickle.dumps(parts)!r})])"
    assert loaded_after(program) == repr([part.model_dump(mode="json") for part in parts])


@pytest.mark.parametrize("override", ["services.0.demand=400", "failures.0=4"])
def test_a_number_in_the_place_of_a_mapping_is_an_error_of_the_user(override: str) -> None:
    """Parts that may name a file are looked at before they are checked: a plain number there is complained about."""
    with pytest.raises(sim.ScenarioError, match="must be a mapping"):
        sim.load(SHIPPED["serve-llama3-70b"], [override])
