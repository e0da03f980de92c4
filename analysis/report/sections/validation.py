"""Where Ettrick was held against published values, theory and other programs."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.plots.charts import Bar, Bars
from analysis.report.model import Column, Grid, Picture, Section
from analysis.validation.cells import HEADS, LABELS, cells_of, conventions, in_words
from analysis.validation.document import against
from sim import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from analysis.report.focus import Focus
    from analysis.report.material import Material

    Content = Mapping[str, Any]

__all__ = ["TWO_SIDED", "bearing", "recorded", "section"]

_ROOT = Path(__file__).resolve().parents[3]
_RECORDS = (_ROOT / "docs/reference/validation.json", _ROOT / "analysis/validation/recorded.json")
"""Where the recorded run of the whole table is: in a checkout, and in an installed copy."""
_NUMBERS = 4
"""Of `HEADS`, those that are numbers."""
_CONVENTIONS = "conventions"
"""Of `HEADS`, that which is told below a table."""
TWO_SIDED = ("relative", "absolute", "printed", "sampling")
"""Kinds of tolerance whose limit is how far off a row may be."""
_LIMIT = (
    "The limit of a row is the tolerance that it states, and what luck may add: a quantile of Student's t times the "
    "standard error over independent replications. All rows with luck in them share one probability of a false alarm."
)


def section(material: Material) -> Section | None:
    """Return the section: the whole table where the results are a validation, or else what bears on the scenario."""
    if material.kind == "validate":
        return _whole(material.main)
    if material.focus is None:
        return None
    content = recorded()
    return _unrecorded() if content is None else _of_scenario(content, bearing(material.focus))


def recorded() -> Content | None:
    """Return the recorded run of the whole table; ``None`` where there is none."""
    path = next((path for path in _RECORDS if path.is_file()), None)
    if path is None:
        return None
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


# ------------------------------------------------------------------------------------------------- whole table


def _whole(content: Content) -> Section:
    """Return all that a validation found."""
    items: list[Picture | Grid] = []
    picture = _distances(content)
    if picture is not None:
        items.append(picture)
    items.append(Grid("Labels", (Column("label", False), Column("meaning", False)), tuple(LABELS.items())))
    for group in content["groups"]:
        items += [_rows(group), _sources(group)]
    if content["not_checked"]:
        heads = (Column("paper", False), Column("what", False), Column("why not", False))
        rows = tuple((entry["paper"], entry["what"], entry["why"]) for entry in content["not_checked"])
        items.append(Grid("Not checked", heads, rows))
    return Section("validation", _verdict(content), (*against(content), *in_words(content), _LIMIT), tuple(items))


def _verdict(content: Content) -> str:
    """Return the verdict on all rows."""
    counts = content["counts"]
    played = counts["pass"] + counts["fail"]
    told = f"{counts['pass']} of {played} comparisons are within their limits"
    return f"{told}, {counts['skipped']} were skipped" if counts["skipped"] else told


def _rows(group: Content) -> Grid:
    """Return the rows of a group with all that the terminal shows, and why some failed or were skipped.

    Conventions are told once, below the table: where rows differ in them, each has the letter of its own.
    """
    has_reasons = any(row["reason"] for row in group["rows"])
    shared = dict.fromkeys(conventions(row["conventions"]) for row in group["rows"])
    letters = dict(zip(shared, string.ascii_letters, strict=False)) if len(shared) > 1 else {}
    shown = [head for head in HEADS if head != _CONVENTIONS or letters]
    heads = [Column("row", False), Column("quantity", False)]
    heads += [Column(head, index < _NUMBERS) for index, head in enumerate(shown)]
    rows = []
    for row in group["rows"]:
        cells = dict(zip(HEADS, cells_of(row), strict=True))
        cells[_CONVENTIONS] = letters.get(cells[_CONVENTIONS], "")
        reason = [row["reason"] or "none"] if has_reasons else []
        rows.append((row["id"], row["quantity"], *(cells[head] for head in shown), *reason))
    if has_reasons:
        heads.append(Column("reason", False))
    told = [f"{letter}: {text or 'none that matter'}" for text, letter in letters.items()]
    told = told or [f"{text}, in all rows" for text in shared if text]
    note = f"Conventions: {'; '.join(told)}." if told else ""
    return Grid(f"{group['title']} ({group['name']})", tuple(heads), tuple(rows), note=note)


def _sources(group: Content) -> Grid:
    """Return what the rows of a group rest on; what several have in common is told once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in group["rows"]:
        tolerance = row["tolerance"]
        key = (
            f"{row['paper']} ({row['provenance']})",
            row["where"],
            row["inputs"],
            f"{tolerance['kind'].replace('_', ' ')}: {tolerance['why']}",
        )
        found.setdefault(key, []).append(row["id"])
    heads = ("paper", "where", "inputs", "tolerance", "rows")
    rows = tuple((*key, ", ".join(names)) for key, names in found.items())
    return Grid(f"What they rest on: {group['title']}", tuple(Column(head, False) for head in heads), rows)


def _distances(content: Content) -> Picture | None:
    """Return how close to their limits the rows of each group are; ``None`` where none has such a limit."""
    found = {group["title"]: sorted(_used(group)) for group in content["groups"]}
    bars = tuple(
        Bar(title, (100 * used[-1], 100 * used[len(used) // 2])) for title, used in found.items() if used
    )  # fmt: skip
    if not bars:
        return None
    total = sum(map(len, found.values()))
    half = sum(value <= 0.5 for used in found.values() for value in used)
    title = f"{half} of {total} comparisons use half of their limit or less"
    table = Grid(
        "Difference over limit by group",
        (Column("group", False), Column("rows"), Column("largest"), Column("median")),
        tuple(
            (title, f"{len(used)}", f"{100 * used[-1]:.0f} %", f"{100 * used[len(used) // 2]:.0f} %")
            for title, used in found.items()
            if used
        ),
        note="Of rows with a limit on both sides; bounds, intervals and models that must miss are in the tables below.",
    )
    return Picture(
        "validation-distances",
        Bars(title, "% of the limit", ("largest", "median"), bars),
        f"Bars of the difference over the limit for {len(bars)} groups of rows. {title}.",
        "At 100 % a row would fail.",
        table,
    )


def _used(group: Content) -> Sequence[float]:
    """Return which shares of their limits rows use that have one on both sides [-]."""
    return [
        abs(row["delta"]) / row["limit"]
        for row in group["rows"]
        if row["tolerance"]["kind"] in TWO_SIDED and row["delta"] is not None and row["limit"]
    ]


# --------------------------------------------------------------------------------------------------- a scenario


def bearing(focus: Focus) -> dict[str, str]:
    """Return the groups of the table that bear on a scenario, each with why."""
    return {group: why for group, (why, applies) in _BEARS.items() if applies(focus)}


def _bundles(*names: str) -> Callable[[Focus], bool]:
    """Return whether a scenario has failures of one of some bundles."""
    return lambda focus: any(getattr(choice, "use", "") in names for choice in focus.scenario.failures)


def _fails(focus: Focus) -> bool:
    return bool(focus.scenario.failures)


def _has_preset(focus: Focus) -> bool:
    recovery: Any = focus.scenario.recovery
    return recovery.use in catalog.recoveries()


def _has_spares(focus: Focus) -> bool:
    return focus.scenario.spares.total > 0


def _has_plan(focus: Focus) -> bool:
    return any(job.plan is not None for job in focus.prepared.jobs)


_BEARS: Mapping[str, tuple[str, Callable[[Focus], bool]]] = {
    "oracle": ("what a job loses to failures", _fails),
    "daly": ("checkpoints and restarts", _fails),
    "inria": ("checkpoints, downtime and recovery", _fails),
    "llama3": ("its failures are those of Llama 3", _bundles("llama3-table5", "component-rates")),
    "meta_rsc": ("its failures are those of RSC", _bundles("meta-rsc-1", "meta-rsc-2")),
    "infinitehbd": ("its failures are those of this trace", _bundles("infinitehbd", "component-rates")),
    "airesim": ("its failures are those of this program", _bundles("airesim-defaults")),
    "spares": ("it has spares", _has_spares),
    "recovery": ("it comes back by a preset", _has_preset),
    "presets": ("it comes back by a preset", _has_preset),
    "steps": ("the model of steps describes its step", _has_plan),
    "sizes": ("sizes of its model and of checkpoints", _has_plan),
    "collectives": ("communication and start of its job", _has_plan),
    "weaker": ("statements about runs like it", _fails),
}
"""By group of the table: why it bears on a scenario, and whether it does."""


def _of_scenario(content: Content, groups: Mapping[str, str]) -> Section:
    """Return how the groups did in the recorded run that bear on the scenario."""
    counts = content["counts"]
    rows, passed, played = [], 0, 0
    for group in content["groups"]:
        if group["name"] not in groups:
            continue
        good, bad, skipped = (
            sum(row["verdict"] == verdict for row in group["rows"]) for verdict in ("pass", "fail", "skipped")
        )
        passed, played = passed + good, played + good + bad
        rows.append((group["title"], groups[group["name"]], f"{good}", f"{bad}", f"{skipped}"))
    heads = (Column("group", False), Column("why it bears on this scenario", False))
    grid = Grid("Groups that bear on this scenario", (*heads, *map(Column, ("pass", "fail", "skipped"))), tuple(rows))
    others = len(content["groups"]) - len(rows)
    words = (
        f"In the last recorded run of the whole table {counts['pass']} of {sum(counts.values())} rows pass. ettrick "
        "validate --out DIR plays them with the program as it is, and ettrick report DIR shows each with its source."
    )
    return Section(
        "validation",
        f"{passed} of {played} comparisons that bear on this scenario are within their limits",
        (words, *against(content)),
        (grid,),
        (
            f"{others} more groups are about something that this scenario does not have.",
            "That a group passes says that the program does what its sources say, not that the inputs of this scenario "
            "are right.",
        ),
    )


def _unrecorded() -> Section:
    """Return what to do where no run of the table came with the program."""
    words = (
        "No recorded run of the validation table comes with this copy of the program. ettrick validate --out DIR plays "
        "it, in a few minutes, and ettrick report DIR shows every row with its source."
    )
    return Section("validation", "How far the program can be trusted: ettrick validate tells it", (words,))
