"""The comparison of Ettrick with published values, theory and other programs."""

from __future__ import annotations

import string
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ettrick.analysis.amounts import COUNT, PERCENT, NumberFormat, listed
from ettrick.analysis.page.charts.data import Bar, Bars
from ettrick.analysis.page.first_screen import first_screen
from ettrick.analysis.page.formats import terminal
from ettrick.analysis.page.model import Column, Figure, Section, grid, joined, table_of
from ettrick.analysis.page.sourced import SourcedNumber, SourceDocument, number, total
from ettrick.analysis.results.documents import ValidateDocument
from ettrick.analysis.validation.run import HEADS, LABELS, against, cells_of, conventions, in_words
from ettrick.sim import catalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ettrick.analysis.page.model import FirstScreen, TableBlock, Words
    from ettrick.analysis.page.report_data import ReplayedScenario, ReportData
    from ettrick.analysis.results.documents import ValidationGroup, ValidationRow

_ROOT = Path(__file__).resolve().parents[3]

# Where the recorded run of the whole table is: in a checkout, and in an installed copy.
_RECORDS = (_ROOT / "docs/reference/validation.json", _ROOT / "analysis/validation/recorded.json")
_NUMBERS = 4  # of `HEADS`, those that are numbers
_CONVENTIONS = "conventions"  # of `HEADS`, that which is stated below a table

# Kinds of tolerance whose limit is how far off a row may be.
TWO_SIDED = ("relative", "absolute", "printed", "sampling")

_LIMIT = (
    "The limit of a row is the tolerance that it states, and what sampling error may add: a quantile of Student's t "
    "times the standard error over independent replications. All of these rows share one probability of a false alarm."
)


def section(report_data: ReportData) -> Section | None:
    """Return the section: the whole table where the results are a validation, or else what bears on the scenario."""
    if report_data.kind == "validate":
        return _whole(report_data.validation)
    if report_data.focus is None:
        return None
    content, focus = recorded(), report_data.focus
    groups = {group: why for group, (why, applies) in _BEARS.items() if applies(focus)}
    return _unrecorded() if content is None else _of_scenario(content, groups)


def recorded() -> ValidateDocument | None:
    """Return the recorded run of the whole table; ``None`` where there is none."""
    path = next((path for path in _RECORDS if path.is_file()), None)
    return None if path is None else ValidateDocument.model_validate_json(path.read_bytes())


def _whole(content: ValidateDocument) -> Section:
    items = [grid("Labels", ("label", "meaning"), tuple(LABELS.items()), (0, 1))]
    for group in content.groups:
        items += [_rows(group), _sources(group)]
    if content.not_checked:
        rows = tuple((entry.paper, entry.what, entry.why) for entry in content.not_checked)
        items.append(grid("Not checked", ("paper", "what", "why not"), rows, range(3)))
    counts = content.counts
    skipped = f", {counts['skipped']} were skipped" if counts["skipped"] else ""
    compared = counts["pass"] + counts["fail"]
    title = f"{counts['pass']} of {compared} comparisons are within their limits{skipped}"
    return Section("validation", title, (*against(content), *in_words(content), _LIMIT), tuple(items))


def _rows(group: ValidationGroup, *, briefly: bool = False) -> TableBlock:
    """Return the rows of a group, and why some failed or were skipped; briefly, without what is compared.

    Conventions are below the table: where rows differ in them, each has the letter of its own.
    """
    shared = dict.fromkeys(conventions(row.conventions) for row in group.rows)
    letters = dict(zip(shared, string.ascii_letters, strict=False)) if len(shared) > 1 else {}

    def column(index: int) -> Column[ValidationRow]:
        """Return one of `HEADS`; conventions have letters."""

        def text(row: ValidationRow) -> str:
            cell = cells_of(row)[index]
            return letters.get(cell, "") if HEADS[index] == _CONVENTIONS else cell

        has_column = HEADS[index] != _CONVENTIONS or bool(letters)
        return Column(HEADS[index], text, has_column, is_number=index < _NUMBERS)

    columns: list[Column[ValidationRow]] = [
        Column("row", lambda row: row.id),
        Column("quantity", lambda row: row.quantity, not briefly, is_number=False),
        *map(column, range(len(HEADS))),
        Column(
            "reason", lambda row: row.reason or "none", not briefly and any(row.reason for row in group.rows),
            is_number=False,
        ),
    ]  # fmt: skip
    texts = [f"{letter}: {text or 'none that matter'}" for text, letter in letters.items()]
    texts = texts or [f"{text}, in all rows" for text in shared if text]
    note = f"Conventions: {'; '.join(texts)}." if texts else ""
    return table_of("" if briefly else f"{group.title} ({group.name})", group.rows, columns, note=note)


def _sources(group: ValidationGroup) -> TableBlock:
    """Return what the rows of a group rest on; what several have in common is stated once."""
    rows_by_source: dict[tuple[str, ...], list[str]] = {}
    for row in group.rows:
        tolerance = row.tolerance
        why = f"{tolerance['kind'].replace('_', ' ')}: {tolerance['why']}"
        key = f"{row.paper} ({row.provenance})", row.where, row.inputs, why
        rows_by_source.setdefault(key, []).append(row.id)
    heads = ("paper", "where", "inputs", "tolerance", "rows")
    rows = tuple((*key, ", ".join(names)) for key, names in rows_by_source.items())
    return grid(f"Sources: {group.title}", heads, rows, range(5))


def _bundles(*names: str) -> Callable[[ReplayedScenario], bool]:
    return lambda focus: any(getattr(choice, "use", "") in names for choice in focus.scenario.failures)


def _has_plan(focus: ReplayedScenario) -> bool:
    return any(job.plan is not None for job in focus.prepared.jobs)


# By group of the table: why it bears on a scenario, and whether it does.
_BEARS: Mapping[str, tuple[str, Callable[[ReplayedScenario], bool]]] = {
    "oracle": ("what a job loses to failures", lambda focus: bool(focus.scenario.failures)),
    "daly": ("checkpoints and restarts", lambda focus: bool(focus.scenario.failures)),
    "inria": ("checkpoints, downtime and recovery", lambda focus: bool(focus.scenario.failures)),
    "llama3": ("its failures are those of Llama 3", _bundles("llama3-table5", "component-rates")),
    "meta_rsc": ("its failures are those of RSC", _bundles("meta-rsc-1", "meta-rsc-2")),
    "infinitehbd": ("its failures are those of this trace", _bundles("infinitehbd", "component-rates")),
    "airesim": ("its failures are those of this program", _bundles("airesim-defaults")),
    "spares": ("it has spares", lambda focus: focus.scenario.spares.total > 0),
    "recovery": ("its recovery is a preset", lambda focus: focus.scenario.recovery.use in catalog.recoveries()),
    "presets": ("its recovery is a preset", lambda focus: focus.scenario.recovery.use in catalog.recoveries()),
    "steps": ("the step model describes its step", _has_plan),
    "sizes": ("sizes of its model and of checkpoints", _has_plan),
    "collectives": ("communication and start of its job", _has_plan),
    "weaker": ("statements about runs like it", lambda focus: bool(focus.scenario.failures)),
}


def _of_scenario(content: ValidateDocument, groups: Mapping[str, str]) -> Section:
    counts = content.counts
    rows, passed, compared = [], 0, 0
    for group in content.groups:
        if group.name not in groups:
            continue
        good, bad, skipped = (
            sum(row.verdict == verdict for row in group.rows) for verdict in ("pass", "fail", "skipped")
        )
        passed, compared = passed + good, compared + good + bad
        rows.append((group.title, groups[group.name], f"{good}", f"{bad}", f"{skipped}"))
    heads = ("group", "why it bears on this scenario", "pass", "fail", "skipped")
    table = grid("Groups that bear on this scenario", heads, rows, (0, 1))
    unrelated = len(content.groups) - len(rows)
    words = (
        f"In the last recorded run of the whole table {counts['pass']} of {sum(counts.values())} rows pass. ettrick "
        "validate --out DIR runs them with the program as it is, and ettrick report DIR shows each with its source."
    )
    return Section(
        "validation",
        f"{passed} of {compared} comparisons that bear on this scenario are within their limits",
        (words, *against(content)),
        (table,),
        (
            f"{unrelated} more groups are about something that this scenario does not have.",
            "That a group passes says that the program does what its sources say, not that the inputs of this scenario "
            "are right.",
        ),
    )


def _unrecorded() -> Section:
    words = (
        "No recorded run of the validation table comes with this copy of the program. ettrick validate --out DIR runs "
        "it, in a few minutes, and ettrick report DIR shows every row with its source."
    )
    return Section("validation", "How far the program can be trusted: see ettrick validate", (words,))


# ----------------------------------------
# The first screen about a validation: whether the simulator agrees with what others found.

_QUESTION = "Does the simulator agree with published measurements, with theory and with other programs?"
_MOST_UNCHECKED = 3

# What rows of each label are; what says most of the simulator comes first.
_KINDS = {
    "emergent": "results that were not put in",
    "calibrated": "values that were put in or follow from an input",
    "sanity": "bounds and orders",
}

_PART = NumberFormat("%", 0.01, 0.0)  # parts of a limit


class _Used(NamedTuple):
    """A row with a limit on both sides: its group, what it is of, and which part of the limit its difference is."""

    group: str
    quantity: str
    part: SourcedNumber


def opening(report_data: ReportData) -> FirstScreen:
    """Return the first screen: how many comparisons are within their limits."""
    places = SourceDocument(report_data.results.file, report_data.validation)
    drivers = (*_failed(places), _closest(places), _read(places), _together(places))
    return first_screen(_QUESTION, _answer(places), (_doubt(places),), _picture(places), drivers, _not_covered(places))


def _compared(places: SourceDocument) -> tuple[SourcedNumber | None, SourcedNumber | None]:
    passed, failed = places.at("counts", "pass"), places.at("counts", "fail")
    return total(part for part in (passed, failed) if part is not None), failed


def _answer(places: SourceDocument) -> Words:
    compared, failed = _compared(places)
    if compared is None or failed is None or compared.value == 0:
        return ("Nothing was compared, so this cannot be stated.",)
    if failed.value == 0:
        used = _used(places)
        kinds = [(_count(places, label=label, verdict="pass"), kind) for label, kind in _KINDS.items()]
        parts: list[Words] = [(number(count, COUNT), f" {kind}") for count, kind in kinds if count.value]
        closest: Words = ("; the closest is at ", number(used[0].part, _PART), " of its limit") if used else ()
        further: Words = ("; so do ", *joined(parts[1:], ", and ")) if parts[1:] else ()
        return ("Yes: all ", *parts[0], " agree within the limits set for them", *further, *closest, ".")
    verb = "is" if failed.value == 1 else "are"
    return ("Not in everything: ", number(failed, COUNT), " of the ", number(compared, COUNT),
            f" values that were compared {verb} outside of the limits set for them.")  # fmt: skip


def _count(places: SourceDocument, **wanted: str) -> SourcedNumber:
    """Return how many rows have certain values, as the document writes them."""
    rows = [row for group in places.get("groups") for row in group.rows]
    amount = sum(all(str(getattr(row, key)).lower() == value for key, value in wanted.items()) for row in rows)
    which = "&".join(f"{key}={value}" for key, value in wanted.items())
    return SourcedNumber(amount, (f"{places.file}#/groups/*/rows/*?{which}",))


def _used(places: SourceDocument) -> list[_Used]:
    """Return which parts of their limits rows use that have one on both sides, the largest first."""
    content: ValidateDocument = places.content
    used_limits = []
    for first, group in enumerate(content.groups):
        for second, row in enumerate(group.rows):
            delta, limit = (places.at("groups", first, "rows", second, key) for key in ("delta", "limit"))
            if row.tolerance["kind"] in TWO_SIDED and delta is not None and limit is not None and limit.value:
                used_limits.append(_Used(group.title, row.quantity, abs(delta) / limit))
    return sorted(used_limits, key=lambda used: -used.part.value)


def _closest(places: SourceDocument) -> Words:
    used = _used(places)
    if not used:
        return ()
    return (f"Closest to its limit is {used[0].quantity} ({used[0].group}), at ", number(used[0].part, _PART),
            " of it, which leaves room for sampling error.")  # fmt: skip


def _read(places: SourceDocument) -> Words:
    """Return how many rows say nothing of the simulator; nothing without such rows."""
    count = _count(places, only_reads="true")
    if not count.value:
        return ()
    return (number(count, COUNT), " of the rows only check that reference data are read as they should be.")


def _doubt(places: SourceDocument) -> Words:
    error = places.at("family_wise_error")
    compared, _ = _compared(places)
    if error is None or compared is None or compared.value == 0 or not places.get("stochastic_rows"):
        return ()
    return ("The limits leave room for sampling error: with a probability of ", number(error, PERCENT),
            " a program without a mistake fails somewhere in the table.")  # fmt: skip


def _failed(places: SourceDocument) -> list[Words]:
    failures: list[Words] = []
    for first, group in enumerate(places.get("groups")):
        for second, row in enumerate(group.rows):
            if row.verdict != "fail":
                continue
            at = ("groups", first, "rows", second)
            ours, theirs = places.at(*at, "ours"), places.at(*at, "published")
            if ours is None:
                failures.append((f"{row.id}: {row.reason}.",))
                continue
            form = NumberFormat(row.unit.strip("-"))
            simulated: Words = ("the simulator has ", number(ours, form))
            published: Words = () if theirs is None else ("; published is ", number(theirs, form))
            failures.append((f"{row.id}: ", *simulated, *published, "."))
    return failures


def _together(places: SourceDocument) -> Words:
    rows = places.at("together", "rows")
    far = "no further" if places.get("together", "holds") else "further"
    end = f" independent values are, taken together, {far} off than sampling error explains."
    return () if rows is None else ("The ", number(rows, COUNT), end)


def _not_covered(places: SourceDocument) -> tuple[Words, ...]:
    gaps: list[Words] = []
    skipped = places.at("counts", "skipped")
    if skipped is not None and skipped.value > 0:
        was = "value was" if skipped.value == 1 else "values were"
        gaps.append((number(skipped, COUNT), f" {was} skipped: not asked for, or without the data that it takes."))
    entries = places.get("not_checked")
    papers = list(dict.fromkeys(entry.paper for entry in entries))
    if papers:
        shown = listed(papers[:_MOST_UNCHECKED]) if len(papers) <= _MOST_UNCHECKED else (
            f"{'; '.join(papers[:_MOST_UNCHECKED])}; and others"
        )  # fmt: skip
        gaps.append((f"Some published values are not compared, for reasons that stand further down: {shown}.",))
    gaps.append(
        ("Agreement with these values does not show that results hold for other clusters, or for other inputs.",)
    )
    return tuple(gaps)


def _picture(places: SourceDocument) -> Figure | None:
    """Return how close to their limits the rows of each group are; ``None`` where none has a limit on both sides."""
    used: dict[str, list[float]] = {}
    for row in _used(places):
        used.setdefault(row.group, []).append(row.part.value)
    if not used:
        return None
    content: ValidateDocument = places.content
    failing = [group.title for group in content.groups if any(row.verdict == "fail" for row in group.rows)]
    least = _PART.plain(max(parts[0] for parts in used.values()))
    title = f"Not everything agrees in: {'; '.join(failing)}" if failing else f"The closest is at {least} of its limit"
    ends = {group: (parts[0], parts[len(parts) // 2]) for group, parts in used.items()}
    bars = tuple(Bar(group, tuple(100 * part for part in parts)) for group, parts in ends.items())
    heads = ("compared with", "rows", "largest", "median")
    rows = [(group, f"{len(used[group])}", *map(_PART.plain, parts)) for group, parts in ends.items()]
    note = "Of rows with a limit on both sides; bounds, intervals and models that must miss are in the tables below."
    return Figure(
        "at-a-glance",
        Bars(title, "% of the limit", ("largest", "median"), bars),
        f"Bars of the difference over the limit, by what was compared with. {title}.",
        "At 100 % a row would fail.",
        grid(title, heads, rows, note=note),
    )


# ----------------------------------------
# What the terminal shows of a validation.

_WHERE = "Quantity, paper and inputs of each row: --json, ettrick report, or the reference (docs/reference/validation)."


def format_validation(content: ValidateDocument, *, width: int | None = None) -> str:
    """Return the document of a validation as text, in so many columns."""
    sections = [Section(group.name, f"{group.name}: {group.title}", (), (_rows(group, briefly=True),),
                        tuple(_failures(group))) for group in content.groups]  # fmt: skip
    if content.not_checked:
        notes = tuple(f"{entry.paper}: {entry.what}: {entry.why}" for entry in content.not_checked)
        sections.append(Section("not-checked", "Not checked", (), (), notes))
    sections.append(Section("verdict", "All rows together", (*in_words(content), _WHERE)))
    return terminal.write(sections, width=width)


def _failures(group: ValidationGroup) -> Iterator[str]:
    for row in group.rows:
        if row.verdict == "fail":
            yield f"{row.id}: {row.reason or 'beyond its limit'} ({row.quantity})"
