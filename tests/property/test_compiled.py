"""The compiled loop and the event engine simulate the same replication, to the last bit."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.analysis.results.ensemble import Ensemble
from ettrick.analysis.results.run import document, plain
from ettrick.sim import catalog
from ettrick.sim.compiled import loop, nodes, run, state
from ettrick.sim.compiled.lowering import uncovered
from ettrick.sim.engine.result import Outages
from ettrick.sim.engine.simulation import Simulation
from ettrick.sim.rng import uniform_one
from tests import harness
from tests.property.common import Scenario, examples, prepare
from tests.strategies import laws, maybe, moments, scenarios, seconds, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ettrick.sim.engine.kernel import Environment

pytest.importorskip("numba")

pytestmark = pytest.mark.timeout(900)  # the first one may have to make the machine code

RECOVERIES = ("hot-spare", "full-restart", "standby")


@st.composite
def covered(draw: st.DrawFn) -> Scenario:
    """Return a scenario that the compiled loop knows: one as all others, without what it does not know."""
    data = copy.deepcopy(draw(scenarios(most_jobs=1, recoveries=RECOVERIES, fewest_sources=1, alike=True)))
    data["spares"].pop("unit", None)
    data["repair"] = {
        key: value for key, value in data["repair"].items() if "lemons" not in key and key != "replacement"
    }
    data["scheduler"] = {"pick": draw(st.sampled_from(("lowest", "longest-idle", "random", "fewest-failures")))}
    data.get("health", {}).pop("preflight", None)
    data.pop("parts", None)
    nodes = data["jobs"][0]["gpus"] // data["cluster"]["gpus_per_node"]
    if draw(st.booleans()):
        data["checkpoint"] = {"tiers": draw(_stores(nodes)), "size": "500 GB"}
        if maybe(draw, 3):
            data["jobs"][0]["periodic"] = [{"name": "evaluation", "every": draw(seconds(50, 2_000)), "time": "9.5 s"}]
    else:
        saves = {"interval": "900.5 s", "stall": "3.25 s", "write": "61.5 s", "restore": "45.25 s"}
        blocking = {"interval": "1200.5 s", "mode": "blocking", "write": "31.5 s", "restore": "20.25 s"}
        data["checkpoint"] = {"tiers": [draw(st.sampled_from((saves | {"mode": "async"}, blocking)))]}
    if draw(st.booleans()):
        hidden = data["recovery"].get("exposed", True) in (False, "none", "processes")
        data["recovery"] = draw(_ladders(hidden=hidden))
    shares = [share for share in (1, 2, 3) if nodes % share == 0]
    gpus = data["jobs"][0]["gpus"]
    data["jobs"][0]["parallelism"] = {"data": (share := draw(st.sampled_from(shares))), "tensor": gpus // share}
    data["failures"] += draw(_often(data))
    if maybe(draw, 3):
        data["spares"]["idle"] = draw(st.sampled_from(("withhold", "serve")))
    while True:
        try:
            reason = uncovered(prepare(data))
        except (sim.ScenarioError, sim.PathError):
            assume(False)
        name = reason.removeprefix("failures: '").partition("'")[0]
        if not reason.startswith("failures: '"):
            assume(not reason)
            return data
        data["failures"] = [source for source in data["failures"] if source["name"] != name]


@st.composite
def _often(draw: st.DrawFn, data: Scenario) -> list[dict[str, Any]]:
    """Return causes that interrupt the job often, and leave of its nodes now this and now that."""
    horizon = float(data["horizon"].split()[0])
    rate = 86_400 * draw(st.sampled_from((4, 12, 40))) / horizon
    found: list[dict[str, Any]] = [
        {
            "use": "component",
            "name": "crash",
            "part": "node",
            "rate": f"{rate / data['cluster']['nodes']!r} per node-day",
        },
        {"use": "job", "name": "software", "rate": f"{rate!r} per job-day"},
        {
            "use": "preemption",
            "name": "preempted",
            "rate": f"{rate / 4!r} per job-day",
            "away": "99.5 s",
            "notice": "70.5 s",
        },
        {
            "use": "job",
            "name": "storage",
            "fault": "storage",
            "rate": f"{rate / 4!r} per job-day",
            "store_out": "150.5 s",
        },
    ]
    # Fixed lives: several failures, saves and windows at one instant, the horizon among them.
    found.append(
        {"use": "component", "name": "regular", "part": "node", "law": f"{horizon / draw(st.integers(2, 9))!r} s"}
    )
    found[-1] |= {"clock": draw(st.sampled_from(("wall", "in_service", "busy")))}
    found[-1] |= {"renews": draw(st.sampled_from(("at_failure", "at_return", "never"))), "repair": draw(times(0, 900))}
    for source in found[:2]:
        source["fault"] = draw(st.sampled_from(("process", "gpu", "host", "hang", "switch")))
        source["damage"] = draw(st.sampled_from(("process", "reboot")))
    found[0]["repair"] = draw(times(60, 900))
    return [source for source in found if draw(st.booleans())]


FAILURES: list[dict[str, Any]] = [
    {"use": "component", "name": "node", "part": "node", "rate": "0.4 per node-h"},
    {"use": "component", "name": "gpu", "part": "gpu", "rate": "0.03 per gpu-h", "repair": "40.5 s"},
    {"use": "component", "name": "rack", "part": "rack", "rate": "0.1 per rack-h", "damage": "reboot"},
    {"use": "component", "name": "boot", "part": "node", "rate": "0.1 per node-h", "repair": "0 s", "damage": "reboot"},
    {"use": "job", "name": "software", "rate": "2 per job-h"},
    {"use": "job", "name": "hang", "effect": "hang", "rate": "0.5 per job-h", "damage": "reboot"},
    {"use": "job", "name": "storage", "fault": "storage", "store_out": "90.5 s", "rate": "0.3 per job-h"},
    {"use": "preemption", "name": "preempted", "rate": "0.8 per job-h", "notice": "30.5 s", "away": "200.5 s"},
]


@st.composite
def _stores(draw: st.DrawFn, nodes: int) -> list[dict[str, Any]]:
    """Return ladders of stores of every kind, of which all copies can be read."""
    found = []
    for store in ("remote", "host", "peer-host", "disk", "peer"):
        if store != "remote" and maybe(draw, 2):
            continue
        tier: dict[str, Any] = {"store": store, "restore": draw(moments(1, 60))}
        if store != "peer":
            tier |= {"interval": draw(seconds(15, 900)), "write": draw(moments(1, 90))}
            tier |= draw(st.sampled_from(({"mode": "blocking"}, {"stall": "2.5 s"}, {"when_busy": "skip"})))
            tier |= {"retain": draw(st.integers(1, 3))} if maybe(draw, 2) else {}
        if store in ("host", "disk") and maybe(draw, 3):
            tier["every_replica"] = True
        if store == "peer-host":
            tier |= {"clique": draw(st.integers(2, max(min(nodes, 4), 2))), "jump": draw(st.integers(1, 3))}
            if draw(st.booleans()):
                # Who has lost its own shard reads that of another one, which takes longer.
                del tier["write"], tier["restore"]
                tier |= {"node_bandwidth": "10 GB/s", "network": "2 GB/s"}
        found.append(tier)
    return found


@st.composite
def _phases(draw: st.DrawFn, *, hidden: bool) -> Any:
    """Return a time, or phases one after another, of the job or of each node."""
    if draw(st.booleans()):
        return draw(times(20, 200))
    found = []
    for name in ("one", "two", "three"):
        phase: dict[str, Any] = {"name": name, "time": draw(st.one_of(times(30), laws(30)))}
        phase |= draw(st.sampled_from(({}, {"each": "node"}, {"joiners": True}, {"each": "node", "joiners": True})))
        phase |= draw(
            st.sampled_from(({}, {"at_start": False}, {"faults": ["gpu", "hang"]}, {"at": 8, "exponent": 1.3}))
        )
        if hidden and maybe(draw, 2):
            phase["exposed"] = draw(st.sampled_from((False, "processes", "nodes")))
        found.append(phase)
    return found


@st.composite
def _rungs(draw: st.DrawFn, name: str, keeps: str, *, hidden: bool) -> dict[str, Any]:
    """Return a rung with any of its options."""
    phases = _phases(hidden=hidden)
    rung: dict[str, Any] = {"name": name, "keeps": keeps, "stop": draw(phases), "launch": draw(phases)}
    options: dict[str, st.SearchStrategy[Any]] = {
        "budget": st.integers(0, 3),
        "handles": st.lists(st.sampled_from(("process", "gpu", "host", "hang", "switch")), min_size=1, unique=True),
        "except_first": st.just(value=True),
    }
    if keeps == "nothing":
        options |= {"delay": phases, "backoff": st.just({"first": "10.5 s", "most": "35.5 s"})}
    else:
        pools = st.lists(st.sampled_from(("spare", "warm", "cold")), unique=True).map(lambda some: [*some, "idle"])
        options |= {"patience": moments(0, 400), "pools": pools}
    return rung | {key: draw(values) for key, values in options.items() if draw(st.booleans())}


@st.composite
def _ladders(draw: st.DrawFn, *, hidden: bool) -> dict[str, Any]:
    """Return ladders of recoveries of one to three rungs."""
    keeps = [draw(st.sampled_from(("processes", "hosts"))) for _ in range(draw(st.integers(0, 2)))]
    keeps.append(draw(st.sampled_from(("processes", "hosts", "nothing"))))
    rungs = [draw(_rungs(name, kept, hidden=hidden)) for name, kept in zip("abc", keeps, strict=False)]
    ladder: dict[str, Any] = {"use": "ladder", "rungs": rungs}
    ladder |= {"exhausted": draw(times(600)), "resets_on_progress": draw(st.booleans())}
    ladder |= {"gives_up": maybe(draw, 8), "scale": draw(st.sampled_from((1.0, 0.3)))}
    if draw(st.booleans()):
        ladder["no_progress"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        faults = draw(st.sampled_from((["host"], ["hang", "process"])))
        ladder["evict"] = {"faults": faults, "nodes": draw(st.integers(1, 4)), "test": draw(moments(0, 300))}
    return ladder


@pytest.mark.timeout(7200)
@examples(10_000, on_push=8)
@given(covered())
def test_both_engines_agree_to_the_last_bit(data: Scenario) -> None:
    """Counts, times, buckets and the number of events are equal; else the first event that differs is shown."""
    prepared = prepare(data)
    differences = list(compared(prepared, 0))
    assert not differences, "\n".join(["; ".join(differences), first_difference(prepared, 0)])
    assert _sums(prepared, "compiled") == _sums(prepared, "events")


def _sums(prepared: sim.Prepared, engine: str) -> str:
    """Return the document of three replications, which machine code makes as one block."""
    prepared = dataclasses.replace(prepared, engine=engine)
    ensemble = Ensemble(prepared)
    for result in sim.run_block(prepared, range(3)):
        ensemble.add(result)
    content = plain(document(ensemble, command=""))
    content["provenance"] = content["closed_form"] = None
    return json.dumps(content)


SIZES = ((9, 8, 3, 2), (9, 8, 3, 2), (2, 4, 1, 1), (1, 1, 1, 1), (1, 1, 1, 0))

"""Nodes of the job, GPUs of a node, replicas, hot spares; there are as many idle nodes as spares."""


@examples(2000, on_push=20)
@given(_ladders(hidden=True), _stores(9), st.integers(0, 999), st.booleans(), st.sampled_from(SIZES))
def test_both_engines_climb_alike(
    recovery: Any, stores: Any, seed: int, has_periodic: bool, size: tuple[int, int, int, int]
) -> None:
    """So are they where failures of every class come so often that most fall into the recovery from another one."""
    nodes, gpus, replicas, spares = size
    layout = {"tensor": nodes * gpus // replicas, "data": replicas}
    job: dict[str, Any] = {"name": "job", "gpus": nodes * gpus, "step_time": "3 s", "parallelism": layout}
    stores = [
        store for store in stores if nodes >= store.get("clique", 1) and (replicas > 1 or store["store"] != "peer")
    ]
    if has_periodic:
        job["periodic"] = [{"name": "evaluation", "every": "40 steps", "time": "30 s"}]
    data = harness.scenario(
        seed=seed,
        cluster={"nodes": nodes + 2 * spares, "gpus_per_node": gpus, "rack": {"nodes": 2}},
        horizon="20000.5 s",
        jobs=[job],
        failures=[{**failure, "scale": (0.1, 0.4, 2.0)[seed % 3]} for failure in FAILURES],
        checkpoint={"tiers": stores, "size": "500 GB"},
        recovery=recovery,
        spares={"hot": spares, "idle": ("serve", "withhold")[seed % 5 == 0]},
        repair={"time": {"use": "exponential", "mean": ("3 min", "30 min")[seed % 2]}},
    )
    prepared = prepare(data)
    assert not uncovered(prepared)
    differences = list(compared(prepared, 0))
    assert not differences, "\n".join(["; ".join(differences), first_difference(prepared, 0)])


LISTS = {
    "room": ("queue", "calls"),
    "due_room": ("dues",),
    "lives_room": ("lives",),
    "links_room": ("link",),
    "stays_room": ("stay",),
    "patients_room": ("patient",),
    "visits_room": ("visits",),
    "suspects_room": ("suspect",),
    "pendings_room": ("pending",),
    "waits_room": ("wait",),
    "tests_room": ("tested",),
    "rows_room": ("trace", "trace_order", "shares"),
    "pool_room": (),
}
"""The lists that grow, by what says how many places they have; those of pools are never shorter than the cluster."""


MOST = st.sampled_from((0, 1, 3, 10))


def tight(prepared: sim.Prepared, most: int) -> Iterator[run.Workspace]:
    """Yield arrays in which one list after another has few places at first, and the others not many."""
    for room, names in LISTS.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "VISITS", 1)
            patch.setattr(run, "_room", lambda prepared: prepared.nodes)
            bench = run.Workspace(prepared)
        places = bench.lowered.scalars[room]
        for name in names:
            # Of the heaps of three clocks one is behind the other.
            bench.arrays[name] = bench.arrays[name][: len(bench.arrays[name]) // int(places[0]) * most]
        if names:
            places[0] = min(most, int(places[0]))
        yield bench


@examples(100, on_push=2)
@given(covered(), MOST)
def test_a_list_that_fills_up_changes_nothing(data: Scenario, most: int) -> None:
    """The loop ends at whatever needs one place more, and begins again with larger arrays."""
    for bench in tight(prepare(data), most):
        assert not list(compared(bench.prepared, 0, bench))


@examples(200, on_push=5)
@given(covered())
def test_a_replication_leaves_nothing_behind(data: Scenario) -> None:
    """In the same arrays the next ones are those of events as well, and nodes begin as in new arrays."""
    prepared = prepare(data)
    used, new = run.Workspace(prepared), run.Workspace(prepared)
    for replication in range(3):
        assert not list(compared(prepared, replication, used))
    for bench in (used, new):
        bench._reset(3, None)
    assert used.arrays["nodes"].tobytes() == new.arrays["nodes"].tobytes()


@pytest.mark.nightly
@examples(50)
@given(covered(), MOST)
def test_no_place_beyond_an_array_is_touched(data: Scenario, most: int) -> None:
    """The functions of the loop as plain Python, on arrays that know where they end: from the first place to the last.

    Machine code checks nothing, and Python takes a place before the first for one from the end.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (state, nodes, loop):
            patch.setattr(module, "uniform_one", lambda key, *place: uniform_one(key % 2**64, *place))
        for bench in tight(prepare(data), most):
            bench.run_code, bench.reset_code = play(loop.simulate, bench), play(loop.reset, bench)
            assert not list(compared(bench.prepared, 0, bench))


def play(function: Callable[[Any], None], bench: run.Workspace) -> Callable[[int], None]:
    """Return a function of the loop that gets no address, but the scalars of a bench as they are then."""
    return lambda _address: function(_Record(bench.scalars[0], bench))


class _Record:
    """A record as the loop sees it; that of the scalars has the arrays of a bench as well."""

    def __init__(self, row: Any, bench: run.Workspace | None = None) -> None:
        vars(self).update(_row=row, _bench=bench)

    def __getattr__(self, name: str) -> Any:
        if self._bench is None or name in self._row.dtype.names:
            return self._row[name].item()
        array = self._bench.own.get(name, self._bench.arrays.get(name))
        assert array is not None, name
        assert array.ctypes.data == self._row[f"{name}_at"], name
        return _Array(array)

    def __setattr__(self, name: str, value: Any) -> None:
        self._row[name] = value


class _Array:
    """An array whose places are those from 0 on."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, place: int) -> Any:
        assert 0 <= place < len(self._array)
        return _Record(self._array[place]) if self._array.dtype.names else self._array[place].item()

    def __setitem__(self, place: int, value: Any) -> None:
        assert 0 <= place < len(self._array)
        self._array[place] = value


def test_relapses_that_outgrow_the_arrays() -> None:
    """The replication begins again with larger ones, at a life that has no place."""
    relapse = {"after": "60 s", "probability": 0.95}
    incident = {"use": "incident", "name": "all", "part": "cluster", "clock": "wall", "repaired": "nodes"}
    data = harness.scenario(
        cluster={"nodes": 12, "gpus_per_node": 2, "fabric": {"rails": 2}},
        horizon="33370 s",
        jobs=[{"name": "job", "gpus": 16, "step_time": "21 s"}],
        failures=[
            {"use": "job", "name": "stop", "law": {"use": "fixed", "value": "719 s"}},
            {**incident, "interrupts": 1.0, "relapse": relapse, "law": {"use": "fixed", "value": "838 s"}},
        ],
        repair={"time": "0 s"},
    )
    prepared = prepare(data)
    assert not uncovered(prepared)
    assert not list(compared(prepared, 0))


def compared(prepared: sim.Prepared, replication: int, bench: run.Workspace | None = None) -> Iterator[str]:
    """Yield what differs between the two engines."""
    events = sim.run(dataclasses.replace(prepared, engine="events"), replication, keeps_log=True)
    bench = bench or run.Workspace(prepared)
    compiled = bench.run(replication, keeps_log=True)
    yield from _differences("", events, compiled)
    yield from _differences("job.", events.jobs[0], compiled.jobs[0])


def _differences(prefix: str, events: Any, compiled: Any) -> Iterator[str]:
    for field in dataclasses.fields(events):
        one, other = getattr(events, field.name), getattr(compiled, field.name)
        if field.name != "jobs" and not _is_same(one, other):
            yield f"{prefix}{field.name}: {one} by events, {other} compiled"


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | float):
        return np.array_equal(one, other, equal_nan=True)
    if isinstance(one, Outages):
        return [*one] == [*other]
    return bool(one == other)


def first_difference(prepared: sim.Prepared, replication: int) -> str:
    """Return the first event that one engine plays and the other does not."""
    from ettrick.sim.compiled.run import Workspace

    trace = sim.trace(prepared, replication)
    bench = Workspace(prepared)
    bench.run(replication, trace, keeps_events=True)
    played = [row["time"] for row in bench.arrays["logged"][: int(bench.scalars["events"][0])]]
    simulation = Simulation(prepared, replication, trace)
    kernel: Environment = simulation.kernel
    for number, time in enumerate(played):
        kernel.step()
        if kernel.now != time:
            return f"event {number} is at {kernel.now!r} s by events, at {time!r} s compiled"
    return f"the {len(played)} events of the compiled loop are those of the event engine"


# ----------------------------------------
# Shipped scenarios, what is not covered, and what happens to the cache.


@pytest.mark.parametrize("name", ["quickstart", "llama3-405b-16k", "llama3-405b-54d"])
def test_shipped_scenarios_agree(name: str) -> None:
    """Some replications of what comes with the program are equal in every number."""
    prepared = sim.prepare(sim.load(sim.find(name)))
    for replication in range(3):
        assert not list(compared(prepared, replication))


LADDERS = [name for name in catalog.recoveries() if catalog.recovery(name)["recovery"]["use"] == "ladder"]


@pytest.mark.parametrize("name", LADDERS)
def test_presets_of_ladders_agree(name: str) -> None:
    """So are the presets that climb a ladder of recoveries, with the stores that they bring."""
    prepared = sim.prepare(sim.load(sim.find("recovery-16k"), [f"recovery.use={name}", "horizon=10 d"]))
    assert not uncovered(prepared)
    assert not list(compared(prepared, 0))


def test_a_log_agrees() -> None:
    """The outages of a log, whose ends are known, are played alike, over windows."""
    assert not list(compared(sim.prepare(sim.load(sim.find("replay"))), 0))


def test_the_process_of_airesim_agrees() -> None:
    """Busy clocks, hidden faults, tiers of repair, three pools and a job that ends."""
    changes = ["cluster.nodes=160", "jobs.0.gpus=128", "spares.hot=2", "spares.cold.nodes=10", "jobs.0.work.time=90 d"]
    assert not list(compared(sim.prepare(sim.load(sim.find("airesim-defaults"), changes)), 0))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["recovery.use=torchrun-elastic"], "recovery.use"),
        (["scheduler.pack=leaf"], "scheduler.pack"),
        (["checkpoint.tiers.0.corrupt=2 %"], "checkpoint.tiers"),
        (["health.preflight.time=1 min"], "health.preflight"),
        (["parts.any={stock: 1, lead: 1 d, causes: [faulty_gpu]}"], "parts"),
        (["failures.0={use: component, name: slow, part: node, rate: 1 per node-year, effect: hang, "
          "tempo: {trend: {exponent: 2, reference: 30 d}}, renews: at_return}"], "tempo"),
    ],
)  # fmt: skip
def test_what_is_not_covered_is_refused_by_its_key(changes: list[str], key: str) -> None:
    """Whoever insists on machine code is told what stands in the way; without insisting it is noted."""
    scenario = sim.load(sim.find("llama3-405b-54d"), [*changes, "engine=compiled"])
    with pytest.raises(sim.EngineError, match=key) as error:
        sim.with_engine(sim.prepare(scenario), 1000)
    assert "\n" not in str(error.value)
    with pytest.raises(sim.EngineError, match=key):
        sim.run(sim.prepare(scenario), 0)
    found = sim.with_engine(sim.prepare(sim.load(sim.find("llama3-405b-54d"), changes)), 1000)
    assert found.engine == "events"
    assert key in found.engine_reason


def test_what_is_quick_is_left_to_events() -> None:
    """Few replications are done before machine code would be loaded."""
    found = sim.with_engine(sim.prepare(sim.load(sim.find("quickstart"))), 3)
    assert (found.engine, found.engine_reason) == ("events", "the run is too short to repay loading compiled code")


@pytest.fixture
def no_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget that this process has machine code, and remember it afterwards."""
    run.machine_code.cache_clear()
    yield
    monkeypatch.undo()
    run.machine_code.cache_clear()


@pytest.mark.usefixtures("no_code")
def test_a_damaged_cache_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one warning, and the loop is compiled again."""
    from ettrick.sim.compiled import machine

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    damaged = run.cache_folder() / "here" / "code.nbi"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"damaged")

    def prepare(_progress: object) -> None:
        if damaged.exists():
            raise EOFError("Ran out of input")

    monkeypatch.setattr(machine, "prepare", prepare)
    with pytest.warns(UserWarning, match=r"cannot be read \(EOFError\)") as warned:
        run.machine_code()
    assert len(warned) == 1
    assert not damaged.exists()


@pytest.mark.usefixtures("no_code")
def test_a_cache_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one warning; the processes that this one starts find the other folder."""
    from ettrick.sim.compiled import machine

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(machine, "prepare", lambda _progress: None)
    with pytest.warns(UserWarning, match="cannot be written to: the simulation loop is compiled again") as warned:
        run.machine_code()
    assert len(warned) == 1
    assert run.cache_folder().is_dir()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_truncated_file_of_machine_code_is_compiled_anew(tmp_path: Path) -> None:
    """In a process of its own, with real files: compiled, damaged, compiled again, and the same result."""
    program = (
        "from ettrick import sim; from dataclasses import replace;"
        "p = replace(sim.prepare(sim.load(sim.find('quickstart'))), engine='compiled'); print(sim.run(p, 0).counts)"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(sim.__file__).parents[2])}

    def call() -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout, done.stderr

    first, said = call()
    assert "once for each version" in said
    assert call() == (first, "")
    for path in tmp_path.rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    again, said = call()
    assert again == first
    assert "cannot be read" in said
    assert call() == (first, "")


def test_without_numba_events_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever insists on machine code is told in one line what to install."""
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda _name: None)
    found = sim.with_engine(sim.prepare(sim.load(sim.find("llama3-405b-54d"))), 10_000)
    assert found.engine == "events"
    with pytest.raises(sim.EngineError, match=r"pip install 'ettrick\[speed\]'") as error:
        sim.with_engine(sim.prepare(sim.load(sim.find("llama3-405b-54d"), ["engine=compiled"])), 10_000)
    assert "\n" not in str(error.value)


def test_arrays_beyond_the_cap_are_left_to_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the start by what they would take, told with the number; and where a replication outgrows them."""
    prepared = sim.prepare(sim.load(sim.find("llama3-405b-54d")))
    assert run._size(prepared) == pytest.approx(run.Workspace(prepared).size, rel=0.1)
    huge = dataclasses.replace(prepared, expected_events=1e8)
    found = sim.with_engine(huge, 10_000)
    assert found.engine == "events"
    assert found.engine_reason.startswith("its arrays would take ")
    with pytest.raises(sim.EngineError, match=r"[0-9.]+ GB of memory, and 2 GB are allowed"):
        sim.with_engine(dataclasses.replace(huge, engine="compiled"), 1)
    small = sim.prepare(sim.load(sim.find("quickstart"), ["failures.0.rate=200 per 1000 node-day"]))
    monkeypatch.setattr(run, "_MOST_STATE", 0.0)
    outgrown = dataclasses.replace(small, expected_events=-1100.0, engine="compiled")
    with pytest.raises(run.TooLargeError):
        run.Workspace(outgrown).run(0)
    assert sim.run(outgrown, 0).counts == sim.run(small, 0).counts


def test_arrays_that_are_too_small_are_made_larger() -> None:
    """A replication that overflows its arrays is simulated again, to the same result."""
    from ettrick.sim.compiled.run import Workspace

    prepared = sim.prepare(sim.load(sim.find("quickstart"), ["failures.0.rate=200 per 1000 node-day"]))
    bench = Workspace(dataclasses.replace(prepared, expected_events=-1100.0))
    assert bench.run(0).events == sim.run(prepared, 0).events
    assert bench.scale > 1


@given(st.lists(st.integers(0, 60), unique=True, max_size=40), st.integers(0, 3))
def test_nodes_are_sorted(numbers: list[int], late: int) -> None:
    """Nodes of any order come in rising order, and so do those of which all but the last few are."""
    for nearly in (numbers, [*sorted(numbers[late:]), *numbers[:late]]):
        mixed = list(nearly)
        nodes.sort(mixed, len(mixed))
        assert mixed == sorted(nearly)
