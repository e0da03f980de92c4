"""Every way to come back, from every store, after everything that happens to jobs: what is true of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ettrick import sim
from ettrick.sim.policies.recovery import Redundant
from tests.engine_watch import Watch
from tests.property.common import MOST_EVENTS, Scenario, examples
from tests.strategies import Draw, maybe, moments, repairs, seconds, times

STORES = ("peer", "host", "peer-host", "disk")

ELASTIC = ("shrink-rejoin", "restart-smaller", "redundant")

RECOVERIES = ("hot-spare", "full-restart", "ladder", "narrow", "standby", *ELASTIC)


class _Finite(Watch):
    """A simulation that is looked at after every event and has to end.

    No node comes back more often than it went; what can strike a group does not wait; and jobs that read the remote
    store take no more of it than there is, and only while they wait for it.
    """

    def look(self) -> None:
        """Assert it."""
        super().look()
        assert self.events < MOST_EVENTS
        assert min(self.cluster.outages) >= 0
        for job in self.jobs.all:
            assert not any(group.exposed in ("both", "nodes") and group.deferred for group in (job.main, *job.away))
        stores = self.jobs.stores
        assert len({each.owner for each in stores.transfers}) == len(stores.transfers)
        assert all(each.owner.running == (each.periodic is not None) for each in stores.transfers)
        assert sum(each.speed * each.whole for each in stores.transfers) <= 1 + 1e-9
        saving = sum(each.speed * each.whole for each in stores.transfers if each.saves)
        assert saving <= (stores.save_share or 0) + 1e-9


@st.composite
def _tiers(draw: Draw, nodes: int) -> list[dict[str, Any]]:
    """Return ladders of stores of every kind, for jobs of some nodes."""
    found = [{"store": "remote", **draw(_saving())}]
    if draw(st.booleans()):
        found[0] |= {"aggregate": draw(st.sampled_from(("15 MB/s", "90 MB/s"))), "read_in": draw(moments(1, 20))}
        if draw(st.booleans()):
            found[0]["node_bandwidth"] = "10 MB/s"
        if draw(st.booleans()):
            found[0] |= {"shares": "all", "stagger": draw(st.booleans()), "save_share": "60 %"}
        del found[0]["write"], found[0]["restore"]
    for store in STORES:
        if maybe(draw, 2):
            continue
        tier: dict[str, Any] = {"store": store} | (draw(_saving()) if store != "peer" else {"restore": "3.5 s"})
        if store not in ("peer", "peer-host") and draw(st.booleans()):
            tier["every_replica"] = True
        if store == "peer-host":
            tier |= {"clique": draw(st.integers(2, max(min(nodes, 4), 2))), "jump": draw(st.integers(1, 3))}
        found.append(tier)
    return found


@st.composite
def _saving(draw: Draw) -> dict[str, Any]:
    """Return how a store is saved to."""
    tier: dict[str, Any] = {"interval": draw(seconds(15, 900)), "restore": draw(moments(0.5, 60))}
    tier |= {"mode": draw(st.sampled_from(("blocking", "async"))), "write": draw(moments(0.5, 60))}
    if tier["mode"] == "async":
        tier |= {"stall": draw(moments(0.5, 10)), "when_busy": draw(st.sampled_from(("wait", "skip")))}
    if draw(st.booleans()):
        tier["retain"] = draw(st.integers(1, 5))
    if maybe(draw, 3):
        tier["corrupt"] = draw(st.sampled_from(("1 %", "40 %", "90 %")))
    return tier


@st.composite
def _phases(draw: Draw, *means: float) -> Any:
    """Return a time, or two phases of which not everybody can fail in one."""
    if draw(st.booleans()):
        return draw(times(*means))
    exposed = draw(st.sampled_from((False, "processes", "nodes")))
    hidden = {"name": "hidden", "time": draw(seconds(1, 2 * max(means))), "exposed": exposed}
    rest = {"name": "rest", "time": draw(times(*means))}
    return [hidden, rest] if draw(st.booleans()) else [rest, hidden]


@st.composite
def _recoveries(draw: Draw, kind: str) -> dict[str, Any]:
    """Return a strategy with times that failures fall into."""
    launch = draw(times(20, 200))
    patience = {} if draw(st.booleans()) else {"patience": draw(moments(20, 400))}
    scale = draw(st.sampled_from((1.0, 1.0, 0.3)))
    if kind == "hot-spare":
        return {"use": kind, "initialize": launch, "reschedule": draw(times(20, 60)), "scale": scale, **patience}
    if kind == "full-restart":
        return {"use": kind, "initialize": launch, "delay": draw(moments(1, 200)), "scale": scale}
    if kind == "standby":
        return {"use": kind, "recovery": launch, "selection": draw(times(20, 60))}
    if kind == "narrow":
        return {"use": kind, "tensor": 2, "launch": launch, "reshard": "1 %", **patience}
    if kind in ("shrink-rejoin", "redundant"):
        more = {"majority": draw(st.booleans()), "quorum_timeout": draw(moments(1, 60))}
        if kind == "redundant":
            more = {"overhead": 0.5} | ({"most": draw(st.integers(1, 3))} if draw(st.booleans()) else {})
        stalls = {name: draw(_phases(10, 30)) for name in ("reconfigure", "catch_up", "rejoin")}
        return {"use": kind, "initialize": draw(_phases(20, 200)), "scale": scale, **stalls, **more}
    if kind == "restart-smaller":
        more = {"rejoin_keeps": draw(st.sampled_from(("hosts", "live"))), "except_first": draw(st.booleans())}
        if draw(st.booleans()):
            more["max_restarts"] = draw(st.integers(0, 3))
        if draw(st.booleans()):
            more["rejoin"] = draw(_phases(10, 60))
        return {"use": kind, "launch": draw(_phases(20, 200)), "stop": draw(_phases(10, 30)), **patience, **more}
    ladder: dict[str, Any] = draw(_ladders(launch, patience))
    return ladder


@st.composite
def _ladders(draw: Draw, launch: Any, patience: dict[str, Any]) -> dict[str, Any]:
    """Return ladders of up to three rungs."""
    budget = draw(st.sampled_from((1, 3, None)))
    rungs: list[dict[str, Any]] = [
        {"name": "in-process", "keeps": "processes", "launch": "5 s", "budget": budget, "handles": ["process", "gpu"]},
        {"name": "in-job", "keeps": "hosts", "stop": "3 s", "launch": launch, "except_first": draw(st.booleans())}
        | ({"budget": budget} if budget else {})
        | patience,
        {"name": "requeue", "keeps": "nothing", "stop": "4 s", "launch": launch, "delay": draw(moments(1, 100))},
    ]
    ladder: dict[str, Any] = {"use": "ladder", "rungs": rungs[draw(st.integers(0, 2)) :], "exhausted": "10 min"}
    if draw(st.booleans()):
        ladder["no_progress"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        faults = draw(st.sampled_from((["host"], ["hang", "process"], ["gpu", "host"])))
        ladder["evict"] = {"faults": faults, "nodes": draw(st.integers(1, 4)), "test": draw(moments(1, 300))}
    return ladder


def _sources(draw: Draw, horizon: float, *, everything: bool) -> list[dict[str, Any]]:
    """Return what happens to jobs, often: everything, or two of three. What tiers do not repair has its own time."""
    often = {"use": "exponential", "mean": f"{horizon / 6!r} s"}
    of_job = [
        {"use": "preemption", "name": "preempted", "away": draw(times(60, 400)), "notice": draw(moments(1, 90))},
        {"use": "loss-spike", "name": "spike", "rewind": draw(moments(1, 400)), "detection": draw(times(200, 900))},
        {"use": "job", "name": "storage", "fault": "storage", "store_out": draw(times(60, 600))},
        {"use": "job", "name": "hang", "effect": "hang", "damage": draw(st.sampled_from(("process", "reboot")))},
    ]
    a_node = {"use": "component", "part": "node", "rate": f"{3 * 86_400 / horizon!r} per node-day"}
    a_gpu = {"use": "component", "name": "gpu", "part": "gpu", "rate": f"{3 * 86_400 / horizon!r} per gpu-day"}
    of_nodes = [
        {**a_node, "name": "crash"},
        {**a_node, "name": "boot", "repair": "0 s", "damage": "reboot"},
        {**a_node, "name": "wrong", "effect": "corrupt", "detection": draw(times(200, 900))},
        {**a_node, "name": "slow", "effect": {"use": "slow", "factor": 0.5}, "detection": draw(times(200, 900))},
        {**a_gpu, "damage": draw(st.sampled_from(("process", "reboot"))), "repair": draw(times(60, 600))},
        {"use": "component", "name": "rack", "part": "rack", "rate": f"{86_400 / horizon!r} per rack-day"}
        | {"repair": draw(times(60, 600))},
    ]
    of_nodes = [{**source, "defer": everything or draw(st.booleans())} for source in of_nodes]
    start = 0.4 * horizon
    window = {"start": f"{start!r} s", "duration": draw(seconds(30, 400)), "units": 1}
    planned = [{"use": "maintenance", "name": "care", "windows": [window], "notice": draw(moments(1, 90))}]
    found = [{**source, "law": often} for source in of_job] + of_nodes + planned
    return [source for source in found if everything or not maybe(draw, 3)]


@st.composite
def cases(draw: Draw, kinds: tuple[str, ...] = RECOVERIES, *, everything: bool = False) -> Scenario:
    """Return small clusters in which it all comes together: with some of what happens to jobs, or with everything."""
    horizon = draw(st.integers(3_000, 8_000)) + 0.125
    kind = draw(st.sampled_from(kinds))
    replicas = draw(st.integers(2, 4)) if kind in ELASTIC else draw(st.integers(1, 3))
    stages = draw(st.integers(1, 2))
    recovery = draw(_recoveries(kind))
    if kind == "redundant":
        # Peers of which one does two stages' work: no more than the GPUs that are left could do.
        apart = ["peers", "templates", *["pairs"] * (replicas % 2 == 0), *["next-stage"] * (stages > 1)]
        recovery["redundancy"] = draw(st.sampled_from(apart))
        recovery |= {"slowdown": 2.0} if recovery["redundancy"] == "next-stage" else {}
    jobs = []
    for number in range(draw(st.integers(1, 2))):
        job: dict[str, Any] = {"name": f"job-{number}", "gpus": 2 * replicas * stages, "step_time": draw(seconds(1, 9))}
        job["parallelism"] = {"tensor": 2, "pipeline": stages, "data": replicas}
        job["batch"] = {"tokens": 4096, "sequence": 64, "on_loss": draw(st.sampled_from(("shrink", "keep")))}
        if draw(st.booleans()):
            job["work"] = {"time": f"{draw(st.sampled_from((0.1, 0.4))) * horizon!r} s"}
        if draw(st.booleans()):
            every = draw(st.sampled_from(("7 steps", "50 s", "131.7 s")))
            job["periodic"] = [{"name": "evaluation", "every": every, "time": draw(seconds(1, 30))}]
        jobs.append(job | ({"arrival": "97.3 s"} if number else {}))
    nodes = replicas * stages * len(jobs) + draw(st.integers(0, 3))
    repair = draw(repairs(horizon).filter(lambda found: "tiers" in found))
    hot = draw(st.integers(0, nodes - replicas * stages * len(jobs)))
    return {
        "name": "drawn",
        "seed": draw(st.integers(0, 1_000)),
        "cluster": {"nodes": nodes, "gpus_per_node": 2, "rack": {"nodes": 2}, "fabric": {"rails": 1}},
        "horizon": f"{horizon!r} s",
        "windows": f"{horizon / 3.7!r} s",
        "jobs": jobs,
        "failures": _sources(draw, horizon, everything=everything),
        "detection": {"time": draw(times(5, 60))},
        "checkpoint": {"size": "1 GB", "tiers": draw(_tiers(replicas * stages))},
        "recovery": recovery,
        "spares": {"hot": hot},
        "repair": repair if everything or draw(st.booleans()) else {"time": draw(times(60, 600))},
    }


@examples(120, on_push=8)
@given(cases())
def test_whatever_happens_to_a_job(data: Scenario) -> None:
    """The ledger closes, no node is in two places, work is what counts as productive, and a run repeats exactly."""
    check(data)


@examples(40, on_push=3)
@given(cases(("narrow",), everything=True))
def test_nodes_that_lost_a_gpu_among_tiers_of_repair(data: Scenario) -> None:
    """The same where a node that stays with fewer GPUs has its own repair, and goes through tiers if its host fails."""
    check(data)


@examples(40, on_push=3)
@given(cases(ELASTIC, everything=True))
def test_replicas_whose_failures_wait(data: Scenario) -> None:
    """The same where replicas go on without one another, and failures wait for the end of hidden phases."""
    check(data)


def check(data: Scenario) -> None:
    """Play a scenario twice, and look."""
    prepared = sim.prepare(sim.parse(data))
    result = _Finite(prepared, 0, sim.trace(prepared, 0)).run()
    redundant = isinstance(prepared.recovery, Redundant)
    for job, plan in zip(result.jobs, prepared.jobs, strict=True):
        rounding = 1e-6 * max(job.requested, 1.0)
        # With redundancy a node that is away takes some of what is computed twice off.
        assert (job.totals.sum(axis=2) if redundant else job.totals).min(initial=0.0) >= -rounding
        least = job.work / plan.step_time
        keeps = plan.keeps_batch or plan.replicas == 1 or redundant
        most = least if keeps else least * plan.replicas
        assert least * (1 - 1e-6) - 1e-6 <= job.steps <= most * (1 + 1e-6) + 1e-6
    again = sim.run(prepared, 0, keeps_timeline=True)
    assert np.array_equal(again.cluster, result.cluster)
    assert again.counts == result.counts
    assert [(job.work, job.steps, job.restores, job.accepted) for job in again.jobs] == [
        (job.work, job.steps, job.restores, job.accepted) for job in result.jobs
    ]
