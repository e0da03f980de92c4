"""What the documents of a folder must be like, so that a report can be made of them: types of what is read, by kind.

Keys that no report reads are not here, and may be anything; docs/reference/json.md describes all of them.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sim.yamlfile import dotted, suggest


class _Shape(BaseModel):
    """A JSON object; what else is in it does not matter."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


Number: TypeAlias = float | None

Pair: TypeAlias = Annotated[list[Number], Field(min_length=2, max_length=2)] | None

Texts: TypeAlias = list[str]

Numbers: TypeAlias = dict[str, Number]

Labels: TypeAlias = dict[str, str]

Count: TypeAlias = Annotated[int, Field(ge=0)]


class _Provenance(_Shape):
    version: str
    python: str
    numpy: str
    command: str
    scenario_sha256: str = ""


class _Controlled(_Shape):
    mean: Number
    mean_ci95: Pair


class _Summary(_Shape):
    mean: Number
    mean_ci95: Pair
    std: Number = None
    p05: Number = None
    p50: Number = None
    p95: Number = None
    band90: Pair = None
    controlled: _Controlled | None = None


class _Often(_Shape):
    mean: Number
    mean_ci95: Pair


class _Job(_Shape):
    gpus: Count
    requested_gpu_s: Number
    metrics: dict[str, _Summary]
    time_shares: Numbers


class _Energy(_Shape):
    nodes_j: Numbers
    network_j: float
    storage_j: float
    overhead_j: float
    total_j: float
    pue: float
    switches: int
    switch_w: float
    assumptions: Texts


class _Cost(_Shape):
    currency: str
    total: float
    repairs: dict[str, Any]


class _Independent(_Shape):
    p50: int
    p90: int
    p99: int


class _Down(_Independent):
    mean: float
    max: int
    dispersion: Number
    independent: _Independent


class _ClosedForm(_Shape):
    ettr: Number
    form: str | None
    time_shares: Numbers
    assumptions: Texts
    waste: dict[str, Numbers] | None
    waste_by_cause: dict[str, dict[str, Numbers]] | None
    extrapolated: list[dict[str, Any]]
    simulated: dict[str, Any] | None


class _Step(_Shape):
    time_s: Number
    stated: str | None
    basis: str | None
    breakdown: Numbers
    mfu: Number


class _Found(_Shape):
    """What run and a variant of compare have in common."""

    scenario: str
    metrics: dict[str, _Summary]
    time_shares: Numbers
    cluster_shares: Numbers
    interruptions_by_cause: dict[str, _Often]
    loss_gpu_s: dict[str, dict[str, float]]
    energy: _Energy | None
    cost: _Cost | None
    per_job: Annotated[dict[str, _Job], Field(min_length=1)]
    assumptions: Texts
    warnings: Texts
    notes: Texts


class _Window(_Shape):
    start_s: float
    end_s: float
    replications: Count
    ettr: Any
    time_shares: Numbers


class _Run(_Found):
    replications: Annotated[int, Field(ge=1)]
    seed: int
    horizon_s: float
    warmup_s: float
    counts: Numbers
    nodes_down: _Down | Annotated[dict[str, Any], Field(max_length=0)]
    windows: list[_Window]
    closed_form: _ClosedForm
    step: _Step
    provenance: _Provenance


class _Difference(_Shape):
    mean: Number
    ci95: Pair
    resolved: bool
    replications_to_resolve: int | None


class _Variant(_Found):
    scenario_sha256: str
    difference: dict[str, _Difference | None]


class _Stores(_Shape):
    gain: _Difference | None
    rest: _Difference | None


class _Ranking(_Shape):
    behind: dict[str, Any]
    may_be_best: Texts
    replications_to_resolve: int | None


class _Compare(_Shape):
    replications: Annotated[int, Field(ge=1)]
    seed: int
    precise: bool | None
    first: str
    headline: str
    order: Texts
    ranking: _Ranking | None
    at_equal: dict[str, Any] | None
    differs: Texts
    also_differ: dict[str, dict[str, Any]] = {}  # these two are not in documents of before
    stores: dict[str, _Stores] = {}
    unranked_because: str | None
    variants: Annotated[dict[str, _Variant], Field(min_length=1)]
    cannot_run: Labels
    provenance: _Provenance

    @model_validator(mode="after")
    def _names_are_those_of_variants(self) -> _Compare:
        keyed = [name for values in self.also_differ.values() for name in values]
        for name in (self.first, *self.order, *self.stores, *keyed):
            _refuse_unknown("variant", name, self.variants)
        for variant in self.variants.values():
            _refuse_unknown("metric", self.headline, variant.metrics)
        return self


class _Value(_Shape):
    label: str
    number: Number


class _Axis(_Shape):
    title: str
    unknown: bool
    basis: str | None
    source: str


class _FullAxis(_Axis):
    paths: Texts
    values: list[_Value]


class _CellSummary(_Often):
    method: str | None
    std: Number
    p05: Number
    p50: Number
    p95: Number
    band90: Pair
    replications: Count
    censored: Count
    never_started: Count


class _Formula(_Shape):
    ettr: Number


class _Cell(_Shape):
    cell: Count
    point: Count
    values: Labels
    numbers: Numbers
    status: str
    trouble: str
    troubles: list[dict[str, Any]]
    draws: Count
    replications: Count
    precise: bool | None
    censored: Count
    never_started: Count
    gpus: int | None
    metrics: dict[str, _CellSummary | None]
    closed_form: _Formula | None


class _Answer(_Shape):
    ask: str
    sentences: Texts
    data: dict[str, Any]


class _Warning(_Shape):
    warning: str
    cells: Count


class _Sweep(_Shape):
    study: str
    question: str
    description: str
    scenario: str
    seed: int
    design: dict[str, Any]
    precision: dict[str, Any] | None
    at_equal: str | None
    at_equal_lines: Texts
    currency: str | None
    axes: Annotated[dict[str, _FullAxis], Field(min_length=1)]
    metrics: Annotated[Texts, Field(min_length=1)]
    replications: list[int]
    counts: dict[str, int]
    answers: list[_Answer]
    cells: Annotated[list[_Cell], Field(min_length=1)]
    warnings: list[_Warning]
    notes: Texts
    assumptions: Texts
    provenance: _Provenance

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> _Sweep:
        for number, cell in enumerate(self.cells):
            if cell.cell != number:
                message = f"cells.{number}.cell is {cell.cell}"
                raise ValueError(message)
            for name in cell.values:
                _refuse_unknown("axis", name, self.axes)
        return self


class _Center(_Shape):
    values: Labels
    mean: Number
    ci95: Pair
    closed_form: Number


class _Move(_Shape):
    label: str
    number: Number
    change: _Difference | None
    closed_form: Number
    trouble: str


class _Swing(_Shape):
    axis: str
    center: str
    swing: Number
    resolved: bool
    replications_to_resolve: int | None
    moves: list[_Move]


class _Sensitivity(_Shape):
    study: str
    question: str
    scenario: str
    metric: str
    replications: Annotated[int, Field(ge=1)]
    seed: int
    axes: Annotated[dict[str, _Axis], Field(min_length=1)]
    center: _Center
    low: Number
    tornado: list[_Swing] | None
    indices: dict[str, Any] | None
    indices_missing: str
    assumptions: Texts
    warnings: list[Any]
    provenance: _Provenance

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> _Sensitivity:
        for name in (*self.center.values, *(swing.axis for swing in self.tornado or ())):
            _refuse_unknown("axis", name, self.axes)
        return self


class _Aim(_Shape):
    name: str
    lowest: bool
    is_axis: bool


class _Estimate(_Shape):
    mean: Number
    ci95: Pair


class _Trial(_Shape):
    values: Labels
    numbers: Numbers
    aims: dict[str, _Estimate | None]
    conditions: list[Any]
    met: bool | None
    closed_form: Number
    trouble: str


class _Confirmation(_Shape):
    seed: int
    replications: Count
    confirmed: bool | None
    trials: list[_Trial]
    as_it_is: _Trial | None


class _Span(_Shape):
    title: str
    size: int | None


class _Optimize(_Shape):
    study: str
    question: str
    scenario: str
    method: str
    replications: Annotated[int, Field(ge=1)]
    aims: Annotated[list[_Aim], Field(min_length=1)]
    conditions: list[Any]
    axes: Annotated[dict[str, _Span], Field(min_length=1)]
    answer: _Trial | None
    settings: Texts
    runner_up: _Trial | None
    front: list[Any]
    tried: list[_Trial]
    confirmation: _Confirmation | None
    provenance: _Provenance

    @model_validator(mode="after")
    def _names_are_those_of_axes(self) -> _Optimize:
        for trial in (*self.tried, *((self.answer,) if self.answer is not None else ())):
            for name in trial.values:
                _refuse_unknown("axis", name, self.axes)
        return self


class _Row(_Shape):
    id: str
    quantity: str
    paper: str
    label: str
    published: Number
    ours: Number
    error: Number
    played: Count
    limit: Number
    verdict: str
    reason: str


class _Group(_Shape):
    name: str
    title: str
    rows: list[_Row]


class _NotChecked(_Shape):
    paper: str
    what: str
    why: str


class _Validate(_Shape):
    seed: int
    family_wise_error: float
    stochastic_rows: Count
    counts: dict[str, int]
    together: dict[str, Any] | None
    groups: list[_Group]
    not_checked: list[_NotChecked]
    provenance: _Provenance


_SHAPES: dict[str, type[_Shape]] = {
    "run": _Run,
    "compare": _Compare,
    "sweep": _Sweep,
    "sensitivity": _Sensitivity,
    "optimize": _Optimize,
    "validate": _Validate,
}

_RULES = {
    "missing": "is missing",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
}


def mistake_in(kind: str, content: Any) -> str | None:
    """Return what is wrong with the document that a command has left, in a line with its place; ``None`` if nothing."""
    try:
        _SHAPES[kind].model_validate(content)
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = found[0]
        place = dotted(tuple(step for step in first["loc"] if not _is_branch(step)))
        rule = first["msg"].removeprefix("Value error, ")
        if first["type"] in _RULES:
            rule = _RULES[first["type"]]
            rule = rule if first["type"] == "missing" else f"{rule}, not {_shown(first['input'])}"
        more = f" ({len(found)} mistakes in all)" if len(found) > 1 else ""
        return f"{place + ': ' if place else ''}{rule[:1].lower()}{rule[1:]}{more}"
    return None


def _is_branch(step: Any) -> bool:
    """Return whether a step is that of the validator into a union, and not into the document."""
    return isinstance(step, str) and (step.startswith("_") or "[" in step or step in ("float", "int", "str", "bool"))


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _refuse_unknown(what: str, name: str, known: dict[str, Any]) -> None:
    if name not in known:
        message = f"names the {what} '{name}', which is not there{suggest(name, known)}"
        raise ValueError(message)
