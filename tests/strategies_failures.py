"""Hypothesis strategies: failure sources of every kind, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from sim.cluster import FABRIC_PARTS
from tests.strategies_laws import chances, effects, laws, maybe, moments, seconds, tempos, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.strategies_laws import Draw


WITHIN_A_NODE = ("node", "gpu", "nic")
SHARED = ("rack", "pdu", "cooling", "pod", "scale_up", "switch_tray")
PARTS = (*WITHIN_A_NODE, *SHARED, *FABRIC_PARTS)
MOST_AT_ONCE = 16
"""Units that one window of maintenance takes: there are hundreds of cables."""
MEMORYLESS = ("exponential",)
RESCALED = ("exponential", "weibull")
"""Laws that a hazard ratio merely stretches."""


@dataclass(frozen=True)
class Setting:
    """What the sources of a scenario have to fit to.

    Parameters
    ----------
    units
        Units of each part that there is, the whole cluster among them.
    behind
        Nodes that one failed unit takes alone, of the parts that take any.
    horizon
        Time that is simulated [s].
    memoryless
        Whether lives on the wall clock must not age.
    stationary
        Whether the simulation begins as after a long time.
    tiers
        Names of the tiers of repair, if there are any.
    """

    units: Mapping[str, int]
    behind: Mapping[str, int]
    horizon: float
    memoryless: bool = False
    stationary: bool = False
    tiers: tuple[str, ...] = ()

    def stops(self, part: str) -> bool:
        """Return whether one failed unit takes nodes with it; if not, it takes bandwidth from the jobs."""
        return part in self.behind

    def of_node(self, part: str) -> bool:
        """Return whether each unit of a part belongs to one node, which is repaired with it."""
        return part in WITHIN_A_NODE and self.stops(part)

    def some(self, draw: Draw, *, of_nodes: bool = True, stopping: bool = False) -> str:
        """Return a part; one of the fabric as often as any other."""
        kinds = (*((WITHIN_A_NODE,) if of_nodes else ()), SHARED, FABRIC_PARTS, FABRIC_PARTS)
        found = [[part for part in kind if part in (self.behind if stopping else self.units)] for kind in kinds]
        return str(draw(st.sampled_from(draw(st.sampled_from([parts for parts in found if parts])))))


@st.composite
def sources(draw: Draw, setting: Setting, count: int) -> list[dict[str, Any]]:
    """Return `count` sources."""
    kinds = ["component", "component", "component", "job", "bug", "maintenance", "rollout"]
    kinds += [] if setting.stationary else ["incident", "incident", "defect"]
    found: list[dict[str, Any]] = []
    for number in range(count):
        source = {"use": draw(st.sampled_from(kinds)), "name": f"cause-{number}"}
        source |= _DETAILS[source["use"]](draw, setting)
        if source["use"] not in ("maintenance", "rollout"):
            source["planned"] = draw(st.booleans())
            if maybe(draw, 4):
                source["detection"] = draw(times(60, 600))
        found.append(source)
    for source in found:
        if source["use"] == "rollout":
            _change_hazards(draw, source, found)
    return found


# ---------------------------------------------------------------------------------------- what strikes nodes


def _component(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return parts that fail one by one."""
    part = setting.some(draw)
    own = setting.of_node(part)
    source: dict[str, Any] = {"part": part, "renews": draw(st.sampled_from(("at_failure", "at_return", "never")))}
    source["clock"] = draw(st.sampled_from(("wall", "in_service", "busy") if own else ("wall",)))
    _draw_habits(draw, setting, source, of_nodes=own, apart=own)
    differ = maybe(draw, 3) and not (setting.stationary and source["renews"] == "at_return")
    kinds = RESCALED if setting.stationary and differ else ()
    _draw_life(draw, setting, source, setting.units[part] * _between(draw, setting), kinds)
    if differ:
        _draw_variety(draw, setting, source, kinds)
    return source


def _incident(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return incidents of a domain."""
    part = "cluster" if maybe(draw, 4) else setting.some(draw, of_nodes=False, stopping=True)
    members = setting.units["node"] if part == "cluster" else setting.behind[part]
    source: dict[str, Any] = {"part": part, "clock": "wall"}
    spread = maybe(draw, 3)
    if spread:
        source["spread"] = draw(times(60, 2_000))
    source["repaired"] = "nodes" if spread else draw(st.sampled_from(("nodes", "part")))
    if draw(st.booleans()):
        source["size"] = draw(_sizes(members))
    apart = source["repaired"] == "nodes"
    _draw_habits(draw, setting, source, of_nodes=False, apart=apart)
    _draw_life(draw, setting, source, setting.units[part] * _between(draw, setting))
    return source


@st.composite
def _sizes(draw: Draw, members: int) -> dict[str, Any]:
    """Return laws of the number of nodes that an incident takes in a domain of `members`."""
    kind = draw(st.sampled_from(("nodes", "mean", "share", "values")))
    least = {} if maybe(draw, 2) else {"least": draw(st.integers(1, members))}
    if kind == "nodes":
        return {"nodes": draw(st.integers(1, members + 2))}
    if kind == "mean":
        return {"mean": least.get("least", 1) + draw(st.sampled_from((0.0, 0.5, 3.0))), **least}
    if kind == "share":
        return {"share": draw(st.sampled_from((0.01, 0.4, 1.0))), **least}
    values = draw(st.lists(st.integers(1, members + 2), min_size=1, max_size=3))
    weights = [draw(st.sampled_from((0.0, 1.0, 2.5))) for _ in values]
    return {"values": values, **({"weights": weights} if any(weights) else {})}


def _defect(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return hidden faults of some nodes."""
    source: dict[str, Any] = {"clock": draw(st.sampled_from(("wall", "busy"))), "exact": draw(st.booleans())}
    source["share"] = draw(st.sampled_from((0.0, 0.2, 1.0)))
    if draw(st.booleans()):
        source["onset"] = f"{86_400 * draw(st.sampled_from((0.5, 3.0))) / setting.horizon!r} per node-day"
    _draw_habits(draw, setting, source, of_nodes=True, apart=True, relapses=False, tempo=False)
    _draw_life(draw, setting, source, setting.horizon / draw(st.sampled_from((0.5, 3.0, 10.0))))
    return source


def _between(draw: Draw, setting: Setting) -> float:
    """Return the mean time between the failures of a source [s]."""
    return setting.horizon / float(draw(st.sampled_from((2, 10, 40))))


def _draw_habits(
    draw: Draw,
    setting: Setting,
    source: dict[str, Any],
    *,
    of_nodes: bool,
    apart: bool,
    relapses: bool = True,
    tempo: bool = True,
) -> None:
    """Draw what every cause has that strikes nodes; `apart` says that each node is repaired by itself."""
    source["interrupts"] = draw(st.sampled_from((1.0, 1.0, 0.6)))
    source["defer"] = maybe(draw, 4)
    if maybe(draw, 3):
        goes_on = setting.stops(source.get("part", "node")) or source.get("part") == "cluster"
        source["effect"] = draw(effects(setting.horizon)) if goes_on else "hang"
    by_tiers = bool(setting.tiers)
    if maybe(draw, 3) or (by_tiers and (setting.stationary or not apart)):
        source["repair"] = draw(times(100, 5_000))
        by_tiers = False
    if by_tiers and maybe(draw, 3):
        source["tier"] = draw(st.sampled_from(setting.tiers))
    if relapses and apart and not setting.stationary and maybe(draw, 4):
        source["relapse"] = {"after": draw(laws(draw(st.sampled_from((100.0, setting.horizon / 20)))))}
        if not by_tiers:
            source["relapse"]["probability"] = draw(st.sampled_from((0.0, 0.3, 0.9)))
    if tempo and source["clock"] == "wall" and not setting.stationary and maybe(draw, 4):
        source["tempo"] = draw(tempos(setting.horizon))


def _draw_life(draw: Draw, setting: Setting, source: dict[str, Any], life: float, kinds: Sequence[str] = ()) -> None:
    """Draw the law of a life of mean `life` [s], and the hazard of idle nodes where that is allowed."""
    on_wall = source["clock"] == "wall"
    bound = on_wall and setting.memoryless and not source["defer"]
    if draw(st.booleans()):
        source["rate"] = f"{86_400 / life!r} per {source.get('part', 'node')}-day"
        memoryless = True
    else:
        source["law"] = draw(laws(life, MEMORYLESS if bound else kinds))
        memoryless = source["law"]["law"] == "exponential"
    if memoryless or not on_wall:
        source["idle_hazard"] = draw(st.sampled_from((1.0, 0.3, 0.0)))
    if maybe(draw, 8):
        source["scale"] = draw(st.sampled_from((0.5, 2.0)))


def _draw_variety(draw: Draw, setting: Setting, source: dict[str, Any], kinds: Sequence[str]) -> None:
    """Let units differ."""
    ages = source["clock"] != "wall" or (not setting.memoryless and source.get("idle_hazard", 1.0) == 1.0)
    if maybe(draw, 2):
        source["frailty"] = {
            "shape": draw(st.sampled_from((0.3, 1.0, 5.0))),
            "of": draw(st.sampled_from(("node", "part"))),
            "shared": draw(st.sampled_from(("nodes", "others"))),
        }
    if maybe(draw, 2):
        batch: dict[str, Any] = {"share": draw(st.sampled_from((0.0, 0.3, 1.0)))}
        if draw(st.booleans()):
            batch["ratio"] = draw(st.sampled_from((0.2, 1.0, 5.0)))
        else:
            batch["law"] = draw(laws(setting.horizon, kinds if ages else MEMORYLESS))
        source["batches"] = [batch]
    if maybe(draw, 2):
        ratios = draw(st.lists(st.sampled_from((0.5, 1.0, 3.0)), min_size=1, max_size=3))
        source["covariates"] = [{"name": "air", "ratios": ratios, "stride": draw(st.integers(1, 3))}]


# ------------------------------------------------------------------------------------------- everything else


def _job(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return failures of jobs as a whole."""
    return {"law": draw(laws(_between(draw, setting))), "effect": draw(st.sampled_from(("crash", "hang")))}


def _bug(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return bugs that strike again until they are mended."""
    life = setting.horizon / draw(st.sampled_from((1, 5)))
    return {"law": draw(laws(life)), "fix": draw(times(300, setting.horizon / 10))}


def _maintenance(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return windows of maintenance, one after another."""
    part = "cluster" if maybe(draw, 8) else setting.some(draw)
    units = setting.units[part]
    windows = []
    start = draw(st.integers(0, int(setting.horizon / 2)))
    for _ in range(draw(st.integers(1, 3))):
        length = draw(st.integers(1, int(setting.horizon / 8)))
        first = draw(st.integers(0, units - 1))
        count = draw(st.integers(1, min(units - first, MOST_AT_ONCE)))
        windows.append({"start": f"{start + 0.375} s", "duration": f"{length} s", "first": first, "units": count})
        start += length + draw(st.integers(0, int(setting.horizon / 8)))
    return {"part": part, "windows": windows, "saves": draw(st.booleans())}


def _rollout(draw: Draw, setting: Setting) -> dict[str, Any]:
    """Return a change that is brought to the nodes; whose hazard it changes is drawn later."""
    nodes = setting.units["node"]
    return {
        "start": draw(moments(10, setting.horizon / 2)),
        "nodes_per_day": nodes * 86_400 / setting.horizon * draw(st.sampled_from((0.7, 3.0, 100.0))),
        "batch": draw(st.integers(1, max(nodes // 3, 1))),
        "duration": draw(seconds(1, setting.horizon / 20)),
        "mode": draw(st.sampled_from(("drain", "at_interruption"))),
    }


def _change_hazards(draw: Draw, source: dict[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Let a rollout change the hazard of causes that strike single nodes at a constant rate, and watch a few first."""
    causes = [
        other["name"]
        for other in found
        if other["use"] in ("component", "defect")
        and other.get("part", "node") in WITHIN_A_NODE
        and other.get("renews") != "never"
        and ("rate" in other or other["law"]["law"] == "exponential")
        and all("law" not in batch for batch in other.get("batches", ()))
    ]
    if not causes or not draw(st.booleans()):
        return
    source["hazard"] = {draw(st.sampled_from(causes)): draw(chances(0.3, 4.0))}
    if draw(st.booleans()):
        source["canary"] = {
            "nodes": draw(st.integers(1, 4)),
            "soak": draw(seconds(1, 5_000)),
            "tolerates": draw(st.integers(0, 2)),
        }


_DETAILS = {
    "component": _component,
    "incident": _incident,
    "defect": _defect,
    "job": _job,
    "bug": _bug,
    "maintenance": _maintenance,
    "rollout": _rollout,
}
