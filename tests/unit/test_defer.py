"""Failures that fall into a phase which nothing can hit: they never happen, or wait for its end.

A job of two nodes starts to step after 30 s. A crash is followed by a swap of 100 s that failures cannot hit, then by a
start of 30 s. Nothing is saved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from tests.cases import cases
from tests.harness import Z, losses, play, prepared, seconds
from tests.unit.test_effects import RARE_SAVES, cause, nodes

EXACT = 1e-9
HOT_SPARE: dict[str, Any] = {"use": "hot-spare", "reschedule": "100 s", "initialize": "30 s", "exposed": False}
STANDBY: dict[str, Any] = {"use": "standby", "recovery": "40 s", "selection": "60 s", "exposed": False}


def case(*sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job that this file is about."""
    return prepared(**{"failures": list(sources), "checkpoint": RARE_SAVES, "recovery": HOT_SPARE, **changes})


def test_without_defer_it_never_happens() -> None:
    """The second crash falls into the swap after the first and is dropped."""
    one = case(cause("first"), cause("second"))
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "first"): 270.0,
            ("reschedule", "first"): 100.0,
            ("initialize", "first"): 30.0,
        },
        rel=EXACT,
    )
    assert (result.counts["candidates"], result.counts["suppressed"], result.counts["faults"]) == (2, 1, 1)


def test_with_defer_it_happens_at_the_end_of_the_phase() -> None:
    """At 400 s, when the swap is over: another swap, and then the start."""
    one = case(cause("first"), cause("second", defer=True))
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert losses(one, result) == pytest.approx(
        {
            ("initialize", "no_failure"): 30.0,
            ("lost_work", "first"): 270.0,
            ("reschedule", "first"): 100.0,
            ("reschedule", "second"): 100.0,
            ("initialize", "second"): 30.0,
        },
        rel=EXACT,
    )
    assert result.jobs[0].interruptions == {1: 1, 2: 1}
    assert result.jobs[0].merged == 1
    assert (result.counts["candidates"], result.counts["suppressed"], result.counts["hits"]) == (2, 0, 2)


def test_the_repair_counts_from_when_it_happens() -> None:
    """Two nodes, no spare: the first is back at 500 s; the second fails 100 s later than its life ended."""
    one = case(cause("first", repair="0 s"), cause("second", defer=True), cluster=nodes(2))
    result = play(one, [(300, 0, 0), (310, 1, 1)])
    # Node 1 is out from 400 s to 600 s; swap and start take until 730 s.
    assert losses(one, result)["starved", "second"] == pytest.approx(200.0, rel=EXACT)
    assert result.jobs[0].work == pytest.approx(270.0, rel=EXACT)
    assert seconds(result)["productive"] == pytest.approx(270.0, rel=EXACT)


def test_what_waits_for_one_moment_happens_in_its_order() -> None:
    """Of two crashes of one node the second finds it down; another node is hit as well."""
    one = case(cause("first"), cause("second", defer=True), jobs=[{"name": "job", "gpus": 3}], cluster=nodes(8))
    result = play(one, [(300, 0, 0), (320, 1, 1), (330, 1, 1), (340, 1, 2)])
    assert result.jobs[0].interruptions == {1: 1, 2: 2}
    assert result.counts["masked"] == 1
    # Both nodes are swapped at once, from 400 s on.
    assert losses(one, result)["reschedule", "second"] == pytest.approx(100.0, rel=EXACT)


def test_a_phase_that_does_not_end_defers_for_ever() -> None:
    """What still waits at the horizon is no candidate yet."""
    one = case(cause("first"), cause("second", defer=True), horizon="380 s")
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    assert (result.counts["candidates"], result.counts["faults"], result.counts["suppressed"]) == (1, 1, 0)


def test_nodes_outside_jobs_are_hit_at_once() -> None:
    """A phase protects those who are in it; what idle_hazard thins does not wait either."""
    one = case(cause("first"), cause("second", defer=True))
    assert play(one, [(300, 0, 0), (350, 1, 3)]).counts["outside"] == 1
    law = {"law": {"law": "exponential", "mean": "1000 d"}}
    one = case(cause("first"), cause("second", defer=True, idle_hazard=0.0, **law))
    assert play(one, [(300, 0, 0), (350, 1, 3)]).counts["suppressed"] == 1


@cases(("defer", "interruptions"), [(False, {1: 1}), (True, {1: 1, 2: 1})])
def test_standby_protects_recovery_and_selection(*, defer: bool, interruptions: dict[int, int]) -> None:
    """No spare is left: 40 s of recovery and 60 s of selection, from 300 s to 400 s; then what waited."""
    one = case(cause("first"), cause("second", defer=defer), recovery=STANDBY)
    for at in (310, 370):
        result = play(one, [(300, 0, 0), (at, 1, 1)])
        assert result.jobs[0].interruptions == interruptions
        table = losses(one, result)
        assert table.get(("reschedule", "second"), 0.0) == pytest.approx(60.0 if defer else 0.0)
        # What is done between the end of the phase and the failure that waited for it is nothing.
        assert ("lost_work", "second") not in table
    # The selection before the first step is protected too.
    result = play(one, [(10, 1, 1)])
    assert result.jobs[0].interruptions == ({2: 1} if defer else {})


def test_a_slow_node_may_wait_too() -> None:
    """It becomes slow when the swap is over, and heals as long after that."""
    one = case(cause("first"), cause("slow", {"kind": "slow", "factor": 0.5, "heals": "100 s"}, defer=True))
    result = play(one, [(300, 0, 0), (350, 1, 1)])
    # Slow from 400 s to 500 s; the job steps from 430 s on.
    assert losses(one, result)["degraded", "slow"] == pytest.approx(35.0, rel=EXACT)


def test_a_life_in_service_waits_and_goes_on_once() -> None:
    """It ends at 350 s and strikes at 400 s; the next one of 350 s of service ends at 900 s, and there is only one."""
    law = {"law": "fixed", "value": "350 s"}
    service = cause("service", clock="in_service", law=law, renews="at_failure", defer=True)
    one = case(cause("first"), service, cluster=nodes(3))
    result = play(one, [(300, 0, 1), (350, 1, 0)])
    assert result.counts["faults"] == 3
    # The same on a node that has been down before: 200 s from 20 s on move its first life to 550 s, and 500 s into
    # another swap.
    result = play(one, [(20, 0, 0), (480, 0, 1), (350, 1, 0)])
    assert result.counts["candidates"] == result.counts["faults"] == 3


def test_a_life_that_renews_at_return_begins_after_the_failure_that_waited() -> None:
    """It strikes at 400 s, is repaired at 600 s, and ends again 300 s later."""
    law = {"law": "fixed", "value": "300 s"}
    component = cause("return", law=law, renews="at_return", defer=True)
    one = case(cause("first"), component, cluster=nodes(6))
    result = play(one, [(300, 0, 1), (350, 1, 0)])
    assert result.counts["faults"] == 3


@pytest.mark.parametrize("defer", [False, True])
def test_how_many_failures_there_are(*, defer: bool) -> None:
    """Failures that wait all happen: a Poisson number. Those that do not leave a renewal process with a dead time.

    Ten nodes fail every 200 s and are mended at once; each failure is followed by a swap of 100 s. Without defer the
    cycles are 100 s and an exponential time with a mean of 200 s.
    """
    source = {"use": "component", "name": "crash", "part": "node", "repair": "0 s", "defer": defer}
    source["law"] = {"law": "exponential", "mean": "2000 s"}
    one = case(
        source,
        cluster=nodes(10),
        jobs=[{"name": "job", "gpus": 10}],
        recovery={**HOT_SPARE, "initialize": "0 s"},
        horizon="100000 s",
    )
    replications = 16
    hits = [sim.run(one, replication).counts["hits"] for replication in range(replications)]
    if defer:
        mean, variance = 500.0, 500.0
    else:
        mean, variance = 100000 / 300, 100000 * 200**2 / 300**3
    # Less than two failures are lost or won at the ends.
    assert abs(float(np.mean(hits)) - mean) <= Z * (variance / replications) ** 0.5 + 1
