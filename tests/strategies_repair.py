"""Hypothesis strategies: repair, spares and detection, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.strategies_laws import chances, maybe, moments, seconds, times

if TYPE_CHECKING:
    from tests.strategies_laws import Draw


@st.composite
def detections(draw: Draw) -> dict[str, Any]:
    """Return detection times; what has none is never noticed."""
    found: dict[str, Any] = {"time": draw(times(30, 600))}
    for kind in ("hang", "slow", "degrade", "corrupt"):
        if draw(st.booleans()):
            found[kind] = draw(times(60, 3_000))
    return found


@st.composite
def repairs(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return a single time of repair, or tiers."""
    if draw(st.booleans()):
        return {"time": draw(times(100, 1_000, 10_000))}
    tests = {"time": draw(times(60, 1_000)), "finds": draw(chances(0.7))} if draw(st.booleans()) else None
    names = ["reset", "reboot", "manual"][: draw(st.integers(1, 3))]
    tiers = [draw(_tiers(name)) for name in names]
    tiers[-1]["escalates"] = 0.0
    if tests is not None and tests["finds"] == 1.0 and tiers[-1]["fixes"] == 0.0:
        tiers[-1]["fixes"] = 0.5
    found: dict[str, Any] = {"use": "tiers", "tiers": tiers}
    if tests is not None:
        found["qualification"] = tests
    if maybe(draw, 2):
        found["diagnosis"] = {"finds": draw(chances(0.7)), "blames_other": draw(chances(0.3))}
    if maybe(draw, 2):
        found["lemons"] = draw(st.lists(_lemons(horizon), min_size=1, max_size=2))
        found["lemons_go_to"] = draw(st.sampled_from(("retirement", *names)))
        if draw(st.booleans()):
            found["replacement"] = draw(times(1_000, horizon / 4))
    return found


@st.composite
def _tiers(draw: Draw, name: str) -> dict[str, Any]:
    """Return one tier."""
    tier: dict[str, Any] = {
        "name": name,
        "time": draw(times(50, 1_000)),
        "escalates": draw(chances(0.3)),
        "fixes": draw(chances(0.5)),
    }
    if draw(st.booleans()):
        tier["crews"] = draw(st.integers(1, 3))
    return tier


@st.composite
def _lemons(draw: Draw, horizon: float) -> dict[str, Any]:
    """Return one lemon policy."""
    if draw(st.booleans()):
        return {"use": "threshold", "failures": draw(st.integers(1, 4)), "window": draw(seconds(100, horizon))}
    costs, regains = draw(st.sampled_from((20.0, 60.0))), draw(st.sampled_from((0.0, 50.0)))
    return {"use": "score", "blame_costs": costs, "regains": regains}


@st.composite
def spares(draw: Draw, nodes: int, unit: int) -> dict[str, Any]:
    """Return spares in multiples of `unit` nodes, fewer than `nodes` together."""
    left = nodes // unit - 1
    hot = draw(st.integers(0, min(3, left)))
    found: dict[str, Any] = {"hot": hot * unit}
    left -= hot
    for name in ("warm", "cold"):
        if left > 0 and maybe(draw, 3):
            count = draw(st.integers(1, min(2, left)))
            left -= count
            found[name] = {
                "nodes": count * unit,
                "delay": draw(moments(1, 1_000)),
                "one_by_one": draw(st.booleans()),
                "refills": draw(st.booleans()),
            }
    return found
