"""Recovery presets: what a name under ``recovery.use`` stands for, laid under what the scenario says itself.

A preset is data of the catalog: a strategy of recovery with its numbers, and what usually goes with it, that is who
detects faults and where checkpoints are kept. Whatever the scenario states wins, key by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ettrick.sim import catalog, yamlfile
from ettrick.sim.policies.detection import DETECTIONS
from ettrick.sim.yamlfile import value_at

if TYPE_CHECKING:
    from ettrick.sim.yamlfile import Data, Keys, Mark, Table, YamlDocument

FROM_PRESET: Keys = ("checkpoint", "from_preset")
"""Whether a scenario asks for the stores of its preset."""

_STORES: Keys = ("checkpoint", "tiers")


def lay(document: YamlDocument) -> YamlDocument:
    """Change a document, and return it: lay the preset that it names under it, take away one that it no longer names.

    ``recovery``
        What the preset states of its strategy holds where the scenario says nothing. What was written for another
        choice, which the name has replaced, counts only where the preset states nothing either.
    ``detection``
        So does what it states of who detects faults, unless the scenario says ``use`` or a key of another strategy.
    ``checkpoint``
        With ``from_preset: true`` its stores follow those of the scenario, but for the ones that the scenario describes
        itself. The name of a recovery adds no store: that of a preset is in a result only if asked for.
    """
    name = _chosen_of_presets(document)
    if not name and not document.preset:
        return document
    if document.preset != name:
        _strip(document, ())
        document.preset = name
    if name:
        content = catalog.recovery(name)
        mark = yamlfile.nearest_mark(document, ("recovery", "use"))
        for key in content["recovery"]:  # what was written for another choice of recovery, and the preset states too
            if ("recovery", key) in document.stale:
                _remove(document, ("recovery", key))
        _lay_mapping(document, ("recovery",), content["recovery"], mark)
        _lay_detection(document, content.get("detection", {}), mark)
        _lay_stores(document, _stores(content), mark)
    return document


def hint(document: YamlDocument, path: str) -> str:
    """Return what to add to a complaint about a path that leads to no store: that the preset's are not there."""
    name = _chosen_of_presets(document)
    lacks = path == yamlfile.dotted(_STORES) and not _adds_stores(document)
    if not (lacks and name and _stores(catalog.recovery(name))):
        return ""
    return f"; the stores of '{name}' are there with checkpoint.from_preset=true"


def _chosen_of_presets(document: YamlDocument) -> str:
    """Return the name of the preset that a document names, if any."""
    name = value_at(document.data, ("recovery", "use"), "")
    return name if isinstance(name, str) and name in catalog.recoveries() else ""


def _stores(content: Table) -> list[Table]:
    """Return the stores of checkpoints that a preset brings."""
    stores: list[Table] = content.get("checkpoint", {}).get("tiers", [])
    return stores


def _adds_stores(document: YamlDocument) -> bool:
    """Return whether a document asks for the stores of its preset."""
    return value_at(document.data, FROM_PRESET, False) is True


def _lay_detection(document: YamlDocument, content: Table, mark: Mark) -> None:
    """Lay what a preset says of detection, or take it away again, as the scenario wants."""
    place: Keys = ("detection",)
    if not content:
        return
    if "detection" not in document.data:
        _write(document, place, {}, mark)
    detection = document.data["detection"]
    if not isinstance(detection, dict):
        return
    kind: Any = DETECTIONS[content["use"]]
    model_keys = kind.model_fields.keys() - {"use"}
    stated = [key for key in detection if (*place, key) not in document.laid]
    if model_keys.issuperset(stated):
        _lay_mapping(document, place, content, mark)
    else:
        # The mapping is that of the scenario then, even if the preset has made it.
        document.laid.discard(place)
        _strip(document, place)


def _lay_stores(document: YamlDocument, stores: list[Table], mark: Mark) -> None:
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


def _lay_mapping(document: YamlDocument, path: Keys, content: Table, mark: Mark) -> None:
    """Write into the mapping at `path` what it lacks of `content`; below another choice nothing is filled in."""
    holder = value_at(document.data, path, None)
    for key, value in content.items():
        if key not in holder:
            _write(document, (*path, key), value, mark)
        elif isinstance(stated := holder[key], dict) and isinstance(value, dict):
            use = value.get("use")
            _lay_mapping(document, (*path, key), value if stated.get("use", use) == use else {}, mark)


def _write(document: YamlDocument, path: Keys, value: Data, mark: Mark) -> None:
    """Write a value of the preset at `path`, whose mapping or list is there."""
    value_at(document.data, path[:-1], None)[path[-1]] = yamlfile.copied(value)
    document.keys[path] = mark
    _enter(document, path, value, mark)


def _enter(document: YamlDocument, path: Keys, value: Data, mark: Mark) -> None:
    """Enter that everything from `path` on is from the preset."""
    document.values[path] = mark
    document.laid.add(path)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        _enter(document, (*path, key), part, mark)


def _strip(document: YamlDocument, path: Keys) -> None:
    """Remove what the preset wrote from `path` on, with everything that was changed in it since."""
    laid = [place for place in document.laid if place[: len(path)] == path]
    outermost = [place for place in laid if not any(place[:end] in document.laid for end in range(len(place)))]
    for place in sorted(outermost, reverse=True):  # the last of a list first
        _remove(document, place)


def _remove(document: YamlDocument, path: Keys) -> None:
    """Remove the value at `path`."""
    del value_at(document.data, path[:-1], None)[path[-1]]
    document.forget(path)
