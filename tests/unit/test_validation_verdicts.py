"""Verdicts on rows of the validation table: each kind of tolerance, the shared error rate, and the combined p-value."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from ettrick.analysis.validation import verdict
from ettrick.analysis.validation.lab import MeasuredQuantity, ScenarioRunner
from ettrick.analysis.validation.run import validate
from ettrick.analysis.validation.table import PublishedRow, load_table
from ettrick.analysis.validation.verdict import FAMILY, combined, judge, skipped
from ettrick.sim import rng
from ettrick.sim.policies.repair import REPAIRS
from ettrick.sim.run import with_engine
from ettrick.sim.scenario.laws import Fixed
from tests.cases import cases
from tests.intervals import LEAST
from tests.pace import one_in
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ettrick.sim import Prepared

# The validation table sees defects: each one that is built in on purpose turns a row red, which passes without it.

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
    """Return those of some rows that fail; machine code simulates what it knows, to the same bits."""

    def quick(prepared: Prepared) -> Prepared:
        return with_engine(broken(prepared) if broken else prepared, 1000)

    found = validate(load_table(), ScenarioRunner(processes=1, broken=quick), list(rows))
    assert len(found.verdicts) == len(rows)
    assert not [verdict.reason for verdict in found.verdicts if "Error" in verdict.reason]
    return {verdict.row.id for verdict in found.verdicts if verdict.state != "pass"}


@pytest.mark.nightly  # as the table itself
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


@pytest.mark.parametrize("forgotten", one_in(2, ["source", "replication"]))
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


N = 16


def row(kind: str, size: float = 0.0, value: float | None = 10.0, replications: int = 0, **more: Any) -> PublishedRow:
    """Return a row; what does not matter is the same in all."""
    limits = {key: more.pop(key) for key in ("low", "high", "most_noise") if key in more}
    entry: dict[str, Any] = dict.fromkeys(("quantity", "paper", "where", "inputs", "unit"), "-")
    entry |= {"id": "row", "group": "group", "provenance": "theory", "label": "sanity", "measure": "measure"}
    entry |= {"value": value, "replications": replications}
    return PublishedRow.model_validate(
        entry | more | {"tolerance": {"kind": kind, "size": size, "why": "a test", **limits}}
    )


def noise(error: float, rows: int, sides: int = 2) -> float:
    """Return the half-width that the table leaves to one of its rows, by another implementation of Student's t."""
    return float(stats.t.isf(FAMILY / sides / rows, N - 1)) * error


@cases(
    ("kind", "size", "ours", "state"),
    [
        ("printed", 0.05, 10.05, "pass"),
        ("printed", 0.05, 10.0501, "fail"),
        ("printed", 0.05, 9.95, "pass"),
        ("relative", 0.02, 9.8, "pass"),
        ("relative", 0.02, 9.79, "fail"),
        ("relative", 0.02, 10.21, "fail"),
        ("absolute", 0.5, 10.5, "pass"),
        ("absolute", 0.5, 9.49, "fail"),
        ("at_least", 0, 10.0, "pass"),
        ("at_least", 0, 9.999, "fail"),
        ("at_most", 0, 10.0, "pass"),
        ("at_most", 0, 10.001, "fail"),
        ("must_miss", 1.0, 11.1, "pass"),
        ("must_miss", 1.0, 8.9, "pass"),
        ("must_miss", 1.0, 11.0, "fail"),
        ("must_miss", 1.0, 10.0, "fail"),
    ],
)
def test_each_kind_without_sampling_error(kind: str, size: float, ours: float, state: str) -> None:
    """A formula is as near as the row says, both edges included; what must miss must miss by more."""
    found = judge(row(kind, size), MeasuredQuantity(ours), 50)
    assert found.state == state
    assert found.noise == 0
    assert found.delta == pytest.approx(ours - 10)


@cases(("ours", "state", "delta"), [(3, "pass", 0), (5, "pass", 0), (5.5, "fail", 0.5), (2, "fail", -1)])
def test_an_interval(ours: float, state: str, delta: float) -> None:
    """Between both ends it holds, and beyond them the delta is the distance to the nearer one."""
    found = judge(row("interval", value=None, low=3, high=5), MeasuredQuantity(ours), 50)
    assert (found.state, found.delta) == (state, delta)


def test_a_relative_tolerance_of_a_negative_value() -> None:
    """Two per cent of minus ten are 0.2 on either side."""
    assert judge(row("relative", 0.02, -10.0), MeasuredQuantity(-10.19), 1).state == "pass"
    assert judge(row("relative", 0.02, -10.0), MeasuredQuantity(-9.79), 1).state == "fail"


@cases("rows", [1, 40, 400])
@cases("kind", ["printed", "relative", "absolute"])
def test_the_sampling_error_is_added_to_a_tolerance(kind: str, rows: int) -> None:
    """Limits are size plus the quantile of Student's t that a share of the error rate has, times the error."""
    size = 0.1 if kind == "relative" else 1.0
    error = 0.9 / (noise(1.0, rows))
    one = row(kind, size, replications=N)
    for off, state in ((1.89, "pass"), (1.91, "fail"), (-1.89, "pass"), (-1.91, "fail")):
        found = judge(one, MeasuredQuantity(10 + off, error, N), rows)
        assert found.state == state
        assert found.noise == pytest.approx(0.9, rel=1e-9)
        assert found.limit == pytest.approx(1.9, rel=1e-9)


@cases("kind", ["printed", "relative", "absolute", "interval"])
def test_too_much_sampling_error_is_a_failure(kind: str) -> None:
    """Where sampling error is more than the tolerance the row fails however near ours is, and says why."""
    size = 0.1 if kind == "relative" else 1.0
    ends = {"low": 9, "high": 11, "value": None} if kind == "interval" else {"size": size}
    one = row(kind, replications=N, **ends)
    for width, state in ((0.99, "pass"), (1.01, "fail")):
        found = judge(one, MeasuredQuantity(10.0, width / noise(1.0, 40), N), 40)
        assert found.state == state
        assert ("too few replications" in found.reason) == (state == "fail")


def test_an_equality_but_for_sampling_error() -> None:
    """Of theory ours is off by sampling error and an edge at most; the p-value is that of what is beyond the edge."""
    error = 1.0
    for size in (0.0, 0.5):
        limit = noise(error, 40) + size
        one = row("sampling", size, replications=N, most_noise=1.0)
        assert judge(one, MeasuredQuantity(10 + 0.999 * limit, error, N), 40).state == "pass"
        assert judge(one, MeasuredQuantity(10 - 1.001 * limit, error, N), 40).state == "fail"
        found = judge(one, MeasuredQuantity(12.5, error, N), 40)
        assert found.p_value == pytest.approx(2 * stats.t.sf(2.5 - size, N - 1), rel=1e-9)
        assert judge(one, MeasuredQuantity(10 + 0.9 * size, error, N), 40).p_value == 1


@cases(("value", "unit"), [(10.0, 10.0), (-10.0, 10.0), (0.0, 1.0)])
def test_an_equality_with_too_much_sampling_error_is_a_failure(value: float, unit: float) -> None:
    """Beyond a tenth of the expected value, of the unit where that is 0, or what the row says, sampling error fails."""
    for stated, most in (({}, 0.1), ({"most_noise": 0.3}, 0.3)):
        one = row("sampling", value=value, replications=N, **stated)
        for width, state in ((0.99, "pass"), (1.01, "fail")):
            found = judge(one, MeasuredQuantity(value, width * most * unit / noise(1.0, 40), N), 40)
            assert found.state == state
            assert ("too few replications" in found.reason) == (state == "fail")


@cases(("kind", "sign"), [("at_least", 1), ("at_most", -1)])
def test_an_inequality_holds_beyond_sampling_error(kind: str, sign: int) -> None:
    """Ours has to be on the right side by more than the one-sided sampling error."""
    one = row(kind, replications=N)
    width = noise(1.0, 40, sides=1)
    assert judge(one, MeasuredQuantity(10 + sign * 1.001 * width, 1.0, N), 40).state == "pass"
    assert judge(one, MeasuredQuantity(10 + sign * 0.999 * width, 1.0, N), 40).state == "fail"
    assert judge(one, MeasuredQuantity(10.0, 1.0, N), 40).state == "fail"


def test_a_wrong_model_misses_beyond_sampling_error() -> None:
    """What must miss is off by more than size and sampling error together."""
    one = row("must_miss", 1.0, replications=N)
    limit = 1.0 + noise(1.0, 40)
    assert judge(one, MeasuredQuantity(10 - 1.001 * limit, 1.0, N), 40).state == "pass"
    assert judge(one, MeasuredQuantity(10 - 0.999 * limit, 1.0, N), 40).state == "fail"


def test_an_interval_with_sampling_error() -> None:
    """The sampling error widens both ends."""
    one = row("interval", value=None, low=0, high=100, replications=N)
    width = noise(1.0, 40)
    assert judge(one, MeasuredQuantity(100 + 0.999 * width, 1.0, N), 40).state == "pass"
    assert judge(one, MeasuredQuantity(-1.001 * width, 1.0, N), 40).state == "fail"


@cases(
    ("one", "estimate", "reason"),
    [
        (row("absolute", 1.0), MeasuredQuantity(math.nan), "not a number"),
        (row("absolute", 1.0, replications=N), MeasuredQuantity(10.0, math.inf, N), "not a number"),
        (row("absolute", 1.0, value=None), MeasuredQuantity(10.0), "what is expected"),
        (row("absolute", 1.0, value=None), MeasuredQuantity(10.0, expected=math.nan), "not a number"),
        (row("absolute", 1.0, replications=N), MeasuredQuantity(10.0, 0.0, 1), "two replications"),
        (row("absolute", 1.0), MeasuredQuantity(10.0, 0.1, N), "states no replications"),
    ],
)
def test_what_cannot_be_compared_fails(one: PublishedRow, estimate: MeasuredQuantity, reason: str) -> None:
    """No number, nothing to compare with, sampling error of unknown size: a failure that says so."""
    found = judge(one, estimate, 40)
    assert found.state == "fail"
    assert reason in found.reason


def test_what_theory_expects_stands_in_for_a_value() -> None:
    """A row without a value is compared with what its measure says that theory expects; a value wins."""
    assert judge(row("absolute", 1.0, value=None), MeasuredQuantity(5.0, expected=5.5), 1).published == 5.5
    assert judge(row("absolute", 1.0), MeasuredQuantity(5.0, expected=5.5), 1).state == "fail"


def test_replications_that_are_all_the_same_are_no_proof() -> None:
    """Without any spread, an equality holds only if it is exact."""
    one = row("sampling", replications=N, independent=True)
    assert judge(one, MeasuredQuantity(10.0, 0.0, N), 40).p_value == 1
    off = judge(one, MeasuredQuantity(10.001, 0.0, N), 40)
    assert (off.state, off.p_value) == ("fail", 0)
    together = present(combined([off]))
    assert (together.p_value, together.holds) == (0, False)


def draws(tables: int, rows: int, seed: int) -> list[list[MeasuredQuantity]]:
    """Return estimates of rows whose truth is ten: means of N normal numbers."""
    numbers = np.random.default_rng(seed).normal(10.0, 3.0, (tables, rows, N))
    means, errors = numbers.mean(axis=2), numbers.std(axis=2, ddof=1) / math.sqrt(N)
    return [
        [MeasuredQuantity(float(mean), float(error), N) for mean, error in zip(*pair, strict=True)]
        for pair in zip(means, errors, strict=True)
    ]


@pytest.mark.parametrize("family", one_in(2, [0.3, 0.001]))
def test_the_error_rate_is_that_of_the_whole_table(family: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 2,000 tables of 25 true rows as many have a false alarm as the rate says; a rate of 0.3 can be counted."""
    monkeypatch.setattr(verdict, "FAMILY", family)
    one = row("sampling", replications=N, most_noise=10.0)
    tables = draws(2000, 25, seed=1)

    def alarms(rows: int) -> int:
        return sum(any(judge(one, estimate, rows).state == "fail" for estimate in table) for table in tables)

    low, high = stats.binom.ppf([LEAST / 2, 1 - LEAST / 2], 2000, 1 - (1 - family / 25) ** 25)
    assert low <= alarms(25) <= high
    assert alarms(1) > high, "a rate for each row of its own must fall outside"


def test_the_combined_p_value_is_uniform_when_all_rows_are_true() -> None:
    """Fisher's p of ten independent rows, in 2,000 tables; with rows that are all half an error off it is small."""
    one = row("sampling", replications=N, independent=True, most_noise=10.0)
    values = []
    for table in draws(2000, 10, seed=2):
        together = present(combined([judge(one, estimate, 10) for estimate in table]))
        assert together.rows == 10
        values.append(together.p_value)
    assert stats.kstest(values, "uniform").pvalue > LEAST
    known = [judge(one, estimate, 10).p_value for estimate in draws(1, 10, seed=3)[0]]
    ours = present(combined([judge(one, estimate, 10) for estimate in draws(1, 10, seed=3)[0]]))
    assert ours.p_value == pytest.approx(stats.combine_pvalues(known, "fisher").pvalue, rel=1e-9)
    # Rows that each are within their own limit, and far too often off.
    off = [judge(one, MeasuredQuantity(12.2, 1.0, N), 10) for _ in range(20)]
    assert {each.state for each in off} == {"pass"}
    together = present(combined(off))
    assert not together.holds


def test_rows_that_share_replications_do_not_count_twice() -> None:
    """Only independent rows that were simulated are combined; without any there is no p-value."""
    alone = judge(row("sampling", replications=N, independent=True), MeasuredQuantity(11.0, 1.0, N), 10)
    shared = judge(row("sampling", replications=N), MeasuredQuantity(14.0, 1.0, N), 10)
    assert combined([alone, shared]) == combined([alone])
    assert combined([shared, skipped(row("sampling", replications=N, independent=True))]) is None


@cases(
    ("entry", "rule"),
    [
        ({"kind": "interval"}, "low and high belong to kind: interval"),
        ({"kind": "absolute", "size": 1, "low": 1, "high": 2}, "low and high belong to kind: interval"),
        ({"kind": "interval", "low": 2, "high": 1, "value": None}, "low is above high"),
        ({"kind": "relative"}, "kind: relative needs a size"),
        ({"kind": "must_miss"}, "kind: must_miss needs a size"),
        ({"kind": "sampling"}, "needs two replications or more"),
        ({"kind": "absolute", "size": 1, "replications": 1}, "needs two replications or more"),
        ({"kind": "absolute", "size": 1, "replications": 5, "independent": True}, "independent belongs to"),
        ({"kind": "absolute", "size": math.nan}, "finite"),
        ({"kind": "absolute", "size": 1, "most_noise": 0.2}, "most_noise belongs to kind: sampling"),
        ({"kind": "sampling", "replications": 5, "most_noise": 0}, "greater than 0"),
        ({"kind": "absolute", "size": 1, "only_reads": True}, "only_reads belongs to"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused(entry: dict[str, Any], rule: str) -> None:
    """Each mistake in a row is refused with the rule that it breaks."""
    with pytest.raises(ValueError, match=rule):
        row(**entry)
