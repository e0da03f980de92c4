"""What follows from choices and budgets: sizes, widths, spares, layouts, reasons, neighbours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ettrick import sim
from ettrick.analysis.optimize.derive import NOT_HERE, Listing, listed_of, neighbours
from ettrick.analysis.optimize.problem import Problem, problem_of
from ettrick.analysis.study.amounts import Point
from ettrick.analysis.study.load import first_look, load_study
from ettrick.sim.formulas.nodes import missing_nodes_pmf, spares_needed
from ettrick.sim.offers import data_width, fewest_spares, largest, unit_unavailability
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

# Counts, by hand and by enumeration.


def _meter(racks: int) -> float:
    """Return the power of racks of 18 nodes of 5.1 kW at a PUE of 1.2 [W]."""
    return racks * 18 * 5100 * 1.2


def test_racks_under_two_budgets() -> None:
    """30,000 GPUs allow 416 racks of 72, and 100 MW alone 907: 416 draw 45.8 MW."""
    assert largest(lambda racks: _meter(racks) <= 100e6) == 907
    assert largest(lambda racks: _meter(racks) <= 100e6 and 72 * racks <= 30_000) == 416
    assert _meter(416) == pytest.approx(45.826560e6, rel=1e-12)
    assert largest(lambda _: False) == 0


def test_nodes_with_switches() -> None:
    """Switches come in whole ones: 9,561 nodes draw 99,991.5 kW."""

    def power(nodes: int) -> float:
        return 1.25 * (8 * nodes + 0.69 * (math.ceil(nodes / 2) + math.ceil(nodes / 32)))

    assert largest(lambda nodes: power(nodes) <= 100_000) == 9561
    assert power(9561) == pytest.approx(99_991.5, rel=1e-5)


@cases(
    ("replica", "batch", "width", "sequences"),
    [
        (32, (1920, 1920), 640, 1920),
        (32, (1900, 2048), 682, 2046),
        (32, (1824, 2016), 672, 2016),
        (32, (1900, 2500), 824, 2472),
        (64, (1920, 1920), 384, 1920),
    ],
)
def test_replicas_of_a_batch(replica: int, batch: tuple[int, int], width: int, sequences: int) -> None:
    """412 racks of 64 GPUs have room for 824 replicas of 32; the batch decides how many divide it."""
    assert data_width(412 * 64 // replica, batch) == (width, sequences)


def test_the_batch_is_near_the_wanted_one() -> None:
    """Of several batches of as many replicas that of the scenario is nearest; replicas may have to be whole units."""
    assert data_width(100, (700, 1300), near=960) == (100, 1000)
    assert data_width(100, (960, 960), 4, of=16) == (80, 960)
    assert data_width(7, (13, 13), 2) == (0, 0)


def test_spares_of_ninety_nine_percent() -> None:
    """The 99th percentile of Bin(2048, 0.004) is 15; spares that fail too make it 16."""
    assert fewest_spares(2048, 0.004) == 15
    assert spares_needed(2048, 0.004, 0.99) == 16
    assert fewest_spares(2048 + 16, 0.004) == 16


@cases(
    ("unavailability", "use", "units"),
    [(0.002, 72, 392), (0.01, 68, 404), (0.03, 64, 403)],
)
def test_the_best_use_of_racks(unavailability: float, use: int, units: int) -> None:
    """Of 416 racks so many are whole with 99 %, and no other use leaves more GPUs."""

    def usable(used: int) -> int:
        return 416 - fewest_spares(416, unit_unavailability(18, used // 4, unavailability))

    assert usable(use) == units
    assert max((64, 68, 72), key=lambda used: used * usable(used)) == use


def test_where_the_best_use_turns() -> None:
    """72 gives way to 68 at an unavailability of 0.00215, and 68 to 64 at 0.01956, to 1 %."""

    def gpus(used: int, unavailability: float) -> int:
        return used * (416 - fewest_spares(416, unit_unavailability(18, used // 4, unavailability)))

    assert gpus(72, 0.00215 * 0.99) >= gpus(68, 0.00215 * 0.99)
    assert gpus(72, 0.00215 * 1.01) <= gpus(68, 0.00215 * 1.01)
    assert gpus(68, 0.01956 * 0.99) >= gpus(64, 0.01956 * 0.99)
    assert gpus(68, 0.01956 * 1.01) <= gpus(64, 0.01956 * 1.01)


@cases(
    ("segment", "unavailability", "share"),
    [
        (16, 0.01, 0.888240747),
        (9, 0.01, 0.917256881),
        (18, 0.01, 0.834513761),
        (16, 0.05, 0.837218730),
        (9, 0.05, 0.698607158),
        (18, 0.05, 0.397214318),
    ],
)
def test_segments_of_a_rack(segment: int, unavailability: float, share: float) -> None:
    """Whole segments use so much of 18 trays on average."""
    law = missing_nodes_pmf(18, unavailability)
    assert law @ ((18 - np.arange(19)) // segment * segment) / 18 == pytest.approx(share, rel=1e-6)


def _renewal(factor: float, rate: float, interval: float, restart: float, down: float) -> float:
    """Return the share of productive time, for saves that stop the job for half a minute [all in minutes]."""
    useful = rate * interval * math.exp(-rate * restart) / math.expm1(rate * (interval + 0.5))
    return factor * useful / (1 + rate * down)


def _best(megawatts: float, power: float, size: int, uses: tuple[int, ...], gpus: int, q: float, daily: float) -> Any:
    """Return value, nodes in use of a unit, spares, recovery and interval of the best of units of some nodes."""
    owned = largest(lambda units: 1.2 * size * power * units <= 1000 * megawatts)
    rows = []
    for use in uses:
        spares = fewest_spares(owned, unit_unavailability(size, use, q))
        nodes = (owned - spares) * use
        for name, *phases in (("requeue", 1.0, 15, 10), ("in-job", 0.98, 3, 1)):
            for interval in (2, 4, 8, 16, 32):
                share = _renewal(phases[0], nodes * daily / 1440, interval, *phases[1:])
                rows.append((nodes * gpus * share, use, spares, name, interval))
    return max(rows)


@cases(
    ("megawatts", "racks", "nodes"),
    [
        (2, (3358.577510, 17, 1, "requeue", 32), 1547.216552),
        (10, (16446.113159, 17, 3, "in-job", 16), 7489.293090),
        (100, (141561.790655, 17, 10, "in-job", 8), 59836.574222),
    ],
)
def test_all_together(megawatts: float, racks: tuple[Any, ...], nodes: float) -> None:
    """Racks of which 68 GPUs are used, each worth three, beat nodes of eight at every budget of power."""
    value, *choice = _best(megawatts, 5.1, 18, (16, 17, 18), 4, 0.006, 0.002)
    assert (3 * value, *choice) == (pytest.approx(racks[0], rel=1e-6), *racks[1:])
    assert _best(megawatts, 8.0, 1, (1,), 8, 0.012, 0.004)[0] == pytest.approx(nodes, rel=1e-6)


# Whole studies: a small model on racks of 18 nodes of 4 GPUs, or on nodes of 8.

_SCENARIO: dict[str, Any] = {
    "name": "small",
    "horizon": "10 d",
    "cluster": {
        "nodes": 72,
        "gpus_per_node": 4,
        "accelerator": "gb200",
        "scale_up": {"gpus": 72, "use": 64, "tray": 4, "drain_unit": "tray", "swap_unit": "rack"},
        "rack": {"nodes": 18},
        "fabric": {
            "use": "fat-tree",
            "rails": 4,
            "radix": 64,
            "leaf": {"nodes": 18},
            "spine": {"leaf_groups": 2},
            "core": {"switches": 36},
        },
    },
    "jobs": [
        {
            "name": "train",
            "gpus": 64,
            "model": "llama3-70b",
            "batch": {"tokens": 1_048_576, "sequence": 8192},
            "parallelism": {"tensor": 4, "pipeline": 4, "data": 4},
            "precision": "bf16",
        }
    ],
    "failures": [{"use": "component", "name": "tray", "part": "node", "rate": "6 per 1000 node-days"}],
    "detection": {"time": "1 min"},
    "checkpoint": {
        "tiers": [
            {
                "store": "remote",
                "interval": "10 min",
                "mode": "async",
                "stall": "2 s",
                "write": "60 s",
                "restore": "30 s",
            }
        ]
    },
    "recovery": {"use": "hot-spare", "reschedule": "30 s", "initialize": "200 s"},
    "repair": {"time": "1 d"},
    "power": {"pue": 1.2},
    "cost": {"capex": 60000, "years": 4},
}

_NODES = {"nodes": 16, "gpus_per_node": 8, "accelerator": "h100"}


def _problem(tmp_path: Path, vary: dict[str, Any], optimize: dict[str, Any], **more: Any) -> Problem:
    """Return the problem of a study of the small scenario; `more` are keys of the study, or ``scenario``."""
    scenario = _SCENARIO | more.pop("scenario", {})
    (tmp_path / "small.yaml").write_text(sim.dump(scenario), encoding="utf-8")
    goal = {"maximize": "tokens_per_day", **optimize}
    study = {"name": "x", "scenario": "small.yaml", "vary": vary, "optimize": goal, "metrics": ["ettr"], **more}
    (tmp_path / "study.yaml").write_text(sim.dump(study), encoding="utf-8")
    loaded = load_study(tmp_path / "study.yaml")
    assert first_look(loaded) == []
    return problem_of(loaded)


_BATCH = {"sequences": [100, 160]}
"""Replicas on 68 or 72 GPUs of a rack are odd numbers: they divide no power of two."""

_ALL = {kind: {"derive": kind} for kind in ("size", "spares", "layout", "interval")}


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, Listing]:
    """Return a problem of which everything is derived, for two recoveries and two uses of a rack."""
    vary = {
        "use": {"path": "cluster.scale_up.use", "choices": [64, 68]},
        **_ALL,
        "recovery": {"path": "recovery.use", "choices": ["nvrx-in-job", "torchft-hsdp"]},
    }
    budget = {"power": "1.1 MW", "gpus": 800, "capex": 1e9}
    problem = _problem(tmp_path_factory.mktemp("derived"), vary, {"budget": budget, "batch": _BATCH})
    return problem, listed_of(problem)


def test_budgets_are_kept_and_used(derived: tuple[Problem, Listing]) -> None:
    """The largest size keeps every budget, and one rack more would break one: here that of power."""
    _, listing = derived
    racks = round(listing.used["gpus"].max() / 72)
    assert listing.used["power"].max() <= 1.1e6 < listing.used["power"].max() * (racks + 1) / racks
    np.testing.assert_allclose(listing.used["capex"], 60_000 * listing.used["gpus"])
    assert f"{racks} racks" in {row[1].label for row in listing.candidates}


def test_candidates_are_what_their_settings_say(derived: tuple[Problem, Listing]) -> None:
    """A scenario that is read with the settings of a candidate is its base, to the last bit."""
    problem, listing = derived
    rows = np.random.default_rng(1).choice(len(listing.candidates), 12, replace=False)
    for row in rows.tolist():
        point = Point(0, 0, 0, problem.values(listing.candidates[row], 0))
        prepared, base = sim.prepare(problem.loaded.scenario(point)), listing.bases[listing.base_of[row]]
        assert (prepared.counts, prepared.withheld, prepared.reserves) == (base.counts, base.withheld, base.reserves)
        job, other = prepared.jobs[0], base.jobs[0]
        assert (job.gpus, job.replicas, job.step_time, job.mtti) == (
            other.gpus,
            other.replicas,
            other.step_time,
            other.mtti,
        )
        assert listing.step_time[row] == job.step_time
        assert listing.tokens[row] == job.tokens
        assert listing.interval[row] == job.checkpoint.rungs[-1].interval


def test_replicas_that_leave_alone_are_whole_racks(derived: tuple[Problem, Listing]) -> None:
    """With torchft a replica is a whole number of racks of 64 GPUs in use; 68 GPUs make none that divides."""
    _, listing = derived
    for row, base in zip(listing.candidates, listing.base_of, strict=True):
        if row[-1].label == "torchft-hsdp":
            assert row[0].label == "64"
            assert listing.bases[base].jobs[0].nodes // listing.bases[base].jobs[0].replicas % 16 == 0
    assert [reason[:3] for reason in listing.infeasible if reason.axis == "use × recovery"] == [
        ("divides", "use × recovery", "68, torchft-hsdp")
    ]


def test_kept_layouts_are_the_best(derived: tuple[Problem, Listing]) -> None:
    """No layout that is kept is beaten by another of as many GPUs in the same place, and the count adds up."""
    _, listing = derived
    groups: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row, base in zip(listing.candidates, listing.base_of.tolist(), strict=True):
        if row[-1].label == "nvrx-in-job":
            job = listing.bases[base].jobs[0]
            groups.setdefault(tuple(p.label for p in row[:3]), []).append((job.gpus, job.tokens_per_second))
    for rows in groups.values():
        for gpus, rate in rows:
            assert not any(other <= gpus and faster > rate for other, faster in rows)
    assert listing.listed == len(listing.candidates) + listing.dominated + sum(row.count for row in listing.infeasible)


def test_intervals_are_around_the_optimum(derived: tuple[Problem, Listing]) -> None:
    """Five times between saves, each 1.4 times the one before it, to two digits."""
    _, listing = derived
    times = np.sort(listing.interval[listing.base_of == listing.base_of[0]])
    assert len(times) == 5
    np.testing.assert_allclose(times[1:] / times[:-1], 1.4, rtol=0.06)
    job = listing.bases[listing.base_of[0]].jobs[0]
    assert times[2] == pytest.approx(max(math.sqrt(2 * 2 * job.mtti), 60), rel=0.05)


def test_neighbours_are_one_step_away(derived: tuple[Problem, Listing]) -> None:
    """Beside a candidate are the next sizes, spares and intervals, all other layouts, and all values of names."""
    _, listing = derived
    index = next(
        i for i, row in enumerate(listing.candidates) if row[0].label == "64" and row[-1].label == "nvrx-in-job"
    )
    index = next(beside for beside, axis in neighbours(listing, index) if axis == "interval")
    own = [position.label for position in listing.candidates[index]]
    axes: dict[str, list[int]] = {}
    for beside, axis in neighbours(listing, index):
        axes.setdefault(axis, []).append(beside)
        assert beside != index
    assert {"use", "size", "spares", "interval", "recovery", "size × spares"} <= axes.keys()
    assert 1 <= len(axes["interval"]) <= 2
    for beside in axes["interval"]:
        labels = [position.label for position in listing.candidates[beside]]
        assert [a == b for a, b in zip(own, labels, strict=True)] == [True, True, True, True, False, True]
    for beside in axes["spares"]:
        assert [position.label for position in listing.candidates[beside]][:2] == own[:2]


# One reason for each.

_SIZE_AND_LAYOUT = {"size": {"derive": "size"}, "layout": {"derive": "layout"}}


def _job(**changes: Any) -> dict[str, Any]:
    """Return the section of jobs of the small scenario with other keys."""
    return {"jobs": [_SCENARIO["jobs"][0] | changes]}


def _cluster(**changes: Any) -> dict[str, Any]:
    """Return the section of the cluster of the small scenario with other keys, and with no number of nodes."""
    return {"cluster": {key: value for key, value in (_SCENARIO["cluster"] | changes).items() if key != "nodes"}}


_FABRIC = _SCENARIO["cluster"]["fabric"]


@cases(
    ("scenario", "optimize", "kind", "words"),
    [
        ({}, {"budget": {"power": "50 kW"}}, "budget", "1 rack: "),
        (
            {"cluster": _NODES, **_job(model="llama3-405b")},
            {"budget": {"gpus": 8}},
            "memory",
            "no layout on 8 GPUs or fewer fits into",
        ),
        ({}, {"budget": {"gpus": 72}, "batch": {"sequences": [0, 0]}}, "", ""),
        (_cluster(fabric=_FABRIC | {"radix": 16}), {"budget": {"gpus": 800}}, "fabric", "radix 16"),
        ({"spares": {"hot": 3}}, {"budget": {"gpus": 800}}, "units", "spares.hot"),
        ({"spares": {"hot": 160}}, {"budget": {"gpus": 720}}, "units", "leaves none to the job"),
        (
            {"recovery": _SCENARIO["recovery"] | {"pools": ["spare"]}},
            {"budget": {"gpus": 800}},
            "strategy",
            "spares.hot is 0",
        ),
    ],
)
def test_each_reason(tmp_path: Path, scenario: dict[str, Any], optimize: dict[str, Any], kind: str, words: str) -> None:
    """What cannot be is an answer with its reason, and nothing is listed."""
    if not kind:  # refused as the study is read
        with pytest.raises(sim.ScenarioError, match="one sequence at least"):
            _problem(tmp_path, _SIZE_AND_LAYOUT, optimize)
        return
    listing = listed_of(_problem(tmp_path, _SIZE_AND_LAYOUT, optimize, scenario=scenario))
    assert listing.candidates == ()
    assert {reason.kind for reason in listing.infeasible} == {kind}
    assert words in listing.infeasible[0].first


def test_a_prime_batch_divides_nothing(tmp_path: Path) -> None:
    """Without a derived layout, replicas of 16 GPUs on 640 in steps of 64 cannot share 7 sequences."""
    scenario = _job(
        batch={"tokens": 7 * 8192, "sequence": 8192}, gpus=112, parallelism={"tensor": 4, "pipeline": 4, "data": 7}
    )
    vary = {"size": {"derive": "size"}}
    listing = listed_of(_problem(tmp_path, vary, {"budget": {"gpus": 720}}, scenario=scenario))
    assert [(reason.kind, reason.axis) for reason in listing.infeasible] == [("divides", "")]
    assert listing.infeasible[0].first.endswith("640 GPUs in steps of 64 and 7 sequences; nearest: 4 or 8")


def test_the_fewest_gpus_that_help(tmp_path: Path) -> None:
    """A model that does not fit into 8 GPUs has a layout on some more: no fewer than its weights and moments need."""
    scenario = {"cluster": _NODES, **_job(model="llama3-405b")}
    listing = listed_of(_problem(tmp_path, _SIZE_AND_LAYOUT, {"budget": {"gpus": 8}}, scenario=scenario))
    assert 405e9 * 14 / 80e9 < listing.helps["gpus"] < 128


def test_what_would_help(tmp_path: Path) -> None:
    """Where a rack is too much, the smallest power that allows something is that of one rack."""
    problem = _problem(tmp_path, _SIZE_AND_LAYOUT, {"budget": {"power": "50 kW", "gpus": 800}})
    listing = listed_of(problem)
    assert listing.helps.keys() == {"power"}
    assert 18 * 5100 * 1.2 < listing.helps["power"] < 150_000


def test_a_dead_value_stops_nothing(tmp_path: Path) -> None:
    """A use of 66 GPUs is no whole nodes: all of its combinations have this reason, and the others are listed."""
    vary = {"use": {"path": "cluster.scale_up.use", "choices": [64, 66, 68]}, **_SIZE_AND_LAYOUT}
    listing = listed_of(_problem(tmp_path, vary, {"budget": {"gpus": 400}, "batch": _BATCH}))
    assert {row[0].label for row in listing.candidates} == {"64", "68"}
    (reason,) = listing.infeasible
    assert (reason.kind, reason.axis, reason.value, reason.count) == ("units", "use", "66", 1)


def test_an_axis_that_exists_somewhere(tmp_path: Path) -> None:
    """The use of a rack is asked for where there are racks; elsewhere it has no value, and its neighbours have one."""
    vary = {
        "offer": {"choices": {"racks": {"cluster": _SCENARIO["cluster"]}, "nodes": {"cluster": _NODES}}},
        "use": {"path": "cluster.scale_up.use", "choices": [64, 72], "where": {"offer": "racks"}},
        **_SIZE_AND_LAYOUT,
    }
    listing = listed_of(_problem(tmp_path, vary, {"budget": {"gpus": 160}, "batch": _BATCH}))
    uses = {
        offer: {row[1].label for row in listing.candidates if row[0].label == offer} for offer in ("racks", "nodes")
    }
    assert uses == {"racks": {"64", "72"}, "nodes": {NOT_HERE.label}}
    (index,) = [i for i, row in enumerate(listing.candidates) if row[0].label == "nodes"][:1]
    beside = [other for other, axis in neighbours(listing, index) if axis == "offer"]
    assert [listing.candidates[other][0].label for other in beside] == ["racks"]


def test_a_shipped_cluster_of_another_size() -> None:
    """With its 144 cores the GB200 cluster of 2,304 nodes cannot be three times as large: cores are counted anew.

    416 racks have 1,664 leaf switches in 52 pods of 18 spines of 32 uplinks: 29,952 cables on 64 ports, spread evenly.
    """
    cluster = sim.template("llama3-405b-gb200").scenario().cluster
    large, small = cluster.resized(7488), cluster.resized(1152)
    assert [part.counts()["core"] for part in (cluster, large, small)] == [144, 576, 144]
    assert large.counts()["leaf"] == 1664
    assert (large.counts()["pod"], large.counts()["spine"]) == (52, 52 * 18)
    assert cluster.counts()["node"] == 2304


def test_more_cores_than_stated(tmp_path: Path) -> None:
    """Twelve racks need more than the 36 cores of four: they are counted anew, and the answer says so."""
    listing = listed_of(_problem(tmp_path, {"size": {"derive": "size"}}, {"budget": {"gpus": 40 * 72}}))
    row = next(index for index, row in enumerate(listing.candidates) if row[0].label == "40 racks")
    assert ("cluster.fabric.core.switches", None) in listing.candidates[row][0].settings
    assert listing.bases[listing.base_of[row]].counts["core"] > 36
    assert "the stated 36" in listing.derived(row)["core"]


def test_the_fabric_may_be_the_limit(tmp_path: Path) -> None:
    """Cores of 64 ports join 64 pods of two racks: more power and GPUs buy no more, and the answer says why."""
    listing = listed_of(_problem(tmp_path, {"size": {"derive": "size"}}, {"budget": {"power": "50 MW"}}))
    row = int(np.argmax(listing.used["power"]))
    assert listing.candidates[row][0].label == "128 racks"
    assert "129 racks: core radix 64 is too small" in listing.derived(row)["fabric"]


def test_goals_per_gpu_own_what_they_use(tmp_path: Path) -> None:
    """Where the goal divides by what is owned, no unit is left over, and small clusters are listed too."""
    optimize = {"maximize": "tokens_per_gpu_day", "budget": {"gpus": 1000}}
    listing = listed_of(_problem(tmp_path, _SIZE_AND_LAYOUT, optimize))
    assert {facts["unallocated"] for facts in listing.facts} == {"0 GPUs"}
    assert listing.used["gpus"].min() <= 144
    axes = {axis for index in range(len(listing.candidates)) for _, axis in neighbours(listing, index)}
    assert {"size", "layout"} <= axes


@cases(
    ("vary", "optimize", "more", "words"),
    [
        ({"size": {"derive": "size"}}, {}, {}, "needs a limit"),
        (_ALL, {"budget": {"gpus": 800}}, {"set": {"spares.hot": 16}}, "spares.hot follows from the spares"),
        (
            {"size": {"derive": "size"}, "n": {"path": "cluster.nodes", "choices": [18]}},
            {"budget": {"gpus": 1}},
            {},
            "follows",
        ),
        (_ALL, {"budget": {"gpus": 800}}, {"scenario": _job(mfu=0.4)}, "is stated"),
        (_ALL, {"budget": {"capex": 1e9}}, {"scenario": {"cost": {"gpu_hour": 2}}}, "needs prices"),
        (_ALL, {"budget": {"power": "0 MW"}}, {}, "above"),
        (_ALL, {"budget": {"power": "100"}}, {}, "unit"),
        (_ALL, {"budget": {"gpus": 800}, "tie": "50 %"}, {}, "too much"),
        (_ALL | {"more": {"derive": "size"}}, {"budget": {"gpus": 800}}, {}, "derived by size already"),
        (
            {"size": {"derive": "size", "path": "cluster.nodes"}},
            {"budget": {"gpus": 800}},
            {},
            "what it writes is known",
        ),
        ({"a": {"path": "spares.hot", "choices": [0], "where": {"b": 1}}}, {}, {}, "no axis that exists everywhere"),
    ],
)
def test_refused_in_a_line(
    tmp_path: Path, vary: dict[str, Any], optimize: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    """What makes no sense is refused with its place before anything is listed."""
    with pytest.raises(sim.ScenarioError, match="(?i)" + words) as caught:
        listed_of(_problem(tmp_path, vary, optimize, **more))
    assert all(": " in line for line in caught.value.lines)


def test_what_is_named_alone_is_listed_too(tmp_path: Path) -> None:
    """Without anything derived the job stays as it is, and each combination is a candidate or has its reason."""
    vary = {
        "nodes": {"path": "cluster.nodes", "choices": [18, 36, 72]},
        "recovery": {"path": "recovery.use", "choices": ["nvrx-in-job", "slurm-requeue"]},
        "hot": {"path": "spares.hot", "choices": [0, 16], "where": {"recovery": "nvrx-in-job"}},
    }
    listing = listed_of(_problem(tmp_path, vary, {}))
    assert len(listing.candidates) == 3 + 3 + 2  # on one rack there is no room for a spare one
    assert {base.jobs[0].gpus for base in listing.bases} == {64}
    assert [(reason.kind, reason.count) for reason in listing.infeasible] == [("spares", 1)]
    assert np.isnan(listing.interval).all()


def test_layouts_of_a_stated_cluster(tmp_path: Path) -> None:
    """Where the size is stated, the job takes what is there beside its spares."""
    vary, optimize = {"layout": {"derive": "layout"}}, {"batch": {"sequences": [96, 128]}}
    listing = listed_of(_problem(tmp_path, vary, optimize, scenario={"spares": {"hot": 16}}))
    assert {base.nodes for base in listing.bases} == {72}
    assert max(base.jobs[0].gpus for base in listing.bases) == 3 * 64


def test_spares_of_a_cluster_that_grows(tmp_path: Path) -> None:
    """Where neither nodes nor size are given, the job stays and the cluster has room for each number of spares."""
    listing = listed_of(_problem(tmp_path, {"spares": {"derive": "spares"}}, {}, scenario=_cluster()))
    assert {(base.jobs[0].gpus, base.nodes - 18 * (base.scenario.spares.hot // 16)) for base in listing.bases} == {
        (64, 18)
    }
    assert len(listing.candidates) >= 3


def test_other_designs_need_values(tmp_path: Path) -> None:
    """A sweep has no budget to derive from, and says so."""
    problem = _problem(tmp_path, _ALL, {"budget": {"gpus": 800}})
    with pytest.raises(sim.ScenarioError, match="ettrick optimize"):
        next(problem.loaded.points())
