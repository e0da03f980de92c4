"""Variants meet the same failures, are compared by what may rank them, and stop when their differences are known."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import compare as module
from analysis import runs
from analysis.compare import Comparison, Variant, compare, what_differs
from analysis.compare import compare_document as typed_compare_document
from analysis.page.chapters.compare import format_comparison as typed_format_comparison
from analysis.results.models import CompareDocument
from analysis.results.run import render
from analysis.runs import Precision, RequestError, replicate
from analysis.statistics.estimates import means
from tests import small
from tests.typed import as_plain, of_plain

compare_document = as_plain(typed_compare_document)
format_comparison = of_plain(typed_format_comparison, CompareDocument)

JOB: dict[str, Any] = {
    "name": "train",
    "gpus": 112,
    "model": "llama3-8b",
    "batch": {"tokens": "7 Mi", "sequence": 8192},
    "parallelism": {"tensor": 8, "pipeline": 2, "data": 7},
    "step_time": "40 s",
}
INTERVALS = [{**small.SMALL["checkpoint"]["tiers"][0], "interval": text} for text in ("20 min", "40 min", "1 h")]


def variants(*changes: dict[str, Any]) -> list[Variant]:
    """Return variants of the small scenario, called by their number."""
    return [Variant(str(number), small.prepare(**change)) for number, change in enumerate(changes)]


def by_interval() -> list[Variant]:
    """Return three variants that save more and more seldom."""
    return variants(*({"checkpoint": {"tiers": [tier]}} for tier in INTERVALS))


def test_a_variant_is_what_it_is_alone() -> None:
    """Each variant has the replications that it has in a run of its own, in order."""
    found = compare(by_interval(), 4, processes=1)
    for variant, of in zip(by_interval(), found.ensembles, strict=True):
        assert of.rows == replicate(variant.prepared, 4, processes=1).rows


def test_all_variants_meet_the_same_failures() -> None:
    """What fails, and when, is the same for every variant: the nodes go down alike under three policies."""
    found = compare(by_interval(), 3, processes=1)
    first, second, third = (of.tally for of in found.ensembles)
    assert first.counts["candidates"] == second.counts["candidates"] == third.counts["candidates"] > 0
    assert first.down_times == second.down_times == third.down_times


def test_the_same_variant_twice_differs_in_nothing() -> None:
    """Two equal variants differ by exactly zero in every metric, and no number of replications tells them apart."""
    found = compare(variants({}, {}), 4, processes=1)
    changes = {name: change for name, change in found.differences[1].items() if change is not None}
    assert {"ettr", "interruptions", "mtti"} <= set(changes)
    assert all(change == (0.0, (0.0, 0.0), False, None, None) for change in changes.values())


def test_without_failures_the_difference_is_that_of_the_stalls() -> None:
    """Saves of 30 s every 20 and every 40 min after an initialization of 3 min: a difference of stalls, to the second.

    Save k of a run of two days ends at 180 + k (interval + 30) seconds.
    """
    found = compare([Variant(name, of.with_sources(())) for name, of in by_interval()[:2]], 2, processes=1)
    horizon = 2 * 86400
    saves = [(horizon - 180) // (interval + 30) for interval in (1200, 2400)]
    change = found.differences[1]["ettr"]
    assert change is not None
    assert change.mean == pytest.approx((saves[0] - saves[1]) * 30 / horizon, abs=1e-12)
    assert change.resolved
    assert change.replications_to_resolve == 2


@pytest.mark.nightly
def test_numbers_do_not_depend_on_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process and three give the same document, digit by digit."""
    monkeypatch.setattr(runs, "_TRIAL", 0.0)
    monkeypatch.setattr(runs, "_PATIENCE", 0.0)
    texts = [
        render(typed_compare_document(compare(by_interval(), 5, processes=count), {}, command="")) for count in (1, 3)
    ]
    assert texts[0] == texts[1]


def test_progress_counts_all_variants() -> None:
    """The number done is counted up to variants times replications."""
    seen: list[tuple[int, int | None]] = []
    compare(by_interval(), 2, processes=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 6) for number in range(1, 7)]


# ------------------------------------------------------------------------------------------------- headline


def compared(*changes: dict[str, Any]) -> Comparison:
    """Return a comparison of two replications of variants of the small scenario."""
    return compare(variants(*changes), 2, processes=1)


def test_goodput_is_the_headline_where_every_variant_has_an_mfu() -> None:
    """With a model and a step time on the same hardware goodput ranks; without the model, ETTR does."""
    with_model = compared({"jobs": [JOB]}, {"jobs": [JOB], "repair": {"time": "1 h"}})
    assert (with_model.headline, with_model.differs) == ("goodput", ())
    assert set(with_model.order) == {"0", "1"}
    mixed = compared({}, {"repair": {"time": "1 h"}})
    assert (mixed.headline, mixed.differs) == ("ettr", ())


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("model", {"jobs": [{**JOB, "model": "llama3-70b"}]}),
        ("precision", {"jobs": [{**JOB, "precision": "fp8"}]}),
        ("layout", {"jobs": [{**JOB, "parallelism": {"tensor": 4, "pipeline": 4, "data": 7}}]}),
        ("accelerator", {"jobs": [JOB], "cluster": {**small.SMALL["cluster"], "accelerator": "h200"}}),
    ],
)
def test_other_hardware_is_ranked_by_tokens(what: str, change: dict[str, Any]) -> None:
    """Where a share of the peak would punish the faster hardware, tokens per day rank, and the document says why."""
    found = compared({"jobs": [JOB]}, change)
    assert (found.headline, found.differs) == ("tokens_per_day", (what,))
    assert len(found.order) == 2
    why = compare_document(found, {}, command="")["unranked_because"]
    assert why.startswith(f"{what} differs")
    assert why.endswith("ranked by tokens per day")


def test_the_cost_of_a_token_ranks_from_low_to_high() -> None:
    """With prices, other hardware is ranked by the cost of a token; twice the price of a GPU is twice the cost."""
    fp8 = {**JOB, "precision": "fp8"}
    found = compared({"jobs": [JOB], "cost": {"gpu_hour": 4}}, {"jobs": [fp8], "cost": {"gpu_hour": 2}})
    assert found.headline == "cost_per_token"
    assert found.order == ("1", "0")
    rows = [of.rows[0]["cost_per_token"] for of in found.ensembles]
    assert rows[0].amount / rows[0].base == pytest.approx(2 * rows[1].amount / rows[1].base)


def test_without_tokens_other_hardware_is_not_ranked() -> None:
    """Where nothing may rank the variants, ETTR is shown and nobody is first."""
    found = compared({}, {"cluster": {**small.SMALL["cluster"], "accelerator": "h200"}})
    assert (found.headline, found.order) == ("ettr", ())
    assert "there is no rank" in compare_document(found, {}, command="")["unranked_because"]


def test_goodput_ranks_from_high_to_low() -> None:
    """A job that takes longer to come back is second, wherever it stands in the list."""
    slow = {"recovery": {"use": "hot-spare", "initialize": "30 min"}}
    assert compared(slow, {}).order == ("1", "0")
    assert compared({}, slow).order == ("0", "1")


def test_of_three_variants_those_that_may_be_best_are_named() -> None:
    """A clear loser is left out, two equal ones are both named, and no number of replications tells these apart.

    Restarts that take 30 min longer after each failure lose more than chance gives in 16 replications.
    """
    slow = {"recovery": {"use": "hot-spare", "initialize": "33 min"}}
    found = compare(variants({}, {}, slow), 16, processes=1)
    ranking = compare_document(found, {}, command="")["ranking"]
    assert set(ranking["may_be_best"]) == {"0", "1"}
    assert ranking["behind"]["2"]["mean"] > 0
    assert ranking["behind"]["2"]["ci95"][0] > 0
    lines = [line for line in text_of(found).splitlines() if "best" in line]
    assert lines == ["  - may be best (95 % together): 0 or 1"]
    alone = compare(variants({}, slow, slow), 16, processes=1)
    assert "  - best: 0, resolved from each of the others (95 % together)" in text_of(alone).splitlines()


def test_rivals_come_with_the_replications_that_would_tell() -> None:
    """Saves every 20 and every 21 min differ by less than three replications see: the line says how many more would."""
    tiers = [{**INTERVALS[0], "interval": text} for text in ("20 min", "21 min", "22 min")]
    found = compare(variants(*({"checkpoint": {"tiers": [tier]}} for tier in tiers)), 3, processes=1)
    ranking = compare_document(found, {}, command="")["ranking"]
    assert len(ranking["may_be_best"]) > 1
    needed = ranking["replications_to_resolve"]
    told = "more than 10,000 replications" if needed is None else f"about {needed - 3:,} more replications"
    assert f"; {told} would tell" in text_of(found)


def test_two_variants_have_no_ranking() -> None:
    """Of two the difference says it all; and where nothing may rank variants, nobody may be best."""
    assert compared({}, {}).ranking is None
    other = {"cluster": {**small.SMALL["cluster"], "accelerator": "h200"}}
    assert compared({}, {}, other).ranking is None


def text_of(found: Comparison) -> str:
    """Return a comparison as the terminal shows it."""
    return format_comparison(compare_document(found, {}, command=""))


def test_all_of_a_job_is_compared() -> None:
    """Scenarios with the same description differ in nothing; with another number of jobs they differ."""
    one, two = small.parse(), small.parse(jobs=[{**small.SMALL["jobs"][0], "gpus": 56, "name": name} for name in "ab"])
    assert what_differs([one, one]) == ()
    assert "model" in what_differs([one, two])


# ------------------------------------------------------------------------------------------------ precision


def test_precision_is_of_the_differences() -> None:
    """Replications go on until every difference is as precise as was asked for, and no decision comes before 30."""
    coarse = compare(by_interval(), 2, precision=Precision(1.0, relative=False), processes=1)
    assert (coarse.replications, coarse.precise) == (runs.FEWEST, True)
    change = coarse.differences[1]["ettr"]
    assert change is not None
    half = (change.ci95[1] - change.ci95[0]) / 2
    fine = compare(by_interval(), 2, precision=Precision(0.8 * half, relative=False), processes=1)
    assert fine.precise
    assert fine.replications > runs.FEWEST
    assert fine.replications % runs.BATCH == 0
    for differences in fine.differences[1:]:
        found = differences["ettr"]
        assert found is not None
        assert (found.ci95[1] - found.ci95[0]) / 2 <= 0.8 * half


def test_a_relative_precision_is_a_part_of_the_first() -> None:
    """A width a little above the half-width over the first variant's mean is reached at once, one below is not."""
    coarse = compare(by_interval()[:2], runs.FEWEST, processes=1)
    change = coarse.differences[1]["ettr"]
    mean = means(coarse.ensembles[0].rows)["ettr"]
    assert change is not None
    assert mean is not None
    part = (change.ci95[1] - change.ci95[0]) / 2 / mean
    for factor, is_enough in ((1.01, True), (0.99, False)):
        wanted = Precision(factor * part, relative=True)
        found = compare(by_interval()[:2], 2, precision=wanted, processes=1)
        assert (found.replications == runs.FEWEST) == is_enough


def test_precision_that_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the search is given up, and says so."""
    monkeypatch.setattr(module, "MOST", 40)
    found = compare(by_interval(), 2, precision=Precision(1e-9, relative=False), processes=1)
    assert (found.replications, found.precise) == (40, False)


def test_points_are_for_shares() -> None:
    """A precision in points is refused where tokens per day are compared."""
    wanted = Precision(0.001, relative=False)
    with pytest.raises(RequestError, match="tokens_per_day is not one"):
        compare(variants({"jobs": [JOB]}, {"jobs": [{**JOB, "precision": "fp8"}]}), 2, precision=wanted, processes=1)


# -------------------------------------------------------------------------------------------------- refusals


def test_variants_have_one_seed() -> None:
    """Variants with different seeds meet different failures, and are refused."""
    with pytest.raises(RequestError, match="seed: is 1 and 2"):
        compare(variants({}, {"seed": 2}), 2)


def test_prices_are_in_one_currency() -> None:
    """Dollars and euros are not compared."""
    costs = [{"cost": {"gpu_hour": 2, "currency": name}} for name in ("USD", "EUR")]
    with pytest.raises(RequestError, match="currency: is EUR and USD"):
        compare(variants(*costs), 2)
