"""The problem of an optimisation: choices, aims, conditions, and unknown inputs."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ettrick import sim
from ettrick.analysis.contest.precision import Ties
from ettrick.analysis.metrics import lower_is_better
from ettrick.analysis.results.studies import Aim
from ettrick.analysis.study.amounts import amounts_of
from ettrick.analysis.study.designs import Grid
from ettrick.analysis.study.model import condition_of
from ettrick.sim.input import complaints
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ettrick.analysis.study.amounts import AxisPosition
    from ettrick.analysis.study.axis import Axis, Derivation, Range
    from ettrick.analysis.study.load import LoadedStudy
    from ettrick.analysis.study.model import Condition, Optimum

    # What takes a mistake: where it is below ``optimize``, and the rule.
    Complain = Callable[[tuple[str | int, ...], str], None]

# Where an optimum is looked for: what each chosen axis of a study may be.

_NARROW = 0.01
"""Share of a range, or of a value on a log scale, below which two values are the same [-]."""

_STEPS = 20
"""Steps from one end of a range to the other, where its neighbours are asked for [-]."""

_DIGITS = 3
"""Significant digits of the values that are evaluated: more would say nothing, and would be awkward to write down."""


@dataclass(frozen=True)
class Options:
    """Values without an order."""

    values: tuple[AxisPosition, ...]

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)

    def beside(self, value: AxisPosition) -> list[AxisPosition]:
        """Return all other values: none is nearer than another."""
        return [option for option in self.values if option.settings != value.settings]


@dataclass(frozen=True)
class NumericRange:
    """Numbers in their order: steps that are written down, whole numbers, or everything between two ends.

    Parameters
    ----------
    steps
        The values, lowest first; empty where there are too many to be listed, or all between two ends count.
    """

    name: str
    axis: Axis
    steps: tuple[AxisPosition, ...] = ()

    @property
    def size(self) -> int | None:
        """The number of values; ``None`` for more than can be counted."""
        if self.steps:
            return len(self.steps)
        low, high = self.ends
        return round(high - low) + 1 if self.is_whole else None

    @property
    def values(self) -> tuple[AxisPosition, ...]:
        """All values, lowest first; only of a line that has a size."""
        low, high = (round(end) for end in self.ends) if not self.steps else (0, -1)
        return self.steps or tuple(self.value(float(number)) for number in range(low, high + 1))

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest number."""
        if self.steps:
            return place_of(self.steps[0]), place_of(self.steps[-1])
        return self._range.ends

    @property
    def _range(self) -> Range:
        assert self.axis.range is not None, "a line without steps is a range"
        return self.axis.range

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.axis.range is not None and self.axis.range.whole

    @property
    def is_log(self) -> bool:
        """Whether equal factors count as equal distances."""
        return self.axis.range is not None and self.axis.range.scale == "log"

    def value(self, number: float) -> AxisPosition:
        """Return a number of the line as a value, to `_DIGITS` digits in a near unit where it is not whole."""
        low, high = self.ends
        amounts = amounts_of(self.axis.amounts)
        if amounts.dimension is not None or amounts.unit:
            number = amounts_of([amounts.label(number, _DIGITS)]).numbers[0]
        elif not self.is_whole:
            number = float(f"{number:.{_DIGITS}g}")
        return self.axis.value(self.name, min(max(number, low), high))

    def label(self, number: float) -> str:
        """Return a number of the line as tables show it."""
        return amounts_of(self.axis.amounts).label(number)

    def spread(self, count: int) -> list[AxisPosition]:
        """Return about so many values, evenly spread, both ends among them."""
        if self.steps:
            last = len(self.steps) - 1
            return [self.steps[index] for index in sorted({round(last * k / (count - 1)) for k in range(count)})]
        positions = [self.value(self._range.at(k / (count - 1))) for k in range(count)]
        return list({value.settings: value for value in positions}.values())

    def between(self, low: AxisPosition, high: AxisPosition) -> AxisPosition | None:
        """Return the value in the middle of two; ``None`` if nothing distinct lies between them."""
        if self.steps:
            first, last = self.steps.index(low), self.steps.index(high)
            return self.steps[(first + last) // 2] if last - first > 1 else None
        a, b = place_of(low), place_of(high)
        if not self.is_whole and (b < a * (1 + _NARROW) if self.is_log else b - a < _NARROW * self._width):
            return None
        middle = self.value(math.sqrt(a * b) if self.is_log else (a + b) / 2)
        return None if middle.settings in (low.settings, high.settings) else middle

    def beside(self, value: AxisPosition) -> list[AxisPosition]:
        """Return the next values on both sides, where there are such; between two ends a step is a part of the way."""
        if self.steps:
            at = self.steps.index(value)
            return [self.steps[index] for index in (at - 1, at + 1) if 0 <= index < len(self.steps)]
        (low, high), number = self.ends, place_of(value)
        step = (high / low) ** (1 / _STEPS) if self.is_log else (high - low) / _STEPS
        numbers = (number / step, number * step) if self.is_log else (number - step, number + step)
        if self.is_whole:
            numbers = number - 1, number + 1
        neighbours = [self.value(min(max(candidate, low), high)) for candidate in numbers]
        return [candidate for candidate in neighbours if candidate.settings != value.settings]

    @property
    def _width(self) -> float:
        low, high = self.ends
        return high - low


@dataclass(frozen=True)
class Derived:
    """Values that follow from the other choices and the budget: see `ettrick.analysis.optimize.derive`."""

    kind: Derivation
    size: None = None
    values: tuple[AxisPosition, ...] = ()

    def beside(self, value: AxisPosition) -> list[AxisPosition]:  # noqa: ARG002  (as of other domains)
        """Return no values: neighbours depend on the whole combination."""
        return []


Domain = NumericRange | Options | Derived


def domain_of(name: str, axis: Axis) -> Domain:
    """Return where the values of a chosen axis lie.

    A range without a step stands for everything between its ends, or all whole numbers; its number of points is for
    sweeps. With a step, and for choices that are numbers, just these are evaluated.
    """
    if axis.derive is not None:
        return Derived(axis.derive)
    if axis.range is not None:
        line = NumericRange(name, axis)
        steps = axis.range.step != ""
        return NumericRange(name, axis, tuple(map(line.value, axis.range.numbers()))) if steps else line
    values = axis.values(name)
    if len(values) > 1 and axis.is_numeric and len({value.number for value in values}) == len(values):
        return NumericRange(name, axis, tuple(sorted(values, key=place_of)))
    return Options(values)


def place_of(value: AxisPosition) -> float:
    """Return where a value of a numeric axis lies."""
    assert value.number is not None, "numeric axes have numbers"
    return value.number


_DRAWS = 20
"""Draws of what is not known, unless the design of the study says how many."""


@dataclass(frozen=True)
class Problem:
    """An optimisation, as the rest of the folder reads it.

    Parameters
    ----------
    spec
        Its section ``optimize``.
    domains
        What may be chosen, by axis, in the order of the study.
    draws
        Values of the unknown axes, in the order of the study: the central ones, then those of each draw, if the
        conditions are to hold over them.
    aims
        What counts: one, or several that are weighed against each other.
    """

    loaded: LoadedStudy
    spec: Optimum
    domains: Mapping[str, Domain]
    draws: tuple[tuple[AxisPosition, ...], ...]
    aims: tuple[Aim, ...]
    conditions: tuple[Condition, ...]

    @property
    def over_draws(self) -> bool:
        """Whether aims and conditions are means over all draws of what is not known."""
        return len(self.draws) > 1

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that have to be known of every point."""
        aims = [aim.name for aim in self.aims if not aim.is_axis]
        return tuple(dict.fromkeys((*aims, *(condition.metric for condition in self.conditions))))

    @property
    def size(self) -> int | None:
        """The number of combinations; ``None`` for more than can be counted."""
        size = 1
        for domain in self.domains.values():
            if domain.size is None:
                return None
            size *= domain.size
        return size

    @property
    def ties(self) -> Ties:
        """The differences that are too small to matter: those of the section, else of the study."""
        return Ties.parse(self.spec.tie or self.loaded.study.tie)

    @property
    def is_listed(self) -> bool:
        """Whether its candidates are those of `ettrick.analysis.optimize.derive.listed_of`: not all combinations."""
        return self.loaded.study.is_listed

    @property
    def line(self) -> NumericRange | None:
        """The only axis of a problem with one aim, if it has numbers."""
        domain, *rest = self.domains.values()
        return domain if not rest and len(self.aims) == 1 and isinstance(domain, NumericRange) else None

    def neighbours(self, chosen: Sequence[AxisPosition]) -> list[tuple[tuple[AxisPosition, ...], str]]:
        """Return the choices that differ from one in the next value of one axis, each with that axis."""
        return [
            ((*chosen[:index], value, *chosen[index + 1 :]), name)
            for index, (name, domain) in enumerate(self.domains.items())
            for value in domain.beside(chosen[index])
        ]

    def values(self, chosen: Sequence[AxisPosition], draw: int) -> tuple[AxisPosition, ...]:
        """Return the value of each axis for a choice and a draw; without a choice, those of the unknown axes alone."""
        if not chosen:
            return self.draws[draw]
        chosen_values, drawn_values = iter(chosen), iter(self.draws[draw])
        axes = self.loaded.study.vary
        return tuple(next(chosen_values) if name in self.domains else next(drawn_values) for name in axes)


def problem_of(loaded: LoadedStudy) -> Problem:
    """Return what a study asks to be optimised."""
    study = loaded.study
    spec = study.optimize
    if spec is None:
        rule = "missing section; add for example optimize: {maximize: ettr}"
        raise sim.ScenarioError([complaints.line(loaded.document, ("optimize",), rule)])
    unknown = {name: axis for name, axis in study.vary.items() if axis.is_uncertain}
    domains = {name: domain_of(name, axis) for name, axis in study.vary.items() if name not in unknown}
    wrong: list[str] = []

    def complain(key: tuple[str | int, ...], rule: str) -> None:
        wrong.append(complaints.line(loaded.document, ("optimize", *key), rule))

    if not domains:
        complain((), "there is nothing to choose: every axis of vary has a distribution")
    if spec.over == "runs+parameters" and not unknown:
        complain(("over",), "runs+parameters needs an axis with a distribution, and vary has none")
    aims = _aims(spec, domains, unknown, complain)
    conditions = _conditions(spec, study.vary, complain)
    if not wrong and not conditions and all(aim.is_axis for aim in aims):
        complain(
            _key(spec, 0), f"{aims[0].name} is an axis, and nothing keeps it from its end: add subject_to or pareto"
        )
    if wrong:
        raise sim.ScenarioError(wrong)
    draws = draws_of(loaded, over_draws=spec.over == "runs+parameters")
    return Problem(loaded, spec, domains, draws, aims, conditions)


def _conditions(spec: Optimum, axes: Mapping[str, Axis], complain: Complain) -> tuple[Condition, ...]:
    """Return what must hold; mistakes go to `complain`."""
    conditions = []
    for index, text in enumerate(spec.subject_to):
        try:
            condition = condition_of(text)
        except ValueError as error:
            complain(("subject_to", index), str(error))
            continue
        if condition.metric in axes:
            complain(("subject_to", index), f"{condition.metric} is an axis: give its bounds in vary")
        conditions.append(condition)
    return tuple(conditions)


def check_metrics(problem: Problem, metrics: Sequence[str]) -> None:
    """Refuse metrics that the scenario does not have."""
    named_metrics = [(_key(problem.spec, index), aim.name) for index, aim in enumerate(problem.aims) if not aim.is_axis]
    named_metrics += [(("subject_to", index), condition.metric) for index, condition in enumerate(problem.conditions)]
    wrong = []
    for key, name in named_metrics:
        if name not in metrics:
            rule = f"the scenario has no metric '{name}'{suggest(name, metrics)}"
            wrong.append(complaints.line(problem.loaded.document, ("optimize", *key), rule))
    if wrong:
        raise sim.ScenarioError(wrong)


def _aims(
    spec: Optimum, domains: Mapping[str, Domain], unknown: Mapping[str, object], complain: Complain
) -> tuple[Aim, ...]:
    """Return what counts, the first one first; mistakes go to `complain`."""
    key = _key(spec, 0)
    first = spec.minimize or spec.maximize
    if first in unknown:
        complain(key, f"{first} has a distribution: it is not chosen")
    if first in domains and not isinstance(domains[first], NumericRange):
        complain(key, f"{first} has no numbers that could be compared")
    for index, name in enumerate(spec.pareto):
        if name in domains or name in unknown:
            complain(("pareto", index), f"{name} is an axis: name it in minimize or maximize")
        elif name == first or name in spec.pareto[:index]:
            complain(("pareto", index), f"{name} is given twice")
    secondary = (Aim(name=name, lowest=lower_is_better(name), is_axis=False) for name in spec.pareto)
    return (Aim(name=first, lowest=bool(spec.minimize), is_axis=first in domains), *secondary)


def _key(spec: Optimum, aim: int) -> tuple[str | int, ...]:
    """Return where an aim stands in the section ``optimize``."""
    return ("pareto", aim - 1) if aim else ("minimize" if spec.minimize else "maximize",)


def draws_of(
    loaded: LoadedStudy, *, over_draws: bool, fresh: int | None = None
) -> tuple[tuple[AxisPosition, ...], ...]:
    """Return the values of the unknown axes: the central ones, and over draws those of the study's grid.

    With `fresh`, draws that follow from this number, and are others.
    """
    from numpy.random import default_rng

    study = loaded.study
    unknown = {name: axis for name, axis in study.vary.items() if axis.is_uncertain}
    if not over_draws:
        return (tuple(axis.at(name, 0.5) for name, axis in unknown.items()),)
    grid = Grid(draws=getattr(study.design, "draws", _DRAWS))
    seeds = [study.seed or 0, zlib.crc32(study.design.use.encode())]
    rng = default_rng(seeds if fresh is None else [*seeds, fresh])
    return tuple(point.values for point in grid.points(unknown, rng))
