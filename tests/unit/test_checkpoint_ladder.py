"""Several stores and periodic work in closed form: against single events, against Periodic, and worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ettrick.sim.policies.checkpoint import MultiLevelCheckpoint, Pause, Periodic, StorePlan
from ettrick.sim.policies.checkpoint.stores import TIE, PeriodicStalls, after, before, reach
from ettrick.sim.policies.contracts import Damage, Pace
from tests.cases import cases
from tests.checkpoint_checks import check_checkpoint, marks
from tests.pace import one_in, sample
from tests.property.common import examples

FREE = Pace(1.0)

"""Continuous progress at the healthy pace."""

REMOTE = StorePlan("remote", 100.0, 3.0, 60.0, 20.0, 20.0)

PEER = StorePlan("peer", 0.0, 0.0, 0.0, 2.0, 2.0)

HOST = StorePlan("host", 20.0, 0.5, 0.0, 4.0, 4.0, retain=1)

PEER_HOST = StorePlan("peer-host", 40.0, 1.0, 7.0, 6.0, 11.0, retain=1)

DISK = StorePlan("disk", 60.0, 0.0, 55.0, 9.0, 9.0, retain=3)

PAUSES = (Pause(130.0, 0, 9.0), Pause(70.0, 5, 2.0))


@pytest.mark.parametrize("step", one_in(3, [0.0, 7.0, 30.0]), ids=lambda step: f"step {step:g} s")
@pytest.mark.parametrize(
    "ladder",
    [
        MultiLevelCheckpoint((REMOTE,)),
        MultiLevelCheckpoint((REMOTE,), PAUSES),
        MultiLevelCheckpoint((HOST, PEER_HOST, REMOTE), (), 8),
        MultiLevelCheckpoint(
            (PEER, HOST, PEER_HOST._replace(clique=3, jump=2), DISK, REMOTE._replace(retain=3)), PAUSES, 17
        ),
        MultiLevelCheckpoint(
            (
                HOST._replace(corrupt=0.3),
                PEER_HOST._replace(interval=20.0, corrupt=0.4, retain=2),
                DISK._replace(corrupt=0.5),
                REMOTE._replace(retain=4, corrupt=0.4),
            ),
            (),
            6,
        ),
        MultiLevelCheckpoint(
            (HOST._replace(drain=33.0, skips=True), REMOTE._replace(drain=250.0, skips=True, corrupt=0.2)),
            (Pause(55.0, 0, 300.0),),
            5,
        ),
        MultiLevelCheckpoint(
            (
                HOST._replace(fetch=7.0, every_replica=True),
                PEER_HOST._replace(every_replica=True),
                DISK._replace(fetch=9.5, every_replica=True),
                REMOTE,
            ),
            (),
            12,
            3,
        ),
    ],
    ids=["remote", "pauses", "three", "all", "corrupt", "skip", "every replica"],
)
def test_closed_form(ladder: MultiLevelCheckpoint, step: float) -> None:
    """Every ladder is conserved, monotone, additive and equal to living through one event at a time."""
    check_checkpoint(ladder, step)


@st.composite
def grids(draw: Any) -> tuple[PeriodicStalls, list[float], float]:
    """Return series of very different rhythm, how long until each is due, and a wall time [s]."""
    size = draw(st.integers(1, 4))
    periods = [draw(st.floats(0.5, 2.0)) * 10 ** draw(st.integers(0, 3)) for _ in range(size)]
    stalls = [draw(st.sampled_from((0.0, 1e-3, 0.3, 1.0, 40.0, 500.0))) for _ in range(size)]
    firsts = [period * draw(st.sampled_from((0.0, 0.25, 1.0))) for period in periods]
    return (
        PeriodicStalls.of(periods, stalls, periods),
        firsts,
        draw(st.floats(0.0, 2.0)) * 10 ** draw(st.integers(0, 5)),
    )


@examples(500)
@given(grids())
def test_stepping_is_the_inverse_of_wall_time(case: tuple[PeriodicStalls, list[float], float]) -> None:
    """What is stepped in a wall time leads back to it: each series is counted once for each time that it was due."""
    grid, firsts, wall = case
    counts, due = [0] * grid.series, [False] * grid.series
    stepped, left = reach(grid, firsts, wall, counts, due)
    slack = TIE * (10.0 + wall)
    spent = stepped + sum(count * stall for count, stall in zip(counts, grid.stalls, strict=True))
    assert spent - left == pytest.approx(wall, abs=slack)
    assert before(grid, firsts, stepped) <= wall + slack
    assert wall <= after(grid, firsts, stepped) + slack
    for index, (count, first, period) in enumerate(zip(counts, firsts, grid.periods, strict=True)):
        assert count == 0 or first + (count - 1) * period <= stepped + slack
        assert first + count * period >= stepped - slack
        if due[index]:
            assert first + (count - 1) * period == pytest.approx(stepped, abs=slack)
    assert any(due) == (left > 0)


@examples(150)
@given(
    st.tuples(st.floats(5.0, 300.0), st.sampled_from((0.0, 2.0, 90.0)), st.sampled_from((0.0, 30.0, 400.0))),
    st.sampled_from((0.0, 7.0, 45.0)),
    st.lists(
        st.tuples(
            st.floats(0.1, 3000.0),
            st.sampled_from(("live", "hosts", "stores", None, None)),
            st.booleans(),
            st.sampled_from((1.0, 0.6)),
        ),
        max_size=12,
    ),
)
def test_one_remote_store_is_periodic(
    times: tuple[float, float, float], step: float, events: list[tuple[float, Any, bool, float]]
) -> None:
    """A ladder of one remote store is the closed form of a periodic save, whatever the pace and the restores."""
    periodic = Periodic(*times, load=20.0)
    ladder = MultiLevelCheckpoint((StorePlan("remote", *times, 20.0, 20.0),))
    assert (ladder.interval, ladder.stall, ladder.drain, ladder.load, ladder.transfer) == tuple(periodic)
    assert ladder.save_time() == periodic.save_time()
    ours, theirs = ladder.begin, periodic.begin
    for span, keeps, saves, rate in events:
        pace = Pace(rate, step / rate)
        assert ladder.stepping(pace) == periodic.stepping(pace)
        assert ladder.time_to(ours, pace, span) == pytest.approx(periodic.time_to(theirs, pace, span), rel=1e-9)
        ours, stepped, paused = ladder.advance(ours, pace, span)
        theirs, same, _ = periodic.advance(theirs, pace, span)
        assert (stepped, paused) == pytest.approx((same, 0.0), abs=1e-6)
        if keeps is not None:
            damage = Damage(keeps, frozenset({0}))
            ours, seconds, store = ladder.restore(ours, pace, damage)
            theirs, same, place = periodic.restore(theirs, pace, damage)
            assert (seconds, store) == (same, place)
        elif saves:
            ours, theirs = ladder.saved(ours), periodic.saved(theirs)
        assert (ours.committed, ours.at_risk) == pytest.approx((theirs.committed, theirs.at_risk), abs=1e-6)
        assert ladder.sound(ours) == pytest.approx(periodic.sound(theirs), abs=1e-6)


# Host: every 10 s of stepping, 1 s. Remote: every 30 s, 2 s, and 20 s to drain. Evaluation: every 40 s, 5 s.
MIXED = MultiLevelCheckpoint(
    (StorePlan("host", 10.0, 1.0, 0.0, 4.0, 4.0, retain=1), StorePlan("remote", 30.0, 2.0, 20.0, 20.0, 20.0)),
    (Pause(40.0, 0, 5.0),),
)

# Wall time; work, held by remote and host, stepping and pauses so far.


def test_a_save_is_put_off_or_left_out() -> None:
    """With a drain of 150 s an interval of 100 s becomes 150 s, or every second save is left out: 200 s.

    The first after a start comes after 100 s (four steps of 30 s) all the same: none is on its way.
    """
    for skips, free, steps in ((False, 150.0, 150.0), (True, 200.0, 240.0)):
        ladder = MultiLevelCheckpoint((REMOTE._replace(drain=150.0, skips=skips),))
        assert ladder.stepping(FREE) == free
        # Steps of 30 s make 100 s an interval of 120 s.
        assert ladder.stepping(Pace(1.0, 30.0)) == steps
        for pace, first, period in ((FREE, 100.0, free), (Pace(1.0, 30.0), 120.0, steps)):
            start = ladder.begin
            for work in (0.0, first + period):
                for saves, time in enumerate((first, first + period + 3.0)):
                    held = work + first + saves * period
                    state, _, _ = ladder.advance(start, pace, time + 3.0 + 149.0)
                    assert state.committed == held - (period if saves else held - work)
                    state, _, _ = ladder.advance(start, pace, time + 3.0 + 150.0)
                    assert state.committed == held
                start = ladder.restore(state, pace, Damage("stores")).state


def test_periodic_work_is_done_again_with_the_work_before_it() -> None:
    """A pause at 40 s of work that is lost comes again; one whose work is kept does not."""
    ladder = MultiLevelCheckpoint((StorePlan("remote", 30.0, 0.0, 0.0, 20.0, 20.0),), (Pause(40.0, 0, 5.0),))
    state, _, paused = ladder.advance(ladder.begin, FREE, 50.0)
    assert (state.work, paused) == (45.0, 5.0)
    back = ladder.restore(state, FREE, Damage("stores")).state
    assert back.work == 30.0
    assert ladder.advance(back, FREE, 15.0)[1:] == (10.0, 5.0)
    # At 65 s of work the copy of 60 s holds the pause at 40 s: the next is at 80 s.
    state, _, _ = ladder.advance(ladder.begin, FREE, 70.0)
    back = ladder.restore(state, FREE, Damage("stores")).state
    assert back.work == 60.0
    assert ladder.advance(back, FREE, 20.0)[1:] == (20.0, 0.0)
    assert ladder.advance(back, FREE, 25.0)[1:] == (20.0, 5.0)


def held(**changes: Any) -> tuple[MultiLevelCheckpoint, Any]:
    """Return a remote store, saved to at once after each 100 s, and a state of 350 s of work."""
    ladder = MultiLevelCheckpoint((StorePlan("remote", 100.0, 0.0, 0.0, 20.0, 20.0)._replace(**changes),))
    return ladder, ladder.advance(ladder.begin, FREE, 350.0)[0]


@cases(
    ("retain", "sound", "work"),
    [
        (None, math.inf, 300.0),
        (None, 250.0, 200.0),
        (None, 200.0, 200.0),
        (None, 99.0, 0.0),
        (2, 250.0, 200.0),
        (2, 150.0, 200.0),
        (1, 250.0, 300.0),
        (3, 50.0, 0.0),
        (4, 50.0, 0.0),
    ],
)
def test_a_restore_from_before_a_fault(retain: int | None, sound: float, work: float) -> None:
    """The newest copy from before the fault; if it was deleted the oldest there is; the start, if none ever was."""
    ladder, state = held(retain=retain)
    found = ladder.restore(state, FREE, Damage("hosts"), sound)
    assert (found.state.work, found.seconds) == (work, 20.0 if work else 0.0)
    assert found.state.committed == work


def test_copies_that_cannot_be_read() -> None:
    """Each attempt takes its time, and the next best copy is tried; what has been read once can be read again."""
    ladder, state = held(corrupt=0.25, retain=3)
    asked = {"unreadable remote 0": 0.1, "unreadable remote 1": 0.2, "unreadable remote 2": 0.3}
    found = ladder.restore(state, FREE, Damage("hosts"), math.inf, asked.__getitem__)
    assert (found.state.work, found.seconds) == (100.0, 3 * 20.0)
    again = ladder.restore(found.state, FREE, Damage("hosts"), math.inf, {}.__getitem__)
    assert (again.state.work, again.seconds) == (100.0, 20.0)
    later, _, _ = ladder.advance(found.state, FREE, 120.0)
    with pytest.raises(KeyError, match="unreadable remote 0"):
        ladder.restore(later, FREE, Damage("hosts"), math.inf, {}.__getitem__)
    # What is known is known of one copy, not of an older one.
    known = ladder.restore(state, FREE, Damage("hosts"), math.inf, lambda purpose: 0.9).state
    older = ladder.restore(known, FREE, Damage("hosts"), 250.0).state
    with pytest.raises(KeyError, match="unreadable remote 0"):
        ladder.restore(older, FREE, Damage("hosts"), math.inf, {}.__getitem__)
    # Without numbers every copy can be read; with none that can, the job starts again.
    assert ladder.restore(state, FREE, Damage("hosts")).state.work == 300.0
    none = ladder.restore(state, FREE, Damage("hosts"), math.inf, lambda purpose: 0.0)
    assert (none.state.work, none.seconds) == (0.0, 60.0)


def test_unreadable_copies_are_as_frequent_as_stated() -> None:
    """Of many failures a share 1 - c reads the newest copy, a share c (1 - c) the one before it."""
    ladder, state = held(corrupt=0.3)
    number = sample(20_000)
    works = [ladder.restore(state, FREE, Damage("hosts"), math.inf, marks(index)).state.work for index in range(number)]
    for work, share in ((300.0, 0.7), (200.0, 0.21), (100.0, 0.063)):
        assert abs(works.count(work) - number * share) < 4 * math.sqrt(number * share * (1 - share))


def test_a_live_peer_holds_the_last_step() -> None:
    """Processes that are kept hand over the last whole step; without a whole replica, or a peer, a copy is read."""
    ladder = MultiLevelCheckpoint((PEER, REMOTE), (), 4, 2)
    pace = Pace(1.0, 30.0)
    state, _, _ = ladder.advance(ladder.begin, pace, 290.0)
    whole = ladder.restore(state, pace, Damage("processes", frozenset({3}), live=True))
    assert (whole.state.work, whole.seconds, whole.store) == (270.0, 2.0, "peer")
    for damage in (Damage("processes", frozenset({0, 3})), Damage("hosts", frozenset({3}), live=True)):
        older = ladder.restore(state, pace, damage)
        assert (older.state.work, older.seconds, older.store) == (120.0, 20.0, "remote")


def test_the_schedule_goes_on_from_where_a_job_goes_back_to() -> None:
    """From 40 s of work in memory the remote save comes at 100 s; a memory that was lost holds nothing before 60 s."""
    ladder = MultiLevelCheckpoint((HOST._replace(stall=0.0), REMOTE._replace(stall=0.0, drain=0.0)), (), 4)
    state, _, _ = ladder.advance(ladder.begin, FREE, 50.0)
    back = ladder.restore(state, FREE, Damage("hosts")).state
    assert (back.work, back.committed) == (40.0, 0.0)
    assert ladder.advance(back, FREE, 59.0)[0].committed == 0.0
    assert ladder.advance(back, FREE, 61.0)[0].committed == 100.0
    # At 110 s of work: 100 s is in both; the loss of a node empties the memory.
    state, _, _ = ladder.advance(ladder.begin, FREE, 110.0)
    back = ladder.restore(state, FREE, Damage("hosts", frozenset({2}))).state
    assert [shelf.newest for shelf in back.shelves] == [100.0, 0.0]
    assert ladder.advance(back, FREE, 19.0)[0].shelves[1].newest == 0.0
    assert ladder.advance(back, FREE, 21.0)[0].shelves[1].newest == 120.0


def test_what_was_saved_before_now_is_sound() -> None:
    """A fault during a drain or a stall does not spoil the copy, of whichever store is ahead."""
    assert MIXED.sound(MIXED.begin) == 0.0
    for time, sound in (
        (10.0, 0.0),
        (10.5, 10.0),
        (33.5, 30.0),
        (36.0, 30.0),
        (44.0, 30.0),
        (48.0, 40.0),
        (56.0, 40.0),
    ):
        assert MIXED.sound(MIXED.advance(MIXED.begin, FREE, time)[0]) == sound
    # A stop for periodic work alone copies nothing.
    ladder = MultiLevelCheckpoint((REMOTE,), (Pause(50.0, 0, 5.0),))
    assert ladder.sound(ladder.advance(ladder.begin, FREE, 52.0)[0]) == 0.0
