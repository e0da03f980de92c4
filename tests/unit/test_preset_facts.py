"""The timers of recovery presets, against what was published of the stacks that they stand for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sim
from sim import catalog
from sim.policies.detection import DETECTIONS
from sim.policies.recovery.phases import Crew, mean
from tests.cases import cases
from tests.unit.test_presets import NAMES, quick, strategy


def seconds(phases: Any, gpus: int, only: str = "") -> float:
    """Return the mean time of phases at some size, eight GPUs a node of which one joins; of one phase if named [s]."""
    if only:
        phases = tuple(phase for phase in phases if phase.name == only)
        assert phases, only
    return sum(mean(phases, Crew(gpus, gpus // 8, 1)))


def observer(name: str, kind: str) -> Any:
    """Return one of the observers that a preset states."""
    found: Any = DETECTIONS["observers"].model_validate(catalog.recovery(name)["detection"])
    return next(watcher for watcher in found.observers if watcher.observer == kind)


@cases("name", sorted(NAMES - {"torchft-hsdp", "multi-tier-pathways-elastic"}))
def test_notes_say_what_comes_out(name: str) -> None:
    """The times at three sizes that a note names are those of the phases, without nodes that join."""
    recovery = strategy(name)
    first = getattr(recovery, "rungs", [recovery])[0]
    phases = (first.launch,) if name == "slurm-requeue" else (first.stop, first.launch)
    note = next(text for text in catalog.recovery(name)["notes"] if " s at 1,024, 16,384 and 98,304 GPUs" in text)
    found = re.search(r"([\d,]+), ([\d,]+) and ([\d,]+) s at 1,024", note)
    assert found
    for gpus, text in zip((1024, 16384, 98304), found.groups(), strict=True):
        time = sum(sum(mean(part, Crew(gpus, gpus // 8, 0))) for part in phases)
        assert time == pytest.approx(float(text.replace(",", "")), abs=1)


@cases(("gpus", "published"), [(16384, 200), (98304, 900)])
def test_cold_start_is_the_published_one(gpus: int, published: float) -> None:
    """From nodes to the first step at 16 and 98 thousand GPUs: about 200 and 900 s (arXiv 2602.00277)."""
    for name in ("slurm-requeue", "nvrx-in-job", "nvrx-in-process"):
        assert seconds(strategy(name).rungs[-1].launch, gpus) == pytest.approx(published, rel=0.05)
    assert seconds(strategy("torchrun-elastic").start_up, gpus) == pytest.approx(published, rel=0.05)


@cases("gpus", [1024, 16384, 98304])
def test_cold_start_is_between_the_rules_of_thumb(gpus: int) -> None:
    """Two fits of published starts are 50 s + 9 ms and 90 s + 8.2 ms a GPU; the start is between them, within 6 %."""
    fits = (50 + 9e-3 * gpus, 90 + 8.2e-3 * gpus)
    start = seconds(strategy("slurm-requeue").rungs[0].launch, gpus)
    assert 0.94 * min(fits) <= start <= 1.06 * max(fits)


@cases("gpus", [1024, 16384, 98304])
def test_the_way_down_the_ladder(gpus: int) -> None:
    """Each rung takes longer than the one before: processes kept, nodes kept, nothing kept."""
    rungs = strategy("nvrx-in-process").rungs
    times = [seconds(rung.stop, gpus) + seconds(rung.delay, gpus) + seconds(rung.launch, gpus) for rung in rungs]
    assert times == sorted(times)
    assert [rung.keeps for rung in rungs] == ["processes", "hosts", "nothing"]


def test_collectives_grow_as_published() -> None:
    """17, 30, 100 and 200 s at 16, 22, 64 and 98 thousand GPUs, which the power law meets within 15 %."""
    for name in ("slurm-requeue", "nvrx-in-process"):
        launch = strategy(name).rungs[0].launch
        for gpus, published in ((16384, 17), (22528, 30), (65536, 100), (98304, 200)):
            assert seconds(launch, gpus, "collectives") == pytest.approx(published, rel=0.15)


def test_slurm() -> None:
    """KillWait is 30 s, a requeued job is eligible after 120 + 1 s, and the scheduler looks every 60 s."""
    rung = strategy("slurm-requeue").rungs[0]
    assert (rung.keeps, rung.budget, seconds(rung.stop, 8)) == ("nothing", None, 30)
    assert seconds(rung.delay, 8, "not eligible") == 121
    (cadence,) = (phase.time for phase in rung.delay if phase.name == "scheduler")
    assert (cadence.low, cadence.high) == (0, 60)
    assert observer("slurm-requeue", "slurm").timeout == 300
    watchdog = observer("slurm-requeue", "collective-timeout")
    assert (watchdog.timeout, watchdog.dump) == (600, 15)
    assert "checkpoint" not in catalog.recovery("slurm-requeue")


def test_jobset() -> None:
    """Restarts of the default rule count for ever; pods have 30 s, nodes 50 s and then 300 s of toleration."""
    scenario = quick("k8s-jobset", "recovery.rungs.0.budget=2")
    assert not scenario.recovery.resets_on_progress
    assert scenario.recovery.rungs[0].budget == 2
    assert seconds(scenario.recovery.rungs[0].stop, 8, "termination") == 30
    kubernetes = observer("k8s-jobset", "kubernetes")
    assert (kubernetes.grace, kubernetes.renew, kubernetes.monitor, kubernetes.toleration) == (50, 10, 5, 300)
    assert any("Kueue" in line for line in _comments("k8s-jobset"))


def _comments(name: str) -> list[str]:
    """Return the lines of the comment that opens the file of a preset."""
    text = (Path(catalog.__file__).parent / "recovery" / f"{name}.yaml").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.startswith("#")]


def test_torchrun() -> None:
    """Workers have 30 s to stop, a dead node is purged after 15 s, a smaller round waits 30 s, a join 600 s."""
    recovery = strategy("torchrun-elastic")
    assert seconds(recovery.stop, 8) == 30
    assert (seconds_of(recovery.launch, "keep-alive"), seconds_of(recovery.launch, "last call")) == (15, 30)
    assert (recovery.patience, recovery.max_restarts, recovery.except_first) == (600, 3, True)
    assert observer("torchrun-elastic", "in-band").latency.high == pytest.approx(1.1)


def seconds_of(phases: Any, name: str) -> float:
    """Return the fixed time of a phase that only some faults need [s]."""
    (time,) = (phase.time.value for phase in phases if phase.name == name)
    return float(time)


def test_a_process_is_quicker_than_a_node_with_torchrun() -> None:
    """A process that ends is back long before a lost node, whose peers wait for a collective or a purge."""
    recovery = strategy("torchrun-elastic")
    needed = {
        fault: sum(
            seconds_of((phase,), phase.name) for phase in recovery.launch if phase.faults and fault in phase.faults
        )
        for fault in ("process", "host")
    }
    assert (needed["process"], needed["host"]) == (0, 45)
    watcher = observer("torchrun-elastic", "in-band")
    assert watcher.covers["process"] == 1 > watcher.covers["host"]


def test_nvrx_in_process() -> None:
    """Soft 60 s, hard 90 s, missing 30 s, last call 1 s; rank 0 and switches are for the rungs below."""
    recovery = strategy("nvrx-in-process")
    watchdog = observer("nvrx-in-process", "nvrx")
    assert (watchdog.soft, watchdog.hard, watchdog.missing) == (60, 90, 30)
    rung = recovery.rungs[0]
    assert rung.except_first
    assert not {"switch", "planned"} & set(rung.handles)
    assert (rung.pools, rung.patience, rung.budget) == (("spare",), 0, None)
    assert seconds(rung.stop, 8, "last call") == 1
    for name in ("abort and finalise", "health check"):
        (law,) = (phase.time for phase in rung.stop if phase.name == name)
        assert law.high == 10


def test_nvrx_in_job() -> None:
    """15 s to stop, at most 50 s until memory is free, 3 restarts, then 2 through the queue, 3 without progress."""
    for name in ("nvrx-in-job", "nvrx-in-process"):
        recovery = strategy(name)
        in_job, queue = recovery.rungs[-2:]
        assert (in_job.name, in_job.budget, queue.budget, recovery.no_progress) == ("in-job", 3, 2, 3)
        assert seconds(in_job.stop, 8, "stop of workers") == 15
        (law,) = (phase.time for phase in in_job.stop if phase.name == "GPU memory")
        assert (law.low, law.high) == (0, 50)
        assert seconds(in_job.launch, 8, "last call") == 1
        (store,) = catalog.recovery(name)["checkpoint"]["tiers"]
        assert (store["store"], store["clique"]) == ("peer-host", 2)
    assert observer("nvrx-in-job", "heartbeat").timeout == 300
    assert observer("nvrx-in-job", "straggler").period == 300


def test_torchft() -> None:
    """At 98,304 GPUs: 60 s, then 100 s of which two bugs are 90 s, and with a step of 20 s the published 3 min."""
    recovery = strategy("torchft-hsdp")
    assert recovery.quorum_timeout == 60
    watchdog = observer("torchft-hsdp", "collective-timeout")
    stall = watchdog.timeout + watchdog.dump + seconds(recovery.reconfigure, 98304)
    assert stall + 20 == pytest.approx(180)
    bugs = sum(seconds(recovery.reconfigure, 98304, name) for name in ("second reconfiguration", "throttling"))
    assert stall + 20 - bugs == pytest.approx(90)
    assert seconds(recovery.rejoin, 98304) == pytest.approx(100)


def test_a_replica_of_torchft_is_away_for_seven_minutes() -> None:
    """One of 12 replicas of 8,192 GPUs that lost a node is back after about 7 min."""
    absence = strategy("torchft-hsdp").absence_for(98304, 12288, 12)
    assert absence.away == pytest.approx(7 * 60, rel=0.05)


def test_byterobust() -> None:
    """Inspections find a GPU after 10 s, a NIC 30 s, a switch 60 s, the kernel 2 s; one eviction spares one copy."""
    agent = observer("byterobust-warm-standby", "node-agent")
    times = {fault: law.value for fault, law in agent.latency.items()}
    assert times == {"gpu": 10, "driver": 10, "nic": 30, "switch": 60, "host": 2}
    recovery = strategy("byterobust-warm-standby")
    (rung,) = recovery.rungs
    host, peer = catalog.recovery("byterobust-warm-standby")["checkpoint"]["tiers"]
    assert (host["store"], peer["store"], peer["clique"]) == ("host", "peer-host", 2)
    assert peer["jump"] % recovery.evict.nodes == 0  # the other copy lies in another block of nodes that leave together
    assert rung.pools[0] == "warm"
    for store in (host, peer):
        assert 0.01 <= float(store["stall"].split()[0]) <= 0.04


def test_gemini() -> None:
    """Every step of the scenario is copied to a group of two hosts, at no cost to the step."""
    prepared = sim.prepare(quick("gemini-in-memory"))
    peer = catalog.recovery("gemini-in-memory")["checkpoint"]["tiers"][1]
    assert (peer["store"], peer["clique"], peer.get("stall", "0 s")) == ("peer-host", 2, "0 s")
    assert float(peer["interval"].split()[0]) <= prepared.jobs[0].step_time  # rounded up to one step


def test_ntp() -> None:
    """A narrow domain may take 1.3 times the power, or none more; resharding costs 1 % at most."""
    plain, boosted = strategy("ntp"), strategy("ntp-power-boost")
    assert (plain.power_boost, boosted.power_boost) == (1, 1.3)
    assert plain.reshard == boosted.reshard == 0.01
    changed = boosted.model_copy(update={"use": "ntp", "power_boost": 1.0})
    assert changed == plain


def test_pathways() -> None:
    """13 s to notice, 50 s to reschedule, 5.4 s to restore and 12.7 s to the next step are 81 s in all."""
    recovery = strategy("multi-tier-pathways-elastic")
    notice = observer("multi-tier-pathways-elastic", "heartbeat").timeout
    tiers = catalog.recovery("multi-tier-pathways-elastic")["checkpoint"]["tiers"]
    restore = float(tiers[0]["restore"].split()[0])
    total = notice + seconds(recovery.stop, 768) + restore + seconds(recovery.launch, 768)
    assert total == pytest.approx(13 + 50 + 5.4 + 12.7)
    assert (recovery.patience, recovery.rejoin_keeps) == (10 * 300, "live")
