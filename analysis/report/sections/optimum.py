"""What an optimiser tried, and what fresh failures say of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed
from analysis.cells import number_of, percent_text
from analysis.optimize.reasons import why
from analysis.report.model import Grid, Section
from analysis.report.results import OPTIMIZE
from analysis.report.sections.currency import currency_of
from analysis.report.sections.trials import (
    confirmation_picture,
    front_picture,
    metric_of,
    title_of,
    tried_picture,
    tried_table,
    where_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.report.material import Material
    from analysis.report.model import Picture
    from analysis.report.sections.amounts import Shown

__all__ = ["section"]

Content = dict[str, Any]

_METHODS = {
    "curve": "a coarse look along the axis, then the gaps beside the best halved",
    "edge": "a coarse look along the axis, then the last gap halved again and again",
    "all": "every combination",
    "search": "combinations that a search suggested; a better one may have been missed",
}
_VERDICTS = {"holds": "holds with 95 % confidence", "fails": "fails with 95 % confidence", "open": "is not resolved"}
_CONFIRMED = {True: "Fresh failures confirm it", False: "Fresh failures deny it", None: "Fresh failures do not tell"}


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = material.of(OPTIMIZE)
    if content is None or not content["tried"]:
        return None
    metrics = {
        name: metric_of(name, content, currency_of(material))
        for name in dict.fromkeys([
            *(aim["name"] for aim in content["aims"] if not aim["is_axis"]),
            *(found["metric"] for trial in content["tried"] for found in trial["conditions"]),
        ])
    }  # fmt: skip
    pictures = [tried_picture(content, name, metric) for name, metric in metrics.items()]
    pictures += [front_picture(content, metrics), confirmation_picture(content, metrics)]
    items: list[Picture | Grid] = [picture for picture in pictures if picture is not None]
    items.append(tried_table(content, metrics))
    text = (*_answer(content, metrics), *_fresh(content), *_use(material, content))
    return Section("optimum", _title(content), text, tuple(items), tuple(_notes(content)))


def _title(content: Content) -> str:
    """Return what was found."""
    answer = content["answer"]
    if answer is None:
        running = any(not trial["trouble"] for trial in content["tried"])
        return "Nothing that was tried keeps the conditions" if running else "Nothing that was tried can run"
    conditions = f", with {listed(content['conditions'])}" if content["conditions"] else ""
    if content["front"]:
        aims = listed([title_of(aim["name"], content) for aim in content["aims"]])
        return f"{number_of(len(content['front']), 'combination')} cannot be beaten in {aims} at once{conditions}"
    aim = content["aims"][0]
    best = f"{title_of(aim['name'], content)} is {'lowest' if aim['lowest'] else 'highest'}"
    found = content["as_good"]
    others = [] if found is None or aim["is_axis"] else [each for each in found["values"] if each != answer["values"]]
    where = where_text(answer["values"], content)
    if len(others) == 1:
        where += f" or {where_text(others[0], content)}, which cannot be told apart"
    elif others:
        where += f"; {len(others)} others cannot be told from it"
    return capital(f"{best} with {where}{conditions}")


def _answer(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield the answer, what is as good, and where it ends, in paragraphs."""
    answer = content["answer"]
    if answer is None:
        yield from _closest(content, metrics)
        return
    if not content["front"]:
        told = [
            f"{metrics[aim['name']].name} {_estimate(answer['aims'][aim['name']], metrics[aim['name']])}"
            for aim in content["aims"]
            if not aim["is_axis"]
        ]
        told += [
            f"{found['condition']} {_VERDICTS[found['verdict']]}: {_estimate(found, metrics[found['metric']])}"
            for found in answer["conditions"]
        ]
        if told:
            yield capital(f"{'; '.join(told)}.")
    yield from _as_good(content, metrics)
    yield from _edge(content)
    form = content["closed_form"]
    if form is not None:
        there = (
            "" if form["ettr_of_answer"] is None else f"; for the answer it says {percent_text(form['ettr_of_answer'])}"
        )
        yield (
            f"The closed form, a formula without luck, has the best ETTR at {where_text(form['values'], content)}: "
            f"{percent_text(form['ettr'])}{there}."
        )


def _estimate(found: Content, metric: Shown) -> str:
    return metric.told(found, "ci95") or "without a mean"


def _closest(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield what comes closest to each condition, or why nothing runs."""
    running = [trial for trial in content["tried"] if not trial["trouble"]]
    if not running:
        yield f"The first of them: {content['tried'][0]['trouble']}."
        return
    for index, condition in enumerate(content["conditions"]):
        known = [trial for trial in running if trial["conditions"][index]["mean"] is not None]
        if not known:
            yield f"{condition}: nothing that was tried has a mean of this metric."
            continue
        sign = 1 if ">=" in condition else -1
        closest = max(known, key=lambda trial: sign * trial["conditions"][index]["mean"])
        found = closest["conditions"][index]
        told = _estimate(found, metrics[found["metric"]])
        yield f"{condition}: the closest is {told}, with {where_text(closest['values'], content)}."


def _as_good(content: Content, metrics: dict[str, Shown]) -> Iterator[str]:
    """Yield what else is as good at this precision."""
    found, aim = content["as_good"], content["aims"][0]
    if found is None or aim["is_axis"]:
        return
    values = found["values"]
    if len(values) == 1:
        yield "Everything else that was tried is resolved as worse."
        return
    places = [where_text(each, content) for each in values]
    told = f"from {places[0]} to {places[-1]}" if content["method"] == "curve" else f"{len(values)} combinations"
    loss = found["loss_below"]
    form = metrics[aim["name"]].form
    lost = (
        ""
        if loss is None
        else f": what may be lost is below {form.plain(loss, (0.0, 2 * loss), form.step or form.unit)}"
    )
    needed = found["replications_to_resolve"]
    more = "" if needed is None else f" About {needed:,} replications would tell them apart."
    yield (
        f"What was tried {told} is as good at this precision{lost}.{more}"
        if content["method"] == "curve"
        else (f"At this precision {told} may be the best{lost}.{more}")
    )
    if content["top"] is not None:
        low, high = content["top"]["labels95"]
        yield f"The curve through them is best at {content['top']['label']} (95 %: {low} to {high})."


def _edge(content: Content) -> Iterator[str]:
    """Yield up to where the conditions hold."""
    edge = content["edge"]
    if edge is None:
        return
    words = []
    if edge["surely"] is not None:
        words.append(f"surely enough is {where_text(edge['surely'], content)} and beyond")
    else:
        words.append("nothing that was tried is surely enough at this precision")
    if edge["surely_not"] is not None:
        words.append(f"surely not enough is {where_text(edge['surely_not'], content)} and before")
    yield f"{capital('; '.join(words))}. What is enough is taken to stay enough further along."
    if edge["islands"]:
        told = "; ".join(where_text(values, content) for values in edge["islands"])
        yield f"The conditions are kept before that too, with {told}: more is not always better here."


def _fresh(content: Content) -> Iterator[str]:
    """Yield what fresh failures say."""
    found = content["confirmation"]
    if found is None:
        return
    reasons = list(why(content))
    because = f": {'; '.join(reasons)}" if reasons else ""
    draws = f", each on {content['draws']} other draws of what is not known" if content["draws"] else ""
    yield (
        f"{_CONFIRMED[found['confirmed']]}{because}. They are {number_of(found['replications'], 'replication')} of "
        f"seed {found['seed']}{draws}, which nothing was chosen by."
    )


def _use(material: Material, content: Content) -> Iterator[str]:
    """Yield the settings as a command that plays the answer, unknown inputs at their central values."""
    if content["settings"] and not content["front"]:
        settings = [*material.common_settings, *content["settings"]]
        options = " ".join(f"--set {shlex.quote(text)}" for text in settings)
        yield f"To run it, in the folder of the results: ettrick run scenario.resolved.yaml {options}"


def _notes(content: Content) -> Iterator[str]:
    """Yield how it was looked for, and what to know."""
    over = f" on each of {content['draws']} draws of what is not known" if content["draws"] else ""
    yield (
        f"{number_of(len(content['tried']), 'combination')} tried ({_METHODS[content['method']]}), "
        f"{number_of(content['replications'], 'replication')} each{over}, on the same failures."
    )
    if content["method"] == "curve":
        yield "A top between two values of the coarse look that is narrower than their distance is missed."
    yield from content["warnings"]
    form = content["closed_form"]
    for line in form["assumptions"] if form is not None else ():
        yield f"The closed form assumes: {line}"
