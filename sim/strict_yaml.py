"""Strict YAML 1.2 core with the place of every key and value, and YAML that every reader understands.

``no`` and ``10:30`` are text, ``1e6`` is a number, ``010`` is ten. A duplicate key, a key without a value, a key that
is not text and a tag are refused; a merge key is plain text. Nothing is guessed.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import stat
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "DocumentError",
    "Keys",
    "Mark",
    "Tree",
    "content_of",
    "dotted",
    "dump",
    "neighbour",
    "parse",
    "read",
    "shown",
]

Keys: TypeAlias = tuple[str | int, ...]

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


@dataclass(frozen=True)
class Tree:
    """A value with its marks; ``content`` is a mapping or list of trees, or a scalar."""

    content: Any
    mark: Mark
    key: Mark | None = None
    size: int = 1
    has_base: bool = False
    stale: bool = False


def dotted(path: Keys) -> str:
    """Return a path as people write it: ``jobs.0.gpus``."""
    return ".".join(str(step) for step in path)


def dump(data: Any) -> str:
    """Return YAML that `load` (and any YAML 1.1 or 1.2 reader) turns back into the same data.

    Raises
    ------
    ValueError
        If the data holds None, which `load` refuses.
    """
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def shown(path: Path) -> str:
    """Return a path as shown in messages, without detours such as ``scenarios/../topologies``."""
    return os.path.normpath(path)


def content_of(path: Path) -> bytes:
    """Return what is in a file; a pipe, a socket or a device might never end, or never begin.

    Raises
    ------
    OSError
        If it is none of a file's kind, or cannot be read.
    """
    mode = path.stat().st_mode
    kinds = {stat.S_ISFIFO: "pipe", stat.S_ISSOCK: "socket", stat.S_ISCHR: "device", stat.S_ISBLK: "device"}
    for is_kind, name in kinds.items():
        if is_kind(mode):
            raise OSError(0, f"it is a {name}, not a file")
    return path.read_bytes()


def read(path: Path, mention: Mark | None = None, at: str = "") -> Tree:
    """Return the tree of one file; a file that cannot be opened is a mistake of the one that mentions it."""
    file = Mark(shown(path))
    try:
        content = content_of(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"cannot be read: {reason[:1].lower()}{reason[1:]}{neighbour(path)}"
        raise DocumentError(mention or file, at, f"{shown(path)} {rule}" if mention else rule) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        rule = f"is not UTF-8 text (byte 0x{error.object[error.start]:02x})"
        raise DocumentError(_place(file, before), "", rule) from None
    tree = parse(text, file)
    if tree is None or tree.content is None:
        raise DocumentError(file, "", "the file is empty")
    if not isinstance(tree.content, dict):
        raise DocumentError(tree.mark, "", "must hold a mapping (key: value) at the top level")
    return tree


def neighbour(path: Path) -> str:
    """Return an offer of the file beside a missing one whose name is nearest, or nothing."""
    near: list[str] = []
    with contextlib.suppress(OSError, ValueError):
        if not path.exists():
            # Without the suffix, which would make all names look alike.
            names = {file.stem: file.name for file in path.parent.iterdir()}
            near = [names[stem] for stem in difflib.get_close_matches(path.stem, names, 1)]
    return f"; did you mean '{near[0]}'?" if near else ""


def _place(file: Mark, before: str) -> Mark:
    """Return the mark of the character that follows the text `before`."""
    if file.text:
        return file
    return Mark(file.file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def parse(text: str, file: Mark) -> Tree | None:
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
        self.anchors: dict[str, Tree] = {}

    def document(self) -> Tree | None:
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

    def value(self, event: Any, path: Keys) -> Tree:
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
            tree = Tree(self.scalar(event, path), mark)
        else:
            content = self.sequence(path) if isinstance(event, yaml.SequenceStartEvent) else self.mapping(path)
            parts = content.values() if isinstance(content, dict) else content
            tree = Tree(content, mark, size=1 + sum(part.size for part in parts))
            if tree.size > _LARGEST:
                raise self.error(event, path, f"holds more than {_LARGEST:,} values")
        if event.anchor:
            self.anchors[event.anchor] = tree
        return tree

    def sequence(self, path: Keys) -> list[Tree]:
        items: list[Tree] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            item = self.value(event, (*path, len(items)))
            if item.content is None:
                raise self.error(event, (*path, len(items)), "item has no value")
            items.append(item)
        return items

    def mapping(self, path: Keys) -> dict[str, Tree]:
        content: dict[str, Tree] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.scalar(event, path) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str):
                example = f"; write '{event.value}' in quotes" if isinstance(event, yaml.ScalarEvent) else ""
                raise self.error(event, path, f"a key must be text{example}")
            at = (*path, key)
            if key in content:
                first = content[key].key
                raise self.error(event, at, f"key is given twice (first on line {first.line if first else 0})")
            said = next(self.events)
            value = self.value(said, at)
            # What a study sets may be a null that is written out: it removes a key of the scenario.
            if value.content is None and not (path == ("set",) and said.value):
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


class _Dumper(yaml.SafeDumper):
    """Writes text that cannot be misread, and repeats shared parts instead of naming them."""

    yaml_representers = yaml.SafeDumper.yaml_representers | {str: _text_node}

    def ignore_aliases(self, _data: Any) -> bool:
        return True
