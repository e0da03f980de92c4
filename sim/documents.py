"""Scenario files with everything that they extend and ``--set``, and the place where every value was written.

What a file may say is in :mod:`sim.strict_yaml`. ``extends:`` may stand in any mapping and names files relative to the
one that says so, or what comes with the program. What the file says wins: mappings are merged, anything else is
replaced, and a mapping with its own ``extends`` replaces the inherited one.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from sim.strict_yaml import DocumentError, Keys, Mark, Tree, dotted, dump, neighbour, parse, read, shown

__all__ = [
    "FILE_KEYS",
    "TAGS",
    "Document",
    "DocumentError",
    "Keys",
    "Mark",
    "assign",
    "dotted",
    "dump",
    "extend",
    "key_mark",
    "known_file",
    "load",
    "nearest",
    "nearest_mark",
    "nearest_place",
    "neighbour",
    "parse",
    "suggest",
]

Locate: TypeAlias = Callable[[str, Path], Path]
Known: TypeAlias = Callable[[Keys], Mapping[str, Path]]

FILE_KEYS = ("file", "inventory")
"""Keys that name a file which a strategy reads."""
TAGS = ("use", "law")
"""Keys that name a choice; the other keys of their mapping are its parameters."""
_NAMES = {"accelerator": "like"}
"""Keys at which a name may stand for a mapping, and the key in it that the name is for."""


@dataclass
class Document:
    """What a file says, and where.

    Attributes
    ----------
    data : Any
        Plain mappings, lists, text, numbers and truth values.
    keys, values : dict
        Path of keys and indices to the mark of the key, and of the value; ``()`` is the whole document.
    files : list of Path
        Every file that was read, the first one first.
    stale : set
        Paths that were written for another choice than the one that replaced it: ``patience`` below a ``use`` that
        has become ``full-restart``. They count only if the new choice knows them too.
    preset : str
        The preset that was laid under what the files and ``--set`` say, if any.
    laid : set
        Paths of the values that it wrote; their marks are those of its name.
    """

    data: Any
    keys: dict[Keys, Mark] = field(default_factory=dict)
    values: dict[Keys, Mark] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    stale: set[Keys] = field(default_factory=set)
    preset: str = ""
    laid: set[Keys] = field(default_factory=set)

    def copy(self) -> Document:
        """Return a copy that can be changed."""
        return replace(
            self,
            data=copy.deepcopy(self.data),
            keys=dict(self.keys),
            values=dict(self.values),
            files=list(self.files),
            stale=set(self.stale),
            laid=set(self.laid),
        )

    def forget(self, path: Keys) -> None:
        """Forget where everything from `path` on was written, and for whom."""
        for places in (self.keys, self.values):
            for old in [place for place in places if place[: len(path)] == path]:
                del places[old]
        for paths in (self.stale, self.laid):
            paths.difference_update([old for old in paths if old[: len(path)] == path])


def load(path: Path) -> Document:
    """Return what one file says; ``extends`` is left as it stands.

    Raises
    ------
    DocumentError
        If the file cannot be read, is not strict YAML, or holds no mapping.
    """
    return _document(read(path), [path])


def extend(
    path: Path,
    *,
    shorthand: Iterable[str] = (),
    locate: Locate | None = None,
    known: Known | None = None,
) -> Document:
    """Return what a file says together with everything that it extends.

    Parameters
    ----------
    path : Path
        The file.
    shorthand : iterable of str
        Dotted paths at which text is the name of a file: ``cluster: x.yaml`` means ``cluster: {extends: x.yaml}``.
    locate : callable, optional
        Turns a name, and the file that mentions it, into a path; by default names are relative to that file.
    known : callable, optional
        Given where in the document, files by names that stand for them there unless there is a file of this name.

    Raises
    ------
    DocumentError
        As `load`, for any of the files, and if files extend each other in a circle.
    """
    reader = _Reader(frozenset(shorthand), locate, known)
    return _document(reader.read(path, (), (), None), reader.files)


def assign(
    document: Document,
    text: str,
    *,
    shorthand: Iterable[str] = (),
    locate: Locate | None = None,
    known: Known | None = None,
) -> Document:
    """Return a copy of a document with one value set, as by ``--set jobs.0.gpus=16``; ``spares=null`` removes a key.

    Missing mappings are created; whether the path means anything is for validation to say. Files named by the
    value (see `extend`) are relative to the working directory.

    Raises
    ------
    DocumentError
        If the text is not ``path=value``, or the path leads through a scalar or past the end of a list, or what is to
        be removed is not there, is an item of a list, or is brought by a preset.
    """
    mark = Mark("--set", 1, 1, text)
    path_text, equals, value_text = text.partition("=")
    steps = path_text.strip().split(".")
    if not equals or not all(steps):
        raise DocumentError(mark, "", "needs path=value, for example --set horizon='30 d'")
    result = document.copy()
    holder: Any = result.data
    path: Keys = ()
    for position, step in enumerate(steps):
        key = _step(holder, step, path, mark)
        path = (*path, key)
        if position < len(steps) - 1:
            if isinstance(holder, dict) and key not in holder:
                holder[key] = {}
                result.keys[path] = result.values[path] = mark
            elif isinstance(holder[key], str) and key in _NAMES:
                # The name alone is short for a mapping with one key.
                holder[key] = {_NAMES[str(key)]: holder[key]}
                result.values[(*path, _NAMES[str(key)])] = result.values[path]
            holder = holder[key]
    tree = parse(value_text, mark)
    if tree is None or (tree.content is None and not value_text.strip()):
        raise DocumentError(mark, dotted(path), "has no value; null would remove the key")
    if tree.content is None:
        return _without(result, holder, path, mark)
    reader = _Reader(frozenset(shorthand), locate, known, result.files)
    tree = replace(reader.expand(tree, Path("--set"), path, ()), key=mark)
    if path[-1] in TAGS and holder.get(path[-1]) != tree.content:
        result.stale |= {(*path[:-1], key) for key in holder}
    result.forget(path)
    holder[path[-1]] = _flatten(tree, path, result)
    return result


def _without(document: Document, holder: Any, path: Keys, mark: Mark) -> Document:
    """Return the document, which is changed, without a key of one of its mappings."""
    rule = ""
    if not isinstance(holder, dict):
        rule = "is an item of a list: null removes keys only; write the list without it"
    elif path[-1] not in holder:
        rule = f"there is no such key to remove{suggest(str(path[-1]), holder)}"
    elif path in document.laid:
        rule = f"is brought by preset {document.preset}: write what it should be instead, or choose no preset"
    if rule:
        raise DocumentError(mark, dotted(path), rule)
    del holder[path[-1]]
    document.forget(path)
    return document


def nearest_mark(document: Document, path: Keys) -> Mark:
    """Return where the value at `path` was written, or else the nearest mapping or list around it."""
    return document.values[nearest_place(document, path)]


def nearest_place(document: Document, path: Keys) -> Keys:
    """Return `path` if a value was written there, or else the path of the nearest mapping or list around it."""
    return next(path[:end] for end in range(len(path), -1, -1) if path[:end] in document.values)


def key_mark(document: Document, path: Keys) -> Mark:
    """Return where the key at `path` was written, or else the nearest value around it."""
    return document.keys.get(path) or nearest_mark(document, path)


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is spelled most like a word, if one resembles it."""
    folded = {name.casefold().replace("-", "_"): name for name in reversed(list(choices))}
    near = difflib.get_close_matches(word.casefold().replace("-", "_"), folded, 1)
    return folded[near[0]] if near else None


def suggest(word: str, choices: Iterable[str], most: int = 12) -> str:
    """Return the end of a message about an unknown word: the nearest choice, and up to `most` of them."""
    names = list(dict.fromkeys(choices))
    if not names:
        return ""
    near = nearest(word, names)
    offer = f"; did you mean '{near}'?" if near else ""
    more = f", ... {len(names) - most} more" if len(names) > most else ""
    return f"{offer} (choose from {', '.join(names[:most])}{more})"


class _Reader:
    """Reads files and follows ``extends``."""

    def __init__(
        self,
        shorthand: frozenset[str],
        locate: Locate | None,
        known: Known | None,
        files: list[Path] | None = None,
    ) -> None:
        self.shorthand = shorthand
        self.locate = locate or (lambda name, source: source.parent / name)
        self.known = known or (lambda _: {})
        self.files: list[Path] = [] if files is None else files

    def read(self, path: Path, at: Keys, chain: tuple[Path, ...], mention: Mark | None) -> Tree:
        """Return a file, expanded, as the mapping at `at`; `chain` are the files that led here."""
        tree = read(path, mention, (dotted(at) or "extends") if mention else "")
        if any(path.samefile(earlier) for earlier in chain):
            names = " -> ".join(shown(link) for link in (*chain, path))
            raise DocumentError(mention or tree.mark, dotted((*at, "extends")), f"files extend each other: {names}")
        if path not in self.files:
            self.files.append(path)
        return self.expand(tree, path, at, (*chain, path))

    def expand(self, tree: Tree, source: Path, at: Keys, chain: tuple[Path, ...]) -> Tree:
        """Return `tree` with every ``extends`` in it followed."""
        content = tree.content
        if isinstance(content, str) and dotted(at) in self.shorthand:
            content = {"extends": tree}
        if isinstance(content, list):
            items = [self.expand(item, source, (*at, index), chain) for index, item in enumerate(content)]
            return replace(tree, content=items)
        if not isinstance(content, dict):
            return tree
        extends = content.get("extends")
        merged: Tree | None = None
        for name in _names(extends, (*at, "extends")) if extends else ():
            base = self.read(self._found(name, source, at), at, chain, name.mark)
            merged = base if merged is None else _merge(merged, base)
        own = {key: self.expand(value, source, (*at, key), chain) for key, value in content.items() if key != "extends"}
        expanded = replace(tree, content=own)
        return expanded if merged is None else replace(_merge(merged, expanded), has_base=True)

    def _found(self, name: Tree, source: Path, at: Keys) -> Path:
        """Return the file of a name: the one there, or what is known by it."""
        known = self.known(at)
        found = known_file(self.locate(name.content, source), name.content, known)
        if found is None:
            rule = f"no such file, and nothing of this name comes with Ettrick{suggest(name.content, known)}"
            raise DocumentError(name.mark, dotted(at) or "extends", f"{name.content}: {rule}")
        return found


def known_file(path: Path, name: str, known: Mapping[str, Path]) -> Path | None:
    """Return a file by its name: the one at `path` if it is there, else the known one; ``None`` if it is neither.

    What has the ending or the folder of a file is never taken for a name.
    """
    is_there = os.path.exists(path)  # noqa: PTH110  (no error for a name that no file can have)
    if name in known and not (is_there and not path.is_dir()):
        return known[name]
    is_file = is_there or path.suffix in (".yaml", ".yml") or Path(name).name != name
    return path if is_file or not known else None


def _names(extends: Tree, at: Keys) -> list[Tree]:
    """Return the file names of an ``extends``: text, or a list of text."""
    names = extends.content if isinstance(extends.content, list) else [extends]
    for name in names:
        if not isinstance(name.content, str) or not name.content:
            raise DocumentError(name.mark, dotted(at), "must be the name of a file, or a list of names")
    return list(names)


def _merge(base: Tree, over: Tree) -> Tree:
    """Return `over` laid on `base`: mappings key by key, anything else replaced."""
    if not (isinstance(base.content, dict) and isinstance(over.content, dict)):
        return over
    content = dict(base.content)
    if any(tag in over.content and _plain(over, tag) != _plain(base, tag) for tag in TAGS):
        content = {key: replace(value, stale=True) for key, value in content.items()}
    for key, value in over.content.items():
        inherited = content.get(key)
        name = _NAMES.get(str(key))
        if name is not None and inherited is not None and isinstance(inherited.content, str):
            # A name alone is short for a mapping with one key.
            inherited = replace(inherited, content={name: inherited})
        content[key] = value if inherited is None or value.has_base else _merge(inherited, value)
    return replace(over, content=content)


def _plain(tree: Tree, key: str) -> Any:
    """Return what the mapping `tree` has at `key`, None if it has nothing there."""
    return tree.content[key].content if key in tree.content else None


def _step(holder: Any, step: str, path: Keys, mark: Mark) -> str | int:
    """Return the key or index that `step` means in `holder`."""
    if isinstance(holder, dict):
        return step
    if not isinstance(holder, list):
        raise DocumentError(mark, dotted(path), f"is {holder!r}, not a mapping: there is no {step!r} in it")
    if not re.fullmatch("[0-9]{1,9}", step) or int(step) >= len(holder):
        rule = f"is a list of {len(holder)}, counted from 0: there is no item {step!r}"
        raise DocumentError(mark, dotted(path), rule)
    return int(step)


def _document(tree: Tree, files: list[Path]) -> Document:
    document = Document(None, files=files)
    document.data = _flatten(tree, (), document)
    return document


def _flatten(tree: Tree, path: Keys, document: Document) -> Any:
    """Return the plain data of a tree and enter its marks into `document`."""
    document.values[path] = tree.mark
    if tree.key:
        document.keys[path] = tree.key
    if tree.stale:
        document.stale.add(path)
    if isinstance(tree.content, dict):
        return {key: _flatten(value, (*path, key), document) for key, value in tree.content.items()}
    if isinstance(tree.content, list):
        return [_flatten(item, (*path, index), document) for index, item in enumerate(tree.content)]
    return tree.content
