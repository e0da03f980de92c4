"""Layouts of a job, ranked by the time of a step and by the tokens that failures leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ettrick.analysis.parts import FORMAT
from ettrick.analysis.results.explained import LayoutRow, LayoutsDocument
from ettrick.analysis.results.run import sizes
from ettrick.sim import NoLayoutError, closed_form
from ettrick.sim.steps import memory_use, problems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ettrick.analysis.terminal import ProgressBar
    from ettrick.sim import Candidate, LayoutSearch
    from ettrick.sim.steps import Workload

Sort = Literal["goodput", "step"]

ROOMY = 0.9
"""Share of the memory up to which a layout fits with certainty: counts are some per cent off [-]."""


class _Ranking:
    """Layouts of a search, of which the best are seated in the cluster until the order of the shown ones is final.

    Seating makes a step longer, as a rule: others share the way. So whoever is first although it is seated stays first.
    """

    def __init__(self, search: LayoutSearch, candidates: Sequence[Candidate]) -> None:
        self.search = search
        self.rows = list(candidates)
        self.keys: dict[Sort, Callable[[Candidate], tuple[bool, float]]] = {
            "goodput": lambda row: (row.plan.crowding > ROOMY, -(row.tokens_per_day or 0.0)),
            "step": lambda row: (row.plan.crowding > ROOMY, row.plan.time),
        }

    def order(self, sort: Sort) -> list[int]:
        """Return the numbers of the rows, best first and last what may not fit; equal ones keep the order found."""
        return sorted(range(len(self.rows)), key=lambda number: self.keys[sort](self.rows[number]))

    def settle(self, top: int) -> dict[Sort, list[int]]:
        """Return the orders once the first `top` rows of both sit in the cluster."""
        while True:
            orders = {sort: self.order(sort) for sort in self.keys}
            first = {number for order in orders.values() for number in order[:top]}
            free = [number for number in first if not self.rows[number].is_placed]
            if not free:
                return orders
            self.seat(free)

    def seat(self, numbers: Sequence[int]) -> None:
        """Give rows what their groups get where they sit."""
        for number in numbers:
            self.rows[number] = self.search.placed(self.rows[number])


def describe_layouts(
    search: LayoutSearch, top: int, sort: Sort | None, progress: ProgressBar | None = None
) -> LayoutsDocument:
    """Return the best layouts of a job and its own one.

    The fastest layout need not be the best. Where replicas go on without one another, a failure takes a whole replica
    out until it is back; few wide replicas lose more by that than many narrow ones. With the failures of Llama 3 on
    16,384 GPUs, 16 spare nodes and repairs that take days, 64 replicas of 256 GPUs step a per cent faster than 128 of
    128, and get fewer tokens done::

        ettrick layouts llama3-405b-54d --set cluster.nodes=2064
            --set recovery='{use: shrink-rejoin, reconfigure: 2 min, initialize: 5 min, rejoin: 30 s}'

    Parameters
    ----------
    search
        The job, and where to look.
    top
        How many to return [-].
    sort
        By what: tokens of a day that survive failures, or time of a step; ``None`` for the former where a closed form
        says what failures leave, else the latter.

    Raises
    ------
    NoLayoutError
        If there is none.
    ValueError
        If failures are to decide, and no closed form says what they leave.
    """
    candidates = _candidates(search, progress)
    form = closed_form(search.prepared) if search.prepared is not None else None
    has_form = candidates[0].ettr is not None
    reasons, assumptions = ([], []) if form is None else (list(form.reasons), list(form.assumptions))
    if sort == "goodput" and not has_form:
        raise ValueError(f"no closed form says what failures leave{': '.join(['', *reasons[:1]])}; sort by step")
    sort = sort or ("goodput" if has_form else "step")
    fitting = len(candidates)
    stated = _stated(search, candidates)
    ranking = _Ranking(search, candidates)
    if stated is not None:
        ranking.seat([stated])
    shown = ranking.settle(top)[sort][:top]
    ranks = {name: {row: rank for rank, row in enumerate(ranking.order(name), start=1)} for name in ranking.keys}

    def described(number: int) -> LayoutRow:
        # Without a number to go by the order is that of the search.
        rank = ranks["goodput"][number] if has_form else None
        return _row(ranking.rows[number], rank, ranks["step"][number], is_own=number == stated)

    return LayoutsDocument(
        format=FORMAT,
        scenario=search.scenario.name,
        job=search.spec.name,
        gpus=search.gpus,
        accelerator=search.machine.chip.title,
        found=fitting,
        sort=sort,
        layouts=[described(number) for number in shown],
        own=described(stated) if stated is not None else None,
        notes=_notes(search, is_own_found=search.own is None or (stated is not None and stated < fitting)),
        assumptions=assumptions,
        reasons=reasons,
    )


def _candidates(search: LayoutSearch, progress: ProgressBar | None) -> list[Candidate]:
    """Return the layouts that fit, of which there has to be one."""
    candidates = []
    for candidate in search.candidates():
        candidates.append(candidate)
        if progress is not None and len(candidates) % 100 == 0:
            progress(len(candidates), None)
    if not candidates:
        raise NoLayoutError(search.why_none())
    return candidates


def _stated(search: LayoutSearch, candidates: list[Candidate]) -> int | None:
    """Return which candidate is the scenario's own layout, which is added if it can be; ``None`` without one."""
    index = next((index for index, row in enumerate(candidates) if row.plan.work == search.own), None)
    if index is None and search.own is not None and not problems(search.own):
        alone = search.candidate(search.own)
        if alone is not None:
            candidates.append(alone)
            return len(candidates) - 1
    return index


def _row(candidate: Candidate, rank_goodput: int | None, rank_step: int, *, is_own: bool) -> LayoutRow:
    plan, work = candidate.plan, candidate.plan.work
    return LayoutRow(
        rank_goodput=rank_goodput,
        rank_step=rank_step,
        is_own=is_own,
        **sizes(work),
        microbatch=work.microbatch,
        microbatches=work.microbatches,
        schedule=work.schedule,
        recompute=" ".join(work.modules) or work.recompute,
        sharding=work.sharding,
        shard_ranks=work.shard_ranks or None,
        step_s=plan.time,
        step_s_band90=plan.band90,
        mfu=plan.mfu,
        memory_bytes=plan.memory.total,
        memory_share=plan.crowding,
        bubble_share=plan.breakdown.bubble / plan.time,
        breakdown_s=plan.breakdown._asdict(),
        replica_sets=candidate.sets,
        ettr=candidate.ettr,
        tokens_per_second=plan.tokens_per_second,
        tokens_per_day=candidate.tokens_per_day,
    )


def _notes(search: LayoutSearch, *, is_own_found: bool) -> list[str]:
    """Return what to know about the numbers, one line each."""
    notes = []
    job = search.described
    if job.is_measured and job.plan is None:
        notes.append("the measured step of the scenario is of no layout that the model knows, and scales nothing")
    if search.scale != 1.0:
        line = f"times are the model's x {search.scale:.3f}: measured over modelled step of the scenario"
        if job.plan is not None and job.plan.is_far:
            line += "; so far from 1, what was measured was executed in another way than the scenario says"
        notes.append(line)
    pools = search.scenario.cluster
    if len(pools.all_pools) > 1:
        notes.append("all GPUs are taken to be those of the pool of hosts on which the job starts")
    if search.own is not None and not is_own_found:
        notes.append(f"the scenario's own layout is not among those looked at: {_why_not(search, search.own)}")
    notes.append("only the rows shown are placed in the empty cluster; other layouts are ranked at full NIC bandwidth")
    return notes


def _why_not(search: LayoutSearch, stated: Workload) -> str:
    """Return why the scenario's own layout was not looked at."""
    violations = problems(stated)
    if violations:
        return f"as the model lays it out, {violations[0].rule}"
    if memory_use(stated).total > search.bounds.memory:
        return "by our count it does not fit"
    return "its groups are larger, or its sets of replicas fewer, than the search and the scenario allow"
