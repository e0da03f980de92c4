"""The first screen about a study."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital
from analysis.report.model import Opening
from analysis.report.openings.answers import Rows, answers_of
from analysis.report.openings.answers.phrases import line, listed, sentence
from analysis.report.openings.doubt import EXACTLY, RECORDED, chance, not_covered, not_known
from analysis.report.openings.drivers import drivers, of_formula
from analysis.report.openings.glossary import glossed
from analysis.report.openings.numbers import COUNT, number
from analysis.report.openings.traced import Places
from analysis.report.words import joined, plain
from sim import catalog

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.openings.answers import Asked, Told
    from analysis.report.words import Words

__all__ = ["edge", "opening"]

_MOST_ASSUMPTIONS = 3
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
    answers = answers_of(places, Rows(material.table))
    question = str(content["question"] or content["description"] or content["study"])
    if not answers:
        return glossed(Opening(question, _silent(content), (), None, (), _not_covered(material, places, None, None)))
    asked, first = answers[0]
    picture = first.picture(_title(first.title))
    replayed = material.focus is not None and any(source.use == "replay" for source in material.focus.scenario.failures)
    unknown = _unknown(places, asked, first, RECORDED if replayed else EXACTLY)
    doubt = first.doubt or joined([unknown, _chance(places, asked, first)])
    caveat = of_formula(asked, first.cell, far=True)
    found = glossed(
        Opening(
            question,
            joined([_unanswered(asked), first.answer]),
            doubt,
            picture,
            drivers(material, answers),
            (*edge(asked, first), *([caveat] if caveat else ()), *_not_covered(material, places, asked, first)),
        )
    )
    return replace(found, glossary=(*_presets(asked, first), *found.glossary))


def _unanswered(asked: Asked) -> Words:
    """Return that what was asked first has no answer, and why; empty where it has one."""
    said = asked.places.get("answers", 0, "sentences") if asked.position else ()
    if not asked.position:
        return ()
    reason = said[0].removesuffix(".") if said else ""
    return sentence("the first question has no answer", f": {reason}" if reason else "")


def _presets(asked: Asked, first: Told) -> list[tuple[str, str]]:
    """Return what recoveries of the catalog that the answer names do."""
    names = [name for name in catalog.recoveries() if f"“{name}”" in plain(first.answer)]
    is_named = any("recovery.use" in asked.places.get("axes", axis, "paths") for axis in asked.varying)
    titles = [(name, str(catalog.recovery(name)["title"])) for name in names if is_named]
    return [(name, f"{capital(title.partition(': ')[2] or title)}.") for name, title in titles]


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


def _unknown(places: Places, asked: Asked, first: Told, otherwise: str) -> Words:
    """Return how far what is not known exactly moves the answer; or what else it holds for."""
    titles = [(str(axis["title"]),) for axis in places.get("axes").values() if axis["unknown"]]
    if not titles:
        return (otherwise,)
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


def _not_covered(material: Material, places: Places, asked: Asked | None, first: Told | None) -> tuple[Words, ...]:
    """Return what the answer does not cover: points without results, notes, and what is assumed about the answer."""
    found: list[Words] = []
    for status, what in _TROUBLES:
        count = places.at("counts", status)
        if count is not None and count.value:
            total = places.at("counts", "points")
            assert total is not None
            found.append(sentence(number(count, COUNT), " of ", number(total, COUNT), " points ", what))
    stated = places.get("assumptions")
    own = [text for text in stated if text in _own(material)] or stated
    terms = set() if asked is None or first is None else _terms(asked, first)
    ranked = sorted(dict.fromkeys(own), key=lambda text: (-len(terms & _words(text)), len(text)))
    *noted, last = not_covered(places.get("notes"), [entry["warning"] for entry in places.get("warnings")], ())
    found += [*noted, *(sentence(f"assumed: {text}") for text in ranked[:_MOST_ASSUMPTIONS])]
    if len(ranked) > _MOST_ASSUMPTIONS:
        found.append(("More is assumed; all of it is listed with its source further down.",))
    return (*found, last)


def _terms(asked: Asked, first: Told) -> set[str]:
    """Return words by which an assumption is known to be about the answer: of its axes and of the values it names."""
    axes = " ".join(asked.title(axis) for axis in asked.varying)
    text = plain(first.answer)
    named = [entry["label"] for axis in asked.varying for entry in asked.places.get("axes", axis, "values")
             if plain(asked.value(axis, entry["label"])).strip("“”") in text]  # fmt: skip
    return _words(axes) | _words(" ".join(named))


def _words(text: str) -> set[str]:
    """Return the words of a text that tell of what it is: names, large numbers, and not the small words."""
    found = re.findall(r"[a-z][a-z0-9-]{3,}|\d{3,}", text.lower().replace(",", ""))
    return {word.removesuffix("s") for word in found}


def edge(asked: Asked, first: Told) -> tuple[Words, ...]:
    """Return that the best is the last value that was tried, so that beyond it there may be better; empty elsewhere."""
    if asked.content["ask"] != "best" or first.cell is None:
        return ()
    found: list[Words] = []
    labels = asked.places.get("cells", first.cell, "values")
    groups = [group for group in asked.data["groups"] if group["best"] and asked.cell(group["best"]) == first.cell]
    rivals = [one for group in groups for one in group["may_be_best"]]
    for name in asked.varying:
        axis = asked.axis(name)
        if axis is None or not axis.is_numeric or name in asked.content.get("for_each", ()):
            continue
        order = [label for _, label in sorted(zip(axis.numbers, axis.labels, strict=True))]
        is_sure = all(one.get(name) == labels[name] for one in rivals)
        if is_sure and len(order) >= _FEWEST_VALUES and labels[name] in (order[0], order[-1]):
            word = "below" if labels[name] == order[0] else "above"
            found.append(sentence(f"nothing {word} ", asked.values(name, [labels[name]]), " was tried"))
    return tuple(found)


def _own(material: Material) -> tuple[str, ...]:
    """Return the assumptions of the study, without those of its scenario."""
    study = material.study
    return () if study is None else tuple(study.study.assumptions)
