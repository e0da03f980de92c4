"""The best combination of a study, and which others may be as good, for a first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.report.openings.answers.phrases import between, either, line, listed, sentence
from analysis.report.openings.answers.pictures import Row, curves, intervals
from analysis.report.openings.answers.told import Told
from analysis.report.openings.numbers import COUNT, number, told
from analysis.report.openings.traced import Estimate
from analysis.report.words import joined, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.report.model import Picture
    from analysis.report.openings.answers.told import Asked
    from analysis.report.words import Words

__all__ = ["best"]

_MOST_PARTS = 4
"""Different winners that a sentence names."""
_MOST_OPEN = 2
"""Candidates that a sentence names where nothing is decided."""
_FEW = 3
"""Rivals from which on a title names none."""


def best(asked: Asked) -> Told | None:
    """Return which combination is best; ``None`` where none is."""
    groups: Sequence[Mapping[str, Any]] = asked.data.get("groups", [])
    known = [place for place, group in enumerate(groups) if group["best"]]
    if not known:
        return None
    each = tuple(name for name in asked.content.get("for_each", ()) if name in asked.varying)
    return _several(asked, known, each) if each else _one(asked, known[0])


def _one(asked: Asked, place: int) -> Told:
    """Return what is best of all."""
    group = asked.data["groups"][place]
    winner, cell = asked.where(group["best"]), asked.cell(group["best"])
    if _is_tie(asked, place):
        same = line("all that was tried has the same ", asked.what, " in every run: ", _value(asked, place))
        return Told(sentence(same), sentence(same), same, _rows(asked, place), cell)
    who = asked.some([group["best"], *group["may_be_best"]])
    answer = line("the ", asked.most, " ", asked.what, ", ", _value(asked, place), ", comes with ", winner)
    if group["may_be_best"]:
        rivals = asked.some(group["may_be_best"])
        answer = line(answer, "; ", rivals, " may be as good, ", asked.more_runs("groups", place))
    else:
        answer = line(answer, _lead(asked, place))
    short = line(asked.subject, f" is {asked.most} with ", who)
    title = short if len(group["may_be_best"]) < _FEW else _open_title(asked)
    return Told(sentence(answer), sentence(short), title, _rows(asked, place), cell)


def _several(asked: Asked, known: Sequence[int], each: tuple[str, ...]) -> Told:
    """Return what is best for each value of some axes."""
    parts = _parts(asked, known, each)
    shown = parts if len(parts) <= _MOST_PARTS else [parts[0], parts[-1]]
    if all(len(part.labels) > 1 for part in parts):
        return _open(asked, known, each)
    texts = [line("with ", _who(asked, part, each), " for ", _places(asked, part, each))
             for part in shown]  # fmt: skip
    is_choice = not any(asked.is_numeric(name) for name in each)
    top = _top(asked, known) if is_choice else known[-1]
    labels = asked.data["groups"][top]["best"]
    there = asked.where(labels, *each)
    start = line("the ", asked.most, " ", asked.what, " comes ")
    end = line("; it is ", _value(asked, top), " for ", there)
    if is_choice and len(known) > 1:
        end = line("; ", asked.most, " of all it is ", _value(asked, top), " for ", there, _ahead(asked, top, known))
    if any(len(part.labels) > 1 for part in parts):
        end = line(end, "; where several are named they cannot be told apart")
    point = sentence(start, listed([texts[0], texts[-1]], ", and "))
    title = line(asked.subject, f" is {asked.most} ", listed([texts[0], texts[-1]]))
    answer = sentence(start, listed(texts, ", and "), end)
    return Told(answer, point, title, _picture(asked, known, each), asked.cell(labels))


def _is_tie(asked: Asked, place: int) -> bool:
    """Return whether all settings of a group come to exactly the same in every run."""
    order = asked.data["groups"][place]["order"]
    return len(order) > 1 and not any(entry["behind"] or any(entry["behind_ci95"] or ()) for entry in order)


def _open(asked: Asked, known: Sequence[int], each: tuple[str, ...]) -> Told:
    """Return that it is open what is best for each value of some axes, with the first of them where it is as stated."""
    groups = asked.data["groups"]
    order = _from_the_center(asked, known, each)
    inner = [name for name in asked.varying if name not in each]
    runs = asked.places.at("cells", asked.cell(groups[order[0]]["best"]) or 0, "replications")
    by = line(" by ", number(runs, COUNT), " simulated runs") if runs is not None else ()
    titles = listed([(asked.title(name),) for name in inner])
    start = line("which ", titles, f" has the {asked.most} {asked.what} is not decided", by)
    bare = asked.form._replace(unit="")
    texts = []
    for position, place in enumerate(dict.fromkeys((order[0], order[-1]))):
        labels = [groups[place]["best"], *groups[place]["may_be_best"]]
        named: list[Words] = []
        for one in labels[:_MOST_OPEN]:
            mean, name = asked.mean(asked.cell(one)), asked.briefly(one, *inner)
            if mean is None or position:
                named.append(name)
            else:
                named.append(line(name, " with ", told(mean, bare if named else asked.form)))
        rest: list[Words] = [("others",)] if len(labels) > _MOST_OPEN else []
        where = asked.where(groups[place]["at"], *each)
        texts.append(line("with ", where, " it may be ", either([*named, *rest])))
    words = joined([sentence(start, ": ", texts[0]), *(sentence(text) for text in texts[1:])])
    cell = asked.cell(groups[order[0]]["best"])
    picture = _picture(asked, order[:1], each)
    where = asked.where(groups[order[0]]["at"], *each)
    title = line("with ", where, " it cannot be told apart what has the ", asked.most, " ", asked.what)
    return Told(words, sentence(title), title, picture, cell)


def _from_the_center(asked: Asked, known: Sequence[int], each: tuple[str, ...]) -> list[int]:
    """Return groups, the one with failure rates as stated first, if there is one."""
    rates = [name for name in each if asked.is_factor(name)]
    stated = [place for place in known
              if rates and all(asked.data["groups"][place]["at"][name] == "1" for name in rates)]  # fmt: skip
    return [*stated, *(place for place in known if place not in stated)]


def _open_title(asked: Asked) -> Words:
    """Return what a picture says where many may be best."""
    return line(f"it cannot be told apart what has the {asked.most} {asked.what}")


class _Part(NamedTuple):
    """Groups in which the same may be best, and who may be, by labels."""

    groups: list[int]
    labels: list[Mapping[str, str]]


def _parts(asked: Asked, known: Sequence[int], each: tuple[str, ...]) -> list[_Part]:
    """Return groups by who may be best in them."""
    inner = [name for name in asked.varying if name not in each]
    found: dict[frozenset[tuple[str, ...]], _Part] = {}
    for place in known:
        group = asked.data["groups"][place]
        labels = [group["best"], *group["may_be_best"]]
        key = frozenset(tuple(one[name] for name in inner) for one in labels)
        found.setdefault(key, _Part([], labels)).groups.append(place)
    return list(found.values())


def _who(asked: Asked, part: _Part, each: tuple[str, ...]) -> Words:
    """Return who may be best in a part."""
    return asked.some(part.labels, *(name for name in asked.varying if name not in each))


def _places(asked: Asked, part: _Part, each: tuple[str, ...]) -> Words:
    """Return where a part is."""
    labels = [asked.data["groups"][place]["at"] for place in part.groups]
    if len(each) != 1:
        return either([asked.where(label, *each) for label in labels])
    names = [label[each[0]] for label in labels]
    last = part.groups[-1]
    if len(names) > 2 and asked.is_numeric(each[0]) and part.groups == list(range(last - len(names) + 1, last + 1)):
        return asked.named(each[0], line(asked.value(each[0], names[0]), " to ", asked.value(each[0], names[-1])))
    return asked.values(each[0], names)


def _value(asked: Asked, place: int) -> Words:
    """Return the mean of the best of a group with its interval."""
    mean = asked.at("groups", place, "order", 0, "mean")
    found = asked.mean(asked.cell(asked.data["groups"][place]["best"]))
    assert mean is not None
    # Where numbers of runs differ the ranking is over those that all have, and the interval of the cell is not of it.
    is_same = found is not None and abs(found.mean.value - mean.value) <= 1e-9 * abs(mean.value)
    return told(found if found is not None and is_same else Estimate(mean), asked.form)


def _lead(asked: Asked, place: int) -> Words:
    """Return how far the best of a group is ahead of the second; empty where it is alone."""
    order = asked.data["groups"][place]["order"]
    behind = asked.at("groups", place, "order", 1, "behind")
    if behind is None:
        return ()
    second = asked.briefly(order[1]["at"])
    if not behind.value:
        return line("; ", second, " comes to the same in every run")
    ends = asked.places.ends("answers", asked.position, "data", "groups", place, "order", 1, "behind_ci95")
    size = asked.apart(Estimate(behind, *(ends or ())), asked.at("groups", place, "order", 1, "mean"))
    return line(": ", size, " less than " if asked.is_lowest else " more than ", second)


def _top(asked: Asked, known: Sequence[int]) -> int:
    """Return the group whose best is best of all."""
    sign = -1 if asked.is_lowest else 1
    return max(known, key=lambda place: sign * asked.data["groups"][place]["order"][0]["mean"])


def _ahead(asked: Asked, top: int, known: Sequence[int]) -> Words:
    """Return how far the best of all is ahead of the best of the first other group; empty where that is not sure."""
    other = next(place for place in known if place != top)
    groups = asked.data["groups"]
    cell = asked.cell(groups[top]["best"])
    ours, theirs = asked.mean(cell), asked.mean(asked.cell(groups[other]["best"]))
    if ours is None or theirs is None:
        return ()
    if asked.is_lowest:
        ours, theirs = theirs, ours
    found = between(ours, theirs)
    if found.low is not None and found.low.value <= 0:
        return ()
    word = " less than with " if asked.is_lowest else " more than with "
    each = tuple(groups[other]["at"])
    there = asked.briefly(groups[other]["at"], *each)
    behind = asked.cell(groups[other]["best"])
    return line(", ", asked.apart(found, theirs.mean), asked.gpu_years(found, cell, behind), word, there)


def _rows(asked: Asked, place: int) -> Callable[[str], Picture | None]:
    """Return the picture of a group: its candidates, best first."""
    group = asked.data["groups"][place]
    rivals = {asked.cell(labels) for labels in group["may_be_best"]}
    rows = []
    for position, entry in enumerate(group["order"]):
        cell = asked.cell(entry["at"])
        if cell is not None:
            note = (
                ""
                if _is_tie(asked, place)
                else "may be best"
                if rivals and (not position or cell in rivals)
                else ""
                if position
                else "best"
            )
            rows.append(Row(plain(asked.briefly(entry["at"])).strip("“”"), cell, note))
    return intervals(asked, rows)


def _picture(asked: Asked, known: Sequence[int], each: tuple[str, ...]) -> Callable[[str], Picture | None]:
    """Return the picture of several groups: curves along what is sought, or else the best of each group."""
    inner = [name for name in asked.varying if name not in each]
    if len(inner) == 1 and asked.is_numeric(inner[0]):
        return curves(asked, inner[0], between=each[0] if len(each) == 1 else "")
    groups = asked.data["groups"]
    rows = []
    for place in known:
        for labels in (groups[place]["best"], *groups[place]["may_be_best"]):
            cell = asked.cell(labels)
            if cell is not None:
                note = "may be best" if groups[place]["may_be_best"] else "best"
                where = line(", ", asked.where(labels, *each)) if len(known) > 1 else ""
                name = line(asked.briefly(labels, *inner), where)
                rows.append(Row(plain(name).replace("“", "").replace("”", ""), cell, note))
    return intervals(asked, rows)
