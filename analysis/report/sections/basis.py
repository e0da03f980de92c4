"""What the answer rests on: measured, published or assumed inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed, name_of
from analysis.cells import number_of
from analysis.plots.charts import Part, Stack
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.results import SENSITIVITY
from analysis.report.sections.inputs import all_inputs, axis_basis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.report.material import Material

__all__ = ["section"]

_HUES = {"measured": 0, "published": 1, "assumed": 2, "not stated": 3, "a choice": 4}
"""Hue of each basis of an axis, in the order in which they are shown."""
_NAMES = {
    "measured": "measured inputs",
    "published": "published inputs",
    "assumed": "assumed inputs",
    "not stated": "inputs without a stated basis",
    "a choice": "what the study chooses",
}
_TOGETHER, _LUCK, _BOTH = "inputs only together", "luck of one run", "luck together with inputs"
_SUMS = (
    "Each input counts with what it does alone, whatever the others are (its first-order index), and these shares add "
    "up. What inputs do only together belongs to none of them, and stands by itself."
)
_OF_INPUTS = {**_HUES, "preset": 3, "stated": 4}
_SAYS = {
    "measured": "measured",
    "published": "published",
    "assumed": "assumed",
    "preset": "of a preset",
    "stated": "stated without a source",
}


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    if material.focus is None:
        return None
    content = material.of(SENSITIVITY)
    shares = None if content is None else _shares(material, content)
    return _of_counts(material) if content is None or shares is None else _of_variance(material, content, shares)


# -------------------------------------------------------------------------------------------------- variance


def _shares(material: Material, content: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the shares of the variance of a run by what they come from [-]; ``None`` where they are not known."""
    indices = content["indices"]
    if indices is None or material.study is None or not indices["by_axis"]:
        return None
    parts = {name: part["share"] for name, part in indices["variance"].items()}
    if None in parts.values():
        return None
    inputs = parts["parameters"]["value"]
    found: dict[str, float] = {}
    for row in indices["by_axis"]:
        basis = axis_basis(material.study.study.vary[row["axis"]])
        found[basis] = found.get(basis, 0.0) + row["first"]["value"]
    # Estimates may add up to more than everything; then nothing is left for what they do together.
    scale = inputs / max(sum(found.values()), 1.0)
    known = {_NAMES[basis]: scale * found[basis] for basis in _HUES if basis in found}
    known[_TOGETHER] = inputs - sum(known.values())
    return known | {_LUCK: parts["luck"]["value"], _BOTH: parts["both"]["value"]}


def _of_variance(material: Material, content: Mapping[str, Any], shares: Mapping[str, float]) -> Section:
    """Return what the variance of a run comes from."""
    assert material.study is not None
    metric = name_of(content["metric"])
    title = _told(metric, shares)
    hues = {_NAMES[basis]: hue for basis, hue in _HUES.items()}
    parts = tuple(Part(name, 100 * share, hues.get(name, -1)) for name, share in shares.items())
    rows = tuple((name, _percent(share)) for name, share in shares.items())
    picture = Picture(
        "what-the-answer-rests-on",
        Stack(title, "%", parts),
        f"A bar of what the variance of {metric} comes from: {', '.join(f'{name} {text}' for name, text in rows)}.",
        _SUMS,
        Grid("Where the variance comes from", (Column("part", False), Column("share of the variance")), rows),
    )
    notes = (
        f"From {len(content['indices']['by_axis']) + 2} sets of {content['indices']['rows']} points of the inputs; the "
        "intervals of single inputs are in the table.",
        "Only what the study varies is in it: what every point has in common moves nothing here, however little is "
        "known of it.",
    )
    return Section("basis", title, (), (picture, _by_axis(material, content)), notes)


def _told(metric: str, shares: Mapping[str, float]) -> str:
    """Return what the largest part is, and what measured and assumed inputs have."""
    assumed, measured = shares.get(_NAMES["assumed"]), shares.get(_NAMES["measured"])
    if assumed is None and measured is None:
        largest = max(shares, key=lambda name: shares[name])
        return f"{_percent(shares[largest])} of the variance of {metric} comes from {largest}"
    told = [
        f"{basis} inputs alone bring {_percent(share)}"
        for basis, share in (("assumed", assumed), ("measured", measured))
        if share is not None
    ]
    return f"{capital(' and '.join(told))} of the variance of {metric}"


def _by_axis(material: Material, content: Mapping[str, Any]) -> Grid:
    """Return what each input brings, with what it rests on."""
    assert material.study is not None
    vary, rows = material.study.study.vary, []
    for row in content["indices"]["by_axis"]:
        axis = vary[row["axis"]]
        name, first, total = axis.title or row["axis"], _ranged(row["first"]), _ranged(row["total"])
        rows.append((name, axis_basis(axis), first, total, axis.source or "the study itself"))
    heads = (Column("input", False), Column("basis", False), Column("alone"), Column("with all others"))
    return Grid(
        "What each input brings of the variance between means",
        (*heads, Column("source", False)),
        tuple(rows),
        note="In % of the variance that comes from inputs, with 95 % intervals. What inputs bring with all others "
        "counts some of it several times, so that this column adds up to more than everything.",
    )


def _ranged(estimate: Mapping[str, Any]) -> str:
    """Return an estimate with its interval."""
    ends = estimate["ci95"]
    told = _percent(estimate["value"])
    return told if ends is None or None in ends else f"{told} [{_percent(ends[0])}, {_percent(ends[1])}]"


# ---------------------------------------------------------------------------------------------------- counts


def _of_counts(material: Material) -> Section:
    """Return how many inputs are of each kind, and how to know which of them matter."""
    counts: dict[str, int] = {}
    for _, one in all_inputs(material):
        counts[one.basis] = counts.get(one.basis, 0) + 1
    known = [(basis, words, counts[basis]) for basis, words in _SAYS.items() if counts.get(basis)]
    total = sum(count for _, _, count in known)
    parts = listed([f"{count} {words}" for _, words, count in known])
    verb = " is " if known and known[0][2] == 1 else " are "
    title = f"Of {number_of(total, 'input')} {parts.replace(' ', verb, 1)}; their number does not tell which matter"
    rows = tuple((words, f"{count}") for _, words, count in known)
    picture = Picture(
        "what-the-inputs-rest-on",
        Stack(title, "inputs", tuple(Part(words, float(count), _OF_INPUTS[basis]) for basis, words, count in known)),
        f"A bar of {total} inputs by what they rest on: {', '.join(f'{count} {words}' for words, count in rows)}.",
        "Every input counts once, whether it matters or not. What is left at what the program takes is not counted.",
        Grid("Inputs by what they rest on", (Column("basis", False), Column("inputs")), rows),
    )
    return Section("basis", title, (_how(material),), (picture,), _missing(material))


def _how(material: Material) -> str:
    """Return how to know what the variance comes from."""
    if material.study is not None and any(axis.is_uncertain for axis in material.study.study.vary.values()):
        return (
            "How much of the uncertainty comes from measured, published and assumed inputs is not in these results. "
            "ettrick sensitivity DIR/study.resolved.yaml --out DIR adds it, where DIR is the folder of these results."
        )
    return (
        "How much of the uncertainty comes from measured, published and assumed inputs cannot be told: every input has "
        "one value here. A study whose axes have a distribution, with a basis and a source each, and ettrick "
        "sensitivity tell it."
    )


def _missing(material: Material) -> tuple[str, ...]:
    """Return why there are no shares of the variance though they were asked for."""
    content = material.of(SENSITIVITY)
    if content is None:
        return ()
    reason = content["indices_missing"] if content["indices"] is None else content["indices"]["reason"]
    return (f"No shares of the variance: {reason}.",) if reason else ()


def _percent(share: float) -> str:
    """Return a share to two digits; of what is next to nothing, that it is."""
    return f"{100 * share:.0f} %" if share >= 0.095 or share == 0 else f"{100 * share:.1f} %"
