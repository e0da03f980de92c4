"""What a closed form assumes: a scenario for each line, and one that breaks nothing but the long run."""

from __future__ import annotations

from typing import Any

import sim
from tests import small
from tests.cases import cases

LONG_RUN = "long run: the first start and the horizon's edge are left out"
SEVERAL_STORES = [
    "each store saves by itself, and a failure takes the copies of one node",
    "the store whose copies are newest on average is read, though another may have a newer one",
]
CLIMBS = "failures are over before the next: no budget is spent, no way back in vain, no human is called"
AT_HAND = "a healthy node is always at hand"
STEPS_ON = "a job steps at its healthy pace until it stops, but"

RATE = "20 per 1000 node-day"
NODE: dict[str, Any] = {"use": "component", "name": "node", "part": "node", "rate": RATE, "repair": "0 s"}
BUG: dict[str, Any] = {"use": "job", "name": "bug", "rate": "1 per job-d"}
REMOTE = small.SMALL["checkpoint"]["tiers"][0]
HOST = {"store": "host", "interval": "1 min", "write": "1 s", "restore": "1 s"}
JOB = small.SMALL["jobs"][0]
DATA_PARALLEL = JOB | {"parallelism": {"data": 14, "tensor": 8}}


def ladder(*rungs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a ladder of rungs that keep the hosts, unless they say something else."""
    named = [
        {"name": f"rung {number}", "keeps": "hosts", "launch": "3 min"} | rung for number, rung in enumerate(rungs)
    ]
    return {"recovery": {"use": "ladder", "rungs": named, **more}}


def shrinking(**changes: Any) -> dict[str, Any]:
    """Return a job whose replicas leave one by one."""
    rejoin = {"use": "shrink-rejoin", "reconfigure": "30 s", "initialize": "3 min", "rejoin": "10 s", "min_replicas": 6}
    return {"recovery": rejoin | changes, "jobs": [DATA_PARALLEL]}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "lives that age": (
        {"failures": [NODE | {"rate": None, "law": {"law": "weibull", "mean": "50 d", "shape": 2.0}}]},
        ["constant failure rates, but node ages"],
    ),
    "two that age": (
        {
            "failures": [
                NODE | {"name": name, "rate": None, "law": {"law": "weibull", "mean": "50 d", "shape": 2.0}}
                for name in ("one", "two")
            ]
        },
        ["constant failure rates, but one, two age"],
    ),
    "parts that fail once": (
        {"failures": [NODE | {"renews": "never"}]},
        ["constant failure rates, but a part that had node never has it again"],
    ),
    "weeks that differ": (
        {"failures": [NODE | {"tempo": {"calendar": {"period": "1 d", "factors": [0.5, 1.5]}}}]},
        ["nodes alike and steady rates, but those of node are not"],
    ),
    "nodes that differ": (
        {"failures": [NODE | {"frailty": {"shape": 1.0}}]},
        ["nodes alike and steady rates, but those of node are not"],
    ),
    "faults that stay": (
        {"failures": [NODE | {"relapse": {"after": "1 h", "probability": 0.2}}]},
        ["independent failures, but repairs leave faults behind (node)"],
    ),
    "racks": (
        {
            "cluster": {**small.SMALL["cluster"], "rack": {"nodes": 4}},
            "failures": [NODE | {"part": "rack", "rate": "1 per 1000 rack-day"}],
        },
        ["failures of single nodes, but incidents take several"],
    ),
    "incidents": (
        {
            "cluster": {**small.SMALL["cluster"], "rack": {"nodes": 4}},
            "failures": [
                {"use": "incident", "name": "power", "part": "rack", "rate": "1 per 1000 rack-day", "repair": "0 s"}
            ],
        },
        ["failures of single nodes, but incidents take several"],
    ),
    "a part that slows": (
        {"failures": [NODE | {"effect": {"kind": "slow", "factor": 0.99}}]},
        [f"{STEPS_ON} node does not stop it"],
    ),
    "bugs": (
        {"failures": [{"use": "bug", "name": "bug", "rate": "1 per job-d", "fix": "1 h"}]},
        ["no bugs and no rollouts"],
    ),
    "failures that wait": (
        {"recovery": small.SMALL["recovery"] | {"exposed": False}, "failures": [NODE | {"defer": True}]},
        ["nothing fails in phases that failures cannot hit, but node waits for their end"],
    ),
    "stores that cannot be read": (
        {"failures": [BUG | {"store_out": "5 min"}]},
        ["stores can be read at any time, but bug takes them away for a while"],
    ),
    "few spares": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "spares": {"hot": 0},
            "cluster": {**small.SMALL["cluster"], "nodes": 14},
        },
        ["spares and repairs in their long run: 4.55 % of the time is starved of nodes"],
    ),
    "a queue": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "recovery": {"use": "full-restart", "initialize": "3 min"},
            "spares": {"hot": 1, "warm": {"nodes": 1, "delay": "1 h"}},
        },
        [AT_HAND],
    ),
    "a queue that waits for nodes": (
        {
            "failures": [NODE | {"repair": "4 h"}],
            "recovery": {"use": "full-restart", "initialize": "3 min"},
            "spares": {"hot": 0},
            "cluster": {**small.SMALL["cluster"], "nodes": 14},
        },
        ["spares and repairs in their long run: 4.55 % of the time is starved of nodes"],
    ),
    "a budget": (ladder({"budget": 3}), [CLIMBS]),
    "a backoff": (ladder({"keeps": "nothing", "backoff": {"first": "1 min", "most": "1 h"}}), [CLIMBS]),
    "two rungs": (ladder({}, {}), [CLIMBS]),
    "restarts in vain": (ladder({}, no_progress=1), [CLIMBS]),
    "one rung": (ladder({}), []),
    "evictions": (
        ladder({}, evict={"faults": ["process"], "nodes": 2, "test": "1 h"}),
        ["healthy nodes stay in their job, but those that are evicted need others"],
    ),
    "two stores": ({"checkpoint": {"tiers": [HOST, REMOTE]}}, SEVERAL_STORES),
    "copies that cannot be read": (
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.1}]}},
        ["every copy can be read"],
    ),
    "preemption": (
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "10 min"}]},
        [
            "stops that are announced cost what failures cost: nothing is saved before",
            "the time that a preempted job is away is left out",
        ],
    ),
    "a job that ends": ({"jobs": [JOB | {"work": {"time": "1 d"}}]}, ["the job never ends"]),
    "evaluations": (
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "10 s"}]}]},
        ["no periodic work"],
    ),
    "a job that comes later": ({"jobs": [JOB | {"arrival": "1 h"}]}, ["no job waits for another"]),
    "two jobs": (
        {"jobs": [{"name": name, "gpus": 56, "step_time": "10 s"} for name in ("one", "two")]},
        ["no job waits for another"],
    ),
    "shrinking": (shrinking(), []),
    "shrinking at random": (
        shrinking(initialize={"law": "exponential", "mean": "3 min"}),
        ["stalls and absences are as long as their means"],
    ),
    "shrinking by whole units": (
        shrinking() | {"spares": {"hot": 2, "unit": "node"}},
        ["nodes are replaced one by one, but jobs use whole units"],
    ),
    "shrinking with two stores": (
        shrinking() | {"checkpoint": {"tiers": [HOST, REMOTE]}},
        ["the remote store is the only one"],
    ),
}


@cases("name", CASES)
def test_what_a_scenario_breaks_is_said(name: str) -> None:
    """Exactly the lines of what it breaks, besides the long run that every formula is about."""
    changes, wanted = CASES[name]
    failures = [
        {key: value for key, value in row.items() if value is not None} for row in changes.get("failures", [NODE])
    ]
    prepared = small.prepare(**{**changes, "failures": failures})
    assert list(sim.closed_form(prepared).assumptions) == [LONG_RUN, *wanted]


FULL = {"cluster": {**small.SMALL["cluster"], "nodes": 14}, "spares": {"hot": 0}}
RACKS = {**small.SMALL["cluster"], "rack": {"nodes": 4}}
TIERS = {"use": "tiers", "tiers": [{"name": "reset", "time": "1 h", "escalates": 0.5}, {"name": "swap", "time": "1 d"}]}
LONG = {"horizon": "200 d"}

BEYOND: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a repair that is as long as the horizon": (
        {"failures": [NODE | {"repair": "30 d"}], "horizon": "60 d"},
        {"horizon": "30000 d"},
        "repairs take 30 d on average, and the horizon is 60 d",
    ),
    "tiers of repair, and no spare": (
        FULL | LONG | {"failures": [NODE | {"repair": None}], "repair": TIERS},
        {"cluster": small.SMALL["cluster"] | {"nodes": 24}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "tiers of repair, and nodes that nobody gets": (
        LONG | {"cluster": small.SMALL["cluster"] | {"nodes": 24}, "spares": {"hot": 0, "idle": "withhold"},
                "failures": [NODE | {"repair": None}], "repair": TIERS},
        {"spares": {"hot": 0, "idle": "serve"}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "spares that the queue never takes": (
        LONG | {"recovery": {"use": "full-restart", "delay": "1 min", "initialize": "3 min"},
                "spares": {"cold": {"nodes": 2, "delay": "1 h"}}, "failures": [NODE | {"repair": "3 d"}]},
        {"spares": {"hot": 2}},
        "a job needs 14 of 14 nodes, and more than the other 0 are in repair",
    ),
    "whole units, and no spare": (
        LONG | {"cluster": RACKS, "spares": {"hot": 0, "unit": "node"}, "failures": [NODE | {"repair": "3 d"}],
                "jobs": [JOB | {"gpus": 128}]},
        {"failures": [NODE | {"repair": "10 min"}]},
        "a job needs 16 of 16 nodes, and more than the other 0 are in repair",
    ),
    "a rack that is out with any of its nodes": (
        LONG | {"cluster": RACKS, "spares": {"hot": 4, "unit": "rack"}, "failures": [NODE | {"repair": "3 d"}],
                "jobs": [JOB | {"gpus": 96}]},
        {"cluster": RACKS | {"nodes": 40}},
        "a job needs 3 of 4 units of 4 nodes, and more than the other 1 are in repair",
    ),
    "jobs that take turns": (
        {"jobs": [JOB | {"name": name, "work": {"time": "1 d"}} for name in ("one", "two")]},
        {"jobs": [JOB | {"name": name, "gpus": 48} for name in ("one", "two")]},
        "jobs wait for one another",
    ),
    "a rack more than there are spares": (
        {"cluster": RACKS, "failures": [NODE | {"part": "rack", "rate": "20 per 1000 rack-day", "repair": "1 d"}]},
        {"cluster": RACKS | {"nodes": 24}},
        "node takes 4 nodes at once, of which the other 2 replace no more",
    ),
    "a rack more than there are nodes that serve": (
        {"cluster": RACKS | {"nodes": 24}, "spares": {"hot": 2, "idle": "withhold"},
         "failures": [NODE | {"part": "rack", "rate": "20 per 1000 rack-day", "repair": "1 d"}]},
        {"spares": {"hot": 10}},
        "node takes 4 nodes at once, of which the other 2 replace no more",
    ),
    "a node that is slow for long": (
        {"failures": [NODE | {"effect": {"kind": "slow", "factor": 0.5}, "detection": "6 h"}]},
        {"failures": [NODE | {"effect": {"kind": "slow", "factor": 0.5}, "detection": "1 min"}]},
        "what node costs until it is noticed takes",
    ),
    "results that are wrong for long": (
        {"failures": [NODE | {"effect": "corrupt", "detection": "2 h"}]},
        {"failures": [NODE | {"effect": "corrupt", "detection": "1 min"}]},
        "what node costs until it is noticed takes",
    ),
    "stores that cannot be read for long": (
        {"failures": [BUG | {"store_out": "1 h"}]},
        {"failures": [BUG | {"store_out": "10 min"}]},
        "waiting for stores that bug took away takes 4 % of the time",
    ),
    "preemption": (
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "6 h"}]},
        {"failures": [{"use": "preemption", "name": "others", "rate": "1 per job-d", "away": "10 min"}]},
        "being away after others takes 20 % of the time",
    ),
    "evaluations": (
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "3 min"}]}]},
        {"jobs": [JOB | {"periodic": [{"name": "evaluation", "every": "1 h", "time": "20 s"}]}]},
        "periodic work takes",
    ),
    "copies that can hardly be read": (
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.5}]}, "failures": [BUG | {"rate": "2 per job-d"}]},
        {"checkpoint": {"tiers": [REMOTE | {"corrupt": 0.01}]}},
        "going back behind checkpoints that cannot be read takes",
    ),
    "a start that takes most of the job": (
        {"recovery": small.SMALL["recovery"] | {"initialize": "3 h"}},
        {"horizon": "60 d"},
        "the first start takes",
    ),
    "a budget that is not made new": (
        ladder({"budget": 1}, {"launch": "3 h"}, resets_on_progress=False) | LONG | {"failures": [BUG]},
        ladder({"budget": 1}, {"launch": "3 h"}),
        "recovery after the budget of the first rung is spent takes",
    ),
    "a human after every failed restart": (
        ladder({}, no_progress=1, exhausted="1 d") | {"failures": [BUG | {"rate": "20 per job-d"}]},
        {"failures": [BUG | {"rate": "1 per job-d"}]},
        "waiting for a human after restarts without progress takes",
    ),
}  # fmt: skip


def found_in(changes: dict[str, Any]) -> sim.ClosedForm:
    """Return the closed form of the small scenario with keys replaced."""
    return sim.closed_form(small.prepare(**without_nothing(changes)))


def without_nothing(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the changes with sources as they can be read."""
    rows = changes.get("failures", [NODE])
    return {**changes, "failures": [{key: value for key, value in row.items() if value is not None} for row in rows]}


@cases("name", BEYOND)
def test_where_it_does_not_apply(name: str) -> None:
    """One thing that the form can estimate and leaves out: no number but the reason; with little of it, a number."""
    changes, mended, reason = BEYOND[name]
    found = found_in(changes)
    assert (found.ettr, found.shares, found.assumptions, found.waste) == (None, {}, (), None)
    assert sim.job_shares(small.prepare(**without_nothing(changes))) is None
    assert len(found.reasons) == 1
    assert reason in found.reasons[0]
    found = found_in(changes | mended)
    assert found.reasons == ()
    assert found.ettr is not None


SHIPPED: dict[str, tuple[str, list[str], list[str]]] = {
    "a log": ("replay", [], ["constant failure rates, but a log is replayed: its mean rate is used", AT_HAND]),
    "a log of a job that shrinks": (
        "replay",
        [
            "jobs.0.parallelism={data: 56, tensor: 8}",
            "recovery={use: shrink-rejoin, reconfigure: 30 s, initialize: 3 min}",
        ],
        ["constant failure rates, but a log is replayed: its mean rate is used", AT_HAND],
    ),
    "leaves that take several nodes": (
        "leaf-single-homed",
        [],
        ["failures of single nodes, but incidents take several"],
    ),
    "leaves that take bandwidth": ("leaf-dual-homed", [], [f"{STEPS_ON} leaf takes bandwidth from it"]),
}


@cases("name", SHIPPED)
def test_what_a_shipped_scenario_breaks_is_said(name: str) -> None:
    """The same of logs, which are files, and of fabrics, where the cables decide what a switch takes."""
    file, changes, wanted = SHIPPED[name]
    found = sim.closed_form(sim.examine(sim.load(sim.find(file), changes)))
    assert list(found.assumptions) == [LONG_RUN, *wanted]
