"""Every value that a scenario rests on, and what that value itself rests on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from sim import catalog, documents, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sim import Scenario
    from sim.documents import Keys

__all__ = ["BASES", "GROUPS", "LABELS", "Input", "group_of", "stated_inputs", "value_text"]

BASES = {
    "measured": "counted or timed on real hardware by the source",
    "published": "printed by the source: a data sheet, a paper, a documentation",
    "assumed": "nobody has measured it: an assumption that is named, or an estimate",
    "preset": "of a recovery preset, whose notes say what each rests on",
    "stated": "written in the scenario, which does not say where it is from",
    "default": "left out of the scenario: what the program takes then",
}
"""What a value rests on, and what that means."""

GROUPS = {
    "Time": ("horizon", "warmup", "initial", "windows", "seed"),
    "Cluster": ("cluster",),
    "Job and step": ("jobs",),
    "Failures": ("failures",),
    "Checkpoints": ("checkpoint",),
    "Detection and recovery": ("detection", "recovery"),
    "Spares, repair and scheduling": ("spares", "repair", "scheduler"),
    "Power and cost": ("power", "cost"),
}
"""Parts of a scenario, and its keys."""

LABELS = ("name", "description", "title", "source", "assumptions")
"""Keys that name and explain: they are no inputs."""

_COUNTED = ("rate", "law", "events", *documents.FILE_KEYS)
"""Values of a failure source that its own source is about."""

_DIMENSIONS = (units.DURATION, units.FRACTION, units.SIZE, units.BANDWIDTH, units.FLOPS, units.POWER)
_QUANTITY = re.compile(rf"({units.NUMBER})\s*([a-zA-Z%]+(?:/s)?)?")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint", "save", "stall", "durable", "restore", "copies", "store"),
    "detection": ("detect",),
    "recovery": ("restart", "recover", "initiali", "requeue"),
    "spares": ("spare",),
    "repair": ("repair",),
    "cost": ("capital", "price", "cost", "usd", "kwh"),
    "power": ("power", "pue"),
}
"""By part of a scenario: words of which an assumption has one that speaks of it."""


class Input(NamedTuple):
    """One value.

    Parameters
    ----------
    path
        Where the scenario has it; a name in words where it comes with something that the scenario names.
    what
        What it says.
    value
        With its unit.
    basis
        What it rests on: a key of `BASES`.
    source
        Who says so, or which assumption.
    """

    path: str
    what: str
    value: str
    basis: str
    source: str = ""


class _Leaf(NamedTuple):
    """A value of a scenario: its place, what its key says, its text, and whether it is what the program would take."""

    keys: Keys
    what: str
    content: Any
    is_default: bool


def stated_inputs(scenario: Scenario, varied: Mapping[str, Input] | None = None) -> list[Input]:
    """Return every value of a scenario once, in order, but for `LABELS`.

    Parameters
    ----------
    scenario
        The scenario.
    varied
        Of paths that a study writes to, what is known of the values there.
    """
    leaves = [leaf for leaf in _leaves(scenario) if leaf.keys[-1] not in LABELS]
    laid = _preset_values(scenario)
    tell = _Telling(scenario, laid, varied or {})
    return [Input(".".join(map(str, leaf.keys)), leaf.what, value_text(leaf), *tell.basis(leaf)) for leaf in leaves]


def group_of(path: str) -> str:
    """Return the part of a scenario that a path belongs to."""
    first = path.partition(".")[0]
    return next((name for name, keys in GROUPS.items() if first in keys), "Time")


def value_text(leaf: _Leaf) -> str:
    """Return the content of a leaf as text; of a file its name."""
    return Path(leaf.content).name if leaf.keys[-1] in documents.FILE_KEYS else _text(leaf.content)


# -------------------------------------------------------------------------------------------------- values


def _leaves(model: BaseModel, before: Keys = ()) -> Iterator[_Leaf]:
    """Yield the values of a model, with all that it holds."""
    content = model.model_dump(mode="json", exclude_none=True)
    for name, field in type(model).model_fields.items():
        if name not in content:
            continue
        held, keys = getattr(model, name), (*before, name)
        if _is_part(held):
            yield from _leaves(held, keys)
        elif isinstance(held, tuple) and held and all(map(_is_part, held)):
            for index, part in enumerate(held):
                yield from _leaves(part, (*keys, index))
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            what = (
                _summary(model) if name == "use" else field.description or f"{name.replace('_', ' ')} of {before[-1]}"
            )
            yield _Leaf(keys, what, content[name], not field.is_required() and _same(default, content[name]))


def _is_part(held: Any) -> bool:
    """Return whether something has values of its own; a law is one value."""
    return isinstance(held, BaseModel) and not hasattr(held, "mean_value")


def _summary(model: BaseModel) -> str:
    """Return what a strategy says of itself, in a line."""
    words = " ".join((type(model).__doc__ or "").strip().split("\n\n")[0].split())
    return words or "A bundle of failures of the catalog."


def _text(content: Any) -> str:
    """Return plain data as people write it."""
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, int):
        return f"{content:,}"
    if isinstance(content, float):
        return f"{content:,.12g}"
    if isinstance(content, dict):
        law = content.get("law")
        parts = [f"{key} {_text(value)}" for key, value in content.items() if key != "law"]
        if law == "fixed":
            return _text(content["value"])
        return ", ".join([*([str(law)] if law else []), *parts]) or "none"
    if isinstance(content, list):
        return ", ".join(map(_text, content)) or "none"
    return str(content) or "none"


def _same(one: Any, other: Any) -> bool:
    """Return whether two contents say the same, whatever units they are written in."""
    if isinstance(one, BaseModel):
        one = one.model_dump(mode="json", exclude_none=True)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(other, dict) and other.get("law") == "fixed":
        return _same(one, other["value"])
    if isinstance(one, str) or isinstance(other, str):
        return one == other or bool(_amounts(one) & _amounts(other))
    return bool(one == other)


def _amounts(content: Any) -> set[tuple[str, float]]:
    """Return what a text may be an amount of, with the amount [SI]."""
    found = set()
    for dimension in _DIMENSIONS:
        try:
            found.add((dimension.name, units.parse(content, dimension)))
        except units.UnitError:
            continue
    return found


# ------------------------------------------------------------------------------------------------- sources


class _Telling:
    """Says what the values of a scenario rest on."""

    def __init__(self, scenario: Scenario, laid: Mapping[str, Any], varied: Mapping[str, Input]) -> None:
        self.scenario = scenario
        self.laid = laid
        self.varied = varied
        self.stores = [getattr(tier, "store", "") for tier in getattr(scenario.checkpoint, "tiers", ())]

    def basis(self, leaf: _Leaf) -> tuple[str, str]:
        """Return what a value rests on, and who says so."""
        path = ".".join(map(str, leaf.keys))
        for target, known in self.varied.items():
            if path == target or path.startswith(f"{target}.") or target.startswith(f"{path}."):
                return known.basis, known.source
        if self._is_of_preset(leaf, path):
            name: Any = self.scenario.recovery
            return "preset", f"preset {name.use}: its notes"
        if leaf.is_default:
            return "default", ""
        if leaf.keys[0] == "failures" and len(leaf.keys) > 2:
            found = self._of_failures(leaf)
            if found is not None:
                return found
        assumption = self._assumption(leaf)
        return ("stated", "") if assumption is None else ("assumed", assumption)

    def _is_of_preset(self, leaf: _Leaf, path: str) -> bool:
        """Return whether the preset of the scenario has brought a value."""
        if leaf.keys[:2] == ("checkpoint", "tiers") and len(leaf.keys) > 3:
            path = ".".join(("checkpoint", self.stores[int(leaf.keys[2])], *map(str, leaf.keys[3:])))
        return path in self.laid and _same(self.laid[path], leaf.content)

    def _of_failures(self, leaf: _Leaf) -> tuple[str, str] | None:
        """Return what a value of a failure source rests on; ``None`` where the source does not say."""
        entry: Any = self.scenario.failures[int(leaf.keys[1])]
        if leaf.keys[2] == "use" and entry.use in catalog.bundles():
            return bundle_basis(entry.use)
        source = getattr(entry, "source", "")
        if not source or leaf.keys[2] not in _COUNTED:
            return None
        return ("measured" if getattr(entry, "events", None) else "published"), source

    def _assumption(self, leaf: _Leaf) -> str | None:
        """Return the assumption of the scenario that speaks of a value: of its part, and with the same amount."""
        words = _WORDS.get(str(leaf.keys[0]), ())
        own = _all_amounts(_text(leaf.content))
        # A law may have more numbers than the assumption names; its times have to be the same.
        own = {amount for amount in own if amount[0]} or own
        for text in self.scenario.assumptions:
            lower = text.lower()
            if own and any(word in lower for word in words) and own <= _all_amounts(text):
                return text
        return None


def bundle_basis(name: str) -> tuple[str, str]:
    """Return what a failure bundle of the catalog rests on, and who says so."""
    content = catalog.bundle(name)
    basis = "measured" if "jobs" in content else "assumed"
    return basis, f"{content['title']} ({content['source']})"


def _all_amounts(text: str) -> set[tuple[str, float]]:
    """Return the amounts in a text: those with units [SI], and plain numbers."""
    found: set[tuple[str, float]] = set()
    for number, unit in _QUANTITY.findall(text.replace(",", "")):
        known = _amounts(f"{number} {unit}") if unit else set()
        found |= {(name, round(value, 9)) for name, value in known} or {("", float(number))}
    return found


def _preset_values(scenario: Scenario) -> dict[str, Any]:
    """Return the values that the preset of a scenario lays into it, by path; stores by their names."""
    recovery: Any = scenario.recovery
    if recovery.use not in catalog.recoveries():
        return {}
    content = catalog.recovery(recovery.use)
    found = dict(_flat({key: content[key] for key in ("recovery", "detection") if key in content}))
    for tier in content.get("checkpoint", {}).get("tiers", ()):
        found |= {f"checkpoint.{tier['store']}.{path}": value for path, value in _flat(tier)}
    return found


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of plain data by path; laws, and lists of plain values, are values."""
    for key, value in content.items():
        path = f"{before}{key}"
        if isinstance(value, dict):
            yield path, value
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
            for index, part in enumerate(value):
                yield from _flat(part, f"{path}.{index}.")
        else:
            yield path, value
