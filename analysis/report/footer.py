"""What stands at the foot of every page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.report.material import Material

__all__ = ["digests", "footer", "seed_of"]

_DIGESTS = {"scenario_sha256": "scenario, SHA-256", "model": "simulator, digest"}


def footer(material: Material) -> tuple[str, ...]:
    """Return what made the report, in lines: version, command, seed, digests."""
    provenance: Mapping[str, str] = material.main["provenance"]
    versions = f"Ettrick {provenance['version']}, Python {provenance['python']}, NumPy {provenance['numpy']}"
    lines = [
        f"{versions}; seed {seed_of(material, material.main)}",
        *(f"{name}: {text}" for name, text in digests(material)),
    ]
    if provenance["command"]:
        lines.insert(1, f"Made by: {provenance['command']}")
    return tuple(lines)


def digests(material: Material) -> list[tuple[str, str]]:
    """Return the digests of what was simulated, each with its name; of several variants each has one."""
    content: Mapping[str, Any] = material.main
    found = [(name, content["provenance"][key]) for key, name in _DIGESTS.items() if key in content["provenance"]]
    variants: Mapping[str, Any] = content.get("variants", {}) if material.kind == "compare" else {}
    found += [(f"{name}, SHA-256", entry["scenario_sha256"]) for name, entry in variants.items()]
    return found


def seed_of(material: Material, content: Mapping[str, Any]) -> str:
    """Return the seed of all random numbers of a document: as it says, or that of its scenario."""
    if "seed" in content:
        return str(content["seed"])
    return str(material.focus.scenario.seed) if material.focus is not None else "of the scenario"
