"""The table: values that others have stated, how near ours must be, and the files that say so."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ettrick.analysis.validation.measures import MEASURES
from ettrick.sim.yamlfile import DocumentError, plain, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Kind: TypeAlias = Literal["printed", "relative", "absolute", "sampling", "at_least", "at_most", "interval", "must_miss"]


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True)


class Tolerance(_Stated):
    """The tolerance of our value, and its reason.

    ``noise`` below is the half-width that the error rate of the whole table leaves to a row.
    """

    kind: Kind = Field(
        description=(
            "`printed`: as printed, within half a digit (`size`). `relative`, `absolute`: within `size`. `interval`: "
            "between `low` and `high`. To these four the sampling error is added, which must not be larger than the "
            "tolerance. `sampling`: equal but for sampling error of at most `most_noise`, and an edge of `size`. "
            "`at_least`, `at_most`: an inequality that sampling error does not explain. `must_miss`: a wrong model is "
            "off by more than `size` and sampling error."
        )
    )
    size: float = Field(0.0, ge=0, description="How much [unit of the row; of the value for `relative`].")
    low: float | None = None
    high: float | None = None
    most_noise: float = Field(
        0.1,
        gt=0,
        description="Largest sampling error of `sampling` [of the expected value; where that is 0, unit of the row].",
    )
    why: str = Field(min_length=1, description="Why so much and not less.")

    @model_validator(mode="after")
    def _has_its_numbers(self) -> Self:
        if (self.kind == "interval") != (self.low is not None and self.high is not None):
            raise ValueError("low and high belong to kind: interval, and it needs both")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high")
        if self.kind in ("printed", "relative", "absolute", "must_miss") and not self.size:
            raise ValueError(f"kind: {self.kind} needs a size")
        if self.kind != "sampling" and "most_noise" in self.model_fields_set:
            raise ValueError(
                "most_noise belongs to kind: sampling; elsewhere the sampling error is at most the tolerance"
            )
        return self


class Conventions(_Stated):
    """The conventions that make two numbers comparable; - where they do not matter."""

    failures_in_restart: Literal["yes", "no", "-"] = "-"
    downtime_in_mtbf: Literal["yes", "no", "-"] = "-"
    queue_in_denominator: Literal["yes", "no", "-"] = "-"
    write_in_interval: Literal["yes", "no", "-"] = "-"
    start: Literal["cold", "warmed up", "stationary", "-"] = "-"


class PublishedRow(_Stated):
    """A published value, and the condition on ours.

    Parameters
    ----------
    id
        Name, unique in the table: ``daly-wallclock-15min``.
    group
        Which part of the table it belongs to; the name of its file.
    paper, where
        Who states it, and in which figure, table or section.
    provenance
        ``primary``: read in the source. ``secondary``: quoted by somebody else. ``derived``: worked out from stated
        figures. ``theory``: a closed form. ``program``: what another program printed.
    value
        The stated value; ``None`` where the measure works out what theory expects.
    label
        ``calibrated``: it, or what it follows from, was an input. ``emergent``: it comes out of the mechanism from
        other inputs. ``sanity``: an inequality, a limit, an order. ``identity``: the measure has the formula of the
        row, or its inputs are the value, so that the simulator cannot fail it.
    measure, arguments
        Name of the function that makes ours, and what it is called with.
    replications
        How many it simulates; 0 for a formula.
    independent
        Whether no other row rests on the same replications, so that its p-value counts in the combined one.
    only_reads
        Whether it reads these data alone, and so checks the reading of them, not the simulator.
    """

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9.]+)*$")
    group: str
    quantity: str
    paper: str
    where: str
    provenance: Literal["primary", "secondary", "derived", "theory", "program"]
    inputs: str
    value: float | None = None
    unit: str
    tolerance: Tolerance
    label: Literal["calibrated", "emergent", "sanity", "identity"]
    conventions: Conventions = Conventions()
    measure: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    replications: int = Field(0, ge=0)
    independent: bool = False
    needs_data: bool = False
    only_reads: bool = False

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        kind = self.tolerance.kind
        if self.replications == 1 or (kind == "sampling" and not self.replications):
            raise ValueError("needs two replications or more: one does not say how much it varies")
        if self.label == "identity" and kind == "sampling":
            raise ValueError("an identity has no sampling error: it cannot fail")
        if self.independent and kind != "sampling":
            raise ValueError("independent belongs to kind: sampling, because only it has a p-value")
        if self.only_reads and not (self.needs_data and self.label == "sanity" and not self.replications):
            raise ValueError("only_reads belongs to a row that needs data, simulates nothing and is labelled sanity")
        return self

    @property
    def is_stochastic(self) -> bool:
        """Whether it is random."""
        return self.replications > 0


class Unchecked(_Stated):
    """A published value that is not compared, and why not."""

    paper: str
    what: str
    why: str


_HERE = Path(__file__).parent
_KEYS = ("group", "title", "rows", "unchecked")
Stated = TypeVar("Stated", bound=BaseModel)


class RowGroup(NamedTuple):
    """Rows that belong together, mostly those of one paper."""

    name: str
    title: str
    rows: tuple[PublishedRow, ...]


class ValidationTable(NamedTuple):
    """All groups, and all that is not checked."""

    groups: tuple[RowGroup, ...]
    unchecked: tuple[Unchecked, ...]

    @property
    def rows(self) -> tuple[PublishedRow, ...]:
        """The rows of all groups, in order."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def stochastic(self) -> int:
        """Number of rows with random numbers in them: they share the error rate of the table."""
        return sum(row.is_stochastic for row in self.rows)


def load_table(folder: Path = _HERE, measures: Mapping[str, Any] = MEASURES) -> ValidationTable:
    """Return the table of a folder: ``tables/*.yaml`` in order of their names, and ``not_checked.yaml``.

    Raises
    ------
    ValueError
        If a file is not as it should be; one line with the file and the row.
    """
    groups: list[RowGroup] = []
    unchecked: list[Unchecked] = []
    seen: dict[str, str] = {}
    for path in sorted((folder / "tables").glob("*.yaml")):
        content = _content(path, _KEYS)
        rows = tuple(_row(path, content, number, measures) for number in range(len(content["rows"])))
        for row in rows:
            if row.id in seen:
                raise ValueError(f"{path.name}: row '{row.id}' is in {seen[row.id]} already")
            seen[row.id] = path.name
        groups.append(RowGroup(path.stem, str(content["title"]), rows))
        unchecked += _unchecked(path, content)
    path = folder / "not_checked.yaml"
    unchecked += _unchecked(path, _content(path, ("unchecked",)))
    return ValidationTable(tuple(groups), tuple(unchecked))


def chosen(table: ValidationTable, only: Iterable[str] = ()) -> ValidationTable:
    """Return the rows that are in the named groups or have the named ids; without names, all, and what is unchecked."""
    names = set(only)
    if not names:
        return table
    valid_names = {group.name for group in table.groups} | {row.id for row in table.rows}
    for name in sorted(names - valid_names):
        near = difflib.get_close_matches(name, sorted(valid_names), 1)
        offer = f"; did you mean '{near[0]}'?" if near else f" (groups: {', '.join(g.name for g in table.groups)})"
        raise ValueError(f"no group and no row is called '{name}'{offer}")
    groups = []
    for group in table.groups:
        rows = tuple(row for row in group.rows if group.name in names or row.id in names)
        if rows:
            groups.append(group._replace(rows=rows))
    return ValidationTable(tuple(groups), ())


def _content(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a file as plain data, with no other keys than these and all but the last of them."""
    try:
        content: dict[str, Any] = plain(read(path))
    except DocumentError as error:
        message = f"{path.name}: {error.rule}" + (f" (line {error.mark.line})" if error.mark.line else "")
        raise ValueError(message) from None
    for key in content:
        if key not in keys:
            raise ValueError(f"{path.name}: no key '{key}' (keys: {', '.join(keys)})")
    for key in keys[:-1]:
        if key not in content:
            raise ValueError(f"{path.name}: the key '{key}' is missing")
    if content.get("group", path.stem) != path.stem:
        raise ValueError(f"{path.name}: the group is called like the file, '{path.stem}', not '{content['group']}'")
    return content


def _row(path: Path, content: dict[str, Any], number: int, measures: Mapping[str, Any]) -> PublishedRow:
    """Return one row of a file, checked."""
    stated = content["rows"][number]
    name = stated.get("id", number) if isinstance(stated, dict) else number
    where = f"{path.name}: row '{name}'"
    row = _made(PublishedRow, {"group": path.stem, **stated} if isinstance(stated, dict) else stated, where)
    if row.group != path.stem:
        raise ValueError(f"{where}: is of the group '{path.stem}', not '{row.group}'")
    if row.measure not in measures:
        near = difflib.get_close_matches(row.measure, sorted(measures), 1)
        raise ValueError(f"{where}: no measure '{row.measure}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    return row


def _unchecked(path: Path, content: dict[str, Any]) -> list[Unchecked]:
    """Return what a file says is not checked."""
    entries = content.get("unchecked", [])
    return [_made(Unchecked, entry, f"{path.name}: unchecked {number}") for number, entry in enumerate(entries)]


def _made(kind: type[Stated], content: Any, where: str) -> Stated:
    """Return a model of plain data; the first thing that is wrong with it is in one line."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        message = f"{where}: {place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}"
        raise ValueError(message) from None
