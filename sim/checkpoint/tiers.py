"""Periodic checkpoints to a store, blocking or asynchronous.

A save cycle is ``interval`` of stepping and then a stall. A blocking save is durable when its stall ends. An
asynchronous one copies the state during the stall, goes on stepping, and is durable ``write`` later.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from sim import units
from sim.contracts import CheckpointState, Pace
from sim.fields import Duration, Model, Strategy
from sim.theory import checkpointing

__all__ = ["Periodic", "Tier", "Tiers"]

RULES = ("young", "daly", "optimal")


def _parse_interval(value: object) -> str | float:
    """Read a duration, ``every K steps`` or the name of a rule."""
    if isinstance(value, str):
        text = value.strip()
        if text in RULES:
            return text
        words = text.split()
        if len(words) == 3 and words[0] == "every" and words[2] in ("step", "steps"):
            if not words[1].isdecimal() or int(words[1]) == 0:
                message = f"'{text}': the number of steps must be a whole number above zero"
                raise ValueError(message)
            return f"every {int(words[1])} steps"
        if text.isalpha():
            message = (
                f"unknown rule '{text}'; choose from {', '.join(RULES)}, 'every 20 steps' or a time such as '10 min'"
            )
            raise ValueError(message)
    return units.show(units.parse(value, units.DURATION), units.DURATION)


Interval = Annotated[
    str,
    BeforeValidator(_parse_interval),
    WithJsonSchema({"type": "string", "examples": ["10 min", "every 20 steps", "young", "daly", "optimal"]}),
]


class Tier(Model):
    """One store of checkpoints."""

    store: Literal["remote"] = Field("remote", description="Where it is kept; the remote store survives every node.")
    interval: Interval = Field(
        description="Stepping between saves: a time, 'every K steps', or a rule (young, daly, optimal) that uses the "
        "failure rate that the scenario states."
    )
    mode: Literal["blocking", "async"] = Field("async", description="Whether training waits for the whole write.")
    stall: Duration = Field("0 s", description="How long training stops for an asynchronous save.")  # type: ignore[assignment]
    write: Duration = Field(
        description="How long the write takes: the stall of a blocking save, the drain of the other."
    )
    restore: Duration = Field(description="How long a restore takes.")

    @model_validator(mode="after")
    def _stall_is_for_async(self) -> Self:
        if self.mode == "blocking" and self.stall:
            message = "stall is for mode: async; a blocking save stalls for the time of its write"
            raise ValueError(message)
        return self


class Tiers(Strategy):
    """Checkpoints to a ladder of stores; this version knows one rung."""

    use: Literal["tiers"] = "tiers"
    tiers: tuple[Tier, ...] = Field(min_length=1, max_length=1, description="The stores, cheapest first.")

    def build(self, mtti: float, step: float) -> Periodic:
        """Return the closed form for a job.

        Parameters
        ----------
        mtti
            Mean time to interrupt that the scenario states before any simulation [s]; used by the rules.
        step
            Time of a healthy step [s]; 0 for continuous progress.
        """
        tier = self.tiers[0]
        blocking = tier.mode == "blocking"
        stall = tier.write if blocking else tier.stall
        rule = tier.interval
        if rule.startswith("every "):
            if step <= 0:
                message = f"interval '{rule}' needs the time of a step: give the job step_time or mfu"
                raise ValueError(message)
            interval = int(rule.split()[1]) * step
        elif rule in RULES:
            if not math.isfinite(mtti):
                message = f"interval '{rule}' needs a failure rate, and nothing can fail here; give a time"
                raise ValueError(message)
            if stall <= 0:
                message = f"interval '{rule}' balances the stall of a save against lost work, and here saves are free"
                raise ValueError(message)
            formula = {
                "young": checkpointing.young_interval,
                "daly": checkpointing.daly_interval,
                "optimal": checkpointing.optimal_interval,
            }[rule]
            interval = float(formula(stall, mtti))
        else:
            interval = units.parse(rule, units.DURATION)
        if interval <= 0:
            message = "the interval must be longer than zero"
            raise ValueError(message)
        return Periodic(interval=interval, stall=stall, drain=0.0 if blocking else tier.write, restore=tier.restore)


def _whole(number: float) -> int:
    """Return `number` rounded up, where a whole number that rounding has moved stays what it was."""
    return math.ceil(number - 1e-9)


class Periodic(NamedTuple):
    """Closed form of a periodic save; every time in seconds of wall time.

    Parameters
    ----------
    interval
        Stepping between two saves [s]. Rounded up to whole steps, and to the drain: a save waits until the one
        before is durable.
    stall
        How long stepping stops for a save [s].
    drain
        From the end of the stall until the save is durable [s].
    restore
        Time of a restore [s].
    """

    interval: float
    stall: float
    drain: float
    restore: float

    def stepping(self, pace: Pace) -> float:
        """Return how long the group steps between two saves [s]: whole steps, at least the drain."""
        wanted = max(self.interval, self.drain)
        if pace.step <= 0:
            return wanted
        return _whole(wanted / pace.step) * pace.step

    def _place(self, state: CheckpointState, interval: float) -> float:
        """Return where in the cycle of stepping and stall a state is [s].

        After a change of pace the interval may be shorter than what has been stepped: then a save is due.
        """
        if state.stall_left > 0:
            return interval + self.stall - state.stall_left
        return state.position if state.position < interval else interval

    def advance(self, state: CheckpointState, pace: Pace, seconds: float) -> tuple[CheckpointState, float]:
        """Return the state after `seconds` [s] of RUNNING, and how many of them were spent stepping [s]."""
        interval = self.stepping(pace)
        cycle = interval + self.stall
        rate = pace.rate
        place = self._place(state, interval)
        before = place if place < interval else interval
        total = place + seconds
        cycles = int(total // cycle)
        rest = total - cycles * cycle
        tail, stall_left = (rest, 0.0) if rest <= interval else (interval, cycle - rest)
        committed, at_risk, draining, drain_left = state.committed, state.at_risk, state.draining, state.drain_left
        if draining and seconds >= drain_left:
            committed, at_risk, draining, drain_left = committed + draining, at_risk - draining, 0.0, 0.0
        if cycles == 0:
            stepped = tail - before
            left = drain_left - seconds if draining else 0.0
            return CheckpointState(committed, at_risk + stepped * rate, tail, draining, left, stall_left), stepped
        first = at_risk + (interval - before) * rate
        whole = (cycles - 1) * interval
        stepped = interval - before + whole + tail
        if rest >= self.drain:
            return CheckpointState(committed + first + whole * rate, tail * rate, tail, 0.0, 0.0, stall_left), stepped
        # The newest save is still on its way; the one before it is durable.
        newest = interval * rate if cycles > 1 else first
        committed += first + whole * rate - newest
        state = CheckpointState(committed, newest + tail * rate, tail, newest, self.drain - rest, stall_left)
        return state, stepped

    def time_to(self, state: CheckpointState, pace: Pace, work: float) -> float:
        """Return the time [s] until `work` [s] more healthy seconds have been done; the last save is not awaited."""
        interval = self.stepping(pace)
        needed = work / pace.rate
        if state.stall_left > 0:
            return state.stall_left + needed + self.stall * max(_whole(needed / interval) - 1, 0)
        beyond = needed - (interval - self._place(state, interval))
        return needed + self.stall * max(_whole(beyond / interval), 0)

    def roll_back(self, state: CheckpointState, tier: str, pace: Pace) -> CheckpointState:
        """Return the state after going back to what `tier` holds.

        ``stored`` goes back to the newest durable save; ``peer`` loses the step in flight only. A save that has not
        become durable is void in both.
        """
        if tier != "peer":
            return CheckpointState(state.committed)
        if state.stall_left > 0:
            # The save that was cut off is still due.
            return CheckpointState(state.committed, state.at_risk, self.stepping(pace))
        lost = math.fmod(state.position, pace.step) if pace.step > 0 else 0.0
        return CheckpointState(state.committed, max(state.at_risk - lost * pace.rate, 0.0), state.position - lost)

    def restore_time(self, state: CheckpointState, tier: str) -> float:
        """Return how long it takes to load `state` from `tier` [s]; nothing to load takes no time."""
        return self.restore if tier != "peer" and state.committed > 0 else 0.0

    def save_time(self) -> float:
        """Return how long it takes to save and wait until that is durable [s]."""
        return self.stall + self.drain
