"""What drives the answer of a study: other answers, the input that matters most, lost time, luck, and a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.report.openings.answers.phrases import apart, between, line, sentence
from analysis.report.openings.doubt import luck
from analysis.report.openings.glossary import bucket_words, metric_words
from analysis.report.openings.numbers import PERCENT, number, people_form, points_form, told
from analysis.report.openings.traced import Places
from analysis.report.results import SENSITIVITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from analysis.report.material import Material
    from analysis.report.openings.answers import Asked, Told
    from analysis.report.openings.traced import Estimate
    from analysis.report.words import Words

__all__ = ["drivers"]

_MOST = 3
_TIME_SHARE = "time_shares."
_NOT_LOST = ("productive", "queued")
_YES_OR_NO = "p_finish_by"
"""Of a single run it is 0 or 1, which does not scatter."""


def drivers(material: Material, answers: Sequence[tuple[Asked, Told]]) -> tuple[Words, ...]:
    """Return three points that say what drives the first of some answers, or as many as there are.

    One other answer of the study comes first; then what matters most, where time is lost, how single runs scatter, and
    what a formula says; then the rest of the answers.
    """
    asked, first = answers[0]
    others = _others(answers)
    kinds: tuple[Callable[[], Words], ...] = (
        lambda: _of_sensitivity(material) or _of_axes(asked, first.cell),
        lambda: _of_shares(asked, first.cell),
        lambda: _of_luck(asked, first.cell),
        lambda: _of_formula(asked, first.cell),
    )

    def found() -> Iterator[Words]:
        yield from others[:1]
        yield from (kind() for kind in kinds)
        yield from others[1:]

    kept: list[Words] = []
    for words in found():
        if words and len(kept) < _MOST:
            kept.append(words)
    return tuple(kept)


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


def _of_axes(asked: Asked, cell: int | None) -> Words:
    """Return what changes the metric most when it alone is not as in the answer; empty where nothing else was tried."""
    here = asked.mean(cell)
    if cell is None or here is None:
        return ()
    mine: dict[str, str] = asked.places.get("cells", cell, "values")
    moves: list[tuple[str, str, Estimate]] = []
    for other in asked.places.get("cells"):
        apart_in = [name for name in asked.varying if other["values"][name] != mine[name]]
        there = asked.mean(other["cell"]) if len(apart_in) == 1 else None
        if there is not None:
            moves.append((apart_in[0], other["values"][apart_in[0]], between(there, here)))
    if not moves:
        return ()
    axis, label, found = max(moves, key=lambda move: abs(move[2].mean.value))
    if not found.mean.value or (found.low and found.high and found.low.value * found.high.value <= 0):
        return ()
    word = " higher" if found.mean.value > 0 else " lower"
    many = len({move[0] for move in moves}) > 1
    start = f"the largest difference comes from {asked.title(axis)}: with " if many else "with "
    pair = line(asked.briefly({axis: label}), " instead of ", asked.value(axis, mine[axis]))
    size = line(asked.apart(found, here.mean), word, asked.gpu_years(found, cell))
    return sentence(start, pair, ", ", asked.subject, " is ", size)


def _of_shares(asked: Asked, cell: int | None) -> Words:
    """Return what most of the lost time goes to; empty where the study does not keep that."""
    metrics: dict[str, Any] = asked.places.get("cells", cell if cell is not None else -1, "metrics") or {}
    lost = {
        name: summary["mean"]
        for name, summary in metrics.items()
        if name.startswith(_TIME_SHARE) and name.removeprefix(_TIME_SHARE) not in _NOT_LOST and summary["mean"]
    }
    if not lost:
        return ()
    name = max(lost, key=lambda one: lost[one])
    found = asked.mean(cell, name)
    if found is None:
        return ()
    return sentence("of the lost time most goes to ", bucket_words(name.removeprefix(_TIME_SHARE)), ": ",
                    told(found, PERCENT))  # fmt: skip


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


def _of_formula(asked: Asked, cell: int | None) -> Words:
    """Return what a formula says beside the simulation; empty where there is none."""
    found = None if cell is None else asked.places.at("cells", cell, "closed_form", "ettr")
    simulated = asked.mean(cell, "ettr")
    if found is None or simulated is None:
        return ()
    told_of = f" for {metric_words('ettr')}"
    return sentence("a formula of theory gives ", number(found, PERCENT), told_of, ", the simulation ",
                    told(simulated, PERCENT))  # fmt: skip
