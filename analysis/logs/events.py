"""From lines to events: outages, faults of parts, incidents, the history of every node, and whose fault an end was.

Fixed choices: rows of a node that touch are one outage; codes of one node within 5 min are one fault whose first code
names it; outages of one domain within 5 min are one incident; a job's end is blamed on what its nodes showed from 10
min before to 5 min after it (Kokolis et al., arXiv 2410.21680).
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ettrick.analysis.amounts import number_of
from ettrick.analysis.logs.kernel import SAME_CODE
from ettrick.analysis.logs.tables import XID_IN_TEXT, Exposure, NodeEvent, NoModelError, utc
from ettrick.sim.records import LogError
from ettrick.sim.units import DAY, MINUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.tables import LoggedAttempt, Rules, Tables
    from ettrick.sim.records import HostLists

CHAIN = 5 * MINUTE
"""Codes of one node that follow within this [s] are one fault."""

TOGETHER = 5 * MINUTE
"""Outages of one domain that begin within this [s] of the first are one incident."""

BEFORE, AFTER = 10 * MINUTE, 5 * MINUTE
"""The times before and after the end of a job in which its nodes are examined [s]."""

HEARD = 3600.0
"""The largest time between an outage and the code in the log of its node that its reason names [s]."""

GENERIC = ("unknown", "not_responding", "health_check", "reboot")
"""Causes that say how an outage was noticed; a code of the same node names a better one."""

OF_NODES = frozenset(("node-events", "outages", "slurmctld", "kubernetes", "nodes", "nvsentinel", "prometheus"))
"""Kinds of logs that would say if a node were out of service."""

TUPLE_GAPS = (0.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)


@dataclass
class History:
    """The history of every node while it was watched; moments in seconds since 1970.

    Parameters
    ----------
    nodes
        Names, in order of the inventory.
    racks
        Rack of each node, empty where none is known, shape (nodes,).
    gpus
        GPUs of each node [-], shape (nodes,).
    start, end
        The window [s].
    unit, enter, leave
        Stretches of service: node, from, to [s], shape (m,).
    outages
        Unplanned ones in order of their start, clipped to service. An open one has no end.
    planned
        Stretches of planned work of each node [s].
    faults
        What kernel logs say, in order; all of them, whether an outage followed or not.
    has_ends
        Whether ends of outages are known at all.
    """

    nodes: list[str]
    racks: list[str]
    gpus: NDArray[np.int64]
    start: float
    end: float
    unit: NDArray[np.int64]
    enter: NDArray[np.float64]
    leave: NDArray[np.float64]
    outages: list[NodeEvent]
    planned: dict[int, list[tuple[float, float]]]
    faults: list[NodeEvent]
    has_ends: bool
    basis: str

    @property
    def number(self) -> dict[str, int]:
        """Number of each node, by name."""
        return {name: at for at, name in enumerate(self.nodes)}

    @property
    def in_service(self) -> float:
        """Time that all nodes together were in service [node s]."""
        return float((self.leave - self.enter).sum())

    def until(self, event: NodeEvent) -> float:
        """Return the end of an outage, or of the window while it lasts [s]."""
        return self.end if math.isnan(event.t_end) else event.t_end


def build(
    tables: Tables, hosts: HostLists, nodes: int | None = None, window: tuple[float, float] | None = None,
    without: Sequence[tuple[float, float]] = (),
) -> History:  # fmt: skip
    """Return the history of every node, and put outages and faults in the place of lines in ``tables.events``.

    Parameters
    ----------
    nodes
        How many nodes there are, stated where there is no inventory.
    window
        Start and end of what was watched [s], stated; ``None`` to see it from the logs.
    without
        Stretches in which nothing was collected [s].

    Raises
    ------
    NoModelError
        If nothing says which nodes were watched, or no log names a node.
    LogError
        If the inventory and the logs have no node, or no moment, in common.
    """
    rows, faults, reports = _sorted_out(tables)
    has_ends = bool(rows) or not faults
    if not rows and not faults and not _are_watched(tables, window):
        raise NoModelError(_why_no_nodes(tables))
    merged = _outages(tables, rows) if has_ends else _of_faults(tables, faults)
    start, end = window or _window(tables, merged)
    exposure = _exposure(tables, hosts, nodes, start, end)
    _check_window(tables, window)
    exposure = _collected(exposure, without)
    history = _watched(exposure, start, end, has_ends=has_ends)
    _refuse_strangers(tables, merged, history.number)
    tables.findings += [_coverage(tables, hosts)] if history.basis == "inventory" else []
    planned = _clip_outages(tables, history, merged, exposure)
    _add_faults(history, faults)
    outages = history.outages if has_ends else ()  # else the faults stand for them
    tables.events = sorted([*outages, *planned, *history.faults, *reports], key=lambda event: event.t)
    tables.exposure, tables.findings = exposure, [*tables.findings, *_silences(tables, history)]
    return history


def _collected(exposure: list[Exposure], without: Sequence[tuple[float, float]]) -> list[Exposure]:
    """Return stretches of service without those in which nothing was collected."""
    for gap in without:
        exposure = [part for row in exposure for part in _cut(row, *gap)]
    if not exposure:
        raise NoModelError("no failure rate: --without leaves no time in which a node was watched")
    return exposure


def _sorted_out(tables: Tables) -> tuple[list[NodeEvent], list[NodeEvent], list[NodeEvent]]:
    """Return the events by what they say: nodes out of service, faults of nodes, and failures of jobs."""
    rows, faults, reports = (list[NodeEvent]() for _ in range(3))
    for event in tables.events:
        (rows if not event.is_fault else reports if event.part == "job" else faults).append(event)
    return rows, _faults(tables, faults), reports


def _add_faults(history: History, faults: list[NodeEvent]) -> None:
    """Put the faults into a history, in order; one that stands for an outage is there once."""
    if history.has_ends:
        _better_causes(history.outages, faults)
    else:
        rest = (event for event in faults if event.severity != "fatal")
        faults = sorted([*history.outages, *rest], key=lambda event: event.t)
    history.outages.sort(key=lambda event: (event.t, event.node))
    history.faults = faults


def _are_watched(tables: Tables, window: tuple[float, float] | None) -> bool:
    """Return whether a log would have said if a node had been out of service."""
    return any(source.kind in OF_NODES and (window or source.first < math.inf) for source in tables.sources)


def _of_faults(tables: Tables, faults: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Return the faults that stand for outages, where no log of nodes has these."""
    tables.findings.append(
        "no node history (sacctmgr list event): faults of kernel logs stand for outages, nothing is known of "
        "repairs, and faults that leave no line (power, host) are missing"
    )
    return [replace(fault) for fault in faults if fault.severity == "fatal"]


def _check_window(tables: Tables, window: tuple[float, float] | None) -> None:
    """Refuse a stated window that no log is near."""
    logs = [source for source in tables.sources if source.first < math.inf]
    if window is None or not logs:
        return
    first, last = min(source.first for source in logs), max(source.last for source in logs)
    if max(window[0] - last, first - window[1]) > window[1] - window[0]:
        raise LogError(f"--window: the logs are of {utc(first)} to {utc(last)}, and the window is outside of this")


def _watched(exposure: Sequence[Exposure], start: float, end: float, *, has_ends: bool) -> History:
    """Return the history of nodes to which nothing has happened yet."""
    rows = {row.unit: row for row in exposure}  # the last one of a node says where it is
    number = {name: index for index, name in enumerate(rows)}
    return History(
        list(rows), [row.rack for row in rows.values()], np.array([row.gpus for row in rows.values()], dtype=np.int64),
        start, end, np.array([number[row.unit] for row in exposure]), np.array([row.t_enter for row in exposure]),
        np.array([row.t_exit for row in exposure]), [], {}, [], has_ends, exposure[0].basis,
    )  # fmt: skip


def _clip_outages(
    tables: Tables, history: History, events: Sequence[NodeEvent], exposure: Sequence[Exposure]
) -> Iterator[NodeEvent]:
    """Put what happened while nodes were in service into a history; return planned work, wherever it lies."""
    number = history.number
    by_node: dict[str, list[Exposure]] = defaultdict(list)
    for row in exposure:
        by_node[row.unit].append(row)
    for event in events:
        clipped = _in_service(event, by_node.get(event.node, ()))
        if clipped is None:
            tables.drop(event.file, "outside the time in which the node was watched", event.line)
        elif event.planned:
            history.planned.setdefault(number[event.node], []).append((clipped.t, history.until(clipped)))
        else:
            history.outages.append(clipped)
    return (event for event in events if event.planned)


def _coverage(tables: Tables, hosts: HostLists) -> str:
    """Return how many nodes the inventory has, and how many of these, and others, the logs name."""
    named, listed = _named(tables, hosts).keys(), {row.unit for row in tables.exposure}
    return (
        f"the inventory has {number_of(len(listed), 'node')}: the logs name {len(named & listed):,} of them and "
        f"{len(named - listed):,} others"
    )


def _why_no_nodes(tables: Tables) -> str:
    kinds = sorted({source.kind for source in tables.sources})
    if tables.attempts and not any(attempt.nodes for attempt in tables.attempts):
        return (
            "no failure model of nodes: the job records name no nodes, and no log of nodes was given; shares of states "
            "can be counted, but not whose fault an end was. Add sacctmgr list event, or NodeList to sacct"
        )
    return f"no failure model: none of the files ({', '.join(kinds)}) says when a node was out of service"


def _faults(tables: Tables, groups: list[NodeEvent]) -> list[NodeEvent]:
    """Return faults of nodes: groups of one code joined over files, then chains of codes of one node.

    The first code that a program does not cause names the fault; a code that only names the repair names it too.
    """
    faults = _joined_groups(tables, groups)
    for event in faults:
        if event.source != "kernel":
            continue  # the same codes by another way
        code = event.cause_basis.removeprefix("xid ")
        tables.groups.setdefault(int(code) if code.isdigit() else 0, [0, 0])[1] += 1
    faults.sort(key=lambda event: (event.node, event.t))
    chains: list[NodeEvent] = []
    for event in faults:
        if chains and chains[-1].node == event.node and event.t - chains[-1].t_end <= CHAIN:
            _add_code(chains[-1], event)
        else:
            chains.append(event)
    return sorted((event for event in chains if event.cause != "repair"), key=lambda event: event.t)


def _joined_groups(tables: Tables, groups: list[NodeEvent]) -> list[NodeEvent]:
    """Return groups of one code and device, those of several files that follow each other as one."""
    groups.sort(key=lambda event: (*_place(event), event.t))
    joined: list[NodeEvent] = []
    for event in groups:
        last = joined[-1] if joined else None
        if last is None or _place(last) != _place(event) or event.t - last.t_end > SAME_CODE:
            joined.append(event)
        elif event.file != last.file and (event.t, event.t_end) == (last.t, last.t_end):
            tables.drop(event.file, "a fault that another file has too", event.line, event.raw_count, "normal")
        else:
            last.t_end = max(last.t_end, event.t_end)
            last.raw_count += event.raw_count
    return joined


def _add_code(fault: NodeEvent, event: NodeEvent) -> None:
    """Add a later code to the fault that it is one of."""
    fault.t_end = max(fault.t_end, event.t_end)
    fault.raw_count += event.raw_count
    if event.cause == "repair":
        fault.repair_kind = "reboot"
    elif fault.cause == "repair":
        fault.cause, fault.cause_basis = event.cause, event.cause_basis
    if event.severity == "fatal":
        fault.severity = "fatal"


def _place(event: NodeEvent) -> tuple[str, str, str]:
    """Return the node, the device and the code of a fault."""
    return event.node, event.part_id, event.cause_basis


def _outages(tables: Tables, rows: list[NodeEvent]) -> list[NodeEvent]:
    """Return one outage for rows of a node that overlap or touch: the cause of the first, the repair of the last.

    Planned work and outages are joined each among themselves. An outage that begins in planned work stays one. An end
    that another source states is the end of one that is open.
    """
    outages: list[NodeEvent] = []
    apart: list[NodeEvent] = []
    orphans: list[NodeEvent] = []
    for row in sorted(rows, key=lambda row: (row.planned, row.node, row.t)):
        last = outages[-1] if outages else None
        if last is None or (last.planned, last.node) != (row.planned, row.node) or row.t > last.t_end:
            outages.append(replace(row))
            continue
        if math.isnan(last.t_end):
            # An open row that a later one of the same node follows was not closed by slurmdbd.
            orphans += [row] if row.t > last.t + TOGETHER else []
        elif row.source != last.source and abs(row.t_end - last.t_end) > TOGETHER:
            apart.append(row)
        _join_outage(last, row)
    tables.findings += [
        f"{number_of(len(odd), 'outage')} {what}, for example {odd[0].file}:{odd[0].line}"
        for odd, what in (
            (orphans, "have no end and last until the next one of their node is over: give the logs of their returns"),
            (apart, "have ends in two sources that differ by more than 5 min: the later one counts"),
        )
        if odd
    ]
    return outages


def _join_outage(outage: NodeEvent, row: NodeEvent) -> None:
    """Join a later row to the outage of its node that it overlaps or touches."""
    if math.isnan(outage.t_end):
        outage.t_end = row.t
    if not math.isnan(row.t_end):
        outage.t_end = max(outage.t_end, row.t_end)
    elif row.source == outage.source:
        outage.t_end = math.nan
    outage.raw_count += 1
    outage.repair_kind = row.repair_kind or outage.repair_kind
    if outage.cause in GENERIC and row.cause not in GENERIC:
        outage.cause, outage.cause_basis = row.cause, row.cause_basis


def _window(tables: Tables, outages: Sequence[NodeEvent]) -> tuple[float, float]:
    """Return from when to when the cluster was watched [s].

    It ends with the last moment of any file. It begins with the first entry of the inventory, unless the logs begin
    much later than their own gaps explain: a database that was purged, or a collector that began later.
    """
    moments = [source for source in tables.sources if source.first < math.inf]
    first, last = min(source.first for source in moments), max(source.last for source in moments) + 1
    entered = min((row.t_enter for row in tables.exposure), default=-math.inf)
    gap = (last - first) / max(len(outages), 1)
    if entered < first - 7 * gap or entered > last:
        if math.isfinite(entered):
            tables.findings.append(
                f"the inventory begins at {utc(entered)}, the logs at {utc(first)}: exposure counts from there (purged "
                "by slurmdbd, or collected later); --window states another one"
            )
        return first, last
    return min(first, entered), last


def _exposure(tables: Tables, hosts: HostLists, nodes: int | None, start: float, end: float) -> list[Exposure]:
    """Return the stretches in which each node was watched, clipped to the window."""
    rows = tables.exposure
    if not rows and tables.watched and nodes is None:
        rows = [Exposure(node, start, end, "first and last seen") for node in tables.watched]
    if not rows:
        rows = _seen(tables, hosts, nodes, start, end)
    if tables.watched and {source.kind for source in tables.sources} <= {"inventory", "prometheus"}:
        rows = _while_sampled(tables, rows)
    exposure = []
    for row in rows:
        enter, leave = max(row.t_enter, start), min(row.t_exit, end)
        if leave > enter:
            exposure.append(replace(row, t_enter=enter, t_exit=leave))
        elif row.file:
            tables.drop(row.file, "a node that left before the window, or entered after it", row.line)
    if not exposure:
        raise NoModelError(
            f"no failure rate: no node of the inventory was in service between {utc(start)} and {utc(end)}, the time "
            "of the logs"
        )
    return exposure


def _while_sampled(tables: Tables, rows: Sequence[Exposure]) -> list[Exposure]:
    """Return the service of nodes in which their time series were sampled."""
    unseen = sum(row.unit not in tables.watched for row in rows)
    if unseen:
        tables.findings.append(f"{unseen:,} nodes have no time series; their time is not counted")
    return [
        replace(row, t_enter=max(row.t_enter, low), t_exit=min(row.t_exit, high))
        for row in rows
        for low, high in tables.watched.get(row.unit, ())
    ]


def _cut(row: Exposure, low: float, high: float) -> list[Exposure]:
    """Return what is left of a stretch without what lies from `low` to `high` [s]."""
    parts = (replace(row, t_exit=min(row.t_exit, low)), replace(row, t_enter=max(row.t_enter, high)))
    return [part for part in parts if part.t_exit > part.t_enter]


def _seen(tables: Tables, hosts: HostLists, nodes: int | None, start: float, end: float) -> list[Exposure]:
    """Return the nodes that logs name, for the whole window, and as many more as are stated."""
    names = _named(tables, hosts)
    if nodes is None and not any(attempt.nodes for attempt in tables.attempts):
        raise NoModelError(
            "no failure rate: the number of nodes is unknown, because nodes that never failed are in no log; "
            "give --inventory FILE, or --nodes N"
        )
    if nodes is not None and nodes < len(names):
        raise LogError(f"--nodes {nodes}: the logs name {len(names)} nodes")
    if nodes is None:
        tables.findings.append(
            f"no inventory: the {len(names)} nodes that logs name count as watched all the time; nodes that ran no job "
            "are missing"
        )
    more = (f"unnamed-{at:05}" for at in range((nodes or 0) - len(names)))
    basis = "first and last seen" if nodes is None else "stated"
    ordered = sorted(names, key=lambda name: [int(p) if p.isdigit() else p for p in _pieces(name)])
    return [Exposure(name, start, end, basis) for name in (*ordered, *more)]  # type: ignore[arg-type]


def _named(tables: Tables, hosts: HostLists) -> dict[str, None]:
    """Return the nodes that logs name: events, time series, and jobs."""
    names = dict.fromkeys(itertools.chain((event.node for event in tables.events), tables.watched))
    for text in {attempt.nodes for attempt in tables.attempts if attempt.nodes}:
        try:
            names.update(dict.fromkeys(hosts.expand(text)))
        except ValueError as error:
            tables.findings.append(str(error))
    return names


def _pieces(name: str) -> list[str]:
    """Return a name in pieces that sort in natural order: text first, then digits, in turn."""
    return ["".join(group) for _, group in itertools.groupby(f"x{name}", str.isdigit)]


def _refuse_strangers(tables: Tables, events: list[NodeEvent], number: Mapping[str, int]) -> None:
    """Drop what happened to nodes that nobody watched; refuse if that is all."""
    strange = [event for event in events if event.node not in number]
    if not strange:
        return
    first = strange[0]
    if len(strange) == len(events):
        raise LogError(
            f"{first.file}:{first.line}: '{first.node}' is not a node of the inventory, nor is any other "
            f"node of the logs (the inventory has {next(iter(number))}, ...)"
        )
    for event in strange:
        tables.drop(event.file, "a node that is not in the inventory", event.line)
    nodes = {event.node for event in strange}
    tables.findings.append(
        f"{len(strange):,} events of {len(nodes):,} nodes that are not in the inventory were dropped, for example "
        f"{first.file}:{first.line}"
    )
    events[:] = [event for event in events if event.node in number]


def _in_service(event: NodeEvent, rows: Iterable[Exposure]) -> NodeEvent | None:
    """Return an outage clipped to the service of its node; ``None`` if it began outside."""
    for row in rows:
        if row.t_enter <= event.t < row.t_exit:
            # A node may leave with the outage, or the window end.
            return replace(event, t_end=event.t_end if event.t_end < row.t_exit else math.nan)
    return None


def _better_causes(outages: Sequence[NodeEvent], faults: Sequence[NodeEvent]) -> None:
    """Give outages that only say how they were noticed the cause that a code of the same node names."""
    by_node: dict[str, list[NodeEvent]] = defaultdict(list)
    for fault in faults:
        by_node[fault.node].append(fault)
    for outage in outages:
        near = [f for f in by_node.get(outage.node, ()) if outage.t - BEFORE <= f.t <= outage.t + AFTER]
        if near:
            outage.t_lo = min(outage.t, near[0].t)
            if outage.cause in GENERIC and not outage.is_fault:
                outage.cause, outage.cause_basis = near[0].cause, f"{near[0].cause_basis} nearby"


def _silences(tables: Tables, history: History) -> Iterator[str]:
    """Yield findings about stretches in which a source says nothing, and chance does not explain it.

    Two witnesses say so: the rate of the source itself, and outages whose reasons name a code that it does not have.
    """
    named = [event for event in history.outages if not event.is_fault and XID_IN_TEXT.search(event.text)]
    for kind in dict.fromkeys(source.kind for source in tables.sources):
        events = [event for event in tables.events if event.source == kind and not event.planned]
        yield from (f"{kind}: {text}" for text in _silences_of(history, events, named))


def _silences_of(history: History, events: Sequence[NodeEvent], named: Sequence[NodeEvent]) -> Iterator[str]:
    """Yield the findings about stretches in which a source of some events says nothing."""
    unheard = _unheard(named, events) if any(event.is_fault for event in events) else []
    hours = sorted({event.t // 3600 for event in events})
    if len(hours) >= 20 or unheard:
        gaps = itertools.pairwise([history.start, *(3600 * hour for hour in hours), history.end])
        yield from filter(None, (_silence(history, low, high, len(hours), named, unheard) for low, high in gaps))


def _silence(
    history: History, low: float, high: float, hours: int, named: Sequence[NodeEvent], unheard: Sequence[NodeEvent]
) -> str:
    """Return the finding about a stretch in which a source says nothing [s]; nothing if chance explains it."""
    # Faults of a cluster are overdispersed: half as many independent ones leave longer gaps.
    rate = hours / 2 / (history.end - history.start)
    by_rate = hours * math.exp(-(high - low) * rate) if hours >= 20 else 1.0
    missed = sum(low < event.t < high for event in unheard)
    by_chance = (len(unheard) - missed + 0.5) / (len(named) - missed + 1)
    if min(by_rate, len(named) * by_chance**missed if missed else 1.0) >= 1e-2:
        return ""
    codes = f", while the reasons of {missed} outages name a code" if missed else ""
    return (
        f"nothing between {utc(low)} and {utc(high)} ({(high - low) / DAY:.1f} d){codes}; if the collector was off, "
        f"say --without {utc(low)}/{utc(high)}, or rates are too low"
    )


def _unheard(named: Sequence[NodeEvent], faults: Sequence[NodeEvent]) -> list[NodeEvent]:
    """Return the outages whose reason names a code of which the node's own log has nothing near."""
    moments: dict[str, list[float]] = defaultdict(list)
    for fault in faults:
        moments[fault.node].append(fault.t)
    return [
        event for event in named if not any(abs(moment - event.t) < HEARD for moment in moments.get(event.node, ()))
    ]


# Incidents: several nodes of one domain within five minutes.


class Incidents(NamedTuple):
    """Outages that one event of a shared part took together.

    Parameters
    ----------
    part
        ``rack`` or ``cluster``.
    by_chance
        Such groups that are expected without any incident [-].
    tuples
        How many groups there are for each gap [s].
    """

    part: str
    domains: int
    groups: list[list[int]]
    by_chance: float
    tuples: list[tuple[float, int]]


def incidents(history: History) -> list[Incidents]:
    """Return the incidents of racks, if any are known, and of the cluster, and number the outages of each.

    Where there are racks, an incident of the cluster has outages in more of them than chance brings together in the
    whole window, and in at least three; what is left is looked at rack by rack.
    """
    outages = history.outages
    domain, domains = _racks(history)
    everywhere = [0] * len(outages)
    tuples = [(gap, len(_grouped(outages, everywhere, gap))) for gap in TUPLE_GAPS]
    together = []
    if domains:
        groups, by_chance = _of_many_racks(history, domain, _grouped(outages, everywhere, TOGETHER))
        for index in itertools.chain.from_iterable(groups):
            domain[index] = -1
        if groups:
            together.append(Incidents("cluster", 1, groups, by_chance, tuples))
    groups = [group for group in _grouped(outages, domain, TOGETHER) if len({outages[at].node for at in group}) > 1]
    single = len(outages) - sum(len(group) - 1 for group in groups)
    rate = single / (history.end - history.start) / max(domains, 1)
    by_chance = single * -math.expm1(-rate * TOGETHER)
    part = "rack" if domains else "cluster"
    together.insert(0, Incidents(part, max(domains, 1), groups, by_chance, tuples))
    for number, group in enumerate(itertools.chain.from_iterable(incidents.groups for incidents in together)):
        for index in group:
            outages[index].incident = number
    return together


def _racks(history: History) -> tuple[list[int], int]:
    """Return the rack of each outage, -1 without one, and how many there are; all in one if most have no rack."""
    if sum(map(bool, history.racks)) <= len(history.nodes) / 2:
        return [0] * len(history.outages), 0
    keys = {rack: index for index, rack in enumerate(sorted({rack for rack in history.racks if rack}))}
    number = history.number
    return [keys.get(history.racks[number[event.node]], -1) for event in history.outages], len(keys)


def _of_many_racks(history: History, rack: Sequence[int], groups: Sequence[list[int]]) -> tuple[list[list[int]], float]:
    """Return the groups with outages in so many racks that fewer than 0.01 are expected, and how many are."""
    from scipy.special import pdtrc

    sizes = [len({rack[at] if rack[at] >= 0 else -1 - at for at in group}) for group in groups]
    mean = sum(sizes) / (history.end - history.start) * TOGETHER
    expected = len(groups) * pdtrc(np.arange(1, 1000), mean)  # of 3 racks and more, 4 and more ...
    least = 3 + int(np.argmax(expected < 0.01))
    return [group for group, size in zip(groups, sizes, strict=True) if size >= least], float(expected[least - 3])


def _grouped(outages: Sequence[NodeEvent], domain: Sequence[int], gap: float) -> list[list[int]]:
    """Return numbers of outages by groups: those of a domain that begin within a gap [s] of the first."""
    groups: list[list[int]] = []
    open_group: dict[int, list[int]] = {}
    for at, (event, where) in enumerate(zip(outages, domain, strict=True)):
        group = open_group.get(where)
        if where >= 0 and group is not None and event.t - outages[group[0]].t <= gap:
            group.append(at)
        else:
            open_group[where] = [at]
            groups.append(open_group[where])
    return groups


# Whose fault the end of a job was.


@dataclass
class Blame:
    """The attribution of ends of jobs.

    Parameters
    ----------
    by_chance
        How many are expected to be so without any connection [-].
    hit, faults
        Of the outages of nodes on which one of the largest jobs ran, how many ended it, and all.
    """

    ended: int = 0
    attributed: int = 0
    by_chance: float = 0.0
    rules: Counter[str] = field(default_factory=Counter)
    hit: int = 0
    faults: int = 0


def blame(tables: Tables, history: History, rules: Rules, hosts: HostLists) -> Blame:
    """Say of each attempt whether a node ended it, and which; the first evidence of the list that fits."""
    result, evidence, hits = Blame(), _Evidence.of(tables, history), set[tuple[str, float]]()
    rate = len(history.outages) / max(history.in_service, 1.0)
    for attempt in tables.attempts:
        kind = rules.states[attempt.end_state]
        if kind not in ("node", "fault") or math.isnan(attempt.t_end):
            continue
        result.ended += 1
        try:
            nodes = hosts.expand(attempt.nodes)
        except ValueError:
            tables.drop(attempt.file, "a list of hosts that was cut", attempt.line)
            nodes = ()
        if kind == "fault":
            result.by_chance += -math.expm1(-rate * max(len(nodes), attempt.node_count) * (BEFORE + AFTER))
        hits |= evidence.explain(attempt, kind, nodes, tables.blamed.get(attempt.job, ()))
        if attempt.cause_basis != "none":
            result.attributed += 1
            is_named = attempt.cause_basis in ("FailedNode", "outage", "torchrun")
            result.rules[attempt.cause_basis if is_named else "code"] += 1
    _hit(tables, history, hosts, hits, result)
    return result


class _Evidence(NamedTuple):
    """The outages and faults of nodes [s] with their causes, and the processes that ended first."""

    outages: dict[str, list[float]]
    faults: dict[str, list[float]]
    events: dict[tuple[str, float], NodeEvent]
    reports: list[tuple[float, str, str]]
    moments: NDArray[np.float64]

    @classmethod
    def of(cls, tables: Tables, history: History) -> _Evidence:
        """Return what logs of nodes and of torchrun say."""
        evidence = cls(defaultdict(list), defaultdict(list), {}, [], np.sort([event.t for event in history.outages]))
        for event in history.outages:
            evidence.outages[event.node].append(event.t)
            evidence.events[event.node, event.t] = event
        for event in history.faults:
            if event.severity == "fatal":
                evidence.faults[event.node].append(event.t)
                evidence.events.setdefault((event.node, event.t), event)
        reports = ((e.t, e.node, e.cause_basis) for e in tables.events if e.part == "job" and e.cause_basis != _VICTIM)
        evidence.reports.extend(sorted(reports))
        return evidence

    def explain(
        self, attempt: LoggedAttempt, kind: str, nodes: Sequence[str], blamed: Iterable[tuple[float, str]]
    ) -> set[tuple[str, float]]:
        """Say whose fault the end of an attempt was, by the first evidence that fits; return the outages that it is."""
        low, high = attempt.t_end - BEFORE, attempt.t_end + AFTER
        near: list[tuple[str, float]] = []
        if np.searchsorted(self.moments, low) < np.searchsorted(self.moments, high, side="right"):
            near = _near(self.outages, nodes, low, high)
        attempt.blamed_node = attempt.blamed_node or next((node for at, node in blamed if low <= at <= high), "")
        if attempt.blamed_node:
            outages = [key for key in near if key[0] == attempt.blamed_node]
            attempt.cause, attempt.cause_basis = "not_responding", "FailedNode"
            if outages:
                attempt.cause = self.events[outages[0]].cause
            return set(outages)
        if evidence := near or _near(self.faults, nodes, low, high):
            first = min(evidence, key=lambda key: abs(key[1] - attempt.t_end))
            attempt.blamed_node, attempt.cause = first[0], self.events[first].cause
            attempt.cause_basis = "outage" if near else self.events[first].cause_basis
        elif kind == "fault" and (reported := _reported(self.reports, nodes, low, high)):
            attempt.blamed_node, attempt.cause, attempt.cause_basis = reported, "unknown", "torchrun"
        elif kind == "node":
            attempt.cause, attempt.cause_basis = "not_responding", attempt.end_state
        else:
            attempt.cause, attempt.cause_basis = "unattributed", "none"
        return set(near)


_VICTIM = "exit -15"
"""The exit of a process that SIGTERM ended because another one failed."""


def _reported(reports: Sequence[tuple[float, str, str]], nodes: Sequence[str], low: float, high: float) -> str:
    """Return the node whose process a signal ended first; nothing if the first failure was an error of the program."""
    at = bisect.bisect_left(reports, (low, "", ""))
    for t, host, basis in reports[at:]:
        if t > high:
            break
        if host in nodes:
            return host if basis.startswith("exit -") else ""
    return ""


def _near(
    moments: Mapping[str, Sequence[float]], nodes: Sequence[str], low: float, high: float
) -> list[tuple[str, float]]:
    """Return the nodes and moments of sorted lists from `low` to `high` [s]."""
    pairs = ((node, moments.get(node, ())) for node in nodes)
    return [(node, t) for node, ts in pairs for t in ts[bisect.bisect_left(ts, low) : bisect.bisect_right(ts, high)]]


def _hit(tables: Tables, history: History, hosts: HostLists, hits: set[tuple[str, float]], result: Blame) -> None:
    """Count the outages of nodes on which one of the largest jobs ran, and of these those that ended it."""
    busy: dict[str, list[tuple[float, float]]] = {node: [] for node in history.nodes}
    for attempt in largest(tables.attempts):
        if not attempt.nodes:
            continue
        until = history.end if math.isnan(attempt.t_end) else attempt.t_end
        with contextlib.suppress(ValueError):
            for node in hosts.expand(attempt.nodes):
                if node in busy:
                    busy[node].append((attempt.t_start, until))
    for spans in busy.values():
        spans.sort()
    for event in history.outages:
        spans = busy[event.node]
        at = bisect.bisect_right(spans, (event.t, math.inf)) - 1
        # A job may end minutes before its node is taken out.
        if any(begin <= event.t and event.t - BEFORE <= over for begin, over in spans[max(at - 2, 0) : at + 1]):
            result.faults += 1
            result.hit += (event.node, event.t) in hits


def largest(attempts: Sequence[LoggedAttempt]) -> list[LoggedAttempt]:
    """Return the attempts of at least half the largest size, which carry the training."""
    most = max((attempt.gpus or attempt.node_count for attempt in attempts), default=0)
    return [a for a in attempts if (a.gpus or a.node_count) >= most / 2 > 0 and not math.isnan(a.t_start)]


def attempts_of(tables: Tables) -> dict[str, list[LoggedAttempt]]:
    """Return the attempts of each job, in order of their start."""
    attempts: dict[str, list[LoggedAttempt]] = defaultdict(list)
    for attempt in tables.attempts:
        attempts[attempt.job].append(attempt)
    for runs in attempts.values():
        runs.sort(key=lambda attempt: attempt.t_submit if math.isnan(attempt.t_start) else attempt.t_start)
    return attempts
