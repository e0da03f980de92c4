"""What every observer has: the classes of faults that it covers, and a law of its time for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, field_validator

from sim import catalog
from sim.contracts import FAULTS
from sim.fields import Fraction, Model, RuleError
from sim.noticing import Observer

if TYPE_CHECKING:
    from pydantic import ValidationInfo

    from sim.laws import LawModel

__all__ = ["ALL_THAT_STOP", "SILENT", "ByClass", "Shares", "Watcher", "shares"]

SILENT = {"slow": "slow", "degrade": "slow", "corrupt": "corrupt", "spike": "spike"}
"""Class of a fault that does not stop the job, by the kind of its effect."""

ALL_THAT_STOP = ("process", "gpu", "driver", "host", "nic", "switch", "hang", "storage")
"""Classes of faults that stop a job sooner or later, whatever else they do."""


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by class of faults, if these are classes."""
    for name in values:
        if name not in FAULTS:
            raise RuleError((name,), catalog.unknown("class of faults", name, FAULTS))
    return values


ByClass = AfterValidator(_known)
"""Annotation of a mapping by class of faults."""

Shares = Annotated[dict[str, Fraction], ByClass]


def shares(*classes: str, **others: str) -> dict[str, str]:
    """Return the default of `covers`: `classes` in whole, and `others` in part."""
    return {**dict.fromkeys(classes, "100 %"), **others}


class Watcher(Model, ABC):
    """Somebody who watches, and by whom some classes of faults are noticed.

    What is stated by class replaces the default of that class alone.
    """

    observer: str
    covers: Shares
    _needs_stop: ClassVar[bool] = True
    """Whether it is the job that it watches, and sees nothing of a fault in a part while the job steps on."""

    @field_validator("covers", "latency", mode="before", check_fields=False)
    @classmethod
    def _over_the_defaults(cls, value: Any, info: ValidationInfo) -> Any:
        assert info.field_name is not None
        default = cls.model_fields[info.field_name].default
        return {**default, **value} if isinstance(value, dict) and isinstance(default, dict) else value

    def sees(self, fault: str, kind: str) -> Observer | None:
        """Return how it notices faults of a class whose effect is of some `kind`; ``None`` if it never does.

        A fault that does not stop the job is of the class that its effect has, for all who look at the job alone.
        """
        silent = SILENT.get(kind)
        if silent is not None and (self._needs_stop or not self.covers.get(fault)):
            fault = silent
        share = self.covers.get(fault, 0.0)
        return Observer(self.observer, share, self.law_of(fault)) if share else None

    @abstractmethod
    def law_of(self, fault: str) -> LawModel:
        """Return the law of the time until it notices a fault of a class that it covers."""
