"""Scenarios from slurm.conf and topology.conf."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from ettrick import sim
from ettrick.analysis.logs.slurm_conf import site
from ettrick.analysis.page.chapters.inputs import stated_inputs
from ettrick.cli import app
from ettrick.sim.records import gres_gpus
from tests.cases import cases

if TYPE_CHECKING:
    from pathlib import Path

SLURM = """\
# The cluster.
SlurmdTimeout=600  # in seconds
NodeName=DEFAULT CPUs=112
NodeName=gpu[001-256] Gres=gpu:h100:8(S:0-1) \\
   State=UNKNOWN
NodeName=old[01-10] Gres=gpu:a100:4
NodeName=login1
PartitionName=short Nodes=ALL MaxTime=4:00:00 PreemptMode=requeue
PartitionName=main Nodes=gpu[001-240] Default=YES MaxTime=7-00:00:00 PriorityTier=10
"""

TOPOLOGY = """\
SwitchName=leaf1 Nodes=gpu[001-032]
SwitchName=leaf2 Nodes=gpu[033-064]
SwitchName=spine Switches=leaf[1-2]
"""


def made(folder: Path, slurm: str, topology: str = "") -> tuple[int, str]:
    """Return exit status and output of ettrick init, which writes made.yaml."""
    (folder / "slurm.conf").write_text(slurm)
    more = []
    if topology:
        (folder / "topology.conf").write_text(topology)
        more = ["--topology-conf", str(folder / "topology.conf")]
    options = ["--slurm-conf", str(folder / "slurm.conf"), *more, "--overwrite"]
    done = CliRunner().invoke(app, ["init", str(folder / "made.yaml"), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_a_cluster_from_slurm(tmp_path: Path) -> None:
    """Nodes, GPUs, type, leaves, timeout and partitions are those of the files; what is left out is listed."""
    assert made(tmp_path, SLURM, TOPOLOGY)[0] == 0
    found = sim.load(tmp_path / "made.yaml")
    content = found.dump()
    cluster = content["cluster"]
    assert (found.cluster.nodes, found.cluster.gpus_per_node, cluster["accelerator"]) == (256, 8, "h100")
    assert cluster["fabric"]["leaf"]["nodes"] == 32
    slurm = [each for each in content["detection"]["observers"] if each["use"] == "slurm"]
    assert slurm[0]["timeout"] == "10 min"
    assert any("left out: 10 with 4 GPUs" in text for text in found.assumptions)
    # An observer has a key called dump, as models have a method.
    assert any(each.path.endswith(".dump") for each in stated_inputs(found))
    main, short = content["partitions"]
    assert (main["name"], main["nodes"], main["tier"], main["limit"]) == ("main", "0-239", 10, "7 d")
    assert (short["name"], short["limit"]) == ("short", "4 h")
    assert "nodes" not in short
    result = sim.run(sim.prepare(sim.load(tmp_path / "made.yaml", ["horizon=2 d"])), 0)
    # The jobs that are assumed ask for 70 % of the GPUs; in two days that is known to a fifth or so.
    assert 0.3 < result.fleet.allocated.sum() / result.fleet.healthy.sum() < 0.95


def test_the_scheduler_of_slurm(tmp_path: Path) -> None:
    """Weights, times and backfill are keys in our units; what has no key is named under assumptions."""
    more = """\
SchedulerParameters=bf_interval=60,bf_max_job_test=1000,bf_window=10080,bf_resolution=300,bf_continue,bf_max_job_user=9
PriorityWeightAge=1000
PriorityMaxAge=14-0
PriorityWeightFairshare=500
PriorityDecayHalfLife=2-12
PriorityWeightJobSize=50
PriorityFavorSmall=YES
PriorityWeightPartition=2000
PriorityWeightQOS=9
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=00:30:00
OverTimeLimit=5
NodeSet=first Nodes=gpu[001-004]
PartitionName=small Nodes=first MaxTime=90 PriorityJobFactor=10 MaxNodes=2 GraceTime=120
PartitionName=large Nodes=gpu[001-240] PriorityJobFactor=100 State=UP
PartitionName=closed Nodes=ALL State=DRAIN
"""
    assert made(tmp_path, SLURM + more)[0] == 0
    found = sim.load(tmp_path / "made.yaml")
    keys = found.scheduler
    assert (keys.backfill_cycle, keys.tested, keys.window, keys.resolution) == (60, 1000, 7 * 86400, 300)
    order = keys.order
    assert (order.age.weight, order.age.full, order.size.weight, order.size.favours) == (1000, 14 * 86400, 50, "small")
    assert (order.fair_share.weight, order.fair_share.half_life) == (500, 2.5 * 86400)
    preempt = keys.preempt
    assert (preempt.mode, preempt.who, preempt.exempt, preempt.grace, keys.overtime) == (
        "requeue",
        "tier",
        1800,
        120,
        300,
    )
    streams = {stream.name: stream for stream in found.streams}
    assert (streams["small"].priority, streams["large"].priority, streams["main"].priority) == (200, 2000, 20)
    small = next(each for each in found.partitions if each.name == "small")
    assert (small.nodes, small.limit) == (((0, 3),), 90 * 60)
    listed = " ".join(found.assumptions)
    for word in ("closed (DRAIN)", "PriorityWeightQOS", "MaxNodes", "bf_max_job_user", "accounting database"):
        assert word in listed, word
    assert "bf_continue" not in listed


@cases(
    ("line", "key", "value"),
    [
        ("SchedulerType=sched/builtin", "use", "fifo"),
        ("PreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG", "preempt.mode", "none"),
        ("PreemptType=preempt/qos\nPreemptMode=CANCEL", "preempt.who", "priority"),
        ("OverTimeLimit=UNLIMITED", "at_limit", "run on"),
        ("SelectTypeParameters=CR_LLN", "share_nodes", "spread"),
        ("PriorityType=priority/basic\nPriorityWeightAge=5", "order.age.weight", 0),
        ("SchedulerType=sched/backfill", "order.age.weight", 0),
    ],
)
def test_one_setting_of_the_scheduler(tmp_path: Path, line: str, key: str, value: object) -> None:
    """A setting changes its key alone; weights that slurm.conf does not state are zero, as Slurm's are."""
    assert made(tmp_path, SLURM + line + "\n")[0] == 0
    found: object = sim.load(tmp_path / "made.yaml").scheduler
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value


def test_leaves_number_the_nodes(tmp_path: Path) -> None:
    """Nodes count by leaf, so that those behind one switch follow each other whatever their names."""
    slurm = "NodeName=n[1-8] Gres=gpu:8\nPartitionName=odd Nodes=n[1,3,5,7]\n"
    (tmp_path / "slurm.conf").write_text(slurm)
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1,3,5,7]\nSwitchName=b Nodes=n[2,4,6,8]\n")
    found = site(tmp_path / "slurm.conf", tmp_path / "topology.conf")
    assert found.nodes == ("n1", "n3", "n5", "n7", "n2", "n4", "n6", "n8")
    assert found.partitions(found.nodes) == [{"name": "odd", "nodes": "0-3"}]
    assert found.scheduler["pack"] == "leaf"


@cases(
    ("gres", "gpus"),
    [
        ("gpu", {"": 1}),
        ("gpu:8", {"": 8}),
        ("gpu:2080ti:8", {"2080ti": 8}),
        ("gpu:3090:8(S:0,1)", {"3090": 8}),
        ("gpu:6000Ada:no_consume:4", {"6000ada": 4}),
        ("gpu:no_consume:4", {"": 4}),
        ("nvme:2,gpu:a100:2,gpu:v100:1,shard:64", {"a100": 2, "v100": 1}),
        ("gpu:h100:4(IDX:0-1,4-5),gpu:h100:4(IDX:2-3)", {"h100": 8}),
        ("gpu:nvidia_h100_80gb_hbm3:8", {"nvidia_h100_80gb_hbm3": 8}),
        ("billing=64,gres/gpu=1024,gres/gpu:h100=1024", {"": 1024}),
        ("gres/gpu:h100=1024", {"h100": 1024}),
        ("gpu_mem:80,mps:100", {}),
        ("(null)", {}),
        ("", {}),
    ],
)
def test_gpus_of_gres(gres: str, gpus: dict[str, int]) -> None:
    """Types may begin with a digit, words and places of cards stand between, and a total holds its types."""
    assert gres_gpus(gres) == gpus


LINES = """\
NodeName=DEFAULT CPUs=112
NodeName=DEFAULT Gres=gpu:3090:8
nodename=new[01-04] Feature=fast,ib
NodeName=old[01-02] Gres=gpu:2080ti:8
NodeName=login1 Gres=(null)
NodeName=later[1-2] State=FUTURE
NodeSet=quick Feature=fast
NodeSet=both Nodes=old01,new04
PartitionName=default State=UP MaxTime=1-0
PartitionName=all Nodes=all Default=YES
PartitionName=quick Nodes=quick,login1
PartitionName=mixed Nodes=both,later1
"""


@cases("seed", [0, 1, 2, 3])
def test_the_order_of_lines_means_nothing(tmp_path: Path, seed: int) -> None:
    """Partitions, sets and nodes in any order, in one file or in several, are one cluster."""
    lines = LINES.splitlines()
    defaults, rest = [*lines[:2], lines[8]], [*lines[2:8], *lines[9:]]
    random.Random(seed).shuffle(rest)
    (tmp_path / "rest.conf").write_text("\n".join(rest[5:]), encoding="utf-8-sig")
    (tmp_path / "slurm.conf").write_text("\r\n".join([*defaults, *rest[:5], "include /etc/slurm/rest.conf"]))
    (tmp_path / "whole.conf").write_text(LINES)
    parted, whole = site(tmp_path / "slurm.conf"), site(tmp_path / "whole.conf")
    assert sorted(parted.nodes) == ["new01", "new02", "new03", "new04", "old01", "old02"]
    assert parted.cluster == whole.cluster == {"nodes": 6, "gpus_per_node": 8}
    expected = {
        "all": {*parted.nodes, "login1"},
        "quick": {"new01", "new02", "new03", "new04", "login1"},
        "mixed": {"old01", "new04"},
    }
    assert {part.name: set(part.nodes) for part in parted.queues} == expected
    assert {part.settings["maxtime"] for part in parted.queues} == {"1-0"}
    notes = " ".join(parted.assumed)
    for words in ("'3090' (4 nodes)", "'2080ti' (2 nodes)", "2 nodes (later1, later2) of slurm.conf: State=FUTURE"):
        assert words in notes


def test_what_files_do_not_agree_on_is_said(tmp_path: Path) -> None:
    """Names of a topology that are no nodes, nodes behind no switch and files that are not there are listed."""
    (tmp_path / "slurm.conf").write_text("NodeName=gpu[01-16] Gres=gpu:h100:8\nInclude sub/more.conf\n")
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=gpu[01-06],n[07-08]\nSwitchName=b Nodes=gpu[09-16]\n")
    made = site(tmp_path / "slurm.conf", tmp_path / "topology.conf")
    assert made.cluster == {"nodes": 16, "gpus_per_node": 8, "accelerator": "h100", "fabric": {"leaf": {"nodes": 8}}}
    assert made.nodes[-2:] == ("gpu07", "gpu08")
    for words in (
        "2 names (n07, n08) of topology.conf: no NodeName",
        "2 nodes (gpu07, gpu08) of slurm.conf: behind no switch of topology.conf",
        "slurm.conf:2 includes sub/more.conf, which is not there",
    ):
        assert any(words in text for text in made.assumed), words


def test_nodes_of_logs_are_compared_with_those_of_slurm(tmp_path: Path) -> None:
    """Nodes that only one side has are named; where both have the same, nothing is said."""
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-4] Gres=gpu:8\nNodeName=m[1-2] Gres=gpu:4\n")
    made = site(tmp_path / "slurm.conf")
    assert made.contradictions(["n1", "n2", "n3", "n4"]) == []
    assert made.contradictions(["n1", "n2", "n3", "m1"]) == [
        "1 node (m1) of the logs or the inventory: not among the 4 nodes of 8 GPUs that slurm.conf has",
        "1 node (n4) of slurm.conf: in no log and in no inventory",
    ]


YAML = """\
---
- topology: blocks
  cluster_default: false
  block:
    block_sizes: [4]
    blocks:
      - block: b1
        nodes: n[1-4]
- topology: leaves
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: n[1,3,5,7]
      - switch: s2
        nodes: n[2,4,6,8]
"""


def test_topologies_in_yaml(tmp_path: Path) -> None:
    """The default topology of a topology.yaml is read as a topology.conf is, whatever the file is called."""
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-8] Gres=gpu:8\n")
    for name in ("topology.yaml", "topology.conf"):
        (tmp_path / name).write_text(YAML)
        made = site(tmp_path / "slurm.conf", tmp_path / name)
        assert made.nodes == ("n1", "n3", "n5", "n7", "n2", "n4", "n6", "n8")
        assert made.cluster["fabric"] == {"leaf": {"nodes": 4}}
    blocks = YAML.replace("cluster_default: true", "cluster_default: false")
    (tmp_path / "topology.yaml").write_text(blocks)
    made = site(tmp_path / "slurm.conf", tmp_path / "topology.yaml")
    assert made.nodes[:4] == ("n1", "n2", "n3", "n4")
    assert any("4 nodes (n5, n6, n7, n8)" in text for text in made.assumed)
    (tmp_path / "topology.yaml").write_text(YAML.replace("n[1,3,5,7]", "[n1, n3, n5, n2]"))
    made = site(tmp_path / "slurm.conf", tmp_path / "topology.yaml")
    assert made.nodes == ("n1", "n3", "n5", "n2", "n4", "n6", "n8", "n7")
    assert any("1 node (n2) of topology.yaml: behind two switches" in text for text in made.assumed)


@cases(
    ("gres", "options", "words"),
    [
        ("gpu:2080ti:8", ["--accelerator", "a100"], "accelerator: a100"),
        ("gpu:8", ["--accelerator", "a100"], "accelerator: a100"),
        ("gpu:a100:8", ["--accelerator", "a100"], "accelerator: a100"),
        ("gpu:h100:8", ["--accelerator", "a100"], "--accelerator a100: Gres names the type h100"),
        (
            "gpu:8",
            ["--accelerator", "a1000"],
            "--accelerator: unknown accelerator 'a1000'; did you mean 'a100'?",
        ),
        ("gpu:h100:8", ["--gpus", "1024"], "--gpus: has no effect with --slurm-conf"),
        ("gpu:h100:8", ["--model", "llama3-70b"], "--model: has no effect with --slurm-conf"),
        ("gpu:h100:8", ["--kind", "fleet"], "--kind: has no effect with --slurm-conf"),
    ],
)
def test_options_beside_slurm(tmp_path: Path, gres: str, options: list[str], words: str) -> None:
    """An option is used, or refused with its reason."""
    (tmp_path / "slurm.conf").write_text(f"NodeName=n[1-4] Gres={gres}\n")
    target = tmp_path / "made.yaml"
    done = CliRunner().invoke(app, ["init", str(target), "--slurm-conf", str(tmp_path / "slurm.conf"), *options])
    assert words in (target.read_text() if done.exit_code == 0 else done.output)
    assert done.exit_code == 2 * words.startswith("--")


@cases(
    "slurm, topology, words",
    [
        ("NodeName=n[1-4] CPUs=2\n", "", "no NodeName with Gres=gpu:N"),
        ("NodeName=n[1-4 Gres=gpu:8\n", "", "slurm.conf:1: the list of hosts 'n[1-4' has a bracket"),
        ("NodeName=n[1-4] Gres=gpu:8\nPartitionName=p Nodes=n[1-5]\n", "", "slurm.conf:2: 'n5' is not a NodeName"),
        ("nonsense\n", "", "slurm.conf:1: 'nonsense' is not a setting"),
        ("NodeName=n[1-4] Gres=gpu:8\n", "SwitchName=s Nodes=m[1-4]\n", "connects no node of slurm.conf to a switch"),
        ("Include other.conf\n", "", "slurm.conf:1 includes other.conf, which is missing; copy it"),
        ("Include slurm.conf\n", "", "slurm.conf:1: slurm.conf includes itself"),
        ("NodeName=n[1-4] Gres=gpu:3090\n", "", "slurm.conf:1: 'gpu:3090' states 3,090 GPUs in one node"),
        ("NodeName=n[1-4] Gres=gpu:\n", "", "slurm.conf:1: 'gpu:' is not of the form"),
        ("NodeName= Gres=gpu:8\n", "", "slurm.conf:1: a line about a node does not name one"),
        ("NodeName=n1 Gres=gpu:8\nPartitionName= Nodes=ALL\n", "", "slurm.conf:2: a line about a partition does not"),
        ("NodeName=n[1-4] Gres=gpu:a100:sxm:8\n", "", "slurm.conf:1: 'gpu:a100:sxm:8' is not of the form"),
        ("NodeName=n[1-4] Gres=gpu:8, gpu:4\n", "", "slurm.conf:1: 'gpu:4' is not a setting"),
        ("NodeName=n[1-4]\n Gres=gpu:8\n", "", "slurm.conf:2: Gres stands on a line without NodeName"),
        ("NodeName=n[1-4] Gres=gpu:8\nNodeName=n4 Gres=gpu:4\n", "", "slurm.conf:2: node 'n4' is named twice"),
        (
            "NodeName=n[1-4] Gres=gpu:8\n",
            "- topology: a\n  flat: true\n",
            "its default topology has neither tree: switches",
        ),
        ("NodeName=n[1-4] Gres=gpu:8\n", "---\n- topology: [\n", "topology.conf:3:1: invalid YAML"),
        (
            "NodeName=n[1-4] Gres=gpu:8\nPriorityMaxAge=week\n",
            "",
            "slurm.conf: PriorityMaxAge: 'week' is not a time such as",
        ),
        ("NodeName=n[1-4] Gres=gpu:8\nPriorityWeightAge=high\n", "", "slurm.conf: PriorityWeightAge: 'high' is no"),
        (
            "NodeName=n[1-4] Gres=gpu:8\nPartitionName=p Nodes=ALL MaxTime=1:2:3:4\n",
            "",
            "slurm.conf:2: MaxTime: '1:2:3:4' is not a time",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, slurm: str, topology: str, words: str) -> None:
    """A mistake is one line with its place, exit status 2, and no file."""
    status, output = made(tmp_path, slurm, topology)
    assert (status, output.count("\n")) == (2, 1)
    assert words in output
    assert not (tmp_path / "made.yaml").exists()
