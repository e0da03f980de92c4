r"""The time of a step when something is slow, narrow or missing, to first order.

A synchronous step waits for its slowest member: a slow GPU holds up its tensor group, that one its stage, the stage its
pipeline, and the pipeline all replicas; a collective runs at the bandwidth of its narrowest member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from sim.perf.step import Breakdown, breakdown

if TYPE_CHECKING:
    from sim.perf.step import Machine
    from sim.perf.workload import Workload

__all__ = ["Impairment", "impaired", "rerouted_pace", "stated_pace"]


_EXCHANGES = ("tensor", "context", "expert", "pipeline", "data")


@dataclass(frozen=True, slots=True)
class Impairment:
    """What is wrong with a job.

    Parameters
    ----------
    compute
        Pace of its slowest GPU, computing and memory alike, relative to a healthy one [-].
    network
        Share of the NICs' bandwidth that its narrowest member has left [-].
    scale_up
        The same of scale-up links [-].
    missing
        Replicas that are gone [-].
    keeps_batch
        Whether the others take over the missing replicas' share of the batch.
    tensor
        Tensor ranks that one replica has left [-]; 0 for all of them.
    """

    compute: float = 1.0
    network: float = 1.0
    scale_up: float = 1.0
    missing: int = 0
    keeps_batch: bool = False
    tensor: int = 0

    def __post_init__(self) -> None:
        """Refuse what no job can step with."""
        for name in ("compute", "network", "scale_up"):
            if not 0 < getattr(self, name) <= 1:
                msg = f"{name} is the share that is left, above 0 and at most 1, not {getattr(self, name)}"
                raise ValueError(msg)


def impaired(work: Workload, machine: Machine, state: Impairment) -> Breakdown:
    """Return where the time of a step goes in an impaired job [s].

    Raises
    ------
    ValueError
        If no replica is left, or more tensor ranks than there are.

    Notes
    -----
    With the batch kept, m' = ceil(G / (b (d - k))) microbatches: the cost of a missing replica is a staircase. With a
    smaller batch the step takes as long as before, and trains on (d - k) / d of the samples.
    """
    if not 0 <= state.missing < work.data:
        msg = f"{state.missing} of {work.data} replicas cannot be missing"
        raise ValueError(msg)
    if not 0 <= state.tensor <= work.tensor:
        msg = f"of {work.tensor} tensor ranks {state.tensor} cannot be left"
        raise ValueError(msg)
    left = work.data - state.missing
    sequences = work.sequences if state.keeps_batch else ceil(work.sequences * left / work.data)
    links = machine.links.with_network(state.network).with_scale_up(state.scale_up)
    narrow = replace(machine, links=links)
    fewer = replace(work, data=left, sequences=sequences) if state.missing else work
    healthy = breakdown(fewer, narrow)
    if state.compute == 1.0 and state.tensor in (0, work.tensor):
        return healthy
    chip = machine.chip
    slow = replace(
        chip,
        peak={name: peak * state.compute for name, peak in chip.peak.items()},
        memory_bandwidth=chip.memory_bandwidth * state.compute,
    )
    hurt = replace(fewer, tensor=state.tensor or work.tensor)
    found = breakdown(hurt, replace(narrow, chip=slow))
    # Every microbatch waits for the one slow stage; the others fill and drain the pipeline at their own pace.
    # What the others exchange takes no less time than before.
    waits = {name: max(getattr(healthy, name), getattr(found, name)) for name in _EXCHANGES}
    return found._replace(bubble=healthy.bubble, **waits)


def stated_pace(share: float, bandwidth: float, speed: float = 1.0) -> float:
    """Return the pace of a job that says what share c of a step waits for the network [-]: 1 / (1 - c + c / b).

    With a share b of its bandwidth left; or that of its slowest node, if that is less.
    """
    return min(speed, 1 / (1 - share + share / bandwidth))


def rerouted_pace(microbatches: int, stages: int, replicas: int, missing: int) -> float:
    r"""Return the pace of a job whose other replicas do the work of lost stages too, relative to the whole job [-].

    .. math:: \frac{m + p - 1}{\max(m\, d / (d - k),\ m + p - 1)}

    With k of d peers of a stage lost, the other d - k do its m microbatches of each replica; what fits into the bubbles
    of a pipeline of p stages costs nothing. All losses are taken to be in one stage, which is the slowest case.

    Parameters
    ----------
    microbatches, stages
        Of one replica [-].
    replicas, missing
        Pipelines of the whole job, and those that have lost a stage [-].

    Raises
    ------
    ValueError
        If no peer is left.

    References
    ----------
    "ReCycle: resilient training of large DNNs using pipeline adaptation", arXiv 2405.14009: work goes to peers of the
    same stage, in bubbles where the backward pass is split. The formula is ours, an approximation.
    """
    if not 0 <= missing < replicas:
        msg = f"{missing} of {replicas} replicas cannot be missing"
        raise ValueError(msg)
    whole = microbatches + stages - 1
    return float(whole / max(microbatches * replicas / (replicas - missing), whole))
