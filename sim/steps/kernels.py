r"""The kernels of a step: matrix products, attention, element-wise passes and collectives, with the time of each.

The times of the kernels of a term add up to the term of `ettrick.sim.steps.time.breakdown`. That model has one
efficiency for all matrix products, fitted to whole steps; how their time divides among them follows from their sizes:

.. math:: t = \frac{2 m n k}{e\, \Pi} + \frac{\text{bytes}}{c\, H} + t_0

as measured of matrix products by themselves (`Benchmarks`). So a small product has a larger share of the time than of
the FLOP, and the sum stays as it was calibrated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ettrick.sim.steps.memory import INPUT_BYTES, activations
from ettrick.sim.steps.time import (
    all_to_all,
    attention_again,
    attention_flop,
    cheap_again,
    heads_exchange,
    launch_time,
    parameters_per_gpu,
    rate,
    stages,
    trained_per_gpu,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ettrick.sim.steps.hardware import Link, Links
    from ettrick.sim.steps.plan import StepPlan
    from ettrick.sim.steps.workload import Workload

Kind: TypeAlias = Literal["gemm", "attention", "elementwise", "collective", "wait"]

Bound: TypeAlias = Literal["compute", "memory", "latency", "waves", "bandwidth"]

TILE = (128, 256)

"""Rows and columns of a product that a multiprocessor computes at a time: the large tile of Hopper's and later kernels
(assumed)."""


class GemmCurve(NamedTuple):
    """The speed of matrix products of one precision by their size, measured by themselves.

    Parameters
    ----------
    compute, memory
        Share of the peak [-], and coefficient of the memory bandwidth [-].
    start
        Time of an empty product [s].
    best
        Best measured share of the peak [-].
    error
        Mean absolute error of the fit [-]; 0 where nothing is fitted.
    """

    compute: float
    memory: float
    start: float
    best: float
    error: float = 0.0


@dataclass(frozen=True)
class Benchmarks:
    """The speed of kernels of an accelerator by themselves.

    Parameters
    ----------
    products
        By precision, 16 bits at least.
    multiprocessors
        Which compute a tile each [-]; 0 where it is not known.
    collectives
        Bus bandwidth inside a scale-up domain by kind and ranks [B/s].
    in_step
        Share that attention reaches in a step of what it reaches by itself [-].
    source
        Accelerator that was measured; empty where nobody has published such measurements.
    """

    products: Mapping[str, GemmCurve]
    multiprocessors: int = 0
    collectives: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    in_step: float = 1.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the slowest stage, as one GPU runs it.

    Parameters
    ----------
    layer, direction, name
        Kind of layer (``dense``, ``experts``, ``logits`` or ``step``), pass and name: together unique.
    kind, term
        What it is, and the term of `Breakdown` that it is a part of.
    count
        How often in a step [-]; not whole where layers are uneven, or only some of them are computed again.
    precision
        Format of what it reads; empty where it computes nothing.
    m, n, k, groups
        Sizes of a product, and how many of them are one kernel [-]. Of attention: queries, keys, head width, and heads
        times sequences.
    flop, size
        FLOP, and bytes moved, of a call: in memory, or of a collective the message [FLOP], [B].
    ranks
        GPUs of the group [-]; 0 where it needs no other GPU.
    alone
        Predicted time of a call by itself [s].
    best
        Time of a call at the rate of the benchmark, or at that of memory or links by the data sheet [s].
    time
        What a call adds to the step [s]: of a collective what is not hidden.
    bound
        What most of its time alone goes to; ``None`` of what waits.
    waves
        Share of the multiprocessors that work, the mean over waves of tiles [-]; ``None`` where there are no tiles.
    """

    layer: str
    direction: str
    name: str
    kind: Kind
    term: str
    count: float
    precision: str = ""
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0
    groups: float = 1.0
    flop: float = 0.0
    size: float = 0.0
    ranks: int = 0
    alone: float = 0.0
    best: float = 0.0
    time: float = 0.0
    bound: Bound | None = None
    waves: float | None = None

    @property
    def id(self) -> str:
        """Name of the kernel in files."""
        return f"{self.layer}/{self.direction}/{self.name}".replace(" ", "-")

    @property
    def step_time(self) -> float:
        """The time that all calls add to a step [s]."""
        return self.count * self.time

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity [FLOP/B]."""
        return self.flop / self.size if self.flop and self.size else None

    @property
    def reached(self) -> float | None:
        """Rate of a call in the step, of a collective by itself, over that of the benchmark [-]; above 1 if faster."""
        spent = self.alone if self.kind == "collective" else self.time
        return self.best / spent if self.best and spent else None


def kernels(plan: StepPlan, benchmarks: Benchmarks) -> list[Kernel]:
    """Return the kernels of a step; their `step_time` add up to the step, term by term.

    Parameters
    ----------
    plan
        The step.
    benchmarks
        What kernels reach by themselves.
    """
    work = plan.work
    stage_times = stages(work, plan.machine)
    layers, mixed = work.shape.all_layers, work.shape.expert_layers
    layer_passes = work.microbatches * stage_times.layers
    rows: list[Kernel] = []
    for experts, count in ((False, layers - mixed), (True, mixed)):
        if count:
            rows += _layer(plan, layer_passes * count / layers, experts=experts)
    if stage_times.logits:
        rows += _logits(work)
    rows += [*_between_stages(work), *_replicas(work), *_rest(plan)]
    rows = [_timed(row, plan, benchmarks) for row in rows]
    # Each term divides by the times that its kernels take alone.
    terms = plan.breakdown._asdict()
    sums = dict.fromkeys(terms, 0.0)
    for row in rows:
        sums[row.term] += row.count * row.alone
    shares = {term: terms[term] / total if total else 0.0 for term, total in sums.items()}
    return [replace(row, time=row.alone * shares[row.term]) for row in rows if terms[row.term] or row.alone]


def _layer(plan: StepPlan, count: float, *, experts: bool) -> Iterator[Kernel]:
    """Yield what a layer does for a microbatch; `count` is layers times microbatches [-]."""
    work = plan.work
    name = "experts" if experts else "dense"
    for product in products_of(work, experts=experts):
        kernel = replace(product, layer=name, count=count * product.count, precision=work.precision)
        yield from _passes(kernel, work)
    if work.shape.lora:
        # All adapters of a layer together: both products of each, as wide as their inputs and outputs.
        wide = work.shape.adapters(experts=experts) / work.shape.lora / work.tensor
        adapters = Kernel(
            name, "forward", "adapters", "gemm", "gemm", count, "bf16", work.tokens, work.shape.lora, wide
        )
        for direction in ("forward", "input gradient", "weight gradient"):
            yield replace(adapters, direction=direction)
    yield from _attention(work, name, count)
    yield from _elementwise(plan, name, count, experts=experts)
    yield from _exchanges(work, name, count, experts=experts)
    if plan.breakdown.launch:
        wait = launch_time(work, plan.machine.constants, float(experts))
        yield Kernel(name, "all", "host launch", "wait", "launch", count, alone=wait)


def products_of(work: Workload, *, experts: bool) -> Iterator[Kernel]:
    """Yield the products of the forward pass with weights: m tokens, n outputs and k inputs; counts are of a layer."""
    yield from _mixing_products(work)
    yield from _feed_forward_products(work, experts=experts)


def _product(name: str, m: float, n: float, k: float, groups: float = 1.0, share: float = 1.0) -> Kernel:
    return Kernel("", "forward", name, "gemm", "gemm", share, m=m, n=n, k=k, groups=groups)


def _mixing_products(work: Workload) -> Iterator[Kernel]:
    """Yield the products of what mixes tokens: attention, or a state."""
    shape, ranks, tokens = work.shape, work.tensor, work.tokens
    hidden, low, mixer = shape.hidden, shape.latent, shape.mixer
    if mixer is not None:
        there = shape.recurrent / shape.layers
        yield _product("state in", tokens, mixer.width_in / ranks, hidden, share=there)
        yield _product("state out", tokens, hidden, mixer.inner / ranks, share=there)
        if there < 1:
            yield _product("qkv", tokens, shape.qkv_width / ranks, hidden, share=1 - there)
            yield _product("proj", tokens, hidden, shape.heads * shape.head_width / ranks, share=1 - there)
        return
    if low is None:
        yield _product("qkv", tokens, shape.qkv_width / ranks, hidden)
    else:
        # Every rank compresses its own part of the tokens.
        yield _product("q down", tokens / ranks, low.query_rank, hidden)
        yield _product("kv down", tokens / ranks, low.kv_rank + low.rotary, hidden)
        yield _product("q up", tokens, shape.heads * (low.head + low.rotary) / ranks, low.query_rank)
        yield _product("kv up", tokens, shape.heads * (low.head + low.value) / ranks, low.kv_rank)
    yield _product("proj", tokens, hidden, shape.attention_output / ranks)


def _feed_forward_products(work: Workload, *, experts: bool) -> Iterator[Kernel]:
    """Yield the products of a feed-forward part, dense or of experts with what they share."""
    shape, ranks, tokens = work.shape, work.tensor, work.tokens
    hidden, gates = shape.hidden, shape.matrices - 1
    width: float = shape.ffn
    if experts and shape.experts is not None:
        width = shape.experts.shared
        yield _product("router", tokens / ranks, shape.experts.count, hidden)
        local_experts = shape.experts.count / work.expert
        met = tokens / ranks * shape.experts.active * work.expert_load * work.expert_tensor / local_experts
        inside = shape.experts.ffn / work.expert_tensor
        if shape.experts.latent:
            yield _product("latent down", tokens / ranks, shape.expert_hidden, hidden)
            yield _product("latent up", tokens / ranks, hidden, shape.expert_hidden)
        yield _product("expert fc1", met, gates * inside, shape.expert_hidden, local_experts)
        yield _product("expert fc2", met, shape.expert_hidden, inside, local_experts)
    if width:
        kind = "shared " if experts else ""
        yield _product(f"{kind}fc1", tokens, gates * width / ranks, hidden)
        yield _product(f"{kind}fc2", tokens, hidden, width / ranks)


_AGAIN = {"up_projection": ("q up", "kv up"), "mlp": ("fc1", "fc2"), "shared_experts": ("shared fc1", "shared fc2")}
_AGAIN |= {"experts": ("expert fc1", "expert fc2")}

"""Products of the modules that are computed again."""


def _passes(product: Kernel, work: Workload) -> Iterator[Kernel]:
    """Yield a product forward, its gradients of inputs and of weights, and where it is computed again."""
    m, n, k = product.m, product.n, product.k
    yield product
    yield replace(product, direction="input gradient", n=k, k=n)
    if not work.shape.lora:
        yield replace(product, direction="weight gradient", m=n, n=k, k=m)
    again = work.whole_again + sum(product.name in _AGAIN.get(module, ()) for module in work.again)
    if again:
        yield replace(product, direction="recompute", count=again * product.count)


def _logits(work: Workload) -> Iterator[Kernel]:
    shape = work.shape
    count = work.microbatches * (1 + shape.depths)
    sizes = (work.tokens, shape.vocabulary / work.tensor, shape.hidden)
    forward = Kernel("logits", "forward", "output", "gemm", "logits", count, "bf16", *sizes)
    yield from (row for row in _passes(forward, work) if row.direction != "recompute")


def _attention(work: Workload, layer: str, count: float) -> Iterator[Kernel]:
    """Yield the core of attention: its passes are those of `sim.steps.time`, half a pass more backward where fused."""
    shape, flop = work.shape, attention_flop(work)
    heads = shape.heads * work.microbatch / work.tensor
    queries = work.sequence / work.context
    low = shape.latent
    width = shape.head_width if low is None else low.head + low.rotary
    grouped = shape.kv_width if low is None else shape.attention_width
    size = INPUT_BYTES[work.attention]
    # Queries and outputs of a rank's own tokens, keys and values of all tokens.
    moved = work.tokens * (shape.heads * width + shape.attention_output) + work.microbatch * work.sequence * grouped
    moved *= size / work.tensor
    if not work.fused_attention:
        moved += 4 * size * heads * queries * work.sequence
    row = Kernel(
        layer, "forward", "attention", "attention", "attention", count, work.attention, queries, work.sequence, width,
        heads, flop, moved,
    )  # fmt: skip
    yield row
    yield replace(row, direction="backward", flop=(2.5 if work.fused_attention else 2.0) * flop, size=2 * moved)
    if again := attention_again(work):
        yield replace(row, direction="recompute", count=again * count)


def _elementwise(plan: StepPlan, layer: str, count: float, *, experts: bool) -> Iterator[Kernel]:
    """Yield what only moves memory: the parts of the inventory, each touched a few times per pass."""
    work, constants = plan.work, plan.machine.constants
    inventory = activations(work.shape, work.sequence, experts=experts, fused=work.fused_elementwise)
    parts = [
        ("norm and residual", constants.touches * inventory.whole / work.split),
        ("rotation and activation", constants.touches * (inventory.divided - inventory.copies) / work.tensor),
        ("expert permute and activation", constants.expert_touches * work.expert_load * inventory.copies / work.tensor),
        ("softmax", 0.0 if work.fused_attention else constants.score_touches * inventory.scores / work.tensor),
    ]
    again = work.whole_again + cheap_again(work, experts=experts)
    backward = 1 if work.shape.lora else 2
    for name, part in parts:
        for direction, times, calls in (("forward", 1, 1.0), ("backward", backward, 1.0), ("recompute", 1, again)):
            if part and calls:
                size = times * part * work.tokens
                yield Kernel(
                    layer, direction, name, "elementwise", "elementwise", count * calls, work.precision, size=size
                )  # fmt: skip


def _exchanges(work: Workload, layer: str, count: float, *, experts: bool) -> Iterator[Kernel]:
    """Yield the collectives inside a layer; a message is what all ranks hold together, of all-to-all what one has."""
    token = 2 * work.tokens * work.shape.hidden
    directions = [("forward", 1.0, 1.0), ("backward", 1.0, 2.0)]
    directions += [("recompute", work.whole_again, 1.0)] if work.whole_again else []
    for direction, calls, more in directions:
        if work.tensor > 1:
            kinds = ("reduce-scatter", "all-gather") if work.sequence_parallel else ("all-reduce",)
            for name in kinds:
                yield _collective(layer, direction, name, "tensor", 2 * calls * count, token, work.tensor)
        if work.context > 1:
            sent = more * 2 * work.tokens * work.shape.kv_width / work.tensor
            rounds = calls * count * (work.context // work.ulysses - 1)
            sent *= work.copied_heads
            if rounds:
                yield _collective(
                    layer, direction, "send-receive keys and values", "context", rounds, sent, work.context
                )  # fmt: skip
            if work.ulysses > 1:
                heads = work.tokens * work.head_values
                yield _collective(
                    layer, direction, "all-to-all heads", "context", 2 * calls * count, heads, work.ulysses
                )
    if experts and work.shape.experts is not None:
        if not work.whole_again and "experts" in work.again:
            directions.append(("recompute", 1.0, 1.0))
        message = 2 * work.tokens * work.shape.expert_hidden * work.shape.experts.active / work.tensor
        yield from _expert_exchanges(work, layer, count, directions, message)


def _expert_exchanges(
    work: Workload, layer: str, count: float, directions: Sequence[tuple[str, float, float]], message: float
) -> Iterator[Kernel]:
    """Yield the collectives that take tokens to their experts and back; a message is what one rank sends [B]."""
    for direction, calls, _ in directions:
        if work.expert > 1:
            yield _collective(layer, direction, "all-to-all", "expert", 2 * calls * count, message, work.expert)
        if work.expert_tensor > 1:
            for name in ("reduce-scatter", "all-gather"):
                shared = message * work.expert_tensor
                yield _collective(
                    layer, direction, f"{name} experts", "expert", calls * count, shared, work.expert_tensor
                )  # fmt: skip


def _collective(layer: str, direction: str, name: str, term: str, count: float, size: float, ranks: int) -> Kernel:
    return Kernel(layer, direction, name, "collective", term, count, size=size, ranks=ranks)


def _between_stages(work: Workload) -> Iterator[Kernel]:
    if work.pipeline > 1:
        size = 2 * work.tokens * work.shape.hidden / work.tensor
        count = work.microbatches * work.virtual
        for direction in ("forward", "backward"):
            yield _collective("step", direction, "send-receive activations", "pipeline", count, size, 2)


def _replicas(work: Workload) -> Iterator[Kernel]:
    """Yield what data-parallel ranks exchange: gradients, and parameters where state is divided."""
    kinds = zip(
        ("", " experts"), parameters_per_gpu(work), trained_per_gpu(work), (work.data_ranks, work.expert_replicas),
        strict=True,
    )  # fmt: skip
    for of, parameters, trained, ranks in kinds:
        if ranks == 1 or not parameters:
            continue
        gradients, weights = trained * work.reduced_bytes, trained * INPUT_BYTES[work.precision]
        if work.sharding == "none":
            yield _collective("step", "update", f"all-reduce gradients{of}", "data", 1, gradients, ranks)
            continue
        if work.sharding == "parameters":
            among = min(work.shard_ranks or ranks, ranks)
            times = work.reductions
            if among > 1:
                gathered = 2 * parameters
                yield _collective("step", "all", f"all-gather parameters{of}", "data", 2 * times, gathered, among)
                yield _collective("step", "backward", f"reduce-scatter gradients{of}", "data", times, gradients, among)
            if among < ranks:
                size, groups = gradients / among, ranks // among
                yield _collective("step", "update", f"all-reduce gradients{of}", "data", 1, size, groups)
            continue
        yield _collective("step", "update", f"reduce-scatter gradients{of}", "data", work.reductions, gradients, ranks)
        yield _collective("step", "update", f"all-gather parameters{of}", "data", 1, weights, ranks)


def _rest(plan: StepPlan) -> Iterator[Kernel]:
    """Yield what belongs to no layer."""
    machine, breakdown = plan.machine, plan.breakdown
    if breakdown.optimizer:
        size = breakdown.optimizer / plan.scale * machine.constants.memory * machine.chip.memory_bandwidth
        yield Kernel("step", "update", "optimizer", "elementwise", "optimizer", 1, "fp32", size=size)
    for name, term in (("fill and drain", "bubble"), ("host memory", "offload"), ("other", "overhead")):
        time = getattr(breakdown, term)
        if time:
            yield Kernel("step", "all", name, "wait", term, 1, alone=time)


def _timed(row: Kernel, plan: StepPlan, benchmarks: Benchmarks) -> Kernel:
    """Return a kernel with its time alone, the shortest known one, and what bounds it."""
    machine = plan.machine
    chip, bandwidth = machine.chip, machine.chip.memory_bandwidth
    if row.kind == "elementwise":
        share = machine.constants.memory if row.term == "optimizer" else 1.0
        return replace(row, alone=row.size / (share * bandwidth), best=row.size / bandwidth, bound="memory")
    if row.kind == "collective":
        return _moved(row, plan, benchmarks)
    if row.kind == "wait":
        return row
    peak = chip.peak[row.precision]
    curve = benchmarks.products[row.precision if row.precision in benchmarks.products else "bf16"]
    if row.kind == "attention":
        alone = benchmarks.in_step * row.flop / (machine.shares.attention * peak)
        best = max(row.flop / (curve.best * peak), row.size / bandwidth)
        bound: Bound = "memory" if row.size / bandwidth > row.flop / (curve.best * peak) else "compute"
        return replace(row, alone=alone, best=best, bound=bound)
    flop = 2 * row.m * row.n * row.k * row.groups
    size = row.groups * (INPUT_BYTES[row.precision] * row.k * (row.m + row.n) + 2 * row.m * row.n)
    compute, memory = flop / (curve.compute * peak), size / bandwidth
    waves = _waves(row, benchmarks.multiprocessors)
    parts: dict[Bound, float] = {"compute": compute, "memory": memory, "latency": curve.start}
    if waves is not None:
        parts["waves"] = compute * (1 / waves - 1)
    return replace(
        row,
        flop=flop,
        size=size,
        alone=compute + memory / curve.memory + curve.start,
        best=max(flop / (curve.best * peak), memory),
        bound=max(parts.items(), key=lambda part: part[1])[0],
        waves=waves,
    )


def _waves(row: Kernel, multiprocessors: int) -> float | None:
    """Return the share of the tiles of all waves that hold work [-]: multiprocessors idle in the last wave."""
    if not multiprocessors:
        return None
    tiles = row.groups * math.ceil(row.m / TILE[0]) * math.ceil(row.n / TILE[1])
    return tiles / (math.ceil(tiles / multiprocessors) * multiprocessors)


def _moved(row: Kernel, plan: StepPlan, benchmarks: Benchmarks) -> Kernel:
    """Return a collective with the time of its bytes over what its group reaches, and that of its start."""
    work, constants = plan.work, plan.machine.constants
    links = plan.machine.links
    link, name = _link_of(row, work, links), row.name.partition(" ")[0]
    ways = 2.0 if name == "all-reduce" else 1.0
    sent = row.size if name == "send-receive" else ways * (row.ranks - 1) / row.ranks * row.size
    moving = sent / rate(link, constants)
    if name == "all-to-all":
        exchange = heads_exchange if row.term == "context" else all_to_all
        moving = exchange(work, links, constants)
    measured = benchmarks.collectives.get(name, {}) if not link.network else {}
    fastest = link.scale_up if not link.network else min(link.scale_up, link.ranks * link.network)
    if measured:
        # Of more ranks than were measured: as the most of them.
        fastest = measured[max((ranks for ranks in measured if ranks <= row.ranks), default=min(measured))] or fastest
    bound: Bound = "latency" if constants.latency > moving else "bandwidth"
    return replace(row, alone=moving + constants.latency, best=sent / fastest, bound=bound)


def _link_of(row: Kernel, work: Workload, links: Links) -> Link:
    """Return the link that the group of a collective has."""
    link: Link = getattr(links, row.term)
    mixed = row.name.endswith("experts")
    if mixed:
        link = links.expert_data if row.term == "data" else links.tensor
    if row.name == "all-to-all heads":
        link = links.ulysses
    if row.term == "data" and work.sharding == "parameters":
        copies = work.expert_replicas if mixed else work.data_ranks
        if not row.name.startswith("all-reduce"):
            return link.of_part(row.ranks, copies)
        # Of what is left to groups of `among` ranks, one rank of each takes part.
        among = copies // row.ranks
        return link._replace(ranks=max(1, link.ranks // among)) if link.network else link
    return link


def calibrated(rows: Sequence[Kernel], measured: Mapping[str, float]) -> list[Kernel]:
    """Return the kernels with measured times; others of a term are longer by what its measured ones are together."""
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for row in rows:
        if row.id in measured:
            before[row.term] = before.get(row.term, 0.0) + row.step_time
            after[row.term] = after.get(row.term, 0.0) + row.step_time * measured[row.id] / row.alone

    def factor(row: Kernel) -> float:
        if row.id in measured:
            return measured[row.id] / row.alone
        return after[row.term] / before[row.term] if before.get(row.term) else 1.0

    return [replace(row, time=row.time * (times := factor(row)), alone=row.alone * times) for row in rows]
