"""Checkpoints to a ladder of stores, as a user describes them."""

# Annotations are not postponed: pydantic would compile each at the start.
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from ettrick.sim import units
from ettrick.sim.policies.checkpoint.ladder import MultiLevelCheckpoint
from ettrick.sim.policies.checkpoint.periodic import Periodic
from ettrick.sim.policies.checkpoint.stores import StoreName, StorePlan
from ettrick.sim.scenario.fields import Bandwidth, Duration, Fraction, Model, RuleError, Size, Strategy, default

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ettrick.sim.policies.checkpoint.ladder import Pause
    from ettrick.sim.scenario.fields import BrokenRules

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
                raise ValueError(f"'{text}': the number of steps must be a whole number above zero")
            return f"every {int(words[1])} steps"
        if text.isalpha():
            raise ValueError(
                f"unknown rule '{text}'; choose from {', '.join(RULES)}, 'every 20 steps' or a time such as '10 min'"
            )
    return units.show(units.parse(value, units.DURATION), units.DURATION)


Interval = Annotated[
    str,
    BeforeValidator(_parse_interval),
    WithJsonSchema({"type": "string", "examples": ["10 min", "every 20 steps", "young", "daly", "optimal"]}),
]

_ON_NODES: tuple[StoreName, ...] = ("host", "peer-host", "disk")

_ONLY_FOR: dict[str, tuple[StoreName, ...]] = {
    **dict.fromkeys(("interval", "stall", "write", "when_busy", "retain", "corrupt"), (*_ON_NODES, "remote")),
    "every_replica": _ON_NODES,
    **dict.fromkeys(("clique", "jump", "network"), ("peer-host",)),
    **dict.fromkeys(("aggregate", "save_share", "shares", "stagger", "reads"), ("remote",)),
    "slowdown": (*_ON_NODES, "remote"),
}

"""Stores that a field makes sense for; the others are for all."""


class StoreTimes(NamedTuple):
    """Times of a write, of a restore, and of one by a node without its shard [s]; see also `StorePlan.transfer`."""

    write: float
    load: float
    fetch: float
    transfer: tuple[float, float]


class Tier(Model):
    """A store of checkpoints: the faults that it survives, its interval, and the times of its saves."""

    store: StoreName = Field(
        "remote",
        description="Where it is kept. peer: a live data-parallel replica, which holds the last step; host: memory of "
        "the own node, lost with a reboot; peer-host: memory of the nodes of a clique, the own one included, lost when "
        "all of them are; disk: a disk in the own node, lost with the node; remote: outside the nodes. A recovery "
        "reads peer if it keeps processes (a rung with keeps: processes), the stores of nodes if it keeps its nodes, "
        "and remote always.",
    )
    interval: Interval | None = Field(
        None,
        description="Stepping between saves: a time, 'every K steps', or a rule (young, daly, optimal) that uses the "
        "failure rate that the scenario states. A live peer has none.",
    )
    mode: Literal["blocking", "async"] = Field("async", description="Whether training waits for the whole write.")
    stall: Duration = default("0 s", description="How long training stops for an asynchronous save.")
    slowdown: Fraction = default(
        "0 %",
        lt=1,
        description="Share of its pace that training loses while an asynchronous save is written: checkpoint_stall, as "
        "if it stood still for this share of the write when that begins.",
    )
    write: Duration | None = Field(
        None,
        description="How long the write takes: the stall of a blocking save, the drain of the other. Left out, it is "
        "worked out from bandwidths.",
    )
    restore: Duration | None = Field(
        None, description="How long a restore takes. Left out, it is worked out from bandwidths."
    )
    node_bandwidth: Bandwidth | None = Field(
        None, gt=0, description="Bandwidth of one node to and from the store; for write and restore."
    )
    aggregate: Bandwidth | None = Field(
        None, gt=0, description="Total bandwidth of the remote store, however many nodes there are."
    )
    save_share: Fraction = default("100 %", gt=0, description="Share of the aggregate that saves may use.")
    shares: Literal["restores", "all"] = Field(
        "restores",
        description="Use of the aggregate that jobs share: only restores, while each save has its stated times; or "
        "all, saves too, which an outage of the store stops as well.",
    )
    stagger: bool = Field(
        False,
        description="Whether the first save after each start of the k-th of n jobs comes k/n of an interval early, so "
        "that jobs which start together do not save together; for shares: all.",
    )
    reads: Literal["once", "replica"] = Field(
        "once",
        description="Readers in a restore, for times from bandwidths: once, each byte is read once and handed on; or "
        "replica, every replica reads all of it.",
    )
    network: Bandwidth | None = Field(
        None,
        gt=0,
        description="Read bandwidth of a node that lost its own shard, from another one of its clique; without it, "
        "node_bandwidth.",
    )
    read_in: Duration = default(
        "0 s",
        description="Time of a restore beyond reading at these bandwidths: to unpack, and to copy to GPUs.",
    )
    when_busy: Literal["wait", "skip"] = Field(
        "wait",
        description="Treatment of a save that is due before the previous one is complete: it waits, or is "
        "left out, and the next multiple of the interval counts.",
    )
    retain: int | None = Field(
        None,
        ge=1,
        description="Complete checkpoints that are kept; the oldest goes when a new one is complete. By default the "
        "remote store keeps all and the others keep one.",
    )
    corrupt: Fraction = default(
        "0 %",
        lt=1,
        description="Probability that a checkpoint is found unreadable when a restore reads it; then the next best is "
        "read after it.",
    )
    clique: int = Field(2, ge=2, description="Nodes that hold replicas of each other's shards, for peer-host.")
    jump: int = Field(
        1, ge=1, description="Distance of the nodes of a clique, in positions of the job: 1 makes neighbours a clique."
    )
    every_replica: bool = Field(
        False,
        description="Whether each replica of the job holds the whole state, as with hybrid sharding: then one replica "
        "whose shards are all left is enough.",
    )

    def _broken_rules(self) -> "BrokenRules":
        for name, stores in _ONLY_FOR.items():
            if self.store not in stores and getattr(self, name) != self._default(name):
                yield (name,), f"is for store: {', '.join(stores)}; this one is {self.store}"
        yield from self._broken_sharing()
        if self.store != "peer" and self.interval is None:
            yield ("interval",), "is missing: say how much stepping there is between saves"
        if self.mode == "blocking" and self.stall:
            yield (), "stall is for mode: async; a blocking save stalls for the time of its write"
        yield from self._broken_bandwidths() if self._has_bandwidth else self._broken_times()

    def _broken_sharing(self) -> "BrokenRules":
        """Yield what does not go with how jobs share the store."""
        if self.shares == "all" and self.aggregate is None:
            yield ("aggregate",), "is missing: shares: all needs what the store takes, such as 100 GB/s"
        if self.stagger and self.shares != "all":
            yield ("stagger",), "is for saves that are in each other's way: needs shares: all"
        if self.reads == "replica" and self.shares == "all":
            yield ("reads",), "replica is for shares: restores; with all, each byte is read once"
        if self.slowdown and (self.mode == "blocking" or self.shares == "all"):
            yield ("slowdown",), "is for mode: async and shares: restores, where training goes on meanwhile"

    def _broken_bandwidths(self) -> "BrokenRules":
        """Yield what does not go with bandwidths."""
        for name in ("write", "restore"):
            if getattr(self, name) is not None:
                yield (name,), "give times or bandwidths, not both: leave this out"
        if self.network is not None and self.node_bandwidth is None:
            yield ("node_bandwidth",), "is missing; network needs it"

    def _broken_times(self) -> "BrokenRules":
        """Yield what does not go with times, and which of them are missing."""
        if self.reads == "replica":
            yield ("reads",), "is for times from bandwidths; a restore that is given takes this in"
        if self.read_in:
            yield ("read_in",), "is for times from bandwidths; a restore that is given takes this in"
        for name in ("write", "restore") if self.store != "peer" else ("restore",):
            if getattr(self, name) is None:
                yield (name,), "is missing: give it, or node_bandwidth to work it out from the size"

    @property
    def _has_bandwidth(self) -> bool:
        return any(value is not None for value in (self.node_bandwidth, self.aggregate, self.network))

    @classmethod
    def _default(cls, name: str) -> Any:
        default = cls.model_fields[name].default
        return {"save_share": 1.0, "stall": 0.0, "corrupt": 0.0, "slowdown": 0.0}.get(name, default)

    def times(self, nodes: int, replicas: int, size: float | None) -> StoreTimes:
        r"""Return how long writing and reading take.

        .. math:: t = B / \min(n\,b,\ s\,a) + r

        with B bytes, n nodes of bandwidth b, a share s of the aggregate a for saves, and r to read in what was
        restored. Where every replica holds the whole state, or reads it, B is that of all of them.

        Parameters
        ----------
        nodes, replicas
            Of the job [-].
        size
            Of a checkpoint of the state [B], if it is known.
        """
        if not self._has_bandwidth:
            restore = self.restore or 0.0
            return StoreTimes(self.write or 0.0, restore, restore, (0.0, 0.0))
        if size is None:
            rule = "needs the size of a checkpoint: give checkpoint.size, or the job a model"
            raise RuleError(("node_bandwidth" if self.node_bandwidth is not None else "aggregate",), rule)
        total = size * replicas if self.every_replica else size
        alone = total / (nodes * self.node_bandwidth) if self.node_bandwidth is not None else 0.0
        whole = total / self.aggregate if self.aggregate is not None else 0.0
        readers = replicas if self.reads == "replica" else 1
        load = max(alone, whole) * readers + self.read_in
        fetch = load if self.network is None else total / (nodes * self.network) + self.read_in
        return StoreTimes(max(alone, whole / self.save_share), load, fetch, (alone * readers, whole * readers))

    def rung(self, mtti: float, step: float, nodes: int, replicas: int, size: float | None) -> StorePlan:
        """Return the store in numbers, for a job with a mean time to interrupt and a time of a step [s].

        Raises
        ------
        RuleError
            If something that the numbers follow from is not known.
        """
        if self.store == "peer-host" and 1 < nodes < self.clique:
            raise RuleError(("clique",), f"is {self.clique} nodes, and the job has {nodes}")
        write, load, fetch, transfer = self.times(nodes, replicas, size)
        if self.store == "peer":
            return StorePlan("peer", 0.0, 0.0, 0.0, load, fetch)
        blocking = self.mode == "blocking"
        stall = write if blocking else self.stall + self.slowdown * write
        retain = self.retain if self.retain is not None or self.store == "remote" else 1
        return StorePlan(
            store=self.store,
            interval=self._spacing(mtti, step, stall),
            stall=stall,
            drain=0.0 if blocking else write * (1 - self.slowdown),
            load=load,
            fetch=fetch,
            skips=self.when_busy == "skip",
            retain=retain,
            corrupt=self.corrupt,
            clique=self.clique,
            jump=self.jump,
            every_replica=self.every_replica,
            transfer=transfer,
            save_share=self.save_share if self.shares == "all" else 0.0,
            staggers=self.stagger,
        )

    def _spacing(self, mtti: float, step: float, stall: float) -> float:
        """Return the stepping between two saves [s]."""
        at, rule = ("interval",), self.interval or ""
        if rule.startswith("every "):
            if step <= 0:
                raise RuleError(at, f"interval '{rule}' needs the time of a step: give the job step_time or mfu")
            interval = int(rule.split()[1]) * step
        elif rule in RULES:
            if not math.isfinite(mtti):
                raise RuleError(at, f"interval '{rule}' needs a failure rate, and nothing can fail here; give a time")
            if stall <= 0:
                balance = "balances the stall of a save against lost work, and here saves are free"
                raise RuleError(at, f"interval '{rule}' {balance}")
            from ettrick.sim.formulas import goodput

            interval = float(getattr(goodput, f"{rule}_interval")(stall, mtti))
        else:
            interval = units.parse(rule, units.DURATION)
        if interval <= 0:
            raise RuleError(at, "the interval must be longer than zero")
        return interval


class Tiers(Strategy):
    """Checkpoints to a ladder of stores, each with a rhythm of its own."""

    use: Literal["tiers"] = "tiers"
    tiers: tuple[Tier, ...] = Field(
        min_length=1,
        description="The stores, each at most once; one of them is remote: the only one that nodes need not. "
        "A recovery preset adds its own to these, with from_preset: true.",
    )
    size: Size | None = Field(
        None, gt=0, description="Size of a checkpoint, for times from bandwidths; without it, that of the job's model."
    )
    from_preset: bool = Field(False, description="Whether the stores of the recovery preset are added to these.")

    def _broken_rules(self) -> "BrokenRules":
        seen: set[str] = set()
        for index, tier in enumerate(self.tiers):
            if tier.store in seen:
                yield ("tiers", index, "store"), f"'{tier.store}' is there already: give each store once"
            seen.add(tier.store)
        if "remote" not in seen:
            rule = "has no 'store: remote': what nodes hold goes with them, and a job must have something to start from"
            yield ("tiers",), rule

    @property
    def by_replica(self) -> bool:
        """Whether it matters which replica has lost what."""
        return any(tier.store == "peer" or tier.every_replica or tier.reads == "replica" for tier in self.tiers)

    def build(
        self,
        mtti: float,
        step: float,
        *,
        nodes: int = 1,
        replicas: int = 1,
        size: float | None = None,
        periodic: "Sequence[Pause]" = (),
    ) -> Periodic | MultiLevelCheckpoint:
        """Return the closed form for a job.

        Parameters
        ----------
        mtti
            Mean time to interrupt that the scenario states before any simulation [s]; used by the rules.
        step
            Time of a healthy step [s]; 0 for continuous progress.
        nodes, replicas
            Of the job [-].
        size
            Of a checkpoint of its model [B], if that is known.
        periodic
            Work that stops the job in addition to the saves.

        Raises
        ------
        RuleError
            If something that a time or an interval follows from is not known.
        """
        rungs = tuple(self._rung(index, mtti, step, nodes, replicas, size) for index in range(len(self.tiers)))
        first = rungs[0]
        is_plain = len(rungs) == 1 and first.retain is None and not first.corrupt and not first.skips and not periodic
        if is_plain and not first.save_share:
            return Periodic(first.interval, first.stall, first.drain, first.load, first.transfer)
        return MultiLevelCheckpoint(rungs, tuple(periodic), nodes, replicas)

    def _rung(self, index: int, mtti: float, step: float, nodes: int, replicas: int, size: float | None) -> StorePlan:
        """Return one of the stores in numbers."""
        try:
            return self.tiers[index].rung(mtti, step, nodes, replicas, self.size if self.size is not None else size)
        except RuleError as error:
            raise RuleError(("tiers", index, *error.at), error.rule) from None
