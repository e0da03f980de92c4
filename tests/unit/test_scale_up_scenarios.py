"""Scale-up domains through whole scenarios: NVL72 racks that lose trays, boards of eight, and groups that are cut."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest

from ettrick import sim
from ettrick.analysis.ratios import ratios
from ettrick.sim.engine.nodes import NodeState
from ettrick.sim.policies.contracts import Bucket
from tests import report_sample
from tests.cases import cases
from tests.harness import ended, nodes_at, play, prepared, seconds
from tests.typed import present

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


NVL72 = """\
name: nvl72
cluster:
  nodes: 54
  accelerator: gb200
  scale_up: {gpus: 72, use: 64, tray: 4, switch_trays: 9, drain_unit: tray, swap_unit: rack}
  rack: {nodes: 18}
  fabric: {rails: 4, leaf: {nodes: 18}, radix: 128}
horizon: 1000 s
jobs: [{name: job, gpus: 64}]
failures:
  - {use: component, name: tray, part: node, rate: 1 per 1000 node-d}
  - {use: component, name: switch, part: switch_tray, rate: 1 per 1000 switch_tray-d, repair: 100 s}
  - {use: component, name: domain, part: scale_up, rate: 1 per 1000 scale_up-d, repair: 100 s}
detection: {time: 0 s}
checkpoint: {tiers: [{interval: 100 s, mode: blocking, write: 10 s, restore: 20 s}]}
recovery: {use: hot-spare, initialize: 30 s}
spares: {hot: 16}
repair: {time: 200 s}
"""

"""Three racks of 18 trays, of which a job takes 16: rack 0 is the job's, rack 1 idle, and rack 2 the spare."""

MATES = [16, 17, 34, 35, 52, 53]

"""Those of the three racks at the start."""

SLOW_REPAIR = ("repair.time=1 d",)

TRAY, SWITCH, DOMAIN = range(3)


@pytest.fixture
def racks(tmp_path: Path) -> Any:
    """Return a function that loads the racks with some values replaced."""
    path = tmp_path / "nvl72.yaml"
    path.write_text(NVL72, encoding="utf-8")
    return lambda *overrides: sim.prepare(sim.load(path, overrides))


def nodes_seconds(result: sim.Result, bucket: Bucket) -> float:
    """Return node-seconds of the cluster in a bucket; a tray has four GPUs."""
    return float(result.cluster[bucket]) / 4


def test_racks_give_16_of_18_trays(racks: Any) -> None:
    """64 of 72 GPUs: the last two trays of each rack are spares inside it; all is whole all the time."""
    one = racks()
    assert (len(one.units.nodes), one.units.needed, one.units.drains) == (3, 16, False)
    simulation = ended(one, [])
    assert simulation.jobs.all[0].nodes == list(range(16))
    assert nodes_at(simulation, NodeState.IDLE) == list(range(18, 34))
    assert nodes_at(simulation, NodeState.SPARE) == list(range(36, 52))
    assert nodes_at(simulation, NodeState.MATE) == MATES
    result = play(one)
    assert nodes_seconds(result, Bucket.SPARE_IDLE) == pytest.approx((16 + 6) * 1000)
    assert nodes_seconds(result, Bucket.UNALLOCATED) == pytest.approx(16 * 1000)
    availability = ratios(one, result)["domain_availability"]
    assert availability.amount == availability.base == pytest.approx(3 * 1000)


def test_without_a_spare_rack_the_job_takes_the_idle_one_and_then_waits(racks: Any) -> None:
    """It leaves rack 0 for rack 1 at 300 s; rack 2 fails at 310 s and rack 1 at 320 s; rack 0 is back at 400 s."""
    rows = [(300.0, DOMAIN, 0), (310.0, DOMAIN, 2), (320.0, DOMAIN, 1)]
    found = play(racks("spares.hot=0"), rows)
    assert seconds(found)["starved"] == pytest.approx(400 - 320)
    assert ended(racks("spares.hot=0"), rows).jobs.all[0].nodes == list(range(16))


def test_a_rack_that_is_drained_whole(racks: Any) -> None:
    """With drain_unit: rack the first loss takes all 18 trays out of use until the tray is back, 200 s later."""
    one = racks("cluster.scale_up.drain_unit=rack")
    rows = [(300.0, TRAY, 0)]
    result = play(one, rows)
    assert "starved" not in seconds(result)
    assert nodes_seconds(result, Bucket.STRANDED) == pytest.approx(17 * 200)
    availability = ratios(one, result)["domain_availability"]
    assert availability.amount / availability.base == pytest.approx(1 - 200 / 3000)
    simulation = ended(one, rows)
    assert simulation.jobs.all[0].nodes == list(range(36, 52))
    assert nodes_at(simulation, NodeState.SPARE) == list(range(16))
    assert nodes_at(simulation, NodeState.MATE) == MATES


def test_swapping_tray_by_tray(racks: Any) -> None:
    """With swap_unit: tray no rack is a unit: the third loss takes the third spare tray, wherever it is."""
    one = racks("cluster.scale_up={gpus: 72, tray: 4, switch_trays: 9, swap_unit: tray}", *SLOW_REPAIR)
    assert one.units is None
    rows = [(300.0, TRAY, 0), (310.0, TRAY, 1), (320.0, TRAY, 2)]
    result = play(one, rows)
    assert nodes_seconds(result, Bucket.STRANDED) == 0
    assert result.unit_seconds == 0
    assert "domain_availability" not in ratios(one, result)
    assert nodes_seconds(result, Bucket.SPARE_IDLE) == pytest.approx(16 * 1000 - 700 - 690 - 680)
    # The spares are the last 16 nodes.
    assert ended(one, rows).jobs.all[0].nodes == [38, 39, 40, *range(3, 16)]


NEVER = "no source of failures acts on the 9 switch trays of each scale-up domain"


def test_switch_trays_that_never_fail_are_mentioned(racks: Any) -> None:
    """A warning with a source to add, if other parts fail and neither trays nor domains do, but for planned work."""
    tray = "{use: component, name: tray, part: node, rate: 1 per 1000 node-d}"
    serve = "spares.idle=serve"
    assert racks(serve).warnings == ()
    (line,) = racks(serve, f"failures=[{tray}]").warnings
    assert line.startswith(NEVER)
    told = present(re.search(r"- (\{.*\})$", line))
    assert racks(serve, f"failures=[{tray}, {told[1]}]").warnings == ()
    window = "windows: [{start: 1 h, duration: 1 h}], part: switch_tray"
    (line,) = racks(serve, f"failures=[{tray}, {{use: maintenance, name: window, {window}}}]").warnings
    assert line.startswith(NEVER)
    assert (
        racks(
            serve, f"failures=[{tray}, {{use: component, part: scale_up, name: d, rate: 1 per scale_up-year}}]"
        ).warnings
        == ()
    )
    assert racks(serve, "failures=[]").warnings == ()
    assert racks(serve, f"failures=[{tray}]", "cluster.scale_up.switch_trays=0").warnings == ()


@pytest.mark.parametrize("slot", [0, 8])
def test_a_switch_tray_stops_its_domain(racks: Any, slot: int) -> None:
    """Any of its nine trays of switches takes the 18 compute trays of rack 0 with it, and brings them back at 400 s."""
    result = play(racks(), [(300.0, SWITCH, slot)])
    assert result.jobs[0].interruptions == {2: 1}
    assert result.down_node_seconds == pytest.approx(18 * 100)
    assert nodes_seconds(result, Bucket.REPAIR) == pytest.approx(18 * 100)
    assert nodes_seconds(result, Bucket.STRANDED) == 0
    assert result.whole_unit_seconds == pytest.approx(3000 - 100)
    assert "starved" not in seconds(result)
    assert ended(racks(), [(300.0, SWITCH, slot)]).jobs.all[0].nodes == list(range(36, 52))


def test_boards_of_eight_change_nothing() -> None:
    """A node whose eight GPUs are a scale-up domain is what a node is without saying so, bit by bit."""
    cluster = report_sample.SMALL["cluster"]
    plain = report_sample.prepare()
    failures = [*report_sample.SMALL["failures"]]
    for scale_up in ({"gpus": 8}, {"gpus": 8, "swap_unit": "tray"}, {"gpus": 8, "drain_unit": "domain", "tray": 8}):
        boards = report_sample.prepare(cluster={**cluster, "scale_up": scale_up}, failures=failures)
        assert boards.units is None
        assert {part: number for part, number in boards.counts.items() if part != "scale_up"} == plain.counts
        assert boards.counts["scale_up"] == 16
        for replication in range(3):
            ours, theirs = sim.run(boards, replication), sim.run(plain, replication)
            assert ours.counts == theirs.counts
            assert ours.counts["failures"] > 0
            assert (ours.jobs[0].totals == theirs.jobs[0].totals).all()
            assert (ours.cluster == theirs.cluster).all()
            assert ours.jobs[0].work == theirs.jobs[0].work


def job(gpus: int, within: Sequence[str] = (), **parallelism: int) -> list[dict[str, Any]]:
    """Return a job with a layout."""
    layout: dict[str, Any] = {**parallelism, **({"within_domain": list(within)} if within else {})}
    return [{"name": "job", "gpus": gpus, "parallelism": layout}]


BOARDS = {"nodes": 8, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"rails": 8}}

RACKS = {
    "nodes": 36,
    "accelerator": "gb200",
    "rack": {"nodes": 18},
    "fabric": {"rails": 4, "leaf": {"nodes": 18}},
    "scale_up": {"gpus": 72, "use": 64, "tray": 4, "switch_trays": 9},
}


def test_tensor_groups_of_sixteen_do_not_fit_boards_of_eight() -> None:
    """One line says by how much: 450 GB/s of NVLink against one NIC of 400 Gb/s a GPU, that is 50 GB/s."""
    one = prepared(cluster=BOARDS, jobs=job(32, tensor=16, data=2))
    (line,) = one.warnings
    assert line.startswith("job 'job': tensor groups of 16 span 2 scale-up domains of 8 GPUs: ")
    assert "instead of 450 GB/s" in line
    assert prepared(cluster=BOARDS, jobs=job(32, tensor=8, data=4)).warnings == ()
    assert prepared(cluster={**BOARDS, "scale_up": {"gpus": 16}}, jobs=job(32, tensor=16, data=2)).warnings == ()


def test_a_tensor_group_of_64_fits_an_nvl72_rack() -> None:
    """64 of the 72 GPUs of one domain, and the next group in the next rack."""
    one = prepared(cluster=RACKS, jobs=job(128, tensor=64, data=2), failures=[])
    assert one.warnings == ()
    found = present(sim.placement(one.scenario, 0))
    assert (found.spans["tensor"].level, found.spans["tensor"].domains) == ("scale_up", 1)
    boards = {**RACKS, "gpus_per_node": 4, "scale_up": None}
    (line,) = prepared(cluster=boards, jobs=job(128, tensor=64, data=2)).warnings
    assert "tensor groups of 64 span 16 scale-up domains of 4 GPUs" in line


@cases("kind", ["tensor", "context", "expert"])
def test_groups_that_must_fit_are_refused(kind: str) -> None:
    """Where the scenario wants them inside one domain, a cut is a mistake."""
    sizes = {"tensor": {"tensor": 16}, "context": {"context": 16}, "expert": {"data": 16, "expert": 16}}[kind]
    gpus = 32 if kind != "expert" else 16
    parts = {**sizes, **({"data": 2} if kind != "expert" else {})}
    rule = (
        rf"jobs\.0\.parallelism\.within_domain: {kind} groups of 16 GPUs do not fit into scale-up domains of 8: "
        "they would span 2"
    )
    with pytest.raises(sim.ScenarioError, match=rule):
        prepared(cluster=BOARDS, jobs=job(gpus, [kind], **parts))
    wide = {**BOARDS, "scale_up": {"gpus": 16}}
    assert prepared(cluster=wide, jobs=job(gpus, [kind], **parts)).warnings == ()


@cases(("ratio", "spines", "down", "up"), [(1, 16, 192, 192), (2, 8, 384, 192), (4, 8, 384, 96), (7, 8, 384, 55)])
def test_oversubscription_of_the_cores_in_a_study(ratio: int, spines: int, down: int, up: int) -> None:
    """The pods of 192 racks have 3,072 links up from their leaf switches, on spines of 576 ports each.

    With the ratio r, down and ceil(down / r) links up must fit 576 ports, and the spines must share the 16 uplinks
    of a leaf evenly: 16 spines of 192 for r = 1, else 8 of 384. Between pods a NIC gets up / down of its 400 Gb/s.
    """
    assert up == math.ceil(down / ratio)
    assert down * spines == 192 * 16
    assert down + up <= 576
    overrides = [f"cluster.fabric.core.oversubscription={ratio}", "jobs.0.communication=0.2"]
    one = sim.prepare(sim.load(sim.find("llama3-405b-54d"), overrides))
    assert (one.counts["pod"], one.counts["spine"]) == (8, 8 * spines)
    assert one.counts["cable_spine_core"] == 8 * spines * up
    assert one.counts["cable_leaf_spine"] == 8 * 192 * 16
    assert one.counts["core"] * 576 >= one.counts["cable_spine_core"]
    nic = 400e9 / 8
    topology = sim.find_cluster("llama3-405b-54d")
    bandwidth = sim.load_cluster(topology, overrides[:1]).build().bandwidth
    assert bandwidth == pytest.approx({"leaf": nic, "pod": nic, "cluster": nic * up / down}, rel=1e-12)
    # The job of 2,048 nodes spans six pods of 384, so that this is what it was planned with.
    assert one.jobs[0].planned_bandwidth == pytest.approx(nic * up / down, rel=1e-12)
    small_job = ["jobs.0.gpus=3072", "jobs.0.parallelism.data=24"]
    inside = sim.prepare(sim.load(sim.find("llama3-405b-54d"), [*overrides, *small_job]))
    assert inside.jobs[0].planned_bandwidth == pytest.approx(nic, rel=1e-12)
