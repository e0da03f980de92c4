"""Shrink and rejoin: the other replicas go on without the one that lost a node, which joins again when it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from sim.contracts import ANY_POOL, Acquire, Background, Bucket, PoolName, Restore, Run, Stall
from sim.laws import Fixed, Law, draw
from sim.recovery.base import FromStore

if TYPE_CHECKING:
    from sim.contracts import ClusterView, FailureView, JobView, Memory, Plan

__all__ = ["Absence", "ShrinkRejoin"]


class Absence(NamedTuple):
    """What a closed form has to know of replicas that leave and come back.

    Parameters
    ----------
    stall, rejoin
        Mean stalls of the others when replicas leave, and when they are back [s].
    away, restart
        Mean time away once the nodes are there, and mean time of a restart of all, its restore left out [s].
    fewest
        Fewest replicas that may step on [-].
    is_fixed
        Whether none of these times is random.
    """

    stall: float
    rejoin: float
    away: float
    restart: float
    fewest: int
    is_fixed: bool


class ShrinkRejoin(FromStore):
    """Drop the data-parallel replicas that lost a node; they repair themselves in the background and rejoin.

    The survivors lose the step in flight and the time to reconfigure. With fewer than ``min_replicas`` left the job
    waits until enough are whole and restarts from the newest checkpoint.
    """

    use: Literal["shrink-rejoin"] = "shrink-rejoin"
    reconfigure: Law = Field(description="Stall of the survivors until they step without the lost replica.")
    initialize: Law = Field(description="From nodes to processes that are ready to take the state.")
    catch_up: Law = Field("0 s", description="Transfer of the state from a peer to the replica that comes back.")  # type: ignore[assignment]
    rejoin: Law = Field("0 s", description="Stall of everybody when a replica joins.")  # type: ignore[assignment]
    min_replicas: int = Field(1, ge=1, description="Fewest replicas that may step on.")
    pools: tuple[PoolName, ...] = Field(
        ANY_POOL, min_length=1, description="Where replacements may come from, in this order."
    )

    @property
    def elastic(self) -> bool:
        """Whether replicas may go on without one another."""
        return True

    def expected_times(self) -> tuple[float, float] | None:
        """Return nothing: the formula for a restart does not describe a job that shrinks."""
        return None

    @property
    def absence(self) -> Absence:
        """What the formula for a job that shrinks has to know."""
        laws = (self.reconfigure, self.rejoin, self.initialize, self.catch_up)
        stall, rejoin, initialize, catch_up = (law.mean_value for law in laws)
        is_fixed = all(isinstance(law, Fixed) for law in laws)
        return Absence(stall, rejoin, initialize + catch_up, initialize, self.min_replicas, is_fixed)

    def plan(self, failure: FailureView, job: JobView, cluster: ClusterView, memory: Memory) -> tuple[Plan, Memory]:
        """Leave the victims behind if enough replicas are left, else restart with those that become whole."""
        del cluster
        mark = failure.mark
        initialize = Stall(Bucket.INITIALIZE, draw(self.initialize, mark, "initialize"))
        alone = Background(
            steps=(
                Acquire(pools=self.pools),
                initialize,
                Stall(Bucket.RESTORE, draw(self.catch_up, mark, "catch_up")),
            ),
            then=(Stall(Bucket.INITIALIZE, draw(self.rejoin, mark, "rejoin")), Restore("peer"), Run()),
        )
        survivors = job.replicas_running - failure.replicas_lost
        head = (alone,) if failure.replicas_lost else ()
        if survivors < self.min_replicas:
            return (*head, Acquire(self.min_replicas, "replica"), initialize, Restore("stored"), Run()), memory
        if failure.replicas_lost and job.live:
            reconfigure = Stall(Bucket.RESCHEDULE, draw(self.reconfigure, mark, "reconfigure"))
            return (alone, reconfigure, Restore("peer"), Run()), memory
        return (*head, initialize, Restore("stored"), Run()), memory
