"""The validation table sees defects: each one that is built in on purpose turns a row red, which passes without it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from analysis.validation.lab import Lab
from analysis.validation.play import play
from analysis.validation.table import load_table
from sim import rng
from sim.policies.repair import REPAIRS
from sim.scenario.laws import Fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sim import Prepared

CHEAP = (
    "oracle-heavy-productive",
    "oracle-heavy-checkpoint-stall",
    "oracle-nodes-down-mean",
    "oracle-wear-out",
    "oracle-burn-in",
    "oracle-stationary",
    "oracle-counts-mean",
    "oracle-counts-replications",
    "oracle-two-causes",
)
"""Rows that take about five seconds together, and see all of these defects between them."""


def twice_the_rate(prepared: Prepared) -> Prepared:
    """Return a scenario in which lives are half as long."""
    laws = [source.law for source in prepared.sources]
    assert None not in laws
    halved = tuple(
        replace(source, law=law.scaled(0.5)) for source, law in zip(prepared.sources, laws, strict=True) if law
    )
    return replace(prepared, sources=halved)


def no_repair_time(prepared: Prepared) -> Prepared:
    """Return a scenario in which nodes are back at once."""
    sources = tuple(replace(source, repair=Fixed.from_seconds(value=0.0)) for source in prepared.sources)
    return replace(prepared, sources=sources, repair=REPAIRS["simple"].model_validate({"time": "0 s"}))


def free_checkpoints(prepared: Prepared) -> Prepared:
    """Return a scenario in which a save costs nothing."""
    jobs = tuple(replace(job, checkpoint=job.checkpoint._replace(stall=0.0)) for job in prepared.jobs)
    return replace(prepared, jobs=jobs)


def no_ages(prepared: Prepared) -> Prepared:
    """Return a scenario in which all parts are new at the start."""
    return replace(prepared, sources=tuple(replace(source, ages=()) for source in prepared.sources), stationary=False)


def red(rows: Collection[str], broken: Callable[[Prepared], Prepared] | None = None) -> set[str]:
    """Return those of some rows that fail."""
    found = play(load_table(), Lab(processes=1, broken=broken), list(rows))
    assert len(found.verdicts) == len(rows)
    assert not [verdict.reason for verdict in found.verdicts if "Error" in verdict.reason]
    return {verdict.row.id for verdict in found.verdicts if verdict.state != "pass"}


def test_unbroken_rows_pass() -> None:
    """Without a defect no cheap row is red."""
    assert red(CHEAP) == set()


@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        (twice_the_rate, {"oracle-heavy-productive", "oracle-nodes-down-mean", "oracle-counts-mean"}),
        (no_repair_time, {"oracle-nodes-down-mean"}),
        (free_checkpoints, {"oracle-heavy-productive", "oracle-heavy-checkpoint-stall"}),
        (no_ages, {"oracle-wear-out", "oracle-burn-in", "oracle-stationary"}),
    ],
    ids=["twice the rate", "no repair time", "free checkpoints", "no ages"],
)
def test_a_broken_scenario_turns_rows_red(broken: Callable[[Prepared], Prepared], seen: set[str]) -> None:
    """Twice the failures, repairs that take no time, saves that cost nothing, parts that are new: each is seen."""
    assert red(seen, broken) == seen


@pytest.mark.parametrize("forgotten", ["replication", "source"])
def test_shared_random_streams_turn_rows_red(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replications that are all the same, and causes that fail at the same times, are seen as correlations."""
    honest = rng.stream

    def shared(seed: int, replication: int, *names: str | int) -> int:
        if forgotten == "replication":
            return honest(seed, 0, *names)
        return honest(seed, replication, names[0], *names[2:])

    monkeypatch.setattr(rng, "stream", shared)
    row = "oracle-counts-replications" if forgotten == "replication" else "oracle-two-causes"
    assert red([row]) == {row}
