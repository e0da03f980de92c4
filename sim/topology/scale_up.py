"""Scale-up domains: GPUs that share memory-like links, such as the eight of a board or the 72 of an NVL72 rack."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from sim.fields import Model, RuleError
from sim.topology.fabric import Some

__all__ = ["ScaleUp"]


class ScaleUp(Model):
    """How many GPUs a domain has, how many of them a job needs, and what leaves together when one fails."""

    gpus: Some = Field(description="GPUs of one scale-up domain.")
    use: Some | None = Field(
        None, description="GPUs of a domain that a job takes; the others are its spares. Omitted: all."
    )
    tray: Some | None = Field(None, description="GPUs of a compute tray, which is a node; omitted: gpus_per_node.")
    switch_trays: int = Field(0, ge=0, description="Trays of scale-up switches in a domain; one that fails stops it.")
    drain_unit: Literal["tray", "domain", "rack"] = Field(
        "tray", description="What is out of use while a tray is repaired: the tray, or its whole domain (rack)."
    )
    swap_unit: Literal["tray", "domain", "rack"] = Field(
        "domain",
        description="What a job exchanges when a domain lacks GPUs: the whole domain (rack), or single trays, which "
        "may then come from any domain.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.use is not None and self.use > self.gpus:
            raise RuleError(("use",), f"is {self.use} GPUs, but a scale-up domain has {self.gpus}")
        if self.swap_unit == "tray" and self.use not in (None, self.gpus):
            rule = "is for domains that are swapped whole; with swap_unit: tray a job takes trays wherever they are"
            raise RuleError(("use",), rule)
        if self.swap_unit == "tray" and self.drain_unit != "tray":
            raise RuleError(("drain_unit",), "a domain that is drained whole must be swapped whole: swap_unit: domain")
        return self

    @property
    def drains(self) -> bool:
        """Whether the repair of one tray takes the whole domain out of use."""
        return self.drain_unit != "tray"

    @property
    def used(self) -> int:
        """GPUs of a domain that a job takes [-]."""
        return self.gpus if self.use is None else self.use

    def check(self, gpus_per_node: int, nodes: int, nodes_per_rack: int) -> None:
        """Refuse domains that nodes do not fill.

        Raises
        ------
        RuleError
            At the parameter that is wrong.
        """
        if self.tray is not None and self.tray != gpus_per_node:
            rule = f"is {self.tray} GPUs, but gpus_per_node is {gpus_per_node}; a tray is a node"
            raise RuleError(("tray",), rule)
        for key, value in (("gpus", self.gpus), ("use", self.used)):
            if value % gpus_per_node:
                near = max(round(value / gpus_per_node), 1) * gpus_per_node
                raise RuleError((key,), f"{value} GPUs are not whole nodes of {gpus_per_node}; nearest: {near}")
        each = self.gpus // gpus_per_node
        if nodes % each:
            below = nodes // each * each
            near_nodes = f"{below} or {below + each}" if below else f"{each}"
            rule = (
                f"{nodes * gpus_per_node} GPUs do not divide into scale-up domains of {self.gpus}; nearest numbers of "
                f"nodes: {near_nodes}"
            )
            raise RuleError(("gpus",), rule)
        for key, unit in (("drain_unit", self.drain_unit), ("swap_unit", self.swap_unit)):
            if unit == "rack" and nodes_per_rack != each:
                rule = f"is rack, but a rack has {nodes_per_rack} nodes and a domain {each}; say domain, or rack.nodes"
                raise RuleError((key,), rule)
