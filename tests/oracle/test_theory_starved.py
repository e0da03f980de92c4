"""Goodput with few spares: against the simulator, a chain played by events, Erlang's formula and other closed forms.

An interval is `LUCK` standard errors of the mean of independent replications, Student's quantile for a false alarm in
10,000 tests of six shares, and what the first repair time of a fresh cluster may hide.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sim
from sim.formulas.goodput import expected_shares
from sim.formulas.nodes import crew_limited_pmf, gives_up, starvation, steady_unavailability
from sim.policies.contracts import Bucket
from tests.cases import cases
from tests.harness import Z, prepared
from tests.oracle.theory.nodes import starved_shares
from tests.pace import SEED, one_in

HOUR, DAY = 3600.0, 86400.0
REPLICATIONS = 20
LUCK = float(stats.t.isf(1e-4 / 2 / 6, REPLICATIONS - 1))

BUCKETS = {
    "productive": [Bucket.PRODUCTIVE],
    "checkpoint_stall": [Bucket.CHECKPOINT_STALL],
    "lost_work": [Bucket.LOST_WORK],
    "detection": [Bucket.DETECTION],
    "starved": [Bucket.STARVED],
    "restart": [Bucket.RESCHEDULE, Bucket.INITIALIZE, Bucket.RESTORE],
}

BASE: dict[str, Any] = {
    "required": 20,
    "spares": 3,
    "life": 5 * DAY,
    "repair": 12 * HOUR,
    "interval": 1200.0,
    "write": 20.0,
    "restart": 300.0,
    "downtime": 0.0,
    "days": 200,
}

CASES: dict[str, dict[str, Any]] = {
    "plenty": {"spares": 12},
    "enough nearly always": {"spares": 6},
    "now and then too few": {"spares": 4, "random": True},
    "often too few": {"spares": 2},
    "one spare": {"spares": 1, "random": True},
    "no spare": {"spares": 0, "required": 8},
    "failures in the hour": {"spares": 8, "required": 64, "life": 3 * DAY, "repair": 4 * HOUR, "days": 100},
    "cold spares": {"spares": 2, "cold": True},
    "detection of a minute": {"spares": 3, "downtime": 60.0},
    "detection of ten minutes, too few": {"spares": 1, "downtime": 600.0},
    "standby nodes an hour away": {"spares": 1, "standby": 3, "delay": HOUR, "random": True},
    "cold nodes, hours away": {"spares": 2, "standby": 6, "delay": 2 * HOUR, "cold": True, "random": True},
}
"""Repairs are fixed unless `random`: without a delay the formula needs their mean only."""


def exact(seconds: float) -> str:
    """Return a time as text that is read back to the same number."""
    return f"{seconds!r} s"


def scenario_of(given: dict[str, Any]) -> sim.Prepared:
    """Return a rigid job of nodes of one GPU, its spares, and nothing else."""
    time = exact(given["repair"])
    source = {"use": "component", "name": "node", "part": "node", "rate": f"{DAY / given['life']!r} per node-day"}
    spares: dict[str, Any] = {"hot": given["spares"]}
    if given.get("standby"):
        spares["cold"] = {"nodes": given["standby"], "delay": exact(given["delay"])}
    return prepared(
        cluster={
            "nodes": given["required"] + given["spares"] + given.get("standby", 0),
            "gpus_per_node": 1,
            "fabric": {"rails": 1, "radix": 1024},
        },
        horizon=exact(given["days"] * DAY),
        jobs=[{"name": "job", "gpus": given["required"]}],
        failures=[source | ({"idle_hazard": "0 %"} if given.get("cold") else {})],
        detection={"time": exact(given["downtime"])},
        checkpoint={
            "tiers": [
                {
                    "interval": exact(given["interval"]),
                    "mode": "blocking",
                    "write": exact(given["write"]),
                    "restore": "0 s",
                }
            ]
        },
        recovery={"use": "hot-spare", "initialize": exact(given["restart"])},
        spares=spares,
        repair={"time": {"law": "exponential", "mean": time} if given.get("random") else time},
        seed=SEED,
    )


def theory(given: dict[str, Any]) -> dict[str, float]:
    """Return the shares of the formula."""
    names = ("restart", "downtime", "cold", "standby", "delay")
    return starved_shares(
        *(given[name] for name in ("interval", "write", "life", "repair", "required", "spares")),
        **{name: given[name] for name in names if name in given},
        # Nodes that wait with their job are hit like those outside it.
        exposed=not given.get("cold"),
    )


def seen(case: sim.Prepared) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean share and standard error by name."""
    rows = []
    for number in range(REPLICATIONS):
        job = sim.run(case, number).jobs[0]
        rows.append(job.buckets / job.requested)
    table = np.array(rows)
    columns = {name: table[:, indices].sum(axis=1) for name, indices in BUCKETS.items()}
    return (
        {name: float(column.mean()) for name, column in columns.items()},
        {name: float(column.std(ddof=1)) / math.sqrt(REPLICATIONS) for name, column in columns.items()},
    )


@pytest.mark.parametrize("name", one_in(4, CASES))
def test_every_share_is_that_of_theory(name: str) -> None:
    """From plenty of spares to none: all six shares, and neither twice the rate nor one spare more would pass."""
    given = BASE | CASES[name]
    means, errors = seen(scenario_of(given))
    shares = theory(given)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    # A fresh cluster has nobody in repair for a repair time; a delay or downtime errs by its part of a repair.
    begin = (given["repair"] + given["restart"] + given["interval"]) / (given["days"] * DAY)
    order = max(given["downtime"], given.get("delay", 0.0)) / given["repair"]
    waiting = shares["starved"] + shares["detection"]
    for key, share in shares.items():
        left_out = begin * (1 - shares["productive"]) + order * waiting * 0.15
        assert abs(means[key] - share) <= LUCK * errors[key] + left_out, (key, means[key], share, errors[key], left_out)
    other = theory(given | {"life": given["life"] / 2})
    assert abs(means["productive"] - other["productive"]) > 2 * LUCK * errors["productive"], "twice the rate"
    if shares["starved"] > 0.01:
        more = theory(given | {"spares": given["spares"] + 1})
        assert abs(means["starved"] - more["starved"]) > LUCK * errors["starved"], "one spare more"


def test_a_job_that_fails_only_while_it_runs() -> None:
    """Where nodes without processes cannot fail, one node is missing at most: Erlang's loss formula.

    The recovery time of `standby` comes before the swap here and is not exposed either: short, it is a downtime.
    """
    recovery = {"use": "standby", "recovery": "1 s", "exposed": False, "pools": ["spare"]}
    source = {"use": "component", "name": "node", "part": "node", "rate": "0.2 per node-day", "idle_hazard": "0 %"}
    case = prepared(
        cluster={"nodes": 21, "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        horizon="200 d",
        jobs=[{"name": "job", "gpus": 20}],
        failures=[source],
        detection={"time": "0 s"},
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
        recovery=recovery,
        spares={"hot": 1},
        repair={"time": "12 h"},
        seed=SEED,
    )
    means, errors = seen(case)
    hidden = starvation(5 * DAY, 12 * HOUR, 20, 1, cold=True, exposed=False)
    open_ = starvation(5 * DAY, 12 * HOUR, 20, 1, cold=True)
    begin = 12 * HOUR / (200 * DAY)
    assert abs(means["starved"] - hidden.share) <= LUCK * errors["starved"] + begin
    assert abs(means["starved"] - open_.share) > 3 * LUCK * errors["starved"], "the difference can be seen"


# ------------------------------------------------------------------------------- the closed form of other recoveries

QUEUE = {"name": "queue", "keeps": "nothing", "launch": "5 min"}

RECOVERIES: dict[str, dict[str, Any]] = {
    "standby": {"recovery": {"use": "standby", "recovery": "5 min"}, "before": 300.0},
    "standby that nothing hits": {"recovery": {"use": "standby", "recovery": "5 min", "exposed": False}, "spares": 0,
                                 "before": 300.0},
    "standby, a recovery time of an hour": {"recovery": {"use": "standby", "recovery": "1 h"}, "before": HOUR},
    "patience": {"recovery": {"use": "hot-spare", "initialize": "5 min", "patience": "1 h"}},
    "patience, and a delay": {
        "recovery": {"use": "hot-spare", "initialize": "5 min", "patience": "30 min", "requeue_delay": "3 h"}
    },
    "a rung with patience": {
        "recovery": {"use": "ladder", "rungs": [
            {"name": "swap", "keeps": "hosts", "launch": "5 min", "patience": "2 h"}, QUEUE | {"delay": "10 min"}
        ]}
    },
    "the queue": {"recovery": {"use": "full-restart", "initialize": "5 min", "delay": "10 min"}, "before": 600.0},
    "a ladder to the queue": {"recovery": {"use": "ladder", "rungs": [QUEUE | {"delay": "2 min"}]}, "before": 120.0},
}  # fmt: skip


def short_of_nodes(given: dict[str, Any], life: float = 10 * DAY) -> sim.Prepared:
    """Return a job of 20 nodes with so many others beside it, each up for `life` and in repair for 12 h on average."""
    return prepared(
        cluster={"nodes": 20 + given.get("spares", 1), "gpus_per_node": 1, "fabric": {"rails": 1, "radix": 1024}},
        horizon="400 d",
        jobs=[{"name": "job", "gpus": 20}],
        failures=[{"use": "component", "name": "node", "part": "node", "rate": f"{DAY / life!r} per node-day"}],
        detection={"time": "0 s"},
        checkpoint={"tiers": [{"interval": "20 min", "mode": "blocking", "write": "20 s", "restore": "0 s"}]},
        recovery=given["recovery"],
        spares={"hot": 0},
        repair={"time": {"law": "exponential", "mean": "12 h"}},
        seed=SEED,
    )


ON_PUSH = ("standby", "patience, and a delay", "a rung with patience")


@pytest.mark.parametrize(
    "name", [name if name in ON_PUSH else pytest.param(name, marks=pytest.mark.nightly) for name in RECOVERIES]
)
def test_what_a_lack_of_nodes_costs_other_recoveries(name: str) -> None:
    """A standby that runs out, a job that gives up waiting, and one that queues: each share; half the failures differ.

    What a job does before it asks for nodes, again after each failure, is restart and not starved: of the order of that
    time over the times between failures and repairs.
    """
    given = RECOVERIES[name]
    case = short_of_nodes(given)
    runs = [sim.run(case, number).jobs[0] for number in range(REPLICATIONS)]
    table = np.array([job.buckets / job.requested for job in runs])
    closed, lighter = sim.closed_form(case).shares, sim.closed_form(short_of_nodes(given, 20 * DAY)).shares
    waits = sum(closed.get(key, 0.0) for key in ("starved", "queued"))
    assert waits > 0.1
    begin = 12 * HOUR / (400 * DAY)
    for parts, slack in (
        (("productive",), begin),
        (("starved",), begin + given.get("before", 0.0) * (20 / (10 * DAY) + 1 / (10 * HOUR)) * waits),
        (("queued", "restart"), begin + given.get("before", 0.0) * (20 / (10 * DAY) + 1 / (10 * HOUR)) * waits),
    ):
        column = sum(table[:, BUCKETS.get(part, [Bucket.QUEUED])].sum(axis=1) for part in parts)
        error = float(column.std(ddof=1)) / math.sqrt(REPLICATIONS)
        theirs, light = (sum(shares.get(part, 0.0) for part in parts) for shares in (closed, lighter))
        assert abs(float(column.mean()) - theirs) <= LUCK * error + slack, (parts, column.mean(), theirs, error)
        assert parts != ("productive",) or abs(float(column.mean()) - light) > 3 * LUCK * error, "half the failures"


# ------------------------------------------------------------------------------------------------- special cases


def test_plenty_of_spares_is_the_renewal_formula() -> None:
    """With more spares than ever fail the shares are those of a node always at hand, downtime and all."""
    ours = starved_shares(1200, 10, 5 * DAY, 3600, 20, 40, restart=300, downtime=60, drain=30)
    theirs = expected_shares(1200, 10, DAY / 4, 300, 60, 30)
    for name, share in theirs.items():
        assert ours[name] == pytest.approx(share, rel=1e-12), name
    assert ours["starved"] == pytest.approx(0, abs=1e-12)


def test_the_starved_share_is_the_tail_of_independent_nodes() -> None:
    """Hot spares: more than s of R + s independent nodes are down, each for r / (L + r) of the time."""
    for required, spares in itertools.product((1, 20, 500), (0, 1, 5)):
        down = steady_unavailability(100.0, 3.0)
        tail = stats.binom.sf(spares, required + spares, down)
        assert starvation(100.0, 3.0, required, spares).share == pytest.approx(tail, rel=1e-10)


def test_cold_spares_are_the_closed_network_and_the_loss_formula() -> None:
    """Exposed waits: the law of a crew for every node. Others: Erlang's B of s + 1 lines and offered load R r / L."""
    law = crew_limited_pmf(20, 3, 1 / 100.0, 1 / 4.0, 23, cold=True)
    assert starvation(100.0, 4.0, 20, 3, cold=True).share == pytest.approx(law[4:].sum(), rel=1e-12)
    load = 20 * 4.0 / 100.0
    terms = [load**k / math.factorial(k) for k in range(5)]
    found = starvation(100.0, 4.0, 20, 3, cold=True, exposed=False)
    assert found.share == pytest.approx(terms[4] / sum(terms), rel=1e-12)
    # A failure without a spare waits for the first of four repairs.
    assert found.wait / found.probability == pytest.approx(4.0 / 4, rel=1e-12)


def test_a_wait_is_what_little_says() -> None:
    """The share starved is the failures of a running job per second, times the mean wait."""
    found = starvation(100.0, 4.0, 20, 2, downtime=0.05)
    running = 1 - found.share - found.detection
    assert found.share == pytest.approx(running * 20 / 100.0 * found.wait, rel=1e-12)


def test_a_node_without_spares_is_an_alternating_renewal_process() -> None:
    """One node and no spare: up for L, down for r, and in detection for d."""
    found = starvation(100.0, 4.0, 1, 0, downtime=2.0)
    assert found.share == pytest.approx(4 / 106, rel=1e-12)
    assert found.detection == pytest.approx(2 / 106, rel=1e-12)
    assert (found.probability, found.wait) == pytest.approx((1.0, 4.0), rel=1e-12)


def test_without_failures_or_repairs_nobody_waits() -> None:
    """Nodes that never fail, or are back at once, starve no job; a downtime is left."""
    assert starvation(math.inf, 4.0, 20, 0) == (0, 0, 0, 0)
    found = starvation(100.0, 0.0, 20, 0, downtime=1.0)
    assert (found.share, found.wait) == (0, 0)
    assert found.detection == pytest.approx(0.2 / 1.2, rel=1e-12)


@cases("load", [1e6, 1e8, 1e12])
def test_repairs_far_above_the_spares_leave_nobody_running(load: float) -> None:
    """100 nodes, repairs of `load` lives: the binomial tail where it has digits; the limits are 1 and no end of waits.

    A job of one node is up for L in L + r even then, and waits for r after each failure.
    """
    found = starvation(1.0, load, 100, 3)
    assert found.share == pytest.approx(1.0, abs=1e-9)
    assert (found.probability, found.wait) == (pytest.approx(1.0, abs=1e-3), math.inf)
    shares = starved_shares(1000.0, 5.0, 1.0, load, 100, 3, restart=10.0)
    assert shares["starved"] == pytest.approx(1.0, abs=1e-9)
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert starvation(1.0, load, 100, 3, standby=2, delay=5.0).share == pytest.approx(1.0, abs=1e-9)
    assert starvation(1.0, load, 1, 0).wait == pytest.approx(load, rel=1e-6)


def test_standby_nodes_at_once_are_spares_and_far_away_are_none() -> None:
    """Towards no delay the two kinds are one; a delay longer than repairs makes them worse than a repair.

    The share for short delays grows by the delay of each failure that finds no hot spare.
    """
    one_kind = starvation(100.0, 4.0, 20, 5)
    near = starvation(100.0, 4.0, 20, 2, standby=3, delay=1e-9)
    assert near.share == pytest.approx(one_kind.share, rel=1e-6)
    assert starvation(100.0, 4.0, 20, 2, standby=3, delay=0.0) == one_kind
    soon = starvation(100.0, 4.0, 20, 2, standby=3, delay=1e-3)
    assert soon.wait - near.wait == pytest.approx((near.probability - one_kind.probability) * 1e-3, rel=1e-2)
    assert starvation(100.0, 4.0, 20, 2, standby=0, delay=9.0) == starvation(100.0, 4.0, 20, 2)


def by_events(life: float, repair: float, delay: float, required: int, hot: int, standby: int) -> tuple[float, float]:
    """Return the share starved, and its standard error, of a chain played by events; repairs and delays exponential."""
    generator = np.random.default_rng(SEED)
    down, spares, others, coming = 0, hot, standby, False
    time, starved = np.zeros(50), np.zeros(50)
    for number, (uniform, gap) in enumerate(generator.random((200_000, 2))):
        missing = max(down - hot - standby, 0)
        rates = np.array([(required - missing) / life, spares / life, others / life, down / repair, coming / delay])
        length = -math.log(1 - gap) / rates.sum()
        time[number // 4000] += length
        starved[number // 4000] += length * (missing > 0 or coming)
        what = int(np.searchsorted(np.cumsum(rates), uniform * rates.sum()))
        if what == 0:
            down += 1
            if spares:
                spares -= 1
            elif others:
                others, coming = others - 1, True
            else:
                coming = False
        elif what == 1:
            down, spares = down + 1, spares - 1
        elif what == 2:
            down, others = down + 1, others - 1
        elif what == 3:
            down -= 1
            if missing == 0:
                spares, others = (spares + 1, others) if spares < hot else (spares, others + 1)
        else:
            coming = False
    share = float(starved.sum() / time.sum())
    # Ratio of sums over 50 batches, each long against a repair.
    return share, float(np.std(starved - share * time, ddof=1)) / float(time.mean()) / math.sqrt(50)


@pytest.mark.nightly
def test_two_kinds_of_spares_by_events() -> None:
    """The linear equations and the same chain played for 200,000 events give one share; a free delay would not."""
    found = starvation(100.0, 10.0, 12, 1, standby=2, delay=3.0).share
    share, error = by_events(100.0, 10.0, 3.0, 12, 1, 2)
    assert abs(share - found) <= Z * error
    assert abs(share - starvation(100.0, 10.0, 12, 3).share) > 3 * Z * error


def patience_by_events(required: int, spares: int, patience: float, *, exposed: bool) -> tuple[Any, Any]:
    """Return, of 50 batches each, the time that a job waits and how often it gives up, over that short of nodes."""
    generator = np.random.default_rng(SEED)
    life, repair, down, left, state = 100.0, 10.0, 0, 0.0, "runs"
    waiting, short, given_up = np.zeros(50), np.zeros(50), np.zeros(50)
    for number, (gap, uniform) in enumerate(generator.random((200_000, 2))):
        missing, batch = max(down - spares, 0), number // 4000
        births = ((required - missing) * (exposed or not missing) + max(spares - down, 0)) / life
        length = -math.log(1 - gap) / (births + down / repair)
        short[batch] += length * (state != "runs")
        waiting[batch] += min(length, left) * (state == "waits")
        if state == "waits" and length >= left:
            state, given_up[batch] = "gave up", given_up[batch] + 1
        left -= length
        if uniform * (births + down / repair) < births:
            down += 1
            if down > spares and state != "gave up":
                state, left = "waits", patience
        else:
            down -= 1
            state = state if down > spares else "runs"
    return waiting / short.mean(), given_up / short.mean()


@pytest.mark.parametrize("exposed", [True, False])
def test_giving_up_by_events(exposed: bool) -> None:
    """How long a job with patience waits and how often it gives up: the equations, and 200,000 events of the chain."""
    found = gives_up(100.0, 10.0, 12, 1, 5.0, exposed=exposed)
    for theirs, batches in zip(found, patience_by_events(12, 1, 5.0, exposed=exposed), strict=True):
        # Time short of nodes, in the denominator, scatters too.
        error = 1.5 * float(np.std(batches, ddof=1)) / math.sqrt(50)
        assert abs(float(np.mean(batches)) - theirs) <= Z * error
    assert gives_up(100.0, 10.0, 12, 1, 0.0, exposed=exposed)[0] == 0
    forever = gives_up(100.0, 10.0, 12, 1, 1e5, exposed=exposed)
    assert forever == pytest.approx((1.0, 0.0), abs=1e-9)
    # No more than one missing node: an exponential wait.
    if not exposed:
        rest = math.exp(-5.0 * 2 / 10.0)
        assert found == pytest.approx((1 - rest, 2 / 10.0 * rest), rel=1e-9)


def test_more_spares_and_shorter_repairs_starve_less() -> None:
    """Each spare, hot or standby, each hour of repair and each life helps."""
    shares = [starvation(100.0, 4.0, 20, spares, downtime=0.1).share for spares in range(8)]
    assert all(after < before for before, after in itertools.pairwise(shares))
    behind = [starvation(100.0, 4.0, 20, 1, standby=standby, delay=1.0).share for standby in range(6)]
    assert all(after < before for before, after in itertools.pairwise(behind))
    repairs = [starvation(100.0, repair, 20, 2).share for repair in (1, 2, 4, 8)]
    assert all(after > before for before, after in itertools.pairwise(repairs))
    assert starvation(100.0, 4.0, 20, 2, cold=True).share < starvation(100.0, 4.0, 20, 2).share


def test_large_pools_are_quick_and_keep_their_digits() -> None:
    """Twelve thousand nodes: shares sum to 1, and both ways to solve give the same small tail."""
    big = starved_shares(1800, 5, 500 * DAY, 3 * DAY, 12_000, 60, restart=300, standby=60, delay=600.0)
    assert sum(big.values()) == pytest.approx(1, abs=1e-12)
    assert all(share >= 0 for share in big.values())
    chain = starvation(500 * DAY, 3 * DAY, 12_000, 60, standby=60, delay=1e-6)
    assert chain.share == pytest.approx(starvation(500 * DAY, 3 * DAY, 12_000, 120).share, rel=1e-3)


@cases(
    ("changes", "words"),
    [
        ({"life": 0.0}, "life must be positive"),
        ({"repair": -1.0}, "repair must be finite and not negative"),
        ({"spares": 1.5}, "spares must be"),
        ({"required": 0}, "required must be"),
        ({"standby": -1}, "standby must be"),
        ({"delay": math.inf}, "delay must be finite"),
        ({"downtime": -1.0}, "downtime must be finite"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    """Negative times and parts of nodes are refused by name."""
    with pytest.raises(ValueError, match=words):
        starvation(**({"life": 100.0, "repair": 4.0, "required": 20, "spares": 2} | changes))
