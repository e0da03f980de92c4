"""A scenario from slurm.conf and a topology: the cluster and its limits as Slurm has them, and what they do not say.

The files are read whole (`_lines`) and then resolved: nodes and their GPUs, sets of nodes, partitions, and leaves of a
topology. `site` says them in the keys of a scenario and lists what they leave open.

References
----------
SchedMD Slurm, manual pages slurm.conf(5), topology.conf(5) and topology.yaml(5).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import percent_text, ranges
from ettrick.sim import catalog
from ettrick.sim.records import HostLists, gres_gpus
from ettrick.sim.yamlfile import DocumentError, Mark, parse, plain, suggest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


class SlurmError(ValueError):
    """A file of Slurm that no cluster follows from; the message names file and line."""


@contextmanager
def _in_line(place: str) -> Iterator[None]:
    """Add the file and the line to what is wrong in it."""
    try:
        yield
    except ValueError as error:
        raise SlurmError(f"{place}: {error}") from None


class SlurmPartition(NamedTuple):
    """A partition: its name, its nodes, and its other settings as they are written."""

    name: str
    nodes: tuple[str, ...]
    settings: dict[str, str]


class SlurmConf(NamedTuple):
    """The content of slurm.conf.

    Parameters
    ----------
    gpus, types
        GPUs of each node [-], and of each type.
    future
        Nodes that do not exist yet.
    partitions
        In the order of the file.
    settings
        Those of the whole.
    absent
        Lines that include a file which is not there.
    """

    gpus: dict[str, int]
    types: dict[str, dict[str, int]]
    future: set[str]
    partitions: list[SlurmPartition]
    settings: dict[str, str]
    absent: list[str]


_Line = tuple[str, dict[str, str]]
"""File and line, and settings by key in lower case."""

_SETTING = re.compile(r"(\w+)\s*\+?=(\s*\"[^\"]*\"|\S+|\s+(?!\w+\s*=)\S+|)")
_NAMED = {"nodename", "nodeset", "partitionname", "switchname", "blockname"}
"""Keys of lines about one thing, of which all has to be understood."""


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise SlurmError(f"{file}: cannot be read ({error.strerror})") from None


def _lines(file: Path, absent: list[str], including: tuple[Path, ...] = ()) -> Iterator[_Line]:
    """Yield the settings of each line, and those of included files; lines that go on are one."""
    begin, continued = 0, ""
    for number, line in enumerate(_text_of(file).splitlines(), 1):
        begin = begin if continued else number
        text = re.sub(r"(?<!\\)#.*", "", line).strip()
        if text.endswith("\\"):
            continued += text[:-1] + " "
            continue
        text, continued = (continued + text).strip(), ""
        place = f"{file}:{begin}"
        if text.lower().startswith("include "):
            name = Path(text.split(None, 1)[1])
            target = next((path for path in (file.parent / name, file.parent / name.name) if path.is_file()), None)
            if target is None:
                absent.append(f"{place} includes {name}")
            elif target in (*including, file):
                raise SlurmError(f"{place}: {name} includes itself")
            else:
                yield from _lines(target, absent, (*including, file))
        elif text:
            settings = {key.lower(): value.strip().strip('"') for key, value in _SETTING.findall(text)}
            strange = _SETTING.sub("", text).strip()
            if strange and (not _SETTING.match(text) or settings.keys() & _NAMED):
                raise SlurmError(f"{place}: '{strange[:40]}' is not a setting such as Key=Value")
            yield place, settings


def _entries(lines: Sequence[_Line], key: str) -> Iterator[_Line]:
    """Yield the lines of a kind with the defaults that stand before them."""
    defaults: dict[str, str] = {}
    for place, line in lines:
        if line.get(key, "").upper() == "DEFAULT":
            defaults |= line
        elif key in line:
            if not line[key]:
                raise SlurmError(f"{place}: a line about a {key.removesuffix('name')} does not name one")
            yield place, defaults | line


def read(file: Path) -> SlurmConf:
    """Return what slurm.conf says; the order of its lines means nothing but for defaults.

    Raises
    ------
    SlurmError
        If it cannot be read, names no GPUs, or a line has another form.
    """
    slurm = SlurmConf({}, {}, set(), [], {}, [])
    lines = list(_lines(file, slurm.absent))
    sets = _nodes(lines, slurm)
    for place, line in _entries(lines, "partitionname"):
        with _in_line(place):
            slurm.partitions.append(_partition(line, sets, slurm))
    for place, line in lines:
        if line.keys().isdisjoint(("nodename", "nodeset", "partitionname")):
            if "gres" in line:
                raise SlurmError(f"{place}: Gres stands on a line without NodeName; a line that goes on ends in \\")
            slurm.settings.update(line)
    if not any(slurm.gpus.values()):
        raise SlurmError(f"{file}: no NodeName with Gres=gpu:N, so the GPUs are unknown{_hint(slurm)}")
    return slurm


def _hint(slurm: SlurmConf) -> str:
    """Return what may be the reason that a node is not there."""
    return f"; {slurm.absent[0]}, which is missing; copy it next to slurm.conf" if slurm.absent else ""


def _nodes(lines: Sequence[_Line], slurm: SlurmConf) -> dict[str, tuple[str, ...]]:
    """Enter the nodes with their GPUs, and return the sets of nodes by name; ALL is all of them."""
    hosts = HostLists()
    features: dict[str, list[str]] = {}
    for place, line in _entries(lines, "nodename"):
        with _in_line(place):
            gpus = gres_gpus(line.get("gres", ""))
            words = list(filter(None, line.get("feature", line.get("features", "")).split(",")))
            for name in hosts.expand(line["nodename"]):
                if name in slurm.gpus or name in slurm.future:
                    raise ValueError(f"node '{name}' is named twice")
                if line.get("state", "").upper() == "FUTURE":
                    slurm.future.add(name)
                    continue
                slurm.gpus[name], slurm.types[name] = sum(gpus.values()), gpus
                for word in words:
                    features.setdefault(word, []).append(name)
    sets = {"ALL": tuple(slurm.gpus)}
    for place, line in _entries(lines, "nodeset"):
        with _in_line(place):
            names = [name for word in line.get("feature", "").split(",") for name in features.get(word, ())]
            sets[line["nodeset"]] = (*names, *_resolved(line.get("nodes", ""), sets))
    return sets


def _resolved(text: str, sets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names of a list of hosts, in which sets of nodes may stand."""
    names = HostLists().expand(text)
    return [node for name in names for node in sets.get("ALL" if name.upper() == "ALL" else name, (name,))]


def _partition(line: dict[str, str], sets: Mapping[str, tuple[str, ...]], slurm: SlurmConf) -> SlurmPartition:
    """Return a partition, its settings checked."""
    names = dict.fromkeys(_resolved(line.get("nodes", ""), sets))
    for name in names:
        if name not in slurm.gpus and name not in slurm.future:
            raise ValueError(f"'{name}' is not a NodeName{suggest(name, slurm.gpus)}{_hint(slurm)}")
    _time(line, "MaxTime", "UNLIMITED")
    for key in ("PriorityTier", "PriorityJobFactor", "GraceTime"):
        _whole(line, key)
    return SlurmPartition(line["partitionname"], tuple(name for name in names if name in slurm.gpus), line)


class Leaves(NamedTuple):
    """Nodes with GPUs behind each leaf switch or in each block, names that are no node, and nodes behind two."""

    nodes: list[tuple[str, ...]]
    strange: tuple[str, ...]
    repeated: tuple[str, ...]


def leaves(file: Path, slurm: SlurmConf) -> Leaves:
    """Return the nodes behind each leaf switch, or in each block, in the order of the file; a node counts once.

    Raises
    ------
    SlurmError
        If a topology cannot be read, or puts no node of slurm.conf behind a switch.
    """
    is_yaml = file.suffix.lower() in (".yaml", ".yml") or re.match(r"(---\s*)?-\s*topology:", _text_of(file).lstrip())
    behind: dict[str, str] = {}
    repeated: dict[str, None] = {}
    for place, text in _of_yaml(file) if is_yaml else _of_conf(file, slurm.absent):
        with _in_line(place):
            for name in _resolved(text, {"ALL": tuple(slurm.gpus)}):
                if behind.setdefault(name, place) != place:
                    repeated[name] = None
    groups: dict[str, list[str]] = {}
    for name, place in behind.items():
        if slurm.gpus.get(name):
            groups.setdefault(place, []).append(name)
    if not groups:
        raise SlurmError(f"{file}: connects no node of slurm.conf to a switch or block")
    strange = tuple(name for name in behind if name not in slurm.gpus and name not in slurm.future)
    return Leaves([tuple(names) for names in groups.values()], strange, tuple(repeated))


def _of_conf(file: Path, absent: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the place and the nodes of each switch or block of a topology.conf."""
    for place, line in _lines(file, absent):
        if "nodes" in line and ("switchname" in line or "blockname" in line):
            yield place, line["nodes"]


def _of_yaml(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the nodes of each switch or block of the default topology of a topology.yaml."""
    try:
        topologies = plain(parse(_text_of(file), Mark(str(file))))
        default = next((topology for topology in topologies if topology.get("cluster_default") is True), topologies[0])
        name, members = next((key, default[kind][key]) for kind, key in _LEAVES.items() if kind in default)
        for number, member in enumerate(members, 1):
            nodes = member.get("nodes", "")
            yield f"{file}: {name} {number}", ",".join(map(str, nodes)) if isinstance(nodes, list) else str(nodes)
    except DocumentError as error:
        raise SlurmError(str(error)) from None
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError):
        raise SlurmError(f"{file}: its default topology has neither tree: switches nor block: blocks") from None


_LEAVES = {"tree": "switches", "block": "blocks"}
"""Kinds of topologies that have leaves, and the key of their members."""


class SlurmScenario(NamedTuple):
    """The files of Slurm in the keys of a scenario, and the keys that they leave open.

    Parameters
    ----------
    nodes
        Names of the nodes of the cluster: those with the most common number of GPUs, by switch with a topology.
    queues
        Partitions that take jobs, the default one first.
    strange
        Names in what is assumed that are no nodes of the cluster.
    settings
        Those of slurm.conf as a whole.
    """

    nodes: tuple[str, ...]
    cluster: dict[str, Any]
    scheduler: dict[str, Any]
    queues: tuple[SlurmPartition, ...]
    priority: dict[str, int]
    assumed: list[str]
    strange: tuple[str, ...]
    settings: dict[str, str]

    def contradictions(self, names: Sequence[str]) -> list[str]:
        """Return which nodes of logs and inventory slurm.conf has not among those of the cluster, and the reverse."""
        count = f"{len(self.nodes):,} nodes of {self.cluster['gpus_per_node']} GPUs that slurm.conf has"
        missing = {
            f"of the logs or the inventory: not among the {count}": set(names) - set(self.nodes),
            "of slurm.conf: in no log and in no inventory": set(self.nodes) - set(names),
        }
        return [f"{_named(nodes, 'node', 'nodes')} {text}" for text, nodes in missing.items() if nodes]

    def partitions(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the partitions as a scenario states them, with the numbers that their nodes have among some names."""
        number, entries = {name: at for at, name in enumerate(names)}, []
        for part in self.queues:
            numbers = sorted(number[node] for node in set(part.nodes) if node in number)
            if not numbers:
                continue
            nodes, tier = ranges(numbers) if len(numbers) < len(names) else "", _whole(part.settings, "PriorityTier", 1)
            limit = _time(part.settings, "MaxTime", "UNLIMITED")
            entries.append(_stated(name=part.name, nodes=nodes, tier=None if tier == 1 else tier, limit=limit))
        return entries


def _stated(**entries: Any) -> dict[str, Any]:
    """Return entries without those that have no value; zero is one."""
    return {key: value for key, value in entries.items() if value not in (None, "")}


_DAYS = re.compile(r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?")


def _time(settings: Mapping[str, str], key: str, usual: str) -> str:
    """Return a time of Slurm as a scenario states it; nothing for one without end.

    It is written as minutes, minutes:seconds, hours:minutes:seconds, or with days before a dash.
    """
    text = settings.get(key.lower(), usual)
    if text.upper() in ("UNLIMITED", "INFINITE", "-1", "NONE"):
        return ""
    days = _DAYS.fullmatch(text)
    parts = [int(part or 0) for part in days.groups()] if days else []
    if not days:
        if not re.fullmatch(r"\d+(:\d+){0,2}", text):
            raise ValueError(f"{key}: '{text}' is not a time such as 7-00:00:00")
        short = [int(part) for part in text.split(":")]
        parts = [0, *short] if len(short) == 3 else [0, 0, *short, *([0] if len(short) == 1 else [])]
    seconds = sum(value * size for value, size in zip(parts, (86400, 3600, 60, 1), strict=True))
    unit, size = next((row for row in (("d", 86400), ("h", 3600), ("min", 60)) if seconds % row[1] == 0), ("s", 1))
    return f"{seconds // size} {unit}"


def _whole(settings: Mapping[str, str], key: str, usual: int = 0) -> int:
    """Return a whole number of some settings."""
    text = settings.get(key.lower(), f"{usual}")
    if not text.isdecimal():
        raise ValueError(f"{key}: '{text}' is not a whole number")
    return int(text)


def site(slurm: Path, topology: Path | None = None, accelerator: str = "") -> SlurmScenario:
    """Return what the files say of cluster, partitions and scheduler.

    Parameters
    ----------
    accelerator
        What the GPUs are, where Gres does not say it; nothing to go by Gres alone.
    """
    conf = read(slurm)
    assumed: list[str] = []
    sizes = Counter(count for count in conf.gpus.values() if count)
    per_node = max(sizes, key=lambda count: (sizes[count], count))
    nodes = tuple(node for node, count in conf.gpus.items() if count == per_node)
    cluster: dict[str, Any] = {"nodes": len(nodes), "gpus_per_node": per_node}
    cluster |= _accelerator([conf.types[node] for node in nodes], accelerator, assumed)
    left_out = [f"{number:,} with {count} GPUs" for count, number in sizes.items() if count != per_node]
    if left_out:
        assumed.append(f"the cluster is the {len(nodes):,} nodes with {per_node} GPUs; left out: {', '.join(left_out)}")
    if conf.future:
        assumed.append(f"{_named(conf.future, 'node', 'nodes')} of slurm.conf: State=FUTURE, left out")
    names: tuple[str, ...] = tuple(conf.future)
    if topology is not None:
        behind = leaves(topology, conf)
        names += behind.strange
        nodes = _by_leaf(topology.name, behind, nodes, cluster, assumed)
    else:
        assumed.append("the fabric: no topology.conf")
    assumed += [f"{line}, which is not there and was not read" for line in conf.absent]
    queues = _open_queues(conf, nodes, assumed)
    try:
        scheduler, priorities = _scheduler(conf, queues, assumed), _priorities(conf, queues)
    except ValueError as error:
        raise SlurmError(f"{slurm}: {error}") from None
    if topology is not None:
        scheduler["pack"] = "leaf"
    return SlurmScenario(nodes, cluster, scheduler, tuple(queues), priorities, assumed, names, conf.settings)


def _open_queues(conf: SlurmConf, nodes: Collection[str], assumed: list[str]) -> list[SlurmPartition]:
    """Return the partitions that take jobs on some nodes, the default one first; the others are among the assumed."""
    queues, closed = [], []
    for part in sorted(conf.partitions, key=lambda part: part.settings.get("default", "").upper() != "YES"):
        state = part.settings.get("state", "UP").upper()
        if state == "UP" and set(part.nodes).intersection(nodes):
            queues.append(part)
        else:
            closed.append(f"{part.name} ({state if state != 'UP' else 'none of these nodes'})")
    if closed:
        assumed.append(f"partitions that are left out: {', '.join(closed)}")
    return queues


def _named(names: Collection[str], singular: str, plural: str) -> str:
    """Return how many names there are, and the first of them."""
    first = ", ".join(sorted(names)[:5])
    return f"{len(names):,} {singular if len(names) == 1 else plural} ({first}{', ...' if len(names) > 5 else ''})"


def _accelerator(types: Sequence[Mapping[str, int]], stated: str, assumed: list[str]) -> dict[str, str]:
    """Return the key for what the GPUs of some nodes are; what Gres says otherwise is added to what is assumed.

    Raises
    ------
    SlurmError
        If Gres names another accelerator than the one that is stated.
    """
    kinds = Counter(kind for gpus in types for kind in gpus)
    instances = [kind for kind in kinds if re.search(r"\d+g\.\d+gb", kind)]
    if instances:
        assumed.append(f"each instance of MIG is a GPU: Gres names {', '.join(instances)}")
    accelerator = _shipped(kinds.most_common(1)[0][0], stated)
    strange = [f"'{kind}' ({count:,} nodes)" for kind, count in kinds.items() if kind and kind != accelerator]
    if not accelerator:
        what = f"Gres names the type {' and '.join(strange)}" if strange else "Gres has no type"
        assumed.append(f"the accelerator: {what}; --accelerator of ettrick init states one of ettrick list")
        return {}
    if strange:
        assumed.append(f"GPUs of the type {' and '.join(strange)} count as {accelerator}")
    return {"accelerator": accelerator}


def _shipped(kind: str, stated: str) -> str:
    """Return the accelerator that is stated, or that a type is; nothing if none that comes with Ettrick is."""
    shipped = catalog.accelerators()
    if stated and stated not in shipped:
        raise SlurmError(f"--accelerator: unknown accelerator '{stated}'{suggest(stated, shipped)}")
    if stated and kind in shipped and kind != stated:
        raise SlurmError(f"--accelerator {stated}: Gres names the type {kind}; leave the option out")
    return stated or (kind if kind in shipped else "")


def _by_leaf(
    file: str, behind: Leaves, nodes: tuple[str, ...], cluster: dict[str, Any], assumed: list[str]
) -> tuple[str, ...]:
    """Return the nodes by leaf, and enter the leaves into the cluster."""
    sizes = Counter(map(len, behind.nodes))
    size = max(sizes, key=lambda size: (sizes[size], size))
    cluster["fabric"] = {"leaf": {"nodes": size}}
    place = {node: at for at, node in enumerate(node for leaf in behind.nodes for node in leaf)}
    leaves_text = f"{len(behind.nodes)} leaves or blocks, most of {size} nodes"
    assumed.append(f"rails, ports and speeds of the switches: {file} has {leaves_text}")
    if behind.strange:
        assumed.append(f"{_named(behind.strange, 'name', 'names')} of {file}: no NodeName of slurm.conf")
    if behind.repeated:
        assumed.append(f"{_named(behind.repeated, 'node', 'nodes')} of {file}: behind two switches; the first counts")
    lonely = [node for node in nodes if node not in place]
    if lonely:
        assumed.append(f"{_named(lonely, 'node', 'nodes')} of slurm.conf: behind no switch of {file}")
    return tuple(sorted(nodes, key=lambda node: place.get(node, len(place))))


def _priorities(conf: SlurmConf, queues: Sequence[SlurmPartition]) -> dict[str, int]:
    """Return PriorityWeightPartition times the factor of each partition, which is relative to the largest."""
    factors = {part.name: _whole(part.settings, "PriorityJobFactor", 1) for part in queues}
    weight, most = _whole(conf.settings, "PriorityWeightPartition"), max(factors.values(), default=1) or 1
    return {name: round(weight * factor / most) for name, factor in factors.items()} if weight else {}


_PARAMETERS = {
    "bf_interval": ("backfill_cycle", "s"),
    "bf_max_job_test": ("tested", ""),
    "bf_window": ("window", "min"),
    "bf_resolution": ("resolution", "s"),
}
"""Words of SchedulerParameters that the scheduler has keys for, with their unit."""

_OTHERS = (
    "preempt_reorder_count", "preempt_youngest_first",
    "bf_continue", "bf_yield_interval", "bf_yield_sleep", "bf_max_time", "max_rpc_cnt", "sched_min_interval",
)  # fmt: skip
"""The settings of preemption, and those by which slurmctld divides its own time."""


def _scheduler(conf: SlurmConf, queues: Sequence[SlurmPartition], assumed: list[str]) -> dict[str, Any]:
    """Return the scheduler as a scenario states it; what it has no key for is added to what is assumed."""
    settings = conf.settings
    backfills = settings.get("schedulertype", "sched/backfill").lower() != "sched/builtin"
    keys: dict[str, Any] = {"use": "slurm" if backfills else "fifo"}
    words = dict(word.partition("=")[::2] for word in settings.get("schedulerparameters", "").split(",") if word)
    keys |= _backfill(words) if backfills else {}
    if "preempt_reorder_count" in words:
        _whole(words, "preempt_reorder_count")
    keys["order"] = _order(settings, assumed)
    keys |= _preemption(conf, queues, words, assumed)
    keys |= _limits(settings)
    assumed += [text for key, value, text in _OTHERWISE if settings.get(key, "").lower() == value]
    stated = {key for part in queues for key in part.settings} | settings.keys()
    left_out = [name for name in _LEFT_OUT if name.lower() in stated]
    left_out += [word for word in words if word not in (*_PARAMETERS, *_OTHERS)]
    if left_out:
        assumed.append(f"settings that are not in the model: {', '.join(left_out)}")
    return keys


def _backfill(words: Mapping[str, str]) -> dict[str, Any]:
    """Return what SchedulerParameters say of backfill."""
    rows = ((*_PARAMETERS[word], _whole(words, word)) for word in words if word in _PARAMETERS)
    return {key: f"{number} {unit}" if unit else number for key, unit, number in rows}


_OTHERWISE = (
    ("jobrequeue", "0", "JobRequeue=0: here jobs that lose a node are queued again"),
    ("selecttype", "select/linear", "SelectType=select/linear gives every job whole nodes: here jobs below a node "
     "share them"),
)  # fmt: skip
"""Settings with values that are not simulated, and what is instead."""


def _limits(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return what happens to a job at its time limit, and where jobs below a node go."""
    keys: dict[str, Any] = {}
    if settings.get("overtimelimit", "").upper() == "UNLIMITED":
        keys["at_limit"] = "run on"
    elif _whole(settings, "OverTimeLimit"):
        keys["overtime"] = f"{_whole(settings, 'OverTimeLimit')} min"
    if "LLN" in settings.get("selecttypeparameters", "").upper():
        keys["share_nodes"] = "spread"
    return keys


def _preemption(
    conf: SlurmConf, queues: Sequence[SlurmPartition], words: Mapping[str, str], assumed: list[str]
) -> dict[str, Any]:
    """Return who takes the nodes of whom, as a scenario states it; nothing without preemption."""
    settings = conf.settings
    mode, kind = settings.get("preemptmode", "OFF").upper(), settings.get("preempttype", "preempt/none").lower()
    if kind == "preempt/none" or mode == "OFF":
        return {}
    effect = next((word for word in ("REQUEUE", "CANCEL") if word in mode), "")
    if not effect:
        assumed.append(f"no preemption: PreemptMode={settings['preemptmode']} stops jobs and keeps their nodes")
        return {}
    who = "tier" if kind == "preempt/partition_prio" else "priority"
    exempt = _time(settings, "PreemptExemptTime", "-1")
    seconds = max((_whole(part.settings, "GraceTime") for part in queues), default=0)
    grace = f"{seconds} s" if seconds else None
    if kind == "preempt/qos":
        assumed.append(
            "which jobs may preempt which: PreemptType=preempt/qos is in the accounting database; priority decides"
        )
    deviating = [part.name for part in queues if part.settings.get("preemptmode", mode).upper() != mode]
    if deviating:
        assumed.append(f"PreemptMode of partitions of their own is not in the model: {', '.join(deviating)}")
    order = "youngest" if "preempt_youngest_first" in words else None
    reorder = _whole(words, "preempt_reorder_count") if "preempt_reorder_count" in words else None
    return {"preempt": _stated(mode=effect.lower(), who=who, reorder=reorder, exempt=exempt, grace=grace, order=order)}


_LEFT_OUT = (
    "MaxNodes", "MinNodes", "QOS", "AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos",
    "ExclusiveUser", "OverSubscribe", "LLN", "PriorityWeightQOS", "PriorityWeightTRES", "PriorityWeightAssoc",
    "PriorityFlags", "PriorityUsageResetPeriod", "AccountingStorageEnforce",
)  # fmt: skip
"""The settings that change who waits and have no key: limits and preferences of partitions, users and accounts."""


def _order(settings: Mapping[str, str], assumed: list[str]) -> dict[str, Any]:
    """Return the weights of the order of the queue; those that slurm.conf does not state are zero."""
    if settings.get("prioritytype", "priority/multifactor").lower() == "priority/basic":
        return {"age": {"weight": 0}}
    age, size, share = (_whole(settings, f"PriorityWeight{name}") for name in ("Age", "JobSize", "Fairshare"))
    full = _time(settings, "PriorityMaxAge", "7-0")
    order: dict[str, Any] = {"age": _stated(weight=age, full=full if age else None)}
    if size:
        favours = "small" if settings.get("priorityfavorsmall", "NO").upper() == "YES" else "large"
        order["size"] = {"weight": size, "favours": favours}
    if share:
        half, every = _time(settings, "PriorityDecayHalfLife", "7-0"), _time(settings, "PriorityCalcPeriod", "5")
        order["fair_share"] = {"weight": share, **_stated(half_life=half if half != "0 d" else None), "every": every}
        assumed.append("shares of tenants: equal; those of accounts are in the accounting database (sshare)")
    return order


LOAD = 0.7
"""Share of the GPUs that the jobs of a new scenario ask for [-]; assumed."""


def scenario(
    slurm: Path, topology: Path | None, accelerator: str, name: str, failures: str, recovery: str, horizon: str
) -> tuple[str, SlurmScenario]:
    """Return the text of a scenario, and what it was made of.

    Parameters
    ----------
    slurm, topology
        The files; without the second, switches are assumed.
    accelerator
        What the GPUs are, where Gres does not say it; nothing to go by Gres alone.

    Raises
    ------
    SlurmError
        If a file cannot be used.
    sim.ScenarioError
        If what is asked for is no scenario.
    """
    slurm_site = site(slurm, topology, accelerator)
    settings = slurm_site.settings
    tier = {"interval": "30 min", "mode": "async", "stall": "5 s", "write": "1 min", "restore": "1 min"}
    content = {
        "name": name,
        "description": f"{len(slurm_site.nodes):,} nodes as {slurm.name} has them.",
        "cluster": slurm_site.cluster,
        "horizon": horizon,
        **_stated(partitions=slurm_site.partitions(slurm_site.nodes) or None),
        "streams": _jobs(slurm_site),
        "scheduler": slurm_site.scheduler,
        "failures": [{"use": failures}],
        **_detection(settings.get("slurmdtimeout", ""), recovery),
        "checkpoint": {"tiers": [tier]},
        "recovery": {"use": recovery},
        "repair": {"time": "1 d"},
        "assumptions": [*_assumptions(failures), *slurm_site.assumed],
    }
    sim.parse(content)
    return "\n".join([*_head(slurm, topology, settings), sim.dump(content)]), slurm_site


def _head(slurm: Path, topology: Path | None, settings: Mapping[str, str]) -> list[str]:
    """Return the comment with which a new scenario begins."""
    keys = ("ClusterName", "SchedulerType", "PriorityType", "PreemptType", "SelectType", "SlurmdTimeout", "JobRequeue")
    stated = [f"# {key}={settings[key.lower()]}" for key in keys if key.lower() in settings]
    return [f"# From {slurm.name}" + (f" and {topology.name}" if topology else "") + ".", "#", *stated]


def _assumptions(failures: str) -> list[str]:
    """Return what a new scenario takes for granted, for no file of Slurm says it."""
    return [
        f"the jobs: {percent_text(LOAD, 0)} of the GPUs, jobs of one node to a quarter of the partition, for 2 h "
        "at the median, limit 7 d without MaxTime: in no file of Slurm; ettrick fit --slurm-conf has yours",
        "a checkpoint stalls a job 5 s every 30 min: in no file of Slurm",
        f"failures as in {failures}: replace them by those of your logs (ettrick fit)",
        "repair 1 d: in no file of Slurm",
    ]


def _jobs(site: SlurmScenario) -> list[dict[str, Any]]:
    """Return a stream for each partition, which together ask for a share of the GPUs; each node counts once."""
    inside = Counter(node for part in site.queues for node in set(part.nodes).intersection(site.nodes))
    streams = []
    for part in site.queues or (SlurmPartition("", site.nodes, {}),):
        nodes = set(part.nodes).intersection(site.nodes)
        streams.append({
            "name": part.name or "jobs",
            **job_mix(site.cluster["gpus_per_node"], len(nodes), sum(1 / inside.get(node, 1) for node in nodes)),
            "limit": _time(part.settings, "MaxTime", "UNLIMITED") or "7 d",
            **_stated(priority=site.priority.get(part.name), partition=part.name),
        })  # fmt: skip
    return streams


def job_mix(per_node: int, nodes: int, owned: float) -> dict[str, Any]:
    """Return arrivals, sizes and work of jobs that ask for a share of the GPUs of `owned` nodes.

    Sizes are powers of two nodes, up to a quarter of all nodes; the larger, the less frequent.
    """
    sizes = [per_node << power for power in range(max(nodes // 4, 1).bit_length())]
    weights = {size: 1 / (place + 1) for place, size in enumerate(sizes)}
    mean = sum(size * weight for size, weight in weights.items()) / sum(weights.values())
    work = 2 * 3600 * math.exp(1.2**2 / 2)
    return {
        "arrivals": {"rate": f"{float(f'{86400 * LOAD * per_node * owned / (mean * work):.3g}'):g} per day"},
        "gpus": {str(size): round(weight, 3) for size, weight in weights.items()},
        "work": {"use": "lognormal", "median": "2 h", "sigma": 1.2},
    }


def _detection(timeout: str, recovery: str) -> dict[str, object]:
    """Return a preset's detection with SlurmdTimeout [s] as stated; nothing where the preset is right as it is."""
    preset = catalog.recovery(recovery).get("detection") if recovery in catalog.recoveries() else None
    if preset is None:
        return {"detection": {"time": f"{timeout or 300} s"}}
    if not timeout:
        return {}
    stated = {"slurm": {"timeout": f"{timeout} s"}}
    observers = [observer | stated.get(observer["use"], {}) for observer in preset["observers"]]
    return {"detection": {**preset, "observers": observers}}
