"""Recovery presets: what a name under ``recovery.use`` stands for, laid under what the scenario says itself.

A preset is data of the catalog: a strategy of recovery with its numbers, and what usually goes with it, that is who
detects faults and where copies of the state are kept. Whatever the scenario states wins, key by key.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from sim import catalog, yamlfile
from sim.cluster import ClusterSpec
from sim.failures import SOURCES
from sim.failures.bundle import Bundle
from sim.policies.checkpoint import CHECKPOINTS
from sim.policies.detection import DETECTIONS
from sim.policies.recovery import RECOVERIES
from sim.policies.repair import REPAIRS
from sim.policies.scheduler import SCHEDULERS
from sim.scenario.fields import OneOf
from sim.scenario.model import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic.fields import FieldInfo

    from sim.yamlfile import Document, Keys, Mark

# ----------------------------------------
# Which models may stand at a place of a scenario: the way from a path in the data to the models behind it.

Keys_of_kinds: TypeAlias = tuple[str | int, ...]

Kinds: TypeAlias = tuple[type[BaseModel], ...]


def tag_of(kind: type[BaseModel]) -> tuple[str, tuple[str, ...]]:
    """Return the key that names a strategy, law, effect or observer (``use``, ``law``, ...), and its names."""
    for key in ("use", "law", "kind", "observer", "ask"):
        # A key of this name may also hold a law instead of naming one.
        if key in kind.model_fields and get_origin(kind.model_fields[key].annotation) is Literal:
            return key, get_args(kind.model_fields[key].annotation)
    return "", ()


def kinds_at(model: type[BaseModel], data: Any, path: Keys_of_kinds) -> Kinds:
    """Return the models that may stand at a path of `data`; ``use`` and ``law`` on the way narrow them."""
    found: Kinds = (model,)
    here = data
    is_name = False  # of a mapping whose keys are names, and whose values the models
    for step in path:
        if isinstance(step, str) and not is_name:
            holders = _chosen(found, here)
            parts = [holder.model_fields[step].annotation for holder in holders if step in holder.model_fields]
            found = tuple(kind for part in parts for kind in models_in(part))
            is_name = any(get_origin(part) is dict for part in parts)
        else:
            is_name = False
        here = here[step] if has(here, step) else None
    return found


def _chosen(kinds: Kinds, value: Any) -> Kinds:
    """Return the models among `kinds` that the tag in `value` names, or all of them."""
    if len(kinds) < 2 or not isinstance(value, dict | str):
        return kinds
    # Plain text may be the name alone.
    named = [(kind, value if isinstance(value, str) else value.get(tag_of(kind)[0])) for kind in kinds]
    return tuple(kind for kind, name in named if name in tag_of(kind)[1]) or kinds


def models_in(annotation: Any) -> Kinds:
    """Return the models that occur in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for part in get_args(annotation) for model in models_in(part))


def has(holder: Any, step: str | int) -> bool:
    """Tell whether there is an item or a key `step` in `holder`."""
    if isinstance(holder, list | tuple):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


def field_at(model: type[BaseModel], data: Any, path: Keys_of_kinds) -> FieldInfo | None:
    """Return the field at a path, if one model alone tells what it is."""
    holder = data
    for step in path[:-1]:
        holder = holder[step] if has(holder, step) else None
    kinds = _chosen(kinds_at(model, data, path[:-1]), holder)
    return kinds[0].model_fields.get(str(path[-1])) if len(kinds) == 1 else None


def keys_at(model: type[BaseModel], data: Any, path: Keys_of_kinds) -> list[str]:
    """Return the keys that the mapping at a path may have."""
    holder = data
    for step in path:
        holder = holder[step]
    kinds = _chosen(kinds_at(model, data, path), holder)
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def names_of(kinds: Iterable[type[BaseModel]]) -> list[str]:
    """Return the names that ``use`` or ``law`` may have for these models: their own first, then their other ones."""
    names = [tag_of(kind)[1] for kind in kinds]
    return [name[0] for name in names if name] + [other for name in names for other in name[1:]]


def value_at(data: Any, path: Keys_of_kinds, otherwise: Any) -> Any:
    """Return what was written at a path; a validated default is not there."""
    for step in path:
        if not has(data, step):
            return otherwise
        data = data[step]
    return data


FROM_PRESET: Keys = ("checkpoint", "from_preset")

"""Whether a scenario asks for the stores of its preset."""

_STORES: Keys = ("checkpoint", "tiers")


@functools.cache
def strategies() -> dict[str, type[BaseModel]]:
    """Return the strategies of recovery by name; those that presets are made of go by the names of these too."""
    plain: dict[str, Any] = dict(RECOVERIES)
    presets = {name: catalog.strategy_of(name) for name in catalog.recoveries()}
    wide: dict[str, type[BaseModel]] = {}
    for own in set(presets.values()):
        base = plain[own]
        tag: Any = Literal[(own, *(name for name in presets if presets[name] == own))]
        wide[own] = create_model(
            base.__name__, __base__=base, __module__=__name__, __doc__=base.__doc__, use=(tag, own)
        )
    return {**plain, **wide, **{name: wide[own] for name, own in presets.items()}}


def __getattr__(name: str) -> Any:
    """Return the class of a strategy by its name, which is how one that was pickled is found again."""
    for kind in strategies().values():
        if kind.__name__ == name:
            return kind
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def lay(document: Document) -> Document:
    """Return a document with the preset that it names laid under it, and without one that it no longer names.

    ``recovery``
        What the preset states of its strategy holds where the scenario says nothing. What was written for another
        choice, which the name has replaced, counts only where the preset states nothing either.
    ``detection``
        So does what it states of who detects faults, unless the scenario says ``use`` or a key of another strategy.
    ``checkpoint``
        With ``from_preset: true`` its stores follow those of the scenario, but for the ones that the scenario describes
        itself. Nobody has a store because of the name of a recovery: that of a preset is in a result only if asked for.
    """
    name = _chosen_of_presets(document)
    if not name and not document.preset:
        return document
    result = document.copy()
    if result.preset != name:
        _strip(result, ())
        result.preset = name
    if name:
        content = catalog.recovery(name)
        mark = yamlfile.nearest_mark(result, ("recovery", "use"))
        _drop_replaced(result, content["recovery"])
        _lay_mapping(result, ("recovery",), content["recovery"], mark)
        _lay_detection(result, content.get("detection", {}), mark)
        _lay_stores(result, _stores(content), mark)
    return result


def hint(document: Document, path: str) -> str:
    """Return what to add to a complaint about a path that leads to no store: that the preset's are not there."""
    name = _chosen_of_presets(document)
    lacks = path == yamlfile.dotted(_STORES) and not _adds_stores(document)
    if not (lacks and name and _stores(catalog.recovery(name))):
        return ""
    return f"; the stores of '{name}' are there with checkpoint.from_preset=true"


def _chosen_of_presets(document: Document) -> str:
    """Return the name of the preset that a document names, if any."""
    name = value_at(document.data, ("recovery", "use"), "")
    return name if isinstance(name, str) and name in catalog.recoveries() else ""


def _stores(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the stores of checkpoints that a preset brings."""
    stores: list[dict[str, Any]] = content.get("checkpoint", {}).get("tiers", [])
    return stores


def _adds_stores(document: Document) -> bool:
    """Tell whether a document asks for the stores of its preset."""
    return value_at(document.data, FROM_PRESET, False) is True


def _drop_replaced(document: Document, content: dict[str, Any]) -> None:
    """Drop what was written for another choice of recovery and what the preset states too."""
    for key in content:
        if ("recovery", key) in document.stale:
            _remove(document, ("recovery", key))


def _lay_detection(document: Document, content: dict[str, Any], mark: Mark) -> None:
    """Lay what a preset says of detection, or take it away again, as the scenario wants."""
    place: Keys = ("detection",)
    if not content:
        return
    if "detection" not in document.data:
        _write(document, place, {}, mark)
    own = document.data["detection"]
    if not isinstance(own, dict):
        return
    kind: Any = DETECTIONS[content["use"]]
    known = kind.model_fields.keys() - {"use"}
    stated = [key for key in own if (*place, key) not in document.laid]
    if known.issuperset(stated):
        _lay_mapping(document, place, content, mark)
    else:
        # The mapping is that of the scenario then, even if the preset has made it.
        document.laid.discard(place)
        _strip(document, place)


def _lay_stores(document: Document, stores: list[dict[str, Any]], mark: Mark) -> None:
    """Lay the stores of a preset behind those of the scenario, or take them away again, as the scenario wants."""
    tiers = value_at(document.data, _STORES, None)
    if not _adds_stores(document):
        _strip(document, _STORES)
    elif isinstance(tiers, list) and not any((*_STORES, index) in document.laid for index in range(len(tiers))):
        named = [value_at(tier, ("store",), "remote") for tier in tiers]  # of any type, where it is wrong
        for store in stores:
            if store["store"] not in named:
                tiers.append(None)
                _write(document, (*_STORES, len(tiers) - 1), store, mark)


def _lay_mapping(document: Document, path: Keys, content: dict[str, Any], mark: Mark) -> None:
    """Write into the mapping at `path` what it lacks of `content`; below another choice nothing is filled in."""
    holder = value_at(document.data, path, None)
    for key, value in content.items():
        if key not in holder:
            _write(document, (*path, key), value, mark)
        elif isinstance(holder[key], dict) and isinstance(value, dict) and _same_choice(holder[key], value):
            _lay_mapping(document, (*path, key), value, mark)


def _same_choice(own: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether two mappings may be parameters of the same law or strategy."""
    return all(key not in own or own[key] == other.get(key) for key in ("use", "law"))


def _write(document: Document, path: Keys, value: Any, mark: Mark) -> None:
    """Write a value of the preset at `path`, whose mapping or list is there."""
    value_at(document.data, path[:-1], None)[path[-1]] = copy.deepcopy(value)
    document.keys[path] = mark
    _enter(document, path, value, mark)


def _enter(document: Document, path: Keys, value: Any, mark: Mark) -> None:
    """Enter that everything from `path` on is from the preset."""
    document.values[path] = mark
    document.laid.add(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        _enter(document, (*path, key), part, mark)


def _strip(document: Document, path: Keys) -> None:
    """Remove what the preset wrote from `path` on, with everything that was changed in it since."""
    laid = [place for place in document.laid if place[: len(path)] == path]
    outermost = [place for place in laid if not any(place[:end] in document.laid for end in range(len(place)))]
    for place in sorted(outermost, reverse=True):  # the last of a list first
        _remove(document, place)


def _remove(document: Document, path: Keys) -> None:
    """Remove the value at `path`."""
    del value_at(document.data, path[:-1], None)[path[-1]]
    document.forget(path)


# ----------------------------------------
# The scenario model with every strategy that there is, and the JSON Schema that follows from it.

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
