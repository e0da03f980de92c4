"""The files of a fit against each other: one name for each node, moments that agree, and outages that jobs deny.

`join_names` and `leave_out_strays` come first, when all files are read; `close_by_jobs` and `JobStarts` say when a node
was in service again although nothing says so.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.analysis.amounts import number_of
from ettrick.analysis.logs.tables import LoggedAttempt, NodeEvent, utc
from ettrick.sim.records import ADDRESS, LogError, same_hosts, short_name
from ettrick.sim.units import DAY, YEAR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from ettrick.analysis.logs.tables import LogFile, ReaderContext, Tables

    _Floats = NDArray[np.float64]
    _Row = NodeEvent | LoggedAttempt

# Names of nodes: one for each.


def join_names(reading: ReaderContext) -> None:
    """Give each node one name: that of the inventory, or the shortest.

    An address is that of the node which a source gives it to. A short name is the long one that begins with it, unless
    several do; those are reported and stay apart.
    """
    lists = _host_lists(reading)
    stated = {row.unit for row in reading.tables.exposure}
    names = _names(reading) | stated | set(itertools.chain.from_iterable(lists.values()))
    chosen = _chosen(reading, names)
    names |= {node for _, node, _ in reading.series}
    addresses = {address: {chosen.get(node, node) for node in nodes} for address, nodes in reading.addresses.items()}
    same = _same_names(reading.tables, {chosen.get(name, name) for name in names}, stated, addresses)
    same |= {name: same.get(node, node) for name, node in chosen.items()}
    if same:
        _rename(reading, same, lists)


def _chosen(reading: ReaderContext, names: set[str]) -> dict[str, str]:
    """Return, for names in the labels of series, the label next to each that other series or logs have as a node."""
    stems = {short_name(name) for name in (*names, *(labels[0] for labels in reading.labels if len(labels) == 1))}
    nodes: dict[str, set[str]] = defaultdict(set)
    for labels in reading.labels:
        nodes[labels[0]].add(next((name for name in labels if short_name(name) in stems), labels[0]))
    return {name: min(best) for name, best in nodes.items() if len(best) == 1 and name not in best}


def _host_lists(reading: ReaderContext) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each list that jobs have; lists that were cut are left out."""
    lists: dict[str, tuple[str, ...]] = {}
    of_jobs = (attempt.nodes for attempt in (*reading.tables.attempts, *reading.cycles))
    for text in {*of_jobs, *(nodes for _, nodes in reading.starts)}:
        with contextlib.suppress(ValueError):
            lists[text] = reading.hosts.expand(text)
    return lists


def _names(reading: ReaderContext) -> set[str]:
    """Return the names of nodes that logs have, those of jobs and time series apart."""
    tables = reading.tables
    return {
        *(event.node for event in (*tables.events, *reading.points)),
        *(node for moments in tables.blamed.values() for _, node in moments),
        *(shot.node for shot in reading.snapshots),
    }


def _rename(reading: ReaderContext, same: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> None:
    """Put the name that stands for each node in the place of its others."""
    tables = reading.tables
    nodes = {
        text: ",".join(dict.fromkeys(same.get(name, name) for name in names))
        for text, names in lists.items()
        if not same.keys().isdisjoint(names)
    }

    def of(name: str) -> str:
        return same.get(name, name)

    for event in (*tables.events, *reading.points):
        event.node = of(event.node)
    for row in tables.exposure:
        row.unit = of(row.unit)
    for attempt in (*tables.attempts, *reading.cycles):
        attempt.blamed_node, attempt.nodes = of(attempt.blamed_node), nodes.get(attempt.nodes, attempt.nodes)
    reading.starts[:] = [(moment, nodes.get(text, text)) for moment, text in reading.starts]
    for job, moments in tables.blamed.items():
        tables.blamed[job] = [(moment, of(node)) for moment, node in moments]
    reading.snapshots[:] = [
        shot._replace(node=of(shot.node), seen_as=replace(shot.seen_as, unit=of(shot.node)))
        for shot in reading.snapshots
    ]
    series, reading.series = reading.series, {}
    for (metric, node, part), runs in series.items():
        reading.series.setdefault((metric, of(node), part), []).extend(runs)


def _same_names(tables: Tables, names: set[str], stated: set[str], addresses: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the name that stands for each other one of the same node."""
    node_of = {address: min(nodes) for address, nodes in addresses.items() if len(nodes) == 1}
    same = {name: node_of[name] for name in names if name in node_of}
    forms, unclear = same_hosts((names | set(same.values())) - same.keys(), stated)
    same |= forms
    same = {name: same.get(best, best) for name, best in same.items()}
    if same:
        tables.findings.append(
            f"joined {number_of(len(same), 'name')} of nodes (addresses, short or full names) with the other names "
            "that the logs have for the same nodes"
        )
    if unclear:
        tables.findings.append(
            f"{number_of(len(unclear), 'short name')} of hosts may stand for one of several full ones and stay apart; "
            "use the same names in all logs"
        )
    named = names - same.keys()
    nameless = sum(ADDRESS.fullmatch(name) is not None for name in named)
    if 0 < nameless < len(named):
        verb = "is" if nameless == 1 else "are"
        tables.findings.append(
            f"{number_of(nameless, 'node')} of {len(named)} {verb} known only by an address, and others by a name: if "
            "these are the same hosts, the number of nodes is too high; add node_uname_info, which has both"
        )
    return same


# Moments: those far from all others of their file, and files of different years.

MOST_STRAYS = 0.05
"""Share of the rows of a file that may be left out for their moments; more of them are another time, not a mistake."""


def leave_out_strays(reading: ReaderContext) -> None:
    """Leave out what a file dates after today or years from all else that it says, and say it first.

    A clock that was reset dates lines so, and a hand that writes a year. A file most of which lies after today is one
    whose times were moved, or simulated.

    Raises
    ------
    LogError
        If the years of two kinds of logs do not meet.
    """
    tables, today = reading.tables, time.time() + DAY
    sources = {source.file: source for source in tables.sources if source.last > min(today, source.first + YEAR)}
    lists: tuple[list[Any], ...] = tables.events, reading.points, tables.attempts
    rows: dict[str, list[_Row]] = defaultdict(list)
    for row in itertools.chain.from_iterable(lists if sources else ()):
        if row.file in sources:
            rows[row.file].append(row)
    strays: set[int] = set()
    for file, of_file in rows.items():
        spans = np.array([(_begin(row), row.t_end) for row in of_file])
        is_stray = _after(tables, sources[file], of_file, spans, today) | _strays(spans[:, 0])
        if is_stray.any():
            odd = list(itertools.compress(of_file, is_stray.tolist()))
            strays.update(map(id, odd))
            _narrow(tables, sources[file], odd, spans[~is_stray])
    for of_kind in lists if strays else ():
        of_kind[:] = [row for row in of_kind if id(row) not in strays]
    _check_years(tables)


def _begin(row: _Row) -> float:
    """Return the start of what has one [s since 1970]."""
    return row.t_start if isinstance(row, LoggedAttempt) else row.t


def _after(tables: Tables, source: LogFile, rows: Sequence[_Row], spans: _Floats, today: float) -> NDArray[np.bool_]:
    """Return which rows lie after today; an outage whose end lies within a year from now is planned to, and lasts."""
    is_late: NDArray[np.bool_] = spans[:, 0] > today
    if is_late.sum() > len(spans) / 2:
        tables.findings.insert(0, f"{source.file}: most rows lie after today, as times do that were moved or simulated")
        return np.zeros(len(spans), dtype=np.bool_)
    for index in np.flatnonzero((spans[:, 1] > today) & ~is_late).tolist():
        row = rows[index]
        if isinstance(row, NodeEvent) and row.t_end < today + YEAR:
            row.t_end = spans[index, 1] = math.nan
        else:
            is_late[index] = True
    source.last = min(source.last, float(np.nanmax(spans[~is_late], initial=-math.inf)))
    return is_late


def _narrow(tables: Tables, source: LogFile, strays: Sequence[_Row], spans: _Floats) -> None:
    """Say which rows of a file are left out, and narrow its window to the times of the others [s]."""
    first = strays[0]
    moments = " to ".join(utc(t) for t in (_begin(first), first.t_end) if t == t)
    tables.findings.insert(
        0, f"{source.file}: {number_of(len(strays), 'row')} dated after today, or years from all others, are left out, "
        f"for example line {first.line}: {moments}",
    )  # fmt: skip
    for row in strays:
        tables.drop(source.file, "a moment after today, or years from all others of the file", row.line)
    source.rows -= len(strays)
    low, high = np.nanmin(spans), np.nanmax(spans)
    source.first = source.first if source.first > low - YEAR else float(low)
    source.last = source.last if source.last < high + YEAR else float(high)


def _strays(moments: _Floats) -> NDArray[np.bool_]:
    """Return which of some moments lie years from the others, farther than these lie apart by chance [s]."""
    times = np.sort(moments[~np.isnan(moments)])
    groups = np.split(times, np.flatnonzero(np.diff(times) > YEAR) + 1)
    main = max(groups, key=len)
    few = max(1, int(MOST_STRAYS * len(times)))
    if len(main) < 2 or len(times) - len(main) > few:
        return np.zeros(len(moments), dtype=np.bool_)
    # Of independent moments none lies farther from the next than 20 times their mean distance.
    far = max(20 * float(main[-1] - main[0]) / (len(main) - 1), YEAR)
    is_stray: NDArray[np.bool_] = (moments < main[0] - far) | (moments > main[-1] + far)
    return is_stray


def _check_years(tables: Tables) -> None:
    """Refuse kinds of logs whose years do not meet; say a year in which no file says anything."""
    sources = sorted((s for s in tables.sources if s.first < math.inf), key=lambda source: source.first)
    for index in range(1, len(sources)):
        before, after = sources[:index], sources[index]
        last = max(before, key=lambda source: source.last)
        if after.first - last.last <= YEAR:
            continue
        text = f"{last.file} ends at {utc(last.last)}, and {after.file} begins at {utc(after.first)}"
        if {source.kind for source in before}.isdisjoint(source.kind for source in sources[index:]):
            raise LogError(f"{text}: logs of different years cannot be combined; check the dates, or set --year")
        tables.findings.insert(
            0, f"{text}: if nothing was collected between, say --without {utc(last.last)}/{utc(after.first)}"
        )


# Jobs: one that starts on a node says that it was in service.


class JobStarts:
    """The starts of jobs on some nodes [s]."""

    def __init__(self, reading: ReaderContext, nodes: Iterable[str]) -> None:
        wanted = set(nodes)
        times: dict[str, list[float]] = defaultdict(list)
        by_list: dict[str, list[float]] = defaultdict(list)
        for attempt in reading.tables.attempts:
            if attempt.nodes and attempt.t_start == attempt.t_start:
                by_list[attempt.nodes].append(attempt.t_start)
        for moment, text in reading.starts:
            by_list[text].append(moment)
        for text, moments in by_list.items() if wanted else ():
            with contextlib.suppress(ValueError):
                for node in wanted.intersection(reading.hosts.expand(text)):
                    times[node] += moments
        self._times = {node: np.sort(np.array(moments)) for node, moments in times.items()}

    def after(self, node: str, moment: float) -> float:
        """Return when the first job starts on a node later than a moment; never is infinite [s]."""
        times = self._times.get(node)
        index = 0 if times is None else int(np.searchsorted(times, moment + 1, side="right"))
        return math.inf if times is None or index == len(times) else float(times[index])


def close_by_jobs(reading: ReaderContext) -> None:
    """End recorded outages that are open with the next job on their node; count those in which a job started."""
    outages = [event for event in reading.tables.events if not event.is_fault]
    starts = JobStarts(reading, {event.node for event in outages})
    ended: Counter[str] = Counter()
    denied: dict[str, list[NodeEvent]] = defaultdict(list)
    for event in outages:
        start = starts.after(event.node, event.t)
        if math.isnan(event.t_end) and start < math.inf:
            event.t_end = start
            ended[event.file] += 1
        elif start < event.t_end - 60 and not event.planned:
            denied[event.file].append(event)
    reading.tables.findings += [
        f"{file}: {number_of(count, 'outage')} without an end last until the next job that started on the node"
        for file, count in ended.items()
    ]
    reading.tables.findings += [
        f"{file}: in {number_of(len(events), 'outage')} of {sum(event.file == file for event in outages)} a job "
        f"started on the node before its end, for example line {events[0].line}: a log is wrong, or --timezone"
        for file, events in denied.items()
    ]
