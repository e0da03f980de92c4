"""The first screen about a sensitivity: which input matters most, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import (
    COUNT,
    PERCENT,
    Shown,
    capital,
    ends_of,
    form_of,
    label_text,
    listed,
    name_of,
    number_of,
    people_form,
    points_form,
    shown,
)
from analysis.page.account import currency_of
from analysis.page.chapters.compare import difference_note
from analysis.page.chapters.inputs import more_runs, not_covered
from analysis.page.charts.data import Bar, Bars, Part, Stack, Swing, Tornado
from analysis.page.glossary import glossed, metric_words
from analysis.page.model import Column, FirstScreen, Grid, Picture, Section, joined
from analysis.page.report_data import SENSITIVITY
from analysis.page.sourced import Places, number, ranged, told
from analysis.results.models import DifferenceFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.amounts import Form
    from analysis.page.model import Words
    from analysis.page.report_data import ReportData
    from analysis.page.sourced import Estimate

Content = dict[str, Any]


def format_sensitivity(content: Content, *, width: int | None = None) -> str:
    """Return the document of a sensitivity (as read back from JSON) as text, in so many columns."""
    from analysis.page.formats import terminal

    return terminal.write(_chapters(content), width=width)


def _chapters(content: Content) -> Iterator[Section]:
    """Yield what was looked at, what brings the variance, what each input does alone, and what is assumed."""
    metric = _metric(content, "")
    mean = metric.worded({"mean": content["center"]["mean"], "mean_ci95": content["center"]["ci95"]}) or "no mean"
    formula = content["center"]["closed_form"]
    beside = "" if formula is None else f" (closed form {metric.form.plain(formula)})"
    warnings = tuple(f"warning: {line}" for line in content["warnings"])
    heading = f"What matters to {metric.name} in {content['study']}"
    yield Section("center", heading, (*warnings, f"{capital(metric.name)} at the centre: {mean}{beside}."))
    for found in (_variance_section(content), _tornado_section(content, "")):
        if found is not None:
            yield found
    if content["assumptions"]:
        yield Section("assumptions", "Assumptions", (), (), tuple(content["assumptions"]))


def against(content: Content) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    lines = [
        f"{swing['axis']}={move['label']}: {move['trouble']}"
        for swing in content["tornado"] or ()
        for move in swing["moves"]
        if move["trouble"]
    ]
    if content["indices_missing"]:
        lines.append(f"no Sobol indices: {content['indices_missing']}")
    found = content["indices"]
    if found is not None and found["left_out"]:
        rows = found["left_out"] + found["rows"]
        why = found["why_left_out"]
        lines.append(f"{found['left_out']} of {rows} rows of points left out, a point of each has no result: {why}")
    return lines


# ----------------------------------------
# The sensitivity of a study: its own document, or the answer to a question of a sweep in the same form.


def sensitivity_of(report_data: ReportData) -> Content | None:
    """Return the document of a sensitivity, or what a sweep's answer has of one; ``None`` without either.

    An answer knows less: what it does not know is ``None``.
    """
    found = report_data.of(SENSITIVITY)
    if found is not None:
        content: Content = found
        return content
    sweep = report_data.sweep
    answers = [] if sweep is None else [answer["data"] for answer in sweep["answers"] if answer["use"] == "sensitivity"]
    tornado = next((data for data in answers if data.get("kind") == "tornado"), None)
    indices = next((data for data in answers if data.get("kind") == "sobol"), None)
    data = tornado or indices
    if sweep is None or data is None:
        return None
    cell = sweep["cells"][0]
    return {
        "metric": data["metric"],
        "axes": sweep["axes"],
        "replications": cell["replications"] if tornado else data["replications"],
        "seed": sweep["seed"],
        "low": sweep["design"].get("low"),
        "center": _center(cell, data["metric"]),
        "tornado": None if tornado is None else [_swing(axis, cell) for axis in tornado["axes"]],
        "indices": None if indices is None else _indices(indices),
        "indices_missing": "",
    }


def drawn_ends(changes: Sequence[float]) -> tuple[int, int]:
    """Return which two values of an input a picture shows: those that change most either way, in the input's order.

    Parameters
    ----------
    changes
        What each value changes; one at least.
    """
    places = range(len(changes))
    low, high = min(places, key=changes.__getitem__), max(places, key=changes.__getitem__)
    return (min(low, high), max(low, high)) if low != high else (0, len(changes) - 1)


def _center(cell: Content, metric: str) -> Content:
    """Return the central point: the first cell of a sweep one at a time."""
    found = cell["metrics"].get(metric, {})
    return {"values": cell["values"], "mean": found.get("mean"), "ci95": found.get("mean_ci95")}


def _swing(found: Content, cell: Content) -> Content:
    """Return what an axis does alone, in the form of the document."""
    moves = [
        {"label": move["value"], "number": None, "change": move["difference"], "trouble": move["trouble"]}
        for move in found["moves"]
    ]
    return {"axis": found["axis"], "center": cell["values"][found["axis"]], "moves": moves}


def _indices(found: Content) -> Content:
    """Return which axis brings the variance, in the form of the document."""
    shares = found["shares"]
    return {
        "rows": found["rows"],
        "left_out": found["left_out"],
        "why_left_out": "",
        "variance": {
            key: {"share": None if shares is None else shares[key]} for key in ("parameters", "noise", "both")
        },
        "noise_of_means": found["noise"],
        "together": None,
        "by_axis": found["axes"],
        "reason": found["reason"],
    }


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


def first_screen(report_data: ReportData) -> FirstScreen:
    """Return the first screen."""
    content = report_data.main
    places = Places(report_data.results.file, content)
    metric = content["metric"]
    values = [content["center"]["mean"] or 0.0]
    currency = currency_of(report_data) if metric.startswith("cost") else ""
    asked = _Asked(places, metric, people_form(metric, values, currency))
    largest = _largest(asked)
    return glossed(
        FirstScreen(
            question=f"What matters most to {metric_words(metric)} in {content['study']}?",
            answer=_answer(asked, largest),
            doubt=_doubt(asked),
            picture=_tornado(asked, largest) or _shares(asked),
            drivers=tuple(words for words in _drivers(asked, largest) if words)[:3],
            not_covered=not_covered(_notes_of_sensitivity(content), content["warnings"], content["assumptions"]),
        )
    )


def _notes_of_sensitivity(content: dict[str, object]) -> list[str]:
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
    """Return how much of the scatter of single runs comes from the inputs, and how much is run-to-run variability."""
    at = ("indices", "variance")
    inputs, fortune = (asked.places.at(*at, part, "share", "value") for part in ("parameters", "noise"))
    ends = asked.places.ends(*at, "parameters", "share", "ci95")
    if inputs is None or fortune is None:
        return ()
    share: Words = (number(inputs, PERCENT),) if ends is None else (
        number(inputs, PERCENT, (ends[0].value, ends[1].value)), " (", *ranged(*ends, PERCENT._replace(unit="")), ")",
    )  # fmt: skip
    return ("Of how far single runs lie apart (their variance), ", *share, " comes from the inputs and ",
            number(fortune, PERCENT), " from run-to-run variability; the rest from both together.")  # fmt: skip


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


# ----------------------------------------
# What each input alone does to the answer.


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(report_data)
    return None if content is None else _tornado_section(content, currency_of(report_data))


def _tornado_section(content: Content, currency: str) -> Section | None:
    """Return the section of a document."""
    if not content["tornado"] or content["center"]["mean"] is None:
        return None
    known = [(swing, _moves_of_tornado(swing)) for swing in content["tornado"]]
    known = [(swing, moves) for swing, moves in known if moves]
    if not known:
        return None
    metric = _metric(content, currency)
    title = _title(known, content, metric)
    swings = tuple(_swing_of_tornado(swing, moves, content, metric) for swing, moves in known)
    at_center = content["center"]["mean"] / metric.form.size
    center = metric.worded({"mean": content["center"]["mean"], "mean_ci95": content["center"]["ci95"]})
    chart = Tornado(title, metric.step, ("all inputs at their centres", at_center), swings)
    rows = [row for swing in content["tornado"] for row in _rows(swing, content, metric)]
    columns = [
        Column("Input", is_number=False), Column("From", is_number=False), Column("To", is_number=False),
        Column(f"Change of {metric.name}, 95 % interval"), Column("How sure", is_number=False),
    ]  # fmt: skip
    formulas = [move.get("closed_form") for swing in content["tornado"] for move in swing["moves"]]
    if any(formula is not None for formula in formulas):
        columns.append(Column("By the closed form"))
        texts = ["no form" if formula is None else metric.form.change(formula) for formula in formulas]
        rows = [(*row, text) for row, text in zip(rows, texts, strict=True)]
    told = "; ".join(f"{row[0]} to {row[2]}: {row[3]}" for row in rows[:6])
    alt = f"{capital(metric.name)} is {center} with all inputs at their centres. {told}."
    caption = (
        "One input is moved, the others stay at their centres. Of several values those that change most are shown."
    )
    if content["low"] is not None:
        within = f"{100 * (1 - 2 * content['low']):.0f} %"
        caption += f" Inputs that are not known go to the ends between which they are with {within}."
    picture = Picture("tornado", chart, alt, caption, Grid(title, columns, rows))
    return Section("tornado", title, (), (picture,), tuple(_notes_of_tornado(content, metric)))


def _metric(content: Content, currency: str) -> Shown:
    """Return how the metric and its changes are shown."""
    return shown(content["metric"], [content["center"]["mean"]], currency)


def _moves_of_tornado(swing: Content) -> list[Content]:
    """Return the values of an input whose change is known."""
    return [move for move in swing["moves"] if move["change"] is not None]


def _swing_of_tornado(swing: Content, moves: Sequence[Content], content: Content, metric: Shown) -> Swing:
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
            note = difference_note(DifferenceFound.model_validate(change), content["replications"])
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
    return f"No input alone changes {metric.name} by more than the sampling error, with {count}"


def _notes_of_tornado(content: Content, metric: Shown) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    for swing in content["tornado"]:
        for move in swing["moves"]:
            found = move["change"]
            taken = found and not found["resolved"] and found.get("controlled")
            if taken and not taken["ci95"][0] <= 0 <= taken["ci95"][1]:
                name = content["axes"][swing["axis"]]["title"]
                yield f"{capital(name)} {move['label']}: {metric.change(taken)} without the sampling error of failures."
    yield (
        f"Changes on the same failures, {number_of(content['replications'], 'replication')} of every point, seed "
        f"{content['seed']}; each interval is 95 % by itself."
    )
    center = [f"{content['axes'][name]['title']} {label}" for name, label in content["center"]["values"].items()]
    yield f"The centre: {', '.join(center)}."
    chosen = [str(axis["title"]) for axis in content["axes"].values() if not axis["unknown"]]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}."


# ----------------------------------------
# Which inputs the scatter of the answer comes from.

_SHARE = form_of("ettr", [])


def variance_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(report_data)
    return None if content is None else _variance_section(content)


def _variance_section(content: Content) -> Section | None:
    """Return the section of a document."""
    found = content["indices"]
    if found is None:
        why = content["indices_missing"]
        title = "The scatter of the answer is not told apart"
        return Section("variance", title, (f"{capital(why)}.",)) if why else None
    pictures = [
        picture for picture in (_parts_of_variance(content), _by_axis_of_variance(content)) if picture is not None
    ]
    text = [f"{capital(found['reason'])}."] if found["reason"] else []
    if not pictures:
        name = capital(name_of(content["metric"]))
        return Section("variance", f"{name} is the same in every run", tuple(text)) if text else None
    return Section(
        "variance", pictures[-1].chart.title, tuple(text), tuple(pictures), tuple(_notes_of_variance(content))
    )


def _whole(content: Content) -> str:
    """Return what all inputs are together."""
    return "what is not known" if all(axis["unknown"] for axis in content["axes"].values()) else "what varies"


def _told_of_variance(found: Content) -> str:
    """Return a share with its interval."""
    return _SHARE.value(found["value"], ends_of(found["ci95"]))


def _parts_of_variance(content: Content) -> Picture | None:
    """Return what the variance of one run is made of; ``None`` where there is no variance."""
    variance = content["indices"]["variance"]
    names = {"parameters": _whole(content), "noise": "run-to-run variability", "both": "both together"}
    if any(variance[key]["share"] is None for key in names):
        return None
    shares = {key: variance[key]["share"] for key in names}
    parts = tuple(Part(names[key], 100 * shares[key]["value"], hue) for hue, key in enumerate(names))
    metric = name_of(content["metric"])
    largest = max(names, key=lambda key: float(shares[key]["value"]))
    verb = "make" if largest == "both" else "makes"
    title = (
        f"{capital(names[largest])} {verb} {_told_of_variance(shares[largest])} of the variance of one run's {metric}"
    )
    rows = [(names[key], _told_of_variance(shares[key])) for key in names]
    columns = (Column("Part", is_number=False), Column("Share of the variance, 95 % interval"))
    alt = f"The variance of one run's {metric}: {'; '.join(f'{name} {share}' for name, share in rows)}."
    caption = (
        "Run-to-run variability is what differs between runs of one cluster. Both together: it is itself different "
        "from one set of inputs to another."
    )
    return Picture("variance-of-a-run", Stack(title, "%", parts), alt, caption, Grid(title, columns, rows))


def _by_axis_of_variance(content: Content) -> Picture | None:
    """Return the first-order and total index of every input; ``None`` where they are not told apart."""
    found = content["indices"]["by_axis"]
    if not found:
        return None
    titles = {name: str(axis["title"]) for name, axis in content["axes"].items()}
    rows = tuple(
        Bar(
            titles[row["axis"]],
            (100 * row["first"]["value"], 100 * row["total"]["value"]),
            (_percent(row["first"]), _percent(row["total"])),
        )
        for row in found
    )
    metric = name_of(content["metric"])
    top = max(found, key=lambda row: float(row["total"]["value"]))
    told = f"takes part in {_told_of_variance(top['total'])} of what the inputs make of the variance of {metric}"
    title = capital(f"{titles[top['axis']]} {told}")
    texts = [(titles[row["axis"]], _told_of_variance(row["first"]), _told_of_variance(row["total"])) for row in found]
    columns = (Column("Input", is_number=False), Column("Alone, 95 % interval"), Column("In all, 95 % interval"))
    together = content["indices"]["together"]
    note = "" if together is None else f"Only together, not one alone, they bring {_told_of_variance(together)}."
    alt = f"Shares of the variance: {'; '.join(f'{row[0]} alone {row[1]}, in all {row[2]}' for row in texts[:6])}."
    caption = (
        "Alone: by how much the variance would fall if this input were known. In all: what it takes part in, also "
        f"together with others; these may add up to more than 100 %. {note}"
    ).rstrip()
    chart = Bars(title, "%", ("alone", "in all"), rows)
    return Picture("variance-by-input", chart, alt, caption, Grid(title, columns, texts, note=note))


def _percent(found: Content) -> tuple[float, float] | None:
    ends = ends_of(found["ci95"])
    return None if ends is None else (100 * ends[0], 100 * ends[1])


def _notes_of_variance(content: Content) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    found = content["indices"]
    samples = f"Variance-based indices (Sobol) from {number_of(found['rows'], 'sample')} of all inputs"
    left = f"; {found['left_out']} were left out" if found["left_out"] else ""
    left += f": {found['why_left_out']}" if found["why_left_out"] else ""
    yield f"{samples}{left}. Brackets are 95 % intervals."
    noise = found["noise_of_means"]
    if noise is not None:
        yield f"Sampling error makes {_SHARE.plain(noise)} of the variance of the means of points; it is taken out."
    chosen = [str(axis["title"]) for axis in content["axes"].values() if not axis["unknown"]]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}; all their values count as equally likely."
