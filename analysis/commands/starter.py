"""A first scenario of a training job, a fleet or a service: values chosen by rule, each explained in a comment."""

from __future__ import annotations

import json
import re
import tempfile
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ettrick import sim
from ettrick.analysis.amounts import percent_text
from ettrick.analysis.commands.config_json import ConfigError, model_of
from ettrick.analysis.explain.layouts import ROOMY
from ettrick.analysis.logs.slurm_conf import job_mix
from ettrick.sim import catalog, units
from ettrick.sim.catalog import steps
from ettrick.sim.yamlfile import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ettrick.analysis.terminal import ProgressBar
    from ettrick.sim import Candidate, LayoutSearch
    from ettrick.sim.steps import Accelerator, ModelShape, Workload

# Lines of YAML with comments.

_WIDTH = 116
_COLUMN = 40
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"})


def _commented(line: str) -> list[str]:
    """Return a template line: ``#:`` begins a note, ``##`` a comment next to it, or above if there is no room."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    if line.startswith(f"{indent}#:"):
        return _note(line[len(indent) + 3 :], indent)
    text, mark, comment = line.rpartition(" ## ")
    if not mark:
        return [line]
    beside = f"{text:<{_COLUMN}} # {comment}"
    return [beside] if len(beside) <= _WIDTH else [*_note(comment[0].upper() + comment[1:], indent), text]


def _note(text: str, indent: str) -> list[str]:
    """Return a comment in lines, none of them too long."""
    return [f"{indent}# {line}" for line in textwrap.wrap(text, _WIDTH - len(indent) - 2, break_long_words=False)]


def quoted(text: str) -> str:
    """Return a text as YAML: in quotes where it could be taken for something else."""
    is_plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)


# The text of a starter scenario: each value with what it means, what else may stand there, and where it is from.

_MEBI = 2**20

_LARGEST = 128e6
"""Tokens of the largest batch that is published [-] (MiniMax-01, arXiv 2501.08313)."""


class PublishedBatch(NamedTuple):
    """Tokens of a batch for each GPU [-], and of which run."""

    tokens: int
    source: str


class SwitchSizes(NamedTuple):
    """Ports of a switch, nodes behind the same leaf switches, and leaf groups of a pod; 0 for two tiers [-]."""

    radix: int
    leaf: int
    pod: int


class ScenarioParts(NamedTuple):
    """The parts of a starter in addition to the layout.

    Parameters
    ----------
    chip, shape, keys
        The accelerator and the model, and the keys of a model that is not in the catalog.
    nodes, per_node, spares
        Hosts, accelerators of each, and hosts that stand ready [-].
    sequences
        Sequences of a batch [-].
    published
        How many tokens a GPU has at least, as published.
    """

    wishes: InitOptions
    chip: Accelerator
    shape: ModelShape
    keys: dict[str, Any]
    nodes: int
    per_node: int
    spares: int
    is_rack: bool
    fabric: SwitchSizes
    sequences: int
    published: PublishedBatch

    @property
    def preset(self) -> dict[str, Any]:
        """The settings of the recovery preset."""
        return catalog.recovery(self.wishes.recovery)

    @property
    def is_narrow(self) -> bool:
        """Whether the recovery states the width of tensor groups."""
        return bool(self.preset["recovery"]["use"] == "narrow")

    @property
    def is_elastic(self) -> bool:
        """Whether replicas leave and return one by one."""
        return self.preset["recovery"]["use"] in ("shrink-rejoin", "restart-smaller", "redundant")

    @property
    def sequence(self) -> int:
        """Tokens of a sequence [-]: models before Llama were trained on short ones."""
        return 8192 if self.shape.gated else 2048

    @property
    def tokens(self) -> int:
        """Tokens of a batch [-]."""
        return self.sequences * self.sequence


class ServiceSize(NamedTuple):
    """The replicas of a service: how many, the ranks of each, and the requests that they get together [1/s]."""

    replicas: int
    tensor: int
    pipeline: int
    rate: float

    @property
    def parallelism(self) -> dict[str, int]:
        """The ranks as a scenario states them."""
        return {"tensor": self.tensor, **({"pipeline": self.pipeline} if self.pipeline > 1 else {})}


def text_of(
    parts: ScenarioParts, command: str, work: Workload | None = None, *, has_whole_racks: bool = False,
    size: ServiceSize | None = None,
) -> str:  # fmt: skip
    """Return the file; without a layout, what layouts can be looked for with."""
    import jinja2

    wishes, tokens = parts.wishes, parts.tokens
    subject = "a mix of jobs" if wishes.kind == "fleet" else wishes.model
    title = f"Goodput of {subject} on {wishes.gpus:,} {wishes.accelerator} in {wishes.horizon}."
    bundle, causes = catalog.bundle(wishes.failures), catalog.causes(wishes.failures)
    repaired = sum("repair" in cause for cause in bundle.get("sources", ()))
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"quoted": quoted, "count": "{:,.0f}".format, "flow": _flow}
    text = environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        parts=parts, wishes=wishes, command=command, title=" ".join(title.split()),
        used=wishes.gpus // parts.per_node, size=size, mix=job_mix(parts.per_node, parts.nodes, parts.nodes),
        tokens=f"{tokens // _MEBI} Mi" if tokens % _MEBI == 0 else tokens, precision=_precision(parts), work=work,
        parallelism=_parallelism(work, has_whole_racks=has_whole_racks), has_whole_racks=has_whole_racks,
        bundle=bundle, repaired=repaired, all_repaired=repaired == len(causes), switch_trays=catalog.SWITCH_TRAYS,
        preset=parts.preset, stores=[s["store"] for s in parts.preset.get("checkpoint", {}).get("tiers", ())],
        width=f", tensor: {work.tensor}" if parts.is_narrow and work is not None and work.tensor > 1 else "",
        share=percent_text(parts.spares * parts.per_node / wishes.gpus, 1), assumptions=_assumptions(parts),
    )  # fmt: skip
    return "".join(f"{line}\n" for template_line in text.splitlines() for line in _commented(template_line))


_TEMPLATE = Path(__file__).with_suffix(".j2")


def _flow(value: Any) -> str:
    """Return a value on one line of YAML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(inner)}' for key, inner in value.items())}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parallelism(work: Workload | None, *, has_whole_racks: bool) -> str:
    """Return how the model is spread over the GPUs."""
    if work is None:
        return ""
    sizes = {name: getattr(work, name) for name in ("tensor", "context", "pipeline", "data")}
    sizes |= {"expert": work.expert} if work.expert > 1 else {}
    sizes |= {"virtual_pipeline": work.virtual} if work.virtual > 1 else {}
    return _flow(sizes | ({"order": "[tensor, context, pipeline, expert, data]"} if has_whole_racks else {}))


def _precision(parts: ScenarioParts) -> str:
    """Return bf16, or the first precision at which steps were measured if at bf16 none were."""
    measured = [name for name in parts.chip.peak if steps.efficiencies(parts.chip, name).basis == "fitted"]
    return "bf16" if "bf16" in measured or not measured else measured[0]


def _assumptions(parts: ScenarioParts) -> list[str]:
    """Return what every result repeats, because it is not measured."""
    texts = [f"{_ASSUMED[parts.wishes.kind]}: of a starter, to be replaced by yours"]
    if parts.chip.announced:
        texts.append(f"{parts.wishes.accelerator}: announced, not measured")
    if parts.is_rack:
        texts.append("NVLink switch trays: 0.1 failures per 1000 days of a tray; no rate is published")
    if parts.tokens > _LARGEST and parts.wishes.kind == "training":
        texts.append(
            f"a batch of {parts.tokens / 1e6:,.0f} M tokens keeps all GPUs busy; the largest that is known "
            f"has {_LARGEST / 1e6:.0f} M (MiniMax-01, arXiv 2501.08313)"
        )
    return texts


_ASSUMED = {
    "training": "checkpoint, spares, batch and layout",
    "fleet": "jobs, scheduler and checkpoint",
    "service": "demand, objective, recovery of replicas and spares",
}
"""The parts of each kind of starter that no source supports."""

_TRAY = 4
"""Accelerators of a tray of an NVL72 rack."""

_RACK, _RACK_USE = 72, 64
"""GPUs of an NVL72 rack, and those of them that a job takes: a power of two, the others are in reserve."""

_SPARES = 64
"""Nodes of a job for each hot spare."""

_STAGES = (2, 4, 8)
"""Pipeline stages of a replica that fits into no node [-]."""

_DEMAND = 0.6
"""Requests of a service over those that all replicas can carry within the objective [-]."""

_DOUBLED = 6
"""The most doublings of a number of GPUs in the search for one that is enough [-]."""

_MOST_LAYOUTS = 4
"""Layouts that are evaluated with the recovery [-]."""

_LARGE = 5e10
"""Parameters from which on batches are those of large models."""

_PUBLISHED = {
    False: PublishedBatch(1024, "Llama 3 405B on 16,384 GPUs (arXiv 2407.21783, table 4)"),
    True: PublishedBatch(30_720, "DeepSeek-V3 on 2,048 GPUs (arXiv 2412.19437, section 4.2)"),
}
"""Tokens of a batch for each GPU in a published run, of models without and with experts."""

_NOTHING_FAILS = ("recovery={use: full-restart, initialize: 1 min}", "detection={time: 0 s}", "failures=[]")
"""The settings that spare the search for the fastest layout all questions about failures."""


class StarterError(ValueError):
    """There is no such scenario; the message is one line and names the option."""


class InitOptions(NamedTuple):
    """The options of ``ettrick init``; with a config.json in `hf`, the model is that of the file."""

    name: str
    gpus: int
    accelerator: str
    model: str
    failures: str
    recovery: str
    horizon: str
    kind: Literal["training", "fleet", "service"] = "training"
    hf: str = ""

    @property
    def model_option(self) -> str:
        """The option that states the model."""
        return f"--hf {self.hf}" if self.hf else f"--model {self.model}"


def starter(wishes: InitOptions, command: str = "ettrick init", progress: ProgressBar | None = None) -> str:
    """Return a scenario file that can be run.

    The layout of a training job is the fastest one by the step model that leaves a tenth of the memory, or the
    fastest one that fits; the replicas of a service are the smallest ones that fit and meet the objective.

    Raises
    ------
    StarterError
        If a name is unknown, or if there is no layout on so many GPUs.
    """
    tables: dict[str, tuple[str, Iterable[str]]] = {
        "accelerator": ("accelerator", catalog.accelerators()),
        "model": ("model", catalog.models()),
        "failures": ("failure bundle", catalog.bundles()),
        "recovery": ("recovery preset", catalog.recoveries()),
    }
    for option, (kind, entries) in tables.items():
        name = getattr(wishes, option)
        if name not in entries and not (wishes.hf and option == "model"):
            raise StarterError(f"--{option}: unknown {kind} '{name}'{suggest(name, entries)}")
    _check_horizon(wishes.horizon)
    parts = _parts(*_described(wishes))
    write = {"training": _laid_out, "fleet": _queued, "service": _serving}[wishes.kind]
    return write(parts, command, progress)


def _described(wishes: InitOptions) -> tuple[InitOptions, Accelerator, ModelShape, dict[str, Any]]:
    """Return the options, the accelerator, the model, and its keys if it is that of a config.json."""
    chip = catalog.accelerators()[wishes.accelerator]
    if not wishes.hf:
        return wishes, chip, catalog.models()[wishes.model], {}
    try:
        kind, spec = model_of(Path(wishes.hf))
    except ConfigError as error:
        raise StarterError(f"--hf {wishes.hf}: {error}") from None
    keys = spec.model_dump(exclude_defaults=True)
    return wishes._replace(model=f"{kind} ({Path(wishes.hf).name})"), chip, spec.shape(), keys


def _check_horizon(text: str) -> None:
    try:
        if units.parse(text, units.DURATION) > 0:
            return
    except units.UnitError as error:
        raise StarterError(f"--horizon: {error}") from None
    raise StarterError("--horizon: must be more than 0")


def _parts(wishes: InitOptions, chip: Accelerator, shape: ModelShape, keys: dict[str, Any]) -> ScenarioParts:
    """Return what the file says but for the layout."""
    is_rack = "NVL72" in chip.title
    per_node = chip.node.gpus if chip.node is not None and not is_rack else _TRAY
    rack_use = _RACK_USE if wishes.kind == "training" else _RACK
    unit = rack_use if is_rack else per_node
    if wishes.gpus < unit or wishes.gpus % unit:
        near = sorted({max(wishes.gpus // unit, 1) * unit, (wishes.gpus // unit + 1) * unit})
        what = f"racks (with {unit} GPUs in use)" if is_rack else f"nodes of {unit}"
        message = (
            f"--gpus {wishes.gpus}: is not a whole number of {what}; nearest: {' or '.join(f'{n:,}' for n in near)}"
        )
        raise StarterError(message)
    used = wishes.gpus // per_node
    spares = 0 if wishes.kind == "fleet" else max(2, -(-used // _SPARES))
    if is_rack:  # racks are swapped whole
        of_rack = rack_use // per_node
        spares = -(-spares // of_rack) * of_rack
        nodes = (used + spares) // of_rack * (_RACK // per_node)
    else:
        nodes = used + spares
    fabric = _fabric(wishes.gpus, nodes, per_node)
    published = _PUBLISHED[shape.experts is not None]
    parts = ScenarioParts(wishes, chip, shape, keys, nodes, per_node, spares, is_rack, fabric, 0, published)
    return parts._replace(sequences=_sequences(parts))


def _fabric(gpus: int, nodes: int, rails: int) -> SwitchSizes:
    """Return the smallest network of the usual ones that joins so many nodes."""
    for radix, leaf, pod in ((64, 32, 0), (64, 32, 4), (128, 64, 8)):
        fabric: dict[str, Any] = {"use": "fat-tree", "rails": rails, "radix": radix, "leaf": {"nodes": leaf}}
        fabric |= {"spine": {"leaf_groups": pod}, "core": {}} if pod else {}
        try:
            sim.ClusterSpec.model_validate({"nodes": nodes, "gpus_per_node": rails, "fabric": fabric})
        except ValueError:
            continue
        return SwitchSizes(radix, leaf, pod)
    raise StarterError(f"--gpus {gpus:,}: too many for a fat tree of three tiers of 128-port switches")


def _sequences(parts: ScenarioParts) -> int:
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


def _queued(parts: ScenarioParts, command: str, _progress: ProgressBar | None) -> str:
    """Return the file with a queue of jobs, or raise the line that says why it cannot run."""
    text = text_of(parts, command)
    reason = _refusal(text)
    if reason:
        raise StarterError(reason)
    return text


def _serving(parts: ScenarioParts, command: str, _progress: ProgressBar | None) -> str:
    """Return the file with the smallest replicas that meet the objective, or raise the line that says why none do."""
    reason = ""
    inside = 1 << ((_RACK if parts.is_rack else parts.per_node).bit_length() - 1)
    sizes = [(1 << power, 1) for power in range(inside.bit_length())] + [(inside, stages) for stages in _STAGES]
    for tensor, pipeline in sizes:
        size = ServiceSize(parts.wishes.gpus // (tensor * pipeline), tensor, pipeline, 1.0)
        if not size.replicas:
            break
        try:
            with _as_file(text_of(parts, command, size=size)) as path:
                (service,) = sim.services_of(sim.examine(sim.load(path)))
        except ValueError as error:
            reason = _line(error)
            continue
        rate = float(f"{_DEMAND * size.replicas * service.carried:.2g}")
        text = text_of(parts, command, size=size._replace(rate=rate))
        reason = _refusal(text)
        if not reason:
            return text
    raise StarterError(_of_gpus(parts, reason))


def _refusal(text: str) -> str:
    """Return why a scenario cannot run; nothing if it can."""
    try:
        with _as_file(text) as path:
            sim.prepare(sim.load(path))
    except ValueError as error:
        return _line(error)
    return ""


@contextmanager
def _as_file(text: str) -> Iterator[Path]:
    """Give a file with a text, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "starter.yaml"
        path.write_text(text, encoding="utf-8")
        yield path


def _laid_out(parts: ScenarioParts, command: str, progress: ProgressBar | None) -> str:
    """Return the file with a layout that fits, or raise the line that says why there is none."""
    try:
        with _as_file(text_of(parts, command)) as path:
            search = sim.LayoutSearch(sim.load(path, _NOTHING_FAILS, must_fit=False))
    except ValueError as error:
        raise StarterError(_of_gpus(parts, _line(error))) from None
    reason = ""
    for candidate in _best_first(_counted(search, progress), parts):
        text = text_of(parts, command, candidate.plan.work, has_whole_racks=_has_whole_racks(parts, candidate))
        refusal = _refusal(text)  # such as a recovery that needs more replicas
        if not refusal:
            return text
        reason = reason or refusal
    raise StarterError(_of_gpus(parts, reason or _why_none(search, parts)))


def _counted(search: LayoutSearch, progress: ProgressBar | None) -> Iterator[Candidate]:
    """Yield the layouts, and say how many there are."""
    for number, candidate in enumerate(search.candidates()):
        if progress is not None and number % 100 == 0:
            progress(number, None)
        yield candidate


def _why_none(search: LayoutSearch, parts: ScenarioParts) -> str:
    """Return why there is no layout at all, and what would help."""
    reason = search.why_none()
    return reason + _enough(parts) if reason.endswith("recompute full)") else reason


def _enough(parts: ScenarioParts) -> str:
    """Return the end of a line that says on how many GPUs there is a layout, of numbers that are twice as large."""
    for times in range(1, _DOUBLED + 1):
        gpus = parts.wishes.gpus * 2**times
        try:
            larger = _parts(parts.wishes._replace(gpus=gpus), parts.chip, parts.shape, parts.keys)
        except StarterError:  # no network joins so many
            return ""
        with _as_file(text_of(larger, "")) as path:
            search = sim.LayoutSearch(sim.load(path, _NOTHING_FAILS, must_fit=False))
        if next(search.candidates(), None) is not None:
            return f"; --gpus {gpus} is enough"
    return f"; nor does one of {gpus:,} GPUs: name a smaller model, or an accelerator with more memory"


def _best_first(candidates: Iterable[Candidate], parts: ScenarioParts) -> Sequence[Candidate]:
    """Return a few layouts: the fastest of those that leave some memory, then the fastest of all."""
    order = sorted(candidates, key=lambda candidate: (candidate.plan.crowding > ROOMY, candidate.plan.time))
    if parts.is_narrow:  # groups that can run narrower
        order = [candidate for candidate in order if candidate.plan.work.tensor > 1] or order
    if parts.is_rack and parts.is_elastic:
        order = [candidate for candidate in order if _has_whole_racks(parts, candidate)] or order
    return order[:_MOST_LAYOUTS]


def _has_whole_racks(parts: ScenarioParts, candidate: Candidate) -> bool:
    """Return whether replicas that leave one by one share no rack."""
    return parts.is_rack and parts.is_elastic and parts.wishes.gpus // candidate.plan.work.data % _RACK_USE == 0


def _line(error: ValueError) -> str:
    """Return the first mistake without its place in a file that was not written."""
    line = error.lines[0] if isinstance(error, sim.ScenarioError) else str(error)
    return line.partition(": ")[2] if ".yaml:" in line.partition(": ")[0] else line


def _of_gpus(parts: ScenarioParts, reason: str) -> str:
    rest = reason.removeprefix("job 'train': ")
    return f"--gpus {parts.wishes.gpus:,} {parts.wishes.model_option}: {rest}"
