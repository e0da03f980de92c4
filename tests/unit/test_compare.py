"""Variants meet the same failures, are compared by what may rank them, and stop when their differences are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ettrick import sim
from ettrick.analysis.contest import runs
from ettrick.analysis.contest.compare import Comparison, Variant, compare
from ettrick.analysis.contest.compare import compare_document as typed_compare_document
from ettrick.analysis.contest.precision import Precision, ReplicationsError
from ettrick.analysis.contest.runs import replicate
from ettrick.analysis.contest.variants import Recipe, Variation, load_variants, recipes, split
from ettrick.analysis.results.run import render
from ettrick.analysis.statistics.differences import MANY, difference, difference_of, replications_to_resolve
from ettrick.analysis.statistics.estimates import mean_interval, means
from ettrick.sim import Ratio
from tests import report_sample
from tests.cases import cases
from tests.documents import compare_document, format_comparison

JOB: dict[str, Any] = {
    "name": "train",
    "gpus": 112,
    "model": "llama3-8b",
    "batch": {"tokens": "7 Mi", "sequence": 8192},
    "parallelism": {"tensor": 8, "pipeline": 2, "data": 7},
    "step_time": "40 s",
}

INTERVALS = [
    {**report_sample.SMALL["checkpoint"]["tiers"][0], "interval": text} for text in ("20 min", "40 min", "1 h")
]


def variants(*changes: dict[str, Any]) -> list[Variant]:
    """Return variants of the small scenario, called by their number."""
    return [Variant(str(number), report_sample.prepare(**change)) for number, change in enumerate(changes)]


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
    first, second, third = found.ensembles
    assert first.counts["candidates"] == second.counts["candidates"] == third.counts["candidates"] > 0
    assert first.down_times == second.down_times == third.down_times


def test_the_same_variant_twice_differs_in_nothing() -> None:
    """Two equal variants differ by exactly zero in every metric, and no number of replications tells them apart."""
    found = compare(variants({}, {}), 4, processes=1)
    changes = {name: change for name, change in found.differences[1].items() if change is not None}
    assert {"ettr", "interruptions", "mtti"} <= set(changes)
    nothing = difference_of(0.0, is_resolved=False)
    assert all(change.model_copy(update={"exact": False}) == nothing for change in changes.values())


def test_without_failures_the_difference_is_that_of_the_stalls() -> None:
    """Saves of 30 s every 20 and every 40 min after an initialization of 3 min: a difference of stalls, to the second.

    Save k of a run of two days ends at 180 + k (interval + 30) seconds.
    """
    found = compare([Variant(name, of.with_sources(())) for name, of in by_interval()[:2]], 2, processes=1)
    horizon = 2 * 86400
    saves = [(horizon - 180) // (interval + 30) for interval in (1200, 2400)]
    change = found.differences[1]["ettr"]
    assert change.mean == pytest.approx((saves[0] - saves[1]) * 30 / horizon, abs=1e-12)
    assert (change.resolved, change.exact, change.ci95) == (True, True, None)
    assert found.replications == 1


@pytest.mark.nightly
def test_numbers_do_not_depend_on_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process and three give the same document, digit by digit."""
    monkeypatch.setattr(runs, "_TRIAL", 0.0)
    monkeypatch.setattr(runs, "_PATIENCE", 0.0)
    texts = [
        render(typed_compare_document(compare(by_interval(), 5, processes=count), {}, command="")) for count in (1, 3)
    ]
    assert texts[0] == texts[1]


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
        ("accelerator", {"jobs": [JOB], "cluster": {**report_sample.SMALL["cluster"], "accelerator": "h200"}}),
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
    assert text_of(found).startswith("0 and 1 are equally good, and better than all others: ")
    alone = compare(variants({}, slow, slow), 16, processes=1)
    assert text_of(alone).startswith("0 has the highest useful share of the time (ETTR): ")


def test_rivals_come_with_the_replications_that_would_tell() -> None:
    """Saves every 20 and every 21 min differ by less than three replications see: the line says how many more would."""
    tiers = [{**INTERVALS[0], "interval": text} for text in ("20 min", "21 min", "22 min")]
    found = compare(variants(*({"checkpoint": {"tiers": [tier]}} for tier in tiers)), 3, processes=1)
    ranking = compare_document(found, {}, command="")["ranking"]
    assert len(ranking["may_be_best"]) > 1
    needed = ranking["replications_to_resolve"]
    worded = "more than 10,000 replications" if needed is None else f"about {needed - 3:,} more replications"
    assert f" is best takes {worded}\n" in text_of(found)


def text_of(found: Comparison) -> str:
    """Return a comparison as the terminal shows it."""
    return str(format_comparison(compare_document(found, {}, command=""), width=200))


def test_precision_is_of_the_differences() -> None:
    """Replications go on until every difference is as precise as was asked for, and no decision comes before 30."""
    coarse = compare(by_interval(), 2, precision=Precision(1.0, relative=False), processes=1)
    assert (coarse.replications, coarse.precise) == (runs.FEWEST, True)
    change = coarse.differences[1]["ettr"]
    half = (change.ci95[1] - change.ci95[0]) / 2
    fine = compare(by_interval(), 2, precision=Precision(0.8 * half, relative=False), processes=1)
    assert fine.precise
    assert fine.replications > runs.FEWEST
    assert fine.replications % runs.BATCH == 0
    for differences in fine.differences[1:]:
        found = differences["ettr"]
        assert (found.ci95[1] - found.ci95[0]) / 2 <= 0.8 * half


def test_a_relative_precision_is_a_part_of_the_first() -> None:
    """A width a little above the half-width over the first variant's mean is reached at once, one below is not."""
    coarse = compare(by_interval()[:2], runs.FEWEST, processes=1)
    change = coarse.differences[1]["ettr"]
    mean = means(coarse.ensembles[0].rows)["ettr"]
    part = (change.ci95[1] - change.ci95[0]) / 2 / mean
    for factor, is_enough in ((1.01, True), (0.99, False)):
        wanted = Precision(factor * part, relative=True)
        found = compare(by_interval()[:2], 2, precision=wanted, processes=1)
        assert (found.replications == runs.FEWEST) == is_enough


def test_points_are_for_shares() -> None:
    """A precision in points is refused where tokens per day are compared."""
    wanted = Precision(0.001, relative=False)
    with pytest.raises(ReplicationsError, match="tokens_per_day is not one"):
        compare(variants({"jobs": [JOB]}, {"jobs": [{**JOB, "precision": "fp8"}]}), 2, precision=wanted, processes=1)


def test_variants_have_one_seed() -> None:
    """Variants with different seeds meet different failures, and are refused."""
    with pytest.raises(ReplicationsError, match="seed: is 1 and 2"):
        compare(variants({}, {"seed": 2}), 2)


def test_prices_are_in_one_currency() -> None:
    """Dollars and euros are not compared."""
    costs = [{"cost": {"gpu_hour": 2, "currency": name}} for name in ("USD", "EUR")]
    with pytest.raises(ReplicationsError, match="currency: is EUR and USD"):
        compare(variants(*costs), 2)


# ----------------------------------------
# Paired differences: their intervals cover what they say, pairing pays, and the number that would resolve is right.

REPETITIONS = 1000


def ratios(amounts: object, bases: object = 1.0) -> list[Ratio]:
    """Return one ratio per replication."""
    pairs = np.broadcast_arrays(np.asarray(amounts, dtype=float), np.asarray(bases, dtype=float))
    return [Ratio(float(a), float(b)) for a, b in zip(*pairs, strict=True)]


def assert_coverage(covered: int, nominal: float = 0.95, slack: float = 0.0) -> None:
    """Fail unless `covered` of REPETITIONS is compatible (99.9 %) with the nominal coverage, less some slack."""
    assert stats.binom.ppf(0.0005, REPETITIONS, nominal - slack) <= covered
    assert covered <= stats.binom.isf(0.0005, REPETITIONS, nominal)


def test_difference_by_hand() -> None:
    """Differences of 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776, so 3 -/+ 1.963."""
    found = difference(ratios([11, 12, 13, 14, 15]), ratios([10, 10, 10, 10, 10]))
    assert (found.mean, *found.ci95) == pytest.approx((3.0, 3.0 - 1.9632, 3.0 + 1.9632), abs=1e-4)
    assert found.resolved


def test_equal_denominators_give_the_difference_within_each_replication() -> None:
    """With one denominator per variant this is Student's interval of the per-replication differences."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(5, 1, 20), rng.normal(4, 1, 20)
    found = difference(ratios(first, 2.0), ratios(second, 8.0))
    apart = first / 2 - second / 8
    assert (found.mean, *found.ci95) == pytest.approx((apart.mean(), *(mean_interval(apart) or ())))


def test_difference_is_that_of_the_reported_ratios() -> None:
    """The mean is the difference of two ratios of sums, whatever the denominators do."""
    rng = np.random.default_rng(2)
    a, b, c, d = rng.gamma(3.0, size=(4, 12))
    found = difference(ratios(a, b), ratios(c, d))
    assert found.mean == pytest.approx(a.sum() / b.sum() - c.sum() / d.sum())


def test_interval_covers_for_correlated_normals() -> None:
    """Five pairs of normal values that share most of their luck: the interval covers as often as it says."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(REPETITIONS):
        luck = rng.normal(0.0, 3.0, 5)
        found = difference(ratios(luck + rng.normal(1.5, 1.0, 5)), ratios(luck + rng.normal(1.0, 0.5, 5)))
        covered += found.ci95[0] <= 0.5 <= found.ci95[1]
    assert_coverage(covered)


def test_interval_covers_for_ratios() -> None:
    """With denominators that vary, the delta method covers the difference of the ratios of means, within 2 %."""
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(REPETITIONS):
        bases = rng.gamma(8.0, 1 / 8.0, (2, 100))
        luck = rng.exponential(1.0, 100)
        found = difference(ratios(3 * bases[0] + luck, bases[0]), ratios(2 * bases[1] + luck, bases[1]))
        covered += found.ci95[0] <= 1.0 <= found.ci95[1]
    assert_coverage(covered, slack=0.02)


def test_a_difference_of_zero_is_resolved_as_often_as_chance_says() -> None:
    """Without a difference, 5 % of the comparisons call it resolved."""
    rng = np.random.default_rng(5)
    resolved = 0
    for _ in range(REPETITIONS):
        found = difference(ratios(rng.normal(0, 1, 8)), ratios(rng.normal(0, 1, 8)))
        resolved += found is not None and found.resolved
    assert_coverage(REPETITIONS - resolved)


@cases(("mean", "spread"), [(1.0, 0.1), (1.0, 1.0), (-0.3, 1.0), (0.05, 1.0), (2.0, 0.0)])
def test_replications_to_resolve_is_the_smallest_number(mean: float, spread: float) -> None:
    """With n replications the half-width t s / sqrt(n) is below |d|, with n - 1 it is not; two are the fewest."""
    n = replications_to_resolve(mean, spread)

    def half(number: int) -> float:
        return float(stats.t.ppf(0.975, number - 1)) * spread / math.sqrt(number)

    assert half(n) < abs(mean)
    assert n == 2 or half(n - 1) >= abs(mean)


def test_replications_to_resolve_gives_up() -> None:
    """Variants that do not differ are never resolved, and a difference of s / 100 would take 38,000 replications."""
    assert replications_to_resolve(0.0, 1.0) is None
    assert replications_to_resolve(0.01, 1.0) is None
    assert (stats.norm.ppf(0.975) / 0.01) ** 2 > MANY


@cases(
    ("ours", "theirs"),
    [
        (ratios([1.0]), ratios([2.0])),
        (ratios([1.0, math.inf]), ratios([1.0, 2.0])),
        (ratios([1.0, 2.0]), ratios([1.0, 2.0], 0.0)),
    ],
    ids=["one replication", "censored", "nothing in the denominator"],
)
def test_no_difference_without_data(ours: list[Ratio], theirs: list[Ratio]) -> None:
    """Without a second replication, a finite amount or a denominator there is no difference."""
    assert difference(ours, theirs) is None


def test_rounding_is_no_difference() -> None:
    """Amounts that differ by the order of a sum alone are the same."""
    found = difference(ratios([0.1 + 0.2, 0.7]), ratios([0.3, 0.7]))
    assert found is not None
    assert found == difference_of(0.0, is_resolved=False)


def test_pairing_narrows_the_interval_of_a_real_difference() -> None:
    """Two checkpoint intervals of the quickstart: the variance of the difference is less than the sum of the two."""
    variants = [
        Variant(text, sim.prepare(sim.load(sim.find("quickstart"), [f"checkpoint.tiers.0.interval={text}"])))
        for text in ("30 min", "40 min")
    ]
    found = compare(variants, 32, processes=1)
    change = found.differences[1]["ettr"]
    mine, theirs = (np.array([row["ettr"].amount / row["ettr"].base for row in of.rows]) for of in found.ensembles)
    unpaired = stats.t.ppf(0.975, 62) * math.sqrt((mine.var(ddof=1) + theirs.var(ddof=1)) / 32)
    assert (change.ci95[1] - change.ci95[0]) / 2 < unpaired / 2


# ----------------------------------------
# What --vary means, how variants are called, and whose mistake it is.


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the small scenario into an empty working folder; return its name."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(report_sample.YAML)
    return "small.yaml"


@cases(
    ("text", "parts"),
    [
        ("a,b", ("a", "b")),
        ("a", ("a",)),
        (" 10 min , 1 h ", ("10 min", "1 h")),
        ("[1, 2],[3]", ("[1, 2]", "[3]")),
        ("{use: a, time: [1, 2]}, {use: b}", ("{use: a, time: [1, 2]}", "{use: b}")),
        ("'a,b',\"c,d\"", ("'a,b'", '"c,d"')),
        ("{name: 'a, }'},b", ("{name: 'a, }'}", "b")),
        ("it's,that's", ("it's", "that's")),
        ("a,,b", ("a", "", "b")),
    ],
)
def test_values_are_split_at_commas_outside_of_brackets_and_quotes(text: str, parts: tuple[str, ...]) -> None:
    """A comma in brackets, braces or quotes belongs to its value; an apostrophe in a word is none of these."""
    assert split(text) == parts


@cases(
    ("text", "rule"),
    [
        ("spares.hot", "--vary spares.hot: needs path=value,value"),
        ("=1,2", "--vary =1,2: needs path=value,value"),
        ("a=1,,2", "--vary a=1,,2: a value is empty"),
        ("a=", "--vary a=: a value is empty"),
        ("a=1,2,1", "--vary a=1,2,1: has 1 twice"),
        ("a=[1,2", "--vary a=[1,2: has no closing ]"),
        ("a='1,2", "--vary a='1,2: has no closing '"),
    ],
)
def test_a_mistake_of_vary_is_one_line(text: str, rule: str) -> None:
    """What is not a path with values is refused in one line."""
    with pytest.raises(ReplicationsError) as caught:
        Variation.parse(text)
    assert str(caught.value).startswith(rule)


def test_all_combinations_in_order() -> None:
    """Scenarios first, then the first path, then the last one fastest; a name holds what varies."""
    names = [recipe.name for recipe in recipes(["x", "y"], ["a=1,2", "b=3,4"])]
    combinations = ["a=1, b=3", "a=1, b=4", "a=2, b=3", "a=2, b=4"]
    assert names == [f"{scenario}, {text}" for scenario in "xy" for text in combinations]
    assert recipes(["x"], ["a=1,2"], ["c=5"])[1] == Recipe("a=2", "x", ("c=5",), ("a=2",))
    assert [recipe.name for recipe in recipes(["x", "y"], [])] == ["x", "y"]


@cases(
    ("scenarios", "varied", "rule"),
    [
        (["x"], [], "nothing to compare"),
        (["x"], ["a=1"], "nothing to compare"),
        (["x", "x"], [], "x: is given twice"),
        (["x"], ["a=1,2", "a=3,4"], "--vary a: is given twice"),
        (["x"], [f"{name}=1,2,3,4,5,6,7,8,9" for name in "abcdefgh"], "--vary: makes more than 200 variants"),
    ],
)
def test_what_makes_no_comparison_is_refused(scenarios: list[str], varied: list[str], rule: str) -> None:
    """One variant, the same twice, or far too many: one line."""
    with pytest.raises(ReplicationsError, match=rule):
        recipes(scenarios, varied)


@pytest.mark.parametrize(
    ("varied", "common"),
    [
        ("recovery.use=slurm-requeue,nvrx-in-job", "recovery.rungs.0.stop.0.time=1 h"),
        ("recovery.rungs.0.stop.0.time=1 h,2 h", "recovery.use=nvrx-in-job"),
        ("recovery={use: slurm-requeue},{use: nvrx-in-job}", "recovery.rungs.0.stop.0.time=1 h"),
        ("detection={time: 1 min},{time: 3 min}", "detection.scale=2"),
        ("recovery.scale=2,3", "recovery={use: full-restart, initialize: 1 min}"),
    ],
)
def test_what_is_set_reaches_every_variant(scenario: str, varied: str, common: str) -> None:
    """A value for all is in each variant, whichever of it and what varies is the choice, or inside the other."""
    path, _, text = varied.partition("=")
    loaded = load_variants(recipes([scenario], [varied], [common]))
    for value, found in zip(split(text), loaded.scenarios.values(), strict=True):
        chooses = path.endswith("use") or value.startswith("{")
        alone, added = f"{path}={value}", common
        assert found == sim.load(scenario, [alone, added] if chooses else [added, alone])
        assert found not in (sim.load(scenario, [alone]) if "rungs" not in path else None, sim.load(scenario))
    assert len(set(map(repr, loaded.scenarios.values()))) == 2


@cases("path", ["spares.hot", "recovery.use", "seed"])
def test_a_path_is_not_set_and_varied(path: str) -> None:
    """What is varied cannot be set too, nor can the choice inside of a mapping that varies: one line."""
    with pytest.raises(
        ReplicationsError, match=rf"^--set {path} = 5: is varied too, by --vary {path}; set it in one place$"
    ):
        recipes(["x"], [f"{path}=1,2"], ["horizon=1 d", f"{path} = 5"])
    with pytest.raises(ReplicationsError, match=r"^--set a\.use=b: is varied too, by --vary a; set it in one place$"):
        recipes(["x"], ["a={use: c},{use: d}"], ["a.use=b"])
    assert recipes(["x"], ["a.use=c,d"], ["a={use: b}", "a.b=1", "a.user=2"])


def refusal(*arguments: list[str]) -> list[str]:
    """Return the lines in which the variants are refused."""
    with pytest.raises(sim.ScenarioError) as caught:
        load_variants(recipes(*arguments))
    assert not caught.value.is_answer
    return list(caught.value.lines)


def test_a_mistake_of_all_variants_is_said_once(scenario: str) -> None:
    """An unknown key is one line for any number of variants, with their names and the nearest one of the key."""
    for values, names in (
        ("0,1", "'spares.hot=0' and 'spares.hot=1'"),
        ("0,1,2", "'spares.hot=0', 'spares.hot=1' and 'spares.hot=2'"),
        ("0,1,2,3,4", "'spares.hot=0', 'spares.hot=1', 'spares.hot=2' and 2 more"),
    ):
        (line,) = refusal([scenario], [f"spares.hot={values}"], ["horizn=1 d"])
        assert line.startswith(f"variants {names}: --set horizn=1 d: horizn: unknown key")
    (line,) = refusal([scenario], ["recovry.use=full-restart,hot-spare"])[:1]
    assert line.startswith("--vary recovry.use=full-restart: recovry: unknown key")
    assert "did you mean 'recovery'?" in line


def test_a_mistake_of_one_variant_names_it(scenario: str) -> None:
    """A wrong value is shown with --vary; what follows from it elsewhere names the variant."""
    (line,) = refusal([scenario], ["recovery.use=hot-spare,hot-spair"])
    assert line.startswith("--vary recovery.use=hot-spair: recovery.use:")
    assert "hot-spare" in line
    (line,) = refusal([scenario], ["cluster.nodes=16,8"])
    assert line.startswith("variant cluster.nodes=8: ")
    assert "asks for 112 GPUs" in line


def test_two_that_can_run_are_compared(scenario: str) -> None:
    """Mistakes leave variants out as long as two remain, each with its reason, and once for all of its combinations."""
    line = "--vary spares.hot=-1: spares.hot: must not be negative"
    loaded = load_variants(recipes([scenario], ["spares.hot=-1,1", "horizon=1 d,2 d,3 d"]))
    assert list(loaded.scenarios) == [f"spares.hot=1, horizon={days} d" for days in (1, 2, 3)]
    assert loaded.cannot_run == {f"spares.hot=-1, horizon={days} d": line for days in (1, 2, 3)}
    assert loaded.reasons == [line]
    assert refusal([scenario], ["spares.hot=-1,1"]) == [line]


def test_stores_of_presets_are_split_off(scenario: str) -> None:
    """Each variant with stores of its preset is followed by itself without these, whatever was changed in them."""
    change = ["checkpoint.from_preset=true", "checkpoint.tiers.1.clique=4"]
    wanted = recipes([scenario], ["recovery.use=nvrx-in-job,nvrx-in-process"], change)
    loaded = load_variants(wanted, split_stores=True)
    names = [f"recovery.use={name}" for name in ("nvrx-in-job", "nvrx-in-process")]
    assert loaded.without_stores == {name: f"{name} without its stores" for name in names}
    assert list(loaded.scenarios) == [each for pair in loaded.without_stores.items() for each in pair]
    tiers: list[Any] = [of.checkpoint for of in loaded.scenarios.values()]
    assert [[tier.store for tier in of.tiers] for of in tiers] == [["remote", "peer-host"], ["remote"]] * 2
    for name, bare in loaded.without_stores.items():
        assert loaded.scenarios[bare].recovery == loaded.scenarios[name].recovery
    assert load_variants(wanted).without_stores == {}
    with pytest.raises(ReplicationsError, match=r"^--split: no variant has stores"):
        load_variants(recipes([scenario], ["recovery.use=nvrx-in-job,slurm-requeue"]), split_stores=True)


def test_what_does_not_fit_is_an_answer(scenario: str) -> None:
    """A job that does not fit into memory is no mistake: its variant cannot run, the other one can."""
    job = "{name: big, gpus: 112, model: llama3-70b, batch: {tokens: 7 Mi, sequence: 8192}}"
    parallelism = "jobs.0.parallelism={tensor: 8, pipeline: 2, data: 7},{data: 112}"
    loaded = load_variants(recipes([scenario], [parallelism], [f"jobs=[{job}]"]))
    assert [name.partition("=")[2] for name in loaded.scenarios] == ["{tensor: 8, pipeline: 2, data: 7}"]
    assert [name.partition("=")[2] for name in loaded.cannot_run] == ["{data: 112}"]
    assert "does not fit" in loaded.cannot_run["jobs.0.parallelism={data: 112}"]
