"""The scenario model with every strategy that there is, and the JSON Schema that follows from it."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, Field, create_model

from sim import catalog
from sim.checkpoint import CHECKPOINTS
from sim.detection import DETECTIONS
from sim.failures import SOURCES
from sim.failures.bundle import Bundle
from sim.fields import OneOf
from sim.presets import strategies
from sim.repair import REPAIRS
from sim.scenario import Scenario
from sim.scheduler import SCHEDULERS
from sim.topology import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULTS", "registries", "scenario_model", "schema"]

DEFAULTS = {
    "cluster.fabric": "fat-tree",
    "checkpoint": "tiers",
    "detection": "latency",
    "repair": "simple",
    "scheduler": "fifo",
}
"""Strategy of a field, by its path, when the file names none."""


def _one_of(kinds: Mapping[str, type[BaseModel]]) -> Any:
    """Return the type of a field that takes one of several strategies."""
    models = tuple(dict.fromkeys(kinds.values()))
    if len(models) == 1:
        return models[0]
    return Annotated[Union[models], OneOf("use")]  # noqa: UP007


@functools.cache
def registries() -> dict[str, dict[str, type[BaseModel]]]:
    """Return the strategies of each field by name."""
    bundles: dict[str, type[BaseModel]] = {}
    for name in catalog.bundles():
        tag: Any = Literal[name]
        bundles[name] = create_model(f"Bundle_{name.replace('-', '_')}", __base__=Bundle, use=(tag, ...))
    return {
        "failures": {**_plain(SOURCES), **bundles},
        "checkpoint": _plain(CHECKPOINTS),
        "detection": _plain(DETECTIONS),
        "recovery": strategies(),
        "repair": _plain(REPAIRS),
        "scheduler": _plain(SCHEDULERS),
    }


def _plain(kinds: Mapping[str, Any]) -> dict[str, type[BaseModel]]:
    return dict(kinds)


@functools.cache
def scenario_model() -> type[Scenario]:
    """Return the scenario model with each strategy field narrowed to its registry."""
    fields: dict[str, Any] = {}
    for name, kinds in registries().items():
        kind = tuple[_one_of(kinds), ...] if name == "failures" else _one_of(kinds)  # type: ignore[misc]
        original = Scenario.model_fields[name]
        default: Any = Field(description=original.description)
        if name == "failures":
            default = Field((), description=original.description)
        elif name == "repair":
            kind, default = kind | None, Field(None, description=original.description)
        elif name == "scheduler":
            default = Field(default_factory=SCHEDULERS["fifo"], description=original.description)
        fields[name] = (kind, default)
    fields["cluster"] = (ClusterSpec, Field(description=Scenario.model_fields["cluster"].description))
    model: type[Scenario] = create_model("Scenario", __base__=Scenario, **fields)
    return model


def schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, for editors.

    It knows what may stand where; units, sums and everything that concerns several keys are for :func:`load`. A file
    that extends another need not be complete, but a mapping in it that the schema knows must be.
    """
    content = scenario_model().model_json_schema()
    properties = content["properties"]
    for field, kinds in registries().items():
        if len(kinds) > 1 and field not in DEFAULTS:
            for kind in kinds.values():
                part = content["$defs"][kind.__name__]
                part["required"] = ["use", *(key for key in part.get("required", []) if key != "use")]
    _add_presets(content)
    file_name = {"type": "string"}
    properties["extends"] = {
        "description": "Files that this one builds on.",
        "anyOf": [file_name, {"type": "array", "items": file_name}],
    }
    cluster = properties["cluster"]
    extended = {"type": "object", "required": ["extends"]}
    properties["cluster"] = {"description": cluster.pop("description"), "anyOf": [file_name, extended, cluster]}
    required = content.pop("required")
    watched = [name for name in catalog.recoveries() if "detection" in catalog.recovery(name)]
    content["anyOf"] = [
        {"required": ["extends"]},
        {"required": required},
        {
            "required": [key for key in required if key != "detection"],
            "properties": {"recovery": {"properties": {"use": {"enum": watched}}}},
        },
    ]
    return {"$schema": "http://json-schema.org/draft-07/schema#", **content}


def _add_presets(content: dict[str, Any]) -> None:
    """Part the names of presets from those of their strategies: a preset need not be told anything else."""
    choices = content["properties"]["recovery"]
    for kind in dict.fromkeys(registries()["recovery"].values()):
        part = content["$defs"][kind.__name__]
        names = part["properties"]["use"].pop("enum", None)
        if names is not None:
            own = part["properties"]["use"]["const"] = part["properties"]["use"]["default"]
            preset = copy.deepcopy(part)
            preset["properties"]["use"] = {"enum": [other for other in names if other != own], "type": "string"}
            preset["required"] = ["use"]
            content["$defs"][f"Preset_{kind.__name__}"] = preset
            choices["oneOf"].append({"$ref": f"#/$defs/Preset_{kind.__name__}"})
