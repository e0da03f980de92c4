"""Scenario files with everything that they extend and ``--set``, and the place where every value was written.

``extends:`` may stand in any mapping and names files relative to the one that says so, or what comes with the program.
What the file says wins: mappings are merged, anything else is replaced, and a mapping with its own ``extends`` replaces
the inherited one.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

# Strict YAML 1.2 core with the place of every key and value: ``no`` and ``10:30`` are text, ``1e6`` is a number,
# ``010`` is ten. A duplicate key, a key without a value, one that is not text and a tag are refused.

Keys: TypeAlias = tuple[str | int, ...]

Data: TypeAlias = Any
"""Plain data: mappings by text, lists, text, numbers, truth values."""

Table: TypeAlias = dict[str, Data]

Event: TypeAlias = Any
"""An event of PyYAML for a text, or a mark of its own; it has no types."""

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
_LARGEST = 1_000_000  # values after aliases and extends are expanded: a few lines of them can stand for billions
_LONGEST = 100  # files of which each extends the next
_MOST_EXTENDED = 10_000  # places at which files are extended


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

    content: Data
    mark: Mark
    key: Mark | None = None
    size: int = 1
    has_base: bool = False
    stale: bool = False


def plain(tree: Tree | None) -> Data:
    """Return a tree without the places of its values."""
    content = tree.content if tree is not None else None
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    return [plain(value) for value in content] if isinstance(content, list) else content


def dotted(path: Keys) -> str:
    """Return a path as people write it: ``jobs.0.gpus``."""
    return ".".join(str(step) for step in path)


def has(holder: Data, step: str | int) -> bool:
    """Return whether there is an item or a key `step` in `holder`."""
    if isinstance(holder, list | tuple):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder


def copied(data: Data) -> Data:
    """Return a copy of plain data: mappings and lists again, what is in them as it is."""
    if isinstance(data, dict):
        return {key: copied(value) for key, value in data.items()}
    return [copied(item) for item in data] if isinstance(data, list) else data


def readers(scenario: Table) -> list[Keys]:
    """Return the paths of a scenario at which something may read a file."""
    lists = {key: scenario.get(key) for key in ("failures", "streams")}
    strategies: list[Keys] = [
        (key, index) for key, items in lists.items() if isinstance(items, list) for index in range(len(items))
    ]
    services = scenario.get("services")
    demands = [("services", index, "demand") for index in range(len(services))] if isinstance(services, list) else []
    return [*strategies, *demands, ("cluster", "fabric")]


def value_at(data: Data, path: Keys, otherwise: Data) -> Data:
    """Return what was written at a path; a validated default is not there."""
    for step in path:
        if not has(data, step):
            return otherwise
        data = data[step]
    return data


def dump(data: Data) -> str:
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
    check_kind(path)
    return path.read_bytes()


def check_kind(path: Path) -> None:
    """Raise an OSError for a pipe, a socket or a device."""
    mode = path.stat().st_mode
    kinds = {stat.S_ISFIFO: "pipe", stat.S_ISSOCK: "socket", stat.S_ISCHR: "device", stat.S_ISBLK: "device"}
    for is_kind, name in kinds.items():
        if is_kind(mode):
            raise OSError(0, f"it is a {name}, not a file")


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
    """Return an offer of the file next to a missing one whose name is nearest, or nothing."""
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


def _at(file: Mark, place: Event) -> Mark:
    """Return YAML's mark, counted from 1; everything in a ``--set`` has the mark of the option."""
    return file if file.text else Mark(file.file, place.line + 1, place.column + 1)


class _Builder:
    """Builds a tree from YAML events: no tags, no constructors, no recursion into unbounded depth."""

    def __init__(self, events: Iterator[Event], file: Mark) -> None:
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

    def error(self, event: Event, path: Keys, rule: str) -> DocumentError:
        return DocumentError(_at(self.file, event.start_mark), dotted(path), rule)

    def value(self, event: Event, path: Keys) -> Tree:
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
            if isinstance(key, int) and not isinstance(key, bool):
                key = event.value
            if not isinstance(key, str):
                example = f"; write '{event.value}' in quotes" if isinstance(event, yaml.ScalarEvent) else ""
                raise self.error(event, path, f"a key must be text{example}")
            at = (*path, key)
            if key in content:
                first = content[key].key
                raise self.error(event, at, f"key is given twice (first on line {first.line if first else 0})")
            value_event = next(self.events)
            value = self.value(value_event, at)
            # What a study sets may be a null that is written out: it removes a key of the scenario.
            if value.content is None and not (path == ("set",) and value_event.value):
                hint = f"; write a space after ':' in {key!r}" if ":" in key else ""
                raise self.error(event, at, f"key has no value{hint}")
            content[key] = replace(value, key=_at(self.file, event.start_mark))
        return content

    def scalar(self, event: Event, path: Keys) -> Data:
        """Return the value of a scalar: quoted is text, plain may be something else."""
        try:
            return _scalar(event.value) if event.implicit[0] else event.value
        except ValueError:
            raise self.error(event, path, "number has too many digits") from None


def _scalar(text: str) -> Data:
    """Return the value of plain text by the rules of the YAML 1.2 core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text) if _FLOAT.fullmatch(text) else text


def _text_node(dumper: Any, text: str) -> Data:
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

    def ignore_aliases(self, _data: Data) -> bool:
        return True


Locate: TypeAlias = Callable[[str, Path], Path]
Catalog: TypeAlias = Callable[[Keys], Mapping[str, Path]]

FILE_KEYS = ("file", "inventory")
"""Keys that name a file which a strategy reads."""

FORMER_USE = ("law", "kind", "observer", "ask")
"""Former words for `use`, which names the choice whose parameters the other keys of its mapping are."""

_log = logging.getLogger("ettrick")
_hinted: set[str] = set()

_NAMES = {"accelerator": "like"}
"""Keys at which a name may stand for a mapping, and the key in it that the name is for."""


@dataclass
class YamlDocument:
    """The content of a file, and the place of each part.

    Attributes
    ----------
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

    data: Data
    keys: dict[Keys, Mark] = field(default_factory=dict)
    values: dict[Keys, Mark] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    stale: set[Keys] = field(default_factory=set)
    preset: str = ""
    laid: set[Keys] = field(default_factory=set)

    def copy(self) -> YamlDocument:
        """Return a copy that can be changed."""
        return replace(
            self,
            data=copied(self.data),
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


def _former_use(names: Mapping[str, Data]) -> str:
    """Return the former word for `use` in a mapping whose scalars are `names`: one whose value begins as a name does.

    In `{weight: 1, law: 30 min}` the key is one of its own.
    """
    words = [word for word in FORMER_USE if isinstance(names.get(word), str) and names[word][:1].isalpha()]
    return words[0] if words and "use" not in names else ""


def hint(mark: Mark, former: str, today: str) -> None:
    """Log that something is written in another way today; the first place in a file only."""
    if (mark.text or mark.file) not in _hinted:
        _hinted.add(mark.text or mark.file)
        _log.warning("%s: hint: '%s' is now written '%s'; both are read", mark, former, today)


def with_use(tree: Tree) -> Tree:
    """Return a tree in which `use` stands where a former word for it does; the first place in a file is logged."""
    content = tree.content
    if isinstance(content, list):
        return replace(tree, content=[with_use(item) for item in content])
    if not isinstance(content, dict):
        return tree
    word = _former_use({key: value.content for key, value in content.items()})
    if word:
        name = content[word].content
        hint(content[word].key or tree.mark, f"{word}: {name}", f"use: {name}")
    return replace(
        tree, content={"use" if word and key == word else key: with_use(value) for key, value in content.items()}
    )


def data_with_use(data: Data) -> Data:
    """Return a copy of plain data in which `use` stands where a former word for it does."""
    if isinstance(data, list | tuple):
        return [data_with_use(item) for item in data]
    if not isinstance(data, dict):
        return data
    word = _former_use(data)
    return {"use" if word and key == word else key: data_with_use(value) for key, value in data.items()}


def load(path: Path) -> YamlDocument:
    """Return what one file says; ``extends`` is left as it stands.

    Raises
    ------
    DocumentError
        If the file cannot be read, is not strict YAML, or holds no mapping.
    """
    return _document(with_use(read(path)), [path])


def extend(
    path: Path, *, shorthand: Iterable[str] = (), locate: Locate | None = None, catalog: Catalog | None = None
) -> YamlDocument:
    """Return what a file says together with everything that it extends.

    Parameters
    ----------
    shorthand : iterable of str
        Dotted paths at which text is the name of a file: ``cluster: x.yaml`` means ``cluster: {extends: x.yaml}``.
    locate : callable, optional
        Turns a name, and the file that mentions it, into a path; by default names are relative to that file.
    catalog : callable, optional
        Given where in the document, files by names that stand for them there unless there is a file of this name.

    Raises
    ------
    DocumentError
        As `load`, for any of the files, and if files extend each other in a circle.
    """
    reader = _FileReader(frozenset(shorthand), locate, catalog, [])
    return _document(reader.read(path, (), (), None), reader.files)


def value_text(value: object) -> str:
    """Return a value as `assign` reads it behind the ``=``: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def assign(
    document: YamlDocument,
    text: str,
    *,
    shorthand: Iterable[str] = (),
    locate: Locate | None = None,
    catalog: Catalog | None = None,
    in_place: bool = False,
) -> YamlDocument:
    """Return a document with one value set, as by ``--set jobs.0.gpus=16``; ``spares=null`` removes a key.

    It is a copy, or changed `in_place`. Missing mappings are created; whether the path means anything is for validation
    to say. Files named by the value (see `extend`) are relative to the working directory.

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
    result = document if in_place else document.copy()
    holder, path = _descend(result, steps, mark)
    tree = parse(value_text, mark)
    if tree is None or (tree.content is None and not value_text.strip()):
        raise DocumentError(mark, dotted(path), "has no value; null would remove the key")
    if tree.content is None:
        return _without(result, holder, path, mark)
    reader = _FileReader(frozenset(shorthand), locate, catalog, result.files)
    tree = replace(reader.expand(with_use(tree), Path("--set"), path, ()), key=mark)
    if path[-1] == "use" and holder.get(path[-1]) != tree.content:
        result.stale |= {(*path[:-1], key) for key in holder}
    result.forget(path)
    holder[path[-1]] = _flatten(tree, path, result)
    return result


def _descend(document: YamlDocument, steps: list[str], mark: Mark) -> tuple[Data, Keys]:
    """Return what holds the value to which steps lead, and its path; mappings that are missing on the way are made."""
    holder: Data = document.data
    path: Keys = ()
    for step in steps[:-1]:
        key = _step(holder, step, path, mark)
        path = (*path, key)
        if isinstance(holder, dict) and key not in holder:
            holder[key] = {}
            document.keys[path] = document.values[path] = mark
        elif isinstance(holder[key], str) and key in _NAMES:
            # The name alone is short for a mapping with one key.
            holder[key] = {_NAMES[str(key)]: holder[key]}
            document.values[(*path, _NAMES[str(key)])] = document.values[path]
        holder = holder[key]
    return holder, (*path, _step(holder, steps[-1], path, mark))


def _without(document: YamlDocument, holder: Data, path: Keys, mark: Mark) -> YamlDocument:
    """Return the document, which is changed, without a key of one of its mappings."""
    rule = ""
    if not isinstance(holder, dict):
        rule = "is an item of a list: null removes keys only; write the list without it"
    elif path[-1] not in holder:
        rule = f"no such key to remove{suggest(str(path[-1]), holder)}"
    elif path in document.laid:
        rule = f"is brought by preset {document.preset}: write what it should be instead, or choose no preset"
    if rule:
        raise DocumentError(mark, dotted(path), rule)
    del holder[path[-1]]
    document.forget(path)
    return document


def nearest_mark(document: YamlDocument, path: Keys) -> Mark:
    """Return where the value at `path` was written, or else the nearest mapping or list around it."""
    return document.values[nearest_place(document, path)]


def nearest_place(document: YamlDocument, path: Keys) -> Keys:
    """Return `path` if a value was written there, or else the path of the nearest mapping or list around it."""
    return next(path[:end] for end in range(len(path), -1, -1) if path[:end] in document.values)


def key_mark(document: YamlDocument, path: Keys) -> Mark:
    """Return where the key at `path` was written, or else the nearest value around it."""
    return document.keys.get(path) or nearest_mark(document, path)


SYNONYMS = dict.fromkeys(("account", "accounts", "project", "qos", "quota", "quotas"), ("tenants", "tenant"))
"""The names of things in other schedulers, and their names here."""


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is spelled most like a word, or means the same elsewhere, if there is one."""
    folded = {name.casefold().replace("-", "_"): name for name in reversed(list(choices))}
    plain = word.casefold().replace("-", "_")
    meant = [name for name in SYNONYMS.get(plain, ()) if name in folded and plain not in folded]
    near = meant or difflib.get_close_matches(plain, folded, 1)
    return folded[near[0]] if near else None


def suggest(word: str, choices: Iterable[str], most: int = 12) -> str:
    """Return the end of a message about an unknown word: the nearest choice, and up to `most` of them."""
    names = list(dict.fromkeys(choices))
    if not names:
        return ""
    near = nearest(word, names)
    offer = f"; did you mean '{near}'?" if near else ""
    return f"{offer} (choose from {listed(names, most)})"


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return names in a row, up to `most` of them, and how many more there are."""
    more = f", ... {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


class _FileReader:
    """Reads files and follows ``extends``."""

    def __init__(
        self, shorthand: frozenset[str], locate: Locate | None, catalog: Catalog | None, files: list[Path]
    ) -> None:
        self.shorthand = shorthand
        self.locate = locate or (lambda name, source: source.parent / name)
        self.catalog = catalog or (lambda _: {})
        self.files = files
        self._trees: dict[object, Tree] = {}
        self._expanded: dict[tuple[object, Keys], Tree] = {}
        self._values = 0

    def read(self, path: Path, at: Keys, chain: tuple[Path, ...], mention: Mark | None) -> Tree:
        """Return a file, expanded, as the mapping at `at`; `chain` are the files that led here.

        A file is read once, and expanded once for each place at which it stands.
        """
        inode = _inode(path)
        if inode not in self._trees:
            self._trees[inode] = with_use(read(path, mention, (dotted(at) or "extends") if mention else ""))
        mark, extends = mention or self._trees[inode].mark, dotted((*at, "extends"))
        if inode in map(_inode, chain):
            names = " -> ".join(shown(link) for link in (*chain, path))
            raise DocumentError(mark, extends, f"files extend each other: {names}")
        if len(chain) >= _LONGEST:
            raise DocumentError(mark, extends, f"more than {_LONGEST} files extend one another in a row")
        if len(self._expanded) >= _MOST_EXTENDED:
            raise DocumentError(mark, dotted(at[:3]), f"files are extended at more than {_MOST_EXTENDED:,} places")
        if path not in self.files:
            self.files.append(path)
        if (inode, at) not in self._expanded:
            self._expanded[inode, at] = self.expand(self._trees[inode], path, at, (*chain, path))
        return self._expanded[inode, at]

    def expand(self, tree: Tree, source: Path, at: Keys, chain: tuple[Path, ...]) -> Tree:
        """Return `tree` with every ``extends`` in it followed."""
        self._values += 1
        if self._values > _LARGEST or len(at) > _DEEPEST:
            rule = f"holds more than {_LARGEST:,} values" if self._values > _LARGEST else "is nested too deeply"
            raise DocumentError(tree.mark, dotted(at[:3]), f"with what its files extend, {rule}")
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
        stated = {
            key: self.expand(value, source, (*at, key), chain) for key, value in content.items() if key != "extends"
        }
        expanded = replace(tree, content=stated)
        return expanded if merged is None else replace(_merge(merged, expanded), has_base=True)

    def _found(self, name: Tree, source: Path, at: Keys) -> Path:
        """Return the file of a name: the one there, or what is known by it."""
        files_by_name = self.catalog(at)
        file = known_file(self.locate(name.content, source), name.content, files_by_name)
        if file is None:
            rule = f"no such file, and nothing with this name is bundled{suggest(name.content, files_by_name)}"
            raise DocumentError(name.mark, dotted(at) or "extends", f"{name.content}: {rule}")
        return file


def _inode(path: Path) -> object:
    """Return what tells a file from all others, by whatever name and link; the path of one that is not there."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return path
    return status.st_dev, status.st_ino


def known_file(path: Path, name: str, files_by_name: Mapping[str, Path]) -> Path | None:
    """Return a file by its name: the one at `path` if it is there, else the known one; ``None`` if it is neither.

    What has the ending or the folder of a file is never taken for a name.
    """
    is_there = os.path.exists(path)  # noqa: PTH110  (no error for a name that no file can have)
    if name in files_by_name and not (is_there and not path.is_dir()):
        return files_by_name[name]
    is_file = is_there or path.suffix in (".yaml", ".yml") or Path(name).name != name
    return path if is_file or not files_by_name else None


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
    if "use" in over.content and _plain(over, "use") != _plain(base, "use"):
        content = {key: replace(value, stale=True) for key, value in content.items()}
    for key, value in over.content.items():
        inherited = content.get(key)
        name = _NAMES.get(str(key))
        if name is not None and inherited is not None and isinstance(inherited.content, str):
            # A name alone is short for a mapping with one key.
            inherited = replace(inherited, content={name: inherited})
        content[key] = value if inherited is None or value.has_base else _merge(inherited, value)
    return replace(over, content=content)


def _plain(tree: Tree, key: str) -> Data:
    """Return what the mapping `tree` has at `key`, None if it has nothing there."""
    return tree.content[key].content if key in tree.content else None


def _step(holder: Data, step: str, path: Keys, mark: Mark) -> str | int:
    """Return the key or index that `step` means in `holder`."""
    if isinstance(holder, dict):
        return step
    if not isinstance(holder, list):
        raise DocumentError(mark, dotted(path), f"is {holder!r}, not a mapping: there is no {step!r} in it")
    if not re.fullmatch("[0-9]{1,9}", step) or int(step) >= len(holder):
        rule = f"is a list of {len(holder)}, counted from 0: there is no item {step!r}"
        raise DocumentError(mark, dotted(path), rule)
    return int(step)


def _document(tree: Tree, files: list[Path]) -> YamlDocument:
    document = YamlDocument(None, files=files)
    document.data = _flatten(tree, (), document)
    return document


def _flatten(tree: Tree, path: Keys, document: YamlDocument) -> Data:
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
