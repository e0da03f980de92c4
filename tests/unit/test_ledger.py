"""The account of a job: what a rollback moves, window by window and cause by cause, and a sum that must close."""

from __future__ import annotations

import numpy as np
import pytest

from sim.engine.ledger import Account, LedgerError
from sim.policies.contracts import Bucket

GPUS = 4.0


def table(account: Account) -> dict[tuple[int, str, int], float]:
    """Return what is not zero by window, bucket and cause."""
    totals = account.totals()
    return {
        (int(window), Bucket(bucket).name.lower(), int(cause)): float(totals[window, bucket, cause])
        for window, bucket, cause in zip(*np.nonzero(totals), strict=True)
    }


def test_waiting_is_charged_to_its_cause() -> None:
    """A phase goes to its bucket and cause, in the window that is open."""
    account = Account(3, GPUS)
    account.table[Bucket.RESTORE][1] += 40.0
    account.open_window()
    account.table[Bucket.RESTORE][2] += 10.0
    assert table(account) == {(0, "restore", 1): 40.0, (1, "restore", 2): 10.0}


def test_rollback_takes_the_newest_work() -> None:
    """10 s of 30 s at risk are lost: productive time moves, and what remains can be lost later."""
    account = Account(3, GPUS)
    account.step(30.0, 0.0, 8.0, 0, 30.0)
    account.lose(10.0, 2)
    assert table(account) == {
        (0, "productive", 0): 20 * GPUS,
        (0, "checkpoint_stall", 0): 8.0,
        (0, "lost_work", 2): 10 * GPUS,
    }
    account.lose(20.0, 1)
    assert table(account)[0, "lost_work", 1] == 20 * GPUS
    assert account.risk == []
    account.close(30 * GPUS + 8.0, "the job")


def test_committed_work_cannot_be_lost() -> None:
    """Only what is at risk is remembered: of 30 + 50 s with 20 s not durable, 20 s are all that a loss finds."""
    account = Account(3, GPUS)
    account.step(30.0, 0.0, 0.0, 0, 30.0)
    account.step(50.0, 0.0, 0.0, 0, 20.0)
    account.lose(80.0, 1)
    assert table(account) == {(0, "productive", 0): 60 * GPUS, (0, "lost_work", 1): 20 * GPUS}


def test_lost_work_leaves_the_window_in_which_it_was_earned() -> None:
    """25 s are lost of 10 s in the third, 10 s in the second and 10 s in the first window: 5 s of the first."""
    account = Account(2, GPUS)
    for at_risk in (10.0, 20.0, 30.0):
        account.step(10.0, 0.0, 0.0, 0, at_risk)
        account.open_window()
    account.lose(25.0, 1)
    totals = account.totals() / GPUS
    assert totals[:, Bucket.PRODUCTIVE, 0].tolist() == [5.0, 0.0, 0.0, 0.0]
    assert totals[:, Bucket.LOST_WORK, 1].tolist() == [5.0, 10.0, 10.0, 0.0]


def test_degraded_time_goes_with_its_work() -> None:
    """Half of a stretch at half the pace is lost: half of its productive and half of its degraded time."""
    account = Account(3, GPUS)
    account.step(20.0, 0.0, 0.0, 0, 20.0)
    account.step(30.0, 30 * GPUS, 0.0, 1, 50.0)
    account.lose(15.0, 2)
    assert table(account) == {
        (0, "productive", 0): 35 * GPUS,
        (0, "degraded", 1): 15 * GPUS,
        (0, "lost_work", 2): 30 * GPUS,
    }
    # What is left of the stretch, then the 20 s before it, which have no degraded time.
    account.lose(35.0, 2)
    assert table(account)[0, "lost_work", 2] == 80 * GPUS
    account.close(80 * GPUS, "the job")


def test_degraded_time_of_committed_work_stays() -> None:
    """A save in the middle of a slow stretch: only the share of its degraded time that is at risk can be lost."""
    account = Account(3, GPUS)
    account.step(30.0, 30 * GPUS, 0.0, 1, 10.0)
    account.lose(10.0, 2)
    assert table(account) == pytest.approx(
        {(0, "productive", 0): 20 * GPUS, (0, "degraded", 1): 20 * GPUS, (0, "lost_work", 2): 20 * GPUS}
    )


@pytest.mark.timeout(20)
def test_a_part_of_a_stretch_is_lost_in_finite_time() -> None:
    """Losing a part of a stretch ends, whatever rounding does to the part, and loses that much."""
    generator = np.random.default_rng(7)
    pairs = [(126.49999999999989, 0.5), (30.0, 0.1), (1e-300, 3e-301)]
    pairs += [
        (work, work * share)
        for work, share in zip(generator.exponential(100.0, 2000), generator.random(2000), strict=True)
    ]
    for work, lost in pairs:
        account = Account(2, 1.0)
        account.step(work, 0.0, 0.0, 0, work)
        account.lose(lost, 1)
        assert account.totals()[0, Bucket.LOST_WORK, 1] == pytest.approx(lost, rel=1e-12)
        account.close(work, "the job")


def test_random_histories_close() -> None:
    """Whatever is stepped, saved and lost, in any order: the buckets add up, and no bucket is negative."""
    generator = np.random.default_rng(3)
    for _ in range(50):
        account = Account(4, GPUS)
        capacity = at_risk = 0.0
        for _ in range(60):
            event = generator.integers(4)
            if event == 0:
                account.open_window()
            elif event == 1 and at_risk > 0:
                lost = at_risk * float(generator.choice([1.0, 0.3]))
                account.lose(lost, int(generator.integers(1, 4)))
                at_risk -= lost
            else:
                work, slow = generator.exponential(10.0), float(generator.choice([0.0, 0.5]))
                at_risk = float(generator.choice([at_risk + work, work / 2]))
                account.step(work, work * GPUS * slow, 2.0, 1, at_risk)
                capacity += work * GPUS * (1 + slow) + 2.0
        account.close(capacity, "the job")
        assert account.totals().min() >= -1e-9 * capacity


def test_a_ledger_that_does_not_close_raises() -> None:
    """A missing second is a defect and says which account it is missing from; rounding is none."""
    account = Account(1, 1.0)
    account.table[Bucket.QUEUED][0] += 1e6
    account.close(1e6 * (1 + 1e-12), "job 'a'")
    with pytest.raises(LedgerError, match=r"the buckets of job 'a' add up to 1000000\.0 GPU s"):
        account.close(1e6 + 1.0, "job 'a'")
    with pytest.raises(LedgerError):
        account.close(1e6 * (1 - 1e-8), "job 'a'")
