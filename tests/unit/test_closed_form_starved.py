"""What a closed form says of time without enough nodes: its share, to which causes it goes, and a bound of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sim
from sim.formulas.nodes import starvation
from tests import small
from tests.cases import cases
from tests.intervals import Z
from tests.pace import SEED, one_in

DAY = 86400.0
FEW = {
    "cluster": {**small.SMALL["cluster"], "nodes": 14},
    "spares": {"hot": 0},
    "detection": {"time": "0 s"},
    "horizon": "200 d",
}
TAIL = stats.binom.sf(0, 14, 4 / (120 + 4))
"""More than none of 14 nodes are down that live for 120 h and are repaired in 4 h."""


def cause(name: str, rate: float, repair: str, **more: Any) -> dict[str, Any]:
    """Return a cause that takes nodes so often in 1000 node-days."""
    failing = {"use": "component", "name": name, "part": "node", "rate": f"{rate!r} per 1000 node-day"}
    return failing | {"repair": repair} | more


def test_a_starved_job_has_the_shares_of_the_others_in_the_rest_of_its_time() -> None:
    """Without spares S is the binomial tail; every other share is 1 - S of what plenty of spares leave."""
    starved = sim.closed_form(small.prepare(**FEW)).shares
    plenty = sim.closed_form(small.prepare(**FEW | {"cluster": small.SMALL["cluster"] | {"nodes": 64}})).shares
    assert starved["starved"] == pytest.approx(TAIL, rel=1e-9)
    assert "starved" not in plenty
    for name, share in plenty.items():
        assert starved[name] == pytest.approx((1 - TAIL) * share, rel=1e-9), name


def test_starved_time_goes_to_causes_by_the_nodes_that_they_keep_in_repair() -> None:
    """Failures as 1 to 3 with repairs as 6 to 1 share S as 2 to 1, in every order; all waste is 1 - ETTR."""
    rows = [cause("rare", 50.0, "12 h"), cause("common", 150.0, "2 h"), cause("none", 100.0, "0 s")]
    found = sim.closed_form(small.prepare(failures=rows, **FEW))
    assert found.waste is not None
    assert found.ettr is not None
    for table in found.waste.values():
        assert table["rare"]["starved"] == pytest.approx(2 * table["common"]["starved"], rel=1e-9)
        assert "starved" not in table["none"]
        assert sum(row.get("starved", 0.0) for row in table.values()) == pytest.approx(
            found.shares["starved"], rel=1e-9
        )
    assert sum(sum(row.values()) for row in found.waste["exact"].values()) == pytest.approx(1 - found.ettr, abs=1e-12)


NODE = cause("node", 200.0, "4 h")
SOFTWARE = {"use": "job", "name": "software", "rate": "5 per job-d"}


@pytest.mark.parametrize(
    "failures",
    one_in(2, [[NODE], [NODE | {"idle_hazard": "0 %"}], [NODE | {"clock": "busy"}], [NODE, SOFTWARE]]),
    ids=["wall", "only with work", "busy", "software"],
)
def test_the_simulated_job_is_starved_as_often(failures: list[dict[str, Any]]) -> None:
    """20 runs of 200 days: the productive share and the starved one, each within Z errors and the first repair.

    Where nodes fail only with processes on them, those of a job that waits do not fail, and software never does.
    """
    case = small.prepare(**FEW, failures=failures, seed=SEED)
    jobs = [sim.run(case, number).jobs[0] for number in range(20)]
    closed = sim.closed_form(case).shares
    for name in ("productive", "starved"):
        seen = np.array([job.buckets[sim.JOB_BUCKETS.index(name)] / job.requested for job in jobs])
        error = float(seen.std(ddof=1)) / math.sqrt(len(jobs))
        assert abs(float(seen.mean()) - closed[name]) <= 1.5 * Z * error + 4 / 24 / 200, name
    assert 20 * error < closed["starved"]


@pytest.mark.parametrize(
    "failures", one_in(2, [[NODE, SOFTWARE], [NODE | {"idle_hazard": "0 %"}, SOFTWARE]]), ids=["wall", "work"]
)
def test_what_cannot_fail_in_a_wait_is_not_detected_there(failures: list[dict[str, Any]]) -> None:
    """Detection takes 5 min: of software in the time with enough nodes only, of nodes in waits as they fail there.

    With enough nodes always at hand it would be a larger share. The formula errs by the order of detection over repair.
    """
    few = FEW | {"detection": {"time": "5 min"}}
    case = small.prepare(**few, failures=failures, seed=SEED)
    found = sim.closed_form(case)
    plenty = sim.closed_form(
        small.prepare(**few | {"cluster": small.SMALL["cluster"] | {"nodes": 64}}, failures=failures)
    )
    jobs = [sim.run(case, number).jobs[0] for number in range(20)]
    seen = np.array([job.buckets[sim.JOB_BUCKETS.index("detection")] / job.requested for job in jobs])
    error = 1.5 * Z * float(seen.std(ddof=1)) / math.sqrt(len(jobs))
    order = 5 / 240
    assert abs(float(seen.mean()) - found.shares["detection"]) <= error + order * found.shares["detection"]
    assert plenty.shares["detection"] - float(seen.mean()) > 2 * (error + order * found.shares["detection"])
    assert sum(found.shares.values()) == pytest.approx(1, abs=1e-12)
    assert found.waste is not None
    exact = found.waste["exact"]
    assert sum(row.get("detection", 0.0) for row in exact.values()) == pytest.approx(
        found.shares["detection"], rel=1e-9
    )
    assert sum(sum(row.values()) for row in exact.values()) == pytest.approx(1 - found.shares["productive"], abs=1e-12)


def test_far_too_few_spares_leave_nothing() -> None:
    """12,500 nodes, 6.5 failures per 1,000 node-days, repairs of two weeks, eight spares: 1,000 nodes are missing."""
    cluster = {"name": "large", "nodes": 12_508, "gpus_per_node": 8, "fabric": {"rails": 8, "radix": 4096}}
    case = small.parse(
        cluster=cluster,
        jobs=[{"name": "train", "gpus": 100_000, "step_time": "10 s"}],
        failures=[cause("node", 6.5, "14 d")],
        spares={"hot": 8},
        horizon="2000 d",
    )
    found = sim.closed_form(sim.examine(case))
    assert found.shares["starved"] + found.shares["detection"] == pytest.approx(1.0, abs=1e-9)
    assert found.ettr == pytest.approx(0.0, abs=1e-9)


# --------------------------------------------------------------------------------------------------- the bound


def bound(**changes: Any) -> float | None:
    """Return the bound of a scenario."""
    return sim.starved_at_most(small.prepare(**changes))


def tail(spares: int, required: int = 14) -> float:
    """Return how often more nodes are down than there are spares."""
    return float(stats.binom.sf(spares, required + spares, 4 / 124))


def test_nobody_waits_where_no_cause_takes_nodes() -> None:
    """Failures of a job, and nodes that are back at once, starve nobody."""
    assert bound(failures=[cause("node", 100.0, "0 s")]) == 0.0
    assert bound(failures=[{"use": "job", "name": "bug", "rate": "1 per job-d"}]) == 0.0
    assert bound(failures=[]) == 0.0


LADDER = [{"name": "keep", "keeps": "hosts", "pools": ["idle"]}, {"name": "queue", "keeps": "nothing"}]


@cases(
    ("recovery", "spares"),
    [
        ({"use": "hot-spare", "initialize": "3 min"}, 4),
        ({"use": "hot-spare", "initialize": "3 min", "pools": ["spare"]}, 2),
        ({"use": "hot-spare", "initialize": "3 min", "pools": ["spare"], "patience": "1 h"}, 2),
        ({"use": "full-restart", "initialize": "3 min"}, 4),
        ({"use": "ladder", "rungs": LADDER}, 2),
        ({"use": "ladder", "rungs": LADDER[1:]}, 4),
    ],
)
def test_the_bound_counts_the_nodes_that_a_recovery_may_use(recovery: dict[str, Any], spares: int) -> None:
    """18 nodes, 14 of them in the job and two hot spares: the tail of the binomial law beyond what may step in."""
    case = {"cluster": small.SMALL["cluster"] | {"nodes": 18}, "recovery": recovery}
    assert bound(**case) == pytest.approx(tail(spares), rel=1e-9)


def test_the_bound_takes_all_jobs_for_one() -> None:
    """Two jobs of six nodes on 16, with two hot spares and two idle nodes, are one of twelve."""
    jobs = [{"name": name, "gpus": 48, "step_time": "10 s"} for name in ("one", "other")]
    assert bound(jobs=jobs) == pytest.approx(tail(4, 12), rel=1e-9)


def test_cold_spares_are_counted_as_such() -> None:
    """Nodes that cannot fail outside the job wait for no repair: the share is that of theory, and smaller."""
    found = bound(failures=[cause("node", 200.0, "4 h", idle_hazard="0 %")])
    assert found == pytest.approx(starvation(5 * DAY, 4 * 3600.0, 14, 2, cold=True).share, rel=1e-9)
    assert found is not None
    assert found < tail(2)


def test_the_bound_is_not_known_everywhere() -> None:
    """Logs, whole units, pools that only come with a delay, and jobs that take turns have none."""
    cold = {"hot": 0, "cold": {"nodes": 2, "delay": "1 h"}}
    only = {"use": "hot-spare", "initialize": "3 min", "pools": ["cold"]}
    jobs = [{"name": name, "gpus": 64, "step_time": "10 s"} for name in ("one", "two", "three")]
    assert bound(spares=cold, recovery=only) is None
    assert bound(spares={"hot": 2, "unit": "node"}) is None
    assert bound(jobs=jobs, spares={"hot": 0}) is None
    assert sim.starved_at_most(sim.examine(sim.load(sim.find("replay")))) is None
