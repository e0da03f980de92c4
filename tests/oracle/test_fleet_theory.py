"""Streams of jobs against queueing theory: waits are those of a plain recursion, and their means those of theory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import optimize, stats

from ettrick import sim
from ettrick.analysis.validation.lab import ScenarioRunner
from ettrick.analysis.validation.measures import MEASURES, fleet
from ettrick.analysis.validation.table import load_table
from ettrick.analysis.validation.verdict import judge
from ettrick.sim import rng
from ettrick.sim.failures.trace import life_key
from ettrick.sim.formulas.queues import erlang_c, gang_saturation, mean_wait, pool_empty
from tests.cases import cases
from tests.intervals import student
from tests.pace import SEED
from tests.typed import present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ettrick.analysis.validation.lab import MeasuredQuantity

    FloatArray = NDArray[np.float64]

TABLE = load_table()

ROWS = {row.id: row for row in TABLE.rows if row.group == "fleet" and row.is_stochastic}

LAB = ScenarioRunner(SEED, processes=1)


class Prepared(Exception):
    """What a measure would have simulated."""


class Asked(ScenarioRunner):
    """A laboratory that simulates nothing."""

    def each(self, function: Any, prepared: sim.Prepared, replications: int) -> Any:
        """Say what it was asked for."""
        raise Prepared(prepared)


def prepared_of(name: str, **changes: Any) -> sim.Prepared:
    """Return what a row simulates."""
    row = ROWS[name]
    with pytest.raises(Prepared) as asked:
        MEASURES[row.measure](Asked(SEED), 1, **row.arguments | changes)
    found: sim.Prepared = asked.value.args[0]
    return found


def plain(prepared: sim.Prepared, replication: int, end: float) -> tuple[fleet.PlainJobs, FloatArray, FloatArray]:
    """Return jobs until `end`, and first starts and ends by a recursion; one node may fail while it works.

    Work that is done by the k-th failure is the sum of k lives; the job that does it then waits for the k-th repair.
    """
    jobs, starts, ends = fleet.plain_queue(prepared, replication, end)
    if not prepared.sources:
        return jobs, starts, ends
    (source,), done = prepared.sources, np.cumsum(jobs.work)
    numbers = np.arange(int(2 * done[-1] / source.law.mean_value) + 100)
    slots = np.zeros_like(numbers)
    marks = rng.stream(prepared.seed, replication, "mark", source.name, "repair")
    failures = np.cumsum(source.law.ppf(rng.uniform(life_key(source, prepared.seed, replication), slots, numbers)))
    repairs = np.cumsum(present(source.repair).ppf(rng.uniform(marks, slots, numbers)))
    until = np.concatenate([[0.0], repairs])[np.searchsorted(failures, done)]
    times = jobs.work + np.diff(until, prepend=0.0)
    starts = fleet.in_turn(jobs.submit, times, 1)
    return jobs, starts, starts + times


@cases(
    ("name", "changes"),
    [
        ("fleet-mmc-wait", {}),
        ("fleet-mmc-wait", {"servers": 64, "load": 0.95}),
        ("fleet-mg1-variable", {}),
        ("fleet-priority-low", {}),
        ("fleet-preemption-low", {}),
        ("fleet-failing-long", {}),
    ],
)
def test_each_job_starts_and_ends_as_in_a_plain_recursion(name: str, changes: dict[str, Any]) -> None:
    """First starts and ends of some 400 jobs on one node or many, of one class or two, with failures while busy."""
    prepared = prepared_of(name, jobs=400, **changes)
    jobs, starts, ends = plain(prepared, 0, prepared.warmup + prepared.horizon)
    place = {(stream, number): at for at, (stream, number) in enumerate(zip(jobs.stream, jobs.number, strict=True))}
    attempts = [each for each in sim.run(prepared, 0, keeps_log=True).attempts if each.submit >= 0]
    assert len({(each.stream, each.job) for each in attempts}) > 200
    first: dict[int, float] = {}
    # A job that fails has lost what it did since its last save, a hundredth of a second before at most.
    slack = 0.01 * (1 + 0.2 * len(attempts)) if prepared.sources else 1e-6
    for each in attempts:
        at = place[each.stream, each.job]
        first[at] = min(first.get(at, math.inf), each.start + prepared.warmup)
        if each.state == "completed":
            assert each.end + prepared.warmup == pytest.approx(ends[at], abs=slack)
    for at, start in first.items():
        assert start == pytest.approx(starts[at], abs=slack)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_the_table(name: str) -> None:
    """Waits, priorities, preemption, failures while busy, gangs, large jobs: a row holds with any seed."""
    row = ROWS[name]
    verdict = judge(row, MEASURES[row.measure](LAB, row.replications, **row.arguments), TABLE.stochastic)
    assert verdict.state == "pass", verdict


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("servers", "load", "jobs", "worst"), [(16, 0.9, 10_000, 0.015), (64, 0.95, 40_000, 0.03), (256, 0.97, 80_000, 0.1)]
)
def test_many_servers(servers: int, load: float, jobs: int, worst: float) -> None:
    """The wait of M/M/c is Erlang's, within the error of millions of jobs; what is unsure of it is below `worst`."""
    found: MeasuredQuantity = fleet.queue_wait(
        LAB, 12, case=f"mm{servers}", servers=servers, load=load, jobs=jobs, warmup=250
    )
    expected = erlang_c(servers, servers * load) / (servers - servers * load)
    assert found.error <= worst * expected, f"standard error {found.error / expected:.3f} of the mean"
    assert abs(found.value - expected) <= student(12) * found.error


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["fleet-failing-short", "fleet-failing-long"])
def test_failures_while_busy(name: str) -> None:
    """The wait for a node that fails while it works is that of theory, within an error of about 1 %."""
    expected = present(ROWS[name].value)
    prepared = prepared_of(name)
    waits = []
    for replication in range(24):
        jobs, starts, _ = plain(prepared, replication, 20 * prepared.horizon)
        waits.append((starts - jobs.submit)[jobs.submit >= prepared.warmup].mean() / 100)
    error = np.std(waits, ddof=1) / math.sqrt(24)
    assert error <= 0.015 * expected
    assert abs(np.mean(waits) - expected) <= student(24) * error


# ----------------------------------------
# Closed forms of queues: published and derived values, their limits, and what they refuse.


@cases(
    ("servers", "load", "waits", "wait"),
    [
        (4, 0.75, 0.509434, 0.509434),
        (16, 0.90, 0.591343, 0.369590),
        (64, 0.95, 0.588011, 0.183753),
        (256, 0.97, 0.521177, 0.067862),
    ],
)
def test_erlang_c(servers: int, load: float, waits: float, wait: float) -> None:
    """The probability to wait, and the mean wait in units of the mean run time."""
    offered = servers * load
    assert erlang_c(servers, offered) == pytest.approx(waits, abs=1e-6)
    assert mean_wait(servers, offered, 1.0) == pytest.approx(wait, abs=1e-6)
    assert mean_wait(servers, offered, 60.0) == pytest.approx(60 * wait, abs=1e-4)


def test_one_server_is_m_m_1() -> None:
    """With one server the probability to wait is the load, and the wait rho / (1 - rho) run times."""
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert mean_wait(1, 0.7, 1.0) == pytest.approx(0.7 / 0.3)
    assert erlang_c(8, 0.0) == 0
    assert erlang_c(8, 8.0) == 1
    assert mean_wait(8, 8.0, 1.0) == math.inf


@cases(
    ("slots", "small", "rate", "occupancy"),
    [
        (2, 0.5, 1.142857, 0.857143),
        (2, 2 - math.sqrt(2), 1.207107, 0.853553),
        (8, 0.9, 2.836792, 0.602818),
        (8, 0.5, 1.181169, 0.664407),
        (64, 0.99, 16.652, 0.424106),
    ],
)
def test_gang_saturation(slots: int, small: float, rate: float, occupancy: float) -> None:
    """Arrivals and occupancy at which strict FIFO of gangs saturates; of two slots by the known 1 / (1 - p^2 / 2)."""
    found = gang_saturation(slots, small)
    assert found == pytest.approx((rate, occupancy), abs=1e-4 if slots == 64 else 1e-6)
    if slots == 2:
        assert found == pytest.approx((1 / (1 - small**2 / 2), (2 - small) / (2 - small**2)))


def test_gang_saturation_in_its_limits() -> None:
    """Nearly no or nearly only small jobs fill the cluster; eight slots do worst at p = 0.8016, with 0.5688."""
    assert gang_saturation(8, 1e-12)[1] == pytest.approx(1)
    assert gang_saturation(8, 1 - 1e-12)[1] == pytest.approx(1)
    assert gang_saturation(1, 0.3) == (pytest.approx(1), pytest.approx(1))
    worst = optimize.minimize_scalar(lambda p: gang_saturation(8, p)[1], bounds=(0.5, 0.99), method="bounded")
    assert (worst.x, worst.fun) == (pytest.approx(0.8016, abs=1e-3), pytest.approx(0.5688, abs=1e-4))


@cases(("offered", "spares"), [(0.0, 1), (2.0, 0), (2.0, 3), (50.0, 60), (0.5, 20)])
def test_pool_empty(offered: float, spares: int) -> None:
    """A pool is empty while as many nodes or more are in repair, whose number is Poisson."""
    assert pool_empty(offered, spares) == pytest.approx(stats.poisson(offered).sf(spares - 1), abs=1e-12)


def test_refused() -> None:
    """What has no meaning is refused."""
    for call in (
        lambda: erlang_c(0, 1.0),
        lambda: erlang_c(2, -1.0),
        lambda: mean_wait(2, 1.0, 0.0),
        lambda: gang_saturation(8, 1.0),
        lambda: pool_empty(1.0, -1),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
