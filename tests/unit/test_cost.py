"""Cost is what the scenario's prices say: worked out by hand, shared out without a rest, and beside all else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cli
import sim
from analysis.metrics import job_spending, ratios, spending
from analysis.page.chapters.run import format_run as typed_format_run
from analysis.results.models import RunDocument
from analysis.results.run import cost_content
from analysis.results.run import document as typed_document
from analysis.runs import replicate
from tests import small
from tests.cases import cases
from tests.typed import as_plain, of_plain
from tests.unit.bad_input import costs

if TYPE_CHECKING:
    from tests.unit.bad_input import Bad

document = as_plain(typed_document)
format_run = of_plain(typed_format_run, RunDocument)

OWNED = {"capex": 40_000, "years": 5}
BATCH = {"tokens": 1_000_000, "sequence": 1000}
TRAIN = {"name": "train", "gpus": 112, "step_time": "10 s", "batch": BATCH}
PAIR = [{**TRAIN, "name": "large", "gpus": 64, "work": {"time": "12 h"}}, {**TRAIN, "name": "small", "gpus": 32}]
"""Two jobs that fit beside each other, one of which ends early."""


def parts(prepared: sim.Prepared, *results: sim.Result) -> dict[str, Any]:
    """Return what a cost is made of."""
    content = cost_content(small.tally(prepared, *results))
    assert content is not None
    return content


def failing(**changes: Any) -> list[dict[str, Any]]:
    """Return a frequent cause with changes."""
    return [{**small.SMALL["failures"][0], **changes}]


# ------------------------------------------------------------------------------------------------ by hand


def test_two_nodes_to_the_cent(tmp_path: Path) -> None:
    """16 GPUs for ten days, of which one node was out for three hours and nobody worked for the first day.

    Capex 16 x 40,000 x 10 / (5 x 365.2425) = 3,504.52. Energy: idle 45 node-hours at 2.6 kW, 432 at 8 kW and 240 h of
    1 kW of storage are 3,813 kWh; x PUE 1.25 x 0.08 = 381.30. Storage 3,652.425 a year = 100.00. Three repairs of nodes
    at 500 and as much work at 200 each.
    """
    log = tmp_path / "log.csv"
    log.write_text("unit,start,end,cause\nn0,1,2,fan\nn0,5,6,fan\nn0,9,10,fan\n", encoding="utf-8")
    prepared = small.prepare(
        cluster={"nodes": 2},
        horizon="10 d",
        jobs=[{**TRAIN, "gpus": 16, "arrival": "1 d"}],
        failures=[{"use": "replay", "file": str(log), "time_unit": "h"}],
        checkpoint={"tiers": [{"interval": "20 d", "mode": "blocking", "write": "30 s", "restore": "1 min"}]},
        recovery={"use": "hot-spare", "initialize": "0 s"},
        spares={"hot": 0},
        power={"pue": 1.25, "switch": "0 W", "storage": "1 kW", "idle": "2.6 kW", "training": "8 kW"},
        cost={**OWNED, "energy": 0.08, "storage": 3652.425, "repair": {"node": 500, "gpu": 3000}, "labour": 200},
    )
    result = sim.run(prepared, 0)
    content = parts(prepared, result)
    expected = {"capex": 3504.52, "energy": 381.30, "storage": 100.0, "repair": 1500.0, "labour": 600.0, "rent": 0.0}
    assert {name: round(content[name], 2) for name in expected} == expected
    assert round(content["total"], 2) == 6085.82
    assert content["repairs"] == {"node": 3}
    tokens = 9 * 86_400 / 10 * 1_000_000
    assert spending(prepared, result)["cost_per_token"] == pytest.approx((6085.82, tokens), rel=1e-5)


def test_rent_is_a_price_per_hour() -> None:
    """128 GPUs for two days at 2.50 an hour cost 15,360, whatever happens to them; nothing else is paid for."""
    prepared = small.prepare(cost={"gpu_hour": 2.5, "currency": "EUR"})
    content = parts(prepared, sim.run(prepared, 0))
    assert content.pop("currency") == "EUR"
    assert (content["rent"], content["total"]) == (pytest.approx(128 * 48 * 2.5), pytest.approx(15_360))
    assert [content[name] for name in ("capex", "energy", "storage", "repair", "labour")] == [0, 0, 0, 0, 0]


# -------------------------------------------------------------------------------------------------- repairs


@cases("part", ["node", "gpu"])
def test_repairs_are_the_outages_of_the_log(part: str) -> None:
    """Each outage is one repair of the part that failed, of spares too; planned work costs nothing."""
    rate = f"200 per 1000 {part}-day" if part == "node" else "25 per 1000 gpu-day"
    planned = {"use": "maintenance", "name": "firmware", "windows": [{"start": "30 h", "duration": "1 h", "units": 3}]}
    sources = [*failing(part=part, rate=rate), planned]
    prepared = small.prepare(failures=sources, horizon="20 d", cost={**OWNED, "repair": {part: 1}, "labour": 1})
    result = sim.run(prepared, 0, keeps_log=True)
    outages = [outage for outage in result.outages if outage.cause == 1]
    assert len(outages) > 20
    content = parts(prepared, result)
    assert content["repairs"] == {part: len(outages)}
    assert content["repair"] == content["labour"] == len(outages)
    assert len(outages) > result.jobs[0].interruptions[1]


def test_failures_of_software_are_not_repaired() -> None:
    """A failure of the job as a whole, and one that is over at once, cost neither a part nor work."""
    bug = {"use": "job", "name": "bug", "rate": "5 per job-day"}
    prices = {**OWNED, "repair": {"node": 1}, "labour": 1}
    for changes in ({"failures": [bug]}, {"repair": {"time": "0 s"}}):
        prepared = small.prepare(**changes, cost=prices)
        result = sim.run(prepared, 0)
        assert sum(result.jobs[0].interruptions.values()) > 0
        assert parts(prepared, result)["repairs"] == {}


def test_courses_through_tiers_are_repairs() -> None:
    """With tiers of repair, what began is what has ended and what is still there."""
    tiers = [{"name": "reset", "time": "1 h", "escalates": 0.5}, {"name": "swap", "time": "1 d"}]
    prepared = small.prepare(repair={"use": "tiers", "tiers": tiers}, horizon="10 d", cost={**OWNED, "labour": 1})
    result = sim.run(prepared, 0)
    assert result.counts["repairs"] > 10
    assert 0 <= parts(prepared, result)["repairs"]["node"] - result.counts["repairs"] <= 16


def test_repairs_of_the_warm_up_are_not_paid_for(tmp_path: Path) -> None:
    """Of three repairs, two of which begin before the accounting window does, one is counted."""
    log = tmp_path / "log.csv"
    log.write_text("unit,start,end,cause\nn0,1,2,fan\nn0,23,25,fan\nn0,30,31,fan\n", encoding="utf-8")
    replay = [{"use": "replay", "file": str(log), "time_unit": "h"}]
    prepared = small.prepare(failures=replay, warmup="1 d", cost={**OWNED, "labour": 1})
    assert parts(prepared, sim.run(prepared, 0))["repairs"] == {"node": 1}


def test_cables_that_cut_nobody_off_are_repaired_too() -> None:
    """A spine that fails interrupts nobody, but somebody mends it."""
    spine = {"use": "component", "name": "spine", "part": "spine", "rate": "1 per spine-day"}
    cluster = {"nodes": 16, "fabric": {"leaf": {"nodes": 4}}}
    jobs = [{**TRAIN, "communication": 0.3}]
    prepared = small.prepare(cluster=cluster, jobs=jobs, failures=[spine], cost={**OWNED, "repair": {"spine": 10}})
    result = sim.run(prepared, 0)
    content = parts(prepared, result)
    assert result.counts["degraded"] == content["repairs"]["spine"] > 0
    assert content["repair"] == 10 * content["repairs"]["spine"]


@cases(("repaired", "part", "each"), [("part", "rack", 1), ("nodes", "node", 4)])
def test_incidents_are_repaired_as_they_say(repaired: str, part: str, each: int) -> None:
    """An incident in a rack of four nodes is one repair of the rack, or one of each of its nodes."""
    incident = {"use": "incident", "name": "leak", "part": "rack", "rate": "1 per rack-day", "repaired": repaired}
    prepared = small.prepare(failures=[incident], cost={**OWNED, "labour": 1})
    result = sim.run(prepared, 0)
    assert result.counts["failures"] > 2
    assert parts(prepared, result)["repairs"] == {part: each * result.counts["failures"]}


# ------------------------------------------------------------------------------------------------- metrics


def test_cost_per_token_is_a_ratio_of_sums() -> None:
    """Cost over the tokens that survived, both summed over the replications, for energy as well."""
    prepared = small.prepare(jobs=[TRAIN], cost={**OWNED, "energy": 0.1})
    found = replicate(prepared, 4, processes=1, keeps_log=True)
    metrics = document(found, command="")["metrics"]
    tokens = sum(result.jobs[0].work for result in found.results) * 1e5
    for name in ("cost", "energy"):
        amounts = [row[name].amount for row in found.rows]
        assert metrics[name]["mean"] == pytest.approx(sum(amounts) / 4, rel=1e-12)
        assert metrics[f"{name}_per_token"]["mean"] == pytest.approx(sum(amounts) / tokens, rel=1e-12)


def test_parts_add_up_to_the_metric() -> None:
    """The parts of the cost add up to its total, which is the mean of the metric, and what the only job bears."""
    prices = {**OWNED, "energy": 0.1, "storage": 1e5, "repair": {"node": 500}, "labour": 100}
    content = document(replicate(small.prepare(cost=prices), 3, processes=1), command="")
    cost = content["cost"]
    six = [cost[name] for name in ("capex", "energy", "storage", "repair", "labour", "rent")]
    assert min(six[:5]) > 0
    assert sum(six) == pytest.approx(cost["total"], rel=1e-12)
    assert cost["total"] == pytest.approx(content["metrics"]["cost"]["mean"], rel=1e-12)
    assert content["per_job"]["train"]["metrics"]["cost"] == content["metrics"]["cost"]
    assert cost["energy"] == pytest.approx(content["energy"]["total_j"] / 3.6e6 * 0.1, rel=1e-12)


@cases("rule", ["requested", "gpus"])
def test_jobs_share_the_whole_cost(rule: str) -> None:
    """Shares of several jobs add up to the cluster's cost, and are as what they asked for, or as their GPUs."""
    prepared = small.prepare(jobs=PAIR, cost={"gpu_hour": 2.0, "allocation": rule})
    result = sim.run(prepared, 0)
    mine = job_spending(prepared, result)
    for name in ("cost", "energy"):
        amounts = [row[name].amount for row in mine]
        assert sum(amounts) == pytest.approx(spending(prepared, result)[name].amount, rel=1e-12)
        asked = [job.requested if rule == "requested" else job.gpus for job in result.jobs]
        assert amounts[0] / amounts[1] == pytest.approx(asked[0] / asked[1])
    assert result.jobs[0].requested / result.jobs[1].requested != pytest.approx(2)
    assert mine[1]["cost_per_token"].base == pytest.approx(result.jobs[1].work * 1e5)


def test_one_job_bears_everything() -> None:
    """The only job has the cost of the whole cluster, its idle nodes included."""
    prepared = small.prepare(cost=OWNED)
    result = sim.run(prepared, 0)
    assert job_spending(prepared, result) == [spending(prepared, result)]


def test_several_jobs_without_a_rule_have_no_energy_of_their_own() -> None:
    """Where nobody says how jobs share the cluster, energy is the cluster's alone."""
    prepared = small.prepare(jobs=PAIR)
    result = sim.run(prepared, 0)
    assert job_spending(prepared, result) == [{}, {}]
    assert spending(prepared, result)["energy"].amount > 0


def test_only_what_is_known_is_there() -> None:
    """Without prices there is no cost, and without tokens nothing is per token."""
    prepared = small.prepare()
    assert set(spending(prepared, sim.run(prepared, 0))) == {"energy"}
    assert cost_content(small.tally(prepared)) is None
    all_known = small.prepare(jobs=[TRAIN], cost=OWNED)
    names = {"energy", "cost", "energy_per_token", "cost_per_token", "tokens_per_gpu_day", "tokens_per_mw_day"}
    assert set(spending(all_known, sim.run(all_known, 0))) == names
    plain = {"name": "other", "gpus": 8, "step_time": "10 s"}
    half_known = small.prepare(jobs=[{**TRAIN, "gpus": 64}, plain], cost={**OWNED, "allocation": "gpus"})
    result = sim.run(half_known, 0)
    assert set(spending(half_known, result)) == {"energy", "cost"}
    assert [set(row) for row in job_spending(half_known, result)] == [names, {"energy", "cost"}]


def test_prices_change_nothing_else() -> None:
    """A scenario has the same buckets, events and metrics with and without prices."""
    plain, priced = small.prepare(), small.prepare(cost=OWNED, power={"pue": 2, "idle": "1 kW"})
    first, second = sim.run(plain, 0), sim.run(priced, 0)
    assert np.array_equal(first.cluster, second.cluster)
    assert (first.counts, first.repairs, first.events) == (second.counts, second.repairs, second.events)
    common = ratios(plain, first)
    del common["energy"]
    assert {name: ratios(priced, second)[name] for name in common} == common


# -------------------------------------------------------------------------------------------------- surface


def test_prices_are_written_back() -> None:
    """What is read is written so that it is read the same again, for both ways and for power."""
    for cost in ({"gpu_hour": 2.5}, {**OWNED, "repair": {"gpu": 3000}, "allocation": "gpus"}):
        scenario = small.parse(cost=cost, power={"switch": "1 kW"})
        assert sim.parse(scenario.dump()) == scenario


def test_the_table_shows_what_a_run_takes() -> None:
    """Energy, cost and the cost of a million tokens are rows of the table; without prices there is only energy."""

    def show(**changes: Any) -> str:
        prepared = small.prepare(**changes)
        content = document(replicate(prepared, 2, processes=1), command="")
        return format_run(content, prepared)

    text = show(jobs=[TRAIN], cost={"gpu_hour": 2.5, "currency": "EUR"})
    assert re.search(r"^energy of the facility +[\d.]+ MWh", text, re.MULTILINE)
    assert re.search(r"^cost +15,360 EUR", text, re.MULTILINE)
    assert re.search(r"^cost of a million tokens +[\d.]+ EUR", text, re.MULTILINE)
    assert not re.search(r"^cost", show(), re.MULTILINE)


@pytest.mark.parametrize("bad", costs.CASES[::4], ids=lambda bad: bad.name)
def test_bad_prices_at_the_command_line(bad: Bad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad price is one line on standard error, and the exit status 2."""
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_bytes(bad.content)
    answer = CliRunner().invoke(cli.app, ["run", "s.yaml"], prog_name="ettrick")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith(bad.place)
