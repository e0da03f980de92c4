"""The first screen about a sensitivity: which input matters most, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import (
    COUNT,
    PERCENT,
    CellForms,
    Shown,
    bar_text,
    capital,
    cell_forms,
    empty_table,
    ends_of,
    label_text,
    listed,
    name_of,
    number_of,
    people_form,
    percent_text,
    points_form,
    range_text,
    shown,
    text_or_dash,
)
from analysis.page.account import currency_of
from analysis.page.chapters.compare import difference_note
from analysis.page.chapters.inputs import more_runs, not_covered
from analysis.page.charts.data import Bar, Bars, Part, Stack, Swing, Tornado
from analysis.page.glossary import glossed, metric_words
from analysis.page.material import SENSITIVITY
from analysis.page.model import Column, Grid, Opening, Picture, Section, joined
from analysis.page.traced import Places, number, ranged, told
from analysis.results.models import DifferenceFound
from analysis.statistics.differences import MANY
from analysis.terminal import Page, console

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from analysis.amounts import Form
    from analysis.page.material import Material
    from analysis.page.model import Words
    from analysis.page.traced import Estimate

# ----------------------------------------
# The sensitivity of a study in sentences, and how its numbers are told.

_NAMED = 4

"""Axes that a sentence names."""

_SAME = 1e-12

"""Change relative to the metric that is rounding [-]."""


def answers(content: dict[str, Any]) -> list[str]:
    """Return the answer in sentences, the most important first."""
    return [*_of_indices(content), *_of_tornado(content)]


def _of_indices(content: dict[str, Any]) -> Iterator[str]:
    """Yield what all axes and luck together tell."""
    found = content["indices"]
    if found is None:
        return
    all_of_it, name = whole(content), name_of(content["metric"])
    variance = found["variance"]
    if variance["luck"]["share"] is None:
        yield f"{name}: {found['reason']}."
        return
    yield (
        f"{all_of_it} makes {_share(variance['parameters']['share'])} of the variance of one run's {name}, "
        f"luck {_share(variance['luck']['share'])}, both together {_share(variance['both']['share'])}."
    )
    if found["reason"]:
        yield f"No axis is told from another: {found['reason']}."
        return
    told = [f"{title(content, row['axis'])} alone brings {_share(row['first'])}" for row in found["by_axis"][:_NAMED]]
    if len(found["by_axis"]) > _NAMED:
        told.append("the others see below")
    rest = found["together"]
    joint = f"; only together they bring {_share(rest)}" if rest["ci95"][0] > 0 and len(told) > 1 else ""
    yield f"Of {all_of_it[0].lower()}{all_of_it[1:]}, {', '.join(told)}{joint}."


def _of_tornado(content: dict[str, Any]) -> Iterator[str]:
    """Yield what the axes tell one at a time."""
    swings = [swing for swing in content["tornado"] or () if changes(swing)]
    change = forms(content).change
    first = next((swing for swing in swings if swing["resolved"]), None)
    if first is not None:
        moves = [move for move in first["moves"] if move["change"] is not None]
        told = ", ".join(f"{change(move['change']['mean'])} at {move['label']}" for move in moves)
        those = "One at a time" if first is swings[0] else "Of those resolved one at a time"
        yield f"{those}, {title(content, first['axis'])} moves it most: {told} (from {first['center']})."
    count = number_of(content["replications"], "replication")
    open_ones = [swing for swing in swings if not swing["resolved"] and any(map(varies, swing["moves"]))]
    same = [swing for swing in swings if not any(map(varies, swing["moves"])) and not any(changes(swing))]
    for these, told in (
        (open_ones, f"One at a time not resolved with {count}"),
        (same, "One at a time without any effect"),
    ):
        if these:
            yield f"{told}: {', '.join(title(content, swing['axis']) for swing in these)}."


def varies(move: dict[str, Any]) -> bool:
    """Return whether replications differ in what a value changes."""
    found = move["change"]
    return found is not None and found["ci95"][0] != found["ci95"][1]


def whole(content: dict[str, Any]) -> str:
    """Return what all axes are together."""
    return "What we do not know" if all(axis["unknown"] for axis in content["axes"].values()) else "What varies"


def changes(swing: dict[str, Any]) -> list[float]:
    """Return the mean changes of an axis that are known."""
    return [move["change"]["mean"] for move in swing["moves"] if move["change"] is not None]


def title(content: dict[str, Any], axis: str) -> str:
    """Return what an axis is called."""
    return str(content["axes"][axis]["title"])


def forms(content: dict[str, Any]) -> CellForms:
    """Return how the metric of a document is told; what the order of a sum leaves of nothing is none."""
    found, size = cell_forms(content["metric"]), abs(content["center"]["mean"] or 0.0)
    return found._replace(change=lambda amount: found.change(amount if abs(amount) > _SAME * size else 0.0))


def _share(found: dict[str, Any]) -> str:
    """Return a share with its interval, in percent."""
    low, high = found["ci95"]
    return f"{percent_text(found['value'], 0)} [{100 * low:.0f}..{100 * high:.0f}]"


# ----------------------------------------
# The sensitivity of a study as text for the terminal, and what speaks against it.

_LEAST_WIDTH = 120

"""Columns that a table may take on any terminal: one that is cut helps nobody."""

_BAR = 16


def format_sensitivity(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the document (as read back from JSON) as text, `width` columns wide (the terminal's)."""
    page = Page()
    out = console(page, width=width)
    out.width = max(out.width, _LEAST_WIDTH)
    out.print(f"What matters to {name_of(content['metric'])} in {content['study']}", style="bold")
    for line in content["warnings"]:
        out.print(f"  warning: {line}", soft_wrap=True)
    for sentence in answers(content):
        out.print(f"  {sentence}", soft_wrap=True)
    out.print()
    _print_center(out, content)
    if content["indices"] is not None and content["indices"]["variance"]["luck"]["share"] is not None:
        _print_variance(out, content)
    if content["indices"] is not None and content["indices"]["by_axis"]:
        _print_indices(out, content)
    if content["tornado"] is not None:
        _print_tornado(out, content)
    notes = list(_notes(content))
    if notes:
        out.print()
    for line in notes:
        out.print(f"  - {line}", soft_wrap=True)
    return page.text()


def _print_center(out: Console, content: dict[str, Any]) -> None:
    """Print what the central point comes to."""
    center, form = content["center"], forms(content).value
    values = ", ".join(f"{title(content, name)} {label}" for name, label in center["values"].items())
    formula = "" if center["closed_form"] is None else f" (closed form {form(center['closed_form'])})"
    out.print(f"  centre: {values}", soft_wrap=True)
    mean = f"{text_or_dash(center['mean'], form)}, 95 % interval {range_text(center['ci95'], form)}{formula}"
    told = f"{number_of(content['replications'], 'replication')} of every point, seed {content['seed']}"
    out.print(f"  {name_of(content['metric'])} there: {mean}; {told}", soft_wrap=True)


def _print_variance(out: Console, content: dict[str, Any]) -> None:
    """Print what brings the variance of one run."""
    found = content["indices"]
    labels = {"parameters": whole(content).lower(), "luck": "luck", "both": "both together"}
    table = empty_table("variance of one run", "standard\ndeviation", "share", "95 %\ninterval", "")
    table.columns[-1].min_width = _BAR
    spread = forms(content).spread
    for name, label in labels.items():
        part = found["variance"][name]
        value, interval = part["share"]["value"], part["share"]["ci95"]
        table.add_row(label, spread(part["variance"] ** 0.5), percent_text(value, 0), _range(interval), bar_text(value))
    out.print()
    out.print(table)


def _print_indices(out: Console, content: dict[str, Any]) -> None:
    """Print which axis brings how much of what varies."""
    rows = content["indices"]["by_axis"]
    has_form = any(row["closed_form"] is not None for row in rows)
    form = ["closed\nform"] if has_form else []
    table = empty_table(
        f"of {whole(content).lower()}", "alone", "95 %\ninterval", *form, "", "in all", "95 %\ninterval", *form
    )
    for row in rows:
        parts = [row["first"], row["total"]]
        forms = [[percent_text(row["closed_form"][key], 0)] if has_form else [] for key in ("first", "total")]
        cells = [[percent_text(part["value"], 0), _range(part["ci95"])] for part in parts]
        table.add_row(
            title(content, row["axis"]), *cells[0], *forms[0], bar_text(row["first"]["value"]), *cells[1], *forms[1]
        )
    out.print()
    out.print(table)


def _print_tornado(out: Console, content: dict[str, Any]) -> None:
    """Print how far each axis alone moves the metric."""
    change = forms(content).change
    widest = max((abs(mean) for swing in content["tornado"] for mean in changes(swing)), default=0.0)
    has_form = any(move["closed_form"] is not None for swing in content["tornado"] for move in swing["moves"])
    form = ["closed\nform"] if has_form else []
    table = empty_table(
        "one at a time", "value", "change", "95 %\ninterval", *form, "lower", "higher", "not resolved:\nreplications"
    )
    table.columns[-2].justify = "left"
    for swing in content["tornado"]:
        for place, move in enumerate(swing["moves"]):
            found = move["change"]
            mean = 0.0 if found is None else found["mean"]
            length = abs(mean) / widest if widest else 0.0
            table.add_row(
                title(content, swing["axis"]) if place == 0 else "",
                move["label"],
                "-" if found is None else change(mean),
                range_text(None if found is None else found["ci95"], change),
                *([text_or_dash(move["closed_form"], change)] if has_form else []),
                _left_bar(length) if mean < 0 else "",
                bar_text(length) if mean > 0 else "",
                _status(move),
            )
    out.print()
    out.print(table)


def _left_bar(share: float) -> str:
    """Return a bar as long as a share that ends on the right: of whole blocks, for finer ones begin on the left."""
    return "█" * round(share * _BAR)


def _status(move: dict[str, Any]) -> str:
    """Return how many replications would resolve what may be chance; nothing where that is not needed."""
    found = move["change"]
    if found is None:
        return "no result"
    if found["resolved"]:
        return ""
    if not varies(move):
        return "no change"
    needed = found["replications_to_resolve"]
    return f"> {MANY:,}" if needed is None else f"{needed:,}"


def _notes(content: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader must know before using the numbers."""
    found = content["indices"]
    if found is not None and found["by_axis"]:
        yield "alone: by how much the variance would fall if this one were known; in all: what it takes part in"
        noise = found["noise_of_means"]
        if noise >= 0.005:
            yield f"luck makes {percent_text(noise, 0)} of the variance of the means of points; it is taken out above"
    chosen = [axis["title"] for axis in content["axes"].values() if not axis["unknown"]]
    if found is not None and chosen:
        yield f"chosen, not unknown: {', '.join(chosen)}; all values of the study count as equally likely"
    if content["tornado"] is not None:
        unknown = any(axis["unknown"] for axis in content["axes"].values())
        low = content["low"]
        ends = (
            f"; the ends of what is unknown are its quantiles of {percent_text(low, 0)} and {percent_text(1 - low, 0)}"
        )
        yield f"one at a time: changes on the same failures, each interval 95 % by itself{ends if unknown else ''}"
        yield from _without_luck(content)
    for line in content["assumptions"]:
        yield f"assumes: {line}"


def _without_luck(content: dict[str, Any]) -> Iterator[str]:
    """Yield the changes that are resolved once the luck of the failures is taken out."""
    change = forms(content).change
    for swing in content["tornado"]:
        for move in swing["moves"]:
            found = move["change"]
            taken = found and not found["resolved"] and found["controlled"]
            if taken and not taken["ci95"][0] <= 0 <= taken["ci95"][1]:
                told = range_text(taken["ci95"], change)
                name = title(content, swing["axis"])
                yield f"{name} {move['label']}: {told} with the luck of the failures taken out"


def _range(ends: list[float]) -> str:
    return f"{100 * ends[0]:.0f}..{100 * ends[1]:.0f} %"


def against(content: dict[str, Any]) -> list[str]:
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

Content = dict[str, Any]


def sensitivity_of(material: Material) -> Content | None:
    """Return the document of a sensitivity, or what a sweep's answer has of one; ``None`` without either.

    An answer knows less: what it does not know is ``None``.
    """
    found = material.of(SENSITIVITY)
    if found is not None:
        content: Content = found
        return content
    sweep = material.sweep
    answers = [] if sweep is None else [answer["data"] for answer in sweep["answers"] if answer["ask"] == "sensitivity"]
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
        "variance": {key: {"share": None if shares is None else shares[key]} for key in ("parameters", "luck", "both")},
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


# ----------------------------------------
# What each input alone does to the answer.


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(material)
    if content is None or not content["tornado"] or content["center"]["mean"] is None:
        return None
    known = [(swing, _moves_of_tornado(swing)) for swing in content["tornado"]]
    known = [(swing, moves) for swing, moves in known if moves]
    if not known:
        return None
    metric = _metric(content, currency_of(material))
    title = _title(known, content, metric)
    swings = tuple(_swing_of_tornado(swing, moves, content, metric) for swing, moves in known)
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
    return Section("tornado", title, (), (picture,), tuple(_notes_of_tornado(content)))


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
    return f"No input alone changes {metric.name} by more than luck may, with {count}"


def _notes_of_tornado(content: Content) -> Iterator[str]:
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


# ----------------------------------------
# Which inputs the scatter of the answer comes from.


def variance_section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = sensitivity_of(material)
    if content is None:
        return None
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
    return PERCENT.value(found["value"], ends_of(found["ci95"]))


def _parts_of_variance(content: Content) -> Picture | None:
    """Return what the variance of one run is made of; ``None`` where there is no variance."""
    variance = content["indices"]["variance"]
    names = {"parameters": _whole(content), "luck": "luck of a run", "both": "both together"}
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
        "Luck is what differs between runs of one cluster. Both together: how lucky a run can be is itself different "
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
        yield f"Luck makes {PERCENT.plain(noise)} of the variance of the means of points; it is taken out."
    chosen = [str(axis["title"]) for axis in content["axes"].values() if not axis["unknown"]]
    if chosen:
        yield f"Chosen, not unknown: {listed(chosen)}; all their values count as equally likely."
