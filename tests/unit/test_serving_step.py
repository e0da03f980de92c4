"""The closed form of inference: limits by hand, laws that hold exactly, and published steps where they are present."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick.sim import catalog
from ettrick.sim.steps.recommender import recommend
from ettrick.sim.steps.serving import (
    BYTES,
    DisaggregatedPools,
    Replica,
    Requests,
    batch_of_load,
    batch_within,
    cache_room,
    decode,
    handover,
    largest_batch,
    largest_rate,
    least_prefill,
    pooled_in_flight,
    power,
    prefill,
    reading_rate,
    speculated,
    time_per_token,
    time_to_first_token,
    traffic,
)
from tests.calibrate import serving as calibrate
from tests.cases import cases

CHAT = Requests(1155.0, 211.0)


def replica(model: str = "llama3-70b", chip: str = "h100", engine: str = "vllm", **changes: object) -> Replica:
    """Return a replica at FP8 with 16-bit keys and values on four GPUs, but for some changes."""
    plain = Replica(
        catalog.models()[model],
        catalog.accelerators()[chip],
        catalog.engines()[engine],
        catalog.serving_constants(),
        "fp8",
        "bf16",
        tensor=4,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def without_overheads(plain: Replica) -> Replica:
    """Return a replica that reaches every peak, and whose host and links take no time."""
    free = dataclasses.replace(plain.engine, launch=0.0, sequence=0.0)
    perfect = dataclasses.replace(
        plain.constants,
        memory={plain.chip.generation: 1.0},
        gemm=dict.fromkeys(plain.constants.gemm, 1.0),
        collective=0.0,
        step=0.0,
        touches=0.0,
        scale_up=1e12,
    )
    return dataclasses.replace(plain, engine=free, constants=perfect)


def test_one_sequence_reads_weights_and_cache_once() -> None:
    """Without overheads and at small batch a step is the bytes of weights, keys and values over the bandwidth."""
    one = without_overheads(replica())
    shape = one.shape
    layers = shape.layers * (2 * 8192 * (64 + 8) * 128 + 3 * 8192 * 28672)
    held = (layers + 2 * 128256 * 8192 * 2) / 4
    kept = 80 * 2 * 8 * 128 * 2 / 4 * 1000
    assert float(decode(one, 1.0, 1000.0).total) == pytest.approx((held + kept) / 3.35e12, rel=1e-9)


def test_large_batches_are_bound_by_arithmetic() -> None:
    """Without overheads the matrix products of a step of 4,096 tokens take 2 P B over the peak."""
    many = without_overheads(replica())
    step = decode(many, 4096.0, 0.0)
    products = 80 * (2 * 8192 * (64 + 8) * 128 + 3 * 8192 * 28672) + 128256 * 8192
    assert float(step.total) == pytest.approx(2 * products * 4096 / 4 / 1979e12, rel=1e-9)


def test_whole_answers_cost_the_host_nothing() -> None:
    """Without a stream of tokens a step of B sequences is shorter by B times the host's time, and by nothing else."""
    whole = decode(replica(streams=False), 100.0, 1000.0)
    streamed = decode(replica(), 100.0, 1000.0)
    assert whole == streamed._replace(host=0.0)
    assert streamed.host == pytest.approx(100 * replica().engine.sequence)


def test_a_prefill_is_its_arithmetic() -> None:
    """Without overheads a prompt of n tokens takes 2 P n at 8 bits and the causal half of the scores at 16 bits."""
    one = without_overheads(replica())
    one = dataclasses.replace(one, constants=dataclasses.replace(one.constants, attention=1.0))
    products = 80 * (2 * 8192 * (64 + 8) * 128 + 3 * 8192 * 28672)
    scores = 2 * 8192 * 80 * 2000**2
    expected = (2 * products * 2000 / 1979e12 + scores / 989e12) / 4
    assert float(prefill(one, 2000.0)) == pytest.approx(expected, rel=1e-9)
    assert float(prefill(one, 2000.0, hit=0.5)) == pytest.approx(expected / 2, rel=1e-9)


def test_keys_and_values_have_their_published_size() -> None:
    """A token of Llama 3.1 70B keeps 328 KB at 16 bits and 164 KB at 8; beyond 8 ranks heads are copied."""
    assert replica(tensor=1).cache_bytes(1.0) == pytest.approx(327_680)
    assert replica(tensor=1, cache="fp8").cache_bytes(1.0) == pytest.approx(163_840)
    assert replica(tensor=8).cache_bytes(1.0) * 8 == replica(tensor=1).cache_bytes(1.0)
    assert replica(tensor=16).cache_bytes(1.0) == replica(tensor=8).cache_bytes(1.0)


def test_latent_keys_are_not_divided() -> None:
    """DeepSeek-V3 keeps 576 numbers of a token and layer on every tensor rank."""
    for ranks in (1, 8):
        assert replica("deepseek-v3", "h200", tensor=ranks).cache_bytes(1.0) == pytest.approx(61 * 576 * 2)


def test_windows_bound_the_cache() -> None:
    """Half the layers of gpt-oss keep 128 tokens; linear attention keeps a state that does not grow."""
    oss = replica("gpt-oss-120b", tensor=1)
    assert oss.cache_bytes(10_000.0) == pytest.approx(18 * 2 * 8 * 64 * 2 * (10_000 + 128))
    linear = replica("qwen3.5-397b-a17b", "h200", tensor=1)
    growth = linear.cache_bytes(2000.0) - linear.cache_bytes(1000.0)
    assert growth == pytest.approx(15 * 2 * 2 * 256 * 2 * 1000)


def test_windows_bound_the_scores() -> None:
    """In a window of 128 of 1,000 tokens 1,000 x 128 - 128^2 / 2 pairs are not masked: every other layer of gpt-oss."""
    shape = catalog.models()["gpt-oss-120b"]
    pairs = (1000**2 / 2 + 1000 * 128 - 128**2 / 2) / 2
    assert shape.scored(1000.0) * 1000 / 2 == pytest.approx(pairs)
    assert shape.scored(100.0) == 100.0


@cases("tokens, expected", [(1, 8.0), (1000, 256.0)])
def test_few_tokens_meet_few_experts(tokens: int, expected: float) -> None:
    """One token reads 8 of 256 experts of a layer; a thousand read all: 256 (1 - (248/256)^1000) > 255.99."""
    mixture = without_overheads(replica("deepseek-v3", "h200", tensor=8))
    read = dataclasses.replace(mixture.constants, expert_read=1.0, expert_width=0.0)
    mixture = dataclasses.replace(mixture, constants=read)
    experts = float(decode(mixture, float(tokens), 0.0).experts)
    assert experts == pytest.approx(58 * expected * 3 * 7168 * 2048 / 8 / 4.8e12, rel=1e-4)


def test_reservation_holds_the_longest_answer() -> None:
    """At 1,155 and 211 tokens with at most 1,024, reserving leaves 0.58 of the optimistic batch."""
    admits = replica()
    reserves = dataclasses.replace(admits, engine=dataclasses.replace(admits.engine, admission="reserve"))
    requests = CHAT._replace(longest=1024.0)
    assert largest_batch(reserves, requests) / largest_batch(admits, requests) == pytest.approx(0.58, abs=0.005)


def test_in_flight_follows_little() -> None:
    """B = x S_o TPOT(B), and at the largest rate the batch is the largest; a little more overloads the replica."""
    one = replica()
    for rate in (0.1, 2.0, 8.0):
        batch = batch_of_load(one, CHAT, rate)
        assert batch == pytest.approx(rate * 211 * float(time_per_token(one, batch, CHAT)), rel=1e-9)
    most = largest_rate(one, CHAT)
    assert batch_of_load(one, CHAT, most * (1 - 1e-9)) == pytest.approx(largest_batch(one, CHAT), rel=1e-6)
    assert math.isinf(batch_of_load(one, CHAT, most * 1.001))


def test_the_batch_of_a_limit_meets_it() -> None:
    """The batch within a limit of TPOT meets it exactly, and a limit below one sequence's time allows none."""
    one = replica()
    batch = batch_within(one, CHAT, 0.03)
    assert float(time_per_token(one, batch, CHAT)) == pytest.approx(0.03)
    assert batch_within(one, CHAT, 1e-4) == 0.0


def test_pipelines_keep_the_time_and_divide_the_memory() -> None:
    """Two stages take the time of one for the same batch of a stage, and hold half of weights and cache each."""
    one, two = without_overheads(replica()), without_overheads(replica(pipeline=2, network=1e18))
    # A lone sequence gains nothing; counter-example: half a one for each stage read half of its keys and values.
    assert float(decode(two, 1.0, 1e5).cache) == pytest.approx(float(decode(one, 1.0, 1e5).cache))
    assert two.weight_bytes == one.weight_bytes / 2
    assert two.cache_bytes(100.0) == one.cache_bytes(100.0) / 2
    assert float(decode(two, 64.0, 1000.0).total) == pytest.approx(float(decode(one, 32.0, 1000.0).total))
    # Each stage reads prompts of its own meanwhile; alone, a prompt has to pass both.
    assert float(time_per_token(two, 64.0, CHAT)) == pytest.approx(float(time_per_token(one, 32.0, CHAT)))
    assert float(time_to_first_token(two, 0.0, CHAT)) == pytest.approx(float(time_to_first_token(one, 0.0, CHAT)))


def test_arrays_are_scalars_side_by_side() -> None:
    """An array of batches gives what each alone gives."""
    one = replica("deepseek-v3", "h200", tensor=4, data=2)
    batches = np.array([1.0, 16.0, 300.0])
    together = time_per_token(one, batches, CHAT)
    assert together.tolist() == [float(time_per_token(one, batch, CHAT)) for batch in batches]


def test_power_stays_below_the_board() -> None:
    """GPU power grows with the batch and ends at the board's power; without that it is refused."""
    one = replica()
    drawn = [float(power(one, batch, CHAT)) for batch in (1.0, 32.0, 256.0, 1e6)]
    assert drawn == sorted(drawn)
    assert drawn[-1] == 700.0
    with pytest.raises(ValueError, match="not published"):
        power(dataclasses.replace(one, chip=dataclasses.replace(one.chip, power=None)), 1.0, CHAT)


def test_drafts_yield_a_geometric_sum() -> None:
    """A draft of three accepted at 0.7 yields 1 + 0.7 + 0.49 + 0.343 tokens."""
    assert speculated(3, 0.7) == pytest.approx(2.533)
    assert speculated(3, 1.0) == 4.0


def test_a_draft_costs_the_work_of_its_tokens_and_reads_weights_once() -> None:
    """One sequence with a perfect free draft of three is four times as fast; many sequences gain nothing."""
    plain = without_overheads(replica())
    drafts = dataclasses.replace(plain, draft=3, accept=1.0)
    assert float(decode(drafts, 1.0, 5e3).total) == pytest.approx(float(decode(plain, 1.0, 5e3).total) / 4, rel=1e-9)
    assert float(decode(drafts, 4096.0, 0.0).total) == pytest.approx(float(decode(plain, 4096.0, 0.0).total), rel=1e-9)
    refused = dataclasses.replace(drafts, accept=0.0)
    assert (decode(refused, 4096.0, 0.0).total / decode(plain, 4096.0, 0.0).total) == pytest.approx(4, rel=1e-9)
    dear = dataclasses.replace(drafts, draft_cost=0.1)
    bytes_read, work = traffic(plain, 64.0, CHAT._replace(input=0.0))
    drafted_read, drafted_work = traffic(refused, 64.0, CHAT._replace(input=0.0))
    assert (drafted_read, drafted_work) == (bytes_read, pytest.approx(4 * work))
    assert float(decode(dear, 1.0, 0.0).total) == pytest.approx(1.3 * float(decode(drafts, 1.0, 0.0).total), rel=1e-9)


def test_prompts_pay_what_decoded_tokens_pay() -> None:
    """Ten element-wise passes move 10 x 2 h bytes of each token and layer, whether it is decoded or read."""
    one = without_overheads(replica())
    passes = dataclasses.replace(one, constants=dataclasses.replace(one.constants, touches=10.0))
    each = 80 * 2 * 8192 * 10 / 3.35e12
    assert float(decode(passes, 1.0, 0.0).total - decode(one, 1.0, 0.0).total) == pytest.approx(each)
    assert float(prefill(passes, 500.0) - prefill(one, 500.0)) == pytest.approx(500 * each)


def test_a_share_of_what_is_free_is_of_what_weights_leave() -> None:
    """TensorRT-LLM takes 0.9 of the memory beside weights, vLLM 0.92 of all of it less the weights."""
    free, whole = replica(engine="trt-llm"), replica()
    taken = free.weight_bytes + 3e9
    assert cache_room(free) == pytest.approx(0.9 * (80e9 - taken))
    assert cache_room(whole) == pytest.approx(0.92 * 80e9 - taken)


def pools(reading: float = 2.0, decoding: float = 4.0) -> DisaggregatedPools:
    """Return readers of two GPUs and decoders of four."""
    return DisaggregatedPools(replica(tensor=2), replica(), reading, decoding)


def test_pools_obey_little() -> None:
    """Clients are in decoders or in readers; where readers are the bottleneck decoders get what these read."""
    many = pools(reading=100.0)
    batch = float(pooled_in_flight(many, CHAT, 64.0))
    step = float(decode(many.decoders, batch, CHAT.context).total)
    rate = 4 * batch / (211 * step)
    before = float(prefill(many.readers, 1155.0) + handover(many, CHAT))
    assert 4 * batch + rate * before == pytest.approx(64.0, rel=1e-6)
    few = pools(reading=1.0)
    batch = float(pooled_in_flight(few, CHAT, 2000.0))
    step = float(decode(few.decoders, batch, CHAT.context).total)
    assert 4 * batch / (211 * step) == pytest.approx(float(reading_rate(few.readers, CHAT)), rel=1e-6)


def test_keys_and_values_pass_over_the_smaller_side() -> None:
    """1,155 tokens of 328 KB pass over two NICs of 50 GB/s at 0.85."""
    assert float(handover(pools(), CHAT)) == pytest.approx(1155 * 327_680 / (2 * 0.85 * 50e9))


def test_what_does_not_fit_has_no_batch() -> None:
    """Llama 3.1 405B at 8 bits does not fit on four GPUs of 80 GB."""
    assert cache_room(replica("llama3-405b")) < 0
    assert largest_batch(replica("llama3-405b"), CHAT) == 0.0
    assert largest_rate(replica("llama3-405b"), CHAT) == 0.0


def test_a_recommender_is_its_lookups_and_its_layers() -> None:
    """DLRM-v2 has the size of its checkpoint, 97.3 GiB; a pair reads 214 rows of 128 bytes and takes 32 MFLOP."""
    model, chip, constants = catalog.recommenders()["dlrm-v2"], catalog.accelerators()["h100"], replica().constants
    assert 4 * sum(model.rows) * model.width / 2**30 == pytest.approx(97.3, rel=0.002)
    free = dataclasses.replace(constants, gather=1.0, gemm={"fp8": 1.0, "bf16": 1.0})
    alone = recommend(model, chip, free, 1e6)
    assert alone.lookups == pytest.approx(1e6 * 214 * 128 / 3.35e12)
    layers = 13 * 512 + 512 * 256 + 256 * 128 + 3456 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    assert alone.perceptrons == pytest.approx(2e6 * layers / 1979e12)
    crosses = 3 * 2 * 3456 * 512
    assert alone.crosses == pytest.approx(2e6 * crosses / 1979e12 + 1e6 * 3 * 4 * 3456 / 3.35e12)
    halves = recommend(model, chip, free, 1e6, gpus=2, link=50e9)
    assert halves.total - halves.exchange == pytest.approx(alone.total / 2)
    assert halves.exchange == pytest.approx(1e6 / 2 * 26 * 128 / 2 / 50e9)
    passes = recommend(model, chip, free, 1e6, interaction="bf16").crosses
    assert passes == pytest.approx(2e6 * crosses / 989e12 + 1e6 * 3 * 4 * 3456 * 2 / 3.35e12)
    with pytest.raises(ValueError, match="no fp8 peak of NVIDIA A100 SXM 40 GB"):
        recommend(model, catalog.accelerators()["a100-40gb"], constants, 1.0)
    with pytest.raises(ValueError, match="52 GB of tables do not fit into 1 x 40 GB; 2 GPUs would"):
        recommend(model, catalog.accelerators()["a100-40gb"], constants, 1.0, precision="bf16", interaction="bf16")


# For every model, accelerator, engine and layout of the catalog.


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


DATA = Path(__file__).parents[3] / "shared" / "data" / "serving"


@pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")
def test_published_steps_are_met() -> None:
    """The shipped constants meet dense steps within 9 %, mixtures within 25 %; prefills matter by 10 points."""
    groups, _ = calibrate.read(DATA / "served_agg.csv")
    dense, mixtures = calibrate.kinds(groups)
    found = {name: np.abs(calibrate.errors(part, {})).mean() for name, part in (("dense", dense), ("moe", mixtures))}
    assert found["dense"] < 0.09
    assert found["moe"] < 0.25
    blind = [
        np.abs(time_per_token(group.replica, group.batch, group.requests, interferes=False) / group.measured - 1)
        for group in dense
    ]
    assert np.concatenate(blind).mean() > found["dense"] + 0.1
    offline = calibrate.offline(DATA, {})
    assert np.abs(np.concatenate(list(offline.values()))).mean() < 0.15
    assert np.abs(calibrate.one_factor(offline)).mean() < 0.10
    assert np.abs(calibrate.disaggregated(DATA)[0]).mean() < 0.30


@pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")
def test_published_waits_phases_and_nodes_are_met() -> None:
    """Mean TTFT within 25 %, phases of an old stack within 20 %, metered nodes each 12 %; numbers ship as fitted."""
    assert np.abs(calibrate.first_tokens(calibrate.mlperf(DATA))).mean() < 0.25
    numbers, apart = calibrate.phases(DATA)
    assert (np.abs(apart).mean(axis=0) < 0.20).all()
    engine, constants = catalog.engines()["vllm-eager"], catalog.serving_constants()
    for (of, name), value in numbers.items():
        shipped = constants.dispatch[name] if of == "dispatch" else getattr(engine, name)
        assert shipped == pytest.approx(value, rel=0.01)
    assert np.abs(calibrate.node_powers(DATA)).max() < 0.12
    assert np.abs(np.concatenate(list(calibrate.recommended(DATA).values()))).mean() < 0.35
