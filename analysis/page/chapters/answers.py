"""Every answer of a study in its own words, for who wants all of it."""

from __future__ import annotations

import functools
import itertools
import math
import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.amounts import (
    COUNT,
    GPU_YEARS,
    PERCENT,
    Form,
    Shown,
    capital,
    in_words,
    label_text,
    listed,
    name_of,
    number_of,
    people_form,
    time_form,
)
from analysis.metrics import lower_is_better
from analysis.page.cells import axes_of, best_of, lines_along, missing_text, running, status_text
from analysis.page.chapters.inputs import more_runs
from analysis.page.charts.data import Curves, Front, FrontPoint, Interval, Intervals, Scale, Series
from analysis.page.glossary import metric_words
from analysis.page.model import Column, Grid, Picture, Section, joined, plain
from analysis.page.traced import (
    Estimate,
    Traced,
    apart,
    band_text,
    between,
    bracket,
    either,
    has_bands,
    line,
    number,
    ranged,
    sentence,
    shown_of_cells,
    told,
    whole,
)
from analysis.page.traced import listed as listed_from_traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from analysis.page.cells import Axis, Line
    from analysis.page.material import Material
    from analysis.page.model import Words
    from analysis.page.traced import Places

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
    for said in answer["sentences"]:
        place, colon, rest = said.partition(": ")
        is_place = bool(colon) and any(said.startswith((f"{title} = ", f"{capital(title)} = ")) for title in titles)
        if is_place:
            rows.append([place, capital(rest)])
        elif place in _LISTS and not rows:
            pairs = [part.partition(": ") for part in rest.removesuffix(".").split("; ")]
            heads = (Column(_along(answer, content), is_number=False), Column(place, is_number=False))
            lists.append(Grid(f"{what}: {place.lower()}", heads, [(label_text(at), told) for at, _, told in pairs]))
        elif rows and answer["ask"] != "pareto":
            rows[-1][1] += f" {capital(said)}"
        else:
            whole.append(capital(said))
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


# ----------------------------------------
# The one picture of a first screen: curves along an axis, means below each other, or a front.

KEY = "the-answer"

_MOST_LINES = 8

"""Curves that the eye can tell apart."""

_MOST_ROWS = 14

_MEANING = "Bars and bands around a mean are its 95 % interval: what chance leaves open."


class Row(NamedTuple):
    """A mean in a picture: what it is called, its cell, and a word beside it."""

    name: str
    cell: int
    note: str = ""


def nothing(_title: str) -> None:
    """Return no picture."""
    return


def intervals(asked: Asked, rows: Sequence[Row]) -> Callable[[str], Picture | None]:
    """Return what draws some means below each other."""

    def picture(title: str) -> Picture | None:
        shown = [row for row in rows if _mean(asked, row.cell) is not None][:_MOST_ROWS]
        if not shown:
            return None
        chart = Intervals(title, asked.form.unit, tuple(_interval(asked, row) for row in shown))
        texts = [_text(asked, row.cell) for row in shown]
        alt = f"{asked.what}: {'; '.join(f'{row.name}: {text}' for row, text in zip(shown[:6], texts, strict=False))}."
        grid = Grid(
            title,
            (Column("setting", is_number=False), Column(asked.what), Column("", is_number=False)),
            [(row.name, text, row.note) for row, text in zip(shown, texts, strict=True)],
        )
        return Picture(KEY, chart, capital(alt), _MEANING, grid)

    return picture


def curves(
    asked: Asked,
    along: str,
    *,
    level: tuple[float, str] | None = None,
    edges: Sequence[tuple[float, str]] = (),
    between: str = "",
) -> Callable[[str], Picture | None]:
    """Return what draws the metric along an axis, a curve for each combination of the others.

    Parameters
    ----------
    asked
        The answer.
    along
        The axis.
    level
        A value to hold the curves against [SI], and its name.
    edges
        Places on the axis [SI] to hold them against, with names.
    between
        The axis that tells the curves apart, where their names shall be those of its values.
    """

    def picture(title: str) -> Picture | None:
        axis = asked.axis(along)
        lines, left_out = _lines(asked, axis, between) if axis is not None and axis.is_numeric else ([], 0)
        if axis is None or not lines:
            return None
        y = asked.form
        series = tuple(_series(asked, axis, line, hue) for hue, line in enumerate(lines))
        chart = Curves(
            title,
            axis.scale,
            Scale(f"{capital(asked.what)} [{y.unit}]" if y.unit else capital(asked.what)),
            series,
            levels=() if level is None else ((level[0] / y.size, level[1]),),
            edges=tuple((place / axis.size, name) for place, name in edges),
        )
        grid = _grid(asked, axis, title, lines)
        note = f" Of {len(lines) + left_out} curves {len(lines)} are drawn." if left_out else ""
        return Picture(KEY, chart, _alt(asked, axis, grid), _MEANING + note, grid)

    return picture


def front(asked: Asked, aims: tuple[str, str], standing: Mapping[int, str]) -> Callable[[str], Picture | None]:
    """Return what draws two metrics against each other; `standing` is that of each cell, as in `FrontPoint`."""

    def picture(title: str) -> Picture | None:
        forms = [asked.form_of(aim) for aim in aims]
        points, rows = [], []
        for cell, word in standing.items():
            across, up = (_scaled(asked, cell, aim, form) for aim, form in zip(aims, forms, strict=True))
            if across is None or up is None:
                continue
            name = plain(asked.briefly(asked.places.get("cells", cell, "values")))
            points.append(FrontPoint(name, across[0], up[0], across[1], up[1], word))
            texts = [_text(asked, cell, aim) for aim in aims]
            rows.append((name, *texts, {"front": "on the front", "perhaps": "perhaps"}.get(word, "")))
        if not points:
            return None
        words = [metric_words(aim).removeprefix("the ") for aim in aims]
        x, y = (Scale(f"{capital(word)} [{form.unit}]") for word, form in zip(words, forms, strict=True))
        lowest = [asked.is_lowest_best(aim) for aim in aims]
        chart = Front(title, x, y, tuple(points), lowest[0], lowest[1])
        grid = Grid(title, (Column("setting", is_number=False), *map(Column, words), Column("", is_number=False)), rows)
        told = "; ".join(f"{row[0]}: {row[1]} and {row[2]}" for row in rows if row[3] == "on the front")
        return Picture(KEY, chart, f"{words[0]} against {words[1]}. On the front: {told or 'none'}.", _MEANING, grid)

    return picture


def _mean(asked: Asked, cell: int) -> float | None:
    found: float | None = asked.places.get("cells", cell, "metrics", asked.metric, "mean")
    return found


def _scaled(asked: Asked, cell: int, metric: str, form: Form) -> tuple[float, tuple[float, float] | None] | None:
    """Return the mean of a cell and its interval as people see them."""
    found = asked.places.get("cells", cell, "metrics", metric) or {}
    if found.get("mean") is None:
        return None
    ends = found.get("mean_ci95")
    return found["mean"] / form.size, None if ends is None else (ends[0] / form.size, ends[1] / form.size)


def _band(asked: Asked, cell: int) -> tuple[float, float] | None:
    ends = asked.places.get("cells", cell, "metrics", asked.metric, "band90")
    return None if ends is None else (ends[0] / asked.form.size, ends[1] / asked.form.size)


def _interval(asked: Asked, row: Row) -> Interval:
    mean, ends = _scaled(asked, row.cell, asked.metric, asked.form) or (None, None)
    return Interval(row.name, mean, ends, _band(asked, row.cell), row.note)


def _text(asked: Asked, cell: int | None, metric: str = "") -> str:
    """Return the mean of a cell as text; empty where it has none."""
    found = asked.mean(cell, metric)
    if found is None:
        return ""
    form = asked.form_of(metric or asked.metric)
    return form.value(found.mean.value, found.interval)


def _lines(asked: Asked, axis: Axis, between: str) -> tuple[list[Line], int]:
    """Return the lines along an axis that have a mean, and how many more there are.

    Of many they are those at both ends and some between them.
    """
    found = [
        line
        for line in lines_along(asked.places.content, axis)
        if any(_mean(asked, cell["cell"]) is not None for cell in line.cells)
    ]
    count = len(found)
    if count > _MOST_LINES:
        picked = [round(place * (len(found) - 1) / (_MOST_LINES - 1)) for place in range(_MOST_LINES)]
        found = [found[place] for place in dict.fromkeys(picked)]
    named = [line._replace(name=line.at[between]) if list(line.at) == [between] else line for line in found]
    return named, count - len(named)


def _alt(asked: Asked, axis: Axis, grid: Grid) -> str:
    """Return what curves show, in words: from where to where each goes."""
    told = []
    for place, column in enumerate(grid.columns[1:], 1):
        known = [row for row in grid.rows if row[place]]
        told.append(
            f"{column.head} goes from {known[0][place]} at {known[0][0]} to {known[-1][place]} at {known[-1][0]}"
        )
    return f"{capital(asked.what)} along {axis.title}: {'; '.join(told)}."


def _series(asked: Asked, axis: Axis, line: Line, hue: int) -> Series:
    """Return a curve with its interval and band."""
    means = [_scaled(asked, cell["cell"], asked.metric, asked.form) or (None, None) for cell in line.cells]
    bands = tuple(_band(asked, cell["cell"]) for cell in line.cells)
    return Series(
        line.name,
        tuple(cell["numbers"][axis.name] / axis.size for cell in line.cells),
        tuple(mean for mean, _ in means),
        tuple(ends for _, ends in means),
        bands if any(bands) else (),
        hue=hue,
    )


def _grid(asked: Asked, axis: Axis, title: str, lines: Sequence[Line]) -> Grid:
    """Return the curves as a table: a row for each value of the axis."""
    texts = [{cell["values"][axis.name]: _text(asked, cell["cell"]) for cell in line.cells} for line in lines]
    order = sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0)
    shown = {label: plain(asked.value(axis.name, label)).strip("“”") for _, label in order}
    rows = [(shown[label], *(text.get(label, "") for text in texts)) for _, label in order]
    columns = (Column(axis.title, is_number=False), *(Column(line.name or asked.what) for line in lines))
    return Grid(title, columns, [row for row in rows if any(row[1:])])


# ----------------------------------------
# Means over the runs of a study, from its table of results.

_FILE = "results.csv"


@dataclass(frozen=True)
class Rows:
    """The rows of ``results.csv``, by cell.

    Parameters
    ----------
    rows
        The rows: one for each replication of each point.
    """

    rows: Sequence[Mapping[str, str]] = ()

    @functools.cached_property
    def _places(self) -> dict[tuple[int, bool], list[int]]:
        """Positions of the rows of each cell, at the central values of unknown inputs and at drawn ones."""
        found: dict[tuple[int, bool], list[int]] = {}
        for place, row in enumerate(self.rows):
            found.setdefault((int(row["cell"]), row["draw"] != "0"), []).append(place)
        return found

    def mean(self, cell: int | None, column: str, *, drawn: bool = False) -> Traced | None:
        """Return the mean of a column over the runs of a cell; ``None`` where a run has no value, or there is none."""
        places = [] if cell is None else self._places.get((cell, drawn), [])
        texts = [self.rows[place].get(column, "") for place in places]
        if not places or not all(texts) or places[-1] - places[0] + 1 != len(places):
            return None
        source = f"{_FILE}#{places[0]}-{places[-1]}/{column}"
        return Traced(statistics.fmean(map(float, texts)), (source,))

    def by_draw(self, cell: int, column: str) -> list[float]:
        """Return the mean of a column in each draw of the unknown inputs."""
        found: dict[str, list[float]] = {}
        for place in self._places.get((cell, True), []):
            found.setdefault(self.rows[place]["draw"], []).append(float(self.rows[place][column]))
        return [statistics.fmean(values) for values in found.values()]


# ----------------------------------------
# What one answer of a study says on a first screen, and how its document is read for it.

FEWEST_FIRM = 10

"""Runs from which on it is told how many would be enough: the spread of fewer is known to a factor of two."""

_OF_REQUESTED = ("ettr", "scheduling_goodput")

"""Shares of the GPU-time that jobs ask for."""

_MOST_NAMED = 4

"""Combinations that a sentence names."""

_MOST_OF_SEVERAL = 2

"""The same where each has the values of several axes."""

_RATE = re.compile(r"failures\.\d+\.scale")

_WITHOUT_ARTICLE = ("goodput", "training speed")

_QUANTITY = re.compile(r"[-+]?[\d.]")


class Told(NamedTuple):
    """One answer.

    Parameters
    ----------
    answer
        A sentence for who decides.
    point
        The same in short.
    title
        What the picture says.
    picture
        What draws it, given its title; ``None`` where there is nothing to show.
    cell
        The combination that it comes down to; ``None`` where there is no such.
    band
        How far what is not known exactly moves it; empty where the answer does not tell.
    doubt
        How sure it is, where that is not told as of others; empty elsewhere.
    other
        The combination to hold it against; ``None`` where the kind of question says it.
    """

    answer: Words
    point: Words
    title: Words
    picture: Callable[[str], Picture | None]
    cell: int | None = None
    band: Words = ()
    doubt: Words = ()
    other: int | None = None


@dataclass(frozen=True)
class Asked:
    """An answer of the document of a sweep, and what its words are.

    Parameters
    ----------
    places
        The document.
    position
        Position of the answer, from 0.
    rows
        The runs behind it, where the table of results is there.
    """

    places: Places
    position: int
    rows: Rows = field(default_factory=Rows)

    @property
    def content(self) -> Mapping[str, Any]:
        """The whole answer."""
        found: Mapping[str, Any] = self.places.get("answers", self.position)
        return found

    @property
    def data(self) -> Mapping[str, Any]:
        """The numbers behind it."""
        found: Mapping[str, Any] = self.content["data"]
        return found

    @property
    def metric(self) -> str:
        """What it is about; of several metrics the first."""
        found = self.data.get("metric") or (self.data.get("metrics") or self.places.get("metrics"))[0]
        return str(found)

    @property
    def is_lowest(self) -> bool:
        """Whether less is better."""
        return self.is_lowest_best(self.metric)

    @property
    def most(self) -> str:
        """What the best is: ``highest`` or ``lowest``."""
        return "lowest" if self.is_lowest else "highest"

    def is_lowest_best(self, metric: str) -> bool:
        """Return whether less of a metric is better."""
        directions = self.content.get("direction")
        stated = directions.get(metric) if isinstance(directions, dict) else directions
        return stated == "lowest" if stated else lower_is_better(metric)

    @property
    def what(self) -> str:
        """The metric in words, without an article."""
        return metric_words(self.metric).removeprefix("the ")

    @property
    def subject(self) -> str:
        """The metric as the subject of a sentence."""
        return self.what if self.what.startswith(_WITHOUT_ARTICLE) else f"the {self.what}"

    @functools.cached_property
    def form(self) -> Form:
        """How the metric is told."""
        return self.form_of(self.metric)

    def form_of(self, metric: str) -> Form:
        """Return how a metric is told."""
        means = [cell["metrics"].get(metric, {}).get("mean") for cell in self.places.get("cells")]
        return people_form(metric, [mean for mean in means if mean is not None], self.places.get("currency") or "")

    @functools.cached_property
    def varying(self) -> tuple[str, ...]:
        """The axes that were chosen, and of which the cells have more than one value; all that were if none has."""
        axes = self.places.get("axes")
        chosen = tuple(name for name in axes if not axes[name]["unknown"])
        return tuple(name for name in chosen if len(axes[name]["values"]) > 1) or chosen

    @functools.cached_property
    def _cells(self) -> dict[tuple[str, ...], int]:
        cells = reversed(self.places.get("cells"))
        return {tuple(cell["values"][name] for name in self.varying): cell["cell"] for cell in cells}

    def at(self, *keys: str | int) -> Traced | None:
        """Return a number of the answer; ``None`` where there is none."""
        return self.places.at("answers", self.position, "data", *keys)

    def difference(self, *keys: str | int, interval: str = "ci95") -> Estimate | None:
        """Return a difference of the answer; ``None`` where there is none."""
        return self.places.estimate("answers", self.position, "data", *keys, interval=interval)

    def cell(self, labels: Mapping[str, str]) -> int | None:
        """Return the number of a cell by its labels; ``None`` where there is no such cell."""
        return self._cells.get(tuple(labels.get(name, "") for name in self.varying))

    def mean(self, cell: int | None, metric: str = "") -> Estimate | None:
        """Return the mean of a cell; ``None`` where it has none."""
        return None if cell is None else self.places.estimate("cells", cell, "metrics", metric or self.metric)

    def axis(self, name: str) -> Axis | None:
        """Return an axis; ``None`` if it has one value only."""
        return next((axis for axis in axes_of(self.places.content) if axis.name == name), None)

    def is_numeric(self, name: str) -> bool:
        """Return whether the values of an axis are numbers."""
        axis = self.axis(name)
        return axis is not None and axis.is_numeric

    def axis_form(self, name: str, at: float) -> Form:
        """Return how a place on an axis is told."""
        axis, labels = self.axis(name), [entry["label"] for entry in self.places.get("axes", name, "values")]
        if all(label.isdigit() for label in labels):
            return Form("", is_whole=True)
        units = {label.partition(" ")[2] for label in labels}
        if units <= {"s", "min", "h", "d"}:
            return time_form(at)
        return Form(units.pop() if len(units) == 1 else "", 1.0 if axis is None else axis.size)

    def title(self, axis: str) -> str:
        """Return what an axis is called."""
        return str(self.places.get("axes", axis, "title") or axis)

    def value(self, axis: str, label: str) -> Words:
        """Return a value without the name of its axis: a count as people write it, a name in quotes."""
        values = self.places.get("axes", axis, "values")
        for place, entry in enumerate(values):
            if entry["label"] == label and label.isdigit() and entry["number"] == int(label):
                found = self.places.at("axes", axis, "values", place, "number")
                assert found is not None
                return (number(found, COUNT),)
        return (label,) if _QUANTITY.match(label) else (f"“{label}”",)

    def is_counted(self, axis: str) -> bool:
        """Return whether an axis is a number of things, such as hot spares."""
        labels = [entry["label"] for entry in self.places.get("axes", axis, "values")]
        return _is_plural(self.title(axis)) and all(label.isdigit() for label in labels)

    def is_factor(self, axis: str) -> bool:
        """Return whether an axis multiplies failure rates of the scenario."""
        paths = self.places.get("axes", axis, "paths")
        return bool(paths) and all(_RATE.fullmatch(path) for path in paths)

    def named(self, axis: str, value: Words) -> Words:
        """Return a value with the name of its axis: ``12 hot spares``, ``a restart of 60 s``, ``recovery “cold”``."""
        title = self.title(axis)
        if self.is_counted(axis):
            return line(value, f" {title}")
        if self.is_factor(axis):
            return (f"the stated {title}",) if plain(value) == "1" else line(value, f" times the {title}")
        if plain(value).startswith("“"):
            return line(f"{title} ", value)
        article = "" if _is_plural(title) or "." in title else "an " if title[0] in "aeiou" else "a "
        return line(f"{article}{title} of ", value)

    def extent(self, axis: str, first: str, last: str) -> Words:
        """Return from where to where something goes on an axis, with the name of the axis once."""
        start, end = self.value(axis, first), self.value(axis, last)
        if self.is_counted(axis) or self.is_factor(axis):
            return line("from ", start, " to ", self.named(axis, end))
        return line("from ", self.named(axis, start), " to ", end)

    def values(self, axis: str, labels: Iterable[str]) -> Words:
        """Return values of an axis of which one holds, with its name once."""
        return self.named(axis, either([self.value(axis, label) for label in labels]))

    def some(self, places: Sequence[Mapping[str, str]], *axes: str) -> Words:
        """Return combinations of which one holds; the name of an axis is said once, and names do without it."""
        names = [name for name in self.varying if not axes or name in axes]
        most = _MOST_NAMED if len(names) == 1 else _MOST_OF_SEVERAL
        rest: list[Words] = [("others",)] if len(places) > most else []
        places = places[:most]
        if len(names) != 1:
            return either([*(self.where(labels, *axes) for labels in places), *rest])
        values = [*(self.value(names[0], labels[names[0]]) for labels in places), *rest]
        is_named = plain(values[0]).startswith("“")
        return either(values) if is_named else self.named(names[0], either(values))

    def where(self, labels: Mapping[str, str], *axes: str) -> Words:
        """Return the values of some axes, or of all that vary, with the names of the axes."""
        names = [name for name in self.varying if name in labels and (not axes or name in axes)]
        return listed_from_traced([self.named(name, self.value(name, labels[name])) for name in names], " and ")

    def briefly(self, labels: Mapping[str, str], *axes: str) -> Words:
        """Return the same, without the name of the axis where there is but one and its value has a name."""
        return self.some([labels], *(axes or tuple(labels)))

    def shortly(self, labels: Mapping[str, str]) -> Words:
        """Return values of axes without names of axes, for where these were said before."""
        names = [name for name in self.varying if name in labels]
        return self.value(names[0], labels[names[0]]) if len(names) == 1 else self.where(labels)

    def apart(self, found: Estimate, base: Traced | None = None) -> Words:
        """Return the size of a difference of the metric: of shares in points, else in percent of a base."""
        return apart(found, self.form, base)

    def gpu_years(self, found: Estimate, cell: int | None, other: int | None) -> Words:
        """Return what a difference of a share of requested time comes to in a year; empty between jobs of unlike size.

        It is empty too where the sizes are not known.
        """
        gpus, others = (None if one is None else self.places.at("cells", one, "gpus") for one in (cell, other))
        if gpus is None or others is None or gpus.value != others.value or self.metric not in _OF_REQUESTED:
            return ()
        size = found.changed(lambda change: (change * -1 if found.mean.value < 0 else change) * gpus)
        if size.low is None or size.high is None:
            return (" (", number(size.mean, GPU_YEARS), " a year)")
        return (" (", *ranged(size.low, size.high, GPU_YEARS), " a year)")

    def more_runs(self, *keys: str | int) -> Words:
        """Return how many runs would tell what is not resolved."""
        have, needed = self.at(*keys, "replications"), self.at(*keys, "replications_to_resolve")
        if have is not None and have.value < FEWEST_FIRM:
            return ("more simulated runs would tell",)
        return more_runs(needed)


def _is_plural(title: str) -> bool:
    """Return whether a title is of several things: ``GPUs of the job``."""
    noun = re.split(r" (?:of|in|per|for|between) ", title)[0]
    return noun.endswith("s") and not noun.endswith("ss")


# ----------------------------------------
# The best combination of a study, and which others may be as good, for a first screen.

_MOST_PARTS_BEST = 4

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
    shown = parts if len(parts) <= _MOST_PARTS_BEST else [parts[0], parts[-1]]
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
    point = sentence(start, listed_from_traced([texts[0], texts[-1]], ", and "))
    title = line(asked.subject, f" is {asked.most} ", listed_from_traced([texts[0], texts[-1]]))
    answer = sentence(start, listed_from_traced(texts, ", and "), end)
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
    titles = listed_from_traced([(asked.title(name),) for name in inner])
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


# ----------------------------------------
# What each value of an axis changes, for a first screen.

_MOST_TOLD = 3

"""Differences that a sentence tells; of more only those at both ends."""


class _Difference(NamedTuple):
    """What one value changes in one combination of the other axes."""

    place: int
    label: str
    found: Estimate
    resolved: bool


def compare(asked: Asked) -> Told | None:
    """Return what the values of an axis change; ``None`` where nothing can be compared."""
    found = _differences(asked)
    if not found:
        return None
    order = sorted(found, key=lambda one: one.found.mean.value)
    shown = found if len(found) <= _MOST_TOLD else [order[0], order[-1]]
    axis, lines = asked.data["axis"], asked.data["lines"]
    against = lines[0]["against"]
    start = line("compared with ", asked.values(axis, [against]), ", ", asked.subject, " ")
    texts = [_told_of_compare(asked, one, many=len(lines) > 1) for one in shown]
    largest = max(found, key=lambda one: abs(one.found.mean.value))
    at = lines[largest.place]["at"]
    short = line(start, _told_of_compare(asked, largest, many=len(lines) > 1))
    cell, other = (asked.cell({**at, axis: label}) for label in (largest.label, against))
    return Told(
        sentence(start, listed_from_traced(texts)),
        sentence(short),
        short,
        _picture_of_compare(asked),
        cell,
        other=other,
    )


def _differences(asked: Asked) -> list[_Difference]:
    """Return all differences that are known, in order."""
    found = []
    for place, content in enumerate(asked.data["lines"]):
        for label, entry in content["differences"].items():
            difference = asked.difference("lines", place, "differences", label)
            if difference is not None:
                found.append(_Difference(place, label, difference, bool(entry["resolved"])))
    return found


def _told_of_compare(asked: Asked, one: _Difference, *, many: bool) -> Words:
    """Return a difference in words."""
    content, axis = asked.data["lines"][one.place], asked.data["axis"]
    labels = {**content["at"], axis: one.label}
    where = line(" with ", asked.where(labels) if many else asked.values(axis, [one.label]))
    base_cell = asked.cell({**content["at"], axis: content["against"]})
    cell = asked.cell({**content["at"], axis: one.label})
    base = asked.mean(base_cell)
    if not one.found.mean.value:
        return line("is the same in every run", where)
    size = asked.apart(one.found, None if base is None else base.mean)
    if not one.resolved:
        more = asked.more_runs("lines", one.place, "differences", one.label)
        return line("cannot be told apart", where, " (", more, ")")
    word = "rises by " if one.found.mean.value > 0 else "falls by "
    return line(word, size, asked.gpu_years(one.found, base_cell, cell), where)


def _picture_of_compare(asked: Asked) -> Callable[[str], Picture | None]:
    """Return the picture: curves along a numeric axis if there is one more, or else means below each other."""
    axis = asked.data["axis"]
    others = [name for name in asked.varying if name != axis]
    numeric = next((name for name in (*others, axis) if asked.is_numeric(name)), None)
    if numeric is not None and others:
        return curves(asked, numeric, between=axis if len(others) == 1 and numeric != axis else "")
    rows: Sequence[Row] = [
        Row(plain(asked.briefly(cell["values"])).strip("“”"), cell["cell"]) for cell in asked.places.get("cells")
    ]
    return intervals(asked, rows)


# ----------------------------------------
# Who is best along an axis, and where another one becomes the best, for a first screen.

_MOST_LINES_CROSSOVER = 2

"""Combinations of other axes of which each is told."""

_LARGE = 1000.0

"""What is counted from which on it is not told to the last one."""


class _Span(NamedTuple):
    """Neighbouring values at which the same may be best."""

    stages: list[int]
    names: list[str]


def crossover(asked: Asked) -> Told | None:
    """Return who is best where; ``None`` where nobody is."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    if not lines:
        return None
    along = asked.data["along"]
    shown = [0] if len(lines) == 1 else [0, len(lines) - 1][:_MOST_LINES_CROSSOVER]
    texts: list[Words | str] = []
    for place in shown:
        where = asked.where(lines[place]["at"])
        texts += ["; " if texts else "", line("with ", where, " ") if where else "", _course(asked, place)]
    last = len(lines) - 1
    edges = [
        (crossing["at"], f"{crossing['to']} ahead")
        for crossing in lines[last]["crossings"]
        if crossing["at"] is not None
    ]
    picture = curves(asked, along, between=asked.data["between"], edges=edges if len(lines) == 1 else ())
    stage = lines[last]["best"][-1]
    labels = {**lines[last]["at"], along: stage["value"], asked.data["between"]: stage["best"]}
    where = asked.where(lines[last]["at"])
    short = line("with " if where else "", where, " " if where else "", _in_short(asked, last))
    return Told(sentence(*texts), sentence(short), short, picture, asked.cell(labels))


def _spans(asked: Asked, place: int) -> list[_Span]:
    """Return the axis in parts in which the same may be best."""
    stages = asked.data["lines"][place]["best"]
    grouped = itertools.groupby(range(len(stages)), key=lambda one: frozenset(stages[one]["may_be_best"]))
    found = []
    for _, members in grouped:
        numbers = list(members)
        found.append(_Span(numbers, stages[numbers[0]]["may_be_best"]))
    return found


def _course(asked: Asked, place: int) -> Words:
    """Return who is best from where to where, and by how much at the end."""
    stages = asked.data["lines"][place]["best"]
    spans = _spans(asked, place)
    if len(spans) == 1 and len(spans[0].names) == 1:
        first, last = _lead_of_crossover(asked, place, 0), _lead_of_crossover(asked, place, len(stages) - 1)
        whom = asked.value(asked.data["between"], spans[0].names[0])
        alone = line(whom, f" has the {asked.most} {asked.what} ", _from_to(asked, place, spans[0]))
        return line(alone, ", by ", first, " at first and ", last, " at last") if first and last else alone
    parts: list[Words | str] = []
    for position, span in enumerate(spans):
        following = spans[position + 1] if position + 1 < len(spans) else None
        handover = _handover(asked, place, span, following)
        is_beyond = position > 0 and bool(_handover(asked, place, spans[position - 1], span))
        where: Words = () if is_beyond else _from_to(asked, place, span)
        if handover:
            where = line("up to ", handover)
        who = either([asked.value(asked.data["between"], name) for name in span.names])
        if len(span.names) > 1:
            who = line("it cannot be told apart whether ", who, " is best")
        elif not position:
            who = line(who, f" has the {asked.most} {asked.what}")
        before = ", beyond that " if is_beyond else ", then " if position else ""
        parts += [before, who, " " if where else "", where]
    end = len(stages) - 1
    lead = _lead_of_crossover(asked, place, end)
    if lead and len(spans[-1].names) == 1:
        parts += [", at ", asked.values(asked.data["along"], [stages[end]["value"]]), " ahead by ", lead]
        parts += [_years(asked, place, end)]
    return line(*parts)


def _from_to(asked: Asked, place: int, span: _Span) -> Words:
    """Return where a part is."""
    stages, along = asked.data["lines"][place]["best"], asked.data["along"]
    first, last = (stages[span.stages[end]]["value"] for end in (0, -1))
    if first == last:
        return line("at ", asked.values(along, [first]))
    return asked.extent(along, first, last)


def _handover(asked: Asked, place: int, span: _Span, following: _Span | None) -> Words:
    """Return where the best of a part is passed by that of the next one; empty where that is not told."""
    content = asked.data["lines"][place]
    if following is None or len(span.names) > 1 or len(following.names) > 1:
        return ()
    ends = [content["best"][span.stages[-1]]["value"], content["best"][following.stages[0]]["value"]]
    for index, crossing in enumerate(content["crossings"]):
        at = asked.at("lines", place, "crossings", index, "at")
        if crossing["between"] == ends and at is not None:
            return _place(asked, place, index)
    return ()


def _place(asked: Asked, place: int, index: int, *, briefly: bool = False) -> Words:
    """Return between which values that were tried a crossover is, and about where."""
    at = asked.at("lines", place, "crossings", index, "at")
    assert at is not None
    along = asked.data["along"]
    form = asked.axis_form(along, at.value)
    crossing = asked.data["lines"][place]["crossings"][index]
    stages = [stage["value"] for stage in asked.data["lines"][place]["best"]]
    low, high = crossing["at_ci95"] or (None, None)
    # Of what is counted no decimals, and no more digits than what is between two values deserves.
    digits = form._replace(is_whole=False) if form.is_whole and at.value >= _LARGE else form
    about = number(at, digits, None if low is None or high is None else (low, high))
    if briefly:
        return line("about ", asked.named(along, (about,)))
    numbers = [stage["number"] for stage in asked.data["lines"][place]["best"]]
    first, last = (stages.index(label) for label in crossing["between"])
    below, above = bracket(numbers, (first, last), (low, high))
    tried = line("between ", asked.value(along, stages[below or 0]), " and ",
                 asked.value(along, stages[-1 if above is None else above]))  # fmt: skip
    return line("somewhere ", asked.named(along, tried), " (about ", about, " on a straight line)")


def _lead_of_crossover(asked: Asked, place: int, stage: int) -> Words:
    """Return by how much the best is ahead of the second at a value; empty where that is not told."""
    found = asked.difference("lines", place, "best", stage, "ahead_of_second")
    base = asked.at("lines", place, "best", stage, "mean")
    return () if found is None else asked.apart(found, base)


def _years(asked: Asked, place: int, stage: int) -> Words:
    found = asked.difference("lines", place, "best", stage, "ahead_of_second")
    content = asked.data["lines"][place]
    entry = content["best"][stage]
    here = {**content["at"], asked.data["along"]: entry["value"]}
    names = entry.get("order", ())[:2]
    cells = [asked.cell({**here, asked.data["between"]: name}) for name in names]
    return () if found is None or len(cells) < 2 else asked.gpu_years(found, *cells)


def _in_short(asked: Asked, place: int) -> Words:
    """Return the same in short: who is best at first and at last."""
    spans, between = _spans(asked, place), asked.data["between"]
    who = [either([asked.value(between, name) for name in span.names]) for span in (spans[0], spans[-1])]
    if len(spans) == 1:
        if len(spans[0].names) > 1:
            return line("it cannot be told apart whether ", who[0], f" has the {asked.most} {asked.what}")
        return line(who[0], f" has the {asked.most} {asked.what} ", _from_to(asked, place, spans[0]))
    content = asked.data["lines"][place]
    last = next((index for index in reversed(range(len(content["crossings"])))
                 if content["crossings"][index]["at"] is not None), None)  # fmt: skip
    if last is not None and len(spans[-1].names) == 1:
        return line(
            "beyond ", _place(asked, place, last, briefly=True), " ", who[1], f" has the {asked.most} {asked.what}"
        )
    ends = [_from_to(asked, place, span) for span in (spans[0], spans[-1])]
    return line(who[0], f" may have the {asked.most} {asked.what} ", ends[0], ", ", who[1], " ", ends[1])


# ----------------------------------------
# What it takes to finish in time with some probability, over what is not known exactly, for a first screen.

_METRIC = "p_finish_by"

_NORMAL = 1.96

_CLOSE = 0.01

"""Half-width of an interval from which on it is told that shares of runs are not known well."""


class _Setting(NamedTuple):
    """A value that was tried: its label, its cell, and the share of runs that are in time over all draws."""

    label: str
    cell: int
    share: Traced


def likely(asked: Asked, condition: Callable[[Asked], Words]) -> Told | None:
    """Return what it takes for a probability over luck and over unknown inputs; ``None`` where none were drawn.

    A probability to be in time is the share of runs that are, and whether the reason is luck or an input that nobody
    knows exactly is all the same to who waits: where runs with drawn inputs are there, they are what is asked for.
    """
    axis = asked.axis(asked.data["along"])
    if asked.metric != _METRIC or axis is None or len(asked.data["lines"]) != 1 or "at_least" not in asked.data:
        return None
    settings = _settings(asked, axis)
    level = asked.data["at_least"]
    if len(settings) < 2:
        return None
    holds = [one.share.value >= level for one in settings]
    unheld = [place for place, one in enumerate(holds) if not one]
    first = unheld[-1] + 1 if unheld else 0
    goal = line("for ", asked.subject, " to be ", condition(asked), ", ")
    need = _need(asked, settings, first)
    shown = [settings[place] for place in (first - 1, first) if 0 <= place < len(settings)]
    runs = _runs(asked, settings[0].cell)
    texts = [line(number(one.share, PERCENT), " with ", asked.value(axis.name, one.label)) for one in shown]
    of_runs = line("of ", number(runs, COUNT), " runs ") if runs is not None else ("of the runs ",)
    answer = joined([
        sentence(goal, need, ": ", of_runs, listed_from_traced(texts), " are in time, unknown inputs drawn"),
        _central(asked, axis, level),
    ])  # fmt: skip
    short = line(need, " for ", condition(asked))
    picture = _picture_of_likely(asked, axis, settings, (level, plain(condition(asked))))
    cell = settings[min(first, len(settings) - 1)].cell
    return Told(
        answer,
        sentence(goal, need),
        short,
        picture,
        cell,
        doubt=_doubt(asked, shown),
        other=settings[first - 1].cell if first else None,
    )


def _settings(asked: Asked, axis: Axis) -> list[_Setting]:
    """Return the values that were tried, ascending, with the share of drawn runs that are in time."""
    at = asked.data["lines"][0]["at"]
    found = []
    for _, label in sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0):
        cell = asked.cell({**at, axis.name: label})
        share = asked.rows.mean(cell, _METRIC, drawn=True)
        if cell is not None and share is not None:
            found.append(_Setting(label, cell, share))
    return found


def _need(asked: Asked, settings: list[_Setting], first: int) -> Words:
    """Return what it takes, between the last value that does not do and the first of those that do."""
    along = asked.data["along"]
    if first in (0, len(settings)):
        extent = asked.extent(along, settings[0].label, settings[-1].label)
        return line("no" if first else "any", " value tried is enough (", extent, ")")
    ends = [asked.value(along, settings[place].label) for place in (first - 1, first)]
    span = line("between ", listed_from_traced(ends))
    return line("it takes ", asked.named(along, span))


def _runs(asked: Asked, cell: int) -> Traced | None:
    """Return how many runs a setting has over all draws."""
    draws, each = asked.places.at("cells", cell, "draws"), asked.places.at("cells", cell, "replications")
    return None if draws is None or each is None or not draws.value else draws * each


def _central(asked: Asked, axis: Axis, level: float) -> Words:
    """Return what would do if all inputs were at their central values; empty where that is not told."""
    at = asked.data["lines"][0]["at"]
    pairs = sorted(zip(axis.numbers, axis.labels, strict=True), key=lambda pair: pair[0] or 0.0)
    known = [(label, mean.mean.value >= level) for _, label in pairs
             if (mean := asked.mean(asked.cell({**at, axis.name: label}))) is not None]  # fmt: skip
    held = list(itertools.takewhile(lambda pair: pair[1], reversed(known)))
    if not held:
        return ()
    return sentence("at exactly the central values ", asked.named(axis.name, asked.value(axis.name, held[-1][0])),
                    " would do")  # fmt: skip


def _doubt(asked: Asked, shown: list[_Setting]) -> Words:
    """Return what was drawn, and how well shares of so few draws are known."""
    titles = [(str(axis["title"]),) for axis in asked.places.get("axes").values() if axis["unknown"]]
    draws = asked.places.at("cells", shown[0].cell, "draws")
    verb = "is" if len(titles) == 1 else "are"
    start = line("not known exactly ", verb, " ", listed_from_traced(titles))
    if draws is None:
        return sentence(start, ": each run has its own luck and one draw of them")
    known = sentence(start, ": each run has its own luck and one of ", number(draws, COUNT), " draws of them")
    values = [asked.rows.by_draw(one.cell, _METRIC) for one in shown]
    widest = max((_NORMAL * statistics.stdev(one) / math.sqrt(len(one)) for one in values if len(one) > 1), default=0.0)
    if widest < _CLOSE:
        return known
    return joined([known, ("With so few draws such shares are known to a few points only.",)])


def _picture_of_likely(
    asked: Asked, axis: Axis, settings: list[_Setting], level: tuple[float, str]
) -> Callable[[str], Picture | None]:
    """Return what draws the share of runs that are in time, with drawn inputs and at the central values."""

    def picture(title: str) -> Picture | None:
        numbers: Mapping[str, float] = {label: one or 0.0 for label, one in zip(axis.labels, axis.numbers, strict=True)}
        x = tuple(numbers[one.label] / axis.size for one in settings)
        drawn = tuple(100 * one.share.value for one in settings)
        means = [asked.mean(one.cell) for one in settings]
        central = tuple(None if mean is None else 100 * mean.mean.value for mean in means)
        series = (Series("unknown inputs drawn", x, drawn, hue=0), Series("central values", x, central, hue=1))
        what = capital(asked.what)
        chart = Curves(title, axis.scale, Scale(f"{what} [%]"), series, levels=((100 * level[0], level[1]),))
        rows = [
            (plain(asked.value(axis.name, one.label)), plain((number(one.share, PERCENT),)),
             "" if mean is None else asked.form.value(mean.mean.value, mean.interval))
            for one, mean in zip(settings, means, strict=True)
        ]  # fmt: skip
        heads = (Column(axis.title, is_number=False), Column("unknown inputs drawn"), Column("central values"))
        told = "; ".join(f"{row[1]} with {row[0]}" for row in rows)
        alt = f"{what} with unknown inputs drawn, along {axis.title}: {told}."
        return Picture(KEY, chart, alt, "Shares of runs that are in time.", Grid(title, heads, rows))

    return picture


# ----------------------------------------
# What cannot be had together, for a first screen.


def pareto(asked: Asked) -> Told | None:
    """Return which combinations no other one beats in everything; ``None`` where nothing is known."""
    entries: Sequence[Mapping[str, Any]] = asked.data["front"]
    if not entries:
        return None
    metrics = asked.data["metrics"]
    order = sorted(range(len(entries)), key=lambda place: entries[place][metrics[0]]["mean"])
    if not asked.is_lowest_best(metrics[0]):
        order.reverse()
    shown = order if len(order) <= _MOST_TOLD else [order[0], order[-1]]
    aims = listed_from_traced([(_aim(asked, name),) for name in (*metrics, *asked.data["axes"])])
    between = " to " if len(order) > _MOST_TOLD else " and "
    texts = [_entry(asked, place) for place in shown]
    answer = sentence(
        "in ", aims, " at once, no other setting beats ", listed_from_traced(texts, between), _maybe(asked)
    )
    names = [asked.briefly(entries[place]["at"]) for place in shown]
    short = line("no other setting beats ", listed_from_traced(names, between), " in ", aims, " at once")
    standing = dict.fromkeys(range(len(asked.places.get("cells"))), "behind")
    for word, key in (("perhaps", "may_be_too"), ("front", "front")):
        standing |= {cell: word for entry in asked.data[key] if (cell := asked.cell(entry["at"])) is not None}
    picture = front(asked, (metrics[0], metrics[1]), standing) if len(metrics) > 1 else nothing
    return Told(answer, sentence(short), short, picture, asked.cell(entries[order[0]]["at"]))


def _aim(asked: Asked, name: str) -> str:
    """Return an aim in words."""
    if name in asked.data["axes"]:
        return asked.title(name)
    words = metric_words(name)
    return words if words.startswith("the ") else f"the {words}"


def _entry(asked: Asked, place: int) -> Words:
    """Return a setting with what it reaches."""
    entry = asked.data["front"][place]
    values = []
    for name in asked.data["metrics"]:
        found = asked.places.estimate("answers", asked.position, "data", "front", place, name)
        if found is not None:
            values.append(told(Estimate(*found), asked.form_of(name)))
    return line(asked.briefly(entry["at"]), " with ", listed_from_traced(values))


def _maybe(asked: Asked) -> Words:
    """Return which others may belong to the front too."""
    others = [asked.briefly(entry["at"]) for entry in asked.data["may_be_too"]]
    if not others:
        return ()
    if len(others) > _MOST_TOLD:
        return ("; others may be as good",)
    return line("; ", listed_from_traced(others), " may be as good")


# ----------------------------------------
# Which axis moves a metric most, for a first screen.

_LEAST = 0.001

"""A share of the variance that is told."""


def sensitivity(asked: Asked) -> Told | None:
    """Return what matters most; ``None`` where the points do not tell."""
    kind = asked.data.get("kind")
    return _tornado(asked) if kind == "tornado" else _indices(asked) if kind == "sobol" else None


def _tornado(asked: Asked) -> Told | None:
    """Return the axis that alone moves the metric most, and how far."""
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    if not axes or not axes[0]["swing"]:
        return None
    moves = [_move(asked, place) for place in range(len(axes[0]["moves"]))]
    known = [text for text in moves if text]
    answer = sentence(
        "what moves ", asked.subject, " most is ", asked.title(axes[0]["axis"]), ": ", listed_from_traced(known)
    )
    cells = [Row(plain(asked.where(cell["values"])), cell["cell"]) for cell in asked.places.get("cells")]
    short = line(asked.title(axes[0]["axis"]), " moves ", asked.subject, " most")
    return Told(answer, sentence(short), short, intervals(asked, cells), 0)


def _move(asked: Asked, place: int) -> Words:
    """Return what one value of the first axis changes; empty where that is not known."""
    entry = asked.data["axes"][0]
    move = entry["moves"][place]
    found = None if move["difference"] is None else asked.difference("axes", 0, "moves", place, "difference")
    if found is None:
        return ()
    where = line("with ", asked.values(entry["axis"], [move["value"]]), " it ")
    if not found.mean.value:
        return line(where, "is the same in every run")
    base = asked.at("center")
    word = "rises by " if found.mean.value > 0 else "falls by "
    if not move["difference"]["resolved"]:
        return line(where, "moves by no more than chance does")
    return line(where, word, asked.apart(found, base))


def _indices(asked: Asked) -> Told | None:
    """Return which share of the variance the first axes make."""
    axes: Sequence[Mapping[str, Any]] = asked.data["axes"]
    order = sorted(range(len(axes)), key=lambda place: -axes[place]["total"]["value"])
    texts = []
    for place in order[:_MOST_TOLD]:
        share = asked.at("axes", place, "total", "value")
        ends = asked.places.ends("answers", asked.position, "data", "axes", place, "total", "ci95")
        if share is not None and share.value >= _LEAST:
            has_width = ends is not None and ends[1].value - ends[0].value > _LEAST
            found = Estimate(share, *ends) if ends is not None and has_width else Estimate(share)
            texts.append(line(asked.title(axes[place]["axis"]), " with ", told(found, PERCENT)))
    if not texts:
        return None
    answer = sentence(
        "what makes most of the differences in ", asked.subject, " is ", listed_from_traced(texts), " of the variance"
    )
    rows = [Row(plain(asked.where(cell["values"])), cell["cell"]) for cell in asked.places.get("cells")]
    short = line(asked.title(axes[order[0]]["axis"]), " moves ", asked.subject, " most")
    return Told(answer, sentence(short), short, intervals(asked, rows), 0)


# ----------------------------------------
# What it takes for a metric to pass a value, for a first screen.

_MOST_TOLD_THRESHOLD = 4

"""Combinations of other axes of which each is told; of more the hardest, and what each axis alone can do about it."""

_ONE = Traced(1.0, (), "1")

_TIMES, _BARE = Form("times"), Form("")


class _Need(NamedTuple):
    """What one line takes.

    Parameters
    ----------
    place
        Position of the line.
    crossing
        Position of the crossing; ``None`` where the condition holds at all values that were tried, or at none.
    holds
        Whether it holds at the first value.
    """

    place: int
    crossing: int | None
    holds: bool


def threshold(asked: Asked) -> Told | None:
    """Return what it takes; ``None`` where nothing is known along the axis."""
    lines = asked.data["lines"]
    drawn = likely(asked, _condition)
    if drawn is not None:
        return drawn
    needs = [_need_of_threshold(place, content) for place, content in enumerate(lines) if content["points"]]
    if not needs:
        return None
    hardest = max(needs, key=lambda need: _hardness(asked, need))
    shown = needs if len(needs) <= _MOST_TOLD_THRESHOLD else [hardest, *_eased(asked, needs, hardest)]
    goal = line("for ", asked.subject, " to be ", _condition(asked), ", ")
    tell = _rate if asked.is_factor(asked.data["along"]) else _amount
    if tell is _rate:
        shown = sorted(shown, key=lambda need: _hardness(asked, need), reverse=True)
    texts, said = [], lines[shown[0].place]["at"]
    for place, one in enumerate(shown):
        # All but the first name only what is not as in the first.
        at = {name: label for name, label in lines[one.place]["at"].items() if not place or label != said[name]}
        is_first = all(before.crossing is None for before in shown[:place])
        texts.append(tell(asked, one, at=at, is_first=is_first))
    answer = sentence(goal, listed_from_traced(texts), _unsure(asked, hardest))
    need = tell(asked, hardest, at=lines[hardest.place]["at"], is_first=True)
    short = line(need, " for ", _condition(asked))
    level = asked.data.get("at_least", asked.data.get("at_most"))
    picture = curves(asked, asked.data["along"], level=(level, plain(_condition(asked))))
    return Told(
        answer,
        sentence(goal, need),
        short,
        picture,
        _cell(asked, hardest),
        _band_of_threshold(asked, hardest),
        other=_cell(asked, hardest, holds=False),
    )


def _eased(asked: Asked, needs: Sequence[_Need], hardest: _Need) -> list[_Need]:
    """Return, for each other axis, what takes least of the lines that differ from the hardest in that axis alone."""
    lines = asked.data["lines"]
    here = lines[hardest.place]["at"]
    found: dict[str, _Need] = {}
    for need in sorted(needs, key=lambda one: _hardness(asked, one)):
        apart = [name for name, label in lines[need.place]["at"].items() if label != here[name]]
        if len(apart) == 1:
            found.setdefault(apart[0], need)
    return [found[name] for name in reversed(here) if name in found][: _MOST_TOLD_THRESHOLD - 1]


def _need_of_threshold(place: int, content: Mapping[str, Any]) -> _Need:
    """Return what a line takes; of several crossings the last one that begins, or the first one that ends."""
    crossings: Sequence[Mapping[str, Any]] = content["crossings"]
    begin = [index for index, crossing in enumerate(crossings) if crossing["begins"]]
    end = [index for index, crossing in enumerate(crossings) if not crossing["begins"]]
    holds = bool(content["points"][0]["holds"])
    chosen = end[0] if holds and end else begin[-1] if begin else None
    return _Need(place, chosen, holds)


def _hardness(asked: Asked, need: _Need) -> tuple[int, float]:
    """Return how much a line takes, to sort by."""
    if need.crossing is None:
        return (0 if need.holds else 2), 0.0
    at = asked.data["lines"][need.place]["crossings"][need.crossing]["at"]
    return 1, -at if need.holds else at


def _condition(asked: Asked) -> Words:
    key = "at_least" if "at_least" in asked.data else "at_most"
    level = asked.at(key)
    assert level is not None
    form = asked.form
    text = form.exact(level.value)
    text = text.removesuffix("s") if text in ("1 days", "1 hours", "1 minutes", "1 seconds") else text
    return line(key.replace("_", " "), " ", number(level, form)._replace(text=text))


def _amount(asked: Asked, need: _Need, *, at: Mapping[str, str], is_first: bool) -> Words:
    """Return what a line takes, as a span of values of which two were tried; the name of the axis is said once."""
    along = asked.data["along"]
    place = asked.where(at) if is_first else asked.shortly(at)
    where = line(" with ", place) if place else ""
    if need.crossing is None:
        return line(_beyond(asked, need), where)
    span = _span(asked, need)
    named = asked.named(along, span) if is_first or not asked.is_counted(along) else span
    start = "it takes " if is_first else ""
    return line(
        start,
        "at most " if need.holds else "",
        named,
        _straight(asked, need) if len(asked.data["lines"]) == 1 else "",
        where,
    )


def _span(asked: Asked, need: _Need) -> Words:
    """Return between which values a line passes the level; of what is counted, which of them it may be."""
    along, points = asked.data["along"], asked.data["lines"][need.place]["points"]
    first, last = _bracket(asked, need)
    if not asked.is_counted(along):
        ends = [asked.value(along, points[end or 0]["value"]) for end in (first, last)]
        if last is None:
            return line("more than ", asked.value(along, points[-1]["value"]) if first is None else ends[0])
        return line("less than ", ends[1]) if first is None else line("between ", ends[0], " and ", ends[1])
    low = None if first is None else asked.at("lines", need.place, "points", first, "number")
    high = None if last is None else asked.at("lines", need.place, "points", last, "number")
    # It begins behind the last value below it, or ends before the first one above it.
    low = low if low is None or need.holds else low + 1.0
    high = high if high is None or not need.holds else high - 1.0
    texts = [
        line("fewer than ", asked.value(along, points[0]["value"])) if low is None else (number(low, COUNT),),
        line("more than ", asked.value(along, points[-1]["value"])) if high is None else (number(high, COUNT),),
    ]
    return (
        texts[0]
        if low is not None and high is not None and low.value == high.value
        else listed_from_traced(texts, " to ")
    )


def _bracket(asked: Asked, need: _Need) -> tuple[int | None, int | None]:
    """Return positions of the values that were tried on both sides of where a line passes the level."""
    content = asked.data["lines"][need.place]
    crossing = content["crossings"][need.crossing or 0]
    labels = [point["value"] for point in content["points"]]
    first, last = (labels.index(label) for label in crossing["between"])
    return bracket([point["number"] for point in content["points"]], (first, last), crossing["at_ci95"] or (None, None))


def _straight(asked: Asked, need: _Need) -> Words:
    """Return where a straight line between the two neighbours passes the level."""
    at = _turned(asked, need, "at")
    assert at is not None
    form = asked.axis_form(asked.data["along"], at.value)
    return (" (about ", number(at, form), " on a straight line)")


def _rate(asked: Asked, need: _Need, *, at: Mapping[str, str], is_first: bool) -> Words:
    """Return how much rarer failures must be in a line, or how much more frequent they may be."""
    start = line("with ", asked.where(at), " ") if at else ""
    if need.crossing is None:
        return line(start, _beyond(asked, need))
    place = ("lines", need.place, "crossings", need.crossing)
    found, low, high = asked.at(*place, "at"), asked.at(*place, "at_ci95", 0), asked.at(*place, "at_ci95", 1)
    assert found is not None
    is_rarer = need.holds and found.value < 1
    if is_rarer:
        found, low, high = _ONE / found, None if high is None else _ONE / high, None if low is None else _ONE / low
    times = number(found, _TIMES, None if low is None or high is None else (low.value, high.value))
    between = _tried(asked, need, is_rarer=is_rarer) if is_first else ()
    than = f" than in “{asked.places.get('scenario')}”" if is_first else ""
    if is_rarer and not is_first:
        return line("about ", times, " rarer with ", asked.where(at))
    who = "failures" if is_first else "they"
    if is_rarer:
        return line(start, who, " must be about ", times, " rarer", than, between)
    verb = " may be about " if need.holds else " must be at least about "
    return line(start, who, verb, times, " as frequent", than.replace("than", "as"), between)


def _tried(asked: Asked, need: _Need, *, is_rarer: bool) -> Words:
    """Return the two rates that were tried next to where a line passes the level; empty where one is beyond all."""
    points = asked.data["lines"][need.place]["points"]
    places = [place for place in _bracket(asked, need) if place is not None]
    if len(places) < 2:
        return ()
    texts = [asked.value(asked.data["along"], points[place]["value"]) for place in places]
    known = [asked.at("lines", need.place, "points", place, "number") for place in places]
    if is_rarer:
        texts = [(number(_ONE / one, _BARE),) for one in reversed(known) if one is not None and one.value]
    return line(" (tried: ", listed_from_traced(texts), ")")


def _beyond(asked: Asked, need: _Need) -> Words:
    """Return that the condition holds at all values that were tried, or at none."""
    points = asked.data["lines"][need.place]["points"]
    extent = asked.extent(asked.data["along"], points[0]["value"], points[-1]["value"])
    return line("any" if need.holds else "no", " value tried is enough (", extent, ")")


def _turned(asked: Asked, need: _Need, *keys: str | int) -> Traced | None:
    """Return a place of a crossing; of what is counted the first whole number behind it, or the last one before."""
    found = asked.at("lines", need.place, "crossings", need.crossing or 0, *keys)
    if found is None or not asked.axis_form(asked.data["along"], found.value).is_whole:
        return found
    return whole(found, up=not need.holds)


def _unsure(asked: Asked, need: _Need) -> Words:
    """Return that it is nowhere sure, where that is so; empty elsewhere."""
    points = asked.data["lines"][need.place]["points"]
    if not any(point["holds"] for point in points) or any(point["holds_for_sure"] for point in points):
        return ()
    held = next(index for index in reversed(range(len(points))) if points[index]["holds"])
    ends = asked.places.ends("answers", asked.position, "data", "lines", need.place, "points", held, "mean_ci95")
    runs = asked.places.at("cells", _cell(asked, need) or 0, "replications")
    if ends is None or runs is None:
        return ()
    unknown = asked.data["over"] == "parameters" and points[held]["band90"] is not None
    why = "with what is not known exactly" if unknown else "with so few simulated runs"
    where = asked.values(asked.data["along"], [points[held]["value"]])
    return line(
        "; ",
        why,
        " that is not sure at any value tried (at ",
        where,
        " it may be anything from ",
        ranged(*ends, asked.form),
        ")",
    )


def _band_of_threshold(asked: Asked, need: _Need) -> Words:
    """Return between which places unknown inputs move the answer; empty where that is not told."""
    if need.crossing is None:
        return ()
    content = asked.data["lines"][need.place]
    if content["crossings"][need.crossing]["band90"] is None:
        return ()
    along = asked.data["along"]
    low, high = (_turned(asked, need, "band90", end) for end in (0, 1))
    ends: list[Words] = []
    for end, found, word in ((0, low, "fewer than "), (-1, high, "more than ")):
        if found is None:
            word = word if asked.is_counted(along) else word.replace("fewer", "less")
            ends.append(line(word, asked.value(along, content["points"][end]["value"])))
        else:
            ends.append((number(found, asked.axis_form(along, found.value)),))
    return line("from ", ends[0], " to ", asked.named(along, ends[1]))


def _cell(asked: Asked, need: _Need, *, holds: bool = True) -> int | None:
    """Return the cell that is nearest to what a line takes, on the side where the condition holds, or on the other."""
    content = asked.data["lines"][need.place]
    labels = [point["value"] for point in content["points"]]
    label = labels[0] if need.holds is holds else labels[-1]
    if need.crossing is not None:
        label = content["crossings"][need.crossing]["between"][0 if need.holds is holds else 1]
    return asked.cell({**content["at"], asked.data["along"]: label})


# ----------------------------------------
# What an axis does to a metric, for a first screen.

_MOSTLY = 2 / 3


class _Change(NamedTuple):
    """What the axis does along one line, from its first value to its last."""

    place: int
    found: Estimate
    base: Traced | None
    resolved: bool


def trend(asked: Asked) -> Told | None:
    """Return what the axis changes; ``None`` where no two values have a mean."""
    lines: Sequence[Mapping[str, Any]] = asked.data["lines"]
    changes = [change for place in range(len(lines)) if (change := _change(asked, place)) is not None]
    if not changes:
        return None
    order = sorted(changes, key=lambda change: change.found.mean.value)
    shown = changes if len(changes) <= _MOST_TOLD else [order[0], order[-1]]
    largest = max(changes, key=lambda change: abs(change.found.mean.value))
    whole = asked.data["lines"][largest.place]["whole"]
    along = asked.data["along"]
    start = line(asked.extent(along, whole["from"], whole["to"]), " ", asked.subject, " ")
    parts: list[Words] = [
        _told_of_trend(asked, change, shown[place - 1] if place else None) for place, change in enumerate(shown)
    ]
    if len(changes) > 1 and not any(change.resolved for change in changes):
        parts = [("does not change by more than chance does, whatever the other values are",)]
    end = line(_mostly(asked, shown), _best(asked, largest))
    short = line(
        start, _told_of_trend(asked, largest, None) if largest.resolved else parts[0], _mostly(asked, [largest])
    )
    cell, other = (asked.cell({**lines[largest.place]["at"], along: whole[end]}) for end in ("to", "from"))
    answer = sentence(start, listed_from_traced(parts), end)
    return Told(answer, sentence(short), short, curves(asked, along), cell, other=other)


def _change(asked: Asked, place: int) -> _Change | None:
    """Return the change along a line; ``None`` where it is not known."""
    found = asked.difference("lines", place, "whole", "difference")
    if found is None:
        return None
    resolved = bool(asked.data["lines"][place]["whole"]["difference"]["resolved"])
    return _Change(place, found, asked.at("lines", place, "points", 0, "mean"), resolved)


def _told_of_trend(asked: Asked, change: _Change, before: _Change | None) -> Words:
    """Return a change in words; what it has in common with the one before it is not said again."""
    at = asked.data["lines"][change.place]["at"]
    named = asked.briefly(at) if before is not None else asked.where(at)
    where = line(" with ", named) if at else ""
    if not change.resolved:
        same = not change.found.mean.value
        return line("stays the same in every run" if same else "does not change by more than chance does", where)
    is_alike = before is not None and before.resolved and before.found.mean.value * change.found.mean.value > 0
    verb = "" if is_alike else "rises " if change.found.mean.value > 0 else "falls "
    return line(verb, "by ", asked.apart(change.found, change.base), where)


def _mostly(asked: Asked, changes: Sequence[_Change]) -> Words:
    """Return where most of some changes happens, if one step makes more than two thirds of each; empty elsewhere."""
    found = set()
    for change in changes:
        steps = asked.data["lines"][change.place]["steps"]
        largest = max(steps, key=lambda step: abs(step["difference"]["mean"]))
        whole = change.found.mean.value
        if len(steps) < 2 or not whole or largest["difference"]["mean"] / whole < _MOSTLY or not change.resolved:
            return ()
        found.add((largest["from"], largest["to"]))
    if len(found) != 1:
        return ()
    along, (first, last) = asked.data["along"], found.pop()
    return line(", mostly from ", asked.value(along, first), " to ", asked.value(along, last))


def _best(asked: Asked, change: _Change) -> Words:
    """Return where the metric is best on the way; empty where that is at an end, or no course is told."""
    content = asked.data["lines"][change.place]
    if content.get("course") != "turns" or len(asked.data["lines"]) > 1:
        return ()
    points = content["points"]
    sign = -1 if asked.is_lowest else 1
    best = max(points, key=lambda point: sign * point["mean"])
    if best in (points[0], points[-1]):
        return ()
    along = asked.data["along"]
    found = asked.mean(asked.cell({**content["at"], along: best["value"]}))
    if found is None:
        return ()
    return line(
        "; the ", asked.most, " on the way is ", told(found, asked.form), " at ", asked.values(along, [best["value"]])
    )


# ----------------------------------------
# What the answer to each kind of question says on a first screen: one file each.

ANSWERS: dict[str, Callable[[Asked], Told | None]] = {
    "best": best,
    "compare": compare,
    "crossover": crossover,
    "pareto": pareto,
    "sensitivity": sensitivity,
    "threshold": threshold,
    "trend": trend,
}

"""By kind of question: what its answer says, or ``None`` where there is nothing to say."""


def answers_of(places: Places, rows: Rows | None = None) -> list[tuple[Asked, Told]]:
    """Return what the answers of a study say, in order; those that say nothing are left out."""
    found = []
    for position, answer in enumerate(places.get("answers")):
        asked = Asked(places, position, rows or Rows())
        told = ANSWERS[answer["ask"]](asked)
        if told is not None:
            found.append((asked, told))
    return found
