"""Hypothesis strategies: steps of small and of large models, on machines of the catalog and on others."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from sim import catalog
from sim.catalog import steps
from sim.steps import Constants, Experts, Machine, ModelShape, Workload, ideal_links, problems
from sim.steps.workload import expert_sizes

if TYPE_CHECKING:
    from tests.strategies_laws import Draw


POWERS = st.sampled_from((1, 2, 4, 8))


@st.composite
def shapes(draw: Draw) -> ModelShape:
    """Return a model: of the catalog, or a small one with or without experts."""
    if draw(st.booleans()):
        known: ModelShape = draw(st.sampled_from(list(catalog.models().values())))
        return known
    heads = draw(st.sampled_from((8, 12, 16, 64)))
    experts = Experts(
        count=draw(st.sampled_from((8, 12, 64))),
        active=draw(st.integers(1, 4)),
        ffn=draw(st.sampled_from((256, 4096))),
        shared=draw(st.sampled_from((0, 512))),
        domains=draw(st.sampled_from((0, 2))),
    )
    return ModelShape(
        layers=draw(st.integers(1, 40)),
        hidden=heads * draw(st.sampled_from((32, 128))),
        ffn=draw(st.sampled_from((1024, 16384))),
        heads=heads,
        kv_heads=draw(st.sampled_from((1, 4, heads))),
        vocabulary=draw(st.sampled_from((0, 1000, 200_000))),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        experts=draw(st.sampled_from((None, experts))),
        depths=draw(st.sampled_from((0, 0, 1))),
    )


@st.composite
def workloads(draw: Draw) -> Workload:
    """Return a step that can be: everything that has to be divided evenly is."""
    shape: ModelShape = draw(shapes())
    pipeline = draw(st.sampled_from([size for size in (1, 2, 3, 4, 6, 8) if size <= shape.layers]))
    data, microbatch = draw(POWERS), draw(POWERS)
    rounds = draw(st.integers(1, 40)) * draw(st.sampled_from((1, pipeline)))
    context = draw(POWERS)
    work = Workload(
        shape=shape,
        sequence=draw(st.sampled_from((256, 4096, 65536))),
        sequences=data * microbatch * rounds,
        microbatch=microbatch,
        tensor=draw(st.sampled_from([size for size in (1, 2, 4, 8) if shape.heads % size == 0])),
        context=context,
        pipeline=pipeline,
        data=data,
        **draw(_execution()),
    )
    if shape.experts is not None:
        choices = [
            size for size in (1, 2, 4, 8) if size in expert_sizes(data, context) and shape.experts.count % size == 0
        ]
        work = replace(work, expert=draw(st.sampled_from(choices)))
    if work.sharding == "parameters" and draw(st.booleans()):
        groups = [size for size in (2, 4) if work.data_ranks % size == 0]
        work = replace(work, shard_ranks=draw(st.sampled_from(groups))) if groups else work
    interleaved = [replace(work, virtual=pieces, schedule="1f1b") for pieces in (2, 3, 4)]
    chosen: Workload = draw(st.sampled_from([work, *(other for other in interleaved if not problems(other))]))
    assert problems(chosen) == []
    return chosen


@st.composite
def _execution(draw: Draw) -> dict[str, Any]:
    """Return how a step is executed."""
    schedule = draw(st.sampled_from(("1f1b", "1f1b", "zero-bubble-h1", "zero-bubble-h2")))
    flags = ("sequence_parallel", "fused_attention", "overlap_tensor", "overlap_data")
    return {
        "precision": draw(st.sampled_from(("bf16", "fp8"))),
        "schedule": schedule,
        "recompute": draw(st.sampled_from(("none", "selective", "full"))),
        "sharding": draw(st.sampled_from(("none", "optimizer", "parameters"))),
        "overlap_expert": draw(st.booleans()),
        **{name: draw(st.booleans()) for name in flags},
    }


@st.composite
def machines(draw: Draw, work: Workload) -> Machine:
    """Return an accelerator that has the precision, links of any width, and the fitted constants or any others."""
    names = [name for name, chip in catalog.accelerators().items() if work.precision in chip.peak]
    chip = catalog.accelerators()[draw(st.sampled_from(names))]
    network = draw(st.sampled_from((1e9, 25e9, 100e9)))
    links = ideal_links(work, chip.scale_up, network, draw(st.sampled_from((1, 4, 8, 72))))
    constants = steps.constants()
    if draw(st.booleans()):
        constants = Constants(**{entry.name: draw(_scaled(entry.name)) for entry in fields(Constants)})
    shares = steps.efficiencies(chip, work.precision, experts=work.shape.experts is not None)
    return Machine(chip, shares, links, constants)


def _scaled(name: str) -> st.SearchStrategy[float]:
    """Return any value of a constant: shares up to all, others around their default."""
    usual = float(getattr(Constants(), name))
    most = 1.0 if usual <= 1 and name not in ("launch", "latency", "overhead", "expert_launch") else 10 * usual
    least = 0.1 * most if name in ("scale_up", "network", "memory", "expert_gemm") else 0.0
    return st.floats(least, most)


@st.composite
def layouts(draw: Draw) -> Workload:
    """Return any sizes at all, most of which do not divide what they have to; sequences are even."""
    size = st.integers(1, 24)
    shape = draw(shapes())
    return Workload(
        shape=shape,
        sequence=2 * draw(st.integers(1, 200)),
        sequences=draw(st.integers(1, 200)),
        microbatch=draw(st.integers(1, 6)),
        tensor=draw(size),
        context=draw(st.integers(1, 6)),
        pipeline=draw(st.integers(1, 48)),
        data=draw(size),
        expert=draw(st.integers(1, 6)),
        virtual=draw(st.sampled_from((1, 1, 2, 3, 4))),
        schedule=draw(st.sampled_from(("1f1b", "1f1b", "zero-bubble-h1"))),
        sharding="parameters",
        shard_ranks=draw(st.integers(0, 6)),
    )
