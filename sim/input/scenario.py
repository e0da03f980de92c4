"""The scenario with every strategy that there is, and the JSON Schema that follows from it.

Frozen models with SI floats inside and text with units outside. A strategy field takes one of the models of its
registry; for mypy it is the union of these, or what they have in common.
"""

# Annotations are not postponed: pydantic would compile each at the start.
import copy
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, Union

from pydantic import BaseModel, Field, create_model, model_validator

from ettrick.sim import catalog, units
from ettrick.sim.cluster import ClusterSpec
from ettrick.sim.failures import SOURCES
from ettrick.sim.failures.health import Health
from ettrick.sim.failures.parts import Bundle
from ettrick.sim.policies.checkpoint import CHECKPOINTS, Tiers
from ettrick.sim.policies.detection import DETECTIONS
from ettrick.sim.policies.recovery import RECOVERIES
from ettrick.sim.policies.repair import REPAIRS, Stock
from ettrick.sim.policies.scheduler import SCHEDULERS, Scheduler
from ettrick.sim.scenario.fields import Duration, Later, Model, OneOf, default
from ettrick.sim.scenario.model import OF_JOBS, OF_SERVICES, CostSpec, JobSpec, PowerSpec, Spares, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ettrick.sim.failures import Maintenance, Replay, Rollout
    from ettrick.sim.failures.parts import Cause
    from ettrick.sim.policies.detection.kinds import Detection
    from ettrick.sim.policies.recovery.base import RecoveryStrategy
    from ettrick.sim.policies.repair import RepairTiers as RepairTiers
    from ettrick.sim.policies.repair import Simple
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.scenario.services import ServiceSpec
    from ettrick.sim.scenario.streams import AnyStream, Partition, Tenant
    from ettrick.sim.yamlfile import Data, Table

DEFAULTS = {
    "cluster.fabric": "fat-tree",
    "checkpoint": "tiers",
    "detection": "latency",
    "repair": "simple",
    "scheduler": "fifo",
    "streams": "generated",
}
"""Strategy of a field, by its path, when the file names none."""

_MAY_BE_EMPTY = ("jobs", "streams", "templates", "tenants", "partitions", "services", "parts", "targets")
"""Keys that are written down only where there is something in them."""

_MOST_WINDOWS = 100_000
"""Windows of the rolling view: each has a table of buckets and causes."""


def _recoveries() -> dict[str, type[BaseModel]]:
    """Return the strategies of recovery by name; those that presets are made of go by the names of these too."""
    plain: Table = dict(RECOVERIES)
    presets = {name: catalog.strategy_of(name) for name in catalog.recoveries()}
    wide: dict[str, type[BaseModel]] = {}
    for strategy in set(presets.values()):
        base = plain[strategy]
        tag: Any = Literal[(strategy, *(name for name in presets if presets[name] == strategy))]
        wide[strategy] = create_model(
            base.__name__, __base__=base, __module__=__name__, __doc__=base.__doc__, use=(tag, strategy)
        )
        globals()[base.__name__] = wide[strategy]  # where one that was pickled is found again
    return {**plain, **wide, **{name: wide[strategy] for name, strategy in presets.items()}}


def _bundles() -> dict[str, type[BaseModel]]:
    """Return a model of each failure bundle by its name."""
    tags: Table = {name: Literal[name] for name in catalog.bundles()}
    return {
        name: create_model(f"Bundle_{name.replace('-', '_')}", __base__=Bundle, use=(tag, ...))
        for name, tag in tags.items()
    }


REGISTRIES: "dict[str, Mapping[str, Data]]" = {
    "failures": {**SOURCES, **_bundles()},
    "checkpoint": CHECKPOINTS,
    "detection": DETECTIONS,
    "recovery": _recoveries(),
    "repair": REPAIRS,
    "scheduler": SCHEDULERS,
}
"""The strategies of each field by name."""

if TYPE_CHECKING:
    AnySource: TypeAlias = Cause | Maintenance | Rollout | Replay | Bundle
    AnyCheckpoint: TypeAlias = Tiers
    AnyDetection: TypeAlias = Detection
    AnyRecovery: TypeAlias = RecoveryStrategy
    AnyRepair: TypeAlias = Simple | RepairTiers
    AnyScheduler: TypeAlias = Scheduler
else:

    def _one_of(field: str) -> Any:
        models = tuple(dict.fromkeys(REGISTRIES[field].values()))
        return Annotated[Union[models], OneOf("use", field, models)]  # noqa: UP007

    AnySource, AnyCheckpoint, AnyDetection, AnyRecovery, AnyRepair = map(_one_of, tuple(REGISTRIES)[:5])
    AnyScheduler = Scheduler
    ServiceSpec = Annotated[Any, Later("ettrick.sim.scenario.services", "ServiceSpec")]
    AnyStream, Partition, Tenant = (
        Annotated[Any, Later("ettrick.sim.scenario.streams", name)] for name in ("AnyStream", "Partition", "Tenant")
    )


class Scenario(Model):
    """A cluster, its jobs, what fails, and what is done about it."""

    name: str = Field(min_length=1, description="Name of the scenario.")
    description: str = Field("", description="The question that the scenario answers, in one or two sentences.")
    cluster: ClusterSpec = Field(description="The cluster: the name of a topology, a file, or its parameters.")
    horizon: Duration = Field(gt=0, description="Simulated time after the warm-up.")
    warmup: Duration = default("0 s", description="Time that the cluster runs before the jobs start.")
    initial: Literal["new", "stationary"] = Field(
        "new", description="Ages of the parts at the start: all new, or as after a long time, with repairs in progress."
    )
    windows: Duration | None = Field(None, gt=0, description="Width of the windows that results are also shown for.")
    seed: int = Field(1, ge=0, lt=2**63, description="Seed of all random numbers.")
    jobs: tuple[JobSpec, ...] = Field((), description="The jobs, in order of submission.")
    streams: "tuple[AnyStream, ...]" = Field((), description="Streams of many jobs: drawn at random, or from a trace.")
    templates: tuple[JobSpec, ...] = Field(
        (), description="Templates for the jobs of streams; they never run themselves."
    )
    tenants: "tuple[Tenant, ...]" = Field((), description="Tenants that share the cluster.")
    partitions: "tuple[Partition, ...]" = Field(
        (), description="Queues with their own nodes. By default one queue has all nodes."
    )
    services: "tuple[ServiceSpec, ...]" = Field((), description="Replicas of models that answer requests.")
    targets: tuple[Target, ...] = Field((), description="Promised levels of the services, checked in each window.")
    failures: "tuple[AnySource, ...]" = Field(
        (), description="Failure sources: what fails, how often, and with which effect."
    )
    checkpoint: "AnyCheckpoint" = Field(description="Checkpoints: where progress is saved, and how often.")
    detection: "AnyDetection" = Field(description="Detection: the time from a failure until the job reacts.")
    health: Health | None = Field(
        None, description="Health checks that find bad nodes before they fail, and their false alarms."
    )
    recovery: "AnyRecovery" = Field(description="Recovery of a job after a failure.")
    spares: Spares = Field(
        default_factory=lambda: Spares.model_validate({}), description="Spare nodes that replace failed ones."
    )
    repair: "AnyRepair | None" = Field(
        None,
        description="Repair of nodes. Without it, each source that takes nodes needs its own repair.",
    )
    parts: dict[str, Stock] = Field(default_factory=dict, description="Stock of spare parts by class: gpu, psu, ...")
    scheduler: "AnyScheduler" = Field(
        default_factory=lambda: Scheduler.model_validate({}), description="Order of the queue, backfill and preemption."
    )
    power: PowerSpec | None = Field(None, description="Power of the cluster, where the usual values do not apply.")
    cost: CostSpec | None = Field(None, description="Prices of the cluster.")
    engine: Literal["auto", "events", "compiled"] | None = Field(
        None,
        description="Engine that simulates replications: events (all scenarios), compiled (machine code, for simple "
        "scenarios), or auto, the default: machine code where it is possible and faster. The numbers are the same.",
    )
    assumptions: tuple[str, ...] = Field(
        (), description="Assumptions of this file, with reasons; printed with every result."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_policies(cls, data: "Data") -> "Data":
        """Complete what a scenario does not need: services do not recover as jobs do, and a replay may not fail."""
        if not isinstance(data, dict) or data.get("jobs"):
            return data
        streams = data.get("streams") or ()
        tier = {"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}
        unread = {
            "checkpoint": {"use": "tiers", "tiers": [tier]},
            "recovery": {"use": "hot-spare", "initialize": "0 s"},
        }
        if data.get("services") and not streams:
            return {**unread, **data}
        is_replay = isinstance(streams, list | tuple) and all(
            isinstance(stream, dict) and stream.get("use") == "trace" for stream in streams
        )
        if streams and is_replay and not data.get("failures") and not _preempts(data.get("scheduler")):
            return {**unread, "detection": {"use": "latency", "time": "0 s"}, **data}
        return data

    def _broken_rules(self) -> "BrokenRules":
        if not self.jobs and not self.streams and not self.services:
            yield ("jobs",), "give at least one job, a stream of them (streams) or a service (services)"
        for kinds in (("jobs", "streams", "services", "targets"), ("templates",), ("tenants",), ("partitions",)):
            first: dict[str, str] = {}
            for kind in kinds:
                for index, entry in enumerate(getattr(self, kind)):
                    if entry.name in first:
                        rule = f"'{entry.name}' is also the name of {first[entry.name]}"
                        yield (kind, index, "name"), f"{rule}; results are distinguished by name"
                    first[entry.name] = f"{kind}.{index}"
        for index, target in enumerate(self.targets):
            yield from ((("targets", index, key), rule) for key, rule in self._broken_target(target))
        width = self.width
        if width is not None and self.horizon / width > _MOST_WINDOWS:
            least = units.show(math.ceil(self.horizon / _MOST_WINDOWS), units.DURATION)
            count = self.horizon / width
            yield ("windows",), f"makes {count:,.0f} windows, and at most {_MOST_WINDOWS:,} are kept; at least {least}"

    def _broken_target(self, target: Target) -> "Iterator[tuple[str, str]]":
        workloads = self.workloads
        if target.of is not None and target.of not in workloads:
            yield "of", catalog.unknown("service, job or stream", target.of, workloads)
        if target.of is None and len(workloads) > 1:
            yield "of", f"is missing, and there are several: {', '.join(workloads)}"
        kind = workloads[self.aim(target)][0] if workloads else "services"
        fitting = OF_SERVICES if kind == "services" else OF_JOBS
        if target.metric is not None and target.metric not in fitting:
            rule = f"'{target.metric}' is not of {kind}, which have {', '.join(fitting)}"
            yield "metric", rule
        length = units.show(target.window, units.DURATION)
        if target.window > self.horizon * (1 + 1e-12):
            least = units.show(self.horizon, units.DURATION)
            yield "window", f"is {length}, and no whole one is in the horizon of {least}"
        count = target.window / (self.width or target.window)
        if abs(count - round(count)) > 1e-9 * count:
            least = "1 s" if self.windows is None else units.show(self.windows, units.DURATION)
            yield "window", f"is {length}, no multiple of {least}, the width of windows"

    @property
    def width(self) -> float | None:
        """Width of the windows that are kept [s]: as stated, else the widest that those of all targets consist of."""
        if self.windows is not None or not self.targets:
            return self.windows
        return float(max(math.gcd(*(round(target.window) for target in self.targets)), 1))

    @property
    def workloads(self) -> dict[str, tuple[str, int]]:
        """Services, jobs and streams by name: the key and the place of each."""
        return {
            entry.name: (kind, index)
            for kind in ("services", "jobs", "streams")
            for index, entry in enumerate(getattr(self, kind))
        }

    def aim(self, target: Target) -> str:
        """Return the name of what a target is of."""
        return target.of or next(iter(self.workloads))

    def with_job(self, index: int, **changes: Any) -> Self:
        """Return the scenario with other values of one of its jobs."""
        job = self.jobs[index].model_copy(update=changes)
        return self.model_copy(update={"jobs": (*self.jobs[:index], job, *self.jobs[index + 1 :])})

    def dump(self) -> "Table":
        """Return plain data that ``ettrick.sim.load`` reads back to an equal scenario."""
        data = self.model_dump(mode="json", exclude_none=True)
        return {key: value for key, value in data.items() if value or key not in _MAY_BE_EMPTY}


def _preempts(scheduler: "Data") -> bool:
    """Return whether a job may be stopped before its end, so that it matters what it has saved."""
    if not isinstance(scheduler, dict):
        return False
    preempt = scheduler.get("preempt")
    return isinstance(preempt, dict) and preempt.get("mode", "none") != "none"


def schema() -> "Table":
    """Return the JSON Schema of scenario files, for editors.

    It knows what may stand where; units, sums and everything that concerns several keys are for :func:`load`. A file
    that extends another need not be complete, but a mapping in it that the schema knows must be.
    """
    content = Scenario.model_json_schema()
    properties = content["properties"]
    for field, kinds in REGISTRIES.items():
        if len(kinds) > 1 and field not in DEFAULTS:
            for kind in kinds.values():
                part = _definition(content, kind)
                part["required"] = ["use", *(key for key in part.get("required", []) if key != "use")]
    _add_presets(content)
    file_name = {"type": "string"}
    properties["extends"] = {
        "description": "Files that this file extends.",
        "anyOf": [file_name, {"type": "array", "items": file_name}],
    }
    cluster = properties["cluster"]
    extended = {"type": "object", "required": ["extends"]}
    properties["cluster"] = {"description": cluster.pop("description"), "anyOf": [file_name, extended, cluster]}
    required = content.pop("required")
    some = [{"required": [key], "properties": {key: {"minItems": 1}}} for key in ("jobs", "streams", "services")]
    content["allOf"] = [{"anyOf": [{"required": ["extends"], "properties": {"jobs": {"minItems": 1}}}, *some]}]
    content["anyOf"] = [{"required": ["extends"]}, *_complete(required)]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **content}


def _complete(required: list[str]) -> "list[Table]":
    """Return what a file has that extends no other: all keys, or those that services, streams or a preset need."""
    without = {
        keys: [key for key in required if key not in keys]
        for keys in (("checkpoint", "recovery"), ("checkpoint", "recovery", "detection"), ("detection",))
    }
    of_services, of_streams, of_preset = without.values()
    watched = [name for name in catalog.recoveries() if "detection" in catalog.recovery(name)]
    return [
        {"required": required},
        {"required": [*of_services, "services"]},
        {"required": [*of_streams, "streams"], "properties": {"failures": {"maxItems": 0}, "jobs": {"maxItems": 0}}},
        {"required": of_preset, "properties": {"recovery": {"properties": {"use": {"enum": watched}}}}},
    ]


def _definition(content: "Table", kind: type[BaseModel]) -> "Table":
    """Return the part of a schema about a model, whose name is a long one if another has the same."""
    definitions: Table = content["$defs"]
    long = f"{kind.__module__}__{kind.__qualname__}".replace(".", "__")
    definition: Table = definitions.get(long) or definitions[kind.__name__]
    return definition


def _add_presets(content: "Table") -> None:
    """Part the names of presets from those of their strategies: a preset needs nothing else."""
    choices = content["properties"]["recovery"]
    for kind in dict.fromkeys(REGISTRIES["recovery"].values()):
        part = _definition(content, kind)
        names = part["properties"]["use"].pop("enum", None)
        if names is not None:
            strategy = part["properties"]["use"]["const"] = part["properties"]["use"]["default"]
            preset = copy.deepcopy(part)
            preset["properties"]["use"] = {"enum": [name for name in names if name != strategy], "type": "string"}
            preset["required"] = ["use"]
            content["$defs"][f"Preset_{kind.__name__}"] = preset
            choices["oneOf"].append({"$ref": f"#/$defs/Preset_{kind.__name__}"})
