"""A scenario from slurm.conf and topology.conf: the cluster and its limits as Slurm has them, and what they do not say.

References
----------
SchedMD Slurm, manual pages slurm.conf(5) and topology.conf(5).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import sim
from analysis.logs.tables import HostLists
from sim import catalog
from sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Yield the place and the settings of each line, keys in lower case; lines that go on are one.

    Raises
    ------
    SlurmError
        If the file cannot be read, or a line is no setting.
    """
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
    for place, line in _lines(file):
        try:
            if "nodename" in line:
                if line["nodename"] == "DEFAULT":
                    node_defaults = line
                    continue
                gres = (node_defaults | line).get("gres", "")
                kinds = [(kind.lower(), int(count or 1)) for kind, count in _GPUS.findall(gres)]
                for name in hosts.expand(line["nodename"]):
                    found.gpus[name] = sum(count for _, count in kinds)
                    found.types[name] = kinds[0][0] if kinds else ""
            elif "partitionname" in line:
                if line["partitionname"] == "DEFAULT":
                    partition_defaults = line
                    continue
                line = partition_defaults | line
                nodes = line.get("nodes", "")
                names = tuple(found.gpus) if nodes.upper() == "ALL" else hosts.expand(nodes)
                for strange in sorted(set(names) - set(found.gpus))[:1]:
                    raise ValueError(f"'{strange}' is no NodeName{suggest(strange, found.gpus)}")  # noqa: TRY301
                found.partitions.append(Partition(line["partitionname"], names, line))
            else:
                found.settings.update(line)
        except ValueError as error:
            raise SlurmError(f"{place}: {error}") from None
    if not any(found.gpus.values()):
        raise SlurmError(f"{file}: no NodeName with Gres=gpu:N, so it says of no GPUs")
    return found


def blocks(file: Path, gpus: dict[str, int]) -> tuple[int, int]:
    """Return how many GPU nodes are behind a leaf switch, or in a block, and whose number of these is most common.

    Raises
    ------
    SlurmError
        If topology.conf cannot be read, or puts no node of slurm.conf behind a switch.
    """
    hosts, sizes = HostLists(), Counter[int]()
    for place, line in _lines(file):
        if "nodes" in line and ("switchname" in line or "blockname" in line):
            try:
                count = sum(bool(gpus.get(name)) for name in hosts.expand(line["nodes"]))
            except ValueError as error:
                raise SlurmError(f"{place}: {error}") from None
            sizes[count] += 1
    sizes.pop(0, None)
    if not sizes:
        raise SlurmError(f"{file}: puts no node of slurm.conf behind a switch or into a block")
    return sizes.most_common(1)[0][0], sizes.total()


def scenario(slurm: Path, topology: Path | None, name: str, failures: str, recovery: str, horizon: str) -> str:
    """Return the text of a scenario.

    Parameters
    ----------
    slurm, topology
        The files; without the second, switches are assumed.
    name
        Of the scenario.
    failures, recovery
        Names of a bundle of failures and of a preset.
    horizon
        How long is simulated.

    Raises
    ------
    SlurmError
        If a file cannot be used.
    sim.ScenarioError
        If what is asked for is no scenario.
    """
    found = read(slurm)
    sizes = Counter(count for count in found.gpus.values() if count)
    per_node = max(sizes, key=lambda count: (sizes[count], count))
    nodes = [node for node, count in found.gpus.items() if count == per_node]
    main = max(
        found.partitions or [Partition("", tuple(nodes), {})],
        key=lambda each: (each.settings.get("default", "").upper() == "YES", len(set(each.nodes).intersection(nodes))),
    )
    job_nodes = max(int(0.95 * len(set(main.nodes).intersection(nodes))), 1)
    kind = Counter(found.types[node] for node in nodes).most_common(1)[0][0]
    cluster: dict[str, object] = {"nodes": len(nodes), "gpus_per_node": per_node}
    assumed = [
        f"one job of {job_nodes * per_node:,} GPUs, 95 % of {main.name or 'all'}: in no file of Slurm",
        "a step takes 10 s, a checkpoint stalls 5 s every 30 min: in no file of Slurm",
        f"failures as in {failures}: replace them by those of your logs (ettrick fit)",
        "repair 1 d: in no file of Slurm",
        "jobs start in order of submission, whatever the partition: priorities and preemption stand above as comments",
    ]
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
        size, count = blocks(topology, found.gpus)
        cluster["fabric"] = {"leaf": {"nodes": size}}
        assumed.append(f"rails, ports and speeds of the switches: topology.conf has {count} leaves or blocks, most of "
                       f"{size} nodes")  # fmt: skip
    else:
        assumed.append("the fabric: no topology.conf")
    content = {
        "name": name,
        "description": f"{len(nodes):,} nodes as {slurm.name} has them.",
        "cluster": cluster,
        "horizon": horizon,
        "jobs": [{"name": "train", "gpus": job_nodes * per_node, "step_time": "10 s"}],
        "failures": [{"use": failures}],
        **_detection(found.settings.get("slurmdtimeout", ""), recovery),
        "checkpoint": {
            "tiers": [{"interval": "30 min", "mode": "async", "stall": "5 s", "write": "1 min", "restore": "1 min"}]
        },
        "recovery": {"use": recovery},
        "repair": {"time": "1 d"},
        "assumptions": assumed,
    }
    sim.parse(content)
    head = [f"# From {slurm.name}" + (f" and {topology.name}" if topology else "") + ".", "#"]
    keys = ("SchedulerType", "PriorityType", "PreemptType", "SelectType", "SlurmdTimeout", "JobRequeue")
    head += [f"# {key}={found.settings[key.lower()]}" for key in keys if key.lower() in found.settings]
    for part in found.partitions:
        keys = ("PriorityTier", "PriorityJobFactor", "MaxTime", "DefaultTime", "PreemptMode", "OverSubscribe")
        more = "".join(f", {key}={part.settings[key.lower()]}" for key in keys if key.lower() in part.settings)
        head.append(f"# partition {part.name}: {len(part.nodes):,} nodes{more}")
    return "\n".join(head) + "\n" + sim.dump(content)


def _detection(timeout: str, recovery: str) -> dict[str, object]:
    """Return a preset's detection with SlurmdTimeout [s] as stated; nothing where the preset is right as it is."""
    preset = catalog.recovery(recovery).get("detection") if recovery in catalog.recoveries() else None
    if preset is None:
        return {"detection": {"time": f"{timeout or 300} s"}}
    if not timeout:
        return {}
    seen = [{**each, "timeout": f"{timeout} s"} if each["use"] == "slurm" else each for each in preset["observers"]]
    return {"detection": {**preset, "observers": seen}}
