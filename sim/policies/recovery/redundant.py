"""Redundant: a stage that lost a node leaves alone, and what is there twice does its work meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ettrick.sim.policies.contracts import Acquire, Run
from ettrick.sim.policies.recovery.shrink_rejoin import Leaving
from ettrick.sim.scenario.fields import Fraction, default

if TYPE_CHECKING:
    from collections.abc import Collection

    from ettrick.sim.policies.contracts import FailureView, JobView, Plan
    from ettrick.sim.scenario.fields import BrokenRules
    from ettrick.sim.steps import Workload


class Redundant(Leaving):
    r"""Step on without the stages that lost a node, as long as what is redundant can do their work.

    R replicas have S stages each; with k of the N = R S away, or k' of the stage that misses most, a job goes on at the
    pace :math:`(1 - o)\,g`, where o is the overhead. Beyond what the redundancy bears it waits and restarts.

    ==========  =====================================  ==============================  ==========================
    redundancy  who does the work                      pace g                          ends with
    ==========  =====================================  ==============================  ==========================
    pairs       the other replica of a pair            1                               both of a pair
    next-stage  the stage before, in the same replica  1 / slowdown, if any is away    two neighbours of a ring
    peers       the same stage of other replicas       :math:`h / max(m R/(R-k'), h)`  a stage in all replicas
    templates   all that is left, in other pipelines   1 - k / N                       a stage in all replicas
    ==========  =====================================  ==============================  ==========================

    with :math:`h = m + p - 1`, of m microbatches and p stages; without the step-time model no bubble is counted, and
    peers go on at 1 - k' / R. With the next stage no GPU does more than its own work: g is at most
    :math:`(1 - k/N) / (1 - o)`.

    References
    ----------
    Pairs: K. Ferreira et al., "Evaluating the viability of process replication reliability for exascale systems", SC
    2011. Next stage: "Bamboo", NSDI 2023, and its simulator (github.com/uclasystem/bamboo): the stage before the first
    is the last. Peers: "ReCycle", arXiv 2405.14009. Templates: "Oobleck", arXiv 2309.08125; that throughput is in
    proportion to the nodes that are left is ours, and an upper bound.
    """

    use: Literal["redundant"] = "redundant"
    redundancy: Literal["pairs", "next-stage", "peers", "templates"] = Field(
        description="Who does the work of a stage that lost a node. pairs: its copy, as replicas half of the job apart "
        "do the same; next-stage: the stage before it, which computes for it too; peers: the same stage of other "
        "replicas, in bubbles of the pipeline first; templates: all that is left, in pipelines of fewer nodes."
    )
    overhead: Fraction = default("0 %", lt=1, description="Share of the pace that redundancy takes when nothing fails.")
    slowdown: float = Field(
        1.0, ge=1, description="Time of a step over the usual one while a stage does two stages' work (next-stage)."
    )
    most: int | None = Field(None, ge=1, description="Stages that may be away at once; without it, any number.")

    def _broken_rules(self) -> BrokenRules:
        if self.redundancy == "pairs" and self.overhead < 0.5:
            yield ("overhead",), "must be at least 50 %: pairs do all work twice"
        if self.redundancy != "next-stage" and self.slowdown != 1:
            yield ("slowdown",), f"is for redundancy: next-stage; this one is {self.redundancy}"

    def lacks(self, replicas: int, stages: int) -> str:
        """Return what a job of so many replicas and stages lacks for the redundancy; nothing if it can be."""
        if self.redundancy == "pairs":
            return f"an even number of replicas; nearest: {replicas - 1 or 2} or {replicas + 1}" if replicas % 2 else ""
        if self.redundancy == "next-stage":
            return "a second stage on other nodes; nearest: pipeline 2 on whole nodes" if stages < 2 else ""
        return "a second replica on other nodes; nearest: data 2 on whole nodes" if replicas < 2 else ""

    def stands(self, away: Collection[int], replicas: int, stages: int) -> bool:
        """Return whether a job goes on without some stages, numbered replica by replica."""
        if self.most is not None and len(away) > self.most:
            return False
        if self.redundancy == "pairs":
            half = replicas * stages // 2
            return len({number % half for number in away}) == len(away)
        if self.redundancy == "next-stage":
            return not any(number - number % stages + (number + 1) % stages in away for number in away)
        return _worst(away, stages) < replicas

    def pace(self, away: Collection[int], replicas: int, stages: int, work: Workload | None) -> float:
        """Return the pace without some stages, relative to that of the whole job [-]."""
        if not away or self.redundancy == "pairs":
            return 1.0
        left = 1 - len(away) / (replicas * stages)
        if self.redundancy == "next-stage":
            return min(1 / self.slowdown, left / (1 - self.overhead))
        if self.redundancy == "templates":
            return left
        return self._rerouted(_worst(away, stages), replicas, work)

    def mean_pace(self, absent: float, replicas: int, stages: int, work: Workload | None) -> float:
        """Return the mean of `pace` where each stage is absent for a share of the time [-], of times that it can go on.

        Absences are independent. Of two stages that must not be away together one seldom is, so that this condition is
        left out but of peers.
        """
        whole: float = (1 - absent) ** (replicas * stages)
        if self.redundancy == "pairs":
            return 1.0
        if self.redundancy == "next-stage":
            return whole + (1 - whole) * min(1 / self.slowdown, (1 - absent) / (1 - self.overhead))
        if self.redundancy == "templates":
            return 1 - absent
        from ettrick.sim.formulas.nodes import missing_nodes_pmf

        # Of independent stages the one that misses most: the product of their distributions.
        below = missing_nodes_pmf(replicas, absent).cumsum() ** stages
        law = [float(below[0]), *map(float, below[1:] - below[:-1])][:replicas]
        return sum(part * self._rerouted(lost, replicas, work) for lost, part in enumerate(law)) / sum(law)

    def breach(self, absent: float, replicas: int, stages: int) -> tuple[float, int]:
        """Return the probability that the next stage to leave is one too many [-], and how many others that takes.

        Each of the others is absent with the same probability, independently.
        """
        if self.redundancy == "pairs":
            probability, absentees = absent, 1
        elif self.redundancy == "next-stage":
            probability, absentees = 1 - (1 - absent) ** min(stages - 1, 2), 1
        else:
            probability, absentees = absent ** (replicas - 1), replicas - 1
        if self.most is not None and self.most < replicas * stages:
            from scipy.special import betainc

            too_many = float(betainc(self.most, replicas * stages - self.most, absent))
            if too_many > probability:
                absentees = self.most
            probability = 1 - (1 - probability) * (1 - too_many)
        return probability, absentees

    def _rerouted(self, lost: int, replicas: int, work: Workload | None) -> float:
        """Return the pace with so many of a stage away [-]; replicas that share nodes leave together."""
        if work is None:
            return 1 - lost / replicas
        from ettrick.sim.steps import rerouted_pace

        return rerouted_pace(work.microbatches, work.pipeline, work.data, lost * (work.data // replicas))

    @property
    def _run(self) -> Run:
        return Run(1 - self.overhead)

    def _fewest(self, replicas: int) -> int:
        return 1

    def _goes_on(self, failure: FailureView, job: JobView, gone: int) -> bool:
        """Return whether the others can do the work of all that are away then."""
        away = {*job.away, *(failure.lost if gone else ())}
        return self.stands(away, job.replicas // job.stages, job.stages)

    def _wait(self, job: JobView, gone: int, restart: Plan) -> Plan:
        """Return how the others wait until they can."""
        return (Acquire(unit="copies"), *restart)


def _worst(away: Collection[int], stages: int) -> int:
    """Return in how many replicas the stage is away that misses most [-]."""
    return max(Counter(number % stages for number in away).values(), default=0)
