"""Two failures or more with every recovery preset, each phase told by hand from published timers, to the second.

Unless a story says otherwise: one GPU a node, remote saves of 10 s after each 500 s of work, 20 s to read one, repairs
of 200 s. Random phases take the times of :data:`tests.stories.FIXED`, all others are as the preset has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ettrick.sim import Bucket, catalog
from tests.cases import cases
from tests.stories import FIXED, Story, of_preset, worded

if TYPE_CHECKING:
    from ettrick import sim

SOFTWARE, HOST, GPU, HANG = range(4)

"""The sources of failures: a process of the job, a node, a GPU, a collective that nobody knows the reason of."""

_RARE: dict[str, Any] = {"law": {"use": "exponential", "mean": "1000000 d"}, "renews": "never"}

FAILURES: list[dict[str, Any]] = [
    {"use": "job", "name": "software", "rate": "1 per 1000000 job-d"},
    {"use": "component", "name": "host", "part": "node", **_RARE},
    {"use": "component", "name": "gpu", "part": "gpu", **_RARE},
    {"use": "job", "name": "hang", "effect": "hang", "rate": "1 per 1000000 job-d"},
]

REMOTE = {"interval": "500 s", "mode": "blocking", "write": "10 s", "restore": "20 s"}

SAVE, READ, REPAIR = 10.0, 20.0, 200.0

IMPORTS, DEVICES = FIXED["imports"], FIXED["devices"]

FIRST_STEP = 20.0

ELIGIBLE, KILL_WAIT = 121.0, 30.0

"""Slurm: requeue_delay + 1, and from SIGTERM to SIGKILL (job_mgr.c, slurm.conf.5) [s]."""

STOP = 15.0

"""Stop of workers of ft_launcher (NVIDIA/nvidia-resiliency-ext) [s]."""

IN_BAND = 2.0

WATCHDOG = 600.0 + 15.0

"""Collective timeout and dump of PyTorch (ProcessGroupNCCL.hpp) [s]."""


def collectives(gpus: int) -> float:
    """Return how long collectives take to start: 17 s at 16,384 GPUs, growing as 1.36th power (arXiv 2602.00277).

    Below, 17 s too.
    """
    return 17.0 * float(max((gpus / 16384) ** 1.36, 1.0))


def slow_hosts(gpus: int) -> float:
    """Return how much longer the slowest hosts of a cold start take: 100 s at 16,384 GPUs."""
    return 100.0 * gpus / 16384


def cold(gpus: int) -> tuple[float, ...]:
    """Return the phases of a start from nothing under Slurm [s]."""
    return (FIXED["prolog"], IMPORTS, DEVICES, slow_hosts(gpus), collectives(gpus), FIRST_STEP)


def warm(gpus: int) -> tuple[float, ...]:
    """Return the phases of new processes on nodes that the job has [s]."""
    return (IMPORTS, DEVICES, collectives(gpus), FIRST_STEP)


def case(
    name: str, story: Story, nodes: int, job: dict[str, Any] | None = None, repair: float = REPAIR, **changes: Any
) -> Any:
    """Return the scenario of a story: four GPUs on as many nodes unless `job` says otherwise."""
    gpus_per_node = 8 if name.startswith("ntp") else 1
    return of_preset(
        name,
        story,
        cluster={"nodes": nodes, "gpus_per_node": gpus_per_node, "fabric": {"rails": 1}},
        jobs=[{"name": "job", "gpus": 4, **(job or {})}],
        failures=changes.pop("failures", FAILURES),
        checkpoint={"tiers": [REMOTE]},
        repair={"time": f"{repair!r} s"},
        **changes,
    )


REPLICAS = {"parallelism": {"data": 4}}


def test_slurm_requeue() -> None:
    """A process ends, and all nodes are given back; then a host is lost, and the queue waits for its repair too.

    Slurm finds a silent host after 300 to 500 s; the mean, 400 s, is stated for the cause.
    """
    down = 400.0
    requeue = (KILL_WAIT, ELIGIBLE, FIXED["scheduler"])
    story = Story({500: SAVE}).wait("initialize", *cold(4)).step(690)
    story.fail(SOFTWARE).wait("detection", IN_BAND).wait("reschedule", *requeue)
    story.wait("initialize", *cold(4)).wait("restore", READ).back_to(500).step(890)
    story.fail(HOST, 1).wait("detection", down).wait("reschedule", *requeue).wait("queued", REPAIR - sum(requeue))
    story.wait("initialize", *cold(4)).wait("restore", READ).back_to(500).step(1200)
    failures = [failure | ({"detection": f"{down} s"} if failure["name"] == "host" else {}) for failure in FAILURES]
    result = worded(story, case("slurm-requeue", story, 4, failures=failures))
    assert result.jobs[0].restores == {"remote": 2}


def test_k8s_jobset() -> None:
    """A pod ends and all are recreated; a lost node is evicted 350 s later, and its stuck pod holds the Job up."""
    pods = 60.0 * 4 / 8192
    again = (pods, IMPORTS, DEVICES, slow_hosts(4), collectives(4), FIRST_STEP)
    grace, toleration, termination, stuck = 50.0, 300.0, 30.0, 300.0
    story = Story({500: SAVE}).wait("initialize", FIXED["image"], *again).step(690)
    story.fail(SOFTWARE).wait("detection", IN_BAND).wait("reschedule", termination)
    story.wait("initialize", *again).wait("restore", READ).back_to(500).step(890)
    story.fail(HOST, 1).wait("detection", grace + toleration).wait("reschedule", termination, stuck)
    story.wait("initialize", FIXED["image"], *again).wait("restore", READ).back_to(500).step(1200)
    exact = {f"detection.observers.2.{key}": "0 s" for key in ("renew", "monitor")}
    worded(story, case("k8s-jobset", story, 5, overrides=exact))


BY_WATCHDOG = {"detection.observers.0.covers.host": "0 %"}

"""The half of the lost hosts that no error tells of."""


def test_torchrun_elastic() -> None:
    """The loss of a host restarts the others smaller, and so does that of another one while the first is away.

    Each comes back with its node, for which all start again from the last copy.
    """
    stop, keep_alive, last_call, repair = 30.0, 15.0, 30.0, 1500.0

    def smaller(gpus: int) -> tuple[float, ...]:
        return (keep_alive, last_call, *warm(gpus))

    story = Story({500: SAVE}, replicas=4).wait("initialize", *cold(4)).step(690)
    story.fail(HOST, 2).wait("detection", WATCHDOG).leaves(2, ("starved", repair))
    first_back = story.now + repair
    story.wait("reschedule", stop).wait("initialize", *smaller(3)).wait("restore", READ).back_to(500)
    story.step(650, stalls=0.0)
    story.fail(HOST, 3).wait("detection", WATCHDOG).leaves(3, ("starved", repair))
    second_back = story.now + repair
    story.wait("reschedule", stop).wait("initialize", *smaller(2)).wait("restore", READ).back_to(500)
    for back, share in ((first_back, 2 / 4), (second_back, 3 / 4)):
        alone = back - story.now
        saves = alone // (500 + SAVE)
        story.step(500 + (alone - saves * SAVE) * share, stalls=saves * SAVE).joins()
        story.wait("initialize", stop, *warm(4)).wait("restore", READ).back_to(500 + saves * 500 * share)
    story.step(story.work + 400, stalls=0.0)
    worded(story, case("torchrun-elastic", story, 4, REPLICAS, repair, overrides=BY_WATCHDOG))


@cases("seed", range(4))
def test_torchrun_restarts_after_three_processes_and_no_more(seed: int) -> None:
    """All start again in place, whichever rank it was; the fourth time the job goes to the layer above it, Slurm."""
    stop = 30.0
    story = Story({500: SAVE}, replicas=4).wait("initialize", *cold(4)).step(690)
    for _ in range(3):
        story.fail(SOFTWARE).wait("detection", 1.1).wait("reschedule", stop)
        story.wait("initialize", *warm(4)).wait("restore", READ).back_to(500).step(690)
    story.fail(SOFTWARE).wait("detection", 1.1).wait("reschedule", stop, ELIGIBLE, FIXED["scheduler"])
    story.wait("initialize", *cold(4)).wait("restore", READ).back_to(500).step(690)
    seen = {"detection.observers.0.latency": "1.1 s"}
    worded(story, case("torchrun-elastic", story, 4, REPLICAS, overrides=seen, seed=seed))


NVRX = {120.0: 0.5, 500.0: SAVE}

"""Copies in the hosts of a clique every 2 min, 0.5 s each, and remote ones [s]."""

OF_CLIQUE = 5.0


def test_nvrx_in_process() -> None:
    """A process and then a host leave the processes of the others alive; with rank 0 the job goes to the queue."""
    last_call, barrier, first_step, missing = 1.0, 2.0, 10.0, 30.0
    stop = (last_call, FIXED["abort and finalise"], FIXED["health check"])
    launch = (barrier, collectives(4), first_step)
    story = Story(NVRX).wait("initialize", *cold(4)).step(690)
    story.fail(SOFTWARE).wait("detection", 1.0).wait("reschedule", *stop)
    story.wait("initialize", *launch).wait("restore", OF_CLIQUE).back_to(600).step(890)
    story.fail(HOST, 1).wait("detection", missing).wait("reschedule", *stop)
    story.wait("initialize", *launch).wait("restore", OF_CLIQUE).back_to(840).step(1100)
    story.fail(HOST, 0).wait("detection", missing).wait("reschedule", KILL_WAIT, ELIGIBLE, FIXED["scheduler"])
    story.wait("initialize", *cold(4)).wait("restore", READ).back_to(1000).step(1250)
    result = worded(story, case("nvrx-in-process", story, 6, spares={"hot": 1}))
    assert result.jobs[0].restores == {"peer-host": 2, "remote": 1}


def test_nvrx_in_job() -> None:
    """A process, then a host, are replaced in the allocation; with rank 0 the job goes to the queue."""
    stop = (STOP, FIXED["GPU memory"], 5.0)
    launch = (IMPORTS, DEVICES, 1.0, collectives(4), FIRST_STEP)
    heartbeat = 300.0
    story = Story(NVRX).wait("initialize", *cold(4)).step(690)
    story.fail(SOFTWARE).wait("detection", 1.0).wait("reschedule", *stop)
    story.wait("initialize", *launch).wait("restore", OF_CLIQUE).back_to(600).step(890)
    story.fail(HOST, 1).wait("detection", heartbeat).wait("reschedule", *stop)
    story.wait("initialize", *launch).wait("restore", OF_CLIQUE).back_to(840).step(1100)
    story.fail(HOST, 0).wait("detection", heartbeat).wait("reschedule", KILL_WAIT, ELIGIBLE, FIXED["scheduler"])
    story.wait("initialize", *cold(4)).wait("restore", READ).back_to(1000).step(1250)
    overrides = {"detection.observers.1.period": "1 us"}
    result = worded(story, case("nvrx-in-job", story, 6, spares={"hot": 1}, overrides=overrides))
    assert result.jobs[0].restores == {"peer-host": 2, "remote": 1}


def test_torchft_hsdp() -> None:
    """One of four replicas leaves; a second one before that is back, and without a majority all wait and restart.

    So it is where the others are still heard of. A step takes 20 s. A failure costs the step in flight, 60 s for the
    collective and a new configuration.
    """
    timeout = quorum = 60.0
    repair = 390.0
    machine, catch_up, joined = 280.0, 10.0, 100.0 * (4 / 98304) ** 1.36
    reconfigure = ((10.0 + 45.0) * (4 / 98304) ** 1.36, 45.0 * 4 / 98304)

    def start(gpus: int) -> tuple[float, ...]:
        return (machine, IMPORTS, DEVICES, slow_hosts(gpus), collectives(gpus), FIRST_STEP)

    # Nobody replaces a machine at the first start.
    story = Story({500: SAVE}, replicas=4).wait("initialize", *start(4)[1:]).step(690)
    story.fail(HOST, 3).wait("detection", timeout)
    story.leaves(3, ("initialize", sum(start(1))), ("restore", catch_up))
    mended, first_back = story.now + repair, story.now + sum(start(1)) + catch_up
    story.wait("reschedule", *reconfigure).back_to(680).step(680 + 110 * 3 / 4, stalls=0.0)
    # There is one node to spare, which the first one took: the second waits until that of the first is mended.
    story.fail(HOST, 1).wait("detection", timeout)
    story.leaves(1, ("starved", mended - story.now), ("initialize", sum(start(1))), ("restore", catch_up))
    second_back = mended + sum(start(1)) + catch_up
    story.wait("reschedule", quorum).wait("starved", first_back - story.now).joins()
    story.wait("initialize", *start(4)).wait("restore", READ).back_to(500)
    steps = (second_back - story.now) // 20
    story.step(500 + (second_back - story.now) * 3 / 4, stalls=0.0).joins()
    story.wait("initialize", joined).back_to(500 + steps * 20 * 3 / 4).step(900, stalls=0.0)
    job = {"step_time": "20 s", **REPLICAS}
    worded(story, case("torchft-hsdp", story, 5, job, repair, overrides={"recovery.majority": True}))


def test_byterobust_warm_standby() -> None:
    """A process is looked into, a host is swapped, and a hang takes four nodes in a row, most of them healthy.

    Copies of every 5 s lie on the own host and on the one four positions away.
    """
    swap, launch = FIXED["swap"], warm(8)
    own, peer = 1.0, 2.0
    story = Story({5: 0.02 + 0.02, 500: SAVE}).wait("initialize", swap, *launch).step(693)
    story.fail(SOFTWARE).wait("detection", IN_BAND).wait("reschedule", STOP, FIXED["diagnosis"])
    story.wait("initialize", *launch).wait("restore", own).back_to(690).step(893)
    story.fail(HOST, 2).wait("detection", 2.0).wait("reschedule", STOP)
    story.wait("initialize", swap, *launch).wait("restore", peer).back_to(890).step(994)
    story.fail(HANG).wait("detection", WATCHDOG).wait("reschedule", STOP, FIXED["stack clustering"])
    story.wait("initialize", swap, *launch).wait("restore", peer).back_to(990).step(1100)
    result = worded(story, case("byterobust-warm-standby", story, 14, {"gpus": 8}, spares={"hot": 5}))
    assert result.counts["evicted"] == 4
    assert result.jobs[0].restores == {"host": 1, "peer-host": 2}


def test_gemini_in_memory() -> None:
    """A process restarts on its own copy, a new machine takes that of its group; a whole group lost is read from afar.

    Copies are whole 1 and 2 s after each 5 s of work, and cost no stall.
    """
    launch, machine, silence = warm(4), 300.0, 15.0
    own, peer = 1.0, 2.0
    story = Story({5: 0.0, 500: SAVE}).wait("initialize", *launch).step(693)
    story.fail(SOFTWARE).wait("detection", IN_BAND).wait("reschedule", STOP)
    story.wait("initialize", *launch).wait("restore", own).back_to(690).step(893)
    story.fail(HOST, 1).wait("detection", silence).wait("reschedule", STOP)
    story.wait("initialize", machine, *launch).wait("restore", peer).back_to(890).step(1193)
    # Position 1 has its node from the idle ones, the fifth; its group is positions 0 and 1.
    story.fail(HOST, 0).fail(HOST, 4).wait("detection", silence).wait("reschedule", STOP)
    story.wait("initialize", machine, *launch).wait("restore", READ).back_to(1000).step(1300)
    overrides = {"detection.observers.1.period": "1 us"}
    result = worded(story, case("gemini-in-memory", story, 8, overrides=overrides))
    assert result.jobs[0].restores == {"host": 1, "peer-host": 1, "remote": 1}


NTP_JOB = {"gpus": 32, "parallelism": {"tensor": 8, "data": 4}}

NTP_STOP = (STOP, FIXED["GPU memory"])

ALL_GPUS_SHOW = {"detection.observers.0.covers.gpu": "100 %"}

RESHARD = 0.01


def test_ntp() -> None:
    """A lost GPU narrows one replica of four to 7 of 8; a lost host is replaced, and by then the GPU is mended."""
    pace = (1 - RESHARD) * (1 - (1 - 7 / 8) / 4)
    story = Story({500: SAVE}).wait("initialize", *warm(32)).step(690)
    story.fail(GPU, 9).wait("detection", IN_BAND).wait("reschedule", *NTP_STOP)
    story.wait("initialize", *warm(32)).wait("restore", READ).back_to(500).step(500 + 600 * pace, pace, SAVE)
    story.fail(HOST, 2).wait("detection", WATCHDOG).wait("reschedule", *NTP_STOP)
    story.wait("initialize", *warm(32)).wait("restore", READ).back_to(500 + 500 * pace).step(1300, stalls=0.0)
    worded(story, case("ntp", story, 5, NTP_JOB, repair=700.0, overrides=ALL_GPUS_SHOW))


def test_ntp_power_boost() -> None:
    """With 1.3 times the power 7 of 8 GPUs keep the batch; with 6 of 8, the replica does 0.975 of its part."""
    paces = (1 - RESHARD, (1 - RESHARD) * (1 - (1 - 1.3 * 6 / 8) / 4))
    story = Story({500: SAVE}).wait("initialize", *warm(32)).step(690)
    story.fail(GPU, 9).wait("detection", IN_BAND).wait("reschedule", *NTP_STOP)
    story.wait("initialize", *warm(32)).wait("restore", READ).back_to(500).step(500 + 300 * paces[0], paces[0], 0.0)
    story.fail(GPU, 10).wait("detection", IN_BAND).wait("reschedule", *NTP_STOP)
    story.wait("initialize", *warm(32)).wait("restore", READ).back_to(500).step(500 + 200 * paces[1], paces[1], 0.0)
    worded(story, case("ntp-power-boost", story, 5, NTP_JOB, repair=5000.0, overrides=ALL_GPUS_SHOW))


def test_multi_tier_pathways_elastic() -> None:
    """A slice is dropped, then another one before that is back; each scales up again with nothing lost."""
    notice, reschedule, restore, next_step, repair = 13.0, 50.0, 5.4, 12.7, 300.0
    begin = (60.0 * 4 / 8192, IMPORTS, DEVICES, slow_hosts(4), FIRST_STEP)
    story = Story({120: 0.02 + 0.02, 500: SAVE}, replicas=4).wait("initialize", *begin).step(690)
    story.fail(SOFTWARE).wait("detection", notice).wait("reschedule", reschedule)
    story.wait("initialize", next_step).wait("restore", restore).back_to(600).step(890)
    backs = []
    for replica, share in ((2, 3 / 4), (0, 2 / 4)):
        story.fail(HOST, replica).wait("detection", notice).leaves(replica, ("starved", repair))
        backs.append(story.now + repair)
        story.wait("reschedule", reschedule).wait("initialize", next_step).wait("restore", restore).back_to(840)
        story.step(840 + (100 if replica else backs[0] - story.now) * share, stalls=0.0)
    story.joins().wait("initialize", next_step)
    # Both kinds of copies come due once, 120 s after those at 840 and 500 s after the remote one at 500 s of work.
    saves = 0.02 + 0.02 + SAVE
    story.step(story.work + (backs[1] - story.now - saves) * 3 / 4, stalls=saves).joins()
    story.wait("initialize", next_step).step(story.work + 10, stalls=0.0)
    overrides = {"detection.observers.0.period": "1 us"}
    worded(story, case("multi-tier-pathways-elastic", story, 4, REPLICAS, repair, overrides=overrides))


def _start(gpus: int, machine: float) -> tuple[float, ...]:
    """Return how a job with redundant stages, or one of these alone, gets ready with a new machine [s]."""
    return (machine, IMPORTS, DEVICES, collectives(gpus), FIRST_STEP)


def _redundant(name: str, story: Story, gpus: int = 4, **layout: int) -> sim.Result:
    """Compare the story of a preset on as many nodes and two others; without a time of steps none is in flight."""
    job = {"gpus": gpus, "parallelism": layout}
    return worded(story, case(name, story, gpus + 2, job, repair=2000.0))


def test_bamboo_redundant_stages() -> None:
    """The stage before takes over, at 1.5 times the time of a step; two neighbours lost wait for one, and restart."""
    whole, slow = 0.86, 0.86 / 1.5
    alone = sum(_start(1, 45.0))
    story = Story({500: SAVE}, replicas=4).wait("initialize", *_start(4, 0.0)).step(690 * whole, whole, SAVE)
    story.fail(HOST, 1).wait("detection", 60.0).leaves(1, ("initialize", alone), ("restore", 10.0))
    story.step(story.work + (alone + 10) * slow, slow / 0.75, 0.0).joins().wait("initialize", 20.0)
    story.step(story.work + 100 * whole, whole, 0.0)
    story.fail(HOST, 2).wait("detection", 60.0).leaves(2, ("initialize", alone), ("restore", 10.0))
    back = story.now + alone + 10
    story.step(story.work + 30 * slow, slow / 0.75, 0.0)
    # Two others were there; the third waits until the first is mended.
    story.fail(HOST, 3).wait("detection", 60.0)
    mended = story.rows[0][0] + 60.0 + 2000.0
    story.leaves(3, ("starved", mended - story.now), ("initialize", alone), ("restore", 10.0))
    last = mended + alone + 10
    story.wait("starved", back - story.now).joins()
    story.wait("initialize", *_start(4, 45.0)).wait("restore", READ).back_to(500 * whole)
    saves = int((last - story.now) // (500 + SAVE)) * SAVE
    story.step(story.work + (last - story.now - saves) * slow, slow / 0.75, saves).joins()
    story.wait("initialize", 20.0).step(story.work + 50 * whole, whole, 0.0)
    result = _redundant("bamboo-redundant-stages", story, pipeline=4)
    degraded = result.jobs[0].totals[:, Bucket.DEGRADED].sum(axis=0)
    assert degraded[0] == pytest.approx(story.work * 4 * 0.14 / 0.86)  # what redundancy takes is no failure's


def test_replicated_pairs() -> None:
    """Two of six nodes are lost, no pair of them: the other halves go on as fast as before."""
    joined, groups = 100.0 * (6 / 98304) ** 1.36, 10.0 * (6 / 98304) ** 1.36
    away = ("initialize", sum(_start(1, 280.0))), ("restore", 10.0)
    story = Story({500: SAVE}, replicas=6).wait("initialize", *_start(6, 0.0)).step(520 / 2, 0.5, SAVE)
    story.fail(HOST, 0).wait("detection", 60.0).leaves(0, *away)
    first = story.now + sum(time for _, time in away)
    story.wait("reschedule", groups).step(story.work + 50 / 2, 0.5 * 6 / 5, 0.0)
    story.fail(HOST, 1).wait("detection", 60.0).leaves(1, *away)
    second = story.now + sum(time for _, time in away)
    story.wait("reschedule", groups).step(story.work + (first - story.now) / 2, 0.5 * 6 / 4, 0.0).joins()
    story.wait("initialize", joined).step(story.work + (second - story.now) / 2, 0.5 * 6 / 5, 0.0).joins()
    story.wait("initialize", joined).step(story.work + 40 / 2, 0.5, 0.0)
    _redundant("replicated-pairs", story, 6, data=6)


def _half_lost(name: str, again: tuple[float, ...], joined: tuple[float, ...], second: int, **layout: int) -> None:
    """Tell how two of four nodes are lost and come back: what is left does its share."""
    away = ("initialize", sum(_start(1, 280.0))), ("restore", 10.0)
    story = Story({500: SAVE}, replicas=4).wait("initialize", *_start(4, 0.0)).step(520)
    backs = []
    for victim, share in ((0, 3 / 4), (second, 2 / 4)):
        story.fail(HOST, victim).wait("detection", 60.0).leaves(victim, *away)
        backs.append(story.now + sum(time for _, time in away))
        story.wait("reschedule", *again)
        if victim == 0:
            story.step(story.work + 50 * share, stalls=0.0)
    for back, share in zip(backs, (2 / 4, 3 / 4), strict=True):
        story.step(story.work + (back - story.now) * share, stalls=0.0).joins().wait("initialize", *joined)
    _redundant(name, story.step(story.work + 10, stalls=0.0), **layout)


def test_oobleck_templates() -> None:
    """Half of the nodes are lost, one of each stage: what is left does half."""
    groups = 10.0 * (4 / 98304) ** 1.36
    _half_lost("oobleck-templates", (groups, 57.0), (groups, 100.0), 3, pipeline=2, data=2)


def test_recycle_rerouting() -> None:
    """Half of the peers of a stage are lost: without the step-time model no bubble takes any of their work."""
    joined = 100.0 * (4 / 98304) ** 1.36
    _half_lost("recycle-rerouting", (10.0 * (4 / 98304) ** 1.36, 5.0), (joined,), 1, data=4)


def test_jit_checkpoint() -> None:
    """A process, then a host: each costs the step in flight, and no save was ever made."""
    story = Story({}).wait("initialize", IMPORTS, DEVICES, collectives(4), 10.0).step(690)
    for source, known, new in ((SOFTWARE, IN_BAND, ()), (HOST, 60.0, (IMPORTS, DEVICES))):
        story.fail(source, int(source == HOST)).wait("detection", known).wait("reschedule", 5.0)
        story.wait("initialize", *new, collectives(4), 10.0).wait("restore", 5.0)
        story.back_to(story.work // 20 * 20).step(story.work + 130)
    overrides = {"checkpoint.tiers.0.interval": "30 d"}
    result = worded(story, case("jit-checkpoint", story, 5, {"step_time": "20 s", **REPLICAS}, overrides=overrides))
    assert result.jobs[0].restores == {"peer": 2}


def test_every_preset_has_a_story() -> None:
    """No preset is left out here."""
    stories = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    assert set(catalog.recoveries()) <= stories
