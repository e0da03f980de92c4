"""From YAML to a study whose scenario has been read: every mistake is a line with its place."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import math
import re
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from ettrick import sim
from ettrick.analysis.metrics import METRICS
from ettrick.analysis.study.amounts import evenly, label_of, settings_text
from ettrick.analysis.study.axis import Axis
from ettrick.analysis.study.inputs import Inputs
from ettrick.analysis.study.model import Study
from ettrick.analysis.study.questions.question import clauses_of
from ettrick.sim import plugins, records, yamlfile
from ettrick.sim.input import complaints
from ettrick.sim.yamlfile import FILE_KEYS, DocumentError, YamlDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.analysis.study.amounts import AxisPosition, Point
    from ettrick.sim.yamlfile import Keys

# What a study file says, with the options that change it, and with the files in it that it names.

_OPTION = Path("--set")
_SHORTHAND = ("cluster",)
_LARGEST = 2**63

_FORMER = re.compile(r"^(\s*(?:questions\.\d+|vary\..+\.distribution)\.)(?:ask|law)(?=\s*=)")
"""Paths of options that end in a former word for ``use``."""


def read_study(path: Path, overrides: Iterable[str] = ()) -> YamlDocument:
    """Return what a study file says.

    Clusters in other files, and whatever its values extend, become part of it: a study means the same wherever its
    points are simulated. Other files that it names get their whole names.

    Parameters
    ----------
    overrides
        Texts ``a.b=c`` that replace values; names of axes, and paths below ``set``, may have dots themselves.

    Raises
    ------
    DocumentError
        If a file cannot be read, is not strict YAML, or has numbers that are none.
    """
    document = yamlfile.load(path)
    for text in overrides:
        document = _changed(document, _FORMER.sub(r"\1use", text))
    _name_runs(document)
    for at, content in _parts(document.data, ()):
        rule = ""
        if isinstance(content, float) and not math.isfinite(content):
            rule = "must be a finite number"
        elif isinstance(content, int) and abs(content) >= _LARGEST:
            rule = "has too many digits for a number"
        if rule:
            raise DocumentError(yamlfile.nearest_mark(document, at), yamlfile.dotted(at), rule)
    _bring_files(document, path.parent)
    return document


def _name_runs(document: YamlDocument) -> None:
    """Put ``runs`` where ``over`` has its former word, ``luck``."""
    questions = document.data.get("questions")
    entries = enumerate(questions) if isinstance(questions, list) else ()
    parts = [(("optimize",), document.data.get("optimize")), *((("questions", index), part) for index, part in entries)]
    for at, holder in parts:
        if isinstance(holder, dict) and holder.get("over") in ("luck", "luck+parameters"):
            former = holder["over"]
            holder["over"] = former.replace("luck", "runs")
            mark = yamlfile.nearest_mark(document, (*at, "over"))
            yamlfile.hint(mark, f"over: {former}", f"over: {holder['over']}")


def _parts(data: Any, path: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield every value in some data with its path."""
    yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list | tuple) else ()
    for key, value in items:
        yield from _parts(value, (*path, key))


def _changed(document: YamlDocument, text: str) -> YamlDocument:
    """Return a study with one value replaced."""
    name, _, value = text.partition("=")
    head, _, rest = name.strip().partition(".")
    if head not in ("set", "vary") or not rest:
        return yamlfile.assign(document, text)
    key = rest if head == "set" else _axis_in(rest, document.data.get("vary"))
    # For a moment the name has no dots, which would be steps.
    alias = key.replace(".", "\N{ONE DOT LEADER}")
    typed = f"{head}.{alias}{rest[len(key) :]}={value}"
    try:
        changed = yamlfile.assign(_renamed(document, head, key, alias), typed)
    except DocumentError as error:
        raise DocumentError(error.mark._replace(text=text), error.path.replace(alias, key), error.rule) from None
    changed = _renamed(changed, head, alias, key)
    for places in (changed.keys, changed.values):
        places.update({at: mark._replace(text=text) for at, mark in places.items() if mark.text == typed})
    return changed


def _axis_in(path: str, axes: Any) -> str:
    """Return the axis that a path below ``vary`` begins with: one that is there, or all before a key of an axis."""
    names: list[str] = [name for name in axes if f"{path}.".startswith(f"{name}.")] if isinstance(axes, dict) else []
    if names:
        return max(names, key=len)
    steps = path.split(".")
    end = next((index for index, step in enumerate(steps) if index and step in Axis.model_fields), len(steps))
    return ".".join(steps[:end])


def _renamed(document: YamlDocument, head: str, name: str, new_name: str) -> YamlDocument:
    """Return a copy of a document with another name for one key of a mapping, in the same place."""
    duplicate = document.copy()
    holder = duplicate.data.get(head)
    if isinstance(holder, dict):
        duplicate.data[head] = {new_name if key == name else key: value for key, value in holder.items()}
    for places in (duplicate.keys, duplicate.values):
        renamed = {(head, new_name, *at[2:]) if at[:2] == (head, name) else at: mark for at, mark in places.items()}
        places.clear()
        places.update(renamed)
    return duplicate


def _bring_files(document: YamlDocument, folder: Path) -> None:
    """Put the content of files instead of their names."""
    common, axes = document.data.get("set"), document.data.get("vary")
    for path in common if isinstance(common, dict) else ():
        common[path] = _filled(document, ("set", path), path, common[path], folder)
    for name, axis in axes.items() if isinstance(axes, dict) else ():
        if isinstance(axis, dict):
            _bring_draws(document, name, axis, folder)
            _bring_choices(document, name, axis, folder)


def _bring_choices(document: YamlDocument, name: str, axis: dict[str, Any], folder: Path) -> None:
    """Put the content of files instead of their names in the choices of an axis."""
    choices: Any = axis.get("choices")
    keys: Keys = ("vary", name, "choices")
    path = _first_path(axis, name)
    if isinstance(choices, list):
        filled = [_filled(document, (*keys, index), path, choice, folder) for index, choice in enumerate(choices)]
        if filled != choices:
            axis |= {"choices": _named(choices, filled)} | ({} if axis.get("paths") else {"path": path})
    for label, content in choices.items() if isinstance(choices, dict) else ():
        if axis.get("path") or axis.get("paths"):
            choices[label] = _filled(document, (*keys, label), path, content, folder)
        elif isinstance(content, dict):
            for inner in content:
                content[inner] = _filled(document, (*keys, label, inner), inner, content[inner], folder)


def _first_path(axis: dict[str, Any], name: str) -> str:
    match axis.get("paths") or [axis.get("path") or name]:
        case [str(path), *_]:
            return path
    return name


def _bring_draws(document: YamlDocument, name: str, axis: dict[str, Any], folder: Path) -> None:
    """Put the rows of a CSV file into a distribution of draws, if it names one and has none."""
    law = axis.get("distribution")
    if not isinstance(law, dict) or law.get("use") != "draws" or "columns" in law or not law.get("file"):
        return
    at: Keys = ("vary", name, "distribution", "file")
    file = folder / str(law["file"])
    try:
        table = records.Table(records.lines(str(file)), str(law["file"]), None, ())
        rows = list(table.read(lambda row, _line: {name: _cell(name, text) for name, text in row.items()}))
    except records.LogError as error:
        rule = f"{error}{yamlfile.neighbour(file)}"
        raise DocumentError(yamlfile.nearest_mark(document, at), yamlfile.dotted(at), rule) from None
    law["columns"] = {name: [row[name] for row in rows] for name in table.columns}


def _cell(name: str, text: str) -> Any:
    """Return what a cell holds: a finite number, or text as a scenario states it."""
    try:
        value: float = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            return text.strip()
    if not abs(value) <= sys.float_info.max:
        raise ValueError(f"column '{name}' holds '{text[:40]}', which is not a finite number")
    return value


def _filled(document: YamlDocument, at: Keys, path: str, content: Any, folder: Path) -> Any:
    """Return what is to be written to a path of the scenario, with the files that it names."""
    named = [inner for inner, _ in _parts(content, ()) if inner and inner[-1] in ("extends", *FILE_KEYS)]
    is_file = isinstance(content, str) and (path == "cluster" or path.rpartition(".")[2] in FILE_KEYS)
    if not (named or is_file):
        return content

    def locate(name: str, source: Path) -> Path:
        return (folder if source == _OPTION else source.parent) / name

    try:
        text, catalog = settings_text(path, content), sim.building_blocks
        filled = yamlfile.assign(YamlDocument({}), text, shorthand=_SHORTHAND, locate=locate, catalog=catalog)
    except DocumentError as error:
        mark = error.mark if not error.mark.text else yamlfile.nearest_mark(document, at)
        raise DocumentError(mark, yamlfile.dotted(at), error.rule) from None
    _name_whole(filled, folder)
    steps: Keys = tuple(path.split("."))
    return _holder(filled.data, steps)[steps[-1]]


def _name_whole(document: YamlDocument, folder: Path) -> None:
    """Give files their whole names: an option's lie next to the study, others next to the file that names them."""
    for path, value in _parts(document.data, ()):
        if path and path[-1] in FILE_KEYS and isinstance(value, str):
            mark = yamlfile.nearest_mark(document, path)
            beside = folder if mark.text else Path(mark.file).parent
            _holder(document.data, path)[path[-1]] = str(beside.absolute() / value)


def _holder(data: Any, path: Keys) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def _named(choices: list[Any], filled: list[Any]) -> dict[str, Any] | list[Any]:
    """Return choices by the names of their files, if these differ: whole clusters make no labels."""
    for label in (_file_label, label_of):
        named = dict(zip(map(label, choices), filled, strict=True))
        if len(named) == len(choices):
            return named
    return choices


def _file_label(content: Any) -> str:
    """Return what a choice is called: a file by its name alone."""
    return Path(content).stem if isinstance(content, str) else label_of(content)


# Files that settings of a scenario name: logs and graphs, which are known by what is in them and not by their names.
#
# The content of clusters and of what is extended is part of a study when it has been read. Files that strategies read
# while a scenario is made are not: their names are strings at a key of :data:`ettrick.sim.yamlfile.FILE_KEYS`, at the
# end of a path or in a mapping.


RESOLVED = "scenario.resolved.yaml"
"""File of the scenario next to a study that was written by the program."""


@dataclass(frozen=True)
class LoadedStudy:
    """A study, with the scenario that it is about.

    Parameters
    ----------
    common
        Texts ``path=value`` that hold at every point.
    """

    study: Study
    template: sim.Template
    common: tuple[str, ...]
    document: YamlDocument
    most_events: float = sim.MOST_EVENTS

    def points(self) -> Iterator[Point]:
        """Yield the points of the study in order; the same every time.

        Raises
        ------
        ScenarioError
            If they follow from a budget: these are listed by `ettrick.analysis.optimize.derive`.
        """
        from numpy.random import default_rng

        if self.study.is_listed:
            rule = "has derived axes, or axes that exist only somewhere: these are for ettrick optimize"
            raise sim.ScenarioError([complaints.line(self.document, ("vary",), rule)])

        seed = [self.study.seed or 0, zlib.crc32(self.study.design.use.encode())]
        return self.study.design.points(self.study.vary, default_rng(seed))

    def overrides(self, point: Point) -> tuple[str, ...]:
        """Return the texts ``path=value`` that make the scenario of a point.

        Those that hold everywhere come first, but for those inside of what varies.
        """
        varied = tuple(f"{path}." for value in point.values for path, _ in value.settings)
        inside = tuple(text for text in self.common if text.startswith(varied))
        inner = point.overrides
        if self.study.is_listed:  # what replaces a mapping comes before what is inside of it
            inner = tuple(sorted(inner, key=lambda text: text.partition("=")[0].count(".")))
        return (*(text for text in self.common if text not in inside), *inner, *inside)

    def scenario(self, point: Point) -> sim.Scenario:
        """Return the scenario of a point."""
        return self.template.scenario(self.overrides(point))

    def content(self) -> dict[str, Any]:
        """Return the study as plain data that `load_study` reads back next to its scenario, ``scenario.resolved.yaml``.

        Options are in it, and so are files that it named; keys that were left out are not.
        """
        return {**copy.deepcopy(self.document.data), "scenario": RESOLVED}

    @functools.cached_property
    def inputs(self) -> Inputs:
        """The files that the study names under ``set`` and ``vary``."""
        return Inputs()

    @functools.cached_property
    def packages(self) -> tuple[str, ...]:
        """Packages with strategies of other origin that some point of the study may name."""
        return plugins.packages(
            value for _, value in _parts([self.template.content, self.content()], ()) if isinstance(value, str)
        )

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the scenario and of what holds at every point, the same wherever its files lie."""
        content = json.dumps(
            [self.template.content, self.inputs.with_digests(self.common)], sort_keys=True, ensure_ascii=False
        )
        return hashlib.sha256(content.encode()).hexdigest()


def find_study(name: str) -> Path:
    """Return a study file: a path, or the name of one that comes with the program."""
    return sim.locate(name, sim.shipped("scenarios/studies"), "study")


def load_study(
    path: str | Path, overrides: tuple[str, ...] = (), *, replications: int | None = None, precision: str | None = None
) -> LoadedStudy:
    """Return the study of a file.

    Parameters
    ----------
    overrides
        Texts ``a.b=c`` that replace values of the study; those that begin with ``set.`` reach its scenario.
    replications, precision
        Instead of what the study says of either: replications of every point, or the width of an interval.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    try:
        document = read_study(Path(path), overrides)
    except yamlfile.DocumentError as error:
        raise sim.ScenarioError([str(error)]) from None
    if replications is not None or precision is not None:
        document = _instead(document, replications, precision)
    data = _named_of_load(document)
    try:
        study = Study.model_validate(data)
    except ValidationError as error:
        raise sim.ScenarioError(complaints.complaints(Study, document, data, error)) from None
    template = _template(study, document, Path(path))
    seed = () if study.seed is None else (settings_text("seed", study.seed),)
    common = (*(settings_text(path, content) for path, content in study.set.items()), *seed)
    return LoadedStudy(study, template, common, document)


def _instead(document: YamlDocument, replications: int | None, precision: str | None) -> YamlDocument:
    """Return a study with another number of replications, or another precision: each is instead of the other."""
    changed = document.copy()
    former = changed.data.pop("precision", None)
    changed.data.pop("replications", None)
    if precision is not None:
        changed.data["precision"] = {**(former if isinstance(former, dict) else {}), "width": precision}
        changed.values["precision", "width"] = yamlfile.Mark("--precision", text=precision)
    else:
        changed.data["replications"] = replications
        changed.values["replications",] = yamlfile.Mark("--replications", text=str(replications))
    return changed


def _named_of_load(document: YamlDocument) -> dict[str, Any]:
    """Return the data of a study with its design named: a grid, if it says nothing."""
    data = dict(document.data)
    if isinstance(data.get("design"), dict):
        data["design"] = {"use": "grid", **data["design"]}
    return data


def _template(study: Study, document: YamlDocument, path: Path) -> sim.Template:
    """Return the scenario of a study: a file next to it, or the name of a shipped one."""
    beside = path.parent / study.scenario
    shipped = sim.shipped("scenarios")
    if not beside.is_file() and study.scenario in shipped:
        beside = shipped[study.scenario]
    if not beside.is_file():
        offer = yamlfile.neighbour(beside) or yamlfile.suggest(study.scenario, shipped)
        rule = f"no file {study.scenario} next to the study, and no bundled scenario with this name{offer}"
        raise sim.ScenarioError([complaints.line(document, ("scenario",), rule)])
    template = sim.template(beside)
    if {"vary", "scenario"} <= template.document.data.keys():
        rule = f"{study.scenario} is a study itself: name the scenario that it is about"
        raise sim.ScenarioError([complaints.line(document, ("scenario",), rule)])
    return template


# A first look at a study before it is simulated: every value is checked, and what no point can have is a mistake.

MOST_POINTS = 100_000
"""Points of a study; more are a slip of the pen."""

_LOADS = 60
"""Values that are checked: a scenario is read in some milliseconds, and a first look takes less than a second."""

_TRIES = 3
"""Points in which a value is checked before it is called a mistake."""

_LONGEST = 60
"""Letters of a label in a message."""


def first_look(loaded: LoadedStudy) -> list[str]:
    """Return every mistake that some points of a study show, one line each; nothing if the study can be simulated.

    Of each axis all values are checked, or as many as there is time for, evenly spread. A value that can be read in
    none of up to three points is a mistake. What merely does not fit, fails in some combinations only, or can be read
    and not run while other points can, is none: these points will be infeasible, each with its reason.
    """
    study = loaded.study
    if study.is_listed:  # each value that cannot run is an answer of its listing
        return []
    count = study.design.count(study.vary)
    if count > MOST_POINTS:
        place = "design" if "design" in loaded.document.data else "vary"
        rule = f"makes {count:,} points, and more than {MOST_POINTS:,} are not simulated; vary less at once"
        return [complaints.line(loaded.document, (place,), rule)]
    look = _FirstLook(loaded)
    mistakes = [*look.of_all(), *(line for position in range(len(study.vary)) for line in look.of_axis(position))]
    return list(dict.fromkeys(mistakes or look.of_first()))


def against_question(loaded: LoadedStudy) -> list[str]:
    """Return a line if the question of a study has a clause that no entry of `questions` answers, in order."""
    study = loaded.study
    clauses = clauses_of(study.question)
    if not study.questions or len(clauses) <= len(study.questions):
        return []
    clause = clauses[len(study.questions)].strip(" ?.,")
    rule = (
        f"no entry of `questions` answers '{clause}?': the entries answer its clauses in order. Add one, for example "
        f"{{use: compare, axis: {next(iter(study.vary))}}}"
    )
    return [complaints.line(loaded.document, ("question",), rule)]


class _PointComplaint(NamedTuple):
    """A complaint about a point: the setting that it concerns, if any, and the path and the rule."""

    text: str
    rule: str


class _FirstLook:
    """The points of a study, those that were checked, and what was said against them."""

    def __init__(self, loaded: LoadedStudy) -> None:
        self.loaded = loaded
        self.axes = list(loaded.study.vary.items())
        # There may be many points, so none is kept but those that are checked: which these are is known once all have
        # been counted. Values go by their labels, which distinguish those of an axis.
        self.counts = [dict[str, int]() for _ in self.axes]
        numbers = [dict[str, float | None]() for _ in self.axes]
        for point in loaded.points():
            for count, number, value in zip(self.counts, numbers, point.values, strict=True):
                count[value.label] = count.get(value.label, 0) + 1
                number[value.label] = value.number
        self.looked_at = [self._chosen_values(by_label) for by_label in numbers]
        self._find_points()
        self.fine: set[tuple[int, str]] = set()
        self.findings: dict[int, tuple[_PointComplaint, ...]] = {}
        self.idle: list[Point] = []
        """Points that can be read and not run."""
        self.failed: list[list[AxisPosition]] = [self._failed(position) for position in range(len(self.axes))]
        if not self.none_is_fine:
            for point in self.idle:
                self._clear(point)
            self.failed = [self._failed(position) for position in range(len(self.axes))]

    def _chosen_values(self, numbers: dict[str, float | None]) -> dict[str, list[Point]]:
        """Return the values of an axis that are checked, in order, each with room for points."""
        labels = list(numbers)
        if all(number is not None for number in numbers.values()):
            labels.sort(key=lambda label: numbers[label] or 0.0)
        return {label: [] for label in evenly(labels, max(_LOADS // len(self.axes), _TRIES))}

    def _find_points(self) -> None:
        """Find the points in which values are checked: of each the first, the last, and one between them."""
        wanted = [
            {label: set(evenly(range(count[label]), _TRIES)) for label in values}
            for count, values in zip(self.counts, self.looked_at, strict=True)
        ]
        seen = [dict.fromkeys(values, 0) for values in self.looked_at]
        for point in self.loaded.points():
            for places, before, values, value in zip(wanted, seen, self.looked_at, point.values, strict=True):
                if value.label in before:
                    if before[value.label] in places[value.label]:
                        values[value.label].append(point)
                    before[value.label] += 1

    def _failed(self, position: int) -> list[AxisPosition]:
        """Return the values of an axis with which no point can be read, of those that are checked."""
        values = [points[0].values[position] for points in self.looked_at[position].values()]
        return [value for value in values if not self._is_fine(position, value)]

    def _is_fine(self, position: int, value: AxisPosition) -> bool:
        """Tell whether one of the first points with a value can be read; a point that can clears all its values."""
        for point in self.points(position, value):
            if (position, value.label) in self.fine:
                break
            if point.number not in self.findings:
                self.findings[point.number] = self._look(point)
            if not self.findings[point.number]:
                self._clear(point)
        return (position, value.label) in self.fine

    def _clear(self, point: Point) -> None:
        """Hold nothing against a point, nor against its values."""
        self.findings[point.number] = ()
        self.fine.update((position, value.label) for position, value in enumerate(point.values))

    def points(self, position: int, value: AxisPosition) -> list[Point]:
        """Return the points in which a value is checked."""
        return self.looked_at[position][value.label]

    def _look(self, point: Point) -> tuple[_PointComplaint, ...]:
        """Return what is wrong with the description of a point."""
        try:
            self.loaded.scenario(point)
        except sim.ScenarioError as error:
            if error.cannot_run:
                self.idle.append(point)
            texts = self.loaded.overrides(point)
            return () if error.is_answer else tuple(_finding(line, texts) for line in error.lines)
        return ()

    @property
    def none_is_fine(self) -> bool:
        """Whether no point that was checked can be read."""
        return all(self.findings.values())

    # ------------------------------------------------------------------------------------------- mistakes

    def of_all(self) -> Iterator[str]:
        """Yield the mistakes that no value is to blame for: of what holds at every point, and of the scenario."""
        first, *rest = self.findings.values()
        common = {settings_text(path, content): path for path, content in self.loaded.study.set.items()}
        for finding in first if self.none_is_fine else ():
            if all(finding in findings for findings in rest):
                if finding.text in common:
                    path = common[finding.text]
                    mark = yamlfile.nearest_mark(self.loaded.document, ("set", path))
                    yield str(yamlfile.DocumentError(mark, f"set.{path}", finding.rule.removeprefix(f"{path}: ")))
                elif not finding.text:
                    yield finding.rule

    def of_axis(self, position: int) -> Iterator[str]:
        """Yield the mistakes of the values of an axis; one line if all of them have the same."""
        name, axis = self.axes[position]
        document = self.loaded.document
        mistakes: dict[yamlfile.Mark, tuple[str, str]] = {}
        for value in self.failed[position]:
            rule = self._against(position, value)
            if rule:
                label = value.label if len(value.label) <= _LONGEST else f"{value.label[: _LONGEST - 3]}..."
                mark = yamlfile.nearest_mark(document, _place(document, name, axis, value))
                mistakes.setdefault(mark, (label, rule.removeprefix(f"{name}: ")))
        rules = {rule for _, rule in mistakes.values()}
        if len(rules) == 1 and len(mistakes) > 1 and len(self.failed[position]) == len(self.counts[position]):
            at = ("vary", name, "path")
            mark = document.values.get(at) or yamlfile.key_mark(document, at[:2])
            yield str(yamlfile.DocumentError(mark, f"vary.{name}", rules.pop()))
            return
        for mark, (label, rule) in mistakes.items():
            yield str(yamlfile.DocumentError(mark, f"vary.{name}", f"{label}: {rule}"))

    def of_first(self) -> Iterator[str]:
        """Yield what is wrong with the first point, if no point can be read for one reason."""
        if self.none_is_fine:
            mark = yamlfile.key_mark(self.loaded.document, ("vary",))
            for finding in next(iter(self.findings.values())):
                rule = f"no point that was checked can be read; of the first one {finding.rule}"
                yield str(yamlfile.DocumentError(mark, "vary", rule))

    def _against(self, position: int, value: AxisPosition) -> str:
        """Return what is wrong with a value wherever it was checked; nothing if something else is to blame."""
        settings = {settings_text(path, content) for path, content in value.settings}
        values = [self.findings[point.number] for point in self.points(position, value)]
        blamed = [[finding.rule for finding in findings if finding.text in settings] for findings in values]
        if all(blamed):
            return blamed[0][0]
        if self.none_is_fine or any(finding.text for findings in values for finding in findings):
            return ""
        return next((common.rule for common in values[0] if all(common in findings for findings in values)), "")


def _finding(line: str, texts: Sequence[str]) -> _PointComplaint:
    """Return a complaint with the setting that it begins with, if it is about one."""
    matching = [text for text in texts if line.startswith(f"--set {text}: ")]
    text = max(matching, key=len, default="")
    return _PointComplaint(text, line.removeprefix(f"--set {text}: ") if text else line)


def _place(document: yamlfile.YamlDocument, name: str, axis: Axis, value: AxisPosition) -> Keys:
    """Return the path of a value in its study."""
    at: Keys = ("vary", name)
    if axis.choices is not None:
        labels = [choice.label for choice in axis.values(name)]
        named = (*at, "choices", value.label)
        return named if named in document.values else (*at, "choices", labels.index(value.label))
    if axis.range is not None:
        ends = dict(zip(axis.range.ends, ("min", "max"), strict=True))
        return (*at, "range", ends[value.number]) if value.number in ends else (*at, "range")
    return (*at, "distribution")


# Which metrics the points of a study can have, known before they are simulated.

_MOST_PREPARED = 60
"""Points that are looked at: one takes some tens of milliseconds at most."""


def against_metrics(loaded: LoadedStudy) -> list[str]:
    """Return a line for each metric that a study names and no point can have; nothing if all can be had.

    Points are looked at until all metrics are found, each with a value that none before it had. What one point states
    and what another one states may come together in a third, so a metric is only refused for what no point states; nor
    is any where one of these points cannot run.
    """
    if loaded.study.is_listed:
        return []
    named = dict(_metrics_named(loaded))
    needs = {need for metric in named.values() for need in METRICS[metric].needs}
    if not needs:
        return []
    for overrides in _points_of_all_values(loaded):
        try:
            prepared = sim.prepare(loaded.template.scenario(overrides))
        except (sim.ScenarioError, sim.PathError):
            return []  # what such a point states is not known; after it was simulated it is
        needs = {need for need in needs if not need.has(prepared)}
        if not needs:
            return []
    lines = []
    for at, metric in named.items():
        rule = next((need.rule for need in METRICS[metric].needs if need in needs), None)
        if rule is not None:
            lines.append(complaints.line(loaded.document, at, f"no point has a {metric}: {rule}"))
    return lines


def _metrics_named(loaded: LoadedStudy) -> Iterator[tuple[Keys, str]]:
    """Yield every place at which a study names a metric that is to be reported, with the metric."""
    study = loaded.study
    yield from ((("metrics", index), name) for index, name in enumerate(study.metrics))
    for place, question in enumerate(study.questions):
        yield from (
            (("questions", place), name) for name in question.metrics if name in METRICS and name not in study.metrics
        )
    if study.precision is not None and study.precision.metric:
        yield ("precision", "metric"), study.precision.metric


def _points_of_all_values(loaded: LoadedStudy) -> Iterator[tuple[str, ...]]:
    """Yield what makes the scenarios of points that show every value of every axis."""
    seen: set[tuple[int, str]] = set()
    count = 0
    for point in loaded.points():
        values = {(place, value.label) for place, value in enumerate(point.values)}
        if point.draw == 0 and not values <= seen:
            seen |= values
            count += 1
            yield loaded.overrides(point)
        if count == _MOST_PREPARED:
            return
