"""Timelines told by hand: what a job does, phase by phase, with the failures in between.

A story is worked out on paper, from timers and from when saves come due; :func:`worded` lets the simulator play its
failures and compares every phase and every bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.sim.policies.contracts import Bucket
from tests import harness

if TYPE_CHECKING:
    from collections.abc import Mapping

EXACT = 1e-5

"""What a sum of timers may be off by [s]: sums are rounded, and uniform times are made a microsecond wide."""

FIXED = {
    "GPU memory": 25.0,  # the mean of U(0, 50)
    "abort and finalise": 5.0,  # of U(0, 10)
    "devices": 5.0,
    "diagnosis": 120.0,  # the longest of those that can be drawn
    "health check": 5.0,  # of U(0, 10), or 5 s in any case
    "image": 60.0,
    "imports": 15.0,
    "prolog": 5.0,
    "scheduler": 30.0,  # of U(0, 60)
    "stack clustering": 180.0,  # of U(60, 300)
    "swap": 5.5,  # of U(1, 10)
}

"""What the random phases of presets are made to take [s]: medians and means, so that the rest can be told by hand."""


class Story:
    """A job as it lives through failures, in seconds since its start.

    Parameters
    ----------
    saves
        Stall of a save [s] by its interval in work [s]: saves come due at the multiples.
    replicas
        Replicas of the job; only with more than one can some be away.
    """

    def __init__(self, saves: Mapping[float, float], replicas: int = 1) -> None:
        self.saves = saves
        self.replicas = replicas
        self.present = replicas
        self.now = self.work = 0.0
        self.pieces: list[tuple[float, float]] = []
        self.spans: dict[int, list[tuple[str, float, float]]] = {0: []}
        self.seconds: dict[str, float] = {}
        self.rows: list[tuple[float, int, int]] = []

    def _charge(self, bucket: str, seconds: float, share: float) -> None:
        self.seconds[bucket] = self.seconds.get(bucket, 0.0) + seconds * share

    def _span(self, group: int, bucket: str, start: float, end: float) -> None:
        before = self.spans.setdefault(group, [])
        if before and before[-1][0] == bucket and before[-1][2] == start:
            start = before.pop()[1]
        before.append((bucket, start, end))

    def wait(self, bucket: str, *timers: float) -> Story:
        """Let those who are present wait through timers [s] of one bucket, one after another."""
        for seconds in timers:
            self._span(0, bucket, self.now, self.now + seconds)
            self._charge(bucket, seconds, self.present / self.replicas)
            self.now += seconds
        return self

    def step(self, upto: float, pace: float = 1.0, stalls: float | None = None) -> Story:
        """Let those who are present step until there is so much work [s], at a pace of their nodes [-].

        `stalls` [s] is what saves take; without it, as many come due as there are multiples of their intervals.
        """
        share = self.present / self.replicas
        if stalls is None:
            assert share == pace == 1, "below the healthy pace saves come at other amounts of work: say what they take"
            stalls = sum((upto // each - self.work // each) * stall for each, stall in self.saves.items())
        seconds = (upto - self.work) / (pace * share)
        kind = "degraded" if pace != 1 else "productive" if share == 1 else "smaller"
        self._span(0, kind, self.now, self.now + seconds + stalls)
        self._charge("degraded", seconds * (1 - pace), share)
        self._charge("checkpoint_stall", stalls, share)
        self.now += seconds + stalls
        self.pieces.append((upto - self.work, seconds * (1 - pace) * share))
        self.work = upto
        return self

    def fail(self, source: int, slot: int = 0) -> Story:
        """Let a source of the scenario strike a unit now; of a job it counts while failures can hit that."""
        self.rows.append((self.now, source, slot))
        return self

    def back_to(self, work: float) -> Story:
        """Lose the work beyond some amount [s], and the GPU time that its slow pace took more."""
        lost = self.work - work
        self.work = work
        while lost > 0:
            done, degraded = self.pieces.pop()
            part = min(lost / done, 1.0)
            self._charge("lost_work", done * part + degraded * part, 1.0)
            self._charge("degraded", -degraded * part, 1.0)
            lost -= done
            if part < 1:
                self.pieces.append((done * (1 - part), degraded * (1 - part)))
        return self

    def leaves(self, replica: int, *timers: tuple[str, float]) -> Story:
        """Let a replica go its own way for timers [s], each with its bucket."""
        self.present -= 1
        time = self.now
        for bucket, seconds in timers:
            self._span(1 + replica, bucket, time, time + seconds)
            self._charge(bucket, seconds, 1 / self.replicas)
            time += seconds
        return self

    def joins(self) -> Story:
        """Have a replica back."""
        self.present += 1
        return self


def phases(result: sim.Result, group: int = 0) -> list[tuple[str, float, float]]:
    """Return bucket, start and end [s] of each phase of a group, whatever caused it; `smaller` with replicas away."""
    found: list[tuple[str, float, float]] = []
    for span in result.timeline.spans:
        if span.group != group:
            continue
        bucket, start = "smaller" if span.name else Bucket(span.bucket).name.lower(), span.start
        if found and found[-1][0] == bucket and found[-1][2] == start:
            start = found.pop()[1]
        found.append((bucket, start, span.end))
    return found


def worded(story: Story, case: sim.Prepared) -> sim.Result:
    """Play the failures of a story, assert that the simulator tells the same, and return its result.

    Each phase starts and ends when it should, in order, and the buckets hold its seconds and no others.
    """
    assert case.horizon == pytest.approx(story.now, abs=EXACT), "the case ends with the story"
    result = sim.run(case, 0, harness.trace(story.rows), keeps_timeline=True)
    for group, expected in story.spans.items():
        found = phases(result, group)
        assert [bucket for bucket, _, _ in found] == [bucket for bucket, _, _ in expected], (found, expected)
        for (_, *times), (_, *by_hand) in zip(found, expected, strict=True):
            assert times == pytest.approx(by_hand, abs=EXACT), (found, expected)
    assert {span.group for span in result.timeline.spans} == set(story.spans)
    spent = {bucket: seconds for bucket, seconds in story.seconds.items() if abs(seconds) > EXACT}
    ours = harness.seconds(result)
    assert ours == pytest.approx({"productive": story.work, **spent}, abs=EXACT), (ours, story.work, spent)
    assert result.jobs[0].work == pytest.approx(story.work, abs=EXACT)
    return result


def of_preset(name: str, story: Story, *, overrides: Mapping[str, Any] = {}, **changes: Any) -> sim.Prepared:
    """Return a small scenario that ends with a story, with a preset whose random phases take the times of `FIXED`.

    `overrides` replace values of the preset by their path (``None`` drops a store); `changes` replace top-level keys of
    the small scenario.
    """
    data = harness.scenario(recovery={"use": name}, horizon=f"{story.now!r} s", **changes)
    if "detection" not in changes:
        del data["detection"]
    data["checkpoint"] = {**data["checkpoint"], "from_preset": True}
    data = sim.parse(data).dump()
    for path, value in overrides.items():
        *above, last = path.split(".")
        holder: Any = data
        for key in above:
            holder = holder[int(key) if isinstance(holder, list) else key]
        holder[int(last) if isinstance(holder, list) else last] = value
    # Everything that the preset brings along is stated by now.
    tiers = data["checkpoint"]["tiers"]
    data["checkpoint"] |= {"tiers": [tier for tier in tiers if tier is not None], "from_preset": False}
    _fix(data["recovery"])
    return sim.prepare(sim.parse(data))


def _fix(part: Any) -> None:
    """Give each random phase in the data of a strategy the time of `FIXED`."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _fix(value)
    if isinstance(part, dict) and "each" in part and part["time"]["use"] != "fixed":
        part["time"] = f"{FIXED[part['name']]!r} s"
