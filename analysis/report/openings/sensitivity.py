"""The first screen about a sensitivity: which input matters most, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from analysis.answers.words import capital, listed
from analysis.plots.charts import Bar, Bars, Swing, Tornado
from analysis.report.model import Column, Grid, Opening, Picture
from analysis.report.openings.doubt import more_runs, not_covered
from analysis.report.openings.glossary import glossed, metric_words
from analysis.report.openings.numbers import (
    COUNT,
    PERCENT,
    Places,
    number,
    people_form,
    points_form,
    ranged,
    told,
)
from analysis.report.sections.currency import currency_of
from analysis.report.sections.sensitivity_data import drawn_ends
from analysis.report.words import joined

if TYPE_CHECKING:
    from analysis.answers.words import Form
    from analysis.report.material import Material
    from analysis.report.openings.numbers import Estimate
    from analysis.report.words import Words

__all__ = ["opening"]

_MOST_BARS = 10


class _Move(NamedTuple):
    """What one value of an input changes: where it stands, its input, the value and the centre, and the change."""

    keys: tuple[str | int, ...]
    title: str
    label: str
    center: str
    change: Estimate
    is_resolved: bool


class _Asked(NamedTuple):
    """The document, the metric, and how its values and changes are told."""

    places: Places
    metric: str
    form: Form

    @property
    def step(self) -> Form:
        """How changes are told."""
        return points_form(self.form)


def opening(material: Material) -> Opening:
    """Return the first screen."""
    content = material.main
    places = Places(material.results.file, content)
    metric = content["metric"]
    values = [content["center"]["mean"] or 0.0]
    currency = currency_of(material) if metric.startswith("cost") else ""
    asked = _Asked(places, metric, people_form(metric, values, currency))
    largest = _largest(asked)
    return glossed(
        Opening(
            question=f"What matters most to {metric_words(metric)} in {content['study']}?",
            answer=_answer(asked, largest),
            doubt=_doubt(asked),
            picture=_tornado(asked, largest) or _shares(asked),
            drivers=tuple(words for words in _drivers(asked, largest) if words)[:3],
            not_covered=not_covered(_notes(content), content["warnings"], content["assumptions"]),
        )
    )


def _notes(content: dict[str, object]) -> list[str]:
    """Return why something is missing, in words of the results."""
    return [str(content["indices_missing"])] if content["indices_missing"] else []


def _moves(asked: _Asked, row: int) -> list[_Move]:
    """Return what the values of an input change."""
    places, found = asked.places, []
    entry = places.get("tornado", row)
    title = places.get("axes", entry["axis"], "title")
    for place, move in enumerate(entry["moves"]):
        keys = ("tornado", row, "moves", place, "change")
        change = places.estimate(*keys, interval="ci95")
        if change is not None:
            resolved = bool(places.get(*keys, "resolved"))
            found.append(_Move(keys, title, move["label"], entry["center"], change, resolved))
    return found


def _largest(asked: _Asked) -> list[_Move]:
    """Return of each input the value that changes most, beyond chance if one does; the largest first."""
    rows = asked.places.get("tornado") or []
    moves = [_moves(asked, row) for row in range(len(rows))]
    tops = [max(each, key=lambda move: (move.is_resolved, abs(move.change.mean.value))) for each in moves if each]
    return sorted(tops, key=lambda move: -abs(move.change.mean.value))


def _answer(asked: _Asked, largest: list[_Move]) -> Words:
    """Return the answer in one sentence."""
    name = metric_words(asked.metric)
    sure = [move for move in largest if move.is_resolved]
    if sure:
        top = sure[0]
        start = (f"{capital(top.title)} matters most: ", *_told(asked, top))
        center = asked.places.at("center", "mean")
        return (*start, ".") if center is None else (*start, f", where {name} is ", number(center, asked.form), ".")
    if largest and all(move.change.mean.value == 0 for move in largest):
        return (f"Nothing that was moved changes {name}: it is the same in every simulated run.",)
    if largest:
        return (f"No input that was moved alone changes {name} by more than chance may.",)
    shares = _by_axis(asked)
    if shares:
        title, place, _ = shares[0]
        total = asked.places.estimate("indices", "by_axis", place, "total", interval="ci95")
        ends = asked.places.ends("indices", "by_axis", place, "total", "ci95")
        assert ends is not None or total is None
        parts: Words = () if ends is None else ranged(*ends, PERCENT)
        return (f"{capital(title)} matters most: it takes part in ", *parts, f" of what the inputs change in {name}.")
    reason = asked.places.get("indices", "reason") or asked.places.get("indices_missing") or "nothing was asked for"
    return (f"Which input matters most to {name} cannot be told: {reason}.",)


def _told(asked: _Asked, move: _Move) -> Words:
    """Return what a value of an input changes."""
    size = move.change.changed(abs) if move.is_resolved else move.change
    way = "raises" if move.change.mean.value > 0 else "lowers"
    if size.low is None or size.high is None:
        return (f"{move.label} instead of {move.center} {way} it by ", number(abs(size.mean), asked.step))
    return (f"{move.label} instead of {move.center} {way} it by ", *ranged(size.low, size.high, asked.step))


def _drivers(asked: _Asked, largest: list[_Move]) -> list[Words]:
    """Return what else is known of what matters."""
    sure = [move for move in largest if move.is_resolved]
    return [_next(asked, sure), _unresolved(asked, largest), _without(largest), _parts(asked), _most_shares(asked)]


def _next(asked: _Asked, sure: list[_Move]) -> Words:
    """Return the input that matters most but one."""
    if len(sure) < 2:
        return ()
    return (f"Next comes {sure[1].title}: ", *_told(asked, sure[1]), ".")


def _unresolved(asked: _Asked, largest: list[_Move]) -> Words:
    """Return the largest change that may be chance."""
    open_ = [move for move in largest if not move.is_resolved and move.change.mean.value != 0]
    if not open_:
        return ()
    move = open_[0]
    needed = asked.places.at(*move.keys, "replications_to_resolve")
    size = number(abs(move.change.mean), asked.step, move.change.interval)
    return (f"{capital(move.title)} may matter too: with {move.label} instead of {move.center} the difference is ",
            size, ", which may be chance; ", *more_runs(needed), ".")  # fmt: skip


def _without(largest: list[_Move]) -> Words:
    """Return the inputs that change nothing at all."""
    names = [move.title for move in largest if move.change.mean.value == 0 and move.change.interval is None]
    if not names or len(names) == len(largest):
        return ()
    verb = "changes" if len(names) == 1 else "change"
    return (f"{capital(listed(names))} {verb} nothing over what was looked at.",)


def _parts(asked: _Asked) -> Words:
    """Return how much of the scatter of single runs comes from the inputs, and how much is luck."""
    at = ("indices", "variance")
    inputs, fortune = (asked.places.at(*at, part, "share", "value") for part in ("parameters", "luck"))
    ends = asked.places.ends(*at, "parameters", "share", "ci95")
    if inputs is None or fortune is None:
        return ()
    share: Words = (number(inputs, PERCENT),) if ends is None else (
        number(inputs, PERCENT, (ends[0].value, ends[1].value)), " (", *ranged(*ends, PERCENT._replace(unit="")), ")",
    )  # fmt: skip
    return ("Of how far single runs lie apart (their variance), ", *share, " comes from the inputs and ",
            number(fortune, PERCENT), " from luck alone; the rest from both together.")  # fmt: skip


def _by_axis(asked: _Asked) -> list[tuple[str, int, float]]:
    """Return of each input how much it takes part in, the most first."""
    found = []
    for place, row in enumerate(asked.places.get("indices", "by_axis") or []):
        share = asked.places.at("indices", "by_axis", place, "total", "value")
        if share is not None:
            found.append((asked.places.get("axes", row["axis"], "title"), place, share.value))
    return sorted(found, key=lambda entry: -entry[2])


def _most_shares(asked: _Asked) -> Words:
    """Return which inputs would make results surest if they were known."""
    parts: list[Words] = []
    for title, place, _ in _by_axis(asked)[:2]:
        share = asked.places.at("indices", "by_axis", place, "total", "value")
        assert share is not None
        parts.append((f"{title} in ", number(share, PERCENT)))
    if not parts:
        return ()
    return ("All inputs varied together, most of that involves few of them: ", *joined(parts, ", "), ".")


def _doubt(asked: _Asked) -> Words:
    """Return how sure the answer is."""
    runs = asked.places.at("replications")
    if runs is None:
        return ()
    center = asked.places.estimate("center", interval="ci95")
    parts: list[Words] = []
    low = asked.places.at("low")
    if asked.places.get("tornado") and low is not None:
        parts.append((
            "Each input was moved alone, with the others at their centres; what is not known exactly was moved to "
            "ends that it lies beyond with a probability of ", number(low, PERCENT), " each.",
        ))  # fmt: skip
    every = "Every value met the same failures, in "
    parts.append((every, number(runs, COUNT), " simulated runs; ranges are what chance leaves open."))
    if center is not None and center.interval is not None:
        parts.append(("At the centre it is ", *told(center, asked.form), "."))
    return joined(parts)


def _tornado(asked: _Asked, largest: list[_Move]) -> Picture | None:
    """Return what each input alone does."""
    center, size = asked.places.at("center", "mean"), asked.form.size
    rows = asked.places.get("tornado")
    if center is None or not rows or not largest:
        return None

    def end(move: _Move) -> tuple[str, float, tuple[float, float] | None]:
        ends = move.change.interval
        return (move.label, move.change.mean.value / size, None if ends is None else (ends[0] / size, ends[1] / size))

    swings, cells = [], []
    for row in range(min(len(rows), _MOST_BARS)):
        moves = _moves(asked, row)
        if not moves:
            continue
        first, last = drawn_ends([move.change.mean.value for move in moves])
        low, high = end(moves[first]), end(moves[last])
        if len(moves) == 1:
            high = (moves[0].center, 0.0, None)
        swings.append(Swing(moves[0].title, low, high))
        cells += [(move.title, move.label, asked.form.change(move.change.mean.value, move.change.interval))
                  for move in moves]  # fmt: skip
    sure = [move for move in largest if move.is_resolved]
    title = f"{capital(sure[0].title)} matters most" if sure else "No input changes it by more than chance may"
    unit = asked.step.unit
    heads = (Column("input", is_number=False), Column("value", is_number=False), Column("change"))
    chart = Tornado(title, unit, ("all at their centres", center.value / size), tuple(swings))
    alt = f"Bars of what each input alone changes. {title}."
    return Picture(
        "at-a-glance", chart, alt, "Changes from the centre, on the same failures.", Grid(title, heads, cells)
    )


def _shares(asked: _Asked) -> Picture | None:
    """Return what each input takes part in, where none was moved alone."""
    shares = _by_axis(asked)[:_MOST_BARS]
    if not shares:
        return None
    rows = tuple(Bar(title, (100 * share,)) for title, _, share in shares)
    title = f"{capital(shares[0][0])} matters most"
    heads = (Column("input", is_number=False), Column("takes part in"))
    table = Grid(title, heads, [(name, PERCENT.plain(share)) for name, _, share in shares])
    alt = f"Bars of how much of what the inputs change each of them takes part in. {title}."
    return Picture(
        "at-a-glance", Bars(title, "% of what the inputs change", ("takes part in",), rows), alt, table=table
    )
