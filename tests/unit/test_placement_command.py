"""``ettrick topology place``: where jobs sit, what their groups get, healthy and with parts of the fabric out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

import sim
from cli import app
from tests.cases import cases

GB = 1e9


def place(*arguments: str, status: int = 0) -> Any:
    """Run the command with ``--json`` and return what it prints; of a refusal, the line."""
    result = CliRunner().invoke(app, ["topology", "place", *arguments, "--json"])
    assert result.exit_code == status, result.output
    return json.loads(result.stdout) if status == 0 else result.stderr.strip()


def groups(*arguments: str) -> dict[str, Any]:
    """Return the groups of the Llama 3 job."""
    found: dict[str, Any] = place("llama3-405b-54d", *arguments)["pretrain"]["groups"]
    return found


def test_llama3_sits_as_its_paper_says() -> None:
    """Tensor groups of 8 in a host, data in a pod of 3,072 GPUs, pipelines across pods (arXiv 2407.21783, 3.3)."""
    found = groups()
    assert {kind: (row["size"], row["reaches"]) for kind, row in found.items()} == {
        "tensor": (8, "scale_up"),
        "data": (128, "pod"),
        "pipeline": (16, "cluster"),
    }
    assert found["tensor"]["bytes_per_s"] == 450 * GB
    assert found["data"]["bytes_per_s"] == 50 * GB
    # 1:7 between pods (55 cables up for 384 down), which one of 16 stages in 6 pods sends through.
    assert found["pipeline"]["bytes_per_s"] == pytest.approx(50 * GB * 55 / 384 * 16 / 6)


def test_a_lost_node_takes_one_tensor_group_and_eight_of_the_others() -> None:
    """Its GPUs are the tensor ranks of one replica and stage, each in a data and a pipeline group of its own."""
    lost = place("llama3-405b-54d")["pretrain"]["first_node_takes"]
    assert {kind: len(numbers) for kind, numbers in lost.items()} == {
        "replicas": 1,
        "tensor_groups": 1,
        "data_groups": 8,
        "pipeline_groups": 8,
    }


def test_two_of_eight_spines_out_leave_three_quarters() -> None:
    """Of the traffic in the pod and of that beyond it; inside a host nobody notices."""
    found, healthy = groups("--failed", "spine:0", "--failed", "spine:1"), groups()
    assert found["tensor"] == healthy["tensor"]
    for kind in ("data", "pipeline"):
        assert found[kind]["bytes_per_s"] == pytest.approx(healthy[kind]["bytes_per_s"] * 6 / 8)


def test_a_core_out_slows_what_leaves_the_pod() -> None:
    """One of eleven."""
    found, healthy = groups("--failed", "core:3"), groups()
    assert found["data"] == healthy["data"]
    assert found["pipeline"]["bytes_per_s"] == pytest.approx(healthy["pipeline"]["bytes_per_s"] * 10 / 11)


def test_a_lost_uplink_below_narrow_cores_slows_only_what_stays_in_the_pod() -> None:
    """One of 16 uplinks of a leaf switch: above it a seventh gets through anyway."""
    found, healthy = groups("--failed", "cable_leaf_spine:0"), groups()
    assert found["data"]["bytes_per_s"] == pytest.approx(healthy["data"]["bytes_per_s"] * 15 / 16)
    assert found["pipeline"]["bytes_per_s"] == pytest.approx(healthy["pipeline"]["bytes_per_s"])


def test_nodes_that_are_cut_off_are_counted_and_left_out() -> None:
    """A rack's only switch takes its two nodes; the others keep their bandwidth."""
    job = place("llama3-405b-54d", "--failed", "leaf:7")["pretrain"]
    assert job["nodes_cut_off"] == 2
    assert job["groups"]["data"]["bytes_per_s"] == 50 * GB
    assert place("llama3-405b-54d", "--failed", "leaf:1500")["pretrain"]["nodes_cut_off"] == 0, "no node of the job"


def test_a_domain_that_is_not_whole_strands_the_rest(tmp_path: Any) -> None:
    """Of 18 trays of 4 GPUs a job takes 16: the third lost tray strands 15 others."""
    content = {
        **sim.load(sim.find("quickstart")).dump(),
        "cluster": str(sim.shipped("topologies")["gb200-nvl72-8rack"]),
        "jobs": [{"name": "train", "gpus": 256, "parallelism": {"tensor": 64, "data": 4}}],
        "spares": {"hot": 16},
    }
    path = tmp_path / "nvl.yaml"
    path.write_text(sim.dump(content), encoding="utf-8")
    job = place(str(path))["train"]
    assert (job["nodes_a_domain_can_lose"], job["gpus_stranded_then"]) == (2, 60)
    assert job["groups"]["tensor"]["reaches"] == "scale_up"
    job = place(str(path), "--set", "cluster.scale_up.drain_unit=domain")["train"]
    assert (job["nodes_a_domain_can_lose"], job["gpus_stranded_then"]) == (0, 68)


def test_the_text_says_the_same() -> None:
    """For the terminal, in words; a job without a layout says so."""
    text = CliRunner().invoke(app, ["topology", "place", "llama3-405b-54d", "--failed", "leaf:7"]).stdout
    assert "1 replica, 1 tensor group, 8 data groups, 8 pipeline groups" in text
    assert "2 nodes; bandwidths are those of the others" in text
    assert "450 GB/s" in text
    assert "no parallelism" in CliRunner().invoke(app, ["topology", "place", "quickstart"]).stdout


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        ("spin:0", "--failed spin:0: unknown part of the fabric 'spin'; did you mean 'spine'?"),
        ("core:99", "--failed core:99: there is no such core; they are numbered from 0 to 10"),
        ("spine", "--failed spine: must be a part and a number, such as spine:3"),
        ("spine:-1", "--failed spine:-1: must be a part and a number"),
    ],
)
def test_parts_that_are_not_there(failed: str, line: str) -> None:
    """One line, and exit status 2."""
    assert place("llama3-405b-54d", "--failed", failed, status=2).startswith(line)


@cases("fabric", ["reroute=scale_up", "use=dual-plane"])
def test_network_faults_of_bundles_that_the_cables_cannot_spare(fabric: str) -> None:
    """Table 5 of Llama 3 counts them, but not where they were: a what-if of the fabric would not see them change."""
    overrides = ["cluster={nodes: 128}", "jobs=[{name: one, gpus: 64, step_time: 10 s}]", f"cluster.fabric.{fabric}"]
    (line,) = sim.examine(sim.load(sim.find("llama3-405b-54d"), overrides)).warnings
    assert line.startswith("failures.0: 'llama3-table5' counts network_switch_cable, nic as faults of nodes")
    assert sim.examine(sim.load(sim.find("llama3-405b-54d"), overrides[:2])).warnings == ()
