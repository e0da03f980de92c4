"""The mistakes in a scenario: one line a mistake, with place, path, rule and the nearest valid name.

The validator speaks of types and branches of unions; here its findings are put into words that a reader of the
scenario file knows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema

from ettrick.sim import yamlfile
from ettrick.sim.scenario.fields import Later, OneOf, RuleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo

    from ettrick.sim.yamlfile import Data, Keys, YamlDocument

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number (for example 8)",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping (key: value)",
}

_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def line(document: YamlDocument, path: Keys, rule: str, *, at_key: bool = False) -> str:
    """Return a mistake as ``file:line:column: path: rule``; the place is that of the value, or of its key.

    Of a value that a preset wrote, the place is that of the preset's name.
    """
    if yamlfile.nearest_place(document, path) in document.laid:
        rule = f"{rule} (preset {document.preset})"
    mark = yamlfile.key_mark(document, path) if at_key else yamlfile.nearest_mark(document, path)
    return str(yamlfile.DocumentError(mark, yamlfile.dotted(path), rule))


def complaints(model: type[BaseModel], document: YamlDocument, data: Data, error: ValidationError) -> list[str]:
    """Return every mistake that the validation of `data` as a `model` has found, in the order of the file."""
    findings = [_finding(model, data, item) for item in error.errors(include_url=False)]
    findings = _without_echoes(model, data, _one_per_choice(findings))
    marked_lines = []
    for finding in findings:
        path, rule = _rule(model, data, finding)
        at_key = finding.kind == "extra_forbidden"
        mark = yamlfile.key_mark(document, path) if at_key else yamlfile.nearest_mark(document, path)
        marked_lines.append((mark[:3], line(document, path, rule, at_key=at_key)))
    return list(dict.fromkeys(text for _, text in sorted(marked_lines, key=lambda item: item[0])))


class _ValidatorError(NamedTuple):
    """An error of the validator; ``branch`` is where a union was entered, and which part of it was validated."""

    path: Keys
    kind: str
    error: Data
    branch: tuple[Keys, str | int] | None


def _finding(model: type[BaseModel], data: Data, error: Data) -> _ValidatorError:
    """Return an error with its path as the user wrote it: without tags and branches of unions."""
    path: Keys = ()
    here = data
    branch: tuple[Keys, str | int] | None = None
    tagged: Keys | None = None
    for position, step in enumerate(error["loc"]):
        kinds = kinds_at(model, data, path)
        if tagged != path and len(kinds) > 1 and any(step in tag_of(kind)[1] for kind in kinds):
            tagged = path
        elif yamlfile.has(here, step):
            here = here[step]
            path = (*path, step)
        elif position == len(error["loc"]) - 1 and error["type"] == "missing":
            path = (*path, step)
        else:
            branch = branch or (path, step)
    return _ValidatorError(path, error["type"], error, branch)


def _one_per_choice(findings: list[_ValidatorError]) -> list[_ValidatorError]:
    """Return the findings with one line for a value that is none of the types of a union.

    Of a value that resembles one of the types (a mapping where a number or a mapping may stand) only what is wrong
    with it as that type is kept.
    """
    unions: defaultdict[Keys, defaultdict[str | int, list[_ValidatorError]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        if finding.branch:
            unions[finding.branch[0]][finding.branch[1]].append(finding)
    of_unions = (_of_union(path, [*branches.values()]) for path, branches in unions.items())
    return [*(finding for finding in findings if not finding.branch), *itertools.chain.from_iterable(of_unions)]


def _of_union(path: Keys, branches: list[list[_ValidatorError]]) -> list[_ValidatorError]:
    """Return what is wrong with the value at a path, of what is wrong with it as each type of a union."""
    strangers = [branch for branch in branches if branch[0].path == path and branch[0].kind in _WANTED]
    if len(branches) == len(strangers) > 1:
        wanted = " or ".join(_WANTED[branch[0].kind] for branch in strangers)
        return [_ValidatorError(path, "none_of", {**strangers[0][0].error, "wanted": wanted}, None)]
    resembling = [branch for branch in branches if branch not in strangers] or strangers
    return [*itertools.chain.from_iterable(resembling)]


def _without_echoes(model: type[BaseModel], data: Data, findings: list[_ValidatorError]) -> list[_ValidatorError]:
    """Return the findings without those that follow from another one.

    A missing key that an unknown one next to it was meant to be, and a list that is too short only because what is
    wrong with its items takes them out of the validator's count.
    """
    meant = {
        (*finding.path[:-1], near)
        for finding in findings
        if finding.kind == "extra_forbidden"
        and (near := yamlfile.nearest(str(finding.path[-1]), keys_at(model, data, finding.path[:-1])))
    }
    return [
        finding
        for finding in findings
        if not (finding.kind == "missing" and finding.path in meant)
        and not (finding.kind == "too_short" and len(finding.error["input"]) > finding.error["ctx"]["actual_length"])
    ]


def _rule(model: type[BaseModel], data: Data, finding: _ValidatorError) -> tuple[Keys, str]:
    """Return where a finding is best shown, and the rule that was broken."""
    path, kind, error, _ = finding
    context = error.get("ctx", {})
    shown = _given(error["input"])
    if kind == "extra_forbidden":
        return path, f"unknown key '{path[-1]}'{yamlfile.suggest(str(path[-1]), keys_at(model, data, path[:-1]))}"
    if kind == "missing":
        return path, f"is missing{_about(field_at(model, data, path))}"
    if kind == "value_error":
        reason = context["error"]
        return (*path, *reason.at) if isinstance(reason, RuleError) else path, str(reason)
    if kind == "union_tag_not_found":
        tag = str(context["discriminator"]).strip("'")
        return path, f"needs '{tag}'{yamlfile.suggest('', names_of(kinds_at(model, data, path)))}"
    if kind == "union_tag_invalid":
        tag = str(context["discriminator"]).strip("'")
        return (*path, tag), _no_choice(error["input"][tag], names_of(kinds_at(model, data, path)))
    if kind == "literal_error":
        choices = [word.strip(" '") for word in context["expected"].replace(" or ", ", ").split(", ")]
        return path, _no_choice(error["input"], choices)
    if kind in ("model_type", "model_attributes_type"):
        return path, _no_mapping(kinds_at(model, data, path), error["input"])
    if kind in _WANTED or kind == "none_of":
        wanted = error["wanted"] if kind == "none_of" else _WANTED[kind]
        return path, f"must be {wanted}, not {shown}{_remedy(kind, error['input'])}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return path, f"must be {words} {context[key]:g}, not {_given(yamlfile.value_at(data, path, error['input']))}"
    return path, _other(kind, context, error, shown)


def _other(kind: str, context: Data, error: Data, shown: str) -> str:
    """Return the rule of the other kinds, the validator's own words for those that no field can break today."""
    if kind == "finite_number":
        return f"must be a finite number, not {shown}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "too_short":
        return f"must have at least {_items(context['min_length'])}, and has {context['actual_length']}"
    if kind == "too_long":
        return f"can have at most {_items(context['max_length'])}, and has {context['actual_length']}"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {shown}"


def _items(number: int) -> str:
    return f"{number} item{'' if number == 1 else 's'}"


def _no_choice(value: Data, choices: list[str]) -> str:
    return f"{_given(value)} is not a choice{yamlfile.suggest(str(value), choices)}"


def _no_mapping(kinds: Kinds, value: Data) -> str:
    """Return the rule for a value that should have keys; a bare name is shown how to be one."""
    names = names_of(kinds)
    keys = ", ".join(kinds[0].model_fields) if len(kinds) == 1 else f"{tag_of(kinds[0])[0]}, ..."
    rule = f"must be a mapping (keys: {keys}), not {_given(value)}"
    near = yamlfile.nearest(value, names) if isinstance(value, str) else None
    if near:
        return f"{rule}; write {{{tag_of(kinds[0])[0]}: {near}}}"
    return rule if len(kinds) == 1 else f"{rule}{yamlfile.suggest('', names)}"


def _about(field: FieldInfo | None) -> str:
    """Return what a missing key is for, with an example or its choices."""
    if field is None:
        return ""
    words = (field.description or "").rstrip(".")
    models = models_in(field.annotation)
    names = names_of(models)
    schemas = [part.json_schema or {} for part in field.metadata if isinstance(part, WithJsonSchema)]
    examples = [schema["examples"] for schema in schemas if "examples" in schema]
    if len(names) > 1 and "fixed" in names:
        words += "; a time such as 30 min, or a law"
    elif len(names) > 1:
        words += f"; choose 'use' from {yamlfile.listed(names)}"
    elif examples:
        words += f"; for example {examples[0][0]}"
    return f" ({words})" if words else ""


def _remedy(kind: str, value: Data) -> str:
    """Return how to turn a number into text, text into a number, or one value into a list of it."""
    if kind == "tuple_type" and isinstance(value, str | int | float):
        return f"; write [{value}]"
    if kind == "string_type" and isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else value
        return f"; write '{text}' in quotes"
    if kind in ("int_type", "float_type", "none_of") and isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return ""
        return "; remove the quotes"
    return ""


def _given(value: Data) -> str:
    """Return a value as a reader of the file would call it."""
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 60 else f"'{value[:57]}...'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(str(value), str(value))
    return {dict: "a mapping", list: "a list", tuple: "a list", type(None): "nothing"}.get(type(value), "this")


# Which models may stand at a place of a scenario: the way from a path in the data to the models behind it.

Kinds: TypeAlias = tuple[type[BaseModel], ...]


def tag_of(kind: type[BaseModel]) -> tuple[str, tuple[str, ...]]:
    """Return the key that names a strategy, law, effect or observer, which is ``use``, and its names."""
    for key in ("use", "law", "ask"):
        # A key of this name may also hold a law instead of naming one.
        if key in kind.model_fields and get_origin(kind.model_fields[key].annotation) is Literal:
            return key, get_args(kind.model_fields[key].annotation)
    return "", ()


def kinds_at(model: type[BaseModel], data: Data, path: Keys) -> Kinds:
    """Return the models that may stand at a path of `data`; ``use`` on the way narrows them."""
    kinds: Kinds = (model,)
    here = data
    is_name = False  # of a mapping whose keys are names, and whose values the models
    for step in path:
        if isinstance(step, str) and not is_name:
            holders = _chosen(kinds, here)
            fields = [holder.model_fields[step] for holder in holders if step in holder.model_fields]
            parts = [part for field in fields for part in (field.annotation, *field.metadata)]
            within = here[step] if yamlfile.has(here, step) else None
            kinds = tuple(kind for part in parts for kind in models_in(part, within))
            is_name = any(get_origin(part) is dict for part in parts)
        else:
            is_name = False
        here = here[step] if yamlfile.has(here, step) else None
    return kinds


def _chosen(kinds: Kinds, value: Data) -> Kinds:
    """Return the models among `kinds` that the tag in `value` names, or all of them."""
    if len(kinds) < 2 or not isinstance(value, dict | str):
        return kinds
    # Plain text may be the name alone.
    named = [(kind, value if isinstance(value, str) else value.get(tag_of(kind)[0])) for kind in kinds]
    return tuple(kind for kind, name in named if name in tag_of(kind)[1]) or kinds


def models_in(annotation: Any, value: Data = None) -> Kinds:
    """Return the models that occur in an annotation, with those of other packages that a value names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    if isinstance(annotation, OneOf):
        return annotation.others(value)
    if isinstance(annotation, Later):
        return models_in(annotation.annotation, value)
    return tuple(model for part in get_args(annotation) for model in models_in(part, value))


def field_at(model: type[BaseModel], data: Data, path: Keys) -> FieldInfo | None:
    """Return the field at a path, if one model alone determines it."""
    holder = data
    for step in path[:-1]:
        holder = holder[step] if yamlfile.has(holder, step) else None
    kinds = _chosen(kinds_at(model, data, path[:-1]), holder)
    return kinds[0].model_fields.get(str(path[-1])) if len(kinds) == 1 else None


def keys_at(model: type[BaseModel], data: Data, path: Keys) -> list[str]:
    """Return the keys that the mapping at a path may have."""
    holder = data
    for step in path:
        holder = holder[step]
    kinds = _chosen(kinds_at(model, data, path), holder)
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def names_of(kinds: Iterable[type[BaseModel]]) -> list[str]:
    """Return the names that ``use`` may have for these models: their own first, then their other ones."""
    names = [tag_of(kind)[1] for kind in kinds]
    return [name[0] for name in names if name] + [synonym for name in names for synonym in name[1:]]
