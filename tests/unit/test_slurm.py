"""Scenarios from slurm.conf and topology.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

import sim
from analysis.logs.slurm_conf import site
from analysis.page.chapters.inputs import stated_inputs
from cli import app
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
    assert result.fleet is not None
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
    "slurm, topology, words",
    [
        ("NodeName=n[1-4] CPUs=2\n", "", "no NodeName with Gres=gpu:N"),
        ("NodeName=n[1-4 Gres=gpu:8\n", "", "slurm.conf:1: the list of hosts 'n[1-4' has a bracket"),
        ("NodeName=n[1-4] Gres=gpu:8\nPartitionName=p Nodes=n[1-5]\n", "", "slurm.conf:2: 'n5' is no NodeName"),
        ("nonsense\n", "", "slurm.conf:1: 'nonsense' is no setting"),
        ("NodeName=n[1-4] Gres=gpu:8\n", "SwitchName=s Nodes=m[1-4]\n", "puts no node of slurm.conf behind a switch"),
        ("Include other.conf\n", "", "other.conf: cannot be read"),
        (
            "NodeName=n[1-4] Gres=gpu:8\nPriorityMaxAge=week\n",
            "",
            "slurm.conf: PriorityMaxAge: 'week' is no time such as",
        ),
        ("NodeName=n[1-4] Gres=gpu:8\nPriorityWeightAge=high\n", "", "slurm.conf: PriorityWeightAge: 'high' is no"),
        (
            "NodeName=n[1-4] Gres=gpu:8\nPartitionName=p Nodes=ALL MaxTime=1:2:3:4\n",
            "",
            "slurm.conf:2: MaxTime: '1:2:3:4' is no time",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, slurm: str, topology: str, words: str) -> None:
    """A mistake is one line with its place, exit status 2, and no file."""
    status, output = made(tmp_path, slurm, topology)
    assert (status, output.count("\n")) == (2, 1)
    assert words in output
    assert not (tmp_path / "made.yaml").exists()
