"""Request-level replay: by hand, by queueing theory, and beside the closed form of a replica."""

from __future__ import annotations

import csv
import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ettrick.sim.engine import iterations, native
from ettrick.sim.engine import requests as engine_requests
from ettrick.sim.engine.iterations import ReplayColumns, ReplayState
from ettrick.sim.engine.requests import Request, RequestError, replay
from ettrick.sim.formulas.queues import mean_wait
from ettrick.sim.steps.serving import (
    Replica,
    Requests,
    batch_of_load,
    decode,
    largest_batch,
    largest_rate,
    prefill,
    time_per_token,
    time_to_first_token,
)
from tests.cases import cases
from tests.pace import SEED, some
from tests.unit.test_serving_step import replica, without_overheads

if TYPE_CHECKING:
    from collections.abc import Iterator


def with_engine(one: Replica, **changes: object) -> Replica:
    """Return a replica with other settings of its engine."""
    return dataclasses.replace(one, engine=dataclasses.replace(one.engine, **changes))  # type: ignore[arg-type]


def poisson(rate: float, count: int, tokens: int, output: int, seed: int = SEED) -> list[Request]:
    """Return requests of one size at exponential gaps."""
    times = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, count))
    return [Request(float(time), tokens, output) for time in times]


def test_one_request_takes_its_prefill_and_its_steps() -> None:
    """Alone, the first token comes after the prompt, the k-th after k - 1 steps with one more token of context each."""
    one = replica()
    served = replay(one, [Request(5.0, 3000, 4)])
    first = 5.0 + float(prefill(one, 3000.0))
    steps = sum(float(decode(one, 1.0, float(3000 + step)).total) for step in range(3))
    assert served.first[0] == pytest.approx(first, rel=1e-9)
    assert served.last[0] == pytest.approx(first + steps, rel=1e-9)


def test_a_long_prompt_is_read_in_chunks_while_others_decode() -> None:
    """A prompt of 20,000 tokens takes three iterations of 8,191 tokens at most, each with a step of the other."""
    one = with_engine(replica(), chunk=8192)
    served = replay(one, [Request(0.0, 100, 1000), Request(1.0, 20_000, 2)])
    alone = replay(one, [Request(0.0, 100, 1000)])
    begun = alone.first[0]
    while begun < 1.0:
        begun += float(decode(one, 1.0, 100.0).total)
    steps = 3 * float(decode(one, 1.0, 200.0).total)
    assert served.first[1] - 1.0 == pytest.approx(float(prefill(one, 20_000.0)) + steps, rel=0.03)
    delay = float(prefill(one, 20_000.0))
    assert served.last[0] - alone.last[0] == pytest.approx(delay, rel=0.01)


@cases("load", [0.3, 0.8])
def test_prompts_wait_as_in_m_d_1(load: float) -> None:
    """With one prompt a step and one token each, waits are those of M/D/1: load x service / (2 (1 - load))."""
    one = with_engine(replica(), chunk=4000)
    service = float(prefill(one, 4000.0))
    waits = []
    for seed in range(12):
        served = replay(one, poisson(load / service, 4000, 4000, 1, SEED + seed))
        waits.append(float(served.ttft[400:].mean()) - service)
    error = 3 * np.std(waits, ddof=1) / math.sqrt(len(waits))
    assert abs(np.mean(waits) - load * service / (2 * (1 - load))) < error


def with_even_steps(**engine: object) -> Replica:
    """Return a replica all of whose steps take 40 ms, whatever the batch and its context."""
    plain = replica()
    numbers = dataclasses.replace(
        plain.constants, memory={"hopper": 1e9}, gemm={"fp8": 1e9}, touches=0.0, collective=0.0, scale_up=1e12, step=0.0
    )
    return with_engine(dataclasses.replace(plain, constants=numbers), launch=500e-6, sequence=0.0, **engine)


@cases("seats, load", some(3, [(4, 0.8), (1, 0.5), (16, 0.9)]))
def test_requests_wait_for_a_seat_as_in_m_m_c(seats: int, load: float) -> None:
    """With even steps and answers of geometric lengths, waits for one of so many seats are those of Erlang C."""
    one, mean, step = with_even_steps(sequences=seats), 400, 0.04
    waits = []
    for seed in range(16):
        rng = np.random.default_rng(SEED + seed)
        times = np.cumsum(rng.exponential(mean * step / (load * seats), 6000)).tolist()
        served = replay(one, map(Request, times, [1] * 6000, rng.geometric(1 / mean, 6000).tolist()))
        waits.append(float(served.ttft[1000:].mean()) - step)
    error = 3 * np.std(waits, ddof=1) / math.sqrt(len(waits))
    # It begins with the next step: half a step later.
    assert abs(np.mean(waits) - mean_wait(seats, load * seats, mean * step)) < error + step / 2
    assert error < 0.25 * np.mean(waits)


@cases("load", [0.3, 0.7])
def test_first_tokens_wait_for_their_step(load: float) -> None:
    """With steps of one length TTFT is the closed form's: the rest of a step, then one with all that came meanwhile."""
    one = with_even_steps()
    requests = Requests(6000.0, 10.0)
    rate = load / float(prefill(one, 6000.0))
    found = []
    for seed in range(10):
        served = replay(with_engine(one, chunk=100_000), poisson(rate, 3000, 6000, 10, SEED + seed))
        found.append(float(served.ttft[600:].mean()))
    batch = rate * 10 * float(decode(one, 1.0, 0.0).total) / (1 - load)
    closed = float(time_to_first_token(one, batch, requests))
    error = 3.5 * np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(np.mean(found) - closed) < error
    assert error < 0.1 * closed, "without the variance of steps it would be 11 % less"


@cases("model, chip, engine", [("llama3-8b", "h100", "trt-llm"), ("deepseek-v3", "h200", "sglang")])
def test_mean_ttft_is_that_of_the_replay(model: str, chip: str, engine: str) -> None:
    """With lengths that vary the closed form is within 15 % of the replay up to a load of 0.8; asked are 25 %."""
    one = replica(model, chip, engine, tensor=8, weights="fp8")
    mean = Requests(1000.0, 300.0, spread=0.9)
    rng = np.random.default_rng(SEED)
    for load in (0.1, 0.5, 0.8):
        rate = load * largest_rate(one, mean)
        times = np.cumsum(rng.exponential(1 / rate, 4000)).tolist()
        sizes = [
            np.maximum(rng.lognormal(math.log(tokens) - math.log1p(0.81) / 2, math.sqrt(math.log1p(0.81)), 4000), 1)
            for tokens in (1000, 300)
        ]
        served = replay(one, map(Request, times, *(size.astype(int).tolist() for size in sizes)))
        closed = float(time_to_first_token(one, batch_of_load(one, mean, rate), mean))
        assert closed == pytest.approx(float(served.ttft[800:].mean()), rel=0.15)


def test_a_host_that_launches_kernels_bounds_steps() -> None:
    """Without captured graphs a step takes what 80 layers take the host, and the GPU's time once that is longer."""
    eager = replica(engine="vllm-eager", weights="bf16", tensor=8)
    host = 80 * eager.constants.dispatch["hopper"] * eager.slowdown
    step = decode(eager, 1.0, 500.0)
    assert float(step.total - step.host) == pytest.approx(host)
    served = replay(eager, [Request(0.0, 100, 100)])
    assert served.tpot[0] == pytest.approx(float(step.total))
    assert served.ttft[0] == pytest.approx(host)
    slow = replica(engine="vllm-eager", weights="bf16", tensor=2)
    captured = with_engine(slow, is_eager=False)
    assert float(decode(slow, 1.0, 500.0).total) == float(decode(captured, 1.0, 500.0).total) > host


def saturated(engine: str) -> tuple[float, int]:
    """Return the rate at which a queue that never empties is served over the closed form's [-], and evictions."""
    one = replica(engine=engine)
    requests = Requests(2000.0, 500.0)
    assert largest_batch(one, requests) < one.engine.sequences
    served = replay(one, [Request(0.0, 2000, 500)] * 3000, longest=500)
    order = np.sort(served.last)
    return 1500 / float(order[2249] - order[749]) / largest_rate(one, requests), served.evictions


def test_a_backlog_is_served_at_the_largest_rate() -> None:
    """Where room is reserved a backlog is served at the rate of Little's law at the largest batch, within 2 %."""
    rate, evictions = saturated("trt-llm")
    assert rate == pytest.approx(1, abs=0.02)
    assert evictions == 0


def test_admission_on_demand_pays_for_its_evictions() -> None:
    """At saturation admission on current tokens evicts, and what is read again costs part of the closed form's rate."""
    rate, evictions = saturated("vllm")
    assert evictions > 100
    assert 0.7 < rate < 0.98


@cases(("load", "tolerance"), [(0.2, 0.03), (0.5, 0.06), (0.8, 0.15)])
def test_the_closed_form_is_the_replay_in_the_mean(load: float, tolerance: float) -> None:
    """The mean TPOT is that of the closed form, and above it at high load, where the batch varies."""
    one = replica()
    requests = Requests(1155.0, 211.0)
    rate = load * largest_rate(one, requests)
    served = replay(one, poisson(rate, 6000, 1155, 211))
    middle = slice(600, 5400)
    expected = float(time_per_token(one, batch_of_load(one, requests, rate), requests))
    assert expected * 0.99 < served.tpot[middle].mean() < expected * (1 + tolerance)


def test_long_answers_are_in_flight_for_longer() -> None:
    """With answers of a coefficient of variation of 1.5 the sequences in flight are those of their longer context.

    Counter-example of half a mean answer as their context: 18 % too few in flight.
    """
    one, count = with_engine(replica(), sequences=2048), 4000
    rng = np.random.default_rng(SEED)
    sigma = math.sqrt(math.log1p(1.5**2))
    answers = np.maximum(np.rint(2000 * np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)), 1)
    asked = Requests(500.0, float(answers.mean()), whole=float((answers**2).mean() / answers.mean() ** 2))
    rate = 0.6 * largest_rate(one, asked)
    times = np.cumsum(rng.exponential(1 / rate, count))
    served = replay(one, map(Request, times.tolist(), [500] * count, answers.astype(int).tolist()))
    low, high = times[count // 4], times[-1]
    inside = (np.minimum(served.last, high) - np.maximum(served.first, low)).clip(0).sum() / (high - low)
    counted = (times >= low).sum() / (high - low)
    assert inside == pytest.approx(batch_of_load(one, asked, counted), rel=0.08)
    assert inside > 1.12 * batch_of_load(one, asked._replace(whole=1.0), counted)


def test_stages_of_a_pipeline_read_prompts_at_the_same_time() -> None:
    """Two stages end a backlog at twice the rate of one with half the batch, and a lone prompt no sooner."""
    one = without_overheads(with_engine(replica(), sequences=32))
    two = without_overheads(with_engine(replica(pipeline=2, network=1e18), sequences=64))
    ends = [np.sort(replay(each, [Request(0.0, 1155, 211)] * 1000).last) for each in (one, two)]
    rates = [500 / (end[749] - end[249]) for end in ends]
    assert rates[1] / rates[0] == pytest.approx(2, rel=0.02)
    lone = [float(replay(each, [Request(0.0, 1155, 211)]).first[0]) for each in (one, two)]
    assert lone[1] == pytest.approx(lone[0], rel=1e-9)


def test_evicted_sequences_are_read_again_and_lose_no_token() -> None:
    """Where answers outgrow the room, the last to come are evicted, and every answer is complete at the end."""
    one = replica("llama3-70b", tensor=2)
    one = with_engine(one, memory=0.6)
    served = replay(one, [Request(0.0, 500, 4000)] * 60)
    assert served.evictions > 0
    assert np.isfinite(served.last).all()
    assert (np.diff(np.sort(served.first)) >= 0).all()
    kept = replay(with_engine(one, admission="reserve"), [Request(0.0, 500, 4000)] * 60)
    assert kept.evictions == 0


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 3000), st.integers(1, 300)), min_size=1, max_size=60),
    st.sampled_from(["trt-llm", "vllm"]),
    st.floats(0.55, 0.9),
)
def test_time_and_room_are_conserved(gaps: list[tuple[float, int, int]], engine: str, memory: float) -> None:
    """All are served after they arrive; the integral of the batch is the time in flight; all room ends free."""
    one = with_engine(replica(engine=engine, tensor=2), memory=memory, chunk=1000)
    now, requests = 0.0, []
    for gap, tokens, output in gaps:
        now += gap
        requests.append(Request(now, tokens, output))
    states = list[ReplayState]()

    def serve(state: ReplayState, columns: ReplayColumns) -> None:
        states.append(state)
        iterations.serve(state, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_requests, "serve", serve)
        served = replay(one, requests)
    assert (served.first >= served.arrival).all()
    assert (served.last >= served.first).all()
    assert states[-1].context == 0
    assert states[-1].reserved == 0
    if not served.evictions:
        assert served.sequence_seconds == pytest.approx(float((served.last - served.first).sum()), rel=1e-9, abs=1e-9)


@pytest.fixture(scope="module")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[native.Code]:
    """Return the compiled loop, made in a cache of its own and read from its file."""
    pytest.importorskip("numba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        native.machine_code.cache_clear()
        native.make()
        code = native.machine_code()
        assert code is not None
        yield code
    native.machine_code.cache_clear()


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.integers(1, 3000), st.integers(1, 300)), min_size=1, max_size=60),
    st.sampled_from(["llama3-70b", "deepseek-v3", "gpt-oss-120b"]),
    st.sampled_from(["trt-llm", "vllm", "vllm-eager"]),
    st.floats(3.6, 5),
    st.sampled_from([(64, 1, 1, 0.0), (500, 2, 1, 0.5), (2048, 1, 2, 1.0)]),
)
def test_machine_code_serves_to_the_same_bits(
    machine_code: native.Code,
    gaps: list[tuple[float, int, int]],
    model: str,
    engine: str,
    room: float,
    layout: tuple[int, int, int, float],
) -> None:
    """Whatever the model, the engine, and the room for some thousand tokens or more: times, evictions and sums."""
    chunk, data, pipeline, hit = layout
    one = replica(model, "h200", engine, tensor=8, weights="fp8")
    occupied, size = one.weight_bytes + one.engine.reserved, 10**room * float(one.cache_bytes(1.0))
    is_of_free = one.engine.is_of_free
    memory = size / (one.chip.memory - occupied) if is_of_free else (size + occupied) / one.chip.memory
    one = dataclasses.replace(with_engine(one, memory=memory, chunk=chunk), data=data, pipeline=pipeline)
    now, requests = 0.0, []
    for gap, tokens, output in gaps:
        now += gap
        requests.append(Request(now, tokens, output))
    outcomes = []
    for code, least in ((None, 5000), (machine_code, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "machine_code", lambda code=code: code)
            patch.setattr(engine_requests, "_MANY", least)
            served = replay(one, requests, longest=200, hit=hit)
        outcomes.append({name: np.asarray(value).tolist() for name, value in dataclasses.asdict(served).items()})
    assert outcomes[0] == outcomes[1]


@pytest.mark.usefixtures("machine_code")
def test_damaged_machine_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is cut off or empty is as none, and is made again."""
    file = native._file()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    copy = native._file()
    assert copy != file
    copy.parent.mkdir(parents=True)
    for content in (b"", b"\n", file.read_bytes()[:-1]):
        copy.write_bytes(content)
        native.machine_code.cache_clear()
        assert native.machine_code() is None
    copy.write_bytes(file.read_bytes())
    native.machine_code.cache_clear()
    assert native.machine_code() is not None


@cases(
    ("requests", "rule"),
    [
        ([Request(1.0, 5, 5), Request(0.5, 5, 5)], "sort them by time"),
        ([Request(0.0, 0, 5)], "no token to read"),
        ([Request(0.0, 10**7, 5)], "needs room for 10,000,005 tokens"),
    ],
)
def test_what_cannot_be_served_is_refused(requests: list[Request], rule: str) -> None:
    """Times out of order, empty requests and those larger than the room are refused in one line."""
    with pytest.raises(RequestError, match=rule):
        replay(replica(), requests)


DATA = Path(__file__).parents[3] / "shared" / "data" / "serving"


@pytest.mark.skipif(not DATA.exists(), reason="skipped: reference data not present")
def test_bursts_make_waits_longer_by_orders_of_magnitude() -> None:
    """The hour of code requests has waits that Poisson arrivals of the same rate and sizes do not have."""
    with (DATA / "azure2023_code.csv").open(encoding="utf-8") as file:
        rows = [
            Request(float(row["t_s"]), int(row["input_tokens"]), int(row["output_tokens"]))
            for row in csv.DictReader(file)
        ]
    one = replica(tensor=2)
    even = poisson(len(rows) / rows[-1].arrival, len(rows), 1, 1)
    calm = [plain._replace(input=row.input, output=row.output) for plain, row in zip(even, rows, strict=True)]
    assert replay(one, rows).ttft.mean() > 10 * replay(one, calm).ttft.mean()


def test_the_replay_is_stable_below_the_closed_form_and_not_above() -> None:
    """Where room is reserved, the throughput of a long overload is that of the closed form within 2 %."""
    one = replica(engine="trt-llm")
    requests = Requests(2000.0, 500.0)
    most = largest_rate(one, requests)
    below, above = (replay(one, poisson(load * most, 6000, 2000, 500), longest=500) for load in (0.95, 1.3))
    # Below, the wait settles; above, it grows by what is too much: (1 - 1 / 1.3) of the time that has passed.
    half = slice(3000, 6000)
    assert below.ttft[half].mean() < 10 * below.ttft[1000:3000].mean() + 1
    grown = np.polyfit(above.arrival[half], above.ttft[half], 1)[0]
    assert grown == pytest.approx(0.3, abs=0.03)
    ends = np.sort(above.last)
    assert 3000 / (ends[4500] - ends[1500]) == pytest.approx(most, rel=0.02)


def test_machine_code_that_serves_otherwise_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that leaves the columns as they are does not agree with Python: no file is written."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_compiled", lambda: ("none", b""))
    monkeypatch.setattr(native, "_linked", lambda *_: lambda *_: None)
    native.keep_compiled()
    assert not list(tmp_path.rglob("*"))
