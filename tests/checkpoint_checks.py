"""What every closed form of progress owes: the same as living through one save at a time, whatever happens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sim import rng
from sim.policies.contracts import Damage, Pace
from tests.checkpoint_rival import Rival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sim.policies.checkpoint import Rung
    from sim.policies.contracts import CheckpointStrategy


def rival_of(strategy: Any) -> Rival:
    """Return a job that lives through the saves of a strategy one at a time."""
    return Rival(
        strategy.rungs,
        getattr(strategy, "pauses", ()),
        getattr(strategy, "nodes", 1),
        getattr(strategy, "replicas", 1),
    )


def step_by_step(strategy: CheckpointStrategy, pace: Pace, spans: Iterable[float]) -> tuple[float, float, float]:
    """Return committed work, work at risk and time spent stepping [s] after `spans`, one save at a time."""
    rival = rival_of(strategy)
    for span in spans:
        rival.advance(pace, span)
    return rival.committed, rival.work - rival.committed, rival.stepped


def marks(number: int) -> Callable[[str], float]:
    """Return the uniform numbers of a failure."""
    return lambda purpose: rng.uniform_one(rng.stream(11, 0, "mark", purpose), number)


def damages(generator: np.random.Generator, nodes: int) -> Iterator[Damage]:
    """Draw what happens to nodes, from nothing to all of them, some next to each other."""
    while True:
        chance = float(generator.choice([0.0, 0.02, 0.1, 0.5, 1.0]))
        lost = {position for position in range(nodes) if generator.random() < chance}
        if generator.random() < 0.3:
            first = int(generator.integers(nodes))
            lost |= set(range(first, min(first + int(generator.integers(1, 5)), nodes)))
        rebooted = {position for position in range(nodes) if generator.random() < chance / 2}
        yield Damage(
            keeps=generator.choice(["live", "processes", "hosts", "hosts", "stores"]),  # type: ignore[arg-type]
            lost=frozenset(lost),
            rebooted=frozenset(rebooted),
            live=bool(generator.random() < 0.5),
        )


def check_checkpoint(strategy: Any, step: float = 0.0, seed: int = 1) -> None:
    """Assert that a closed form of progress is one.

    It is conserved, monotone and additive; it equals living through one save at a time, with every copy an object that
    loses shards, through changes of pace and restores; `time_to` is exact, and a job that goes back is not further than
    before.
    """
    generator = np.random.default_rng(seed)
    cycle = sum(strategy.stepping(Pace(1.0, step)) + rung.stall for rung in strategy.rungs if rung.store == "remote")
    for rate in (1.0, 0.5):
        pace = Pace(rate, step)
        for _ in range(40):
            spans = generator.exponential(generator.choice([0.05, 0.5, 3.0]) * cycle, size=6).tolist()
            _check_spans(strategy, pace, spans)
            _check_time_to(strategy, pace, spans)
        _check_lives(strategy, pace, cycle, generator)
    _check_change_of_pace(strategy, step, cycle, generator)
    _check_live(strategy, Pace(1.0, step), cycle, generator)
    _check_saved(strategy, Pace(1.0, step), cycle, generator)


def _flat(state: Any) -> list[float]:
    """Return all numbers of a state."""
    return [number for part in state for number in (_flat(part) if isinstance(part, tuple) else [float(part)])]


def _check_spans(strategy: Any, pace: Pace, spans: Sequence[float]) -> None:
    """Additive over splits, conserved and monotone; equal to stepping through the same spans."""
    state = strategy.begin
    rival = rival_of(strategy)
    stepped = paused = 0.0
    tolerance = 1e-9 * max(sum(spans), 1.0)
    for span in spans:
        after, part, idle = strategy.advance(state, pace, span)
        assert -tolerance <= part <= span + tolerance
        assert -tolerance <= idle <= span - part + tolerance
        assert after.committed >= state.committed
        assert after.committed + after.at_risk >= state.committed + state.at_risk - tolerance
        assert strategy.sound(after) >= after.committed
        state, stepped, paused = after, stepped + part, paused + idle
        rival.advance(pace, span)
        assert state.committed + state.at_risk == pytest.approx(stepped * pace.rate, rel=1e-9)
        assert state.committed == pytest.approx(rival.committed, abs=tolerance)
    elapsed = sum(spans)
    once, stepped_once, paused_once = strategy.advance(strategy.begin, pace, elapsed)
    assert _flat(once) == pytest.approx(_flat(state), abs=tolerance)
    assert (stepped_once, paused_once) == pytest.approx((stepped, paused), abs=tolerance)
    assert (stepped, paused) == pytest.approx((rival.stepped, rival.paused), abs=tolerance)
    # With the rate of a healthy job, every second is committed, at risk, a stall or periodic work.
    assert (once.committed + once.at_risk) / pace.rate + rival.stalled + paused == pytest.approx(elapsed, rel=1e-9)


def _check_time_to(strategy: Any, pace: Pace, spans: Sequence[float]) -> None:
    """The announced time does the work, and no shorter time does."""
    state, _, _ = strategy.advance(strategy.begin, pace, spans[0])
    for work in (spans[1], spans[1] + spans[2]):
        needed = strategy.time_to(state, pace, work)
        after, stepped, _ = strategy.advance(state, pace, needed)
        assert stepped * pace.rate == pytest.approx(work, rel=1e-9)
        assert after.committed + after.at_risk == pytest.approx(state.committed + state.at_risk + work, rel=1e-9)
        sooner = needed - 1e-3 * work / pace.rate
        if sooner > 0:
            assert strategy.advance(state, pace, sooner)[1] * pace.rate < work
    assert strategy.time_to(strategy.begin, pace, 0.0) == 0.0


def _check_lives(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """Jobs that go back again and again hold what the rival's copies say, and read it in the same time."""
    hits = damages(generator, getattr(strategy, "nodes", 1))
    for life in range(12):
        state, rival = strategy.begin, rival_of(strategy)
        sounds = [0.0]
        for event, span in enumerate(generator.exponential(2 * cycle, size=12).tolist()):
            state, _, _ = strategy.advance(state, pace, span)
            rival.advance(pace, span)
            _check_equal(state, rival)
            sounds.append(strategy.sound(state))
            sound = float(generator.choice([math.inf, math.inf, *sounds[-3:]]))
            mark = marks(100 * life + event) if generator.random() < 0.7 else None
            damage = Damage("hosts")
            # A second failure may come before the job steps again: nodes that are gone stay gone.
            for _ in range(int(generator.integers(1, 3))):
                more = next(hits)
                damage = more._replace(lost=more.lost | damage.lost, rebooted=more.rebooted | damage.rebooted)
                found = strategy.restore(state, pace, damage, sound, mark)
                seconds, store = rival.restore(pace, damage, sound, mark)
                assert found.store == store
                assert found.seconds == pytest.approx(seconds, abs=1e-9)
                assert found.state.committed + found.state.at_risk <= (state.committed + state.at_risk) * (1 + 1e-9)
                state = found.state
                # Copies that were on their way are void.
                sounds = [min(known, strategy.sound(state)) for known in sounds]
                sound = min(sound, sounds[-1]) if sound < math.inf else sound
                _check_equal(state, rival)


def _check_equal(state: Any, rival: Rival) -> None:
    """A state and its rival agree on what is done, and on what is durable."""
    tolerance = 1e-9 * max(rival.stepped, 1.0)
    assert state.committed + state.at_risk == pytest.approx(rival.work, abs=tolerance)
    assert state.committed == pytest.approx(rival.committed, abs=tolerance)
    assert state.at_risk >= -tolerance
    for shelf, rung in zip(getattr(state, "shelves", ()), sorted(rival.saving, key=_is_inside), strict=False):
        newest = max((copy.work for copy in rival.held(rung)), default=0.0)
        assert shelf.newest == pytest.approx(newest, abs=tolerance)
        if rung.retain is not None:
            assert shelf.copies == len(rival.held(rung))


def _is_inside(rung: Rung) -> bool:
    """Return whether a store is inside the nodes; the shelves of a state begin with the one that is not."""
    return rung.store != "remote"


def _check_change_of_pace(strategy: Any, step: float, cycle: float, generator: np.random.Generator) -> None:
    """A slower or faster pace in the middle keeps every second in its place."""
    for _ in range(40):
        state, rival = strategy.begin, rival_of(strategy)
        work = 0.0
        for _ in range(6):
            pace = Pace(float(generator.choice([1.0, 0.75, 0.25])), step * float(generator.choice([1.0, 1.5, 4.0])))
            span = float(generator.exponential(cycle))
            state, stepped, _ = strategy.advance(state, pace, span)
            rival.advance(pace, span)
            work += stepped * pace.rate
            assert state.committed + state.at_risk == pytest.approx(work, rel=1e-9, abs=1e-9)
            _check_equal(state, rival)


def _check_live(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """What is kept live loses less than a step and takes no time; what was on its way to a store is void."""
    for span in generator.uniform(0, 4 * cycle, size=60):
        state, _, _ = strategy.advance(strategy.begin, pace, float(span))
        live, seconds, store = strategy.restore(state, pace, Damage("live"))
        assert (seconds, store) == (0.0, "peer")
        assert live.committed == state.committed
        assert 0 <= state.at_risk - live.at_risk <= pace.step * (1 + 1e-9)
        if pace.step > 0:
            whole = (live.committed + live.at_risk) / pace.step
            assert whole == pytest.approx(round(whole), abs=1e-6), "what is left is whole steps"
        else:
            assert live.at_risk == state.at_risk
        later, _, _ = strategy.advance(live, pace, 1e-3)
        assert strategy.sound(later) <= max(state.committed, strategy.sound(state))
        assert later.committed == live.committed or live.committed + live.at_risk == pytest.approx(later.committed)


def _check_saved(strategy: Any, pace: Pace, cycle: float, generator: np.random.Generator) -> None:
    """A save outside the schedule makes everything durable, outside the nodes too; the schedule goes on."""
    for span in generator.uniform(0, 4 * cycle, size=20):
        state, _, _ = strategy.advance(strategy.begin, pace, float(span))
        saved = strategy.saved(state)
        assert saved.committed == pytest.approx(state.committed + state.at_risk, rel=1e-12)
        assert saved.at_risk == 0
        back = strategy.restore(saved, pace, Damage("stores"))
        assert back.state.committed == saved.committed
        assert strategy.advance(saved, pace, 50 * cycle)[0].committed > saved.committed
    assert strategy.save_time() == strategy.stall + strategy.drain
