"""What a graph file says, understood: which tier and number each vertex has, and what each edge is."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sim import units
from sim.topology.formats import Description, Link, Name, nearest, quoted, refuse
from sim.topology.model import VERTEX_PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Join", "Understood", "all_or_none", "understand"]

MOST_CABLES = 65536
TIERED = "only tiered Clos networks can be imported"
_T = TypeVar("_T")


class Join(NamedTuple):
    """An edge as understood: its vertices, its cables, their summed bandwidth [B/s] and their rail, if given."""

    one: Name
    other: Name
    cables: int
    bandwidth: float | None
    rail: int | None

    @property
    def title(self) -> str:
        """What messages call this edge."""
        return f"edge {self.one!r} - {self.other!r}"


class Understood(NamedTuple):
    """Vertices in the order of their numbers, the tier of each (0 for hosts), edges, and pods as given."""

    names: tuple[Name, ...]
    tiers: dict[Name, int]
    joins: list[Join]
    pods: Mapping[Name, object]


def understand(path: str, description: Description) -> Understood:
    """Check what a file says and give each vertex its tier and number.

    Raises
    ------
    RuleError
        In one line that names the file and the vertex or edge.
    """
    joins = [_join(path, link) for link in description.links]
    if description.directed:
        joins = _without_way_back(path, joins)
    tiers = _tiers(path, description, joins)
    for join in joins:
        _check_tiers(path, join, tiers)
    pods = {name: _pod(path, name, said) for name, said in description.vertices.items() if tiers[name] == 0}
    return Understood(_numbered(path, description, tiers), tiers, joins, pods)


def all_or_none(path: str, what: str, given: Mapping[Name, _T | None]) -> dict[Name, _T]:
    """Return what vertices say, empty if none does; refuse what some say and others do not."""
    said = {name: value for name, value in given.items() if value is not None}
    if said and len(said) < len(given):
        name = next(name for name in given if name not in said)
        refuse(path, f"vertex {name!r} has no {what}, but vertex {next(iter(said))!r} has one: give it to all or none")
    return said


def _join(path: str, link: Link) -> Join:
    """Return an edge with its values checked."""
    said, title = link.attributes, link.title
    if link.source == link.target:
        refuse(path, f"{title}: joins a vertex to itself")
    cables = _whole(path, title, said, "cables")
    if cables is not None and not 1 <= cables <= MOST_CABLES:
        refuse(path, f"{title}: cables = {quoted(cables)} must be from 1 to {MOST_CABLES}")
    rail = _whole(path, title, said, "rail")
    return Join(link.source, link.target, 1 if cables is None else cables, _bandwidth(path, link), rail)


def _bandwidth(path: str, link: Link) -> float | None:
    """Return the bandwidth of an edge, None if it is not given [B/s]."""
    value = link.attributes.get("bandwidth")
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        bandwidth = float(value) if is_number else units.parse(value, units.BANDWIDTH)
    except (ValueError, OverflowError) as error:
        refuse(path, f"{link.title}: bandwidth = {quoted(value)}: {error}")
    if not (math.isfinite(bandwidth) and bandwidth > 0):
        refuse(path, f"{link.title}: bandwidth = {quoted(value)} must be a positive number")
    return bandwidth


def _whole(path: str, title: str, said: dict[str, Any], name: str) -> int | None:
    """Return a whole number among attributes, None if it is not there."""
    value = said.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        refuse(path, f"{title}: {name} = {quoted(value)} must be a whole number")
    return int(value)


def _pod(path: str, name: Name, said: dict[str, Any]) -> str | int | float | None:
    """Return what a host says about its pod."""
    pod = said.get("pod")
    if pod is not None and not isinstance(pod, str | int | float):
        refuse(path, f"vertex {name!r}: pod = {quoted(pod)} must be a number or text")
    return pod


def _without_way_back(path: str, joins: list[Join]) -> list[Join]:
    """Return the edges of a directed graph with one entry for each cable whose two directions are both given."""
    ways: dict[tuple[Name, Name], list[Join]] = {}
    for join in joins:
        ways.setdefault((join.one, join.other), []).append(join)
    kept: dict[tuple[Name, Name], list[Join]] = {}
    for (one, other), there in ways.items():
        back = kept.get((other, one))
        if back is None:
            kept[one, other] = there
        elif Counter(join[2:] for join in there) != Counter(join[2:] for join in back):
            refuse(path, f"{there[0].title}: differs from {back[0].title}, the other direction of the same cables")
    return [join for some in kept.values() for join in some]


def _tiers(path: str, description: Description, joins: list[Join]) -> dict[Name, int]:
    """Return the tier of each vertex; one that does not say it has its distance from the nearest host."""
    said = {name: _part(path, name, said.get("part")) for name, said in description.vertices.items()}
    if 0 not in said.values():
        refuse(path, "has no host: hosts are the vertices with part = node")
    neighbours: dict[Name, list[Name]] = {name: [] for name in said}
    for join in joins:
        neighbours[join.one].append(join.other)
        neighbours[join.other].append(join.one)
    for name, near in neighbours.items():
        if not near:
            refuse(path, f"{'host' if said[name] == 0 else 'vertex'} {name!r} has no cable")
    front = {name for name, tier in said.items() if tier == 0}
    distance: dict[Name, int] = {}
    away = 0
    while front:
        distance.update(dict.fromkeys(front, away))
        away += 1
        front = {near for name in front for near in neighbours[name] if near not in distance}
    for name, tier in said.items():
        if tier is None and distance.get(name, len(VERTEX_PARTS)) >= len(VERTEX_PARTS):
            how = f"is {distance[name]} cables away from the nearest host" if name in distance else "reaches no host"
            refuse(path, f"vertex {name!r} {how}: {TIERED}, with up to three tiers of switches")
    return {name: distance[name] if tier is None else tier for name, tier in said.items()}


def _part(path: str, name: Name, part: object) -> int | None:
    """Return the tier of a part, None if it is not given."""
    if part is None:
        return None
    if not isinstance(part, str) or part not in VERTEX_PARTS:
        offer = nearest(part, VERTEX_PARTS) or f"; choose from {', '.join(VERTEX_PARTS)}"
        refuse(path, f"vertex {name!r}: unknown part {quoted(part)}{offer}")
    return VERTEX_PARTS.index(part)


def _check_tiers(path: str, join: Join, tiers: dict[Name, int]) -> None:
    """Refuse an edge that does not go from one tier to the next."""
    low, high = sorted((tiers[join.one], tiers[join.other]))
    if high == 0:
        refuse(path, f"{join.title}: joins two hosts, and hosts carry no traffic of others: {TIERED}")
    if high == low:
        refuse(path, f"{join.title}: joins two switches of the same tier ({VERTEX_PARTS[low]}): {TIERED}")
    if high > low + 1:
        refuse(path, f"{join.title}: skips a tier, from {VERTEX_PARTS[low]} to {VERTEX_PARTS[high]}: {TIERED}")


def _numbered(path: str, description: Description, tiers: dict[Name, int]) -> tuple[Name, ...]:
    """Return the vertices in the order of their numbers: by tier, then by index, else in the order of the file."""
    names: list[Name] = []
    for tier, part in enumerate(VERTEX_PARTS):
        here = [name for name, of in tiers.items() if of == tier]
        said = {name: _whole(path, f"vertex {name!r}", description.vertices[name], "index") for name in here}
        taken: dict[int, Name] = {}
        for name, index in all_or_none(path, "index", said).items():
            if not 0 <= index < len(here) or index in taken:
                rule = f"must be from 0 to {len(here) - 1}, each once among the vertices of part {part}"
                refuse(path, f"vertex {name!r}: index = {quoted(index)} {rule}")
            taken[index] = name
        names += [taken[index] for index in range(len(here))] if taken else here
    return tuple(names)
