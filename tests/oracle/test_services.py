"""Services that fail against theory: chains of spares, a fluid by hand, what is in flight, and a replay of requests."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.sim.engine.prepared import RequestRates
from ettrick.sim.engine.requests import Request, replay
from tests.cases import cases
from tests.pace import SEED, some
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ettrick.sim import Prepared, Result

HOUR, DAY = 3600.0, 86_400.0

pytestmark = pytest.mark.usefixtures("short_replays")


def scenario(nodes: int = 24, **changes: Any) -> dict[str, Any]:
    """Return replicas of a node each; changes of the service by name, of the scenario with a capital."""
    service: dict[str, Any] = {
        "name": "chat",
        "model": "llama3-70b",
        "replicas": nodes,
        "parallelism": {"tensor": 8},
        "demand": {"rate": "100 per s", "input": {"mean": 1155}, "output": {"mean": 211}},
        "slo": {"ttft": "2 s", "tpot": "50 ms"},
    }
    own = {key: value for key, value in changes.items() if key[0].islower()}
    whole = {key.lower(): value for key, value in changes.items() if key[0].isupper()}
    return {
        "name": "serve",
        "cluster": {"nodes": nodes, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8, "radix": 512}},
        "horizon": "1000 s",
        "seed": SEED,
        "services": [service | own],
        "detection": {"time": "0 s"},
        **whole,
    }


def ready(content: dict[str, Any], folder: Path | None = None, **changes: Any) -> Prepared:
    """Return a scenario ready to run by events, with changes of the plan of its service."""
    found = sim.prepare(sim.parse(content, folder))
    plan = dataclasses.replace(found.services[0], **changes)
    return dataclasses.replace(found, services=(plan, *found.services[1:]), engine="events")


def sums(result: Result, service: int = 0) -> dict[str, float]:
    """Return the sums over the requests of a service."""
    return dict(zip(sim.SERVICE_SUMS, result.fleet.services[service].sum(axis=0).tolist(), strict=True))


def outage(folder: Path, *rows: str, nodes: int = 0) -> dict[str, Any]:
    """Return a failure source that replays outages: node, start and end [s]; of which node matters if all are named."""
    (folder / "log.csv").write_text("unit,start,end\n" + "".join(f"{row}\n" for row in rows))
    if not nodes:
        return {"use": "replay", "file": "log.csv"}
    (folder / "nodes.csv").write_text("unit\n" + "".join(f"{node}\n" for node in range(nodes)))
    return {"use": "replay", "file": "log.csv", "inventory": "nodes.csv"}


@cases(
    "spares, share, all_up",
    some(4, [(1, 0.998948, 0.976504), (0, 0.990459, None), (2, 0.999891, 0.997490), (3, 0.999962, 0.999103)]),
)
def test_spares_of_24_replicas_are_a_birth_death_chain(spares: int, share: float, all_up: float | None) -> None:
    """One GPU fails every 20,000 h, load 5 min, repair 24 h, spares do not fail: the chain, within what chance allows.

    Half the repair time falls outside: with one spare all are up for 0.989 of the time.
    """
    content = scenario(
        Cluster={"nodes": 24 + spares, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8, "radix": 512}},
        Horizon="1200 d",
        Warmup="10 d",
        Failures=[
            {"use": "component", "name": "gpu", "part": "node", "rate": "9.6 per 1000 node-days", "idle_hazard": 0.0}
        ],
        Repair={"time": {"use": "exponential", "mean": "1 d"}},
        Spares={"hot": spares, "idle": "withhold"},
    )
    prepared = ready(content, load=180.0, start=120.0)
    found = [ratios(prepared, sim.run(prepared, replication, most_events=math.inf)) for replication in range(8)]
    for name, theory in (("capacity_share", share), ("all_serving", all_up)):
        values = [row[name].amount / row[name].base for row in found]
        error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        if theory is not None:
            # Student's t of 7 degrees of freedom is beyond 5.4 once in 1,000 times.
            assert abs(float(np.mean(values)) - theory) < 5.4 * error, name
            assert error < 0.2 * (1 - theory), name


def test_backlog_and_drain_to_the_digit(tmp_path: Path) -> None:
    """Ten replicas of 5/s, 47/s offered, one out for 300 s: 600 requests wait at most, and 200 s drain them."""
    content = scenario(10, Failures=[outage(tmp_path, "3,100,400")], failover="restore")
    prepared = ready(
        content, tmp_path, capacity=5.0, rates=RequestRates(47.0, 1e9), patience=1e6, load=0.0, start=0.0, slack=6.0,
        attainment=(1.0,) * 51, batch=(0.0,) * 51,
    )  # fmt: skip
    found = sums(sim.run(prepared, 0))
    assert found["waited"] == pytest.approx(600 * 300 / 2 + 600 * 200 / 2, rel=1e-9)
    assert found["below"] == pytest.approx(300)
    assert found["rejected"] == 0
    # A wait of 6 s is a backlog of 270 with nine replicas, reached after 135 s, and of 300 with ten, 100 s before the
    # end of the drain: in between all are late.
    assert found["offered"] - found["in_slo"] == pytest.approx(47 * (300 - 135) + 47 * (200 - 100), rel=1e-9)
    assert found["busy"] / 8 == pytest.approx(10 * 0.94 * (100 + 400) + 9 * 300 + 10 * 200, rel=1e-9)


def test_patience_bounds_the_backlog(tmp_path: Path) -> None:
    """Clients that give up after 10 s leave the two a second that nobody serves, once 470 wait."""
    content = scenario(10, Failures=[outage(tmp_path, "3,100,400")])
    prepared = ready(
        content,
        tmp_path,
        capacity=5.0,
        rates=RequestRates(47.0, 1e9),
        patience=10.0,
        load=0.0,
        start=0.0,
        batch=(0.0,) * 51,
    )
    found = sums(sim.run(prepared, 0))
    assert found["rejected"] == pytest.approx(2 * (300 - 470 / 2), rel=1e-9)
    turned = ready(
        content,
        tmp_path,
        capacity=5.0,
        rates=RequestRates(47.0, 1e9),
        patience=0.0,
        load=0.0,
        start=0.0,
        batch=(0.0,) * 51,
    )
    found = sums(sim.run(turned, 0))
    assert found["rejected"] == pytest.approx(2 * 300, rel=1e-9)
    assert found["served"] == pytest.approx(47 * 1000 - 600, rel=1e-9)


@cases("failover, cv", [("fail", 0.0), ("fail", 0.8), ("retry", 0.0), ("migrate", 0.8), ("restore", 0.0)])
def test_what_a_failure_takes_of_requests_in_flight(tmp_path: Path, failover: str, cv: float) -> None:
    """Of B in flight half of each answer has been made; moved ones are read again, for B t_p(C) of a replica.

    Answers in flight are longer than others, by 1 + cv².
    """
    asked = {"rate": "100 per s", "input": {"mean": 1155}, "output": {"mean": 211, "cv": cv}}
    content = scenario(10, Failures=[outage(tmp_path, "3,100,400")], failover=failover, demand=asked)
    prepared = ready(content, tmp_path)
    service = sim.services_of(sim.examine(prepared.scenario))[0]
    found = sums(sim.run(prepared, 0))
    # Copies of keys and values take 1.5 % of the capacity.
    batch = sim_batch(service, 10.0 / (0.985 if failover == "restore" else 1.0))
    assert found["in_flight"] == pytest.approx(batch, rel=2e-3)  # a curve of 50 straight pieces
    loses = failover in ("fail", "retry")
    assert found["tokens_lost"] == pytest.approx(batch * (1 + cv**2) * 211 / 2 if loses else 0.0, rel=2e-3)
    again = batch * float(sim_prefill(service, (1 + cv**2) * 211)) if failover == "migrate" else 0.0
    assert found["recomputed"] == pytest.approx(again, rel=2e-3)
    assert found["failed"] == pytest.approx(batch if failover == "fail" else 0.0, rel=2e-3)
    # Every request is served once, but for those that failed.
    assert found["served"] == pytest.approx(found["offered"] - found["failed"], rel=1e-6)


@cases("patience, retries", [(10, 0), (14, 1), (10, 1)])
def test_work_for_clients_that_gave_up(tmp_path: Path, patience: int, retries: int) -> None:
    """Ten replicas of 5/s, 47/s offered, one out for 300 s: who waits 10 s has gone, and is served all the same.

    450 wait after 225 s: from then on all is in vain, until 600 have become 500, 33.3 s after the replica is back. If
    they ask once more, 94 come for the 50 that can be served, and it never ends. A patience above 600 / 45 s bears it.
    """
    content = scenario(
        10, Failures=[outage(tmp_path, "3,100,400")], failover="restore", Horizon="4000 s",
        overload={"use": "queue", "patience": f"{patience} s", "retries": retries, "cancel": False},
    )  # fmt: skip
    none: dict[str, Any] = {"load": 0.0, "start": 0.0, "batch": (0.0,) * 51}
    result = sim.run(ready(content, tmp_path, capacity=5.0, rates=RequestRates(47.0, 1e9), **none), 0)
    found = sums(result)
    vain = {(10, 0): 75 + 100 / 3, (14, 1): 0.0, (10, 1): 4000.0 - 325}[patience, retries]
    assert found["rejected"] == pytest.approx(47 * vain, rel=1e-6)
    # What came before is served first: 450 of them wait when it begins.
    wasted = 47 * vain if not retries else max(45 * 75 + 50 * 3600 - 450, 0) * (vain > 0)
    assert found["wasted"] == pytest.approx(wasted, rel=1e-6)
    lost = sum(float(row.sum()) for key, row in result.fleet.ledger.items() if key.bucket == sim.Bucket.LOST_WORK)
    assert lost == pytest.approx(8 * wasted / 5, rel=1e-6)
    # It is charged to the failure that began it.
    assert {key.cause for key in result.fleet.ledger if key.bucket == sim.Bucket.LOST_WORK} <= {1}
    assert found["served"] == pytest.approx(found["offered"] - found["rejected"])


@cases("node, left", [(12, 45.0), (3, 40.0)])
def test_the_smaller_pool_bounds_a_disaggregated_service(tmp_path: Path, node: int, left: float) -> None:
    """Of ten decoders and five readers one is out for 300 s, and what the others of its pool cannot do is turned away.

    What is left serves at its limit, and before and after that as many are in SLO as both pools have it alone.
    """
    content = scenario(
        15, replicas=10, prefill={"replicas": 5, "parallelism": {"tensor": 8}}, failover="restore",
        Failures=[outage(tmp_path, f"{node},100,400", nodes=15)],
    )  # fmt: skip
    decoders = ready(content, tmp_path).services[0]
    none: dict[str, Any] = {"load": 0.0, "start": 0.0, "batch": (0.0,) * 51}
    readers = dataclasses.replace(present(decoders.readers), capacity=10.0, **none)
    prepared = ready(
        content, tmp_path, capacity=5.0, readers=readers, rates=RequestRates(49.0, 1e9), patience=0.0, **none
    )
    found = sums(sim.run(prepared, 0))
    assert found["rejected"] == pytest.approx((49 - left) * 300, rel=1e-9)
    assert found["served"] == pytest.approx(49_000 - found["rejected"], rel=1e-9)
    assert found["capacity"] == pytest.approx(50 * 700 + left * 300)
    assert found["wanted"] - found["replicas"] == pytest.approx(300)
    # GPUs are busy in proportion to what their pool serves, but for half a prompt of a reader that fails.
    work = 49 * 700 + left * 300
    assert found["busy"] == pytest.approx(8 * (work / 5 + work / 10), rel=1e-5)

    def attained(rate: float, decoding: int, reading: int) -> float:
        uses = zip((rate / (5 * decoding), rate / (10 * reading)), (decoders, readers), strict=True)
        shares = [float(np.interp(use, np.linspace(0, 1, 51), plan.attainment)) for use, plan in uses]
        return math.prod(shares)

    out = attained(left, 9, 5) if left == 45 else attained(left, 10, 4)
    assert found["in_slo"] == pytest.approx(49 * 700 * attained(49.0, 10, 5) + left * 300 * out, rel=1e-9)


@cases("failover", ["fail", "retry"])
def test_prompts_of_a_reader_that_fails(tmp_path: Path, failover: str) -> None:
    """Until it is detected a failed reader gets a fifth of the prompts: they are lost, or read by others 20 s later."""
    content = scenario(
        15, replicas=10, prefill={"replicas": 5, "parallelism": {"tensor": 8}}, failover=failover,
        Failures=[outage(tmp_path, "3,100,400", nodes=15)], Detection={"time": "20 s"},
    )  # fmt: skip
    found = sums(sim.run(ready(content, tmp_path, rates=RequestRates(40.0, 1e9)), 0))
    lost = found["failed"] + found["moved"]
    assert lost == pytest.approx(20 * 40 / 5 + found["in_flight"])
    assert 0 < found["in_flight"] < 5
    assert (found["failed"] > 0) == (failover == "fail")
    assert found["tokens_lost"] == 0
    assert found["served"] == pytest.approx(40_000 - found["failed"], rel=1e-6)
    # Nobody waits for 20 s and is in SLO.
    assert found["in_slo"] < 40_000 - 0.9 * lost


def sim_batch(service: sim.PreparedService, rate: float) -> float:
    """Return the sequences in flight of a replica at a rate [1/s]."""
    from ettrick.sim.steps.serving import batch_of_load

    return batch_of_load(service.replica, service.requests, rate)


def sim_prefill(service: sim.PreparedService, length: float) -> float:
    """Return the time to read a prompt with half of an answer of some length [s]."""
    from ettrick.sim.steps.serving import prefill

    return float(prefill(service.replica, 1155 + length / 2))


@cases("load, detection", some(4, [(0.8, 1), (0.5, 1), (0.8, 60), (0.97, 1)]))
def test_to_fail_is_never_better_than_to_migrate(load: float, detection: int) -> None:
    """With requests that migrate no fewer are served and in SLO where there is room for the work that this brings.

    Without room, what is read again takes the place of as many new requests; a copy of keys and values does not. What
    has piled up in a minute comes too late itself and makes others late: more are served then, not more in SLO.
    """
    rows = {}
    for failover in ("fail", "migrate", "restore"):
        content = scenario(
            12, failover=failover, Horizon="200 d", Repair={"time": "6 h"},
            Failures=[{"use": "component", "name": "node", "part": "node", "rate": "100 per 1000 node-days"}],
            Detection={"time": f"{detection} s"},
        )  # fmt: skip
        prepared = sim.prepare(sim.parse(content))
        rates = RequestRates(load * 12 * prepared.services[0].capacity, 1e9)
        prepared = dataclasses.replace(
            prepared, services=(dataclasses.replace(prepared.services[0], rates=rates),), engine="events"
        )
        rows[failover] = ratios(prepared, sim.run(prepared, 0))
    share = {name: row["served_share"].amount / row["served_share"].base for name, row in rows.items()}
    slo = {name: row["slo_attainment"].amount / row["slo_attainment"].base for name, row in rows.items()}
    assert share["fail"] < share["restore"]
    if load <= 0.8:
        assert share["fail"] < share["migrate"]
        assert (slo["fail"] < slo["migrate"]) == (detection == 1)


@pytest.mark.nightly
def test_wide_replicas_lose_as_much_and_vary_more() -> None:
    """At equal GPUs, with survivors of broken replicas put together, twice the width varies more.

    Mean losses by repair are alike: floor(healthy / 2) pairs of nodes lose at most one node more.
    """
    shares, spreads = {}, {}
    for pipeline, replicas in ((1, 32), (2, 16)):
        content = scenario(
            32, replicas=replicas, parallelism={"tensor": 8, "pipeline": pipeline}, Horizon="600 d", Windows="2 d",
            Failures=[{"use": "component", "name": "node", "part": "node", "rate": "20 per 1000 node-days"}],
            Repair={"time": "1 d"},
        )  # fmt: skip
        prepared = ready(content, load=0.0, start=0.0)
        result = sim.run(prepared, 0, most_events=math.inf)
        up = result.fleet.service_sum(0, "replicas") / result.fleet.service_sum(0, "wanted")
        shares[pipeline], spreads[pipeline] = float(up.mean()), float(up.std())
    assert shares[1] - 1 / 32 < shares[2] < shares[1]
    assert spreads[2] > 1.1 * spreads[1]


@pytest.mark.nightly
def test_the_fluid_agrees_with_a_replay_where_demand_varies() -> None:
    """A replica at 30 and 75 % of its load in turn, 20 min each: goodput of the fluid within 5 % of the replay."""
    asked = {"rate": "10 per s", "input": {"mean": 1155}, "output": {"mean": 211}}
    content = scenario(1, replicas=1, Horizon="4 h", demand=asked)
    prepared = ready(content)
    plan = prepared.services[0]
    service = sim.services_of(sim.examine(prepared.scenario))[0]
    factors = (0.3, 0.75)
    rates = RequestRates(service.carried, 2400.0, factors)
    prepared = dataclasses.replace(prepared, services=(dataclasses.replace(plan, rates=rates),))
    found = sums(sim.run(prepared, 0))
    requests = poisson(service.carried, factors, 1200.0, 4 * HOUR)
    served = replay(service.replica, requests)
    attained = served.attainment(2.0, 0.05)
    assert found["in_slo"] / found["offered"] == pytest.approx(attained, rel=0.05)
    assert found["in_slo"] == pytest.approx(attained * len(requests), rel=0.05)
    # Little's law: the time per token that users see.
    assert found["user"] / (found["served"] * 211) == pytest.approx(float(served.tpot.mean()), rel=0.05)


def poisson(rate: float, factors: Sequence[float], width: float, length: float) -> list[Request]:
    """Return requests of 1,155 and 211 tokens whose rate changes in turn."""
    draw = np.random.default_rng(SEED)
    found: list[Request] = []
    for place in range(round(length / width)):
        mine = rate * factors[place % len(factors)]
        times = np.sort(draw.random(draw.poisson(mine * width))) * width + place * width
        found += [Request(float(time), 1155, 211) for time in times]
    return found


def test_hardware_alone_serves_three_nines() -> None:
    """At Llama 3's failure rate, a spare in twenty nodes and 95 % of the load, 99.9 % of requests find a replica.

    419 interruptions in 54 days of 16,384 GPUs are 3.8 in 1,000 node-days (arXiv 2407.21783, table 5).
    """
    content = scenario(
        44, replicas=40, Horizon="365 d", Repair={"time": "1 d"}, Spares={"hot": 4, "idle": "withhold"},
        Failures=[{"use": "component", "name": "node", "part": "node", "rate": "3.79 per 1000 node-days"}],
        Detection={"time": "1 min"},
    )  # fmt: skip
    prepared = sim.prepare(sim.parse(content))
    plan = prepared.services[0]
    loaded = dataclasses.replace(plan, rates=RequestRates(0.95 * 40 * plan.capacity, 1e9))
    prepared = dataclasses.replace(prepared, services=(loaded,), engine="events")
    for replication in range(3):
        row = ratios(prepared, sim.run(prepared, replication))["served_share"]
        assert row.amount / row.base > 0.999
