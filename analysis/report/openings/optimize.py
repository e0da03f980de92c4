"""The first screen about an optimum: the best setting, what it is worth, and whether fresh failures bear it out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analysis.answers.words import capital, listed
from analysis.report.model import Opening
from analysis.report.openings.doubt import more_runs, not_covered, stated
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
from analysis.report.openings.tried import picture_of_tried, sought_of
from analysis.report.sections.currency import currency_of
from analysis.report.words import joined

if TYPE_CHECKING:
    from analysis.report.material import Material
    from analysis.report.openings.numbers import Estimate
    from analysis.report.openings.tried import Sought
    from analysis.report.words import Words

__all__ = ["opening"]

_MOST_NAMES = 3
_UNTRIED = ("only what is listed was tried; a better setting between, or outside of it, may have been missed",)
_PARAMETERS = "Conditions were held against all that the inputs may be, not against their central values alone."


def opening(material: Material) -> Opening:
    """Return the first screen."""
    content = material.main
    sought = sought_of(Places(material.results.file, content), currency_of(material), is_now=_is_now(material))
    return glossed(
        Opening(
            question=content["question"] or f"What is best in {content['study']}?",
            answer=_answer(sought),
            doubt=_doubt(sought, material),
            picture=picture_of_tried(sought),
            drivers=tuple(words for words in _drivers(sought) if words)[:3],
            not_covered=not_covered(_UNTRIED, content["warnings"], content["assumptions"]),
        )
    )


def _is_now(material: Material) -> bool:
    """Return whether the scenario already has the settings of the answer."""
    study, focus = material.study, material.focus
    return (
        study is not None and focus is not None and focus.scenario == study.template.scenario(material.common_settings)
    )


def _answer(sought: Sought) -> Words:
    """Return the answer in one sentence."""
    places = sought.places
    answer = places.get("answer")
    if answer is None:
        texts = [_condition(text) for text in places.get("conditions")]
        if all(trial["trouble"] for trial in places.get("tried")):
            return ("Nothing that was tried can run.",)
        return (f"No setting that was tried makes {listed(texts)}.",)
    if places.get("front"):
        return _front(sought)
    most = "lowest" if sought.aim["lowest"] else "highest"
    where, words = sought.setting(answer["values"]), sought.words(sought.name)
    if sought.aim["is_axis"]:
        texts = [_condition(text) for text in places.get("conditions")]
        keeps = f" that makes {listed(texts)}" if texts else ""
        start: Words = (f"{capital(words)}: {answer['values'][sought.name]} is the {most} value{keeps}",)
        rest = {axis: label for axis, label in answer["values"].items() if axis != sought.name}
        return (*start, *((f", with {sought.setting(rest)}",) if rest else ()), *_surely(sought), ".")
    best = sought.value(sought.name, "answer")
    value: Words = () if best is None else (": ", *_value(best, sought))
    return (f"The {most} {words} is reached with {where}", *value, *_as_good(sought), *_surely(sought), ".")


def _value(best: Estimate, sought: Sought) -> Words:
    """Return what the best comes to; money to three digits, because prices are not known to more."""
    form = sought.forms[sought.name]
    return ("about ", number(best.mean, form)) if sought.name.startswith("cost") else told(best, form)


def _front(sought: Sought) -> Words:
    """Return how many combinations are not beaten in all aims at once, and the first of them."""
    aims = [sought.words(aim["name"]) for aim in sought.places.get("aims")]
    first = sought.places.get("front", 0)
    start = f"No setting is best in {listed(aims)} at once; one that none beats in all of them is "
    parts: list[Words] = []
    for aim in sought.places.get("aims"):
        value = sought.value(aim["name"], "front", 0)
        if value is not None and not aim["is_axis"]:
            parts.append((f"{sought.words(aim['name'])} ", *told(value, sought.forms[aim["name"]])))
    values: Words = (": ", *joined(parts, ", ")) if parts else ()
    return (start, sought.setting(first["values"]), *values, "; the others stand further down.")


def _as_good(sought: Sought) -> Words:
    """Return what else is as good at this precision."""
    answer, found, others = sought.places.get("answer"), sought.places.get("as_good"), sought.as_good
    if not others:
        return ()
    if sought.places.get("method") == "curve":
        first, last = (sought.setting(found["values"][end]) for end in (0, -1))
        text = first if found["values"][0] != answer["values"] else last
        if len(others) > 1:
            text = f"anything that was tried from {first} to {last}"
        return (f"; {text} is as good as far as chance lets one tell",)
    names = [sought.setting(values) for values in others[:_MOST_NAMES]]
    text = listed(names) if len(names) == len(others) else f"{', '.join(names)} and others"
    return (f"; {text} {'is' if len(others) == 1 else 'are'} as good as far as chance lets one tell",)


def _condition(text: str) -> str:
    """Return a condition in words, such as that a metric is at least so much."""
    match = re.fullmatch(r"\s*(\S+?)\s*(>=|<=)\s*(.*?)\s*", text)
    if match is None:
        return text
    return f"{metric_words(match[1])} at {'least' if match[2] == '>=' else 'most'} {match[3]}"


def _surely(sought: Sought) -> Words:
    """Return whether a condition may be missed; nothing where all of them hold beyond chance."""
    verdicts = [condition["verdict"] for condition in sought.places.get("answer", "conditions")]
    if not verdicts or all(verdict == "holds" for verdict in verdicts):
        return ()
    return (", where a condition is met on average but not beyond chance",)


def _drivers(sought: Sought) -> list[Words]:
    """Return what is known of the answer beside its value."""
    if sought.places.get("answer") is None:
        return [_closest(sought, condition) for condition in range(len(sought.places.get("conditions")))]
    return [_gain(sought), _loss(sought), *_conditions(sought), _spread(sought), _formula(sought)]


def _closest(sought: Sought, condition: int) -> Words:
    """Return what came closest to a condition."""
    places, found = sought.places, []
    for place, trial in enumerate(places.get("tried")):
        mean = places.at("tried", place, "conditions", condition, "mean")
        if mean is not None and not trial["trouble"]:
            found.append((abs(mean.value - trial["conditions"][condition]["bound"]), place))
    if not found:
        return ()
    place = min(found)[1]
    at = ("tried", place, "conditions", condition)
    value = places.estimate(*at, interval="ci95")
    assert value is not None
    form = people_form(str(places.get(*at, "metric")), [value.mean.value])
    where = sought.setting(places.get("tried", place, "values"))
    return (f"Closest to {_condition(places.get('conditions', condition))} is {where}: ", *told(value, form), ".")


def _gain(sought: Sought) -> Words:
    """Return what fresh failures say of the answer against the scenario as it is."""
    places = sought.places
    if not places.get("confirmation", "trials"):
        return ()
    at = ("confirmation", "trials", 0, "gain", sought.name)
    gain, runs = places.estimate(*at, interval="ci95"), places.at("confirmation", "replications")
    if gain is None or runs is None or sought.aim["is_axis"]:
        return ()
    if sought.is_now:
        return ("The scenario already has this setting; there is nothing to change.",)
    start: Words = ("Played again ", number(runs, COUNT), " times with fresh failures, the answer ")
    if gain.interval is None and gain.mean.value == 0:
        return (*start, "comes to the same as what the scenario has now.")
    step = points_form(sought.forms[sought.name])
    if places.get(*at, "resolved"):
        size = gain.changed(abs)
        way = "better" if gain.mean.value > 0 else "worse"
        amount = (
            (number(size.mean, step),) if size.low is None or size.high is None else ranged(size.low, size.high, step)
        )
        return (*start, f"is {way} than what the scenario has now by ", *amount, ".")
    return (*start, "cannot be told from what the scenario has now; ",
            *more_runs(places.at(*at, "replications_to_resolve")), ".")  # fmt: skip


def _loss(sought: Sought) -> Words:
    """Return what a choice among those that are as good may cost at most."""
    loss = sought.places.at("as_good", "loss_below")
    others = sought.places.get("as_good", "values") or []
    if loss is None or len(others) < 2 or loss.value <= 0:
        return ()
    needed = sought.places.at("as_good", "replications_to_resolve")
    return ("Whichever of the settings that are as good is taken, less than ",
            number(loss, points_form(sought.forms[sought.name])), " is lost; ", *more_runs(needed), ".")  # fmt: skip


def _conditions(sought: Sought) -> list[Words]:
    """Return what the answer comes to in its conditions."""
    found: list[Words] = []
    for place, condition in enumerate(sought.places.get("answer", "conditions")):
        value = sought.places.estimate("answer", "conditions", place, interval="ci95")
        if value is not None:
            form = people_form(condition["metric"], [value.mean.value])
            found.append(
                (f"What is asked for is {_condition(condition['condition'])}; it is ", *told(value, form), ".")
            )
    return found


def _spread(sought: Sought) -> Words:
    """Return how much worse the worst that was tried is."""
    if sought.aim["is_axis"]:
        return ()
    sign = 1 if sought.aim["lowest"] else -1
    found = []
    for place, trial in enumerate(sought.places.get("tried")):
        value = sought.places.at("tried", place, "aims", sought.name, "mean")
        if value is not None and not trial["trouble"]:
            found.append((sign * value.value, place, value))
    if len(found) < 2:
        return ()
    _, place, worst = max(found, key=lambda entry: entry[:2])
    where = sought.setting(sought.places.get("tried", place, "values"))
    return (f"The worst that was tried is {where}: ", number(worst, sought.forms[sought.name]), ".")


def _formula(sought: Sought) -> Words:
    """Return what a formula calls the best."""
    ettr = sought.places.at("closed_form", "ettr")
    if ettr is None:
        return ()
    where = sought.setting(sought.places.get("closed_form", "values"))
    return (f"A formula of theory calls {where} the best, with ", number(ettr, PERCENT), ".")


def _doubt(sought: Sought, material: Material) -> Words:
    """Return how sure the answer is."""
    places = sought.places
    runs, confirmed = places.at("replications"), places.get("confirmation", "confirmed")
    study = material.study
    scenario = None if study is None else study.template.scenario(material.common_settings)
    is_priced = any(aim["name"].startswith("cost") for aim in places.get("aims"))
    exactly = stated(scenario, priced=is_priced)
    parts: list[Words] = [(_PARAMETERS if places.get("over") == "parameters" else exactly,)]
    if runs is not None:
        every = "Every setting met the same failures, in "
        parts.append((every, number(runs, COUNT), " simulated runs; ranges are what chance leaves open."))
    if places.get("confirmation") is not None:
        word = {True: "confirm", False: "do not confirm", None: "neither confirm nor deny"}[confirmed]
        parts.append((f"Fresh failures, which had no part in finding it, {word} the answer.",))
    return joined(parts)
