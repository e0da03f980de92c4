"""Inference by the closed form: what holds for every model, accelerator, engine and layout of the catalog."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim import catalog
from sim.steps.serving import (
    BYTES,
    Replica,
    Requests,
    cache_room,
    decode,
    largest_batch,
    least_prefill,
    prefill,
    time_per_token,
    time_to_first_token,
    traffic,
)


@st.composite
def replicas(draw: st.DrawFn) -> Replica:
    """Draw a replica."""
    shape = catalog.models()[draw(st.sampled_from(sorted(catalog.models())))]
    return Replica(
        shape,
        catalog.accelerators()[draw(st.sampled_from(sorted(catalog.accelerators())))],
        catalog.engines()[draw(st.sampled_from(sorted(catalog.engines())))],
        catalog.serving_constants(),
        draw(st.sampled_from(sorted(BYTES))),  # type: ignore[arg-type]
        draw(st.sampled_from(["bf16", "fp8"])),  # type: ignore[arg-type]
        tensor=draw(st.sampled_from([1, 2, 8, 16])),
        data=draw(st.sampled_from([1, 4, 32])) if shape.experts is not None else 1,
        pipeline=draw(st.sampled_from([1, 2, 4])),
        streams=draw(st.booleans()),
    )


REQUESTS = st.builds(
    Requests,
    st.floats(1, 1e5),
    st.floats(1, 2e4),
    spread=st.floats(0, 2),
    whole=st.floats(1, 5),
    gaps=st.floats(0, 1),
)


def test_no_more_than_all_of_a_peak_is_reached() -> None:
    """Fitted shares of bandwidths and of products are at most 1."""
    numbers = catalog.serving_constants()
    shares = [*numbers.memory.values(), *numbers.gemm.values(), numbers.attention, numbers.latent, numbers.expert_read]
    assert max(shares) <= 1


@given(replicas(), REQUESTS, st.floats(1, 4096))
def test_times_are_finite_and_never_above_the_roofline(one: Replica, asked: Requests, batch: float) -> None:
    """Times are positive, and no faster than the bytes and the FLOP of a token at the peaks of the data sheet."""
    times = [time_per_token(one, batch, asked), time_to_first_token(one, batch, asked)]
    times += [prefill(one, asked.input), least_prefill(one), *decode(one, batch, asked.context)]
    assert np.isfinite(times).all()
    assert min(times[:4]) > 0
    assert min(times) >= 0
    read, work = traffic(one, batch, asked)
    peak = one.chip.peak[one.products]
    assert times[0] >= max(read / one.chip.memory_bandwidth, work / peak) * (1 - 1e-9)


@given(replicas(), REQUESTS, st.floats(1, 2048), st.floats(1, 8))
def test_more_in_flight_takes_longer_and_yields_more(one: Replica, asked: Requests, batch: float, more: float) -> None:
    """TPOT does not fall with the batch, and neither do tokens a second; a faster chip is never slower."""
    times = [float(time_per_token(one, size, asked)) for size in (batch, more * batch)]
    assert times[0] <= times[1] * (1 + 1e-9)
    assert batch / times[0] <= more * batch / times[1] * (1 + 1e-9)
    chip = one.chip
    wide = dataclasses.replace(chip, memory_bandwidth=more * chip.memory_bandwidth)
    fast = dataclasses.replace(chip, peak={name: more * peak for name, peak in chip.peak.items()})
    for other in (wide, fast):
        assert float(time_per_token(dataclasses.replace(one, chip=other), batch, asked)) <= times[0] * (1 + 1e-9)


@given(replicas(), REQUESTS)
def test_the_largest_batch_fits(one: Replica, asked: Requests) -> None:
    """Weights, and keys and values of the largest batch, are within the share of the memory that the engine uses."""
    batch = largest_batch(one, asked)
    kept = one.weight_bytes + batch / one.data * float(one.cache_bytes(asked.context))
    assert batch == 0 or kept <= one.chip.memory * (1 + 1e-9)
    assert (batch == 0) == (cache_room(one) <= 0)
