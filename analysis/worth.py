"""What each cause of failures and each knob is worth, on the same failures and by the closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.compare import Variant, compare
from analysis.metrics import contributions, means
from analysis.paired import Difference, difference
from analysis.worth_changes import changes_of
from sim import MOST_EVENTS, Ratio, closed_form, prepare, units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from analysis.ensemble import Ensemble
    from analysis.worth_changes import Change
    from sim import Prepared, Scenario

    _Values = npt.NDArray[np.float64]

__all__ = ["METRICS", "SAME", "Group", "Row", "Worth", "worth"]

METRICS = ("ettr", "goodput", "tokens_per_day")
"""What a change may be worth; those that are known, `ettr` always."""

_DAY = units.DURATION.units["d"]
_YEAR = units.DURATION.units["year"]
SAME = 1e-9
"""Width of an interval over its mean that is but the rounding of sums."""


class Row(NamedTuple):
    """What a change is worth: what is gained by it over the scenario as it is.

    Parameters
    ----------
    name, told
        The change, and what is different.
    gained
        By metric, how far it is from the scenario's; ``None`` where the data do not tell.
    money
        What the work that is gained in a year would cost at the scenario's price of work; ``None`` without prices.
    formula
        By metric, the closed form of the changed scenario less that of the scenario; empty where there is none.
    counts
        Whether it is one of those that are made all at once.
    """

    name: str
    told: str
    gained: dict[str, Difference | None]
    money: Difference | None
    formula: dict[str, float]
    counts: bool = True


@dataclass(frozen=True)
class Group:
    """Changes of a kind, the most valuable first.

    ``together`` has all of them made at once, ``added`` what they are worth one by one added up, and ``residual`` the
    first less the second: what they are not additive by. ``None`` where there are fewer than two.
    """

    rows: tuple[Row, ...]
    together: Row | None = None
    added: Row | None = None
    residual: Row | None = None


@dataclass(frozen=True)
class Worth:
    """What is worth what in a scenario.

    Parameters
    ----------
    base
        The scenario as it is.
    formula
        Its closed form, by metric.
    by
        The metric that changes are sorted by: tokens per day where they are known, else ETTR.
    price
        Cost of a unit of `by`, if there are prices: of a token, or of a productive GPU-second.
    causes, knobs
        Every cause removed, and every knob better by a tenth.
    left_out
        Why a change is not there, by name.
    """

    base: Ensemble
    formula: dict[str, float]
    by: str
    price: float | None
    causes: Group
    knobs: Group
    left_out: dict[str, str]


def worth(
    scenario: Scenario,
    replications: int = 16,
    *,
    processes: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
    most_events: float = MOST_EVENTS,
) -> Worth:
    """Return what each cause and each knob of a scenario is worth.

    Every change is played on the same replications as the scenario itself: lives and marks are addressed by cause, so
    those of all other causes stay what they were.

    Parameters
    ----------
    scenario
        The scenario.
    replications
        How many of each change; at least 2, or there are no intervals. Those of fewer than 8 are not to be relied on.
    processes
        Worker processes at most; 0 for one per core. The numbers do not depend on it.
    progress
        Called with the number of replications done, over all changes, and the total.
    most_events
        How many events may be simulated.

    Raises
    ------
    PathError
        If the scenario does not fit together.
    WorkError
        If more events are expected than may be.
    """
    base = prepare(scenario)
    changes = changes_of(base)
    kinds = ((changes.causes, changes.all_causes), (changes.knobs, changes.all_knobs))
    listed = [[*single, *([together] if together is not None else ())] for single, together in kinds]
    variants = [Variant("", base), *(Variant(change.name, change.prepared) for kind in listed for change in kind)]
    found = compare(variants, replications, processes=processes, progress=progress, most_events=most_events)
    ensembles = found.ensembles
    first, *tables = (_Table(found.rows) for found in ensembles)
    by = "tokens_per_day" if "tokens_per_day" in first.known else "ettr"
    price = _price(ensembles[0], by)
    scale = _per_year(base, by) * price if price is not None else None
    formula = _formula(base)
    rest = iter(tables)
    causes, knobs = (
        _group([_played(change, next(rest), formula) for change in kind], together is not None, first, by, scale)
        for kind, (_, together) in zip(listed, kinds, strict=True)
    )
    return Worth(ensembles[0], formula, by, price, causes, knobs, changes.left_out)


class _Table:
    """What each replication of a variant contributes to the metrics, shape (n,) each: their mean is the metric.

    ``None`` where the data do not tell.
    """

    def __init__(self, rows: Sequence[Mapping[str, Ratio]]) -> None:
        self.known = {name: contributions([row[name] for row in rows]) for name in METRICS if name in rows[0]}


class _Played(NamedTuple):
    """A change, what came of it, and the closed form of what it is worth."""

    change: Change
    table: _Table
    formula: dict[str, float]


def _played(change: Change, table: _Table, formula: dict[str, float]) -> _Played:
    """Return a change with what came of it, given the closed form of the scenario as it is."""
    return _Played(change, table, _less(_formula(change.prepared), formula) if change.has_formula else {})


# -------------------------------------------------------------------------------------------------- rows


def _group(played: list[_Played], has_all: bool, base: _Table, by: str, scale: float | None) -> Group:
    """Return what changes of a kind are worth, alone and, if the last one is that, all at once."""
    singles = played[:-1] if has_all else played

    def row(name: str, told: str, more: list[_Table], less: list[_Table], formula: dict[str, float]) -> Row:
        gained = {
            metric: _gained([table.known[metric] for table in more], [table.known[metric] for table in less])
            for metric in base.known
        }
        return Row(name, told, gained, _times(gained[by], scale), formula)

    def single(one: _Played) -> Row:
        found = row(one.change.name, one.change.told, [one.table], [base], one.formula)
        return found._replace(counts=one.change.counts)

    found = sorted(map(single, singles), key=lambda row: -_mean(row.gained[by]))
    if not has_all:
        return Group(tuple(found))
    together = played[-1]
    counted = [one for one in singles if one.change.counts]
    tables, bases = [one.table for one in counted], [base] * len(counted)
    formula = _added([one.formula for one in counted])
    rest = _less(together.formula, formula)
    return Group(
        tuple(found),
        single(together),
        row("added", "these added up", tables, bases, formula),
        row("residual", "all at once less these added up", [together.table, *bases[1:]], tables, rest),
    )


def _gained(more: Sequence[_Values | None], less: Sequence[_Values | None]) -> Difference | None:
    """Return the sum of some metrics less that of others, over common replications; ``None`` if one is not known."""
    ours = [values for values in more if values is not None]
    theirs = [values for values in less if values is not None]
    if len(ours) < len(more) or len(theirs) < len(less):
        return None
    sums = [[Ratio(value, 1) for value in np.sum(values, axis=0).tolist()] for values in (ours, theirs)]
    found = difference(*sums)
    return found if found is None or _varies(found) else found._replace(resolved=False, replications_to_resolve=None)


def _varies(found: Difference) -> bool:
    """Return whether a difference is not the same in all replications, so that an interval says something.

    A few replications may agree because what makes the difference is rare: that they do is no proof.
    """
    return found.ci95[1] - found.ci95[0] > SAME * abs(found.mean)


def _times(found: Difference | None, scale: float | None) -> Difference | None:
    """Return a difference in another unit."""
    if found is None or scale is None:
        return None
    return found._replace(mean=scale * found.mean, ci95=(scale * found.ci95[0], scale * found.ci95[1]))


def _mean(found: Difference | None) -> float:
    return -math.inf if found is None else found.mean


# ------------------------------------------------------------------------------------------ closed form


def _formula(prepared: Prepared) -> dict[str, float]:
    """Return the closed form of a scenario by metric; empty where no formula applies.

    Tokens per day are those of a job that runs all the time; several jobs have but one ETTR between them.
    """
    ettr = closed_form(prepared).ettr
    if ettr is None:
        return {}
    found = {"ettr": ettr}
    one = prepared.jobs[0]
    if len(prepared.jobs) == 1 and one.tokens_per_second > 0 and math.isinf(one.target):
        found["tokens_per_day"] = ettr * one.tokens_per_second * _DAY
    return found


def _less(ours: dict[str, float], theirs: dict[str, float]) -> dict[str, float]:
    """Return the difference of what both have."""
    return {name: ours[name] - theirs[name] for name in ours if name in theirs}


def _added(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the sum of what all have."""
    return {name: math.fsum(part[name] for part in parts) for name in parts[0] if all(name in part for part in parts)}


# ------------------------------------------------------------------------------------------------ money


def _price(base: Ensemble, by: str) -> float | None:
    """Return what a token or, where tokens are not known, a productive GPU-second costs; ``None`` without prices."""
    if "cost" not in base.rows[0]:
        return None
    if by == "tokens_per_day":
        return means(base.rows)["cost_per_token"]
    productive = math.fsum(row["ettr"].amount for row in base.rows)
    return math.fsum(row["cost"].amount for row in base.rows) / productive if productive else None


def _per_year(prepared: Prepared, by: str) -> float:
    """Return the work of a year, in tokens or productive GPU-seconds, that one unit of a metric stands for."""
    return _YEAR / _DAY if by == "tokens_per_day" else _YEAR * sum(job.gpus for job in prepared.jobs)
