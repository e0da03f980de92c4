"""Every value that a scenario rests on, and what that value itself rests on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from analysis.amounts import COUNT, capital, listed, name_of, number_of, percent_text
from analysis.page.charts.data import Part, Stack
from analysis.page.model import Column, Grid, Picture, Section
from analysis.page.report_data import SENSITIVITY
from analysis.page.sourced import number, ranged
from analysis.results.step import unit_text
from sim import catalog, units, yamlfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from analysis.amounts import Form
    from analysis.page.model import Words
    from analysis.page.report_data import ReportData
    from analysis.page.sourced import Estimate, Places, SourcedNumber
    from analysis.results.models import (
        RunDocument,
        Step,
    )
    from analysis.study.axis import Axis
    from sim import Prepared, Scenario
    from sim.yamlfile import Keys

BASES = {
    "measured": "counted or timed on real hardware by the source",
    "published": "printed by the source: a data sheet, a paper, a documentation",
    "assumed": "nobody has measured it: an assumption that is named, or an estimate",
    "preset": "of a recovery preset, whose notes say what each rests on",
    "stated": "written in the scenario, which does not say where it is from",
    "default": "left out of the scenario: what the program takes then",
}

"""What a value rests on, and what that means."""

GROUPS = {
    "Time": ("horizon", "warmup", "initial", "windows", "seed"),
    "Cluster": ("cluster",),
    "Job and step": ("jobs",),
    "Failures": ("failures",),
    "Checkpoints": ("checkpoint",),
    "Detection and recovery": ("detection", "recovery"),
    "Spares, repair and scheduling": ("spares", "repair", "scheduler"),
    "Power and cost": ("power", "cost"),
}

"""Parts of a scenario, and its keys."""

LABELS = ("name", "description", "title", "source", "assumptions")

"""Keys that name and explain: they are no inputs."""

_COUNTED = ("rate", "law", "events", *yamlfile.FILE_KEYS)

"""Values of a failure source that its own source is about."""

_DIMENSIONS = (units.DURATION, units.FRACTION, units.SIZE, units.BANDWIDTH, units.FLOPS, units.POWER)

_QUANTITY = re.compile(rf"({units.NUMBER})\s*([a-zA-Z%]+(?:/s)?)?")

_WORDS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint", "save", "stall", "durable", "restore", "copies", "store"),
    "detection": ("detect",),
    "recovery": ("restart", "recover", "initiali", "requeue"),
    "spares": ("spare",),
    "repair": ("repair",),
    "cost": ("capital", "price", "cost", "usd", "kwh"),
    "power": ("power", "pue"),
}

"""By part of a scenario: words of which an assumption has one that speaks of it."""


class Input(NamedTuple):
    """One value.

    Parameters
    ----------
    path
        Where the scenario has it; a name in words where it comes with something that the scenario names.
    what
        What it says.
    value
        With its unit.
    basis
        What it rests on: a key of `BASES`.
    source
        Who says so, or which assumption.
    """

    path: str
    what: str
    value: str
    basis: str
    source: str = ""


class _Leaf(NamedTuple):
    """A value of a scenario: its place, what its key says, its text, and whether it is what the program would take."""

    keys: Keys
    what: str
    content: Any
    is_default: bool


def stated_inputs(scenario: Scenario, varied: Mapping[str, Input] | None = None) -> list[Input]:
    """Return every value of a scenario once, in order, but for `LABELS`.

    Parameters
    ----------
    scenario
        The scenario.
    varied
        Of paths that a study writes to, what is known of the values there.
    """
    leaves = [leaf for leaf in _leaves(scenario) if leaf.keys[-1] not in LABELS]
    laid = _preset_values(scenario)
    tell = _Telling(scenario, laid, varied or {})
    return [Input(".".join(map(str, leaf.keys)), leaf.what, value_text(leaf), *tell.basis(leaf)) for leaf in leaves]


def group_of(path: str) -> str:
    """Return the part of a scenario that a path belongs to."""
    first = path.partition(".")[0]
    return next((name for name, keys in GROUPS.items() if first in keys), "Time")


def value_text(leaf: _Leaf) -> str:
    """Return the content of a leaf as text; of a file its name."""
    return Path(leaf.content).name if leaf.keys[-1] in yamlfile.FILE_KEYS else _text(leaf.content)


def _leaves(model: BaseModel, before: Keys = ()) -> Iterator[_Leaf]:
    """Yield the values of a model, with all that it holds."""
    content = model.model_dump(mode="json", exclude_none=True)
    for name, field in type(model).model_fields.items():
        if name not in content:
            continue
        held, keys = getattr(model, name), (*before, name)
        if _is_part(held):
            yield from _leaves(held, keys)
        elif isinstance(held, tuple) and held and all(map(_is_part, held)):
            for index, part in enumerate(held):
                yield from _leaves(part, (*keys, index))
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            what = (
                _summary(model) if name == "use" else field.description or f"{name.replace('_', ' ')} of {before[-1]}"
            )
            yield _Leaf(keys, what, content[name], not field.is_required() and _same(default, content[name]))


def _is_part(held: Any) -> bool:
    """Return whether something has values of its own; a law is one value."""
    return isinstance(held, BaseModel) and not hasattr(held, "mean_value")


def _summary(model: BaseModel) -> str:
    """Return what a strategy says of itself, in a line."""
    words = " ".join((type(model).__doc__ or "").strip().split("\n\n")[0].split())
    return words or "A bundle of failures of the catalog."


def _text(content: Any) -> str:
    """Return plain data as people write it."""
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, int):
        return f"{content:,}"
    if isinstance(content, float):
        return f"{content:,.12g}"
    if isinstance(content, dict):
        use = content.get("use")
        parts = [f"{key} {_text(value)}" for key, value in content.items() if key != "use"]
        if use == "fixed":
            return _text(content["value"])
        return ", ".join([*([str(use)] if use else []), *parts]) or "none"
    if isinstance(content, list):
        return ", ".join(map(_text, content)) or "none"
    return str(content) or "none"


def _same(one: Any, other: Any) -> bool:
    """Return whether two contents say the same, whatever units they are written in."""
    if isinstance(one, BaseModel):
        one = one.model_dump(mode="json", exclude_none=True)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(other, dict) and other.get("use") == "fixed":
        return _same(one, other["value"])
    if isinstance(one, str) or isinstance(other, str):
        return one == other or bool(_amounts(one) & _amounts(other))
    return bool(one == other)


def _amounts(content: Any) -> set[tuple[str, float]]:
    """Return what a text may be an amount of, with the amount [SI]."""
    found = set()
    for dimension in _DIMENSIONS:
        try:
            found.add((dimension.name, units.parse(content, dimension)))
        except units.UnitError:
            continue
    return found


class _Telling:
    """Says what the values of a scenario rest on."""

    def __init__(self, scenario: Scenario, laid: Mapping[str, Any], varied: Mapping[str, Input]) -> None:
        self.scenario = scenario
        self.laid = laid
        self.varied = varied
        self.stores = [getattr(tier, "store", "") for tier in getattr(scenario.checkpoint, "tiers", ())]

    def basis(self, leaf: _Leaf) -> tuple[str, str]:
        """Return what a value rests on, and who says so."""
        path = ".".join(map(str, leaf.keys))
        for target, known in self.varied.items():
            if path == target or path.startswith(f"{target}.") or target.startswith(f"{path}."):
                return known.basis, known.source
        if self._is_of_preset(leaf, path):
            name = self.scenario.recovery
            return "preset", f"preset {name.use}: its notes"
        if leaf.is_default:
            return "default", ""
        if leaf.keys[0] == "failures" and len(leaf.keys) > 2:
            found = self._of_failures(leaf)
            if found is not None:
                return found
        assumption = self._assumption(leaf)
        return ("stated", "") if assumption is None else ("assumed", assumption)

    def _is_of_preset(self, leaf: _Leaf, path: str) -> bool:
        """Return whether the preset of the scenario has brought a value."""
        if leaf.keys[:2] == ("checkpoint", "tiers") and len(leaf.keys) > 3:
            path = ".".join(("checkpoint", self.stores[int(leaf.keys[2])], *map(str, leaf.keys[3:])))
        return path in self.laid and _same(self.laid[path], leaf.content)

    def _of_failures(self, leaf: _Leaf) -> tuple[str, str] | None:
        """Return what a value of a failure source rests on; ``None`` where the source does not say."""
        entry = self.scenario.failures[int(leaf.keys[1])]
        if leaf.keys[2] == "use" and entry.use in catalog.bundles():
            return bundle_basis(entry.use)
        source = getattr(entry, "source", "")
        if not source or leaf.keys[2] not in _COUNTED:
            return None
        return ("measured" if getattr(entry, "events", None) else "published"), source

    def _assumption(self, leaf: _Leaf) -> str | None:
        """Return the assumption of the scenario that speaks of a value: of its part, and with the same amount."""
        words = _WORDS.get(str(leaf.keys[0]), ())
        own = _all_amounts(_text(leaf.content))
        # A law may have more numbers than the assumption names; its times have to be the same.
        own = {amount for amount in own if amount[0]} or own
        for text in self.scenario.assumptions:
            lower = text.lower()
            if own and any(word in lower for word in words) and own <= _all_amounts(text):
                return text
        return None


def bundle_basis(name: str) -> tuple[str, str]:
    """Return what a failure bundle of the catalog rests on, and who says so."""
    content = catalog.bundle(name)
    basis = "measured" if "jobs" in content else "assumed"
    return basis, f"{content['title']} ({content['source']})"


def _all_amounts(text: str) -> set[tuple[str, float]]:
    """Return the amounts in a text: those with units [SI], and plain numbers."""
    found: set[tuple[str, float]] = set()
    for amount, unit in _QUANTITY.findall(text.replace(",", "")):
        known = _amounts(f"{amount} {unit}") if unit else set()
        found |= {(name, round(value, 9)) for name, value in known} or {("", float(amount))}
    return found


def _preset_values(scenario: Scenario) -> dict[str, Any]:
    """Return the values that the preset of a scenario lays into it, by path; stores by their names."""
    recovery = scenario.recovery
    if recovery.use not in catalog.recoveries():
        return {}
    content = catalog.recovery(recovery.use)
    found = dict(_flat({key: content[key] for key in ("recovery", "detection") if key in content}))
    for tier in content.get("checkpoint", {}).get("tiers", ()):
        found |= {f"checkpoint.{tier['store']}.{path}": value for path, value in _flat(tier)}
    return found


def _flat(content: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of plain data by path; laws, and lists of plain values, are values."""
    for key, value in content.items():
        path = f"{before}{key}"
        if isinstance(value, dict):
            yield path, value
            yield from _flat(value, f"{path}.")
        elif isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
            for index, part in enumerate(value):
                yield from _flat(part, f"{path}.{index}.")
        else:
            yield path, value


# ----------------------------------------
# What a scenario takes from the catalog by name: rates, data sheets, models, presets, each with its source.

_UNITS = {"gpu": "GPU"}

_OF_NOTES = {
    "P": ("published", "read in the source"),
    "S": ("published", "quoted by others"),
    "D": ("published", "derived from published figures"),
    "A": ("assumed", "assumed"),
}

"""By mark of a preset's note: what it rests on."""


def catalog_inputs(prepared: Prepared, document: RunDocument) -> list[tuple[str, Input]]:
    """Return the values that come with the names in a scenario, each with the part of the scenario that it belongs to.

    Parameters
    ----------
    prepared
        The scenario.
    document
        Its document, as of a run.
    """
    return [
        *(("Job and step", found) for found in _job(prepared, document)),
        *(("Failures", found) for found in _failures(prepared)),
        *(("Detection and recovery", found) for found in _preset(prepared)),
        *(("Power and cost", found) for found in _power(document)),
    ]


def _job(prepared: Prepared, document: RunDocument) -> Iterator[Input]:
    """Yield the accelerator, the model and the step of the first job."""
    plan = prepared.jobs[0].plan
    if plan is not None:
        chip, shape, precision = plan.machine.chip, plan.work.shape, plan.work.precision
        source = f"{chip.source}{'; announced, not on sale' if chip.announced else ''}"
        for what, value in (
            (f"dense peak at {precision}", unit_text(chip.peak[precision], "FLOP/s")),
            ("memory", unit_text(chip.memory, "B")),
            ("memory bandwidth", unit_text(chip.memory_bandwidth, "B/s")),
            ("scale-up bandwidth, one direction", unit_text(chip.scale_up, "B/s")),
        ):
            yield Input(chip.title, what, value, "published", source)
        yield Input(shape.title, "parameters", f"{shape.parameters / 1e9:,.4g} billion", "published", shape.source)
    step = document.step
    if step.time_s is not None:
        yield Input("step", "time of a healthy step", unit_text(step.time_s, "s"), *_basis_of_step(step))


def _basis_of_step(step: Step) -> tuple[str, str]:
    """Return what the time of a step rests on, and who says so."""
    if step.stated:
        return "stated", f"follows from {step.stated} of the scenario"
    if step.basis == "calibrated":
        return "measured", "the model of steps, scaled by the measured step that the scenario states"
    if step.basis == "fitted":
        return "measured", "the model of steps, with efficiencies that are fitted to measured steps"
    return "assumed", f"the model of steps; efficiencies: {step.basis}"


def _failures(prepared: Prepared) -> Iterator[Input]:
    """Yield the causes of the failure bundles."""
    names: list[Any] = [choice.use for choice in prepared.scenario.failures]
    for name in dict.fromkeys(name for name in names if name in catalog.bundles()):
        content = catalog.bundle(name)
        basis, source = bundle_basis(name)[0], content["source"]
        exposure = content.get("exposure", {})
        for cause in content.get("causes", ()):
            per = cause["per"]
            told = f"{cause['count']} in {exposure[f'{per}-day']:,} {_UNITS.get(per, per)}-days"
            yield Input(name, cause["title"], told, basis, source)
        for cause in content.get("sources", ()):
            told = str(cause.get("rate", "as the bundle says"))
            yield Input(name, cause.get("title", cause["name"]).replace("_", " "), told, basis, cause["source"])


def _preset(prepared: Prepared) -> Iterator[Input]:
    """Yield the notes of the recovery preset, each of which says what some of its numbers rest on."""
    recovery = prepared.recovery
    if recovery.use not in catalog.recoveries():
        return
    content = catalog.recovery(recovery.use)
    for note in content["notes"]:
        marks, _, text = note.partition(": ")
        kinds = [_OF_NOTES[mark.strip()] for mark in marks.split(",")]
        # Of several kinds the weakest counts.
        basis = "assumed" if any(kind == "assumed" for kind, _ in kinds) else "published"
        how = ", ".join(words for _, words in kinds)
        yield Input(recovery.use, " ".join(text.split()), "see the note", basis, f"{content['source']}: {how}")


def _power(document: RunDocument) -> Iterator[Input]:
    """Yield what a node draws, and what else the energy rests on."""
    energy = document.energy
    if energy is None or energy.node is None:
        return
    node = energy.node
    basis = "measured" if node.measured else "assumed"
    for what, watts in (("a node without work", node.idle_w), ("a node in training", node.training_w)):
        yield Input("node", f"power of {what}", units.show(round(watts, 3), units.POWER), basis, node.source)
    for line in energy.assumptions:
        what, _, why = line.partition(" (")
        name, _, value = what.partition(": ")
        yield Input("energy", name, value, "assumed", why.removesuffix(")") or "the usual value, or the scenario's")


# ----------------------------------------
# Every input, its value and where it comes from.

_HEADS = (
    Column("input", False),
    Column("what it says", False),
    Column("value", False),
    Column("basis", False),
    Column("source", False),
)

_NOT_STATED = "not stated"

_CHOICE = "a choice"

_MOST_PATHS = 3


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    focus = report_data.focus
    if focus is None:
        return None
    found = all_inputs(report_data)
    told = [(group, one) for group, one in found if one.basis != "default"]
    defaults = [one for _, one in found if one.basis == "default"]
    tables = []
    for group in GROUPS:
        rows = [one for name, one in told if name == group]
        if rows:
            tables.append(Grid(group, _HEADS, tuple(map(_row, rows))))
    if defaults:
        tables.append(_defaults(defaults))
    meaning = Grid("What the bases mean", (Column("basis", False), Column("meaning", False)), tuple(BASES.items()))
    axes = _axes(report_data)
    return Section(
        "inputs",
        f"{number_of(len(told), 'input')} with their values, and what each rests on",
        (_words(report_data, told, defaults),),
        (*([axes] if axes is not None else []), *tables, meaning),
        ("Names, titles, descriptions and sources are no inputs. An assumption counts as the source of a value if it "
         "speaks of the same part of the scenario and names the same amount.",),
    )  # fmt: skip


def all_inputs(report_data: ReportData) -> list[tuple[str, Input]]:
    """Return all values that the scenario in focus rests on, each with the part of the scenario that it belongs to."""
    focus = report_data.focus
    assert focus is not None
    stated = stated_inputs(focus.scenario, _varied(report_data))
    return [*((group_of(one.path), one) for one in stated), *catalog_inputs(focus.prepared, focus.document)]


def axis_basis(axis: Axis) -> str:
    """Return what the values of an axis rest on: as it says; without that whether they are chosen, or unknown."""
    return axis.basis or (_NOT_STATED if axis.is_uncertain else _CHOICE)


def _words(report_data: ReportData, told: Sequence[tuple[str, Input]], defaults: Sequence[Input]) -> str:
    """Return how many values are left out, and where nothing else tells it, how many there are of each kind."""
    parts = ""
    if report_data.of(SENSITIVITY) is not None:
        counts = {basis: sum(one.basis == basis for _, one in told) for basis in BASES}
        parts = f"Of the inputs {', '.join(f'{count} {basis}' for basis, count in counts.items() if count)}. "
    whose = f" The scenario is {report_data.focus.name}." if report_data.focus is not None else ""
    return f"{parts}{number_of(len(defaults), 'more input')} left at what the program takes.{whose}"


def _row(one: Input) -> tuple[str, ...]:
    return one.path, one.what, one.value, one.basis, one.source or "the scenario itself"


def _defaults(found: Sequence[Input]) -> Grid:
    """Return what the scenario leaves out; the same of several parts, such as phases of a recovery, is told once."""
    seen: dict[tuple[str, str, str], int] = {}
    for one in found:
        key = re.sub(r"\.\d+(?=\.|$)", ".*", one.path), one.what, one.value
        seen[key] = seen.get(key, 0) + 1
    rows = [(path, what, value, f"{count}") for (path, what, value), count in seen.items()]
    heads = (Column("input", False), Column("what it says", False), Column("value", False), Column("times"))
    return Grid("Left at what the program takes", heads, tuple(rows))


def _varied(report_data: ReportData) -> dict[str, Input]:
    """Return of each path that an axis writes to what is known of its values."""
    if report_data.study is None:
        return {}
    found = {}
    for name, axis in report_data.study.study.vary.items():
        basis = axis.basis or ("assumed" if axis.is_uncertain else "stated")
        source = axis.source or f"{'not known' if axis.is_uncertain else 'chosen'}, by the axis: {axis.title or name}"
        for path in axis.targets(name):
            found[path] = Input(path, "", "", basis, source)
    return found


def _axes(report_data: ReportData) -> Grid | None:
    """Return what a study varies; ``None`` without a study."""
    if report_data.study is None:
        return None
    rows = []
    for name, axis in report_data.study.study.vary.items():
        paths = axis.targets(name)
        told = ", ".join(paths[:_MOST_PATHS])
        told += f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        rows.append(
            (axis.title or name, told, _values(axis, name), axis_basis(axis), axis.source or "the study itself")
        )
    heads = (Column("axis", False), Column("sets", False), Column("values", False), *_HEADS[3:])
    return Grid("What the study varies", heads, tuple(rows))


def _values(axis: Axis, name: str) -> str:
    """Return the values of an axis, or the distribution of an input that is not known."""
    if axis.distribution is not None:
        told: Mapping[str, Any] = axis.distribution.model_dump(mode="json", exclude_defaults=True)
        law = axis.distribution.law
        return _LAWS.get(law, law).format(**{"law": law, **axis.distribution.model_dump(mode="json"), **told})
    if axis.range is not None and not (axis.range.points or axis.range.step):
        return f"{axis.range.min} to {axis.range.max}"
    return ", ".join(value.label for value in axis.values(name))


_LAWS = {
    "uniform": "anything from {min} to {max}, all equally likely",
    "loguniform": "anything from {min} to {max}, all orders of magnitude equally likely",
    "triangular": "{min} to {max}, most likely {mode}",
    "lognormal": "log-normal, median {median}, sigma {sigma:g}",
    "between": "log-normal, between {p05} and {p95} with 90 %",
    "counted": "{factor:g}, as well known as {events} counted events allow",
}

"""Distributions in words, by law."""


# ----------------------------------------
# What the answer rests on: measured, published or assumed inputs.

_HUES = {"measured": 0, "published": 1, "assumed": 2, "not stated": 3, "a choice": 4}

"""Hue of each basis of an axis, in the order in which they are shown."""

_NAMES = {
    "measured": "measured inputs",
    "published": "published inputs",
    "assumed": "assumed inputs",
    "not stated": "inputs without a stated basis",
    "a choice": "what the study chooses",
}

_TOGETHER, _LUCK, _BOTH = "inputs only together", "luck of one run", "luck together with inputs"

_SUMS = (
    "Each input counts with what it does alone, whatever the others are (its first-order index), and these shares add "
    "up. What inputs do only together belongs to none of them, and stands by itself."
)

_OF_INPUTS = {**_HUES, "preset": 3, "stated": 4}

_SAYS = {
    "measured": "measured",
    "published": "published",
    "assumed": "assumed",
    "preset": "of a preset",
    "stated": "stated without a source",
}


def basis_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    if report_data.focus is None:
        return None
    content = report_data.of(SENSITIVITY)
    shares = None if content is None else _shares(report_data, content)
    return _of_counts(report_data) if content is None or shares is None else _of_variance(report_data, content, shares)


def _shares(report_data: ReportData, content: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the shares of the variance of a run by what they come from [-]; ``None`` where they are not known."""
    indices = content["indices"]
    if indices is None or report_data.study is None or not indices["by_axis"]:
        return None
    parts = {name: part["share"] for name, part in indices["variance"].items()}
    if None in parts.values():
        return None
    inputs = parts["parameters"]["value"]
    found: dict[str, float] = {}
    for row in indices["by_axis"]:
        basis = axis_basis(report_data.study.study.vary[row["axis"]])
        found[basis] = found.get(basis, 0.0) + row["first"]["value"]
    # Estimates may add up to more than everything; then nothing is left for what they do together.
    scale = inputs / max(sum(found.values()), 1.0)
    known = {_NAMES[basis]: scale * found[basis] for basis in _HUES if basis in found}
    known[_TOGETHER] = inputs - sum(known.values())
    return known | {_LUCK: parts["luck"]["value"], _BOTH: parts["both"]["value"]}


def _of_variance(report_data: ReportData, content: Mapping[str, Any], shares: Mapping[str, float]) -> Section:
    """Return what the variance of a run comes from."""
    assert report_data.study is not None
    metric = name_of(content["metric"])
    title = _told(metric, shares)
    hues = {_NAMES[basis]: hue for basis, hue in _HUES.items()}
    parts = tuple(Part(name, 100 * share, hues.get(name, -1)) for name, share in shares.items())
    rows = tuple((name, _percent(share)) for name, share in shares.items())
    picture = Picture(
        "what-the-answer-rests-on",
        Stack(title, "%", parts),
        f"A bar of what the variance of {metric} comes from: {', '.join(f'{name} {text}' for name, text in rows)}.",
        _SUMS,
        Grid("Where the variance comes from", (Column("part", False), Column("share of the variance")), rows),
    )
    notes = (
        f"From {len(content['indices']['by_axis']) + 2} sets of {content['indices']['rows']} points of the inputs; the "
        "intervals of single inputs are in the table.",
        "Only what the study varies is in it: what every point has in common moves nothing here, however little is "
        "known of it.",
    )
    return Section("basis", title, (), (picture, _by_axis(report_data, content)), notes)


def _told(metric: str, shares: Mapping[str, float]) -> str:
    """Return what the largest part is, and what measured and assumed inputs have."""
    assumed, measured = shares.get(_NAMES["assumed"]), shares.get(_NAMES["measured"])
    if assumed is None and measured is None:
        largest = max(shares, key=lambda name: shares[name])
        return f"{_percent(shares[largest])} of the variance of {metric} comes from {largest}"
    told = [
        f"{basis} inputs alone bring {_percent(share)}"
        for basis, share in (("assumed", assumed), ("measured", measured))
        if share is not None
    ]
    return f"{capital(' and '.join(told))} of the variance of {metric}"


def _by_axis(report_data: ReportData, content: Mapping[str, Any]) -> Grid:
    """Return what each input brings, with what it rests on."""
    assert report_data.study is not None
    vary, rows = report_data.study.study.vary, []
    for row in content["indices"]["by_axis"]:
        axis = vary[row["axis"]]
        name, first, total = axis.title or row["axis"], _ranged(row["first"]), _ranged(row["total"])
        rows.append((name, axis_basis(axis), first, total, axis.source or "the study itself"))
    heads = (Column("input", False), Column("basis", False), Column("alone"), Column("with all others"))
    return Grid(
        "What each input brings of the variance between means",
        (*heads, Column("source", False)),
        tuple(rows),
        note="In % of the variance that comes from inputs, with 95 % intervals. What inputs bring with all others "
        "counts some of it several times, so that this column adds up to more than everything.",
    )


def _ranged(estimate: Mapping[str, Any]) -> str:
    """Return an estimate with its interval."""
    ends = estimate["ci95"]
    told = _percent(estimate["value"])
    return told if ends is None or None in ends else f"{told} [{_percent(ends[0])}, {_percent(ends[1])}]"


def _of_counts(report_data: ReportData) -> Section:
    """Return how many inputs are of each kind, and how to know which of them matter."""
    counts: dict[str, int] = {}
    for _, one in all_inputs(report_data):
        counts[one.basis] = counts.get(one.basis, 0) + 1
    known = [(basis, words, counts[basis]) for basis, words in _SAYS.items() if counts.get(basis)]
    total = sum(count for _, _, count in known)
    parts = listed([f"{count} {words}" for _, words, count in known])
    verb = " is " if known and known[0][2] == 1 else " are "
    title = f"Of {number_of(total, 'input')} {parts.replace(' ', verb, 1)}; their number does not tell which matter"
    rows = tuple((words, f"{count}") for _, words, count in known)
    picture = Picture(
        "what-the-inputs-rest-on",
        Stack(title, "inputs", tuple(Part(words, float(count), _OF_INPUTS[basis]) for basis, words, count in known)),
        f"A bar of {total} inputs by what they rest on: {', '.join(f'{count} {words}' for words, count in rows)}.",
        "Every input counts once, whether it matters or not. What is left at what the program takes is not counted.",
        Grid("Inputs by what they rest on", (Column("basis", False), Column("inputs")), rows),
    )
    return Section("basis", title, (_how(report_data),), (picture,), _missing(report_data))


def _how(report_data: ReportData) -> str:
    """Return how to know what the variance comes from."""
    if report_data.study is not None and any(axis.is_uncertain for axis in report_data.study.study.vary.values()):
        return (
            "How much of the uncertainty comes from measured, published and assumed inputs is not in these results. "
            "ettrick sensitivity DIR/study.resolved.yaml --out DIR adds it, where DIR is the folder of these results."
        )
    return (
        "How much of the uncertainty comes from measured, published and assumed inputs cannot be told: every input has "
        "one value here. A study whose axes have a distribution, with a basis and a source each, and ettrick "
        "sensitivity tell it."
    )


def _missing(report_data: ReportData) -> tuple[str, ...]:
    """Return why there are no shares of the variance though they were asked for."""
    content = report_data.of(SENSITIVITY)
    if content is None:
        return ()
    reason = content["indices_missing"] if content["indices"] is None else content["indices"]["reason"]
    return (f"No shares of the variance: {reason}.",) if reason else ()


def _percent(share: float) -> str:
    """Return a share to two digits; of what is next to nothing, that it is."""
    return percent_text(share, 0 if share >= 0.095 or share == 0 else 1)


# ----------------------------------------
# How sure an answer is, in sentences: three doubts that are never merged.
#
# Chance is what a mean over some runs leaves open, luck how far single runs lie apart, and what is not known exactly
# are
# inputs that rest on a few observations or on guesses (docs/explanation/uncertainty.md).

_STATED = "This holds at exactly the stated {}; how well those are known is not in it."

EXACTLY = _STATED.format("failure rates and times")

"""For what rests on no unknown inputs."""

PRICED = _STATED.format("failure rates, times and prices")

"""The same where money is spoken of."""

RECORDED = "This holds for exactly the recorded failures and the stated times; another period has other failures."

"""For a log that is replayed."""

MODEL = (
    "Failures of kinds that are not described are not in it, nor is that the simulator itself may be wrong: "
    "ettrick validate holds it against published measurements."
)

"""What no result covers."""

_MOST_NOTES, _MOST_ASSUMPTIONS = 2, 3

_OWN_DETECTION = re.compile(r"recovery '(.+)' brings observers; the scenario's own detection is used instead")

"""The warning that a recovery does not detect failures in its own way."""


def stated(scenario: Scenario | None, *, priced: bool = False) -> str:
    """Return at what exactly something holds: at stated rates, with prices if money is told, or for a recorded log."""
    if scenario is not None and any(source.use == "replay" for source in scenario.failures):
        return RECORDED
    return PRICED if priced else EXACTLY


def not_known(places: Places, *summary: str | int, form: Form, what: str, otherwise: str = EXACTLY) -> Words:
    """Return how far what is not known exactly moves a value; or that it holds at exactly what is stated.

    Parameters
    ----------
    places
        The document.
    summary
        Keys of a summary, which may have a ``band90``.
    form
        How the value is told.
    what
        What the value is, as the subject of a sentence.
    otherwise
        What is said where all is known exactly.
    """
    band = places.ends(*summary, "band90")
    if band is None:
        return (otherwise,)
    start = "Some inputs are not known exactly: over what they may be, "
    return (start, what, " is ", *ranged(*band, form), " in nine cases of ten.")


def chance(runs: SourcedNumber | None, found: Estimate | None) -> Words:
    """Return what the range beside a mean is, or why there is none."""
    if runs is None or found is None:
        return ()
    if runs.value == 1:
        return ("It comes from a single simulated run: its sampling error is not known.",)
    if found.interval is None:
        return ("All ", number(runs, COUNT), " simulated runs come to the same, so that no range stands beside it.")
    return (
        "The range beside a mean is its 95 % confidence interval from ",
        number(runs, COUNT),
        " simulated runs.",
    )


def luck(places: Places, *summary: str | int, form: Form) -> Words:
    """Return how far single runs lie apart, which no knowledge makes less; nothing where there are too few to tell."""
    low, high = places.at(*summary, "p05"), places.at(*summary, "p95")
    if low is None or high is None or low.value == high.value:
        return ()
    return ("Run-to-run variability: nine of ten single runs come to ", *ranged(low, high, form), ".")


def more_runs(needed: SourcedNumber | None) -> Words:
    """Return how many runs in all would tell what is not resolved; ``None`` stands for more than ten thousand."""
    if needed is None:
        return ("not even ten thousand simulated runs would tell",)
    return ("about ", number(needed, COUNT), " simulated runs would tell")


def not_covered(notes: Iterable[str], warnings: Iterable[str], assumptions: Iterable[str]) -> tuple[Words, ...]:
    """Return what an answer does not cover: in the words of the results, and what no result covers.

    What belongs to these numbers comes first; of assumptions the shortest, because all of them stand further down.
    Warnings come behind both: they are written for who wrote the scenario.
    """
    noted, warned = list(dict.fromkeys(notes))[:_MOST_NOTES], _plainly(warnings)[:_MOST_NOTES]
    taken = sorted(dict.fromkeys(assumptions), key=len)
    found = [(f"{capital(text)}.",) for text in noted]
    found += [(f"Assumed: {text}.",) for text in taken[:_MOST_ASSUMPTIONS]]
    if len(taken) > _MOST_ASSUMPTIONS:
        found.append(("More is assumed; all of it is listed with its source further down.",))
    found += [(f"{capital(text)}.",) for text in warned]
    return (*found, (MODEL,))


def _plainly(warnings: Iterable[str]) -> list[str]:
    """Return warnings for who did not write the scenario: what several recoveries have in common is told once."""
    known = list(dict.fromkeys(warnings))
    unseen = [match[1] for text in known if (match := _OWN_DETECTION.fullmatch(text))]
    others = [text for text in known if not _OWN_DETECTION.fullmatch(text)]
    if not unseen:
        return others
    return [f"failures are detected as the scenario says, not in the own way of {listed(unseen)}", *others]
