"""Scenario files read strictly, with the place where every value was written.

The text is YAML 1.2 core: ``no`` and ``10:30`` are text, ``1e6`` is a number, ``010`` is ten. A duplicate key, a
key without a value, a key that is not text, a tag and a merge key are refused or plain text, never guessed.

``extends:`` may stand in any mapping and names files relative to the one that says so. What the file says wins:
mappings are merged, anything else is replaced, and a mapping with its own ``extends`` replaces the inherited one.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

__all__ = [
    "Document",
    "DocumentError",
    "Mark",
    "assign",
    "dotted",
    "dump",
    "extend",
    "key_mark",
    "load",
    "nearest_mark",
    "suggest",
]

Keys: TypeAlias = tuple[str | int, ...]
Locate: TypeAlias = Callable[[str, Path], Path]

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_WORDS = dict.fromkeys(("", "~", "null", "Null", "NULL")) | {
    word: value
    for value, words in ((True, ("true", "True", "TRUE")), (False, ("false", "False", "FALSE")))
    for word in words
}
_DEEPEST = 100  # levels
_LARGEST = 1_000_000  # values after aliases are expanded: a few lines of them can stand for billions


class Mark(NamedTuple):
    """A place in a file, counted from 1; line 0 is the file as a whole. ``text`` is that of a ``--set``."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""

    def __str__(self) -> str:
        """Return ``file:line:column``, or the option as it was typed."""
        if self.text:
            return f"{self.file} {self.text}"
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class DocumentError(ValueError):
    """A mistake in a file, as one line: ``file:line:column: dotted.path: rule``."""

    def __init__(self, mark: Mark, path: str, rule: str) -> None:
        super().__init__(mark, path, rule)
        self.mark, self.path, self.rule = mark, path, rule

    def __str__(self) -> str:
        """Return the whole line; the path is left out where there is none."""
        line = ": ".join(part for part in (str(self.mark), self.path, self.rule) if part)
        return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line)


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
    """

    data: Any
    keys: dict[Keys, Mark] = field(default_factory=dict)
    values: dict[Keys, Mark] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class _Tree:
    """A value with its marks; ``content`` is a mapping or list of trees, or a scalar."""

    content: Any
    mark: Mark
    key: Mark | None = None
    size: int = 1
    has_base: bool = False


def load(path: Path) -> Document:
    """Return what one file says; ``extends`` is left as it stands.

    Raises
    ------
    DocumentError
        If the file cannot be read, is not strict YAML, or holds no mapping.
    """
    return _document(_read(path), [path])


def extend(path: Path, *, shorthand: Iterable[str] = (), locate: Locate | None = None) -> Document:
    """Return what a file says together with everything that it extends.

    Parameters
    ----------
    path : Path
        The file.
    shorthand : iterable of str
        Dotted paths at which text is the name of a file: ``cluster: x.yaml`` means ``cluster: {extends: x.yaml}``.
    locate : callable, optional
        Turns a name, and the file that mentions it, into a path; by default names are relative to that file.

    Raises
    ------
    DocumentError
        As `load`, for any of the files, and if files extend each other in a circle.
    """
    reader = _Reader(frozenset(shorthand), locate)
    return _document(reader.read(path, (), (), None), reader.files)


def assign(document: Document, text: str, *, shorthand: Iterable[str] = (), locate: Locate | None = None) -> Document:
    """Return a copy of a document with one value set, as by ``--set jobs.0.gpus=16``.

    Missing mappings are created; whether the path means anything is for validation to say. Files named by the
    value (see `extend`) are relative to the working directory.

    Raises
    ------
    DocumentError
        If the text is not ``path=value``, or the path leads through a scalar or past the end of a list.
    """
    mark = Mark("--set", 1, 1, text)
    path_text, equals, value_text = text.partition("=")
    steps = path_text.strip().split(".")
    if not equals or not all(steps):
        raise DocumentError(mark, "", "needs path=value, for example --set horizon='30 d'")
    result = Document(copy.deepcopy(document.data), dict(document.keys), dict(document.values), list(document.files))
    holder: Any = result.data
    path: Keys = ()
    for position, step in enumerate(steps):
        key = _step(holder, step, path, mark)
        path = (*path, key)
        if position < len(steps) - 1:
            if isinstance(holder, dict) and key not in holder:
                holder[key] = {}
                result.keys[path] = result.values[path] = mark
            holder = holder[key]
    tree = _parse(value_text, mark)
    if tree is None or tree.content is None:
        raise DocumentError(mark, dotted(path), "has no value")
    reader = _Reader(frozenset(shorthand), locate, result.files)
    tree = replace(reader.expand(tree, Path("--set"), path, ()), key=mark)
    for places in (result.keys, result.values):
        for old in [place for place in places if place[: len(path)] == path]:
            del places[old]
    holder[path[-1]] = _flatten(tree, path, result)
    return result


def nearest_mark(document: Document, path: Keys) -> Mark:
    """Return where the value at `path` was written, or else the nearest mapping or list around it."""
    return next(document.values[path[:end]] for end in range(len(path), -1, -1) if path[:end] in document.values)


def key_mark(document: Document, path: Keys) -> Mark:
    """Return where the key at `path` was written, or else the nearest value around it."""
    return document.keys.get(path) or nearest_mark(document, path)


def dotted(path: Keys) -> str:
    """Return a path as people write it: ``jobs.0.gpus``."""
    return ".".join(str(step) for step in path)


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the nearest choice, and up to twelve of them."""
    names = list(dict.fromkeys(choices))
    if not names:
        return ""
    folded = {name.casefold().replace("-", "_"): name for name in reversed(names)}
    near = difflib.get_close_matches(word.casefold().replace("-", "_"), folded, 1)
    offer = f"; did you mean '{folded[near[0]]}'?" if near else ""
    more = f", ... {len(names) - 12} more" if len(names) > 12 else ""
    return f"{offer} (choose from {', '.join(names[:12])}{more})"


def dump(data: Any) -> str:
    """Return YAML that `load` (and any YAML 1.1 or 1.2 reader) turns back into the same data.

    Raises
    ------
    ValueError
        If the data holds None, which `load` refuses.
    """
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Reader:
    """Reads files and follows ``extends``."""

    def __init__(self, shorthand: frozenset[str], locate: Locate | None, files: list[Path] | None = None) -> None:
        self.shorthand = shorthand
        self.locate = locate or (lambda name, source: source.parent / name)
        self.files: list[Path] = [] if files is None else files

    def read(self, path: Path, at: Keys, chain: tuple[Path, ...], mention: Mark | None) -> _Tree:
        """Return a file, expanded, as the mapping at `at`; `chain` are the files that led here."""
        tree = _read(path, mention, (dotted(at) or "extends") if mention else "")
        if any(path.samefile(earlier) for earlier in chain):
            names = " -> ".join(_name(link) for link in (*chain, path))
            raise DocumentError(mention or tree.mark, dotted((*at, "extends")), f"files extend each other: {names}")
        if path not in self.files:
            self.files.append(path)
        return self.expand(tree, path, at, (*chain, path))

    def expand(self, tree: _Tree, source: Path, at: Keys, chain: tuple[Path, ...]) -> _Tree:
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
        merged: _Tree | None = None
        for name in _names(extends, (*at, "extends")) if extends else ():
            base = self.read(self.locate(name.content, source), at, chain, name.mark)
            merged = base if merged is None else _merge(merged, base)
        own = {key: self.expand(value, source, (*at, key), chain) for key, value in content.items() if key != "extends"}
        expanded = replace(tree, content=own)
        return expanded if merged is None else replace(_merge(merged, expanded), has_base=True)


def _names(extends: _Tree, at: Keys) -> list[_Tree]:
    """Return the file names of an ``extends``: text, or a list of text."""
    names = extends.content if isinstance(extends.content, list) else [extends]
    for name in names:
        if not isinstance(name.content, str) or not name.content:
            raise DocumentError(name.mark, dotted(at), "must be the name of a file, or a list of names")
    return list(names)


def _merge(base: _Tree, over: _Tree) -> _Tree:
    """Return `over` laid on `base`: mappings key by key, anything else replaced."""
    if not (isinstance(base.content, dict) and isinstance(over.content, dict)):
        return over
    content = dict(base.content)
    for key, value in over.content.items():
        inherited = content.get(key)
        content[key] = value if inherited is None or value.has_base else _merge(inherited, value)
    return replace(over, content=content)


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


def _document(tree: _Tree, files: list[Path]) -> Document:
    document = Document(None, files=files)
    document.data = _flatten(tree, (), document)
    return document


def _flatten(tree: _Tree, path: Keys, document: Document) -> Any:
    """Return the plain data of a tree and enter its marks into `document`."""
    document.values[path] = tree.mark
    if tree.key:
        document.keys[path] = tree.key
    if isinstance(tree.content, dict):
        return {key: _flatten(value, (*path, key), document) for key, value in tree.content.items()}
    if isinstance(tree.content, list):
        return [_flatten(item, (*path, index), document) for index, item in enumerate(tree.content)]
    return tree.content


def _name(path: Path) -> str:
    """Return a path as shown in messages, without detours such as ``scenarios/../topologies``."""
    return os.path.normpath(path)


def _read(path: Path, mention: Mark | None = None, at: str = "") -> _Tree:
    """Return the tree of one file; a file that cannot be opened is a mistake of the one that mentions it."""
    file = Mark(_name(path))
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"cannot be read: {reason[:1].lower()}{reason[1:]}"
        raise DocumentError(mention or file, at, f"{_name(path)} {rule}" if mention else rule) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        rule = f"is not UTF-8 text (byte 0x{error.object[error.start]:02x})"
        raise DocumentError(_place(file, before), "", rule) from None
    tree = _parse(text, file)
    if tree is None or tree.content is None:
        raise DocumentError(file, "", "the file is empty")
    if not isinstance(tree.content, dict):
        raise DocumentError(tree.mark, "", "must hold a mapping (key: value) at the top level")
    return tree


def _place(file: Mark, before: str) -> Mark:
    """Return the mark of the character that follows the text `before`."""
    if file.text:
        return file
    return Mark(file.file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _parse(text: str, file: Mark) -> _Tree | None:
    """Return the tree of a YAML text, None if it holds nothing; `file` is the mark of the whole."""
    strange = _UNPRINTABLE.search(text)
    if strange:
        rule = f"the character U+{ord(strange[0]):04X} is not allowed"
        raise DocumentError(_place(file, text[: strange.start()]), "", rule)
    try:
        return _Builder(yaml.parse(text, Loader=_PARSER), file).document()
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        rule = " ".join(f"invalid YAML: {error.problem or 'cannot be read'}".split())
        lines = text.splitlines()
        line = lines[place.line] if place and place.line < len(lines) else ""
        indent = line[: len(line) - len(line.lstrip())]
        if place and "\t" in indent + line[place.column : place.column + 1]:
            rule = "a tab cannot stand here; use spaces"
        elif "mapping values are not allowed" in rule:
            rule = "invalid YAML: a second ': ' in one line; quote the text"
        raise DocumentError(file if file.text or not place else _at(file, place), "", rule) from None
    except yaml.YAMLError as error:
        raise DocumentError(file, "", f"invalid YAML: {' '.join(str(error).split())}") from None


def _at(file: Mark, place: Any) -> Mark:
    """Return YAML's mark, counted from 1; everything in a ``--set`` has the mark of the option."""
    return file if file.text else Mark(file.file, place.line + 1, place.column + 1)


class _Builder:
    """Builds a tree from YAML events: no tags, no constructors, no recursion into unbounded depth."""

    def __init__(self, events: Iterator[Any], file: Mark) -> None:
        self.events = events
        self.file = file
        self.anchors: dict[str, _Tree] = {}

    def document(self) -> _Tree | None:
        """Return the one document of the stream."""
        next(self.events)  # start of the stream
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return None
        tree = self.value(next(self.events), ())
        next(self.events)  # end of the document
        following = next(self.events)
        if not isinstance(following, yaml.StreamEndEvent):
            raise self.error(following, (), "one file holds one document; remove the second '---'")
        return tree

    def error(self, event: Any, path: Keys, rule: str) -> DocumentError:
        return DocumentError(_at(self.file, event.start_mark), dotted(path), rule)

    def value(self, event: Any, path: Keys) -> _Tree:
        """Return the value that begins with `event`."""
        mark = _at(self.file, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise self.error(event, path, f"*{event.anchor} stands for nothing written before it")
            return self.anchors[event.anchor]
        if event.tag is not None:
            raise self.error(event, path, f"tags are not supported; remove {event.tag!r}")
        if len(path) > _DEEPEST:
            raise self.error(event, path[:3], "is nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            tree = _Tree(self.scalar(event, path), mark)
        else:
            content = self.sequence(path) if isinstance(event, yaml.SequenceStartEvent) else self.mapping(path)
            parts = content.values() if isinstance(content, dict) else content
            tree = _Tree(content, mark, size=1 + sum(part.size for part in parts))
            if tree.size > _LARGEST:
                raise self.error(event, path, f"holds more than {_LARGEST:,} values")
        if event.anchor:
            self.anchors[event.anchor] = tree
        return tree

    def sequence(self, path: Keys) -> list[_Tree]:
        items: list[_Tree] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            item = self.value(event, (*path, len(items)))
            if item.content is None:
                raise self.error(event, (*path, len(items)), "item has no value")
            items.append(item)
        return items

    def mapping(self, path: Keys) -> dict[str, _Tree]:
        content: dict[str, _Tree] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str):
                example = f"; write '{event.value}' in quotes" if isinstance(event, yaml.ScalarEvent) else ""
                raise self.error(event, path, f"a key must be text{example}")
            at = (*path, key)
            if key in content:
                first = content[key].key
                raise self.error(event, at, f"key is given twice (first on line {first.line if first else 0})")
            value = self.value(next(self.events), at)
            if value.content is None:
                hint = f"; write a space after ':' in {key!r}" if ":" in key else ""
                raise self.error(event, at, f"key has no value{hint}")
            content[key] = replace(value, key=_at(self.file, event.start_mark))
        return content

    def scalar(self, event: Any, path: Keys) -> Any:
        """Return the value of a scalar: quoted is text, plain may be something else."""
        try:
            return _scalar(event.value) if event.implicit[0] else event.value
        except ValueError:
            raise self.error(event, path, "number has too many digits") from None


def _scalar(text: str) -> Any:
    """Return the value of plain text by the rules of the YAML 1.2 core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text) if _FLOAT.fullmatch(text) else text


def _text_node(dumper: Any, text: str) -> Any:
    """Return text, quoted if `load` would take it for something else; PyYAML adds what 1.1 readers would."""
    try:
        is_text = isinstance(_scalar(text), str)
    except ValueError:
        is_text = False
    # Line breaks (there are five kinds) and their like are only safe as escapes.
    style = '"' if not text.isprintable() else None if is_text else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _no_node(_dumper: Any, _nothing: None) -> Any:
    message = "None cannot be written: leave the key out"
    raise ValueError(message)


class _Dumper(yaml.SafeDumper):
    """Writes text that cannot be misread, and repeats shared parts instead of naming them."""

    yaml_representers = yaml.SafeDumper.yaml_representers | {str: _text_node, type(None): _no_node}

    def ignore_aliases(self, _data: Any) -> bool:
        return True
