"""The table: its rows by group, as they stand in the folder ``tables``, and what is not checked."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from analysis.validation.measures import MEASURES
from analysis.validation.row import Row, Unchecked
from sim.yamlfile import DocumentError, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sim.yamlfile import Tree

_HERE = Path(__file__).parent

_KEYS = ("group", "title", "rows", "unchecked")

Stated = TypeVar("Stated", bound=BaseModel)


class Group(NamedTuple):
    """Rows that belong together, mostly those of one paper."""

    name: str
    title: str
    rows: tuple[Row, ...]


class Table(NamedTuple):
    """All groups, and all that is not checked."""

    groups: tuple[Group, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all groups, in order."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def stochastic(self) -> int:
        """Number of rows with luck in them: they share the error rate of the table."""
        return sum(row.is_stochastic for row in self.rows)


def load_table(folder: Path = _HERE, measures: Mapping[str, Any] = MEASURES) -> Table:
    """Return the table of a folder: ``tables/*.yaml`` in order of their names, and ``not_checked.yaml``.

    Parameters
    ----------
    folder
        Where both are.
    measures
        The measures that rows may name.

    Raises
    ------
    ValueError
        If a file is not as it should be; one line with the file and the row.
    """
    groups: list[Group] = []
    unchecked: list[Unchecked] = []
    seen: dict[str, str] = {}
    for path in sorted((folder / "tables").glob("*.yaml")):
        content = _content(path, _KEYS)
        rows = tuple(_row(path, content, number, measures) for number in range(len(content["rows"])))
        for row in rows:
            if row.id in seen:
                message = f"{path.name}: row '{row.id}' is in {seen[row.id]} already"
                raise ValueError(message)
            seen[row.id] = path.name
        groups.append(Group(path.stem, str(content["title"]), rows))
        unchecked += _unchecked(path, content)
    path = folder / "not_checked.yaml"
    unchecked += _unchecked(path, _content(path, ("unchecked",)))
    return Table(tuple(groups), tuple(unchecked))


def chosen(table: Table, only: Iterable[str] = ()) -> Table:
    """Return the rows that are in the named groups or have the named ids; without names, all, and what is unchecked.

    Raises
    ------
    ValueError
        If nothing has such a name.
    """
    names = set(only)
    if not names:
        return table
    known = {group.name for group in table.groups} | {row.id for row in table.rows}
    for name in sorted(names - known):
        near = difflib.get_close_matches(name, sorted(known), 1)
        offer = f"; did you mean '{near[0]}'?" if near else f" (groups: {', '.join(g.name for g in table.groups)})"
        message = f"no group and no row is called '{name}'{offer}"
        raise ValueError(message)
    groups = []
    for group in table.groups:
        rows = tuple(row for row in group.rows if group.name in names or row.id in names)
        if rows:
            groups.append(group._replace(rows=rows))
    return Table(tuple(groups), ())


def _content(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a file as plain data, with no other keys than these and all but the last of them."""
    try:
        content: dict[str, Any] = _plain(read(path))
    except DocumentError as error:
        message = f"{path.name}: {error.rule}" + (f" (line {error.mark.line})" if error.mark.line else "")
        raise ValueError(message) from None
    for key in content:
        if key not in keys:
            message = f"{path.name}: no key '{key}' (keys: {', '.join(keys)})"
            raise ValueError(message)
    for key in keys[:-1]:
        if key not in content:
            message = f"{path.name}: the key '{key}' is missing"
            raise ValueError(message)
    if content.get("group", path.stem) != path.stem:
        message = f"{path.name}: the group is called like the file, '{path.stem}', not '{content['group']}'"
        raise ValueError(message)
    return content


def _plain(tree: Tree) -> Any:
    """Return a tree without the places of its values."""
    if isinstance(tree.content, dict):
        return {key: _plain(value) for key, value in tree.content.items()}
    if isinstance(tree.content, list):
        return [_plain(value) for value in tree.content]
    return tree.content


def _row(path: Path, content: dict[str, Any], number: int, measures: Mapping[str, Any]) -> Row:
    """Return one row of a file, checked."""
    stated = content["rows"][number]
    name = stated.get("id", number) if isinstance(stated, dict) else number
    where = f"{path.name}: row '{name}'"
    row = _made(Row, {"group": path.stem, **stated} if isinstance(stated, dict) else stated, where)
    if row.group != path.stem:
        message = f"{where}: is of the group '{path.stem}', not '{row.group}'"
        raise ValueError(message)
    if row.measure not in measures:
        near = difflib.get_close_matches(row.measure, sorted(measures), 1)
        message = f"{where}: no measure '{row.measure}'" + (f"; did you mean '{near[0]}'?" if near else "")
        raise ValueError(message)
    return row


def _unchecked(path: Path, content: dict[str, Any]) -> list[Unchecked]:
    """Return what a file says is not checked."""
    entries = content.get("unchecked", [])
    return [_made(Unchecked, entry, f"{path.name}: unchecked {number}") for number, entry in enumerate(entries)]


def _made(kind: type[Stated], content: Any, where: str) -> Stated:
    """Return a model of plain data; the first thing that is wrong with it is told in one line."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        message = f"{where}: {place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}"
        raise ValueError(message) from None
