"""All presets beside one another: what they come to without failures, and in which order on the same failures.

The order is that of the literature at 16,384 GPUs and the published failure rates of Llama 3 (arXiv 2407.21783): the
times of detection, checkpoints and recovery are those of the presets, and which of them are assumed is said there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import sim
from analysis.metrics import ratios
from analysis.statistics.differences import difference
from sim import catalog, units
from tests import harness
from tests.cases import cases
from tests.stories import phases

if TYPE_CHECKING:
    from analysis.statistics.differences import Difference
    from sim import Ratio

PRESETS = list(catalog.recoveries())

# -------------------------------------------------------------------------------------------- without failures

STEP = 6.0
PERIODIC: list[dict[str, Any]] = [
    {"name": "evaluation", "every": "1000 steps", "time": "2 min"},
    {"name": "loading of data", "every": "50 min", "time": "30 s"},
]


def _quiet(name: str, periodic: list[dict[str, Any]]) -> sim.Prepared:
    """Return 32 nodes of which nothing ever fails, with a preset and all that it brings along."""
    job = {"name": "job", "gpus": 256, "step_time": f"{STEP} s", "parallelism": {"tensor": 8, "data": 32}}
    data = harness.scenario(
        cluster={"nodes": 34, "fabric": {"rails": 1}},
        horizon="200000 s",
        jobs=[{**job, "periodic": periodic}],
        failures=[],
        checkpoint={
            "tiers": [{"interval": "13 min", "mode": "async", "stall": "3 s", "write": "50 s", "restore": "9 s"}],
            "from_preset": True,
        },
        spares={"hot": 1},
        recovery={"use": name},
    )
    del data["detection"]
    return sim.prepare(sim.parse(data))


def _step_by_step(case: sim.Prepared, seconds: float) -> dict[str, float]:
    """Return the seconds of each bucket of so many seconds of stepping, saves and periodic work, one step at a time."""
    tiers: Any = case.scenario.checkpoint
    periods: list[tuple[int, float, str]] = []
    for tier in tiers.tiers:
        longest = max(_seconds(tier.interval), tier.write if tier.mode == "async" else 0.0)
        stall = tier.write if tier.mode == "blocking" else tier.stall
        periods.append((math.ceil(longest / STEP - 1e-9), stall, "checkpoint_stall"))
    periods += [
        (work.steps or math.ceil(work.seconds / STEP - 1e-9), work.time, "auxiliary")
        for work in case.scenario.jobs[0].periodic
    ]
    spent = dict.fromkeys(("productive", "checkpoint_stall", "auxiliary"), 0.0)
    left, steps = seconds, 0
    while left > 0:
        due = [(stall, bucket) for period, stall, bucket in periods if steps and steps % period == 0]
        for stall, bucket in (*due, (STEP, "productive")):
            part = min(stall, left)
            spent[bucket] += part
            left -= part
        steps += 1
    return {bucket: part for bucket, part in spent.items() if part}


def _seconds(text: str) -> float:
    """Return a duration that a scenario states as text [s]."""
    return units.parse(text, units.DURATION)


@cases("periodic", [[], PERIODIC], ids=["training alone", "periodic work"])
@cases("name", PRESETS)
def test_without_failures(name: str, periodic: list[dict[str, Any]]) -> None:
    """ETTR is 1 less the shares of saves, periodic work and the first start; nothing else takes any time.

    The saves and the work are those of a count, one step at a time.
    """
    case = _quiet(name, periodic)
    result = sim.run(case, 0, keeps_timeline=True)
    job = result.jobs[0]
    shares = {bucket: seconds * job.gpus / job.requested for bucket, seconds in harness.seconds(result).items()}
    assert set(shares) == {"productive", "checkpoint_stall", "initialize", *(["auxiliary"] if periodic else [])}
    ettr = ratios(case, result)["ettr_no_queue"]
    spent = shares["checkpoint_stall"] + shares.get("auxiliary", 0.0) + shares["initialize"]
    assert ettr.amount / ettr.base == pytest.approx(1 - spent, abs=1e-12)
    (first, stepping) = phases(result)
    assert first[0] == "initialize"
    by_hand = _step_by_step(case, stepping[2] - stepping[1])
    assert {bucket: seconds for bucket, seconds in harness.seconds(result).items() if bucket != "initialize"} == (
        pytest.approx(by_hand, abs=1e-6)
    )
    assert shares["initialize"] * 200_000 == pytest.approx(first[2])


# ------------------------------------------------------------------------------------------------ the same failures

REPLICATIONS = 16
ORDERED = [
    "slurm-requeue",
    "nvrx-in-job",
    "nvrx-in-process",
    "byterobust-warm-standby",
    "torchft-hsdp",
    "torchrun-elastic",
    "multi-tier-pathways-elastic",
]


def at_llama_rates(name: str) -> sim.Prepared:
    """Return 16,384 GPUs of Llama 3 in 128 replicas; detection, recovery and copies in memory are the preset's."""
    changes = [f"recovery.use={name}", "detection={}", "checkpoint.from_preset=true"]
    return sim.prepare(sim.load(sim.find("llama3-405b-54d"), changes))


@pytest.fixture(scope="module")
def ettr() -> dict[str, list[Ratio]]:
    """Return the useful share of time of each preset and replication; all presets have the same failures."""
    found: dict[str, list[Ratio]] = {}
    for name in ORDERED:
        case = at_llama_rates(name)
        found[name] = [ratios(case, sim.run(case, number))["ettr"] for number in range(REPLICATIONS)]
    return found


def _above(ettr: dict[str, list[Ratio]], better: str, worse: str) -> Difference:
    found = difference(ettr[better], ettr[worse])
    assert found is not None
    return found


def test_all_presets_have_the_same_failures() -> None:
    """What fails, and when, does not depend on how the job comes back."""
    traces = [sim.trace(at_llama_rates(name), 3) for name in ORDERED[:3]]
    for other in traces[1:]:
        assert (other.time == traces[0].time).all()
        assert (other.slot == traces[0].slot).all()


def test_order_on_the_same_failures(ettr: dict[str, list[Ratio]]) -> None:
    """Requeue < in-job < in-process, in-job < warm standby, and requeue < each that is elastic, with 95 % intervals."""
    pairs = [
        ("nvrx-in-job", "slurm-requeue"),
        ("nvrx-in-process", "nvrx-in-job"),
        ("byterobust-warm-standby", "slurm-requeue"),
        ("byterobust-warm-standby", "nvrx-in-job"),
        ("torchft-hsdp", "slurm-requeue"),
        ("torchft-hsdp", "nvrx-in-job"),
        ("torchrun-elastic", "slurm-requeue"),
        ("multi-tier-pathways-elastic", "slurm-requeue"),
    ]
    for name in ORDERED:
        mean = sum(ratio.amount for ratio in ettr[name]) / sum(ratio.base for ratio in ettr[name])
        print(f"{name:30} ETTR {100 * mean:6.2f} %")  # noqa: T201
    for better, worse in pairs:
        gain = _above(ettr, better, worse)
        low, high = gain.ci95
        print(f"{better:30} - {worse:20} {100 * gain.mean:+6.2f} points ({100 * low:+.2f} to {100 * high:+.2f})")  # noqa: T201
        assert low > 0, (better, worse)
