"""An optimisation as text for the terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from analysis.cells import number_of, percent_text
from analysis.console import Page, console
from analysis.optimize.reasons import why
from analysis.optimize.tables import (
    VERDICTS,
    change_text,
    estimate_text,
    print_confirmation,
    print_tried,
    title_of,
    where_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["against", "format_optimum"]

_WIDTH = 200
"""Columns where there is no terminal: a table that is cut helps nobody."""

_LEAST_WIDTH = 120
"""Columns that a table may take on any terminal, for the same reason."""

_METHODS = {
    "curve": "a coarse look, then the gaps beside the best halved",
    "edge": "a coarse look, then bisection",
    "all": "all of them",
    "search": "suggested by Optuna",
}


def format_optimum(content: dict[str, Any], *, width: int | None = None) -> str:
    """Return the document of an optimisation (as read back from JSON) as text, `width` columns wide."""
    page = Page()
    out = console(page, width=width if width is not None or page.isatty() else _WIDTH)
    out.width = max(out.width, _LEAST_WIDTH)
    out.print(content["question"] or content["study"], style="bold", soft_wrap=True)
    for line in _heading(content):
        out.print(f"  {line}", soft_wrap=True)
    for line in content["warnings"]:
        out.print(f"  warning: {line}", soft_wrap=True)
    out.print()
    for line in _answer(content):
        out.print(line, soft_wrap=True)
    print_tried(out, content)
    if content["confirmation"] is not None:
        print_confirmation(out, content)
    out.print()
    for line in _notes(content):
        out.print(f"  - {line}", soft_wrap=True)
    return page.text()


def against(content: dict[str, Any]) -> list[str]:
    """Return what speaks against relying on a document, a line each; empty if nothing does."""
    if content["answer"] is None:
        running = any(not trial["trouble"] for trial in content["tried"])
        return ["nothing that was tried keeps the conditions" if running else "no point can run"]
    if content["confirmation"]["confirmed"] is False:
        return ["fresh failures deny the answer: " + "; ".join(why(content))]
    return []


def _heading(content: dict[str, Any]) -> Iterator[str]:
    """Yield what was asked, and how the answer was looked for."""
    aims = content["aims"]
    told = [f"the {'lowest' if aim['lowest'] else 'highest'} {title_of(aim['name'], content)}" for aim in aims]
    conditions = "".join(f"{' and' if index else ', with'} {text}" for index, text in enumerate(content["conditions"]))
    yield f"{' against '.join(told)}{conditions}, in {content['scenario']}"
    over = f" on each of {content['draws']} draws of what is unknown" if content["draws"] else ""
    number = number_of(len(content["tried"]), "point")
    yield (
        f"{number} tried ({_METHODS[content['method']]}), "
        f"{number_of(content['replications'], 'replication')} each{over}, on the same failures"
    )


def _answer(content: dict[str, Any]) -> Iterator[str]:
    """Yield the answer in words."""
    answer = content["answer"]
    if answer is None:
        yield "Nothing that was tried keeps the conditions."
        yield from _why_nothing(content)
        return
    if content["front"]:
        yield f"{number_of(len(content['front']), 'point')} that no other one beats in everything:"
    else:
        yield f"Answer: {where_text(answer['values'], content)}"
    for name in (aim["name"] for aim in content["aims"] if not aim["is_axis"]):
        if not content["front"]:
            yield f"  {name} {estimate_text(name, answer['aims'][name])}{_on_fresh(name, content)}"
    for found in answer["conditions"]:
        if not content["front"]:
            yield f"  {found['condition']}: {estimate_text(found['metric'], found)}, {VERDICTS[found['verdict']]}"
    yield from _as_good(content)
    yield from _edge(content)
    yield from _formula(content)


def _why_nothing(content: dict[str, Any]) -> Iterator[str]:
    """Yield what comes closest to the conditions, or why nothing runs."""
    running = [trial for trial in content["tried"] if not trial["trouble"]]
    if not running:
        yield f"  no point can run; the first: {content['tried'][0]['trouble']}"
        return
    for index, condition in enumerate(content["conditions"]):
        known = [trial for trial in running if trial["conditions"][index]["mean"] is not None]
        if not known:
            yield f"  {condition}: no point has a mean of this metric"
            continue
        sign = 1 if ">=" in condition else -1
        closest = max(known, key=lambda trial: sign * trial["conditions"][index]["mean"])
        found = closest["conditions"][index]
        there = where_text(closest["values"], content)
        yield f"  {condition}: the closest is {estimate_text(found['metric'], found)}, at {there}"


def _on_fresh(name: str, content: dict[str, Any]) -> str:
    """Return what the answer comes to on fresh failures."""
    found = content["confirmation"]["trials"][0]["aims"][name]
    return f" where it was found, {estimate_text(name, found)} on fresh failures"


def _as_good(content: dict[str, Any]) -> Iterator[str]:
    """Yield what else is as good at this precision."""
    found = content["as_good"]
    if found is None:
        return
    name = content["aims"][0]["name"]
    values = found["values"]
    if content["aims"][0]["is_axis"]:
        if len(values) > 1:
            yield f"  with the same {title_of(name, content)}: {number_of(len(values) - 1, 'other point')}"
        return
    loss = "" if found["loss_below"] is None else f": the loss is below {change_text(name, found['loss_below'])}"
    if len(values) == 1:
        yield "  every other point that was tried is resolved as worse"
    elif content["method"] == "curve":
        axis = next(iter(values[0]))
        yield f"  anything tried from {values[0][axis]} to {values[-1][axis]} is as good at this precision{loss}"
    else:
        yield f"  {number_of(len(values), 'point')} may be the best at this precision{loss}"
    if len(values) > 1 and found["replications_to_resolve"] is not None:
        yield f"  about {found['replications_to_resolve']:,} replications would tell them apart"
    if content["top"] is not None:
        low, high = content["top"]["labels95"]
        yield f"  the curve through them is highest at {content['top']['label']} (95 %: {low} to {high})"


def _edge(content: dict[str, Any]) -> Iterator[str]:
    """Yield up to where the conditions hold."""
    edge = content["edge"]
    if edge is None:
        return
    for key, text in (("surely", "surely enough"), ("surely_not", "surely not enough")):
        if edge[key] is not None:
            yield f"  {text}: {where_text(edge[key], content)} and {'beyond' if key == 'surely' else 'before'}"
    if edge["surely"] is None:
        yield "  nothing that was tried is surely enough at this precision"
    yield "  what is enough is taken to stay enough further along the axis; only what is listed was tried"
    if edge["islands"]:
        told = "; ".join(where_text(values, content) for values in edge["islands"])
        yield f"  but the conditions are kept before that too, at {told}: more is not always better here"


def _formula(content: dict[str, Any]) -> Iterator[str]:
    """Yield the closed form's answer."""
    found = content["closed_form"]
    if found is None:
        return
    there = f"{where_text(found['values'], content)}, ETTR {percent_text(found['ettr'])}"
    of_tried = " of what was tried" if found["of_tried"] else ""
    aside = ", conditions aside" if content["conditions"] else ""
    mine = found["ettr_of_answer"]
    yield (
        f"Closed form: best{of_tried} at {there}{aside}"
        + ("" if mine is None else f"; at the answer it says {percent_text(mine)}")
    )


def _notes(content: dict[str, Any]) -> Iterator[str]:
    """Yield what a reader must know before using the answer."""
    if content["settings"] and not content["front"]:
        yield f"to use it: {' '.join(f'--set {shlex.quote(text)}' for text in content['settings'])}"
    if content["method"] == "search":
        yield "a search looks at a part of the combinations: a better one may have been missed"
    if content["method"] == "curve":
        yield "a top between two values of the coarse look that is narrower than their distance is missed"
    yield from content["assumptions"]
    without = content["closed_form_left_out"]
    if without is not None:
        count = f"{without['combinations']} of {number_of(len(content['tried']), 'combination')}"
        yield f"the closed form does not apply to {count} that were tried: {without['reason']}"
    form = content["closed_form"]
    for line in form["assumptions"] if form is not None else ():
        yield f"the closed form assumes: {line}"
