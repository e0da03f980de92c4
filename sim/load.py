"""From YAML to a scenario: every unknown name, missing unit and impossible value is caught here."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ettrick.sim import catalog, plugins, yamlfile
from ettrick.sim.catalog import steps
from ettrick.sim.cluster import FABRICS, ClusterSpec
from ettrick.sim.cluster.spec import NODES_OR_POOLS
from ettrick.sim.failures import SOURCES, Replay
from ettrick.sim.failures.parts import Bundle
from ettrick.sim.input import complaints, presets
from ettrick.sim.input.complaints import kinds_at, tag_of
from ettrick.sim.input.scenario import DEFAULTS, REGISTRIES, Scenario
from ettrick.sim.policies.checkpoint import CHECKPOINTS
from ettrick.sim.policies.detection import DETECTIONS
from ettrick.sim.policies.recovery import RECOVERIES
from ettrick.sim.policies.repair import LEMONS, REPAIRS
from ettrick.sim.prepare.placement import LruCache, sized
from ettrick.sim.prepare.prepare import check
from ettrick.sim.prepare.step import DoesNotFitError
from ettrick.sim.scenario.fields import PathError, is_of_files
from ettrick.sim.yamlfile import value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ettrick.sim.steps import Accelerator
    from ettrick.sim.yamlfile import Data, Keys, Table, YamlDocument

_SHORTHAND = ("cluster",)

_READERS = ("replay", "graph-file", "trace")


class ScenarioError(ValueError):
    """Everything that is wrong with a scenario, one line per mistake.

    `is_answer` says that nothing is wrong with the description: what it asks for cannot be done. `cannot_run` says that
    every value can be read, and all of them together cannot run: with another value of another key they may.
    `is_of_files` says that a file cannot be read which the description names: another time, or elsewhere, there may be
    no mistake.
    """

    def __init__(
        self, lines: Iterable[str], *, is_answer: bool = False, is_of_files: bool = False, cannot_run: bool = False
    ) -> None:
        self.lines = tuple(lines)
        self.is_answer = is_answer
        self.cannot_run = cannot_run
        self.is_of_files = is_of_files
        super().__init__(self.lines)

    def __str__(self) -> str:
        """Return the lines."""
        return "\n".join(self.lines)


def shipped(kind: Literal["scenarios", "scenarios/studies", "topologies"]) -> dict[str, Path]:
    """Return the files that come with the program, by name."""
    packaged = Path(__file__).parent / "_data"  # in the wheel, else the checkout
    root = packaged if packaged.is_dir() else Path(__file__).resolve().parents[1]
    return {path.stem: path for path in sorted((root / kind).glob("*.yaml"))}


def kind_of(name: str) -> str:
    """Return ``study`` or ``scenario``, for a file or a name that comes with the program; empty for neither."""
    try:
        path = Path(name)
        if not path.is_file():
            if name in shipped("scenarios/studies"):
                return "study"
            return "scenario" if name in shipped("scenarios") else ""
        data = yamlfile.load(path).data
    except (OSError, yamlfile.DocumentError):
        return ""
    if not isinstance(data, dict):
        return ""
    if "vary" in data:
        return "study"
    return "scenario" if {"cluster", "jobs"} <= data.keys() else ""


def building_blocks(at: Keys = ()) -> dict[str, Path]:
    """Return what may be extended by name at a path: inside of a file topologies alone."""
    return shipped("topologies") | ({} if at else shipped("scenarios"))


def find(name: str) -> Path:
    """Return a scenario file: a path, or the name of one that comes with the program.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    return locate(name, shipped("scenarios"), "scenario")


def locate(name: str, files: Mapping[str, Path], noun: str) -> Path:
    """Return a file: a path, or the one that is known by this name.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    path = yamlfile.known_file(Path(name), name, files)
    if path is None:
        near = yamlfile.nearest(name, files)
        rule = f"no such file or bundled {noun}" + (f"; did you mean '{near}'?" if near else "")
        raise ScenarioError([str(yamlfile.DocumentError(yamlfile.Mark(name), "", rule))])
    return path


@dataclass(frozen=True)
class Template:
    """A scenario file that has been read, with everything that it extends: scenarios follow without another look.

    Parameters
    ----------
    document
        What the files say.
    folder
        From where relative file names are meant that no file states; absolute.
    """

    document: YamlDocument
    folder: Path

    @property
    def content(self) -> Table:
        """The content of the files, as plain data; of files that strategies read, a digest."""
        data: Table = _complete(presets.lay(self.document.copy()), self.folder)
        for holder in (value_at(data, path, None) for path in yamlfile.readers(data)):
            for key in yamlfile.FILE_KEYS if isinstance(holder, dict) else ():
                if isinstance(holder.get(key), str) and Path(holder[key]).is_file():
                    holder[key] = hashlib.sha256(Path(holder[key]).read_bytes()).hexdigest()
        return data

    def scenario(self, overrides: Iterable[str] = (), *, must_fit: bool = True, must_run: bool = True) -> Scenario:
        """Return the scenario with some values replaced; parameters and mistakes as those of :func:`load`.

        One that need not run is only read: its jobs need not fit into its cluster, which may have no size.
        """
        document = presets.lay(self.document.copy())
        try:
            for text in choices_first(overrides):
                # Anew each time: an option may name another preset, or reach into a list of this one.
                yamlfile.assign(document, text, shorthand=_SHORTHAND, catalog=building_blocks, in_place=True)
                presets.lay(document)
        except yamlfile.DocumentError as error:
            line = f"{error}{presets.hint(document, error.path)}"
            raise ScenarioError([line], is_of_files=is_of_files(error)) from None
        return _validated(document, self.folder, must_fit=must_fit, must_run=must_run)


def template(path: str | Path) -> Template:
    """Return a scenario file, or one that comes with the program, as it was read, to make several scenarios of.

    Raises
    ------
    ScenarioError
        If the file, or one that it extends, cannot be read or is not strict YAML.
    """
    file = find(str(path))
    try:
        document = yamlfile.extend(file, shorthand=_SHORTHAND, catalog=building_blocks)
    except yamlfile.DocumentError as error:
        raise ScenarioError([str(error)]) from None
    return Template(document, file.parent.absolute())


def load(path: str | Path, overrides: Iterable[str] = (), *, must_fit: bool = True) -> Scenario:
    """Return the scenario of a file.

    Parameters
    ----------
    path
        The file, or the name of one that comes with the program.
    overrides
        Texts ``a.b=c`` that replace values, in the order of :func:`choices_first`.
    must_fit
        Whether to refuse jobs that do not fit into the memory of their GPUs.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    return template(path).scenario(overrides, must_fit=must_fit)


def choices_first(overrides: Iterable[str]) -> list[str]:
    """Return texts ``a.b=c`` in the order in which they are applied: what chooses before what it chooses among.

    A choice is a path that ends in ``use``, or a mapping with this key, and ``from_preset: true``. A
    change of what a strategy brings would be lost if the strategy were named afterwards. Choices keep their order, but
    the one around another one comes first, and so does whatever else replaces the mapping of a choice, or what is
    around it. The rest keeps its order too.
    """
    texts = [_with_use(text) for text in overrides]
    places = [_chosen_at(text) for text in texts]
    choices = [place for place, chooses in places if chooses]
    added = max(
        (position for position, chosen in enumerate(places) if chosen == (presets.FROM_PRESET, True)), default=-1
    )

    def rank(position: int) -> tuple[bool, int]:
        place, chooses = places[position]
        is_first = chooses or any(choice[: len(place)] == place for choice in choices)
        if place == presets.FROM_PRESET:  # what takes stores away comes after what changes them
            is_first = position <= added
        return not is_first, len(place) if is_first else 0

    return [texts[position] for position in sorted(range(len(texts)), key=rank)]


@functools.lru_cache(maxsize=512)
def _with_use(text: str) -> str:
    """Return a text ``a.b=c`` with `use` at the end of its path where a former word for it stands."""
    name, equals, value = text.partition("=")
    *above, word = name.strip().split(".")
    if word in yamlfile.FORMER_USE:
        kinds = kinds_at(Scenario, {}, tuple(int(step) if step.isdecimal() else step for step in above))
        if any("use" in kind.model_fields for kind in kinds) and not any(word in kind.model_fields for kind in kinds):
            return f"{'.'.join((*above, 'use'))}{equals}{value}"
    return text


@functools.lru_cache(maxsize=512)
def _chosen_at(text: str) -> tuple[Keys, bool]:
    """Return the path that a text ``a.b=c`` replaces or chooses for, and whether it chooses."""
    name, _, value = text.partition("=")
    path = tuple(name.strip().split("."))
    if path[-1] == "use":
        return path[:-1], True
    try:
        tree = yamlfile.parse(value, yamlfile.Mark("--set"))
    except yamlfile.DocumentError:  # for assign to explain
        return path, False
    content = tree.content if tree is not None else None
    if path == presets.FROM_PRESET:
        return path, content is True
    return path, isinstance(content, dict) and "use" in content


def parse(data: Table, folder: Path | None = None) -> Scenario:
    """Return the scenario that plain data describe; relative file names are taken from `folder`.

    Raises
    ------
    ScenarioError
        With one line for each mistake.
    """
    document = yamlfile.YamlDocument(yamlfile.data_with_use(data), values={(): yamlfile.Mark("scenario")})
    return _validated(presets.lay(document), folder or Path.cwd())


def _validated(document: YamlDocument, folder: Path, *, must_fit: bool = True, must_run: bool = True) -> Scenario:
    """Return the scenario, examined, or all its mistakes at once."""
    data = _complete(document, folder)
    try:
        scenario = _of_known_parts(data)
    except ValidationError as error:
        lines = complaints.complaints(Scenario, document, data, error)
        of_files = any(is_of_files(item["ctx"]["error"]) for item in error.errors() if "error" in item.get("ctx", {}))
        raise ScenarioError(_about_detection(lines, document, data), is_of_files=of_files) from None
    if not must_run:
        return scenario
    try:
        scenario = sized(scenario)
        unknown = _unknown_words(scenario)
        if unknown:
            lines = [complaints.line(document, path, rule, at_key=path[-2] == "scale") for path, rule in unknown]
            raise ScenarioError(lines, is_of_files=any(path[-1] in yamlfile.FILE_KEYS for path, _ in unknown))
        check(scenario, must_fit=must_fit)
    except PathError as error:
        lines = [complaints.line(document, error.path, error.rule)]
        is_answer = isinstance(error, DoesNotFitError)
        cannot_run = not error.is_of_files and not catalog.is_unknown(error.rule)
        raise ScenarioError(lines, is_answer=is_answer, is_of_files=error.is_of_files, cannot_run=cannot_run) from None
    return scenario


_PARTS: LruCache[object] = LruCache(64)
"""Parts of the scenarios that were read last, by key and content."""


def _of_known_parts(data: Table) -> Scenario:
    """Return the scenario that data describe, with the parts of earlier ones that say the same.

    Points of a study differ in a few parts; all that was worked out from another one is available then. What files say
    may change.
    """
    files, readers = yamlfile.FILE_KEYS, yamlfile.readers(data)
    of_files = {path[0] for path in readers if any(yamlfile.has(value_at(data, path, ()), key) for key in files)}
    keys = {name: (name, repr(part)) for name, part in data.items() if isinstance(part, dict | list) and part}
    if not data.get("jobs"):  # it is completed with parts that are no models yet
        keys.clear()
    shared = {name: _PARTS.known(key) for name, key in keys.items() if name not in of_files}
    try:
        scenario = Scenario.model_validate(data | {name: part for name, part in shared.items() if part is not None})
    except ValidationError:
        scenario = Scenario.model_validate(data)  # for complaints, which quote what is written
    for name in shared:
        part = getattr(scenario, name)
        _PARTS.keep(keys[name], [*part] if isinstance(part, tuple) else part)
    return scenario


def _about_detection(lines: list[str], document: YamlDocument, data: Table) -> list[str]:
    """Return complaints with what presets have to do with a missing detection.

    A preset brings it: while the name of the recovery is wrong, it is unknown whether it is missing.
    """
    missing = complaints.line(document, ("detection",), "is missing")
    names = complaints.names_of(kinds_at(Scenario, data, ("recovery",)))
    if "recovery" in data and value_at(data, ("recovery", "use"), "") not in names:
        return [line for line in lines if not line.startswith(missing)]
    hint = "; a recovery preset sets it)"
    return [line.removesuffix(")") + hint if line.startswith(missing) else line for line in lines]


def _complete(document: YamlDocument, folder: Path) -> Table:
    """Return the data with strategies named, leftovers of replaced strategies dropped, and files located."""
    data = completed(Scenario, document, DEFAULTS)
    locate_files(data, document, folder, yamlfile.readers(data))
    return data


def locate_files(data: Table, document: YamlDocument, folder: Path, holders: Iterable[Keys]) -> None:
    """Make absolute the names of the files that strategies at some paths read."""
    for path in holders:
        holder = value_at(data, path, None)
        if isinstance(holder, dict) and holder.get("use") in _READERS:
            for key in yamlfile.FILE_KEYS:
                if isinstance(holder.get(key), str):
                    holder[key] = str(_folder(document, (*path, key), folder) / holder[key])


def completed(model: type[BaseModel], document: YamlDocument, defaults: Mapping[str, str]) -> Table:
    """Return the data of a `model` with strategies named, by path, and leftovers of replaced strategies dropped."""
    data: Table = yamlfile.copied(document.data)
    for path, name in defaults.items():
        *above, field = path.split(".")
        holder: Data = data
        for step in above:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(field), dict):
            holder[field].setdefault("use", name)
    for keys in document.stale:
        _drop_leftover(model, data, keys)
    return data


def _drop_leftover(model: type[BaseModel], data: Table, path: Keys) -> None:
    """Drop a parameter of the choice that a later ``use`` has replaced; an unknown name stays."""
    holder: Data = data
    for step in path[:-1]:
        holder = holder[step]
    kinds = kinds_at(model, data, path[:-1])
    chosen = [kind for kind in kinds if holder.get(tag_of(kind)[0]) in tag_of(kind)[1]]
    fields = {name for kind in kinds for name in kind.model_fields}
    if chosen and path[-1] in fields - set(chosen[0].model_fields):
        del holder[path[-1]]


def _folder(document: YamlDocument, path: Keys, folder: Path) -> Path:
    """Return the folder from which the file named at a path is meant, absolute: a copy of ours may lie elsewhere."""
    mark = yamlfile.nearest_mark(document, path)
    if mark.text:
        return Path.cwd()
    return (Path(mark.file).parent if mark.line else folder).absolute()


def _unknown_words(scenario: Scenario) -> list[tuple[Keys, str]]:
    """Return path and rule of every word that names a part, a cause or a log which is not there."""
    try:
        counts = scenario.cluster.counts()
    except ValueError:  # a cluster that cannot be built is for examine to explain
        return []
    unknown: list[tuple[Keys, str]] = []
    for index, source in enumerate(scenario.failures):
        path: Keys = ("failures", index)
        if isinstance(source, Bundle):
            if isinstance(source.scale, dict):
                causes = catalog.causes(source.use)
                words = [name for name in source.scale if name not in causes]
                unknown += [((*path, "scale", name), catalog.unknown("cause", name, causes)) for name in words]
        elif isinstance(source, Replay):
            unknown += _missing_files(source, path)
        else:
            unknown += _unknown_parts(source, path, counts)
    for index, stream in enumerate(scenario.streams):
        unknown += _missing_files(stream, ("streams", index))
    return unknown


def _missing_files(reader: BaseModel, path: Keys) -> list[tuple[Keys, str]]:
    """Return path and rule of each file that is named and is not there."""
    names = {key: getattr(reader, key, None) for key in yamlfile.FILE_KEYS}
    return [
        ((*path, key), f"there is no file {name}{yamlfile.neighbour(Path(name))}")
        for key, name in names.items()
        if name is not None and not os.path.exists(name)  # noqa: PTH110  (no error for a name no file can have)
    ]


def _unknown_parts(source: Data, path: Keys, counts: Mapping[str, int]) -> list[tuple[Keys, str]]:
    """Return path and rule of each part that a source names and the cluster does not have."""
    parts = {**counts, "cluster": 1}
    part = getattr(source, "part", None)
    rate = getattr(source, "rate", None)
    if part is not None and part not in parts:
        return [((*path, "part"), catalog.unknown("part", part, parts))]
    if part is not None and rate is not None and rate.of not in ("", *parts):
        return [((*path, "rate"), catalog.unknown("part", rate.of, parts))]
    return []


# From YAML to a cluster alone: a topology file, or the cluster of a scenario.

_KEY = "cluster"


class _Holder(BaseModel):
    """A scenario of which only the cluster counts."""

    model_config = ConfigDict(extra="ignore", defer_build=True)
    cluster: ClusterSpec


def find_cluster(name: str) -> Path:
    """Return the file of a cluster: a path, or the name of a topology or scenario that comes with the program.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    return locate(name, building_blocks(), "topology or scenario")


def load_cluster(path: str | Path, overrides: Iterable[str] = ()) -> ClusterSpec:
    """Return the cluster of a topology file, or of a scenario, which is a file with a key ``cluster``.

    Parameters
    ----------
    path
        The file, or the name of one that comes with the program.
    overrides
        Texts ``fabric.radix=128`` that replace values, in order; they may begin with ``cluster.`` as in a scenario.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    found_at = find_cluster(str(path))
    try:
        document = yamlfile.extend(found_at, shorthand=(_KEY,), catalog=building_blocks)
        texts = choices_first(overrides)
        for text in texts:
            document = _assigned(document, text)
    except yamlfile.DocumentError as error:
        raise ScenarioError([str(error)]) from None
    is_scenario = _KEY in document.data
    model: type[BaseModel] = _Holder if is_scenario else ClusterSpec
    above = (_KEY,) if is_scenario else ()
    data = completed(model, document, {yamlfile.dotted((*above, "fabric")): "fat-tree"})
    locate_files(data, document, found_at.parent, ((*above, "fabric"),))
    try:
        described = model.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(complaints.complaints(model, document, data, error)) from None
    cluster = described.cluster if isinstance(described, _Holder) else described
    assert isinstance(cluster, ClusterSpec)
    if cluster.nodes is None and not cluster.pools:
        if not is_scenario:
            raise ScenarioError([complaints.line(document, (), NODES_OR_POOLS)])
        # As many as its jobs and spares need.
        cluster = load(found_at, [text if _is_whole(text) else f"{_KEY}.{_bare(text)}" for text in texts]).cluster
    return cluster


def _is_whole(text: str) -> bool:
    """Return whether a text ``a.b=c`` replaces the whole cluster."""
    return text.partition("=")[0].strip() == _KEY


def _bare(text: str) -> str:
    """Return a text ``a.b=c`` with a path that counts from the cluster."""
    return text.strip().removeprefix(f"{_KEY}.")


def _assigned(document: YamlDocument, text: str) -> YamlDocument:
    """Return a copy of `document` with a value of the cluster set; a path counts from the cluster or from above it."""
    bare = _bare(text)
    meant = f"{_KEY}.{bare}" if _KEY in document.data and not _is_whole(text) else bare
    try:
        assigned = yamlfile.assign(document, meant, shorthand=(_KEY,), catalog=building_blocks)
    except yamlfile.DocumentError as error:
        mark = error.mark._replace(text=text) if error.mark.text == meant else error.mark
        raise yamlfile.DocumentError(mark, error.path, error.rule) from None
    for marks in (assigned.keys, assigned.values):
        # The mistake is shown next to what was typed.
        marks.update({path: mark._replace(text=text) for path, mark in marks.items() if mark.text == meant})
    return assigned


# What comes with the program, one line each.

_SOURCE = re.compile(r"Source: (?P<text>.+?)(?:\.(?: [A-Z]|$)|$)")

"""A source ends with its sentence."""

_ADDRESS = re.compile(r",? (?:chapters? |by way of |section |https?:).*$")


_STRATEGIES: dict[str, Mapping[str, Data]] = {
    "fabrics (cluster.fabric.use)": FABRICS,
    "failure sources (failures.use)": SOURCES,
    "checkpoints (checkpoint.use)": CHECKPOINTS,
    "detection (detection.use)": DETECTIONS,
    "recovery (recovery.use)": RECOVERIES,
    "repair (repair.use)": REPAIRS,
    "lemon policies (repair.lemons.use)": LEMONS,
}
"""Built-in strategies by the headings under which they are listed."""


def inventory() -> dict[str, dict[str, str]]:
    """Return, by kind, the names of what comes with the program or a plugin, and a line about each."""
    listing: dict[str, dict[str, str]] = {
        "scenarios": {name: _described(path) for name, path in shipped("scenarios").items()},
        "studies": {name: _described(path) for name, path in shipped("scenarios/studies").items()},
        "topologies": {name: f"{_comment(path)} ({_source(path)})" for name, path in shipped("topologies").items()},
        "failure bundles (failures.use)": _titled({name: catalog.bundle(name) for name in catalog.bundles()}),
        "recovery presets (recovery.use)": _titled({name: catalog.recovery(name) for name in catalog.recoveries()}),
        "schedulers (scheduler.use)": _titled(catalog.schedulers()),
        "models (jobs.model)": _sourced(catalog.models()),
        "engines (services.engine)": _sourced(catalog.engines(), lambda row: f" {row.release}"),
        "recommenders": _sourced(catalog.recommenders()),
        "accelerators (cluster.accelerator)": _sourced(catalog.accelerators(), lambda row: f", {_basis(row)}"),
    }
    for kind, models in _STRATEGIES.items():
        listing[kind] = {name: _first_line(model) for name, model in models.items()}
    for kind, brought in inventory_of_plugins().items():
        listing.setdefault(kind, {}).update(brought)
    return listing


def _sourced(rows: Mapping[str, Data], more: Callable[[Data], str] = lambda _: "") -> dict[str, str]:
    """Return the title of each row, what else is said of it, and its source."""
    return {name: f"{row.title}{more(row)} ({row.source})" for name, row in rows.items()}


def _titled(tables: Mapping[str, Table]) -> dict[str, str]:
    """Return the title of each table, and its source."""
    return {name: f"{table['title']} ({table['source']})" for name, table in tables.items()}


def inventory_of_plugins() -> dict[str, dict[str, str]]:
    """Return, by kind, the names of what other packages bring, and a line about each with its package."""
    listing: dict[str, dict[str, str]] = {}
    headings = {kind.removesuffix(".use)").rpartition(" (")[2].rpartition(".")[2]: kind for kind in _STRATEGIES}
    for key, brought in plugins.found().items():
        heading = headings.get(key, f"plugins (ettrick.{key})")
        built_in = REGISTRIES.get(key, _STRATEGIES.get(heading, {}))
        listing[heading] = {
            f"{name} of {plugin.package}" if name in built_in else name: _of_plugin(plugin, tuple(built_in.values()))
            for name, plugin in brought.items()
        }
    return listing


def _of_plugin(plugin: plugins.Plugin, alike: tuple[Data, ...]) -> str:
    """Return a line about what another package brings, with that, or why it cannot be used."""
    try:
        line = _first_line(plugins.load(plugin, alike)) if alike else plugin.entry.value
    except plugins.PluginError as error:
        return str(error)
    return f"{line} ({plugin.package})"


def _first_line(value: Data) -> str:
    """Return the first line about a strategy."""
    return (value.__doc__ or "").strip().split("\n", 1)[0]


def _basis(chip: Accelerator) -> str:
    """Return what the times of steps on an accelerator rest on."""
    measured = [name for name in chip.peak if steps.efficiencies(chip, name).basis == "fitted"]
    if measured:
        return f"steps measured at {', '.join(measured)}"
    return f"peak only{', announced' if chip.announced else ''}"


def _described(path: Path) -> str:
    """Return what a scenario or study says of itself, with its source."""
    data = yamlfile.load(path).data
    base = f"{data['scenario']}; " if "scenario" in data else ""
    return f"{data.get('description', '').removesuffix('.')} ({base}{_source(path)})"


def _source(path: Path) -> str:
    """Return the source of a file: that which its comments name, or that of what it builds on."""
    source = _stated(path)
    if source:
        return source
    data = yamlfile.load(path).data
    if "scenario" in data:
        return _source(shipped("scenarios")[data["scenario"]])
    return _source(path.parent / data["extends"]) if "extends" in data else ""


def _stated(path: Path) -> str:
    """Return the first source that the comments of a file name, without chapters and addresses."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((number for number, line in enumerate(lines) if "# Source" in line), None)
    if start is None:
        return ""
    following = itertools.takewhile(lambda line: line.lstrip().startswith("#"), lines[start:])
    text = " ".join(line.lstrip(" #") for line in following)
    match = _SOURCE.match(text)
    return "" if match is None else _ADDRESS.sub("", match["text"])


def _comment(path: Path) -> str:
    """Return the first line of a file's opening comment."""
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ").removesuffix(".")
