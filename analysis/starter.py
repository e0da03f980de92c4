"""A first scenario for whoever has none: every value chosen by rule, and every choice told in a comment."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sim
from analysis.starter_text import Parts, Published, fabric_lines, text_of
from sim import catalog, units
from sim.documents import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from analysis.progress import Progress
    from sim import Candidate, LayoutSearch
    from sim.perf import Accelerator, ModelShape

__all__ = ["StarterError", "Wishes", "starter"]

_TRAY = 4
"""Accelerators of a host where the catalog has no node: hosts of TPUs and trays of NVL72 racks."""
_RACK, _RACK_USE = 72, 64
"""GPUs of an NVL72 rack, and those of them that a job takes: a power of two, the others are in reserve."""
_SPARES = 64
"""Nodes of a job for each hot spare."""
_HEADROOM = 0.9
"""Share of the memory that a layout may take where another one does not need more."""
_DOUBLED = 6
"""How often a number of GPUs is doubled at most to find one that is enough [-]."""
_TRIED = 4
"""Layouts that are tried with the recovery [-]."""
_LARGE = 5e10
"""Parameters from which on batches are those of large models."""
_PUBLISHED = {
    False: Published(1024, "Llama 3 405B on 16,384 GPUs (arXiv 2407.21783, table 4)"),
    True: Published(30_720, "DeepSeek-V3 on 2,048 GPUs (arXiv 2412.19437, section 4.2)"),
}
"""Tokens of a batch for each GPU in a published run, of models without and with experts."""
_NOTHING_FAILS = ("recovery={use: full-restart, initialize: 1 min}", "detection={time: 0 s}", "failures=[]")
"""What spares the search for the fastest layout all questions about failures."""


class StarterError(ValueError):
    """There is no such scenario; the message is one line and names the option."""


class Wishes(NamedTuple):
    """What is asked for: see ``ettrick init --help``."""

    name: str
    gpus: int
    accelerator: str
    model: str
    failures: str
    recovery: str
    horizon: str


def starter(wishes: Wishes, command: str = "ettrick init", progress: Progress | None = None) -> str:
    """Return a scenario file that can be run.

    The layout is the fastest one by the model of steps that leaves a tenth of the memory, or the fastest one that fits.

    Parameters
    ----------
    wishes
        What is asked for.
    command
        What made it, for the head of the file.
    progress
        Told how many layouts there are so far.

    Raises
    ------
    StarterError
        If a name is unknown, or if there is no layout on so many GPUs.
    """
    for option, name, known in (
        ("--accelerator", wishes.accelerator, catalog.accelerators()),
        ("--model", wishes.model, catalog.models()),
        ("--failures", wishes.failures, catalog.bundles()),
        ("--recovery", wishes.recovery, catalog.recoveries()),
    ):
        if name not in known:
            message = f"{option}: '{name}' does not come with Ettrick{suggest(name, known)}"
            raise StarterError(message)
    _check_horizon(wishes.horizon)
    parts = _parts(wishes, catalog.accelerators()[wishes.accelerator], catalog.models()[wishes.model])
    return _laid_out(parts, command, progress)


def _check_horizon(text: str) -> None:
    try:
        if units.parse(text, units.DURATION) > 0:
            return
    except units.UnitError as error:
        message = f"--horizon: {error}"
        raise StarterError(message) from None
    message = "--horizon: must be more than 0"
    raise StarterError(message)


def _parts(wishes: Wishes, chip: Accelerator, shape: ModelShape) -> Parts:
    """Return what the file says but for the layout."""
    is_rack = "NVL72" in chip.title
    per_node = chip.node.gpus if chip.node is not None and not is_rack else _TRAY
    unit = _RACK_USE if is_rack else per_node
    if wishes.gpus < unit or wishes.gpus % unit:
        near = sorted({max(wishes.gpus // unit, 1) * unit, (wishes.gpus // unit + 1) * unit})
        what = f"racks, of which a job takes {unit} GPUs each" if is_rack else f"nodes of {unit}"
        message = f"--gpus {wishes.gpus}: is no whole number of {what}; nearest: {' or '.join(f'{n:,}' for n in near)}"
        raise StarterError(message)
    used = wishes.gpus // per_node
    spares = max(2, -(-used // _SPARES))
    if is_rack:  # racks are swapped whole
        of_rack = _RACK_USE // per_node
        spares = -(-spares // of_rack) * of_rack
        nodes = (used + spares) // of_rack * (_RACK // per_node)
    else:
        nodes = used + spares
    fabric = _fabric(wishes.gpus, nodes, per_node)
    published = _PUBLISHED[shape.experts is not None]
    parts = Parts(wishes, chip, shape, nodes, per_node, spares, is_rack, fabric, 0, published)
    return parts._replace(sequences=_sequences(parts))


def _fabric(gpus: int, nodes: int, rails: int) -> tuple[str, ...]:
    """Return the lines of the smallest network of the usual ones that joins so many nodes."""
    for radix, leaf, pod in ((64, 32, 0), (64, 32, 4), (128, 64, 8)):
        fabric: dict[str, Any] = {"use": "fat-tree", "rails": rails, "radix": radix, "leaf": {"nodes": leaf}}
        fabric |= {"spine": {"leaf_groups": pod}, "core": {}} if pod else {}
        try:
            sim.ClusterSpec.model_validate({"nodes": nodes, "gpus_per_node": rails, "fabric": fabric})
        except ValueError:
            continue
        return fabric_lines(rails, radix, leaf, pod)
    message = f"--gpus {gpus:,}: no fat tree of three tiers of switches with 128 ports joins so many"
    raise StarterError(message)


def _sequences(parts: Parts) -> int:
    """Return sequences of a batch, a number that replicas divide.

    About as many as models of this size have, and where GPUs would have too little to do as many for each GPU as in a
    published run.
    """
    usual = 2048 if parts.shape.parameters > _LARGE else 1024
    wanted = max(usual, parts.published.tokens * parts.wishes.gpus // parts.sequence)
    share = parts.wishes.gpus
    while share > wanted and share % 2 == 0:
        share //= 2
    return share * max(1, round(wanted / share))


def _laid_out(parts: Parts, command: str, progress: Progress | None) -> str:
    """Return the file with a layout that fits, or raise the line that says why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "starter.yaml"
        path.write_text(text_of(parts, command, None), encoding="utf-8")
        try:
            search = sim.LayoutSearch(sim.load(path, _NOTHING_FAILS, must_fit=False))
        except ValueError as error:
            raise StarterError(_of_gpus(parts, _line(error))) from None
        reason = ""
        for candidate in _best_first(_counted(search, progress), parts):
            text = text_of(parts, command, candidate.plan.work, has_whole_racks=_has_whole_racks(parts, candidate))
            path.write_text(text, encoding="utf-8")
            try:
                sim.prepare(sim.load(path))
            except sim.ScenarioError as error:  # such as a recovery that needs more replicas
                reason = reason or _line(error)
                continue
            return text
    raise StarterError(_of_gpus(parts, reason or _why_none(search, parts)))


def _counted(search: LayoutSearch, progress: Progress | None) -> Iterator[Candidate]:
    """Yield the layouts, and tell how many there are."""
    for number, candidate in enumerate(search.candidates()):
        if progress is not None and number % 100 == 0:
            progress(number, None)
        yield candidate


def _why_none(search: LayoutSearch, parts: Parts) -> str:
    """Return why there is no layout at all, and what would help."""
    reason = search.why_none()
    return reason + _enough(parts) if reason.endswith("recompute full)") else reason


def _enough(parts: Parts) -> str:
    """Return the end of a line that says on how many GPUs there is a layout, of numbers that are twice as large."""
    for times in range(1, _DOUBLED + 1):
        gpus = parts.wishes.gpus * 2**times
        try:
            other = _parts(parts.wishes._replace(gpus=gpus), parts.chip, parts.shape)
        except StarterError:  # no network joins so many
            return ""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "starter.yaml"
            path.write_text(text_of(other, "", None), encoding="utf-8")
            search = sim.LayoutSearch(sim.load(path, _NOTHING_FAILS, must_fit=False))
        if next(search.candidates(), None) is not None:
            return f"; --gpus {gpus} is enough"
    return f"; nor does one of {gpus:,} GPUs: name a smaller model, or an accelerator with more memory"


def _best_first(candidates: Iterable[Candidate], parts: Parts) -> Sequence[Candidate]:
    """Return a few layouts: the fastest of those that leave some memory, then the fastest of all."""
    order = sorted(candidates, key=lambda one: (one.plan.crowding > _HEADROOM, one.plan.time))
    if parts.is_narrow:  # groups that can run narrower
        order = [one for one in order if one.plan.work.tensor > 1] or order
    if parts.is_rack and parts.is_elastic:
        order = [one for one in order if _has_whole_racks(parts, one)] or order
    return order[:_TRIED]


def _has_whole_racks(parts: Parts, candidate: Candidate) -> bool:
    """Return whether replicas that leave one by one share no rack."""
    return parts.is_rack and parts.is_elastic and parts.wishes.gpus // candidate.plan.work.data % _RACK_USE == 0


def _line(error: ValueError) -> str:
    """Return the first mistake without its place in a file that nobody has seen."""
    line = error.lines[0] if isinstance(error, sim.ScenarioError) else str(error)
    return line.partition(": ")[2] if ".yaml:" in line.partition(": ")[0] else line


def _of_gpus(parts: Parts, reason: str) -> str:
    rest = reason.removeprefix("job 'train': ")
    return f"--gpus {parts.wishes.gpus:,} --model {parts.wishes.model}: {rest}"
