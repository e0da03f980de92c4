"""Bounds of candidates: exact on small problems, never below a simulated mean, close to it, guarded by the audit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.optimize.bounds import Candidates, excess, upper, upper_ettr
from ettrick.analysis.optimize.core import KEEPS, Race, SearchRules, Space
from ettrick.sim.closed_form.renewal import closed_form
from ettrick.sim.formulas.goodput import efficiency, optimal_interval
from tests.intervals import student
from tests.pace import SEED, budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

LLAMA = ("llama3-405b-54d", "llama3-405b-16k")

REPLICATIONS = 24


def alone(*bases: sim.Prepared, interval: float = math.nan) -> Candidates:
    """Return scenarios as candidates, each with the layout that it states."""
    jobs = [base.jobs[0] for base in bases]
    return Candidates(
        bases,
        np.arange(len(bases)),
        np.array([job.step_time for job in jobs]),
        np.array([float(job.tokens) for job in jobs]),
        np.full(len(bases), interval),
    )


def shipped(name: str, *changes: str) -> sim.Prepared:
    """Return a scenario that ships, with changes, examined."""
    return sim.examine(sim.load(sim.find(name), changes))


def simulated(prepared: sim.Prepared, metric: str = "ettr", count: int = REPLICATIONS) -> FloatArray:
    """Return a metric by replication, shape (count,)."""
    rows = replicate(prepared, count).rows
    return np.array([row[metric].amount / row[metric].base for row in rows])


# ----------------------------------------
# Oracles: small problems that were enumerated elsewhere (the numbers of the specification, 1e-6).

EXACT = {"rel": 1e-6}


def best(write: Any, mtti: Any, restart: Any, downtime: Any = 0.0) -> Any:
    """Return the share of productive time at the best interval [-]."""
    return efficiency(optimal_interval(write, mtti), write, mtti, restart, downtime)


def test_the_best_interval_and_its_share() -> None:
    """O5: minutes."""
    assert optimal_interval(1.0, 180.0) == pytest.approx(18.3129382, **EXACT)
    assert best(1.0, 180.0, 5.0) == pytest.approx(0.873653112, **EXACT)
    shares = efficiency(18.3129382 * np.array([1.1, 2.0, 0.5]), 1.0, 180.0, 5.0)
    assert shares == pytest.approx([0.873247908, 0.851248598, 0.852337194], **EXACT)


def test_a_share_and_its_excess_over_a_month() -> None:
    """O16: minutes, of 30 days."""
    assert efficiency(10.0, 1 / 30, 144.0, 4.33, 1.0, 1.0) == pytest.approx(0.920993448, **EXACT)
    stretch = np.array(4.33 + 1 + 10 + 1 / 30)
    assert excess(np.array(144.0), stretch, 1.0, 30 * 1440.0) == pytest.approx(0.000377903, rel=1e-5)
    assert excess(np.array(math.inf), stretch, 1.0, 43200.0) == pytest.approx(float(stretch) / 43200)


def enough(nodes: int, spares: int, down: float) -> float:
    """Return the probability that of some nodes and their spares no more are down than there are spares [-]."""
    return sum(math.comb(nodes + spares, k) * down**k * (1 - down) ** (nodes + spares - k) for k in range(spares + 1))


@pytest.mark.parametrize(
    ("total", "life", "write", "restart", "nodes", "value"),
    [
        (256, 40, 1.0, 5.0, 243, 215.752930),
        (256, 40, 1.0, 5.0, 240, 214.195272),
        (1024, 150, 0.5, 6.0, 1008, 914.130411),
    ],
)
def test_nodes_at_work_beside_spares(
    total: int, life: float, write: float, restart: float, nodes: int, value: float
) -> None:
    """O4: spares wait for repairs of a day."""
    share = best(write, life * 1440 / nodes, restart)
    assert nodes * enough(nodes, total - nodes, 1 / (1 + life)) * share == pytest.approx(value, **EXACT)


def test_the_strategy_that_wins_turns_with_the_size() -> None:
    """O8: requeue, then restarts in place, then replicas that leave."""
    nodes = np.arange(100, 500)
    mtti = 150 * 1440 / nodes
    values = [
        best(0.5, mtti, 15.0, 10.0),
        0.98 * best(0.5, mtti, 3.0, 1.0),
        0.94 * (1 - 960 / (150 * 1440)) / (1 + 1 / mtti),
    ]
    winner = np.argmax(values, axis=0)
    assert [int(nodes[place]) for place in np.flatnonzero(np.diff(winner))] == [208, 360]


def test_a_size_beyond_which_more_nodes_do_less() -> None:
    """O9: the restart grows with the job; the cheapest size is smaller than the fastest."""
    nodes = np.arange(1, 6000)
    rate = nodes * best(1.0, 60 * 1440 / nodes, 5 + 0.002 * nodes)
    assert (nodes[np.argmax(rate)], rate.max()) == (3677, pytest.approx(1599.49544, **EXACT))
    cost = (2000 + nodes) / rate
    assert (nodes[np.argmin(cost)], cost.min()) == (2207, pytest.approx(3.06625944, **EXACT))


# ----------------------------------------
# Never below what is simulated.

STRATEGIES: tuple[dict[str, Any], ...] = (
    {"use": "full-restart", "delay": "{a} s", "initialize": "{b} s"},
    {"use": "hot-spare", "reschedule": "{a} s", "initialize": {"use": "exponential", "mean": "{b} s"}},
    {"use": "hot-spare", "reschedule": "{a} s", "initialize": "{b} s", "exposed": False},
    {"use": "hot-spare", "reschedule": "{a} s", "initialize": "{b} s", "patience": "1 min", "requeue_delay": "10 s"},
    {"use": "standby", "recovery": "{b} s", "selection": "{a} s"},
    {
        "use": "ladder",
        "rungs": [
            {"name": "in place", "keeps": "hosts", "stop": "{a} s", "launch": "20 s", "budget": 2, "patience": "2 min"},
            {"name": "requeue", "keeps": "nothing", "delay": "{a} s", "launch": "{b} s"},
        ],
    },
)

NEAR: tuple[dict[str, Any], ...] = (
    {"store": "host", "interval": "3 min", "stall": "2 s", "write": "10 s", "restore": "5 s"},
    {"store": "peer-host", "interval": "4 min", "stall": "3 s", "write": "10 s", "restore": "8 s"},
)


def filled(value: Any, numbers: dict[str, int]) -> Any:
    """Return a description with its numbers."""
    if isinstance(value, dict):
        return {key: filled(item, numbers) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, numbers) for item in value]
    return value.format(**numbers) if isinstance(value, str) else value


def rigid(rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Return a scenario of one rigid job that fails every few hours, for a few days."""
    nodes, spares = int(rng.integers(4, 20)), int(rng.integers(1, 5))
    hours, interval = rng.uniform(1.0, 8.0), float(rng.choice([2, 5, 15, 40, 90]))
    remote: dict[str, Any] = {"store": "remote", "interval": f"{interval} min", "restore": f"{rng.integers(0, 120)} s"}
    if rng.random() < 0.5:
        remote |= {"mode": "blocking", "write": f"{rng.integers(1, 90)} s"}
    else:
        remote |= {"mode": "async", "stall": f"{rng.integers(0, 20)} s", "write": f"{rng.integers(1, 400)} s"}
    node_law = {"use": "exponential", "mean": f"{hours * nodes * 1.5} h"}
    gpu_law = {"use": "exponential", "mean": f"{hours * nodes * 2 * 4} h"}
    failures: list[dict[str, Any]] = [
        {"use": "component", "name": "node", "part": "node", "law": node_law},
        {"use": "component", "name": "gpu", "part": "gpu", "law": gpu_law, "detection": f"{rng.integers(0, 900)} s"},
        {"use": "job", "name": "crash", "law": {"use": "exponential", "mean": f"{hours * 8} h"}},
    ]
    failures = failures[: int(rng.integers(1, 4))]
    if rng.random() < 0.2:
        law = {"use": "weibull", "shape": 2.0, "mean": f"{hours * nodes * 4} h"}
        failures.append({"use": "component", "name": "fan", "part": "node", "law": law, "clock": "busy"})
    recovery = STRATEGIES[number % len(STRATEGIES)]
    tiers = [NEAR[int(rng.integers(2))]] if rng.random() < 0.3 else []
    job = {"name": "job", "gpus": 2 * nodes, "step_time": f"{rng.integers(1, 30)} s"}
    work = {"work": {"time": f"{rng.uniform(10, 30)} h"}} if rng.random() < 0.2 else {}
    return {
        "name": f"rigid {number}",
        "cluster": {"nodes": nodes + spares, "gpus_per_node": 2, "fabric": {"rails": 1}},
        "horizon": f"{rng.integers(2, 6)} d",
        "jobs": [job | work],
        "failures": failures,
        "detection": {"time": f"{rng.integers(0, 600)} s"},
        "checkpoint": {"tiers": [*tiers, remote]},
        "recovery": filled(recovery, {"a": int(rng.integers(0, 300)), "b": int(rng.integers(1, 900))}),
        "spares": {"hot": spares},
        "repair": {"time": {"use": "exponential", "mean": f"{rng.integers(5, 60)} min"}},
    }


def test_no_mean_is_above_its_bound() -> None:
    """Of random rigid scenarios; means are compared within four standard errors, and most bounds are close."""
    rng, gaps = np.random.default_rng(SEED), []
    for number in range(budget(480)):
        prepared = sim.prepare(sim.parse(rigid(rng, number)))
        (bound,), (kind,) = upper_ettr(alone(prepared))
        sample = simulated(prepared)
        error = sample.std(ddof=1) / math.sqrt(REPLICATIONS)
        assert kind == "renewal"
        assert sample.mean() <= bound + student(REPLICATIONS) * error, prepared.scenario
        gaps.append(bound - sample.mean())
    assert np.median(gaps) < 0.03


@pytest.mark.parametrize("name", LLAMA)
def test_bounds_of_llama_are_close_to_the_closed_form(name: str) -> None:
    """Within 2 %, and above it where the form itself is."""
    prepared = shipped(name)
    (bound,), kinds = upper_ettr(alone(prepared))
    form = closed_form(prepared).ettr
    assert kinds == ["renewal"]
    assert form is not None
    assert form <= bound <= 1.02 * form


RECOVERIES = {"slurm-requeue": "renewal", "nvrx-in-job": "renewal", "torchft-hsdp": "ideal"}


def test_jobs_that_lose_replicas_have_the_ideal_bound() -> None:
    """So have jobs beside others."""
    bases = [shipped("recovery-16k", f"recovery.use={recovery}") for recovery in RECOVERIES]
    ettr, kinds = upper_ettr(alone(*bases))
    assert kinds == list(RECOVERIES.values())
    assert ettr[2] == 1.0
    assert ettr[0] < ettr[1] < 0.98


def test_layout_and_interval_are_those_of_the_candidate() -> None:
    """One base for all: as if each had been stated."""
    base = shipped("llama3-405b-54d")
    step, tokens, number = base.jobs[0].step_time, float(base.jobs[0].tokens), 4
    minutes = np.array([2.0, 10.0, 30.0, 120.0])
    steps, lengths = np.full(number, step), 60 * minutes
    candidates = Candidates((base,), np.zeros(number, dtype=int), steps, np.full(number, tokens), lengths)
    ettr, _ = upper_ettr(candidates)
    stated = [shipped("llama3-405b-54d", f"checkpoint.tiers.0.interval={time} min") for time in minutes]
    assert ettr == pytest.approx(upper_ettr(alone(*stated))[0], rel=1e-12)
    faster = candidates._replace(step_time=steps / 2, interval=np.full(number, math.nan))
    a_day = upper("tokens_per_day", candidates._replace(interval=np.full(number, math.nan)), np.ones(number))
    assert upper("tokens_per_day", faster, np.ones(number)) == pytest.approx(2 * a_day)


METRICS = (
    "ettr", "tokens_per_day", "tokens_per_gpu_day", "tokens_per_mw_day", "cost_per_token", "goodput", "effective_mfu",
    "cluster_goodput",
)  # fmt: skip


def test_every_metric_is_bounded_on_the_same_side() -> None:
    """Prices and power of the GB200s; the bound of costs is an optimistic bill."""
    prepared = sim.prepare(sim.load(sim.find("llama3-405b-gb200")))
    candidates = alone(prepared)
    ettr, _ = upper_ettr(candidates)
    rows = replicate(prepared, REPLICATIONS).rows
    for metric in METRICS:
        amount, base = (
            sum(part) for part in zip(*((row[metric].amount, row[metric].base) for row in rows), strict=True)
        )
        (bound,) = upper(metric, candidates, ettr)
        score = -amount / base if metric == "cost_per_token" else amount / base
        assert score <= bound + 0.002 * abs(bound)
        assert abs(bound - score) < 0.06 * abs(bound), metric
    assert np.isinf(upper("node_availability", candidates, ettr)).all()
    assert np.isinf(upper("time_to_work", candidates, ettr)).all()


def test_work_takes_no_less_than_its_bound() -> None:
    """Of steps, so that a layout with a shorter step is done earlier."""
    data = rigid(np.random.default_rng(3), 1)
    data["jobs"] = [{"name": "job", "gpus": data["jobs"][0]["gpus"], "step_time": "10 s", "work": {"steps": 4000}}]
    prepared = sim.prepare(sim.parse(data | {"horizon": "20 d"}))
    candidates = alone(prepared)
    ettr, _ = upper_ettr(candidates)
    (bound,) = upper("time_to_work", candidates, ettr)
    sample = -simulated(prepared, "time_to_work")
    assert sample.mean() <= bound + student(REPLICATIONS) * sample.std(ddof=1) / math.sqrt(REPLICATIONS)
    faster = candidates._replace(step_time=candidates.step_time / 2)
    assert upper("time_to_work", faster, ettr) == pytest.approx(bound / 2)


@pytest.mark.parametrize("factor", [1.0, 0.98])
def test_the_audit_catches_a_bound_that_is_too_low(factor: float) -> None:
    """2 % are enough: of intervals, of which those that are far from the best are pruned."""
    data = rigid(np.random.default_rng(1), 0) | {"horizon": "60 d", "jobs": [{"name": "job", "gpus": 22}]}
    tier, minutes = {"mode": "blocking", "write": "20 s", "restore": "60 s"}, (1, 2, 4, 16, 64, 128)
    tiers = [{"tiers": [tier | {"interval": f"{time} min"}]} for time in minutes]
    bases = [sim.prepare(sim.parse(data | {"checkpoint": checkpoint})) for checkpoint in tiers]

    def simulate(indices: Sequence[int], count: int) -> tuple[FloatArray, IntArray]:
        return np.array([simulated(bases[index], count=count) for index in indices]), np.full(len(indices), KEEPS)

    race = Race(Space(factor * upper_ettr(alone(*bases))[0], simulate), SearchRules(first=24, batch=1))
    race.run(lambda: False)
    audit = race.audit()
    assert audit.candidates >= 3
    assert bool(audit.violations) == (factor < 1)
