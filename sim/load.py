"""From YAML to a scenario: every unknown name, missing unit and impossible value is caught here."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import BaseModel, Field, ValidationError, create_model

from sim import catalog, documents
from sim.checkpoint import CHECKPOINTS
from sim.detection import DETECTIONS
from sim.failures import SOURCES
from sim.failures.bundle import Bundle
from sim.prepare import PathError, examine
from sim.recovery import RECOVERIES
from sim.repair import REPAIRS
from sim.scenario import Scenario
from sim.scheduler import SCHEDULERS
from sim.topology import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sim.documents import Document

__all__ = ["ScenarioError", "find", "load", "parse", "schema", "shipped"]

_DEFAULTS = {
    "cluster": "fat-tree",
    "checkpoint": "tiers",
    "detection": "latency",
    "repair": "simple",
    "scheduler": "fifo",
}
"""Strategy of a field when the file names none."""

_SHORTHAND = ("cluster",)


class ScenarioError(ValueError):
    """Everything that is wrong with a scenario, one line per mistake."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


# ------------------------------------------------------------------------------------------ shipped files


def _root() -> Path:
    """Return the folder that holds scenarios/ and topologies/: inside the wheel, else the checkout."""
    packaged = Path(__file__).parent / "_data"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent


def shipped(kind: Literal["scenarios", "topologies"]) -> dict[str, Path]:
    """Return the files that come with the program, by name."""
    return {path.stem: path for path in sorted((_root() / kind).glob("*.yaml"))}


def find(name: str) -> Path:
    """Return a scenario file: a path, or the name of one that comes with the program.

    Raises
    ------
    ScenarioError
        If there is no such file.
    """
    path = Path(name)
    if path.exists() or path.suffix in (".yaml", ".yml") or path.name != name:
        return path
    known = shipped("scenarios")
    if name in known:
        return known[name]
    raise ScenarioError([f"{name}: no such file, and no scenario of this name{documents.suggest(name, known)}"])


# ------------------------------------------------------------------------------------------------- models


def _one_of(kinds: Mapping[str, type[BaseModel]]) -> Any:
    """Return the type of a field that takes one of several strategies."""
    models = tuple(kinds.values())
    if len(models) == 1:
        return models[0]
    return Annotated[Union[models], Field(discriminator="use")]  # noqa: UP007


@functools.cache
def _registries() -> dict[str, dict[str, type[BaseModel]]]:
    """Return the strategies of each field by name."""
    bundles: dict[str, type[BaseModel]] = {}
    for name in catalog.bundles():
        tag: Any = Literal[name]
        bundles[name] = create_model(f"Bundle_{name.replace('-', '_')}", __base__=Bundle, use=(tag, ...))
    return {
        "cluster": _plain(TOPOLOGIES),
        "failures": {**_plain(SOURCES), **bundles},
        "checkpoint": _plain(CHECKPOINTS),
        "detection": _plain(DETECTIONS),
        "recovery": _plain(RECOVERIES),
        "repair": _plain(REPAIRS),
        "scheduler": _plain(SCHEDULERS),
    }


def _plain(kinds: Mapping[str, Any]) -> dict[str, type[BaseModel]]:
    return dict(kinds)


@functools.cache
def _model() -> type[Scenario]:
    """Return the scenario model with each strategy field narrowed to its registry."""
    fields: dict[str, Any] = {}
    for name, kinds in _registries().items():
        kind = tuple[_one_of(kinds), ...] if name == "failures" else _one_of(kinds)  # type: ignore[misc]
        original = Scenario.model_fields[name]
        default: Any = Field(description=original.description)
        if name == "failures":
            default = Field((), description=original.description)
        elif name == "scheduler":
            default = Field(default_factory=SCHEDULERS["fifo"], description=original.description)
        fields[name] = (kind, default)
    model: type[Scenario] = create_model("Scenario", __base__=Scenario, **fields)
    return model


def schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    content = _model().model_json_schema()
    content["$schema"] = "http://json-schema.org/draft-07/schema#"
    content["properties"]["extends"] = {
        "description": "Scenario files that this one builds on.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    cluster = content["properties"]["cluster"]
    content["properties"]["cluster"] = {
        "description": cluster.get("description", ""),
        "anyOf": [{"type": "string"}, {"type": "object", "required": ["extends"]}, _without_description(cluster)],
    }
    return content


def _without_description(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "description"}


# ------------------------------------------------------------------------------------------------ loading


def load(path: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Return the scenario of a file.

    Parameters
    ----------
    path
        The file.
    overrides
        Texts ``a.b=c`` that replace values, in order.

    Raises
    ------
    ScenarioError
        With one line for each mistake: file, line, column, path, rule.
    """
    try:
        document = documents.extend(Path(path), shorthand=_SHORTHAND)
        for text in overrides:
            document = documents.assign(document, text, shorthand=_SHORTHAND)
    except documents.DocumentError as error:
        raise ScenarioError([str(error)]) from None
    return _validate(document)


def parse(data: dict[str, Any], folder: Path | None = None) -> Scenario:
    """Return the scenario that plain data describe; relative file names are taken from `folder`.

    Raises
    ------
    ScenarioError
        With one line for each mistake.
    """
    mark = documents.Mark(str((folder or Path.cwd()) / "scenario"))
    return _validate(documents.Document(data, values={(): mark}))


def _validate(document: Document) -> Scenario:
    """Return the scenario, or all its mistakes at once."""
    data = _complete(document)
    try:
        scenario = _model().model_validate(data)
    except ValidationError as error:
        lines = dict.fromkeys(_line(document, data, item) for item in error.errors())
        raise ScenarioError(lines) from None
    try:
        examine(scenario)
    except PathError as error:
        mark = documents.nearest_mark(document, error.path)
        raise ScenarioError([_join(mark, documents.dotted(error.path), error.rule)]) from None
    return scenario


def _complete(document: Document) -> dict[str, Any]:
    """Return the data with strategies named, leftovers of replaced strategies dropped, and log files located."""
    data = dict(document.data)
    for field, kinds in _registries().items():
        value = data.get(field)
        if field == "failures":
            if isinstance(value, list):
                data[field] = [_locate(document, index, item) for index, item in enumerate(value)]
        elif isinstance(value, dict):
            value = dict(value)
            if field in _DEFAULTS:
                value.setdefault("use", _DEFAULTS[field])
            _drop_leftovers(document, (field,), value, kinds)
            data[field] = value
    return data


def _drop_leftovers(
    document: Document, path: tuple[str, ...], value: dict[str, Any], kinds: Mapping[str, type[BaseModel]]
) -> None:
    """Drop parameters of an inherited strategy that a later ``use`` has replaced."""
    chosen = value.get("use")
    use_mark = document.values.get((*path, "use"))
    if use_mark is None or not isinstance(chosen, str) or chosen not in kinds:
        return
    for key in list(value):
        mark = document.values.get((*path, key))
        if key not in kinds[chosen].model_fields and mark is not None and mark.file != use_mark.file:
            del value[key]


def _locate(document: Document, index: int, item: Any) -> Any:
    """Make the file of a replay relative to the file that names it."""
    if not isinstance(item, dict) or item.get("use") != "replay" or not isinstance(item.get("file"), str):
        return item
    mark = documents.nearest_mark(document, ("failures", index, "file"))
    folder = Path.cwd() if mark.text else Path(mark.file).parent
    return {**item, "file": str(folder / item["file"])}


# ------------------------------------------------------------------------------------------------- errors


def _join(mark: Any, path: str, rule: str) -> str:
    return ": ".join(part for part in (str(mark), path, rule) if part)


def _line(document: Document, data: Any, error: Any) -> str:
    """Return one mistake as a line."""
    raw = tuple(error["loc"])
    path = _user_path(data, raw)
    kind = error["type"]
    context = error.get("ctx", {})
    mark = documents.nearest_mark(document, path)
    if kind == "extra_forbidden":
        mark = documents.key_mark(document, path)
        rule = f"unknown key '{path[-1]}'{documents.suggest(str(path[-1]), _names(raw[:-1]))}"
    elif kind == "missing":
        rule = "is missing"
    elif kind == "union_tag_not_found":
        field = str(context["discriminator"]).strip("'")
        choices = _choices(raw, field)
        rule = f"needs '{field}'{documents.suggest('', choices)}"
    elif kind in ("union_tag_invalid", "literal_error"):
        rule = _not_a_choice(error, context, raw)
        inner = (*path, str(context["discriminator"]).strip("'")) if kind == "union_tag_invalid" else path
        mark, path = documents.nearest_mark(document, inner), inner
    elif kind == "value_error":
        rule = str(context["error"])
    else:
        text = error["msg"]
        rule = text[:1].lower() + text[1:]
        if isinstance(error["input"], str | int | float | bool):
            rule += f", not {error['input']!r}"
    return _join(mark, documents.dotted(path), rule)


def _not_a_choice(error: Any, context: Any, raw: tuple[str | int, ...]) -> str:
    """Return the rule for a word outside a list of words."""
    if error["type"] == "union_tag_invalid":
        given = context["tag"]
        choices = _choices(raw, str(context["discriminator"]).strip("'"))
    else:
        given = error["input"]
        choices = [word.strip(" '") for word in context["expected"].replace(" or ", ",").split(",")]
    return f"{given!r} is not a choice{documents.suggest(str(given), choices)}"


def _choices(raw: tuple[str | int, ...], field: str) -> list[str]:
    """Return the tags that a discriminated union takes."""
    if field == "use" and raw and raw[0] in _registries():
        return list(_registries()[str(raw[0])])
    return ["exponential", "weibull", "lognormal", "gamma", "empirical", "uniform", "fixed"] if field == "law" else []


def _user_path(data: Any, raw: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the path as the user wrote it, without the tags of unions that the validator puts in."""
    path: list[str | int] = []
    here = data
    for position, step in enumerate(raw):
        is_item = isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        if is_item or (isinstance(here, dict) and step in here):
            here = here[step]
            path.append(step)
        elif position == len(raw) - 1 and isinstance(here, dict):
            path.append(step)
    return tuple(path)


def _names(raw: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are known at a place, following fields, items and tags."""
    models: list[type[BaseModel]] = [_model()]
    for step in raw:
        found: list[type[BaseModel]] = []
        for model in models:
            if isinstance(step, str) and step in model.model_fields:
                found += _models_in(model.model_fields[step].annotation)
            elif isinstance(step, int) or step in _tags(model):
                found.append(model)
        models = found or models
    return sorted({name for model in models for name in model.model_fields})


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that occur in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """Return the values of ``use`` or ``law`` that stand for a model."""
    for name in ("use", "law"):
        if name in model.model_fields:
            return get_args(model.model_fields[name].annotation)
    return ()
