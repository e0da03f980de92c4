"""Recovery presets: what they state, how a scenario overrides them, and the timers that were published."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from ettrick import sim
from ettrick.sim import catalog, yamlfile
from ettrick.sim.input import presets
from ettrick.sim.input.scenario import DEFAULTS, Scenario, schema
from ettrick.sim.load import completed
from ettrick.sim.policies.contracts import FAULTS
from ettrick.sim.policies.detection import DETECTIONS
from ettrick.sim.policies.recovery.phases import Participants, RecoveryPhase, mean
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
    "bamboo-redundant-stages",
    "replicated-pairs",
    "oobleck-templates",
    "recycle-rerouting",
    "jit-checkpoint",
}

REDUNDANT = {name for name in NAMES if catalog.strategy_of(name) == "redundant"}

LAYOUT = "jobs.0.parallelism={tensor: 8, pipeline: 2, data: 62}"

"""The 992 GPUs of quickstart as replicas of two stages, a node each."""

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
    scenario: Any = sim.load(write(BARE % name), ["jobs.0.parallelism={tensor: 8, pipeline: 2, data: 4}"])
    stated = catalog.recovery(name)["detection"]
    assert [watcher.use for watcher in scenario.detection.observers] == [
        watcher["use"] for watcher in stated["observers"]
    ]
    for fault in FAULTS:
        assert scenario.detection.detection_race(fault, "crash") is not None


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
        ["recovery.rungs.0.stop.0.time={use: exponential, mean: 1 h}"],
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


@cases("name", [*PRESETS, "full-restart"])
def test_unused_detection_is_warned_of(name: str) -> None:
    """A preset whose observers are not used has a warning that says so; with them, or without a preset, none."""
    line = f"recovery '{name}' brings observers; the scenario's own detection is used instead"
    told = [text for text in sim.examine(quick(name)).warnings if "own detection" in text]
    assert told == [line] * (name in PRESETS)
    if name in PRESETS:
        assert not [text for text in sim.examine(quick(name, "detection={}")).warnings if "own detection" in text]


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
    own = json.dumps(
        [tier, *({"store": store, **(tier if store != "peer" else {"restore": "1 s"})} for store in stores)]
    )
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


def test_a_law_is_not_filled_up_from_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of the preset lends its parameters to the same law alone."""
    content = {"recovery": {"use": "shrink-rejoin", "rejoin": {"use": "uniform", "low": "1 s", "high": "9 s"}}}
    monkeypatch.setattr(catalog, "recovery", lambda _: content)
    for own, merged in (
        ({"use": "uniform", "high": "5 s"}, {"use": "uniform", "low": "1 s", "high": "5 s"}),
        ({"high": "5 s"}, {"use": "uniform", "low": "1 s", "high": "5 s"}),
        ({"use": "exponential", "mean": "5 s"}, {"use": "exponential", "mean": "5 s"}),
    ):
        document = presets.lay(yamlfile.load(write(sim.dump({"recovery": {"use": "ntp", "rejoin": own}}))))
        assert document.data == {"recovery": {"use": "ntp", "rejoin": merged}}


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
    assert line.endswith("choose 'use' from latency, observers; a recovery preset sets it)")
    lines = refused(BARE.replace("{use: %s}", "{use: hot-spare}"))
    assert [line.split(": ")[1] for line in lines] == ["detection", "recovery.initialize"]
    lines = refused(BARE.replace("recovery: {use: %s}\n", ""))
    assert [line.split(": ")[1] for line in lines] == ["detection", "recovery"]


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


# ----------------------------------------
# The timers of recovery presets, against what was published of the stacks that they stand for.


def seconds(phases: Any, gpus: int, only: str = "") -> float:
    """Return the mean time of phases at some size, eight GPUs a node of which one joins; of one phase if named [s]."""
    if only:
        phases = tuple(phase for phase in phases if phase.name == only)
        assert phases, only
    return sum(mean(phases, Participants(gpus, gpus // 8, 1)))


def observer(name: str, kind: str) -> Any:
    """Return one of the observers that a preset states."""
    found: Any = DETECTIONS["observers"].model_validate(catalog.recovery(name)["detection"])
    return next(watcher for watcher in found.observers if watcher.use == kind)


@cases("name", sorted(NAMES - REDUNDANT - {"torchft-hsdp", "multi-tier-pathways-elastic"}))
def test_notes_say_what_comes_out(name: str) -> None:
    """The times at three sizes that a note names are those of the phases, without nodes that join."""
    recovery = strategy(name)
    first = getattr(recovery, "rungs", [recovery])[0]
    phases = (first.launch,) if name == "slurm-requeue" else (first.stop, first.launch)
    note = next(text for text in catalog.recovery(name)["notes"] if " s at 1,024, 16,384 and 98,304 GPUs" in text)
    found = re.search(r"([\d,]+), ([\d,]+) and ([\d,]+) s at 1,024", note)
    assert found
    for gpus, text in zip((1024, 16384, 98304), found.groups(), strict=True):
        time = sum(sum(mean(part, Participants(gpus, gpus // 8, 0))) for part in phases)
        assert time == pytest.approx(float(text.replace(",", "")), abs=1)


@cases(("gpus", "published"), [(16384, 200), (98304, 900)])
def test_cold_start_is_the_published_one(gpus: int, published: float) -> None:
    """From nodes to the first step at 16 and 98 thousand GPUs: about 200 and 900 s (arXiv 2602.00277)."""
    for name in ("slurm-requeue", "nvrx-in-job", "nvrx-in-process"):
        assert seconds(strategy(name).rungs[-1].launch, gpus) == pytest.approx(published, rel=0.05)
    assert seconds(strategy("torchrun-elastic").start_up, gpus) == pytest.approx(published, rel=0.05)


@cases("gpus", [1024, 16384, 98304])
def test_the_way_down_the_ladder(gpus: int) -> None:
    """Each rung takes longer than the one before: processes kept, nodes kept, nothing kept."""
    rungs = strategy("nvrx-in-process").rungs
    times = [seconds(rung.stop, gpus) + seconds(rung.delay, gpus) + seconds(rung.launch, gpus) for rung in rungs]
    assert times == sorted(times)
    assert [rung.keeps for rung in rungs] == ["processes", "hosts", "nothing"]


def test_collectives_grow_as_published() -> None:
    """17, 30, 100 and 200 s at 16, 22, 64 and 98 thousand GPUs, which the power law meets within 15 %."""
    for name in ("slurm-requeue", "nvrx-in-process"):
        launch = strategy(name).rungs[0].launch
        for gpus, published in ((16384, 17), (22528, 30), (65536, 100), (98304, 200)):
            assert seconds(launch, gpus, "collectives") == pytest.approx(published, rel=0.15)


@cases("name", PRESETS)
def test_no_phase_is_shorter_for_a_larger_job(name: str) -> None:
    """From 8 to 131,072 GPUs, whose nodes all join."""
    found = [RecoveryPhase.model_validate(row) for row in _phases(catalog.recovery(name)["recovery"])]
    assert found
    for each in found:
        times = [each.mean_seconds(Participants(8 << power, 1 << power, 1 << power)) for power in range(15)]
        assert times == sorted(times), each.name


def _phases(value: Any) -> list[Any]:
    """Return all phases in a part of a preset."""
    if isinstance(value, list):
        return [phase for each in value for phase in _phases(each)]
    if not isinstance(value, dict):
        return []
    own = [value] if "time" in value and "name" in value else []
    return own + [phase for each in value.values() for phase in _phases(each)]


def test_torchft() -> None:
    """At 98,304 GPUs: 60 s, then 100 s of which two bugs are 90 s, and with a step of 20 s the published 3 min."""
    recovery = strategy("torchft-hsdp")
    assert recovery.quorum_timeout == 60
    watchdog = observer("torchft-hsdp", "collective-timeout")
    stall = watchdog.timeout + watchdog.dump + seconds(recovery.reconfigure, 98304)
    assert stall + 20 == pytest.approx(180)
    bugs = sum(seconds(recovery.reconfigure, 98304, name) for name in ("second reconfiguration", "throttling"))
    assert stall + 20 - bugs == pytest.approx(90)
    assert seconds(recovery.rejoin, 98304) == pytest.approx(100)


def test_gemini() -> None:
    """Every step of the scenario is copied to a group of two hosts, at no cost to the step."""
    prepared = sim.prepare(quick("gemini-in-memory"))
    peer = catalog.recovery("gemini-in-memory")["checkpoint"]["tiers"][1]
    assert (peer["store"], peer["clique"], peer.get("stall", "0 s")) == ("peer-host", 2, "0 s")
    assert float(peer["interval"].split()[0]) <= prepared.jobs[0].step_time  # rounded up to one step


def test_bamboo() -> None:
    """Its simulator: 3.08 s a step of GPT-2 on 24 instances for 4.25 s on 15, 1.5 times that, 45 s, 20 s to rejoin."""
    recovery = strategy("bamboo-redundant-stages")
    assert 1 - recovery.overhead == pytest.approx((15 * 4.25) / (24 * 3.08), abs=0.005)
    assert (recovery.redundancy, recovery.slowdown) == ("next-stage", 1.5)
    assert seconds(recovery.initialize, 1024, "machine") == 45
    assert (seconds(recovery.reconfigure, 1024), seconds(recovery.rejoin, 1024)) == (0, 20)
