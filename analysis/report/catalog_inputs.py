"""What a scenario takes from the catalog by name: rates, data sheets, models, presets, each with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.explain_terms import unit_text
from analysis.report.inputs import Input, bundle_basis
from sim import catalog, units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sim import Prepared

__all__ = ["catalog_inputs"]

_UNITS = {"gpu": "GPU"}
_OF_NOTES = {
    "P": ("published", "read in the source"),
    "S": ("published", "quoted by others"),
    "D": ("published", "derived from published figures"),
    "A": ("assumed", "assumed"),
}
"""By mark of a preset's note: what it rests on."""


def catalog_inputs(prepared: Prepared, document: Mapping[str, Any]) -> list[tuple[str, Input]]:
    """Return the values that come with the names in a scenario, each with the part of the scenario that it belongs to.

    Parameters
    ----------
    prepared
        The scenario.
    document
        Its document, as of a run.
    """
    return [
        *(("Job and step", found) for found in _job(prepared, document)),
        *(("Failures", found) for found in _failures(prepared)),
        *(("Detection and recovery", found) for found in _preset(prepared)),
        *(("Power and cost", found) for found in _power(document)),
    ]


def _job(prepared: Prepared, document: Mapping[str, Any]) -> Iterator[Input]:
    """Yield the accelerator, the model and the step of the first job."""
    plan = prepared.jobs[0].plan
    if plan is not None:
        chip, shape, precision = plan.machine.chip, plan.work.shape, plan.work.precision
        source = f"{chip.source}{'; announced, not on sale' if chip.announced else ''}"
        for what, value in (
            (f"dense peak at {precision}", unit_text(chip.peak[precision], "FLOP/s")),
            ("memory", unit_text(chip.memory, "B")),
            ("memory bandwidth", unit_text(chip.memory_bandwidth, "B/s")),
            ("scale-up bandwidth, one direction", unit_text(chip.scale_up, "B/s")),
        ):
            yield Input(chip.title, what, value, "published", source)
        yield Input(shape.title, "parameters", f"{shape.parameters / 1e9:,.4g} billion", "published", shape.source)
    step = document["step"]
    if step["time_s"] is not None:
        yield Input("step", "time of a healthy step", unit_text(step["time_s"], "s"), *_basis_of_step(step))


def _basis_of_step(step: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the time of a step rests on, and who says so."""
    if step["stated"]:
        return "stated", f"follows from {step['stated']} of the scenario"
    if step["basis"] == "calibrated":
        return "measured", "the model of steps, scaled by the measured step that the scenario states"
    if step["basis"] == "fitted":
        return "measured", "the model of steps, with efficiencies that are fitted to measured steps"
    return "assumed", f"the model of steps; efficiencies: {step['basis']}"


def _failures(prepared: Prepared) -> Iterator[Input]:
    """Yield the causes of the failure bundles."""
    names: list[Any] = [choice.use for choice in prepared.scenario.failures]
    for name in dict.fromkeys(name for name in names if name in catalog.bundles()):
        content = catalog.bundle(name)
        basis, source = bundle_basis(name)[0], content["source"]
        exposure = content.get("exposure", {})
        for cause in content.get("causes", ()):
            per = cause["per"]
            told = f"{cause['count']} in {exposure[f'{per}-day']:,} {_UNITS.get(per, per)}-days"
            yield Input(name, cause["title"], told, basis, source)
        for cause in content.get("sources", ()):
            told = str(cause.get("rate", "as the bundle says"))
            yield Input(name, cause.get("title", cause["name"]).replace("_", " "), told, basis, cause["source"])


def _preset(prepared: Prepared) -> Iterator[Input]:
    """Yield the notes of the recovery preset, each of which says what some of its numbers rest on."""
    recovery: Any = prepared.recovery
    if recovery.use not in catalog.recoveries():
        return
    content = catalog.recovery(recovery.use)
    for note in content["notes"]:
        marks, _, text = note.partition(": ")
        kinds = [_OF_NOTES[mark.strip()] for mark in marks.split(",")]
        # Of several kinds the weakest counts.
        basis = "assumed" if any(kind == "assumed" for kind, _ in kinds) else "published"
        how = ", ".join(words for _, words in kinds)
        yield Input(recovery.use, " ".join(text.split()), "see the note", basis, f"{content['source']}: {how}")


def _power(document: Mapping[str, Any]) -> Iterator[Input]:
    """Yield what a node draws, and what else the energy rests on."""
    energy = document["energy"]
    if energy is None:
        return
    node = energy["node"]
    basis = "measured" if node["measured"] else "assumed"
    for what, key in (("a node without work", "idle_w"), ("a node in training", "training_w")):
        yield Input("node", f"power of {what}", units.show(round(node[key], 3), units.POWER), basis, node["source"])
    for line in energy["assumptions"]:
        what, _, why = line.partition(" (")
        name, _, value = what.partition(": ")
        yield Input("energy", name, value, "assumed", why.removesuffix(")") or "the usual value, or the scenario's")
