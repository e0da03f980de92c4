"""Hypothesis strategies: scenarios as plain data for ``sim.parse``, small and with far too many failures.

Rates are set from the number of failures that they should cause, so that failures come in every phase of every
recovery. Times are odd numbers of milliseconds, so that coincidences are rare: ties have tests of their own.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from sim.cluster.placement import Layout
from sim.scenario.model import Parallelism
from tests.property.clusters import PACKS, Fleet, fleets
from tests.strategies_failures import PARTS, Setting, sources
from tests.strategies_laws import Draw, laws, maybe, moments, seconds, times
from tests.strategies_repair import detections, repairs, spares

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["laws", "odd_scenarios", "scenarios", "seconds"]

RECOVERIES = ("full-restart", "hot-spare", "shrink-rejoin", "standby")
POOLS = ("spare", "warm", "idle", "cold")
EXPOSURES = (True, False, "processes", "nodes")


@st.composite
def _jobs(draw: Draw, number: int, fleet: Fleet, nodes: int, horizon: float, *, by_replica: bool) -> dict[str, Any]:
    """Return a job that fits on `nodes` nodes."""
    wholes = nodes // fleet.whole
    data = draw(st.integers(1, min(wholes, 5))) if by_replica else 1
    width = draw(st.integers(1, max(wholes // data, 1)))
    size = data * width * fleet.whole * fleet.gpus
    job: dict[str, Any] = {"name": f"job-{number}", "gpus": size}
    # Not none of it: who takes bandwidth from jobs that need none is refused.
    job["communication"] = draw(st.sampled_from((0.1, 0.5, 1.0)))
    if number:
        job["arrival"] = draw(seconds(0, 0.6 * horizon))
    if by_replica and (fleet.whole > 1 or draw(st.booleans())):
        # Replicas of whole units, side by side.
        job["parallelism"] = {"tensor": size // data, "data": data}
    elif by_replica or maybe(draw, 3):
        job["parallelism"] = draw(_layouts(size))
    kinds = ["horizon", "horizon", "time"]
    if draw(st.booleans()):
        job["step_time"] = draw(seconds(0.7, 90))
        kinds += ["steps"]
        if draw(st.booleans()):
            job["batch"] = {"tokens": 4096, "sequence": 64, "on_loss": draw(st.sampled_from(("shrink", "keep")))}
            kinds += ["tokens"]
    kind = draw(st.sampled_from(kinds))
    share = draw(st.sampled_from((0.05, 0.3, 0.9)))
    if kind != "horizon":
        step = float(job.get("step_time", "1 s").split()[0])
        steps = max(int(share * horizon / step), 1)
        job["work"] = {
            "time": {"time": f"{share * horizon!r} s"},
            "steps": {"steps": steps},
            "tokens": {"tokens": 4096 * steps},
        }[kind]
        if draw(st.booleans()):
            job["deadline"] = draw(seconds(0.1 * horizon, horizon))
    return job


@st.composite
def _layouts(draw: Draw, gpus: int) -> dict[str, Any]:
    """Return layouts of any order: replicas may share hosts, and need not sit side by side."""
    left = gpus
    layout: dict[str, Any] = {}
    for kind in draw(st.permutations(("tensor", "pipeline", "context"))):
        layout[kind] = draw(st.sampled_from([size for size in (1, 1, 2, 3, 4) if left % size == 0]))
        left //= layout[kind]
    layout["data"] = left
    if draw(st.booleans()):
        layout["order"] = draw(st.permutations(("tensor", "context", "expert", "data", "pipeline")))
    return layout


def _replicas(job: dict[str, Any], gpus_per_node: int) -> int:
    """Return how many sets of replicas of a job can leave alone [-]."""
    shape = Parallelism.model_validate(job.get("parallelism", {"tensor": job["gpus"]}))
    return Layout(shape, gpus_per_node).failure_groups


@st.composite
def _checkpoints(draw: Draw, jobs: Sequence[dict[str, Any]], *, can_fail: bool) -> dict[str, Any]:
    """Return periodic checkpoints whose interval every job can have."""
    tier: dict[str, Any] = {"restore": draw(moments(1, 300))}
    if draw(st.booleans()):
        stall = draw(moments(1, 200))
        tier |= {"mode": "blocking", "write": stall}
    else:
        stall = draw(moments(0.1, 20))
        tier |= {"mode": "async", "stall": stall, "write": draw(moments(1, 2_000))}
    intervals = [seconds(30, 3_000)]
    if all("step_time" in job for job in jobs):
        intervals.append(st.integers(1, 40).map(lambda count: f"every {count} steps"))
    if can_fail and stall != "0 s":
        intervals.append(st.sampled_from(("young", "daly", "optimal")))
    return {"tiers": [{**tier, "interval": draw(st.one_of(intervals))}]}


@st.composite
def _recoveries(draw: Draw, kind: str, reserves: dict[str, Any], replicas: int) -> dict[str, Any]:
    """Return a recovery strategy of one kind."""
    recovery: dict[str, Any] = {"use": kind}
    if kind != "standby":
        recovery["initialize"] = draw(times(60, 900))
    if kind == "full-restart":
        return recovery | {"delay": draw(moments(1, 600))}
    if draw(st.booleans()):
        pools = draw(st.permutations(POOLS))[: draw(st.integers(1, 4))]
        if not any(name == "idle" or reserves.get("hot" if name == "spare" else name) for name in pools):
            pools = [*pools, "idle"]
        recovery["pools"] = pools
    if kind == "standby":
        recovery |= {"recovery": draw(times(60, 900)), "selection": draw(times(30, 300))}
        return recovery | {"exposed": draw(st.sampled_from(EXPOSURES))}
    if kind == "hot-spare":
        recovery |= {"reschedule": draw(times(30, 300)), "exposed": draw(st.sampled_from((True, *EXPOSURES)))}
        if draw(st.booleans()):
            recovery |= {"patience": draw(moments(10, 2_000)), "requeue_delay": draw(moments(1, 300))}
        return recovery
    return recovery | {
        "reconfigure": draw(times(20)),
        "catch_up": draw(times(60)),
        "rejoin": draw(times(20)),
        "min_replicas": draw(st.integers(1, replicas)),
    }


@st.composite
def scenarios(
    draw: Draw,
    *,
    most_jobs: int = 3,
    recoveries: Sequence[str] = RECOVERIES,
    fewest_sources: int = 0,
    is_odd: bool = False,
    alike: bool = False,
) -> dict[str, Any]:
    """Return scenarios with up to `most_jobs` jobs and at least `fewest_sources` failure sources.

    They are valid, unless `is_odd`: then what the parts of a scenario demand of one another is forgotten. With `alike`
    nodes are of one kind, used one by one or by the rack, and jobs are not packed.
    """
    horizon = draw(st.integers(5_000, 40_000)) + 0.125
    initial = draw(st.sampled_from(("new", "new", "stationary")))
    fleet = draw(fleets(new=initial == "new", alike=alike))
    reserves = draw(spares(fleet.room, fleet.whole))
    held = sum(standby["nodes"] for standby in (reserves.get("warm"), reserves.get("cold")) if standby)
    kind = draw(st.sampled_from(recoveries))
    jobs = [
        draw(_jobs(number, fleet, fleet.room - reserves["hot"] - held, horizon, by_replica=kind == "shrink-rejoin"))
        for number in range(draw(st.integers(1, most_jobs)))
    ]
    recovery = draw(_recoveries(kind, reserves, min(_replicas(job, fleet.gpus) for job in jobs)))
    repair = draw(repairs(horizon))
    setting = Setting(
        units=fleet.units,
        behind=fleet.behind,
        horizon=horizon,
        memoryless=recovery.get("exposed", True) in (False, "none", "processes"),
        stationary=initial == "stationary",
        tiers=tuple(tier["name"] for tier in repair.get("tiers", ())),
    )
    if is_odd:
        tiers = draw(st.sampled_from((setting.tiers, (), ("reset",))))
        setting = replace(setting, memoryless=draw(st.booleans()), stationary=draw(st.booleans()), tiers=tiers)
    failures = draw(sources(setting, draw(st.integers(fewest_sources, 4))))
    data: dict[str, Any] = {
        "name": "drawn",
        "seed": draw(st.integers(0, 1_000)),
        "cluster": fleet.cluster,
        "horizon": f"{horizon!r} s",
        "initial": initial,
        "jobs": jobs,
        "failures": failures,
        "detection": draw(detections()),
        "checkpoint": draw(_checkpoints(jobs, can_fail=any(_interrupts(source, setting) for source in failures))),
        "recovery": recovery,
        "spares": reserves,
        "repair": repair,
        "scheduler": {"pick": draw(st.sampled_from(PICKS if "lemons" in repair or is_odd else PICKS[:-1]))},
    }
    if fleet.unit is not None:
        data["spares"]["unit"] = fleet.unit
    elif not (fleet.by_domain or alike) and maybe(draw, 3):
        data["scheduler"] = {"pack": draw(st.sampled_from(PACKS))}
    if draw(st.booleans()):
        data["warmup"] = draw(seconds(0, horizon / 3))
    if draw(st.booleans()):
        data["windows"] = draw(seconds(horizon / 9, horizon * 1.2))
    return data


PICKS = ("lowest", "longest-idle", "random", "fewest-failures", "best-score")


def _interrupts(source: dict[str, Any], setting: Setting) -> bool:
    """Return whether a source gives a job a mean time to interrupt for sure."""
    if source["use"] == "component" and not setting.stops(source["part"]):
        return False  # it takes bandwidth
    return source["use"] in ("component", "job", "bug", "incident") and "effect" not in source


ODD = (None, True, "", "0 s", "-1 s", "3", "5 parsec", "nan s", "1e300 y", -1, 0, 1, 0.5, 1e308, [], {}, "none", "rack")
"""Values that hardly anything takes."""

OTHER_PARTS = (*PARTS, "cluster", "job")


@st.composite
def odd_scenarios(draw: Draw) -> dict[str, Any]:
    """Return scenarios whose parts need not fit together, or with values that do not belong where they are."""
    data = draw(scenarios(fewest_sources=1, is_odd=draw(st.booleans())))
    kind = draw(st.sampled_from(("as it is", "unit", "part", "value", "value", "key", "other's")))
    data = copy.deepcopy(data)
    if kind == "unit":
        data["spares"]["unit"] = draw(st.sampled_from(OTHER_PARTS))
    elif kind == "part":
        draw(st.sampled_from(data["failures"]))["part"] = draw(st.sampled_from(OTHER_PARTS))
    elif kind != "as it is":
        places = list(_places(data))
        holder, key = draw(st.sampled_from(places))
        if kind == "value":
            holder[key] = draw(st.sampled_from(ODD))
        elif kind == "key":
            del holder[key]
        else:
            giver, name = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(giver[name])
    return data


def _places(data: Any) -> Any:
    """Yield holder and key of every value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield data, key
        yield from itertools.chain(_places(value))
