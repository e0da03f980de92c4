"""Observers in the job itself: errors, heartbeats, timeouts of collectives and of steps.

(P) is read in the source that is named, (S) reported by another, (A) assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from sim.detection.watcher import ALL_THAT_STOP, Shares, Watcher, shares
from sim.fields import Duration, RuleError
from sim.laws import Fixed, Law, Uniform

if TYPE_CHECKING:
    from sim.laws import LawModel

__all__ = ["CollectiveTimeout", "Heartbeat", "InBand", "Nvrx"]

_ALL = f"100 % of {', '.join(ALL_THAT_STOP)}"


class InBand(Watcher):
    """A process fails with an error, and its launcher tells the others; or the loop of the job checks its own numbers.

    A launcher looks after its processes every 0.1 s, and the others learn of it within 0.1 to 5 s (P: PyTorch
    elastic, ``monitor_interval`` and the cache of the rendezvous). That a lost GPU shows as an error half of the times
    is an assumption (A): without agents it is found at once, or after the timeout of a collective (S: arXiv 2509.16293
    has 10 min). A rule in the loop that watches the loss covers the class spike.
    """

    observer: Literal["in-band"] = "in-band"
    latency: Law = Field("2 s", description="From the error to the moment when all know.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares("process", "storage", gpu="50 %"),  # type: ignore[arg-type]
        description="Share of the faults that show as an error, by class; by default 100 % of process and storage, "
        "50 % of gpu.",
    )

    def law_of(self, fault: str) -> LawModel:
        """Return the same law for all classes."""
        del fault
        return self.latency


class Heartbeat(Watcher):
    """Ranks report progress every `period`, and somebody misses the reports after `timeout`.

    A fault falls anywhere between two reports: the time is ``timeout - U(0, period)``. The timeout is Megatron-Bridge's
    for a job that has warmed up, 300 s (P: its fault-tolerance plugin); a report every 10 s is assumed (A).
    """

    observer: Literal["heartbeat"] = "heartbeat"
    timeout: Duration = Field("5 min", gt=0, description="Time without a report that is too long.")  # type: ignore[assignment]
    period: Duration = Field("10 s", gt=0, description="Time between two reports.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares(*ALL_THAT_STOP),  # type: ignore[arg-type]
        description=f"Share of the faults after which reports are missing, by class; by default {_ALL}.",
    )

    @model_validator(mode="after")
    def _reports_come_in_time(self) -> Self:
        if self.period > self.timeout:
            raise RuleError(("period",), "must not be longer than the timeout: a healthy job would miss it")
        return self

    def law_of(self, fault: str) -> LawModel:
        """Return ``timeout - U(0, period)``."""
        del fault
        return Uniform.from_seconds(low=self.timeout - self.period, high=self.timeout)


class CollectiveTimeout(Watcher):
    """A collective that does not end is given up after `timeout`; the process ends when it has written its state down.

    600 s and 15 s are the defaults of PyTorch (P: ``ProcessGroupNCCL.hpp``, ``kProcessGroupNCCLDefaultTimeout`` and
    ``TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC``). The dump is taken to need all of its time.
    """

    observer: Literal["collective-timeout"] = "collective-timeout"
    timeout: Duration = Field("10 min", gt=0, description="Time after which a collective is given up.")  # type: ignore[assignment]
    dump: Duration = Field("15 s", description="Time for writing down what hangs.")  # type: ignore[assignment]
    covers: Shares = Field(
        shares(*ALL_THAT_STOP),  # type: ignore[arg-type]
        description=f"Share of the faults that leave a collective waiting, by class; by default {_ALL}.",
    )

    def law_of(self, fault: str) -> LawModel:
        """Return ``timeout + dump``."""
        del fault
        return Fixed.from_seconds(value=self.timeout + self.dump)


class Nvrx(Watcher):
    """In-process watchdogs of the NVIDIA Resiliency Extension.

    A step that makes no progress is interrupted after `soft`; a process that cannot be interrupted is killed after
    `hard`; the others miss a dead one after `missing`. 60, 90 and 30 s are its defaults (P: nvidia-resiliency-ext,
    ``inprocess/wrap.py``; Megatron-LM sets 60 s for the last). That a hanging driver or a lost GPU holds its process,
    and nothing else does, is an assumption (A).
    """

    observer: Literal["nvrx"] = "nvrx"
    soft: Duration = Field("60 s", gt=0, description="Time without progress after which a hang is interrupted.")  # type: ignore[assignment]
    hard: Duration = Field(
        "90 s", description="The same for gpu and driver: a process that cannot be interrupted is killed."
    )  # type: ignore[assignment]
    missing: Duration = Field(
        "30 s", gt=0, description="The same for process and host: time without a sign of life of a rank."
    )  # type: ignore[assignment]
    covers: Shares = Field(
        shares(*ALL_THAT_STOP),  # type: ignore[arg-type]
        description=f"Share of the faults that end the progress of a rank, by class; by default {_ALL}.",
    )

    @model_validator(mode="after")
    def _softly_first(self) -> Self:
        if self.hard <= self.soft:
            raise RuleError(("hard",), "must be longer than soft: who can be interrupted is not killed")
        return self

    def law_of(self, fault: str) -> LawModel:
        """Return the watchdog that a class of faults trips."""
        value = self.hard if fault in ("gpu", "driver") else self.missing if fault in ("process", "host") else self.soft
        return Fixed.from_seconds(value=value)
