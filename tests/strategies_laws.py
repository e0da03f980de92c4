"""Hypothesis strategies for times and laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Draw", "chances", "laws", "maybe", "moments", "per_day", "seconds", "times"]

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
