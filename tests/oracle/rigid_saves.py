"""Work and checkpoints of the second implementation of rigid jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NEVER = 10**9


def seconds(value: str | None, default: int = 0) -> int:
    """Return the whole seconds of a text like `90 s`."""
    return default if value is None else int(value.removesuffix(" s"))


@dataclass
class Save:
    """A checkpoint of a store: the work in it, when it is complete, and the positions that hold a shard."""

    work: int
    complete: int
    holders: set[int]


class Store:
    """A store of checkpoints: its rhythm, and what is in it."""

    def __init__(self, tier: Mapping[str, Any]) -> None:
        """Read a tier of the scenario."""
        self.kind = tier.get("store", "remote")
        self.interval = seconds(tier.get("interval"), NEVER)
        write = seconds(tier.get("write"))
        blocks = tier.get("mode", "async") == "blocking"
        self.stall, self.drain = (write, 0) if blocks else (seconds(tier.get("stall")), write)
        self.restore = seconds(tier.get("restore"))
        self.skips = tier.get("when_busy", "wait") == "skip"
        self.retain = tier.get("retain", NEVER if self.kind == "remote" else 1)
        self.clique, self.jump = tier.get("clique", 2), tier.get("jump", 1)
        self.saves: list[Save] = []
        self.due = NEVER

    def holds(self, save: Save, position: int, count: int) -> bool:
        """Say whether the shard of a position of so many is left."""
        if self.kind == "peer-host":
            own = self.group(position, count)
            return any(self.group(other, count) == own for other in save.holders)
        return self.kind == "remote" or position in save.holders

    def group(self, position: int, count: int) -> tuple[int, int]:
        """Return the clique of a position."""
        block = self.clique * self.jump
        first = count // block * block
        if position < first:
            return position // block, position % self.jump
        if count - first == 1 and first:
            return first // block - 1, self.jump - 1
        return first // block, min((position - first) // self.clique, max((count - first) // self.clique - 1, 0))

    def trim(self, now: int) -> None:
        """Delete the oldest complete checkpoints beyond those that are kept."""
        complete = [save for save in self.saves if save.complete <= now]
        for save in complete[: -self.retain]:
            self.saves.remove(save)


class Progress:
    """The work of a job, and its saves: walked from one stop of stepping to the next."""

    def __init__(
        self, tiers: Iterable[Mapping[str, Any]], periodic: Iterable[Mapping[str, Any]], goal: int, step: int = 1
    ) -> None:
        """Begin with nothing done; saves come at the end of a step, and with several stores these take a second."""
        self.step = step
        self.stores = [Store(tier) for tier in tiers]
        self.periodic = [[seconds(row["every"]), seconds(row["time"]), 0] for row in periodic]
        self.goal = goal
        self.work = self.now = 0

    def start(self, now: int, positions: int) -> None:
        """Begin to step: each rhythm begins again, and all nodes hold what is left."""
        self.now = now
        for store in self.stores:
            store.saves = [
                save for save in store.saves if all(store.holds(save, p, positions) for p in range(positions))
            ]
            for save in store.saves:
                save.holders = set(range(positions))
            store.due = self.next_due(store.interval)
        for rhythm in self.periodic:
            rhythm[2] = self.next_due(rhythm[0])

    def whole(self, time: int) -> int:
        """Return a time in whole steps, rounded up."""
        return -(-time // self.step) * self.step

    def next_due(self, interval: int) -> int:
        """Return the work at which something is due next: an interval on, of several at its next multiple."""
        several = len(self.stores) + len(self.periodic) > 1
        return (self.work // interval + 1) * interval if several else self.work + self.whole(interval)

    def stop_at(self) -> int:
        """Return the work at which stepping next stands still."""
        return min([store.due for store in self.stores] + [rhythm[2] for rhythm in self.periodic])

    def walk(self, until: int, positions: int) -> Counter[str]:
        """Step up to a time, with all saves and other work on the way; return the time of each bucket."""
        spent: Counter[str] = Counter()
        while self.now < until and self.work < self.goal:
            run = min(self.stop_at() - self.work, until - self.now, self.goal - self.work)
            self.now, self.work = self.now + run, self.work + run
            spent["productive"] += run
            if self.stop_at() > self.work or self.work >= self.goal:
                continue
            self.stand_still(until, positions, spent)
        return spent

    def stand_still(self, until: int, positions: int, spent: Counter[str]) -> None:
        """Do what is due."""
        saving = []
        for store in self.stores:
            if store.due > self.work:
                continue
            busy = max((save.complete for save in store.saves), default=0) - self.now
            if busy <= 0:
                saving.append(store)
                store.due = self.next_due(store.interval)
            elif store.skips:
                store.due += self.whole(store.interval)
            else:
                store.due = self.work + self.whole(busy)
        for name, pauses in (
            ("checkpoint_stall", [store.stall for store in saving]),
            ("auxiliary", [self.renew(rhythm) for rhythm in self.periodic if rhythm[2] <= self.work]),
        ):
            pause = min(sum(pauses), until - self.now)
            spent[name] += pause
            self.now += pause
            if pause < sum(pauses):
                return
        for store in saving:
            store.saves.append(Save(self.work, self.now + store.drain, set(range(positions))))

    def renew(self, rhythm: list[int]) -> int:
        """Make the next periodic work due; return how long this one takes."""
        rhythm[2] = self.next_due(rhythm[0])
        return rhythm[1]

    def void(self, now: int) -> None:
        """Throw away saves that are on their way."""
        for store in self.stores:
            store.saves = [save for save in store.saves if save.complete <= now]
            store.trim(now)

    def lose(self, kinds: Sequence[str], positions: Iterable[int] | None = None) -> None:
        """Lose the shards of positions, or of all, in some kinds of stores."""
        for store in self.stores:
            if store.kind in kinds:
                for save in store.saves:
                    save.holders -= set(save.holders if positions is None else positions)

    def restore(self, positions: int) -> tuple[int, int]:
        """Go back to the newest step of which every shard is left; return the time of the restore and the work lost."""
        works = sorted({save.work for store in self.stores for save in store.saves}, reverse=True)
        for work in works:
            copies = [(store, save) for store in self.stores for save in store.saves if save.work == work]
            times = [
                min((s.restore for s, save in copies if s.holds(save, p, positions)), default=NEVER)
                for p in range(positions)
            ]
            if max(times) < NEVER:
                break
        else:
            work, times = 0, [0]
        lost, self.work = self.work - work, work
        for store in self.stores:
            store.saves = [save for save in store.saves if save.work <= work]
        return max(times), lost
