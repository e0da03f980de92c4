"""Which axis moves a metric most, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.answers.pictures import Row, intervals
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import PERCENT, told
from analysis.report.openings.traced import Estimate
from analysis.report.words import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["sensitivity"]

_MOST_TOLD = 3
_LEAST = 0.001
"""A share of the variance that is told."""


def sensitivity(asked: Asked) -> Told | None:
    """Return what matters most; ``None`` where the points do not tell."""
    kind = asked.data.get("kind")
    return _tornado(asked) if kind == "tornado" else _indices(asked) if kind == "sobol" else None


def _tornado(asked: Asked) -> Told | None:
    """Return the axis that alone moves the metric most, and how far."""
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    if not axes or not axes[0]["swing"]:
        return None
    moves = [_move(asked, place) for place in range(len(axes[0]["moves"]))]
    known = [text for text in moves if text]
    answer = sentence("what moves ", asked.subject, " most is ", asked.title(axes[0]["axis"]), ": ", listed(known))
    cells = [Row(plain(asked.where(cell["values"])), cell["cell"]) for cell in asked.places.get("cells")]
    short = line(asked.title(axes[0]["axis"]), " moves ", asked.subject, " most")
    return Told(answer, sentence(short), short, intervals(asked, cells), 0)


def _move(asked: Asked, place: int) -> Words:
    """Return what one value of the first axis changes; empty where that is not known."""
    entry = asked.data["axes"][0]
    move = entry["moves"][place]
    found = None if move["difference"] is None else asked.difference("axes", 0, "moves", place, "difference")
    if found is None:
        return ()
    where = line("with ", asked.values(entry["axis"], [move["value"]]), " it ")
    if not found.mean.value:
        return line(where, "is the same in every run")
    base = asked.at("center")
    word = "rises by " if found.mean.value > 0 else "falls by "
    if not move["difference"]["resolved"]:
        return line(where, "moves by no more than chance does")
    return line(where, word, asked.apart(found, base))


def _indices(asked: Asked) -> Told | None:
    """Return which share of the variance the first axes make."""
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    order = sorted(range(len(axes)), key=lambda place: -axes[place]["total"]["value"])
    texts = []
    for place in order[:_MOST_TOLD]:
        share = asked.at("axes", place, "total", "value")
        ends = asked.places.ends("answers", asked.position, "data", "axes", place, "total", "ci95")
        if share is not None and share.value >= _LEAST:
            has_width = ends is not None and ends[1].value - ends[0].value > _LEAST
            found = Estimate(share, *ends) if ends is not None and has_width else Estimate(share)
            texts.append(line(asked.title(axes[place]["axis"]), " with ", told(found, PERCENT)))
    if not texts:
        return None
    answer = sentence(
        "what makes most of the differences in ", asked.subject, " is ", listed(texts), " of the variance"
    )
    rows = [Row(plain(asked.where(cell["values"])), cell["cell"]) for cell in asked.places.get("cells")]
    short = line(asked.title(axes[order[0]]["axis"]), " moves ", asked.subject, " most")
    return Told(answer, sentence(short), short, intervals(asked, rows), 0)
