"""Hypothesis strategies: valid scenarios as plain data for ``sim.parse``, small and with far too many failures.

Rates are set from the number of failures that they should cause, so that failures come in every phase of every
recovery. Times are odd numbers of milliseconds, so that coincidences are rare: ties have tests of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["laws", "scenarios", "seconds"]

Draw = Any
RECOVERIES = ("full-restart", "hot-spare", "shrink-rejoin")
WITHIN_A_NODE = ("node", "gpu", "nic")
PLAIN_LAWS = ("exponential", "weibull", "lognormal", "gamma", "fixed", "empirical")
PARTS = (*WITHIN_A_NODE, "leaf", "rack", "power", "pod")


def seconds(low: float, high: float) -> st.SearchStrategy[str]:
    """Return times between `low` and `high` [s] as text."""
    return st.integers(int(low * 1e3), int(high * 1e3)).map(lambda value: f"{value / 1e3!r} s")


def per_day(mean: float) -> str:
    """Return the rate of events that are `mean` [s] apart as text."""
    return f"{86_400 / mean!r} per day"


@st.composite
def laws(draw: Draw, mean: float, kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Return laws with about this mean [s]."""
    kind = draw(st.sampled_from(kinds or (*PLAIN_LAWS, "piecewise", "mixture")))
    text = draw(seconds(0.7 * mean, 1.3 * mean))
    parameters: dict[str, Callable[[], dict[str, Any]]] = {
        "exponential": lambda: {"mean": text},
        "weibull": lambda: {"mean": text, "shape": draw(st.sampled_from((0.6, 1.0, 2.5)))},
        "lognormal": lambda: {"mean": text, "sigma": draw(st.sampled_from((0.3, 1.2)))},
        "gamma": lambda: {"mean": text, "shape": draw(st.sampled_from((0.7, 1.0, 3.0)))},
        "fixed": lambda: {"value": text},
        "empirical": lambda: {"values": draw(st.lists(seconds(0.1 * mean, 2 * mean), min_size=1, max_size=4))},
        "uniform": lambda: {"low": "0 s", "high": text},
        "piecewise": lambda: {
            "hazards": [
                {
                    "until": draw(seconds(0.1 * mean, 0.5 * mean)),
                    "rate": draw(st.sampled_from((0, per_day(0.3 * mean)))),
                },
                {"rate": per_day(mean)},
            ]
        },
        "mixture": lambda: {
            "parts": [
                {"weight": 0.25, "law": draw(laws(0.3 * mean, PLAIN_LAWS))},
                {"weight": "75 %", "law": draw(laws(mean, (*PLAIN_LAWS, "piecewise")))},
            ]
        },
    }
    return {"law": kind, **parameters[kind]()}


def _times(*means: float) -> st.SearchStrategy[Any]:
    """Return fixed or random times with one of these means [s]; 0 is always among them."""
    kinds = ("exponential", "lognormal", "uniform", "fixed")
    return st.one_of(st.just("0 s"), *(laws(mean, kinds) for mean in means))


@st.composite
def _sources(draw: Draw, number: int, units: dict[str, int], horizon: float, *, memoryless: bool) -> dict[str, Any]:
    """Return one failure source with an expected number of failures; `memoryless` if wall clocks have to be."""
    events = draw(st.sampled_from((2, 10, 40)))
    source: dict[str, Any] = {"name": f"cause-{number}"}
    if draw(st.integers(0, 4)) == 0:
        source |= {"use": "job", "law": draw(laws(horizon / events))}
    else:
        source |= draw(_components(units, horizon / events, memoryless=memoryless))
    if draw(st.integers(0, 3)) == 0:
        source["detection"] = draw(_times(60, 600))
    return source | {"planned": draw(st.booleans())}


@st.composite
def _components(draw: Draw, units: dict[str, int], between: float, *, memoryless: bool) -> dict[str, Any]:
    """Return a source of parts of which one fails every `between` seconds [s]."""
    part = draw(st.sampled_from(PARTS))
    clock = draw(st.sampled_from(("wall", "in_service", "busy") if part in WITHIN_A_NODE else ("wall",)))
    life = units[part] * between
    source: dict[str, Any] = {
        "use": "component",
        "part": part,
        "clock": clock,
        "renews": draw(st.sampled_from(("at_failure", "at_return", "never"))),
        "interrupts": draw(st.sampled_from((1.0, 1.0, 0.6))),
    }
    is_memoryless = memoryless and clock == "wall"
    if draw(st.booleans()):
        is_memoryless = True
        source["rate"] = f"{86_400 / life!r} per {part}-day"
    else:
        source["law"] = draw(laws(life, ("exponential",) if is_memoryless else ()))
        is_memoryless = source["law"]["law"] == "exponential"
    if is_memoryless or clock != "wall":
        source["idle_hazard"] = draw(st.sampled_from((1.0, 0.3, 0.0)))
    if draw(st.integers(0, 2)) == 0:
        source["repair"] = draw(_times(100, 5_000))
    return source


@st.composite
def _jobs(draw: Draw, number: int, nodes: int, gpus: int, horizon: float, *, by_replica: bool) -> dict[str, Any]:
    """Return a job that fits on `nodes` nodes of `gpus` GPUs."""
    data = draw(st.integers(1, min(nodes, 5))) if by_replica else 1
    width = draw(st.integers(1, max(nodes // data, 1)))
    size = data * width * gpus
    job: dict[str, Any] = {"name": f"job-{number}", "gpus": size}
    if number:
        job["arrival"] = draw(seconds(0, 0.6 * horizon))
    if by_replica:
        job["parallelism"] = {"tensor": size // data, "data": data}
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
def _checkpoints(draw: Draw, jobs: Sequence[dict[str, Any]], *, can_fail: bool) -> dict[str, Any]:
    """Return periodic checkpoints whose interval every job can have."""
    tier: dict[str, Any] = {"restore": draw(st.one_of(st.just("0 s"), seconds(1, 300)))}
    if draw(st.booleans()):
        stall = draw(st.one_of(st.just("0 s"), seconds(1, 200)))
        tier |= {"mode": "blocking", "write": stall}
    else:
        stall = draw(st.one_of(st.just("0 s"), seconds(0.1, 20)))
        tier |= {"mode": "async", "stall": stall, "write": draw(st.one_of(st.just("0 s"), seconds(1, 2_000)))}
    intervals = [seconds(30, 3_000)]
    if all("step_time" in job for job in jobs):
        intervals.append(st.integers(1, 40).map(lambda count: f"every {count} steps"))
    if can_fail and stall != "0 s":
        intervals.append(st.sampled_from(("young", "daly", "optimal")))
    return {"tiers": [{**tier, "interval": draw(st.one_of(intervals))}]}


@st.composite
def _recoveries(draw: Draw, kind: str, spares: int, replicas: int) -> dict[str, Any]:
    """Return a recovery strategy of one kind."""
    recovery: dict[str, Any] = {"use": kind, "initialize": draw(_times(60, 900))}
    if kind == "full-restart":
        return recovery | {"delay": draw(st.one_of(st.just("0 s"), seconds(1, 600)))}
    pools = [["spare", "idle"], ["idle"], ["idle", "spare"]] + ([["spare"]] if spares else [])
    recovery["pools"] = draw(st.sampled_from(pools))
    if kind == "hot-spare":
        recovery |= {"reschedule": draw(_times(30, 300)), "exposed": draw(st.sampled_from((True, True, False)))}
        if draw(st.booleans()):
            recovery |= {
                "patience": draw(st.one_of(st.just("0 s"), seconds(10, 2_000))),
                "requeue_delay": draw(st.one_of(st.just("0 s"), seconds(1, 300))),
            }
        return recovery
    return recovery | {
        "reconfigure": draw(_times(20)),
        "catch_up": draw(_times(60)),
        "rejoin": draw(_times(20)),
        "min_replicas": draw(st.integers(1, replicas)),
    }


@st.composite
def scenarios(
    draw: Draw,
    *,
    most_jobs: int = 3,
    recoveries: Sequence[str] = RECOVERIES,
    fewest_sources: int = 0,
) -> dict[str, Any]:
    """Return valid scenarios with up to `most_jobs` jobs and at least `fewest_sources` failure sources."""
    horizon = draw(st.integers(5_000, 40_000)) + 0.125
    nodes = draw(st.integers(4, 40))
    gpus = draw(st.sampled_from((1, 2, 8)))
    spares = draw(st.integers(0, min(3, nodes - 1)))
    leaf, rack = draw(st.sampled_from((2, 4, 8))), draw(st.sampled_from((2, 4)))
    racks = -(-nodes // rack)
    units = {
        "node": nodes,
        "gpu": nodes * gpus,
        "nic": nodes * gpus,
        "leaf": -(-nodes // leaf) * gpus,
        "rack": racks,
        "power": -(-racks // 2),
        "pod": 1,
    }
    kind = draw(st.sampled_from(recoveries))
    jobs = [
        draw(_jobs(number, nodes - spares, gpus, horizon, by_replica=kind == "shrink-rejoin"))
        for number in range(draw(st.integers(1, most_jobs)))
    ]
    replicas = min(job.get("parallelism", {"data": 1})["data"] for job in jobs)
    recovery = draw(_recoveries(kind, spares, replicas))
    memoryless = not recovery.get("exposed", True)
    failures = [
        draw(_sources(number, units, horizon, memoryless=memoryless))
        for number in range(draw(st.integers(fewest_sources, 4)))
    ]
    data: dict[str, Any] = {
        "name": "drawn",
        "seed": draw(st.integers(0, 1_000)),
        "cluster": {
            "use": "fat-tree",
            "nodes": nodes,
            "gpus_per_node": gpus,
            "rails": gpus,
            "radix": 1024,
            "leaf": {"nodes": leaf},
            "rack": {"nodes": rack},
            "power": {"racks": 2},
        },
        "horizon": f"{horizon!r} s",
        "initial": draw(st.sampled_from(("new", "stationary"))),
        "jobs": jobs,
        "failures": failures,
        "detection": {"time": draw(_times(30, 600))},
        "checkpoint": draw(_checkpoints(jobs, can_fail=bool(failures))),
        "recovery": recovery,
        "spares": {"hot": spares},
        "repair": {"time": draw(_times(100, 1_000, 10_000))},
    }
    if draw(st.booleans()):
        data["warmup"] = draw(seconds(0, horizon / 3))
    if draw(st.booleans()):
        data["windows"] = draw(seconds(horizon / 9, horizon * 1.2))
    return data
