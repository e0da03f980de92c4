"""Recovery presets: what they state, how a scenario overrides them, and the timers that were published."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import sim
from sim import catalog, yamlfile
from sim.input import presets
from sim.input.scenario import DEFAULTS, Scenario, schema
from sim.load import completed
from sim.policies.contracts import FAULTS, Bucket
from tests.cases import cases
from tests.unit.bad_input import BASE

PRESETS = catalog.recoveries()
NAMES = {
    "slurm-requeue",
    "k8s-jobset",
    "torchrun-elastic",
    "nvrx-in-process",
    "nvrx-in-job",
    "torchft-hsdp",
    "byterobust-warm-standby",
    "gemini-in-memory",
    "ntp",
    "ntp-power-boost",
    "multi-tier-pathways-elastic",
}
LAYOUT = "jobs.0.parallelism={tensor: 8, data: 124}"
"""The 992 GPUs of quickstart as replicas of one node each."""
STORES = "checkpoint.from_preset=true"
BARE = BASE.replace("detection: {time: 5 min}\n", "").replace("{use: hot-spare, initialize: 4 min}", "{use: %s}")


def quick(name: str, *overrides: str) -> Any:
    """Return quickstart, laid out in replicas, with a preset."""
    return sim.load(sim.find("quickstart"), [LAYOUT, f"recovery.use={name}", *overrides])


def step_by_step(*overrides: str) -> Any:
    """Return quickstart with options, each as if it were the last, in the order given."""
    document = presets.lay(yamlfile.extend(sim.find("quickstart"), shorthand=("cluster",)))
    for text in overrides:
        document = presets.lay(yamlfile.assign(document, text))
    return completed(Scenario, document, DEFAULTS)


def write(text: str) -> Path:
    """Write a scenario file."""
    path = Path("s.yaml")
    path.write_text(text, encoding="utf-8")
    return path


def refused(text: str, *overrides: str) -> tuple[str, ...]:
    """Return what is said of a scenario that is wrong."""
    with pytest.raises(sim.ScenarioError) as caught:
        sim.load(write(text), overrides)
    return caught.value.lines


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def strategy(name: str) -> Any:
    """Return the recovery of a preset."""
    return quick(name).recovery


# ------------------------------------------------------------------------------------------------ loading


@cases("name", PRESETS)
def test_the_strategy_is_that_of_the_file(name: str) -> None:
    """What is read of a preset at every start, without its file being parsed, is what the file says."""
    assert catalog.strategy_of(name) == catalog.recovery(name)["recovery"]["use"]


def test_the_presets() -> None:
    """The ways of production stacks whose timings are published are there, each under a name of no strategy."""
    assert set(PRESETS) == NAMES


@cases("name", PRESETS)
@cases("scenario", ["quickstart", "llama3-405b-54d"])
def test_every_preset_runs(name: str, scenario: str) -> None:
    """A shipped scenario can be asked about any preset by its name alone, and its ledger closes."""
    changes = [f"recovery.use={name}", "horizon=2 d", *([LAYOUT] if scenario == "quickstart" else [])]
    loaded: Any = sim.load(sim.find(scenario), changes)
    assert loaded.recovery.use == name
    assert sim.run(sim.prepare(loaded), 0).jobs


@cases("name", PRESETS)
def test_every_preset_detects(name: str) -> None:
    """A scenario that says nothing of detection has that of the preset, by which every class of fault is noticed."""
    scenario: Any = sim.load(write(BARE % name), ["jobs.0.parallelism={tensor: 8, data: 8}"])
    stated = catalog.recovery(name)["detection"]
    assert [watcher.observer for watcher in scenario.detection.observers] == [
        watcher["observer"] for watcher in stated["observers"]
    ]
    for fault in FAULTS:
        assert scenario.detection.noticing(fault, "crash") is not None


@pytest.mark.parametrize("name", PRESETS)
def test_presets_read_back(name: str) -> None:
    """What is written back holds every number, and reads as the same scenario, in a file and as plain data."""
    changes = ("detection={scale: 2}", "recovery.scale=3")
    scenario = quick(name, *changes)
    assert sim.parse(scenario.dump()) == scenario
    assert sim.load(write(sim.dump(scenario.dump()))) == scenario
    assert (scenario.detection.use, scenario.detection.scale, scenario.recovery.scale) == ("observers", 2, 3)


@cases("name", PRESETS)
def test_presets_travel_to_workers(name: str) -> None:
    """The strategy of a preset can be sent to another process."""
    recovery = strategy(name)
    assert pickle.loads(pickle.dumps(recovery)) == recovery


@cases("name", PRESETS)
def test_every_number_has_a_basis(name: str) -> None:
    """A preset names its source, and each note says whether it is read, quoted, derived or assumed."""
    content = catalog.recovery(name)
    assert set(content) <= {"title", "source", "recovery", "detection", "checkpoint", "notes"}
    assert content["title"]
    assert content["source"]
    for note in content["notes"]:
        assert set(note.partition(": ")[0].split(", ")) <= set("PSDA"), note


def test_list_names_presets() -> None:
    """`ettrick list` has a line for every preset, with its source."""
    lines = sim.inventory()["recovery presets (recovery.use)"]
    assert set(lines) == NAMES
    assert "arXiv 2602.00277" in lines["torchft-hsdp"]


# ---------------------------------------------------------------------------------------------- overriding


def test_items_of_lists() -> None:
    """`--set` reaches into the lists of a preset, and leaves what is around as it is."""
    scenario = quick(
        "nvrx-in-job",
        *("recovery.rungs.0.budget=5", "recovery.rungs.1.delay.0.time=0 s", "detection={}"),
        *("detection.observers.1.timeout=4 min", "checkpoint.tiers.1.interval=7 min", STORES),
    )
    plain = quick("nvrx-in-job", "detection={}")
    assert (scenario.recovery.rungs[0].budget, plain.recovery.rungs[0].budget) == (5, 3)
    assert scenario.recovery.rungs[0].stop == plain.recovery.rungs[0].stop
    assert scenario.recovery.rungs[1].delay[0].time.value == 0
    assert scenario.detection.observers[1].timeout == 240
    assert scenario.detection.observers[::2] == plain.detection.observers[::2]
    assert [tier.store for tier in scenario.checkpoint.tiers] == ["remote", "peer-host"]
    assert scenario.checkpoint.tiers[1].interval == "7 min"


def test_the_last_name_counts() -> None:
    """A preset that another one replaces leaves nothing behind, nor does what was changed inside of its values."""
    direct = step_by_step(STORES, "recovery.use=gemini-in-memory", "detection={}")
    detour = step_by_step(
        STORES,
        "recovery.use=nvrx-in-job",
        *("detection={}", "recovery.rungs.0.budget=5", "checkpoint.tiers.1.interval=7 min"),
        *("detection.observers.1.timeout=4 min", "recovery.use=gemini-in-memory"),
    )
    assert detour == direct
    for back in ("recovery={use: hot-spare, initialize: 4 min}", "recovery={initialize: 4 min, use: hot-spare}"):
        plain = sim.load(sim.find("quickstart"), [LAYOUT])
        assert sim.load(sim.find("quickstart"), [LAYOUT, "recovery.use=nvrx-in-process", back]) == plain


@cases(
    "changes",
    [
        ["recovery.rungs.0.stop.0.time=1 h"],
        ["recovery.rungs.0.stop.0.time={law: exponential, mean: 1 h}"],
        ["detection={}", "detection.observers.1.timeout=4 min"],
        ["checkpoint.tiers.1.interval=7 min", STORES],
        ["recovery.scale=3", "recovery.rungs.1.stop.0.time=5 s"],
    ],
)
def test_a_preset_is_changed_wherever_it_is_named(changes: list[str]) -> None:
    """A change counts whether the preset is named before it or after it, and is not that of the plain preset."""
    name = "recovery.use=nvrx-in-job"
    before, after = (sim.load(sim.find("quickstart"), order) for order in ([name, *changes], [*changes, name]))
    plain = quick("nvrx-in-job", *(change for change in changes if change in ("detection={}", STORES)))
    assert before == after != plain


def test_changes_of_the_file_s_preset_survive_another_one() -> None:
    """What was set for the stack of the file holds for the one that replaces it, if it has such a number."""
    write(BARE % "slurm-requeue")
    for order in (1, -1):
        options = ["recovery.rungs.0.stop.0.time=1 h", "recovery.use=nvrx-in-job"][::order]
        scenario: Any = sim.load("s.yaml", options)
        assert scenario.recovery.rungs[0].stop[0].time.value == 3600
        (line,) = refused(BARE % "nvrx-in-job", *["recovery.rungs.1.budget=5", "recovery.use=slurm-requeue"][::order])
        assert line == (
            "--set recovery.rungs.1.budget=5: recovery.rungs: is a list of 1, counted from 0: there is no item '1'"
        )


def test_detection_of_a_preset_gives_way_to_an_option() -> None:
    """A time of detection stays where only a preset had said something of detection, in either order."""
    for order in (1, -1):
        options = ["recovery.use=nvrx-in-job", "detection.time=3 min"][::order]
        scenario: Any = sim.load(write(BARE % "slurm-requeue"), options)
        assert (scenario.detection.use, scenario.detection.time.value) == ("latency", 180)


@cases("name", [*PRESETS, "full-restart"])
def test_unused_detection_is_warned_of(name: str) -> None:
    """A preset whose observers are not used has a warning that says so; with them, or without a preset, none."""
    line = f"recovery '{name}' brings observers; the scenario's own detection is used instead"
    told = [text for text in sim.examine(quick(name)).warnings if "own detection" in text]
    assert told == [line] * (name in PRESETS)
    if name in PRESETS:
        assert not [text for text in sim.examine(quick(name, "detection={}")).warnings if "own detection" in text]


def test_what_was_meant_for_another_strategy_goes() -> None:
    """Of the keys of a replaced choice those stay that the new one knows and the preset does not state."""
    text = BASE.replace("initialize: 4 min", "initialize: 4 min, scale: 2, patience: 1 h")
    scenario: Any = sim.load(write(text), ["jobs.0.parallelism={tensor: 8, data: 8}", "recovery.use=torchft-hsdp"])
    assert scenario.recovery.scale == 2
    assert scenario.recovery.initialize == strategy("torchft-hsdp").initialize
    own: Any = sim.load(write(text), ["jobs.0.parallelism={tensor: 8, data: 8}", *TORCHFT])
    assert own.recovery.initialize.value == 60


TORCHFT = ("recovery.use=torchft-hsdp", "recovery.initialize=1 min")


def test_the_file_wins() -> None:
    """What the file says beside the name of a preset wins, key by key, and a law by its parameters."""
    text = BARE.replace("{use: %s}", "{use: torchft-hsdp, rejoin: 3 s, quorum_timeout: 5 s}")
    scenario: Any = sim.load(write(text), ["jobs.0.parallelism={tensor: 8, data: 8}"])
    assert (scenario.recovery.rejoin.value, scenario.recovery.quorum_timeout) == (3, 5)
    assert scenario.recovery.reconfigure == strategy("torchft-hsdp").reconfigure
    Path("base.yaml").write_text(text, encoding="utf-8")
    over: Any = sim.load(
        write("extends: base.yaml\nrecovery: {catch_up: 4 s}\njobs: [{name: a, gpus: 64, parallelism: {data: 64}}]\n")
    )
    assert (over.recovery.use, over.recovery.catch_up.value, over.recovery.rejoin.value) == ("torchft-hsdp", 4, 3)


@cases(
    ("written", "use", "factor"),
    [
        ("", "observers", 1),
        ("detection: {scale: 2}\n", "observers", 2),
        ("detection: {human: {latency: 1 h}}\n", "observers", 1),
        ("detection: {time: 5 min}\n", "latency", 1),
        ("detection: {time: 5 min, scale: 2}\n", "latency", 2),
        ("detection: {use: latency}\n", "latency", 1),
    ],
)
def test_whose_detection(written: str, use: str, factor: float) -> None:
    """The observers of a preset watch unless the scenario chooses, or writes a key that only another strategy has."""
    scenario: Any = sim.load(write(BARE % "nvrx-in-job" + written))
    assert (scenario.detection.use, scenario.detection.scale) == (use, factor)
    assert len(getattr(scenario.detection, "observers", ())) == (3 if use == "observers" else 0)


def test_a_scenario_with_observers_of_its_own() -> None:
    """Observers that the scenario lists replace those of the preset as a whole; `use` keeps all of them away."""
    text = BARE % "nvrx-in-job"
    own: Any = sim.load(write(text + "detection: {observers: [{observer: slurm}]}\n"))
    assert [watcher.observer for watcher in own.detection.observers] == ["slurm"]
    none: Any = sim.load(write(text + "detection: {use: observers}\n"))
    assert none.detection.observers == ()


def test_detection_is_settled_by_the_last_option() -> None:
    """`--set detection={}` asks for the preset's observers, and a time afterwards for that time alone."""
    assert quick("nvrx-in-job").detection.use == "latency"
    assert quick("nvrx-in-job", "detection={}").detection.use == "observers"
    again = quick("nvrx-in-job", "detection={}", "detection.time=3 min").detection
    assert (again.use, again.time.value) == ("latency", 180)


def test_whose_stores() -> None:
    """The stores of a preset follow those of the scenario if it asks for them, but for those that it describes."""
    own = "{store: peer-host, interval: 9 min, write: 1 s, restore: 1 s}"
    remote = "{interval: 1 h, write: 1 s, restore: 1 s}"
    for name, tiers, stated, added in (
        ("byterobust-warm-standby", f"[{remote}]", ["remote"], ["host", "peer-host"]),
        ("byterobust-warm-standby", f"[{own}, {remote}]", ["peer-host", "remote"], ["host"]),
        ("slurm-requeue", f"[{remote}]", ["remote"], []),
    ):
        text = (BARE % name).replace("[{interval: 30 min, mode: blocking, write: 30 s, restore: 1 min}]", tiers)
        scenario: Any = sim.load(write(text), [STORES])
        assert [tier.store for tier in scenario.checkpoint.tiers] == stated + added
        for alone in (sim.load(write(text)), sim.load(write(text), ["checkpoint.from_preset=false"])):
            assert [tier.store for tier in alone.checkpoint.tiers] == stated  # type: ignore[attr-defined]


def test_a_name_of_a_recovery_brings_no_store_unasked() -> None:
    """The same rungs without and with stores: only who asks for the stores has another checkpoint, and work to lose."""
    plain, asked = (sim.prepare(quick("nvrx-in-job", *stores)) for stores in ((), (STORES,)))
    assert plain.recovery == asked.recovery
    lost = [
        sum(sim.run(case, number).jobs[0].buckets[Bucket.LOST_WORK] for number in range(2)) for case in (plain, asked)
    ]
    assert lost[0] > 2 * lost[1]


@cases("name", [*PRESETS, "full-restart"])
def test_unused_stores_are_warned_of(name: str) -> None:
    """Stores that a preset brings and the scenario does not have are named, with the option that adds them."""
    content = catalog.recovery(name) if name in PRESETS else {}
    stores = [store["store"] for store in content.get("checkpoint", {}).get("tiers", [])]
    for stated in ((), ("checkpoint.from_preset=false",)):
        found = [line for line in sim.examine(quick(name, *stated)).warnings if "checkpoints in" in line]
        assert found == [
            f"recovery '{name}' brings checkpoints in {' and '.join(stores)}, which are not used; "
            "to add them: --set checkpoint.from_preset=true"
        ] * bool(stores)
    assert not [line for line in sim.examine(quick(name, STORES)).warnings if "checkpoints in" in line]
    tier = {"interval": "1 h", "write": "1 s", "restore": "1 s"}
    own = json.dumps([tier, *({"store": store, **tier} for store in stores)])
    whole = sim.examine(quick(name, f"checkpoint.tiers={own}"))
    assert not [line for line in whole.warnings if "checkpoints in" in line]


def test_a_scenario_without_stores_is_given_none() -> None:
    """Stores of a preset are not enough by themselves: with or without them a scenario states its remote one."""
    text = (BARE % "nvrx-in-job").replace(
        "  tiers: [{interval: 30 min, mode: blocking, write: 30 s, restore: 1 min}]\n", ""
    )
    for written in (
        text.replace("checkpoint:", "checkpoint: {}"),
        text.replace("checkpoint:", "checkpoint: {from_preset: true}"),
    ):
        (line,) = refused(written)
        assert ": checkpoint.tiers: is missing (" in line
        assert "one of them is remote" in line
        assert "A recovery preset adds its own to these, with from_preset: true" in line


def test_a_store_that_only_the_preset_has_is_pointed_to() -> None:
    """A change of a store that is not there says what would bring it, unless no preset would."""
    change = "checkpoint.tiers.1.interval=7 min"
    (line,) = refused(BARE % "nvrx-in-job", change)
    end = "checkpoint.tiers: is a list of 1, counted from 0: there is no item '1'"
    assert line == f"--set {change}: {end}; the stores of 'nvrx-in-job' are there with checkpoint.from_preset=true"
    for name, *more in (("slurm-requeue",), ("nvrx-in-job", STORES, "checkpoint.tiers=[]")):
        assert refused(BARE % name, *more, change.replace("1", "9"))[0].endswith("there is no item '9'")


def test_options_of_the_stores() -> None:
    """Stores can be taken away after they were changed, and the scenario keeps its own under the same number."""
    changed = quick("nvrx-in-job", "checkpoint.tiers.1.clique=4", "checkpoint.tiers.0.interval=11 min", STORES)
    assert [(tier.store, tier.interval) for tier in changed.checkpoint.tiers] == [
        ("remote", "11 min"),
        ("peer-host", "2 min"),
    ]
    assert changed.checkpoint.tiers[1].clique == 4
    for stated, stores in (("false", ["remote"]), ("true", ["remote", "peer-host"])):
        both = [STORES, "checkpoint.tiers.0.interval=11 min", f"checkpoint.from_preset={stated}"]
        for options in (both, ["checkpoint.from_preset=false", *both]):
            assert [tier.store for tier in quick("nvrx-in-job", *options).checkpoint.tiers] == stores
    text = (BARE % "nvrx-in-job").replace("checkpoint:", "checkpoint:\n  from_preset: true")
    taken: Any = sim.load(write(text), ["checkpoint.tiers.1.clique=4", "checkpoint.from_preset=false"])
    assert [tier.store for tier in taken.checkpoint.tiers] == ["remote"]


def test_a_store_that_is_no_word_is_a_mistake_of_its_own() -> None:
    """A mapping where a store's name belongs is told at its place, also where a preset lays its stores beside it."""
    with pytest.raises(sim.ScenarioError, match=r"checkpoint.tiers.0.store: a mapping is not a choice"):
        quick("nvrx-in-job", "checkpoint.from_preset=true", "checkpoint.tiers.0.store={a: b}")


def test_a_changed_store_is_not_added_again() -> None:
    """A store of a preset that was made another one stays that, whatever is set afterwards."""
    disk = "{store: disk, interval: 1 h, write: 1 s, restore: 1 s}"
    changed = quick("nvrx-in-job", STORES, f"checkpoint.tiers.1={disk}")
    assert [tier.store for tier in changed.checkpoint.tiers] == ["remote", "disk", "peer-host"]
    changed = quick("nvrx-in-job", STORES, "checkpoint.tiers.1.store=host", "checkpoint.tiers.1.interval=1 h")
    assert [tier.store for tier in changed.checkpoint.tiers] == ["remote", "host"]


def test_mappings_are_merged() -> None:
    """Mappings below a preset are merged too."""
    text = (BARE % "byterobust-warm-standby").replace("standby}", "standby, evict: {nodes: 2}}")
    evict = sim.load(write(text)).recovery.evict  # type: ignore[attr-defined]
    assert (evict.nodes, evict.faults, evict.test) == (2, ("hang",), 900)


def test_a_law_is_not_filled_up_from_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of the preset lends its parameters to the same law alone."""
    content = {"recovery": {"use": "shrink-rejoin", "rejoin": {"law": "uniform", "low": "1 s", "high": "9 s"}}}
    monkeypatch.setattr(catalog, "recovery", lambda _: content)
    for own, merged in (
        ({"law": "uniform", "high": "5 s"}, {"law": "uniform", "low": "1 s", "high": "5 s"}),
        ({"high": "5 s"}, {"law": "uniform", "low": "1 s", "high": "5 s"}),
        ({"law": "exponential", "mean": "5 s"}, {"law": "exponential", "mean": "5 s"}),
    ):
        document = presets.lay(yamlfile.load(write(sim.dump({"recovery": {"use": "ntp", "rejoin": own}}))))
        assert document.data == {"recovery": {"use": "ntp", "rejoin": merged}}


def test_plain_data_may_name_a_preset() -> None:
    """Data that come from no file may name a preset too."""
    data = yamlfile.load(write(BARE % "nvrx-in-job")).data
    assert sim.parse(data) == sim.load("s.yaml")


def test_options_leave_the_document_as_it_was() -> None:
    """An option changes a copy: what the preset wrote in the document before is known as before."""
    document = presets.lay(yamlfile.load(write(BARE % "nvrx-in-job")))
    laid = set(document.laid)
    yamlfile.assign(document, "recovery.rungs.0.budget=5")
    assert document.laid == laid


def test_the_catalog_stays_as_it_is() -> None:
    """A document with a preset is its own: whoever changes it does not change the catalog."""
    document = presets.lay(yamlfile.load(write(BARE % "nvrx-in-job")))
    document.data["recovery"]["rungs"][0]["stop"].clear()
    assert catalog.recovery("nvrx-in-job")["recovery"]["rungs"][0]["stop"]


# ------------------------------------------------------------------------------------------------ mistakes


def test_unknown_names() -> None:
    """A name that is nearly that of a preset is answered with it."""
    (line,) = refused(BASE.replace("hot-spare, initialize: 4 min", "nvrx-injob"))
    assert line.startswith("s.yaml:11:17: recovery.use: 'nvrx-injob' is not a choice; did you mean 'nvrx-in-job'?")
    (line,) = refused(BASE.replace("{use: hot-spare, initialize: 4 min}", "torchft-hsdp"))
    assert "write {use: torchft-hsdp}" in line


def test_mistakes_of_the_user_are_shown_where_they_are() -> None:
    """What the file or an option says wrongly beside a preset is told at its place, without the preset."""
    (line,) = refused((BARE % "nvrx-in-job").replace("nvrx-in-job}", "nvrx-in-job, no_progres: 3}"))
    assert line.startswith("s.yaml:10:30: recovery.no_progres: unknown key 'no_progres'; did you mean 'no_progress'?")
    assert "preset" not in line
    (line,) = refused(BARE % "nvrx-in-job", "recovery.rungs.0.budget=-1")
    assert line == "--set recovery.rungs.0.budget=-1: recovery.rungs.0.budget: must be at least 0, not -1"
    (line,) = refused(BARE % "nvrx-in-job", "recovery.rungs.7.budget=1")
    assert line.endswith("recovery.rungs: is a list of 2, counted from 0: there is no item '7'")
    (line,) = refused(BARE % "nvrx-in-job" + "detection: {scale: 0}\n")
    assert line == "s.yaml:13:20: detection.scale: must be above 0, not 0"


def test_mistakes_of_a_combination_name_the_preset() -> None:
    """Where a preset does not go with the scenario, the place is its name, and the line says whose value it is."""
    text = BARE % "nvrx-in-job"
    (line,) = refused(text, "recovery.rungs.0.name=requeue")
    assert line == (
        "s.yaml:10:17: recovery.rungs.1.name: 'requeue' is also the name of an earlier rung (preset nvrx-in-job)"
    )
    (line,) = refused(text, "checkpoint.tiers.1.mode=blocking", STORES)
    assert line.startswith("s.yaml:10:17: checkpoint.tiers.1: stall is for mode: async")
    assert line.endswith(" (preset nvrx-in-job)")
    (line,) = refused(BASE, "recovery.use=nvrx-in-job", "recovery.rungs.0.name=requeue")
    assert line.startswith("--set recovery.use=nvrx-in-job: recovery.rungs.1.name: ")


def test_missing_detection_points_to_presets() -> None:
    """While the recovery has no known name nothing is said of detection; of a plain strategy, that presets bring it."""
    for written in ("{use: torchft}", "torchft", "{initialize: 4 min}"):
        (line,) = refused(BARE.replace("{use: %s}", written))
        assert ": recovery" in line
    (line,) = refused(BARE.replace("{use: %s}", "{use: hot-spare, initialize: 4 min}"))
    assert ": detection: is missing (" in line
    assert line.endswith("choose 'use' from latency, observers; a recovery preset would bring it)")
    lines = refused(BARE.replace("{use: %s}", "{use: hot-spare}"))
    assert [line.split(": ")[1] for line in lines] == ["detection", "recovery.initialize"]
    lines = refused(BARE.replace("recovery: {use: %s}\n", ""))
    assert [line.split(": ")[1] for line in lines] == ["detection", "recovery"]


def test_elastic_presets_need_a_layout() -> None:
    """A preset that works by replica says so of a job without a layout."""
    (line,) = refused(BARE % "torchft-hsdp")
    assert line.startswith("s.yaml:5:5: jobs.0: recovery 'torchft-hsdp' works by replica")


def test_the_schema_knows_presets() -> None:
    """To editors a preset needs nothing but its name, may be told any key of its strategy, and no other."""
    import jsonschema

    validator = jsonschema.Draft7Validator(schema())
    data = yamlfile.load(write(BARE % "nvrx-in-job")).data
    assert validator.is_valid(data)
    for recovery, fits in (
        ({"use": "torchft-hsdp"}, True),
        ({"use": "torchft-hsdp", "rejoin": "3 s"}, True),
        ({"use": "torchft-hsdp", "patience": "3 s"}, False),
        ({"use": "torchft"}, False),
        ({"use": "hot-spare", "initialize": "3 s"}, False),  # with nothing said of detection
    ):
        assert validator.is_valid({**data, "recovery": recovery}) is fits, recovery
    data["detection"] = {"time": "1 min"}
    assert validator.is_valid({**data, "recovery": {"use": "hot-spare", "initialize": "3 s"}})
    assert not validator.is_valid({**data, "recovery": {"use": "shrink-rejoin"}})
