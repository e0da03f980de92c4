"""What is true of every queue: guarantees of backfill, books of the planner, no preemption in turn, no look ahead."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ettrick.sim.policies.scheduler.nodes import ExpectedEnds, PlannerPool
from ettrick.sim.policies.scheduler.profile import AvailabilityProfile
from ettrick.sim.policies.scheduler.queue import JobQueue, Quota
from tests.cases import cases
from tests.pace import SEED, budget, some
from tests.planning import Replay, Work, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ettrick.sim.policies.scheduler.nodes import PlannerJob
    from ettrick.sim.policies.scheduler.planner import Planner

GPUS = 4

POLICIES: dict[str, dict[str, Any]] = {
    "fifo": {},
    "sjf": {"use": "sjf"},
    "easy": {"use": "easy"},
    "easy without extra nodes": {"use": "easy", "extra": False},
    "depth 3": {"use": "easy", "depth": 3},
    "conservative": {"use": "conservative"},
    "greedy": {"head": "passes"},
    "slurm": {"use": "slurm", "backfill_cycle": "7 s", "resolution": "5 s"},
    "kueue": {"use": "kueue"},
    "age": {"use": "easy", "order": {"age": {"weight": 3, "full": "50 s"}}},
    "fair share": {"order": {"fair_share": {"weight": 3, "half_life": "1 min", "every": "5 s"}}},
    "cycle": {"use": "easy", "cycle": "10 s"},
}


def mixed(seed: int, jobs: int = 50) -> list[Work]:
    """Return jobs of up to 5 nodes of 4 GPUs, half of them below a node; 3 priorities, 2 tenants, 2 partitions."""
    generator = np.random.default_rng(seed)
    submits = np.cumsum(generator.poisson(3, size=jobs))
    work = []
    for number, submit in enumerate(submits.tolist()):
        below = generator.random() < 0.5
        run = float(generator.integers(1, 60))
        work.append(
            Work(
                number, float(submit), run, 0 if below else int(generator.integers(1, 6)),
                int(generator.integers(1, GPUS)) if below else 0, run * float(generator.integers(1, 3)),
                priority=int(generator.integers(0, 3)), tenant=int(generator.integers(0, 2)),
                partition=int(generator.integers(0, 2)),
            )
        )  # fmt: skip
    return work


def mixed_replay(seed: int, keys: dict[str, Any], *, kind: str, work: list[Work] | None = None, **more: Any) -> Replay:
    """Return a replay on a cluster of a kind, on which nodes fail, idle or in jobs, and return."""
    generator = np.random.default_rng(seed)
    work = mixed(seed) if work is None else work
    pools, tiers, quotas = [PlannerPool(8)], (0,), (Quota(), Quota())
    if kind == "partitions":
        pools, tiers = [PlannerPool(5, partitions=(0,)), PlannerPool(5, partitions=(1,))], (1, 1)
    elif kind == "overlap":
        pools, tiers = (
            [PlannerPool(3, partitions=(0,)), PlannerPool(4, partitions=(1,)), PlannerPool(3, partitions=(0, 1))],
            (1, 2),
        )
    elif kind == "racks":
        pools = [PlannerPool(4, domain=rack, windows=((100.0, 130.0),) if rack == 1 else ()) for rack in range(3)]
        keys = {**keys, "pack": "rack", "need": "required" if seed % 2 else "preferred", "wait": "0 s"}
        work = [job._replace(nodes=min(job.nodes, 4)) for job in work] if seed % 2 else work
    elif kind == "quotas":
        quotas = (Quota(16), Quota(16, borrow=8, lend=8))
    if len(tiers) == 1:
        work = [job._replace(partition=0) for job in work]

    def fail(replay: Replay) -> None:
        pool = int(generator.integers(len(pools)))
        if replay.planner.free[pool]:
            replay.planner.capacity(-1, replay.now, pool)
            actions_later.append(pool)

    def mend(replay: Replay) -> None:
        while actions_later:
            replay.planner.capacity(1, replay.now, actions_later.pop())

    def lose(replay: Replay) -> None:
        whole = [job for job in replay.running.values() if job.where]
        if whole:
            (pool, nodes), *others = whole[0].where
            replay.planner.seated(whole[0], ((pool, nodes - 1), *others) if nodes > 1 else tuple(others))
            actions_later.append(pool)

    def end(replay: Replay) -> None:
        if replay.running:
            replay.stop(min(replay.running))

    actions_later: list[int] = []
    calls: list[Callable[[Replay], None]] = [fail, end, lose]
    actions = [(float(at), calls[index % 3]) for index, at in enumerate(range(5, 80, 9))]
    # What a job has lost is back by then.
    actions.append((1000.0, mend))
    return Replay(keys, work, pools, gpus=GPUS, tiers=tiers, quotas=quotas, actions=actions, **more)


KINDS = ("plain", "partitions", "overlap", "racks", "quotas")

PREEMPTS: tuple[dict[str, Any], ...] = (
    {},
    {"preempt": {"mode": "requeue", "exempt": "5 s"}},
    {"preempt": {"mode": "requeue", "grace": "6 s", "reclaim": "any", "most": 3}},
    {"preempt": {"mode": "requeue", "grace": "3 s", "victims": "reorder", "order": "smallest"}},
)


def books_close(replay: Replay) -> None:
    """Assert that each node and each GPU is counted once."""
    planner = replay.planner
    for pool in range(len(planner.pools)):
        shares = {job.share for job in replay.running.values() if job.share is not None and job.share.pool == pool}
        whole = sum(count for job in replay.running.values() for at, count in job.where if at == pool)
        ends = [entry for block in planner.nodes.ends[pool].settled().blocks for entry in block]
        assert sum(nodes for _, _, nodes in ends) == whole + len(shares)
        assert ends == sorted(ends)
        assert planner.idle(pool) + whole + len(shares) <= planner.pools[pool].nodes
        for share in shares:
            assert share.free == GPUS - sum(job.gpus for job in share.jobs) >= 0
    usage = [0] * len(planner.quotas.quotas)
    for job in replay.running.values():
        usage[job.tenant] += job.nodes * GPUS or job.gpus
    assert planner.quotas.usage == usage
    queued = [entry for lane in planner.queue.lanes.values() for block in lane.blocks for entry in block]
    assert planner.queued == len(queued)
    assert all(used <= quota.nominal + quota.borrow for used, quota in zip(usage, planner.quotas.quotas, strict=True))


@cases(("policy", "kind"), some(7, itertools.product(POLICIES, KINDS)))
def test_each_node_is_counted_once_and_all_jobs_end(policy: str, kind: str) -> None:
    """Through failures, preemption and quotas: books close after each pass, and the queue empties."""
    for seed in range(budget(5)):
        for preempt in PREEMPTS:
            keys = POLICIES[policy] | preempt
            replay = mixed_replay(SEED * 100 + seed, keys, kind=kind, watch=books_close)
            fits = {job.number for job in mixed(SEED * 100 + seed) if job.nodes <= 4 or kind in ("plain", "overlap")}
            assert fits <= set(replay.end), (policy, kind, preempt)


# With age and fair share, time alone changes the order.
@cases(
    ("policy", "kind"),
    some(7, (pair for pair in itertools.product(POLICIES, KINDS) if pair[0] not in ("age", "fair share"))),
)
def test_a_pass_that_looks_at_what_is_new_decides_as_one_that_looks_at_all(policy: str, kind: str) -> None:
    """To plan everything again at each event starts and stops the same jobs at the same times."""
    for seed in range(budget(5)):
        for preempt in PREEMPTS:
            keys = POLICIES[policy] | preempt
            found = mixed_replay(SEED * 100 + seed, keys, kind=kind)
            anew = mixed_replay(SEED * 100 + seed, keys, kind=kind, watch=look_at_all)
            assert found.history == anew.history, (policy, kind, preempt)
            assert found.preemptions == anew.preemptions


def look_at_all(replay: Replay) -> None:
    """Let the next pass look at all jobs."""
    replay.planner.next_pass.after_change = True


@cases(("policy", "kind"), list(itertools.product(("depth 3", "short window"), ("plain", "overlap"))))
def test_jobs_of_one_shape_are_looked_at_once(policy: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks for a place for each job starts and stops the same jobs at the same times."""

    def add(queue: JobQueue, job: PlannerJob, capped: bool) -> None:
        plain(queue, job, capped)
        job.shape = (job.serial,)

    plain = JobQueue._add
    window = {"use": "slurm", "backfill_cycle": "3 s", "resolution": "0 s", "window": "40 s"}
    keys = {**POLICIES, "short window": {**window, "order": {"age": {"weight": 0}}}}[policy]
    for seed in range(budget(5)):
        for preempt in PREEMPTS:
            work = [job._replace(limit=60.0 - job.number % 3 * 20) for job in mixed(SEED * 100 + seed)]
            found = mixed_replay(SEED * 100 + seed, keys | preempt, kind=kind, work=work)
            with monkeypatch.context() as each:
                each.setattr(JobQueue, "_add", add)
                one_by_one = mixed_replay(SEED * 100 + seed, keys | preempt, kind=kind, work=work)
            assert found.history == one_by_one.history, (policy, kind, preempt)
            assert found.preemptions == one_by_one.preemptions


def test_the_earliest_window_is_that_of_a_scan() -> None:
    """Through reservations in any order: what is remembered of earlier questions changes no answer."""
    generator = np.random.default_rng(SEED)
    for _ in range(budget(200)):
        ends = ExpectedEnds()
        for number, end in enumerate(generator.integers(-2, 30, size=12).tolist()):
            ends.add((float(end), number, int(generator.integers(1, 4))))
        profile = AvailabilityProfile(0.0, int(generator.integers(0, 3)), ends.settled())
        assert profile.times[0] == 0.0
        assert all(a < b for a, b in itertools.pairwise(profile.times))
        for _ in range(20):
            nodes, length = int(generator.integers(1, 6)), float(generator.integers(1, 15))
            starts = (at for at in profile.times if at <= 20.0 and profile.least(at, at + length) >= nodes)
            start = next(starts, math.inf)
            assert profile.earliest(nodes, length, 20.0) == start
            if start < math.inf and generator.random() < 0.5:
                profile.take(start, start + length, nodes)


@cases("policy", POLICIES)
def test_the_planner_does_not_know_when_jobs_end(policy: str) -> None:
    """Whatever jobs that run at some time do afterwards, what was decided until then stays."""
    for seed in range(budget(20)):
        work = workload(SEED * 100 + seed, estimates="any")
        full = Replay(POLICIES[policy], work, 16)
        until = sorted(full.first.values())[30]
        other = [
            job._replace(run=job.run + 13) if full.end[job.number] > until else job
            for job in work
        ]  # fmt: skip
        changed = Replay(POLICIES[policy], other, 16)
        assert [entry for entry in full.history if entry[0] <= until] == [
            entry for entry in changed.history if entry[0] <= until
        ]


@cases("preempt", PREEMPTS[1:])
def test_no_two_jobs_preempt_each_other(preempt: dict[str, Any]) -> None:
    """Victims are of a strictly lower class, or of a tenant that has borrowed; only the latter may change sides.

    Who takes back what was lent may borrow itself when more is free, and lose it to its victim.
    """

    def watch(replay: Replay) -> None:
        planner = replay.planner
        for job, victims in planner.preemptions:
            for victim in victims:
                assert (
                    victim.priority < job.priority
                    or planner.quotas.usage[victim.tenant] > planner.quotas.quotas[victim.tenant].nominal
                )

    for seed in range(budget(20)):
        mixed_replay(SEED * 100 + seed, {"use": "easy", **preempt}, kind="quotas", watch=watch)
        work = {job.number: job for job in mixed(SEED * 100 + seed)}
        for kind in ("plain", "overlap", "racks"):
            replay = mixed_replay(SEED * 100 + seed, {"use": "easy", **preempt}, kind=kind)
            pairs = {(job, victim) for _, job, victims in replay.preemptions for victim in victims}
            assert not {(victim, job) for job, victim in pairs} & pairs
            assert all(work[victim].priority < work[job].priority for job, victim in pairs)


def test_a_victim_is_needed() -> None:
    """Without any one of the victims, the job would not have fitted into what was free."""
    for seed in range(budget(40)):
        seen: list[int] = []

        def watch(replay: Replay, seen: list[int] = seen) -> None:
            for job, victims in replay.planner.preemptions:
                if job.nodes and all(victim.nodes for victim in victims):
                    idle = sum(replay.planner.free) + sum(job.claim.values())
                    freed = sum(victim.nodes for victim in victims)
                    assert idle + freed >= job.nodes
                    assert all(idle + freed - victim.nodes < job.nodes for victim in victims)
                    seen.append(len(victims))

        keys = {"preempt": {"mode": "requeue", "grace": "2 s", "order": "smallest"}}
        work = [job._replace(priority=job.number % 3) for job in workload(SEED * 100 + seed)]
        Replay(keys, work, 16, watch=watch)
        assert seen


# ----------------------------------------
# Guarantees without failures and preemption.


def test_fifo_starts_in_order() -> None:
    """Jobs start in the order of the queue, and nobody while an earlier job waits."""
    for seed in range(budget(50)):
        replay = Replay({}, workload(SEED * 100 + seed), 16)
        assert [number for _, number in replay.history] == sorted(replay.first)


def test_the_head_starts_by_its_reservation() -> None:
    """EASY, limits at least run times: who is the head at some time starts by what was reserved then."""
    for seed in range(budget(50)):
        promises: list[tuple[int, float]] = []

        def watch(replay: Replay, promises: list[tuple[int, float]] = promises) -> None:
            planner = replay.planner
            if planner.last.heads:
                promises.append((planner.last.heads[0].number, planner.reservations.shadows[0]))

        replay = Replay({"use": "easy"}, workload(SEED * 100 + seed, estimates="above"), 16, watch=watch)
        assert promises
        assert all(replay.first[number] <= shadow for number, shadow in promises)


def test_everybody_starts_by_the_first_reservation() -> None:
    """Conservative, exact limits: nobody starts later than planned on arrival, and to plan again changes nothing."""
    for seed in range(budget(50)):
        planned: dict[int, float] = {}

        def watch(replay: Replay, planned: dict[int, float] = planned) -> None:
            for start, _, job in replay.planner.reservations.planned:
                assert planned.setdefault(job.number, start) == start
            assert all(replay.first[number] == start for number, start in planned.items() if number in replay.first)

        Replay({"use": "conservative"}, workload(SEED * 100 + seed), 16, watch=watch)
        assert planned


@cases("keys", [{}, {"use": "sjf"}, {"use": "easy"}, {"head": "passes"}])
def test_nobody_waits_without_a_reason(keys: dict[str, Any]) -> None:
    """After a pass the first of the queue does not fit; without reservations, nobody in the queue does."""
    for seed in range(budget(50)):

        def watch(replay: Replay) -> None:
            planner: Planner = replay.planner
            queue = [entry[-1] for lane in planner.queue.lanes.values() for block in lane.blocks for entry in block]
            waits = queue if keys.get("head") else queue[:1]
            assert all(job.nodes > planner.free[0] for job in waits)

        Replay(keys, workload(SEED * 100 + seed, estimates="any"), 16, watch=watch)


def test_ordered_blocks_are_a_sorted_list() -> None:
    """Thousands of entries come and go: order, sums of blocks and last entries stay those of a sorted list."""
    generator = np.random.default_rng(SEED)
    ordered, plain = ExpectedEnds(), []
    for step in range(6000):
        if plain and generator.random() < (0.2 if step < 4000 else 0.8):
            entry = plain.pop(int(generator.integers(len(plain))))
            ordered.remove(entry)
        else:
            entry = (float(generator.integers(500)), step, 1 + step % 7)
            ordered.add(entry)
            plain.append(entry)
        if step % 500 == 0:
            assert [entry for block, _ in ordered.settled().parts() for entry in block] == sorted(plain)
            assert sum(total for _, total in ordered.parts()) == sum(entry[2] for entry in plain)
            assert ordered.lasts == [block[-1] for block in ordered.blocks]
