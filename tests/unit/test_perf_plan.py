"""What a job's step comes to: time, utilisation, band, scale; and that a plan can be sent and compared."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from itertools import pairwise

import pytest

from sim import catalog
from sim.catalog import steps
from sim.steps import (
    Breakdown,
    Impairment,
    Machine,
    StepPlan,
    flop_per_token,
    ideal_links,
    memory_use,
    step_time_from_mfu,
)
from tests.cases import cases
from tests.step_cases import CHIP, SHAPE, WHOLE, bare_machine, workload

EXACT = 1e-12


def plan(precision: str = "bf16", **changes: float) -> StepPlan:
    """Return Llama 3 70B on 64 H100."""
    chip = catalog.accelerators()["h100"]
    layout = {"tensor": 4, "pipeline": 4, "data": 4, "sequence": 8192, "sequences": 64}
    work = workload(catalog.models()["llama3-70b"], precision=precision, recompute="full", **layout)
    shares = steps.efficiencies(chip, precision)
    machine = Machine(chip, shares, ideal_links(work, chip.scale_up, 50e9, 8), steps.constants())
    return StepPlan(work, machine, **changes)


def test_the_time_is_the_sum_of_its_terms() -> None:
    """Nothing is counted twice or left out."""
    found = plan().breakdown
    assert plan().time == found.total == pytest.approx(math.fsum(found), rel=EXACT)


@cases("precision", ["bf16", "fp8"])
def test_utilisation_and_tokens_follow_from_the_time(precision: str) -> None:
    """MFU = model FLOP / (time x GPUs x dense peak of the precision), half of attention counted; and back again."""
    one = plan(precision)
    shape, peak = one.work.shape, one.machine.chip.peak[precision]
    assert one.flop == 64 * 8192 * flop_per_token(shape, 8192, convention="causal")
    assert one.mfu == pytest.approx(one.flop / (one.time * 64 * peak), rel=EXACT)
    assert step_time_from_mfu(one.flop, 64, peak, one.mfu) == pytest.approx(one.time, rel=EXACT)
    assert one.tokens_per_second * one.time == pytest.approx(64 * 8192, rel=EXACT)


def test_a_machine_without_losses_is_fully_used() -> None:
    """Matrix units alone, one GPU, attention whose other half is skipped and computed once: MFU 1.

    Unfused attention computes the masked half too, which does not count; so without any, that is of one token.
    """
    work = workload(replace(SHAPE, vocabulary=64), sequence=1, sequences=64, fused_attention=False)
    one = StepPlan(work, bare_machine())
    masked = 3 * SHAPE.attention_width * 24 / flop_per_token(work.shape, 1)
    assert one.mfu == pytest.approx(1 / (1 + masked), rel=EXACT)


def test_recomputation_is_no_model_flop() -> None:
    """It takes time, and the FLOP of the step stay the same."""
    one = plan()
    other = StepPlan(replace(one.work, recompute="none"), one.machine)
    assert other.flop == one.flop
    assert other.mfu > one.mfu


def test_the_band_holds_nine_tenths_of_a_log_normal() -> None:
    """The ends are the time over and times exp(1.645 sigma): 5 and 95 % of a normal distribution of the logarithm."""
    low, high = plan(sigma=0.1).band90
    for end, share in ((low, 0.05), (high, 0.95)):
        normal = math.log(end / plan().time) / 0.1
        assert 0.5 * (1 + math.erf(normal / math.sqrt(2))) == pytest.approx(share, abs=1e-5)
    assert plan().band90 == (plan().time, plan().time)


def test_a_measured_step_scales_every_term() -> None:
    """Healthy or not: paces stay what they were, and the shares of the terms too."""
    one, double = plan(), plan(scale=2.0)
    assert double.time == pytest.approx(2 * one.time, rel=EXACT)
    assert isinstance(double.breakdown, Breakdown)
    assert double.breakdown == pytest.approx(tuple(2 * term for term in one.breakdown), rel=EXACT)
    for state in (Impairment(compute=0.5), Impairment(network=0.25), Impairment(missing=1, keeps_batch=True)):
        assert double.pace(state) == pytest.approx(one.pace(state), rel=EXACT)
        assert double.impaired(state).total == pytest.approx(2 * one.impaired(state).total, rel=EXACT)


def test_crowding_is_memory_over_what_there_is() -> None:
    """Of the fullest GPU."""
    assert plan().crowding == pytest.approx(memory_use(plan().work).total / 80e9, rel=EXACT)


def test_only_groups_between_domains_use_the_network() -> None:
    """A job inside one domain does not."""
    assert plan().uses_network
    work = workload(tensor=2, data=2)
    machine = Machine(CHIP, WHOLE, ideal_links(work, 450e9, 50e9, 8), steps.constants())
    assert not StepPlan(work, machine).uses_network


def test_a_plan_can_be_sent_to_another_process() -> None:
    """A copy is equal, also of one that has been asked, and says the same."""
    one = plan(sigma=0.1, scale=1.5)
    before = pickle.loads(pickle.dumps(one))
    assert one.time > 0
    after = pickle.loads(pickle.dumps(one))
    assert before == one == after
    assert before.breakdown == one.breakdown == after.breakdown
    assert before.memory == one.memory


def test_a_plan_can_be_a_key() -> None:
    """Equal plans have equal hashes."""
    assert hash(plan()) == hash(plan())
    assert len({plan(), plan(), plan("fp8")}) == 2


@cases(
    ("name", "words"),
    [
        ("compute", {"compute": 0.0}),
        ("network", {"network": 1.5}),
        ("scale_up", {"scale_up": -0.1}),
        ("compute", {"compute": math.nan}),
    ],
)
def test_what_is_left_is_a_share(name: str, words: dict[str, float]) -> None:
    """Above 0 and at most 1, or the impairment is refused."""
    with pytest.raises(ValueError, match=f"{name} is the share that is left, above 0 and at most 1"):
        Impairment(**words)  # type: ignore[arg-type]


def test_there_is_somebody_left() -> None:
    """Not all replicas can be missing, and no more tensor ranks be left than there are."""
    one = plan()
    with pytest.raises(ValueError, match="4 of 4 replicas cannot be missing"):
        one.impaired(Impairment(missing=4))
    with pytest.raises(ValueError, match="of 4 tensor ranks 8 cannot be left"):
        one.impaired(Impairment(tensor=8))


def test_missing_replicas_are_a_staircase() -> None:
    """With the batch kept m' = ceil(G / (b (d - k))): of 64 sequences on 8 replicas, 8, 10, 11, 13, 16, 22, 32, 64.

    On matrix units alone a step takes m' + p - 1 times what a stage takes for a microbatch.
    """
    work = workload(replace(SHAPE, vocabulary=0), data=8, pipeline=4)
    one = StepPlan(work, bare_machine())
    each = one.time / (8 + 3)
    for missing, microbatches in enumerate((8, 10, 11, 13, 16, 22, 32, 64)):
        found = one.impaired(Impairment(missing=missing, keeps_batch=True)).total
        assert found == pytest.approx((microbatches + 3) * each, rel=EXACT)
        assert one.impaired(Impairment(missing=missing)).total == pytest.approx(one.time, rel=EXACT)


def test_a_slow_gpu_slows_its_stage_and_nothing_that_waits_for_links() -> None:
    """Half the pace doubles what is computed; the other stages fill the pipeline, and links are as wide."""
    one = plan()
    healthy, slow = one.breakdown, one.impaired(Impairment(compute=0.5))
    for name in ("gemm", "attention", "elementwise", "logits", "optimizer"):
        assert getattr(slow, name) == pytest.approx(2 * getattr(healthy, name), rel=EXACT), name
    for name in ("launch", "tensor", "pipeline", "bubble", "overhead"):
        assert getattr(slow, name) == pytest.approx(getattr(healthy, name), rel=EXACT), name


def test_a_lost_rail_slows_what_crosses_domains() -> None:
    """Half of the NICs' bandwidth doubles hand-overs and not what stays in a domain; the other way round for links."""
    one = plan()
    healthy = one.breakdown
    narrow = one.impaired(Impairment(network=0.5))
    assert narrow.pipeline == pytest.approx(2 * healthy.pipeline, rel=EXACT)
    assert narrow[:8] == healthy[:8]
    assert narrow.data >= healthy.data
    slow = one.impaired(Impairment(scale_up=0.5))
    assert slow.tensor > 1.9 * healthy.tensor
    assert (slow.pipeline, slow.gemm) == (healthy.pipeline, healthy.gemm)


def test_fewer_tensor_ranks_do_all_the_work() -> None:
    """A replica that goes on with half of its tensor ranks takes twice as long for what those shared."""
    work = workload(replace(SHAPE, vocabulary=0), tensor=8, pipeline=2, data=2)
    one = StepPlan(work, bare_machine())
    times = [one.impaired(Impairment(tensor=left)) for left in (0, 8, 4, 2, 1)]
    assert times[0] == times[1] == one.breakdown
    for more, less in pairwise(times[1:]):
        assert less.gemm == pytest.approx(2 * more.gemm, rel=EXACT)
        assert less.attention == pytest.approx(2 * more.attention, rel=EXACT)


def test_a_slow_gpu_does_not_shorten_what_is_exposed() -> None:
    """Where the network is the bottleneck, slower computing leaves as much of the exchange to wait for."""
    one = plan()
    one = replace(one, machine=replace(one.machine, links=one.machine.links.with_network(0.01)))
    assert one.impaired(Impairment(compute=0.5)).data >= one.breakdown.data
