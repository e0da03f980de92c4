"""Candidates of a study that were ranked or compared by its questions, as intervals below each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed
from analysis.cells import number_of
from analysis.plots.charts import Interval, Intervals
from analysis.report.model import Column, Grid, Picture, Section
from analysis.report.phrases import label_text, phrases
from analysis.report.sections.amounts import Shown, ends_of, shown, verb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["candidates_section"]

Content = dict[str, Any]

_MOST_ROWS = 24
"""Rows of a picture: who is further behind is in the data."""


def candidates_section(content: Content) -> Section | None:
    """Return the section about what a sweep ranked and compared; ``None`` where it did neither."""
    items = [picture for picture in _pictures(content) if picture is not None]
    if not items:
        return None
    notes = ("Combinations have the same failures: intervals are those of differences within the same replications.",)
    return Section("comparison", items[0].title, (), tuple(items), notes)


def _pictures(content: Content) -> Iterator[Picture | None]:
    """Yield a picture of each ranking and of each comparison."""
    for number, answer in enumerate(content["answers"], start=1):
        if answer["ask"] == "best" and answer["data"].get("groups"):
            yield _ranking(answer["data"], content, f"ranking-{number}")
        if answer["ask"] == "compare" and answer["data"].get("lines"):
            yield _compared(answer["data"], content, f"compared-{number}")


def _ranking(data: Content, content: Content, key: str) -> Picture | None:
    """Return how far the candidates of the last group that has several are behind the best of it."""
    groups = [group for group in data["groups"] if len(group.get("order", ())) > 1]
    if not groups:
        return None
    group = groups[-1]
    metric = shown(data["metric"], [row["behind"] for row in group["order"]], content["currency"])
    whole = shown(data["metric"], [row["mean"] for row in group["order"]], content["currency"])
    maybe = group["may_be_best"]
    rows, texts = [], []
    for position, row in enumerate(group["order"][:_MOST_ROWS]):
        note = _note(row, position, maybe)
        name = _where(row["at"], group["at"], content)
        rows.append(Interval(name, metric.of(row["behind"]), metric.gaps(row["behind_ci95"]), None, note))
        mean = whole.form.plain(row["mean"], ends_of(group["order"][max(position, 1)]["behind_ci95"]))
        texts.append((name, mean, metric.distance(row["behind"], row["behind_ci95"]), note))
    title = _ranking_title(group, metric, content)
    columns = (
        Column("Combination", is_number=False), Column(capital(metric.name)),
        Column("Behind the best, 95 % together"), Column("How sure", is_number=False),
    )  # fmt: skip
    count, more = len(group["order"]), len(group["order"]) - len(rows)
    note = f"{number_of(more, 'more combination')} further behind: see run.json." if more else ""
    alt = f"Behind the best of {count}: {'; '.join(f'{row[0]} {row[2]}, {row[3]}' for row in texts[:8])}."
    others = (
        f" Of {len(groups)} such rankings this is the last; the answers tell the others." if len(groups) > 1 else ""
    )
    doubt = " One that is behind another may still be little behind the best." if maybe else ""
    caption = f"Intervals hold together with 95 %, whichever is truly the best.{doubt}{others}"
    chart = Intervals(title, metric.step, tuple(rows), (0.0, "the best"))
    return Picture(key, chart, alt, caption, Grid(title, columns, texts, note=note))


def _note(row: Content, position: int, maybe: Sequence[Mapping[str, str]]) -> str:
    """Return where a candidate stands."""
    if position == 0:
        return "may be the best" if maybe else "the best"
    if _is_same(row):
        return "the same in every run"
    return "may be the best" if row["at"] in maybe else "behind"


def _is_same(row: Content) -> bool:
    """Return whether a candidate is as good as the best in every replication."""
    return row["behind"] == 0 and (row["behind_ci95"] is None or row["behind_ci95"][0] == row["behind_ci95"][1])


def _ranking_title(group: Content, metric: Shown, content: Content) -> str:
    """Return what a ranking says."""
    best = _where(group["best"], group["at"], content)
    at = _where(group["at"], {}, content)
    place = f"With {at}, " if at else ""
    if all(_is_same(row) for row in group["order"][1:]):
        return capital(f"{place}all {len(group['order'])} combinations have the same {metric.name}, in every run")
    if group["may_be_best"]:
        names = [best, *(_where(labels, group["at"], content) for labels in group["may_be_best"])]
        told = listed(names) if len(names) <= 4 else f"{best} and {len(names) - 1} others"
        title = f"{place}{told} may each have the best {metric.name}"
    else:
        second = group["order"][1]
        gap = metric.distance(second["behind"], second["behind_ci95"])
        title = f"{place}{best} has the best {metric.name}, {gap} ahead of the second"
    return capital(title)


def _compared(data: Content, content: Content, key: str) -> Picture | None:
    """Return what each value of an axis changes, for every combination of the others."""
    lines = [line for line in data["lines"] if line.get("differences")]
    found = [
        (line, value, change)
        for line in lines
        for value, change in line["differences"].items()
        if change is not None and change["mean"] is not None
    ]
    if not found:
        return None
    metric = shown(data["metric"], [change["mean"] for _, _, change in found], content["currency"])
    rows, texts = [], []
    for line, value, change in found[:_MOST_ROWS]:
        told = phrases({data["axis"]: value}, [data["axis"]], content) if value[:1].isdigit() else value
        name = ", ".join(part for part in (told, _where(line["at"], {}, content)) if part)
        note = "" if change["resolved"] else "the same" if change["ci95"][0] == change["ci95"][1] else "not resolved"
        rows.append(Interval(name, metric.of(change["mean"]), metric.gaps(change["ci95"]), None, note))
        texts.append((name, metric.change(change), note or "resolved"))
    against = label_text(lines[0]["against"])
    base = phrases({data["axis"]: lines[0]["against"]}, [data["axis"]], content)
    title = _compared_title(found, metric, base if against[:1].isdigit() else against, content)
    columns = (
        Column("Combination", is_number=False), Column(f"Change from {against}, 95 % interval"),
        Column("How sure", is_number=False),
    )  # fmt: skip
    more = len(found) - len(rows)
    note = f"{number_of(more, 'more comparison')}: see the answers." if more else ""
    alt = f"Change of {metric.name} from {against}: {'; '.join(f'{row[0]} {row[1]}' for row in texts[:8])}."
    chart = Intervals(title, metric.step, tuple(rows), (0.0, against))
    return Picture(key, chart, alt, f"Against {base}, on the same failures.", Grid(title, columns, texts, note=note))


def _compared_title(
    found: Sequence[tuple[Content, str, Content]], metric: Shown, against: str, content: Content
) -> str:
    """Return what a comparison says: its largest change that is resolved."""
    resolved = [(line, value, change) for line, value, change in found if change["resolved"]]
    if not resolved:
        return f"No difference from {against} in {metric.name} is resolved"
    line, value, change = max(resolved, key=lambda entry: abs(entry[2]["mean"]))
    told = f"With {label_text(value)} instead of {against} {metric.name} {verb(metric.name, 'changes', 'change')} by"
    if len(found) == 1:
        return f"{told} {metric.change(change)}"
    where = _where(line["at"], {}, content)
    few = f"{len(resolved)} of {len(found)} differences are resolved"
    return f"{told} up to {metric.change(change)}{f', with {where}' if where else ''}; {few}"


def _where(labels: Mapping[str, str], apart_from: Mapping[str, str], content: Content) -> str:
    """Return labels in words, without those that all have in common and those of axes with one value.

    Where one axis is left whose values are words, these are enough.
    """
    axes = content["axes"]
    names = [name for name in labels if name not in apart_from and len(axes[name]["values"]) > 1]
    if len(names) == 1 and apart_from and not labels[names[0]][:1].isdigit():
        return label_text(labels[names[0]])
    return phrases(labels, names, content)
