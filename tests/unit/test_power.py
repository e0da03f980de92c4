"""The power of a site, by hand: caps, curtailments and heat that set the pace, ramps, energy, carbon and price by hour.

Three of four nodes of 8 GPUs train for two days, from 100 s on, and save every hour at no cost. A node draws 2 kW idle
and 8 kW in training, the facility 1.25 times as much: 32.5 kW with three nodes in training, 10 kW with none.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.ratios import ReplicationMetrics, provisioned
from ettrick.sim.failures.source import CAP, HEAT
from tests.cases import cases
from tests.harness import losses, play, prepared, seconds
from tests.typed import present
from tests.unit.test_engine_stores import HOST, software

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = 86_400.0

TWO = 2 * DAY

POWER: dict[str, Any] = {"idle": "2 kW", "training": "8 kW", "pue": 1.25, "switch": "0 W"}

STEPPING, WAITING = 32.5e3, 10e3
"""Power of the facility [W]."""

HALF_DAY: dict[str, Any] = {"every": "1 d", "factors": [1.0, 0.0]}


def site(power: dict[str, Any], *sources: dict[str, Any], **changes: Any) -> sim.Prepared:
    """Return the job of this file where power is stated."""
    base: dict[str, Any] = {
        "cluster": {"nodes": 4, "gpus_per_node": 8, "fabric": {"rails": 1}},
        "jobs": [{"name": "job", "gpus": 24, "step_time": "10 s", "batch": {"tokens": 1000, "sequence": 10}}],
        "failures": list(sources) or [software()],
        "recovery": {"use": "full-restart", "initialize": "100 s"},
        "checkpoint": {"tiers": [{"interval": "1 h", "mode": "async", "write": "0 s", "restore": "0 s"}]},
        "power": POWER | power,
        "horizon": "2 d",
    }
    return prepared(**base | changes)


def measured(share: float) -> float:
    """Return the pace that was measured at a share of the range of power [-]: on the line between two caps."""
    ends = [(0.0, 0.0), (0.2, 0.320), (0.52, 0.821), (0.84, 0.966), (1.0, 1.0)]
    (x, low), (y, high) = next(pair for pair in pairwise(ends) if share <= pair[1][0])
    return low + (high - low) * (share - x) / (y - x)


@cases(
    ("watts", "pace"),
    [(700, 1.0), (600, 0.966), (500, 0.966 - 0.145 * 0.16 / 0.32), (400, 0.821), (200, 0.320)],
)
def test_capped_boards_train_as_was_measured(watts: int, pace: float) -> None:
    """LLaMA-3 8B on four H100 (arXiv 2603.16164, table 4); at 500 W, x = 0.68, half-way between two rows."""
    chip = {"like": "h100", "power": f"{watts} W"}
    base = {"horizon": "1000 s", "failures": [], "recovery": {"use": "full-restart", "initialize": "0 s"}}
    store = {"tiers": [{"interval": "1 h", "mode": "async", "write": "0 s", "restore": "0 s"}]}
    case = prepared(
        cluster={"nodes": 1, "gpus_per_node": 4, "accelerator": chip},
        jobs=[{"name": "job", "gpus": 4, "step_time": "1 s"}],
        checkpoint=store,
        **base,
    )
    found = losses(case, play(case, []))
    assert play(case, []).jobs[0].work == pytest.approx(1000 * pace, rel=1e-3)
    assert found.get(("degraded", CAP), 0.0) == pytest.approx(1000 * (1 - pace), abs=1)
    assert bool([line for line in case.warnings if line.startswith("power: jobs step at")]) == (watts < 700)
    facility = present(case.upkeep.facility)
    # Half a node of eight, and each board draws the difference less.
    assert facility.node.training == pytest.approx(4000 - 4 * (700 - watts))


def taken(one: sim.Prepared, rows: Sequence[tuple[float, ...]] = ()) -> dict[str, float]:
    """Return what a replication took, by metric."""
    return {
        name: ratio.amount / ratio.base for name, ratio in ReplicationMetrics(one, play(one, rows)).spending().items()
    }


@cases(
    ("power", "share"),
    [
        ({"cap": "25 kW"}, (20 - 8) / 18),  # 20 kW of nodes, of which the idle one draws 2
        ({"rack_cap": "24 kW"}, (24 - 8) / 24),  # four nodes in training would draw 32
        ({"cap": "25 kW", "rack_cap": "20 kW"}, (20 - 8) / 24),
        ({"cap": "33 kW"}, 1.0),
    ],
)
@cases("exponent", [None, 1.0, 0.25])
def test_a_cap_sets_utilisation_and_that_the_pace(power: dict[str, Any], share: float, exponent: float | None) -> None:
    """A node at share x of its range draws that, steps at x to the exponent, and what it loses is the cap's."""
    one = site(power | ({} if exponent is None else {"exponent": exponent}))
    pace = measured(share) if exponent is None else share**exponent
    result = play(one, [])
    found = losses(one, result)
    assert result.jobs[0].work == pytest.approx(pace * (TWO - 100))
    assert found.get(("degraded", CAP), 0.0) == pytest.approx((1 - pace) * (TWO - 100), abs=1e-6)
    drawn = ((2 + 3 * (2 + 6 * share)) * (TWO - 100) + 8 * 100) * 1e3 * 1.25
    assert taken(one)["energy"] == pytest.approx(drawn)
    assert sum(seconds(result).values()) == pytest.approx(TWO)


def test_the_facility_is_built_for_its_cap() -> None:
    """Four nodes in training would take 40 kW."""
    assert provisioned(site({})) == pytest.approx(40e3)
    assert provisioned(site({"cap": "25 kW"})) == pytest.approx(25e3)


@cases("seed", range(3))
def test_work_is_the_integral_of_the_pace(seed: int) -> None:
    """Over random windows, days and seasons, however they overlap; energy, carbon and price are integrals too."""
    generator = np.random.default_rng(seed)
    windows = [
        {"start": f"{generator.integers(1, 40)} h", "time": f"{generator.integers(1, 9)} h", "cap": f"{cap} kW"}
        | ({"every": f"{generator.integers(9, 30)} h"} if generator.random() < 0.5 else {})
        for cap in generator.integers(12, 33, size=3)
    ]
    factors = [[round(float(each), 3) for each in generator.uniform(0.5, 2, size=size)] for size in (3, 8, 4, 6)]
    day, season, grid, prices = (
        {"every": every, "factors": each} for every, each in zip(("1 d", "30 h", "7 h", "1 d"), factors, strict=True)
    )
    ambient = {"temperature": 22, "day": day, "season": season, "above": 24, "slope": "0.8 %"}
    cost = {"capex": 0, "years": 1, "energy": 0.1, "energy_profile": prices}
    one = site(
        {"curtail": windows, "ambient": ambient, "carbon": {"intensity": 400, "profile": grid}}, cost=cost,
        recovery={"use": "full-restart", "initialize": "0 s"},
    )  # fmt: skip
    grid_step = 450.0
    times = np.arange(0, TWO, grid_step) + grid_step / 2

    def at(profile: dict[str, Any], time: float) -> float:
        every = {"1 d": DAY, "30 h": 108e3, "7 h": 25.2e3}[profile["every"]]
        return float(profile["factors"][int(time % every / every * len(profile["factors"]))])

    def share(time: float) -> float:
        found = 1.0
        for window in windows:
            start, length = (float(window[name].split()[0]) * 3600 for name in ("start", "time"))
            since = time - start
            if "every" in window and since >= 0:
                since %= float(window["every"].split()[0]) * 3600
            if 0 <= since < length:
                found = min(found, (float(window["cap"].split()[0]) / 1.25 - 8) / 18)
        return found

    work = energy = carbon = money = 0.0
    for time in times.tolist():
        x, degrees = share(time), 22 * at(day, time) * at(season, time)
        work += grid_step * min(measured(x), 1 - 0.008 * max(degrees - 24, 0.0))
        joules = grid_step * (8 + 18 * x) * 1e3 * 1.25
        energy += joules
        carbon += joules / 3.6e6 * 0.4 * at(grid, time)
        money += joules / 3.6e6 * 0.1 * at(prices, time)
    result = play(one, [])
    assert result.jobs[0].work == pytest.approx(work, rel=2e-3)
    found = taken(one)
    assert [found[name] for name in ("energy", "carbon", "cost")] == pytest.approx([energy, carbon, money], rel=4e-3)
    mean = one.upkeep.mean(lambda level: level.pace, TWO)
    assert result.jobs[0].work == pytest.approx(mean * TWO), "the closed form"
    assert sim.closed_form(one).shares["productive"] == pytest.approx(mean, rel=1e-4)


@cases("at", [0.3, 0.9, 1.4])
def test_failures_do_not_care_for_the_pace(at: float) -> None:
    """The same time is lost, and what was done in it, at whatever pace; the ledger closes; saves come by the clock."""
    slow = site({"ambient": {"temperature": 20, "day": {"every": "1 d", "factors": [1, 2]}, "slope": "2 %"}})
    plain = site({})
    rows = [(at * DAY + 1234.0, 0, 0)]
    mine, other = (losses(one, play(one, rows)) for one in (slow, plain))
    assert mine["lost_work", "software"] == pytest.approx(other["lost_work", "software"], abs=10.0)  # a step
    assert ("degraded", HEAT) in mine
    assert sum(seconds(play(slow, rows)).values()) == pytest.approx(TWO)


@cases("hot", [False, True], ids=["alone", "with a hot day"])
def test_the_tightest_limit_counts(hot: bool) -> None:
    """A node at 50 % hides a cap at 67 % and a hot day at 85 %; without it the cap does, in its hours."""
    slow = {"use": "component", "name": "slow", "part": "node", "law": software()["law"],
            "effect": {"use": "slow", "factor": "50 %"}, "detection": "10 d", "repair": "1 h"}  # fmt: skip
    power = {"curtail": [{"start": "12 h", "time": "12 h", "cap": "25 kW"}], "exponent": 1.0}
    one = site(power | ({"ambient": {"temperature": 40, "slope": "1 %"}} if hot else {}), slow)
    found = losses(one, play(one, [(1.5 * DAY, 0, 0)]))
    assert found["degraded", "slow"] == pytest.approx(0.5 * DAY / 2)
    assert found["degraded", CAP] == pytest.approx(DAY / 2 / 3)
    assert found.get(("degraded", HEAT), 0.0) == pytest.approx(0.15 * (DAY - 100) if hot else 0.0)


def test_fixed_work_ends_when_the_slower_pace_says() -> None:
    """A day of work: half a day at full pace less 100 s, then half a pace until it is done."""
    jobs = [{"name": "job", "gpus": 24, "step_time": "10 s", "work": {"time": "20 h"}}]
    power = {"curtail": [{"start": "12 h", "time": "30 h", "cap": "21.25 kW"}], "exponent": 1.0}
    result = play(site(power, jobs=jobs), [])
    assert result.jobs[0].end == pytest.approx(DAY / 2 + 2 * (20 * 3600 - (DAY / 2 - 100)))


@cases("jobs", [1, 3])
def test_jobs_start_one_after_another_as_power_rises(jobs: int) -> None:
    """A job of one node takes 7.5 kW more, which 2.5 kW a minute bring in 3 min; each start and stop are two ramps.

    What is drawn on them is the power times half their time each, beside that of a node that loads.
    """
    specs = [{"name": f"job-{number}", "gpus": 8, "step_time": "10 s"} for number in range(jobs)]
    one = site({"ramp_per_minute": "2.5 kW"}, jobs=specs)
    rows = [(DAY, 0, 0)]
    result = play(one, rows)
    for number in range(jobs):
        waits = 100 + 180 * (number + 1)
        again = 280 if number == 0 else 0
        assert seconds(result, number)["initialize"] == pytest.approx(waits + again)
    assert losses(one, result, 0)["initialize", "software"] == pytest.approx(280)
    stepping = sum(sum(v for k, v in seconds(result, job).items() if k != "initialize") for job in range(jobs))
    joules = (4 * 2e3 * TWO + 6e3 * stepping + (jobs + 1) * 6e3 * 180) * 1.25
    assert taken(one, rows)["energy"] == pytest.approx(joules)


def test_a_start_that_fails_gives_its_place_on_the_ramp_back() -> None:
    """A wait of 180 s from 100 s on is cut off at 200 s: after its second start of 100 s the job waits 180 s once more.

    So it steps at 480 s, and not at 280 + 180 + 180 s, behind its own first wait.
    """
    one = site({"ramp_per_minute": "2.5 kW"}, jobs=[{"name": "job-0", "gpus": 8, "step_time": "10 s"}])
    assert seconds(play(one, [(200, 0, 0)]), 0)["initialize"] == pytest.approx(480)


def test_steady_power_asks_for_no_event() -> None:
    """One carbon intensity, and a cap that nobody reaches, leave the engine and the numbers alone."""
    for power in ({}, {"carbon": {"intensity": 500}}, {"cap": "40 kW"}):
        one = site(power)
        assert one.upkeep.is_steady
        assert play(one, []).events == play(site({}), []).events
        assert taken(one)["energy"] == taken(site({}))["energy"]
    assert taken(site({"carbon": {"intensity": 500}}))["carbon"] == pytest.approx(
        (STEPPING * (TWO - 100) + WAITING * 100) / 3.6e6 * 0.5
    )


def test_carbon_counts_when_it_is_drawn() -> None:
    """Clean half days: only the other halves count, in which the job also waits for its start."""
    found = taken(site({"carbon": {"intensity": 500, "profile": HALF_DAY}}))["carbon"]
    assert found == pytest.approx((STEPPING * (DAY - 100) + WAITING * 100) / 3.6e6 * 0.5)


def test_windows_of_results_change_nothing() -> None:
    """The meter reads what is charged, whatever table it is in; memory and its stalls are no matter either."""
    power = {
        "curtail": [{"start": "5 h", "time": "9 h", "cap": "25 kW"}],
        "carbon": {"intensity": 1, "profile": HALF_DAY},
    }
    tiers = [HOST, {"interval": "30 min", "mode": "blocking", "write": "1 min", "restore": "0 s"}]
    plain, windowed = (site(power, checkpoint={"tiers": tiers}, **more) for more in ({}, {"windows": "7 h"}))
    rows = [(0.7 * DAY, 0, 0), (1.1 * DAY, 0, 0)]
    assert taken(plain, rows) == pytest.approx(taken(windowed, rows))
