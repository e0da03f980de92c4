"""A scenario from slurm.conf and topology.conf: the cluster and its limits as Slurm has them, and what they do not say.

References
----------
SchedMD Slurm, manual pages slurm.conf(5) and topology.conf(5).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.amounts import percent_text, ranges
from sim import catalog
from sim.records import HostLists
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_GPUS = re.compile(r"(?:^|,)gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\([^)]*\))?(?=,|$)", re.IGNORECASE)


class SlurmError(ValueError):
    """A file of Slurm that no cluster follows from; the message names file and line."""


class Partition(NamedTuple):
    """A partition: its name, its nodes, and its other settings as they are written."""

    name: str
    nodes: tuple[str, ...]
    settings: dict[str, str]


class Slurm(NamedTuple):
    """What slurm.conf says: GPUs and their type by node, partitions in order, and settings of the whole."""

    gpus: dict[str, int]
    types: dict[str, str]
    partitions: list[Partition]
    settings: dict[str, str]


def _lines(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the settings of each line, keys in lower case; lines that go on are one."""
    try:
        raw = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise SlurmError(f"{file}: cannot be read ({error.strerror})") from None
    held, begin = "", 0
    for number, line in enumerate(raw, 1):
        begin = begin if held else number
        text = re.sub(r"(?<!\\)#.*", "", line).strip()
        if text.endswith("\\"):
            held += text[:-1] + " "
            continue
        text, held = (held + text).strip(), ""
        place = f"{file}:{begin}"
        if text.lower().startswith("include "):
            other = Path(text.split(None, 1)[1])
            yield from _lines(other if other.is_absolute() else file.parent / other)
        elif text:
            pairs = re.findall(r"(\w+)\s*=\s*(\"[^\"]*\"|\S+)", text)
            if not pairs or not re.match(r"\w+\s*=", text):
                raise SlurmError(f"{place}: '{text[:40]}' is no setting such as Key=Value")
            yield place, {key.lower(): value.strip('"') for key, value in pairs}


def read(file: Path) -> Slurm:
    """Return what slurm.conf says.

    Raises
    ------
    SlurmError
        If it cannot be read, names no node, or a list of hosts is not one.
    """
    hosts, found = HostLists(), Slurm({}, {}, [], {})
    node_defaults: dict[str, str] = {}
    partition_defaults: dict[str, str] = {}
    features: dict[str, list[str]] = {}
    sets: dict[str, list[str]] = {}
    for place, line in _lines(file):
        try:
            if "nodename" in line:
                if line["nodename"] == "DEFAULT":
                    node_defaults = line
                    continue
                line = node_defaults | line
                if line.get("state", "").upper() == "FUTURE":
                    continue
                gres = line.get("gres", "")
                kinds = [(kind.lower(), int(count or 1)) for kind, count in _GPUS.findall(gres)]
                for name in hosts.expand(line["nodename"]):
                    found.gpus[name] = sum(count for _, count in kinds)
                    found.types[name] = kinds[0][0] if kinds else ""
                    for feature in filter(None, line.get("feature", line.get("features", "")).split(",")):
                        features.setdefault(feature, []).append(name)
            elif "nodeset" in line:
                sets[line["nodeset"]] = features.get(line.get("feature", ""), []) + list(
                    hosts.expand(line.get("nodes", ""))
                )
            elif "partitionname" in line:
                if line["partitionname"] == "DEFAULT":
                    partition_defaults = line
                    continue
                line = partition_defaults | line
                nodes = line.get("nodes", "")
                names = tuple(found.gpus) if nodes.upper() == "ALL" else hosts.expand(nodes)
                names = tuple(node for name in names for node in sets.get(name, (name,)))
                for strange in sorted(set(names) - set(found.gpus))[:1]:
                    raise ValueError(f"'{strange}' is no NodeName{suggest(strange, found.gpus)}")  # noqa: TRY301
                _time(line, "MaxTime", "UNLIMITED")
                for key in ("PriorityTier", "PriorityJobFactor", "GraceTime"):
                    _whole(line, key)
                found.partitions.append(Partition(line["partitionname"], names, line))
            else:
                found.settings.update(line)
        except ValueError as error:
            raise SlurmError(f"{place}: {error}") from None
    if not any(found.gpus.values()):
        raise SlurmError(f"{file}: no NodeName with Gres=gpu:N, so it says of no GPUs")
    return found


def blocks(file: Path, gpus: dict[str, int]) -> list[tuple[str, ...]]:
    """Return the GPU nodes behind each leaf switch, or in each block, in order of the file.

    Raises
    ------
    SlurmError
        If topology.conf cannot be read, or puts no node of slurm.conf behind a switch.
    """
    hosts, found = HostLists(), []
    for place, line in _lines(file):
        if "nodes" in line and ("switchname" in line or "blockname" in line):
            try:
                found.append(tuple(name for name in hosts.expand(line["nodes"]) if gpus.get(name)))
            except ValueError as error:
                raise SlurmError(f"{place}: {error}") from None
    if not any(found):
        raise SlurmError(f"{file}: puts no node of slurm.conf behind a switch or into a block")
    return [leaf for leaf in found if leaf]


class Site(NamedTuple):
    """What the files of Slurm say in the keys of a scenario, and what they leave open.

    Parameters
    ----------
    nodes
        Names of the nodes of the cluster: those with the most common number of GPUs, by switch with a topology.
    queues
        Partitions that take jobs, the default one first.
    """

    nodes: tuple[str, ...]
    cluster: dict[str, Any]
    scheduler: dict[str, Any]
    queues: tuple[Partition, ...]
    priority: dict[str, int]
    assumed: list[str]

    def partitions(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the partitions as a scenario states them, with the numbers that their nodes have among some names."""
        number, found = {name: at for at, name in enumerate(names)}, []
        for part in self.queues:
            mine = sorted(number[node] for node in set(part.nodes) if node in number)
            if not mine:
                continue
            entry: dict[str, Any] = {"name": part.name}
            if len(mine) < len(names):
                entry["nodes"] = ranges(mine)
            tier = _whole(part.settings, "PriorityTier", 1)
            if tier != 1:
                entry["tier"] = tier
            limit = _time(part.settings, "MaxTime", "UNLIMITED")
            found.append({**entry, "limit": limit} if limit else entry)
        return found


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
            raise ValueError(f"{key}: '{text}' is no time such as 7-00:00:00")
        short = [int(part) for part in text.split(":")]
        parts = [0, *short] if len(short) == 3 else [0, 0, *short, *([0] if len(short) == 1 else [])]
    seconds = sum(value * size for value, size in zip(parts, (86400, 3600, 60, 1), strict=True))
    unit, size = next((each for each in (("d", 86400), ("h", 3600), ("min", 60)) if seconds % each[1] == 0), ("s", 1))
    return f"{seconds // size} {unit}"


def _whole(settings: Mapping[str, str], key: str, usual: int = 0) -> int:
    """Return a whole number of some settings."""
    text = settings.get(key.lower(), f"{usual}")
    if not text.isdecimal():
        raise ValueError(f"{key}: '{text}' is no whole number")
    return int(text)


def site(slurm: Path, topology: Path | None = None) -> Site:
    """Return what the files say of cluster, partitions and scheduler."""
    found = read(slurm)
    assumed: list[str] = []
    sizes = Counter(count for count in found.gpus.values() if count)
    per_node = max(sizes, key=lambda count: (sizes[count], count))
    nodes = tuple(node for node, count in found.gpus.items() if count == per_node)
    cluster: dict[str, Any] = {"nodes": len(nodes), "gpus_per_node": per_node}
    kind = Counter(found.types[node] for node in nodes).most_common(1)[0][0]
    if kind in catalog.accelerators():
        cluster["accelerator"] = kind
    else:
        assumed.append(
            f"the accelerator: Gres names the type '{kind}'" if kind else "the accelerator: Gres has no type"
        )
    left_out = Counter({count: number for count, number in sizes.items() if count != per_node})
    if left_out:
        text = ", ".join(f"{number} with {count} GPUs" for count, number in left_out.items())
        assumed.append(f"the cluster is the {len(nodes):,} nodes with {per_node} GPUs; left out: {text}")
    if topology is not None:
        behind = blocks(topology, found.gpus)
        size, count = Counter(map(len, behind)).most_common(1)[0][0], len(behind)
        cluster["fabric"] = {"leaf": {"nodes": size}}
        place = {node: at for at, node in enumerate(node for leaf in behind for node in leaf)}
        nodes = tuple(sorted(nodes, key=lambda node: place.get(node, len(place))))
        assumed.append(
            f"rails, ports and speeds of the switches: topology.conf has {count} leaves or blocks, most of {size} nodes"
        )
    else:
        assumed.append("the fabric: no topology.conf")
    queues, closed = [], []
    for part in sorted(found.partitions, key=lambda each: each.settings.get("default", "").upper() != "YES"):
        state = part.settings.get("state", "UP").upper()
        if state != "UP":
            closed.append(f"{part.name} ({state})")
        elif set(part.nodes).intersection(nodes):
            queues.append(part)
        else:
            closed.append(f"{part.name} (none of these nodes)")
    if closed:
        assumed.append(f"partitions that are left out: {', '.join(closed)}")
    try:
        scheduler, priorities = _scheduler(found, queues, assumed), _priorities(found, queues)
    except ValueError as error:
        raise SlurmError(f"{slurm}: {error}") from None
    if topology is not None:
        scheduler["pack"] = "leaf"
    return Site(nodes, cluster, scheduler, tuple(queues), priorities, assumed)


def _priorities(found: Slurm, queues: Sequence[Partition]) -> dict[str, int]:
    """Return PriorityWeightPartition times the factor of each partition, which is relative to the largest."""
    factors = {part.name: _whole(part.settings, "PriorityJobFactor", 1) for part in queues}
    weight, most = _whole(found.settings, "PriorityWeightPartition"), max(factors.values(), default=1) or 1
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
"""Those of preemption, and those that say how slurmctld divides its own time."""


def _scheduler(found: Slurm, queues: Sequence[Partition], assumed: list[str]) -> dict[str, Any]:
    """Return the scheduler as a scenario states it; what it has no key for is added to what is assumed."""
    said = found.settings
    backfills = said.get("schedulertype", "sched/backfill").lower() != "sched/builtin"
    keys: dict[str, Any] = {"use": "slurm" if backfills else "fifo"}
    words = dict(word.partition("=")[::2] for word in said.get("schedulerparameters", "").split(",") if word)
    for word, value in words.items():
        if word in _PARAMETERS and backfills:
            key, unit = _PARAMETERS[word]
            number = _whole({word: value}, word)
            keys[key] = f"{number} {unit}" if unit else number
    reorder = {"reorder": _whole(words, "preempt_reorder_count")} if "preempt_reorder_count" in words else {}
    keys["order"] = _order(said, assumed)
    mode = said.get("preemptmode", "OFF").upper()
    kind = said.get("preempttype", "preempt/none").lower()
    if kind != "preempt/none" and mode != "OFF":
        known = next((word for word in ("REQUEUE", "CANCEL") if word in mode), "")
        if not known:
            assumed.append(f"no preemption: PreemptMode={said['preemptmode']} stops jobs and keeps their nodes")
        else:
            keys["preempt"] = {
                "mode": known.lower(),
                "who": "tier" if kind == "preempt/partition_prio" else "priority",
                **reorder,
            }
            exempt = _time(said, "PreemptExemptTime", "-1")
            grace = max((_whole(part.settings, "GraceTime") for part in queues), default=0)
            keys["preempt"] |= {**({"exempt": exempt} if exempt else {}), **({"grace": f"{grace} s"} if grace else {})}
            if "preempt_youngest_first" in words:
                keys["preempt"]["order"] = "youngest"
            if kind == "preempt/qos":
                assumed.append(
                    "who may preempt whom: PreemptType=preempt/qos is in the accounting database; priority decides"
                )
            own = [part.name for part in queues if part.settings.get("preemptmode", mode).upper() != mode]
            if own:
                assumed.append(f"PreemptMode of partitions of their own is not in the model: {', '.join(own)}")
    if said.get("overtimelimit", "").upper() == "UNLIMITED":
        keys["at_limit"] = "run on"
    elif _whole(said, "OverTimeLimit"):
        keys["overtime"] = f"{_whole(said, 'OverTimeLimit')} min"
    if "LLN" in said.get("selecttypeparameters", "").upper():
        keys["share_nodes"] = "spread"
    if said.get("jobrequeue", "1") == "0":
        assumed.append("JobRequeue=0: here jobs that lose a node are queued again")
    if said.get("selecttype", "").lower() == "select/linear":
        assumed.append("SelectType=select/linear gives every job whole nodes: here jobs below a node share them")
    stated = {key for part in queues for key in part.settings} | said.keys()
    left_out = [name for name in _LEFT_OUT if name.lower() in stated]
    left_out += [word for word in words if word not in (*_PARAMETERS, *_OTHERS)]
    if left_out:
        assumed.append(f"settings that are not in the model: {', '.join(left_out)}")
    return keys


_LEFT_OUT = (
    "MaxNodes", "MinNodes", "QOS", "AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos",
    "ExclusiveUser", "OverSubscribe", "LLN", "PriorityWeightQOS", "PriorityWeightTRES", "PriorityWeightAssoc",
    "PriorityFlags", "PriorityUsageResetPeriod", "AccountingStorageEnforce",
)  # fmt: skip
"""What changes who waits and has no key: limits and preferences of partitions, users and accounts."""


def _order(said: Mapping[str, str], assumed: list[str]) -> dict[str, Any]:
    """Return the weights of the order of the queue; those that slurm.conf does not state are zero."""
    if said.get("prioritytype", "priority/multifactor").lower() == "priority/basic":
        return {"age": {"weight": 0}}
    age, size, share = (_whole(said, f"PriorityWeight{name}") for name in ("Age", "JobSize", "Fairshare"))
    order: dict[str, Any] = {"age": {"weight": age}}
    full = _time(said, "PriorityMaxAge", "7-0")
    if age and full:
        order["age"]["full"] = full
    if size:
        favours = "small" if said.get("priorityfavorsmall", "NO").upper() == "YES" else "large"
        order["size"] = {"weight": size, "favours": favours}
    if share:
        half, every = _time(said, "PriorityDecayHalfLife", "7-0"), _time(said, "PriorityCalcPeriod", "5")
        order["fair_share"] = {
            "weight": share,
            **({"half_life": half} if half and half != "0 d" else {}),
            "every": every,
        }
        assumed.append("shares of tenants: equal; those of accounts are in the accounting database (sshare)")
    return order


LOAD = 0.7
"""Share of the GPUs that the jobs of a new scenario ask for [-]; assumed."""


def scenario(slurm: Path, topology: Path | None, name: str, failures: str, recovery: str, horizon: str) -> str:
    """Return the text of a scenario.

    Parameters
    ----------
    slurm, topology
        The files; without the second, switches are assumed.

    Raises
    ------
    SlurmError
        If a file cannot be used.
    sim.ScenarioError
        If what is asked for is no scenario.
    """
    found, made = read(slurm), site(slurm, topology)
    partitions = made.partitions(made.nodes)
    content = {
        "name": name,
        "description": f"{len(made.nodes):,} nodes as {slurm.name} has them.",
        "cluster": made.cluster,
        "horizon": horizon,
        **({"partitions": partitions} if partitions else {}),
        "streams": _jobs(made),
        "scheduler": made.scheduler,
        "failures": [{"use": failures}],
        **_detection(found.settings.get("slurmdtimeout", ""), recovery),
        "checkpoint": {
            "tiers": [{"interval": "30 min", "mode": "async", "stall": "5 s", "write": "1 min", "restore": "1 min"}]
        },
        "recovery": {"use": recovery},
        "repair": {"time": "1 d"},
        "assumptions": [
            f"the jobs: {percent_text(LOAD, 0)} of the GPUs, jobs of one node to a quarter of the partition, for 2 h "
            "at the median, limit 7 d without MaxTime: in no file of Slurm; ettrick fit --slurm-conf has yours",
            "a checkpoint stalls a job 5 s every 30 min: in no file of Slurm",
            f"failures as in {failures}: replace them by those of your logs (ettrick fit)",
            "repair 1 d: in no file of Slurm",
            *made.assumed,
        ],
    }
    sim.parse(content)
    head = [f"# From {slurm.name}" + (f" and {topology.name}" if topology else "") + ".", "#"]
    keys = ("ClusterName", "SchedulerType", "PriorityType", "PreemptType", "SelectType", "SlurmdTimeout", "JobRequeue")
    head += [f"# {key}={found.settings[key.lower()]}" for key in keys if key.lower() in found.settings]
    return "\n".join(head) + "\n" + sim.dump(content)


def _jobs(made: Site) -> list[dict[str, Any]]:
    """Return a stream for each partition, which together ask for a share of the GPUs; each node counts once."""
    per_node = made.cluster["gpus_per_node"]
    inside = Counter(node for part in made.queues for node in set(part.nodes).intersection(made.nodes))
    streams = []
    for part in made.queues or (Partition("", made.nodes, {}),):
        mine = set(part.nodes).intersection(made.nodes)
        most = max(len(mine) // 4, 1)
        sizes = [per_node << power for power in range(most.bit_length())]
        weights = {size: 1 / (place + 1) for place, size in enumerate(sizes)}
        mean = sum(size * weight for size, weight in weights.items()) / sum(weights.values())
        capacity = per_node * sum(1 / inside.get(node, 1) for node in mine)
        work = 2 * 3600 * math.exp(1.2**2 / 2)
        limit = _time(part.settings, "MaxTime", "UNLIMITED")
        streams.append({
            "name": part.name or "jobs",
            "arrivals": {"rate": f"{float(f'{86400 * LOAD * capacity / (mean * work):.3g}'):g} per day"},
            "gpus": {str(size): round(weight, 3) for size, weight in weights.items()},
            "work": {"use": "lognormal", "median": "2 h", "sigma": 1.2},
            "limit": limit or "7 d",
            **({"priority": made.priority[part.name]} if part.name in made.priority else {}),
            **({"partition": part.name} if part.name else {}),
        })  # fmt: skip
    return streams


def _detection(timeout: str, recovery: str) -> dict[str, object]:
    """Return a preset's detection with SlurmdTimeout [s] as stated; nothing where the preset is right as it is."""
    preset = catalog.recovery(recovery).get("detection") if recovery in catalog.recoveries() else None
    if preset is None:
        return {"detection": {"time": f"{timeout or 300} s"}}
    if not timeout:
        return {}
    seen = [{**each, "timeout": f"{timeout} s"} if each["use"] == "slurm" else each for each in preset["observers"]]
    return {"detection": {**preset, "observers": seen}}
