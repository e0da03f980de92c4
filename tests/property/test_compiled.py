"""The compiled loop and the event engine simulate the same replication, to the last bit."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sim
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


@examples(250)
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
