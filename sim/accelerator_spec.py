"""What a user may say of an accelerator that the catalog does not have: what differs from one that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, Tag

from sim.fields import Bandwidth, Flops, Model, Size
from sim.perf.hardware import Precision

if TYPE_CHECKING:
    from sim.perf.hardware import Accelerator

__all__ = ["AcceleratorSpec", "AnyAccelerator"]


class AcceleratorSpec(Model):
    """An accelerator that is like one of the catalog, but for what is said here."""

    like: str = Field(description="Name in the catalog of accelerators.")
    peak: dict[Precision, Annotated[Flops, Field(gt=0)]] = Field(
        default_factory=dict, description="Dense peak by precision; others stay."
    )
    memory: Size | None = Field(None, gt=0, description="Device memory.")
    memory_bandwidth: Bandwidth | None = Field(None, gt=0, description="Bandwidth of the device memory.")
    scale_up: Bandwidth | None = Field(None, gt=0, description="Bandwidth of its scale-up links, one direction.")

    def __str__(self) -> str:
        """Return what it is called in tables."""
        return f"{self.like} (changed)"

    def changed(self, base: Accelerator) -> Accelerator:
        """Return the accelerator; it reaches the shares of its peaks that the one it is like does."""
        values: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("memory", "memory_bandwidth", "scale_up")
            if getattr(self, name) is not None
        }
        faster = bool(self.peak or values.keys() - {"memory"})
        node = base.node
        if node is not None and faster:
            node = replace(node, measured=False, source=f"as of the {base.title}: {node.source}")
        return replace(
            base,
            node=node,
            title=f"{base.title}, changed",
            peak=dict(base.peak) | dict(self.peak.items()),
            matmul={name: rate for name, rate in base.matmul.items() if name not in self.peak},
            announced=base.announced or faster,
            **values,
        )


def _kind(value: object) -> str:
    """Tell a name of the catalog from a description."""
    return "a name" if isinstance(value, str) else "a description"


AnyAccelerator: TypeAlias = Annotated[
    Annotated[str, Tag("a name")] | Annotated[AcceleratorSpec, Tag("a description")], Discriminator(_kind)
]
