"""Where time can land, and what can break, by name."""

from __future__ import annotations

from enum import IntEnum

__all__ = [
    "CLUSTER_BUCKETS",
    "FAULTS",
    "JOB_BUCKETS",
    "NO_FAILURE",
    "OF_ONE_RANK",
    "Bucket",
]

NO_FAILURE = "no_failure"
"""The cause of what would be lost without any failure: first start, saving, queueing, idle nodes."""


class Bucket(IntEnum):
    """Where a GPU-second can land. The first twelve belong to jobs, the rest to nodes outside jobs."""

    PRODUCTIVE = 0
    DEGRADED = 1
    CHECKPOINT_STALL = 2
    LOST_WORK = 3
    DETECTION = 4
    RESCHEDULE = 5
    INITIALIZE = 6
    RESTORE = 7
    STARVED = 8
    QUEUED = 9
    MAINTENANCE = 10
    AUXILIARY = 11
    SPARE_IDLE = 12
    DRAINING = 13
    REPAIR = 14
    QUALIFICATION = 15
    STRANDED = 16
    UNALLOCATED = 17


JOB_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket if bucket <= Bucket.AUXILIARY)
CLUSTER_BUCKETS = tuple(bucket.name.lower() for bucket in Bucket)

FAULTS: dict[str, str] = {
    "process": "a process ends with an error: CUDA error, bug, lost dependency",
    "gpu": "a GPU is lost or has uncontained memory errors",
    "driver": "driver, GSP or firmware hangs",
    "host": "kernel panic, power, reboot: the node is gone",
    "nic": "a NIC or its cable is down",
    "switch": "a switch, or the cables behind it, is down",
    "hang": "a collective hangs and nothing tells which node it is",
    "slow": "a node or its network is slow",
    "corrupt": "a node computes wrongly and says nothing",
    "spike": "the loss leaves its course, for no fault of the hardware",
    "storage": "the store of checkpoints cannot be reached",
    "planned": "somebody stops the job",
}
"""Classes of faults, by what those who watch can see of them: who detects a fault, and when, depends on its class."""

OF_ONE_RANK = frozenset({"process", "gpu", "driver", "host", "nic"})
"""Classes of faults that strike one rank: replicas that can do without it may go on."""
