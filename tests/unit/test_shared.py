"""What scenarios have in common is worked out once, and nothing comes out differently for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import sim
from sim.prepare import placement
from sim.run import TRACES
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAME_FAILURES = (
    "spares.hot=2",
    "detection.time=10 min",
    "repair.time=2 d",
    "checkpoint.tiers.0.interval=1 h",
    "recovery={use: full-restart, initialize: 10 min}",
)
_OTHER_FAILURES = ("failures.0.rate=13 per 1000 node-day", "horizon=31 d", "seed=2", "initial=stationary")


_TEMPLATE = sim.template(sim.find("quickstart"))


def _scenario(*changes: str) -> sim.Scenario:
    return sim.load(sim.find("quickstart"), changes)


def _prepared(*changes: str) -> sim.Prepared:
    return sim.prepare(_TEMPLATE.scenario(changes))


def _drawn(monkeypatch: pytest.MonkeyPatch, *variants: Sequence[str]) -> int:
    """Return how often failures were drawn for one replication of each variant."""
    calls: list[int] = []
    draw = sim.trace
    monkeypatch.setattr(sys.modules["sim.run"], "trace", lambda one, number: calls.append(number) or draw(one, number))
    desk = sim.Shared()
    for changes in variants:
        desk.trace(_prepared(*changes), 0)
    return len(calls)


def test_variants_of_a_policy_share_their_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares, detection, repair, checkpoints and recovery do not touch what is drawn: it is drawn once."""
    assert _drawn(monkeypatch, (), *([change] for change in _SAME_FAILURES)) == 1


@pytest.mark.parametrize("change", _OTHER_FAILURES)
def test_what_changes_the_failures_has_failures_of_its_own(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rate, the horizon, the seed and the initial state are part of what is drawn."""
    assert _drawn(monkeypatch, (), [change]) == 2


def test_of_a_long_run_the_repairs_belong_to_the_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a stationary state some parts are in repair at the start, so the law of repair is part of what is drawn."""
    assert _drawn(monkeypatch, ["initial=stationary"], ["initial=stationary", "repair.time=2 d"]) == 2


@cases("change", [*_SAME_FAILURES, *_OTHER_FAILURES])
def test_sharing_changes_no_result(change: str) -> None:
    """What was shared with another scenario gives the same result, to the last bit, as a run of its own."""
    desk = sim.Shared()
    first = _prepared()
    sim.run(first, 3, desk.trace(first, 3))
    prepared = _prepared(change)
    ours, alone = sim.run(prepared, 3, desk.trace(prepared, 3)), sim.run(sim.prepare(_scenario(change)), 3)
    for mine, theirs in zip(ours.jobs, alone.jobs, strict=True):
        assert np.array_equal(mine.totals, theirs.totals)
        assert mine.interruptions == theirs.interruptions


def test_a_cluster_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants with the same cluster share its topology; another cluster has its own."""
    built: list[str] = []
    original = sim.ClusterSpec.build

    def build(self: sim.ClusterSpec) -> sim.Topology:
        built.append(self.name)
        return original(self)

    monkeypatch.setattr(sim.ClusterSpec, "build", build)
    placement._TOPOLOGIES.clear()
    for change in ("spares.hot=1", "spares.hot=2", "cluster.rack.nodes=2"):
        _prepared(change)
    assert len(built) == 2


def test_only_the_last_ones_are_kept() -> None:
    """Memory does not grow with the number of variants."""
    desk = sim.Shared()
    prepared = _prepared()
    for replication in range(TRACES + 5):
        desk.trace(prepared, replication)
    assert len(desk.traces) == TRACES


def test_a_template_makes_the_scenarios_of_its_file() -> None:
    """A file that was read once gives the same scenarios as one that is read each time."""
    for change in _SAME_FAILURES:
        assert _TEMPLATE.scenario([change]).dump() == _scenario(change).dump()
    assert _TEMPLATE.scenario().dump() == _scenario().dump()
