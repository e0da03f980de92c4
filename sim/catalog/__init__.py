"""Data with a source for each number: accelerators, models, failure bundles, presets of recovery and of schedulers."""

from __future__ import annotations

import functools
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ettrick.sim import units
from ettrick.sim.steps.hardware import PRECISIONS, Accelerator, NodePower
from ettrick.sim.steps.shape import Experts, LatentAttention, ModelShape, StateSpace
from ettrick.sim.yamlfile import load, suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ettrick.sim.steps.recommender import Recommender
    from ettrick.sim.steps.serving import Engine, ServingConstants
    from ettrick.sim.yamlfile import Data, Table

__all__ = [
    "SWITCH_TRAYS",
    "accelerators",
    "another_size",
    "bundle",
    "bundles",
    "causes",
    "counted_on",
    "engines",
    "models",
    "recommenders",
    "recoveries",
    "recovery",
    "schedulers",
    "serving_constants",
    "serving_recovery",
    "software",
    "strategy_of",
    "unknown",
]

SWITCH_TRAYS = "{use: component, name: switch_tray, part: switch_tray, rate: 0.1 per 1000 switch_tray-days}"

"""An assumed source of failures of trays of scale-up switches, as a scenario states it: no rate is published."""

_Entry = TypeVar("_Entry")

_HERE = Path(__file__).parent

_PLAIN = {"int": int, "float": float, "bool": bool, "str": str}


@functools.cache
def file_table(*path: str) -> Table:
    """Return a file of the catalog as it is written."""
    table: Table = load(_HERE.joinpath(*path)).data
    return table


@functools.cache
def accelerators() -> dict[str, Accelerator]:
    """Return the accelerators by name."""
    return _entries(_accelerator, "accelerators.yaml")


def software() -> Table:
    """Return the kernels by name: the shares of the peak that are published of them, by generation, and the source."""
    return file_table("software.yaml")


@functools.cache
def models() -> dict[str, ModelShape]:
    """Return the shapes of models by name."""
    return _entries(_model, "models.yaml")


@functools.cache
def engines() -> dict[str, Engine]:
    """Return the serving engines by name."""
    from ettrick.sim.steps.serving import Engine

    time, size = _quantity(units.DURATION), _quantity(units.SIZE)
    make = functools.partial(_filled, Engine, launch=time, sequence=time, reserved=size, admission=_admission)
    return _entries(make, "engines.yaml", "engines")


@functools.cache
def serving_constants() -> ServingConstants:
    """Return the numbers of the model of inference that hold for all engines."""
    from ettrick.sim.steps.serving import ServingConstants

    time = _quantity(units.DURATION)
    return _filled(
        ServingConstants,
        file_table("engines.yaml")["constants"],
        expert_launch=time,
        collective=time,
        step=time,
        dispatch=lambda content: {name: time(value) for name, value in _mapping(content).items()},
        memory=_mapping,
        gemm=_mapping,
        power=_mapping,
        fitted=_mapping,
        sigma=_mapping,
    )


@functools.cache
def recommenders() -> dict[str, Recommender]:
    """Return the shapes of recommenders by name."""
    from ettrick.sim.steps.recommender import Recommender

    make = functools.partial(_filled, Recommender, rows=tuple, lookups=tuple, bottom=tuple, top=tuple)
    return _entries(make, "engines.yaml", "recommenders")


@functools.cache
def serving_recovery() -> Table:
    """Return sources of weights, methods of recovery and of failover by name; bandwidths [B/s] and times [s]."""
    parts = file_table("serving_recovery.yaml")
    size = {name: units.BANDWIDTH if name == "bandwidth" else units.DURATION for name in ("bandwidth", "interruption")}
    for entry in (entry for part in parts.values() for entry in part.values()):
        entry |= {name: units.parse(entry[name], kind) for name, kind in size.items() if name in entry}
    return parts


def _admission(content: Data) -> str:
    if content not in ("on-demand", "reserve"):
        raise ValueError(unknown("admission", str(content), ("on-demand", "reserve")))
    return str(content)


@functools.cache
def bundles() -> tuple[str, ...]:
    """Return the names of the failure bundles."""
    return tuple(sorted(path.stem for path in (_HERE / "failures").glob("*.yaml")))


def bundle(name: str) -> Table:
    """Return a failure bundle."""
    return file_table("failures", f"{name}.yaml")


def causes(name: str) -> list[str]:
    """Return the causes of a failure bundle."""
    return [entry["name"] for key in ("causes", "sources") for entry in bundle(name).get(key, ())]


def counted_on(name: str) -> tuple[int, int] | None:
    """Return the GPUs of the smallest and the largest job that the failures of a bundle were counted on [-].

    ``None`` for a bundle without counts.
    """
    jobs = bundle(name).get("jobs")
    return None if jobs is None else (jobs["smallest"], jobs["largest"])


class OtherSize(NamedTuple):
    """The job that is furthest from those that a bundle was counted on, and how many times their size it has [-]."""

    name: str
    gpus: int
    ratio: float


def another_size(name: str, jobs: Mapping[str, int]) -> OtherSize | None:
    """Return the job that is furthest from those that a bundle was counted on; ``None`` if all are among these.

    Parameters
    ----------
    name
        The bundle.
    jobs
        GPUs of the jobs by name [-].
    """
    counted = counted_on(name)
    if counted is None or not jobs:
        return None
    smallest, largest = counted
    job = max(jobs, key=lambda name: max(jobs[name] / largest, smallest / jobs[name]))
    nearest = min(max(jobs[job], smallest), largest)
    return OtherSize(job, jobs[job], jobs[job] / nearest) if jobs[job] != nearest else None


@functools.cache
def recoveries() -> tuple[str, ...]:
    """Return the names of the recovery presets."""
    return tuple(sorted(path.stem for path in (_HERE / "recovery").glob("*.yaml")))


def recovery(name: str) -> Table:
    """Return a recovery preset.

    Its ``recovery``, ``detection`` and ``checkpoint`` are written as in a scenario; ``title``, ``source`` and ``notes``
    say where the numbers are from. A note begins with what it rests on: P for a text that was read, code or
    documentation; S for one that others quote; D for what follows from such figures; A for an assumption.
    """
    return file_table("recovery", f"{name}.yaml")


def strategy_of(name: str) -> str:
    """Return the strategy that a recovery preset is made of; every start asks for all, so no file is parsed for it."""
    text = (_HERE / "recovery" / f"{name}.yaml").read_text(encoding="utf-8")
    match = re.search(r"^recovery:\n  use: (\S+)$", text, re.MULTILINE)
    return match[1] if match else str(recovery(name)["recovery"]["use"])


def schedulers() -> dict[str, Table]:
    """Return the presets of the scheduler by name: ``title``, ``source``, and ``keys`` as in a scenario."""
    return file_table("schedulers.yaml")


def unknown(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return the rule that an unknown name breaks."""
    return f"unknown {kind} '{name}'{suggest(name, choices)}"


def is_unknown(rule: str) -> bool:
    """Return whether a rule is that of `unknown`, whatever stands before it."""
    return "unknown " in rule and "(choose from " in rule


def _entries(make: Callable[[Data], _Entry], file: str, section: str = "") -> dict[str, _Entry]:
    """Return the entries of a file, or of a section of it, by name.

    Raises
    ------
    ValueError
        If an entry has an unknown key, lacks one or holds a value of the wrong kind; names the file and the entry.
    """
    entries = {}
    for name, entry in (file_table(file)[section] if section else file_table(file)).items():
        try:
            entries[name] = make(entry)
        except ValueError as error:
            raise ValueError(f"{file}: {name}: {error}") from None
    return entries


def _accelerator(content: Data) -> Accelerator:
    return _filled(
        Accelerator,
        content,
        peak=_rates,
        memory=_quantity(units.SIZE),
        memory_bandwidth=_quantity(units.BANDWIDTH),
        scale_up=_quantity(units.BANDWIDTH),
        host=_quantity(units.BANDWIDTH),
        power=_quantity(units.POWER),
        node=lambda node: _filled(NodePower, node, idle=_quantity(units.POWER), training=_quantity(units.POWER)),
        matmul=_rates,
    )


def _model(content: Data) -> ModelShape:
    return _filled(
        ModelShape,
        content,
        needed=("title", "source"),
        experts=functools.partial(_filled, Experts),
        latent=functools.partial(_filled, LatentAttention),
        mixer=functools.partial(_filled, StateSpace),
    )


def _filled(
    kind: Callable[..., _Entry], content: Data, needed: Iterable[str] = (), **readers: Callable[[Data], object]
) -> _Entry:
    """Return a dataclass from the keys of a mapping: `readers` read values, the others are taken as they stand.

    Raises
    ------
    ValueError
        If a key is unknown, a key without a default or among the `needed` is missing, or a value is of another kind.
    """
    content = _mapping(content)
    parts: Table = {part.name: part for part in fields(kind)}  # type: ignore[arg-type]
    for name in content:
        if name not in parts:
            raise ValueError(unknown("key", name, parts))
    for name, part in parts.items():
        has_default = part.default is not MISSING or part.default_factory is not MISSING
        if name not in content and (name in needed or not has_default):
            raise ValueError(f"key '{name}' is missing")
    values = {}
    for name, value in content.items():
        try:
            values[name] = readers[name](value) if name in readers else _plain(value, parts[name].type)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return kind(**values)


def _plain(value: Data, kind: str) -> object:
    """Return a number, truth value or text as it stands."""
    if kind == "float" and type(value) is int:
        return float(value)
    if type(value) is not _PLAIN[kind]:
        raise ValueError(f"is {value!r}, not of the kind {kind}")
    return value


def _quantity(dimension: units.Dimension) -> Callable[[Data], float]:
    """Return what reads a quantity with a unit."""
    return lambda value: units.parse(value, dimension)


def _rates(content: Data) -> Mapping[str, float]:
    """Return FLOP/s by precision."""
    rates = _mapping(content)
    for name in rates:
        if name not in PRECISIONS:
            raise ValueError(unknown("precision", name, PRECISIONS))
    return {name: units.parse(value, units.FLOPS) for name, value in rates.items()}


def _mapping(content: Data) -> Table:
    """Return a mapping, or refuse what is none."""
    if not isinstance(content, dict):
        raise ValueError(units.wrong_type(content, "a mapping"))  # noqa: TRY004  (to its reader a file has no types)
    return content
