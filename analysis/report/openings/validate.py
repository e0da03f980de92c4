"""The first screen about a validation: whether the simulator agrees with what others found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import Form, listed
from analysis.plots.charts import Bar, Bars
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.glossary import glossed
from analysis.report.openings.numbers import COUNT, PERCENT, Places, Traced, number, total
from analysis.report.sections.validation import TWO_SIDED
from analysis.report.words import joined

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.words import Words

__all__ = ["opening"]

_QUESTION = "Does the simulator agree with published measurements, with theory and with other programs?"
_MOST_UNCHECKED = 3
_KINDS = {
    "emergent": "results that were not put in",
    "calibrated": "values that were put in or follow from an input",
    "sanity": "identities, bounds and orders",
}
"""What rows of each label are; what says most of the simulator comes first."""
_PART = Form("%", 0.01, 0.0)
"""Parts of a limit."""


class _Used(NamedTuple):
    """A row with a limit on both sides: its group, what it is of, and which part of the limit its difference is."""

    group: str
    quantity: str
    part: Traced


def opening(material: Material) -> Opening:
    """Return the first screen."""
    places = Places(material.results.file, material.main)
    drivers = (*_failed(places), _closest(places), _read(places), _together(places))
    return glossed(
        Opening(
            question=_QUESTION,
            answer=_answer(places),
            doubt=_doubt(places),
            picture=_picture(places),
            drivers=tuple(words for words in drivers if words)[:3],
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
    if failed.value == 0:
        used = _used(places)
        kinds = [(_count(places, label=label, verdict="pass"), kind) for label, kind in _KINDS.items()]
        parts: list[Words] = [(number(count, COUNT), f" {kind}") for count, kind in kinds if count.value]
        closest: Words = ("; the closest is at ", number(used[0].part, _PART), " of its limit") if used else ()
        others: Words = ("; so do ", *joined(parts[1:], ", and ")) if parts[1:] else ()
        return ("Yes: all ", *parts[0], " agree within the limits set for them", *others, *closest, ".")
    verb = "is" if failed.value == 1 else "are"
    return ("Not in everything: ", number(failed, COUNT), " of the ", number(compared, COUNT),
            f" values that were compared {verb} outside of the limits set for them.")  # fmt: skip


def _count(places: Places, **wanted: str) -> Traced:
    """Return how many rows have certain values, as the document writes them."""
    found = [row for group in places.get("groups") for row in group["rows"]]
    amount = sum(all(str(row[key]).lower() == value for key, value in wanted.items()) for row in found)
    which = "&".join(f"{key}={value}" for key, value in wanted.items())
    return Traced(amount, (f"{places.file}#/groups/*/rows/*?{which}",))


def _used(places: Places) -> list[_Used]:
    """Return which parts of their limits rows use that have one on both sides, the largest first."""
    found = []
    for first, group in enumerate(places.get("groups")):
        for second, row in enumerate(group["rows"]):
            delta, limit = (places.at("groups", first, "rows", second, key) for key in ("delta", "limit"))
            if row["tolerance"]["kind"] in TWO_SIDED and delta is not None and limit is not None and limit.value:
                found.append(_Used(group["title"], row["quantity"], abs(delta) / limit))
    return sorted(found, key=lambda used: -used.part.value)


def _closest(places: Places) -> Words:
    """Return which value is closest to its limit."""
    used = _used(places)
    if not used:
        return ()
    return (f"Closest to its limit is {used[0].quantity} ({used[0].group}), at ", number(used[0].part, _PART),
            " of it, luck that the limit leaves room for included.")  # fmt: skip


def _read(places: Places) -> Words:
    """Return how many rows say nothing of the simulator; nothing without such rows."""
    count = _count(places, only_reads="true")
    if not count.value:
        return ()
    return (number(count, COUNT), " of the rows only check that reference data are read as they should be.")


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
    """Return how close to its limit the closest value of each group is."""
    largest: dict[str, Traced] = {}
    for used in _used(places):
        largest.setdefault(used.group, used.part)
    if not largest:
        return None
    groups = places.get("groups")
    failing = [group["title"] for group in groups if any(row["verdict"] == "fail" for row in group["rows"])]
    least = _PART.plain(max(part.value for part in largest.values()))
    title = f"Not everything agrees in: {'; '.join(failing)}" if failing else f"The closest is at {least} of its limit"
    bars = tuple(Bar(name, (100 * part.value,)) for name, part in largest.items())
    heads = (Column("compared with", is_number=False), Column("closest, of its limit"))
    table = Grid(title, heads, [(name, _PART.plain(part.value)) for name, part in largest.items()])
    alt = f"Bars of the largest difference over its limit, by what was compared with. {title}."
    caption = "The largest difference of each group over its limit, of values with a limit on both sides."
    return Picture("at-a-glance", Bars(title, "% of the limit", ("largest difference",), bars), alt, caption, table)
