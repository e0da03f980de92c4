"""The first screen about a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital
from analysis.report.model import Opening
from analysis.report.openings.answers import answers_of
from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.doubt import EXACTLY, chance, not_covered, not_known
from analysis.report.openings.drivers import drivers
from analysis.report.openings.glossary import glossed
from analysis.report.openings.numbers import COUNT, number
from analysis.report.openings.traced import Places
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.openings.answers import Asked, Told
    from analysis.report.words import Words

__all__ = ["edge", "opening"]

_FEWEST_VALUES = 3
"""Values from which on an axis has a course that might go on."""
_TROUBLES = (
    ("infeasible", "cannot run as they are stated and have no results"),
    ("failed", "failed and have no results"),
    ("crashed", "crashed and have no results"),
)


def opening(material: Material) -> Opening:
    """Return the first screen."""
    content = material.main
    places = Places(material.results.file, content)
    answers = answers_of(places)
    question = str(content["question"] or content["description"] or content["study"])
    if not answers:
        return glossed(Opening(question, _silent(content), (), None, (), _not_covered(material, places)))
    asked, first = answers[0]
    picture = first.picture(_title(first.title))
    doubt = joined([_unknown(places, asked, first), _chance(places, asked, first)])
    return glossed(
        Opening(
            question,
            first.answer,
            doubt,
            picture,
            drivers(material, answers),
            (*edge(asked, first), *_not_covered(material, places)),
        )
    )


def _title(title: Words) -> str:
    """Return what the picture says, as text."""
    return capital(plain(title).replace("“", "").replace("”", ""))


def _silent(content: dict[str, Any]) -> Words:
    """Return why there is no answer."""
    said = [text for answer in content["answers"] for text in answer["sentences"]]
    if said:
        return tuple(joined([(text,) for text in said]))
    if not any(cell["status"] == "ok" for cell in content["cells"]):
        reason = next((cell["trouble"] for cell in content["cells"] if cell["trouble"]), "")
        return ("Nothing that was tried can run", f": {reason}." if reason else ".")
    return ("The study asks no question of its results; the figures below show all that it tried.",)


def _unknown(places: Places, asked: Asked, first: Told) -> Words:
    """Return how far what is not known exactly moves the answer; or that it holds at exactly what is stated."""
    titles = [(str(axis["title"]),) for axis in places.get("axes").values() if axis["unknown"]]
    if not titles:
        return (EXACTLY,)
    verb = "is" if len(titles) == 1 else "are"
    start = line("not known exactly ", verb, " ", listed(titles))
    if first.band:
        return sentence(start, ": in nine cases of ten they move the answer ", first.band)
    if first.cell is None:
        return sentence(start)
    told = not_known(places, "cells", first.cell, "metrics", asked.metric, form=asked.form, what=f"the {asked.what}")
    return sentence(start) if told == (EXACTLY,) else joined([sentence(start), told])


def _chance(places: Places, asked: Asked, first: Told) -> Words:
    """Return what the ranges of the answer are."""
    if first.cell is None:
        return ()
    return chance(places.at("cells", first.cell, "replications"), asked.mean(first.cell))


def _not_covered(material: Material, places: Places) -> tuple[Words, ...]:
    """Return what the answer does not cover: points without results, notes, and the shortest assumptions."""
    found: list[Words] = []
    for status, what in _TROUBLES:
        count = places.at("counts", status)
        if count is not None and count.value:
            total = places.at("counts", "points")
            assert total is not None
            found.append(sentence(number(count, COUNT), " of ", number(total, COUNT), " points ", what))
    stated = places.get("assumptions")
    own = [text for text in stated if text in _own(material)] or stated
    warnings = [entry["warning"] for entry in places.get("warnings")]
    return (*found, *not_covered(places.get("notes"), warnings, own))


def edge(asked: Asked, first: Told) -> tuple[Words, ...]:
    """Return that the best is the last value that was tried, so that beyond it there may be better; empty elsewhere."""
    if asked.content["ask"] != "best" or first.cell is None:
        return ()
    found: list[Words] = []
    labels = asked.places.get("cells", first.cell, "values")
    for name in asked.varying:
        axis = asked.axis(name)
        if axis is None or not axis.is_numeric or name in asked.content.get("for_each", ()):
            continue
        order = [label for _, label in sorted(zip(axis.numbers, axis.labels, strict=True))]
        if len(order) >= _FEWEST_VALUES and labels[name] in (order[0], order[-1]):
            word = "below" if labels[name] == order[0] else "above"
            found.append(sentence(f"nothing {word} ", asked.values(name, [labels[name]]), " was tried"))
    return tuple(found)


def _own(material: Material) -> tuple[str, ...]:
    """Return the assumptions of the study, without those of its scenario."""
    study = material.study
    return () if study is None else tuple(study.study.assumptions)
