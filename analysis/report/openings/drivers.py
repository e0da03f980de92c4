"""What drives the answer of a study: other answers, phases, the input that matters most, lost time, and a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.report.choice import chosen_cells
from analysis.report.openings.answers import Asked
from analysis.report.openings.answers.phrases import apart, between, line, listed, sentence
from analysis.report.openings.doubt import luck
from analysis.report.openings.glossary import BUCKETS, bucket_words, metric_words
from analysis.report.openings.numbers import PERCENT, POINTS, number, people_form, points_form, told
from analysis.report.openings.traced import Estimate, Places
from analysis.report.results import SENSITIVITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from analysis.report.material import Material
    from analysis.report.openings.answers import Told
    from analysis.report.words import Words

__all__ = ["drivers", "of_formula"]

_MOST = 3
_YES_OR_NO = "p_finish_by"
"""Of a single run it is 0 or 1, which does not scatter."""
_TIME_SHARE = "time_shares."
_OF_TIME = ("ettr", "scheduling_goodput", "runtime_goodput", "goodput", "effective_mfu", _YES_OR_NO)
"""Metrics that phases of time explain."""
_LEAST = 0.001
"""A change of a share of time that is told."""
_CLOSE = 0.005
"""How far a formula may be from the interval of the simulation without a word about it."""


def drivers(material: Material, answers: Sequence[tuple[Asked, Told]]) -> tuple[Words, ...]:
    """Return three points that say what drives the first of some answers, or as many as there are.

    One other answer of the study comes first; then what matters most, where time is lost, and what a formula
    says; then the rest of the answers.
    """
    asked, first = answers[0]
    others = _others(answers)
    pair, told_of = _pair(asked, first), [one for one, _ in answers[1:]]
    second = pair[1] if pair is not None and _of_phases(asked, pair) else None
    kinds: tuple[Callable[[], Words], ...] = (
        lambda: _of_phases(asked, pair),
        lambda: _of_sensitivity(material) or _of_axes(asked, first.cell, told_of, second),
        lambda: _of_shares(asked, first.cell),
        lambda: of_formula(asked, first.cell, far=False),
    )

    def found() -> Iterator[Words]:
        yield from others[:1]
        yield from (kind() for kind in kinds)
        yield from others[1:]

    kept: list[Words] = []
    for words in found():
        if words and len(kept) < _MOST:
            kept.append(words)
    # Luck drives nothing: it is told where there is nothing else to tell.
    alone = () if kept else _of_luck(asked, first.cell)
    return (alone,) if alone else tuple(kept)


def _others(answers: Sequence[tuple[Asked, Told]]) -> list[Words]:
    """Return the other answers in short, without those that ask the same; what an axis does by and by comes last."""
    seen: set[tuple[str, str, str]] = set()
    found: list[tuple[bool, int, Words]] = []
    for position, (asked, one) in enumerate(answers):
        content = asked.content
        ask, along = content["ask"], content.get("along") or content.get("axis") or ""
        if ask in ("best", "crossover"):
            # Who is best for each value of an axis, and along it, is the same.
            ask, along = "best", along or content.get("for_each") or ()
            along = along[0] if isinstance(along, list) and len(along) == 1 else along
        key = (ask, asked.metric, str(along))
        if position and key not in seen:
            found.append((content["ask"] == "trend", len(found), one.point))
        seen.add(key)
    return [point for *_, point in sorted(found, key=lambda one: one[:2])]


def _of_sensitivity(material: Material) -> Words:
    """Return the input that moves the metric most when it alone changes; empty without such results."""
    content = material.of(SENSITIVITY)
    if content is None or not content.get("tornado"):
        return ()
    places, swing = Places(SENSITIVITY, content), content["tornado"][0]
    moves = [(index, move) for index, move in enumerate(swing["moves"]) if move["change"] is not None]
    if not swing["resolved"] or not moves:
        return ()
    index, move = max(moves, key=lambda pair: abs(pair[1]["change"]["mean"]))
    found = places.estimate("tornado", 0, "moves", index, "change", interval="ci95")
    center = places.at("center", "mean")
    if found is None or center is None:
        return ()
    title, metric = content["axes"][swing["axis"]]["title"], content["metric"]
    form = people_form(metric, [center.value], (material.sweep or {}).get("currency") or "")
    word = "raises" if found.mean.value > 0 else "lowers"
    what = metric_words(metric).removeprefix("the ")
    start = f"{title} moves the {what} most: {move['label']} instead of {swing['center']} {word} it by "
    return sentence(start, apart(found, form, center))


def _pair(asked: Asked, first: Told) -> tuple[int, int] | None:
    """Return the cells of the first and the second option; ``None`` where there are no two."""
    cell = first.cell
    if first.other is not None and cell is not None and first.other != cell:
        return cell, first.other
    groups = [group for group in asked.data.get("groups", ()) if group["best"] and asked.cell(group["best"]) == cell]
    if groups and cell is not None:
        others = [asked.cell(entry["at"]) for entry in groups[0]["order"][1:2]]
        return (cell, others[0]) if others and others[0] is not None else None
    found = chosen_cells({**asked.places.content, "answers": [asked.content]})
    return None if found is None or found[1] is None else (found[0], found[1])


def _of_phases(asked: Asked, pair: tuple[int, int] | None) -> Words:
    """Return what time the first option spends on less, and on more, than the second one; empty where that is open."""
    if asked.metric not in _OF_TIME:
        return ()
    names = [] if pair is None else [one for one in BUCKETS if one != "productive"]
    changes = []
    for name in names:
        here, there = (asked.rows.mean(one, f"{_TIME_SHARE}{name}") for one in pair or ())
        if here is not None and there is not None and here.value != there.value:
            changes.append((name, here - there))
    changes.sort(key=lambda change: -abs(change[1].value))
    if pair is None or not changes or abs(changes[0][1].value) < _LEAST:
        return ()
    kept = [one for one in changes if abs(one[1].value) >= max(_LEAST, abs(changes[0][1].value) / 10)][:_MOST]
    told_of = []
    for place, (name, change) in enumerate(kept):
        word = "less" if change.value < 0 else "more"
        unit = POINTS if not place else POINTS._replace(unit="")
        told_of.append(line(number(abs(change), unit), f" {word} ", "of its time " if not place else "", "on ",
                            bucket_words(name)))  # fmt: skip
    where, first, second = _apart(asked, *pair)
    start = line("with ", where, ", ") if where else ""
    return sentence(start, "the job spends ", listed(told_of), " with ", first, " instead of ", second)


def _apart(asked: Asked, one: int, other: int) -> tuple[Words, Words, Words]:
    """Return what two cells have in common, and what is not so in the one and in the other."""
    ours, theirs = (asked.places.get("cells", cell, "values") for cell in (one, other))
    differ = [name for name in asked.varying if ours[name] != theirs[name]]
    common = {name: ours[name] for name in asked.varying if name not in differ}
    return asked.where(common), asked.briefly(ours, *differ), asked.shortly({name: theirs[name] for name in differ})


def _of_axes(asked: Asked, cell: int | None, others: Sequence[Asked], second: int | None) -> Words:
    """Return the largest change of the metric by one step along one axis from the answer; empty without such a step.

    A step leads to the next value of numbers, and to the nearest result of names: how far a grid reaches was the choice
    of who made it, and says nothing of what drives the answer. Left out is what is told otherwise: the step to the
    second option, and axes that another answer is about.
    """
    here = asked.mean(cell)
    if cell is None or here is None:
        return ()
    mine: dict[str, str] = asked.places.get("cells", cell, "values")
    told_of = {one.content.get("axis") for one in others if one.content["ask"] == "compare"}
    names = [name for name in asked.varying if name not in told_of]
    steps = [step for name in names for step in _steps(asked, mine, name, here) if step[-1] != second]
    if not steps:
        return ()
    axis, label, found, other = max(steps, key=lambda step: abs(step[2].mean.value))
    if not found.mean.value or (found.low and found.high and found.low.value * found.high.value <= 0):
        return ()
    word = " higher" if found.mean.value > 0 else " lower"
    rest = {name: value for name, value in mine.items() if name != axis and name in asked.varying}
    where = line("with ", asked.where(rest), ", ") if rest else ""
    size = line(asked.apart(found, here.mean), word, asked.gpu_years(found, cell, other))
    pair = line(asked.briefly({axis: label}), " instead of ", asked.value(axis, mine[axis]))
    return sentence(where, asked.subject, " is ", size, " with ", pair)


def _steps(
    asked: Asked, mine: Mapping[str, str], name: str, here: Estimate
) -> list[tuple[str, str, Estimate, int]]:  # fmt: skip
    """Return the steps along one axis: its name, the value there, the change of the metric, and the cell."""
    axis = asked.axis(name)
    labels = [entry["label"] for entry in asked.places.get("axes", name, "values")]
    if axis is not None and axis.is_numeric:
        order = [label for _, label in sorted(zip(axis.numbers, axis.labels, strict=True))]
        place = order.index(mine[name])
        labels = order[max(place - 1, 0) : place + 2]
    found = []
    for label in labels:
        other = asked.cell({**mine, name: label})
        there = asked.mean(other)
        if label != mine[name] and other is not None and there is not None:
            found.append((name, label, _step(asked, name, mine, label) or between(there, here), other))
    if axis is None or not axis.is_numeric:
        found = sorted(found, key=lambda step: abs(step[2].mean.value))[:1]
    return found


def _step(asked: Asked, name: str, mine: Mapping[str, str], label: str) -> Estimate | None:
    """Return a step as a trend along the axis has it, from pairs of runs with the same failures; ``None`` without."""
    for position in range(len(asked.places.get("answers"))):
        other = Asked(asked.places, position)
        if (
            other.content["ask"] != "trend"
            or other.data.get("along") != name
            or other.data.get("metric") != asked.metric
        ):
            continue
        for place, content in enumerate(other.data["lines"]):
            is_line = all(mine[axis] == value for axis, value in content["at"].items())
            for index, step in enumerate(content["steps"] if is_line else ()):
                if {step["from"], step["to"]} == {mine[name], label}:
                    found = other.difference("lines", place, "steps", index, "difference")
                    if found is None or step["to"] == label:
                        return found
                    return found.changed(lambda change: change * -1)
    return None


def _of_shares(asked: Asked, cell: int | None) -> Words:
    """Return what the largest part of the lost time goes to; empty where that is not known."""
    lost = {name: found for name in BUCKETS if name != "productive"
            if (found := _share(asked, cell, f"{_TIME_SHARE}{name}")) is not None and found.mean.value > 0}  # fmt: skip
    if not lost or cell is None:
        return ()
    name = max(lost, key=lambda one: lost[one].mean.value)
    is_most = lost[name].mean.value > sum(one.mean.value for one in lost.values()) / 2
    start = "of the lost time most goes to " if is_most else "of the lost time the largest part goes to "
    return sentence(_at(asked, cell), start, bucket_words(name), ": ", told(lost[name], PERCENT))


def _share(asked: Asked, cell: int | None, name: str) -> Estimate | None:
    """Return a share of time, of the document or else of the runs."""
    mean = asked.rows.mean(cell, name)
    return asked.mean(cell, name) or (None if mean is None else Estimate(mean))


def _at(asked: Asked, cell: int) -> Words:
    """Return which combination a sentence is about; empty where there is but one."""
    if len(asked.places.get("cells")) < 2:
        return ()
    return line("with ", asked.where(asked.places.get("cells", cell, "values")), ", ")


def _of_luck(asked: Asked, cell: int | None) -> Words:
    """Return how far single runs of the answer lie apart; empty where the data do not tell."""
    if cell is None or asked.metric == _YES_OR_NO:
        return ()
    keys = ("cells", cell, "metrics", asked.metric)
    words = luck(asked.places, *keys, form=asked.form)
    std, mean = asked.places.at(*keys, "std"), asked.places.at(*keys, "mean")
    if words or std is None or mean is None or std.value <= 1e-9 * abs(mean.value):
        return words
    size = (number(std, points_form(asked.form)),)
    start = "luck alone moves a single run: typically it is "
    return sentence(start, size, " away from the mean of all runs (standard deviation)")


def of_formula(asked: Asked, cell: int | None, *, far: bool) -> Words:
    """Return what a formula says beside the simulation; empty where there is none.

    Parameters
    ----------
    asked
        The answer.
    cell
        The combination.
    far
        Whether it is told if both are far apart, which is what the answer does not cover, or if they are not.
    """
    found = None if cell is None else asked.places.at("cells", cell, "closed_form", "ettr")
    simulated = asked.mean(cell, "ettr")
    if found is None or simulated is None or cell is None:
        return ()
    start = line(_at(asked, cell), f"a formula for a long run gives {metric_words('ettr')} as ", number(found, PERCENT))
    ends = simulated.interval or (simulated.mean.value, simulated.mean.value)
    is_close = ends[0] - _CLOSE <= found.value <= ends[1] + _CLOSE
    if is_close is far:
        return ()
    why = ": it has neither the start with all parts in order nor queues nor the end at the horizon" if far else ""
    return sentence(start, ", the simulation ", told(simulated, PERCENT), why)
