"""Every answer of a study in its own words, for who wants all of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from analysis.answers.words import capital, listed, name_of
from analysis.cells import number_of
from analysis.metrics import lower_is_better
from analysis.report.model import Column, Grid, Section
from analysis.report.phrases import in_words, label_text
from analysis.report.sections.amounts import Shown, band_text, has_bands, shown_of_cells
from analysis.report.sections.axes import best_of, missing_text, running, status_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.report.material import Material

__all__ = ["MOST_ROWS", "asked", "section"]

Content = dict[str, Any]

MOST_ROWS = 60
"""Cells that the table has at most."""

_MOST_PARTS = 24
"""Rows of the table of an answer."""

_LISTS = ("By how much", "What would tell")
"""How sentences begin that list something for each value of an axis."""

_ASKED = {
    "best": "Which is best by",
    "compare": "What a choice changes in",
    "crossover": "Where the best changes by",
    "pareto": "What cannot be had together:",
    "sensitivity": "What moves",
    "threshold": "What is needed of",
    "trend": "How it goes with",
}


def section(material: Material) -> Section | None:
    """Return the section; ``None`` where there is nothing to say."""
    content = material.sweep
    if content is None:
        return None
    count = number_of(len(content["cells"]), "combination")
    told = [_told(answer, content) for answer in content["answers"]]
    text = [paragraph for paragraphs, _ in told for paragraph in paragraphs]
    tables = [table for _, found in told for table in found]
    title = f"What was asked, and all answers from {count}" if told else f"The results of {count}"
    return Section("answers", title, tuple(text), (*tables, _table(content)), tuple(_notes(content)))


def asked(answer: Content, content: Content) -> str:
    """Return what was asked, in a few words; axes are called by their titles."""
    about = answer.get("metric") or answer["data"].get("metric") or ""
    names = [name_of(about)] if about else [name_of(name) for name in answer.get("metrics", ())]
    titles = {name: str(axis["title"]) for name, axis in content["axes"].items()}
    words = [_ASKED.get(answer["ask"], capital(answer["ask"])), listed(names) if names else "the results"]
    for key, word in (("axis", "by"), ("between", "of"), ("along", "along"), ("for_each", "for each")):
        value = answer.get(key)
        if value:
            axes = [value] if isinstance(value, str) else value
            words.append(f"{word} {listed([titles.get(name, name) for name in axes])}")
    if answer.get("over") == "parameters":
        words.append("with unknown inputs")
    return " ".join(words)


def _told(answer: Content, content: Content) -> tuple[list[str], list[Grid]]:
    """Return an answer: what it says of everything in a paragraph, and what of single combinations as tables."""
    # What is compared begins sentences, but no new place.
    titles = [str(axis["title"]) for name, axis in content["axes"].items() if name != answer.get("axis")]
    whole: list[str] = []
    rows: list[list[str]] = []
    lists: list[Grid] = []
    what = asked(answer, content)
    for sentence in answer["sentences"]:
        place, colon, rest = sentence.partition(": ")
        is_place = bool(colon) and any(sentence.startswith((f"{title} = ", f"{capital(title)} = ")) for title in titles)
        if is_place:
            rows.append([place, capital(rest)])
        elif place in _LISTS and not rows:
            pairs = [part.partition(": ") for part in rest.removesuffix(".").split("; ")]
            heads = (Column(_along(answer, content), is_number=False), Column(place, is_number=False))
            lists.append(Grid(f"{what}: {place.lower()}", heads, [(label_text(at), told) for at, _, told in pairs]))
        elif rows and answer["ask"] != "pareto":
            rows[-1][1] += f" {capital(sentence)}"
        else:
            whole.append(capital(sentence))
    if len(rows) == 1:
        whole += [": ".join(row) for row in rows]
        rows = []
    text = [in_words(f"{what}. {' '.join(whole)}", content)] if whole else []
    heads = (Column("With", is_number=False), Column("Answer", is_number=False))
    shown = [[in_words(part, content) for part in row] for row in rows[:_MOST_PARTS]]
    more = len(rows) - len(shown)
    note = f"{number_of(more, 'more part')} of this answer: see run.json." if more else ""
    return text, [*([Grid(what, heads, shown, note=note)] if shown else []), *lists]


def _along(answer: Content, content: Content) -> str:
    """Return the title of the axis that an answer goes along."""
    axis = content["axes"].get(answer.get("along"))
    return "Value" if axis is None else capital(str(axis["title"]))


def _table(content: Content) -> Grid:
    """Return all cells, or the best ones."""
    cells, metrics = content["cells"], content["metrics"]
    shown = [shown_of_cells(running(content), metric, content["currency"]) for metric in metrics]
    chosen = [name for name, axis in content["axes"].items() if len({cell["values"][name] for cell in cells}) > 1]
    rows, note = _chosen_rows(content)
    columns = [Column(capital(str(content["axes"][name]["title"])), is_number=False) for name in chosen]
    columns = columns or [Column("Study", is_number=False)]
    bands = [has_bands(rows, metric) for metric in metrics]
    for metric, has_band in zip(shown, bands, strict=True):
        columns += [Column(capital(metric.name))]
        columns += [Column("90 % band of unknown inputs")] if has_band else []
    has_luck = any(_luck(cell, shown[0]) for cell in rows)
    columns += [Column(f"Luck of one run: {shown[0].name}")] if has_luck else []
    is_mixed = len(content["replications"]) > 1
    columns += [Column("Runs")] if is_mixed else []
    has_trouble = any(cell["status"] != "ok" for cell in rows)
    columns += [Column("Status", is_number=False)] if has_trouble else []
    texts = []
    for cell in rows:
        row = [label_text(cell["values"][name]) for name in chosen] or [content["study"]]
        for metric, has_band in zip(shown, bands, strict=True):
            row += _cells(cell, metric, has_band=has_band)
        row += [_luck(cell, shown[0]) or "not known"] if has_luck else []
        row += [f"{cell['replications']:,}"] if is_mixed else []
        row += [_status(cell)] if has_trouble else []
        texts.append(row)
    return Grid(f"All results of {content['study']}", columns, texts, note=note)


def _chosen_rows(content: Content) -> tuple[Sequence[Content], str]:
    """Return the cells of the table: all in order of the study, or the best; and what to know of that."""
    cells = content["cells"]
    words = "Numbers in brackets are 95 % intervals of the mean: what more replications would make smaller."
    if len(cells) <= MOST_ROWS:
        return cells, words
    metric = content["metrics"][0]
    best = best_of(running(content), metric)
    rows = best[:MOST_ROWS] or cells[:MOST_ROWS]
    which = "lowest" if lower_is_better(metric) else "highest"
    told = f"the {len(rows)} with the {which} {name_of(metric)}, best first" if best else f"the first {len(rows)}"
    return rows, f"{words} These are {told}; all {len(cells):,} are in points.csv."


def _cells(cell: Content, metric: Shown, *, has_band: bool) -> list[str]:
    """Return the texts of a metric of a cell."""
    found = cell["metrics"].get(metric.metric, {})
    texts = [metric.told(found) or missing_text(cell, metric.metric)]
    if has_band:
        texts.append(band_text(cell, metric))
    return texts


def _luck(cell: Content, metric: Shown) -> str:
    """Return between what one run is."""
    found = cell["metrics"].get(metric.metric, {})
    if found.get("p05") is not None and found.get("p95") is not None:
        return metric.range((found["p05"], found["p95"])) or "none: all runs are equal"
    spread = found.get("std")
    if spread is None:
        return ""
    form = metric.form
    return f"± {form.plain(spread, (0.0, 2 * spread), metric.step if form.unit else '')}" if spread else "none"


def _status(cell: Content) -> str:
    return "ran" if cell["status"] == "ok" else f"{status_text(cell)}: {cell['trouble']}"


def _notes(content: Content) -> Iterator[str]:
    """Yield what to know before using the numbers."""
    numbers = content["replications"]
    if numbers:
        span = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
        yield f"{span} replications of each combination, on the same failures; seed {content['seed']}."
    if any(cell["metrics"].get(content["metrics"][0], {}).get("std") for cell in content["cells"]):
        yield (
            "The luck of one run is what no replication makes smaller: between 5 and 95 % of runs, or ± one standard "
            "deviation where there are too few for that."
        )
    yield from (capital(line) for line in itertools.chain(content["at_equal_lines"], content["notes"]))
