"""Which models may stand at a place of a scenario: the way from a path in the data to the models behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic.fields import FieldInfo

__all__ = ["Kinds", "field_at", "has", "keys_at", "kinds_at", "models_in", "names_of", "tag_of", "value_at"]

Keys: TypeAlias = tuple[str | int, ...]
Kinds: TypeAlias = tuple[type[BaseModel], ...]


def tag_of(kind: type[BaseModel]) -> tuple[str, tuple[str, ...]]:
    """Return the key that names a strategy, law, effect or observer (``use``, ``law``, ...), and its names."""
    for key in ("use", "law", "kind", "observer", "ask"):
        # A key of this name may also hold a law instead of naming one.
        if key in kind.model_fields and get_origin(kind.model_fields[key].annotation) is Literal:
            return key, get_args(kind.model_fields[key].annotation)
    return "", ()


def kinds_at(model: type[BaseModel], data: Any, path: Keys) -> Kinds:
    """Return the models that may stand at a path of `data`; ``use`` and ``law`` on the way narrow them."""
    found: Kinds = (model,)
    here = data
    is_name = False  # of a mapping whose keys are names, and whose values the models
    for step in path:
        if isinstance(step, str) and not is_name:
            holders = _chosen(found, here)
            parts = [holder.model_fields[step].annotation for holder in holders if step in holder.model_fields]
            found = tuple(kind for part in parts for kind in models_in(part))
            is_name = any(get_origin(part) is dict for part in parts)
        else:
            is_name = False
        here = here[step] if has(here, step) else None
    return found


def _chosen(kinds: Kinds, value: Any) -> Kinds:
    """Return the models among `kinds` that the tag in `value` names, or all of them."""
    if len(kinds) < 2 or not isinstance(value, dict | str):
        return kinds
    # Plain text may be the name alone.
    named = [(kind, value if isinstance(value, str) else value.get(tag_of(kind)[0])) for kind in kinds]
    return tuple(kind for kind, name in named if name in tag_of(kind)[1]) or kinds


def models_in(annotation: Any) -> Kinds:
    """Return the models that occur in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return tuple(model for part in get_args(annotation) for model in models_in(part))


def has(holder: Any, step: str | int) -> bool:
    """Tell whether there is an item or a key `step` in `holder`."""
    if isinstance(holder, list | tuple):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


def field_at(model: type[BaseModel], data: Any, path: Keys) -> FieldInfo | None:
    """Return the field at a path, if one model alone tells what it is."""
    holder = data
    for step in path[:-1]:
        holder = holder[step] if has(holder, step) else None
    kinds = _chosen(kinds_at(model, data, path[:-1]), holder)
    return kinds[0].model_fields.get(str(path[-1])) if len(kinds) == 1 else None


def keys_at(model: type[BaseModel], data: Any, path: Keys) -> list[str]:
    """Return the keys that the mapping at a path may have."""
    holder = data
    for step in path:
        holder = holder[step]
    kinds = _chosen(kinds_at(model, data, path), holder)
    return list(dict.fromkeys(name for kind in kinds for name in kind.model_fields))


def names_of(kinds: Iterable[type[BaseModel]]) -> list[str]:
    """Return the names that ``use`` or ``law`` may have for these models: their own first, then their other ones."""
    names = [tag_of(kind)[1] for kind in kinds]
    return [name[0] for name in names if name] + [other for name in names for other in name[1:]]


def value_at(data: Any, path: Keys, otherwise: Any) -> Any:
    """Return what was written at a path; a validated default is not there."""
    for step in path:
        if not has(data, step):
            return otherwise
        data = data[step]
    return data
