"""Failure sources against exact samplers: age-correct renewal, clocks, stationary starts, blast radius."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sim
from sim.engine.simulation import Simulation
from sim.failures import Component, draw_trace
from sim.scenario.laws import Exponential, Fixed, Gamma, Lognormal, Uniform, Weibull
from tests.cases import cases
from tests.harness import Z, check_source, play, prepared, trace
from tests.intervals import agree
from tests.pace import one_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sim.scenario.law_model import LawModel

DAY = 86400.0
SHAPES = [0.5, 0.7, 1.0, 2.0]


def nodes_with(law: LawModel | None = None, units: int = 512, **changes: Any) -> sim.failures.Source:
    """Return a source of one slot a node."""
    law = Exponential.from_seconds(mean=100 * DAY) if law is None else law
    return sim.failures.Source(name="fault", part="node", units=units, law=law, **changes)


def weibull(shape: float, mean: float) -> Weibull:
    """Return a Weibull law by its mean [s]."""
    return Weibull.from_seconds(shape=shape, mean=mean)


# ---------------------------------------------------------------------------------------- every kind, every law

LAWS: list[LawModel] = [
    Exponential.from_seconds(mean=100 * DAY),
    weibull(0.7, 100 * DAY),
    weibull(2.0, 100 * DAY),
    Gamma.from_seconds(shape=0.6, mean=100 * DAY),
    Lognormal.from_seconds(mean=100 * DAY, sigma=1.2),
    Uniform.from_seconds(low=5 * DAY, high=40 * DAY),
]


@pytest.mark.parametrize("law", LAWS, ids=["exponential", "weibull 0.7", "weibull 2", "gamma", "lognormal", "uniform"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"renews": "at_return"}, {"renews": "never"}, {"clock": "busy"}, {"clock": "in_service"}],
    ids=["at_failure", "at_return", "never", "busy", "in_service"],
)
def test_sources_draw_what_they_say(law: LawModel, changes: dict[str, Any]) -> None:
    """Law, mean count, both prefixes and names hold for every law, renewal and clock."""
    check_source(nodes_with(law, units=128, **changes), 30 * DAY)


# --------------------------------------------------------------------------------------- age-correct renewal


def renewals(law: LawModel, repair: float, horizon: float, shape: tuple[int, int], seed: int) -> NDArray[np.int64]:
    """Return failures before the horizon of alternating renewal processes that start new, shape (replications,).

    Life, then a repair in which the unit does not age, then the next life. A repair of zero is plain renewal.
    """
    generator = np.random.default_rng(seed)
    clock = np.zeros(shape)
    counts = np.zeros(shape[0], dtype=np.int64)
    while True:
        clock += law.ppf(generator.random(clock.size)).reshape(shape)
        inside = clock < horizon
        if not inside.any():
            return counts
        counts += inside.sum(axis=1)
        clock += repair


def count_failures(case: sim.Prepared, replications: int, name: str = "failures") -> NDArray[np.int64]:
    """Return a count of each replication."""
    return np.array([sim.run(case, number).counts[name] for number in range(replications)])


def idle_cluster(source: sim.failures.Source, days: float, **changes: Any) -> sim.Prepared:
    """Return a cluster of 512 nodes whose one source is given; its only job never arrives."""
    case = prepared(
        cluster={"nodes": 512, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon=f"{days} d",
        jobs=[{"name": "job", "gpus": 1, "arrival": f"{days} d"}],
        **changes,
    )
    return replace(case, sources=(source,))


# 512 units, mean life 100 d, 30 d, renewal at failure: shape, failures, 2 s.e. of 4,000 draws (k = 1 is exact).
ANCHORS_30 = [(0.7, 281.1, 0.6), (1.0, 153.6, 0.0), (2.0, 35.3, 0.2)]
# 512 units, mean life 1000 d, 3000 d; 512 (3 + (c^2 - 1) / 2) in the long run, with c the coefficient of variation.
ANCHORS_3000 = [(0.7, 1800.6), (1.0, 1536.0), (1.5, 1398.1), (2.0, 1350.6)]


@pytest.mark.parametrize(("shape", "expected", "error"), ANCHORS_30)
def test_new_units_fail_by_their_age(shape: float, expected: float, error: float) -> None:
    """New units with infant mortality fail more, those that wear out less: 281.1, 153.6 and 35.3 of 512 in 30 days.

    To forget the age at each restart would give about 153.6 whatever the shape.
    """
    source = nodes_with(weibull(shape, 100 * DAY))
    counts = np.array([draw_trace([source], 30 * DAY, 11, number).time.size for number in range(300)])
    assert abs(counts.mean() - expected) <= Z * math.hypot(counts.std(ddof=1) / math.sqrt(counts.size), error / 2)


@pytest.mark.parametrize(("shape", "expected"), ANCHORS_3000)
def test_three_mean_lives(shape: float, expected: float) -> None:
    """Over three mean lives the counts of 512 slots are those of the renewal function, exact for k = 1."""
    source = nodes_with(weibull(shape, 1000 * DAY))
    counts = np.array([draw_trace([source], 3000 * DAY, 12, number).time.size for number in range(200)])
    assert abs(counts.mean() - expected) <= Z * counts.std(ddof=1) / math.sqrt(counts.size) + 0.3


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_renewal_at_failure(shape: float) -> None:
    """Played by the engine, renewal at failure counts like a renewal process, repairs or not."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY))
    case = idle_cluster(source, 30)
    ours = count_failures(case, 60)
    assert agree(ours, renewals(law, 0.0, 30 * DAY, (400, 512), 1))
    if shape < 1.0:
        assert not agree(ours, renewals(law, 2 * DAY, 30 * DAY, (400, 512), 1)), "the two renewals must differ here"


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_renewal_at_return(shape: float) -> None:
    """Played by the engine, renewal at return counts like an alternating renewal process with its repairs."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY), renews="at_return")
    case = idle_cluster(source, 30)
    ours = count_failures(case, 60)
    assert agree(ours, renewals(law, 2 * DAY, 30 * DAY, (400, 512), 2))
    assert not agree(ours, renewals(law, 0.0, 30 * DAY, (400, 512), 2)), "a repair of zero must fall outside"


def test_renewal_at_return_with_no_repair_goes_on() -> None:
    """A source that renews at return keeps failing when its repairs take no time."""
    law = weibull(0.7, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=0.0), renews="at_return")
    ours = count_failures(idle_cluster(source, 30), 40)
    assert agree(ours, renewals(law, 0.0, 30 * DAY, (400, 512), 3))


def test_never_renews() -> None:
    """A unit that never renews fails once at most: 512 (1 - exp(-3)) of 512 in three mean lives."""
    case = idle_cluster(nodes_with(renews="never", repair=Fixed.from_seconds(value=DAY)), 300)
    ours = count_failures(case, 60)
    share = -math.expm1(-3.0)
    assert abs(ours.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / ours.size)


@pytest.mark.parametrize("part", ["node", "gpu"])
@pytest.mark.parametrize("renews", ["at_failure", "never"])
def test_a_constant_rate_counts_by_its_parts(part: str, renews: str) -> None:
    """However memoryless lives are drawn, n parts fail n t / L times, and at most once each if they never renew."""
    counts = {"node": 32, "gpu": 256}
    law = {"law": "exponential", "mean": "100 d"}
    entry = {"name": "fault", "part": part, "law": law, "renews": renews}
    source = Component.model_validate(entry).build(counts, 1)
    drawn = np.array([draw_trace([source], 200 * DAY, 1, number).time.size for number in range(200)])
    share = 2.0 if renews == "at_failure" else -math.expm1(-2.0)
    variance = 2.0 if renews == "at_failure" else share * (1 - share)
    assert abs(drawn.mean() - counts[part] * share) <= Z * math.sqrt(counts[part] * variance / drawn.size)


# ------------------------------------------------------------------------------------------------------ clocks


@pytest.mark.parametrize("shape", one_in(4, SHAPES))
def test_in_service_clock_stops_while_the_node_is_down(shape: float) -> None:
    """Lives in service do not age in repairs: they count like an alternating renewal process."""
    law = weibull(shape, 20 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=2 * DAY), clock="in_service")
    ours = count_failures(idle_cluster(source, 30), 60)
    assert agree(ours, renewals(law, 2 * DAY, 30 * DAY, (400, 512), 4))


def test_in_service_clock_stops_for_another_cause_too() -> None:
    """A life of 50 s in service ends at 50 s plus the 20 s that another cause kept the node down."""
    case = prepared(horizon="200 s", jobs=[{"name": "job", "gpus": 1, "arrival": "200 s"}])
    life = Fixed.from_seconds(value=50.0)
    wear = nodes_with(life, units=1, clock="in_service", renews="never", repair=Fixed.from_seconds(value=1.0))
    other = replace(nodes_with(units=1), name="other")
    case = replace(case, sources=(wear, other))
    simulation = Simulation(case, 0, trace([(50.0, 0, 0), (30.0, 1, 0, 50.0)]))
    downs: list[tuple[float, int]] = []
    while simulation.is_open:
        simulation.kernel.step()
        if not downs or downs[-1][1] != simulation.cluster.outages[0]:
            downs.append((simulation.kernel.now, simulation.cluster.outages[0]))
    assert [time for time, count in downs if count] == [30.0, 70.0]


def busy_case(source: sim.failures.Source, **recovery: Any) -> sim.Prepared:
    """Return one job on all of 64 nodes that runs for 10 of 30 days: it arrives after 20."""
    case = prepared(
        cluster={"nodes": 64, "gpus_per_node": 1, "fabric": {"rails": 1}},
        horizon="30 d",
        jobs=[{"name": "job", "gpus": 64, "arrival": "20 d"}],
        recovery={"use": "hot-spare", "initialize": "1 h"} | recovery,
        checkpoint={"tiers": [{"interval": "6 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}]},
    )
    return replace(case, sources=(source,))


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("part", ["node", "job"])
def test_busy_clock_counts_exposed_time_only(shape: float, part: str) -> None:
    """A busy life ages only while its job can be hit: 20 days in front of the job age nothing."""
    units = 64 if part == "node" else 1
    law = weibull(shape, (20.0 if part == "node" else 1.0) * DAY)
    source = replace(nodes_with(law, units=units, clock="busy"), part=part, repair=Fixed.from_seconds(value=0.0))
    ours = count_failures(busy_case(source), 150)
    assert agree(ours, renewals(law, 0.0, 10 * DAY, (2000, units), 5))
    assert not agree(ours, renewals(law, 0.0, 30 * DAY, (2000, units), 5)), "the queue must not count"


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("part", ["node", "job"])
def test_busy_clock_stops_in_unexposed_phases(shape: float, part: str) -> None:
    """Each failure starts 12 h that nothing can hit; only what is left of 10 days wears the parts out.

    The sampler lets the parts of a job share one clock of exposed time, which stands still for 12 h at each failure.
    """
    units = 8 if part == "node" else 1
    law = weibull(shape, (12.0 if part == "node" else 1.5) * DAY)
    source = replace(nodes_with(law, units=units, clock="busy"), part=part, repair=Fixed.from_seconds(value=0.0))
    case = busy_case(source, exposed=False, reschedule="12 h")
    case = replace(case, nodes=8, jobs=(replace(case.jobs[0], nodes=8, gpus=8),))
    ours = count_failures(case, 200)
    generator = np.random.default_rng(6)
    theirs = []
    for _ in range(3000):
        due = law.ppf(generator.random(units))
        count = 0
        # After n failures the wall reads the exposed clock plus n pauses.
        while (first := float(due.min())) + count * DAY / 2 < 10 * DAY:
            due[int(due.argmin())] = first + float(law.ppf(generator.random(1))[0])
            count += 1
        theirs.append(count)
    assert agree(ours, np.array(theirs))
    assert not agree(ours, renewals(law, 0.0, 10 * DAY, (3000, units), 6)), "the pauses must matter"


# -------------------------------------------------------------------------------------------- stationary start


@pytest.mark.parametrize("shape", [0.5, 2.0])
@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_a_stationary_start_fails_at_a_constant_rate(shape: float, renews: Any) -> None:
    """From time zero on, each tenth of the horizon sees units x width / (mean life + repair at return) failures."""
    repair = 8 * DAY
    law = weibull(shape, 40 * DAY)
    source = nodes_with(law, renews=renews, repair=Fixed.from_seconds(value=repair))
    case = replace(idle_cluster(source, 50), stationary=True)
    width = 5 * DAY
    replications = 40
    counts = np.zeros((replications, 10))
    for number in range(replications):
        simulation = Simulation(case, number, sim.trace(case, number))
        before = 0
        while simulation.is_open:
            simulation.kernel.step()
            now = simulation.counts.failures
            if now > before:
                counts[number, min(int(simulation.kernel.now / width), 9)] += now - before
                before = now
    expected = 512 * width / (40 * DAY + (repair if renews == "at_return" else 0.0))
    for window in (0, 1, 4, 9):
        error = counts[:, window].std(ddof=1) / math.sqrt(replications)
        assert abs(counts[:, window].mean() - expected) <= Z * error, f"window {window}"
    new = np.array([(draw_trace([source], width, 1, number).time < width).sum() for number in range(replications)])
    assert abs(new.mean() - expected) > 3 * Z * new.std(ddof=1) / math.sqrt(replications), "new parts must differ"


@pytest.mark.parametrize("repair", [Fixed.from_seconds(value=8 * DAY), Exponential.from_seconds(mean=8 * DAY)])
def test_repairs_in_progress_at_return(repair: LawModel) -> None:
    """With renewal at return a unit is in repair at the start with probability R / (L + R), R of law or not."""
    source = nodes_with(weibull(0.7, 40 * DAY), renews="at_return", repair=repair)
    down = np.array([len(draw_trace([source], DAY, 3, number, stationary=True).initial) for number in range(200)])
    share = 8 / 48
    assert abs(down.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / down.size)
    left = [
        row.remaining for number in range(40) for row in draw_trace([source], DAY, 3, number, stationary=True).initial
    ]
    # The mean excess of a law is E[R^2] / (2 E[R]): 4 days if fixed, 8 if exponential.
    excess = 4 * DAY if isinstance(repair, Fixed) else 8 * DAY
    assert abs(np.mean(left) - excess) <= Z * np.std(left) / math.sqrt(len(left))


def test_repairs_in_progress_at_failure() -> None:
    """With renewal at failure a unit is down at the start if its life is younger than the repair that began with it.

    The age has the density P(X > x) / L. A repair of constant length D gives the integral of P(X > x) / L up to D.
    """
    law = weibull(0.7, 40 * DAY)
    source = nodes_with(law, repair=Fixed.from_seconds(value=8 * DAY))
    grid = np.linspace(0.0, 8 * DAY, 20001)
    survival = 1.0 - law.cdf(grid)
    share = float(np.trapezoid(survival, grid)) / (40 * DAY)
    down = np.array([len(draw_trace([source], DAY, 4, number, stationary=True).initial) for number in range(200)])
    assert abs(down.mean() - 512 * share) <= Z * math.sqrt(512 * share * (1 - share) / down.size)
    assert abs(share - 8 / 40) * 512 > 2 * Z * math.sqrt(512 * share * (1 - share) / down.size), "overlaps matter"


@pytest.mark.parametrize("renews", ["at_failure", "at_return"])
def test_stationary_downtime(renews: Any) -> None:
    """Exponential lives: the share of nodes down is R / (L + R) from the start, and stays so for long.

    Renewal at failure makes no difference: lives do not age, and a failure of a node in repair is masked.
    """
    source = nodes_with(renews=renews, repair=Fixed.from_seconds(value=20 * DAY))
    case = replace(idle_cluster(source, 10 if renews == "at_return" else 200), stationary=True)
    runs = [sim.run(case, number) for number in range(100)]
    share = np.array([run.down_node_seconds / run.node_seconds for run in runs])
    expected = 20 / 120
    assert abs(share.mean() - expected) <= Z * share.std(ddof=1) / math.sqrt(share.size)
    assert play(case).down_node_seconds == 0.0, "the outages come from the trace"


# -------------------------------------------------------------------------------------------------- blast radius

TREE = {
    "nodes": 24,
    "gpus_per_node": 2,
    "rack": {"nodes": 3},
    "pdu": {"racks": 4},
    "fabric": {"rails": 2, "leaf": {"nodes": 8}},
}


@cases(
    ("part", "slot", "expected"),
    [
        ("node", 5, [5]),
        ("gpu", 11, [5]),
        ("nic", 47, [23]),
        ("rack", 2, [6, 7, 8]),
        ("pdu", 1, list(range(12, 24))),
    ],
)
def test_a_failure_takes_its_domain(part: str, slot: int, expected: list[int]) -> None:
    """One failure takes down every node of its unit at once, and no other; they come back together."""
    case = prepared(
        cluster=TREE,
        jobs=[{"name": "job", "gpus": 2, "arrival": "900 s"}],
        failures=[
            {"use": "component", "name": "fault", "part": part, "law": {"law": "gamma", "shape": 2, "mean": "9 d"}}
        ],
        repair={"time": "50 s"},
    )
    assert _down_after(case, slot) == expected
    result = play(case, [(100.0, 0, slot)])
    assert result.down_node_seconds == len(expected) * 50.0


def test_a_leaf_takes_the_nodes_of_its_group() -> None:
    """The failure of a leaf switch takes the nodes that have a cable to it."""
    failures = [{"use": "component", "name": "fault", "part": "leaf", "rate": "1 per 1000 leaf-d"}]
    case = prepared(cluster=TREE, failures=failures, jobs=[{"name": "job", "gpus": 2, "arrival": "900 s"}])
    cluster: Any = case.scenario.cluster
    topology = cluster.build()
    assert case.sources[0].units == topology.counts["leaf"]
    reached: set[int] = set()
    for slot in range(case.sources[0].units):
        expected = np.flatnonzero(topology.domains["leaf"] == topology.domains["leaf"][_down_after(case, slot)[0]])
        assert _down_after(case, slot) == expected.tolist()
        reached |= set(expected.tolist())
    assert reached == set(range(24))


def _down_after(case: sim.Prepared, slot: int) -> list[int]:
    """Return the nodes that are down after a failure of one unit."""
    simulation = Simulation(case, 0, trace([(100.0, 0, slot)]))
    while simulation.kernel.peek() <= 100.0:
        simulation.kernel.step()
    return [node for node in range(case.nodes) if simulation.cluster.outages[node]]


# ------------------------------------------------------------------------------------------- exposure and thinning


@pytest.mark.parametrize(("hazard", "expected"), [(0.0, 0.0), (0.25, 0.25), (1.0, 1.0)])
def test_idle_nodes_fail_at_their_own_hazard(hazard: float, expected: float) -> None:
    """Of the failures drawn for idle nodes, the share idle_hazard happens."""
    source = nodes_with(
        Exponential.from_seconds(mean=20 * DAY), idle_hazard=hazard, repair=Fixed.from_seconds(value=0.0)
    )
    case = idle_cluster(source, 30)
    faults = count_failures(case, 20, "faults")
    mean = 512 * 1.5 * expected
    assert abs(faults.mean() - mean) <= Z * math.sqrt(mean / faults.size)
    assert np.array_equal(faults + count_failures(case, 20, "suppressed"), count_failures(case, 20, "candidates"))


def test_a_fault_interrupts_with_its_probability() -> None:
    """A fault becomes a failure with the stated probability; the others are harmless, and all are counted."""
    source = nodes_with(Exponential.from_seconds(mean=20 * DAY), interrupts=0.3, repair=Fixed.from_seconds(value=0.0))
    case = idle_cluster(source, 30)
    failures = count_failures(case, 20)
    assert abs(failures.mean() - 512 * 1.5 * 0.3) <= Z * math.sqrt(512 * 1.5 * 0.3 / failures.size)
    assert np.array_equal(failures + count_failures(case, 20, "harmless"), count_failures(case, 20, "faults"))


def test_doubling_the_rate_turns_it_red() -> None:
    """The interval of the counts is narrow enough: twice the rate falls far outside."""
    counts = {"node": 512, "gpu": 512}
    entry = {"name": "fault", "part": "node", "rate": "1 per 100 node-d"}
    source = Component.model_validate(entry).build(counts, 1)
    doubled = Component.model_validate(entry | {"scale": 2.0}).build(counts, 1)
    ours = np.array([draw_trace([source], 30 * DAY, 1, number).time.size for number in range(60)])
    twice = np.array([draw_trace([doubled], 30 * DAY, 1, number).time.size for number in range(60)])
    assert abs(ours.mean() - 153.6) <= Z * math.sqrt(153.6 / 60)
    assert abs(twice.mean() - 153.6) > 10 * Z * math.sqrt(153.6 / 60)
    assert abs(twice.mean() - 307.2) <= Z * math.sqrt(307.2 / 60)
