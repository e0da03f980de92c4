"""The healthy step: what its time is made of, and how well it uses the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.cells import time_text
from analysis.plots.charts import Part, Stack
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.sections.account import percent
from analysis.step import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.report.focus import Focus
    from analysis.report.material import Material

__all__ = ["section", "step_stack"]

_HUES = {"computing": 2, "communication": 1, "bubble": 4, "rest": -1}
_PART_NAMES = {
    "computing": "computing",
    "communication": "waiting for communication",
    "bubble": "idle stages of the pipeline",
    "rest": "everything else",
}
_TERMS = {
    "gemm": "matrix products",
    "attention": "attention",
    "elementwise": "element-wise operations",
    "launch": "launches of kernels",
    "logits": "logits of the vocabulary",
    "tensor": "tensor groups",
    "context": "context groups",
    "expert": "expert groups",
    "pipeline": "hand-over between stages",
    "data": "exchange between replicas",
    "bubble": "idle stages of the pipeline",
    "optimizer": "optimizer",
    "overhead": "fixed overhead",
}
_BASES = {
    "measured": "The scenario states the time, and it counts as measured.",
    "calibrated": "The time is that of the model of steps, calibrated by a measured step that the scenario states.",
    "fitted": "The time is that of the model of steps, with efficiencies fitted to measured steps.",
    "assumed": "The time is that of the model of steps, with efficiencies assumed from another precision or from "
    "single matrix products.",
    "peak only": "The time is that of the model of steps, from the peak of the accelerator alone: nobody has published "
    "measured steps of it.",
}


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    focus = material.focus
    if focus is None or focus.document["step"]["time_s"] is None:
        return None
    step = focus.document["step"]
    stack = step_stack(step)
    notes = _notes(focus)
    if stack is None:
        title = f"A healthy step takes {time_text(step['time_s'])}"
        text = "What it is made of is not known: the scenario states no model, batch and parallelism to tell it."
        return Section("the-step", title, (f"{_told(step)} {text}",), (), notes)
    shares = _shares(step["breakdown"])
    alt = f"One bar of a step of {time_text(step['time_s'])}: " + ", ".join(
        f"{_PART_NAMES[part]} {percent(share)}" for part, share in shares.items() if share
    )
    caption = "Communication that computing hides takes no time of the step and is not in the bar."
    picture = Picture("the-step", stack, f"{alt}.", caption, _table(step))
    return Section("the-step", stack.title, (_told(step),), (picture,), notes)


def step_stack(step: Mapping[str, Any]) -> Stack | None:
    """Return what a step is made of, in milliseconds or seconds; ``None`` without a breakdown.

    Parameters
    ----------
    step
        The entry ``step`` of the document of a run.
    """
    breakdown = step["breakdown"]
    if not breakdown:
        return None
    size, unit = (1.0, "s") if step["time_s"] >= 1 else (1e-3, "ms")
    parts = [
        Part(_TERMS[term], breakdown[term] / size, _HUES[part])
        for part, terms in PARTS.items()
        for term in sorted(terms, key=lambda term: -breakdown[term])
        if breakdown[term] > 0
    ]
    shares = _shares(breakdown)
    others = [part for part in shares if part != "computing" and shares[part]]
    largest = max(others, key=lambda part: shares[part], default=None)
    title = f"{percent(shares['computing'])} of a step of {time_text(step['time_s'])} is computing"
    if largest is not None:
        title += f"; {_PART_NAMES[largest]} takes {percent(shares[largest])}"
    return Stack(title, unit, tuple(parts))


def _shares(breakdown: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part of a step [-]."""
    total = sum(breakdown.values())
    return {part: sum(breakdown[term] for term in terms) / total for part, terms in PARTS.items()}


def _told(step: Mapping[str, Any]) -> str:
    """Return what the time of a step rests on, how sure it is, and how well it uses the peak."""
    if step["stated"] == "mfu":
        parts = ["The time follows from the use of the peak that the scenario states."]
    elif step["basis"] in _BASES:
        parts = [_BASES[step["basis"]]]
    else:
        parts = ["The scenario states the time."]
    if step["band90_s"] is not None:
        low, high = step["band90_s"]
        parts.append(f"With 90 % confidence it is between {time_text(low)} and {time_text(high)}.")
    if step["model_s"] is not None and step["stated"] is not None and step["model_band90_s"] is not None:
        low, high = step["model_band90_s"]
        parts.append(
            f"The model of steps alone would say {time_text(step['model_s'])} ({time_text(low)} to {time_text(high)} "
            "with 90 % confidence); the parts are scaled to the time that is stated."
        )
    if step["mfu"] is not None:
        parts.append(
            f"It uses {percent(step['mfu'])} of the peak of the GPUs (model FLOP utilisation, MFU: "
            f"{step['mfu_convention']})."
        )
    return " ".join(parts)


def _table(step: Mapping[str, Any]) -> Grid:
    """Return the terms of a step in seconds and in percent."""
    breakdown, total = step["breakdown"], sum(step["breakdown"].values())
    rows = [
        (_TERMS[term], _PART_NAMES[part], f"{breakdown[term]:.4g}", percent(breakdown[term] / total))
        for part, terms in PARTS.items()
        for term in terms
        if breakdown[term] > 0
    ]
    rows.append(("the step", "", f"{total:.4g}", percent(1.0)))
    columns = (Column("term", is_number=False), Column("part", is_number=False), Column("seconds"), Column("share"))
    return Grid("What a healthy step is made of", columns, rows)


def _notes(focus: Focus) -> tuple[str, ...]:
    jobs = focus.prepared.jobs
    found = [f"Of {focus.name}; a healthy step, without anything that is lost."]
    if len(jobs) > 1:
        found.append(f"Of the first job, {jobs[0].name}, of {len(jobs)}.")
    return tuple(found)
