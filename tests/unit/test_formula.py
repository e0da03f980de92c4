"""``ettrick formula``: each answer against a theory that shares no code with it, amounts, and mistakes in a line."""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

import jsonschema
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from ettrick import cli
from ettrick.analysis.explain.formula import _ANSWERS, FormulaError, answered, format_formula, format_question, formulas
from ettrick.analysis.results.documents import read_document
from ettrick.analysis.results.explained import FormulaDocument, results_schema
from ettrick.analysis.results.run import plain, render
from ettrick.sim.formulas.arrays import real
from ettrick.sim.formulas.goodput import CheckpointStore, FailureClass, efficiency, shares_of_classes
from tests.cases import cases
from tests.oracle.theory.multilevel import multilevel_shares

HOUR, DAY = 3600.0, 86_400.0


def ask(name: str, line: str) -> dict[str, float]:
    """Return the numbers of an answer [SI], as JSON has them; null is not a number."""
    rows = answered(name, line.split()).results
    return {key: math.nan if row.value is None else row.value for key, row in rows.items()}


def test_every_question_is_worked_out() -> None:
    """Each question of the file has a function with its amounts, and each answers to its examples, as text and JSON."""
    assert list(formulas()) == list(_ANSWERS)
    schema = jsonschema.Draft202012Validator(results_schema())
    for name, entry in formulas().items():
        names = [row.name.replace("-", "_") for row in entry.inputs]
        assert sorted(inspect.signature(_ANSWERS[name]).parameters) == sorted(names), name
        found = answered(name, [word for row in entry.inputs for word in (f"--{row.name}", *row.example.split())])
        text, content = format_formula(found), json.loads(render(found))
        schema.validate(content)
        assert plain(read_document("formula", content, FormulaDocument)) == content
        for said in (*(row.meaning for row in found.results.values()), entry.reference, *entry.equation.splitlines()):
            assert said in text, name
        assert all(f"--{row.name} " in format_question(name) for row in entry.inputs), name
        assert all(row.value is not None for row in found.results.values()), name


def test_interval_is_the_best() -> None:
    """No other interval has a better ETTR than the exact one, and none with a drain is better than that with it."""
    best = ask("checkpoint-interval", "--write 5 min --mtti 1 h --restart 4 min --downtime 1 min")
    grid = np.linspace(60.0, HOUR, 2000)
    assert best["exact_ettr"] >= np.max(efficiency(grid, 300.0, HOUR, 240.0, 60.0)) > best["exact_ettr"] - 1e-6
    assert best["young"] == pytest.approx(math.sqrt(2 * 300 * HOUR))
    assert best["young_ettr"] < best["exact_ettr"]
    # Here the drain is longer than the best interval without one, which it therefore sets.
    found = ask("async-interval", "--drain 40 min --write 5 s --mtti 3 h")
    grid = np.linspace(2400.0, 3 * HOUR, 2000)
    assert found["interval"] == 2400.0 > found["interval_without_drain"]
    assert found["ettr"] >= np.max(efficiency(grid, 5.0, 3 * HOUR, 0.0, 0.0, 2400.0))
    assert found["ettr"] == pytest.approx(2400 / (3 * HOUR) * math.exp(-2 / 9) / math.expm1(2405 / (3 * HOUR)))


def test_interruptions_of_llama3() -> None:
    """419 in 54 days of 16,384 GPUs: an MTTI of 3.09 h, and an interval as of the quantiles of chi-squared."""
    rate = ask("rate-interval", "--events 419 --time 54 d --parts 16384")
    exposure = 54 * 16384
    ends = [stats.chi2.ppf(q, 839) / 2 / exposure for q in (0.025, 0.975)]
    assert [rate["rate_low"], rate["rate_high"]] == pytest.approx(ends)
    assert [rate["mtbf_low"], rate["mtbf_high"]] == pytest.approx([DAY / ends[1], DAY / ends[0]])
    whole = ask("mtti", f"--mtbf {rate['mtbf']!r} s --parts 16384 --over 3 h")
    assert whole["mtti"] == pytest.approx(54 * 24 / 419 * HOUR)
    assert whole["none"] == pytest.approx(math.exp(-3 * 419 / 54 / 24))
    both = ask("mtti", f"--mtbf {rate['mtbf']!r} s --parts 16384 --other {whole['mtti']!r} s")
    assert both["per_day"] == pytest.approx(2 * 419 / 54)
    # Nothing was seen in 1,000 node-days: at most 3 of 1,000, and no MTBF.
    none = ask("rate-interval", "--events 0 --time 100 d --parts 10")
    assert none["rate_high"] == pytest.approx(math.log(20) / 1000)
    assert math.isnan(none["mtbf"])
    assert none["mtbf_low"] == pytest.approx(1000 / math.log(20) * DAY)


def test_ettr_is_that_of_its_equation() -> None:
    """The shares add up to 1, and ETTR is the equation by hand; to the first order the loss per failure by hand."""
    found = ask("ettr", "--interval 30 min --write 1 min --mtti 3 h --restart 5 min --downtime 2 min --drain 5 min")
    first = found.pop("first_order")
    assert sum(found.values()) == pytest.approx(1)
    growth = math.expm1(31 / 180)
    assert found["productive"] == pytest.approx(30 / 180 * math.exp(-10 / 180) / growth / (1 + 2 / 180))
    assert first == pytest.approx((1 - (5 + 2 + 5 + 15) / 180) / (1 + 1 / 30))


def test_two_levels_beat_one() -> None:
    """The plan is the best of a grid of another theory; with the same restart, one store is the known one."""
    line = "--local-write 5 s --remote-write 2 min --remote-share 10 % --mtti 3 h --restart 5 min"
    found = ask("two-level", line)
    mtti, local, remote = 3 * HOUR, found["local_interval"], found["remote_interval"]
    assert found["remote_alone_ettr"] == pytest.approx(efficiency(found["remote_alone_interval"], 120.0, mtti, 300.0))
    assert found["ettr"] > found["remote_alone_ettr"] + 0.05

    def exact(every: float, times: int) -> float:
        rates, costs = [0.9 / mtti, 0.1 / mtti], [5.0, 120.0]
        return float(multilevel_shares(every, [times], costs, rates, [300.0, 300.0])["productive"])

    # Where failures are frequent the first-order start is far off, and no neighbour of the answer is better.
    often = ask("two-level", line.replace("3 h", "20 min"))
    parts = [FailureClass(0.9, 0, math.exp(-0.25), store=0), FailureClass(0.1, 0, math.exp(-0.25), store=1)]
    for one, other in ((0.95, 1), (1.05, 1), (1, 0.95), (1, 1.05)):
        stores = [
            CheckpointStore(one * often["local_interval"], 5.0),
            CheckpointStore(other * often["remote_interval"], 120.0),
        ]
        assert real(shares_of_classes(1 / 1200, parts, stores).productive) < often["ettr"]
    best = max(exact(every, times) for every in np.geomspace(0.5, 2, 9) * local for times in range(4, 40, 2))
    assert found["ettr"] == pytest.approx(best, abs=0.01)
    assert exact(local, round(remote / local)) == pytest.approx(best, abs=0.003)


def test_mtbf_needed_is_enough() -> None:
    """With the MTBF that is answered, the best interval gives the ETTR that is asked for; with less it does not."""
    found = ask("mtbf-needed", "--ettr 95 % --parts 2048 --write 1 min --restart 5 min --downtime 2 min")
    for factor, holds in ((1.0001, True), (0.9999, False)):
        mtti = found["mtbf"] / 2048 * factor
        then = ask("checkpoint-interval", f"--write 1 min --mtti {mtti!r} s --restart 5 min --downtime 2 min")
        assert (then["exact_ettr"] >= 0.95) is holds
    # A failure that costs only its restart: exp(-u / M) = 0.9.
    alone = ask("mtbf-needed", "--ettr 90 % --parts 1 --write 0 --restart 6 min")
    assert alone["mtti"] == pytest.approx(-360 / math.log(0.9), rel=1e-6)


def test_spares_and_redundancy_are_binomial() -> None:
    """Spares and groups are the fewest that are enough by scipy's law; of one group by the mean of its serving time."""
    down = 44 / (44 + 24 * 1000 / 6.5)
    found = ask("spares", "--needed 2048 --mtbf 6.5 per 1000 node-days --repair 44 h --probability 99.9 %")
    spares = round(found["spares"])
    assert stats.binom.cdf(spares, 2048 + spares, down) >= 0.999 > stats.binom.cdf(spares - 1, 2047 + spares, down)
    assert found["enough"] == pytest.approx(stats.binom.cdf(spares, 2048 + spares, down))
    rack = ask("k-of-n", "--parts 18 --needed 16 --mtbf 6.5 per 1000 node-days --repair 44 h")
    law = stats.binom(18, down)
    assert rack["available"] == pytest.approx(law.cdf(2))
    assert rack["short_per_year"] == pytest.approx(law.sf(2) * 365.2425 * DAY)
    assert rack["missing"] == pytest.approx(sum(law.sf(k) for k in range(2, 18)))
    # A cycle L + r of one node, of which it serves the mean of max(life - reload, 0) = L exp(-reload / L).
    one = ask("n-plus-k", "--groups 10 --size 1 --mtbf 10 d --repair 1 d --reload 2 d --probability 99 %")
    q = 1 - 10 * math.exp(-0.2) / 11
    assert one["unavailability"] == pytest.approx(q)
    k = round(one["extra"])
    assert one["enough"] == pytest.approx(stats.binom.cdf(k, 10 + k, q))
    assert one["enough_with_one_less"] == pytest.approx(stats.binom.cdf(k - 1, 9 + k, q))
    assert one["enough"] >= 0.99 > one["enough_with_one_less"]


def test_shortage_and_pools() -> None:
    """One node without a spare waits for all of its repairs; a shared pool is empty as Poisson's law has it."""
    one = ask("shortage", "--needed 1 --spares 0 --mtbf 9 d --repair 1 d")
    assert one["share"] == pytest.approx(0.1)
    assert one["wait"] == pytest.approx(DAY)
    assert one["no_spare"] == 1
    # With R nodes that fail also while the job waits: more than s of R + s are down.
    many = ask("shortage", "--needed 100 --spares 3 --mtbf 99 d --repair 1 d")
    assert many["share"] == pytest.approx(stats.binom.sf(3, 103, 0.01))
    pool = ask("pool-empty", "--parts 4096 --mtbf 6.5 per 1000 node-days --repair 44 h --spares 60")
    assert pool["empty"] == pytest.approx(stats.poisson.sf(59, 4096 * 6.5e-3 / 24 * 44))


def test_gangs_saturate_where_the_survey_says() -> None:
    """The worst mixture of jobs of one slot and of all leaves 0.8536 of two slots and 0.5688 of eight in use."""
    for slots, worst in ((2, 0.8536), (8, 0.5688)):
        found = min(
            ask("gang-saturation", f"--slots {slots} --small {p / 10:g} %")["occupancy"] for p in range(5, 1000, 5)
        )
        assert found == pytest.approx(worst, abs=5e-5)


@cases(
    ("line", "message"),
    [
        ("mtbi", "formula: unknown question 'mtbi'; did you mean 'mtti'? (choose from "),
        ("mtti --mtbf 3 h", "formula mtti: --parts is missing: parts of the job, each of which interrupts it, a whole"),
        ("mtti --mtbf 3 --parts 2", "--mtbf: '3' needs a unit (for example"),
        ("mtti --mtbf 3 GB --parts 2", "--mtbf: 'GB' is a unit of size, not of time; a time or rate such"),
        ("mtti --mtbf 3 per day per week --parts 2", "--mtbf: '3 per day per week' is not a rate"),
        (
            "mtti --mtbf 0 s --parts 2",
            "--mtbf: must be above 0, got '0 s'; a time or rate such as 6.5 per 1000 node-days",
        ),
        ("mtti --mtbf 3 h --parts 0", "--parts: must be at least 1, got '0'; a whole number from 1 such as 2048"),
        ("mtti --mtbf 3 h --parts 2.5", "--parts: '2.5' is not a whole number"),
        ("mtti --mtbf 3 h --part 2", "formula mtti: unknown option --part; did you mean 'parts'?"),
        ("mtti --mtbf 3 h --mtbf 3 h --parts 2", "formula mtti: --mtbf is given twice"),
        ("mtti 3 h --mtbf 3 h --parts 2", "formula mtti: '3' belongs to no option, such as --mtbf"),
        ("mtti --json", "formula mtti: --mtbf is missing"),
        ("--json", "--json: needs a question with its amounts"),
        (
            "spares --needed 8 --mtbf 1 d --repair 1 h --probability 1",
            "--probability: must be above 0 and below 1, got",
        ),
        (
            "spares --needed 8 --mtbf 1 d --repair 1 h --probability 0.9 --dispersion 9",
            "formula spares: dispersion must",
        ),
        (
            "spares --needed 8 --mtbf 1 d --repair 1 h --probability 0.9 --dispersion x",
            "--dispersion: 'x' is not a num",
        ),
        ("ettr --interval 1 min --write 1 s --mtti 1 h --drain 2 min", "formula ettr: drain must not exceed interval"),
        ("k-of-n --parts 2 --needed 3 --mtbf 1 d --repair 1 h", "formula k-of-n: --needed 3 is more than --parts 2"),
        ("mtbf-needed --ettr 0.9 --parts 3 --write 0", "formula mtbf-needed: a failure costs nothing without a write"),
    ],
)
def test_mistakes_are_one_line(line: str, message: str) -> None:
    """What cannot be used is named in one line, with the rule or the nearest name, and exit status 2."""
    found: Any = CliRunner().invoke(cli.app, ["formula", *line.split()])
    assert found.exit_code == 2
    assert found.stderr.startswith(message), found.stderr
    assert found.stderr.count("\n") == 1
    assert not found.stdout


def test_amounts_are_read_as_in_scenarios() -> None:
    """Quoted, unquoted or with an equals sign an amount is the same; an MTBF may be a rate, a count have a prefix."""
    wanted = answered("mtti", ["--mtbf", "2 d", "--parts", "2048"])
    for texts in (
        ["--mtbf=2 d", "--parts=2 Ki"],
        ["--mtbf", "2", "d", "--parts", "2", "Ki"],
        ["--mtbf=0.5 / day", "--parts=2048"],
    ):
        assert answered("mtti", texts) == wanted
    with pytest.raises(FormulaError, match="must be finite"):
        answered("mtti", ["--mtbf", "0 per day", "--parts", "1"])


@pytest.mark.parametrize(
    ("name", "line", "row", "value", "bound"),
    [
        # A failure costs restart and half an interval, 20 + 60 min of an MTTI of 10 min: below zero to the first order.
        ("ettr", "--mtti 10min --write 5min --restart 20min --interval 2h", "first_order", None, "8 M): too low"),
        # 1 - (5 + 15) / 60, over 1 + 1/30: 0.645, where 0.672 are left.
        ("ettr", "--mtti 1h --write 1min --restart 5min --interval 30min", "first_order", 0.6452, "too low"),
        ("ettr", "--mtti 100h --write 1min --restart 5min --interval 30min", "first_order", 0.9645, ""),
        # sqrt(2 x 2 h x 1 h): no optimum is above M.
        ("checkpoint-interval", "--write 2h --mtti 1h", "young", 7200.0, "the best is 56.9 min"),
        ("checkpoint-interval", "--write 1min --mtti 1h", "young", 657.3, ""),
        # 410 in repair, and the pool has 80.
        ("pool-empty", "--parts 4096 --mtbf 100d --repair 10d --spares 80", "empty", 1.0, "an upper bound"),
        ("pool-empty", "--parts 4096 --mtbf 100d --repair 1d --spares 80", "empty", 4.428e-8, ""),
        ("two-level", "--local-write 5min --remote-write 1h --remote-share 10% --mtti 20min", "ettr", None, "70 %"),
    ],
)
def test_an_approximation_outside_its_range_says_so(name: str, line: str, row: str, value: Any, bound: str) -> None:
    """It has no impossible number, and the bound or the exact number beside it."""
    found = answered(name, line.split())
    result = found.results[row]
    assert (bound in result.note) if bound else not result.note
    if result.note:
        assert f"outside its range {result.note.split('outside its range ')[1]}" in format_formula(found)
    if value is not None:
        assert result.value == pytest.approx(value, rel=2e-3, abs=1e-9)


def test_no_share_is_impossible() -> None:
    """Whatever the amounts, every share of every question is between nothing and all, or there is none."""
    worst = {"mtti": "1 min", "mtbf": "1 min", "write": "1 h", "restart": "1 h", "repair": "10 d", "drain": "1 h"}
    for name, entry in formulas().items():
        changed = {row.name: worst.get(row.name, row.example) for row in entry.inputs}
        try:
            found = answered(name, [word for key, text in changed.items() for word in (f"--{key}", *text.split())])
        except FormulaError:
            continue  # it says itself that there is no answer
        for row in found.results.values():
            assert row.unit != "share" or row.value is None or 0 <= row.value <= 1, name


def test_the_best_stock_of_many_parts_is_found_at_once() -> None:
    """Of 10,000 a day for 10 days the law is normal: its quantile of 100 / 101 is 2.33 standard deviations above."""
    found = ask("stock", "--parts 100000 --mtbf 10d --lead 10d --stock 4")
    assert found["best_stock"] == pytest.approx(1e5 + stats.norm.ppf(100 / 101) * math.sqrt(1e5), abs=5)
