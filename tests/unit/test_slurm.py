"""Scenarios from slurm.conf and topology.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

import sim
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
    """Nodes, GPUs, type, leaves, timeout and the job's partition are those of the files; what is left out is listed."""
    assert made(tmp_path, SLURM, TOPOLOGY)[0] == 0
    found = sim.load(tmp_path / "made.yaml")
    cluster = found.dump()["cluster"]
    assert (found.cluster.nodes, found.cluster.gpus_per_node, cluster["accelerator"]) == (256, 8, "h100")
    assert cluster["fabric"]["leaf"]["nodes"] == 32
    assert found.jobs[0].gpus == 228 * 8  # 95 % of the default partition
    slurm = [each for each in found.dump()["detection"]["observers"] if each["use"] == "slurm"]
    assert slurm[0]["timeout"] == "10 min"
    assert any("left out: 10 with 4 GPUs" in text for text in found.assumptions)
    text = (tmp_path / "made.yaml").read_text()
    assert "# partition main: 240 nodes, PriorityTier=10, MaxTime=7-00:00:00" in text
    assert "# partition short: 267 nodes, MaxTime=4:00:00, PreemptMode=requeue" in text
    assert sim.run(sim.prepare(found), 0).jobs[0].work > 0


@cases(
    "slurm, topology, words",
    [
        ("NodeName=n[1-4] CPUs=2\n", "", "no NodeName with Gres=gpu:N"),
        ("NodeName=n[1-4 Gres=gpu:8\n", "", "slurm.conf:1: the list of hosts 'n[1-4' has a bracket"),
        ("NodeName=n[1-4] Gres=gpu:8\nPartitionName=p Nodes=n[1-5]\n", "", "slurm.conf:2: 'n5' is no NodeName"),
        ("nonsense\n", "", "slurm.conf:1: 'nonsense' is no setting"),
        ("NodeName=n[1-4] Gres=gpu:8\n", "SwitchName=s Nodes=m[1-4]\n", "puts no node of slurm.conf behind a switch"),
        ("Include other.conf\n", "", "other.conf: cannot be read"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, slurm: str, topology: str, words: str) -> None:
    """A mistake is one line with its place, exit status 2, and no file."""
    status, output = made(tmp_path, slurm, topology)
    assert (status, output.count("\n")) == (2, 1)
    assert words in output
    assert not (tmp_path / "made.yaml").exists()
