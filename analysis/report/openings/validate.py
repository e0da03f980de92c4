"""The first screen about a validation: whether the simulator agrees with what others found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.answers.words import Form, listed
from analysis.plots.charts import Bar, Bars
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.glossary import glossed
from analysis.report.openings.numbers import COUNT, PERCENT, Places, number, total

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.openings.numbers import Traced
    from analysis.report.words import Words

__all__ = ["opening"]

_QUESTION = "Does the simulator agree with published measurements, with theory and with other programs?"
_MOST_UNCHECKED = 3
_STATES = {"pass": "agree", "fail": "do not agree", "skipped": "not looked at"}


def opening(material: Material) -> Opening:
    """Return the first screen."""
    places = Places(material.results.file, material.main)
    return glossed(
        Opening(
            question=_QUESTION,
            answer=_answer(places),
            doubt=_doubt(places),
            picture=_picture(places),
            drivers=tuple(words for words in (*_failed(places), _together(places)) if words)[:3],
            not_covered=_not_covered(places),
        )
    )


def _compared(places: Places) -> tuple[Traced | None, Traced | None]:
    """Return how many values were compared, and how many of them do not agree."""
    passed, failed = places.at("counts", "pass"), places.at("counts", "fail")
    return total(part for part in (passed, failed) if part is not None), failed


def _answer(places: Places) -> Words:
    """Return the answer in one sentence."""
    compared, failed = _compared(places)
    if compared is None or failed is None or compared.value == 0:
        return ("Nothing was compared, so this cannot be told.",)
    limits = "the limits that are set for them"
    if failed.value == 0:
        return ("Yes: all ", number(compared, COUNT), f" values that were compared are within {limits}.")
    verb = "is" if failed.value == 1 else "are"
    return ("Not in everything: ", number(failed, COUNT), " of the ", number(compared, COUNT),
            f" values that were compared {verb} outside of {limits}.")  # fmt: skip


def _doubt(places: Places) -> Words:
    """Return how often luck alone gives a false alarm."""
    error = places.at("family_wise_error")
    compared, _ = _compared(places)
    if error is None or compared is None or compared.value == 0 or not places.get("stochastic_rows"):
        return ()
    return ("The limits leave room for luck: with a probability of ", number(error, PERCENT),
            " a program without a mistake fails somewhere in the table.")  # fmt: skip


def _failed(places: Places) -> list[Words]:
    """Return the values that do not agree, each with what it should be."""
    found: list[Words] = []
    for first, group in enumerate(places.get("groups")):
        for second, row in enumerate(group["rows"]):
            if row["verdict"] != "fail":
                continue
            at = ("groups", first, "rows", second)
            ours, theirs = places.at(*at, "ours"), places.at(*at, "published")
            if ours is None:
                found.append((f"{row['id']}: {row['reason']}.",))
                continue
            mine: Words = ("the simulator has ", number(ours, Form(row["unit"].strip("-"))))
            other: Words = () if theirs is None else ("; published is ", number(theirs, Form(row["unit"].strip("-"))))
            found.append((f"{row['id']}: ", *mine, *other, "."))
    return found


def _together(places: Places) -> Words:
    """Return what all values that share no luck say together."""
    rows = places.at("together", "rows")
    if rows is None:
        return ()
    if places.get("together", "holds"):
        return ("The ", number(rows, COUNT), " values that share no luck are, taken together, no further off than luck "
                "explains.")  # fmt: skip
    return (
        "The ",
        number(rows, COUNT),
        " values that share no luck are, taken together, further off than luck explains.",
    )


def _not_covered(places: Places) -> tuple[Words, ...]:
    """Return what was left out, and what agreement does not show."""
    found: list[Words] = []
    skipped = places.at("counts", "skipped")
    if skipped is not None and skipped.value > 0:
        was = "value was" if skipped.value == 1 else "values were"
        found.append((number(skipped, COUNT), f" {was} skipped: not asked for, or without the data that it takes."))
    entries = places.get("not_checked")
    papers = list(dict.fromkeys(entry["paper"] for entry in entries))
    if papers:
        shown = listed(papers[:_MOST_UNCHECKED]) if len(papers) <= _MOST_UNCHECKED else (
            f"{'; '.join(papers[:_MOST_UNCHECKED])}; and others"
        )  # fmt: skip
        found.append((f"Some published values are not compared, for reasons that stand further down: {shown}.",))
    found.append(
        ("Agreement with these values does not show that results hold for other clusters, or for other inputs.",)
    )
    return tuple(found)


def _picture(places: Places) -> Picture | None:
    """Return how many values of each group agree."""
    groups = []
    for group in places.get("groups"):
        counts = [sum(row["verdict"] == state for row in group["rows"]) for state in _STATES]
        groups.append((group["title"], counts))
    played = [(title, counts) for title, counts in groups if counts[0] + counts[1]]
    if not played:
        return None
    states = [place for place, _ in enumerate(_STATES) if any(counts[place] for _, counts in played)]
    series = tuple(list(_STATES.values())[place] for place in states)
    rows = tuple(Bar(title, tuple(float(counts[place]) for place in states)) for title, counts in played)
    failing = [title for title, counts in played if counts[1]]
    title = f"Not everything agrees in: {'; '.join(failing)}" if failing else "In every group all values agree"
    columns = (Column("compared with", is_number=False), *(Column(name) for name in series))
    table = Grid(title, columns, [(title, *(str(counts[place]) for place in states)) for title, counts in played])
    alt = f"Bars of how many values agree, by what they are compared with. {title}."
    return Picture("at-a-glance", Bars(title, "values", series, rows), alt, table=table)
