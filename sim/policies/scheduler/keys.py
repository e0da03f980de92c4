"""The scheduler's keys: the order of the queue, who may start now, who is stopped for others.

Presets (`fifo`, `easy`, `slurm` and others) are sets of these keys, kept in `sim/catalog/schedulers.yaml`. Named jobs
alone start in the order in which they became eligible, whatever the preset.
"""

# Annotations are not postponed: pydantic would compile each at the start.
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from ettrick.sim import catalog
from ettrick.sim.scenario.fields import Count, Duration, Model, Strategy, default

if TYPE_CHECKING:
    from ettrick.sim.scenario.fields import BrokenRules

    Preset: TypeAlias = str
else:
    Preset = Literal[tuple(catalog.schedulers())]

All = Literal["all"]

Weight = Annotated[float, Field(ge=0)]


class Age(Model):
    """The priority that waiting adds to a job."""

    weight: Weight = Field(0, description="Priority of a job that has waited for `full`; less in proportion before.")
    full: Duration = default("7 d", gt=0, description="Wait after which it grows no more.")


class JobSize(Model):
    """The priority that its size adds to a job."""

    weight: Weight = Field(0, description="Priority of a job that takes the whole cluster (`small`: a single GPU).")
    favours: Literal["large", "small"] = Field("large", description="Which jobs it lifts.")


class FairShare(Model):
    """The priority that past use of its tenant takes from a job: the factor 2^(-use / share) of Slurm."""

    weight: Weight = Field(0, description="Priority of a job whose tenant has used nothing.")
    half_life: Duration = default("7 d", gt=0, description="Time in which past use counts half.")
    every: Duration = default("5 min", gt=0, description="Time between two calculations, of full ages too.")


class QueueOrder(Model):
    """The order of the queue: tier of the partition, then the sum of weighted factors, then `then`, submit, number."""

    priority: Weight = Field(1, description="Weight of a job's own priority.")
    age: Age = Field(default_factory=lambda: Age.model_validate({}), description="Age since a job became eligible.")
    size: JobSize = Field(default_factory=lambda: JobSize.model_validate({}), description="Size of a job.")
    fair_share: FairShare = Field(
        default_factory=lambda: FairShare.model_validate({}), description="Past use of a job's tenant."
    )
    then: Literal["submit", "limit"] = Field(
        "submit", description="Which of equal jobs is first: the earlier one, or that with the shorter time limit."
    )


class Preempt(Model):
    """Running jobs that are stopped for one in the queue."""

    mode: Literal["none", "requeue", "cancel"] = Field("none", description="Treatment of a preempted job.")
    who: Literal["priority", "tier", "qos", "none"] = Field(
        "priority",
        description="Key that has to be strictly higher: the job's priority, its partition's tier, or its qos; none: "
        "only reclaim.",
    )
    exempt: Duration = default("0 s", description="Time for which a job that started is safe (PreemptExemptTime).")
    grace: Duration = default(
        "0 s", description="Time from the signal to the kill, in which a job may save (GraceTime)."
    )
    order: Literal["youngest", "oldest", "smallest"] = Field(
        "youngest", description="Which of the lowest is taken first: the last started, the first started, the smallest."
    )
    victims: Literal["minimal", "reorder"] = Field(
        "minimal",
        description="Take candidates until the job fits and spare those not needed (Kueue); or as Slurm does.",
    )
    reorder: Count = Field(1, description="Slurm: times that the last candidate moves to the front (reorder_count).")
    most: Count | None = Field(None, description="Preemptions after which a job is safe; without it, none is.")
    within: Literal["cluster", "tenant"] = Field(
        "cluster",
        description="Whose jobs `who` lets a job stop: all of the cluster, or those of its own tenant (Kueue). Reclaim "
        "is apart.",
    )
    reclaim: Literal["none", "lower", "any"] = Field(
        "none",
        description="Jobs of tenants above their quota that one within its quota may stop: none, those of lower "
        "priority, or any.",
    )


class RequeuePolicy(Model):
    """The return of a job that lost its nodes to the queue."""

    delay: Duration = default("0 s", description="Time until it is eligible.")
    age: Literal["reset", "keep"] = Field("reset", description="Whether its age and place start again.")
    holds_nodes: bool = Field(False, description="Whether it keeps the nodes that are left, for the delay.")


class Scheduler(Strategy):
    """Order of the queue, backfill, preemption and requeue; a preset fills the keys that are not stated."""

    use: "Preset" = "fifo"
    pick: Literal["lowest", "longest-idle", "random", "fewest-failures", "best-score"] = Field(
        "lowest", description="Which of the nodes that wait are taken first; a score comes from the lemon policy."
    )
    pack: Literal["leaf", "pod", "rack", "pdu", "cooling", "scale_up"] | None = Field(
        None,
        description="Domain that jobs are packed into: they start on as few of them as possible, the hot spares are "
        "spread over them, and a lost node is replaced from its own domain first.",
    )
    need: Literal["preferred", "required"] = Field(
        "preferred",
        description="Whether jobs of streams, and named jobs next to them, wait for a single domain for the time "
        "`wait`, or without end (required).",
    )
    wait: Duration = default("0 s", description="Time that a job waits for its preferred domain before it spreads.")
    share_nodes: Literal["best-fit", "spread"] = Field(
        "best-fit", description="Where jobs below a node go: to the fullest node that has room, or the emptiest."
    )
    share_tie: Literal["latest-end", "earliest-end", "oldest"] = Field(
        "latest-end",
        description="Which of nodes that are as full a job below a node joins: by the expected end of the last of its "
        "jobs, or the one that has been shared longest.",
    )
    order: QueueOrder = Field(default_factory=lambda: QueueOrder.model_validate({}), description="Order of the queue.")
    head: Literal["blocks", "passes"] = Field(
        "blocks",
        description="Whether the first job that cannot start blocks those behind it in its partition; one without "
        "quota blocks those of its tenant.",
    )
    depth: Count | All = Field(
        0, description="Jobs of a partition that get a reservation when they are passed: 1 is EASY, all conservative."
    )
    extra: bool = Field(True, description="Whether EASY lets jobs outlast the reservation on nodes it does not need.")
    tested: Count | All = Field("all", description="Jobs that a backfill pass looks at (bf_max_job_test).")
    window: Duration | All = Field("all", description="Time ahead in which reservations are made (bf_window).")
    resolution: Duration = default("0 s", description="Expected ends are rounded up to it (bf_resolution).")
    cycle: Duration = default("0 s", description="Passes are at its multiples from time 0; 0: one after each event.")
    backfill_cycle: Duration = default("0 s", description="Time between backfill passes (bf_interval); 0: each pass.")
    at_limit: Literal["kill", "run on"] = Field("kill", description="Treatment of a job at its time limit.")
    overtime: Duration = default("0 s", description="Time beyond the limit until it is killed (OverTimeLimit).")
    preempt: Preempt = Field(default_factory=lambda: Preempt.model_validate({}), description="Preemption.")
    requeue: RequeuePolicy = Field(
        default_factory=lambda: RequeuePolicy.model_validate({}), description="Requeue of stopped jobs."
    )
    replacement: Literal["first", "queue", "domain", "never"] = Field(
        "first",
        description="Receiver of a free node: a running job that lost one, the queue, such a job only in the same "
        "domain, or never a running job.",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, value: Any) -> Any:
        """Fill in what a preset says and the scenario does not."""
        if not isinstance(value, dict):
            return value
        name = value.get("use", "fifo")
        preset = catalog.schedulers().get(name) if isinstance(name, str) else None
        return value if preset is None else _over(preset["keys"], value)

    def _broken_rules(self) -> "BrokenRules":
        yield from self._broken_backfill()
        if self.pack is None:
            for key in ("need", "wait"):
                if key in self.model_fields_set and getattr(self, key) not in ("preferred", 0):
                    yield (key,), "needs the domain: pack"
        if self.wait and self.need == "required":
            yield ("wait",), "a job waits for a required domain without end; say need: preferred"
        if self.preempt.mode == "none" and self.preempt.reclaim != "none":
            yield ("preempt", "reclaim"), "needs to know what happens to them: mode: requeue or cancel"

    def _broken_backfill(self) -> "BrokenRules":
        """Yield what does not go together in passes, and in the reservations that they make."""
        backfills = self.head == "passes"
        if not backfills and self.depth != 0:
            yield ("depth",), "reservations are for jobs that others pass: needs head: passes"
        if not self.extra and self.depth != 1:
            yield ("extra",), "is for a single reservation: needs depth: 1"
        if self.tested == 0:
            yield ("tested",), "must be at least 1, or all"
        if self.tested != "all" and self.depth != "all" and self.depth > self.tested:
            yield ("depth",), f"reserves for {self.depth} jobs and a pass looks at {self.tested} (tested)"
        if self.backfill_cycle and not backfills:
            yield ("backfill_cycle",), "the first job blocks all others: needs head: passes"
        if self.backfill_cycle and self.cycle:
            yield ("cycle",), "set a cycle for the whole pass, or only for backfill, not both"
        if self.window == 0:
            yield ("window",), "no reservation would be made; say depth: 0, or all"


def _over(preset: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a preset, and over them those that are stated."""
    merged = {**preset, **stated}
    for key, value in stated.items():
        if isinstance(value, dict) and isinstance(preset.get(key), dict):
            merged[key] = _over(preset[key], value)
    return merged


SCHEDULERS = dict.fromkeys(catalog.schedulers(), Scheduler)
