"""The text of a starter scenario: each value with what it means, what else may stand there, and where it is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.commented import note, quoted, said
from sim import catalog
from sim.catalog import steps

if TYPE_CHECKING:
    from analysis.starter import Wishes
    from sim.perf import Accelerator, ModelShape, Workload

__all__ = ["Parts", "Published", "fabric_lines", "text_of"]

_MEBI = 2**20
_LARGEST = 128e6
"""Tokens of the largest batch that is published [-] (MiniMax-01, arXiv 2501.08313)."""


class Published(NamedTuple):
    """Tokens of a batch for each GPU [-], and of which run."""

    tokens: int
    source: str


class Parts(NamedTuple):
    """What a starter says but for the layout.

    Parameters
    ----------
    wishes
        What was asked for.
    chip, shape
        The accelerator and the model.
    nodes, per_node, spares
        Hosts, accelerators of each, and hosts that stand ready [-].
    is_rack
        Whether hosts are the trays of NVL72 racks.
    fabric
        Lines of the network.
    sequences
        Sequences of a batch [-].
    published
        How many tokens a GPU has at least, as published.
    """

    wishes: Wishes
    chip: Accelerator
    shape: ModelShape
    nodes: int
    per_node: int
    spares: int
    is_rack: bool
    fabric: tuple[str, ...]
    sequences: int
    published: Published

    @property
    def preset(self) -> dict[str, Any]:
        """What the recovery preset says."""
        return catalog.recovery(self.wishes.recovery)

    @property
    def is_narrow(self) -> bool:
        """Whether the way to come back states the width of tensor groups."""
        return bool(self.preset["recovery"]["use"] == "narrow")

    @property
    def is_elastic(self) -> bool:
        """Whether replicas leave and come back one by one."""
        return self.preset["recovery"]["use"] in ("shrink-rejoin", "restart-smaller")

    @property
    def sequence(self) -> int:
        """Tokens of a sequence [-]: models before Llama were trained on short ones."""
        return 8192 if self.shape.gated else 2048

    @property
    def tokens(self) -> int:
        """Tokens of a batch [-]."""
        return self.sequences * self.sequence


def text_of(parts: Parts, command: str, work: Workload | None, *, has_whole_racks: bool = False) -> str:
    """Return the file; without a layout, what layouts can be looked for with.

    Parameters
    ----------
    parts
        What it says.
    command
        What wrote it.
    work
        The layout.
    has_whole_racks
        Whether each replica is to sit in racks of its own.
    """
    wishes = parts.wishes
    title = " ".join(f"What {wishes.horizon} of {wishes.model} on {wishes.gpus:,} {wishes.accelerator} yield.".split())
    lines = [
        *note(
            f"A starter: it runs as it is, and every value is there to be replaced by yours. Written by: {command}",
        ),
        "#",
        *note("To check, to run, and to have a report of it:"),
        "#",
        *(f"#     ettrick {rest}" for rest in ("check FILE", "run FILE --out results", "report results")),
        "#",
        *note("Names that may stand below: ettrick list. Other layouts of the job: ettrick layouts FILE."),
        *said(f"name: {quoted(wishes.name)}", "what results are called by"),
        f"description: {quoted(title)}",
        "",
        *_cluster(parts),
        "",
        *said(
            f"horizon: {wishes.horizon.strip()}", "how long is simulated; times need a unit: s, min, h, d, week, year"
        ),
        "",
        *_job(parts, work, has_whole_racks=has_whole_racks),
        "",
        *_failures(parts),
        "",
        *_policies(parts, work),
        "",
        *_assumptions(parts),
    ]
    return "\n".join(lines) + "\n"


def fabric_lines(rails: int, radix: int, leaf: int, pod: int) -> tuple[str, ...]:
    """Return a fat tree as lines of the file.

    Parameters
    ----------
    rails, radix, leaf
        NICs of a node, ports of a switch, and nodes behind the same leaf switches [-].
    pod
        Leaf groups of a pod, where there are cores; 0 for two tiers [-].
    """
    lines = [
        *said("  fabric:", "the network: assumption; other kinds: ettrick list"),
        *said("    use: fat-tree", "or: dual-plane, graph-file"),
        *said(f"    rails: {rails}", "NICs of a node, one for each GPU"),
        *said("    nic: 400 Gb/s", "of each NIC"),
        *said(f"    radix: {radix}", "ports of a switch"),
        *said(f"    leaf: {{nodes: {leaf}}}", "nodes behind the same leaf switches"),
    ]
    if pod:
        lines += said(f"    spine: {{leaf_groups: {pod}}}", f"pods of {pod * leaf:,} nodes")
        lines += said("    core: {oversubscription: 1}", "joins the pods at full bandwidth; 7: a seventh of it")
    return tuple(lines)


def _cluster(parts: Parts) -> list[str]:
    chip = parts.chip
    source = f"{chip.title}; source: {chip.source}. Others: ettrick list"
    used = parts.nodes - parts.spares if not parts.is_rack else parts.wishes.gpus // parts.per_node
    reserve = " and what racks hold in reserve" if parts.is_rack else ""
    lines = [
        *note("The hardware. In place of these lines: the name of a topology or its file (ettrick topology list)."),
        "cluster:",
        *said("  name: mine", "what the cluster is called"),
        *said(f"  nodes: {parts.nodes}", f"hosts: {used:,} of the job, {parts.spares:,} spares{reserve}"),
        *said(f"  gpus_per_node: {parts.per_node}", _about_nodes(parts)),
        *said(f"  accelerator: {parts.wishes.accelerator}", source),
    ]
    if parts.is_rack:
        lines += [
            *said("  rack: {nodes: 18}", "trays of a rack"),
            *said("  scale_up:", "GPUs that share NVLink; left out, each node is a domain of its own"),
            *said("    gpus: 72", "of a rack; source: NVIDIA DGX SuperPOD with DGX GB200"),
            *said("    use: 64", "those that a job takes; the other two trays are in reserve: assumption"),
            *said("    switch_trays: 9", "one that fails stops the rack; source: as above"),
            *said("    drain_unit: tray", "what is out of use while a tray is repaired; or: domain"),
            *said("    swap_unit: rack", "what a job exchanges if a rack lacks GPUs; or: tray (without use)"),
        ]
    return lines + list(parts.fabric)


def _about_nodes(parts: Parts) -> str:
    if parts.is_rack:
        return "of a tray, which is a node"
    if parts.chip.node is not None:
        return f"as in nodes of {parts.wishes.accelerator}"
    return "as in hosts of TPUs: assumption"


def _job(parts: Parts, work: Workload | None, *, has_whole_racks: bool) -> list[str]:
    """Return the job, with its layout where there is one."""
    tokens = parts.tokens
    count = f"{tokens // _MEBI} Mi" if tokens % _MEBI == 0 else str(tokens)
    lines = [
        *note(
            "What is trained. The model of steps says how long a step takes; with a measured one, put step_time: 10 s "
            "(or mfu: 0.4) beside the layout."
        ),
        "jobs:",
        *said("  - name: train", "what the job is called; a list may hold several"),
        *said(f"    gpus: {parts.wishes.gpus}", "what the job asks for: whole nodes"),
        *said(
            f"    model: {parts.wishes.model}",
            f"{parts.shape.title}; source: {parts.shape.source}. Others: ettrick list",
        ),
        *said(
            f"    batch: {{tokens: {count}, sequence: {parts.sequence}}}",
            f"tokens of a step: {parts.sequences:,} sequences, {tokens / parts.wishes.gpus:,.0f} tokens a GPU; "
            f"assumption (published: {parts.published.tokens:,}, {parts.published.source})",
        ),
        *said(f"    precision: {_precision(parts)}", f"or: {', '.join(sorted(parts.chip.peak))} (of this accelerator)"),
    ]
    return lines if work is None else lines + _layout(work, has_whole_racks=has_whole_racks)


def _layout(work: Workload, *, has_whole_racks: bool) -> list[str]:
    """Return how the model is spread over the GPUs, and how a step is executed."""
    sizes = [f"{name}: {getattr(work, name)}" for name in ("tensor", "context", "pipeline", "data")]
    sizes += [f"expert: {work.expert}"] if work.expert > 1 else []
    sizes += [f"virtual_pipeline: {work.virtual}"] if work.virtual > 1 else []
    sizes += ["order: [tensor, context, pipeline, expert, data]"] if has_whole_racks else []
    racks = " The order keeps each replica in racks of its own." if has_whole_racks else ""
    return [
        *note(
            "The layout: tensor x context x pipeline x data = GPUs. The fastest one by the model of steps." + racks,
            "    ",
        ),
        f"    parallelism: {{{', '.join(sizes)}}}",
        *said(
            f"    execution: {{microbatch: {work.microbatch}, recompute: {work.recompute}, sharding: {work.sharding}}}",
            "recompute: none, selective, full; sharding: none, optimizer, parameters",
        ),
    ]


def _precision(parts: Parts) -> str:
    """Return bf16, or the first precision at which steps were measured if at bf16 none were."""
    measured = [name for name in parts.chip.peak if steps.efficiencies(parts.chip, name).basis == "fitted"]
    return "bf16" if "bf16" in measured or not measured else measured[0]


def _failures(parts: Parts) -> list[str]:
    bundle = catalog.bundle(parts.wishes.failures)
    entry = f"  - {{use: {parts.wishes.failures}}}"
    if 0 < _repaired(parts) < len(catalog.causes(parts.wishes.failures)):
        entry = f"  - {{use: {parts.wishes.failures}, keeps_repair: true}}"
        entries = said(entry, "causes with a repair time of their own keep it; without this, repair below is for all")
    else:
        entries = [entry]
    return [
        *note(
            "What fails: a bundle of published rates, or sources of your own, such as - {use: component, name: node, "
            "part: node, rate: 5 per 1000 node-day}."
        ),
        "failures:",
        *note(f"{bundle['title']}. Source: {bundle['source']}. Others: ettrick list.", "  "),
        *entries,
        *(_switch_trays() if parts.is_rack else ()),
    ]


def _switch_trays() -> list[str]:
    """Return the failures of NVLink switches, which no bundle has."""
    about = (
        "A tray of NVLink switches that fails stops its rack. No rate is published; this is 3.6 % a year, where leaf "
        "switches of networks have 0.6 to 8 % (Alibaba HPN, SIGCOMM 2024; Azure, CCR 2021): assumption"
    )
    return [
        *note(f"{about}.", "  "),
        f"  - {catalog.SWITCH_TRAYS}",
    ]


def _repaired(parts: Parts) -> int:
    """Return how many causes of the bundle have a repair time of their own."""
    return sum("repair" in cause for cause in catalog.bundle(parts.wishes.failures).get("sources", ()))


def _policies(parts: Parts, work: Workload | None) -> list[str]:
    preset, lines = parts.preset, []
    width = f", tensor: {work.tensor}" if parts.is_narrow and work is not None and work.tensor > 1 else ""
    if "detection" not in preset:
        lines += said("detection: {time: 3 min}", "from a failure to the job's knowing of it; assumption")
    lines += [
        *note("Checkpoints: how often, and what they cost. mode: async or blocking. All times: assumptions."),
        "checkpoint:",
        *_from_preset(preset),
        "  tiers:",
        *said("    - store: remote", "a store beside the cluster; host and peer-host: the memory of hosts"),
        *said("      interval: 10 min", "or: young, daly, optimal: by theory"),
        "      mode: async",
        *said("      stall: 2 s", "how long the job stands still for a copy"),
        *said("      write: 60 s", "until a copy is durable"),
        *said("      restore: 30 s", "to read it back"),
        "",
        *note(
            f"How the job comes back: {preset['title']}. Source: {preset['source']}. It brings the phases of a restart"
            f"{' and who notices a failure, and when' if 'detection' in preset else ''}. Others: ettrick list.",
        ),
        f"recovery: {{use: {parts.wishes.recovery}{width}}}",
        *said(f"spares: {{hot: {parts.spares}}}", f"{_share(parts)}; assumption"),
    ]
    if _repaired(parts) == len(catalog.causes(parts.wishes.failures)):
        return [*lines, *note("Every cause has a repair time of its own. One for all: repair: {time: 1 d}")]
    return [
        *lines,
        *said(
            "repair: {time: {law: lognormal, median: 22 h, sigma: 1.5}}",
            "until a node is back; source: arXiv 2502.03885, 400 servers. One time: repair: {time: 1 d}",
        ),
    ]


def _from_preset(preset: dict[str, Any]) -> list[str]:
    """Return the line that adds the stores of the recovery preset, where it has some."""
    stores = [store["store"] for store in preset.get("checkpoint", {}).get("tiers", ())]
    if not stores:
        return []
    return said("  from_preset: true", f"adds those of the recovery: {' and '.join(stores)}; false: without them")


def _share(parts: Parts) -> str:
    share = parts.spares * parts.per_node / parts.wishes.gpus
    return f"nodes that stand ready, {100 * share:.1f} % of the job" + (": whole racks" if parts.is_rack else "")


def _assumptions(parts: Parts) -> list[str]:
    """Return what every result repeats, because nobody has measured it."""
    texts = ["checkpoint, spares, batch and layout: a starter's, to be replaced by yours"]
    if parts.chip.announced:
        texts.append(f"{parts.wishes.accelerator}: announced, not measured")
    if parts.is_rack:
        texts.append("NVLink switch trays: 0.1 failures per 1000 days of a tray; no rate is published")
    if parts.tokens > _LARGEST:
        texts.append(
            f"a batch of {parts.tokens / 1e6:,.0f} M tokens keeps all GPUs busy; the largest that is known "
            f"has {_LARGEST / 1e6:.0f} M (MiniMax-01, arXiv 2501.08313)"
        )
    if parts.wishes.accelerator.startswith("tpu"):
        texts.append("a fat tree stands for the torus of a TPU pod")
    return ["assumptions:", *(f"  - {quoted(text)}" for text in texts)]
