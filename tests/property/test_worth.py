"""What is true of every change whose worth is asked for: the other failures stay, and what is gained adds up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

from ettrick import sim
from ettrick.analysis.contest.worth import KNOBS, METRICS, changes_of, worth
from tests.property.common import Scenario, examples, prepare
from tests.strategies import scenarios

if TYPE_CHECKING:
    from ettrick.analysis.results.explained import WorthGroup
    from ettrick.sim.failures import FailureSource

Life = tuple[str, int, int]


def lives(prepared: sim.Prepared) -> dict[Life, list[float]]:
    """Return the ends of the lives of the first replication [s], by cause, slot and number."""
    found = sim.trace(prepared, 0)
    names = [prepared.sources[index].name for index in found.source.tolist()]
    ends: dict[Life, list[float]] = {}
    for name, slot, number, time in zip(
        names, found.slot.tolist(), found.round.tolist(), found.time.tolist(), strict=True
    ):
        ends.setdefault((name, slot, number), []).append(time)
    return ends


@examples(30)
@given(scenarios(fewest_sources=1))
def test_to_remove_a_cause_leaves_the_lives_of_all_others(data: Scenario) -> None:
    """Every cause has its change, and in it the others have the lives that they had, number by number."""
    prepared = prepare(data)
    before = lives(prepared)
    causes = changes_of(prepared).causes
    assert [change.name for change in causes] == [source.name for source in prepared.sources]
    for change in causes:
        assert lives(change.prepared) == {life: ends for life, ends in before.items() if life[0] != change.name}
        assert change.prepared.upkeep.repaired == ()
        assert [job.checkpoint.interval for job in change.prepared.jobs] == pytest.approx(
            [job.checkpoint.interval for job in prepared.jobs], rel=1e-12
        )


def is_simple(source: FailureSource) -> bool:
    """Return whether the first life of each unit counts plain time from the start, and is a failure of its own."""
    spread = source.blast is not None and source.blast.spread is not None
    is_failure = source.law is not None and not source.alarm
    return is_failure and source.tempo is None and not source.ages and not spread


@examples(30)
@given(scenarios(fewest_sources=1))
def test_longer_lives_are_longer_by_a_tenth_and_nothing_else_is_drawn_anew(data: Scenario) -> None:
    """First lives of unplanned causes are 1.1 times as long, those of planned ones the same; whatever the law is."""
    prepared = prepare({**data, "initial": "new"})
    change = next((change for change in changes_of(prepared).knobs if change.name == "mtbf"), None)
    if change is None:
        assert all(source.planned or source.law is None or source.alarm for source in prepared.sources)
        return
    after = lives(change.prepared)
    for source in filter(is_simple, prepared.sources):
        factor = 1.0 if source.planned else 1.1
        first = {life: ends[0] for life, ends in lives(prepared).items() if life[0] == source.name and life[2] == 0}
        inside = {life: end for life, end in first.items() if factor * end < prepared.warmup + prepared.horizon - 1e-6}
        assert {life: after[life][0] for life in inside} == pytest.approx(
            {life: factor * end for life, end in inside.items()}, rel=1e-9
        )


@examples(30)
@given(scenarios())
def test_a_knob_changes_what_it_is_about_alone(data: Scenario) -> None:
    """The causes stay, and so do their numbers: no knob but MTBF changes a life, and none changes who they are."""
    prepared = prepare(data)
    before = lives(prepared)
    changes = changes_of(prepared)
    assert {*changes.left_out, *(change.name for change in changes.knobs if change.counts)} == set(KNOBS)
    for change in changes.knobs:
        assert [source.name for source in change.prepared.sources] == [source.name for source in prepared.sources]
        if change.name != "mtbf":
            assert lives(change.prepared) == before
        if change.name not in ("checkpoint_by_rule", "step_time"):
            assert [job.checkpoint.interval for job in change.prepared.jobs] == pytest.approx(
                [job.checkpoint.interval for job in prepared.jobs], rel=1e-12
            )


@examples(6)
@given(scenarios(most_jobs=2, fewest_sources=1))
def test_what_is_gained_adds_up(data: Scenario) -> None:
    """Of every scenario all at once is the sum of the rows and the residual, and intervals hold their means."""
    found = worth(sim.parse(data), 2, processes=1)
    for group in (found.causes, found.knobs):
        for metric in METRICS:
            check_sums(group, metric)
    for row in (*found.causes.rows, *found.knobs.rows):
        for gained in row.gain.values():
            if gained is not None and gained.ci95 is not None:
                assert gained.ci95[0] <= gained.mean <= gained.ci95[1]
                assert np.isfinite(gained.mean)
        assert row.money_per_year is None


def check_sums(group: WorthGroup, metric: str) -> None:
    """The sum is that of the rows that count, and with the residual it is all of them at once."""
    if group.together is None or group.added is None or group.residual is None:
        assert sum(row.counts for row in group.rows) < 2
        return
    sums = [row.gain.get(metric) for row in (group.together, group.added, group.residual)]
    rows = [row.gain.get(metric) for row in group.rows if row.counts]
    if None in sums or None in rows:
        return
    together, added, residual = (each.mean for each in sums if each is not None)
    size = max(abs(each.mean) for each in rows if each is not None) + abs(together) + 1e-9
    assert added == pytest.approx(math.fsum(each.mean for each in rows if each is not None), abs=1e-9 * size)
    assert together == pytest.approx(added + residual, abs=1e-9 * size)
