"""Data with a source for each number: accelerators, models, failure bundles."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim import units
from sim.documents import load, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["accelerators", "bundle", "bundles", "causes", "models", "unknown"]

_HERE = Path(__file__).parent


@functools.cache
def accelerators() -> dict[str, Any]:
    """Return the accelerators by name; ``peak`` in FLOP/s by precision, ``scale_up`` in B/s per GPU and direction."""
    content: dict[str, Any] = load(_HERE / "accelerators.yaml").data
    for entry in content.values():
        entry["peak"] = {name: units.parse(value, units.FLOPS) for name, value in entry["peak"].items()}
        entry["scale_up"] = units.parse(entry["scale_up"], units.BANDWIDTH)
    return content


@functools.cache
def models() -> dict[str, Any]:
    """Return the shapes of models by name."""
    content: dict[str, Any] = load(_HERE / "models.yaml").data
    return content


@functools.cache
def bundles() -> tuple[str, ...]:
    """Return the names of the failure bundles."""
    return tuple(sorted(path.stem for path in (_HERE / "failures").glob("*.yaml")))


@functools.cache
def bundle(name: str) -> dict[str, Any]:
    """Return a failure bundle."""
    content: dict[str, Any] = load(_HERE / "failures" / f"{name}.yaml").data
    return content


def causes(name: str) -> list[str]:
    """Return the causes of a failure bundle."""
    content = bundle(name)
    return [entry["name"] for entry in (*content.get("causes", ()), *content.get("sources", ()))]


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return the rule that an unknown name breaks."""
    return f"unknown {kind} '{name}'{suggest(name, choices)}"
