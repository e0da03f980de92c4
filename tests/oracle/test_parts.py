"""Repairs that wait for parts: Palm's theorem, vendor returns, deliveries, reorder rules, and the best stock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.sim.closed_form.elastic import lives_and_repairs
from ettrick.sim.formulas.nodes import starvation
from ettrick.sim.formulas.queues import base_stock, best_stock
from tests.cases import cases
from tests.harness import play, prepared, results_of, seconds, trace
from tests.intervals import student
from tests.pace import some
from tests.typed import present

DAY = 86400.0

NODES, PER_DAY = 512, 2.0


def idle(stock: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return a cluster without a job that breaks two parts a day, and is seen once the stock is in its long run."""
    base: dict[str, Any] = {
        "cluster": {"nodes": NODES, "gpus_per_node": 1, "fabric": {"rails": 1}},
        "horizon": "150 d",
        "warmup": "60 d",
        "jobs": [{"name": "job", "gpus": 1, "arrival": "150 d"}],
        "failures": [{"use": "component", "name": "fault", "rate": f"{PER_DAY / NODES} per node-day"}],
        "repair": {"time": "1 h"},
        "parts": {"node": stock},
    }
    return prepared(**(base | changes))


def seen(one: sim.Prepared, replications: int = 10) -> dict[str, tuple[float, float]]:
    """Return the fill rate, mean waiting nodes and mean parts on the shelf, each with its tolerance [-]."""
    rows = []
    for number in range(replications):
        use = sim.run(one, number).parts["node"]
        length = 150 * DAY
        rows.append((1 - use.waited / use.asked, use.node_seconds / length, use.part_seconds / length))
    table = np.array(rows)
    half = student(replications) * table.std(axis=0, ddof=1) / math.sqrt(replications)
    return {
        name: (float(mean), float(width))
        for name, mean, width in zip(("fill_rate", "waiting", "on_hand"), table.mean(axis=0), half, strict=True)
    }


def logged(case: sim.Prepared, rows: list[tuple[float, ...]]) -> sim.Result:
    """Return what becomes of failures written by hand, with the log of outages."""
    return sim.run(case, 0, trace(rows), keeps_log=True)


LEADS: list[dict[str, Any]] = [
    {"use": "fixed", "value": "4 d"},
    {"use": "exponential", "mean": "4 d"},
    {"use": "lognormal", "mean": "4 d", "sigma": 1},
]


@cases(("lead", "stock"), list(zip(LEADS, (8, 11, 6), strict=True)))
def test_parts_on_order_are_poisson_whatever_the_lead(lead: dict[str, Any], stock: int) -> None:
    """Palm's theorem: fill rate, waiting nodes and shelf follow from the mean lead alone; a third of it would not do.

    Nodes that wait break nothing: of 512 nodes they are a few, and the demand is lower by their share.
    """
    found = seen(idle({"stock": stock, "lead": lead}))
    down = found["waiting"][0] / NODES
    theory, quick = (base_stock(PER_DAY * (1 - down), days, stock) for days in (4.0, 4.0 / 3))
    for name, (mean, half) in found.items():
        assert abs(mean - getattr(theory, name)) <= half + 1e-9, name
    assert abs(found["on_hand"][0] - quick.on_hand) > found["on_hand"][1]


def test_the_closed_form_waits_for_parts_too() -> None:
    """With a reorder point, a share and fixed lead times the availability of nodes is that of Hadley and Whitin.

    Without waits it would be 1 - 2 repairs of an hour a day over 512 nodes, which is outside.
    """
    one = idle({"stock": 6, "reorder": -1, "lead": "6 d", "share": 0.8}, horizon="300 d")
    up = np.array([1 - result.down_node_seconds / result.node_seconds for result in results_of(one, 16)])
    half = student(up.size) * up.std(ddof=1) / math.sqrt(up.size)
    expected = sim.availability(one)["node_availability"]
    assert abs(up.mean() - expected) <= half + 0.02 * (1 - expected)
    assert abs(up.mean() - (1 - 2 / 24 / NODES)) > half


@cases("stock", some(3, [{"stock": 6}, {"stock": 8, "reorder": 3, "share": 0.8}, {"stock": 10, "deliveries": "4 d"}]))
def test_a_job_waits_while_too_many_nodes_wait_for_parts(stock: dict[str, Any]) -> None:
    """Nodes that wait for parts wait together: with repairs that are spread as evenly it would hardly ever wait."""
    changes: dict[str, Any] = {
        "jobs": [{"name": "job", "gpus": NODES - 4}],
        "spares": {"hot": 4},
        "detection": {"time": "0 s"},
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "async", "write": "0 s", "restore": "0 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "1 min"},
    }
    one = idle({"lead": "3 d", **stock}, horizon="600 d", **changes)
    starved = np.array([seconds(result).get("starved", 0.0) / one.horizon for result in results_of(one, 16)])
    half = student(starved.size) * starved.std(ddof=1) / math.sqrt(starved.size)
    expected = sim.closed_form(one).shares["starved"]
    assert abs(starved.mean() - expected) <= half + 0.03 * expected
    lives = present(lives_and_repairs(one))
    apart = starvation(*lives, NODES - 4, 4).share
    assert abs(starved.mean() - apart) > half


def test_vendor_returns_shorten_the_pipeline() -> None:
    """Of broken parts a share y is back after R, the others are bought: on their way are Poisson(D (y R + (1-y) L))."""
    returns = {"time": {"use": "exponential", "mean": "10 d"}, "repaired": 0.75}
    one = idle({"stock": 12, "lead": "2 d", "returns": returns})
    found = seen(one)
    theory = base_stock(PER_DAY, 0.75 * 10 + 0.25 * 2, 12)
    for name, (mean, half) in found.items():
        assert abs(mean - getattr(theory, name)) <= half + 0.01 * theory.on_hand, name
    bought, asked = np.sum([result.parts["node"][0:3:2] for result in results_of(one, 4)], axis=0)[::-1]
    assert abs(bought - 0.25 * asked) <= 4 * math.sqrt(asked * 0.25 * 0.75)


def test_outages_that_wait_for_a_delivery_end_together() -> None:
    """With an empty shelf and a delivery every 300 s, all that broke in between is back at once, a repair after it."""
    case = prepared(
        cluster={"nodes": 8, "gpus_per_node": 1, "fabric": {"rails": 1}},
        parts={"psu": {"stock": 0, "lead": "0 s", "deliveries": "300 s", "causes": ["first"]}},
    )
    result = logged(case, [(10.0, 0, 4), (120.0, 0, 5), (310.0, 0, 6)])
    assert [outage.end for outage in result.outages] == [500.0, 500.0, 800.0]
    use = result.parts["psu"]
    assert (use.asked, use.waited, use.bought) == (3, 3, 3)
    assert use.node_seconds == 290.0 + 180.0 + 290.0


def test_orders_are_placed_at_the_reorder_point() -> None:
    """With s = 1 and S = 3 the second part that is taken orders two; who comes meanwhile takes the last, or waits."""
    stock = {"stock": 3, "reorder": 1, "lead": "200 s", "causes": ["first"]}
    case = prepared(cluster={"nodes": 10, "gpus_per_node": 1, "fabric": {"rails": 1}}, parts={"psu": stock})
    rows = [(float(10 * number), 0, 3 + number) for number in range(1, 6)]
    result = logged(case, rows)
    # Taken at 10, 20 (orders two, for 220), 30; at 40 the position is 1 again (two on order, one waits): two for 240.
    ends = [outage.end - outage.start for outage in result.outages]
    assert ends == [200.0, 200.0, 200.0, 180.0 + 200.0, 170.0 + 200.0]
    assert result.parts["psu"][:3] == (5, 2, 4)
    # The shelf: three, two, one, none from 30 s to 240 s, then what the second order left.
    assert result.parts["psu"].part_seconds == 3 * 10 + 2 * 10 + 1 * 10 + 2 * (1000.0 - 240.0)


def test_a_tier_waits_for_its_part_and_then_for_a_crew() -> None:
    """Two nodes go on to a tier that needs a part and has one crew: one part is there, the other comes later."""
    tiers = [
        {"name": "reset", "time": "10 s", "escalates": 1},
        {"name": "swap", "time": "100 s", "crews": 1},
    ]
    stock = {"stock": 1, "lead": "50 s", "causes": ["first", "second"], "tier": "swap"}
    case = prepared(
        cluster={"nodes": 8, "gpus_per_node": 1, "fabric": {"rails": 1}},
        repair={"use": "tiers", "tiers": tiers},
        parts={"gpu": stock},
    )
    result = logged(case, [(10.0, 0, 4), (12.0, 1, 5)])
    # Node 4 has the part at 20 s; node 5 waits for the one ordered then, from 22 s to 70 s, and for the crew to 120 s.
    assert [outage.end for outage in result.outages] == [120.0, 220.0]
    assert result.parts["gpu"].node_seconds == 48.0


@cases("ratio", [1.0, 9.0, 400.0])
def test_the_newsvendors_stock_costs_least(ratio: float) -> None:
    """One part more or less on the shelf costs more; limits of an empty shelf, and of one that is never empty."""
    demand, lead = 3.0, 2.5

    def cost(stock: int) -> float:
        shelf = base_stock(demand, lead, stock)
        return shelf.on_hand + ratio * shelf.waiting

    best = best_stock(demand, lead, ratio)
    assert cost(best) <= min(cost(best + 1), cost(max(best - 1, 0)))
    law = stats.poisson(demand * lead)
    for stock in (1, 5, 12):
        shelf = base_stock(demand, lead, stock)
        assert shelf.fill_rate == pytest.approx(law.cdf(stock - 1), abs=1e-12)
        assert shelf.waiting == pytest.approx(law.expect(lambda n, s=stock: np.maximum(n - s, 0)), abs=1e-9)
    assert base_stock(demand, lead, 0)[:2] == (0.0, pytest.approx(demand * lead))
    assert base_stock(demand, lead, 60).waiting == pytest.approx(0.0, abs=1e-9)


def test_without_parts_nothing_changes() -> None:
    """A stock that is never empty leaves every number as it is without one."""
    rows = [(100.0, 0, 0), (300.0, 1, 1)]
    full = {"any": {"stock": 9, "lead": "1 d", "causes": ["first", "second"]}}
    one, other = (play(case, rows).jobs[0].totals for case in (prepared(parts=full), prepared()))
    assert np.array_equal(one, other)
