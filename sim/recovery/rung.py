"""One rung of a ladder of recoveries: what it keeps of a job, what it takes, and when it may be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.contracts import ANY_POOL, Acquire, Bucket, PoolName
from sim.fields import Duration, Model, RuleError
from sim.laws import Fixed
from sim.recovery.phases import Crew, Fault, Phases, back_to_queue, mean, some, steps
from sim.recovery.returns import Span, spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.contracts import FailureView, JobView, Plan, Requeue, Step
    from sim.recovery.phases import Held

__all__ = ["Backoff", "Eviction", "Rung"]


class Backoff(Model):
    """A delay that doubles with every try in a row."""

    first: Duration = Field(gt=0, description="Delay of the first try.")
    most: Duration = Field(gt=0, description="Longest delay.")

    def seconds(self, tries: int) -> float:
        """Return the delay of a try, counted from 1 [s]: first x 2^(tries - 1), at most the longest one."""
        return min(self.first * 2.0 ** min(tries - 1, 1000), self.most)


class Eviction(Model):
    """Healthy nodes that leave with the suspects, because nothing tells which one it is."""

    faults: tuple[Fault, ...] = Field(min_length=1, description="Classes of faults after which nodes are evicted.")
    nodes: int = Field(ge=1, description="Nodes that leave together, with the suspect among them.")
    test: Duration = Field(description="How long the healthy ones are tested before they may work again.")


class Rung(Model):
    """One way to come back."""

    name: str = Field(min_length=1, description="Name: in-process, in-job, requeue, ...")
    keeps: Literal["processes", "hosts", "nothing"] = Field(
        description="What is left of the job: its processes; its nodes, with new processes; or nothing: all nodes go "
        "back and the job enters the queue again."
    )
    stop: Phases = Field("0 s", description="From the failure being known to everything being stopped (reschedule).")  # type: ignore[assignment]
    launch: Phases = Field(
        "0 s",  # type: ignore[assignment]
        description="From nodes to processes that are ready to restore (initialize); of the last rung also at a start.",
    )
    pools: tuple[PoolName, ...] = Field(
        ANY_POOL, min_length=1, description="Where replacements may come from, in this order."
    )
    patience: Duration | None = Field(
        None, description="How long to wait for replacements before the next rung; without it, for ever."
    )
    delay: Phases = Field("0 s", description="From the nodes going back to the job being eligible in the queue.")  # type: ignore[assignment]
    backoff: Backoff | None = Field(None, description="What the queue adds to the delay, more with every try in a row.")
    budget: int | None = Field(None, ge=0, description="How often in a row it may be tried; without it, always.")
    handles: tuple[Fault, ...] | None = Field(
        None, min_length=1, description="Classes of faults that it is for; without them, all."
    )
    except_first: bool = Field(
        False, description="Whether it cannot bear the loss of the first node, on which rank 0 is."
    )

    @model_validator(mode="after")
    def _says_what_it_needs(self) -> Self:
        if self.keeps == "nothing":
            if self.patience is not None or self.pools != ANY_POOL:
                key = "pools" if self.patience is None else "patience"
                raise RuleError((key,), "is for a rung that keeps nodes; one that keeps nothing waits in the queue")
        elif self.backoff is not None or some(self.delay, bool) or sum(mean(self.delay, Crew(1, 1))) > 0:
            key = "delay" if self.backoff is None else "backoff"
            raise RuleError((key,), f"is for a rung that goes back to the queue (keeps: nothing), not '{self.keeps}'")
        return self

    @property
    def timed(self) -> tuple[Held, Held, Held]:
        """All its phases."""
        return self.stop, self.launch, self.delay

    def is_for(self, fault: str, *, first_lost: bool) -> bool:
        """Return whether it is for faults of a class, and bears the loss of the first node if that is lost."""
        return (self.handles is None or fault in self.handles) and not (self.except_first and first_lost)

    def may_try(self, failure: FailureView, job: JobView, tries: int) -> bool:
        """Return whether it may be tried after a failure, given how often it was tried in a row."""
        return self.is_for(failure.fault, first_lost=job.first_lost) and (self.budget is None or tries < self.budget)

    def spans(self, crew: Crew, fault: str) -> tuple[Span, ...]:
        """Return its times after a fault of some class, at the first try; if it keeps nothing, until it queues."""
        stop = spans(self.stop, crew, fault)
        if self.keeps != "nothing":
            return (*stop, *spans(self.launch, crew, fault))
        delay = (*stop, *spans(self.delay, crew, fault, exposed=False))
        if self.backoff is None:
            return delay
        return (*delay, Span(Fixed.from_seconds(value=self.backoff.seconds(1)), exposed=False))

    def stopping(self, crew: Crew, failure: FailureView) -> tuple[Step, ...]:
        """Return the steps that stop the job."""
        return steps(self.stop, Bucket.RESCHEDULE, crew, failure.mark, f"{self.name} stop", failure.fault)

    def launching(self, crew: Crew, mark: Callable[[str], float], fault: str = "") -> tuple[Step, ...]:
        """Return the steps that launch it."""
        return steps(self.launch, Bucket.INITIALIZE, crew, mark, f"{self.name} launch", fault)

    def requeue(self, crew: Crew, failure: FailureView, tries: int) -> Requeue:
        """Return the step that waits until the job is eligible in the queue, at some try, counted from 1."""
        backoff = self.backoff.seconds(tries) if self.backoff is not None else 0.0
        return back_to_queue(self.delay, crew, failure.mark, f"{self.name} delay", failure.fault, backoff)

    def swap(self, otherwise: Callable[[], Plan]) -> Acquire:
        """Return the step that takes replacements, with the way out for when they do not come in time."""
        if self.patience is None:
            return Acquire(pools=self.pools)
        return Acquire(timeout=self.patience, otherwise=otherwise(), pools=self.pools)

    def mean_times(self, gpus: int, nodes: int) -> tuple[float, float]:
        """Return the mean times in which failures cannot and can hit the job before it restores [s].

        A rung that keeps nodes is taken to replace one of them.
        """
        crew = Crew(gpus, nodes, nodes if self.keeps == "nothing" else 1)
        hidden, exposed = (sum(times) for times in zip(*(mean(each, crew) for each in self.timed[:2]), strict=True))
        backoff = self.backoff.seconds(1) if self.backoff is not None else 0.0
        return hidden + sum(mean(self.delay, crew)) + backoff, exposed
