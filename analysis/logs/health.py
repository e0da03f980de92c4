"""States of nodes as Kubernetes, NVSentinel and Prometheus tell them: moments of change first, then outages.

A node is out from the moment at which anything of it goes down to that at which nothing is. What names the metrics,
reasons, checks and actions stands in `rules.yaml`.

References
----------
Kubernetes, API of Event (core/v1, events.k8s.io/v1) and Node; node-problem-detector; NVIDIA, NVSentinel health events
and DCGM exporter; Prometheus, HTTP API (range queries).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ettrick.analysis.amounts import number_of
from ettrick.analysis.logs import tables as rows
from ettrick.analysis.logs.reconcile import JobStarts, close_by_jobs
from ettrick.analysis.logs.tables import Exposure, NodeEvent, PartFault, SampleRun, StateChange, UnusedError
from ettrick.sim.moments import StrayError
from ettrick.sim.records import LogError
from ettrick.sim.units import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ettrick.analysis.logs.tables import LogReader, ReaderContext, Rules

AGAIN = 60.0
"""A node that answered goes down again within this [s]: one outage."""

MISSED = 2.5
"""More than so many steps between two samples are missing scrapes, in which nothing was watched."""


# Kubernetes: events, and nodes with their conditions.


def read_events(log: LogReader) -> None:
    """Read events of nodes: kubectl get events -A -o json, or what an exporter wrote, one a line."""
    log.each(_items(log), functools.partial(_read_event, log))


def _read_event(log: LogReader, wrapped: Mapping[str, Any], line: int) -> None:
    item = _dict(wrapped, "event") or wrapped  # as eventrouter wraps it
    about = _dict(item, "involvedObject") or _dict(item, "regarding")
    reason, series = str(item.get("reason", "")), _dict(item, "series")
    moments = _moments_of(log, item, series, line)
    if not moments:
        raise UnusedError("a moment that cannot be read", "unusable")
    log.source.saw(*moments)  # events of pods too say that somebody looked
    if about.get("kind") != "Node" or not about.get("name"):
        raise UnusedError(f"events of a {about.get('kind') or 'thing without a kind'}"[:80])
    text = f"{reason} {item.get('message') or ''}"
    rule = _rule_of_event(log.rules, reason, text, is_normal=item.get("type") == "Normal")
    stated = item.get("count") or item.get("deprecatedCount") or series.get("count")
    count = int(str(stated)) if str(stated).isdigit() else 1
    for moment in moments:
        _change(log, rule, moment, str(about["name"]), text, line, max(count // len(moments), 1))
    log.source.rows += 1


def _rule_of_event(rules: Rules, reason: str, text: str, *, is_normal: bool) -> Mapping[str, Any]:
    """Return the rule of an event of a node that says something of outages."""
    rule = rules.kubernetes_rule("events", reason)
    if rule is None and not is_normal and _FAULTY.search(text):
        raise UnusedError(f"a fault that no rule reads: an event of a node, {reason[:40]}", "unread")
    if rule is None or rule["does"] == "none" or (is_normal and rule["does"] == "fault"):
        raise UnusedError(f"events of nodes that do not describe an outage: {reason or 'no reason'}"[:80])
    return rule


def _moments_of(log: LogReader, item: Mapping[str, Any], series: Mapping[str, Any], line: int) -> list[float]:
    """Return when an event began and ended [s]: a burst says nothing of what lies between."""
    first = item.get("firstTimestamp") or item.get("deprecatedFirstTimestamp") or item.get("eventTime")
    last = item.get("lastTimestamp") or item.get("deprecatedLastTimestamp") or series.get("lastObservedTime")
    with contextlib.suppress(ValueError):
        return sorted({log.clock.read(str(text), line) for text in (first, last) if text})
    return []


_FAULTY = re.compile(
    r"gpu|nvidia|xid|nvlink|nvswitch|dcgm|infiniband|mlx5|\becc\b|pcie|hardware|fail|fault|error|unhealthy|corrupt|"
    r"\blost\b|missing|panic|hung|lockup|offline", re.IGNORECASE,
)  # fmt: skip
"""Words that name a device or a fault."""


def _change(log: LogReader, rule: Mapping[str, Any], t: float, node: str, text: str, line: int, count: int) -> None:
    """Keep what a rule says of one moment: a change of state, or a fault, whose cause an XID in the text names."""
    log.source.saw(t)
    cause, reason = str(rule.get("cause", "unknown")), text.split(" ", 1)[0]
    if rule["does"] != "fault":
        log.reading.points.append(
            StateChange("kubernetes", t, math.nan, node, cause, reason, log.file, line, does=rule["does"],
                        key=str(rule.get("key", "")), planned=bool(rule.get("planned")))
        )  # fmt: skip
        return
    fault = _fault(log.rules, rule, reason, text)
    if fault is None:
        log.drop("codes that programs cause", line, sort="normal")
        return
    log.tables.events.append(
        NodeEvent("kubernetes", t, t, node, fault.cause, fault.basis, log.file, line, _part(log.rules, fault.cause),
              severity=fault.severity, raw_count=count, is_fault=True)
    )  # fmt: skip


def _fault(rules: Rules, rule: Mapping[str, Any], name: str, text: str) -> PartFault | None:
    """Return the fault that a rule and the XID in a text name; ``None`` if a program caused it."""
    cause, basis, is_harmless = rules.of_code(text)
    if cause == "application":
        return None
    severity: Literal["fatal", "info"] = "info" if is_harmless or rule.get("severity") == "info" else "fatal"
    return PartFault(cause or str(rule["cause"]), basis or name, severity)


def _part(rules: Rules, cause: str) -> str:
    """Return the class of part that a cause is one of."""
    return "nic" if cause == "nic" else "gpu" if rules.causes.get(cause) in ("gpu", "driver") else "node"


def read_nodes(log: LogReader) -> None:
    """Read snapshots of nodes: kubectl get nodes -o json, one or many in a file."""
    for line, document in log.documents():
        shots = []
        try:
            for node in (item for item in _listed(document) if isinstance(item, dict)):
                shots.append(_snapshot(log, node, line))
                log.source.rows += 1
        except (KeyError, TypeError, AttributeError, ValueError):
            log.drop("a node without its conditions", line)
        moment = max((beat for _, beat in shots), default=math.nan)
        if math.isnan(moment):
            log.drop("a snapshot without a moment", line)
            continue
        log.source.saw(moment)
        log.reading.snapshots += (shot._replace(t=moment) for shot, _ in shots)


def _snapshot(log: LogReader, node: Mapping[str, Any], line: int) -> tuple[rows.Snapshot, float]:
    """Return what a snapshot says of a node, and its last heartbeat [s]."""

    def read(value: Any) -> float:
        return log.clock.read(str(value), line)

    name = str(node["metadata"]["name"])
    conditions = {str(entry["type"]): entry for entry in node["status"]["conditions"]}
    cordoned = _cordoned(_dict(node, "spec"), read)
    created = node["metadata"].get("creationTimestamp")
    exposure = _seen_as(log, node, read(created) if created else -math.inf, line)
    for entry in _list(_dict(node, "status").get("addresses")):
        if entry.get("address") and entry["address"] != name:
            log.reading.addresses.setdefault(str(entry["address"]), set()).add(name)
    bad = {
        kind: fault._replace(since=read(entry["lastTransitionTime"]))
        for kind, entry in conditions.items()
        if (fault := _condition(log, kind, entry, line)) is not None
    }
    ready = conditions["Ready"]
    beats = [read(entry["lastHeartbeatTime"]) for entry in conditions.values() if entry.get("lastHeartbeatTime")]
    since = read(ready["lastTransitionTime"])
    shot = rows.Snapshot(0.0, name, ready["status"] == "True", since, cordoned, bad, exposure)
    return shot, max(beats, default=math.nan)


def _cordoned(spec: Mapping[str, Any], read: Callable[[Any], float]) -> float:
    """Return since when a node takes no pods [s]: NaN if it does, and minus infinity if nothing says since when."""
    if not spec.get("unschedulable"):
        return math.nan
    taints = (taint for taint in _list(spec.get("taints")) if isinstance(taint, dict))
    added = (taint["timeAdded"] for taint in taints if taint.get("key") == _CORDON and taint.get("timeAdded"))
    return next(map(read, added), -math.inf)


def _seen_as(log: LogReader, node: Mapping[str, Any], created: float, line: int) -> Exposure:
    """Return the service of a node from its creation on [s]."""
    labels, gpus = _dict(_dict(node, "metadata"), "labels"), _dict(_dict(node, "status"), "capacity").get(_GPUS, "")
    racks = (str(labels[key]) for key in log.rules.kubernetes["racks"] if labels.get(key))
    return Exposure(
        str(node["metadata"]["name"]), created, math.inf, "inventory", file=log.file, line=line,
        gpus=int(gpus) if str(gpus).isdigit() else 0, rack=next(racks, ""),
    )  # fmt: skip


def _condition(log: LogReader, kind: str, entry: Mapping[str, Any], line: int) -> PartFault | None:
    """Return what a condition of a node says; ``None`` if it is good, or no rule knows it, which is shown."""
    rules, status = log.rules, str(entry.get("status"))
    rule, reason = rules.kubernetes_rule("conditions", kind), str(entry.get("reason") or "")
    if rule is None:
        bad = "False" if kind.endswith(("Ready", "Healthy")) else "True"
        if status == bad and _FAULTY.search(f"{kind} {reason}"):
            log.drop(f"a fault that no rule reads: a condition of a node, {kind[:40]}", line, sort="unread")
        return None
    if status != str(rule.get("bad", "True")):
        return None
    named = rules.kubernetes_rule("events", reason) or {}
    return _fault(rules, {**rule, **named} if named.get("does") == "fault" else rule, kind,
                  f"{reason} {entry.get('message') or ''}")  # fmt: skip


_CORDON, _GPUS = "node.kubernetes.io/unschedulable", "nvidia.com/gpu"


def _snapshots(reading: ReaderContext) -> list[Exposure]:
    """Make moments of change of all snapshots, in order; and of the nodes that they list, an inventory.

    Of a change between two snapshots that only shows in a later one, the middle is taken.
    """
    before: dict[str, rows.Snapshot] = {}
    for now in sorted(reading.snapshots, key=lambda shot: (shot.t, shot.node)):
        last = before.get(now.node)
        before[now.node] = now if last is None else now._replace(seen_as=last.seen_as)
        reading.points += _ready_changes(now, last)
        reading.points += _cordon_changes(now, last)
        if last is not None:
            reading.tables.events += _new_conditions(reading.rules, now, last)
    end = max((shot.t for shot in before.values()), default=0.0)
    return [replace(shot.seen_as, t_exit=math.inf if shot.t == end else shot.t) for shot in before.values()]


def _ready_changes(now: rows.Snapshot, last: rows.Snapshot | None) -> Iterator[StateChange]:
    """Yield when a node went out of service or returned since the last snapshot."""
    keep = functools.partial(_shot_change, now, "ready", "not_responding", "Ready")
    state, opposite = ("up", "down") if now.ready else ("down", "up")
    if last is None:
        # One that was out before the first snapshot is no failure that was seen; it only was not there.
        if not now.ready:
            yield keep(now.t, "down", planned=True)
    elif now.since > last.t:
        if last.ready == now.ready:
            yield keep((last.t + now.since) / 2, opposite, t_lo=last.t)
        yield keep(now.since, state, quiet=now.ready)
    elif now.ready != last.ready:
        yield keep((last.t + now.t) / 2, state)


def _cordon_changes(now: rows.Snapshot, last: rows.Snapshot | None) -> Iterator[StateChange]:
    """Yield when a node was cordoned or uncordoned since the last snapshot."""
    keep = functools.partial(_shot_change, now, "schedulable", "unknown", "schedulable")
    seen = now.t if last is None else last.t
    middle = (seen + now.t) / 2
    is_cordoned, was_cordoned = (shot is not None and not math.isnan(shot.cordoned) for shot in (now, last))
    if is_cordoned and not was_cordoned:
        yield keep(now.cordoned if now.cordoned > seen else middle, "down", planned=True)
    elif was_cordoned and not is_cordoned:
        yield keep(middle, "up", quiet=True)


def _shot_change(
    shot: rows.Snapshot, key: str, cause: str, basis: str, t: float, does: str, **more: Any
) -> StateChange:
    where = shot.seen_as
    return StateChange(
        "nodes", t, math.nan, shot.node, cause, basis, where.file, where.line, does=does, key=key, **more
    )


def _new_conditions(rules: Rules, now: rows.Snapshot, last: rows.Snapshot) -> Iterator[NodeEvent]:
    """Yield the faults of conditions that are bad since the last snapshot."""
    for kind, fault in now.conditions.items():
        if kind not in last.conditions or last.conditions[kind].since != fault.since:
            yield NodeEvent(
                "nodes", fault.since, fault.since, now.node, fault.cause, fault.basis, now.seen_as.file,
                now.seen_as.line, _part(rules, fault.cause), severity=fault.severity, is_fault=True,
            )  # fmt: skip


# NVSentinel: health events.


def read_nvsentinel(log: LogReader) -> None:
    """Read health events: a fatal one takes the node out until the same check of the same part is healthy again."""
    log.each(_items(log), functools.partial(_read_health_event, log))


def _read_health_event(log: LogReader, item: Mapping[str, Any], line: int) -> None:
    event = {str(key).lower(): value for key, value in item.items()}
    event = {str(key).lower(): value for key, value in _dict(event, "healthevent").items()} or event
    node, check = str(event.get("nodename") or ""), str(event.get("checkname") or "")
    moment = _generated(log, event.get("generatedtimestamp"), line)
    if not node or not check or math.isnan(moment):
        raise UnusedError("a health event without node, check or moment", "unusable")
    log.source.use(moment)
    parts = _impacted(event)
    change = StateChange(
        "nvsentinel", moment, math.nan, node, "unknown", "unknown", log.file, line,
        part_id=next(iter(parts), ""), key=f"{check} {' '.join(parts)}".strip(),
    )  # fmt: skip
    if event.get("ishealthy"):
        log.reading.points.append(replace(change, does="up", quiet=True))
    else:
        _report_unhealthy(log, event, change, check)


def _report_unhealthy(log: LogReader, event: Mapping[str, Any], change: StateChange, check: str) -> None:
    """Keep a health event of a part that is not healthy: as a change of its node if it is fatal, else as a fault."""
    rules, text = log.rules, f"{check} {event.get('message') or ''}"
    change.cause, change.cause_basis = _cause_of_check(rules, check, text, event.get("errorcode"))
    if change.cause == "application":
        raise UnusedError("codes that programs cause")
    change.repair_kind = rules.actions.get(str(event.get("recommendedaction")), "")
    change.part, is_fatal = _part(rules, change.cause), bool(event.get("isfatal"))
    if is_fatal and not str(event.get("processingstrategy") or "").upper().endswith("STORE_ONLY"):
        log.reading.points.append(replace(change, planned=rules.is_planned("", text), text=text))
        return
    severity: Literal["fatal", "info"] = "fatal" if is_fatal else "info"
    log.tables.events.append(replace(change.outage(), t_end=change.t, severity=severity, is_fault=True))


def _impacted(event: Mapping[str, Any]) -> list[str]:
    """Return the parts that a health event is about, as type and value."""
    entities = (entity for entity in _list(event.get("entitiesimpacted")) if isinstance(entity, dict))
    return sorted(":".join(str(entity.get(key, "")) for key in sorted(entity, reverse=True)) for entity in entities)


def _generated(log: LogReader, stamp: Any, line: int) -> float:
    """Return the moment of a health event [s]; NaN if there is none that can be read."""
    if isinstance(stamp, dict):  # as protobuf and MongoDB write it
        stamp = stamp.get("$date") or stamp.get("seconds")
    with contextlib.suppress(ValueError):
        return log.clock.read(str(stamp), line)
    return math.nan


def _cause_of_check(rules: Rules, check: str, text: str, stated: Any) -> tuple[str, str]:
    """Return the cause of a health event and what names it: the first XID, else the check, else its text."""
    codes = (int(str(code)) for code in (stated if isinstance(stated, list) else [stated]) if str(code).isdigit())
    code = next(codes, -1)
    cause, basis = (rules.of_xid.get(code, "gpu_other"), f"xid {code}") if code >= 0 else ("", check)
    if not cause or cause == "repair":
        cause = rules.check_of(check) or rules.cause_of(text)[0]
    return cause, basis


# Prometheus: range queries.


def read_prometheus(log: LogReader) -> None:
    """Read answers of query_range: the last code of a GPU, counters, whether a node is up.

    Samples are kept as runs of equal values, so that several files of one series give what a single one would.
    """
    for line, document in log.documents():
        data = document.get("data", document) if isinstance(document, dict) else {}
        kind = data.get("resultType") if isinstance(data, dict) else None
        if isinstance(document, dict) and document.get("status") == "error":
            raise LogError(f"{log.file}:{line}: the query failed: {str(document.get('error'))[:80]}")
        if kind != "matrix" or not isinstance(data.get("result"), list):
            raise LogError(f"{log.file}:{line}: is not an answer of query_range ({kind}); ask for /api/v1/query_range")
        log.each(((line, series) for series in data["result"]), functools.partial(_read_series, log))


def _read_series(log: LogReader, series: Any, line: int) -> None:
    if not isinstance(series, dict) or not isinstance(series.get("values"), list):
        raise UnusedError("a series without values", "unusable")
    name = _dict(series, "metric")
    metric = str(name.get("__name__", ""))
    if not metric:
        reason = "the name of the metric was aggregated away: query up itself, not max(up)"
        raise UnusedError(reason, "unusable")
    rule = log.rules.prometheus["metrics"].get(metric)
    if rule is None or any(name.get(key) != value for key, value in rule.get("labels", {}).items()):
        raise UnusedError(f"series that no rule uses: {metric}"[:80])
    node = _node_of(log.reading, rule, name)
    if not node:
        raise UnusedError(f"series of {metric} without a label of the node", "unusable")
    if not _is_of_node(rule, name):
        job = name.get("job") or "without name"
        raise UnusedError(f"series of {metric} that are no nodes: job {job}"[:80], "unusable")
    if rule["does"] != "name":
        devices = (name.get(key) for key in ("pci_bus_id", "gpu", "device", "job"))
        code = str(name.get(rule["label"], "")) if "label" in rule else ""
        part = f"{next(filter(None, devices), '')} {code}".strip()
        log.reading.series.setdefault((metric, node, part), []).extend(_runs(log, series["values"], line))
    log.source.rows += 1


def _node_of(reading: ReaderContext, rule: Mapping[str, Any], name: Mapping[str, Any]) -> str:
    """Return the node of a series: the first label that is no pod; an address next to a node's name is that node's.

    Its other labels are kept: of several names, the one that other sources have is the node.
    """
    labels, pods = reading.rules.prometheus["nodes"], "|".join(reading.rules.prometheus["pods"])
    hosts = {key: host for key in labels if (host := _host(str(name.get(key) or ""))) and host != name.get("pod")}
    order = sorted(
        hosts, key=lambda key: (key.endswith("instance"), re.search(pods, hosts[key], re.IGNORECASE) is not None)
    )
    if not order:
        return ""
    node, address = hosts[order[0]], _host(str(name.get(rule.get("address", "instance")) or ""))
    if address and node != address:
        reading.addresses.setdefault(address, set()).add(node)
    rivals = (hosts[key] for key in order[1:] if not key.endswith("instance"))
    reading.labels.add(tuple(dict.fromkeys((node, *rivals))))
    return node


_HOST = re.compile(r"(?:\w+://)?(\[[^]]*\]|[^:/]*)(?::\d+)?(?:/.*)?")


def _host(address: str) -> str:
    """Return an address without its scheme, port and path."""
    match = _HOST.fullmatch(address)
    return address if match is None else match[1].strip("[]")


def _is_of_node(rule: Mapping[str, Any], name: Mapping[str, Any]) -> bool:
    """Return whether a target that is scraped is a node, and not a program on it: its job or its port says so."""
    targets, job = rule.get("targets"), name.get("job")
    if not targets or not (job or name.get("pod")):
        return True
    return re.search(targets, f"{job} {name.get('instance', '')}", re.IGNORECASE) is not None


def _runs(log: LogReader, values: Sequence[Any], line: int) -> Iterator[SampleRun]:
    """Yield the samples of a series as runs of equal values without a gap."""
    try:
        samples = np.array(values, dtype=np.float64).reshape(len(values), 2)
    except (ValueError, TypeError):
        log.drop("a series whose samples are no numbers", line)
        return
    missing = ~np.isfinite(samples).all(axis=1)
    if missing.any():
        log.drop("samples that are no number", line, int(missing.sum()))
        samples = samples[~missing]
    if not len(samples):
        return
    samples = samples[np.argsort(samples[:, 0], kind="stable")]
    times, level = samples.T
    try:
        for moment in (times[0], times[-1]):
            log.clock.plausible(float(moment), f"{moment:.0f}", line)
    except StrayError as error:
        log.drop(f"a series with {error}", line)
        return
    gaps = np.diff(times)
    step = float(np.median(gaps)) if len(gaps) else math.inf
    cuts = np.flatnonzero((np.diff(level) != 0) | (gaps > MISSED * step)) + 1
    log.source.saw(float(times[0]), float(times[-1]))
    for first, last in itertools.pairwise([0, *cuts.tolist(), len(times)]):
        yield SampleRun(float(times[first]), float(times[last - 1]), float(level[first]), step, log.file, line)


def _series(reading: ReaderContext) -> None:
    """Make faults and moments of change of all series, files joined."""
    metrics = reading.rules.prometheus["metrics"]
    states: dict[tuple[str, str], list[SampleRun]] = defaultdict(list)
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (metric, node, part), runs in reading.series.items():
        rule = metrics[metric]
        runs.sort()
        spans[node] += ((run.first, run.last + (MISSED * run.step if math.isfinite(run.step) else 0)) for run in runs)
        if rule["does"] == "state":
            states[metric, node] += runs
        else:
            _faults_of(reading, metric, rule, node, part, runs)
    for (metric, node), runs in states.items():
        _states_of(reading, metric, metrics[metric], node, sorted(runs))
    reading.tables.watched |= {node: _united(sorted(sampled)) for node, sampled in spans.items()}


def _united(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return stretches of time in order of their beginnings, those together that meet or overlap [s]."""
    stretches: list[tuple[float, float]] = []
    for first, last in spans:
        if stretches and first <= stretches[-1][1]:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], last)
        else:
            stretches.append((first, last))
    return stretches


def _faults_of(
    reading: ReaderContext, metric: str, rule: Mapping[str, Any], node: str, part: str, runs: Sequence[SampleRun]
) -> None:
    """Make a fault of each change of a code, or of each rise of a counter."""
    tables = reading.tables
    device, _, label = part.rpartition(" ") if "label" in rule else (part, "", "")
    for run, before, lo in _changes(runs, is_code=rule["does"] == "code"):
        if before is None:
            tables.drop(run.file, f"{metric}: what stood before the first sample", run.line, sort="normal")
            continue
        is_code = rule["does"] == "code"
        code = int(run.value) if is_code else int(label) if label.isdigit() else 0
        cause = reading.rules.of_xid.get(code, "gpu_other") if code else str(rule.get("cause", "gpu_other"))
        if cause == "application":
            tables.drop(run.file, f"{metric}: codes that programs cause", run.line, sort="normal")
            continue
        t, basis = max(run.first, lo), f"xid {code}" if code else metric
        severity: Any = "info" if code in reading.rules.harmless else rule.get("severity", "fatal")
        tables.events.append(
            NodeEvent("prometheus", t, t, node, cause, basis, run.file, run.line, "gpu", device, lo, severity=severity,
                  raw_count=1 if is_code else max(int(run.value - before), 1), is_fault=True)
        )  # fmt: skip


def _changes(runs: Iterable[SampleRun], *, is_code: bool) -> Iterator[tuple[SampleRun, float | None, float]]:
    """Yield the runs in which a code is another one, or a counter has risen, with the value before and its end [s]."""
    level, until = None, -math.inf
    for run in runs:
        if run.last <= until and level is not None:
            continue  # another file has these samples too
        before, lo = level, until
        level, until = run.value, max(run.last, until)
        if run.value > 0 and run.value != before and (is_code or run.value > (before or 0.0)):
            yield run, before, lo


def _states_of(
    reading: ReaderContext, metric: str, rule: Mapping[str, Any], node: str, runs: Sequence[SampleRun]
) -> None:
    """Make the moments at which a node goes and returns: it is there as long as any of its series says so."""
    good = float(rule.get("up", 1))
    bad = [run for run in runs if run.value != good]
    ups = _united((run.first, run.last) for run in runs if run.value == good)
    cause, planned = str(rule.get("cause", "unknown")), bool(rule.get("planned"))

    def keep(t: float, does: str, run: SampleRun, **more: Any) -> None:
        more.setdefault("planned", planned)
        reading.points.append(
            StateChange(
                "prometheus", t, math.nan, node, cause, metric, run.file, run.line, does=does, key=metric, **more
            )
        )

    edges = [-math.inf, *(end for _, end in ups)], [*(start for start, _ in ups), math.inf]
    for low, high in zip(*edges, strict=True):
        within = [run for run in bad if low < run.first < high or low < run.last < high]
        if within:
            first = within[0]
            begun_before = low == -math.inf
            # One that was out before the first sample is no failure that was seen; it only was not there.
            keep(first.first, "down", first, t_lo=math.nan if begun_before else low, planned=planned or begun_before)
            if high < math.inf:
                keep(high, "up", first)


# From moments of change to outages.


@dataclass
class _Node:
    """The state of a node on the way: the current outage, the last one that a mere answer ended, a reason."""

    out: NodeEvent | None = None
    keys: set[str] = field(default_factory=set)
    """The parts that are down during the outage."""
    answered: NodeEvent | None = None
    ended_by_job: NodeEvent | None = None
    reason: StateChange | None = None
    lines: set[tuple[float, str, str]] = field(default_factory=set)


def close(reading: ReaderContext) -> None:
    """Put outages into the tables, made of all moments of change that the files of a fit have."""
    close_by_jobs(reading)
    _series(reading)
    listed = _snapshots(reading)
    nodes: dict[str, _Node] = defaultdict(_Node)
    by_job: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    order = {"up": 0, "answers": 0, "runs": 0, "reason": 1, "down": 2}
    for point in sorted([*reading.points, *_runs_of_jobs(reading)], key=lambda point: (point.t, order[point.does])):
        node = nodes[point.node]
        change = point.t, point.does, point.key + point.cause_basis
        if change in node.lines:
            reading.tables.drop(point.file, "a change of state that is repeated", point.line, sort="normal")
            continue
        node.lines.add(change)
        if point.does == "down":
            _down(reading, node, point)
        elif point.does == "runs":
            if node.out is not None:
                by_job[node.out.file][0] += 1
                node.out.t_end, node.ended_by_job = point.t, node.out
                node.out = node.answered = None
        elif point.does == "reason":
            node.reason = point
            if node.out is not None:
                _learn(node.out, point)
        elif node.ended_by_job is not None:
            by_job[node.ended_by_job.file][1] += 1
            node.ended_by_job = None
        else:
            _up(reading, node, point)
    reading.tables.findings += [
        f"{file}: {number_of(count, 'outage')} without a return in the log end with the next job that started on the "
        f"node; of these {later:,} have a return later: files of the log are missing, or --timezone is wrong"
        for file, (count, later) in by_job.items()
    ]
    if not reading.tables.exposure:
        reading.tables.exposure += listed


def _runs_of_jobs(reading: ReaderContext) -> Iterator[StateChange]:
    """Return the start of the first job on a node after each moment at which it goes down."""
    downs = [point for point in reading.points if point.does == "down"]
    starts = JobStarts(reading, {point.node for point in downs})
    times = {(point.node, starts.after(point.node, point.t)) for point in downs}
    return (StateChange("", t, math.nan, node, "", "", "", 0, does="runs") for node, t in times if t < math.inf)


_NOT_RETURNED = (
    "lines take a node down that was down for more than a day and did not return in the log: if it was rotated, give "
    "all its files, or sacct, or repairs are too long"
)


def _down(reading: ReaderContext, node: _Node, point: StateChange) -> None:
    out, node.ended_by_job = node.out, None
    if out is not None and not out.planned and point.t - out.t > DAY:
        reading.tables.show(point.file, _NOT_RETURNED, point.line)
    if out is not None and (point.planned or not out.planned):
        node.keys.add(point.key)
        out.raw_count += 1
        _learn(out, point)
        return
    again = node.answered
    if again is not None and not math.isnan(again.t_end) and point.t - again.t_end <= AGAIN:
        again.t_end, node.out, node.keys, node.answered = math.nan, again, {point.key}, None
        _learn(again, point)
        return
    event = point.outage()
    if node.reason is not None and point.t - node.reason.t <= 5:
        _learn(event, node.reason)
    if out is None:
        node.keys = set()
    else:  # planned work that a failure cuts short; the node returns when both are over
        out.t_end = point.t
    node.keys.add(point.key)
    node.out, node.answered = event, None
    reading.tables.events.append(event)


def _learn(event: NodeEvent, point: StateChange) -> None:
    """Take a better cause, and the last kind of repair."""
    if event.cause in ("unknown", "not_responding") and point.cause != "unknown":
        event.cause, event.cause_basis = point.cause, point.cause_basis
    event.repair_kind = point.repair_kind or event.repair_kind
    event.planned = event.planned or (point.does == "reason" and point.planned and abs(point.t - event.t) <= 5)
    event.text = event.text or point.text


def _up(reading: ReaderContext, node: _Node, point: StateChange) -> None:
    out = node.out
    if out is None:
        if node.answered is not None and point.does == "up":
            node.answered.t_end, node.answered = point.t, None  # it answered, and stayed out until now
        elif point.does == "up" and not point.quiet:
            reading.tables.drop(point.file, "a return without its outage", point.line)
        return
    # A check that is healthy on the whole node is so on all its parts.
    node.keys = {key for key in node.keys if key != point.key and not key.startswith(f"{point.key} ")}
    if point.source == "slurmctld" or not node.keys:
        out.t_end = point.t
        node.out, node.answered = None, out if point.does == "answers" else None


def _items(log: LogReader) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of lists, of watches, and of lines."""
    for line, document in log.documents():
        for item in _listed(document):
            if isinstance(item, dict):
                yield line, _dict(item, "object") if "type" in item and "object" in item else item
            else:
                log.drop("no object", line)


def _listed(document: Any) -> list[Any]:
    items = document.get("items") if isinstance(document, dict) else document
    return items if isinstance(items, list) else [document]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an entry that is an object, or an empty one."""
    value = content.get(key)
    return value if isinstance(value, dict) else {}
