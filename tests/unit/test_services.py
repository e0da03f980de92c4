"""Services: what a scenario may say of them, what `explain` and `layouts` say, and the exact laws of their spares."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sim
from analysis.services import describe_service
from cli import app
from sim.formulas.nodes import groups_with_spares
from sim.scenario.services import ServingLayout
from sim.steps.serving import decode, handover, prefill, reading_rate, time_per_token
from sim.yamlfile import dump
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

    from sim import PreparedService

HOUR = 3600.0


def document(**changes: Any) -> dict[str, Any]:
    """Return a scenario of a service alone, with some changes of the service."""
    service: dict[str, Any] = {
        "name": "chat",
        "model": "llama3-70b",
        "replicas": 40,
        "parallelism": {"tensor": 4},
        "demand": {"rate": "240 per s", "input": {"mean": 1155, "cv": 0.96}, "output": {"mean": 211, "cv": 0.77}},
        "slo": {"ttft": "2 s", "tpot": "50 ms"},
    }
    return {
        "name": "serve",
        "cluster": {"nodes": 22, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8, "radix": 64}},
        "horizon": "30 d",
        "services": [service | changes],
        "failures": [{"use": "component", "name": "node", "part": "node", "rate": "6.5 per 1000 node-days"}],
        "detection": {"time": "1 min"},
        "spares": {"hot": 2, "idle": "withhold"},
        "repair": {"time": "1 d"},
        "cost": {"gpu_hour": 2.5},
    }


def service(**changes: Any) -> PreparedService:
    """Return the one service of the scenario."""
    return sim.services_of(sim.examine(sim.parse(document(**changes))))[0]


@cases(
    "spares, share, all_up",
    [(0, 0.990459, None), (1, 0.998948, 0.976504), (2, 0.999891, 0.997490), (3, 0.999962, 0.999103)],
)
def test_spares_of_24_replicas(spares: int, share: float, all_up: float | None) -> None:
    """24 replicas of 8 GPUs: one GPU fails every 20,000 h, reload 5 min, repair 24 h; a chain solved by hand."""
    found = groups_with_spares(24, spares, 8 / (20_000 * HOUR), 0.0, 300.0, 24 * HOUR)
    assert found.share == pytest.approx(share, abs=5e-7)
    assert found.pmf.sum() == pytest.approx(1)
    if all_up is not None:
        assert found.pmf[24] == pytest.approx(all_up, abs=5e-7)


def test_without_spares_a_group_alternates() -> None:
    """Without spares each group is up 1 / (1 + rate x (repair + reload)) of the time, independent of the others."""
    fail, restart, load, repair = 1e-6, 3e-6, 300.0, 80_000.0
    found = groups_with_spares(30, 0, fail, restart, load, repair)
    share = 1 / (1 + fail * (repair + load) + restart * load)
    assert found.share == pytest.approx(share, rel=1e-9)
    law = [math.comb(30, k) * share**k * (1 - share) ** (30 - k) for k in range(31)]
    np.testing.assert_allclose(found.pmf, law, atol=1e-9)


def test_a_scenario_of_services_alone_is_read_back() -> None:
    """What is written down describes the same scenario, and nothing of jobs has to be stated."""
    found = sim.parse(document())
    assert sim.parse(found.dump()) == found
    assert "jobs" not in found.dump()


def test_narrow_replicas_share_a_node_and_fall_with_it() -> None:
    """Two replicas of 4 GPUs stop with their node: 20 groups of 40 replicas, each at the rate of a node."""
    found = service()
    assert found.groups == 20
    assert found.failing.fail == pytest.approx(6.5e-3 / 86_400)
    wide = service(replicas=10, parallelism={"tensor": 8, "pipeline": 2}, overload="reject")
    assert wide.groups == 10
    assert wide.failing.fail == pytest.approx(2 * found.failing.fail)


def test_reload_counts_detection_weights_and_start() -> None:
    """A node reads the weights of all its replicas."""
    found = service(recovery={"bandwidth": "10 GB/s", "start": "100 s"})
    assert found.failing.load == pytest.approx(60 + 8 * found.replica.weight_bytes / 10e9 + 100)
    assert found.failing.repair == pytest.approx(86_400)


def test_batch_of_the_slo_takes_just_its_time() -> None:
    """At the batch that the SLO allows the mean time per token is that of the SLO."""
    found = service()
    assert float(time_per_token(found.replica, found.within, found.requests)) == pytest.approx(0.05, rel=1e-6)
    assert found.load == pytest.approx(240 / (40 * found.carried))


def test_a_measured_point_is_met() -> None:
    """With a calibration the model says at the measured batch what was measured."""
    found = service(calibration={"tpot": "30 ms", "batch": 32})
    assert float(time_per_token(found.replica, 32.0, found.requests)) == pytest.approx(0.03)


def test_replay_agrees_with_the_fluid_below_80_percent() -> None:
    """Little's law: mean sequences in flight of the replay are those of the closed form within 5 %."""
    found = service()
    served = found.replayed(found.load)
    assert served.sequence_seconds / served.busy == pytest.approx(found.in_flight, rel=0.05)


def test_a_prefix_cache_shortens_prompts() -> None:
    """Half of each prompt in a prefix cache carries more, and brings first tokens sooner."""
    plain, cached = service(), service(hit="50 %")
    assert cached.carried > 1.2 * plain.carried
    assert np.median(cached.replayed(cached.load).ttft) < np.median(plain.replayed(plain.load).ttft)


def test_more_spares_never_serve_less() -> None:
    """Capacity, and requests that find it, grow with spares."""
    found = service(demand={"rate": "360 per s", "input": {"mean": 1155}, "output": {"mean": 211}})
    rows = [(found.standing(s).share, found.capacity_availability(s), found.served_share(s)) for s in range(4)]
    assert all(np.greater(after, before).all() for before, after in pairwise(rows))


@cases("changes, rule", [
    ({"model": "llama3-405b", "parallelism": {"tensor": 1}, "replicas": 8}, "parallelism: does not fit: "),
    ({"slo": {"ttft": "2 s", "tpot": "5 ms"}}, "slo.tpot: no batch meets it: one sequence alone takes"),
    ({"slo": {"ttft": "20 ms", "tpot": "50 ms"}}, "slo.ttft: no load meets it: a mean prompt alone takes"),
    ({"replicas": 20}, "demand: 240 requests per s are more than the 190.6 that 20 replicas carry within the SLO; 26"),
    ({"parallelism": {"tensor": 3}}, "parallelism: a replica of 3 GPUs neither fills nodes of 8 nor divides one"),
    ({"model": "llama3-70"}, "model: "),
    ({"engine": "vlm"}, "engine: "),
    ({"replicas": 60}, "replicas: the services, jobs and spares need 32 nodes; the cluster has 22"),
    ({"demand": {"rate": "240 per s"}}, "demand.input: is missing with use: poisson"),
    ({"demand": {"rate": "2 per node per s", "input": {"mean": 9}, "output": {"mean": 9}}}, "demand.rate: "),
    ({"name": ""}, "name: ")])  # fmt: skip
def test_mistakes_are_one_line(changes: dict[str, Any], rule: str) -> None:
    """Each mistake names its place and what is wrong."""
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse(document(**changes))
    assert len(caught.value.lines) == 1
    assert f"services.0.{rule}" in caught.value.lines[0]


def test_overload_with_a_rule_is_accepted() -> None:
    """Demand beyond capacity with requests turned away: all groups are needed, and some requests find none."""
    found = service(replicas=20, overload="reject")
    assert found.load > 1
    assert found.served_share() < 1 / found.load


@cases(
    "text, rule",
    [
        ("t_s,input_tokens,output_tokens\n0,9,9\n2,9,9\n1,9,9\n", "line 4: arrives at 1 s, before the row above"),
        ("t_s,input_tokens,output_tokens\n0,9,9\n1,9,x\n", "line 3: is not a time and two whole numbers"),
        ("t_s,input_tokens,output_tokens\n0,9,9\n1,0,9\n", "line 3: needs a time, and tokens above zero"),
        ("t,input_tokens,output_tokens\n0,9,9\n", "has no column t_s"),
        ("t_s,input_tokens,output_tokens\n0,9,9\n", "needs at least two requests"),
    ],
)
def test_mistakes_of_a_trace(tmp_path: Path, text: str, rule: str) -> None:
    """A trace is refused with the line at which it goes wrong."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(sim.ScenarioError, match=rule):
        sim.parse(document(demand={"use": "trace", "file": "t.csv"}), tmp_path)


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    """Every 40th request of a trace of equal steps reaches a replica; means and rate are those of the rows."""
    rows = "".join(f"{number / 200},1000,200\n" for number in range(8001))
    (tmp_path / "t.csv").write_text("t_s,input_tokens,output_tokens\n" + rows)
    described = sim.parse(document(demand={"use": "trace", "file": "t.csv"}), tmp_path)
    found = sim.services_of(sim.examine(described))[0]
    assert (found.rate, found.requests.input, found.requests.output) == (pytest.approx(200), 1000, 200)
    assert len(found.replayed(found.load).arrival) == 201


# The commands.


def ran(*arguments: str) -> tuple[int, str]:
    """Return the exit code and all output of a command."""
    found = CliRunner().invoke(app, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit)
    return found.exit_code, found.output


def test_explain_says_what_a_service_costs() -> None:
    """Terms add up to the TPOT; money and energy of a million tokens follow from tokens of a GPU."""
    code, text = ran("explain", "serve-llama3-70b", "--json")
    assert code == 0
    found = json.loads(text)["services"]["chat"]
    within = found["within_slo"]
    assert sum(found["tpot_terms_s"].values()) == pytest.approx(within["tpot_s"])
    assert within["tpot_s_band90"][1] / within["tpot_s"] == pytest.approx(math.exp(1.645 * 0.11), rel=1e-3)
    assert within["money_per_million_tokens"] == pytest.approx(2.5 / 3600 / within["tokens_per_gpu_s"] * 1e6)
    assert within["joules_per_million_tokens"] == pytest.approx(within["gpu_w"] / within["tokens_per_gpu_s"] * 1e6)
    shares = [share for _, share in found["attainment"]]
    assert shares[0] > 0.999
    assert shares[-1] < 0.9
    assert 0.6 < found["slo_load"] < 0.9
    code, text = ran("explain", "serve-llama3-70b")
    assert code == 0
    assert "Requests one by one" in text


@cases("sort", ["gpu", "power", "money"])
def test_layouts_are_a_pareto_set(sort: str) -> None:
    """From row to row a user has fewer tokens a second, and a GPU, a megawatt or money has more."""
    code, text = ran("layouts", "serve-deepseek-v3-wide-ep", "--sort", sort, "--json")
    assert code == 0
    rows = json.loads(text)["layouts"]
    users = [row["amounts"]["tokens_per_s_user"] for row in rows]
    gained = {
        "gpu": [row["tokens_per_gpu_s_after_failures"] for row in rows],
        "power": [row["tokens_per_mw_s"] * row["serving_share"] for row in rows],
        "money": [row["serving_share"] / row["amounts"]["money_per_million_tokens"] for row in rows],
    }[sort]
    assert users == sorted(users, reverse=True)
    assert gained == sorted(gained)
    assert all(0 < row["serving_share"] < 1 for row in rows)


@cases(
    "command, others",
    [("layouts", ("--sort", "step")), ("explain", ("--worth",))],
)
def test_what_is_not_for_services_says_so(command: str, others: tuple[str, ...]) -> None:
    """One line, and exit code 2."""
    code, text = ran(command, "serve-llama3-70b", *others)
    assert code == 2
    assert "service" in text
    assert len(text.strip().splitlines()) == 1


def test_check_accepts_a_file(tmp_path: Path) -> None:
    """A scenario of services alone is valid, written as YAML."""
    (tmp_path / "serve.yaml").write_text(dump(document()))
    assert ran("check", str(tmp_path / "serve.yaml"))[0] == 0


POOLED = {"prefill": {"replicas": 26, "parallelism": {"tensor": 2}}}


def pooled(**changes: Any) -> PreparedService:
    """Return the service with readers of prompts, on a cluster that has room for them."""
    content = document(**POOLED | changes)
    content["cluster"]["nodes"] = 30
    with pytest.raises(sim.ScenarioError, match="run simulates replicas that read their own prompts"):
        sim.parse(content)
    content["services"][0].pop("prefill")
    plain = sim.services_of(sim.examine(sim.parse(content)))[0]
    return plain.with_layout(plain.spec.parallelism, 40, (ServingLayout(tensor=2), 26))


def test_readers_take_prompts_from_decoders() -> None:
    """With readers TPOT is that of decode alone, they bound what decoders get, and TTFT holds their queue."""
    found, plain = pooled(), service()
    assert found.pools is not None
    assert float(time_per_token(found.replica, 64.0, found.requests)) == pytest.approx(
        float(decode(plain.replica, 64.0, plain.requests.context).total)
    )
    read = float(reading_rate(found.pools.readers, found.asked)) * 26
    assert found.carried * 40 == pytest.approx(read, rel=1e-6)
    assert found.within < found.unfed_batch
    low, high = (found.settled(load) for load in (0.3, 0.95))
    assert low.ttft.mean() > float(prefill(found.pools.readers, found.asked.input)) + float(
        handover(found.pools, found.asked)
    )
    assert high.ttft.mean() > 2 * low.ttft.mean()
    assert high.tpot.mean() < 1.2 * low.tpot.mean()


def test_layouts_weigh_pools(tmp_path: Path) -> None:
    """Layouts of a service with readers are of all its GPUs, no row is beaten in both ways; --csv has what is shown."""
    content = document(**POOLED)
    content["cluster"]["nodes"] = 30
    file, table = tmp_path / "pools.yaml", tmp_path / "layouts.csv"
    file.write_text(dump(content))
    result = CliRunner().invoke(app, ["layouts", str(file), "--json", "--csv", str(table)])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["layouts"]
    assert any(row["prefill_replicas"] for row in rows)
    for row in rows:
        ranks = row["tensor"] * row["data"] * row["pipeline"]
        assert row["replicas"] * ranks + (row["prefill_replicas"] or 0) * (row["prefill_gpus"] or 0) <= 212
    for left, right in pairwise(rows):
        assert left["amounts"]["tokens_per_s_user"] >= right["amounts"]["tokens_per_s_user"]
        assert left["tokens_per_gpu_s_after_failures"] <= right["tokens_per_gpu_s_after_failures"]
    with table.open(encoding="utf-8") as text:
        written = list(csv.DictReader(text))
    assert [float(row["tpot_s"]) for row in written] == [row["amounts"]["tpot_s"] for row in rows]


def test_the_facility_pays_for_hosts_and_cooling() -> None:
    """Energy per token of the facility is that of GPUs and hosts, 2.6 kW a node less 8 x 70 W, times PUE."""
    content = document() | {"power": {"pue": 1.5}}
    described = describe_service(sim.services_of(sim.examine(sim.parse(content)))[0], None).within_slo
    assert described.gpu_w is not None
    assert described.joules_per_million_tokens is not None
    ratio = 1.5 * (1 + (2600 / 8 - 70) / described.gpu_w)
    assert described.facility_joules_per_million_tokens == pytest.approx(ratio * described.joules_per_million_tokens)
