"""The compiled loop and the event engine simulate the same replication, to the last bit."""

from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sim
from sim.compiled import run
from sim.compiled.lowering import uncovered
from sim.engine.simulation import Simulation
from tests.property.common import Scenario, examples, prepare
from tests.strategies import scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim.engine.kernel import Kernel

pytest.importorskip("numba")

RECOVERIES = ("hot-spare", "full-restart", "standby")


@st.composite
def covered(draw: st.DrawFn) -> Scenario:
    """Return a scenario that the compiled loop knows: one as all others, without what it does not know."""
    data = copy.deepcopy(draw(scenarios(most_jobs=1, recoveries=RECOVERIES, fewest_sources=1, alike=True)))
    data["spares"].pop("unit", None)
    data["repair"] = {
        key: value for key, value in data["repair"].items() if "lemons" not in key and key != "replacement"
    }
    data["jobs"][0].pop("periodic", None)
    data["scheduler"] = {"pick": draw(st.sampled_from(("lowest", "longest-idle", "random", "fewest-failures")))}
    times = {"interval": "900.5 s", "stall": "3.25 s", "write": "61.5 s", "restore": "45.25 s"}
    blocking = {"interval": "1200.5 s", "mode": "blocking", "write": "31.5 s", "restore": "20.25 s"}
    data["checkpoint"] = {"tiers": [draw(st.sampled_from((times | {"mode": "async"}, blocking)))]}
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
        assume(data["failures"])


@examples(1000, on_push=50)
@given(covered())
def test_both_engines_agree_to_the_last_bit(data: Scenario) -> None:
    """Counts, times, buckets and the number of events are equal; else the first event that differs is shown."""
    prepared = prepare(data)
    differences = list(compared(prepared, 0))
    assert not differences, "\n".join(["; ".join(differences), first_difference(prepared, 0)])


def compared(prepared: sim.Prepared, replication: int) -> Iterator[str]:
    """Yield what differs between the two engines."""
    events = sim.run(dataclasses.replace(prepared, engine="events"), replication)
    compiled = sim.run(dataclasses.replace(prepared, engine="compiled"), replication)
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
    return bool(one == other)


def first_difference(prepared: sim.Prepared, replication: int) -> str:
    """Return the first event that one engine plays and the other does not."""
    from sim.compiled.run import Bench

    trace = sim.trace(prepared, replication)
    bench = Bench(prepared)
    bench.run(replication, trace, keeps_log=True)
    played = [row["time"] for row in bench.arrays["logged"][: int(bench.scalars["events"][0])]]
    simulation = Simulation(prepared, replication, trace)
    kernel: Kernel = simulation.kernel
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
        (["recovery.use=slurm-requeue"], "recovery.use"),
        (["scheduler.pack=leaf"], "scheduler.pack"),
        (["checkpoint.tiers.0.retain=2"], "checkpoint.tiers"),
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
    found = sim.with_engine(sim.prepare(sim.load(sim.find("llama3-405b-54d"), changes)), 1000)
    assert found.engine == "events"
    assert key in found.engine_reason


def test_what_is_quick_is_left_to_events() -> None:
    """Few replications are done before machine code would be loaded."""
    found = sim.with_engine(sim.prepare(sim.load(sim.find("quickstart"))), 3)
    assert (found.engine, found.engine_reason) == ("events", "it is done before machine code would be at hand")


@pytest.fixture
def no_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget that this process has machine code, and remember it afterwards."""
    run.machine_code.cache_clear()
    yield
    monkeypatch.undo()
    run.machine_code.cache_clear()


@pytest.mark.usefixtures("no_code")
def test_a_damaged_cache_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one warning, and the loop is compiled anew."""
    from sim.compiled import machine

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    damaged = run.cache_folder() / "here" / "code.nbi"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"damaged")

    def prepare() -> None:
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
    from sim.compiled import machine

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(machine, "prepare", lambda: None)
    with pytest.warns(UserWarning, match="cannot be written to: the simulation loop is compiled anew") as warned:
        run.machine_code()
    assert len(warned) == 1
    assert run.cache_folder().is_dir()


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_truncated_file_of_machine_code_is_compiled_anew(tmp_path: Path) -> None:
    """In a process of its own, with real files: compiled, damaged, compiled anew, and the same result."""
    program = (
        "import sim; from dataclasses import replace;"
        "p = replace(sim.prepare(sim.load(sim.find('quickstart'))), engine='compiled'); print(sim.run(p, 0).counts)"
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(sim.__file__).parents[1])}

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
    assert run._size(prepared) == pytest.approx(run.Bench(prepared).size, rel=0.1)
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
        run.Bench(outgrown).run(0)
    assert sim.run(outgrown, 0).counts == sim.run(small, 0).counts


def test_arrays_that_are_too_small_are_made_larger() -> None:
    """A replication that overflows its arrays is simulated again, to the same result."""
    from sim.compiled.run import Bench

    prepared = sim.prepare(sim.load(sim.find("quickstart"), ["failures.0.rate=200 per 1000 node-day"]))
    bench = Bench(dataclasses.replace(prepared, expected_events=-1100.0))
    assert bench.run(0).events == sim.run(prepared, 0).events
    assert bench.scale > 1
