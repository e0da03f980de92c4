"""Layouts of a job: all that are possible and no others, where they sit, how they rank, and what the command says."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.analysis.explain.layouts import describe_layouts as typed_describe_layouts
from ettrick.analysis.page.chapters.cluster import format_layouts as typed_format_layouts
from ettrick.analysis.results.explained import LayoutsDocument
from ettrick.sim import catalog
from ettrick.sim.cluster.placement import RankLayout
from ettrick.sim.layouts import failure_sets
from ettrick.sim.scenario.model import Parallelism
from ettrick.sim.steps import Experts, ModelShape, Workload, memory_use, problems
from ettrick.sim.steps.plan import Bounds, layouts, smallest
from ettrick.sim.steps.workload import divisors
from tests.cases import cases
from tests.typed import as_plain, of_plain, present

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

describe_layouts = as_plain(typed_describe_layouts)

format_layouts = of_plain(typed_format_layouts, LayoutsDocument)


DONE, NO, WRONG = 0, 1, 2

GB = 1e9

TINY = ModelShape(layers=6, hidden=1024, ffn=4096, heads=4, kv_heads=4, vocabulary=32000, gated=True)

MIXED = replace(TINY, experts=Experts(count=6, active=2, ffn=2048, dense_layers=2))

ELASTIC = {"use": "shrink-rejoin", "reconfigure": "2 min", "initialize": "5 min", "rejoin": "30 s"}

REDUNDANT = ELASTIC | {"use": "redundant", "redundancy": "next-stage", "overhead": "14 %", "slowdown": 1.5}


def base(shape: ModelShape = TINY, **changes: Any) -> Workload:
    """Return a step of a small model: 24 sequences."""
    return Workload(**({"shape": shape, "sequence": 4096, "sequences": 24} | changes))


def scenario(**changes: Any) -> dict[str, Any]:
    """Return Llama 3 8B on 128 H100 behind a fabric that narrows, with a batch of 32 sequences."""
    job = {"name": "train", "gpus": 128, "model": "llama3-8b", "batch": {"tokens": 32 * 8192, "sequence": 8192}}
    job["parallelism"] = {"tensor": 4, "pipeline": 2, "data": 16}
    return {
        "name": "small",
        "cluster": {
            "nodes": 20,
            "gpus_per_node": 8,
            "accelerator": "h100",
            "fabric": {
                "rails": 8,
                "nic": "400 Gb/s",
                "radix": 64,
                "leaf": {"nodes": 2, "switches": 1},
                "spine": {"leaf_groups": 4, "oversubscription": 2},
                "core": {"oversubscription": 4},
            },
        },
        "horizon": "30 d",
        "jobs": [job],
        "failures": [{"use": "component", "name": "node", "part": "node", "rate": "20 per 1000 node-day"}],
        "detection": {"time": "1 min"},
        "checkpoint": {"tiers": [{"interval": "10 min", "stall": "2 s", "write": "60 s", "restore": "30 s"}]},
        "recovery": {"use": "hot-spare", "initialize": "5 min"},
        "repair": {"time": "1 d"},
    } | changes


def with_job(**changes: Any) -> dict[str, Any]:
    """Return the scenario with other values of its job; ``None`` takes one out."""
    content = scenario()
    job = content["jobs"][0] | changes
    return content | {"jobs": [{name: value for name, value in job.items() if value is not None}]}


def search(content: dict[str, Any] | None = None, **options: Any) -> sim.LayoutSearch:
    """Return the search of a scenario."""
    return sim.LayoutSearch(sim.parse(content or scenario()), **options)


@functools.cache
def usual() -> tuple[Any, ...]:
    """Return the layouts of the small scenario."""
    return tuple(search().candidates())


def by_brute_force(start: Workload, bounds: Bounds) -> set[Workload]:
    """Return the layouts that are left of all combinations of small numbers, with 4,096 tokens for a context rank."""
    names = ("tensor", "context", "pipeline", "data")
    sizes = [size for size in itertools.product(range(1, bounds.gpus + 1), repeat=4) if prod(size) == bounds.gpus]
    numbers = range(1, start.sequences + 1)
    experts = range(1, start.shape.experts.count + 1) if start.shape.experts is not None else (1,)
    recomputes = ("none", "selective", "full") if start.shape.gated or not start.fused_attention else ("none", "full")
    found = set()
    for size in sizes:
        if size[0] > bounds.tensor or (size[1] > 1 and start.sequence < 4096 * size[1]):
            continue
        grouped = replace(start, **dict(zip(names, size, strict=True)))
        for expert, virtual, microbatch in itertools.product(experts, range(1, start.shape.layers + 3), numbers):
            widths = (1, grouped.context, grouped.tensor * grouped.context)
            if all(expert % width or grouped.data % (expert // width) for width in widths):
                continue
            for recompute, sharding in itertools.product(recomputes, bounds.shardings):
                work = replace(
                    grouped,
                    expert=expert,
                    virtual=virtual,
                    microbatch=microbatch,
                    recompute=recompute,
                    sharding=sharding,
                )
                if not problems(work) and memory_use(work).total <= bounds.memory:
                    found.add(work)
    return found


@pytest.mark.parametrize(
    ("start", "gpus", "memory", "tensor", "shardings"),
    [
        (base(), 8, 1000 * GB, 8, ("optimizer",)),
        (base(sequence=8192), 8, 1000 * GB, 8, ("optimizer",)),
        (base(), 8, 6.5 * GB, 2, ("optimizer", "parameters")),
        (base(), 12, 7 * GB, 4, ("none",)),
        (base(MIXED), 12, 8 * GB, 2, ("optimizer",)),
        (base(fused_attention=False), 6, 8 * GB, 2, ("optimizer",)),
        (base(replace(TINY, gated=False)), 6, 8 * GB, 2, ("optimizer",)),
        (base(schedule="zero-bubble-h1"), 12, 7 * GB, 4, ("optimizer",)),
    ],
    ids=["roomy", "long", "tight", "twelve", "experts", "scores", "no gates", "zero bubble"],
)
def test_the_layouts_are_all_that_there_are(
    start: Workload, gpus: int, memory: float, tensor: int, shardings: tuple[Any, ...]
) -> None:
    """What is enumerated is what is left of all combinations by the rules and the memory, each once."""
    bounds = Bounds(gpus, memory, tensor, shardings)
    found = list(layouts(start, bounds))
    assert len(found) == len(set(found))
    assert set(found) == by_brute_force(start, bounds)
    assert found == list(layouts(start, bounds)), "the order is always the same"
    roomy = set(layouts(start, bounds._replace(memory=1e18)))
    assert set(found) < roomy or memory == 1000 * GB, "memory rules something out"


def test_memory_never_falls_when_a_microbatch_grows() -> None:
    """That is why the first microbatch that does not fit ends the search along it."""
    generator = np.random.default_rng(1)
    shapes = [TINY, MIXED, catalog.models()["llama3-70b"], catalog.models()["deepseek-v3"]]
    for _ in range(300):
        work = base(
            shapes[generator.integers(len(shapes))],
            sequences=96,
            tensor=int(generator.choice([1, 2, 4])),
            context=int(generator.choice([1, 2])),
            pipeline=int(generator.choice([1, 2, 3, 6])),
            data=int(generator.choice([1, 2, 4])),
            virtual=int(generator.choice([1, 2, 4])),
            recompute=str(generator.choice(["none", "selective", "full"])),
            schedule=str(generator.choice(["1f1b", "zero-bubble-h2"])),
        )
        sizes = [replace(work, microbatch=size) for size in divisors(96 // work.data)]
        memory = [memory_use(each).total for each in sizes]
        assert all(more >= less * (1 - 1e-12) for less, more in itertools.pairwise(memory))


@cases("order", [None, ["tensor", "pipeline", "context", "expert", "data"]], ids=["default", "pipeline"])
def test_sets_of_replicas_without_looking_at_ranks(order: list[str] | None) -> None:
    """What can be said by division is what the ranks of each host say."""
    extra = {"order": order} if order is not None else {}
    checked = 0
    for sizes in itertools.product((1, 2, 3, 4, 8), (1, 2, 3), (1, 2, 5), (1, 2, 3, 4, 16)):
        if prod(sizes) % 4 == 0:
            names = ("tensor", "context", "pipeline", "data")
            layout = Parallelism.model_validate({**dict(zip(names, sizes, strict=True)), **extra})
            assert failure_sets(layout, 4) == RankLayout(layout, 4).failure_groups, sizes
            checked += 1
    assert checked > 100


def test_seating_makes_no_step_faster() -> None:
    """With all bandwidth of the NICs a step is a lower bound, which ranking by it relies on."""
    found = search()
    slower = 0
    for candidate in list(found.candidates())[::7]:
        seated = found.placed(candidate)
        assert seated.plan.time >= candidate.plan.time * (1 - 1e-12)
        slower += seated.plan.time > candidate.plan.time * 1.001
    assert slower > 10, "the fabric narrows"


@pytest.mark.parametrize(
    ("recovery", "interval"),
    [({"use": "hot-spare", "initialize": "5 min"}, "every 20 steps"), (ELASTIC, "10 min"), (REDUNDANT, "10 min")],
    ids=["rigid", "elastic", "redundant"],
)
def test_a_candidate_is_the_scenario_with_that_layout(recovery: dict[str, Any], interval: str) -> None:
    """Step, memory, MFU and ETTR of a seated layout are those of a scenario that states it."""
    saves = {"interval": interval, "stall": "2 s", "write": "60 s", "restore": "30 s"}
    changes: dict[str, Any] = {"recovery": recovery, "checkpoint": {"tiers": [saves]}}
    found = search(scenario(**changes))
    names = {
        "tensor": "tensor",
        "context": "context",
        "pipeline": "pipeline",
        "data": "data",
        "virtual": "virtual_pipeline",
    }
    for candidate in list(found.candidates())[::97]:
        work = candidate.plan.work
        parallelism = {name: getattr(work, mine) for mine, name in names.items()}
        execution = {"microbatch": work.microbatch, "recompute": work.recompute}
        content = with_job(parallelism=parallelism, execution=execution) | changes
        prepared = sim.examine(sim.parse(content))
        job = prepared.jobs[0]
        seated = found.placed(candidate)
        assert seated.plan.time == pytest.approx(job.step_time, rel=1e-12)
        assert seated.plan.memory == present(job.plan).memory
        assert seated.plan.mfu == pytest.approx(job.mfu, rel=1e-12)
        assert seated.sets == job.replicas
        assert seated.ettr == pytest.approx(sim.closed_form(prepared).ettr, rel=1e-12)
        assert seated.tokens_per_day == pytest.approx(
            sim.closed_form(prepared).ettr * 86400 * 32 * 8192 / job.step_time, rel=1e-12
        )


def test_a_measured_step_scales_all_layouts() -> None:
    """The own layout takes what was measured, and each other one as much longer than the model says."""
    modelled = describe_layouts(search(), 5, "step")
    measured = describe_layouts(search(with_job(step_time="1 min")), 5, "step")
    assert measured["own"]["step_s"] == pytest.approx(60)
    factor = 60 / modelled["own"]["step_s"]
    for slow, fast in zip(measured["layouts"], modelled["layouts"], strict=True):
        assert slow["step_s"] == pytest.approx(factor * fast["step_s"])
        assert slow["mfu"] == pytest.approx(fast["mfu"] / factor)
    assert any("executed in another way" in note for note in measured["notes"])
    calibration = {"step_time": "30 s", "parallelism": {"tensor": 4, "pipeline": 2, "data": 16}}
    calibrated = describe_layouts(search(with_job(calibration=calibration)), 1, "step")
    assert f"x {search(with_job(calibration=calibration)).scale:.3f}" in calibrated["notes"][0]
    assert not any("x " in note for note in modelled["notes"])


def test_fewer_sets_than_the_recovery_needs_are_left_out() -> None:
    """min_replicas counts sets of replicas: two of tensor 4 share each node of eight."""
    content = scenario(recovery=ELASTIC | {"min_replicas": 8})
    found = list(search(content).candidates())
    assert found
    assert min(candidate.sets for candidate in found) == 8
    few = {candidate.plan.work for candidate in search(scenario(recovery=ELASTIC)).candidates() if candidate.sets < 8}
    assert few
    assert not few & {candidate.plan.work for candidate in found}


def test_groups_that_must_stay_in_a_domain_stay() -> None:
    """within_domain of the scenario rules out layouts whose groups would be cut."""
    layout = {"tensor": 4, "context": 2, "pipeline": 2, "data": 8, "within_domain": ["tensor", "context"]}
    sizes = [
        (candidate.plan.work.tensor, candidate.plan.work.context)
        for candidate in search(with_job(parallelism=layout)).candidates()
    ]
    assert max(tensor * context for tensor, context in sizes) == 8
    assert any(tensor * context > 8 for tensor, context in ((c.plan.work.tensor, c.plan.work.context) for c in usual()))


def test_options_widen_the_search() -> None:
    """Tensor groups stop at the scale-up domain and parameters stay whole, unless asked for."""
    plain = [candidate.plan.work for candidate in usual()]
    assert {work.sharding for work in plain} == {"optimizer"}
    assert max(work.tensor for work in plain) == 8
    wide = [candidate.plan.work for candidate in search(any_tensor=True).candidates()]
    assert max(work.tensor for work in wide) == 32
    assert set(plain) < set(wide)
    both = [candidate.plan.work for candidate in search(try_parameters=True).candidates()]
    assert {work.sharding for work in both} == {"optimizer", "parameters"}
    assert set(plain) < set(both)


def test_the_shown_layouts_are_the_best_of_all_seated_ones() -> None:
    """Seating only those that may be shown gives the same rows as seating all."""
    found = search(scenario(recovery=ELASTIC))
    everyone = [found.placed(candidate) for candidate in found.candidates()]
    for sort in ("step", "goodput"):
        content = describe_layouts(search(scenario(recovery=ELASTIC)), 10, sort)
        key = (lambda row: row.plan.time) if sort == "step" else (lambda row: -(row.tokens_per_day or 0))
        best = sorted(everyone, key=key)[:10]
        assert [row["step_s"] for row in content["layouts"]] == pytest.approx([row.plan.time for row in best])
        assert [row["ettr"] for row in content["layouts"]] == pytest.approx([row.ettr for row in best])
        assert [row[f"rank_{sort}"] for row in content["layouts"]] == list(range(1, 11))


FEW_SPARES = [
    "cluster.nodes=2064",
    "recovery={use: shrink-rejoin, reconfigure: 2 min, initialize: 5 min, rejoin: 30 s}",
]

"""Llama 3's job with its failures, on a cluster of its own with 16 spare nodes, 0.8 %."""


@pytest.mark.nightly
def test_the_fastest_layout_is_not_the_best() -> None:
    """With replicas that leave alone and few spares, wide replicas step faster and get less done: so says the formula.

    And so does the simulation of both layouts, on the same failures.
    """
    described = sim.load(sim.find("llama3-405b-54d"), FEW_SPARES)
    by_step = describe_layouts(sim.LayoutSearch(described), 1, "step")["layouts"][0]
    by_goodput = describe_layouts(sim.LayoutSearch(described), 1, "goodput")["layouts"][0]
    assert by_step["rank_step"] == by_goodput["rank_goodput"] == 1
    assert by_step["rank_goodput"] > 1
    assert by_goodput["rank_step"] > 1
    assert by_goodput["step_s"] > by_step["step_s"]
    assert by_goodput["tokens_per_day"] > by_step["tokens_per_day"]
    assert by_goodput["replica_sets"] > by_step["replica_sets"]
    done = []
    for row in (by_step, by_goodput):
        sizes = {name: row[name] for name in ("tensor", "context", "pipeline", "data", "virtual_pipeline")}
        execution = {"microbatch": row["microbatch"], "recompute": row["recompute"]}
        layout = [f"jobs.0.parallelism={json.dumps(sizes)}", f"jobs.0.execution={json.dumps(execution)}"]
        # The measured time is of another layout; what is compared is the number of healthy steps done.
        case = sim.prepare(sim.load(sim.find("llama3-405b-54d"), [*FEW_SPARES, *layout, "horizon=200 d"]))
        done.append([sim.run(case, number).jobs[0].work / row["step_s"] for number in range(6)])
    gain = np.subtract(done[1], done[0])
    assert gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(gain.size)


def call(*arguments: str) -> Result:
    """Run the command in this process; anything but an orderly end is an error."""
    result: Any = CliRunner().invoke(cli.app, ["layouts", *arguments], prog_name="ettrick", env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result  # type: ignore[no-any-return]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Write the small scenario; return its name."""
    path = tmp_path / "small.yaml"
    path.write_text(sim.dump(scenario()))
    return str(path)


def test_the_table_has_both_ranks_and_the_own_layout(file: str) -> None:
    """Rows in the order that was asked for, the scenario's own marked with its rank, and what is approximate."""
    result = call(file, "--top", "3", "--sort", "step")
    assert (result.exit_code, result.stderr) == (DONE, "")
    lines = result.stdout.splitlines()
    rows = [line.split() for line in lines if " x " in line and " s " in line]
    assert [row[0] for row in rows[:3]] == ["1", "2", "3"]
    own = json.loads(call(file, "--top", "3", "--sort", "step", "--json").stdout)["own"]
    assert rows[3][:2] == [f"{own['rank_step']:,}", "*"]
    assert "4 x 1 x 2 x 16" in result.stdout
    assert "by" in lines[2]
    assert "goodput" in lines[3]
    assert max(map(len, lines)) <= 120
    assert any("empty cluster" in line for line in lines)
    assert any("assumes: spares and repairs in their long run" in line for line in lines)


def test_json_has_every_number(file: str) -> None:
    """One document: rows with sizes, times, memory, shares and ranks that agree with each other."""
    content = json.loads(call(file, "--top", "30", "--json").stdout)
    assert (content["job"], content["gpus"], content["sort"]) == ("train", 128, "goodput")
    assert content["found"] >= 30
    assert len(content["layouts"]) == 30
    for row in content["layouts"]:
        assert row["tensor"] * row["context"] * row["pipeline"] * row["data"] == 128
        assert row["microbatches"] * row["microbatch"] * row["data"] == 32
        assert sum(row["breakdown_s"].values()) == pytest.approx(row["step_s"])
        assert row["bubble_share"] == pytest.approx(row["breakdown_s"]["bubble"] / row["step_s"])
        assert row["tokens_per_second"] == pytest.approx(32 * 8192 / row["step_s"])
        assert row["tokens_per_day"] == pytest.approx(86400 * row["ettr"] * row["tokens_per_second"])
        assert row["memory_share"] == pytest.approx(row["memory_bytes"] / 80e9)
        assert row["memory_share"] <= 1
        assert row["step_s_band90"][0] < row["step_s"] < row["step_s_band90"][1]
    assert content["own"]["is_own"]
    assert [row["tokens_per_day"] for row in content["layouts"]] == sorted(
        (row["tokens_per_day"] for row in content["layouts"]), reverse=True
    )


def test_what_may_not_fit_stands_below_and_no_number_is_cut_in_a_pipe() -> None:
    """Memory is counted to some per cent: more than 90 % of it comes last. However wide the table is, it is whole."""
    content = json.loads(call("llama3-405b-16k", "--top", "1000", "--json").stdout)
    tight = [row["memory_share"] > 0.9 for row in content["layouts"]]
    assert tight == sorted(tight)
    assert set(tight) == {False, True}
    ranks = [row["rank_goodput"] for row in content["layouts"]]
    assert ranks == sorted(ranks)
    wide = {"data": 131_072, "expert": 256, "tokens_per_day": 9.999e14, "recompute": "selective"}
    for row in content["layouts"]:
        row.update(wide)
    text = format_layouts(content)
    assert "…" not in text
    assert max(map(len, text.splitlines())) > 120
    marks = ["GB +" in line for line in text.splitlines() if " GB" in line and " x " in line and "(256)" in line]
    assert marks == tight


def test_an_own_layout_that_does_not_fit_has_a_rank_all_the_same(tmp_path: Path) -> None:
    """A layout that is too large by our count, measured or not, is shown beside those that fit, and said to be so."""
    path = tmp_path / "large.yaml"
    parallelism, execution = {"context": 4, "data": 32}, {"sharding": "none"}
    for measured in ({"step_time": "3 s"}, {}):
        path.write_text(sim.dump(with_job(parallelism=parallelism, execution=execution, **measured)))
        content = json.loads(call(str(path), "--json").stdout)
        assert content["own"]["memory_share"] > 1
        assert 1 <= content["own"]["rank_step"] <= content["found"] + 1
        assert any("does not fit" in note for note in content["notes"])


def refused(result: Any, status: int, *parts: str) -> None:
    """Check that a command ended with one line that holds `parts`, and nothing else."""
    assert result.exit_code == status
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert all(part in lines[0] for part in parts), lines[0]


def test_mistakes_are_told_in_one_line(file: str) -> None:
    """An unknown job, GPUs that the cluster lacks or that are no whole nodes, and options that make no sense."""
    refused(call(file, "--job", "trian"), WRONG, "unknown job 'trian'", "train")
    refused(call(file, "--gpus", "100"), WRONG, "100 GPUs are not a whole number of nodes of 8; nearest: 96 or 104")
    refused(call(file, "--gpus", "1600"), WRONG, "1,600 GPUs are more than the 160 of the cluster")
    refused(call(file, "--gpus", "0"), WRONG, "nearest: 8")
    refused(call("quickstart"), WRONG, "job 'train': its layouts are those of a model and a batch", "missing")


def test_a_closed_form_that_does_not_apply_ranks_nothing(file: str) -> None:
    """By what failures leave there is no order then, and the line says why; by the step there is one, unasked."""
    often = ("--set", "jobs.0.periodic=[{name: evaluation, every: 1 h, time: 5 min}]")
    why = "no closed form says what failures leave: periodic work takes"
    refused(call(file, *often, "--sort", "goodput"), WRONG, why, "sort by")
    found = call(file, *often)
    assert (found.exit_code, found.stderr) == (0, "")
    assert "ETTR: the closed form does not apply: periodic work takes" in found.stdout
    assert found.stdout == call(file, *often, "--sort", "step").stdout
    best = json.loads(call(file, *often, "--top", "1", "--json").stdout)["layouts"][0]
    assert (best["rank_step"], best["rank_goodput"], best["ettr"]) == (1, None, None)


def test_no_layout_is_an_answer_with_what_is_closest(file: str) -> None:
    """Sizes that divide nothing, memory that is too small, and more sets of replicas than any layout leaves."""
    # 37 stages are more than 32 layers, and 37 replicas do not divide 32 sequences; of 288 and 304 all is well.
    odd = call(file, "--set", "cluster.nodes=50", "--gpus", "296")
    refused(odd, NO, "no sizes of groups divide 296 GPUs, 32 layers and 32 sequences; nearest: 288 or 304")
    for count in (288, 304):
        assert smallest(search().base, Bounds(count, 1e18, 8)) is not None
    assert smallest(search().base, Bounds(296, 1e18, 8)) is None
    large = call(file, "--set", "jobs.0.model=llama3-405b", "--gpus", "64")
    refused(large, NO, "the smallest needs", "on GPUs of 80 GB", "recompute full", "it fits with 128 GPUs")
    elastic = f"recovery={json.dumps(ELASTIC | {'min_replicas': 8})}"
    refused(call(file, "--set", elastic, "--gpus", "8"), NO, "the 8 sets of replicas", "min_replicas")


def test_published_layouts_are_within_the_band_of_the_best() -> None:
    """With options, plain TP8 PP16 DP128 of Llama 3 405B on 16,384 H100 fits, and takes no longer than the band says.

    arXiv 2407.21783, table 4: all activations kept, gradients divided, no context parallelism.
    """
    shipped = sim.load("llama3-405b-54d", must_fit=False)
    plain = {"recompute": "none", "sharding": "gradients"}
    wanted = shipped.with_job(0, mfu=None, execution=shipped.jobs[0].execution.model_copy(update=plain))
    content = describe_layouts(sim.LayoutSearch(wanted, try_options=True), 1, "step")
    own, best = content["own"], content["layouts"][0]
    sizes = ("tensor", "context", "pipeline", "data", "recompute", "sharding")
    assert tuple(own[name] for name in sizes) == (8, 1, 16, 128, "none", "gradients")
    assert 1.0 < own["memory_share"] < 1.1
    assert own["step_s"] <= best["step_s_band90"][1]
    assert best["step_s"] <= own["step_s"]


def test_options_find_more_and_nothing_worse() -> None:
    """Looking at schedules, ZeRO-2 and modules never loses a layout, and the best one is no slower."""
    more = search(try_options=True).candidates()
    few, many = ({one.plan.work: one.plan.time for one in each} for each in (usual(), more))
    assert few.keys() < many.keys()
    assert min(many.values()) <= min(few.values())
    assert {"gradients", "optimizer"} == {work.sharding for work in many}
    assert {"zero-bubble-h1", "1f1b"} == {work.schedule for work in many}
