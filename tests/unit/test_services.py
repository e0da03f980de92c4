"""Services: what a scenario may say of them, what `explain` and `layouts` say, and the exact laws of their spares."""

from __future__ import annotations

import csv
import importlib
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.explain.services import _basis, describe_service
from ettrick.cli import app
from ettrick.sim.formulas.nodes import groups_with_spares
from ettrick.sim.steps.serving import decode, handover, largest_batch, power, prefill, reading_rate, time_per_token
from ettrick.sim.yamlfile import dump
from tests.cases import cases
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ettrick.sim import PreparedService

HOUR = 3600.0

POOLED = {"prefill": {"replicas": 27, "parallelism": {"tensor": 2}}}


@pytest.fixture(autouse=True, scope="module")
def short_replays() -> Iterator[None]:
    """Let a replay have a fifth of its requests: shares in SLO are to a per mille then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("ettrick.sim.prepare.services"), "_REPLAYED", 4000)
        yield


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


@pytest.mark.parametrize("tensor", [2, 4, 8])
@pytest.mark.parametrize("engine", ["vllm", "trt-llm", "sglang"])
def test_room_limits_the_batch_where_the_slo_does_not(tensor: int, engine: str) -> None:
    """At all that a replica carries it has the batch for which it has room: rounding does not make it overloaded."""
    loose = {"slo": {"ttft": "1000 s", "tpot": "10 s"}, "stream": False, "engine": engine, "precision": "fp8"}
    found = service(**loose, parallelism={"tensor": tensor}, replicas=10, overload="reject")
    assert found.batch_at(1.0) == pytest.approx(found.within, rel=1e-9)
    assert found.time_at(found.batch_at(1.0)) > found.time_at(found.batch_at(0.5))


def test_a_measured_point_is_met() -> None:
    """With a calibration the model says at the measured batch what was measured."""
    found = service(calibration={"tpot": "30 ms", "batch": 32}, overload="reject")
    assert float(time_per_token(found.replica, 32.0, found.requests)) == pytest.approx(0.03)


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
    ({"slo": {"ttft": "2 s", "tpot": "5 ms"}}, "slo.tpot: no batch meets it: a single sequence takes"),
    ({"slo": {"ttft": "20 ms", "tpot": "50 ms"}}, "slo.ttft: no load meets it: a mean prompt on its own takes"),
    ({"replicas": 20}, "demand: 240 requests per s are more than the "),
    ({"parallelism": {"tensor": 3}}, "parallelism: a replica of 3 GPUs neither fills nodes of 8 nor divides one"),
    ({"replicas": 30, "prefill": {"replicas": 9, "parallelism": {"tensor": 2}}}, "demand: 240 requests per s are more "
     "than the "),
    ({"replicas": 30, "prefill": {"replicas": 9, "parallelism": {"tensor": 1}}},
     "prefill.parallelism: does not fit: 73 GB"),
    ({"replicas": 30, "prefill": {"replicas": 3, "parallelism": {"tensor": 3}}},
     "prefill.parallelism: a replica of 3 GPUs"),
    ({"model": "llama3-70"}, "model: "),
    ({"engine": "vlm"}, "engine: "),
    ({"replicas": 60}, "replicas: the services, jobs and spares need 32 nodes; the cluster has 22"),
    ({"demand": {"rate": "240 per s"}}, "demand.input: is missing with use: poisson"),
    ({"demand": {"rate": "2 per node per s", "input": {"mean": 9}, "output": {"mean": 9}}}, "demand.rate: "),
    (POOLED | {"scale": {"max": 60}}, "scale: does not go with prefill: two pools would have to follow the demand"),
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
        ("t_s,input_tokens,output_tokens\n0,9,9\n1,9,x\n", "t.csv:3: column 'output_tokens' holds 'x', which is no"),
        ("t_s,input_tokens,output_tokens\n0,9,9\n1,0,9\n", "t.csv:3: column 'input_tokens' holds '0', which must be"),
        ("t_s,input_tokens,output_tokens\n0,9,9\n1,9\n", "t.csv:3: has 2 fields, and the header 3"),
        ("t_s,input_tokens,output_tokens\n1700000000123,9,9\n", "these look like milliseconds since 1970"),
        ("t_s,input_tokens,output_tokens,t_s\n0,9,9,0\n", "column 't_s' is there twice"),
        ("t,input_tokens,output_tokens\n0,9,9\n", "has no column for the t_s"),
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
    # Newest first, with dates, semicolons and the names of a public trace.
    lines = [f"2023-11-16 18:15:{number // 200:02}.{number % 200 * 5:03}0000;1000;200" for number in range(8001)]
    (tmp_path / "t.csv").write_text("\n".join(["TIMESTAMP;ContextTokens;GeneratedTokens", *reversed(lines)]))
    again = sim.services_of(sim.examine(sim.parse(document(demand={"use": "trace", "file": "t.csv"}), tmp_path)))[0]
    assert (again.rate, again.requests.input) == (pytest.approx(200), 1000)


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


def pooled(**changes: Any) -> PreparedService:
    """Return the service with readers of prompts, on a cluster that has room for them."""
    content = document(**POOLED | changes)
    content["cluster"]["nodes"] = 30
    return sim.services_of(sim.examine(sim.parse(content)))[0]


def test_readers_take_prompts_from_decoders() -> None:
    """With readers TPOT is that of decode alone, they bound what decoders get, and TTFT holds their queue."""
    found, plain = pooled(), service()
    assert float(time_per_token(found.replica, 64.0, found.requests)) == pytest.approx(
        float(decode(plain.replica, 64.0, plain.requests.context).total)
    )
    read = float(reading_rate(found.pools.readers, found.mean_request)) * 27
    assert found.carried * 40 == pytest.approx(read, rel=1e-6)
    assert found.within < found.unfed_batch
    low, high = (found.settled(load) for load in (0.3, 0.95))
    assert low.ttft.mean() > float(prefill(found.pools.readers, found.mean_request.input)) + float(
        handover(found.pools, found.mean_request)
    )
    assert high.ttft.mean() > 5 * low.ttft.mean()
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
        assert row["replicas"] * ranks + (row["prefill_replicas"] or 0) * (row["prefill_gpus"] or 0) <= 214
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
    ratio = 1.5 * (1 + (2600 / 8 - 70) / present(described.gpu_w))
    assert described.facility_joules_per_million_tokens == pytest.approx(
        ratio * present(described.joules_per_million_tokens)
    )


_VLLM, _ROWS = "fitted to vLLM", " on hopper and blackwell"


@cases(
    "engine, accelerator, model, basis, sigma, watts",
    [
        ("vllm", "h100", "llama3-70b", f"{_VLLM}, dense models{_ROWS}", 0.11, 700),
        ("vllm", "b200", "deepseek-v3", f"{_VLLM}, models with experts{_ROWS}", 0.3, 1000),
        ("vllm", "a100", "llama2-70b",
         f"{_VLLM}, dense models{_ROWS}, to no accelerator like this, not to this model", 0.2, 400),
        ("vllm", "mi300x", "llama3-70b", f"{_VLLM}, dense models{_ROWS}, to no accelerator like this", 0.15, 750),
        ("vllm", {"like": "h200", "memory_bandwidth": "12 TB/s", "power": "1800 W"}, "llama3-70b",
         f"{_VLLM}, dense models{_ROWS}, to no accelerator like this", 0.15, 1800),
        ("vllm", {"like": "h100", "power": "500 W"}, "llama3-70b", f"{_VLLM}, dense models{_ROWS}", 0.11, 500),
        ("sglang", "h100", "llama3-70b", "never fitted for this pair: SGLang, dense models", 0.36, 700),
        ("sglang", "b200", "deepseek-v3", f"fitted to SGLang, models with experts{_ROWS}", 0.3, 1000),
    ],
)  # fmt: skip
def test_what_was_not_measured_has_a_wider_band(
    engine: str, accelerator: str | dict[str, str], model: str, basis: str, sigma: float, watts: float
) -> None:
    """Any accelerator can be asked for; the error is that of accelerators, models, or pairs that no fit has seen.

    Constants of SGLang rest on models with experts: its 84 steps of a dense one are 0.36 off in the logarithm.
    """
    content = document(engine=engine, model=model, replicas=20, parallelism={"tensor": 8}, overload={"use": "reject"})
    content["cluster"]["accelerator"] = accelerator
    found = sim.services_of(sim.examine(sim.parse(content)))[0]
    assert _basis(found) == (basis, sigma)
    assert 0.4 * watts < float(power(found.replica, found.within, found.requests)) <= watts


# Services by events: what changes how many replicas serve.


def replayed(folder: Path, rows: tuple[str, ...], horizon: str = "10 d", **changes: Any) -> dict[str, float]:
    """Return the sums over the requests of a service of ten nodes with recorded outages: ``node,start,end`` [s].

    Weights are read in 100 s and processes start in 50 s.
    """
    prepared, result = ran_by_events(folder, rows, horizon, **changes)
    assert prepared.services[0].load == pytest.approx(100)
    return sums_of(result)


def ran_by_events(folder: Path, rows: tuple[str, ...], horizon: str, **changes: Any) -> tuple[sim.Prepared, sim.Result]:
    """Return the scenario and one replication of it."""
    size = 8 * service(replicas=20, parallelism={"tensor": 8}, overload="reject").replica.weight_bytes
    recovery = {"bandwidth": f"{size / 100 / 1e9:.12g} GB/s", "start": "50 s"} | changes.pop("recovery", {})
    whole = {key.lower(): changes.pop(key) for key in list(changes) if key[0].isupper()}
    asked = {"rate": "50 per s", "input": {"mean": 1155}, "output": {"mean": 211}}
    content = document(
        **{"replicas": 10, "parallelism": {"tensor": 8}, "demand": asked, "recovery": recovery, **changes}
    )
    content |= {"horizon": horizon, "detection": {"time": "20 s"}, "spares": {"hot": 0, "idle": "serve"}}
    if rows:
        (folder / "log.csv").write_text("unit,start,end\n" + "".join(f"{row}\n" for row in rows))
        content["failures"] = [{"use": "replay", "file": "log.csv"}]
    else:
        content["failures"] = []
    prepared = sim.prepare(sim.parse(content | whole, folder))
    return prepared, sim.run(prepared, 0)


def sums_of(result: sim.Result) -> dict[str, float]:
    """Return the sums over the requests of the only service."""
    return dict(zip(sim.SERVICE_SUMS, result.fleet.services[0].sum(axis=0).tolist(), strict=True))


def test_a_replica_is_out_for_detection_weights_and_start(tmp_path: Path) -> None:
    """On a spare node a replica serves again after 20 + 100 + 50 s, whatever the repair takes."""
    found = replayed(tmp_path, ("3,1000,500000",))
    assert found["wanted"] - found["replicas"] == pytest.approx(170)
    assert found["seconds"] - found["full"] == pytest.approx(170)
    assert found["stops"] == 1


def test_warm_up_is_degraded_time_as_far_as_the_replica_is_busy(tmp_path: Path) -> None:
    """At 70 % of its speed for 60 s a replica counts as 0.7, and 0.3 of its busy GPU-time is degraded."""
    warm = {"warm": {"time": "60 s", "speed": "70 %"}}
    prepared, result = ran_by_events(tmp_path, ("3,1000,500000",), "10 d", recovery=warm)
    found = sums_of(result)
    assert found["wanted"] - found["replicas"] == pytest.approx(170 + 0.3 * 60)
    capacity = prepared.services[0].capacity
    assert result.cluster[sim.Bucket.DEGRADED] == pytest.approx(8 * 0.3 * 60 * 50 / (9.7 * capacity))


@cases("use, out", [("reload", 170.0), ("shadow", 25.0)])
def test_a_standby_takes_over_where_no_node_is_lost(tmp_path: Path, use: str, out: float) -> None:
    """After a fault of processes alone a standby serves after 20 + 5 s; else weights are read and processes start."""
    source = {"use": "component", "name": "process", "part": "node", "rate": "20 per 1000 node-days", "repair": "0 s"}
    _, result = ran_by_events(tmp_path, (), "30 d", recovery={"use": use}, Failures=[source])
    found = sums_of(result)
    assert found["stops"] > 2
    assert found["wanted"] - found["replicas"] == pytest.approx(out * found["stops"])


def test_failures_of_processes_strike_replicas_and_no_node(tmp_path: Path) -> None:
    """A source of `use: job` stops a replica, which starts in place; no node goes to repair."""
    source = {"use": "job", "name": "software", "rate": "0.1 per day"}
    prepared, result = ran_by_events(tmp_path, (), "100 d", Failures=[source])
    found = sums_of(result)
    # 100 expected, within what chance allows once in a thousand.
    assert 67 < found["stops"] < 135
    assert found["wanted"] - found["replicas"] == pytest.approx(170 * found["stops"], rel=0.02)
    assert result.cluster[sim.Bucket.REPAIR] == 0
    service = sim.services_of(sim.examine(prepared.scenario))[0]
    assert service.failing.restart == pytest.approx(0.1 / 86_400)


@cases("use", ["reload", "elastic-experts"])
def test_what_is_left_of_a_wide_replica_goes_on(tmp_path: Path, use: str) -> None:
    """Of four nodes three serve 6.5 s after the failure is known; the fourth loads, starts and joins them in 6.5 s."""
    wide = {"replicas": 3, "parallelism": {"tensor": 8, "pipeline": 4}, "demand": {
        "rate": "5 per s", "input": {"mean": 1155}, "output": {"mean": 211}}}  # fmt: skip
    prepared, result = ran_by_events(tmp_path, ("3,1000,500000",), "10 d", recovery={"use": use}, **wide)
    found = sums_of(result)
    plan = prepared.services[0]
    out = 20 + plan.load + 50 if use == "reload" else 20 + 2 * 6.5 + (plan.load + 50) / 4
    assert found["wanted"] - found["replicas"] == pytest.approx(out)


@cases("use", ["reload", "shrink-tensor"])
def test_what_is_left_of_a_node_goes_on(tmp_path: Path, use: str) -> None:
    """Of eight GPUs seven serve 10 s after the failure is known, until one hour's repair is over and 10 s more.

    Counter-example: taken as the loss of its node, each such failure is a start on another one, after 20 + 100 + 50 s.
    """
    source = {"use": "component", "name": "gpu", "part": "gpu", "rate": "4 per 1000 node-days", "repair": "1 h"}
    recovery = {"use": use, "interruption": "10 s"} if use == "shrink-tensor" else {"use": use}
    prepared, result = ran_by_events(tmp_path, (), "1000 d", recovery=recovery, Failures=[source])
    found = sums_of(result)
    # 40 expected, within what chance allows once in a thousand.
    assert 21 < found["stops"] < 62
    assert prepared.services[0].most_lost == (6 if use == "shrink-tensor" else 0)
    out = 20 + 150 if use == "reload" else 20 + 2 * 10 + (3600 - 10) / 8
    assert found["wanted"] - found["replicas"] == pytest.approx(out * found["stops"])
    assert (result.cluster[sim.Bucket.DEGRADED] > 0) == (use == "shrink-tensor")


def test_replicas_follow_the_demand_after_a_cold_start(tmp_path: Path) -> None:
    """Two minutes after each change there are as many as the target asks for; new ones serve 150 s later."""
    asked = {"rate": "50 per s", "input": {"mean": 1155}, "output": {"mean": 211},
             "profile": {"every": "1 d", "factors": [0.5, 1.5]}}  # fmt: skip
    scale = {"target": "80 %", "min": 2, "max": 20, "window": "2 min"}
    prepared, result = ran_by_events(tmp_path, (), "10 d", demand=asked, scale=scale, overload="queue", replicas=3)
    found = sums_of(result)
    low, high = (math.ceil(rate / (0.8 * prepared.services[0].capacity)) for rate in (25, 75))
    assert (low, high) == (3, 8)
    # 19 changes after the start, ten of them up.
    wanted = 10 * 43_200 * (low + high) + 120 * (10 * (low - high) + 9 * (high - low))
    assert found["wanted"] == pytest.approx(wanted)
    assert found["wanted"] - found["replicas"] == pytest.approx(10 * (high - low) * 150)
    assert found["stops"] == found["failed"] == 0


def test_a_rolling_upgrade_loses_no_request(tmp_path: Path) -> None:
    """Each upgrade starts all ten replicas again, two at a time: ten times 150 s; nothing is lost or turned away."""
    found = replayed(tmp_path, (), upgrade={"every": "3 d", "batch": 2})
    assert found["wanted"] - found["replicas"] == pytest.approx(3 * 10 * 150)
    assert found["seconds"] - found["full"] == pytest.approx(3 * 5 * 150)
    assert found["failed"] == found["rejected"] == found["stops"] == 0


def test_a_service_preempts_training_to_grow(tmp_path: Path) -> None:
    """A service of higher priority takes nodes of a stream, and the ledger says that demand did."""
    stream = {"name": "train", "arrivals": {"use": "backlog", "pending": 2}, "gpus": 8,
              "work": {"use": "fixed", "value": "2 d"}, "limit": {"factor": 2}}  # fmt: skip
    asked = {"rate": "50 per s", "input": {"mean": 1155}, "output": {"mean": 211},
             "profile": {"every": "1 d", "factors": [0.5, 1.5]}}  # fmt: skip
    tier = {"interval": "1 h", "mode": "blocking", "write": "0 s", "restore": "0 s"}
    _, result = ran_by_events(
        tmp_path, (), "10 d", demand=asked, overload="queue", replicas=3, priority=1,
        scale={"target": "80 %", "min": 2, "max": 20, "window": "2 min"}, Streams=[stream],
        Scheduler={"preempt": {"mode": "requeue"}}, Recovery={"use": "full-restart", "initialize": "0 s"},
        Checkpoint={"tiers": [tier]}, Spares={"hot": 0},
    )  # fmt: skip
    found = sums_of(result)
    # Five more replicas ten times, each on a node that a training job had.
    assert found["wanted"] - found["replicas"] == pytest.approx(10 * 5 * 150)
    fleet = result.fleet
    demand = fleet.causes.index("demand")
    mine = (rows for stop, rows in fleet.stops.items() if (stop.cause, stop.via) == (demand, 1))
    # Now and then a training job ends just then, and its node is free.
    assert 45 <= sum(float(rows[:, 0].sum()) for rows in mine) <= 50


@cases(
    "changes, rule",
    [
        ({"overload": {"patience": "3 s"}}, "overload.patience: is of clients that wait: needs use: queue"),
        ({"overload": "drop"}, "overload: 'drop' is not a choice (choose from reject, queue)"),
        ({"scale": {"min": 3, "max": 2}}, "scale.min: is 3, and max is 2"),
        ({"scale": {"max": 60}}, "replicas: the services, jobs and spares need 32 nodes; the cluster has 22"),
        (
            {"recovery": {"use": "shrink-tensor"}},
            "recovery.use: shrink-tensor has nothing to go on with: no failure leaves",
        ),
        ({"failover": "move"}, "failover: 'move' is not a choice (choose from fail, retry, migrate, restore)"),
        ({"partition": "gold"}, "partition: unknown partition 'gold'"),
        (
            {
                "demand": {
                    "rate": "240 per s",
                    "input": {"mean": 1155},
                    "output": {"mean": 211},
                    "profile": {"every": "1 d", "factors": [1, 2]},
                }
            },
            "demand: 480 requests per s are more than the 3",
        ),
    ],
)
def test_mistakes_about_capacity_are_one_line(changes: dict[str, Any], rule: str) -> None:
    """Each mistake names its place and what is wrong."""
    with pytest.raises(sim.ScenarioError) as caught:
        sim.parse(document(**changes))
    assert len(caught.value.lines) == 1
    assert f"services.0.{rule}" in caught.value.lines[0]


def test_seeds_draw_requests_too() -> None:
    """Another seed replays other requests: what a study found is known no better than by the requests of a replay."""
    one, other = (sim.services_of(sim.examine(sim.parse(document() | {"seed": seed})))[0] for seed in (1, 2))
    assert one.attainment != other.attainment
    apart = [(mine, theirs) for mine, theirs in zip(one.curve, other.curve, strict=True) if mine[0] <= 0.9]
    # Two replays are as far apart as both of their errors, each given at 95 %, allow: here three times that.
    assert all(abs(a - b) <= 3 * math.hypot(c, d) for (_, a, c), (_, b, d) in apart)


def test_capped_boards_slow_a_service_as_they_slow_training() -> None:
    """Boards that are capped slow a replica as training at the share of the range that is left of its draw."""
    content = document(model="llama3-70b", replicas=20, parallelism={"tensor": 8}, overload={"use": "reject"})
    found = {}
    for watts in (700, 500):
        content["cluster"]["accelerator"] = {"like": "h100", "power": f"{watts} W"}
        found[watts] = sim.services_of(sim.examine(sim.parse(content)))[0]
    free, capped = found[700].replica, found[500].replica
    drawn = float(power(free, largest_batch(free, found[700].requests), found[700].requests))
    left = (500 / drawn - 75 / 700) / (1 - 75 / 700)
    pace = float(np.interp(left, [0, 0.2, 0.52, 0.84, 1], [0, 0.320, 0.821, 0.966, 1]))
    assert 0.8 < pace < 1
    assert capped.factor == pytest.approx(free.factor / pace)
    assert found[500].carried < found[700].carried


def test_a_replay_stays_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same service; a damaged file, and a folder that cannot be written, are in nobody's way."""
    services = importlib.import_module("ettrick.sim.prepare.services")
    calls: list[int] = []

    def curve(**changes: Any) -> tuple[tuple[float, float, float], ...]:
        services._CURVES.clear()
        (service,) = sim.services_of(sim.examine(sim.parse(document(**changes))))
        return service.curve

    def replay(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return sim.replay(*arguments, **options)

    monkeypatch.setattr(services, "replay", replay)
    requests = importlib.import_module("ettrick.sim.engine.requests")
    monkeypatch.setattr(services, "cached_curve", requests.cached_curve)
    makes = list[int]()
    monkeypatch.setattr(requests.native, "make", lambda: makes.append(len(calls)))
    monkeypatch.setattr(importlib.import_module("ettrick.sim.cache"), "MOST_FILES", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, loads = curve(), len(services.LOADS)
    assert (curve(), len(calls)) == (first, loads)
    (file,) = (tmp_path / "ettrick" / "replays").iterdir()
    file.write_text("[[0.4, 1", encoding="ascii")
    assert (curve(), len(calls)) == (first, 2 * loads)
    assert curve(batch={"longest": 4000})
    assert curve(batch={"longest": 5000})
    assert (len(calls), len(list(file.parent.iterdir()))) == (4 * loads, 2)
    assert makes == [3 * loads], "the third service is worth machine code"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert (curve(), len(calls)) == (first, 5 * loads)
