"""Services against a plain second simulator, on random scenarios: every sum by window, every bucket by cause.

Demand goes up and down; requests beyond capacity are turned away or wait; replicas fail, recover, move what they had in
flight, warm up, are scaled and upgraded. Outages are rows of a log, so that nothing is random but the scenario.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.explain.services import describe_service
from ettrick.analysis.results.run import document
from ettrick.sim.engine.prepared import RequestRates
from ettrick.sim.prepare import services as prepared_services
from ettrick.sim.units import YEAR
from tests.oracle.services import Outage, Replica, Simulator
from tests.pace import IS_FULL, SEED
from tests.typed import present

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Sums = dict[str, NDArray[np.float64]]

SUMS = ("offered", "served", "in_slo", "rejected", "failed", "moved", "waiting", "below", "replicas", "wanted", "full")

KINDS = (("llama3-8b", 8, 1, 1, 40.0), ("llama3-8b", 4, 1, 2, 40.0), ("llama3-70b", 16, 2, 1, 0.5))
"""Model, tensor ranks, nodes of a gang, replicas of a gang, requests per second."""

_TIMES = {"horizon", "windows", "patience", "start", "time", "window", "every", "ttft", "tpot"}


def drawn(draw: random.Random) -> tuple[dict[str, Any], list[Outage], tuple[int, int]]:
    """Return a scenario with times in seconds, its outages, and the nodes and replicas of a gang."""
    model, tensor, nodes, together, rate = draw.choice(KINDS)
    replicas, horizon = draw.choice([2, 4]), draw.choice([4000.0, 10_000.0, 20_000.0])
    spare, detection = draw.choice([0, 0, 1, 2]), draw.choice([0.0, 30.0, draw.uniform(1, 300)])
    service: dict[str, Any] = {
        "name": "plain",
        "model": model,
        "replicas": replicas,
        "parallelism": {"tensor": tensor},
        "demand": {"rate": rate, "input": {"mean": 500}, "output": {"mean": 100, "cv": 0.5}},
        "slo": {"ttft": 2.0, "tpot": 0.2, "attainment": 0.9},
        "recovery": {"bandwidth": "10 GB/s", "start": draw.choice([0.0, 60.0, draw.uniform(1, 900)])},
        "overload": {"use": "reject"},
    }
    level = draw.choice([0.3, 0.7, 0.95, 1.0, 1.3, 2.0])
    factors = [round(level * draw.choice([0, 0.2, 0.5, 1, 1, 1.5]), 4) for _ in range(draw.choice([1, 1, 2, 4, 7]))]
    every = draw.choice([horizon, horizon / 2, draw.uniform(500, 3000)])
    service["demand"]["profile"] = {"every": every, "factors": factors if any(factors) else [1.0]}
    if draw.random() < 0.6:
        patience, retries = draw.choice([1.0, 30.0, 200.0, draw.uniform(1, 2000)]), draw.choice([0, 0, 1, 3])
        more = {"patience": patience, "retries": retries, "cancel": draw.random() < 0.75}
        service["overload"] = {"use": "queue"} | more
    if draw.random() < 0.6:
        service["failover"] = draw.choice(["retry", "migrate", "restore"])
    if draw.random() < 0.4:
        service["recovery"]["warm"] = {"time": draw.uniform(1, 1000), "speed": draw.choice([0.3, 0.7, 0.9])}
    if draw.random() < 0.4:
        service["recovery"]["use"] = "shadow"
    if draw.random() < 0.4:
        most = max(replicas, together * draw.choice([2, 3, 5]))
        bounds = {"min": draw.choice([1, 1, 2]) * together, "max": most}
        window = draw.choice([1.0, 60.0, draw.uniform(1, 2000)])
        service["scale"] = {"target": draw.choice([0.5, 0.7, 1.0]), **bounds, "window": window}
    if draw.random() < 0.4:
        service["upgrade"] = {"every": draw.uniform(300, horizon), "batch": draw.choice([1, 1, 2, 3])}
    most = max(replicas, service.get("scale", {"max": 0})["max"])
    total = -(-most // together) * nodes + spare + draw.choice([0, 0, 1, 2, 3])
    content = {
        "name": "plain",
        "cluster": {"nodes": total, "accelerator": "h200", "fabric": {"rails": 1, "leaf": {"nodes": total}}},
        "horizon": horizon,
        "windows": draw.choice([500.0, 1000.0, draw.uniform(300, 3000)]),
        "services": [service],
        "detection": {"time": detection},
        "spares": {"hot": spare},
    }
    return content, _outages(draw, total, horizon, detection), (nodes, together)


def _outages(draw: random.Random, nodes: int, horizon: float, detection: float) -> list[Outage]:
    """Return outages, some of them within one another, or too short to take the node away."""
    rows: list[Outage] = []
    for _ in range(draw.choice([0, 1, 2, 5, 12])):
        start = draw.uniform(0, horizon) if draw.random() < 0.8 else horizon / 3 + draw.uniform(0, horizon / 20)
        length = draw.choice([draw.expovariate(1 / 2000), detection / 2 + 0.01, draw.uniform(0, 100)])
        rows.append((draw.randrange(nodes), round(start, 3), round(start + length, 3), draw.choice("ab")))
    return sorted(rows, key=lambda row: row[1]) or [(0, 2 * horizon, 2 * horizon + 1, "a")]


def _with_units(content: Any, key: str = "") -> Any:
    """Return a scenario as a user writes it."""
    if isinstance(content, dict):
        return {name: _with_units(value, name) for name, value in content.items()}
    if isinstance(content, list) and key != "factors":
        return [_with_units(value) for value in content]
    if key == "rate":
        return f"{content!r} per s"
    return f"{content!r} s" if isinstance(content, float) and key in _TIMES else content


def played(content: dict[str, Any], outages: list[Outage], folder: Path) -> tuple[sim.ServicePlan, sim.FleetResult]:
    """Return the service as it is prepared, and what the product makes of it."""
    rows = "".join(f"{node},{start!r},{end!r},{cause}\n" for node, start, end, cause in outages)
    (folder / "log.csv").write_text("unit,start,end,cause\n" + rows)
    failures = [{"use": "replay", "file": "log.csv", "map": "number"}]
    prepared = sim.prepare(sim.parse(_with_units(content) | {"failures": failures}, folder))
    result = present(sim.run(prepared, 0).fleet)
    return prepared.services[0], result


def differences(
    content: dict[str, Any],
    outages: list[Outage],
    gang: tuple[int, int],
    plan: sim.ServicePlan,
    result: sim.FleetResult,
) -> list[str]:
    """Return in what the two simulators differ."""
    times = (plan.slack, plan.load, plan.start, plan.interruption)
    answers = (plan.tpot, plan.output, plan.limit, plan.recompute)
    plain = Simulator(
        content, Replica(plan.capacity, plan.batch, plan.attainment, plan.whole, *times, *answers), outages, gang
    )
    plain.run()
    sums: dict[str, NDArray[np.float64]] = dict(zip(sim.SERVICE_SUMS, result.services[0].T, strict=True))
    found = []
    for name in SUMS:
        ours = np.array(plain.fluid.sums.get(name, [0.0] * len(sums[name])))
        scale = max(sums["offered"].sum(), 1.0) if SUMS.index(name) < SUMS.index("below") else content["horizon"]
        if np.abs(ours - sums[name]).max() > 1e-6 * scale:
            found.append(f"{name}: {ours.tolist()} for {sums[name].tolist()}")
    ledger: dict[tuple[str, str], float] = defaultdict(float)
    for key, row in result.ledger.items():
        bucket = sim.CLUSTER_BUCKETS[key.bucket]
        # Idle nodes carry the reason why nobody has them.
        ledger[bucket, "no_failure" if bucket == "unallocated" else result.causes[key.cause]] += float(row.sum())
    for pair in sorted({*ledger, *plain.ledger}):
        ours_s, theirs = plain.ledger.get(pair, 0.0), ledger.get(pair, 0.0)
        if pair[0] != "queued" and abs(ours_s - theirs) > 1e-6 * content["horizon"] * 8:
            found.append(f"{pair}: {ours_s} for {theirs}")
    return found


@pytest.fixture
def _short_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one replica can is the same input of both: a rough one does."""
    monkeypatch.setattr(prepared_services, "_REPLAYED", 300)


@pytest.mark.usefixtures("_short_replays")
def test_services_agree_with_a_plain_simulator(tmp_path: Path) -> None:
    """Of random services every sum of every window, and every bucket of every cause, are equal."""
    for number in range(1000 if IS_FULL else 10):
        content, outages, gang = drawn(random.Random(f"{SEED}/{number}"))
        plan, result = played(content, outages, tmp_path)
        assert not differences(content, outages, gang, plan, result), (number, content, outages)
        check_windows(result)


def check_windows(result: sim.FleetResult) -> None:
    """In each window what becomes of the requests asked in it is not negative and adds up to them; so do GPU-seconds.

    A failure takes what was in flight from the window in which it was asked, and the work on it from that in which it
    was done; who waits is served in that in which he asked.
    """
    sums = dict(zip(sim.SERVICE_SUMS, result.services[0].T, strict=True))
    tiny = 1e-9 * max(float(sums["offered"].max()), 1.0)
    parts = [sums[name] for name in ("in_slo", "rejected", "failed", "waiting")]
    assert min(float(part.min()) for part in (*parts, sums["served"] - sums["in_slo"])) > -tiny
    assert np.allclose(sums["served"] + sums["rejected"] + sums["failed"] + sums["waiting"], sums["offered"])
    assert (sums["moved"] <= sums["offered"] + tiny).all()
    assert (sums["below"] <= sums["seconds"] + tiny).all()
    assert min(float(row.min()) for row in result.ledger.values()) > -1e-6
    assert np.allclose(sums["seconds"], result.seconds)


# Cases by hand.


def by_hand(folder: Path, *rows: str, horizon: float = 10_000.0, **service: Any) -> dict[str, Any]:
    """Return one service of replicas of two nodes, with rows of a log: node, start, end."""
    (folder / "log.csv").write_text(
        "unit,start,end,cause\n" + "".join(f"{row},node\n" for row in rows or ("0,1e9,2e9",))
    )
    own: dict[str, Any] = {
        "name": "plain",
        "model": "llama3-70b",
        "replicas": 2,
        "parallelism": {"tensor": 16},
        "demand": {"rate": "1 per s", "input": {"mean": 1000}, "output": {"mean": 200}},
        "overload": "reject",
        "slo": {"ttft": "5 s", "tpot": "200 ms", "attainment": "90 %"},
        "recovery": {"bandwidth": "5 GB/s", "start": "60 s"},
    }
    nodes = 2 * max(3, service.get("replicas", 2))
    return {
        "name": "plain",
        "cluster": {"nodes": nodes, "fabric": {"rails": 1, "leaf": {"nodes": nodes}}},
        "horizon": f"{horizon} s",
        "services": [own | service],
        "failures": [{"use": "replay", "file": "log.csv", "map": "number"}],
        "detection": {"time": "50 s"},
    }


def run_by_hand(content: dict[str, Any], folder: Path, **plan: Any) -> tuple[sim.ServicePlan, sim.FleetResult, Sums]:
    """Return the plan of a service, with changes of what was prepared, its result, and its sums by window."""
    prepared = sim.prepare(sim.parse(content, folder))
    service = replace(prepared.services[0], **plan)
    result = present(sim.run(replace(prepared, services=(service,)), 0).fleet)
    return service, result, dict(zip(sim.SERVICE_SUMS, result.services[0].T, strict=True))


def spent(result: sim.FleetResult, bucket: sim.Bucket, cause: str) -> float:
    """Return the GPU-seconds in a bucket by a cause."""
    keys = [key for key in result.ledger if key.bucket == bucket and result.causes[key.cause] == cause]
    return float(sum(result.ledger[key].sum() for key in keys))


@pytest.mark.usefixtures("_short_replays")
def test_who_has_waited_for_his_patience_gives_up_also_when_the_rate_has_fallen(tmp_path: Path) -> None:
    """200/s meet 100/s for 1,000 s, then 20/s; patience 200 s: 80,000 give up, 22,000 of the others wait at 1,100 s.

    The first waits for 200 s at 400 s, when 40,000 wait; from then on as many give up as are served, up to 1,200 s,
    when the last of the rush has. The 4,000 who have come since are served in time, with those who follow.
    """
    rates = RequestRates(200.0, 4000.0, (1.0, 0.1, 0.1, 0.1))
    for horizon, given_up, waiting in ((4000.0, 80_000, 0), (1100.0, 70_000, 22_000)):
        content = by_hand(tmp_path, horizon=horizon, replicas=1, overload={"use": "queue"}) | {"windows": "100 s"}
        _, _, found = run_by_hand(content, tmp_path, capacity=100.0, patience=200.0, rates=rates)
        assert found["rejected"].sum() == pytest.approx(given_up)
        assert found["waiting"].sum() == pytest.approx(waiting)
        assert found["served"].sum() == pytest.approx(found["offered"].sum() - given_up - waiting)
        assert (found["served"] <= found["offered"] * (1 + 1e-9)).all()


@pytest.mark.usefixtures("_short_replays")
def test_a_service_none_of_whose_replicas_serves(tmp_path: Path) -> None:
    """One replica, out from 1,000 s to 3,000 s and for its start: no window has less than nothing, and all add up."""
    content = by_hand(tmp_path, "0,1000,3000", replicas=1) | {"cluster": {"nodes": 2, "fabric": {"rails": 1}}}
    plan, _, found = run_by_hand(content, tmp_path)
    assert found["full"].sum() == pytest.approx(10_000 - 2000 - plan.load - 60)
    assert min(row.min() for row in found.values()) > -1e-9
    assert document(replicate(sim.prepare(sim.parse(content, tmp_path)), 1), command="").per_service["plain"].requests


@pytest.mark.usefixtures("_short_replays")
def test_check_explain_and_run_have_one_capacity(tmp_path: Path) -> None:
    """A demand just below what `explain` says is accepted, and nothing of it turned away; one just above is refused."""
    content = by_hand(tmp_path)
    described = describe_service(sim.services_of(sim.examine(sim.parse(content, tmp_path)))[0], None)
    demand = content["services"][0]["demand"]
    del content["services"][0]["overload"]
    content["services"][0]["demand"] = demand | {"rate": f"{0.999 * described.capacity_per_s} per s"}
    plan, _, found = run_by_hand(content, tmp_path)
    assert 2 * plan.capacity == pytest.approx(described.capacity_per_s)
    assert found["rejected"].sum() == 0
    content["services"][0]["demand"] = demand | {"rate": f"{1.001 * described.capacity_per_s} per s"}
    with pytest.raises(sim.ScenarioError, match=r"more than the .* that 2 replicas admit; 3 would"):
        sim.parse(content, tmp_path)


@pytest.mark.usefixtures("_short_replays")
def test_the_declared_number_is_the_start_of_a_scaled_service_alone(tmp_path: Path) -> None:
    """Three replicas at least and at most: what each admits, and all from the first start on, is the same."""
    scale = {"target": 1, "min": 3, "max": 3, "window": "1 s"}
    demand = {"rate": "2.1 per s", "input": {"mean": 1000}, "output": {"mean": 200}}
    rows = []
    for replicas in (1, 2, 3):
        content = by_hand(tmp_path, replicas=replicas, demand=demand, scale=scale) | {"windows": "100 s"}
        plan, _, found = run_by_hand(content, tmp_path)
        rows.append((plan.capacity, found["rejected"][1:].sum(), found["in_slo"][1:].sum()))
    assert rows[0] == pytest.approx(rows[1])
    assert rows[0] == pytest.approx(rows[2])


@pytest.mark.usefixtures("_short_replays")
def test_every_change_of_demand_is_followed_a_window_later(tmp_path: Path) -> None:
    """Demand for one, three, one, three replicas, from 0, 1,000, 1,500 and 2,000 s; a window of 1,200 s."""
    content = by_hand(tmp_path, replicas=1, scale={"target": 1, "min": 1, "max": 3, "window": "1200 s"})
    rates = RequestRates(1.0, 4000.0, (1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 3.0, 3.0))
    _, _, found = run_by_hand(content | {"windows": "100 s", "horizon": "4000 s"}, tmp_path, capacity=1.0, rates=rates)
    assert (found["wanted"] / 100).tolist() == [1.0] * 22 + [3.0] * 5 + [1.0] * 5 + [3.0] * 8


@pytest.mark.usefixtures("_short_replays")
@pytest.mark.parametrize("windows", [None, "3 h"])
def test_growth_is_compound_from_the_first_second_on(tmp_path: Path, windows: str | None) -> None:
    """A rate that doubles in a year: its integral, in the first hours as in ten days, and in each window."""
    demand = {"rate": "0.5 per s", "input": {"mean": 1000}, "output": {"mean": 200}, "growth": 1.0}
    for horizon in (10_000.0, 864_000.0):
        content = by_hand(tmp_path, horizon=horizon, demand=demand) | ({"windows": windows} if windows else {})
        _, result, found = run_by_hand(content, tmp_path)
        grown = 0.5 * YEAR / math.log(2) * (2 ** (result.edges / YEAR) - 1)
        np.testing.assert_allclose(found["offered"], np.diff(grown), rtol=2e-5)


@pytest.mark.usefixtures("_short_replays")
def test_an_upgrade_is_charged_to_the_drain(tmp_path: Path) -> None:
    """Three upgrades of two replicas of 16 GPUs, each a start of 60 s and the weights."""
    content = by_hand(tmp_path, upgrade={"every": "2500 s"}) | {"horizon": "9000 s"}
    plan, result, _ = run_by_hand(content, tmp_path)
    assert spent(result, sim.Bucket.INITIALIZE, "drain") == pytest.approx(3 * 2 * 16 * 60)
    assert spent(result, sim.Bucket.RESTORE, "drain") == pytest.approx(3 * 2 * 16 * plan.load)
    losses = document(replicate(sim.prepare(sim.parse(content, tmp_path)), 1), command="").loss_gpu_s
    assert losses["drain"]["initialize"] == pytest.approx(3 * 2 * 16 * 60)


@pytest.mark.usefixtures("_short_replays")
def test_an_upgrade_goes_on_where_a_replica_finds_no_nodes(tmp_path: Path) -> None:
    """A replica that loses a node while it starts again, and queues, holds up the next one no longer."""
    content = by_hand(tmp_path, "0,2510,1e6", upgrade={"every": "2500 s"}, replicas=2) | {"horizon": "4000 s"}
    content["cluster"] = {"nodes": 4, "fabric": {"rails": 1}}
    plan, result, _ = run_by_hand(content, tmp_path)
    assert spent(result, sim.Bucket.INITIALIZE, "drain") == pytest.approx(16 * (10 - plan.load) + 16 * 60)


@pytest.mark.usefixtures("_short_replays")
def test_a_node_that_joins_loads_in_buckets_of_its_own(tmp_path: Path) -> None:
    """One of two nodes is lost: two interruptions of 16 GPUs, and 8 GPUs that read weights and start beside the others.

    It is cut off by the horizon in the middle of the start where that comes first.
    """
    recovery = {"use": "elastic-experts", "bandwidth": "5 GB/s", "start": "60 s", "interruption": "10 s"}
    content = by_hand(tmp_path, "0,1000,5000", replicas=1, recovery=recovery)
    plan, result, _ = run_by_hand(content, tmp_path)
    assert spent(result, sim.Bucket.RESTORE, "node") == pytest.approx(8 * plan.load)
    # The first interruption is of the node that is left.
    assert spent(result, sim.Bucket.INITIALIZE, "node") == pytest.approx(8 * 10 + 8 * 60 + 16 * 10)
    assert spent(result, sim.Bucket.DEGRADED, "node") == 0
    end = 1060 + plan.load + 30
    _, result, _ = run_by_hand(content | {"horizon": f"{end} s"}, tmp_path)
    assert spent(result, sim.Bucket.INITIALIZE, "node") == pytest.approx(8 * 10 + 8 * 30)


@pytest.mark.parametrize("admission", ["on-demand", "reserve"])
def test_a_request_beyond_the_room_is_refused_at_check(tmp_path: Path, admission: str) -> None:
    """A prompt for which there are not enough keys and values is a line of `check`, and no traceback of `run`."""
    demand = {"rate": "1 per s", "input": {"mean": 1000, "cv": 60}, "output": {"mean": 200}}
    content = by_hand(tmp_path, demand=demand, parallelism={"tensor": 2}, batch={"admission": admission})
    with pytest.raises(sim.ScenarioError, match=r"services\.0\.demand\.input: request .* needs room for .* tokens"):
        sim.parse(content, tmp_path)


@pytest.mark.usefixtures("_short_replays")
@pytest.mark.parametrize("use", ["reload", "shadow", "elastic-experts"])
def test_the_formula_reads_how_a_replica_recovers(tmp_path: Path, use: str) -> None:
    """Failures of nodes and of processes, spares available: missing capacity as the chain of the recovery has it.

    960 failures are known to 3 %. With the chain of whole restarts a standby and elastic experts would miss far more.
    """
    recovery = {"use": use, "bandwidth": "2 GB/s", "start": "600 s", "interruption": "5 s"}
    content = by_hand(tmp_path, horizon=400 * 86_400.0, replicas=6, recovery=recovery)
    content["cluster"] = {"nodes": 16, "fabric": {"rails": 1}}
    content |= {"repair": {"time": "6 h"}, "seed": SEED}
    node = {"use": "component", "name": "node", "part": "node", "rate": "200 per 1000 node-days", "idle_hazard": 0.0}
    process = {"use": "job", "name": "process", "rate": "200 per 1000 job-days"}
    content["failures"] = [node] if use == "elastic-experts" else [node, process]
    _, _, found = run_by_hand(content, tmp_path)
    missing = 1 - found["replicas"].sum() / found["wanted"].sum()
    service = sim.services_of(sim.examine(sim.parse(content, tmp_path)))[0]
    assert 1 - service.standing().share == pytest.approx(missing, rel=0.15)
