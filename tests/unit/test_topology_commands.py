"""The commands about clusters: what they print, files that are whole or not there, one line for each mistake."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from typer.testing import CliRunner

from ettrick import cli, sim
from ettrick.cli import app
from tests import report_sample
from tests.cases import cases, mistake_lines

# ----------------------------------------
# ``ettrick topology place``: where jobs sit, what their groups get, healthy and with parts of the fabric out.

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


PIPELINES_OUTSIDE = ("--set", "jobs.0.parallelism.order=[tensor, context, expert, data, pipeline]")


def test_llama3_sits_as_its_paper_says() -> None:
    """Tensor groups in a host, pipelines in a pod of 3,072 GPUs, replicas across pods (arXiv 2407.21783, 3.3.2)."""
    reaches = {kind: (row["size"], row["reaches"]) for kind, row in groups().items()}
    assert reaches == {"tensor": (8, "scale_up"), "data": (128, "cluster"), "pipeline": (16, "pod")}
    assert groups()["tensor"]["bytes_per_s"] == 450 * GB
    # 1:7 between pods (55 cables up for 384 down): no bound for one of 128 / 6 replicas, but for one of 16 / 6 stages.
    assert groups()["data"]["bytes_per_s"] == groups()["pipeline"]["bytes_per_s"] == 50 * GB
    stages = groups(*PIPELINES_OUTSIDE)["pipeline"]
    assert (stages["reaches"], stages["bytes_per_s"]) == ("cluster", pytest.approx(50 * GB * 55 / 384 * 16 / 6))


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


def test_a_lost_uplink_below_narrow_cores_slows_only_what_stays_in_the_pod() -> None:
    """One of 16 uplinks of a leaf switch: above it a seventh gets through anyway."""
    found, healthy = groups("--failed", "cable_leaf_spine:0", *PIPELINES_OUTSIDE), groups(*PIPELINES_OUTSIDE)
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
    size, line = sim.examine(sim.load(sim.find("llama3-405b-54d"), overrides)).warnings
    assert line.startswith("failures.0: 'llama3-table5' counts network_switch_cable, nic as faults of nodes")
    assert sim.examine(sim.load(sim.find("llama3-405b-54d"), overrides[:2])).warnings == (size,)


DONE, WRONG = 0, 2

MINE = """\
name: mine
nodes: 16                 # four groups
rack: {nodes: 3}
fabric: {rails: 2, radix: 16, leaf: {nodes: 4}, spine: {leaf_groups: 2}, core: {oversubscription: 2}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a cluster, a scenario that names it, and a scenario with a cluster of its own."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(MINE)
    Path("scenario.yaml").write_text(sim.dump({**report_sample.SMALL, "cluster": "mine.yaml"}))
    Path("small.yaml").write_text(report_sample.YAML)


def call(*arguments: str) -> Any:
    """Run a topology command in this process; anything but an orderly end is an error."""
    result: Any = CliRunner().invoke(cli.app, ["topology", *arguments], prog_name="ettrick", env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def shown(*arguments: str) -> dict[str, Any]:
    """Return the document that show prints."""
    result = call("show", *arguments, "--json")
    assert (result.exit_code, result.stderr) == (DONE, "")
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def rows(text: str) -> list[list[str]]:
    """Return the cells of printed tables."""
    return [[cell for cell in line.split("  ") if cell] for line in text.splitlines()]


def test_list_names_every_topology() -> None:
    """One row for each shipped file, with its size, its fabric and the first line of its comment."""
    result = call("list")
    assert result.exit_code == DONE
    found = {row[0]: [cell.strip() for cell in row[1:]] for row in rows(result.stdout)[3:]}
    assert found.keys() == sim.shipped("topologies").keys()
    comment = sim.shipped("topologies")["small-1k"].read_text(encoding="utf-8").splitlines()[0]
    assert found["small-1k"] == ["1,024", "128", "fat-tree", comment.removeprefix("# ")]


def test_show_says_what_a_failure_takes() -> None:
    """On the SuperPOD of four units a leaf switch takes 32 nodes, a spine one sixteenth of the bandwidth."""
    content = shown("small-1k")
    found = content["when_one_fails"]
    assert {part: (row["nodes_crashed_min"], row["nodes_crashed_max"]) for part, row in found.items()} == {
        "gpu": (1, 1),
        "node": (1, 1),
        "rack": (4, 4),
        "pdu": (32, 32),
        "cooling": (32, 32),
        "nic": (1, 1),
        "leaf": (32, 32),
        "spine": (0, 0),
        "pod": (128, 128),
        "cable_node_leaf": (1, 1),
        "cable_leaf_spine": (0, 0),
        "transceiver": (0, 1),
    }
    left = {part: row["bandwidth_left_min"] for part, row in found.items()}
    assert left["spine"] == pytest.approx(15 / 16)
    assert left["cable_leaf_spine"] == left["transceiver"] == pytest.approx(31 / 32)
    assert left["pod"] is None  # nobody is left
    assert {part: row["units"] for part, row in found.items()} == {
        part: count for part, count in content["counts"].items() if count
    }


def test_show_says_who_shares_what() -> None:
    """Domains have their number, and the nodes of the emptiest and the fullest one."""
    content = shown("mine.yaml")
    assert content["domains"]["rack"] == {"count": 6, "nodes_min": 1, "nodes_max": 3}
    assert content["domains"]["leaf"] == {"count": 4, "nodes_min": 4, "nodes_max": 4}
    assert content["domains"]["pod"] == {"count": 2, "nodes_min": 8, "nodes_max": 8}
    assert content["bandwidth"]["pod"] == {"bytes_per_s": 50e9, "of_nic": 1.0}
    assert content["bandwidth"]["cluster"] == {"bytes_per_s": 25e9, "of_nic": 0.5}
    assert (content["gpus"], content["nodes"], content["fabric"]["use"]) == (128, 16, "fat-tree")


def test_show_of_pools_and_scale_up_domains() -> None:
    """Kinds of hosts and the rules of scale-up domains are said."""
    changes = ("--set", "scale_up={gpus: 32, use: 24, drain_unit: domain}", "--set", "rack.nodes=4")
    content = shown("mine.yaml", *changes)
    assert content["scale_up"]["use"] == 24
    assert content["domains"]["scale_up"] == {"count": 4, "nodes_min": 4, "nodes_max": 4}
    assert (
        "32 GPUs in 4 nodes, jobs use 24 of them; drained: domain, swapped: domain"
        in call("show", "mine.yaml", *changes).stdout
    )
    Path("pools.yaml").write_text("pools: [{count: 3, accelerator: h100}, {count: 5, accelerator: b200}]\n")
    assert [pool["gpus"] for pool in shown("pools.yaml")["pools"]] == [24, 40]
    assert "64 GPUs: 3 nodes of 8 h100 + 5 nodes of 8 b200" in call("show", "pools.yaml").stdout


def test_the_cluster_of_a_scenario() -> None:
    """A scenario stands for its cluster, in its own words or by the name of a file."""
    assert shown("scenario.yaml") == shown("mine.yaml")
    assert shown("small.yaml")["nodes"] == report_sample.SMALL["cluster"]["nodes"]
    assert shown("llama3-405b-54d") == shown("h100-roce-24k")


@cases("name", ["mine.yaml", "scenario.yaml"])
@cases("prefix", ["", "cluster."])
def test_set_counts_from_the_cluster(name: str, prefix: str) -> None:
    """A value is replaced whether or not the path begins with the cluster's own key."""
    content = shown(name, "--set", f"{prefix}fabric.core.oversubscription=4", "--set", f"{prefix}name=other")
    assert content["bandwidth"]["cluster"]["of_nic"] == 0.25
    assert content["name"] == "other"


def test_check_accepts() -> None:
    """A valid topology is named with its size."""
    result = call("check", "small-1k")
    assert (result.exit_code, result.stderr) == (DONE, "")
    assert result.stdout == "small-1k: a valid topology, 'small-1k': 1,024 GPUs in 128 nodes\n"
    assert call("check", "scenario.yaml").stdout == "scenario.yaml: a valid topology, 'mine': 128 GPUs in 16 nodes\n"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("nodes: 16\nfabric: {radixx: 3}", "bad.yaml:2:10: fabric.radixx: unknown key 'radixx'; did you mean 'radix'?"),
        ("nodes: 16\nrack: {nodes: 0}", "bad.yaml:2:15: rack.nodes: must be at least 1, not 0"),
        ("nodes: 16\nfabric: {nic: 400}", "bad.yaml:2:15: fabric.nic: '400' needs a unit"),
        ("name: x", "bad.yaml:1:1: give exactly one of nodes and pools"),
        ("nodes: 16\nfabric:\n  use: fat-tre", "bad.yaml:3:8: fabric.use: 'fat-tre' is not a choice"),
        ("name: s\ncluster: {nodes: 0}", "bad.yaml:2:18: cluster.nodes: must be at least 1, not 0"),
        ("cluster: 3", "bad.yaml:1:10: cluster: must be a mapping"),
        ("[]", "bad.yaml"),
    ],
)
def test_mistakes_have_a_place(content: str, line: str) -> None:
    """Each mistake of a file is one line: file, line, column, path, rule."""
    Path("bad.yaml").write_text(content + "\n")
    for command in (("check",), ("show",), ("plot", "-o", "x.svg"), ("export", "--format", "json")):
        result = call(command[0], "bad.yaml", *command[1:])
        assert (result.exit_code, result.stdout, len(mistake_lines(result.stderr))) == (WRONG, "", 1), result.stderr
        assert result.stderr.startswith(line)
    assert not Path("x.svg").exists()


@cases(
    ("arguments", "parts"),
    [
        (["check", "smal-1k"], ["smal-1k: no such file or bundled topology or scenario", "did you mean 'small-1k'"]),
        (["show", "nowhere.yaml"], ["nowhere.yaml", "no such file"]),
        (["show", "mine.yaml", "--set", "fabric"], ["--set fabric: ", "path=value"]),
        (["show", "mine.yaml", "--set", "cluster.nodez=3"], ["--set cluster.nodez=3: unknown key 'nodez'"]),
        (["show", "scenario.yaml", "--set", "nodez=3"], ["--set nodez=3: unknown key 'nodez'"]),
        (["show", "mine.yaml", "--set", "rack.nodes.x=3"], ["--set rack.nodes.x=3: rack.nodes: is 3, not a mapping"]),
        (["plot", "mine.yaml", "-o", "x.jpg"], ["--out x.jpg: must end in .svg, .png or .pdf"]),
        (["plot", "mine.yaml", "-o", "svg"], ["--out svg: must end in .svg, .png or .pdf"]),
        (
            ["plot", "mine.yaml", "-o", "none/x.svg"],
            ["--out none/x.svg: cannot be written (No such file or directory)"],
        ),
        (["export", "mine.yaml", "--format", "json", "-o", "."], ["--out .: is a folder"]),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], parts: list[str]) -> None:
    """Each mistake is one line on standard error with 2, nothing is printed and nothing written."""
    before = sorted(Path().iterdir())
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (WRONG, "")
    (line,) = mistake_lines(result.stderr)
    assert all(part in line for part in parts), line
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("PDF", b"%PDF")])
def test_plot_writes_a_picture(suffix: str, start: bytes) -> None:
    """The picture is of the kind that the name says, and nothing is left beside it."""
    before = {path.name for path in Path().iterdir()}
    result = call("plot", "mine.yaml", "-o", f"x.{suffix}", "--set", "nodes=13")
    assert (result.exit_code, result.stdout, result.stderr) == (DONE, "", "")
    assert Path(f"x.{suffix}").read_bytes().startswith(start)
    assert {path.name for path in Path().iterdir()} == before | {f"x.{suffix}"}
    if suffix == "svg":
        assert ">104 GPUs in 13 hosts with 2 rails of 400 Gb/s</text>" in Path("x.svg").read_text()


def test_export_prints_or_writes() -> None:
    """The graph goes to standard output or to a file; both formats have all hosts and switches."""
    counts = shown("mine.yaml")["counts"]
    vertices = sum(counts[part] for part in ("node", "leaf", "spine", "core"))
    for name in ("graphml", "json"):
        printed = call("export", "mine.yaml", "--format", name)
        assert (printed.exit_code, printed.stderr) == (DONE, "")
        assert call("export", "mine.yaml", "--format", name, "-o", "graph", "--overwrite").stdout == ""
        assert Path("graph").read_text(encoding="utf-8") == printed.stdout
        if name == "graphml":
            assert nx.read_graphml(io.BytesIO(printed.stdout.encode())).number_of_nodes() == vertices
        else:
            assert len(json.loads(printed.stdout)["nodes"]) == vertices


@pytest.mark.parametrize("name", ["graphml", "json"])
def test_an_export_is_a_fabric(name: str) -> None:
    """The exported graph, named in a file of another folder or with --set, is the same cluster."""
    Path("deep").mkdir()
    call("export", "mine.yaml", "--format", name, "-o", f"deep/graph.{name}")
    fabric = f"fabric: {{use: graph-file, rails: 2, nic: 400 Gb/s, file: graph.{name}}}\n"
    Path("deep/again.yaml").write_text(MINE[: MINE.index("fabric:")] + fabric)
    Path("whole.yaml").write_text(sim.dump({**report_sample.SMALL, "cluster": "deep/again.yaml"}))
    given = f"fabric={{use: graph-file, rails: 2, nic: 400 Gb/s, file: deep/graph.{name}}}"
    original = shown("mine.yaml")
    for arguments in (["deep/again.yaml"], ["whole.yaml"], ["mine.yaml", "--set", given]):
        content = shown(*arguments)
        assert content.pop("fabric")["use"] == "graph-file"
        assert content == {key: value for key, value in original.items() if key != "fabric"}


def test_the_reference_names_every_key() -> None:
    """The page about commands has each key of the document that show prints."""
    page = (Path(cli.__file__).resolve().parent / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    page = page[page.index("`show --json`") :]
    content = shown("gb200-nvl72-8rack")
    parts = [content, content["fabric"], *content["pools"], *content["domains"].values()]
    parts += [*content["bandwidth"].values(), *content["when_one_fails"].values()]
    for key in {key for part in parts for key in part}:
        assert f"`{key}`" in page


def test_a_scenario_that_leaves_its_nodes_out_shows_those_of_jobs_and_spares() -> None:
    """Whichever way an option is written."""
    Path("derived.yaml").write_text(sim.dump({**report_sample.SMALL, "cluster": {"gpus_per_node": 8}}))
    assert ": 128 GPUs in 16 nodes" in call("check", "derived.yaml").stdout
    for option in ("gpus_per_node=4", "cluster.gpus_per_node=4", "cluster={gpus_per_node: 4}"):
        assert ": 120 GPUs in 30 nodes" in call("check", "derived.yaml", "--set", option).stdout
