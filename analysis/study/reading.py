"""What a study file says, with the options that change it, and with the files in it that it names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sim
from analysis.study.axis import Axis
from analysis.study.value import label_of, settings_text
from sim import documents
from sim.documents import FILE_KEYS, Document, DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sim.documents import Keys

__all__ = ["read_study"]

_OPTION = Path("--set")
_SHORTHAND = ("cluster",)
_LARGEST = 2**63


def read_study(path: Path, overrides: Iterable[str] = ()) -> Document:
    """Return what a study file says.

    Clusters in other files, and whatever its values extend, become part of it: a study means the same wherever its
    points are played. Other files that it names get their whole names.

    Parameters
    ----------
    path
        The file.
    overrides
        Texts ``a.b=c`` that replace values; names of axes, and paths below ``set``, may have dots themselves.

    Raises
    ------
    DocumentError
        If a file cannot be read, is not strict YAML, or has numbers that are none.
    """
    document = documents.load(path)
    for text in overrides:
        document = _changed(document, text)
    for at, content in _parts(document.data, ()):
        rule = ""
        if isinstance(content, float) and not math.isfinite(content):
            rule = "must be a finite number"
        elif isinstance(content, int) and abs(content) >= _LARGEST:
            rule = "has too many digits for a number"
        if rule:
            raise DocumentError(documents.nearest_mark(document, at), documents.dotted(at), rule)
    _bring_files(document, path.parent)
    return document


def _parts(data: Any, path: Keys) -> Iterator[tuple[Keys, Any]]:
    """Yield every value in some data with its path."""
    yield path, data
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from _parts(value, (*path, key))


# ----------------------------------------------------------------------------------------------- options


def _changed(document: Document, text: str) -> Document:
    """Return a study with one value replaced."""
    name, _, value = text.partition("=")
    head, _, rest = name.strip().partition(".")
    if head not in ("set", "vary") or not rest:
        return documents.assign(document, text)
    key = rest if head == "set" else _axis_in(rest, document.data.get("vary"))
    # For a moment the name has no dots, which would be steps.
    alias = key.replace(".", "\N{ONE DOT LEADER}")
    typed = f"{head}.{alias}{rest[len(key) :]}={value}"
    try:
        found = documents.assign(_renamed(document, head, key, alias), typed)
    except DocumentError as error:
        raise DocumentError(error.mark._replace(text=text), error.path.replace(alias, key), error.rule) from None
    found = _renamed(found, head, alias, key)
    for places in (found.keys, found.values):
        places.update({at: mark._replace(text=text) for at, mark in places.items() if mark.text == typed})
    return found


def _axis_in(path: str, known: Any) -> str:
    """Return the axis that a path below ``vary`` begins with: one that is there, or all before a key of an axis."""
    names: list[str] = [name for name in known if f"{path}.".startswith(f"{name}.")] if isinstance(known, dict) else []
    if names:
        return max(names, key=len)
    steps = path.split(".")
    end = next((index for index, step in enumerate(steps) if index and step in Axis.model_fields), len(steps))
    return ".".join(steps[:end])


def _renamed(document: Document, head: str, name: str, other: str) -> Document:
    """Return a copy of a document with another name for one key of a mapping, in the same place."""
    found = document.copy()
    holder = found.data.get(head)
    if isinstance(holder, dict):
        found.data[head] = {other if key == name else key: value for key, value in holder.items()}
    for places in (found.keys, found.values):
        renamed = {(head, other, *at[2:]) if at[:2] == (head, name) else at: mark for at, mark in places.items()}
        places.clear()
        places.update(renamed)
    return found


# ------------------------------------------------------------------------------------------------- files


def _bring_files(document: Document, folder: Path) -> None:
    """Put the content of files in place of their names."""
    common, axes = document.data.get("set"), document.data.get("vary")
    for path in common if isinstance(common, dict) else ():
        common[path] = _filled(document, ("set", path), path, common[path], folder)
    for name, axis in axes.items() if isinstance(axes, dict) else ():
        choices = axis.get("choices") if isinstance(axis, dict) else None
        paths = axis.get("paths") or [axis.get("path") or name] if isinstance(axis, dict) else ()
        path = paths[0] if isinstance(paths, list) and paths and isinstance(paths[0], str) else name
        at: Keys = ("vary", name, "choices")
        if isinstance(choices, list):
            filled = [_filled(document, (*at, i), path, content, folder) for i, content in enumerate(choices)]
            if filled != choices:
                axis |= {"choices": _named(choices, filled)} | ({} if axis.get("paths") else {"path": path})
        elif isinstance(choices, dict):
            is_linked = not (axis.get("path") or axis.get("paths"))
            for label, content in choices.items():
                if is_linked and isinstance(content, dict):
                    for inner in content:
                        content[inner] = _filled(document, (*at, label, inner), inner, content[inner], folder)
                elif not is_linked:
                    choices[label] = _filled(document, (*at, label), path, content, folder)


def _filled(document: Document, at: Keys, path: str, content: Any, folder: Path) -> Any:
    """Return what is to be written to a path of the scenario, with the files that it names."""
    named = [inner for inner, _ in _parts(content, ()) if inner and inner[-1] in ("extends", *FILE_KEYS)]
    is_file = isinstance(content, str) and (path == "cluster" or path.rpartition(".")[2] in FILE_KEYS)
    if not (named or is_file):
        return content

    def locate(name: str, source: Path) -> Path:
        return (folder if source == _OPTION else source.parent) / name

    try:
        text, known = settings_text(path, content), sim.building_blocks
        found = documents.assign(Document({}), text, shorthand=_SHORTHAND, locate=locate, known=known)
    except DocumentError as error:
        mark = error.mark if not error.mark.text else documents.nearest_mark(document, at)
        raise DocumentError(mark, documents.dotted(at), error.rule) from None
    for inner, value in _parts(found.data, ()):
        if inner and inner[-1] in FILE_KEYS and isinstance(value, str):
            mark = documents.nearest_mark(found, inner)
            _holder(found.data, inner)[inner[-1]] = str(
                (Path(mark.file).parent if not mark.text else folder).absolute() / value
            )
    steps: Keys = tuple(path.split("."))
    return _holder(found.data, steps)[steps[-1]]


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
