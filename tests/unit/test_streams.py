"""Streams: arrivals by their laws, and the k-th job the same job whatever else changes."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.sim.prepare.arrivals import mean_rate
from ettrick.sim.scenario.streams import Arrival, PowersOfTwo
from tests.cases import cases
from tests.intervals import LEAST, Z, close
from tests.pace import SEED
from tests.typed import present

DAY, HOUR = 86400.0, 3600.0

SMALL = {"name": "s", "arrivals": {"rate": "40 per h"}, "gpus": 8, "work": "10 min"}


def scenario(*streams: dict[str, Any], **more: Any) -> sim.Scenario:
    """Return a scenario of 64 nodes with some streams."""
    return sim.parse(
        {
            "name": "streams",
            "cluster": {"name": "c", "nodes": 64, "fabric": {"leaf": {"nodes": 8}}},
            "horizon": "10 d",
            "seed": SEED,
            "streams": list(streams),
            "failures": [{"use": "component", "name": "node", "part": "node", "rate": "6.5 per 1000 node-days"}],
            "detection": {"time": "5 min"},
            "checkpoint": {"tiers": [{"interval": "30 min", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
            "recovery": {"use": "full-restart", "initialize": "4 min"},
            "repair": {"time": "1 d"},
            **more,
        }
    )


def stream(**changes: Any) -> sim.engine.prepared.PreparedStream:  # type: ignore[name-defined]
    """Return one stream, prepared, that differs from the usual one."""
    (found,) = sim.prepare(scenario({**SMALL, **changes})).streams
    return found


def jobs(end: float = 100 * DAY, replication: int = 0, **changes: Any) -> list[Arrival]:
    """Return the jobs of one stream."""
    return list(stream(**changes).arrivals(SEED, replication, end))


def column(rows: list[Arrival], name: str) -> np.ndarray[Any, Any]:
    """Return one field of all jobs."""
    return np.array([getattr(row, name) for row in rows])


def test_poisson_gaps_are_exponential() -> None:
    """Times between arrivals of a Poisson stream pass a test of fit at the stated rate, and fail at twice of it."""
    gaps = np.diff(column(jobs(), "submit"), prepend=0.0)
    assert stats.kstest(gaps, stats.expon(scale=90).cdf).pvalue > LEAST
    assert stats.kstest(gaps, stats.expon(scale=45).cdf).pvalue < LEAST


def test_renewal_gaps_have_their_law() -> None:
    """Times between arrivals of a renewal stream are those of its law."""
    gap = {"use": "gamma", "shape": 4.0, "mean": "3 min"}
    gaps = np.diff(column(jobs(arrivals={"use": "renewal", "gap": gap}), "submit"), prepend=0.0)
    assert stats.kstest(gaps, stats.gamma(4, scale=45).cdf).pvalue > LEAST


def test_profile_moves_arrivals_into_its_parts() -> None:
    """Each part of the period has the share of its factor; a part of zero has nobody."""
    profile = {"every": "1 d", "factors": [0.5, 0, 2, 1]}
    submit = column(jobs(arrivals={"rate": "40 per h", "profile": profile}), "submit")
    counts = np.histogram(submit % DAY, bins=4, range=(0, DAY))[0]
    expected = 100 * 6 * 40 * np.array([0.5, 0, 2, 1])
    assert counts[1] == 0
    assert (np.abs(counts - expected) <= Z * np.sqrt(expected)).all()
    assert mean_rate(scenario({**SMALL, "arrivals": {"rate": "40 per h", "profile": profile}}).streams[0].arrivals) == (
        pytest.approx(40 / HOUR * 3.5 / 4)
    )


def test_diurnal_rate_is_a_sine() -> None:
    """Each hour of the day has the integral of the sine between trough and peak."""
    arrivals = {"use": "diurnal", "peak": "90 per h", "trough": "10 per h", "at": "15 h"}
    submit = column(jobs(arrivals=arrivals), "submit")
    counts = np.histogram(submit % DAY, bins=24, range=(0, DAY))[0]
    edges = np.linspace(0, DAY, 25)
    integral = 50 * edges / HOUR + 40 * 24 / (2 * math.pi) * np.sin(2 * math.pi * (edges - 15 * HOUR) / DAY)
    expected = 100 * np.diff(integral)
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2(24).isf(LEAST)
    assert counts.argmax() in range(12, 18)


@pytest.mark.nightly
def test_mmpp_has_its_mean_and_its_bursts() -> None:
    """Counts of a stream of two states have the mean and the index of dispersion of theory.

    For long intervals the index is 1 + 2 r1 r2 (a1 - a2)^2 / ((r1 + r2)^2 (a1 r2 + a2 r1)), with rates a of arrival and
    r of leaving a state (Fischer and Meier-Hellstern 1993).
    """
    states = [{"rate": "60 per h", "stay": "1 h"}, {"rate": "4 per h", "stay": "3 h"}]
    found = stream(arrivals={"use": "mmpp", "states": states})
    assert found.rate == pytest.approx((60 + 3 * 4) / 4 / HOUR)
    rows = [column(list(found.arrivals(SEED, number, 40 * DAY)), "submit") for number in range(60)]
    days = np.concatenate([np.histogram(row, bins=39, range=(DAY, 40 * DAY))[0] for row in rows])
    assert close(np.array([((row >= DAY).sum()) / 39 for row in rows]), 18 * 24)
    a, b, r, s = 60.0, 4.0, 1.0, 1 / 3
    lasting = (r * s * (a - b) ** 2) / ((r + s) ** 2 * (a * s + b * r))
    # The exact variance of a count in a time t, of a stationary start.
    t = 24.0
    index = 1 + 2 * lasting - 2 * lasting / ((r + s) * t) * (1 - math.exp(-(r + s) * t))
    assert days.var() / days.mean() == pytest.approx(index, rel=0.15)


def test_more_load_is_the_same_jobs_sooner() -> None:
    """With a load of two the k-th job is submitted in half the time and is otherwise the same job."""
    changes = {"gpus": {"1": 0.5, "8": 0.5}, "work": {"use": "lognormal", "mean": "1 h", "sigma": 1.0}}
    once, twice = jobs(10 * DAY, **changes), jobs(5 * DAY, **changes, load=2.0)
    assert len(once) == len(twice) > 9000
    for one, two in zip(once, twice, strict=True):
        assert two.submit == pytest.approx(one.submit / 2)
        assert two._replace(submit=0.0) == one._replace(submit=0.0)


def test_horizon_other_streams_and_order_of_use_change_nothing() -> None:
    """A longer horizon keeps the first jobs, another stream all of them; two iterators do not disturb each other."""
    found = stream()
    short, long = list(found.arrivals(SEED, 0, 2 * DAY)), list(found.arrivals(SEED, 0, 60 * DAY))
    assert long[: len(short)] == short
    assert [job.number for job in long] == list(range(len(long)))
    beside = sim.prepare(scenario({**SMALL, "name": "other"}, SMALL)).streams[1]
    assert list(beside.arrivals(SEED, 0, 2 * DAY)) == [job._replace(tenant=job.tenant) for job in short]
    first, second = found.arrivals(SEED, 0, 2 * DAY), found.arrivals(SEED, 0, 2 * DAY)
    assert [pair[0] for pair in zip(first, second, strict=True)] == short
    assert list(pickle.loads(pickle.dumps(found)).arrivals(SEED, 0, 2 * DAY)) == short


def test_replications_and_streams_have_jobs_of_their_own() -> None:
    """Another replication, seed or name of the stream gives other times."""
    found = stream()
    starts = {
        next(found.arrivals(SEED, 0, DAY)).submit,
        next(found.arrivals(SEED, 1, DAY)).submit,
        next(found.arrivals(SEED + 1, 0, DAY)).submit,
        next(stream(name="t").arrivals(SEED, 0, DAY)).submit,
    }
    assert len(starts) == 4


def test_choices_follow_their_weights() -> None:
    """GPUs, tenants, priorities and outcomes are as frequent as their weights, which need not sum to one."""
    rows = jobs(
        gpus={"1": 6, "2": 1, "8": 3},
        tenant={"a": 1, "b": 3},
        priority={"-1": 1, "5": 1},
        outcome={"completed": 2, "failed": 1, "cancelled": 1},
    )
    for name, shares in {
        "gpus": {1: 0.6, 2: 0.1, 8: 0.3},
        "tenant": {0: 0.25, 1: 0.75},
        "priority": {-1: 0.5, 5: 0.5},
        "outcome": {"completed": 0.5, "failed": 0.25, "cancelled": 0.25},
    }.items():
        values = column(rows, name)
        assert set(values.tolist()) == set(shares)
        for value, share in shares.items():
            assert close(values == value, share, share * (1 - share)), (name, value)


def test_jobs_that_do_not_complete_end_at_a_uniform_point() -> None:
    """What a failed job has done is a uniform share of its work; what a completed one has done is all of it."""
    rows = jobs(outcome={"completed": 1, "failed": 1})
    share = column(rows, "ends") / column(rows, "work")
    failed = column(rows, "outcome") == "failed"
    assert (share[~failed] == 1).all()
    assert stats.kstest(share[failed], stats.uniform.cdf).pvalue > LEAST


def test_powers_of_two_are_the_law_rounded() -> None:
    """Each power has the probability of the log-normal law between the geometric means with its neighbours."""
    law = PowersOfTwo(median=30.0, sigma=1.3, least=4, most=256)
    weights = law.weights()
    assert list(weights) == [4, 8, 16, 32, 64, 128, 256]
    assert math.fsum(weights.values()) == pytest.approx(1)
    exact = stats.lognorm(s=1.3, scale=30)
    assert weights[32] == pytest.approx(exact.cdf(32 * math.sqrt(2)) - exact.cdf(32 / math.sqrt(2)))
    assert weights[4] == pytest.approx(exact.cdf(4 * math.sqrt(2)))
    assert weights[256] == pytest.approx(exact.sf(128 * math.sqrt(2)))


# Time limits.


@cases(
    ("changes", "expected"),
    [
        ({"work": "10 min", "restart": "0 s"}, 600),
        ({"work": "10 min"}, 840),  # initialize
        ({"work": "65 min", "restart": "0 s"}, 65 * 60 + 2 * 30),  # a save after 30 and 60 min
        ({"work": "60 min", "restart": "0 s"}, 3600 + 30),  # none at the end
        ({"work": "2 h", "restart": "0 s", "checkpoint": {"interval": "1 h", "save": "3 %"}}, 7200 * 1.03),
        ({"work": "2 h", "restart": "0 s", "checkpoint": {}}, 7200),
        ({"work": "10 min", "restart": "0 s", "limit": {"factor": 3}}, 1800),
        ({"work": "10 min", "restart": "0 s", "limit": {"factor": 3, "most": "20 min"}}, 1200),
        ({"work": "10 min", "restart": "0 s", "limit": {"factor": 3, "least": "1 h"}}, 3600),
        ({"limit": "7 d"}, 7 * DAY),
        ({"limit": "none"}, math.inf),
        ({"work": "horizon"}, math.inf),
        ({"work": "30 h", "chain": {"limit": "24 h", "notice": "5 min"}}, DAY),
    ],
)
def test_time_limits(changes: dict[str, Any], expected: float) -> None:
    """An exact limit is what a run takes where nothing fails; others are a time, a factor, or that of a chain."""
    assert jobs(DAY, **changes)[0].limit == pytest.approx(expected)


def test_limits_of_users_and_partitions() -> None:
    """A factor between two numbers is uniform; a partition cuts limits to its own, and names are positions."""
    rows = jobs(limit={"factor": {"low": 1.0, "high": 5.0}}, restart="0 s")
    factor = column(rows, "limit") / 600
    assert stats.kstest(factor, stats.uniform(1, 4).cdf).pvalue > LEAST
    prepared = sim.prepare(
        scenario(
            {**SMALL, "partition": {"short": 1, "all": 1}, "limit": "9 d"},
            partitions=[{"name": "all", "tier": 1}, {"name": "short", "nodes": "0-7,16", "limit": "1 h"}],
        )
    )
    rows = list(prepared.streams[0].arrivals(SEED, 0, DAY))
    assert {(row.partition, row.limit) for row in rows} == {(0, 9 * DAY), (1, HOUR)}
    assert [partition.node_count(64) for partition in prepared.partitions] == [64, 9]


# What a job costs beside its work.


def test_saves_follow_the_scenario_or_the_stream() -> None:
    """Checkpoints are those of the scenario, at an interval by the size of the job, or those of the stream."""
    rule = {"tiers": [{"interval": "young", "mode": "blocking", "write": "30 s", "restore": "1 min"}]}
    changes = {**SMALL, "gpus": {"8": 1, "128": 1}}
    (found,) = sim.prepare(scenario(changes, checkpoint=rule)).streams
    assert found.saves[8].interval == pytest.approx(found.saves[128].interval * 4)
    assert found.restart == 240
    assert found.detection == 300
    assert (found.saves[8].save.of(1e6), found.saves[8].restore.of(1e6)) == (30, 60)
    own = stream(checkpoint={"interval": "1 h", "save": "3 %", "restore": "2 %"}, restart="10 s")
    assert (own.saves[8].save.of(1000), own.saves[8].restore.of(1000), own.restart) == (30, 20, 10)
    assert own.saves[8].save.of(math.inf) == 0
    assert stream(checkpoint={}).saves[8].interval == math.inf


def test_a_template_gives_size_work_and_checkpoint() -> None:
    """Jobs of a template have its GPUs, and the time that its steps take by the step-time model."""
    template = {
        "name": "8b",
        "gpus": 64,
        "model": "llama3-8b",
        "batch": {"tokens": "4 Mi", "sequence": 8192},
        "parallelism": {"tensor": 8, "data": 8},
        "work": {"steps": 1000},
    }
    shape = {"tiers": [{"interval": "1 h", "node_bandwidth": "10 GB/s"}]}
    prepared = sim.prepare(
        scenario(
            {"name": "s", "template": "8b", "arrivals": {"rate": "1 per h"}},
            templates=[template],
            cluster={"name": "c", "nodes": 64, "accelerator": "h100", "fabric": {"leaf": {"nodes": 8}}},
            checkpoint=shape,
        )
    )
    alone = sim.prepare(
        sim.parse({**prepared.scenario.dump(), "streams": [], "templates": [], "jobs": [template]})
    ).jobs[0]
    (found,) = prepared.streams
    job = next(found.arrivals(SEED, 0, 10 * DAY))
    assert (job.gpus, job.work) == (64, pytest.approx(alone.target))
    assert found.saves[64].restore.of(0) == pytest.approx(alone.checkpoint.rungs[0].load)
    assert not prepared.jobs


def test_offered_load_is_that_of_the_draws() -> None:
    """Rate and mean work of a stream are those of its jobs; half the work of those that end early counts."""
    found = stream(
        gpus={"1": 1, "8": 1},
        work={"use": "gamma", "shape": 2.0, "mean": "1 h"},
        outcome={"completed": 1, "cancelled": 1},
    )
    rows = list(found.arrivals(SEED, 0, 100 * DAY))
    assert close(column(rows, "gpus") * column(rows, "ends"), found.mean_work)
    assert abs(len(rows) - found.rate * 100 * DAY) < Z * math.sqrt(len(rows))


def test_a_backlog_never_ends() -> None:
    """Jobs of a backlog are all there from the start, and there is no last one."""
    found = stream(arrivals={"use": "backlog", "pending": 20})
    rows = list(itertools.islice(found.arrivals(SEED, 0, DAY), 100_000))
    assert (found.pending, found.rate, len(rows)) == (20, 0, 100_000)
    assert {row.submit for row in rows} == {0.0}


def test_tenants_are_those_stated_and_those_named() -> None:
    """Tenants keep the order of the scenario; without any, those that streams name are added, and a usual one."""
    stated = sim.prepare(
        scenario({**SMALL, "tenant": "b"}, tenants=[{"name": "a", "nodes": 8}, {"name": "b", "nodes": 16, "borrow": 4}])
    )
    assert [tenant.name for tenant in stated.tenants] == ["a", "b"]
    assert {job.tenant for job in stated.streams[0].arrivals(SEED, 0, DAY)} == {1}
    named = sim.prepare(scenario(SMALL, {**SMALL, "name": "t", "tenant": {"x": 1, "y": 2}}))
    assert [tenant.name for tenant in named.tenants] == ["default", "x", "y"]


def test_streams_are_written_and_read_back() -> None:
    """A scenario with streams that was written down is the same scenario; one without has no keys of fleets."""
    one = scenario(
        {
            **SMALL,
            "gpus": {"median": 16.0, "sigma": 1.0, "most": 128},
            "work": {"use": "lognormal", "median": "1 h", "sigma": 1.0},
            "limit": {"factor": {"low": 1.0, "high": 2.0}},
            "checkpoint": {"save": "3 %"},
            "chain": {"limit": "1 d"},
        },
        partitions=[{"name": "p", "nodes": "0-31,40"}],
        tenants=[{"name": "default", "nodes": 64}],
    )
    list(sim.prepare(one).streams[0].arrivals(SEED, 0, DAY))
    assert sim.parse(one.dump()) == one
    plain = sim.load(sim.find("quickstart")).dump()
    assert not plain.keys() & {"streams", "templates", "tenants", "partitions"}


def test_streams_run_by_events() -> None:
    """Machine code does not know streams, and `explain` can say so."""
    prepared = sim.prepare(scenario(SMALL))
    assert sim.why_events(prepared, 10**9) == "streams"


@pytest.mark.nightly
def test_a_million_jobs_take_seconds() -> None:
    """Half a year of 7,200 jobs a day is drawn in less than five seconds of one busy core, and never held."""
    import time

    found = stream(arrivals={"rate": "7200 per day"}, work={"use": "lognormal", "mean": "1 h", "sigma": 1.5})
    start = time.process_time()
    count = sum(1 for _ in found.arrivals(SEED, 0, 180 * DAY))
    assert count > 1.29e6
    assert time.process_time() - start < 5


# What `explain` says of them.


def test_explain_says_what_streams_ask_for() -> None:
    """Offered load is rate times GPU-time over the GPUs without spares, of all streams and of each."""
    from ettrick.analysis.explain.explain import describe
    from ettrick.analysis.page.chapters.cluster import format_explanation

    prepared = sim.prepare(
        scenario({**SMALL, "gpus": {"8": 1, "64": 1}}, {**SMALL, "name": "t", "work": "1 h"}, spares={"hot": 4})
    )
    content = describe(prepared)
    each = {name: stream.offered_load for name, stream in content.fleet.streams.items()}
    assert each == {"s": pytest.approx(40 * 36 / 6 / 480), "t": pytest.approx(40 * 8 / 480)}
    assert content.fleet.offered_load == pytest.approx(40 * 6 / 480 + 40 * 8 / 480)
    assert content.fleet.saturation is None
    text = format_explanation(content, width=120)
    assert "offered load  116.67 % of the GPUs without spares" in text
    assert "8 to 64, mean 36" in text


def test_explain_says_where_gangs_saturate() -> None:
    """Jobs of a node and of all nodes, with exponential run times of one mean, saturate strict FIFO by the formula."""
    from ettrick.analysis.explain.explain import describe

    work = {"use": "exponential", "mean": "1 h"}
    rows = [{**SMALL, "gpus": {"8": 9, "64": 1}, "work": work}]
    cluster = {"name": "c", "nodes": 8, "gpus_per_node": 8}

    def saturation(**more: Any) -> float | None:
        fleet = present(describe(sim.prepare(scenario(*rows, **{"cluster": cluster, **more}))).fleet)
        return fleet.saturation

    assert saturation() == pytest.approx(0.602818, abs=1e-6)
    assert saturation(scheduler={"use": "easy"}) is None
    spare = {"name": "c", "nodes": 9, "gpus_per_node": 8}
    assert saturation(cluster=spare, spares={"hot": 1}) == saturation()
    assert saturation(cluster=spare) is None


def test_a_start_takes_what_the_recovery_says() -> None:
    """The time from nodes to running is initialize, of a preset the launch of its last rung, for the mean job."""
    assert stream().restart == 240
    preset = scenario(SMALL, recovery={"use": "slurm-requeue"})
    (found,) = sim.prepare(preset).streams
    wide = sim.prepare(scenario({**SMALL, "gpus": 512}, recovery={"use": "slurm-requeue"})).streams[0]
    # Prolog, imports and devices with medians of 5, 15 and 5 s, collectives with 17 s and the first step with 20 s; the
    # slowest node decides.
    assert 62 < found.restart < 67 < wide.restart < 107


def test_every_recovery_can_start_jobs_of_streams() -> None:
    """Whatever the recovery of a scenario, its start has a time, or the scenario is refused in lines."""
    for name in sim.inventory()["recovery (recovery.use)"] | sim.inventory()["recovery presets (recovery.use)"]:
        times = {"initialize": "1 min", "launch": "1 min", "recovery": "1 min", "reconfigure": "10 s"}
        for keys in ({}, *({key: value} for key, value in times.items()), times):
            try:
                prepared = sim.prepare(scenario(SMALL, recovery={"use": name, **keys}))
            except sim.ScenarioError:
                continue
            assert prepared.streams[0].restart >= 0
