"""Hypothesis strategies: times, laws, what a fault does, and how a hazard changes in time, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Draw = Any
PLAIN_LAWS = ("exponential", "weibull", "lognormal", "gamma", "fixed", "empirical")


def seconds(low: float, high: float) -> st.SearchStrategy[str]:
    """Return times between `low` and `high` [s] as text."""
    return st.integers(int(low * 1e3), int(high * 1e3)).map(lambda value: f"{value / 1e3!r} s")


def moments(low: float, high: float) -> st.SearchStrategy[str]:
    """Return the same, or no time at all."""
    return st.one_of(st.just("0 s"), seconds(low, high))


def per_day(mean: float) -> str:
    """Return the rate of events that are `mean` [s] apart as text."""
    return f"{86_400 / mean!r} per day"


def maybe(draw: Draw, one_in: int) -> bool:
    """Return true once in so many draws; false is the simpler case."""
    return bool(draw(st.integers(0, one_in - 1)) == one_in - 1)


def chances(*inside: float) -> st.SearchStrategy[float]:
    """Return probabilities: the ends as often as what is between."""
    return st.sampled_from((1.0, 0.0, *inside))


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


def times(*means: float) -> st.SearchStrategy[Any]:
    """Return fixed or random times with one of these means [s]; 0 is always among them."""
    kinds = ("exponential", "lognormal", "uniform", "fixed")
    return st.one_of(st.just("0 s"), *(laws(mean, kinds) for mean in means))


@st.composite
def effects(draw: Draw, horizon: float) -> str | dict[str, Any]:
    """Return what a fault does."""
    kind = draw(st.sampled_from(("hang", "slow", "degrade", "corrupt")))
    if kind in ("hang", "corrupt"):
        return str(kind)
    heals = {"heals": draw(times(300, horizon / 5))} if draw(st.booleans()) else {}
    if kind == "slow":
        return {"kind": kind, "factor": draw(st.sampled_from((0.05, 0.5, 1.0))), **heals}
    return {"kind": kind, "bandwidth": draw(st.sampled_from((0.1, 0.5, 1.0))), **heals}


@st.composite
def tempos(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return hazards that change in time."""
    tempo: dict[str, Any] = {}
    kind = draw(st.sampled_from(("trend", "calendar", "swings", "all")))
    if kind in ("trend", "all"):
        exponent = draw(st.sampled_from((0.5, 1.0, 1.7)))
        tempo["trend"] = {
            "exponent": exponent,
            "reference": f"{horizon!r} s",
            "age": draw(moments(100, horizon)),
        }
    if kind in ("calendar", "all"):
        factors = [1.0, *draw(st.lists(st.sampled_from((0.0, 0.5, 2.0)), max_size=3))]
        tempo["calendar"] = {"period": draw(seconds(horizon / 9, horizon)), "factors": factors}
    if kind in ("swings", "all"):
        tempo["swings"] = {
            "every": draw(seconds(horizon / 20, horizon)),
            "cv": draw(st.sampled_from((0.5, 2.0))),
            "shared": draw(st.sampled_from(("cluster", "hall"))),
        }
    return tempo
