"""Every value that a scenario rests on, and what that value itself rests on."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from ettrick.analysis.amounts import between, capital, listed, name_of, number_of, percent_text
from ettrick.analysis.page.model import Section, grid
from ettrick.analysis.page.sourced import SENSITIVITY
from ettrick.analysis.results.run import unit_text
from ettrick.sim import catalog, units, yamlfile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.analysis.page.model import TableBlock
    from ettrick.analysis.page.report_data import ReportData
    from ettrick.analysis.results.models import RunDocument, StepSummary
    from ettrick.analysis.study.axis import Axis
    from ettrick.sim import Prepared, Scenario
    from ettrick.sim.yamlfile import Keys

# What a value rests on, and what that means.
BASES = {
    "measured": "counted or timed on real hardware by the source",
    "published": "printed by the source: a data sheet, a paper, a documentation",
    "assumed": "nobody has measured it: an assumption that is named, or an estimate",
    "preset": "of a recovery preset, whose notes say what each rests on",
    "stated": "written in the scenario, which does not say where it is from",
    "default": "left out of the scenario: what the program takes then",
}

# Parts of a scenario, and its keys.
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

LABELS = ("name", "description", "title", "source", "assumptions")  # keys that name and explain: they are no inputs
_COUNTED = ("rate", "law", "events", *yamlfile.FILE_KEYS)  # values of a failure source that its own source is about
_DIMENSIONS = (units.DURATION, units.FRACTION, units.SIZE, units.BANDWIDTH, units.FLOPS, units.POWER)
_QUANTITY = re.compile(rf"({units.NUMBER})\s*([a-zA-Z%]+(?:/s)?)?")

# By part of a scenario: words of which an assumption has one that speaks of it.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("checkpoint", "save", "stall", "durable", "restore", "copies", "store"),
    "detection": ("detect",),
    "recovery": ("restart", "recover", "initiali", "requeue"),
    "spares": ("spare",),
    "repair": ("repair",),
    "cost": ("capital", "price", "cost", "usd", "kwh"),
    "power": ("power", "pue"),
}


class InputValue(NamedTuple):
    """A number of the scenario in words, with its basis and its source."""

    path: str  # where the scenario has it; a name in words where it comes with something that the scenario names
    what: str  # what it says
    value: str  # with its unit
    basis: str  # what it rests on: a key of `BASES`
    source: str = ""  # who says so, or which assumption


class _Leaf(NamedTuple):
    """A value of a scenario: its place, what its key says, its text, and whether it is what the program would take."""

    keys: Keys
    what: str
    content: Any
    is_default: bool


def stated_inputs(scenario: Scenario, varied: Mapping[str, InputValue] | None = None) -> list[InputValue]:
    """Return every value of a scenario once but for `LABELS`; what a study varies is known by path."""
    bases, inputs = _Bases(scenario, _preset_values(scenario), varied or {}), []
    for leaf in _leaves(scenario):
        if leaf.keys[-1] not in LABELS:
            is_file = leaf.keys[-1] in yamlfile.FILE_KEYS
            text = Path(leaf.content).name if is_file else _text(leaf.content)
            inputs.append(InputValue(".".join(map(str, leaf.keys)), leaf.what, text, *bases.of(leaf)))
    return inputs


def _leaves(model: BaseModel, before: Keys = ()) -> Iterator[_Leaf]:
    whole = getattr(model, "dump", None)
    content = whole() if callable(whole) else model.model_dump(mode="json", exclude_none=True)
    for name, field in type(model).model_fields.items():
        if name not in content:
            continue
        value, keys = getattr(model, name), (*before, name)
        if _is_part(value):
            yield from _leaves(value, keys)
        elif isinstance(value, tuple) and value and all(map(_is_part, value)):
            for index, part in enumerate(value):
                yield from _leaves(part, (*keys, index))
        else:
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            what = field.description or f"{name.replace('_', ' ')} of {before[-1]}"
            if name == "use":  # what a strategy says of itself
                what = " ".join((type(model).__doc__ or "").strip().split("\n\n")[0].split())
                what = what or "A bundle of failures of the catalog."
            yield _Leaf(keys, what, content[name], not field.is_required() and _same(default, content[name]))


def _is_part(value: Any) -> bool:
    """Return whether something has values of its own; a law is one value."""
    return isinstance(value, BaseModel) and not hasattr(value, "mean_value")


def _text(content: Any) -> str:
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


def _same(first: Any, second: Any) -> bool:
    """Return whether two contents say the same, whatever units they are written in."""
    if isinstance(first, BaseModel):
        first = first.model_dump(mode="json", exclude_none=True)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(second, dict) and second.get("use") == "fixed":
        return _same(first, second["value"])
    if isinstance(first, str) or isinstance(second, str):
        return first == second or bool(_amounts(first) & _amounts(second))
    return bool(first == second)


def _amounts(content: Any) -> set[tuple[str, float]]:
    amounts = set()
    for dimension in _DIMENSIONS:
        try:
            amounts.add((dimension.name, units.parse(content, dimension)))
        except units.UnitError:
            continue
    return amounts


@dataclass(frozen=True)
class _Bases:
    """Says what the values of a scenario rest on: by what its preset lays into it, and by what a study varies."""

    scenario: Scenario
    preset: Mapping[str, Any]
    varied: Mapping[str, InputValue]

    def of(self, leaf: _Leaf) -> tuple[str, str]:
        """Return what a value rests on, and who says so."""
        path = ".".join(map(str, leaf.keys))
        for target, varied in self.varied.items():
            if path == target or path.startswith(f"{target}.") or target.startswith(f"{path}."):
                return varied.basis, varied.source
        in_preset = path
        if leaf.keys[:2] == ("checkpoint", "tiers") and len(leaf.keys) > 3:  # a preset names its stores
            store = getattr(getattr(self.scenario.checkpoint, "tiers", ())[int(leaf.keys[2])], "store", "")
            in_preset = ".".join(("checkpoint", store, *map(str, leaf.keys[3:])))
        if in_preset in self.preset and _same(self.preset[in_preset], leaf.content):
            return "preset", f"preset {self.scenario.recovery.use}: its notes"
        if leaf.is_default:
            return "default", ""
        stated_by = self._failure_source(leaf)
        if stated_by is not None:
            return stated_by
        assumption = self._assumption(leaf)
        return ("stated", "") if assumption is None else ("assumed", assumption)

    def _failure_source(self, leaf: _Leaf) -> tuple[str, str] | None:
        """Return what a bundle of failures, or the source of a cause, says of its values; ``None`` of all else."""
        if leaf.keys[0] != "failures" or len(leaf.keys) <= 2:
            return None
        entry = self.scenario.failures[int(leaf.keys[1])]
        if leaf.keys[2] == "use" and entry.use in catalog.bundles():
            return bundle_basis(entry.use)
        if leaf.keys[2] in _COUNTED and (source := getattr(entry, "source", "")):
            return ("measured" if getattr(entry, "events", None) else "published"), source
        return None

    def _assumption(self, leaf: _Leaf) -> str | None:
        """Return the assumption of the scenario that speaks of a value: of its part, and with the same amount."""
        words = _WORDS.get(str(leaf.keys[0]), ())
        amounts = _all_amounts(_text(leaf.content))
        # A law may have more numbers than the assumption names; its times have to be the same.
        amounts = {amount for amount in amounts if amount[0]} or amounts
        for text in self.scenario.assumptions:
            if amounts and any(word in text.lower() for word in words) and amounts <= _all_amounts(text):
                return text
        return None


def bundle_basis(name: str) -> tuple[str, str]:
    """Return what a failure bundle of the catalog rests on, and who says so."""
    content = catalog.bundle(name)
    basis = "measured" if "jobs" in content else "assumed"
    return basis, f"{content['title']} ({content['source']})"


def _all_amounts(text: str) -> set[tuple[str, float]]:
    """Return the amounts in a text: those with units [SI], and plain numbers."""
    amounts: set[tuple[str, float]] = set()
    for amount, unit in _QUANTITY.findall(text.replace(",", "")):
        parsed = _amounts(f"{amount} {unit}") if unit else set()
        amounts |= {(name, round(value, 9)) for name, value in parsed} or {("", float(amount))}
    return amounts


def _preset_values(scenario: Scenario) -> dict[str, Any]:
    """Return the values that the preset of a scenario lays into it, by path; stores by their names."""
    recovery = scenario.recovery
    if recovery.use not in catalog.recoveries():
        return {}
    content = catalog.recovery(recovery.use)
    values = dict(_flat({key: content[key] for key in ("recovery", "detection") if key in content}))
    for tier in content.get("checkpoint", {}).get("tiers", ()):
        values |= {f"checkpoint.{tier['store']}.{path}": value for path, value in _flat(tier)}
    return values


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

# By mark of a preset's note: what it rests on.
_OF_NOTES = {
    "P": ("published", "read in the source"),
    "S": ("published", "quoted by others"),
    "D": ("published", "derived from published figures"),
    "A": ("assumed", "assumed"),
}


def _job(prepared: Prepared, document: RunDocument) -> Iterator[InputValue]:
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
            yield InputValue(chip.title, what, value, "published", source)
        yield InputValue(shape.title, "parameters", f"{shape.parameters / 1e9:,.4g} billion", "published", shape.source)
    step = document.step
    if step.time_s is not None:
        yield InputValue("step", "time of a healthy step", unit_text(step.time_s, "s"), *_basis_of_step(step))


def _basis_of_step(step: StepSummary) -> tuple[str, str]:
    if step.stated:
        return "stated", f"follows from {step.stated} of the scenario"
    if step.basis == "calibrated":
        return "measured", "the step model, scaled by the measured step that the scenario states"
    if step.basis == "fitted":
        return "measured", "the step model, with efficiencies that are fitted to measured steps"
    return "assumed", f"the step model; efficiencies: {step.basis}"


def _failures(prepared: Prepared) -> Iterator[InputValue]:
    names: list[Any] = [choice.use for choice in prepared.scenario.failures]
    for name in dict.fromkeys(name for name in names if name in catalog.bundles()):
        content = catalog.bundle(name)
        basis, source = bundle_basis(name)[0], content["source"]
        exposure = content.get("exposure", {})
        for cause in content.get("causes", ()):
            per = cause["per"]
            text = f"{cause['count']} in {exposure[f'{per}-day']:,} {_UNITS.get(per, per)}-days"
            yield InputValue(name, cause["title"], text, basis, source)
        for cause in content.get("sources", ()):
            text = str(cause.get("rate", "as the bundle says"))
            yield InputValue(name, cause.get("title", cause["name"]).replace("_", " "), text, basis, cause["source"])


def _preset(prepared: Prepared) -> Iterator[InputValue]:
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
        yield InputValue(recovery.use, " ".join(text.split()), "see the note", basis, f"{content['source']}: {how}")


def _power(document: RunDocument) -> Iterator[InputValue]:
    energy = document.energy
    if energy is None or energy.node is None:
        return
    node = energy.node
    basis = "measured" if node.measured else "assumed"
    for what, watts in (("a node without work", node.idle_w), ("a node in training", node.training_w)):
        yield InputValue("node", f"power of {what}", units.show(round(watts, 3), units.POWER), basis, node.source)
    for line in energy.assumptions:
        what, _, why = line.partition(" (")
        name, _, value = what.partition(": ")
        yield InputValue(
            "energy", name, value, "assumed", why.removesuffix(")") or "the usual value, or the scenario's"
        )


# ----------------------------------------
# Every input, its value and where it comes from.

_HEADS = ("input", "what it says", "value", "basis", "source")
_NOT_STATED = "not stated"
_CHOICE = "a choice"
_MOST_PATHS = 3


def section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    focus = report_data.focus
    if focus is None:
        return None
    inputs = all_inputs(report_data)
    stated = [(group, entry) for group, entry in inputs if entry.basis != "default"]
    # The same of several parts, such as phases of a recovery, has one row.
    defaults = Counter(
        (re.sub(r"\.\d+(?=\.|$)", ".*", entry.path), entry.what, entry.value)
        for _, entry in inputs if entry.basis == "default"
    )  # fmt: skip
    text = f"{number_of(defaults.total(), 'more input')} left at what the program takes. The scenario is {focus.name}."
    if report_data.of(SENSITIVITY) is not None:  # elsewhere the basis section counts them
        counts = Counter(entry.basis for _, entry in stated)
        text = f"Of the inputs {', '.join(f'{counts[basis]} {basis}' for basis in BASES if counts[basis])}. {text}"
    note = (
        "Names, titles, descriptions and sources are no inputs. An assumption counts as the source of a value if it "
        "speaks of the same part of the scenario and names the same amount."
    )
    title = f"{number_of(len(stated), 'input')} with their values, and what each rests on"
    return Section("inputs", title, (text,), tuple(_tables(report_data, stated, defaults)), (note,))


def _tables(
    report_data: ReportData, stated: Sequence[tuple[str, InputValue]], defaults: Mapping[tuple[str, str, str], int]
) -> Iterator[TableBlock]:
    """Yield what a study varies, the inputs by part of the scenario, those left out of it, and the bases."""
    if report_data.study is not None:
        yield _axes(report_data.study.study.vary)
    for group in GROUPS:
        rows = [(*entry[:4], entry.source or "the scenario itself") for name, entry in stated if name == group]
        if rows:
            yield grid(group, _HEADS, rows, range(5))
    if defaults:
        cells = [(*key, f"{count}") for key, count in defaults.items()]
        yield grid("Left at what the program takes", (*_HEADS[:3], "times"), cells, range(3))
    yield grid("Meaning of the bases", ("basis", "meaning"), list(BASES.items()), (0, 1))


def all_inputs(report_data: ReportData) -> list[tuple[str, InputValue]]:
    """Return all values that the scenario in focus rests on, each with the part of the scenario that it belongs to.

    Those that come with names of the catalog are among them: rates, data sheets, models, presets. Without a scenario
    there are none.
    """
    focus = report_data.focus
    if focus is None:
        return []
    varied = {} if report_data.study is None else _varied(report_data.study.study.vary)
    groups = {key: name for name, keys in GROUPS.items() for key in keys}
    return [
        *((groups.get(entry.path.partition(".")[0], "Time"), entry) for entry in stated_inputs(focus.scenario, varied)),
        *(("Job and step", entry) for entry in _job(focus.prepared, focus.document)),
        *(("Failures", entry) for entry in _failures(focus.prepared)),
        *(("Detection and recovery", entry) for entry in _preset(focus.prepared)),
        *(("Power and cost", entry) for entry in _power(focus.document)),
    ]


def _varied(vary: Mapping[str, Axis]) -> dict[str, InputValue]:
    """Return what the values of axes rest on, by the paths that they set."""
    varied: dict[str, InputValue] = {}
    for name, axis in vary.items():
        source = axis.source or f"{'not known' if axis.is_uncertain else 'chosen'}, by the axis: {axis.title or name}"
        value = InputValue("", "", "", axis.basis or ("assumed" if axis.is_uncertain else "stated"), source)
        varied |= dict.fromkeys(axis.targets(name), value)
    return varied


def axis_basis(axis: Axis) -> str:
    """Return what the values of an axis rest on: as it says; without that whether they are chosen, or unknown."""
    return axis.basis or (_NOT_STATED if axis.is_uncertain else _CHOICE)


def _axes(vary: Mapping[str, Axis]) -> TableBlock:
    rows = []
    for name, axis in vary.items():
        paths = axis.targets(name)
        sets = ", ".join(paths[:_MOST_PATHS])
        sets += f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
        source = axis.source or "the study itself"
        rows.append((axis.title or name, sets, _values(axis, name), axis_basis(axis), source))
    return grid("Axes of the study", ("axis", "sets", "values", "basis", "source"), rows, range(5))


def _values(axis: Axis, name: str) -> str:
    if axis.distribution is not None:
        stated: Mapping[str, Any] = axis.distribution.model_dump(mode="json", exclude_defaults=True)
        law = axis.distribution.use
        return _LAWS.get(law, law).format(**{"law": law, **axis.distribution.model_dump(mode="json"), **stated})
    if axis.range is not None and not (axis.range.points or axis.range.step):
        return f"{axis.range.min} to {axis.range.max}"
    if axis.derive is not None:
        return "derived from the other choices and the budget"
    return ", ".join(value.label for value in axis.values(name))


# Distributions in words, by law.
_LAWS = {
    "uniform": "anything from {min} to {max}, all equally likely",
    "loguniform": "anything from {min} to {max}, all orders of magnitude equally likely",
    "triangular": "{min} to {max}, most likely {mode}",
    "lognormal": "log-normal, median {median}, sigma {sigma:g}",
    "between": "log-normal, between {p05} and {p95} with 90 %",
    "counted": "{factor:g}, as well known as {events} counted events allow",
    "draws": "joint draws of a fit, {file}",
}


# ----------------------------------------
# What the answer rests on: measured, published or assumed inputs.

# Name of each basis of an axis, in the order in which they are shown.
_OF_AXES = {
    "measured": "measured inputs",
    "published": "published inputs",
    "assumed": "assumed inputs",
    _NOT_STATED: "inputs without a stated basis",
    _CHOICE: "what the study chooses",
}

# The same of each basis of an input.
_OF_INPUTS = {
    "measured": "measured",
    "published": "published",
    "assumed": "assumed",
    "preset": "of a preset",
    "stated": "stated without a source",
}

_SUMS = (
    "Each input counts with its own effect, averaged over the others (its first-order index), and these shares add "
    "up. Interactions of inputs belong to none of them, and are listed separately."
)


def basis_section(report_data: ReportData) -> Section | None:
    """Return the section; ``None`` where there is no scenario."""
    if report_data.focus is None:
        return None
    content, study = report_data.of(SENSITIVITY), report_data.study
    if content is not None and study is not None:
        shares = _shares(content, study.study.vary)
        if shares is not None:
            return _of_variance(content, shares, study.study.vary)
    return _of_counts(report_data)


def _shares(content: Mapping[str, Any], vary: Mapping[str, Axis]) -> dict[str, float] | None:
    """Return the shares of the variance of a run by what they come from [-]; ``None`` where they are not known."""
    indices = content["indices"]
    if indices is None or not indices["by_axis"]:
        return None
    parts = {name: part["share"] for name, part in indices["variance"].items()}
    if None in parts.values():
        return None
    inputs = parts["parameters"]["value"]
    by_basis: Counter[str] = Counter()
    for row in indices["by_axis"]:
        by_basis[axis_basis(vary[row["axis"]])] += row["first"]["value"]
    # Estimates may add up to more than everything; then nothing is left for what they do together.
    scale = inputs / max(by_basis.total(), 1.0)
    shares = {name: scale * by_basis[basis] for basis, name in _OF_AXES.items() if basis in by_basis}
    shares["inputs only together"] = inputs - sum(shares.values())
    return shares | {"noise of one run": parts["noise"]["value"], "noise together with inputs": parts["both"]["value"]}


def _of_variance(content: Mapping[str, Any], shares: Mapping[str, float], vary: Mapping[str, Axis]) -> Section:
    metric, indices = name_of(content["metric"]), content["indices"]
    named = [(basis, shares[_OF_AXES[basis]]) for basis in ("assumed", "measured") if _OF_AXES[basis] in shares]
    bring = " and ".join(f"{basis} inputs on their own cause {_percent(share)}" for basis, share in named)
    title = f"{capital(bring)} of the variance of {metric}"
    if not named:
        largest = max(shares, key=lambda name: shares[name])
        title = f"{_percent(shares[largest])} of the variance of {metric} comes from {largest}"
    texts = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
    parts = f"Sources of the variance of {metric}: {texts}. {_SUMS}"
    rows = []
    for row in indices["by_axis"]:
        axis = vary[row["axis"]]
        first, whole = (_percent_in(row[key]) for key in ("first", "total"))
        rows.append((axis.title or row["axis"], axis_basis(axis), first, whole, axis.source or "the study itself"))
    by_axis = grid(
        "Share of each input in the variance between means",
        ("input", "basis", "alone", "with all others", "source"),
        rows,
        (0, 1, 4),
        note="In % of the variance that comes from inputs, with 95 % intervals. Interactions are counted by every "
        "input counts some of it several times, so that this column adds up to more than everything.",
    )
    notes = (
        f"From {len(indices['by_axis']) + 2} sets of {indices['rows']} points of the inputs; the intervals of single "
        "inputs are in the table.",
        "Only what the study varies is in it: what every point has in common moves nothing here, however little is "
        "known of it.",
    )
    return Section("basis", title, (parts,), (by_axis,), notes)


def _percent_in(estimate: Mapping[str, Any]) -> str:
    ends, text = estimate["ci95"], _percent(estimate["value"])
    return text if ends is None or None in ends else f"{text}{between(_percent(ends[0]), _percent(ends[1]))}"


def _of_counts(report_data: ReportData) -> Section:
    """Return how many inputs are of each kind, and how to know which of them matter."""
    counts = Counter(input_value.basis for _, input_value in all_inputs(report_data))
    kinds = [(name, counts[basis]) for basis, name in _OF_INPUTS.items() if counts[basis]]
    total, parts = sum(count for _, count in kinds), listed([f"{count} {name}" for name, count in kinds])
    title = f"{number_of(total, 'input')}: {parts}; their number does not tell which matter"
    once = "Every input counts once, whether it matters or not; what is left at its default does not count."
    how = (
        "How much of the uncertainty comes from measured, published and assumed inputs is not known: every input has "
        "one value here. A study whose axes have a distribution, with a basis and a source each, and ettrick "
        "sensitivity show it."
    )
    study, content = report_data.study, report_data.of(SENSITIVITY)
    if study is not None and any(axis.is_uncertain for axis in study.study.vary.values()):
        how = (
            "How much of the uncertainty comes from measured, published and assumed inputs is not in these results. "
            "ettrick sensitivity DIR/study.resolved.yaml --out DIR adds it, where DIR is the folder of these results."
        )
    reason = ""
    if content is not None:
        reason = content["indices_missing"] if content["indices"] is None else content["indices"]["reason"]
    notes = (f"No shares of the variance: {reason}.",) if reason else ()
    return Section("basis", title, (once, how), (), notes)


def _percent(share: float) -> str:
    """Return a share to two digits; of what is next to nothing, that it is."""
    return percent_text(share, 0 if share >= 0.095 or share == 0 else 1)
