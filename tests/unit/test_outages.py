"""Outages that join, repairs that begin, and who gets which node: small cases with their derivation, by two engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.oracle.test_rigid import observed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.compare import Row
    from tests.oracle.rigid import Account

pytestmark = pytest.mark.timeout(900)  # the first one may have to make the machine code

SAVES = {"interval": "100000 s", "mode": "blocking", "write": "0 s", "restore": "0 s"}


def log(name: str = "log.csv", **changes: Any) -> dict[str, Any]:
    """Return a log as a source."""
    return {"use": "replay", "file": name, "time_unit": "s", "map": "number", **changes}


def case(nodes: int, horizon: int, failures: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return a scenario of nodes of one GPU and a job of one of them, in which nothing takes time."""
    keys = {
        "name": "case",
        "cluster": {"nodes": nodes, "gpus_per_node": 1, "rack": {"nodes": 2}},
        "horizon": f"{horizon} s",
        "jobs": [{"name": "a", "gpus": 1, "step_time": "1 s"}],
        "failures": failures,
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [SAVES]},
        "recovery": {"use": "hot-spare", "initialize": "0 s"},
    }
    return keys | changes


@pytest.fixture(params=["events", "compiled"])
def engine(request: pytest.FixtureRequest) -> str:
    """Return one of the two engines."""
    return str(request.param)


def down(account: Account, node: int) -> list[tuple[int, int, str]]:
    """Return when a node was down, and why."""
    return [(start, end, cause) for number, start, end, cause in account.log if number == node]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_rack_of_nodes_that_are_down_is_out_all_the_same(tmp_path: Path, engine: str, nodes: int) -> None:
    """The nodes are down from 1000 to 2500 s; their rack fails at 2000 s, and is mended 3000 s later, at 5000 s."""
    rack = {"use": "component", "name": "rack", "part": "rack", "law": "2000 s", "repair": "3000 s", "renews": "never"}
    logs = {"log.csv": [(node, 1000, 2500, "x") for node in range(nodes)]}
    account = observed(tmp_path, case(nodes, 6000, [log(), rack]), logs, engine)
    for node in range(nodes):
        assert down(account, node) == [(1000, 5000, "x")]
    assert ("a", "rack") not in account.interruptions


def test_a_withheld_node_in_a_rack_changes_nothing(tmp_path: Path, engine: str) -> None:
    """Node 0 is down when its rack fails; whether the rack has a second node that nobody gets is all the same."""
    rack = {"use": "component", "name": "rack", "part": "rack", "law": "2000 s", "repair": "3000 s", "renews": "never"}
    logs: dict[str, list[Row]] = {"log.csv": [(0, 1000, 2500, "x")]}
    alone = observed(tmp_path, case(1, 6000, [log(), rack]), logs, engine)
    beside = observed(tmp_path, case(2, 6000, [log(), rack], spares={"idle": "withhold"}), logs, engine)
    assert (alone.jobs, alone.log, alone.interruptions) == (beside.jobs, beside.log, beside.interruptions)


def test_a_merged_failure_is_in_repair_when_the_first_is_known(tmp_path: Path, engine: str) -> None:
    """Node 0 fails at 990 s, known at 1090 s; its rack fails at 1000 s, and would be known at 1600 s by itself."""
    rack = {"use": "component", "name": "rack", "part": "rack", "law": "1000 s", "repair": "500 s", "renews": "never"}
    keys = case(3, 4000, [log(detection="100 s"), rack | {"detection": "600 s"}], jobs=[
        {"name": "a", "gpus": 3, "step_time": "1 s"}
    ])  # fmt: skip
    keys["cluster"]["rack"] = {"nodes": 4}
    account = observed(tmp_path, keys, {"log.csv": [(0, 990, 5000, "x")]}, engine)
    assert down(account, 1) == down(account, 2) == [(1000, 1590, "rack")]
    assert account.jobs["a", "detection", "x"] == 300
    assert account.jobs["a", "starved", "x"] == 3 * (4000 - 1090)


def test_a_life_on_the_busy_clock_begins_at_the_return(tmp_path: Path, engine: str) -> None:
    """It ends at 1000 s, is known at 1240 s and mended at 1740 s: the next ones end at 2740 and 4480 s."""
    part = {"use": "component", "name": "p", "part": "node", "law": "1000 s", "repair": "500 s", "clock": "busy"}
    keys = case(1, 6000, [part | {"renews": "at_return"}], detection={"time": "240 s"})
    account = observed(tmp_path, keys, {}, engine)
    assert [start for start, _, _ in down(account, 0)] == [1000, 2740, 4480]


def test_a_job_that_starts_again_takes_the_lowest_nodes(tmp_path: Path, engine: str) -> None:
    """It moves from node 0, which is down until 1200 s, to 1; from 1500 s on it is back on 0, and not hit at 2000 s."""
    logs: dict[str, list[Row]] = {"log.csv": [(0, 1000, 1200, "x"), (1, 2000, 2500, "y")]}
    software = {"use": "job", "name": "software", "law": "1500 s"}
    keys = case(2, 2900, [log(), software], recovery={"use": "full-restart", "initialize": "0 s"})
    account = observed(tmp_path, keys, logs, engine)
    assert account.interruptions == {("a", "x"): 1, ("a", "software"): 1}


def test_nodes_of_a_job_that_has_ended_are_idle_like_others(tmp_path: Path) -> None:
    """Job b starts at 1000 s on nodes 0 and 1, which a gives back, and not on 2, which fails at 1500 s."""
    jobs = [
        {"name": "a", "gpus": 2, "step_time": "1 s", "work": {"time": "1000 s"}},
        {"name": "b", "gpus": 2, "step_time": "1 s"},
    ]
    account = observed(tmp_path, case(3, 2000, [log()], jobs=jobs), {"log.csv": [(2, 1500, 1800, "x")]}, "events")
    assert account.interruptions == {}


def test_a_failure_in_the_recovery_stays_where_patience_has_led(tmp_path: Path, engine: str) -> None:
    """Rung x finds no node until 1100 s, y takes the spare; q strikes in its launch of 200 s, which begins again."""
    rungs = [
        {"name": "x", "keeps": "hosts", "pools": ["idle"], "patience": "100 s", "launch": "10 s"},
        {"name": "y", "keeps": "hosts", "launch": "200 s"},
    ]
    keys = case(3, 3000, [log()], jobs=[{"name": "a", "gpus": 2, "step_time": "1 s"}], spares={"hot": 1}, recovery={
        "use": "ladder", "rungs": rungs, "exhausted": "50 s"
    })  # fmt: skip
    account = observed(tmp_path, keys, {"log.csv": [(0, 1000, 2900, "p"), (1, 1200, 1200, "q")]}, engine)
    assert account.jobs["a", "initialize", "q"] == 2 * 200
    assert account.jobs["a", "productive", "no_failure"] == 2 * (3000 - 1400)


def test_an_operator_who_was_called_by_patience_makes_all_new(tmp_path: Path, engine: str) -> None:
    """Both rungs wait in vain; the operator restarts the job at 1500 s, and q at 2000 s is planned at rung x again."""
    wait = {"keeps": "hosts", "patience": "100 s"}
    rungs = [
        wait | {"name": "x", "budget": 1, "stop": "1 s", "launch": "10 s"},
        wait | {"name": "y", "stop": "2 s", "launch": "20 s"},
    ]
    keys = case(1, 7000, [log()], recovery={"use": "ladder", "rungs": rungs, "exhausted": "50 s"})
    account = observed(tmp_path, keys, {"log.csv": [(0, 1000, 1500, "p"), (0, 2000, 2000, "q")]}, engine)
    assert (account.jobs["a", "reschedule", "q"], account.jobs["a", "initialize", "q"]) == (1, 10)


def test_failures_of_one_instant_come_by_source(tmp_path: Path, engine: str) -> None:
    """The log is the first source and interrupts the job; the life that ends at the same instant merges."""
    software = {"use": "job", "name": "software", "law": "1000 s"}
    for failures, first in (([log(), software], "x"), ([software, log()], "software")):
        keys = case(1, 1500, failures, detection={"time": "100 s"})
        account = observed(tmp_path, keys, {"log.csv": [(0, 1000, 1000, "x")]}, engine)
        assert account.jobs["a", "lost_work", first] == 1000
        assert account.jobs["a", "detection", first] == 100
