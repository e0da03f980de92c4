"""What each input alone does to the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed
from analysis.cells import number_of
from analysis.plots.charts import Swing, Tornado
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.phrases import label_text
from analysis.report.sections.amounts import Shown, shown
from analysis.report.sections.comparison import difference_note
from analysis.report.sections.currency import currency_of
from analysis.report.sections.sensitivity_data import drawn_ends, sensitivity_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.report.material import Material

__all__ = ["section"]

Content = dict[str, Any]


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(material)
    if content is None or not content["tornado"] or content["center"]["mean"] is None:
        return None
    known = [(swing, _moves(swing)) for swing in content["tornado"]]
    known = [(swing, moves) for swing, moves in known if moves]
    if not known:
        return None
    metric = _metric(content, currency_of(material))
    title = _title(known, content, metric)
    swings = tuple(_swing(swing, moves, content, metric) for swing, moves in known)
    at_center = content["center"]["mean"] / metric.form.size
    center = metric.told({"mean": content["center"]["mean"], "mean_ci95": content["center"]["ci95"]})
    chart = Tornado(title, metric.step, ("all inputs at their centres", at_center), swings)
    rows = [row for swing, _ in known for row in _rows(swing, content, metric)]
    columns = (
        Column("Input", is_number=False), Column("From", is_number=False), Column("To", is_number=False),
        Column(f"Change of {metric.name}, 95 % interval"), Column("How sure", is_number=False),
    )  # fmt: skip
    told = "; ".join(f"{row[0]} to {row[2]}: {row[3]}" for row in rows[:6])
    alt = f"{capital(metric.name)} is {center} with all inputs at their centres. {told}."
    caption = (
        "One input is moved, the others stay at their centres. Of several values those that change most are shown."
    )
    if content["low"] is not None:
        within = f"{100 * (1 - 2 * content['low']):.0f} %"
        caption += f" Inputs that are not known go to the ends between which they are with {within}."
    picture = Picture("tornado", chart, alt, caption, Grid(title, columns, rows))
    return Section("tornado", title, (), (picture,), tuple(_notes(content)))


def _metric(content: Content, currency: str) -> Shown:
    """Return how the metric and its changes are shown."""
    return shown(content["metric"], [content["center"]["mean"]], currency)


def _moves(swing: Content) -> list[Content]:
    """Return the values of an input whose change is known."""
    return [move for move in swing["moves"] if move["change"] is not None]


def _swing(swing: Content, moves: Sequence[Content], content: Content, metric: Shown) -> Swing:
    """Return the two values of an input that are drawn: of several the lowest and the highest change."""
    first, last = drawn_ends([float(move["change"]["mean"]) for move in moves])
    low, high = _end(moves[first], metric), _end(moves[last], metric)
    if len(moves) == 1:
        # The other end is the centre itself.
        high = str(swing["center"]), 0.0, None
    return Swing(str(content["axes"][swing["axis"]]["title"]), low, high)


def _end(move: Content, metric: Shown) -> tuple[str, float, tuple[float, float] | None]:
    change = move["change"]
    return str(move["label"]), change["mean"] / metric.form.size, metric.gaps(change["ci95"])


def _rows(swing: Content, content: Content, metric: Shown) -> Iterator[tuple[str, ...]]:
    """Yield every value of an input that was tried."""
    title = str(content["axes"][swing["axis"]]["title"])
    for move in swing["moves"]:
        change = move["change"]
        if change is None:
            yield title, swing["center"], move["label"], "no mean", move["trouble"] or "nothing to measure"
        else:
            note = difference_note(change, content["replications"])
            yield title, swing["center"], move["label"], metric.change(change), note


def _title(known: Sequence[tuple[Content, list[Content]]], content: Content, metric: Shown) -> str:
    """Return which input moves the metric most, if that is resolved."""
    sure = [(swing, move) for swing, moves in known for move in moves if move["change"]["resolved"]]
    if sure:
        swing, largest = max(sure, key=lambda pair: abs(pair[1]["change"]["mean"]))
        name, labels = content["axes"][swing["axis"]]["title"], map(label_text, (swing["center"], largest["label"]))
        told = f"{name} from {' to '.join(labels)} changes {metric.name} by {metric.change(largest['change'])}"
        highest = max(abs(move["change"]["mean"]) for _, moves in known for move in moves)
        return capital(told if abs(largest["change"]["mean"]) == highest else f"{told}, the most that is resolved")
    if all(move["change"]["mean"] == 0 for _, moves in known for move in moves):
        return f"No input alone changes {metric.name}"
    count = number_of(content["replications"], "replication")
    return f"No input alone changes {metric.name} by more than luck may, with {count}"


def _notes(content: Content) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    yield (
        f"Changes on the same failures, {number_of(content['replications'], 'replication')} of every point, seed "
        f"{content['seed']}; each interval is 95 % by itself."
    )
    center = [f"{content['axes'][name]['title']} {label}" for name, label in content["center"]["values"].items()]
    yield f"The centre: {', '.join(center)}."
    chosen = [str(axis["title"]) for axis in content["axes"].values() if not axis["unknown"]]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}."
